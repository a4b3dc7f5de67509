"""Designs of grids: which candidates of several variables are combined."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from dhsic.errors import InvalidArgumentError

_PRODUCTS = ((0, 0, 0, 0), (0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2))  # in the field of 4


def spaced(rows: list[tuple[int, ...]], most: int) -> list[tuple[int, ...]]:
    """As many of the rows as are wanted, from first to last."""
    count = min(most, len(rows))
    return [rows[len(rows) * k // count] for k in range(count)]


def balanced(counts: Sequence[int]) -> list[tuple[int, ...]]:
    """The first variable takes candidate j, the others i + m j, for all i and j.

    Where the number g of candidates is a prime or 4, sums and products are those of the field of g
    elements, so that up to g + 1 variables meet in pairs in all pairs of candidates: an orthogonal
    array of strength 2 (Rao 1947). Else they are modulo g, and not all pairs may meet; nor do those
    of more variables, of which some always take the same candidate.
    """
    g = max(counts)
    others = range(len(counts) - 1)
    rows = (
        # Addition in the field of 4 elements is the exclusive or.
        (j, *(i ^ _PRODUCTS[m % g][j] if g == 4 else (i + m * j) % g for m in others))
        for i, j in product(range(g), repeat=2)
    )
    return list(dict.fromkeys(tuple(k % c for k, c in zip(r, counts, strict=True)) for r in rows))


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
