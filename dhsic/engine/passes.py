"""Row blocks of passes, chosen before anything runs, with their memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dhsic.engine.blocks import GROUPS, PAIRS, Source, block_bounds, group_bounds
from dhsic.engine.plan import PassPlan
from dhsic.engine.reading import (
    bytes_read_of,
    is_shared,
    split_sources,
    taken_bytes,
    task_bytes,
    tasks_bytes,
)
from dhsic.engine.reduction import Pass
from dhsic.engine.runtime import Runtime
from dhsic.engine.together import cut_bytes, row_bytes, together
from dhsic.engine.tree import most_waiting


def plan_pass(reduction: Pass[Any], sources: Sequence[Source], runtime: Runtime) -> PassPlan:
    """Choose the blocks of a pass and predict its memory."""
    chunk_rows = max((source.chunk_rows or 0 for source in sources), default=0)
    n, groups, row = sources[0].shape[0], reduction.groups, row_bytes(sources)
    if groups is None:
        bounds = block_bounds(n, row, chunk_rows or None, reduction.row_multiple)
    elif reduction.one_block:
        bounds = [0, groups.count]
    else:
        state = reduction.footprint(groups.size).state
        grain = PAIRS if reduction.pairs else GROUPS
        bounds = group_bounds(groups.n, groups.count, row, chunk_rows, state, grain)
    # Bytes are not known yet: `_costed` needs the bounds to tell them.
    named = PassPlan(reduction.name, n, tuple(bounds), 0, 0, 0, 0, reduction.pairs, groups=groups)
    plan = replace(named, rows_per_block=int(named.block_rows.max()))
    return _costed(plan, reduction, sources, runtime)


def _costed(
    plan: PassPlan, reduction: Pass[Any], sources: Sequence[Source], runtime: Runtime
) -> PassPlan:
    """The plan with its bytes."""
    n, remote = plan.n, runtime.client is not None
    plan = replace(plan, split=split_sources(sources, plan, here=not remote))
    cost = reduction.footprint(plan.rows_per_block)
    # Arrays in memory are sent to the workers whole, and one of them may get it all, as it may of
    # what a graph computes where all pairs share it.
    sent = n * sum(s.row_bytes for s in sources if remote and s.place == "memory")
    kept = sent + n * sum(cut_bytes(s) for m, s in enumerate(sources) if is_shared(m, s, plan))
    threads = min(runtime.worker_threads, plan.leaves)
    plan = replace(plan, bytes_to_driver=cost.state)
    # Beside those that wait every thread has one, and works in a block or makes a new one; two on
    # the way to the sum of more than two.
    states = min(threads + most_waiting(plan.leaves, plan.fan_in), plan.leaves) * cost.state
    adding = (min(plan.leaves, plan.fan_in, 3) - 1) * cost.state
    working = max(task_bytes(sources, plan, cost.scratch), adding)
    passing = cost.payload + kept + tasks_bytes(sources, plan, working, states, threads)
    # Rows for the sample of an estimator are taken by the same workers, at another time.
    taking = runtime.worker_threads * max(map(taken_bytes, sources)) if remote else 0
    read = sum(bytes_read_of(at[0], sources[at[0]], plan) for at in together(sources))
    return replace(plan, bytes_read=read, worker_bytes=max(passing, taking), sent_bytes=sent)
