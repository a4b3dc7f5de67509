"""``dhsic interaction``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

import dhsic
from dhsic.cli.journal import Journal, open_journal
from dhsic.cli.methods import Kind, read_null
from dhsic.cli.options import LEVEL_OPTION, RUN_OPTIONS, location, read_kernels, with_options
from dhsic.cli.output import print_lines, print_result
from dhsic.cli.pages import Page
from dhsic.cli.recipes import code_of_interaction
from dhsic.cli.watching import check_targets, seen_run
from dhsic.cli.where import Place, read_place
from dhsic.engine.plan import Plan
from dhsic.interaction import INTERACTION_ESTIMATORS, InteractionTestResult
from dhsic.io.open import AnySource, open_group
from dhsic.io.whole import write_whole
from dhsic.nulls import Multiplier, Permutation

__all__ = ["interaction"]

Command = TypeVar("Command", bound=Callable[..., Any])

_EPILOG = """\b
Example
  dhsic interaction songs.zarr --variable 'mean=features[:, 0:12]' \\
      --variable 'rest=features[:, 12:]' --variable year
"""

_KIND = Kind.estimators(INTERACTION_ESTIMATORS, without=("pairing",))
_NULLS = {null.name: null for null in (Permutation, Multiplier)}
_SEVERAL = ("factors", "combine", "aggregate", "reference_share")  # of a grid of kernels

_OPTIONS = (
    click.argument("data", metavar="DATA.zarr"),
    click.option(
        "--variable",
        "variables",
        multiple=True,
        required=True,
        metavar="[NAME=]ARRAY",
        help="An array of the group, or columns of one as 'timbre=features[:, 0:12]'; give it "
        "three times.",
    ),
    click.option(
        "--kernel",
        "kernels",
        multiple=True,
        metavar="[NAME=]SPEC",
        help="Kernel of one variable or of all others, as 'year=gaussian:0.5' or 'laplacian'; a "
        "bandwidth left out follows the median heuristic.  [default: gaussian]",
    ),
    click.option(
        "--estimator",
        type=click.Choice([*INTERACTION_ESTIMATORS]),
        default="nystrom-lancaster",
        help="Of the interaction: at landmarks, or from all pairs of rows.",
    ),
    *_KIND.options(),
    click.option(
        "--null",
        type=click.Choice(["auto", *_NULLS]),
        default="auto",
        help="How the null distributions are made: by permuting one variable, or by random signs.",
    ),
    *Kind.nulls(_NULLS).options(),
)

_LEVEL = (
    click.option(
        "--resamples",
        type=click.IntRange(min=1),
        metavar="N",
        help="Values under every factorisation.  [default: 250]",
    ),
    LEVEL_OPTION,
)
_PLAN = (
    click.option(
        "--plan", "only_plan", is_flag=True, help="Say what would run, in how much memory; no more."
    ),
)


def _options(command: Command) -> Command:
    return with_options(command, _OPTIONS, _LEVEL, _PLAN, RUN_OPTIONS)


@dataclass(frozen=True)
class _Request:
    """A test as it was asked for: variables, arguments besides the client, and where it runs."""

    sources: list[AnySource]
    arguments: dict[str, Any]
    place: Place

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Where the test runs; what cannot fit starts no process."""
        if self.place.planned is not None:
            self.plan().check()
        with self.place.client() as client:
            yield client

    def plan(self) -> Plan:
        """What would run; no process is started for it."""
        planned = self.place.planned
        return dhsic.plan_interaction(*self.sources, client=planned, **self.arguments)


@click.command(epilog=_EPILOG, short_help="Test three variables of DATA.zarr for interaction.")
@_options
def interaction(**options: Any) -> None:
    """Test whether three variables of DATA.zarr interact.

    The hypothesis is that one of them is independent of the two others. Prints the p-value of each
    such factorisation, the largest of them, which is that of the test, and the decision at the
    level alpha.
    """
    if options["only_plan"]:
        planned = _read(options).plan()
        print_lines(str(planned).splitlines(), indent=8)
        planned.check()
        return
    check_targets(options)
    command = ("dhsic", *click.get_current_context().find_root().obj)
    page = Page(options["page_path"], command)
    with open_journal(options["log_path"], command, options["data"]) as journal:
        request = _read(options)
        result = _run(request, options, journal, page)
        try:
            if options["json_path"] is not None:
                write_whole(options["json_path"], result.to_json(indent=2) + "\n")
            code = code_of_interaction(options, request.arguments, request.place)
            page.write(result, options, request.place, code)
            journal.result(result)
        finally:
            print_result(result, options["alpha"])


def _read(options: dict[str, Any]) -> _Request:
    """Open the variables and translate the options.

    Raises
    ------
    click.UsageError, DhsicError
        Options that do not go together, or variables that cannot be opened.
    """
    place, null, given = read_place(options), read_null(options), _KIND.given(options)
    sources = open_group(location(options["data"]), options["variables"])
    names = [source.name for source in sources]
    name: str = options["estimator"]
    arguments = {
        "estimator": INTERACTION_ESTIMATORS[name](**given) if given else name,
        "kernels": read_kernels({**options, **dict.fromkeys(_SEVERAL)}, names),
        "null": null,
        "n_resamples": None if hasattr(null, "n_resamples") else options["resamples"],
        "names": names,
        "precision": options["precision"],
        "threads": place.threads,
        "memory": place.memory,
    }
    return _Request(sources, arguments, place)


def _run(
    request: _Request, options: dict[str, Any], journal: Journal, page: Page
) -> InteractionTestResult:
    """Run a test, seen on the terminal and in the journal."""
    with seen_run(request.client, options, journal, page) as seen:
        return dhsic.interaction_test(*request.sources, **seen, **request.arguments)
