"""Mean embeddings are what their definition says, in one pass or in parts."""

from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
import zarr

import dhsic
from dhsic._random import generator
from dhsic.embedding.store import kernel_json, kernel_of_text
from dhsic.embedding.sums import GROUP_ROWS
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError, PrecisionWarning
from dhsic.kernels import Delta, Gaussian, Laplacian, Linear, parse
from tests import oracles

N = 400


@pytest.fixture
def x(rng):
    return rng.standard_normal((N, 2))


@pytest.fixture
def found(x):
    return dhsic.mean_embedding(x, "gaussian:0.4", 25, rng=3)


def same_bits(one, other):
    np.testing.assert_array_equal(one.sums.digits, other.sums.digits)
    np.testing.assert_array_equal(one.weights, other.weights)
    assert one.n == other.n


def grams(found, x):
    k = found.kernel
    gamma = k.gamma
    z = found.landmarks
    return oracles.gaussian_gram(z, z, gamma), oracles.gaussian_gram(z, x, gamma)


def test_weights__are_those_of_the_paper(found, x):
    k_zz, k_zx = grams(found, x)
    expected = oracles.embedding_weights(k_zz, k_zx)
    np.testing.assert_allclose(found.weights, expected, rtol=1e-6, atol=1e-9)
    points = np.array([[0.0, 0.0], [1.0, -2.0]])
    values = oracles.gaussian_gram(points, found.landmarks, 0.4) @ expected
    np.testing.assert_allclose(found(points), values, rtol=1e-9)
    assert found.squared_norm == pytest.approx(expected @ k_zz @ expected, rel=1e-9)


def test_values__at_the_landmarks_are_the_means_over_all_rows(found, x):
    np.testing.assert_allclose(found(found.landmarks), grams(found, x)[1].mean(axis=1), rtol=1e-9)
    np.testing.assert_allclose(found.means, grams(found, x)[1].mean(axis=1), rtol=1e-12)


def test_landmarks__are_rows_of_the_data(found, x):
    np.testing.assert_array_equal(found.landmarks, x[found.indices])
    assert found.drawn == 25


def test_all_rows_as_landmarks__give_the_empirical_embedding(x):
    full = dhsic.mean_embedding(x, "gaussian:0.4", N, rng=0)
    points = x[:5] + 0.3
    expected = oracles.gaussian_gram(points, x, 0.4).mean(axis=1)
    np.testing.assert_allclose(full(points), expected, rtol=1e-3)


def test_options__make_a_difference(x):
    base = dhsic.mean_embedding(x, "gaussian:0.4", 25, rng=3)
    for options in (
        {"selection": "rpcholesky"},
        {"rng": 4},
        {"kernel": "laplacian"},
        {"n_landmarks": 26},
        {"tolerance": 0.2},
    ):
        other = dhsic.mean_embedding(
            x, **{"kernel": "gaussian:0.4", "n_landmarks": 25, "rng": 3, **options}
        )
        assert not base.shares(other), options
    small = dhsic.mean_embedding(x, "gaussian:0.4", 25, selection="kmeans++", pool=1, rng=3)
    large = dhsic.mean_embedding(x, "gaussian:0.4", 25, selection="kmeans++", pool=8, rng=3)
    assert set(small.indices) != set(large.indices)


def test_selected_landmarks__lose_less_of_the_embedding(x):
    def lost(selection):
        norms = [
            dhsic.mean_embedding(x, "gaussian:2", 12, selection=selection, rng=s).squared_norm
            for s in range(8)
        ]
        return whole - np.mean(norms)

    whole = Gaussian(gamma=2.0)(x).mean()

    assert 0.0 < lost("rpcholesky") < lost("uniform")


