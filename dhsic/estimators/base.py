"""What an estimator is and returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic._random import generator
from dhsic.engine.plan import DriverStep, PassPlan, Plan, baseline_bytes
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.kernels import Combinations, Kernel
from dhsic.nulls import (
    ChiSquare,
    Distribution,
    Gamma,
    Multiplier,
    Normal,
    Permutation,
    Replicates,
    Spectral,
)
from dhsic.results import FeatureSummary, LandmarkSummary, PassSummary

__all__ = [
    "BANDWIDTH_ROWS",
    "Estimate",
    "Estimator",
    "FeatureEstimates",
    "FeatureEstimator",
    "FeatureOutcome",
    "GridEstimator",
    "GridOutcome",
    "Null",
    "Outcome",
    "bandwidth_rows",
    "fit_combinations",
    "fit_combinations_on_sample",
    "fit_kernels",
    "fit_on_sample",
    "fitting_step",
    "passes_of",
    "plan_of",
    "rounding_unit",
]

Vector = NDArray[np.float64]
Null = Permutation | Multiplier | Gamma | Spectral | Normal | ChiSquare

BANDWIDTH_ROWS = 1000

_ROUNDING = 32.0


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
        What the value measures.
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
        Of the statistic under the null hypothesis.
    estimate : Estimate
        The measure of dependence.
    detail : str, optional
        How the distribution was made, where the null leaves a choice.
    rounding : float, optional
        Differences of the statistic up to it are rounding.
    """

    statistic: float
    distribution: Distribution
    estimate: Estimate
    detail: str = ""
    rounding: float = 0.0


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


@dataclass(frozen=True)
class FeatureEstimates:
    """Squared HSIC of every feature with the target, and of each with itself.

    Parameters
    ----------
    combinations : Combinations
        As fitted: a kernel of every feature, and that of the target.
    hsic : ndarray, shape (G,)
        Of the features with the target.
    own : ndarray, shape (G,)
        Of the features with themselves.
    target : ndarray, shape (G,)
        Of the target with itself, by the landmarks of each feature where there are any.
    landmarks : LandmarkSummary or None
        Where the estimator has any; one number kept a feature.
    """

    combinations: Combinations
    hsic: Vector
    own: Vector
    target: Vector
    landmarks: LandmarkSummary | None = None

    @property
    def cka(self) -> Vector:
        """HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)), 0 where either is 0; shape (G,)."""
        scale = np.sqrt(np.maximum(self.own, 0.0) * np.maximum(self.target, 0.0))
        values: Vector = np.divide(self.hsic, scale, out=np.zeros(len(scale)), where=scale > 0.0)
        return values


@dataclass(frozen=True)
class FeatureOutcome:
    """Test statistics of every feature with the target, and replicates that they share.

    Parameters
    ----------
    estimates : FeatureEstimates
        The measures of dependence.
    statistics : ndarray, shape (G,)
        The observed values.
    replicates : ndarray, shape (b, G)
        Under the null hypothesis; a row is one draw for all features.
    detail : str
        How the replicates were made, where the null leaves a choice.
    rounding : ndarray, shape (G,)
        Differences of the statistics up to it are rounding.
    """

    estimates: FeatureEstimates
    statistics: Vector
    replicates: Vector
    detail: str
    rounding: Vector


