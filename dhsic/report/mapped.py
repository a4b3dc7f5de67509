"""A sensitivity map, as a report has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from dhsic.report.parts import Cell, Facts, Note, Picture, Section, Table, number
from dhsic.sensitivity import SensitivityMap
from dhsic.sensitivity.result import MapPoints, draw_points

__all__ = ["Mapped", "mapped_sections"]

_MOST = 40
_WIDTH, _BAR, _MARGIN = 7.2, 0.21, 1.4  # inches
_SIZE = (7.2, 4.6)

_MEANING = (
    "The sensitivity of a column is the mean square over the rows of the derivatives of the "
    "measure in its entries. It depends on the unit of the column: compare columns of one scale. "
    "It is exploratory: a column that the variables do not depend on has a small "
    "one, and no p-value."
)


@dataclass(frozen=True)
class Mapped:
    """A sensitivity map with what a picture of it takes.

    Parameters
    ----------
    found : SensitivityMap
        The map.
    points : MapPoints or None
        Rows with their derivatives, of two variables of one column each.
    """

    found: SensitivityMap
    points: MapPoints | None

    @classmethod
    def of(cls, found: SensitivityMap) -> Self:
        """What `dhsic.sensitivity_map` found; reads the data where there are points to draw."""
        return cls(found, found.points() if found.flat else None)


def mapped_sections(mapped: Mapped) -> tuple[str, list[Section]]:
    """The finding in a sentence, and the sections of a map."""
    found = mapped.found
    wide = [name for name in found.names if len(found.features[name]) > 1]
    firsts = [f"column {found.called(name, found.top(name, 1)[0])} of {name}" for name in wide]
    lead = f"The {found.of} of dependence is {found.value:.6g}"
    lead += f", most sensitive to {' and '.join(firsts)}" if firsts else ""
    pictures = [_bars(found, name) for name in wide]
    if mapped.points is not None:
        pictures.append(_scatter(found, mapped.points))
    return lead, [
        Section("Sensitivities", [*pictures, _table(found), Note(_MEANING)]),
        Section("Data and method", [Facts(found.summary()), _variables(found)]),
    ]


def _bars(found: SensitivityMap, name: str) -> Picture:
    shown = max(5, min(_MOST, len(found.features[name])))
    return Picture.drawn(
        lambda ax: found.plot(ax, of=name, most=_MOST),
        (_WIDTH, _MARGIN + _BAR * shown),
        f"Bars of the columns of {name} by their sensitivity.",
    )


def _scatter(found: SensitivityMap, points: MapPoints) -> Picture:
    return Picture.drawn(
        lambda ax: draw_points(points, found.names, ax),
        _SIZE,
        "Rows of both variables, coloured by the norm of the gradient, with arrows along it.",
    )


def _table(found: SensitivityMap) -> Table:
    """All columns, those of a variable by their sensitivity."""
    rows = []
    for name in found.names:
        sizes = found.features[name]
        total = float(sizes.sum()) or 1.0
        for j in found.top(name, len(sizes)):
            share = number(100 * sizes[j] / total, ".1f")
            column = Cell(found.called(name, j))
            rows.append([Cell(name), column, number(float(sizes[j])), share])
    return Table("Columns", ("variable", "column", "sensitivity", "% of the variable"), rows)


def _variables(found: SensitivityMap) -> Table:
    rows = [
        (Cell(v.name), number(v.columns, ",d"), Cell(v.kernel)) for v in found.measured.variables
    ]
    return Table("Variables", ("variable", "columns", "kernel"), rows)
