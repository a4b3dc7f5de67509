"""Parts of a report, as its template reads them: facts, tables, pictures, listings and notes."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dhsic.errors import require
from dhsic.results import Records, Sketch, as_text

_MOST = 10_000  # rows of a table, or marks of a picture, that a browser shows while one waits

Part = Mapping[str, Any]
"""Values for the template, with the kind of the part."""


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    key: float | None = None
    """Number by which it is sorted, where there is one."""


def number(value: float, form: str = ".4g") -> Cell:
    """A cell with a number, sorted by all its digits."""
    return Cell(format(value, form), float(value))


def facts(rows: Sequence[tuple[str, str]]) -> Part:
    """Labels with texts."""
    return {"kind": "facts", "rows": rows}


def listing(name: str, text: str) -> Part:
    """Text to copy."""
    return {"kind": "listing", "name": name, "text": text}


def note(text: str) -> Part:
    """A sentence or two."""
    return {"kind": "note", "text": text}


def table_of(name: str, records: Records) -> Part | None:
    """A table of records, which a click on a header sorts; None where there are none."""
    if not records:
        return None
    header = [key.replace("_", " ") for key in records[0]]
    more = f", the first {_MOST:,} of {len(records):,}" if len(records) > _MOST else ""
    rows = [[_cell_of(x) for x in row.values()] for row in records[:_MOST]]
    numeric = [all(cell.key is not None for cell in column) for column in zip(*rows, strict=True)]
    told = {"header": header, "rows": rows, "numeric": numeric}
    return {"kind": "table", "name": f"{name}{more}", **told}


def _cell_of(value: Any) -> Cell:
    if isinstance(value, Cell):
        return value
    # A column of yes and no is sorted as text.
    counted = isinstance(value, int | float) and not isinstance(value, bool)
    return Cell(as_text(value), float(value) if counted else None)


def picture(sketch: Sketch) -> Part:
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
            # A mark is 200 bytes.
            drawn.set_rasterized(len(np.asarray(drawn.get_offsets())) > _MOST)
        page = io.BytesIO()
        figure.savefig(page, format="svg", dpi=150, metadata={"Date": None})
    coded = base64.b64encode(page.getvalue()).decode("ascii")
    # As an image by its URL, which runs no script; an SVG within the text of the page could.
    source = f"data:image/svg+xml;base64,{coded}"
    return {"kind": "picture", "source": source, "words": sketch.words}


def section_of(title: str, parts: Iterable[Part | None]) -> Part:
    """Parts that are present, under a heading."""
    return {"title": title, "parts": [part for part in parts if part is not None]}
