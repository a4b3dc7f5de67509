"""Output of commands: text on stdout, and the JSON file."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

import click

from dhsic._files import is_terminal
from dhsic.errors import printable

_GAP = "  "


def print_summary(rows: Sequence[tuple[str, str]], label_width: int = 0) -> None:
    """Print texts with their labels before them, in a column of their width or more."""
    # Labels stand in one column over several calls, where a caller says how wide.
    width = max(label_width, *(len(label) for label, _ in rows)) + len(_GAP)
    for label, text in rows:
        click.echo(click.style(f"{label:<{width}}", bold=True) + _wrap(printable(text), width))


def print_columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of short texts under a header."""
    first, *others = aligned([header, *rows])
    click.echo(click.style(first, bold=True))
    for line in others:
        click.echo(line)


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of short texts whose columns stand one under another."""
    # Escaped first: an escape sequence has more characters than it takes on the screen.
    cells = [list(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        _GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _wrap(text: str, indent: int) -> str:
    """Break a text where a terminal would; leave it in one line where a program reads it."""
    # Other programs read lines, which are not to be broken for them.
    if not is_terminal(sys.stdout):
        return text
    width = max(shutil.get_terminal_size().columns, indent + 20)
    space = " " * indent
    filled = textwrap.fill(
        text,
        width,
        initial_indent=space,
        subsequent_indent=space,
        # Paths and kernels are to be copied whole.
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled[indent:]
