"""Groups of rows decide which rows a null distribution moves, and so every exact p-value.

No public result shows them, so that these tests call them directly: every group against loops of
their definition, sets and series of rows by the moves that they allow.
"""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhsic._random import generator, random_orders
from dhsic.engine.checkpoint import token_of
from dhsic.engine.graph import edges
from dhsic.statistics.orbit import Groups, RowSets, Series

CASES = [(2_507, 250), (2_500, 1_000), (17, 3), (999, 1_000 - 1), (23, 7), (64, 8), (4, 4), (5, 1)]


def naive_groups(n, size, seed):
    """Rows of every group in their order, and rows in none."""
    count = n // size
    left = sorted(generator(seed, "groups").choice(n, n - count * size, replace=False).tolist())
    kept = [row for row in range(n) if row not in left]
    segments = min(8, size) if count > 1 else 1
    draw, groups = generator(seed, "groups", 0), [[] for _ in range(count)]
    for k in range(segments):
        own = size // segments + (1 if k < size % segments else 0)
        segment, kept = kept[: count * own], kept[count * own :]
        offset = int(draw.integers(len(segment)))
        rotated = segment[offset:] + segment[:offset]
        for g, rows in enumerate(groups):
            rows.extend(rotated[g * own : (g + 1) * own])
    shuffled = [generator(seed, "groups", 1, g).permutation(rows) for g, rows in enumerate(groups)]
    return np.array(shuffled), np.array(left, int)


def naive_size(n, size):
    """The first smooth size that leaves over one row in 200 or fewer, or the one of fewest."""
    if n < 2 * size:
        return n
    sizes = [b for b in range(size, int(1.5 * size) + 1) if max_factor(b) <= 11] or [size]
    good = [b for b in sizes if n % b <= n / 200]
    return good[0] if good else min(sizes, key=lambda b: n % b)


def max_factor(number):
    for factor in range(2, number):
        if number % factor == 0:
            return max(factor, max_factor(number // factor))
    return number


def rows_read(groups, first, last):
    """The rows of a run of groups, as they are read and put in order."""
    ranges, places = groups.arrange(first, last)
    assert ranges == groups.ranges(first, last)
    read = [np.arange(*one) for one in ranges]
    assert all(len(rows) for rows in read)
    assert sum(map(len, read)) == len(places)
    return np.concatenate(read)[places]


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize(("n", "size"), CASES)
def test_groups__are_those_of_the_definition(n, size, seed):
    groups, (expected, left) = Groups(n, size, seed), naive_groups(n, size, seed)
    assert (groups.count, groups.n_left) == (len(expected), len(left))
    np.testing.assert_array_equal(groups.left, left)
    whole = rows_read(groups, 0, groups.count)
    np.testing.assert_array_equal(whole[: groups.count * size].reshape(-1, size), expected)
    np.testing.assert_array_equal(np.sort(whole), np.arange(n))


@settings(max_examples=60)
@given(data=st.data(), n=st.integers(1, 90), seed=st.integers(0, 99))
def test_runs__of_any_bounds_read_every_row_once(data, n, seed):
    size = data.draw(st.integers(1, n))
    groups, (expected, left) = Groups(n, size, seed), naive_groups(n, size, seed)
    inner = data.draw(st.sets(st.integers(1, groups.count)))
    bounds = sorted({0, groups.count, *inner})
    parts = [rows_read(groups, *span) for span in pairwise(bounds)]
    for (first, last), rows in zip(pairwise(bounds), parts, strict=True):
        grouped = rows[: (last - first) * size].reshape(-1, size)
        np.testing.assert_array_equal(grouped, expected[first:last])
        np.testing.assert_array_equal(
            rows[(last - first) * size :], left[groups.left_of(first, last)] if len(left) else []
        )
        assert groups.count_of(first, (last - first) * size) == last - first
        assert groups.count_of(first, (last - first) * size - 1) == last - first - 1
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n))
    starts, stops = groups.runs(bounds)
    np.testing.assert_array_equal((stops - starts).sum(axis=1), list(map(len, parts)))
    ranges = [groups.ranges(*span) for span in pairwise(bounds)]
    every = {0, n} | {row for some in ranges for span in some for row in span}
    assert edges(ranges, n) == sorted(every)


def test_ranges__are_few_and_long():
    """A run of consecutive groups reads consecutive rows of each segment."""
    groups = Groups(8_000, 100, 0)
    assert len(groups.ranges(0, 80)) <= 16
    for first in range(0, 80, 20):
        assert len(groups.ranges(first, first + 20)) <= 16


