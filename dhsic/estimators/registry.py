"""Estimators by name, what they cost, and which null distribution stands with which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dhsic._plugins import load_plugins
from dhsic._spec import name_methods
from dhsic._validation import check_choice, check_integer, nearest, shown
from dhsic.engine.reduction import Moves
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators.base import Estimator, Null
from dhsic.estimators.block import BlockHSIC
from dhsic.estimators.coco import COCO
from dhsic.estimators.distance import DCor, DCov
from dhsic.estimators.exact import UHSIC, VHSIC, SubHSIC
from dhsic.estimators.features import RFFHSIC, SubCorr
from dhsic.estimators.nfsic import NFSIC
from dhsic.estimators.nystrom import CKA, NOCCO, NystromHSIC
from dhsic.estimators.nystrom_m import NystromMHSIC
from dhsic.kernels import Combinations
from dhsic.nulls import (
    Chain,
    ChiSquare,
    FromReplicates,
    Gamma,
    Normal,
    Permutation,
    Resampling,
    Shifts,
    Spectral,
    TimeOrder,
)
from dhsic.results import AS_ASKED
from dhsic.statistics.orbit import exact_null

# As many as in the experiments of Kalinke and Szabo (2023), section 5.
_RESAMPLES = 250
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


@dataclass(frozen=True)
class EstimatorEntry:
    """An estimator and what it can do.

    Parameters
    ----------
    estimator : type of Estimator
        Its class.
    nulls : tuple of type
        The null distributions that stand with it.
    most_variables : int or None
        The largest number of variables that it takes; None for any.
    cost : str
        How its time grows with the rows n.
    grids : bool
        Whether it can try several kernels in one run.
    tries_grids : bool
        Whether it does so where none are given.
    moves_sets : bool
        Whether its replicates keep to the strata, groups or series of a session.
    """

    estimator: type[Estimator]
    nulls: tuple[type[Null], ...]
    most_variables: int | None
    cost: str
    grids: bool = False
    tries_grids: bool = False
    moves_sets: bool = False


def _entry(estimator: type[Estimator], **flags: bool) -> EstimatorEntry:
    """What a class says of itself, and what tests may ask of it."""
    return EstimatorEntry(
        estimator, estimator.nulls, estimator.most_variables, estimator.cost, **flags
    )


# The order is that of the table in help and documentation.
TABLE = [
    _entry(NystromMHSIC, grids=True, tries_grids=True, moves_sets=True),
    _entry(NystromHSIC, grids=True, moves_sets=True),
    _entry(RFFHSIC, grids=True, moves_sets=True),
    _entry(NFSIC),
    _entry(BlockHSIC),
    _entry(COCO, moves_sets=True),
    _entry(CKA, moves_sets=True),
    _entry(NOCCO, moves_sets=True),
    _entry(SubCorr, moves_sets=True),
    _entry(VHSIC, grids=True, tries_grids=True, moves_sets=True),
    _entry(UHSIC, grids=True, tries_grids=True, moves_sets=True),
    _entry(DCov, moves_sets=True),
    _entry(DCor, moves_sets=True),
    _entry(SubHSIC, moves_sets=True),
]

ESTIMATORS: dict[str, type[Estimator]] = {e.estimator.name: e.estimator for e in TABLE}
NULLS: dict[str, type[Null]] = {
    null.name: null for null in (Shifts, Chain, Permutation, Gamma, Spectral, Normal, ChiSquare)
}
name_methods("estimator", ESTIMATORS)
name_methods("null", NULLS)
name_methods("order", {"time": TimeOrder})
_Shared = Resampling | Chain
Counted = _Shared | FromReplicates


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
    # A name that is not known may be one of a plugin: these are loaded only now.
    if isinstance(estimator, str) and estimator not in ESTIMATORS:
        load_plugins()
    if isinstance(estimator, str):
        estimator = ESTIMATORS[check_choice("estimator", estimator, ("auto", *ESTIMATORS))]()
    if not _is_registered(estimator):
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
    most = _entry_of_estimator(estimator).most_variables
    if most is not None and m > most:
        more = " or ".join(e.estimator.name for e in TABLE if (e.most_variables or m) >= m)
        msg = f"estimator {estimator.name!r} takes at most {most} variables, got {m}: take {more}"
        raise InvalidArgumentError(msg)
    if session.weights is not None and not _weighs(estimator):
        msg = (
            "weights need estimator 'auto', 'nystrom-hsic' or a NystromHSIC without an unbiased "
            f"estimate, got {shown(estimator)}: take one of them"
        )
        raise InvalidArgumentError(msg)
    return estimator, AS_ASKED


def _weighs(estimator: Estimator) -> bool:
    return isinstance(estimator, NystromHSIC) and not estimator.unbiased_estimate


def _is_registered(estimator: object) -> bool:
    return type(estimator) in ESTIMATORS.values()


def takes_variables(estimator: Estimator, count: int) -> bool:
    """Whether an estimator takes so many variables."""
    return (_entry_of_estimator(estimator).most_variables or count) >= count


def tries_grids(estimator: Estimator) -> bool:
    """Whether a test tries several kernels where none are given."""
    return _entry_of_estimator(estimator).tries_grids


def takes_null(estimator: Estimator, null: str | Null | None) -> bool:
    """Whether a null stands with an estimator; "auto" does, and none for estimates."""
    nulls = _entry_of_estimator(estimator).nulls
    # By name before classes: nulls of plugins have no class that is known here.
    if null is None or isinstance(null, str):
        return null in (None, "auto", *(cls.name for cls in nulls))
    return _stands(null, nulls)


def draws_replicates(null: str | Null) -> bool:
    """Whether a null distribution is made of replicates, as far as is known before it is chosen."""
    if isinstance(null, str):
        if null not in ("auto", *NULLS):
            load_plugins()
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
        _check_weights(session.weights.rows, session.n)
        return _find_weighted(null, n_resamples, combinations)
    # As chosen for freely exchangeable rows; what restricts them comes after.
    chosen, reason = _find_null(null, estimator, session, n_resamples, len(combinations))
    # Rows that may not be exchanged freely restrict the null, and the result says so.
    if session.moves is not None:
        _check_moves(chosen, estimator, len(combinations.chosen[0]), session.moves)
        told = session.moves.assumption
        reason = told if reason != AS_ASKED else f"{reason}; {told}"
    if not combinations.plain:
        _check_grid(estimator, chosen)
    return chosen, reason


def _check_weights(rows: float, n: int) -> None:
    """Refuse weights that few rows have, of which no null distribution holds."""
    if rows < _LEAST_OF_WEIGHTS * n:
        msg = (
            f"a p-value needs weights worth {_LEAST_OF_WEIGHTS * n:,.0f} rows of equal weight or "
            f"more, {_LEAST_OF_WEIGHTS:.0%} of all; these are worth {rows:,.3g}, (sum w)^2 / sum "
            "w^2: rows like the heaviest are likely to be missing. Test the part of the population "
            "whose rows are likely to be drawn, or take hsic, an estimate without a p-value"
        )
        raise DataError(msg)


def _find_weighted(
    null: str | Null, n_resamples: int | None, combinations: Combinations
) -> tuple[Null, str]:
    """The limit law of weighted rows."""
    if not combinations.plain:
        msg = (
            f"weights take one kernel for each variable, got {len(combinations)} combinations: "
            "name one, as kernels='gaussian'"
        )
        raise InvalidArgumentError(msg)
    law = Spectral() if isinstance(null, str) and null in ("auto", Spectral.name) else null
    if not isinstance(law, Spectral):
        msg = (
            f"null {shown(null)} would give weights to rows of other values: take 'auto', which is "
            "the limit law 'spectral'"
        )
        raise InvalidArgumentError(msg)
    if n_resamples is not None:
        msg = f"n_resamples must be left out with weights, whose law has none, got {n_resamples}"
        raise InvalidArgumentError(msg)
    return law, _LIMIT_OF_WEIGHTS if null == "auto" else f"{AS_ASKED}; {_LIMIT_OF_WEIGHTS}"


def _check_moves(null: Null, estimator: Estimator, n_variables: int, moves: Moves) -> None:
    """Refuse replicates that would not keep to the strata, groups or series of the rows."""
    if not _entry_of_estimator(estimator).moves_sets:
        names = ", ".join(entry.estimator.name for entry in TABLE if entry.moves_sets)
        msg = (
            f"estimator {estimator.name!r} cannot keep to strata, groups or the order of rows: "
            f"take 'auto' or one of {names}"
        )
        raise InvalidArgumentError(msg)
    # A law that is made of replicates moves rows as these do.
    drawn = null.replicates if isinstance(null, FromReplicates) else null
    many = n_variables > 2
    allowed: tuple[type[Null], ...] = (Shifts, Chain, Permutation)
    if moves.serial:
        # A series is shifted as a whole, by the same steps in all variables.
        allowed = (Chain,) if many else (Shifts, Chain)
    if not isinstance(drawn, allowed):
        names = " or ".join(
            repr(allowed_null.name)
            for allowed_null in allowed
            if allowed_null in _entry_of_estimator(estimator).nulls
        )
        kept = "a series in time" if moves.serial else "strata or groups"
        msg = (
            f"null {drawn.name!r} cannot keep to {kept} of {n_variables} variables: "
            f"take 'auto', {names or 'or another estimator'}"
        )
        raise InvalidArgumentError(msg)


def _check_grid(estimator: Estimator, null: Null) -> None:
    if not _entry_of_estimator(estimator).grids or not isinstance(null, _Shared):
        names = ", ".join(entry.estimator.name for entry in TABLE if entry.grids)
        msg = (
            f"several kernels for a variable need estimator {names} and null "
            f"{' or '.join(map(repr, sorted(_sharing())))}, got {estimator.name!r} and "
            f"{null.name!r}: take one of them, or one kernel for each variable"
        )
        raise InvalidArgumentError(msg)


def _find_null(
    null: str | Null,
    estimator: Estimator,
    session: Session,
    n_resamples: int | None,
    n_combinations: int,
) -> tuple[Null, str]:
    supported = _entry_of_estimator(estimator).nulls
    if isinstance(null, str) and null not in ("auto", *NULLS):
        load_plugins()
        supported = _entry_of_estimator(estimator).nulls
    if not isinstance(null, str) and _stands(null, supported):
        if n_resamples is not None:
            msg = (
                f"n_resamples must be left out where null is a value, got {n_resamples} beside "
                f"{null!r}: set it in the value"
            )
            raise InvalidArgumentError(msg)
        return null, AS_ASKED
    if n_resamples is not None:
        check_integer("n_resamples", n_resamples, minimum=1)
    if isinstance(null, str) and null == "auto":
        # Several combinations take the replicates of a run for each, which decides which null is
        # quick.
        count = n_resamples or _RESAMPLES
        chosen, reason = estimator.choose_null(session, count * n_combinations)
        if session.moves is not None and session.moves.serial:  # whose rows no one permutes
            chosen, reason = exact_null(2, count)
        if isinstance(chosen, Resampling):
            permutes = isinstance(chosen, Permutation)
            usual = _EXACT_RESAMPLES if permutes else type(chosen)().n_resamples
            chosen = replace(chosen, n_resamples=n_resamples or usual)
        _check_resampling(chosen, n_resamples, supported)
        return chosen, reason
    names = [cls.name for cls in supported]
    if not isinstance(null, str) or null not in names:
        raise _unavailable(null, estimator, names)
    # Both kinds are made without options: with some, a value is to be given.
    cls = NULLS[null]
    if issubclass(cls, Counted):
        return _counted(cls, n_resamples), AS_ASKED
    _check_resampling(cls(), n_resamples, supported)
    return cls(), AS_ASKED


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
    others = [entry.estimator.name for entry in TABLE if name in {cls.name for cls in entry.nulls}]
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
    return isinstance(null.replicates if isinstance(null, FromReplicates) else null, supported)


def _counted(cls: type[Counted], n_resamples: int | None) -> Counted:
    """With the number of replicates that was asked for, or its own."""
    return cls() if n_resamples is None else cls(n_resamples=n_resamples)


def _sharing() -> set[str]:
    """Names of nulls whose replicates several kernels share."""
    return {name for name, null in NULLS.items() if issubclass(null, _Shared)}


def _check_resampling(
    null: Null, n_resamples: int | None, supported: tuple[type[Null], ...]
) -> None:
    if n_resamples is not None and not isinstance(null, Counted):
        counted = " or ".join(repr(cls.name) for cls in supported if issubclass(cls, Counted))
        msg = (
            f"n_resamples must be left out with null {null.name!r}, which draws no replicates, got "
            f"{n_resamples}: leave it out{f', or take null {counted}' if counted else ''}"
        )
        raise InvalidArgumentError(msg)


def _entry_of_estimator(estimator: Estimator) -> EstimatorEntry:
    return next(entry for entry in TABLE if entry.estimator is type(estimator))
