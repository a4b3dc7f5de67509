"""Values of all rows, and of all but one block of them after another, from one pass.

The jackknife measures how much a value changes where a block of rows is left out. A pass whose
states add up gives the state of the other rows as a difference, so that the value is computed again
from sums, and the data are read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._random import random_keys
from dhsic.engine.reduction import Footprint, GroupBlock, Pass, RowBlock, RowGroups

Block = RowBlock | GroupBlock
# Rows of data whose blocks have as many rows each; of more, a block has hundreds.
_COUNTED = 2**16


class BlockStates(NamedTuple):
    """States of some of the blocks."""

    numbers: tuple[int, ...]
    """Of these blocks, ascending."""
    rows: tuple[int, ...]
    """In each."""
    states: tuple[Any, ...]


@dataclass(frozen=True)
class BlockwisePass(Pass[BlockStates]):
    """A pass that keeps the states of blocks of rows apart.

    A block has a share of the rows of every group, which are in a random order; without groups, its
    rows are drawn from all, see `block_numbers`.

    Parameters
    ----------
    whole : Pass
        The pass, whose states add up.
    blocks : int
        Number of blocks, B.
    n : int
        Rows of the data.
    seed : int
        The seed of the run.
    row_bytes : int
        Bytes of a row of all variables.
    """

    whole: Pass[Any]
    blocks: int
    n: int
    seed: int
    row_bytes: int

    @property
    def name(self) -> str:
        """Name of the result of the pass, for progress and the plan."""
        return f"{self.whole.name} of blocks"

    @property
    def groups(self) -> RowGroups | None:
        """Those of the pass."""
        return self.whole.groups

    def footprint(self, rows: int) -> Footprint:
        """That of the pass, with the states of all blocks and the rows in the order of these."""
        cost = self.whole.footprint(rows)
        copied = rows * (self.row_bytes + 3 * 8)
        return replace(cost, scratch=cost.scratch + copied, state=self.blocks * cost.state)

    def chunk(self, block: Block) -> BlockStates:
        """The states of the blocks that have rows among these."""
        pieces = self._of_groups(block) if isinstance(block, GroupBlock) else self._of_rows(block)
        told = [(number, piece.rows, self.whole.chunk(piece)) for number, piece in pieces]
        return BlockStates(*(tuple(column) for column in zip(*told, strict=True)))

    def combine(self, left: BlockStates, right: BlockStates) -> BlockStates:
        """Combine the states of each block."""
        found = {number: (rows, state) for number, rows, state in zip(*left, strict=True)}
        for number, rows, state in zip(*right, strict=True):
            if number in found:
                rows += found[number][0]
                state = self.whole.combine(found[number][1], state)
            found[number] = rows, state
        numbers = tuple(sorted(found))
        rows_of, states = zip(*(found[number] for number in numbers), strict=True)
        return BlockStates(numbers, rows_of, states)

    def total(self, found: BlockStates) -> Any:
        """The state of all rows."""
        return reduce(self.whole.combine, found.states)

    def others(self, total: Any, found: BlockStates, number: int) -> Any:
        """The state of the rows outside of a block, as if they were as many."""
        at, n = found.numbers.index(number), sum(found.rows)
        return self.whole.without(total, found.states[at], n / (n - found.rows[at]))

    def _of_groups(self, block: GroupBlock) -> Iterator[tuple[int, GroupBlock]]:
        size, moving = block.groups.size, block.n_groups * block.groups.size
        grouped = [x[:moving].reshape(-1, size, x.shape[1]) for x in block.values]
        bounds = [size * number // self.blocks for number in range(self.blocks + 1)]
        for number, (start, stop) in enumerate(pairwise(bounds)):
            values = [x[:, start:stop].reshape(-1, x.shape[2]) for x in grouped]
            if stop == size:
                # The few rows that are in no group go with the last block.
                pairs = zip(values, block.values, strict=True)
                values = [np.concatenate([some, x[moving:]]) for some, x in pairs]
            if len(values[0]):
                yield number, GroupBlock(block.first, block.groups, tuple(values))

    def _of_rows(self, block: RowBlock) -> Iterator[tuple[int, RowBlock]]:
        span = block.start, block.start + block.rows
        order, bounds = rows_by_block(self.seed, self.n, self.blocks, *span)
        values = [x[order] for x in block.values]
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            at = slice(*bounds[number : number + 2])
            yield number, RowBlock(block.start, tuple(x[at] for x in values))


def block_numbers(
    seed: int, n: int, blocks: int, start: int = 0, stop: int | None = None
) -> NDArray[np.intp]:
    """The blocks of the rows start..stop-1 of n, which are drawn whatever the order of the rows.

    Of sorted rows, blocks with one of every B consecutive rows each would be alike, and leave out
    what rows vary by: the standard error of squared HSIC of 2,000 was .00074 in place of .00119.
    """
    stop = n if stop is None else stop
    if n > _COUNTED:  # blocks have about as many rows
        keys = random_keys(seed, start, stop, "jackknife")
        return ((keys >> np.uint64(32)) * np.uint64(blocks) >> np.uint64(32)).astype(np.intp)
    numbers = np.empty(n, np.intp)
    numbers[np.argsort(random_keys(seed, 0, n, "jackknife"))] = np.arange(n) % blocks
    return numbers[start:stop]


def rows_by_block(
    seed: int, n: int, blocks: int, start: int = 0, stop: int | None = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows start..stop-1, counted from start, block after block; and where blocks begin."""
    numbers = block_numbers(seed, n, blocks, start, stop)
    order = np.argsort(numbers, kind="stable")
    return order, np.searchsorted(numbers[order], np.arange(blocks + 1))


@dataclass(frozen=True, eq=False)
class Deletion:
    """Which block of rows a run leaves out, whose sums an earlier run has kept.

    Parameters
    ----------
    blocks : int
        Number of blocks, B.
    number : int, optional
        The block that is left out; none where it is not given, and what is read is then kept.
    own : bool, optional
        Whether the variables are measured with themselves, too, by a statistic that keeps blocks.
    sizes : list of int
        Rows of every block, once they are known.
    kept : list
        What does not depend on the block that is left out, in the order in which it was made.
    """

    blocks: int
    number: int | None = None
    own: bool = False
    sizes: list[int] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)
    _left: list[Any] = field(default_factory=list)
    _making: list[bool] = field(default_factory=list)

    def without(self, number: int) -> Deletion:
        """The same for a run that leaves a block out, in which nothing is read."""
        return Deletion(self.blocks, number, self.own, self.sizes, self.kept, self.kept[::-1])

    def once(self, make: Callable[[], Any]) -> Any:
        """What was made at this point of the run that left nothing out."""
        if self.number is not None:
            return self._left.pop()
        if self._making:  # a part of it is kept with the whole
            return make()
        self._making.append(True)
        value = make()
        self._making.clear()
        self.kept.append(value)
        return value
