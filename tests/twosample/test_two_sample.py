"""Tests of samples compute MMD, exchange rows between samples, and keep to strata and groups."""

from itertools import count, islice

import numpy as np
import pandas as pd
import pytest
import zarr

import dhsic
from dhsic import Permutation, Shifts
from dhsic.errors import DataError, InvalidArgumentError
from tests import oracles
from tests.dependent_rows import within
from tests.estimators.cases import gaussian
from tests.estimators.levels import Check
from tests.estimators.orbit import FEWEST, Moves, landmark_rows, pooled

GAMMA = 0.3
KERNEL = f"gaussian:{GAMMA}"
ESTIMATORS = ["nystrom-mmd", "rff-mmd", "v-mmd", "u-mmd", "block-mmd"]


@pytest.fixture
def samples(rng):
    return [
        rng.standard_normal((61, 2)),
        1.2 * rng.standard_normal((40, 2)) + 0.3,
        rng.standard_normal((25, 2)) - 0.2,
    ]


def compare(*samples, **options):
    return dhsic.two_sample_test(*samples, **{"kernels": KERNEL, "rng": 1, **options})


def gram_of(samples):
    x = np.vstack(samples)
    labels = np.repeat(np.arange(len(samples)), [len(s) for s in samples])
    return gaussian(x, x, GAMMA), labels


def pool_of(samples):
    """Rows of the samples in the order of the pool, and the sample of each."""
    sample, place = pooled(samples)
    rows = [samples[int(k)][int(i)] for k, i in zip(sample, place, strict=True)]
    return np.array(rows), sample


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(
    ("estimator", "oracle"), [("v-mmd", oracles.v_mmd), ("u-mmd", oracles.u_mmd)]
)
def test_estimate__is_mmd(samples, estimator, oracle, count):
    samples = samples[:count]
    found = compare(*samples, estimator=estimator)
    expected = oracles.mean_mmd(oracle, *gram_of(samples))
    assert found.estimate == pytest.approx(expected, rel=1e-9)
    assert found.statistic == pytest.approx(sum(map(len, samples)) * expected, rel=1e-9)
    single = compare(*samples, estimator=estimator, precision="float32")
    assert single.estimate == pytest.approx(expected, rel=1e-3)


def test_nystrom__projects_on_pooled_landmarks(samples):
    first, second, _ = samples
    found = compare(first, second, estimator=dhsic.NystromMHSIC(30))
    z = pool_of([first, second])[0][np.sort(landmark_rows(1, 101, 30, 2)[0])]
    crosses = [gaussian(z, x, GAMMA) for x in (first, second)]
    expected = oracles.projected_mmd(gaussian(z, z, GAMMA), *crosses)
    assert found.estimate == pytest.approx(expected, rel=1e-6)
    assert found.landmarks.drawn == 30
    exact = compare(first, second, estimator="v-mmd")
    near = compare(first, second, estimator=dhsic.NystromMHSIC(101))
    assert near.estimate == pytest.approx(exact.estimate, rel=1e-3)


def test_rff__is_near_the_distance_of_mean_features(samples):
    first, second, _ = samples
    values = [
        compare(first, second, estimator=dhsic.RFFHSIC(40), n_resamples=2, rng=s).estimate
        for s in range(40)
    ]
    exact = compare(first, second, estimator="v-mmd").estimate
    assert np.mean(values) == pytest.approx(exact, rel=0.1)


def test_block__is_the_mean_of_unbiased_estimates(rng):
    x, y = rng.standard_normal((60, 1)), rng.standard_normal((60, 1)) + 0.7
    found = compare(x, y, estimator=dhsic.BlockHSIC(block_rows=12))
    parts = [slice(start, start + 6) for start in range(0, 60, 6)]
    expected = np.mean([oracles.mean_mmd(oracles.u_mmd, *gram_of([x[at], y[at]])) for at in parts])
    assert found.estimate == pytest.approx(expected, rel=1e-9)
    assert found.null == "normal"


