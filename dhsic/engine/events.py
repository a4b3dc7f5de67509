"""Events of the engine, for whoever listens while it works."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Unit: TypeAlias = Literal["rows", "pairs of rows", "resamples"]


@dataclass(frozen=True)
class StepStarted:
    """The driver starts a step of its own, such as the factorisation."""

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
    unit : {"rows", "pairs of rows", "resamples"}, optional
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
