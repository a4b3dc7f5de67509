"""The dependence of all pairs of variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dhsic._drawing import axes_of, figure_of, shortened
from dhsic._validation import check_level
from dhsic.errors import InvalidArgumentError
from dhsic.plots.values import finite_vector, names_or_numbered, numbers_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector = NDArray[np.float64]

_CELL, _MARGIN = 0.27, 2.4  # inches
_WRITTEN = 12  # variables up to which cells have room for a number
_NAME = 26
_DARK = 0.55  # colours of smaller values are dark


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
    """Heat map of the dependence of all pairs of variables, those that depend side by side.

    Parameters
    ----------
    values : DependenceMatrix or array-like, shape (M, M)
        Result of `dhsic.dependence_matrix`; or symmetric numbers up to 1, of which
        those below 0, as chance leaves, are shown as 0.
    names : sequence of str, optional
        Names of the variables; those of the result, or x1, x2, ... where not given.
    pvalues : array-like, shape (M, M), optional
        P-values of all pairs; those of the result, adjusted for all pairs, where not given. Pairs
        above `alpha` bear a cross.
    alpha : float, optional
        The level.
    clustered : bool, optional
        Order the variables by average linkage of 1 - values; otherwise as they came.
    quantity : str, optional
        Name of the values.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure of a size for the variables where not given.

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
    if hasattr(values, "cka"):
        values, names, pvalues = (
            values.cka,
            values.names if names is None else names,
            values.adjusted if pvalues is None else pvalues,
        )
    level, sizes = check_level(alpha), _square_matrix("values", values, least=-math.inf)
    labels = names_or_numbered(names, len(sizes))
    order = cluster_order(sizes) if clustered else np.arange(len(sizes))
    shown = sizes[np.ix_(order, order)]
    side = _CELL * max(len(sizes), 8)
    axes = axes_of(ax, (side + _MARGIN + 0.8, side + _MARGIN))
    image = axes.imshow(shown, vmin=0.0, vmax=1.0, cmap="cividis")
    ticks = [shortened(labels[k], _NAME) for k in order]
    axes.set_xticks(range(len(order)), ticks, rotation=90, fontsize=9)
    axes.set_yticks(range(len(order)), ticks, fontsize=9)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure_of(axes).colorbar(image, ax=axes, shrink=0.8, label=quantity)
    crossed = np.zeros(shown.shape, dtype=bool)
    if pvalues is not None:
        crossed = _square_matrix("pvalues", pvalues, len(sizes))[np.ix_(order, order)] > level
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


def _square_matrix(name: str, values: Any, count: int | None = None, least: float = 0.0) -> Vector:
    matrix = numbers_of(name, values)
    if matrix.ndim != 2 or len(set(matrix.shape)) > 1 or count not in (None, len(matrix)):
        wanted = "square" if count is None else f"{count} by {count}"
        msg = f"{name} must be {wanted}, got shape {matrix.shape}"
        raise InvalidArgumentError(msg)
    finite_vector(name, matrix.ravel())
    asymmetric = not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-9)
    if asymmetric or matrix.min() < least or matrix.max() > 1.0 + 1e-9:
        span = "from 0 to 1" if least == 0.0 else "at most 1"
        msg = f"{name} must be symmetric, {span}: give those of dhsic.dependence_matrix"
        raise InvalidArgumentError(msg)
    return matrix


def _mark(axes: Axes, shown: Vector, crossed: NDArray[np.bool_]) -> None:
    """Numbers where they have room, and crosses, in a colour that the cell lets see."""
    # The diagonal is 1, and needs no number.
    pairs = ~np.eye(len(shown), dtype=bool)
    colours = np.where(shown < _DARK, "white", "black")
    if len(shown) > _WRITTEN:
        rows, columns = np.nonzero(crossed & pairs)
        axes.scatter(columns, rows, s=9.0, c=colours[rows, columns], marker="x", linewidths=0.7)
        return
    for row, column in np.argwhere(pairs):
        number = f"{max(shown[row, column], 0.0):.2f}".removeprefix("0")
        text = f"{number}\n×" if crossed[row, column] else number
        axes.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontsize=7,
            color=colours[row, column],
            linespacing=0.9,
        )
