"""A ranking is the single test of every column; its CKA and adjusted p-values are by definition."""

import itertools
import re

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr
from scipy.stats import binom, false_discovery_control

import dhsic
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels import Columns, Delta, Gaussian, Laplacian, OnColumns, parse
from dhsic.nulls import step_down
from dhsic.sensitivity import column_sensitivities
from tests import oracles
from tests import oracles as gram_oracles
from tests.dependent_rows import CASES, series

ESTIMATORS = [
    dhsic.NystromMHSIC(),
    dhsic.NystromMHSIC(40, "joint"),
    dhsic.NystromHSIC(),
    dhsic.VHSIC(),
]
PRINCIPAL = dhsic.NystromHSIC(64, n_features="auto")
NULLS = [
    dhsic.Shifts(99),
    dhsic.Permutation(30),
    dhsic.Permutation(30, "groups", 64),
]
CONTROLS = ("bh", "by", "bonferroni", "holm", "max-t")
QUICK = {"estimator": dhsic.NystromHSIC(30), "threads": 1}


def make(n=300, d=4, seed=0, values=None):
    """Columns, and a target of so many values, or one that hardly repeats itself."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    y = x[:, 0] ** 2 + 0.5 * rng.standard_normal(n)
    return x, y if values is None else np.floor(values * (np.argsort(np.argsort(y)) / n))


def holm(pvalues):
    """Holm (1979), in a loop."""
    order, before = sorted(range(len(pvalues)), key=lambda j: pvalues[j]), 0.0
    adjusted = np.empty(len(pvalues))
    for place, j in enumerate(order):
        before = max(before, min(1.0, (len(pvalues) - place) * pvalues[j]))
        adjusted[j] = before
    return adjusted


def assert_is_single_tests(found, singles):
    """Statistics, estimates and p-values, and those adjusted from the joint replicates."""
    for feature, single in zip(found.features, singles, strict=True):
        assert feature.statistic == pytest.approx(single.statistic, rel=1e-9)
        assert feature.hsic == pytest.approx(single.estimate, rel=1e-7)
        assert feature.pvalue == single.pvalue
        assert feature.kernel == single.variables[0].kernel
    assert found.target_kernel == singles[0].variables[1].kernel
    rows = np.array([[one.statistic, *one.null_distribution] for one in singles]).T
    assert found.n_resamples == len(rows) - 1
    p = np.array([one.pvalue for one in singles])
    expected = {
        "bh": false_discovery_control(p, method="bh"),
        "by": false_discovery_control(p, method="by"),
        "bonferroni": np.minimum(len(p) * p, 1.0),
        "holm": holm(p),
        "max-t": oracles.step_down(oracles.standardised(rows)),
    }
    for control in CONTROLS:
        adjusted = [feature.adjusted(control) for feature in found.features]
        np.testing.assert_allclose(adjusted, expected[control], rtol=1e-12)
    standardised = [feature.standardised for feature in found.features]
    np.testing.assert_allclose(standardised, oracles.standardised(rows)[0], rtol=1e-6)


@pytest.mark.parametrize("values", [None, 12])
@pytest.mark.parametrize(
    ("estimator", "null"),
    [
        *itertools.product(ESTIMATORS, NULLS[:2]),
        (ESTIMATORS[0], NULLS[2]),
    ],
    ids=repr,
)
def test_rank__is_the_single_test_of_every_column(estimator, null, values):
    x, y = make(values=values)
    options = {"estimator": estimator, "null": null, "rng": 3}
    found = dhsic.rank_features(x, y, **options)
    singles = [dhsic.independence_test(one, y, kernels="gaussian", **options) for one in x.T]
    assert_is_single_tests(found, singles)
    for place, single in enumerate(singles):
        if single.landmarks is not None:
            kept = single.landmarks.kept
            kept = kept[0] if isinstance(kept, tuple) else kept
            assert found.landmarks.kept[place] == kept


def test_rank__of_many_rows_has_the_principal_features_of_the_single_test():
    x, y = make(1100)
    found = dhsic.rank_features(x, y, n_resamples=200, rng=3)
    options = {"estimator": dhsic.NystromHSIC(256, n_features="auto"), "n_resamples": 200}
    singles = [dhsic.independence_test(one, y, kernels="gaussian", rng=3, **options) for one in x.T]
    assert found.estimator_reason == "more than 1,000 rows"
    assert [f.pvalue for f in found.features] == [single.pvalue for single in singles]


@pytest.mark.parametrize(
    ("case", "estimator"),
    [
        *((case, ESTIMATORS[2]) for case in CASES),
        *itertools.product((CASES[0], CASES[1], CASES[3]), (dhsic.NystromMHSIC(40), dhsic.VHSIC())),
    ],
    ids=lambda one: getattr(one, "__name__", getattr(one, "name", "")),
)
def test_rank__keeps_to_the_rows_as_the_single_test_does(case, estimator):
    """Strata, groups and series; groups of a ranking are of columns, its rows have another word."""
    (x, y), asked = case(np.random.default_rng(0), 0.3)
    x = np.column_stack([x, x**2])
    options = {"estimator": estimator, "rng": 3}
    found = dhsic.rank_features(x, y, **options, **asked)
    singles = [
        dhsic.independence_test(one, y, kernels="gaussian", null="shifts", **options, **asked)
        for one in x.T
    ]
    assert_is_single_tests(found, singles)
    assert found.null_reason == singles[0].null_reason.removeprefix("as asked; ")


def test_groups__are_tested_as_the_variables_that_they_are():
    x, y = make()
    groups = {"pair": [0, 2], "one": np.array([3]), "three": range(1, 4)}
    options = {"estimator": "nystrom-m", "null": NULLS[1], "rng": 0}
    found = dhsic.rank_features(x, y, column_groups=groups, **options)
    assert [f.columns for f in found.features] == [(0, 2), (3,), (1, 2, 3)]
    singles = [
        dhsic.independence_test(x[:, list(f.columns)], y, kernels="gaussian", **options)
        for f in found.features
    ]
    assert_is_single_tests(found, singles)
    named = dhsic.rank_features(
        x, y, names=list("abcd"), column_groups=[["a", "c"], ["d"]], **options
    )
    assert [(f.name, f.columns) for f in named.features] == [("group 1", (0, 2)), ("group 2", (3,))]
    assert named.features[0].pvalue == found.features[0].pvalue


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("estimator", ["nystrom-m", "nystrom-hsic", "v-hsic"])
def test_kernels__are_one_a_feature_in_any_precision(estimator, precision):
    """Codes keep few landmarks, so that the target's tile is made in many strips."""
    x, y = make(300, 4)
    x[:, 2:] = np.digitize(x[:, 2:], [-0.5, 0.5])
    kernels = ["gaussian:0.5", Laplacian(), Delta(), "matern52"]
    options = {"estimator": estimator, "null": NULLS[1], "rng": 0, "precision": precision}
    found = dhsic.rank_features(x, y, feature_kernels=kernels, target_kernel="matern32", **options)
    singles = [
        dhsic.independence_test(one, y, kernels=[kernel, "matern32"], **options)
        for one, kernel in zip(x.T, kernels, strict=True)
    ]
    if precision == "float64":
        assert_is_single_tests(found, singles)
    for feature, single in zip(found.features, singles, strict=True):
        assert feature.statistic == pytest.approx(single.statistic, rel=1e-3)
        assert abs(feature.pvalue - single.pvalue) < 0.1


