"""Power and time of ways to select landmarks, at few and at many of them.

Single Gaussian kernels, so that nothing but the landmarks differs. The question is whether a
selection reaches the power of uniform landmarks with fewer of them, at a lower cost in all:
seconds are those of the whole test, selection included, the median over runs. Writes
benchmarks/results/selection.csv; rows that the file holds already are kept.

    python -m benchmarks run selection
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any, cast, get_args

import click
import numpy as np

import dhsic
from benchmarks.shared.cases import Data, Rng, joint_triple, linear, sine, tail, with_dimensions
from benchmarks.shared.output import parallel_map, read_csv, write_csv
from dhsic.estimators import NullName
from dhsic.kernels import Gaussian
from dhsic.landmarks import Selection

SELECTIONS = get_args(Selection)
FINE = Gaussian(gamma=5.0)  # the median heuristic is too wide to see four waves
CASES: dict[str, tuple[Callable[[int, Rng], Data], Any]] = {
    "linear": (partial(linear, strength=0.1), "gaussian"),
    "sine, w = 4": (partial(sine, strength=0.6, frequency=4), FINE),
    "mixed dimensions": (
        lambda n, rng: with_dimensions((10, 1), n, rng, strength=0.5),
        "gaussian",
    ),
    "tail": (partial(tail, strength=2.0), "gaussian"),
    "joint triple": (partial(joint_triple, strength=0.2), "gaussian"),
}
KEYS = ("data", "n", "selection", "landmarks", "pool", "null", "runs")


def one_result(
    setting: tuple[str, int, Selection, str, int, str, int],
) -> dhsic.IndependenceTestResult:
    """The test on one data set."""
    case, n, selection, landmarks, pool, null, seed = setting
    data, kernels = CASES[case]
    return dhsic.independence_test(
        *data(n, np.random.default_rng([seed, n])),
        kernels=kernels,
        estimator=dhsic.NystromMHSIC(n_landmarks=landmarks, selection=selection, pool=pool),
        null=cast(NullName, null),
        n_resamples=199,
        rng=seed,
        threads=1,
    )


def rows(
    runs: int,
    n: int,
    cases: list[str],
    landmarks: list[str],
    pool: int,
    null: str,
    processes: int,
    done: list[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    yield from done
    known = {tuple(str(row[key]) for key in KEYS) for row in done}
    for case, number, selection in product(cases, landmarks, SELECTIONS):
        setting = (case, n, selection, number, pool, null)
        keys = dict(zip(KEYS, (*setting, runs), strict=True))
        if tuple(map(str, keys.values())) in known:
            continue
        results = parallel_map(one_result, [(*setting, seed) for seed in range(runs)], processes)
        power = float(np.mean([result.pvalue <= 0.05 + 1e-9 for result in results]))
        kept = [result.landmarks.kept for result in results if result.landmarks is not None]
        yield {
            **keys,
            "kept": float(np.median(kept)),
            "power": power,
            "error": float(np.sqrt(power * (1 - power) / runs)),
            "seconds": float(np.median([result.seconds for result in results])),
        }


@click.command(help=__doc__)
@click.option("--runs", default=200)
@click.option("--rows", "n", default=1000)
@click.option("--data", "cases", multiple=True, type=click.Choice(list(CASES)), default=CASES)
@click.option("--landmarks", multiple=True, default=("1sqrt", "2sqrt", "4sqrt", "8sqrt"))
@click.option("--pool", default=4, help="Rows to select from, a multiple of the landmarks.")
@click.option("--null", type=click.Choice(["multiplier", "permutation"]), default="multiplier")
@click.option("--processes", default=2)
@click.option("--out", default="benchmarks/results/selection.csv")
def main(
    runs: int,
    n: int,
    cases: tuple[str, ...],
    landmarks: tuple[str, ...],
    pool: int,
    null: str,
    processes: int,
    out: str,
) -> None:
    done = read_csv(out)
    write_csv(out, rows(runs, n, list(cases), list(landmarks), pool, null, processes, done))


if __name__ == "__main__":
    main()
