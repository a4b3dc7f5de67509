"""The guard of approximate null distributions, by the samples that kernels are fitted to.

Its limits are from independent data of 220 kinds: normals of 1 to 20 columns, two to four
variables, dummies, counts, values that are mostly 0, heavy tails, categories; bandwidths of 1/8 to
4 times the median heuristic; 300 to 16,000 rows. Where it is silent the nulls reject 5 % at level
5 % but for the noise of such a study; with half of the rows that they need up to 10 %, and 5 % at
level 1 %; with fewer, up to 90 %.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.session import Session
from dhsic.errors import ApproximateNullWarning
from dhsic.kernels import Combinations
from dhsic.nulls import (
    ChiSquare,
    Gamma,
    KernelMoments,
    Needs,
    Normal,
    Spectral,
    guard,
    joint_spread,
    kernel_moments,
    spread_at_locations,
)
from dhsic.statistics.features import Features

Samples = Sequence[NDArray[np.floating[Any]]]

_PAIRED = 25.0, 0.02  # rows, for nulls made of the rows as they are paired; fewer say nothing
_MARGINAL = 4.0  # for those made of the marginals
# Rows over the mean squared skewness of the products at the locations.
_AT_LOCATIONS = 10.0
# Where fewer rows show dependence than twice the root of the blocks, 6 % of true nulls were
# rejected at level 1 %.
_A_ROOT_OF_BLOCKS = 2.0
_CROWDED = 10.0  # directions a row
_SPECTRAL = 0.02  # directions a pair of rows
_DECIDING = 20.0  # rows of equal weight
_OF_WEIGHTS = "weights have no exact null: take ranks or coarser values, or fewer columns"
_SAMPLED = 10.0  # rows, times the root of n: about 50 have a value that is just not too rare
# Entries of the Gram matrices of all kernels, together.
_ENTRIES = 2e7
_FEWEST_ROWS, _MOST_ROWS = 250, 1000


def guard_landmarks(
    session: Session, combinations: Combinations, samples: Samples, null: Gamma | Spectral
) -> str:
    """Guard of centred products at landmarks.

    Parameters
    ----------
    session : Session
        The run.
    combinations : Combinations
        As fitted.
    samples : sequence of ndarray, shapes (s, d_m)
        Rows of every variable, drawn independently.
    null : Gamma or Spectral
        The null distribution.

    Returns
    -------
    str
        See `guard`.
    """
    # A covariance of n rows has rank n at most, on which a law of its eigenvalues rests.
    needs = Needs(*_PAIRED, _CROWDED * _there(session))
    return _guard(session, combinations, samples, null.name, needs)


def guard_grams(
    session: Session, combinations: Combinations, samples: Samples, null: Gamma | Spectral
) -> str:
    """Guard of all pairs of rows, as `guard_landmarks`."""
    return _guard(session, combinations, samples, null.name, Needs(_MARGINAL))


def guard_blocks(
    session: Session, combinations: Combinations, samples: Samples, blocks: int
) -> str:
    """Guard of means of so many blocks of rows, as `guard_landmarks`."""
    needs = Needs(
        _A_ROOT_OF_BLOCKS * math.sqrt(blocks),
        remedy="take another estimator, with null='auto', which is exact",
    )
    return _guard(session, combinations, samples, Normal.name, needs)


def guard_locations(n: int, kernels: Sequence[NDArray[np.floating[Any]]]) -> str:
    """Guard of the kernels of samples at locations, shapes (s, J), for a test of n rows."""
    needs = Needs(_AT_LOCATIONS, remedy="take null='auto', which is exact")
    return guard(ChiSquare.name, [spread_at_locations(kernels, n)], n, needs)


def guard_features(
    session: Session,
    features: Sequence[Features],
    chosen: Iterable[Sequence[int]],
    null: Gamma | Spectral,
    remedy: str = Needs.remedy,
) -> str:
    """Guard of pairs of the features of variables, by their numbers, as `guard_landmarks`."""
    n, rows = _there(session), _rows_looked_at(session.n, len(features))
    moments = [_feature_moments(one, rows) for one in features]
    spreads = [joint_spread([moments[k] for k in pair], n) for pair in chosen]
    needs = Needs(_MARGINAL, remedy=remedy)
    if isinstance(null, Spectral):
        crowded = "p-values may be far too small"
        needs = replace(needs, directions=_SPECTRAL * n**2, crowded=crowded)
    return guard(null.name, spreads, n, needs)


def guard_weighted(session: Session, features: Sequence[Features]) -> str:
    """Guard of the limit law of weighted rows, by features of two variables, as `guard`.

    It is made of the rows as they are paired, of which there are as many as of equal weight. Where
    a few rows have most of the weight, others like them are likely to be missing.
    """
    weights = session.weights
    assert weights is not None
    rows = _rows_looked_at(session.n, len(features))
    moments = [_feature_moments(one, rows) for one in features]
    needs = Needs(*_PAIRED, remedy=_OF_WEIGHTS)
    told = guard(Spectral.name, [joint_spread(moments, round(weights.rows))], session.n, needs)
    few = ""
    if weights.deciding < _DECIDING:
        few = (
            f"about {weights.deciding:.2g} of {session.n:,} rows have so much of the weight that "
            "the limit may be far"
        )
        msg = f"{few}: test the part of the population whose rows are likely to be drawn"
        warnings.warn(msg, ApproximateNullWarning, stacklevel=2)
    share = f"weights as of {weights.rows:,.0f} equal ones of {session.n:,}"
    return "; ".join(filter(None, (share, told, few)))


def _feature_moments(features: Features, rows: int) -> KernelMoments:
    assert features.sample is not None
    values = features.map(features.sample[:rows]).astype(np.float64, copy=False)
    # Whitened features have the inner products of the kernel that the statistic uses.
    whitened = features.whitened(values)
    return kernel_moments(whitened @ whitened.T)


def _guard(
    session: Session, combinations: Combinations, samples: Samples, null: str, needs: Needs
) -> str:
    pairs = list(zip(combinations.kernels, combinations.variables, strict=True))
    rows, n = _rows_looked_at(session.n, len(pairs)), _there(session)
    moments = [kernel_moments(kernel(samples[m][:rows])) for kernel, m in pairs]
    each = range(len(combinations))
    return guard(null, [joint_spread(combinations.of(moments, c), n) for c in each], n, needs)


def _rows_looked_at(n: int, kernels: int) -> int:
    """Rows of a sample that are looked at: more of many, where rarer values matter."""
    most = min(_SAMPLED * math.sqrt(n), math.sqrt(_ENTRIES / kernels), _MOST_ROWS)
    return round(max(most, _FEWEST_ROWS))


def _there(session: Session) -> int:
    """Rows in which no variable misses a value, where gaps of one are independent of the others."""
    return round(session.n * math.prod(1.0 - gaps.rows / session.n for gaps in session.gaps))
