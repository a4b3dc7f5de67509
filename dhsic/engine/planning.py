"""Functions that plan others: a run ends where it would begin, and its plan is the answer."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import update_wrapper
from inspect import signature, unwrap
from typing import Any, ParamSpec

from dhsic._validation import named_arguments
from dhsic.engine.plan import Plan

Given = ParamSpec("Given")

_PLANS: ContextVar[bool] = ContextVar("plans", default=False)
_NEVERTHELESS = {"rng": 0, "progress": None, "checkpoint": None}  # a plan draws and keeps nothing


class _Begun(Exception):
    """A run that would begin."""


def end_if_planned(plan: Plan) -> None:
    """End a run that is only planned."""
    if _PLANS.get():
        raise _Begun(plan)


def plans(
    function: Callable[Given, object],
) -> Callable[[Callable[[], None]], Callable[Given, Plan]]:
    """Make the function that is decorated plan another one, whose arguments it takes."""

    def made(described: Callable[[], None]) -> Callable[Given, Plan]:
        run: Any = unwrap(function)  # without a bar

        def planned(*args: Given.args, **kwargs: Given.kwargs) -> Plan:
            before = _PLANS.set(True)
            try:
                run(*args, **{**kwargs, **_NEVERTHELESS})
            except _Begun as begun:
                plan: Plan = begun.args[0]
                return plan
            finally:
                _PLANS.reset(before)
            msg = f"{described.__name__}: nothing was planned: please report this error"
            raise RuntimeError(msg)

        update_wrapper(planned, described)
        del planned.__wrapped__  # type: ignore[attr-defined]
        taken = signature(function).replace(return_annotation=Plan)
        planned.__signature__ = taken  # type: ignore[attr-defined]
        return named_arguments(planned)

    return made
