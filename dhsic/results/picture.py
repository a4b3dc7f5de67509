"""The picture of the null distribution of a test."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dhsic._drawing import BLUE, GREY, ORANGE, axes_of, rounded

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector = NDArray[np.float64]

_MOST_BINS = 60
_NARROW = 0.02
_HEADROOM = 1.45  # of the bars, so that the legend stands above them and the lines
_FAR = 2.0  # widths of the null distribution beyond which the axis is logarithmic


def critical_value(values: Vector, alpha: float, *, resampled: bool) -> float | None:
    """Critical value that a significant statistic exceeds.

    Parameters
    ----------
    values : ndarray, shape (b,)
        Replicates of the statistic, or draws from its law.
    alpha : float
        The level.
    resampled : bool
        Replicates: among them the observed value counts as one, so that the p-value is at most
        alpha where fewer than floor(alpha (b + 1)) of them reach the statistic. Otherwise the
        quantile of the draws, an estimate.

    Returns
    -------
    float or None
        None where so few replicates can decide nothing.

    Examples
    --------
    >>> critical_value(np.arange(19.0), 0.1, resampled=True)
    17.0
    """
    if not resampled:
        return float(np.quantile(values, 1.0 - alpha)) if len(values) else None
    most = math.floor(alpha * (len(values) + 1) * (1.0 + 1e-12))  # p = most / (b + 1) rejects
    return float(np.sort(values)[-most]) if 1 <= most <= len(values) else None


def draw_null(
    ax: Axes | None,
    values: Vector,
    statistic: float,
    *,
    alpha: float,
    resampled: bool,
    null: str,
    told: str,
    quantity: str,
) -> Axes:
    """Histogram of a null distribution with lines at the statistic and the critical value.

    Parameters
    ----------
    ax : Axes or None
        Where to draw; a new figure where None.
    values : ndarray, shape (b,)
        Replicates of the statistic, or draws from its law.
    statistic : float
        The observed value.
    alpha : float
        The level of the critical value.
    resampled : bool
        Whether the values are replicates.
    null, told, quantity : str
        Labels of the histogram, of the line at the statistic, and of the values.

    Returns
    -------
    Axes
    """
    axes = axes_of(ax, (6.4, 3.8))
    axes.hist(
        values,
        bins=_edges(values, statistic).tolist(),
        color=GREY,
        edgecolor="white",
        linewidth=0.5,
        label=null,
    )
    _, highest = axes.get_ylim()
    axes.set_ylim(0.0, _HEADROOM * highest)
    tall = 1.0 / _HEADROOM
    axes.axvline(statistic, ymax=tall, color=ORANGE, linewidth=2.0, label=told)
    critical = critical_value(values, alpha, resampled=resampled)
    if critical is not None:
        about = "" if resampled else "about "
        said = f"critical value at {100 * alpha:g} %, {about}{rounded(critical)}"
        axes.axvline(critical, ymax=tall, color=BLUE, linewidth=1.5, linestyle="--", label=said)
    axes.set_ylabel("replicates" if resampled else "draws")
    axes.set_xlabel(quantity + _far_out(axes, values, statistic))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper right", fontsize=9, frameon=False)
    return axes


def _edges(values: Vector, statistic: float) -> Vector:
    """Edges of the bars; of one narrow bar where all values are equal."""
    if len(values) and np.ptp(values) == 0.0:
        value = float(values[0])
        half = _NARROW * (abs(statistic - value) or abs(value) or 1.0)
        return value + half * np.array([-1.0, 1.0])
    bins = int(np.clip(math.ceil(math.sqrt(len(values))), 5, _MOST_BINS))
    return np.histogram_bin_edges(values, bins)


def _far_out(axes: Axes, values: Vector, statistic: float) -> str:
    """Where the statistic lies far out a linear axis would squeeze the null into a line."""
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, statistic)
    threshold = max(abs(low), abs(high))
    near = statistic - high <= _FAR * (high - low) or statistic <= _FAR * threshold
    if near or low == high:
        return ""
    decades = math.log10(statistic / threshold) + 1.0
    axes.set_xscale("symlog", linthresh=threshold, linscale=decades)
    axes.set_xlim(min(low, 0.0), statistic * 10.0 ** min(0.1 * decades, 1.0))
    powers = 10.0 ** np.arange(math.ceil(math.log10(3.0 * threshold)), math.log10(statistic) + 0.1)
    axes.set_xticks([0.0, threshold / 2, threshold, *powers[:: -1 - len(powers) // 3]])
    axes.xaxis.set_major_formatter(lambda value, _: f"{float(f'{value:.2g}'):g}")  # 100, no 1e+02
    axes.minorticks_off()
    return " (logarithmic beyond the null)"
