"""Feature maps: vectors whose inner products approximate a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic.errors import DataError
from dhsic.kernels import Columns, Kernel
from dhsic.linalg import pivoted_cholesky

Matrix = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class ColumnFeatures:
    """Columns about a centre, in units of a scale.

    Parameters
    ----------
    centre, scale : ndarray, shapes (d,)
        In units of the variable.
    dtype : dtype
        Precision of the features.

    Examples
    --------
    >>> import numpy as np
    >>> ColumnFeatures.of(np.array([[1.0, 5.0], [3.0, 5.0]]), np.float64)(np.array([[4.0, 6.0]]))
    array([[2., 1.]])
    """

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, sample: NDArray[np.float64], dtype: DTypeLike) -> Self:
        """About the medians of a sample (s, d), by its standard deviations where these are not 0.

        The centre of a constant column is its value, which a mean would miss by rounding.
        """
        # In units of a power of two, which rounds nothing: squares of large and small values would
        # leave the range. Values are compared, since the deviation of a constant may be rounding.
        _, power = np.frexp(np.abs(sample).max(axis=0))
        deviations = np.ldexp(np.ldexp(sample, -power).std(axis=0), power)
        deviations = np.where((sample == sample[0]).all(axis=0), 1.0, deviations)
        return cls(np.median(sample, axis=0), deviations, np.dtype(dtype))

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.centre)

    @property
    def nbytes(self) -> int:
        """Bytes of centre and scale."""
        return self.centre.nbytes + self.scale.nbytes

    def scratch(self, rows: int) -> int:
        """Bytes of the centred rows."""
        return 16 * rows * self.n_features

    def __call__(self, x: NDArray[Any]) -> Matrix:
        """Map rows (b, d) to features (b, d)."""
        # Centred in float64, and rounded once.
        centred = np.subtract(x, self.centre, dtype=np.float64)
        features: Matrix = np.divide(centred, self.scale).astype(self.dtype, copy=False)
        return features


@dataclass(frozen=True)
class FourierFeatures:
    """Cosines and sines of random frequencies, [cos(W (x - c)), sin(W (x - c))] / sqrt(D).

    With frequencies from the spectral law of a kernel their inner products are unbiased estimates
    of it.

    Parameters
    ----------
    frequencies : ndarray, shape (D, d)
        W, in 1 / units of the variable, in the precision of the features.
    centre : ndarray, shape (d,)
        c, in units of the variable; it turns the features without changing their inner products,
        and keeps the digits of the phases.

    References
    ----------
    .. [1] A. Rahimi, B. Recht. Random features for large-scale kernel machines. NIPS 2007.
    .. [2] F. Yu, A. Suresh, K. Choromanski, D. Holtmann-Rice, S. Kumar. Orthogonal random
       features. NIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> FourierFeatures(np.array([[np.pi]]), np.array([1.0]))(np.array([[1.0], [1.5]])).round(4)
    array([[1., 0.],
           [0., 1.]])
    """

    frequencies: Matrix
    centre: NDArray[np.float64]

    @classmethod
    def draw(
        cls,
        kernel: Kernel,
        centre: NDArray[np.float64],
        n_frequencies: int,
        rng: np.random.Generator,
        dtype: DTypeLike,
        *,
        orthogonal: bool,
    ) -> Self:
        """Draw frequencies from the spectral law of a fitted kernel.

        Parameters
        ----------
        kernel : Kernel
            Translation-invariant.
        centre : ndarray, shape (d,)
            Centre of the rows.
        n_frequencies : int
            D.
        rng : Generator
            Draws them.
        dtype : dtype
            Precision of the features.
        orthogonal : bool
            Make the normals behind the frequencies orthogonal in groups of d, as [2], which leaves
            the law of each as it is and lowers the variance of the kernel's estimate.

        Returns
        -------
        FourierFeatures

        Raises
        ------
        InvalidArgumentError
            The kernel has no spectral law.
        """
        d = len(centre)
        # w = s g with normal g: a translation-invariant kernel is the Fourier transform of a law
        # (Bochner; Zhang et al. 2018, theorem 4.1), here a mixture of normal ones.
        scales = kernel.spectral_scales(rng, n_frequencies, d)
        normals = (
            orthogonal_normals(rng, n_frequencies, d)
            if orthogonal
            else rng.standard_normal((n_frequencies, d))
        )
        with np.errstate(over="ignore"):  # phases that are not finite are refused
            return cls((scales * normals).astype(dtype), centre)

    @property
    def n_features(self) -> int:
        """Twice the number of frequencies."""
        return 2 * len(self.frequencies)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the frequencies."""
        return self.frequencies.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the frequencies."""
        return self.frequencies.nbytes + self.centre.nbytes

    def scratch(self, rows: int) -> int:
        """Bytes of the centred rows and of the phases."""
        return rows * (16 * len(self.centre) + self.dtype.itemsize * len(self.frequencies))

    def __call__(self, x: NDArray[Any]) -> Matrix:
        """Map rows (b, d) to features (b, 2 D)."""
        # Centred in double precision: float32 would lose the digits that rows and centre share.
        centred = np.subtract(x, self.centre, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            rows: Matrix = centred.astype(self.dtype, copy=False)
            phases = rows @ self.frequencies.T
        if not np.isfinite(phases).all():
            msg = (
                f"phases of random features must be finite in {self.dtype}; got rows as far as "
                f"{np.abs(rows).max():.3g} from the median: use precision='float64', or "
                "transform the variable (to ranks, say)"
            )
            raise DataError(msg)
        out = np.empty((len(phases), self.n_features), self.dtype)
        # Pairs of cosine and sine are more accurate than cos(w'x + b) with a random phase b
        # (Sutherland and Schneider 2015).
        np.cos(phases, out=out[:, : len(self.frequencies)])
        np.sin(phases, out=out[:, len(self.frequencies) :])
        # Rahimi and Recht (2007): the mean of cos w'(x - x') over D frequencies, as cos cos + sin
        # sin.
        out *= self.dtype.type(len(self.frequencies) ** -0.5)
        return out

    def gradient(self, features: Matrix, weights: Matrix) -> Matrix:
        """Gradients sum_a weights_ia grad_x phi_a(x_i).

        Parameters
        ----------
        features : ndarray, shape (b, 2 D)
            Those of the rows.
        weights : ndarray, shape (b, 2 D)
            Weights of any precision.

        Returns
        -------
        ndarray, shape (b, d)
            Per unit of the variable.
        """
        count = len(self.frequencies)
        cosines, sines = features[:, :count], features[:, count:]
        # d sin = cos w, d cos = -sin w: the features themselves serve, and no phase is computed
        # again.
        slopes = weights[:, count:] * cosines - weights[:, :count] * sines
        gradients: Matrix = slopes @ self.frequencies
        return gradients


def orthogonal_normals(rng: np.random.Generator, count: int, d: int) -> NDArray[np.float64]:
    """Rows that are standard normal each, and orthogonal within groups of d.

    Parameters
    ----------
    rng : Generator
        Draws them.
    count : int
        Rows.
    d : int
        Columns.

    Returns
    -------
    ndarray, shape (count, d)

    Notes
    -----
    Orthogonal matrices by the Haar measure, the factor Q of normals with the signs of R's
    diagonal, times the norms of further normals.
    """
    groups = -(-count // d)
    q, r = np.linalg.qr(rng.standard_normal((groups, d, d)))
    # LAPACK fixes signs of its own; with those of R's diagonal Q is uniform (Mezzadri 2007).
    q *= np.sign(np.einsum("gii->gi", r))[:, None, :]
    # Orthogonal random features (Yu et al. 2016): a row of Q has length 1, and gets that of a
    # normal vector.
    norms = np.linalg.norm(rng.standard_normal((groups * d, d)), axis=1)
    rows: NDArray[np.float64] = np.swapaxes(q, 1, 2).reshape(-1, d) * norms[:, None]
    return rows[:count]


class _AtLandmarks:
    """Sizes of features that are the values of a kernel at prepared landmarks."""

    kernel: Kernel
    landmarks: tuple[Matrix, ...]

    @property
    def n_features(self) -> int:
        """Number of landmarks."""
        return sum(map(len, self.landmarks))

    @property
    def width(self) -> int:
        """Columns of prepared rows."""
        return sum(z.shape[1] for z in self.landmarks)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the landmarks."""
        return self.landmarks[0].dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the prepared landmarks."""
        return sum(z.nbytes for z in self.landmarks)

    def scratch(self, rows: int) -> int:
        """Bytes of the kernel's work tiles and of prepared rows."""
        tiles = self.kernel.work_tiles * rows * max(map(len, self.landmarks))
        return tiles * self.dtype.itemsize + 3 * 8 * rows * self.width


