"""Rates of this machine for `benchmarks.costs`, from a few short runs of the package's own code.

Every rate is in processor seconds of one thread, the least of some repeats, so that other work on
the machine matters little. Tasks of the passes, on blocks of many shapes, are fitted by least
squares of relative errors with rates that are not negative; so are the steps of the driver. What a
task takes on a worker process besides is that of an empty one, and the rest of one whole test; of
that the time in which the worker is idle is a wall time, and needs a quiet machine.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import zarr
from numpy.typing import NDArray
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

import dhsic
from benchmarks.costs import (
    PASSES,
    Counts,
    Job,
    Machine,
    Workers,
    gram_counts,
    predict,
    tree_tasks,
)
from benchmarks.many_workers import Nothing, Sleeps
from dhsic.cluster import local_cluster
from dhsic.engine.plan import PassPlan
from dhsic.engine.reduction import RowBlock, add
from dhsic.engine.run import run_pass
from dhsic.engine.runtime import Runtime
from dhsic.io.open import open_variables
from dhsic.kernels import Gaussian
from dhsic.linalg import pivoted_cholesky, solve_lower, squared_norms

Array = NDArray[Any]
Shape = tuple[int, tuple[int, ...], int, int]
Terms = dict[str, float]

PRECISIONS = ("float32", "float64")
SHAPES: list[Shape] = [  # rows of a block, columns of the variables, landmarks, signs
    (4096, (1, 1), 300, 100),
    (4096, (1, 1), 1500, 500),
    (10_000, (1, 1), 700, 250),
    (4096, (5, 1), 1000, 250),
    (8192, (10, 1), 500, 250),
    (4096, (10, 1), 2000, 100),
    (6000, (30, 30), 600, 250),
    (4096, (30, 1), 250, 1000),
    (4096, (90, 1), 1000, 250),
    (16_384, (90, 1), 500, 500),
    (5000, (90, 90), 400, 100),
    (4096, (200, 2), 800, 250),
    (4096, (5, 1, 1), 600, 250),
    (4096, (20, 20, 20), 500, 100),
    (6000, (1, 1, 1, 1), 500, 250),
    (2048, (60, 1), 128, 500),
]
GRAMS = [(300, 2), (600, 40), (1000, 10), (1500, 90), (2200, 20)]
SOLVES = [(300, 100), (600, 500), (1200, 250), (2000, 250)]


class Sums(NamedTuple):
    """A partial result."""

    values: Array


def least(function: Callable[[], Any], repeats: int) -> float:
    """The least processor seconds of a call."""
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        function()
        taken.append(time.process_time() - began)
    return min(taken)


def fit(counts: Sequence[Counts], seconds: Sequence[float]) -> dict[str, float]:
    """Rates of all terms, none negative, that leave the least squares of relative errors."""
    terms = sorted(set().union(*counts))
    design = np.array([[one.get(term, 0.0) for term in terms] for one in counts])
    design /= np.array(seconds)[:, None]
    scale = np.maximum(design.max(axis=0), np.finfo(float).tiny)
    rates = nnls(design / scale, np.ones(len(seconds)))[0] / scale
    return dict(zip(terms, rates.tolist(), strict=True))


def data_of(rows: int, dims: Sequence[int], precision: str) -> list[Array]:
    """Normal variables."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((rows, d)).astype(precision) for d in dims]


def kernels_for(dims: Sequence[int]) -> list[Gaussian]:
    """Near the median heuristic."""
    return [Gaussian(gamma=0.5 / d) for d in dims]


def task_runs(
    precision: str, shapes: Sequence[Shape]
) -> Iterator[tuple[Counts, Callable[[], Any]]]:
    """Tasks of both passes, with what they count."""
    for rows, dims, r, resamples in shapes:
        job = Job(rows, dims, r, r, resamples, precision)
        block = RowBlock(0, tuple(data_of(rows, dims, precision)))
        points = data_of(r, dims, "float64")
        for name, reduction in job.reductions(kernels_for(dims), points).items():
            yield job.counts(name, rows), partial(reduction.chunk, block)


