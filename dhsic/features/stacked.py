"""Feature maps of one variable side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.features.base import FeatureMap, Matrix

__all__ = ["StackedFeatures", "side_by_side"]


@dataclass(frozen=True)
class StackedFeatures:
    """The features of several maps of one variable, side by side.

    The cross-covariance of the stacked features of two variables has those of all pairs of their
    maps as blocks.

    Parameters
    ----------
    parts : tuple of FeatureMap
        One or more, of the same precision.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.features import ColumnFeatures
    >>> sample = np.array([[1.0], [3.0]])
    >>> plain = ColumnFeatures.of(sample, np.float64)
    >>> doubled = ColumnFeatures(plain.centre, plain.scale / 2, plain.dtype)
    >>> StackedFeatures((plain, doubled))(sample)
    array([[-1., -2.],
           [ 1.,  2.]])
    """

    parts: tuple[FeatureMap, ...]

    @classmethod
    def of(cls, parts: Sequence[FeatureMap]) -> FeatureMap:
        """Side by side; one by itself is itself, which spares a copy."""
        return parts[0] if len(parts) == 1 else cls(tuple(parts))

    @property
    def n_features(self) -> int:
        """Features of all parts."""
        return sum(part.n_features for part in self.parts)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the features."""
        return self.parts[0].dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in self.parts)

    @property
    def operations(self) -> float:
        """Floating-point operations a row."""
        return sum(part.operations for part in self.parts)

    def scratch(self, rows: int) -> int:
        """Bytes of the features of one part and of what it needs."""
        size = rows * self.dtype.itemsize
        return max(part.scratch(rows) + size * part.n_features for part in self.parts)

    def __call__(self, x: NDArray[Any]) -> Matrix:
        """Map rows (b, d) to the features of all parts (b, sum_k D_k)."""
        out = np.empty((len(x), self.n_features), self.dtype)
        places = side_by_side(part.n_features for part in self.parts)
        for part, at in zip(self.parts, places, strict=True):
            out[:, at] = part(x)
        return out


def side_by_side(counts: Iterable[int]) -> tuple[slice, ...]:
    """Where groups of so many columns are, one after another."""
    return tuple(slice(*both) for both in pairwise(accumulate(counts, initial=0)))
