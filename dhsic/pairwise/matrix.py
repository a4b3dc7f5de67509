"""HSIC, normalised HSIC and p-values of all pairs of variables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import Precision, RunOptions, choose_measure
from dhsic._fields import run_fields, variable_summary
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike
from dhsic._rows import Order, RowLabels
from dhsic._validation import check_choice, named_arguments
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import NystromHSIC, NystromMHSIC
from dhsic.estimators.approximate import guard_features
from dhsic.estimators.base import BANDWIDTH_ROWS, plan_of
from dhsic.estimators.features import DrawnFeatures
from dhsic.estimators.reach import Offer, Way, first_that_fits, powers_below, telling
from dhsic.io.missing import GapTreatment
from dhsic.kernels import Combinations, Kernel, KernelName
from dhsic.linalg import rounding_unit, spectrum
from dhsic.nulls import ChiSquareMixture, Replicates, Shifts, Spectral, pvalue
from dhsic.pairwise.result import DependenceMatrix
from dhsic.results import AS_ASKED, LandmarkSummary
from dhsic.statistics.features import Features
from dhsic.statistics.moments import moments_steps, second_moments
from dhsic.statistics.neighbours import Neighbours
from dhsic.statistics.outer import OuterStatistic
from dhsic.statistics.replicate import replicate, replicate_steps

Kernels = KernelName | str | Kernel | Sequence[KernelName | str | Kernel | None]
PairNull = Shifts | Spectral
PairNullName = Literal["auto", "shifts", "spectral"]
Vector = NDArray[np.float64]

_USUAL, _FEWEST = "2sqrt", 8
_REMEDY = "take fewer landmarks, fewer variables or fewer threads"
# Beyond them the default leaves exact replicates: each pair needs 40 for Holm, so that their number
# grows with the square of the pairs.
_MOST_PAIRS = 200
_MOST_PASSES = 8
_RESAMPLES_OF_PAIR = 40


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
    HSIC. The blocks on its diagonal normalise them. P-values are exact, see `Shifts`, in a pass
    more or as many as the memory makes of it; or approximate, from the eigenvalues of the same
    blocks, which need no other pass, see `Spectral`.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        Two or more, as for `independence_test`. A column a variable gives the matrix of a table.
    kernels : str, Kernel or a sequence of them, optional
        One for all variables, or one a variable; "gaussian" where not given.
    n_landmarks : int or str, optional
        Landmarks of every variable: a number, or a multiple of sqrt(n) as "2sqrt". Memory grows
        with the square of the number that pruning keeps of all variables. Where not given,
        "2sqrt", or the largest power of two that fits the memory and the time by the plan, if that
        is less; `landmarks.choice` of the result says so.
    null : {"auto", "shifts", "spectral"}, Shifts or Spectral, optional
        "auto" takes exact replicates, but for more than 200 pairs, or where they would take more
        than 8 passes; the result says which and why. With `strata`, `groups` or `order` it takes
        these replicates always.
    n_resamples : int, optional
        Replicates of every pair. Where not given, 1,000, and 40 for every pair at least, so that
        `adjusted` p-values may be as small as 0.025. To be left out where `null` is a value, or
        "spectral".
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
    method = NystromHSIC(_USUAL if n_landmarks is None else n_landmarks)
    # It takes two variables; kernels are chosen as by what takes several.
    _, _, fitting = choose_measure(session, kernels, NystromMHSIC())
    asked = _chosen_null(null, n_resamples, session)
    session.resume(
        computes="dependence matrix", estimator=method, kernels=fitting, null=null, resampling=asked
    )
    neighbours = Neighbours(session)
    matrix = _Matrix(session, Combinations.single(fitting), null, asked)
    drawn, chosen = matrix.begin(method.n_drawn(session), open_=n_landmarks is None)
    hsic, chance, pvalues, detail = _measured_pairs(session, drawn, chosen.null)
    neighbours.warn()
    norms = np.sqrt(hsic.diagonal())
    if not norms.all():
        named = ", ".join(
            repr(name) for name, norm in zip(session.names, norms, strict=True) if not norm
        )
        msg = f"the kernel must vary over the rows of every variable, and does not for {named}"
        raise InvalidArgumentError(msg)
    # Cortes et al. (2012), definition 4: HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)), both less the
    # mean of HSIC(x, y) over permutations, which many categories or columns make large.
    scale = np.outer(norms, norms) - chance
    cka = np.divide(hsic - chance, scale, out=np.zeros(scale.shape), where=scale > 0.0)
    # Rounding would leave it a little beside 1.
    np.fill_diagonal(cka, 1.0)
    return DependenceMatrix(
        names=session.names,
        hsic=hsic,
        # By Cauchy and Schwarz it is at most 1; rounding is not.
        cka=np.minimum(cka, 1.0),
        pvalues=pvalues,
        null=chosen.null.name,
        null_reason="; ".join(filter(None, (chosen.reason, detail))),
        variables=tuple(map(variable_summary, session.sources, drawn.combinations.kernels)),
        landmarks=_landmarks(drawn),
        **run_fields(session),
    )


@dataclass(frozen=True)
class _Matrix:
    """A matrix to compute, but for the number of landmarks."""

    session: Session
    kernels: Combinations
    null: Any
    asked: PairNull

    def begin(self, p: int, *, open_: bool) -> tuple[DrawnFeatures, _Chosen]:
        """Draw landmarks, p or what fits, choose the null, and tell what starts."""
        choice = ""
        if open_:
            offers = [
                Offer(k, f"{k:,} landmarks", partial(self.plan, k), partial(self._run, k))
                for k in powers_below(p, _FEWEST)
            ]
            p, choice = first_that_fits(self.session, [offers])
        # Told before landmarks are drawn, whose number decides all that follows.
        self.session.begin(telling(self.plan(p), [Way("landmarks", p, self.plan)]))
        drawn, chosen = self.drawn(p)
        return drawn._replace(landmarks=replace(_landmarks(drawn), choice=choice)), chosen

    def _run(self, p: int, session: Session) -> object:
        drawn, chosen = replace(self, session=session).drawn(p)
        return _measured_pairs(session, drawn, chosen.null)

    def plan(self, p: int) -> Plan:
        """The rest of the plan with p landmarks as pruned; or drawing them, if that is too much."""
        drawing = self.drawing(p)
        if not drawing.fits:
            return drawing
        drawn, chosen = self.drawn(p)
        return _matrix_plan(self.session, drawn, chosen.null)

    def drawing(self, p: int) -> Plan:
        """The plan of drawing p landmarks."""
        return plan_of(self.session, _drawing_steps(self.session, p), _REMEDY)

    def drawn(self, p: int) -> tuple[DrawnFeatures, _Chosen]:
        """The landmarks, drawn once, and the null distribution."""

        def draw() -> DrawnFeatures:
            self.session.expect(self.drawing(p))
            return NystromHSIC(p).draw(self.session, self.kernels)

        # Plans of several numbers look at p landmarks: they are fetched once.
        drawn = self.session.once(("drawn", p), draw)
        return drawn, _chosen(self.session, drawn, self.null, self.asked)


class _Chosen(NamedTuple):
    """The null distribution, and why this one."""

    null: PairNull
    reason: str


def _chosen_null(null: Any, n_resamples: int | None, session: Session) -> PairNull:
    """The null distribution that was asked for; an exact one for "auto"."""
    chosen = _read_null(null, n_resamples, len(session.sources))
    # The law of the eigenvalues, Zhang et al. (2018), section 4.1, is that of independent rows.
    if session.moves is not None and isinstance(chosen, Spectral):
        msg = (
            f"null {chosen.name!r} is of exchangeable rows, and cannot keep to strata, groups or "
            "the order of rows: take 'auto' or 'shifts'"
        )
        raise InvalidArgumentError(msg)
    return chosen


def _read_null(null: Any, n_resamples: int | None, n_variables: int) -> PairNull:
    if isinstance(null, Shifts | Spectral):
        if n_resamples is None:
            return null
        msg = f"n_resamples must be left out where null is a value, got {n_resamples}: set it there"
        raise InvalidArgumentError(msg)
    if check_choice("null", null, ("auto", Shifts.name, Spectral.name)) != Spectral.name:
        # Holm multiplies the least p-value by the number of pairs, which leaves 1 / 40.
        least = max(Shifts().n_resamples, _RESAMPLES_OF_PAIR * math.comb(n_variables, 2))
        return Shifts(least if n_resamples is None else n_resamples)
    if n_resamples is not None:
        msg = (
            f"n_resamples must be left out with null {null!r}, which draws no replicates, got "
            f"{n_resamples}: take null='shifts'"
        )
        raise InvalidArgumentError(msg)
    return Spectral()


def _chosen(session: Session, drawn: DrawnFeatures, null: Any, asked: PairNull) -> _Chosen:
    """The null that was asked for, or for many pairs the one that takes no other pass."""
    left_open = isinstance(null, str) and null == "auto"
    if session.moves is not None:
        told = session.moves.assumption
        return _Chosen(asked, told if left_open else f"{AS_ASKED}; {told}")
    if not left_open or isinstance(asked, Spectral):
        return _Chosen(asked, AS_ASKED)
    # More pairs need more replicates each, so that exact ones grow out of reach: the law takes
    # over.
    pairs = len(_pairs(drawn))
    why = f"{pairs:,} pairs" if pairs > _MOST_PAIRS else ""
    if not why:
        steps = _shift_steps(session, drawn, asked)
        count = sum(isinstance(step, PassPlan) for step in steps)
        if count > _MOST_PASSES:
            why = f"exact replicates of {pairs:,} pairs would take {count:,} passes in this memory"
    if not why:
        return _Chosen(asked, "exact for exchangeable rows")
    reason = f"an approximation for many rows, since {why}: null='shifts' makes them all the same"
    return _Chosen(Spectral(), reason)


def _pairs(drawn: DrawnFeatures) -> list[tuple[int, ...]]:
    return list(itertools.combinations(range(len(drawn.features)), 2))


def _shift_steps(
    session: Session, drawn: DrawnFeatures, null: Shifts
) -> list[DriverStep | PassPlan]:
    statistic = OuterStatistic(session, drawn.features, _pairs(drawn))
    return replicate_steps(session, statistic, statistic.orbit(session, null))


def _landmarks(drawn: DrawnFeatures) -> LandmarkSummary:
    assert drawn.landmarks is not None
    return drawn.landmarks


def _measured_pairs(
    session: Session, drawn: DrawnFeatures, null: PairNull
) -> tuple[Vector, Vector, Vector, str]:
    """HSIC, its mean over permutations, p-values of every pair, and how the null was made."""
    features, pairs = drawn.features, _pairs(drawn)
    note = ""
    if isinstance(null, Spectral):
        remedy = "take null='shifts', which is exact"
        note = guard_features(session, features, pairs, null, remedy)
    moments = second_moments(session, features, _blocks(features))
    session.step("solve")
    hsic, traces, spectra = np.zeros((len(features),) * 2), np.zeros(len(features)), []
    for i, j in _blocks(features):
        block = moments.covariance(i, j)
        # Squared HSIC: the norm of the whitened cross-covariance, Zhang et al. (2018), section 4.1.
        hsic[i, j] = hsic[j, i] = np.vdot(block, block)
        # A variable with itself: the whitened block is its covariance operator, whose eigenvalues
        # weigh the chi-squares of the null.
        if i == j:
            spectra.append(spectrum(block))
            traces[i] = np.trace(block)
    # That of all permutations; of rows that move together or in time, that of the replicates.
    chance = np.outer(traces, traces) / (session.n - 1)
    if isinstance(null, Shifts):
        pvalues, means, detail = _exact_pvalues(session, features, pairs, null)
        return hsic, chance if session.moves is None else means, pvalues, detail
    pvalues = _spectral_pvalues(session, hsic, spectra, [one.spread for one in features], null)
    return hsic, chance, pvalues, note


def _blocks(features: Sequence[Features]) -> list[tuple[int, int]]:
    """All pairs of variables, and every one with itself."""
    return list(itertools.combinations_with_replacement(range(len(features)), 2))


def _exact_pvalues(
    session: Session, features: Sequence[Features], pairs: Sequence[tuple[int, ...]], null: Shifts
) -> tuple[Vector, Vector, str]:
    """P-values and means of HSIC, with the later variable of every pair shifted.

    On the diagonal are the smallest p-values that there can be.
    """
    statistic = OuterStatistic(session, features, pairs)
    orbit = statistic.orbit(session, null)
    resampled = replicate(session, statistic, orbit)
    # Of a variable with itself no replicate is as large.
    pvalues = np.full((len(features),) * 2, 1.0 / (1 + len(resampled.replicates)))
    means = np.zeros(pvalues.shape)
    for pair, statistic, replicates, rounding in zip(
        pairs, resampled.statistics, resampled.replicates.T, resampled.rounding, strict=True
    ):
        p = pvalue(statistic, Replicates(replicates), session.dtype, rounding)
        pvalues[pair] = pvalues[pair[::-1]] = p
        means[pair] = means[pair[::-1]] = replicates.mean() / session.n
    return pvalues, means, orbit.detail


def _spectral_pvalues(
    session: Session,
    hsic: Vector,
    spectra: Sequence[Vector],
    spreads: Sequence[float],
    null: Spectral,
) -> Vector:
    """The products of the eigenvalues of either covariance weigh the chi-squares of a pair."""
    pvalues, unit = np.empty(hsic.shape), rounding_unit(session.dtype)
    for i, j in itertools.combinations_with_replacement(range(len(hsic)), 2):
        # Zhang et al. (2018), section 4.1: the eigenvalues of either covariance, multiplied in
        # pairs.
        mixture = ChiSquareMixture.of_products(spectra[i], spectra[j])
        law = null.distribution(mixture, session.seed)
        # As `independent_rounding`, of two sides.
        rounding = session.n * unit**2 * spreads[i] * spreads[j]
        p = pvalue(session.n * hsic[i, j], law, session.dtype, rounding)
        pvalues[i, j] = pvalues[j, i] = p
    return pvalues


def _drawing_steps(session: Session, p: int) -> list[DriverStep | PassPlan]:
    m = len(session.sources)
    rows = 8 * sum(session.dims) * (p + BANDWIDTH_ROWS)
    fetch = 3 * rows + max(source.take_bytes for source in session.sources)
    return [
        DriverStep("fetch landmarks", fetch, rows),
        DriverStep("prune landmarks", (m + 3) * 8 * p * p),
        DriverStep("features of the sample", 8 * (4 * BANDWIDTH_ROWS * p + m * p * p)),
    ]


def _matrix_plan(session: Session, drawn: DrawnFeatures, null: PairNull) -> Plan:
    """The steps still to run, with the landmarks as pruned, on which the memory depends most."""
    wide = sum(one.n_features for one in drawn.features)
    held = 8 * sum(one.n_features**2 for one in drawn.features)
    moments, _ = moments_steps(session, drawn.features, _blocks(drawn.features))
    steps = [moments, DriverStep("solve", 4 * 8 * wide**2, held)]
    if isinstance(null, Shifts):
        steps += _shift_steps(session, drawn, null)
    plan = plan_of(session, steps, _REMEDY, _landmarks(drawn).drawn)
    # Those of all pairs are held until the last has its p-value.
    values = 8 * null.n_resamples if isinstance(null, Shifts) else 0
    return replace(plan, kept_bytes=values * len(_pairs(drawn)), closing_bytes=4 * values)
