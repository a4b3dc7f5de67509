"""What scheduling costs on many workers: measured on a real scheduler, and simulated.

The graph is that of a pass as the package builds it, a task for each row block and a tree that
combines the results; its tasks do nothing. The scheduler is a process of its own. Its workers are
echoes, see `benchmarks.shared.many_workers`, so that the processor is left to it. What is read is
processor time, which other work on the machine hardly changes: that of the client until the first
task comes to a worker (`build`), that of the scheduler until then (`submit`) and for the rest
(`finish`). Writes benchmarks/results/scheduler_cost.csv, whose rows are kept: also the most workers
for which the scheduler is busy for at most a tenth of the time, by seconds of a task.

`simulate` replays a pass with a clock of its own: a client that builds the graph, a scheduler that
serves one message at a time, workers of one thread that hold two tasks as Dask lets them, links
that fetch one partial result after another, and the tree. Writes
benchmarks/results/simulated_cluster.csv: passes of tasks that sleep on the real scheduler, beside
the simulation and `formula`, with the costs of the most tasks above.

    python -m benchmarks run simulated_cluster
"""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import click
import numpy as np
import psutil

from benchmarks.shared.many_workers import (
    ManyWorkers,
    Nothing,
    Sleeps,
    many_workers,
    processor_seconds,
)
from benchmarks.shared.output import read_csv, write_csv
from dhsic.engine.plan import PassPlan
from dhsic.engine.run import run_pass
from dhsic.engine.runtime import Runtime
from dhsic.engine.tree import FAN_IN

SIZES = ((100, 10_000), (100, 100_000), (1000, 10_000), (10, 10_000), (100, 30_000))
PASSES = ((20, 400, 0.2), (50, 1000, 0.2), (20, 1000, 0.05))
HELD = 2  # tasks that Dask lets a worker of one thread hold: ceil(1.1 threads)
KEYS = ("workers", "tasks asked")


@dataclass(frozen=True)
class Costs:
    """Seconds that a pass takes besides its work."""

    build: float
    """Of the client for a task, before anything runs."""
    submit: float
    """Of the scheduler for a task, before anything runs."""
    finish: float
    """Of the scheduler for a task, from its assignment until it is forgotten."""
    latency: float = 0.0005
    """Of a message."""


