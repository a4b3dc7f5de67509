"""A run on a cluster, seen: on the terminal, in the journal, in a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click

from dhsic._progress import Bar, progress_bar
from dhsic.cli.checkpoints import interrupts_keep
from dhsic.cli.journal import STDERR, Journal
from dhsic.cli.pages import Page
from dhsic.cluster.report import dashboard_link, performance_report, worker_count
from dhsic.engine.events import Event, Listener
from dhsic.io.urls import redacted

_TARGETS = {
    "json_path": "--json",
    "log_path": "--log-json",
    "page_path": "--report",
    "plot_path": "--plot",
    "report_path": "--performance-report",
}


def check_targets(options: dict[str, Any]) -> None:
    """Refuse one file for two outputs, and files that exist unless they are to be replaced.

    Raises
    ------
    click.UsageError
        Names the options.
    """
    taken: dict[str, str] = {}
    for name, option in _TARGETS.items():
        path = options.get(name)
        # The terminal can be shared, a file not.
        if path in (None, STDERR):
            continue
        if str(path) in taken:
            msg = f"{taken[str(path)]} and {option} name the same file, {path}: give each its own"
            raise click.UsageError(msg)
        taken[str(path)] = option
        # A log is continued, others would be replaced.
        if name != "log_path" and Path(path).exists() and not options.get("overwrite"):
            msg = f"{option}: {path} exists: give another name, or --overwrite to replace it"
            raise click.UsageError(msg)


def run_listener(client: Any, bar: Bar, journal: Journal, *, quiet: bool) -> Listener:
    """A listener for the bar and the journal, which learn of the cluster where there is one.

    The dashboard, where there is one, is named on stderr unless that is to be quiet.
    """
    if client is not None:
        # Asked anew for every line: workers come and go in the course of a run.
        bar.workers = journal.workers = partial(worker_count, client)
        # Asked once: the dashboard stays where it is while the scheduler lives.
        link = dashboard_link(client)
        shown = None if link is None else redacted(link)
        journal.tell("workers-ready", workers=len(client.nthreads()), dashboard=shown)
        if shown is not None and not quiet:
            click.echo(f"dhsic: dashboard at {shown}", err=True)
    draw = bar.listen()

    def hear(event: Event) -> None:
        draw(event)
        journal.hear(event)

    return hear


def reporting(client: Any, path: Path | None) -> AbstractContextManager[None]:
    """Write a performance report where one was asked for.

    Raises
    ------
    click.UsageError
        There are no workers to report of.
    """
    if path is None:
        return nullcontext()
    if client is None:
        msg = "--performance-report needs worker processes: add --workers N, or a cluster to run on"
        raise click.UsageError(msg)
    return performance_report(client, path)


@contextmanager
def seen_run(
    connected: Callable[[], AbstractContextManager[Any]],
    options: dict[str, Any],
    journal: Journal,
    page: Page,
) -> Iterator[dict[str, Any]]:
    """A run that is seen on the terminal, in the journal and on the page.

    Parameters
    ----------
    connected : callable
        Makes the context of the client, or of None for threads of this process.
    options : dict
        Those of the command.
    journal : Journal
        Is told of the run.
    page : Page
        Hears the plan, and measures the memory at the end.

    Yields
    ------
    dict
        Arguments of every public function: seed, client, progress and checkpoint.
    """
    # A bar would write over the lines of a log on the same stream.
    quiet = options["log_path"] == STDERR
    with progress_bar(shown=not quiet) as bar:
        bar.begin("starting")
        # How a run ended is written before its cluster is closed, which takes a while.
        with interrupts_keep(options["checkpoint"]), connected() as client, journal.ending():
            hear = run_listener(client, bar, journal, quiet=quiet)
            with reporting(client, options["report_path"]):
                yield {
                    "rng": options["seed"],
                    "client": client,
                    "progress": page.hearing(hear),
                    "checkpoint": options["checkpoint"],
                }
            # Only here: before its end the peak is not there, and after the block the workers are
            # not.
            page.measure(client)
