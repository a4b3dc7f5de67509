"""Dependence of one series on another at many lags, in one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic import plots
from dhsic._arguments import Kernels, RunArguments, RunOptions, choose_measure, takes_run
from dhsic._fields import run_batch, run_fields, variable_summary
from dhsic._rows import Order, RowLabels
from dhsic._validation import check_choice, check_level, shown
from dhsic.engine.plan import Plan, plans
from dhsic.engine.session import Session
from dhsic.engine.units import format_count
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import VHSIC, Estimator, GridOutcome, NystromHSIC
from dhsic.estimators.choose import choose_estimator, plan_once, run_null
from dhsic.io.variables import GapTreatment
from dhsic.kernels import Combinations
from dhsic.nulls import Shifts, TimeOrder, pvalues
from dhsic.report import Findings
from dhsic.results import RunFields, VariableSummary
from dhsic.statistics.orbit import Orbit, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LagScan", "lag_scan", "plan_lag_scan"]

LagEstimator = Literal["auto", "v-hsic", "nystrom-hsic"]
Vector = NDArray[np.float64]

_LEVEL = 0.05
_LARGEST = 4  # rows for one of the largest lag: of a lag l, l of n pairs of rows are none
_PIECE = 2**14  # rows at least
_TIMES = 64  # the largest lag, or the least L, of a piece


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LagScan(RunFields):
    """The dependence of y(t) on x(t - l) at every lag l.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data, missing
        Of the run, see `dhsic.results.RunFields`.
    lags : tuple of int
        The W lags l, in rows, ascending.
    statistics : ndarray, shape (W,)
        T(l), the rows times the estimate.
    hsic : ndarray, shape (W,)
        Squared HSIC of x(t - l) and y(t).
    cka : ndarray, shape (W,)
        (HSIC(x, y) - c) / (sqrt(HSIC(x, x) HSIC(y, y)) - c) with c the mean of HSIC(x, y) over all
        shifts around, by whole periods: at most 1, and 0 on average without dependence.
    spread : ndarray, shape (W,)
        Standard deviation of CKA over these shifts.
    pvalues : ndarray, shape (W,)
        P-values of every lag by itself.
    adjusted : ndarray, shape (W,)
        P-values adjusted by max-T: those of at most alpha have any false discovery with a
        probability of at most alpha.
    null_distribution : ndarray, shape (b - 1,)
        For every replicate, the largest CKA of all lags over its `spread`.
    step : int
        Rows L of whose multiples these shifts are.
    names : tuple of str
        Those of x and y.
    variables : tuple of VariableSummary
        The same with their kernels.
    estimator, estimator_reason : str
        The estimator, and why this one.
    null, null_reason : str
        The null distribution, and how it was made.

    References
    ----------
    .. [1] P. Westfall, S. Young. Resampling-based multiple testing. Wiley 1993, for max-T.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 400))
    >>> y[2:] += x[:-2]
    >>> scan = dhsic.lag_scan(x, y, 4, rng=0)
    >>> scan.lags[int(scan.cka.argmax())], scan.dependent()
    (2, (2,))
    """

    _tabular: ClassVar[bool] = True

    lags: tuple[int, ...]
    statistics: Vector
    hsic: Vector
    cka: Vector
    spread: Vector
    pvalues: Vector
    adjusted: Vector
    null_distribution: Vector
    step: int
    names: tuple[str, ...]
    variables: tuple[VariableSummary, ...]
    estimator: str
    estimator_reason: str
    null: str
    null_reason: str

    def dependent(self, alpha: float = 0.05) -> tuple[int, ...]:
        """Lags at which independence is rejected; any falsely with a probability of at most alpha.

        Parameters
        ----------
        alpha : float, optional
            The level.

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        """
        return tuple(np.array(self.lags)[self.adjusted <= check_level(alpha)].tolist())

    def critical_values(self, alpha: float = 0.05) -> Vector:
        """The CKA that is exceeded at the lags of `dependent`, shape (W,).

        Parameters
        ----------
        alpha : float, optional
            The level.

        Returns
        -------
        ndarray
            NaN where replicates are too few for the level.

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        """
        values, level = self.null_distribution, check_level(alpha)
        critical = plots.critical_value(values, level, resampled=True)
        return self.spread * (np.nan if critical is None else critical)

    @property
    def least_adjusted(self) -> float:
        """The smallest adjusted p-value that shifts can attain.

        Shifts by the difference of two lags meet the strongest of them again, so that it is about
        the number of lags, or L where that is more, over the rows.
        """
        # T(l) is that of lag l - k L after a shift by k L.
        meeting = Counter(lag % self.step for lag in self.lags)
        return min(meeting.values()) / (len(self.null_distribution) + 1)

    def summary(self, alpha: float = _LEVEL) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads, with the decision at a level."""
        least = self.least_adjusted
        few = ": take fewer lags or more rows" if least > alpha else ""
        return [
            ("lags", f"{len(self.lags):,} of {' before '.join(self.names)}"),
            ("n", self._rows_told),
            ("dependent", self.decision(alpha)),
            ("p-values", f"{least:.3g} at least when adjusted{few}"),
            ("estimator", f"{self.estimator}: {self.estimator_reason}"),
            ("null", f"{self.null}: {self.null_reason}"),
            *self._tail(),
        ]

    def decision(self, alpha: float) -> str:
        """How many lags depend at a level, in words, and where CKA is largest."""
        found, count = len(self.dependent(alpha)), format_count(len(self.lags), "lag")
        most = f"CKA is largest at lag {self.lags[int(self.cka.argmax())]}"
        return f"{found:,} of {count} at level {alpha:g} by max-T; {most}"

    def records(self) -> list[dict[str, Any]]:
        """Every lag."""
        (x, y), method = self.names, f"{self.estimator}, {self.null}"
        names = "lag", "statistic", "estimate", "cka", "p_value", "p_adjusted"
        each = self.statistics, self.hsic, self.cka, self.pvalues, self.adjusted
        rows = zip(self.lags, *(one.tolist() for one in each), strict=True)
        return [
            {"x": x, "y": y, **dict(zip(names, row, strict=True)), "method": method} for row in rows
        ]

    def findings(self, alpha: float, control: str) -> Findings:
        del control
        x, y = self.names
        words = f"CKA of {y} and an earlier {x} by the lag; the broken line is the critical value."
        pictures = {words: partial(self.plot, alpha=alpha)}
        title = f"At which lags does {y} depend on {x}?"
        return Findings(title, self.decision(alpha), pictures, {"Lags": self.records()})

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05) -> Axes:
        """CKA by the lag, with the critical value of the largest of all lags.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.
        alpha : float, optional
            The level of the critical value.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        MissingDependencyError
            matplotlib is not installed.
        """
        (x, y), critical = self.names, self.critical_values(alpha)
        axes, said = plots.axes_of(ax, (6.4, 3.8)), f"critical value at {100 * alpha:g} %, max-T"
        axes.stem(self.lags, self.cka, linefmt=plots.BLUE, basefmt=plots.GREY, label="CKA")
        axes.plot(self.lags, critical, color=plots.ORANGE, linestyle="--", label=said)
        axes.set(xlabel=f"rows by which {y} is behind {x}", ylabel="CKA")
        axes.spines[["top", "right"]].set_visible(False)
        plots.legend_above(axes)
        return axes


