"""The steps of every command: open data, plan or run, show progress, write results."""

from __future__ import annotations

import inspect
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from dhsic._files import disk_errors, write_whole
from dhsic._progress import progress_bar
from dhsic.cli.checkpoints import interrupts_keep
from dhsic.cli.journal import STDERR, Journal, open_journal
from dhsic.cli.output import print_columns, print_summary
from dhsic.cli.recipes import code_of
from dhsic.cli.request import Request, read_request
from dhsic.cli.resources import client_at
from dhsic.cli.signature import Options, function_of
from dhsic.cluster import ClusterSpec
from dhsic.cluster.report import dashboard_link, performance_report, worker_count
from dhsic.engine.events import Event, RunStarted
from dhsic.engine.runtime import peak_bytes, worker_peak_bytes
from dhsic.errors import needing
from dhsic.io.urls import is_url, redacted
from dhsic.io.zarr_output import check_new_group
from dhsic.plots import figure_of
from dhsic.report import MemoryUse, Run, check_report, write_report

# Files that every command may write: the option, and what its help says.
FILES: Final = {
    "json_path": ("--json", "OUT.json", "Write the result as JSON."),
    "plot_path": ("--plot", "OUT.png", "Write a figure; the ending sets the format."),
    "page_path": ("--report", "OUT.html", "Write a report with figures and code."),
    "report_path": ("--performance-report", "OUT.html", "Write Dask's report of the workers."),
    "log_path": ("--log-json", "FILE", "Append events as JSON lines; - is stderr."),
}
# Attributes of results that a log has, of those that a result has.
_TOLD: Final = (
    *("statistic", "pvalue", "pvalue_error", "estimate", "of", "value", "direction"),
    *("difference", "estimator", "null", "seed", "seconds"),
)


def _drawn(result: Any, options: Options) -> Any:
    """Draw a result, at the level and by the correction that were asked for."""
    taken = inspect.signature(result.plot).parameters
    asked = {name: options[name] for name in ("alpha", "control") if name in {*taken} & {*options}}
    return result.plot(**asked)


@dataclass(frozen=True)
class Row:
    """A command: the function that it calls and its way to print.

    Parameters
    ----------
    name : str
        The words behind ``dhsic``.
    function : str
        The public function, as "dhsic:rank_features"; looked up when the command runs.
    show : callable
        Prints the result, with the options of the command.
    examples : str, optional
        Lines of the help.
    more : sequence of click.Parameter, optional
        Options of printing and writing.
    told : callable, optional
        Fields of the log besides attributes of the result.
    columns : callable, optional
        Columns of the arrays of the zarr group that it may write.
    read : callable, optional
        Opens the data.
    draw : callable, optional
        Draws the picture, with the options of the command.
    title : str, optional
        The first line of the help; that of the function where not given.
    options_from : str, optional
        The function whose parameters are the options; `function` where not given.
    without : sequence of str, optional
        Parameters that have no option.
    defaults : mapping, optional
        Other defaults than those of the function.
    parameters : sequence of str, optional
        Parameters that have options.
    """

    name: str
    function: str
    show: Callable[[Any, Options], None]
    examples: str = ""
    more: Sequence[click.Parameter] = ()
    told: Callable[[Any], Options] = lambda result: {}
    columns: Callable[[Request, Options], Mapping[str, int]] = lambda request, options: {}
    read: Callable[[Options, Sequence[str]], Request] = read_request
    draw: Callable[[Any, Options], Any] = _drawn
    title: str = ""
    options_from: str = ""
    without: Sequence[str] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    parameters: Sequence[str] = ()


def run(row: Row, options: Options) -> None:
    """Run a command."""
    if options.get("only_plan"):
        print_plan(row, options)
        return
    # All that can be refused without data is, before a log says that a command has begun.
    _check_outputs(options)
    # The words as they were typed, with options before and after the command.
    command = ("dhsic", *click.get_current_context().find_root().obj)
    page = _Page(options.get("page_path"))
    with open_journal(options["log_path"], command, options["data"]) as journal:
        # The request is read inside, so that the log tells of an error in the data, too.
        request = row.read(options, row.parameters)
        group, overwrite = options.get("out_path"), options["overwrite"]
        # What could not be written after a run is refused before it.
        if group is not None:
            check_new_group(group, row.columns(request, options), overwrite=overwrite)
        function = function_of(row.function)
        with _seen(request.cluster, options, journal, page) as seen:
            result = request.call(function, **seen)
            # Blocks of a map are computed as they are written, by the workers.
            if group is not None:
                result.to_zarr(group, overwrite=overwrite)
            # A picture needs values of rows, which workers read and which are gone with them.
            pictured = page.path is not None or options["plot_path"] is not None
            if pictured and getattr(result, "flat", False):
                result.drawn  # noqa: B018  # while there are processes to compute its points
        try:
            if options["json_path"] is not None:
                write_whole(options["json_path"], result.to_json(indent=2) + "\n")
            if page.path is not None:
                code = code_of(function, options, request)
                page.write(result, options, command, code)
            _write_picture(options["plot_path"], lambda: row.draw(result, options))
            told = {name: getattr(result, name) for name in _TOLD if hasattr(result, name)}
            journal.tell("result", **{**told, **row.told(result)})
        # The result is printed even where its file cannot be written.
        finally:
            row.show(result, options)


def judge(row: Row, options: Options) -> None:
    """Refuse what is submitted as the run would, before it and as its data are opened."""
    if row.name == "plan" or options.get("only_plan"):
        msg = (
            "a plan needs workers that run, and a submission has none yet: plan here, with "
            "--threads as of a worker"
        )
        raise click.UsageError(msg)
    _check_outputs(options)
    # Data at a URL perhaps only the nodes may read.
    if not is_url(options["data"]):
        row.read(options, row.parameters)


