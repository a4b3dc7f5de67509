"""Progress bars on stderr, where it is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from dhsic.engine.events import BlockFinished, Event, PassStarted, StepStarted

__all__ = ["Bar", "progress_bar"]


class Bar:
    """One line that says what runs and how far it is.

    Parameters
    ----------
    progress : rich.progress.Progress, optional
        Where it is drawn; nowhere where not given.
    """

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def begin(self, what: str, rows: int | None = None) -> None:
        """Start another piece of work, of so many rows where that is known."""
        if self._progress is None:
            return
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(what, total=rows, rows="")

    def at(self, rows: int) -> None:
        """Say how many rows are done."""
        if self._progress is not None and self._task is not None:
            total = self._progress.tasks[0].total
            of = "" if total is None else f" of {total:,.0f}"
            self._progress.update(self._task, completed=rows, rows=f"{rows:,}{of} rows")

    def advance(self, rows: int) -> None:
        """Say that so many rows more are done."""
        if self._progress is not None and self._task is not None:
            self.at(int(self._progress.tasks[0].completed) + rows)

    def listen(self, what: str = "") -> Callable[[Event], None]:
        """A listener of the events of a run, with words to put before them."""

        def hear(event: Event) -> None:
            if isinstance(event, StepStarted):
                self.begin(what + event.name)
            elif isinstance(event, PassStarted):
                self.begin(what + event.name, event.rows)
            elif isinstance(event, BlockFinished):
                self.advance(event.rows)

        return hear


@contextmanager
def progress_bar() -> Iterator[Bar]:
    """A bar that is gone when the block ends; nothing at all where stderr is no terminal."""
    console = Console(stderr=True)
    if not console.is_interactive:
        yield Bar()
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[rows]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        yield Bar(progress)
