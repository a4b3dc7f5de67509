"""Rows that are no exchangeable draws: strata, groups and series, whoever says so."""

import inspect
import re
import warnings
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr

import dhsic
from dhsic.causal.measure import ResidualMeasure
from dhsic.causal.pair_residuals import pair_residuals
from dhsic.engine.neighbours import alike_pair
from dhsic.errors import (
    DataError,
    DependentRowsWarning,
    InvalidArgumentError,
    MemoryBudgetError,
)
from tests.dependent_rows import CASES, grouped, groups_case, season_case, series, strata_case
from tests.estimators.levels import Check

QUICK = dhsic.NystromHSIC(n_landmarks=30)
OPTIONS = {"estimator": QUICK, "kernels": "gaussian"}


def pvalue(variables, asked, seed):
    return dhsic.independence_test(*variables, rng=seed, threads=1, **OPTIONS, **asked).pvalue


def rejected(case, runs, effect=0.0, level=0.05, asked=True):
    for seed in range(runs):
        variables, rows = case(np.random.default_rng([seed, 7]), effect)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DependentRowsWarning)
            yield pvalue(variables, rows if asked else {}, seed) <= level


@pytest.mark.parametrize("case", CASES)
def test_level__is_kept(case):
    check = Check.of(120, 0.05 if case in CASES[:3] else 0.06)
    assert check.passes(rejected(case, check.runs))


@pytest.mark.parametrize("case", CASES)
def test_level__is_lost_without_the_argument(case):
    assert sum(rejected(case, 30, asked=False)) > 5


@pytest.mark.parametrize("case", CASES)
def test_power__is_there(case):
    assert sum(rejected(case, 20, effect=1.0)) >= 17


def test_pvalues__of_few_groups_are_exact_to_the_last():
    """With five groups there are 120 orders: P(p <= a) is at most a, and not far below."""
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(5), 3)
        x, y = rng.standard_normal((2, 5))[:, groups] + 0.3 * rng.standard_normal((2, 15))
        null = {"estimator": "v-hsic", "kernels": "gaussian", "null": dhsic.Shifts(200)}
        found.append(dhsic.independence_test(x, y, groups=groups, rng=seed, **null).pvalue)
    assert Check.of(60, 0.2).allowed.stop > np.count_nonzero(np.array(found) <= 0.2) > 3


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    strata = rng.integers(3, size=150)
    x, y = rng.standard_normal((2, 150)) + 4 * strata
    site, sex = strata.astype(str), strata % 2
    return pd.DataFrame({"x": x, "y": y, "site": site, "code": strata, "sex": sex})


def test_strata__hide_no_dependence_within_them():
    """The strata differ one way, and within them the variables depend the other way."""
    (x, y), asked = strata_case(np.random.default_rng(0), effect=0.5)
    assert np.corrcoef(x, y)[0, 1] < 0.0
    assert pvalue((x, y), asked, 0) < 0.01


def test_constant_strata__add_nothing():
    rng = np.random.default_rng(0)
    strata = np.repeat([0, 1, 2], 60)
    x, y = rng.standard_normal((2, 180))
    x[:60], y[60:120] = 0.1, 1e6
    assert 0.05 < pvalue((x, y), {"strata": strata}, 0) < 1.0


def test_labels__of_any_kind_are_the_same(table, tmp_path):
    group = zarr.create_group(tmp_path / "data.zarr")
    for name in ("x", "y", "code"):
        group.create_array(name, data=table[name].to_numpy(), chunks=(40,))
    ways = [
        table["code"],
        table["site"],
        table["site"].astype("category"),
        table["code"].to_numpy(float),
        list(table["code"]),
        da.from_array(table["code"].to_numpy(), chunks=40),
        group["code"],
        str(tmp_path / "data.zarr" / "code"),
        table[["code", "sex"]].to_numpy(),
    ]
    found = {pvalue((table["x"], table["y"]), {"strata": way}, 0) for way in ways}
    assert len(found) == 1
    named = {"data": table, "strata": "site"}
    assert pvalue(("x", "y"), named, 0) in found
    assert pvalue(("x", "y"), {**named, "strata": ["site", "sex"]}, 0) in found
    stored = {"data": str(tmp_path / "data.zarr"), "strata": "code"}
    assert pvalue(("x", "y"), stored, 0) in found
    assert pvalue(("x", "y"), {**stored, "data": group}, 0) in found


