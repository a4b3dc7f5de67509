"""Tests of samples compute MMD, exchange rows between samples, and say what they did."""

import itertools
import re
from types import SimpleNamespace

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import zarr

import dhsic
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.estimators.resample import orbit_of
from dhsic.io.forms import open_one
from dhsic.io.pooled import PooledSource, rows_of_samples
from dhsic.io.sources import ArraySource
from dhsic.kernels import Candidates, Gaussian, Grid
from dhsic.landmarks import uniform_rows
from dhsic.twosample import MMD_ESTIMATORS
from dhsic.twosample.labels import codes, codes_of_blocks
from tests import oracles

GAMMA = 0.3
KERNEL = Gaussian(gamma=GAMMA)


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
    return oracles.gaussian_gram(x, x, GAMMA), labels


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


def test_nystrom__projects_on_pooled_landmarks(samples):
    first, second, _ = samples
    found = compare(first, second, estimator=dhsic.NystromMHSIC(30))
    # The landmarks of the pool are the rows that the seed draws.
    drawn = uniform_rows(1, 101, 30, 2, pairing="independent", replace=False)[0]
    pool = PooledSource("x", (ArraySource("a", first), ArraySource("b", second)))
    z = pool.take(np.sort(drawn))
    crosses = [oracles.gaussian_gram(z, x, GAMMA) for x in (first, second)]
    expected = oracles.projected_mmd(oracles.gaussian_gram(z, z, GAMMA), *crosses)
    assert found.estimate == pytest.approx(expected, rel=1e-6)
    assert found.landmarks.drawn == 30


@pytest.mark.parametrize("count", [2, 3])
def test_all_rows_as_landmarks__give_the_v_statistic_of_two(samples, count):
    samples = samples[:count]
    n = sum(map(len, samples))
    exact = compare(*samples, estimator="v-mmd")
    near = compare(*samples, estimator=dhsic.NystromMHSIC(n))
    assert near.estimate <= exact.estimate * (1 + 1e-9)
    if count == 2:
        assert near.estimate == pytest.approx(exact.estimate, rel=1e-3)


def test_rff__is_the_distance_of_mean_features(samples):
    first, second, _ = samples
    found = compare(first, second, estimator=dhsic.RFFHSIC(400))
    assert found.features.counts == (800, 1)
    assert found.estimate == pytest.approx(
        compare(first, second, estimator="v-mmd").estimate, abs=0.006
    )
    mean = np.mean(
        [
            compare(first, second, estimator=dhsic.RFFHSIC(20), n_resamples=2, rng=s).estimate
            for s in range(100)
        ]
    )
    assert mean == pytest.approx(compare(first, second, estimator="v-mmd").estimate, rel=0.08)


def test_block__is_the_mean_of_unbiased_estimates(rng):
    x, y = rng.standard_normal((60, 1)), rng.standard_normal((60, 1)) + 0.7
    found = compare(x, y, estimator=dhsic.BlockHSIC(block_rows=12))
    parts = [slice(start, start + 6) for start in range(0, 60, 6)]
    expected = np.mean([oracles.mean_mmd(oracles.u_mmd, *gram_of([x[at], y[at]])) for at in parts])
    assert found.estimate == pytest.approx(expected, rel=1e-9)
    assert found.null == "normal"


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("sizes", [(50, 50), (1_000_000, 3), (10, 30, 7), (5, 6, 7, 8)])
def test_codes__are_equally_long_and_as_far_as_their_kernel_says(sizes, unbiased):
    found, n = codes(sizes, unbiased=unbiased), sum(sizes)
    assert found.shape == (len(sizes), len(sizes) - 1)
    lengths = np.linalg.norm(found, axis=1)
    np.testing.assert_allclose(lengths, lengths[0], rtol=1e-9)
    pairs = sum(a * b for a, b in itertools.combinations(sizes, 2))
    scale = n**2 * (n - 3) / pairs if unbiased else n**3 / pairs
    own = [(n - 1) / (n * (a - 1)) if unbiased else 1 / a for a in sizes]
    for a, b in itertools.combinations(range(len(sizes)), 2):
        distance = np.sum((found[a] - found[b]) ** 2)
        assert distance == pytest.approx(scale * (own[a] + own[b]), rel=1e-9)


