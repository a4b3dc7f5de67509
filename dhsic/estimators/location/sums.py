"""Kernels of variables at test locations, and the pass that sums their products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.reduction import Footprint, RowBlock, add
from dhsic.features import KernelFeatures
from dhsic.linalg import spectrum
from dhsic.nulls import ChiSquareMixture, Permutation, draw_permutations

__all__ = [
    "LocationPass",
    "LocationSums",
    "Locations",
    "PermutedLocations",
    "Terms",
    "expanded",
    "joint_terms",
]

Vector = NDArray[np.float64]

_ROWS = 1024


def joint_terms(about: Sequence[Vector], centres: Sequence[Vector]) -> Vector:
    """What products of kernels are, less their linear part about the centres.

    With k_m = about_m + c_m it is prod_m k_m - sum_m k_m prod_{l != m} c_l + (M-1) prod_l c_l,
    of which the mean over rows is u where the centres are the means; for M = 2 it is the product
    of both about their centres. No term is the difference of large ones.

    Parameters
    ----------
    about : sequence of ndarray, shapes (..., J)
        Kernels of every variable about their centres.
    centres : sequence of ndarray, shapes (..., J)
        c_m.

    Returns
    -------
    ndarray, shape (..., J)
    """
    return expanded(about, centres)[0]


def expanded(about: Sequence[Vector], centres: Sequence[Vector]) -> tuple[Vector, Vector]:
    """prod_m (about_m + c_m) - prod_m c_m: what is not linear in about_m, and what is."""
    rest, linear, product = np.zeros(1), np.zeros(1), np.ones(1)
    for a, c in zip(about, centres, strict=True):
        rest = rest * (a + c) + linear * a
        linear, product = linear * c + product * a, product * c
    return rest, linear


class Terms(NamedTuple):
    """u of b data sets with the same marginals, and its covariance under independence."""

    mean: Vector
    """u, shape (b, J)."""
    covariance: Vector
    """Of sqrt(n) u under independence, shape (J, J)."""

    @classmethod
    def of(cls, mean: Vector, covariances: Sequence[Vector], means: Sequence[Vector]) -> Terms:
        """From u and the covariances (J, J) and means (J,) of the kernels of every variable.

        The covariance of a product of independent variables, less its linear part.
        """
        return cls(mean, joint_terms(covariances, [np.outer(k, k) for k in means]))

    def statistics(self, n: int, regularisation: float) -> Vector:
        """T = n u'(S + r t I)^-1 u, S the covariance and t the mean of its diagonal: (b,)."""
        scale, scaled = self._scaled
        if scale <= 0.0:
            return np.zeros(len(self.mean))
        solved = np.linalg.solve(scaled + regularisation * np.eye(len(scaled)), self.mean.T)
        values: Vector = (n / scale) * np.einsum("bj,jb->b", self.mean, solved)
        return values

    def law(self, regularisation: float) -> ChiSquareMixture:
        """The limit of T under the null; chi-square without a ridge."""
        scale, scaled = self._scaled
        values = np.maximum(spectrum(scaled), 0.0) if scale > 0.0 else np.zeros(1)
        return ChiSquareMixture.of(values / (values + regularisation))

    @property
    def _scaled(self) -> tuple[float, Vector]:
        """The mean t of the diagonal, and the covariance divided by it."""
        scale = float(self.covariance.diagonal().mean())
        return scale, self.covariance / (scale if scale > 0.0 else 1.0)


@dataclass(frozen=True)
class Locations:
    """Kernels of M variables at J test locations, about provisional means.

    Parameters
    ----------
    maps : tuple of KernelFeatures
        One a variable, at its part of the locations.
    centres : tuple of ndarray, shapes (J,)
        The provisional means.
    """

    maps: tuple[KernelFeatures, ...]
    centres: tuple[Vector, ...]

    @property
    def count(self) -> int:
        """Locations, J."""
        return self.maps[0].n_features

    @property
    def nbytes(self) -> int:
        """Bytes of the maps and means."""
        return sum(one.nbytes for one in self.maps) + sum(c.nbytes for c in self.centres)

    def about(self, values: Sequence[NDArray[Any]]) -> list[Vector]:
        """The kernels of rows about the provisional means, shapes (b, J)."""
        return [
            one(x).astype(np.float64, copy=False) - centre
            for one, x, centre in zip(self.maps, values, self.centres, strict=True)
        ]

    def terms(self, sums: LocationSums) -> Terms:
        """Those of sums over rows.

        The products are taken about the provisional means, and what is left of them about the
        means is linear in the kernels.
        """
        n, m = sums.rows, len(self.maps)
        shifts = list(sums.first / n)
        means = [c + shift for c, shift in zip(self.centres, shifts, strict=True)]
        u = sums.joint / n + joint_terms([-shift for shift in shifts], means)
        for k in range(m):
            others = [o for o in range(m) if o != k]
            rest, slope = expanded([shifts[o] for o in others], [self.centres[o] for o in others])
            u -= shifts[k] * (rest + slope)
        products = zip(sums.second / n, shifts, strict=True)
        return Terms.of(u, [second - np.outer(shift, shift) for second, shift in products], means)


