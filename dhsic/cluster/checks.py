"""Checks of what a cluster is described by; each returns the clean value or says what it needs.

They are no schema of pydantic or msgspec: these check types, which is the least of it here. Words
that enter job scripts, sections that belong to a kind, and texts that name the remedy would be
functions of validators instead, as many lines as now.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from dhsic._validation import nearest
from dhsic.errors import InvalidArgumentError

SectionType = TypeVar("SectionType")

# Neither a space nor a quote, which would end the word in the head of a script.
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,:@/+=%\[\]-]*")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_SAFE_PATH = re.compile(r"[A-Za-z0-9_.,:@/+=%-]+")
_SHOWN = 300


def refuse(name: str, requirement: str, value: Any, remedy: str) -> NoReturn:
    """Raise the error of a value that cannot be used."""
    shown = repr(value)
    # A file of the wrong kind may stand in the place of a value.
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}..."
    msg = f"{name} must be {requirement}, got {shown}: {remedy}"
    raise InvalidArgumentError(msg)


def section(kind: type[SectionType], name: str, value: Any) -> SectionType:
    """Build a section from a mapping, of which every key must be known."""
    known = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        refuse(name, "a mapping", value, f"give some of {', '.join(sorted(known))}")
    for key in value:
        # Named with the nearest one: a misspelt key is the usual reason.
        if key not in known:
            msg = (
                f"{name} has no key {key!r}{nearest(str(key), known)}"
                f"; there are: {', '.join(sorted(known))}"
            )
            raise InvalidArgumentError(msg)
    for key, field in known.items():
        # A field without a default is one that must be given.
        needed = field.default is field.default_factory is dataclasses.MISSING
        if needed and key not in value:
            msg = f"{name} must have the key {key!r}, got {sorted(value)}: add it"
            raise InvalidArgumentError(msg)
    return kind(**value)


def flag(name: str, value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        refuse(name, "true or false", value, "write one of them, without quotes")
    return value


def text(name: str, value: Any) -> str | None:
    """Return text in one printable line, or None."""
    if value is None:
        return None
    # YAML reads the name of a queue such as 2024 as a number.
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        refuse(name, "text in one line", value, "leave control characters out")
    return str(value).strip()


def word(name: str, value: Any) -> str | None:
    """Return a word that enters the head of a job script, or None."""
    remedy = "use letters, digits and _.,:@/+=%[]-, and begin with a letter or digit"
    return _matching(_WORD, name, text(name, value), "one plain word", remedy)


def resource_name(name: str, value: Any) -> str | None:
    """Return the name of an object of Kubernetes, or None."""
    remedy = "use lower case letters, digits, - and ."
    return _matching(_NAME, name, text(name, value), "a Kubernetes name", remedy)


def path(name: str, value: Any) -> str | None:
    """Return the whole path of a file or folder of this machine, or None."""
    given = text(name, os.fspath(value) if isinstance(value, os.PathLike) else value)
    return None if given is None else os.path.abspath(os.path.expanduser(given))


def node_path(name: str, value: Any) -> str | None:
    """Return a path on nodes, whose home folder is that of this machine, or None."""
    given = text(name, value)
    # Not made absolute: a relative path on a node is not one of this machine's.
    return None if given is None else os.path.expanduser(given)


def plain_path(name: str, value: Any) -> str | None:
    """Return a whole path that enters the head of a job script, or None."""
    remedy = "use letters, digits and _.,:@/+=%-"
    return _matching(_SAFE_PATH, name, path(name, value), "a path of plain characters", remedy)


def line(name: str, value: Any) -> str:
    """Return a line of text."""
    given = text(name, value)
    if given is None:
        refuse(name, "lines of text", value, "remove what is empty")
    return given


def lines(name: str, value: Any) -> tuple[str, ...]:
    """Return several lines of text."""
    return tuple(line(name, item) for item in _checked_sequence(name, value))


def words(name: str, value: Any) -> tuple[str, ...]:
    """Return names of objects of Kubernetes."""
    return tuple(
        str(resource_name(name, line(name, item))) for item in _checked_sequence(name, value)
    )


def _checked_sequence(name: str, value: Any) -> Sequence[Any]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        refuse(name, "a list", value, "write one item after a dash in each line")
    return tuple(value)


def _matching(
    pattern: re.Pattern[str], name: str, value: str | None, requirement: str, remedy: str
) -> str | None:
    if value is not None and not pattern.fullmatch(value):
        refuse(name, requirement, value, remedy)
    return value
