"""RESIT and independence of residuals: what is found, by single tests, with every option."""

import numpy as np
import pytest
import zarr
from scipy.stats import binom
from sklearn.ensemble import RandomForestRegressor

import dhsic
from dhsic.causal import (
    CrossFitted,
    DAGSearch,
    ResidualIndependenceTestResult,
    Splines,
    residual_independence_test,
    search_dag,
)
from dhsic.causal.scoring import ResidualTest
from dhsic.errors import DataError, InvalidArgumentError

QUICK = Splines(n_knots=5)
FOREST = CrossFitted(RandomForestRegressor(10, min_samples_leaf=5), n_folds=2)


def chain(n=250, seed=0):
    a, b, c, d = np.random.default_rng(seed).uniform(-1.0, 1.0, (4, n))
    b += 2.0 * a**2
    c += np.tanh(2.0 * b)
    d += 0.5 * c**3
    return np.column_stack([d, b, a, c])


def search(data, **options):
    options = {"names": ("d", "b", "a", "c"), "regression": QUICK, "rng": 0, "threads": 1} | options
    return search_dag(data, **options)


def test_search__finds_a_chain():
    found = search(chain())
    assert found.order == ("a", "b", "c", "d")
    assert set(found.dag.edges) == {("a", "b"), ("b", "c"), ("c", "d")}
    assert found.pvalue > 0.05
    assert len(found.ordering) == 4 + 3 + 2
    assert len(found.pruning) == 6
    assert {one.name for one in found.passes} == {"regressions", "Gram sums"}
    assert [one.name for one in found.passes].count("regressions") == 1


@pytest.mark.parametrize(("time", "expected"), [(None, 600 / 4), (32, 2 * 32 / 16)])
def test_tests__share_the_time(time, expected, monkeypatch):
    """16 of 4 nodes at most, in seconds of one thread."""
    allowed, on = [], ResidualTest.on

    def choose(self, session, combinations):
        allowed.append(session.runtime.processor_seconds)
        return on(self, session, combinations)

    monkeypatch.setattr(ResidualTest, "on", choose)
    found = search(chain(), threads=2, time=time)
    assert len(allowed) == len(found.ordering) + len(found.pruning) + 1 == 16
    np.testing.assert_allclose(allowed, expected)


def test_tests__are_single_tests_of_residuals():
    data, rng = chain(), np.random.default_rng(0)
    found = search(data)
    numbers = {name: j for j, name in enumerate(found.names)}
    for one in (found.ordering[1], found.ordering[-1], found.pruning[-1]):
        given = [numbers[name] for name in one.given]
        before = given
        if one in found.pruning:
            before = sorted(numbers[name] for name in found.order if name != one.node)
        left = QUICK.residuals(data[:, [numbers[one.node]]], [data[:, [j]] for j in given], rng)
        scaled = data[:, before] / data[:, before].std(axis=0)
        alone = dhsic.independence_test(
            left, scaled, kernels="gaussian", estimator="v-hsic", null="gamma", rng=0
        )
        assert one.pvalue == pytest.approx(alone.pvalue, rel=1e-6)
        assert one.statistic == pytest.approx(alone.statistic, rel=1e-6)


def test_search__of_stored_rows_and_with_options(tmp_path):
    data = chain(150)[:, 1:3]
    options = {"names": ("b", "a")}
    zarr.create_array(tmp_path / "x.zarr", data=data, chunks=(40, 2))
    usual = search(data, **options)
    stored = search(str(tmp_path / "x.zarr"), **options)
    assert stored.ordering[0].pvalue == pytest.approx(usual.ordering[0].pvalue, rel=1e-7)
    assert usual.dag.edges == (("a", "b"),)
    assert search(data, alpha=1e-300, **options).dag.edges == ()
    for other in (
        {"regression": FOREST},
        {"kernels": "laplacian"},
        {"estimator": "nystrom-m"},
        {"null": "spectral"},
        {"n_resamples": 19},
    ):
        assert search(data, **options, **other).ordering != usual.ordering, other


def test_result__comes_back_and_reads_well():
    found = search(chain(100)[:, 1:3], names=("b", "a"))
    assert DAGSearch.from_json(found.to_json()) == found
    assert "a -> b" in str(found)
    assert found._repr_html_().startswith("<div class='dhsic-result'>")
    with pytest.raises(InvalidArgumentError, match="alpha must be greater than 0"):
        search(chain(), alpha=0.0)
    with pytest.raises(InvalidArgumentError, match="at least two variables"):
        search(chain()[:, :1], names=None)


def smooth(z):
    return np.sin(3 * z), np.cos(2 * z)


def rough(z):
    steps = np.sign(np.sin(40 * z))
    return steps, steps


def residuals(n, seed, functions=smooth, shared=0.0, **options):
    rng = np.random.default_rng(seed)
    z, (a, b) = rng.uniform(-1.0, 1.0, n), 0.5 * rng.standard_normal((2, n))
    f, g = functions(z)
    options = {"null": "gamma", "estimator": "v-hsic", "threads": 1, "rng": seed} | options
    return residual_independence_test(
        f + a, g + b + shared * a**2, given=z, kernels="gaussian", **options
    )


def test_residual_test__keeps_its_level_where_the_regression_fits():
    runs, n = 120, 100
    rejected = sum(residuals(n, seed).pvalue <= 0.05 for seed in range(runs))
    assert binom.sf(rejected - 1, runs, 0.08) > 1e-4  # approximate: residuals are estimated
    assert sum(residuals(n, seed, shared=2.0).pvalue <= 0.05 for seed in range(10)) >= 9


def test_residual_test__rejects_what_a_rough_regression_leaves():
    """The caveat of its docstring: functions that splines cannot follow look like dependence."""
    assert all(residuals(200, seed, rough).pvalue <= 0.05 for seed in range(10))
    forest = CrossFitted(RandomForestRegressor(20, min_samples_leaf=5, random_state=0))
    assert residuals(400, 0, rough, regression=forest).pvalue > residuals(400, 0, rough).pvalue


@pytest.mark.parametrize("regression", [QUICK, FOREST])
def test_residual_test__is_a_test_of_residuals(regression, tmp_path):
    rng = np.random.default_rng(0)
    x, y, z, w = rng.standard_normal((4, 150))
    y = y + x * z
    zarr.create_array(tmp_path / "z.zarr", data=z, chunks=(40,))
    found = residual_independence_test(
        x, y, given=[str(tmp_path / "z.zarr"), w], regression=regression, n_resamples=19, rng=0
    )
    assert found.given == ("z", "z2")
    if regression is QUICK:
        given = [z[:, None], w[:, None]]
        left = [QUICK.residuals(one[:, None], given, rng) for one in (x, y)]
        alone = dhsic.independence_test(*left, estimator="nystrom-m", n_resamples=19, rng=0)
        assert found.statistic == pytest.approx(alone.statistic, rel=1e-7)
        assert found.pvalue == pytest.approx(alone.pvalue)
    back = ResidualIndependenceTestResult.from_json(found.to_json())
    assert back == found
    assert "given z, z2" in str(found)


def test_residual_test__refuses_bad_input_in_words():
    x, y = np.random.default_rng(0).standard_normal((2, 50))
    with pytest.raises(InvalidArgumentError, match="given must hold a variable or more"):
        residual_independence_test(x, y, given=[])
    with pytest.raises(DataError, match="variable 'z1' needs columns that vary"):
        residual_independence_test(x, y, given=np.ones(50))
    with pytest.raises(DataError, match="must have the same rows"):
        residual_independence_test(x, y, given=y[:9])
