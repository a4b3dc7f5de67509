"""Kernels that compare no rows: 1 between a row and itself, and 0 between it and all others.

Narrow kernels of many columns are so. Their statistic is rounding, or that of a few pairs of rows
that happen to lie near each other; its replicates have heavy tails, which cost the other kernels
of a grid their power. Whether a kernel is so is seen in its own variable, which leaves a null of
permutations exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.kernels import Combinations

__all__ = ["compared", "compared_in_samples", "is_identity", "left_out_text", "nearness"]

_NEAR = 1e-3
_ALONE = 2.0  # rows of all that a row is near, of which it is one itself
_ROWS = 64  # whose neighbours in a sample are counted


def nearness(values: NDArray[Any]) -> float:
    """The share of pairs of rows between which a kernel is above 0.001, from its values."""
    return float(np.mean(values > _NEAR))


def is_identity(near: float, n: int) -> bool:
    """Whether hardly any of n rows has a neighbour, of a kernel with such a `nearness`."""
    return near * n < _ALONE


def compared(combinations: Combinations, near: Sequence[float], n: int) -> list[int]:
    """Numbers of the combinations without a kernel that is the identity on n rows; the reference.

    Parameters
    ----------
    combinations : Combinations
        Combinations of K kernels.
    near : sequence of float
        The `nearness` of every kernel, of pairs that a row and itself are among.
    n : int
        Rows of the test.

    Returns
    -------
    list of int

    Examples
    --------
    >>> from dhsic.kernels import Gaussian
    >>> kernels = (Gaussian(gamma=1.0), Gaussian(gamma=900.0))
    >>> compared(Combinations.against(kernels, Gaussian(gamma=1.0)), [0.5, 0.01, 0.5], 100)
    [0]
    """
    identities = {k for k, share in enumerate(near) if is_identity(share, n)}
    reference = combinations.reference()
    return [
        c
        for c, pair in enumerate(combinations.chosen)
        if c == reference or not identities & set(pair)
    ]


def compared_in_samples(
    combinations: Combinations, samples: Sequence[NDArray[np.float64]], n: int
) -> list[int]:
    """As `compared`, by kernels that are fitted to samples of their variables.

    Kernels without a length are not looked at: they compare all rows.
    """

    def near(kernel: Any, sample: NDArray[np.float64]) -> float:
        if not kernel.has_length:
            return 1.0
        some = sample[:: -(-len(sample) // _ROWS)]
        others = nearness(kernel(some, sample)) * len(sample) - 1.0  # of the sample, on average
        return (1.0 + others * (n - 1) / max(1, len(sample) - 1)) / n

    pairs = zip(combinations.kernels, combinations.spread(samples), strict=True)
    return compared(combinations, [near(*pair) for pair in pairs], n)


def left_out_text(count: int) -> str:
    """Note on the combinations that were left out; empty for none."""
    return f"combinations left out, with kernels that are 0 between rows: {count}" if count else ""
