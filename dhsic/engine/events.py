"""What the engine tells whoever listens while it works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "BlockFinished",
    "Event",
    "Listener",
    "PassFinished",
    "PassStarted",
    "StepStarted",
    "Unit",
]

Unit: TypeAlias = Literal["rows", "pairs of rows", "resamples"]


@dataclass(frozen=True)
class StepStarted:
    """The driver starts a step of its own, such as the factorisation."""

    name: str


@dataclass(frozen=True)
class PassStarted:
    """A pass starts: over the data, or over resamples of what was made of them."""

    name: str
    blocks: int
    amount: int
    unit: Unit = "rows"


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


Event: TypeAlias = StepStarted | PassStarted | BlockFinished | PassFinished
Listener: TypeAlias = Callable[[Event], None]
