"""HSIC, normalised HSIC and p-values of all pairs of variables."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dhsic import plots
from dhsic._arguments import Precision, RunOptions, choose_measure
from dhsic._fields import run_fields, variable_summary
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike
from dhsic._rows import Order, RowLabels
from dhsic._validation import check_choice, named_arguments
from dhsic.engine.plan import DriverStep, PassPlan, Plan, plans
from dhsic.engine.session import Session
from dhsic.engine.units import format_count
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import Estimator, NystromHSIC, NystromMHSIC, find_null
from dhsic.estimators.base import guard_features, plan_of
from dhsic.estimators.choose import choose_pairs, described_plan, planned
from dhsic.io.missing import GapTreatment
from dhsic.kernels import Combinations, Kernel, KernelName
from dhsic.nulls import Replicates, Shifts, Spectral, adjust, pvalue
from dhsic.report import Findings
from dhsic.results import (
    AS_ASKED,
    MOST_SHIFTS,
    LandmarkSummary,
    RunFields,
    VariableSummary,
    floor_text,
    is_least,
)
from dhsic.statistics.features import Features
from dhsic.statistics.moments import moments_steps, second_moments, spectral_law
from dhsic.statistics.neighbours import Neighbours
from dhsic.statistics.orbit import Orbit
from dhsic.statistics.outer import OuterStatistic, independent_rounding
from dhsic.statistics.replicate import SHARE_OF_MANY, replicate, replicate_parts, replicate_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "DependenceMatrix",
    "dependence_matrix",
]

Kernels = KernelName | str | Kernel | Sequence[KernelName | str | Kernel | None]
PairNull = Shifts | Spectral
PairNullName = Literal["auto", "shifts", "spectral"]
Vector = NDArray[np.float64]
Steps = list[DriverStep | PassPlan]

_LEVEL = 0.05
_RESAMPLES_OF_PAIR = 40  # which leave 0.025 for the smallest p-value by Holm


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DependenceMatrix(RunFields):
    """The dependence of all pairs of variables.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data, missing
        Of the run, see `dhsic.results.RunFields`.
    names : tuple of str
        Names of the M variables.
    hsic : ndarray, shape (M, M)
        Squared HSIC of every pair; of a variable with itself on the diagonal.
    cka : ndarray, shape (M, M)
        HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)), both terms less the mean of HSIC(x, y) over all
        permutations, or over the replicates with `strata`, `groups` or `order`: 1 on the diagonal,
        0 on average without dependence.
    pvalues : ndarray, shape (M, M)
        P-values of the independence of every pair, by itself; on the diagonal those that are as
        small as there can be.
    variables : tuple of VariableSummary
        The variables with their kernels.
    landmarks : LandmarkSummary
        Landmarks of the features.
    null : str
        The null distribution.
    null_reason : str
        Why this one, and how it was made.

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

    _tabular: ClassVar[bool] = True

    names: tuple[str, ...]
    hsic: Vector
    cka: Vector
    pvalues: Vector
    variables: tuple[VariableSummary, ...]
    landmarks: LandmarkSummary
    null: str = "spectral"
    null_reason: str = ""

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        m = len(self.names)
        above = np.triu_indices(m, 1)
        # The last key of lexsort is the first that counts: equal p-values are told apart by CKA.
        least = int(np.lexsort((-self.cka[above], self.pvalues[above]))[0])
        i, j = above[0][least], above[1][least]
        # No replicate reaches the statistic of a variable with itself: 1 / (b + 1).
        count = round(1.0 / float(self.pvalues.diagonal().min())) - 1
        p = float(self.pvalues[i, j])
        # A law has no smallest p-value.
        limited = self.null == "shifts" and is_least(p, count)
        told = floor_text(count, reason=self.null_reason)
        compared = f"<= {p:.4g} ({told})" if limited else f"= {p:.4g} by itself"
        measured = f"CKA {self.cka[i, j]:.4g}, p {compared}"
        dependent = int((self.adjusted[above] <= _LEVEL).sum())
        attainable = self._attainable(_LEVEL)
        return [
            ("variables", f"{m:,}, {format_count(len(above[0]), 'pair')}"),
            ("n", self._rows_told),
            ("strongest", f"{self.names[i]} and {self.names[j]}: {measured}"),
            ("dependent", f"{format_count(dependent, 'pair')} at level {_LEVEL:g}, by Holm"),
            *([("p-values", attainable)] if attainable else []),
            ("null", f"{self.null}: {self.null_reason}" if self.null_reason else self.null),
            *self._tail(),
        ]

    def records(self) -> list[dict[str, Any]]:
        """Every pair of different variables, the strongest first."""
        first, second = above = np.triu_indices(len(self.names), 1)
        # As in the summary: by p-value, and CKA where replicates end.
        order = np.lexsort((-self.cka[above], self.pvalues[above]))
        matrices = {
            "estimate": self.hsic,
            "cka": self.cka,
            "p_value": self.pvalues,
            "p_adjusted": self.adjusted,
        }
        columns = {
            "x": [self.names[i] for i in first[order]],
            "y": [self.names[j] for j in second[order]],
            **{name: matrix[above][order].tolist() for name, matrix in matrices.items()},
        }
        method = {"method": f"nystrom-hsic, {self.null}"}
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True), **method) for row in rows]

    @property
    # Without making the records, of which a large matrix has many.
    def _n_records(self) -> int:
        return len(self.names) * (len(self.names) - 1) // 2

    def findings(self, alpha: float, control: str) -> Findings:
        del control
        pairs = self.records()
        dependent = sum(pair["p_adjusted"] <= alpha for pair in pairs)
        count = format_count(len(pairs), "pair")
        lead = f"{dependent:,} of {count} depend at level {alpha:g}, by Holm"
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
        return min(1.0, self._n_records * float(self.pvalues.diagonal().min()))

    def _attainable(self, alpha: float) -> str:
        """The smallest adjusted p-value and what makes it smaller; empty for a limit law."""
        least = self.least_adjusted
        if not least:
            return ""
        count = round(1.0 / float(self.pvalues.diagonal().min()))
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
        alpha, whatever the dependence among the pairs. The diagonal is as in `pvalues`.
        """
        above = np.triu_indices(len(self.names), 1)
        adjusted = self.pvalues.copy()
        # The diagonal is no hypothesis, and must not count among the pairs.
        adjusted[above] = adjusted.T[above] = adjust(self.pvalues[above], "holm")
        return adjusted

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05) -> Axes:
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


@named_arguments
@shows_progress
def dependence_matrix(
    *variables: Any,
    kernels: Kernels | None = None,
    n_landmarks: int | str | None = None,
    null: PairNullName | PairNull = "auto",
    n_resamples: int | None = None,
    rng: RngLike = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: GapTreatment = "refuse",
    strata: Any = None,
    groups: Any = None,
    order: Order | None = None,
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    time: float | str | None = None,
    progress: Progress = None,
    checkpoint: str | None = None,
) -> DependenceMatrix:
    """Find how much the variables of every pair depend, in one pass over the data or few.

    With the Nystrom features of every variable, see `NystromHSIC`, the covariance of all features
    side by side has the cross-covariance of every pair as a block, whose squared norm is their
    HSIC. The blocks on its diagonal normalise them. P-values are exact, see `Shifts`, and take a
    pass more, or as many as the memory makes of it; or approximate, from the eigenvalues of the
    same blocks, which need no other pass, see `Spectral`.

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
    null : {"auto", "shifts", "spectral"}, Shifts or Spectral, optional
        "auto" takes exact replicates, whatever the number of variables.
    n_resamples : int, optional
        Replicates of every pair; 1,000 where not given. Holm multiplies the smallest p-value, one
        over their number, by the number of pairs: `least_adjusted` of the result is what can be
        attained, and more replicates or the limit law "spectral" give less. To be left out where
        `null` is a value, or "spectral".
    rng, names, data, missing
        As for `independence_test`.
    strata, groups, order
        As for `independence_test`, with the same assumptions, of the rows of all variables alike:
        HSIC, CKA and p-values are then of dependence given the stratum, whole groups of rows change
        places, or the later variable of every pair is shifted in time. `null_reason` of the result
        says which assumption it stands on. An order leaves few replicates, n / lag, and so no small
        `adjusted` p-values for many pairs.
    precision, client, threads, memory, time, progress, checkpoint
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
    run = RunOptions(rng, precision, client, threads, memory, time, progress, checkpoint)
    rows = RowLabels(strata, groups, order)
    session = run.open(variables, names, data, missing, rows, pairwise=True)
    # Pairs are tested; kernels are chosen as by what takes several variables.
    _, _, fitting = choose_measure(session, kernels, NystromMHSIC())
    combinations = Combinations.pairs(fitting)
    law, reason = _chosen_null(session, combinations, null, n_resamples)
    planner, runner = partial(_plan, null=law), partial(_tested, null=law)
    estimator: Estimator
    if n_landmarks is None:
        estimator, _, choice = choose_pairs(session, combinations, planner, runner)
    else:
        estimator, choice = NystromHSIC(n_landmarks), AS_ASKED
    plan = planned(planner, estimator, session, combinations)
    pilot = partial(_tested, estimator, combinations=combinations, null=law)
    timed = partial(session.timed, pilot)
    session.begin(described_plan(plan, timed, estimator.name, law.name, fitting))
    session.resume(
        computes="dependence matrix",
        estimator=estimator,
        kernels=fitting,
        null=null,
        resampling=law,
    )
    neighbours = Neighbours(session)
    found = _tested(estimator, session, combinations, law)
    neighbours.warn()
    found["landmarks"] = replace(found["landmarks"], choice="" if choice == AS_ASKED else choice)
    detail = "; ".join(filter(None, (reason, found.pop("detail"))))
    run_of = run_fields(session)
    return DependenceMatrix(
        names=session.names, null=law.name, null_reason=detail, **found, **run_of
    )


