"""Make and run the command of a public function.

Options come first, which are read off the signature and the docstring of the function; then the
request that they make, and the places where a command runs. `run` opens the data, plans or runs,
prints and writes results. The code of a run in Python, the journal, interrupts and the text on
stdout follow it.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import shutil
import signal
import socket
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from errno import ENOSPC
from functools import cache, partial
from pathlib import Path
from pkgutil import resolve_name
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from uuid import uuid4

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from dhsic._files import disk_errors, is_terminal, parse_json, write_whole
from dhsic._progress import progress_bar
from dhsic._validation import (
    check_level,
    fields_of_method,
    known_methods,
    load_plugins,
    method_of_name,
    nearest,
    parse_seconds,
    read_method,
)
from dhsic._version import __version__
from dhsic.cluster import TLS, ClusterSpec, SchedulerAt, connect
from dhsic.cluster.connection import dashboard_link, performance_report, worker_count
from dhsic.engine.events import (
    BlockFinished,
    Event,
    PassFinished,
    PassStarted,
    Position,
    RunStarted,
    as_json,
)
from dhsic.engine.plan import Plan
from dhsic.engine.runtime import peak_bytes, worker_peak_bytes
from dhsic.engine.units import parse_bytes
from dhsic.errors import DhsicError, InvalidArgumentError, needing, printable
from dhsic.estimators.choose import ESTIMATORS, NULLS
from dhsic.io.open import open_group, open_group_labels
from dhsic.io.tables import is_table, text_of_columns
from dhsic.io.urls import Folder, is_url, redacted
from dhsic.io.zarr_output import check_new_group
from dhsic.kernels.grid import is_grid
from dhsic.plots import figure_of
from dhsic.ranking import usable_columns
from dhsic.report import MemoryUse, Run, check_report, write_report
from dhsic.results import aligned

Options = dict[str, Any]
STDERR = "-"
FLAGS: dict[str, str] = {}  # by the argument, of all commands
# Where a message has both, options stand before arguments in brackets.
_CALLED = re.compile(
    r" \((?:numeric|categorical|thousands|decimal|delimiter)=[^()]*\)"
    r"|(?: \(|, in Python by )dhsic\.\w+\([^()]*\)\)?"
    r"|\b([a-z_]+)=(?:\[?'([^']*)'\]?|True\b|(?=[ ,:;]|$))"
)
_ARRAY = "[NAME=]ARRAY"
_CLAUSE = re.compile(r"(?<=\w)[.:;](?=\s|$)")

# Parameters that are data of the command, each an option that may be repeated or stands once.
DATA: Final = {
    "variables": ("--variable", True),
    "x": ("--variable", True),
    "samples": ("--sample", True),
    "given": ("--given", True),
    "features": ("--features", False),
    "target": ("--target", False),
}
LABELS: Final = ("between", "strata", "groups", "weights")
# Words of the shell where they are others than those of Python.
_WORDS: Final = {
    "rng": "--seed",
    "kernels": "--kernel",
    "feature_kernels": "--kernel",
    "n_resamples": "--resamples",
    "n_landmarks": "--landmarks",
    "na_values": "--na-value",
}
METHODS: Final = ("estimator", "null", "order", "regression")
# What a person at a shell reads in the place of the first words about an argument of Python.
_HELP: Final = {
    "variables": "Array, or columns as 't=timbre[:, 0:12]'; of a table 'NAME=COL,COL'.",
    "x": "Array, or columns as 't=timbre[:, 0:12]'; of a table 'NAME=COL,COL'.",
    "samples": "A sample, as a variable of 'dhsic test'; all have the same columns.",
    "given": "A variable that is given; may be repeated.",
    "features": "The columns to rank; of a table all others if left out.",
    "target": "The variable that they are compared with.",
    "kernels": "Kernel of all variables, or of one; may be repeated.",
    "feature_kernels": "Kernel of each feature.",
    "target_kernel": "Kernel of the target.",
    "estimator": "As v-hsic or nystrom-m:n_landmarks=2000; see 'dhsic methods'.",
    "null": "As gamma or shifts:100000.",
    "order": "Rows are a time series, as time or time:lag=12.",
    "regression": "As random-forest or splines:n_knots=6.",
    "between": "Labels that assign each row to a sample.",
    "groups": "Labels of rows that belong together; whole groups are permuted.",
    "column_groups": "Rank groups of columns, as 'timbre=0:12'; may be repeated.",
    "strata": "Labels of rows; rows are permuted within strata only.",
    "weights": "How much of a population each row represents.",
    "precision": "Floating-point precision of the kernels.",
    "time": "Limit of time, as 10min, which open choices must fit.",
    "checkpoint": "Keep finished parts here, and resume from them.",
}
_SEVERAL: Final = "Kernel, or several as 'gaussian|laplacian'"


class MethodText(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.2 on
    """A name, or a name with fields, of an estimator, a null, an order or a regression.

    Parameters
    ----------
    argument : str
        The argument.
    names : collection of str
        Names that the function takes, perhaps a mapping to which plugins add.
    """

    name = "text"

    def __init__(self, argument: str, names: Collection[str]) -> None:
        self.argument, self._names = argument, names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, of which a value can be made."""
        name = value.partition(":")[0].strip()
        if name not in self.names:
            load_plugins()
        if name not in self.names:
            listed = ", ".join(map(repr, self.names))
            self.fail(f"{name!r} is not one of {listed}{nearest(name, self.names)}", param, ctx)
        read_method(self.argument, value)
        return str(value)

    @property
    def names(self) -> list[str]:
        """What may stand before the fields."""
        return ["auto", *self._names] if isinstance(self._names, Mapping) else list(self._names)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names that begin so, and fields behind a name."""
        load_plugins()
        name, colon, text = incomplete.partition(":")
        if not colon:
            return [CompletionItem(known) for known in self.names if known.startswith(name)]
        before, comma, begun = text.rpartition(",")
        fields = fields_of_method(method_of_name(self.argument, name))
        head = f"{name}:{before}{comma}"
        return [CompletionItem(f"{head}{field}=") for field in fields if field.startswith(begun)]


class NewFile(click.ParamType):  # type: ignore[type-arg]
    """A file to write; what could not be written after a run is refused before it.

    Parameters
    ----------
    stream : bool
        Whether - is stderr.
    """

    name = "file"

    def __init__(self, *, stream: bool = False) -> None:
        self._stream = stream

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path | str:
        """The path."""
        if value == STDERR and self._stream:
            return str(value)
        if not value or value == STDERR:
            other = ", or - for stderr" if self._stream else f"; got {value!r}"
            self.fail(f"give the name of a file{other}", param, ctx)
        path, wrong = Path(value).resolve(), ""
        try:
            if path.exists() and not path.is_file():
                wrong = f"give the name of a file; {path} is not one"
            elif not path.parent.is_dir():
                wrong = f"the folder {path.parent} does not exist: create it first"
            elif not os.access(path.parent, os.W_OK):
                wrong = f"the folder {path.parent} cannot be written to: choose another"
        except OSError as error:
            wrong = f"{str(path)!r} cannot name a file ({error.strerror}): give another name"
        if wrong:
            self.fail(wrong, param, ctx)
        return path


class Read(click.ParamType):  # type: ignore[type-arg]
    """What a function reads from text.

    Parameters
    ----------
    name : str
        What it is.
    read : callable
        Raises InvalidArgumentError.
    """

    def __init__(self, name: str, read: Callable[[Any], Any]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value."""
        del param, ctx
        return self._read(value)


