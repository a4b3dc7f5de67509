"""How a run of the command line is written in Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import signature
from typing import Any

import dhsic
from dhsic import kernels
from dhsic.cli.request import Request
from dhsic.cli.signature import LABELS, Options
from dhsic.io.urls import redacted

_CLUSTER = (
    "# On threads of this process; on a cluster give client=, as of dhsic.cluster.connect(...).\n"
)


class _Name(str):
    """A name of Python, which stands for itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


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
    opener = "open_group_samples" if "samples" in options else "open_group"
    allowed = ", allow_missing_chunks=True" if options["allow_missing_chunks"] else ""
    # The page may be passed on.
    data = repr(redacted(options["data"]))
    lines = [f"variables = {opener}({data}, {request.texts!r}{allowed})"]
    labels = {
        what: options[what] for what in LABELS if what in request.arguments and options.get(what)
    }
    for what, texts in labels.items():
        apart = "samples" in options and not options["between"]
        each = texts if apart else [texts]
        opened = [f"open_group_labels({data}, {text!r}, {what!r}{allowed})" for text in each]
        listed = f"[{', '.join(opened)}]"
        lines.append(f"{what} = {listed if apart else opened[0]}")
    asked: Options = {**request.arguments, **{what: _Name(what) for what in labels}}
    variables = "    *variables,"
    if asked.pop("given", 0) is None:
        variables = "    *variables[:2],\n    given=variables[2:],"
    usual = {name: parameter.default for name, parameter in signature(function).parameters.items()}
    given = {name: value for name, value in asked.items() if value not in (None, usual.get(name))}
    arguments = [
        f"    {name}={value!r}," for name, value in {**given, "rng": options["rng"]}.items()
    ]
    module = "dhsic.causal" if function.__module__.startswith("dhsic.causal") else "dhsic"
    called = f"result = {module}.{function.__name__}("
    body = "\n".join([*lines, called, variables, *arguments, ")", "print(result)"])
    openers = f"{opener}, open_group_labels" if labels else opener
    cluster = "" if request.place.cluster is None else _CLUSTER
    return f"{_imports(body, module, openers)}\n\n{cluster}{body}\n"


def _imports(body: str, module: str, openers: str) -> str:
    """Lines that import dhsic, and the values that a text names."""
    # Names of classes in the code, apart from those in quotes or behind a dot.
    named = set(re.findall(r"(?<![\w.'\"])([A-Z]\w*)\(", body))
    lines = [f"import {module}"]
    for package, known in (("dhsic", dhsic.__all__), ("dhsic.kernels", kernels.__all__)):
        used = sorted(named & set(known))
        named -= set(used)
        if used:
            lines.append(f"from {package} import {', '.join(used)}")
    return "\n".join([*lines, f"from dhsic.io.open import {openers}"])
