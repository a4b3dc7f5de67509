"""Outcomes of estimators and their tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dhsic.kernels import Combinations, Kernel
from dhsic.nulls import Distribution, Replicates, Strength
from dhsic.results import FeatureSummary, LandmarkSummary

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A measure of dependence and what it was computed with.

    Parameters
    ----------
    value : float
        The estimate.
    kernels : tuple of Kernel
        As fitted.
    landmarks : LandmarkSummary or None
        Where the estimator has any.
    features : FeatureSummary or None
        Where the estimator has any.
    quantity : str, optional
        Quantity that is estimated.

    Examples
    --------
    >>> from dhsic.estimators import Estimate
    >>> from dhsic.kernels import Gaussian
    >>> Estimate(0.02, (Gaussian(gamma=1.0), Gaussian(gamma=0.5))).quantity
    'squared HSIC'
    """

    value: float
    kernels: tuple[Kernel, ...]
    landmarks: LandmarkSummary | None = None
    features: FeatureSummary | None = None
    quantity: str = "squared HSIC"


@dataclass(frozen=True)
class Outcome:
    """A test statistic with its distribution under the null hypothesis.

    Parameters
    ----------
    statistic : float
        The observed value.
    distribution : Distribution
        Distribution of the statistic under the null hypothesis.
    estimate : Estimate
        The measure of dependence.
    detail : str, optional
        How the distribution was made, where the null leaves a choice.
    rounding : float, optional
        Differences of the statistic up to it are rounding.
    strength : Strength or None, optional
        The largest of several statistics, where `statistic` is the score that combines them.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.estimators import Estimate, Outcome
    >>> from dhsic.nulls import Replicates
    >>> outcome = Outcome(2.5, Replicates(np.array([0.5, 1.0, 3.0])), Estimate(0.02, ()))
    >>> outcome.distribution.sf(outcome.statistic)
    0.5
    """

    statistic: float
    distribution: Distribution
    estimate: Estimate
    detail: str = ""
    rounding: float = 0.0
    strength: Strength | None = None


@dataclass(frozen=True)
class GridOutcome:
    """Statistics of several combinations of kernels, with replicates that they share.

    Parameters
    ----------
    combinations : Combinations
        As fitted.
    statistics : ndarray, shape (G,)
        The observed values.
    replicates : ndarray, shape (b, G)
        Under the null hypothesis; a row is one draw for all combinations.
    estimate : callable
        The measure of dependence by a combination, given its number.
    detail : str, optional
        How the replicates were made, where the null leaves a choice.
    rounding : ndarray, shape (G,)
        Differences of the statistics up to it are rounding.
    own : ndarray, shape (G, M), optional
        Squared HSIC of every variable with itself, where the estimator has it.
    """

    combinations: Combinations
    statistics: Vector
    replicates: Vector
    estimate: Callable[[int], Estimate]
    detail: str
    rounding: Vector
    own: Vector | None = None

    @property
    def only(self) -> Outcome:
        """That of a single combination."""
        (statistic,), (rounding,) = self.statistics.tolist(), self.rounding.tolist()
        distribution = Replicates(self.replicates[:, 0])
        return Outcome(statistic, distribution, self.estimate(0), self.detail, rounding)

    def part(self, numbers: Sequence[int]) -> GridOutcome:
        """Those of some of the combinations."""
        at = list(numbers)
        return replace(
            self,
            combinations=self.combinations.part(at),
            statistics=self.statistics[at],
            replicates=self.replicates[:, at],
            rounding=self.rounding[at],
            own=None if self.own is None else self.own[at],
        )

    @property
    def columns(self) -> ColumnEstimates:
        """The measures of features against one target, of an estimator that ranks."""
        assert self.own is not None
        each = [self.estimate(c) for c in range(len(self.combinations))]
        summaries = [one.landmarks for one in each if one.landmarks is not None]
        kept = tuple(int(np.ravel(summary.kept)[0]) for summary in summaries)
        landmarks = replace(summaries[0], kept=kept) if summaries else None
        hsic = np.array([one.value for one in each])
        own, target = self.own.T
        return ColumnEstimates(self.combinations, hsic, own, target, landmarks)


@dataclass(frozen=True)
class ColumnEstimates:
    """Squared HSIC of every feature with the target, and of each with itself.

    Parameters
    ----------
    combinations : Combinations
        As fitted: a kernel of every feature, and that of the target.
    hsic : ndarray, shape (G,)
        HSIC of the features with the target.
    own : ndarray, shape (G,)
        HSIC of the features with themselves.
    target : ndarray, shape (G,)
        HSIC of the target with itself, by the landmarks of each feature where there are any.
    landmarks : LandmarkSummary or None
        Where the estimator has any; one number kept a feature.
    """

    combinations: Combinations
    hsic: Vector
    own: Vector
    target: Vector
    landmarks: LandmarkSummary | None = None

    def cka(self, chance: Vector | float = 0.0) -> Vector:
        """(HSIC(x, y) - b) / (sqrt(HSIC(x, x) HSIC(y, y)) - b), 0 where that is 0; shape (G,).

        Parameters
        ----------
        chance : ndarray, shape (G,), or float, optional
            b, the mean of HSIC(x, y) under independence: then so CKA has the mean 0, and that of a
            copy is still 1.
        """
        # Unbiased estimates fall below 0 at times, where a root would be NaN.
        scale = np.sqrt(np.maximum(self.own, 0.0) * np.maximum(self.target, 0.0)) - chance
        out = np.zeros(len(scale))
        values: Vector = np.divide(self.hsic - chance, scale, out=out, where=scale > 0.0)
        return values
