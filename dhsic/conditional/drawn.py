"""Drawn rows, and features that suit them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.conditional.centre import centred_columns
from dhsic.conditional.design import ConditionalDesign
from dhsic.conditional.first import FirstDesign, PredictedColumns
from dhsic.conditional.indices import Index, IndexedDesign
from dhsic.conditional.ridge import SumsByFold
from dhsic.engine.blocks import ValueKind, kinds_of
from dhsic.engine.session import Session
from dhsic.estimators.base import BANDWIDTH_ROWS
from dhsic.estimators.fitting_samples import FittingSamples
from dhsic.kernels import Columns, Gaussian, Kernel, by_column

Vector = NDArray[np.float64]


def given_kinds(session: Session) -> tuple[ValueKind, ...]:
    """Kinds of all given columns."""
    return tuple(kind for source in session.sources[2:] for kind in kinds_of(source))


def predicted_columns(
    session: Session, kernels: Sequence[Kernel], samples: Sequence[Vector | None] = (None, None)
) -> list[tuple[int, ...]]:
    """The columns of x and of y that are predicted by what is given, by samples where there are."""
    triples = zip(kernels, session.sources, samples, strict=False)
    return [centred_columns(kernel, kinds_of(source), one) for kernel, source, one in triples]


class FittedDesign(NamedTuple):
    """Features of the second and third pass."""

    design: IndexedDesign
    """Features of rows of every fold, of which predictions of features know nothing."""
    kernels: tuple[Kernel, ...]
    """Those of x and of y, fitted."""
    explained: tuple[float, float]
    """Shares of the variances of columns of x and y that first predictions explain."""
    gained: tuple[float, float]
    """How much more of them is explained by all rows than by half of them."""


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
        self, sums: SumsByFold, kernels: Sequence[Kernel], widths: Sequence[float]
    ) -> FittedDesign:
        """Features of x and y about their predictions, with indices of either, and the kernels.

        Parameters
        ----------
        sums : SumsByFold
            Those of the first pass.
        kernels : sequence of Kernel
            Those of x and y, to be fitted.
        widths : sequence of float
            Factors of their lengths.
        """
        fits = self.first.fits(sums)
        base, dtype = self.first.base, self.first.base.x.map.dtype
        samples, fitted = list(self.samples), list(self.kernels)
        for m, centre in enumerate(fits.centres):
            if centre.at:
                samples[m] = centre(samples[m], base.of_given(self.given[m]))
                fitted[m] = kernels[m].fit(samples[m]).widened(widths[m])
        given = base.of_given(self.z)
        indices = (
            Index.of(fits.ridges, fits.folds, *targets, given, dtype)
            for targets in zip((fits.x, fits.y), fits.columns, strict=True)
        )
        design = IndexedDesign(base.about(fitted, fits.centres, samples), *indices)
        return FittedDesign(design, tuple(fitted), fits.explained, fits.gained)