@pytest.mark.parametrize("size", [3, 10, 11, 13, 17, 26, 100])
def test_of__takes_the_size_of_the_definition(size):
    for n in (*range(size, 4 * size), 20 * size + 7, 203 * size + 1, 997, 2_003):
        if n >= size:
            groups = Groups.of(n, size, 5)
            assert (groups.n, groups.size, groups.seed) == (n, naive_size(n, size), 5)
    # 401 = 19 * 21 + 2: two rows left over are few enough, and one less than that were not.
    assert Groups.of(401, 21, 0).size == naive_size(401, 21) == 21


def test_rows__of_a_group_lie_far_apart_and_in_random_order():
    """Neighbours in the order of storage would make a shift by one nearly the identity."""
    own = rows_read(Groups(40_000, 1_000, seed=1), 7, 8)
    for eighth in range(8):
        inside = (own >= eighth * 5_000) & (own < (eighth + 1) * 5_000)
        assert 60 <= inside.sum() <= 190
    assert np.median(np.abs(np.diff(own))) > 4_000


def test_segments__are_rotated_apart():
    """A design that repeats itself 8 times would otherwise meet its copies in every group."""
    groups = Groups(8_000, 1_000, seed=2)
    places = [rows_read(groups, g, g + 1) % 1_000 for g in range(groups.count)]
    assert max(np.unique(own).size for own in places) > 400


@pytest.mark.parametrize("variable", [1, 2])
def test_orders__of_groups_are_their_own_whoever_asks(variable):
    groups = Groups(210, 30, seed=4)
    whole = groups.orders(range(4), 0, 7, variable)
    assert whole.shape == (4, 7, 30)
    flat = whole.reshape(-1, 30)
    np.testing.assert_array_equal(np.sort(flat), np.tile(np.arange(30), (28, 1)))
    assert len(np.unique(flat, axis=0)) == 28
    np.testing.assert_array_equal(groups.orders(range(1, 3), 2, 4, variable), whole[1:3, 2:6])
    expected = random_orders(4, range(28), 30, "shifts", variable)
    np.testing.assert_array_equal(flat, expected)
    assert (whole != groups.orders(range(4), 0, 7, 3 - variable)).mean() > 0.9


