"""``dhsic rank``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, get_args

import click

import dhsic
from dhsic.cli.journal import Journal, open_journal
from dhsic.cli.methods import read_estimator, read_null
from dhsic.cli.missing import GAPS_OPTIONS
from dhsic.cli.options import (
    LEVEL_OPTION,
    ORDER_OPTIONS,
    STRATA_OPTION,
    TIMED_RUN_OPTIONS,
    Request,
    groups_option,
    opened,
    read_rows,
    with_options,
)
from dhsic.cli.output import print_columns, print_summary
from dhsic.cli.pages import Page
from dhsic.cli.printing import print_plan
from dhsic.cli.recipes import code_of_ranking
from dhsic.cli.resources import RunResources, read_resources
from dhsic.cli.run_display import check_targets, seen_run
from dhsic.io.tables import is_table, other_columns
from dhsic.io.variables import Variable
from dhsic.io.whole import write_whole
from dhsic.kernels import Kernel, parse
from dhsic.nulls import Control, Within
from dhsic.ranking import ColumnRanking
from dhsic.ranking.result import By

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.argument("data", metavar="DATA"),
    click.option(
        "--features",
        "variable",
        metavar="[NAME=]ARRAY",
        help="The columns to rank: an array of the group, or columns of one as 'features[:, "
        "0:12]'; of a table 'NAME=COL,COL', or all but the target and labels of rows where this "
        "is left out.",
    ),
    click.option(
        "--target",
        required=True,
        metavar="[NAME=]ARRAY",
        help="The target: an array of the group, or a column of a table.",
    ),
    click.option(
        "--group",
        "groups",
        multiple=True,
        metavar="NAME=COLUMNS",
        help="Rank groups of columns instead of single ones, as 'timbre=0:12', 'rest=12,15,20' or "
        "by column names; numbers count the columns of --features.",
    ),
    click.option(
        "--by",
        type=click.Choice(get_args(By)),
        default="pvalue",
        help="Rank by this measure; the standardised statistic breaks ties of p-values. "
        "sensitivity uses all columns jointly, takes more passes, and is exploratory.",
    ),
    click.option(
        "--kernel",
        "feature_kernels",
        metavar="SPEC",
        help="Kernel of each feature; the median heuristic of the feature sets a bandwidth that "
        "is left out.  [default: gaussian for numbers, delta for categories]",
    ),
    click.option(
        "--target-kernel",
        metavar="SPEC",
        help="Kernel of the target.  [default: gaussian for numbers, delta for categories]",
    ),
    click.option(
        "--estimator",
        type=click.Choice(["auto", "nystrom-m", "nystrom-hsic", "v-hsic"]),
        default="auto",
        help="Estimator: v-hsic takes time quadratic in the rows, nystrom-hsic "
        "and nystrom-m linear; auto takes v-hsic for few rows, then nystrom-hsic.",
    ),
    click.option(
        "--landmarks",
        metavar="COUNT",
        help="Number of landmarks, or a multiple of sqrt(n) as 8sqrt.  [default: 8sqrt; 2sqrt "
        "with nystrom-hsic]",
    ),
    click.option(
        "--pairing",
        type=click.Choice(["independent", "joint"]),
        help="Draw the landmarks of each variable independently, or jointly, as rows of the data.",
    ),
    click.option(
        "--null",
        type=click.Choice(["auto", "shifts", "permutation"]),
        default="auto",
        help="Null distribution: shifts of the target within groups of rows (auto), or "
        "permutations.",
    ),
    click.option(
        "--within",
        type=click.Choice(get_args(Within)),
        help="Permute all rows, or permute within groups of rows.",
    ),
    click.option(
        "--group-rows", type=int, metavar="N", help="Number of rows in a group that is permuted."
    ),
    click.option(
        "--resamples",
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of replicates under the null hypothesis.  [default: 1000 shifts, 250 "
        "permutations]",
    ),
    click.option(
        "--control",
        type=click.Choice(get_args(Control)),
        default="bh",
        help="Correction for multiple testing: bh and by control the false discovery rate, the "
        "others the family-wise error rate.",
    ),
    click.option(
        "--top",
        type=click.IntRange(min=1),
        metavar="N",
        default=20,
        help="Number of features to print.",
    ),
    click.option(
        "--plan",
        "only_plan",
        is_flag=True,
        help="Print the plan, with its memory, and run nothing.",
    ),
    LEVEL_OPTION,
    *GAPS_OPTIONS,
    STRATA_OPTION,
    groups_option("--row-groups"),
    *ORDER_OPTIONS,
    *TIMED_RUN_OPTIONS,
)


def _rank_options(command: Command) -> Command:
    return with_options(command, _OPTIONS)


@click.command(
    epilog="""\b
Examples
  dhsic rank weather.csv --target ozone
  dhsic rank songs.zarr --features features --target year --precision float32
  dhsic rank songs.zarr --features features --target year \\
      --group timbre=0:12 --group covariances=12:90 --control max-t
