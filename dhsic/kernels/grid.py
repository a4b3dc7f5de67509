"""List the kernels that a test tries, one combination or a grid, and compute their shared tiles.

The default kernels, and their pairs for two variables, were chosen by power on public scenarios,
which `python -m benchmarks run leaderboard` measures; the leading pairs by power on columns of real
tables, `python -m benchmarks run power`. Tiles of several kernels are computed at the same rows,
where a narrower kernel is often a power of a wider one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import combinations, product
from numbers import Real
from typing import Any, Literal, NamedTuple, Self, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic._validation import READERS, check_choice, check_integer, check_number
from dhsic.errors import InvalidArgumentError
from dhsic.kernels.base import Delta, Kernel, Matrix, Product
from dhsic.kernels.wrap import (
    Columns,
    Found,
    OnColumns,
    Ranked,
    of_present,
    parse,
    rows_beside,
    with_missing,
)

Aggregate = Literal["soft", "max", "min-p"]
Combine = Literal["auto", "all", "matched"]
Value = TypeVar("Value")
_Candidate: TypeAlias = tuple[Kernel, float]

Tile = NDArray[Any]
Values: TypeAlias = Sequence[NDArray[Any]]

_MOST_SQUARINGS = 6  # in float32 errors up to 2e-5; a tile that is computed has up to 8e-6

SMOOTH = "scores(gaussian)"
"""Kernel of the reference of variables of numbers."""
TREND, TREND_OF_MANY = "ranks(anderson-darling)", "scores(linear)"
"""Kernels of the trends of a number, and of several."""
_EACH = "columns(laplacian)"
_FACTORS = (1.0, 0.125, 0.5, 4.0)
# |log factor| is below 14 for all factors that are allowed, so that this is larger.
_NO_LENGTH = 1e3
_NARROWEST = 1 / 32  # product of the factors of two variables of which no pairs are known

# Kernels, their factors, and what tries them: a variable of one numeric column, or of many others.
# Those with a star are tried in the pairs below alone.
_STUDIED = {
    "smooth": (SMOOTH, 1.0, "one many"),
    "middle": (SMOOTH, 1 / 2, "many"),
    "wide": (SMOOTH, 2.0, "many"),
    "widest": (SMOOTH, 4.0, "many*"),
    "fine": ("gaussian", 1 / 4, "one many"),
    "finer": ("gaussian", 1 / 8, "many"),
    "finest": ("gaussian", 1 / 32, "one"),
    "ranks": ("ranks(gaussian)", 1 / 8, "one"),
    "coarse-ranks": ("ranks(gaussian)", 1 / 4, "one*"),
    "each": (_EACH, 1 / 8, "many"),
    "trend": (TREND, 1.0, "one"),
    "spreads": ("spread(linear)", 1.0, "many"),
    "spread": ("spread(anderson-darling)", 1.0, "one*"),
    "distance": ("distance", 1.0, "one*"),
    "linear": (TREND_OF_MANY, 1.0, "one*"),
}
# Pairs of them that two variables try together; the first is the reference.
_PAIRS = {
    ("one", "one"): "smooth+smooth trend+trend distance+distance fine+fine fine+ranks ranks+fine "
    "fine+trend trend+fine trend+ranks ranks+trend trend+finest finest+trend trend+smooth "
    "smooth+trend spread+spread",
    ("many", "many"): "smooth+smooth widest+widest middle+middle spreads+spreads middle+each "
    "each+middle smooth+spreads spreads+smooth",
    ("many", "one"): "smooth+trend widest+linear fine+smooth middle+distance spreads+distance "
    "finer+distance each+distance smooth+coarse-ranks middle+coarse-ranks",
    ("one", "many"): "trend+smooth linear+widest smooth+fine distance+middle distance+spreads "
    "distance+finer distance+each coarse-ranks+smooth coarse-ranks+middle",
}
# Places of the pairs of two numbers that have the share of the reference: trend with trend, and
# distances with distances. Over 20 pairs of columns of real tables they find 54.6 %; scores in the
# lead find 52.7, trend 53.7, distances 54.9, all three 53.8, and distance covariance 53.8. With
# weights of 0.3 each they find 55.2 %, and 5 points less of squares, in place of 2.
_LEADING = (1, 2)


def _tried(columns: str) -> list[str]:
    """Names of the candidates of a variable of one numeric column, or of others."""
    return [name for name, (*_, of) in _STUDIED.items() if columns in of.replace("*", "").split()]


@lru_cache
def _studied(columns: str) -> tuple[_Candidate, ...]:
    """The candidates themselves; translation-invariant ones for "invariant"."""
    if columns == "invariant":
        return *((parse("gaussian"), factor) for factor in _FACTORS), (parse(_EACH), 1.0)
    return tuple(
        (parse(kernel), factor) for kernel, factor, _ in map(_STUDIED.__getitem__, _tried(columns))
    )


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
    return Columns(tuple(smooth._given[0] if kind == "number" else Delta() for kind in kinds))


@dataclass(frozen=True)
class Candidates:
    """Kernels to try on one variable.

    Parameters
    ----------
    kernels : str, Kernel or a sequence of them, optional
        Families, such as "gaussian" and "laplacian". Bandwidths that are not given follow the
        median heuristic. If neither kernels nor factors are given, a variable of several columns
        has Gaussian kernels of the normal scores of the columns, with four bandwidths, for smooth
        dependence in any units; two narrow Gaussian kernels of the values, for fast dependence; the
        mean over columns of narrow Laplacian kernels, for dependence on one of many columns; and a
        linear kernel of the spreads, see `Ranked`. A variable of a single number has a Gaussian
        kernel of its scores, two narrow kernels of its values, two narrow kernels of its ranks, and
        for trends the Anderson-Darling kernel of its ranks, the distance kernel and a linear kernel
        of its scores, and the Anderson-Darling kernel of its spread. Some of these are used only in
        pairs of variables without given candidates.
    factors : sequence of float, or one such sequence for each family, optional
        Multiples of the length scale of a kernel: 0.5 halves the length. The default is (1, 1/8,
        1/2, 4). Kernels without a length scale, such as "delta", are tried once.

    Raises
    ------
    InvalidArgumentError
        There is no kernel, a kernel is repeated, or a name or a factor is not valid.

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

    kernels: str | Kernel | Sequence[str | Kernel] | None = field(default=None, compare=False)
    factors: Sequence[float] | Sequence[Sequence[float]] | None = field(default=None, compare=False)
    scaled: tuple[_Candidate, ...] = field(init=False, repr=False)
    """Every kernel with every factor that makes a difference to it."""
    # Which candidates of the table they are where nobody asked for others, "" where of none.
    _usual: str | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.kernels is None and self.factors is None:
            self._take(_studied("many"), "many")
            return
        families: Any = "gaussian" if self.kernels is None else self.kernels
        given = (families,) if isinstance(families, str | Kernel) else _items(families)
        kernels = tuple(parse(k) if isinstance(k, str) else k for k in given)
        different = {kernel for kernel in kernels if isinstance(kernel, Kernel)}
        if not 0 < len(kernels) == len(different):
            msg = (
                "candidates must be different kernels or their names, one or a sequence of them; "
                f"got {self.kernels!r}"
            )
            raise InvalidArgumentError(msg)
        each = zip(kernels, self._each(len(kernels)), strict=True)
        scaled = (
            (kernel, factor)
            for kernel, factors in each
            for factor in (factors if kernel.has_length else (1.0,))
        )
        self._take(tuple(scaled), None)

    def _take(self, scaled: tuple[_Candidate, ...], usual: str | None) -> None:
        object.__setattr__(self, "scaled", scaled)
        object.__setattr__(self, "_usual", usual)

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
        if self.kernels is not None:
            return self
        # By kernels of numbers; several become one kernel where all columns hold categories.
        suited = ((by_type(kinds, kernel), factor) for kernel, factor in self.scaled)
        scaled = tuple(dict.fromkeys((k, factor if k.has_length else 1.0) for k, factor in suited))
        usual = self._usual or ""
        if usual and invariant:
            scaled, usual = _studied("invariant"), ""
        elif usual and tuple(kinds) == ("number",):
            scaled, usual = _studied("one"), "one"
        elif scaled == self.scaled:
            return self
        found = Candidates(tuple(dict.fromkeys(kernel for kernel, _ in scaled)))
        found._take(scaled, usual if len(scaled) == len(self.scaled) or usual == "one" else "")
        return found

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


