"""Tests over several kernels, from the call to the result."""

import dataclasses

import numpy as np
import pytest

import dhsic
from dhsic.kernels import Delta, Laplacian
from tests.estimators.levels import Check

GRID = dhsic.Grid(dhsic.Candidates("gaussian", (0.25, 1.0)), combine="all", reference_share=0)


def replace_seconds(result, other):
    return dataclasses.replace(result, seconds=other.seconds, passes=other.passes)


def sine(n, seed, m=2):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    others = [rng.standard_normal(n) for _ in range(m - 2)]
    return [x, np.sin(6 * x) + 0.6 * rng.standard_normal(n), *others]


def independent(n, seed, m=2):
    return list(np.random.default_rng(seed).standard_normal((m, n)))


@pytest.mark.parametrize("estimator", ["nystrom-m", "v-hsic", "u-hsic", dhsic.RFFHSIC(40)])
def test_grid__finds_what_one_bandwidth_misses(estimator):
    data = sine(300, 1)
    options = {"estimator": estimator, "null": "permutation", "n_resamples": 99, "rng": 0}
    assert dhsic.independence_test(*data, kernels="gaussian", **options).pvalue > 0.05
    result = dhsic.independence_test(*data, kernels=GRID, **options)
    assert result.pvalue == 0.01
    grid = result.grid
    assert len(grid.combinations) == 4
    strongest = grid.combinations[grid.strongest]
    assert len(strongest.factors) == len(strongest.kernels)
    assert grid.reference != grid.strongest
    reference = grid.combinations[grid.reference]
    assert reference.kernels == tuple(v.kernel for v in result.variables)
    assert strongest.standardised == max(c.standardised for c in grid.combinations)
    assert result.statistic == pytest.approx(strongest.standardised)
    assert strongest.pvalue == 0.01
    assert result.pvalue_error is not None


@pytest.mark.parametrize("m", [2, 3])
def test_statistic__grows_with_the_evidence_where_the_score_has_ended(m):
    rng = np.random.default_rng(0)
    x, z, noise = rng.standard_normal((3, 300))
    cause = np.sin(x) if m == 2 else x * z
    grid = dhsic.Grid(aggregate="max")
    found = [
        dhsic.independence_test(x, *[z] * (m - 2), signal * cause + noise, kernels=grid, rng=0)
        for signal in (0.8, 1.0, 3.0, 5.0)
    ]
    statistics = [one.statistic for one in found]
    assert statistics == sorted(set(statistics))
    assert statistics[-1] > 2 * statistics[0]
    assert len({one.score for one in found}) == len({one.pvalue for one in found}) == 1
    single = dhsic.independence_test(x, cause + noise, kernels="gaussian", rng=0)
    assert single.score is None
    assert single.null_scores is None


def test_default__finds_a_trend_of_two_numbers_as_often_as_distance_covariance():
    """With half of the weight on normal scores it found 13 of 40, and distance covariance 15."""
    found = {"distance": 0, None: 0}
    for seed in range(40):
        x, noise = np.random.default_rng([seed, 60]).standard_normal((2, 60))
        for kernels in found:
            test = dhsic.independence_test(
                x, np.exp(0.25 * x + noise), kernels=kernels, rng=seed, threads=1
            )
            found[kernels] += test.pvalue <= 0.05
    assert found[None] >= found["distance"] > 10


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize(
    ("null", "m", "how"),
    [
        ("shifts", 2, "soft"),
        ("permutation", 2, "max"),
        pytest.param("permutation", 3, "min-p", marks=pytest.mark.nightly),
    ],
)
def test_grid__keeps_the_level(null, m, how):
    runs = 200
    grid = dhsic.Grid(
        dhsic.Candidates("gaussian", (0.25, 1.0, 4.0)), combine="matched", aggregate=how
    )
    rejected = (
        dhsic.independence_test(
            *independent(100, seed, m),
            kernels=grid,
            estimator=dhsic.NystromMHSIC(n_landmarks=30),
            null=null,
            n_resamples=39,
            rng=seed,
            threads=1,
        ).pvalue
        <= 0.05
        for seed in range(runs)
    )
    assert Check.of(runs, 0.05, error=1e-4, least=0.05).passes(rejected)


def test_default__tries_several_kernels_where_the_method_can():
    data = sine(300, 1)
    found = dhsic.independence_test(*data, rng=0)
    assert found == replace_seconds(
        dhsic.independence_test(*data, kernels=dhsic.Grid.auto(), rng=0), found
    )
    assert len(found.grid.combinations) == 15
    assert found.pvalue < 0.02
    for options in (
        {"null": "gamma"},
        {"estimator": "dcov"},
        {"estimator": "rff-hsic"},
        {"kernels": "gaussian"},
    ):
        assert dhsic.independence_test(*data, rng=0, **options).grid is None


def test_grid__of_one_combination_is_the_test_with_its_kernels():
    data = sine(200, 1)
    data[1] = np.round(data[1])
    options = {"null": dhsic.Permutation(50), "rng": 0}
    median = dhsic.independence_test(*data, kernels=("laplacian", "delta"), **options)
    grid = dhsic.Grid((dhsic.Candidates(Laplacian(), (0.5,)), dhsic.Candidates(Delta())))
    result = dhsic.independence_test(*data, kernels=grid, **options)
    assert result.grid is None
    gamma, half = (float(r.variables[0].kernel.split(":")[1]) for r in (median, result))
    assert half == pytest.approx(2 * gamma)
    kernels = [Laplacian(gamma=half), Delta()]
    again = dhsic.independence_test(*data, kernels=kernels, **options)
    assert result.statistic == pytest.approx(again.statistic, rel=1e-9)


def test_plan__of_a_grid_needs_more():
    data = [np.zeros((20_000, 3)), np.zeros(20_000)]
    one, four = (dhsic.plan(*data, kernels=k) for k in ("gaussian", GRID))
    assert four.peak_worker_bytes > one.peak_worker_bytes