def test_codes_of_blocks__are_those_of_a_block():
    np.testing.assert_allclose(codes_of_blocks((300, 300), 20), codes((10, 10), unbiased=True))


@pytest.mark.parametrize("sizes", [(3, 5), (1, 9), (4, 4, 4), (2, 3, 4, 6), (7, 1, 1), (1000, 1)])
def test_pool__has_every_row_once_and_mixes_evenly(sizes):
    n = sum(sizes)
    samples, places = rows_of_samples(np.arange(n), sizes)
    for k, size in enumerate(sizes):
        np.testing.assert_array_equal(places[samples == k], np.arange(size))
        before = np.cumsum(samples == k)
        assert np.abs(before - np.arange(1, n + 1) * size / n).max() <= len(sizes) - 1
    chosen = np.array([0, n // 2, n - 1])
    np.testing.assert_array_equal(rows_of_samples(chosen, sizes)[1], places[chosen])


def test_pool__is_read_in_whole_chunks_of_the_largest_sample(tmp_path):
    x = zarr.create_array(tmp_path / "x.zarr", data=np.arange(3000.0), chunks=(500,))
    stored, small = open_one(x, "x"), open_one(np.arange(1000.0), "y")
    assert PooledSource("x", (small, stored)).chunk_rows == round(500 * 4 / 3)
    assert PooledSource("x", (small, small)).chunk_rows is None


def test_pool__of_more_rows_than_a_product_holds():
    sizes = (3 * 10**9, 5 * 10**9)
    samples, places = rows_of_samples(np.array([8 * 10**9 - 1, 4 * 10**9]), sizes)
    assert places[0] == sizes[samples[0]] - 1
    assert places[1] in (4 * 10**9 * 3 // 8, 4 * 10**9 - 4 * 10**9 * 3 // 8)


@pytest.mark.parametrize("estimator", ["v-mmd", "nystrom-mmd"])
def test_sources__of_any_kind_give_the_same(rng, tmp_path, estimator):
    x, y = rng.standard_normal((300, 2)), rng.standard_normal((200, 2)) * 1.1
    expected = compare(x, y, estimator=estimator, n_resamples=30)
    chunked = [da.from_array(a, chunks=(128, 2)) for a in (x, y)]
    stored = [
        zarr.create_array(tmp_path / f"{i}.zarr", data=a, chunks=(100, 2))
        for i, a in enumerate((x, y))
    ]
    for given in (chunked, stored, [x, chunked[1]], [chunked[0], stored[1]], [stored[0], y]):
        found = compare(*given, estimator=estimator, n_resamples=30)
        assert found.statistic == pytest.approx(expected.statistic, rel=1e-9)
        assert found.pvalue == expected.pvalue


def test_client__gives_the_same(client, rng, tmp_path):
    x, y = rng.standard_normal((900, 2)), rng.standard_normal((500, 2)) * 1.1
    stored = zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(100, 2))
    options = {"null": "multiplier", "n_resamples": 20}
    expected = compare(x, y, **options)
    for given in ([x, y], [stored, y], [da.from_array(x, chunks=(128, 2)), y]):
        assert compare(*given, client=client, **options).statistic == pytest.approx(
            expected.statistic, rel=1e-9
        )


def test_checkpoint__goes_on_and_knows_the_samples(rng, tmp_path):
    x, y = rng.standard_normal((900, 2)), rng.standard_normal((500, 2))
    options = {"null": "multiplier", "checkpoint": str(tmp_path / "kept")}
    assert compare(x, y, **options).pvalue == compare(x, y, **options).pvalue
    with pytest.raises(InvalidArgumentError):
        compare(x[:899], np.vstack([x[899:], y]), **options)


def test_replicates__exchange_rows_of_all_samples(samples):
    """Permuted labels of the pooled order, counted by hand."""
    first, second, _ = samples
    found = compare(first, second, estimator="v-mmd", null=dhsic.Permutation(20, within="all"))
    pool = PooledSource("x", (ArraySource("a", first), ArraySource("b", second)))
    x = pool.read(0, 101)
    labels = rows_of_samples(np.arange(101), (61, 40))[0]
    gram = oracles.gaussian_gram(x, x, GAMMA)
    orbit = orbit_of(SimpleNamespace(n=101, seed=1, moves=None), dhsic.Permutation(20))
    orders = oracles.permutations_of_orbit(orbit)[:, 0]
    expected = [101 * oracles.mean_mmd(oracles.v_mmd, gram, labels[order]) for order in orders]
    np.testing.assert_allclose(np.sort(found.null_distribution), np.sort(expected), rtol=1e-9)


def test_energy_distance(samples):
    first, second, _ = samples
    found = compare(first, second, kernels="distance", estimator="v-mmd")

    def mean(a, b):
        return np.mean(np.linalg.norm(a[:, None] - b[None], axis=2))

    expected = 2 * mean(first, second) - mean(first, first) - mean(second, second)
    ratio = found.estimate / expected
    other = compare(first, first[:30] + 1.0, kernels="distance", estimator="v-mmd").estimate
    again = 2 * mean(first, first[:30] + 1.0) - mean(first, first) - mean(first[:30], first[:30])
    assert other / again == pytest.approx(ratio, rel=1e-9)
    assert ratio == pytest.approx(0.5, rel=1e-9)


def test_grid__is_the_default_and_keeps_one_kernel_a_combination(samples):
    found = dhsic.two_sample_test(*samples[:2], rng=0, n_resamples=60)
    assert len(found.grid.combinations) > 2
    assert all(len(one.kernels) == 1 for one in found.grid.combinations)
    reference = found.grid.combinations[found.grid.reference]
    assert found.variables[0].kernel == reference.kernels[0]
    assert found.estimate == pytest.approx(reference.statistic / found.n)
    for one in (reference, found.grid.combinations[found.grid.strongest]):
        alone = dhsic.two_sample_test(*samples[:2], kernels=one.kernels[0], rng=0)
        assert alone.statistic == pytest.approx(one.statistic, rel=1e-6)


def test_grid__of_the_user(samples):
    candidates = Candidates("gaussian", (0.5, 1, 2))
    by_candidates = compare(*samples[:2], kernels=candidates, n_resamples=39)
    grid = Grid(candidates, combine=[(0,), (2,)], aggregate="min-p")
    listed = compare(*samples[:2], kernels=grid, n_resamples=39, estimator="rff-mmd")
    assert len(by_candidates.grid.combinations) == 3
    assert len(listed.grid.combinations) == 2
    assert listed.grid.aggregate == "min-p"


def test_auto__takes_all_pairs_of_few_rows(samples, rng):
    assert compare(*samples[:2], estimator="auto").estimator == "v-mmd"
    many = rng.standard_normal((2, 4_000))
    found = compare(*many, estimator="auto", null="multiplier")
    assert (found.estimator, found.landmarks.drawn) == ("nystrom-mmd", 256)


def test_names_of_either_kind__are_the_same(samples):
    for name, cls in MMD_ESTIMATORS.items():
        by_name = compare(*samples[:2], estimator=name)
        assert by_name.estimator == name
        assert compare(*samples[:2], estimator=cls()).pvalue == by_name.pvalue
        assert compare(*samples[:2], estimator=cls.name).pvalue == by_name.pvalue


def test_precision__is_that_of_the_tiles(samples):
    single = compare(*samples[:2], estimator="v-mmd", precision="float32")
    double = compare(*samples[:2], estimator="v-mmd")
    assert single.estimate == pytest.approx(double.estimate, rel=1e-4)
    assert single.estimate != double.estimate


def test_categories__are_compared_by_delta(rng):
    x, y = (
        pd.Series(rng.choice(list("abc"), 200, p=p), dtype="category")
        for p in ([0.2, 0.3, 0.5], [0.5, 0.3, 0.2])
    )
    found = dhsic.two_sample_test(x, y, kernels="delta", rng=0)
    shares = [np.bincount(a.cat.codes) / 200 for a in (x, y)]
    assert found.estimate == pytest.approx(np.sum((shares[0] - shares[1]) ** 2), rel=1e-6)
    assert found.pvalue < 0.05
    assert dhsic.two_sample_test(x, y, rng=0).variables[0].kernel == "delta"
    with pytest.raises(InvalidArgumentError, match="would compare as numbers: take 'delta'"):
        dhsic.two_sample_test(x, y, kernels="gaussian", rng=0)


@pytest.mark.parametrize("form", ["category", "str", "object"])
def test_labels__have_the_same_codes_in_all_samples(rng, form):
    x, y = rng.choice(list("abc"), 100), rng.choice(list("cab"), 90, p=[0.6, 0.2, 0.2])
    codes = {label: code for code, label in enumerate("bca")}
    expected = compare(*([codes[one] for one in sample] for sample in (x, y)), kernels="delta")
    found = compare(*(pd.Series(sample).astype(form) for sample in (x, y)), kernels=None)
    assert (found.pvalue, found.estimate) == (expected.pvalue, pytest.approx(expected.estimate))


def test_labels__of_stored_codes_must_be_the_same(tmp_path):
    group = zarr.create_group(tmp_path / "g.zarr")
    for name, labels in (("a", ["u", "v"]), ("b", ["v", "u"]), ("c", ["u", "v"])):
        told = {"kind": "categorical", "columns": ["l"], "categories": {"l": labels}}
        group.create_array(name, data=np.arange(40) % 2, attributes=told)
    assert dhsic.two_sample_test(group["a"], group["c"], rng=0).variables[0].kernel == "delta"
    with pytest.raises(DataError, match="must stand for the same labels in all samples"):
        dhsic.two_sample_test(group["a"], group["b"], rng=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"null": "gamma", "estimator": "u-mmd"},
            "for u-mmd; choose .*; it is for nystrom-mmd, rff-mmd, v-mmd$",
        ),
        ({"null": "chi-square"}, "for nystrom-mmd; choose .* or spectral$"),
        ({"null": "normal", "estimator": dhsic.VHSIC()}, "for v-mmd; .* it is for block-mmd$"),
        (
            {"estimator": "block-mmd", "strata": [np.arange(60) // 9] * 2},
            "'block-mmd' cannot .* take 'auto' or one of nystrom-mmd, rff-mmd, v-mmd, u-mmd$",
        ),
        ({"memory": "1MiB", "estimator": "v-mmd"}, "take estimator='nystrom-mmd', fewer rows"),
    ],
)
def test_errors__name_estimators_of_samples(rng, options, message):
    x, y = rng.standard_normal((2, 60))
    # A plan is shown, whatever memory it needs.
    planned = [] if "memory" in options else [dhsic.plan_two_sample]
    for test in (dhsic.two_sample_test, *planned):
        with pytest.raises((InvalidArgumentError, MemoryBudgetError), match=message):
            test(x, y, **options)


def test_labels__beside_integers_that_lose_digits_are_refused():
    one = pd.DataFrame({"a": [2**60, 2**60 + 1] * 20, "kind": list("uv") * 20})
    with pytest.raises(DataError, match=r"variable 'x1' has integers beyond 2\*\*53"):
        dhsic.two_sample_test(one, one[::-1].reset_index(drop=True), rng=0)


def test_columns__of_samples_must_agree_by_kind_and_by_name(rng):
    one = pd.DataFrame({"a": rng.standard_normal(40), "kind": rng.choice(list("uv"), 40)})
    assert dhsic.two_sample_test(one, one.copy(), rng=0).variables[0].columns == 2
    with pytest.raises(DataError, match=r"same order, got \('a', 'kind'\) .* and \('b', 'kind'\)"):
        dhsic.two_sample_test(one, one.rename(columns={"a": "b"}))
    with pytest.raises(DataError, match="got 'x1' 1 of categories and 1 of numbers, 'x2' 0 of cat"):
        dhsic.two_sample_test(one, one.assign(kind=1.0))
    turned = one[["kind", "a"]]
    with pytest.raises(DataError, match="samples must have the same columns"):
        dhsic.two_sample_test(one, turned)
    numbers = one.assign(kind=2.0)
    with pytest.raises(DataError, match=r"in 'x1' and \('kind', 'a'\) in 'x2': choose those"):
        dhsic.two_sample_test(numbers, numbers[["kind", "a"]])
    assert dhsic.two_sample_test(one["a"], 1 + one["a"], rng=0).variables[0].name == "a"
    for other in ("b", "sample"):
        pair = one["a"].rename("sample"), 1 + one["a"].rename(other)
        assert dhsic.two_sample_test(*pair, rng=0).variables[0].name == "values"


def test_result__comes_back_from_json(samples):
    found = dhsic.two_sample_test(*samples, names=["a", "b", "c"], rng=0, n_resamples=30)
    again = dhsic.TwoSampleTestResult.from_json(found.to_json())
    assert again == found
    assert [one.n for one in again.samples] == [61, 40, 25]
    with pytest.raises(InvalidArgumentError, match="JSON of a TwoSampleTestResult"):
        dhsic.TwoSampleTestResult.from_json(found.to_json().replace('"n": 61', '"m": 61'))
    with pytest.raises(InvalidArgumentError, match="JSON of a IndependenceTestResult"):
        dhsic.IndependenceTestResult.from_json(found.to_json())


def test_result__reads_well(samples):
    found = compare(*samples, names=["a", "b", "c"])
    text = str(found)
    assert re.search(r"samples +a \(61\), b \(40\), c \(25\)", text)
    assert re.search(r"variables +values \(2 columns, gaussian:0.3, length 1.826\)", text)
    assert "mean squared MMD of pairs" in text
    axes = found.plot()
    assert axes.get_title() == "Do a, b and c have one distribution?"
    plt.close("all")


@pytest.mark.parametrize("estimator", ["v-mmd", "u-mmd", "nystrom-mmd"])
def test_samples__may_have_two_rows(estimator):
    x, y = np.array([0.0, 1.0]), np.array([2.0, 3.5])
    found = compare(x, y, estimator=estimator, null="permutation")
    assert found.n == 4
    assert found.quantity == "squared MMD"
    assert 1 / 24 <= found.pvalue <= 1.0


def test_plan__runs_nothing_and_is_refused_where_it_does_not_fit():
    samples = np.zeros((6_000, 3)), np.zeros((4_000, 3))
    planned = dhsic.plan_two_sample(*samples, estimator="nystrom-mmd", threads=1)
    assert (planned.n, planned.n_landmarks) == (10_000, 800)
    x = np.random.default_rng(0).standard_normal((2, 30_000))
    with pytest.raises(MemoryBudgetError, match="fewer landmarks"):
        compare(*x, estimator=dhsic.NystromMHSIC(40_000))


@pytest.mark.parametrize(
    ("samples", "options", "error", "message"),
    [
        ([np.zeros(9)], {}, InvalidArgumentError, "at least two samples, got 1"),
        ([np.zeros(9), np.zeros((9, 2))], {}, DataError, "samples must have the same columns"),
        ([np.zeros(9), np.zeros(1)], {}, DataError, "'x2' must have at least 2 rows, got 1"),
        ([np.zeros(9), np.zeros(8)], {}, DataError, "'values' is constant"),
        ([np.zeros(9), np.zeros(8)], {"estimator": "coco"}, InvalidArgumentError, "nystrom-mmd"),
        ([np.zeros(9), np.zeros(8)], {"estimator": dhsic.COCO()}, InvalidArgumentError, "UHSIC"),
        (
            [np.zeros(9), np.zeros(8)],
            {"estimator": dhsic.RFFHSIC(form="complex")},
            InvalidArgumentError,
            "form must be 'cos-sin'",
        ),
        (
            [np.zeros(9), np.zeros(8)],
            {"kernels": ["gaussian", "delta"]},
            InvalidArgumentError,
            "kernels must be one name or Kernel",
        ),
        (
            [np.zeros(9), np.zeros(8)],
            {"kernels": Grid((Candidates(), Candidates()))},
            InvalidArgumentError,
            "needs Candidates of the values, got 2",
        ),
        ([np.zeros(9), np.zeros(8)], {"names": ["a", "a"]}, InvalidArgumentError, "one a sample"),
    ],
)
def test_bad_input__is_refused_in_words(samples, options, error, message):
    with pytest.raises(error, match=message):
        compare(*samples, **options)


def test_nan__is_named_by_its_sample(rng):
    x, y = rng.standard_normal((2, 300))
    y[123] = np.nan
    with pytest.raises(DataError, match="'second' has NaN or infinity, first in row 123"):
        compare(x, y, names=["first", "second"])
