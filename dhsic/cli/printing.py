"""How the commands that test say what would run, run it, and tell the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dhsic.cli.journal import open_journal
from dhsic.cli.options import Request
from dhsic.cli.output import print_lines, print_result
from dhsic.cli.pages import Page
from dhsic.cli.run_display import check_targets, seen_run
from dhsic.io.whole import write_whole
from dhsic.results import IndependenceTestResult

PLAN_OPTIONS = (
    click.option(
        "--plan",
        "only_plan",
        is_flag=True,
        help="Print the plan, with its memory and time; a block of the data is timed.",
    ),
)


def print_plan(request: Request) -> None:
    """Say what would run, in how much memory and time.

    Raises
    ------
    MemoryBudgetError
        It does not fit.
    """
    planned = request.told()
    print_lines(str(planned).splitlines(), indent=8)
    # After the plan is printed, which says why it does not fit.
    planned.check()


def print_test(
    options: dict[str, Any],
    read: Callable[[dict[str, Any]], Request],
    test: Callable[..., IndependenceTestResult],
    code: Callable[[dict[str, Any], Request], str],
) -> None:
    """Run a test, seen on the terminal and in the journal, write what was asked for, and print it.

    Parameters
    ----------
    options : dict
        Those of the command.
    read : callable
        Opens the data and translates the options.
    test : callable
        The public function.
    code : callable
        Python that gives the result again.
    """
    check_targets(options)
    # The words as they were typed, with options before and after the command.
    command = ("dhsic", *click.get_current_context().find_root().obj)
    page = Page(options["page_path"], command)
    with open_journal(options["log_path"], command, options["data"]) as journal:
        request = read(options)
        # The request is read inside, so that the journal tells of an error in the data, too.
        with seen_run(request.place.client, options, journal, page) as seen:
            result = test(*request.sources, **seen, **request.arguments)
        try:
            if options["json_path"] is not None:
                write_whole(options["json_path"], result.to_json(indent=2) + "\n")
            page.write(result, options, request.place, code(options, request))
            journal.result(result)
        # The result is printed even where its file cannot be written.
        finally:
            print_result(result, options["alpha"])
