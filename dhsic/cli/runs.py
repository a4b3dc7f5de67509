"""``dhsic runs``, ``status``, ``result`` and ``cancel``: what became of submitted tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from dhsic._progress import progress_bar
from dhsic.cli.output import print_columns, print_result
from dhsic.cli.run_status import Standing, follow, progress_of, read_result, standing, trouble, why
from dhsic.cli.table import COMMANDS
from dhsic.cluster.submit import QUEUES, RunState, SubmittedRun, find_run, list_runs, runs_folder
from dhsic.cluster.submit.quoting import shell_line
from dhsic.errors import ClusterError, InvalidArgumentError

Command = TypeVar("Command", bound=Callable[..., Any])

runs_option = click.option(
    "--runs",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder that holds the runs.  [default: $XDG_STATE_HOME/dhsic/runs]",
)
_run_argument = click.argument("identity", metavar="RUN")
_SHOWN = 50


@click.command()
@runs_option
def runs(runs: Path | None) -> None:
    """List submitted tests, the latest first."""
    submitted = list_runs(runs_folder(runs))
    # On stderr, so that a program reads no run from it.
    if not submitted:
        click.echo("no runs yet: submit one with 'dhsic submit'", err=True)
        return
    header = ["run", "where", "submitted", "command"]
    shown = [(run, _shortened_text(shell_line(run.command))) for run in submitted]
    print_columns(header, [[run.identity, run.queue, run.created, text] for run, text in shown])


@click.command()
@_run_argument
@runs_option
def status(identity: str, runs: Path | None) -> None:
    """Show the state of a submitted test."""
    run = find_run(runs_folder(runs), identity)
    now = standing(run)
    state = run.state()
    lines = {
        "state": now,
        "reason": why(run) if now == "failed" else None,
        "trouble": trouble(run, now) if now in ("waiting", "running") else None,
        "progress": _progress(run) if now == "running" else None,
        "queue": run.queue if state is None else f"{run.queue}, job {state.job}",
        "submitted": run.created,
        "command": shell_line(("dhsic", *run.command)),
        "folder": str(run.folder),
    }
    for label, text in lines.items():
        if text is not None:
            click.echo(click.style(f"{label:<11}", bold=True) + text)


@click.command(short_help="Print the result of a submitted test.")
@_run_argument
@runs_option
@click.option("--wait", is_flag=True, help="Wait for the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
def result(identity: str, runs: Path | None, wait: bool, as_json: bool) -> None:
    """Print the result of a submitted test, as 'dhsic test' would."""
    run = find_run(runs_folder(runs), identity)
    if wait:
        with progress_bar() as bar:
            now = follow(run, bar)
    else:
        now = standing(run)
    finish(run, now, as_json=as_json)


@click.command(short_help="End a submitted test.")
@_run_argument
@runs_option
def cancel(identity: str, runs: Path | None) -> None:
    """End a submitted test; what it has done stays in its checkpoint, where it has one.

    If the test has ended, the command removes what it left in Kubernetes; result, log and
    checkpoint stay.
    """
    run = find_run(runs_folder(runs), identity)
    now, state = standing(run), run.state()
    # A run that ended has nothing to cancel, but may have left objects in its queue.
    if state is not None and now in ("waiting", "running"):
        _end_run(run, state)
        click.echo(f"cancelled {identity}")
    elif state is not None and QUEUES[run.queue].clear(run, state.job):
        click.echo(f"{identity} is {now}: removed what it left in {run.queue}")
    else:
        msg = f"RUN must be waiting or running, and {identity} is {now}: there is nothing to cancel"
        raise InvalidArgumentError(msg)


def _end_run(run: SubmittedRun, state: RunState) -> None:
    run.tell(replace(state, cancelled=True))  # first, or who follows it sees a failure
    try:
        QUEUES[run.queue].cancel(run, state.job)
    # Nothing was cancelled, so that the run is as before.
    except BaseException:
        run.tell(state)
        raise


def finish(run: SubmittedRun, now: Standing, *, as_json: bool = False) -> None:
    """Print the result of a run, or say why it has none.

    Raises
    ------
    ClusterError
        It has none.
    """
    if now == "finished":
        outcome = read_result(run)
        if as_json:
            click.echo(outcome.to_json(indent=2))
            return
        # The level is in the words of the command, and not in the result.
        test = COMMANDS["test"]
        options = test.make_context("dhsic test", list(run.command[1:])).params
        print_result(outcome, options["alpha"])
        return
    if now == "failed":
        msg = f"run {run.identity} failed: {why(run)} (its log is {run.log})"
    else:
        msg = f"run {run.identity} has no result, it is {now}: see 'dhsic status {run.identity}'"
    raise ClusterError(msg)


def _progress(run: SubmittedRun) -> str | None:
    progress = progress_of(run)
    if progress is None:
        return None
    amount = f"{progress['done']:,} of {progress['amount']:,} {progress['unit']}"
    return f"{progress['name']}, {amount}"


def _shortened_text(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."
