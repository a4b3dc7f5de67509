"""Studies of how a test scales: ``from dhsic import bench``."""

from __future__ import annotations

import hashlib
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec

from dhsic import plots
from dhsic._arguments import Precision
from dhsic._files import write_whole
from dhsic._validation import (
    check_choice,
    check_flag,
    check_integer,
    check_path,
    check_progress,
    read_method,
)
from dhsic.api import independence_test, plan
from dhsic.engine.events import Event, PassFinished
from dhsic.engine.runtime import Runtime, forget_peak, peak_bytes
from dhsic.engine.session import describe_sources
from dhsic.engine.units import format_count
from dhsic.errors import ClusterError, DataError, InvalidArgumentError, needing
from dhsic.estimators import ESTIMATORS
from dhsic.io.open import open_variables
from dhsic.io.variables import Variable
from dhsic.report import Pictures, as_text, texts_of
from dhsic.results import Result

__all__ = ["ScalingStudy", "scaling_study"]

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
_MEASURED = (
    *("seconds", "pass_seconds", "task_seconds", "processor_seconds"),
    *("bytes_read", "peak_bytes", "planned_bytes", "p_value"),
)
_QUANTITIES = {
    "speedup": "speed-up",
    "efficiency": "efficiency",
    "seconds": "time (s)",
    "processor_seconds": "processor time (s)",
    "peak_bytes": "peak memory of a process (MiB)",
}


