"""Tiles: of any size they give the same sums.

What a product of centred tiles loses where kernels are near one, no public result shows.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhsic.engine.tiles import Tiling, product_of_centred
from dhsic.kernels import Combinations, Gaussian, Laplacian, Matern

D = (2, 1, 3, 2, 1)


def centred_product(tiles, means):
    for tile, mean in zip(tiles, means, strict=True):
        tile -= mean
    return product_of_centred(tiles, means)


def settings_of(m, n=50, p=17, dtype="float64", **tiles):
    rng = np.random.default_rng(m)
    data = [rng.standard_normal((n, d)) for d in D[:m]]
    landmarks = [rng.standard_normal((p, d)) for d in D[:m]]
    kernels = [Gaussian(gamma=0.3), Laplacian(gamma=0.5), Matern(length=2.0)][:m]
    kernels += [Gaussian(gamma=0.7)] * (m - len(kernels))
    return (
        data,
        landmarks,
        kernels,
        Tiling.prepare(Combinations.single(kernels), landmarks, dtype, **tiles),
    )


def assembled(tiling, data):
    """Whole Gram matrices from their tiles."""
    grams = np.full((len(data), len(data[0]), tiling.n_landmarks), np.nan)
    buffers = tiling.buffers()
    for at_rows, rows in tiling.row_tiles(data):
        for at, tiles in tiling.gram_tiles(rows, buffers):
            for m, tile in enumerate(tiles):
                assert tile.dtype == tiling.dtype
                assert tile.flags.c_contiguous
                grams[m, at_rows, at] = tile
                tile[:] = np.nan  # it is the caller's
    return grams


@pytest.mark.parametrize(
    ("row_tile", "column_tile"), [(1, 1), (7, 5), (50, 17), (49, 16), (2048, 128)]
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_tiling__tiles_of_any_size_are_the_gram_matrices(row_tile, column_tile, dtype):
    data, landmarks, kernels, tiling = settings_of(
        3, dtype=dtype, row_tile=row_tile, column_tile=column_tile
    )
    expected = [k(x, z) for k, x, z in zip(kernels, data, landmarks, strict=True)]
    np.testing.assert_allclose(
        assembled(tiling, data), expected, atol=1e-13 if dtype == "float64" else 2e-6
    )


@settings(deadline=None, max_examples=60)
@given(
    m=st.integers(2, 5),
    b=st.integers(1, 6),
    c=st.integers(1, 4),
    seed=st.integers(0, 1000),
    centred=st.booleans(),
)
def test_centred_product__equals_its_formula(m, b, c, seed, centred):
    rng = np.random.default_rng(seed)
    tiles = rng.random((m, b, c))
    means = tiles.mean(axis=1) if centred else rng.random((m, c))
    expected = np.prod(tiles, axis=0) + (m - 1) * np.prod(means, axis=0)
    for k in range(m):
        expected -= tiles[k] * np.prod(np.delete(means, k, axis=0), axis=0)
    given_tiles = list(tiles.copy())
    result = centred_product(given_tiles, list(means))
    np.testing.assert_allclose(result, expected, atol=1e-13)
    assert any(result is tile for tile in given_tiles)


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_centred_product__has_mean_u_and_loses_no_digits_near_one(m):
    common, *own = np.random.default_rng(m).random((m + 1, 400, 3))
    tiles = 1.0 - 1e-6 * (common + np.array(own))
    result = centred_product(list(tiles.copy()), list(tiles.mean(axis=1)))
    exact = tiles.astype(np.longdouble)
    u = np.prod(exact, axis=0).mean(axis=0) - np.prod(exact.mean(axis=1), axis=0)
    np.testing.assert_allclose(result.mean(axis=0), u.astype(float), rtol=3e-5)


@pytest.mark.parametrize("m", [2, 3, 5])
def test_centred_product__keeps_float32(m):
    tiles = np.random.default_rng(0).random((m, 8, 4)).astype(np.float32)
    result = centred_product(list(tiles.copy()), list(tiles.mean(axis=1)))
    assert result.dtype == np.float32
    wide = tiles.astype(float)
    np.testing.assert_allclose(
        result, centred_product(list(wide.copy()), list(wide.mean(axis=1))), atol=1e-6
    )
