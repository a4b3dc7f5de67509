"""Gradients of kernels against central differences of their values."""

import numpy as np
import pytest

from dhsic.errors import InvalidArgumentError
from dhsic.kernels import Columns, Delta, Distance, Gaussian, Kernel, Laplacian, Linear, Matern
from tests.kernels.cases import CASES, Case

SMOOTH = [case for case in CASES if case.kernel.differentiable]
KINKED = [Laplacian(gamma=0.3), Matern(nu=0.5, length=2.0), Distance(), Distance(exponent=0.7)]


def normal(rows: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, d)) / np.sqrt(d)


def gradient(
    kernel: Kernel, x: np.ndarray, z: np.ndarray, weights: np.ndarray, dtype: type = np.float64
) -> np.ndarray:
    rows, columns = kernel.rows(x, dtype), kernel.columns(z, dtype)
    gram = np.empty(weights.shape, dtype)
    kernel.tile(rows, columns, gram, np.empty((kernel.work_tiles, *gram.shape), dtype))
    work = np.full((kernel.gradient_tiles, *gram.shape), np.nan, dtype)
    given = weights.astype(dtype)
    found = kernel.gradient(rows, columns, gram, given, work)
    np.testing.assert_array_equal(given, weights.astype(dtype))
    return found


def differences(kernel: Kernel, x: np.ndarray, z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    found = np.empty(x.shape)
    for j in range(x.shape[1]):
        step = 1e-5 * np.eye(x.shape[1])[j]
        values = kernel(x + step, z) - kernel(x - step, z)
        found[:, j] = (values * weights).sum(axis=1) / 2e-5
    return found


def test_differentiable__are_all_kernels_but_those_of_categories() -> None:
    others = {case.kernel.spec() for case in CASES} - {case.kernel.spec() for case in SMOOTH}
    assert all("delta" in spec for spec in others)
    assert len(SMOOTH) > 12


@pytest.mark.parametrize("case", SMOOTH, ids=str)
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("origin", [0.0, 0.7])
def test_gradient__agrees_with_differences(case: Case, d: int, origin: float) -> None:
    x, z, weights = normal(13, d, 1) + origin, normal(7, d, 2) + origin, normal(13, 7, 3)
    kernel = case.kernel.fit(z) if origin else case.kernel
    expected = differences(kernel, x, z, weights)
    found = gradient(kernel, x, z, weights)
    assert found.shape == x.shape
    assert np.abs(found - expected).max() < 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("case", SMOOTH, ids=str)
@pytest.mark.parametrize("d", [1, 3])
def test_gradient__keeps_its_digits_in_float32(case: Case, d: int) -> None:
    far = 1e3  # the origin takes it away
    x, z, weights = normal(30, d, 4) + far, normal(20, d, 5) + far, normal(30, 20, 6)
    kernel = case.kernel.fit(z)
    expected, found = (gradient(kernel, x, z, weights, dtype) for dtype in (np.float64, np.float32))
    assert np.abs(found - expected).max() < 3e-5 * np.abs(expected).max()


@pytest.mark.parametrize("kernel", KINKED, ids=lambda kernel: kernel.spec())
@pytest.mark.parametrize("d", [1, 2])
def test_gradient__is_that_of_the_other_points_at_a_kink(kernel: Kernel, d: int) -> None:
    x, z, weights = normal(1, d, 7), normal(6, d, 8), normal(1, 7, 9)
    tied = np.vstack([z, x])
    others = gradient(kernel, x, z, weights[:, :-1])
    if isinstance(kernel, Distance):  # |x - o|^q / 2 has no kink there
        others += gradient(kernel, x, np.zeros((1, d)), weights[:, -1:]) * 0.0
        q, norm = kernel.exponent, np.linalg.norm(x)
        others += 0.5 * q * norm ** (q - 2.0) * x * weights[0, -1]
    np.testing.assert_allclose(gradient(kernel, x, tied, weights), others, rtol=1e-10)


def test_gradient__of_the_distance_kernel_at_its_origin_counts_the_kink_as_zero() -> None:
    x, z = np.zeros((1, 2)), np.array([[3.0, 4.0]])
    found = gradient(Distance(), x, z, np.ones((1, 1)))
    np.testing.assert_allclose(found, [[0.3, 0.4]])


def test_gradient__of_columns_is_zero_where_a_column_is_left_out() -> None:
    kernel = Columns((Gaussian(gamma=0.4), None, Linear()))
    x, z, weights = normal(5, 3, 1), normal(4, 3, 2), normal(5, 4, 3)
    found = gradient(kernel, x, z, weights)
    assert not found[:, 1].any()
    np.testing.assert_allclose(found, differences(kernel, x, z, weights), atol=1e-9)


@pytest.mark.parametrize("kernel", [Delta(), Gaussian(gamma=0.4) * Delta(), Columns(Delta())])
def test_gradient__is_refused_where_there_is_none(kernel: Kernel) -> None:
    assert not kernel.differentiable
    x = np.array([[0.0], [1.0]])
    work = np.empty((kernel.gradient_tiles, 2, 2))
    with pytest.raises(InvalidArgumentError, match="differentiable kernel, got 'delta': take 'gau"):
        kernel.gradient(kernel.rows(x), kernel.columns(x), kernel(x), np.ones((2, 2)), work)
