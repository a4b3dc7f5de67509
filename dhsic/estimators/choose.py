"""Choose the estimator of a test: the named one, or one that fits the memory and the time.

An error names the largest number that fits.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple, TypeVar

from dhsic.engine.passes import Source
from dhsic.engine.plan import Plan, Times
from dhsic.engine.session import Session
from dhsic.engine.units import format_bytes, format_seconds
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import Estimate, Estimator, GridOutcome, Null, Outcome
from dhsic.estimators.exact import FEWEST_BLOCK_ROWS, UCKA, UHSIC, VHSIC
from dhsic.estimators.features import CKA, NystromHSIC
from dhsic.estimators.nystrom_m import NystromMHSIC
from dhsic.estimators.registry import drawn_by, find_estimator, find_null, takes_null
from dhsic.kernels import Combinations, Kernel
from dhsic.landmarks import landmark_count
from dhsic.results import AS_ASKED
from dhsic.statistics.orbit import keeping_replicates

DEFAULTS = 9
"""Version of what calls without options compute.

A commit that changes it, by other kernels, estimators, nulls or numbers of them, raises this number
by one. Tables of the benchmarks carry it, so that pages tell which are older.
"""

# Rows up to which a test of two variables takes all pairs of them: there features take longer, or
# find less. Processor ms of all pairs and of features, of the usual kernels:
#
# columns       500       700     1,000     1,500     2,000     3,000 rows
# 1 + 1      55   73   86   82  104   65  218   77  360   94  836  111
# 20 + 1     62  293   92  314  128  292  327  352  425  377  816  355
# 10 + 10    71  379   92  435  108  370  202  475  492  493  710  544
# 90 + 1    176  430  246  538  288  415  497  523  790  444 1672  418
#
# One kernel of single columns takes 9 and 8 ms at 500 rows, 16 and 10 at 1,000. Power of 300 data
# sets: of features .35 for .38 of a parabola and .52 for .54 of a sine at 1,000 rows, .48 for .53
# of a scale by one of 90 columns at 1,500; of ten kinds at 500 rows the same to 3 points.
_SINGLE_COLUMNS, _OF_SEVERAL_KERNELS, _COLUMNS = 500, 1000, 1500
# Of three variables, ms of all pairs and of features: 340 and 322 at 1,000 rows, 738 and 353 at
# 1,500, 862 and 277 at 2,000.
_STAGES = 1000
# The same of other nulls, of which permutations go through all pairs once each, a limit law needs
# the eigenvalues of all rows, and estimates and the gamma law nothing besides one sum.
_BY_NULL = {"permutation": 300, "spectral": 1500, "gamma": 5000, None: 5000}
_PAIRS_AMONG = 20_000  # rows of residuals of two variables
_FEATURE_ROWS = 2000  # of one feature against a target; of more by the root of their number

# Landmarks of either variable that are tried, from the most on.
_LANDMARKS = 256  # of either variable; 512 found no more on six kinds of 4,000 rows
_OF_ESTIMATES = _LANDMARKS, 64
_FEWEST_UNBIASED = 4  # rows
_MOST_TUPLES, _FEWEST = 2048, 64
_PAIRS = "all pairs of rows"
_MANY_KERNELS = 256  # tuples, below which one kernel of each variable is taken

_FEATURES: tuple[tuple[int, int | str, str], ...] = (
    (_LANDMARKS, "auto", "principal features"),
    (128, 32, "at most 32 features of a kernel"),
    (64, 16, "at most 16 features of a kernel"),
)


class Choice(NamedTuple):
    """An estimator with kernels that computes a test."""

    estimator: Estimator
    combinations: Combinations
    """Those that were asked for, or the reference alone."""
    reason: str
    """Why these."""


Runner = Callable[[Estimator, Session, Combinations], object]
_Kernels = Sequence[tuple[Combinations, str]]


def choose_estimator(
    estimator: str | Estimator,
    session: Session,
    combinations: Combinations,
    null: str | Null | None,
    n_resamples: int | None,
    *,
    reducible: bool = False,
    unbiased: bool = True,
    tuples: bool = False,
    planner: Planner | None = None,
    runner: Runner | None = None,
) -> Choice:
    """The estimator that was asked for; for "auto" and "cka" all pairs of few rows, else features.

    A name leaves the options open: of landmarks, features or the like the estimator takes the
    usual number, or the largest power of two that fits the memory and the time. A value is taken
    as it is.

    Parameters
    ----------
    estimator : str or Estimator
        As given.
    session : Session
        The run.
    combinations : Combinations
        Combinations of kernels.
    null : str, Null or None
        As given; None for an estimate.
    n_resamples : int or None
        As given.
    reducible : bool, optional
        Whether the reference may stand for all combinations.
    unbiased : bool, optional
        Whether an estimate of two variables is to be: else it is one that tests are made of.
    tuples : bool, optional
        Whether many features are to have tuples of landmarks, of which there are sensitivities.
    planner, runner : callable, optional
        Functions that plan and run, where that is not the test or the estimate alone.

    Returns
    -------
    Choice

    Raises
    ------
    InvalidArgumentError
        The estimator is unknown, or takes fewer variables, or one feature where there are many.
    """

    def run_test(one: Estimator, timed: Session, some: Combinations) -> object:
        law = None if null is None else find_null(null, one, timed, n_resamples, some)[0]
        return run_null(one, timed, some, law)

    plan: Planner = planner or partial(plan_test, null=null, n_resamples=n_resamples)
    first, n = partial(_first_that_fits, session, plan, runner or run_test), session.n

    def kernels() -> _Kernels:
        """All combinations, and the reference alone where it may stand for them."""
        if not reducible or len(combinations) == 1:
            return [(combinations, "")]
        reference = combinations.part(sorted(combinations.kept))
        few = f"{len(reference)} of {len(combinations)} combinations of kernels with "
        return [(combinations, ""), (reference, few)]

    name = estimator if isinstance(estimator, str) else ""
    if name != "auto":
        chosen, reason = find_estimator(estimator, session, len(combinations.chosen[0]))
        if combinations.features and not chosen.ranks:
            msg = (
                "many features against one target need estimator 'nystrom-m', 'nystrom-hsic', "
                f"'v-hsic' or 'auto', got {chosen.name!r}: take one of them, or test column by "
                "column"
            )
            raise InvalidArgumentError(msg)
        if not name:
            return Choice(chosen, combinations, reason)
        # What neither of CKA can do is refused with the name that was given.
        if name != CKA.name or not (combinations.plain and unbiased):
            return first(_by_name(chosen, kernels(), n), reason)
    if session.weights is not None:
        return first(_for_estimates(session, combinations), "rows have weights")
    # Two variables have features of their own, of which all pairs are compared; more have tuples.
    two = len(combinations.chosen[0]) == 2 and not combinations.features
    estimates = two and null is None and unbiased
    # The unbiased estimate divides by n - 3.
    enough = n >= _FEWEST_UNBIASED
    exact: Estimator = VHSIC(two and null is not None and enough)
    if estimates and enough:
        exact = UHSIC()
    pairs = combinations.features and not tuples
    tested = two and null is not None and takes_null(NystromHSIC(), null)
    quick: Estimator = NystromHSIC() if pairs or estimates or tested else NystromMHSIC()
    if name == CKA.name:
        exact, quick = UCKA(), CKA()

    def linear(why: str) -> Choice:
        """What takes time in proportion to the rows."""
        if name == CKA.name:
            return first(_by_name(quick, kernels(), n), why)
        if pairs:
            return first(_of_pairs(combinations, n), why)
        if estimates:
            return first(_for_estimates(session, combinations), why)
        if tested:
            return first(_principal(kernels(), n), why)
        usual = landmark_count(NystromMHSIC().n_landmarks, n, replace=False)
        return first(_powers(NystromMHSIC(), min(usual, _MOST_TUPLES), kernels(), n), why)

    given: Any = null
    named = getattr(given, "name", given)
    if name == CKA.name and not enough:
        return linear(f"fewer than {_FEWEST_UNBIASED} rows")
    if not takes_null(exact, null):  # if neither does, the check of the null says so
        return linear(f"{exact.name} has no {named} null")
    if not takes_null(quick, null):
        return Choice(exact, combinations, f"{quick.name} has no {named} null")
    most = _most_rows(session.dims, named, combinations)
    if n > most:
        return linear(f"more than {most:,} rows")
    if not plan(exact, session, combinations).fits:
        return linear("all pairs of rows do not fit the memory")
    return Choice(exact, combinations, f"all pairs of rows: at most {most:,}")


def _most_rows(dims: Sequence[int], null: str | None, combinations: Combinations) -> int:
    """Rows up to which all pairs of them are taken."""
    if combinations.features:
        return math.isqrt(_FEATURE_ROWS**2 // len(combinations))
    if null in _BY_NULL:
        return _BY_NULL[null]
    if combinations.stages:
        return _STAGES
    if dims != (1, 1):
        return _COLUMNS
    return _SINGLE_COLUMNS if len(combinations) == 1 else _OF_SEVERAL_KERNELS


def choose_among(
    names: Sequence[str],
    session: Session,
    combinations: Combinations,
    planner: Planner,
    runner: Runner | None = None,
) -> Choice:
    """The first of some estimators that fits the rows, the memory and the time, or the last.

    Parameters
    ----------
    names : sequence of str
        The better first; all pairs of rows are left out where there are many and other names.
    session, combinations, planner, runner
        As for `choose_estimator`.

    Returns
    -------
    Choice
        As asked, where it is the first with all its landmarks or features.
    """
    few = [name for name in names if name != VHSIC.name or session.n <= _PAIRS_AMONG]
    estimators = [find_estimator(name, session)[0] for name in few or names]
    kernels = [(combinations, "")]
    offered = [some for one in estimators for some in _by_name(one, kernels, session.n)]
    why = AS_ASKED if few == list(names) else f"more than {_PAIRS_AMONG:,} rows"
    return _first_that_fits(session, planner, runner, offered, why)


def choose_pairs(
    session: Session, combinations: Combinations, planner: Planner, runner: Runner | None = None
) -> Choice:
    """Principal features of pairs that are each measured by itself, as of two variables.

    With as many landmarks as fit the memory and the time, 256 or fewer.
    """
    offered = _of_pairs(combinations, session.n)
    return _first_that_fits(session, planner, runner, offered, AS_ASKED)


# What may be taken, the better first: lists of choices, in each the largest first.


def _for_estimates(session: Session, combinations: Combinations) -> list[list[Choice]]:
    """Features of two variables, for estimates."""
    counts = [min(p, session.n) for p in _OF_ESTIMATES]
    made = [NystromHSIC(p, unbiased_estimate=session.weights is None) for p in counts]
    return [[Choice(one, combinations, f"{one.n_landmarks} landmarks") for one in made]]


def _principal(kernels: _Kernels, n: int) -> list[list[Choice]]:
    """All pairs of principal features of two variables."""
    return [
        [
            Choice(
                NystromHSIC(min(p, n), n_features=most, unbiased_estimate=True),
                some,
                f"{which}{p} landmarks and {features}",
            )
            for p, most, features in _FEATURES
        ]
        for some, which in kernels
    ]


def _of_pairs(combinations: Combinations, n: int) -> list[list[Choice]]:
    """Principal features of pairs of kernels that are each measured by itself."""
    features = NystromHSIC(min(_LANDMARKS, n), n_features="auto")
    return _by_name(features, [(combinations, "")], n)


def _by_name(estimator: Estimator, kernels: _Kernels, n: int) -> list[list[Choice]]:
    """With its usual number of landmarks, features or the like, and fewer."""
    usual = size_of(estimator, n)
    if usual is not None:
        return _powers(estimator, usual, kernels, n)
    return [[Choice(estimator, kernels[0][0], _PAIRS)]]


def _powers(estimator: Estimator, most: int, kernels: _Kernels, n: int) -> list[list[Choice]]:
    """The most landmarks, features or the like, and the powers of two below."""
    usual, what = size_of(estimator, n), noun_of(estimator)
    last = kernels[-1][0]
    return [
        [
            Choice(sized, some, f"{which}{count:,} {what}")
            for count in powers_below(most, _FEWEST if some is last else _MANY_KERNELS)
            for sized in [estimator if count == usual else with_size(estimator, count)]
        ]
        for some, which in kernels
    ]


def _first_that_fits(
    session: Session,
    planner: Planner,
    runner: Runner | None,
    offered: Sequence[Sequence[Choice]],
    why: str,
) -> Choice:
    """The first that fits the memory and the time, or the last."""
    offers = [[(choice, choice.reason) for choice in some] for some in offered]
    chosen, told = first_that_fits(
        session,
        offers,
        lambda choice: planner(choice.estimator, session, choice.combinations),
        runner and (lambda one, timed: runner(one.estimator, timed, one.combinations)),
    )
    reasons = [told] if told and why == AS_ASKED else [why, *filter(None, [told])]
    return chosen._replace(reason="; ".join(reasons))


def plan_test(
    estimator: Estimator,
    session: Session,
    combinations: Combinations,
    null: str | Null | None,
    n_resamples: int | None,
) -> Plan:
    """That of a test or an estimate, once."""
    if null is not None:
        null = drawn_by(find_null(null, estimator, session, n_resamples, combinations)[0])
    return plan_once(estimator, session, combinations, null)


def run_null(
    estimator: Estimator, session: Session, combinations: Combinations, null: Null | None
) -> Outcome | GridOutcome | Estimate:
    """Run a test with a null that is chosen, or an estimate where it is None."""
    drawn: Any = None if null is None else drawn_by(null)
    if combinations.features or not combinations.plain:
        return estimator.test_grid(session, combinations, drawn)
    if drawn is None:
        return estimator.estimate(session, combinations.kernels)
    return estimator.test(session, combinations.kernels, drawn)


Value = TypeVar("Value")
Planner = Callable[[Estimator, Session, Combinations], Plan]
Way = tuple[str, int, Callable[[int], Plan], int]
"""A number that a plan follows, and that may be smaller: its name, that of the plan, the plan with
another one, and the fewest."""

_SIZES = {  # the option of an estimator that its memory follows first of all
    "n_landmarks": "landmarks",
    "n_locations": "locations",
    "block_rows": "rows of a block",
    "n_features": "features",
}
_USUAL = {"n_landmarks": "8sqrt", "n_locations": 10}  # of "auto", at most
_FEWEST_ROWS = 8
_FEWEST_OF = {"block_rows": FEWEST_BLOCK_ROWS}  # one of all others


def first_that_fits(
    session: Session,
    offers: Sequence[Sequence[tuple[Value, str]]],
    plan: Callable[[Value], Plan],
    run: Callable[[Value, Session], object] | None = None,
) -> tuple[Value, str]:
    """The first offer that fits the memory and the time, or the last; and why not the first of all.

    Parameters
    ----------
    session : Session
        The run. Where it says a time, a block of every pass of an offer is timed, and a checkpoint
        keeps which offer was taken.
    offers : sequence of sequences of (object, str)
        What may be taken, with its name in a result: the better first, and in each the largest
        first.
    plan, run : callable
        The plan of an offer, and what its seconds are those of; nothing is timed where it is None.

    Returns
    -------
    value : object
        That of the offer.
    reason : str
        Empty where it is the first.
    """
    allowed, refused = session.runtime.seconds, dict[str, str]()
    listed = [offer for some in offers for offer in some]

    def suits(offer: tuple[Value, str]) -> bool:
        value, what = offer
        planned = plan(value)
        if not planned.fits:
            refused[what] = format_bytes(planned.peak_bytes)
            return False
        times = session.timed(partial(run, value)) if allowed and run else None
        if times is None or not allowed or times.elapsed <= allowed:
            return True
        refused[what] = format_seconds(times.elapsed)
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

    best, most = listed[0]
    if len(listed) == 1 or (not allowed and suits(listed[0])):
        return best, ""
    number = session.size_by_time(choose) if allowed else choose()
    chosen, what = listed[number]
    if number == 0:
        return chosen, ""
    needed = refused.get(most, "longer than allowed")
    if what in refused:
        needed = f"more than {refused[what]}"
    elif allowed and refused:
        most, needed = next(reversed(refused.items()))  # the next larger one
    return chosen, f"{what}, since {most} would take {needed}: allow so much for them"


def powers_below(count: int, fewest: int) -> list[int]:
    """The count itself, then the powers of two below it, down to the fewest."""
    # The first exponent is that of the largest power below the count.
    powers = (2**k for k in range((count - 1).bit_length() - 1, -1, -1))
    return [count, *(power for power in powers if power >= fewest)]


def plan_once(
    estimator: Estimator, session: Session, combinations: Combinations, null: Null | None
) -> Plan:
    """The plan of the estimator, kept since it is asked for more than once."""
    deletion = session.deletion and (session.deletion.blocks, session.deletion.own)
    key = "plan", estimator, combinations, null, deletion
    return session.once(
        key,
        lambda: keeping_replicates(estimator.plan(session, combinations, null), combinations, null),
    )


def telling(plan: Plan, ways: Iterable[Way]) -> Plan:
    """The plan, whose refusal tells how far each number has to come down for it to fit."""
    return replace(plan, would_fit=partial(_largest_text, tuple(ways)))


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


def planned(
    planner: Planner, estimator: Estimator, session: Session, combinations: Combinations
) -> Plan:
    """The plan, whose refusal names the largest numbers that fit.

    These are the size of an estimator, or the rows where it has none; and the combinations.
    """
    ways, count = list[Way](), size_of(estimator, session.n)
    if count is not None:
        ways.append(
            (
                noun_of(estimator),
                count,
                lambda k: planner(with_size(estimator, k), session, combinations),
                _FEWEST_OF.get(_option_of(estimator), 1),
            )
        )
    if (some := len(combinations)) > 1:
        what = "features" if combinations.features else "combinations of kernels"
        what = "pairs" if combinations.features and len(session.sources) > 2 else what
        part = combinations.part
        ways.append((what, some, lambda k: planner(estimator, session, part(range(k))), 1))
    if count is None:
        first = partial(_of_first, session)
        ways.append(
            ("rows", session.n, lambda k: planner(estimator, first(k), combinations), _FEWEST_ROWS)
        )
    return telling(planner(estimator, session, combinations), ways)


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
    largest = [(_largest_that_fits(*way[1:]), way[0]) for way in ways]
    listed = " or ".join(f"{count:,} {what}" for count, what in largest if count)
    return f"; at most {listed} would fit" if listed else ""


def _largest_that_fits(most: int, plan: Callable[[int], Plan], fewest: int) -> int:
    """The largest number that fits where one more does not; 0 where not even the fewest do."""
    low, high = fewest - 1, fewest
    # Doubling finds a number that does not fit, and bisection the largest that does: plans take
    # time.
    while high < most and plan(high).fits:
        low, high = high, 2 * high
    between = range(low + 1, min(high, most))
    largest = low + bisect_left(between, True, key=lambda k: not plan(k).fits)
    return largest if largest >= fewest else 0


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
