"""Kernels, null distributions and estimators that are written elsewhere, by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, get_args, overload

from dhsic._validation import check_integer, nearest, shown
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import Estimator, Null
from dhsic.estimators.registry import ESTIMATORS, NULLS, TABLE, EstimatorEntry
from dhsic.kernels import Kernel
from dhsic.kernels.text import FORMS, parse
from dhsic.nulls import Chain, FromReplicates

Class = TypeVar("Class", bound=type[Any])
NamesOrClasses = str | type[Any] | Iterable[str | type[Any]]

_NULL_CLASSES: tuple[type[Any], ...] = get_args(Null)
# An estimator says what it prepares, or does all by itself.
_PREPARES, _BY_ITSELF = ("guess", "prepare"), ("plan", "estimate", "test")
# A plus after a digit and an e is read as that of an exponent, in the text of a kernel.
_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*(?<!\de)")
_RESERVED = ("auto", "columns", "none")

_ADDED: dict[str, type[Any]] = {}
_ANYWHERE: list[type[Null]] = []
"""Added nulls that stand with every estimator that takes what they are made of."""


@overload
def register(
    extension: Class,
    /,
    *,
    nulls: NamesOrClasses | None = ...,
    estimators: NamesOrClasses | None = ...,
    most_variables: int | None = ...,
    cost: str | None = ...,
) -> Class: ...


@overload
def register(
    extension: None = ...,
    /,
    *,
    nulls: NamesOrClasses | None = ...,
    estimators: NamesOrClasses | None = ...,
    most_variables: int | None = ...,
    cost: str | None = ...,
) -> Callable[[Class], Class]: ...


def register(
    extension: Any = None,
    /,
    *,
    nulls: NamesOrClasses | None = None,
    estimators: NamesOrClasses | None = None,
    most_variables: int | None = None,
    cost: str | None = None,
) -> Any:
    """Make a class known by its name: a kernel, a null distribution or an estimator.

    The name is the attribute `name` of the class, and then works wherever names do: in
    `independence_test`, `plan`, `hsic` and on the command line, in the texts of kernels, and in the
    lists of error messages. It lasts as long as the process, or until `unregister`. An installed
    package whose entry points of the group ``dhsic.plugins`` name a module that registers classes
    adds their names by itself. Worker processes need no names, but must be able to import the
    class.

    Parameters
    ----------
    extension : type
        A frozen dataclass that can be made without arguments: a class derived from `Kernel`, whose
        fields are its parameters in text, in their order, as in "gaussian:0.5"; a class derived
        from `FromReplicates` or from another null; or a class derived from
        `dhsic.estimators.Functions` or, for other statistics, `dhsic.estimators.Estimator`. Where
        it is left out, a decorator is returned.
    nulls : str, type or a sequence of them, optional
        For an estimator: the nulls that stand with it, one or more, in the place of its attribute
        `nulls`; those that are made of their replicates come with them. To be left out of others.
    estimators : str, type or a sequence of them, optional
        For a null: the estimators that it stands with; where not given, all that stand with what it
        derives from, or with what its `replicates` are. To be left out of others.
    most_variables : int, optional
        For an estimator: the largest number of variables that it takes, in the place of its
        attribute `most_variables`.
    cost : str, optional
        For an estimator: how its time grows with the rows n, as "n log n", in the place of its
        attribute `cost`.

    Returns
    -------
    type
        The class, as it is.

    Raises
    ------
    InvalidArgumentError
        The name is taken or is no name, the class lacks a method, or an argument is of another
        kind of class.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import dhsic
    >>> from dhsic.kernels import Kernel, parse
    >>> @dhsic.register
    ... @dataclass(frozen=True)
    ... class Cosine(Kernel):
    ...     period: float = 1.0
    ...     name = "cosine"
    ...     def tile(self, rows, columns, out, work):
    ...         turns = (rows[:, :1] - columns[:, 0]) / self.period
    ...         np.cos(2 * np.pi * turns, out=out)
    >>> parse("cosine:24")(np.array([[0.0], [12.0]]))
    array([[ 1., -1.],
           [-1.,  1.]])
    >>> dhsic.unregister("cosine")
    """
    given = {
        "nulls": nulls,
        "estimators": estimators,
        "most_variables": most_variables,
        "cost": cost,
    }
    if extension is None:
        return partial(register, **given)
    if not isinstance(extension, type):
        msg = f"register needs a class, got {extension!r}: pass the class of the value"
        raise InvalidArgumentError(msg)
    kind, add, takes = _kind_of_class(extension)
    foreign = [name for name, value in given.items() if value is not None and name not in takes]
    if foreign:
        msg = (
            f"{foreign[0]} must be left out of {kind}, got {given[foreign[0]]!r} for "
            f"{extension.__name__}: it takes {' and '.join(takes) or 'the class alone'}"
        )
        raise InvalidArgumentError(msg)
    name = _checked_name(extension, kind)
    add(extension, **{argument: given[argument] for argument in takes})
    _ADDED[name] = extension
    return extension


def unregister(extension: str | type[Any]) -> None:
    """Forget a class that `register` made known.

    Parameters
    ----------
    extension : str or type
        The class, or its name.

    Raises
    ------
    InvalidArgumentError
        Not registered. The names of dhsic itself stay.

    Examples
    --------
    >>> import dhsic
    >>> dhsic.unregister("gaussian")
    Traceback (most recent call last):
    ...
    dhsic.errors.InvalidArgumentError: only registered names can be removed, got 'gaussian'; ...
    """
    name = extension if isinstance(extension, str) else getattr(extension, "name", None)
    added = _ADDED.get(name) if isinstance(name, str) else None
    # A name may have been given to another class in the meantime, which must stay.
    if added is None or (not isinstance(extension, str) and added is not extension):
        listed = ", ".join(_ADDED) or "none"
        got = shown(getattr(extension, "__name__", extension))
        msg = f"only registered names can be removed, got {got}; registered are: {listed}"
        raise InvalidArgumentError(msg)
    gone = _ADDED.pop(str(name))
    _ANYWHERE[:] = [null for null in _ANYWHERE if null is not gone]
    for known in (FORMS, ESTIMATORS, NULLS):
        known.pop(str(name), None)
    TABLE[:] = [
        replace(entry, nulls=tuple(null for null in entry.nulls if null is not gone))
        for entry in TABLE
        if entry.estimator is not gone
    ]


def is_added(cls: type[Any]) -> bool:
    """Whether a class was registered, and is not of dhsic itself."""
    return cls in _ADDED.values()


def _kind_of_class(cls: type[Any]) -> tuple[str, Callable[..., None], tuple[str, ...]]:
    """Kind of a class, how it is added, and which arguments go with it."""
    if issubclass(cls, Kernel):
        return "a kernel", _add_kernel, ()
    if issubclass(cls, _NULL_CLASSES):
        return "a null distribution", _add_null, ("estimators",)
    if not issubclass(cls, Estimator):
        msg = (
            "register takes kernels, null distributions and estimators, got "
            f"{cls.__name__}, which derives from no base of these: derive from "
            "dhsic.estimators.Functions, dhsic.estimators.Estimator, dhsic.kernels.Kernel or "
            "dhsic.FromReplicates"
        )
        raise InvalidArgumentError(msg)
    return "an estimator", _add_estimator, ("nulls", "most_variables", "cost")


def _checked_name(cls: type[Any], kind: str) -> str:
    """The name of a class; one that lacks what all kinds need is refused."""
    lacking = sorted(getattr(cls, "__abstractmethods__", ()))
    if issubclass(cls, Estimator) and not (_has(cls, _PREPARES) or _has(cls, _BY_ITSELF)):
        lacking = [name for name in _PREPARES if not _has(cls, [name])]
    if lacking:
        msg = (
            f"{kind} must have all methods of its base, got {cls.__name__} without "
            f"{', '.join(lacking)}: add them, or derive from a class that has them"
        )
        raise InvalidArgumentError(msg)
    parameters = vars(cls).get("__dataclass_params__")
    if parameters is None or not parameters.frozen:
        msg = (
            f"{kind} must be a frozen dataclass, got {cls.__name__}, which is not: write "
            "@dataclass(frozen=True) above it"
        )
        raise InvalidArgumentError(msg)
    name = vars(cls).get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _RESERVED:
        msg = (
            "a name must be small letters and digits, in parts that begin with one of them and are "
            f"joined by - or _, and none of {', '.join(_RESERVED)}; got {name!r} as the attribute "
            f"name of {cls.__name__}: write name = 'my-name' in the class, for instance"
        )
        raise InvalidArgumentError(msg)
    if name in {*FORMS, *ESTIMATORS, *NULLS}:
        remedy = f"dhsic.unregister({name!r}) frees it" if name in _ADDED else "take another"
        msg = f"a name must be free, got {name!r} for {cls.__name__}, which is taken: {remedy}"
        raise InvalidArgumentError(msg)
    try:
        # Where a name stands for a value, the value is made without arguments.
        cls()
    except TypeError as error:
        msg = f"{kind} must be made without arguments, got {error}: give every field a default"
        raise InvalidArgumentError(msg) from error
    return name


def _add_kernel(cls: type[Kernel]) -> None:
    FORMS[cls.name] = cls, cls.parameters()
    text = ""
    try:
        text = cls().spec()
        # Results and command lines hold kernels as text, which has to give the same kernel again.
        same = parse(text) == cls()
    except InvalidArgumentError:
        same = False
    if not same:
        # A kernel that is refused leaves no name behind.
        del FORMS[cls.name]
        msg = (
            f"a kernel must be read from the text that its spec() writes, got {text!r} from "
            f"{cls.__name__}: leave spec out, or write the name and the fields with colons"
        )
        raise InvalidArgumentError(msg)


def _add_null(cls: type[Null], estimators: NamesOrClasses | None) -> None:
    if estimators is None:
        _ANYWHERE.append(cls)
        with_it = [entry.estimator for entry in TABLE if _suits(cls, entry.nulls)]
    else:
        with_it = _named_classes("estimators", estimators, ESTIMATORS)
    NULLS[cls.name] = cls
    TABLE[:] = [
        replace(entry, nulls=(*entry.nulls, cls)) if entry.estimator in with_it else entry
        for entry in TABLE
    ]


def _suits(cls: type[Null], nulls: tuple[type[Null], ...]) -> bool:
    """Whether a null is, or is made of, one of those that an estimator takes."""
    value = cls()
    return isinstance(value.replicates if isinstance(value, FromReplicates) else value, nulls)


def _has(cls: type[Estimator], names: Iterable[str]) -> bool:
    """Whether a class has methods of its own."""
    return all(getattr(cls, name) is not getattr(Estimator, name) for name in names)


def _add_estimator(
    cls: type[Estimator], nulls: NamesOrClasses | None, most_variables: int | None, cost: str | None
) -> None:
    with_it = tuple(_named_classes("nulls", cls.nulls if nulls is None else nulls, NULLS))
    most = cls.most_variables if most_variables is None else most_variables
    if most is not None:
        check_integer("most_variables", most, minimum=2)
    # Statistics that `replicate` takes have all that it has; what an estimator does by itself is of
    # one kernel a variable, and of rows that may all change places.
    prepares = _has(cls, _PREPARES)
    if Chain in with_it and not prepares:
        msg = (
            f"an estimator with null 'chain' must have the methods {' and '.join(_PREPARES)}, got "
            f"{cls.__name__}: add them, or drop 'chain'"
        )
        raise InvalidArgumentError(msg)
    # Nulls that were added before, for all estimators that take what they are made of.
    others = (null for null in _ANYWHERE if null not in with_it and _suits(null, with_it))
    entry = EstimatorEntry(
        cls, (*with_it, *others), most, cost or cls.cost, grids=prepares, moves_sets=prepares
    )
    TABLE.append(entry)
    ESTIMATORS[cls.name] = cls


def _named_classes(argument: str, given: NamesOrClasses, known: dict[str, Any]) -> list[Any]:
    """The classes that are named, in order, each once."""
    listed: Sequence[Any] = [given] if isinstance(given, str | type) else list(given)
    classes = [
        known.get(name_or_class) if isinstance(name_or_class, str) else name_or_class
        for name_or_class in listed
    ]
    for name_or_class, cls in zip(listed, classes, strict=True):
        if cls not in known.values():
            shown = name_or_class.__name__ if inspect.isclass(name_or_class) else name_or_class
            msg = (
                f"{argument} must be among {', '.join(known)}, or their classes, got "
                f"{shown!r}{nearest(str(shown), known)}"
            )
            raise InvalidArgumentError(msg)
    if not classes:
        msg = f"{argument} must name one or more of {', '.join(known)}; got none"
        raise InvalidArgumentError(msg)
    return list(dict.fromkeys(classes))
