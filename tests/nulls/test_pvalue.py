"""The one p-value function."""

import math

import numpy as np
import pytest

from dhsic.errors import DataError
from dhsic.nulls import GammaDistribution, Replicates, StudentT, monte_carlo_error, pvalue
from dhsic.nulls.pvalue import pvalues

ROUNDING = {"float64": 2.0**-26, "float32": math.sqrt(2.0**-23)}


def test_pvalue__counts_the_observed_value_in():
    assert pvalue(5.0, Replicates(np.arange(9.0))) == 5 / 10
    assert pvalue(8.5, Replicates(np.arange(9.0))) == 1 / 10


@pytest.mark.parametrize("replicates", [1, 20, 999])
def test_pvalue__is_never_zero(replicates):
    assert pvalue(1e300, Replicates(np.zeros(replicates))) == 1 / (replicates + 1)


def test_pvalue__is_one_where_every_value_is_zero():
    assert pvalue(0.0, Replicates(np.zeros(9))) == 1.0


def test_pvalue__of_equal_values_is_one():
    assert pvalue(0.3, Replicates(np.full(9, 0.3))) == 1.0


def test_pvalue__counts_a_zero_statistic_below_positive_replicates():
    assert pvalue(0.0, Replicates(np.array([1.0, 2.0, 0.0, 1e-300]))) == 1.0


@pytest.mark.parametrize("statistic", [1e-12, 3.0, 1e12])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_pvalue__counts_ties_up_to_rounding_and_no_further(dtype, statistic):
    inside = Replicates(np.array([statistic * (1 - 0.99 * ROUNDING[dtype])]))
    outside = Replicates(np.array([statistic * (1 - 1.01 * ROUNDING[dtype])]))
    assert pvalue(statistic, inside, dtype) == 1.0
    assert pvalue(statistic, outside, dtype) == 0.5


def test_pvalue__takes_rounding_on_the_same_side_for_negative_statistics():
    eps = ROUNDING["float64"]
    assert pvalue(-3.0, Replicates(np.array([-3.0 * (1 + 0.99 * eps)]))) == 1.0
    assert pvalue(-3.0, Replicates(np.array([-3.0 * (1 + 1.01 * eps)]))) == 0.5


def test_pvalue__is_a_float():
    assert type(pvalue(np.float64(1.0), Replicates(np.ones(3)))) is float


@pytest.mark.parametrize(
    ("statistic", "replicate"), [(math.nan, 1.0), (1.0, math.nan), (math.inf, 1.0)]
)
def test_pvalue__refuses_values_that_are_no_numbers(statistic, replicate):
    with pytest.raises(DataError, match=r"must be finite.*overflow.*precision='float64'"):
        pvalue(statistic, Replicates(np.array([0.5, replicate])))


def test_monte_carlo_error__is_that_of_a_share():
    assert monte_carlo_error(0.2, 100) == pytest.approx(0.04)
    assert monte_carlo_error(1.0, 100) == 0.0
    assert monte_carlo_error(0.2, 400) == pytest.approx(0.02)


def test_pvalue__absolute_rounding_makes_ties():
    replicates = Replicates(np.array([0.5, 0.9, 2.0]))
    assert pvalue(1.0, replicates) == 0.5
    assert pvalue(1.0, replicates, rounding=0.1000001) == 0.75
    assert pvalue(0.0, Replicates(np.array([-1e-17, -1e-17])), rounding=1e-16) == 1.0


def test_pvalue__of_a_fitted_law_is_its_tail_at_the_statistic_less_rounding():
    law = GammaDistribution(1.0, 2.0)
    assert pvalue(3.0, law, np.float32) == law.sf(3.0)
    assert pvalue(3.0, law, rounding=0.5) == law.sf(2.5)


@pytest.mark.parametrize("law", [GammaDistribution(1.0, 2.0), StudentT(math.inf)])
def test_pvalue__of_a_fitted_law_is_never_zero(law):
    assert law.sf(1e6) == 0.0
    assert pvalue(1e6, law) == np.finfo(float).tiny


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pvalues__are_those_of_each(dtype):
    rng = np.random.default_rng(0)
    replicates = rng.integers(5, size=(99, 6)).astype(float)
    statistics, rounding = replicates[0] + 1e-9, np.array([0.0, 1e-9, 1.0, 9.0, 0.0, 2.0])
    statistics[4:] = -1.0, 50.0
    each = zip(statistics, replicates.T, rounding, strict=True)
    expected = [pvalue(t, Replicates(column), dtype, error) for t, column, error in each]
    np.testing.assert_array_equal(pvalues(statistics, replicates, dtype, rounding), expected)
