"""Ridge regressions of features on features, from sums over rows, with the ridge chosen by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import isqrt
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic._random import random_keys
from dhsic.conditional.folds import FOLDS, TILE_ROWS, tiles_of_folds
from dhsic.engine.reduction import Footprint, Pass, RowBlock

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]

_REGRESSION_ROWS = 200_000
_REGRESSION_ROOTS = 200
_RIDGES = 10.0 ** np.arange(-6.0, 1.01, 0.5)
_MOST_FREEDOM = 0.4  # of the rows
_LEAST_LEFT = 0.1  # of 1 - h


def rows_of_regression(n: int) -> int:
    """How many of n rows regressions are fitted to, about: all up to 200,000, then 200 sqrt(n).

    Errors of predictions of x and of y, fitted to m rows with df degrees of freedom, have products
    whose mean over n rows has the variance df / m^2, to 1 / n of the noise: 1.3 % where df is 500.
    Errors that more rows do not lessen, of functions that the features cannot follow, are the same.
    """
    return min(n, max(_REGRESSION_ROWS, _REGRESSION_ROOTS * isqrt(n)))


class Joined(Protocol):
    """Features of rows, side by side."""

    @property
    def size(self) -> int:
        """Number of features, q."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        ...

    def scratch(self, rows: int) -> int:
        """Bytes needed for so many rows, the features among them."""
        ...

    def joined(self, values: Sequence[NDArray[Any]], fold: int) -> Vector:
        """Features of rows of a fold, of every variable, shape (b, q)."""
        ...


class DesignSums(NamedTuple):
    """Sums over rows of features and of their products."""

    rows: int
    """How many."""
    totals: Vector
    """Shape (q,)."""
    products: Vector
    """Shape (q, q)."""

    def covariance(self) -> Vector:
        """Covariance of the features, shape (q, q)."""
        mean = self.totals / self.rows
        # Features are about the means of a sample, so that little cancels.
        return self.products / self.rows - np.outer(mean, mean)

    def missed(self, mean: Vector, regressors: Indices, targets: Indices, slopes: Vector) -> Vector:
        """Mean squared errors of predictions about means of other rows.

        Parameters
        ----------
        mean : ndarray, shape (q,)
            The means of all features.
        regressors, targets : ndarray of int
            Numbers of p and of t features.
        slopes : ndarray, shape (p, t)
            Coefficients of predictions.

        Returns
        -------
        ndarray, shape (t,)
        """
        off = self.totals / self.rows - mean
        moments = self.covariance() + np.outer(off, off)
        predicted = moments[np.ix_(regressors, regressors)] @ slopes
        left = predicted - 2.0 * moments[np.ix_(regressors, targets)]
        found: Vector = moments[targets, targets] + (slopes * left).sum(axis=0)
        return found


class SumsByFold(NamedTuple):
    """Sums over the rows of every fold, or over all of them as one."""

    rows: Vector
    """Shape (k,)."""
    totals: Vector
    """Shape (k, q)."""
    products: Vector
    """Shape (k, q, q)."""

    def whole(self) -> DesignSums:
        """Sums over all rows."""
        return DesignSums(int(self.rows.sum()), self.totals.sum(axis=0), self.products.sum(axis=0))

    def splits(self) -> Iterator[tuple[DesignSums, DesignSums]]:
        """Sums over the rows outside of every fold and over its own, one after the other."""
        whole = self.whole()
        for rows, totals, products in zip(*self, strict=True):
            own = DesignSums(int(rows), totals, products)
            left = DesignSums(
                whole.rows - own.rows, whole.totals - totals, whole.products - products
            )
            # Of 20 rows one in a million draws has all of them in one fold.
            yield (left, own) if left.rows and own.rows else (whole, whole)


