"""First regressions on what is given: of features of x and y, and of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.conditional.centre import Centre
from dhsic.conditional.design import ConditionalDesign
from dhsic.conditional.ridge import Ridges, SumsByFold
from dhsic.features import ColumnFeatures

Vector = NDArray[np.float64]

_OF_FEATURES = 2.0  # they gain less than columns do


@dataclass(frozen=True)
class PredictedColumns:
    """Columns of a variable that are predicted, in units of their deviations.

    Parameters
    ----------
    at : tuple of int
        Their numbers.
    units : ColumnFeatures
        Centres and deviations of all columns of the variable.
    varied : int
        How many columns of the variable are not constant.
    """

    at: tuple[int, ...]
    units: ColumnFeatures
    varied: int

    @classmethod
    def of(cls, at: tuple[int, ...], sample: Vector, dtype: DTypeLike) -> Self:
        """In units of a sample (s, d)."""
        varied = int(np.count_nonzero(np.ptp(sample, axis=0)))
        return cls(at, ColumnFeatures.of(sample, dtype), varied)

    def __call__(self, x: NDArray[Any]) -> Vector:
        """Columns of rows (b, d), shape (b, k)."""
        return np.asarray(self.units(x)[:, self.at], np.float64)

    def centre(self, ridges: Ridges, targets: slice) -> Centre:
        """The prediction by regressions, of which some targets are these columns."""
        slopes = ridges.slopes[:, targets] * self.units.scale[list(self.at)]
        return Centre(self.at, self.units.n_features, ridges.mean, slopes)


class FirstFits(NamedTuple):
    """The regressions, and which targets are of what."""

    ridges: Ridges
    """All of them, by all rows."""
    folds: tuple[Ridges, ...]
    """The same by the rows outside of every fold, about the means of all rows."""
    x: slice
    """Features of x as it is."""
    y: slice
    """Features of y as it is."""
    columns: tuple[slice, slice]
    """Columns of x and of y that are predicted."""
    centres: tuple[Centre, Centre]
    """Predictions of x and of y."""
    explained: tuple[float, float]
    """Shares of the variances of their columns that the predictions explain, on average of those
    that are not constant."""
    gained: tuple[float, float]
    """How much more of x and of y all rows explain than the rows of other folds do of a fold's."""


@dataclass(frozen=True)
class FirstDesign:
    """Features of all variables, and the columns of x and of y that are predicted.

    Parameters
    ----------
    base : ConditionalDesign
        Features of x and y as they are, and of what is given.
    columns : tuple of PredictedColumns
        Those of x and those of y.
    """

    base: ConditionalDesign
    columns: tuple[PredictedColumns, PredictedColumns]

    @classmethod
    def likely(cls, base: ConditionalDesign) -> Self:
        """With the columns that a design has predictions of, for plans."""
        dtype = base.x.map.dtype
        x, y = (
            PredictedColumns.of(one.at, np.zeros((2, one.columns)), dtype) for one in base.centres
        )
        return cls(base, (x, y))

    @cached_property
    def counts(self) -> tuple[int, int]:
        """Columns of x and of y that are predicted."""
        x, y = self.columns
        return len(x.at), len(y.at)

    @property
    def size(self) -> int:
        """Number of features and columns, side by side."""
        return self.base.size + sum(self.counts)

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return self.base.nbytes + sum(one.units.nbytes for one in self.columns)

    def scratch(self, rows: int) -> int:
        """Bytes needed for so many rows, the features among them."""
        units = sum(one.units.scratch(rows) for one in self.columns)
        return self.base.scratch(rows) + units + 16 * rows * sum(self.counts)

    def joined(self, values: Sequence[NDArray[Any]], fold: int) -> Vector:
        """Side by side: of what is given, of x, of y, columns of x, of y; alike in all folds."""
        own = (one(x) for one, x in zip(self.columns, values, strict=False))
        return np.concatenate([self.base.joined(values), *own], axis=1)

    def fits(self, sums: SumsByFold) -> FirstFits:
        """The regressions on what is given."""
        given, targets = np.split(np.arange(self.size), [self.base.sizes[2]])
        whole, left_out = sums.whole(), self.base.left_out
        ridges = Ridges.fit(whole, given, targets, left_out=left_out)
        errors, folds = np.zeros(len(targets)), []
        for others, held in sums.splits():
            fold = Ridges.fit(others, given, targets, left_out=left_out, held=held)
            errors += held.rows / whole.rows * fold.tried
            folds.append(replace(fold, mean=ridges.mean))
        half = replace(ridges, errors=errors)

        def gain(at: slice) -> float:
            return max(0.0, ridges.explained(at) - half.explained(at))

        r_x, r_y, _, _ = self.base.sizes
        ends = np.cumsum([0, r_x, r_y, *self.counts])
        x, y, *own = (slice(*ends[k : k + 2]) for k in range(4))
        of_x, of_y = (one.centre(ridges, at) for one, at in zip(self.columns, own, strict=True))
        share_x, share_y = (
            ridges.explained(at) * len(one.at) / max(one.varied, 1)
            for one, at in zip(self.columns, own, strict=True)
        )
        # Far values of columns feign a gain that features, which are bounded, do not show.
        gain_x, gain_y = (
            min(gain(at), _OF_FEATURES * gain(one)) if count else gain(one)
            for at, one, count in zip(own, (x, y), self.counts, strict=True)
        )
        shares, gains = (share_x, share_y), (gain_x, gain_y)
        return FirstFits(ridges, tuple(folds), x, y, (own[0], own[1]), (of_x, of_y), shares, gains)
