"""Options of a command, read off the signature and the docstring of a public function."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import click
from click.shell_completion import CompletionItem

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
from dhsic.engine.units import parse_bytes
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.choose import ESTIMATORS, NULLS

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
_LIKE: Final = "dhsic.independence_test"
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
def _described(dotted: str) -> Mapping[str, str]:
    """What a numpydoc says of every parameter."""
    doc = inspect.getdoc(function_of(dotted)) or ""
    section = re.search(r"\nParameters\n-+\n(.*?)(?=\n\n?[A-Z][a-z]+\n-{3,}\n|\Z)", doc, re.DOTALL)
    found = re.findall(r"^(\S.*)\n((?:[ ].*\n?|\n(?=[ ]))+)", section[1] if section else "", re.M)
    return {
        name.lstrip("*"): inspect.cleandoc(f"\n{text}")
        for head, text in found
        for name in head.partition(" : ")[0].split(", ")
    }


def function_of(dotted: str) -> Callable[..., Any]:
    """The function of a name, looked up when it is asked for."""
    function: Callable[..., Any] = resolve_name(dotted)
    return function


def first_words(dotted: str, name: str) -> str:
    """The first clause of what a docstring says of a parameter, or of the one it refers to."""
    text = " ".join(_described(dotted).get(name, "").split())
    referred = re.match(r"As (?:`\w+`.* )?(?:for|of) `(?:dhsic\.)?(\w+)`", text)
    if referred and dotted != _LIKE:
        return first_words(_LIKE, name)
    # A reference is a noun behind some words, and else a footnote.
    text = re.sub(r"(?<= of | as )\[\d+\]_", "the paper", text)
    plain = re.sub(r"\s*\[\d+\]_|\s\[\d+\]", "", text)
    clause = _CLAUSE.split(re.sub('[`"]', "", plain), maxsplit=1)[0].rstrip(".")
    return f"{clause}." if clause else ""


def summary(dotted: str) -> str:
    """The first line of a docstring, without its references."""
    line = (inspect.getdoc(function_of(dotted)) or "").partition("\n\n")[0]
    return re.sub(r"\s*\[\d+\]_|`", "", " ".join(line.split()))


def options_of(
    dotted: str, without: Sequence[str] = (), defaults: Mapping[str, Any] | None = None
) -> Iterator[click.Parameter]:
    """The options of a function, in the order of its parameters.

    Parameters
    ----------
    dotted : str
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
    function = function_of(dotted)
    hints = get_type_hints(function)
    for name, parameter in inspect.signature(function).parameters.items():
        default = (defaults or {}).get(name, parameter.default)
        if name in without or name in ("data", "exclude", "names", "y", "client", "progress"):
            continue
        found = _option(dotted, name, hints[name], default)
        if found is not None:
            FLAGS[name] = found.opts[0]
            yield found


def _option(dotted: str, name: str, hint: Any, default: Any) -> click.Parameter | None:
    """The option of a parameter, where a shell can give it."""
    words = None if name in DATA and hint is not Any else _HELP.get(name)
    settings: dict[str, Any] = {"help": words or first_words(dotted, name)}
    flag = _WORDS.get(name, f"--{name.replace('_', '-')}")
    if name in DATA and hint is Any:
        flag, multiple = DATA[name]
        # Of a table these commands take all columns.
        required = name != "features" and "matrix" not in dotted
        settings.update(multiple=multiple, required=required, metavar=_ARRAY)
        return click.Option([flag, name], **settings)
    if name in LABELS:
        return click.Option([flag, name], multiple=name != "weights", metavar="ARRAY", **settings)
    if name == "column_groups":
        settings.update(multiple=True, metavar="NAME=COLUMNS")
        return click.Option(["--column-group", name], **settings)
    required = default is inspect.Parameter.empty
    settings["required" if required else "default"] = required or default
    if name == "kernels":
        settings.update(default=None, multiple=True, metavar="[NAME=]SPEC")
        if "Grid" in str(hint):
            settings["help"] = f"{_SEVERAL}; may be repeated."
        if "two_sample" in dotted:  # whose samples all have the same kernel
            settings.update(metavar="SPEC", help=f"{_SEVERAL}.")
    elif name.endswith(("kernel", "kernels")):
        settings.update(metavar="SPEC")
    elif name == "rng":
        settings.update(type=click.IntRange(min=0), default=0, metavar="N")
    elif name == "checkpoint":
        settings.update(metavar="URL")
    elif name in METHODS:
        settings.update(type=MethodText(name, _names_of(hint, name)), metavar="TEXT")
    elif not _typed(settings, name, hint):
        return None
    return click.Option([flag, name], **settings)


def _typed(settings: dict[str, Any], name: str, hint: Any) -> bool:
    """Add the type of what its annotation says; False where a shell has no such values."""
    united = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    parts = {get_origin(part) or part for part in united} - {NoneType}
    if choices := choices_of(hint):
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
        return False
    return True


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
