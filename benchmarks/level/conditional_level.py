"""Conditional tests: how often true nulls are rejected, what power is left, and time.

In "additive" and "first column" data x and y are post-nonlinear, outer(standardised sum of inner(z)
+ noise), with functions drawn anew for every data set from the identity, the cube and tanh (Zhang
et al. 2011, section 4.1), of all columns of z or of the first alone. In "spread" data x is the mean
of z with noise whose spread is the mean of |z|; in "spread, first column" z_1 + |z_1| noise. In
"categories" mean and spread follow one of five labels. With an effect b the noise of both holds b
times the same normal numbers; "turning" has them with the sign of z_1 in y, which cancels over z.
In "sums", "product" and "radius" data, "heavy tails" (t of 3 degrees of freedom) and "ties"
(rounded to halves) x and y hold the same function of z, which regressions follow more or less.
Every test sees the same data sets. "kernel" and "strata" are the methods of
`dhsic.conditional_independence_test`, "residuals" is the test of additive models, and "kci" that of
causal-learn, where it is installed. `warned` is the share of data sets with an
`UnexplainedWarning`, `rejected unwarned` that of those rejected without one. `spoilt` counts data
sets that a test refused. `low` and `high` are limits at 99 %. Writes
benchmarks/results/conditional_level.csv; with --rows-of-time the processor seconds of one run of so
many rows to benchmarks/results/conditional_level_seconds.csv. Rows of a table that a call does not
make stay in it.

    python -m benchmarks run conditional_level
    python -m benchmarks run conditional_level --runs 0 --rows-of-time 1000000
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, norm

import dhsic
from benchmarks.shared.output import parallel_map, write_csv
from dhsic import causal
from dhsic.errors import DhsicError, UnexplainedWarning

Vector = NDArray[np.float64]
Case = Callable[[np.random.Generator, int, int, float], tuple[Any, Any, Any]]

LEVEL = 0.05
WARM_UP_ROWS = 100
KEYS = ("test", "data", "columns of z", "n", "effect")
KEYS_OF_TIME = ("test", "columns of z", "n")
Functions = tuple[Callable[[Vector], Vector], ...]
FUNCTIONS: Functions = (np.positive, np.tanh, lambda t: t**3)
TURNING: Functions = (np.square, np.abs, lambda t: np.cos(2 * t), lambda t: np.sin(2 * t))


def noises(rng: np.random.Generator, n: int, effect: float) -> tuple[Vector, Vector]:
    """Two, which share a part."""
    own, other, shared = rng.standard_normal((3, n))
    return own + effect * shared, other + effect * shared


def standardised(values: Vector) -> Vector:
    scaled: Vector = (values - values.mean()) / values.std()
    return scaled


def post_nonlinear(
    rng: np.random.Generator,
    n: int,
    d: int,
    effect: float,
    *,
    columns: int | None = None,
    inner: Functions = FUNCTIONS,
) -> tuple[Any, Any, Any]:
    """Functions of sums of functions of z and noise."""
    z = rng.standard_normal((n, d))

    def drawn(functions: Functions, x: Vector) -> Vector:
        return functions[rng.integers(len(functions))](x)

    pair = []
    for noise in noises(rng, n, effect):
        total = sum(standardised(drawn(inner, column)) for column in z.T[:columns])
        pair.append(drawn(FUNCTIONS, standardised(np.asarray(total)) + noise))
    return pair[0], pair[1], z


def spread(
    rng: np.random.Generator,
    n: int,
    d: int,
    effect: float,
    *,
    columns: int | None = None,
    few: bool = False,
) -> tuple[Any, Any, Any]:
    """Noise whose spread follows z, of which a column may have few values."""
    z = rng.integers(-2, 3, size=(n, d)) * 1.0 if few else rng.standard_normal((n, d))
    own = z[:, :columns]
    mean, scale = own.mean(axis=1) * own.shape[1] ** 0.5, np.abs(own).mean(axis=1)
    e, f = noises(rng, n, effect)
    return mean + scale * e, mean + scale * f, z


def categories(rng: np.random.Generator, n: int, d: int, effect: float) -> tuple[Any, Any, Any]:
    """Mean and spread follow a label."""
    labels = rng.integers(5, size=n)
    e, f = noises(rng, n, effect)
    scale = 0.5 + labels % 3
    return labels + scale * e, labels % 2 + scale * f, np.array(list("abcde"))[labels]


def turning(rng: np.random.Generator, n: int, d: int, effect: float) -> tuple[Any, Any, Any]:
    """A dependence that cancels over z."""
    z = rng.standard_normal((n, d))
    own, other, shared = rng.standard_normal((3, n))
    sign = np.sign(z[:, 0])
    return z[:, 0] + own + effect * shared, z[:, 0] + other + effect * sign * shared, z


def volatile(rng: np.random.Generator, n: int, d: int, effect: float) -> tuple[Any, Any, Any]:
    """A common spread."""
    z = rng.standard_normal((n, d))
    own, other, shared = rng.standard_normal((3, n))
    scale = np.exp(effect * shared)
    return z[:, 0] + scale * own, z[:, 0] + scale * other, z


def following(
    rng: np.random.Generator,
    n: int,
    d: int,
    effect: float,
    *,
    signal: Callable[[Vector], Vector],
    drawn: Callable[[np.random.Generator, tuple[int, ...]], Vector] | None = None,
    step: float = 0.0,
) -> tuple[Any, Any, Any]:
    """The same function of z in x and y, with noise of half its deviation, or rounded."""
    draw = drawn or np.random.Generator.standard_normal

    def rounded(values: Vector) -> Vector:
        return np.round(values / step) * step if step else values

    z = rounded(draw(rng, (n, d)))
    own, other, shared = draw(rng, (3, n))
    f = standardised(signal(z))
    x, y = (rounded(f + 0.5 * (noise + effect * shared)) for noise in (own, other))
    return x, y, z


def turns(z: Vector) -> Vector:
    """Sums of non-monotone functions of every column."""
    half = z.shape[1] // 2
    total: Vector = np.abs(z[:, :half]).sum(axis=1) + np.cos(3 * z[:, half:]).sum(axis=1)
    return total


def of_product(z: Vector) -> Vector:
    product: Vector = z[:, 0] * z[:, 1]
    return product


def of_radius(z: Vector) -> Vector:
    wave: Vector = np.sin(2 * np.linalg.norm(z, axis=1))
    return wave


def of_two(z: Vector) -> Vector:
    total: Vector = z[:, 0] + np.abs(z[:, 1])
    return total


CASES: dict[str, Case] = {
    "additive": post_nonlinear,
    "first column": partial(post_nonlinear, columns=1),
    "spread": spread,
    "spread, first column": partial(spread, columns=1),
    "categories": categories,
    "turning": turning,
    "non-monotone": partial(post_nonlinear, inner=TURNING),
    "few values": partial(spread, few=True),
    "volatile": volatile,
    "sums": partial(following, signal=turns),
    "product": partial(following, signal=of_product),
    "radius": partial(following, signal=of_radius),
    "heavy tails": partial(
        following, signal=of_two, drawn=lambda rng, shape: rng.standard_t(3, shape)
    ),
    "ties": partial(following, signal=of_two, step=0.5),
}
ONLY_DEPENDENT = ("turning", "volatile")


def ours(x: Any, y: Any, z: Any, seed: int) -> float:
    found = dhsic.conditional_independence_test(x, y, given=z, rng=seed, threads=1)
    return float(found.pvalue)


def residuals(x: Any, y: Any, z: Any, seed: int) -> float:
    found = causal.residual_independence_test(x, y, given=z, null="gamma", rng=seed, threads=1)
    return float(found.pvalue)


def kci(x: Any, y: Any, z: Any, seed: int) -> float:
    """The test of causal-learn, with its defaults."""
    from causallearn.utils.KCI.KCI import KCI_CInd

    np.random.seed(seed)  # noqa: NPY002  # it draws from the global generator
    return float(KCI_CInd().compute_pvalue(x[:, None], y[:, None], z)[0])


def rcit(x: Any, y: Any, z: Any, seed: int) -> float:
    """The test of causal-learn, with its defaults."""
    from causallearn.utils.RCIT.RCIT import RCIT

    np.random.seed(seed)  # noqa: NPY002  # it draws from the global generator
    return float(RCIT().compute_pvalue(x[:, None], y[:, None], z)[0])


def fastkci(x: Any, y: Any, z: Any, seed: int) -> float:
    """The test of causal-learn, with its defaults, in this process."""
    from causallearn.utils.FastKCI.FastKCI import FastKCI_CInd

    np.random.seed(seed)  # noqa: NPY002  # it draws from the global generator
    with import_module("joblib").parallel_config(backend="sequential"):
        return float(FastKCI_CInd().compute_pvalue(x[:, None], y[:, None], z)[0])


def gcm(x: Any, y: Any, z: Any, seed: int) -> float:
    """The generalised covariance measure."""
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer

    del seed
    regression = make_pipeline(SplineTransformer(n_knots=8), RidgeCV(np.logspace(-4, 4, 9)))
    left = [target - regression.fit(z, target).predict(z) for target in (x, y)]
    products = left[0] * left[1]
    return float(2 * norm.sf(len(x) ** 0.5 * abs(products.mean()) / products.std()))


TESTS: dict[str, Callable[[Any, Any, Any, int], float]] = {
    "dhsic": ours,
    "residuals": residuals,
    "kci": kci,
    "rcit": rcit,
    "fastkci": fastkci,
    "gcm": gcm,
}


def one(work: tuple[str, str, int, int, float, int]) -> tuple[float, float, bool]:
    """The p-value of a test, NaN where it refuses, its processor seconds, and whether it warns."""
    test, case, n, d, effect, seed = work
    rng = np.random.default_rng([seed, n, d, list(CASES).index(case)])
    data = CASES[case](rng, n, d, effect)
    began = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UnexplainedWarning)
        try:
            p = TESTS[test](*data, seed)
        except DhsicError:
            p = np.nan
    return p, time.process_time() - began, bool(caught)


def rows(
    cells: list[tuple[str, str, int, int, float]], seeds: range, processes: int
) -> Iterator[dict[str, Any]]:
    runs = len(seeds)
    for cell in cells:
        found = np.array(parallel_map(one, [(*cell, seed) for seed in seeds], processes))
        ps = found[:, 0]
        count = int(np.isfinite(ps).sum())
        rejected = int((ps <= LEVEL).sum())
        warned = found[:, 2] > 0.0
        interval = binomtest(rejected, max(count, 1)).proportion_ci(0.99, "wilson")
        test, case, n, d, effect = cell
        yield {
            "test": test,
            "data": case,
            "columns of z": d,
            "n": n,
            "effect": effect,
            "runs": runs,
            "rejected": rejected / max(count, 1),
            "low": float(interval.low),
            "high": float(interval.high),
            "warned": warned.mean(),
            "rejected unwarned": int(((ps <= LEVEL) & ~warned).sum()) / max(count, 1),
            "spoilt": runs - count,
            "processor seconds": float(np.median(found[:, 1])),
        }


def seconds(
    tests: tuple[str, ...], sizes: tuple[int, ...], dims: tuple[int, ...]
) -> Iterator[dict[str, Any]]:
    """Processor seconds of one run each, of dhsic by one thread."""
    for n in sizes:
        for d in dims:
            for test in tests:
                # Imports are not of the run.
                one((test, "additive", WARM_UP_ROWS, d, 0.0, 0))
                p, taken, _ = one((test, "additive", n, d, 0.0, 0))
                yield {
                    "test": test,
                    "columns of z": d,
                    "n": n,
                    "processor seconds": taken,
                    "pvalue": p,
                }


@click.command(help=__doc__)
@click.option("--test", "tests", multiple=True, default=("dhsic", "residuals"))
@click.option("--data", "cases", multiple=True, default=tuple(CASES))
@click.option("--rows", "sizes", multiple=True, type=int, default=(200, 1000))
@click.option("--columns", "dims", multiple=True, type=int, default=(1, 5, 20))
@click.option("--effect", "effects", multiple=True, type=float, default=(0.0,))
@click.option("--runs", default=200)
@click.option("--first-seed", default=0, help="Of the first data set; the next have the next.")
@click.option("--rows-of-time", "sizes_of_time", multiple=True, type=int)
@click.option("--columns-of-time", "dims_of_time", multiple=True, type=int, default=(1, 10))
@click.option("--processes", default=2)
@click.option("--out", default="benchmarks/results/conditional_level.csv")
def main(
    tests: tuple[str, ...],
    cases: tuple[str, ...],
    sizes: tuple[int, ...],
    dims: tuple[int, ...],
    effects: tuple[float, ...],
    runs: int,
    first_seed: int,
    sizes_of_time: tuple[int, ...],
    dims_of_time: tuple[int, ...],
    processes: int,
    out: str,
) -> None:
    cells = [
        (test, case, n, d, effect)
        for effect in effects
        for case in cases
        for d in (dims[:1] if case == "categories" else dims)
        for n in sizes
        for test in tests
        if not (test != "dhsic" and case == "categories")
        if not (case in ONLY_DEPENDENT and effect == 0.0)
    ]
    seeds = range(first_seed, first_seed + runs)
    if runs:
        write_csv(out, rows(cells, seeds, processes), KEYS)
    times = seconds(tests, sizes_of_time, dims_of_time)
    write_csv(out.replace(".csv", "_seconds.csv"), times, KEYS_OF_TIME)


if __name__ == "__main__":
    main()
