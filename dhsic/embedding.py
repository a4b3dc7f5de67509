"""Compute, compare, store and load mean embeddings of samples at landmarks.

The result comes first, after the exact sums that it adds up; then `mean_embedding` with its pass,
`load_embedding`, and `mmd` of two embeddings.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, Self, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import RunArguments, RunOptions, check_kernel, read_kernel, takes_run
from dhsic._files import check_regular, parse_json, written_whole
from dhsic._progress import Progress, shows_progress
from dhsic._random import generator
from dhsic._validation import (
    check_choice,
    check_flag,
    check_integer,
    check_path,
    named_arguments,
    shown,
)
from dhsic.engine.passes import Footprint, Pass, RowBlock, kinds_of
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.runtime import graphs_on
from dhsic.engine.session import Session
from dhsic.errors import DataError, DhsicError, InvalidArgumentError
from dhsic.estimators.base import fetch_landmarks, fetching_step, plan_of
from dhsic.estimators.choose import first_that_fits, powers_below, telling
from dhsic.io.open import open_samples
from dhsic.io.urls import is_url, redacted
from dhsic.io.variables import Variable, inventory_of, open_stored
from dhsic.kernels import Combinations, Gaussian, Kernel, KernelName, kernel_of_plain, plain_kernel
from dhsic.landmarks import (
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
from dhsic.linalg import PivotedCholesky, pivoted_cholesky
from dhsic.results import BarResult, PassSummary, kernel_text
from dhsic.statistics.gram import ROW_TILE, Tiling, column_sums

Vector = NDArray[np.float64]

_REMEDY = "take fewer landmarks or fewer threads"
_ATTRIBUTES = "attributes"
_FORMAT = "dhsic mean embedding 1"
_TOLD = "n", "drawn", "tolerance", "precision", "seed", "choice"
# The fewest landmarks that are offered where none were asked for.
_USUAL, _FEWEST = "8sqrt", 64
# Digits of 32 bits in int64: 2^30 numbers are added before any digit overflows.
_BITS = 32
# 2^(32 * -34) is below the least number, 2^-1074, and 2^(32 * 32) above the largest.
_LOWEST, _HIGHEST = -34, 31
_MASK = (1 << _BITS) - 1
_LIMBS = _HIGHEST - _LOWEST + 1


class ExactSums(NamedTuple):
    """Sums of p series of finite numbers, as integers in base 2^32.

    Floating-point addition rounds, so that sums depend on the order of what is added. Here a
    number is cut into digits that are integers, from 2^-1088 below the least to 2^1024 above the
    largest, and integers add up the same in any order: parts that are summed apart and merged give
    the bits of one pass over all.

    Parameters
    ----------
    digits : ndarray of int64, shape (66, p)
        The lowest first, each in 0..2^32 - 1 but the highest, which has the sign.

    Examples
    --------
    >>> one = ExactSums.of(np.array([1e300])).add(ExactSums.of(np.array([1.0])))
    >>> one.add(ExactSums.of(np.array([-1e300]))).values()
    array([1.])
    """

    digits: NDArray[np.int64]

    @classmethod
    def of(cls, *parts: Vector) -> ExactSums:
        """Sums of finite numbers, one of every series at a time, shapes (p,); at most 2^30."""
        digits = np.zeros((_LIMBS, len(parts[0])), np.int64)
        for values in parts:
            left = np.array(values, np.float64)
            # No number has a digit above its exponent.
            _, exponent = np.frexp(np.abs(left).max(initial=0.0))
            for place in range(min(_HIGHEST, int(exponent) // _BITS), _LOWEST - 1, -1):
                # Powers of two scale without rounding, so each digit is cut off exactly.
                whole = np.trunc(np.ldexp(left, -_BITS * place))
                digits[place - _LOWEST] += whole.astype(np.int64)
                left -= np.ldexp(whole, _BITS * place)
                if not left.any():
                    break
        return cls(_carried(digits))

    def add(self, other: ExactSums) -> ExactSums:
        """Sums of both."""
        return ExactSums(_carried(self.digits + other.digits))

    def values(self) -> Vector:
        """The nearest numbers but for a rounding or two, shape (p,)."""
        # The highest digit has the sign, since all others are at least 0.
        negative = self.digits[-1] < 0
        # The digits of -1 are as large as digits can be, and borrow from each other: added up as
        # floating-point numbers they would cancel, so that signs are turned first.
        positive = _carried(np.where(negative, -self.digits, self.digits))
        total = np.zeros(positive.shape[1])
        # From the lowest digit up: small ones are added while the sum is small.
        for number, digit in enumerate(positive):
            total += np.ldexp(digit.astype(np.float64), _BITS * (number + _LOWEST))
        return np.where(negative, -total, total)


def _carried(digits: NDArray[np.int64]) -> NDArray[np.int64]:
    """All digits but the highest in 0..2^32 - 1: equal sums have equal digits."""
    carried = digits.copy()
    for number in range(len(carried) - 1):
        # An arithmetic shift rounds down, so that negative digits borrow from the next.
        carried[number + 1] += carried[number] >> _BITS
        carried[number] &= _MASK
    return carried


@dataclass(frozen=True, eq=False, repr=False)
class MeanEmbedding(BarResult):
    """The mean embedding of n rows, projected on landmarks.

    With landmarks z_1..z_r, K their Gram matrix and kappa_j = (1/n) sum_i k(z_j, x_i), the
    embedding is the function sum_j alpha_j k(z_j, .) with alpha = K^-1 kappa ([1]_ equation 5).
    Among the linear combinations of k(z_j, .) it is nearest to (1/n) sum_i k(x_i, .). Sums have no
    rounding: `update` and `merge` give the result of one pass over all rows.

    Parameters
    ----------
    kernel : Kernel
        The fitted kernel.
    landmarks : ndarray, shape (r, d)
        Landmarks that span the drawn ones, in units of the variable.
    indices : ndarray of int, shape (r,)
        The rows of the data that are landmarks; -1 for given landmarks.
    sums : ExactSums
        sum_i k(z_j, x_i).
    n : int
        Number of rows.
    drawn : int
        Landmarks before pruning.
    tolerance : float
        Relative squared distance to the span below which a landmark was dropped.
    precision : str
        Precision of the tiles.
    seed : int
        Seed of every random draw.
    passes : tuple of PassSummary, optional
        The passes over the data.
    choice : str, optional
        Why fewer landmarks than usual were drawn, if the call gave no number.

    Raises
    ------
    InvalidArgumentError
        By the methods: rows with another number of columns, not one value for each landmark, or an
        embedding with another kernel or other landmarks.

    References
    ----------
    .. [1] A. Chatalic, N. Schreuder, A. Rudi, L. Rosasco. Nystrom kernel mean embeddings. ICML
       2022.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.random.default_rng(0).standard_normal((2, 3_000))
    >>> one = dhsic.mean_embedding(x[0], "gaussian:0.5", rng=0)
    >>> one.weights.sum().round(2), one(np.array([[0.0], [3.0]])).round(2)
    (np.float64(1.0), array([0.71, 0.07]))
    >>> both = one.merge(one.like(x[1] + 1.0))
    >>> both.n, both.integrate(lambda z: z[:, 0]).round(1)
    (6000, np.float64(0.5))
    """

    kernel: Kernel
    landmarks: Vector
    indices: NDArray[np.intp]
    sums: ExactSums
    n: int
    drawn: int
    tolerance: float
    precision: str
    seed: int
    passes: tuple[PassSummary, ...] = ()
    choice: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sums.digits.flags.writeable = False

    @property
    def means(self) -> Vector:
        """kappa, the values of the embedding at the landmarks, shape (r,)."""
        return self.sums.values() / self.n

    @cached_property
    def weights(self) -> Vector:
        """alpha, shape (r,)."""
        # Chatalic et al. (2022), equation 5: alpha = K^-1 kappa, by the factor; pruned landmarks
        # weigh 0.
        return self._factor.solve(self.means)

    @property
    def squared_norm(self) -> float:
        """|mu|^2 = alpha' K alpha."""
        # |mu|^2 = kappa' K^-1 kappa = |L^-1 kappa|^2.
        return self._squared_norm(self.means)

    def __call__(self, points: NDArray[Any]) -> Vector:
        """Evaluate the embedding at points (q, d), or (q,) of one column: shape (q,)."""
        at = np.asarray(points)
        at = at[:, None] if at.ndim == 1 else at
        if at.ndim != 2 or at.shape[1] != self.landmarks.shape[1]:
            msg = (
                f"points must have shape (q, {self.landmarks.shape[1]}), like the embedded rows; "
                f"got {np.shape(points)}"
            )
            raise InvalidArgumentError(msg)
        # In tiles, so that the kernels of many points are never held at once.
        starts = range(0, len(at), ROW_TILE)
        values = [self.kernel(at[i : i + ROW_TILE], self.landmarks) @ self.weights for i in starts]
        return np.concatenate([np.zeros(0), *values])

    def integrate(self, function: Callable[[Vector], Any] | NDArray[Any]) -> Any:
        """Integrate a function by the quadrature of landmarks and weights.

        For a function f of the RKHS the error is at most |f| times the distance between this
        embedding and that of the law.

        Parameters
        ----------
        function : callable or ndarray
            A function of landmarks (r, d) that returns values (r,) or (r, c); or these values.

        Returns
        -------
        float or ndarray, shape (c,)

        Raises
        ------
        InvalidArgumentError
            The values are not finite, or not one value or row of values for each landmark.
        """
        values = np.asarray(function(self.landmarks) if callable(function) else function)
        if values.shape[:1] != self.weights.shape or not np.isfinite(values).all():
            msg = (
                f"a function must give a finite value at each of {len(self.weights)} landmarks, "
                f"got values of shape {values.shape}: take one that maps (r, d) to (r,)"
            )
            raise InvalidArgumentError(msg)
        return self.weights @ values

    def inner(self, other: MeanEmbedding) -> float:
        """Inner product with another embedding of the same kernel.

        Raises
        ------
        InvalidArgumentError
            Its kernel is another.
        """
        self._check_kernel(other)
        # <mu, nu> = sum_j beta_j mu(z_j) with the weights and landmarks of the other one.
        return float(self(other.landmarks) @ other.weights)

    def squared_distance(self, other: MeanEmbedding) -> float:
        """Squared MMD of two embeddings of the same kernel ([1] section 5); at least 0.

        With the same landmarks no digits cancel.

        Raises
        ------
        InvalidArgumentError
            Its kernel is another.
        """
        self._check_kernel(other)
        if self.shares(other):
            # Differences are taken before they are squared, so that near embeddings keep their
            # digits.
            return self._squared_norm(self.means - other.means)
        squares = self.squared_norm + other.squared_norm
        # Near embeddings on landmarks of their own cancel here, at times below 0.
        return max(0.0, squares - 2.0 * self.inner(other))

    def shares(self, other: MeanEmbedding) -> bool:
        """Whether kernel and landmarks are the same."""
        return self.kernel == other.kernel and np.array_equal(self.landmarks, other.landmarks)

    def merge(self, other: MeanEmbedding) -> MeanEmbedding:
        """Compute the embedding of the rows of two embeddings with the same landmarks.

        Raises
        ------
        InvalidArgumentError
            Kernel, landmarks or precision differ.
        """
        if not self.shares(other) or self.precision != other.precision:
            msg = (
                "embeddings to merge must have the same kernel, landmarks and precision; got "
                f"{self._described} and {other._described}: embed the other rows by like()"
            )
            raise InvalidArgumentError(msg)
        # Sums without rounding are those of all rows, whichever were added first.
        return replace(
            self,
            sums=self.sums.add(other.sums),
            n=self.n + other.n,
            passes=(*self.passes, *other.passes),
        )

    @shows_progress
    def like(
        self,
        x: Any,
        *,
        client: Any = None,
        threads: int | None = None,
        memory: int | str = "2GiB",
        progress: Progress = None,
        checkpoint: str | None = None,
    ) -> MeanEmbedding:
        """Compute the embedding of other rows at the same landmarks, in one pass.

        Parameters
        ----------
        x : array-like, shape (n,) or (n, d)
            As for `mean_embedding`.
        client, threads, memory, progress, checkpoint
            As for `mean_embedding`.

        Returns
        -------
        MeanEmbedding
        """
        seed, precision, expected = self.seed, self.precision, self.landmarks.shape[1]
        run = RunOptions(seed, precision, client, threads, memory, None, progress, checkpoint)
        session = _open_sample(run, x)
        if session.dims != (expected,):
            msg = f"x must have {expected} columns, like the embedded rows; got {session.dims[0]}"
            raise DataError(msg)
        reduction = _EmbeddingPass.at(session, self.kernel, self.landmarks)
        session.begin(plan_of(session, [session.plan(reduction)], _REMEDY))
        fitted = {"kernel": self.kernel, "landmarks": self.landmarks}
        session.resume(computes="mean embedding", **fitted)
        sums = reduction.sums(session)
        session.verify()
        # These rows have no landmarks among them.
        indices, passes = np.full(len(self.landmarks), -1), session.passes
        return replace(self, indices=indices, sums=sums, n=session.n, passes=passes, choice="")

    def update(self, x: Any, **run: Any) -> MeanEmbedding:
        """Compute the embedding of these rows and others, in one pass over the others, as `like`.

        Rows are summed in groups of 2,048. If the number of these rows is a multiple of 2,048, the
        bits are those of one pass over all rows.
        """
        return self.merge(self.like(x, **run))

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write to a file ``*.npz``, or to a zarr group at another path or URL.

        Parameters
        ----------
        path : str or Path
            Path to write; `load_embedding` reads it.
        overwrite : bool, optional
            Replace an existing file or group.

        Raises
        ------
        InvalidArgumentError
            The path exists; or the kernel is not one of `dhsic.kernels`.
        DataError
            The file cannot be written.
        """
        path = check_path("path", path)
        check_flag("overwrite", overwrite)
        if not is_url(path) and os.path.exists(path) and not overwrite:
            msg = f"{path} already exists: choose another path, or pass overwrite=True"
            raise InvalidArgumentError(msg)
        indices = np.asarray(self.indices, np.int64)
        arrays: dict[str, Any] = {"landmarks": self.landmarks, "indices": indices}
        arrays["digits"] = self.sums.digits
        told = {"format": _FORMAT, "kernel": json.dumps(plain_kernel(self.kernel))}
        told |= {name: getattr(self, name) for name in _TOLD}
        if path.endswith(".npz"):
            with written_whole(Path(path)) as partial, partial.open("wb") as file:
                np.savez(file, **(arrays | {_ATTRIBUTES: np.array(json.dumps(told))}))
            return
        _write_group(path, arrays, told, overwrite=overwrite)

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        kept = f"{len(self.landmarks):,} kept of {self.drawn:,} drawn"
        return [
            ("rows", f"{self.n:,} of {self.landmarks.shape[1]} columns"),
            ("kernel", kernel_text(self.kernel.spec())),
            ("landmarks", f"{kept}; {self.choice}" if self.choice else kept),
            ("squared norm", f"{self.squared_norm:.6g}"),
            ("precision", self.precision),
            ("seed", str(self.seed)),
        ]

    def records(self) -> list[dict[str, Any]]:
        """Every landmark: its row in the data, -1 where it was given, its weight, its value."""
        columns = (self.indices, self.weights, self.means)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [{"row": row, "weight": weight, "value": mean} for row, weight, mean in rows]

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        order = np.argsort(-np.abs(self.weights), kind="stable")
        names = [f"row {row}" if row >= 0 else "given" for row in self.indices[order].tolist()]
        return names, self.weights[order].tolist(), "weights of the landmarks"

    @property
    def _described(self) -> str:
        return f"{self.kernel.spec()} at {len(self.landmarks):,} landmarks in {self.precision}"

    @cached_property
    def _factor(self) -> PivotedCholesky:
        # Landmarks were pruned when they were chosen: here rounding alone is left out.
        return pivoted_cholesky(self.kernel(self.landmarks), 0.0)

    def _squared_norm(self, values: Vector) -> float:
        return float(self._factor.squared_norm(values[self._factor.kept]))

    def _check_kernel(self, other: MeanEmbedding) -> None:
        if self.kernel != other.kernel:
            msg = (
                f"embeddings to compare must have the same kernel; got {self._described} "
                f"and {other._described}: embed the other rows by like(), or with this kernel"
            )
            raise InvalidArgumentError(msg)


@takes_run
def mean_embedding(
    x: Any,
    kernel: KernelName | str | Kernel = "gaussian",
    n_landmarks: int | str | None = None,
    *,
    selection: Selection = "uniform",
    pool: int = 4,
    tolerance: float | None = None,
    **options: Unpack[RunArguments],
) -> MeanEmbedding:
    """Compute the mean embedding of a sample, projected on landmarks, in one pass.

    Parameters
    ----------
    x : array-like, shape (n,) or (n, d)
        As for `independence_test`.
    kernel : str or Kernel, optional
        A bandwidth that is not given follows the median heuristic, as for `independence_test`.
    n_landmarks : int or str, optional
        Landmarks to draw, the m of [1]_: a number, or a multiple of sqrt(n) such as "8sqrt". The
        error of the embedding of the law reaches the rate n^-1/2 near sqrt(n) log(n) landmarks. The
        default is "8sqrt", or if that does not fit the memory and the time by the plan the largest
        power of two that fits; `choice` of the result says so.
    selection : str, optional
        "uniform", or a method that selects landmarks from a pool of uniformly drawn rows:
        "rpcholesky" or "leverage", see `dhsic.landmarks.select`.
    pool : int, optional
        Rows of the pool, as a multiple of the landmarks.
    tolerance : float, optional
        A landmark is dropped if its squared distance to the span of the others, relative to the
        largest, is below the tolerance. The default follows the precision: 1e-8 for float64 tiles,
        1e-4 for float32.
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
    run = RunOptions(**options)
    session = _open_sample(run, x)
    asked = read_kernel(kernel) or Gaussian()
    check_kernel(asked, kinds_of(session.sources[0]), "x")
    # Without replacement: a row that is there twice spans nothing more.
    p, choice = landmark_count(usual, session.n, replace=False), ""
    planner = partial(_plan, session, asked, selection, pool)
    if n_landmarks is None:
        offers = [(k, f"{k:,} landmarks") for k in powers_below(p, _FEWEST)]
        p, choice = first_that_fits(session, [offers], planner, partial(_run_uniform, asked))
    session.begin(telling(planner(p), [("landmarks", p, planner, 1)]))
    s = _pool_rows(session, selection, pool, p)
    # What a checkpoint has to be made of, or it is that of another call.
    drawing = {"n_landmarks": p, "selection": selection, "pool": s, "tolerance": tolerance}
    session.resume(computes="mean embedding", kernel=asked, **drawing)
    fitted, points, indices = _draw(session, asked, s)
    if selection != "uniform":
        session.step("select landmarks")
        chooser = generator(session.seed, "selection", 0)
        chosen = select(selection, Pool((fitted,), (points,)), p, chooser)
        points, indices = points[chosen], indices[chosen]
    session.step("prune landmarks")
    factor = prune([points], [fitted], tolerance_for(tolerance, session.dtype))
    points = points[factor.kept]
    sums = _EmbeddingPass.at(session, fitted, points).sums(session)
    session.verify()
    return MeanEmbedding(
        kernel=fitted,
        landmarks=points,
        indices=indices[factor.kept],
        sums=sums,
        n=session.n,
        drawn=p,
        tolerance=factor.tolerance,
        precision=session.dtype.name,
        seed=session.seed,
        passes=session.passes,
        choice=choice,
    )


