"""Check arguments, read methods from text, load plugins, and name what replaces removed names.

Checks of names and values come first: a check returns the checked value, or raises an error with
the requirement. Then come methods, each a name and its fields, as
"nystrom-m:n_landmarks=2000,pairing=joint", and the plugins of installed packages, which add names.
The last part answers to names and options that were removed.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from numbers import Real
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from dhsic.errors import DhsicError, InvalidArgumentError, UnknownArgumentError

Given = ParamSpec("Given")
Returned = TypeVar("Returned")
Maker = Callable[..., Any]

# Options of single fields that there were, by the texts that have the field now: a command takes
# the first that it has.
_LANDMARKS = "landmarks=n_landmarks pairing selection pool"
_FEATURES = "features=n_features form orthogonal"

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

# What makes values of the texts of an argument.
READERS: dict[str, Callable[[Any], Any]] = {}
_VARIABLES = ("x", "y", "z", "X", "Y", "Z", "a", "b", "variables")


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


_LARGEST = int(np.iinfo(np.int64).max)


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


def check_numbers(
    name: str,
    values: Any,
    *shape: int | None,
    least: float = -math.inf,
    most: float = math.inf,
    gaps: bool = False,
    remedy: str = "give an array of them",
    error: type[DhsicError] = InvalidArgumentError,
) -> NDArray[np.float64]:
    """Return finite real numbers of a shape, in which None stands for any length but 0, or raise.

    Where there may be gaps, NaN stays.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise TypeError  # `astype` would drop the imaginary part with a warning alone
        numbers = array.astype(np.float64)
        got = f"shape {numbers.shape}"
    except (TypeError, ValueError, OverflowError):
        numbers, got = np.empty(0), shown(values)
    lengths = [length or there for length, there in zip(shape, numbers.shape, strict=False)]
    if numbers.size and (*lengths,) == numbers.shape and len(lengths) == len(shape):
        inside = np.isfinite(numbers) & (numbers >= least) & (numbers <= most)
        wrong = numbers[~(inside | np.isnan(numbers) & gaps)]
        if not wrong.size:
            return numbers
        got = f"{wrong[0]:g} among them"
    within = "" if (least, most) == (-math.inf, math.inf) else f" from {least:g} to {most:g}"
    wanted = ", ".join("any" if length is None else str(length) for length in shape)
    msg = f"{name} must be finite numbers{within} of shape ({wanted}), got {got}: {remedy}"
    raise error(msg)


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


_SECONDS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


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


def shown(value: object) -> str:
    """Describe a value for a message: its text where that fits a line.

    Of a class of methods, which was given by mistake, it says how to make a value.

    Examples
    --------
    >>> shown("nystrom"), shown(np.zeros((60, 2)))
    ("'nystrom'", 'an ndarray of shape (60, 2)')
    """
    if isinstance(value, type) and hasattr(value, "name"):
        return f"the class: write {value.__name__}()"
    text = repr(value)
    if len(text) <= 80 and "\n" not in text and not isinstance(value, np.ndarray):
        return text
    kind, shape = type(value).__name__, getattr(value, "shape", None)
    article = "an" if kind[0] in "aeiouAEIOU" or kind == "ndarray" else "a"
    return f"{article} {kind}" + ("" if shape is None else f" of shape {tuple(shape)}")


def nearest(word: str, known: Iterable[str]) -> str:
    """End of an error message: what serves for a removed word, or the nearest known one."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return removed(word) or (f"; did you mean {close[0]!r}?" if close else "")


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
    if not isinstance(given, str) or given == "auto":
        return given
    name, colon, text = given.partition(":")
    if name.strip() not in known_methods(argument):
        # A name that is not known may be one of a plugin: these are loaded only now.
        load_plugins()
    if not colon:
        return given
    maker = method_of_name(argument, name.strip())
    return maker(**read_fields(text, fields_of_method(maker), f"{argument} {name.strip()}"))


def method_of_name(argument: str, name: str) -> Maker:
    """What makes the value of a name.

    Raises
    ------
    InvalidArgumentError
        The name is unknown.
    """
    known = known_methods(argument)
    return known[check_choice(argument, name, list(known))]


def read_fields(
    text: str,
    known: Mapping[str, Any] | Sequence[str],
    what: str,
    value_of: Callable[[str], Any] | None = None,
) -> dict[str, Any]:
    """Read fields: values in their order, or ``field=value``, between commas or colons.

    Parameters
    ----------
    text : str
        What stands behind the name.
    known : mapping or sequence of str
        The fields, in order, as a mapping with their defaults.
    what : str
        What they are fields of, for messages.
    value_of : callable, optional
        Reads a value; numbers, true, false and none are such where not given.

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
    listed = known.items() if isinstance(known, Mapping) else ()
    told = ", ".join(f"{name}={default}" for name, default in listed) or ", ".join(names)
    takes = f"fields of {told}, each once and with a value" if names else "no fields"
    for number, part in enumerate(re.split("[,:]", text)):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals and number < len(names):
            name, value = names[number], name
        if name not in known or name in given or not value:
            near = "" if name in known else nearest(name, names)
            msg = f"{what} must have {takes}; got {part.strip()!r}{near}"
            raise InvalidArgumentError(msg)
        given[name] = (value_of or _value)(value)
    return given