def test_float32__is_near_and_sums_in_float64(x, found):
    single = dhsic.mean_embedding(x, "gaussian:0.4", 25, rng=3, precision="float32")
    shared = replace(found, precision="float32")
    assert single.tolerance > found.tolerance
    np.testing.assert_allclose(shared.like(x).means, found.means, rtol=1e-5)
    assert (shared.like(x).means != found.means).any()


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_update_and_merge__are_one_pass_bit_for_bit(rng, cut):
    rows = 4 * GROUP_ROWS + 77
    x = rng.standard_normal((rows, 3))
    whole = dhsic.mean_embedding(x, "gaussian", 60, rng=1)
    start = cut * GROUP_ROWS
    first, second = whole.like(x[:start]), whole.like(x[start:])
    same_bits(first.merge(second), whole)
    same_bits(second.merge(first), whole)
    same_bits(first.update(x[start:]), whole)
    blocks = [whole.like(x[a : a + GROUP_ROWS]) for a in range(0, rows, GROUP_ROWS)]
    merged = blocks[3]
    for i in (0, 4, 2, 1):
        merged = merged.merge(blocks[i])
    same_bits(merged, whole)


def test_update__of_a_broken_group_is_one_pass_to_the_last_digits(rng):
    x = rng.standard_normal((5_000, 3))
    whole = dhsic.mean_embedding(x, "gaussian", 60, rng=1)
    parts = whole.like(x[:1234]).update(x[1234:])
    np.testing.assert_allclose(parts.means, whole.means, rtol=1e-14)


def test_chunks_and_threads__do_not_change_a_bit(rng):
    x = rng.standard_normal((20_000, 2))
    whole = dhsic.mean_embedding(x, "gaussian", 40, rng=1, threads=1)
    same_bits(dhsic.mean_embedding(x, "gaussian", 40, rng=1, threads=2), whole)
    chunked = da.from_array(x, chunks=(1_111, 2))
    same_bits(dhsic.mean_embedding(chunked, "gaussian", 40, rng=1), whole)
    stored = zarr.create_array({}, data=x, chunks=(3_000, 2))
    same_bits(dhsic.mean_embedding(stored, "gaussian", 40, rng=1), whole)


def test_checkpoint__goes_on(rng, tmp_path):
    x = rng.standard_normal((9_000, 2))
    options = {"n_landmarks": 30, "rng": 1, "checkpoint": str(tmp_path / "kept")}
    same_bits(dhsic.mean_embedding(x, **options), dhsic.mean_embedding(x, **options))
    with pytest.raises(InvalidArgumentError, match="selection"):
        dhsic.mean_embedding(x, **options, selection="kmeans++")


def test_integrate__is_exact_for_functions_of_the_landmarks(found, x):
    z = found.landmarks
    expected = oracles.gaussian_gram(z[:3], x, 0.4).mean(axis=1)

    def kernels(points):
        return oracles.gaussian_gram(points, z[:3], 0.4)

    np.testing.assert_allclose(found.integrate(kernels), expected, rtol=1e-9)
    np.testing.assert_allclose(found.integrate(kernels(z)[:, 0]), expected[0], rtol=1e-9)


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z[:-1, 0],
        lambda z: 1.0,
        lambda z: z[:, 0] / 0.0,
        lambda z: np.r_[np.nan, z[1:, 0]],
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_integrate__refuses_what_has_no_value_at_a_landmark(found, function):
    with pytest.raises(InvalidArgumentError, match="a finite value at each of 25 landmarks"):
        found.integrate(function)


def test_mmd__of_own_landmarks_is_that_of_weights(found, rng):
    y = rng.standard_normal((300, 2)) + 0.5
    other = dhsic.mean_embedding(y, found.kernel, 20, rng=5)
    z = np.vstack([found.landmarks, other.landmarks])
    weights = np.concatenate([found.weights, -other.weights])
    expected = weights @ oracles.gaussian_gram(z, z, 0.4) @ weights
    assert dhsic.mmd(found, other) ** 2 == pytest.approx(expected, rel=1e-9)
    assert dhsic.mmd(other, found) ** 2 == pytest.approx(expected, rel=1e-9)
    cross = found.weights @ oracles.gaussian_gram(found.landmarks, other.landmarks, 0.4)
    assert found.inner(other) == pytest.approx(cross @ other.weights, rel=1e-9)


