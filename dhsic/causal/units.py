"""Variables in units of their standard deviations, about their means, streamed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.engine.blocks import Source
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.io.derived import DerivedSource

Vector = NDArray[np.float64]
Exponents = NDArray[np.int32]

_ROWS = 1000
_STEP = "sample rows"


class _CentredSums(NamedTuple):
    """Sums over rows of what is about the centres, one after another variable."""

    sums: Vector
    """Shape (d,)."""
    squares: Vector
    """Shape (d,)."""


@dataclass(frozen=True)
class _ScalesPass(Pass[_CentredSums]):
    """Means and mean squares of all columns about provisional centres, in powers of two.

    Parameters
    ----------
    centres : tuple of ndarray, shapes (d_m,)
        Medians of a sample, from which a mean is at most a standard deviation away, so that no
        digits cancel; those of a constant column are exactly its value.
    exponents : tuple of ndarray, shapes (d_m,)
        Powers of two that the columns are divided by, which is exact, so that no square overflows
        or vanishes.
    """

    centres: tuple[Vector, ...]
    exponents: tuple[Exponents, ...]
    name: str = "means and standard deviations"

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        d = sum(map(len, self.centres))
        widest = max(map(len, self.centres))
        return Footprint(16 * d, 3 * 8 * rows * widest, 16 * d)

    def chunk(self, block: RowBlock) -> _CentredSums:
        """Sums over one block."""
        parts = zip(block.values, self.centres, self.exponents, strict=True)
        # Powers of two scale without rounding, so that squares neither overflow nor vanish.
        even = [np.ldexp(x - centre, -exponent) for x, centre, exponent in parts]
        sums = np.concatenate([x.sum(axis=0) for x in even])
        return _CentredSums(sums, np.concatenate([np.einsum("ij,ij->j", x, x) for x in even]))


@dataclass(frozen=True)
class _Standardise:
    """Rows in units of the standard deviations, about the means, as a `RowFunction`."""

    centre: Vector
    exponent: Exponents
    mean: Vector
    scale: Vector

    def __call__(self, rows: NDArray[np.intp], values: Sequence[NDArray[Any]]) -> Vector:
        """Shift and divide."""
        del rows
        even = np.ldexp(np.asarray(values[0], np.float64) - self.centre, -self.exponent)
        out: Vector = (even - self.mean) / self.scale
        return out


def standardised_variables(session: Session) -> list[Source]:
    """All variables, each column of mean 0 and variance 1.

    Parameters
    ----------
    session : Session
        Over the variables.

    Returns
    -------
    list of source
        Computed when they are read.

    Raises
    ------
    DataError
        A column is constant.
    """
    session.step(_STEP)
    rows = np.arange(session.n)
    if session.n > _ROWS:
        # A second stream of this purpose: the first draws the rows of a pair.
        rows = generator(session.seed, "selection", 1).choice(session.n, _ROWS, replace=False)
    samples = session.take([rows] * len(session.sources))
    centres = tuple(np.median(x, axis=0) for x in samples)
    pairs = zip(samples, centres, strict=True)
    # The power of two that brings what the sample holds of a column to about 1.
    exponents = tuple(np.frexp(np.abs(x - c).max(axis=0))[1].astype(np.int32) for x, c in pairs)
    moments = session.reduce(_ScalesPass(centres, exponents))
    means = moments.sums / session.n
    # The centre is near the mean, so that little cancels.
    deviations = np.sqrt(np.maximum(moments.squares / session.n - means**2, 0.0))
    out: list[Source] = []
    edges = np.cumsum([0, *session.dims])
    for m, source in enumerate(session.sources):
        columns = slice(edges[m], edges[m + 1])
        _check_deviations(source.name, deviations[columns])
        function = _Standardise(centres[m], exponents[m], means[columns], deviations[columns])
        out.append(DerivedSource(source.name, (source,), function, source.shape[1]))
    return out


def plan_units(session: Session) -> list[DriverStep | PassPlan]:
    """The plan of `standardised_variables`."""
    size = 8 * min(session.n, _ROWS) * sum(session.dims)
    fetch = 3 * size + max(source.take_bytes for source in session.sources)
    zeros = tuple(np.zeros(d) for d in session.dims)
    reduction = _ScalesPass(zeros, tuple(x.astype(np.int32) for x in zeros))
    return [DriverStep(_STEP, fetch), session.plan(reduction)]


def standing_in(name: str, others: tuple[Source, ...], width: int) -> Source:
    """A variable that is to be made of others, for a plan, which reads none."""
    zeros = np.zeros(width)
    nothing = _Standardise(zeros, zeros.astype(np.int32), zeros, zeros)
    return DerivedSource(name, others, nothing, width)


def _check_deviations(name: str, deviations: Vector) -> None:
    (constant,) = np.nonzero(deviations == 0.0)
    if len(constant):
        msg = f"variable {name!r} is constant in column {int(constant[0])}: leave the column out"
        raise DataError(msg)