@pytest.mark.parametrize("estimator", [dhsic.VHSIC(), dhsic.NystromHSIC(80)], ids=repr)
def test_cka__is_that_of_gram_matrices_less_that_of_replicates(estimator):
    x, y = make(80)
    options = {"rng": 0, "null": "permutation", "n_resamples": 99}
    kernels = Gaussian(gamma=0.5), Gaussian(gamma=0.2)
    found = dhsic.rank_features(
        x, y, estimator=estimator, feature_kernels=kernels[0], target_kernel=kernels[1], **options
    )
    other = gram_oracles.gaussian_gram(y[:, None], y[:, None], 0.2)
    for column, feature in zip(x.T, found.features, strict=True):
        gram = gram_oracles.gaussian_gram(column[:, None], column[:, None], 0.5)
        single = dhsic.independence_test(column, y, kernels=kernels, estimator="v-hsic", **options)
        hsic, chance = gram_oracles.v_hsic([gram, other]), single.null_distribution.mean() / 80
        norms = hsic / oracles.cka(gram, other)
        assert feature.hsic == pytest.approx(hsic, rel=1e-8)
        assert feature.cka == pytest.approx((hsic - chance) / (norms - chance), rel=1e-7)


@pytest.mark.parametrize("estimator", ["v-hsic", "nystrom-hsic", "nystrom-m"])
def test_cka__of_landmarks_is_near_that_of_all_rows_and_1_of_a_copy_in_other_units(estimator):
    x, y = make(400)
    x[:, 1] = 1000 * y
    options = {"by": "cka", "rng": 0, "n_resamples": 9}
    exact = dhsic.rank_features(x, y, estimator="v-hsic", **options)
    found = dhsic.rank_features(x, y, estimator=estimator, **options)
    for feature, whole in zip(found.features, exact.features, strict=True):
        assert feature.cka == pytest.approx(whole.cka, abs=0.02)
    assert found.ranked()[0].name == "x[1]"
    assert found.features[1].cka == pytest.approx(1.0, abs=0.02)
    single = dhsic.rank_features(x, y, estimator=estimator, precision="float32", **options)
    for feature, whole in zip(single.features, found.features, strict=True):
        assert feature.hsic == pytest.approx(whole.hsic, rel=0.02, abs=3e-5)


