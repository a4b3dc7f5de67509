"""Greedy selection: a set of features grows or shrinks by its dependence on the target."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Subset = tuple[int, ...]
SubsetMeasure = Callable[[Sequence[Subset]], Vector]


def forward(measure: SubsetMeasure, d: int, k: int) -> tuple[Subset, list[float]]:
    """Add the feature with which the dependence is largest, k times.

    Song et al. (2012), section 4.3, algorithm FOHSIC with one feature a step.

    Parameters
    ----------
    measure : callable
        The dependence of the target on every one of some sets of features.
    d, k : int
        Features, and how many to choose.

    Returns
    -------
    tuple of int
        The chosen, in the order in which they came.
    list of float
        The dependence with each.
    """
    chosen: Subset = ()
    values: list[float] = []
    while len(chosen) < k:
        rest = [j for j in range(d) if j not in chosen]
        # All candidates in one call: they share the kernels of the target, and a pass over the
        # data.
        dependences = measure([(*chosen, j) for j in rest])
        # The first of equal ones, so that the order of the columns decides ties and no draw does.
        best = int(dependences.argmax())
        chosen, values = (*chosen, rest[best]), [*values, float(dependences[best])]
    return chosen, values


def backward(measure: SubsetMeasure, d: int, k: int, share: float) -> tuple[Subset, list[float]]:
    """Drop the features without which the dependence is largest, until k are left.

    Song et al. (2012), section 4.2, algorithm BAHSIC.

    Parameters
    ----------
    measure : callable
        The dependence of the target on every one of some sets of features.
    d, k : int
        Features, and how many to choose.
    share : float
        Share of the remaining ones that a step drops; one at least.

    Returns
    -------
    tuple of int
        The chosen, the one that would be dropped last first.
    list of float
        The dependence without each of them.
    """
    left: Subset = tuple(range(d))
    while True:
        without = [tuple(i for i in left if i != j) for j in left]
        # There is no dependence of the target on an empty set to be measured.
        dependences = measure(without) if len(left) > 1 else np.zeros(1)
        # Dependence without a feature is largest where the feature tells least: the last goes
        # first.
        order = np.argsort(dependences, kind="stable")
        ranked = tuple(left[i] for i in order)
        if len(left) == k:
            return ranked, dependences[order].tolist()
        # One at least goes in a step, and never more than leaves k.
        drop = min(len(left) - k, max(1, math.floor(share * len(left))))
        left = tuple(sorted(ranked[: len(left) - drop]))
