"""Residuals of groups of rows change places as wholes, and those of series are shifted."""

import dask.array as da
import numpy as np
import pytest

import dhsic
from dhsic.causal import nodes, residual_independence_test
from dhsic.causal.regression import find_regression
from dhsic.causal.residuals import residual_variables
from dhsic.errors import DataError, InvalidArgumentError
from tests.dependent_rows import series
from tests.estimators.levels import Check

QUICK = {"estimator": dhsic.NystromHSIC(30), "kernels": "gaussian", "threads": 1}


def in_groups(rng, effect=0.0):
    groups = rng.permutation(np.repeat(np.arange(50), 8))
    a, b = rng.standard_normal((2, 50))[:, groups] + 0.5 * rng.standard_normal((2, 400))
    z = rng.uniform(-2.0, 2.0, 400)
    return (np.sin(z) + a, z**2 + b + effect * a, z), {"groups": groups}


def in_time(rng, effect=0.0):
    a, b = series(rng, 500, 0.8), series(rng, 500, 0.8)
    z = rng.uniform(-2.0, 2.0, 500)
    return (np.sin(z) + a, z**2 + b + effect * a, z), {"order": dhsic.TimeOrder(lag=10)}


CASES = [in_groups, in_time]


def run(case, seed, effect=0.0, asked=True, lazy=False):
    data, rows = case(np.random.default_rng([seed, 6]), effect)
    x, y, z = [da.from_array(one, chunks=90) for one in data] if lazy else data
    rows = rows if asked else {}
    return residual_independence_test(x, y, given=z, rng=seed, **QUICK, **rows)


@pytest.mark.parametrize("case", CASES)
def test_level__is_kept(case):
    check = Check.of(90, 0.06)
    assert check.passes(run(case, seed).pvalue <= 0.05 for seed in range(check.runs))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore::dhsic.errors.DependentRowsWarning")
def test_level__is_lost_without_the_argument(case):
    assert sum(run(case, seed, asked=False).pvalue <= 0.05 for seed in range(20)) > 5


@pytest.mark.parametrize("case", CASES)
def test_power__is_there(case):
    assert sum(run(case, seed, effect=1.0).pvalue <= 0.05 for seed in range(12)) >= 10


@pytest.mark.parametrize("case", CASES)
def test_replicates__are_those_of_the_residuals(case):
    """As of a test of the same residuals, which are found here once more."""
    (x, y, z), asked = case(np.random.default_rng(0), effect=0.3)
    found = residual_independence_test(x, y, given=z, rng=3, **QUICK, **asked)

    session = nodes.open_nodes((x, y, z), ["x", "y", "z"], None, "refuse", 3)
    regressor = find_regression("splines")
    pair = residual_variables(session, regressor, {0: [(2,)], 1: [(2,)]})
    values = [source.read(0, len(x)) for source in pair]
    again = dhsic.independence_test(*values, rng=3, **QUICK, **asked)
    assert found.pvalue == again.pvalue
    assert found.null_reason == again.null_reason


@pytest.mark.parametrize("case", CASES)
def test_storage__changes_nothing(case):
    assert run(case, 0).pvalue == run(case, 0, lazy=True).pvalue


def test_refused__in_words():
    (x, y, z), asked = in_groups(np.random.default_rng(0))
    with pytest.raises(InvalidArgumentError, match="cannot keep to strata or groups"):
        residual_independence_test(x, y, given=z, null="gamma", **asked)
    with pytest.raises(DataError, match="groups must have a value for each"):
        residual_independence_test(x, y, given=z, groups=asked["groups"][:9])