def test_mmd__of_shared_landmarks_is_projected(found, x, rng):
    y = rng.standard_normal((300, 2)) + 0.5
    other = found.like(y)
    k_zz, k_zx = grams(found, x)
    expected = oracles.projected_mmd(k_zz, k_zx, grams(found, y)[1])
    assert dhsic.mmd(found, other) ** 2 == pytest.approx(expected, rel=1e-8)
    product = found.squared_norm + other.squared_norm - 2.0 * found.inner(other)
    assert product == pytest.approx(expected, rel=1e-8)
    assert dhsic.mmd(found, found.like(x)) == 0.0


def test_mmd__nears_that_of_the_laws(rng):
    """Of N(0, 1) and N(1, 1), kernel exp(-(x - y)^2 / 2): 2 (1 - exp(-1 / 6)) / sqrt(3)."""
    x, y = rng.standard_normal((2, 40_000))
    one = dhsic.mean_embedding(x, Gaussian(gamma=0.5), 60, rng=0)
    other = dhsic.mean_embedding(y + 1.0, Gaussian(gamma=0.5, origin=one.kernel.origin), 60, rng=1)
    expected = np.sqrt(2.0 * (1.0 - np.exp(-1.0 / 6.0)) / np.sqrt(3.0))
    assert dhsic.mmd(one, other) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("kernel", ["gaussian", "(gaussian+laplacian:2)*delta", "columns(imq)"])
@pytest.mark.parametrize("path", ["one.npz", "one.zarr"])
def test_save__brings_all_back(x, tmp_path, path, kernel):
    found = dhsic.mean_embedding(x.round(), kernel, 25, rng=3)
    found.save(tmp_path / path)
    again = dhsic.load_embedding(tmp_path / path)
    same_bits(again, found)
    assert again.shares(found)
    assert replace(again, passes=found.passes).__dict__.keys() == found.__dict__.keys() - {
        "weights",
        "_factor",
    }
    for name in ("n", "drawn", "tolerance", "precision", "seed", "kernel"):
        assert getattr(again, name) == getattr(found, name)
    same_bits(again.update(x.round()), found.update(x.round()))
    with pytest.raises(InvalidArgumentError, match="already exists"):
        found.save(tmp_path / path)
    found.update(x.round()).save(tmp_path / path, overwrite=True)
    assert dhsic.load_embedding(str(tmp_path / path)).n == 2 * N


def test_save__in_an_object_store(found):
    found.save("memory://embeddings/one")
    same_bits(dhsic.load_embedding("memory://embeddings/one"), found)


def test_save__refuses_kernels_of_the_user(x, tmp_path):
    class Own(Gaussian):
        pass

    found = dhsic.mean_embedding(x, Own(), 20, rng=0)
    with pytest.raises(InvalidArgumentError, match=r"one of dhsic\.kernels"):
        found.save(tmp_path / "one.npz")


def test_load__refuses_what_is_no_embedding(tmp_path, x):
    np.savez(tmp_path / "other.npz", x=x)
    (tmp_path / "text.npz").write_text("text")
    zarr.create_group(tmp_path / "empty.zarr")
    for name in ("other.npz", "text.npz", "empty.zarr", "missing.npz", "missing.zarr"):
        with pytest.raises(DataError, match="holds no mean embedding"):
            dhsic.load_embedding(tmp_path / name)


def test_load__refuses_torn_arrays(found, tmp_path):
    found.save(tmp_path / "one.zarr")
    group = zarr.open_group(tmp_path / "one.zarr")
    group.create_array("digits", data=np.zeros((3, 25), np.int64), overwrite=True)
    with pytest.raises(DataError, match="holds no mean embedding"):
        dhsic.load_embedding(tmp_path / "one.zarr")


@pytest.mark.parametrize("text", ["gaussian", "matern32", "polynomial:2", "linear*delta", "imq"])
def test_kernel_text__brings_the_kernel_back(x, text):
    kernel = parse(text).fit(x)
    assert kernel_of_text(kernel_json(kernel)) == kernel


def test_merge__refuses_other_landmarks(found, x):
    others = (
        dhsic.mean_embedding(x, "gaussian:0.4", 25, rng=4),
        dhsic.mean_embedding(x, "gaussian:0.5", 25, rng=3),
        replace(found, precision="float32"),
    )
    for other in others:
        with pytest.raises(InvalidArgumentError, match="merge where kernel, landmarks and"):
            found.merge(other)
    for method in (found.inner, found.squared_distance):
        with pytest.raises(InvalidArgumentError, match="their kernel is the same"):
            method(others[1])


