"""Passes: any source, any chunks, any place give the same state."""

import random
import time
from dataclasses import replace
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from dhsic.engine.blas import one_blas_thread
from dhsic.engine.events import BlockFinished, PassFinished, PassStarted
from dhsic.engine.run import run_pass
from dhsic.engine.tree import most_waiting
from dhsic.io.open import open_variables
from tests.engine.toys import (
    KINDS,
    Gather,
    Sums,
    Watch,
    bits,
    even_bounds,
    gathered,
    made,
    on,
    plan_of,
    run,
    settled,
    threads,
)

N = 500
X = np.random.default_rng(0).standard_normal((N, 3))
Y = np.random.default_rng(1).standard_normal(N)
UNEVEN = (0, 130, 131, 400, N)


@pytest.mark.parametrize(
    ("first", "second"), list(zip(KINDS, [*KINDS[3:], *KINDS[:3]], strict=True))
)
@pytest.mark.parametrize("bounds", [UNEVEN, (0, N)], ids=["blocks", "one block"])
def test_run_pass__reads_any_mix_of_sources(first, second, bounds, tmp_path):
    sources = open_variables([made(first, X, tmp_path), made(second, Y, tmp_path)])
    state, _ = run(Gather(), sources, bounds)
    starts, (x, y) = gathered(state)
    assert starts == list(bounds[:-1])
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y[:, None])


@pytest.mark.parametrize(
    ("first", "second"),
    [("numpy", "zarr"), ("dask", "numpy"), ("zarr", "dask dataframe"), ("memmap", "dask xarray")],
)
@pytest.mark.parametrize("bounds", [UNEVEN, (0, N)], ids=["blocks", "one block"])
def test_run_pass__on_a_client_reads_any_mix_of_sources(client, first, second, bounds, tmp_path):
    sources = open_variables([made(first, X, tmp_path), made(second, Y, tmp_path)])
    starts, (x, y) = gathered(run(Gather(), sources, bounds, on(client))[0])
    assert starts == list(bounds[:-1])
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y[:, None])


def test_run_pass__computes_a_dask_chunk_once_for_all_its_variables():
    computed = []

    def block(block_info=None):
        start, stop = block_info[None]["array-location"][0]
        computed.append(start)
        return X[start:stop]

    lazy = da.map_blocks(block, chunks=((100,) * 5, (3,)), dtype=float, meta=np.empty((0, 0)))
    state, _ = run(Gather(), open_variables([lazy[:, :2], lazy[:, 2]]), even_bounds(N, 5))
    np.testing.assert_array_equal(np.hstack(gathered(state)[1]), X)
    assert sorted(computed) == [0, 100, 200, 300, 400]


CUTS = st.lists(st.integers(1, N - 1), unique=True, max_size=8).map(sorted)


