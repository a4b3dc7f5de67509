"""``dhsic checkpoints``: what interrupted runs have left, and its removal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click

from dhsic._files import is_terminal
from dhsic.cli.interrupts import at_the_end
from dhsic.cli.output import print_columns
from dhsic.engine.checkpoint import Manifest, find_checkpoints, kept_passes, remove_checkpoint
from dhsic.engine.units import format_bytes
from dhsic.errors import DataError
from dhsic.io.folder import Folder

_WHAT = "the URL of checkpoints"


@contextmanager
def interrupts_keep(url: str | None) -> Iterator[None]:
    """Let an interrupt say that what is done is kept, where it is.

    Raises
    ------
    DhsicError
        Nothing can be kept there; known before any worker starts.
    """
    if url is None:
        yield
        return
    folder = Folder.at(url, "checkpoint")
    words = f"interrupted; what is done is kept in {folder}: run the same command again"
    # Both ways out say the same: by the exception, and where the process is ended from outside.
    with at_the_end(words):
        try:
            yield
        except KeyboardInterrupt as error:
            # The text travels with the interrupt to the place that ends the command.
            raise KeyboardInterrupt(words) from error


@click.group(short_help="List or remove checkpoints of tests.")
def checkpoints() -> None:
    """List or remove the checkpoints that 'dhsic test --checkpoint URL' keeps."""


@checkpoints.command("list")
@click.argument("url")
def list_checkpoints(url: str) -> None:
    """List the checkpoint at URL, or those in the folder there.

    A line for each pass: how many of its parts are kept, their size and the time of the last. Those
    that cannot be read are named at the end.
    """
    found, broken = find_checkpoints(Folder.at(url, _WHAT))
    for folder, manifest in found:
        click.echo(click.style(str(folder), bold=True))
        click.echo(f"  {_manifest_line(manifest)}")
        passes = kept_passes(folder)
        rows = [
            (
                f"  {kept.name}",
                f"{kept.shards} of {kept.of}",
                format_bytes(kept.size),
                "unknown"
                if kept.modified is None
                else f"{datetime.fromtimestamp(kept.modified):%F %T}",
            )
            for kept in passes
        ]
        if rows:
            print_columns(("  pass", "parts", "size", "last written"), rows)
    # Those that can be read were shown first: one that is broken hides none of them.
    _refuse(broken)


@checkpoints.command()
@click.argument("url")
@click.option("--yes", is_flag=True, help="Remove without asking.")
def clean(url: str, yes: bool) -> None:
    # Listed first, so that the question names all that would go.
    """Remove the checkpoint at URL, or those in the folder there.

    Only folders with the manifest of a checkpoint are touched, and in them only its files. A run
    that uses one must have ended.
    """
    found, broken = find_checkpoints(Folder.at(url, _WHAT))
    if found and not yes:
        for folder, manifest in found:
            click.echo(f"{folder}: {_manifest_line(manifest)}")
        # A question to nobody would hang a batch job.
        if not is_terminal(sys.stdin):
            msg = "there is no terminal to confirm on: add --yes to remove them"
            raise click.UsageError(msg)
        click.confirm("Remove?", abort=True)
    for folder, _ in found:
        left = remove_checkpoint(folder)
        # Only files that a checkpoint writes are removed: the folder may be the user's.
        other = f"; {left} other files are left" if left else ""
        click.echo(f"removed {folder}{other}")
    _refuse(broken)


def _refuse(broken: list[DataError]) -> None:
    if broken:
        raise DataError("; ".join(map(str, broken)))


def _manifest_line(manifest: Manifest) -> str:
    """The run of a manifest, in a line."""
    run: dict[str, Any] = manifest.run
    # The manifest is that of any version, whose fields may be others.
    try:
        names = ", ".join(str(variable["name"]) for variable in run["variables"])
        said = f"{run['computes']} of {names}; {run['rows']:,} rows, seed {run['seed']}"
        return f"{said}, {run['precision']}, dhsic {run['dhsic']}"
    except (KeyError, TypeError, ValueError):
        return "a run that this version cannot describe"