@pytest.mark.parametrize("sizes", [(3, 5), (1, 9), (4, 4, 4), (2, 3, 4, 6), (7, 1, 1), (1000, 1)])
def test_pool__has_every_row_once_and_mixes_evenly(sizes):
    n = sum(sizes)
    sample, place = pooled([np.zeros(size) for size in sizes])
    for k, size in enumerate(sizes):
        np.testing.assert_array_equal(place[sample == k], np.arange(size))
        before = np.cumsum(sample == k)
        assert np.abs(before - np.arange(1, n + 1) * size / n).max() <= len(sizes) - 1


def test_energy_distance__is_twice_mmd_with_the_distance_kernel(samples):
    first, second, _ = samples

    def mean(a, b):
        return np.mean(np.linalg.norm(a[:, None] - b[None], axis=2))

    for x, y in ((first, second), (first, first[:30] + 1.0)):
        found = compare(x, y, kernels="distance", estimator="v-mmd")
        expected = 2 * mean(x, y) - mean(x, x) - mean(y, y)
        assert found.estimate == pytest.approx(0.5 * expected, rel=1e-9)


# Replicates, also of rows that keep to strata and groups.


def free(rng, effect=0.0):
    return (rng.standard_normal(61), rng.standard_normal(40) + effect), {}


def in_strata(rng, effect=0.0):
    """Sites whose values differ, and of whose rows the samples have unequal shares."""
    strata = rng.choice(3, 120), rng.choice(3, 80, p=[0.6, 0.3, 0.1])
    x, y = (2.0 * own + (1 + own) * rng.standard_normal(len(own)) for own in strata)
    return (x, y + effect * (1 + strata[1])), {"strata": list(strata)}


def in_pairs(rng, effect=0.0):
    """Persons before and after."""
    person = 4.0 * rng.standard_normal(60)
    x, y = person + rng.standard_normal((2, 60))
    order = rng.permutation(60)
    return (x, (y + effect)[order]), {"strata": [np.arange(60), order]}


def in_groups(rng, effect=0.0):
    """Visits of patients, some of whom come twice, others five times."""
    sizes = np.array([5] * 24 + [2] * 16)
    patients = [np.repeat(np.arange(40) + 40 * k, rng.permutation(sizes)) for k in range(2)]
    x, y = (rng.standard_normal(80)[own] + 0.4 * rng.standard_normal(152) for own in patients)
    order = rng.permutation(152)
    return (x, (y + effect)[order]), {"groups": [patients[0], patients[1][order]]}


def groups_in_strata(rng, effect=0.0):
    (x, y), asked = in_groups(rng, effect)
    strata = [group % 2 for group in asked["groups"]]
    return (x + 3.0 * strata[0], y + 3.0 * strata[1]), {**asked, "strata": strata}


CASES = [in_strata, in_pairs, in_groups, groups_in_strata]


@pytest.mark.parametrize("null", [Shifts(350), Permutation(30)], ids=["shifts", "permutations"])
@pytest.mark.parametrize("case", [free, *CASES])
def test_replicates__exchange_rows_of_samples(case, null):
    samples, asked = case(np.random.default_rng(0), effect=0.5)
    found = dhsic.two_sample_test(
        *samples, kernels=KERNEL, estimator="v-mmd", null=null, rng=3, **asked
    )
    x, sample = pool_of(samples)
    labels = {what: pool_of(one)[0] for what, one in asked.items()}
    moves = Moves(len(x), null, 3, 2, FEWEST, data=[x, sample], **labels)
    if "strata" in labels:
        x = within(x, labels["strata"])
    gram = gaussian(x[:, None], x[:, None], GAMMA)
    weights = np.array([1.0, -1.0])[sample] / np.bincount(sample)[sample]
    orders = [moves.order(number) for number in range(len(moves))]
    values = [len(x) * weights[o] @ gram @ weights[o] for o in orders]
    whole = np.append(found.statistic, found.null_distribution)
    np.testing.assert_allclose(whole, values, rtol=1e-7, atol=1e-11)
    assert len(np.unique(np.round(values, 9))) > 15
    for order in orders:
        moved = sample[order]
        for s in np.unique(labels.get("strata", [])):
            own = labels["strata"] == s
            np.testing.assert_array_equal(np.bincount(moved[own]), np.bincount(sample[own]))
        if "groups" in labels:
            pairs = np.unique(np.stack([labels["groups"], moved]), axis=1)
            assert pairs.shape[1] == len(np.unique(labels["groups"]))


