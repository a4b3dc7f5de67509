"""``dhsic two-sample``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

import dhsic
from dhsic.cli.kernels import KERNEL_OPTIONS, read_kernels
from dhsic.cli.methods import NULL_OPTIONS, ClassChoice, read_null
from dhsic.cli.missing import MISSING_OPTIONS
from dhsic.cli.options import (
    LEVEL_OPTIONS,
    TIMED_RUN_OPTIONS,
    Request,
    location,
    read_row_labels,
    with_options,
)
from dhsic.cli.printing import print_plan, print_test
from dhsic.cli.recipes import code_of_samples
from dhsic.cli.resources import read_resources
from dhsic.io.open import open_group_samples
from dhsic.twosample import MMD_ESTIMATORS

Command = TypeVar("Command", bound=Callable[..., Any])

_EPILOG = """\b
Examples
  dhsic two-sample songs.zarr --sample old=timbre60 --sample new=timbre00
  dhsic two-sample songs.zarr --sample 'old[:, 0:12]' --sample 'new[:, 0:12]' \\
      --estimator block-mmd --json drift.json
"""

# Landmarks are drawn from the pooled rows, so that how they pair is no choice here.
_KIND = ClassChoice.estimators(MMD_ESTIMATORS, without=("pairing", "form"))

_OPTIONS = (
    click.argument("data", metavar="DATA"),
    click.option(
        "--sample",
        "samples",
        multiple=True,
        required=True,
        metavar="[NAME=]ARRAY",
        help="A sample: an array of the group, or columns of one as 'old=timbre[:, 0:12]'; of a "
        "table, a column or 'NAME=COL,COL'. Repeat the option for each sample, two or more. "
        "Samples need the same columns, not the same number of rows.",
    ),
    click.option(
        "--estimator",
        type=click.Choice(["auto", *MMD_ESTIMATORS]),
        default="auto",
        help="Estimator of the discrepancy: landmarks (nystrom-mmd), random features, blocks, or "
        "all pairs of rows (v-mmd, u-mmd). auto takes v-mmd for few rows and nystrom-mmd for "
        "many.",
    ),
    *MISSING_OPTIONS,
    click.option(
        "--strata",
        multiple=True,
        metavar="ARRAY",
        help="Labels of the rows of a sample; repeat the option for each sample, in their order. "
        "Rows change sample within their stratum alone.",
    ),
    click.option(
        "--groups",
        multiple=True,
        metavar="ARRAY",
        help="Labels of the rows of a sample, likewise: whole groups change sample with groups of "
        "equally many rows.",
    ),
    *_KIND.options(features="Number of random features.", exponent="Blocks of n^Q rows."),
)

_PLAN = (
    click.option(
        "--plan",
        "only_plan",
        is_flag=True,
        help="Print the plan, with its memory and time, and run nothing.",
    ),
)


def _two_sample_options(command: Command) -> Command:
    return with_options(
        command, _OPTIONS, KERNEL_OPTIONS, NULL_OPTIONS, LEVEL_OPTIONS, _PLAN, TIMED_RUN_OPTIONS
    )


@click.command("two-sample", epilog=_EPILOG, short_help="Compare samples of DATA.")
@_two_sample_options
def two_sample(**options: Any) -> None:
    """Test whether samples of DATA come from one distribution.

    Prints the statistic, its p-value, the squared maximum mean discrepancy, and the decision at the
    level alpha.
    """
    if options["only_plan"]:
        print_plan(_read_two_samples(options))
    else:
        print_test(options, _read_two_samples, dhsic.two_sample_test, code_of_samples)


def _read_two_samples(options: dict[str, Any]) -> Request:
    """Open the samples and translate the options.

    Raises
    ------
    click.UsageError, DhsicError
        Options that do not go together, or samples that cannot be opened.
    """
    place, estimator, null = (
        read_resources(options),
        _KIND.read(options, "nystrom-mmd"),
        read_null(options),
    )
    allowed = options["allow_missing_chunks"]
    data = location(options["data"])
    samples = open_group_samples(data, options["samples"], allow_missing_chunks=allowed)
    # The name by which --kernel may call it.
    kernels = read_kernels(options, ["values"])
    arguments = {
        "estimator": estimator,
        # Samples have one kernel between them, that of their values.
        "kernels": kernels[0] if isinstance(kernels, list) else kernels,
        "null": null,
        "n_resamples": None if hasattr(null, "n_resamples") else options["resamples"],
        "missing": options["missing"],
        **read_row_labels(options),
        "precision": options["precision"],
        "threads": place.threads,
        "memory": place.memory,
        "time": options["time"],
    }
    return Request(samples, arguments, place, dhsic.plan_two_sample)
