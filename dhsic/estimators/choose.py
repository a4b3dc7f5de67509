"""Choose estimators and nulls, find them by name, and register new ones.

A test takes the named estimator, or one that fits the memory and the time; an error names the
largest number that fits. The choice comes first, then names, sizes that fit, and `register`.
Names are also types: an editor completes them, and a type checker knows them. Names that
`dhsic.register` adds are known only at run time. For a type checker pass the class or a value of it
in place of the name.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from dhsic._validation import (
    check_choice,
    check_integer,
    name_methods,
    named_arguments,
    nearest,
    shown,
)
from dhsic.engine.passes import Moves, Source
from dhsic.engine.plan import Plan, Times
from dhsic.engine.session import Session
from dhsic.engine.units import format_bytes, format_seconds
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators.base import Estimate, Estimator, GridOutcome, Null, Outcome
from dhsic.estimators.exact import (
    FEWEST_BLOCK_ROWS,
    UCKA,
    UHSIC,
    VHSIC,
    BlockHSIC,
    DCor,
    DCov,
    SubHSIC,
)
from dhsic.estimators.features import CKA, COCO, NOCCO, RFFHSIC, NystromHSIC, SubCorr
from dhsic.estimators.pointwise import NFSIC, NystromMHSIC
from dhsic.kernels import Combinations, Kernel
from dhsic.kernels.wrap import FORMS, parse
from dhsic.landmarks import landmark_count
from dhsic.nulls import (
    Chain,
    ChiSquare,
    FromReplicates,
    Gamma,
    Martingale,
    Normal,
    Permutation,
    Resampling,
    Shifts,
    Spectral,
    TimeOrder,
)
from dhsic.results import AS_ASKED
from dhsic.statistics.orbit import keeping_replicates

EstimatorName: TypeAlias = Literal[
    "auto",
    "nystrom-m",
    "nystrom-hsic",
    "rff-hsic",
    "nfsic",
    "block-hsic",
    "coco",
    "cka",
    "nocco",
    "sub-corr",
    "v-hsic",
    "u-hsic",
    "u-cka",
    "dcov",
    "dcor",
    "sub-hsic",
]
NullName: TypeAlias = Literal[
    "auto",
    "shifts",
    "chain",
    "permutation",
    "gamma",
    "spectral",
    "normal",
    "chi-square",
    "martingale",
]

# The order is that of the table in help and documentation.
ESTIMATORS: dict[str, type[Estimator]] = {
    cls.name: cls
    for cls in (
        *(NystromMHSIC, NystromHSIC, RFFHSIC, NFSIC, BlockHSIC, COCO, CKA, NOCCO, SubCorr),
        *(VHSIC, UHSIC, UCKA, DCov, DCor, SubHSIC),
    )
}
NULLS: dict[str, type[Null]] = {
    null.name: null
    for null in (Shifts, Chain, Permutation, Gamma, Spectral, Normal, ChiSquare, Martingale)
}
name_methods("estimator", ESTIMATORS)
name_methods("null", NULLS)
name_methods("order", {"time": TimeOrder})
_Shared = Resampling | Chain
Counted = _Shared | FromReplicates


Class = TypeVar("Class", bound=type[Any])
Value = TypeVar("Value")
Planner = Callable[[Estimator, Session, Combinations], Plan]
Way = tuple[str, int, Callable[[int], Plan], int]
"""A number that a plan follows, and that may be smaller: its name, that of the plan, the plan with
another one, and the fewest."""

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
    first, n = partial(_choose_that_fits, session, plan, runner or run_test), session.n

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
            return first(_sizes(chosen, kernels(), n), reason)
    if session.weights is not None:
        return first(_for_estimates(session, combinations), "rows have weights")
    # Two variables have features of their own, of which all pairs are compared; more have tuples.
    two = len(combinations.chosen[0]) == 2 and not combinations.features
    estimates = two and null is None and unbiased
    # The unbiased estimate divides by n - 3.
    enough = n >= _FEWEST_UNBIASED
    biased = VHSIC(two and null is not None and enough)
    exact: Estimator = UHSIC() if estimates and enough else biased
    pairs = combinations.features and not tuples
    tested = two and null is not None and takes_null(NystromHSIC(), null)
    quick: Estimator = NystromHSIC() if pairs or estimates or tested else NystromMHSIC()
    if name == CKA.name:
        exact, quick = UCKA(), CKA()

    def linear(why: str) -> Choice:
        """What takes time in proportion to the rows."""
        if name == CKA.name:
            return first(_sizes(quick, kernels(), n), why)
        if pairs:
            return first(_of_pairs(combinations, n), why)
        if estimates:
            return first(_for_estimates(session, combinations), why)
        if tested:
            return first(_principal(kernels(), n), why)
        return first(_sizes(quick, kernels(), n, _MOST_TUPLES), why)

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
    offered = [some for one in estimators for some in _sizes(one, kernels, session.n)]
    why = AS_ASKED if few == list(names) else f"more than {_PAIRS_AMONG:,} rows"
    return _choose_that_fits(session, planner, runner, offered, why)


def choose_pairs(
    session: Session, combinations: Combinations, planner: Planner, runner: Runner | None = None
) -> Choice:
    """Principal features of pairs that are each measured by itself, as of two variables.

    With as many landmarks as fit the memory and the time, 256 or fewer.
    """
    offered = _of_pairs(combinations, session.n)
    return _choose_that_fits(session, planner, runner, offered, AS_ASKED)


# --- what may be taken: lists of choices, the better first, in each the largest first


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
    return _sizes(features, [(combinations, "")], n)


def _sizes(
    estimator: Estimator, kernels: _Kernels, n: int, most: float = math.inf
) -> list[list[Choice]]:
    """The usual number of landmarks, features or the like, at most so many, and powers below."""
    option, usual = _size_of(estimator, n)
    if not usual:
        return [[Choice(estimator, kernels[0][0], _PAIRS)]]
    largest, last = int(min(usual, most)), kernels[-1][0]
    return [
        [
            Choice(sized, some, f"{which}{count:,} {_SIZES[option]}")
            for count in powers_below(largest, _FEWEST if some is last else _MANY_KERNELS)
            for sized in [estimator if count == usual else _with_size(estimator, option, count)]
        ]
        for some, which in kernels
    ]


def _choose_that_fits(
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


# --- tests and estimates with a null that is chosen


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


# --- estimators and nulls by name


_EXACT_RESAMPLES = 999  # a smallest p-value of 1/1,000
_LIMIT_OF_WEIGHTS = (
    "asymptotic: the limit law for independent draws with weights, by the second moments of the "
    "weighted products of features"
)
# Rows of equal weight that weights are worth (Kish), as a share of all rows. Independent data with
# weights of 24 kinds, exp of a normal number, inverse chances that fall with one or both variables,
# tails, a few heavy rows: rejections at 5 % of 300 data sets of 2,000 rows, by the median share
#     over .35     1 to 6.7 %
#     .13 to .35   1 to 8.5 %, but 13 and 10 % of 500 and 10,000 rows with exp(4 xy / 3)
#     .03 to .12   0 to 37 %: 37, 30 and 26 % of 500, 2,000 and 10,000 rows with exp(2 xy)
# A draw that missed the heaviest rows has a larger share than others of its kind, and is rejected
# more often. So the limit is one where few of a steep kind are answered: rejections of the worst
# kind, those refused among its data sets, are 13 % with .2, .25 and 12 % with .3, 5.7 % with .35.
_LEAST_OF_WEIGHTS = 0.35


def drawn_by(null: Null) -> Null:
    """The null that an estimator sees: the replicates, of a law that is made of them."""
    return null.replicates if isinstance(null, FromReplicates) else null


def nulls_of(estimator: type[Estimator]) -> tuple[type[Null], ...]:
    """Return the null distributions that an estimator supports, registered ones last."""
    # Those that were removed since stand with none.
    own = tuple(null for null in _named(estimator.nulls, NULLS) if null in NULLS.values())

    def stands(null: type[Any]) -> bool:
        # Its own: those of what it derives from are no fact of it.
        if (others := vars(null).get("estimators")) is None:
            return isinstance(drawn_by(null()), own)
        return estimator in _named(others, ESTIMATORS)

    added = (null for null in _ADDED.values() if null in NULLS.values() and null not in own)
    return (*own, *filter(stands, added))


def _named(listed: Any, known: Mapping[str, Any]) -> list[Any]:
    """Classes that are given by themselves or by their names; None for names that are not known."""
    one_by_one = [listed] if isinstance(listed, str | type) else listed
    return [known.get(one) if isinstance(one, str) else one for one in one_by_one]


def find_estimator(
    estimator: Any, session: Session, n_variables: int | None = None
) -> tuple[Estimator, str]:
    """The estimator of a name, or the value itself, and why this one.

    It is one of so many variables: two for the stages of a chain, all where not given.

    Raises
    ------
    InvalidArgumentError
        Unknown, or for fewer variables; the message names those that take more.
    """
    if isinstance(estimator, str):
        estimator = ESTIMATORS[check_choice("estimator", estimator, ("auto", *ESTIMATORS))]()
    if type(estimator) not in ESTIMATORS.values():
        if isinstance(estimator, type):
            # A class by mistake: the message says how to make a value of it.
            msg = f"estimator must be a value, got the class: write {estimator.__name__}()"
            raise InvalidArgumentError(msg)
        classes = ", ".join(cls.__name__ for cls in ESTIMATORS.values())
        msg = (
            f"estimator must be a name or one of {classes}, got {shown(estimator)}: dhsic.register "
            "adds a class"
        )
        raise InvalidArgumentError(msg)
    # Checked here once for all functions.
    m = n_variables or len(session.sources)
    if not takes_variables(estimator, m):
        more = " or ".join(name for name, cls in ESTIMATORS.items() if takes_variables(cls, m))
        msg = (
            f"estimator {estimator.name!r} takes at most {estimator.most_variables} variables, got "
            f"{m}: take {more}"
        )
        raise InvalidArgumentError(msg)
    weighs = isinstance(estimator, NystromHSIC) and not estimator.unbiased_estimate
    if session.weights is not None and not weighs:
        msg = (
            "weights need estimator 'auto', 'nystrom-hsic' or a NystromHSIC without an unbiased "
            f"estimate, got {shown(estimator)}: take one of them"
        )
        raise InvalidArgumentError(msg)
    if session.gaps and not estimator.takes_missing:
        msg = (
            "missing='pairwise' needs estimator 'auto', 'v-hsic', 'u-hsic', 'nystrom-m' or "
            f"'nystrom-hsic', got {estimator.name!r}: take one of them, or missing='drop'"
        )
        raise InvalidArgumentError(msg)
    return estimator, AS_ASKED


def takes_variables(estimator: Estimator | type[Estimator], count: int) -> bool:
    """Whether an estimator takes so many variables."""
    return (estimator.most_variables or count) >= count


def takes_null(estimator: Estimator, null: str | Null | None) -> bool:
    """Whether an estimator supports a null; "auto" is supported, and None for estimates."""
    nulls = nulls_of(type(estimator))
    # By name before classes: nulls of plugins have no class that is known here.
    if null is None or isinstance(null, str):
        return null in (None, "auto", *(cls.name for cls in nulls))
    return _stands(null, nulls)


def draws_replicates(null: str | Null) -> bool:
    """Whether a null distribution is made of replicates, as far as is known before it is chosen."""
    if isinstance(null, str):
        return null == "auto" or null in _sharing()
    return isinstance(null, _Shared)


def find_null(
    null: str | Null,
    estimator: Estimator,
    session: Session,
    n_resamples: int | None,
    combinations: Combinations,
) -> tuple[Null, str]:
    """The null distribution for an estimator, and why this one.

    Parameters
    ----------
    null : str or Null
        As given.
    estimator : Estimator
        The statistic.
    session : Session
        The run.
    n_resamples : int or None
        As given.
    combinations : Combinations
        Combinations of kernels, that share the replicates.

    Raises
    ------
    InvalidArgumentError
        Unknown, or not supported for the estimator; the message lists what is. Or a number of
        replicates for a null that has none, or its own. Or several kernels, for an estimator or a
        null that takes one.
    """
    if session.weights is not None:
        return _find_weighted(session.weights.rows, session.n, null, n_resamples, combinations)
    supported, reason = nulls_of(type(estimator)), AS_ASKED
    if not isinstance(null, str) and _stands(null, supported):
        if n_resamples is not None:
            msg = (
                f"n_resamples must be left out where null is a value, got {n_resamples} beside "
                f"{null!r}: set it in the value"
            )
            raise InvalidArgumentError(msg)
        chosen = null
    else:
        if n_resamples is not None:
            check_integer("n_resamples", n_resamples, minimum=1)
        names = [cls.name for cls in supported]
        if isinstance(null, str) and null == "auto":
            # As for freely exchangeable rows; what restricts them comes after.
            chosen, reason = estimator.choose_null(session, _EXACT_RESAMPLES)
            if session.moves is not None and session.moves.serial:  # whose rows no one permutes
                chosen = Shifts()
        elif isinstance(null, str) and null in names:
            # Made without options: with some, a value is to be given.
            chosen = NULLS[null]()
        else:
            raise _unavailable(null, estimator, names)
        if n_resamples is not None:
            if not isinstance(chosen, Counted):
                counted = " or ".join(
                    repr(cls.name) for cls in supported if issubclass(cls, Counted)
                )
                msg = (
                    f"n_resamples must be left out with null {chosen.name!r}, which draws no "
                    f"replicates, got {n_resamples}: leave it out"
                    f"{f', or take null {counted}' if counted else ''}"
                )
                raise InvalidArgumentError(msg)
            chosen = replace(chosen, n_resamples=n_resamples)
    # Rows that may not be exchanged freely restrict the null, and the result says so.
    if session.moves is not None:
        _check_moves(chosen, estimator, len(combinations.chosen[0]), session.moves)
        told = session.moves.assumption
        reason = told if reason != AS_ASKED else f"{reason}; {told}"
    if not combinations.plain and not (estimator.takes_grids() and isinstance(chosen, _Shared)):
        grids = ", ".join(name for name, cls in ESTIMATORS.items() if cls.takes_grids())
        msg = (
            f"several kernels for a variable need estimator {grids} and null "
            f"{' or '.join(map(repr, sorted(_sharing())))}, got {estimator.name!r} and "
            f"{chosen.name!r}: take one of them, or one kernel for each variable"
        )
        raise InvalidArgumentError(msg)
    return chosen, reason


def _find_weighted(
    rows: float, n: int, null: str | Null, n_resamples: int | None, combinations: Combinations
) -> tuple[Null, str]:
    """The limit law of n weighted rows; refuses weights that few rows have, of which none holds."""
    if rows < _LEAST_OF_WEIGHTS * n:
        msg = (
            f"a p-value needs weights worth {_LEAST_OF_WEIGHTS * n:,.0f} rows of equal weight or "
            f"more, {_LEAST_OF_WEIGHTS:.0%} of all; these are worth {rows:,.3g}, (sum w)^2 / sum "
            "w^2: rows like the heaviest are likely to be missing. Test the part of the population "
            "whose rows are likely to be drawn, or take hsic, an estimate without a p-value"
        )
        raise DataError(msg)
    if not combinations.plain:
        msg = (
            f"weights take one kernel for each variable, got {len(combinations)} combinations: "
            "name one, as kernels='gaussian'"
        )
        raise InvalidArgumentError(msg)
    law = Spectral() if isinstance(null, str) and null in ("auto", Spectral.name) else null
    if not isinstance(law, Spectral):
        msg = (
            f"null {shown(null)} would pair weights with the values of other rows: take 'auto', "
            "which is the limit law 'spectral'"
        )
        raise InvalidArgumentError(msg)
    if n_resamples is not None:
        msg = f"n_resamples must be left out with weights, whose law has none, got {n_resamples}"
        raise InvalidArgumentError(msg)
    return law, _LIMIT_OF_WEIGHTS if null == "auto" else f"{AS_ASKED}; {_LIMIT_OF_WEIGHTS}"


def _check_moves(null: Null, estimator: Estimator, n_variables: int, moves: Moves) -> None:
    """Refuse replicates that would not keep to the strata, groups or series of the rows."""
    if not estimator.moves_sets():
        names = ", ".join(name for name, cls in ESTIMATORS.items() if cls.moves_sets())
        msg = (
            f"estimator {estimator.name!r} does not support strata, groups or the order of rows: "
            f"take 'auto' or one of {names}"
        )
        raise InvalidArgumentError(msg)
    # A law that is made of replicates moves rows as these do.
    drawn = drawn_by(null)
    many = n_variables > 2
    allowed: tuple[type[Null], ...] = (Shifts, Chain, Permutation)
    if moves.serial:
        # A series is shifted as a whole, by the same steps in all variables.
        allowed = (Chain,) if many else (Shifts, Chain)
    if not isinstance(drawn, allowed):
        names = " or ".join(
            repr(allowed_null.name)
            for allowed_null in allowed
            if allowed_null in nulls_of(type(estimator))
        )
        kept = "a series in time" if moves.serial else "strata or groups"
        msg = (
            f"null {drawn.name!r} does not support {kept} for {n_variables} variables: "
            f"take 'auto', {names or 'or another estimator'}"
        )
        raise InvalidArgumentError(msg)


def _unavailable(null: object, estimator: Estimator, names: Sequence[str]) -> InvalidArgumentError:
    """The error of a null that an estimator does not have."""
    if isinstance(null, type) and null in NULLS.values():
        msg = f"null must be a value, got the class: write {null.__name__}()"
        return InvalidArgumentError(msg)
    name = null if isinstance(null, str) else getattr(null, "name", None)
    if name is None and isinstance(null, FromReplicates):
        name = type(null).__name__
    if name is None:
        msg = f"null must be a name, or a value as of dhsic.Permutation, got {shown(null)}"
        return InvalidArgumentError(msg)
    *most, last = ["auto", *names]
    others = [
        other
        for other, cls in ESTIMATORS.items()
        if any(standing.name == name for standing in nulls_of(cls))
    ]
    having = f"; it is for {', '.join(others)}" if others else nearest(str(name), names)
    return InvalidArgumentError(
        f"null {name!r} is not available for {estimator.name}; choose {', '.join(most)} or {last}"
        f"{having}"
    )


def _stands(null: Null, supported: tuple[type[Null], ...]) -> bool:
    """Whether a value stands with an estimator; of a class without a name, what it is made of."""
    if type(null) in NULLS.values():
        # By its own class, whatever it may share replicates with.
        return type(null) in supported
    return isinstance(drawn_by(null), supported)


def _sharing() -> set[str]:
    """Names of nulls whose replicates several kernels share."""
    return {name for name, null in NULLS.items() if issubclass(null, _Shared)}


# --- sizes that fit the memory and the time


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
    ways, (option, count) = list[Way](), _size_of(estimator, session.n)
    if count:
        ways.append(
            (
                _SIZES[option],
                count,
                lambda k: planner(_with_size(estimator, option, k), session, combinations),
                _FEWEST_OF.get(option, 1),
            )
        )
    if (some := len(combinations)) > 1:
        what = "features" if combinations.features else "combinations of kernels"
        what = "pairs" if combinations.features and len(session.sources) > 2 else what
        part = combinations.part
        ways.append((what, some, lambda k: planner(estimator, session, part(range(k))), 1))
    if not count:
        first = partial(_of_first, session)
        ways.append(
            ("rows", session.n, lambda k: planner(estimator, first(k), combinations), _FEWEST_ROWS)
        )
    return telling(planner(estimator, session, combinations), ways)


def _size_of(estimator: Estimator, n: int) -> tuple[str, int]:
    """The option of an estimator that its memory follows, and what it is of n rows; or "" and 0."""
    options = getattr(estimator, "__dataclass_fields__", ())
    option = next((option for option in _SIZES if option in options), "")
    if not option:
        return option, 0
    count: Any = getattr(estimator, option)
    if count is None:
        return option, int(estimator.blocks(n)[1])  # type: ignore[attr-defined]  # as BlockHSIC has
    count = _USUAL[option] if count == "auto" else count
    return option, landmark_count(count, n, replace=True)


def _with_size(estimator: Any, option: str, count: int) -> Estimator:
    """With another number of landmarks, locations, features or rows of a block."""
    smaller: Estimator = replace(estimator, **{option: count})
    return smaller


def _largest_text(ways: Sequence[Way]) -> str:
    """The largest numbers that fit where one more does not."""
    listed = []
    for what, most, plan, fewest in ways:
        low, high = fewest - 1, fewest
        # Doubling finds a number that does not fit, and bisection the largest that does: plans take
        # time.
        while high < most and plan(high).fits:
            low, high = high, 2 * high
        between = range(low + 1, min(high, most))
        largest = low + bisect_left(between, True, key=lambda k: not plan(k).fits)
        if largest >= fewest:
            listed.append(f"{largest:,} {what}")
    return f"; at most {' or '.join(listed)} would fit" if listed else ""


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


# --- registered classes


_NULL_CLASSES: tuple[type[Any], ...] = get_args(Null)
# An estimator says what it prepares, or does all by itself.
_PREPARES, _BY_ITSELF = ("guess", "prepare"), ("plan", "estimate", "test")
# A plus after a digit and an e is read as that of an exponent, in the text of a kernel.
_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*(?<!\de)")
_RESERVED = ("auto", "columns", "none")

_ADDED: dict[str, type[Any]] = {}


@named_arguments
def register(extension: Class) -> Class:
    """Register a class under its name: a kernel, a null distribution or an estimator.

    The name is the attribute `name` of the class. It works in `independence_test`, `plan`, `hsic`
    and other functions, on the command line and in the texts of kernels, and error messages list
    it. Registration lasts until the end of the process, or until `unregister`. An installed package
    can register classes in every process if an entry point of the group ``dhsic.plugins`` names a
    module that does so. Worker processes need no registration, but must be able to import the
    class.

    Parameters
    ----------
    extension : type
        A frozen dataclass whose fields have defaults, derived from one of these classes. `Kernel`:
        the fields are the parameters in the text of the kernel, in their order, as in
        "gaussian:0.5". `FromReplicates` or another null: all estimators that support the base
        class, or the null `replicates`, support the new null; an attribute `estimators` limits it
        to the named estimators, and derived classes do not inherit this attribute.
        `dhsic.estimators.Functions` or, for other statistics, `dhsic.estimators.Estimator`:
        attributes are the supported `nulls`, by name or class, the largest number of variables,
        `most_variables`, and the growth of time with the rows, `cost`.

    Returns
    -------
    type
        The unchanged class.

    Raises
    ------
    InvalidArgumentError
        The name is taken or not valid, or the class lacks a method.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import dhsic
    >>> from dhsic.kernels import Kernel, parse
    >>> @dhsic.register
    ... @dataclass(frozen=True)
    ... class Cosine(Kernel):
    ...     period: float = 1.0
    ...     name = "cosine"
    ...     def tile(self, rows, columns, out, work):
    ...         turns = (rows[:, :1] - columns[:, 0]) / self.period
    ...         np.cos(2 * np.pi * turns, out=out)
    >>> parse("cosine:24")(np.array([[0.0], [12.0]]))
    array([[ 1., -1.],
           [-1.,  1.]])
    >>> dhsic.unregister("cosine")
    """
    kind, add = _kind_of_class(extension)
    name = _checked_name(extension, kind)
    add(extension)
    _ADDED[name] = extension
    return extension


def unregister(extension: str | type[Any]) -> None:
    """Remove a class that `register` registered.

    Parameters
    ----------
    extension : str or type
        The class, or its name.

    Raises
    ------
    InvalidArgumentError
        The class is not registered. Names of dhsic cannot be removed.

    Examples
    --------
    >>> import dhsic
    >>> dhsic.unregister("gaussian")
    Traceback (most recent call last):
    ...
    dhsic.errors.InvalidArgumentError: only registered names can be removed, got 'gaussian'; ...
    """
    name = extension if isinstance(extension, str) else getattr(extension, "name", None)
    added = _ADDED.get(name) if isinstance(name, str) else None
    # A name may have been given to another class in the meantime, which must stay.
    if added is None or (not isinstance(extension, str) and added is not extension):
        listed = ", ".join(_ADDED) or "none"
        got = shown(getattr(extension, "__name__", extension))
        msg = f"only registered names can be removed, got {got}; registered are: {listed}"
        raise InvalidArgumentError(msg)
    for known in (_ADDED, FORMS, ESTIMATORS, NULLS):
        known.pop(str(name), None)


def is_added(cls: type[Any]) -> bool:
    """Whether a class was registered, and is not of dhsic itself."""
    return cls in _ADDED.values()


def _kind_of_class(cls: Any) -> tuple[str, Callable[[Any], None]]:
    """Kind of a class, and how it is added."""
    if not isinstance(cls, type):
        msg = f"register needs a class, got {cls!r}: pass the class of the value"
        raise InvalidArgumentError(msg)
    if issubclass(cls, Kernel):
        return "a kernel", _add_kernel
    if issubclass(cls, _NULL_CLASSES):
        return "a null distribution", _add_null
    if issubclass(cls, Estimator):
        return "an estimator", _add_estimator
    msg = (
        f"register takes kernels, null distributions and estimators, got {cls.__name__}, which "
        "derives from no base of these: derive from dhsic.estimators.Functions, "
        "dhsic.estimators.Estimator, dhsic.kernels.Kernel or dhsic.FromReplicates"
    )
    raise InvalidArgumentError(msg)


def _checked_name(cls: type[Any], kind: str) -> str:
    """The name of a class; one that lacks what all kinds need is refused."""
    lacking = sorted(getattr(cls, "__abstractmethods__", ()))
    if issubclass(cls, Estimator) and cls.lacks(*_BY_ITSELF):
        lacking += cls.lacks(*_PREPARES)
    if lacking:
        msg = (
            f"{kind} must have all methods of its base, got {cls.__name__} without "
            f"{', '.join(lacking)}: add them, or derive from a class that has them"
        )
        raise InvalidArgumentError(msg)
    parameters = vars(cls).get("__dataclass_params__")
    if parameters is None or not parameters.frozen:
        msg = (
            f"{kind} must be a frozen dataclass, got {cls.__name__}, which is not: write "
            "@dataclass(frozen=True) above it"
        )
        raise InvalidArgumentError(msg)
    name = vars(cls).get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _RESERVED:
        msg = (
            "a name must be small letters and digits, in parts that begin with one of them and are "
            f"joined by - or _, and none of {', '.join(_RESERVED)}; got {name!r} as the attribute "
            f"name of {cls.__name__}: write name = 'my-name' in the class, for instance"
        )
        raise InvalidArgumentError(msg)
    if name in {*FORMS, *ESTIMATORS, *NULLS}:
        remedy = f"dhsic.unregister({name!r}) frees it" if name in _ADDED else "take another"
        msg = f"a name must be free, got {name!r} for {cls.__name__}, which is taken: {remedy}"
        raise InvalidArgumentError(msg)
    try:
        # Where a name stands for a value, the value is made without arguments.
        cls()
    except TypeError as error:
        msg = f"{kind} must be made without arguments, got {error}: give every field a default"
        raise InvalidArgumentError(msg) from error
    return name


def _add_kernel(cls: type[Kernel]) -> None:
    FORMS[cls.name] = cls, cls.parameters()
    text = ""
    try:
        text = cls().spec()
        # Results and command lines hold kernels as text, which has to give the same kernel again.
        same = parse(text) == cls()
    except InvalidArgumentError:
        same = False
    if not same:
        # A kernel that is refused leaves no name behind.
        del FORMS[cls.name]
        msg = (
            f"a kernel must be read from the text that its spec() writes, got {text!r} from "
            f"{cls.__name__}: leave spec out, or write the name and the fields with colons"
        )
        raise InvalidArgumentError(msg)


def _add_null(cls: type[Null]) -> None:
    if (estimators := vars(cls).get("estimators")) is not None:
        _check_named("estimators", estimators, ESTIMATORS)
    NULLS[cls.name] = cls


def _add_estimator(cls: type[Estimator]) -> None:
    _check_named("nulls", cls.nulls, NULLS)
    if cls.most_variables is not None:
        check_integer("most_variables", cls.most_variables, minimum=2)
    if Chain in _named(cls.nulls, NULLS) and not cls.prepares():
        msg = (
            f"an estimator with null 'chain' must have the methods {' and '.join(_PREPARES)}, got "
            f"{cls.__name__}: add them, or drop 'chain'"
        )
        raise InvalidArgumentError(msg)
    ESTIMATORS[cls.name] = cls


def _check_named(attribute: str, listed: Any, known: Mapping[str, Any]) -> None:
    """Refuse an attribute of a class that does not name known ones."""
    given = [listed] if isinstance(listed, str | type) else list(listed)
    for one, cls in zip(given, _named(listed, known), strict=True):
        if cls not in known.values():
            shown = one.__name__ if isinstance(one, type) else one
            msg = (
                f"{attribute} must be among {', '.join(known)}, or their classes, got {shown!r}"
                f"{nearest(str(shown), known)}"
            )
            raise InvalidArgumentError(msg)
    if not given:
        msg = f"{attribute} must name one or more of {', '.join(known)}; got none"
        raise InvalidArgumentError(msg)