@pytest.mark.parametrize("case", CASES)
def test_storage__changes_nothing(case, tmp_path):
    variables, asked = case(np.random.default_rng(0))
    group = zarr.create_group(tmp_path / "data.zarr")
    for name, values in zip("xy", variables, strict=True):
        group.create_array(name, data=values, chunks=(37,))
    found = pvalue([group["x"], group["y"]], asked, 3)
    assert found == pvalue(variables, asked, 3)
    lazy = [da.from_array(x, chunks=50) for x in variables]
    assert found == pvalue(lazy, asked, 3)


def test_labels__are_refused_where_they_cannot_be_held():
    x, y = np.random.default_rng(0).standard_normal((2, 1000))
    with pytest.raises(MemoryBudgetError, match=r"labels of rows are held .*Allow memory=112000"):
        dhsic.plan(x, y, strata=np.arange(1000) % 7, memory="100KiB")


def test_large_stored_data__are_refused_where_they_cannot_be_held(tmp_path):
    group = zarr.create_group(tmp_path / "data.zarr")
    for name in "xy":
        group.create_array(name, shape=(40_000, 1_000), chunks=(1_000, 1_000), dtype="f8")
    labels = np.arange(40_000) % 7
    with pytest.raises(MemoryBudgetError, match=r"held in memory.*Allow memory="):
        dhsic.plan(group["x"], group["y"], strata=labels, memory="512MiB")


def test_missing__drops_labels_with_their_rows(table):
    gaps = table.assign(code=table["code"].where(table.index % 7 > 0))
    options = {"data": gaps, "rng": 0, "strata": "code", **OPTIONS}
    with pytest.raises(DataError, match="strata has no label in row 0"):
        dhsic.independence_test("x", "y", **options)
    result = dhsic.independence_test("x", "y", missing="drop", **options)
    assert (result.n, result.dropped) == (128, 22)
    kept = gaps.dropna()
    again = dhsic.independence_test("x", "y", **{**options, "data": kept})
    assert again.pvalue == result.pvalue


def test_result__says_what_was_assumed():
    variables, asked = strata_case(np.random.default_rng(0))
    told = dhsic.independence_test(*variables, rng=0, **OPTIONS, **asked).null_reason
    assert told.startswith("exact where rows are exchangeable within strata; all ")
    assert "of rows within strata" in told
    variables, asked = groups_case(np.random.default_rng(0))
    told = dhsic.independence_test(*variables, rng=0, null="permutation", **asked).null_reason
    assert told == (
        "as asked; exact where whole groups of equally many rows are exchangeable; whole groups of "
        "equally many rows shuffled"
    )
    variables, asked = season_case(np.random.default_rng(0))
    told = dhsic.independence_test(*variables, rng=0, **OPTIONS, **asked).null_reason
    assert told.startswith("asymptotic: right for long series that are stationary but for a period")
    assert "all 40 shifts of the series by multiples of 12 rows" in told


def test_rows_that_stay__are_told():
    labels = np.append(np.repeat(np.arange(30), 5), 30)
    x, y = np.random.default_rng(0).standard_normal((2, 151))
    assert "; 1 of 151 rows stay" in dhsic.independence_test(x, y, groups=labels, rng=0).null_reason


@pytest.mark.parametrize("case", CASES)
def test_plan__is_of_the_same_run(case):
    variables, asked = case(np.random.default_rng(0))
    plan = dhsic.plan(*variables, **asked)
    result = dhsic.independence_test(*variables, rng=0, **asked)
    assert [step.name for step in plan.passes] == [done.name for done in result.passes]


