"""Rows change sample within their stratum, and groups as wholes."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr

import dhsic
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.estimators.resample import orbit_of
from dhsic.io.pooled import rows_of_samples
from dhsic.kernels import Gaussian
from dhsic.twosample.compare import _IndependenceArguments
from tests import oracles
from tests.estimators.levels import Check

KERNEL = Gaussian(gamma=0.3)
QUICK = {"kernels": "gaussian", "threads": 1, "n_resamples": 199}
ESTIMATORS = ["nystrom-mmd", "rff-mmd", "v-mmd", "u-mmd"]


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


def pooled(samples, values):
    """Values of the samples in the order of the pool, and the sample of each."""
    sizes = [len(one) for one in samples]
    sample, place = rows_of_samples(np.arange(sum(sizes)), sizes)
    merged = [values[int(k)][int(row)] for k, row in zip(sample, place, strict=True)]
    return np.array(merged), sample


def orders_of(samples, asked, null, seed):
    read = _IndependenceArguments.read(samples, KERNEL, "v-mmd", None, None, "refuse", asked)
    session = read.session(seed, "float64", None, 1, "2GiB", None, None)
    permutes = isinstance(null, dhsic.Permutation)
    return oracles.orders_of_orbit(orbit_of(session, null), shifted=not permutes)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("null", [dhsic.Shifts(350), dhsic.Permutation(30)], ids=["shifts", "all"])
def test_replicates__are_those_of_the_definition(case, null):
    samples, asked = case(np.random.default_rng(0), effect=0.5)
    asked = {"strata": None, "groups": None, **asked}
    found = dhsic.two_sample_test(
        *samples, kernels=KERNEL, estimator="v-mmd", null=null, rng=3, **asked
    )
    x, sample = pooled(samples, samples)
    labels = {what: pooled(samples, one)[0] for what, one in asked.items() if one is not None}
    strata = labels.get("strata", np.zeros(len(x), int))
    if "strata" in labels:
        for s in np.unique(strata):
            own = strata == s
            x[own] -= x[own].mean()
        sharing = np.where(np.bincount(strata) == 2, -1, np.arange(strata.max() + 1))[strata]
        for s in np.unique(sharing):
            x[sharing == s] /= x[sharing == s].std()
    gram = oracles.gaussian_gram(x[:, None], x[:, None], 0.3)
    orders = orders_of(samples, asked, null, 3)
    weights = np.array([1.0, -1.0])[sample] / np.bincount(sample)[sample]
    values = [len(x) * w @ gram @ w for w in weights[orders]]
    replicates = np.append(found.statistic, found.null_distribution)
    np.testing.assert_allclose(replicates, values, rtol=1e-7, atol=1e-11)
    assert len(np.unique(np.round(values, 9))) > 15
    for order in orders:
        for s in np.unique(strata):
            own = strata == s
            np.testing.assert_array_equal(np.bincount(sample[order][own]), np.bincount(sample[own]))
        if "groups" in labels:
            pairs = np.unique(np.stack([labels["groups"], sample[order]]), axis=1)
            assert pairs.shape[1] == len(np.unique(labels["groups"]))


def pvalue(case, seed, effect=0.0, asked=True, **options):
    samples, rows = case(np.random.default_rng([seed, 2]), effect)
    rows = rows if asked else {}
    return dhsic.two_sample_test(*samples, rng=seed, **{**QUICK, **options}, **rows).pvalue


@pytest.mark.parametrize("case", CASES)
def test_level__is_kept(case):
    check = Check.of(120, 0.05)
    assert check.passes(pvalue(case, seed) <= 0.05 for seed in range(check.runs))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_level__is_kept_by_every_estimator(estimator):
    check = Check.of(60, 0.05)
    pvalues = (pvalue(in_groups, seed, estimator=estimator) for seed in range(check.runs))
    assert check.passes(p <= 0.05 for p in pvalues)


@pytest.mark.parametrize("case", [in_strata, in_groups, groups_in_strata])
def test_level__is_lost_without_the_argument(case):
    assert sum(pvalue(case, seed, asked=False) <= 0.05 for seed in range(30)) > 5


@pytest.mark.parametrize("case", CASES)
def test_power__is_there(case):
    assert sum(pvalue(case, seed, effect=1.0) <= 0.05 for seed in range(15)) >= 13


def test_power__of_pairs_is_lost_without_the_argument():
    assert sum(pvalue(in_pairs, seed, 1.0, asked=False) <= 0.05 for seed in range(15)) <= 7


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


@pytest.mark.parametrize("case", CASES)
def test_storage__changes_nothing(case, tmp_path):
    samples, asked = case(np.random.default_rng(0))
    group = zarr.create_group(tmp_path / "data.zarr")
    for name, values in zip("xy", samples, strict=True):
        group.create_array(name, data=values, chunks=(37,))
        for what, labels in asked.items():
            own = labels["xy".index(name)]
            group.create_array(f"{what}_{name}", data=own, chunks=(29,))
    named = {what: [f"{what}_x", f"{what}_y"] for what in asked}
    whole = dhsic.two_sample_test(*samples, rng=3, **QUICK, **asked).pvalue
    lazy = [da.from_array(x, chunks=50) for x in samples]
    assert dhsic.two_sample_test(*lazy, rng=3, **QUICK, **asked).pvalue == whole
    found = dhsic.two_sample_test("x", "y", data=group, rng=3, **QUICK, **named)
    assert found.pvalue == whole
    stored = {what: [group[name] for name in names] for what, names in named.items()}
    assert dhsic.two_sample_test(*lazy, rng=3, **QUICK, **stored).pvalue == whole


def test_labels__of_any_kind_are_the_same():
    (x, y), asked = in_strata(np.random.default_rng(0))
    words = np.array(["north", "east", "south"])
    ways = [
        asked["strata"],
        [list(one) for one in asked["strata"]],
        [words[one] for one in asked["strata"]],
        [pd.Series(words[one]).astype("category") for one in asked["strata"]],
        [np.stack([one // 2, one % 2], axis=1) for one in asked["strata"]],
        tuple(da.from_array(one, chunks=30) for one in asked["strata"]),
    ]
    found = {dhsic.two_sample_test(x, y, strata=way, rng=0, **QUICK).pvalue for way in ways}
    assert len(found) == 1


def test_missing__drops_labels_with_their_rows():
    (x, y), asked = in_strata(np.random.default_rng(0))
    first, second = asked["strata"]
    gaps = np.where(np.arange(120) % 7 == 2, np.nan, first)
    options = {"rng": 0, **QUICK}
    with pytest.raises(DataError, match="strata of 'x1' has no label in row 2"):
        dhsic.two_sample_test(x, y, strata=[gaps, second], **options)
    found = dhsic.two_sample_test(x, y, strata=[gaps, second], missing="drop", **options)
    kept = ~np.isnan(gaps)
    again = dhsic.two_sample_test(x[kept], y, strata=[first[kept], second], **options)
    assert (found.n, found.dropped, found.pvalue) == (183, 17, again.pvalue)


def test_result__says_what_was_assumed():
    samples, asked = in_strata(np.random.default_rng(0))
    found = dhsic.two_sample_test(*samples, rng=0, **QUICK, **asked)
    assert found.null_reason.startswith("exact where rows are exchangeable within strata")
    assert found.quantity == "squared MMD within strata"
    samples, asked = in_groups(np.random.default_rng(0))
    found = dhsic.two_sample_test(*samples, rng=0, **QUICK, **asked)
    assert found.null_reason.startswith("exact where whole groups of equally many rows are exch")
    assert found.quantity == "squared MMD"


@pytest.mark.parametrize("case", CASES)
def test_plan__is_of_the_same_run(case):
    samples, asked = case(np.random.default_rng(0))
    plan = dhsic.plan_two_sample(*samples, **asked)
    found = dhsic.two_sample_test(*samples, rng=0, **asked)
    assert [step.name for step in plan.passes] == [done.name for done in found.passes]


def test_checkpoint__of_other_groups_is_refused(tmp_path):
    samples, asked = in_groups(np.random.default_rng(0))
    options = {"rng": 0, "checkpoint": str(tmp_path / "kept"), **QUICK}
    first = dhsic.two_sample_test(*samples, **asked, **options)
    assert dhsic.two_sample_test(*samples, **asked, **options).pvalue == first.pvalue
    fours = [np.arange(152) // 4, np.arange(152) // 4 + 40]
    with pytest.raises(InvalidArgumentError, match="is of another run: moves"):
        dhsic.two_sample_test(*samples, groups=fours, **options)


TENS = np.repeat(np.arange(6), 10)
REFUSED = [
    ({"groups": TENS}, InvalidArgumentError, "labels of each of the 2 samples.*got one ndarray"),
    ({"groups": [TENS]}, InvalidArgumentError, "labels of each of the 2 samples.*got 1"),
    ({"groups": [TENS, TENS]}, InvalidArgumentError, "one sample: the group of row . of 'x.' has"),
    ({"groups": [TENS, TENS[:-1] + 6]}, DataError, "each of the 60 rows of 'x2', got 59"),
    ({"groups": [TENS // 3, TENS // 3 + 2]}, DataError, "in 6 ways, and a p-value of 5 % takes 20"),
    ({"strata": [TENS, TENS + 6]}, DataError, "in 1 way, .* rows of several samples"),
    ({"strata": [TENS.astype(str), TENS]}, DataError, "must have the same columns"),
    ({"strata": [TENS, TENS], "null": "multiplier"}, InvalidArgumentError, "keep to strata"),
    ({"strata": [TENS, TENS], "estimator": "block-mmd"}, InvalidArgumentError, "keep to strata"),
    ({"strata": [TENS, TENS], "memory": "1KiB"}, MemoryBudgetError, "held in memory"),
    ({"groups": [TENS, TENS + 6], "strata": [TENS, np.arange(60) % 2]}, InvalidArgumentError, "s"),
]


@pytest.mark.parametrize(("asked", "error", "words"), REFUSED)
def test_refused__in_words(asked, error, words):
    x, y = np.random.default_rng(0).standard_normal((2, 60))
    with pytest.raises(error, match=words):
        dhsic.two_sample_test(x, y, **asked)
