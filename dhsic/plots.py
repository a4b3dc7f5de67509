"""Draw pictures of results; they need matplotlib: ``pip install 'dhsic[plot]'``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from graphlib import TopologicalSorter
from operator import index
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dhsic._validation import (
    check_integer,
    check_level,
    check_number,
    check_numbers,
    no_attribute,
    shown,
)
from dhsic.errors import DataError, InvalidArgumentError, needing, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure

__all__ = [
    "causal_graph",
    "dag_scores",
    "dependence_heatmap",
    "null_distribution",
    "ranking",
    "scaling",
    "sensitivity_field",
    "witness_function",
]


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name)


Vector = NDArray[np.float64]
ParentLists = Sequence[Sequence[int]]

# Okabe and Ito's colours, which colour-blind people tell apart.
BLUE: Final = "#0072B2"
ORANGE: Final = "#D55E00"
GREY: Final = "0.72"

_HEADROOM = 1.45  # of the bars, so that the legend stands above them and the lines
_FAR = 2.0  # widths of the null distribution beyond which the axis is logarithmic
_STYLES = ((BLUE, "o"), (ORANGE, "s"), ("#CC79A7", "^"), ("#009E73", "D"), ("0.35", "v"))
_LEAST_SPAN = 4.0
_TAIL = 0.005
_AXIS_NAME = 40
_FEW_NODES = 5
_CIRCLE = 13.0  # points, the diameter of a node
_CLEAR = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}

_check_numbers = partial(check_numbers, remedy="give an array of them, or call plot() of a result")


def axes_of(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The axes that were given, or those of a new figure of so many inches.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    """
    return axes_beside(size[:1], size[1])[0] if ax is None else ax


def axes_beside(widths: Sequence[float], height: float) -> Sequence[Axes]:
    """Axes beside each other in a new figure, of so many inches each.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    """
    with needing("matplotlib", "plot", "Plotting"):
        from matplotlib import pyplot as plt
    # Constrained, so that long names of columns push the axes and are not cut.
    options: Any = {"layout": "constrained", "width_ratios": widths, "squeeze": False}
    size = (sum(widths), height)
    axes: Sequence[Axes] = plt.subplots(1, len(widths), figsize=size, **options)[1][0]
    return axes


def draw_bars(
    ax: Axes | None,
    names: Sequence[str],
    lengths: Any,
    quantity: str,
    parts: Sequence[tuple[NDArray[np.bool_], str, str | None]] = (),
    *,
    most: int = 40,
) -> Axes:
    """Draw the first bars one below another, in their order.

    `parts` of bars that come by their length are which of them they are, their colour and their
    label; where there are none, bars come in any order, and are blue.
    """
    count = min(len(names), most)
    axes = axes_of(ax, bars_size(count))
    for chosen, colour, label in parts or [(np.ones(count, bool), BLUE, None)]:
        places = np.flatnonzero(chosen[:count])
        if len(places):
            shown = [lengths[k] for k in places]
            axes.barh(places, shown, color=colour, height=0.72, label=label)
    axes.set_yticks(range(count), [shortened(name, 34) for name in names[:count]])
    axes.tick_params(axis="y", labelsize=9, length=0)
    axes.set_ylim(max(count, 1) - 0.4, -0.6)
    which = f", {'the largest ' if parts else ''}{count} of {len(names):,}"
    axes.set_xlabel(quantity if count == len(names) else quantity + which)
    axes.locator_params(axis="x", nbins=5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return axes


def draw_intervals(axes: Axes, ends: Vector) -> None:
    """Draw intervals on bars, from their ends, shape (k, 2)."""
    # About their middle: that of an estimate without its bias need not be the bar's end.
    half = (ends[:, 1] - ends[:, 0]) / 2.0
    style: Any = {"fmt": "none", "ecolor": "0.15", "elinewidth": 1.2, "capsize": 2.5}
    axes.errorbar(ends.mean(axis=1), range(len(ends)), xerr=half, **style)


def bars_size(count: int) -> tuple[float, float]:
    """Inches of so many bars, one below another."""
    return 7.2, 1.4 + 0.21 * max(5, count)


def matrix_side(count: int) -> float:
    """Inches of a matrix of so many rows, with the names beside it."""
    return 0.27 * max(count, 8) + 2.4


def legend_above(axes: Axes, **options: Any) -> None:
    """A legend above the axes, where it can hide nothing."""
    options = {"fontsize": 9, **options}
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, **options)


