"""The estimator of a test: the one that is named, or one that fits the memory and the time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from dhsic._work import QUICK, entry_seconds, pair_seconds
from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import Estimator, Null
from dhsic.estimators.feature.nystrom_hsic import NystromHSIC
from dhsic.estimators.gram.exact import UHSIC, VHSIC
from dhsic.estimators.landmark.nystrom_m import NystromMHSIC
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
from dhsic.estimators.registry import find_estimator, find_null, takes_null
from dhsic.kernels import Combinations
from dhsic.landmarks import landmark_count
from dhsic.nulls import FromReplicates
from dhsic.results import AS_ASKED

DEFAULTS = 7
"""Version of what calls without options compute.

A commit that changes it, by other kernels, estimators, nulls or numbers of them, raises this number
by one. Tables of the benchmarks carry it, so that pages tell which are older.
"""

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


_Kernels = Sequence[tuple[Combinations, str]]
_Offers = list[list[Offer[tuple[Estimator, Combinations]]]]


def choose_estimator(
    estimator: str | Estimator,
    session: Session,
    combinations: Combinations,
    null: str | Null | None,
    n_resamples: int | None,
    *,
    reducible: bool = False,
    unbiased: bool = True,
    planner: Planner | None = None,
) -> Choice:
    """The estimator that was asked for, or for "auto" the best that is quick enough.

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
    planner : callable, optional
        Function that plans the run, where it is not the test or the estimate alone.

    Returns
    -------
    Choice

    Raises
    ------
    InvalidArgumentError
        The estimator is unknown, or takes fewer variables.
    """
    planner = planner or partial(plan_test, null=null, n_resamples=n_resamples)
    kernels = _offered_kernels(combinations, reducible=reducible)
    if not (isinstance(estimator, str) and estimator == "auto"):
        chosen, reason = find_estimator(estimator, session, len(combinations.chosen[0]))
        if not isinstance(estimator, str):
            return Choice(chosen, combinations, reason)
        return _first_that_fits(session, _by_name(session, chosen, kernels, planner), reason)
    if session.weights is not None:
        offers = _estimate_offers(session, combinations, planner)
        return _first_that_fits(session, offers, "rows have weights")
    # Two variables have features of their own, of which all pairs are compared; more have tuples.
    two = len(combinations.chosen[0]) == 2 and not combinations.features
    estimates = two and null is None and unbiased
    # The unbiased estimate divides by n - 3.
    enough = session.n >= _FEWEST_UNBIASED
    exact = UHSIC() if estimates and enough else VHSIC(two and null is not None and enough)
    pairs = estimates or (two and null is not None and takes_null(NystromHSIC(), null))
    if not pairs:
        offers = _tuples(session, kernels, planner)
    elif null is None:
        offers = _estimate_offers(session, combinations, planner)
    else:
        offers = _feature_offers(session, kernels, planner)
    linear = offers[0][0].value[0]
    name = getattr(null, "name", null)
    if not takes_null(exact, null):  # if neither does, the check of the null says so
        return _first_that_fits(session, offers, f"{exact.name} has no {name} null")
    if not takes_null(linear, null):
        return Choice(exact, combinations, f"{linear.name} has no {name} null")
    too_many = "too many rows for all pairs of them"
    if pair_seconds(session.n) > QUICK:  # planning takes long itself where rows are many
        return _first_that_fits(session, offers, too_many)
    plan = planner(exact, session, combinations)
    seconds = plan.work.seconds()
    # All pairs have no error of landmarks. They are left where they take long, and longer than the
    # features do.
    if seconds > QUICK and seconds > offers[0][0].plan().work.seconds():
        return _first_that_fits(session, offers, too_many)
    if not plan.fits:
        return _first_that_fits(session, offers, "all pairs of rows do not fit the memory")
    return Choice(exact, combinations, "all pairs of rows: quick at this size")


def choose_among(
    names: Sequence[str], session: Session, combinations: Combinations, planner: Planner
) -> Choice:
    """The first of some estimators that fits the memory and the time, or the last.

    Parameters
    ----------
    names : sequence of str
        The better first.
    session, combinations, planner
        As for `choose_estimator`.

    Returns
    -------
    Choice
        As asked, where it is the first with all its landmarks or features.
    """
    kernels = _offered_kernels(combinations, reducible=False)
    estimators = [find_estimator(name, session)[0] for name in names]
    offers = [
        some for estimator in estimators for some in _by_name(session, estimator, kernels, planner)
    ]
    return _first_that_fits(session, offers, AS_ASKED)


def _offered_kernels(combinations: Combinations, *, reducible: bool) -> _Kernels:
    """All combinations, and the reference alone where it may stand for them."""
    if not reducible or len(combinations) == 1:
        return [(combinations, "")]
    reference = combinations.part(sorted(combinations.kept))
    return [
        (combinations, ""),
        (reference, f"{len(reference)} of {len(combinations)} combinations of kernels with "),
    ]


def _estimate_offers(session: Session, combinations: Combinations, planner: Planner) -> _Offers:
    unbiased = session.weights is None
    estimators = [NystromHSIC(min(p, session.n), unbiased_estimate=unbiased) for p in _OF_ESTIMATES]
    return [
        [
            _offer(session, estimator, combinations, planner, f"{estimator.n_landmarks} landmarks")
            for estimator in estimators
        ]
    ]


def _feature_offers(session: Session, kernels: _Kernels, planner: Planner) -> _Offers:
    """All pairs of principal features of two variables."""
    estimators = [
        (NystromHSIC(min(p, session.n), n_features=r, unbiased_estimate=True), f"{p} landmarks", of)
        for p, r, of in _FEATURES
    ]
    return [
        [
            _offer(session, estimator, some, planner, f"{which}{p} and {of}")
            for estimator, p, of in estimators
        ]
        for some, which in kernels
    ]


def _tuples(session: Session, kernels: _Kernels, planner: Planner) -> _Offers:
    """Tuples of landmarks."""
    usual = landmark_count(NystromMHSIC().n_landmarks, session.n, replace=False)
    return _powers(session, NystromMHSIC(), min(usual, _MOST_TUPLES), kernels, planner)


def _by_name(
    session: Session, estimator: Estimator, kernels: _Kernels, planner: Planner
) -> _Offers:
    """With its usual number of landmarks, features or the like, and fewer."""
    usual = size_of(estimator, session.n)
    if usual is not None:
        return _powers(session, estimator, usual, kernels, planner)
    return [[_offer(session, estimator, kernels[0][0], planner, _PAIRS)]]


def _powers(
    session: Session, estimator: Estimator, most: int, kernels: _Kernels, planner: Planner
) -> _Offers:
    """The most landmarks, features or the like, and the powers of two below."""
    usual, what = size_of(estimator, session.n), noun_of(estimator)
    last = kernels[-1][0]
    return [
        [
            _offer(session, sized, some, planner, f"{which}{count:,} {what}")
            for count in powers_below(most, _FEWEST if some is last else _MANY_KERNELS)
            for sized in [estimator if count == usual else with_size(estimator, count)]
        ]
        for some, which in kernels
    ]


def _offer(
    session: Session, estimator: Estimator, some: Combinations, planner: Planner, what: str
) -> Offer[tuple[Estimator, Combinations]]:
    # A bound that needs no plan, since plans of many rows take time themselves.
    least = entry_seconds(session.n, size_of(estimator, session.n) or 0)
    return Offer((estimator, some), what, partial(planner, estimator, session, some), least)


def _first_that_fits(session: Session, offers: _Offers, why: str) -> Choice:
    """The first offer that fits the memory and the time, or the last."""
    chosen, told = first_that_fits(session, offers)
    reasons = [told] if told and why == AS_ASKED else [why, *filter(None, [told])]
    return Choice(*chosen, "; ".join(reasons))


def plan_test(
    estimator: Estimator,
    session: Session,
    combinations: Combinations,
    null: str | Null | None,
    n_resamples: int | None,
) -> Plan:
    """That of a test or an estimate, once."""
    if null is None:
        return plan_once(estimator, session, combinations, None)
    chosen, _ = find_null(null, estimator, session, n_resamples, combinations)
    chosen = chosen.replicates if isinstance(chosen, FromReplicates) else chosen
    return plan_once(estimator, session, combinations, chosen)
