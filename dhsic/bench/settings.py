"""Settings of the runs of a study."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, get_args

import numpy as np

from dhsic._arguments import Precision
from dhsic._validation import check_choice, check_flag, check_integer, nearest
from dhsic.api import independence_test
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import ESTIMATORS

Setting = dict[str, Any]

SETTINGS = (
    "workers",
    "scheduler",
    "rows",
    "rows_per_worker",
    "landmarks",
    "n_resamples",
    "chunk_rows",
    "precision",
)
_CHOICES = {"scheduler": ("threads", "processes"), "precision": get_args(Precision)}
_VARIED = tuple(name for name in SETTINGS if name != "rows_per_worker")
# Options that the study needs for itself, with the reason.
_OWN = {
    "threads": "vary 'workers' with scheduler 'threads'",
    "checkpoint": "what is resumed takes no time",
}


def settings_of(vary: Any, *, weak: bool, most_rows: int | None, workers: int) -> list[Setting]:
    """All combinations of what is varied, the first named changing slowest.

    Parameters
    ----------
    vary : mapping of str to sequence
        Values of each.
    weak : bool
        Rows are those of a worker.
    most_rows : int or None
        Rows of the data; None where they are made as they are asked for.
    workers : int
        Where their number is not varied.

    Raises
    ------
    InvalidArgumentError
        A name or a value that cannot be varied.
    """
    values = _checked_vary(vary)
    check_flag("weak", weak)
    if weak and "workers" not in values:
        msg = "weak=True keeps the rows of a worker: vary 'workers' too, as [1, 2]"
        raise InvalidArgumentError(msg)
    if "rows" not in values and most_rows is None:
        msg = "a function that makes the data needs vary with 'rows', as {'rows': [10_000]}"
        raise InvalidArgumentError(msg)
    if weak and most_rows is not None:
        # As many rows a worker as the data allow for the most of them.
        values.setdefault("rows", [max(1, most_rows // max(values["workers"]))])
    values.setdefault("workers", [workers])
    values.setdefault("rows", [most_rows])
    settings = [_one(dict(zip(values, chosen, strict=True)), weak) for chosen in _grid(values)]
    most = max(setting["rows"] for setting in settings)
    if most_rows is not None and most > most_rows:
        msg = f"rows must be at most the {most_rows:,} of the data, got {most:,}: take fewer"
        raise InvalidArgumentError(msg)
    return settings


def _grid(values: Mapping[str, Sequence[Any]]) -> Iterable[tuple[Any, ...]]:
    return product(*values.values())


def _one(setting: Setting, weak: bool) -> Setting:
    if not weak:
        return setting
    each = setting["rows"]
    # In weak scaling the number of rows given is that of one worker.
    return {**setting, "rows": each * setting["workers"], "rows_per_worker": each}


def _checked_vary(vary: Any) -> dict[str, list[Any]]:
    if not isinstance(vary, Mapping) or not vary:
        msg = f"vary must name what varies, got {vary!r}: as {{'workers': [1, 2]}}"
        raise InvalidArgumentError(msg)
    return {name: _values_of_setting(name, values) for name, values in vary.items()}


def _values_of_setting(name: Any, values: Any) -> list[Any]:
    if name not in _VARIED:
        listed = ", ".join(_VARIED)
        msg = f"vary takes {listed}; got {name!r}{nearest(str(name), _VARIED)}"
        raise InvalidArgumentError(msg)
    is_list = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str | bytes)
    # Different ones alone: two runs of one setting are turns, which `repeats` asks for.
    checked = [_value_of_setting(name, value) for value in values] if is_list else []
    if not checked or len(set(checked)) < len(checked):
        msg = f"vary[{name!r}] must be a list of different values, got {values!r}: as [1, 2]"
        raise InvalidArgumentError(msg)
    return checked


def _value_of_setting(name: str, value: Any) -> Any:
    if name in _CHOICES:
        return check_choice(f"vary[{name!r}]", value, _CHOICES[name])
    return check_integer(f"vary[{name!r}]", value, minimum=1)


def check_options(options: Mapping[str, Any], varied: Iterable[str]) -> None:
    """Refuse options that the test does not have, or that the study sets itself.

    Raises
    ------
    InvalidArgumentError
        Names the option.
    """
    # By the signature, so that an option which is new is known here.
    known = [
        parameter.name
        for parameter in inspect.signature(independence_test).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in _OWN
    ]
    for name in options:
        if name in _OWN:
            msg = f"{name} must be left out of a study: {_OWN[name]}"
            raise InvalidArgumentError(msg)
        if name not in known:
            msg = f"{name} is no option of independence_test{nearest(name, known)}"
            raise InvalidArgumentError(msg)
    for name in sorted(set(options) & set(varied)):
        msg = f"{name} must be given once, and vary has it too: drop one of them"
        raise InvalidArgumentError(msg)
    # Runs would draw one after another from it, and do different work.
    if isinstance(options.get("rng"), np.random.Generator):
        msg = "rng must be a seed in a study, got a Generator, which differs from run to run"
        raise InvalidArgumentError(msg)


def options_of(setting: Setting, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `independence_test` in a setting.

    Raises
    ------
    InvalidArgumentError
        Landmarks are varied of an estimator that has none.
    """
    chosen = dict(options)
    chosen |= {name: setting[name] for name in ("n_resamples", "precision") if name in setting}
    if "landmarks" in setting:
        chosen["estimator"] = _with_landmarks(options.get("estimator"), setting["landmarks"])
    return chosen


def _with_landmarks(estimator: Any, landmarks: int) -> Any:
    asked = estimator or "nystrom-m"
    value: Any = ESTIMATORS[asked]() if asked in list(ESTIMATORS) else asked
    if not hasattr(value, "n_landmarks"):
        msg = f"landmarks are varied of an estimator that has some, got {asked!r}: as 'nystrom-m'"
        raise InvalidArgumentError(msg)
    return replace(value, n_landmarks=landmarks)