# Level and power.

QUICK = {"kernels": "gaussian", "threads": 1, "n_resamples": 199}
LEVEL = Check.of(45, 0.05)


def pvalue(case, seed, effect=0.0, asked=True, **options):
    samples, rows = case(np.random.default_rng([seed, 2]), effect)
    rows = rows if asked else {}
    return dhsic.two_sample_test(*samples, rng=seed, **{**QUICK, **options}, **rows).pvalue


def test_level__is_seen_where_it_is_lost():
    assert LEVEL.failure(0.05)[1] < 0.001
    assert LEVEL.failure(0.4)[1] > 0.95


@pytest.mark.parametrize("case", CASES)
def test_level__is_kept_and_power_there_with_the_argument(case):
    assert LEVEL.passes(pvalue(case, seed) <= 0.05 for seed in range(LEVEL.runs))
    assert sum(pvalue(case, seed, effect=1.0) <= 0.05 for seed in range(10)) >= 8
    without = [pvalue(case, seed, asked=False) <= 0.05 for seed in range(20)]
    assert sum(without) > 3 or case is in_pairs


NULLS = {
    "nystrom-mmd": ["shifts", "permutation", "gamma", "spectral"],
    "rff-mmd": ["permutation", "gamma", "martingale"],
    "v-mmd": ["shifts", "permutation", "spectral", "martingale"],
    "u-mmd": ["permutation", "spectral"],
    "block-mmd": ["normal"],
}
PAIRS = [(name, null) for name, nulls in NULLS.items() for null in nulls]


@pytest.mark.parametrize(("estimator", "null"), PAIRS)
def test_level__is_kept_and_power_there_for_unequal_samples(estimator, null):
    few = {"n_resamples": 39} if null in ("shifts", "permutation") else {"n_resamples": None}
    options = {"estimator": estimator, "null": null, **few}

    def rejects(sizes, shift):
        for seed in count():
            rng = np.random.default_rng([11, seed])
            x, y = rng.standard_normal(sizes[0]), rng.standard_normal(sizes[1]) + shift
            given = {**QUICK, **options, "rng": seed}
            yield dhsic.two_sample_test(x, y, **given).pvalue <= 0.05

    assert LEVEL.passes(rejects((35, 20), 0.0))
    assert sum(islice(rejects((70, 50), 1.0), 8)) >= 5


def test_k_samples__keep_the_level_and_see_one_that_differs():
    def rejects(sizes, shift):
        for seed in count():
            rng = np.random.default_rng([11, seed])
            data = [rng.standard_normal(size) for size in sizes]
            data[-1] += shift
            options = {"kernels": "gaussian", "null": Permutation(19), "rng": seed, "threads": 1}
            yield dhsic.two_sample_test(*data, **options).pvalue <= 0.05

    assert LEVEL.passes(rejects((20, 15, 10, 12), 0.0))
    assert sum(islice(rejects((50, 40, 30, 40), 1.2), 8)) >= 6
    assert sum(islice(rejects((2_000, 12), 2.0), 5)) >= 4


@pytest.mark.nightly
@pytest.mark.parametrize(
    "options", [{"estimator": dhsic.NystromMHSIC(8)}, {"kernels": None}], ids=["few", "grid"]
)
def test_permutations__are_exact_with_pooled_landmarks(options):
    """Neither above nor below the level, with 5 rows in the smaller sample."""
    options = {"kernels": "gaussian", "null": Permutation(9, within="all"), **options}

    def rejects(seed):
        x, y = np.split(np.random.default_rng([11, seed]).standard_normal(20), [15])
        return dhsic.two_sample_test(x, y, rng=seed, threads=1, **options).pvalue <= 0.1 + 1e-9

    assert Check.of(200, 0.1, least=0.1).passes(map(rejects, range(200)))


