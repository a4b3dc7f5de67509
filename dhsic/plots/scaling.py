"""Lines of what a run takes or gains, against what was varied."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dhsic._drawing import BLUE, ORANGE, PURPLE, axes_of, legend_above, rounded, shortened
from dhsic.errors import InvalidArgumentError
from dhsic.plots.values import finite_vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = ((BLUE, "o"), (ORANGE, "s"), (PURPLE, "^"), ("#009E73", "D"), ("0.35", "v"))
_NAME = 44
_TICKS = 6
_LEAST_SPAN, _FEW_DECADES = 4.0, 1e3


def scaling(
    lines: Mapping[str, tuple[Sequence[Any], ArrayLike]],
    *,
    xlabel: str,
    ylabel: str,
    ideal: float | None = None,
    logarithmic: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Lines of measurements against a setting.

    Parameters
    ----------
    lines : mapping of str to pair
        Settings, and what was measured with them, by the name of the line. Settings that are words
        make bars.
    xlabel, ylabel : str
        Labels of the axes, with units.
    ideal : float, optional
        Draw (x / smallest x) to this power times the smallest ideal of 1: 1 for a speed-up, 0 for
        an efficiency.
    logarithmic : bool, optional
        Both axes, with the slope of every line in the legend.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure where not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidArgumentError
        There are no lines, or what was measured is not finite and as long as its settings, or
        logarithmic axes have no place for it.
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
        name: (list(x), finite_vector("what was measured", y, len(x)))
        for name, (x, y) in lines.items()
    }
    words = any(isinstance(value, str) for x, _ in measured.values() for value in x)
    if logarithmic and not words and min(min(*x, *y) for x, y in measured.values()) <= 0:
        msg = "lines on logarithmic axes must be above 0: leave others out, or logarithmic=False"
        raise InvalidArgumentError(msg)
    axes = axes_of(ax, (5.2, 3.8))
    if words:
        _bars(axes, measured)
    else:
        _draw_lines(axes, measured, ideal, logarithmic)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    if any(text for text in axes.get_legend_handles_labels()[1]):
        legend_above(axes)
    return axes


def _draw_lines(axes: Axes, measured: Mapping[str, Any], ideal: float | None, log: bool) -> None:
    every = sorted({value for x, _ in measured.values() for value in x})
    for number, (name, (x, y)) in enumerate(measured.items()):
        colour, marker = _STYLES[number % len(_STYLES)]
        label = shortened(name, _NAME)
        if log and len(x) > 1:
            # The exponent of a power law, by least squares of the logarithms.
            slope = rounded(float(np.polyfit(np.log(x), np.log(y), 1)[0]))
            label = f"{label}, slope {slope}" if label else f"slope {slope}"
        dashes = "-" if number < len(_STYLES) else "--"
        axes.plot(x, y, color=colour, marker=marker, markersize=5, linestyle=dashes, label=label)
    if ideal is not None:
        x = np.asarray(every, dtype=np.float64)
        axes.plot(x, (x / x[0]) ** ideal, color="0.5", linestyle=":", label="ideal")
        axes.set_ylim(0.0, 1.05 * axes.get_ylim()[1])
    if log:
        axes.set(xscale="log", yscale="log")
        _plain_ticks(axes)
    ticks = every if len(every) <= _TICKS else every[:: -(-len(every) // _TICKS)]
    axes.set_xticks(ticks, [f"{value:,}" for value in ticks])
    axes.xaxis.minorticks_off()


def _plain_ticks(axes: Axes) -> None:
    """Numbers that read without powers; at least a factor of four, or noise looks like a trend."""
    low, high = axes.get_ylim()
    # Lines that hardly change are shown in a range of a factor of 4 at least.
    pad = max(1.0, math.sqrt(_LEAST_SPAN * low / high))
    low, high = low / pad, high * pad
    decades = 10.0 ** np.arange(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    steps = (1.0, 2.0, 5.0) if high / low > 2 * _LEAST_SPAN else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
    ticks = np.outer(decades, steps).ravel() if high / low < _FEW_DECADES else decades
    axes.set_ylim(low, high)
    axes.set_yticks([tick for tick in ticks if low <= tick <= high])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.minorticks_off()


def _bars(axes: Axes, measured: Mapping[str, Any]) -> None:
    words = list(dict.fromkeys(value for x, _ in measured.values() for value in x))
    width = 0.8 / len(measured)
    for number, (name, (x, y)) in enumerate(measured.items()):
        shift = (number - (len(measured) - 1) / 2) * width
        at = [words.index(value) + shift for value in x]
        colour = _STYLES[number % len(_STYLES)][0]
        axes.bar(at, y, 0.9 * width, color=colour, label=shortened(name, _NAME))
    axes.set_xticks(range(len(words)), words)