class Estimator(Protocol):
    """A statistic of dependence with its options, as a frozen value."""

    name: ClassVar[str]

    def kernel(self, given: Kernel | None) -> Kernel:
        """The kernel of a variable: what was given, or the default; refused where it is fixed."""
        ...

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """The null distribution for `null="auto"`, and why."""
        ...

    def plan(self, session: Session, kernels: Sequence[Kernel], null: Null | None) -> Plan:
        """What a test, or an estimate where `null` is None, would run."""
        ...

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """The measure of dependence."""
        ...

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The statistic and its null distribution."""
        ...


@runtime_checkable
class GridEstimator(Protocol):
    """An estimator that tries several combinations of kernels in one run."""

    def plan_grid(
        self, session: Session, combinations: Combinations, null: Multiplier | Permutation
    ) -> Plan:
        """What a test would run."""
        ...

    def test_grid(
        self, session: Session, combinations: Combinations, null: Multiplier | Permutation
    ) -> GridOutcome:
        """The statistics and their replicates."""
        ...


@runtime_checkable
class FeatureEstimator(Protocol):
    """An estimator that takes many features against one target in one run.

    Combinations are those of `dhsic.kernels.OnColumns` kernels of the first variable, each with
    the one kernel of the second.
    """

    def plan_features(
        self, session: Session, combinations: Combinations, null: Multiplier | Permutation | None
    ) -> Plan:
        """What a test of all features, or estimates where `null` is None, would run."""
        ...

    def test_features(
        self, session: Session, combinations: Combinations, null: Multiplier | Permutation
    ) -> FeatureOutcome:
        """The statistics and their replicates."""
        ...

    def estimate_features(self, session: Session, combinations: Combinations) -> FeatureEstimates:
        """The measures of dependence alone."""
        ...


def bandwidth_rows(session: Session) -> list[NDArray[np.intp]]:
    """Rows of every variable from which its kernel is fitted, drawn independently for each.

    One draw for all would let the kernels know of the pairing.
    """
    s = min(session.n, BANDWIDTH_ROWS)
    return [
        generator(session.seed, "bandwidth", m).choice(session.n, size=s, replace=False)
        for m in range(len(session.sources))
    ]


def fit_kernels(
    session: Session, kernels: Sequence[Kernel], samples: Sequence[NDArray[Any]]
) -> tuple[Kernel, ...]:
    """Fit every kernel to the sample of its variable; refuse constant variables."""
    return fit_combinations(session, Combinations.single(kernels), samples).kernels


def fit_combinations(
    session: Session, combinations: Combinations, samples: Sequence[NDArray[Any]]
) -> Combinations:
    """Fit every kernel to the sample of its variable; refuse constant variables."""
    for number, sample in enumerate(samples):
        if (sample == sample[0]).all():
            session.refuse_constant(number)
    pairs = list(zip(combinations.kernels, combinations.variables, strict=True))
    fitted = {(k, m): _fit(k, samples[m], session.names[m]) for k, m in dict.fromkeys(pairs)}
    return combinations.fitted(fitted[pair] for pair in pairs)


def _fit(kernel: Kernel, sample: NDArray[Any], name: str) -> Kernel:
    try:
        return kernel.fit(sample)
    except DataError as error:
        msg = f"variable {name!r}: {error}"
        raise DataError(msg) from error


def fit_combinations_on_sample(
    session: Session, combinations: Combinations
) -> tuple[Combinations, list[NDArray[np.float64]]]:
    """The kernels as fitted on rows drawn for each variable, and these rows."""
    session.step("fit kernels")
    samples = session.take(bandwidth_rows(session))
    return fit_combinations(session, combinations, samples), samples


def fit_on_sample(
    session: Session, kernels: Sequence[Kernel]
) -> tuple[tuple[Kernel, ...], list[NDArray[np.float64]]]:
    """The kernels as fitted on rows drawn for each, and these rows."""
    fitted, samples = fit_combinations_on_sample(session, Combinations.single(kernels))
    return fitted.kernels, samples


def fitting_step(session: Session) -> DriverStep:
    """What `fit_on_sample` takes."""
    rows = 8 * BANDWIDTH_ROWS * sum(session.dims)
    distances = 8 * BANDWIDTH_ROWS**2  # of all pairs, and a copy for the median
    return DriverStep("fit kernels", 3 * rows + distances, rows)


def passes_of(*sessions: Session) -> tuple[PassSummary, ...]:
    """The passes over the data of one run after another."""
    return tuple(
        PassSummary(done.name, done.blocks, done.bytes_read, done.seconds)
        for session in sessions
        for done in session.finished
    )


def plan_of(
    session: Session,
    steps: Sequence[DriverStep | PassPlan],
    remedy: str,
    n_landmarks: int | None = None,
) -> Plan:
    """The plan of a session.

    Parameters
    ----------
    session : Session
        The run.
    steps : sequence of DriverStep or PassPlan
        In order.
    remedy : str
        What to do where it needs too much memory.
    n_landmarks : int, optional
        Landmarks before pruning.

    Returns
    -------
    Plan
    """
    return Plan(
        session.n,
        session.names,
        n_landmarks,
        session.runtime,
        tuple(steps),
        baseline_bytes(),
        remedy,
    )


def rounding_unit(dtype: DTypeLike) -> float:
    """What sums of many values leave where they cancel, relative to the values."""
    return _ROUNDING * float(np.finfo(dtype).eps)
