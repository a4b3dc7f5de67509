"""Null distributions as values, and the permutations behind one of them."""

import numpy as np
import pytest

from dhsic.errors import InvalidArgumentError
from dhsic.nulls import Multiplier, Permutation, draw_permutations


@pytest.mark.parametrize("rows", [1, 2, 37])
def test_draw_permutations__permutes_the_rows(rows):
    orders = draw_permutations(0, 0, rows, 6, 4)
    assert orders.shape == (6, 3, rows)
    np.testing.assert_array_equal(
        np.sort(orders, axis=-1), np.broadcast_to(np.arange(rows), orders.shape)
    )


def test_draw_permutations__are_independent_over_replicates_and_variables():
    orders = draw_permutations(0, 0, 50, 6, 4).reshape(18, 50)
    assert len(np.unique(orders, axis=0)) == 18


def test_draw_permutations__of_fewer_replicates_are_the_first_ones():
    np.testing.assert_array_equal(
        draw_permutations(3, 64, 40, 5, 3), draw_permutations(3, 64, 40, 20, 3)[:5]
    )


def test_draw_permutations__depend_on_seed_and_group():
    drawn = {
        draw_permutations(seed, start, 30, 2, 2).tobytes() for seed in (0, 1) for start in (0, 30)
    }
    assert len(drawn) == 4


def test_draw_permutations__are_uniform():
    orders = draw_permutations(9, 0, 3, 6000, 2)[:, 0]
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 6
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000 * 5 / 6)


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "9"])
@pytest.mark.parametrize("null", [Multiplier, Permutation])
def test_null__needs_replicates(null, value):
    with pytest.raises(InvalidArgumentError, match="n_resamples must be an integer >= 1, got"):
        null(value)
    assert null(1).n_resamples == 1


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"group_rows": 1}, "group_rows must be an integer >= 2, got 1"),
        ({"within": "rows"}, "within must be one of 'auto', 'all', 'groups', got 'rows'"),
    ],
)
def test_permutation__checks_its_options(options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        Permutation(**options)


def test_permutation__takes_the_smallest_group():
    assert Permutation(group_rows=2).group_rows == 2


@pytest.mark.parametrize("null", [Multiplier(9), Permutation(9)])
def test_null__is_a_frozen_value(null):
    assert null == type(null)(9) != type(null)(10)
    assert hash(null) == hash(type(null)(9))
    with pytest.raises(AttributeError, match="n_resamples"):
        null.n_resamples = 3
