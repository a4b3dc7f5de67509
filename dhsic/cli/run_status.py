"""Where a submitted run stands, and waiting for it."""

from __future__ import annotations

import os
from contextlib import suppress
from time import sleep
from typing import Any, Literal

from dhsic._progress import Bar
from dhsic.cli.journal import read_journal
from dhsic.cluster.submit import QUEUES, Phase, SubmittedRun
from dhsic.errors import ClusterError, DataError
from dhsic.results import IndependenceTestResult

Standing = Literal["not submitted", "waiting", "running", "finished", "failed", "cancelled"]
_GOING: tuple[Standing, ...] = ("waiting", "running")

_SECONDS_BETWEEN = 2.0
_SILENCES = 10
_LOG_END = 4096


def standing(run: SubmittedRun) -> Standing:
    """Ask the queue, and look at what the run left behind."""
    # Its own file first: a queue may be silent, and forgets jobs after a while.
    state = run.state()
    if state is None:
        return "not submitted"
    if run.has_result():
        return "finished"
    phase = QUEUES[run.queue].phase(run, state.job)
    # It may have come between the first look and the answer.
    if run.has_result():
        return "finished"
    if phase != "ended":
        return phase
    return "cancelled" if state.cancelled else "failed"


def follow(run: SubmittedRun, bar: Bar) -> Standing:
    """Wait until the run is over; a queue that is busy may be silent for a while."""
    silences = 0
    while True:
        try:
            now, silences = standing(run), 0
        except ClusterError:
            silences += 1
            # A queue that is silent now and then does not end the watch.
            if silences == _SILENCES:
                raise
        else:
            if now not in _GOING:
                return now
            _show(run, now, bar)
        sleep(_SECONDS_BETWEEN)


def _show(run: SubmittedRun, now: Standing, bar: Bar) -> None:
    progress = progress_of(run)
    if progress is None:
        what = trouble(run, now) or ("waiting in the queue" if now == "waiting" else "starting")
        if bar.position.name != what:
            bar.begin(what)
        return
    bar.show(progress.pop("name"), progress)


def progress_of(run: SubmittedRun) -> dict[str, Any] | None:
    """How far the pass is that was last heard of; None before the first."""
    # The log has lines of several passes; the last with a position is the one that runs.
    for line in reversed(_journal(run)):
        if line.get("event") == "command-started":  # what comes before is of an earlier turn
            break
        if isinstance(line.get("progress"), dict):
            return {**line["progress"], "name": line["name"]}
    return None


def trouble(run: SubmittedRun, now: Standing) -> str | None:
    """The reason why a run waits, as far as its queue or its journal tells."""
    state = run.state()
    if state is None:
        return None
    phase: Phase = now if now == "waiting" or now == "running" else "ended"
    known, most = QUEUES[run.queue].trouble(run, state.job, phase), run.spec.most_workers
    begun = now == "running" and (_journal(run) or [{}])[-1].get("event") == "command-started"
    if known is None and begun and most is not None:
        return f"waiting for workers (0 of {most})"
    return known


def why(run: SubmittedRun) -> str:
    """Why a run has no result, as far as it could say so."""
    # The journal knows best, then the queue, then the last line that was printed.
    last = (_journal(run) or [{}])[-1]
    if last.get("event") == "error":
        return str(last.get("message"))
    if last.get("event") == "interrupted":
        return "it was interrupted"
    if (known := trouble(run, "failed")) is not None:
        return known
    with suppress(OSError), run.log.open("rb") as log:
        # The log may be large, and its last line is in the end of it.
        log.seek(max(0, os.fstat(log.fileno()).st_size - _LOG_END))
        lines = log.read().decode(errors="replace").splitlines()
        said = [line.strip() for line in lines if line.strip()]
        if said:
            return said[-1]
    return "it left no message"


def read_result(run: SubmittedRun) -> IndependenceTestResult:
    """The result that a run left behind.

    Raises
    ------
    DataError
        It cannot be read.
    """
    try:
        return IndependenceTestResult.from_json(run.result.read_text("utf-8"))
    except (OSError, ValueError) as error:
        msg = f"{run.result} must hold a result and does not: {error}"
        raise DataError(msg) from error


def _journal(run: SubmittedRun) -> list[dict[str, Any]]:
    try:
        return read_journal(run.journal)
    except DataError:  # it is not there yet
        return []
