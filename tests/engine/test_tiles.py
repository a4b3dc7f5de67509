"""Tiles: of any size they give the same sums, in the memory that they state."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhsic.engine.tiles import Tiling, as_real, column_sums, product_of_centred
from dhsic.kernels import Combinations, Delta, Gaussian, Laplacian, Matern, parse

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


def test_row_tiles__have_the_rows_asked_for():
    data, *_, tiling = settings_of(2, row_tile=20)
    assert [(s.start, s.stop) for s, _ in tiling.row_tiles(data)] == [(0, 20), (20, 40), (40, 50)]
    assert [(s.start, s.stop) for s, _ in tiling.row_tiles(data, 30)] == [(0, 30), (30, 50)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_tiling__describes_itself(dtype):
    *_, tiling = settings_of(3, dtype=dtype)
    assert tiling.dtype == dtype
    assert tiling.n_landmarks == 17
    assert tiling.nbytes == sum(columns.nbytes for columns in tiling.columns)
    assert tiling.work[f"exponentials{'' if dtype == 'float64' else ' of float32'}"] > 0


SPECS = [
    "gaussian:0.5",
    "laplacian:0.5",
    "matern52:2",
    "imq:0.5",
    "rq:0.7:0.5",
    "linear",
    "polynomial:3:1:0.5",
    "distance:0.7",
    "delta",
    "gaussian:0.5*delta+linear",
]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("d", [1, 6])
def test_scratch_bytes__bound_what_is_allocated(spec, dtype, d):
    x = np.random.default_rng(0).integers(-3, 4, (2500, d)).astype(float)
    kernel = parse(spec)
    tiling = Tiling.prepare(Combinations.single([kernel, kernel]), [x[:300], x[300:600]], dtype)
    assembled(tiling, [x, x])  # what is made once for all is not counted
    tracemalloc.start()
    buffers = tiling.buffers()
    for _, rows in tiling.row_tiles([x, x]):
        for _, tiles in tiling.gram_tiles(rows, buffers):
            tiles[0] *= tiles[1]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < tiling.scratch_bytes + 500_000
    assert tiling.scratch_bytes < 3 * peak


def test_scratch_bytes__grow_with_tiles_and_shrink_with_precision():
    def scratch(dtype="float64", **tiles):
        return settings_of(2, p=500, dtype=dtype, **tiles)[3].scratch_bytes

    assert scratch(row_tile=4096) == 2 * scratch()
    assert scratch(column_tile=200) > 1.5 * scratch(column_tile=100)
    assert scratch("float32") < 0.7 * scratch()


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


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_column_sums__sum_rows_in_the_precision_of_the_tile(dtype):
    tile = np.random.default_rng(0).random((2048, 5)).astype(dtype)
    sums = column_sums(tile)
    assert sums.dtype == dtype
    np.testing.assert_allclose(
        sums, tile.astype(float).sum(axis=0), rtol=1e-12 if dtype == "float64" else 1e-6
    )


def test_delta__tiles_are_of_one_row_too():
    x = np.array([[1.0], [2.0], [1.0]])
    tiling = Tiling.prepare(Combinations.single([Delta(), Delta()]), [x[:1], x[1:2]], "float64")
    np.testing.assert_array_equal(assembled(tiling, [x, x])[:, :, 0], [[1, 0, 1], [0, 1, 0]])


class Turned:
    """The product of rows and landmarks times a complex number."""

    work_tiles = 1

    def rows(self, x, dtype):
        return x.astype(dtype)

    def tile(self, rows, columns, out, work):
        np.matmul(rows, columns.T, out=work[0].real)
        np.multiply(work[0].real, np.exp(2j), out=out)


def complex_settings(dtype="float64", n=50, p=17, **tiles):
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((n, d)) for d in D[:3]]
    landmarks = [rng.standard_normal((p, d)) for d in D[:3]]
    columns = tuple(z.astype(dtype) for z in landmarks)
    return data, landmarks, Tiling((Turned(),) * 3, columns, parts=2, **tiles)


@pytest.mark.parametrize(("row_tile", "column_tile"), [(1, 1), (7, 5), (50, 17), (2048, 128)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_complex_tiles__are_kept_as_real_numbers_by_turns(row_tile, column_tile, dtype):
    data, landmarks, tiling = complex_settings(dtype, row_tile=row_tile, column_tile=column_tile)
    assert (tiling.precision, tiling.n_landmarks, tiling.n_values) == (dtype, 17, 34)
    assert tiling.dtype == {"float64": "complex128", "float32": "complex64"}[dtype]
    found = np.full((3, 50, 34), np.nan)
    buffers = tiling.buffers()
    for at_rows, rows in tiling.row_tiles(data):
        assert all(x.dtype == dtype for x in rows)
        for at, tiles in tiling.gram_tiles(rows, buffers):
            for m, tile in enumerate(tiles):
                assert tile.dtype == tiling.dtype
                found[m, at_rows, at] = as_real(tile)
    expected = [x @ z.T * np.exp(2j) for x, z in zip(data, landmarks, strict=True)]
    rounding = 1e-13 if dtype == "float64" else 2e-6
    np.testing.assert_allclose(found[:, :, ::2], np.real(expected), atol=rounding)
    np.testing.assert_allclose(found[:, :, 1::2], np.imag(expected), atol=rounding)


def test_complex_tiles__cost_twice_the_memory_and_the_functions():
    *_, tiling = complex_settings(p=500)
    real = Tiling(tiling.kernels, tiling.columns)
    assert 1.9 * real.scratch_bytes < tiling.scratch_bytes <= 2 * real.scratch_bytes
    assert real.work["exponentials"] * 2 == tiling.work["cosines"] == 2 * 3 * 500
    data = complex_settings(n=2500)[0]
    tracemalloc.start()
    buffers = tiling.buffers()
    for _, rows in tiling.row_tiles(data):
        for _, tiles in tiling.gram_tiles(rows, buffers):
            tiles[0] *= tiles[1]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < tiling.scratch_bytes + 500_000
    assert tiling.scratch_bytes < 3 * peak


@pytest.mark.parametrize("m", [2, 3, 5])
def test_centred_product__is_of_complex_tiles_too(m):
    parts = np.random.default_rng(m).standard_normal((2, m, 6, 4))
    tiles = parts[0] + 1j * parts[1]
    means = tiles.mean(axis=1)
    expected = np.prod(tiles, axis=0) + (m - 1) * np.prod(means, axis=0)
    for k in range(m):
        expected -= tiles[k] * np.prod(np.delete(means, k, axis=0), axis=0)
    result = centred_product(list(tiles.copy()), list(means))
    np.testing.assert_allclose(result, expected, atol=1e-12)
