"""``dhsic test`` and ``dhsic plan``."""

from __future__ import annotations

from typing import Any

import click

import dhsic
from dhsic.cli.journal import Journal, open_journal
from dhsic.cli.methods import pairs_table
from dhsic.cli.options import Request, read_request, test_options
from dhsic.cli.output import print_lines, print_result
from dhsic.cli.pages import Page
from dhsic.cli.recipes import code_of_test
from dhsic.cli.watching import check_targets, seen_run
from dhsic.io.whole import write_whole
from dhsic.results import IndependenceTestResult

__all__ = ["plan", "test"]

_EPILOG = """\b
Estimators: how their time grows with the rows n, b of them a block; how many
variables they take; which nulls stand with them
{table}

\b
Examples
  dhsic {name} songs.zarr --variable features --variable year
  dhsic {name} songs.zarr --variable 'timbre=features[:, 0:12]' \\
      --variable year --kernel year=laplacian --workers 4 --json songs.json
"""


@click.command(
    epilog=_EPILOG.format(name="test", table=pairs_table()),
    short_help="Test variables of DATA.zarr.",
)
@test_options
def test(**options: Any) -> None:
    """Test whether variables of DATA.zarr are jointly independent.

    Prints the statistic, its p-value, with the Monte Carlo error of it where the null is simulated,
    and the decision at the level alpha.
    """
    check_targets(options)
    command = ("dhsic", *click.get_current_context().find_root().obj)
    page = Page(options["page_path"], command)
    with open_journal(options["log_path"], command, options["data"]) as journal:
        request = read_request(options)
        result = _run(request, options, journal, page)
        try:
            if options["json_path"] is not None:
                write_whole(options["json_path"], result.to_json(indent=2) + "\n")
            page.write(result, options, request.place, code_of_test(options, request))
            journal.result(result)
        finally:
            print_result(result, options["alpha"])


def _run(
    request: Request, options: dict[str, Any], journal: Journal, page: Page
) -> IndependenceTestResult:
    """Run a test, seen on the terminal and in the journal."""
    with seen_run(request.client, options, journal, page) as seen:
        return dhsic.independence_test(*request.sources, **seen, **request.arguments)


@click.command(
    epilog=_EPILOG.format(name="plan", table=pairs_table()), short_help="Say what a test would run."
)
@test_options
def plan(**options: Any) -> None:
    """Say what 'dhsic test' with the same options would run, in how much memory.

    Runs nothing and starts nothing. The seed, the level and the files to write are accepted and
    make no difference to a plan.
    """
    planned = read_request(options).plan()
    print_lines(str(planned).splitlines(), indent=8)
    planned.check()