@pytest.mark.parametrize(
    "estimator",
    [
        "v-hsic",
        *(pytest.param(one, marks=pytest.mark.nightly) for one in ("nystrom-hsic", "nystrom-m")),
    ],
)
def test_cka__of_many_categories_is_not_that_of_chance(estimator):
    """150 categories of 300 rows: CKA not corrected is .05, above that of a weak dependence."""
    found, last = [], 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y, noise, weak = rng.standard_normal((3, 300))
        table = pd.DataFrame(
            {
                "weak": y + 3.0 * weak,
                "noise": noise,
                "tail": [f"N{number}" for number in rng.integers(0, 150, 300)],
                "few": [f"N{number}" for number in rng.integers(0, 3, 300)],
                "y": y,
            }
        )
        ranking = dhsic.rank_features(
            list(table)[:-1], "y", data=table, estimator=estimator, by="cka", rng=seed, threads=1
        )
        last += ranking.ranked()[0].name == "weak"
        found.append([feature.cka for feature in ranking.features])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / 3.0
    assert last >= 9
    assert mean[0] > 0.02
    assert (np.abs(mean) < 3.0 * error + 5e-4)[1:].all()


# Level and power


def false_families(families, **options):
    """How many of 12 dependent columns, of which the target is independent, find any."""
    rng, false = np.random.default_rng(77), 0
    for seed in range(families):
        x = rng.standard_normal((80, 1)) + 0.7 * rng.standard_normal((80, 12))
        found = dhsic.rank_features(x, rng.standard_normal(80), rng=seed, threads=1, **options)
        false += bool(found.rejected(0.1, "max-t"))
    return false


def test_rank__keeps_the_family_wise_level():
    """Without account of the number of columns more than 30 % of the families find some."""
    options = {"estimator": PRINCIPAL, "n_resamples": 79}
    assert false_families(40, **options) <= binom.isf(0.001, 40, 0.1)


@pytest.mark.nightly
@pytest.mark.parametrize("null", ["shifts", "permutation"])
@pytest.mark.parametrize("estimator", [PRINCIPAL, dhsic.NystromMHSIC(12)], ids=repr)
def test_rank__keeps_the_family_wise_level_of_many_families(estimator, null):
    false = false_families(400, estimator=estimator, null=null, n_resamples=79)
    assert false <= binom.isf(0.001, 400, 0.1)


def in_strata(rng, effect):
    strata = rng.integers(4, size=200)
    x = 2.0 * strata[:, None] + rng.standard_normal((200, 3))
    y = rng.standard_normal(200) - 1.5 * strata + effect * (x[:, 0] - 2.0 * strata)
    return x, y, {"strata": strata}


def in_groups(rng, effect):
    groups = rng.permutation(np.repeat(np.arange(40), 8))
    x = rng.standard_normal((40, 3))[groups] + 0.5 * rng.standard_normal((320, 3))
    y = rng.standard_normal(40)[groups] + 0.5 * rng.standard_normal(320) + effect * x[:, 0]
    return x, y, {"groups": groups}


def in_time(rng, effect):
    x = np.column_stack([series(rng, 400, 0.8) for _ in range(3)])
    return x, series(rng, 400, 0.8) + effect * x[:, 0], {"order": dhsic.TimeOrder(lag=8)}


def found_in(case, seed, effect=0.0, asked=True):
    x, y, rows = case(np.random.default_rng([seed, 5]), effect)
    ranking = dhsic.rank_features(x, y, rng=seed, **QUICK, **(rows if asked else {}))
    return ranking.rejected(0.05, control="max-t")


