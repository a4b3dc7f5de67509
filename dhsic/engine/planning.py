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
_NOT_TAKEN = ("rng", "progress", "checkpoint")  # a plan draws, shows and keeps nothing


class _Begun(Exception):
    """A run that would begin."""


def end_if_planned(plan: Plan) -> None:
    """End a run that is only planned."""
    if _PLANS.get():
        raise _Begun(plan)


def plans(
    function: Callable[Given, object],
) -> Callable[[Callable[[], None]], Callable[Given, Plan]]:
    """Make the function that is decorated plan another one, whose arguments it takes.

    But those that say what is drawn, shown or kept.
    """

    def made(described: Callable[[], None]) -> Callable[Given, Plan]:
        run: Any = unwrap(function)  # without a bar

        def planned(*args: Given.args, **kwargs: Given.kwargs) -> Plan:
            before = _PLANS.set(True)
            try:
                run(*args, **{**kwargs, "rng": 0})
            except _Begun as begun:
                plan: Plan = begun.args[0]
                return plan
            finally:
                _PLANS.reset(before)
            msg = f"{described.__name__}: nothing was planned: please report this error"
            raise RuntimeError(msg)

        update_wrapper(planned, described)
        del planned.__wrapped__  # type: ignore[attr-defined]
        of = signature(function)
        taken = [one for one in of.parameters.values() if one.name not in _NOT_TAKEN]
        planned.__signature__ = of.replace(  # type: ignore[attr-defined]
            parameters=taken, return_annotation=Plan
        )
        return named_arguments(planned)

    return made
