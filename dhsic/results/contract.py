"""The base of all results: text, HTML, tables, pictures, reports and copies."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from dhsic._drawing import axes_of, draw_bars
from dhsic._text import printable
from dhsic.errors import require
from dhsic.results.json_value import JsonValue
from dhsic.results.summaries import PassSummary, StoredArraySummary, rows_text
from dhsic.results.texts import time_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Records = Sequence[Mapping[str, Any]]
"""Rows of a table, by the names of its columns."""

_SHOWN = 20
_REPR = 390  # characters
_CELL = 64

# Colours are those of the page around it, light or dark; narrow pages have labels above texts.
_STYLE = """
.dhsic-result{max-width:100%;overflow-x:auto;color:inherit;font-size:.93em;line-height:1.4}
.dhsic-result table{border-collapse:collapse;background:transparent;margin:.2em 0 .6em;
font-variant-numeric:tabular-nums}
.dhsic-result caption{text-align:left;font-weight:600;padding:.2em .6em .3em 0;caption-side:top;
color:inherit}
.dhsic-result th,.dhsic-result td{text-align:left;vertical-align:top;padding:.15em 1em .15em 0;
background:transparent;color:inherit;border:0;border-bottom:1px solid rgba(128,128,128,.3);
max-width:46em;white-space:normal;overflow-wrap:break-word}
.dhsic-result .facts td{overflow-wrap:anywhere}
.dhsic-result tbody tr{background:transparent}
.dhsic-result tbody th{font-weight:600;white-space:nowrap}
.dhsic-result td.n,.dhsic-result th.n{text-align:right;white-space:nowrap}
@media(max-width:36em){.dhsic-result table.facts :is(th,td){display:block;border:0;
padding:0 0 .1em}.dhsic-result table.facts td{padding-bottom:.45em}}
"""


class Sketch(NamedTuple):
    """A picture that is drawn when it is asked for."""

    draw: Callable[[Axes], object]
    """Draws it on axes."""
    words: str
    """Its contents in words."""
    size: tuple[float, float] = (7.2, 4.0)
    """Width and height in inches."""

    @classmethod
    def of_bars(cls, draw: Callable[[Axes], object], words: str, count: int) -> Sketch:
        """A picture of so many bars, one below another."""
        return cls(draw, words, (7.2, 1.4 + 0.21 * max(5, count)))


@dataclass(frozen=True)
class Findings:
    """The finding in a sentence, with what shows it.

    Parameters
    ----------
    title : str
        The question, or the subject.
    lead : str
        The finding.
    sketches : sequence of Sketch
        Pictures.
    tables : mapping from str to Records
        Tables by their names.
    notes : sequence of str
        How to read them.
    """

    title: str
    lead: str
    sketches: Sequence[Sketch] = ()
    tables: Mapping[str, Records] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Result(JsonValue):
    """A frozen result: labelled lines for people, records for tables, JSON for files.

    A class says what it holds in `summary` and `records`, and where need be in `findings`; all
    forms of it follow from these.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 100))
    >>> found = dhsic.independence_test(x, y, kernels="gaussian", rng=0)
    >>> found
    <IndependenceTestResult: p = 0.538, independence not rejected at 0.05, v-hsic, n = 100>
    >>> type(found).from_json(found.to_json()) == found
    True
    >>> len(found.to_pandas())
    1
    """

    _label_width: ClassVar[int] = 0
    _columns: ClassVar[tuple[str, ...]] = ()
    _tabular: ClassVar[bool] = False
    _leading: ClassVar[int] = 0  # the line of the summary that tells the finding

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        raise NotImplementedError

    def records(self) -> list[dict[str, Any]]:
        """The rows of `to_pandas`: one of a test, or one a pair, column, edge or whatever it has.

        Returns
        -------
        list of dict
            All with the same keys, the names of the columns.
        """
        return [{name: getattr(self, name) for name in self._columns}]

    def table(self, most: int | None = None) -> tuple[list[str], list[list[str]]]:
        """Header and rows of short texts of the records.

        Parameters
        ----------
        most : int, optional
            Rows at most; all where not given.
        """
        records = self.records()[:most]
        header = [name.replace("_", " ") for name in records[0]] if records else []
        return header, [[as_text(value) for value in row.values()] for row in records]

    def to_pandas(self) -> Any:
        """The records as a data frame.

        Returns
        -------
        pandas.DataFrame
            One row a test; of what has several pairs, columns, edges or points a row for each.

        Raises
        ------
        MissingDependencyError
            pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            missing = require("pandas", "tables", "A data frame")
            raise missing from error
        return pd.DataFrame.from_records(self.records())

    def findings(self, alpha: float, control: str) -> Findings:
        """The finding with the pictures and tables that a report has.

        Parameters
        ----------
        alpha : float
            The level of decisions, where there are any.
        control : str
            How they account for many p-values, where there are any.

        Returns
        -------
        Findings
        """
        del alpha, control
        # The line that tells the finding is the first, unless the class says otherwise.
        label, text = self.summary()[self._leading]
        tables = {self._title: self.records()} if self._tabular else {}
        return Findings(self._title, f"{label}: {text}", self._sketches(), tables)

    @property
    def origin(self) -> Result:
        """The result that has the seed, the time and the passes of the run."""
        return self

    @property
    def _title(self) -> str:
        """The name of the class in words, as "Dependence matrix"."""
        # A run of capitals is an abbreviation, and stays one.
        words = re.findall(r"[A-Z]+(?=[A-Z][a-z]|$)|[A-Z][a-z]+", type(self).__name__)
        title = " ".join(word if word.isupper() else word.lower() for word in words)
        return title[0].upper() + title[1:]

    def _sketches(self) -> Sequence[Sketch]:
        draw = getattr(self, "plot", None)
        return [] if draw is None else [Sketch(draw, f"{self._title}, drawn.")]

    def report(
        self, path: str | Path, *, alpha: float = 0.05, control: str = "bh", run: Any = None
    ) -> None:
        """Write it as one HTML file, see `dhsic.report.write_report`.

        Parameters
        ----------
        path : str or Path
            The file; one that is there is replaced.
        alpha : float, optional
            The level of decisions, where there are any.
        control : {"bh", "by", "bonferroni", "holm", "max-t"}, optional
            How the decisions of a ranking account for the number of features.
        run : dhsic.report.Run, optional
            How it came about, as far as the result does not tell.

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        MissingDependencyError
            A library of the extra "report" is not installed.
        DataError
            The file cannot be written.
        """
        # Reports stand on all results, so that they are imported when one is asked for.
        from dhsic.report import write_report

        write_report(self, path, alpha=alpha, control=control, run=run)

    @property
    def _n_records(self) -> int:
        return len(self.records())

    def _brief(self) -> list[str]:
        """Short facts for `repr`."""
        return [f"{label} {_shortened(text)}" for label, text in self.summary()[:4]]

    def __repr__(self) -> str:
        # A line in a list or a debugger: the first facts, as many as fit.
        name = type(self).__name__
        brief = (printable(" ".join(text.split())) for text in self._brief())
        told = ", ".join(filter(None, brief))
        most = _REPR - len(name) - len("<: >")
        return f"<{name}: {told if len(told) <= most else told[: most - 1] + '…'}>"

    def __str__(self) -> str:
        facts, (header, *rows), more = self._texts()
        table = _aligned_lines([header, *rows]) if rows else []
        return "\n".join([*_aligned_lines(facts, self._label_width), *table, *more])

    def _repr_html_(self) -> str:
        facts, (header, *rows), more = self._texts()
        lines = (
            f"<tr><th>{html.escape(label)}</th><td>{html.escape(text)}</td></tr>"
            for label, text in facts
        )
        caption = f"<caption>{html.escape(self._title)}</caption>"
        whole = f"<table class='facts'>{caption}<tbody>{''.join(lines)}</tbody></table>"
        whole += _html_table(header, rows) if rows else ""
        whole += "".join(f"<p>{html.escape(line)}</p>" for line in more)
        # The style travels with the table: a notebook may be opened where dhsic is not installed.
        return f"<div class='dhsic-result'><style>{_STYLE}</style>{whole}</div>"

    def _texts(self) -> tuple[list[list[str]], list[list[str]], list[str]]:
        """Facts, the first rows of the table below its header, and how many more there are."""
        header, rows = self.table(_SHOWN) if self._tabular else ([], [])
        facts, table = (
            [[*map(printable, row)] for row in part] for part in (self.summary(), [header, *rows])
        )
        more = self._n_records - _SHOWN if self._tabular else 0
        return facts, table, [f"... and {more:,} more"] if more > 0 else []


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunFields(Result):
    """A result with what it says of its run; results of functions that read data inherit it.

    Parameters
    ----------
    n : int
        Rows that were used.
    precision : str
        Precision of the tiles; sums are float64 always.
    seed : int
        Fixes every draw.
    passes : tuple of PassSummary
        The passes over the data.
    seconds : float
        Wall time.
    version : str
        Version of dhsic.
    dropped : int
        Rows that were left out because a value is missing.
    data : tuple of StoredArraySummary
        The stored arrays, the same at the end of the run as at its start.
    missing : tuple of int
        Rows in which each variable misses a value and which stay, by ``missing="pairwise"``; empty
        where there are none.
    """

    n: int
    precision: str
    seed: int
    passes: tuple[PassSummary, ...]
    seconds: float
    version: str
    dropped: int = 0
    data: tuple[StoredArraySummary, ...] = ()
    missing: tuple[int, ...] = ()

    @property
    def _rows_told(self) -> str:
        """How many rows there are, and how many are not used or miss a value."""
        return rows_text(self.n, self.dropped, self.data, self.missing)

    def _tail(self) -> list[tuple[str, str]]:
        """Last lines of the summary."""
        time = time_text(self.seconds, len(self.passes), self.precision)
        return [("seed", str(self.seed)), ("time", time)]


