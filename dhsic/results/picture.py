"""Pictures of results: the null distribution of a test, evidence by kernel, and bars of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._drawing import BLUE, GREY, ORANGE, axes_of, rounded, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dhsic.results.summaries import GridSummary

Vector = NDArray[np.float64]

_MOST_BINS = 60
_NAME = 34  # characters
_NARROW = 0.02
_HEADROOM = 1.45  # of the bars, so that the legend stands above them and the lines
_MOST_TRIED = 40
_DISTANCE = "standard deviations above the replicates"
_EVIDENCE = f"Evidence by kernel and length,\n{_DISTANCE}"
_FAR = 2.0  # widths of the null distribution beyond which the axis is logarithmic


class NullLabels(NamedTuple):
    """Texts of the picture of a null distribution."""

    null: str
    """Label of the histogram."""
    statistic: str
    """Label of the line at the statistic."""
    axis: str
    """Label of the values."""


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


def draw_bars(
    axes: Axes, names: Sequence[str], values: Sequence[float], quantity: str, *, most: int
) -> Axes:
    """Bars of the first numbers, one below another, in their order.

    Parameters
    ----------
    axes : Axes
        Where to draw.
    names : sequence of str
        One a bar.
    values : sequence of float
        Their lengths.
    quantity : str
        The label of the axis.
    most : int
        Bars to draw.

    Returns
    -------
    Axes
    """
    shown = min(most, len(names))
    axes.barh(range(shown), list(values[:shown]), color=BLUE, height=0.72)
    axes.set_yticks(range(shown), [shortened(name, _NAME) for name in names[:shown]])
    axes.tick_params(axis="y", labelsize=9, length=0)
    axes.set_ylim(max(shown, 1) - 0.4, -0.6)
    axes.set_xlabel(quantity if shown == len(names) else f"{quantity}, {shown} of {len(names):,}")
    axes.locator_params(axis="x", nbins=5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return axes


def draw_evidence(ax: Axes | None, grid: GridSummary, names: Sequence[str] | None) -> Axes:
    """Distances of statistics from their replicates, a cell or a bar a combination of kernels.

    Parameters
    ----------
    ax : Axes or None
        Where to draw; a new figure where None.
    grid : GridSummary
        The combinations.
    names : sequence of str or None
        Names of the variables; x1, x2, ... where None.

    Returns
    -------
    Axes
    """
    axes = axes_of(ax, (6.4, 4.4))
    axes.set_title(_EVIDENCE, fontsize=11)
    count = len(grid.combinations[0].kernels)
    if count == 1:  # of samples, whose values have the kernel
        return _evidence_bars(axes, grid, ["values"])
    labels = [f"x{number + 1}" for number in range(count)] if names is None else names
    return (_evidence_map if count == 2 else _evidence_bars)(axes, grid, labels)


def _evidence_bars(axes: Axes, grid: GridSummary, names: Sequence[str]) -> Axes:
    """Bars of kernels, variable by variable: that of the strongest combination with each."""
    best: dict[str, float] = {}
    for variable, name in enumerate(names):
        for scale in _by_length(grid, variable):
            distances = [c.standardised for c in grid.combinations if c.scales[variable] == scale]
            best[f"{name}: {scale.replace(', length', ',')}"] = max(distances)
    return draw_bars(axes, list(best), list(best.values()), _DISTANCE, most=_MOST_TRIED)


def _evidence_map(axes: Axes, grid: GridSummary, names: Sequence[str]) -> Axes:
    """Kernels of the first variable down, of the second across, from long to short lengths."""
    rows, columns = (_by_length(grid, variable) for variable in (0, 1))
    values = np.full((len(rows), len(columns)), np.nan)
    for tried in grid.combinations:
        i, j = rows.index(tried.scales[0]), columns.index(tried.scales[1])
        values[i, j] = tried.standardised
    # Without evidence anywhere the map stays pale, rather than show noise in full colour.
    top = max(float(np.nanmax(values)), 1.0)
    axes.imshow(np.ma.masked_invalid(values), cmap="Blues", vmin=0.0, vmax=top, aspect="auto")
    for i, j in np.argwhere(np.isfinite(values)):
        colour = "white" if values[i, j] > 0.6 * top else "black"
        axes.text(j, i, f"{values[i, j]:.1f}", ha="center", va="center", color=colour)
    roles = {
        grid.strongest: ("strongest", ORANGE, "-"),
        grid.reference: ("reference", "black", ":"),
    }
    if grid.reference == grid.strongest:
        roles = {grid.strongest: ("reference and strongest", ORANGE, "-")}
    for number, (label, colour, line) in roles.items():
        scales = grid.combinations[number].scales
        i, j = rows.index(scales[0]), columns.index(scales[1])
        frame = np.array([[-0.5, 0.5, 0.5, -0.5, -0.5], [-0.5, -0.5, 0.5, 0.5, -0.5]])
        axes.plot(j + 0.94 * frame[0], i + 0.94 * frame[1], line, color=colour, label=label)
    axes.set_xticks(
        range(len(columns)), _kernel_in_two_lines(columns), fontsize=8, rotation=30, ha="right"
    )
    axes.set_yticks(range(len(rows)), _kernel_in_two_lines(rows), fontsize=8)
    axes.set_xlabel(f"kernel of {shortened(names[1], _NAME)}")
    axes.set_ylabel(f"kernel of {shortened(names[0], _NAME)}")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
    return axes


def _by_length(grid: GridSummary, variable: int) -> list[str]:
    """The kernels that were tried of a variable, family by family, from long to short lengths."""
    factors = {
        combination.scales[variable]: combination.factors[variable : variable + 1]
        for combination in grid.combinations
    }
    families = list(dict.fromkeys(scale.split(",")[0] for scale in factors))

    def place(scale: str) -> tuple[int, float]:
        return families.index(scale.split(",")[0]), -((factors[scale] or (None,))[0] or 0.0)

    return sorted(factors, key=place)


def _kernel_in_two_lines(scales: Sequence[str]) -> list[str]:
    """In two lines, the kernel and its length."""
    return [scale.replace(", ", "\n") for scale in scales]


def draw_null(
    ax: Axes | None,
    values: Vector,
    statistic: float,
    *,
    alpha: float,
    resampled: bool,
    labels: NullLabels,
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
    labels : NullLabels
        Texts to write.

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
        label=labels.null,
    )
    _, highest = axes.get_ylim()
    axes.set_ylim(0.0, _HEADROOM * highest)
    tall = 1.0 / _HEADROOM
    axes.axvline(statistic, ymax=tall, color=ORANGE, linewidth=2.0, label=labels.statistic)
    critical = critical_value(values, alpha, resampled=resampled)
    if critical is not None:
        about = "" if resampled else "about "
        said = f"critical value at {100 * alpha:g} %, {about}{rounded(critical)}"
        axes.axvline(critical, ymax=tall, color=BLUE, linewidth=1.5, linestyle="--", label=said)
    axes.set_ylabel("replicates" if resampled else "draws")
    axes.set_xlabel(labels.axis + _far_out(axes, values, statistic))
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
