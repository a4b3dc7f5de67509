"""How a run of the command line is written in Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import dhsic
from dhsic import kernels
from dhsic.cli.options import Request
from dhsic.cli.resources import RunResources
from dhsic.io.urls import redacted
from dhsic.io.variables import Variable


def code_of_test(options: Mapping[str, Any], request: Request) -> str:
    """Code that gives the result of a test again; credentials are left out.

    Parameters
    ----------
    options : mapping
        Those of the command.
    request : Request
        Request of the user.

    Returns
    -------
    str
    """
    call = "result", dhsic.independence_test
    return _lines_of_code(options, options["variables"], call, request.arguments, request.place)


class _Name(str):
    """A name of Python, which stands for itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def code_of_map(options: Mapping[str, Any], request: Request) -> str:
    """Code that gives a sensitivity map again, as `code_of_test`."""
    call = "found", dhsic.sensitivity_map
    asked = {"of": options["of"], "wrt": list(options["wrt"]) or None, **request.arguments}
    return _lines_of_code(options, options["variables"], call, asked, request.place)


def code_of_ranking(
    options: Mapping[str, Any], arguments: Mapping[str, Any], place: RunResources
) -> str:
    """Code that gives a ranking again, from the options and what they mean to `rank_features`."""
    call = "ranking", dhsic.rank_features
    asked = {"by": options["by"], **arguments}
    variables = [options["variable"], options["target"]]
    return _lines_of_code(options, variables, call, asked, place)


def code_of_interaction(options: Mapping[str, Any], request: Request) -> str:
    """Code that gives the result of a test of interaction again, as `code_of_test`."""
    call = "result", dhsic.interaction_test
    return _lines_of_code(options, options["variables"], call, request.arguments, request.place)


def code_of_conditional(options: Mapping[str, Any], request: Request) -> str:
    """Code that gives the result of a conditional test again, as `code_of_test`."""
    call = "result", dhsic.conditional_independence_test
    variables = [*options["variables"], *options["given"]]
    code = _lines_of_code(options, variables, call, request.arguments, request.place)
    # By text: the call is the same but for where its variables go.
    return code.replace("    *variables,", "    *variables[:2],\n    given=variables[2:],")


def code_of_samples(options: Mapping[str, Any], request: Request) -> str:
    """Code that gives the result of a two-sample test again, as `code_of_test`."""
    call = "result", dhsic.two_sample_test
    asked = {key: value for key, value in request.arguments.items() if key != "names"}
    opener = "open_group_samples"
    return _lines_of_code(options, options["samples"], call, asked, request.place, opener)


def _lines_of_code(
    options: Mapping[str, Any],
    variables: Sequence[str],
    call: tuple[str, Callable[..., Any]],
    asked: Mapping[str, Any],
    place: RunResources,
    opener: str = "open_group",
) -> str:
    """Lines that open the variables, call a function and print what it returns.

    Labels of rows are options that name an array, or of samples one each.
    """
    target, function = call
    labels = [what for what, value in asked.items() if _are_labels(value)]
    asked = {**asked, **{what: _Name(what) for what in labels}}
    usual = {name: parameter.default for name, parameter in signature(function).parameters.items()}
    given = {
        name: value
        for name, value in asked.items()
        if not _left_open(value) and value != usual.get(name)
    }
    lines = [f"    {name}={value!r}," for name, value in {**given, "rng": options["seed"]}.items()]
    allowed = _allowed(options)
    # The page may be passed on.
    data = redacted(options["data"])
    opened = [f"variables = {opener}({data!r}, {list(variables)!r}{allowed})"]
    opened += [f"{what} = {_opened_labels(options, what)}" for what in labels]
    openers = f"{opener}, open_group_labels" if labels else opener
    called = f"{target} = dhsic.{function.__name__}("
    body = "\n".join([*opened, called, "    *variables,", *lines, ")", f"print({target})"])
    return f"{_imports(body, openers)}\n\n{'' if place.cluster is None else _CLUSTER}{body}\n"


def _opened_labels(options: Mapping[str, Any], what: str) -> str:
    """Code that opens the labels of rows, or those of every sample."""
    named, more = options[what], f"{what!r}{_allowed(options)}"
    if isinstance(named, str):
        return f"open_group_labels({redacted(options['data'])!r}, {named!r}, {more})"
    each = (_opened_labels({**options, what: text}, what) for text in named)
    return f"[{', '.join(each)}]"


_CLUSTER = (
    "# On threads of this process; on a cluster give client=, as of dhsic.cluster.connect(...).\n"
)


def _allowed(options: Mapping[str, Any]) -> str:
    """How absent chunks are allowed, where they are."""
    return ", allow_missing_chunks=True" if options["allow_missing_chunks"] else ""


def _are_labels(asked: Any) -> bool:
    """Whether an argument labels rows: only those are made of opened data, one or one a sample."""
    several = asked if isinstance(asked, list) else [asked]
    return bool(several) and all(isinstance(source, Variable) for source in several)


def _left_open(asked: Any) -> bool:
    """Nothing was asked for, of no variable."""
    return asked is None or (isinstance(asked, list) and all(value is None for value in asked))


def _imports(body: str, openers: str) -> str:
    """Lines that import dhsic, and the values that a text names."""
    # Names of classes in the code, apart from those in quotes or behind a dot.
    named = set(re.findall(r"(?<![\w.'\"])([A-Z]\w*)\(", body))
    lines = ["import dhsic"]
    for module, known in (("dhsic", dhsic.__all__), ("dhsic.kernels", kernels.__all__)):
        used = sorted(named & set(known))
        named -= set(used)
        if used:
            lines.append(f"from {module} import {', '.join(used)}")
    return "\n".join([*lines, f"from dhsic.io.open import {openers}"])
