"""Text as labels: numbers that are written so, and groups, by how many rows have one of their own.

Numbers as text: y = a u + noise, with u uniform of some values and a^2 n as given, by the test of
labels and by that of numbers. Groups: y = effect of the group + noise, of equal variance, with
groups of equal probability or of probability 1 / rank. Writes benchmarks/results/text_labels.csv,
by which `dhsic.io.encode` refuses text most rows of which have a label of their own, and text with
more than 20 labels that hold a number beside other text.

    python -m benchmarks run text_labels
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import click
import numpy as np

import dhsic
from benchmarks.shared.output import parallel_map, write_csv
from dhsic.io.sources import ArraySource

STRENGTHS = (14.0, 30.0)
KINDS = *(f"numbers, {strength:g}" for strength in STRENGTHS), "even groups", "uneven groups"


def one_data_set(setting: tuple[str, int, int, int]) -> tuple[float, ...]:
    """Share of rows with a label of their own, and whether labels and numbers are found."""
    kind, n, values, seed = setting
    rng = np.random.default_rng([seed, n, values])
    weights = 1.0 / np.arange(1, values + 1) if kind == "uneven groups" else np.ones(values)
    x = rng.choice(values, n, p=weights / weights.sum())
    if kind.endswith("groups"):
        effect = rng.standard_normal(values)[x]
    else:
        uniform = np.sqrt(12.0) * (x / values - 0.5)
        effect = np.sqrt(float(kind.split(", ")[1]) / n) * uniform
    y = effect + rng.standard_normal(n)
    labels = ArraySource("x", x, kinds=("category",))
    found = [
        dhsic.independence_test(one, y, n_resamples=199, rng=seed, threads=1).pvalue <= 0.05
        for one in (labels, x.astype(np.float64))
    ]
    alone = float((np.bincount(x) == 1).sum() / n)
    return alone, *found


def rows(runs: int, sizes: list[int], shares: list[float], processes: int) -> Iterator[Any]:
    for kind, n, share in product(KINDS, sizes, shares):
        values = max(2, round(share * n))
        settings = [(kind, n, values, seed) for seed in range(runs)]
        alone, labels, numbers = np.mean(parallel_map(one_data_set, settings, processes), axis=0)
        yield {
            "data": kind,
            "n": n,
            "values": values,
            "runs": runs,
            "alone": float(alone),
            "labels": float(labels),
            "numbers": float(numbers),
        }


@click.command(help=__doc__)
@click.option("--runs", default=60)
@click.option("--size", "sizes", multiple=True, type=int, default=(200, 1000))
@click.option("--share", "shares", multiple=True, type=float, default=(3, 1.5, 0.8, 0.4, 0.1, 0.02))
@click.option("--processes", default=2)
@click.option("--out", default="benchmarks/results/text_labels.csv")
def main(
    runs: int, sizes: tuple[int, ...], shares: tuple[float, ...], processes: int, out: str
) -> None:
    write_csv(out, rows(runs, list(sizes), list(shares), processes))


if __name__ == "__main__":
    main()
