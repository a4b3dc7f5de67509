"""Rejection rates of grids of kernels on independent data.

Every data set is tested once with a grid of 64 combinations; those of the smaller grids are among
them, so that all grids and ways of aggregation come from the same statistics and replicates.
Data sets cycle through the cases. A rate is flagged where it lies above the upper limit that a
test of exactly that level exceeds in 1 of 1,000 studies. Writes benchmarks/results/grid_level.csv;
rows that the file holds already are kept.

    python -m benchmarks run grid_level
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, get_args

import click
import numpy as np
from numpy.typing import NDArray

import dhsic
from benchmarks.level.level import label, rejection_rates
from benchmarks.shared.cases import NULL_CASES
from benchmarks.shared.output import parallel_map, read_csv, write_csv
from dhsic._arguments import open_session
from dhsic.engine.session import Session
from dhsic.estimators.base import fit_combinations_on_sample
from dhsic.estimators.identities import compared_in_samples
from dhsic.kernels import Aggregate, Candidates, Combinations, Grid
from dhsic.nulls import aggregate, pvalue

WAYS: list[tuple[Aggregate, float]] = list(
    product(get_args(Aggregate), (0.0, Grid().reference_share))
)
ESTIMATORS: dict[str, tuple[Any, int | None]] = {
    "nystrom-m": (dhsic.NystromMHSIC(n_landmarks="3sqrt"), None),
    "v-hsic": (dhsic.VHSIC(), 2),
    "rff-hsic": (dhsic.RFFHSIC(n_features=20), 2),
}
NULLS: dict[str, Any] = {
    "multiplier": dhsic.Multiplier(99),
    "permutation": dhsic.Permutation(99, within="all"),
}
FACTORS = {2: tuple(2.0**k for k in range(-4, 4)), 3: (0.25, 0.5, 1.0, 2.0)}
SMALLER: dict[int, list[list[tuple[int, ...]]]] = {
    2: [[(k, k) for k in range(5)], list(product(range(2, 6), repeat=2))],
    3: [
        [*((k, k, k) for k in range(4)), (0, 3, 0)],
        [(j, i, (i + j + 2) % 4) for i, j in product(range(4), repeat=2)],
    ],
}
KEYS = ("estimator", "null", "n", "variables", "runs")


def grids(combinations: Combinations, m: int) -> list[list[int]]:
    """The numbers of the combinations of every grid: 5, 16 and all 64."""
    factors = len(FACTORS[m])
    numbers = [
        [
            combinations.chosen.index(tuple(m_ * factors + k for m_, k in enumerate(one)))
            for one in g
        ]
        for g in SMALLER[m]
    ]
    return [*numbers, list(range(len(combinations)))]


def places_of(session: Session, combinations: Combinations, count: int) -> dict[int, int]:
    """Where combinations are among those of which a test has so many left."""
    numbers: Sequence[int] = range(count)
    if count < len(combinations):
        numbers = compared_in_samples(*fit_combinations_on_sample(session, combinations), session.n)
    return {c: place for place, c in enumerate(numbers)}


def pvalues(setting: tuple[str, str, int, int, int]) -> NDArray[np.float64]:
    """The p-values on one independent data set, shape (grids, ways)."""
    estimator, null, n, m, seed = setting
    case = list(NULL_CASES)[seed % len(NULL_CASES)]
    data = NULL_CASES[case](n, m, np.random.default_rng([seed, n, m]))
    session = open_session(data, None, seed, "float64", None, 1, "16GiB", None)
    combinations = Grid(Candidates(factors=FACTORS[m]), combine="all").combinations(m)
    found = ESTIMATORS[estimator][0].test_grid(session, combinations, NULLS[null])

    places = places_of(session, combinations, len(found.statistics))

    def tested(numbers: list[int], how: Aggregate, share: float) -> float:
        columns = [places[c] for c in numbers if c in places]
        whole = aggregate(
            found.statistics[columns],
            found.replicates[:, columns],
            how,
            found.rounding[columns],
            reference=columns.index(places[combinations.reference()]),
            share=share,
        )
        return pvalue(whole.statistic, whole.distribution, np.float64, whole.rounding)

    return np.array([[tested(grid, *way) for way in WAYS] for grid in grids(combinations, m)])


def rows(
    runs: int,
    sizes: list[int],
    numbers: list[int],
    estimators: list[str],
    nulls: list[str],
    processes: int,
    done: list[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    yield from done
    known = {tuple(str(row[key]) for key in KEYS) for row in done}
    for n, m, name, null in product(sizes, numbers, estimators, nulls):
        estimator, most = ESTIMATORS[name]
        keys = dict(zip(KEYS, (label(estimator), null, n, m, runs), strict=True))
        if m > (most or m) or tuple(map(str, keys.values())) in known:
            continue
        work = [(name, null, n, m, seed) for seed in range(runs)]
        found = np.array(parallel_map(pvalues, work, processes))
        for (grid, size), (way, (how, share)) in product(enumerate((5, 16, 64)), enumerate(WAYS)):
            tried = {"kernels": size, "aggregate": how, "reference share": share}
            yield {**keys, **tried, **_rates(found[:, grid, way])}


def _rates(found: NDArray[np.float64]) -> dict[str, Any]:
    """Rates over all cases, and at 5 % for each."""
    cases = len(NULL_CASES)
    each = {
        f"5% {case}": float(np.mean(found[number::cases] <= 0.05 + 1e-9))
        for number, case in enumerate(NULL_CASES)
    }
    return {**rejection_rates(found), **each}


@click.command(help=__doc__)
@click.option("--runs", default=2000)
@click.option("--size", "sizes", multiple=True, type=int, default=(200, 1000))
@click.option("--variables", "numbers", multiple=True, type=int, default=(2, 3))
@click.option(
    "--estimator",
    "estimators",
    multiple=True,
    type=click.Choice(list(ESTIMATORS)),
    default=("nystrom-m",),
)
@click.option("--null", "nulls", multiple=True, type=click.Choice(list(NULLS)), default=NULLS)
@click.option("--processes", default=2)
@click.option("--out", default="benchmarks/results/grid_level.csv")
def main(
    runs: int,
    sizes: tuple[int, ...],
    numbers: tuple[int, ...],
    estimators: tuple[str, ...],
    nulls: tuple[str, ...],
    processes: int,
    out: str,
) -> None:
    done = read_csv(out)
    write_csv(
        out, rows(runs, list(sizes), list(numbers), list(estimators), list(nulls), processes, done)
    )


if __name__ == "__main__":
    main()
