"""Milliseconds of whole tests of few rows, beside the quickest calibrated tests of hyppo.

All methods of a size are called in turn on the same independent normal data in memory, in one
process and on one thread; `milliseconds` is the median processor time of some turns after a first
one that is not counted. Ours have all their replicates, 1,000 shifts or more, by the kernels of
the default, 8 to 12 pairs of them, or by one Gaussian kernel of either variable; those of hyppo
have the chi-square approximation, which has none. `over quickest peer` is over the quicker test of
hyppo of the same data. hyppo is left out where it is not installed, with a word. Writes
benchmarks/results/small.csv.

    python -m benchmarks run small
    python -m benchmarks run small --n 100 --columns 3 --turns 101
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import product
from statistics import median
from time import process_time
from typing import Any

import click
import numpy as np
from threadpoolctl import threadpool_limits

import dhsic
from benchmarks.peers.peer_tests import Array, hyppo_chi_square, ours_fitted
from benchmarks.shared.machine import processor
from benchmarks.shared.output import write_csv

SIZES, COLUMNS = (50, 100, 200, 500), (1, 3, 20)
RESAMPLES = 1000  # which the chi-square approximation takes no notice of
OURS: Mapping[str, Callable[..., float]] = {
    "dhsic default": partial(ours_fitted, threads=1),
    "dhsic one gaussian kernel": partial(ours_fitted, threads=1, kernels="gaussian"),
}
PEERS: Mapping[str, Callable[..., float]] = {
    f"hyppo {kind}, chi-square": partial(hyppo_chi_square, kind=kind) for kind in ("Hsic", "Dcorr")
}


def methods() -> Mapping[str, Callable[..., float]]:
    """Those that are installed."""
    if find_spec("hyppo") is not None:
        return {**OURS, **PEERS}
    click.echo(
        "hyppo is left out, as it is not installed: install the group peers",
        err=True,
    )
    return OURS


def timed(test: Callable[..., float], x: Array, y: Array) -> float:
    """Milliseconds of one call, of the processor."""
    began = process_time()
    test(x, y, RESAMPLES, 0)
    return 1e3 * (process_time() - began)


def size_rows(
    n: int, columns: int, tests: Mapping[str, Callable[..., float]], turns: int
) -> Iterator[dict[str, Any]]:
    """A row a method."""
    x, y = np.random.default_rng(0).standard_normal((2, n, columns))
    each = [{name: timed(test, x, y) for name, test in tests.items()} for _ in range(turns + 1)]
    found = {name: median(turn[name] for turn in each[1:]) for name in tests}
    peer = min((found[name] for name in PEERS if name in found), default=None)
    for name, milliseconds in found.items():
        yield {
            "n": n,
            "columns": columns,
            "method": name,
            "turns": turns,
            "milliseconds": milliseconds,
            "over quickest peer": "" if peer is None else milliseconds / peer,
            "processor": processor(),
            "version": dhsic.__version__,
        }


def rows(sizes: Sequence[int], columns: Sequence[int], turns: int) -> Iterator[dict[str, Any]]:
    tests = methods()
    with threadpool_limits(1, "blas"):
        for n, d in product(sizes, columns):
            yield from size_rows(n, d, tests, turns)


@click.command(help=__doc__)
@click.option("--n", "sizes", multiple=True, type=click.IntRange(21), default=SIZES)
@click.option("--columns", multiple=True, type=click.IntRange(1), default=COLUMNS)
@click.option("--turns", type=click.IntRange(1), default=31)
@click.option("--out", default="benchmarks/results/small.csv")
def main(sizes: tuple[int, ...], columns: tuple[int, ...], turns: int, out: str) -> None:
    write_csv(out, rows(sizes, columns, turns))


if __name__ == "__main__":
    main()
