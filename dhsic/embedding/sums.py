"""Sums of a kernel at landmarks over the rows of a sample, without rounding, in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import RunOptions
from dhsic.engine.graphs import graphs_on
from dhsic.engine.plan import PassPlan
from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.engine.session import Session
from dhsic.engine.tiles import ROW_TILE, Tiling, column_sums
from dhsic.errors import DataError
from dhsic.io.open import open_samples
from dhsic.io.variables import Variable
from dhsic.kernels import Combinations, Kernel
from dhsic.landmarks import warn_of_rounding

Vector = NDArray[np.float64]

_GROUP_ROWS = ROW_TILE
# Digits of 32 bits in int64: 2^30 numbers are added before any digit overflows.
_BITS = 32
# 2^(32 * -34) is below the least number, 2^-1074, and 2^(32 * 32) above the largest.
_LOWEST, _HIGHEST = -34, 31
_MASK = (1 << _BITS) - 1

LIMBS = _HIGHEST - _LOWEST + 1


class ExactSums(NamedTuple):
    """Sums of p series of finite numbers, as integers in base 2^32.

    Floating-point addition rounds, so that sums depend on the order of what is added. Here a
    number is cut into digits that are integers, from 2^-1088 below the least to 2^1024 above the
    largest, and integers add up the same in any order: parts that are summed apart and merged give
    the bits of one pass over all.

    Parameters
    ----------
    digits : ndarray of int64, shape (66, p)
        The lowest first, each in 0..2^32 - 1 but the highest, which has the sign.

    Examples
    --------
    >>> one = ExactSums.of(np.array([1e300])).add(ExactSums.of(np.array([1.0])))
    >>> one.add(ExactSums.of(np.array([-1e300]))).values()
    array([1.])
    """

    digits: NDArray[np.int64]

    @classmethod
    def of(cls, *parts: Vector) -> ExactSums:
        """Sums of finite numbers, one of every series at a time, shapes (p,); at most 2^30."""
        digits = np.zeros((LIMBS, len(parts[0])), np.int64)
        for values in parts:
            _add_digits(values, digits)
        return cls(_carried(digits))

    def add(self, other: ExactSums) -> ExactSums:
        """Sums of both."""
        return ExactSums(_carried(self.digits + other.digits))

    def values(self) -> Vector:
        """The nearest numbers but for a rounding or two, shape (p,)."""
        # The highest digit has the sign, since all others are at least 0.
        negative = self.digits[-1] < 0
        # The digits of -1 are as large as digits can be, and borrow from each other: added up as
        # floating-point numbers they would cancel, so that signs are turned first.
        positive = _carried(np.where(negative, -self.digits, self.digits))
        total = np.zeros(positive.shape[1])
        # From the lowest digit up: small ones are added while the sum is small.
        for number, digit in enumerate(positive):
            total += np.ldexp(digit.astype(np.float64), _BITS * (number + _LOWEST))
        return np.where(negative, -total, total)


def _add_digits(values: Vector, digits: NDArray[np.int64]) -> None:
    """Add the digits of numbers, all of the sign of their number, to others."""
    left = np.array(values, np.float64)
    # No number has a digit above its exponent.
    _, exponent = np.frexp(np.abs(left).max(initial=0.0))
    for place in range(min(_HIGHEST, int(exponent) // _BITS), _LOWEST - 1, -1):
        # Powers of two scale without rounding, so each digit is cut off exactly.
        whole = np.trunc(np.ldexp(left, -_BITS * place))
        digits[place - _LOWEST] += whole.astype(np.int64)
        left -= np.ldexp(whole, _BITS * place)
        if not left.any():
            break


def _carried(digits: NDArray[np.int64]) -> NDArray[np.int64]:
    """All digits but the highest in 0..2^32 - 1: equal sums have equal digits."""
    carried = digits.copy()
    for number in range(len(carried) - 1):
        # An arithmetic shift rounds down, so that negative digits borrow from the next.
        carried[number + 1] += carried[number] >> _BITS
        carried[number] &= _MASK
    return carried


@dataclass(frozen=True)
class _EmbeddingPass(Pass[ExactSums]):
    """sum_i k(z_j, x_i), each group of rows by itself and the groups without rounding.

    Parameters
    ----------
    tiling : Tiling
        One kernel and its landmarks.
    """

    tiling: Tiling
    # Blocks begin at whole groups, so that groups are the same however the rows are cut.
    name: str = "kernel sums"
    row_multiple: int = _GROUP_ROWS

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        t = self.tiling
        state, groups = 8 * LIMBS * t.n_landmarks, 8 * t.n_landmarks * (rows // _GROUP_ROWS + 1)
        scratch = t.scratch_bytes + 2 * state + 2 * groups
        return Footprint(t.nbytes, scratch, state)

    def chunk(self, block: RowBlock) -> ExactSums:
        """Sums over one block."""
        sums, buffers = [], self.tiling.buffers()
        for _, rows in self.tiling.row_tiles(block.values, _GROUP_ROWS):
            sums.append(group := np.empty(self.tiling.n_landmarks))
            for at, (tile,) in self.tiling.gram_tiles(rows, buffers):
                group[at] = column_sums(tile)
        # Integers have no infinity, so that exact sums could not hold it.
        if not np.isfinite(sums).all():
            msg = (
                f"the kernel overflows in rows {block.start} to {block.start + block.rows - 1}"
                ": take a bounded kernel, as 'gaussian', or scale the variable"
            )
            raise DataError(msg)
        return ExactSums.of(*sums)

    def combine(self, left: ExactSums, right: ExactSums) -> ExactSums:
        """Add."""
        return left.add(right)


def _pass_at(session: Session, kernel: Kernel, landmarks: Vector) -> _EmbeddingPass:
    return _EmbeddingPass(Tiling.prepare(Combinations.single([kernel]), [landmarks], session.dtype))


def plan_sums(session: Session, kernel: Kernel, landmarks: Vector) -> PassPlan:
    """The plan of `sum_kernel`."""
    return session.plan(_pass_at(session, kernel, landmarks))


def sum_kernel(session: Session, kernel: Kernel, landmarks: Vector) -> ExactSums:
    """Sums of a fitted kernel at landmarks (p, d) over all rows."""
    reduction = _pass_at(session, kernel, landmarks)
    # Known at the landmarks, before the pass whose sums would carry it.
    warn_of_rounding(session.names, (kernel,), reduction.tiling.columns, session.dtype)
    return session.reduce(reduction)


def open_sample(run: RunOptions, x: Any) -> Session:
    """A session over one sample, whose labels have codes that other rows share."""
    with graphs_on(run.client, run.threads):
        sources: Any = open_samples([x], ["x"])
    in_memory = isinstance(sources[0].array, np.ndarray) and not isinstance(x, Variable)
    # Other rows could give the same labels other codes, and embeddings are compared.
    if in_memory and sources[0].categorical and not _keeps_codes(x):
        msg = (
            "labels of an embedding must have codes that other rows share, got text: make x a "
            "categorical column of pandas, or integer codes with kernel 'delta'"
        )
        raise DataError(msg)
    return run.over(sources)


def _keeps_codes(x: Any) -> bool:
    """Whether the codes of labels follow from more than the rows at hand."""
    types: Any = getattr(x, "dtypes", getattr(x, "dtype", None))
    listed = types if hasattr(types, "__iter__") else [types]
    return all(str(dtype) == "category" for dtype in listed)
