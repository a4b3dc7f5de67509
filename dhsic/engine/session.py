"""Run estimators: a session reads data and runs passes, scans rows, and lists stored arrays.

Stored arrays are listed when a run starts, and again when it ends, to refuse a result of data that
changed meanwhile.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from dhsic._random import random_keys
from dhsic.engine.checkpoint import AnyFolder, Checkpoint, Manifest
from dhsic.engine.events import Listener, PassStarted, StepStarted, Unit, ignore
from dhsic.engine.graph import (
    LazyRows,
    Leaf,
    Tree,
    Work,
    as_task,
    computed,
    take_rows,
    tree_of,
)
from dhsic.engine.passes import (
    BLOCK_BYTES,
    BlockStates,
    BlockwisePass,
    Footprint,
    Gaps,
    NonFiniteError,
    Pass,
    RowBlock,
    RowWeights,
    Source,
    check_exact,
    kinds_of,
    labels_of,
    row_bytes,
)
from dhsic.engine.plan import PassPlan, Pilot, Plan, Times, end_if_planned, plan_pass
from dhsic.engine.runtime import Runtime, explained_failures
from dhsic.errors import DataError, DhsicError
from dhsic.results import PassSummary, StoredArraySummary

_KEPT_ROWS = 16
_MAP_RANGES = 32
_RANGES_SHOWN = 4
_SAMPLED_ROWS = 8

State = TypeVar("State")
Value = TypeVar("Value")
Keys = NDArray[np.uint64]
AnyMoves: TypeAlias = Any
"""Which rows may change places, see `dhsic.statistics.orbit`, which stands above the engine."""

_DOUBLE: np.dtype[Any] = np.dtype(np.float64)


@dataclass
class _Done:
    """What changes while a run goes on; runs over variables made of others share the lists."""

    inventories: Inventories | None = None
    checkpoint: Checkpoint | None = None
    pilot: Pilot | None = None
    place: Runtime | None = None
    """Where tasks run, once that is planned."""
    finished: list[PassSummary] = field(default_factory=list)
    planned: set[str] = field(default_factory=set)
    sizes: list[int] = field(default_factory=list)
    made: dict[Hashable, Any] = field(default_factory=dict)
    along: tuple[NDArray[np.intp], list[NDArray[np.float64]]] | None = None
    """Rows that are taken along with the next ones, and a list for their values."""


@dataclass(frozen=True, eq=False)
class Session:
    """One run over one set of variables.

    Parameters
    ----------
    sources : tuple of Source
        The variables, of the same number of rows.
    place : Runtime
        Where tasks run.
    seed : int
        Seed of every random draw.
    dtype : dtype, optional
        Precision of the tiles.
    listener : callable, optional
        Receives events of progress.
    folder : AnyFolder, optional
        Folder of the checkpoint, after `resume` has opened it.
    takes_constants : bool, optional
        Whether variables may be constant, as in estimates, whose value is then 0; else they are
        refused.
    began : float, optional
        Time of the call of the public function.
    dropped : int, optional
        Rows that were left out because a value is missing.
    remedy : str, optional
        Advice on dropping such rows, for the end of a message.
    gaps : tuple of Gaps, optional
        The missing values of every variable, if rows with gaps are kept.
    moves : AnyMoves, optional
        Which rows may be permuted under the null hypothesis. The default is all.
    weights : RowWeights, optional
        Weights of the rows. The default is equal weights.
    deletion : Deletion, optional
        Which block of rows is left out, where values of all other rows are asked for.

    Raises
    ------
    DataError
        A stored array lacks chunks, see `take_inventories`.
    """

    sources: tuple[Source, ...]
    place: Runtime
    seed: int
    dtype: np.dtype[Any] = _DOUBLE
    listener: Listener = ignore
    folder: AnyFolder | None = None
    takes_constants: bool = False
    began: float = field(default_factory=perf_counter)
    dropped: int = 0
    remedy: str = ""
    gaps: tuple[Gaps, ...] = ()
    moves: AnyMoves = None
    weights: RowWeights | None = None
    deletion: Deletion | None = None
    _done: _Done = field(default_factory=_Done)

    def __post_init__(self) -> None:
        # Listed before anything is read, to be compared when all is.
        if self._done.inventories is None:
            self._done.inventories = take_inventories(self.sources)

    @property
    def runtime(self) -> Runtime:
        """Where tasks run, with what is planned."""
        return self._done.place or self.place

    @property
    def is_timed(self) -> bool:
        """Whether one block of every pass stands for all, see `timed`."""
        return self._done.pilot is not None

    @cached_property
    def n(self) -> int:
        """Rows of the data."""
        return self.sources[0].shape[0]

    @cached_property
    def dims(self) -> tuple[int, ...]:
        """Columns of every variable."""
        return tuple(source.shape[1] for source in self.sources)

    @property
    def passes(self) -> tuple[PassSummary, ...]:
        """The passes over the data that were done."""
        return tuple(self._done.finished)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the variables."""
        return tuple(source.name for source in self.sources)

    @cached_property
    def finite(self) -> tuple[bool, ...]:
        """Whether every variable is to be without NaN."""
        return tuple(not gaps.any for gaps in self.gaps) or (True,) * len(self.sources)

    def over(self, sources: Sequence[Source], part: Any = None) -> Session:
        """The same run over variables that are made of these, which counts their passes as its own.

        Parameters
        ----------
        sources : sequence of Source
            The variables; the data and the seed say all of them.
        part : object, optional
            Tells them from all others that the run is over, so that a checkpoint does.
        """
        done = replace(self._done, made={}, along=None)
        # Passes of one name over different variables have shards of their own.
        if part is not None and done.checkpoint is not None:
            done.checkpoint = replace(done.checkpoint, part=(done.checkpoint.part, part))
        moves = self.moves if sources[0].shape[0] == self.n else None
        return replace(self, sources=tuple(sources), moves=moves, _done=done)

    def within(self, seconds: float | None) -> Session:
        """The same run, of which a test may take so many seconds."""
        place = replace(self.runtime, seconds=seconds)
        return replace(self, place=place, _done=replace(self._done, place=None))

    def begin(self, plan: Plan) -> None:
        """Tell the listener of the plan of a run that fits the memory.

        Raises
        ------
        MemoryBudgetError
            It needs more than the allowed memory.
        """
        end_if_planned(plan)
        self.expect(plan)
        self.listener(plan.started)

    def expect(self, plan: Plan) -> None:
        """Check a plan as `begin`, without an event, for a part of a run that has begun."""
        plan.check()
        self._done.place = self.place.planned(plan.peak_bytes, plan.baseline_bytes)
        self._done.planned.update(step.name for step in plan.allowed_passes)

    def timed(self, run: Callable[[Session], object]) -> Times | None:
        """Seconds of a run, of which one block of every pass is computed.

        The state of this block is used in place of the sum over all blocks, and the result is
        discarded.

        Parameters
        ----------
        run : callable
            Runs passes of the session that it is called with.

        Returns
        -------
        Times or None
            None where it ends before a pass.
        """
        pilot = Pilot(self.runtime.threads)
        # What is timed comes before its plan.
        done = _Done(self._done.inventories, pilot=pilot, made=dict(self._done.made))
        other = replace(self.within(None), listener=ignore, folder=None, _done=done)
        with warnings.catch_warnings(), suppress(DhsicError, ValueError, ArithmeticError):
            warnings.simplefilter("ignore")
            # Sums of a block may be refused in a later step, and are by then timed.
            run(other)
        return pilot.times()

    def size_by_time(self, choose: Callable[[], int]) -> int:
        """Return a number that was chosen by timing, which a checkpoint keeps for a resumed run."""
        manifest = None if self.folder is None else Manifest.read(self.folder)
        kept = [] if manifest is None else manifest.run.get("sizes", [])
        # A choice within a choice is kept with it.
        sizes, self._done.sizes = self._done.sizes, []
        number: int = kept[len(sizes)] if len(sizes) < len(kept) else choose()
        self._done.sizes = sizes
        sizes.append(number)
        return number

    def step(self, name: str) -> None:
        """Tell the listener that a step of the driver starts.

        Raises
        ------
        MemoryBudgetError
            This process takes more memory than it was allowed.
        """
        if not self.runtime.make_room():
            self.runtime.budget.look()
        if self._done.pilot is not None:
            self._done.pilot.step(name)
        self.listener(StepStarted(name))

    def resume(self, **run: Any) -> None:
        """Open the checkpoint, where one was asked for.

        Parameters
        ----------
        **run : object
            The run: its computations and options, besides the data, the seed and the precision.

        Raises
        ------
        InvalidArgumentError
            It is of another run, or of something else.
        DataError
            It cannot be read or written.
        """
        if self.folder is None:
            return
        self.step("open the checkpoint")
        data = describe_sources(self.sources, self.runtime)
        described = {
            **run,
            "seed": self.seed,
            "precision": self.dtype.name,
            "rows": self.n,
            "variables": data["variables"],
            "stored": {
                f"variable {array.name!r}": array.summary.digest
                for _, array in self._done.inventories or ()
            },
            "content": data["content"],
        }
        # Absent ones add nothing, so that checkpoints of runs without them stay valid.
        more = {"moves": self.moves, "weights": self.weights, "sizes": self._done.sizes or None}
        described |= {what: value for what, value in more.items() if value is not None}
        self._done.checkpoint = Checkpoint.open(self.folder, described)

    def keep(self, name: str, make: Callable[[], Value], determined_by: Any) -> Value:
        """Make a value on the driver, or read it from the checkpoint, see `Checkpoint.keep`."""
        if self._done.checkpoint is None:
            return make()
        return self._done.checkpoint.keep(name, make, determined_by)

    def verify(self) -> tuple[StoredArraySummary, ...]:
        """Summaries of the stored data; called when all are read.

        Raises
        ------
        DataError
            They changed since the session began.
        """
        inventories = self._done.inventories or ()
        check_unchanged(inventories)
        return tuple(inventory.summary for _, inventory in inventories)

    def once(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Call a function once for every key, and return the kept value later.

        Parameters
        ----------
        key : hashable
            Says, with the session, all that the value depends on.
        make : callable
            Makes the value.

        Returns
        -------
        object
            The same one every time.
        """
        made = self._done.made
        if key not in made:
            made[key] = make()
        value: Value = made[key]
        return value

    def plan(self, reduction: Pass[Any]) -> PassPlan:
        """Choose the blocks of a pass."""
        return plan_pass(self._apart(reduction), self.sources, self.runtime)

    def _apart(self, reduction: Pass[Any]) -> Pass[Any]:
        """The pass, or where blocks of rows are left out the one that keeps them apart."""
        if self.deletion is None or isinstance(reduction, Scan | BlockwisePass):
            return reduction
        return BlockwisePass(
            reduction, self.deletion.blocks, self.n, self.seed, row_bytes(self.sources)
        )

    def leaving_out(self, deletion: Deletion | None) -> Session:
        """The same run without a block of its rows; without one again all rows."""
        if deletion is None or deletion.number is None:
            return replace(self, deletion=deletion)
        # What was read is there, and nobody waits for it.
        done = replace(self._done, checkpoint=None, along=None)
        return replace(self, deletion=deletion, listener=ignore, _done=done)

    @property
    def scan(self) -> PassPlan:
        """A scan of all columns, as plans have it: it runs where data ask for it."""
        still = [Still(m, tuple(range(d)), np.zeros(d)) for m, d in enumerate(self.dims)]
        return self.plan(Scan(tuple(still), self.seed, self.finite))

    def reduce(self, reduction: Pass[State], plan: PassPlan | None = None) -> State:
        """Run a pass that the plan of the run has, and return its combined state.

        Parameters
        ----------
        reduction : Pass
            Pass to run.
        plan : PassPlan, optional
            Plan from `plan`, where it is known.

        Raises
        ------
        DataError
            A value is NaN or infinite, or a source cannot be read.
        """
        apart = self._apart(reduction)
        if self.deletion is not None and isinstance(apart, BlockwisePass):
            states, total = self.deletion.once(partial(self._reduce_apart, apart, plan))
            number = self.deletion.number
            # What is made of sums may overwrite them.
            found: State = (
                apart.total(states) if number is None else apart.others(total, states, number)
            )
            return found
        plan = plan or self.plan(reduction)
        if self._done.planned and plan.name not in self._done.planned:
            msg = f"the plan of this run has no pass {plan.name!r}: please report this error"
            raise RuntimeError(msg)
        self.runtime.make_room()
        finite = tuple(reduction.refuses and refused for refused in self.finite)
        tree = tree_of(reduction, self.sources, plan, self.runtime, finite)
        checkpoint = self._done.checkpoint if reduction.keeps else None
        # Bounds and fan-in decide how sums round, so that shards of others are other ones.
        determined = (reduction, plan.bounds, finite, plan.fan_in)
        if (pilot := self._done.pilot) is not None:
            pilot.step(plan.name)
            tree = replace(tree, leaves=tree.leaves[:1])
        try:
            (state,), done = tree.run(
                plan.started, self.runtime, self.listener, checkpoint, determined
            )
        except NonFiniteError:
            # A pass of its own finds the first such row, which the user needs.
            self._refuse_non_finite()
        if pilot is not None:
            pilot.block(plan, tree.leaves[0].amount, done.worker_seconds)
        summary = PassSummary(done.name, done.blocks, done.bytes_read, done.seconds)
        self._done.finished.append(summary)
        made: State = state
        return made

    def _reduce_apart(self, apart: BlockwisePass, plan: PassPlan | None) -> tuple[BlockStates, Any]:
        """The states of all blocks and that of all rows."""
        assert self.deletion is not None
        states = self.leaving_out(None).reduce(apart, plan)
        self.deletion.sizes[:] = [one[0] for one in states if one is not None]
        return states, apart.total(states)

    def fixed(self, make: Callable[[], Value]) -> Value:
        """Make what is the same whichever block of rows is left out."""
        if self.deletion is None:
            return make()
        value: Value = self.deletion.once(make)
        return value

    def lazy(self, reduction: Pass[tuple[NDArray[Any], ...]]) -> LazyRows:
        """Values of a reduction on its row blocks, computed when they are asked for."""
        plan = self.plan(reduction)
        return LazyRows(reduction, self.sources, plan, self.runtime, self.listener)

    def map(
        self, name: str, function: Callable[[range], Value], count: int, unit: Unit = "resamples"
    ) -> list[Value]:
        """Apply a function to ranges of numbers in tasks, without a pass over the data.

        Parameters
        ----------
        name : str
            Name of its result.
        function : callable
            Takes a range of numbers, as of replicates.
        count : int
            How many there are.
        unit : str, optional
            Their unit.

        Returns
        -------
        list
            Values of the function, in order. The ranges depend on `count` alone.
        """
        # Fewer replicates than ranges leave empty ones, which make no task.
        bounds = sorted({count * i // _MAP_RANGES for i in range(_MAP_RANGES + 1)})
        ranges, checkpoint = [range(*ends) for ends in pairwise(bounds)], self._done.checkpoint
        if (pilot := self._done.pilot) is not None:
            pilot.step(name)
            # Ranges of one length are taken to have the same; lengths differ by 1 at the most.
            began, first = perf_counter(), {len(numbers): numbers for numbers in ranges}
            made = {length: function(numbers) for length, numbers in first.items()}
            whole = (perf_counter() - began) * count / sum(made)
            pilot.add(name, whole / pilot.threads, whole, sum(made))
            return [made[len(numbers)] for numbers in ranges]
        runtime = self.runtime
        work = Work(function, runtime.budget)
        tree = Tree(work, [Leaf(numbers, len(numbers)) for numbers in ranges])
        started = PassStarted(name, len(ranges), count, unit)
        return tree.run(started, runtime, self.listener, checkpoint, (function, count))[0]

    def take(self, rows: Sequence[NDArray[np.intp]]) -> list[NDArray[np.float64]]:
        """Rows by number, for every variable an array of numbers in any order.

        Raises
        ------
        DataError
            A value is NaN or infinite, or a source cannot be read.
        """
        if self.deletion is not None:
            return self.fixed(partial(self.leaving_out(None).take, rows))
        along, self._done.along = self._done.along, None
        if along is not None:
            rows = [np.append(numbers, along[0]) for numbers in rows]
        # Sources take numbers that increase.
        unique = [np.unique(numbers, return_inverse=True) for numbers in rows]
        numbers = [numbers for numbers, _ in unique]
        taken = take_rows(self.sources, numbers, self.runtime, self._done.checkpoint)
        for name, values, finite in zip(self.names, taken, self.finite, strict=True):
            if finite and not np.isfinite(values).all():
                self._refuse_non_finite()
            check_exact(f"variable {name!r}", values)
        ordered = [
            np.asarray(values, np.float64)[inverse]
            for values, (_, inverse) in zip(taken, unique, strict=True)
        ]
        if along is None:
            return ordered
        count = len(along[0])
        along[1].extend(x[-count:] for x in ordered)
        return [x[:-count] for x in ordered]

    def take_along(self, rows: NDArray[np.intp]) -> list[NDArray[np.float64]]:
        """Take rows of all variables along with the next ones, so that chunks are decoded once.

        Parameters
        ----------
        rows : ndarray of int
            The same numbers for every variable.

        Returns
        -------
        list of ndarray, shapes (len(rows), d_m)
            Empty until the next call of `take`.
        """
        self._done.along = rows, []
        return self._done.along[1]

    def differing(self, still: Sequence[Still]) -> list[Differing]:
        """Rows that differ from a sample in columns where it does not vary, found in one pass.

        They depend on the data and the seed alone, and are looked for once in a session.

        Parameters
        ----------
        still : sequence of Still
            The columns.

        Returns
        -------
        list of Differing
            One each, of none where the columns are constant.

        Raises
        ------
        DataError
            A value is NaN or infinite.
        """
        made = self._done.made
        keys = [("still", item.variable, item.columns, item.value.tobytes()) for item in still]
        new = {k: item for k, item in zip(keys, still, strict=True) if k not in made}
        if new:
            made.update(zip(new, self._scanned(tuple(new.values())), strict=True))
        return [made[k] for k in keys]

    def _scanned(self, still: tuple[Still, ...]) -> tuple[Differing, ...]:
        """Scan all rows, and refuse variables with NaN or infinity, by the first such row."""
        extent = self.reduce(Scan(still, self.seed, self.finite))
        number = int(np.argmin(extent.first_bad))
        if np.isinf(extent.first_bad[number]):
            return extent.differing
        source, row = self.sources[number], int(extent.first_bad[number])
        # Rows of pooled samples are told by the sample that they are of.
        place = getattr(source, "place_of", None)
        name, told = (source.name, row) if place is None else place(row)
        what, labels = f"variable {name!r}", labels_of(source)
        if place is None and labels and len(labels) > 1 and source.place != "graph":
            bad = ~np.isfinite(source.read(row, row + 1)[0])
            what = f"column {labels[int(np.argmax(bad))]!r} of {what}"
        said = getattr(getattr(source, "marks", None), "said", "")
        marked = f" (as read by its attributes {said})" if said else ""
        bad_values = "missing values" if "category" in kinds_of(source) else "NaN or infinity"
        msg = (
            f"{what} has {bad_values}, first in row {told}{marked}: "
            f"drop or fill such rows{self.remedy}"
        )
        raise DataError(msg)

    def _refuse_non_finite(self) -> NoReturn:
        self._scanned(())
        msg = "NaN or infinity were read once and not again: do not change the data during a test"
        raise DataError(msg)


# --- blocks that are left out


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


# --- scans, for values that are not finite and for rare ones


class Still(NamedTuple):
    """Columns of a variable that are constant in a sample."""

    variable: int
    """Its number."""
    columns: tuple[int, ...]
    """Their numbers."""
    value: NDArray[np.float64]
    """Their values there, shape (c,)."""


class Differing(NamedTuple):
    """Rows of the data with other values in such columns."""

    total: int
    """How many there are."""
    keys: Keys
    """Random numbers of those that are kept, ascending, shape (k,)."""
    values: NDArray[np.float64]
    """Values of these rows, shape (k, c): of all, or of 16 drawn at random."""

    def merge(self, other: Differing) -> Differing:
        """Merge the findings about the rows of both."""
        keys = np.concatenate([self.keys, other.keys])
        # The smallest keys of all are a uniform draw, however the rows are cut into blocks.
        kept = np.argsort(keys, kind="stable")[:_KEPT_ROWS]
        values = np.concatenate([self.values, other.values])
        return Differing(self.total + other.total, keys[kept], values[kept])


class Extent(NamedTuple):
    """Findings of a scan."""

    first_bad: NDArray[np.float64]
    """First row with NaN or infinity, shape (M,); infinity where there is none."""
    differing: tuple[Differing, ...]
    """For every set of columns that was the same in a sample."""


@dataclass(frozen=True)
class Scan(Pass[Extent]):
    """First bad row of every variable, and rows that differ from those of a sample.

    Parameters
    ----------
    still : tuple of Still
        Findings of earlier scans, to look beyond.
    seed : int
        The seed of the test: which of many rows are kept depends on it and on their numbers.
    finite : tuple of bool
        Whether NaN and infinity are bad in every variable.
    """

    # argmin of booleans is the first that is false.
    still: tuple[Still, ...]
    seed: int
    finite: tuple[bool, ...]
    name: str = "scan"

    keeps: ClassVar[bool] = False
    refuses: ClassVar[bool] = False

    def footprint(self, rows: int) -> Footprint:
        """Small, but for copies of the columns."""
        columns = sum(len(still.columns) for still in self.still)
        widest = max((len(still.columns) for still in self.still), default=0)
        return Footprint(
            payload=16 * columns,
            scratch=rows * (9 * widest + 16),
            state=_KEPT_ROWS * 8 * (columns + len(self.still)),
        )

    def chunk(self, block: RowBlock) -> Extent:
        """Look at one block."""
        finite = [np.isfinite(x).all(axis=1) for x in block.values]
        first = [
            block.start + int(np.argmin(ok)) if refused and not ok.all() else np.inf
            for ok, refused in zip(finite, self.finite, strict=True)
        ]
        return Extent(np.array(first), tuple(self._differing(block, still) for still in self.still))

    def combine(self, left: Extent, right: Extent) -> Extent:
        """Keep the earlier row, and the rows of the smallest keys."""
        pairs = zip(left.differing, right.differing, strict=True)
        merged = tuple(first.merge(other) for first, other in pairs)
        return Extent(np.minimum(left.first_bad, right.first_bad), merged)

    def _differing(self, block: RowBlock, still: Still) -> Differing:
        x = block.values[still.variable][:, list(still.columns)]
        # A row that misses a value differs from no other.
        rows = np.flatnonzero((x != still.value).any(axis=1) & ~np.isnan(x).any(axis=1))
        keys = np.zeros(0, np.uint64)
        if len(rows):
            # Of one variable by itself, so that they do not depend on the pairing. Those of
            # consecutive rows are drawn at once: from the first to the last that differs.
            start, stop = block.start + int(rows[0]), block.start + int(rows[-1]) + 1
            drawn = random_keys(self.seed, start, stop, "bandwidth", still.variable, 1)
            keys = drawn[rows - rows[0]]
        kept = np.argsort(keys, kind="stable")[:_KEPT_ROWS]
        return Differing(len(rows), keys[kept], x[rows[kept]].astype(np.float64))


# --- stored arrays, as listings show them


class Stamp(NamedTuple):
    """A stored chunk, as a listing shows it."""

    size: int
    """In bytes, as stored."""
    mark: str
    """Its ETag or the time it was written; empty where the store tells neither."""


@dataclass(frozen=True)
class Inventory:
    """The chunks of a stored array, as one listing of its store shows them.

    Parameters
    ----------
    name : str
        Name of a variable that it holds.
    rows : int
        Rows of the array.
    chunks : tuple of tuple of (Stamp or None)
        For every chunk along the rows those across the columns; None for one that is not there.
    chunk_rows : int
        Rows that are stored together.
    fill : str or None
        The number that absent chunks are read as; None where it is NaN, which is a missing value.
    checksums : tuple of str
        Codecs of the array that notice a damaged chunk.
    within : tuple of (int, int), optional
        Rows of every chunk that is absent within a shard that is there.

    Examples
    --------
    >>> there = (Stamp(80, "a"),)
    >>> Inventory("x", 25, (there, (None,), there), 10, "0", ()).absent
    [(10, 20)]
    """

    name: str
    rows: int
    chunks: tuple[tuple[Stamp | None, ...], ...]
    chunk_rows: int
    fill: str | None
    checksums: tuple[str, ...]
    within: tuple[tuple[int, int], ...] = ()

    @property
    def absent(self) -> list[tuple[int, int]]:
        """The rows of every chunk that is not there."""
        spans = [
            (k * self.chunk_rows, min((k + 1) * self.chunk_rows, self.rows))
            for k, across in enumerate(self.chunks)
            for stamp in across
            if stamp is None
        ]
        return sorted([*spans, *self.within])

    @property
    def summary(self) -> StoredArraySummary:
        """Its summary in a result."""
        stamps = [stamp for across in self.chunks for stamp in across]
        # A listing tells size and ETag or time; the bytes themselves are not read.
        lines = ("-" if stamp is None else f"{stamp.size} {stamp.mark}" for stamp in stamps)
        return StoredArraySummary(
            name=self.name,
            chunks=len(stamps),
            absent=len(self.absent),
            stored_bytes=sum(stamp.size for stamp in stamps if stamp is not None),
            checksums=self.checksums,
            digest=_digest(lines),
        )


Inventories = tuple[tuple[Any, Inventory], ...]
"""For every array that a store lists one of its variables, and the chunks."""


def take_inventories(sources: Sequence[Source]) -> Inventories:
    """List every stored array that variables are made of, once.

    Parameters
    ----------
    sources : sequence of Source
        The variables.

    Returns
    -------
    tuple of (variable, Inventory)
        For every array one of its variables and the chunks; without arrays whose store lists none.

    Raises
    ------
    DataError
        Chunks are absent whose fill value is a number, and are not allowed to be.
    """
    arrays: dict[object, list[Any]] = {}
    for source in sources:
        for array in getattr(source, "stored", ()):
            # Several variables of one array are one listing.
            arrays.setdefault(array.identity, []).append(array)
    taken: list[tuple[Any, Inventory]] = []
    for same in arrays.values():
        if (inventory := same[0].inventory(within=True)) is not None:
            # One variable that allows it speaks for the array, whose chunks all of them share.
            if not any(array.allow_missing_chunks for array in same):
                _refuse_absent(inventory)
            taken.append((same[0], inventory))
    return tuple(taken)


def check_unchanged(before: Inventories) -> None:
    """List the stored arrays again, and refuse a result of data that changed meanwhile.

    Raises
    ------
    DataError
        A chunk was written, added or removed since the first listing.
    """
    for stored, first in before:
        # Their stamps are enough: a shard in which something changed has another one.
        now = stored.inventory(within=False)
        # None where listing was allowed and is not now.
        if now is None or now.chunks != first.chunks:
            msg = (
                f"the stored data of variable {first.name!r} changed during the run, so that its "
                "result would be of neither: run again when nothing writes to them"
            )
            raise DataError(msg)


def _refuse_absent(inventory: Inventory) -> None:
    # NaN in the place of absent chunks is refused, or dropped, as any missing value.
    if inventory.fill is None or not inventory.absent:
        return
    count, joined = len(inventory.absent), list[tuple[int, int]]()
    for start, stop in inventory.absent:
        # Ranges that touch are told as one.
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    ranges = [f"rows {start} to {stop - 1}" for start, stop in joined[:_RANGES_SHOWN]]
    more = ", ..." if len(joined) > _RANGES_SHOWN else ""
    lost = f"{count:,} stored chunk{'s' if count > 1 else ''}, of {', '.join(ranges)}{more}"
    msg = (
        f"variable {inventory.name!r} lacks {lost}, which would be read as {inventory.fill}: "
        "complete the data, as after a writer that was interrupted; or, where the writer left out "
        f"chunks that hold {inventory.fill} alone, as zarr does by default, allow it by "
        "--allow-missing-chunks, in Python by dhsic.stored_array(..., allow_missing_chunks=True)"
    )
    raise DataError(msg)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def describe_sources(sources: Sequence[Source], runtime: Runtime) -> dict[str, Any]:
    """Name, shape, dtype and columns of variables, and a digest of their content, as plain values.

    The content is that of all rows where they are in memory or computed by a Dask graph, which is
    computed once for it. For stored rows it is that of the first, the last and a few between: what
    else changes, an inventory shows.
    """
    n = sources[0].shape[0]
    # Of stored data a sample, since reading all would take as long as the test.
    some = np.unique(np.linspace(0, n - 1, _SAMPLED_ROWS).astype(np.intp))
    sampled = take_rows(sources, [some] * len(sources), runtime)
    graphs = (source for source in sources if source.place == "graph")
    with explained_failures(None):
        # All graphs at once, which share what they compute.
        tasks = [as_task(_sha)(block) for x in graphs for block in x.lazy(_bounds_of_pieces(x))]
        of_graphs = iter(computed(tasks, runtime))
    variables, content = [], {}
    for source, rows in zip(sources, sampled, strict=True):
        columns = getattr(source, "columns", None)
        described = {
            "name": source.name,
            "shape": list(source.shape),
            "dtype": rows.dtype.str,
            "columns": None if columns is None else list(columns),
            "categorical": "category" in kinds_of(source),
            # A sample of rows need not have any that is marked as missing.
            "marks": [str(array.marks) for array in getattr(source, "stored", ())],
        }
        variables.append(described)
        pieces = [_sha(rows)]
        # Read whole where rows are in memory, or computed: a sample could miss a changed value.
        if source.place != "storage":
            spans = pairwise(_bounds_of_pieces(source))
            graph = source.place == "graph"
            pieces = [next(of_graphs) if graph else _sha(source.read(*span)) for span in spans]
        content[f"variable {source.name!r}"] = _digest(pieces)
    return {"variables": variables, "content": content}


def _bounds_of_pieces(source: Source) -> list[int]:
    """Pieces that are read at a time, of 8 MiB whatever the chunks."""
    n, step = source.shape[0], max(1, BLOCK_BYTES // source.row_bytes)
    return [*range(0, n, step), n]


def _sha(rows: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(rows).data).hexdigest()
