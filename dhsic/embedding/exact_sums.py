"""Sums of float64 numbers without rounding, whatever their order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

# Digits of 32 bits in int64: 2^30 numbers are added before any digit overflows.
_BITS = 32
# 2^(32 * -34) is below the least number, 2^-1074, and 2^(32 * 32) above the largest.
_LOWEST, _HIGHEST = -34, 31
_MASK = (1 << _BITS) - 1

LIMBS = _HIGHEST - _LOWEST + 1


class ExactSums(NamedTuple):
    """Sums of p series of finite numbers, as integers in base 2^32.

    Floating-point addition rounds, so that sums depend on the order of what is added. Here a
    number is cut into digits that are integers, from 2^-1088 below the least to 2^1024 above the
    largest, and integers add up the same in any order: parts that are summed apart and merged give
    the bits of one pass over all.

    Parameters
    ----------
    digits : ndarray of int64, shape (66, p)
        The lowest first, each in 0..2^32 - 1 but the highest, which has the sign.

    Examples
    --------
    >>> one = ExactSums.of(np.array([1e300])).add(ExactSums.of(np.array([1.0])))
    >>> one.add(ExactSums.of(np.array([-1e300]))).values()
    array([1.])
    """

    digits: NDArray[np.int64]

    @classmethod
    def of(cls, *parts: Vector) -> ExactSums:
        """Sums of finite numbers, one of every series at a time, shapes (p,); at most 2^30."""
        digits = np.zeros((LIMBS, len(parts[0])), np.int64)
        for values in parts:
            _add_digits(values, digits)
        return cls(_carried(digits))

    def add(self, other: ExactSums) -> ExactSums:
        """Sums of both."""
        return ExactSums(_carried(self.digits + other.digits))

    def values(self) -> Vector:
        """The nearest numbers but for a rounding or two, shape (p,)."""
        # The highest digit has the sign, since all others are at least 0.
        negative = self.digits[-1] < 0
        # The digits of -1 are as large as digits can be, and borrow from each other: added up as
        # floating-point numbers they would cancel, so that signs are turned first.
        positive = _carried(np.where(negative, -self.digits, self.digits))
        total = np.zeros(positive.shape[1])
        # From the lowest digit up: small ones are added while the sum is small.
        for number, digit in enumerate(positive):
            total += np.ldexp(digit.astype(np.float64), _BITS * (number + _LOWEST))
        return np.where(negative, -total, total)


def _add_digits(values: Vector, digits: NDArray[np.int64]) -> None:
    """Add the digits of numbers, all of the sign of their number, to others."""
    left = np.array(values, np.float64)
    # No number has a digit above its exponent.
    _, exponent = np.frexp(np.abs(left).max(initial=0.0))
    for place in range(min(_HIGHEST, int(exponent) // _BITS), _LOWEST - 1, -1):
        # Powers of two scale without rounding, so each digit is cut off exactly.
        whole = np.trunc(np.ldexp(left, -_BITS * place))
        digits[place - _LOWEST] += whole.astype(np.int64)
        left -= np.ldexp(whole, _BITS * place)
        if not left.any():
            break


def _carried(digits: NDArray[np.int64]) -> NDArray[np.int64]:
    """All digits but the highest in 0..2^32 - 1: equal sums have equal digits."""
    carried = digits.copy()
    for number in range(len(carried) - 1):
        # An arithmetic shift rounds down, so that negative digits borrow from the next.
        carried[number + 1] += carried[number] >> _BITS
        carried[number] &= _MASK
    return carried
