"""``dhsic test`` and ``dhsic plan``."""

from __future__ import annotations

from typing import Any

import click

import dhsic
from dhsic.cli.methods import pairs_table
from dhsic.cli.options import read_request, test_options
from dhsic.cli.printing import print_plan, print_test
from dhsic.cli.recipes import code_of_test

_EPILOG = """\b
Estimators: time in the rows n, with b rows per block; number of variables;
available null distributions
{table}

\b
Examples
  dhsic {name} songs.zarr --variable features --variable year
  dhsic {name} songs.zarr --variable 'timbre=features[:, 0:12]' \\
      --variable year --kernel year=laplacian --workers 4 --json songs.json
"""


class _Command(click.Command):
    """A command whose help ends in the table, as it is when help is asked for."""

    # Plugins add estimators, so that the table is made when it is read.
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.epilog = _EPILOG.format(name=self.name, table=pairs_table())
        super().format_epilog(ctx, formatter)


@click.command(cls=_Command, short_help="Test variables of DATA.")
@test_options
def test(**options: Any) -> None:
    """Test whether variables of DATA are jointly independent.

    Prints the statistic, its p-value with the Monte Carlo error of a simulated null, and the
    decision at the level alpha.
    """
    print_test(options, read_request, dhsic.independence_test, code_of_test)


@click.command("plan", cls=_Command, short_help="Print what a test would run, without running it.")
@test_options
def plan_command(**options: Any) -> None:
    """Print the steps, memory and time of 'dhsic test' with the same options.

    The command runs no test and starts no cluster. The seed, the level and output files are
    accepted and do not change the plan.
    """
    print_plan(read_request(options))
