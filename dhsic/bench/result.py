"""Result of a study: a row for each run, and summaries of all."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dhsic import plots
from dhsic._drawing import axes_of, figure_of
from dhsic._validation import check_choice
from dhsic.bench.settings import SETTINGS
from dhsic.bench.table import MEASURED, Row, table_of, varied_in
from dhsic.engine.units import format_bytes, format_count
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.whole import write_whole
from dhsic.results import Result, Sketch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WORDS = ("scheduler", "precision", "study")
_BYTES = ("bytes_read", "peak_bytes", "planned_bytes")
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
        return varied_in(self.runs)

    @property
    def weak(self) -> bool:
        """Whether the rows of a worker were kept."""
        return any(run["rows_per_worker"] is not None for run in self.runs)

    @cached_property
    def _medians(self) -> list[dict[str, Any]]:
        return table_of(self.runs, weak=self.weak)

    def records(self) -> list[dict[str, Any]]:
        """A row a setting, with medians over the turns.

        Besides what a run has, ``all_seconds`` of the turns; ``relative``, the time over that of
        the first setting; ``speedup`` and ``efficiency`` beside the fewest workers, where their
        number varies. In weak scaling the speed-up is that in rows a second. All three are medians
        of the ratios within a turn.
        """
        return self._medians

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
        first = axes_of(None, (9.6, 3.8))
        figure = figure_of(first)
        grid = figure.add_gridspec(1, 2)
        first.set_subplotspec(grid[0])
        self._drawn(figure.add_subplot(grid[1]), setting, "peak_bytes")
        return self._drawn(first, setting, "seconds")

    def _drawn(self, ax: Axes | None, setting: str, quantity: str) -> Axes:
        lines = self._lines(setting, quantity)
        gain = quantity in ("speedup", "efficiency")
        return plots.scaling(
            lines,
            xlabel=_LABELS.get(setting, setting),
            ylabel=_QUANTITIES[quantity],
            # Twice the workers halve the time at best: speed-up along a slope of 1, efficiency
            # along one of 0.
            ideal={"speedup": 1.0, "efficiency": 0.0}.get(quantity),
            logarithmic=not gain,
            ax=ax,
        )

    def _along(self, along: str | None) -> str:
        names = [name for name in self.varied if name not in ("rows_per_worker", *_WORDS)]
        # In weak scaling the rows follow from the workers.
        if self.weak and "workers" in names:
            names = [name for name in names if name != "rows"]
        words = [name for name in self.varied if name in _WORDS]
        if along is None and names + words:
            return (names + words)[0]
        if along is None:
            msg = "a picture needs a setting that varies, and this study has one value of each"
            raise InvalidArgumentError(msg)
        return check_choice("along", along, names + words)

    def _lines(self, setting: str, quantity: str) -> dict[str, tuple[list[Any], list[float]]]:
        """Values against the setting, a line for every combination of the others that vary."""
        # In weak scaling rows and workers vary together, and are one axis.
        tied = ("rows",) if self.weak and setting == "workers" else ()
        others = [name for name in self.varied if name not in (setting, *tied)]
        lines: dict[str, tuple[list[Any], list[float]]] = {}
        rows = (
            self._medians if setting in _WORDS else sorted(self._medians, key=lambda r: r[setting])
        )
        for row in rows:
            if row[quantity] is not None:
                label = ", ".join(_worded(name, row[name]) for name in others)
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
                rows = [_read_row(row) for row in csv.DictReader(file)]
        except (OSError, ValueError, TypeError, AttributeError, csv.Error) as error:
            msg = f"{os.fspath(path)!r} cannot be read as the CSV file of a scaling study: {error}"
            raise DataError(msg) from error
        # Columns of passes differ from study to study, and are not asked for.
        needed = {*SETTINGS, *MEASURED, *_BYTES, "pvalue", "repeat", "study"}
        if not rows or needed - set(rows[0]):
            missing = ", ".join(sorted(needed - set(rows[0] if rows else ())))
            msg = (
                f"{os.fspath(path)!r} is no CSV file of a scaling study, it lacks {missing}: give "
                "another path"
            )
            raise DataError(msg)
        return cls(tuple(rows))

    @classmethod
    def kept(cls, path: str | os.PathLike[str] | None, study: str) -> ScalingStudy:
        """Runs of the same study that an earlier call kept; none where there is no file.

        Raises
        ------
        InvalidArgumentError
            The file is of another one.
        """
        if path is None or not Path(path).exists():
            return cls(())
        earlier = cls.from_csv(path)
        other = next((run["study"] for run in earlier.runs if run["study"] != study), None)
        if other is not None:
            msg = (
                f"csv must be a new file or one of the same study; {os.fspath(path)!r} has "
                f"{other!r}, and this is {study!r}: give another path"
            )
            raise InvalidArgumentError(msg)
        return earlier

    def has(self, setting: Row) -> bool:
        """Whether there is a run of these settings and this turn."""
        return any(_matches(run, setting) for run in self.runs)

    def with_run(self, run: Row) -> ScalingStudy:
        """The study with one run more."""
        return ScalingStudy((*self.runs, run))

    def of(self, settings: Sequence[Row]) -> ScalingStudy:
        """The runs of these settings and turns, in the order in which they are asked for."""
        # A file of an interrupted study may hold runs that this call did not ask for.
        chosen = (next(run for run in self.runs if _matches(run, s)) for s in settings)
        return ScalingStudy(tuple(chosen))

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        settings = format_count(len(self._medians), "setting")
        turns = len({run["repeat"] for run in self.runs})
        varied = ", ".join(_LABELS.get(name, name).replace("_", " ") for name in self.varied)
        return [
            ("varied", varied or "nothing"),
            ("runs", f"{len(self.runs):,} of {settings}, {format_count(turns, 'turn')} each"),
            ("study", str(self.runs[0]["study"]) if self.runs else ""),
        ]

    def table(self, most: int | None = None) -> tuple[list[str], list[list[str]]]:
        """Header and rows of short texts: settings that vary, and what was measured of each."""
        rows = self._medians[:most]
        names = [*self.varied, *(k for k in self._shown if any(r[k] is not None for r in rows))]
        header = [_LABELS.get(name, name.replace("_", " ")) for name in names]
        return header, [[_cell_text(k, row[k]) for k in names] for row in rows]

    def _sketches(self) -> Sequence[Sketch]:
        # One setting alone makes no line.
        return super()._sketches() if self.varied else ()


def _matches(run: Row, setting: Row) -> bool:
    return all(run[name] == value for name, value in setting.items())


def _read_row(row: Mapping[str, str]) -> dict[str, Any]:
    whole = (*SETTINGS, *_BYTES, "repeat")
    read: dict[bool, Callable[[str], Any]] = {True: int, False: float}
    return {
        name: (None if text == "" else text if name in _WORDS else read[name in whole](text))
        for name, text in row.items()
    }


def _quantity(quantity: str) -> str:
    return check_choice("quantity", quantity, list(_QUANTITIES))


def _worded(name: str, value: Any) -> str:
    return f"{_LABELS.get(name, name.replace('_', ' '))} {_cell_text(name, value)}"


def _cell_text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name in _BYTES:
        return format_bytes(value)
    return (
        f"{value:,}"
        if isinstance(value, int)
        else f"{value:.3g}"
        if isinstance(value, float)
        else value
    )
