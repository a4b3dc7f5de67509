"""Methods as text: a name and its fields, as "nystrom-m:n_landmarks=2000,pairing=joint"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Final

from dhsic._plugins import load_plugins
from dhsic._validation import READERS, check_choice, nearest, shown
from dhsic.errors import InvalidArgumentError

Maker = Callable[..., Any]
_WORDS: Final = {"true": True, "false": False, "none": None}
_KNOWN: dict[str, list[Mapping[str, Maker]]] = {}


def name_methods(argument: str, known: Mapping[str, Maker]) -> None:
    """Let texts of an argument name these, and those that are added to the mapping later.

    Parameters
    ----------
    argument : str
        The argument of public functions, as "null".
    known : mapping of str to callable
        Frozen dataclasses, or what makes one of the same fields.
    """
    _KNOWN.setdefault(argument, []).append(known)
    READERS[argument] = partial(read_method, argument)


def known_methods(argument: str) -> dict[str, Maker]:
    """Every name of an argument, with what makes its value."""
    return {name: maker for known in _KNOWN[argument] for name, maker in known.items()}


def fields_of_method(maker: Maker) -> dict[str, Any]:
    """The fields that a text may set, with their defaults.

    Examples
    --------
    >>> from dhsic import Normal
    >>> fields_of_method(Normal)
    {'variance': 'direct'}
    """
    cls: Any = maker.func if isinstance(maker, partial) else maker
    taken = maker.args if isinstance(maker, partial) else ()
    return {field.name: field.default for field in fields(cls)[len(taken) :] if field.init}


def read_method(argument: str, given: Any) -> Any:
    """Make the value of a text that sets fields; anything else stays as it is.

    Parameters
    ----------
    argument : str
        The argument that it is given for.
    given : object
        As given. A name alone stays a name, of which a function may choose the fields.

    Returns
    -------
    object

    Raises
    ------
    InvalidArgumentError
        The name is unknown, it has no such field, or a value cannot be used.

    Examples
    --------
    >>> import dhsic
    >>> read_method("null", "shifts:100_000")
    Shifts(n_resamples=100000)
    >>> read_method("estimator", "nystrom-m:n_landmarks=8sqrt,pairing=joint").pairing
    'joint'
    """
    if not isinstance(given, str) or ":" not in given:
        return given
    name, _, text = given.partition(":")
    maker = method_of_name(argument, name.strip())
    return maker(**read_fields(text, fields_of_method(maker), f"{argument} {name.strip()}"))


def method_of_name(argument: str, name: str) -> Maker:
    """What makes the value of a name.

    Raises
    ------
    InvalidArgumentError
        The name is unknown.
    """
    if name not in known_methods(argument):
        # A name that is not known may be one of a plugin: these are loaded only now.
        load_plugins()
    known = known_methods(argument)
    return known[check_choice(argument, name, list(known))]


def read_fields(text: str, known: Mapping[str, Any] | Sequence[str], what: str) -> dict[str, Any]:
    """Read fields: values in their order, or ``field=value``, between commas or colons.

    Parameters
    ----------
    text : str
        What stands behind the name.
    known : mapping or sequence of str
        The fields, in order, as a mapping with their defaults.
    what : str
        What they are fields of, for messages.

    Returns
    -------
    dict of str to object

    Raises
    ------
    InvalidArgumentError
        A field is unknown or given twice, or there are more values than fields.
    """
    given: dict[str, Any] = {}
    names = list(known)
    takes = ", ".join(names)
    if isinstance(known, Mapping) and known:
        takes = ", ".join(f"{name}={default}" for name, default in known.items())
    for number, part in enumerate(re.split("[,:]", text)):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not names or (not equals and number >= len(names)):
            most = f"at most {takes}" if names else "no fields"
            msg = f"{what} must have {most}; got {text!r}: drop the rest"
            raise InvalidArgumentError(msg)
        if not equals:
            name, value = names[number], part.strip()
        if name not in known or not value:
            got = (
                f"{name!r} without a value: give one, or leave it out"
                if name in known
                else f"{shown(name)}{nearest(name, names)}"
            )
            msg = f"{what} must have fields of {takes}; got {got}"
            raise InvalidArgumentError(msg)
        if name in given:
            msg = f"{what} must have each field once; got {name!r} twice: drop one"
            raise InvalidArgumentError(msg)
        given[name] = _value(value)
    return given


def _value(text: str) -> Any:
    """A number, true, false or none as such; other words stay text, for the class to judge."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
