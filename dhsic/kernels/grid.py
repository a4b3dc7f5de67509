"""Grids of kernels: what a test tries on every variable so that no one has to choose.

The kernels that are tried where none are given, and in which pairs of two variables, were chosen by
power on public scenarios, which `python -m benchmarks run leaderboard` measures; those that lead,
by power on columns of real tables, `python -m benchmarks run power`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate, product
from numbers import Real
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np

from dhsic._validation import check_choice, check_integer, check_number
from dhsic.errors import InvalidArgumentError
from dhsic.kernels.base import Kernel, Product
from dhsic.kernels.combinations import Combinations, change
from dhsic.kernels.designs import balanced, checked, matched
from dhsic.kernels.dot import Delta
from dhsic.kernels.text import parse
from dhsic.kernels.wrap import Columns, OnColumns

_FACTORS = (1.0, 0.125, 0.5, 4.0)
Aggregate = Literal["soft", "max", "min-p"]
Combine = Literal["auto", "all", "matched"]
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

_TRIED: dict[OneOrMany, tuple[_One, ...]] = {
    "one": (_S, _FINE, _FINEST, _RANKS, _COARSE_RANKS, _T, _SPREAD, _DISTANCE, _LINEAR),
    "many": (_S, _MIDDLE, _WIDE, _WIDEST, _FINE, _FINER, _EACH, _SPREADS),
}
"""Candidates of a variable of one numeric column, or of others, those of a family side by side."""
_ALONE = {"one": (_SPREAD, _COARSE_RANKS, _DISTANCE, _LINEAR), "many": (_WIDEST,)}
"""Those that are tried in the pairs below alone."""


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


def _families(kernels: tuple[_One, ...]) -> Families:
    factors: dict[str, tuple[float, ...]] = {}
    for name, factor in kernels:
        factors[name] = (*factors.get(name, ()), factor)
    return tuple(factors), tuple(factors.values())


INVARIANT: Families = (
    ("gaussian", "columns(laplacian)"),
    ((1.0, 0.125, 0.5, 4.0), (1.0,)),
)
"""Where kernels must be translation-invariant."""
NARROWEST = 1 / 32
"""The least product of the factors of two variables of which no pairs are known."""


def pairs_of(first: OneOrMany, second: OneOrMany) -> list[tuple[int, ...]]:
    """Numbers of the candidates that two variables try together; the first pair is the reference.

    Examples
    --------
    >>> len(pairs_of("one", "one")), len(pairs_of("many", "one")), len(pairs_of("many", "many"))
    (15, 9, 8)
    """
    listed, other = _TRIED[first], _TRIED[second]
    return [(listed.index(a), other.index(b)) for a, b in _PAIRS[first, second]]


def by_type(kinds: Sequence[str], smooth: Kernel) -> Kernel:
    """A smooth kernel of the numbers, times a delta kernel of the categories and booleans.

    Booleans alone, two columns or more, take the smooth kernel: of 0 and 1 it is a product of
    kernels that ask whether a column is equal, and does not ask all of them at once as delta does.

    Parameters
    ----------
    kinds : sequence of {"number", "boolean", "category"}
        Kinds of the columns.
    smooth : Kernel
        Kernel of numbers.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> from dhsic.kernels import Gaussian
    >>> by_type(("number", "category", "number"), Gaussian()).spec()
    'gaussian@0,2*delta@1'
    >>> by_type(("boolean",), Gaussian()).spec()
    'delta'
    """
    numbers = tuple(j for j, kind in enumerate(kinds) if kind == "number")
    others = tuple(j for j, kind in enumerate(kinds) if kind != "number")
    if not others or (len(others) > 1 and set(kinds) == {"boolean"}):
        return smooth
    if not numbers:
        return Delta()
    # A product of characteristic kernels is characteristic for both together, a sum would not be.
    return Product((OnColumns(smooth, numbers), OnColumns(Delta(), others)))


def by_column(kinds: Sequence[str], smooth: Columns) -> Columns:
    """The mean over columns of a smooth kernel of numbers, or delta of categories and booleans.

    Parameters
    ----------
    kinds : sequence of {"number", "boolean", "category"}
        Kinds of the columns.
    smooth : Columns
        Kernel of numbers.

    Returns
    -------
    Columns

    Examples
    --------
    >>> from dhsic.kernels import Gaussian
    >>> by_column(("number", "category"), Columns(Gaussian())).spec()
    'columns(gaussian,delta)'
    """
    if set(kinds) == {"number"}:
        return smooth
    part = smooth.parts[0] if isinstance(smooth.parts, tuple) else smooth.parts
    return Columns(tuple(part if kind == "number" else Delta() for kind in kinds))


@dataclass(frozen=True)
class Candidates:
    """Kernels to try on one variable.

    Parameters
    ----------
    kernels : str, Kernel or a sequence of them, optional
        Families, as "gaussian" and "laplacian". Bandwidths that are not given follow the median
        heuristic. Where neither kernels nor factors are given: Gaussian kernels of the normal
        scores of the columns, which find smooth dependence in any units, of four bandwidths; two
        narrow ones of the values, for fast dependence; the mean over columns of a narrow Laplacian
        one of each, for dependence on one of many; and a linear one of their spreads, see `Ranked`.
        A variable of a single number has a Gaussian kernel of its scores, two narrow ones of its
        values, two narrow ones of its ranks, the Anderson-Darling kernel of its ranks, the distance
        kernel and a linear one of its scores, for trends, and the Anderson-Darling kernel of its
        spread. Some are tried in pairs of variables without given candidates alone.
    factors : sequence of float, or one such sequence for each family, optional
        Multiples of the length scale of a kernel: 0.5 halves the length; (1, 1/8, 1/2, 4)
        where not given. Kernels without one, as "delta", are tried once.

    Raises
    ------
    InvalidArgumentError
        There is no kernel, one is twice there, or a name or a factor is none.

    References
    ----------
    .. [1] M. Albert, B. Laurent, A. Marrel, A. Meynaoui. Adaptive test of independence based on
       HSIC measures. Annals of Statistics 50, 2022.

    Examples
    --------
    >>> len(Candidates(("gaussian", "laplacian"), factors=(0.5, 1, 2)).scaled)
    6
    >>> [(kernel.spec(), factor) for kernel, factor in Candidates().scaled][:2]
    [('scores(gaussian)', 1.0), ('scores(gaussian)', 0.5)]
    """

    kernels: str | Kernel | Sequence[str | Kernel] | None = None
    factors: Sequence[float] | Sequence[Sequence[float]] | None = None
    _left_open: bool = field(default=False, init=False, repr=False, compare=False)
    _thinned: bool = field(default=False, init=False, repr=False, compare=False)
    _columns: OneOrMany | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_left_open", self.kernels is None)
        if self.kernels is None and self.factors is None:
            defaults = (*_families(_TRIED["many"]), True, "many")
            names = ("kernels", "factors", "_thinned", "_columns")
            for name, default in zip(names, defaults, strict=True):
                object.__setattr__(self, name, default)
        families: Any = "gaussian" if self.kernels is None else self.kernels
        given = (families,) if isinstance(families, str | Kernel) else _items(families)
        kernels = tuple(parse(k) if isinstance(k, str) else k for k in given)
        if (
            not kernels
            or not all(isinstance(kernel, Kernel) for kernel in kernels)
            or len(set(kernels)) < len(kernels)
        ):
            msg = (
                "candidates must be different kernels or their names, one or a sequence of them; "
                f"got {self.kernels!r}"
            )
            raise InvalidArgumentError(msg)
        object.__setattr__(self, "kernels", kernels)
        object.__setattr__(self, "factors", self._each(len(kernels)))

    @property
    def scaled(self) -> list[tuple[Kernel, float]]:
        """Every kernel with every factor that makes a difference to it."""
        families: Any = self.kernels
        each: Any = self.factors
        return [
            (kernel, factor)
            for kernel, factors in zip(families, each, strict=True)
            for factor in (factors if kernel.has_length else (1.0,))
        ]

    def by_type(self, kinds: Sequence[str], *, invariant: bool = False) -> Candidates:
        """Kernels that suit what the columns hold, where none were given.

        Parameters
        ----------
        kinds : sequence of {"number", "boolean", "category"}
            Kinds of the columns of the variable.
        invariant : bool, optional
            Whether they must be translation-invariant, as those of random frequencies are:
            Gaussian kernels of four bandwidths and the mean of Laplacian ones.

        Returns
        -------
        Candidates
        """
        if self._left_open and self._thinned:  # neither kernels nor factors were given
            if invariant:
                return _usual(INVARIANT)
            if tuple(kinds) == ("number",):
                return _usual(_families(_TRIED["one"]), "one")
        families: Any = self.kernels
        if not self._left_open:
            return self
        suited: dict[Kernel, Any] = {}
        for kernel, factors in zip(families, self._each(len(families)), strict=True):
            suitable = by_type(kinds, kernel)
            # Families of kernels of numbers become one kernel where all columns hold categories.
            suited.setdefault(suitable, factors if suitable.has_length else (1.0,))
        if tuple(suited) == families:
            return self
        same = self._columns if len(suited) == len(families) else None
        return _usual(((*suited,), (*suited.values(),)), same)

    def _each(self, families: int) -> tuple[tuple[float, ...], ...]:
        """The factors of every family."""
        given = _FACTORS if self.factors is None else _items(self.factors)
        nested = any(isinstance(factors, Sequence | np.ndarray) for factors in given)
        each = [_items(factors) for factors in given] if nested else [given] * families
        if len(each) != families or not all(map(_are_factors, each)):
            msg = (
                "factors of the bandwidth must be different numbers from 1e-6 to 1e6, one or more, "
                f"for all families or in a list for each; got {self.factors!r}: take (0.5, 1, 2), "
                "for instance"
            )
            raise InvalidArgumentError(msg)
        return tuple(tuple(map(float, factors)) for factors in each)


@lru_cache(maxsize=64)
def _usual(families: Any, columns: OneOrMany | None = None) -> Candidates:
    """Candidates that nobody asked for, and of which variables, where pairs of them are known."""
    candidates = Candidates(*families)
    object.__setattr__(candidates, "_thinned", True)
    object.__setattr__(candidates, "_columns", columns)
    return candidates


def _items(given: Any) -> tuple[Any, ...]:
    """Items of a sequence; none of a set, a mapping or a value that is no sequence."""
    if isinstance(given, np.ndarray):
        given = given.tolist()
    # The order of a set differs from process to process, and with it which kernel ties decide for.
    return tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()


def _are_factors(given: tuple[Any, ...]) -> bool:
    return (
        len(given) > 0
        and all(isinstance(f, Real) and not isinstance(f, bool) for f in given)
        and all(1e-6 <= f <= 1e6 for f in given)
        and len(set(map(float, given))) == len(given)
    )


@dataclass(frozen=True)
class Grid:
    """Kernels to try on the variables of a test, whose p-value accounts for the choice.

    One bandwidth finds dependence at its own scale only. A grid takes several kernels of every
    variable, computes the statistics of their combinations and of the same replicates under the
    null hypothesis in one run, and compares one score of all the statistics with the same score of
    every replicate. Given replicates that are exchangeable with the data, as permutations are, the
    level is exact for any grid.

    Among many combinations the median heuristic, which is best for smooth dependence, loses power.
    So the reference, the combination of the kernels nearest to it, has a share of the weight to
    itself, and all the others together have the rest. Its estimate is reported. In it a number that
    no kernel was given for, beside a variable of several columns, has the Anderson-Darling kernel
    of its ranks.

    All pairs of rows and principal features leave out combinations with a kernel that is 0 between
    nearly all rows, as narrow ones are in many columns; the result counts them. Its statistic is
    that of the few pairs that lie near each other, and its replicates have heavy tails.

    Parameters
    ----------
    candidates : Candidates or a sequence of Candidates, optional
        For all variables, or one for each.
    combine : {"auto", "all", "matched"} or a sequence of tuples of int, optional
        "all" takes every combination. "matched" takes the first candidates of all variables, the
        second of all, and so on. A sequence lists the combinations by numbers of candidates, one
        a variable. "auto" takes the reference, and every combination of the other candidates where
        that makes no more than `most`; else as many of them, in which every candidate of a
        variable is as often as the others. Two variables whose candidates were not
        given have 8 to 15 pairs, chosen by power: trends of a number with all lengths of the other
        variable, kernels of the same length with each other, and those of the spread, which find
        what is round, as a circle, and what varies with the other.
    aggregate : {"soft", "max", "min-p"}, optional
        Standardise statistics by the mean and standard deviation of their replicates and take
        their soft maximum [3], log sum_c w_c exp(2 z_c), which gathers what several combinations
        find; or the largest of them; or take the smallest of their p-values.
    reference_share : float, optional
        Share of the weight, or of the level with "max" and "min-p", at least 0 and less than 1; 0
        treats all combinations alike. The reference has the kernels whose factor is nearest to 1,
        those of the first family; with no choice of factors a kernel of ranks counts as 1. Two
        numbers that no kernel was given for have two pairs that lead in its place with "soft",
        trend with trend and distances with distances, with 3/5 and 2/5 of its share. With
        "max" and "min-p" the others need about 1 / (share level) replicates to reject by
        themselves, where share is theirs: 40 at 5 %.
    most : int, optional
        The largest number of combinations that "auto" takes.

    Raises
    ------
    InvalidArgumentError
        A candidate is none, a choice has no such name, or a number is out of its range.

    References
    ----------
    .. [1] A. Schrab, I. Kim, B. Guedj, A. Gretton. Efficient aggregated kernel tests using
       incomplete U-statistics. NeurIPS 2022.
    .. [2] P. Westfall, S. Young. Resampling-based multiple testing. Wiley 1993, section 2.3, for
       the maximum and the smallest p-value of joint replicates.
    .. [3] F. Biggs, A. Schrab, A. Gretton. MMD-FUSE: learning and combining kernels for two-sample
       testing without data splitting. NeurIPS 2023, section 3.

    Examples
    --------
    >>> len(Grid().combinations(2)), len(Grid().combinations(5))
    (8, 17)
    >>> len(Grid(Candidates("gaussian", (0.5, 1, 2)), combine="all").combinations(2))
    9
    """

    candidates: Candidates | Sequence[Candidates] = Candidates()
    combine: Combine | Sequence[Sequence[int]] = "auto"
    aggregate: Aggregate = "soft"
    reference_share: float = 0.5
    most: int = 17

    def __post_init__(self) -> None:
        if not isinstance(self.candidates, Candidates):
            object.__setattr__(self, "candidates", _items(self.candidates))
        listed = self.candidates if isinstance(self.candidates, tuple) else (self.candidates,)
        if not listed or not all(isinstance(candidates, Candidates) for candidates in listed):
            msg = f"a grid needs Candidates, one or one a variable; got {self.candidates!r}"
            raise InvalidArgumentError(msg)
        if isinstance(self.combine, str):
            check_choice("combine", self.combine, get_args(Combine))
        else:
            object.__setattr__(self, "combine", tuple(map(_items, _items(self.combine))))
        check_choice("aggregate", self.aggregate, get_args(Aggregate))
        check_number(
            "reference_share",
            self.reference_share,
            "at least 0 and less than 1",
            lambda share: 0.0 <= share < 1.0,
            "take 0 to treat all combinations alike",
        )
        check_integer("most", self.most, minimum=1)

    @classmethod
    def auto(cls) -> Self:
        """The grid that a test takes where no kernels are given."""
        return cls()

    def by_type(self, kinds: Sequence[Sequence[str]], *, invariant: bool = False) -> Self:
        """The same with kernels that suit the variables, where none were given.

        Parameters
        ----------
        kinds : sequence of sequences of {"number", "boolean", "category"}
            For every variable what its columns hold.
        invariant : bool, optional
            See `Candidates.by_type`.

        Returns
        -------
        Grid
        """
        given = self._candidates(len(kinds))
        suited = tuple(
            candidates.by_type(kinds_of_variable, invariant=invariant)
            for candidates, kinds_of_variable in zip(given, kinds, strict=True)
        )
        return self if suited == given else replace(self, candidates=suited)

    def combinations(self, m: int) -> Combinations:
        """The combinations for M variables, not fitted yet.

        Raises
        ------
        InvalidArgumentError
            Candidates for another number of variables, unequally many where they are to be
            matched, or numbers that they do not have.
        """
        listed = [candidates.scaled for candidates in self._candidates(m)]
        starts = accumulate((len(scaled) for scaled in listed), initial=0)
        flat = [(kernel, factor, m) for m, scaled in enumerate(listed) for kernel, factor in scaled]
        kernels, factors, variables = zip(*flat, strict=True)
        offsets = list(starts)[:-1]
        thinned = [candidates._thinned for candidates in self._candidates(m)]
        chosen = (
            tuple(start + k for start, k in zip(offsets, numbers, strict=True))
            for numbers in self._numbers(listed)
        )
        every = Combinations(kernels, variables, tuple(chosen), factors)
        # Kernels that no combination takes need not be fitted.
        some_unused = any(thinned) and self.combine == "auto"
        if not some_unused:
            return every
        columns = tuple(candidates._columns for candidates in self._candidates(m))
        return replace(every, leading=LEADING.get(columns, ())).part(range(len(every)))

    def _candidates(self, m: int) -> tuple[Candidates, ...]:
        if isinstance(self.candidates, Candidates):
            return (self.candidates,) * m
        listed = tuple(self.candidates)
        if len(listed) != m:
            msg = f"a grid needs Candidates for each of {m} variables, or one; got {len(listed)}"
            raise InvalidArgumentError(msg)
        return listed

    def _numbers(self, listed: Sequence[list[tuple[Kernel, float]]]) -> list[tuple[int, ...]]:
        """The candidates of every combination, given kernels and factors of every variable."""
        counts = list(map(len, listed))
        if self.combine == "all":
            return list(product(*map(range, counts)))
        if self.combine == "matched":
            return matched(counts)
        if self.combine == "auto":
            return self._paired(listed) or self._around(listed)
        return checked(tuple(tuple(numbers) for numbers in self.combine), counts)

    def _paired(self, listed: Sequence[list[tuple[Kernel, float]]]) -> list[tuple[int, ...]]:
        """Pairs that are known of two variables whose candidates were not given."""
        columns = [candidates._columns for candidates in self._candidates(len(listed))]
        if len(columns) != 2 or columns[0] is None or columns[1] is None:
            return []
        return [*pairs_of(columns[0], columns[1])][: self.most]

    def _around(self, listed: Sequence[list[tuple[Kernel, float]]]) -> list[tuple[int, ...]]:
        """The reference, and combinations of the other candidates."""
        known = self._candidates(len(listed))
        changes = [[change(*pair) for pair in scaled] for scaled in listed]
        # The candidate that is nearest to the median heuristic.
        reference = [ratios.index(min(ratios)) for ratios in changes]
        apart = [
            [_TRIED[own._columns].index(kernel) for kernel in _ALONE[own._columns]]
            if own._columns
            else []
            for own in known
        ]
        # Where a variable has no other candidate, its reference stands in.
        others = [
            [k for k in range(len(ratios)) if k not in (nearest, *alone)] or [nearest]
            for ratios, nearest, alone in zip(changes, reference, apart, strict=True)
        ]
        counts = list(map(len, others))
        # All combinations, where they and the reference are few enough.
        if math.prod(counts) < self.most:
            numbers = list(product(*map(range, counts)))
        else:
            numbers = balanced(counts, self.most - 1)
        rest = [
            tuple(o[k] for o, k in zip(others, combination, strict=True)) for combination in numbers
        ]
        if all(candidates._thinned for candidates in known) and len(listed) == 2:
            factors = [[factor for _, factor in scaled] for scaled in listed]
            rest = [combination for combination in rest if _at(factors, combination) >= NARROWEST]
        # The reference first, to which a score gives its share of the level.
        return list(dict.fromkeys([tuple(reference), *rest]))


def _at(factors: Sequence[Sequence[float]], numbers: Sequence[int]) -> float:
    """The product of the factors of a combination."""
    return math.prod(
        factors_of_variable[k] for factors_of_variable, k in zip(factors, numbers, strict=True)
    )
