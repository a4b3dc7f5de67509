"""What a command asks for: its data, opened, and the arguments of its function."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from dhsic._validation import fields_of_method, method_of_name, nearest
from dhsic.cli.resources import client_at, read_resources
from dhsic.cli.signature import DATA, LABELS, Options
from dhsic.cluster import ClusterSpec
from dhsic.engine.plan import Plan
from dhsic.errors import printable
from dhsic.io.open import open_group, open_group_labels, open_group_samples
from dhsic.io.tables import is_table, text_of_columns
from dhsic.io.variables import Variable
from dhsic.kernels import Candidates, Grid
from dhsic.kernels.grid import grid_fields, is_grid
from dhsic.ranking import usable_columns

_TOLD = 20


@dataclass(frozen=True)
class Request:
    """A call of a public function as it was asked for.

    Parameters
    ----------
    texts : list of str
        The variables as they were typed.
    sources : list of source
        The variables.
    arguments : dict
        Arguments that planning and running share, besides the client.
    cluster : ClusterSpec or None
        A cluster to run on, in place of threads of this process.
    """

    texts: list[str]
    sources: list[Any]
    arguments: Options
    cluster: ClusterSpec | None

    def call(self, function: Callable[..., Any], **more: Any) -> Any:
        """Call a function with the variables in their places."""
        arguments = {**self.arguments, **more}
        if "given" in arguments:
            return function(*self.sources[:2], **{**arguments, "given": self.sources[2:]})
        return function(*self.sources, **arguments)

    def told(self, planner: Callable[..., Plan]) -> Plan:
        """The plan where the run would be, with its seconds there.

        Raises
        ------
        click.UsageError
            It would run in jobs that are not there.
        """
        cluster = self.cluster
        if cluster is not None and cluster.kind not in ("local", "scheduler"):
            msg = (
                f"a plan needs running workers, and --cluster would start jobs of {cluster.kind}: "
                f"plan with --threads {cluster.threads}, the number of a worker"
            )
            raise click.UsageError(msg)
        with client_at(cluster) as client:
            plan: Plan = self.call(planner, client=client)
            return replace(plan, times=plan.timed)


def read_request(options: Options, parameters: Sequence[str]) -> Request:
    """Open the data and translate the options, each of which is valid by itself.

    Parameters
    ----------
    options : dict
        Those of the command.
    parameters : sequence of str
        Those of the function that the command has options for.

    Raises
    ------
    click.UsageError, DhsicError
        Options that do not go together, or data that cannot be opened.
    """
    # Read before the data, whose opening may take long in a remote store.
    cluster = read_resources(options)
    texts = _texts(options, parameters)
    data, allowed = location(options["data"]), options["allow_missing_chunks"]
    opener = open_group_samples if "samples" in parameters else open_group
    sources: list[Variable] = opener(data, texts, allow_missing_chunks=allowed)
    arguments = arguments_of(options, parameters)
    for name, value in arguments.items():
        arguments[name] = _argument(name, value, options, sources)
    if "given" in parameters:
        arguments["given"] = None
    return Request(texts, sources, arguments, cluster)


def arguments_of(options: Options, parameters: Sequence[str]) -> Options:
    """The options that are arguments of a function, as they were typed."""
    beside = (*DATA, "exclude", "rng", "checkpoint")
    given = {name: options[name] for name in parameters if name not in beside}
    said = {name: value for name, value in given.items() if value not in (None, ())}
    # A null that has fields has its number of replicates among them.
    if ":" in said.get("null", "") and "n_resamples" in said:
        null = said["null"].partition(":")[0].strip()
        if "n_resamples" not in fields_of_method(method_of_name("null", null)):
            msg = f"--resamples needs a null with replicates, and {null!r} draws none: drop it"
            raise click.UsageError(msg)
        said["null"] += f",n_resamples={said.pop('n_resamples')}"
    return said


def _texts(options: Options, parameters: Sequence[str]) -> list[str]:
    """The variables of a command as they were typed, in the order of the function."""
    if "x" in parameters and len(options["x"]) != 2:
        msg = f"two variables are needed: give --variable twice; got {len(options['x'])}"
        raise click.UsageError(msg)
    named = next((name for name in ("features", "variables") if options.get(name)), None)
    if named and options.get("exclude"):
        msg = f"--exclude needs all columns, and {DATA[named][0]} names some: drop one of the two"
        raise click.UsageError(msg)
    if "features" in parameters and options["features"] is None:
        options["features"] = text_of_columns("features", *_usable(options, "--features"))
    if "variables" in parameters and not options["variables"]:
        # A name that is one of a column is read as it is.
        options["variables"] = _usable(options, "--variable")
    texts: list[str] = []
    for name in DATA:
        if name in parameters:
            texts += [options[name]] if isinstance(options[name], str) else options[name]
    return texts


def _usable(options: Options, option: str) -> list[str]:
    """All columns of a table that have no other task, and that can be variables."""
    if not is_table(options["data"]):
        msg = f"{option} must name arrays of the group, got none: name them"
        raise click.UsageError(msg)
    beside = [options["target"]] if "features" in options else []
    for name in ("strata", "groups", "exclude"):
        beside += options[name]
    usable, others = usable_columns(options["data"], list(dict.fromkeys(beside)))
    if others:
        # Of a wide table many are left out for one reason.
        more = f"; and {len(others) - _TOLD:,} more" if len(others) > _TOLD else ""
        told = f"{'; '.join(list(others.values())[:_TOLD])}{more}"
        click.echo(printable(f"dhsic: columns are left out: {told}"), err=True)
    return usable


def _argument(name: str, value: Any, options: Options, sources: Sequence[Variable]) -> Any:
    """An argument of the function from the value of its option."""
    if name in LABELS:
        return _opened_labels(name, value, options)
    if name == "column_groups":
        return column_groups(value, sources[0].shape[1])
    if name == "kernels":
        names = [source.name for source in sources]
        if "samples" in options:
            names = ["values"]
        elif "given" in options:
            names = names[:2]
        return read_kernels(value, names)
    return list(value) if isinstance(value, tuple) else value


def _opened_labels(what: str, texts: Any, options: Options) -> Any:
    """Labels of rows; several are crossed, but those of samples are one a sample."""
    data, allowed = location(options["data"]), options["allow_missing_chunks"]
    if "samples" in options and not options["between"]:
        return [open_group_labels(data, text, what, allow_missing_chunks=allowed) for text in texts]
    return open_group_labels(data, texts, what, allow_missing_chunks=allowed)


def read_kernels(specs: Sequence[str], names: Sequence[str]) -> Any:
    """Kernels from ``SPEC`` for all variables and ``NAME=SPEC`` for one.

    Raises
    ------
    click.UsageError, InvalidArgumentError
        A variable is unknown, or a kernel is given twice.
    """
    chosen: dict[str, str] = {}
    for text in specs:
        # A name may hold an equals sign, and so may the fields of a kernel.
        known = [name for name in names if text.startswith(f"{name}=")]
        name = max(known, key=len, default="")
        if not known and _is_named(text):
            name = text.partition("=")[0].strip()
            msg = (
                f"--kernel NAME=SPEC needs the name of a variable; got {name!r}"
                f"; there are: {', '.join(names)}{nearest(name, names)}"
            )
            raise click.UsageError(msg)
        if name in chosen:
            whose = f"variable {name!r}" if name else "all variables"
            msg = f"--kernel is given twice for {whose}: drop one"
            raise click.UsageError(msg)
        chosen[name] = text[len(name) + 1 :] if name else text
    usual = chosen.pop("", None)
    if not chosen or list(names) == ["values"]:
        return usual if usual is not None else chosen["values"]
    each = [chosen.get(name, usual) for name in names]
    if usual is None or not is_grid(usual):
        return each
    fields = grid_fields(usual)
    kernels, factors = fields.pop("kernels", None), fields.pop("factors", None)
    candidates = [
        Candidates(
            tuple(chosen[name].split("|")), factors or (None if "|" in chosen[name] else (1.0,))
        )
        if name in chosen
        else Candidates(kernels, factors)
        for name in names
    ]
    return Grid(tuple(candidates), **fields)


def _is_named(text: str) -> bool:
    """Whether a text begins with a name of a variable, and not with a kernel that has fields."""
    name, equals, _ = text.partition("=")
    return bool(equals) and ":" not in name and "(" not in name


def column_groups(texts: Sequence[str], d: int) -> dict[str, list[int | str]]:
    """Read ``NAME=COLUMNS`` of every group of columns."""
    groups: dict[str, list[int | str]] = {}
    for text in texts:
        name, _, columns = text.partition("=")
        try:
            # A range leaves its ends out as in Python, where `:12` begins with the first column.
            listed = [j for part in columns.split(",") for j in _range(part, d)]
        except ValueError:
            listed = []
        if not name.strip() or not listed or name.strip() in groups:
            msg = (
                "--column-group must be NAME=COLUMNS, each name once, with columns as 0:12 or "
                f"0,3,5; got {text!r}"
            )
            raise click.UsageError(msg)
        groups[name.strip()] = listed
    return groups


def _range(text: str, d: int) -> Sequence[int | str]:
    first, colon, last = (part.strip() for part in text.partition(":"))
    if colon:
        return range(int(first or 0), int(last or d))
    # A column whose name is a number is called by its place, as the help says.
    return [int(first) if first.lstrip("+-").isdigit() else first] if first else []


def location(data: str) -> str:
    """URLs as they are; the whole path of a folder: a worker may have started in another one."""
    return data if "://" in data else os.path.abspath(data)
