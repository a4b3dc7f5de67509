"""Kernels that a test tries where none are given: those of a variable, and pairs of two variables.

Chosen by power on public scenarios, which `python -m benchmarks run leaderboard` measures, and
those that lead by power on columns of real tables, `python -m benchmarks run power`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

OneOrMany: TypeAlias = Literal["one", "many"]
Families: TypeAlias = tuple[tuple[str, ...], tuple[tuple[float, ...], ...]]
"""Kernels, and the factors of each."""
_One: TypeAlias = tuple[str, float]

SMOOTH = "scores(gaussian)"
"""Kernel of the reference of variables of numbers."""
TREND, TREND_OF_MANY = "ranks(anderson-darling)", "scores(linear)"
"""Kernels of the trends of a number, and of several."""
_S, _T = (SMOOTH, 1.0), (TREND, 1.0)
_MIDDLE, _WIDE, _WIDEST = (SMOOTH, 0.5), (SMOOTH, 2.0), (SMOOTH, 4.0)
_FINE, _FINER, _FINEST = (("gaussian", factor) for factor in (1 / 4, 1 / 8, 1 / 32))
_RANKS, _COARSE_RANKS = (("ranks(gaussian)", factor) for factor in (1 / 8, 1 / 4))
_EACH = ("columns(laplacian)", 0.125)
_SPREADS, _SPREAD = ("spread(linear)", 1.0), ("spread(anderson-darling)", 1.0)
_DISTANCE, _LINEAR = ("distance", 1.0), (TREND_OF_MANY, 1.0)

# Candidates that are tried in the pairs below alone, and all, those of a family side by side.
_NUMBER_ALONE = (_SPREAD, _COARSE_RANKS, _DISTANCE, _LINEAR)
_NUMBER = (_S, _FINE, _FINEST, _RANKS, _COARSE_RANKS, _T, _SPREAD, _DISTANCE, _LINEAR)
_SEVERAL_ALONE = (_WIDEST,)
_SEVERAL = (_S, _MIDDLE, _WIDE, _WIDEST, _FINE, _FINER, _EACH, _SPREADS)


def _both(*pairs: tuple[_One, _One]) -> list[tuple[_One, _One]]:
    """Pairs, and the same with the variables changed, each once."""
    return list(dict.fromkeys(pair for a, b in pairs for pair in ((a, b), (b, a))))


_PAIRS: dict[tuple[OneOrMany, OneOrMany], list[tuple[_One, _One]]] = {
    ("one", "one"): _both(
        *((kernel, kernel) for kernel in (_S, _T, _DISTANCE)),
        *((_FINE, kernel) for kernel in (_FINE, _RANKS, _T)),
        *((_T, kernel) for kernel in (_RANKS, _FINEST, _S)),
        (_SPREAD, _SPREAD),
    ),
    ("many", "many"): _both(
        *((kernel, kernel) for kernel in (_S, _WIDEST, _MIDDLE, _SPREADS)),
        *((_MIDDLE, _EACH), (_S, _SPREADS)),
    ),
    ("many", "one"): [
        *((_S, _T), (_WIDEST, _LINEAR), (_FINE, _S)),
        *((kernel, _DISTANCE) for kernel in (_MIDDLE, _SPREADS, _FINER, _EACH)),
        *((kernel, _COARSE_RANKS) for kernel in (_S, _MIDDLE)),
    ],
}
LEADING: dict[tuple[OneOrMany | None, ...], tuple[int, ...]] = {("one", "one"): (1, 2)}
"""Places of the pairs that have the share of the reference, where it is not its own.

For two numbers these are trend with trend and distances with distances. Over 20 pairs of columns of
real tables they find 54.6 %; scores in the lead find 52.7, trend 53.7, distances 54.9, all three
53.8, and distance covariance 53.8. With weights of 0.3 each they find 55.2 %, and 5 points less of
squares, in place of 2.
"""
_PAIRS["one", "many"] = [(b, a) for a, b in _PAIRS["many", "one"]]
_LISTED = {"one": _NUMBER, "many": _SEVERAL}


def _families(kernels: tuple[_One, ...]) -> Families:
    factors: dict[str, tuple[float, ...]] = {}
    for name, factor in kernels:
        factors[name] = (*factors.get(name, ()), factor)
    return tuple(factors), tuple(factors.values())


OF_ONE = _families(_NUMBER)
"""Kernels that are tried of a variable of one numeric column."""
OF_MANY = _families(_SEVERAL)
"""Kernels that are tried of variables of several columns, and of categories beside numbers."""
INVARIANT: Families = (
    ("gaussian", "columns(laplacian)"),
    ((1.0, 0.125, 0.5, 4.0), (1.0,)),
)
"""Where kernels must be translation-invariant."""
PAIRED_ALONE: dict[OneOrMany, frozenset[int]] = {
    "one": frozenset(map(_NUMBER.index, _NUMBER_ALONE)),
    "many": frozenset(map(_SEVERAL.index, _SEVERAL_ALONE)),
}
"""Numbers of the candidates that are tried in the pairs below alone."""
NARROWEST = 1 / 32
"""The least product of the factors of two variables of which no pairs are known."""


def pairs_of(first: OneOrMany, second: OneOrMany) -> list[tuple[int, ...]]:
    """Numbers of the candidates that two variables try together; the first pair is the reference.

    Examples
    --------
    >>> len(pairs_of("one", "one")), len(pairs_of("many", "one")), len(pairs_of("many", "many"))
    (15, 9, 8)
    """
    listed, other = _LISTED[first], _LISTED[second]
    return [(listed.index(a), other.index(b)) for a, b in _PAIRS[first, second]]
