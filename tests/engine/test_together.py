"""Variables that are columns of one stored array: its chunks are decoded once for all of them."""

import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore

import dhsic
from dhsic.engine import take
from dhsic.engine.blocks import read_ranges
from dhsic.engine.groups import Groups
from dhsic.engine.plan import PassPlan
from dhsic.engine.reading import decoded_rows, task_bytes
from dhsic.engine.take import take_rows
from dhsic.engine.together import cut_bytes, read_block, row_bytes, together
from dhsic.io.open import open_data, open_variables
from dhsic.io.sources import ArraySource
from tests.engine.toys import CountingStore, even_bounds, on, plan_of, threads

N, CHUNK, D = 6000, 500, 6
X = np.random.default_rng(0).standard_normal((N, D))
X[:, 5] += 0.1 * X[:, 0]
NAMED = ("a=f[:, 0:3]", "b=f[:, 5]")
EXACT = {"rng": 0, "threads": 2, "null": dhsic.Shifts(99)}


@pytest.fixture
def store(tmp_path):
    """Counts reads of the chunks of the array f in a group."""
    group = zarr.open_group(tmp_path / "x.zarr", mode="w")
    group.create_array("f", data=X, chunks=(CHUNK, D))
    group.create_array("apart", data=X[:, 5], chunks=(CHUNK,))
    return CountingStore(LocalStore(tmp_path / "x.zarr", read_only=True))


def sources_of(store, *names):
    return open_data(names, None, zarr.open_group(store, mode="r"), "refuse")[0]


def bytes_decoded(store):
    """Of all chunks of f."""
    return CHUNK * D * 8 * sum(n for key, n in store.reads.items() if key.startswith("f"))


def test_together__finds_variables_of_one_array(store):
    some = sources_of(store, "a=f[:, 0:2]", "apart", "c=f[:, 5]")
    assert together(some) == [(0, 2), (1,)]
    assert together([some[0], None, some[2]]) == [(0, 2)]
    one = ArraySource("x", X)
    assert together([one, one]) == [(0,), (1,)]


def test_together__knows_an_array_that_was_opened_twice(store):
    first, second = (zarr.open_group(store, mode="r")["f"] for _ in range(2))
    assert first is not second
    assert together(open_variables([first, second])) == [(0, 1)]


def test_row_bytes__count_an_array_once_and_what_is_cut_from_it(store):
    some = sources_of(store, "a=f[:, 0:2]", "apart", "c=f[:, 5]")
    assert [cut_bytes(one) for one in some] == [2 * 8, 8, 8]
    assert row_bytes(some) == D * 8 + (2 + 1) * 8 + 8
    assert row_bytes(some[:1]) == D * 8


def test_read_block__cuts_the_columns_of_every_variable(store):
    some = sources_of(store, "a=f[:, 1:3]", "apart", "c=f[:, 5]", "d=f")
    found = read_block(some, [(0, 700), (900, 1000)], {}, finite=True)
    rows = np.r_[0:700, 900:1000]
    for values, columns in zip(found, (slice(1, 3), [5], [5], slice(None)), strict=True):
        np.testing.assert_array_equal(values, X[rows][:, columns])


@pytest.mark.parametrize("estimator", ["nystrom-hsic", "v-hsic"])
def test_test__decodes_an_array_once_for_its_sample_and_once_for_its_pass(store, estimator):
    """A grid of kernels with its null, in a pass over groups and over all pairs of them."""
    data = zarr.open_group(store, mode="r")
    found = dhsic.independence_test(*NAMED, data=data, estimator=estimator, **EXACT)
    (only,) = found.passes
    assert bytes_decoded(store) == X.nbytes + only.bytes_read
    assert only.bytes_read == X.nbytes
    apart = dhsic.independence_test(
        X[:, :3], X[:, 5], names=("a", "b"), estimator=estimator, **EXACT
    )
    assert (found.statistic, found.pvalue) == (apart.statistic, apart.pvalue)
    assert found.estimate == apart.estimate


def test_test__of_the_columns_of_one_array_reads_it_once_a_pass(store):
    found = dhsic.independence_test(zarr.open_group(store, mode="r")["f"], **EXACT)
    assert len(found.variables) == D
    assert bytes_decoded(store) == X.nbytes + sum(one.bytes_read for one in found.passes)
    assert sum(one.bytes_read for one in found.passes) < D * len(found.passes) * X.nbytes / 2


@pytest.mark.parametrize("remote", [False, True])
def test_take_rows__reads_every_chunk_once(store, remote, request, monkeypatch):
    monkeypatch.setattr(take, "_TASK_BYTES", 1)
    runtime = on(request.getfixturevalue("client")) if remote else threads()
    rows = [np.arange(3, N, 50), np.array([0, 1, 499, 3000]), np.arange(5)]
    some = sources_of(store, "a=f[:, 0:2]", "c=f[:, 5]", "apart")
    found = take_rows(some, rows, runtime)
    for values, own, columns in zip(found, rows, (slice(0, 2), [5], [5]), strict=True):
        np.testing.assert_array_equal(values, X[own][:, columns])
    if not remote:
        assert max(times for key, times in store.reads.items() if key.startswith("f")) == 1


def test_test__is_the_same_on_a_cluster(store, client):
    data = zarr.open_group(store, mode="r")
    here, there = (
        dhsic.independence_test(*NAMED, data=data, client=where, **options)
        for where, options in ((None, EXACT), (client, {**EXACT, "threads": None}))
    )
    assert (here.statistic, here.pvalue, here.estimate) == (
        there.statistic,
        there.pvalue,
        there.estimate,
    )


def test_task_bytes__are_of_an_array_once_and_of_what_is_cut_from_it(store):
    some = sources_of(store, *(f"x{j}=f[:, {j}]" for j in range(D)))
    plan = plan_of(even_bounds(N, N // CHUNK))
    chunk, stored = CHUNK * D * 8, some[0].largest
    cut = CHUNK * 8
    assert task_bytes(some[:1], plan, 0) == stored + 2 * chunk + cut  # decoded, its rows, and cut
    assert task_bytes(some, plan, 0) == max(stored + 2 * chunk, chunk + D * cut)
    assert task_bytes(some, plan, 10 * chunk) == D * cut + 10 * chunk


def test_decoded_rows__count_a_chunk_once_that_several_ranges_touch(store):
    """In two runs of groups, whose ranges start and stop within chunks, by what is read."""
    groups = Groups.of(N, 1000, 0)
    plan = PassPlan("toy", (0, 2, groups.count), 0, 0, 0, groups=groups)
    source, _ = sources_of(store, "f", "apart")
    rows = decoded_rows(source, plan)
    for (start, stop), count in zip(((0, 2), (2, groups.count)), rows, strict=True):
        store.reads.clear()
        ranges = plan.ranges(start, stop)
        found = read_ranges(source, ranges)
        np.testing.assert_array_equal(found, np.concatenate([X[a:b] for a, b in ranges]))
        assert bytes_decoded(store) == count * D * 8
        assert set(store.reads.values()) == {1}
