"""Bars of features by how much they depend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dhsic._drawing import BLUE, GREY, ORANGE, axes_of, draw_bars, legend_above, rounded
from dhsic._validation import check_integer, check_level, check_number
from dhsic.plots.values import check_pvalues, finite_vector, names_or_numbered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR, _MARGIN = 0.21, 1.4  # inches


def ranking(
    values: ArrayLike,
    names: Sequence[str] | None = None,
    *,
    pvalues: ArrayLike | None = None,
    alpha: float = 0.05,
    control: str = "",
    threshold: float | None = None,
    quantity: str = "HSIC",
    most: int = 40,
    ax: Axes | None = None,
) -> Axes:
    """Bars of features, the largest first, with what an error control lets through.

    Parameters
    ----------
    values : array-like, shape (k,)
        How much every feature depends, as HSIC, CKA or the sensitivity to it.
    names : sequence of str, optional
        Names of the features; x1, x2, ... where not given. Long ones are cut in their middle.
    pvalues : array-like, shape (k,), optional
        Adjusted for all features, by Holm or Benjamini and Hochberg say. Those at most `alpha` are
        coloured.
    alpha : float, optional
        The level.
    control : str, optional
        Error rate that `pvalues` control, as "false discovery rate".
    threshold : float, optional
        A critical value of `values`, drawn as a line.
    quantity : str, optional
        Name of the values.
    most : int, optional
        Bars to draw, of the largest values.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure of a height for the bars where not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InvalidArgumentError
        Values, names and p-values are not of one length, or not finite numbers.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> ax = ranking([0.1, 0.4], ["timbre", "tempo"], pvalues=[0.2, 0.001], quantity="CKA")
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['tempo', 'timbre']
    """
    sizes = finite_vector("values", values)
    labels = names_or_numbered(names, len(sizes))
    level, most = check_level(alpha), check_integer("most", most, minimum=1)
    # Without p-values nothing is rejected or not: all bars have one colour.
    chosen = np.ones(len(sizes), dtype=bool)
    if pvalues is not None:
        chosen = check_pvalues(finite_vector("pvalues", pvalues, len(sizes))) <= level
    if threshold is not None:
        check_number("threshold", threshold, "a finite number", math.isfinite, "leave it out")
    order = np.argsort(-sizes, kind="stable")[:most]
    of = f" ({control})" if control else ""
    found = f"adjusted p ≤ {level:g}{of}: {int(chosen.sum()):,}", "not significant"
    legend = (None, None) if pvalues is None else found
    parts = [
        (np.flatnonzero(chosen[order] == passes), colour, label)
        for passes, colour, label in zip((True, False), (BLUE, GREY), legend, strict=True)
    ]
    shown = "" if len(order) == len(sizes) else f", the largest {len(order)} of {len(sizes):,}"
    axes = axes_of(ax, (6.4, _MARGIN + _BAR * max(len(order), 5)))
    draw_bars(axes, [labels[k] for k in order], sizes[order], f"{quantity}{shown}", parts)
    if threshold is not None:
        said = f"critical value {rounded(threshold)}"
        axes.axvline(threshold, color=ORANGE, linestyle="--", linewidth=1.5, label=said)
    if pvalues is not None or threshold is not None:
        legend_above(axes)
    return axes
