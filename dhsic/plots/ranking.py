"""Bars of features by how much they depend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dhsic._drawing import BLUE, GREY, ORANGE, axes_of, rounded, shortened
from dhsic._validation import check_integer, check_level, check_number
from dhsic.plots.values import check_pvalues, finite_vector, names_or_numbered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR, _MARGIN = 0.21, 1.4  # inches
_NAME = 34


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
    axes = axes_of(ax, (6.4, _MARGIN + _BAR * max(len(order), 5)))
    for passes, colour in ((True, BLUE), (False, GREY)):
        at = np.flatnonzero(chosen[order] == passes)
        label = None if pvalues is None else _legend(passes, level, control, int(chosen.sum()))
        if len(at):
            axes.barh(at, sizes[order[at]], color=colour, height=0.72, label=label)
    if threshold is not None:
        said = f"critical value {rounded(threshold)}"
        axes.axvline(threshold, color=ORANGE, linestyle="--", linewidth=1.5, label=said)
    axes.set_yticks(range(len(order)), [shortened(labels[k], _NAME) for k in order])
    axes.tick_params(axis="y", labelsize=9, length=0)
    axes.set_ylim(len(order) - 0.4, -0.6)
    shown = "" if len(order) == len(sizes) else f", the largest {len(order)} of {len(sizes):,}"
    axes.set_xlabel(f"{quantity}{shown}")
    axes.locator_params(axis="x", nbins=5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if pvalues is not None or threshold is not None:
        # Above the bars, where it can hide none of them.
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), fontsize=9, frameon=False)
    return axes


def _legend(passes: bool, level: float, control: str, count: int) -> str:
    if not passes:
        return "not significant"
    of = f" ({control})" if control else ""
    return f"adjusted p ≤ {level:g}{of}: {count:,}"
