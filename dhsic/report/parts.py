"""Parts of a report: facts, tables, pictures, listings and notes, in sections."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dhsic.errors import require
from dhsic.results import Records, Sketch, as_text

_MOST = 10_000  # rows of a table, or marks of a picture, that a browser shows while one waits


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Parameters
    ----------
    text : str
        Text of the cell.
    key : float, optional
        Number by which it is sorted, where there is one.
    """

    text: str
    key: float | None = None


def number(value: float, form: str = ".4g") -> Cell:
    """A cell with a number, sorted by all its digits."""
    return Cell(format(value, form), float(value))


@dataclass(frozen=True)
class Facts:
    """Labels with texts."""

    rows: Sequence[tuple[str, str]]
    kind: str = field(default="facts", init=False)


@dataclass(frozen=True)
class Table:
    """Rows of cells that a click on a header sorts."""

    name: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    kind: str = field(default="table", init=False)

    @classmethod
    def of(cls, name: str, records: Records) -> Table | None:
        """A table of records, by their keys; None where there are none."""
        if not records:
            return None
        header = [key.replace("_", " ") for key in records[0]]
        more = f", the first {_MOST:,} of {len(records):,}" if len(records) > _MOST else ""
        rows = [[_cell_of(x) for x in row.values()] for row in records[:_MOST]]
        return cls(f"{name}{more}", header, rows)

    @property
    def numeric(self) -> list[bool]:
        """Which columns are of numbers."""
        columns = zip(*self.rows, strict=True)
        return [all(cell.key is not None for cell in column) for column in columns]


def _cell_of(value: Any) -> Cell:
    # A column of yes and no is sorted as text.
    counted = isinstance(value, int | float) and not isinstance(value, bool)
    return Cell(as_text(value), float(value) if counted else None)


@dataclass(frozen=True)
class Picture:
    """A picture with what it shows in words."""

    source: str
    words: str
    kind: str = field(default="picture", init=False)

    @classmethod
    def drawn(cls, sketch: Sketch) -> Picture:
        """Draw a sketch as SVG in a URL of its own.

        Raises
        ------
        MissingDependencyError
            matplotlib is not installed.
        """
        try:
            from matplotlib import rc_context
            from matplotlib.figure import Figure
        except ImportError as error:
            missing = require("matplotlib", "report", "A report")
            raise missing from error
        # With a salt of its own a picture has the same bytes each time.
        style = rc_context({"svg.hashsalt": "dhsic", "svg.fonttype": "path"})
        with style, warnings.catch_warnings():
            # Names of other scripts are in the tables, if not in the font of the picture.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            # Without pyplot: nothing is left open, and no window is looked for.
            figure = Figure(figsize=sketch.size, layout="constrained")
            sketch.draw(figure.subplots())
            for drawn in (collection for axes in figure.axes for collection in axes.collections):
                drawn.set_rasterized(
                    len(np.asarray(drawn.get_offsets())) > _MOST
                )  # a mark is 200 bytes
            page = io.BytesIO()
            figure.savefig(page, format="svg", dpi=150, metadata={"Date": None})
        coded = base64.b64encode(page.getvalue()).decode("ascii")
        # As an image by its URL, which runs no script; an SVG within the text of the page could.
        return cls(f"data:image/svg+xml;base64,{coded}", sketch.words)


@dataclass(frozen=True)
class Listing:
    """Text to copy."""

    name: str
    text: str
    kind: str = field(default="listing", init=False)


@dataclass(frozen=True)
class Note:
    """A sentence or two."""

    text: str
    kind: str = field(default="note", init=False)


Part = Facts | Table | Picture | Listing | Note


@dataclass(frozen=True)
class Section:
    """Parts under a heading."""

    title: str
    parts: Sequence[Part]

    @classmethod
    def of(cls, title: str, parts: Iterable[Part | None]) -> Section:
        """Join the parts that are present."""
        return cls(title, [part for part in parts if part is not None])
