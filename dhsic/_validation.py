"""Checks of options: each returns the checked value, or raises an error with the requirement."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import wraps
from inspect import Parameter, Signature, signature
from numbers import Real
from typing import Any, ParamSpec, TypeVar

import numpy as np

from dhsic._removed import removed
from dhsic.errors import InvalidArgumentError, UnknownArgumentError

Given = ParamSpec("Given")
Returned = TypeVar("Returned")

# Names that other libraries give to the arguments of this one.
_ELSEWHERE = {
    "rng": ("seed", "random_state", "random_seed", "generator"),
    "kernels": ("kernel", "bandwidth", "gamma", "sigma", "metric"),
    "kernel": ("kernels", "bandwidth", "gamma", "sigma", "metric"),
    "feature_kernels": ("kernel", "kernels", "feature_kernel"),
    "feature_kernel": ("kernel", "kernels", "feature_kernels"),
    "n_resamples": (
        *("n_perm", "n_perms", "n_permutations", "num_permutations", "permutations", "reps"),
        *("n_boot", "n_bootstrap", "n_shuffles", "resamples", "B"),
    ),
    "threads": ("n_jobs", "n_threads", "num_threads", "nthreads", "workers", "n_workers"),
    "estimator": ("method", "test", "stat", "statistic"),
    "null": ("pvalue_method", "null_distribution", "calibration"),
    "precision": ("dtype",),
    "client": ("scheduler", "cluster"),
    "progress": ("verbose", "callback", "progress_bar"),
    "memory": ("memory_limit", "mem", "max_memory"),
    "time": ("timeout", "time_limit", "max_time"),
    "names": ("labels", "columns", "variable_names", "feature_names"),
    "between": ("by", "hue", "label", "labels", "split"),
    "data": ("df", "frame", "dataset", "table"),
    "missing": ("nan_policy", "dropna", "na", "na_action", "nan"),
    "checkpoint": ("cache", "resume", "checkpoint_dir"),
    "n_landmarks": ("landmarks", "n_components", "m"),
}
READERS: dict[str, Callable[[Any], Any]] = {}
"""What makes values of the texts of an argument, see `dhsic._spec`."""
_SHOWN = 80
_LARGEST = int(np.iinfo(np.int64).max)
_VARIABLES = ("x", "y", "z", "X", "Y", "Z", "a", "b", "variables")
_SECONDS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def check_integer(name: str, value: Any, *, minimum: int, maximum: int = _LARGEST) -> int:
    """Return an integer from `minimum` to `maximum`, which NumPy can count with, or raise."""
    # A bool is an integer to Python, and no count.
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if whole and minimum <= value <= maximum:
        return int(value)
    beyond = f" and at most {maximum:,}" if whole and value > maximum else ""
    msg = f"{name} must be an integer >= {minimum}{beyond}, got {shown(value)}"
    raise InvalidArgumentError(msg)


def check_number(
    name: str, value: Any, requirement: str, allowed: Callable[[float], bool], remedy: str
) -> float:
    """Return a number that is allowed, or raise."""
    with suppress(OverflowError):  # of a whole number beyond all floats
        if not isinstance(value, bool) and isinstance(value, Real) and allowed(float(value)):
            return float(value)
    msg = f"{name} must be {requirement}, got {shown(value)}: {remedy}"
    raise InvalidArgumentError(msg)


def check_level(value: Any, name: str = "alpha", remedy: str = "as 0.05") -> float:
    """Return a level between 0 and 1, or raise."""
    requirement = "greater than 0 and less than 1"
    return check_number(name, value, requirement, lambda x: 0.0 < x < 1.0, remedy)


def check_progress(progress: Any) -> None:
    """Refuse what cannot be called with the progress of a conversion or a study."""
    if progress is not None and not callable(progress):
        msg = f"progress must be callable with one argument, got {shown(progress)}: as print"
        raise InvalidArgumentError(msg)


def check_flag(name: str, value: Any) -> bool:
    """Return True or False, or raise."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    msg = f"{name} must be True or False, got {shown(value)}"
    raise InvalidArgumentError(msg)


