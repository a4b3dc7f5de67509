"""``dhsic generate`` and ``dhsic convert``: make zarr groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from dhsic._progress import progress_bar
from dhsic.cli.output import print_columns
from dhsic.cli.signature import Command, options_of, summary
from dhsic.errors import printable
from dhsic.io.million_song import convert_million_song
from dhsic.io.synthetic import generate
from dhsic.io.tables import columns_by_variable, convert_table
from dhsic.io.zarr_output import WrittenGroup

_LABELS = 4
_SYNTHETIC, _TABLE = "dhsic.io.synthetic:generate", "dhsic.io.tables:convert_table"
_SONGS = "dhsic.io.million_song:convert_million_song"
_ENDS: Final = ("source", "destination")


def _writes(write: Callable[..., WrittenGroup], what: str) -> Callable[..., None]:
    """A command that writes a zarr group and says what was written."""

    def command(**options: Any) -> None:
        if "variables" in options:
            options["variables"] = columns_by_variable(options["variables"], named=True)
        with progress_bar() as bar:
            bar.begin(what, options.get("rows"))
            written = write(progress=bar.at, **options)
        shapes = ", ".join(f"{name} {rows:,} x {d:,}" for name, (rows, d) in written.shapes.items())
        # Rows that were left out change the population, and are told each time.
        dropped = f"; {written.dropped:,} rows left out" if written.dropped else ""
        click.echo(printable(f"wrote {written.path}: {shapes}{dropped}"))
        if written.columns:
            _print_columns(written)

    return command


_TO: Final = click.Argument(["destination"], metavar="OUT.zarr")
generate_command = Command(
    "generate",
    callback=_writes(generate, "generating"),
    params=[
        _TO,
        *options_of(_SYNTHETIC, ("destination", "dtype")),
        click.Option(
            ["--dtype"],
            type=click.Choice(["float32", "float64"]),
            default="float32",
            help="Floating-point type of the stored values.",
        ),
    ],
    help=summary(_SYNTHETIC),
    epilog="\b\nExample\n  dhsic generate songs.zarr --rows 1000000 --dependence 0.5",
)
_million_song = Command(
    "million-song",
    callback=_writes(convert_million_song, "converting"),
    params=[
        click.Argument(["source"], metavar="YearPredictionMSD.txt"),
        _TO,
        *options_of(_SONGS, _ENDS),
    ],
    help=summary(_SONGS),
    epilog="\b\nExample\n  dhsic convert million-song YearPredictionMSD.txt songs.zarr --shuffle 0",
)
_table = Command(
    "table",
    callback=_writes(convert_table, "converting"),
    params=[
        click.Argument(["source"], metavar="IN.csv|IN.parquet"),
        _TO,
        click.Option(
            ["--variable", "variables"],
            multiple=True,
            required=True,
            metavar="NAME=COL,COL,...",
            help="An array and its columns; quote a name with a comma. May be repeated.",
        ),
        *options_of(_TABLE, (*_ENDS, "variables")),
    ],
    help=f"{summary(_TABLE)} Prints the type and labels of every column.",
    epilog="\b\nExample\n"
    "  dhsic convert table weather.csv weather.zarr \\\n"
    "      --variable air=o3,no2 --variable wind=direction --missing drop",
)
convert = click.Group(
    "convert", commands=[_million_song, _table], help="Convert a table to a zarr group."
)


def _print_columns(written: WrittenGroup) -> None:
    """Print what was read of every column, and what it became."""
    rows = [
        (
            *(column.name, column.variable, column.type),
            "numbers" if column.kind == "numeric" else "labels",
            # A value that was rejected was there and was no number; a missing one was not there.
            *(f"{column.missing:,}", f"{column.rejected:,}", _labels_text(column.categories)),
        )
        for column in written.columns
    ]
    header = ("column", "array", "type", "read as", "missing", "rejected", "categories")
    print_columns(header, rows)


def _labels_text(categories: Sequence[str]) -> str:
    if not categories:
        return ""
    shown = ", ".join(categories[:_LABELS]) + (", ..." if len(categories) > _LABELS else "")
    return f"{len(categories):,}: {shown}"
