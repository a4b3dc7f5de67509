"""Results of tests and estimates: as text, HTML, tables, pictures and JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Any, ClassVar, Final, Literal, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dhsic import plots
from dhsic._files import parse_json
from dhsic._validation import check_level, removed
from dhsic.errors import InvalidArgumentError, needing, printable
from dhsic.report import Findings, Pictures, Records, html_result, texts_of, write_report

AS_ASKED = "as asked"

# How the null of a series says that there are no more shifts of it.
MOST_SHIFTS = "about as many as the lag allows"

# Metadata of a field that is neither written as JSON nor pickled; it needs a default.
TRANSIENT: Final = MappingProxyType({"transient": True})

# How values of classes, and of those derived from them, are written as plain types and read;
# readers raise TypeError, ValueError or KeyError of anything else.
CODECS: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}
_STANDARD = ("statistic", "p_value", "estimate", "conf_low", "conf_high", "n", "method")
_SHOWN = 20
_CELL = 64


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A frozen result: labelled lines for people, records for tables, JSON for files.

    A class says what it holds in `summary` and `records`, and where need be in `findings`; all
    forms of it follow from these. Its arrays are read-only copies.

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
    >>> list(found.to_frame())[:6]
    ['term', 'statistic', 'p_value', 'estimate', 'conf_low', 'conf_high']
    """

    _tabular: ClassVar[bool] = True  # whether its text has the records below the lines
    _shown: ClassVar[Sequence[str]] = ()  # columns of the text; all but the method where empty
    _leading: ClassVar[int] = 0  # the line of the summary that tells the finding

    def __post_init__(self) -> None:
        cls: Any = type(self)
        for name, dtype in _arrays_of(cls).items():
            values = getattr(self, name)
            # One that owns its numbers and is read-only needs no copy.
            final = isinstance(values, np.ndarray) and not values.flags.writeable
            final = final and values.flags.owndata and np.issubdtype(values.dtype, dtype)
            if values is not None and not final:
                # A copy, which nobody else can change.
                values = np.array(values, _exact(dtype))
                values.flags.writeable = False
                object.__setattr__(self, name, values)

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values: dictionaries, lists, texts, numbers, booleans and None.

        Infinite numbers are texts, as JSON has none.
        """
        return {"result": type(self).__name__, **_plain_fields(self)}

    def to_json(self, *, indent: int | None = None) -> str:
        """All fields as JSON, in full precision."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote, and check that every field has its type.

        Raises
        ------
        InvalidArgumentError
            The text is not such a value.
        """
        try:
            # Constants of Python, as NaN, are no JSON and are refused by `_refuse_constant`.
            data = parse_json(text, parse_constant=_refuse_constant)
            read: Self = _read_fields(cls, data)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            msg = f"text must be the JSON of a {cls.__name__}, got {str(text)[:40]!r}...: {error}"
            raise InvalidArgumentError(msg) from error
        return read

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        # By their text, since `==` of two arrays is an array and no answer.
        return self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> Self:
        return self  # it does not change

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        cls: Any = type(self)
        # Fields that are written, and no others: lazy arrays and clients stay behind.
        kept = {name: getattr(self, name) for name in _written_fields(cls)}
        plain = {k: dict(x) if isinstance(x, Mapping) else x for k, x in kept.items()}
        return partial(cls, **plain), ()

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        raise NotImplementedError

    def records(self) -> list[dict[str, Any]]:
        """The rows of `to_frame`: one of a test, or one a pair, column, edge or whatever it has.

        Returns
        -------
        list of dict
            All with the same keys, the names of the columns.
        """
        raise NotImplementedError

    def table(self, most: int | None = None) -> tuple[list[str], list[list[str]]]:
        """Header and rows of short texts of the records, without columns that say nothing.

        Parameters
        ----------
        most : int, optional
            The largest number of rows. The default is all.
        """
        return texts_of(self.records()[:most], self._shown)

    def to_frame(self) -> Any:
        """Return the records as a tidy data frame.

        Returns
        -------
        pandas.DataFrame
            One row for a test; one row for each pair, column, edge or point of other results. The
            frame of a measure of dependence begins with the name, ``term``, or the names of a pair,
            ``x`` and ``y``, followed by ``statistic``, ``p_value``, ``estimate``, ``conf_low``,
            ``conf_high``, ``n`` and ``method``. Numbers that a result does not have are NaN.
            ``p_adjusted`` accounts for all rows.

        Raises
        ------
        MissingDependencyError
            pandas is not installed.
        """
        with needing("pandas", "tables", "A data frame"):
            import pandas as pd
        frame = pd.DataFrame.from_records(self.records())
        if "method" in frame:
            origin: Any = self.origin
            names = [name for name in ("term", "x", "y") if name in frame]
            told = {"n": getattr(origin, "n", None), **frame}
            first = {name: told.pop(name, math.nan) for name in (*names, *_STANDARD)}
            frame = pd.DataFrame({**first, **told}, frame.index)
        # None stands for NaN where no row has a number.
        return frame.astype({name: float for name in frame if frame[name].isna().all()})

    def __getattr__(self, name: str) -> Any:
        msg = f"{type(self).__name__!r} object has no attribute {name!r}{removed(name)}"
        raise AttributeError(msg)

    def findings(self, alpha: float, control: str) -> Findings:
        """Return the finding with the pictures and tables of a report.

        Parameters
        ----------
        alpha : float
            The level of decisions.
        control : str
            Correction of the decisions for many p-values.

        Returns
        -------
        Findings
        """
        del alpha, control
        # The line that tells the finding is the first, unless the class says otherwise.
        label, text = self.summary()[self._leading]
        tables = {self._title: self.records()} if self._tabular else {}
        return Findings(self._title, f"{label}: {text}", self._pictures(), tables)

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

    def _pictures(self) -> Pictures:
        """What draws the pictures of a report, each by its contents in words."""
        draw = getattr(self, "plot", None)
        return {} if draw is None else {f"{self._title}, drawn.": draw}

    def report(
        self, path: str | Path, *, alpha: float = 0.05, control: str = "bh", run: Any = None
    ) -> None:
        """Write the result as one HTML file, see `dhsic.report.write_report`.

        Parameters
        ----------
        path : str or Path
            The file; an existing file is replaced.
        alpha : float, optional
            The level of decisions.
        control : {"bh", "by", "bonferroni", "holm", "max-t"}, optional
            Correction of the decisions of a ranking for the number of features.
        run : dhsic.report.Run, optional
            The command and the machine, which the result does not have.

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        MissingDependencyError
            A library of the extra "report" is not installed.
        DataError
            The file cannot be written.
        """
        write_report(self, path, alpha=alpha, control=control, run=run)

    @property
    def _n_records(self) -> int:
        return len(self.records())

    def _brief(self) -> list[str]:
        """Short facts for `repr`, without what stands in brackets where they are long."""
        facts = []
        for label, text in self.summary()[:4]:
            short = text if len(text) <= _CELL else text.partition(" (")[0]
            facts.append(f"{label} {short if len(short) <= _CELL else f'{short[: _CELL - 1]}…'}")
        return facts

    def __repr__(self) -> str:
        # A line in a list or a debugger: the first facts, as many as fit.
        name = type(self).__name__
        brief = (printable(" ".join(text.split())) for text in self._brief())
        told = ", ".join(filter(None, brief))
        most = 390 - len(name) - len("<: >")
        return f"<{name}: {told if len(told) <= most else told[: most - 1] + '…'}>"

    def __str__(self) -> str:
        facts, (header, *rows), more = self._texts()
        table = aligned([header, *rows]) if rows else []
        return "\n".join([*aligned(facts), *table, *more])

    def _repr_html_(self) -> str:
        facts, (header, *rows), more = self._texts()
        return html_result(self._title, facts, header, rows, more)

    def _texts(self) -> tuple[list[list[str]], list[list[str]], list[str]]:
        """Facts, the first rows of the table below its header, and how many more there are."""
        header, rows = self.table(_SHOWN) if self._tabular else ([], [])
        facts, table = (
            [[*map(printable, row)] for row in part] for part in (self.summary(), [header, *rows])
        )
        more = self._n_records - _SHOWN if self._tabular else 0
        return facts, table, [f"... and {more:,} more"] if more > 0 else []


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of texts, in columns that are as wide as their widest; the last goes on."""
    # Escaped first: an escape sequence has more characters than it takes on the screen.
    cells = [list(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunFields(Result):
    """The fields of a run, which the results of all functions that read data inherit.

    Parameters
    ----------
    n : int
        Rows that were used.
    precision : str
        Precision of the tiles. Sums are always float64.
    seed : int
        Seed of every random draw.
    passes : tuple of PassSummary
        The passes over the data.
    seconds : float
        Wall time.
    version : str
        Version of dhsic.
    dropped : int
        Rows that were left out because a value is missing.
    data : tuple of StoredArraySummary
        The stored arrays, which did not change during the run.
    missing : tuple of int
        Rows of each variable with a missing value that ``missing="pairwise"`` kept; empty if there
        are none.
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
        """How many rows were used, how many were not or miss a value, and absent chunks."""
        rows = f"{self.n:,}"
        if self.dropped:
            rows += f", and {self.dropped:,} with missing values left out"
        if self.missing:
            rows += f", pairwise, with up to {max(self.missing):,} missing in a variable"
        return "; ".join([rows, *filter(None, (array.told for array in self.data))])

    def _chosen(self) -> str:
        """The estimator, and why this one where nobody asked for it."""
        reason = self.estimator_reason
        return f"{self.estimator}" if reason == AS_ASKED else f"{self.estimator}: {reason}"

    def _tail(self) -> list[tuple[str, str]]:
        """Last lines of the summary."""
        count = len(self.passes)
        read = f", {count:,} pass{'' if count == 1 else 'es'}" if count else ""
        time = f"{self.seconds:.2f} s{read}, {self.precision}"
        return [("seed", str(self.seed)), ("time", time)]


@dataclass(frozen=True, eq=False, repr=False)
class BarResult(Result):
    """A result whose picture is bars of a few numbers."""

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        """Names and lengths of the bars, and what they measure."""
        raise NotImplementedError

    def _pictures(self) -> Pictures:
        return {f"Bars of the {self._bars()[2]}.": self.plot}

    def plot(self, ax: plots.Axes | None = None) -> plots.Axes:
        """Draw bars in the order of the result, at most the first 40.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw in. The default is a new figure.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        MissingDependencyError
            matplotlib is not installed.
        """
        return plots.draw_bars(ax, *self._bars())


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DependenceEstimate(RunFields):
    """An estimate of dependence.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data, missing
        Of the run, see `dhsic.results.RunFields`.
    estimate : float
        The measure of dependence.
    quantity : str
        Estimated quantity, such as "squared HSIC".
    estimator : str
        Name of the estimator.
    estimator_reason : str
        Why this estimator was chosen.
    variables : tuple of VariableSummary
        The variables with their kernels.
    landmarks : LandmarkSummary or None
        The landmarks, if the estimator has any.
    features : FeatureSummary or None
        The features, if the estimator has any.
    interval : Interval or None
        The confidence interval of the estimate, where one was asked for.
    minimum : MinimumEffect or None
        Whether the dependence is as large as a minimum, where one was given.

    References
    ----------
    .. [1] A. Gretton, O. Bousquet, A. Smola, B. Schoelkopf. Measuring statistical dependence with
       Hilbert-Schmidt norms. ALT 2005.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 200))
    >>> dependent, independent = dhsic.hsic(x, x**2, rng=0), dhsic.hsic(x, y, rng=0)
    >>> dependent.quantity, dependent.estimate > 10 * independent.estimate
    ('squared HSIC', True)
    """

    _tabular: ClassVar[bool] = False

    estimate: float
    quantity: str
    estimator: str
    estimator_reason: str
    variables: tuple[VariableSummary, ...]
    landmarks: LandmarkSummary | None
    features: FeatureSummary | None
    interval: Interval | None = None
    minimum: MinimumEffect | None = None

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            ("variables", ", ".join(variable.told for variable in self.variables)),
            ("n", self._rows_told),
        ]
        if self.landmarks is not None:
            rows.append(("landmarks", self.landmarks.told))
        if self.features is not None:
            f = self.features
            orthogonal = ", orthogonal" if f.orthogonal else ""
            rows.append(("features", f"{_counts(f.counts)} {f.kind}{orthogonal}"))
        return rows

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        estimate = (self.quantity, f"{self.estimate:.6g} ({self._chosen()})")
        return [*self._rows(), estimate, *self._assessed(), *self._tail()]

    def _assessed(self) -> list[tuple[str, str]]:
        """How sure the estimate is."""
        rows = [] if self.interval is None else [("interval", self.interval.told)]
        return rows if self.minimum is None else [*rows, ("minimum", self.minimum.detail)]

    def records(self) -> list[dict[str, Any]]:
        kernels = " x ".join(v.kernel for v in self.variables)
        names = ("estimate", "quantity", "n", "dropped", "precision", "seed", "seconds", "version")
        told = {"method": self.estimator, **{name: getattr(self, name) for name in names}}
        told |= {} if self.interval is None else self.interval.columns
        if self.minimum is not None:
            told |= {
                "p_minimum": self.minimum.pvalue,
                "p_equivalence": self.minimum.equivalence_pvalue,
            }
        return [{"term": ", ".join(self._asked), **told, "kernels": kernels}]

    @property
    def _asked(self) -> tuple[str, ...]:
        """Names of what is compared."""
        return tuple(v.name for v in self.variables)

    def findings(self, alpha: float, control: str) -> Findings:
        del alpha, control
        within = "" if self.interval is None else f", interval {self.interval.told}"
        known = "" if self.minimum is None else f": {self.minimum.told}"
        lead = f"The {self.quantity} is {self.estimate:.6g}{within}{known}"
        return Findings(f"Dependence of {', '.join(self._asked)}", lead, tables=self._tables())

    def variable_records(self) -> list[dict[str, Any]]:
        """A row a variable, with its kernel."""
        return [
            {"variable": v.name, "columns": v.columns, "kernel": kernel_text(v.kernel)}
            for v in self.variables
        ]

    def _tables(self) -> dict[str, Records]:
        tables: dict[str, Records] = {"Variables": self.variable_records()}
        for name, summary in (("Landmarks", self.landmarks), ("Features", self.features)):
            if summary is not None:
                tables[name] = [vars(summary)]
        return tables

    def _brief(self) -> list[str]:
        names = ", ".join(plots.shortened(v.name, 24) for v in self.variables[:4])
        more = ", ..." if len(self.variables) > 4 else ""
        estimate = f"{self.quantity} = {self.estimate:.4g}"
        return [estimate, self.estimator, f"n = {self.n:,}", names + more]


def _counts(numbers: int | tuple[int, ...]) -> str:
    """One number, or one a variable; the least and the most where they are many."""
    each = (numbers,) if isinstance(numbers, int) else numbers
    if len(each) > 3:
        return f"{min(each):,} to {max(each):,}"
    return " and ".join(f"{n:,}" for n in each)


_LEVEL = 0.05
_TITLE_NAME = 48  # characters

_MEANING = (
    "The p-value is the probability of a statistic at least as large under {0}, of rows that are "
    "exchangeable. Where {0} is not rejected, it is not shown either."
)

_EXPLORATORY = (
    "The p-value of the test accounts for all kernels tried, judged by {0}; those of the table are "
    "of a combination by itself, and exploratory, as is the picture of evidence by kernel and "
    "length. The histogram has the score of all together, which the p-value compares with those of "
    "the replicates."
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class IndependenceTestResult(DependenceEstimate):
    """The outcome of a test of joint independence, with an estimate of the dependence.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data, missing
        Of the run, see `dhsic.results.RunFields`.
    estimate : float
        The measure of dependence, by the kernels of `variables`. If the test tried several kernels,
        these are the reference kernels, which are fixed before the test sees the data. With the
        strongest kernels the estimate of independent variables would be above 0.
    quantity : str
        Estimated quantity, such as "squared HSIC".
    estimator : str
        Name of the estimator.
    estimator_reason : str
        Why this estimator was chosen.
    variables : tuple of VariableSummary
        The variables with their kernels.
    landmarks : LandmarkSummary or None
        The landmarks, if the estimator has any.
    features : FeatureSummary or None
        The features, if the estimator has any.
    interval : Interval or None
        The confidence interval of the estimate, where one was asked for.
    minimum : MinimumEffect or None
        Whether the dependence is as large as a minimum, where one was given.
    statistic : float
        The test statistic. If there are several statistics, of kernels or of the stages of a chain,
        the largest standardised statistic, max_c (T_c - m_c) / s_c with m_c and s_c the mean and
        the standard deviation of the replicates of statistic c. It grows with the evidence.
    pvalue : float
        Probability under the null hypothesis of a value at least as large, never 0.
    pvalue_error : float or None
        Monte Carlo standard error of the p-value; None if nothing is simulated.
    null_distribution : ndarray, shape (b,)
        Replicates of the statistic under the null hypothesis. If its law is known in closed form,
        1,000 draws from the law for plots, which the p-value does not use.
    null : str
        The null distribution.
    null_reason : str
        Why this null was chosen.
    score : float or None
        The number that the p-value compares with `null_scores` if there are several statistics. For
        a grid the score combines the standardised statistics, see `dhsic.Grid`. With
        aggregate="soft" it is their soft maximum, which grows with the evidence. With "max" and
        "min-p" and a reference that has a share of the level, it is -log10 of the smaller of p /
        share and q / (1 - share), with p and q the ranks among the b replicates and the data, by
        the reference and by all other combinations; this score reaches its maximum if the data
        exceed all replicates, and does not grow further. For a chain the score combines the
        p-values of the stages, see `dhsic.Chain`. None for a single statistic, which the p-value
        compares with `null_distribution`.
    null_scores : ndarray, shape (b,), or None
        Replicates of the score under the null hypothesis, or draws from its law.
    grid : GridSummary or None
        The combinations of kernels, if the test tried several; `variables` have the reference.
    stages : tuple of StageSummary
        Stages of a chain of tests, see `dhsic.Chain`: one for every variable but the first.

    References
    ----------
    .. [1] A. Gretton, K. Fukumizu, C. Teo, L. Song, B. Schoelkopf, A. Smola. A kernel statistical
       test of independence. NeurIPS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 200))
    >>> result = dhsic.independence_test(x, x**2 + noise, rng=0)
    >>> result.pvalue, len(result.null_distribution)
    (0.001, 999)
    >>> type(result).from_json(result.to_json()) == result
    True
    """

    hypothesis: ClassVar[str] = "independence"
    question: ClassVar[str] = "Are {} independent?"

    statistic: float
    pvalue: float
    pvalue_error: float | None
    null_distribution: NDArray[np.float64]
    null: str
    null_reason: str
    score: float | None = None
    null_scores: NDArray[np.float64] | None = None
    grid: GridSummary | None = None
    stages: tuple[StageSummary, ...] = ()

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        count = len(self.null_distribution)
        drawn = self.pvalue_error is not None or self.stages
        resamples = f", {count:,} replicates" if drawn else ""
        of_reference = " (of the reference kernels, shown above)" if self.grid else ""
        return [
            *self._rows(),
            *([] if self.grid is None else [("kernels", self.grid.tried)]),
            ("statistic", f"{self.statistic:.6g} ({self._chosen()})"),
            ("p-value", self._pvalue_text),
            *(("stage", stage.told(count)) for stage in self.stages),
            ("null", f"{self.null}{resamples}: {self.null_reason}"),
            (self.quantity, f"{self.estimate:.6g}{of_reference}"),
            *self._assessed(),
            *self._tail(),
        ]

    def records(self) -> list[dict[str, Any]]:
        count = 1 if self.grid is None else len(self.grid.combinations)
        told = {
            "method": f"{self.estimator}, {self.null}",
            "statistic": self.statistic,
            "p_value": self.pvalue,
            "p_error": self.pvalue_error,
            "score": self.score,
            "replicates": len(self.null_distribution),
            "combinations": count,
        }
        return [{**super().records()[0], **told}]

    def findings(self, alpha: float, control: str) -> Findings:
        del control
        lead = f"{self.hypothesis.capitalize()} {decision(self, alpha)} ({self._p})"
        words = "Histogram of the null distribution, with the statistic and the critical value."
        tables, pictures = self._tables(), {words: partial(self.plot, alpha=alpha)}
        notes = [_MEANING.format(self.hypothesis)]
        notes += [f"{what.capitalize()}: {told}." for what, told in self._assessed()]
        if self.grid is not None:
            names, roles = [f"kernel of {name}" for name in self._compared], self.grid.roles
            tables["Kernels tried"] = [
                {
                    "no.": place + 1,
                    **dict(zip(names, map(kernel_text, tried.kernels), strict=True)),
                    "statistic": tried.statistic,
                    "standardised": tried.standardised,
                    "p": tried.pvalue,
                    "role": roles.get(place, ""),
                }
                for place, tried in enumerate(self.grid.combinations)
            ]
            words = f"Evidence of every combination of kernels; the strongest is {self.grid.told}."
            pictures[words] = partial(self.grid.plot, names=self._compared)
            notes.append(_EXPLORATORY.format(self.grid.judged))
        return Findings(self._question(), lead, pictures, tables, notes)

    @property
    def _compared(self) -> list[str]:
        """Names of what the kernels of a combination are of."""
        if self.stages:  # the one that decided
            stage = min(self.stages, key=lambda stage: stage.pvalue)
            return [f"variables before {stage.variable}", stage.variable]
        return [v.name for v in self.variables]  # of two samples one, their values

    @property
    def _pvalue_text(self) -> str:
        count = len(self.null_distribution)
        if any(is_least(stage.pvalue, count) for stage in self.stages):
            least = floor_text(count, reason=self.null_reason)
            return f"<= {self.pvalue:.4g} (that of a stage is {least})"
        best_rank = 1 if self.grid is None else self.grid.best_rank
        return pvalue_text(self.pvalue, self.pvalue_error, count, best_rank, self.null_reason)

    @property
    def _p(self) -> str:
        """As "p = 0.25", or "p <= 0.001" where it can be no smaller."""
        said = self._pvalue_text.partition(" (")[0].partition(" ±")[0]
        return f"p {said}" if said.startswith("<=") else f"p = {said}"

    def _question(self, most: int | None = None) -> str:
        """The question, with so many characters of names at most."""
        *others, last = self._asked
        names = f"{', '.join(others)} and {last}" if others else last
        return self.question.format(names if most is None else plots.shortened(names, most))

    def _brief(self) -> list[str]:
        verdict = "rejected" if self.pvalue <= _LEVEL else "not rejected"  # P(p <= level) <= level
        tried = [] if self.grid is None else [f"{len(self.grid.combinations)} kernel combinations"]
        said = [self._p, f"{self.hypothesis} {verdict} at {_LEVEL:g}"]
        return [*said, self.estimator, f"n = {self.n:,}", *tried]

    def plot(self, ax: plots.Axes | None = None, *, alpha: float = 0.05) -> plots.Axes:
        """Draw a histogram of the null distribution with the statistic and the critical value.

        If there are several statistics, the histogram shows the score, which the p-value compares.
        For a grid, a new figure also shows the evidence by kernel and length, see
        `GridSummary.plot`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes for the histogram. The default is a new figure.
        alpha : float, optional
            The level of the critical value.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        MissingDependencyError
            matplotlib is not installed.
        """
        check_level(alpha)  # before a figure is opened
        # What the p-value compares.
        measured, value, values = "statistic", self.statistic, self.null_distribution
        if self.score is not None and self.null_scores is not None:
            # A chain combines p-values of its stages, whatever joins the kernels within each.
            soft = self.grid is not None and self.grid.aggregate == "soft" and not self.stages
            measured = "soft maximum" if soft else "score"
            value, values = self.score, self.null_scores
        if ax is None and self.grid is not None:
            ax, beside = plots.axes_beside((6.4, 6.4), 4.4)
            self.grid.plot(beside, names=self._compared)
        return plots.null_distribution(
            values,
            value,
            alpha=alpha,
            resampled=self.pvalue_error is not None,
            null=self.null,
            quantity=f"{self.estimator} {measured}",
            note=self._p,
            title=self._question(_TITLE_NAME),
            ax=ax,
        )


def decision(result: IndependenceTestResult, alpha: float) -> str:
    """Whether a level rejects independence, and whether more replicates could say otherwise."""
    rejected = result.pvalue <= alpha
    verdict = f"{'rejected' if rejected else 'not rejected'} at level {alpha:g}"
    if result.pvalue_error is None:
        return verdict
    resamples = len(result.null_distribution)
    if 1 / (resamples + 1) > alpha:
        # Rounding of 1 / alpha must not ask for one more.
        enough = math.ceil(1 / alpha - 1e-9) - 1
        return f"{verdict}; {resamples:,} replicates never can, take {enough:,} or more"
    # Within two standard errors another seed may decide otherwise.
    if abs(result.pvalue - alpha) < 2 * result.pvalue_error:
        return f"{verdict}; a close call, take more replicates"
    return verdict


_DISTANCE = "standard deviations above the replicates"


@dataclass(frozen=True)
class GridSummary:
    """The combinations of kernels that a test tried.

    The p-value of the test accounts for all combinations; results of single ones are exploratory.

    Parameters
    ----------
    aggregate : str
        "soft" for the soft maximum of the standardised statistics, "max" for the largest, or
        "min-p" for the smallest of their p-values.
    reference_share : float
        Share of the weight ("soft") or of the level ("max", "min-p") of the reference combination,
        or of the combinations that lead in its place, see `dhsic.Grid`.
    reference : int
        The number of the combination nearest to the median heuristic, whose estimate is reported.
    strongest : int
        The number of the combination with the largest share of the evidence.
    combinations : tuple of KernelCombination
        All combinations.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 200))
    >>> grid = dhsic.independence_test(x, np.sin(8.0 * x) + noise, rng=0).grid
    >>> grid.told
    'ranks(gaussian), length x 1/8 and ranks(anderson-darling), 12.0 sd above the null mean'
    """

    aggregate: str
    reference_share: float
    reference: int
    strongest: int
    combinations: tuple[KernelCombination, ...]

    @property
    def told(self) -> str:
        """The kernels that decided, with their lengths beside those of the median heuristic."""
        strongest = self.combinations[self.strongest]
        z = strongest.standardised
        distance = f"{abs(z):.1f} sd {'above' if z >= 0.0 else 'below'} the null mean"
        return f"{' and '.join(strongest.scales)}, {distance}"

    def plot(
        self, ax: plots.Axes | None = None, *, names: Sequence[str] | None = None
    ) -> plots.Axes:
        """Draw how far the statistic of every combination lies above its replicates.

        For two variables draw a map with a row for each kernel of the first variable and a column
        for each kernel of the second, from long to short lengths. For more variables draw a bar for
        each kernel of every variable, with the strongest combination that contains it. Combinations
        that were not tried are blank.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw in. The default is a new figure.
        names : sequence of str, optional
            Names of the variables.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        MissingDependencyError
            matplotlib is not installed.
        """
        count = len(self.combinations[0].kernels)
        labels = [f"x{number + 1}" for number in range(count)] if names is None else names
        axes = plots.axes_of(ax, (6.4, 4.4))
        axes.set_title(f"Evidence by kernel and length,\n{_DISTANCE}", fontsize=11)
        scales = [self._by_length(variable) for variable in range(count)]
        if count != 2:
            # Bars of kernels, variable by variable: that of the strongest combination with each.
            best: dict[str, float] = {}
            # Of samples the values alone have a kernel.
            for variable, name in enumerate(["values"] if count == 1 else labels):
                for scale in scales[variable]:
                    with_it = (c for c in self.combinations if c.scales[variable] == scale)
                    label = f"{name}: {scale.replace(', length', ',')}"
                    best[label] = max(c.standardised for c in with_it)
            return plots.draw_bars(axes, list(best), list(best.values()), _DISTANCE)
        places = [
            (scales[0].index(c.scales[0]), scales[1].index(c.scales[1])) for c in self.combinations
        ]
        values = np.full((len(scales[0]), len(scales[1])), np.nan)
        for place, tried in zip(places, self.combinations, strict=True):
            values[place] = tried.standardised
        style = {True: (plots.ORANGE, "-"), False: ("black", ":")}
        marks = {places[k]: (role, *style[k == self.strongest]) for k, role in self.roles.items()}
        shown = [[scale.replace(", ", "\n") for scale in some] for some in scales]
        plots.draw_evidence(axes, values, shown, marks)
        vertical, horizontal = (plots.shortened(name, _TITLE_NAME) for name in labels)
        axes.set(xlabel=f"kernel of {horizontal}", ylabel=f"kernel of {vertical}")
        return axes

    def _by_length(self, variable: int) -> list[str]:
        """The kernels tried of a variable, family by family, from long to short lengths."""
        factors = {c.scales[variable]: (*c.factors, None)[variable] for c in self.combinations}
        families = list(dict.fromkeys(scale.split(",")[0] for scale in factors))

        def place(scale: str) -> tuple[int, float]:
            return families.index(scale.split(",")[0]), -(factors[scale] or 0.0)

        return sorted(factors, key=place)

    @property
    def roles(self) -> dict[int, str]:
        """Roles of combinations by their numbers."""
        if self.reference == self.strongest:
            return {self.reference: "reference, strongest"}
        return {self.reference: "reference", self.strongest: "strongest"}

    @property
    def tried(self) -> str:
        """How many there are, how they were judged, and the strongest."""
        tried = f"{len(self.combinations)} kernel combinations tried, judged by {self.judged}"
        return f"{tried}; p-value corrected for the choice. The strongest: {self.told}."

    @property
    def judged(self) -> str:
        """How they became one score."""
        return {
            "soft": "their soft maximum",
            "max": "the largest standardised statistic",
            "min-p": "the smallest p-value",
        }[self.aggregate]

    @property
    def best_rank(self) -> int:
        """The smallest numerator of a p-value, if the strongest one exceeds all replicates.

        It is 1 but where ranks are weighed by shares of the level, see `dhsic.nulls.aggregate`:
        rank k of a replicate by the others is as good as rank 1 by the share of the strongest where
        (k - 1/2) / (1 - share) <= 1 / (2 share).
        """
        if self.aggregate == "soft" or not 0.0 < self.reference_share < 1.0:
            return 1
        reference = self.strongest == self.reference
        share = self.reference_share if reference else 1.0 - self.reference_share
        return 1 + math.floor(0.5 + 0.5 * (1.0 - share) / share)


@dataclass(frozen=True)
class KernelCombination:
    """The result of one combination of kernels alone; exploratory, as it ignores the others.

    Parameters
    ----------
    kernels : tuple of str
        The kernel of each variable, with fitted bandwidths; for a stage of a chain, the kernel of
        the earlier variables and that of the variable.
    statistic : float
        The test statistic.
    standardised : float
        Its distance from the mean of its replicates, in standard deviations of the replicates.
    pvalue : float
        Its p-value, which does not account for the choice among combinations.
    factors : tuple of float or None
        Factor of the length of each kernel, relative to the given bandwidth or the median
        heuristic. None for a kernel without a length, such as "delta".
    """

    kernels: tuple[str, ...]
    statistic: float
    standardised: float
    pvalue: float
    factors: tuple[float | None, ...] = ()

    @property
    def scales(self) -> tuple[str, ...]:
        """One a variable: what the kernel is of, and its length beside that which was fitted.

        Examples
        --------
        >>> kernels = ("scores(gaussian:1.07)", "gaussian:6.8", "delta")
        >>> KernelCombination(kernels, 1.0, 2.0, 0.01, (1.0, 0.5, None)).scales
        ('scores(gaussian), length x 1', 'gaussian, length x 1/2', 'delta')
        """
        factors = self.factors or (None,) * len(self.kernels)
        return tuple(map(scale_text, self.kernels, factors))


_KERNEL_WIDTH = 66


@dataclass(frozen=True)
class VariableSummary:
    """One variable of a test.

    Parameters
    ----------
    name : str
        Name of the variable.
    columns : int
        Number of columns.
    kernel : str
        Its kernel with the fitted bandwidth, as `dhsic.kernels.parse` reads it.
    column_names : tuple of str or None
        Names of its columns, if it has several columns with names.
    """

    name: str
    columns: int
    kernel: str
    column_names: tuple[str, ...] | None = None

    @property
    def told(self) -> str:
        """The variable with its columns and its kernel, in a line."""
        kernel = kernel_text(self.kernel)
        if len(kernel) > _KERNEL_WIDTH:
            kernel = f"{kernel[:_KERNEL_WIDTH]}..."
        columns = f"{self.columns:,} column{'' if self.columns == 1 else 's'}"
        return f"{self.name} ({columns}, {kernel})"


@dataclass(frozen=True)
class LandmarkSummary:
    """The landmarks of an estimate.

    Parameters
    ----------
    drawn : int
        Landmark tuples before pruning.
    kept : int or tuple of int
        Landmark tuples after pruning, which span the others; one number for each variable if each
        variable has landmarks of its own.
    pairing : str
        "independent" or "joint".
    replace : bool
        Whether landmarks were drawn with replacement.
    tolerance : float
        Relative squared distance to the span below which a tuple is dropped.
    jitter : float
        Constant added to the diagonal of the Gram matrix: pivoting needs none.
    selection : str
        Method that selected landmarks from a pool.
    pool : int or None
        Rows of the pool; None if landmarks were drawn uniformly.
    choice : str
        Reason for the number of landmarks, if the call gave none.
    """

    drawn: int
    kept: int | tuple[int, ...]
    pairing: str
    replace: bool
    tolerance: float
    jitter: float = 0.0
    selection: str = "uniform"
    pool: int | None = None
    choice: str = ""

    @property
    def told(self) -> str:
        """How many there are of how many, and how they were drawn, in a line."""
        chosen = "" if self.pool is None else f", {self.selection} of {self.pool:,} rows"
        why = f"; {self.choice}" if self.choice else ""
        drawn = f"{self.drawn:,} kept, {self.pairing} pairing{chosen}{why}"
        return f"{_counts(self.kept)} of {drawn}"


@dataclass(frozen=True)
class FeatureSummary:
    """The features of an estimate.

    Parameters
    ----------
    kind : str
        Kind of the features, such as "cos-sin".
    counts : tuple of int
        Number of features of each variable.
    orthogonal : bool
        Whether the frequencies are orthogonal.
    """

    kind: str
    counts: tuple[int, ...]
    orthogonal: bool = False


@dataclass(frozen=True)
class Interval:
    """A confidence interval of a measure of dependence.

    Parameters
    ----------
    low, high : float
        Its ends.
    level : float
        The probability with which such intervals hold the measure of the population, by the same
        kernels: as 0.95.
    centre : float
        The estimate less its bias. The interval reaches farther above it than below, the more so
        the nearer it is to 0: an end has the error that a measure of its size would have.
    error : float
        The standard error of the estimate, by the jackknife that leaves out a block of rows at a
        time [1]_, or of a partial correlation by the infinitesimal one.
    degrees : int
        Degrees of freedom of the standard error, one less than the blocks, or than the rows.

    References
    ----------
    .. [1] F. Busing, E. Meijer, R. Van der Leeden. Delete-m jackknife for unequal m. Statistics
       and Computing 9, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 400))
    >>> found = dhsic.hsic(x, x + noise, estimator="dcor", confidence=0.95, rng=0)
    >>> found.interval.told
    '0.4087 to 0.5376 about 0.4692, corrected for bias (95 %)'
    """

    low: float
    high: float
    level: float
    centre: float
    error: float
    degrees: int

    @property
    def columns(self) -> dict[str, float]:
        """Both ends and the centre by the names that frames have."""
        return {"conf_low": self.low, "conf_high": self.high, "conf_centre": self.centre}

    @property
    def told(self) -> str:
        """The ends, the centre and the level."""
        about = f"{self.low:.4g} to {self.high:.4g} about {self.centre:.4g}"
        return f"{about}, corrected for bias ({100.0 * self.level:g} %)"


@dataclass(frozen=True)
class MinimumEffect:
    """How sure it is that a dependence is as large as the smallest that matters, or smaller.

    Parameters
    ----------
    minimum : float
        The smallest dependence that matters, between 0 and 1.
    quantity : str
        Its measure, as "CKA".
    estimate : float
        The measure of the data, less its bias.
    error : float
        The standard error of it.
    pvalue : float
        Of the hypothesis that the dependence is at most the minimum.
    equivalence_pvalue : float
        Of the hypothesis that it is at least the minimum.
    least : float
        The smallest minimum whose hypothesis is not rejected at one less the level: the dependence
        is at least that, with the confidence of the level.
    level : float
        As 0.95.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 500))
    >>> found = dhsic.independence_test(x, x + noise, minimum=0.04, rng=0)
    >>> found.minimum.told
    'dependent, and by at least 0.04'
    """

    minimum: float
    quantity: str
    estimate: float
    error: float
    pvalue: float
    equivalence_pvalue: float
    least: float
    level: float

    @property
    def told(self) -> str:
        """What is known of the dependence, in words."""
        if self.pvalue <= 1.0 - self.level:
            return f"dependent, and by at least {self.minimum:g}"
        if self.equivalence_pvalue <= 1.0 - self.level:
            return f"dependent by less than {self.minimum:g}, if at all"
        return f"not known whether dependent by {self.minimum:g}"

    @property
    def detail(self) -> str:
        """The figures behind it."""
        sure = f"at least {self.least:.4g} with {100.0 * self.level:g} % confidence"
        p = f"p = {self.pvalue:.3g} of at most, {self.equivalence_pvalue:.3g} of at least that"
        return f"{self.told}: {self.quantity} {self.estimate:.4g}, {sure}; {p}"


@dataclass(frozen=True)
class StageSummary:
    """One stage of a chain: the test of a variable against the earlier variables.

    Parameters
    ----------
    variable : str
        Name of the variable.
    others : tuple of str
        The earlier variables of the strongest statistic: all of them, or one.
    kernels : tuple of str
        The kernel of the earlier variables and that of the variable, with fitted bandwidths.
    statistic : float
        The strongest statistic.
    pvalue : float
        P-value of the stage alone; it accounts for the choice of the statistic.
    """

    variable: str
    others: tuple[str, ...]
    kernels: tuple[str, ...]
    statistic: float
    pvalue: float

    def told(self, n_replicates: int) -> str:
        """The stage and its p-value, as a bound where it is the smallest that there can be."""
        compared = "<=" if is_least(self.pvalue, n_replicates) else "="
        return f"{self.variable} on {', '.join(self.others)}: p {compared} {self.pvalue:.4g}"


@dataclass(frozen=True)
class PassSummary:
    """One pass over the data.

    Parameters
    ----------
    name : str
        Name of its result.
    blocks : int
        Row blocks.
    bytes_read : int
        Bytes read from the data, uncompressed.
    seconds : float
        Wall time.
    """

    name: str
    blocks: int
    bytes_read: int
    seconds: float


@dataclass(frozen=True)
class StoredArraySummary:
    """A stored array as a run found it, the same from its start to its end.

    Parameters
    ----------
    name : str
        Name of a variable that it holds.
    chunks : int
        That it should have, or shards where it has such.
    absent : int
        Chunks that are not there, within shards too, and were read as the fill value.
    stored_bytes : int
        Bytes of the others, as they are stored.
    checksums : tuple of str
        Its codecs that notice a damaged chunk.
    digest : str
        Digest of sizes and ETags, or times of writing, of all chunks: it differs where data were
        written anew.
    """

    name: str
    chunks: int
    absent: int
    stored_bytes: int
    checksums: tuple[str, ...]
    digest: str

    @property
    def told(self) -> str:
        """That chunks were absent; empty where none was."""
        count = f"{self.absent:,} chunk{'s' if self.absent > 1 else ''}"
        return f"{count} of {self.name} absent, read as the fill value" if self.absent else ""


def pvalue_text(
    p: float, error: float | None, n_replicates: int, best_rank: int = 1, reason: str = ""
) -> str:
    """Return the text of a p-value with its error, or of a bound if no p-value can be smaller.

    Parameters
    ----------
    p : float
        The p-value.
    error : float or None
        Its Monte Carlo standard error; None if nothing is simulated.
    n_replicates : int
        b, of which the smallest is 1 / (b + 1).
    best_rank : int, optional
        Where it is best_rank / (b + 1) instead, see `GridSummary.best_rank`.
    reason : str, optional
        How the replicates were made.

    Examples
    --------
    >>> pvalue_text(0.001, 0.001, 999)
    '<= 0.001 (the smallest with 999 replicates; take 9,999 or so to tell a smaller one)'
    >>> pvalue_text(0.25, 0.0137, 999), pvalue_text(0.25, None, 1000)
    ('0.25 ± 0.014', '0.25')
    """
    if error is None:
        return f"{p:.4g}"
    if not is_least(p, n_replicates, best_rank):
        return f"{p:.4g} ± {error:.2g}"
    return f"<= {p:.4g} ({floor_text(n_replicates, best_rank, reason)})"


def is_least(p: float, n_replicates: int, best_rank: int = 1) -> bool:
    """Whether a p-value is the smallest that there can be, best_rank / (b + 1)."""
    # The product of a float may miss the whole number by a digit.
    return p * (n_replicates + 1) <= best_rank + 1e-9


def floor_text(n_replicates: int, best_rank: int = 1, reason: str = "") -> str:
    """Say that no p-value can be smaller, and how many replicates would resolve smaller ones.

    Where the reason of the null says that a series has no more shifts, longer ones would.

    Examples
    --------
    >>> floor_text(250)
    'the smallest with 250 replicates; take 2,509 or so to tell a smaller one'
    >>> floor_text(250, best_rank=2)
    'the smallest of one combination with 250 replicates; take 2,509 or so to tell a smaller one'
    >>> floor_text(49, reason=f"all 50 shifts, {MOST_SHIFTS}")
    'the smallest with 49 replicates; a longer series has more shifts, to tell a smaller one'
    """
    # Ten times as many with the data among them, so that the smallest p-value is a tenth of it.
    more = 10 * (n_replicates + 1) - 1
    alone = " of one combination" if best_rank > 1 else ""
    how = f"take {more:,} or so"
    if MOST_SHIFTS in reason:
        how = "a longer series has more shifts,"
    return f"the smallest{alone} with {n_replicates:,} replicates; {how} to tell a smaller one"


_NUMBER = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?")

_SCALED = re.compile(
    r"(?:(ranks|scores)\()?(?:columns\()?"
    r"(gaussian|imq|laplacian|matern\d+|rq:[^:@*,()]+):([^:@*,()]+)\)*"
)

_PARAMETERS = re.compile(r":[^:@*,()+ ]+")
_MEAN = re.compile(r"columns\(([^()]*)\)")
_UNITS = {None: "", "ranks": " in ranks from 0 to 1", "scores": " in normal scores"}


def kernel_text(kernel: str) -> str:
    """A kernel to be read, with its length if it has a single one.

    It is 1 / sqrt(gamma) of gaussian, imq and rq kernels, exp(-gamma |x - y|^2) say, 1 / gamma of
    laplacian ones, exp(-gamma |x - y|_1), and the length of matern ones: the median distance of the
    rows, where the bandwidth follows from it. Its units are those of the data; of a kernel of ranks
    or normal scores, those of ranks or scores.

    Parameters
    ----------
    kernel : str
        As `dhsic.kernels.parse` reads it.

    Examples
    --------
    >>> kernel_text("gaussian:0.0045657788937916525"), kernel_text("delta")
    ('gaussian:0.004566, length 14.8', 'delta')
    >>> kernel_text("scores(gaussian:0.25)"), kernel_text("ranks(gaussian:16.0)")[20:]
    ('scores(gaussian:0.25), length 2 in normal scores', 'length 0.25 in ranks from 0 to 1')
    >>> kernel_text("columns(laplacian:0.25)"), kernel_text("matern32:3.0")
    ('columns(laplacian:0.25), length 4', 'matern32:3, length 3')
    """
    told, scaled = short_spec(kernel), _SCALED.fullmatch(kernel)
    if scaled is None:
        return told
    ranked, name, length = scaled[1], scaled[2], float(scaled[3])
    # Matern kernels are written by their length; the others by gamma.
    if not name.startswith("matern"):
        length = 1.0 / (length if name == "laplacian" else math.sqrt(length))
    return f"{told}, length {length:.4g}{_UNITS[ranked]}"


def scale_text(kernel: str, factor: float | None) -> str:
    """A kernel without its bandwidth, and its length beside that which was fitted.

    Examples
    --------
    >>> scale_text("scores(gaussian:1.07)", 0.5), scale_text("delta", None)
    ('scores(gaussian), length x 1/2', 'delta')
    """
    name = _PARAMETERS.sub("", short_spec(kernel))
    if factor is None:
        return name
    inverse = 1.0 / factor
    # 1/16 rather than 0.0625.
    told = f"1/{inverse:.0f}" if factor < 1.0 and inverse.is_integer() else f"{factor:.4g}"
    return f"{name}, length x {told}"


def short_spec(kernel: str) -> str:
    """The text of a kernel to be read: with numbers of four digits, and columns counted.

    Examples
    --------
    >>> short_spec("gaussian:0.0045657788937916525")
    'gaussian:0.004566'
    >>> short_spec("columns(laplacian:0.5,none,laplacian:2.0)")
    'columns(laplacian) of 3'
    """
    counted = _MEAN.sub(_kernel_counts_text, kernel)
    return _NUMBER.sub(lambda number: f"{float(number[0]):.4g}", counted)


def _kernel_counts_text(mean: re.Match[str]) -> str:
    """A mean over columns by the names of its kernels and how many columns there are."""
    parts = mean[1].split(",")
    names = dict.fromkeys(part.split(":")[0] for part in parts if part != "none")
    return f"columns({','.join(names)}) of {len(parts)}" if len(parts) > 1 else mean[0]


_SPELT = {"Infinity": math.inf, "-Infinity": -math.inf}


def _exact(dtype: Any) -> Any:
    """The numbers of new arrays: of floats of any precision, float64."""
    return np.float64 if dtype is np.floating else dtype


@cache
def _written_fields(cls: Any) -> dict[str, Any]:
    """Types of the fields that are written."""
    # Annotations are text until they are looked up, once for every class.
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls) if f.init and f.metadata != TRANSIENT}


@cache
def _arrays_of(cls: Any) -> dict[str, Any]:
    """Types of the numbers of the fields that are arrays, or arrays or None."""
    return {
        name: dtype
        for name, kind in _written_fields(cls).items()
        for option in (kind, *get_args(kind))
        if (dtype := _dtype_of(option)) is not None
    }


def _codec_of(kind: Any) -> Any:
    return next((CODECS[base] for base in getattr(kind, "__mro__", ()) if base in CODECS), None)


def _plain_fields(value: Any) -> dict[str, Any]:
    cls: Any = type(value)
    return {name: plain_value(getattr(value, name)) for name in _written_fields(cls)}


def plain_value(x: Any) -> Any:
    """Make a value of the types that JSON has."""
    # Scalars of NumPy too, which JSON does not know.
    if isinstance(x, np.ndarray | np.generic):
        x = x.tolist()
    if x is None or isinstance(x, bool | int | str):
        return x
    if isinstance(x, float):
        # JSON has no infinity, which an infinite statistic or bound may be: a word stands for it.
        return next((word for word, value in _SPELT.items() if x == value), x)
    if isinstance(x, list | tuple):
        return [plain_value(item) for item in x]
    if isinstance(x, Mapping):
        return {str(key): plain_value(item) for key, item in x.items()}
    if (codec := _codec_of(type(x))) is not None:
        return codec[0](x)
    if is_dataclass(x):
        return x.to_dict() if isinstance(x, Result) else _plain_fields(x)
    msg = f"{type(x).__name__} cannot be written as JSON"
    raise TypeError(msg)


def _read_fields(cls: Any, data: Any) -> Any:
    kinds = _written_fields(cls)
    if issubclass(cls, Result):
        data = {**data}
        # A file of another class may have the same fields.
        if data.pop("result") != cls.__name__:
            msg = "it is of another class"
            raise TypeError(msg)
    if not isinstance(data, dict) or data.keys() - kinds.keys():
        msg = f"{cls.__name__} has the fields {', '.join(kinds)}"
        raise TypeError(msg)
    return cls(**{name: _read_value(kinds[name], value, name) for name, value in data.items()})


def _read_value(kind: Any, data: Any, name: str) -> Any:
    """A value of a type from plain values."""
    origin, parts, dtype = get_origin(kind), get_args(kind), _dtype_of(kind)
    # By the type of the field: JSON alone does not tell a tuple from a list, or an array from
    # either.
    if origin in (Union, UnionType):
        if data is None and NoneType in parts:
            return None
        *others, last = (part for part in parts if part is not NoneType)
        for part in others:
            with suppress(TypeError, ValueError, KeyError):
                return _read_value(part, data, name)
        return _read_value(last, data, name)
    if (codec := _codec_of(kind)) is not None:
        return codec[1](data)
    if is_dataclass(kind):
        return _read_fields(kind, data)
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(data, dict):
        return {key: _read_value(parts[1], value, name) for key, value in data.items()}
    wanted = getattr(kind, "__name__", kind)
    named = isinstance(kind, type) and issubclass(kind, tuple)
    if origin is tuple or named:
        wanted = "a list"
        if isinstance(data, list):
            kinds = tuple(get_type_hints(kind).values()) if named else parts
            # `tuple[X, ...]` has one type for all of its items.
            each = [kinds[0]] * len(data) if kinds[-1] is Ellipsis else kinds
            items = [_read_value(one, x, name) for one, x in zip(each, data, strict=True)]
            return kind(*items) if named else tuple(items)
    elif dtype is not None:
        wanted = "a list of numbers"
        values = np.array(_spelt_out(data) if isinstance(data, list) else None)
        # No text becomes a number in silence.
        if not values.size or np.can_cast(values.dtype, _exact(dtype), "same_kind"):
            return values.astype(_exact(dtype))
    # JSON has one kind of number: other writers leave the fraction of 1.0 out.
    elif kind is float and (type(data) is int or (isinstance(data, str) and data in _SPELT)):
        return _spelt_out(data)
    elif kind is Any or (data in parts if origin is Literal else type(data) is kind):
        return data
    msg = f"{name} must be {wanted}, got {str(data)[:40]!r}"
    raise TypeError(msg)


def _dtype_of(kind: Any) -> Any:
    """X of the type NDArray[X], None of any other type."""
    parts = get_args(kind)
    if get_origin(kind) is np.ndarray:  # ndarray[shape, dtype[X]]
        parts = get_args(parts[1])
    # From NumPy 2.5 an alias of its own.
    elif get_origin(kind) is not get_origin(NDArray[Any]):
        return None
    return get_origin(parts[0]) or parts[0]  # floating of floating[Any]


def _spelt_out(data: Any) -> Any:
    if isinstance(data, list):
        return [_spelt_out(item) for item in data]
    return _SPELT.get(data, data)


def _refuse_constant(constant: str) -> Any:
    """NaN and infinity are no JSON, and `to_json` writes none."""
    raise ValueError(constant)
