"""The text of a plan, its labelled facts, and a record of every step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dhsic.engine.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from dhsic.engine.plan import DriverStep, PassPlan, Plan

_LONG = 600.0  # seconds, beyond which another machine is worth it


def plan_lines(plan: Plan) -> list[str]:
    """All that would run, step by step."""
    return [
        f"{plan.n:,} rows of {', '.join(plan.variables)}",
        *([f"{plan.n_landmarks:,} landmarks before pruning"] if plan.n_landmarks else []),
        f"runs on {_where(plan)}",
        *map(_step_line, plan.steps),
        f"peak memory {_memory_text(plan)}",
        *_times_text(plan),
    ]


def plan_summary(plan: Plan) -> list[tuple[str, str]]:
    """Labels with texts, beside the records of the steps."""
    landmarks = [("landmarks", f"{plan.n_landmarks:,} before pruning")] if plan.n_landmarks else []
    return [
        ("rows", f"{plan.n:,} of {', '.join(plan.variables)}"),
        *landmarks,
        ("runs on", _where(plan)),
        ("peak memory", _memory_text(plan)),
        ("time", "; ".join(_times_text(plan))),
    ]


def plan_records(plan: Plan) -> list[dict[str, Any]]:
    """Every step with its memory in a process and its seconds."""
    names = [step.name for step in plan.steps]
    seconds = {} if plan.timed is None else plan.timed.steps
    # Passes of one name share their seconds.
    shares = {name: seconds[name] / names.count(name) for name in names if name in seconds}
    return [
        {"step": step.name, **_where_runs(step), "seconds": shares.get(step.name)}
        for step in plan.steps
    ]


def _where_runs(step: DriverStep | PassPlan) -> dict[str, Any]:
    if hasattr(step, "working_bytes"):
        read = {"blocks": None, "bytes_read": None}
        return {"where": "driver", **read, "bytes": step.working_bytes}
    return {
        "where": "pass",
        "blocks": step.blocks,
        "bytes_read": step.bytes_read,
        "bytes": step.worker_bytes,
    }


def _where(plan: Plan) -> str:
    threads, workers = plan.runtime.threads, plan.runtime.workers
    if plan.runtime.client is None:
        return f"{format_count(threads, 'thread')} of this process"
    return f"{format_count(workers, 'worker')} with {format_count(threads, 'thread')} in all"


def _step_line(step: DriverStep | PassPlan) -> str:
    if hasattr(step, "working_bytes"):
        return f"driver  {step.name}: {format_bytes(step.working_bytes)}"
    pairs = f"{format_count(step.leaves, 'pair')} of " if step.pairs else ""
    return (
        f"pass    {step.name}: {pairs}{format_count(step.blocks, 'block')} of up to "
        f"{step.rows_per_block:,} rows, {format_count(step.tasks, 'task')}, reads "
        f"{format_bytes(step.bytes_read)}, {format_bytes(step.worker_bytes)} a worker, "
        f"{format_bytes(step.bytes_to_driver)} to the driver"
    )


def _memory_text(plan: Plan) -> str:
    return (
        f"of a worker {format_bytes(plan.peak_worker_bytes)}, of the driver "
        f"{format_bytes(plan.peak_driver_bytes)}, allowed {format_bytes(plan.runtime.memory)}"
    )


def _times_text(plan: Plan) -> list[str]:
    """The seconds, and what they are from."""
    seconds, elapsed = plan.processor_seconds, plan.seconds
    if plan.timed is None or seconds is None or elapsed is None:
        return ["seconds are not known: no block of these data was timed"]
    units = {step.name: step.unit for step in plan.passes}
    timed = plan.timed.blocks.items()
    blocks = (f"{n:,} {units.get(name, 'replicates')} of {name!r}" for name, n in timed)
    lines = [f"about {format_seconds(seconds)} of one thread, from timing {', '.join(blocks)}"]
    if plan.runtime.threads > 1:
        lines.append(f"about {format_seconds(elapsed)} of {plan.runtime.threads:,} threads")
    if seconds > _LONG * plan.runtime.threads:
        lines.append(f"{math.ceil(seconds / _LONG):,} threads would take ten minutes")
    return lines