def driver_runs(
    grams: Sequence[tuple[int, int]], solves: Sequence[tuple[int, int]]
) -> Iterator[tuple[Counts, Callable[[], Any]]]:
    """Gram matrices, factors and solves, each by itself."""
    for p, d in grams:
        points = data_of(p, [d], "float64")[0]
        kernel = Gaussian(gamma=0.5 / d)
        gram = kernel(points)
        yield gram_counts(p, (d,)), partial(kernel, points)
        rank = pivoted_cholesky(gram.copy(), 0.0).rank
        operations = (p**3 - (p - rank) ** 3) / 3
        counts = {"factor operation": operations, "factor entry": float(p * p)}
        yield counts, lambda gram=gram: pivoted_cholesky(gram.copy(), 0.0)  # type: ignore[misc]
    for r, resamples in solves:
        factor = np.tril(data_of(r, [r], "float64")[0]) / r + np.eye(r)
        values = data_of(r, [resamples + 1], "float64")[0]
        counts = {"solve operation": r * r * (resamples + 1.0), "solved number": values.size}
        yield counts, lambda f=factor, v=values: squared_norms(solve_lower(f, v))  # type: ignore[misc]


def crowding(shapes: Sequence[Shape], threads: int, repeats: int) -> Terms:
    """Processor seconds of tasks where all threads work, over those of one alone, by pass."""

    def slower(chunk: Callable[[], Any]) -> float:
        calls = 4 * threads
        together = least(lambda: list(pool.map(lambda _: chunk(), range(calls))), repeats)
        return together / calls / least(chunk, repeats)

    with ThreadPoolExecutor(threads) as pool:
        found = [slower(chunk) for _, chunk in task_runs("float32", shapes)]
    typical = [max(1.0, float(np.median(found[i :: len(PASSES)]))) for i in range(len(PASSES))]
    return {f"crowding of {name}": value for name, value in zip(PASSES, typical, strict=True)}


def added_byte(repeats: int) -> float:
    """Of two partial results, for each byte of one."""
    state = (np.zeros((1000, 250)),)
    many = [Sums(*state)] * 8
    return least(lambda: [add(one, one) for one in many], repeats) / (8 * state[0].nbytes)


def empty_pass(blocks: int, client: Any) -> tuple[float, float]:
    """Seconds and processor seconds, here, of a pass that does nothing."""
    plan = PassPlan("sleep", tuple(range(blocks + 1)), 0, 0, 0)
    runtime = Runtime(1, 2**31, 1, client)
    began, own = time.perf_counter(), time.process_time()
    run_pass(Sleeps(0.0), [Nothing(blocks)], plan, runtime, lambda event: None)
    return time.perf_counter() - began, time.process_time() - own


def thread_rates(shapes: Sequence[Shape], threads: int, blocks: int, repeats: int) -> Terms:
    """What tasks on threads take besides."""
    tasks = blocks + tree_tasks(blocks)[0]
    return {
        **crowding(shapes, threads, repeats),
        "added byte": added_byte(repeats),
        "thread task": min(empty_pass(blocks, None)[1] for _ in range(repeats)) / tasks,
    }


def process_rates(client: Any, folder: str, blocks: int, repeats: int) -> Terms:
    """What tasks on worker processes take besides, and reading stored chunks."""
    tasks = blocks + tree_tasks(blocks)[0]
    empty_pass(1, client)
    start = min(empty_pass(1, client)[0] for _ in range(repeats))
    before = sum(client.run(time.process_time).values())
    driver = min(empty_pass(blocks, client)[1] for _ in range(repeats))
    worker = (sum(client.run(time.process_time).values()) - before) / repeats
    return {
        "start of a pass": start,
        "built task": 0.0,
        "submitted task": 0.0,
        "finished task": driver / tasks,
        "worker task": worker / tasks,
        "sent byte": sent_byte(client, repeats),
        **reading_rates(folder, repeats),
    }


def reading_rates(folder: str, repeats: int) -> Terms:
    """Of a stored chunk of a variable, and of each of its bytes."""

    def seconds(chunk_rows: int) -> float:
        path, width, chunks = f"{folder}/{chunk_rows}.zarr", 30, 8
        block = data_of(chunks * chunk_rows, [width], "float32")[0]
        zarr.create_array(path, data=block, chunks=(chunk_rows, width))
        source, _ = open_variables([path, path])
        starts = range(0, len(block), chunk_rows)
        read = least(lambda: [source.read(at, at + chunk_rows) for at in starts], repeats)
        return read / chunks

    small, large = seconds(16), seconds(16_384)
    return {
        "read chunk": small,
        "decoded byte": max(0.0, large - small) / ((16_384 - 16) * 30 * 4),
    }


def sent_byte(client: Any, repeats: int) -> float:
    """Seconds to bring a result from another process, for each byte."""

    def seconds(length: int) -> float:
        future = client.submit(np.zeros, length, pure=False)
        client.submit(len, future, pure=False).result()  # it is there
        began = time.perf_counter()
        future.result()
        return time.perf_counter() - began

    small, large = (min(seconds(length) for _ in range(repeats)) for length in (1, 2**20))
    return max(0.0, large - small) / 2**23


