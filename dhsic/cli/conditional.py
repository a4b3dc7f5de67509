"""``dhsic conditional``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, get_args

import click

import dhsic
from dhsic.cli.kernels import KERNEL_OPTION, single_kernels
from dhsic.cli.missing import MISSING_OPTIONS
from dhsic.cli.options import (
    DATA_OPTIONS,
    LEVEL_OPTION,
    RUN_OPTIONS,
    Request,
    opened,
    with_options,
)
from dhsic.cli.printing import print_plan, print_test
from dhsic.cli.recipes import code_of_conditional
from dhsic.cli.resources import read_resources
from dhsic.conditional.independence import ConditionalMethod

Command = TypeVar("Command", bound=Callable[..., Any])
Returned = TypeVar("Returned")

_EPILOG = """\b
Examples
  dhsic conditional weather.zarr --variable temperature --variable sunshine \\
      --given altitude
  dhsic conditional flights.csv --variable delay --variable length \\
      --given carrier --given month --method strata
"""

_OPTIONS = (
    click.option(
        "--given",
        multiple=True,
        required=True,
        metavar="[NAME=]ARRAY",
        help="A variable that is given; the option may be repeated.",
    ),
    click.option(
        "--method",
        type=click.Choice(get_args(ConditionalMethod)),
        default="auto",
        help="Residuals of kernel features (kernel), or exact permutations within equal values of "
        "what is given (strata). auto takes strata where categories alone are given.",
    ),
    KERNEL_OPTION,
)

_PLAN = (
    click.option(
        "--plan",
        "only_plan",
        is_flag=True,
        help="Print the plan, with its memory and time, and run nothing.",
    ),
)


def _options(command: Command) -> Command:
    return with_options(
        command, DATA_OPTIONS, _OPTIONS, (LEVEL_OPTION,), MISSING_OPTIONS, _PLAN, RUN_OPTIONS
    )


@click.command(epilog=_EPILOG, short_help="Test two variables of DATA given others.")
@_options
def conditional(**options: Any) -> None:
    """Test whether two variables of DATA are independent given others.

    Prints the statistic, its p-value, the kernel partial correlation coefficient, and the decision
    at the level alpha. 'dhsic cause residuals' tests residuals of additive models instead.
    """
    if options["only_plan"]:
        print_plan(_read(options))
    else:
        test = partial(_given_others, dhsic.conditional_independence_test)
        print_test(options, _read, test, code_of_conditional)


def _given_others(
    function: Callable[..., Returned], x: Any, y: Any, *given: Any, **arguments: Any
) -> Returned:
    """Call with the variables after the first two as those that are given."""
    # By name, since the function takes two variables by place and the given ones as a list.
    return function(x, y, given=given, **arguments)


def _read(options: dict[str, Any]) -> Request:
    """Open the variables and translate the options.

    Raises
    ------
    click.UsageError, DhsicError
        Options that do not go together, or variables that cannot be opened.
    """
    if len(options["variables"]) != 2:
        msg = f"two variables are needed: give --variable twice; got {len(options['variables'])}"
        raise click.UsageError(msg)
    # Read before the data, whose opening may take long in a remote store.
    place = read_resources(options)
    sources = opened(options, [*options["variables"], *options["given"]])
    names = [source.name for source in sources]
    kernels = single_kernels(options["kernels"], names[:2])
    arguments = {
        "method": options["method"],
        # A list of None would be a choice, and leave the default no other.
        "kernels": kernels if any(kernels) else None,
        "names": names,
        "missing": options["missing"],
        "precision": options["precision"],
        "threads": place.threads,
        "memory": place.memory,
    }
    return Request(sources, arguments, place, partial(_given_others, dhsic.plan_conditional))