LEVEL: Final = Read("level", lambda text: check_level(click.FLOAT.convert(text, None, None)))


def count_of(text: Any) -> Any:
    """A whole number as such; other words, as 8sqrt, stay text for the function to judge."""
    return int(text) if re.fullmatch(r"[+-]?\d+", str(text)) else text


def lags_of(text: Any) -> Any:
    """The largest lag, or a range as 0:25 or 0:25:5, which leaves its end out."""
    if not re.fullmatch(r"[+-]?\d+(:[+-]?\d+(:0*[1-9]\d*)?)?", str(text)):
        msg = f"lags must be N or FIRST:END or FIRST:END:STEP, as 0:25, got {text!r}"
        raise InvalidArgumentError(msg)
    numbers = [int(part) for part in str(text).split(":")]
    return range(*numbers) if numbers[1:] else numbers[0]


# Types and texts of options that are read from text, by the argument.
_READ: Final = {
    "alpha": (LEVEL, "LEVEL"),
    "memory": (Read("bytes", parse_bytes), "BYTES"),
    "time": (Read("time", parse_seconds), "TIME"),
    "lags": (Read("lags", lags_of), "N|FIRST:END[:STEP]"),
}


class Command(click.Command):
    """A command that refuses an option given twice."""

    judge: Callable[[Options], object] = staticmethod(lambda options: None)
    """Refuses what a run would before it begins, of options, outputs and data."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of a line."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        for option in order:
            repeats = getattr(option, "multiple", False) or isinstance(option, click.Argument)
            if not repeats and order.count(option) > 1 and not getattr(option, "is_flag", False):
                msg = f"{option.opts[0]} is given twice: give it once"
                raise click.UsageError(msg, ctx)
        return super().parse_args(ctx, args)


@cache
def _described(documented: Any) -> Mapping[str, str]:
    """What a numpydoc says of every parameter."""
    doc = inspect.getdoc(documented) or ""
    section = re.search(r"\nParameters\n-+\n(.*?)(?=\n\n?[A-Z][a-z]+\n-{3,}\n|\Z)", doc, re.DOTALL)
    found = re.findall(r"^(\S.*)\n((?:[ ].*\n?|\n(?=[ ]))+)", section[1] if section else "", re.M)
    return {
        name.lstrip("*"): inspect.cleandoc(f"\n{text}")
        for head, text in found
        for name in head.partition(" : ")[0].split(", ")
    }


def first_words(documented: Any, name: str) -> str:
    """The first clause of what a docstring says of a parameter, or of the one it refers to."""
    text = " ".join(_described(documented).get(name, "").split())
    referred = re.match(r"As (?:`\w+`.* )?(?:for|of) `(?:dhsic\.)?(\w+)`", text)
    if referred and documented is not (like := resolve_name("dhsic.independence_test")):
        return first_words(like, name)
    # A reference is a noun behind some words, and else a footnote.
    text = re.sub(r"(?<= of | as )\[\d+\]_", "the paper", text)
    plain = re.sub(r"\s*\[\d+\]_|\s\[\d+\]", "", text)
    clause = _CLAUSE.split(re.sub('[`"]', "", plain), maxsplit=1)[0].rstrip(".")
    return f"{clause}." if clause else ""


def summary(documented: Any) -> str:
    """The first line of a docstring, without its references."""
    line = (inspect.getdoc(documented) or "").partition("\n\n")[0]
    return re.sub(r"\s*\[\d+\]_|`", "", " ".join(line.split()))


def options_of(
    function: Callable[..., Any],
    without: Sequence[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> Iterator[click.Parameter]:
    """The options of a function, in the order of its parameters.

    Parameters
    ----------
    function : callable
        The function.
    without : sequence of str
        Parameters that the command does not have.
    defaults : mapping, optional
        Other defaults than those of the function.

    Yields
    ------
    click.Parameter
        Those that data, methods, choices, numbers and flags make; no others can be typed.
    """
    hints = get_type_hints(function)
    for name, parameter in inspect.signature(function).parameters.items():
        default = (defaults or {}).get(name, parameter.default)
        if name in without or name in ("data", "exclude", "names", "y", "client", "progress"):
            continue
        found = _option(function, name, hints[name], default)
        if found is not None:
            FLAGS[name] = found.opts[0]
            yield found


def _option(
    function: Callable[..., Any], name: str, hint: Any, default: Any
) -> click.Parameter | None:
    """The option of a parameter, where a shell can give it."""
    words = None if name in DATA and hint is not Any else _HELP.get(name)
    settings: dict[str, Any] = {"help": words or first_words(function, name)}
    flag = _WORDS.get(name, _flag(name))
    if name in DATA and hint is Any:
        flag, multiple = DATA[name]
        # Of a table these commands take all columns.
        required = name != "features" and "matrix" not in function.__name__
        settings.update(multiple=multiple, required=required, metavar=_ARRAY)
        return click.Option([flag, name], **settings)
    if name in LABELS:
        return click.Option([flag, name], multiple=name != "weights", metavar="ARRAY", **settings)
    if name == "column_groups":
        settings.update(multiple=True, metavar="NAME=COLUMNS")
        return click.Option(["--column-group", name], **settings)
    united = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    parts = {get_origin(part) or part for part in united} - {NoneType}
    required = default is inspect.Parameter.empty
    settings["required" if required else "default"] = required or default
    if name == "kernels":
        settings.update(default=None, multiple=True, metavar="[NAME=]SPEC")
        if "Grid" in str(hint):
            settings["help"] = f"{_SEVERAL}; may be repeated."
        if "two_sample" in function.__name__:  # whose samples all have the same kernel
            settings.update(metavar="SPEC", help=f"{_SEVERAL}.")
    elif name.endswith(("kernel", "kernels")):
        settings.update(metavar="SPEC")
    elif name == "rng":
        settings.update(type=click.IntRange(min=0), default=0, metavar="N")
    elif name == "checkpoint":
        settings.update(metavar="URL")
    elif name in METHODS:
        settings.update(type=MethodText(name, _names_of(hint, name)), metavar="TEXT")
    elif choices := choices_of(hint):
        settings["type"] = click.Choice(choices)
    elif name in _READ:
        settings["type"], settings["metavar"] = _READ[name]
    elif parts == {int, str}:
        settings.update(type=Read("count", count_of), metavar="COUNT")
    elif parts == {int}:
        least = 0 if name in ("seed", "shuffle") else 1
        settings.update(type=click.IntRange(min=least), metavar="N")
    elif parts == {float}:
        settings.update(type=float, metavar="NUMBER")
    elif parts == {bool}:
        settings.update(is_flag=True)
    elif parts == {str}:
        settings.update(metavar="WORD")
    elif parts == {Sequence}:
        settings.update(multiple=True, default=None, metavar="NAME")
    else:
        return None
    return click.Option([flag, name], **settings)


def _names_of(hint: Any, argument: str) -> Collection[str]:
    """The names that a function takes for a method."""
    words = choices_of(hint)
    # Names of any test are those that plugins add to.
    if "block-hsic" in words:
        return ESTIMATORS
    if "chi-square" in words:
        return NULLS
    return words or list(known_methods(argument))


def choices_of(hint: Any) -> list[str]:
    """The words that an annotation lists."""
    parts = [part for part in (hint, *get_args(hint)) if get_origin(part) is Literal]
    return [word for part in parts for word in get_args(part)]


def in_shell(text: str) -> str:
    """Write arguments of Python in a message as options: missing='drop' as --missing drop."""

    def option(found: re.Match[str]) -> str:
        if found[1] is None:
            return ""
        return f"{FLAGS[found[1]]} {found[2] or ''}".rstrip() if found[1] in FLAGS else found[0]

    return _CALLED.sub(option, text)


# --- what a command asks for


_NAMED = 20


@dataclass(frozen=True)
class Request:
    """A call of a public function as it was asked for.

    Parameters
    ----------
    texts : list of str
        The variables as they were typed.
    sources : list of source
        The variables that the function takes by their places.
    arguments : dict
        Arguments that planning and running share, besides the client.
    cluster : ClusterSpec or None
        A cluster to run on, in place of threads of this process.
    """

    texts: list[str]
    sources: list[Any]
    arguments: Options
    cluster: ClusterSpec | None


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
    data, allowed = options["data"], options["allow_missing_chunks"]
    # The whole path of a folder: a worker may have started in another one.
    data = data if "://" in data else os.path.abspath(data)
    sources = open_group(data, texts, allow_missing_chunks=allowed)
    names = ["values"] if "samples" in options else [source.name for source in sources]
    labels = partial(open_group_labels, data, allow_missing_chunks=allowed)
    arguments = arguments_of(options, parameters)
    for name, value in arguments.items():
        if name in LABELS:
            # Several are crossed, but those of samples are one a sample.
            apart = "samples" in options and not options["between"]
            arguments[name] = [labels(t, name) for t in value] if apart else labels(value, name)
        elif name == "column_groups":
            arguments[name] = column_groups(value, sources[0].shape[1])
        elif name == "kernels":
            arguments[name] = read_kernels(value, names[:2] if "given" in parameters else names)
        elif isinstance(value, tuple):
            arguments[name] = list(value)
    if "given" in parameters:
        sources, arguments["given"] = sources[:2], sources[2:]
    return Request(texts, sources, arguments, cluster)


def arguments_of(options: Options, parameters: Sequence[str]) -> Options:
    """The options that are arguments of a function, as they were typed."""
    beside = (*DATA, "exclude", "rng", "checkpoint")
    given = {name: options[name] for name in parameters if name not in beside}
    return {name: value for name, value in given.items() if value not in (None, ())}


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
    if len(texts) < 2 and "samples" not in parameters:
        msg = f"two or more variables are needed, got {len(texts)}: give --variable twice"
        raise click.UsageError(msg)
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
        more = f"; and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
        told = f"{'; '.join(list(others.values())[:_NAMED])}{more}"
        click.echo(printable(f"dhsic: columns are left out: {told}"), err=True)
    return usable


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
        before, equals, _ = text.partition("=")
        # What stands before the equals sign of a field is a kernel.
        if not known and equals and ":" not in before and "(" not in before:
            name = before.strip()
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
    if is_grid(usual or ""):
        named = ", ".join(chosen)
        msg = f"--kernel {usual} has the kernels of all variables: drop it, or those of {named}"
        raise click.UsageError(msg)
    return [chosen.get(name, usual) for name in names]


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


# --- where a command runs: its options, and what they mean to the package


_CLUSTERS: Final = ("threads", "workers", "scheduler", "scheduler_file", "cluster")
_TLS: Final = {"tls_ca": "ca", "tls_cert": "cert", "tls_key": "key"}
_FILE: Final = click.Path(path_type=Path)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


# The options of clusters, in place of the client of a function.
_AT: Final = "Run on a Dask cluster, as tls://HOST:PORT, with --tls-ca, --tls-cert, --tls-key."
RESOURCES: Final = (
    *(
        click.Option([flag], type=of, metavar=shown, help=text)
        for flag, of, shown, text in (
            ("--workers", click.IntRange(min=1), "N", "Run on N local processes."),
            ("--scheduler", click.STRING, "ADDRESS", _AT),
            ("--scheduler-file", _FILE, "FILE", "Run on the cluster of this file."),
            ("--cluster", _FILE, "SPEC.yaml", "Start the cluster of this file."),
        )
    ),
    *(
        click.Option([_flag(name)], type=_FILE, envvar=f"DHSIC_{name.upper()}", hidden=True)
        for name in _TLS
    ),
    click.Option(["--insecure"], is_flag=True, help="Allow a network scheduler without TLS."),
)


def client_at(cluster: ClusterSpec | None) -> AbstractContextManager[Any]:
    """Where tasks run; None for threads of this process."""
    return nullcontext() if cluster is None else connect(cluster)


def read_resources(options: dict[str, Any]) -> ClusterSpec | None:
    """Describe the cluster of a command, None for threads of this process; nothing is started.

    Where the file of a cluster says the memory of a worker, `options` gets it.

    Raises
    ------
    click.UsageError, DhsicError
        Options that do not go together, or a description that cannot be used.
    """
    # Each of them alone says where to run; the last would win over the others in silence.
    given = [name for name in _CLUSTERS if options[name] is not None]
    if len(given) > 1:
        listed = ", ".join(_flag(name) for name in _CLUSTERS[:-1])
        msg = f"{listed} and {_flag(_CLUSTERS[-1])} say where to run: give one of them"
        raise click.UsageError(msg)
    at_scheduler = not {"scheduler", "scheduler_file"}.isdisjoint(given)
    for name in () if at_scheduler else (*_TLS, "insecure"):
        if _on_the_line(name):
            remedy = "write it in the file" if "cluster" in given else "drop it"
            msg = f"{_flag(name)} needs --scheduler or --scheduler-file: {remedy}"
            raise click.UsageError(msg)
    memory = options["memory"]
    if "cluster" in given:
        # The file has the threads and the memory of a worker, which its queue is asked for.
        if _on_the_line("memory"):
            msg = "--memory cannot be combined with --cluster: write 'memory: 4GiB' in its file"
            raise click.UsageError(msg)
        described = ClusterSpec.read(options["cluster"])
        options["memory"] = described.memory
        return described
    if "workers" in given:
        return ClusterSpec("local", options["workers"], memory=memory)
    if not at_scheduler:
        return None
    at = SchedulerAt(options["scheduler"], options["scheduler_file"])
    files = {part: options[name] for name, part in _TLS.items()}
    missing = [_flag(name) for name in _TLS if options[name] is None]
    # Two of three would fail in the handshake, with an error that names none of them.
    if 0 < len(missing) < len(_TLS):
        there = ", ".join(_flag(name) for name in _TLS if options[name] is not None)
        msg = f"{there} needs {' and '.join(missing)}, too"
        raise click.UsageError(msg)
    tls, insecure = None if missing else TLS(**files), options["insecure"]
    return ClusterSpec("scheduler", memory=memory, scheduler=at, tls=tls, insecure=insecure)


def _on_the_line(name: str) -> bool:
    context = click.get_current_context()
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


# --- plan or run


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
    if row.name == "plan" or options.get("only_plan"):
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
        function = resolve_name(row.function)
        with _seen(request.cluster, options, journal, page) as seen:
            result = function(*request.sources, **request.arguments, **seen)
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
            if options["plot_path"] is not None:
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
    click.UsageError
        It would run in jobs that are not there.
    MemoryBudgetError
        It does not fit.
    """
    for name, (option, *_) in FILES.items():
        if options.get(name) is not None:
            msg = f"{option} needs a run, and a plan runs nothing: drop it"
            raise click.UsageError(msg)
    planner = vars(resolve_name(row.function))["planner"]
    request = row.read(options, row.parameters)
    cluster = request.cluster
    if cluster is not None and cluster.kind not in ("local", "scheduler"):
        msg = (
            f"a plan needs running workers, and --cluster would start jobs of {cluster.kind}: "
            f"plan with --threads {cluster.threads}, the number of a worker"
        )
        raise click.UsageError(msg)
    with client_at(cluster) as client:
        planned: Plan = planner(*request.sources, **request.arguments, client=client)
        # With its seconds there, which are timed while the workers run.
        planned = replace(planned, times=planned.timed)
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
    if (path := options["plot_path"]) is None:
        return
    with needing("matplotlib", "plot", "--plot"):
        from matplotlib.figure import Figure
    # A figure alone has no window, so that this needs no display.
    if path.suffix.lstrip(".").lower() not in Figure().canvas.get_supported_filetypes():
        msg = f"--plot needs a name that ends in a format, as OUT.png or OUT.svg; got {path.name}"
        raise click.UsageError(msg)