def processor_seconds(client: Any) -> float:
    """What this process and its workers have used."""
    workers = {} if client is None else client.run(time.process_time)
    return time.process_time() + float(sum(workers.values()))


def work_seconds(job: Job, machine: Machine, workers: Workers) -> float:
    """Processor seconds of all processes: what one worker takes that never waits."""
    cluster = {**machine.rates["cluster"], "idle task": 0.0}
    busy = Machine({**machine.rates, "cluster": cluster})
    alone = predict(job, busy, replace(workers, count=1, crowded=False))
    return alone.seconds - alone.parts["scheduling"] + alone.served


def start_seconds(machine: Machine, client: Any, folder: str, repeats: int) -> float:
    """Of a small test, what no other part explains."""
    job = Job(8192, (5, 1), 64, 64, 10, "float64", None if client is None else 8192)
    run = run_of(job, client, folder, threads=1)
    run()
    used = []
    for _ in range(repeats):
        before = processor_seconds(client)
        run()
        used.append(processor_seconds(client) - before)
    known = work_seconds(job, machine, Workers(1, client is not None))
    return max(0.0, min(used) - known)


def task_seconds(machine: Machine, client: Any, folder: str, repeats: int) -> tuple[float, float]:
    """Of a test of many small blocks, for each task, what no other part explains.

    Processor seconds, and seconds that the worker is idle.
    """
    job = Job(200_000, (8, 1), 64, 64, 20, "float32", 2048)
    run = run_of(job, client, folder, threads=1)
    run()
    used, seconds = [], []
    for _ in range(repeats):
        before = processor_seconds(client)
        seconds.append(run().seconds)
        used.append(processor_seconds(client) - before)
    workers, blocks = Workers(1, processes=True), [len(job.blocks(name)) for name in PASSES]
    tasks = sum(count + tree_tasks(count)[0] for count in blocks)
    more = max(0.0, min(used) - work_seconds(job, machine, workers))
    idle = max(0.0, min(seconds) - predict(job, machine, workers).seconds - more)
    return more / tasks, idle / tasks


def run_of(
    job: Job, client: Any, folder: str, threads: int
) -> Callable[[], dhsic.IndependenceTestResult]:
    """The test that a job describes, on arrays in memory or stored ones."""
    data: list[Any] = data_of(job.rows, job.dims, job.precision)
    if job.chunk_rows is not None:
        for number, values in enumerate(data):
            data[number] = f"{folder}/{uuid.uuid4().hex}.zarr"
            zarr.create_array(data[number], data=values, chunks=(job.chunk_rows, *values.shape[1:]))
    return partial(
        dhsic.independence_test,
        *data,
        kernels=kernels_for(job.dims),
        estimator=dhsic.NystromMHSIC(n_landmarks=job.drawn, tolerance=0.0),
        null=dhsic.Multiplier(job.resamples),
        precision="float32" if job.precision == "float32" else "float64",
        rng=0,
        memory="4GiB",
        **({"threads": threads} if client is None else {"client": client}),
    )


def fitted(runs: Iterator[tuple[Counts, Callable[[], Any]]], repeats: int) -> Terms:
    """Rates of what some runs count."""
    counts, calls = zip(*runs, strict=True)
    return fit(counts, [least(call, repeats) for call in calls])


def calibrate(shapes: Sequence[Shape], threads: int, blocks: int, repeats: int) -> Machine:
    """All rates of this machine."""
    largest = max(shape[2] for shape in shapes)
    grams = [gram for gram in GRAMS if gram[0] <= largest] or GRAMS[:1]
    solves = [solve for solve in SOLVES if solve[0] <= largest] or SOLVES[:1]
    with threadpool_limits(1, "blas"):
        rates = {name: fitted(task_runs(name, shapes), repeats) for name in PRECISIONS}
        rates["driver"] = fitted(driver_runs(grams, solves), repeats)
        cluster = rates["cluster"] = thread_rates(shapes, threads, blocks, repeats)
        with tempfile.TemporaryDirectory() as folder, local_cluster(1, "4GiB") as client:
            cluster |= process_rates(client, folder, blocks, repeats)
            cluster |= {"start of threads": 0.0, "start of processes": 0.0, "idle task": 0.0}
            machine = Machine(rates)
            started = [start_seconds(machine, c, folder, repeats) for c in (None, client)]
            cluster["start of threads"], cluster["start of processes"] = started
            more, idle = task_seconds(machine, client, folder, repeats)
    cluster["worker task"] += more
    cluster["idle task"] = idle
    return machine
