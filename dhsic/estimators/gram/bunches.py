"""Statistics whose kernels are computed at a time, where all pairs of rows are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dhsic.estimators.gram.sides import GramSides, Members

_COMPUTED = 1.125  # times as many kernels as there are: no more may be computed twice


@dataclass(frozen=True)
class Bunch:
    """Statistics whose kernels are computed for a band of lines at a time.

    Bands of thousands of kernels would be a few lines each, and a call as dear as its numbers.

    Parameters
    ----------
    sides : GramSides
        Those of these statistics.
    statistics : sequence of int
        Their numbers among all.
    numbers : dict of (int, tuple of int) to int
        Those of the Gram matrices that no bunch before has summed, by coset and side.
    """

    sides: GramSides
    statistics: Sequence[int]
    numbers: dict[tuple[int, Members], int]

    @cached_property
    def by_right(self) -> dict[int, list[int]]:
        """The statistics of every kernel on the right."""
        numbers: dict[int, list[int]] = {}
        for c, pair in zip(self.statistics, self.sides.pairs, strict=True):
            numbers.setdefault(pair.right, []).append(c)
        return numbers

    @property
    def n_roots(self) -> int:
        """Kernels that are no powers, of every coset."""
        still, moved = (len(self.sides.roots(coset)) for coset in (0, 1))
        return still + (self.sides.orbit.cosets - 1) * moved

    @property
    def n_sides(self) -> int:
        """Sides in the order of the data, and in that of another coset."""
        moved = len(self.sides.moved) if self.sides.orbit.cosets > 1 else 0
        return len(self.sides.sides) + moved


def cut_into_bunches(sides: GramSides, most: int) -> tuple[Bunch, ...]:
    """All statistics, or so many at a time where few kernels are computed more often."""
    whole = Bunch(sides, range(len(sides.pairs)), sides.numbers)
    each = whole.by_right.values()
    cut = [some[at : at + most] for some in each for at in range(0, len(some), most)]
    computed = sum(len(left) for left, _ in sides.pairs) + len(cut)
    if computed > _COMPUTED * len(sides.roots(0)):
        return (whole,)
    left_over, bunches = dict(sides.numbers), []
    for some in cut:
        part = sides.of_statistics(some)
        # A matrix that several bunches need is summed in the first of them.
        numbers = {key: left_over.pop(key) for key in part.numbers if key in left_over}
        bunches.append(Bunch(part, some, numbers))
    return tuple(bunches)
