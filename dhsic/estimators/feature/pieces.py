"""The parts that replicates of features are cut into, so that each fits in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

from dhsic.estimators.feature.layout import Pair


class Piece(NamedTuple):
    """The part of the work that one pass takes."""

    pairs: tuple[Pair, ...]
    """Combinations."""
    cosets: range
    """Numbers of cosets of the orbit."""
    features: range | None = None
    """Features of the first side of a single combination; all where not given."""

    @property
    def start(self) -> int:
        """The first of its features."""
        return 0 if self.features is None else self.features.start


def fewest_parts(whole: Any, fits: Callable[[Any], bool]) -> list[Any]:
    """As few parts of a sequence as fit, each of one entry at the least."""

    def suits(count: int) -> bool:
        return all(map(fits, parted(whole, count)))

    # Doubled, since one part is enough as a rule and a thousand take a thousand plans.
    most = 1
    while most < len(whole) and not suits(most):
        most *= 2
    counts = range(most // 2 + 1, min(most, len(whole)))
    # More parts are smaller parts, so that bisection finds the fewest.
    return parted(whole, counts.start + bisect_left(counts, True, key=suits))


def parted(whole: Any, count: int) -> list[Any]:
    """So many parts, of which the first is the longest."""
    # Rounded up, so that the first part is the longest: what fits for it fits for all.
    cuts = [-(-len(whole) * i // count) for i in range(count + 1)]
    return [whole[a:b] for a, b in pairwise(cuts)]
