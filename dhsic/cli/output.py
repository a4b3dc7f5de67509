"""What a command prints on stdout, and the JSON file."""

from __future__ import annotations

import math
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import click

from dhsic.errors import DataError
from dhsic.results import IndependenceTestResult

__all__ = ["aligned", "decision", "print_columns", "print_lines", "print_result", "write_whole"]

_GAP = "  "


def print_result(result: IndependenceTestResult, alpha: float) -> None:
    """Print a result and what it decides."""
    rows = [*result.summary(), ("decision", f"independence {decision(result, alpha)}")]
    width = max(len(label) for label, _ in rows) + len(_GAP)
    for label, text in rows:
        click.echo(click.style(f"{label:<{width}}", bold=True) + _wrap(text, width))


def print_lines(lines: Iterable[str], indent: int) -> None:
    """Print lines whose continuations are indented."""
    for line in lines:
        click.echo(_wrap(line, indent, indent_first=False))


def print_columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of short texts under a header."""
    first, *others = aligned([header, *rows])
    click.echo(click.style(first, bold=True))
    for line in others:
        click.echo(line)


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of short texts whose columns stand one under another."""
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        _GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def decision(result: IndependenceTestResult, alpha: float) -> str:
    """What becomes of independence at a level, and whether more resamples could say otherwise."""
    rejected = result.pvalue <= alpha
    verdict = f"{'rejected' if rejected else 'not rejected'} at level {alpha:g}"
    if result.pvalue_error is None:
        return verdict
    resamples = len(result.null_distribution)
    if 1 / (resamples + 1) > alpha:
        enough = math.ceil(1 / alpha - 1e-9) - 1
        return f"{verdict}; {resamples} resamples never can, take {enough:,} or more"
    if abs(result.pvalue - alpha) < 2 * result.pvalue_error:
        return f"{verdict}; a close call, take more resamples"
    return verdict


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there as a whole or not at all.

    Raises
    ------
    DataError
        The disk refuses.
    """
    partial = path.with_name(f".{path.name}.{uuid4().hex[:8]}.partial")
    try:
        with partial.open("x", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror or error}"
        raise DataError(msg) from error
    finally:
        with suppress(OSError):
            partial.unlink()


def _wrap(text: str, indent: int, *, indent_first: bool = True) -> str:
    """Break a text where a terminal would; leave it in one line where a program reads it."""
    if not sys.stdout.isatty():
        return text
    width = max(shutil.get_terminal_size().columns, indent + 20)
    space = " " * indent
    filled = textwrap.fill(
        text,
        width,
        initial_indent=space if indent_first else "",
        subsequent_indent=space,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled[indent:] if indent_first else filled
