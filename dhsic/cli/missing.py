"""Options of missing values and absent chunks."""

from __future__ import annotations

from typing import get_args

import click

from dhsic.io.missing import GapTreatment, Missing

MISSING_OPTION = click.option(
    "--missing",
    type=click.Choice(get_args(Missing)),
    default="refuse",
    help="Refuse missing values, or drop the rows that have one and count them.",
)
GAPS_OPTION = click.option(
    "--missing",
    type=click.Choice(get_args(GapTreatment)),
    default="refuse",
    help="Refuse missing values, drop the rows that have one and count them, or keep them and "
    "compare pairs of variables where both are there.",
)
MISSING_CHUNKS_OPTION = click.option(
    "--allow-missing-chunks",
    is_flag=True,
    help="Read absent chunks of zarr arrays as their fill value, where their writer left them out.",
)
MISSING_OPTIONS = (MISSING_OPTION, MISSING_CHUNKS_OPTION)
GAPS_OPTIONS = (GAPS_OPTION, MISSING_CHUNKS_OPTION)
