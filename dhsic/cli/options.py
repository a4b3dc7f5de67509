"""The options of `test`, `plan` and `sensitivity`, and what they mean to the package."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

import dhsic
from dhsic._arguments import Precision
from dhsic.cli.journal import STDERR
from dhsic.cli.kernels import KERNEL_OPTION, KERNEL_OPTIONS, read_kernels, single_kernels
from dhsic.cli.methods import NULL_OPTIONS, estimator_options, read_estimator, read_null
from dhsic.cli.missing import GAPS_OPTIONS, MISSING_OPTIONS
from dhsic.cli.resources import RESOURCE_OPTIONS, TIME_OPTION, RunResources, read_resources
from dhsic.engine.plan import Plan
from dhsic.estimators import Estimator
from dhsic.io.open import open_group, open_group_labels
from dhsic.io.variables import Variable

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Request:
    """A test as it was asked for.

    Parameters
    ----------
    sources : list of source
        The variables.
    arguments : dict
        Arguments that planning and testing share, besides the client.
    place : RunResources
        Where it runs.
    planner : callable, optional
        The public function that plans.
    """

    sources: list[Variable]
    arguments: dict[str, Any]
    place: RunResources
    planner: Callable[..., Plan] = field(default_factory=lambda: dhsic.plan)

    def told(self) -> Plan:
        """The plan where the test would run, with its seconds there.

        Raises
        ------
        click.UsageError
            It would run in jobs that are not there.
        """
        cluster = self.place.cluster
        if cluster is not None and cluster.kind not in ("local", "scheduler"):
            msg = (
                f"a plan is of workers that are there, and --cluster would start jobs of "
                f"{cluster.kind}: plan with --threads {cluster.threads}, as many as a worker has"
            )
            raise click.UsageError(msg)
        with self.place.client() as client:
            plan = self.planner(*self.sources, client=client, **self.arguments)
            return replace(plan, times=plan.timed)


def _level(context: click.Context, option: click.Parameter, value: float) -> float:
    del context, option
    # As a callback, so that click names the option in its error.
    if not 0.0 < value < 1.0:
        msg = f"the level must be greater than 0 and less than 1, as 0.05; got {value:g}"
        raise click.BadParameter(msg)
    return value


def _new_file(context: click.Context, option: click.Parameter, value: Path | None) -> Path | None:
    """Refuse before the run what could not be written after it."""
    del context, option
    if value is None:
        return None
    path = value.resolve()
    try:
        other = path.exists() and not path.is_file()
    except OSError as error:
        msg = f"{str(path)!r} cannot name a file ({error.strerror}): give another name"
        raise click.BadParameter(msg) from error
    if other:
        msg = f"give the name of a file; {path} is not one"
        raise click.BadParameter(msg)
    if not path.parent.is_dir():
        msg = f"the folder {path.parent} does not exist: create it first"
        raise click.BadParameter(msg)
    # Known now, and not when the result is to be written.
    if not os.access(path.parent, os.W_OK):
        msg = f"the folder {path.parent} cannot be written to: choose another"
        raise click.BadParameter(msg)
    return path


def _log_target(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value in (None, STDERR):
        return value
    if not value:
        msg = "give the name of a file, or - for stderr"
        raise click.BadParameter(msg)
    return str(_new_file(context, option, Path(value)))


LEVEL_OPTION = click.option(
    "--alpha",
    type=float,
    callback=_level,
    metavar="LEVEL",
    default=0.05,
    help="Significance level of the decision.",
)

DATA_OPTIONS = (
    click.argument("data", metavar="DATA"),
    click.option(
        "--variable",
        "variables",
        multiple=True,
        required=True,
        metavar="[NAME=]ARRAY",
        help="A variable: an array of the group, or columns of one as 'timbre=features[:, 0:12]'; "
        "of a table, a column or 'NAME=COL,COL'. Repeat the option for each variable, two or "
        "more.",
    ),
)

LEVEL_OPTIONS = (
    click.option(
        "--resamples",
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of replicates under the null hypothesis.  [default: 1000 shifts, 250 "
        "permutations, 10000 with --method simulation]",
    ),
    LEVEL_OPTION,
)

SEED_OPTION = click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", default=0, help="Random seed."
)
PRECISION_OPTION = click.option(
    "--precision",
    type=click.Choice(get_args(Precision)),
    default="float64",
    help="Floating-point precision of the kernels; sums are always float64.",
)
STRATA_OPTION = click.option(
    "--strata",
    metavar="ARRAY",
    help="Labels of rows: these change places within their stratum alone, so that the test is of "
    "independence given the stratum.",
)
ORDER_OPTIONS = (
    click.option(
        "--order",
        type=click.Choice(["time"]),
        help="Rows as stored are a series: it is shifted in time instead of permuted.",
    ),
    click.option(
        "--lag",
        type=click.IntRange(min=1),
        metavar="N",
        help="With --order time: the least shift, in rows, more than the series remember.",
    ),
    click.option(
        "--period",
        type=click.IntRange(min=1),
        metavar="N",
        help="With --order time: rows of a cycle, which shifts leave in place, as 24 of hours.",
    ),
)


def groups_option(flag: str, *, series: bool = True) -> Callable[..., Any]:
    """The option of labels of groups of rows, which may be series where a command has an order."""
    last = ", or with --order time are series of their own" if series else ""
    return click.option(
        flag,
        metavar="ARRAY",
        help=f"Labels of rows: whole groups change places with groups of equally many rows{last}.",
    )


WEIGHTS_OPTION = click.option(
    "--weights", metavar="ARRAY", help="How much of a population each row stands for."
)
ROWS_OPTIONS = (STRATA_OPTION, groups_option("--groups"), *ORDER_OPTIONS, WEIGHTS_OPTION)
JSON_OPTION = click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path),
    callback=_new_file,
    metavar="OUT.json",
    help="Write the result as JSON, without per-row arrays.",
)
PLOT_OPTION = click.option(
    "--plot",
    "plot_path",
    type=click.Path(path_type=Path),
    callback=_new_file,
    metavar="OUT.png",
    help="Write a figure; the file name's ending sets the format.",
)
LOG_OPTION = click.option(
    "--log-json",
    "log_path",
    callback=_log_target,
    metavar="FILE",
    help="Append the events of the run as JSON lines; - writes to stderr.",
)
PERFORMANCE_OPTION = click.option(
    "--performance-report",
    "report_path",
    type=click.Path(path_type=Path),
    callback=_new_file,
    metavar="OUT.html",
    help="Write Dask's performance report of the workers as an HTML page that needs no network.",
)

OVERWRITE_OPTION = click.option(
    "--overwrite", is_flag=True, help="Overwrite output files that exist."
)
CHECKPOINT_OPTION = click.option(
    "--checkpoint",
    metavar="URL",
    help="Keep finished parts of the run in this folder, local or in an object store, until it is "
    "done; the same command resumes from them. They stay with DASK_DHSIC__KEEP_CHECKPOINTS=1.",
)

RUN_OPTIONS = (
    SEED_OPTION,
    PRECISION_OPTION,
    *RESOURCE_OPTIONS,
    JSON_OPTION,
    CHECKPOINT_OPTION,
    LOG_OPTION,
    click.option(
        "--report",
        "page_path",
        type=click.Path(path_type=Path),
        callback=_new_file,
        metavar="OUT.html",
        help="Write an HTML report: the result, figures, tables, and code that reproduces it.",
    ),
    PERFORMANCE_OPTION,
    OVERWRITE_OPTION,
)

TIMED_RUN_OPTIONS = (TIME_OPTION, *RUN_OPTIONS)


def test_options(command: Command) -> Command:
    """Give a command the options that describe a test."""
    return with_options(
        command,
        DATA_OPTIONS,
        GAPS_OPTIONS,
        ROWS_OPTIONS,
        KERNEL_OPTIONS,
        estimator_options("auto"),
        NULL_OPTIONS,
        LEVEL_OPTIONS,
        TIMED_RUN_OPTIONS,
    )


def measure_options(command: Command) -> Command:
    """Give a command the options that describe a measure of dependence."""
    estimator = estimator_options("nystrom-m")
    options = *MISSING_OPTIONS, KERNEL_OPTION
    return with_options(command, DATA_OPTIONS, options, estimator, TIMED_RUN_OPTIONS)


def with_options(command: Command, *groups: Sequence[Callable[..., Any]]) -> Command:
    """Give a command groups of options, in the order of its help."""
    # Decorators apply from the last to the first, and help lists them from the first.
    for option in reversed(list(chain.from_iterable(groups))):
        command = option(command)
    return command


def read_request(options: dict[str, Any]) -> Request:
    """Open the data and translate the options, each of which is valid by itself.

    Raises
    ------
    click.UsageError, DhsicError
        Options that do not go together, or data that cannot be opened.
    """
    place = read_resources(options)
    estimator, null = read_estimator(options), read_null(options)
    request = _request_of(options, place, estimator)
    arguments = {
        **request.arguments,
        "kernels": read_kernels(options, request.arguments["names"]),
        "null": null,
        "n_resamples": None if hasattr(null, "n_resamples") else options["resamples"],
        **read_rows(options),
    }
    return replace(request, arguments=arguments)


def read_rows(options: dict[str, Any], groups: str = "groups") -> dict[str, Any]:
    """Options about the rows: their labels, as `read_row_labels`, and their order.

    Raises
    ------
    click.UsageError, DhsicError
        A lag or a period without an order, or labels that cannot be opened.
    """
    given = {name: options[name] for name in ("lag", "period") if options[name] is not None}
    if given and options["order"] is None:
        msg = f"--{next(iter(given))} is of series, got rows in no order: add --order time"
        raise click.UsageError(msg)
    order = None if options["order"] is None else dhsic.TimeOrder(**given)
    return {**read_row_labels(options, groups), "order": order}


def read_row_labels(options: dict[str, Any], groups: str = "groups") -> dict[str, Any]:
    """Options that label or weigh rows, of which `groups` is the one of groups of rows."""
    data, allowed = location(options["data"]), options["allow_missing_chunks"]

    def opened_labels(what: str) -> Variable | list[Variable]:
        # An option that may be repeated has the labels of one sample after another.
        if isinstance(texts := options[what], str):
            return open_group_labels(data, texts, what, allow_missing_chunks=allowed)
        return [open_group_labels(data, t, what, allow_missing_chunks=allowed) for t in texts]

    given = [n for n in ("strata", groups, "weights") if options.get(n) not in (None, ())]
    return {"strata": None, groups: None, **{what: opened_labels(what) for what in given}}


def read_measure(options: dict[str, Any]) -> Request:
    """Open the data and translate the options of a measure of dependence.

    Raises
    ------
    click.UsageError, DhsicError
        As for `read_request`; or several kernels of a variable.
    """
    request = _request_of(options, read_resources(options), read_estimator(options))
    kernels = single_kernels(options["kernels"], request.arguments["names"])
    return replace(request, arguments={**request.arguments, "kernels": kernels})


def _request_of(
    options: dict[str, Any], place: RunResources, estimator: str | Estimator
) -> Request:
    """The data with what any measure needs to know, besides the kernels."""
    sources = opened(options, options["variables"])
    arguments = {
        "estimator": estimator,
        "names": [source.name for source in sources],
        "missing": options["missing"],
        "precision": options["precision"],
        "threads": place.threads,
        "memory": place.memory,
        "time": options["time"],
    }
    return Request(sources, arguments, place)


def opened(options: dict[str, Any], variables: Sequence[str]) -> list[Variable]:
    """Variables of the data."""
    allowed = options["allow_missing_chunks"]
    return open_group(location(options["data"]), variables, allow_missing_chunks=allowed)


def location(data: str) -> str:
    """URLs as they are; the whole path of a folder: a worker may have started in another one."""
    return data if "://" in data else os.path.abspath(data)
