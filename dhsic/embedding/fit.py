"""Mean embeddings computed from data."""

from __future__ import annotations

from functools import partial
from typing import Any, get_args

import numpy as np

from dhsic._arguments import Precision, RunOptions, check_kernel, read_kernel
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike, generator
from dhsic._validation import check_choice, check_integer, named_arguments
from dhsic.embedding.sums import open_sample, plan_sums, sum_kernel
from dhsic.embedding.value import REMEDY, MeanEmbedding
from dhsic.engine.blocks import kinds_of
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.estimators.base import BANDWIDTH_ROWS, bandwidth_rows, fit_kernels, plan_of
from dhsic.estimators.reach import Offer, Way, first_that_fits, powers_below, telling
from dhsic.kernels import Gaussian, Kernel, KernelName
from dhsic.landmarks import (
    Landmarks,
    Pool,
    Selection,
    check_landmark_options,
    landmark_count,
    prune,
    select,
    select_bytes,
    tolerance_for,
    uniform_rows,
)

# The fewest landmarks that are offered where none were asked for.
_USUAL, _FEWEST = "8sqrt", 64


@named_arguments
@shows_progress
def mean_embedding(
    x: Any,
    kernel: KernelName | str | Kernel = "gaussian",
    n_landmarks: int | str | None = None,
    *,
    selection: Selection = "uniform",
    pool: int = 4,
    tolerance: float | None = None,
    rng: RngLike = None,
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    time: float | str | None = None,
    progress: Progress = None,
    checkpoint: str | None = None,
) -> MeanEmbedding:
    """Compute the mean embedding of a sample, projected on landmarks, in one pass.

    Parameters
    ----------
    x : array-like, shape (n,) or (n, d)
        As for `independence_test`.
    kernel : str or Kernel, optional
        A bandwidth that is not given follows the median heuristic, as for `independence_test`.
    n_landmarks : int or str, optional
        Landmarks to draw, the m of [1]_: a number, or a multiple of sqrt(n) as "8sqrt". The error
        of the embedding of the law reaches its n^-1/2 near sqrt(n) log(n). Where not given,
        "8sqrt", or the largest power of two that fits the memory and the time by the plan, if that
        is less; `choice` of the result says so.
    selection : str, optional
        "uniform", or how they are chosen from a pool of uniformly drawn rows: "rpcholesky" or
        "leverage", see `dhsic.landmarks.select`.
    pool : int, optional
        Rows of the pool, as a multiple of the landmarks.
    tolerance : float, optional
        A landmark is dropped where its squared distance to the span of the others, relative to
        the largest, is below it. The default follows the precision: 1e-8 for float64 tiles, 1e-4
        for float32.
    rng, precision, client, threads, memory, time, progress, checkpoint
        As for `independence_test`.

    Returns
    -------
    MeanEmbedding

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `independence_test`.

    References
    ----------
    .. [1] A. Chatalic, N. Schreuder, A. Rudi, L. Rosasco. Nystrom kernel mean embeddings. ICML
       2022, equation 5.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.random.default_rng(0).standard_normal(2_000)
    >>> found = dhsic.mean_embedding(x, "gaussian:0.5", 40, rng=0)
    >>> bool(abs(found.integrate(lambda z: np.exp(-0.5 * z[:, 0] ** 2)) - 0.5**0.5) < 0.02)
    True
    """
    usual = _USUAL if n_landmarks is None else n_landmarks
    check_landmark_options(usual, tolerance)
    check_choice("selection", selection, get_args(Selection))
    check_integer("pool", pool, minimum=1)
    run = RunOptions(rng, precision, client, threads, memory, time, progress, checkpoint)
    session = open_sample(run, x)
    asked = read_kernel(kernel) or Gaussian()
    check_kernel(asked, kinds_of(session.sources[0]), "x")
    # Without replacement: a row that is there twice spans nothing more.
    p, choice = landmark_count(usual, session.n, replace=False), ""
    planner = partial(_plan, session, asked, selection, pool)
    if n_landmarks is None:
        offers = [
            Offer(k, f"{k:,} landmarks", partial(planner, k), partial(_run_uniform, asked, k))
            for k in powers_below(p, _FEWEST)
        ]
        p, choice = first_that_fits(session, [offers])
    session.begin(telling(planner(p), [Way("landmarks", p, planner)]))
    s = _pool_rows(session, selection, pool, p)
    # What a checkpoint has to be made of, or it is that of another call.
    options = {"n_landmarks": p, "selection": selection, "pool": s, "tolerance": tolerance}
    session.resume(computes="mean embedding", kernel=asked, **options)
    fitted, drawn = _draw(session, asked, s)
    if selection != "uniform":
        session.step("select landmarks")
        chooser = generator(session.seed, "selection", 0)
        drawn = drawn.keep(select(selection, Pool((fitted,), drawn.points), p, chooser))
    session.step("prune landmarks")
    kept, factor = prune(drawn, (fitted,), tolerance_for(tolerance, session.dtype))
    sums = sum_kernel(session, fitted, kept.points[0])
    session.verify()
    return MeanEmbedding(
        kernel=fitted,
        landmarks=kept.points[0],
        indices=kept.indices[0],
        sums=sums,
        n=session.n,
        drawn=p,
        tolerance=factor.tolerance,
        precision=session.dtype.name,
        seed=session.seed,
        passes=session.passes,
        choice=choice,
    )


def _draw(session: Session, asked: Kernel, s: int) -> tuple[Kernel, Landmarks]:
    """The kernel, and s rows to choose landmarks from."""
    session.step("fetch landmarks")
    (drawn,) = uniform_rows(session.seed, session.n, s, 1, pairing="joint", replace=False)
    (sampled,) = bandwidth_rows(session)
    # Landmarks and the sample for the bandwidth are read together.
    (rows,) = session.take([np.append(drawn, sampled)])
    (fitted,) = fit_kernels(session, (asked,), [rows[s:]])
    return fitted, Landmarks((rows[:s],), (drawn,))


def _run_uniform(asked: Kernel, p: int, session: Session) -> object:
    """The pass at p uniform landmarks as they are drawn, for its seconds."""
    fitted, drawn = _draw(session, asked, p)
    return sum_kernel(session, fitted, drawn.points[0])


def _pool_rows(session: Session, selection: Selection, pool: int, p: int) -> int:
    """Rows that p landmarks are chosen from."""
    return p if selection == "uniform" else min(session.n, pool * p)


def _plan(session: Session, asked: Kernel, selection: Selection, pool: int, p: int) -> Plan:
    """The plan with p landmarks."""
    (d,), s = session.dims, _pool_rows(session, selection, pool, p)
    guessed = asked.fit(np.array([np.zeros(d), np.ones(d)]))
    rows = 8 * d * (s + BANDWIDTH_ROWS)
    fetch = 3 * rows + session.sources[0].take_bytes
    steps: list[DriverStep | PassPlan] = [DriverStep("fetch landmarks", fetch, rows)]
    if selection != "uniform":
        needed = select_bytes(selection, s, p, guessed.width(d))
        steps.append(DriverStep("select landmarks", needed))
    pruning = DriverStep("prune landmarks", 4 * 8 * p * p)
    steps += [pruning, plan_sums(session, guessed, np.zeros((p, d)))]
    return plan_of(session, steps, REMEDY, n_landmarks=p)