def test_least_pvalue__of_a_series_asks_for_no_shifts_that_there_are_not():
    x = np.random.default_rng(0).standard_normal(400)
    told = "the smallest with {} replicates; {} to tell a smaller one"
    longer, more = "a longer series has more shifts,", "take {} or so"
    options = {"order": dhsic.TimeOrder(lag=8), "rng": 0, "threads": 1}
    usual = {"estimator": "nystrom-m", "kernels": "gaussian"} | options
    for asked, count, how in ((None, 49, longer), (20, 19, more.format(199))):
        found = dhsic.independence_test(x, x, n_resamples=asked, **usual)
        assert told.format(count, how) in str(found)
    ranked = dhsic.rank_features(np.column_stack([x, x**2]), x, **options)
    pairs = dhsic.dependence_matrix(np.column_stack([x, x**2]), **options)
    for found in (ranked, pairs):
        assert told.format(49, longer) in str(found)


def test_lag__is_the_least_shift():
    x, y = np.random.default_rng(0).standard_normal((2, 600))
    told = [
        dhsic.independence_test(x, y, rng=0, order=dhsic.TimeOrder(lag=lag), **OPTIONS).null_reason
        for lag in (1, 20)
    ]
    assert "all 600 shifts of the series by multiples of 1 rows" in told[0]
    assert "all 30 shifts of the series by multiples of 20 rows" in told[1]


REFUSED = [
    ({"strata": np.arange(60)}, "alone in their stratum. Take coarser strata"),
    ({"groups": np.repeat(np.arange(10), np.arange(1, 11))}, "groups of equally many rows"),
    ({"groups": np.zeros(60)}, "groups of equally many rows"),
    ({"groups": np.repeat([0, 1, 2], 20)}, "can change places in 6 ways only"),
    ({"strata": np.zeros(50)}, "strata must have a value for each of the 60 rows, got 50"),
    ({"groups": np.repeat(np.arange(30), 2), "strata": np.arange(60) % 2}, "within one stratum"),
    ({"order": "rows"}, "order must be 'time' or a TimeOrder, got 'rows'"),
    ({"order": "time", "strata": np.zeros(60)}, "order and strata cannot go together"),
    ({"order": dhsic.TimeOrder(lag=4)}, "the series has 60 rows, which allow 15 shifts by 4"),
    ({"order": dhsic.TimeOrder(period=24)}, "allow 2 shifts"),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED)
def test_refused__in_words(asked, message):
    if "groups" in asked and len(asked["groups"]) == 55:
        x, y = np.random.default_rng(0).standard_normal((2, 55))
    else:
        x, y = np.random.default_rng(0).standard_normal((2, 60))
    with pytest.raises((DataError, InvalidArgumentError), match=message):
        dhsic.plan(x, y, **asked)


@pytest.mark.parametrize("options", [{"lag": 0}, {"period": 0}, {"lag": 5, "period": 12}])
def test_time_order__is_checked(options):
    with pytest.raises(InvalidArgumentError, match="must be"):
        dhsic.TimeOrder(**options)


