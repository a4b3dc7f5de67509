"""Features are ranked with the strata, groups and order of rows that a single test has."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr

import dhsic
from dhsic.errors import DataError, InvalidArgumentError
from tests.dependent_rows import CASES, series
from tests.estimators.levels import Check

ESTIMATORS = [dhsic.NystromMHSIC(40), dhsic.NystromHSIC(30), dhsic.VHSIC()]
QUICK = {"estimator": dhsic.NystromHSIC(30), "threads": 1}


def ranked(asked):
    """The same in the words of a ranking, whose groups are of columns."""
    return {"row_groups" if name == "groups" else name: x for name, x in asked.items()}


def two_columns(case, effect=0.0):
    (x, y), asked = case(np.random.default_rng(0), effect)
    return np.column_stack([x, x**2]), y, asked


def in_strata(rng, effect):
    strata = rng.integers(4, size=200)
    x = 2.0 * strata[:, None] + rng.standard_normal((200, 3))
    y = rng.standard_normal(200) - 1.5 * strata + effect * (x[:, 0] - 2.0 * strata)
    return x, y, {"strata": strata}


def in_groups(rng, effect):
    groups = rng.permutation(np.repeat(np.arange(40), 8))
    x = rng.standard_normal((40, 3))[groups] + 0.5 * rng.standard_normal((320, 3))
    y = rng.standard_normal(40)[groups] + 0.5 * rng.standard_normal(320) + effect * x[:, 0]
    return x, y, {"row_groups": groups}


def in_time(rng, effect):
    x = np.column_stack([series(rng, 400, 0.8) for _ in range(3)])
    return x, series(rng, 400, 0.8) + effect * x[:, 0], {"order": dhsic.TimeOrder(lag=8)}


SEVERAL = [in_strata, in_groups, in_time]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_rank__is_the_single_test_of_every_column(case, estimator):
    x, y, asked = two_columns(case, effect=0.3)
    found = dhsic.rank_features(x, y, estimator=estimator, rng=3, **ranked(asked))
    for column, feature in zip(x.T, found.features, strict=True):
        single = dhsic.independence_test(
            column, y, kernels="gaussian", null="shifts", estimator=estimator, rng=3, **asked
        )
        assert feature.statistic == pytest.approx(single.statistic, rel=1e-9)
        assert feature.pvalue == single.pvalue
    told = single.null_reason.removeprefix("as asked; ")
    assert found.null_reason == told


def found(case, seed, effect=0.0, asked=True):
    x, y, rows = case(np.random.default_rng([seed, 5]), effect)
    ranking = dhsic.rank_features(x, y, rng=seed, **QUICK, **(rows if asked else {}))
    return ranking.rejected(0.05, control="max-t")


@pytest.mark.parametrize("case", SEVERAL)
def test_family_wise_level__is_kept(case):
    check = Check.of(120, 0.05 if case is not in_time else 0.06)
    assert check.passes(bool(found(case, seed)) for seed in range(check.runs))


@pytest.mark.parametrize("case", SEVERAL)
@pytest.mark.filterwarnings("ignore::dhsic.errors.DependentRowsWarning")
def test_family_wise_level__is_lost_without_the_argument(case):
    assert sum(bool(found(case, seed, asked=False)) for seed in range(20)) > 6


@pytest.mark.parametrize("case", SEVERAL)
def test_power__is_there(case):
    assert sum("x[0]" in found(case, seed, effect=1.0) for seed in range(12)) >= 10


@pytest.mark.parametrize("case", CASES)
def test_storage__changes_nothing(case, tmp_path):
    x, y, asked = two_columns(case)
    group = zarr.create_group(tmp_path / "data.zarr")
    for name, values in (("x", x), ("y", y)):
        group.create_array(name, data=values, chunks=(37, *values.shape[1:]))
    options = {**QUICK, **ranked(asked), "rng": 3}
    whole = dhsic.rank_features(x, y, **options)
    lazy = [da.from_array(z, chunks=(50, *z.shape[1:])) for z in (x, y)]
    for data in (lazy, [group["x"], group["y"]]):
        found = dhsic.rank_features(*data, **options)
        assert [f.pvalue for f in found.features] == [f.pvalue for f in whole.features]


@pytest.mark.parametrize("case", CASES)
def test_plan__is_of_the_same_run(case):
    x, y, asked = two_columns(case)
    plan = dhsic.plan_ranking(x, y, **QUICK, **ranked(asked))
    found = dhsic.rank_features(x, y, rng=0, **QUICK, **ranked(asked))
    assert [step.name for step in plan.passes] == [done.name for done in found.passes]


def test_labels__are_columns_of_the_data_and_groups_of_columns_go_with_them():
    x, y, asked = in_strata(np.random.default_rng(1), 0.0)
    table = pd.DataFrame(x, columns=list("abc")).assign(y=y, site=asked["strata"].astype(str))
    columns = {"both": ["a", "b"], "last": ["c"]}
    options = {"groups": columns, "rng": 0, **QUICK}
    named = dhsic.rank_features(list("abc"), "y", data=table, strata="site", **options)
    given = dhsic.rank_features(x, y, names=list("abc"), **asked, **options)
    assert [f.pvalue for f in named.features] == [f.pvalue for f in given.features]
    assert [f.name for f in named.features] == ["both", "last"]


def test_sensitivity__is_of_columns_within_strata():
    """The first column tells of the target within strata, the second only of the stratum."""
    rng = np.random.default_rng(0)
    strata = rng.integers(4, size=400)
    x = rng.standard_normal((400, 2)) + 3.0 * strata[:, None]
    y = 3.0 * strata + 0.5 * (x[:, 0] - 3.0 * strata)
    options = {"by": "sensitivity", "rng": 0, "estimator": "v-hsic"}
    within = dhsic.rank_features(x, y, strata=strata, **options).features
    pooled = dhsic.rank_features(x, y, **options).features
    assert within[0].sensitivity > 4 * within[1].sensitivity
    assert pooled[0].sensitivity < 2 * pooled[1].sensitivity


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"row_groups": np.arange(100) // 5, "null": "multiplier"}, None, "cannot keep to strata"),
        ({"order": "time", "null": "permutation"}, None, "cannot keep to a series in time"),
        ({"order": "time", "strata": np.arange(100) % 2}, None, "cannot go together"),
        ({"row_groups": np.arange(90)}, DataError, "row_groups must have a value for each of the"),
        ({"strata": np.arange(100)}, DataError, "alone in their stratum"),
        ({"groups": np.arange(100) // 5}, None, "groups"),
    ],
)
def test_refused__in_words(asked, error, words):
    x, y = np.random.default_rng(0).standard_normal((2, 100))
    with pytest.raises(error or InvalidArgumentError, match=words):
        dhsic.rank_features(np.column_stack([x, x**2]), y, **asked)


def confounded(rng, n=400):
    """Column 0 tells of the target within strata, column 1 of the stratum alone."""
    strata = rng.integers(4, size=n)
    x = rng.standard_normal((n, 4))
    y = 8.0 * strata + x[:, 0] + 0.5 * rng.standard_normal(n)
    x[:, 1] += 8.0 * strata
    return x, y, strata


@pytest.mark.parametrize("method", ["forward", "backward", "linear", "lasso"])
def test_selection__is_of_what_tells_within_strata(method):
    x, y, strata = confounded(np.random.default_rng(0))
    options = {"method": method, "rng": 0}
    assert dhsic.select_features(x, y, 1, strata=strata, **options).names == ("x[0]",)
    assert dhsic.select_features(x, y, 1, **options).names == ("x[1]",)


@pytest.mark.parametrize("method", ["forward", "linear", "lasso"])
def test_selection__is_that_of_values_within_strata(method):
    x, y, strata = confounded(np.random.default_rng(1))
    inside = [np.empty_like(z) for z in (x, y)]
    for z, own in zip((x, y), inside, strict=True):
        for s in range(4):
            rows = strata == s
            own[rows] = (z[rows] - z[rows].mean(0)) / z[rows].std(0)
    expected = dhsic.select_features(*inside, 3, method=method, rng=0)
    lazy = [da.from_array(z, chunks=(90, *z.shape[1:])) for z in (x, y)]
    for data in ((x, y), lazy):
        found = dhsic.select_features(*data, 3, strata=strata, method=method, rng=0)
        assert found.columns == expected.columns
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)
