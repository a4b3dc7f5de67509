"""Features that do not vary: in no row, or in none of those that set bandwidths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.estimators.base import bandwidth_rows
from dhsic.ranking.features import Features

__all__ = ["without_constants"]


def without_constants(session: Session, features: Features) -> Features:
    """The features that are not constant.

    Only where some do not vary among the rows that set bandwidths, all rows are looked at. Those
    that vary in other rows, such as rare flags, have kernels fitted to their range.

    Raises
    ------
    DataError
        All are constant, or a value is NaN or infinite.
    """
    sample = session.take(bandwidth_rows(session))[0]
    same = (sample == sample[0]).all(axis=0)
    still = [bool(same[list(columns)].all()) for columns in features.columns]
    if not any(still):
        return features
    extent = session.extent()
    ends = np.vstack([extent.low[0], extent.high[0]])
    kept, kernels = [], []
    for number, kernel in enumerate(features.kernels):
        own = ends[:, features.columns[number]]
        if not still[number]:
            kernels.append(kernel)
        elif (own[0] != own[1]).any():
            kernels.append(kernel.fit(own))
        else:
            continue
        kept.append(number)
    if not kept:
        msg = (
            f"a ranking needs a feature that varies, and all {len(features)} of "
            f"{session.names[0]!r} are constant: they are independent of everything"
        )
        raise DataError(msg)
    return replace(
        features,
        names=tuple(features.names[k] for k in kept),
        columns=tuple(features.columns[k] for k in kept),
        kernels=tuple(kernels),
    )
