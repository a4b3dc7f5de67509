"""Principal features: the directions of a kernel that weigh the most in a statistic.

Under independence n |C|^2 is a mixture of chi-squares, weighted by products of the eigenvalues of
the covariances of either side (Zhang et al. 2018, section 4.1.2). A direction of small variance
takes as many numbers in every replicate as one that decides. So a test keeps the directions that
weigh. Half of the room of a grid is for its reference, whose kernels serve smooth dependence best;
what it leaves is for the others, of every kernel the same share. Their lightest directions are left
out in any case, which hold a hundredth of the null's variance and are most of all, and none has
more than twice those of the reference of its variable, or 48: narrow kernels of many columns have
hundreds of directions that weigh alike, and each takes as long as one of the reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from dhsic.kernels import Combinations
from dhsic.linalg import solve_lower
from dhsic.statistics.features import Features

Vector = NDArray[np.float64]

MOST_PRODUCTS = 3 * 2**12
"""Products of features of all combinations: 96 MiB of sums for 1,000 replicates."""

_LIGHT = 0.01  # of the squared variances of the others: leaving it out costs no power
_LIGHT_OF_REFERENCE = 0.001
_LIGHTEST = 10.0  # over n, of the largest variance: dependence there drowns in that of the others
_FEW = 48  # directions that every kernel may take
_OF_PAIRS = 0.35  # of a Gaussian kernel of the median distance
_MISSED = np.linspace(0.0, 1.0, 1001)  # shares that are tried


@dataclass(frozen=True)
class Directions:
    """Directions of the features of a kernel, the one of the largest variance first.

    Parameters
    ----------
    variances : ndarray, shape (D,)
        Descending.
    vectors : ndarray, shape (D, D)
        A column times whitened features is the feature of a direction.
    factor : ndarray, shape (D, D), optional
        The lower triangular L that whitens them.
    """

    variances: Vector
    vectors: NDArray[np.floating[Any]]
    factor: Vector | None = None

    @classmethod
    def of(cls, features: Features, values: NDArray[np.floating[Any]]) -> Self:
        """Those of features with a factor L, of their values in the sample that described them.

        With the eigenvectors V of the covariance of L^-1 k(z, x), the features V' L^-1 k(z, x) are
        uncorrelated in the sample. They are found in the precision of the features.
        """
        assert features.factor is not None
        centred = (values - features.centre).astype(np.float64)
        covariance = centred.T @ centred / len(centred)
        # L^-1 C L^-T, by two triangular solves.
        half = solve_lower(features.factor, covariance).T
        whitened = solve_lower(features.factor, half).astype(values.dtype, copy=False)
        # Divide and conquer is the quickest for all vectors; SciPy 1.13 fails with it at size 1.
        driver = "evd" if len(whitened) > 1 else "ev"
        variances, vectors = scipy.linalg.eigh(
            whitened, driver=driver, overwrite_a=True, check_finite=False
        )
        # The heaviest first; rounding may leave the lightest below 0.
        variances = np.maximum(variances[::-1], 0.0).astype(np.float64)
        return cls(variances, vectors[:, ::-1], features.factor)

    @classmethod
    def guessed(cls, count: int, factor: float = 1.0, d: int = 2) -> Self:
        """So many of a kernel of d columns, which take no memory: for plans."""
        at = np.arange(count)
        # Of several columns the linear ones are heavy, and the others are products of two of them.
        variances = np.where(at < d, d, _OF_PAIRS)
        if d == 1:
            # As of a Laplacian kernel of so many times its length.
            variances = 1.0 / (1.0 + (factor * at) ** 2)
        return cls(variances, np.broadcast_to(0.0, (count, count)))

    def axes(self, count: int) -> Vector:
        """Shape (count, D): a row times the kernel at the landmarks is a feature."""
        vectors = self.vectors[:, :count].astype(np.float64, copy=False)
        if self.factor is None:
            return vectors.T
        # W = V' L^-1, so that W k(z, x) are the principal features of a row.
        return solve_lower(self.factor, vectors, transposed=True).T

    def needed(self, n: int, missed: ArrayLike) -> NDArray[np.intp]:
        """How many weigh in a test of n rows.

        Parameters
        ----------
        n : int
            Rows.
        missed : array_like
            The shares that may be lost of the null's variance, the sum of squared variances.

        Returns
        -------
        ndarray
            One for every share.
        """
        weights = np.where(self.variances * n >= _LIGHTEST * self.variances[0], self.variances, 0.0)
        # The variance of the mixture is 2 sum (lambda_i eta_j)^2: a direction weighs by its square.
        upto = np.cumsum(weights[::-1] ** 2)  # of a direction and all lighter ones, ascending
        if upto[-1] == 0.0:  # a sample of equal rows does not tell
            return np.full(np.shape(missed), len(weights))
        lost = np.searchsorted(upto, np.multiply(missed, upto[-1]), "right")
        counts: NDArray[np.intp] = np.maximum(1, len(weights) - lost)
        return counts


def feature_counts(
    combinations: Combinations, directions: Sequence[Directions], n: int, most: int
) -> list[int]:
    """Features of every kernel, so that products of all combinations are no more than `most`.

    Parameters
    ----------
    combinations : Combinations
        Combinations of K kernels of two variables.
    directions : sequence of Directions
        One a kernel.
    n : int
        Rows of the test.
    most : int
        Products of features; more where one feature a kernel makes more.

    Returns
    -------
    list of int
    """
    if combinations.stages:
        # Each stage of a chain has the room of a test; a kernel of several the most of theirs.
        found = np.ones(len(directions), np.intp)
        for numbers in combinations.by_stage:
            stage = replace(combinations.part(numbers), stages=())
            used = combinations.used(range(len(directions)), numbers)
            of = feature_counts(stage, [directions[k] for k in used], n, most)
            found[used] = np.maximum(found[used], of)
        return [int(count) for count in found]
    if combinations.features:
        # Each kernel by itself: those of a pair make no more products than the room of a test.
        return [
            min(int(axes.needed(n, _LIGHT_OF_REFERENCE)), math.isqrt(most)) for axes in directions
        ]
    reference = combinations.chosen[combinations.reference()]
    # How many directions each kernel keeps, for every share that may be missed.
    counts = np.array([axes.needed(n, _MISSED) for axes in directions])
    others = [pair for pair in combinations.chosen if pair != reference]
    whole = counts[:, _MISSED >= _LIGHT_OF_REFERENCE]
    # The reference takes its directions first, of half of the room where there are others.
    room = most // 2 if others else most
    reference_counts = whole[:, _fitting(whole, [reference], room)]
    if not others:
        return [int(count) for count in reference_counts]
    rest = np.minimum(
        counts[:, _MISSED >= _LIGHT], _most_of_others(combinations, reference_counts)[:, None]
    )
    rest[list(reference)] = reference_counts[list(reference), None]
    room = most - math.prod(reference_counts[list(reference)])
    return [int(count) for count in rest[:, _fitting(rest, others, room)]]


def _most_of_others(
    combinations: Combinations, reference_counts: NDArray[np.intp]
) -> NDArray[np.intp]:
    """The most that every kernel has: twice as many as the reference of its variable, or 48.

    Narrow kernels of many columns have hundreds of directions that weigh alike.
    """
    of = {
        combinations.variables[k]: reference_counts[k]
        for k in combinations.chosen[combinations.reference()]
    }
    return np.array([max(2 * of.get(m, 0), _FEW) for m in combinations.variables])


def _fitting(counts: NDArray[np.intp], pairs: Sequence[tuple[int, ...]], most: int) -> int:
    """Where counts (K, shares), falling, first make so few products of pairs; or the last."""
    products = sum(np.prod(counts[list(pair)], axis=0) for pair in pairs)
    return min(int(np.count_nonzero(products > most)), len(counts.T) - 1)