def print_plan(row: Row, options: Options) -> None:
    """Say what would run, in how much memory and time.

    Raises
    ------
    MemoryBudgetError
        It does not fit.
    """
    for name, (option, *_) in FILES.items():
        if options.get(name) is not None:
            msg = f"{option} needs a run, and a plan runs nothing: drop it"
            raise click.UsageError(msg)
    planner = vars(function_of(row.function))["planner"]
    planned = row.read(options, row.parameters).told(planner)
    print_summary(planned.summary())
    print_columns(*planned.table())
    # After the plan is printed, which says why it does not fit.
    planned.check()


def _check_outputs(options: Options) -> None:
    """Refuse one file for two outputs, files that exist unless replaced, and other pictures."""
    taken: dict[Path, str] = {}
    for name, (option, *_) in FILES.items():
        path = options.get(name)
        # The terminal can be shared, a file not.
        if path in (None, STDERR):
            continue
        if path in taken:
            msg = f"{taken[path]} and {option} name the same file, {path}: give each its own"
            raise click.UsageError(msg)
        taken[path] = option
        # A log is continued, others would be replaced.
        if name != "log_path" and path.exists() and not options["overwrite"]:
            msg = f"{option}: {path} exists: give another name, or --overwrite to replace it"
            raise click.UsageError(msg)
    _check_picture(options["plot_path"])


def _check_picture(path: Path | None) -> None:
    """Refuse before a run a picture that could not be written after it."""
    if path is None:
        return
    with needing("matplotlib", "plot", "--plot"):
        from matplotlib.figure import Figure
    # A figure alone has no window, so that this needs no display.
    if path.suffix.lstrip(".").lower() not in Figure().canvas.get_supported_filetypes():
        msg = f"--plot needs a name that ends in a format, as OUT.png or OUT.svg; got {path.name}"
        raise click.UsageError(msg)


def _write_picture(path: Path | None, draw: Callable[[], Any]) -> None:
    if path is None:
        return
    import matplotlib as mpl

    mpl.use("Agg", force=True)  # no window, whatever the machine has
    from matplotlib import pyplot as plt

    # A font without the letters of a name draws boxes, and warns once a letter.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = figure_of(draw())
        try:
            with disk_errors(f"the picture {path}"):
                figure.savefig(path, dpi=150)
        # Figures stay open in pyplot until they are closed, one more with every call.
        finally:
            plt.close(figure.number)


@contextmanager
def _seen(
    cluster: ClusterSpec | None, options: Options, journal: Journal, page: _Page
) -> Iterator[Options]:
    """Arguments of every public function, of a run that is seen on the terminal and in the log."""
    # A bar would write over the lines of a log on the same stream.
    quiet = options["log_path"] == STDERR
    with progress_bar(shown=not quiet) as bar:
        bar.begin("starting")
        # How a run ended is written before its cluster is closed, which takes a while.
        with interrupts_keep(options["checkpoint"]), client_at(cluster) as client, journal.ending():
            if client is not None:
                # Asked anew for every line: workers come and go in the course of a run.
                bar.workers = journal.workers = partial(worker_count, client)
                link = dashboard_link(client)
                shown = None if link is None else redacted(link)
                journal.tell("workers-ready", workers=len(client.nthreads()), dashboard=shown)
                if shown is not None and not quiet:
                    click.echo(f"dhsic: dashboard at {shown}", err=True)
            draw = bar.listen()

            def hear(event: Event) -> None:
                if isinstance(event, RunStarted):
                    page.started = event
                draw(event)
                journal.hear(event)

            path = options["report_path"]
            with nullcontext() if path is None else performance_report(client, path):
                yield {
                    "rng": options["rng"],
                    "client": client,
                    "progress": hear,
                    "checkpoint": options["checkpoint"],
                }
            # Only here: before its end the peak is not there, and after the block no worker is.
            page.measure(client)


class _Page:
    """A report, where one was asked for.

    Parameters
    ----------
    path : Path or None
        The file.

    Raises
    ------
    MissingDependencyError
        A library of the extra "report" is not installed.
    """

    def __init__(self, path: Path | None) -> None:
        # What the page needs is looked for before the run.
        if path is not None:
            check_report()
        self.path = path
        self.started: RunStarted | None = None
        self._memory: tuple[MemoryUse, ...] = ()

    def measure(self, client: Any) -> None:
        """Look at the memory of all processes, while they are there."""
        planned = self.started
        if self.path is None or planned is None:
            return
        self._memory = (MemoryUse("this process", planned.driver_bytes, peak_bytes()),)
        if client is not None:
            # The worker that had most stands for all: the plan bounds each of them.
            peak = worker_peak_bytes(client)
            self._memory += (MemoryUse("a worker", planned.worker_bytes, peak),)

    def write(self, result: Any, options: Options, command: Sequence[str], code: str) -> None:
        """Write the file, with the code that gives the result again."""
        started = self.started
        if self.path is None or started is None:
            return
        threads = f"{started.threads} thread{'s' if started.threads > 1 else ''}"
        # In words and not as the client prints itself, which may hold an address.
        ran_on = f"{threads} of one process"
        if len(self._memory) > 1:  # with workers
            ran_on = f"{started.workers} worker processes with {threads} in all"
        # The page is passed on, unlike the command that was typed.
        words = shlex.join([redacted(word) for word in command])
        run = Run(redacted(options["data"]), words, code, ran_on, self._memory)
        # Sensitivity maps have no level.
        level = {name: options[name] for name in ("alpha", "control") if name in options}
        write_report(result, self.path, run=run, **level)
