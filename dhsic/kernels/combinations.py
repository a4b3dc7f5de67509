"""Which kernels a test tries: one combination, or several that share what they can."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Self, TypeVar

import numpy as np

from dhsic.kernels.base import Kernel
from dhsic.kernels.ranked import Ranked
from dhsic.kernels.wrap import Columns, OnColumns, of_present, with_missing

Value = TypeVar("Value")

# |log factor| is below 14 for all factors that are allowed, so that this is larger.
_NO_LENGTH = 1e3


@dataclass(frozen=True)
class Combinations:
    """Kernels of M variables, and the combinations of one kernel a variable.

    Parameters
    ----------
    kernels : tuple of Kernel
        All K of them, those of the first variable first.
    variables : tuple of int
        The number of the variable that each is for, shape (K,), ascending.
    chosen : tuple of tuple of int
        G combinations, each the numbers of M kernels in the order of the variables.
    factors : tuple of float
        Multiples of the length scale of each when it is fitted, shape (K,).
    features : bool, optional
        Whether each is to be measured by itself: a feature against one target, or two variables.
    leading : tuple of int, optional
        Numbers of the combinations that have the share of the reference, where it is not its own.
    stages : tuple of int, optional
        The stage of a chain that each combination belongs to, ascending, shape (G,); a combination
        is then a pair of kernels of any two variables, and the first of a stage its reference.

    Examples
    --------
    >>> from dhsic.kernels import Delta, Gaussian
    >>> single = Combinations.single((Gaussian(), Delta()))
    >>> len(single), single.chosen
    (1, ((0, 1),))
    """

    kernels: tuple[Kernel, ...]
    variables: tuple[int, ...]
    chosen: tuple[tuple[int, ...], ...]
    factors: tuple[float, ...]
    features: bool = False
    leading: tuple[int, ...] = ()
    stages: tuple[int, ...] = ()

    @classmethod
    def single(cls, kernels: Sequence[Kernel]) -> Self:
        """One kernel a variable, as it is."""
        numbers = tuple(range(len(kernels)))
        return cls(tuple(kernels), numbers, (numbers,), (1.0,) * len(kernels))

    @classmethod
    def against(cls, features: Sequence[Kernel], target: Kernel) -> Self:
        """Every kernel of the first variable with the one of the second."""
        g = len(features)
        chosen = tuple((c, g) for c in range(g))
        return cls((*features, target), (*[0] * g, 1), chosen, (1.0,) * (g + 1), features=True)

    @classmethod
    def pairs(cls, kernels: Sequence[Kernel]) -> Self:
        """All pairs of M variables, by one kernel of each."""
        numbers, chosen = tuple(range(len(kernels))), combinations(range(len(kernels)), 2)
        return cls(tuple(kernels), numbers, tuple(chosen), (1.0,) * len(kernels), features=True)

    def with_missing(self, gaps: Sequence[bool]) -> Self:
        """With kernels of rows that may be missing, of the variables that have such rows."""
        pairs = zip(self.kernels, self.variables, strict=True)
        kernels = tuple(with_missing(kernel) if gaps[m] else kernel for kernel, m in pairs)
        return replace(self, kernels=kernels)

    def part(self, numbers: Iterable[int]) -> Self:
        """Some of the combinations, with their kernels only."""
        numbers = list(numbers)
        chosen = [self.chosen[c] for c in numbers]
        # Tiles are computed for every kernel that is here, whether a combination takes it or not.
        used = self.used(range(len(self.kernels)), numbers)
        place = {k: number for number, k in enumerate(used)}
        return replace(
            self,
            kernels=tuple(self.kernels[k] for k in used),
            variables=tuple(self.variables[k] for k in used),
            chosen=tuple(tuple(place[k] for k in combination) for combination in chosen),
            factors=tuple(self.factors[k] for k in used),
            leading=tuple(place for place, c in enumerate(numbers) if c in self.leading),
            stages=tuple(self.stages[c] for c in numbers) if self.stages else (),
        )

    @property
    def by_stage(self) -> list[list[int]]:
        """Numbers of the combinations of every stage; all where there is one test."""
        of = self.stages or (0,) * len(self)
        return [[c for c in range(len(self)) if of[c] == stage] for stage in dict.fromkeys(of)]

    @property
    def kept(self) -> set[int]:
        """Numbers of those that stay whatever they compare, so that every stage has one."""
        if self.features:
            return set(range(len(self)))
        return {numbers[0] for numbers in self.by_stage} if self.stages else {self.reference()}

    @property
    def kept_kernels(self) -> set[int]:
        """Numbers of the kernels of these."""
        return {k for c in self.kept for k in self.chosen[c]}

    def used(self, values: Sequence[Value], numbers: Iterable[int]) -> list[Value]:
        """Those of K values that belong to the kernels of some of the combinations."""
        return [values[k] for k in sorted({k for c in numbers for k in self.chosen[c]})]

    def fitted(self, kernels: Iterable[Kernel]) -> Self:
        """With kernels that were fitted, and are widened here."""
        pairs = zip(kernels, self.factors, strict=True)
        return replace(self, kernels=tuple(kernel.widened(factor) for kernel, factor in pairs))

    def guessed(self, dims: Sequence[int]) -> Self:
        """As if fitted to variables of so many columns, for plans: costs depend on no value."""
        guesses = map(_guess, self.kernels, self.spread(dims), self.factors)
        return replace(self, kernels=tuple(guesses))

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def plain(self) -> bool:
        """Whether they are one kernel a variable, fitted as it is."""
        return len(self) == 1 and all(factor == 1.0 for factor in self.factors)

    def of(self, values: Sequence[Value], combination: int) -> list[Value]:
        """Those of K values that belong to a combination, one a variable."""
        return [values[k] for k in self.chosen[combination]]

    def spread(self, values: Sequence[Value]) -> list[Value]:
        """One of M values for every kernel: that of its variable."""
        return [values[m] for m in self.variables]

    def typical(self) -> list[int]:
        """For every variable the number of a kernel whose length scale is changed the least."""
        order = sorted(range(len(self.kernels)), key=self._changes.__getitem__)
        count = self.variables[-1] + 1
        return [next(k for k in order if self.variables[k] == m) for m in range(count)]

    def reference(self) -> int:
        """The number of the combination whose length scales are changed the least."""
        changes = self._changes
        return min(range(len(self)), key=lambda c: sum(self.of(changes, c)))

    @property
    def _changes(self) -> list[float]:
        return [change(*pair) for pair in zip(self.kernels, self.factors, strict=True)]

    def points_of(self, points: Sequence[Value], combination: int) -> tuple[Value, ...]:
        """Select from one value a variable those of the kernels of a combination."""
        return tuple(points[self.variables[k]] for k in self.chosen[combination])

    def kernels_of(self, combination: int) -> tuple[Kernel, ...]:
        """The kernels of a combination, one a variable."""
        return tuple(self.of(self.kernels, combination))

    def factors_of(self, combination: int) -> tuple[float | None, ...]:
        """Multiples of their lengths; None of a kernel that has none."""
        kernels = self.of(self.kernels, combination)
        factors = self.of(self.factors, combination)
        return tuple(
            factor if kernel.has_length else None
            for kernel, factor in zip(kernels, factors, strict=True)
        )


def _guess(kernel: Kernel, d: int, factor: float) -> Kernel:
    """Fitted to three rows of so many columns and widened."""
    if isinstance(kernel, OnColumns) and not kernel.scaled:
        # Thousands of columns have the same kernel, each on its own.
        return replace(kernel, kernel=_guessed(kernel.kernel, len(kernel.at), factor))
    return _guessed(kernel, d, factor)


@lru_cache(maxsize=1024)
def _guessed(kernel: Kernel, d: int, factor: float) -> Kernel:
    """The same, found once: plans of one test ask many times."""
    if isinstance(kernel, Columns) and kernel.alike:
        d = 1  # what is fitted to one column stands for all
    # Within 0 and 1, where some kernels are; of two rows the spreads would be the same.
    rows = np.repeat([[0.25], [0.5], [0.75]], d, axis=1)
    return kernel.fit(rows).widened(factor)


def change(kernel: Kernel, factor: float) -> float:
    """How far a candidate is from the median heuristic; the farthest are those without a length.

    Ranks have no heuristic to follow: such a kernel is as it should be.
    """
    if kernel.has_length:
        return abs(math.log(factor))
    return 0.0 if isinstance(of_present(kernel), Ranked) else _NO_LENGTH
