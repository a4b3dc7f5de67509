"""The base of all results: text, HTML, tables, pictures, reports and copies."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dhsic._drawing import axes_of
from dhsic._text import printable
from dhsic.errors import require
from dhsic.results.findings import Findings, Sketch
from dhsic.results.json_value import JsonValue

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
        tables = {_class_in_words(type(self).__name__): self.records()} if self._tabular else {}
        return Findings(
            _class_in_words(type(self).__name__), f"{label}: {text}", self._sketches(), tables
        )

    @property
    def origin(self) -> Result:
        """The result that has the seed, the time and the passes of the run."""
        return self

    def _sketches(self) -> Sequence[Sketch]:
        draw = getattr(self, "plot", None)
        return (
            ()
            if draw is None
            else [Sketch(draw, f"{_class_in_words(type(self).__name__)}, drawn.")]
        )

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
        facts = _aligned_lines((map(printable, row) for row in self.summary()), self._label_width)
        header, rows = self._shown_table() if self._tabular else ([], [])
        return "\n".join(
            [*facts, *(_aligned_lines([header, *rows]) if rows else []), *self._hidden()]
        )

    def _repr_html_(self) -> str:
        facts = "".join(
            f"<tr><th>{html.escape(label)}</th><td>{html.escape(text)}</td></tr>"
            for label, text in (map(printable, row) for row in self.summary())
        )
        whole = f"<table class='facts'>{_caption(self)}<tbody>{facts}</tbody></table>"
        if self._tabular:
            whole += _html_table(*self._shown_table())
            whole += "".join(f"<p>{html.escape(line)}</p>" for line in self._hidden())
        # The style travels with the table: a notebook may be opened where dhsic is not installed.
        return f"<div class='dhsic-result'><style>{_STYLE}</style>{whole}</div>"

    def _shown_table(self) -> tuple[list[str], list[list[str]]]:
        header, rows = self.table(_SHOWN)
        return list(map(printable, header)), [list(map(printable, row)) for row in rows]

    def _hidden(self) -> list[str]:
        more = self._n_records - _SHOWN if self._tabular else 0
        return [f"... and {more:,} more"] if more > 0 else []


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
        from dhsic.results.picture import draw_bars  # with NumPy alone, but for its axes

        names, values, quantity = self._bars()
        bars = min(len(names), 2 * _SHOWN)
        axes = axes_of(ax, Sketch.of_bars(self.plot, quantity, bars).size)
        return draw_bars(axes, names, values, quantity, most=bars)


def as_text(value: Any) -> str:
    """A value of a record as a table shows it."""
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    # Counts in full, measurements with four digits.
    return f"{value:,d}" if isinstance(value, int) else _number_or_text(value)


def _number_or_text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _class_in_words(name: str) -> str:
    """The name of a class in words, as "Dependence matrix"."""
    # A run of capitals is an abbreviation, and stays one.
    words = re.findall(r"[A-Z]+(?=[A-Z][a-z]|$)|[A-Z][a-z]+", name)
    first, *others = (word if word.isupper() else word.lower() for word in words)
    return " ".join([first if first.isupper() else first.capitalize(), *others])


def _shortened(text: str) -> str:
    """Text without what stands in brackets, where it is long."""
    if len(text) > _CELL:
        # Reasons stand in brackets; the short form goes without them.
        text = text.partition(" (")[0]
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"


def _aligned_lines(rows: Any, least: int = 0) -> list[str]:
    """Lines of texts, in columns that are as wide as their widest; the last goes on."""
    cells = list(map(list, rows))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    widths[0] = max(widths[0], least)
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _caption(result: Result) -> str:
    return f"<caption>{html.escape(_class_in_words(type(result).__name__))}</caption>"


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
    return f"<table><thead>{row(header, 'th')}</thead><tbody>{body}</tbody></table>" if rows else ""


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[-+]?[\d,.]+(e[-+]?\d+)?|inf|", text) is not None
