"""How large a run may be: the most that fits, told by a refusal, and what a default takes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from dhsic._work import LONG
from dhsic.engine.blocks import Source
from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.engine.units import format_bytes, format_seconds
from dhsic.estimators.base import Estimator, Null
from dhsic.estimators.block import FEWEST_BLOCK_ROWS
from dhsic.estimators.resample import keeping_replicates
from dhsic.kernels import Combinations
from dhsic.landmarks import landmark_count

Value = TypeVar("Value")
Planner = Callable[[Estimator, Session, Combinations], Plan]

_SIZES = {  # the option of an estimator that its memory follows first of all
    "n_landmarks": "landmarks",
    "n_locations": "locations",
    "block_rows": "rows of a block",
    "n_features": "features",
}
_USUAL = {"n_landmarks": "8sqrt", "n_locations": 10}  # of "auto", at most
_FEWEST_ROWS = 8
_FEWEST = {"block_rows": FEWEST_BLOCK_ROWS}  # one of all others


class Offer(NamedTuple, Generic[Value]):
    """A choice that may be run."""

    value: Value
    what: str
    """Its name in a result."""
    plan: Callable[[], Plan]
    least_seconds: float = 0.0
    """Lower bound of its seconds of one thread: where they are too many it is not even planned."""


def first_that_fits(
    session: Session, offers: Sequence[Sequence[Offer[Value]]]
) -> tuple[Value, str]:
    """The first offer that fits the memory and the time, or the last; and why not the first of all.

    Parameters
    ----------
    session : Session
        The run, whose time is ten minutes of one thread where it says none.
    offers : sequence of sequences of Offer
        The better first, and in each the largest first: what fits is looked for by halves.

    Returns
    -------
    value : object
        That of the offer.
    reason : str
        Empty where it is the first.
    """
    allowed = session.runtime.processor_seconds or LONG

    def suits(offer: Offer[Value]) -> bool:
        if offer.least_seconds > allowed:
            return False
        plan = offer.plan()
        return plan.fits and plan.work.seconds() <= allowed

    best, last = offers[0][0], offers[-1][-1]
    if best is last or suits(best):
        return best.value, ""
    # The first list whose smallest offer suits: of the others none does.
    some = next((some for some in offers if suits(some[-1])), [last])
    # Offers come from the largest to the smallest, so that those which suit are at the end.
    first = some[bisect_left(some, True, hi=len(some) - 1, key=suits)]
    if best.least_seconds > allowed:
        taken = f"more than {format_seconds(best.least_seconds)} of one thread"
    else:
        plan = best.plan()
        seconds, needed = format_seconds(plan.work.seconds()), format_bytes(plan.peak_bytes)
        taken = f"{seconds} of one thread and {needed}"
    reason = f"{first.what}, since {best.what} would take {taken}: allow so much for them"
    return first.value, reason


def powers_below(count: int, fewest: int) -> list[int]:
    """The count itself, then the powers of two below it, down to the fewest."""
    # The first exponent is that of the largest power below the count.
    powers = (2**k for k in range((count - 1).bit_length() - 1, -1, -1))
    return [count, *(power for power in powers if power >= fewest)]


class Way(NamedTuple):
    """A number that a plan follows, and that may be smaller."""

    what: str
    most: int
    """That of the plan."""
    plan: Callable[[int], Plan]
    """With another one."""
    fewest: int = 1


def plan_once(
    estimator: Estimator, session: Session, combinations: Combinations, null: Null | None
) -> Plan:
    """The plan of the estimator, kept since it is asked for more than once."""
    key = "plan", estimator, combinations, null
    return session.once(
        key,
        lambda: keeping_replicates(estimator.plan(session, combinations, null), combinations, null),
    )


def telling(plan: Plan, ways: Iterable[Way]) -> Plan:
    """The plan, whose refusal tells how far each number has to come down for it to fit."""
    return replace(plan, would_fit=partial(_largest_text, tuple(ways)))


def planned(
    planner: Planner, estimator: Estimator, session: Session, combinations: Combinations
) -> Plan:
    """The plan, whose refusal names the largest numbers that fit."""
    plan = planner(estimator, session, combinations)
    return telling(plan, ways_of(planner, estimator, session, combinations))


def ways_of(
    planner: Planner, estimator: Estimator, session: Session, combinations: Combinations
) -> list[Way]:
    """The size of an estimator, or the rows where it has none; and the number of combinations."""
    ways = []
    count = size_of(estimator, session.n)
    if count is not None:
        ways.append(
            Way(
                noun_of(estimator),
                count,
                lambda k: planner(with_size(estimator, k), session, combinations),
                _FEWEST.get(_option_of_estimator(estimator), 1),
            )
        )
    if len(combinations) > 1:
        what = "features" if combinations.features else "combinations of kernels"
        ways.append(
            Way(
                what,
                len(combinations),
                lambda k: planner(estimator, session, combinations.part(range(k))),
            )
        )
    if count is None:
        ways.append(
            Way(
                "rows",
                session.n,
                lambda k: planner(estimator, _of_first(session, k), combinations),
                _FEWEST_ROWS,
            )
        )
    return ways


def size_of(estimator: Estimator, n: int) -> int | None:
    """Landmarks, locations, features or rows of a block, of n rows; None where it has none."""
    option = _option_of_estimator(estimator)
    if not option:
        return None
    count: Any = getattr(estimator, option)
    if count is None:
        return int(estimator.blocks(n)[1])  # type: ignore[attr-defined]  # as BlockHSIC has
    count = _USUAL[option] if count == "auto" else count
    return landmark_count(count, n, replace=True)


def noun_of(estimator: Estimator) -> str:
    """The unit of its size."""
    return _SIZES[_option_of_estimator(estimator)]


def with_size(estimator: Estimator, count: int) -> Estimator:
    """With another number of them."""
    value: Any = estimator
    smaller: Estimator = replace(value, **{_option_of_estimator(estimator): count})
    return smaller


def _option_of_estimator(estimator: Estimator) -> str:
    return next((option for option in _SIZES if hasattr(estimator, option)), "")


def _largest_text(ways: Sequence[Way]) -> str:
    """The largest numbers that fit."""
    largest = [(_largest_that_fits(way), way.what) for way in ways]
    listed = " or ".join(f"{count:,} {what}" for count, what in largest if count)
    return f"; at most {listed} would fit" if listed else ""


def _largest_that_fits(way: Way) -> int:
    """The largest number that fits where one more does not; 0 where not even the fewest do."""
    low, high = way.fewest - 1, way.fewest
    # Doubling finds a number that does not fit, and bisection the largest that does: plans take
    # time.
    while high < way.most and way.plan(high).fits:
        low, high = high, 2 * high
    between = range(low + 1, min(high, way.most))
    largest = low + bisect_left(between, True, key=lambda k: not way.plan(k).fits)
    return largest if largest >= way.fewest else 0


class _First:
    """The first rows of a variable, for a plan."""

    def __init__(self, source: Source, n: int) -> None:
        self.source = source
        self.shape = n, source.shape[1]

    def __getattr__(self, name: str) -> Any:
        # Besides the shape a plan asks for what the whole variable has.
        return getattr(self.source, name)


def _of_first(session: Session, n: int) -> Session:
    sources: Any = [_First(source, n) for source in session.sources]
    return session.over(sources)
