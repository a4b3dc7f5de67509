"""Passes over pairs of row blocks: every pair once, planned, and the same anywhere."""

import math
import tracemalloc
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, pairwise

import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from dhsic._work import Work
from dhsic.engine.blocks import PAIRS, group_bounds
from dhsic.engine.events import BlockFinished, PassFinished, PassStarted
from dhsic.engine.groups import Groups
from dhsic.engine.passes import plan_pairs, plan_pass
from dhsic.engine.plan import Plan
from dhsic.engine.reduction import Footprint
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.io.open import open_variables
from dhsic.io.sources import ArraySource
from tests.engine.toys import (
    KINDS,
    PairGather,
    PairSums,
    Sums,
    Watch,
    bits,
    even_bounds,
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
TICK = 5e-11  # seconds of an operation


def sum_of_pairs():
    """Sum of z_i z_j' over all i and j, from the definition."""
    z = np.column_stack([X, Y])
    return sum(np.outer(z[i], z[j]) for i in range(N) for j in range(N))


EXPECTED = sum_of_pairs()


def sums(n, **options):
    """Over pairs of groups of ten rows."""
    return PairSums(groups=Groups(n, 10, seed=0), **options)


@pytest.mark.parametrize(
    ("first", "second"), list(zip(KINDS, [*KINDS[3:], *KINDS[:3]], strict=True))
)
@pytest.mark.parametrize("bounds", [UNEVEN, (0, N)], ids=["blocks", "one block"])
def test_run_pass__sums_every_pair_of_rows_once(first, second, bounds, tmp_path):
    sources = open_variables([made(first, X, tmp_path), made(second, Y, tmp_path)])
    state, _ = run(PairSums(), sources, bounds)
    assert state.first == N * (N + 1) // 2
    np.testing.assert_allclose(state.second, EXPECTED, rtol=1e-10)


@pytest.mark.parametrize(
    ("first", "second"),
    [("numpy", "zarr"), ("dask", "numpy"), ("zarr", "dask dataframe"), ("memmap", "dask xarray")],
)
@pytest.mark.parametrize("bounds", [UNEVEN, (0, N)], ids=["blocks", "one block"])
def test_run_pass__on_a_client_sums_every_pair_of_rows_once(
    client, first, second, bounds, tmp_path
):
    sources = open_variables([made(first, X, tmp_path), made(second, Y, tmp_path)])
    state, _ = run(PairSums(), sources, bounds, on(client))
    assert state.first == N * (N + 1) // 2
    np.testing.assert_allclose(state.second, EXPECTED, rtol=1e-10)
    assert settled(client) == 0


@pytest.mark.parametrize("blocks", [1, 2, 5, 11])
@pytest.mark.parametrize("place", ["threads", "client"])
def test_run_pass__combines_pairs_in_order(blocks, place, request):
    runtime = threads(4) if place == "threads" else on(request.getfixturevalue("client"))
    bounds = even_bounds(N, blocks)
    state, _ = run(PairGather(), open_variables([X, Y]), bounds, runtime)
    starts = [start for start, _ in state]
    pairs = list(zip(starts[::2], starts[1::2], strict=True))
    assert pairs == list(combinations_with_replacement(bounds[:-1], 2))
    sizes = dict(zip(bounds, (b - a for a, b in pairwise(bounds)), strict=False))
    for start, (x, y) in state:
        np.testing.assert_array_equal(x, X[start : start + sizes[start]])
        np.testing.assert_array_equal(y[:, 0], Y[start : start + sizes[start]])


@pytest.mark.parametrize("blocks", [1, 2, 9])
@pytest.mark.parametrize("kind", ["zarr", "dask"])
def test_run_pass__of_pairs_has_the_same_bits_wherever_it_runs(client, blocks, kind, tmp_path):
    data, bounds = [made(kind, X, tmp_path), Y], even_bounds(N, blocks)
    states = [
        run(PairSums(), open_variables(data), bounds, runtime)[0]
        for runtime in (threads(1), threads(3), on(client))
    ]
    assert bits(states[0]) == bits(states[1]) == bits(states[2])


CUTS = st.lists(st.integers(1, N - 1), unique=True, max_size=6).map(sorted)


@settings(deadline=None, max_examples=25)
@given(CUTS, CUTS)
def test_run_pass__of_pairs_has_the_same_bits_for_any_chunks(bounds, rows):
    bounds = (0, *bounds, N)
    x = da.from_array(X, chunks=(tuple(np.diff([0, *rows, N])), 2))
    lazy, _ = run(PairSums(), open_variables([x, Y]), bounds, threads(2))
    plain, _ = run(PairSums(), open_variables([X, Y]), bounds, threads(1))
    assert bits(lazy) == bits(plain)
    np.testing.assert_allclose(plain.second, EXPECTED, rtol=1e-9)


class CountingSource(ArraySource):
    def read(self, start, stop):
        READ.append(start)
        return super().read(start, stop)


READ = []


def test_run_pass__reads_the_block_of_a_diagonal_pair_once():
    READ.clear()
    run(PairSums(), [CountingSource("x", X), ArraySource("y", Y)], (0, 200, N), threads(1))
    assert sorted(READ) == [0, 0, 200, 200]


def test_run_pass__computes_a_dask_chunk_once_for_all_pairs_and_variables():
    computed = []

    def block(block_info=None):
        start, stop = block_info[None]["array-location"][0]
        computed.append(start)
        return X[start:stop]

    lazy = da.map_blocks(block, chunks=((100,) * 5, (3,)), dtype=float, meta=np.empty((0, 0)))
    state, _ = run(PairSums(), open_variables([lazy[:, :2], lazy[:, 2]]), even_bounds(N, 7))
    np.testing.assert_allclose(state.second, EXPECTED[:3, :3], rtol=1e-10)
    assert sorted(computed) == [0, 100, 200, 300, 400]


@pytest.mark.parametrize("kind", ["numpy", "dask"])
def test_run_pass__keeps_few_partial_results_of_many_pairs(kind, tmp_path):
    live, peak = [0], [0]

    class State:
        def __init__(self):
            live[0] += 1
            peak[0] = max(peak[0], live[0])

        def __del__(self):
            live[0] -= 1

    class Counted(PairSums):
        def chunk(self, left, right):
            return State()

        def combine(self, left, right):
            return State()

    sources, bounds = open_variables([made(kind, X, tmp_path), Y]), even_bounds(N, 30)
    run(Counted(), sources, bounds, threads(2))
    assert peak[0] <= 2 * 2 + 3 * 5  # 4**5 >= 465 pairs
    assert plan_of(bounds, pairs=True).leaves == 465


def test_run_pass__sends_a_block_once_and_not_with_every_pair(client):
    watched = Watch(client)
    x = np.random.default_rng(0).standard_normal((3000, 50))
    run(PairSums(), open_variables([x, np.zeros(3000)]), even_bounds(3000, 12), on(watched))
    assert x.nbytes < sum(watched.pieces) < 1.2 * x.nbytes
    tasks, size = watched.graphs[-1]
    assert tasks == plan_of(even_bounds(3000, 12), pairs=True).tasks == 78 + 20 + 5 + 2 + 1
    assert size / tasks < 4000


@pytest.mark.parametrize("place", ["threads", "client"])
def test_run_pass__tells_of_pairs_of_rows(place, request):
    runtime = threads(2) if place == "threads" else on(request.getfixturevalue("client"))
    events = []
    _, done = run(PairGather(0.01), open_variables([X, Y]), UNEVEN, runtime, events.append)
    pairs, (first, *blocks, last) = N * (N + 1) // 2, events
    assert first == PassStarted("toy", 4, pairs, "pairs of rows")
    assert {(type(event), event.unit) for event in blocks} == {(BlockFinished, "pairs of rows")}
    expected = [130 * 131 // 2, 1, 269 * 270 // 2, 100 * 101 // 2]
    expected += [130, 130 * 269, 130 * 100, 269, 100, 269 * 100]
    assert sorted(event.amount for event in blocks) == sorted(expected)
    assert sum(expected) == pairs
    assert last == done
    assert (done.amount, done.unit) == (pairs, "pairs of rows")
    assert done.worker_seconds > 10 * 2 * 0.01


def test_run_pass__raises_the_error_of_a_pair(client):
    for runtime in (threads(2), on(client)):
        with pytest.raises(ZeroDivisionError, match=r"^no luck at 250$"):
            run(PairGather(fails_at=250), open_variables([X, Y]), even_bounds(N, 10), runtime)
    assert settled(client) == 0


@pytest.fixture(params=["threads", "client"])
def session(request):
    runtime = threads(2) if request.param == "threads" else on(request.getfixturevalue("client"))

    def begin(*data, **options):
        return Session(open_variables(data, **options), runtime, 0)

    return begin


def test_run_pairs__names_the_first_row_that_is_not_finite(session):
    x = np.zeros(N)
    x[[7, 450]] = np.nan
    with pytest.raises(DataError, match=r"^variable 'year' has NaN or infinity, first in row 7:"):
        session(X, x, names=["timbre", "year"]).run_pairs(sums(N))


def test_run_pairs__returns_the_state_and_remembers_the_pass(session):
    begun = session(X, Y)
    np.testing.assert_allclose(begun.run_pairs(sums(N)).second, EXPECTED, rtol=1e-10)
    plan = begun.plan_pairs(sums(N))
    (done,) = begun.finished
    assert isinstance(done, PassFinished)
    assert (done.name, done.blocks) == ("pair sums", plan.blocks)
    assert done.bytes_read == plan.bytes_read


@pytest.mark.parametrize(
    ("n", "operations", "row_bytes", "expected"),
    [
        (256, 1.0, 8, 1),
        (520, 1.0, 8, 2),
        (8 * 1000, 1.0, 8, 8),
        (10**6, 1e10 / 2000**2, 8, 500),
        (10_240, 1e10, 8, 40),
        (64_000, 1.0, 2**25 // 1000, 64),
    ],
)
def test_group_bounds__of_pairs(n, operations, row_bytes, expected):
    bounds = group_bounds(n, n // 10, row_bytes, 0, operations * TICK, 0, PAIRS)
    assert len(bounds) - 1 == expected


def test_plan_pairs__has_the_same_blocks_for_any_number_of_threads():
    sources = open_variables([np.zeros(20_000), np.zeros(20_000)])
    plans = [plan_pairs(sums(20_000, seconds=1e4 * TICK), sources, threads(c)) for c in (1, 2, 16)]
    assert len({plan.bounds for plan in plans}) == 1
    assert plans[0].blocks == math.ceil(20_000 / (0.5 / (1e4 * TICK)) ** 0.5)


def test_plan_pairs__counts_both_blocks_of_every_task(tmp_path):
    x = zarr.create_array(tmp_path / "x.zarr", data=np.zeros((9000, 3)), chunks=(500, 3))
    store, memory, graph = open_variables([x, np.zeros(9000), da.zeros(9000, chunks=500)])
    plan = plan_pairs(sums(9000), [store, memory, graph], threads())
    assert plan.blocks == 9
    tasks = list(combinations_with_replacement(pairwise(plan.bounds), 2))
    ranges = [one for task in tasks for span in set(task) for one in plan.ranges(*span)]
    rows = sum(stop - start for start, stop in ranges)
    assert rows == 9 * 9000
    decoded = sum(-(-stop // 500) - start // 500 for start, stop in ranges) * 500
    expected = 9000 if decoded > 4 * 9000 else decoded
    assert plan.bytes_read == expected * 24 + rows * 8 + 9000 * 8


@pytest.mark.parametrize("cost", ["payload", "scratch", "state"])
def test_plan_pairs__counts_every_cost(cost):
    @dataclass(frozen=True)
    class Costly(PairSums):
        amount: int = 0

        def footprint(self, rows):
            return Footprint(
                **{"payload": 0, "scratch": 0, "state": 0, cost: self.amount},
                work=Work.of(entries=1.0),
            )

    sources, groups = open_variables(np.zeros((2, 20_000))), Groups(20_000, 10, seed=0)
    cheap, costly = (
        plan_pairs(Costly(groups=groups, amount=amount), sources, threads(2))
        for amount in (2**20, 2**21)
    )
    more = costly.worker_bytes - cheap.worker_bytes
    assert cheap.leaves == 36
    assert more == {"payload": 1, "scratch": 2, "state": 2 * 2 + 3 * 3}[cost] * 2**20


def test_plan_pairs__counts_what_waits_for_its_pairs():
    there = Runtime(2, 2**31, 2, object())
    sent, computed = (
        open_variables([x, np.zeros(20_000)]) for x in (np.zeros(20_000), da.zeros(20_000))
    )
    whole, two_blocks = 8 * 20_000, 8 * 2 * 2500  # of which one is read and put in order at a time
    plan = plan_pairs(sums(20_000), sent, there)
    assert (plan.worker_bytes, plan.sent_bytes) == (2 * whole + 3 * two_blocks, 2 * whole)
    plan = plan_pairs(sums(20_000), computed, there)
    task = whole + 5 * two_blocks // 2  # blocks of the graph are there
    assert (plan.worker_bytes, plan.sent_bytes) == (2 * whole + task, whole)
    assert plan_pairs(sums(20_000), computed, threads(1)).worker_bytes == whole + task


def test_plan_pairs__says_pairs():
    sources = open_variables([np.zeros(8000), np.zeros(8000)])
    pairs, rows = (
        plan_pairs(sums(8000), sources, threads()),
        plan_pass(Sums(), sources, threads()),
    )
    assert (pairs.pairs, pairs.blocks, pairs.leaves, pairs.unit) == (True, 8, 36, "pairs of rows")
    assert (rows.pairs, rows.leaves, rows.unit) == (False, rows.blocks, "rows")
    texts = [str(Plan(8000, (), None, threads(), (step,), 0, "")) for step in (pairs, rows)]
    assert "pass    pair sums: 36 pairs of 8 blocks of up to 1,000 rows, 49 tasks, " in texts[0]
    assert "pass    sums: 2 blocks of up to 4,096 rows, 3 tasks, " in texts[1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["numpy", "zarr", "dask"])
@pytest.mark.parametrize("chunk_rows", [250, 4000])
def test_plan_pairs__bounds_the_memory_of_a_pass_and_not_by_far(kind, chunk_rows, tmp_path):
    n, d = 4000, 400
    x = np.random.default_rng(0).integers(0, 2, (n, d)).astype(float)  # is small when compressed
    if kind == "zarr":
        wide = zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(chunk_rows, d))
    elif kind == "dask":
        make = np.random.default_rng(0).standard_normal
        wide = da.map_blocks(
            lambda block_info=None: make(block_info[None]["chunk-shape"]),
            chunks=(chunk_rows, d)
            if chunk_rows == n
            else ((chunk_rows,) * (n // chunk_rows), (d,)),
            dtype=float,
            meta=np.empty((0, 0)),
        )
    else:
        wide = x
    session, means = Session(open_variables([wide, np.zeros(n)]), threads(1), 0), Means()
    session.run_pairs(means)
    predicted = session.plan_pairs(means).worker_bytes
    tracemalloc.start()
    session.run_pairs(means)
    measured = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert predicted / 4 < measured < 1.1 * predicted + 1_000_000


@dataclass(frozen=True)
class Means(PairSums):
    """Takes no memory besides its blocks."""

    groups: Groups = field(default_factory=lambda: Groups(4000, 10, seed=0))

    def chunk(self, left, right):
        return float(left.values[0].mean() * right.values[0].mean())

    def combine(self, left, right):
        return left + right
