"""The outcome of a test: frozen, typed, and the same after a trip through JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dhsic._drawing import axes_beside, rounded, shortened
from dhsic._validation import check_level
from dhsic.results.contract import Findings, Records, Sketch
from dhsic.results.estimate import DependenceEstimate
from dhsic.results.grid import GridSummary
from dhsic.results.picture import draw_null
from dhsic.results.summaries import StageSummary
from dhsic.results.texts import floor_text, is_least, kernel_text, pvalue_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE_WIDTH = 48
_LEVEL = 0.05

_MEANING = (
    "The p-value is the probability of a statistic at least as large under {0}, of rows that are "
    "exchangeable. Where {0} is not rejected, it is not shown either."
)
_EXPLORATORY = (
    "The p-value of the test accounts for all kernels tried, judged by {0}; those of the table are "
    "of a combination by itself, and exploratory, as is the picture of evidence by kernel and "
    "length. The histogram has the score of all together, which the p-value compares with those of "
    "the replicates."
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class IndependenceTestResult(DependenceEstimate):
    """The outcome of a test of joint independence, which has an estimate of the dependence.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data, missing
        Of the run, see `dhsic.results.RunFields`.
    estimate : float
        The measure of dependence, by the kernels of `variables`. Where several were tried they are
        those of the reference, fixed before the data were seen, and not the strongest, by which
        independent variables would have an estimate above 0.
    quantity : str
        Quantity that is estimated, as "squared HSIC".
    estimator : str
        Its name.
    estimator_reason : str
        Why this one.
    variables : tuple of VariableSummary
        The variables with their kernels.
    landmarks : LandmarkSummary or None
        Where the estimator has any.
    features : FeatureSummary or None
        Where the estimator has any.
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
    null : str
        How the null distribution was made.
    null_reason : str
        Why this one.
    score : float or None
        The p-value compares it with `null_scores`, where there are several statistics. For a grid
        it joins the standardised statistics, see `dhsic.Grid`: with aggregate="soft" by their soft
        maximum, which grows with the evidence. With "max" and "min-p", where the reference has a
        share of the level, it is -log10 of the smaller of p / share and q / (1 - share), with p and
        q the ranks among the b replicates and the data, by the reference and by all others. Ranks
        end where the data lie above all replicates, so that this score is the same for all stronger
        evidence. For a chain it combines the p-values of the stages, see `dhsic.Chain`. None where
        there is one statistic, which the p-value compares with `null_distribution`.
    null_scores : ndarray, shape (b,), or None
        Replicates of the score under the null hypothesis, or draws from its law.
    grid : GridSummary or None
        The combinations of kernels, where there were several; `variables` have the reference.
    stages : tuple of StageSummary
        Stages of a chain of tests, see `dhsic.Chain`: one for every variable but the first.

    References
    ----------
    .. [1] A. Gretton, K. Fukumizu, C. Teo, L. Song, B. Schoelkopf, A. Smola. A kernel statistical
       test of independence. NeurIPS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 200))
    >>> result = dhsic.independence_test(x, x**2 + noise, rng=0)
    >>> result.pvalue, len(result.null_distribution)
    (0.001, 999)
    >>> type(result).from_json(result.to_json()) == result
    True
    """

    hypothesis: ClassVar[str] = "independence"
    question: ClassVar[str] = "Are {} independent?"
    _columns: ClassVar[tuple[str, ...]] = (
        *("null", "statistic", "pvalue", "pvalue_error", "score"),
        *DependenceEstimate._columns,
    )

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

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        count = len(self.null_distribution)
        drawn = self.pvalue_error is not None or self.stages
        resamples = f", {count:,} replicates" if drawn else ""
        of_reference = " (of the reference kernels, shown above)" if self.grid else ""
        return [
            *self._rows(),
            *([] if self.grid is None else [("kernels", self.grid.tried)]),
            ("statistic", f"{self.statistic:.6g} ({self._chosen()})"),
            ("p-value", self._pvalue_text),
            *(("stage", stage.told(count)) for stage in self.stages),
            ("null", f"{self.null}{resamples}: {self.null_reason}"),
            (self.quantity, f"{self.estimate:.6g}{of_reference}"),
            *self._tail(),
        ]

    @property
    def _measured(self) -> tuple[str, float, NDArray[np.float64]]:
        """The name of what the p-value compares, its value, and those of the replicates."""
        if self.score is None or self.null_scores is None:
            return "statistic", self.statistic, self.null_distribution
        # A chain combines p-values of its stages, whatever joins the kernels within each.
        soft = self.grid is not None and self.grid.aggregate == "soft" and not self.stages
        return "soft maximum" if soft else "score", self.score, self.null_scores

    def records(self) -> list[dict[str, Any]]:
        count = 1 if self.grid is None else len(self.grid.combinations)
        told = {"replicates": len(self.null_distribution), "combinations": count}
        return [{**super().records()[0], **told}]

    def findings(self, alpha: float, control: str) -> Findings:
        del control
        lead = f"{self.hypothesis.capitalize()} {decision(self, alpha)} ({self._p})"
        words = "Histogram of the null distribution, with the statistic and the critical value."
        tables, sketches = self._tables(), [Sketch(partial(self.plot, alpha=alpha), words)]
        notes = [_MEANING.format(self.hypothesis)]
        if self.grid is not None:
            tables["Kernels tried"] = self._kernel_rows(self.grid)
            words = f"Evidence of every combination of kernels; the strongest is {self.grid.told}."
            draw = partial(self.grid.plot, names=self._compared)
            sketches.append(Sketch(draw, words, (7.2, 4.4)))
            notes.append(_EXPLORATORY.format(self.grid.judged))
        return Findings(self._subject, lead, sketches, tables, notes)

    @property
    def _compared(self) -> list[str]:
        """Names of what the kernels of a combination are of."""
        if self.stages:  # the one that decided
            stage = min(self.stages, key=lambda stage: stage.pvalue)
            return [f"variables before {stage.variable}", stage.variable]
        return [v.name for v in self.variables]  # of two samples one, their values

    @property
    def _pvalue_text(self) -> str:
        count = len(self.null_distribution)
        if any(is_least(stage.pvalue, count) for stage in self.stages):
            least = floor_text(count, reason=self.null_reason)
            return f"<= {self.pvalue:.4g} (that of a stage is {least})"
        best_rank = 1 if self.grid is None else self.grid.best_rank
        return pvalue_text(self.pvalue, self.pvalue_error, count, best_rank, self.null_reason)

    @property
    def _p(self) -> str:
        """As "p = 0.25", or "p <= 0.001" where it can be no smaller."""
        said = self._pvalue_text.partition(" (")[0].partition(" ±")[0]
        return f"p {said}" if said.startswith("<=") else f"p = {said}"

    @property
    def _subject(self) -> str:
        return self.question.format(_names_in_sentence(self._asked))

    @property
    def _asked(self) -> tuple[str, ...]:
        """Names of what is compared."""
        return tuple(v.name for v in self.variables)

    def _kernel_rows(self, grid: GridSummary) -> Records:
        names = [f"kernel of {name}" for name in self._compared]
        return [
            {
                "no.": place + 1,
                **dict(zip(names, map(kernel_text, tried.kernels), strict=True)),
                "statistic": tried.statistic,
                "standardised": tried.standardised,
                "p": tried.pvalue,
                "role": grid.roles.get(place, ""),
            }
            for place, tried in enumerate(grid.combinations)
        ]

    def _brief(self) -> list[str]:
        verdict = "rejected" if self.pvalue <= _LEVEL else "not rejected"  # P(p <= level) <= level
        tried = [] if self.grid is None else [f"{len(self.grid.combinations)} kernel combinations"]
        said = [self._p, f"{self.hypothesis} {verdict} at {_LEVEL:g}"]
        return [*said, self.estimator, f"n = {self.n:,}", *tried]

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05) -> Axes:
        """Histogram of the null distribution with the statistic and the critical value.

        Where there are several statistics, it has the score, which the p-value compares. For a
        grid a new figure has the evidence by kernel and length beside it, see `GridSummary.plot`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw the histogram; a new figure where not given.
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
        level = check_level(alpha)
        measured, value, values = self._measured
        if ax is None and self.grid is not None:
            ax, evidence = axes_beside((6.4, 6.4), 4.4)
            self.grid.plot(evidence, names=self._compared)
        axes = draw_null(
            ax,
            values,
            value,
            alpha=level,
            resampled=self.pvalue_error is not None,
            null=f"{self.null} null",
            told=f"{measured} {rounded(value)}, {self._p}",
            quantity=f"{self.estimator} {measured}",
        )
        names = shortened(_names_in_sentence(self._asked), _TITLE_WIDTH)
        axes.set_title(self.question.format(names), fontsize=11)
        return axes


def _names_in_sentence(names: tuple[str, ...]) -> str:
    """Names in a sentence."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def decision(result: IndependenceTestResult, alpha: float) -> str:
    """Whether a level rejects independence, and whether more replicates could say otherwise."""
    rejected = result.pvalue <= alpha
    verdict = f"{'rejected' if rejected else 'not rejected'} at level {alpha:g}"
    if result.pvalue_error is None:
        return verdict
    resamples = len(result.null_distribution)
    if 1 / (resamples + 1) > alpha:
        # Rounding of 1 / alpha must not ask for one more.
        enough = math.ceil(1 / alpha - 1e-9) - 1
        return f"{verdict}; {resamples:,} replicates never can, take {enough:,} or more"
    # Within two standard errors another seed may decide otherwise.
    if abs(result.pvalue - alpha) < 2 * result.pvalue_error:
        return f"{verdict}; a close call, take more replicates"
    return verdict