def _items(given: Any) -> tuple[Any, ...]:
    """Items of a sequence; none of a set, a mapping or a value that is no sequence."""
    if isinstance(given, np.ndarray):
        given = given.tolist()
    # The order of a set differs from process to process, and with it which kernel ties decide for.
    return tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()


def _are_factors(given: tuple[Any, ...]) -> bool:
    real = [float(f) for f in given if not isinstance(f, bool) and isinstance(f, Real)]
    return 0 < len(given) == len({factor for factor in real if 1e-6 <= factor <= 1e6})


@dataclass(frozen=True)
class Grid:
    """Kernels to try on the variables of a test, whose p-value accounts for the choice.

    One bandwidth detects dependence only at its own scale. A grid takes several kernels of every
    variable, computes the statistics of their combinations, for the data and for shared replicates,
    in one run, and compares a score of all statistics of the data with the same score of every
    replicate. If the replicates are exchangeable with the data, as permutations are, the level is
    exact for any grid.

    Among many combinations the median heuristic, which is best for smooth dependence, loses power.
    So the reference, the combination of the kernels nearest to the median heuristic, has its own
    share of the weight, and all other combinations share the rest. A test reports the estimate of
    the reference. By default, for a variable of several columns and a number, the reference kernel
    of the number is the Anderson-Darling kernel of its ranks.

    Estimators of all pairs of rows and of principal features leave out combinations with a kernel
    that is 0 between nearly all rows, such as a narrow kernel of many columns; the result counts
    these combinations. The statistic of such a kernel depends on few near pairs of rows, and its
    replicates have heavy tails.

    Parameters
    ----------
    candidates : Candidates or a sequence of Candidates, optional
        Candidates for all variables, or for each variable.
    combine : {"auto", "all", "matched"} or a sequence of tuples of int, optional
        "all" takes every combination. "matched" takes the first candidates of all variables, the
        second candidates of all, and so on. A sequence lists combinations by the number of a
        candidate for each variable. "auto" takes the reference and every combination of the other
        candidates, if there are at most `most`; otherwise `most` combinations, in which the
        candidates of a variable are equally frequent. Two variables without given candidates have 8
        to 15 pairs, chosen by power: trends of a number with kernels of the other variable, kernels
        of the same length, and kernels of the spread, which detect circles and scales that depend
        on the other variable.
    aggregate : {"soft", "max", "min-p"}, optional
        "soft" standardises statistics by the mean and standard deviation of their replicates and
        takes the soft maximum [3], log sum_c w_c exp(2 z_c), which adds the evidence of several
        combinations; "max" takes the largest standardised statistic; "min-p" takes the smallest
        p-value.
    reference_share : float, optional
        Share of the reference in the weight, or in the level with "max" and "min-p", at least 0 and
        less than 1; 0 treats all combinations alike. The reference has the kernels of the first
        family whose factor is nearest to 1; a kernel of ranks without factors counts as 1. For two
        numbers without given kernels and "soft", two leading pairs take the share of the reference:
        trend with trend 3/5, and distances with distances 2/5. With "max" and "min-p" the other
        combinations need about 1 / (share level) replicates to reject alone, with their share: 40
        at 5 %.
    most : int, optional
        The largest number of combinations that "auto" takes.

    Raises
    ------
    InvalidArgumentError
        A candidate is not valid, a choice is unknown, or a number is out of its range.

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
        """Return the default grid of a test."""
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
        pairs = zip(given, kinds, strict=True)
        suited = tuple(one.by_type(columns, invariant=invariant) for one, columns in pairs)
        return self if suited == given else replace(self, candidates=suited)

    def combinations(self, m: int) -> Combinations:
        """The combinations for M variables, not fitted yet.

        Raises
        ------
        InvalidArgumentError
            Candidates for another number of variables, unequally many where they are to be
            matched, or numbers that they do not have.
        """
        known = self._candidates(m)
        flat = [(*pair, variable) for variable, one in enumerate(known) for pair in one.scaled]
        kernels, factors, variables = zip(*flat, strict=True)
        chosen = (
            tuple(variables.index(variable) + k for variable, k in enumerate(numbers))
            for numbers in self._numbers(known)
        )
        every = Combinations(kernels, variables, tuple(chosen), factors)
        # Kernels that no combination takes need not be fitted.
        some_unused = self.combine == "auto" and any(one._usual is not None for one in known)
        if not some_unused:
            return every
        leading = _LEADING if [one._usual for one in known] == ["one", "one"] else ()
        return replace(every, leading=leading).part(range(len(every)))

    def _candidates(self, m: int) -> tuple[Candidates, ...]:
        if isinstance(self.candidates, Candidates):
            return (self.candidates,) * m
        listed = tuple(self.candidates)
        if len(listed) != m:
            msg = f"a grid needs Candidates for each of {m} variables, or one; got {len(listed)}"
            raise InvalidArgumentError(msg)
        return listed

    def _numbers(self, known: Sequence[Candidates]) -> Sequence[tuple[int, ...]]:
        """Which candidates of the variables every combination has."""
        counts = [len(one.scaled) for one in known]
        if self.combine == "all":
            return list(product(*map(range, counts)))
        if self.combine == "matched":
            g = max(counts)
            if any(count not in (1, g) for count in counts):
                msg = (
                    "matched combinations need equally many candidates of every variable, or one; "
                    f"got {', '.join(map(str, counts))}: take combine='all'"
                )
                raise InvalidArgumentError(msg)
            # A variable with a single candidate goes with all of the others'.
            return [tuple(min(k, count - 1) for count in counts) for k in range(g)]
        if self.combine != "auto":
            return _checked(self.combine, counts)
        usual = [one._usual for one in known]
        # Pairs that are known of two variables whose candidates were not given.
        if len(usual) == 2 and usual[0] and usual[1]:
            tried, other = map(_tried, (usual[0], usual[1]))
            pairs = [pair.split("+") for pair in _PAIRS[usual[0], usual[1]].split()]
            return [(tried.index(a), other.index(b)) for a, b in pairs][: self.most]
        return self._around(known)

    def _around(self, known: Sequence[Candidates]) -> list[tuple[int, ...]]:
        """The reference, and combinations of the other candidates."""
        reference, others = [], []
        for own in known:
            ratios = [_change(*pair) for pair in own.scaled]
            # The candidate that is nearest to the median heuristic.
            nearest = ratios.index(min(ratios))
            names = _tried(own._usual) if own._usual else []
            alone = [k for k, name in enumerate(names) if "*" in _STUDIED[name][2]]
            reference.append(nearest)
            # Where a variable has no other candidate, its reference stands in.
            rest = [k for k in range(len(ratios)) if k not in (nearest, *alone)]
            others.append(rest or [nearest])
        counts = list(map(len, others))
        # All combinations, where they and the reference are few enough.
        if math.prod(counts) < self.most:
            found = list(product(*others))
        else:
            numbers = _balanced(counts, self.most - 1)
            found = [tuple(o[k] for o, k in zip(others, one, strict=True)) for one in numbers]
        if all(one._usual is not None for one in known) and len(known) == 2:
            first, second = ([factor for _, factor in one.scaled] for one in known)
            found = [pair for pair in found if first[pair[0]] * second[pair[1]] >= _NARROWEST]
        # The reference first, to which a score gives its share of the level.
        return list(dict.fromkeys([tuple(reference), *found]))


def _balanced(counts: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """So many combinations, in which every candidate of a variable is as often as the others."""
    if len(counts) == 2:
        # All pairs in order, of which those from first to last meet all candidates.
        rows = [(a, b) for b in range(counts[1]) for a in range(counts[0])]
        count = min(most, len(rows))
        return [rows[len(rows) * k // count] for k in range(count)]
    rng = np.random.default_rng(0)  # the same in every run
    columns = (rng.permutation(np.resize(np.arange(count), most)) for count in counts)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _checked(numbers: Sequence[Sequence[int]], counts: Sequence[int]) -> list[tuple[int, ...]]:
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

    @cached_property
    def shared(self) -> SharedTiles:
        """How the tiles of the kernels come from each other."""
        return SharedTiles(self.kernels, self.variables)

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

    def used(self, values: Sequence[Value], numbers: Iterable[int]) -> list[Value]:
        """Those of K values that belong to the kernels of some of the combinations."""
        return [values[k] for k in sorted({k for c in numbers for k in self.chosen[c]})]

    def fitted(self, kernels: Iterable[Kernel]) -> Self:
        """With kernels that were fitted, and are widened here."""
        pairs = zip(kernels, self.factors, strict=True)
        widened = (k if factor == 1.0 else k.widened(factor) for k, factor in pairs)
        return replace(self, kernels=tuple(widened))

    def guessed(self, dims: Sequence[int]) -> Self:
        """As if fitted to variables of so many columns, for plans: costs depend on no value."""
        guesses = map(_guessed, self.kernels, self.spread(dims), self.factors)
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
        return min(range(len(self)), key=lambda c: sum(self.of(self._changes, c)))

    @cached_property
    def _changes(self) -> list[float]:
        return [_change(*pair) for pair in zip(self.kernels, self.factors, strict=True)]

    def kernels_of(self, combination: int) -> tuple[Kernel, ...]:
        """The kernels of a combination, one a variable."""
        return tuple(self.of(self.kernels, combination))


@lru_cache(maxsize=1024)
def _guessed(kernel: Kernel, d: int, factor: float) -> Kernel:
    """Fitted to three rows of so many columns and widened; plans of one test ask many times."""
    if isinstance(kernel, OnColumns) and not kernel.scaled:
        # Thousands of columns have the same kernel, each on its own.
        return kernel._of([_guessed(kernel.kernel, len(kernel.at), factor)])
    if isinstance(kernel, Columns) and kernel.alike:
        d = 1  # what is fitted to one column stands for all
    # Within 0 and 1, where some kernels are; of two rows the spreads would be the same.
    rows = np.repeat([[0.25], [0.5], [0.75]], d, axis=1)
    return kernel.fit(rows).widened(factor)


def _change(kernel: Kernel, factor: float) -> float:
    """How far a candidate is from the median heuristic; the farthest are those without a length.

    Ranks have no heuristic to follow: such a kernel is as it should be.
    """
    if kernel.has_length:
        return abs(math.log(factor))
    return 0.0 if isinstance(of_present(kernel), Ranked) else _NO_LENGTH


class Power(NamedTuple):
    """A tile that is another one squared some times."""

    k: int  # the number of its kernel
    source: int  # the number of the wider kernel
    squarings: int  # 1 or more

    def of(self, wide: Tile, out: Tile | None = None) -> Tile:
        """The tile, from the other one."""
        out = np.square(wide, out=out)
        for _ in range(self.squarings - 1):
            np.square(out, out=out)
        return out


@dataclass(frozen=True)
class SharedTiles:
    """Tiles of K kernels on M variables, of which some are powers of others.

    exp(-r) squared is exp(-2 r): halving the length of a Gaussian kernel is squaring its tile
    twice. So the widest of such kernels is computed, and the others follow from one another.
    Every squaring doubles the relative error that the exponential leaves; the error of the
    distances, which is larger in many columns, is the same for tiles that are computed.

    Parameters
    ----------
    kernels : tuple of Kernel
        All K of them, fitted.
    variables : tuple of int
        The number of the variable that each is for, shape (K,).

    Examples
    --------
    >>> from dhsic.kernels import Gaussian
    >>> shared = SharedTiles((Gaussian(gamma=4.0), Gaussian(gamma=1.0)), (0, 0))
    >>> shared.roots, shared.powers
    ((1,), (Power(k=0, source=1, squarings=2),))
    """

    kernels: tuple[Kernel, ...]
    variables: tuple[int, ...]

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """Numbers of the kernels whose tiles are computed by themselves, ascending."""
        powers = {power.k for power in self.powers}
        return tuple(k for k in range(len(self.kernels)) if k not in powers)

    @cached_property
    def powers(self) -> tuple[Power, ...]:
        """The other kernels, each after the one that it follows from."""
        families: dict[Hashable, list[tuple[float, int]]] = {}
        for k, (kernel, m) in enumerate(zip(self.kernels, self.variables, strict=True)):
            base, exponent = kernel.as_power()
            families.setdefault((m, base), []).append((exponent, k))
        powers = []
        for some in families.values():
            depths: dict[int, int] = {}
            for exponent, k in sorted(some):  # the widest first
                wider = ((_doublings(exponent / wide), j) for wide, j in some if j in depths)
                # The nearest of the wider ones takes the fewest squarings, and loses the fewest
                # digits.
                squarings, source = min((one for one in wider if one[0]), default=(0, k))
                depth = depths.get(source, 0) + squarings
                # A chain that got too long begins anew, with a tile that is computed.
                depths[k] = depth if depth <= _MOST_SQUARINGS else 0
                if depths[k]:
                    powers.append(Power(k, source, squarings))
        return tuple(powers)

    @cached_property
    def work_tiles(self) -> int:
        """How many scratch tiles the kernels need."""
        return max(self.kernels[k].work_tiles for k in self.roots)

    def width(self, dims: Sequence[int]) -> int:
        """Columns of all prepared arrays for variables of so many columns each."""
        return sum(self.kernels[k].width(dims[self.variables[k]]) for k in self.roots)

    def rows_and_columns(
        self, values: Values, dtype: DTypeLike
    ) -> tuple[list[Matrix], list[Matrix]]:
        """Prepare rows (b, d_m) of every variable as both arguments of `tiles`, for every root."""
        found: list[Found] = [{} for _ in values]
        each = [(self.kernels[k], self.variables[k]) for k in self.roots]
        rows = [rows_beside(kernel, values[m], dtype, found[m]) for kernel, m in each]
        return rows, [kernel.as_columns(x) for (kernel, _), x in zip(each, rows, strict=True)]

    def tiles(
        self, rows: Sequence[Matrix], columns: Sequence[Matrix], dtype: DTypeLike
    ) -> list[Tile]:
        """All K tiles (b, p), in new arrays.

        Parameters
        ----------
        rows, columns : sequence of ndarray, shapes (b, w_k) and (p, w_k)
            One for every root, from `rows_and_columns`, or slices of them along axis 0.
        dtype : dtype
            That of the rows.
        """
        shape = len(rows[0]), len(columns[0])
        tiles = list(np.empty((len(self.kernels), *shape), dtype))
        work = np.empty((self.work_tiles, *shape), dtype)
        # Roots first, since the others are squares of them.
        for k, x, z in zip(self.roots, rows, columns, strict=True):
            self.kernels[k].tile(x, z, tiles[k], work)
        for power in self.powers:
            power.of(tiles[power.source], tiles[power.k])
        return tiles


def _doublings(ratio: float) -> int:
    """The whole number of times that 1 is doubled to give a ratio; 0 where there is none."""
    doublings = math.log2(ratio)
    near = round(doublings)
    return near if near > 0 and math.isclose(doublings, near, rel_tol=1e-12) else 0


_GRID = "grid"
_FIELDS = re.compile(r",(?=(?:kernels|factors|combine|aggregate|reference_share|most)=)")
_LIST = re.compile(r"\s*\|\s*")
_READ: dict[str, Callable[[str], Any]] = {
    "kernels": lambda value: tuple(_LIST.split(value)),
    "factors": lambda value: tuple(map(float, _LIST.split(value))),
    "reference_share": float,
    "most": int,
}


def read_grid(given: Any, *, of_one: bool = False) -> Any:
    """Make candidates or a grid of the text of several kernels; anything else stays as it is.

    Parameters
    ----------
    given : object
        As given for `kernels`. Kernels to try stand between bars, as in "gaussian|laplacian", and
        fields of `Candidates` and `Grid` behind "grid:", as in
        "grid:gaussian|laplacian,factors=0.5|1|2,combine=all".
    of_one : bool, optional
        Whether it is given for one variable of several.

    Returns
    -------
    object

    Raises
    ------
    InvalidArgumentError
        A kernel, a field or a value is none.

    Examples
    --------
    >>> len(read_grid("gaussian|laplacian").candidates.scaled)
    8
    >>> read_grid("grid:gaussian,factors=0.5|2,aggregate=max").aggregate
    'max'
    """
    if isinstance(given, list | tuple):
        return [read_grid(one, of_one=True) for one in given]
    if not isinstance(given, str) or ("|" not in given and not is_grid(given)):
        return given
    if of_one:
        return Candidates(tuple(_LIST.split(given)))
    fields = grid_fields(given if is_grid(given) else f"{_GRID}:{given}")
    return Grid(Candidates(fields.pop("kernels", None), fields.pop("factors", None)), **fields)


def is_grid(text: str) -> bool:
    """Whether a text is that of a grid."""
    return text.partition(":")[0].strip() == _GRID


def grid_fields(text: str) -> dict[str, Any]:
    """The fields of candidates and grid that a text of a grid has.

    Raises
    ------
    InvalidArgumentError
        A field is unknown or given twice, or a value is no number where it must be one.

    Examples
    --------
    >>> grid_fields("grid:gaussian|rq:2,factors=0.5|1")
    {'kernels': ('gaussian', 'rq:2'), 'factors': (0.5, 1.0)}
    """
    if not (fields := text.partition(":")[2].strip()):
        return {}
    first, *parts = _FIELDS.split(fields)
    if not _FIELDS.match(f",{first}"):
        first = f"kernels={first}"
    given: dict[str, Any] = {}
    for name, _, value in (part.partition("=") for part in (first, *parts)):
        if name in given:
            msg = f"a grid must have each field once; got {name!r} twice: drop one"
            raise InvalidArgumentError(msg)
        try:
            given[name] = _READ.get(name, str)(value.strip())
        except ValueError as error:
            msg = f"{name} of a grid must be numbers, as factors=0.5|1|2; got {value!r}"
            raise InvalidArgumentError(msg) from error
    return given


READERS["kernels"] = read_grid