N = 240
STRATA = np.random.default_rng(0).integers(5, size=N)
GROUPS = np.random.default_rng(1).permutation(np.repeat(np.arange(48), 5))
UNEQUAL = np.repeat(np.arange(90), [1] * 10 + [2] * 40 + [3] * 30 + [4] * 5 + [8] * 5)
SERIES = Series(N, (np.arange(N),), 0, lag=7)
STATIONS = np.tile([0, 1, 2], N // 3)
PANEL = Series(N, tuple(np.flatnonzero(s == STATIONS) for s in range(3)), 0, lag=3)
KINDS = {
    "strata": RowSets.of(STRATA, None, 0),
    "groups": RowSets.of(None, GROUPS, 0),
    "unequal": RowSets.of(None, UNEQUAL, 0),
    "both": RowSets.of(GROUPS % 3, GROUPS, 0),
    "series": SERIES,
    "panel": PANEL,
}
every_kind = pytest.mark.parametrize("moves", KINDS.values(), ids=KINDS)


def orders_of(groups, coset, first=0, count=None, variable=1):
    """Random orders of the rows of groups in one coset, shape (count, b)."""
    return groups.orders(range(coset, coset + 1), first, count or groups.count, variable)[0]


def moved(groups, coset):
    """Where every row goes in a coset: those that stay are their own."""
    to = np.arange(groups.n)
    for g in range(groups.count):
        own = groups.rows[g]
        to[own] = own[orders_of(groups, coset, g, 1)[0]]
    return to


@every_kind
def test_sets__read_every_row_once_in_the_order_of_the_groups(moves):
    groups = moves.groups(60)
    every = np.concatenate([groups.rows.ravel(), groups.left])
    np.testing.assert_array_equal(np.sort(every), np.arange(groups.n))
    assert groups.n_left == len(groups.left)
    bounds = [0, groups.count // 3, groups.count // 2, groups.count]
    parts = [rows_read(groups, *span) for span in pairwise(bounds)]
    for (first, last), rows in zip(pairwise(bounds), parts, strict=True):
        assert groups.rows_of(first, last) == len(rows)
        assert groups.count_of(first, len(rows)) == last - first
        assert groups.count_of(first, len(rows) - 1) == last - first - 1
        grouped = rows[: (last - first) * groups.size].reshape(-1, groups.size)
        np.testing.assert_array_equal(grouped, groups.rows[first:last])
        staying = groups.left[groups.left_of(first, last)]
        np.testing.assert_array_equal(rows[(last - first) * groups.size :], staying)
        evenly = groups.n_left * (last - first) / groups.count
        assert abs(len(staying) - evenly) < 1
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(groups.n))
    assert groups.runs((0, groups.count)).shape[1] == 1  # and other bounds have their own
    starts, stops = groups.runs(bounds)
    np.testing.assert_array_equal((stops - starts).sum(axis=1), list(map(len, parts)))
    for (first, last), own in zip(pairwise(bounds), zip(starts, stops, strict=True), strict=True):
        spans = [(int(a), int(b)) for a, b in zip(*own, strict=True) if a < b]
        assert tuple(spans) == groups.ranges(first, last)


@every_kind
def test_sets__travel_and_are_told_apart(moves):
    groups = moves.groups(60)
    groups.runs((0, groups.count))
    again = pickle.loads(pickle.dumps(groups))
    assert token_of(again) == token_of(groups) != token_of(moves.groups(4))
    np.testing.assert_array_equal(again.rows, groups.rows)
    parts = pickle.loads(pickle.dumps(moves))
    np.testing.assert_array_equal(parts.groups(60).rows, groups.rows)
    assert parts.what == moves.what


@pytest.mark.parametrize("labels", [GROUPS, UNEQUAL])
def test_groups_of_rows__move_as_wholes(labels):
    sets = RowSets.of(None, labels, 0)
    n = len(labels)
    for to in (orders_of(sets.whole, 1)[0], moved(sets.groups(60), 1)):
        np.testing.assert_array_equal(np.sort(to), np.arange(n))
        assert (to != np.arange(n)).any()
        for label in np.unique(labels):
            rows = np.flatnonzero(labels == label)
            np.testing.assert_array_equal(to[rows], np.flatnonzero(labels == labels[to[rows[0]]]))


def test_series__a_shift_moves_all_rows_by_as_many():
    groups = SERIES.groups(1_000)
    step = N // groups.size
    assert step >= 7
    for k in range(groups.size):
        to = np.arange(N)
        for rows in groups.rows:
            to[rows] = np.roll(rows, -k)
        moving = groups.size * step
        np.testing.assert_array_equal(to[:moving], (np.arange(moving) + k * step) % moving)
        np.testing.assert_array_equal(to[moving:], np.arange(moving, N))


def test_panel__shifts_every_series_within_itself():
    groups = PANEL.groups(1_000)
    to = np.arange(N)
    for rows in groups.rows:
        to[rows] = np.roll(rows, -2)
    np.testing.assert_array_equal(STATIONS[to], STATIONS)
    assert (to != np.arange(N)).mean() > 0.9
    assert PANEL.most_shifts == 80 // 3


def test_period__every_shift_is_a_multiple():
    series = Series(1_000, (np.arange(1_000),), 0, lag=10, period=24)
    steps = np.diff(series.groups(1_000).rows, axis=1)
    assert steps.min() == steps.max() == 24
    assert series.most_shifts == 1_000 // 24
    assert Series(1_000, (np.arange(1_000),), 0, lag=25, period=24).most_shifts == 1_000 // 48


def test_orders_of_sets__are_drawn_anew_in_every_coset_and_variable():
    for groups in (KINDS["strata"].groups(60), KINDS["groups"].whole):
        drawn = [orders_of(groups, c, variable=m).tobytes() for c in (1, 2) for m in (1, 2)]
        assert len(set(drawn)) == 4
        np.testing.assert_array_equal(orders_of(groups, 1), orders_of(groups, 1))


@pytest.mark.parametrize("kind", ["unequal", "groups"])
def test_orders_of_sets__are_those_of_units_and_do_not_depend_on_the_groups_beside_them(kind):
    groups = KINDS[kind].groups(60)
    whole = orders_of(groups, 3)
    assert len(np.unique(groups.units)) < groups.count
    for unit in np.unique(groups.units):
        assert (whole[groups.units == unit] == whole[groups.units == unit][0]).all()
    assert len(np.unique(whole, axis=0)) > 0.5 * len(np.unique(groups.units))
    for g in range(groups.count):
        np.testing.assert_array_equal(orders_of(groups, 3, g, 1)[0], whole[g])


def test_size_of_sets__leaves_as_few_rows_as_can_be():
    assert RowSets.of(np.repeat(np.arange(20), 10), None, 0).groups(1_000).size == 10
    assert RowSets.of(np.repeat([0, 1], 300), None, 0).groups(1_000).size == 300
    assert RowSets.of(np.repeat(np.arange(50), 2), None, 0).groups(1_000).n_left == 0
    assert RowSets.of(np.append(np.repeat(0, 9), 1), None, 0).movable == 0.9


def test_items_of_a_group__lie_far_apart():
    groups = RowSets.of(np.tile([0, 1], 4_000), None, 0).groups(100)
    for rows in groups.rows:
        assert np.diff(np.sort(rows)).max() < 700
        assert rows.max() - rows.min() > 7_000
        assert np.median(np.abs(np.diff(rows))) > 700
