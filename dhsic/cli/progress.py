"""Progress bars on stderr, where it is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from dhsic.engine.events import BlockFinished, Event, PassStarted, StepStarted, Unit

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

    def begin(self, what: str, total: int | None = None, unit: Unit = "rows") -> None:
        """Start another piece of work, of so many rows or other units where that is known."""
        if self._progress is None:
            return
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(what, total=total, unit=unit, done="")

    def at(self, amount: int) -> None:
        """Say how much is done."""
        if self._progress is not None and self._task is not None:
            task = self._progress.tasks[0]
            of = "" if task.total is None else f" of {task.total:,.0f}"
            done = f"{amount:,}{of} {task.fields['unit']}"
            self._progress.update(self._task, completed=amount, done=done)

    def advance(self, amount: int) -> None:
        """Say that so much more is done."""
        if self._progress is not None and self._task is not None:
            self.at(int(self._progress.tasks[0].completed) + amount)

    def listen(self, what: str = "") -> Callable[[Event], None]:
        """A listener of the events of a run, with words to put before them."""

        def hear(event: Event) -> None:
            if isinstance(event, StepStarted):
                self.begin(what + event.name)
            elif isinstance(event, PassStarted):
                self.begin(what + event.name, event.amount, event.unit)
            elif isinstance(event, BlockFinished):
                self.advance(event.amount)

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
        TextColumn("{task.fields[done]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        yield Bar(progress)
