"""Requests to a queue, whichever it is."""

from __future__ import annotations

from typing import Literal, Protocol, get_args

from dhsic.cluster.submit.runs import SubmittedRun

# The phases that all queues have in common; what is behind them is told by `trouble`.
Phase = Literal["waiting", "running", "ended"]
PHASES: tuple[Phase, ...] = get_args(Phase)


class RunQueue(Protocol):
    """A queue that starts runs."""

    def prepare(self, run: SubmittedRun) -> SubmittedRun:
        """The run with all of its cluster that the user left open."""
        ...

    def render(self, run: SubmittedRun) -> str:
        """All that the queue is given."""
        ...

    def submit(self, run: SubmittedRun, text: str) -> str:
        """Hand over what was rendered; returns the queue's name of the job."""
        ...

    def phase(self, run: SubmittedRun, job: str) -> Phase:
        """Where the job stands; what it left behind is in the folder of the run afterwards."""
        ...

    def trouble(self, run: SubmittedRun, job: str, phase: Phase) -> str | None:
        """The reason why the job waits, with the remedy; None where the queue knows nothing."""
        ...

    def cancel(self, run: SubmittedRun, job: str) -> None:
        """End the job and all that it started."""
        ...

    def clear(self, run: SubmittedRun, job: str) -> bool:
        """Remove what a job that ended left in the queue; False where it leaves nothing."""
        ...
