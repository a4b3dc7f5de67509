"""Events of the engine, which listeners receive during a run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

Unit: TypeAlias = Literal["rows", "pairs of rows", "resamples", "variables", "blocks of pairs"]

_OF_DATA: Sequence[Unit] = ("rows", "pairs of rows")  # units of passes over the data


@dataclass(frozen=True)
class StepStarted:
    """The driver starts a step, such as the factorisation."""

    name: str


@dataclass(frozen=True)
class PassStarted:
    """A pass starts: over the data, or over resamples of what was made of them.

    Parameters
    ----------
    name : str
        Name of its result.
    blocks : int
        Row blocks, or ranges of resamples.
    amount : int
        Rows, pairs of them or resamples in all.
    unit : {"rows", "pairs of rows", "resamples", "variables", "blocks of pairs"}, optional
        Unit of the amounts.
    bytes_read : int, optional
        Bytes of the data that it reads, uncompressed; 0 where it reads none.
    resumed : int, optional
        Amount that an earlier run has left done; no `BlockFinished` follows for it.
    resumed_parts : int, optional
        How many of the parts that are.
    """

    name: str
    blocks: int
    amount: int
    unit: Unit = "rows"
    bytes_read: int = 0
    resumed: int = 0
    resumed_parts: int = 0

    @property
    def parts(self) -> int:
        """Row blocks, pairs of them or ranges: as many as there are `BlockFinished`."""
        return math.comb(self.blocks + 1, 2) if self.unit == "pairs of rows" else self.blocks

    def finished(self, seconds: float, worker_seconds: float) -> PassFinished:
        """The event of its end."""
        read = self.bytes_read
        return PassFinished(
            self.name, self.blocks, self.amount, read, seconds, worker_seconds, self.unit
        )


@dataclass(frozen=True)
class BlockFinished:
    """So much of a pass more is done: one row block, pair of them or range of resamples."""

    name: str
    amount: int
    unit: Unit = "rows"


@dataclass(frozen=True)
class PassFinished:
    """A pass is done."""

    name: str
    blocks: int
    amount: int
    bytes_read: int
    seconds: float
    worker_seconds: float
    unit: Unit = "rows"


@dataclass(frozen=True)
class RunStarted:
    """A plan was made and allowed, and its run starts.

    Parameters
    ----------
    n : int
        Rows of the data.
    variables : tuple of str
        Their names.
    passes : tuple of PassStarted
        The passes over the data, as they will be told of.
    workers : int
        Worker processes; 1 where it runs on threads of this process.
    threads : int
        Threads in all.
    worker_bytes : int
        Predicted peak bytes of one worker process.
    driver_bytes : int
        Predicted peak bytes of this process.
    """

    n: int
    variables: tuple[str, ...]
    passes: tuple[PassStarted, ...]
    workers: int
    threads: int
    worker_bytes: int
    driver_bytes: int


Event: TypeAlias = StepStarted | PassStarted | BlockFinished | PassFinished | RunStarted
Listener: TypeAlias = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Listen to nothing."""
    del event


def as_json(event: Event) -> dict[str, Any]:
    """An event as JSON values: its fields, and its kind under "event"."""
    return {"event": re.sub("(?<!^)(?=[A-Z])", "-", type(event).__name__).lower(), **asdict(event)}


@dataclass(frozen=True)
class Position:
    """Where a run is: what its events add up to.

    Parameters
    ----------
    name : str, optional
        Name of the step or pass that runs.
    began : float, optional
        When that started, in seconds of any clock.
    unit : {"rows", "pairs of rows", "resamples", "variables", "blocks of pairs"}, optional
        Unit of the amounts.
    amount : int or None, optional
        How much there is to do; None for a step.
    done : int, optional
        How much of it is done.
    resumed : int, optional
        How much of what is done an earlier run did.
    parts, parts_done : int, optional
        Row blocks, pairs of them or ranges, and how many of them are done.
    bytes_read : int, optional
        Bytes of the data that the whole pass reads, uncompressed.
    heard : float, optional
        When the last part was done.
    passes : int, optional
        Passes over the data that were planned.
    passed : int, optional
        How many of them have started.
    finished : bool, optional
        Whether the pass is done.
    """

    name: str = ""
    began: float = 0.0
    unit: Unit = "rows"
    amount: int | None = None
    done: int = 0
    resumed: int = 0
    parts: int = 0
    parts_done: int = 0
    bytes_read: int = 0
    heard: float = 0.0
    passes: int = 0
    passed: int = 0
    finished: bool = False

    def after(self, event: Event, now: float) -> Position:
        """The position once an event is heard, at a time in seconds."""
        # A new run forgets all of the former one.
        if isinstance(event, RunStarted):
            return Position(began=now, passes=len(event.passes))
        if isinstance(event, StepStarted):
            return Position(event.name, now, passes=self.passes, passed=self.passed)
        if isinstance(event, PassStarted):
            # Where a kept part is gone, the pass that runs is started once more.
            again = self.amount is not None and not self.finished and self.name == event.name
            of_pass = ("name", "unit", "amount", "resumed", "parts", "bytes_read")
            return Position(
                **{name: getattr(event, name) for name in of_pass},
                began=now,
                done=event.resumed,
                parts_done=event.resumed_parts,
                heard=now,
                passes=self.passes,
                # A pass that starts once more, or runs over replicates, is not a further one.
                passed=self.passed + (event.unit in _OF_DATA and not again),
            )
        if isinstance(event, BlockFinished):
            parts = self.parts_done + 1
            return replace(self, done=self.done + event.amount, parts_done=parts, heard=now)
        return replace(self, finished=True)

    @property
    def number(self) -> int | None:
        """Which of the planned passes over the data this is; None where it is none of them."""
        over_data = self.amount is not None and self.unit in _OF_DATA
        return self.passed if over_data and 0 < self.passed <= self.passes else None

    @property
    def rate(self) -> float | None:
        """Amount a second that this run did, up to the last part; None before the first."""
        seconds = self.heard - self.began
        # Parts that a checkpoint had took no time of this run.
        return (self.done - self.resumed) / seconds if seconds > 0 else None

    @property
    def byte_rate(self) -> float | None:
        """Bytes of the data read a second; None where none are read, or none yet."""
        if self.rate is None or not self.bytes_read or not self.amount:
            return None
        return self.rate * self.bytes_read / self.amount

    def seconds_left(self, now: float) -> float | None:
        """Seconds until the pass is done, at the rate so far."""
        if not self.rate or self.amount is None:
            return None
        # The rate is known as of the last part; the seconds since then are done.
        return max(0.0, (self.amount - self.done) / self.rate - (now - self.heard))

    def as_json(self) -> dict[str, Any]:
        """The event as JSON values, with rates and time left as of the last part."""
        as_they_are = ("passes", "parts", "parts_done", "amount", "done", "resumed", "unit")
        return {
            "pass": self.number,
            **{name: getattr(self, name) for name in as_they_are},
            "bytes_done": self.bytes_read * self.done // self.amount if self.amount else 0,
            "per_second": _rounded_number(self.rate),
            "bytes_per_second": _rounded_number(self.byte_rate),
            "seconds_left": _rounded_number(self.seconds_left(self.heard)),
        }


def _rounded_number(number: float | None) -> float | None:
    return None if number is None else round(number, 3)
