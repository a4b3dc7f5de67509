"""Results: frozen, typed, and the same after a trip through JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dhsic._drawing import rounded, shortened
from dhsic._validation import check_number
from dhsic.results.json_value import JsonValue, Parts, one_of, several_of
from dhsic.results.picture import NullLabels, draw_null
from dhsic.results.summaries import (
    FeatureSummary,
    GridSummary,
    KernelCombination,
    LandmarkSummary,
    PassSummary,
    StageSummary,
    VariableSummary,
    rows_text,
    short_spec,
)
from dhsic.results.summarised import Summarised

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AS_ASKED", "DependenceEstimate", "IndependenceTestResult"]

AS_ASKED = "as asked"

_KERNEL_WIDTH = 60
_TITLE_WIDTH = 48


@dataclass(frozen=True, kw_only=True, eq=False)
class _Result(Summarised, JsonValue):
    _label_width: ClassVar[int] = 13
    _label_gap: ClassVar[int] = 1
    _parts: ClassVar[Parts] = {
        "variables": several_of(VariableSummary),
        "passes": several_of(PassSummary),
        "landmarks": one_of(LandmarkSummary),
        "features": one_of(FeatureSummary),
        "grid": one_of(GridSummary, combinations=several_of(KernelCombination)),
        "stages": several_of(StageSummary),
    }

    estimate: float
    quantity: str
    estimator: str
    estimator_reason: str
    n: int
    variables: tuple[VariableSummary, ...]
    landmarks: LandmarkSummary | None
    features: FeatureSummary | None
    precision: str
    seed: int
    passes: tuple[PassSummary, ...]
    seconds: float
    version: str
    dropped: int = 0

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            ("variables", ", ".join(map(_described, self.variables))),
            ("n", rows_text(self.n, self.dropped)),
        ]
        if self.landmarks is not None:
            z = self.landmarks
            chosen = "" if z.pool is None else f", {z.selection} of {z.pool:,} rows"
            why = f"; {z.choice}" if z.choice else ""
            kept = f"{_counts(z.kept)} of {z.drawn:,} kept, {z.pairing} pairing{chosen}{why}"
            rows.append(("landmarks", kept))
        if self.features is not None:
            f = self.features
            orthogonal = ", orthogonal" if f.orthogonal else ""
            rows.append(("features", f"{_counts(f.counts)} {f.kind}{orthogonal}"))
        return rows

    def _tail(self) -> list[tuple[str, str]]:
        count = len(self.passes)
        passes = f"{count} pass{'' if count == 1 else 'es'}, " if count else ""
        return [
            ("seed", str(self.seed)),
            ("time", f"{self.seconds:.2f} s, {passes}{self.precision}"),
        ]

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        estimate = (self.quantity, f"{self.estimate:.6g} ({self._chosen()})")
        return [*self._rows(), estimate, *self._tail()]

    def _chosen(self) -> str:
        reason = self.estimator_reason
        return self.estimator if reason == AS_ASKED else f"{self.estimator}: {reason}"


@dataclass(frozen=True, kw_only=True, eq=False)
class DependenceEstimate(_Result):
    """An estimate of dependence.

    Parameters
    ----------
    estimate : float
        The measure of dependence.
    quantity : str
        What it measures, as "squared HSIC".
    estimator : str
        Its name.
    estimator_reason : str
        Why this one.
    n : int
        Rows.
    variables : tuple of VariableSummary
        The variables with their kernels.
    landmarks : LandmarkSummary or None
        Where the estimator has any.
    features : FeatureSummary or None
        Where the estimator has any.
    precision : str
        Of the tiles; sums are float64 always.
    seed : int
        Fixes every draw.
    passes : tuple of PassSummary
        The passes over the data.
    seconds : float
        Wall time.
    version : str
        Of dhsic.
    dropped : int
        Rows that were left out because a value is missing.
    """


@dataclass(frozen=True, kw_only=True, eq=False)
class IndependenceTestResult(_Result):
    """The outcome of a test of joint independence.

    Parameters
    ----------
    estimate : float
        The measure of dependence.
    quantity : str
        What it measures, as "squared HSIC".
    estimator : str
        Its name.
    estimator_reason : str
        Why this one.
    n : int
        Rows.
    variables : tuple of VariableSummary
        The variables with their kernels.
    landmarks : LandmarkSummary or None
        Where the estimator has any.
    features : FeatureSummary or None
        Where the estimator has any.
    precision : str
        Of the tiles; sums are float64 always.
    seed : int
        Fixes every draw.
    passes : tuple of PassSummary
        The passes over the data.
    seconds : float
        Wall time.
    version : str
        Of dhsic.
    dropped : int
        Rows that were left out because a value is missing.
    statistic : float
        The test statistic. Where there are several, of kernels or of the stages of a chain, the
        largest of their distances from the null distribution, max_c (T_c - m_c) / s_c with m_c and
        s_c the mean and the standard deviation of the replicates of statistic c. It grows with the
        evidence.
    pvalue : float
        Probability under the null hypothesis of values that are at least as large, never 0.
    pvalue_error : float or None
        Monte Carlo standard error of the p-value; None where nothing is simulated.
    null_distribution : ndarray, shape (b,)
        Replicates of the statistic under the null hypothesis; where its law is known in closed
        form, 1,000 draws from it to look at, of which the p-value takes no notice.
    score : float or None
        What the p-value compares with `null_scores`, where there are several statistics. Of a grid
        the aggregated score, see `dhsic.Grid`: with a share of the level for the reference it is
        -log10 of the smaller of p / share and q / (1 - share), where p and q are ranks among the
        b replicates and the data, by the reference and by all others. Ranks end where the data
        lie above all replicates, so that the score is the same for all stronger evidence. Of a
        chain it combines the p-values of the stages, see `dhsic.Chain`. None where there is one
        statistic, which the p-value compares with `null_distribution`.
    null_scores : ndarray, shape (b,), or None
        Replicates of the score under the null hypothesis, or draws from its law.
    null : str
        How the null distribution was made.
    null_reason : str
        Why this one.
    grid : GridSummary or None
        The combinations of kernels, where there were several. Kernels and estimate are then those
        of the strongest.
    stages : tuple of StageSummary
        Of a chain of tests, see `dhsic.Chain`: one for every variable but the first.
    """

    hypothesis: ClassVar[str] = "independence"

    statistic: float
    pvalue: float
    pvalue_error: float | None
    null_distribution: NDArray[np.float64]
    null: str
    null_reason: str
    score: float | None = None
    null_scores: NDArray[np.float64] | None = None
    grid: GridSummary | None = None
    stages: tuple[StageSummary, ...] = ()

    def __post_init__(self) -> None:
        for name in ("null_distribution", "null_scores"):
            if getattr(self, name) is not None:
                replicates = np.array(getattr(self, name), dtype=np.float64)
                replicates.flags.writeable = False
                object.__setattr__(self, name, replicates)

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        error = resamples = ""
        if self.pvalue_error is not None:
            error = f" ± {self.pvalue_error:.2g}"
            resamples = f", {len(self.null_distribution):,} resamples"
        return [
            *self._rows(),
            *self._tried(),
            ("statistic", f"{self.statistic:.6g} ({self._chosen()})"),
            ("p-value", f"{self.pvalue:.4g}{error}"),
            *(("stage", str(stage)) for stage in self.stages),
            ("null", f"{self.null}{resamples}: {self.null_reason}"),
            (self.quantity, f"{self.estimate:.6g}"),
            *self._tail(),
        ]

    def _tried(self) -> list[tuple[str, str]]:
        if self.grid is None:
            return []
        grid = self.grid
        count, strongest = len(grid.combinations), grid.combinations[grid.strongest]
        scores = {"max": "largest of standardised statistics", "min-p": "smallest of p-values"}
        tried = f"{count} combinations, {scores[grid.aggregate]}"
        if grid.reference_share > 0.0:
            tried += f", {grid.reference_share:.2g} of the level for the reference"
        by_itself = f"p = {strongest.pvalue:.4g} by itself, exploratory"
        return [("kernels", f"{tried}; strongest above, {by_itself}")]

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05) -> Axes:
        """Histogram of the null distribution with the statistic and the critical value.

        Of several statistics it has the score, which the p-value compares.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.
        alpha : float, optional
            The level of the critical value.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        MissingDependencyError
            matplotlib is not installed.
        """
        level = check_number(
            "alpha", alpha, "greater than 0 and less than 1", lambda x: 0.0 < x < 1.0, "as 0.05"
        )
        measured, value, values = "statistic", self.statistic, self.null_distribution
        if self.score is not None and self.null_scores is not None:
            measured, value, values = "score", self.score, self.null_scores
        said = f"{measured} {rounded(value)}, p = {rounded(self.pvalue)}"
        axes = draw_null(
            ax,
            values,
            value,
            alpha=level,
            resampled=self.pvalue_error is not None,
            labels=NullLabels(f"{self.null} null", said, f"{self.estimator} {measured}"),
        )
        names = ", ".join(v.name for v in self.variables)
        axes.set_title(f"independence of {shortened(names, _TITLE_WIDTH)}", fontsize=11)
        return axes


def _counts(numbers: int | tuple[int, ...]) -> str:
    """One number, or one a variable."""
    listed = (numbers,) if isinstance(numbers, int) else numbers
    return " and ".join(f"{number:,}" for number in listed)


def _described(variable: VariableSummary) -> str:
    kernel = short_spec(variable.kernel)
    if len(kernel) > _KERNEL_WIDTH:
        kernel = f"{kernel[:_KERNEL_WIDTH]}..."
    return f"{variable.name} ({variable.columns}, {kernel})"
