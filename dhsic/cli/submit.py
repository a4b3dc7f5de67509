"""Define ``dhsic submit``, and the commands that follow, show and cancel what it submitted."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import click
from click.core import ParameterSource

from dhsic._files import parse_json
from dhsic._progress import progress_bar
from dhsic.cli.command import Command, print_columns, read_journal
from dhsic.cluster import ClusterSpec
from dhsic.cluster.submit import (
    Standing,
    SubmittedRun,
    Task,
    cancel_run,
    end_job,
    find_run,
    job_in,
    list_runs,
    new_run,
    render,
    runs_folder,
    standings,
    submit_run,
    trouble,
)
from dhsic.errors import ClusterError, DataError, InvalidArgumentError
from dhsic.io.urls import is_url

_PROGRESS = "{name}, {done:,} of {amount:,} {unit}"
_COUNTED = ("name", "amount", "unit", "done")
_GOING: tuple[Standing, ...] = ("waiting", "running")
_USUAL = {"waiting": "waiting in the queue", "running": "starting"}
_SECONDS_BETWEEN, _SILENCES, _LOG_END, _SHOWN = 2.0, 10, 4096, 50
# Files of a run lie in its folder, and where it runs is in the file: both are not to be said twice.
_RESERVED = (
    *("--json", "--log-json", "--cluster", "--memory", "--threads", "--workers", "--scheduler"),
    *("--scheduler-file", "--tls-ca", "--tls-cert", "--tls-key", "--insecure"),
)
_IN_PODS = ("--report", "--performance-report", "--plot")
_TAKEN = ("--cluster", "--threads", "--memory", "--json", "--log-json", "--checkpoint")
_NOT_SUBMITTED = ("submit", "runs", "status", "result", "cancel")
# Columns of a sweep, by the fields of results: the names that frames have.
_COLUMNS = {"statistic": "statistic", "pvalue": "p_value", "estimate": "estimate", "n": "n"}

_runs_option = click.option(
    "--runs",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder that holds the runs.  [default: $XDG_STATE_HOME/dhsic/runs]",
)
_run_argument = click.argument("identity", metavar="RUN")


@click.command(
    cls=Command,
    short_help="Hand a command to a queue.",
    epilog="""\b
Examples
  dhsic submit --cluster cluster.yaml -- \\
      test songs.zarr --variable features --variable year
  dhsic submit --cluster cluster.yaml --each variable=loudness,tempo,key -- \\
      test songs.zarr --variable year