@dataclass(frozen=True, repr=False)
class ScalingStudy(Result):
    """How a test scales.

    Parameters
    ----------
    runs : tuple of mapping
        One mapping for each run: its settings; its repetition as ``repeat``; wall time ``seconds``
        of the test, of its passes (``pass_seconds``, and of each as ``seconds: NAME``) and the sum
        over its tasks (``task_seconds``); processor time of the driver and all workers
        (``processor_seconds``); ``bytes_read``; ``peak_bytes`` of the process with tasks that used
        most memory (None if the system does not report it) and its ``planned_bytes``; ``p_value``;
        and ``study`` for the fixed settings.

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
        runs = _pandas().DataFrame.from_records(self.runs)
        runs["setting"] = runs.groupby(list(SETTINGS), dropna=False, sort=False).ngroup()
        how = {name: "median" if "seconds" in name else "first" for name in runs}
        # A budget must hold in every run: the median of peaks would hide the one that breaks it.
        how["peak_bytes"] = "max"
        groups = runs.groupby("setting")
        table = groups.agg(how).drop(columns=["setting", "repeat", "study"])
        table["all_seconds"] = groups["seconds"].agg(tuple)
        # Within a turn, since what else the machine does changes from one to the next.
        times = runs.pivot(index="repeat", columns="setting", values="seconds")
        table["relative"] = times.div(times[0], axis="index").median()
        table["speedup"] = table["efficiency"] = math.nan
        if "workers" in self.varied:
            tied = ("workers", "rows") if self.weak else ("workers",)
            like = [table[name] for name in self.varied if name not in tied]
            # Gains are told against the fewest workers, since one worker may not hold the data.
            alike = table.groupby(like or np.zeros(len(table)), dropna=False)["workers"]
            gain = (times[alike.transform("idxmin")].to_numpy() / times).median()
            more = table["workers"] / alike.transform("min")
            # In weak scaling a run of twice the workers does twice the work in the same time.
            table["speedup"] = gain * more if self.weak else gain
            table["efficiency"] = table["speedup"] / more
        rows: list[Row] = table.astype(object).where(table.notna(), None).to_dict("records")
        return rows

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each setting, with medians over repetitions.

        Rows also have ``all_seconds`` of the repetitions; ``relative``, the time over that of the
        first setting; and, if the number of workers varies, ``speedup`` and ``efficiency`` over the
        fewest workers. In weak scaling the speed-up is that in rows per second. The last three are
        medians of the ratios within a repetition.

        Raises
        ------
        MissingDependencyError
            pandas is not installed.
        """
        return self._settings

    def slopes(self, along: str | None = None, quantity: str = "seconds") -> dict[str, float]:
        """Compute slopes of a quantity on logarithmic axes, by least squares; 1 is proportional.

        Parameters
        ----------
        along : str, optional
            The setting, by default the first that varies and is a number.
        quantity : str, optional
            As for `plot`.

        Returns
        -------
        dict of str to float
            A slope for every combination of the other settings that vary, by the text of the
            combination, if there are two values or more.

        Raises
        ------
        InvalidArgumentError
            A quantity or a setting that the study does not have, or a setting that is no number.
        """
        setting = self._along(along)
        if setting in _WORDS:
            msg = f"along must be a setting that is a number, got {setting!r}: see 'relative'"
            raise InvalidArgumentError(msg)
        # Least squares of logarithms: a slope of 1 is time in proportion to the setting.
        return {
            label: float(np.polyfit(np.log(x), np.log(y), 1)[0])
            for label, (x, y) in self._lines(setting, quantity).items()
            if len(x) > 1
        }

    def plot(
        self, ax: plots.Axes | None = None, *, quantity: str | None = None, along: str | None = None
    ) -> plots.Axes:
        """Draw a quantity against a setting.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw in. The default is a new figure.
        quantity : str, optional
            "speedup", "efficiency", "seconds", "processor_seconds" or "peak_bytes". If workers
            vary, the default is the speed-up, or the efficiency of weak scaling; otherwise it is
            the time and, in a new figure, also the memory.
        along : str, optional
            The setting of the horizontal axis. The default is workers, or the first setting that
            varies and is a number.

        Returns
        -------
        matplotlib.axes.Axes
            The first axes. Times and memory have logarithmic axes, with the slopes of their lines.

        Raises
        ------
        InvalidArgumentError
            A quantity or a setting that the study does not have.
        MissingDependencyError
            matplotlib is not installed.
        """
        setting = self._along(along)
        if quantity is None and setting == "workers":
            quantity = "efficiency" if self.weak else "speedup"
        elif quantity is None and ax is None and any(run["peak_bytes"] for run in self.runs):
            ax, beside = plots.axes_beside((4.8, 4.8), 3.8)
            self._drawn(beside, setting, "peak_bytes")
        return self._drawn(ax, setting, quantity or "seconds")

    def _drawn(self, ax: plots.Axes | None, setting: str, quantity: str) -> plots.Axes:
        # Twice the workers halve the time at best: speed-up along a slope of 1, efficiency along
        # one of 0.
        ideal = {"speedup": 1.0, "efficiency": 0.0}.get(quantity)
        return plots.scaling(
            self._lines(setting, quantity),
            xlabel=setting.replace("_", " "),
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
        check_choice("quantity", quantity, list(_QUANTITIES))
        # In weak scaling rows and workers vary together, and are one axis.
        tied = ("rows",) if self.weak and setting == "workers" else ()
        others = [name for name in self.varied if name not in (setting, *tied)]
        lines: dict[str, tuple[list[Any], list[float]]] = {}
        rows = [row for row in self._settings if row[quantity] is not None]
        if setting not in _WORDS:
            rows.sort(key=lambda row: row[setting])
        for row in rows:
            x, y = lines.setdefault(_in_words({name: row[name] for name in others}), ([], []))
            x.append(row[setting])
            y.append(row[quantity] / 2**20 if quantity == "peak_bytes" else row[quantity])
        if not lines:
            msg = f"quantity {quantity!r} was not measured along {setting!r}: take 'seconds'"
            raise InvalidArgumentError(msg)
        return lines

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the runs, one on each line; the whole file is replaced.

        Parameters
        ----------
        path : path
            The file.
        """
        # One file at a time, so that an interrupted write leaves the former one. As objects: whole
        # numbers beside an absent one would become floats.
        write_whole(Path(path), _pandas().DataFrame(self.runs, dtype=object).to_csv(index=False))

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
            There is no such file, or it contains something else.
        """
        read = _pandas().read_csv
        try:
            with needing("pyarrow", "tables", "A file of a scaling study"):
                table = read(path, engine="pyarrow", dtype_backend="pyarrow")
        except (OSError, ValueError) as error:
            msg = f"{os.fspath(path)!r} cannot be read as the CSV file of a scaling study: {error}"
            raise DataError(msg) from error
        # Columns of passes differ from study to study, and are not asked for.
        needed = {*SETTINGS, *_MEASURED, "repeat", "study"}
        if absent := ", ".join(sorted(needed - set(table))):
            msg = (
                f"{os.fspath(path)!r} is no CSV file of a scaling study, it lacks {absent}: give "
                "another path"
            )
            raise DataError(msg)
        return cls(tuple(table.astype(object).where(table.notna(), None).to_dict("records")))

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        settings = format_count(len(self._settings), "setting")
        turns = len({run["repeat"] for run in self.runs})
        return [
            ("varied", ", ".join(self.varied) or "nothing"),
            ("runs", f"{len(self.runs):,} of {settings}, {format_count(turns, 'turn')} each"),
            ("study", str(self.runs[0]["study"]) if self.runs else ""),
        ]

    def table(self, most: int | None = None) -> tuple[list[str], list[list[str]]]:
        """Header and rows of short texts: settings that vary, and what was measured of each."""
        gains = ("speedup", "efficiency", "relative")
        return texts_of(self._settings[:most], (*self.varied, *gains, *_MEASURED))

    def _pictures(self) -> Pictures:
        # One setting alone makes no line.
        return super()._pictures() if self.varied else {}


def _pandas() -> Any:
    with needing("pandas", "tables", "A table of a scaling study"):
        import pandas as pd
    return pd


def _in_words(setting: Mapping[str, Any]) -> str:
    """Settings with their values, as "rows 1,000"."""
    words = (f"{name.replace('_', ' ')} {as_text(value)}" for name, value in setting.items())
    return ", ".join(words)


_MEMORY = "2GiB"
_CHOICES = {"scheduler": ("threads", "processes"), "precision": get_args(Precision)}
_VARIED = tuple(name for name in SETTINGS if name != "rows_per_worker")
_OWN = ("threads", "checkpoint")
_CHUNK_ROWS = 8192
_COPIED_ROWS = 65_536
# Jobs wait in a queue for their turn.
_WORKERS_TIMEOUT_SECONDS = 600.0
_LOOK_SECONDS = 0.05
_HERE = "this process"


def scaling_study(
    *variables: Any,
    vary: Mapping[str, Sequence[Any]],
    weak: bool = False,
    repeats: int = 3,
    csv: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    client: Any = None,
    progress: Callable[[str], object] | None = print,
    **options: Any,
) -> ScalingStudy:
    """Measure how the time and the memory of `dhsic.independence_test` scale.

    The study calls the test with every combination of the varied settings. Combinations take turns,
    so that other load of the machine affects all of them alike.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m), or one function
        As for `independence_test`; or a function that takes a number of rows and returns the
        variables, for which 'rows' must vary. NumPy arrays that it returns are stored as zarr.
    vary : mapping of str to list
        Settings to vary, with their values: 'workers', 'scheduler' ('processes' or 'threads' of
        this process), 'rows' (the first rows of the data), 'landmarks' of the estimator,
        'n_resamples', 'chunk_rows' (of Dask arrays, which are rechunked, or of zarr copies of other
        data) and 'precision'. A list of one value fixes a setting. If 'workers' vary, the default
        scheduler is 'processes'; otherwise tests run on threads, one for each processor.
    weak : bool, optional
        Keep the rows of a worker constant: 'rows' are then the rows of one worker; by default the
        largest number of workers shares all rows.
    repeats : int, optional
        Number of repetitions.
    csv : path, optional
        File that keeps finished runs. Runs in the file are not repeated, so the same call, also
        with more values, resumes an interrupted study. A file of other data or options is refused;
        the name identifies a function, and some rows identify data.
    folder : path, optional
        Folder for temporary copies of data. With a client all workers must be able to access it.
        The default is the temporary folder of this machine.
    client : distributed.Client, optional
        Client of the cluster that runs the tests. If 'workers' vary, the study scales the cluster,
        which keeps the largest number afterwards; do not let it adapt meanwhile. By default the
        study starts processes on this machine, and ends them.
    progress : callable, optional
        Function that receives a line for every run; None for no output.
    **options
        Options of `independence_test`, the same for all runs. The default seed `rng` is 0.

    Returns
    -------
    ScalingStudy

    Raises
    ------
    InvalidArgumentError
        A setting cannot vary, the test has no such option, or `csv` is of another study.
    DataError, MemoryBudgetError
        As for `independence_test`.
    ClusterError
        The cluster does not reach the number of workers.

    Notes
    -----
    Starting workers is not timed. A script that starts processes needs
    ``if __name__ == "__main__":`` around its main part.

    Examples
    --------
    >>> from dhsic.bench import scaling_study
    >>> from dhsic.io.synthetic import synthetic
    >>> study = scaling_study(
    ...     synthetic,
    ...     vary={"rows": [500, 1000], "workers": [1], "scheduler": ["threads"]},
    ...     repeats=1,
    ...     progress=None,
    ...     kernels="gaussian",
    ... )
    >>> [row["rows"] for row in study.records()]
    [500, 1000]
    """
    values = _checked_vary(vary)
    _check_options(options, values)
    check_flag("weak", weak)
    check_integer("repeats", repeats, minimum=1)
    check_progress(progress)
    _check_folder("csv must be in", None if csv is None else Path(check_path("csv", csv)).parent)
    _check_folder("folder must be", folder)
    # All runs have one seed, so that they do the same work.
    tests = {"rng": 0, **options}
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="dhsic-", dir=folder))
        place = _place(client, tests.get("memory", _MEMORY), stack)
        # Memory is not planned here: the runtime says how many workers and threads there are.
        here = Runtime.of(client, None, sys.maxsize)
        names = tests.pop("names", None)
        rows, told, data = _data(variables, names, Path(scratch), here)
        workers, where = here.threads, "on this machine"
        if client is not None:
            # As far as two studies can be told apart by it.
            workers = here.workers
            where = f"on a client of workers with {here.worker_threads} threads"
        # Threads take no time to start, and processes are what more workers are.
        usual = "threads" if client is None and "workers" not in vary else "processes"
        settings = _settings(values, weak, rows, workers)
        # Turn by turn and not setting by setting: a slow hour of the machine then strikes all
        # alike.
        turns = [
            {"scheduler": usual, **setting, "repeat": repeat}
            for repeat in range(repeats)
            for setting in settings
        ]
        if client is not None:
            if any(turn["scheduler"] == "threads" for turn in turns):
                msg = "scheduler must be 'processes' if a client is given: leave one of them out"
                raise InvalidArgumentError(msg)
            # By their number, so that the cluster, which takes long to grow, is scaled as seldom as
            # may be.
            turns.sort(key=lambda turn: turn["workers"])
        varied = f"{', '.join(sorted(vary))} vary{', weak' if weak else ''}"
        fixed = (f"{name}={value!r}" for name, value in sorted(tests.items()))
        study = "; ".join([told, where, varied, *fixed])
        # The file may be of an earlier call that was interrupted.
        runs = _kept(csv, study)
        for number, turn in enumerate(turns, 1):
            if any(_matches(run, turn) for run in runs):
                continue
            run = _run(place(turn["scheduler"], turn["workers"]), data, turn, tests)
            runs.append({**run, "study": study})
            # After every run, so that an interrupted study goes on from here.
            if csv is not None:
                ScalingStudy(tuple(runs)).to_csv(csv)
            if progress is not None:
                progress(f"run {number} of {len(turns)}: {_in_words(turn)}: {run['seconds']:.3g} s")
    # The file may hold runs that this call did not ask for.
    return ScalingStudy(tuple(next(r for r in runs if _matches(r, turn)) for turn in turns))


