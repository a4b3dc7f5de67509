"""The options of `test` and `plan`, and what they mean to the package."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

import dhsic
from dhsic._arguments import Precision
from dhsic._validation import nearest, parse_bytes
from dhsic.cli.methods import ESTIMATOR_OPTIONS, NULL_OPTIONS, read_estimator, read_null
from dhsic.cluster import PlannedWorkers, connect, local_cluster
from dhsic.engine.plan import Plan
from dhsic.io.open import AnySource, open_group
from dhsic.kernels import Aggregate, Candidates, Combine, Grid, Kernel, parse

__all__ = ["Request", "read_request", "test_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Request:
    """A test as it was asked for.

    Parameters
    ----------
    sources : list of source
        The variables.
    arguments : dict
        What `dhsic.plan` and `dhsic.independence_test` have in common, besides the client.
    workers : int or None
        Processes to start.
    scheduler : str or None
        Address of a scheduler that runs already.
    """

    sources: list[AnySource]
    arguments: dict[str, Any]
    workers: int | None
    scheduler: str | None

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Where the test runs; None for threads of this process."""
        if self.workers is not None:
            self.plan().check()  # before any process starts
            with local_cluster(self.workers, self.arguments["memory"]) as client:
                yield client
        elif self.scheduler is not None:
            with connect(self.scheduler) as client:
                yield client
        else:
            yield None

    def plan(self) -> Plan:
        """What would run; no process is started for it."""
        if self.workers is not None:
            return self._plan(PlannedWorkers(self.workers))
        with self.client() as client:
            return self._plan(client)

    def _plan(self, client: Any) -> Plan:
        return dhsic.plan(*self.sources, client=client, **self.arguments)


def _bytes(context: click.Context, option: click.Parameter, value: str) -> int:
    del context, option
    return parse_bytes(value)


def _level(context: click.Context, option: click.Parameter, value: float) -> float:
    del context, option
    if not 0.0 < value < 1.0:
        msg = f"a level is greater than 0 and less than 1, as 0.05; got {value:g}"
        raise click.BadParameter(msg)
    return value


