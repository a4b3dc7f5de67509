"""Features that do not vary: in no row, or in none of those that set bandwidths."""

from __future__ import annotations

from dataclasses import replace

from dhsic.engine.gaps import filled
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.estimators.base import bandwidth_rows
from dhsic.estimators.fitting_samples import beyond
from dhsic.ranking.ranked_columns import RankedColumns


def without_constants(session: Session, features: RankedColumns) -> RankedColumns:
    """The features that are not constant.

    Only where some do not vary among the rows that set bandwidths, all rows are looked at. Those
    that vary in other rows, such as rare flags, are kept.

    Raises
    ------
    DataError
        All are constant, or a value is NaN or infinite.
    """
    sample = filled(session.take(bandwidth_rows(session))[0])
    same = (sample == sample[0]).all(axis=0)
    still = [bool(same[list(columns)].all()) for columns in features.columns]
    if not any(still):
        return features
    # Only those that do not vary in the sample are looked for in all rows.
    sets = {
        (0, at)
        for at, same_in_sample in zip(features.columns, still, strict=True)
        if same_in_sample
    }
    differing = beyond(session, [sample], sorted(sets))
    pairs = enumerate(zip(features.columns, still, strict=True))
    kept = [k for k, (at, same_in_sample) in pairs if not same_in_sample or differing[0, at].total]
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
        kernels=tuple(features.kernels[k] for k in kept),
    )