def figure_of(ax: Axes) -> Figure:
    """The figure that axes belong to."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def shortened(name: str, most: int) -> str:
    """A name in one line of at most so many characters, its middle cut where it is longer.

    Text that matplotlib would take for mathematics is shown as it is, and what is no character in
    numbers.
    """
    line = printable(" ".join(str(name).split()))
    if len(line) > most:
        head = most // 2
        line = f"{line[:head].rstrip()}…{line[head + 1 - most :].lstrip()}"
    # A dollar would begin mathematics.
    return line.replace("$", r"\$")


def rounded(number: float) -> str:
    """A number as a label has it: three digits."""
    return f"{number:.3g}"


def names_or_numbered(names: Sequence[str] | None, count: int) -> list[str]:
    """As many names as there are things, x1, x2, ... where none are given.

    Raises
    ------
    InvalidArgumentError
        There are more or fewer, or it is one word.
    """
    if names is None:
        return [f"x{number + 1}" for number in range(count)]
    given = [] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if len(given) != count:
        msg = f"names must be a sequence of {count} names, got {shown(names)}: give a list"
        raise InvalidArgumentError(msg)
    return [str(name) for name in given]


def _spread_rows(name: str, data: Any, most: int, columns: int = 1, n: int | None = None) -> Vector:
    """Rows of data at equal distances, at most so many, as a finite (k, d) array in memory.

    Parameters
    ----------
    name : str
        Name of the data in errors.
    data : array-like, shape (n,) or (n, d)
        NumPy, Dask or what else has rows to slice.
    most, columns : int
        Rows and columns at most.
    n : int, optional
        Rows that the data must have.
    """
    array = data if hasattr(data, "shape") and hasattr(data, "__getitem__") else np.asarray(data)
    shape = (*array.shape, 1)[:2]
    if array.ndim not in (1, 2) or not shape[0] or n not in (None, shape[0]):
        wanted = "n" if n is None else str(n)
        msg = f"{name} must be of shape ({wanted},) or ({wanted}, d), got {tuple(array.shape)}"
        raise DataError(msg)
    if shape[1] > columns:
        what = "one column" if columns == 1 else "one or two columns"
        msg = f"{name} must have {what} to be drawn, got {shape[1]}: choose such, as x[:, 0]"
        raise InvalidArgumentError(msg)
    # At equal distances and not the first ones, since rows may be sorted. Sliced before it becomes
    # NumPy's: a stored array may not fit the memory.
    rows = np.asarray(array[:: -(-shape[0] // most)]).reshape(-1, shape[1])
    return check_numbers(name, rows, None, shape[1], error=DataError)


def null_distribution(
    values: ArrayLike,
    statistic: float,
    *,
    alpha: float = 0.05,
    resampled: bool = True,
    null: str = "",
    quantity: str = "statistic",
    note: str = "",
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw a histogram of a null distribution with the statistic and the critical value.

    Parameters
    ----------
    values : array-like, shape (b,)
        Replicates of the statistic under the null hypothesis, or draws from its law.
    statistic : float
        The observed value.
    alpha : float, optional
        The level of the critical value. The observed value counts as one of the replicates; for
        draws the critical value is a quantile.
    resampled : bool, optional
        Whether the values are replicates, in contrast to draws from a law.
    null : str, optional
        Description of the null distribution.
    quantity : str, optional
        Name of the statistic.
    note : str, optional
        Text about the statistic in the legend, such as "p = 0.02".
    title : str, optional
        Title of the picture.
    ax : matplotlib.axes.Axes, optional
        Axes to draw in. The default is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidArgumentError
        The level is not between 0 and 1, or the values are no finite numbers.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 100))
    >>> found = dhsic.independence_test(x, y, kernels="gaussian", rng=0)
    >>> ax = null_distribution(found.null_distribution, found.statistic)
    >>> ax.get_ylabel()
    'replicates'
    """
    level, sizes = check_level(alpha), _check_numbers("values", values, None)
    axes = axes_of(ax, (6.4, 3.8))
    shown: dict[str, Any] = {"color": GREY, "edgecolor": "white", "linewidth": 0.5}
    axes.hist(sizes, _edges(sizes, statistic).tolist(), label=f"{null} null".strip(), **shown)
    axes.set_ylim(0.0, _HEADROOM * axes.get_ylim()[1])
    tall = 1.0 / _HEADROOM
    told = ", ".join(filter(None, (f"{quantity} {rounded(statistic)}", note)))
    axes.axvline(statistic, ymax=tall, color=ORANGE, linewidth=2.0, label=told)
    critical = critical_value(sizes, level, resampled=resampled)
    if critical is not None:
        about = "" if resampled else "about "
        said = f"critical value at {100 * level:g} %, {about}{rounded(critical)}"
        axes.axvline(critical, ymax=tall, color=BLUE, linewidth=1.5, linestyle="--", label=said)
    axes.set_ylabel("replicates" if resampled else "draws")
    axes.set_xlabel(f"{quantity}{_far_out(axes, sizes, statistic)}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper right", fontsize=9, frameon=False)
    axes.set_title(title, fontsize=11)
    return axes


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