@dataclass(frozen=True)
class KernelFeatures(_AtLandmarks):
    """The kernel at landmarks, k(x, z_j).

    Times the inverse of a Cholesky factor of the landmarks' Gram matrix they are the Nystrom
    features; that step is linear, so it is taken once, on sums over all rows.

    Parameters
    ----------
    kernel : Kernel
        Fitted to the variable.
    columns : ndarray, shape (D, w)
        The prepared landmarks, in the precision of the features.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Linear
    >>> KernelFeatures.at(np.array([[1.0], [2.0]]), Linear(), np.float64)(np.array([[3.0]]))
    array([[3., 6.]])
    """

    kernel: Kernel
    columns: Matrix

    @classmethod
    def at(cls, landmarks: NDArray[Any], kernel: Kernel, dtype: DTypeLike) -> Self:
        """At landmarks (D, d)."""
        return cls(kernel, kernel.columns(landmarks, dtype))

    @property
    def landmarks(self) -> tuple[Matrix, ...]:  # type: ignore[override]
        """The prepared landmarks, of all columns at once."""
        return (self.columns,)

    def __call__(self, x: NDArray[Any]) -> Matrix:
        """Map rows (b, d) to features (b, D)."""
        return self.kernel.gram(self.kernel.rows(x, self.dtype), self.columns, self.dtype)


