"""Draws that depend on their key alone."""

import numpy as np
import pytest
from scipy.stats import chisquare

from dhsic._random import (
    PURPOSES,
    generator,
    random_keys,
    random_orders,
    random_signs,
    resolve_seed,
)
from dhsic.errors import InvalidArgumentError


@pytest.mark.parametrize("replicates", [1, 7, 8, 9, 255, 256, 257, 600])
def test_random_signs__are_plus_or_minus_one(replicates):
    signs = random_signs(3, 10, 15, replicates)
    assert signs.shape == (5, replicates)
    assert signs.dtype == np.int8
    assert set(np.unique(np.abs(signs))) == {1}


@pytest.mark.parametrize(("start", "stop"), [(0, 40), (0, 1), (39, 40), (7, 23), (20, 20)])
@pytest.mark.parametrize("replicates", [1, 5, 8, 250, 256, 300])
def test_random_signs__of_fewer_rows_and_replicates_are_a_sub_array(start, stop, replicates):
    whole = random_signs(11, 0, 40, 300)
    np.testing.assert_array_equal(
        random_signs(11, start, stop, replicates), whole[start:stop, :replicates]
    )


def test_random_signs__far_down_the_data_are_a_sub_array_too():
    far = 10**12
    np.testing.assert_array_equal(
        random_signs(0, far, far + 9, 20)[4:7], random_signs(0, far + 4, far + 7, 20)
    )


def test_random_signs__are_balanced_and_uncorrelated():
    n, replicates = 4096, 512
    signs = random_signs(5, 0, n, replicates).astype(float)
    five_sigma = 5.0 / np.sqrt(n)
    assert np.abs(signs.mean(axis=0)).max() < five_sigma
    correlations = signs.T @ signs / n - np.eye(replicates)
    assert np.abs(correlations).max() < 1.2 * five_sigma
    assert np.abs(signs.mean(axis=1)).max() < 5.0 / np.sqrt(replicates)
    assert np.abs((signs[1:] * signs[:-1]).mean(axis=0)).max() < five_sigma


def test_random_signs__differ_between_seeds():
    seeds = [0, 1, 2**32, 2**63, 2**64, 2**100]
    drawn = {random_signs(seed, 0, 8, 16).tobytes() for seed in seeds}
    assert len(drawn) == len(seeds)


@pytest.mark.parametrize(("start", "stop"), [(0, 40), (1, 2), (39, 40), (6, 23), (20, 20)])
def test_random_keys__of_fewer_rows_are_a_sub_array(start, stop):
    for offset in (0, 10**12 + 3):
        whole = random_keys(11, offset, offset + 40, "bandwidth", 1)
        part = random_keys(11, offset + start, offset + stop, "bandwidth", 1)
        np.testing.assert_array_equal(part, whole[start:stop])


def test_random_keys__are_uniform_and_differ_with_seed_purpose_and_index():
    keys = [(0, "bandwidth", 1), (1, "bandwidth", 1), (0, "signs", 1), (0, "bandwidth", 2)]
    drawn = [random_keys(seed, 0, 4096, *key) for seed, *key in keys]
    assert len({one.tobytes() for one in drawn}) == len(keys)
    uniform = np.array(drawn) / 2.0**64
    assert np.abs(uniform.mean(axis=1) - 0.5).max() < 5.0 / np.sqrt(12 * 4096)
    assert np.abs(np.corrcoef(uniform) - np.eye(len(keys))).max() < 5.0 / np.sqrt(4096)


def test_random_orders__depend_on_their_number_alone():
    numbers = [0, 1, 7, 2**40, 2**64 - 1]
    orders = random_orders(5, numbers, 30, "shifts", 1)
    np.testing.assert_array_equal(np.sort(orders), [np.arange(30)] * 5)
    again = random_orders(5, reversed(numbers), 30, "shifts", 1)
    np.testing.assert_array_equal(again[::-1], orders)
    assert random_orders(5, [], 30, "shifts", 1).shape == (0, 30)


def test_random_orders__differ_with_number_seed_purpose_and_index():
    keys = [(0, "shifts", 1), (1, "shifts", 1), (0, "groups", 1), (0, "shifts", 2)]
    drawn = [random_orders(seed, range(50), 30, *key) for seed, *key in keys]
    assert len({order.tobytes() for orders in drawn for order in orders}) == 200


def test_random_orders__are_uniform():
    """All 24 orders of 4 rows come alike often; and so do all pairs of those that follow."""
    orders = random_orders(0, range(24 * 400), 4, "shifts", 1)
    _, which = np.unique(orders, axis=0, return_inverse=True)
    counts = np.bincount(which.ravel())
    assert len(counts) == 24
    assert chisquare(counts).pvalue > 1e-4
    follows = np.bincount(which.ravel()[:-1] * 24 + which.ravel()[1:], minlength=24**2)
    assert chisquare(follows).pvalue > 1e-4


def test_generator__draws_differ_with_seed_purpose_and_index():
    keys = [
        (seed, purpose, *index)
        for seed in (0, 1)
        for purpose in PURPOSES
        for index in ((), (0,), (1,))
    ]
    drawn = {key: generator(*key).integers(2**63) for key in keys}
    assert len(set(drawn.values())) == len(keys)
    assert drawn == {key: generator(*key).integers(2**63) for key in keys}


@pytest.mark.parametrize("given", [0, 7, 2**70, np.int64(7), np.uint8(7)])
def test_resolve_seed__keeps_integers(given):
    seed = resolve_seed(given)
    assert seed == int(given)
    assert type(seed) is int


def test_resolve_seed__draws_from_a_generator():
    first, second = np.random.default_rng(3), np.random.default_rng(3)
    seeds = [resolve_seed(first), resolve_seed(first)]
    assert seeds == [resolve_seed(second), resolve_seed(second)]
    assert seeds[0] != seeds[1]
    assert all(type(seed) is int and seed >= 0 for seed in seeds)


def test_resolve_seed__is_fresh_where_none_is_given():
    assert len({resolve_seed(None) for _ in range(4)}) == 4


@pytest.mark.parametrize("given", [True, np.True_, -1, np.int64(-1), "a", 1.5, [-1]])
def test_resolve_seed__refuses_what_is_no_seed(given):
    with pytest.raises(
        InvalidArgumentError, match=r"rng must be an integer >= 0, or .* as a Generator or None"
    ) as caught:
        resolve_seed(given)
    assert f"got {given!r}" in str(caught.value)
