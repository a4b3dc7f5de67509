"""Laws of a statistic under the null hypothesis."""

import math

import numpy as np
import pytest
from scipy import stats

from dhsic.errors import DataError
from dhsic.nulls import GammaDistribution, Replicates, StudentT

RNG = np.random.default_rng


def test_replicates__count_the_observed_value():
    law = Replicates(np.array([1.0, 2.0, 4.0]))
    assert [law.sf(x) for x in (0.5, 1.0, 3.0, 5.0)] == [1.0, 1.0, 0.5, 0.25]


def test_replicates__are_drawn_with_replacement():
    values = np.array([1.0, 2.0, 4.0])
    drawn = Replicates(values).draws(RNG(0), 3000)
    unique, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(unique, values)
    assert counts.min() > 850


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(
    "law",
    [
        lambda x: Replicates(np.array([1.0, x])),
        lambda x: GammaDistribution(x, 1.0),
        lambda x: GammaDistribution(1.0, x),
    ],
)
def test_law__refuses_numbers_that_are_none(law, bad):
    with pytest.raises(DataError, match="must be finite"):
        law(bad)


def test_gamma__has_its_two_moments():
    drawn = GammaDistribution(3.0, 5.0).draws(RNG(0), 200_000)
    assert drawn.mean() == pytest.approx(3.0, rel=0.01)
    assert drawn.var() == pytest.approx(5.0, rel=0.02)


@pytest.mark.parametrize("x", [1e-6, 1.0, 3.0, 30.0, 1000.0])
def test_gamma__tail_is_that_of_scipy(x):
    expected = stats.gamma.sf(x, 9.0 / 5.0, scale=5.0 / 3.0)
    assert GammaDistribution(3.0, 5.0).sf(x) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("x", [0.0, -1.0])
def test_gamma__is_at_least_zero(x):
    assert GammaDistribution(3.0, 5.0).sf(x) == 1.0


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 0.0), (1.0, 0.0), (-1e-20, 1e-40)])
def test_gamma__without_spread_is_no_evidence(mean, variance):
    law = GammaDistribution(mean, variance)
    assert law.sf(5.0) == 1.0
    np.testing.assert_array_equal(law.draws(RNG(0), 2), [mean, mean])


@pytest.mark.parametrize("df", [1.0, 7.0, 250.0, math.inf])
@pytest.mark.parametrize("x", [-2.0, 0.0, 1.5, 12.0])
def test_student__tail_is_that_of_scipy(df, x):
    expected = stats.norm.sf(x) if math.isinf(df) else stats.t.sf(x, df)
    assert StudentT(df).sf(x) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("df", [8.0, math.inf])
def test_student__draws_follow_its_tail(df):
    law = StudentT(df)
    assert (law.draws(RNG(0), 100_000) >= 1.5).mean() == pytest.approx(law.sf(1.5), abs=0.004)
