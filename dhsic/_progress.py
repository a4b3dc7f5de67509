"""Progress on stderr, where it is a terminal, or in a notebook.

Rich is slow to import, and is loaded with the first bar.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from dhsic._files import NO_STREAM, is_terminal
from dhsic.engine.checkpoint import removed_at_end
from dhsic.engine.events import Event, Listener, PassFinished, Position, Unit
from dhsic.engine.graph import one_blas_thread
from dhsic.engine.units import format_bytes, format_count
from dhsic.errors import InvalidArgumentError

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Progress = Listener | bool | None
"""A listener; or whether there is a bar: from the start, never, or after two seconds."""

Given = ParamSpec("Given")
Returned = TypeVar("Returned")

# A test of a small table ends before anybody wonders, and needs no bar.
_BAR_DELAY_SECONDS = 2.0
_PAGE_SECONDS = 0.25  # between two changes of a notebook's page
_WITHIN: ContextVar[bool] = ContextVar("within", default=False)  # a function that shows progress
_SHOWN = threading.Lock()  # one bar at a time


class Bar:
    """Progress of a run: a line with a bar, and a line of numbers.

    Parameters
    ----------
    clock : callable, optional
        Seconds of any clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.position = Position(began=clock())
        self.workers: Callable[[], int | None] = lambda: None
        self.spinner: Any = ""
        self._clock = clock

    def begin(
        self, what: str, total: int | None = None, unit: Unit = "rows", done: int = 0
    ) -> None:
        """Start another piece of work, of so many rows or other units where that is known.

        What is done already took no time that was seen here.
        """
        now = self._clock()
        self.position = Position(what, now, unit, total, done, resumed=done, heard=now)

    def at(self, amount: int) -> None:
        """Say how much is done."""
        self.position = replace(self.position, done=amount, heard=self._clock())

    def hear(self, event: Event) -> None:
        """Follow a run by its events."""
        self.position = self.position.after(event, self._clock())

    def texts(self) -> tuple[str, str, str]:
        """What runs, when it ends, and numbers of it, the more important ones first."""
        at, now = self.position, self._clock()
        # Steps of the driver are no passes, and have no number.
        number = "" if at.number is None else f", pass {at.number} of {at.passes}"
        left = at.seconds_left(now)
        if left is None or not at.amount:
            when = _duration(now - at.began)
        else:
            when = f"{100 * at.done // at.amount:3d}%  {_duration(left)} left"
        numbers = list[str]()
        if at.amount is not None:
            workers = self.workers()
            numbers = [
                f"{at.done:,} of {at.amount:,} {at.unit}",
                # A rate over less than a part would be a guess.
                f"{at.rate:,.{0 if at.rate >= 10 else 2}f} {at.unit}/s" if at.rate else "",
                "" if workers is None else format_count(workers, "worker"),
                f"{format_bytes(at.byte_rate)}/s" if at.byte_rate else "",
                f"{at.parts_done:,} of {at.parts:,} blocks" if at.parts else "",
                f"{at.resumed:,} were done before" if at.resumed else "",
            ]
        return f"{at.name}{number}", when, ", ".join(filter(None, numbers))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        at, (what, when, numbers) = self.position, self.texts()
        line = Table.grid(padding=(0, 1), pad_edge=False)
        for _ in range(4):
            line.add_column(no_wrap=True, overflow="ellipsis")
        width = min(max(options.max_width // 5, 8), 24)
        bar = ProgressBar(at.amount, at.done, width, pulse=at.amount is None)
        line.add_row(self.spinner, Text(what), bar, Text(when, style="cyan"))
        yield line
        if numbers:
            yield Text(f"  {numbers}", style="dim", no_wrap=True, overflow="ellipsis")


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


@contextmanager
def progress_bar(shown: bool = True, seconds: float = 0.0) -> Iterator[Bar]:
    """A bar that comes after so many seconds, and is gone when the block ends.

    Nothing comes at all where stderr is no terminal.
    """
    bar, drawn = Bar(), list[Any]()

    def draw() -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        try:
            sys.stderr.flush()
            console = Console(stderr=True)
        except NO_STREAM:
            return
        if console.is_interactive:
            bar.spinner = Spinner("dots")
            live = Live(
                bar, console=console, refresh_per_second=8, transient=True, redirect_stdout=False
            )
            live.start()
            drawn.append(live)

    timer = threading.Timer(seconds, draw)
    # An interpreter that ends must not wait for a bar that was never shown.
    timer.daemon = True
    if shown:
        draw() if seconds <= 0.0 else timer.start()
    try:
        yield bar
    finally:
        timer.cancel()
        # A bar that is just being drawn has to be there to be stopped.
        if timer.is_alive():
            timer.join()
        for live in drawn:
            live.stop()


def shows_progress(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Let `progress` of a function also be true, for a bar, or false, for none.

    The function is one that users call, at whose end checkpoints have served. It works with one
    BLAS thread, wherever its passes run.

    Where it is None, a bar comes after two seconds in terminals and notebooks, unless the function
    is called by another one that could show a bar itself.
    """

    @wraps(function)
    def shown(*args: Given.args, **kwargs: Given.kwargs) -> Returned:
        with removed_at_end(), one_blas_thread(), _listener(kwargs.get("progress")) as listener:
            kwargs["progress"] = listener
            return function(*args, **kwargs)

    return shown


@contextmanager
def _listener(asked: Any) -> Iterator[Listener | None]:
    if asked is not None and not isinstance(asked, bool) and not callable(asked):
        msg = (
            "progress must be True or False, for a bar or none, or callable with one event, got "
            f"{asked!r}"
        )
        raise InvalidArgumentError(msg)
    # A public function that calls another has one bar, its own.
    nested = _WITHIN.get()
    token = _WITHIN.set(True)
    try:
        if callable(asked):
            yield asked
            return
        wanted = asked or (asked is None and not nested)
        loaded = sys.modules.get("IPython")
        shell = None if loaded is None else loaded.get_ipython()
        # IPython in a terminal has a shell without a kernel, and no page to draw on.
        draws = _on_page if getattr(shell, "kernel", None) else None
        draws = draws or (_on_terminal if is_terminal(sys.stderr) else None)
        # Two bars would write over each other: threads that test at once share the terminal.
        if draws is None or not wanted or not _SHOWN.acquire(blocking=False):
            yield _tell if asked and draws is None else None
            return
        try:
            with draws(0.0 if asked else _BAR_DELAY_SECONDS) as listener:
                yield listener
        finally:
            _SHOWN.release()
    finally:
        _WITHIN.reset(token)


@contextmanager
def _on_terminal(seconds: float) -> Iterator[Listener]:
    with progress_bar(seconds=seconds) as bar:
        bar.begin("starting")
        yield bar.hear


@contextmanager
def _on_page(seconds: float) -> Iterator[Listener]:
    """A line below the cell, which an event changes and the end makes empty."""
    # Plain text that is replaced in place: widgets would need an extension of the page.
    display: Any = import_module("IPython.display").display
    bar = Bar()
    due, pages = time.monotonic() + seconds, list[Any]()

    def draw(event: Event) -> None:
        nonlocal due
        bar.hear(event)
        now = time.monotonic()
        if now < due:
            return
        due = now + _PAGE_SECONDS
        line = {"text/plain": "  ".join(filter(None, bar.texts()))}
        if pages:
            pages[0].update(line, raw=True)
        else:
            pages.append(display(line, raw=True, display_id=True))

    try:
        yield draw
    finally:
        for page in pages:
            page.update({"text/plain": ""}, raw=True)


def _tell(event: Event) -> None:
    """A line on stderr for every pass that is done."""
    # Logs of batch jobs are files: a line that is drawn over would fill them.
    if isinstance(event, PassFinished):
        passed = f"{event.amount:,} {event.unit} in {event.seconds:.1f} s"
        with suppress(*NO_STREAM):
            sys.stderr.write(f"dhsic: {event.name}: {passed}\n")
