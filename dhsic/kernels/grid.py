"""Grids of kernels: what a test tries on every variable so that no one has to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Literal, Self, get_args

from dhsic._validation import check_choice, check_integer
from dhsic.errors import InvalidArgumentError
from dhsic.kernels.base import Kernel, positive
from dhsic.kernels.combinations import Combinations
from dhsic.kernels.registry import parse

__all__ = ["Aggregate", "Candidates", "Combine", "Grid"]

Aggregate = Literal["max", "min-p"]
Combine = Literal["auto", "all", "matched"]


@dataclass(frozen=True)
class Candidates:
    """Kernels to try on one variable.

    Parameters
    ----------
    kernels : str, Kernel or a sequence of them, optional
        Families, as "gaussian" and "laplacian". Bandwidths that are not given follow the median
        heuristic.
    factors : sequence of float, optional
        What the length scale of every family is multiplied by: 0.5 halves the length. Kernels
        without one, as "delta", are tried once.

    Examples
    --------
    >>> Candidates(("gaussian", "laplacian"), factors=(0.5, 1, 2)).factors
    (0.5, 1.0, 2.0)
    """

    kernels: str | Kernel | Sequence[str | Kernel] = "gaussian"
    factors: Sequence[float] = (0.25, 0.5, 1.0, 2.0)

    def __post_init__(self) -> None:
        given = (self.kernels,) if isinstance(self.kernels, str | Kernel) else tuple(self.kernels)
        kernels = tuple(parse(k) if isinstance(k, str) else k for k in given)
        if not kernels or not all(isinstance(kernel, Kernel) for kernel in kernels):
            msg = f"candidates must be kernels or their names, one or more; got {self.kernels!r}"
            raise InvalidArgumentError(msg)
        factors = tuple(float(f) for f in self.factors)
        if not factors or not all(map(positive, factors)) or len(set(factors)) < len(factors):
            msg = (
                "factors of the bandwidth must be different finite numbers > 0, one or more; got "
                f"{self.factors!r}: take (0.5, 1, 2), for instance"
            )
            raise InvalidArgumentError(msg)
        object.__setattr__(self, "kernels", kernels)
        object.__setattr__(self, "factors", factors)

    @property
    def scaled(self) -> list[tuple[Kernel, float]]:
        """Every kernel with every factor that makes a difference to it."""
        assert isinstance(self.kernels, tuple)
        return [
            (kernel, factor)
            for kernel in self.kernels
            for factor in (self.factors if kernel.has_length else (1.0,))
        ]


@dataclass(frozen=True)
class Grid:
    """Kernels to try on the variables of a test, whose p-value accounts for the choice.

    One bandwidth finds dependence at its own scale only. A grid takes several kernels of every
    variable, computes the statistics of their combinations and of the same replicates under the
    null hypothesis in one run, and compares the largest of the statistics with the largest of
    every replicate. Given replicates that are exchangeable with the data, as permutations are, the
    level is exact for any grid.

    Parameters
    ----------
    candidates : Candidates or a sequence of Candidates, optional
        For all variables, or one for each.
    combine : {"auto", "all", "matched"} or a sequence of tuples of int, optional
        "all" takes every combination. "matched" takes the first candidates of all variables, the
        second of all, and so on. A sequence lists the combinations by numbers of candidates, one
        a variable. "auto" takes all where they are at most `most`; else as many as the square of
        the largest number of candidates of a variable, in which most pairs of variables
        meet in all pairs of their candidates.
    aggregate : {"max", "min-p"}, optional
        Standardise statistics by the mean and standard deviation of their replicates and take the
        largest; or take the smallest of their p-values.
    most : int, optional
        The largest number of combinations.

    References
    ----------
    .. [1] A. Schrab, I. Kim, B. Guedj, A. Gretton. Efficient aggregated kernel tests using
       incomplete U-statistics. NeurIPS 2022.
    .. [2] P. Westfall, S. Young. Resampling-based multiple testing. Wiley 1993, section 2.3, for
       the maximum and the smallest p-value of joint replicates.

    Examples
    --------
    >>> len(Grid().combinations(2))
    16
    >>> len(Grid(Candidates(factors=(0.5, 1, 2)), combine="matched").combinations(2))
    3
    """

    candidates: Candidates | Sequence[Candidates] = Candidates()
    combine: Combine | Sequence[Sequence[int]] = "auto"
    aggregate: Aggregate = "max"
    most: int = 64

    def __post_init__(self) -> None:
        if not isinstance(self.candidates, Candidates):
            object.__setattr__(self, "candidates", tuple(self.candidates))
        listed = self.candidates if isinstance(self.candidates, tuple) else (self.candidates,)
        if not listed or not all(isinstance(one, Candidates) for one in listed):
            msg = f"a grid needs Candidates, one or one a variable; got {self.candidates!r}"
            raise InvalidArgumentError(msg)
        if isinstance(self.combine, str):
            check_choice("combine", self.combine, get_args(Combine))
        else:
            object.__setattr__(self, "combine", tuple(map(tuple, self.combine)))
        check_choice("aggregate", self.aggregate, get_args(Aggregate))
        check_integer("most", self.most, minimum=1)

    @classmethod
    def auto(cls) -> Self:
        """The grid that a test takes where no kernels are given."""
        return cls()

    def combinations(self, m: int) -> Combinations:
        """The combinations for M variables, not fitted yet.

        Raises
        ------
        InvalidArgumentError
            Candidates for another number of variables, unequally many where they are to be
            matched, numbers that they do not have, or more combinations than allowed.
        """
        listed = self._candidates(m)
        counts = [len(one.scaled) for one in listed]
        starts = [sum(counts[:k]) for k in range(m)]
        numbers = self._numbers(counts)
        if len(numbers) > self.most:
            msg = (
                f"a grid must have at most {self.most} combinations, got {len(numbers)}: take "
                "fewer candidates, combine='auto', or a larger 'most'"
            )
            raise InvalidArgumentError(msg)
        chosen = tuple(
            tuple(start + k for start, k in zip(starts, one, strict=True)) for one in numbers
        )
        kernels = [pair for one in listed for pair in one.scaled]
        return Combinations(
            tuple(kernel for kernel, _ in kernels),
            tuple(v for v, count in enumerate(counts) for _ in range(count)),
            chosen,
            tuple(factor for _, factor in kernels),
        )

    def _candidates(self, m: int) -> tuple[Candidates, ...]:
        if isinstance(self.candidates, Candidates):
            return (self.candidates,) * m
        listed = tuple(self.candidates)
        if len(listed) != m:
            msg = f"a grid needs Candidates for each of {m} variables, or one; got {len(listed)}"
            raise InvalidArgumentError(msg)
        return listed

    def _numbers(self, counts: Sequence[int]) -> list[tuple[int, ...]]:
        if self.combine == "all" or (self.combine == "auto" and prod(counts) <= self.most):
            return list(product(*map(range, counts)))
        if self.combine == "auto":
            return _balanced(counts)
        if self.combine == "matched":
            return _matched(counts)
        return _listed(tuple(tuple(one) for one in self.combine), counts)


def _balanced(counts: Sequence[int]) -> list[tuple[int, ...]]:
    """Variable m takes candidate i + m j, modulo their number, for all i and j.

    An orthogonal array of strength 2 where the number is a prime not below the number of
    variables minus one, the first variable taking j (Rao 1947).
    """
    g = max(counts)
    rows = (
        (j, *(i + m * j for m in range(len(counts) - 1))) for i, j in product(range(g), repeat=2)
    )
    return list(dict.fromkeys(tuple(k % c for k, c in zip(r, counts, strict=True)) for r in rows))


def _matched(counts: Sequence[int]) -> list[tuple[int, ...]]:
    """A variable with a single candidate goes with all of the others'."""
    g = max(counts)
    if any(count not in (1, g) for count in counts):
        msg = (
            "matched combinations need equally many candidates of every variable, or one; got "
            f"{', '.join(map(str, counts))}: take combine='all'"
        )
        raise InvalidArgumentError(msg)
    return [tuple(min(k, count - 1) for count in counts) for k in range(g)]


def _listed(numbers: tuple[tuple[int, ...], ...], counts: Sequence[int]) -> list[tuple[int, ...]]:
    for one in numbers or ((),):
        known = len(one) == len(counts) and all(
            isinstance(k, int) and 0 <= k < count for k, count in zip(one, counts, strict=True)
        )
        if not known:
            msg = (
                "a combination must be one number of a candidate for each variable, from 0 up to "
                f"below {', '.join(map(str, counts))}; got {one}"
            )
            raise InvalidArgumentError(msg)
    return list(dict.fromkeys(numbers))
