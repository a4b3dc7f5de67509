"""Values of a function on every row block, computed when they are asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.engine.blocks import Source
from dhsic.engine.compute import Job, as_task, compute, culled, held
from dhsic.engine.events import BlockFinished, Listener, PassFinished
from dhsic.engine.failures import explained_failures
from dhsic.engine.given import blocks_of
from dhsic.engine.plan import PassPlan
from dhsic.engine.reading import read_by_tasks
from dhsic.engine.reduction import Pass
from dhsic.engine.run import Payload, run_chunk
from dhsic.engine.runtime import Runtime
from dhsic.engine.take import take_rows

if TYPE_CHECKING:
    from dask.delayed import Delayed

Arrays = tuple[NDArray[Any], ...]


@dataclass(frozen=True, eq=False)
class LazyRows:
    """Arrays that are aligned with the rows of the data, block by block.

    Parameters
    ----------
    reduction : Pass
        Its partial results are tuples of arrays with a row for each of the block's.
    sources : tuple of Source
        The variables.
    plan : PassPlan
        The row blocks.
    runtime : Runtime
        Where `blocks` computes them.
    listener : callable
        Is told of the progress of `blocks`.
    """

    reduction: Pass[Arrays]
    sources: tuple[Source, ...]
    plan: PassPlan
    runtime: Runtime
    listener: Listener

    @cached_property
    def _tasks(self) -> list[Delayed]:
        """A task for every block, made when the first is needed."""
        shared = read_by_tasks(self.sources, self.plan, self.runtime)
        payload = held(
            Payload(self.reduction, shared, True, None, budget=self.runtime.budget), self.runtime
        )
        spans = list(pairwise(self.plan.bounds))
        parts = blocks_of(self.sources, self.plan, spans, self.runtime)
        rows = as_task(_rows_of_payload)
        return [rows(payload, span, *parts[span]) for span in spans]

    def array(self, number: int, width: int | None, dtype: DTypeLike) -> Any:
        """One of the arrays as a Dask array, whose chunks are the row blocks.

        Parameters
        ----------
        number : int
            Which of the tuple.
        width : int or None
            Its columns; None for an array of one dimension.
        dtype : dtype
            Precision of its values.

        Returns
        -------
        dask.array.Array, shape (n,) or (n, width)
        """
        import dask.array as da  # with pandas and Xarray, slow to import

        tail = () if width is None else (width,)
        pieces = [
            da.from_delayed(task[number], (stop - start, *tail), dtype)
            for task, (start, stop) in zip(self._tasks, pairwise(self.plan.bounds), strict=True)
        ]
        return da.concatenate(pieces)

    def data(self, step: int) -> list[NDArray[Any]]:
        """Rows at a distance of `step` of the variables, arrays of shapes (k, d_m).

        Raises
        ------
        DataError
            A source cannot be read.
        """
        # The rows are taken, not the blocks computed: a picture needs few of them.
        numbers = np.arange(0, self.plan.bounds[-1], step)
        return take_rows(self.sources, [numbers] * len(self.sources), self.runtime)

    def blocks(self) -> Iterator[Arrays]:
        """The arrays block by block, in order.

        As many are held as there are threads, or as are cut from one stored chunk.

        Raises
        ------
        DataError
            A source cannot be read.
        """
        spans = list(pairwise(self.plan.bounds))
        began = time.perf_counter()
        self.listener(self.plan.started)
        for at in self._batches:
            # Each task of a Dask array knows the graph of all blocks: only its own is sent.
            tasks, amounts = culled(self._tasks[at]), [stop - start for start, stop in spans[at]]
            with explained_failures():
                values = compute(Job(tasks, amounts, list(tasks)), self.runtime, self._tell)
            yield from values
        plan, seconds = self.plan, time.perf_counter() - began
        self.listener(
            PassFinished(plan.name, plan.blocks, plan.amount, plan.bytes_read, seconds, seconds)
        )

    @property
    def _batches(self) -> Iterator[slice]:
        """Blocks to be computed at a time: of a chunk that is cut all, or it were read again."""
        bounds, step = self.plan.bounds, self.runtime.threads
        # Bounds that split a chunk would have it read by two batches.
        rows = max((self.sources[number].chunk_rows or 1 for number in self.plan.split), default=1)
        first = 0
        for number in range(1, len(bounds)):
            whole = bounds[number] % rows == 0 and number - first >= step
            if whole or number == len(bounds) - 1:
                yield slice(first, number)
                first = number

    def _tell(self, amount: int) -> None:
        self.listener(BlockFinished(self.plan.name, amount))


def _rows_of_payload(payload: Payload, span: tuple[int, int], *parts: NDArray[Any]) -> Arrays:
    arrays: Arrays = run_chunk(payload, (span,), *parts).state
    return arrays