@settings(deadline=None, max_examples=40)
@given(CUTS, CUTS, st.sampled_from([1, 2, 3]), CUTS)
def test_run_pass__has_the_same_bits_for_any_chunks(bounds, rows, columns, other_rows):
    bounds = (0, *bounds, N)
    x = da.from_array(X, chunks=(tuple(np.diff([0, *rows, N])), columns))
    y = da.from_array(Y, chunks=(tuple(np.diff([0, *other_rows, N])),))
    lazy, _ = run(Sums(), open_variables([x, y]), bounds, threads(2))
    plain, _ = run(Sums(), open_variables([X, Y]), bounds, threads(1))
    assert bits(lazy) == bits(plain)
    np.testing.assert_allclose(plain.first, [*X.sum(axis=0), Y.sum()], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("blocks", [1, 2, 5, 37])
def test_run_pass__has_the_same_bits_wherever_it_runs(client, blocks, tmp_path):
    bounds = even_bounds(N, blocks)
    data = [made("zarr", X, tmp_path), Y]
    states = [
        run(Sums(), open_variables(data), bounds, runtime)[0]
        for runtime in (threads(1), threads(3), on(client))
    ]
    assert bits(states[0]) == bits(states[1]) == bits(states[2])


def test_run_pass__sums_in_another_order_have_other_bits():
    states = [run(Sums(), open_variables([X, Y]), even_bounds(N, b))[0] for b in (1, 2, 5, 37)]
    assert len({tuple(bits(state)) for state in states}) > 1


class Late(Gather):
    def chunk(self, block):
        time.sleep(random.Random(block.start).random() * 0.02)
        return super().chunk(block)


@pytest.mark.parametrize("blocks", [2, 3, 4, 5, 16, 17, 67])
def test_run_pass__combines_in_the_order_of_the_blocks(blocks):
    state, _ = run(Late(), open_variables([X, Y]), even_bounds(N, blocks), threads(4))
    assert gathered(state)[0] == list(even_bounds(N, blocks)[:-1])


@pytest.mark.parametrize("place", ["threads", "client"])
def test_run_pass__tells_of_the_pass_and_every_block(place, request):
    runtime = threads(2) if place == "threads" else on(request.getfixturevalue("client"))
    events = []
    reduction, bounds = Gather(seconds=0.01), UNEVEN
    _, done = run(reduction, open_variables([X, Y]), bounds, runtime, events.append)
    first, *blocks, last = events
    assert first == PassStarted("toy", 4, N)
    assert all(isinstance(event, BlockFinished) and event.name == "toy" for event in blocks)
    assert sorted(event.amount for event in blocks) == sorted(b - a for a, b in pairwise(bounds))
    assert last == done == PassFinished("toy", 4, N, 0, done.seconds, done.worker_seconds)
    assert done.worker_seconds > 4 * 0.01
    assert done.seconds > 0.01


def test_run_pass__tells_of_the_only_block():
    events = []
    run(Gather(), open_variables([X, Y]), (0, N), threads(2), events.append)
    assert [type(event) for event in events] == [PassStarted, BlockFinished, PassFinished]
    assert events[1] == BlockFinished("toy", N)


class Stop:
    """A listener that raises at the second block."""

    def __init__(self, error):
        self.error, self.blocks = error, 0

    def __call__(self, event):
        self.blocks += isinstance(event, BlockFinished)
        if self.blocks == 2:
            raise self.error


ERRORS = [KeyError("mine"), KeyboardInterrupt("mine")]


@pytest.mark.parametrize("error", ERRORS, ids=["error", "interrupt"])
def test_run_pass__lets_the_listener_stop_it(error):
    listener = Stop(error)
    with pytest.raises(type(error), match="mine"):
        run(Gather(0.01), open_variables([X, Y]), even_bounds(N, 40), threads(2), listener)
    assert listener.blocks == 2
    assert run(Gather(), open_variables([X, Y]), (0, N))[1].amount == N


@pytest.mark.parametrize("error", ERRORS, ids=["error", "interrupt"])
def test_run_pass__on_a_client_lets_the_listener_stop_it_and_cancels(client, error):
    listener = Stop(error)
    with pytest.raises(type(error), match="mine"):
        run(Gather(0.05), open_variables([X, Y]), even_bounds(N, 50), on(client), listener)
    assert settled(client) == 0
    assert listener.blocks == 2


def test_run_pass__raises_the_error_of_a_block():
    with pytest.raises(ZeroDivisionError, match=r"^no luck at 250$"):
        run(Gather(fails_at=250), open_variables([X, Y]), even_bounds(N, 10))


def test_run_pass__on_a_client_raises_the_error_of_a_block_and_cancels(client):
    blocks = []
    with pytest.raises(ZeroDivisionError, match=r"^no luck at 30$"):
        run(
            Gather(0.05, fails_at=30),
            open_variables([X, Y]),
            even_bounds(N, 50),
            on(client),
            blocks.append,
        )
    assert settled(client) == 0
    assert len(blocks) < 50


def test_run_pass__on_a_client_leaves_nothing_behind(client):
    sources = open_variables([X, da.from_array(Y, chunks=70)])
    run(Gather(), sources, UNEVEN, on(client))
    assert settled(client) == 0
    with pytest.raises(ZeroDivisionError, match="no luck") as caught:
        run(Gather(fails_at=130), sources, UNEVEN, on(client))
    assert settled(client) == 0
    assert caught.traceback


@pytest.mark.parametrize("megabytes", [5, 13])
def test_run_pass__sends_large_landmarks_once_and_small_tasks(client, megabytes, tmp_path):
    """Dask's warning of large graphs, an error here, comes at 10 MB."""
    watched = Watch(client)
    landmarks = np.random.default_rng(0).standard_normal(megabytes * 10**6 // 8)
    sources = open_variables([made("zarr", X, tmp_path), made("zarr", Y, tmp_path)])
    bounds = even_bounds(N, 30)
    state, _ = run(Gather(ballast=landmarks), sources, bounds, on(watched))
    assert len(gathered(state)[0]) == 30
    ((tasks, size),) = watched.graphs
    assert tasks == plan_of(bounds).tasks == 30 + 8 + 2 + 1
    assert watched.options == {"optimize_graph": False}  # which takes the square of the tasks
    assert size / tasks < 4000
    assert megabytes * 10**6 < sum(watched.pieces) < megabytes * 10**6 + 20_000
    assert max(watched.pieces) < 5 * 10**6


def test_run_pass__sends_arrays_in_memory_by_blocks(client):
    watched = Watch(client)
    x = np.zeros((3000, 700))
    x[:] = np.arange(3000)[:, None]
    state, _ = run(
        Gather(), open_variables([x, np.zeros(3000)]), even_bounds(3000, 12), on(watched)
    )
    np.testing.assert_array_equal(gathered(state)[1][0], x)
    ((tasks, size),) = watched.graphs
    assert size / tasks < 4000
    assert max(watched.pieces) < 5 * 10**6


def test_run_pass__two_at_a_time_leave_the_blas_as_it_was():
    def limits():
        libraries = threadpool_info()
        return [found["num_threads"] for found in libraries if found["user_api"] == "blas"]

    before = limits()
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(limits()) == {1}
    second.__exit__(None, None, None)
    assert limits() == before


class Counted:
    """A partial result that counts those that are there."""

    there = most = 0

    def __init__(self):
        Counted.there += 1
        Counted.most = max(Counted.most, Counted.there)

    def __del__(self):
        Counted.there -= 1


class Counting(Sums):
    def chunk(self, block):
        return Counted()

    def combine(self, left, right):
        return Counted()


@pytest.mark.parametrize("state_bytes", [0, 2**24])
@pytest.mark.parametrize("leaves", [1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 15, 16, 17, 31, 40, 63, 64, 65])
def test_run_pass__holds_as_many_partial_results_as_its_plan_tells(leaves, state_bytes):
    plan = replace(plan_of(range(leaves + 1)), bytes_to_driver=state_bytes)
    Counted.there = Counted.most = 0
    state, _ = run_pass(Counting(), open_variables([X, Y]), plan, threads(1), lambda event: None)
    # Beside those that wait the sum of a block, and a new one; a third on the way to the sum of
    # more than two.
    waiting = most_waiting(leaves, plan.fan_in)
    assert Counted.most == waiting + min(leaves, plan.fan_in, 3)
    del state
    assert Counted.there == 0
