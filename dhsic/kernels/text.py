"""Convert kernels to text and to plain values, and back."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

from dhsic._validation import load_plugins, read_fields
from dhsic.errors import InvalidArgumentError
from dhsic.kernels.base import Kernel, Product, Sum
from dhsic.kernels.dot import AndersonDarling, Delta, Linear, Polynomial
from dhsic.kernels.radial import (
    Distance,
    Gaussian,
    InverseMultiquadric,
    Laplacian,
    Matern,
    RationalQuadratic,
)
from dhsic.kernels.wrap import Columns, OnColumns, Ranked, Scale
from dhsic.results import CODECS, plain_value

Form: TypeAlias = tuple[Callable[..., Kernel], tuple[str, ...]]


_CLASSES = (Gaussian, Laplacian, InverseMultiquadric, RationalQuadratic, Linear, Polynomial)
# What makes a kernel of a name, and its parameters after colons; every kernel stands here once.
FORMS: dict[str, Form] = {
    **{cls.name: (cls, cls.parameters()) for cls in (*_CLASSES, Distance, Delta, AndersonDarling)},
    **{f"matern{2 * nu:.0f}2": (partial(Matern, nu=nu), ("length",)) for nu in (0.5, 1.5, 2.5)},
}
KernelName: TypeAlias = Literal[
    "gaussian",
    "laplacian",
    "matern12",
    "matern32",
    "matern52",
    "imq",
    "rq",
    "linear",
    "polynomial",
    "distance",
    "delta",
    "anderson-darling",
]
"""The names alone: a kernel is any text that `parse` reads, of which a checker knows none wrong."""
# A comma before digits goes on with a list of columns; the + of 1e+5 is not a sum.
# A comma before a name and an equals sign goes on with the parameters.
_TOKEN = re.compile(
    r"@\d+(?:,\d+)*|@[^+*(),]*|[+*()]|(?:[^+*(),@]|(?<=[\d.]e)\+|,(?=[a-z_]\w*=))+|,"
)


def parse(text: str) -> Kernel:
    """Read a kernel from text.

    Parameters
    ----------
    text : str
        A name with parameters after colons, in the order of the table or by name, as in
        "rq:gamma=2"; omitted parameters keep their defaults. "+", "*" and parentheses combine
        kernels of the same variable.

        ================================  =====================================
        text                              kernel
        ================================  =====================================
        gaussian[:gamma]                  `Gaussian`
        laplacian[:gamma]                 `Laplacian`
        matern12[:length], 32, 52         `Matern` with nu 1/2, 3/2, 5/2
        imq[:gamma]                       `InverseMultiquadric`
        rq[:alpha:gamma]                  `RationalQuadratic`
        linear                            `Linear`
        polynomial[:degree:coef0:gamma]   `Polynomial`
        distance[:exponent]               `Distance`
        delta                             `Delta`
        anderson-darling                  `AndersonDarling`
        columns(kernel, ...)              `Columns`
        ranks(kernel), scores, spread     `Ranked`
        kernel@0,2                        `OnColumns`, of these columns alone
        ================================  =====================================

        `dhsic.register` adds names.

    Returns
    -------
    Kernel
        `Kernel.fit` fills omitted parameters. ``parse(k.spec())`` is k without origin.

    Raises
    ------
    InvalidArgumentError
        The name is unknown, a parameter is out of range, or the expression is malformed.

    Examples
    --------
    >>> from dhsic.kernels import parse
    >>> parse("gaussian:0.5")
    Gaussian(origin=None, gamma=0.5)
    >>> parse("(gaussian + linear) * delta").spec()
    '(gaussian+linear)*delta'
    """
    tokens = _TOKEN.findall(re.sub(r"\s", "", text.lower()))
    kernel = _sum(tokens)
    if tokens:
        raise _malformed(tokens[0])
    return kernel


def _sum(tokens: list[str], symbols: str = "+*") -> Kernel:
    """Take operands joined by the first symbol off the tokens; those of the others bind before."""
    if not symbols:
        return _operand(tokens)
    symbol, inner = symbols[0], symbols[1:]
    kernel = _sum(tokens, inner)
    while tokens[:1] == [symbol]:
        tokens.pop(0)
        other = _sum(tokens, inner)
        kernel = kernel + other if symbol == "+" else kernel * other
    return kernel


def _operand(tokens: list[str]) -> Kernel:
    token = tokens.pop(0) if tokens else ""
    if token == "(" or (token in _AROUND and tokens[:1] == ["("]):
        if token != "(":
            tokens.pop(0)
        kernel = _AROUND[token](tokens)
        if not tokens or tokens.pop(0) != ")":
            opening = "("
            raise _malformed(opening)
    else:
        kernel = _simple(token)
    if tokens and re.fullmatch(r"@[\d,]+", tokens[0]):
        kernel = OnColumns(kernel, tuple(map(int, tokens.pop(0)[1:].split(","))))
    return kernel


def _ranked(tokens: list[str], scale: Scale) -> Kernel:
    return Ranked(_sum(tokens), scale)


def _columns(tokens: list[str]) -> Kernel:
    """Take kernels of columns, or "none", and the commas between them off the tokens."""
    parts: list[Kernel | None] = []
    while not parts or (tokens[:1] == [","] and tokens.pop(0)):
        if tokens[:1] == ["none"]:
            tokens.pop(0)
            parts.append(None)
        else:
            parts.append(_sum(tokens))
    return Columns(tuple(parts))


# What reads the inside of parentheses behind a word, or of those alone.
_AROUND: dict[str, Callable[[list[str]], Kernel]] = {
    **{scale: partial(_ranked, scale=scale) for scale in get_args(Scale)},
    Columns.name: _columns,
    "(": _sum,
}


def _simple(token: str) -> Kernel:
    name, colon, text = token.partition(":")
    if name not in FORMS:
        # A name that is not known may be one of a plugin: these are loaded only now.
        load_plugins()
    if name not in FORMS:
        raise _unknown(name)
    build, parameters = FORMS[name]
    return build(**(read_fields(text, parameters, f"kernel {name}", _number) if colon else {}))


def _number(value: str) -> float | str:
    """Read a number; what is not one is left for the kernel to refuse."""
    try:
        return float(value)
    except ValueError:
        return value


def _unknown(name: str) -> InvalidArgumentError:
    around = [word for word in _AROUND if word != "("]
    near = get_close_matches(name, [*FORMS, *around], n=1)
    shown = [f"{form}(gaussian)" if form in around else form for form in near]
    remedy = f"did you mean {shown[0]!r}?" if near else "write 'gaussian', for instance"
    return InvalidArgumentError(
        f"a kernel must be one of {', '.join(FORMS)}, or {', '.join(around)} of one, as "
        f"'ranks(gaussian)'; got {name!r}: {remedy}"
    )


def _malformed(token: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "kernels must be joined by + or * and parentheses must pair; "
        f"got an unexpected {token!r}: write '(gaussian+linear)*delta', for instance"
    )


_INNER = "inner"  # a kernel of a kernel, since "kernel" tells the class
# Classes that a file may name.
_BY_NAME: dict[str, type[Kernel]] = {
    cls.__name__: cls
    for cls in (
        *(build for build, _ in FORMS.values() if isinstance(build, type)),
        *(Matern, Columns, OnColumns, Product, Ranked, Sum),
    )
}


def plain_kernel(kernel: Kernel) -> dict[str, Any]:
    """Write a fitted kernel of this package, with its origin, as plain types.

    Parameters
    ----------
    kernel : Kernel
        As fitted.

    Returns
    -------
    dict

    Raises
    ------
    InvalidArgumentError
        The kernel is of another package.

    Examples
    --------
    >>> from dhsic.kernels import Gaussian
    >>> plain_kernel(Gaussian(gamma=0.5, origin=(1.0,)))
    {'kernel': 'Gaussian', 'origin': [1.0], 'gamma': 0.5}
    """
    name = type(kernel).__name__
    if _BY_NAME.get(name) is not type(kernel):
        msg = f"only kernels of dhsic.kernels can be saved, got {kernel!r}: take one of them"
        raise InvalidArgumentError(msg)
    values = {
        _INNER if field.name == "kernel" else field.name: plain_value(getattr(kernel, field.name))
        for field in fields(kernel)
    }
    return {"kernel": name, **values}


def kernel_of_plain(plain: Any) -> Kernel:
    """Read what `plain_kernel` made.

    Parameters
    ----------
    plain : dict
        Its class and its fields.

    Returns
    -------
    Kernel

    Raises
    ------
    TypeError
        It is something else.

    Examples
    --------
    >>> kernel_of_plain({"kernel": "Gaussian", "origin": [1.0], "gamma": 0.5})
    Gaussian(origin=(1.0,), gamma=0.5)
    """
    kernel: Any = None
    with suppress(KeyError):  # no class is named, or one that is not there
        kernel = _value(plain)
    if not isinstance(kernel, Kernel):
        msg = f"kernel must be a kernel of dhsic.kernels, got {str(plain)[:40]!r}"
        raise TypeError(msg)
    return kernel


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(_value(item) for item in plain)
    if not isinstance(plain, dict):
        return plain
    # Names are looked up here alone, so that a file can have nothing else made.
    cls = _BY_NAME[plain["kernel"]]
    values = {**plain, "kernel": plain.get(_INNER)}
    # Fields that are no arguments are made anew.
    names = [f.name for f in fields(cls) if f.init and values.get(f.name) is not None]
    return cls(**{name: _value(values[name]) for name in names})


CODECS[Kernel] = plain_kernel, kernel_of_plain
