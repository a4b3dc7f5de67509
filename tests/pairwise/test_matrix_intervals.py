"""Intervals of a matrix are those of every pair by itself, by blocks of rows left out by hand."""

import itertools

import numpy as np
import pytest
import zarr

import dhsic
from dhsic.errors import DataError, InvalidArgumentError
from tests import oracles
from tests.ranking.test_ranking_intervals import SLOPED
from tests.statistics.test_jackknife import by_hand, ends

ENDS = ["conf_low", "conf_high", "cka_low", "cka_high"]
KERNELS = {"kernels": "gaussian:0.5"}
QUICK = {"n_landmarks": 40, "n_resamples": 99, "threads": 1, "rng": 0}
PAIRS = list(itertools.combinations(range(4), 2))


def make(n=80, seed=0):
    x, y, z, noise = np.random.default_rng(seed).standard_normal((4, n))
    return [x, 0.5 * x + y, z, (x + z) ** 2 + 0.5 * noise]


def matrix(data, **options):
    return dhsic.dependence_matrix(*data, **{**QUICK, **options})


def test_interval__is_that_of_blocks_deleted_by_hand():
    data, n = make(211)[:3], 211
    options = {"n_landmarks": n, "confidence": 0.9, "rng": 3, **KERNELS}
    shifts = matrix(data, null="shifts", **options)
    spectral = matrix(data, null="spectral", **{**options, "n_resamples": None})
    grams = [oracles.gaussian_gram(x, x, 0.5) for x in data]
    for c, (i, j) in enumerate(itertools.combinations(range(3), 2)):
        for divided, at in ((False, slice(2)), (True, slice(2, 4))):
            both = grams[i], grams[j]
            expected = by_hand(both, 3, divided=divided, unbiased=False, size=n)
            for found in (shifts, spectral):
                # Landmarks hold all of the kernels but for rounding.
                got = found.pair_intervals[at, c]
                np.testing.assert_allclose(got, ends(*expected, 0.9), rtol=1e-5, atol=1e-9)


def test_interval__is_near_that_of_a_ranking():
    data, options = make(800), {"confidence": 0.95, "rng": 0, "n_resamples": 99, "threads": 1}
    found = dhsic.dependence_matrix(*data, **KERNELS, **options).pair_intervals[:, [2, 5]]
    fixed = {"feature_kernels": "gaussian:0.5", "target_kernel": "gaussian:0.5"}
    ranked = dhsic.rank_features(np.c_[data[0], data[2]], data[3], **fixed, **options)
    alone = np.array([[getattr(one, end) for end in ENDS] for one in ranked.features]).T
    # Blocks are other ones, of which 50 tell a standard error but for a tenth.
    width = np.repeat(alone[1::2] - alone[::2], 2, axis=0)
    assert (np.abs(found - alone) < 0.4 * width).all()
    assert (found[::2] > 0.0).all()


