"""Groups of rows: what they hold, and where they are read."""

import itertools

import numpy as np
import pytest
import zarr

from dhsic._work import Work
from dhsic.engine.groups import Groups, edges
from dhsic.engine.reduction import Footprint
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.io.open import open_variables

CASES = [(10_007, 1_000), (2_500, 1_000), (17, 3), (999, 1_000), (23, 7), (64, 8), (4, 4)]


def rows_of(groups, first, last):
    ranges, places = groups.arrange(first, last)
    return np.concatenate([np.arange(*one) for one in ranges])[places]


@pytest.mark.parametrize(("n", "size"), CASES)
@pytest.mark.parametrize("runs", [1, 3])
def test_ranges__of_all_groups_hold_every_row_once(n, size, runs):
    groups = Groups.of(n, size, seed=3)
    bounds = np.linspace(0, groups.count, min(runs, groups.count) + 1).astype(int)
    ranges = [groups.ranges(a, b) for a, b in itertools.pairwise(bounds)]
    rows = np.concatenate([np.arange(*one) for some in ranges for one in some])
    np.testing.assert_array_equal(np.sort(rows), np.arange(n))
    assert edges(ranges, n)[0] == 0
    assert edges(ranges, n)[-1] == n


@pytest.mark.parametrize(("n", "size"), CASES)
def test_arrange__has_the_rows_of_a_group_whatever_is_read_with_them(n, size):
    groups = Groups.of(n, size, seed=5)
    whole = rows_of(groups, 0, groups.count)
    b = groups.size
    for group in range(groups.count):
        own = rows_of(groups, group, group + 1)[:b]
        np.testing.assert_array_equal(own, whole[group * b : (group + 1) * b])
    np.testing.assert_array_equal(np.sort(whole[groups.count * b :]), groups.left)


def test_of__leaves_few_rows_over_and_takes_lengths_with_quick_transforms():
    for n in (2_003, 5_000, 20_011, 515_345):
        groups = Groups.of(n, 1_000, seed=0)
        assert 1_000 <= groups.size <= 1_500
        assert groups.n_left <= n / 50
        assert max(_factors(groups.size)) <= 11


def _factors(number):
    return [p for p in range(2, number + 1) if number % p == 0 and all(p % q for q in range(2, p))]


def test_left__is_drawn_from_all_rows():
    lefts = np.concatenate([Groups(1_009, 100, seed).left for seed in range(60)])
    assert lefts.min() < 100
    assert lefts.max() > 900
    assert abs(lefts.mean() - 504) < 4 * 1_009 / np.sqrt(12 * len(lefts))


def test_rows__of_a_group_lie_far_apart_and_in_random_order():
    """Neighbours in the order of storage would make a shift by one nearly the identity."""
    groups = Groups.of(40_000, 1_000, seed=1)
    own = rows_of(groups, 7, 8)
    for eighth in range(8):
        inside = (own >= eighth * 5_000) & (own < (eighth + 1) * 5_000)
        assert 60 <= inside.sum() <= 190
    assert np.median(np.abs(np.diff(own))) > 4_000


def test_segments__are_rotated_apart():
    """A design that repeats itself 8 times would otherwise meet its copies in every group."""
    groups = Groups(8_000, 1_000, seed=2)
    places = [np.sort(rows_of(groups, g, g + 1)) % 1_000 for g in range(groups.count)]
    starts = {int(np.unique(own).size) for own in places}
    assert max(starts) > 400


@pytest.mark.parametrize("size", [0, 11])
def test_size__must_fit_the_rows(size):
    with pytest.raises(ValueError, match=f"1 to 10 rows, got {size}"):
        Groups(10, size, seed=0)


class Gathered:
    """Every group's sum of a column times its place in the group, and those left over."""

    name = "gather"

    def __init__(self, groups):
        self.groups = groups

    def footprint(self, rows):
        return Footprint(0, 0, 8 * self.groups.count, Work.of(calls=50.0))

    def chunk(self, block):
        sums, b = np.zeros((2, self.groups.count)), self.groups.size
        for m, x in enumerate(block.values):
            own = x[: block.n_groups * b, 0].reshape(-1, b) @ np.arange(b)
            sums[m, block.first : block.first + block.n_groups] = own
        return (sums, np.array([x[block.n_groups * b :].sum() for x in block.values]))

    def combine(self, left, right):
        return tuple(a + b for a, b in zip(left, right, strict=True))


@pytest.fixture
def columns():
    """Whole numbers, whose sums have no rounding."""
    rng = np.random.default_rng(0)
    return tuple(rng.integers(-9, 9, (5_003, 1)).astype(float) for _ in range(2))


def gathered(sources, groups, client=None):
    runtime = Runtime.here(2, 2**31) if client is None else Runtime.on(client, 2**31)
    session = Session(open_variables(sources, None), runtime, 0)
    plan = session.plan_groups(Gathered(groups))
    return session.run_groups(Gathered(groups)), plan


@pytest.mark.parametrize("chunk", [37, 500, 5_003])
def test_run_groups__gives_the_same_from_storage(tmp_path, columns, chunk):
    groups = Groups(5_003, 40, seed=4)
    paths = [str(tmp_path / f"{m}.zarr") for m in range(2)]
    for path, x in zip(paths, columns, strict=True):
        zarr.create_array(path, data=x, chunks=(chunk, 1))
    (sums, left), plan = gathered(columns, groups)
    (stored, stored_left), stored_plan = gathered(paths, groups)
    whole = rows_of(groups, 0, groups.count)
    expected = [x[whole[: groups.count * 40], 0].reshape(-1, 40) @ np.arange(40) for x in columns]
    np.testing.assert_allclose(sums, expected)
    np.testing.assert_allclose(left, [x[groups.left].sum() for x in columns])
    np.testing.assert_array_equal(stored, sums)
    np.testing.assert_allclose(stored_left, left)
    assert plan.blocks == 2
    assert stored_plan.split == (() if chunk == 37 else (0, 1))


def test_run_groups__reads_a_chunk_once_where_ranges_are_short(tmp_path, columns):
    groups = Groups(5_003, 40, seed=4)
    path = str(tmp_path / "x.zarr")
    zarr.create_array(path, data=columns[0], chunks=(5_003, 1))
    _, plan = gathered([path, columns[1]], groups)
    assert plan.split == (0,)
    assert plan.bytes_read == 2 * 8 * 5_003


def test_run_groups__gives_the_same_on_a_cluster(client, tmp_path, columns):
    da = pytest.importorskip("dask.array")
    groups = Groups(5_003, 40, seed=4)
    path = str(tmp_path / "x.zarr")
    zarr.create_array(path, data=columns[0], chunks=(5_003, 1))
    (sums, _), _ = gathered(columns, groups)
    for sources in (columns, (path, columns[1]), (da.from_array(columns[0], chunks=600), path)):
        (there, _), _ = gathered(sources, groups, client)
        np.testing.assert_array_equal(there[0], sums[0])


@pytest.mark.parametrize(("n", "size"), [(5_003, 40), (5_003, 500), (60_000, 1_000)])
def test_plan__counts_putting_the_rows_of_every_group_in_order(n, size):
    groups = Groups(n, size, seed=4)
    session = Session(open_variables([np.zeros((n, 1))] * 2, None), Runtime.here(2, 2**31), 0)
    plan = session.plan_groups(Gathered(groups))
    assert plan.work["gathers"] == 17 * n
    assert plan.work["calls"] == 50 * n + 300 * plan.tasks + 50 * groups.count
