"""Every pair of a matrix has the strata, groups and order of rows that a single test has."""

import itertools

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr

import dhsic
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels import parse
from dhsic.pairwise import matrix
from tests.dependent_rows import CASES, groups_case, strata_case, time_case
from tests.estimators.levels import Check

LANDMARKS = 30
QUICK = {"n_landmarks": LANDMARKS, "threads": 1}


def three(case, effect=0.0):
    (x, y), asked = case(np.random.default_rng(0), effect)
    return [x, y, np.random.default_rng(1).standard_normal(len(x))], asked


@pytest.mark.parametrize("case", CASES)
def test_pairs__are_those_of_the_single_test(case):
    """With all rows as landmarks, which do not depend on how they are drawn."""
    variables, asked = three(case, effect=0.2)
    n = len(variables[0])
    found = dhsic.dependence_matrix(*variables, n_landmarks=n, n_resamples=500, rng=3, **asked)
    for i, j in itertools.combinations(range(3), 2):
        single = dhsic.independence_test(
            variables[i],
            variables[j],
            kernels=[parse(found.variables[k].kernel) for k in (i, j)],
            estimator=dhsic.NystromHSIC(n_landmarks=n),
            null=dhsic.Shifts(500),
            rng=3,
            **asked,
        )
        assert found.hsic[i, j] == pytest.approx(single.estimate, rel=1e-5)
        assert found.pvalues[i, j] == pytest.approx(single.pvalue, abs=1e-12)
    assert found.null_reason == single.null_reason.removeprefix("as asked; ")


def pvalue(case, seed, effect=0.0, asked=True):
    variables, rows = case(np.random.default_rng([seed, 3]), effect)
    found = dhsic.dependence_matrix(*variables, rng=seed, **QUICK, **(rows if asked else {}))
    return found.pvalues[0, 1]


@pytest.mark.parametrize("case", [strata_case, groups_case, time_case])
def test_level__is_kept(case):
    check = Check.of(120, 0.05 if case is not time_case else 0.06)
    assert check.passes(pvalue(case, seed) <= 0.05 for seed in range(check.runs))


@pytest.mark.parametrize("case", [strata_case, groups_case, time_case])
@pytest.mark.filterwarnings("ignore::dhsic.errors.DependentRowsWarning")
def test_level__is_lost_without_the_argument(case):
    assert sum(pvalue(case, seed, asked=False) <= 0.05 for seed in range(30)) > 5


@pytest.mark.parametrize("case", [strata_case, groups_case, time_case])
def test_power__is_there(case):
    assert sum(pvalue(case, seed, effect=1.0) <= 0.05 for seed in range(15)) >= 13


@pytest.mark.parametrize("case", CASES)
def test_storage__changes_nothing(case, tmp_path):
    variables, asked = three(case)
    group = zarr.create_group(tmp_path / "data.zarr")
    for name, values in zip("xyz", variables, strict=True):
        group.create_array(name, data=values, chunks=(37,))
    whole = dhsic.dependence_matrix(*variables, rng=3, **QUICK, **asked)
    lazy = [da.from_array(x, chunks=50) for x in variables]
    for data in (lazy, [group[name] for name in "xyz"]):
        found = dhsic.dependence_matrix(*data, rng=3, **QUICK, **asked)
        np.testing.assert_array_equal(found.pvalues, whole.pvalues)
        np.testing.assert_allclose(found.cka, whole.cka, rtol=1e-12)


def test_labels__are_columns_of_the_data():
    (x, y), asked = strata_case(np.random.default_rng(0))
    table = pd.DataFrame({"x": x, "y": y, "site": asked["strata"].astype(str)})
    named = dhsic.dependence_matrix("x", "y", data=table, strata="site", rng=0, **QUICK)
    given = dhsic.dependence_matrix(x, y, rng=0, **asked, **QUICK)
    np.testing.assert_array_equal(named.pvalues, given.pvalues)


def test_auto__keeps_to_the_rows_however_many_pairs(monkeypatch):
    monkeypatch.setattr(matrix, "_MOST_PAIRS", 1)
    variables, asked = three(groups_case)
    found = dhsic.dependence_matrix(*variables, rng=0, **asked, **QUICK)
    assert found.null == "shifts"
    assert found.null_reason.startswith("exact where whole groups of equally many rows")
    assert dhsic.dependence_matrix(*variables, rng=0, **QUICK).null == "spectral"


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"null": "spectral"}, InvalidArgumentError, "cannot keep to strata, groups or the order"),
        ({"null": dhsic.Spectral()}, InvalidArgumentError, "take 'auto' or 'shifts'"),
        ({"strata": np.arange(320) % 2}, InvalidArgumentError, "must lie within one stratum"),
        ({"order": dhsic.TimeOrder(lag=300)}, DataError, "20 shifts or more"),
    ],
)
def test_refused__in_words(asked, error, words):
    variables, rows = three(groups_case)
    with pytest.raises(error, match=words):
        dhsic.dependence_matrix(*variables, **{**rows, **asked})
