"""How much work things are, so that plans tell seconds and the quicker of two ways is taken.

The unit is a floating-point operation of a matrix product. All else is counted by the time that it
takes beside one: an exponential as so many operations, an entry of a Fourier transform as so many.
These numbers were fitted to processor times of passes over 600 to 60,000 rows of 2 to 91 columns.
"""

from __future__ import annotations

__all__ = [
    "A_SECOND",
    "ENTRY",
    "EXPONENTIAL",
    "LONG",
    "PATIENT",
    "QUICK",
    "SOLVE",
    "entry_seconds",
    "pair_seconds",
]

A_SECOND = 2e10
"""Operations of one thread in a second."""

EXPONENTIAL = 90.0
"""Of an entry of a tile: its distance is turned into a kernel, and the kernel is added up."""

ENTRY = 10.0
"""Of an entry that is read, changed and written in the cache."""

SOLVE = 2.0
"""Of an entry of a triangular factor and a right-hand side: a product by blocks, half of them 0."""

QUICK = 0.6
"""Seconds of one thread that all pairs of rows may take where landmarks would take fewer."""

PATIENT = 60.0
"""Seconds of one thread that one task may take."""


LONG = 600.0
"""Seconds of one thread that a test may take where no time is given."""


def pair_seconds(n: int) -> float:
    """Seconds of one thread for a kernel of all pairs of n rows: less than any test of these."""
    return EXPONENTIAL * n * (n + 1) / 2 / A_SECOND


def entry_seconds(n: int, count: int) -> float:
    """Seconds of one thread to go once through half the kernels of n rows at so many landmarks.

    Blocks hold half of them; less than any estimate or test of these.
    """
    return ENTRY * n * count / 2 / A_SECOND