def _run(client: Any, data: Any, setting: Row, options: Mapping[str, Any]) -> Row:
    """One test on a client or threads, and what it took."""
    chosen = {**options, "client": client}
    chosen |= {name: setting[name] for name in ("n_resamples", "precision") if name in setting}
    if client is None:
        chosen["threads"] = setting["workers"]
    if "landmarks" in setting:
        asked = options.get("estimator") or "nystrom-m"
        known = list(ESTIMATORS)
        value: Any = ESTIMATORS[asked]() if asked in known else read_method("estimator", asked)
        if not hasattr(value, "n_landmarks"):
            msg = f"landmarks need an estimator that has some, got {asked!r}: as 'nystrom-m'"
            raise InvalidArgumentError(msg)
        chosen["estimator"] = replace(value, n_landmarks=setting["landmarks"])
    sources = data(setting["rows"], setting.get("chunk_rows"))
    # Beside what is measured, so that the table says how far plans are from it.
    planned = plan(*sources, **{name: value for name, value in chosen.items() if name != "rng"})
    tasks: list[float] = []

    def hear(event: Event) -> None:
        if isinstance(event, PassFinished):
            tasks.append(event.worker_seconds)

    # The mark is set back, or the peak might be of an earlier run.
    before, forgot = _processor_seconds(client), all(_everywhere(client, forget_peak).values())
    result = independence_test(*sources, **chosen, progress=hear)
    after, peaks = _processor_seconds(client), _everywhere(client, peak_bytes).values()
    found = result.landmarks
    return {
        **dict.fromkeys(SETTINGS),
        "landmarks": None if found is None else found.drawn,
        "n_resamples": None if result.pvalue_error is None else len(result.null_distribution),
        "precision": result.precision,
        **setting,
        "seconds": result.seconds,
        "pass_seconds": sum(done.seconds for done in result.passes),
        "task_seconds": sum(tasks),
        # Of a worker that is lost on the way nothing is known.
        "processor_seconds": sum(after[who] - before.get(who, 0.0) for who in after),
        "bytes_read": sum(done.bytes_read for done in result.passes),
        "peak_bytes": max((p for p in peaks if p is not None), default=None) if forgot else None,
        "planned_bytes": planned.peak_worker_bytes,
        "p_value": result.pvalue,
        **{f"seconds: {done.name}": done.seconds for done in result.passes},
    }


