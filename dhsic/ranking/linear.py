"""Linear kernels: HSIC of a set is the sum over its features, so that one pass selects the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.errors import DataError

Vector = NDArray[np.float64]


class LinearMoments(NamedTuple):
    """Moments of the rows about their mean."""

    rows: float
    """How many."""
    x: Vector
    """Means of the features, shape (d,)."""
    y: Vector
    """Means of the target, shape (q,)."""
    squares: Vector
    """Sums of squares of the features about their means, shape (d,)."""
    products: Vector
    """Sums of products of features and target about their means, shape (d, q)."""

    @property
    def scores(self) -> Vector:
        """Squared HSIC of every feature in units of its standard deviation, shape (d,)."""
        # |cov(x_j, y)|^2 summed over the columns of the target: HSIC with linear kernels.
        # In units of deviations before they are squared, whatever the units of x: squares of small
        # numbers would vanish, and those of large ones overflow.
        spreads = np.broadcast_to(np.sqrt(self.squares / self.rows)[:, None], self.products.shape)
        scores: Vector = (_in_units(self.products / self.rows, spreads) ** 2).sum(axis=1)
        return scores


@dataclass(frozen=True)
class LinearPass(Pass[LinearMoments]):
    """Covariances of many features with one target, merged without cancellation.

    Parameters
    ----------
    d, q : int
        Columns of features and target.
    """

    d: int
    q: int
    name: str = "covariances"

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        columns = self.d + self.q
        state = 8 * (1 + 2 * self.d + self.q + self.d * self.q)
        return Footprint(0, 2 * 8 * rows * columns, state)

    def chunk(self, block: RowBlock) -> LinearMoments:
        """Moments of one block."""
        (x_mean, x), (y_mean, y) = map(_centred, block.values)
        squares = np.einsum("ij,ij->j", x, x)
        return LinearMoments(float(block.rows), x_mean, y_mean, squares, x.T @ y)

    def combine(self, left: LinearMoments, right: LinearMoments) -> LinearMoments:
        """Merge, as Chan, Golub and LeVeque (1979)."""
        rows = left.rows + right.rows
        x, y = right.x - left.x, right.y - left.y
        # Between the means of the parts: the term that sums of squares about each leave out.
        weight = left.rows * right.rows / rows
        return LinearMoments(
            rows,
            left.x + right.rows / rows * x,
            left.y + right.rows / rows * y,
            left.squares + right.squares + weight * x**2,
            left.products + right.products + weight * np.outer(x, y),
        )


class ClassMoments(NamedTuple):
    """Rows of every class and what the features are in them."""

    classes: Vector
    """The distinct values of the target, ascending, shape (q,)."""
    counts: Vector
    """Rows of each, shape (q,)."""
    means: Vector
    """Means of the features in each, shape (q, d)."""
    squares: Vector
    """Sums of squares about these, shape (q, d)."""


@dataclass(frozen=True)
class ClassPass(Pass[ClassMoments]):
    """Means of many features in every class of the target.

    Parameters
    ----------
    d : int
        Columns of the features.
    most : int, optional
        Classes that are planned for; more are an error.
    """

    d: int
    most: int = 1024
    name: str = "class means"

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        state = 8 * 2 * self.most * (self.d + 1)
        return Footprint(0, 2 * 8 * rows * (self.d + 1), state)

    def chunk(self, block: RowBlock) -> ClassMoments:
        """Moments of one block."""
        x, y = block.values[0], block.values[1][:, 0]
        classes, counts = np.unique(y, return_counts=True)
        self._check(classes)
        means, squares = np.empty((2, len(classes), self.d))
        for c, label in enumerate(classes):
            means[c], rows = _centred(x[y == label])
            squares[c] = np.einsum("ij,ij->j", rows, rows)
        return ClassMoments(classes.astype(np.float64), counts.astype(np.float64), means, squares)

    def combine(self, left: ClassMoments, right: ClassMoments) -> ClassMoments:
        """Merge class by class."""
        classes = np.union1d(left.classes, right.classes)
        self._check(classes)
        a, b = _with_empty_classes(left, classes), _with_empty_classes(right, classes)
        counts = a.counts + b.counts
        # A class that one part lacks has no rows there, and takes the mean of the other.
        share, step = (b.counts / counts)[:, None], b.means - a.means
        squares = a.squares + b.squares + a.counts[:, None] * share * step**2
        return ClassMoments(classes, counts, a.means + share * step, squares)

    def _check(self, classes: Vector) -> None:
        if len(classes) > self.most:
            msg = (
                f"method 'linear' with kernel 'delta' takes a target of at most {self.most:,} "
                f"classes, got {len(classes):,} and more: take target_kernel 'linear', or another "
                "method"
            )
            raise DataError(msg)


def class_scores(moments: ClassMoments) -> Vector:
    """Squared HSIC of every feature with the classes, in units of its standard deviation.

    With the delta kernel on classes and the linear kernel on a feature it is
    sum_c (n_c / n)^2 (mean_c - mean)^2. For two classes that is 2 (n_+ n_- / n^2)^2 times
    (mean_+ - mean_-)^2, the score of Gretton (2020), section 5, with another weight of the labels.

    Parameters
    ----------
    moments : ClassMoments
        Moments of all rows.

    Returns
    -------
    ndarray, shape (d,)
    """
    # With the delta kernel of labels the cross-covariance has an entry a class, n_c / n times the
    # step of its mean from the mean of all.
    shares = moments.counts / moments.counts.sum()
    steps = moments.means - moments.means[0]  # exactly 0 where constant
    steps -= shares @ steps
    # Within classes and between them, as in an analysis of variance.
    variance = moments.squares.sum(axis=0) / moments.counts.sum() + shares @ steps**2
    return _in_units(shares**2 @ steps**2, variance)


def _centred(values: NDArray[Any]) -> tuple[Vector, Vector]:
    """The mean of rows and the rows about it.

    Taken about the first row, so that a constant has its value for a mean and no variance: what
    rounding left of it would, in units of itself, look like a feature.
    """
    # About the first row: values far from 0 would lose their digits in squares.
    first = values[0].astype(np.float64)
    rows = values - first
    step = rows.mean(axis=0)
    rows -= step
    return first + step, rows


def _in_units(values: Vector, units: Vector) -> Vector:
    """Values over the variances or deviations of features; a constant feature has 0."""
    return np.divide(values, units, out=np.zeros_like(values), where=units > 0.0)


def _with_empty_classes(moments: ClassMoments, classes: Vector) -> ClassMoments:
    """The same with empty classes among them."""
    at = np.searchsorted(classes, moments.classes)
    q, d = len(classes), moments.means.shape[1]
    spread = ClassMoments(classes, np.zeros(q), np.zeros((q, d)), np.zeros((q, d)))
    for whole, part in zip(spread[1:], moments[1:], strict=True):
        whole[at] = part
    return spread
