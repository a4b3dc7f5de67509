"""Samples pooled into one variable, their rows mixed in a fixed order that needs no memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import Source
from dhsic.io.rest import OfSources, RestSource
from dhsic.io.sources import GraphSource, OfRows

if TYPE_CHECKING:
    from dask.delayed import Delayed

Indices = NDArray[np.intp]

_LARGEST_PRODUCT = 2**62


def rows_of_samples(rows: Indices, sizes: Sequence[int]) -> tuple[Indices, Indices]:
    """The sample of every pooled row, and its row there.

    Two samples of n and m rows are mixed evenly: of the first i pooled rows, floor(i n / (n + m))
    are of the first. More are mixed one after another, each into all before it. So every run of
    pooled rows has of every sample about its share of the whole, and as many rows of each where
    samples are equally long, K to a run of K = 2, 4, 8, ...

    Parameters
    ----------
    rows : ndarray of int, shape (b,)
        Pooled rows.
    sizes : sequence of int
        Rows of every sample.

    Returns
    -------
    samples, places : ndarray of int, shapes (b,)

    Examples
    --------
    >>> rows_of_samples(np.arange(6), [4, 2])
    (array([1, 0, 0, 1, 0, 0]), array([0, 0, 1, 1, 2, 3]))
    """
    samples, places = np.zeros(len(rows), np.intp), np.asarray(rows, np.intp).copy()
    left = np.arange(len(rows))
    totals = list(accumulate(sizes))
    # From the last sample back, since each was mixed into all before it.
    for k in range(len(sizes) - 1, 0, -1):
        position = places[left]
        before = _share(position, totals[k - 1], totals[k])
        # A row is of the earlier samples where their share grows with it.
        earlier = _share(position + 1, totals[k - 1], totals[k]) > before
        of_sample = left[~earlier]
        samples[of_sample], places[of_sample] = k, (position - before)[~earlier]
        left = left[earlier]
        places[left] = before[earlier]
    return samples, places


def _share(position: Indices, part: int, whole: int) -> Indices:
    """floor(position * part / whole), however large they are."""
    # Larger products would overflow; Python's whole numbers do not.
    if whole * whole < _LARGEST_PRODUCT:
        return position * part // whole
    return (position.astype(object) * part // whole).astype(np.intp)


@dataclass(frozen=True)
class PooledSource(OfSources):
    """Samples as one variable, see `rows_of_samples`.

    Parameters
    ----------
    name : str
        Name of the variable.
    samples : tuple of source
        Two or more, of the same columns.
    """

    name: str
    samples: tuple[Source, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of every sample."""
        return tuple(sample.shape[0] for sample in self.samples)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of all samples, and columns."""
        return sum(self.sizes), self.samples[0].shape[1]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the widest storage."""
        return max(sample.row_bytes for sample in self.samples)

    @property
    def chunk_rows(self) -> int | None:
        """Pooled rows for which the largest sample is read in whole chunks."""
        largest = max(self.samples, key=lambda sample: sample.shape[0])
        if largest.chunk_rows is None:
            return None
        # So many pooled rows take a chunk of the largest sample.
        share = self.shape[0] / largest.shape[0]
        return min(self.shape[0], max(1, round(largest.chunk_rows * share)))

    @property
    def place(self) -> Literal["memory", "storage", "graph"]:
        """A graph where any sample is one; storage where all are in storage."""
        places = {sample.place for sample in self.samples}
        if "graph" in places:
            return "graph"
        return "memory" if "memory" in places else "storage"

    @property
    def take_bytes(self) -> int:
        """Bytes that `take` holds besides its result."""
        return max(sample.take_bytes for sample in self.samples)

    def decode_bytes(self, rows: int) -> int:
        """Those of the sample that needs most, and the rows of all before they are mixed."""
        return max(sample.decode_bytes(rows) for sample in self.samples) + rows * self.row_bytes

    @property
    def parts(self) -> tuple[Source, ...]:
        """The samples."""
        return self.samples

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop-1."""
        numbers, places = rows_of_samples(np.arange(start, stop), self.sizes)
        return _merged_rows(
            numbers,
            {
                k: sample.read(int(rows[0]), int(rows[-1]) + 1)
                for k, sample in enumerate(self.samples)
                if len(rows := places[numbers == k])
            },
        )

    def take(self, rows: NDArray[np.intp]) -> Any:
        """Rows by increasing number."""
        numbers, places = rows_of_samples(rows, self.sizes)
        taken = {
            k: sample.take(rows_of_sample)
            for k, sample in enumerate(self.samples)
            if len(rows_of_sample := places[numbers == k])
        }
        if self.place != "graph":
            return _merged_rows(numbers, taken)
        import dask.array as da

        # The place of every pooled row among the samples put one after another.
        order = np.argsort(np.argsort(numbers, kind="stable"), kind="stable")
        return da.concatenate([da.asarray(values) for values in taken.values()])[order]

    def lazy(self, bounds: Sequence[int]) -> list[Delayed]:
        """Delayed blocks between the bounds, where a sample is a Dask array."""
        import dask.array as da

        arrays = [_as_dask(sample) for sample in self.samples]
        blocks = []
        for start, stop in pairwise(bounds):
            numbers, places = rows_of_samples(np.arange(start, stop), self.sizes)
            present = np.unique(numbers).tolist()
            spans = [places[numbers == k][[0, -1]] + [0, 1] for k in present]
            parts = [arrays[k][int(a) : int(b)] for k, (a, b) in zip(present, spans, strict=True)]
            order = np.argsort(np.argsort(numbers, kind="stable"), kind="stable")
            # One block a task, as the bounds of the pass ask.
            whole = da.concatenate(parts).rechunk(-1)
            mixed = whole.map_blocks(np.take, order, axis=0, dtype=whole.dtype)
            blocks.append(mixed.to_delayed(optimize_graph=False).ravel()[0])
        return blocks

    def place_of(self, row: int) -> tuple[str, int]:
        """The name of the sample of a pooled row, and its row there."""
        samples, places = rows_of_samples(np.array([row]), self.sizes)
        return self.samples[int(samples[0])].name, int(places[0])


@dataclass(frozen=True)
class LabelSource(OfRows):
    """The code of the sample of every pooled row.

    Parameters
    ----------
    name : str
        Name of the variable.
    sizes : tuple of int
        Rows of every sample.
    codes : ndarray, shape (K, c)
        Code of every sample.
    """

    name: str
    sizes: tuple[int, ...]
    codes: NDArray[np.float64]

    place: Literal["storage"] = "storage"
    chunk_rows: int | None = None
    categorical: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of all samples, and columns of a code."""
        return sum(self.sizes), self.codes.shape[1]

    @property
    def row_bytes(self) -> int:
        """Nothing is read: the least that a plan can divide by."""
        return 1

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop-1."""
        return self.take(np.arange(start, stop))

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Rows by number."""
        codes: NDArray[Any] = self.codes[rows_of_samples(rows, self.sizes)[0]]
        return codes


def _merged_rows(numbers: Indices, parts: dict[int, NDArray[Any]]) -> NDArray[Any]:
    """Rows of the samples, each in its own order, in that of the pool."""
    columns = next(iter(parts.values())).shape[1]
    merged = np.empty((len(numbers), columns), np.result_type(*parts.values()))
    for k, values in parts.items():
        merged[numbers == k] = values
    return merged


def _as_dask(sample: Source) -> Any:
    if isinstance(sample, GraphSource):
        return sample.array
    if isinstance(sample, RestSource) and sample.place == "graph":
        return sample.take(np.arange(sample.shape[0]))
    import dask.array as da  # with pandas and Xarray, slow to import

    rows = sample.chunk_rows or sample.shape[0]
    dtype = sample.take(np.zeros(1, np.intp)).dtype
    reads = [
        da.from_delayed(_reading(sample, start, stop), (stop - start, sample.shape[1]), dtype=dtype)
        for start, stop in pairwise([*range(0, sample.shape[0], rows), sample.shape[0]])
    ]
    return da.concatenate(reads)


def _reading(sample: Source, start: int, stop: int) -> Any:
    from dask import delayed

    return delayed(sample.read, pure=False)(start, stop)