def test_max_t__keeps_the_family_wise_level_with_some_alternatives():
    """Exchangeable dependent nulls beside two strong effects; level 10 %, 600 families."""
    rng, false = np.random.default_rng(0), 0
    for _ in range(600):
        rows = (0.7 * rng.standard_normal((40, 1)) + rng.standard_normal((40, 10))) ** 2
        rows[0, :2] += 60
        p = step_down(rows[0], rows[1:], np.zeros(10))
        assert (p[:2] <= 0.1).all()
        false += (p[2:] <= 0.1).any()
    assert binom.ppf(0.001, 600, 0.05) <= false <= binom.ppf(0.999, 600, 0.1)
    with pytest.raises(DataError, match="must be finite"):
        step_down(np.array([np.inf]), np.ones((3, 1)), np.zeros(1))


@pytest.mark.parametrize("case", [in_strata, in_groups, in_time])
@pytest.mark.filterwarnings("ignore::dhsic.errors.DependentRowsWarning")
def test_family_wise_level__of_dependent_rows_is_kept_by_the_argument_alone(case):
    """Without it more than 30 % of data sets are rejected: 40 show it but once in 100 times."""
    level = 0.05 if case is not in_time else 0.06
    assert sum(bool(found_in(case, seed)) for seed in range(40)) <= binom.isf(0.001, 40, level)
    assert sum(bool(found_in(case, seed, asked=False)) for seed in range(20)) > 6
    assert sum("x[0]" in found_in(case, seed, effect=1.0) for seed in range(8)) >= 7


@pytest.mark.nightly
@pytest.mark.parametrize("case", [in_strata, in_groups, in_time])
def test_family_wise_level__of_dependent_rows_is_kept_in_many_data_sets(case):
    level = 0.05 if case is not in_time else 0.06
    assert sum(bool(found_in(case, seed)) for seed in range(400)) <= binom.isf(0.001, 400, level)


@pytest.mark.parametrize("values", [None, 6])
@pytest.mark.parametrize("estimator", ["nystrom-m", "nystrom-hsic", "v-hsic"])
def test_rank__finds_the_relevant_and_keeps_the_rest(estimator, values):
    x, y = make(400, 20, values=values)
    options = {"rng": 0, "estimator": estimator}
    found = dhsic.rank_features(x, y, n_resamples=399, **options)
    for control in ("bh", "holm", "bonferroni", "max-t"):
        assert found.rejected(0.06, control) == ("x[0]",)
    few = dhsic.rank_features(x, y, null="permutation", n_resamples=39, **options)
    assert few.rejected(0.06, "holm") == ()  # 39 resamples cannot
    assert few.rejected(0.06, "max-t") == ("x[0]",)


# Constants, rare values and labels


@pytest.mark.parametrize("estimator", [dhsic.NystromMHSIC(30), dhsic.VHSIC()], ids=lambda e: e.name)
def test_constants__are_marked_and_the_others_ranked_as_without_them(estimator):
    x, y = make()
    still = np.insert(x, [0, 2], 7.0, axis=1)  # columns 0 and 3
    options = {"rng": 0, "n_resamples": 39, "estimator": estimator}
    names = ["c0", "x0", "x1", "c1", "x2", "x3"]
    found = dhsic.rank_features(still, y, names=names, **options)
    groups = {"x0": [1], "x1": [2], "x2": [4], "x3": [5]}
    without = dhsic.rank_features(still, y, column_groups=groups, **options)
    assert [f.name for f in found.features] == names
    assert tuple(f for f in found.features if not f.constant) == without.features
    constant = [f for f in found.features if f.constant]
    assert [f.name for f in constant] == ["c0", "c1"]
    for f in constant:
        assert (f.statistic, f.hsic, f.cka) == (0.0, 0.0, 0.0)
        assert {f.pvalue, *(f.adjusted(control) for control in CONTROLS)} == {1.0}
    for by in ("pvalue", "cka", "hsic"):
        assert {f.name for f in found.ranked(by)[-2:]} == {"c0", "c1"}
    assert re.search(r"c0 .* yes$", str(found), re.MULTILINE)


