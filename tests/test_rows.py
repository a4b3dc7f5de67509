"""Rows that are no exchangeable draws: strata, groups and series, whoever says so."""

import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr

import dhsic
from dhsic.errors import DataError, DependentRowsWarning
from tests.dependent_rows import CASES, grouped, series, strata_case
from tests.estimators.levels import Check

QUICK = dhsic.NystromHSIC(n_landmarks=30)
OPTIONS = {"estimator": QUICK, "kernels": "gaussian"}
CONTRACTIONS = {"outer": QUICK, "pointwise": dhsic.NystromMHSIC(30), "gram": dhsic.VHSIC()}


def pvalue(variables, asked, seed, **other):
    options = {**OPTIONS, **asked, **other}
    return dhsic.independence_test(*variables, rng=seed, threads=1, **options).pvalue


def rejected(case, runs, effect=0.0, level=0.05, asked=True, **other):
    for seed in range(runs):
        variables, rows = case(np.random.default_rng([seed, 7]), effect)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DependentRowsWarning)
            yield pvalue(variables, rows if asked else {}, seed, **other) <= level


@pytest.mark.parametrize("contraction", CONTRACTIONS)
@pytest.mark.parametrize("case", CASES)
def test_level__is_kept(case, contraction):
    check = Check.of(90, 0.05 if case in CASES[:3] else 0.06)
    assert check.passes(rejected(case, check.runs, estimator=CONTRACTIONS[contraction]))


@pytest.mark.parametrize("case", CASES)
def test_level__is_lost_without_the_argument(case):
    assert sum(rejected(case, 20, asked=False)) > 4


@pytest.mark.parametrize("case", CASES)
def test_power__is_there(case):
    assert sum(rejected(case, 10, effect=1.0)) >= 9


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


def test_strata__hide_no_dependence_within_them():
    """The strata differ one way, and within them the variables depend the other way."""
    (x, y), asked = strata_case(np.random.default_rng(0), effect=0.5)
    assert np.corrcoef(x, y)[0, 1] < 0.0
    assert pvalue((x, y), asked, 0) < 0.01


@pytest.mark.parametrize("unit", [1e-290, 1e290])
def test_strata__take_numbers_of_any_unit(unit):
    (x, y), asked = strata_case(np.random.default_rng(0), effect=0.1)
    assert pvalue((unit * x, y), asked, 0) == pvalue((x, y), asked, 0) < 1.0
    x[0] = 1e160  # one huge value leaves the spread of other strata
    assert 0.0 < pvalue((x, y), asked, 0) <= 1.0


def test_constant_strata__add_nothing():
    rng = np.random.default_rng(0)
    strata = np.repeat([0, 1, 2], 60)
    x, y = rng.standard_normal((2, 180))
    x[:60], y[60:120] = 0.1, 1e6
    assert 0.05 < pvalue((x, y), {"strata": strata}, 0) < 1.0


def warnings_of(call, *variables, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*variables, **options)
    return [one for one in caught if one.category is DependentRowsWarning]


def of_two(x, y, **options):
    return dhsic.independence_test(x, y, rng=0, **OPTIONS, **options)


