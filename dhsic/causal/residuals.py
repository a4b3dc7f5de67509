"""Residuals of many regressions as variables, streamed where the regression is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.causal.design import SplineDesign
from dhsic.causal.regression import CrossFitted, Regression
from dhsic.causal.rows import SplineResiduals
from dhsic.causal.splines import PILOT_ROWS, Splines, check_varied
from dhsic.engine.blocks import Source
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.derived import DerivedSource
from dhsic.io.sources import ArraySource

Vector = NDArray[np.float64]
Regressions = Mapping[int, Sequence[tuple[int, ...]]]
"""Sets of regressors of every variable that is regressed, by number."""

_TILE_ROWS = 4096
_ROUNDING = 1e-12  # of the variance


class FoldSums(NamedTuple):
    """Sums over rows of the products of a design."""

    products: Vector
    """Products of every fold, shape (n_folds, q, q)."""


@dataclass(frozen=True)
class SplinePass(Pass[FoldSums]):
    """All that regressions on splines need, in one pass whatever their number.

    Parameters
    ----------
    design : SplineDesign
        Design of all variables.
    name : str, optional
        Name of the pass in progress reports.
    """

    design: SplineDesign
    name: str = "regressions"

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        q, folds = self.design.size, self.design.n_folds
        state = 8 * folds * q * q
        scratch = 8 * 3 * min(rows, _TILE_ROWS) * q + state
        return Footprint(self.design.nbytes, scratch, state)

    def chunk(self, block: RowBlock) -> FoldSums:
        """Sums over one block."""
        q = self.design.size
        sums = np.zeros((self.design.n_folds, q, q))
        # In tiles, since the rows of splines are wider than those that are read.
        for start in range(0, block.rows, _TILE_ROWS):
            at = slice(start, min(start + _TILE_ROWS, block.rows))
            rows = np.arange(block.start + at.start, block.start + at.stop)
            sums += self.design.sums(rows, [values[at] for values in block.values])
        return FoldSums(sums)


def plan_regressions(
    session: Session, regression: Regression, wanted: Regressions
) -> list[DriverStep | PassPlan]:
    """The plan of `residual_variables`.

    Parameters
    ----------
    session : Session
        Over the variables.
    regression : Regression
        How they are regressed.
    wanted : mapping of int to sequence of tuple of int
        Sets of regressors of every target.

    Returns
    -------
    list of DriverStep or PassPlan
    """
    n, dims = session.n, session.dims
    if not isinstance(regression, Splines):
        reading = DriverStep("read all rows", 3 * 8 * n * sum(dims), 8 * n * sum(dims))
        return [reading, *_held_steps(session, regression, wanted)]
    design = _guessed_design(
        regression, tuple(dims), tuple(session.names), _regressors(wanted), tuple(wanted)
    )
    rows = 8 * min(n, PILOT_ROWS) * (sum(dims) + design.size)
    fetch = 3 * rows + max(source.take_bytes for source in session.sources)
    square = 8 * regression.n_folds * design.size**2
    return [
        DriverStep("pilot rows", fetch),
        session.plan(SplinePass(design)),
        DriverStep("solve", 5 * square, square),
    ]


@lru_cache(maxsize=16)
def _guessed_design(
    regression: Splines,
    dims: tuple[int, ...],
    names: tuple[str, ...],
    regressors: tuple[int, ...],
    targets: tuple[int, ...],
) -> SplineDesign:
    """A design of so many columns; plans of many numbers of rows ask for the same one."""
    # A plan reads no rows; without values that repeat there are as many knots as there can be.
    guess = [np.tile(np.linspace(0.0, 1.0, 1000)[:, None], (1, d)) for d in dims]
    return regression.design(guess, names, regressors, targets)


def _held_steps(session: Session, regression: Regression, wanted: Regressions) -> list[DriverStep]:
    """The regressions of `_HeldResiduals`, whose residuals stay."""
    n, dims = session.n, session.dims
    made = sum(8 * n * dims[target] * len(sets) for target, sets in wanted.items())
    # Nothing is known of the regressions of a user.
    beside = regression.working_bytes(n) if isinstance(regression, CrossFitted) else 0
    return [
        DriverStep(_regressing(session, target, own), 2 * made + beside, 8 * n * dims[target])
        for target, sets in wanted.items()
        for own in sets
    ]


def _regressing(session: Session, target: int, given: tuple[int, ...]) -> str:
    return f"regression of {session.names[target]} on {len(given)} others"


class FittedRegressions(Protocol):
    """Regressions among variables, from which the residuals of any of them can be had."""

    def variables(self, wanted: Regressions) -> list[Source]:
        """For everything that is regressed a variable: its residuals given every set, in order."""
        ...


def fit_regressions(
    session: Session, regression: Regression, wanted: Regressions
) -> FittedRegressions:
    """Sums that all regressions among some variables need.

    Parameters
    ----------
    session : Session
        Over the variables.
    regression : Regression
        How they are regressed: splines in one pass, and their residuals are computed when they are
        read; others on all rows, in the memory of this process.
    wanted : mapping of int to sequence of tuple of int
        Targets, with regressors of any kind.

    Returns
    -------
    FittedRegressions

    Raises
    ------
    DataError
        A column of what others are regressed on is constant.
    """
    if not isinstance(regression, Splines):
        session.step("read all rows")
        values = session.take([np.arange(session.n)] * len(session.sources))
        for x, name in zip(values, session.names, strict=True):
            check_varied(x, name)
            x.flags.writeable = False  # a regression of a user may write into what it gets
        return _HeldResiduals(session, regression, tuple(values))
    n = session.n
    session.step("pilot rows")
    pilot = np.arange(n)
    # Knots and provisional means need a sample of the rows alone.
    if n > PILOT_ROWS:
        pilot = generator(session.seed, "regression").choice(n, PILOT_ROWS, replace=False)
    samples = session.take([pilot] * len(session.sources))
    design = regression.design(samples, session.names, _regressors(wanted), tuple(wanted))
    sums = session.reduce(SplinePass(design)).products
    session.step("solve")
    return _Streamed(session, regression, design, sums)


def residual_variables(
    session: Session, regression: Regression, wanted: Regressions
) -> list[Source]:
    """Regress, and return a variable for everything that is regressed.

    Parameters
    ----------
    session, regression, wanted
        As for `fit_regressions`.

    Returns
    -------
    list of source
        In the order of `wanted`; the columns of a target given the first set come first.

    Raises
    ------
    DataError
        As for `fit_regressions`, or there are too few rows.
    """
    return fit_regressions(session, regression, wanted).variables(wanted)


@dataclass(frozen=True)
class _Streamed:
    """Regressions on splines, which sums determine."""

    session: Session
    regression: Splines
    design: SplineDesign
    sums: Vector

    def variables(self, wanted: Regressions) -> list[Source]:
        """Residuals that are computed when they are read."""
        sources: list[Source] = []
        for target, sets in wanted.items():
            fits = [self.regression.fits(self.design, self.sums, target, own) for own in sets]
            for own, parts in zip(sets, fits, strict=True):
                _check_noise(self.session, target, own, np.min([fit.left for fit in parts]))
            function = SplineResiduals.of(self.design, fits)
            others = tuple(self.session.sources[j] for j in function.variables)
            name = self.session.names[target]
            sources.append(DerivedSource(name, others, function, function.width))
        return sources


@dataclass(frozen=True)
class _HeldResiduals:
    """Regressions that need all rows at once."""

    session: Session
    regression: Regression
    values: tuple[Vector, ...]

    def variables(self, wanted: Regressions) -> list[Source]:
        """Residuals in memory."""
        return [
            ArraySource(
                self.session.names[target],
                np.concatenate([self._residuals(target, own) for own in sets], axis=1),
            )
            for target, sets in wanted.items()
        ]

    def _residuals(self, target: int, given: tuple[int, ...]) -> Vector:
        """The same draws for the same regression, in whatever order they come."""
        name = _regressing(self.session, target, given)
        self.session.step(name)
        rng = generator(self.session.seed, "regression", target, *given)
        y, x = self.values[target], [self.values[j] for j in given]

        def regress() -> Vector:
            left = self.regression.residuals(y, x, rng)
            return _checked(left, self.regression.name, y.shape)

        left = self.session.keep(name, regress, (self.regression, target, given))
        # As shares of the variance, so that units do not matter.
        _check_noise(self.session, target, given, np.min(left.var(axis=0) / y.var(axis=0)))
        return left


def _checked(left: Any, name: str, shape: tuple[int, ...]) -> Vector:
    """Residuals as a regression returned them, which may be one of a user."""
    try:
        residuals = np.asarray(left, np.float64)
        found = f"shape {residuals.shape}"
    except (TypeError, ValueError):
        residuals, found = np.empty(0), type(left).__name__
    if residuals.shape == shape and not np.isfinite(residuals).all():
        found = f"{residuals[~np.isfinite(residuals)][0]} among them"
    elif residuals.shape == shape:
        return residuals
    msg = (
        f"regression {name!r} must return finite residuals of the shape of its target, {shape}, "
        f"got {found}: return target - predictions, a row each"
    )
    raise InvalidArgumentError(msg)


def _check_noise(
    session: Session, target: int, given: tuple[int, ...], left: np.floating[Any]
) -> None:
    """Refuse residuals that are nothing but rounding."""
    # In this form it refuses NaN, too.
    if given and not left > _ROUNDING:
        others = ", ".join(repr(session.names[j]) for j in given)
        msg = (
            f"variable {session.names[target]!r} is a function of {others} up to rounding, so its "
            "residuals say nothing: leave one of them out"
        )
        raise DataError(msg)


def _regressors(wanted: Regressions) -> tuple[int, ...]:
    """Numbers of what any variable is regressed on, ascending."""
    return tuple(sorted({j for sets in wanted.values() for given in sets for j in given}))
