"""Pivoted Cholesky."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_triangular

from dhsic.linalg import PivotedCholesky, pivoted_cholesky

EPS = np.finfo(np.float64).eps


def gram(p, rank, seed=0):
    half = np.random.default_rng([p, rank, seed]).standard_normal((p, rank))
    return half @ half.T


def residuals(matrix, result):
    """Squared distance of every row to the span of the kept ones."""
    features = solve_triangular(result.factor, matrix[result.kept], lower=True)
    return np.diag(matrix) - (features**2).sum(axis=0)


@pytest.mark.parametrize("p", [1, 2, 30])
def test_pivoted_cholesky__reconstructs_a_matrix_of_full_rank(p):
    matrix = gram(p, p + 5)
    result = pivoted_cholesky(matrix.copy(), 1e-12)
    assert result.rank == p
    assert sorted(result.kept) == list(range(p))
    assert result.factor.dtype == np.float64
    np.testing.assert_array_equal(result.factor, np.tril(result.factor))
    np.testing.assert_allclose(
        result.factor @ result.factor.T, matrix[np.ix_(result.kept, result.kept)], rtol=1e-12
    )


@pytest.mark.parametrize("rank", [1, 4, 19])
def test_pivoted_cholesky__finds_the_rank(rank):
    matrix = gram(20, rank)
    result = pivoted_cholesky(matrix.copy(), 1e-10)
    assert result.rank == rank == len(set(result.kept))
    np.testing.assert_allclose(
        result.factor @ result.factor.T, matrix[np.ix_(result.kept, result.kept)], rtol=1e-10
    )
    assert np.abs(residuals(matrix, result)).max() < 1e-9 * np.diag(matrix).max()


def test_pivoted_cholesky__keeps_one_of_equal_rows():
    half = np.random.default_rng(0).standard_normal((4, 6))[[0, 1, 1, 2, 3, 1, 0]]
    result = pivoted_cholesky(half @ half.T, 1e-10)
    assert result.rank == 4
    assert len(np.unique(half[result.kept], axis=0)) == 4


def test_pivoted_cholesky__of_zero_keeps_a_row_by_which_norms_are_zero():
    result = pivoted_cholesky(np.zeros((3, 3)), 1e-8)
    assert (result.rank, result.kept.tolist(), result.factor.tolist()) == (1, [0], [[1.0]])
    assert result.squared_norm(np.zeros(1)) == 0.0
    np.testing.assert_array_equal(result.squared_norm(np.zeros((1, 2))), [0.0, 0.0])


@pytest.mark.parametrize(("tolerance", "kept"), [(0.9e-3, [0, 1, 2]), (1.1e-3, [0, 1]), (0.3, [0])])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_pivoted_cholesky__drops_below_a_share_of_the_largest_entry(tolerance, kept, scale):
    result = pivoted_cholesky(scale * np.diag([1.0, 0.25, 1e-3]), tolerance)
    assert result.kept.tolist() == kept
    assert result.tolerance == tolerance


def test_pivoted_cholesky__states_the_tolerance_that_rounding_allows():
    assert pivoted_cholesky(np.eye(10), 0.0).tolerance == 10 * EPS
    assert pivoted_cholesky(np.eye(10), 11 * EPS).tolerance == 11 * EPS


def test_pivoted_cholesky__overwrites_its_argument():
    matrix = gram(50, 60)
    before = matrix.copy()
    pivoted_cholesky(matrix, 1e-8)
    assert not np.array_equal(matrix, before)


@pytest.mark.parametrize("shape", [(12,), (12, 1), (12, 5)])
def test_squared_norm__equals_its_definition(shape):
    matrix = gram(12, 30)
    result = pivoted_cholesky(matrix.copy(), 1e-12)
    values = np.random.default_rng(1).standard_normal(shape)
    expected = np.einsum("i...,ij,j...->...", values, np.linalg.pinv(matrix), values)
    norms = result.squared_norm(values[result.kept])
    assert norms.shape == shape[1:]
    np.testing.assert_allclose(norms, expected, rtol=1e-10)


def test_squared_norm__of_a_function_in_the_span_needs_the_kept_rows_alone():
    matrix = gram(20, 6)
    weights = np.random.default_rng(2).standard_normal(20)
    values = matrix @ weights
    result = pivoted_cholesky(matrix.copy(), 1e-10)
    assert result.squared_norm(values[result.kept]) == pytest.approx(weights @ values, rel=1e-9)


@settings(deadline=None, max_examples=60)
@given(
    p=st.integers(1, 25),
    rank=st.integers(1, 25),
    decay=st.floats(0.0, 3.0),
    exponents=st.tuples(st.floats(-13, -0.1), st.floats(-13, -0.1)),
    seed=st.integers(0, 9),
)
def test_pivoted_cholesky__keeps_fewer_rows_the_larger_the_tolerance(
    p, rank, decay, exponents, seed
):
    half = np.random.default_rng(seed).standard_normal((p, rank))
    half *= np.arange(1, rank + 1) ** -decay
    matrix = half @ half.T
    small, large = (pivoted_cholesky(matrix.copy(), 10**e) for e in sorted(exponents))
    assert 1 <= large.rank <= small.rank <= min(p, rank)
    np.testing.assert_array_equal(small.kept[: large.rank], large.kept)
    bound = large.tolerance * np.diag(matrix).max()
    assert residuals(matrix, large).max() <= bound + 1e-14 * np.diag(matrix).max()


def test_pivoted_cholesky_value__is_frozen():
    result = PivotedCholesky(np.eye(1), np.zeros(1, np.intp), 0.1)
    with pytest.raises(AttributeError, match="tolerance"):
        result.tolerance = 0.2
