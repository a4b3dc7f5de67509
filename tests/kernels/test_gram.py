"""Properties that every kernel has, driven by one table."""

import tracemalloc
from typing import get_args

import numpy as np
import pytest

from dhsic.kernels import (
    AndersonDarling,
    Delta,
    Gaussian,
    Kernel,
    KernelName,
    Linear,
    Matern,
    Product,
    Sum,
    parse,
)
from dhsic.kernels.euclidean import cancellation, prepare_columns, prepare_rows
from tests.kernels.cases import CASES, DEFAULTS, Case

EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=str)
EVERY_DEFAULT = pytest.mark.parametrize("kernel", DEFAULTS, ids=lambda kernel: kernel.spec())
EVERY_DIMENSION = pytest.mark.parametrize("d", [1, 2, 90])


def normal_rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Rows of about unit norm, with ties among them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) / np.sqrt(d)
    x[n // 2] = x[0]
    return x


def tile(kernel: Kernel, x: np.ndarray, y: np.ndarray, dtype: type) -> np.ndarray:
    out = np.full((len(x), len(y)), np.nan, dtype)
    work = np.full((kernel.work_tiles, *out.shape), np.nan, dtype)
    kernel.tile(kernel.rows(x, dtype), kernel.columns(y, dtype), out, work)
    return out


def size(gram_of_x: np.ndarray, gram_of_y: np.ndarray) -> np.ndarray:
    """sqrt(k(x, x) k(y, y)), what errors are relative to."""
    return np.sqrt(np.outer(np.diag(gram_of_x), np.diag(gram_of_y)))


def test_cases__are_of_every_name():
    named = {type(parse(name)) for name in get_args(KernelName)}
    # That one is of ranks alone, and compared in `test_ranked`.
    assert named - {AndersonDarling} <= {type(case.kernel) for case in CASES}


@EVERY_CASE
@EVERY_DIMENSION
def test_gram__agrees_with_definition(case: Case, d: int):
    x, y = normal_rows(37, d, 1), normal_rows(17, d, 2)
    scale = size(case.oracle(x, x), case.oracle(y, y))
    assert np.max(np.abs(case.kernel(x, y) - case.oracle(x, y)) / scale) < 1e-12


@EVERY_CASE
@EVERY_DIMENSION
def test_gram__agrees_with_definition_at_ties(case: Case, d: int):
    x = normal_rows(23, d)
    expected = case.oracle(x, x)
    tolerance = 1e-12 if d == 1 else case.at_ties
    assert np.max(np.abs(case.kernel(x) - expected) / size(expected, expected)) < tolerance


@EVERY_CASE
@EVERY_DIMENSION
def test_gram__is_symmetric_and_positive_semidefinite(case: Case, d: int):
    gram = case.kernel(normal_rows(30, d))
    np.testing.assert_allclose(gram, gram.T, rtol=0, atol=1e-12 * np.abs(gram).max())
    eigenvalues = np.linalg.eigvalsh(gram)
    assert eigenvalues[0] >= -max(1e-10, 0.0 if d == 1 else case.at_ties) * eigenvalues[-1]


@EVERY_CASE
@EVERY_DIMENSION
def test_tile__in_float32_agrees_with_definition(case: Case, d: int):
    x, y = normal_rows(23, d, 1).astype(np.float32), normal_rows(17, d, 2).astype(np.float32)
    expected = case.oracle(x.astype(float), y.astype(float))
    scale = size(case.oracle(x, x), case.oracle(y, y))
    assert np.max(np.abs(tile(case.kernel, x, y, np.float32) - expected) / scale) < 1e-5


@EVERY_CASE
@EVERY_DIMENSION
def test_tile__of_slices_is_slice_of_tile(case: Case, d: int):
    kernel, x, y = case.kernel, normal_rows(23, d, 1), normal_rows(17, d, 2)
    rows, columns = kernel.rows(x), kernel.columns(y)
    assert rows.shape == (23, kernel.width(d))
    assert columns.shape == (17, kernel.width(d))
    np.testing.assert_array_equal(kernel.rows(x[5:9]), rows[5:9])
    np.testing.assert_array_equal(kernel.columns(y[3:]), columns[3:])
    out, work = np.empty((4, 14)), np.empty((kernel.work_tiles, 4, 14))
    kernel.tile(rows[5:9], columns[3:], out, work)
    np.testing.assert_allclose(out, kernel(x, y)[5:9, 3:], rtol=1e-12, atol=1e-13)


@EVERY_CASE
@EVERY_DIMENSION
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_and_columns__are_those_of_either(case: Case, d: int, dtype: type):
    x = normal_rows(200, d).astype(np.float32)
    rows, columns = case.kernel.rows_and_columns(x, dtype)
    np.testing.assert_array_equal(rows, case.kernel.rows(x, dtype), strict=True)
    np.testing.assert_array_equal(columns, case.kernel.columns(x, dtype), strict=True)


@EVERY_CASE
@EVERY_DIMENSION
def test_tile__needs_no_more_scratch_than_stated(case: Case, d: int):
    kernel, x = case.kernel, normal_rows(2, d)
    for work_tiles in (kernel.work_tiles, kernel.work_tiles + 1):
        out = np.empty((2, 2))
        kernel.tile(kernel.rows(x), kernel.columns(x), out, np.empty((work_tiles, 2, 2)))
        np.testing.assert_array_equal(out, kernel(x))
    if kernel.work_tiles and d > 1:
        work = np.empty((kernel.work_tiles - 1, 2, 2))
        with pytest.raises(IndexError):
            kernel.tile(kernel.rows(x), kernel.columns(x), np.empty((2, 2)), work)


@EVERY_CASE
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 3])
def test_tile__allocates_no_tile(case: Case, dtype: type, d: int):
    kernel = case.kernel
    x, y = (normal_rows(n, d, n).astype(np.float32) for n in (512, 384))
    rows, columns = kernel.rows(x, dtype), kernel.columns(y, dtype)
    out = np.empty((512, 384), dtype)
    work = np.empty((kernel.work_tiles, *out.shape), dtype)
    kernel.tile(rows, columns, out, work)
    assert min(traced_peak(kernel, rows, columns, out, work) for _ in range(3)) < out.nbytes / 4