@plans(dependence_matrix)
def plan_matrix() -> None:
    """Plan `dependence_matrix`: its steps, their memory and their time; runs nothing.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        As for `dependence_matrix`.
    kernels, n_landmarks, null, n_resamples, names, data, missing, strata, groups, order
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


def _chosen_null(
    session: Session, combinations: Combinations, null: Any, n_resamples: int | None
) -> tuple[PairNull, str]:
    """The null distribution of a pair, and why: an exact one where it is left open."""
    if not isinstance(null, Shifts | Spectral):
        check_choice("null", null, ("auto", Shifts.name, Spectral.name))
    chosen, reason = find_null(null, NystromHSIC(), session, n_resamples, combinations.part([0]))
    assert isinstance(chosen, Shifts | Spectral)
    return chosen, reason


def _statistics(
    session: Session, combinations: Combinations, features: Sequence[Features], null: PairNull
) -> list[tuple[OuterStatistic, Orbit]]:
    """Squared HSIC of all pairs, times n: by all features, and by those that replicates are of."""
    # Replicates may take principal features, by which dependence is not estimated.
    asked: list[Any] = [([replace(one, matrix=None) for one in features], None)]
    if isinstance(null, Shifts):
        asked.append((features, null))
    statistics = (OuterStatistic(session, some, combinations.chosen) for some, _ in asked)
    return [(one, one.orbit(session, law)) for one, (_, law) in zip(statistics, asked, strict=True)]


def _steps(session: Session, statistics: Sequence[tuple[OuterStatistic, Orbit]]) -> Steps:
    """The passes over the data, once the features are drawn."""
    whole = statistics[0][0].features
    steps = moments_steps(session, whole, _alone(whole), then="estimate")
    for one in statistics:
        steps += replicate_steps(session, *one, SHARE_OF_MANY)
    return steps


def _alone(features: Sequence[Features]) -> list[tuple[int, int]]:
    """Every variable with itself."""
    return [(m, m) for m in range(len(features))]


def _plan(
    estimator: Estimator, session: Session, combinations: Combinations, null: PairNull
) -> Plan:
    """The steps of `_tested`, found once."""
    assert isinstance(estimator, NystromHSIC)

    def make() -> Plan:
        steps, features = estimator.expected_drawing(session, combinations, null)
        steps += _steps(session, _statistics(session, combinations, features, null))
        plan = plan_of(session, steps, estimator.remedy, estimator.n_drawn(session))
        # Replicates are gone when their pair has its p-value.
        values = 8 * null.n_resamples if isinstance(null, Shifts) else 0
        return replace(plan, kept_bytes=values, closing_bytes=4 * values)

    return session.once(("pairs", estimator, combinations, null), make)


def _tested(
    estimator: Estimator, session: Session, combinations: Combinations, null: PairNull
) -> dict[str, Any]:
    """Squared HSIC, CKA and p-value of every pair, with how they were found."""
    assert isinstance(estimator, NystromHSIC)
    drawn = estimator.draw(session, combinations, null)
    assert drawn.landmarks is not None
    combinations = drawn.combinations
    statistics = _statistics(session, combinations, drawn.features, null)
    # Landmarks that are kept may be more than were expected, and decide on the memory.
    steps = _steps(session, statistics)
    plan_of(session, steps, estimator.remedy, estimator.n_drawn(session)).check()
    pairs, whole = combinations.chosen, statistics[0][0].features
    if isinstance(null, Spectral):
        remedy = "take null='shifts', which is exact"
        detail = guard_features(session, whole, pairs, null, remedy)
    moments = second_moments(session, whole, _alone(whole))
    session.step("estimate")
    blocks = [moments.covariance(*pair) for pair in _alone(whole)]
    # A variable with itself: the whitened block is its covariance operator.
    hsic = np.diag([float(np.vdot(block, block)) for block in blocks])
    i, j = np.transpose(pairs)
    sizes = replicate(session, *statistics[0], SHARE_OF_MANY).statistics / session.n
    hsic[i, j] = hsic[j, i] = sizes
    # Means over all permutations; of rows that move together or in time, over the replicates.
    traces = np.array([float(np.trace(block)) for block in blocks])
    chance = np.outer(traces, traces) / (session.n - 1)
    if isinstance(null, Spectral):
        spectra = [moments.spectrum(m) for m in range(len(whole))]
        pvalues = _spectral_pvalues(session, hsic, spectra, whole, null)
    else:
        statistic, orbit = statistics[1]
        # Of a variable with itself no replicate is as large.
        pvalues = np.full(hsic.shape, 1.0 / len(orbit))
        for numbers, part in replicate_parts(session, statistic, orbit, SHARE_OF_MANY):
            columns = zip(numbers, part.statistics, part.replicates.T, part.rounding, strict=True)
            for c, t, column, tie in columns:
                pair, p = pairs[c], pvalue(t, Replicates(column), session.dtype, tie)
                pvalues[pair] = pvalues[pair[::-1]] = p
                if session.moves is not None:
                    chance[pair] = chance[pair[::-1]] = column.mean() / session.n
        detail = "; ".join(filter(None, (orbit.detail, _directions_text(drawn.features))))
    return {
        "hsic": hsic,
        "cka": _cka(session, hsic, chance),
        "pvalues": pvalues,
        "variables": tuple(map(variable_summary, session.sources, combinations.kernels)),
        "landmarks": replace(drawn.landmarks, kept=tuple(one.n_features for one in whole)),
        "detail": detail,
    }


def _cka(session: Session, hsic: Vector, chance: Vector) -> Vector:
    """HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)), Cortes et al. (2012), definition 4.

    Both less the mean of HSIC(x, y) over permutations, which many categories or columns make large.
    """
    norms = np.sqrt(hsic.diagonal())
    if not norms.all():
        still = [name for name, norm in zip(session.names, norms, strict=True) if not norm]
        named = ", ".join(map(repr, still))
        msg = f"the kernel must vary over the rows of every variable, and does not for {named}"
        raise InvalidArgumentError(msg)
    scale = np.outer(norms, norms) - chance
    cka = np.divide(hsic - chance, scale, out=np.zeros(scale.shape), where=scale > 0.0)
    # Rounding would leave it a little beside 1.
    np.fill_diagonal(cka, 1.0)
    # By Cauchy and Schwarz it is at most 1; rounding is not.
    return np.minimum(cka, 1.0)


def _directions_text(features: Sequence[Features]) -> str:
    """How many directions replicates are made of, where not of all features."""
    counts = [one.n_summed for one in features if one.matrix is not None]
    return f"{min(counts):,} to {max(counts):,} principal features" if counts else ""


def _spectral_pvalues(
    session: Session,
    hsic: Vector,
    spectra: Sequence[Vector],
    features: Sequence[Features],
    null: Spectral,
) -> Vector:
    """The products of the eigenvalues of either covariance weigh the chi-squares of a pair."""
    pvalues = np.empty(hsic.shape)
    features = [replace(one, known_spread=one.spread) for one in features]
    for i, j in itertools.combinations_with_replacement(range(len(hsic)), 2):
        law = spectral_law(spectra[i], spectra[j], null, session.seed)
        rounding = independent_rounding(session, (features[i], features[j]))
        p = pvalue(session.n * hsic[i, j], law, session.dtype, rounding)
        pvalues[i, j] = pvalues[j, i] = p
    return pvalues