@takes_run
def lag_scan(
    x: Any,
    y: Any,
    lags: int | Sequence[int],
    *,
    kernels: Kernels | None = None,
    estimator: LagEstimator | VHSIC | NystromHSIC = "auto",
    n_resamples: int | None = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: GapTreatment = "refuse",
    order: Order = "time",
    **options: Unpack[RunArguments],
) -> LagScan:
    """Find the lags at which one series depends on another.

    The statistic T(l) of a lag l is that of x(t) and y(t + l), with y shifted around by l rows, so
    that l of its n pairs of rows join the end of one series and the start of the other. One pass
    over the data gives it at all shifts, since its sums are circular cross-correlations. A series
    of 32,768 rows or more is cut into pieces of 16,384 or more, at least 64 times the largest lag
    and L, which are shifted around each by itself and all alike.

    Shifts of the series are the replicates, as in `independence_test` with `order` [1]_: lag l of
    replicate k has T(l + k L). Where the series are independent and one of them is stationary and
    long beside its memory, the b shifts by multiples of L are exchangeable, whatever the serial
    dependence of either, and so is the largest T(l) of all lags. Max-T compares every T(l) with
    that, and so accounts for all lags however they depend on each other [2]_. Shifts that are
    nearer to the data than the lags span stay among the replicates, although they meet the
    strongest lag again: without them the level would not hold. So the smallest adjusted p-value is
    about the number of lags over that of rows, see `LagScan.least_adjusted`.

    Parameters
    ----------
    x, y : array-like, shapes (n,) or (n, d)
        As for `independence_test`, in the order of time, at equal intervals.
    lags : int or sequence of int
        Rows by which y is behind x; where y leads they are negative. A number m stands for all lags
        from -m to m. Up to a quarter of the rows.
    kernels : str, Kernel or a sequence of them, optional
        One for both series, or one a series; "gaussian" where not given, of categories "delta".
    estimator : str, VHSIC or NystromHSIC, optional
        "auto" takes "v-hsic", quadratic in n, for up to 2,000 rows, and "nystrom-hsic" with
        principal features of 256 landmarks beyond; or one of these by name or value.
    n_resamples : int, optional
        About how many shifts are replicates, 1,000 where not given, or as many as there are.
    names, data
        As for `independence_test`.
    missing : {"refuse", "drop", "pairwise"}, optional
        As for `independence_test`; rows with a gap cannot be dropped, since those behind them would
        have other lags.
    order : "time" or TimeOrder, optional
        The least L, one row or the period where not given, and the period of which it is a
        multiple.
    rng, precision, client, threads, memory, time, progress, checkpoint
        As for `independence_test`.

    Returns
    -------
    LagScan

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `independence_test`; lags that are no different integers, or are beyond a quarter of
        the rows; rows that would be dropped.

    References
    ----------
    .. [1] K. Chwialkowski, A. Gretton. A kernel independence test for random processes. ICML 2014,
       section 4.
    .. [2] P. Westfall, S. Young. Resampling-based multiple testing. Wiley 1993, section 2.3.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 500))
    >>> y[3:] += x[:-3] ** 2
    >>> dhsic.lag_scan(x, y, range(6), rng=0).dependent()
    (3,)
    """
    run = RunOptions(**options)
    session = run.open((x, y), names, data, missing, RowLabels(order=order), pairwise=True)
    series, count = session.moves, Shifts() if n_resamples is None else Shifts(n_resamples)
    if session.dropped or not isinstance(series, Series):
        msg = (
            f"lags are of all rows in the order of time, got order={shown(order)} and "
            f"{session.dropped:,} rows left out: take order='time', and missing='pairwise' for gaps"
        )
        raise InvalidArgumentError(msg)
    asked, ordered = _read_lags(lags, session.n), TimeOrder() if order == "time" else order
    least = ordered.lag or ordered.period
    # Pieces of a long series, of a length whose features and transforms fit in memory.
    pieces = session.n // max(_PIECE, _TIMES * max(least, *map(abs, asked))) or 1
    length = session.n // pieces
    rows = np.arange(pieces * length).reshape(pieces, length)
    series = replace(series, series=tuple(rows), lag=least)
    steps = series.groups(count.n_resamples)
    step = series.step(length, steps.size)
    law = Shifts(step * steps.size)
    # By every number of rows, around those that the steps move.
    around = replace(series, series=tuple(rows[:, : law.n_resamples]), lag=1, period=1)
    session = replace(session, moves=around, remedy="; missing='pairwise' keeps their places")
    check_choice("estimator", getattr(estimator, "name", estimator), get_args(LagEstimator))
    _, _, fitting = choose_measure(session, kernels, VHSIC())
    pair = Combinations.against(fitting[:1], fitting[1])

    def planner(one: Estimator, some: Session, both: Combinations) -> Plan:
        plan = plan_once(one, some, both, law)
        # Replicates of all lags, in a few arrays.
        return replace(plan, closing_bytes=plan.closing_bytes + 64 * len(asked) * steps.size)

    method, _, reason = choose_estimator(estimator, session, pair, law, None, planner=planner)
    runner, of = partial(run_null, null=law), {"computes": "lag scan", "lags": asked}  # type: Any, Any
    found = run_batch(session, planner, runner, method, pair, law, fitting, **of)
    return LagScan(
        lags=asked,
        step=step,
        names=session.names,
        variables=tuple(map(variable_summary, session.sources, found.combinations.kernels)),
        estimator=method.name,
        estimator_reason=reason,
        null=law.name,
        null_reason=f"{series.assumption}; {Orbit(steps, 1).detail}",
        **_scanned(session, (step, series.period), asked, found),
        **run_fields(session),
    )