def _everywhere(client: Any, function: Callable[[], Any]) -> dict[str, Any]:
    """Values of a function in every process that runs tasks."""
    # A worker that is just leaving must not end the study.
    return {_HERE: function()} if client is None else dict(client.run(function, on_error="ignore"))


def _processor_seconds(client: Any) -> dict[str, float]:
    # Driver steps, as solves, run in this process even where workers have the passes.
    return {_HERE: time.process_time()} | _everywhere(client, time.process_time)


def _kept(path: str | os.PathLike[str] | None, study: str) -> list[Row]:
    """Runs of the same study that an earlier call kept; none where there is no file."""
    if path is None or not Path(path).exists():
        return []
    runs = list(ScalingStudy.from_csv(path).runs)
    other = next((run["study"] for run in runs if run["study"] != study), None)
    if other is not None:
        msg = (
            f"csv must be a new file or one of the same study; {os.fspath(path)!r} has "
            f"{other!r}, and this is {study!r}: give another path"
        )
        raise InvalidArgumentError(msg)
    return runs


def _matches(run: Row, setting: Row) -> bool:
    return all(run[name] == value for name, value in setting.items())


# --- settings


def _checked_vary(vary: Any) -> dict[str, list[Any]]:
    if not isinstance(vary, Mapping) or not vary:
        msg = f"vary must map settings to values, got {vary!r}: as {{'workers': [1, 2]}}"
        raise InvalidArgumentError(msg)
    checked: dict[str, list[Any]] = {}
    for name, values in vary.items():
        check_choice("a setting in vary", name, _VARIED)
        said, choices = f"vary[{name!r}]", _CHOICES.get(name)
        is_list = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str | bytes)
        checked[name] = [
            check_choice(said, value, choices) if choices else check_integer(said, value, minimum=1)
            for value in (values if is_list else ())
        ]
        # Different ones alone: two runs of one setting are turns, which `repeats` asks for.
        if not checked[name] or len(set(checked[name])) < len(checked[name]):
            msg = f"{said} must be a list of different values, got {values!r}: as [1, 2]"
            raise InvalidArgumentError(msg)
    return checked