class LocationSums(NamedTuple):
    """Sums over rows of kernels at locations about the provisional means."""

    rows: int
    """Their number."""
    joint: Vector
    """Joint terms, shape (b + 1, J); entry 0 is the data as they are."""
    first: Vector
    """The kernels of every variable, shape (M, J)."""
    second: Vector
    """Their products, shape (M, J, J)."""


@dataclass(frozen=True)
class LocationPass:
    """Products of kernels at locations, with all variables but the first permuted in groups.

    Parameters
    ----------
    locations : Locations
        The kernels.
    null : Permutation or None
        Replicates and rows of a group; None for the data as they are.
    seed : int
        The seed of the test.
    left_out : ndarray of int, shape (t,)
        Rows that are passed over, ascending.
    name : str
        What the pass computes.
    """

    locations: Locations
    null: Permutation | None
    seed: int
    left_out: NDArray[np.intp]
    name: str = "test locations"

    @property
    def row_multiple(self) -> int:
        """Blocks hold whole groups."""
        return 1 if self.null is None else self.null.block_rows

    @property
    def _resamples(self) -> int:
        return 0 if self.null is None else self.null.n_resamples

    @property
    def _group(self) -> int:
        return _ROWS if self.null is None else self.null.block_rows

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        z, b, group = self.locations, self._resamples + 1, min(rows, self._group)
        m, j = len(z.maps), z.count
        return Footprint(
            payload=z.nbytes + self.left_out.nbytes,
            scratch=sum(one.scratch(group) for one in z.maps)
            + 8 * group * ((3 * m + 4) * j + 2 * b * (m - 1)),
            state=8 * (b * j + m * (j + 1) * j),
            operations=sum(one.operations for one in z.maps) + 2.0 * m * j * (j + 3 * b),
        )

    def chunk(self, block: RowBlock) -> LocationSums:
        """Sums over one block."""
        b, j, m = self._resamples, self.locations.count, len(self.locations.maps)
        rows, joint = 0, np.zeros((b + 1, j))
        first, second = np.zeros((m, j)), np.zeros((m, j, j))
        centres = self.locations.centres
        for start, values in self._groups(block):
            about = self.locations.about(values)
            rows += len(about[0])
            first += [a.sum(axis=0) for a in about]
            second += [a.T @ a for a in about]
            joint[0] += joint_terms(about, centres).sum(axis=0)
            orders = draw_permutations(self.seed, start, len(about[0]), b, m) if b else ()
            for total, order in zip(joint[1:], orders, strict=True):
                total += joint_terms(_permuted(about, order), centres).sum(axis=0)
        return LocationSums(rows, joint, first, second)

    def combine(self, left: LocationSums, right: LocationSums) -> LocationSums:
        """Add."""
        return add(left, right)

    def _groups(self, block: RowBlock) -> Iterator[tuple[int, list[NDArray[Any]]]]:
        """First row of every group, and those of its rows that are not left out."""
        for start in range(0, block.rows, self._group):
            at = np.arange(start, min(start + self._group, block.rows))
            first, last = np.searchsorted(self.left_out - block.start, (at[0], at[-1] + 1))
            kept = np.delete(at, self.left_out[first:last] - block.start - start)
            if len(kept):
                values = [x[at[0] : at[-1] + 1] for x in block.values]
                if len(kept) < len(at):
                    values = [x[kept - start] for x in values]
                yield block.start + start, values


def _permuted(about: Sequence[Vector], order: NDArray[np.intp]) -> list[Vector]:
    """All variables but the first in other orders, shape (M - 1, b)."""
    first, *others = about
    return [first, *(a.take(o, axis=0) for a, o in zip(others, order, strict=True))]


@dataclass(frozen=True)
class PermutedLocations:
    """u with all variables but the first permuted over all rows.

    Parameters
    ----------
    about : tuple of ndarray, shapes (n, J)
        The kernels of all rows about their means.
    means : tuple of ndarray, shapes (J,)
        These means.
    orders : ndarray of int, shape (b, M - 1, n)
        The permutations.
    """

    about: tuple[Vector, ...]
    means: tuple[Vector, ...]
    orders: NDArray[np.intp]

    @property
    def rows(self) -> int:
        """Rows that are permuted."""
        return len(self.about[0])

    def __call__(self, replicates: range) -> Vector:
        """Of some of the permutations, shape (replicates, J)."""
        orders = (self.orders[b] for b in replicates)
        return np.array([self._mean(_permuted(self.about, order)) for order in orders])

    def terms(self, replicates: Sequence[Vector]) -> Terms:
        """Of the data as they are, and of replicates (., J)."""
        covariances = [a.T @ a / len(a) for a in self.about]
        u = np.concatenate([self._mean(self.about)[None], *replicates])
        return Terms.of(u, covariances, self.means)

    def _mean(self, about: Sequence[Vector]) -> Vector:
        mean: Vector = joint_terms(about, self.means).mean(axis=0)
        return mean
