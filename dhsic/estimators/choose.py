"""The estimator of a test: the one that is named, or one that fits the memory and the time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from dhsic._work import LONG, QUICK, pair_seconds
from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.engine.units import format_bytes, format_seconds
from dhsic.estimators.base import Estimator, Null
from dhsic.estimators.feature.nystrom_hsic import NystromHSIC
from dhsic.estimators.gram.exact import UHSIC, VHSIC
from dhsic.estimators.landmark.nystrom_m import NystromMHSIC
from dhsic.estimators.registry import find_estimator, find_null, takes_null
from dhsic.kernels import Combinations
from dhsic.landmarks import landmark_count
from dhsic.nulls import FromReplicates

__all__ = ["Choice", "choose_estimator"]

_LANDMARKS = 256  # of either variable; 512 found no more on six kinds of 4,000 rows
_OF_ESTIMATES = _LANDMARKS, 64
_FEWEST_UNBIASED = 4  # rows
_MOST_TUPLES, _FEWEST_TUPLES = 2048, 64
_MANY_KERNELS = 256  # tuples, below which one kernel of each variable is taken

_FEATURES: tuple[tuple[int, int | str], ...] = ((_LANDMARKS, "auto"), (128, 32), (64, 16))


class Choice(NamedTuple):
    """What computes a test."""

    estimator: Estimator
    combinations: Combinations
    """Those that were asked for, or the reference alone."""
    reason: str
    """Why these."""


class _Offer(NamedTuple):
    """A choice that may fit."""

    estimator: NystromHSIC | NystromMHSIC
    combinations: Combinations
    what: str


def choose_estimator(
    estimator: str | Estimator,
    session: Session,
    combinations: Combinations,
    null: str | Null | None,
    n_resamples: int | None,
    *,
    reducible: bool = False,
    unbiased: bool = True,
) -> Choice:
    """The estimator that was asked for, or for "auto" the best that is quick enough.

    Parameters
    ----------
    estimator : str or Estimator
        What was asked for.
    session : Session
        The run.
    combinations : Combinations
        Of kernels.
    null : str, Null or None
        What was asked for; None for an estimate.
    n_resamples : int or None
        What was asked for.
    reducible : bool, optional
        Whether the reference may stand for all combinations.
    unbiased : bool, optional
        Whether an estimate of two variables is to be: else it is one that tests are made of.

    Returns
    -------
    Choice

    Raises
    ------
    InvalidArgumentError
        The estimator is unknown, or takes fewer variables.
    """
    if not (isinstance(estimator, str) and estimator == "auto"):
        found, reason = find_estimator(estimator, session)
        return Choice(found, combinations, reason)
    asked = null, n_resamples
    two = len(session.sources) == 2 and not combinations.features
    estimates = two and null is None and unbiased
    enough = session.n >= _FEWEST_UNBIASED
    exact = UHSIC() if estimates and enough else VHSIC(two and null is not None and enough)
    pairs = estimates or (two and null is not None and takes_null(NystromHSIC(), null))
    offers = _offers(session, combinations, null, pairs=pairs, reducible=reducible)
    linear = offers[0].estimator
    name = getattr(null, "name", null)
    if not takes_null(exact, null):  # if neither does, the check of the null says so
        return _fitting(session, offers, *asked, f"{name} does not stand with {exact.name}")
    if not takes_null(linear, null):
        return Choice(exact, combinations, f"{name} does not stand with {linear.name}")
    too_many = "too many rows for all pairs of them"
    if pair_seconds(session.n) > QUICK:  # planning takes long itself where rows are many
        return _fitting(session, offers, *asked, too_many)
    plan = _plan(exact, session, combinations, *asked)
    seconds = plan.work.seconds()
    if seconds > QUICK and seconds > _plan(linear, session, combinations, *asked).work.seconds():
        return _fitting(session, offers, *asked, too_many)
    if not plan.fits:
        return _fitting(session, offers, *asked, "all pairs of rows do not fit the memory")
    return Choice(exact, combinations, "all pairs of rows, quick for so few")


def _offers(
    session: Session,
    combinations: Combinations,
    null: str | Null | None,
    *,
    pairs: bool,
    reducible: bool,
) -> list[_Offer]:
    """What is linear in the rows, from the best to the quickest.

    All pairs of features of two variables, or tuples of landmarks.
    """
    n, kernels = session.n, [(combinations, "")]
    if reducible and len(combinations) > 1:
        one = combinations.part([combinations.reference()])
        kernels.append((one, f"one of {len(combinations)} combinations of kernels with "))
    if not pairs:
        return list(_tuples(n, kernels))
    if null is None:
        estimates = [NystromHSIC(min(p, n), unbiased_estimate=True) for p in _OF_ESTIMATES]
        return [_Offer(one, combinations, f"{one.n_landmarks} landmarks") for one in estimates]
    return list(_features(n, kernels))


def _features(n: int, kernels: Sequence[tuple[Combinations, str]]) -> Iterator[_Offer]:
    for (some, what), (p, r) in product(kernels, _FEATURES):
        features = "principal features" if r == "auto" else f"at most {r} features of a kernel"
        yield _Offer(
            NystromHSIC(min(p, n), n_features=r, unbiased_estimate=True),
            some,
            f"{what}{p} landmarks and {features}",
        )


def _tuples(n: int, kernels: Sequence[tuple[Combinations, str]]) -> Iterator[_Offer]:
    usual = landmark_count(NystromMHSIC().n_landmarks, n, replace=False)
    most = min(usual, _MOST_TUPLES)
    for some, what in kernels:
        fewest = _MANY_KERNELS if len(some) > 1 else _FEWEST_TUPLES
        p = most
        while p == most or p >= fewest:
            one = NystromMHSIC() if p == usual else NystromMHSIC(p)
            yield _Offer(one, some, f"{what}{p:,} landmarks")
            p //= 2


def _fitting(
    session: Session,
    offers: list[_Offer],
    null: str | Null | None,
    n_resamples: int | None,
    why: str,
) -> Choice:
    """The first offer that fits the memory and the time, or the last."""
    allowed = session.runtime.processor_seconds or LONG
    first: Plan | None = None
    for offer in offers:
        plan = _plan(offer.estimator, session, offer.combinations, null, n_resamples)
        if (plan.fits and plan.work.seconds() <= allowed) or offer is offers[-1]:
            break
        first = first or plan
    if first is not None:
        seconds, needed = format_seconds(first.work.seconds()), format_bytes(first.peak_bytes)
        why += f"; {offer.what}, since {offers[0].what} would take {seconds} of one thread"
        why += f" and {needed}: allow so much for them"
    return Choice(offer.estimator, offer.combinations, why)


def _plan(
    estimator: Estimator,
    session: Session,
    kernels: Combinations,
    null: str | Null | None,
    n_resamples: int | None,
) -> Plan:
    if null is None:
        return estimator.plan(session, kernels, None)
    found, _ = find_null(null, estimator, session, n_resamples, kernels)
    found = found.replicates if isinstance(found, FromReplicates) else found
    return estimator.plan(session, kernels, found)
