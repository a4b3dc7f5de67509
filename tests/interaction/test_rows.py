"""The variable that is by itself moves within strata, and in whole groups."""

import dask.array as da
import numpy as np
import pytest

import dhsic
from dhsic._arguments import open_session
from dhsic._rows import RowLabels
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.resample import orbit_of
from dhsic.interaction.landmarks import FACTORISATIONS
from dhsic.kernels import parse
from tests import oracles
from tests.estimators.levels import Check

QUICK = {"estimator": dhsic.NystromMHSIC(30), "threads": 1, "n_resamples": 199}


def in_strata(rng, effect=0.0):
    """All three differ between a small and a large stratum; within them z is by itself."""
    strata = (rng.random(200) < 0.2) + 0
    x, y, z = rng.standard_normal((3, 200))
    z = z + 2.0 * effect * x * y
    return [one + 3.0 * strata for one in (x, x**2 + y, z)], {"strata": strata}


def in_groups(rng, effect=0.0):
    groups = rng.permutation(np.repeat(np.arange(50), 6))
    x, y, z = rng.standard_normal((3, 50))[:, groups] + 0.3 * rng.standard_normal((3, 300))
    return [x, y, z + 2.0 * effect * x * y], {"groups": groups}


CASES = [in_strata, in_groups]


def within(x, strata):
    found = x.copy()
    for s in np.unique(strata):
        own = strata == s
        found[own] = (x[own] - x[own].mean()) / x[own].std()
    return found


@pytest.mark.parametrize("case", CASES)
def test_replicates__are_those_of_the_definition(case):
    data, asked = case(np.random.default_rng(0), effect=0.1)
    null = dhsic.Permutation(60)
    options = {"kernels": "gaussian", "estimator": "v-lancaster", "null": null, "rng": 3}
    found = dhsic.interaction_test(*data, **options, **asked)
    rows = RowLabels(**asked)
    session = open_session(data, None, 3, "float64", None, 1, "2GiB", None, rows=rows)
    orders = oracles.orders_of_orbit(orbit_of(session, null), shifted=False)
    if "strata" in asked:
        data = [within(x, asked["strata"]) for x in data]
    n = len(data[0])
    centre = np.eye(n) - 1.0 / n
    kernels = [parse(one.kernel) for one in found.variables]
    grams = [centre @ k(x[:, None]) @ centre for k, x in zip(kernels, data, strict=True)]
    pvalues = []
    for a, b, s in FACTORISATIONS:
        product = grams[a] * grams[b]
        values = [np.sum(product * grams[s][np.ix_(order, order)]) / n for order in orders]
        pvalues.append(np.mean(np.array(values) >= values[0] * (1 - 1e-9)))
        if pvalues[-1] == max(pvalues):
            replicates = values[1:]
    assert [one.pvalue for one in found.factorisations] == pytest.approx(pvalues)
    np.testing.assert_allclose(found.null_distribution, replicates, rtol=1e-7, atol=1e-9)


def pvalue(case, seed, effect=0.0, asked=True):
    data, rows = case(np.random.default_rng([seed, 4]), effect)
    found = dhsic.interaction_test(*data, rng=seed, **QUICK, **(rows if asked else {}))
    return found.pvalue


@pytest.mark.parametrize("case", CASES)
def test_level__is_kept(case):
    check = Check.of(90, 0.05)
    assert check.passes(pvalue(case, seed) <= 0.05 for seed in range(check.runs))


@pytest.mark.parametrize("case", CASES)
def test_level__is_lost_without_the_argument(case):
    assert sum(pvalue(case, seed, asked=False) <= 0.05 for seed in range(30)) > 5


@pytest.mark.parametrize("case", CASES)
def test_power__is_there(case):
    assert sum(pvalue(case, seed, effect=1.0) <= 0.05 for seed in range(15)) >= 12


@pytest.mark.parametrize("case", CASES)
def test_storage_and_plan__change_nothing(case):
    data, asked = case(np.random.default_rng(0))
    whole = dhsic.interaction_test(*data, rng=0, **QUICK, **asked)
    lazy = [da.from_array(x, chunks=70) for x in data]
    assert dhsic.interaction_test(*lazy, rng=0, **QUICK, **asked).pvalue == whole.pvalue
    plan = dhsic.plan_interaction(*data, **QUICK, **asked)
    assert [step.name for step in plan.passes] == [done.name for done in whole.passes]
    told = {"in_strata": "exact where rows", "in_groups": "exact where whole groups"}
    assert whole.null_reason.startswith(told[case.__name__])


def test_signs__are_refused():
    data, asked = in_groups(np.random.default_rng(0))
    with pytest.raises(InvalidArgumentError, match="'multiplier' cannot keep to strata or groups"):
        dhsic.interaction_test(*data, null="multiplier", **asked)