def test_bad_input__is_refused_in_words(found, x):
    with pytest.raises(InvalidArgumentError, match="n_landmarks must be at most"):
        dhsic.mean_embedding(x, n_landmarks=N + 1)
    with pytest.raises(InvalidArgumentError, match="kernel must be a name or a Kernel"):
        dhsic.mean_embedding(x, 3)
    with pytest.raises(InvalidArgumentError, match="selection must be one of"):
        dhsic.mean_embedding(x, selection="greedy")
    with pytest.raises(InvalidArgumentError, match="pool must be an integer"):
        dhsic.mean_embedding(x, pool=0)
    with pytest.raises(DataError, match="must have 2 columns"):
        found.update(x[:, :1])
    with pytest.raises(InvalidArgumentError, match=r"points must have shape \(q, 2\)"):
        found(x[:, :1])
    with pytest.raises(MemoryBudgetError, match="fewer landmarks"):
        dhsic.mean_embedding(np.zeros((60_000, 2)), n_landmarks=50_000)
    with pytest.raises(MemoryBudgetError, match="fewer landmarks"):
        found.like(x, memory="1MiB")
    with pytest.raises(DataError, match="variable 'x' has NaN or infinity, first in row 7"):
        found.like(np.where(np.arange(N)[:, None] == 7, np.nan, x))


def test_categories__need_their_kernel(rng):
    import pandas as pd

    x = pd.Series(rng.choice(["a", "b", "c"], 50), dtype="category")
    with pytest.raises(InvalidArgumentError, match="would compare as numbers: take 'delta'"):
        dhsic.mean_embedding(x)
    found = dhsic.mean_embedding(x, Delta(), 50, rng=0)
    counts = np.bincount(x.cat.codes) / 50
    np.testing.assert_allclose(found(np.arange(3.0)), counts, rtol=1e-12)


def test_text__has_no_codes_that_other_rows_share(rng):
    with pytest.raises(DataError, match="make x a categorical column of pandas, or integer codes"):
        dhsic.mean_embedding(rng.choice(["a", "b", "c"], 50), "delta", rng=0)


def test_overflow__is_refused(x):
    found = dhsic.mean_embedding(x, "polynomial:3*polynomial:3*polynomial:3", 10, rng=0)
    with pytest.raises(DataError, match="the kernel overflows in rows 0 to 399"):
        found.like(x * 1e45)


def test_rounding__is_warned_of(rng):
    x = np.abs(rng.standard_cauchy((2_000, 2))) ** 1.5
    with pytest.warns(PrecisionWarning, match="'x' has landmarks so many bandwidths"):
        dhsic.mean_embedding(x, rng=0, precision="float32")


def test_str__says_what_it_is(found):
    facts = dict(found.summary())
    assert facts["rows"] == "400 of 2 columns"
    assert facts["kernel"] == "gaussian:0.4, length 1.581"
    assert facts["landmarks"] == "25 of 25 drawn"
    assert (facts["precision"], facts["seed"]) == ("float64", "3")


def test_linear_kernel__is_the_mean(x):
    origin = (0.0, 0.0)
    found = dhsic.mean_embedding(x, Linear(origin=origin), 10, rng=0)
    np.testing.assert_allclose(found(np.eye(2)), x.mean(axis=0), rtol=1e-9)
    assert len(found.landmarks) == 2


def test_laplacian__of_default_landmarks(x):
    found = dhsic.mean_embedding(x, Laplacian(), rng=0)
    assert found.drawn == 160
    assert found.kernel.gamma > 0
    assert [done.name for done in found.passes] == ["kernel sums"]


def test_embedding__of_a_rare_flag_has_a_bandwidth():
    x = np.zeros(3000)
    drawn = generator(1, "bandwidth", 0).choice(3000, size=1000, replace=False)
    x[np.setdiff1d(np.arange(3000), drawn)[:2]] = 4.0
    found = dhsic.mean_embedding(x, n_landmarks=20, rng=1)
    assert found.kernel.gamma == 1 / 16
    assert found.passes[0].name == "scan"
