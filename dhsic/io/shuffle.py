"""Shuffle rows that do not fit in memory: sort them by random keys, through buckets on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_integer
from dhsic.io.zarr_output import OnRowsWritten, disk_errors

Block = Mapping[str, NDArray[np.float64]]
"""The same rows of several named arrays, each of shape (b, d)."""

_BUCKET_BYTES = 32 * 2**20
_MAX_BITS = 10


def shuffled(
    blocks: Iterable[Block],
    *,
    seed: int,
    scratch: Path,
    expected_bytes: int,
    progress: OnRowsWritten | None = None,
) -> Iterator[dict[str, NDArray[np.float64]]]:
    """Yield all rows of `blocks` in a random order, the same one for every array.

    Row i gets the i-th 64-bit number of a generator seeded with `seed`, and rows are sorted by it,
    which makes every order equally likely (up to equal keys, of which ten million rows have one
    pair with probability 3e-6). The leading bits of the key choose the bucket on disk that the row
    waits in, and one bucket at a time is sorted in memory. So the order depends on the seed and
    the number of rows alone, not on the blocks or the number of buckets.

    Parameters
    ----------
    blocks : iterable of mappings of str to ndarray, shape (b, d)
        Row blocks, with the same names in the same order. All are read before the first yield.
    seed : int
        Names the order.
    scratch : pathlib.Path
        An existing folder for the buckets, which together are as large as the data.
    expected_bytes : int
        A guess of the size of the data, in bytes; it sets the number of buckets, thus the memory.
    progress : callable, optional
        Called with the number of rows read so far.

    Yields
    ------
    dict of str to ndarray, shape (b, d)
        One bucket of rows: about 32 MiB, more where there are over 32 GiB or the guess is low.

    Raises
    ------
    InvalidArgumentError
        If the seed is no whole number from 0.
    DataError
        If the disk refuses.

    Examples
    --------
    >>> import tempfile
    >>> blocks = [{"x": np.arange(6.0)[:, None]}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parts = shuffled(blocks, seed=1, scratch=Path(folder), expected_bytes=48)
    ...     sorted(np.concatenate([part["x"] for part in parts])[:, 0].tolist())
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    """
    bits = min(max((expected_bytes // _BUCKET_BYTES).bit_length(), 1), _MAX_BITS)
    # A stream of its own: the data may come from default_rng(seed) with the same small seed.
    stream = np.random.SeedSequence(
        check_integer("shuffle", seed, minimum=0), spawn_key=tuple(b"shuffle")
    )
    rng = np.random.default_rng(stream)
    widths: dict[str, int] = {}
    read = 0
    for block in blocks:
        widths = {name: values.shape[1] for name, values in block.items()}
        records = _keyed(block, rng)
        with disk_errors(scratch):
            _deal(records, bits, scratch)
        read += len(records)
        if progress is not None:
            progress(read)
    for bucket in range(1 << bits):
        path = _bucket(scratch, bucket)
        if path.exists():
            yield _split_columns(_sorted(path, sum(widths.values())), widths)
            path.unlink()


def _keyed(block: Block, rng: np.random.Generator) -> NDArray[np.uint64]:
    # Bits, not floats: a key may look like a signalling NaN, which a copy as floats may change.
    values = np.concatenate(list(block.values()), axis=1, dtype=np.float64)
    records = np.empty((values.shape[0], values.shape[1] + 1), np.uint64)
    records[:, 0] = rng.integers(0, 2**64 - 1, len(records), np.uint64, endpoint=True)
    records[:, 1:] = values.view(np.uint64)
    return records


def _deal(records: NDArray[np.uint64], bits: int, scratch: Path) -> None:
    bucket = records[:, 0] >> np.uint64(64 - bits)
    order = np.argsort(bucket, kind="stable")
    records = records[order]
    starts = np.searchsorted(bucket[order], np.arange((1 << bits) + 1, dtype=np.uint64))
    for number in np.flatnonzero(np.diff(starts)).tolist():
        with _bucket(scratch, number).open("ab") as file:
            file.write(records[starts[number] : starts[number + 1]].data)


def _bucket(scratch: Path, number: int) -> Path:
    return scratch / f"bucket-{number}"


def _sorted(path: Path, width: int) -> NDArray[np.float64]:
    records = np.fromfile(path, np.uint64).reshape(-1, width + 1)
    order = np.argsort(records[:, 0], kind="stable")
    return records[order, 1:].view(np.float64)


def _split_columns(
    rows: NDArray[np.float64], widths: Mapping[str, int]
) -> dict[str, NDArray[np.float64]]:
    ends = np.cumsum(list(widths.values()))
    parts = np.split(rows, ends[:-1], axis=1)
    return dict(zip(widths, parts, strict=True))
