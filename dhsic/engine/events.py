"""What the engine tells whoever listens while it works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["BlockFinished", "Event", "Listener", "PassFinished", "PassStarted", "StepStarted"]


@dataclass(frozen=True)
class StepStarted:
    """The driver starts a step of its own, such as the factorisation."""

    name: str


@dataclass(frozen=True)
class PassStarted:
    """A pass over the data starts."""

    name: str
    blocks: int
    rows: int


@dataclass(frozen=True)
class BlockFinished:
    """One row block of a pass is done."""

    name: str
    rows: int


@dataclass(frozen=True)
class PassFinished:
    """A pass over the data is done."""

    name: str
    blocks: int
    rows: int
    bytes_read: int
    seconds: float
    worker_seconds: float


Event: TypeAlias = StepStarted | PassStarted | BlockFinished | PassFinished
Listener: TypeAlias = Callable[[Event], None]
