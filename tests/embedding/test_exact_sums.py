"""Sums do not depend on the order of what is summed."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhsic.embedding.exact_sums import LIMBS, ExactSums

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=64).filter(
    lambda x: abs(x) < 1e300
)


def total(numbers):
    sums = ExactSums.of(np.zeros(1))
    for number in numbers:
        sums = sums.add(ExactSums.of(np.array([number])))
    return sums


def exact(sums):
    """The integer that the digits are, times 2^-1088."""
    digits = sums.digits[:, 0].tolist()
    return sum(Fraction(digit) * Fraction(2) ** (32 * (k - 34)) for k, digit in enumerate(digits))


@settings(max_examples=60, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_sums__are_exact_and_the_same_in_any_order(numbers, random):
    sums = total(numbers)
    assert exact(sums) == sum(map(Fraction, numbers))
    shuffled = random.sample(numbers, len(numbers))
    np.testing.assert_array_equal(total(shuffled).digits, sums.digits)
    assert sums.values()[0] == pytest.approx(math.fsum(numbers), rel=1e-15, abs=0.0)


@pytest.mark.parametrize("number", [0.0, 5e-324, -5e-324, 1.7e308, -1.7e308, 0.1, -(2.0**-1022)])
def test_of__keeps_every_number(number):
    np.testing.assert_array_equal(total([number]).values(), [number])


def test_add__carries_for_as_long_as_it_takes():
    one = ExactSums.of(np.array([2.0**32 - 1, -1.0]))
    doubled = one
    for _ in range(100):
        doubled = doubled.add(doubled)
    np.testing.assert_array_equal(doubled.values(), [(2.0**32 - 1) * 2.0**100, -(2.0**100)])
    assert (doubled.digits[: LIMBS - 1] >= 0).all()
    assert (doubled.digits[: LIMBS - 1] < 2**32).all()


def test_add__leaves_both_as_they_are():
    one, other = total([0.5]), total([2.0**40])
    before = one.digits.copy(), other.digits.copy()
    one.add(other)
    np.testing.assert_array_equal(one.digits, before[0])
    np.testing.assert_array_equal(other.digits, before[1])


def test_of__many_numbers_is_their_sum(rng):
    parts = [rng.standard_normal(3) * 10.0**k for k in range(-20, 21, 4)]
    one_by_one = ExactSums.of(np.zeros(3))
    for part in parts:
        one_by_one = one_by_one.add(ExactSums.of(part))
    np.testing.assert_array_equal(ExactSums.of(*parts).digits, one_by_one.digits)
