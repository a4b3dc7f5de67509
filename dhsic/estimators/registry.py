"""Estimators by name, and which null distribution stands with which."""

from __future__ import annotations

from dhsic._validation import check_choice, check_integer, nearest
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import Estimator, Null
from dhsic.estimators.exact import VHSIC
from dhsic.estimators.nystrom_m import NystromMHSIC
from dhsic.nulls import Multiplier, Permutation

__all__ = ["ESTIMATORS", "NULLS", "find_estimator", "find_null"]

ESTIMATORS: dict[str, type[Estimator]] = {cls.name: cls for cls in (NystromMHSIC, VHSIC)}
NULLS: dict[str, type[Null]] = {cls.name: cls for cls in (Multiplier, Permutation)}


def find_estimator(estimator: str | Estimator) -> Estimator:
    """The estimator of a name, or the value itself."""
    if isinstance(estimator, str):
        return ESTIMATORS[check_choice("estimator", estimator, tuple(ESTIMATORS))]()
    if isinstance(estimator, tuple(ESTIMATORS.values())):
        return estimator
    classes = ", ".join(cls.__name__ for cls in ESTIMATORS.values())
    msg = f"estimator must be a name or one of {classes}, got {estimator!r}"
    raise InvalidArgumentError(msg)


def find_null(
    null: str | Null, estimator: Estimator, session: Session, n_resamples: int | None
) -> tuple[Null, str]:
    """The null distribution for an estimator, and why this one.

    Raises
    ------
    InvalidArgumentError
        Unknown, or not supported for the estimator; the message lists what is.
    """
    supported = [cls.name for cls in estimator.nulls]
    if isinstance(null, estimator.nulls):
        if n_resamples is not None:
            msg = f"n_resamples must be left out where null is a value, got both {null!r} and it"
            raise InvalidArgumentError(msg)
        return null, "as asked"
    count = 250 if n_resamples is None else check_integer("n_resamples", n_resamples, minimum=1)
    if isinstance(null, str) and null == "auto":
        return estimator.choose_null(session, count)
    if not isinstance(null, str) or null not in supported:
        pairs = "; ".join(
            f"{cls.name}: {', '.join(n.name for n in cls.nulls)}" for cls in ESTIMATORS.values()
        )
        msg = (
            f"null must be 'auto' or one that stands with {estimator.name!r}, got {null!r}"
            f"; supported pairs are {pairs}{nearest(str(null), supported)}"
        )
        raise InvalidArgumentError(msg)
    return NULLS[null](count), "as asked"