def _edges(values: Vector, statistic: float) -> Vector:
    """Edges of the bars; of one narrow bar where all values are equal."""
    if len(values) and np.ptp(values) == 0.0:
        value = float(values[0])
        half = 0.02 * (abs(statistic - value) or abs(value) or 1.0)
        return value + half * np.array([-1.0, 1.0])
    bins = int(np.clip(math.ceil(math.sqrt(len(values))), 5, 60))
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


def draw_evidence(
    axes: Axes, values: Vector, labels: Sequence[list[str]], marks: Mapping[Any, Any]
) -> None:
    """Draw a map of numbers with names of its rows and columns; cells without one stay blank.

    Marked cells, by their row and column, have a label and a frame of a colour and a kind of line.
    """
    # Without evidence anywhere the map stays pale, rather than show noise in full colour.
    top = max(float(np.nanmax(values)), 1.0)
    axes.imshow(np.ma.masked_invalid(values), cmap="Blues", vmin=0.0, vmax=top, aspect="auto")
    for i, j in np.argwhere(np.isfinite(values)):
        colour = "white" if values[i, j] > 0.6 * top else "black"
        axes.text(j, i, f"{values[i, j]:.1f}", ha="center", va="center", color=colour)
    frame = 0.47 * np.array([[-1.0, 1.0, 1.0, -1.0, -1.0], [-1.0, -1.0, 1.0, 1.0, -1.0]])
    for (i, j), (label, colour, line) in marks.items():
        axes.plot(j + frame[0], i + frame[1], line, color=colour, label=label)
    down, across = labels
    axes.set_xticks(range(len(across)), across, fontsize=8, rotation=30, ha="right")
    axes.set_yticks(range(len(down)), down, fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)


def ranking(
    values: ArrayLike,
    names: Sequence[str] | None = None,
    *,
    pvalues: ArrayLike | None = None,
    alpha: float = 0.05,
    control: str = "",
    threshold: float | None = None,
    quantity: str = "HSIC",
    intervals: ArrayLike | None = None,
    most: int = 40,
    ax: Axes | None = None,
) -> Axes:
    """Draw bars of features, the largest first, and mark those that an error control rejects.

    Parameters
    ----------
    values : array-like, shape (k,)
        Dependence of each feature, such as HSIC, CKA or a sensitivity.
    names : sequence of str, optional
        Names of the features; the default is x1, x2, ... Long ones are cut in their middle.
    pvalues : array-like, shape (k,), optional
        P-values adjusted for the number of features, for example by Holm or Benjamini and Hochberg.
        Features with p-values of at most `alpha` are coloured.
    alpha : float, optional
        The level.
    control : str, optional
        Error rate that `pvalues` control, as "false discovery rate".
    threshold : float, optional
        A critical value of `values`, drawn as a line.
    quantity : str, optional
        Name of the values.
    intervals : array-like, shape (k, 2), optional
        Ends of the confidence intervals of the values, drawn as lines on the bars; NaN where a
        value has none.
    most : int, optional
        The largest number of bars.
    ax : matplotlib.axes.Axes, optional
        Axes to draw in. The default is a new figure with a height for the bars.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidArgumentError
        Values, names, p-values and intervals are not of one length, or not finite numbers.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> ax = ranking([0.1, 0.4], ["timbre", "tempo"], pvalues=[0.2, 0.001], quantity="CKA")
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['tempo', 'timbre']
    """
    sizes = _check_numbers("values", values, None)
    labels = names_or_numbered(names, len(sizes))
    level, most = check_level(alpha), check_integer("most", most, minimum=1)
    # Without p-values nothing is rejected or not: all bars have one colour.
    chosen = np.ones(len(sizes), dtype=bool)
    if pvalues is not None:
        chosen = _check_numbers("pvalues", pvalues, len(sizes), least=0.0, most=1.0) <= level
    if threshold is not None:
        check_number("threshold", threshold, "a finite number", math.isfinite, "leave it out")
    order = np.argsort(-sizes, kind="stable")
    of = f" ({control})" if control else ""
    found = f"adjusted p ≤ {level:g}{of}: {int(chosen.sum()):,}", "not significant"
    few, others = (None, None) if pvalues is None else found
    parts = [(chosen[order], BLUE, few), (~chosen[order], GREY, others)]
    axes = draw_bars(ax, [labels[k] for k in order], sizes[order], quantity, parts, most=most)
    if intervals is not None:
        ends = check_numbers("intervals", intervals, len(sizes), 2, gaps=True)
        if (ends[:, 0] > ends[:, 1]).any():
            msg = f"intervals must have the lower end first, got {shown(intervals)}: swap the ends"
            raise InvalidArgumentError(msg)
        draw_intervals(axes, ends[order[:most]])
    if threshold is not None:
        said = f"critical value {rounded(threshold)}"
        axes.axvline(threshold, color=ORANGE, linestyle="--", linewidth=1.5, label=said)
    if pvalues is not None or threshold is not None:
        legend_above(axes)
    return axes


