"""Estimators and nulls by name, the nulls of each estimator, and registered classes.

Names are also types: an editor completes them, and a type checker knows them. Names that
`dhsic.register` adds are known only at run time. For a type checker pass the class or a value of it
in place of the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from dhsic._validation import (
    check_choice,
    check_integer,
    name_methods,
    nearest,
    shown,
)
from dhsic.engine.reduction import Moves
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators.base import Estimator, Null
from dhsic.estimators.exact import UCKA, UHSIC, VHSIC, BlockHSIC, DCor, DCov, SubHSIC
from dhsic.estimators.features import CKA, COCO, NOCCO, RFFHSIC, NystromHSIC, SubCorr
from dhsic.estimators.nfsic import NFSIC
from dhsic.estimators.nystrom_m import NystromMHSIC
from dhsic.kernels import Combinations, Kernel
from dhsic.kernels.text import FORMS, parse
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
from dhsic.statistics.orbit import exact_null

Class = TypeVar("Class", bound=type[Any])

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

_NULL_CLASSES: tuple[type[Any], ...] = get_args(Null)
# An estimator says what it prepares, or does all by itself.
_PREPARES, _BY_ITSELF = ("guess", "prepare"), ("plan", "estimate", "test")
# A plus after a digit and an e is read as that of an exponent, in the text of a kernel.
_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*(?<!\de)")
_RESERVED = ("auto", "columns", "none")

_ADDED: dict[str, type[Any]] = {}


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

    added = (null for null in NULLS.values() if null not in own and is_added(null))
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


def _check_grid(estimator: Estimator, null: Null) -> None:
    if not estimator.takes_grids() or not isinstance(null, _Shared):
        names = ", ".join(name for name, cls in ESTIMATORS.items() if cls.takes_grids())
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
    supported = nulls_of(type(estimator))
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
    reason, names = AS_ASKED, [cls.name for cls in supported]
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
            chosen = replace(chosen, n_resamples=usual)
    elif isinstance(null, str) and null in names:
        # Made without options: with some, a value is to be given.
        chosen = NULLS[null]()
    else:
        raise _unavailable(null, estimator, names)
    if n_resamples is None:
        return chosen, reason
    if not isinstance(chosen, Counted):
        counted = " or ".join(repr(cls.name) for cls in supported if issubclass(cls, Counted))
        msg = (
            f"n_resamples must be left out with null {chosen.name!r}, which draws no replicates, "
            f"got {n_resamples}: leave it out{f', or take null {counted}' if counted else ''}"
        )
        raise InvalidArgumentError(msg)
    return replace(chosen, n_resamples=n_resamples), reason


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


def register(extension: Class | None = None, /, **told: Any) -> Class:
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
    **told
        Not supported: set attributes of the class.

    Returns
    -------
    type
        The unchanged class.

    Raises
    ------
    InvalidArgumentError
        The name is taken or not valid, the class lacks a method, or an argument is given.

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
    if told or extension is None:
        got = f"{', '.join(told) or 'nothing'} for {getattr(extension, '__name__', 'no class')}"
        msg = (
            f"register takes the class alone, got {got}: make it an attribute of the class, as "
            f"{next(iter(told), 'nulls')} = ..., and write @dhsic.register above it"
        )
        raise InvalidArgumentError(msg)
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