@dataclass(frozen=True, eq=False, repr=False)
class BarResult(Result):
    """A result whose picture is bars of a few numbers."""

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        """Names and lengths of the bars, and what they measure."""
        raise NotImplementedError

    def _sketches(self) -> Sequence[Sketch]:
        names, _, quantity = self._bars()
        return [Sketch.of_bars(self.plot, f"Bars of the {quantity}.", min(len(names), 2 * _SHOWN))]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars of what it has, in their order; the first 40 of many.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        MissingDependencyError
            matplotlib is not installed.
        """
        names, values, quantity = self._bars()
        count = min(len(names), 2 * _SHOWN)
        told = quantity if count == len(names) else f"{quantity}, {count} of {len(names):,}"
        axes = axes_of(ax, Sketch.of_bars(self.plot, quantity, count).size)
        return draw_bars(axes, names[:count], values[:count], told)


def as_text(value: Any) -> str:
    """A value of a record as a table shows it."""
    if value is None or isinstance(value, bool):
        return "yes" if value else ""
    # Counts in full, measurements with four digits.
    if isinstance(value, int):
        return f"{value:,d}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _shortened(text: str) -> str:
    """Text without what stands in brackets, where it is long."""
    if len(text) > _CELL:
        # Reasons stand in brackets; the short form goes without them.
        text = text.partition(" (")[0]
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"


def _aligned_lines(rows: Sequence[Sequence[str]], least: int = 0) -> list[str]:
    """Lines of texts, in columns that are as wide as their widest; the last goes on."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[0] = max(widths[0], least)
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        text = "".join(
            f"<{tag}{' class=n' if numeric else ''}>{html.escape(cell)}</{tag}>"
            for cell, numeric in zip(cells, numbers, strict=True)
        )
        return f"<tr>{text}</tr>"

    # A column is aligned to the right where all of its cells are numbers.
    numbers = [all(map(_is_number, column)) for column in zip(*rows, strict=True)]
    body = "".join(row(cells, "td") for cells in rows)
    return f"<table><thead>{row(header, 'th')}</thead><tbody>{body}</tbody></table>"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[-+]?[\d,.]+(e[-+]?\d+)?|inf|", text) is not None
