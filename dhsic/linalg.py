"""Factor, solve and centre the small matrices of the driver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

Float = TypeVar("Float", bound=np.floating[Any])
MatrixType = TypeVar("MatrixType", bound=NDArray[np.floating[Any]])

_ROUNDING = 32.0
_EPSILON = float(np.finfo(np.float64).eps)


def consecutive(counts: Iterable[int]) -> list[slice]:
    """Where blocks of so many columns or entries are, one after another."""
    return [slice(*both) for both in pairwise(accumulate(counts, initial=0))]


@dataclass(frozen=True)
class PivotedCholesky:
    """Factor of a Gram matrix on the rows that span it.

    Parameters
    ----------
    factor : ndarray, shape (r, r)
        Lower triangular; ``factor @ factor.T`` is the Gram matrix of the kept rows, but for 1
        where that is 0.
    kept : ndarray of int, shape (r,)
        The kept rows, in the order of the factor.
    tolerance : float
        A row is dropped where its squared distance to the span of the kept ones is below this
        share of the largest diagonal entry.
    """

    factor: NDArray[np.float64]
    kept: NDArray[np.intp]
    tolerance: float

    @property
    def rank(self) -> int:
        """Number of kept rows."""
        return len(self.kept)

    def in_order(self) -> PivotedCholesky:
        """That of the kept rows as they come, in place of the order of the pivots."""
        order = np.argsort(self.kept)
        # L L' of the chosen rows is their Gram matrix, so that another order needs no kernel again.
        rows = self.factor[order]
        factor = scipy.linalg.cholesky(rows @ rows.T, lower=True, check_finite=False)
        return replace(self, factor=factor, kept=self.kept[order])

    def solve(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights K^-1 v of all rows (p,) for the function of these values; 0 of those dropped."""
        weights = np.zeros(len(values))
        # K^-1 = L^-T L^-1: two triangular solves, and no inverse is formed.
        half = solve_lower(self.factor, values[self.kept])
        weights[self.kept] = solve_lower(self.factor, half, transposed=True)
        return weights

    def squared_norm(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Squared RKHS norm v' K^-1 v of functions given by their values at the kept rows.

        Parameters
        ----------
        values : ndarray, shape (r,) or (r, b)
            One function a column.

        Returns
        -------
        ndarray, shape () or (b,)
        """
        # v' K^-1 v = |L^-1 v|^2: no inverse is formed, and rounding cannot make the norm negative.
        return squared_norms(solve_lower(self.factor, values))


def solve_lower(
    factor: NDArray[np.float64], values: MatrixType, *, transposed: bool = False
) -> MatrixType:
    """L^-1 V of a lower triangular L, or L^-T V."""
    solved: MatrixType = scipy.linalg.solve_triangular(
        factor, values, lower=True, trans="T" if transposed else "N", check_finite=False
    )
    return solved


def squared_norms(values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Sums of squares over the first axis."""
    norms: NDArray[np.float64] = np.einsum("i...,i...->...", values, values)
    return norms


def pivoted_cholesky(gram: NDArray[np.float64], tolerance: float) -> PivotedCholesky:
    """Cholesky factor with complete pivoting that stops at the numerical rank.

    Parameters
    ----------
    gram : ndarray, shape (p, p)
        Symmetric positive semidefinite, C-contiguous. Overwritten.
    tolerance : float
        Relative to the largest diagonal entry.

    Returns
    -------
    PivotedCholesky
        Where the matrix is 0, so that its functions are: of one row with factor 1, by which their
        norms are 0.

    Notes
    -----
    LAPACK ``pstrf``. Rounding alone leaves residuals of about p times the machine epsilon, so
    that is the smallest tolerance used.
    """
    p = len(gram)
    # Below p eps times the largest diagonal entry, LAPACK's own default, a residual is rounding.
    tolerance = max(tolerance, p * _EPSILON)
    scale = float(gram.diagonal().max())
    # A kernel that is 0 at every landmark keeps one of them, so that solves give 0 and not NaN.
    if scale <= 0.0:
        return PivotedCholesky(np.ones((1, 1)), np.zeros(1, np.intp), tolerance)
    # The transposed view of a symmetric C-ordered matrix is what Fortran overwrites in place.
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(
        gram.T, tol=tolerance * scale, lower=1, overwrite_a=1
    )
    # LAPACK leaves what is above the diagonal and beyond the rank as it was, and counts from 1.
    return PivotedCholesky(
        np.tril(factor[:rank, :rank]), pivots[:rank].astype(np.intp) - 1, tolerance
    )


def spectrum(gram: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Eigenvalues of a symmetric positive semidefinite matrix, but for those that are rounding.

    A pivoted Cholesky factorisation stops at the numerical rank r, so that smooth kernels cost
    n r^2 and r^3 where the eigenvalues of the matrix itself would cost n^3.

    Parameters
    ----------
    gram : ndarray, shape (n, n)
        The matrix.

    Returns
    -------
    ndarray, shape (r,)
    """
    whole = np.array(gram, np.float64)
    n, scale = len(whole), float(whole.diagonal().max(initial=0.0))
    if scale <= 0.0:
        return np.zeros(0)
    factor, _, rank, _ = scipy.linalg.lapack.dpstrf(
        whole.T, tol=n * _EPSILON * scale, lower=1, overwrite_a=1
    )
    # Above half of n, the product of the factor costs more than the eigenvalues of the matrix.
    if rank > n // 2:
        # The factorisation overwrote the copy.
        whole[:] = gram
        return np.asarray(scipy.linalg.eigvalsh(whole, overwrite_a=True, check_finite=False))
    # L L' and L' L have the same eigenvalues but for zeros, and the second is r x r.
    half = np.tril(factor[:, :rank])
    return np.asarray(scipy.linalg.eigvalsh(half.T @ half, overwrite_a=True, check_finite=False))


def row_products(x: NDArray[Float], y: NDArray[Float]) -> NDArray[Float]:
    """Products of every column of x (b, r) with every column of y (b, s), shape (b, r s)."""
    products: NDArray[Float] = (x[:, :, None] * y[:, None, :]).reshape(len(x), -1)
    return products


def hadamard(matrices: Iterable[MatrixType]) -> MatrixType:
    """Entrywise product of matrices, in the memory of the first."""
    return reduce(lambda left, right: np.multiply(left, right, out=left), matrices)


def centre(gram: MatrixType, means: NDArray[np.float64], *, unbiased: bool = False) -> MatrixType:
    """Centre a Gram matrix in place, to row sums of 0.

    Parameters
    ----------
    gram : ndarray, shape (n, n)
        A symmetric matrix, of a diagonal of zeros where unbiased.
    means : ndarray, shape (n,)
        Row means; of the U-statistic row sums over n - 2.
    unbiased : bool, optional
        Whether the diagonal stays zero: U-centring, of Szekely and Rizzo (2014), leaves it out of
        every sum.

    Returns
    -------
    ndarray, shape (n, n)
    """
    # H K H entry by entry: K_ij - mean_i - mean_j + mean, half of the last in either term. For the
    # U-statistic it is the total over (n - 1) (n - 2).
    total = means.sum() / (len(means) - 1 if unbiased else len(means))
    shift = (means - 0.5 * total).astype(gram.dtype)
    gram -= shift[:, None]
    gram -= shift
    if unbiased:
        np.fill_diagonal(gram, 0.0)
    return gram


def u_centred(gram: MatrixType) -> MatrixType:
    """A symmetric matrix (n, n) with a diagonal and row sums of zero, overwritten.

    To centre one of two is enough for their inner product (Szekely and Rizzo 2014, section 3).
    """
    np.fill_diagonal(gram, 0.0)
    means = gram.sum(axis=1, dtype=np.float64) / (len(gram) - 2)
    return centre(gram, means, unbiased=True)


def rounding_unit(dtype: DTypeLike) -> float:
    """Rounding error of sums of many values that cancel, relative to the values."""
    return _ROUNDING * float(np.finfo(dtype).eps)