def traced_peak(kernel, *arguments) -> int:
    """Bytes that a tile allocates, and whatever other threads do meanwhile."""
    tracemalloc.start()
    try:
        kernel.tile(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@EVERY_DEFAULT
@EVERY_DIMENSION
def test_fit__makes_units_and_location_immaterial(kernel: Kernel, d: int):
    x = np.random.default_rng(0).integers(0, 9, size=(40, d)).astype(float)
    fitted = kernel.fit(x)(x)
    moved = 1000 * x - 3000
    refitted = kernel.fit(moved)(moved)
    factor = np.trace(refitted) / np.trace(fitted)
    np.testing.assert_allclose(refitted, factor * fitted, rtol=1e-10, atol=1e-6 * factor)


@EVERY_DEFAULT
def test_fit__sets_every_parameter(kernel: Kernel):
    x = normal_rows(30, 2)
    fitted = kernel.fit(x)
    assert "None" not in repr(fitted)
    assert fitted.fit(10 * x) == fitted
    assert type(fitted) is type(kernel)


@EVERY_CASE
def test_fit__keeps_given_parameters(case: Case):
    assert case.kernel.fit(normal_rows(30, 2)).spec() == case.kernel.spec()


@pytest.mark.parametrize("case", [c for c in CASES if c.invariant], ids=str)
@EVERY_DIMENSION
def test_origin__is_immaterial_for_invariant_kernels(case: Case, d: int):
    x = np.random.default_rng(0).integers(-4, 5, size=(30, d)).astype(float)
    fitted = case.kernel.fit(x + 2.0)
    tolerance = 1e-12 if d == 1 else max(1e-12, case.at_ties)
    np.testing.assert_allclose(fitted(x), case.kernel(x), rtol=0, atol=tolerance)


@pytest.mark.parametrize("case", [c for c in CASES[:-3] if not c.invariant], ids=str)
def test_origin__is_part_of_the_other_kernels(case: Case):
    x = normal_rows(20, 3)
    fitted = case.kernel.fit(x)
    centred = x - np.median(x, axis=0)
    np.testing.assert_allclose(fitted(x), case.oracle(centred, centred), rtol=1e-6, atol=1e-6)
    assert not np.allclose(fitted(x), case.kernel(x))


@EVERY_CASE
@pytest.mark.parametrize("d", [1, 2])
def test_rows__take_any_numbers_in_any_layout(case: Case, d: int):
    x = np.random.default_rng(0).integers(0, 2, size=(20, d))
    kernel = case.kernel.fit(x)
    expected = kernel.rows(x.astype(float))
    for same in (
        x,
        x.astype(bool),
        x.astype(np.uint8),
        x.astype(np.float32),
        np.asfortranarray(x, dtype=float),
        np.repeat(x, 2, axis=1)[:, ::2].astype(float),
        np.repeat(x.astype(float), 2, axis=0)[::2],
        np.hstack([x, x]).astype(float)[:, :d],
    ):
        rows = kernel.rows(same)
        np.testing.assert_array_equal(rows, expected)
        assert rows.flags.c_contiguous
        assert rows.dtype == np.float64


@EVERY_CASE
def test_rows__do_not_change_the_data(case: Case):
    x = normal_rows(10, 3)
    before = x.copy()
    case.kernel(x)
    np.testing.assert_array_equal(x, before)


@EVERY_CASE
def test_rows__may_be_none(case: Case):
    x = normal_rows(10, 3)
    assert case.kernel(x[:0], x).shape == (0, 10)
    assert case.kernel(x, x[:0]).shape == (10, 0)


@EVERY_CASE
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows__refuse_what_is_not_finite(case: Case, bad: float):
    x = normal_rows(10, 2)
    x[3, 1] = bad
    with pytest.raises(ValueError, match="must be finite"):
        case.kernel(x)


@pytest.mark.parametrize("case", [c for c in CASES if not isinstance(c.kernel, Delta)], ids=str)
@EVERY_DIMENSION
@pytest.mark.parametrize(("dtype", "far"), [(np.float32, 1e30), (np.float64, 1e160)])
def test_rows__refuse_what_would_overflow(case: Case, d: int, dtype: type, far: float):
    x = np.ones((10, d))
    x[3, 0] = np.float32(far) if dtype is np.float32 else far
    with pytest.raises(ValueError, match=r"must be finite, and smaller than .*to ranks"):
        case.kernel.rows(x, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows__may_be_squared_to_an_eighth_of_the_largest_number(dtype: type):
    most = float(np.finfo(dtype).max) ** 0.5
    kernel = Gaussian(gamma=1.0, origin=(0.0, 0.0))
    assert np.isfinite(kernel.rows(np.array([[0.35 * most, 0.0]]), dtype)).all()
    with pytest.raises(ValueError, match="must be finite, and smaller than"):
        kernel.rows(np.array([[0.36 * most, 0.0]]), dtype)


@EVERY_CASE
def test_rows__refuse_vectors(case: Case):
    with pytest.raises(
        ValueError, match=r"must have shape \(n, 1\); got \(5,\): pass x\[:, None\]"
    ):
        case.kernel(np.arange(5.0))


@EVERY_CASE
def test_gram__refuses_unequal_columns(case: Case):
    with pytest.raises(ValueError, match=r"equally many columns; got shapes \(4, 2\) and \(4, 3\)"):
        case.kernel(normal_rows(4, 2), normal_rows(4, 3))


def test_rows__refuse_columns_other_than_fitted():
    kernel = Gaussian().fit(normal_rows(10, 2))
    with pytest.raises(ValueError, match=r"must have shape \(n, 2\); got \(4, 3\)"):
        kernel(normal_rows(4, 3))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 10, 400])
