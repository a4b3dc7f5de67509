"""Curves of decisions that are ranked by their scores, and weighted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dhsic import plots
from dhsic._drawing import BLUE, axes_of
from dhsic._validation import named_arguments, shown
from dhsic.errors import InvalidArgumentError, require
from dhsic.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class _Curve(Result):
    """Points by the names of their coordinates, and the area under them."""

    _tabular: ClassVar[bool] = True
    _points: ClassVar[tuple[str, ...]] = ()
    _area: ClassVar[str] = "area"

    def records(self) -> list[dict[str, Any]]:
        """Every point of the curve."""
        columns = [getattr(self, name).tolist() for name in self._points]
        return [dict(zip(self._points, row, strict=True)) for row in zip(*columns, strict=True)]

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        area = getattr(self, self._area)
        count = len(getattr(self, self._points[0]))
        return [(self._area.replace("_", " "), f"{area:.6g}"), ("points", f"{count:,}")]


@dataclass(frozen=True, eq=False, repr=False)
class RocCurve(_Curve):
    """True positive rate against false positive rate, over all thresholds of the score.

    Parameters
    ----------
    false_positive_rate, true_positive_rate : ndarray, shape (k + 1,)
        Shares of the weight of each class that score at the threshold or above, from 0 to 1.
    thresholds : ndarray, shape (k + 1,)
        Infinity and the k different scores, the largest first.
    auc : float
        Area under the curve: the probability that a positive one scores above a negative one,
        both drawn by weight, ties counted by half.

    References
    ----------
    .. [1] T. Fawcett. An introduction to ROC analysis. Pattern Recognition Letters 27, 2006.

    Examples
    --------
    >>> from dhsic.causal import roc_curve
    >>> curve = roc_curve([0.9, 0.8, 0.3], [True, False, True])
    >>> curve.auc, curve.true_positive_rate
    (0.5, array([0. , 0.5, 0.5, 1. ]))
    """

    _points: ClassVar[tuple[str, ...]] = ("thresholds", "false_positive_rate", "true_positive_rate")
    _area: ClassVar[str] = "auc"

    false_positive_rate: Vector
    true_positive_rate: Vector
    thresholds: Vector
    auc: float

    def plot(self, ax: Axes | None = None, *, label: str = "") -> Axes:
        """Draw the curve, see `dhsic.plots.roc_curves`."""
        return plots.roc_curves({label or "score": self}, ax=ax)


@dataclass(frozen=True, eq=False, repr=False)
class PrecisionRecallCurve(_Curve):
    """Precision against recall, over all thresholds of the score.

    Parameters
    ----------
    recall : ndarray, shape (k,)
        Share of the weight of the positive ones that scores at the threshold or above.
    precision : ndarray, shape (k,)
        Share of the weight at the threshold or above that is of positive ones.
    thresholds : ndarray, shape (k,)
        The k different scores, the largest first.
    average_precision : float
        Area under the steps: sum_k (recall_k - recall_{k-1}) precision_k.

    References
    ----------
    .. [1] J. Davis, M. Goadrich. The relationship between precision-recall and ROC curves. ICML
       2006.

    Examples
    --------
    >>> from dhsic.causal import precision_recall_curve
    >>> precision_recall_curve([0.9, 0.8, 0.3], [True, False, True]).recall
    array([0.5, 0.5, 1. ])
    """

    _points: ClassVar[tuple[str, ...]] = ("thresholds", "recall", "precision")
    _area: ClassVar[str] = "average_precision"

    recall: Vector
    precision: Vector
    thresholds: Vector
    average_precision: float

    def plot(self, ax: Axes | None = None, *, label: str = "") -> Axes:
        """Draw the curve, see `dhsic.plots.precision_recall_curves`."""
        return plots.precision_recall_curves({label or "score": self}, ax=ax)


@dataclass(frozen=True, eq=False, repr=False)
class AccuracyCurve(_Curve):
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

    _points: ClassVar[tuple[str, ...]] = ("decision_rate", "accuracy")

    decision_rate: Vector
    accuracy: Vector
    area: float

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
def roc_curve(scores: ArrayLike, truth: ArrayLike, weights: ArrayLike | None = None) -> RocCurve:
    """Receiver operating characteristic of weighted scores.

    Parameters
    ----------
    scores : array-like, shape (n,)
        The larger, the more is positive believed; as those of `directions`.
    truth : array-like of bool, shape (n,)
        Whether it is positive; of pairs, whether the first variable is the cause.
    weights : array-like, shape (n,), optional
        At least 0; 1 where not given. Cases of weight 0 are left out.

    Returns
    -------
    RocCurve

    Raises
    ------
    InvalidArgumentError
        Lengths differ, a number is not finite, a weight is negative, or one class has no weight.
    MissingDependencyError
        scikit-learn is not installed.

    References
    ----------
    .. [1] T. Fawcett. An introduction to ROC analysis. Pattern Recognition Letters 27, 2006.

    Examples
    --------
    >>> roc_curve([0.9, 0.8, 0.3], [True, False, True], [1, 1, 2]).auc
    0.3333333333333333
    """
    sizes, positive, shares = _checked_scores(scores, truth, weights)
    if positive.all():
        _refuse_one_class("negative")
    metrics = _metrics("A ROC curve")
    negative_rate, positive_rate, thresholds = metrics.roc_curve(
        # Points on a straight line are kept: a curve has one for every different score.
        positive,
        sizes,
        sample_weight=shares,
        drop_intermediate=False,
    )
    area = float(metrics.auc(negative_rate, positive_rate))
    return RocCurve(negative_rate, positive_rate, thresholds, area)


@named_arguments
def precision_recall_curve(
    scores: ArrayLike, truth: ArrayLike, weights: ArrayLike | None = None
) -> PrecisionRecallCurve:
    """Precision and recall of weighted scores.

    Parameters
    ----------
    scores, truth, weights
        As for `roc_curve`.

    Returns
    -------
    PrecisionRecallCurve

    Raises
    ------
    InvalidArgumentError, MissingDependencyError
        As for `roc_curve`; but all may be positive.

    References
    ----------
    .. [1] J. Davis, M. Goadrich. The relationship between precision-recall and ROC curves. ICML
       2006.

    Examples
    --------
    >>> found = precision_recall_curve([0.9, 0.8, 0.3], [True, False, True], [1, 1, 2])
    >>> found.precision
    array([1.  , 0.5 , 0.75])
    """
    sizes, positive, shares = _checked_scores(scores, truth, weights)
    metrics = _metrics("A precision-recall curve")
    precision, recall, thresholds = metrics.precision_recall_curve(
        positive, sizes, sample_weight=shares
    )
    average = float(metrics.average_precision_score(positive, sizes, sample_weight=shares))
    # the smallest threshold comes first there, and after the largest a point that has none
    last = len(thresholds)
    return PrecisionRecallCurve(
        recall[:last][::-1], precision[:last][::-1], thresholds[::-1], average
    )


@named_arguments
def accuracy_curve(
    scores: ArrayLike, truth: ArrayLike, weights: ArrayLike | None = None
) -> AccuracyCurve:
    """Share of right decisions against the share that is decided, the most confident first.

    A decision is the sign of the score, and its confidence the absolute value.

    Parameters
    ----------
    scores, truth, weights
        As for `roc_curve`.

    Returns
    -------
    AccuracyCurve

    Raises
    ------
    InvalidArgumentError
        As for `roc_curve`; but the classes do not matter.

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
    sizes, positive, shares = _checked_scores(scores, truth, weights, classes=False)
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


def _metrics(purpose: str) -> Any:
    """The metrics of scikit-learn."""
    try:
        from sklearn import metrics
    except ImportError as error:
        missing = require("scikit-learn", "causal", purpose)
        raise missing from error
    return metrics


def _checked_scores(
    scores: ArrayLike, truth: ArrayLike, weights: ArrayLike | None, *, classes: bool = True
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
    if classes and not positive[kept].any():
        _refuse_one_class("positive")
    return sizes[kept], positive[kept], shares[kept]


def _refuse_one_class(missing: str) -> None:
    msg = f"both classes must have weight, got no {missing} one: give pairs of either direction"
    raise InvalidArgumentError(msg)


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
