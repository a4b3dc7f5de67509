"""Progress on stderr, where it is a terminal.

Rich is slow to import, and is loaded with the first bar.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dhsic.engine.events import Event, Unit
from dhsic.engine.telemetry import Position
from dhsic.engine.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.spinner import Spinner
    from rich.text import Text

__all__ = ["Bar", "heading", "measures", "progress_bar"]

_BAR_WIDTH = range(8, 25)
_INDENT = "  "
_NOUNS: dict[Unit, tuple[str, str]] = {
    "rows": ("rows", "blocks"),
    "pairs of rows": ("pairs", "pairs of blocks"),
    "resamples": ("resamples", "ranges"),
}

Clock = Callable[[], float]
Count = Callable[[], int | None]


class Bar:
    """What runs and how far it is: a line with a bar, and a line of numbers.

    Parameters
    ----------
    clock : callable, optional
        Seconds of any clock.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.position = Position()
        self.workers: Count = _unknown
        self._clock = clock
        self._what = ""
        self._shown: tuple[str, Mapping[str, Any]] | None = None

    def begin(self, what: str, total: int | None = None, unit: Unit = "rows") -> None:
        """Start another piece of work, of so many rows or other units where that is known."""
        now = self._clock()
        self._what = ""
        self.position = Position(name=what, began=now, unit=unit, amount=total, heard=now)

    def at(self, amount: int) -> None:
        """Say how much is done."""
        self.position = replace(self.position, done=amount, heard=self._clock())

    def show(self, name: str, progress: Mapping[str, Any]) -> None:
        """Show how far a pass of another process is, from what its journal says of it."""
        if (name, progress) != self._shown:
            self._shown = name, dict(progress)
            self._what, self.workers = "", lambda: progress.get("workers")
            self.position = Position.read(name, progress, self._clock())

    def listen(self, what: str = "") -> Callable[[Event], None]:
        """A listener of the events of a run, with words to put before them."""

        def hear(event: Event) -> None:
            self._what = what
            self.position = self.position.after(event, self._clock())

        return hear

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        position, now = self.position, self._clock()
        numbers = measures(position, self.workers(), options.max_width - len(_INDENT))
        line = Table.grid(padding=(0, 1), pad_edge=False)
        for _ in range(4):
            line.add_column(no_wrap=True, overflow="ellipsis")
        width = min(max(options.max_width // 5, _BAR_WIDTH[0]), _BAR_WIDTH[-1])
        bar = ProgressBar(position.amount, position.done, width, pulse=position.amount is None)
        line.add_row(self._spinner, Text(self._what + heading(position)), bar, _when(position, now))
        yield line
        if numbers:
            yield Text(_INDENT + numbers, style="dim", no_wrap=True, overflow="ellipsis")

    @cached_property
    def _spinner(self) -> Spinner:
        from rich.spinner import Spinner

        return Spinner("dots")


def heading(position: Position) -> str:
    """What runs, and which of how many passes over the data it is."""
    if position.number is None:
        return position.name
    return f"{position.name}, pass {position.number} of {position.passes}"


def measures(position: Position, workers: int | None, width: int) -> str:
    """Amounts, rates and workers; the less important ones only where they fit the width."""
    if position.amount is None:
        return ""
    rate, byte_rate = position.rate, position.byte_rate
    counted, part_name = _NOUNS[position.unit]
    parts = [f"{_of(position.done, position.amount)} {position.unit}"]
    if rate:
        parts.append(f"{_rate(rate)} {counted}/s")
    if workers is not None:
        parts.append(f"{workers:,} worker{'' if workers == 1 else 's'}")
    if byte_rate:
        parts.append(f"{format_bytes(byte_rate)}/s")
    if position.parts:
        parts.append(f"{position.parts_done:,} of {position.parts:,} {part_name}")
    if position.resumed:
        parts.append(f"{position.resumed:,} were done before")
    return _fitting(parts, width)


def _of(done: int, amount: int) -> str:
    if amount < 10**9:
        return f"{done:,} of {amount:,}"
    return f"{done / 1e9:,.1f} of {amount / 1e9:,.1f} billion"


def _rate(rate: float) -> str:
    if rate >= 1e7:
        return f"{rate / 1e6:,.0f} million"
    return f"{rate:,.{0 if rate >= 10 else 2}f}"


def _fitting(parts: Sequence[str], width: int) -> str:
    """As many parts as a line holds, in order; the first at any rate."""
    line = parts[0]
    for part in parts[1:]:
        if len(line) + len(part) + 2 <= width:
            line += ", " + part
    return line


def _when(position: Position, now: float) -> Text:
    """Percent and time left of a pass; time spent where that is not known."""
    from rich.text import Text

    left = position.seconds_left(now)
    if left is None or not position.amount:
        return Text(_duration(now - position.began), style="cyan")
    percent = 100 * position.done // position.amount
    return Text(f"{percent:3d}%  {_duration(left)} left", style="cyan")


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _unknown() -> int | None:
    return None


@contextmanager
def progress_bar(shown: bool = True) -> Iterator[Bar]:
    """A bar that is gone when the block ends; nothing at all where stderr is no terminal."""
    from rich.console import Console
    from rich.live import Live

    console, bar = Console(stderr=True), Bar()
    if not shown or not console.is_interactive:
        yield bar
        return
    with Live(bar, console=console, refresh_per_second=8, transient=True, redirect_stdout=False):
        yield bar
