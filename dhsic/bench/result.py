"""Result of a scaling study: a row for each run, and summaries of all."""

from __future__ import annotations

import csv
import io
import os
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dhsic import plots
from dhsic._validation import check_choice
from dhsic.engine.units import format_bytes, format_count
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.whole import write_whole
from dhsic.results import Result, Sketch, as_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = dict[str, Any]

SETTINGS = (
    "workers",
    "scheduler",
    "rows",
    "rows_per_worker",
    "landmarks",
    "n_resamples",
    "chunk_rows",
    "precision",
)
_WORDS = ("scheduler", "precision")
_BYTES = ("bytes_read", "peak_bytes", "planned_bytes")
_SECONDS = ("seconds", "pass_seconds", "task_seconds", "processor_seconds")
_QUANTITIES = {
    "speedup": "speed-up",
    "efficiency": "efficiency",
    "seconds": "time (s)",
    "processor_seconds": "processor time (s)",
    "peak_bytes": "peak memory of a process (MiB)",
}
_LABELS = {"n_resamples": "replicates", "chunk_rows": "rows of a chunk"}


@dataclass(frozen=True, repr=False)
class ScalingStudy(Result):
    """How a test scales.

    Parameters
    ----------
    runs : tuple of mapping
        One a run: its settings, its turn as ``repeat``, wall time ``seconds`` of the test, of its
        passes (``pass_seconds``, and of each as ``seconds: NAME``), of its tasks added up
        (``task_seconds``), processor time of the driver and all workers (``processor_seconds``),
        ``bytes_read``, ``peak_bytes`` of the process that ran tasks and had most (None where no
        system tells), ``planned_bytes`` of it, ``pvalue``, and ``study`` for what was fixed.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.bench import scaling_study
    >>> x, y = np.random.default_rng(0).standard_normal((2, 1000))
    >>> vary = {"landmarks": [20, 40], "workers": [1], "scheduler": ["threads"]}
    >>> study = scaling_study(x, y, vary=vary, repeats=1, progress=None, kernels="gaussian")
    >>> study.varied, len(study.records())
    (('landmarks',), 2)
    """

    _tabular: ClassVar[bool] = True
    _shown: ClassVar[tuple[str, ...]] = (
        *("seconds", "speedup", "efficiency", "relative", "pass_seconds", "processor_seconds"),
        *("bytes_read", "peak_bytes", "planned_bytes", "pvalue"),
    )

    runs: tuple[Row, ...]

    @property
    def varied(self) -> tuple[str, ...]:
        """Names of the settings that have more than one value.

        Landmarks that follow from the rows, as by "8sqrt", are not among them.
        """
        several = [name for name in SETTINGS if len({run[name] for run in self.runs}) > 1]
        rows = {run["rows"] for run in self.runs}
        pairs = {(run["rows"], run["landmarks"]) for run in self.runs}
        follow = "landmarks" if 1 < len(rows) == len(pairs) else None
        return tuple(name for name in several if name != follow)

    @property
    def weak(self) -> bool:
        """Whether the rows of a worker were kept."""
        return any(run["rows_per_worker"] is not None for run in self.runs)

    @cached_property
    def _settings(self) -> list[Row]:
        groups: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for run in self.runs:
            groups[tuple(run[name] for name in SETTINGS)].append(run)
        every = list(groups.values())
        tied = ("workers", "rows") if self.weak else ("workers",)
        like = [name for name in self.varied if name not in tied]
        rows = []
        for group in every:
            alike = [g for g in every if all(g[0][name] == group[0][name] for name in like)]
            # Gains are told against the fewest workers, since one worker may not hold the data.
            base = min(alike, key=lambda g: g[0]["workers"])
            times = group[0]["workers"] / base[0]["workers"]
            gain = _ratio(base, group) if "workers" in self.varied else None
            # In weak scaling a run of twice the workers does twice the work in the same time.
            speedup = gain * times if gain is not None and self.weak else gain
            rows.append(
                {
                    **_middle(group),
                    "all_seconds": tuple(run["seconds"] for run in group),
                    "relative": _ratio(group, every[0]),
                    "speedup": speedup,
                    "efficiency": None if speedup is None else speedup / times,
                }
            )
        # The same columns in all rows: passes differ from setting to setting.
        columns = dict.fromkeys(name for row in rows for name in row)
        return [{name: row.get(name) for name in columns} for row in rows]

    def records(self) -> list[dict[str, Any]]:
        """A row a setting, with medians over the turns.

        Besides what a run has, ``all_seconds`` of the turns; ``relative``, the time over that of
        the first setting; ``speedup`` and ``efficiency`` beside the fewest workers, where their
        number varies. In weak scaling the speed-up is that in rows a second. All three are medians
        of the ratios within a turn.
        """
        return self._settings

    def slopes(self, along: str | None = None, quantity: str = "seconds") -> dict[str, float]:
        """Slopes of a quantity on logarithmic axes, by least squares: 1 where it is proportional.

        Parameters
        ----------
        along : str, optional
            The setting, by default the first that varies and is a number.
        quantity : str, optional
            As for `plot`.

        Returns
        -------
        dict of str to float
            One for every combination of the other settings that vary, by its words, where there
            are two values or more.

        Raises
        ------
        InvalidArgumentError
            A quantity or a setting that the study does not have, or a setting that is no number.
        """
        setting = self._along(along)
        if setting in _WORDS:
            msg = f"along must be a setting that is a number, got {setting!r}: see 'relative'"
            raise InvalidArgumentError(msg)
        lines = self._lines(setting, _quantity(quantity))
        return {
            # Least squares of logarithms: a slope of 1 is time in proportion to the setting.
            label: float(np.polyfit(np.log(x), np.log(y), 1)[0])
            for label, (x, y) in lines.items()
            if len(x) > 1
        }

    def plot(
        self, ax: Axes | None = None, *, quantity: str | None = None, along: str | None = None
    ) -> Axes:
        """Draw a quantity against a setting.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.
        quantity : str, optional
            "speedup", "efficiency", "seconds", "processor_seconds" or "peak_bytes". Where not
            given the speed-up where workers vary, or of weak scaling the efficiency; otherwise the
            time and, in a new figure, beside it the memory.
        along : str, optional
            The setting, where several vary: workers, or the first that is a number.

        Returns
        -------
        matplotlib.axes.Axes
            The first that was drawn. Quantities that a setting takes are on logarithmic axes,
            with the slopes of their lines.

        Raises
        ------
        InvalidArgumentError
            A quantity or a setting that the study does not have.
        MissingDependencyError
            matplotlib is not installed.
        """
        setting = self._along(along)
        if quantity is not None:
            return self._drawn(ax, setting, _quantity(quantity))
        if setting == "workers":
            return self._drawn(ax, setting, "efficiency" if self.weak else "speedup")
        if ax is not None or all(run["peak_bytes"] is None for run in self.runs):
            return self._drawn(ax, setting, "seconds")
        first, second = plots.axes_beside((4.8, 4.8), 3.8)
        self._drawn(second, setting, "peak_bytes")
        return self._drawn(first, setting, "seconds")

    def _drawn(self, ax: Axes | None, setting: str, quantity: str) -> Axes:
        # Twice the workers halve the time at best: speed-up along a slope of 1, efficiency along
        # one of 0.
        ideal = {"speedup": 1.0, "efficiency": 0.0}.get(quantity)
        return plots.scaling(
            self._lines(setting, quantity),
            xlabel=_LABELS.get(setting, setting),
            ylabel=_QUANTITIES[quantity],
            ideal=ideal,
            logarithmic=ideal is None,
            ax=ax,
        )

    def _along(self, along: str | None) -> str:
        # In weak scaling the rows follow from the workers.
        tied = ("rows_per_worker", "rows" if self.weak and "workers" in self.varied else None)
        names = [name for name in self.varied if name not in tied]
        names.sort(key=lambda name: name in _WORDS)
        if not names and along is None:
            msg = "a picture needs a setting that varies, and this study has one value of each"
            raise InvalidArgumentError(msg)
        return names[0] if along is None else check_choice("along", along, names)

    def _lines(self, setting: str, quantity: str) -> dict[str, tuple[list[Any], list[float]]]:
        """Values against the setting, a line for every combination of the others that vary."""
        # In weak scaling rows and workers vary together, and are one axis.
        tied = ("rows",) if self.weak and setting == "workers" else ()
        others = [name for name in self.varied if name not in (setting, *tied)]
        lines: dict[str, tuple[list[Any], list[float]]] = {}
        rows = [row for row in self._settings if row[quantity] is not None]
        if setting not in _WORDS:
            rows.sort(key=lambda row: row[setting])
        for row in rows:
            label = ", ".join(in_words(name, row[name]) for name in others)
            x, y = lines.setdefault(label, ([], []))
            x.append(row[setting])
            y.append(row[quantity] / 2**20 if quantity in _BYTES else row[quantity])
        if not lines:
            msg = f"quantity {quantity!r} was not measured along {setting!r}: take 'seconds'"
            raise InvalidArgumentError(msg)
        return lines

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the runs, a line each; the file is replaced whole.

        Parameters
        ----------
        path : path
            The file.
        """
        columns = list(dict.fromkeys(name for run in self.runs for name in run))
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        # One file at a time, so that an interrupted write leaves the former one.
        writer.writerows(self.runs)
        write_whole(Path(path), text.getvalue())

    @classmethod
    def from_csv(cls, path: str | os.PathLike[str]) -> ScalingStudy:
        """Read what `to_csv` wrote.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        ScalingStudy

        Raises
        ------
        DataError
            There is none, or it holds something else.
        """
        try:
            with Path(path).open(newline="") as file:
                rows = [{k: _read(v) for k, v in row.items()} for row in csv.DictReader(file)]
        except (OSError, ValueError, TypeError, csv.Error) as error:
            msg = f"{os.fspath(path)!r} cannot be read as the CSV file of a scaling study: {error}"
            raise DataError(msg) from error
        # Columns of passes differ from study to study, and are not asked for.
        needed = {*SETTINGS, *_SECONDS, *_BYTES, "pvalue", "repeat", "study"}
        if absent := ", ".join(sorted(needed - set(rows[0] if rows else ()))):
            msg = (
                f"{os.fspath(path)!r} is no CSV file of a scaling study, it lacks {absent}: give "
                "another path"
            )
            raise DataError(msg)
        return cls(tuple(rows))

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        settings = format_count(len(self._settings), "setting")
        turns = len({run["repeat"] for run in self.runs})
        varied = ", ".join(_LABELS.get(name, name).replace("_", " ") for name in self.varied)
        return [
            ("varied", varied or "nothing"),
            ("runs", f"{len(self.runs):,} of {settings}, {format_count(turns, 'turn')} each"),
            ("study", str(self.runs[0]["study"]) if self.runs else ""),
        ]

    def table(self, most: int | None = None) -> tuple[list[str], list[list[str]]]:
        """Header and rows of short texts: settings that vary, and what was measured of each."""
        rows = self._settings[:most]
        names = [*self.varied, *(k for k in self._shown if any(r[k] is not None for r in rows))]
        return [_label(k) for k in names], [[_cell_text(k, row[k]) for k in names] for row in rows]

    def _sketches(self) -> Sequence[Sketch]:
        # One setting alone makes no line.
        return super()._sketches() if self.varied else ()


def _middle(runs: Sequence[Row]) -> Row:
    """Medians of the times of turns; of memory the most, and of what is alike the first."""
    row: Row = {}
    for name in dict.fromkeys(name for run in runs for name in run):
        values = [run[name] for run in runs if run.get(name) is not None]
        if "seconds" in name:
            row[name] = median(values) if values else None
        elif name == "peak_bytes":
            # A budget must hold in every run: the median of peaks would hide the one that breaks
            # it.
            row[name] = max(values, default=None)
        elif name not in ("repeat", "study"):
            row[name] = runs[0][name]
    return row


def _ratio(above: Sequence[Row], below: Sequence[Row]) -> float | None:
    """Median over the turns that both have."""
    seconds = {run["repeat"]: run["seconds"] for run in below}
    # Within a turn, since what else the machine does changes from one to the next.
    ratios = [r["seconds"] / seconds[r["repeat"]] for r in above if r["repeat"] in seconds]
    return median(ratios) if ratios else None


def _read(text: str) -> Any:
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    return text or None


def _quantity(quantity: str) -> str:
    return check_choice("quantity", quantity, list(_QUANTITIES))


def in_words(name: str, value: Any) -> str:
    """A setting with its value, as "rows 1,000"."""
    return f"{_label(name)} {_cell_text(name, value)}"


def _label(name: str) -> str:
    return _LABELS.get(name, name.replace("_", " "))


def _cell_text(name: str, value: Any) -> str:
    return format_bytes(value) if name in _BYTES and value is not None else as_text(value)
