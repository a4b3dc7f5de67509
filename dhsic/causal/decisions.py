"""Decisions about pairs of variables, and the accuracy of those that are ranked by their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dhsic._validation import named_arguments, shown
from dhsic.errors import InvalidArgumentError
from dhsic.plots import BLUE, axes_of, finite_vector, rounded
from dhsic.results import AS_ASKED, BarResult, Result, RunFields

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector = NDArray[np.float64]
DirectionCriterion = Literal["p-value", "larger-p-value", "hsic", "sensitivity"]

UNDECIDED = "undecided"


@dataclass(frozen=True, eq=False, repr=False)
class AccuracyCurve(Result):
    """Share of right decisions among the most confident ones.

    Parameters
    ----------
    decision_rate : ndarray, shape (k,)
        Share of the weight that is decided, from that with the largest absolute score to all.
    accuracy : ndarray, shape (k,)
        Share of the decided weight where the sign of the score is right; a score of 0 is a tossed
        coin, right by half.
    area : float
        Mean accuracy over the decision rates: sum_k (rate_k - rate_{k-1}) accuracy_k.

    References
    ----------
    .. [1] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
       from effect using observational data: methods and benchmarks. Journal of Machine
       Learning Research 17, 2016.

    Examples
    --------
    >>> from dhsic.causal import accuracy_curve
    >>> curve = accuracy_curve([-3.0, 2.0, 1.0], [False, True, False])
    >>> curve.accuracy.round(2)
    array([1.  , 1.  , 0.67])
    """

    _tabular: ClassVar[bool] = True

    decision_rate: Vector
    accuracy: Vector
    area: float

    def records(self) -> list[dict[str, Any]]:
        """Every point of the curve."""
        points = zip(self.decision_rate.tolist(), self.accuracy.tolist(), strict=True)
        return [{"decision_rate": rate, "accuracy": right} for rate, right in points]

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        return [("area", f"{self.area:.6g}"), ("points", f"{len(self.accuracy):,}")]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the curve."""
        axes = axes_of(ax, (4.8, 4.2))
        axes.plot(self.decision_rate, self.accuracy, color=BLUE, marker=".", label="accuracy")
        axes.axhline(0.5, color="0.6", linestyle="--", linewidth=1.0, label="tossed coins")
        axes.set(xlabel="share that is decided", ylabel="share that is right", ylim=(-0.02, 1.02))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="lower right", fontsize=9, frameon=False)
        return axes


@named_arguments
def accuracy_curve(
    scores: ArrayLike, truth: ArrayLike, weights: ArrayLike | None = None
) -> AccuracyCurve:
    """Share of right decisions against the share that is decided, the most confident first.

    A decision is the sign of the score, and its confidence the absolute value.

    Parameters
    ----------
    scores : array-like, shape (n,)
        Positive where the first variable is believed to be the cause; as those of `directions`.
    truth : array-like of bool, shape (n,)
        Whether the first variable is the cause.
    weights : array-like, shape (n,), optional
        At least 0; 1 where not given. Pairs of weight 0 are left out.

    Returns
    -------
    AccuracyCurve

    Raises
    ------
    InvalidArgumentError
        Lengths differ, a number is not finite, or a weight is negative.

    References
    ----------
    .. [1] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
       from effect using observational data: methods and benchmarks. Journal of Machine
       Learning Research 17, 2016.

    Examples
    --------
    >>> accuracy_curve([-3.0, 2.0, 1.0], [False, True, False]).accuracy
    array([1.        , 1.        , 0.66666667])
    """
    sizes = finite_vector("scores", scores)
    try:
        positive = np.asarray(truth)
    except ValueError as error:
        msg = f"truth must be {len(sizes)} booleans, one a score, got {shown(truth)}"
        raise InvalidArgumentError(msg) from error
    if positive.dtype != bool or positive.shape != sizes.shape:
        msg = (
            f"truth must be {len(sizes)} booleans, one a score, got {positive.dtype} of shape "
            f"{positive.shape}: True where the first variable is the cause"
        )
        raise InvalidArgumentError(msg)
    given = np.ones(len(sizes)) if weights is None else weights
    shares = finite_vector("weights", given, len(sizes))
    if shares.min() < 0.0 or not shares.any():
        msg = f"weights must be at least 0 and not all 0, got {shares.min():g} to {shares.max():g}"
        raise InvalidArgumentError(msg)
    kept = shares > 0.0
    sizes, positive, shares = sizes[kept], positive[kept], shares[kept]
    # A score of 0 decides nothing, and is right half of the time.
    right = np.where(sizes == 0.0, 0.5, (sizes > 0.0) == positive)
    order = np.argsort(-np.abs(sizes), kind="stable")
    # Equal confidences are decided together, or their order in the data would shape the curve.
    last = np.append(np.diff(np.abs(sizes)[order]) != 0.0, True)
    decided = np.cumsum(shares[order])[last]
    rate = decided / decided[-1]
    accuracy = np.cumsum((shares * right)[order])[last] / decided
    # Each share of the decisions counts with the accuracy at its end.
    return AccuracyCurve(rate, accuracy, float(np.diff(rate, prepend=0.0) @ accuracy))