def rows_at_quantiles(column: Vector, count: int) -> NDArray[np.intp]:
    """Rows of different values of a column (n,), at evenly spaced ranks, at most `count`.

    Examples
    --------
    >>> import numpy as np
    >>> column = np.array([3.0, 1.0, 2.0, 2.0])
    >>> column[rows_at_quantiles(column, 2)]
    array([2., 3.])
    """
    # The middles of `count` equal shares of the ranks.
    ranks = ((np.arange(count) + 0.5) / count * len(column)).astype(np.intp)
    rows = np.argsort(column, kind="stable")[ranks]
    return rows[np.unique(column[rows], return_index=True)[1]]


@dataclass(frozen=True)
class LandmarksByColumn(_AtLandmarks):
    """The kernels of a mean over d columns, k_j(x_j, z) / sqrt(d) at landmarks z of column j.

    A few values of every column serve where many rows would be needed to stand for all columns at
    once: the columns add up in the kernel, so that their features are side by side.

    Parameters
    ----------
    kernel : Columns
        Fitted to the variable.
    landmarks : tuple of ndarray, shapes (r_j, w_j)
        Prepared, one for every column that counts in the mean, in the precision of the features.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.kernels import Columns, Linear
    >>> x = np.array([[1.0, 5.0], [2.0, 6.0]])
    >>> features, _ = LandmarksByColumn.of(Columns(Linear()), x, 1, 0.0, np.float64)
    >>> features(np.array([[3.0, 1.0]])) * np.sqrt(2)
    array([[6., 6.]])
    """

    kernel: Columns
    landmarks: tuple[Matrix, ...]

    @classmethod
    def of(
        cls, kernel: Columns, sample: Vector, count: int, tolerance: float, dtype: DTypeLike
    ) -> tuple[Self, Vector]:
        """At quantiles of every column of a sample.

        Parameters
        ----------
        kernel : Columns
            Fitted.
        sample : ndarray, shape (p, d)
            Rows.
        count : int
            Landmarks of a column before those are dropped that are equal or nearly dependent.
        tolerance : float
            See `dhsic.linalg.pivoted_cholesky`.
        dtype : dtype
            Precision of the features.

        Returns
        -------
        features : LandmarksByColumn
        factor : ndarray, shape (D, D)
            Lower triangular; its inverse times the features are Nystrom features (Zhang et al.
            2018, section 4.1), column by column.
        """
        landmarks, factors = [], []
        for part, at in kernel.placed(sample.shape[1]):
            z = sample[rows_at_quantiles(sample[:, at[0]], count)][:, at]
            kept = pivoted_cholesky(part(z), tolerance).in_order()
            landmarks.append(part.columns(z[kept.kept], dtype))
            factors.append(kept.factor)
        # Kernels of other columns have no product in common, so that the factor has a block a
        # column.
        return cls(kernel, tuple(landmarks)), scipy.linalg.block_diag(*factors)

    @classmethod
    def likely(cls, kernel: Columns, d: int, count: int, dtype: DTypeLike) -> Self:
        """A map of a variable of d columns, for plans: with landmarks that take no memory."""
        zero = np.dtype(dtype).type(0)
        shapes = ((count, part.width(1)) for part, _ in kernel.placed(d))
        # A plan asks for sizes and bytes alone: one zero stands for all values.
        return cls(kernel, tuple(np.broadcast_to(zero, shape) for shape in shapes))

    def __call__(self, x: NDArray[Any]) -> Matrix:
        """Map rows (b, d) to features (b, D)."""
        out = self.kernel.side_by_side(self.kernel.rows(x, self.dtype), self.landmarks)
        # The kernel is a mean over d columns, so features of each are divided by the root of d.
        out *= self.dtype.type(x.shape[1] ** -0.5)
        return out


FeatureMap: TypeAlias = ColumnFeatures | FourierFeatures | KernelFeatures | LandmarksByColumn
"""Rows (b, d) of one variable become features (b, D), as a frozen value."""
