"""Drawn rows, and features that suit them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.conditional.centre import centred_columns
from dhsic.conditional.design import ConditionalDesign
from dhsic.conditional.first import FirstDesign, FirstFits, PredictedColumns
from dhsic.conditional.indices import Index, IndexedDesign
from dhsic.engine.blocks import ValueKind, kinds_of
from dhsic.engine.session import Session
from dhsic.estimators.base import BANDWIDTH_ROWS
from dhsic.estimators.fitting_samples import FittingSamples
from dhsic.kernels import Columns, Gaussian, Kernel, by_column

__all__ = ["Drawn", "given_kinds", "indexed_targets", "predicted_columns"]

Vector = NDArray[np.float64]

_ROWS_A_COLUMN = 20
_ROWS_OF_FEATURES = 100  # a given column, for functions of predictions of features


def given_kinds(session: Session) -> tuple[ValueKind, ...]:
    """Kinds of all given columns."""
    return tuple(kind for source in session.sources[2:] for kind in kinds_of(source))


def predicted_columns(
    session: Session, kernels: Sequence[Kernel], samples: Sequence[Vector | None] = (None, None)
) -> list[tuple[int, ...]]:
    """The columns of x and of y that are predicted by what is given, by samples where there are.

    None where rows are fewer than 20 for each given column: both predictions then miss so much of
    the same things that noise whose spread follows 20 columns was rejected in 9 % of 200 rows.
    """
    if session.n < _ROWS_A_COLUMN * len(given_kinds(session)):
        return [(), ()]
    triples = zip(kernels, session.sources, samples, strict=False)
    return [centred_columns(kernel, kinds_of(source), one) for kernel, source, one in triples]


def indexed_targets(n: int, given: int, features: slice, columns: slice) -> tuple[slice, slice]:
    """Whose predictions become regressors: features and columns of a variable, or columns alone.

    Regressors that rows choose take more of these rows' noise than leverages tell, which count
    functions that are linear in given regressors alone (J. Ye, On measuring and correcting the
    effects of data mining and model selection, JASA 93, 1998, section 2).
    At 1,000 rows and 20 given columns, whose spread is that of x and y, they made the statistic a
    tenth larger than its law. The columns' prediction alone, on which what is left depends, did
    not.
    """
    if n >= _ROWS_OF_FEATURES * given or columns.start == columns.stop:
        return features, columns
    return slice(features.start, features.start), columns


class Drawn(NamedTuple):
    """Drawn rows, x, y and what is given each by themselves, and features that suit them.

    One draw for all would let the features know of the pairing.
    """

    samples: tuple[Vector, Vector]
    """Rows of x and rows of y."""
    given: Sequence[Vector]
    """All given columns at the rows of x and at those of y."""
    z: Vector
    """All given columns at rows drawn for them."""
    kernels: tuple[Kernel, ...]
    """Those of x and of y, fitted to their rows."""
    first: FirstDesign
    """Features of x and y as they are, with the columns that are predicted."""

    @classmethod
    def of(cls, session: Session, kernels: Sequence[Kernel], widths: Sequence[float]) -> Self:
        """From one look at the data."""
        s = min(session.n, BANDWIDTH_ROWS)
        draws = [
            generator(session.seed, "landmarks", number).choice(session.n, size=s, replace=False)
            for number in range(3)
        ]
        given = range(2, len(session.sources))
        # The given variables share their rows, and are taken at those of x and of y as well.
        every_z = np.concatenate([draws[2], *draws[:2]])
        taken = session.take([*draws[:2], *(every_z for _ in given)])
        at_pairs = [
            np.concatenate([one[k : k + s] for one in taken[2:]], axis=1) for k in (s, 2 * s)
        ]
        taken[2:] = [one[:s] for one in taken[2:]]
        columns = [by_column(kinds_of(session.sources[m]), Columns(Gaussian())) for m in given]
        every = (*kernels, *columns)
        samples = FittingSamples.of(session, zip(every, range(len(every)), strict=True), taken)
        x, y, *others = (samples.of_kernel(kernel, m) for m, kernel in enumerate(every))
        z = np.concatenate(others, axis=1)
        fitted = tuple(
            kernel.fit(sample).widened(width)
            for kernel, sample, width in zip(kernels, (x, y), widths, strict=True)
        )
        base = ConditionalDesign.of(fitted, (x, y, z), given_kinds(session), session.dtype)
        of_x, of_y = (
            PredictedColumns.of(at, one, session.dtype)
            for at, one in zip(predicted_columns(session, fitted, (x, y)), (x, y), strict=True)
        )
        return cls((x, y), at_pairs, z, fitted, FirstDesign(base, (of_x, of_y)))

    def indexed(
        self, n: int, fits: FirstFits, kernels: Sequence[Kernel], widths: Sequence[float]
    ) -> tuple[IndexedDesign, tuple[Kernel, ...]]:
        """Features of x and y about their predictions, with indices of either, and the kernels.

        Parameters
        ----------
        n : int
            Rows of the data.
        fits : FirstFits
            The first regressions.
        kernels : sequence of Kernel
            Those of x and y, to be fitted.
        widths : sequence of float
            Factors of their lengths.
        """
        base, dtype = self.first.base, self.first.base.x.map.dtype
        samples, fitted = list(self.samples), list(self.kernels)
        for m, centre in enumerate(fits.centres):
            if centre.at:
                samples[m] = centre(samples[m], base.of_given(self.given[m]))
                fitted[m] = kernels[m].fit(samples[m]).widened(widths[m])
        given = base.of_given(self.z)
        indices = (
            Index.of(fits.ridges, *indexed_targets(n, self.z.shape[1], *targets), given, dtype)
            for targets in zip((fits.x, fits.y), fits.columns, strict=True)
        )
        return IndexedDesign(base.about(fitted, fits.centres, samples), *indices), tuple(fitted)
