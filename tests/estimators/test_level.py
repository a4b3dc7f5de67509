"""Rejection rates: no more than the level on independent data, more on dependent data."""

import numpy as np
import pytest
from scipy.stats import binom

import dhsic
from benchmarks.cases import ALTERNATIVES, NULL_CASES, linear, one_kernel
from dhsic.estimators import TABLE

RUNS = 250
FEWER_RUNS = 60
NULLS = {
    "multiplier": {"null": dhsic.Multiplier(99)},
    "permutation": {"null": dhsic.Permutation(99, within="all")},
    "permutation in blocks": {"null": dhsic.Permutation(99, within="blocks", block_rows=40)},
    "float32": {"null": dhsic.Multiplier(99), "precision": "float32"},
    "v-hsic": {"null": dhsic.Permutation(99), "estimator": "v-hsic"},
}


def rejections(draw, options, alpha, runs=RUNS):
    pvalues = [
        dhsic.independence_test(
            *draw(np.random.default_rng([7, seed])),
            rng=seed,
            threads=1,
            **options,
        ).pvalue
        for seed in range(runs)
    ]
    return int(np.sum(np.array(pvalues) <= alpha + 1e-9))


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("case", NULL_CASES)
@pytest.mark.parametrize("null", NULLS)
def test_level__is_kept(null, case, m):
    options = {**NULLS[null], "kernels": "gaussian"}
    count = rejections(lambda rng: NULL_CASES[case](100, m, rng), options, 0.1)
    assert binom.ppf(0.0005, RUNS, 0.05) <= count <= binom.ppf(0.9995, RUNS, 0.1)


def test_level_check__sees_a_test_that_rejects_twice_as_often():
    assert binom.cdf(binom.ppf(0.9995, RUNS, 0.1), RUNS, 0.2) < 0.2


@pytest.mark.parametrize("case", ALTERNATIVES)
@pytest.mark.parametrize("null", NULLS)
def test_power__is_far_above_the_level(null, case):
    options = {**NULLS[null], "kernels": "gaussian"}
    count = rejections(lambda rng: ALTERNATIVES[case](300, rng), options, 0.05, runs=30)
    assert count > binom.ppf(0.9999, 30, 0.05)


PAIRS = [
    pytest.param(entry.estimator(), null, id=f"{entry.estimator.name}-{null.name}")
    for entry in TABLE
    for null in (
        dhsic.Permutation(19),
        dhsic.Multiplier(19),
        dhsic.Gamma(),
        dhsic.Spectral(),
        dhsic.Normal(),
    )
    if type(null) in entry.nulls
]


@pytest.mark.parametrize(("estimator", "null"), PAIRS)
def test_level__is_kept_by_every_supported_pair(estimator, null):
    options = {"estimator": estimator, "null": null, "kernels": one_kernel(estimator)}
    count = rejections(lambda rng: NULL_CASES["ties"](60, 2, rng), options, 0.1, FEWER_RUNS)
    assert count <= binom.ppf(0.9995, FEWER_RUNS, 0.1)


@pytest.mark.parametrize(("estimator", "null"), PAIRS)
def test_power__is_there_in_every_supported_pair(estimator, null):
    options = {"estimator": estimator, "null": null, "kernels": one_kernel(estimator)}
    count = rejections(lambda rng: linear(200, rng, 0.6), options, 0.05, runs=12)
    assert count > binom.ppf(0.9999, 12, 0.05)
