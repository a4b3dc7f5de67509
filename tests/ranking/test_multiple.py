"""Adjusted p-values: edges that no ranking can be made to reach.

`test_rank.py` compares the adjusted p-values of rankings with their definitions.
"""

import numpy as np
import pytest
from scipy.stats import binom, false_discovery_control

from dhsic.errors import DataError
from dhsic.nulls import adjust, step_down
from tests.ranking import oracles


def test_adjust__is_by_definition(rng):
    p = rng.random(30)
    for control in ("bh", "by"):
        expected = false_discovery_control(p, method=control)
        np.testing.assert_array_equal(adjust(p, control), expected)
    p = np.array([0.04, 0.01, 0.03, 0.005, 0.4])
    np.testing.assert_allclose(adjust(p, "bonferroni"), [0.2, 0.05, 0.15, 0.025, 1.0])
    np.testing.assert_allclose(adjust(p, "holm"), [0.09, 0.04, 0.09, 0.025, 0.4])


@pytest.mark.parametrize("seed", range(5))
def test_step_down__is_the_loop_in_any_units(seed):
    rng = np.random.default_rng(seed)
    rows = rng.chisquare(2, (60, 7)) * rng.uniform(0.1, 10, 7)
    rows[0, :3] += 8 * rows.std(axis=0)[:3]
    expected = oracles.step_down(oracles.standardised(rows))
    found = step_down(rows[0], rows[1:], np.zeros(7))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    scaled = rows * 10.0 ** np.arange(-3, 4)
    np.testing.assert_array_equal(step_down(scaled[0], scaled[1:], np.zeros(7)), found)


def test_step_down__of_copies_is_that_of_one(rng):
    rows = np.repeat(rng.chisquare(2, (40, 1)), 6, axis=1)
    p = step_down(rows[0], rows[1:], np.zeros(6))
    np.testing.assert_allclose(p, (1 + (rows[1:, 0] >= rows[0, 0]).sum()) / 40)


def test_step_down__is_never_zero_and_ties_are_no_evidence():
    p = step_down(np.array([9.0, 1.0]), np.ones((19, 2)), np.zeros(2))
    np.testing.assert_allclose(p, [0.05, 1.0])


def test_step_down__counts_differences_of_rounding_as_ties():
    rows = np.ones((20, 2))
    rows[0] += [1e-3, 5.0]
    rows[1:, 0] += np.linspace(0, 0.9e-3, 19)
    strict = step_down(rows[0], rows[1:], np.zeros(2))
    tied = step_down(rows[0], rows[1:], np.array([1e-3, 0.0]))
    np.testing.assert_allclose(strict, [0.05, 0.05])
    np.testing.assert_allclose(tied, [1.0, 0.05])


def test_step_down__refuses_what_overflowed():
    with pytest.raises(DataError, match="must be finite"):
        step_down(np.array([np.inf]), np.ones((3, 1)), np.zeros(1))


def test_step_down__keeps_the_family_wise_level_with_some_alternatives():
    """Exchangeable dependent nulls beside two strong effects; level 10 %, 600 families."""
    rng, false = np.random.default_rng(0), 0
    for _ in range(600):
        shared = rng.standard_normal((40, 1))
        rows = (0.7 * shared + rng.standard_normal((40, 10))) ** 2
        rows[0, :2] += 60
        p = step_down(rows[0], rows[1:], np.zeros(10))
        assert (p[:2] <= 0.1).all()
        false += (p[2:] <= 0.1).any()
    assert binom.ppf(0.001, 600, 0.05) <= false <= binom.ppf(0.999, 600, 0.1)


def test_step_down__finds_more_than_bonferroni_where_tests_depend():
    rng = np.random.default_rng(1)
    shared = rng.standard_normal((400, 1))
    rows = (shared + 0.1 * rng.standard_normal((400, 50))) ** 2
    rows[0, 0] = np.sort(rows[1:, 0])[-8]
    rows[0, 1:] = 0.5
    p = (1 + (rows[1:, 0] >= rows[0, 0]).sum()) / 400
    assert step_down(rows[0], rows[1:], np.zeros(50))[0] < 0.1 < 50 * p
