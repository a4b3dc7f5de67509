"""Processor seconds that a plan tells beside those that the test takes.

Tests are of independent normal variables in memory, on one thread, by the null that is taken
without options unless it is named. `ratio` is planned over measured; plans say that it is most
often between a third and three, which leaves out tests of less than a tenth of a second.
Writes benchmarks/results/plan_seconds.csv, whose rows are kept.

    python benchmarks/plan_seconds.py
    python benchmarks/plan_seconds.py --n 2000 --estimator v-hsic
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import click
import numpy as np

import dhsic
from benchmarks.exact_cost import timed_test
from benchmarks.machine import processor
from benchmarks.output import keys_of, read_csv, write_csv

DIMS = ((1, 1), (20, 1), (90, 1), (3, 3, 3))
SIZES = (500, 2000, 8000, 40_000)
METHODS = {
    "nystrom-m": ("auto", "multiplier", "spectral"),
    "nystrom-hsic": ("auto", "permutation", "multiplier"),
    "rff-hsic": ("auto", "gamma"),
    "v-hsic": ("auto", "permutation", "gamma"),
    "nfsic": ("auto",),
}
MOST_PAIRED = 8000
KERNELS = {"one": {"kernels": "gaussian"}, "default": {}}
KEYS = ("estimator", "null", "kernels", "columns", "n")

Table = Sequence[Mapping[str, Any]]


def cases(
    estimators: Sequence[str], sizes: Sequence[int]
) -> Iterator[tuple[str, str, str, tuple[int, ...], int]]:
    """All that stand together, and take no hours."""
    for n, estimator, dims in product(sizes, estimators, DIMS):
        for null, kernels in product(METHODS[estimator], KERNELS):
            fitted = null in ("gamma", "spectral")
            if kernels == "default" and (fitted or estimator not in ("nystrom-m", "v-hsic")):
                continue
            if estimator == "nystrom-hsic" and len(dims) > 2:
                continue
            paired = estimator == "v-hsic" or null == "permutation"
            if n <= (MOST_PAIRED // 4 if null == "permutation" else MOST_PAIRED) or not paired:
                yield estimator, null, kernels, dims, n


def named(estimator: str, null: str, kernels: str, dims: Sequence[int], n: int) -> dict[str, Any]:
    """What tells a case in the table."""
    columns = "x".join(map(str, dims))
    return dict(zip(KEYS, (estimator, null, kernels, columns, n), strict=True))


def measured(
    estimator: str, null: str, kernels: str, dims: Sequence[int], n: int
) -> dict[str, Any]:
    """A row: the plan of a test, then the test."""
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((n, d)) for d in dims]
    options: dict[str, Any] = {"estimator": estimator, "null": null, "threads": 1}
    options |= {"memory": "8GiB", **KERNELS[kernels]}
    planned = dhsic.plan(*data, **options).processor_seconds
    seconds, _ = timed_test(data, **options)
    return {
        **named(estimator, null, kernels, dims, n),
        "planned": planned,
        "seconds": seconds,
        "ratio": planned / seconds,
        "processor": processor(),
        "version": dhsic.__version__,
    }


def rows(
    estimators: Sequence[str], sizes: Sequence[int], done: Table
) -> Iterator[Mapping[str, Any]]:
    yield from done
    known = {keys_of(row, KEYS) for row in done}
    for case in cases(estimators, sizes):
        if keys_of(named(*case), KEYS) not in known:
            yield measured(*case)


@click.command(help=__doc__)
@click.option(
    "--estimator", "estimators", multiple=True, type=click.Choice(list(METHODS)), default=METHODS
)
@click.option("--n", "sizes", multiple=True, type=int, default=SIZES)
@click.option("--out", default="benchmarks/results/plan_seconds.csv")
def main(estimators: tuple[str, ...], sizes: tuple[int, ...], out: str) -> None:
    write_csv(out, rows(estimators, sizes, read_csv(out)))


if __name__ == "__main__":
    main()
