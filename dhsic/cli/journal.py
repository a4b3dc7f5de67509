"""Journal of a command, as JSON lines."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from errno import ENOSPC
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import click

from dhsic._files import disk_errors, parse_json
from dhsic._version import __version__
from dhsic.cli.app import INTERNAL, INTERRUPTED, USAGE, in_shell
from dhsic.cli.interrupts import at_the_end
from dhsic.engine.events import BlockFinished, Event, PassFinished, PassStarted, Position, as_json
from dhsic.errors import DhsicError
from dhsic.io.urls import redacted

SCHEMA = 1
STDERR = "-"

# Each ends a run: whoever follows a log knows that nothing comes after them.
_ENDINGS = ("result", "error", "interrupted")


class Journal:
    """Writes one JSON object a line, each with one write.

    Every line has ``schema``, the version of this format; ``time``, ISO 8601 in UTC; ``run``, which
    the lines of one command share; and ``event``:

    ``command-started``
        First. ``version`` of dhsic, ``command`` as a list of words, ``data``, ``pid``; URLs show
        no credentials.
    ``workers-ready``
        Where there is a cluster: ``workers``, and ``dashboard``, its URL or null.
    ``run-started``
        The plan: rows ``n``, names of ``variables``, ``workers``, ``threads``, ``worker_bytes``,
        ``driver_bytes``, and ``passes`` over the data, each with ``name``, ``blocks``, ``amount``,
        ``unit`` and ``bytes_read``.
    ``step-started``
        ``name`` of a step that the driver does by itself.
    ``pass-started``, ``block-finished``, ``pass-finished``
        ``name``, ``unit`` and ``amount`` of the pass or block, with the other fields of the events
        of that name in `dhsic.engine.events`; and ``progress``, how far the pass is: ``pass`` of
        ``passes``, ``parts_done`` of ``parts``, ``done`` of ``amount`` in ``unit``, of which an
        earlier run did ``resumed``, ``bytes_done``, ``per_second``, ``bytes_per_second`` and
        ``seconds_left``, each null where it is not known, and ``workers``, null without a cluster.
        ``pass`` is null where it is none of those planned, such as resamples.
    ``result``
        Last where the command did what it was asked: ``statistic``, ``pvalue``, ``pvalue_error``,
        ``estimate``, ``estimator``, ``null``, ``seed``, ``seconds``.
    ``error``
        Last where it did not: ``message``, ``kind`` and ``exit_code``.
    ``interrupted``
        Last after Ctrl-C or SIGTERM: ``exit_code``.

    Parameters
    ----------
    write : callable
        Takes a line; an OSError of it ends the journal with a warning, never the command.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        # Set once the cluster is there; until then no worker can be counted.
        self.workers: Callable[[], int | None] = lambda: None
        self._write: Callable[[str], None] | None = write
        # A log may be that of several runs, even at once.
        self._run = uuid4().hex[:12]
        self._position = Position()

    def tell(self, event: str, **fields: Any) -> None:
        """Write a line; nothing comes after a result, an error or an interrupt."""
        if self._write is None:
            return
        # UTC, so that logs of several machines can be merged.
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"schema": SCHEMA, "time": now, "run": self._run, "event": event, **fields}
        try:
            self._write(json.dumps(line) + "\n")
        # A full disk ends the log and not the test.
        except OSError as error:
            self._write = None
            warnings.warn(f"the log ends here: {error.strerror or error}", stacklevel=2)
        if event in _ENDINGS:
            self._write = None

    def hear(self, event: Event) -> None:
        """Write what the engine tells."""
        self._position = self._position.after(event, monotonic())
        fields = as_json(event)
        if isinstance(event, PassStarted | BlockFinished | PassFinished):
            # The position is taken after the event, which may have ended the pass.
            fields["progress"] = {**self._position.as_json(), "workers": self.workers()}
        self.tell(fields.pop("event"), **fields)

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Write how a block ends where it ends by an error or an interrupt."""

        def interrupted() -> None:
            self.tell("interrupted", exit_code=INTERRUPTED)

        try:
            # Also where the process is ended while library code runs, and no exception is raised.
            with at_the_end(interrupted):
                yield
        except (KeyboardInterrupt, click.Abort):
            interrupted()
            raise
        except Exception as error:
            told = isinstance(error, DhsicError | click.ClickException)
            text = error.format_message() if isinstance(error, click.ClickException) else str(error)
            message = redacted(in_shell(" ".join(text.split())))
            kind = type(error).__name__
            self.tell("error", message=message, kind=kind, exit_code=USAGE if told else INTERNAL)
            raise


@contextmanager
def open_journal(target: str | Path | None, command: Sequence[str], data: str) -> Iterator[Journal]:
    """A journal that says how its block ended.

    Parameters
    ----------
    target : str, Path or None
        A file, which is made or appended to; ``-`` for stderr; None to write nothing.
    command : sequence of str
        The words of the command.
    data : str
        The data.

    Yields
    ------
    Journal
        Its first line is written.

    Raises
    ------
    DataError
        The file cannot be written.
    """
    with _writer(target) as write:
        journal = Journal(write)
        words = [redacted(word) for word in command]
        # URLs may hold passwords, and logs are passed on.
        shown = redacted(data)
        journal.tell(
            "command-started", version=__version__, command=words, data=shown, pid=os.getpid()
        )
        with journal.ending():
            yield journal


def read_journal(path: str | Path) -> list[dict[str, Any]]:
    """Read the lines of the command that started last.

    Parameters
    ----------
    path : str or Path
        A file that ``--log-json`` wrote, or still writes; perhaps not there yet.

    Returns
    -------
    list of dict
        In order, without what is no line of this format: a line that a killed command or a full
        disk left torn, or one of a library on the same stream.
    """
    lines = []
    with suppress(OSError):
        # The last line may be half written by a run that goes on.
        for line in Path(path).read_bytes().decode("utf-8", "replace").splitlines():
            with suppress(ValueError, TypeError, KeyError):
                event = parse_json(line)
                if event["schema"] == SCHEMA and {"time", "run", "event"} <= event.keys():
                    lines.append(event)
    runs = [line["run"] for line in lines if line["event"] == "command-started"]
    # A file may hold several runs, one after another; the last one counts.
    return [line for line in lines if not runs or line["run"] == runs[-1]]


@contextmanager
def _writer(target: str | Path | None) -> Iterator[Callable[[str], None]]:
    if target is None:
        yield lambda line: None
        return
    if target == STDERR:
        yield lambda line: click.echo(line, nl=False, err=True)
        return
    with disk_errors(f"the log {target}"):
        # With O_APPEND the system finds the end for every write, whoever else writes.
        file = open(target, "a+b", buffering=0)  # noqa: SIM115  # closed below

    def write(line: str) -> None:
        # One call writes a whole line, so that lines of several processes do not mix.
        if os.write(file.fileno(), line.encode()) != len(line.encode()):
            raise OSError(ENOSPC, "no space is left for it")

    with file:
        # A run that was killed left half a line: the next one starts on its own.
        if (size := file.seek(0, os.SEEK_END)) and os.pread(file.fileno(), 1, size - 1) != b"\n":
            file.write(b"\n")
        yield write
