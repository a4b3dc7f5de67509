"""Arrays aligned with the rows, computed when they are asked for."""

from dataclasses import dataclass

import dask.array as da
import numpy as np
import pytest
import zarr

from dhsic.engine.events import BlockFinished, PassFinished, PassStarted
from dhsic.engine.session import Session
from dhsic.io.open import open_variables
from tests.engine.toys import FOOTPRINT, Watch, on, threads

N = 20_000  # five blocks


@dataclass(frozen=True)
class RowNumbers:
    """The sum of the variables in every row, and the number of the row."""

    fails_at: int = -1
    name: str = "row numbers"
    row_multiple: int = 1

    def footprint(self, rows):
        return FOOTPRINT

    def chunk(self, block):
        if block.start == self.fails_at:
            msg = f"no luck at {block.start}"
            raise ZeroDivisionError(msg)
        numbers = np.arange(block.start, block.start + block.rows)
        return sum(x[:, :1] for x in block.values), numbers

    def combine(self, left, right):
        return tuple(np.concatenate(pair) for pair in zip(left, right, strict=True))


@pytest.fixture(params=["threads", "client"])
def runtime(request):
    return threads(2) if request.param == "threads" else on(request.getfixturevalue("client"))


def lazy(runtime, *data, reduction=None, listener=None):
    session = Session(open_variables(data), runtime, 0, listener=listener)
    reduction = reduction or RowNumbers()
    return session.lazy(reduction, session.plan(reduction))


@pytest.mark.parametrize("kind", ["numpy", "zarr", "dask"])
def test_lazy__arrays_are_aligned_with_the_rows(kind, runtime, tmp_path):
    x, y = np.random.default_rng(0).standard_normal((2, N, 1))
    if kind == "zarr":
        given = zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(5000, 1))
    else:
        given = x if kind == "numpy" else da.from_array(x, chunks=5000)
    found = lazy(runtime, given, y)
    sums, numbers = found.array(0, 1, float), found.array(1, None, int)
    assert sums.chunks[0] == numbers.chunks[0] == tuple(np.diff(found.plan.bounds))
    if runtime.client is None:
        computed = da.compute(sums, numbers)
    else:
        # As blocks are computed below: a scheduler takes one graph of a key, fused or not.
        futures = runtime.client.compute([sums, numbers], optimize_graph=False)
        computed = runtime.client.gather(futures)
        del futures
    for values, expected in zip(computed, (x + y, np.arange(N)), strict=True):
        np.testing.assert_array_equal(values, expected)
    streamed = [np.concatenate(pieces) for pieces in zip(*found.blocks(), strict=True)]
    np.testing.assert_array_equal(streamed[1], np.arange(N))
    np.testing.assert_array_equal(streamed[0], x + y)


def test_blocks__send_no_more_of_a_graph_than_they_need(client):
    watched = Watch(client)
    x = da.ones((N, 1), chunks=1000) + 1
    assert len(list(lazy(on(watched), x, np.ones(N)).blocks())) == 5
    sent = [tasks for tasks, _ in watched.graphs]
    whole = len(x.__dask_graph__())
    assert len(sent) == 3  # two at a time
    assert max(sent) < whole


def test_blocks__tell_of_a_pass(runtime):
    told = []
    found = lazy(runtime, np.ones(N), np.ones(N), listener=told.append)
    assert not told
    count = len(list(found.blocks()))
    first, *blocks, last = told
    assert first == PassStarted("row numbers", count, N, "rows", 16 * N)
    assert all(type(event) is BlockFinished for event in blocks)
    assert sum(event.amount for event in blocks) == N
    assert isinstance(last, PassFinished)


def test_blocks__fail_as_their_reduction_does():
    found = lazy(threads(2), np.ones(N), np.ones(N), reduction=RowNumbers(fails_at=0))
    with pytest.raises(ZeroDivisionError, match="no luck at 0"):
        next(found.blocks())
