"""How much work things are, so that plans tell seconds and the quicker of two ways is taken.

Work is counted by its kind, from the shapes of the data alone. Seconds are such counts times the
rates of a machine, of which there are two sets. Those of a reference machine stand here: all
choices go by them, so that the same data, seed, memory and time give the same p-value on every
machine. Those of the machine at hand are measured, see `dhsic.engine.rates`; they tell the seconds
of plans, and change nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike


@dataclass(frozen=True)
class Rates:
    """How quick one thread of a machine is.

    Parameters
    ----------
    machine : str
        Its processor.
    seconds : mapping of str to float
        Seconds of a unit of every kind of work.
    """

    machine: str
    seconds: Mapping[str, float]


# Measured of whole tests: choices go by these, the same on every machine.
REFERENCE = Rates(
    "the reference machine, an AMD EPYC of 2023",
    {
        "products": 2.5e-11,
        "products of float32": 1.3e-11,
        "exponentials": 1.7e-9,
        "exponentials of float32": 7.5e-10,
        "cosines": 1e-8,
        "cosines of float32": 6e-10,
        "entries": 2.7e-10,
        "entries of float32": 1.7e-10,
        "transforms": 2e-9,
        "transforms of float32": 1.4e-9,
        "differences": 4e-10,
        "gathers": 3.5e-9,
        "factors": 2.8e-11,
        "eigenvalues": 8e-11,
        "sorts": 2.5e-9,
        "calls": 1e-6,
        "bytes": 5e-10,
        "decoded": 1e-9,
    },
)

QUICK = 0.4
"""Seconds of the reference machine that all pairs of rows may take where landmarks take fewer."""

PATIENT = 60.0
"""Seconds of one thread of the reference machine that one task may take."""

LONG = 600.0
"""Seconds of one thread of the reference machine that a test may take where no time is given."""

_BY_PRECISION = ("products", "exponentials", "cosines", "entries", "transforms")
_OF_FLOAT32 = tuple(f"{kind} of float32" for kind in _BY_PRECISION)
_SINGLE = (np.dtype(np.float32), np.dtype(np.complex64))


@dataclass(frozen=True)
class Work:
    """Counts of what takes time, which add and scale.

    Parameters
    ----------
    counts : tuple of (str, float)
        The kinds that there are, each with its count, see `of`.
    """

    counts: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(
        cls,
        dtype: DTypeLike = np.float64,
        *,
        products: float = 0.0,
        exponentials: float = 0.0,
        cosines: float = 0.0,
        entries: float = 0.0,
        transforms: float = 0.0,
        **others: float,
    ) -> Work:
        """Work of some kinds.

        Parameters
        ----------
        dtype : dtype, optional
            Precision of the numbers, complex ones as their parts; of those kinds that are named.
        products : float, optional
            Operations of products of matrices, additions apart from multiplications.
        exponentials, cosines : float, optional
            Entries of kernel tiles, with what makes a product a distance; cosines and sines.
        entries : float, optional
            Numbers that are read, changed and written where the cache holds them.
        transforms : float, optional
            Numbers that are Fourier transformed, in lines of some hundreds.
        **others : float
            Kinds of one precision: absolute "differences" that are summed; "gathers" of numbers
            that lie far apart; operations of triangular "factors" and solves; "eigenvalues" as the
            cubes of the sizes of matrices; "sorts" as numbers times the binary logarithm of how
            many; "calls" of small functions; "bytes" that are read from memory, and "decoded" ones
            from storage.

        Raises
        ------
        TypeError
            There is no such kind.
        """
        if not others.keys() <= REFERENCE.seconds.keys():
            msg = f"kinds of work are {', '.join(REFERENCE.seconds)}; got {', '.join(others)}"
            raise TypeError(msg)
        named = products, exponentials, cosines, entries, transforms
        # Only these five have a rate of their own in single precision.
        kinds = _OF_FLOAT32 if np.dtype(dtype) in _SINGLE else _BY_PRECISION
        counts = [(kind, float(n)) for kind, n in zip(kinds, named, strict=True) if n]
        return cls((*counts, *((kind, float(n)) for kind, n in others.items() if n)))

    def __add__(self, other: Work) -> Work:
        counts = dict(self.counts)
        for kind, count in other.counts:
            counts[kind] = counts.get(kind, 0.0) + count
        return Work(tuple(counts.items()))

    def __mul__(self, times: float) -> Work:
        return Work(tuple((kind, times * count) for kind, count in self.counts))

    __rmul__ = __mul__

    def __getitem__(self, kind: str) -> float:
        """The count of a kind."""
        return dict(self.counts).get(kind, 0.0)

    def seconds(self, rates: Rates = REFERENCE) -> float:
        """Seconds of one thread of the reference machine, or at other rates."""
        # Kinds add up: one thread does one thing after another.
        return sum(count * rates.seconds[kind] for kind, count in self.counts)


NOTHING = Work()


def pair_seconds(n: int) -> float:
    """Seconds of the reference machine for a kernel of all pairs of n rows: less than any test."""
    # The exponentials of all pairs are the least that any such test computes.
    return REFERENCE.seconds["exponentials"] * n * (n + 1) / 2


def entry_seconds(n: int, count: int) -> float:
    """Seconds of the reference machine to go through half the kernels of n rows at landmarks.

    Blocks hold half of them; less than any estimate or test of these.
    """
    return REFERENCE.seconds["entries of float32"] * n * count / 2
