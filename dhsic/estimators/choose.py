"""The estimator of a test: the one that is named, or one that fits the memory and the time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import Estimate, Estimator, GridOutcome, Null, Outcome
from dhsic.estimators.exact import UHSIC, VHSIC
from dhsic.estimators.features import NystromHSIC
from dhsic.estimators.nystrom_m import NystromMHSIC
from dhsic.estimators.reach import (
    Offer,
    Planner,
    first_that_fits,
    noun_of,
    plan_once,
    powers_below,
    size_of,
    with_size,
)
from dhsic.estimators.registry import drawn_by, find_estimator, find_null, takes_null
from dhsic.kernels import Combinations
from dhsic.landmarks import landmark_count
from dhsic.results import AS_ASKED

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
    """The estimator that was asked for, or for "auto" all pairs of few rows, else features.

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
        The estimator is unknown, or takes fewer variables.
    """
    asked: dict[str, Any] = {"null": null, "n_resamples": n_resamples}
    plan: Planner = planner or partial(plan_test, **asked)
    run: Runner = runner or partial(_run_test, **asked)
    first, n = partial(_first_that_fits, session, plan, run), session.n
    kernels = [(combinations, "")]
    if reducible and len(combinations) > 1:
        reference = combinations.part(sorted(combinations.kept))
        few = f"{len(reference)} of {len(combinations)} combinations of kernels with "
        kernels.append((reference, few))
    if not (isinstance(estimator, str) and estimator == "auto"):
        chosen, reason = find_estimator(estimator, session, len(combinations.chosen[0]))
        if not isinstance(estimator, str):
            return Choice(chosen, combinations, reason)
        return first(_by_name(chosen, kernels, n), reason)
    if session.weights is not None:
        return first(_for_estimates(session, combinations), "rows have weights")
    # Two variables have features of their own, of which all pairs are compared; more have tuples.
    two = len(combinations.chosen[0]) == 2 and not combinations.features
    estimates = two and null is None and unbiased
    # The unbiased estimate divides by n - 3.
    enough = n >= _FEWEST_UNBIASED
    exact = UHSIC() if estimates and enough else VHSIC(two and null is not None and enough)
    if combinations.features and not tuples:
        linear = _of_pairs(combinations, n)
    elif estimates:
        linear = _for_estimates(session, combinations)
    elif two and null is not None and takes_null(NystromHSIC(), null):
        linear = _principal(kernels, n)
    else:
        usual = landmark_count(NystromMHSIC().n_landmarks, n, replace=False)
        linear = _powers(NystromMHSIC(), min(usual, _MOST_TUPLES), kernels, n)
    given: Any = null
    quick, named = linear[0][0].estimator, getattr(given, "name", given)
    if not takes_null(exact, null):  # if neither does, the check of the null says so
        return first(linear, f"{exact.name} has no {named} null")
    if not takes_null(quick, null):
        return Choice(exact, combinations, f"{quick.name} has no {named} null")
    most = _most_rows(session.dims, named, combinations)
    if n > most:
        return first(linear, f"more than {most:,} rows")
    if not plan(exact, session, combinations).fits:
        return first(linear, "all pairs of rows do not fit the memory")
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

    def offer(choice: Choice) -> Offer[Choice]:
        one, some, what = choice
        run = None if runner is None else lambda timed: runner(one, timed, some)
        return Offer(choice, what, lambda: planner(one, session, some), run)

    chosen, told = first_that_fits(session, [list(map(offer, some)) for some in offered])
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


def _run_test(
    estimator: Estimator,
    session: Session,
    combinations: Combinations,
    null: str | Null | None,
    n_resamples: int | None,
) -> object:
    """Run a test or an estimate, as `plan_test` plans it."""
    if null is not None:
        null = find_null(null, estimator, session, n_resamples, combinations)[0]
    return run_null(estimator, session, combinations, null)


def run_null(
    estimator: Estimator, session: Session, combinations: Combinations, null: Null | None
) -> Outcome | GridOutcome | Estimate:
    """Run a test with a null that is chosen, or an estimate where it is None."""
    one: Any = estimator  # those that try several kernels have `test_grid`
    alone = combinations.plain and not combinations.features
    found: Outcome | GridOutcome | Estimate
    drawn = None if null is None else drawn_by(null)
    if not alone:
        found = one.test_grid(session, combinations, drawn)
    elif drawn is None:
        found = one.estimate(session, combinations.kernels)
    else:
        found = one.test(session, combinations.kernels, drawn)
    return found
