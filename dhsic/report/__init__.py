"""Reports of results, one HTML file each: ``pip install 'dhsic[report]'``."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import platform
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from dhsic import plots
from dhsic._files import write_whole
from dhsic._validation import check_level, check_path, named_arguments, shown
from dhsic._version import __version__
from dhsic.errors import InvalidArgumentError, needing, printable

__all__ = ["MemoryUse", "Run", "check_report", "write_report"]

# Rows of a table, by the names of its columns.
Records = Sequence[Mapping[str, Any]]
# What draws each picture on axes, by its contents in words.
Pictures = Mapping[str, Callable[["plots.Axes"], object]]

_NUMBER = re.compile(r"([-+]?[\d,.]+(e[-+]?\d+)?|inf)?")
_LIBRARIES = ("numpy", "scipy", "dask", "distributed", "zarr")
_FOLDER = Path(__file__).parent
_MOST = 10_000  # rows of a table, or marks of a picture, that a browser shows while one waits
_SAME = (
    "The same data, arguments and seed give the same answer: bit for bit for the same row "
    "blocks, whatever the threads and workers, and to rounding for any blocks."
)


@dataclass(frozen=True)
class MemoryUse:
    """Memory as planned and as measured, in bytes.

    Parameters
    ----------
    process : str
        Name of the process, such as "a worker".
    planned : int
        Predicted peak.
    peak : int or None
        Measured peak; None if it is not known.

    Examples
    --------
    >>> from dhsic.report import MemoryUse
    >>> use = MemoryUse("a worker", planned=2**30, peak=2**29)
    >>> f"{use.peak / use.planned:.0%} of the plan"
    '50% of the plan'
    """

    process: str
    planned: int
    peak: int | None


@dataclass(frozen=True)
class Run:
    """The command, code and machine of a result.

    Parameters
    ----------
    data : str, optional
        Place of the data.
    command : str, optional
        Shell command that repeats the result, without credentials.
    python : str, optional
        Python code that repeats the result.
    ran_on : str, optional
        The machine or cluster of the run.
    memory : sequence of MemoryUse, optional
        Memory of every kind of process.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import dhsic
    >>> from dhsic.report import Run
    >>> x, y = np.random.default_rng(0).standard_normal((2, 100))
    >>> result = dhsic.independence_test(x, y, rng=0)
    >>> run = Run(data="weather.csv", command="dhsic test weather.csv", ran_on="2 threads")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "report.html"
    ...     result.report(path, run=run)
    ...     "dhsic test weather.csv" in path.read_text()
    True
    """

    data: str = ""
    command: str = ""
    python: str = ""
    ran_on: str = ""
    memory: Sequence[MemoryUse] = ()


@dataclass(frozen=True)
class Findings:
    """The finding in a sentence, with what shows it.

    Parameters
    ----------
    title : str
        The question, or the subject.
    lead : str
        The finding.
    pictures : Pictures
        What draws them.
    tables : mapping from str to Records
        Tables by their names.
    notes : sequence of str
        How to read them.
    """

    title: str
    lead: str
    pictures: Pictures = field(default_factory=dict)
    tables: Mapping[str, Records] = field(default_factory=dict)
    notes: Sequence[str] = ()


def check_report() -> None:
    """Refuse before a run what its report would lack after it.

    Raises
    ------
    MissingDependencyError
        A library of the extra "report" is not installed.

    Examples
    --------
    >>> from dhsic.report import check_report
    >>> check_report() is None  # where matplotlib is installed
    True
    """
    with needing("matplotlib", "report", "A report"):
        import matplotlib  # noqa: F401


@named_arguments
def write_report(
    result: Any,
    path: str | Path,
    *,
    alpha: float = 0.05,
    control: str = "bh",
    run: Run | None = None,
) -> None:
    """Write a result as one self-contained HTML file, with pictures and sortable tables.

    The file has the finding, the data, the method, parameters, seed, time and memory, and the
    command and code that repeat the result. It is written whole or not at all. Names in the data
    are escaped.

    Parameters
    ----------
    result : dhsic.results.Result
        The value that a function of dhsic returned.
    path : str or Path
        The file; an existing file is replaced.
    alpha : float, optional
        The level of decisions.
    control : {"bh", "by", "bonferroni", "holm", "max-t"}, optional
        Correction of the decisions of a ranking for the number of features.
    run : Run, optional
        The command, code and machine, which the result does not have.

    Raises
    ------
    InvalidArgumentError
        The level is not between 0 and 1, or the result has no report.
    MissingDependencyError
        A library of the extra "report" is not installed.
    DataError
        The file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 100))
    >>> result = dhsic.independence_test(x, y, rng=0, names=["height", "weight"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "report.html"
    ...     write_report(result, path)
    ...     "Independence not rejected at level 0.05" in path.read_text()
    True
    """
    # Refused before the pictures are drawn, which takes longest.
    if not hasattr(result, "findings"):
        msg = (
            "a report needs a result, as dhsic.independence_test returns, got a "
            f"{type(result).__name__}: give the result itself"
        )
        raise InvalidArgumentError(msg)
    known: Any = Run() if run is None else run
    if not isinstance(known, Run):
        msg = f"run must be a dhsic.report.Run, got {shown(run)}: leave it out, or make one"
        raise InvalidArgumentError(msg)
    check_report()
    target = Path(check_path("path", path))
    findings = result.findings(check_level(alpha), control)
    tables = (_table(name, records) for name, records in findings.tables.items())
    pictures = (_picture(words, draw) for words, draw in findings.pictures.items())
    main = [
        _section("Result", html_facts(result.summary()), *pictures),
        _section("Data and method", *tables, *map(_note, findings.notes)),
        _timings(result.origin, known.memory),
        _reproduction(result.origin, known),
    ]
    data = f"Data: <code>{escape(known.data)}</code>" if known.data else ""
    place = f"on {escape(known.ran_on)}" if known.ran_on else ""
    template, script, style = (
        (_FOLDER / f"page.{kind}").read_text("utf-8") for kind in ("html", "js", "css")
    )
    # These texts alone may run in the page, by the digests of their bytes.
    digests = (hashlib.sha256(text.encode()).digest() for text in (script, style))
    of_script, of_style = (base64.b64encode(digest).decode() for digest in digests)
    page = Template(template).substitute(
        policy=(
            f"default-src 'none'; img-src data:; script-src 'sha256-{of_script}'; "
            f"style-src 'sha256-{of_style}'; base-uri 'none'; form-action 'none'"
        ),
        title=escape(findings.title),
        lead=escape(findings.lead),
        of=" &middot; ".join(filter(None, (data, place))),
        main="\n".join(main),
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        script=script,
        style=style,
    )
    # Names may hold what UTF-8 cannot, such as the halves of a broken pair, and control characters.
    write_whole(target, printable(page, keep="\n\t"))


def _timings(result: Any, memory: Sequence[MemoryUse]) -> str:
    """Time of every pass, and memory as planned and measured."""
    # A plan has passes too, none of which has run.
    if not hasattr(result, "version"):
        return ""
    read = [
        {
            "pass over the data": done.name,
            "row blocks": done.blocks,
            "read (MiB)": _mebibytes(done.bytes_read),
            "seconds": done.seconds,
            "rows a second": round(result.n / done.seconds) if done.seconds > 0 else 0,
        }
        for done in result.passes
    ]
    taken = [
        {
            "process": use.process,
            "planned peak (MiB)": _mebibytes(use.planned),
            "measured peak (MiB)": "not known" if use.peak is None else _mebibytes(use.peak),
            "% of plan": None if use.peak is None else round(100 * use.peak / use.planned),
        }
        for use in memory
    ]
    return _section(
        "Time and memory",
        html_facts([("whole time", f"{result.seconds:.3g} s")]),
        _table("Passes over the data", read),
        _table("Memory", taken) or _note("The peak of memory was not measured."),
    )


def _mebibytes(size: int) -> float:
    """A size in a unit by which a table can be sorted; a large one in full."""
    return size / 2**20 if size < 2**30 else round(size / 2**20)


def _reproduction(result: Any, run: Run) -> str:
    """How to get the result again."""
    from importlib.metadata import version  # slow to import

    listings = [("By command", run.command), ("By Python", run.python)]
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    told = [
        *([("seed", str(result.seed))] if hasattr(result, "seed") else []),
        ("dhsic", getattr(result, "version", __version__)),
        # The libraries on which the last digits depend.
        ("libraries", ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)),
        ("system", f"{system}, {os.cpu_count()} processors"),
    ]
    listed = (f"<h3>{name}</h3><pre>{escape(text)}</pre>" for name, text in listings if text)
    return _section("How to get it again", *listed, _note(_SAME), html_facts(told))


def _section(title: str, *parts: str) -> str:
    """Parts under a heading; without parts there is no heading either."""
    inside = "".join(parts)
    return f"<section>\n<h2>{title}</h2>\n{inside}\n</section>" if inside else ""


def _note(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _table(name: str, records: Records) -> str:
    """A table of records, which a click on a header sorts; empty where there are none."""
    if not records:
        return ""
    more = f", the first {_MOST:,} of {len(records):,}" if len(records) > _MOST else ""
    table = html_table(*texts_of(records[:_MOST]), name=f"{name}{more}")
    return f'<h3>{escape(name + more)}</h3>\n<div class="wide">{table}</div>'


def texts_of(records: Records, names: Sequence[str] = ()) -> tuple[list[str], list[list[str]]]:
    """Header and rows of short texts of some columns, or all, without those that say nothing."""
    # The method is that of all rows, and stands above them.
    chosen = names or [name for row in records[:1] for name in row if name != "method"]
    texts = {name.replace("_", " "): [as_text(row[name]) for row in records] for name in chosen}
    said = {name: column for name, column in texts.items() if any(column)}
    return list(said), [list(row) for row in zip(*said.values(), strict=True)]


def as_text(value: Any) -> str:
    """A value of a record as a table shows it."""
    if value is None or isinstance(value, bool):
        return "yes" if value else ""
    # Counts in full, measurements with four digits.
    if isinstance(value, int):
        return f"{value:,d}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def html_facts(rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Labels and texts as a table of HTML."""
    lines = (
        f"<tr><th scope=row>{escape(label)}</th><td>{escape(text)}</td></tr>"
        for label, text in rows
    )
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table class=facts>{above}<tbody>{''.join(lines)}</tbody></table>"


def html_result(
    title: str,
    facts: Sequence[Sequence[str]],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    more: Sequence[str],
) -> str:
    """Facts, a table and lines below it for a notebook, with their style."""
    table = html_table(header, rows) if rows else ""
    whole = html_facts(facts, title) + table + "".join(map(_note, more))
    # The style travels with the table: a notebook may be opened where dhsic is not installed.
    style = (_FOLDER / "result.css").read_text("utf-8")
    return f"<div class='dhsic-result'><style>{style}</style>{whole}</div>"


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], name: str = "") -> str:
    """Texts as a table of HTML, numbers to the right; one with a name has buttons that sort it."""
    columns = zip(*rows, strict=True)
    sides = [" class=n" if all(map(_NUMBER.fullmatch, column)) else "" for column in columns]

    def line(cells: Sequence[str], kind: str) -> str:
        each = zip(cells, sides, strict=True)
        return f"<tr>{''.join(f'<{kind}{side}>{text}</{kind[:2]}>' for text, side in each)}</tr>"

    heads = [*map(escape, header)]
    if name:
        heads = [f"<button type=button>{text}</button>" for text in heads]
    body = "".join(line([*map(escape, row)], "td") for row in rows)
    kind = f' class=sortable aria-label="{escape(name)}"' if name else ""
    top = line(heads, "th scope=col")
    return f"<table{kind}><thead>{top}</thead><tbody>{body}</tbody></table>"


