"""Seconds of a run, from one block of each of its passes."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

from dhsic.engine.plan import PassPlan, Times


@dataclass
class Pilot:
    """Clock of a run that computes one block of every pass, and one range of replicates.

    Parameters
    ----------
    threads : int
        Threads that the whole run has.
    """

    threads: int
    steps: dict[str, float] = field(default_factory=dict)
    blocks: dict[str, int] = field(default_factory=dict)
    processor: float = 0.0
    _name: str = "open"
    _since: float = field(default_factory=perf_counter)

    def step(self, name: str) -> None:
        """End a step of the driver and begin another."""
        elapsed = perf_counter() - self._since
        self._add(self._name, elapsed, elapsed)
        self._name = name

    def block(self, plan: PassPlan, amount: int, seconds: float) -> None:
        """Count a pass by the seconds of a block of so many rows, or pairs of them."""
        whole = seconds * plan.amount / amount
        # A thread takes whole tasks, so that the last round may leave others idle.
        rounds = -(-plan.leaves // self.threads)
        self._add(plan.name, whole * rounds / plan.leaves, whole)
        self.blocks[plan.name] = amount

    def replicates(self, name: str, count: int, amount: int, seconds: float) -> None:
        """Count replicates by the seconds of so many of them."""
        whole = seconds * count / amount
        self._add(name, whole / self.threads, whole)
        self.blocks[name] = amount

    def times(self) -> Times | None:
        """Seconds of the run; None where no pass and no replicates were reached."""
        self.step("")
        return Times(self.steps, self.processor, self.blocks) if self.blocks else None

    def _add(self, name: str, elapsed: float, processor: float) -> None:
        self.steps[name] = self.steps.get(name, 0.0) + elapsed
        self.processor += processor
        self._since = perf_counter()
