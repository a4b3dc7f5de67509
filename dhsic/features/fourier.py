"""Random Fourier features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.errors import DataError
from dhsic.features.base import Matrix
from dhsic.kernels import Kernel


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
        rows = centred_rows(x, self.centre, self.dtype)
        phases = np.empty((len(rows), len(self.frequencies)), self.dtype)
        write_phases(rows, self.frequencies, phases)
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


def centred_rows(x: NDArray[Any], centre: NDArray[np.float64], dtype: DTypeLike) -> Matrix:
    """Rows (b, d) about a centre (d,), in a precision."""
    # In double precision: float32 would lose the digits that rows and centre share.
    centred = np.subtract(x, centre, dtype=np.float64)
    # A number that becomes infinite is refused with the phases.
    with np.errstate(over="ignore"):
        rows: Matrix = centred.astype(dtype, copy=False)
    return rows


def write_phases(rows: Matrix, frequencies: Matrix, out: Matrix) -> None:
    """Write the phases of centred rows at frequencies.

    Parameters
    ----------
    rows : ndarray, shape (b, d)
        From `centred_rows`.
    frequencies : ndarray, shape (D, d)
        In 1 / units of the variable.
    out : ndarray, shape (b, D)
        Overwritten.

    Raises
    ------
    DataError
        Phases overflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        np.matmul(rows, frequencies.T, out=out)
    if not np.isfinite(out).all():
        msg = (
            f"phases of random features must be finite in {rows.dtype}; got rows as far as "
            f"{np.abs(rows).max():.3g} from the median: use precision='float64', or "
            "transform the variable (to ranks, say)"
        )
        raise DataError(msg)


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
