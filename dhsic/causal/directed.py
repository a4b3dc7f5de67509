"""Both directions of two variables: what is planned, and what runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dhsic._random import generator
from dhsic._validation import check_integer
from dhsic.causal.measure import MeasuredSide, ResidualMeasure
from dhsic.causal.nodes import FEWEST_ROWS
from dhsic.causal.units import plan_units, standardised_variables, standing_in
from dhsic.engine.blocks import Source
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.estimators import VHSIC, Estimator
from dhsic.estimators.base import plan_of
from dhsic.estimators.reach import Offer, Way, first_that_fits, powers_below, telling
from dhsic.io.sources import ArraySource
from dhsic.kernels import Combinations
from dhsic.regression.residuals import Regression, fit_regressions, plan_regressions
from dhsic.results import AS_ASKED

_FEWEST_CHOSEN = 256
_GAUSSIAN_PROCESS_ROWS, _ALL_PAIRS_ROWS = 2048, 2**17  # of a run of minutes
_REMEDY = "take fewer rows by max_rows, fewer landmarks or threads, or regression='splines'"
_GIVEN = {1: [(0,)]}  # the effect given the cause


class RowsUsed(NamedTuple):
    """How many rows are used."""

    number: int
    """At most all of them."""
    reason: str
    """Why so many."""


class BothDirections(NamedTuple):
    """Two standardised variables, and the residuals of each given the other."""

    variables: tuple[Source, Source]
    """The first and the second."""
    residuals: tuple[Source, Source]
    """Those of the second, and those of the first."""


@dataclass(frozen=True)
class Directed:
    """Regressions of two variables on each other, and how their residuals are measured.

    Parameters
    ----------
    session : Session
        Over the two variables.
    regression : Regression
        How each is regressed on the other.
    measure : ResidualMeasure
        How the dependence of residuals is measured.
    """

    session: Session
    regression: Regression
    measure: ResidualMeasure

    def rows(self, most: int | None) -> RowsUsed:
        """As many rows as were asked for, or as fit the memory and the time."""
        n = self.session.n
        if most is not None:
            return RowsUsed(min(n, check_integer("max_rows", most, minimum=FEWEST_ROWS)), AS_ASKED)
        if getattr(self.regression, "regressor", "") == "gaussian-process":
            n = min(n, _GAUSSIAN_PROCESS_ROWS)
        elif isinstance(self.measure.estimator, VHSIC) or str(self.measure.estimator) == VHSIC.name:
            n = min(n, _ALL_PAIRS_ROWS)
        # All rows, or the powers of two below, until the plan fits.
        offers = [
            Offer(k, f"{k:,} rows", partial(self.plan, k), partial(self._run, k))
            for k in powers_below(n, min(n, _FEWEST_CHOSEN))
        ]
        number, reason = first_that_fits(self.session, [offers])
        if not reason and number < self.session.n:
            reason = f"{number:,} rows, since more would take long: set max_rows for them"
        return RowsUsed(number, reason or AS_ASKED)

    def _run(self, rows: int, session: Session) -> object:
        return replace(self, session=session).settled(rows)[0].measured(rows)

    def settled(self, rows: int) -> tuple[Directed, str]:
        """With the estimator for so many rows, the same for both directions, and why this one."""

        def planner(estimator: Estimator, session: Session, combinations: Combinations) -> Plan:
            del session, combinations  # of one side, where the plan is of all that runs
            return replace(self, measure=replace(self.measure, estimator=estimator))._plan(rows)

        def runner(estimator: Estimator, some: Session, combinations: Combinations) -> object:
            del combinations
            measure = replace(self.measure, estimator=estimator)
            whole = some.over(self.session.sources)
            return replace(self, session=whole, measure=measure).measured(rows)

        session, _ = self._selected(rows)
        side = _residual_session(session, *_stand_ins(session))
        measure, reason = self.measure.settled(side, planner, runner)
        return replace(self, measure=measure), reason

    def told(self, rows: int) -> Plan:
        """The plan, whose refusal names the most rows that fit."""
        return telling(self.plan(rows), [Way("rows", rows, self.plan, min(rows, _FEWEST_CHOSEN))])

    def plan(self, rows: int) -> Plan:
        """All steps with so many rows."""
        return self.settled(rows)[0]._plan(rows)

    def _plan(self, rows: int) -> Plan:
        session, steps = self._selected(rows)
        steps = [*steps, *plan_units(session)]
        landmarks = None
        first, second = _stand_ins(session)
        for cause, effect in ((first, second), (second, first)):
            steps += plan_regressions(session.over([cause, effect]), self.regression, _GIVEN)
            measured = self.measure.plan(_residual_session(session, cause, effect))
            steps += measured.steps
            landmarks = measured.n_landmarks
        return plan_of(session, steps, _REMEDY, landmarks)

    def _selected(self, rows: int) -> tuple[Session, list[DriverStep | PassPlan]]:
        """Stand-ins of the selected rows, which are held, and the step that reads them."""
        whole = self.session
        if rows == whole.n:
            return whole, []
        size = 8 * rows * sum(whole.dims)
        fetch = size + max(source.take_bytes for source in whole.sources)
        # A plan asks for shapes, so that the rows take no memory.
        zero = np.float64(0.0)
        stand_ins = [
            ArraySource(source.name, np.broadcast_to(zero, (rows, source.shape[1])))
            for source in whole.sources
        ]
        return whole.over(stand_ins), [DriverStep("select rows", size + fetch, size)]

    def select(self, rows: int) -> Session:
        """The session over so many rows, drawn at random and held where they are not all."""
        whole = self.session
        if rows == whole.n:
            return whole
        whole.step("select rows")
        # At random and not the first ones: data are often stored sorted.
        drawn = generator(whole.seed, "selection").choice(whole.n, rows, replace=False)
        # In order, so that chunks are read one after another.
        numbers = np.sort(drawn)
        values = whole.take([numbers] * len(whole.sources))
        pairs = zip(whole.names, values, strict=True)
        return whole.over([ArraySource(name, x) for name, x in pairs], "selected rows")

    def measured(self, rows: int) -> tuple[MeasuredSide, MeasuredSide]:
        """The first variable as the cause, and the second."""
        session = self.select(rows)
        first, second = standardised_variables(session)
        # One after the other by the same draws, so that exchanged variables give the opposite.
        forward = self._side(session, first, second, "forward")
        return forward, self._side(session, second, first, "backward")

    def residuals(self, rows: int) -> BothDirections:
        """The variables and their residuals, to be measured in several ways."""
        session = self.select(rows)
        first, second = standardised_variables(session)
        of_second = self._regressed(session, first, second, "forward").sources[1]
        of_first = self._regressed(session, second, first, "backward").sources[1]
        return BothDirections((first, second), (of_second, of_first))

    def _side(self, session: Session, cause: Source, effect: Source, way: str) -> MeasuredSide:
        return self.measure.side(self._regressed(session, cause, effect, way))

    def _regressed(self, session: Session, cause: Source, effect: Source, way: str) -> Session:
        """The session over a cause and the residuals of its effect."""
        both = session.over([cause, effect], way)
        (left,) = fit_regressions(both, self.regression, _GIVEN).variables(_GIVEN)
        named: Any = replace(left, name=_residuals_of(effect))  # type: ignore[type-var]
        return both.over([cause, named], "residuals")


def _stand_ins(session: Session) -> tuple[Source, Source]:
    """The standardised variables, for plans."""
    first, second = (
        standing_in(source.name, (source,), source.shape[1]) for source in session.sources
    )
    return first, second


def _residual_session(session: Session, cause: Source, effect: Source) -> Session:
    """The session over a cause and the residuals of its effect, for plans."""
    left = standing_in(_residuals_of(effect), (effect, cause), effect.shape[1])
    return session.over([cause, left])


def _residuals_of(effect: Source) -> str:
    return f"residuals of {effect.name}"
