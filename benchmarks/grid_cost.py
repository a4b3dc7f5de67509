"""Time of grids of kernels over that of one kernel, and where it goes.

Whole tests with the multiplier null on float32 arrays in memory, in turn after one of each that is
not counted; a ratio is the median over turns of pairs in the same turn. Steps are what the
progress events tell. What follows is one thread's time in the second pass, measured by itself on
one tile of rows, the least of many turns: Gram tiles, centred products, their matrix products with
the signs, and drawing the signs, in microseconds a row. Writes benchmarks/results/grid_cost.csv.

    python benchmarks/grid_cost.py
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import dhsic
from benchmarks.output import write_csv
from dhsic._arguments import choose_method, open_session
from dhsic._random import random_signs
from dhsic.engine.events import Event, PassStarted, StepStarted
from dhsic.kernels import Candidates, Grid

Data = tuple[NDArray[np.float32], NDArray[np.float32]]

GRIDS: dict[str, str | Grid] = {
    "one kernel": "gaussian",
    "grid of 1": Grid(Candidates(factors=(1.0,))),
    "grid of 5": Grid(Candidates(factors=(0.25, 0.5, 1.0, 2.0, 4.0)), combine="matched"),
    "grid of 16": Grid(Candidates(factors=(0.25, 0.5, 1.0, 2.0)), combine="all"),
    "automatic grid": Grid.auto(),
}
STEPS = (
    "fetch landmarks",
    "prune landmarks",
    "kernel sums",
    "multiplier null",
    "solve",
    "estimate",
)


def timed(
    data: Data, kernels: str | Grid, landmarks: int, resamples: int, threads: int
) -> dict[str, float]:
    """Seconds of a whole test, and of its steps."""
    marks: list[tuple[str, float]] = []

    def listen(event: Event) -> None:
        if isinstance(event, StepStarted | PassStarted):
            marks.append((event.name, time.perf_counter()))

    result = dhsic.independence_test(
        *data,
        kernels=kernels,
        estimator=dhsic.NystromMHSIC(n_landmarks=landmarks),
        null=dhsic.Multiplier(resamples),
        precision="float32",
        threads=threads,
        memory="16GiB",
        rng=0,
        progress=listen,
    )
    marks.append(("end", time.perf_counter()))
    steps = dict.fromkeys(STEPS, 0.0)
    for (name, began), (_, ended) in pairwise(marks):
        steps[name] += ended - began
    return {"seconds": result.seconds, **steps}


def split(
    data: Data, kernels: str | Grid, landmarks: int, resamples: int, repeats: int
) -> dict[str, float]:
    """What one thread takes for a tile of rows in the second pass."""
    session = open_session(data, None, 0, "float32", None, None, "16GiB", None)
    estimator = dhsic.NystromMHSIC(n_landmarks=landmarks)
    method = choose_method(session, kernels, estimator, dhsic.Multiplier(resamples), None)
    _, _, products = estimator._products(session, method.combinations)
    tiling, buffers = products.tiling, products.buffers()
    _, rows = next(tiling.row_tiles([x.reshape(len(x), -1) for x in data]))
    b = len(rows[0])

    def draw_signs() -> NDArray[np.float32]:
        return random_signs(0, 0, b, resamples).astype(np.float32)

    def tiles() -> None:
        deque(tiling.gram_tiles(rows, buffers[0]), maxlen=0)

    def blocks() -> None:
        deque(products.blocks(rows, buffers), maxlen=0)

    signs, sums = draw_signs(), np.zeros((products.n_values, resamples))

    def signed() -> None:
        for at, xi in products.blocks(rows, buffers):
            sums[at] += xi.T @ signs

    with threadpool_limits(1, "blas"):
        found = least([draw_signs, tiles, blocks, signed], repeats) / b
    return {
        "landmarks kept": products.n_values / len(products.chosen),
        "us tiles": float(found[1]),
        "us products": float(found[2] - found[1]),
        "us signed sums": float(found[3] - found[2]),
        "us signs": float(found[0]),
    }


def least(functions: list[Callable[[], object]], repeats: int) -> NDArray[np.float64]:
    """Least microseconds of every function, run in turn."""
    times = np.empty((repeats, len(functions)))
    for turn in times:
        for number, function in enumerate(functions):
            began = time.perf_counter()
            function()
            turn[number] = 1e6 * (time.perf_counter() - began)
    smallest: NDArray[np.float64] = times.min(axis=0)
    return smallest


def rows(
    n: int, d: int, landmarks: int, resamples: int, threads: int, repeats: int
) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(1)
    x, noise = rng.standard_normal((n, d), np.float32), rng.standard_normal(n, np.float32)
    data = x, 0.1 * x[:, 0] + noise
    turns = [
        {
            name: timed(data, kernels, landmarks, resamples, threads)
            for name, kernels in GRIDS.items()
        }
        for _ in range(repeats + 1)
    ][1:]
    for name, kernels in GRIDS.items():
        ratio = np.median([turn[name]["seconds"] / turn["one kernel"]["seconds"] for turn in turns])
        steps = {
            key: float(np.median([turn[name][key] for turn in turns])) for key in turns[0][name]
        }
        yield {
            "kernels": name,
            "n": n,
            "landmarks": landmarks,
            "over one": float(ratio),
            **steps,
            **split(data, kernels, landmarks, resamples, 4 * repeats),
        }


@click.command(help=__doc__)
@click.option("--rows", "n", default=200_000)
@click.option("--features", "d", default=90)
@click.option("--landmarks", default=1024)
@click.option("--resamples", default=256)
@click.option("--threads", default=2)
@click.option("--repeats", default=5)
@click.option("--out", default="benchmarks/results/grid_cost.csv")
def main(
    n: int, d: int, landmarks: int, resamples: int, threads: int, repeats: int, out: str
) -> None:
    write_csv(out, rows(n, d, landmarks, resamples, threads, repeats))


if __name__ == "__main__":
    main()