def _write_picture(path: Path, draw: Callable[[], Any]) -> None:
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
    words, checkpoint = "", options["checkpoint"]
    if checkpoint is not None:
        # Where nothing can be kept there, it is known before any worker starts.
        folder = Folder.at(checkpoint, "checkpoint")
        words = f"interrupted; what is done is kept in {folder}: run the same command again"
    # A bar would write over the lines of a log on the same stream.
    quiet = options["log_path"] == STDERR
    with progress_bar(shown=not quiet) as bar:
        bar.begin("starting")
        # How a run ended is written before its cluster is closed, which takes a while.
        with client_at(cluster) as client, journal.ending(words):
            if client is not None:
                # Asked anew for every line: workers come and go in the course of a run.
                bar.workers = journal.workers = partial(worker_count, client)
                link = dashboard_link(client)
                shown = None if link is None else redacted(link)
                journal.tell("workers-ready", workers=len(client.nthreads()), dashboard=shown)
                if shown is not None and not quiet:
                    click.echo(f"dhsic: dashboard at {shown}", err=True)

            def hear(event: Event) -> None:
                if isinstance(event, RunStarted):
                    page.started = event
                bar.hear(event)
                journal.hear(event)

            path = options["report_path"]
            with nullcontext() if path is None else performance_report(client, path):
                yield {
                    "rng": options["rng"],
                    "client": client,
                    "progress": hear,
                    "checkpoint": checkpoint,
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


# --- how a run of the command line is written in Python


_CLUSTER = (
    "# On threads of this process; on a cluster give client=, as of dhsic.cluster.connect(...).\n"
)


def code_of(function: Callable[..., Any], options: Options, request: Request) -> str:
    """Code that opens the variables, calls a function and prints what it returns.

    Parameters
    ----------
    function : callable
        The public function.
    options : dict
        Those of the command; credentials are left out.
    request : Request
        What was asked for.

    Returns
    -------
    str
    """
    allowed = ", allow_missing_chunks=True" if options["allow_missing_chunks"] else ""
    # The page may be passed on.
    data = repr(redacted(options["data"]))
    lines = [f"variables = open_group({data}, {request.texts!r}{allowed})"]
    labels = {
        what: options[what] for what in LABELS if what in request.arguments and options.get(what)
    }
    for what, texts in labels.items():
        apart = "samples" in options and not options["between"]
        each = texts if apart else [texts]
        opened = [f"open_group_labels({data}, {text!r}, {what!r}{allowed})" for text in each]
        lines.append(f"{what} = [{', '.join(opened)}]" if apart else f"{what} = {opened[0]}")
    # Labels are opened above, under the names of their arguments.
    asked: Options = {**request.arguments, **{what: what for what in labels}}
    variables = "    *variables,"
    if asked.pop("given", None) is not None:
        variables = "    *variables[:2],\n    given=variables[2:],"
    usual = inspect.signature(function).parameters
    given = {
        name: value for name, value in asked.items() if value not in (None, usual[name].default)
    }
    arguments = [
        f"    {name}={name if name in labels else repr(value)},"
        for name, value in {**given, "rng": options["rng"]}.items()
    ]
    module = "dhsic.causal" if function.__module__.startswith("dhsic.causal") else "dhsic"
    called = f"result = {module}.{function.__name__}("
    body = "\n".join([*lines, called, variables, *arguments, ")", "print(result)"])
    openers = "open_group, open_group_labels" if labels else "open_group"
    cluster = "" if request.cluster is None else _CLUSTER
    return f"import {module}\nfrom dhsic.io.open import {openers}\n\n{cluster}{body}\n"


# --- the journal of a command, as JSON lines


SCHEMA = 1
INTERNAL, USAGE, INTERRUPTED = 1, 2, 130

# Each ends a run: whoever follows a log knows that nothing comes after them.
_ENDINGS = ("result", "error", "interrupted")


class Journal:
    """Writes one JSON object a line, each with one write.

    Every line has ``schema``, the version of this format; ``time``, ISO 8601 in UTC; ``run``, which
    the lines of one command share; and ``event``:

    ``command-started``
        First. ``version`` of dhsic, ``command`` as a list of words, ``data``, ``pid``; URLs show
        no credentials.
    ``workers-ready``
        Where there is a cluster: ``workers``, and ``dashboard``, its URL or null.
    ``run-started``
        The plan: rows ``n``, names of ``variables``, ``workers``, ``threads``, ``worker_bytes``,
        ``driver_bytes``, and ``passes`` over the data, each with ``name``, ``blocks``, ``amount``,
        ``unit`` and ``bytes_read``.
    ``step-started``
        ``name`` of a step that the driver does by itself.
    ``pass-started``, ``block-finished``, ``pass-finished``
        ``name``, ``unit`` and ``amount`` of the pass or block, with the other fields of the events
        of that name in `dhsic.engine.events`; and ``progress``, how far the pass is: ``pass`` of
        ``passes``, ``parts_done`` of ``parts``, ``done`` of ``amount`` in ``unit``, of which an
        earlier run did ``resumed``, ``bytes_done``, ``per_second``, ``bytes_per_second`` and
        ``seconds_left``, each null where it is not known, and ``workers``, null without a cluster.
        ``pass`` is null where it is none of those planned, such as resamples.
    ``result``
        Last where the command did what it was asked: ``statistic``, ``pvalue``, ``pvalue_error``,
        ``estimate``, ``estimator``, ``null``, ``seed``, ``seconds``.
    ``error``
        Last where it did not: ``message``, ``kind`` and ``exit_code``.
    ``interrupted``
        Last after Ctrl-C or SIGTERM: ``exit_code``.

    Parameters
    ----------
    write : callable or None
        Takes a line; an OSError of it ends the journal with a warning, never the command.
    """

    def __init__(self, write: Callable[[str], None] | None) -> None:
        # Set once the cluster is there; until then no worker can be counted.
        self.workers: Callable[[], int | None] = lambda: None
        self._write = write
        # A log may be that of several runs, even at once.
        self._run = uuid4().hex[:12]
        self._position = Position()

    def tell(self, event: str, **fields: Any) -> None:
        """Write a line; nothing comes after a result, an error or an interrupt."""
        if self._write is None:
            return
        # UTC, so that logs of several machines can be merged.
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"schema": SCHEMA, "time": now, "run": self._run, "event": event, **fields}
        try:
            self._write(json.dumps(line) + "\n")
        # A full disk ends the log and not the test.
        except OSError as error:
            self._write = None
            warnings.warn(f"the log ends here: {error.strerror or error}", stacklevel=2)
        if event in _ENDINGS:
            self._write = None

    def hear(self, event: Event) -> None:
        """Write what the engine tells."""
        self._position = self._position.after(event, time.monotonic())
        fields = as_json(event)
        if isinstance(event, PassStarted | BlockFinished | PassFinished):
            # The position is taken after the event, which may have ended the pass.
            fields["progress"] = {**self._position.as_json(), "workers": self.workers()}
        self.tell(fields.pop("event"), **fields)

    @contextmanager
    def ending(self, words: str = "") -> Iterator[None]:
        """Write how a block ends by an error, or by an interrupt, which gets these words."""

        def interrupted() -> str:
            self.tell("interrupted", exit_code=INTERRUPTED)
            return words

        # Also where the process is ended while library code runs, and no exception is raised.
        _before_exit.append(interrupted)
        try:
            yield
        except (KeyboardInterrupt, click.Abort) as error:
            if said := interrupted():
                # They travel with the interrupt to the place that ends the command.
                raise KeyboardInterrupt(said) from error
            raise
        except Exception as error:
            told = isinstance(error, DhsicError | click.ClickException)
            text = error.format_message() if isinstance(error, click.ClickException) else str(error)
            message = redacted(in_shell(" ".join(text.split())))
            kind = type(error).__name__
            self.tell("error", message=message, kind=kind, exit_code=USAGE if told else INTERNAL)
            raise
        finally:
            _before_exit.remove(interrupted)


