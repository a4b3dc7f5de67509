"""B-splines of the columns of a variable."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Extrapolation = Literal["constant", "linear"]

EXTRAPOLATIONS: tuple[str, ...] = get_args(Extrapolation)


@dataclass(frozen=True)
class SplineBasis:
    """B-splines of every column of a variable, but for the last of each.

    Those of a column add up to 1, so that the last is what the others and a constant make.

    Parameters
    ----------
    knots : tuple of ndarray
        Knots of every column, increasing: those within its range, and as many on either side of it
        as the degree.
    degree : int
        Degree of the polynomials between knots.
    extrapolation : {"constant", "linear"}
        Continuation beyond the range: the value at its end, or the value and the slope.

    References
    ----------
    .. [1] P. Eilers, B. Marx. Flexible smoothing with B-splines and penalties. Statistical Science
       11, 1996.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0.0, 1.0, 101)[:, None]
    >>> basis = SplineBasis.fit(x, 3, 2, "constant")
    >>> basis(x).shape
    (101, 3)
    """

    knots: tuple[Vector, ...]
    degree: int
    extrapolation: Extrapolation

    @classmethod
    def fit(
        cls, sample: NDArray[Any], n_knots: int, degree: int, extrapolation: Extrapolation
    ) -> SplineBasis:
        """Knots at quantiles of a sample, fewer where values repeat.

        Parameters
        ----------
        sample : ndarray, shape (s, d)
            Rows, no column of them constant.
        n_knots : int
            From the smallest to the largest value of a column.
        degree : int
            Degree of the polynomials.
        extrapolation : {"constant", "linear"}
            Beyond the range of the sample.

        Returns
        -------
        SplineBasis
        """
        # The outermost knots are the least and the largest value of the sample.
        levels = np.linspace(0.0, 1.0, n_knots)
        quantiles = np.quantile(np.asarray(sample, np.float64), levels, axis=0)
        # Values that repeat would put knots on top of each other.
        inner = [np.unique(column) for column in quantiles.T]
        return cls(tuple(_widened(knots, degree) for knots in inner), degree, extrapolation)

    @property
    def counts(self) -> tuple[int, ...]:
        """Functions of every column."""
        # There are len(knots) - degree - 1 functions, and the last is left out.
        return tuple(len(knots) - self.degree - 2 for knots in self.knots)

    @property
    def size(self) -> int:
        """Functions of all columns."""
        return sum(self.counts)

    @property
    def nbytes(self) -> int:
        """Bytes of the knots."""
        return sum(knots.nbytes for knots in self.knots)

    def __call__(self, x: NDArray[Any]) -> Vector:
        """The functions at rows, shape (b, size)."""
        out = np.empty((len(x), self.size))
        edges = np.cumsum((0, *self.counts))
        for column, knots, (start, stop) in zip(x.T, self.knots, pairwise(edges), strict=True):
            self._fill(out[:, start:stop], column.astype(np.float64), knots)
        return out

    def _fill(self, out: Vector, x: Vector, knots: Vector) -> None:
        from scipy.interpolate import BSpline  # slow to import

        low, high = knots[self.degree], knots[-self.degree - 1]
        # Knots come from a sample, so that other rows may lie beyond them.
        within = np.clip(x, low, high)
        out[:] = BSpline.design_matrix(within, knots, self.degree).toarray()[:, :-1]
        # Beyond the knots functions go on along their slopes, where a polynomial would run away.
        if self.extrapolation == "linear":
            for end, beyond in ((low, x < low), (high, x > high)):
                if beyond.any():
                    out[beyond] += np.outer(x[beyond] - end, self._slopes(knots, end))

    def roughness(self) -> tuple[Vector, ...]:
        """Integrals of products of second derivatives within the range of every column."""
        return tuple(self._roughness(knots) for knots in self.knots)

    def _roughness(self, knots: Vector) -> Vector:
        """Between two knots a polynomial, of which Gauss and Legendre's rule has the integral."""
        curvature = self._functions(knots).derivative(2)
        # Products of second derivatives have degree 2 d - 4, and d points are exact up to 2 d - 1.
        places, weights = np.polynomial.legendre.leggauss(self.degree)
        total = np.zeros((len(knots) - self.degree - 2,) * 2)
        # The polynomials change at every knot, so that each span is a sum of its own.
        for low, high in pairwise(knots[self.degree : -self.degree]):
            values = curvature(low + (high - low) * (places + 1.0) / 2.0)
            total += (high - low) / 2.0 * (values.T * weights) @ values
        return total

    def _slopes(self, knots: Vector, at: float) -> Vector:
        """Derivatives of the functions, shape (p,)."""
        slopes: Vector = self._functions(knots)(at, 1)
        return slopes

    def _functions(self, knots: Vector) -> Any:
        """All functions of a column but the last, as one spline."""
        from scipy.interpolate import BSpline

        return BSpline(knots, np.eye(len(knots) - self.degree - 1)[:, :-1], self.degree)


def _widened(inner: Vector, degree: int) -> Vector:
    """Knots with others beside them, as far apart as the outermost are."""
    # Knots beyond the ends, so that the functions add up to 1 there, too.
    steps = np.arange(1, degree + 1)
    before = inner[0] - (inner[1] - inner[0]) * steps[::-1]
    after = inner[-1] + (inner[-1] - inner[-2]) * steps
    return np.concatenate([before, inner, after])
