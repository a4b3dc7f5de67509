"""Mean embeddings computed from data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import Precision, check_kernel, session_over
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike, generator
from dhsic._validation import check_choice, check_integer, named_arguments
from dhsic.embedding.exact_sums import LIMBS, ExactSums
from dhsic.embedding.store import kernel_of_text, read_record
from dhsic.embedding.sums import EmbeddingPass
from dhsic.embedding.value import MeanEmbedding
from dhsic.engine.blocks import kinds_of
from dhsic.engine.graphs import graphs_on
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.engine.tiles import Tiling
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators.base import BANDWIDTH_ROWS, bandwidth_rows, fit_kernels, passes_of, plan_of
from dhsic.estimators.reach import Offer, Way, first_that_fits, powers_below, telling
from dhsic.io.open import open_samples
from dhsic.io.variables import Variable
from dhsic.kernels import Combinations, Kernel, KernelName, parse
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
    warn_of_rounding,
)

Vector = NDArray[np.float64]

# The fewest landmarks that are offered where none were asked for.
_USUAL, _FEWEST = "8sqrt", 64
_REMEDY = "take fewer landmarks or fewer threads"


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
    check_landmark_options(_USUAL if n_landmarks is None else n_landmarks, tolerance)
    check_choice("selection", selection, get_args(Selection))
    check_integer("pool", pool, minimum=1)
    session = _session(x, rng, precision, client, threads, memory, progress, checkpoint, time)
    asked = _embedding_kernel(kernel)
    check_kernel(asked, kinds_of(session.sources[0]), "x")
    # Without replacement: a row that is there twice spans nothing more.
    p = landmark_count(_USUAL if n_landmarks is None else n_landmarks, session.n, replace=False)
    planner = partial(_embedding_plan, session, asked, selection, pool)
    choice = ""
    if n_landmarks is None:
        offers = [
            Offer(k, f"{k:,} landmarks", partial(planner, k), partial(_run_uniform, asked, k))
            for k in powers_below(p, _FEWEST)
        ]
        p, choice = first_that_fits(session, [offers])
    session.begin(telling(planner(p), [Way("landmarks", p, planner)]))
    s = _pool_rows(session, selection, pool, p)
    # What a checkpoint has to be made of, or it is that of another call.
    session.resume(
        computes="mean embedding",
        kernel=asked,
        n_landmarks=p,
        selection=selection,
        pool=s,
        tolerance=tolerance,
    )
    fitted, drawn = _drawn_landmarks(session, asked, s)
    if selection != "uniform":
        session.step("select landmarks")
        chooser = generator(session.seed, "selection", 0)
        drawn = drawn.keep(select(selection, Pool((fitted,), drawn.points), p, chooser))
    session.step("prune landmarks")
    kept, factor = prune(drawn, (fitted,), tolerance_for(tolerance, session.dtype))
    sums = _sums(session, fitted, kept.points[0])
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
        passes=passes_of(session),
        choice=choice,
    )


@shows_progress
def embed_like(
    embedding: MeanEmbedding,
    x: Any,
    *,
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    progress: Progress = None,
    checkpoint: str | None = None,
) -> MeanEmbedding:
    """The embedding of other rows at the landmarks of an embedding, see `MeanEmbedding.like`.

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `mean_embedding`; or rows of other columns.
    """
    seed, precision = embedding.seed, embedding.precision
    session = _session(x, seed, precision, client, threads, memory, progress, checkpoint)
    d, expected = session.dims[0], embedding.landmarks.shape[1]
    if d != expected:
        msg = f"x must have {expected} columns, as the rows embedded; got {d}"
        raise DataError(msg)
    pass_plan = session.plan(EmbeddingPass(_tiling(session, embedding.kernel, embedding.landmarks)))
    session.begin(plan_of(session, [pass_plan], _REMEDY))
    session.resume(
        computes="mean embedding",
        kernel=embedding.kernel,
        landmarks=embedding.landmarks,
    )
    sums = _sums(session, embedding.kernel, embedding.landmarks)
    session.verify()
    return MeanEmbedding(
        kernel=embedding.kernel,
        landmarks=embedding.landmarks,
        # These rows have no landmarks among them.
        indices=np.full(len(embedding.landmarks), -1),
        sums=sums,
        n=session.n,
        drawn=embedding.drawn,
        tolerance=embedding.tolerance,
        precision=precision,
        seed=seed,
        passes=passes_of(session),
    )


@named_arguments
def load_embedding(path: str | Path) -> MeanEmbedding:
    """Read a mean embedding that `MeanEmbedding.save` wrote.

    Parameters
    ----------
    path : str or Path
        A file ``*.npz``, or the path or URL of a zarr group.

    Returns
    -------
    MeanEmbedding

    Raises
    ------
    DataError
        There is none.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dhsic
    >>> found = dhsic.mean_embedding(np.arange(100.0), rng=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found.save(f"{folder}/first.npz")
    ...     again = dhsic.load_embedding(f"{folder}/first.npz")
    >>> dhsic.mmd(found, again)
    0.0
    """
    arrays, told = read_record(path)
    try:
        digits = arrays.pop("digits")
        landmarks, indices = arrays["landmarks"], arrays["indices"]
        # A file may be of another version, or damaged: lengths must agree before sums are read.
        if digits.shape != (LIMBS, len(landmarks)) or len(indices) != len(landmarks):
            raise ValueError
        return MeanEmbedding(
            kernel=kernel_of_text(told.pop("kernel")),
            landmarks=landmarks,
            indices=indices.astype(np.intp),
            sums=ExactSums(digits),
            **told,
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        msg = f"{path} holds no mean embedding that can be read ({type(error).__name__})"
        raise DataError(msg) from error


def _embedding_kernel(kernel: Any) -> Kernel:
    if isinstance(kernel, str):
        return parse(kernel)
    if isinstance(kernel, Kernel):
        return kernel
    msg = f"kernel must be a name or a Kernel, got {kernel!r}"
    raise InvalidArgumentError(msg)


def _session(
    x: Any,
    rng: RngLike,
    precision: str,
    client: Any,
    threads: int | None,
    memory: int | str,
    progress: Any,
    checkpoint: str | None,
    time: float | str | None = None,
) -> Session:
    with graphs_on(client, threads):
        sources: Sequence[Any] = open_samples([x], ["x"])
    in_memory = isinstance(sources[0].array, np.ndarray) and not isinstance(x, Variable)
    # Other rows could give the same labels other codes, and embeddings are compared.
    if in_memory and sources[0].categorical and not _keeps_codes(x):
        msg = (
            "labels of an embedding must have codes that other rows share, got text: make x a "
            "categorical column of pandas, or integer codes with kernel 'delta'"
        )
        raise DataError(msg)
    place = client, threads, memory, progress, checkpoint
    return session_over(sources, rng, precision, *place, time=time)


def _keeps_codes(x: Any) -> bool:
    """Whether the codes of labels follow from more than the rows at hand."""
    types: Any = getattr(x, "dtypes", getattr(x, "dtype", None))
    listed = types if hasattr(types, "__iter__") else [types]
    return all(str(dtype) == "category" for dtype in listed)


def _drawn_landmarks(session: Session, asked: Kernel, s: int) -> tuple[Kernel, Landmarks]:
    """The kernel, and s rows to choose landmarks from."""
    session.step("fetch landmarks")
    (drawn,) = uniform_rows(session.seed, session.n, s, 1, pairing="joint", replace=False)
    (sampled,) = bandwidth_rows(session)
    # Landmarks and the sample for the bandwidth are read together.
    (rows,) = session.take([np.append(drawn, sampled)])
    (fitted,) = fit_kernels(session, (asked,), [rows[s:]])
    return fitted, Landmarks((rows[:s],), (drawn,))


def _tiling(session: Session, kernel: Kernel, landmarks: Vector) -> Tiling:
    return Tiling.prepare(Combinations.single([kernel]), [landmarks], session.dtype)


def _sums(session: Session, kernel: Kernel, landmarks: Vector) -> ExactSums:
    tiling = _tiling(session, kernel, landmarks)
    # Known at the landmarks, before the pass whose sums would carry it.
    warn_of_rounding(session.names, (kernel,), tiling.columns, session.dtype)
    return session.reduce(EmbeddingPass(tiling))


def _run_uniform(asked: Kernel, p: int, session: Session) -> object:
    """The pass at p uniform landmarks as they are drawn, for its seconds."""
    fitted, drawn = _drawn_landmarks(session, asked, p)
    return _sums(session, fitted, drawn.points[0])


def _pool_rows(session: Session, selection: Selection, pool: int, p: int) -> int:
    """Rows that p landmarks are chosen from."""
    return p if selection == "uniform" else min(session.n, pool * p)


def _embedding_plan(
    session: Session, asked: Kernel, selection: Selection, pool: int, p: int
) -> Plan:
    """The plan with p landmarks."""
    (d,), s = session.dims, _pool_rows(session, selection, pool, p)
    guessed = asked.fit(np.array([np.zeros(d), np.ones(d)]))
    rows = 8 * d * (s + BANDWIDTH_ROWS)
    fetch = 3 * rows + session.sources[0].take_bytes
    steps: list[DriverStep | PassPlan] = [DriverStep("fetch landmarks", fetch, rows)]
    if selection != "uniform":
        needed = select_bytes(selection, s, p, guessed.width(d))
        steps.append(DriverStep("select landmarks", needed))
    steps += [
        DriverStep("prune landmarks", 4 * 8 * p * p),
        session.plan(EmbeddingPass(_tiling(session, guessed, np.zeros((p, d))))),
    ]
    return plan_of(session, steps, _REMEDY, n_landmarks=p)