@pytest.mark.parametrize("null", ["shifts", "spectral"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_level__sets_the_width_and_changes_no_pvalue(null, precision):
    options = {"null": null, "precision": precision}
    options |= {"n_resamples": 30} if null == "shifts" else {"n_resamples": None}
    plain = matrix(make(), **options)
    wide, narrow = (matrix(make(), confidence=level, **options) for level in (0.99, 0.8))
    assert (plain.confidence, plain.pair_intervals) == (None, None)
    assert (wide.confidence, wide.pair_intervals.shape) == (0.99, (4, 6))
    assert "intervals" not in dict(plain.summary())
    assert dict(wide.summary())["intervals"] == "99 %"
    widths = [one.pair_intervals[1::2] - one.pair_intervals[::2] for one in (wide, narrow)]
    assert (widths[0] > widths[1]).all()
    for with_intervals in (wide, narrow):
        np.testing.assert_array_equal(with_intervals.pvalues, plain.pvalues)
        np.testing.assert_allclose(with_intervals.hsic, plain.hsic, rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(with_intervals.cka, plain.cka, rtol=1e-5, atol=1e-5)


def test_frame_text_json_zarr_and_report__have_the_ends(tmp_path):
    found = matrix(make(), confidence=0.95)
    frame = found.to_frame()
    assert (frame["conf_low"] <= frame["estimate"]).all()
    assert ((frame["cka_low"] < frame["cka_high"]) & (frame["cka_high"] <= 1.0)).all()
    assert "conf low" in str(found)
    assert "conf low" not in str(matrix(make()))
    assert type(found).from_json(found.to_json()) == found
    found.report(tmp_path / "matrix.html")
    assert "cka high" in (tmp_path / "matrix.html").read_text()
    found.to_zarr(tmp_path / "pairs.zarr")
    stored = zarr.open_group(tmp_path / "pairs.zarr", mode="r")
    written = np.array([stored[end][:, 0] for end in ENDS])
    np.testing.assert_array_equal(written, found.pair_intervals)
    at = [
        PAIRS.index((found.names.index(x), found.names.index(y)))
        for x, y in frame[["x", "y"]].to_numpy()
    ]
    np.testing.assert_array_equal(frame[ENDS].to_numpy().T, found.pair_intervals[:, at])
    matrix(make()).to_zarr(tmp_path / "plain.zarr")
    assert not {*ENDS} & {*zarr.open_group(tmp_path / "plain.zarr", mode="r")}


def test_missing_values__have_intervals_too():
    data = make(200)
    data[1][::7] = np.nan
    found = matrix(data, missing="pairwise", confidence=0.95)
    plain = matrix(data, missing="pairwise")
    np.testing.assert_array_equal(found.pvalues, plain.pvalues)
    assert found.pair_intervals[0, 0] > 0.0


def test_many_pairs__take_several_passes_to_the_same_intervals():
    data = [*np.random.default_rng(0).standard_normal((12, 200, 3))]
    options = {"n_landmarks": 60, "kernels": "laplacian", "threads": 1, "confidence": 0.95}
    options |= {"n_resamples": 19}
    found, passes = [], []
    for memory in ("500MiB", "8GiB"):
        plan = dhsic.plan_matrix(*data, memory=memory, **options)
        made = dhsic.dependence_matrix(*data, memory=memory, rng=0, **options)
        assert plan.fits
        passes.append(len(plan.passes))
        assert len(made.passes) <= passes[-1]
        found.append(made)
    assert passes[0] > passes[1] == 3
    # A lower end near 0 is a small difference.
    np.testing.assert_allclose(*(one.pair_intervals for one in found), rtol=1e-10)
    np.testing.assert_array_equal(*(one.pvalues for one in found))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"groups": np.arange(80) // 2}, "independent rows"),
        ({"strata": np.arange(80) % 2}, "independent rows"),
        ({"order": dhsic.TimeOrder(lag=5)}, "independent rows"),
        ({"confidence": 95}, "confidence must be"),
        (
            {"null": "martingale", "n_landmarks": None, "n_resamples": None},
            r"confidence must be left out with null 'martingale'.*, got 0\.95: leave it out",
        ),
    ],
)
def test_refusals__name_the_remedy(options, told):
    with pytest.raises(InvalidArgumentError, match=told):
        matrix(make(), **{"confidence": 0.95, **options})


def test_few_rows__are_refused():
    with pytest.raises(DataError, match="at least 40 rows, got 30"):
        matrix(make(30), confidence=0.95)
    dhsic.plan_matrix(*make(40), confidence=0.95)


@pytest.mark.nightly
def test_interval__holds_the_measure_of_the_population_as_often_as_it_says():
    held = []
    for seed in range(400):
        x, y, noise = np.random.default_rng(seed).standard_normal((3, 600))
        found = matrix([x, y, 0.7 * x + noise], confidence=0.95, n_resamples=19, **KERNELS)
        low, high = found.pair_intervals[:2]
        held.append([low[0] == 0.0, low[1] <= SLOPED <= high[1]])
    independent, dependent = np.mean(held, axis=0)
    # Nominal 95 %, between 93 and 98 but for four standard errors of 400 repeats.
    assert independent >= 0.93 - 0.044
    assert 0.93 - 0.044 <= dependent <= 0.98