_WORDS: Final = {"true": True, "false": False, "none": None}


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


GROUP = "dhsic.plugins"
_LOADED: set[str] = set()


class PluginWarning(UserWarning):
    """An installed package that adds names to dhsic cannot be loaded."""


def load_plugins() -> None:
    """Load the entry points of the group ``dhsic.plugins``, each once.

    Called where a name is not known or all names are listed, so that `import dhsic` looks for none.
    A package says ``[project.entry-points."dhsic.plugins"]`` and a line ``name = "module"``; the
    module calls `dhsic.register`.
    """
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        if point.name in _LOADED:
            continue
        _LOADED.add(point.name)  # before it is loaded, since it may ask for names itself
        try:
            point.load()
        # A plugin that is broken must not keep dhsic from starting.
        except Exception as error:
            msg = (
                f"plugin {point.name!r} must load {point.value!r} to add its names, got "
                f"{type(error).__name__}: {error}: repair or uninstall its package"
            )
            warnings.warn(msg, PluginWarning, stacklevel=2)


_SIGNS = "random signs were removed: take null='shifts', which is exact and 1.6 to 32 times as fast"

_STOPPING = (
    "permutations that stop were removed: take null='shifts', which is exact and takes less time"
)

_SELECTIONS = "this selection of landmarks was removed: take 'rpcholesky' or 'leverage'"
_CURVES = ("RocCurve", "PrecisionRecallCurve", "roc_curve", "precision_recall_curve")
_DISPLAYS = "take sklearn.metrics of the true directions and the scores"


REMOVED: Final[dict[str, str]] = {
    "--calibrate": "rates of machines were removed: a plan times a block of the data",
    "cause conditional": "it is called dhsic cause residuals",
    "--group": "write --column-group NAME=COLUMNS",
    **dict.fromkeys(("row_groups", "--row-groups"), "rows that belong together are groups"),
    "--spec": "write --cluster FILE, whose kind says the queue",
    **dict.fromkeys(("kmeans++", "coherence", "determinant"), _SELECTIONS),
    **dict.fromkeys(("multiplier", "Multiplier", "wild"), _SIGNS),
    "dhsic.FeatureRanking": "it is called ColumnRanking",
    "dhsic.FeatureSelection": "it is called ColumnSelection",
    "dhsic.RankedFeature": "it is called RankedColumn",
    "dhsic.causal.conditional_independence_test": "it is called residual_independence_test",
    **dict.fromkeys((f"dhsic.causal.{name}" for name in _CURVES), _DISPLAYS),
    "dhsic.plots.dependence_matrix": "it is called dependence_heatmap",
    "dhsic.plots.sensitivity_map": "it is called sensitivity_field",
    "method='linear'": (
        "linear selection was removed: take 'lasso', or SelectKBest of scikit-learn with "
        "f_regression or f_classif"
    ),
    **dict.fromkeys(("sequential", "Sequential", "--exceed"), _STOPPING),
    "to_pandas": "take to_frame(), whose columns have the names of tidy tables, as p_value",
    "within='blocks'": "write within='groups', and group_rows= for block_rows=",
}


def removed(name: str) -> str:
    """End of an error message about an unknown name: what to take, where there was one.

    Examples
    --------
    >>> removed("sequential")
    "; permutations that stop were removed: take null='shifts', which is exact and takes less time"
    >>> removed("sequence")
    ''
    """
    return f"; {REMOVED[name]}" if name in REMOVED else ""


def no_attribute(module: str, name: str) -> AttributeError:
    """Make the error of a module that has no attribute of a name."""
    gone = removed(name) or removed(f"{module}.{name}")
    return AttributeError(f"module {module!r} has no attribute {name!r}{gone}")


_FIELDS: Final = {
    "--estimator nystrom-lancaster": _LANDMARKS,
    "--estimator nystrom-mmd": _LANDMARKS,
    "--estimator nystrom-m": _LANDMARKS,
    "--estimator rff-mmd": _FEATURES,
    "--estimator rff-hsic": _FEATURES,
    "--estimator nfsic": "locations=n_locations training-rows placement regularisation",
    "--estimator block-mmd": "block-rows exponent",
    "--estimator block-hsic": "block-rows exponent",
    "--estimator dcov": "unbiased root",
    "--null permutation": "within group-rows",
    "--null normal": "variance",
    "--null spectral": "method",
    "--order time": "lag period",
    "--regression splines": "knots=n_knots folds=n_folds",
    "--kernel grid": "factors combine aggregate reference-share",
}


def removed_option(option: str, takes: Callable[[str, str], bool]) -> str:
    """End of an error message about an option of a single field: the text that has the field.

    Parameters
    ----------
    option : str
        The option that there was, as ``--lag``.
    takes : callable
        Whether a command takes a text: its option, and the name with which the text begins.

    Returns
    -------
    str
        Empty where the command takes no text with the field.

    Examples
    --------
    >>> removed_option("--lag", lambda option, name: option == "--order")
    '; it is a field of texts now: write as --order time:lag=VALUE'
    """
    for text, options in _FIELDS.items():
        fields = dict(one.partition("=")[::2] for one in options.split())
        name = option.removeprefix("--")
        if name in fields and takes(*text.split()):
            field = fields[name] or name.replace("-", "_")
            return f"; it is a field of texts now: write as {text}:{field}=VALUE"
    return ""