""",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--cluster",
    required=True,
    type=click.Path(path_type=Path),
    metavar="CLUSTER.yaml",
    help="Description of the cluster, whose kind names the queue: slurm, pbs, lsf, sge or "
    "kubernetes; a process here leads for other kinds.",
)
@click.option(
    "--each",
    multiple=True,
    metavar="NAME=VALUES",
    help="Run the command once for each of several values, separated by commas, or by semicolons "
    "if values have commas. A value replaces {NAME} in the command, or is the value of its option "
    "--NAME. If the option is repeated, all combinations of values run.",
)
@_runs_option
@click.option(
    "--render-only", is_flag=True, help="Print what would be submitted, and submit nothing."
)
@click.option(
    "--detach",
    is_flag=True,
    help="Print the name of the run and return; otherwise wait for the result.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND ...")
@click.pass_context
def submit(
    context: click.Context,
    cluster: Path,
    each: Sequence[str],
    runs: Path | None,
    render_only: bool,
    detach: bool,
    command: Sequence[str],
) -> None:
    """Hand a command of dhsic to a queue, and wait for its result or come back for it.

    A job runs the command; its workers are also jobs, or pods. The job keeps a checkpoint in the
    folder of the run, unless the command names another one, and resumes if its walltime ends. With
    --each the run is an array of jobs without workers; each job has the size of a worker, and as
    many run at a time as the file has workers. A run has a name and a folder, which 'dhsic status',
    'dhsic result' and 'dhsic cancel' know.
    """
    if render_only and detach:
        msg = "--render-only submits nothing that could be detached: give one of them"
        raise click.UsageError(msg)
    # All is judged before anything is written or submitted.
    spec = ClusterSpec.read(cluster)
    found, depth = _command(context, command)
    values = dict(map(_values, each))
    if each and len(values) < len(each):
        msg = "--each names an option twice: give all of its values at once"
        raise click.UsageError(msg)
    takes = [option for option in _TAKEN if any(option in one.opts for one in found.params)]
    run = new_run(command, depth, takes, values, spec, runs_folder(runs))
    for task in run.tasks():
        given = _judged(found, task, run)
    # Pods see no folder of a run, and a user may name a checkpoint of their own.
    if run.where == "kubernetes" or given["checkpoint"] is not None:
        run = replace(run, takes=tuple(option for option in takes if option != "--checkpoint"))
    text = render(run)
    if render_only:
        click.echo(text, nl=False)
        return
    job = submit_run(run, text)
    if detach:
        click.echo(run.identity)
        return
    # Stdout has the result alone.
    click.echo(f"run {run.identity}, {run.where} job {job}", err=True)
    try:
        _follow(run)
    # Ctrl-C ends the watch and not the run.
    except KeyboardInterrupt:
        click.echo(f"the run goes on: see 'dhsic status {run.identity}'", err=True)
        raise
    _print_result(run)


def _command(context: click.Context, words: Sequence[str]) -> tuple[click.Command, int]:
    """The command that words name, and how many of them do."""
    found, depth = context.find_root().command, 0
    while isinstance(found, click.Group):
        name = words[depth] if depth < len(words) else ""
        below = found.get_command(context, name)
        if below is None or (depth == 0 and name in _NOT_SUBMITTED):
            got = f"got {name[:80]!r}" if name else "got nothing"
            msg = f"give a command to submit, as -- test DATA --variable x --variable y; {got}"
            raise click.UsageError(msg)
        found, depth = below, depth + 1
    return found, depth


def _values(text: str) -> tuple[str, list[str]]:
    """The name and the values of a text such as variable=loudness,tempo."""
    name, equals, values = text.partition("=")
    # A comma within brackets is that of a selection, as features[:, 0:12].
    parts = values.split(";") if ";" in values else re.split(r",(?![^\[]*\])", values)
    found = [part.strip() for part in parts if part.strip()]
    if not equals or not name.strip("-") or len(found) < 2:
        msg = f"--each must be NAME=VALUE,VALUE with two values or more, got {text[:80]!r}"
        raise click.UsageError(msg)
    return name.strip("-"), found


def _joined(values: Sequence[str]) -> str:
    """The text of several values, which `_values` reads."""
    return (";" if any("," in value for value in values) else ",").join(values)


def _judged(found: click.Command, task: Task, run: SubmittedRun) -> dict[str, Any]:
    """Let the command judge its own options now, and not after hours in a queue."""
    name = " ".join(("dhsic", *task.given[: run.depth]))
    # With the parser of the command itself, so that both refuse the same.
    context = found.make_context(name, list(task.given[run.depth :]))
    # Pods leave no files.
    reserved = (*_RESERVED, *(_IN_PODS if run.where == "kubernetes" else ()))
    for parameter in found.params:
        option, source = parameter.opts[0], context.get_parameter_source(parameter.name or "")
        if option in reserved and source is ParameterSource.COMMANDLINE:
            msg = (
                f"{option} cannot be given to a command that is submitted: drop it; the file of "
                "--cluster says where it runs, and 'dhsic result --json' has what it found"
            )
            raise click.UsageError(msg)
    options = {"checkpoint": None, "data": "", **context.params}
    for what, value in (("DATA", options["data"]), ("--checkpoint", options["checkpoint"])):
        if run.where == "kubernetes" and value and not is_url(value):
            msg = (
                f"{what} must be a URL that pods can read, as s3://bucket/songs.zarr; got {value!r}"
            )
            raise click.UsageError(msg)
    if isinstance(found, Command):
        with context:
            found.judge(options)
    return options


@click.command()
@_runs_option
def runs(runs: Path | None) -> None:
    """List submitted commands, the latest first."""
    submitted = list_runs(runs_folder(runs))
    # On stderr, so that a program reads no run from it.
    if not submitted:
        click.echo("no runs yet: submit one with 'dhsic submit'", err=True)
        return
    rows = []
    for run in submitted:
        line = " ".join(shlex.join(run.words).split())
        shown = line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."
        rows.append([run.identity, run.where, run.created, shown])
    print_columns(["run", "where", "submitted", "command"], rows)


@click.command()
@_run_argument
@_runs_option
def status(identity: str, runs: Path | None) -> None:
    """Show the state of a submitted command."""
    run = find_run(runs_folder(runs), identity)
    found = standings(run)
    now, job, tasks = _whole(found), job_in(run.folder), run.tasks()
    progress = _progress(tasks[0]) if now == "running" and not run.each else None
    counts = ", ".join(f"{count} {standing}" for standing, count in Counter(found).items())
    line = ["dhsic", *run.words]
    if run.each:
        each = [f"--each={name}={_joined(values)}" for name, values in run.each.items()]
        line = ["dhsic", "submit", *each, "--", *run.words]
    lines = {
        "state": now,
        "tasks": counts if run.each else None,
        "reason": _why(run, found) if now == "failed" else None,
        "trouble": _trouble(run, now) if now in _GOING else None,
        "progress": None if progress is None else _PROGRESS.format_map(progress),
        "queue": run.where if job is None else f"{run.where}, job {job}",
        "submitted": run.created,
        "command": shlex.join(line),
        "folder": str(run.folder),
    }
    for label, text in lines.items():
        if text is not None:
            click.echo(click.style(f"{label:<11}", bold=True) + text)


@click.command(short_help="Print the result of a submitted command.")
@_run_argument
@_runs_option
@click.option("--wait", is_flag=True, help="Wait for the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
def result(identity: str, runs: Path | None, wait: bool, as_json: bool) -> None:
    """Print what a submitted command printed, or one table of the results of a sweep."""
    run = find_run(runs_folder(runs), identity)
    if wait:
        _follow(run)
    _print_result(run, as_json=as_json)


@click.command(short_help="End a submitted command.")
@_run_argument
@_runs_option
def cancel(identity: str, runs: Path | None) -> None:
    """End a submitted command; its checkpoint, if it has one, keeps finished parts.

    If the command has ended, remove its objects from Kubernetes; result, log and checkpoint remain.
    """
    run = find_run(runs_folder(runs), identity)
    now, job = _whole(standings(run)), job_in(run.folder)
    # A run that ended has nothing to cancel, but may have left objects in its queue.
    if job is not None and now in _GOING:
        cancel_run(run, job)
        click.echo(f"cancelled {identity}")
    elif job is not None and run.where == "kubernetes":
        end_job(run, job)
        click.echo(f"{identity} is {now}: removed what it left in {run.where}")
    else:
        msg = f"RUN must be waiting or running, and {identity} is {now}: there is nothing to cancel"
        raise InvalidArgumentError(msg)


# --- where a run stands


def _whole(found: Sequence[Standing]) -> Standing:
    """Where a run stands, of where its commands stand."""
    if "waiting" in found and set(found) <= {"waiting", "finished", "failed"}:
        return "waiting" if set(found) == {"waiting"} else "running"
    for standing in ("running", "failed", "cancelled"):
        if standing in found:
            return standing
    return found[0]


def _follow(run: SubmittedRun) -> None:
    """Wait until the run is over; a queue that is busy may be silent for a while."""
    silences, begun = 0, ("", None, None)
    with progress_bar() as bar:
        while True:
            try:
                found, silences = standings(run), 0
            except ClusterError:
                silences += 1
                # A queue that is silent now and then does not end the watch.
                if silences == _SILENCES:
                    raise
            else:
                if (now := _whole(found)) not in _GOING:
                    return
                progress = None if run.each else _progress(run.tasks()[0])
                over = f"{sum(one not in _GOING for one in found)} of {len(found)} have ended"
                usual = over if run.each and now == "running" else _USUAL[now]
                known = progress or {"name": _trouble(run, now) or usual}
                # Passes of one name follow each other, as those of the pairs of a search.
                turn = known["name"], known.get("pass"), known.get("amount")
                if turn != begun:
                    begun = turn
                    bar.begin(*(known[key] for key in _COUNTED if key in known))
                elif progress is not None:
                    bar.at(progress["done"])
            sleep(_SECONDS_BETWEEN)


def _progress(task: Task) -> dict[str, Any] | None:
    """How far the pass is that was last heard of; None before the first."""
    # The log has lines of several passes; the last with a position is the one that runs.
    for line in reversed(read_journal(task.folder / "journal.jsonl")):
        if line.get("event") == "command-started":  # what comes before is of an earlier turn
            break
        if isinstance(line.get("progress"), dict):
            return {**line["progress"], "name": line["name"]}
    return None


def _trouble(run: SubmittedRun, now: Standing) -> str | None:
    """The reason why a run waits, as far as its queue or its journal tells."""
    if (known := trouble(run, ended=False)) is not None:
        return known
    last = (read_journal(run.tasks()[0].folder / "journal.jsonl") or [{}])[-1].get("event")
    if now == "running" and run.led and last == "command-started" and run.spec.most_workers:
        logs = "" if run.spec.jobs is None else f"; their logs are in {run.spec.jobs.log_directory}"
        return f"waiting for workers (0 of {run.spec.most_workers}){logs}"
    return None


def _why(run: SubmittedRun, found: Sequence[Standing]) -> str:
    """Why a run has no result, as far as it could say so."""
    task = run.tasks()[found.index("failed")]
    last = (read_journal(task.folder / "journal.jsonl") or [{}])[-1]
    # The journal knows best, then the queue, then the last line that was printed.
    if last.get("event") == "error":
        return str(last.get("message"))
    if last.get("event") == "interrupted":
        return "it was interrupted"
    if (known := trouble(run, ended=True)) is not None:
        return known
    for path in (task.folder / "error.log", run.folder / "job.log"):
        with suppress(OSError), path.open("rb") as log:
            # The log may be large, and its last line is in the end of it.
            log.seek(max(0, os.fstat(log.fileno()).st_size - _LOG_END))
            lines = log.read().decode(errors="replace").splitlines()
            if said := [line.strip() for line in lines if line.strip()]:
                return said[-1]
    return "it left no message"


# --- results


def _print_result(run: SubmittedRun, *, as_json: bool = False) -> None:
    """Print the result of a run, or say why it has none.

    Raises
    ------
    ClusterError
        It has none.
    """
    found, tasks = standings(run), run.tasks()
    now = _whole(found)
    if run.each and any(one not in _GOING for one in found):
        _print_sweep(run, found, as_json=as_json)
        return
    if now == "failed":
        log = run.folder / "error.log"
        msg = f"run {run.identity} failed: {_why(run, found)} (its log is {log})"
        raise ClusterError(msg)
    if now != "finished":
        msg = f"run {run.identity} has no result, it is {now}: see 'dhsic status {run.identity}'"
        raise ClusterError(msg)
    path = tasks[0].folder / ("result.json" if as_json else "output.txt")
    try:
        click.echo(path.read_text("utf-8").rstrip("\n"))
    except OSError as error:
        msg = f"{path} must hold a result and cannot be read: {error.strerror}"
        raise DataError(msg) from error


def _print_sweep(run: SubmittedRun, found: Sequence[Standing], *, as_json: bool) -> None:
    """Print a line for every command of a sweep: its values, where it stands, what it found."""
    rows: list[dict[str, Any]] = []
    for task, standing in zip(run.tasks(), found, strict=True):
        held: Any = None
        with suppress(OSError, ValueError):
            held = parse_json((task.folder / "result.json").read_text("utf-8"))
        rows.append(
            {**dict(zip(run.each, task.values, strict=True)), "state": standing, "result": held}
        )
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    held = [row["result"] if isinstance(row["result"], dict) else {} for row in rows]
    columns = [name for name in _COLUMNS if any(name in one for one in held)]
    texts = [
        [*(str(row[name]) for name in (*run.each, "state")), *(_cell(one.get(c)) for c in columns)]
        for row, one in zip(rows, held, strict=True)
    ]
    print_columns([*run.each, "state", *(_COLUMNS[name] for name in columns)], texts)


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
