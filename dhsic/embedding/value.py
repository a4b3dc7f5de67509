"""A mean embedding at landmarks: what it is, what can be asked of it, and its files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import RunOptions
from dhsic._files import check_regular, parse_json
from dhsic._progress import Progress, shows_progress
from dhsic._validation import check_flag, check_path, named_arguments, shown
from dhsic.embedding.sums import LIMBS, ExactSums, open_sample, plan_sums, sum_kernel
from dhsic.engine.tiles import ROW_TILE
from dhsic.errors import DataError, DhsicError, InvalidArgumentError
from dhsic.estimators.base import plan_of
from dhsic.io.chunks import inventory_of
from dhsic.io.open import check_metadata
from dhsic.io.urls import is_url, redacted
from dhsic.io.whole import written_whole
from dhsic.kernels import Kernel, kernel_of_plain, plain_kernel
from dhsic.linalg import PivotedCholesky, pivoted_cholesky, solve_lower
from dhsic.results import BarResult, PassSummary, kernel_text

Vector = NDArray[np.float64]

REMEDY = "take fewer landmarks or fewer threads"
_ATTRIBUTES = "attributes"
_FORMAT = "dhsic mean embedding 1"
_TOLD = "n", "drawn", "tolerance", "precision", "seed", "choice"


@dataclass(frozen=True, eq=False, repr=False)
class MeanEmbedding(BarResult):
    """The mean embedding of n rows, projected on landmarks.

    With landmarks z_1..z_r, K their Gram matrix and kappa_j = (1/n) sum_i k(z_j, x_i) it is the
    function sum_j alpha_j k(z_j, .) with alpha = K^-1 kappa ([1]_ equation 5), the nearest to
    (1/n) sum_i k(x_i, .) among those of landmarks. The sums are kept without rounding: `update` and
    `merge` give what one pass over all rows would.

    Parameters
    ----------
    kernel : Kernel
        As fitted.
    landmarks : ndarray, shape (r, d)
        Those that span what was drawn, in units of the variable.
    indices : ndarray of int, shape (r,)
        The rows of the data that they are; -1 where they were given.
    sums : ExactSums
        sum_i k(z_j, x_i).
    n : int
        Rows.
    drawn : int
        Landmarks before pruning.
    tolerance : float
        Relative squared distance to the span below which a landmark was dropped.
    precision : str
        Precision of the tiles.
    seed : int
        Fixes every draw.
    passes : tuple of PassSummary, optional
        The passes over the data.
    choice : str, optional
        Why fewer landmarks were drawn than usual, where their number was not given.

    Raises
    ------
    InvalidArgumentError
        By the methods: rows of another number of columns, values that are not one a landmark, or an
        embedding of another kernel or with other landmarks.

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

    _tabular: ClassVar[bool] = True

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
        alpha = np.zeros(len(self.landmarks))
        alpha[self._factor.kept] = solve_lower(
            self._factor.factor, self._whitened(self.means), transposed=True
        )
        return alpha

    @property
    def squared_norm(self) -> float:
        """|mu|^2 = alpha' K alpha."""
        # |mu|^2 = kappa' K^-1 kappa = |L^-1 kappa|^2.
        whitened = self._whitened(self.means)
        return float(whitened @ whitened)

    def __call__(self, points: NDArray[Any]) -> Vector:
        """Evaluate the embedding at points (q, d), or (q,) of one column: shape (q,)."""
        # In tiles, so that the kernels of many points are never held at once.
        at = self._rows(points, "points")
        starts = range(0, len(at), ROW_TILE)
        values = [self.kernel(at[i : i + ROW_TILE], self.landmarks) @ self.weights for i in starts]
        return np.concatenate([np.zeros(0), *values])

    def integrate(self, function: Callable[[Vector], Any] | NDArray[Any]) -> Any:
        """Integrate a function by the quadrature of landmarks and weights.

        For functions f of the RKHS the error is at most |f| times the distance of the embedding to
        that of the law.

        Parameters
        ----------
        function : callable or ndarray
            Takes landmarks (r, d) and returns (r,) or (r, c); or these values.

        Returns
        -------
        float or ndarray, shape (c,)

        Raises
        ------
        InvalidArgumentError
            Not one finite value, or row of them, a landmark.
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
        if self.shares(other):
            return float(self._whitened(self.means) @ self._whitened(other.means))
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
            difference = self._whitened(self.means - other.means)
            return float(difference @ difference)
        squares = self.squared_norm + other.squared_norm
        # Near embeddings on landmarks of their own cancel here, at times below 0.
        return max(0.0, squares - 2.0 * self.inner(other))

    def shares(self, other: MeanEmbedding) -> bool:
        """Whether kernel and landmarks are the same."""
        return self.kernel == other.kernel and np.array_equal(self.landmarks, other.landmarks)

    def merge(self, other: MeanEmbedding) -> MeanEmbedding:
        """The embedding of the rows of both, at the landmarks that they share.

        Raises
        ------
        InvalidArgumentError
            Kernel, landmarks or precision differ.
        """
        if not self.shares(other) or self.precision != other.precision:
            msg = (
                "embeddings merge where kernel, landmarks and precision are the same; got "
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

    def like(self, x: Any, **run: Any) -> MeanEmbedding:
        """The embedding of other rows at the same landmarks, in one pass.

        Parameters
        ----------
        x : array-like, shape (n,) or (n, d)
            As for `mean_embedding`.
        **run : object
            client, threads, memory, progress and checkpoint of `mean_embedding`.

        Returns
        -------
        MeanEmbedding
        """
        return _like(self, x, **run)

    def update(self, x: Any, **run: Any) -> MeanEmbedding:
        """The embedding of these rows and others, in one pass over the others, as `like`.

        Rows are summed in groups of 2,048. Where these rows are a multiple of it, the bits are
        those of one pass over all.
        """
        return self.merge(self.like(x, **run))

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write to a file ``*.npz``, or to a zarr group at another path or URL.

        Parameters
        ----------
        path : str or Path
            Where; read by `load_embedding`.
        overwrite : bool, optional
            Replace what is there.

        Raises
        ------
        InvalidArgumentError
            Something is there; or the kernel is not one of `dhsic.kernels`.
        DataError
            It cannot be written.
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
        kept = f"{len(self.landmarks):,} of {self.drawn:,} drawn"
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

    def _whitened(self, values: Vector) -> Vector:
        return solve_lower(self._factor.factor, values[self._factor.kept])

    def _rows(self, points: NDArray[Any], what: str) -> NDArray[Any]:
        rows = np.asarray(points)
        rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or rows.shape[1] != self.landmarks.shape[1]:
            msg = (
                f"{what} must have shape (q, {self.landmarks.shape[1]}), as the rows embedded; "
                f"got {np.shape(points)}"
            )
            raise InvalidArgumentError(msg)
        return rows

    def _check_kernel(self, other: MeanEmbedding) -> None:
        if self.kernel != other.kernel:
            msg = (
                f"embeddings are compared where their kernel is the same; got {self._described} "
                f"and {other._described}: embed the other rows by like(), or with this kernel"
            )
            raise InvalidArgumentError(msg)


@shows_progress
def _like(
    embedding: MeanEmbedding,
    x: Any,
    *,
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    progress: Progress = None,
    checkpoint: str | None = None,
) -> MeanEmbedding:
    """The embedding of other rows at the landmarks of an embedding."""
    seed, precision = embedding.seed, embedding.precision
    run = RunOptions(seed, precision, client, threads, memory, None, progress, checkpoint)
    session = open_sample(run, x)
    d, expected = session.dims[0], embedding.landmarks.shape[1]
    if d != expected:
        msg = f"x must have {expected} columns, as the rows embedded; got {d}"
        raise DataError(msg)
    fitted: Any = {"kernel": embedding.kernel, "landmarks": embedding.landmarks}
    session.begin(plan_of(session, [plan_sums(session, **fitted)], REMEDY))
    session.resume(computes="mean embedding", **fitted)
    sums = sum_kernel(session, **fitted)
    session.verify()
    # These rows have no landmarks among them.
    indices, passes = np.full(len(embedding.landmarks), -1), session.passes
    return replace(embedding, indices=indices, sums=sums, n=session.n, passes=passes, choice="")


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
    path = check_path("path", path)
    try:
        arrays, told = _read_file(path) if path.endswith(".npz") else _read_group(path)
        landmarks, indices, digits = (arrays[name] for name in ("landmarks", "indices", "digits"))
        # A file may be of another version, or damaged: lengths must agree before sums are read.
        lengths = digits.shape == (LIMBS, len(landmarks)) and len(indices) == len(landmarks)
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

    try:
        # "w-" refuses a group that is there already.
        group = zarr.open_group(_store(path, read_only=False), mode="w" if overwrite else "w-")
        for name, values in arrays.items():
            whole = {"write_empty_chunks": True}  # so that one that is lost is not taken for zeros
            group.create_array(name, data=values, compressors=Crc32cCodec(), config=whole)
        group.attrs.update(told)  # last: a group without them is no embedding
    except DhsicError:
        raise
    except Exception as error:
        msg = f"cannot write a zarr group at {redacted(path)} ({type(error).__name__}: {error})"
        raise DataError(msg) from error


def _read_file(path: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    check_regular(path)
    # A pickle could run code of whoever wrote it.
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    return arrays, parse_json(str(arrays[_ATTRIBUTES]))


def _read_group(path: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    import zarr

    if not is_url(path):
        check_metadata(path)
    group = zarr.open_group(_store(path, read_only=True), mode="r")
    found = dict(group.arrays())
    for name, array in found.items():
        inventory = inventory_of(array, name)
        # An absent chunk would read as zeros.
        if inventory is not None and inventory.absent:
            msg = f"chunks of {name!r} are absent"
            raise ValueError(msg)
    return {name: array[:] for name, array in found.items()}, dict(group.attrs)


def _store(path: str, *, read_only: bool) -> Any:
    if not is_url(path):
        return path
    from dhsic.io.storage import RemoteStore  # by zarr

    return RemoteStore(path, read_only=read_only)


@named_arguments
def mmd(first: MeanEmbedding, second: MeanEmbedding) -> float:
    """Maximum mean discrepancy of two embeddings of the same kernel.

    Each is projected on landmarks of its own, or both on the same.

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
