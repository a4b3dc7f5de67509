"""Basics of pictures: axes to draw on, colours that all can tell apart, names that fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dhsic._text import printable
from dhsic.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind people tell apart.
BLUE: Final = "#0072B2"
ORANGE: Final = "#D55E00"
PURPLE: Final = "#CC79A7"
GREY: Final = "0.72"

_ELLIPSIS: Final = "…"
_BAR_NAME: Final = 34  # characters beside a bar


def axes_of(ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
    """The axes that were given, or those of a new figure of so many inches.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    """
    if ax is not None:
        return ax
    # Constrained, so that long names of columns push the axes and are not cut.
    axes: Axes = _pyplot().subplots(figsize=size, layout="constrained")[1]
    return axes


def axes_beside(widths: Sequence[float], height: float) -> Sequence[Axes]:
    """Axes beside each other in a new figure, of so many inches each.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    """
    size = (sum(widths), height)
    axes: Sequence[Axes] = _pyplot().subplots(
        1, len(widths), figsize=size, layout="constrained", width_ratios=widths
    )[1]
    return axes


def draw_bars(
    axes: Axes,
    names: Sequence[str],
    lengths: Any,
    quantity: str,
    parts: Sequence[tuple[Any, str, str | None]] = (),
) -> Axes:
    """Draw bars one below another, in their order.

    `parts` are the places, the colour and the label of some of the bars; where there are none, all
    bars are blue.
    """
    every = range(len(names))
    for places, colour, label in parts or [(every, BLUE, None)]:
        if len(places):
            shown = [lengths[k] for k in places]
            axes.barh(places, shown, color=colour, height=0.72, label=label)
    axes.set_yticks(every, [shortened(name, _BAR_NAME) for name in names])
    axes.tick_params(axis="y", labelsize=9, length=0)
    axes.set_ylim(max(len(names), 1) - 0.4, -0.6)
    axes.set_xlabel(quantity)
    axes.locator_params(axis="x", nbins=5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return axes


def legend_above(axes: Axes, **options: Any) -> None:
    """A legend above the axes, where it can hide nothing."""
    options = {"fontsize": 9, **options}
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, **options)


def figure_of(ax: Axes) -> Figure:
    """The figure that axes belong to."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        missing = require("matplotlib", "plot", "Plotting")
        raise missing from error
    return plt


def shortened(name: str, most: int) -> str:
    """A name in one line of at most so many characters, its middle cut where it is longer.

    Text that matplotlib would take for mathematics is shown as it is, and what is no character in
    numbers.
    """
    line = printable(" ".join(str(name).split()))
    if len(line) > most:
        head = most // 2
        line = f"{line[:head].rstrip()}{_ELLIPSIS}{line[head + 1 - most :].lstrip()}"
    # A dollar would begin mathematics.
    return line.replace("$", r"\$")


def rounded(number: float) -> str:
    """A number as a label has it: three digits."""
    return f"{number:.3g}"
