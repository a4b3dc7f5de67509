"""Accuracy of decisions that are ranked by their scores, and weighted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dhsic._drawing import BLUE, axes_of
from dhsic._validation import named_arguments, shown
from dhsic.errors import InvalidArgumentError
from dhsic.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector = NDArray[np.float64]


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
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        MissingDependencyError
            matplotlib is not installed.
        """
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
    sizes, positive, shares = _checked_scores(scores, truth, weights)
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


def _checked_scores(
    scores: ArrayLike, truth: ArrayLike, weights: ArrayLike | None
) -> tuple[Vector, NDArray[np.bool_], Vector]:
    """Scores, classes and weights of what has a weight."""
    sizes = _checked_numbers("scores", scores)
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
    shares = (
        np.ones(len(sizes)) if weights is None else _checked_numbers("weights", weights, len(sizes))
    )
    if shares.min() < 0.0 or not shares.any():
        msg = f"weights must be at least 0 and not all 0, got {shares.min():g} to {shares.max():g}"
        raise InvalidArgumentError(msg)
    kept = shares > 0.0
    return sizes[kept], positive[kept], shares[kept]


def _checked_numbers(name: str, values: Any, length: int | None = None) -> Vector:
    try:
        given = np.asarray(values)
        # NumPy would drop the imaginary part, and only warn.
        if given.dtype.kind == "c":
            raise TypeError  # only their real parts would be left
        vector = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        msg = f"{name} must be numbers, got {shown(values)}"
        raise InvalidArgumentError(msg) from error
    if vector.ndim != 1 or not len(vector) or length not in (None, len(vector)):
        wanted = "one or more numbers" if length is None else f"{length} numbers, one a score"
        msg = f"{name} must be {wanted}, got shape {vector.shape}"
        raise InvalidArgumentError(msg)
    if not np.isfinite(vector).all():
        msg = f"{name} must be finite, got NaN or infinity: drop such entries"
        raise InvalidArgumentError(msg)
    return vector
