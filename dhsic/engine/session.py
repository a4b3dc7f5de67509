"""The engine as estimators see it: the data, passes over them, and rows of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.engine.blocks import NonFiniteError, Source, check_exact
from dhsic.engine.checkpoint import AnyFolder, Checkpoint, Manifest
from dhsic.engine.events import Event, Listener, PassFinished, StepStarted
from dhsic.engine.gaps import Gaps
from dhsic.engine.graph import (
    LazyRows,
    map_first,
    run_map,
    run_pass,
    take_rows,
)
from dhsic.engine.inventory import check_unchanged, take_inventories
from dhsic.engine.plan import PassPlan, Pilot, Plan, Times, plan_pass
from dhsic.engine.planning import end_if_planned
from dhsic.engine.reduction import Moves, Pass
from dhsic.engine.runtime import Runtime
from dhsic.engine.samples import describe_sources
from dhsic.engine.scan import Differing, Extent, Scan, Still, check_finite
from dhsic.engine.weights import RowWeights
from dhsic.errors import DataError, DhsicError
from dhsic.results import PassSummary, StoredArraySummary

State = TypeVar("State")
Value = TypeVar("Value")


class Session:
    """One run over one set of variables.

    Parameters
    ----------
    sources : sequence of Source
        The variables, of the same number of rows.
    runtime : Runtime
        Where tasks run.
    seed : int
        Fixes every draw.
    dtype : dtype
        Precision of the tiles.
    listener : callable, optional
        Is told of progress.
    folder : AnyFolder, optional
        Where what is done is kept, once `resume` has opened it.
    takes_constants : bool, optional
        Whether variables may be constant, as in estimates, whose value is then 0; else they are
        refused.

    Raises
    ------
    DataError
        A stored array lacks chunks, see `take_inventories`.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        runtime: Runtime,
        seed: int,
        dtype: DTypeLike = np.float64,
        listener: Listener | None = None,
        folder: AnyFolder | None = None,
        *,
        takes_constants: bool = False,
    ) -> None:
        self.sources = tuple(sources)
        self.runtime = runtime
        self.seed = seed
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.listener: Listener = listener or _ignore
        self.takes_constants = takes_constants
        self.began = perf_counter()
        """When the function was called that runs."""
        self.dropped = 0
        """Rows that were left out because a value is missing."""
        self.gaps: tuple[Gaps, ...] = ()
        """The missing values of every variable, where rows that miss one stay."""
        self.remedy = ""
        """How the function that was called drops such rows, at the end of a message."""
        self.moves: Moves | None = None
        """Which rows may change places under the null hypothesis; all, where it is None."""
        self.weights: RowWeights | None = None
        """Those of the rows; all have the same, where it is None."""
        self.finished: list[PassFinished] = []
        # Listed before anything is read, to be compared when all is.
        self._inventories = take_inventories(self.sources)
        self._folder = folder
        self._checkpoint: Checkpoint | None = None
        self._differing: dict[tuple[int, tuple[int, ...], bytes], Differing] = {}
        self._made: dict[Hashable, Any] = {}
        self._along: _Along | None = None
        self._pilot: Pilot | None = None
        self._planned: set[str] = set()
        self._sizes: list[int] = []

    @property
    def n(self) -> int:
        """Rows of the data."""
        return self.sources[0].shape[0]

    @property
    def dims(self) -> tuple[int, ...]:
        """Columns of every variable."""
        return tuple(source.shape[1] for source in self.sources)

    @property
    def passes(self) -> tuple[PassSummary, ...]:
        """The passes over the data that were done."""
        told = ((one.name, one.blocks, one.bytes_read, one.seconds) for one in self.finished)
        return tuple(PassSummary(*one) for one in told)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables."""
        return tuple(source.name for source in self.sources)

    @property
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
        other = copy(self)
        other.sources, other._differing, other._made = tuple(sources), {}, {}
        other._along = None
        # Passes of one name over different variables have shards of their own.
        if part is not None and self._checkpoint is not None:
            other._checkpoint = replace(self._checkpoint, part=(self._checkpoint.part, part))
        if other.n != self.n:
            other.moves = None
        return other

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
        """As `begin`, and tell nobody: of a part of what was told of."""
        plan.check()
        self.runtime = self.runtime.planned(plan.peak_bytes, plan.baseline_bytes)
        self._planned.update(step.name for step in plan.passes)

    def timed(self, run: Callable[[Session], object]) -> Times | None:
        """Seconds of a run, of which one block of every pass is computed.

        Its state stands for that of all blocks, and what comes of it is thrown away.

        Parameters
        ----------
        run : callable
            Runs passes of the session that it is called with.

        Returns
        -------
        Times or None
            None where it ends before a pass.
        """
        other = copy(self)
        other.listener, other._folder, other._checkpoint = _ignore, None, None
        other.finished, other._made, other._differing = [], dict(self._made), {}
        other.runtime = replace(self.runtime, seconds=None)
        other._planned = set()  # what is timed comes before its plan
        other._pilot = pilot = Pilot(self.runtime.threads)
        with warnings.catch_warnings(), suppress(DhsicError, ValueError, ArithmeticError):
            warnings.simplefilter("ignore")
            # Sums of a block may be refused in a later step, and are by then timed.
            run(other)
        pilot.blocks.pop(Scan.name, None)  # no plan has it, as few data need it
        return pilot.times()

    def size_by_time(self, choose: Callable[[], int]) -> int:
        """A number that was chosen by seconds; a checkpoint has it for the run that resumes."""
        manifest = None if self._folder is None else Manifest.read(self._folder)
        kept = [] if manifest is None else manifest.run.get("sizes", [])
        sizes, self._sizes = self._sizes, []  # a choice within a choice is kept with it
        number: int = kept[len(sizes)] if len(sizes) < len(kept) else choose()
        self._sizes = sizes
        sizes.append(number)
        return number

    def step(self, name: str) -> None:
        """Tell the listener that a step of the driver starts.

        Raises
        ------
        MemoryBudgetError
            This process takes more memory than it was allowed.
        """
        self.runtime.make_room()
        self.runtime.look()
        if self._pilot is not None:
            self._pilot.step(name)
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
        if self._folder is None:
            return
        self.step("open the checkpoint")
        data = describe_sources(self.sources, self.runtime)
        described = {
            **run,
            "seed": self.seed,
            "precision": self.dtype.name,
            "rows": self.n,
            "variables": data["variables"],
            # Where both tell of a change, the inventory names the rows.
            "stored": {f"variable {array.name!r}": array.parts for _, array in self._inventories},
            "content": data["content"],
        }
        # Absent ones add nothing, so that checkpoints of runs without them stay valid.
        of_rows = {"moves": self.moves, "weights": self.weights}
        described |= {what: value for what, value in of_rows.items() if value is not None}
        if self._sizes:
            described["sizes"] = self._sizes
        self._checkpoint = Checkpoint.open(self._folder, described)

    def keep(self, name: str, make: Callable[[], Value], determined_by: Any) -> Value:
        """Make a value on the driver, or read it from the checkpoint, see `Checkpoint.keep`."""
        if self._checkpoint is None:
            return make()
        return self._checkpoint.keep(name, make, determined_by)

    def verify(self) -> tuple[StoredArraySummary, ...]:
        """Summaries of the stored data; called when all are read.

        Raises
        ------
        DataError
            They changed since the session began.
        """
        check_unchanged(self._inventories)
        return tuple(inventory.summary for _, inventory in self._inventories)

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
        if key not in self._made:
            self._made[key] = make()
        value: Value = self._made[key]
        return value

    def plan(self, reduction: Pass[Any]) -> PassPlan:
        """Choose the blocks of a pass."""
        return plan_pass(reduction, self.sources, self.runtime)

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
        plan = plan or self.plan(reduction)
        if self._planned and plan.name not in self._planned:
            msg = f"the plan of this run has no pass {plan.name!r}: please report this error"
            raise RuntimeError(msg)
        self.runtime.make_room()
        try:
            checkpoint = self._checkpoint if reduction.keeps else None
            return self._pass(reduction, plan, all(self.finite) or self.finite, checkpoint)
        except NonFiniteError:
            # A pass of its own finds the first such row, which the user needs.
            self._refuse_non_finite()

    def lazy(self, reduction: Pass[tuple[NDArray[Any], ...]], plan: PassPlan) -> LazyRows:
        """Values of a reduction on the row blocks of a plan, computed when they are asked for."""
        return LazyRows(reduction, self.sources, plan, self.runtime, self.listener)

    def map(self, name: str, function: Callable[[range], Value], count: int) -> list[Value]:
        """Apply a function to ranges of replicates where tasks run; not a pass over the data.

        Parameters
        ----------
        name : str
            Name of its result.
        function : callable
            Takes a range of replicates.
        count : int
            Number of replicates.

        Returns
        -------
        list
            Values of the function, in order. The ranges depend on `count` alone.
        """
        if self._pilot is not None:
            self._pilot.step(name)
            return map_first(name, function, count, self._pilot)
        return run_map(name, function, count, self.runtime, self.listener, self._checkpoint)

    def take(self, rows: Sequence[NDArray[np.intp]]) -> list[NDArray[np.float64]]:
        """Rows by number, for every variable an array of numbers in any order.

        Raises
        ------
        DataError
            A value is NaN or infinite, or a source cannot be read.
        """
        along, self._along = self._along, None
        if along is not None:
            rows = [np.append(numbers, along.rows) for numbers in rows]
        # Sources take numbers that increase.
        unique = [np.unique(numbers, return_inverse=True) for numbers in rows]
        numbers = [numbers for numbers, _ in unique]
        taken = take_rows(self.sources, numbers, self.runtime, self._checkpoint)
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
        count = len(along.rows)
        along.values.extend(x[-count:] for x in ordered)
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
        self._along = _Along(rows, [])
        return self._along.values

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
        keys = [(item.variable, item.columns, item.value.tobytes()) for item in still]
        new = {k: item for k, item in zip(keys, still, strict=True) if k not in self._differing}
        if new:
            extent = self._scan(tuple(new.values()))
            check_finite(extent, self.sources, self.remedy)
            self._differing.update(zip(new, extent.differing, strict=True))
        return [self._differing[k] for k in keys]

    def _pass(
        self,
        reduction: Pass[State],
        plan: PassPlan,
        finite: bool | tuple[bool, ...],
        checkpoint: Checkpoint | None = None,
    ) -> State:
        if self._pilot is not None:
            self._pilot.step(plan.name)
        state, finished = run_pass(
            reduction,
            self.sources,
            plan,
            self.runtime,
            self.listener,
            finite=finite,
            checkpoint=checkpoint,
            pilot=self._pilot,
        )
        self.finished.append(finished)
        return state

    def _refuse_non_finite(self) -> NoReturn:
        check_finite(self._scan(), self.sources, self.remedy)
        msg = (
            "NaN or infinity were read once and not again: keep the data as they are during a test"
        )
        raise DataError(msg)

    def _scan(self, still: tuple[Still, ...] = ()) -> Extent:
        scan = Scan(still, self.seed, self.finite)
        return self._pass(scan, self.plan(scan), finite=False)


class _Along(NamedTuple):
    """Rows that are taken along with others."""

    rows: NDArray[np.intp]
    values: list[NDArray[np.float64]]


def _ignore(event: Event) -> None:
    del event