def _draw(
    session: Session, asked: Kernel, s: int
) -> tuple[Kernel, NDArray[np.float64], NDArray[np.intp]]:
    """The kernel, and s rows to choose landmarks from, with their numbers."""
    (drawn,) = uniform_rows(session.seed, session.n, s, 1, pairing="joint", replace=False)
    combinations, (points,), _ = fetch_landmarks(session, Combinations.single([asked]), [drawn])
    return combinations.kernels[0], points, drawn


def _run_uniform(asked: Kernel, p: int, session: Session) -> object:
    """The pass at p uniform landmarks as they are drawn, for its seconds."""
    fitted, points, _ = _draw(session, asked, p)
    return _EmbeddingPass.at(session, fitted, points).sums(session)


def _pool_rows(session: Session, selection: Selection, pool: int, p: int) -> int:
    """Rows that p landmarks are chosen from."""
    return p if selection == "uniform" else min(session.n, pool * p)


def _plan(session: Session, asked: Kernel, selection: Selection, pool: int, p: int) -> Plan:
    """The plan with p landmarks."""
    (d,), s = session.dims, _pool_rows(session, selection, pool, p)
    guessed = asked.fit(np.array([np.zeros(d), np.ones(d)]))
    steps: list[DriverStep | PassPlan] = [fetching_step(session, s)]
    if selection != "uniform":
        needed = select_bytes(selection, s, p, guessed.width(d))
        steps.append(DriverStep("select landmarks", needed))
    pruning = DriverStep("prune landmarks", 4 * 8 * p * p)
    sums = _EmbeddingPass.at(session, guessed, np.zeros((p, d)))
    steps += [pruning, session.plan(sums)]
    return plan_of(session, steps, _REMEDY, n_landmarks=p)


