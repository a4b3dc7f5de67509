"""A witness function over its variable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dhsic._drawing import BLUE, axes_of, figure_of, shortened
from dhsic.errors import InvalidArgumentError
from dhsic.plots.values import finite_vector, names_or_numbered, spread_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector = NDArray[np.float64]

_MOST = 1000
_LINE, _GRID = 400, 120
_TAIL = 0.005
_NAME = 40


def witness_function(
    function: Callable[[Vector], Vector],
    x: Any,
    *,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A function of one or two columns over the middle 99 % of the data.

    Parameters
    ----------
    function : callable
        From rows (k, d) to values (k,), as `first` and `second` of `dhsic.witness_functions`.
    x : array-like, shape (n,), (n, 1) or (n, 2)
        The variable that it takes, whose rows are drawn as marks, at most 1,000 of them.
    names : sequence of str, optional
        Names of the columns; x1, x2 where not given.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure where not given.

    Returns
    -------
    matplotlib.axes.Axes
        A line for one column; colours for two.

    Raises
    ------
    DataError
        The data are not finite or of another shape.
    InvalidArgumentError
        The variable has more than two columns, or the function no finite value for every row.
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
    rows = spread_rows("x", x, most=_MOST)
    columns = rows.shape[1]
    if columns > 2:
        msg = f"a witness function is drawn over one or two columns, got {columns}"
        raise InvalidArgumentError(msg)
    labels = [shortened(name, _NAME) for name in names_or_numbered(names, columns)]
    # Rows far out would leave no room for the others.
    low, high = np.quantile(rows, [_TAIL, 1.0 - _TAIL], axis=0)
    axes = axes_of(ax, (6.0, 4.2))
    if columns == 1:
        _line(axes, function, rows, np.linspace(low, high, _LINE))
        axes.set(xlabel=labels[0], ylabel="witness function")
        return axes
    _colours(axes, function, rows, np.linspace(low, high, _GRID))
    axes.set(xlabel=labels[0], ylabel=labels[1])
    return axes


def _line(axes: Axes, function: Any, rows: Vector, grid: Vector) -> None:
    axes.axhline(0.0, color="0.8", linewidth=0.8)
    axes.plot(grid[:, 0], _values_on_grid(function, grid), color=BLUE, linewidth=2.0)
    inside = rows[(rows >= grid[0]) & (rows <= grid[-1])]
    rug = axes.get_xaxis_transform()
    axes.plot(inside, np.full(len(inside), 0.02), "|", color="0.4", alpha=0.5, transform=rug)
    axes.spines[["top", "right"]].set_visible(False)


def _values_on_grid(function: Any, grid: Vector) -> Vector:
    if not callable(function):
        msg = f"function must be callable, got {function!r}: take one of dhsic.witness_functions"
        raise InvalidArgumentError(msg)
    return finite_vector("values of the function", function(grid), len(grid))


def _colours(axes: Axes, function: Any, rows: Vector, grid: Vector) -> None:
    first, second = np.meshgrid(grid[:, 0], grid[:, 1])
    points = np.column_stack([first.ravel(), second.ravel()])
    values = _values_on_grid(function, points).reshape(first.shape)
    # The scale is around 0, so that either sign has its colour.
    most = float(np.abs(values).max()) or 1.0
    image = axes.pcolormesh(first, second, values, cmap="PuOr", vmin=-most, vmax=most)
    inside = ((rows >= grid[0]) & (rows <= grid[-1])).all(axis=1)
    axes.plot(*rows[inside].T, ".", color="0.15", markersize=2.0, alpha=0.5)
    figure_of(axes).colorbar(image, ax=axes, label="witness function")
