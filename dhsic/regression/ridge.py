"""Second moments of features of rows, in one pass, and ridge regressions on each other from them.

A design makes features of rows: splines of columns, kernels at landmarks, products. One pass sums
the features and their products, by fold; every regression among them, with its penalty and with or
without a fold, is then a matter of these sums, and so are means and their limit law.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic._random import random_keys
from dhsic.engine.passes import Footprint, Pass, RowBlock

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
Design = Callable[[Sequence[NDArray[Any]], int], Vector]

TILE_ROWS = 2048
RIDGES = 10.0 ** np.arange(-6.0, 1.01, 0.5)
MOST_FREEDOM = 0.4  # of the rows
_LEAST_LEFT = 0.1  # of 1 - h
_RANK = 1e-11


@dataclass(frozen=True)
class Folds:
    """Rows in folds, so that predictions of the rows of a fold are by the rows of the others.

    Parameters
    ----------
    count : int
        How many.
    seed : int, optional
        Draws the fold of every row; where not given, row i is in fold i mod count. Either goes by
        the number of a row, so that folds do not depend on blocks.
    share : float, optional
        Of the rows that count, each drawn by itself by the seed.
    """

    count: int
    seed: int | None = None
    share: float = 1.0

    def tiles(self, block: RowBlock) -> Iterator[tuple[int, Indices]]:
        """Tiles of rows of one fold each: the fold, and numbers of at most 2048 of its rows."""
        span = block.start, block.start + block.rows
        folds = np.arange(*span) % self.count
        if self.seed is not None:
            keys = random_keys(self.seed, *span, "folds")
            folds = (keys % np.uint64(self.count)).astype(np.intp)
            if self.share < 1.0:
                keys = random_keys(self.seed, *span, "regression")
                folds[keys >= self.share * 2.0**64] = -1
        for fold in range(self.count):
            own = np.flatnonzero(folds == fold)
            for start in range(0, len(own), TILE_ROWS):
                yield fold, own[start : start + TILE_ROWS]


class SecondMoments(NamedTuple):
    """Sums over rows of q features and of their products: of some rows, or by fold.

    Parameters
    ----------
    rows : int or ndarray
        How many; by fold shape (k,), and so before the shapes of the others.
    totals : ndarray
        Shape (q,).
    products : ndarray
        Shape (q, q).
    """

    rows: Any
    totals: Vector
    products: Vector

    def whole(self) -> SecondMoments:
        """Sums over the rows of all folds."""
        return SecondMoments(*(part.sum(axis=0) for part in self))

    def splits(self) -> Iterator[tuple[SecondMoments, SecondMoments]]:
        """Sums over the rows outside of every fold and over its own, one after the other."""
        # Sums are additive: those without a fold need no other pass over the data.
        whole = self.whole()
        for own in map(SecondMoments._make, zip(*self, strict=True)):
            others = SecondMoments._make(every - one for every, one in zip(whole, own, strict=True))
            # Of 20 rows one in a million draws has all of them in one fold.
            yield (others, own) if others.rows and own.rows else (whole, whole)

    def covariance(self) -> Vector:
        """Covariance of the features, shape (q, q)."""
        mean = self.totals / self.rows
        # Features are about the means of a sample, so that little cancels.
        covariance: Vector = self.products / self.rows - np.outer(mean, mean)
        return covariance

    def missed(self, mean: Vector, regressors: Indices, targets: Indices, slopes: Vector) -> Vector:
        """Mean squared errors (t,) of predictions about means (q,) of other rows.

        Parameters
        ----------
        mean : ndarray, shape (q,)
            The means of all features.
        regressors, targets : ndarray of int
            Numbers of p and of t features.
        slopes : ndarray, shape (p, t)
            Coefficients of predictions.
        """
        off = self.totals / self.rows - mean
        moments = self.covariance() + np.outer(off, off)
        predicted = moments[np.ix_(regressors, regressors)] @ slopes
        left = predicted - 2.0 * moments[np.ix_(regressors, targets)]
        found: Vector = moments[targets, targets] + (slopes * left).sum(axis=0)
        return found


@dataclass(frozen=True)
class SecondMomentsPass(Pass[SecondMoments]):
    """First and second moments of features of rows: all that regressions on each other need.

    Parameters
    ----------
    size : int
        Features of a row, q, at most.
    payload : int
        Bytes of the design, at most.
    row : int
        Bytes that a row needs besides its features, at most.
    folds : Folds
        Which rows count, and their folds.
    name : str
        Name of the pass in progress reports.
    design : callable, optional
        Features (b, q) of rows of every variable that are all of a fold; a run has them.
    by_fold : bool, optional
        Whether the sums of every fold stay apart.
    """

    size: int
    payload: int
    row: int
    folds: Folds
    name: str = "regressions"
    design: Design | None = None
    by_fold: bool = False

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        tile, square = min(rows, TILE_ROWS), self.size**2
        state = 8 * self._parts * (square + self.size + 1)
        # Keys of all rows, twice, and numbers of the drawn ones.
        scratch = tile * (self.row + 8 * self.size) + 8 * square + 24 * rows + state
        return Footprint(self.payload, scratch, state)

    def chunk(self, block: RowBlock) -> SecondMoments:
        """Sums over the rows of one block that count, by fold."""
        assert self.design is not None
        parts, q = self._parts, self.design([x[:1] for x in block.values], 0).shape[1]
        found = SecondMoments(np.zeros(parts), np.zeros((parts, q)), np.zeros((parts, q, q)))
        for fold, some in self.folds.tiles(block):
            rows = self.design([x[some] for x in block.values], fold)
            at = fold % parts
            found.rows[at] += len(some)
            found.totals[at] += rows.sum(axis=0)
            found.products[at] += rows.T @ rows
        return found

    @property
    def _parts(self) -> int:
        return self.folds.count if self.by_fold else 1


@dataclass(frozen=True)
class Ridges:
    """Ridge regressions of targets, each with a penalty by generalised cross-validation.

    With the covariance S of the regressors, a penalty P, columns of V with V'SV = diag(s) and
    V'PV = diag(m), and c the covariances of a target with them, the regression of weight w has
    coefficients V c / (s + w m), tr S (S + w P)^-1 + 1 degrees of freedom df, and

    GCV(w) = n RSS(w) / (n - df)^2    ([1] section 1, [2])

    The constant is not shrunk. The weight of the least GCV balances the bias of predictions and
    their variance. A mean of products of residuals of x and of y has the product of their biases,
    and no share of their variances, where the errors of x and of y are independent: so smaller
    weights suit it, whose cost is the larger error of residuals ([3] section 3 has the condition
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
        1 / (n (s + w m)).
    errors : ndarray, shape (t,)
        Estimates of the mean squared error of a prediction, GCV at the weight taken.
    least : ndarray, shape (t,)
        The same at the best weight.
    tried : ndarray, shape (t,)
        Mean squared errors of predictions of other rows, at the weight that is best for them; where
        there are none, the least GCV.
    left : ndarray, shape (t,)
        Shares of the variances that the residuals have.
    variances : ndarray, shape (t,)
        Variances of the targets.
    rows : int
        Rows that they are fitted to, n.

    References
    ----------
    .. [1] G. Golub, M. Heath, G. Wahba. Generalized cross-validation as a method for choosing a
       good ridge parameter. Technometrics 21, 1979.
    .. [2] P. Craven, G. Wahba. Smoothing noisy data with spline functions. Numerische Mathematik
       31, 1979.
    .. [3] R. Shah, J. Peters. The hardness of conditional independence testing and the
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
    left: Vector
    variances: Vector
    rows: int

    @staticmethod
    def fit(
        sums: SecondMoments,
        regressors: Indices,
        targets: Indices,
        excess: float = 0.0,
        left_out: Sequence[Indices] = (),
        held: SecondMoments | None = None,
        penalties: Sequence[Vector] | None = None,
        weights: Vector = RIDGES,
        most_freedom: float = MOST_FREEDOM,
    ) -> Ridges:
        """Regress features on features, both by their numbers.

        Parameters
        ----------
        sums : SecondMoments
            Sums over rows.
        regressors, targets : ndarray of int
            Numbers of features.
        excess : float, optional
            A target takes the smallest weight whose GCV exceeds the least by at most this share.
        left_out : sequence of ndarray of int, optional
            Numbers of features that one of several regressions does without. A target takes that of
            the least GCV; where there are none, that on all regressors.
        held : SecondMoments, optional
            Sums over other rows, on which predictions are tried.
        penalties : sequence of ndarray, optional
            A matrix for every run of regressors; the identity where not given.
        weights : ndarray, optional
            They ascend.
        most_freedom : float, optional
            Degrees of freedom at most, as a share of the rows.
        """
        covariance, mean, n = sums.covariance(), sums.totals / sums.rows, int(sums.rows)
        variances = covariance[targets, targets]

        def on(kept: NDArray[np.bool_]) -> tuple[Vector, ...]:
            """What the regression on some of the regressors has; others have coefficients 0."""
            some = regressors[kept]
            vectors, s, m = _diagonalised(covariance[np.ix_(some, some)], penalties)
            c = vectors.T @ covariance[np.ix_(some, targets)]
            shrunk = s[:, None] + np.multiply.outer(m, weights)  # (k, weights)
            # 1 + tr S (S + w P)^-1.
            freedom = 1.0 + (s[:, None] / shrunk).sum(axis=0)
            # c^2 (2 / (s + w m) - s / (s + w m)^2) of the variance is explained.
            explained = 2.0 / shrunk - s[:, None] / shrunk**2
            # Rounding may take it below zero where the fit is exact.
            left = np.maximum(variances[:, None] - (c**2).T @ explained, 0.0)  # (t, weights)
            errors = left / np.maximum(1.0 - freedom / n, 1e-3) ** 2
            # Too many degrees of freedom are refused, but for the largest weight.
            errors[:, freedom > max(most_freedom * n, freedom[-1])] = np.inf
            least = errors.min(axis=1, keepdims=True)
            chosen = (errors <= (1.0 + excess) * least).argmax(axis=1)  # weights ascend
            inverse = 1.0 / shrunk[:, chosen]
            tried = least[:, 0]
            if held is not None:
                every = (vectors @ (c / one[:, None]) for one in shrunk.T)
                missed = [held.missed(mean, some, targets, slopes) for slopes in every]
                tried = np.where(np.isfinite(errors.T), missed, np.inf).min(axis=0)
            padded = np.zeros((len(regressors), len(s)))
            padded[kept] = vectors
            at = np.arange(len(targets)), chosen
            share = np.zeros(len(targets))
            np.divide(left[at], variances, out=share, where=variances > 0.0)
            slopes = padded @ (c * inverse)
            return padded, inverse / n, tried, slopes, errors[at], least[:, 0], share

        kept = [~np.isin(regressors, one) for one in left_out] or [np.full(len(regressors), True)]
        vectors, spread, tried, *others = zip(*map(on, kept), strict=True)
        # The best of them on the same rows, for every target.
        better = np.argmin(others[2], axis=0) == np.arange(len(kept))[:, None]
        slopes, errors, least, left = (np.select(better, one) for one in others)
        return Ridges(
            mean=mean[regressors],
            slopes=slopes,
            target_mean=mean[targets],
            vectors=np.hstack(vectors),
            spread=np.vstack([one * at for one, at in zip(spread, better, strict=True)]),
            errors=errors,
            least=least,
            tried=np.min(tried, axis=0),
            left=left,
            variances=variances,
            rows=n,
        )

    def explained(self, targets: slice | Indices = slice(None)) -> float:
        """The share of the variance of some targets together that is explained, at least 0."""
        whole = float(self.variances[targets].sum())
        return max(0.0, 1.0 - float(self.errors[targets].sum()) / whole) if whole > 0.0 else 0.0

    def residuals(self, regressors: Vector, targets: Vector) -> Vector:
        """Residuals of targets (b, t), of regressors (b, p)."""
        return targets - self.target_mean - (regressors - self.mean) @ self.slopes

    def unlevered(self, regressors: Vector) -> Vector:
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
        # h_i = 1 / n + x_i' (S + w P)^-1 x_i / n.
        leverage = 1.0 / self.rows + np.square(turned, out=turned) @ self.spread
        return np.maximum(1.0 - leverage, _LEAST_LEFT)


def _diagonalised(
    gram: Vector, penalties: Sequence[Vector] | None
) -> tuple[Vector, Vector, Vector]:
    """V, s and m with V'GV = diag(s) and V'PV = diag(m), without directions that have neither."""
    if penalties is None:
        s, vectors = scipy.linalg.eigh(gram, check_finite=False)
        # Below that the variance of a direction is rounding.
        varied = s > len(s) * np.finfo(np.float64).eps * s.max(initial=0.0)
        return vectors[:, varied], s[varied], np.ones(np.count_nonzero(varied))
    blocks, start = [np.empty((0, 0))], 0
    for penalty in penalties:
        stop = start + len(penalty)
        # Units of a column must not decide how smooth its function is.
        blocks.append(penalty * (np.trace(gram[start:stop, start:stop]) / np.trace(penalty)))
        start = stop
    penalty = np.asarray(scipy.linalg.block_diag(*blocks))
    total, directions = np.linalg.eigh(gram + penalty)
    # Splines of a column add up to a constant, so that G + P is singular before anything is fitted.
    kept = total > _RANK * total.max(initial=0.0)
    # (G + P)^(-1/2) in the directions that are left.
    whitened = directions[:, kept] / np.sqrt(total[kept])
    m, rotation = np.linalg.eigh(whitened.T @ penalty @ whitened)
    m = np.clip(m, 0.0, 1.0)  # rounding may leave them a little outside
    return whitened @ rotation, 1.0 - m, m
