"""Compute HSIC, normalised HSIC and p-values of all pairs of variables."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Unpack

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from dhsic import plots
from dhsic._arguments import (
    Kernels,
    Order,
    RowLabels,
    RunArguments,
    RunOptions,
    choose_measure,
    run_batch,
    run_fields,
    takes_run,
    variable_summary,
)
from dhsic._validation import check_choice, check_level, shown
from dhsic.engine.plan import DriverStep, PassPlan, Plan, plans
from dhsic.engine.session import Session
from dhsic.engine.units import format_count
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import VHSIC, Estimator, NystromHSIC, NystromMHSIC
from dhsic.estimators.base import (
    fit_combinations_on_sample,
    fitting_step,
    guard_features,
    guard_martingales,
    plan_of,
)
from dhsic.estimators.choose import Intervals, choose_among, features_of_pairs, find_null, keeping
from dhsic.io.variables import GapTreatment
from dhsic.io.zarr_output import WrittenGroup, write_group
from dhsic.kernels import Combinations, Kernel
from dhsic.nulls import (
    Adjustment,
    Martingale,
    Shifts,
    Spectral,
    adjust,
    adjustment,
    mixture_pvalues,
    normal_pvalues,
    pvalue,
    pvalues,
)
from dhsic.report import Findings, texts_of
from dhsic.results import (
    AS_ASKED,
    MOST_SHIFTS,
    LandmarkSummary,
    RunFields,
    VariableSummary,
    floor_text,
    is_least,
)
from dhsic.statistics.jackknife import LEAVING, Jackknifed, Parts
from dhsic.statistics.martingale import martingales_of_pairs, pairs_steps
from dhsic.statistics.orbit import SHARE_OF_MANY, Orbit, replicate, replicate_parts, replicate_steps
from dhsic.statistics.outer import (
    Features,
    OuterStatistic,
    independent_rounding,
    moments_steps,
    second_moments,
    spectral_law,
)

PairNull = Shifts | Spectral | Martingale
PairNullName = Literal["auto", "shifts", "spectral", "martingale"]
Vector = NDArray[np.float64]
Sizes = NDArray[np.floating[Any]]
Steps = list[DriverStep | PassPlan]

_RESAMPLES_OF_PAIR = 40  # which leave 0.025 for the smallest p-value by Holm
_LAWS = 512  # mixtures at a time, of up to 40 kB each
_WRITTEN = 2**18  # pairs at a time
# Arrays of the zarr group of a matrix, with their columns; and those of intervals.
PAIR_COLUMNS = dict.fromkeys(("x", "y", "estimate", "cka", "p_value", "p_adjusted"), 1)
INTERVAL_COLUMNS = dict.fromkeys(("conf_low", "conf_high", "cka_low", "cka_high"), 1)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DependenceMatrix(RunFields):
    """The dependence of all pairs of variables.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data, missing
        Of the run, see `dhsic.results.RunFields`.
    names : tuple of str
        Names of the M variables.
    own_hsic, own_pvalues : ndarray, shapes (M,)
        The diagonals of `hsic` and of `pvalues`.
    pair_hsic, pair_cka, pair_pvalues : ndarray, shapes (M (M - 1) / 2,)
        What is above the diagonals of `hsic`, `cka` and `pvalues`, row by row, as
        `scipy.spatial.distance.squareform` takes it: half the memory, where variables are many.
    variables : tuple of VariableSummary
        The variables with their kernels.
    landmarks : LandmarkSummary or None
        Landmarks of the features; None where all pairs of rows are compared.
    null : str
        The null distribution.
    null_reason : str
        Why this one, and how it was made.
    confidence : float or None
        Level of the intervals, where they were asked for.
    pair_intervals : ndarray, shape (4, M (M - 1) / 2), or None
        Lower and upper ends of the intervals of squared HSIC, and of those of CKA, in the order of
        `pair_hsic`.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 4.1.
    .. [2] C. Cortes, M. Mohri, A. Rostamizadeh. Algorithms for learning kernels based on centered
       alignment. JMLR 13, 2012, definition 4, for CKA.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 200))
    >>> found = dhsic.dependence_matrix(x, y, x + y, rng=0)
    >>> np.unravel_index(found.cka.argmin(), (3, 3))  # the pair that depends least
    (np.int64(0), np.int64(1))
    """

    names: tuple[str, ...]
    own_hsic: Vector
    own_pvalues: Vector
    pair_hsic: Sizes
    pair_cka: Sizes
    pair_pvalues: Vector
    variables: tuple[VariableSummary, ...]
    landmarks: LandmarkSummary | None
    null: str = "spectral"
    null_reason: str = ""
    confidence: float | None = None
    pair_intervals: Vector | None = None

    @property
    def hsic(self) -> Sizes:
        """Squared HSIC of every pair, shape (M, M); on the diagonal of a variable with itself."""
        return _square(self.pair_hsic, self.own_hsic)

    @property
    def cka(self) -> Sizes:
        """HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)) of every pair, shape (M, M).

        Both terms are less the mean of HSIC(x, y) over all permutations, or over the replicates
        with `strata`, `groups` or `order`: 1 on the diagonal, 0 on average without dependence.
        """
        return _square(self.pair_cka, 1.0)

    @property
    def pvalues(self) -> Vector:
        """P-values of the independence of every pair, by itself, shape (M, M).

        On the diagonal those that are as small as there can be.
        """
        return _square(self.pair_pvalues, self.own_pvalues)

    def summary(self, alpha: float = 0.05) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads, with the decision at a level."""
        (first,) = self._strongest(1)
        # No replicate reaches the statistic of a variable with itself: 1 / (b + 1).
        count, p = round(1.0 / float(self.own_pvalues.min())) - 1, first["p_value"]
        # A law has no smallest p-value.
        limited = self.null == "shifts" and is_least(p, count)
        told = floor_text(count, reason=self.null_reason)
        compared = f"<= {p:.4g} ({told})" if limited else f"= {p:.4g} by itself"
        measured = f"CKA {first['cka']:.4g}, p {compared}"
        attainable = self._attainable(alpha)
        return [
            ("variables", f"{len(self.names):,}, {format_count(self._n_records, 'pair')}"),
            ("n", self._rows_told),
            ("strongest", f"{first['x']} and {first['y']}: {measured}"),
            ("dependent", self.decision(alpha)),
            *([("p-values", attainable)] if attainable else []),
            *([("intervals", f"{100.0 * self.confidence:g} %")] if self.confidence else []),
            ("null", f"{self.null}: {self.null_reason}" if self.null_reason else self.null),
            *self._tail(),
        ]

    def records(self) -> list[dict[str, Any]]:
        """Every pair of different variables, the strongest first."""
        return self._strongest(self._n_records)

    def table(self, most: int | None = None) -> tuple[list[str], list[list[str]]]:
        # Without making all records, of which a large matrix has many.
        return texts_of(self._strongest(most or self._n_records), self._shown)

    def _strongest(self, most: int) -> list[dict[str, Any]]:
        """So many records, by p-value, and CKA where replicates end."""
        p, most = self.pair_pvalues, min(most, self._n_records)
        largest = np.partition(p, most - 1)[most - 1]
        at = np.flatnonzero(p <= largest)
        # The last key of lexsort is the first that counts.
        at = at[np.lexsort((-self.pair_cka[at], p[at]))][:most]
        found = self._columns(at, adjustment(p, self._control))
        columns = {name: values.tolist() for name, values in found.items()}
        for name in ("x", "y"):
            columns[name] = [self.names[number] for number in columns[name]]
        method = {"method": f"{'nystrom-hsic' if self.landmarks else 'v-hsic'}, {self.null}"}
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True), **method) for row in rows]

    def _columns(self, at: NDArray[np.intp], adjusted: Adjustment) -> dict[str, Any]:
        """Numbers of both variables of some pairs, with what was found of them."""
        # Where the pairs of a variable with those after it end.
        ends = np.arange(len(self.names) - 1, 0, -1).cumsum()
        first = np.searchsorted(ends, at, side="right")
        intervals = () if self.pair_intervals is None else self.pair_intervals[:, at]
        return {
            "x": first,
            "y": at - ends[first] + len(self.names),
            "estimate": self.pair_hsic[at],
            "cka": self.pair_cka[at],
            **dict(zip(INTERVAL_COLUMNS, intervals, strict=False)),
            "p_value": self.pair_pvalues[at],
            "p_adjusted": adjusted(self.pair_pvalues[at]),
        }

    @property
    def _n_records(self) -> int:
        return len(self.pair_pvalues)

    @property
    def _control(self) -> Literal["bh", "holm"]:
        """How p-values are adjusted: Holm's of many pairs need tails that few laws are known in."""
        return "bh" if self.null == Martingale.name else "holm"

    def dependent(self, alpha: float = 0.05) -> tuple[tuple[str, str], ...]:
        """Return the pairs whose independence is rejected by `adjusted`, the strongest first.

        Parameters
        ----------
        alpha : float, optional
            The level.

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        """
        count = adjustment(self.pair_pvalues, self._control).rejected(check_level(alpha))
        return tuple((row["x"], row["y"]) for row in self._strongest(count))

    def decision(self, alpha: float) -> str:
        """How many pairs depend at a level, in words."""
        count = adjustment(self.pair_pvalues, self._control).rejected(alpha)
        by = {"bh": "Benjamini and Hochberg", "holm": "Holm"}[self._control]
        return f"{count:,} of {format_count(self._n_records, 'pair')} at level {alpha:g}, by {by}"

    def to_zarr(
        self, path: str | os.PathLike[str], *, overwrite: bool = False, compress: bool = True
    ) -> WrittenGroup:
        """Write all pairs, a row each, into a new zarr group.

        Its arrays, shapes (M (M - 1) / 2, 1), are ``x`` and ``y``, the numbers of the variables
        with their names as categories, and ``estimate``, ``cka``, ``p_value``, ``p_adjusted`` and
        the ends of intervals, where there are any, as in `to_frame`, in the order of
        `pair_pvalues`. The group is there when it is complete.

        Parameters
        ----------
        path : path or URL
            A path that does not exist, in a folder that does; or the URL of an object store under
            which there is nothing.
        overwrite : bool, optional
            Replace a zarr group. Not for URLs.
        compress : bool, optional
            By Zstandard.

        Returns
        -------
        WrittenGroup

        Raises
        ------
        InvalidArgumentError
            Something is there.
        DataError
            The disk or the store refuses.
        """
        adjusted = adjustment(self.pair_pvalues, self._control)
        starts = range(0, self._n_records, _WRITTEN)
        numbers = (np.arange(at, min(at + _WRITTEN, self._n_records)) for at in starts)
        blocks = (
            {name: values[:, None] for name, values in self._columns(some, adjusted).items()}
            for some in numbers
        )
        categories: Any = {"kind": "categorical", "categories": list(self.names)}
        told = {"x": categories, "y": categories, "p_adjusted": {"control": self._control}}
        options: Any = {"compress": compress, "overwrite": overwrite}
        arrays = PAIR_COLUMNS | ({} if self.confidence is None else INTERVAL_COLUMNS)
        return write_group(path, arrays, blocks, lambda: told, **options)

    def findings(self, alpha: float, control: str) -> Findings:
        del control
        pairs, lead = self.records(), f"Dependent: {self.decision(alpha)}"
        words = "Heat map of CKA of all pairs; pairs that are not significant have a cross."
        pictures = {words: partial(self.plot, alpha=alpha)}
        title = f"Dependence of {format_count(len(self.names), 'variable')}, in pairs"
        notes = [f"P-values: {attainable}."] if (attainable := self._attainable(alpha)) else []
        return Findings(title, lead, pictures, {"Pairs": pairs}, notes)

    @property
    def least_adjusted(self) -> float:
        """The smallest adjusted p-value that replicates can attain; 0 of a limit law.

        It is the number of pairs over that of replicates with the data among them, 1 at most: more
        of them, `n_resamples`, make it smaller.
        """
        if self.null != "shifts":
            return 0.0
        return min(1.0, self._n_records * float(self.own_pvalues.min()))

    def _attainable(self, alpha: float) -> str:
        """The smallest adjusted p-value and what makes it smaller; empty for a limit law."""
        least = self.least_adjusted
        if self.null == Martingale.name:
            return "adjusted for false discoveries; Holm needs tails where the law is not checked"
        if not least:
            return ""
        count = round(1.0 / float(self.own_pvalues.min()))
        text = f"{least:.3g} at least when adjusted, by {count - 1:,} replicates"
        if least > alpha:
            text += f", so that no pair can be rejected at level {alpha:g}"
        if MOST_SHIFTS in self.null_reason:
            return f"{text}; a longer series has more shifts, which give smaller ones"
        more = max(10 * count, _RESAMPLES_OF_PAIR * self._n_records)
        law = "or of freely exchangeable rows the null 'spectral'"
        return f"{text}; {more:,} replicates give smaller ones, {law}"

    @property
    def adjusted(self) -> Vector:
        """P-values adjusted by Holm for all pairs of different variables, shape (M, M).

        At most alpha where independence is rejected with a probability of any error of at most
        alpha, whatever the dependence among the pairs. Those of the null "martingale" are adjusted
        by Benjamini and Hochberg, for an expected share of false discoveries of at most alpha:
        Holm's of millions of pairs would need tails where its law is not checked. The diagonal is
        as in `pvalues`.
        """
        # The diagonal is no hypothesis, and must not count among the pairs.
        return _square(adjust(self.pair_pvalues, self._control), self.own_pvalues)

    def plot(self, ax: plots.Axes | None = None, *, alpha: float = 0.05) -> plots.Axes:
        """Heat map of CKA, variables that depend side by side, see `dhsic.plots`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.
        alpha : float, optional
            The level above which a pair's adjusted p-value gives it a cross.

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
        return plots.dependence_heatmap(
            self.cka, self.names, pvalues=self.adjusted, alpha=alpha, ax=ax
        )


@takes_run
def dependence_matrix(
    *variables: Any,
    kernels: Kernels | None = None,
    n_landmarks: int | str | None = None,
    null: PairNullName | PairNull = "auto",
    n_resamples: int | None = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: GapTreatment = "refuse",
    strata: Any = None,
    groups: Any = None,
    order: Order | None = None,
    confidence: float | None = None,
    **options: Unpack[RunArguments],
) -> DependenceMatrix:
    """Find how much the variables of every pair depend, in one pass over the data or few.

    With the Nystrom features of every variable, see `NystromHSIC`, the covariance of all features
    side by side has the cross-covariance of every pair as a block, whose squared norm is their
    HSIC. The blocks on its diagonal normalise them. P-values are exact, see `Shifts`, and take a
    pass more, or as many as the memory makes of it; or approximate, from the eigenvalues of the
    same blocks, which need no other pass, see `Spectral`. Of thousands of variables of few rows the
    null "martingale" compares all pairs of rows, with neither features nor replicates.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        Two or more, as for `independence_test`. A column a variable gives the matrix of a table,
        and `data` alone that of all its columns: name those to take where some only number the
        rows, which the command ``dhsic matrix`` leaves out by itself.
    kernels : str, Kernel or a sequence of them, optional
        One for all variables, or one a variable; "gaussian" where not given.
    n_landmarks : int or str, optional
        Landmarks of every variable, of which replicates have all features: a number, or a multiple
        of sqrt(n) as "2sqrt". Where not given, 256, or 128 or 64 where these fit the memory and the
        time by the plan, as `landmarks.choice` of the result says; single numbers have their
        quantiles, and replicates the principal features of every variable by itself, those with at
        least 10 / n of the largest variance and 110 at most, see `NystromHSIC`.
    null : {"auto", "shifts", "spectral", "martingale"}, Shifts, Spectral or Martingale, optional
        "auto" takes exact replicates, whatever the number of variables. "martingale" is of V-HSIC,
        from all pairs of rows: its time is that of n^2 / 2 products a pair of variables, and it
        holds Gram matrices of some rows and variables at a time. 10,000 columns of 1,000 rows take
        about 20 processor minutes with ``precision="float32"``. See `DependenceMatrix.to_zarr`.
    n_resamples : int, optional
        Replicates of every pair; 1,000 where not given. Holm multiplies the smallest p-value, one
        over their number, by the number of pairs: `least_adjusted` of the result is what can be
        attained, and more replicates or the limit law "spectral" give less. To be left out where
        `null` is a value, or "spectral".
    names, data, missing
        As for `independence_test`.
    strata, groups, order
        As for `independence_test`, with the same assumptions, of the rows of all variables alike:
        HSIC, CKA and p-values are then of dependence given the stratum, whole groups of rows change
        places, or the later variable of every pair is shifted in time. `null_reason` of the result
        says which assumption it stands on. An order leaves few replicates, n / lag, and so no small
        `adjusted` p-values for many pairs.
    confidence : float, optional
        As for `rank_features`: the level of an interval of squared HSIC and of one of CKA, of every
        pair by itself, so that one in 20 intervals of 95 % misses. They come from blocks of rows
        that are left out of the sums: of the pass of the estimates, or with the null "spectral" of
        one more, and of several where the sums of all blocks and pairs do not fit the memory.
        P-values are the same without. To be left out with the null "martingale".
    rng, precision, client, threads, memory, time, progress, checkpoint
        As for `independence_test`.

    Returns
    -------
    DependenceMatrix

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `independence_test`.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 4.1.
    .. [2] C. Cortes, M. Mohri, A. Rostamizadeh. Algorithms for learning kernels based on centered
       alignment. JMLR 13, 2012, definition 4, for the normalisation.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 300))
    >>> found = dhsic.dependence_matrix(x, y, x**2, names=["x", "y", "square"], rng=0)
    >>> bool(found.cka[0, 2] > 0.2 > found.cka[0, 1])
    True
    >>> (found.adjusted <= 0.01)[0].tolist()
    [True, False, True]
    """
    run = RunOptions(**options)
    rows = RowLabels(strata, groups, order)
    rows.check_confidence(confidence)
    session = run.open(variables, names, data, missing, rows, pairwise=True)
    # Pairs are tested; kernels are chosen as by what takes several variables.
    _, _, fitting = choose_measure(session, kernels, NystromMHSIC())
    if not isinstance(null, PairNull):
        check_choice("null", null, ("auto", Shifts.name, Spectral.name, Martingale.name))
    by_products = Martingale.name in (null, getattr(null, "name", ""))
    estimator: Estimator = VHSIC() if by_products else NystromHSIC()
    # That of a pair, an exact one where it is left open.
    pair = Combinations.pairs(fitting[:2])
    law, reason = find_null(null, estimator, session, n_resamples, pair)
    assert isinstance(law, PairNull)
    # Of many variables the combinations of all pairs would not fit the memory.
    combinations = (Combinations.single if by_products else Combinations.pairs)(fitting)
    steps, tested = (_plan_of_products, _tested_by_products) if by_products else (_plan, _tested)
    planner, runner, choice = partial(steps, null=law), partial(tested, null=law), AS_ASKED
    for name, given in (("n_landmarks", n_landmarks), ("confidence", confidence)):
        if by_products and given is not None:
            msg = (
                f"{name} must be left out with null 'martingale', which compares all pairs of rows,"
                f" got {shown(given)}: leave it out, or take null 'shifts' or 'spectral'"
            )
            raise InvalidArgumentError(msg)
    if n_landmarks is not None:
        estimator = NystromHSIC(n_landmarks)
    elif not by_products:
        usual = [features_of_pairs(session.n)]
        estimator, _, choice = choose_among(usual, session, combinations, planner, runner)
    kept, of = session, {"computes": "dependence matrix"}  # type: Session, dict[str, Any]
    if confidence is not None:
        test = partial(planner, estimator, combinations=combinations)
        asked = Intervals.of(session, estimator, combinations, confidence, test=test)
        kept, runner = keeping(session, [asked]), partial(runner, level=confidence)
        of["confidence"] = confidence
    found = run_batch(kept, planner, runner, estimator, combinations, law, fitting, **of)
    if found["landmarks"] is not None and choice != AS_ASKED:
        found["landmarks"] = replace(found["landmarks"], choice=choice)
    found["null_reason"] = "; ".join(filter(None, (reason, found["null_reason"])))
    found |= {"names": session.names, "null": law.name, "confidence": confidence}
    return DependenceMatrix(**found, **run_fields(session))


@plans(dependence_matrix)
def plan_matrix() -> None:
    """Plan `dependence_matrix`: its steps, their memory and their time; runs nothing.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        As for `dependence_matrix`.
    kernels, n_landmarks, null, n_resamples, names, data, missing, strata, groups, order, confidence
        As for `dependence_matrix`.
    precision, client, threads, memory, time
        As for `dependence_matrix`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> dhsic.plan_matrix(*np.random.default_rng(0).standard_normal((4, 500))).n
    500
    """


def _statistics(
    session: Session, combinations: Combinations, features: Sequence[Features], null: PairNull
) -> list[tuple[OuterStatistic, Orbit]]:
    """Squared HSIC of all pairs, times n: by all features, and by those that replicates are of.

    Where blocks of rows are left out, that by all features says it without each of them.
    """
    # Replicates may take principal features, by which dependence is not estimated.
    pairs, whole = combinations.chosen, [replace(one, matrix=None) for one in features]
    every, deletion = session.leaving_out(None), session.deletion
    made: list[tuple[OuterStatistic, Any]] = [(OuterStatistic(every, whole, pairs), None)]
    if deletion is not None:
        left = OuterStatistic(session, whole, pairs, beside=pairs, blocks=deletion.blocks, own=True)
        # A limit law takes HSIC itself, whose last digits are other ones where blocks are kept.
        made = [*(made if isinstance(null, Spectral) else []), (left, None)]
    if isinstance(null, Shifts):
        made.append((OuterStatistic(every, features, pairs), null))
    return [(one, one.orbit(every, law)) for one, law in made]


def _steps(session: Session, statistics: Sequence[tuple[OuterStatistic, Orbit]]) -> Steps:
    """The passes over the data, once the features are drawn."""
    whole = statistics[0][0].features
    alone = [(m, m) for m in range(len(whole))]
    steps = moments_steps(session, whole, alone, then="estimate")
    for statistic, orbit in statistics:
        steps += replicate_steps(session, statistic, orbit, SHARE_OF_MANY)
        if statistic.blocks > 1:
            # What every pair is without each block, and the ends of its intervals.
            sizes, ends = 3 * (1 + statistic.blocks), len(INTERVAL_COLUMNS)
            values = 8 * len(statistic)
            steps.append(DriverStep(LEAVING, (sizes + ends) * values, ends * values))
    return steps


def _plan(
    estimator: Estimator, session: Session, combinations: Combinations, null: PairNull
) -> Plan:
    """The steps of `_tested`."""
    assert isinstance(estimator, NystromHSIC)
    kept, session = session, session.leaving_out(None)
    steps, features = estimator.expected_drawing(session, combinations, null)
    steps += _steps(session, _statistics(kept, combinations, features, null))
    plan = plan_of(session, steps, estimator.remedy, estimator.n_drawn(session))
    # Replicates are gone when their pair has its p-value.
    values = 8 * null.n_resamples if isinstance(null, Shifts) else 0
    return replace(plan, kept_bytes=values, closing_bytes=4 * values)


def _tested(
    estimator: Estimator,
    session: Session,
    combinations: Combinations,
    null: PairNull,
    level: float | None = None,
) -> dict[str, Any]:
    """Squared HSIC, CKA and p-value of every pair, with how they were found."""
    assert isinstance(estimator, NystromHSIC)
    kept, session = session, session.leaving_out(None)
    drawn = estimator.draw(session, combinations, null)
    assert drawn.landmarks is not None
    combinations = drawn.combinations
    statistics = _statistics(kept, combinations, drawn.features, null)
    # Landmarks that are kept may be more than were expected, and decide on the memory.
    steps = _steps(session, statistics)
    plan_of(session, steps, estimator.remedy, estimator.n_drawn(session)).check()
    pairs, whole = combinations.chosen, statistics[0][0].features
    alone = [(m, m) for m in range(len(whole))]
    if isinstance(null, Spectral):
        remedy = "take null='shifts', which is exact"
        detail = guard_features(session, whole, pairs, null, remedy)
    moments = second_moments(session, whole, alone)
    session.step("estimate")
    blocks = [moments.covariance(*pair) for pair in alone]
    # A variable with itself: the whitened block is its covariance operator.
    own = np.array([float(np.vdot(block, block)) for block in blocks])
    found = replicate(session, *statistics[0], SHARE_OF_MANY)
    hsic, ends = found.statistics / session.n, dict[str, Any]()
    if level is not None:
        if isinstance(null, Spectral):
            found = replicate(session, *statistics[1], SHARE_OF_MANY)
        ends["pair_intervals"] = _intervals(kept, found.told, level)
    # Means over all permutations; of rows that move together or in time, over the replicates.
    traces = np.array([float(np.trace(block)) for block in blocks])
    chance = _products(traces) / (session.n - 1)
    if isinstance(null, Spectral):
        spectra = [moments.spectrum(m) for m in range(len(whole))]
        sizes = np.concatenate([hsic, own])
        every = _spectral_pvalues(session, sizes, [*pairs, *alone], spectra, whole, null)
        ps, own_ps = np.split(every, [len(pairs)])
    else:
        statistic, orbit = statistics[-1]
        # Of a variable with itself no replicate is as large.
        ps, own_ps = np.empty(len(pairs)), np.full(len(own), 1.0 / len(orbit))
        for numbers, (observed, drawn_for, rounding, *_) in replicate_parts(
            session, statistic, orbit, SHARE_OF_MANY
        ):
            ps[numbers] = pvalues(observed, drawn_for, session.dtype, rounding)
            if session.moves is not None:
                chance[numbers] = drawn_for.mean(axis=0) / session.n
        # How many directions replicates are made of, where not of all features.
        counts = [one.n_summed for one in drawn.features if one.matrix is not None]
        made_of = f"{min(counts):,} to {max(counts):,} principal features" if counts else ""
        detail = "; ".join(filter(None, (orbit.detail, made_of)))
    summary = replace(drawn.landmarks, kept=tuple(one.n_features for one in whole))
    kernels = combinations.kernels
    return ends | _fields_of(session, kernels, own, hsic, chance, (own_ps, ps), summary, detail)


def _intervals(session: Session, told: Sequence[Any], level: float) -> Vector:
    """Ends of the intervals of squared HSIC and of CKA of every pair, shape (4, C)."""
    assert session.deletion is not None
    session.step(LEAVING)
    shares = np.array(session.deletion.sizes) / session.n
    ends = np.empty((len(told), len(INTERVAL_COLUMNS)))
    for of_pair, one in zip(ends, told, strict=True):
        # As of features against a target, see `Intervals.of_features`.
        sizes = [(size, size, tuple(own)) for size, *own in one.sizes.tolist()]
        parts = [[Parts(*each), Parts(*each, divided=True)] for each in sizes]
        found = Jackknifed.of(parts, shares, session.n)
        hsic, cka = (found.measured(c, unbiased=False) for c in range(2))
        both = hsic.interval(level, math.inf), cka.interval(level, 1.0)
        of_pair[:] = [end for interval in both for end in (interval.low, interval.high)]
    ends.flags.writeable = False  # so that the result takes no copy
    return ends.T


def _plan_of_products(
    estimator: Estimator, session: Session, combinations: Combinations, null: PairNull
) -> Plan:
    """The steps of `_tested_by_products`."""
    del estimator, null
    kernels = combinations.guessed(session.dims).kernels
    steps = [fitting_step(session), *pairs_steps(session, kernels)]
    remedy = "take fewer rows or precision='float32', or null 'shifts' or 'spectral'"
    plan = plan_of(session, steps, remedy)
    # What is found of pairs, with sorted p-values and these as adjusted.
    pairs = len(kernels) * (len(kernels) - 1) // 2
    return replace(plan, closing_bytes=(3 * 8 + 2 * session.dtype.itemsize) * pairs)


def _tested_by_products(
    estimator: Estimator, session: Session, combinations: Combinations, null: PairNull
) -> dict[str, Any]:
    """As `_tested`, by the martingales of all pairs of rows; of one combination of all kernels."""
    del estimator, null
    fitted, samples = fit_combinations_on_sample(session, combinations)
    detail = guard_martingales(session, fitted.kernels, samples)
    alone, statistics, hsic = martingales_of_pairs(session, fitted.kernels)
    # The mean over all permutations is a product of traces.
    roots = alone.traces / (session.n * math.sqrt(session.n - 1))
    chance = _products(roots, hsic.dtype)
    # Statistics of n - 1 equal terms are the largest: by Cauchy and Schwarz sqrt(n - 1).
    largest = np.full(len(alone.own), math.sqrt(session.n - 1))
    both = normal_pvalues(largest), normal_pvalues(statistics)
    return _fields_of(session, fitted.kernels, alone.own, hsic, chance, both, None, detail)


def _fields_of(
    session: Session,
    kernels: Sequence[Kernel],
    own: Vector,
    hsic: Sizes,
    chance: Sizes,
    pvalues: tuple[Vector, Vector],
    landmarks: LandmarkSummary | None,
    detail: str,
) -> dict[str, Any]:
    """Fields of a matrix; p-values are of the variables alone and of all pairs.

    CKA is HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)), Cortes et al. (2012), definition 4, both less
    the mean of HSIC(x, y) over permutations, which many categories or columns make large.
    """
    norms = np.sqrt(own)
    if not norms.all():
        still = [name for name, norm in zip(session.names, norms, strict=True) if not norm]
        named = ", ".join(map(repr, still))
        msg = f"the kernel must vary over the rows of every variable, and does not for {named}"
        raise InvalidArgumentError(msg)
    scale = _products(norms, hsic.dtype)
    scale -= chance
    cka = np.divide(hsic - chance, scale, out=np.zeros_like(scale), where=scale > 0.0)
    # By Cauchy and Schwarz it is at most 1; rounding is not.
    np.minimum(cka, 1.0, out=cka)
    alone, pairs = pvalues
    for values in (own, alone, hsic, cka, pairs):
        values.flags.writeable = False  # so that the result takes no copy
    return {
        "own_hsic": own,
        "own_pvalues": alone,
        "pair_hsic": hsic,
        "pair_cka": cka,
        "pair_pvalues": pairs,
        "variables": tuple(map(variable_summary, session.sources, kernels)),
        "landmarks": landmarks,
        "null_reason": detail,
    }


def _square(pairs: Sizes, diagonal: Any) -> NDArray[Any]:
    """Both triangles of a matrix, and its diagonal."""
    matrix: NDArray[Any] = scipy.spatial.distance.squareform(pairs)
    np.fill_diagonal(matrix, diagonal)
    return matrix


def _products(values: Vector, dtype: DTypeLike = np.float64) -> Sizes:
    """Products of the values of all pairs, row by row of their matrix."""
    m, stop = len(values), 0
    products = np.empty(m * (m - 1) // 2, dtype)
    for i in range(m - 1):
        start, stop = stop, stop + m - 1 - i
        np.multiply(values[i], values[i + 1 :], out=products[start:stop], casting="same_kind")
    return products


def _spectral_pvalues(
    session: Session,
    hsic: Vector,
    pairs: Sequence[tuple[int, ...]],
    spectra: Sequence[Vector],
    features: Sequence[Features],
    null: Spectral,
) -> Vector:
    """The products of the eigenvalues of either covariance weigh the chi-squares of a pair."""
    features, found = [replace(one, known_spread=one.spread) for one in features], list[Vector]()
    for start in range(0, len(pairs), _LAWS):
        some = pairs[start : start + _LAWS]
        laws: Any = [spectral_law(spectra[i], spectra[j], null, session.seed) for i, j in some]
        rounding = [independent_rounding(session, (features[i], features[j])) for i, j in some]
        sizes = session.n * hsic[start : start + _LAWS]
        if null.method == "inversion":
            found.append(mixture_pvalues(sizes, laws, np.array(rounding)))
        else:
            each = zip(sizes, laws, rounding, strict=True)
            found.append(np.array([pvalue(t, law, session.dtype, tie) for t, law, tie in each]))
    return np.concatenate(found)