@contextmanager
def open_journal(target: str | Path | None, command: Sequence[str], data: str) -> Iterator[Journal]:
    """A journal that says how its block ended.

    Parameters
    ----------
    target : str, Path or None
        A file, which is made or appended to; ``-`` for stderr; None to write nothing.
    command : sequence of str
        The words of the command.
    data : str
        The data.

    Yields
    ------
    Journal
        Its first line is written.

    Raises
    ------
    DataError
        The file cannot be written.
    """
    with ExitStack() as stack:
        write: Callable[[str], None] | None = None
        if target == STDERR:
            write = partial(click.echo, nl=False, err=True)
        elif target is not None:
            with disk_errors(f"the log {target}"):
                # With O_APPEND the system finds the end for every write, whoever else writes.
                file = stack.enter_context(open(target, "a+b", buffering=0))
            # A run that was killed left half a line: the next one starts on its own.
            end = file.seek(0, os.SEEK_END)
            if end and os.pread(file.fileno(), 1, end - 1) != b"\n":
                file.write(b"\n")
            write = partial(_append, file)
        journal = Journal(write)
        words = [redacted(word) for word in command]
        # URLs may hold passwords, and logs are passed on.
        shown = redacted(data)
        journal.tell(
            "command-started", version=__version__, command=words, data=shown, pid=os.getpid()
        )
        with journal.ending():
            yield journal


