"""Rows from memory, storage and graphs."""

from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from dhsic.errors import DataError
from dhsic.io.sources import ArraySource, GraphSource, StoredSource
from tests.engine.toys import CountingStore

X = np.random.default_rng(0).standard_normal((60, 5))


def counted(chunks, shards=None, columns=None):
    store = CountingStore(zarr.storage.MemoryStore())
    zarr.create_array(store, name="x", data=X, chunks=chunks, shards=shards)
    array = zarr.open_array(store, path="x", mode="r+")
    store.reads.clear()
    return store, StoredSource("x", array, (shards or chunks)[0], columns)


@pytest.mark.parametrize("columns", [None, (0,), (4, 1)])
@pytest.mark.parametrize(
    "make",
    [
        lambda x, columns: ArraySource("x", x, columns),
        lambda x, columns: StoredSource("x", x, None, columns),
        lambda x, columns: StoredSource("x", x, 7, columns),
    ],
)
def test_source__reads_and_takes_rows(make, columns):
    source = make(X, columns)
    expected = X if columns is None else X[:, columns]
    rows = np.array([0, 6, 7, 8, 59])
    assert source.shape == expected.shape
    np.testing.assert_array_equal(source.read(3, 9), expected[3:9])
    np.testing.assert_array_equal(source.take(rows), expected[rows])


@pytest.mark.parametrize("make", [lambda x: ArraySource("x", x), lambda x: StoredSource("x", x, 7)])
def test_source__reads_booleans_as_integers(make):
    source = make(X[:, :2] > 0)
    for values in (source.read(0, 60), source.take(np.arange(60))):
        assert values.dtype == np.int8
        np.testing.assert_array_equal(values, X[:, :2] > 0)


def test_source__row_bytes_count_what_must_be_read():
    x = X.astype(np.float32)
    assert ArraySource("x", x).row_bytes == 20
    assert ArraySource("x", x, (1, 3)).row_bytes == 8
    assert StoredSource("x", x, None, (1, 3)).row_bytes == 20
    assert StoredSource("x", x[:, 0], None).row_bytes == 4
    assert GraphSource("x", da.from_array(x, chunks=(7, 2))).row_bytes == 20


@pytest.mark.parametrize(
    ("chunks", "shards"),
    [((7, 5), None), ((7, 2), None), ((60, 5), None), ((1, 5), None), ((5, 5), (20, 5))],
)
@pytest.mark.parametrize("rows", [[0], [59], [6, 7], [0, 20, 40, 59], list(range(60))])
def test_take__reads_a_stored_chunk_at_most_once_and_no_other(chunks, shards, rows):
    store, source = counted(chunks, shards)
    np.testing.assert_array_equal(source.take(np.array(rows)), X[rows])
    if shards is None:
        assert set(store.reads.values()) == {1}
        assert len(store.reads) == len({r // chunks[0] for r in rows}) * -(-5 // chunks[1])
    else:  # the index of a shard and its chunks are read apart
        assert len(store.reads) == len({r // shards[0] for r in rows})


def test_read__of_whole_chunks_reads_each_once():
    store, source = counted((10, 5))
    for start in range(0, 60, 20):
        source.read(start, start + 20)
    assert len(store.reads) == 6
    assert set(store.reads.values()) == {1}


def test_stored_source__names_the_rows_and_the_variable_that_it_cannot_read(tmp_path):
    array = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(10, 5))
    (tmp_path / "x.zarr" / "c" / "2" / "0").write_bytes(b"garbage")
    source = StoredSource("timbre", array, 10)
    np.testing.assert_array_equal(source.read(0, 20), X[:20])
    match = r"rows {} to {} of variable 'timbre' cannot be read \(.*\): is the data complete and"
    with pytest.raises(DataError, match=match.format(15, 39)):
        source.read(15, 40)
    with pytest.raises(DataError, match=match.format(20, 29)):
        source.take(np.array([3, 25, 55]))


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.integers(1, 59), unique=True, max_size=6),
    st.lists(st.integers(1, 59), unique=True, max_size=6),
    st.lists(st.integers(1, 4), unique=True, max_size=3),
)
def test_graph_source__lazy_blocks_are_the_rows_between_the_bounds(bounds, row_cuts, column_cuts):
    bounds = [0, *sorted(bounds), 60]
    chunks = tuple(
        tuple(np.diff([0, *sorted(cuts), end])) for cuts, end in ((row_cuts, 60), (column_cuts, 5))
    )
    source = GraphSource("x", da.from_array(X, chunks=chunks))
    assert source.chunk_rows == max(chunks[0])
    blocks = source.lazy(bounds)
    assert len(blocks) == len(bounds) - 1
    for block, (start, stop) in zip(blocks, pairwise(bounds), strict=True):
        np.testing.assert_array_equal(block.compute(scheduler="sync"), X[start:stop])


def test_graph_source__takes_rows_from_chunks_computed_once_at_most():
    computed = []

    def block(block_info=None):
        start, stop = block_info[None]["array-location"][0]
        computed.append(start)
        return X[start:stop]

    lazy = da.map_blocks(block, chunks=((10,) * 6, (5,)), dtype=float, meta=np.empty((0, 0)))
    rows = np.array([3, 4, 25, 26, 59])
    taken = GraphSource("x", lazy).take(rows).compute(scheduler="sync")
    np.testing.assert_array_equal(taken, X[rows])
    assert sorted(computed) == [0, 20, 50]


def test_source__refuses_the_ways_of_other_places():
    with pytest.raises(NotImplementedError):
        ArraySource("x", X).lazy([0, 60])
    with pytest.raises(NotImplementedError):
        StoredSource("x", X, None).lazy([0, 60])
    with pytest.raises(NotImplementedError):
        GraphSource("x", da.from_array(X)).read(0, 60)


class Shaky:
    """Rows on a file system that fails for a moment."""

    shape, dtype, ndim, chunks = (4, 1), np.dtype(float), 2, None

    def __init__(self, *errors):
        self.errors = list(errors)

    def __getitem__(self, rows):
        if self.errors:
            raise self.errors.pop()
        return np.ones(self.shape)[rows]


def test_read__asks_again_where_the_file_system_fails(monkeypatch):
    monkeypatch.setattr("dhsic.io.sources._PAUSE_SECONDS", 0.0)
    shaky = Shaky(OSError("stale"), OSError("stale"))
    assert StoredSource("x", shaky, None).read(1, 3).shape == (2, 1)
    shaky = Shaky(*[OSError("stale")] * 4)
    with pytest.raises(DataError, match=r"rows 1 to 2 .* cannot be read"):
        StoredSource("x", shaky, None).read(1, 3)
    assert len(shaky.errors) == 1


@pytest.mark.parametrize("error", [FileNotFoundError("gone"), PermissionError(), ValueError("bad")])
def test_read__asks_once_for_what_will_not_change(error):
    shaky = Shaky(error, error)
    with pytest.raises(DataError, match="cannot be read"):
        StoredSource("x", shaky, None).read(0, 4)
    assert len(shaky.errors) == 1