def test_constants__in_groups_are_no_hindrance():
    x, y = make()
    x[:, [1, 2]] = -3.0
    groups = {"mixed": [0, 1], "still": [1, 2]}
    mixed, still = dhsic.rank_features(x, y, column_groups=groups, rng=0, n_resamples=19).features
    assert (mixed.constant, still.constant) == (False, True)
    assert mixed.pvalue < 1.0
    with pytest.raises(DataError, match="needs a feature that varies, and all 1 of 'x'"):
        dhsic.rank_features(x, y, column_groups={"still": [1, 2]}, rng=0)


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_rare__flag_that_the_rows_of_bandwidths_miss_is_tested(scale):
    n = 60_000
    rng = np.random.default_rng(5)
    flag = np.zeros(n)
    flag[rng.choice(n, 8, replace=False)] = 1.0
    y = rng.standard_normal(n) + 40.0 * flag
    x = np.column_stack([scale * flag, rng.standard_normal(n)])
    options = {"estimator": dhsic.NystromMHSIC(20), "null": "permutation", "n_resamples": 39}
    found, _ = dhsic.rank_features(x, y, rng=0, **options).features
    assert not found.constant
    assert float(found.kernel.removeprefix("gaussian:")) == pytest.approx(scale**-2)
    assert found.pvalue == 1 / 40


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize("estimator", [dhsic.NystromMHSIC(20), dhsic.NystromHSIC(10)], ids=repr)
def test_rare__columns_beside_others_are_tested_as_by_themselves(estimator):
    n = 3000
    rng = np.random.default_rng(5)
    x = np.zeros((n, 5))
    x[-3:, 0], x[-2:, 1], x[:, 2], x[:, 4] = [1.0, 2.0, 4.0], 1.0, rng.standard_normal(n), 7.0
    y = x[:, 2] + rng.standard_normal(n)
    groups = {"a": [0], "b": [1], "both": [0, 1], "mixed": [1, 2], "constant": [3, 4], "d": [4]}
    options = {"rng": 1, "estimator": estimator, "n_resamples": 19}
    found = dhsic.rank_features(x, y, column_groups=groups, **options)
    assert [done.name for done in found.passes].count("scan") == 1
    assert [f.constant for f in found.features] == [False] * 4 + [True] * 2
    for feature in found.features[:4]:
        assert np.isfinite([feature.statistic, feature.hsic, feature.cka]).all()
    alone = dhsic.rank_features(x, y, column_groups={"both": [0, 1]}, **options).features[0]
    assert alone.kernel == found.features[2].kernel
    assert alone.statistic == pytest.approx(found.features[2].statistic, rel=1e-6)
    kernels = [float(f.kernel.removeprefix("gaussian:")) for f in found.features[:2]]
    assert kernels[1] == 1.0
    assert 4.0**-2 < kernels[0] < 1.0


@pytest.mark.parametrize("estimator", ["nystrom-m", "nystrom-hsic", "v-hsic", "auto"])
def test_labels__are_columns_beside_numbers(estimator):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "carrier": rng.choice(["AA", "DL", "UA"], 300),
            "distance": rng.standard_normal(300),
            "late": rng.random(300) < 0.5,
        }
    )
    delay = pd.Series(2.0 * (frame["carrier"] == "UA") + rng.standard_normal(300), name="delay")
    options = {"estimator": estimator, "rng": 0, "n_resamples": 99}
    found = dhsic.rank_features(frame, delay, **options)
    assert [f.name for f in found.features] == ["carrier", "distance", "late"]
    assert [f.kernel.split(":")[0] for f in found.features] == ["delta", "gaussian", "delta"]
    assert found.target == "delay"
    assert found.rejected(0.05, control="holm") == ("carrier",)
    groups = {"both": ["carrier", "distance"], "late": ["late"]}
    both, _ = dhsic.rank_features(frame, delay, column_groups=groups, **options).features
    assert both.kernel.startswith("gaussian:")
    assert both.kernel.endswith("@1*delta@0")
    assert both.pvalue < 0.05
    backwards = dhsic.rank_features(frame[["distance"]], frame["carrier"], **options)
    assert backwards.target_kernel == "delta"


# Sensitivities


def test_plan__times_the_map_of_sensitivities_too():
    x = np.random.default_rng(0).standard_normal((300, 3))
    options = {"by": "sensitivity", "estimator": dhsic.NystromMHSIC(20), "threads": 1}
    plan = dhsic.plan_ranking(x, x[:, 0], **options)
    assert "sensitivities" in {one.name for one in plan.passes}
    assert plan.timed.blocks.keys() == {one.name for one in plan.passes}