def test_pvalues__of_few_groups_are_exact_to_the_last():
    """Six patients of 20 ways: P(p <= a) is at most a, and not far below."""
    found = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        samples = [np.repeat(rng.standard_normal(3), 4) for _ in range(2)]
        groups = [np.repeat(np.arange(3), 4), np.repeat(np.arange(3, 6), 4)]
        options = {"kernels": "gaussian", "estimator": "v-mmd", "rng": seed}
        found.append(dhsic.two_sample_test(*samples, groups=groups, **options).pvalue)
    assert 3 < np.count_nonzero(np.array(found) <= 0.2) < Check.of(80, 0.2).allowed.stop


# Kernels, names, labels.


def test_grid__is_the_default_and_keeps_one_kernel_a_combination(samples):
    found = dhsic.two_sample_test(*samples[:2], rng=0, n_resamples=60)
    assert len(found.grid.combinations) > 2
    assert all(len(one.kernels) == 1 for one in found.grid.combinations)
    reference = found.grid.combinations[found.grid.reference]
    assert found.variables[0].kernel == reference.kernels[0]
    alone = dhsic.two_sample_test(*samples[:2], kernels=reference.kernels[0], rng=0)
    assert alone.statistic == pytest.approx(reference.statistic, rel=1e-6)
    candidates = dhsic.Candidates("gaussian", (0.5, 1, 2))
    grid = dhsic.Grid(candidates, combine=[(0,), (2,)], aggregate="min-p")
    listed = compare(*samples[:2], kernels=grid, n_resamples=39, estimator="rff-mmd")
    assert (len(listed.grid.combinations), listed.grid.aggregate) == (2, "min-p")


def test_spread__is_seen_by_the_grid():
    found = 0
    for seed in range(6):
        x, y = np.random.default_rng([5, seed]).standard_normal((2, 300))
        found += dhsic.two_sample_test(x, 1.5 * y, rng=seed, n_resamples=99).pvalue <= 0.05
    assert found >= 5


def test_estimators__are_chosen_and_named(samples):
    assert compare(*samples[:2], estimator="auto").estimator == "v-mmd"
    many = compare(*np.random.default_rng(0).standard_normal((2, 4_000)), null="gamma")
    assert (many.estimator, many.landmarks.drawn) == ("nystrom-mmd", 256)
    kinds = dhsic.NystromMHSIC, dhsic.RFFHSIC, dhsic.VHSIC, dhsic.UHSIC, dhsic.BlockHSIC
    for name, kind in zip(ESTIMATORS, kinds, strict=True):
        found = compare(*samples[:2], estimator=name)
        assert found.estimator == name
        assert compare(*samples[:2], estimator=kind()).pvalue == found.pvalue
        assert compare(*samples[:2], estimator=kind.name).pvalue == found.pvalue
    two = compare(np.array([0.0, 1.0]), np.array([2.0, 3.5]), estimator="u-mmd", null="permutation")
    assert two.n == 4


def test_categories__are_compared_by_delta(rng):
    x, y = (
        pd.Series(rng.choice(list("abc"), 200, p=p), dtype="category")
        for p in ([0.2, 0.3, 0.5], [0.5, 0.3, 0.2])
    )
    found = dhsic.two_sample_test(x, y, kernels="delta", rng=0)
    shares = [np.bincount(a.cat.codes) / 200 for a in (x, y)]
    assert found.estimate == pytest.approx(np.sum((shares[0] - shares[1]) ** 2), rel=1e-6)
    texts = dhsic.two_sample_test(x.astype(str), y.astype(str).to_numpy(), kernels="delta", rng=0)
    assert texts.estimate == pytest.approx(found.estimate, rel=1e-9)


def test_stored_samples__with_labels_are_those_in_memory(tmp_path):
    samples, asked = groups_in_strata(np.random.default_rng(0))
    whole = dhsic.two_sample_test(*samples, rng=3, **QUICK, **asked)
    group = zarr.create_group(tmp_path / "data.zarr")
    for k, name in enumerate("xy"):
        group.create_array(name, data=samples[k], chunks=(37,))
        for what, labels in asked.items():
            group.create_array(f"{what}_{name}", data=labels[k], chunks=(29,))
    named = {what: [f"{what}_x", f"{what}_y"] for what in asked}
    found = dhsic.two_sample_test("x", "y", data=group, rng=3, **QUICK, **named)
    assert found.pvalue == whole.pvalue
    assert whole.quantity == "squared MMD within strata"


