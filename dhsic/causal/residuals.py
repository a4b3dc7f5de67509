"""Residuals of many regressions as variables, streamed where the regression is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.causal.design import SplineDesign
from dhsic.causal.regression import Regression
from dhsic.causal.rows import SplineResiduals
from dhsic.causal.splines import PILOT_ROWS, Splines
from dhsic.engine.blocks import Source
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.reduction import Footprint, RowBlock, add
from dhsic.engine.session import Session
from dhsic.io.derived import DerivedSource
from dhsic.io.sources import ArraySource

__all__ = ["ProductSums", "Regressions", "SplinePass", "plan_regressions", "residual_variables"]

Vector = NDArray[np.float64]
Regressions = Mapping[int, Sequence[tuple[int, ...]]]
"""Of every variable that is regressed, by number, the sets of variables it is regressed on."""

_TILE_ROWS = 4096


class ProductSums(NamedTuple):
    """Sums over rows of the products of a design."""

    products: Vector
    """Of every fold, shape (n_folds, q, q)."""


@dataclass(frozen=True)
class SplinePass:
    """All that regressions on splines need, in one pass whatever their number.

    Parameters
    ----------
    design : SplineDesign
        Of all variables.
    name : str, optional
        What progress calls it.
    """

    design: SplineDesign
    name: str = "regressions"
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        q, folds = self.design.size, self.design.n_folds
        state = 8 * folds * q * q
        scratch = 8 * 3 * min(rows, _TILE_ROWS) * q + state
        return Footprint(self.design.nbytes, scratch, state, 2.0 * q * q + 50.0 * q)

    def chunk(self, block: RowBlock) -> ProductSums:
        """Sums over one block."""
        q = self.design.size
        sums = np.zeros((self.design.n_folds, q, q))
        for start in range(0, block.rows, _TILE_ROWS):
            at = slice(start, min(start + _TILE_ROWS, block.rows))
            rows = np.arange(block.start + at.start, block.start + at.stop)
            sums += self.design.sums(rows, [values[at] for values in block.values])
        return ProductSums(sums)

    def combine(self, left: ProductSums, right: ProductSums) -> ProductSums:
        """Add."""
        return add(left, right)


def plan_regressions(
    session: Session, regression: Regression, wanted: Regressions
) -> list[DriverStep | PassPlan]:
    """What `residual_variables` would run.

    Parameters
    ----------
    session : Session
        Over the variables.
    regression : Regression
        How they are regressed.
    wanted : mapping of int to sequence of tuple of int
        What is regressed on what.

    Returns
    -------
    list of DriverStep or PassPlan
    """
    n, dims = session.n, session.dims
    if not isinstance(regression, Splines):
        made = 8 * n * sum(dims[t] * len(sets) for t, sets in wanted.items())
        return [
            DriverStep("read all rows", 3 * 8 * n * sum(dims), 8 * n * sum(dims)),
            DriverStep("regressions", 2 * made, made),
        ]
    guess = [np.tile(np.linspace(0.0, 1.0, 1000)[:, None], (1, d)) for d in dims]
    design = regression.design(guess, session.names, _regressors(wanted), tuple(wanted))
    rows = 8 * min(n, PILOT_ROWS) * (sum(dims) + design.size)
    fetch = 3 * rows + max(source.take_bytes for source in session.sources)
    square = 8 * regression.n_folds * design.size**2
    return [
        DriverStep("pilot rows", fetch),
        session.plan(SplinePass(design)),
        DriverStep("solve", 5 * square, square),
    ]


def residual_variables(
    session: Session, regression: Regression, wanted: Regressions
) -> list[Source]:
    """A variable for everything that is regressed: its residuals given every set, side by side.

    Parameters
    ----------
    session : Session
        Over the variables.
    regression : Regression
        How they are regressed: splines in one pass, and their residuals are computed when they are
        read; others on all rows, in the memory of this process.
    wanted : mapping of int to sequence of tuple of int
        What is regressed on what.

    Returns
    -------
    list of source
        In the order of `wanted`; the columns of a target given the first set come first.

    Raises
    ------
    DataError
        A column is constant, or there are too few rows.
    """
    if not isinstance(regression, Splines):
        return _held(session, regression, wanted)
    n = session.n
    session.step("pilot rows")
    pilot = np.arange(n)
    if n > PILOT_ROWS:
        pilot = generator(session.seed, "regression").choice(n, PILOT_ROWS, replace=False)
    samples = session.take([pilot] * len(session.sources))
    design = regression.design(samples, session.names, _regressors(wanted), tuple(wanted))
    sums = session.run(SplinePass(design)).products
    session.step("solve")
    sources: list[Source] = []
    for target, sets in wanted.items():
        fits = [regression.fits(design, sums, target, given) for given in sets]
        function = SplineResiduals.of(design, fits)
        others = tuple(session.sources[j] for j in function.variables)
        sources.append(DerivedSource(session.names[target], others, function, function.width))
    return sources


def _regressors(wanted: Regressions) -> tuple[int, ...]:
    """Numbers of what any variable is regressed on, ascending."""
    return tuple(sorted({j for sets in wanted.values() for given in sets for j in given}))


def _held(session: Session, regression: Regression, wanted: Regressions) -> list[Source]:
    """Residuals of a regression that needs all rows at once."""
    session.step("read all rows")
    values = session.take([np.arange(session.n)] * len(session.sources))
    sources: list[Source] = []
    for target, sets in wanted.items():
        made = []
        for given in sets:
            session.step(f"regression of {session.names[target]} on {len(given)} others")
            rng = generator(session.seed, "regression", target, *given)
            made.append(regression.residuals(values[target], [values[j] for j in given], rng))
        sources.append(ArraySource(session.names[target], np.concatenate(made, axis=1)))
    return sources