@dataclass(frozen=True)
class DesignPass(Pass[SumsByFold]):
    """All that regressions of features on each other need, in one pass.

    Parameters
    ----------
    design : Joined
        Features of rows.
    n : int
        Rows of the data, of which `rows_of_regression` are drawn.
    seed : int
        Fixes which, and the folds.
    name : str
        Name of the pass in progress reports.
    by_fold : bool, optional
        Whether the sums of every fold stay apart.
    """

    design: Joined
    n: int
    seed: int
    name: str = "regression"
    by_fold: bool = False

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        tile, q, parts = min(rows, TILE_ROWS), self.design.size, self._parts
        state = 8 * parts * (q * (q + 1) + 1)
        # Keys of all rows, twice, and numbers of the drawn ones.
        scratch = self.design.scratch(tile) + 8 * tile * q + 8 * q * q + 24 * rows + state
        return Footprint(self.design.nbytes, scratch, state)

    def chunk(self, block: RowBlock) -> SumsByFold:
        """Sums over the drawn rows of one block."""
        q, parts = self.design.size, self._parts
        found = SumsByFold(np.zeros(parts), np.zeros((parts, q)), np.zeros((parts, q, q)))
        for fold, some in tiles_of_folds(self.seed, block, self._drawn(block)):
            rows = self.design.joined([x[some] for x in block.values], fold)
            at = fold % parts
            found.rows[at] += len(some)
            found.totals[at] += rows.sum(axis=0)
            found.products[at] += rows.T @ rows
        return found

    @property
    def _parts(self) -> int:
        return FOLDS if self.by_fold else 1

    @property
    def _share(self) -> float:
        return rows_of_regression(self.n) / self.n

    def _drawn(self, block: RowBlock) -> Indices:
        """Numbers of drawn rows in a block, of which each is drawn by itself."""
        if self._share == 1.0:
            return np.arange(block.rows)
        keys = random_keys(self.seed, block.start, block.start + block.rows, "regression")
        return np.flatnonzero(keys < self._share * 2.0**64)


