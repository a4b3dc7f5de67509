"""Variables whose rows are held in memory, since they are needed in any order, and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.passes import RowWeights, Source, check_exact, kinds_of, read_whole
from dhsic.engine.runtime import GraphPlace, graph_place, graphs_at
from dhsic.engine.units import format_bytes
from dhsic.errors import DataError, MemoryBudgetError
from dhsic.io.variables import Mapped, Rest, Variable

_SHARE = 4  # of the memory
_FEWEST = 2.0  # rows, that weights are worth
_ROUNDED = 16 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class HeldSource(Mapped):
    """The rows of another variable, which are read when the first of them is asked for.

    Parameters
    ----------
    strata : ndarray of int, shape (n,), optional
        The stratum of every row, from 0 on: numbers are then about the mean of their stratum, in
        its standard deviations.
    at : mapping, optional
        Where a graph is computed; as it is told here where not given.
    """

    strata: NDArray[np.intp] | None = None
    at: GraphPlace = field(default_factory=graph_place, compare=False, repr=False)

    place = "memory"
    chunk_rows = None
    columns = None
    take_bytes = 0

    def decode_bytes(self, rows: int) -> int:
        """Nothing is decoded."""
        del rows
        return 0

    @cached_property
    def array(self) -> NDArray[Any]:
        """All rows, shape (n, d)."""
        with graphs_at(self.at):
            values = read_whole(self.inputs[0])
        if self.strata is None:
            return values
        numbers = [kind == "number" for kind in kinds_of(self)]
        check_exact(f"variable {self.name!r}", values)
        values = values.astype(np.float64)
        values[:, numbers] = within_strata(values[:, numbers], self.strata)
        return values

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start..stop-1."""
        return self.array[start:stop]

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Rows by number."""
        return self.array[rows]


def held_in_memory(source: Source, strata: NDArray[np.intp] | None = None) -> HeldSource:
    """A variable whose rows are held in memory once they are read, about their strata if given."""
    doubles = 8 * source.shape[1]
    row_bytes = doubles if strata is not None else min(source.row_bytes, doubles)
    every = Rest(np.empty(0, np.intp))
    return HeldSource(source.name, (source,), source.shape, row_bytes, None, every, strata)


def within_strata(values: NDArray[np.float64], strata: NDArray[np.intp]) -> NDArray[np.float64]:
    """Columns about their means in every stratum, in units of their standard deviations there.

    To permute rows within strata leaves both as they are. Differences between strata would hide a
    dependence within them, and more so where it points the other way. Two rows in their own
    standard deviation would keep nothing of their difference but its sign: pairs share one.

    Parameters
    ----------
    values : ndarray, shape (n, d)
        Numbers; those that are not finite stay, and count for nothing.
    strata : ndarray of int, shape (n,)
        The stratum of every row, from 0 on.

    Examples
    --------
    >>> strata = np.array([0, 0, 0, 1, 1, 1])
    >>> within_strata(np.array([[1.0, 2.0, 3.0, 10.0, 30.0, 50.0]]).T, strata).ravel().round(2)
    array([-1.22,  0.  ,  1.22, -1.22,  0.  ,  1.22])
    """
    scaled, rows = np.empty_like(values), np.bincount(strata)
    shared = np.where(rows == 2, len(rows), np.arange(len(rows)))[strata]
    for column, given in enumerate(values.T):
        finite = np.isfinite(given)
        counts = np.maximum(np.bincount(strata, finite), 1)
        x = np.where(finite, given, 0.0)
        # In units of the largest of their label, whose squares are numbers of float64 too; a power
        # of two changes no digit.
        largest = np.zeros(shared.max() + 1)
        np.maximum.at(largest, shared, np.abs(x))
        x = np.ldexp(x, -np.frexp(largest)[1][shared])
        about = x - (np.bincount(strata, x) / counts)[strata]
        # A sum of many rows is rounded; that of what is left by its mean hardly.
        left = np.bincount(strata, np.where(finite, about, 0.0)) / counts
        about = about - left[strata]
        # Rounding errors of a constant are no spread.
        least = _ROUNDED * np.bincount(strata, np.abs(x)) / counts
        about = np.where((_spreads(about, finite, strata) > least)[strata], about, 0.0)
        spread = _spreads(about, finite, shared)
        scale = np.where(spread > 0.0, spread, np.inf)[shared]
        # Missing values stay as they are, and are refused when rows are read.
        scaled[:, column] = np.where(finite, about / scale, given)
    return scaled


def _spreads(
    about: NDArray[np.float64], finite: NDArray[np.bool_], labels: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Root mean squares of the finite of some numbers, of every label."""
    squares = np.bincount(labels, np.where(finite, about, 0.0) ** 2)
    return np.asarray(np.sqrt(squares / np.maximum(np.bincount(labels, finite), 1)), np.float64)


def held_sources(
    sources: Sequence[Source], memory: int, strata: NDArray[np.intp] | None
) -> list[Source]:
    """The variables, those that are not in memory held there, and all of them within strata.

    Raises
    ------
    MemoryBudgetError
        They take more than a quarter of the memory.
    """
    held: list[Source] = [
        source if source.place == "memory" and strata is None else held_in_memory(source, strata)
        for source in sources
    ]
    # The rest of the memory is for tiles and sums of the passes.
    needed = sum(s.row_bytes * s.shape[0] for s in held if isinstance(s, HeldSource))
    what = "rows that move within strata or as groups are"
    _check_quarter(what, needed, memory, ", or test fewer rows or columns")
    return held


def _check_quarter(what: str, needed: int, memory: int, otherwise: str = "") -> None:
    if _SHARE * needed > memory:
        told = f"{what} held in memory, in a quarter of it, and take {format_bytes(needed)}"
        msg = f"{told}. Allow memory={_SHARE * needed} or more{otherwise}"
        raise MemoryBudgetError(msg)


def read_weights(source: Source, memory: int) -> RowWeights:
    """Weights of all rows, relative to their mean, held in memory.

    Parameters
    ----------
    source : Source
        Numbers, a column of them.
    memory : int
        Bytes that are allowed.

    Raises
    ------
    DataError
        They are no numbers, several columns, or one is not positive and finite.
    MemoryBudgetError
        They take more than a quarter of the memory.
    """
    n, columns = source.shape
    if columns != 1 or kinds_of(source) != ("number",):
        held = f"{columns} columns" if columns != 1 else f"a column of kind {kinds_of(source)[0]!r}"
        msg = f"weights must be one column of numbers, got {held}: give a number for each row"
        raise DataError(msg)
    _check_quarter("weights are", 8 * n, memory)
    values = read_whole(source).astype(np.float64).ravel()
    wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0.0)))
    if len(wrong):
        got = f"{values[wrong[0]]} in row {wrong[0]} and {len(wrong):,} such in all"
        remedy = "leave out such rows, as by missing='drop'"
        msg = f"weights must be positive finite numbers, got {got}: {remedy}"
        raise DataError(msg)
    # About 1, so that neither sums nor squares overflow, whatever their unit.
    values /= values.max()
    values /= values.mean()
    squares, cubes = (float((values**power).mean()) for power in (2, 3))
    # Kish's number of rows that tell as much, (sum w)^2 / sum w^2.
    if n / squares < _FEWEST:
        what = f"one of {n:,} has nearly all of them, worth {n / squares:.3g} rows"
        msg = f"weights must be of several rows, and {what}: correct it, or leave that row out"
        raise DataError(msg)
    return RowWeights(Variable("weights", values[:, None]), squares, cubes)