@pytest.mark.parametrize("offset", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rounding__bounds_the_error_near_landmarks(case: Case, dtype: type, d: int, offset: float):
    kernel, rng = case.kernel, np.random.default_rng(d)
    z = (rng.normal(size=(8, d)) / np.sqrt(d) + offset).astype(dtype)
    x = z + (rng.normal(size=(8, d)) * 0.01 / np.sqrt(d)).astype(dtype)
    x[:4] = z[:4]
    exact_x, exact_z = x.astype(float), z.astype(float)
    bound = kernel.rounding(kernel.columns(z, dtype))
    if d == 1 or isinstance(kernel, Linear | Delta):
        assert bound == 0.0
    scale = size(case.oracle(exact_x, exact_x), case.oracle(exact_z, exact_z))
    error = np.abs(tile(kernel, x, z, dtype) - case.oracle(exact_x, exact_z)) / scale
    few_digits = 40 * np.sqrt(d) * np.finfo(dtype).eps
    casting = 2 * np.finfo(dtype).eps * np.linalg.norm(z, axis=1).max()
    assert error.max() <= bound + few_digits + casting


def test_rounding__grows_with_the_distance_from_the_origin():
    z = normal_rows(10, 3)
    near, far = (Gaussian(gamma=1.0).columns(z + shift, np.float32) for shift in (0.0, 1000.0))
    assert Gaussian(gamma=1.0).rounding(near) < 1e-5
    assert Gaussian(gamma=1.0).rounding(far) > 0.1
    points = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])
    for prepare in (prepare_rows, prepare_columns):
        found = cancellation(prepare(points, np.square(points).sum(axis=1)))
        assert found == pytest.approx(2 * 4**0.5 * np.finfo(float).eps * 25, abs=0.0)
    assert (
        Gaussian(gamma=1.0)
        .fit(z + 1000.0)
        .rounding(Gaussian(gamma=1.0).fit(z + 1000.0).columns(z + 1000.0, np.float32))
        < 1e-5
    )