def test_time__is_that_of_the_map_of_sensitivities_too(monkeypatch):
    """A limit of time is kept by all that runs, so that the map is timed with the tests."""
    calls = []

    def counted(*args):
        calls.append(args[0].is_timed)
        return column_sensitivities(*args)

    monkeypatch.setattr("dhsic.ranking.column_sensitivities", counted)
    x = np.random.default_rng(0).standard_normal((100, 3))
    options = {"by": "sensitivity", "estimator": "nystrom-m", "time": "1h", "threads": 1}
    dhsic.rank_features(x, x[:, 0] ** 2, **options, rng=0)
    *timed, last = calls
    assert timed
    assert all(timed)
    assert not last


def test_sensitivity__is_that_of_the_map_of_all_columns_together():
    x, y = make(n=400, d=5)
    for estimator in (dhsic.NystromMHSIC(50), dhsic.VHSIC()):
        options = {"estimator": estimator, "rng": 2}
        found = dhsic.rank_features(x, y, by="sensitivity", n_resamples=19, **options)
        joint = dhsic.sensitivity_map(x, y, names=["x", "y"], kernels="gaussian", **options)
        sizes = [f.sensitivity for f in found.features]
        np.testing.assert_allclose(sizes, joint.features["x"], rtol=1e-9)
        assert [f.sensitivity for f in found.ranked()] == sorted(sizes, reverse=True)
        plain = dhsic.rank_features(x, y, n_resamples=19, **options)
        assert [f.pvalue for f in plain.features] == [f.pvalue for f in found.features]
        assert {f.sensitivity for f in plain.features} == {None}
        assert "ranked by sensitivity, exploratory" in str(found)


def test_sensitivity__sees_what_columns_tell_together():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 4))
    y = np.sign(x[:, 1] * x[:, 2]) * np.abs(rng.standard_normal(600))
    found = dhsic.rank_features(x, y, by="sensitivity", rng=0)
    assert {f.name for f in found.ranked()[:2]} == {"x[1]", "x[2]"}
    assert found.rejected(0.01, "holm") == ()


def test_sensitivity__sums_over_groups_and_uses_the_kernels_given():
    x, y = make()
    x[:, 3] = 1.0
    kernels = {"feature_kernels": "gaussian:0.3", "target_kernel": "laplacian"}
    options = {"rng": 0, "by": "sensitivity", "n_resamples": 9, **kernels}
    a, b, c = (f.sensitivity for f in dhsic.rank_features(x[:, :3], y, **options).features)
    groups = {"both": [0, 2], "one": [1], "still": [3]}
    found = dhsic.rank_features(x, y, column_groups=groups, **options).features
    sizes = [f.sensitivity for f in found]
    np.testing.assert_allclose(sizes, [a + c, b, 0.0], rtol=1e-9, atol=1e-12)


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


# Options


def test_by__ranks_by_what_was_asked():
    x, y = make()
    for by in ("hsic", "cka"):
        ranking = dhsic.rank_features(x, y, by=by, rng=0, n_resamples=9)
        values = [getattr(f, by) for f in ranking.ranked()]
        assert values == sorted(values, reverse=True)
    ranking = dhsic.rank_features(x, y, rng=0, n_resamples=9)
    keys = [(f.pvalue, -f.standardised) for f in ranking.ranked()]
    assert keys == sorted(keys)
    assert ranking.ranked("cka")[0].name == "x[0]"


def test_rejected__are_those_whose_adjusted_p_value_is_at_most_alpha():
    ranking = dhsic.rank_features(*make(200, 25), rng=0)
    for control, alpha in itertools.product(CONTROLS, (0.01, 0.1, 0.5)):
        expected = [f.name for f in ranking.ranked() if f.adjusted(control) <= alpha]
        assert list(ranking.rejected(alpha, control)) == expected
    for alpha in (0.0, 1.0, -1, "a", True):
        with pytest.raises(InvalidArgumentError, match="alpha must be greater than 0 and"):
            ranking.rejected(alpha)
    assert str(ranking).endswith("... and 5 more")
    bars = ranking.plot(alpha=0.03, control="max-t", most=10)
    assert len(bars.patches) == 10
    assert max(bar.get_width() for bar in bars.patches) == max(f.cka for f in ranking.features)


def test_options__change_what_they_say():
    x, y = make()
    options = {"estimator": "nystrom-m"}
    base = dhsic.rank_features(x, y, rng=0, **options)
    assert (base.null, base.n_resamples) == ("shifts", 1199)  # four orders of 300 rows, shifted
    assert dhsic.rank_features(x, y, rng=0, n_resamples=20, **options).n_resamples == 19
    other = dhsic.rank_features(x, y, rng=1, **options)
    assert other.features[1].statistic != base.features[1].statistic
    for some in ({"n_landmarks": 30}, {"replace": True}, {"tolerance": 1e-3}):
        few = dhsic.rank_features(x, y, estimator=dhsic.NystromHSIC(**some), rng=0, n_resamples=9)
        plain = dhsic.rank_features(x, y, estimator=dhsic.NystromHSIC(), rng=0, n_resamples=9)
        assert few.features != plain.features, some
    auto, default = (dhsic.rank_features(x, y, rng=0, **one) for one in ({"estimator": "auto"}, {}))
    assert auto.features == default.features
    assert auto.estimator == default.estimator == "v-hsic"