def test_warning__comes_once_and_says_what_to_do():
    rng = np.random.default_rng(0)
    x, y = (series(rng, 500, 0.9) for _ in range(2))
    (one,) = warnings_of(of_two, x, y)
    assert one.filename == __file__
    for told in ("alike in 'x1' and 'x2'", "order='time'", "groups=", "strata="):
        assert told in str(one.message)
    assert not warnings_of(of_two, x, y, order="time")
    assert not warnings_of(of_two, x, rng.standard_normal(500))
    for one in (others := warnings_of(dhsic.causal.direction, x, y)):
        assert "take rows that lie apart" in str(one.message)
        assert "=" not in str(one.message)  # it has no argument for such rows
    assert others


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
    "months that come again": lambda rng, n: (
        pd.DataFrame({"x": rng.standard_normal(n), "month": np.arange(n) // 50 % 3}),
        series(rng, n, 0.9),
    ),
    "a number of every group": lambda rng, n: (
        pd.DataFrame({"number": rng.standard_normal(n // 40).repeat(40)}),
        grouped(rng, n, 40, 0.5),
    ),
}


def conditional(x, y, z):
    return dhsic.conditional_independence_test(x, y, given=z, rng=0)


MORE = {
    "independence_test of three": lambda x, y, z: dhsic.independence_test(z, x, y, rng=0),
    "independence_test with weights": lambda x, y, z: dhsic.independence_test(
        x, y, weights=np.abs(z) + 0.5, rng=0
    ),
    "conditional_independence_test": conditional,
    "residual_independence_test": lambda x, y, z: dhsic.causal.residual_independence_test(
        x, y, given=z, rng=0
    ),
    "rank_features": lambda x, y, z: dhsic.rank_features(x, y, rng=0),
    "dependence_matrix": lambda x, y, z: dhsic.dependence_matrix(x, y, z, rng=0),
    "interaction_test": lambda x, y, z: dhsic.interaction_test(x, y, z, rng=0),
    "Dask": lambda x, y, z: of_two(*(da.from_array(np.asarray(a), chunks=500) for a in (x, y))),
}
TABLE = [("independence_test", kind) for kind in KINDS]
TABLE += [(name, "a counter") for name in MORE]


@pytest.mark.parametrize(("name", "kind"), TABLE)
def test_warning__is_of_rows_of_all_kinds_and_not_of_shuffled_ones(name, kind):
    call = MORE.get(name, lambda x, y, z: dhsic.independence_test(x, y, estimator=QUICK, rng=0))
    rng, n = np.random.default_rng(1), 1200
    x, y = KINDS[kind](rng, n)
    z, order = rng.standard_normal(n), rng.permutation(n)
    assert warnings_of(call, x, y, z)
    shuffled = x.iloc[order].reset_index(drop=True) if isinstance(x, pd.DataFrame) else x[order]
    assert not warnings_of(call, shuffled, y[order], z)


def twice(z):
    return z, z


EXCHANGEABLE = {
    "normal": lambda rng, n: rng.standard_normal((2, n)),
    "equal": lambda rng, n: twice(rng.standard_cauchy(n)),
    "rare": lambda rng, n: twice(np.r_[1.0, rng.random(n - 1) < 0.05]),
    "counts": lambda rng, n: twice(rng.poisson(0.5, n)),
    "labels": lambda rng, n: twice(np.array(list("abcdefg"))[rng.integers(7, size=n)]),
    "one series": lambda rng, n: (series(rng, n, 0.9), rng.standard_normal(n)),
    "sorted": lambda rng, n: (lambda x: (x, np.sin(5 * x)))(np.sort(rng.standard_normal(n))),
}


@pytest.mark.parametrize("name", EXCHANGEABLE)
def test_warning__raises_no_false_alarm(name):
    """Of 60, one in a hundred would give four or more in 0.3 % of runs, one in ten in 86 %."""
    rng = np.random.default_rng(0)
    draws = (EXCHANGEABLE[name](rng, 60) for _ in range(60))
    usual = {"estimator": "v-hsic", "n_resamples": 19}
    alarms = [
        bool(warnings_of(dhsic.independence_test, *one, rng=seed, **usual))
        for seed, one in enumerate(draws)
    ]
    assert sum(alarms) <= 3


@pytest.mark.parametrize(
    ("pair", "least"),
    [
        (lambda rng: (series(rng, 300, 0.9), series(rng, 300, 0.9)), 20),
        (lambda rng: (grouped(rng, 1_000, 10, 0.64), grouped(rng, 1_000, 10, 0.64)), 20),
        (lambda rng: (np.c_[np.arange(300), series(rng, 300, 0.9)], series(rng, 300, 0.9)), 18),
    ],
)
def test_warning__finds_series_and_groups(pair, least):
    rng = np.random.default_rng(0)
    assert sum(bool(warnings_of(of_two, *pair(rng))) for _ in range(20)) >= least


def test_warning__of_a_conditional_test_is_not_where_what_is_given_may_be_why():
    rng = np.random.default_rng(0)
    cause, sorted_, noise = series(rng, 900, 0.9), np.arange(900.0), rng.standard_normal((4, 900))
    for z in (cause, sorted_):
        x, y = np.sin(z / 90) + noise[0], np.cos(z / 90) + noise[1]
        assert not warnings_of(conditional, x, y, z)
    x, y = series(rng, 900, 0.9), series(rng, 900, 0.9)
    for z in (noise[2], sorted_):
        assert warnings_of(conditional, x, y, z)


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


def test_labels__are_columns_that_are_named(tmp_path):
    strata = np.random.default_rng(0).integers(3, size=150)
    x, y = np.random.default_rng(1).standard_normal((2, 150)) + 4 * strata
    table = pd.DataFrame({"x": x, "y": y, "site": strata.astype(str), "sex": strata % 2})
    group = zarr.create_group(tmp_path / "data.zarr")
    for name, values in {"x": x, "y": y, "code": strata}.items():
        group.create_array(name, data=values, chunks=(40,))
    found = {
        pvalue((x, y), {"strata": way}, 0) for way in (group["code"], f"{tmp_path}/data.zarr/code")
    }
    found |= {pvalue((x, y), {"strata": table[["site", "sex"]]}, 0)}
    found |= {pvalue(("x", "y"), {"data": group, "strata": "code"}, 0)}
    for names in ("site", ["site", "sex"]):
        found |= {pvalue(("x", "y"), {"data": table, "strata": names}, 0)}
    assert found == {pvalue((x, y), {"strata": strata}, 0)}
