"""The estimator of a test: the one that is named, or one that fits the memory and the time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import Estimator, Null
from dhsic.estimators.exact import UHSIC, VHSIC
from dhsic.estimators.nystrom import NystromHSIC
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
from dhsic.estimators.registry import find_estimator, find_null, takes_null
from dhsic.kernels import Combinations
from dhsic.landmarks import landmark_count
from dhsic.nulls import FromReplicates
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


_Kernels = Sequence[tuple[Combinations, str]]
_Offers = list[list[Offer[tuple[Estimator, Combinations]]]]
Runner = Callable[[Estimator, Session, Combinations], object]


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
    offered = _Offered(
        session, planner or partial(plan_test, **asked), runner or partial(run_test, **asked)
    )
    kernels = _offered_kernels(combinations, reducible=reducible)
    if not (isinstance(estimator, str) and estimator == "auto"):
        chosen, reason = find_estimator(estimator, session, len(combinations.chosen[0]))
        if not isinstance(estimator, str):
            return Choice(chosen, combinations, reason)
        return _first_that_fits(session, offered.by_name(chosen, kernels), reason)
    if session.weights is not None:
        return _first_that_fits(session, offered.estimates(combinations), "rows have weights")
    # Two variables have features of their own, of which all pairs are compared; more have tuples.
    two = len(combinations.chosen[0]) == 2 and not combinations.features
    estimates = two and null is None and unbiased
    # The unbiased estimate divides by n - 3.
    enough = session.n >= _FEWEST_UNBIASED
    exact = UHSIC() if estimates and enough else VHSIC(two and null is not None and enough)
    pairs = estimates or (two and null is not None and takes_null(NystromHSIC(), null))
    if combinations.features and not tuples:
        offers = offered.pairs(combinations)
    elif not pairs:
        offers = offered.tuples(kernels)
    elif null is None:
        offers = offered.estimates(combinations)
    else:
        offers = offered.features(kernels)
    linear = offers[0][0].value[0]
    given: Any = null
    name = getattr(given, "name", given)
    if not takes_null(exact, null):  # if neither does, the check of the null says so
        return _first_that_fits(session, offers, f"{exact.name} has no {name} null")
    if not takes_null(linear, null):
        return Choice(exact, combinations, f"{linear.name} has no {name} null")
    most = _most_rows(session.dims, name, combinations)
    if session.n > most:
        return _first_that_fits(session, offers, f"more than {most:,} rows")
    if not offered.planner(exact, session, combinations).fits:
        return _first_that_fits(session, offers, "all pairs of rows do not fit the memory")
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
    offered, kernels = _Offered(session, planner, runner), _offered_kernels(combinations)
    few = [name for name in names if name != VHSIC.name or session.n <= _PAIRS_AMONG]
    estimators = [find_estimator(name, session)[0] for name in few or names]
    offers = [some for estimator in estimators for some in offered.by_name(estimator, kernels)]
    why = AS_ASKED if few == list(names) else f"more than {_PAIRS_AMONG:,} rows"
    return _first_that_fits(session, offers, why)


def choose_pairs(
    session: Session, combinations: Combinations, planner: Planner, runner: Runner | None = None
) -> Choice:
    """Principal features of pairs that are each measured by itself, as of two variables.

    With as many landmarks as fit the memory and the time, 256 or fewer.
    """
    return _first_that_fits(
        session, _Offered(session, planner, runner).pairs(combinations), AS_ASKED
    )


def _offered_kernels(combinations: Combinations, *, reducible: bool = False) -> _Kernels:
    """All combinations, and the reference alone where it may stand for them."""
    if not reducible or len(combinations) == 1:
        return [(combinations, "")]
    reference = combinations.part(sorted(combinations.kept))
    return [
        (combinations, ""),
        (reference, f"{len(reference)} of {len(combinations)} combinations of kernels with "),
    ]


class _Offered(NamedTuple):
    """Estimators that may be taken for a run, the better first."""

    session: Session
    planner: Planner
    runner: Runner | None

    def estimates(self, combinations: Combinations) -> _Offers:
        """Features of two variables, for estimates."""
        session, unbiased = self.session, self.session.weights is None
        counts = [min(p, session.n) for p in _OF_ESTIMATES]
        made = [NystromHSIC(p, unbiased_estimate=unbiased) for p in counts]
        return [[self._offer(one, combinations, f"{one.n_landmarks} landmarks") for one in made]]

    def features(self, kernels: _Kernels) -> _Offers:
        """All pairs of principal features of two variables."""
        n = self.session.n
        estimators = [
            (NystromHSIC(min(p, n), n_features=r, unbiased_estimate=True), f"{p} landmarks", of)
            for p, r, of in _FEATURES
        ]
        return [
            [self._offer(one, some, f"{which}{p} and {of}") for one, p, of in estimators]
            for some, which in kernels
        ]

    def pairs(self, combinations: Combinations) -> _Offers:
        """Principal features of pairs of kernels that are each measured by itself."""
        features = NystromHSIC(min(_LANDMARKS, self.session.n), n_features="auto")
        return self.by_name(features, [(combinations, "")])

    def tuples(self, kernels: _Kernels) -> _Offers:
        """Tuples of landmarks."""
        usual = landmark_count(NystromMHSIC().n_landmarks, self.session.n, replace=False)
        return self._powers(NystromMHSIC(), min(usual, _MOST_TUPLES), kernels)

    def by_name(self, estimator: Estimator, kernels: _Kernels) -> _Offers:
        """With its usual number of landmarks, features or the like, and fewer."""
        usual = size_of(estimator, self.session.n)
        if usual is not None:
            return self._powers(estimator, usual, kernels)
        return [[self._offer(estimator, kernels[0][0], _PAIRS)]]

    def _powers(self, estimator: Estimator, most: int, kernels: _Kernels) -> _Offers:
        """The most landmarks, features or the like, and the powers of two below."""
        usual, what = size_of(estimator, self.session.n), noun_of(estimator)
        last = kernels[-1][0]
        return [
            [
                self._offer(sized, some, f"{which}{count:,} {what}")
                for count in powers_below(most, _FEWEST if some is last else _MANY_KERNELS)
                for sized in [estimator if count == usual else with_size(estimator, count)]
            ]
            for some, which in kernels
        ]

    def _offer(
        self, estimator: Estimator, some: Combinations, what: str
    ) -> Offer[tuple[Estimator, Combinations]]:
        def run(session: Session) -> object:
            return None if self.runner is None else self.runner(estimator, session, some)

        return Offer(
            (estimator, some), what, partial(self.planner, estimator, self.session, some), run
        )


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


def run_test(
    estimator: Estimator,
    session: Session,
    combinations: Combinations,
    null: str | Null | None,
    n_resamples: int | None,
) -> object:
    """Run a test or an estimate, as `plan_test` plans it."""
    one: Any = estimator
    if null is None and combinations.features:
        return one.estimates(session, combinations)
    if null is None:
        return estimator.estimate(session, combinations.kernels)
    chosen, _ = find_null(null, estimator, session, n_resamples, combinations)
    return run_null(estimator, session, combinations, chosen)


def run_null(
    estimator: Estimator, session: Session, combinations: Combinations, null: Null
) -> object:
    """Run a test with a null that is chosen, for its seconds: what it returns is not read."""
    one: Any = estimator
    drawn = null.replicates if isinstance(null, FromReplicates) else null
    if combinations.plain and not combinations.features:
        return one.test(session, combinations.kernels, drawn)
    return one.test_grid(session, combinations, drawn)