@pytest.mark.parametrize(
    ("estimator", "null", "d"),
    [
        (dhsic.VHSIC(), dhsic.Shifts(400), 6),
        (dhsic.NystromMHSIC(60), dhsic.Permutation(200), 40),
        (dhsic.NystromHSIC(40), dhsic.Permutation(200), 40),
    ],
    ids=repr,
)
def test_little_memory__takes_features_in_parts_and_finds_the_same(estimator, null, d):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((700 if d == 6 else 3000, d))
    y = x[:, 0] ** 2 + rng.standard_normal(len(x))
    options = {"estimator": estimator, "null": null, "threads": 1}
    few, all_ = (dhsic.plan_ranking(x[:, :k], y, **options).peak_bytes for k in (d // 3, d))
    memory = (few + all_) // 2
    whole = dhsic.rank_features(x, y, rng=0, **options)
    parted = dhsic.rank_features(x, y, rng=0, memory=memory, **options)
    assert len(parted.passes) > len(whole.passes)
    for one, other in zip(parted.features, whole.features, strict=True):
        assert one.pvalue == other.pvalue
        assert one.pvalue_max_t == other.pvalue_max_t
        assert one.cka == pytest.approx(other.cka, rel=1e-8)


# Kernels that see some columns


@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Delta(), Columns(Gaussian())])
@pytest.mark.parametrize("at", [(1,), (0, 2)])
def test_on_columns__is_the_kernel_of_these_columns(rng, kernel, at):
    x, z = np.round(rng.standard_normal((2, 20, 3)), 1)
    there, here = OnColumns(kernel, at).fit(x), kernel.fit(x[:, at])
    np.testing.assert_array_equal(there(x, z), here(x[:, at], z[:, at]))
    assert there.spec() == f"{here.spec()}@{','.join(map(str, at))}"
    assert parse(there.spec()).spec() == there.spec()


def test_on_columns__scaled_takes_no_notice_of_units(rng):
    x = np.column_stack([rng.standard_normal((30, 2)), np.ones(30)])
    scaled, plain = (OnColumns(Gaussian(), (0, 1, 2), scaled=one) for one in (True, False))
    units = np.array([1e3, 1e-3, 1.0])
    np.testing.assert_allclose(scaled.fit(x)(x), scaled.fit(x * units)(x * units), rtol=1e-12)
    assert np.abs(plain.fit(x)(x) - plain.fit(x * units)(x * units)).max() > 0.1
    for at in ((), (-1,), (1, 1), (0.5,), (True,)):
        with pytest.raises(InvalidArgumentError, match="columns must be different numbers >= 0"):
            OnColumns(Gaussian(), at)
    with pytest.raises(InvalidArgumentError, match=r"shape \(n, d\) with d > 3; got \(30, 3\)"):
        OnColumns(Gaussian(gamma=1.0), (3,))(x)
    with pytest.raises(DataError, match="columns 0, 1: a bandwidth needs"):
        OnColumns(Gaussian(), (0, 1)).fit(0.0 * x)


def people(n=200):
    """A table as people have it; `b` tells of `y`."""
    rng = np.random.default_rng(0)
    b = rng.standard_normal(n)
    return pd.DataFrame(
        {
            "Unnamed: 0": np.arange(n),
            " pay ": rng.standard_normal(n),
            "b": b,
            "y": b**2 + rng.standard_normal(n) / 9,
            "day": pd.date_range("2020", periods=n),
            "id": [f"u{i}" for i in range(n)],
            "number": np.arange(n) + 1,
            "where": rng.choice(["here", "there"], n),
        }
    )


