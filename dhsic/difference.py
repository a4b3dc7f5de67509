"""Which of two variables another one depends on more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import scipy

from dhsic import plots
from dhsic._arguments import (
    Kernels,
    RunOptions,
    UntimedArguments,
    choose_measure,
    read_single_kernels,
    takes_run,
)
from dhsic._fields import run_fields
from dhsic._validation import check_level
from dhsic.engine.plan import plans
from dhsic.engine.session import Deletion, Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import Estimator, EstimatorName
from dhsic.estimators.program import Intervals, plan_of_blocks
from dhsic.io.variables import Missing
from dhsic.kernels import Combinations
from dhsic.report import Findings
from dhsic.results import Interval, RunFields, pvalue_text
from dhsic.statistics.jackknife import Jackknifed, Parts, jackknife

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROUNDING = 1e-9  # of the measures
_WHAT = "a difference of dependences"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DependenceDifference(RunFields):
    """How much more a variable depends on one variable than on another.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data, missing
        Of the run, see `dhsic.results.RunFields`.
    names : tuple of str
        Names of x1, x2 and y.
    estimator : str
        The name of the measure of dependence.
    estimates : tuple of float
        The measures of x1 and y, and of x2 and y, less their bias: the centres of their intervals.
    intervals : tuple of Interval
        Theirs.
    difference : float
        The first less the second, the centre of its interval.
    interval : Interval
        That of the difference.
    pvalue : float
        Of the hypothesis that the difference of the population is 0, of either sign.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> a, b, e = np.random.default_rng(0).standard_normal((3, 500))
    >>> found = dhsic.dependence_difference(a, b, 2 * a + b + e, rng=0)
    >>> found.difference > 0, found.interval.low > 0
    (True, True)
    """

    names: tuple[str, ...]
    estimator: str
    estimates: tuple[float, float]
    intervals: tuple[Interval, Interval]
    difference: float
    interval: Interval
    pvalue: float

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        return [
            ("n", self._rows_told),
            ("measure", self.estimator),
            *((term, interval.told) for term, interval in self._measures),
            ("p-value", pvalue_text(self.pvalue, None, 0)),
            *self._tail(),
        ]

    def records(self) -> list[dict[str, Any]]:
        """A row a measure, and one of the difference."""
        each = zip(self._measures, (None, None, self.pvalue), strict=True)
        return [
            {"term": term, "method": self.estimator, "p_value": p, "n": self.n}
            | {"estimate": interval.centre, **interval.columns}
            for (term, interval), p in each
        ]

    @property
    def _measures(self) -> list[tuple[str, Interval]]:
        """Name and interval of both measures, and of their difference."""
        x1, x2, y = self.names
        terms = f"{x1}, {y}", f"{x2}, {y}", "difference"
        return list(zip(terms, (*self.intervals, self.interval), strict=True))

    def findings(self, alpha: float, control: str) -> Findings:
        del control
        x1, x2, y = self.names
        more, less = (x1, x2) if self.difference > 0.0 else (x2, x1)
        lead = f"{y} depends more on {more} than on {less} (p = {self.pvalue:.3g})"
        if self.pvalue > alpha:
            lead = f"Whether {y} depends more on {x1} or on {x2} is open (p = {self.pvalue:.3g})"
        title = f"Dependence of {y} on {x1} and on {x2}"
        words = "The measures and their difference, with their intervals."
        return Findings(title, lead, {words: self.plot}, {"Measures": self.records()})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the measures and their difference with their intervals.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        MissingDependencyError
            matplotlib is not installed.
        """
        terms, intervals = zip(*self._measures, strict=True)
        centres = [one.centre for one in intervals]
        axes = plots.draw_bars(ax, terms, centres, f"{self.estimator}, corrected for bias")
        plots.draw_intervals(axes, np.array([(one.low, one.high) for one in intervals]))
        return axes


