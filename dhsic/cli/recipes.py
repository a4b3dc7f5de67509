"""How a run of the command line is written in Python."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from dhsic.cli.request import Request
from dhsic.cli.signature import LABELS, Options
from dhsic.io.urls import redacted

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
    # Labels are opened above, under the names of their arguments.
    asked: Options = {**request.arguments, **{what: what for what in labels}}
    variables = "    *variables,"
    if asked.pop("given", 0) is None:
        variables = "    *variables[:2],\n    given=variables[2:],"
    usual = {name: parameter.default for name, parameter in signature(function).parameters.items()}
    given = {name: value for name, value in asked.items() if value not in (None, usual.get(name))}
    arguments = [
        f"    {name}={name if name in labels else repr(value)},"
        for name, value in {**given, "rng": options["rng"]}.items()
    ]
    module = "dhsic.causal" if function.__module__.startswith("dhsic.causal") else "dhsic"
    called = f"result = {module}.{function.__name__}("
    body = "\n".join([*lines, called, variables, *arguments, ")", "print(result)"])
    openers = f"{opener}, open_group_labels" if labels else opener
    cluster = "" if request.cluster is None else _CLUSTER
    # A grid beside kernels of single variables is a value; all else is text and numbers.
    grid = "from dhsic.kernels import Candidates, Grid\n" if "=Grid(" in body else ""
    return f"import {module}\n{grid}from dhsic.io.open import {openers}\n\n{cluster}{body}\n"
