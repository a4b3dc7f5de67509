"""HSIC, normalised HSIC and p-values of all pairs of variables."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import Precision, choose_measure, open_session
from dhsic._fields import variable_summary
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike
from dhsic._rows import Order, RowLabels
from dhsic._validation import check_choice, named_arguments
from dhsic._version import __version__
from dhsic.engine.neighbours import Neighbours
from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import Estimator, NystromHSIC, NystromMHSIC, find_null
from dhsic.estimators.approximate import guard_features
from dhsic.estimators.base import passes_of
from dhsic.estimators.choose import choose_pairs
from dhsic.estimators.feature.basis import Side
from dhsic.estimators.feature.landmarks import LandmarkFeatures
from dhsic.estimators.feature.pairs import (
    check_pairs,
    directions_text,
    estimate_pairs,
    pair_resampling,
)
from dhsic.estimators.feature.replicates import independent_rounding
from dhsic.estimators.reach import planned
from dhsic.io.missing import GapTreatment
from dhsic.kernels import Combinations, Kernel, KernelName
from dhsic.nulls import ChiSquareMixture, Replicates, Shifts, Spectral, pvalue
from dhsic.pairwise.result import DependenceMatrix
from dhsic.results import AS_ASKED

Kernels = KernelName | str | Kernel | Sequence[KernelName | str | Kernel | None]
PairNull = Shifts | Spectral
PairNullName = Literal["auto", "shifts", "spectral"]
Vector = NDArray[np.float64]


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
        Two or more, as for `independence_test`. A column a variable gives the matrix of a table.
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
    began = perf_counter()
    place = client, threads, memory, progress, checkpoint
    rows = RowLabels(strata, groups, order)
    given: dict[str, Any] = {"data": data, "missing": missing, "rows": rows, "pairwise": True}
    session = open_session(variables, names, rng, precision, *place, time=time, **given)
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
    session.begin(planned(planner, estimator, session, combinations))
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
    norms = np.sqrt(found.hsic.diagonal())
    if not norms.all():
        named = ", ".join(
            repr(name) for name, norm in zip(session.names, norms, strict=True) if not norm
        )
        msg = f"the kernel must vary over the rows of every variable, and does not for {named}"
        raise InvalidArgumentError(msg)
    # Cortes et al. (2012), definition 4: HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)), both less the
    # mean of HSIC(x, y) over permutations, which many categories or columns make large.
    scale = np.outer(norms, norms) - found.chance
    cka = np.divide(found.hsic - found.chance, scale, out=np.zeros(scale.shape), where=scale > 0.0)
    # Rounding would leave it a little beside 1.
    np.fill_diagonal(cka, 1.0)
    return DependenceMatrix(
        names=session.names,
        hsic=found.hsic,
        # By Cauchy and Schwarz it is at most 1; rounding is not.
        cka=np.minimum(cka, 1.0),
        pvalues=found.pvalues,
        null=law.name,
        null_reason="; ".join(filter(None, (reason, found.detail))),
        n=session.n,
        dropped=session.dropped,
        data=session.verify(),
        missing=tuple(gaps.rows for gaps in session.gaps),
        variables=tuple(map(variable_summary, session.sources, found.drawn.kernels)),
        landmarks=replace(found.drawn.summary, choice="" if choice == AS_ASKED else choice),
        precision=session.dtype.name,
        seed=session.seed,
        passes=passes_of(session),
        seconds=perf_counter() - began,
        version=__version__,
    )


def _chosen_null(
    session: Session, combinations: Combinations, null: Any, n_resamples: int | None
) -> tuple[PairNull, str]:
    """The null distribution of a pair, and why: an exact one where it is left open."""
    if not isinstance(null, Shifts | Spectral):
        check_choice("null", null, ("auto", Shifts.name, Spectral.name))
    chosen, reason = find_null(null, NystromHSIC(), session, n_resamples, combinations.part([0]))
    assert isinstance(chosen, Shifts | Spectral)
    return chosen, reason


def _plan(
    estimator: Estimator, session: Session, combinations: Combinations, null: PairNull
) -> Plan:
    """The steps of `_tested`, found once."""

    def make() -> Plan:
        # Replicates are gone when their pair has its p-value.
        values = 8 * null.n_resamples if isinstance(null, Shifts) else 0
        plan = estimator.plan(session, combinations, null)
        return replace(plan, kept_bytes=values, closing_bytes=4 * values)

    return session.once(("pairs", estimator, combinations, null), make)


class _PairTests(NamedTuple):
    """What is found of all pairs, arrays of shape (M, M)."""

    drawn: LandmarkFeatures
    hsic: Vector
    chance: Vector
    """The mean of HSIC over permutations."""
    pvalues: Vector
    """On the diagonal the smallest that there can be."""
    detail: str
    """How the null distribution was made."""


def _tested(
    estimator: Estimator, session: Session, combinations: Combinations, null: PairNull
) -> _PairTests:
    """Squared HSIC of every pair, its mean over permutations and its p-value."""
    assert isinstance(estimator, NystromHSIC)
    drawn = estimator.draw_principal(session, combinations)
    combinations, sides = drawn.combinations, check_pairs(session, drawn, null)
    detail = ""
    if isinstance(null, Spectral):
        remedy = "take null='shifts', which is exact"
        detail = guard_features(session, sides, combinations.chosen, null, remedy)
    found = estimate_pairs(session, combinations, sides, spectra=isinstance(null, Spectral))
    hsic, (i, j) = np.diag(found.own), np.transpose(combinations.chosen)
    hsic[i, j] = hsic[j, i] = found.hsic
    # Over all permutations; of rows that move together or in time, over the replicates.
    chance = np.outer(found.traces, found.traces) / (session.n - 1)
    if isinstance(null, Spectral):
        pvalues = _spectral_pvalues(session, hsic, found.spectra, drawn.sides, null)
        return _PairTests(drawn, hsic, chance, pvalues, detail)
    resampling = pair_resampling(session, combinations, sides, null)
    # Of a variable with itself no replicate is as large.
    pvalues = np.full(hsic.shape, 1.0 / len(resampling.orbit))
    for pairs, (statistics, replicates, rounding), _ in resampling.batches():
        for pair, t, column, tie in zip(pairs, statistics, replicates.T, rounding, strict=True):
            p = pvalue(t, Replicates(column), session.dtype, tie)
            pvalues[pair] = pvalues[pair[::-1]] = p
            if session.moves is not None:
                chance[pair] = chance[pair[::-1]] = column.mean() / session.n
    detail = "; ".join(filter(None, (resampling.orbit.detail, directions_text(sides))))
    return _PairTests(drawn, hsic, chance, pvalues, detail)


def _spectral_pvalues(
    session: Session,
    hsic: Vector,
    spectra: Sequence[Vector],
    sides: Sequence[Side],
    null: Spectral,
) -> Vector:
    """The products of the eigenvalues of either covariance weigh the chi-squares of a pair."""
    pvalues = np.empty(hsic.shape)
    sides = [side._replace(known_spread=side.spread) for side in sides]
    for i, j in itertools.combinations_with_replacement(range(len(hsic)), 2):
        # Zhang et al. (2018), section 4.1: the eigenvalues of either covariance, multiplied in
        # pairs.
        mixture = ChiSquareMixture.of_products(spectra[i], spectra[j])
        law = null.distribution(mixture, session.seed)
        rounding = independent_rounding(session, (sides[i], sides[j]))
        p = pvalue(session.n * hsic[i, j], law, session.dtype, rounding)
        pvalues[i, j] = pvalues[j, i] = p
    return pvalues