def check_path(name: str, value: Any) -> str:
    """Return a path or URL as text, or raise."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if isinstance(text, str):
        return text
    msg = f"{name} must be a path, got {shown(value)}: give text or a pathlib.Path"
    raise InvalidArgumentError(msg)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return a value that is among the choices, or raise."""
    if isinstance(value, str) and value in choices:
        return str(value)
    listed = ", ".join(repr(choice) for choice in choices)
    near = nearest(value, choices) if isinstance(value, str) else ""
    near = removed(f"{name}={value!r}") or near
    msg = f"{name} must be one of {listed}, got {shown(value)}{near}"
    raise InvalidArgumentError(msg)


def shown(value: object) -> str:
    """Describe a value for a message: its text where that fits a line.

    Examples
    --------
    >>> shown("nystrom"), shown(np.zeros((60, 2)))
    ("'nystrom'", 'an ndarray of shape (60, 2)')
    """
    text = repr(value)
    if len(text) <= _SHOWN and "\n" not in text and not isinstance(value, np.ndarray):
        return text
    kind, shape = type(value).__name__, getattr(value, "shape", None)
    article = "an" if kind[0] in "aeiouAEIOU" or kind == "ndarray" else "a"
    return f"{article} {kind}" + ("" if shape is None else f" of shape {tuple(shape)}")


def named_arguments(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Let a function say which argument was meant, where it has none of a name that was given."""

    @wraps(function)
    def checked(*args: Given.args, **kwargs: Given.kwargs) -> Returned:
        # Looked at first: `bind` would say that a name is unknown, and not which one was meant.
        if not kwargs.keys() <= known:
            raise _unknown_argument(function.__name__, min(kwargs.keys() - known), known)
        # Apart from the call itself, whose own TypeErrors are no fault of the arguments.
        try:
            needed.bind(*args, **kwargs)
        except TypeError as error:
            msg = f"{function.__name__}: {error}; {_taken(needed)}"
            raise UnknownArgumentError(msg) from None
        if stars and not args and kwargs.get("data") is None:
            msg = f"{function.__name__}: missing {stars[0]}, or data=, a table; {_taken(needed)}"
            raise UnknownArgumentError(msg)
        # Texts of methods become values here, once for all functions.
        for name in READERS.keys() & kwargs.keys():
            kwargs[name] = READERS[name](kwargs[name])
        return function(*args, **kwargs)

    needed = signature(function)
    parameters = needed.parameters.values()
    stars = [one.name for one in parameters if one.kind is one.VAR_POSITIONAL]
    kinds = Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD
    # Keys keep the order of the signature, in which an error lists the names.
    known = dict.fromkeys(one.name for one in parameters if one.kind in kinds).keys()
    return checked


def _taken(function: Signature) -> str:
    """End of an error message that lists the arguments there are."""
    every, empty = function.parameters.values(), Parameter.empty
    by_name = [one.name for one in every if one.kind is one.KEYWORD_ONLY]
    # Written as in the signature, so that a star tells of any number of variables.
    bare = (one.replace(annotation=empty, default=empty) for one in every)
    others = [str(one) for one in bare if one.kind is not one.KEYWORD_ONLY]
    named = [f"by name {', '.join(by_name)}"] if by_name else []
    return f"it takes {' and '.join([', '.join(others), *named])}"


def _unknown_argument(function: str, name: str, known: Iterable[str]) -> UnknownArgumentError:
    """Names of the same thing elsewhere come first, then names that are spelt alike."""
    names = list(known)
    meant = [known_name for known_name in names if name in _ELSEWHERE.get(known_name, ())]
    hint = f"; did you mean {meant[0]!r}?" if meant else nearest(name, names)
    if not hint:
        hint = "; variables are given by position" if name in _VARIABLES else ""
        hint += f"; it takes {', '.join(names)}"
    return UnknownArgumentError(f"{function} has no argument {name!r}{hint}")


def nearest(word: str, known: Iterable[str]) -> str:
    """End of an error message: what serves for a removed word, or the nearest known one."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return removed(word) or (f"; did you mean {close[0]!r}?" if close else "")


def parse_seconds(value: Any) -> float:
    """Read a time such as 600, "90s", "10min" or "2h"."""
    seconds = 0.0
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h|d)?", value.strip().lower())
        seconds = float(match[1]) * _SECONDS[match[2] or ""] if match else 0.0
    elif isinstance(value, int | float | np.number) and not isinstance(value, bool):
        seconds = float(value)
    if not 0.0 < seconds < math.inf:
        msg = (
            f"time must be a positive number of seconds such as 600 or '10min', got {shown(value)}"
        )
        raise InvalidArgumentError(msg)
    return seconds
