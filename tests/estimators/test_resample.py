"""Permutations that all families share, and when a replicate is a tie."""

import numpy as np
import pytest

from dhsic.engine.groups import Groups
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.resample import Orbit, Resampled, exact_null, tie_tolerance
from dhsic.nulls import Chain, CombinedPvalues, Shifts, combine_pvalues


def test_orders__are_permutations_of_their_own():
    orbit = Orbit(Groups(60, 12, seed=1), 4)
    for coset in range(4):
        for orders in (orbit.orders(coset, 0, 5), orbit.orders(coset, 0, 5, variable=2)):
            np.testing.assert_array_equal(np.sort(orders), [np.arange(12)] * 5)
    assert len({orbit.orders(r, 0, 5).tobytes() for r in range(4)}) == 4


def test_orders__do_not_depend_on_the_groups_beside_them():
    orbit = Orbit(Groups(60, 12, seed=1), 3)
    np.testing.assert_array_equal(orbit.orders(2, 3, 1)[0], orbit.orders(2, 0, 5)[3])


@pytest.mark.parametrize(
    ("n", "asked", "size", "cosets"),
    [(10, 1_000, 10, 100), (999, 1_000, 999, 2), (2_500, 1_000, 1_250, 1), (50, 20, 25, 1)],
)
def test_of__has_as_many_permutations_as_asked_for(n, asked, size, cosets):
    orbit = Orbit.of(n, asked, seed=0)
    assert (orbit.groups.size, orbit.cosets) == (size, cosets)
    assert len(orbit) == size * cosets >= asked


def test_of__takes_cosets_beyond_the_widest_groups():
    orbit = Orbit.of(100_000, 100_000, seed=0)
    assert orbit.groups.size <= 6_144
    assert 100_000 <= len(orbit) <= 104_096


def test_tie_tolerance__is_of_the_roots():
    tolerance = tie_tolerance(np.array([4.0, 1e-6, 0.0]), np.array([0.1, 1.0, 0.5]))
    np.testing.assert_allclose(tolerance, [4.0 - 1.8**2, 1e-6, 0.0])


def test_resampled__has_the_data_first():
    found = Resampled.of(np.arange(6.0).reshape(3, 2), np.zeros(2))
    np.testing.assert_array_equal(found.statistics, [0.0, 1.0])
    np.testing.assert_array_equal(found.replicates, [[2.0, 3.0], [4.0, 5.0]])


def test_exact_null__is_shifts_of_two_and_a_chain_of_more():
    assert exact_null(2, 500)[0] == Shifts(500)
    assert exact_null(4, 500)[0] == Chain(500)


@pytest.mark.parametrize("cls", [Shifts, Chain])
@pytest.mark.parametrize("number", [0, 1, 2.5, "10"])
def test_resamples__are_checked(cls, number):
    with pytest.raises(InvalidArgumentError, match="n_resamples must be an integer >= 2"):
        cls(number)


def test_chain__is_combined_by_what_there_is():
    with pytest.raises(InvalidArgumentError, match="combined_by must be one of 'fisher', 'sidak'"):
        Chain(combined_by="min")


@pytest.mark.parametrize("how", ["fisher", "sidak"])
def test_combined_pvalues__have_their_law(how):
    rng = np.random.default_rng(0)
    pvalues = rng.random((4_000, 3))
    combined = [law.sf(s) for s, law in (combine_pvalues(list(row), how) for row in pvalues)]
    for level in (0.01, 0.05, 0.5):
        error = 4 * np.sqrt(level * (1 - level) / len(pvalues))
        assert abs(np.mean(np.array(combined) <= level) - level) < error
    law = CombinedPvalues(3, how)
    draws = law.draws(rng, 4_000)
    assert abs(np.mean([law.sf(x) for x in draws]) - 0.5) < 0.03


def test_combined_pvalues__of_one_are_itself():
    for how in ("fisher", "sidak"):
        statistic, law = combine_pvalues([0.02], how)
        assert law.sf(statistic) == pytest.approx(0.02)


def test_combined_pvalues__are_never_above_1_nor_0_where_the_smallest_is_not():
    statistic, law = combine_pvalues([1.0, 1.0], "sidak")
    assert law.sf(statistic) == pytest.approx(1.0)
    statistic, law = combine_pvalues([1e-300, 1.0], "sidak")
    assert law.sf(statistic) > 0.0
