"""Compute intervals of measures of dependence, by the jackknife that leaves out blocks of rows.

Busing, Meijer and Van der Leeden (1999, Statistics and Computing 9) give its variance for blocks of
unequal sizes. A measure is a smooth function of means over rows, for which it is consistent (Shao
and Wu 1989). At independence squared HSIC is degenerate, and of the order 1/n: the differences
between blocks are then of that order too, so that intervals shrink to 0 as fast as the measure.
Its law is skew there, and its error grows with it, see `Assessed`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic.engine.passes import rows_by_block
from dhsic.engine.plan import DriverStep
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.kernels import Combinations, Kernel
from dhsic.results import Interval, MinimumEffect
from dhsic.statistics.gram import GramSums, Matrix

Vector = NDArray[np.float64]

# Coverage of 95 % intervals by blocks, n = 2,000: 20 blocks 94 %, 50 blocks 95 %; 100 need twice
# the memory.
MOST_BLOCKS = 50
_BLOCK_ROWS = 4
FEWEST_BLOCKS = 10
LEAVING = "leave blocks out"
_HIDDEN = 0.2  # weight of what chance may have taken off a measure, see `Assessed`
_SMALLEST = 1e-140  # squares of measures beyond it and of their errors underflow
_LEAST = 1e-6  # its square is the least part of a variance that pairs of rows have
_STRIP = 64  # rows of a Gram matrix that are held at a time


class Parts(NamedTuple):
    """What an estimate is made of, so that each part can be put right by itself."""

    value: float
    """The estimate."""
    size: float
    """Squared HSIC, or what else is measured."""
    own: tuple[float, ...] = ()
    """Squared HSIC of either variable with itself, of two variables."""
    divided: bool = False
    """Whether the root of their product divides the size."""
    excess: float | None = None
    """V-statistic less U-statistic, where size and own are U-statistics."""


class Jackknifed(NamedTuple):
    """Measures of all rows, and of those that remain when a block is left out."""

    values: Vector
    """As they are told, shape (C,)."""
    measures: Vector
    """Less their bias: of all rows, and without each of B blocks, shape (1 + B, C)."""
    shares: Vector
    """Of the rows that a block has, shape (B,)."""
    excess: Vector
    """What V-statistics are larger by, shape (C,)."""
    pairs: Vector
    """Variances of what is of pairs of rows, 0 where not known, shape (C,)."""

    @classmethod
    def of(cls, estimates: Sequence[Sequence[Parts]], shares: Vector, n: int) -> Jackknifed:
        """From estimates of all n rows, and without each of the blocks."""
        each = [_measures(list(column), shares, n) for column in zip(*estimates, strict=True)]
        measures, excess, pairs = (np.stack(some, axis=-1) for some in zip(*each, strict=True))
        return cls(np.array([one.value for one in estimates[0]]), measures, shares, excess, pairs)

    @property
    def difference(self) -> Jackknifed:
        """The first of two measures less the second."""
        values, measures = (x[..., :1] - x[..., 1:] for x in (self.values, self.measures))
        return Jackknifed(values, measures, self.shares, np.zeros(1), np.zeros(1))

    def measured(self, c: int = 0, *, unbiased: bool) -> Assessed:
        """A measure less its bias, with its standard error."""
        measures, excess = self.measures[:, c], float(self.excess[c])
        value = float(self.values[c] if unbiased else measures[0])
        size = max(abs(value), excess)
        if size and not _SMALLEST < size < 1.0 / _SMALLEST:
            msg = (
                "an interval needs a measure whose square is a number, got one of about "
                f"{size:.1g}: give the variables other units"
            )
            raise DataError(msg)
        # Busing et al. (1999), equation 4, with h_j = n / m_j.
        h = 1.0 / self.shares
        apart = h * measures[0] - (h - 1.0) * measures[1:] - _corrected(measures, self.shares)
        variance = float((apart**2 / (h - 1.0)).mean())
        # Where not known, half of the variance at independence, and less far from it.
        near = max(excess / (max(value, 0.0) + excess or 1.0), _LEAST)
        pairs = float(self.pairs[c]) or 0.5 * variance * near**2
        # Efron and Stein (1981, Annals of Statistics 9): what is of pairs of rows counts twice.
        error = math.sqrt(max(variance - pairs, 0.5 * variance))
        # A trace is at least the root of that of the square.
        excess = max(excess, math.sqrt(0.5 * pairs))
        return Assessed(value, error, len(self.shares) - 1, excess, pairs)


class Assessed(NamedTuple):
    """A measure of dependence, and what its law is made of.

    Measures are squared norms |m + e|^2 of a mean with an error e. With the covariance S of e and
    its part k in the direction of m, they have the mean |m|^2 + tr(S) and the variance
    2 tr(S^2) + 4 k |m|^2. So standard errors grow with measures: one that is small by chance has a
    small error, too. Each candidate for |m|^2 is therefore compared with the estimate by the
    standard error that it would have itself.
    """

    value: float
    error: float
    """The standard error of the value."""
    degrees: int
    """Degrees of freedom of the error."""
    excess: float
    """tr(S), what the V-statistic exceeds the measure by."""
    pairs: float
    """2 tr(S^2), the variance of what is of pairs of rows."""

    def interval(self, level: float, most: float) -> Interval:
        """The interval of a measure from 0 to `most`."""
        t = float(scipy.special.stdtrit(self.degrees, 0.5 + level / 2.0))
        low, high = self._end(t, most), self._end(-t, most)
        return Interval(low, high, level, self.value, self.error, self.degrees)

    def signed_interval(self, level: float, most: float) -> Interval:
        """The interval of a difference of measures, from -`most` to `most`."""
        half = float(scipy.special.stdtrit(self.degrees, 0.5 + level / 2.0)) * self.error
        low, high = (min(max(self.value + side * half, -most), most) for side in (-1.0, 1.0))
        return Interval(low, high, level, self.value, self.error, self.degrees)

    def effect(self, minimum: float, level: float, quantity: str) -> MinimumEffect:
        """Tests of whether a measure is at most, or at least, a minimum."""
        above, t = self._above(minimum), float(scipy.special.stdtrit(self.degrees, level))
        least = self._end(t, 1.0)
        p, other = (float(scipy.special.stdtr(self.degrees, side * above)) for side in (-1.0, 1.0))
        return MinimumEffect(minimum, quantity, self.value, self.error, p, other, least, level)

    def _end(self, t: float, most: float) -> float:
        """The measure from 0 to `most` that the value lies t standard errors above."""
        low, high = 0.0, min(max(self.value, 0.0) + self.error, most)
        while self.error and high < most and self._above(high) > t:
            low, high = high, min(2.0 * high, most)
        if not self.error or self._above(high) > t:
            return high
        if self._above(low) <= t:
            return low
        return float(scipy.optimize.brentq(lambda x: self._above(x) - t, low, high, xtol=1e-300))

    def _above(self, measure: float) -> float:
        """By how many standard errors the value lies above what a measure lets expect.

        Near independence the value tells little of k. Then k is twice its mean over directions,
        tr(S^2) / tr(S), and at most the root of tr(S^2), which no direction exceeds. Of normal
        variables it is 1.7 (CKA) and 2.7 times (dCor) that mean, of those of the study `coverage`
        0.03 to 6.6 times.
        """
        if not self.error:
            return math.copysign(math.inf, self.value - measure)
        signal = max(self.value, 0.0)
        usual = min(self.pairs / self.excess, math.sqrt(0.5 * self.pairs))
        # It weighs more the farther a candidate is above the value.
        weight = _HIDDEN * (usual + max(measure - signal, 0.0))
        k = (0.25 * max(self.error**2 - self.pairs, 0.0) + weight * usual) / (signal + weight)
        # Jensen and Solomon (1972, JASA 67): a power of a quadratic form is about normal. Its first
        # three cumulants are those of the multiple of a noncentral chi-square law that has this
        # mean and this variance.
        mean = self.excess + measure
        spread = math.sqrt(self.pairs + 4.0 * k * measure) / mean
        ratio = mean / (mean + measure)
        power = 1.0 - 2.0 * ratio * (2.0 - ratio) / 3.0
        root: float = (max(self.value + self.excess, 0.0) / mean) ** power
        return (root - 1.0) / (power * spread) + 0.5 * (1.0 - power) * spread


def _corrected(measures: Vector, shares: Vector) -> Vector:
    """Less the bias of the order 1/n, shape (C,); of measures as `Jackknifed` has them."""
    corrected: Vector = len(shares) * measures[0] - (1.0 - shares) @ measures[1:]
    return corrected


def _measures(estimates: Sequence[Parts], shares: Vector, n: int) -> tuple[Vector, float, float]:
    """A measure as `Jackknifed` has it, its excess and the variance of what is of pairs.

    A quotient of V-statistics of many columns has a bias of several times the measure, of which the
    order 1/n is a part: dividend and divisors are put right one by one.
    """
    whole = estimates[0]
    sizes = np.array([(one.size, *one.own) for one in estimates])
    excess, apart = whole.excess, np.zeros(sizes.shape[1])
    if excess is None:
        apart = sizes[0] - _corrected(sizes, shares)
        excess = float(apart[0])
    parts = sizes - apart / np.array([1.0, *(1.0 - shares)])[:, None]
    # A variable that differs within one block alone has no variance without it.
    own = np.sqrt(np.maximum(np.where(parts > 0.0, parts, sizes)[:, 1:], 0.0)).prod(axis=1)
    roots = np.where(own > 0.0, own, 1.0) if whole.divided else np.ones(len(own))
    # Zhang et al. (2018), section 2.4: the variance at independence, 2 HSIC(x, x) HSIC(y, y) / n^2.
    spread = float(own[0] / roots[0]) / n if whole.own else 0.0
    pairs = 2.0 * spread * spread  # infinite where it overflows, and not an error of Python
    return parts[:, 0] / roots, excess / float(roots[0]), pairs


def block_count(n: int) -> int:
    """Blocks of n rows.

    Raises
    ------
    DataError
        There are too few rows.
    """
    if n < FEWEST_BLOCKS * _BLOCK_ROWS:
        msg = (
            f"an interval needs at least {FEWEST_BLOCKS * _BLOCK_ROWS} rows, got {n}: add rows, or "
            "ask for no interval and no minimum"
        )
        raise DataError(msg)
    return min(MOST_BLOCKS, n // _BLOCK_ROWS)


def jackknife(
    session: Session, measure: Callable[[Session], Sequence[Sequence[Parts]]]
) -> Jackknifed:
    """Measures of all rows, and of all but each of the blocks; the data are read once.

    Parameters
    ----------
    session : Session
        The run, which leaves out blocks.
    measure : callable
        From a run to what C estimates are made of: of all rows, and of those without each block
        where a statistic keeps blocks; else of the rows of the run alone. It takes the same passes
        whichever block is left out.
    """
    deletion = session.deletion
    assert deletion is not None
    estimates = list(zip(*measure(session), strict=True))
    session.step(LEAVING)
    if len(estimates) == 1 and session.is_timed:  # one block of the data has a few of the blocks
        estimates, deletion.sizes[:] = estimates * (1 + deletion.blocks), [1] * deletion.blocks
    elif len(estimates) == 1:
        for other in map(deletion.without, range(deletion.blocks)):
            estimates += zip(*measure(session.leaving_out(other)), strict=True)
    shares = np.array(deletion.sizes) / sum(deletion.sizes)
    return Jackknifed.of(estimates, shares, session.n)


@dataclass(frozen=True)
class GramBlocks:
    """Sums of Gram matrices over pairs of blocks of rows.

    Parameters
    ----------
    kernels : sequence of Kernel
        K fitted ones.
    prepared : sequence of (ndarray, ndarray)
        The rows of the variable of every kernel as its arguments, block after block.
    bounds : ndarray, shape (B + 1,)
        Where the blocks begin.
    chosen : tuple of tuple of int
        The kernels of every product.
    dtype : dtype
        Precision of the tiles.
    """

    kernels: Sequence[Kernel]
    prepared: Sequence[tuple[Matrix, Matrix]]
    bounds: NDArray[np.intp]
    chosen: tuple[tuple[int, ...], ...]
    dtype: np.dtype[Any]

    def __call__(self, blocks: range) -> tuple[Vector, Vector, Vector]:
        """Sums over the rows of some blocks, and the diagonal there.

        Shapes (K, blocks, n), (K, rows), and of squares and products (K + C, blocks, B).
        """
        pairs = [(k, k) for k in range(len(self.kernels))] + list(self.chosen)
        sums = np.zeros((len(self.kernels) + len(pairs), len(blocks), self.bounds[-1]))
        diagonal = []
        for of_block, block in zip(sums.swapaxes(0, 1), blocks, strict=True):
            begin, end = self.bounds[block : block + 2].tolist()
            for start in range(begin, end, _STRIP):
                rows = np.arange(start, min(start + _STRIP, end))
                grams = [
                    kernel.gram(x[rows], columns, self.dtype)
                    for kernel, (x, columns) in zip(self.kernels, self.prepared, strict=True)
                ]
                diagonal.append([gram[rows - start, rows] for gram in grams])
                # In new arrays, since several products may share a kernel.
                joint = (reduce(np.multiply, [grams[k] for k in some]) for some in pairs)
                of_block += [one.sum(axis=0, dtype=np.float64) for one in (*grams, *joint)]
        of_rows, products = np.split(sums, [len(self.kernels)])
        products = np.add.reduceat(products, self.bounds[:-1], axis=2)
        return of_rows, np.concatenate(diagonal, axis=1), products


class DeletedSums(NamedTuple):
    """What `GramBlocks` gives, of all rows."""

    sums: Vector
    diagonal: Vector
    products: Vector
    chosen: tuple[tuple[int, ...], ...]
    bounds: NDArray[np.intp]

    @classmethod
    def of(cls, session: Session, combinations: Combinations) -> DeletedSums:
        """Those of the rows of a run, in blocks at random."""
        assert session.deletion is not None
        blocks = session.deletion.blocks
        order, bounds = rows_by_block(session.seed, session.n, blocks)
        session.deletion.sizes[:] = np.diff(bounds).tolist()
        whole = session.leaving_out(None)
        whole.step("Gram sums")
        rows = whole.take([order] * len(session.sources))
        kernels, chosen, dtype = combinations.kernels, combinations.chosen, session.dtype
        pairs = zip(kernels, combinations.spread(rows), strict=True)
        prepared = [kernel.rows_and_columns(x, dtype) for kernel, x in pairs]
        made = GramBlocks(kernels, prepared, bounds, chosen, dtype)
        parts = zip(*whole.map("Gram sums", made, blocks), strict=True)
        sums, diagonal, products = (np.concatenate(some, axis=1) for some in parts)
        return cls(sums, diagonal, products, chosen, bounds)

    @staticmethod
    def step(session: Session, combinations: Combinations) -> DriverStep:
        """The bytes of `of`."""
        assert session.deletion is not None
        n, blocks, kernels = session.n, session.deletion.blocks, combinations.guessed(session.dims)
        tiles = sum(2 + kernel.work_tiles for kernel in kernels.kernels) + len(combinations)
        strips = session.runtime.worker_threads * tiles * min(n // blocks + 1, _STRIP) * n
        rows = 3 * sum(session.dims) + 2 * blocks * len(kernels.kernels)
        return DriverStep("Gram sums", 8 * (n * rows + strips))

    def without(self, number: int | None) -> GramSums:
        """Those of all rows, or of the rows outside of a block."""
        # Gram matrices are symmetric: sums over rows are those over columns.
        sums, products = self.sums.sum(axis=1), self.products.sum(axis=(1, 2))
        rows = np.arange(sums.shape[1])
        if number is not None:
            sums = sums - self.sums[:, number]
            # Pairs with one row in the block are in its row and its column of the blocks.
            within = self.products[:, number, number]
            products = products - 2.0 * self.products[:, number].sum(axis=1) + within
            rows = np.delete(rows, slice(*self.bounds[number : number + 2]))
        k = len(sums)
        of_rows = sums[:, rows], self.diagonal[:, rows]
        return GramSums(*of_rows, products[:k], products[k:], self.chosen)