def _open_sample(run: RunOptions, x: Any) -> Session:
    """A session over one sample, whose labels have codes that other rows share."""
    with graphs_on(run.client, run.threads):
        sources: Any = open_samples([x], ["x"])
    in_memory = isinstance(sources[0].array, np.ndarray) and not isinstance(x, Variable)
    # Other rows could give the same labels other codes, and embeddings are compared.
    types: Any = getattr(x, "dtypes", getattr(x, "dtype", None))
    listed = types if hasattr(types, "__iter__") else [types]
    keeps_codes = all(str(dtype) == "category" for dtype in listed)
    if in_memory and "category" in kinds_of(sources[0]) and not keeps_codes:
        msg = (
            "labels of an embedding must have codes that other rows share, got text: make x a "
            "categorical column of pandas, or integer codes with kernel 'delta'"
        )
        raise DataError(msg)
    return run.over(sources)


@dataclass(frozen=True)
class _EmbeddingPass(Pass[ExactSums]):
    """sum_i k(z_j, x_i), each group of rows by itself and the groups without rounding.

    Parameters
    ----------
    tiling : Tiling
        One kernel and its landmarks.
    """

    tiling: Tiling
    # Blocks begin at whole groups, so that groups are the same however the rows are cut.
    name: str = "kernel sums"
    row_multiple: int = ROW_TILE

    @classmethod
    def at(cls, session: Session, kernel: Kernel, landmarks: Vector) -> Self:
        """Of a fitted kernel at landmarks (p, d)."""
        return cls(Tiling.prepare([kernel], [landmarks], session.dtype))

    def sums(self, session: Session) -> ExactSums:
        """Sums over all rows."""
        t = self.tiling
        # Known at the landmarks, before the pass whose sums would carry it.
        warn_of_rounding(session.names, t.kernels, t.columns, session.dtype)
        return session.reduce(self)

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        t = self.tiling
        state, groups = 8 * _LIMBS * t.n_landmarks, 8 * t.n_landmarks * (rows // ROW_TILE + 1)
        scratch = t.scratch_bytes + 2 * state + 2 * groups
        return Footprint(t.nbytes, scratch, state)

    def chunk(self, block: RowBlock) -> ExactSums:
        """Sums over one block."""
        sums = np.empty((-(-block.rows // ROW_TILE), self.tiling.n_landmarks))
        for at, _, landmarks, (tile,) in self.tiling.of(block.values):
            sums[at.start // ROW_TILE, landmarks] = column_sums(tile)
        # Integers have no infinity, so that exact sums could not hold it.
        if not np.isfinite(sums).all():
            msg = (
                f"the kernel overflows in rows {block.start} to {block.start + block.rows - 1}"
                ": take a bounded kernel, as 'gaussian', or scale the variable"
            )
            raise DataError(msg)
        return ExactSums.of(*sums)

    def combine(self, left: ExactSums, right: ExactSums) -> ExactSums:
        """Add."""
        return left.add(right)


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
        The path has no mean embedding.

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
    path = check_path("path", path)
    try:
        if path.endswith(".npz"):
            check_regular(path)
            # A pickle could run code of whoever wrote it.
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
            told = parse_json(str(arrays[_ATTRIBUTES]))
        else:
            try:
                group = open_stored(path, "group")
            except DataError as error:  # whose advice is on data
                raise error.__cause__ or error from None
            told, stored = dict(group.attrs), dict(group.arrays())
            inventories = (inventory_of(array, name) for name, array in stored.items())
            # An absent chunk would read as zeros.
            if any(found is not None and found.absent for found in inventories):
                raise ValueError
            arrays = {name: array[:] for name, array in stored.items()}
        landmarks, indices, digits = (arrays[name] for name in ("landmarks", "indices", "digits"))
        # A file may be of another version, or damaged: lengths must agree before sums are read.
        lengths = digits.shape == (_LIMBS, len(landmarks)) and len(indices) == len(landmarks)
        if told["format"] != _FORMAT or not lengths:
            raise ValueError
        return MeanEmbedding(
            kernel=kernel_of_plain(parse_json(told["kernel"])),
            landmarks=landmarks,
            indices=indices.astype(np.intp),
            sums=ExactSums(digits),
            **{name: told[name] for name in _TOLD},
        )
    except DhsicError:
        raise
    except Exception as error:  # of zarr, where metadata are damaged, it may be any
        shown_path, said = redacted(path), type(error).__name__
        msg = f"{shown_path} holds no mean embedding that can be read ({said}): check the path"
        raise DataError(msg) from error


def _write_group(path: str, arrays: Any, told: Any, *, overwrite: bool) -> None:
    import zarr  # slow to import
    from zarr.codecs import Crc32cCodec

    from dhsic.io.storage import remote_store  # by zarr

    try:
        store = remote_store(path, read_only=False) if is_url(path) else path
        # "w-" refuses a group that is there already.
        group = zarr.open_group(store, mode="w" if overwrite else "w-")
        for name, values in arrays.items():
            whole = {"write_empty_chunks": True}  # so that one that is lost is not taken for zeros
            group.create_array(name, data=values, compressors=Crc32cCodec(), config=whole)
        group.attrs.update(told)  # last: a group without them is no embedding
    except DhsicError:
        raise
    except Exception as error:
        msg = f"cannot write a zarr group at {redacted(path)} ({type(error).__name__}: {error})"
        raise DataError(msg) from error


@named_arguments
def mmd(first: MeanEmbedding, second: MeanEmbedding) -> float:
    """Compute the maximum mean discrepancy of two embeddings of the same kernel.

    The embeddings may have different landmarks.

    Parameters
    ----------
    first, second : MeanEmbedding
        Embeddings of two samples.

    Returns
    -------
    float

    Raises
    ------
    InvalidArgumentError
        Their kernels are not the same.

    References
    ----------
    .. [1] A. Chatalic, N. Schreuder, A. Rudi, L. Rosasco. Nystrom kernel mean embeddings. ICML
       2022, theorem 5.1 for the error.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.random.default_rng(0).standard_normal((2, 2_000))
    >>> one = dhsic.mean_embedding(x[0], "gaussian:0.5", rng=0)
    >>> other = dhsic.mean_embedding(x[1] + 1.0, one.kernel, rng=1)
    >>> round(dhsic.mmd(one, other), 1)
    0.4
    """
    given: tuple[Any, Any] = first, second
    for embedding in given:
        if not isinstance(embedding, MeanEmbedding):
            msg = (
                f"mmd compares mean embeddings, got {shown(embedding)}: make one of each sample by "
                "mean_embedding, or test samples by two_sample_test"
            )
            raise InvalidArgumentError(msg)
    return math.sqrt(first.squared_distance(second))
