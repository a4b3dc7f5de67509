"""Sensitivity maps: values, summaries and pictures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_choice, check_integer
from dhsic.engine.lazy import LazyRows
from dhsic.engine.units import format_count
from dhsic.errors import InvalidArgumentError
from dhsic.io.zarr_output import WrittenGroup, new_group
from dhsic.plots import ranking, sensitivity_field
from dhsic.results import TRANSIENT, DependenceEstimate, Findings, Result, Sketch, kernel_text
from dhsic.sensitivity.forms import Of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector = NDArray[np.float64]

SAMPLES = "sample_sensitivity"
_SHOWN = 5
_POINTS = 5000
_MOST = 40
_MEANING = (
    "The sensitivity of a column is the mean square over the rows of the derivatives of the "
    "measure in its entries. It depends on the unit of the column: compare columns of one scale. "
    "It is exploratory: a column that the variables do not depend on has a small "
    "one, and no p-value."
)


class MapPoints(NamedTuple):
    """Some rows of two variables, with the derivatives of the measure in them."""

    x: Vector
    y: Vector
    in_x: Vector
    in_y: Vector


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SensitivityMap(Result):
    """The derivatives of a measure of dependence in every entry of the data.

    With S the map of all variables side by side, shape (n, d), the sensitivity of column j is
    s_j = (1/n) sum_i S_ij^2 and that of row i is s_i = (1/d) sum_j S_ij^2 ([1] section 3.2).

    Parameters
    ----------
    of : {"statistic", "estimate"}
        Quantity that is differentiated.
    value : float
        Its value: that of `dhsic.independence_test` or `dhsic.hsic` with the same seed.
    features : mapping of str to ndarray, shapes (d_m,)
        The sensitivities s_j of the columns of every variable, by its name.
    measured : DependenceEstimate
        The estimate with all that it was computed with.
    rows : LazyRows or None
        The map, which is computed block by block when it is asked for. None of a map that was
        pickled or read from JSON, which has no data.

    Raises
    ------
    InvalidArgumentError
        By what is computed of the rows: the map was pickled or read from JSON, which have no data.

    References
    ----------
    .. [1] A. Perez-Suay, G. Camps-Valls. Sensitivity maps of the Hilbert-Schmidt independence
       criterion. Applied Soft Computing 70, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.random.default_rng(0).standard_normal((200, 3))
    >>> found = dhsic.sensitivity_map(x, np.sin(x[:, 1]), names=["x", "y"], rng=0)
    >>> found.top("x", 1)
    [1]
    >>> found.maps["x"].shape, found.samples.shape
    ((200, 3), (200,))
    """

    _tabular: ClassVar[bool] = True

    of: Of
    value: float
    features: Mapping[str, Vector]
    measured: DependenceEstimate
    # Computed from the data, which neither JSON nor a pickle of a result holds.
    rows: LazyRows | None = field(default=None, metadata=TRANSIENT)

    def __post_init__(self) -> None:
        # A copy, which no one else can change.
        features = {name: np.array(values, np.float64) for name, values in self.features.items()}
        for values in features.values():
            values.flags.writeable = False
        object.__setattr__(self, "features", MappingProxyType(features))

    @property
    def _rows(self) -> LazyRows:
        if self.rows is None:
            msg = (
                "the map of the rows needs the data, got a map that was pickled or read from JSON "
                "with the sensitivities alone: call dhsic.sensitivity_map again"
            )
            raise InvalidArgumentError(msg)
        return self.rows

    @property
    def origin(self) -> DependenceEstimate:
        return self.measured

    @property
    def names(self) -> tuple[str, ...]:
        """The variables whose entries are varied."""
        return tuple(self.features)

    @cached_property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the columns of every variable.

        By their own names, or as x[0], x[1]; a variable of one column is called x.
        """
        known = {
            v.name: v.column_names or ((v.name,) if v.columns == 1 else None)
            for v in self.measured.variables
        }
        return MappingProxyType(
            {
                name: known[name] or tuple(f"{name}[{j}]" for j in range(len(values)))
                for name, values in self.features.items()
            }
        )

    @cached_property
    def maps(self) -> Mapping[str, Any]:
        """The map of every variable by its name, a lazy Dask array of shape (n, d_m).

        In units of the measure per unit of the variable, in the precision asked for. Arrays that
        are computed together share their work.
        """
        dtype = np.dtype(self.measured.precision)
        named = enumerate(self.features.items())
        return MappingProxyType(
            {name: self._rows.array(m, len(values), dtype) for m, (name, values) in named}
        )

    @cached_property
    def samples(self) -> Any:
        """The sensitivities s_i of all rows, a lazy Dask array of shape (n,)."""
        return self._rows.array(len(self.features), None, np.dtype(self.measured.precision))

    def top(self, name: str, count: int = _SHOWN) -> list[int]:
        """Columns of a variable, the most sensitive first.

        Parameters
        ----------
        name : str
            Name of the variable.
        count : int, optional
            At most so many.

        Returns
        -------
        list of int

        Raises
        ------
        InvalidArgumentError
            There is no such variable, or the count is not a positive integer.
        """
        check_choice("name", name, self.names)
        count = check_integer("count", count, minimum=1)
        # A stable order: equal columns stay in the order of the data.
        order = np.argsort(-self.features[name], kind="stable")[:count]
        return [int(j) for j in order]

    def called(self, name: str, column: int) -> str:
        """The name of a column of a variable, or its number where it has none."""
        label = self.columns[name][column]
        return str(column) if label == f"{name}[{column}]" else label

    @property
    def flat(self) -> bool:
        """Whether it is of two variables, of a column each, of which both are varied."""
        dims = [v.columns for v in self.measured.variables]
        return dims == [1, 1] and len(self.features) == len(dims)

    def points(self, most: int = _POINTS) -> MapPoints:
        """Rows of two variables of a column each, at equal distances, with their derivatives.

        The map is computed for it, block by block.

        Parameters
        ----------
        most : int, optional
            Rows at most.

        Returns
        -------
        MapPoints
            Each of shape (k,).

        Raises
        ------
        InvalidArgumentError
            The variables are more than two, have several columns, or not both are varied.
        """
        if not self.flat:
            msg = (
                "points need the map of two variables of a column each, both varied; got "
                f"{', '.join(f'{v.name!r} with {v.columns}' for v in self.measured.variables)}"
            )
            raise InvalidArgumentError(msg)
        # Rounded up, so that there are no more points than were asked for.
        step = -(-self.measured.n // check_integer("most", most, minimum=1))
        x, y = (rows[:, 0] for rows in self._rows.data(step))
        start, derivatives = 0, []
        for first, second, samples in self._rows.blocks():
            # The first row of this block whose number is a multiple of the step.
            at = slice(-start % step, None, step)
            derivatives.append(np.column_stack([first[at], second[at]]))
            start += len(samples)
        return MapPoints(x, y, *np.vstack(derivatives).astype(np.float64).T)

    @cached_property
    def drawn(self) -> MapPoints:
        """The points of a picture, computed once."""
        return self.points()

    def plot(self, ax: Axes | None = None, *, of: str | None = None, most: int = _MOST) -> Axes:
        """A picture: the points of two variables of a column each, or bars of columns.

        Points are computed with the map, see `points`, and have arrows to where the measure grows.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.
        of : str, optional
            Name of the variable whose columns are bars; where not given, that with the most
            columns, or the points.
        most : int, optional
            Bars at most, of the largest sensitivities.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidArgumentError
            There is no such variable.
        MissingDependencyError
            matplotlib is not installed.
        """
        # A result that was read from a file has no rows any more.
        if of is None and self.flat and self.rows is not None:
            points = self.drawn
            return sensitivity_field(points.x, points.y, points[2:], names=self.names, ax=ax)
        widest = max(self.names, key=lambda name: len(self.features[name]))
        name = check_choice("of", of or widest, self.names)
        sizes = self.features[name]
        return ranking(
            sizes, self.columns[name], quantity=f"sensitivity of the {self.of}", most=most, ax=ax
        )

    def to_zarr(
        self, path: str | os.PathLike[str], *, overwrite: bool = False, compress: bool = True
    ) -> WrittenGroup:
        """Write the map block by block, an array (n, d_m) a variable, into a new zarr group.

        Beside them are the sensitivities of the rows, ``sample_sensitivity``, shape (n, 1); those
        of the columns are attributes of the arrays. The group is there when it is complete; an
        interrupt leaves nothing.

        Parameters
        ----------
        path : path or URL
            A path that does not exist, in a folder that does; or the URL of an object store under
            which there is nothing.
        overwrite : bool, optional
            Replace a zarr group. Not for URLs.
        compress : bool, optional
            By Zstandard.

        Returns
        -------
        WrittenGroup

        Raises
        ------
        InvalidArgumentError
            Something is there, or a variable has a name that no array can have.
        DataError
            The disk or the store refuses, or the data cannot be read.
        """
        columns = map_columns({name: len(values) for name, values in self.features.items()})
        dtype = self.measured.precision
        with new_group(
            path, columns, dtype=dtype, compress=compress, overwrite=overwrite
        ) as writer:
            for *maps, samples in self._rows.blocks():
                arrays = (*maps, samples[:, None])
                writer.append(dict(zip(columns, arrays, strict=True)))
            for name, values in self.features.items():
                told = {"of": self.of, "value": self.value, "sensitivity": values.tolist()}
                writer.describe(name, **told, columns=list(self.columns[name]))
            return writer.summary()

    def records(self) -> list[dict[str, Any]]:
        """Every column, those of a variable by their sensitivity."""
        rows = []
        for name, sizes in self.features.items():
            # A map of zeros has no shares, as that of a constant variable.
            total = float(sizes.sum()) or 1.0
            for j in self.top(name, len(sizes)):
                size = float(sizes[j])
                told = {"variable": name, "column": self.called(name, j), "sensitivity": size}
                rows.append({**told, "share": size / total})
        return rows

    def findings(self, alpha: float, control: str) -> Findings:
        del alpha, control
        wide = [name for name in self.names if len(self.features[name]) > 1]
        firsts = [f"column {self.called(name, self.top(name, 1)[0])} of {name}" for name in wide]
        lead = f"The {self.of} of dependence is {self.value:.6g}"
        lead += f", most sensitive to {' and '.join(firsts)}" if firsts else ""
        kernels = [
            {"variable": v.name, "columns": v.columns, "kernel": kernel_text(v.kernel)}
            for v in self.measured.variables
        ]
        names = ", ".join(v.name for v in self.measured.variables)
        return Findings(
            f"Which columns does the dependence of {names} rest on?",
            lead,
            self._sketches(),
            {"Columns": self.records(), "Variables": kernels},
            [_MEANING],
        )

    def _sketches(self) -> Sequence[Sketch]:
        several = [name for name in self.names if len(self.features[name]) > 1]
        bars = [self._bars(name) for name in several]
        if not self.flat or self.rows is None:
            return bars
        words = (
            "Rows of both variables, coloured by the norm of the gradient, with arrows along it."
        )
        return [*bars, Sketch(lambda ax: self.plot(ax), words, (7.2, 4.6))]

    def _bars(self, name: str) -> Sketch:
        words = f"Bars of the columns of {name} by their sensitivity."
        count = min(_MOST, len(self.features[name]))
        return Sketch.of_bars(lambda ax: self.plot(ax, of=name), words, count)

    def _brief(self) -> list[str]:
        firsts = [
            f"{name}: column {self.called(name, self.top(name, 1)[0])}" for name in self.names
        ]
        return [f"{self.of} = {self.value:.4g}", f"n = {self.measured.n:,}", *firsts[:4]]

    def summary(self, top: int = _SHOWN) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads, with so many columns a variable."""
        head = self.measured.summary()
        measure = [(self.of, f"{self.value:.6g}")] if self.of == "statistic" else []
        kind, when = f"{self.measured.n:,} rows", "not kept"
        if self.rows is not None:
            kind = f"{kind} in {format_count(self.rows.plan.blocks, 'block')}"
            when = "computed when asked for"
        return [
            *head[:-2],
            *measure,
            ("map", f"of the {self.of}, {kind}, {when}"),
            *((f"columns of {name}", self._ranking(name, top)) for name in self.names),
            *head[-2:],
        ]

    def _ranking(self, name: str, top: int) -> str:
        """The most sensitive columns with their shares of the variable's sensitivity."""
        rows = [row for row in self.records() if row["variable"] == name]
        listed = [f"{row['column']} ({row['share']:.1%})" for row in rows[:top]]
        more = len(rows) - len(listed)
        return ", ".join(listed) + (f", {more:,} more" if more else "")


def map_columns(dims: Mapping[str, int]) -> dict[str, int]:
    """Columns of the arrays that a map is written to.

    Raises
    ------
    InvalidArgumentError
        A variable has the name of the sensitivities of the rows.
    """
    if SAMPLES in dims:
        msg = f"a variable of a map that is written must not be called {SAMPLES!r}: rename it"
        raise InvalidArgumentError(msg)
    return {**dims, SAMPLES: 1}