""",
    short_help="Rank columns of DATA by their dependence on a target.",
)
@_rank_options
def rank(**options: Any) -> None:
    """Rank the columns of an array of DATA by their dependence on a target.

    Prints HSIC, normalised HSIC and p-values of the columns, the strongest first, and the columns
    found at the level alpha.
    """
    check_targets(options)
    # As in `print_test`; a ranking has columns and no single decision, and prints a table.
    command = ("dhsic", *click.get_current_context().find_root().obj)
    page = Page(options["page_path"], command)
    place = read_resources(options)
    options["variable"] = options["variable"] or _all_features(options)
    features, target = opened(options, [options["variable"], options["target"]])
    arguments = _ranking_arguments(options, place, features)
    if options["only_plan"]:
        planner = partial(dhsic.plan_ranking, by=options["by"])
        print_plan(Request([features, target], arguments, place, planner))
        return
    with open_journal(options["log_path"], command, options["data"]) as journal:
        result = _run_ranking(features, target, arguments, options, place, journal, page)
        try:
            if options["json_path"] is not None:
                write_whole(options["json_path"], result.to_json(indent=2) + "\n")
            page.write(result, options, place, code_of_ranking(options, arguments, place))
            strongest = result.ranked()[0].name
            journal.tell("result", features=len(result.features), strongest=strongest)
        finally:
            _print(result, options)


def _all_features(options: dict[str, Any]) -> str:
    """All columns of a table that have no other task."""
    if not is_table(options["data"]):
        msg = "--features must name the array whose columns are ranked, got none: name it"
        raise click.UsageError(msg)
    labels = [options[what] for what in ("strata", "row_groups") if options[what] is not None]
    return other_columns(options["data"], [options["target"], *labels])


def _ranking_arguments(
    options: dict[str, Any], place: RunResources, features: Variable
) -> dict[str, Any]:
    """Arguments that planning and ranking share, besides the client."""
    # --features are columns here, and random features to the estimators' options.
    asked = {**options, "features": None}
    # A text such as 8sqrt stays one; with a sign the number is refused as a number.
    if (options["landmarks"] or "").lstrip("+-").isdigit():
        asked["landmarks"] = int(options["landmarks"])
    null = read_null(asked)
    return {
        "groups": _column_groups(options["groups"], features.shape[1]),
        "feature_kernels": _kernel_of_option(options["feature_kernels"]),
        "target_kernel": _kernel_of_option(options["target_kernel"]),
        "estimator": read_estimator(asked),
        "null": null,
        "n_resamples": None if hasattr(null, "n_resamples") else options["resamples"],
        "missing": options["missing"],
        **read_rows(options, "row_groups"),
        "precision": options["precision"],
        "threads": place.threads,
        "memory": place.memory,
        "time": options["time"],
    }


def _kernel_of_option(text: str | None) -> Kernel | None:
    return None if text is None else parse(text)


def _run_ranking(
    features: Variable,
    target: Variable,
    arguments: dict[str, Any],
    options: dict[str, Any],
    place: RunResources,
    journal: Journal,
    page: Page,
) -> ColumnRanking:
    """Run a ranking, seen on the terminal and in the journal."""
    with seen_run(place.client, options, journal, page) as seen:
        return dhsic.rank_features(features, target, by=options["by"], **seen, **arguments)


def _print(ranking: ColumnRanking, options: dict[str, Any]) -> None:
    summary = ranking.summary()
    print_summary(summary)
    print_columns(*ranking.table(options["top"]))
    alpha, control = options["alpha"], options["control"]
    # The same level and control as in the table above, of all columns and not only those shown.
    rejected = ranking.rejected(alpha, control)
    listed = ", ".join(rejected[: options["top"]]) + (
        ", ..." if len(rejected) > options["top"] else ""
    )
    count = f"{len(rejected):,} of {len(ranking.features):,} at level {alpha:g} by {control}"
    width = max(len(label) for label, _ in summary)
    print_summary([("found", f"{count}{f': {listed}' if rejected else ''}")], width)


def _column_groups(texts: Sequence[str], d: int) -> dict[str, list[int | str]] | None:
    """Read ``NAME=COLUMNS`` of every group."""
    groups: dict[str, list[int | str]] = {}
    for text in texts:
        name, _, columns = text.partition("=")
        try:
            # A range leaves its ends out as in Python, where `:12` begins with the first column.
            listed = [j for part in columns.split(",") for j in _range(part, d)]
        except ValueError:
            listed = []
        if not name.strip() or not listed or name.strip() in groups:
            msg = (
                "--group must be NAME=COLUMNS, each name once, with columns as 0:12 or 0,3,5; got "
                f"{text!r}"
            )
            raise click.UsageError(msg)
        groups[name.strip()] = listed
    return groups or None


def _range(text: str, d: int) -> Sequence[int | str]:
    first, colon, last = (part.strip() for part in text.partition(":"))
    if colon:
        return range(int(first or 0), int(last or d))
    # A column whose name is a number is called by its place, as the help says.
    return [int(first) if first.lstrip("+-").isdigit() else first] if first else []
