"""Causal graphs and the p-values of all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dhsic._drawing import (
    BLUE,
    GREY,
    ORANGE,
    axes_beside,
    axes_of,
    draw_bars,
    legend_above,
    shortened,
)
from dhsic._validation import check_integer, check_level
from dhsic.errors import InvalidArgumentError
from dhsic.plots.values import check_pvalues, finite_vector, names_or_numbered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ParentLists = Sequence[Sequence[int]]

_NAME, _SHORT_NAME = 22, 12  # characters beside a node, of few nodes and of many
_FEW = 5
_LETTERS = {2: 22, 3: 14, 4: 8}  # characters of a name in the label of a bar, by the nodes
_BAR, _MARGIN = 0.2, 1.5  # inches
_BESIDE = 4.6  # inches of the graph
_CIRCLE = 13.0  # points, the diameter of a node
_ROOM = 0.16  # of the radius, between a node and its name
_SMALL = 1e-3
_CLEAR = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}


def causal_graph(
    parents: ParentLists, names: Sequence[str] | None = None, *, ax: Axes | None = None
) -> Axes:
    """A directed acyclic graph: nodes on a circle, causes first, arrows from cause to effect.

    Parameters
    ----------
    parents : sequence of sequences of int
        For every node the numbers of its parents.
    names : sequence of str, optional
        Names of the nodes; x1, x2, ... where not given.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure where not given.

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
    edges = _checked_parents(parents)
    letters = _NAME if len(edges) <= _FEW else _SHORT_NAME
    labels = [shortened(name, letters) for name in names_or_numbered(names, len(edges))]
    order = _causal_order(edges)
    angles = np.empty(len(order))
    # Causes come before their effects, clockwise from the top.
    angles[order] = math.pi / 2 - 2.0 * math.pi * np.arange(len(order)) / len(order)
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    more = 0.3 * max(len(edges) - _FEW, 0)  # inches, for neighbours to stay apart
    axes = axes_of(ax, (5.6 + more, 3.4 + more))
    axes.set_aspect("equal")
    axes.set(xlim=(-2.3, 2.3), ylim=(-1.4, 1.4))
    axes.axis("off")
    gap = _CIRCLE / 2.0 + 1.5
    arrow = {"arrowstyle": "-|>", "color": "0.25", "lw": 1.5, "mutation_scale": 14.0}
    for child, causes in enumerate(edges):
        for cause in causes:
            axes.annotate(
                "",
                points[child],
                points[cause],
                arrowprops={**arrow, "shrinkA": gap, "shrinkB": gap},
            )
    axes.plot(*points.T, "o", markersize=_CIRCLE, color=BLUE, clip_on=False)
    for (x, y), label in zip((1.0 + _ROOM) * points, labels, strict=True):
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
    """Bars of the p-values of graphs, the largest first, and beside them the best graph.

    Parameters
    ----------
    pvalues : array-like, shape (k,)
        P-values of the joint independence of the residuals of every graph.
    graphs : sequence of parents
        For every graph the parents of its nodes, as for `causal_graph`.
    names : sequence of str, optional
        Names of the nodes; x1, x2, ... where not given.
    alpha : float, optional
        The level, drawn as a line; graphs with larger p-values are coloured.
    most : int, optional
        Bars to draw, of the largest p-values.
    ax : matplotlib.axes.Axes, optional
        Where to draw the bars, without a graph; a new figure with both where not given.

    Returns
    -------
    matplotlib.axes.Axes
        Those of the bars.

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
    values = check_pvalues(finite_vector("pvalues", pvalues))
    if len(graphs) != len(values):
        msg = f"graphs must be {len(values)}, one a p-value, got {len(graphs)}"
        raise InvalidArgumentError(msg)
    words = names_or_numbered(names, len(graphs[0]))
    # Stable: graphs of equal p-values keep the order in which they were scored.
    order = np.argsort(-values, kind="stable")[:most]
    labels = [_edges_in_words(graphs[k], words) for k in order]
    axes, beside = _bars_and_graph(ax, len(order), max(map(len, labels)))
    shown, kept = values[order], values > level
    parts = [
        (np.flatnonzero(kept[order]), BLUE, f"not rejected at {100 * level:g} %: {kept.sum():,}"),
        (np.flatnonzero(~kept[order]), GREY, "rejected"),
    ]
    count = f", the largest {len(order):,} of {len(values):,}" if len(order) < len(values) else ""
    draw_bars(axes, labels, shown, f"p-value{count}", parts)
    axes.set_yticks(range(len(order)), labels, fontsize=8)  # whole
    said = f"level {level:g}"
    axes.axvline(level, color=ORANGE, linestyle="--", linewidth=1.5, label=said)
    longest = max(float(shown.max()), level)
    for place, value in enumerate(shown):
        at = value + 0.02 * longest, place
        axes.text(*at, _rounded_text(value), va="center", fontsize=7, bbox=_CLEAR)
    axes.set_xlim(0.0, 1.16 * longest)
    legend_above(axes, fontsize=8, ncols=3)
    if beside is not None:
        causal_graph(graphs[order[0]], words, ax=beside)
        beside.set_anchor("N")
        beside.set_title(f"largest p-value, {_rounded_text(float(shown[0]))}", fontsize=10)
    return axes


def _bars_and_graph(ax: Axes | None, bars: int, letters: int) -> tuple[Axes, Axes | None]:
    """Axes of the bars, and in a new figure those of a graph beside them."""
    if ax is not None:
        return ax, None
    width, height = 3.4 + 0.075 * letters, _MARGIN + _BAR * max(bars, 8)
    bars_axes, beside = axes_beside((width, _BESIDE), height)
    return bars_axes, beside


def _edges_in_words(parents: ParentLists, names: Sequence[str]) -> str:
    """Arrows of a graph, the causes of every node before it."""
    short = [shortened(name, _LETTERS.get(len(names), 6)) for name in names]
    arrows = [
        f"{'+'.join(short[cause] for cause in causes)}→{short[child]}"
        for child, causes in enumerate(parents)
        if len(causes)
    ]
    return ", ".join(arrows) or "no edge"


def _rounded_text(value: float) -> str:
    return f"{value:.3f}" if value >= _SMALL else f"{value:.0e}"


def _checked_parents(parents: Any) -> list[tuple[int, ...]]:
    if not isinstance(parents, Iterable) or isinstance(parents, str):
        msg = f"parents must be a sequence of the parents of every node, got {parents!r}"
        raise InvalidArgumentError(msg)
    edges = [tuple(int(cause) for cause in causes) for causes in parents]
    for child, causes in enumerate(edges):
        wrong = [cause for cause in causes if not 0 <= cause < len(edges) or cause == child]
        if wrong:
            msg = f"parents of node {child} must be other nodes of {len(edges)}, got {wrong}"
            raise InvalidArgumentError(msg)
    return edges


def _causal_order(edges: Sequence[Sequence[int]]) -> list[int]:
    """Nodes, each after its parents."""
    try:
        return list(TopologicalSorter(dict(enumerate(edges))).static_order())
    except CycleError as error:
        msg = "parents must be those of a graph without cycles: drop an edge of the cycle"
        raise InvalidArgumentError(msg) from error
