"""``dhsic generate`` and ``dhsic convert``: make zarr groups."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, get_args

import click

from dhsic._progress import progress_bar
from dhsic._text import is_terminal, printable
from dhsic.io.million_song import convert_million_song
from dhsic.io.missing import Missing
from dhsic.io.synthetic import generate as write_synthetic
from dhsic.io.tables import Quotes, columns_by_variable, convert_table
from dhsic.io.zarr_output import WrittenGroup

_LABELS = 4
_WIDTH = 160  # where no terminal says how wide it is

Command = TypeVar("Command", bound=Callable[..., Any])

overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Overwrite a zarr group that exists."
)
_shuffle = click.option(
    "--shuffle",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Write the rows in a random order with this seed, for tests that permute within row "
    "blocks.",
)


@click.command(
    "generate",
    epilog="""\b
Example
  dhsic generate songs.zarr --rows 1000000 --dependence 0.5
""",
)
@click.argument("out", metavar="OUT.zarr")
@click.option(
    "--rows", type=click.IntRange(min=1), metavar="N", required=True, help="Number of rows."
)
@click.option(
    "--features",
    type=click.IntRange(min=1),
    metavar="D",
    default=90,
    help="Number of columns of the features.",
)
@click.option(
    "--dependence",
    type=float,
    metavar="S",
    default=0.3,
    help="Dependence of the year on the features, from 0 (independent) to 1.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="K", default=0, help="Random seed of the data."
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    default="float32",
    help="Floating-point type of the stored values.",
)
@overwrite_option
def generate_command(out: str, **options: Any) -> None:
    """Write synthetic data of any length to OUT.zarr.

    The group has the arrays 'features' and 'year', shaped like the Million Song table.
    """
    with progress_bar() as bar:
        bar.begin("generating", options["rows"])
        written = write_synthetic(out, progress=bar.at, **options)
    _print_written(written)


@click.group()
def convert() -> None:
    """Convert a table to a zarr group."""


@convert.command(
    "million-song",
    epilog="""\b
Example
  dhsic convert million-song YearPredictionMSD.txt songs.zarr --shuffle 0
""",
)
@click.argument("source", metavar="YearPredictionMSD.txt")
@click.argument("out", metavar="OUT.zarr")
@_shuffle
@overwrite_option
def million_song(source: str, out: str, **options: Any) -> None:
    """Convert the Million Song year-prediction file to OUT.zarr.

    The file may be plain, zipped or gzipped. The group has the arrays 'features', with 90 columns,
    and 'year'.
    """
    with progress_bar() as bar:
        bar.begin("converting")
        written = convert_million_song(source, out, progress=bar.at, **options)
    _print_written(written)


@convert.command(
    "table",
    epilog="""\b
Example
  dhsic convert table weather.csv weather.zarr \\
      --variable air=o3,no2 --variable wind=direction --missing drop
""",
)
@click.argument("source", metavar="IN.csv|IN.parquet")
@click.argument("out", metavar="OUT.zarr")
@click.option(
    "--variable",
    "variables",
    multiple=True,
    required=True,
    metavar="NAME=COL,COL,...",
    help="An array of the group and the table columns in it; repeat the option for each "
    "array. Quote a column name that has a comma, as in CSV.",
)
@click.option(
    "--missing",
    type=click.Choice(get_args(Missing)),
    default="refuse",
    help="Refuse missing values, or drop the rows that have one.",
)
@click.option(
    "--na-value",
    "na_values",
    multiple=True,
    metavar="TEXT",
    help="Text that means a missing value, such as -999, besides empty fields, NA, NaN and "
    "null; the option may be repeated.",
)
@click.option(
    "--categorical",
    multiple=True,
    metavar="COLUMN",
    help="Read this column as labels; the option may be repeated.",
)
@click.option(
    "--numeric",
    multiple=True,
    metavar="COLUMN",
    help="Read this column as numbers; other text in it counts as missing. The option may be "
    "repeated.",
)
@click.option(
    "--thousands",
    metavar="CHAR",
    help="Character between thousands in the columns of --numeric, as the comma of 1,200.",
)
@click.option(
    "--decimal",
    type=click.Choice([".", ","]),
    default=".",
    help="Decimal sign of the numbers in a CSV file, and in the columns of --numeric.",
)
@click.option(
    "--delimiter",
    metavar="CHAR",
    help="Field separator of a CSV file.  [default: a comma, or a tab in a .tsv file]",
)
@click.option(
    "--quotes",
    type=click.Choice(get_args(Quotes)),
    default="checked",
    help="Refuse quotes of a CSV file that look stray, as rows would vanish between them; or take "
    "all for fields that hold line breaks; or read quotes as characters.",
)
@click.option(
    "--encoding", metavar="NAME", default="utf-8", help="Encoding of a CSV file, such as latin-1."
)
@_shuffle
@overwrite_option
def table(source: str, out: str, variables: Sequence[str], **options: Any) -> None:
    """Convert columns of a CSV or Parquet file to OUT.zarr.

    Text and true/false columns become codes of categories. A column of text most of which is
    numbers, or in which most rows have a label of their own, is refused: say --numeric or
    --categorical. Prints what became of every column.
    """
    columns = columns_by_variable(variables, named=True)
    with progress_bar() as bar:
        bar.begin("converting")
        written = convert_table(source, out, variables=columns, progress=bar.at, **options)
    _print_written(written)
    _print_columns(written)


def _print_written(written: WrittenGroup) -> None:
    """Say what was written."""
    shapes = ", ".join(f"{name} {rows:,} x {d:,}" for name, (rows, d) in written.shapes.items())
    # Rows that were left out change the population, and are told each time.
    dropped = f"; {written.dropped:,} rows left out" if written.dropped else ""
    click.echo(printable(f"wrote {written.path}: {shapes}{dropped}"))


def _print_columns(written: WrittenGroup) -> None:
    """Print what was read of every column, and what it became."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("column", "array", "type", "read as"):
        table.add_column(name, overflow="fold")
    for name in ("missing", "rejected"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("categories", overflow="fold")
    for column in written.columns:
        # A value that was rejected was there and was no number; one that is missing was not there.
        counts = f"{column.missing:,}", f"{column.rejected:,}"
        read_as = "numbers" if column.kind == "numeric" else "labels"
        texts = column.name, column.variable, column.type, _labels_text(column.categories)
        # Brackets in names of columns would be read as styles.
        *first, labels = (escape(printable(text)) for text in texts)
        table.add_row(*first, read_as, *counts, labels)
    # In a file the width would be that of the 80 columns that rich takes for it.
    Console(highlight=False, width=None if is_terminal(sys.stdout) else _WIDTH).print(table)


def _labels_text(categories: Sequence[str]) -> str:
    if not categories:
        return ""
    shown = ", ".join(categories[:_LABELS]) + (", ..." if len(categories) > _LABELS else "")
    return f"{len(categories):,}: {shown}"
