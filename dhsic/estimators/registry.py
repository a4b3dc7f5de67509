"""Estimators by name, and which null distribution stands with which."""

from __future__ import annotations

from dhsic._validation import check_choice, nearest
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
    null: str | Null, estimator: Estimator, session: Session, n_resamples: int
) -> tuple[Null, str]:
    """The null distribution for an estimator, and why this one.

    Raises
    ------
    InvalidArgumentError
        Unknown, or not supported for the estimator; the message lists what is.
    """
    if null == "auto":
        return estimator.choose_null(session, n_resamples)
    supported = [cls.name for cls in estimator.nulls]
    name = null if isinstance(null, str) else getattr(null, "name", repr(null))
    if name not in supported:
        pairs = "; ".join(
            f"{cls.name}: {', '.join(n.name for n in cls.nulls)}" for cls in ESTIMATORS.values()
        )
        msg = (
            f"null must be 'auto' or one that stands with {estimator.name!r}, got {name!r}"
            f"; supported pairs are {pairs}{nearest(str(name), supported)}"
        )
        raise InvalidArgumentError(msg)
    return (NULLS[name](n_resamples) if isinstance(null, str) else null), "as asked"
