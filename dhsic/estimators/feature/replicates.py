"""Statistics from cross-covariances of features, of the data and of their replicates.

They are n |C|^2 or another measure of the cross-covariance C (Zhang et al. 2018, equations 31 and
39). Under the permutations of a group that holds the identity its rank is exact (Hemerik and Goeman
2018), as it is under permutations drawn at random, with the features held fixed.

The cross-covariances of a combination take as many numbers as replicates times features of either
side. Where all do not fit in memory, passes take some of the combinations each, then some of the
cosets, then some of the features of the first variable, over which squared norms add up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.estimators.base import Resampling
from dhsic.estimators.feature.basis import Measure, Side
from dhsic.estimators.feature.blocks import ESTIMATE
from dhsic.estimators.feature.layout import Pair
from dhsic.estimators.feature.resampling import FeatureResampling
from dhsic.estimators.resample import Resampled, tie_tolerance

Vector = NDArray[np.float64]


def resample_features(
    session: Session,
    sides: Mapping[int, Side],
    chosen: Sequence[Pair],
    measure: Measure,
    null: Resampling | None,
    variables: Mapping[int, int] | None = None,
    *,
    unbiased: bool = False,
) -> FeatureReplicates:
    """Statistics of the data, n times the measure, and their replicates.

    Parameters
    ----------
    session : Session
        The run.
    sides : dict of int to Side
        Features by the numbers of their kernels.
    chosen : sequence of tuple of int
        G pairs of numbers; the variable of the second is shifted or permuted.
    measure : Measure
        The size of cross-covariances.
    null : Shifts, Permutation or None
        The null distribution; without one there are no replicates.
    variables : dict of int to int, optional
        The variable of every kernel; where not given, first ones of a pair are of variable 0 and
        second ones of variable 1.
    unbiased : bool, optional
        Whether estimates are unbiased, by `unbiased_hsic`: of squared HSIC, with permutations,
        shifts or no null distribution.

    Returns
    -------
    FeatureReplicates
    """
    resampling = FeatureResampling.of(
        session, sides, chosen, measure, null, variables, unbiased=unbiased
    )
    columns = {pair: g for g, pair in enumerate(dict.fromkeys(chosen))}
    values = np.zeros((len(resampling.orbit), len(columns)))
    errors: dict[tuple[Pair, int], float] = {}
    kept = None
    for piece in resampling.pieces():
        sizes, rounding_errors, rows = resampling.sizes(piece)
        # The first piece keeps the rows, which serve all estimates.
        kept = rows if kept is None else kept
        at = [columns[pair] for pair in piece.pairs]
        # Squared norms of parts of the features add up.
        values[resampling.replicates(piece), at] += session.n * sizes
        errors |= {
            (pair, piece.start): e for pair, e in zip(piece.pairs, rounding_errors, strict=True)
        }
    squares = np.zeros(len(columns))
    # Errors are of roots, so that their squares add up over the parts.
    for (pair, _), error in errors.items():
        squares[columns[pair]] += error**2
    at = [columns[pair] for pair in chosen]

    def estimate(g: int) -> float:
        size = float(values[0, at[g]]) / session.n
        if resampling.estimates is None:
            return size
        session.step(ESTIMATE)
        rows = resampling.estimates.blocks.drawn(session) if kept is None else kept
        return resampling.estimates.of(chosen[g], rows, size)

    every = values if len(columns) == len(chosen) else values[:, at]
    tolerance = tie_tolerance(values[0, at], np.sqrt(squares[at]))
    return FeatureReplicates(Resampled.of(every, tolerance), estimate, resampling.orbit.detail)


def resampling_steps(
    session: Session,
    sides: Mapping[int, Side],
    chosen: Sequence[Pair],
    measure: Measure,
    null: Resampling | None,
    variables: Mapping[int, int] | None = None,
    *,
    unbiased: bool = False,
) -> list[DriverStep | PassPlan]:
    """The passes of `resample_features`, the step after each, and that of an estimate."""
    resampling = FeatureResampling.of(
        session, sides, chosen, measure, null, variables, unbiased=unbiased
    )
    steps = [step for piece in resampling.pieces() for step in resampling.steps(piece)]
    if resampling.estimates is not None:
        steps.append(resampling.estimates.step(resampling.pairs, session.dtype))
    return steps


class FeatureReplicates(NamedTuple):
    """Result of resampling."""

    resampled: Resampled
    """Statistics of G combinations, n times the measure, with their replicates."""
    estimate: Callable[[int], float]
    """The measure of a combination, or what is unbiased, by its place among the G."""
    detail: str
    """How the replicates were made, where the null leaves a choice."""