@partial(takes_run, taken=UntimedArguments)
def dependence_difference(
    *variables: Any,
    kernels: Kernels | None = None,
    estimator: EstimatorName | Estimator = "cka",
    confidence: float = 0.95,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    **options: Unpack[UntimedArguments],
) -> DependenceDifference:
    """Estimate how much more y depends on x1 than on x2.

    Both measures are of the same rows, so that their errors go together: the jackknife leaves the
    same blocks of rows out of both [1]_, and the interval of the difference is narrower than those
    of the measures suggest.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        x1, x2 and y, as for `independence_test`.
    kernels : str, Kernel or three of them, optional
        As for `hsic`.
    estimator : str or Estimator, optional
        A measure whose values can be compared between variables: "cka", which compares all pairs
        of up to 5,000 rows and takes landmarks of more, or "dcor". Squared HSIC can, where x1 and
        x2 have the same kernel and the same law.
    confidence : float, optional
        The level of the intervals.
    names, data, missing, rng, precision, client, threads, memory, progress, checkpoint
        As for `independence_test`.

    Returns
    -------
    DependenceDifference
        The p-value is that of Student's t of the difference over its standard error. It is not
        exact, and is cautious where y depends on neither.

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `independence_test`; fewer than 40 rows, or an estimator without intervals.

    References
    ----------
    .. [1] F. Busing, E. Meijer, R. Van der Leeden. Delete-m jackknife for unequal m. Statistics and
       Computing 9, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> a, b, e = np.random.default_rng(0).standard_normal((3, 500))
    >>> dhsic.dependence_difference(a, b, a + b + e, rng=0).pvalue > 0.05
    True
    >>> dhsic.dependence_difference(a, b, a + e, rng=0).pvalue < 0.01
    True
    """
    check_level(confidence, "confidence", "as 0.95")
    run = RunOptions(**options)
    session = run.open(variables, names, data, missing, what=_WHAT)
    if len(session.sources) != 3:
        msg = f"{_WHAT} takes three variables, x1, x2 and y, got {len(session.sources)}"
        raise InvalidArgumentError(msg)
    asked, chosen = read_single_kernels(kernels, 3, _WHAT), estimator
    each = list[Intervals]()
    # Both by one estimator: what fits the memory for the wider variable fits it for the other.
    for first in sorted((0, 1), key=lambda m: -session.dims[m]):
        pair, some = _pair(session, first), (asked[first], asked[2])
        chosen, _, fitting = choose_measure(pair, some, chosen, planner=plan_of_blocks)
        each.insert(first, Intervals.of(pair, chosen, Combinations.single(fitting), confidence))
    # The same blocks are left out of both.
    blocks = min(one.blocks for one in each)
    each = [replace(one, blocks=blocks) for one in each]

    def measure(part: Session) -> list[Sequence[Parts]]:
        return [one.measure(_pair(part, first)).parts for first, one in enumerate(each)]

    def assess(run: Session) -> Jackknifed:
        return jackknife(run.leaving_out(Deletion(blocks)), measure)

    pilot = partial(session.timed, assess)
    first_plan, second = (one.plan(_pair(session, first)) for first, one in enumerate(each))
    steps = *first_plan.steps[:-1], *second.steps  # blocks are left out of both at once
    plan = replace(first_plan, variables=session.names, steps=steps, pilot=pilot)
    session.begin(plan)
    session.resume(computes=_WHAT, measures=each)
    both = assess(session)
    intervals = each[0].interval(both, 0), each[1].interval(both, 1)
    measured = both.difference.measured(unbiased=each[0].unbiased)
    interval = measured.signed_interval(confidence, each[0].estimator.largest)
    # Measures that are equal but for rounding differ by nothing.
    apart = abs(interval.centre) > _ROUNDING * max(map(abs, both.values))
    t = interval.centre / interval.error if apart and interval.error else (np.inf if apart else 0.0)
    return DependenceDifference(
        names=session.names,
        estimator=each[0].estimator.name,
        estimates=(intervals[0].centre, intervals[1].centre),
        intervals=intervals,
        difference=interval.centre,
        interval=interval,
        pvalue=float(2.0 * scipy.stats.t.sf(abs(t), interval.degrees)),
        **run_fields(session),
    )


@plans(dependence_difference)
def plan_difference() -> None:
    """Plan `dependence_difference`: its steps and their memory; runs nothing.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        As for `dependence_difference`.
    kernels, estimator, confidence, names, data, missing
        As for `dependence_difference`.
    precision, client, threads, memory
        As for `dependence_difference`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> dhsic.plan_difference(*np.random.default_rng(0).standard_normal((3, 500))).n
    500
    """


def _pair(session: Session, first: int) -> Session:
    """The run over one of the two variables and the last one."""
    sources = session.sources[first], session.sources[2]
    return session.over(sources, f"variable {first} and the last")