class Pass(NamedTuple):
    """A pass over row blocks, to whoever schedules it."""

    blocks: int
    block_seconds: float
    combine_seconds: float = 0.0
    fetch_seconds: float = 0.0
    """Of a partial result, from one worker to another."""

    @property
    def levels(self) -> list[int]:
        """Tasks of every level: the blocks, then those that combine."""
        sizes = [self.blocks]
        while sizes[-1] > 1:
            sizes.append(-(-sizes[-1] // FAN_IN))
        return sizes


def formula(work: Pass, workers: int, costs: Costs) -> float:
    """Seconds of a pass: the graph; then workers or scheduler, whichever is longer; the last path.

    A worker combines its share of the tree too, and fetches nearly all of what it combines.
    """
    tasks = sum(work.levels)
    merged = (tasks - work.blocks) * work.combine_seconds / workers
    fetched = work.blocks * work.fetch_seconds / workers
    working = math.ceil(work.blocks / workers) * work.block_seconds + merged
    depth = len(work.levels) - 1
    one = work.combine_seconds + FAN_IN * work.fetch_seconds + costs.finish + 2 * costs.latency
    ahead = (costs.build + costs.submit) * tasks
    return ahead + max(working, fetched, costs.finish * tasks) + depth * one + 2 * costs.latency


class Simulated(NamedTuple):
    """A pass under the fake clock."""

    seconds: float
    scheduler_share: float
    """Of the time, that the scheduler is busy."""


@dataclass
class _Workers:
    """What every worker holds, waits for and runs."""

    held: list[int]
    queues: list[list[tuple[int, int]]]
    idle: list[bool]
    link: list[float]

    @classmethod
    def of(cls, count: int) -> _Workers:
        return cls([0] * count, [[] for _ in range(count)], [True] * count, [0.0] * count)


def simulate(work: Pass, workers: int, costs: Costs) -> Simulated:
    """Run a pass under a fake clock."""
    starts = np.concatenate([[0], np.cumsum(work.levels)]).tolist()
    tasks, top = starts[-1], len(work.levels) - 1
    level_of = np.repeat(np.arange(top + 1), work.levels).tolist()
    pool, place = _Workers.of(workers), [0] * tasks
    waiting: Counter[int] = Counter()
    events: list[tuple[float, int, Literal["ready", "done"], int, int]] = []
    clock = busy = (costs.build + costs.submit) * tasks
    leaf = order = 0

    def post(at: float, kind: Literal["ready", "done"], worker: int, task: int) -> None:
        nonlocal order
        order += 1
        heapq.heappush(events, (at, order, kind, worker, task))

    def assign(task: int, worker: int, now: float) -> None:
        """Send a task; it is ready when its partial results are there, one after another."""
        pool.held[worker] += 1
        at = now + costs.latency
        if (level := level_of[task]) > 0:
            first = starts[level - 1] + FAN_IN * (task - starts[level])
            others = range(first, min(first + FAN_IN, starts[level]))
            remote = sum(place[other] != worker for other in others)
            pool.link[worker] = at = max(at, pool.link[worker]) + remote * work.fetch_seconds
        post(at, "ready", worker, task)

    def feed(worker: int, now: float) -> None:
        nonlocal leaf
        while leaf < work.blocks and pool.held[worker] < HELD:
            assign(leaf, worker, now)
            leaf += 1

    def start(worker: int, now: float) -> None:
        if pool.idle[worker] and pool.queues[worker]:
            _, task = heapq.heappop(pool.queues[worker])
            pool.idle[worker] = False
            seconds = work.combine_seconds if level_of[task] else work.block_seconds
            post(now + seconds, "done", worker, task)

    for number in range(HELD * workers):
        if leaf < work.blocks:
            assign(leaf, number % workers, clock)
            leaf += 1
    while events:
        now, _, kind, worker, task = heapq.heappop(events)
        if kind == "ready":
            heapq.heappush(pool.queues[worker], (-level_of[task], task))
            start(worker, now)
            continue
        pool.idle[worker], place[task] = True, worker
        start(worker, now)
        clock = max(clock, now + costs.latency) + costs.finish
        busy += costs.finish
        pool.held[worker] -= 1
        if (level := level_of[task]) < top:
            parent = starts[level + 1] + (task - starts[level]) // FAN_IN
            waiting[parent] += 1
            first = FAN_IN * (parent - starts[level + 1])
            if waiting[parent] == min(FAN_IN, work.levels[level] - first):
                assign(parent, worker, clock)
        feed(worker, clock)
    return Simulated(clock + costs.latency, (busy - costs.build * tasks) / clock)


def sleep(blocks: int, seconds: float, client: Any) -> float:
    """Seconds of a pass of tasks that sleep, on real workers."""
    plan = PassPlan("sleep", tuple(range(blocks + 1)), 0, 0, 0)
    runtime = Runtime(1, 2**31, 1, client)
    began = time.perf_counter()
    run_pass(Sleeps(seconds), [Nothing(blocks)], plan, runtime, lambda event: None)
    return time.perf_counter() - began


def served(blocks: int, there: ManyWorkers) -> tuple[Costs, float]:
    """What an empty pass takes of client and scheduler for a task, and of the client in all."""
    tasks = sum(Pass(blocks, 0.0).levels)
    processes = psutil.Process(), there.scheduler
    before = np.array([processor_seconds(process) for process in processes])
    sleep(blocks, 0.0, there.client)
    after = np.array([processor_seconds(process) for process in processes])
    first = np.array(there.first)
    (build, submit), (rest, finish) = (first - before) / tasks, (after - first) / tasks
    return Costs(build, submit, finish), build + rest


def blocks_for(tasks: int) -> int:
    """Row blocks of a pass of about so many tasks."""
    return max(1, round(tasks * (FAN_IN - 1) / FAN_IN))


def cost_rows(
    sizes: Sequence[tuple[int, int]], done: list[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """What tasks that do nothing take of the scheduler."""
    yield from done
    known = {tuple(row[key] for key in KEYS) for row in done}
    for workers, asked in sizes:
        if (str(workers), str(asked)) in known:
            continue
        with many_workers(workers, 1, echo=True) as there:
            memory, began = there.scheduler.memory_info().rss, time.perf_counter()
            costs, client = served(blocks_for(asked), there)
            seconds = time.perf_counter() - began
            grown = there.scheduler.memory_info().rss - memory
        tasks = sum(Pass(blocks_for(asked), 0.0).levels)
        scheduler = costs.submit + costs.finish
        yield {
            "workers": workers,
            "tasks asked": asked,
            "tasks": tasks,
            "build ms a task": 1000 * costs.build,
            "submit ms a task": 1000 * costs.submit,
            "finish ms a task": 1000 * costs.finish,
            "client ms a task": 1000 * client,
            "most tasks a second": 1 / scheduler,
            "seconds": seconds,
            "KiB a task": grown / tasks / 1024,
            **{f"workers, tasks of {t} s": most_workers(t, scheduler) for t in (0.1, 1, 10)},
        }


def most_workers(task_seconds: float, scheduler: float, share: float = 0.1) -> float:
    """Workers beyond which the scheduler is busy for more than a share of the time.

    W workers finish W / task_seconds blocks a second, and each block brings 1 / (FAN_IN - 1) of a
    task that combines.
    """
    return share * task_seconds / (scheduler * FAN_IN / (FAN_IN - 1))


def typical_costs(path: str) -> Costs:
    """Of the row of scheduler_cost.csv with the most tasks."""
    row = max(read_csv(path), key=lambda row: int(row["tasks"]))
    parts = ("build", "submit", "finish")
    return Costs(*(float(row[f"{part} ms a task"]) / 1000 for part in parts))


def checked_rows(
    passes: Sequence[tuple[int, int, float]], processes: int, costs: Costs
) -> Iterator[dict[str, Any]]:
    """Passes on the real scheduler beside the simulation."""
    for workers, blocks, seconds in passes:
        with many_workers(workers, processes) as there:
            sleep(workers, 0.0, there.client)
            took = sleep(blocks, seconds, there.client)
        work = Pass(blocks, seconds)
        simulated, closed = simulate(work, workers, costs), formula(work, workers, costs)
        yield {
            "workers": workers,
            "blocks": blocks,
            "task seconds": seconds,
            "measured seconds": took,
            "simulated seconds": simulated.seconds,
            "simulated over measured": simulated.seconds / took,
            "formula seconds": closed,
            "formula over measured": closed / took,
            "scheduler share": simulated.scheduler_share,
        }


@click.command(help=__doc__)
@click.option("--size", "sizes", type=(int, int), multiple=True, default=SIZES)
@click.option("--pass", "passes", type=(int, int, float), multiple=True, default=PASSES)
@click.option("--processes", default=4, help="That the workers share.")
@click.option("--checked", default="benchmarks/results/simulated_cluster.csv")
@click.option("--out", default="benchmarks/results/scheduler_cost.csv")
def main(
    sizes: tuple[tuple[int, int], ...],
    passes: tuple[tuple[int, int, float], ...],
    processes: int,
    checked: str,
    out: str,
) -> None:
    write_csv(out, cost_rows(sizes, read_csv(out)))
    write_csv(checked, checked_rows(passes, processes, typical_costs(out)))


if __name__ == "__main__":
    main()