def _picture(words: str, draw: Callable[[plots.Axes], object]) -> str:
    """Draw a picture as SVG in a URL of its own."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # With a salt of its own a picture has the same bytes each time.
    style = rc_context({"svg.hashsalt": "dhsic", "svg.fonttype": "path"})
    with style, warnings.catch_warnings():
        # Names of other scripts are in the tables, if not in the font of the picture.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        # Without pyplot: nothing is left open, and no window is looked for.
        figure = Figure(layout="constrained")
        draw(figure.subplots())
        # Inches in which the texts beside the axes have room.
        axes = figure.axes[0]
        down = sum(1 + label.get_text().count("\n") for label in axes.get_yticklabels())
        # Names below a matrix are upright, and need no more room than its cells.
        across = len(axes.get_xticks()) if axes.images else 0
        width, height = plots.bars_size(down)
        width = min(max(width, plots.matrix_side(across)), 12.0)
        figure.set_size_inches(width, min(max(4.0, height), 12.0))
        for drawn in (one for each in figure.axes for one in each.collections):
            # A mark is 200 bytes.
            drawn.set_rasterized(len(np.asarray(drawn.get_offsets())) > _MOST)
        page = io.BytesIO()
        figure.savefig(page, format="svg", dpi=150, metadata={"Date": None})
    coded = base64.b64encode(page.getvalue()).decode("ascii")
    # As an image by its URL, which runs no script; an SVG within the text of the page could.
    source = f"data:image/svg+xml;base64,{coded}"
    return f'<figure><img src="{source}" alt="{escape(words)}"></figure>'