def _numbers(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[float, ...] | None:
    del context, option
    try:
        return None if value is None else tuple(float(number) for number in value.split(","))
    except ValueError as error:
        msg = f"give numbers with commas between them, as 0.5,1,2; got {value!r}"
        raise click.BadParameter(msg) from error


def _new_file(context: click.Context, option: click.Parameter, value: Path | None) -> Path | None:
    """Refuse before the run what could not be written after it."""
    del context, option
    if value is None:
        return None
    path = value.resolve()
    if path.exists() and not path.is_file():
        msg = f"give the name of a file; {path} is something else"
        raise click.BadParameter(msg)
    if not path.parent.is_dir():
        msg = f"the folder {path.parent} does not exist: create it first"
        raise click.BadParameter(msg)
    if not os.access(path.parent, os.W_OK):
        msg = f"the folder {path.parent} cannot be written to: choose another"
        raise click.BadParameter(msg)
    return path


_OPTIONS = (
    click.argument("data", metavar="DATA.zarr"),
    click.option(
        "--variable",
        "variables",
        multiple=True,
        required=True,
        metavar="[NAME=]ARRAY",
        help="An array of the group, or columns of one as 'timbre=features[:, 0:12]'; "
        "give it twice or more.",
    ),
    click.option(
        "--kernel",
        "kernels",
        multiple=True,
        metavar="[NAME=]SPEC",
        help="Kernel of one variable or of all others, as 'year=gaussian:0.5', 'laplacian' or "
        "'delta'; a bandwidth left out follows the median heuristic. Several to try are written "
        "'gaussian|laplacian'.  [default: gaussian kernels of several widths and a laplacian one; "
        "one gaussian where the estimator or the null takes one]",
    ),
    click.option(
        "--factors",
        callback=_numbers,
        metavar="LIST",
        help="Try every kernel, gaussian where none is given, with its length scale multiplied by "
        "each, as 0.25,0.5,1,2.  [for nystrom-m, rff-hsic, v-hsic, u-hsic]",
    ),
    click.option(
        "--combine",
        type=click.Choice(get_args(Combine)),
        help="Which kernels of the variables to try together: all, those of the same number, or "
        "those of the median heuristic and a number of others.  [default: auto]",
    ),
    click.option(
        "--aggregate",
        type=click.Choice(get_args(Aggregate)),
        help="How several kernels make one test: by the largest standardised statistic or the "
        "smallest p-value.  [default: max]",
    ),
    click.option(
        "--reference-share",
        type=float,
        metavar="SHARE",
        help="Of the level, for the kernels of the median heuristic; 0 treats all alike.  "
        "[default: 2/3]",
    ),
    *ESTIMATOR_OPTIONS,
    *NULL_OPTIONS,
    click.option(
        "--resamples",
        type=click.IntRange(min=1),
        metavar="N",
        help="Values under the null hypothesis, where they are drawn.  [default: 250, or 10000 "
        "with --method simulation]",
    ),
    click.option(
        "--alpha",
        type=float,
        callback=_level,
        metavar="LEVEL",
        default=0.05,
        help="Level of the decision.",
    ),
    click.option(
        "--seed", type=click.IntRange(min=0), metavar="N", default=0, help="Fixes every draw."
    ),
    click.option(
        "--precision",
        type=click.Choice(get_args(Precision)),
        default="float64",
        help="Of the kernels; sums are float64 always.",
    ),
    click.option(
        "--threads",
        type=click.IntRange(min=1),
        metavar="N",
        help="Threads of this process.  [default: one a processor]",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Start so many processes to run on.",
    ),
    click.option("--scheduler", metavar="ADDRESS", help="Run on a Dask cluster, tcp://HOST:PORT."),
    click.option(
        "--memory",
        callback=_bytes,
        metavar="BYTES",
        default="2GiB",
        help="What one process may use.",
    ),
    click.option(
        "--json",
        "json_path",
        type=click.Path(path_type=Path),
        callback=_new_file,
        metavar="OUT.json",
        help="Write the whole result, with the null distribution.",
    ),
)


def test_options(command: Command) -> Command:
    """Give a command the options that describe a test."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_request(options: dict[str, Any]) -> Request:
    """Open the data and translate the options, each of which is valid by itself.

    Raises
    ------
    click.UsageError, DhsicError
        Options that do not go together, or data that cannot be opened.
    """
    if sum(options[name] is not None for name in ("threads", "workers", "scheduler")) > 1:
        msg = "--threads, --workers and --scheduler say where to run: give one of them"
        raise click.UsageError(msg)
    estimator, null = read_estimator(options), read_null(options)
    sources = open_group(_location(options["data"]), options["variables"])
    names = [source.name for source in sources]
    arguments = {
        "kernels": _kernels(options, names),
        "estimator": estimator,
        "null": null,
        "n_resamples": None if hasattr(null, "n_resamples") else options["resamples"],
        "names": names,
        "precision": options["precision"],
        "threads": options["threads"],
        "memory": options["memory"],
    }
    return Request(sources, arguments, options["workers"], options["scheduler"])


def _location(data: str) -> str:
    """URLs as they are; the whole path of a folder: a worker may have started in another one."""
    return data if "://" in data else os.path.abspath(data)


def _kernels(options: dict[str, Any], names: Sequence[str]) -> Grid | list[Kernel | None]:
    """One kernel a variable or None; a grid where something was said of several."""
    listed = _listed_kernels(options["kernels"], names)
    factors = options["factors"]
    how = ("combine", "aggregate", "reference_share")
    told = {name: options[name] for name in how if options[name] is not None}
    if factors is None and not told and all(len(kernels) <= 1 for kernels in listed):
        return [kernels[0] if kernels else None for kernels in listed]
    grid = Grid(tuple(_candidates(kernels, factors) for kernels in listed), **told)
    if told and len(grid.combinations(len(names))) == 1:
        option = next(iter(told)).replace("_", "-")
        msg = (
            f"--{option} needs several kernels of a variable: list them as --kernel "
            "'gaussian|laplacian', or give --factors"
        )
        raise click.UsageError(msg)
    return grid


def _candidates(kernels: tuple[Kernel, ...], factors: tuple[float, ...] | None) -> Candidates:
    """A single kernel as it is, unless factors are given."""
    if len(kernels) == 1 and factors is None:
        return Candidates(kernels, (1.0,))
    return Candidates(kernels or None, factors)


def _listed_kernels(specs: Sequence[str], names: Sequence[str]) -> list[tuple[Kernel, ...]]:
    """Kernels of every variable, from ``SPEC`` for all and ``NAME=SPEC`` for one, or none."""
    chosen: dict[str, tuple[Kernel, ...]] = {}
    for text in specs:
        name, _, spec = text.rpartition("=")
        name = name.strip()
        if name and name not in names:
            msg = (
                f"--kernel NAME=SPEC needs the name of a variable; got {name!r}"
                f"; there are: {', '.join(names)}{nearest(name, names)}"
            )
            raise click.UsageError(msg)
        if name in chosen:
            whose = f"variable {name!r}" if name else "all variables"
            msg = f"--kernel is given twice for {whose}: drop one"
            raise click.UsageError(msg)
        chosen[name] = tuple(parse(one) for one in spec.split("|"))
    return [chosen.get(name) or chosen.get("", ()) for name in names]