def test_checkpoint__of_other_groups_is_refused(tmp_path):
    variables, asked = groups_case(np.random.default_rng(0))
    options = {"rng": 0, "checkpoint": str(tmp_path / "kept"), **OPTIONS}
    first = dhsic.independence_test(*variables, **asked, **options)
    assert dhsic.independence_test(*variables, **asked, **options).pvalue == first.pvalue
    with pytest.raises(InvalidArgumentError, match="is of another run: moves"):
        dhsic.independence_test(*variables, groups=asked["groups"] // 2, **options)


def warned(variables, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dhsic.independence_test(*variables, rng=0, **OPTIONS, **options)
    return [one for one in caught if one.category is DependentRowsWarning]


def test_warning__comes_once_and_says_what_to_do():
    rng = np.random.default_rng(0)
    x, y = (series(rng, 500, 0.9) for _ in range(2))
    (one,) = warned((x, y))
    assert one.filename == __file__
    assert "alike in 'x1' and 'x2'" in str(one.message)
    for argument in ("order='time'", "groups=", "strata="):
        assert argument in str(one.message)
    assert not warned((x, y), order="time")
    assert not warned((x, rng.standard_normal(500)))


def test_warning__is_not_of_data_sorted_by_a_variable():
    x = np.sort(np.random.default_rng(0).standard_normal(800))
    assert not warned((x, np.sin(5 * x)))


FUNCTIONS = {
    "dependence_matrix": (
        lambda x, y, **rows: dhsic.dependence_matrix(x, y, x + y, rng=0, **rows),
        "groups= (--groups)",
        {"order": "time"},
    ),
    "rank_features": (
        lambda x, y, **rows: dhsic.rank_features(np.c_[x, x**2], y, rng=0, **rows),
        "row_groups= (--row-groups)",
        {"row_groups": np.arange(500) // 5},
    ),
    "interaction_test": (
        lambda x, y, **rows: dhsic.interaction_test(x, y, x * y, rng=0, **rows),
        "Take groups=",
        {"groups": np.arange(500) // 5},
    ),
    "residual_independence_test": (
        lambda x, y, **rows: dhsic.causal.residual_independence_test(
            x, y, given=np.random.default_rng(1).standard_normal(500), rng=0, **rows
        ),
        "Take order='time'",
        {"order": "time"},
    ),
}
WITHOUT_ARGUMENTS = {
    "direction": lambda x, y: dhsic.causal.direction(x, y, rng=0),
    "PairResiduals.decide": lambda x, y: pair_residuals(x, y, rng=0).decide(ResidualMeasure()),
}


@pytest.mark.parametrize("name", WITHOUT_ARGUMENTS)
def test_warning__names_no_argument_that_a_function_lacks(name):
    x, y = (series(np.random.default_rng(seed), 500, 0.9) for seed in range(2))
    with pytest.warns(DependentRowsWarning, match="take rows that lie apart") as caught:
        WITHOUT_ARGUMENTS[name](x, y)
    assert {one.filename for one in caught} == {__file__}
    assert not any("=" in str(one.message) for one in caught)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_warning__comes_from_other_tests(name):
    run, remedy, rows = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    x, y = (series(rng, 500, 0.9) for _ in range(2))
    with pytest.warns(DependentRowsWarning, match="stored side by side are alike") as caught:
        run(x, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert remedy in str(caught[0].message)
    run(x, y, **rows)
    order = rng.permutation(500)
    run(x[order], y[order])


def test_warning__comes_to_code_without_a_name():
    x, y = (series(np.random.default_rng(seed), 500, 0.9) for seed in range(2))
    values = {"test": dhsic.independence_test, "x": x, "y": y}
    with pytest.warns(DependentRowsWarning) as caught:
        exec("test(x, y, rng=0, kernels='gaussian')", values)
    assert [one.filename for one in caught] == ["<string>"]


def test_warning__compares_all_of_many_variables():
    rng = np.random.default_rng(0)
    variables = [*rng.standard_normal((40, 400))]
    variables[10], variables[33] = (series(rng, 400, 0.9) for _ in range(2))
    with pytest.warns(DependentRowsWarning, match="alike in 'x11' and 'x34'"):
        dhsic.dependence_matrix(*variables, rng=0, n_landmarks=8, null="spectral")


def bursts(rng, n, on=0.04, stay=0.8):
    """Rare events that last five rows or so, of sizes of their own."""
    u, state, found = rng.random(n), False, np.zeros(n)
    for i in range(n):
        state = u[i] < (stay if state else on * (1 - stay) / (1 - on))
        found[i] = state
    return found * rng.gamma(1.0, 1.0, n)


KINDS = {
    "bursts": lambda rng, n: (bursts(rng, n), bursts(rng, n)),
    "bursts of words": lambda rng, n: (
        pd.DataFrame({"sky": np.where(bursts(rng, n) > 0.0, "rain", "dry")}),
        bursts(rng, n),
    ),
    "a counter": lambda rng, n: (
        pd.DataFrame({"a": series(rng, n, 0.9), "row": np.arange(n)}),
        series(rng, n, 0.9),
    ),
    "a month": lambda rng, n: (
        pd.DataFrame({"a": series(rng, n, 0.9), "month": np.arange(n) // 300}),
        series(rng, n, 0.9),
    ),
    "months that come again": lambda rng, n: (
        pd.DataFrame(
            {
                "noise": rng.standard_normal(n),
                "month": np.take(["Jan", "Feb", "Mar"], np.arange(n) // 50 % 3),
            }
        ),
        series(rng, n, 0.9),
    ),
    "stations": lambda rng, n: (
        pd.DataFrame(
            {
                "a": np.concatenate([series(rng, n // 4, 0.9) for _ in range(4)]),
                "station": np.repeat(["b", "a", "d", "c"], n // 4),
                "hour": np.tile(np.arange(n // 4), 4),
            }
        ),
        series(rng, n, 0.9),
    ),
    "a number of every group": lambda rng, n: (
        pd.DataFrame({"number": rng.standard_normal(n // 40).repeat(40)}),
        grouped(rng, n, 40, 0.5),
    ),
    "one of many columns": lambda rng, n: (
        pd.DataFrame(np.c_[rng.standard_normal((n, 30)), series(rng, n, 0.9)]).rename(
            columns="c{}".format
        ),
        series(rng, n, 0.9),
    ),
}
CALLS = {
    "independence_test": lambda x, y, z: dhsic.independence_test(x, y, estimator=QUICK, rng=0),
    "independence_test of three": lambda x, y, z: dhsic.independence_test(z, x, y, rng=0),
    "independence_test with weights": lambda x, y, z: dhsic.independence_test(
        x, y, weights=np.abs(z) + 0.5, rng=0
    ),
    "rank_features": lambda x, y, z: dhsic.rank_features(x, y, estimator=QUICK, rng=0),
    "dependence_matrix": lambda x, y, z: dhsic.dependence_matrix(x, y, z, rng=0),
    "interaction_test": lambda x, y, z: dhsic.interaction_test(x, y, z, rng=0),
    "residual_independence_test": lambda x, y, z: dhsic.causal.residual_independence_test(
        x, y, given=z, rng=0
    ),
    "conditional_independence_test": lambda x, y, z: dhsic.conditional_independence_test(
        x, y, given=z, rng=0
    ),
    "Dask": lambda x, y, z: dhsic.independence_test(
        da.from_array(np.asarray(x), chunks=500),
        da.from_array(np.asarray(y), chunks=500),
        rng=0,
        **OPTIONS,
    ),
}


def told(call, *variables):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*variables)
    return any(one.category is DependentRowsWarning for one in caught)


# All look at rows by the same code, so that two kinds are enough for most of them.
TABLE = [
    (name, kind)
    for name in CALLS
    for kind in (KINDS if name in ("independence_test", "rank_features") else list(KINDS)[:3:2])
    # Residuals of rows without an event are noise, in whose ranks and kernels events drown.
    if (name, kind) != ("residual_independence_test", "bursts")
]


@pytest.mark.parametrize(("name", "kind"), TABLE)
def test_warning__comes_from_every_function_for_series_of_all_kinds(name, kind):
    rng, n = np.random.default_rng(1), 1200
    x, y = KINDS[kind](rng, n)
    z, order = rng.standard_normal(n), rng.permutation(n)
    assert told(CALLS[name], x, y, z)
    shuffled = x.iloc[order].reset_index(drop=True) if isinstance(x, pd.DataFrame) else x[order]
    assert not told(CALLS[name], shuffled, y[order], z)


def test_warning__of_a_conditional_test_is_not_where_what_is_given_may_be_why():
    rng = np.random.default_rng(0)
    cause, sorted_, noise = series(rng, 900, 0.9), np.arange(900.0), rng.standard_normal((4, 900))
    for z in (cause, sorted_):
        x, y = np.sin(z / 90) + noise[0], np.cos(z / 90) + noise[1]
        assert not told(CALLS["conditional_independence_test"], x, y, z)
    x, y = series(rng, 900, 0.9), series(rng, 900, 0.9)
    for z in (noise[2], sorted_):
        assert told(CALLS["conditional_independence_test"], x, y, z)


def test_warning__is_there_where_independent_bursts_are_rejected():
    rng = np.random.default_rng(2)
    rejected = silent = 0
    for seed in range(12):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pair = bursts(rng, 3000), bursts(rng, 3000)
            low = dhsic.independence_test(*pair, rng=seed, **OPTIONS).pvalue <= 0.05
        rejected += low
        silent += low and not any(one.category is DependentRowsWarning for one in caught)
    assert rejected >= 3
    assert silent == 0


def alike(*variables, codes=False, **options):
    """With the columns of the first variable as codes, or none."""
    columns = [np.asarray(z, float).reshape(len(z), -1) for z in variables]
    kinds = [[codes and z is columns[0]] * z.shape[1] for z in columns]
    return alike_pair(columns, kinds, **options)


def twice(z):
    return z, z


EXCHANGEABLE = {
    "normal": lambda rng, n: rng.standard_normal((2, n)),
    "equal": lambda rng, n: twice(rng.standard_normal(n)),
    "cauchy": lambda rng, n: twice(rng.standard_cauchy(n)),
    "dependent": lambda rng, n: (lambda x: (x, x**2 + 0.3 * rng.standard_normal(n)))(
        rng.standard_normal(n)
    ),
    "rare": lambda rng, n: twice(rng.random(n) < 0.02),
    "rare and dependent": lambda rng, n: (lambda u: (u < 0.02, u < 0.03))(rng.random(n)),
    "counts": lambda rng, n: twice(rng.poisson(0.5, n)),
    "codes": lambda rng, n: twice(rng.integers(7, size=n)),
    "ten columns": lambda rng, n: twice(rng.standard_normal((n, 10))),
    "one series": lambda rng, n: (series(rng, n, 0.9), rng.standard_normal(n)),
    "shuffled series": lambda rng, n: twice(rng.permutation(series(rng, n, 0.9))),
    "missing together": lambda rng, n: np.where(
        rng.random(n) < 0.9, np.nan, rng.standard_normal((2, n))
    ),
    "sorted": lambda rng, n: (lambda x: (x, np.sin(5 * x)))(np.sort(rng.standard_normal(n))),
    "sorted, with noise": lambda rng, n: (
        lambda x: (np.c_[x, x + rng.standard_normal(n)], x**2 + rng.standard_normal(n))
    )(np.sort(rng.standard_normal(n))),
    "sorted by codes": lambda rng, n: (
        lambda c: (np.take([2, 0, 1], c), c[:, None] + 0.3 * rng.standard_normal((n, 4)))
    )(np.sort(rng.integers(3, size=n))),
}


@pytest.mark.parametrize("n", [60, 300])
@pytest.mark.parametrize("name", EXCHANGEABLE)
def test_alike_pair__raises_no_false_alarm(name, n):
    """Of 100, one in a hundred would give four or more in 2 % of runs, one in 200 in 0.2 %."""
    rng = np.random.default_rng(0)
    draws = (EXCHANGEABLE[name](rng, n) for _ in range(100))
    alarms = [alike(*one, codes="codes" in name, seed=i) for i, one in enumerate(draws)]
    assert sum(found is not None for found in alarms) <= 3


@pytest.mark.parametrize(
    ("pair", "least"),
    [
        (lambda rng: (series(rng, 1_000, 0.5), series(rng, 1_000, 0.5)), 40),
        (lambda rng: (series(rng, 300, 0.9), series(rng, 300, 0.9)), 40),
        (lambda rng: (grouped(rng, 1_000, 10, 0.64), grouped(rng, 1_000, 10, 0.64)), 40),
        (lambda rng: (bursts(rng, 2_000), bursts(rng, 2_000)), 36),
        (lambda rng: (np.c_[np.arange(300), series(rng, 300, 0.9)], series(rng, 300, 0.9)), 36),
    ],
)
def test_alike_pair__finds_series_and_groups(pair, least):
    rng = np.random.default_rng(0)
    assert sum(alike(*pair(rng)) is not None for _ in range(40)) >= least


def test_warning__does_not_end_a_test_whose_neighbours_all_miss_a_value():
    n = 20_000
    x, y = np.full(n, np.nan), np.random.default_rng(1).standard_normal(n)
    x[3 * n // 10 : 5 * n // 16] = np.arange(n // 80) % 7
    chunked = [da.from_array(z, chunks=2000).persist() for z in (x, y)]
    for data in ((x, y), chunked):
        found = dhsic.independence_test(*data, missing="pairwise", kernels="gaussian", rng=0)
        assert 0.0 < found.pvalue <= 1.0


def test_strata__say_that_a_variable_is_constant_within_them():
    strata, y = np.arange(200) % 2, np.random.default_rng(0).standard_normal(200)
    with pytest.raises(DataError, match="'x1' is constant: in every stratum all rows are the same"):
        dhsic.independence_test(strata + 0.5, y, strata=strata, kernels="gaussian", rng=0)


def test_period__needs_all_rows():
    rng = np.random.default_rng(0)
    season = 2.0 * np.sin(2.0 * np.pi * np.arange(960) / 24)
    x, y = season + rng.standard_normal((2, 960))
    x[rng.random(960) < 0.02] = np.nan
    given = {"order": dhsic.TimeOrder(period=24), "rng": 0, "kernels": "gaussian"}
    with pytest.raises(DataError, match=r"a period of 24 rows needs all rows, and \d+ that miss"):
        dhsic.independence_test(x, y, missing="drop", **given)
    with pytest.raises(DataError, match="fill the gaps"):
        dhsic.rank_features(x[:, None], y, missing="drop", order=given["order"], rng=0)
    assert dhsic.independence_test(x, y, missing="pairwise", **given).pvalue > 0.05
    assert dhsic.independence_test(x[:480], y[:480], missing="drop", order="time").pvalue > 0.0


@pytest.mark.parametrize("argument", ["strata", "groups", "weights"])
def test_labels__of_rows_in_another_order_are_refused(argument):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((60, 2)), columns=["a", "b"])
    labels = pd.Series(1 + np.arange(60) // 3)
    mixed = labels.sample(frac=1, random_state=0)
    for data in ({}, {"data": table}):
        variables = ("a", "b") if data else (table["a"], table["b"])
        dhsic.independence_test(*variables, rng=0, **data, **{argument: labels})
        with pytest.raises(DataError, match="labels are not in the same order"):
            dhsic.independence_test(*variables, rng=0, **data, **{argument: mixed})
    if argument != "weights":
        samples = table["a"][:30], table["a"][30:]
        asked = {argument: [labels[:30][::-1], labels[30:]]}
        with pytest.raises(DataError, match="labels are not in the same order"):
            dhsic.two_sample_test(*samples, rng=0, **asked)


def test_alike_pair__does_not_compare_rows_of_different_runs():
    pairs = np.random.default_rng(0).standard_normal((2, 100)).repeat(2, axis=1)
    assert alike(*pairs) is not None
    assert alike(*pairs, starts=[0, *range(1, 200, 2)]) is None


def test_guide__lists_the_functions_and_their_arguments():
    guide = Path(__file__).parents[1] / "docs" / "guide" / "dependent-rows.md"
    rows = re.findall(r"^\| (`.*`)" + r" \| (.*)" * 4 + r" \|$", guide.read_text(), re.MULTILINE)
    listed = {}
    for names, *arguments in rows:
        told = {one.strip("`=") for one in arguments} - {"no"}
        listed |= dict.fromkeys(re.findall(r"`([\w.]+)`", names), told)
    public = {name: getattr(dhsic, name) for name in dhsic.__all__}
    public |= {f"causal.{name}": getattr(dhsic.causal, name) for name in dhsic.causal.__all__}
    found = {}
    for name, value in public.items():
        parameters = set(inspect.signature(value).parameters) if inspect.isfunction(value) else ()
        rows = {"strata", "order", "weights"} & set(parameters)
        if rows and "missing" in parameters:
            found[name] = parameters & {"strata", "groups", "row_groups", "order", "weights"}
    for name in ("rank_features", "plan_ranking", "select_features"):
        found[name].remove("groups")  # of columns
    assert listed == found
