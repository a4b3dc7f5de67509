"""The report of a command, from what is seen of its run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dhsic.cli.resources import RunResources
from dhsic.engine.events import Event, Listener, RunStarted
from dhsic.engine.memory import peak_bytes, worker_peak_bytes
from dhsic.io.urls import redacted
from dhsic.report import MemoryUse, Run, check_report, write_report
from dhsic.results import Result


class Page:
    """A report, where one was asked for.

    Parameters
    ----------
    path : Path or None
        The file; None for none.
    command : sequence of str
        The words of the command.

    Raises
    ------
    MissingDependencyError
        A library of the extra "report" is not installed.
    """

    def __init__(self, path: Path | None, command: Sequence[str]) -> None:
        # What the page needs is looked for before the run.
        if path is not None:
            check_report()
        self._path = path
        # The page is passed on, unlike the command that was typed.
        self._command = shlex.join([redacted(word) for word in command])
        self._started: RunStarted | None = None
        self._memory: tuple[MemoryUse, ...] = ()

    @property
    def wanted(self) -> bool:
        """Whether one was asked for."""
        return self._path is not None

    def hearing(self, listener: Listener) -> Listener:
        """A listener that keeps the plan and passes all on to another."""

        def hear(event: Event) -> None:
            # Only the plan of the run is kept, of which the report tells the memory.
            if isinstance(event, RunStarted):
                self._started = event
            listener(event)

        return hear

    def measure(self, client: Any) -> None:
        """Look at the memory of all processes, while they are there."""
        if self._path is None or self._started is None:
            return
        planned = self._started
        process = MemoryUse("this process", planned.driver_bytes, peak_bytes())
        if client is None:
            self._memory = (process,)
            return
        # The worker that had most stands for all: the plan bounds each of them.
        worker = MemoryUse("a worker", planned.worker_bytes, worker_peak_bytes(client))
        self._memory = (process, worker)

    def write(
        self,
        result: Result,
        options: dict[str, Any],
        place: RunResources,
        code: str,
    ) -> None:
        """Write the file, with the code that gives the result again.

        Raises
        ------
        DataError
            The disk refuses.
        """
        if self._path is None or self._started is None:
            return
        threads = f"{self._started.threads} thread{'s' if self._started.threads > 1 else ''}"
        # In words and not as the client prints itself, which may hold an address.
        ran_on = f"{threads} of one process"
        if place.cluster is not None:
            ran_on = f"{self._started.workers} worker processes with {threads} in all"
        run = Run(redacted(options["data"]), self._command, code, ran_on, self._memory)
        # Sensitivity maps have no level.
        level = {name: options[name] for name in ("alpha", "control") if name in options}
        write_report(result, self._path, run=run, **level)
