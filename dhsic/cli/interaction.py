"""``dhsic interaction``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

import dhsic
from dhsic.cli.kernels import read_kernels
from dhsic.cli.methods import ClassChoice, read_null
from dhsic.cli.missing import MISSING_OPTIONS
from dhsic.cli.options import (
    LEVEL_OPTION,
    STRATA_OPTION,
    TIMED_RUN_OPTIONS,
    Request,
    groups_option,
    opened,
    read_row_labels,
    with_options,
)
from dhsic.cli.printing import PLAN_OPTIONS, print_plan, print_test
from dhsic.cli.recipes import code_of_interaction
from dhsic.cli.resources import read_resources
from dhsic.interaction import INTERACTION_ESTIMATORS
from dhsic.nulls import Permutation

Command = TypeVar("Command", bound=Callable[..., Any])

_EPILOG = """\b
Example
  dhsic interaction songs.zarr --variable 'mean=features[:, 0:12]' \\
      --variable 'rest=features[:, 12:]' --variable year
"""

_KIND = ClassChoice.estimators(INTERACTION_ESTIMATORS, without=("pairing",))
_NULLS = {Permutation.name: Permutation}
_SEVERAL = ("factors", "combine", "aggregate", "reference_share")  # of a grid of kernels

_OPTIONS = (
    click.argument("data", metavar="DATA"),
    click.option(
        "--variable",
        "variables",
        multiple=True,
        required=True,
        metavar="[NAME=]ARRAY",
        help="A variable: an array of the group, or columns of one as 'timbre=features[:, 0:12]'; "
        "of a table, a column or 'NAME=COL,COL'. Repeat the option for each of the three "
        "variables.",
    ),
    click.option(
        "--kernel",
        "kernels",
        multiple=True,
        metavar="[NAME=]SPEC",
        help="Kernel of one variable, as 'year=gaussian:0.5', or of all others, as 'laplacian'; "
        "the median heuristic sets a bandwidth that is left out.  [default: gaussian]",
    ),
    click.option(
        "--estimator",
        type=click.Choice([*INTERACTION_ESTIMATORS]),
        default="nystrom-lancaster",
        help="Estimator of the interaction: landmarks (nystrom-lancaster), or all pairs of rows "
        "(v-lancaster).",
    ),
    *_KIND.options(),
    click.option(
        "--null",
        type=click.Choice(["auto", *_NULLS]),
        default="auto",
        help="Null distribution: shifts of one variable (auto), or permutations.",
    ),
    *ClassChoice.nulls(_NULLS).options(),
)

_LEVEL = (
    click.option(
        "--resamples",
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of replicates under each factorisation.  [default: 1000 shifts, 250 "
        "permutations]",
    ),
    LEVEL_OPTION,
)


def _interaction_options(command: Command) -> Command:
    # The test takes no order, so that groups cannot be series.
    labels = STRATA_OPTION, groups_option("--groups", series=False)
    return with_options(
        command, _OPTIONS, labels, _LEVEL, MISSING_OPTIONS, PLAN_OPTIONS, TIMED_RUN_OPTIONS
    )


@click.command(epilog=_EPILOG, short_help="Test three variables of DATA for interaction.")
@_interaction_options
def interaction(**options: Any) -> None:
    """Test whether three variables of DATA interact.

    The null hypothesis is that one variable is independent of the two others. Prints the p-value of
    each such factorisation, the p-value of the test, which is the largest of them, and the decision
    at the level alpha.
    """
    if options["only_plan"]:
        print_plan(_read_interaction(options))
    else:
        print_test(options, _read_interaction, dhsic.interaction_test, code_of_interaction)


def _read_interaction(options: dict[str, Any]) -> Request:
    """Open the variables and translate the options.

    Raises
    ------
    click.UsageError, DhsicError
        Options that do not go together, or variables that cannot be opened.
    """
    # Nulls and estimators are refused before the data are opened.
    place, null, given = read_resources(options), read_null(options), _KIND.given(options)
    sources = opened(options, options["variables"])
    names = [source.name for source in sources]
    name: str = options["estimator"]
    arguments = {
        "estimator": INTERACTION_ESTIMATORS[name](**given) if given else name,
        # The test has no grid: options of one are as if they were not given.
        "kernels": read_kernels({**options, **dict.fromkeys(_SEVERAL)}, names),
        "null": null,
        "n_resamples": None if hasattr(null, "n_resamples") else options["resamples"],
        "names": names,
        "missing": options["missing"],
        **read_row_labels(options),
        "precision": options["precision"],
        "threads": place.threads,
        "memory": place.memory,
        "time": options["time"],
    }
    return Request(sources, arguments, place, dhsic.plan_interaction)