def _check_options(options: Mapping[str, Any], varied: Mapping[str, Any]) -> None:
    """Refuse options that the study sets itself; others the plan of a run refuses."""
    for name in options:
        if name in (*_OWN, *varied):
            msg = f"{name} must be left out of a study, which sets it: drop it, or see vary"
            raise InvalidArgumentError(msg)
    # Runs would draw one after another from it, and do different work.
    if isinstance(options.get("rng"), np.random.Generator):
        msg = "rng must be a seed in a study, got a Generator, which differs from run to run"
        raise InvalidArgumentError(msg)


def _check_folder(must: str, folder: str | os.PathLike[str] | None) -> None:
    """Refuse at once what could not be written after the first run."""
    if folder is not None and not os.path.isdir(check_path("folder", folder)):
        msg = f"{must} an existing folder, got {os.fspath(folder)!r}: make it first"
        raise InvalidArgumentError(msg)


def _settings(
    values: Mapping[str, list[Any]], weak: bool, most_rows: int | None, workers: int
) -> list[Row]:
    """All combinations of what is varied, the first named changing slowest."""
    if weak and "workers" not in values:
        msg = "weak=True keeps the rows of a worker: vary 'workers' too, as [1, 2]"
        raise InvalidArgumentError(msg)
    if "rows" not in values and most_rows is None:
        msg = "a function that makes the data needs vary with 'rows', as {'rows': [10_000]}"
        raise InvalidArgumentError(msg)
    grid = dict(values)
    grid.setdefault("workers", [workers])
    # In weak scaling as many rows a worker as the data allow for the most of them.
    share = max(grid["workers"]) if weak else 1
    grid.setdefault("rows", [None if most_rows is None else max(1, most_rows // share)])
    settings: list[Row] = [
        dict(zip(grid, chosen, strict=True)) for chosen in product(*grid.values())
    ]
    if weak:
        # The number of rows given is that of one worker.
        settings = [
            {**one, "rows": one["rows"] * one["workers"], "rows_per_worker": one["rows"]}
            for one in settings
        ]
    most = max(setting["rows"] for setting in settings)
    if most_rows is not None and most > most_rows:
        msg = f"rows must be at most the {most_rows:,} of the data, got {most:,}: take fewer"
        raise InvalidArgumentError(msg)
    return settings


# --- data


def _data(
    variables: Sequence[Any], names: Sequence[str] | None, folder: Path, runtime: Runtime
) -> tuple[int | None, str, Callable[[int, int | None], list[Variable]]]:
    """Rows that there are, by what two studies can be told apart, and what gives so many rows.

    There are any number of rows, None, of a function; what it makes is stored.
    """
    make: Any = variables[0] if len(variables) == 1 and callable(variables[0]) else None
    whole = open_variables(variables, names) if make is None else []
    rows, described = None, f"rows of {_name_of_function(make)}"
    if make is None:
        rows, columns = whole[0].shape[0], ", ".join(f"{x.name} {x.shape[1]}" for x in whole)
        # The content too: a study must not go on with other data of the same shape.
        content = repr(describe_sources(whole, runtime)).encode()
        digest = hashlib.sha256(content).hexdigest()[:12]
        described = f"{rows} rows of {columns}, content {digest}"

    # One copy for every size that is asked for: runs of a setting read the same chunks.
    @cache
    def of(rows: int, chunk_rows: int | None) -> list[Variable]:
        made = [_first(source, rows) for source in whole] or _made(make, names, rows)
        # What is in memory or stored as it should be needs no copy.
        if make is None and chunk_rows is None:
            return made
        place = folder / f"{rows}-{chunk_rows}"
        return [_chunked(x, chunk_rows, place / f"{number}.zarr") for number, x in enumerate(made)]

    return rows, described, of


def _made(make: Any, names: Sequence[str] | None, rows: int) -> list[Variable]:
    made = make(rows)
    if not isinstance(made, list | tuple):
        msg = (
            "the function that makes the data must return a tuple of variables, got a "
            f"{type(made).__name__}: return (x, y)"
        )
        raise InvalidArgumentError(msg)
    sources = open_variables(made, names)
    if sources[0].shape[0] != rows:
        msg = f"the function must make the {rows:,} rows asked for, got {sources[0].shape[0]:,}"
        raise InvalidArgumentError(msg)
    return sources


def _name_of_function(function: Any) -> str:
    """A function without its address in memory; one with options given has them in its name."""
    if isinstance(function, partial):
        return f"{_name_of_function(function.func)} of {function.args}, {function.keywords}"
    return str(getattr(function, "__qualname__", type(function).__name__))


def _first(source: Variable, rows: int) -> Variable:
    """The first rows; none that is stored is copied."""
    return (
        replace(source, rows=rows)
        if source.is_stored
        else replace(source, array=source.array[:rows])
    )


def _chunked(source: Variable, chunk_rows: int | None, place: Path) -> Variable:
    """Chunks of so many rows: a graph is cut anew, other data are copied to zarr."""
    if chunk_rows is None and (source.place == "graph" or source.is_stored):
        return source
    if source.place == "graph":
        return replace(source, array=source.array.rechunk({0: chunk_rows}))
    n, width = source.shape
    # What is in memory has no chunks of its own.
    rows = min(chunk_rows or _CHUNK_ROWS, n)
    copy: Any = zarr.create_array(
        place,
        shape=(n, width),
        chunks=(rows, width),
        dtype=source.read(0, 1).dtype,
        # Compression would make the time depend on the values.
        compressors=Crc32cCodec(),
        # A chunk of zeros would not be written, and so never be read.
        config={"write_empty_chunks": True},
    )
    # In whole chunks, so that none is written twice.
    step = max(1, _COPIED_ROWS // rows) * rows
    for start in range(0, n, step):
        copy[start : start + step] = source.read(start, min(start + step, n))
    return Variable(source.name, copy, kinds=source.kinds)


# --- places


def _place(client: Any, memory: int | str, stack: ExitStack) -> Callable[[str, int], Any]:
    """What gives a client of so many workers by a scheduler; None for threads."""

    # Local ones stay until the end, so that runs can take turns; idle workers take no processor
    # time.
    @cache
    def local(workers: int) -> Any:
        from dhsic.cluster import local_cluster

        return stack.enter_context(local_cluster(workers, memory))

    def at(scheduler: str, workers: int) -> Any:
        if scheduler == "threads":
            return None
        chosen = local(workers) if client is None else _scaled(client, workers)
        # What is imported takes no time of the first run then.
        chosen.run(_import_for_tasks)
        return chosen

    return at


def _scaled(client: Any, workers: int) -> Any:
    """A client whose cluster has come to so many workers."""
    if len(client.nthreads()) == workers:
        return client
    if not hasattr(client.cluster, "scale"):
        msg = (
            f"client must have {workers} workers, and has {len(client.nthreads())} of a scheduler "
            "that runs already, which cannot be scaled from here: leave 'workers' out of vary"
        )
        raise InvalidArgumentError(msg)
    client.cluster.scale(workers)
    try:
        client.wait_for_workers(workers, timeout=_WORKERS_TIMEOUT_SECONDS)
    except TimeoutError as error:
        msg = f"the cluster was asked for {workers} workers, {error}: ask for fewer"
        raise ClusterError(msg) from error
    # Nothing waits for those that leave; the scheduler knows of each that has.
    while len(client.nthreads()) > workers:
        time.sleep(_LOOK_SECONDS)
    return client


def _import_for_tasks() -> None:
    """Import what a first task would, so that no run is longer by it."""
    import dhsic.api  # noqa: F401
