"""Designs of grids: which candidates of several variables are combined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dhsic.errors import InvalidArgumentError


def spaced(rows: list[tuple[int, ...]], most: int) -> list[tuple[int, ...]]:
    """As many of the rows as are wanted, from first to last."""
    count = min(most, len(rows))
    return [rows[len(rows) * k // count] for k in range(count)]


def balanced(counts: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """So many combinations, in which every candidate of a variable is as often as the others."""
    if len(counts) == 2:
        # All pairs in order, of which those from first to last meet all candidates.
        return spaced([(a, b) for b in range(counts[1]) for a in range(counts[0])], most)
    rng = np.random.default_rng(0)  # the same in every run
    columns = (rng.permutation(np.resize(np.arange(count), most)) for count in counts)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def matched(counts: Sequence[int]) -> list[tuple[int, ...]]:
    """A variable with a single candidate goes with all of the others'."""
    g = max(counts)
    if any(count not in (1, g) for count in counts):
        msg = (
            "matched combinations need equally many candidates of every variable, or one; got "
            f"{', '.join(map(str, counts))}: take combine='all'"
        )
        raise InvalidArgumentError(msg)
    return [tuple(min(k, count - 1) for count in counts) for k in range(g)]


def checked(numbers: tuple[tuple[int, ...], ...], counts: Sequence[int]) -> list[tuple[int, ...]]:
    """Combinations as they were listed, each once; refused where one is not of the candidates."""
    for combination in numbers or ((),):
        known = len(combination) == len(counts) and all(
            isinstance(k, int | np.integer) and not isinstance(k, bool) and 0 <= k < count
            for k, count in zip(combination, counts, strict=True)
        )
        if not known:
            msg = (
                "a combination must be one number of a candidate for each variable, from 0 up to "
                f"below {', '.join(map(str, counts))}; got {combination}"
            )
            raise InvalidArgumentError(msg)
    return list(dict.fromkeys(tuple(map(int, combination)) for combination in numbers))
