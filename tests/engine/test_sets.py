"""Rows that change places within their sets alone."""

import pickle
from itertools import pairwise

import numpy as np
import pytest

from dhsic.engine.digest import digest
from dhsic.engine.sets import RowSets, Series

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


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def rows_read(groups, first, last):
    """The rows of a run of groups, as they are read and put in order."""
    ranges, places = groups.arrange(first, last)
    assert ranges == groups.ranges(first, last)
    return np.concatenate([np.arange(*one) for one in ranges])[places]


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


def test_groups__hold_every_row_once(kind):
    groups = KINDS[kind].groups(60)
    every = np.concatenate([groups.rows.ravel(), groups.left])
    np.testing.assert_array_equal(np.sort(every), np.arange(len(every)))


def test_runs__read_every_row_once_in_the_order_of_the_groups(kind):
    groups = KINDS[kind].groups(60)
    bounds = [0, groups.count // 3, groups.count // 2, groups.count]
    parts = [rows_read(groups, *span) for span in pairwise(bounds)]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(groups.n))
    for (first, last), rows in zip(pairwise(bounds), parts, strict=True):
        assert groups.count_of(first, len(rows)) == last - first
        grouped = rows[: (last - first) * groups.size].reshape(-1, groups.size)
        np.testing.assert_array_equal(grouped, groups.rows[first:last])
    starts, stops = groups.runs(bounds)
    np.testing.assert_array_equal((stops - starts).sum(axis=1), list(map(len, parts)))


def test_strata__rows_stay_in_theirs():
    groups = KINDS["strata"].groups(60)
    assert all(len(set(STRATA[rows])) == 1 for rows in groups.rows)


@pytest.mark.parametrize("labels", [GROUPS, UNEQUAL])
def test_groups__move_as_wholes(labels):
    sets = RowSets.of(None, labels, 0)
    n = len(labels)
    whole = orders_of(sets.whole, 1)[0]
    for to in (whole, moved(sets.groups(60), 1)):
        np.testing.assert_array_equal(np.sort(to), np.arange(n))
        assert (to != np.arange(n)).any()
        for label in np.unique(labels):
            rows = np.flatnonzero(labels == label)
            np.testing.assert_array_equal(to[rows], np.flatnonzero(labels == labels[to[rows[0]]]))


def test_strata_of_groups__are_kept():
    sets = KINDS["both"]
    for to in (orders_of(sets.whole, 2)[0], moved(sets.groups(60), 2)):
        np.testing.assert_array_equal((GROUPS % 3)[to], GROUPS % 3)
        np.testing.assert_array_equal(np.diff(to[np.argsort(GROUPS, kind="stable")])[::5] > 0, True)


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


def test_period__every_shift_is_a_multiple():
    groups = Series(1_000, (np.arange(1_000),), 0, lag=10, period=24).groups(1_000)
    steps = np.diff(groups.rows, axis=1)
    assert steps.min() == steps.max()
    assert steps[0, 0] % 24 == 0
    assert steps[0, 0] >= 24


def test_orders__are_drawn_anew_in_every_coset_and_variable():
    for groups in (KINDS["strata"].groups(60), KINDS["groups"].whole):
        drawn = [orders_of(groups, c, variable=m).tobytes() for c in (1, 2) for m in (1, 2)]
        assert len(set(drawn)) == 4
        again = orders_of(groups, 1)
        np.testing.assert_array_equal(again, orders_of(groups, 1))


def test_orders__do_not_depend_on_the_groups_beside_them():
    groups = KINDS["unequal"].groups(60)
    whole = orders_of(groups, 3)
    for g in range(groups.count):
        np.testing.assert_array_equal(orders_of(groups, 3, g, 1)[0], whole[g])


def test_rows_of_a_unit__move_alike():
    groups = KINDS["groups"].groups(60)
    orders = orders_of(groups, 1)
    assert len(np.unique(groups.units)) < groups.count
    for unit in np.unique(groups.units):
        assert (orders[groups.units == unit] == orders[groups.units == unit][0]).all()


def test_size__leaves_as_few_rows_as_can_be():
    labels = np.repeat(np.arange(20), 10)
    assert RowSets.of(labels, None, 0).groups(1_000).size == 10
    assert RowSets.of(np.repeat([0, 1], 300), None, 0).groups(1_000).size == 300
    assert RowSets.of(np.repeat(np.arange(50), 2), None, 0).groups(1_000).n_left == 0


def test_items_of_a_group__lie_far_apart():
    groups = RowSets.of(np.tile([0, 1], 4_000), None, 0).groups(100)
    for rows in groups.rows:
        assert np.diff(np.sort(rows)).max() < 700
        assert rows.max() - rows.min() > 7_000


def test_values__travel_and_are_told_apart(kind):
    groups = KINDS[kind].groups(60)
    groups.runs((0, groups.count))
    again = pickle.loads(pickle.dumps(groups))
    assert digest(again) == digest(groups)
    assert digest(groups) != digest(KINDS[kind].groups(4))
    np.testing.assert_array_equal(again.rows, groups.rows)