def read_journal(path: str | Path) -> list[dict[str, Any]]:
    """Read the lines of the command that started last.

    Parameters
    ----------
    path : str or Path
        A file that ``--log-json`` wrote, or still writes; perhaps not there yet.

    Returns
    -------
    list of dict
        In order, without what is no line of this format: a line that a killed command or a full
        disk left torn, or one of a library on the same stream.
    """
    lines = []
    with suppress(OSError):
        # The last line may be half written by a run that goes on.
        for line in Path(path).read_bytes().decode("utf-8", "replace").splitlines():
            with suppress(ValueError, TypeError, KeyError):
                event = parse_json(line)
                if event["schema"] == SCHEMA and {"time", "run", "event"} <= event.keys():
                    lines.append(event)
    runs = [line["run"] for line in lines if line["event"] == "command-started"]
    # A file may hold several runs, one after another; the last one counts.
    return [line for line in lines if not runs or line["run"] == runs[-1]]


def _append(file: Any, line: str) -> None:
    # One call writes a whole line, so that lines of several processes do not mix.
    if os.write(file.fileno(), line.encode()) != len(line.encode()):
        raise OSError(ENOSPC, "no space is left for it")


# --- Ctrl-C and termination end a command within seconds, wherever it is


# Shells report 128 + 2 for a program that SIGINT ended.
_EXIT_CODE = 130
# Workers and folders are cleaned up in this time; a library that holds the lock is not waited for.
_CLEANING_SECONDS = 3.0
_LEAVING_SECONDS = 2.0
_BACK = b"\0"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Python passes this variable on to processes that it starts.
_WARNINGS = "PYTHONWARNINGS"
_LEAKS = "ignore:resource_tracker:UserWarning"
_before_exit: list[Callable[[], str]] = []


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM act like Ctrl-C, and end the process where neither gets through.

    Python raises `KeyboardInterrupt` only when the main thread comes back from library code, and
    before it exits it waits for threads that are in a task. A factorisation can take longer than
    anyone waits, so a thread that sees the signal at once ends the process after three seconds, or
    at a second signal. Worker processes end with the process that started them.
    """
    # Python delivers signals to the main thread alone.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    inner, outer = socket.socketpair()
    # A full pipe must not hold the signal's handler up.
    outer.setblocking(False)
    # Schedulers end jobs by SIGTERM, whose default ends Python without any `finally`.
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    # The number of every signal is written here by the interpreter, even in library code.
    wakeup = signal.set_wakeup_fd(outer.fileno(), warn_on_full_buffer=False)
    watch = threading.Thread(target=_watch, args=(inner, outer), name="interrupts", daemon=True)
    watch.start()
    # Python's resource tracker, a process of its own, removes the semaphores of a process that was
    # ended, and would warn of each; it takes warnings from the environment.
    if _LEAKS not in (given := os.environ.get(_WARNINGS, "")):
        os.environ[_WARNINGS] = f"{given},{_LEAKS}".lstrip(",")
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGTERM, handler)
        outer.send(_BACK)


def _watch(inner: socket.socket, outer: socket.socket) -> None:
    with inner, outer:
        while (received := inner.recv(1)) != _BACK:
            if received[0] in _SIGNALS:
                _end_process(inner)


def _end_process(inner: socket.socket) -> None:
    """End the process, unless it does so by itself in time."""
    inner.settimeout(_CLEANING_SECONDS)
    with suppress(TimeoutError):
        if inner.recv(1) == _BACK:
            # The command came back in time, and exits by itself unless threads keep it.
            time.sleep(_LEAVING_SECONDS)
            os._exit(_EXIT_CODE)
    words = "interrupted"
    # A copy: an act may be taken back by the main thread meanwhile.
    for act in list(_before_exit):
        with suppress(Exception):
            words = act() or words
    # Not by `print`: the main thread may hold the lock of the stream.
    # Where there is no stderr, 2 may be the number of a file of the user.
    with suppress(OSError):
        os.write(-1 if sys.__stderr__ is None else 2, f"dhsic: {words}\n".encode())
    # Not by `sys.exit`, which waits for threads.
    os._exit(_EXIT_CODE)


# --- text on stdout


def print_summary(rows: Sequence[tuple[str, str]]) -> None:
    """Print texts with their labels before them in a column."""
    width = max(len(label) for label, _ in rows) + 2
    wrapper = textwrap.TextWrapper(
        max(shutil.get_terminal_size().columns, width + 20),
        initial_indent=" " * width,
        subsequent_indent=" " * width,
        # Paths and kernels are to be copied whole.
        break_long_words=False,
        break_on_hyphens=False,
    )
    # Other programs read lines, which are not to be broken for them.
    is_broken = is_terminal(sys.stdout)
    for label, text in rows:
        shown = wrapper.fill(printable(text))[width:] if is_broken else printable(text)
        click.echo(click.style(f"{label:<{width}}", bold=True) + shown)


def print_columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of short texts under a header."""
    first, *others = aligned([header, *rows])
    click.echo(click.style(first, bold=True))
    for line in others:
        click.echo(line)
