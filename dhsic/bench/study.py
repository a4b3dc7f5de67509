"""One call makes a scaling study."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from dhsic._validation import check_integer, check_path
from dhsic.api import independence_test, plan
from dhsic.bench.data import Data
from dhsic.bench.places import StudyWorkers, WorkerPool
from dhsic.bench.result import ScalingStudy
from dhsic.bench.settings import SETTINGS, Setting, check_options, options_of, settings_of
from dhsic.engine.events import Event, PassFinished
from dhsic.errors import InvalidArgumentError
from dhsic.results import IndependenceTestResult

StudyRow = dict[str, Any]

_MEMORY = "2GiB"


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

    Every combination of what varies runs as a test that a user calls. Combinations take turns, so
    that what else the machine does falls on all of them alike.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m), or one function
        As for `independence_test`; or a function that takes a number of rows and returns the
        variables, for which 'rows' must vary. NumPy arrays that it returns are stored as zarr.
    vary : mapping of str to list
        Settings to vary, with their values: 'workers', 'scheduler' ('processes' or 'threads' of
        this process), 'rows' (the first so many), 'landmarks' of the estimator, 'n_resamples',
        'chunk_rows' (of Dask arrays that are cut anew, or of zarr copies that are made first) and
        'precision'. A list of one value fixes it. Where `workers` vary they are processes, unless
        said otherwise; where nothing is said, tests run on threads, one a processor.
    weak : bool, optional
        The rows of a worker stay constant: 'rows' are then those of one worker, or a share of all
        rows for the largest number of workers.
    repeats : int, optional
        Turns.
    csv : path, optional
        Where runs are kept as they finish. Those that are there are not run again, so that an
        interrupted study goes on when it is called again, with more values too. A file of other
        data or options is refused; a function is known by its name, data by some of their rows.
    folder : path, optional
        Where copies of data are made for a while. On a client give one that all its workers see;
        the temporary one of this machine where not given.
    client : distributed.Client, optional
        Where to run. Its cluster is scaled where 'workers' vary, and has as many as before at the
        end; one that adapts keeps its size during a run. Where not given, processes are started on
        this machine, and end with the study.
    progress : callable, optional
        Gets a line for every run; None for silence.
    **options
        Options of `independence_test`, the same for all runs. The seed `rng` is 0 where not given.

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
        The cluster does not come to so many workers.

    Notes
    -----
    Workers are started before the clock runs. A script that starts processes needs
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
    check_options(options, vary if isinstance(vary, Mapping) else ())
    check_integer("repeats", repeats, minimum=1)
    _check_progress(progress)
    _check_folder("csv must be in", None if csv is None else Path(check_path("csv", csv)).parent)
    _check_folder("folder must be", folder)
    # All runs have one seed, so that they do the same work.
    tests = {"rng": 0, **options}
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="dhsic-", dir=folder))
        data = Data(variables, tests.pop("names", None), scratch)
        places = stack.enter_context(WorkerPool(client, tests.get("memory", _MEMORY)))
        settings = settings_of(vary, weak=weak, most_rows=data.rows, workers=places.workers)
        # Threads take no time to start, and processes are what more workers are.
        usual = "threads" if client is None and "workers" not in vary else "processes"
        turns = _turns([{"scheduler": usual, **setting} for setting in settings], repeats, client)
        varied = f"{', '.join(sorted(vary))} vary{', weak' if weak else ''}"
        fixed = (f"{name}={value!r}" for name, value in sorted(tests.items()))
        study = "; ".join([data.described(places.runtime), places.described, varied, *fixed])
        table = ScalingStudy.kept(csv, study)
        for number, turn in enumerate(turns, 1):
            # The table may be of an earlier study that was interrupted.
            if table.has(turn):
                continue
            run = _run_setting(places.at(turn["scheduler"], turn["workers"]), data, turn, tests)
            table = table.with_run({**run, "study": study})
            # After every run, so that an interrupted study goes on from here.
            if csv is not None:
                table.to_csv(csv)
            if progress is not None:
                progress(f"run {number} of {len(turns)}: {_in_words(turn)}: {run['seconds']:.3g} s")
    return table.of(turns)


def _turns(settings: Sequence[Setting], repeats: int, client: Any) -> list[Setting]:
    """All runs in their order: of a user's cluster, which takes long to grow, size by size."""
    # Turn by turn and not setting by setting: a slow hour of the machine then strikes all alike.
    turns = [{**setting, "repeat": repeat} for repeat in range(repeats) for setting in settings]
    if client is None:
        return turns
    if any(turn["scheduler"] == "threads" for turn in turns):
        msg = "scheduler must be 'processes' where a client is given: leave one of them out"
        raise InvalidArgumentError(msg)
    # By their number, so that the cluster is scaled as seldom as may be.
    return sorted(turns, key=lambda turn: turn["workers"])


def _check_progress(progress: Any) -> None:
    if progress is not None and not callable(progress):
        msg = f"progress must be callable with a line of text, got {progress!r}: as print"
        raise InvalidArgumentError(msg)


def _check_folder(must: str, folder: str | os.PathLike[str] | None) -> None:
    """Refuse at once what could not be written after the first run."""
    if folder is not None and not os.path.isdir(check_path("folder", folder)):
        msg = f"{must} a folder that is there, got {os.fspath(folder)!r}: make it first"
        raise InvalidArgumentError(msg)


def _run_setting(
    place: StudyWorkers, data: Data, setting: Setting, options: Mapping[str, Any]
) -> StudyRow:
    """One test, and what it took."""
    sources = data.of(setting["rows"], setting.get("chunk_rows"))
    chosen = options_of(setting, options) | place.options
    # Beside what is measured, so that the table says how far plans are from it.
    planned = plan(*sources, **{name: value for name, value in chosen.items() if name != "rng"})
    task_seconds = 0.0

    def hear(event: Event) -> None:
        nonlocal task_seconds
        if isinstance(event, PassFinished):
            task_seconds += event.worker_seconds

    with place.measured() as usage:
        result = independence_test(*sources, **chosen, progress=hear)
    return {
        **_settings_of_result(result),
        **setting,
        "seconds": result.seconds,
        "pass_seconds": sum(done.seconds for done in result.passes),
        "task_seconds": task_seconds,
        "processor_seconds": usage.processor_seconds,
        "bytes_read": sum(done.bytes_read for done in result.passes),
        "peak_bytes": usage.peak_bytes,
        "planned_bytes": planned.peak_worker_bytes,
        "pvalue": result.pvalue,
        **{f"seconds: {done.name}": done.seconds for done in result.passes},
    }


def _settings_of_result(result: IndependenceTestResult) -> StudyRow:
    """Settings that were not varied, as the result tells them."""
    known: StudyRow = dict.fromkeys(SETTINGS)
    if result.landmarks is not None:
        known["landmarks"] = result.landmarks.drawn
    if result.pvalue_error is not None:
        known["n_resamples"] = len(result.null_distribution)
    return {**known, "precision": result.precision}


def _in_words(setting: Setting) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {f'{value:,}' if isinstance(value, int) else value}"
        for name, value in setting.items()
    )