def test_gaussian__stays_in_range_far_from_the_origin():
    x = normal_rows(200, 5) + 1e7
    gram = tile(Gaussian(gamma=1.0), x, x, np.float32)
    assert gram.min() >= 0.0
    assert gram.max() <= 1.0


def test_gaussian__exceeds_one_by_rounding_only():
    x = normal_rows(300, 50) * 3
    assert tile(Gaussian(gamma=1.0), x, x, np.float32).max() <= 1.0 + 1e-4


def test_sum__rounding_is_the_worst_of_its_parts_and_product_adds_them():
    rough, smooth = Matern(nu=0.5, length=1.0), Gaussian(gamma=1.0)
    z = normal_rows(10, 3)
    e = [k.rounding(k.columns(z, np.float32)) for k in (rough, smooth)]
    both = Sum((rough, smooth)), Product((rough, smooth))
    assert both[0].rounding(both[0].columns(z, np.float32)) == max(e)
    assert both[1].rounding(both[1].columns(z, np.float32)) == sum(e)


def test_gaussian__of_numbers_far_apart_is_next_to_0_and_of_others_unchanged():
    """An exponential that nears underflow takes three times as long, and a narrow kernel many."""
    x = np.array([[0.0], [0.5], [3.0], [30.0]])
    gram = Gaussian(gamma=4.0)(x)
    np.testing.assert_array_equal(gram[0, :3], np.exp([-0.0, -1.0, -36.0]))
    assert gram[0, 3] == np.exp(-500.0) < 1e-217
    assert Gaussian(gamma=4.0)(x[:, [0, 0]])[0, 3] == 0.0