@plans(lag_scan)
def plan_lag_scan() -> None:
    """Plan `lag_scan`: its steps and their memory; runs nothing.

    Parameters
    ----------
    x, y, lags
        As for `lag_scan`.
    kernels, estimator, n_resamples, names, data, missing, order
        As for `lag_scan`.
    precision, client, threads, memory, time
        As for `lag_scan`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> dhsic.plan_lag_scan(*np.zeros((2, 10_000)), range(20), threads=1).n_landmarks
    256
    """


def _scanned(
    session: Session, steps: tuple[int, int], lags: Sequence[int], found: GridOutcome
) -> dict[str, Any]:
    """What a scan says of every lag."""
    n, every = session.n, np.append(found.statistics, found.replicates[:, 0])
    (step, period), dtype = steps, session.dtype
    # A row is one shift, a column one lag.
    at = (np.arange(0, len(every), step)[:, None] + np.array(lags)) % len(every)
    values = every[at]
    # Shifts by whole periods have one law, and all of them are standardised alike: a function of
    # the circle, which shifts leave as it is, so that the largest of the lags stays exact.
    cycles, phases = every.reshape(-1, period), at[0] % period
    mean, deviation = cycles.mean(axis=0)[phases], cycles.std(axis=0)[phases]
    unit = np.divide(1.0, deviation, out=0.0 * deviation, where=deviation > 0.0)
    distances = (values - mean) * unit
    largest = distances[1:].max(axis=1)
    # The bound is of lag 0; errors of roots are the same at all lags, see `tie_tolerance`.
    sizes = np.maximum(values[0] / (every[0] or 1.0), 1.0)
    rounding = 2.0 * found.rounding * np.sqrt(sizes)
    assert found.own is not None
    scale = float(np.sqrt(found.own).prod()) - mean / n
    units = np.divide(1.0, n * scale, out=0.0 * scale, where=scale > 0.0)
    return {
        "statistics": values[0],
        "hsic": values[0] / n,
        "cka": (values[0] - mean) * units,
        "spread": deviation * units,
        "pvalues": pvalues(values[0], values[1:], dtype, rounding),
        "adjusted": pvalues(distances[0], largest[:, None], dtype, rounding * unit),
        "null_distribution": largest,
    }


def _read_lags(lags: Any, rows: int) -> tuple[int, ...]:
    """Lags that were given one by one, or the largest of them."""
    most = rows // _LARGEST
    listed: Any = lags if isinstance(lags, Sequence | np.ndarray) else ()
    if _is_whole(lags):
        listed = range(-lags, lags + 1)
    whole = all(_is_whole(one) and -most <= one <= most for one in listed)
    if not whole or not 0 < len(listed) == len(set(listed)):
        msg = (
            f"lags must be different whole numbers up to {most:,}, a quarter of the rows, or one "
            f"number, got {shown(lags)}: as 1, 2 and 3, or 10 for all from -10 to 10"
        )
        raise InvalidArgumentError(msg)
    return tuple(sorted(map(int, listed)))


def _is_whole(lag: Any) -> bool:
    return isinstance(lag, int | np.integer) and not isinstance(lag, bool)
