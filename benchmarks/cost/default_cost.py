"""Processor seconds of a test without options beside one kernel of each variable.

Both on the same normal data in memory, one after the other, on one thread; the least of some turns
after a first one that is not counted, which are fewer where they take long. `over one kernel` is
the ratio. Writes benchmarks/results/default_cost.csv; rows of other cases are kept.

    python -m benchmarks run default_cost
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import click
import numpy as np

import dhsic
from benchmarks.cost.exact_cost import timed_test
from benchmarks.shared.machine import processor
from benchmarks.shared.output import keys_of, read_csv, write_csv

COLUMNS = ("1+1", "20+1", "90+1", "50+50")
SIZES = (1000, 10_000, 100_000, 1_000_000)
LONG = 20.0
"""Seconds after which a case is timed once."""
KEYS = ("n", "columns", "precision")


def measured(n: int, columns: str, precision: str, repeats: int) -> dict[str, Any]:
    """A row."""
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((n, int(d))).astype(precision) for d in columns.split("+")]
    options = {"precision": precision, "memory": "4GiB"}
    seconds, results = [], []
    for _ in range(repeats + 1):
        one, alone = timed_test(data, kernels="gaussian", **options)
        whole, found = timed_test(data, **options)
        seconds.append((whole, one))
        results = [found, alone]
        if whole > LONG:
            break
    whole, one = np.min(seconds[1:] or seconds, axis=0)
    found, alone = results
    return {
        **dict(zip(KEYS, (n, columns, precision), strict=True)),
        "estimator": found.estimator,
        "kernels": len(found.grid.combinations) if found.grid else 1,
        "seconds": whole,
        "one kernel, estimator": alone.estimator,
        "one kernel, seconds": one,
        "over one kernel": whole / one,
        "passes": len(found.passes),
        "processor": processor(),
        "version": dhsic.__version__,
    }


def rows(
    sizes: Sequence[int],
    columns: Sequence[str],
    precision: str,
    repeats: int,
    done: Sequence[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    chosen = list(product(sizes, columns))
    asked = {tuple(map(str, (*one, precision))) for one in chosen}
    yield from (row for row in done if keys_of(row, KEYS) not in asked)
    for n, one in chosen:
        yield measured(n, one, precision, repeats)


@click.command(help=__doc__)
@click.option("--n", "sizes", multiple=True, type=int, default=SIZES)
@click.option("--columns", multiple=True, default=COLUMNS)
@click.option("--precision", type=click.Choice(["float64", "float32"]), default="float32")
@click.option("--repeats", type=click.IntRange(1), default=3)
@click.option("--out", default="benchmarks/results/default_cost.csv")
def main(
    sizes: tuple[int, ...], columns: tuple[str, ...], precision: str, repeats: int, out: str
) -> None:
    write_csv(out, rows(sizes, columns, precision, repeats, read_csv(out)))


if __name__ == "__main__":
    main()
