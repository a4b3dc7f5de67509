"""The pass over the data that sums products of features: means, covariances, cross-covariances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.engine.session import Session
from dhsic.estimators.base import with_weights
from dhsic.estimators.feature.basis import Side
from dhsic.estimators.feature.layout import KernelSide, Layout, Pair, Rectangle
from dhsic.linalg import squared_norms

Matrix = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]

_ROWS = 1024


class MomentSums(NamedTuple):
    """Sums over rows."""

    sums: Vector
    """Sums of features about their provisional means, shape (D,)."""
    products: Vector
    """Sums of products of two, shape (P,)."""


class Covariances(NamedTuple):
    """Means of features about their provisional ones, and covariances with 1/n."""

    layout: Layout
    """Where they are."""
    means: Vector
    """Shape (D,)."""
    values: Vector
    """Shape (P,)."""

    def mean(self, number: int) -> Vector:
        """The mean features of a kernel, shape (D_i,)."""
        return self.means[self.layout.places[number]]

    def of(self, first: int, second: int) -> Vector:
        """The covariance of the features of two kernels, shape (D_i, D_j)."""
        return self.layout.place((first, second)).of(self.values)


@dataclass(frozen=True)
class MomentsPass(Pass[MomentSums]):
    """Sums of features and of their products.

    Products are float64, since whitening would turn what float32 leaves of the least eigenvalues
    into negative ones.

    Parameters
    ----------
    layout : Layout
        The features and the products.
    weighted : bool, optional
        Whether the last variable is the weights of the rows, of mean 1.
    """

    layout: Layout
    weighted: bool = False
    name: str = "feature moments"

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        f, tile = self.layout, min(rows, _ROWS)
        largest = max(crossing.at.stop - crossing.at.start for crossing in f.crossings)
        return Footprint(
            payload=f.nbytes,
            scratch=f.scratch(tile) + 8 * (largest + (1 + self.weighted) * tile * f.n_features),
            state=8 * (f.n_features + f.n_products),
        )

    def chunk(self, block: RowBlock) -> MomentSums:
        """Sums over one block."""
        sums = MomentSums(np.zeros(self.layout.n_features), np.zeros(self.layout.n_products))
        for start in range(0, block.rows, _ROWS):
            self._add_tile([x[start : start + _ROWS] for x in block.values], sums)
        return sums

    def _add_tile(self, values: Sequence[NDArray[Any]], sums: MomentSums) -> None:
        features = self.layout.features(values).astype(np.float64, copy=False)
        weighted = features * values[-1] if self.weighted else features
        sums.sums[:] += weighted.sum(axis=0)
        for crossing in self.layout.crossings:
            crossing.of(sums.products)[:] += (
                weighted[:, crossing.first].T @ features[:, crossing.second]
            )

    def covariances(self, sums: MomentSums, n: int) -> Covariances:
        """From the sums over n rows."""
        means, values = sums.sums / n, sums.products / n
        for crossing in self.layout.crossings:
            # E f h' - E f E h', where both means are small, since features are about provisional
            # ones.
            crossing.of(values)[:] -= np.outer(means[crossing.first], means[crossing.second])
        return Covariances(self.layout, means, values)


def feature_moments(session: Session, layout: Layout) -> Covariances:
    """Run the pass."""
    reduction = MomentsPass(layout, session.weights is not None)
    return reduction.covariances(with_weights(session).reduce(reduction), session.n)


def moments_layout(
    sides: Mapping[int, Side],
    pairs: Sequence[Pair] = ((0, 1),),
    variables: Sequence[int] = (0, 1),
    *,
    normed: bool = False,
    crossed: bool = False,
) -> Layout:
    """The features of some kernels, with products of pairs of them, and of each with itself.

    Parameters
    ----------
    sides : dict of int to Side
        Those of all kernels.
    pairs : sequence of (int, int), optional
        Numbers of kernels.
    variables : sequence of int, optional
        The variable of every kernel.
    normed : bool, optional
        Whiten features, and put their squared norm beside them.
    crossed : bool, optional
        Leave out the products of each with itself.
    """
    kernels = {k: _kernel(variables[k], side, normed=normed) for k, side in sides.items()}
    products = Layout.of(kernels, pairs)
    if crossed:
        return products
    within = (Rectangle((k,), (k,)) for k in products.places)
    return replace(products, rectangles=(*products.rectangles, *within))


def moments_steps(
    session: Session,
    sides: Mapping[int, Side],
    *,
    normed: bool = False,
    crossed: bool = False,
    then: str = "solve",
) -> list[DriverStep | PassPlan]:
    """The pass over the features of two variables and the step after it."""
    layout = moments_layout(sides, normed=normed, crossed=crossed)
    widest = max(side.n_features for side in sides.values())
    held = 8 * (layout.n_features + layout.n_products)
    return [
        with_weights(session).plan(MomentsPass(layout, session.weights is not None)),
        DriverStep(then, 4 * 8 * 3 * widest**2, held),
    ]


def _kernel(m: int, side: Side, *, normed: bool) -> KernelSide:
    if not normed:
        return KernelSide.plain(m, side)
    count = side.n_features + 1
    # They are about the provisional mean already.
    features = NormedFeatures(side._replace(sample=None))
    return KernelSide(m, features, np.broadcast_to(0.0, count), slice(0, count))


@dataclass(frozen=True)
class NormedFeatures:
    """Features about a provisional mean, whitened, with their squared norm beside them.

    Parameters
    ----------
    side : Side
        Makes and whitens them.
    """

    side: Side

    @property
    def n_features(self) -> int:
        """One more."""
        return self.side.n_features + 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the sums."""
        return np.dtype(np.float64)

    @property
    def nbytes(self) -> int:
        """Bytes of the map, the mean and the factor."""
        factor = 0 if self.side.factor is None else self.side.factor.nbytes
        return self.side.map.nbytes + self.side.centre.nbytes + factor

    def scratch(self, rows: int) -> int:
        """Bytes of the features as they come, centred and whitened."""
        return self.side.map.scratch(rows) + 4 * 8 * rows * self.side.n_features

    def __call__(self, x: NDArray[Any]) -> Vector:
        """Map rows (b, d) to (L^-1 phi, |L^-1 phi|^2), shape (b, D + 1)."""
        features = self.side.map(x)
        # In place: the map has made an array of its own.
        features -= self.side.centre
        whitened = self.side.whitened(features.astype(np.float64, copy=False))
        return np.column_stack([whitened, squared_norms(whitened.T)])


def fourth_moment(covariances: Covariances, number: int) -> float:
    """Mean of |phi - mu|^4 from means and covariances of (phi, |phi|^2).

    |phi - mu|^2 is the inner product of (phi, |phi|^2) and (-2 mu, 1), plus |mu|^2.
    """
    *mean, square = covariances.mean(number)
    form = np.append(-2.0 * np.array(mean), 1.0)
    # E q^2 = Var q + (E q)^2 with q = |phi - mu|^2 and E q = E |phi|^2 - |mu|^2.
    return float(form @ covariances.of(number, number) @ form + (square - np.dot(mean, mean)) ** 2)