@dataclass(frozen=True)
class DirectionEvidence:
    """One of both directions: how the residuals of the effect depend on the cause.

    Parameters
    ----------
    hsic : float
        Squared HSIC of the cause and the residuals of the effect, or whatever measure the estimator
        has.
    pvalue : float or None
        P-value of their independence, where the criterion asks for it.
    sensitivity : tuple of float or None
        Where the criterion asks for them, the root mean squares of the derivatives of n HSIC in the
        cause and in the residuals, both in units of the standardised variables.
    """

    hsic: float
    pvalue: float | None = None
    sensitivity: tuple[float, float] | None = None

    def __str__(self) -> str:
        said = [f"HSIC {rounded(self.hsic)}"]
        if self.pvalue is not None:
            said.append(f"p-value {rounded(self.pvalue)}")
        if self.sensitivity is not None:
            cause, residuals = map(rounded, self.sensitivity)
            said.append(f"sensitivity to the cause {cause}, to the residuals {residuals}")
        return ", ".join(said)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CausalDirection(RunFields, BarResult):
    """Which of two variables is the cause of the other, if either is and noise is added.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data, missing
        Of the run, see `dhsic.results.RunFields`.
    names : tuple of str
        Names of both variables.
    score : float
        Positive where the first is believed to be the cause, negative where the second is; its
        size ranks the confidence among pairs.
    forward, backward : DirectionEvidence
        The first variable as the cause of the second, and the second as that of the first.
    criterion : {"p-value", "larger-p-value", "hsic", "sensitivity"}
        Quantity that the score compares.
    estimator : str
        Estimator of the dependence.
    null : str or None
        How the p-values were made, where the criterion asks for them.
    regression : str
        That left the residuals.
    estimator_reason : str
        Why this one.
    rows_reason : str
        Why so many rows.

    References
    ----------
    .. [1] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
       from effect using observational data: methods and benchmarks. Journal of Machine
       Learning Research 17, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic import causal
    >>> x, noise = np.random.default_rng(0).uniform(-1.0, 1.0, (2, 300))
    >>> found = causal.direction(x, x + x**3 + 0.5 * noise, names=["x", "y"], rng=0)
    >>> found.direction, found.score > 0
    ('x -> y', True)
    """

    names: tuple[str, str]
    score: float
    forward: DirectionEvidence
    backward: DirectionEvidence
    criterion: DirectionCriterion
    estimator: str
    null: str | None
    regression: str
    estimator_reason: str = AS_ASKED
    rows_reason: str = AS_ASKED

    @property
    def direction(self) -> str:
        """The names with an arrow, as "x -> y"; "undecided" where the score is 0."""
        # Scores of 0 are those of equal evidence, which decides nothing.
        if self.score == 0.0:
            return UNDECIDED
        cause, effect = self.names if self.score > 0.0 else self.names[::-1]
        return f"{cause} -> {effect}"

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        first, second = self.names
        by = self.criterion if self.null is None else f"{self.criterion}, {self.null} null"
        reason = "" if self.estimator_reason == AS_ASKED else f": {self.estimator_reason}"
        why = "" if self.rows_reason == AS_ASKED else f": {self.rows_reason}"
        return [
            ("direction", self.direction),
            ("score", f"{self.score:.6g} (by {by})"),
            (f"{first} -> {second}", str(self.forward)),
            (f"{second} -> {first}", str(self.backward)),
            ("estimator", f"{self.estimator}{reason}"),
            ("regression", self.regression),
            ("n", f"{self._rows_told}{why}"),
            *self._tail(),
        ]

    def records(self) -> list[dict[str, Any]]:
        """One row."""
        first, second = self.names
        sides = {
            f"{quantity}_{way}": getattr(side, quantity)
            # The same quantities of both directions, side by side.
            for way, side in (("forward", self.forward), ("backward", self.backward))
            for quantity in ("hsic", "pvalue")
        }
        told = {"first": first, "second": second, "direction": self.direction, "score": self.score}
        how = {"criterion": self.criterion, "estimator": self.estimator, "null": self.null}
        return [{**told, **sides, **how, "regression": self.regression, "n": self.n}]

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        first, second = self.names
        # All criteria have HSIC, and only some have p-values or maps.
        sizes = [self.forward.hsic, self.backward.hsic]
        return [f"{first} -> {second}", f"{second} -> {first}"], sizes, "HSIC with the residuals"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CausalDirections(BarResult):
    """The directions of many pairs.

    Parameters
    ----------
    pairs : tuple of str
        Names of the pairs.
    results : tuple of CausalDirection
        Results of each.
    seed : int
        Fixes every draw; each result has a seed of its own, which gives it again.
    seconds : float
        Wall time.

    References
    ----------
    .. [1] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
       from effect using observational data: methods and benchmarks. Journal of Machine
       Learning Research 17, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic import causal
    >>> x, noise = np.random.default_rng(0).uniform(-1.0, 1.0, (2, 300))
    >>> y = x + x**3 + 0.5 * noise
    >>> found = causal.directions({"up": (x, y), "down": (y, x)}, criterion="hsic", rng=0)
    >>> [one.direction for one in found.results]
    ['x1 -> x2', 'x2 -> x1']
    """

    _tabular: ClassVar[bool] = True
    _leading: ClassVar[int] = 1

    pairs: tuple[str, ...]
    results: tuple[CausalDirection, ...]
    seed: int
    seconds: float

    @property
    def scores(self) -> NDArray[np.float64]:
        """Scores of all pairs, shape (k,); positive where the first variable is the cause."""
        return np.array([result.score for result in self.results])

    def accuracy_curve(self, truth: ArrayLike, weights: ArrayLike | None = None) -> AccuracyCurve:
        """Share of right decisions against that of decided pairs, see `accuracy_curve`."""
        return accuracy_curve(self.scores, truth, weights)

    def table(self, most: int | None = None) -> tuple[list[str], list[list[str]]]:
        """A header, and the pairs by confidence: name, direction, score, both values of HSIC."""
        # A stable sort keeps pairs of the same confidence in their order.
        order = np.argsort(-np.abs(self.scores), kind="stable")[:most]
        rows: list[list[str]] = []
        for k in order:
            result = self.results[k]
            sides = (rounded(result.forward.hsic), rounded(result.backward.hsic))
            rows.append([self.pairs[k], result.direction, f"{result.score:.4g}", *sides])
        return ["pair", "direction", "score", "HSIC forward", "HSIC backward"], rows

    def records(self) -> list[dict[str, Any]]:
        """Every pair, in their order."""
        each = zip(self.pairs, self.results, strict=True)
        return [{"pair": pair, **result.records()[0]} for pair, result in each]

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        order = np.argsort(-np.abs(self.scores), kind="stable")
        names = [f"{self.pairs[k]}: {self.results[k].direction}" for k in order]
        return names, self.scores[order].tolist(), "score"

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        first = self.results[0]
        decided = np.sign(self.scores)
        counts = f"{int((decided > 0).sum()):,} forward, {int((decided < 0).sum()):,} backward"
        return [
            ("pairs", f"{len(self.pairs):,}"),
            ("directions", f"{counts}, {int((decided == 0).sum()):,} undecided"),
            ("criterion", first.criterion),
            ("estimator", first.estimator),
            ("regression", first.regression),
            ("seed", str(self.seed)),
            ("time", f"{self.seconds:.2f} s"),
        ]
