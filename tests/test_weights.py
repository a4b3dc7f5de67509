"""Rows with weights: independence in the population that they stand for."""

import re
import warnings

import numpy as np
import pytest

import dhsic
from dhsic.errors import ApproximateNullWarning, DataError
from tests.estimators.levels import Check
from tests.oracles import gaussian_gram, weighted_spectrum, weighted_v_hsic


def selected(rng, n, effect=0.0):
    """Rows of a population, drawn more often where x and y have the same sign."""
    x, y = rng.standard_normal((2, 4 * n))
    y += effect * x
    chance = np.where(x * y > 0.0, 0.9, 0.3)
    kept = np.flatnonzero(rng.random(4 * n) < chance)[:n]
    return x[kept], y[kept], 1.0 / chance[kept]


def tilted(rng, n, rho=0.4):
    """Correlated normals, with the ratio of the densities of independent ones and of theirs."""
    x, y = rng.standard_normal((2, n))
    y = rho * x + (1.0 - rho**2) ** 0.5 * y
    exponent = (x**2 - 2.0 * rho * x * y + y**2) / (1.0 - rho**2) - x**2 - y**2
    return x, y, np.exp(exponent / 2.0)


def shifted(rng, n, effect=0.0):
    """Flags and counts, drawn more often where both are large; effect as of `selected`."""
    x, y = rng.random(4 * n) < 0.4, rng.poisson(2.0, 4 * n)
    y = y + (rng.random(4 * n) < effect) * x
    chance = np.where(x & (y > 2), 0.8, 0.4)
    kept = np.flatnonzero(rng.random(4 * n) < chance)[:n]
    return x[kept].astype(float), y[kept].astype(float), 1.0 / chance[kept]


def steep(rng, n):
    """Independent normals, of which those of unlike signs are drawn up to 3,000 times as often."""
    x, y = rng.standard_normal((2, 60 * n))
    chance = np.exp(2.0 * np.clip(x * y, -3.0, 3.0) - 6.0)
    kept = np.flatnonzero(rng.random(60 * n) < chance)[:n]
    return x[kept], y[kept], 1.0 / chance[kept]


def pvalue(case, seed, n, effect=None, *, weighs=True):
    """A p-value, 1 where the test is refused for weights that few rows have."""
    rng = np.random.default_rng([seed, 11])
    x, y, weights = case(rng, n) if effect is None else case(rng, n, effect)
    asked = {"weights": weights} if weighs else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximateNullWarning)
        try:
            return dhsic.independence_test(x, y, rng=seed, threads=1, **asked).pvalue
        except DataError as error:
            if not re.search("a p-value needs weights worth|must be of several rows", str(error)):
                raise
            return 1.0


@pytest.mark.parametrize(("case", "n"), [(selected, 400), (tilted, 100), (shifted, 100)])
def test_level__is_kept_where_weights_depend_on_both_variables(case, n):
    check = Check.of(240, 0.06)
    assert check.passes(pvalue(case, seed, n) <= 0.05 for seed in range(check.runs))


def test_level__is_not_lost_to_steep_selection():
    """37 % are rejected without the refusal; 7.5 % leave 12 of 60 but in 1 of 1,000 studies."""
    assert sum(pvalue(steep, seed, 500) <= 0.05 for seed in range(60)) <= 12


def test_weights_of_few_rows__are_refused_by_the_test_and_its_plan_alone():
    x, y, weights = steep(np.random.default_rng(0), 500)
    worth = weights.sum() ** 2 / (weights**2).sum()
    assert worth < 175
    message = rf"worth 175 rows of equal weight or more, 35% of all; these are worth {worth:.3g}"
    for function in (dhsic.independence_test, dhsic.plan):
        with pytest.raises(DataError, match=message):
            function(x, y, weights=weights)
    assert np.isfinite(dhsic.hsic(x, y, weights=weights, rng=0).estimate)


@pytest.mark.parametrize(("case", "effect"), [(selected, 0.3), (selected, -0.3), (shifted, 0.8)])
def test_power__is_there(case, effect):
    assert sum(pvalue(case, seed, 400, effect) <= 0.05 for seed in range(20)) >= 17


def test_power__finds_a_population_that_the_draws_do_not_show():
    """Independent draws with the weights of correlated normals."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 1000))
    weights = np.exp(-(x**2 - 0.8 * x * y + y**2) / (2 * 0.84) + (x**2 + y**2) / 2)
    assert dhsic.independence_test(x, y, rng=0).pvalue > 0.05
    assert dhsic.independence_test(x, y, weights=weights, rng=0).pvalue < 0.001


@pytest.fixture
def small():
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, 40))
    weights = rng.uniform(0.2, 1.0, 40) * np.exp(np.minimum(x * y, 1.5))
    grams = [gaussian_gram(z[:, None], z[:, None], 2.0) for z in (x, y)]
    return x, y, weights, grams


def test_estimate__is_v_hsic_of_the_weighted_measure(small):
    x, y, weights, grams = small
    found = dhsic.hsic(x, y, kernels="gaussian:2.0", weights=weights, rng=0)
    assert found.estimate == pytest.approx(weighted_v_hsic(grams, weights), rel=1e-5)
    plain = dhsic.hsic(x, y, kernels="gaussian:2.0", estimator="v-hsic").estimate
    equal = dhsic.hsic(x, y, kernels="gaussian:2.0", weights=np.full(40, 0.1), rng=0)
    assert equal.estimate == pytest.approx(plain, rel=1e-5)
    assert abs(found.estimate / plain - 1.0) > 0.01
    scaled = dhsic.hsic(x, y, kernels="gaussian:2.0", weights=list(7.0 * weights), rng=0)
    assert scaled.estimate == pytest.approx(found.estimate, rel=1e-9)


def test_test__has_the_law_of_its_definition(small):
    x, y, weights, grams = small
    estimator = dhsic.NystromHSIC(40, tolerance=1e-12, n_features=40)
    options = {"estimator": estimator, "kernels": "gaussian:2.0", "rng": 0}
    with pytest.warns(ApproximateNullWarning, match="of 40 rows have so much of the weight"):
        found = dhsic.independence_test(x, y, weights=weights, **options)
    statistic = 40 * weighted_v_hsic(grams, weights)
    assert found.statistic == pytest.approx(statistic, rel=1e-5)
    law = weighted_spectrum(grams, weights)
    draws = np.random.default_rng(0).chisquare(1.0, (100_000, len(law))) @ law
    assert found.pvalue == pytest.approx(np.mean(draws >= statistic), abs=0.005)
    assert found.estimate == pytest.approx(found.statistic / 40)


def test_rare_values__are_told():
    rng = np.random.default_rng(0)
    x, y = (rng.random((2, 1000)) < 0.03).astype(float)
    with pytest.warns(ApproximateNullWarning, match="rows show how independent variables vary"):
        dhsic.independence_test(x, y, weights=rng.uniform(1.0, 3.0, 1000), rng=0)
