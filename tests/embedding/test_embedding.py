"""Mean embeddings are what their definition says, in one pass or in parts."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import zarr

import dhsic
from dhsic.errors import DataError, InvalidArgumentError, PrecisionWarning
from dhsic.kernels import Gaussian, Linear
from tests import oracles
from tests.estimators.cases import gaussian
from tests.estimators.orbit import bandwidth_rows

N, GAMMA = 400, 0.4
GROUP = 4096  # rows of which the sums are rounded once


@pytest.fixture
def x(rng):
    return rng.standard_normal((N, 2))


@pytest.fixture
def found(x):
    return dhsic.mean_embedding(x, "gaussian:0.4", 25, rng=3)


def same_bits(one, other):
    np.testing.assert_array_equal(one.means, other.means)
    np.testing.assert_array_equal(one.weights, other.weights)
    assert one.n == other.n


def grams(found, x):
    z = found.landmarks
    return gaussian(z, z, GAMMA), gaussian(z, x, GAMMA)


def test_weights__are_those_of_the_paper(found, x):
    k_zz, k_zx = grams(found, x)
    expected = oracles.embedding_weights(k_zz, k_zx)
    np.testing.assert_allclose(found.weights, expected, rtol=1e-6, atol=1e-9)
    points = np.array([[0.0, 0.0], [1.0, -2.0]])
    values = gaussian(points, found.landmarks, GAMMA) @ expected
    np.testing.assert_allclose(found(points), values, rtol=1e-9)
    assert found.squared_norm == pytest.approx(expected @ k_zz @ expected, rel=1e-9)


def test_values__at_the_landmarks_are_the_means_over_all_rows(found, x):
    means = grams(found, x)[1].mean(axis=1)
    np.testing.assert_allclose(found(found.landmarks), means, rtol=1e-9)
    np.testing.assert_allclose(found.means, means, rtol=1e-12)
    np.testing.assert_array_equal(found.landmarks, x[found.indices])
    assert found.drawn == 25
    full = dhsic.mean_embedding(x, "gaussian:0.4", N, rng=0)
    points = x[:5] + 0.3
    np.testing.assert_allclose(full(points), gaussian(points, x, GAMMA).mean(axis=1), rtol=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        {"selection": "rpcholesky"},
        {"rng": 4},
        {"kernel": "laplacian"},
        {"n_landmarks": 26},
        {"tolerance": 0.2},
    ],
    ids=str,
)
def test_options__make_a_difference(found, x, options):
    given = {"kernel": "gaussian:0.4", "n_landmarks": 25, "rng": 3, **options}
    assert not found.shares(dhsic.mean_embedding(x, **given))


def test_selected_landmarks__lose_less_of_the_embedding(x):
    whole = Gaussian(gamma=2.0)(x).mean()
    lost = {}
    for selection in ("rpcholesky", "uniform"):
        options = {"kernel": "gaussian:2", "n_landmarks": 12, "selection": selection}
        norms = [dhsic.mean_embedding(x, rng=s, **options).squared_norm for s in range(8)]
        lost[selection] = whole - np.mean(norms)
    assert 0.0 < lost["rpcholesky"] < lost["uniform"]


def test_float32__is_near_and_sums_in_float64(x, found):
    single = dhsic.mean_embedding(x, "gaussian:0.4", 25, rng=3, precision="float32")
    assert single.tolerance > found.tolerance
    means = replace(found, precision="float32").like(x).means
    np.testing.assert_allclose(means, found.means, rtol=1e-5)
    assert (means != found.means).any()


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e20])
@pytest.mark.parametrize("cut", [1, 3])
def test_update_and_merge__are_one_pass_bit_for_bit(rng, cut, scale):
    """In any order: sums are exact, also of values of both signs and of many sizes."""
    sizes = scale * 10.0 ** rng.integers(-12, 12, (4 * GROUP + 77, 1))
    x = rng.standard_normal((4 * GROUP + 77, 3)) * sizes
    kernel = Linear(origin=(0.0, 0.0, 0.0))
    whole = dhsic.mean_embedding(x, kernel, 10, rng=1)
    first, second = whole.like(x[: cut * GROUP]), whole.like(x[cut * GROUP :])
    same_bits(first.merge(second), whole)
    same_bits(second.merge(first), whole)
    same_bits(first.update(x[cut * GROUP :]), whole)
    blocks = [whole.like(x[a : a + GROUP]) for a in range(0, len(x), GROUP)]
    merged = blocks[3]
    for i in (0, 4, 2, 1):
        merged = merged.merge(blocks[i])
    same_bits(merged, whole)
    for z, mean in zip(whole.landmarks, whole.means, strict=True):
        products = x @ z
        error = 1e-12 * math.fsum(np.abs(products)) / len(x)
        assert mean == pytest.approx(math.fsum(products) / len(x), rel=1e-12, abs=error)


def test_update__of_a_broken_group_is_one_pass_to_the_last_digits(rng):
    x = rng.standard_normal((5_000, 3))
    whole = dhsic.mean_embedding(x, "gaussian", 60, rng=1)
    parts = whole.like(x[:1234]).update(x[1234:])
    np.testing.assert_allclose(parts.means, whole.means, rtol=1e-14)
    same_bits(dhsic.mean_embedding(x, "gaussian", 60, rng=1, threads=2), whole)


def test_integrate__is_exact_for_functions_of_the_landmarks(found, x):
    z = found.landmarks
    expected = gaussian(z[:3], x, GAMMA).mean(axis=1)
    values = found.integrate(lambda points: gaussian(points, z[:3], GAMMA))
    np.testing.assert_allclose(values, expected, rtol=1e-9)
    one = found.integrate(gaussian(z, z[:1], GAMMA)[:, 0])
    np.testing.assert_allclose(one, expected[0], rtol=1e-9)
    for bad in (lambda p: p[:-1, 0], lambda _: 1.0, lambda p: np.full(len(p), np.nan)):
        with pytest.raises(InvalidArgumentError, match="a finite value at each of 25 landmarks"):
            found.integrate(bad)


def test_mmd__of_own_landmarks_is_that_of_weights(found, rng):
    y = rng.standard_normal((300, 2)) + 0.5
    other = dhsic.mean_embedding(y, found.kernel, 20, rng=5)
    z = np.vstack([found.landmarks, other.landmarks])
    weights = np.concatenate([found.weights, -other.weights])
    expected = weights @ gaussian(z, z, GAMMA) @ weights
    assert dhsic.mmd(found, other) ** 2 == pytest.approx(expected, rel=1e-9)
    assert dhsic.mmd(other, found) ** 2 == pytest.approx(expected, rel=1e-9)
    cross = found.weights @ gaussian(found.landmarks, other.landmarks, GAMMA) @ other.weights
    assert found.inner(other) == pytest.approx(cross, rel=1e-9)


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
    for name in ("n", "drawn", "tolerance", "precision", "seed", "kernel"):
        assert getattr(again, name) == getattr(found, name)
    same_bits(again.update(x.round()), found.update(x.round()))
    with pytest.raises(InvalidArgumentError, match="already exists"):
        found.save(tmp_path / path)
    found.update(x.round()).save(tmp_path / path, overwrite=True)
    assert dhsic.load_embedding(str(tmp_path / path)).n == 2 * N


def test_save__in_an_object_store_and_not_of_kernels_of_the_user(found, x, tmp_path):
    found.save("memory://embeddings/one")
    same_bits(dhsic.load_embedding("memory://embeddings/one"), found)

    class Own(Gaussian):
        pass

    own = dhsic.mean_embedding(x, Own(), 20, rng=0)
    with pytest.raises(InvalidArgumentError, match=r"only kernels of dhsic\.kernels"):
        own.save(tmp_path / "one.npz")


def test_load__refuses_what_is_no_whole_embedding(found, tmp_path, x):
    np.savez(tmp_path / "other.npz", x=x)
    for name in ("text.npz", "text.txt"):
        (tmp_path / name).write_text("text")
    zarr.create_group(tmp_path / "empty.zarr")
    found.save(tmp_path / "torn.zarr")
    group = zarr.open_group(tmp_path / "torn.zarr")
    group.create_array("digits", data=np.zeros((3, 25), np.int64), overwrite=True)
    missing = ("missing.npz", "missing.zarr")
    for name in ("other.npz", "text.npz", "text.txt", "empty.zarr", "torn.zarr", *missing):
        with pytest.raises(DataError, match="holds no mean embedding"):
            dhsic.load_embedding(tmp_path / name)


def test_merge__refuses_other_landmarks(found, x):
    others = (
        dhsic.mean_embedding(x, "gaussian:0.4", 25, rng=4),
        dhsic.mean_embedding(x, "gaussian:0.5", 25, rng=3),
        replace(found, precision="float32"),
    )
    for other in others:
        with pytest.raises(InvalidArgumentError, match="merge must have the same kernel"):
            found.merge(other)
    for method in (found.inner, found.squared_distance):
        with pytest.raises(InvalidArgumentError, match="compare must have the same kernel"):
            method(others[1])


def test_categories__need_their_kernel_and_text_has_no_codes_that_other_rows_share(rng):
    x = pd.Series(rng.choice(["a", "b", "c"], 50), dtype="category")
    with pytest.raises(InvalidArgumentError, match="would compare as numbers: take 'delta'"):
        dhsic.mean_embedding(x)
    found = dhsic.mean_embedding(x, "delta", 50, rng=0)
    np.testing.assert_allclose(found(np.arange(3.0)), np.bincount(x.cat.codes) / 50, rtol=1e-12)
    with pytest.raises(DataError, match="make x a categorical column of pandas, or integer codes"):
        dhsic.mean_embedding(x.to_numpy(str), "delta", rng=0)


def test_rounding__is_warned_of(rng):
    x = np.abs(rng.standard_cauchy((2_000, 2))) ** 1.5
    with pytest.warns(PrecisionWarning, match="'x' has landmarks so many bandwidths"):
        dhsic.mean_embedding(x, rng=0, precision="float32")


def test_linear_kernel__is_the_mean(x):
    found = dhsic.mean_embedding(x, Linear(origin=(0.0, 0.0)), 10, rng=0)
    np.testing.assert_allclose(found(np.eye(2)), x.mean(axis=0), rtol=1e-9)
    assert len(found.landmarks) == 2
    facts = dict(dhsic.mean_embedding(x, "laplacian", rng=0).summary())
    assert facts["rows"] == "400 of 2 columns"
    assert facts["landmarks"].endswith("kept of 160 drawn")


def test_embedding__of_a_rare_flag_has_a_bandwidth():
    x = np.zeros(3000)
    x[np.setdiff1d(np.arange(3000), bandwidth_rows(1, 3000))[:2]] = 4.0
    found = dhsic.mean_embedding(x, n_landmarks=20, rng=1)
    assert found.kernel.gamma == 1 / 16
    assert found.passes[0].name == "scan"