@pytest.mark.parametrize("form", ["pandas", "polars", "dict", "csv", "parquet", "dask"])
def test_features__left_out_are_all_usable_columns_and_the_others_are_named(form, tmp_path):
    table = people()
    forms = {
        "pandas": lambda: table,
        "polars": lambda: pl.from_pandas(table),
        "dict": lambda: dict(table),
        "csv": lambda: table.to_csv(tmp_path / "t.csv", index=False) or str(tmp_path / "t.csv"),
        "parquet": lambda: table.to_parquet(tmp_path / "t.pq") or str(tmp_path / "t.pq"),
        "dask": lambda: dd.from_pandas(table, npartitions=2),
    }
    if form == "dask":  # which is not read to look for them
        table = table.drop(columns=["where", "number"])
    found = dhsic.rank_features(data=forms[form](), target="y", rng=0, n_resamples=199)
    assert {one.name for one in found.features} == {" pay ", "b", "where"}.intersection(table)
    assert found.ranked()[0].name == "b"
    reasons = {"Unnamed: 0": "has no name", "day": "", "id": "", "number": "counts the rows"}
    assert found.left_out.keys() == set(reasons).intersection(table)
    assert all(reasons[name] in told for name, told in found.left_out.items())
    assert "'Unnamed: 0' has no name" in dict(found.summary())["left out"]
    assert dhsic.ColumnRanking.from_json(found.to_json()).left_out == found.left_out


def test_features__left_out_have_no_column_with_another_task():
    table = people()
    table = table.assign(g=np.arange(200) // 2, s=np.arange(200) // 2 % 4)
    options = {"data": table, "target": "y", "strata": "s", "groups": "g", "rng": 0}
    found = dhsic.rank_features(**options, exclude=["where"], n_resamples=199)
    assert [one.name for one in found.features] == [" pay ", "b"]


@pytest.mark.parametrize(
    ("target", "exclude", "left"),
    [
        (2, "id", ["d", "0", "1"]),
        ("d", [0, "id"], ["1", "2"]),
        (["d", 1], 0, ["id", "2"]),
        ("d", np.array("id"), ["0", "1", "2"]),
    ],
)
def test_features__left_out_are_not_those_of_a_word_or_a_number(target, exclude, left):
    data = pd.DataFrame(np.random.default_rng(0).standard_normal((40, 5)))
    data = data.set_axis(["id", "d", 0, 1, 2], axis=1)
    found = dhsic.rank_features(data=data, target=target, exclude=exclude, rng=0)
    assert [one.name for one in found.features] == left
    assert found.target == ("y" if isinstance(target, list) else str(target))


@pytest.mark.parametrize("form", [dict, pd.DataFrame, xr.Dataset])
def test_features__of_one_column_have_its_name(form):
    v, w = np.random.default_rng(0).standard_normal((2, 40))
    data = form({"v": ("row", v), "w": ("row", w)} if form is xr.Dataset else {"v": v, "w": w})
    found = dhsic.rank_features(data=data, target="w", rng=0)
    assert [one.name for one in found.features] == ["v"]


def test_groups__may_be_lists_of_the_labels_of_each_row():
    x = np.random.default_rng(0).standard_normal((60, 3))
    crossed = np.stack([np.arange(60) // 20, np.arange(60) // 5], axis=1)
    options = {"features": x[:, :2], "target": x[:, 2], "rng": 0}
    listed = dhsic.rank_features(groups=crossed.tolist(), **options)
    assert listed.features == dhsic.rank_features(groups=crossed, **options).features


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"features": ["b", "y"], "target": "y"}, "target 'y' is among the features"),
        ({"features": people()[["b", "y"]], "target": people()["y"], "data": None}, "is among the"),
        ({"data": None, "target": "y"}, "missing a required argument: 'features'"),
        ({}, "target must name the variable"),
        ({"target": "z"}, "no column 'z'"),
        ({"target": "y", "exclude": ["z"]}, "no column 'z'"),
        ({"features": ["b"], "target": "y", "exclude": ["id"]}, "leave one of them out"),
        ({"features": ["b"], "target": "y", "groups": {"one": ["b"]}}, "as column_groups"),
        ({"features": ["b"], "target": "y", "row_groups": "id"}, "are groups"),
        ({"features": ["b", "day"], "target": "y"}, "column 'day'"),
        ({"data": people().assign(b=np.nan), "target": "y", "exclude": ["where"]}, "column 'b' of"),
    ],
)
def test_mistakes__are_told_by_the_names_of_columns(options, words):
    with pytest.raises((InvalidArgumentError, DataError), match=words) as caught:
        dhsic.rank_features(**{"data": people(), "rng": 0, **options})
    missing = not options or (options.get("data", 0) is None and "features" not in options)
    assert isinstance(caught.value, TypeError) == (missing or "row_groups" in options)
