"""HSIC, normalised HSIC and p-values of all pairs of variables."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import Precision, choose_estimator, open_session
from dhsic._version import __version__
from dhsic.engine.events import Listener
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import NystromHSIC
from dhsic.estimators.base import BANDWIDTH_ROWS, passes_of, plan_of, rounding_unit
from dhsic.estimators.feature_basis import Side
from dhsic.estimators.feature_sums import covariances
from dhsic.estimators.landmark_features import LandmarkFeatures, draw_landmarks_of_each
from dhsic.kernels import Combinations, Kernel
from dhsic.landmarks import landmark_count
from dhsic.linalg import solve_lower, spectrum
from dhsic.nulls import ChiSquareMixture, pvalue
from dhsic.pairwise.moments import AllMomentsPass
from dhsic.pairwise.result import DependenceMatrix
from dhsic.results import VariableSummary

__all__ = ["dependence_matrix"]

Kernels = str | Kernel | Sequence[str | Kernel | None]
Vector = NDArray[np.float64]

_REMEDY = "take fewer landmarks, fewer variables or fewer threads"


def dependence_matrix(
    *variables: Any,
    kernels: Kernels | None = None,
    n_landmarks: int | str = "2sqrt",
    rng: int | np.random.Generator | None = None,
    names: Sequence[str] | None = None,
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    progress: Listener | None = None,
    checkpoint: str | None = None,
) -> DependenceMatrix:
    """Find how much the variables of every pair depend, in one pass over the data.

    With the Nystrom features of every variable, see `NystromHSIC`, the covariance of all features
    side by side has the cross-covariance of every pair as a block, whose squared norm is their
    HSIC. The blocks on its diagonal normalise them, and their eigenvalues, found once a variable,
    weigh the chi-squares of every p-value, see `Spectral`. At a few hundred rows the far tail of
    that limit differs somewhat from that of permutations: confirm a pair that matters with
    `independence_test`.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        Two or more, as for `independence_test`. A column a variable gives the matrix of a table.
    kernels : str, Kernel or a sequence of them, optional
        One for all variables, or one a variable; "gaussian" where not given.
    n_landmarks : int or str, optional
        Landmarks of every variable: a number, or a multiple of sqrt(n) as "2sqrt". Memory grows
        with the square of the number that pruning keeps of all variables.
    rng, names, precision, client, threads, memory, progress, checkpoint
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
    began = time.perf_counter()
    session = open_session(
        variables, names, rng, precision, client, threads, memory, progress, checkpoint
    )
    method = NystromHSIC(n_landmarks)
    # It takes two variables; kernels are chosen as by what takes several.
    _, _, fitting = choose_estimator(session, kernels, "nystrom-m")
    plan_of(session, _drawing_steps(session, n_landmarks), _REMEDY).check()
    session.resume(computes="dependence matrix", estimator=method, kernels=fitting)
    drawn = draw_landmarks_of_each(
        session,
        Combinations.single(fitting),
        n_landmarks,
        replace=method.replace,
        tolerance=method.tolerance,
    )
    session.listener(_plan(session, drawn).check().started)
    hsic, pvalues = _measure(session, drawn)
    norms = np.sqrt(hsic.diagonal())
    if not norms.all():
        named = ", ".join(
            repr(name) for name, norm in zip(session.names, norms, strict=True) if not norm
        )
        msg = f"the kernel must vary over the rows of every variable, and does not for {named}"
        raise InvalidArgumentError(msg)
    cka = hsic / np.outer(norms, norms)
    np.fill_diagonal(cka, 1.0)
    return DependenceMatrix(
        names=session.names,
        hsic=hsic,
        cka=np.minimum(cka, 1.0),
        pvalues=pvalues,
        n=session.n,
        variables=tuple(map(_summary, session.names, session.dims, drawn.kernels)),
        landmarks=drawn.summary,
        precision=session.dtype.name,
        seed=session.seed,
        passes=passes_of(session),
        seconds=time.perf_counter() - began,
        version=__version__,
    )


def _measure(session: Session, drawn: LandmarkFeatures) -> tuple[Vector, Vector]:
    """HSIC and p-value of every pair, shapes (M, M)."""
    described = [
        Side.of(*one) for one in zip(drawn.maps, drawn.samples, drawn.factors, strict=True)
    ]
    spreads = [spread for _, spread in described]
    sums = session.run(AllMomentsPass(drawn.maps, tuple(side.centre for side, _ in described)))
    session.step("solve")
    blocks = _whitened_blocks(covariances(sums.products), drawn.factors)
    m, n, unit = len(drawn.maps), session.n, rounding_unit(session.dtype)
    spectra = [spectrum(blocks[i][i]) for i in range(m)]
    hsic, pvalues = np.empty((m, m)), np.empty((m, m))
    for i, j in itertools.combinations_with_replacement(range(m), 2):
        hsic[i, j] = hsic[j, i] = np.vdot(blocks[i][j], blocks[i][j])
        law = ChiSquareMixture.of_products(spectra[i], spectra[j])
        rounding = n * unit**2 * spreads[i] * spreads[j]
        p = pvalue(n * hsic[i, j], law, session.dtype, rounding)
        pvalues[i, j] = pvalues[j, i] = p
    return hsic, pvalues


def _whitened_blocks(joint: Vector, factors: Sequence[Vector]) -> list[list[Vector]]:
    """L_i^-1 C_ij L_j^-T of every pair, from the covariance (D, D) of all features."""
    ends = np.cumsum([len(factor) for factor in factors])[:-1]
    half = np.vstack(
        [solve_lower(f, rows) for f, rows in zip(factors, np.split(joint, ends), strict=True)]
    )
    columns = np.split(half, ends, axis=1)
    whole = [solve_lower(f, c.T).T for f, c in zip(factors, columns, strict=True)]
    return [list(row) for row in zip(*(np.split(c, ends) for c in whole), strict=True)]


def _drawing_steps(session: Session, n_landmarks: int | str) -> list[DriverStep | PassPlan]:
    p, m = landmark_count(n_landmarks, session.n, replace=False), len(session.sources)
    rows = 8 * sum(session.dims) * (p + BANDWIDTH_ROWS)
    fetch = 3 * rows + max(source.take_bytes for source in session.sources)
    gram = 8 * p * p
    return [
        DriverStep("fetch landmarks", fetch, rows),
        DriverStep("prune landmarks", (m + 3) * gram, 0),
    ]


def _plan(session: Session, drawn: LandmarkFeatures) -> Plan:
    """What is still to run, with the landmarks as pruned, on which the memory depends most."""
    counts = [one.n_features for one in drawn.maps]
    held = 8 * sum(r * r for r in counts)
    sample = 8 * 4 * BANDWIDTH_ROWS * max(counts)
    zero = session.dtype.type(0)
    moments = AllMomentsPass(drawn.maps, tuple(np.broadcast_to(zero, r) for r in counts))
    steps: list[DriverStep | PassPlan] = [
        DriverStep("features of the sample", sample + held, held),
        session.plan(moments),
        DriverStep("solve", 5 * 8 * sum(counts) ** 2),
    ]
    return plan_of(session, steps, _REMEDY, drawn.summary.drawn)


def _summary(name: str, columns: int, kernel: Kernel) -> VariableSummary:
    return VariableSummary(name, columns, kernel.spec())