def test_columns__of_samples_must_agree_by_kind_and_by_name(rng):
    one = pd.DataFrame({"a": rng.standard_normal(40), "kind": rng.choice(list("uv"), 40)})
    assert dhsic.two_sample_test(one, one.copy(), rng=0).variables[0].columns == 2
    for other in (
        one.rename(columns={"a": "b"}),
        one.assign(kind=1.0),
        one[["kind", "a"]],
    ):
        with pytest.raises(DataError):
            dhsic.two_sample_test(one, other)


@pytest.mark.parametrize("labels", ["text", "number", "category"])
def test_between__are_the_samples_that_the_labels_say(labels, tmp_path):
    rng = np.random.default_rng(0)
    sex, pay = rng.integers(0, 3, 90), rng.standard_normal(90)
    names = {"number": ["0", "1", "2"]}.get(labels, ["a", "b", "c"])
    told = sex if labels == "number" else np.array(names, object)[sex]
    data = pd.DataFrame({"pay": pay, "sex": told, "site": np.arange(90) % 5})
    data["sex"] = data["sex"].astype("category") if labels == "category" else data["sex"]
    order = list(dict.fromkeys(sex))
    strata = [data["site"].to_numpy()[sex == k] for k in order]
    for beside, apart in (({}, {}), ({"strata": "site"}, {"strata": strata})):
        expected = dhsic.two_sample_test(*(pay[sex == k] for k in order), rng=0, **apart)
        found = dhsic.two_sample_test("pay", data=data, between="sex", rng=0, **beside)
        assert found.pvalue == expected.pvalue
        assert [one.name for one in found.samples] == [names[k] for k in order]
    data.to_csv(tmp_path / "t.csv", index=False)
    stored = dhsic.two_sample_test(pay, between=told, strata=data["site"], rng=0)
    read = dhsic.two_sample_test(
        "pay", data=tmp_path / "t.csv", between="sex", strata="site", rng=0
    )
    assert stored.pvalue == read.pvalue == found.pvalue


@pytest.mark.parametrize("form", ["column", "table", "csv", "parquet"])
@pytest.mark.parametrize(
    ("first", "second"), [(20230101, 20230102), ("z", "a"), (True, False), (0.5, 0.25)]
)
def test_between__names_the_samples_as_the_labels_are_written(first, second, form, tmp_path):
    data = pd.DataFrame({"label": [first, second] * 20, "pay": np.sin(np.arange(40.0))})
    data.loc[3, "pay"] = np.nan
    options = {"missing": "drop", "rng": 0}
    data.to_csv(path := tmp_path / "t.csv", index=False)
    if form == "parquet":
        data.to_parquet(path := tmp_path / "t.parquet")
    if form == "column":
        found = dhsic.two_sample_test(data["pay"], between=data["label"], **options)
    else:
        table = data if form == "table" else path
        found = dhsic.two_sample_test("pay", data=table, between="label", **options)
    assert [one.name for one in found.samples] == [str(first), str(second)]


@pytest.mark.parametrize(
    ("samples", "options", "words"),
    [
        (1, {}, "or between=, labels of its rows"),
        (2, {"between": [0, 1] * 20}, "between needs one variable"),
        (1, {"between": [0, 1] * 20, "names": ["a", "b"]}, "and names"),
        (1, {"between": [1] * 40}, "two labels or more, got one"),
        (1, {"between": range(40)}, "at least 2 rows"),
        (1, {"between": [0, 1] * 19}, "same rows"),
        (1, {"between": ["a", "b", None, "a"] * 10}, "between has no label in row 2"),
    ],
)
def test_between__is_refused_where_it_cannot_say_samples(samples, options, words):
    with pytest.raises((InvalidArgumentError, DataError), match=words):
        dhsic.two_sample_test(*np.random.default_rng(0).standard_normal((samples, 40)), **options)
