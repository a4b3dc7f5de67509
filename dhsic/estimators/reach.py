"""How large a run may be: the most that fits, told by a refusal, and what a default takes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any, Generic, NamedTuple, TypeVar

from dhsic.engine.blocks import Source
from dhsic.engine.plan import Plan, Times
from dhsic.engine.session import Session
from dhsic.engine.units import format_bytes, format_seconds
from dhsic.estimators.base import Estimator, Null
from dhsic.estimators.block import FEWEST_BLOCK_ROWS
from dhsic.kernels import Combinations, Kernel
from dhsic.landmarks import landmark_count
from dhsic.statistics.orbit import keeping_replicates

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
    run: Callable[[Session], object] | None = None
    """What its seconds are those of; None where nothing can be timed yet."""


def first_that_fits(
    session: Session, offers: Sequence[Sequence[Offer[Value]]]
) -> tuple[Value, str]:
    """The first offer that fits the memory and the time, or the last; and why not the first of all.

    Parameters
    ----------
    session : Session
        The run. Where it says a time, a block of every pass of an offer is timed, and a checkpoint
        keeps which offer was taken.
    offers : sequence of sequences of Offer
        The better first, and in each the largest first.

    Returns
    -------
    value : object
        That of the offer.
    reason : str
        Empty where it is the first.
    """
    allowed, refused = session.runtime.seconds, dict[str, str]()
    listed = [offer for some in offers for offer in some]

    def suits(offer: Offer[Value]) -> bool:
        plan = offer.plan()
        if not plan.fits:
            refused[offer.what] = format_bytes(plan.peak_bytes)
            return False
        times = session.timed(offer.run) if allowed and offer.run else None
        if times is None or not allowed or times.elapsed <= allowed:
            return True
        refused[offer.what] = format_seconds(times.elapsed)
        return False

    def choose() -> int:
        at = 0
        for some in offers:
            # From the smallest on, since what takes longer takes longer to time, too.
            suited = list(takewhile(suits, reversed(some)))
            if suited:
                return at + len(some) - len(suited)
            at += len(some)
        return len(listed) - 1

    best = listed[0]
    if len(listed) == 1 or (not allowed and suits(best)):
        return best.value, ""
    number = session.size_by_time(choose) if allowed else choose()
    chosen = listed[number]
    if number == 0:
        return chosen.value, ""
    what, needed = best.what, refused.get(best.what, "longer than allowed")
    if chosen.what in refused:
        needed = f"more than {refused[chosen.what]}"
    elif allowed and refused:
        what, needed = next(reversed(refused.items()))  # the next larger one
    reason = f"{chosen.what}, since {what} would take {needed}: allow so much for them"
    return chosen.value, reason


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
    """The plan, whose refusal names the largest numbers that fit.

    These are the size of an estimator, or the rows where it has none; and the combinations.
    """
    ways, count = [], size_of(estimator, session.n)
    if count is not None:
        ways.append(
            Way(
                noun_of(estimator),
                count,
                lambda k: planner(with_size(estimator, k), session, combinations),
                _FEWEST.get(_option_of(estimator), 1),
            )
        )
    if len(combinations) > 1:
        what = "features" if combinations.features else "combinations of kernels"
        what = "pairs" if combinations.features and len(session.sources) > 2 else what
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
    return telling(planner(estimator, session, combinations), ways)


def described_plan(
    plan: Plan,
    pilot: Callable[[], Times | None],
    estimator: str,
    null: str,
    kernels: Iterable[Kernel],
) -> Plan:
    """The plan of a test, which says what is run and how it is timed."""
    specs = tuple(dict.fromkeys(kernel.spec() for kernel in kernels))
    return replace(plan, pilot=pilot, estimator=estimator, null=null, kernels=specs)


def size_of(estimator: Estimator, n: int) -> int | None:
    """Landmarks, locations, features or rows of a block, of n rows; None where it has none."""
    option = _option_of(estimator)
    if not option:
        return None
    count: Any = getattr(estimator, option)
    if count is None:
        return int(estimator.blocks(n)[1])  # type: ignore[attr-defined]  # as BlockHSIC has
    count = _USUAL[option] if count == "auto" else count
    return landmark_count(count, n, replace=True)


def noun_of(estimator: Estimator) -> str:
    """The unit of its size."""
    return _SIZES[_option_of(estimator)]


def with_size(estimator: Estimator, count: int) -> Estimator:
    """With another number of them."""
    value: Any = estimator
    smaller: Estimator = replace(value, **{_option_of(estimator): count})
    return smaller


def _option_of(estimator: Estimator) -> str:
    options = getattr(estimator, "__dataclass_fields__", ())
    return next((option for option in _SIZES if option in options), "")


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