def scaling(
    lines: Mapping[str, tuple[Sequence[Any], ArrayLike]],
    *,
    xlabel: str,
    ylabel: str,
    ideal: float | None = None,
    logarithmic: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw lines of measurements against a setting.

    Parameters
    ----------
    lines : mapping of str to pair
        Settings and measurements, by the name of the line. Settings that are text have points and
        no line.
    xlabel, ylabel : str
        Labels of the axes, with units.
    ideal : float, optional
        Draw (x / smallest x) to this power times the smallest ideal of 1: 1 for a speed-up, 0 for
        an efficiency.
    logarithmic : bool, optional
        Whether both axes are logarithmic, with the slope of every line in the legend.
    ax : matplotlib.axes.Axes, optional
        Axes to draw in. The default is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidArgumentError
        There are no lines; measurements are not finite, or not one for each setting; or logarithmic
        axes cannot show them.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> ax = scaling({"": ([1, 2, 4], [1.0, 1.9, 3.5])}, xlabel="workers", ylabel="speed-up")
    >>> ax.get_xlabel()
    'workers'
    """
    if not lines or not all(len(x) for x, _ in lines.values()):
        msg = "lines must hold one line or more, of a point or more: give {'name': (x, y)}"
        raise InvalidArgumentError(msg)
    measured = {
        name: (list(x), check_numbers("what was measured", y, len(x)))
        for name, (x, y) in lines.items()
    }
    words = any(isinstance(value, str) for x, _ in measured.values() for value in x)
    if logarithmic and not words and min(min(*x, *y) for x, y in measured.values()) <= 0:
        msg = "lines on logarithmic axes must be above 0: leave others out, or logarithmic=False"
        raise InvalidArgumentError(msg)
    logarithmic = logarithmic and not words
    every = sorted({value for x, _ in measured.values() for value in x})
    axes = axes_of(ax, (5.2, 3.8))
    for number, (name, (x, y)) in enumerate(measured.items()):
        colour, marker = _STYLES[number % len(_STYLES)]
        label = shortened(name, 44)
        if logarithmic and len(x) > 1:
            # The exponent of a power law, by least squares of the logarithms.
            slope = rounded(float(np.polyfit(np.log(x), np.log(y), 1)[0]))
            label = f"{label}, slope {slope}" if label else f"slope {slope}"
        dashes = "none" if words else "-" if number < len(_STYLES) else "--"
        axes.plot(x, y, color=colour, marker=marker, markersize=5, linestyle=dashes, label=label)
    if ideal is not None:
        settings = np.asarray(every, dtype=np.float64)
        best = (settings / settings[0]) ** ideal
        axes.plot(settings, best, color="0.5", linestyle=":", label="ideal")
    if logarithmic:
        axes.set(xscale="log", yscale="log")
        _plain_ticks(axes)
    if words or ideal is not None:
        axes.set_ylim(0.0, 1.05 * axes.get_ylim()[1])
    if words:  # settings without an order: points, and distances from 0
        axes.margins(x=0.3)
    else:
        ticks = every[:: -(-len(every) // 6)]
        axes.set_xticks(ticks, [f"{value:,}" for value in ticks])
        axes.xaxis.minorticks_off()
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    if any(text for text in axes.get_legend_handles_labels()[1]):
        legend_above(axes)
    return axes


def _plain_ticks(axes: Axes) -> None:
    """Numbers that read without powers; at least a factor of four, or noise looks like a trend."""
    from matplotlib.ticker import LogLocator

    low, high = axes.get_ylim()
    # Lines that hardly change are shown in a range of a factor of 4 at least.
    pad = max(1.0, math.sqrt(_LEAST_SPAN * low / high))
    few = high * pad**2 / low
    between = (1.0, 2.0, 5.0) if few > 2 * _LEAST_SPAN else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
    axes.set_ylim(low / pad, high * pad)
    axes.yaxis.set_major_locator(LogLocator(subs=between if few < 1e3 else (1.0,)))
    axes.yaxis.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")


def dependence_heatmap(
    values: Any,
    names: Sequence[str] | None = None,
    *,
    pvalues: Any = None,
    alpha: float = 0.05,
    clustered: bool = True,
    quantity: str = "CKA",
    ax: Axes | None = None,
) -> Axes:
    """Draw a heat map of the dependence of all pairs of variables, similar variables side by side.

    Parameters
    ----------
    values : array-like, shape (M, M)
        Symmetric numbers up to 1, such as `cka` of `dhsic.dependence_matrix`; numbers below 0,
        which occur by chance, are shown as 0.
    names : sequence of str, optional
        Names of the variables; the default is x1, x2, ...
    pvalues : array-like, shape (M, M), optional
        P-values of all pairs, such as `adjusted` of the result. A cross marks pairs above `alpha`.
    alpha : float, optional
        The level.
    clustered : bool, optional
        Order the variables by average linkage of 1 - values; otherwise keep their order.
    quantity : str, optional
        Name of the values.
    ax : matplotlib.axes.Axes, optional
        Axes to draw in. The default is a new figure with a size for the variables.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidArgumentError
        The matrices are not symmetric, of one shape and at most 1, or a p-value is below 0.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> ax = dependence_heatmap([[1, 0.1, 0.9], [0.1, 1, 0.2], [0.9, 0.2, 1]], ["a", "b", "c"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['b', 'c', 'a']
    """
    level, sizes = check_level(alpha), _square_matrix("values", values, None, -math.inf)
    labels = names_or_numbered(names, len(sizes))
    order = cluster_order(sizes) if clustered else np.arange(len(sizes))
    shown = sizes[np.ix_(order, order)]
    side = matrix_side(len(sizes))
    axes = axes_of(ax, (side + 0.8, side))
    image = axes.imshow(shown, vmin=0.0, vmax=1.0, cmap="cividis")
    ticks = range(len(order)), [shortened(labels[k], 26) for k in order]
    axes.set_xticks(*ticks, rotation=90, fontsize=9)
    axes.set_yticks(*ticks, fontsize=9)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure_of(axes).colorbar(image, ax=axes, shrink=0.8, label=quantity)
    crossed = np.zeros(shown.shape, dtype=bool)
    if pvalues is not None:
        crossed = _square_matrix("pvalues", pvalues, len(sizes), 0.0)[np.ix_(order, order)] > level
        axes.set_title(f"× not significant at {100 * level:g} %", fontsize=9)
    _mark(axes, shown, crossed)
    return axes


def cluster_order(similarity: Vector) -> NDArray[np.intp]:
    """Order in which similar variables are neighbours, shape (M,).

    Parameters
    ----------
    similarity : ndarray, shape (M, M)
        Symmetric, 1 for the same.

    Returns
    -------
    ndarray of int, shape (M,)
        The leaves of the tree of average linkage, ordered so that neighbours are near.

    Examples
    --------
    >>> cluster_order(np.array([[1, 0.1, 0.9], [0.1, 1, 0.2], [0.9, 0.2, 1]])).tolist()
    [1, 2, 0]
    """
    if len(similarity) < 3:
        return np.arange(len(similarity))
    from scipy.cluster.hierarchy import leaves_list, linkage  # slow to import
    from scipy.spatial.distance import squareform

    # Rounding must not leave a distance below 0.
    distance = np.clip(1.0 - (similarity + similarity.T) / 2.0, 0.0, None)
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    return np.asarray(leaves_list(tree), dtype=np.intp)


def _square_matrix(name: str, values: Any, count: int | None, least: float) -> Vector:
    matrix = _check_numbers(name, values, count, count, least=least, most=1.0 + 1e-9)
    if matrix.shape != matrix.T.shape or not np.allclose(matrix, matrix.T, 1e-6, 1e-9):
        msg = f"{name} must be symmetric: give those of dhsic.dependence_matrix"
        raise InvalidArgumentError(msg)
    return matrix


def _mark(axes: Axes, shown: Vector, crossed: NDArray[np.bool_]) -> None:
    """Numbers where they have room, and crosses, in a colour that the cell lets see."""
    # The diagonal is 1, and needs no number.
    pairs = ~np.eye(len(shown), dtype=bool)
    # Colours of smaller values are dark.
    colours = np.where(shown < 0.55, "white", "black")
    if len(shown) > 12:  # cells have no room for a number
        rows, columns = np.nonzero(crossed & pairs)
        axes.scatter(columns, rows, s=9.0, c=colours[rows, columns], marker="x", linewidths=0.7)
        return
    for row, column in np.argwhere(pairs):
        number = f"{max(shown[row, column], 0.0):.2f}".removeprefix("0")
        text = f"{number}\n×" if crossed[row, column] else number
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7, "linespacing": 0.9}
        axes.text(column, row, text, color=colours[row, column], **style)


def witness_function(
    function: Any,
    x: Any,
    *,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a function of one or two columns over the middle 99 % of the data.

    Parameters
    ----------
    function : callable
        Maps rows (k, d) to values (k,), such as `first` and `second` of `dhsic.witness_functions`.
    x : array-like, shape (n,), (n, 1) or (n, 2)
        Rows of the variable; at most 1,000 of them are drawn as marks.
    names : sequence of str, optional
        Names of the columns; the default is x1, x2.
    ax : matplotlib.axes.Axes, optional
        Axes to draw in. The default is a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        A line for one column; colours for two.

    Raises
    ------
    DataError
        The data are not finite or of another shape.
    InvalidArgumentError
        The variable has more than two columns, or the function does not return a finite value for
        every row.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 200))
    >>> found = dhsic.witness_functions(x, x**2 + noise, rng=0)
    >>> ax = witness_function(found.first, x, names=["x"])
    >>> ax.get_xlabel()
    'x'
    """
    rows = _spread_rows("x", x, 1000, columns=2)
    columns = rows.shape[1]
    labels = [shortened(name, _AXIS_NAME) for name in names_or_numbered(names, columns)]
    # Rows far out would leave no room for the others.
    low, high = np.quantile(rows, [_TAIL, 1.0 - _TAIL], axis=0)
    if not callable(function):
        msg = f"function must be callable, got {function!r}: take one of dhsic.witness_functions"
        raise InvalidArgumentError(msg)
    grid = np.linspace(low, high, 400 if columns == 1 else 120)
    points = np.stack(np.meshgrid(*grid.T), axis=-1).reshape(-1, columns)
    values = check_numbers("values of the function", function(points), len(points))
    inside = rows[((rows >= low) & (rows <= high)).all(axis=1)]
    axes = axes_of(ax, (6.0, 4.2))
    if columns == 1:
        axes.axhline(0.0, color="0.8", linewidth=0.8)
        axes.plot(grid[:, 0], values, color=BLUE, linewidth=2.0)
        rug = inside[:, 0], np.full(len(inside), 0.02)
        axes.plot(*rug, "|", color="0.4", alpha=0.5, transform=axes.get_xaxis_transform())
        axes.spines[["top", "right"]].set_visible(False)
    else:
        # The scale is around 0, so that either sign has its colour.
        most = float(np.abs(values).max()) or 1.0
        colours: dict[str, Any] = {"cmap": "PuOr", "vmin": -most, "vmax": most}
        image = axes.pcolormesh(*grid.T, values.reshape(len(grid), -1), **colours)
        axes.plot(*inside.T, ".", color="0.15", markersize=2.0, alpha=0.5)
        figure_of(axes).colorbar(image, ax=axes, label="witness function")
    axes.set(xlabel=labels[0], ylabel=[*labels, "witness function"][1])
    return axes


def sensitivity_field(
    x: Any,
    y: Any,
    maps: Any,
    *,
    names: Sequence[str] = ("x", "y"),
    arrows: int = 300,
    most: int = 5000,
    size: float = 14.0,
    colorbar: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw points of two variables, coloured by the norm of the gradient, and its vector field.

    The arrow at a row is the gradient of the dependence measure with respect to the two values of
    the row: it points in the direction in which the measure grows. Of many rows, equally spaced
    ones are drawn.

    Parameters
    ----------
    x, y : array-like, shape (n,) or (n, 1)
        The variables, one column each.
    maps : pair of array-like, shapes (n,) or (n, 1)
        The gradients with respect to x and to y, or a mapping with these values in this order.
    names : sequence of str, optional
        Names of x and y.
    arrows : int, optional
        The largest number of arrows; 0 draws none.
    most : int, optional
        The largest number of points.
    size : float, optional
        Area of a point, in square points of type.
    colorbar : bool, optional
        Whether to show what the colours mean.
    ax : matplotlib.axes.Axes, optional
        Axes to draw in. The default is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    DataError
        Data or gradients are not one column each of the same length, or not finite.
    InvalidArgumentError
        `maps` are not two, or a number is negative.
    MissingDependencyError
        matplotlib is not installed.

    References
    ----------
    .. [1] A. Perez-Suay, G. Camps-Valls. Sensitivity maps of the Hilbert-Schmidt independence
       criterion. Applied Soft Computing 70, 2018, figures 3 and 4.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1.0, 1.0, 50)
    >>> ax = sensitivity_field(x, x**2, (np.sign(x), np.ones(50)))
    >>> len(ax.collections)  # points and arrows
    2
    """
    arrows = check_integer("arrows", arrows, minimum=0)
    most = check_integer("most", most, minimum=1)
    labels = [shortened(name, _AXIS_NAME) for name in names_or_numbered(names, 2)]
    pair = tuple(maps.values()) if isinstance(maps, Mapping) else maps
    if not (isinstance(pair, Sequence | np.ndarray) and len(pair) == 2):
        msg = f"maps must be a pair of arrays, those of x and y, got {shown(maps)}: see `maps`"
        raise InvalidArgumentError(msg)
    named = {"x": x, "y": y, "the map of x": pair[0], "the map of y": pair[1]}
    rows = (*np.shape(x), None)[0]
    columns = [_spread_rows(name, one, most, n=rows) for name, one in named.items()]
    points, gradients = np.hstack(columns[:2]), np.hstack(columns[2:])
    norms = np.linalg.norm(gradients, axis=1)
    axes = axes_of(ax, (6.0, 4.6))
    order = np.argsort(norms, kind="stable")  # the largest on top
    dots = axes.scatter(
        points[order, 0], points[order, 1], c=norms[order], s=size, cmap="viridis", zorder=2
    )
    _arrows(axes, points, gradients, arrows)
    if colorbar:
        figure_of(axes).colorbar(dots, ax=axes, label="norm of the gradient")
    axes.set(xlabel=labels[0], ylabel=labels[1])
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _arrows(axes: Axes, points: Vector, gradients: Vector, most: int) -> None:
    """Arrows of true direction and relative length, scaled so that long ones stay readable."""
    span = np.ptp(points, axis=0)
    # Of a constant column any unit will do.
    span[span == 0.0] = 1.0
    lengths = np.linalg.norm(gradients / span, axis=1)
    long = float(np.quantile(lengths, 0.95)) or float(lengths.max())
    if not most or long == 0.0:
        return
    step = -(-len(points) // most)
    # A long arrow takes so much of the axes.
    starts, moves = points[::step], gradients[::step] * (0.09 / long)
    units: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "width": 0.0028}
    axes.quiver(*starts.T, *moves.T, color="0.25", alpha=0.8, zorder=3, **units)
    tips = starts + moves
    # `quiver` counts the feet of arrows alone among the data.
    axes.update_datalim(tips)
    axes.autoscale_view()


def causal_graph(
    parents: ParentLists, names: Sequence[str] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw a directed acyclic graph: nodes on a circle, causes first, arrows from cause to effect.

    Parameters
    ----------
    parents : sequence of sequences of int
        For every node the numbers of its parents.
    names : sequence of str, optional
        Names of the nodes; the default is x1, x2, ...
    ax : matplotlib.axes.Axes, optional
        Axes to draw in. The default is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidArgumentError
        A parent is no number of another node, or the graph has a cycle.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> ax = causal_graph([(), (0,), (0, 1)], ["altitude", "temperature", "sunshine"])
    >>> [text.get_text() for text in ax.texts if text.get_text()]
    ['altitude', 'temperature', 'sunshine']
    """
    edges, order = causal_order(parents)
    letters = 22 if len(edges) <= _FEW_NODES else 12
    labels = [shortened(name, letters) for name in names_or_numbered(names, len(edges))]
    angles = np.empty(len(order))
    # Causes come before their effects, clockwise from the top.
    angles[order] = math.pi / 2 - 2.0 * math.pi * np.arange(len(order)) / len(order)
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    more = 0.3 * max(len(edges) - _FEW_NODES, 0)  # inches, for neighbours to stay apart
    axes = axes_of(ax, (5.6 + more, 3.4 + more))
    axes.set_aspect("equal")
    axes.set(xlim=(-2.3, 2.3), ylim=(-1.4, 1.4))
    axes.axis("off")
    gap = _CIRCLE / 2.0 + 1.5
    arrow = {"arrowstyle": "-|>", "color": "0.25", "lw": 1.5, "mutation_scale": 14.0}
    arrow |= {"shrinkA": gap, "shrinkB": gap}
    for child, causes in enumerate(edges):
        for cause in causes:
            axes.annotate("", points[child], points[cause], arrowprops=arrow)
    axes.plot(*points.T, "o", markersize=_CIRCLE, color=BLUE, clip_on=False)
    for (x, y), label in zip(1.16 * points, labels, strict=True):
        sideways = "center" if abs(x) < 0.05 else ("left" if x > 0.0 else "right")
        upright = "center" if abs(y) < 0.3 else ("bottom" if y > 0.0 else "top")
        axes.text(x, y, label, ha=sideways, va=upright, fontsize=10)
    return axes


def dag_scores(
    pvalues: ArrayLike,
    graphs: Sequence[ParentLists],
    names: Sequence[str] | None = None,
    *,
    alpha: float = 0.05,
    most: int = 30,
    ax: Axes | None = None,
) -> Axes:
    """Draw bars of the p-values of graphs, the largest first, and the best graph.

    Parameters
    ----------
    pvalues : array-like, shape (k,)
        P-values of the joint independence of the residuals of every graph.
    graphs : sequence of parents
        For every graph the parents of its nodes, as for `causal_graph`.
    names : sequence of str, optional
        Names of the nodes; the default is x1, x2, ...
    alpha : float, optional
        The level, drawn as a line; graphs with larger p-values are coloured.
    most : int, optional
        The largest number of bars.
    ax : matplotlib.axes.Axes, optional
        Axes for the bars, without a graph. The default is a new figure with both.

    Returns
    -------
    matplotlib.axes.Axes
        The axes of the bars.

    Raises
    ------
    InvalidArgumentError
        P-values and graphs are not of one length, or a graph is none.
    MissingDependencyError
        matplotlib is not installed.

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023,
       figure 5.

    Examples
    --------
    >>> graphs = [[(), ()], [(), (0,)], [(1,), ()]]
    >>> ax = dag_scores([0.001, 0.4, 0.02], graphs, ["x", "y"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x→y', 'y→x', 'no edge']
    """
    level, most = check_level(alpha), check_integer("most", most, minimum=1)
    values = _check_numbers("pvalues", pvalues, None, least=0.0, most=1.0)
    if len(graphs) != len(values):
        msg = f"graphs must be {len(values)}, one a p-value, got {len(graphs)}"
        raise InvalidArgumentError(msg)
    words = names_or_numbered(names, len(graphs[0]))
    # Stable: graphs of equal p-values keep the order in which they were scored.
    order = np.argsort(-values, kind="stable")
    labels = [_edges_in_words(graphs[k], words) for k in order[:most]]
    beside = None
    if ax is None:
        width = 3.4 + 0.075 * max(map(len, labels))
        ax, beside = axes_beside((width, 4.6), bars_size(max(len(labels), 8))[1])
    shown, kept = values[order], values[order] > level
    told = f"not rejected at {100 * level:g} %: {kept.sum():,}"
    names = [*labels, *("" for _ in order[most:])]
    parts = [(kept, BLUE, told), (~kept, GREY, "rejected")]
    axes = draw_bars(ax, names, shown, "p-value", parts, most=most)
    axes.set_yticks(range(len(labels)), labels, fontsize=8)  # whole
    axes.axvline(level, color=ORANGE, linestyle="--", linewidth=1.5, label=f"level {level:g}")
    longest = max(float(shown[0]), level)
    for place, value in enumerate(shown[:most].tolist()):
        at = value + 0.02 * longest, place
        axes.text(*at, _rounded_text(value), va="center", fontsize=7, bbox=_CLEAR)
    axes.set_xlim(0.0, 1.16 * longest)
    legend_above(axes, fontsize=8, ncols=3)
    if beside is not None:
        causal_graph(graphs[order[0]], words, ax=beside)
        beside.set_anchor("N")
        beside.set_title(f"largest p-value, {_rounded_text(float(shown[0]))}", fontsize=10)
    return axes


def _edges_in_words(parents: ParentLists, names: Sequence[str]) -> str:
    """Arrows of a graph, the causes of every node before it."""
    short = [shortened(name, {2: 22, 3: 14, 4: 8}.get(len(names), 6)) for name in names]
    told = (("+".join(short[k] for k in causes), short[j]) for j, causes in enumerate(parents))
    return ", ".join(f"{causes}→{child}" for causes, child in told if causes) or "no edge"


def _rounded_text(value: float) -> str:
    return f"{value:.3f}" if value >= 1e-3 else f"{value:.0e}"


def causal_order(parents: Any) -> tuple[list[tuple[int, ...]], list[int]]:
    """Parents of every node, and the nodes, each after its parents.

    Raises
    ------
    InvalidArgumentError
        A parent is no other node, or there is a cycle.
    """
    try:
        edges = [tuple(map(index, causes)) for causes in parents]
        others = [{*range(len(edges))} - {child} for child in range(len(edges))]
        if not all(map(set.issuperset, others, edges)):
            raise ValueError
        return edges, list(TopologicalSorter(dict(enumerate(edges))).static_order())
    except (TypeError, ValueError) as error:  # a cycle, too, is a ValueError
        msg = (
            "parents must be the numbers of other nodes for every node, without cycles, got "
            f"{shown(parents)}: as [(), (0,)] for an edge from the first node to the second"
        )
        raise InvalidArgumentError(msg) from error