@dataclass(frozen=True)
class Ridges:
    """Ridge regressions of targets, each with a ridge by generalised cross-validation.

    With the covariance S = V diag(s) V' of the regressors, and c the covariances of a target with
    the columns of V, the regression has coefficients V c / (s + ridge), tr S (S + ridge)^-1 + 1
    degrees of freedom df, and

    GCV(ridge) = n RSS(ridge) / (n - df)^2    ([1] section 1)

    The constant is not shrunk. The ridge of the least GCV balances the bias of predictions and
    their variance. A mean of products of residuals of x and of y has the product of their biases,
    and no share of their variances, where the errors of x and of y are independent: so smaller
    ridges suit it, whose cost is the larger error of residuals ([2] section 3 has the condition
    on the product).

    Parameters
    ----------
    mean : ndarray, shape (p,)
        Mean of the regressors.
    slopes : ndarray, shape (p, t)
        Coefficients of every target.
    target_mean : ndarray, shape (t,)
        Mean of the targets.
    vectors : ndarray, shape (p, k)
        V, of the directions whose variance is not 0.
    spread : ndarray, shape (k, t)
        1 / (n (s + ridge)).
    errors : ndarray, shape (t,)
        Estimates of the mean squared error of a prediction, GCV at the ridge taken.
    least : ndarray, shape (t,)
        The same at the best ridge.
    tried : ndarray, shape (t,)
        Mean squared errors of predictions of other rows, at the ridge that is best for them; where
        there are none, the least GCV.
    variances : ndarray, shape (t,)
        Variances of the targets.
    rows : int
        Rows that they are fitted to, n.

    References
    ----------
    .. [1] G. Golub, M. Heath, G. Wahba. Generalized cross-validation as a method for choosing a
       good ridge parameter. Technometrics 21, 1979.
    .. [2] R. Shah, J. Peters. The hardness of conditional independence testing and the
       generalised covariance measure. Annals of Statistics 48, 2020.
    """

    mean: Vector
    slopes: Vector
    target_mean: Vector
    vectors: Vector
    spread: Vector
    errors: Vector
    least: Vector
    tried: Vector
    variances: Vector
    rows: int

    @classmethod
    def fit(
        cls,
        sums: DesignSums,
        regressors: Indices,
        targets: Indices,
        excess: float = 0.0,
        left_out: Sequence[Indices] = (),
        held: DesignSums | None = None,
    ) -> Self:
        """Regress features on features, both by their numbers.

        Parameters
        ----------
        sums : DesignSums
            Sums over rows.
        regressors, targets : ndarray of int
            Numbers of features.
        excess : float, optional
            A target takes the smallest ridge whose GCV exceeds the least by at most this share.
        left_out : sequence of ndarray of int, optional
            Numbers of features that one of several regressions does without. A target takes that of
            the least GCV; where there are none, that on all regressors.
        held : DesignSums, optional
            Sums over other rows, on which predictions are tried.
        """
        kept = [~np.isin(regressors, one) for one in left_out] or [np.full(len(regressors), True)]
        every = (cls._on(sums, regressors, targets, excess, one, held) for one in kept)
        return reduce(cls._or, every)

    @classmethod
    def _on(
        cls,
        sums: DesignSums,
        regressors: Indices,
        targets: Indices,
        excess: float,
        kept: NDArray[np.bool_],
        held: DesignSums | None,
    ) -> Self:
        """The regression on some of the regressors; others have coefficients 0."""
        every, regressors = regressors, regressors[kept]
        n = sums.rows
        covariance, mean = sums.covariance(), sums.totals / n
        s, vectors = scipy.linalg.eigh(
            covariance[np.ix_(regressors, regressors)], check_finite=False
        )
        # Below that the variance of a direction is rounding.
        varied = s > len(s) * np.finfo(np.float64).eps * max(float(s[-1]), 0.0)
        s, vectors = s[varied], vectors[:, varied]
        c = vectors.T @ covariance[np.ix_(regressors, targets)]
        variances = covariance[targets, targets]
        shrunk = s[:, None] + _RIDGES  # (k, ridges)
        # 1 + tr S (S + ridge)^-1.
        freedom = 1.0 + (s[:, None] / shrunk).sum(axis=0)
        # c^2 (2 / (s + ridge) - s / (s + ridge)^2) of the variance is explained.
        explained = 2.0 / shrunk - s[:, None] / shrunk**2
        left = np.maximum(variances[:, None] - (c**2).T @ explained, 0.0)  # (t, ridges)
        errors = left / np.maximum(1.0 - freedom / n, 1e-3) ** 2
        # Too many degrees of freedom are refused, but for the largest ridge.
        errors[:, freedom > max(_MOST_FREEDOM * n, freedom[-1])] = np.inf
        least = errors.min(axis=1, keepdims=True)
        chosen = (errors <= (1.0 + excess) * least).argmax(axis=1)  # ridges ascend
        inverse = 1.0 / shrunk[:, chosen]
        tried = least[:, 0]
        if held is not None:
            every_slope = (vectors @ (c / one[:, None]) for one in shrunk.T)
            missed = [held.missed(mean, regressors, targets, one) for one in every_slope]
            tried = np.where(np.isfinite(errors.T), missed, np.inf).min(axis=0)
        padded = np.zeros((len(every), len(s)))
        padded[kept] = vectors
        return cls(
            mean[every],
            padded @ (c * inverse),
            mean[targets],
            padded,
            inverse / n,
            np.take_along_axis(errors, chosen[:, None], axis=1)[:, 0],
            least[:, 0],
            tried,
            variances,
            n,
        )

    def _or(self, other: Self) -> Self:
        """The better of two regressions on the same rows, for every target."""
        better = other.least < self.least
        pairs = ((self.slopes, other.slopes), (self.errors, other.errors))
        slopes, errors = (np.where(better, two, one) for one, two in pairs)
        return replace(
            self,
            slopes=slopes,
            vectors=np.hstack([self.vectors, other.vectors]),
            spread=np.vstack([self.spread * ~better, other.spread * better]),
            errors=errors,
            least=np.minimum(self.least, other.least),
            tried=np.minimum(self.tried, other.tried),
        )

    @classmethod
    def likely(cls, p: int, targets: int, rows: int, left_out: Sequence[Indices] = ()) -> Self:
        """One of the largest size, for plans, which takes no memory."""
        directions = sum(p - len(one) for one in left_out) or p
        mean, own = (np.broadcast_to(0.0, (k,)) for k in (p, targets))
        vectors, slopes = (np.broadcast_to(0.0, (p, k)) for k in (directions, targets))
        spread = np.broadcast_to(0.0, (directions, targets))
        return cls(mean, slopes, own, vectors, spread, own, own, own, own, rows)

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return 8 * (self.vectors.size + self.slopes.size + self.spread.size)

    def explained(self, targets: slice = slice(None)) -> float:
        """The share of the variance of some targets together that is explained, at least 0."""
        whole = float(self.variances[targets].sum())
        return max(0.0, 1.0 - float(self.errors[targets].sum()) / whole) if whole > 0.0 else 0.0

    def predicted(self, regressors: Vector, targets: slice = slice(None)) -> Vector:
        """Predictions of some targets about their means, of regressors (b, p)."""
        found: Vector = (regressors - self.mean) @ self.slopes[:, targets]
        return found

    def residuals(self, regressors: Vector, targets: Vector) -> Vector:
        """Residuals of targets (b, t), of regressors (b, p)."""
        return targets - self.target_mean - self.predicted(regressors)

    def left(self, regressors: Vector) -> Vector:
        """1 - h of rows, with h the leverage: the share of a target in its own prediction.

        Parameters
        ----------
        regressors : ndarray, shape (b, p)
            Regressors of rows that the regression is fitted to.

        Returns
        -------
        ndarray, shape (b, t)
            At least 0.1.
        """
        turned = (regressors - self.mean) @ self.vectors
        # h_i = 1 / n + x_i' (S + ridge)^-1 x_i / n.
        leverage = 1.0 / self.rows + np.square(turned, out=turned) @ self.spread
        return np.maximum(1.0 - leverage, _LEAST_LEFT)
