"""Rows that are not exchangeable: how often true nulls are rejected, what power is left, and time.

Every data set is tested with the argument that is for its rows, and the first 200 as if rows were
exchangeable, too. Level is of independent variables, power of variables that depend; "iid" are
exchangeable rows, with labels that mean nothing, where the argument costs power alone. Estimator
"auto" has all arguments at their defaults, others one Gaussian kernel a variable. Writes
benchmarks/results/dependent_rows.csv, and with --rows-of-time seconds of a run each of so many
rows to benchmarks/results/dependent_rows_seconds.csv. Rows of a table that a call does not make
stay in it; --case takes some of the cases.

    python -m benchmarks run dependent_rows --runs 2000
    python -m benchmarks run dependent_rows --runs 1000 --estimator auto
    python -m benchmarks run dependent_rows --case "iid, weights" --rows 1000
    python -m benchmarks run dependent_rows --runs 0 --rows-of-time 1000000
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.stats import binomtest

import dhsic
from benchmarks.shared.output import parallel_map, write_csv
from dhsic.errors import DependentRowsWarning
from dhsic.estimators import EstimatorName

Variables = tuple[NDArray[Any], NDArray[Any]]
Case = Callable[[int, np.random.Generator], tuple[Variables, dict[str, Any]]]

LEVEL = 0.05
PLAIN = 200
"""Data sets that are tested as if rows were exchangeable as well."""
WARM_UP_ROWS = 2000
KEYS = ("data", "effect", "estimator", "n")
KEYS_OF_TIME = ("argument", "estimator", "n")


def serial(n: int, rng: np.random.Generator, memory: float) -> NDArray[np.float64]:
    """An autoregressive series."""
    values: NDArray[np.float64] = lfilter([1.0], [1.0, -memory], rng.standard_normal(n + 500))
    return values[500:]


def clustered(labels: NDArray[Any], share: float, rng: np.random.Generator) -> NDArray[Any]:
    """Rows of which groups share a part of the variance."""
    common = rng.standard_normal(labels.max() + 1)[labels]
    own = rng.standard_normal(len(labels))
    rows: NDArray[Any] = share**0.5 * common + (1.0 - share) ** 0.5 * own
    return rows


def autoregressive(n: int, rng: np.random.Generator, memory: float, lag: int | None) -> Any:
    """Two series that remember themselves."""
    order = dhsic.TimeOrder(lag=lag)
    return (serial(n, rng, memory), serial(n, rng, memory)), {"order": order}


def seasonal(n: int, rng: np.random.Generator) -> Any:
    """Two series with the same cycle, and memory besides."""
    wave = np.sin(2.0 * np.pi * np.arange(n) / 12)
    pair = wave + serial(n, rng, 0.5), wave + serial(n, rng, 0.5)
    return pair, {"order": dhsic.TimeOrder(lag=12, period=12)}


def panel(n: int, rng: np.random.Generator) -> Any:
    """Series of five stations, one after another."""
    labels = np.arange(n) * 5 // n
    x, y = (np.concatenate([serial(n // 5, rng, 0.7) for _ in range(5)]) for _ in range(2))
    return (x, y), {"groups": labels, "order": dhsic.TimeOrder(lag=4)}


def grouped(n: int, rng: np.random.Generator, size: int, share: float) -> Any:
    """Groups of equal size."""
    labels = np.arange(n) // size
    return (clustered(labels, share, rng), clustered(labels, share, rng)), {"groups": labels}


def unequal(n: int, rng: np.random.Generator, share: float) -> Any:
    """Groups of one to ten rows."""
    sizes = rng.integers(1, 11, n)
    labels = np.repeat(np.arange(n), sizes)[:n]
    return (clustered(labels, share, rng), clustered(labels, share, rng)), {"groups": labels}


def stratified(n: int, rng: np.random.Generator, count: int) -> Any:
    """Strata of unequal sizes with other means, spreads and shapes."""
    strata = rng.choice(count, n, p=rng.dirichlet(np.full(count, 5.0)))
    spread = 0.5 + strata % 3
    x = strata + spread * rng.standard_normal(n)
    y = strata + spread * rng.exponential(size=n)
    return (x, y), {"strata": strata}


def selected(n: int, rng: np.random.Generator) -> Any:
    """Rows that are drawn three times as often where both variables have the same sign."""
    x, y = rng.standard_normal((2, 4 * n))
    chance = np.where(x * y > 0.0, 0.9, 0.3)
    kept = np.flatnonzero(rng.random(4 * n) < chance)[:n]
    return (x[kept], y[kept]), {"weights": 1.0 / chance[kept]}


def tilted(n: int, rng: np.random.Generator, correlation: float) -> Any:
    """Correlated normals, with weights that make them independent."""
    x, z = rng.standard_normal((2, n))
    y = correlation * x + (1.0 - correlation**2) ** 0.5 * z
    # The ratio of the densities of independent normals and of these.
    exponent = (x**2 - 2.0 * correlation * x * y + y**2) / (1.0 - correlation**2) - x**2 - y**2
    return (x, y), {"weights": np.exp(exponent / 2.0)}


def meaningless(n: int, rng: np.random.Generator, what: str) -> Any:
    """Exchangeable rows with labels or an order that mean nothing."""
    asked: dict[str, Any] = {
        "strata": {"strata": rng.integers(5, size=n)},
        "groups": {"groups": np.arange(n) // 5},
        "time": {"order": "time"},
        "weights": {"weights": rng.uniform(0.5, 2.0, n)},
    }
    pair = rng.standard_normal(n), rng.standard_normal(n)
    return pair, asked[what]


CASES: dict[str, Case] = {
    **{
        f"AR({memory}){'' if lag is None else f', lag {lag}'}": partial(
            autoregressive, memory=memory, lag=lag
        )
        for memory in (0.5, 0.9)
        for lag in (None, 20)
    },
    "seasonal": seasonal,
    "panel of 5 series": panel,
    **{
        f"groups of {size}, ICC {share}": partial(grouped, size=size, share=share)
        for size in (5, 20, 100)
        for share in (0.1, 0.5, 0.9)
    },
    "groups of 10, ICC 0.64": partial(grouped, size=10, share=0.64),
    "groups of 1 to 10, ICC 0.5": partial(unequal, share=0.5),
    "strata, 5": partial(stratified, count=5),
    "strata, 50": partial(stratified, count=50),
    **{f"iid, {what}": partial(meaningless, what=what) for what in ("strata", "groups", "time")},
    "weights, of signs": selected,
    **{f"weights, of normals {rho}": partial(tilted, correlation=rho) for rho in (0.2, 0.4)},
    "iid, weights": partial(meaningless, what="weights"),
}


def one(work: tuple[str, int, EstimatorName, float, int]) -> tuple[bool, bool, bool]:
    """Whether independence is rejected with the argument, and else; and whether that warns."""
    case, n, estimator, effect, seed = work
    rng = np.random.default_rng([seed, n, list(CASES).index(case)])
    (x, y), asked = CASES[case](n, rng)
    options: dict[str, Any] = {"estimator": estimator, "rng": seed, "threads": 1}
    if estimator != "auto":
        options["kernels"] = "gaussian"
    pair = x, y + effect * np.abs(x - np.median(x))
    with_argument = dhsic.independence_test(*pair, **options, **asked).pvalue <= LEVEL
    if seed >= PLAIN:
        return with_argument, False, False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DependentRowsWarning)
        plain = dhsic.independence_test(*pair, **options).pvalue <= LEVEL
    return with_argument, plain, bool(caught)


def rows(
    cases: tuple[str, ...],
    n: int,
    runs: int,
    estimator: EstimatorName,
    effects: tuple[float, ...],
    processes: int,
) -> Iterator[dict[str, Any]]:
    for effect in effects:
        for case in cases:
            count = runs if effect == 0.0 else runs // 5
            work = [(case, n, estimator, effect, seed) for seed in range(count)]
            found = np.array(parallel_map(one, work, processes))
            rejected, plain, warned = found.sum(axis=0).tolist()
            interval = binomtest(rejected, count).proportion_ci(0.99, "wilson")
            yield {
                "data": case,
                "effect": effect,
                "estimator": estimator,
                "n": n,
                "runs": count,
                "as if exchangeable": plain / min(count, PLAIN),
                "with the argument": rejected / count,
                "low": float(interval.low),
                "high": float(interval.high),
                "warned": warned / min(count, PLAIN),
            }


def seconds(n: int, estimator: EstimatorName) -> Iterator[dict[str, Any]]:
    """Processor seconds of a run each, one thread."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, n))
    ways: dict[str, dict[str, NDArray[Any]]] = {
        "none": {},
        "strata, 50": {"strata": rng.integers(50, size=n)},
        "groups of 10": {"groups": np.arange(n) // 10},
        "groups of 1 to 10": {"groups": np.repeat(np.arange(n), rng.integers(1, 11, n))[:n]},
        "weights": {"weights": rng.uniform(0.5, 2.0, n)},
    }

    def tested(rows: int, asked: dict[str, Any]) -> dhsic.IndependenceTestResult:
        pair = x[:rows], y[:rows]
        return dhsic.independence_test(*pair, estimator=estimator, rng=0, threads=1, **asked)

    for way in (*ways, "time"):
        labels = ways.get(way, {})
        order = {"order": "time"} if way == "time" else {}
        # Few rows first, since the first test imports modules.
        tested(WARM_UP_ROWS, {what: x[:WARM_UP_ROWS] for what, x in labels.items()} | order)
        began = time.process_time()
        result = tested(n, labels | order)
        yield {
            "argument": way,
            "estimator": estimator,
            "n": n,
            "processor seconds": time.process_time() - began,
            "null": result.null_reason,
        }


@click.command(help=__doc__)
@click.option("--case", "cases", multiple=True, type=click.Choice(list(CASES)), default=CASES)
@click.option("--rows", "n", default=500)
@click.option("--runs", default=500)
@click.option("--estimator", default="nystrom-hsic")
@click.option("--effect", "effects", multiple=True, type=float, default=(0.0, 0.5))
@click.option("--rows-of-time", default=0)
@click.option("--processes", default=2)
@click.option("--out", default="benchmarks/results/dependent_rows.csv")
def main(
    cases: tuple[str, ...],
    n: int,
    runs: int,
    estimator: EstimatorName,
    effects: tuple[float, ...],
    rows_of_time: int,
    processes: int,
    out: str,
) -> None:
    if runs:
        write_csv(out, rows(cases, n, runs, estimator, effects, processes), KEYS)
    if rows_of_time:
        times = seconds(rows_of_time, estimator)
        write_csv(out.replace(".csv", "_seconds.csv"), times, KEYS_OF_TIME)


if __name__ == "__main__":
    main()
