"""Where the dependence of two variables reacts to their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dhsic._drawing import axes_of, figure_of, shortened
from dhsic._validation import check_integer
from dhsic.errors import InvalidArgumentError
from dhsic.plots.values import names_or_numbered, spread_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector = NDArray[np.float64]

_REACH = 0.09  # of the axes, which a long arrow takes
_LONG = 0.95  # quantile of the lengths that counts as long
_NAME = 40


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
    """Points of two variables, coloured by the norm of the gradient, with its vector field.

    The arrow at a row is the gradient of the dependence measure with respect to its two values: it
    points where the measure would grow. Rows at equal distances are drawn where there are many.

    Parameters
    ----------
    x, y : array-like, shape (n,) or (n, 1)
        The variables; a column of one that has several.
    maps : pair of array-like, shapes (n,) or (n, 1), or a result
        The gradients with respect to x and to y, or a mapping with these values in this order; or
        what has them as `maps`.
    names : sequence of str, optional
        Names of x and y.
    arrows : int, optional
        At most so many; 0 draws none.
    most : int, optional
        Points at most.
    size : float, optional
        Area of a point, in square points of type.
    colorbar : bool, optional
        Whether to show what the colours mean.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure where not given.

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
    labels = [shortened(name, _NAME) for name in names_or_numbered(names, 2)]
    given = getattr(maps, "maps", maps)
    if not isinstance(given, Iterable):
        msg = f"maps must be a pair of arrays, a mapping or a result, got {given!r}: see `maps`"
        raise InvalidArgumentError(msg)
    pair = tuple(given.values() if isinstance(given, Mapping) else given)
    if len(pair) != 2:
        msg = (
            f"maps must be those of two variables, x and y, got {len(pair)}: give a pair of "
            "arrays, or a result that varies both"
        )
        raise InvalidArgumentError(msg)
    first = _plotted_column("x", x, None, most)
    named = {"y": y, "the map of x": pair[0], "the map of y": pair[1]}
    others = [_plotted_column(name, values, len(x), most) for name, values in named.items()]
    points, gradients = np.column_stack([first, others[0]]), np.column_stack(others[1:])
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


def _plotted_column(name: str, data: Any, n: int | None, most: int) -> Vector:
    rows = spread_rows(name, data, n, most=most)
    if rows.shape[1] != 1:
        msg = (
            f"{name} must have one column to be drawn, got {rows.shape[1]}: choose one, as x[:, 0]"
        )
        raise InvalidArgumentError(msg)
    return rows[:, 0]


def _arrows(axes: Axes, points: Vector, gradients: Vector, most: int) -> None:
    """Arrows of true direction and relative length, scaled so that long ones stay readable."""
    span = np.ptp(points, axis=0)
    # Of a constant column any unit will do.
    span[span == 0.0] = 1.0
    lengths = np.linalg.norm(gradients / span, axis=1)
    long = float(np.quantile(lengths, _LONG)) or float(lengths.max())
    if not most or long == 0.0:
        return
    step = -(-len(points) // most)
    starts, moves = points[::step], gradients[::step] * (_REACH / long)
    axes.quiver(
        *starts.T,
        *moves.T,
        angles="xy",
        scale_units="xy",
        scale=1.0,
        width=0.0028,
        color="0.25",
        alpha=0.8,
        zorder=3,
    )
    tips = starts + moves
    # `quiver` counts the feet of arrows alone among the data.
    axes.update_datalim(tips)
    axes.autoscale_view()
