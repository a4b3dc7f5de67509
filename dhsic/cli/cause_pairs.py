"""``dhsic cause direction`` and ``dhsic cause pairs``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import click
import numpy as np

from dhsic.causal import CausalDirections, directions, plan_direction
from dhsic.causal import direction as find_direction
from dhsic.causal.directions import DirectionCriterion
from dhsic.cli.cause_options import LANDMARKS_OPTION, REGRESSION_OPTIONS, read_regression, seen
from dhsic.cli.methods import read_estimator, read_null, read_number
from dhsic.cli.missing import MISSING_OPTIONS
from dhsic.cli.options import (
    CHECKPOINT_OPTION,
    DATA_OPTIONS,
    JSON_OPTION,
    LOG_OPTION,
    OVERWRITE_OPTION,
    PERFORMANCE_OPTION,
    PLOT_OPTION,
    SEED_OPTION,
    Request,
    opened,
    with_options,
)
from dhsic.cli.output import print_columns, print_summary
from dhsic.cli.pictures import write_picture
from dhsic.cli.printing import PLAN_OPTIONS, print_plan
from dhsic.cli.resources import RESOURCE_OPTIONS, TIME_OPTION, read_resources
from dhsic.errors import DataError
from dhsic.io.cause_effect_pairs import CauseEffectPair, read_pairs
from dhsic.io.whole import write_whole
from dhsic.kernels import parse

_DIRECTION = """\b
Example
  dhsic cause direction weather.zarr --variable altitude \\
      --variable temperature
"""
_PAIRS = """\b
Example
  dhsic cause pairs tuebingen --regression random-forest \\
      --criterion sensitivity --plot accuracy.png
"""

# Options of their own: a direction needs other nulls than a test, and one kernel for all.
_OPTIONS = (
    click.option(
        "--criterion",
        type=click.Choice(get_args(DirectionCriterion)),
        default="p-value",
        help="Compare p-values (larger-p-value scores a pair by the larger one), HSIC of cause "
        "and residuals, or the norms of its sensitivity maps.",
    ),
    click.option(
        "--estimator",
        type=click.Choice(["auto", "v-hsic", "rff-hsic", "nystrom-m"]),
        default="auto",
        help="Estimator of the dependence: all pairs of rows, random features, or landmarks; auto "
        "takes v-hsic where that is within the memory and the time, and nystrom-m beyond.",
    ),
    click.option(
        "--features",
        callback=read_number,
        metavar="COUNT",
        help="Number of random features of each variable, for rff-hsic.  [default: 100]",
    ),
    LANDMARKS_OPTION,
    click.option(
        "--kernel",
        metavar="SPEC",
        default="gaussian",
        help="Kernel of the variables and residuals; the median heuristic sets a bandwidth that "
        "is left out.",
    ),
    click.option(
        "--null",
        type=click.Choice(["gamma", "spectral", "permutation", "shifts"]),
        help="Null distribution of the p-values.  [default: gamma]",
    ),
    click.option(
        "--resamples",
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of replicates of a null that draws some.  [default: 1000 shifts, 250 "
        "permutations]",
    ),
)

_RUN = (
    TIME_OPTION,
    SEED_OPTION,
    *RESOURCE_OPTIONS,
    JSON_OPTION,
    CHECKPOINT_OPTION,
    LOG_OPTION,
    PERFORMANCE_OPTION,
    OVERWRITE_OPTION,
)


def _max_rows(default: int | None) -> Callable[..., Any]:
    text = "Largest number of rows of a pair, drawn at random."
    shown = (
        text if default is not None else f"{text}  [default: all that fit the memory and the time]"
    )
    return click.option("--max-rows", type=int, metavar="N", default=default, help=shown)


def _direction_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return with_options(
        command,
        DATA_OPTIONS,
        MISSING_OPTIONS,
        REGRESSION_OPTIONS,
        _OPTIONS,
        (_max_rows(None),),
        PLAN_OPTIONS,
        _RUN,
    )


@click.command(
    "direction", epilog=_DIRECTION, short_help="Infer which of two variables is the cause."
)
@_direction_options
def direction_command(**options: Any) -> None:
    """Infer which of two variables of DATA is the cause of the other.

    The command regresses each variable on the other and compares the residuals: they depend less on
    the regressor in the direction from cause to effect. Prints the direction, its score, and the
    measures of both directions.
    """
    if len(options["variables"]) != 2:
        msg = f"two variables are needed: give --variable twice; got {len(options['variables'])}"
        raise click.UsageError(msg)
    if options["only_plan"]:
        print_plan(_request(options))
        return
    with seen(options, options["data"]) as run:
        request = _request(options)
        x, y = request.sources
        with run.run(request.place) as watched:
            result = find_direction(x, y, **request.arguments, **watched)
        if options["json_path"] is not None:
            write_whole(options["json_path"], result.to_json(indent=2) + "\n")
        fields = {"direction": result.direction, "score": result.score, "seed": result.seed}
        run.journal.tell("result", **fields, seconds=round(result.seconds, 3))
    print_summary(result.summary())


def _pairs_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return with_options(command, REGRESSION_OPTIONS, _OPTIONS, (_max_rows(2000), PLOT_OPTION), _RUN)


@click.command(
    epilog=_PAIRS, short_help="Infer the direction of many pairs and score the accuracy."
)
@click.argument("folder")
@_pairs_options
@click.option(
    "--top", type=click.IntRange(min=1), metavar="N", default=20, help="Number of pairs to print."
)
def pairs(folder: str, **options: Any) -> None:
    """Infer the cause in each of the pairs in FOLDER.

    The folder has the format of the Tuebingen cause-effect pairs: pair0001.txt and so on, and
    pairmeta.txt with the columns of cause and effect and the weight of each pair. Prints the
    directions, the most confident first, and, if the true ones are known, the accuracy.
    """
    with seen(options, folder) as run:
        read = read_pairs(folder)
        known = _known_directions(read)
        # What cannot be drawn is refused before the pairs are regressed.
        if options["plot_path"] is not None and known is None:
            msg = "--plot needs pairs whose directions are known, got none: drop it"
            raise DataError(msg)
        with run.run(read_resources(options)) as watched:
            result = directions(
                {pair.name: (pair.x, pair.y) for pair in read},
                **watched,
                **_direction_arguments(options),
            )
        if options["json_path"] is not None:
            write_whole(options["json_path"], result.to_json(indent=2) + "\n")
        if known is not None and options["plot_path"] is not None:
            write_picture(options["plot_path"], result.accuracy_curve(*known).plot)
        run.journal.tell("result", pairs=len(read), seed=result.seed, seconds=result.seconds)
    print_columns(*result.table(options["top"]))
    print_summary([*result.summary(), *_right(result, known)])


Known = tuple[np.ndarray[Any, np.dtype[np.bool_]], np.ndarray[Any, np.dtype[np.float64]]]


def _known_directions(read: Sequence[CauseEffectPair]) -> Known | None:
    """True directions and weights, where all are known and any has a weight."""
    truth = np.array([pair.first_is_cause is True for pair in read])
    weights = np.array([pair.weight for pair in read])
    told = all(pair.first_is_cause is not None for pair in read)
    return (truth, weights) if told and weights.any() else None


def _right(result: CausalDirections, known: Known | None) -> list[tuple[str, str]]:
    """A line that tells how right the scores are, by the weights of the pairs."""
    if known is None:
        return []
    # Weighted, since some pairs of the collection are of the same source.
    share = result.accuracy_curve(*known).accuracy[-1]
    return [("right", f"{share:.1%} of the weight of all pairs")]


def _request(options: dict[str, Any]) -> Request:
    """Open the variables and translate the options.

    Raises
    ------
    click.UsageError, DhsicError
        Options that do not go together, or variables that cannot be opened.
    """
    sources = opened(options, options["variables"])
    names = [source.name for source in sources]
    arguments = {"names": names, "missing": options["missing"], **_direction_arguments(options)}
    return Request(sources, arguments, read_resources(options), plan_direction)


def _direction_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `dhsic.causal.direction` from the options."""
    place = read_resources(options)
    # Other criteria make no p-values, so that options of a null would do nothing.
    for name in () if options["criterion"].endswith("p-value") else ("null", "resamples"):
        if options[name] is not None:
            got = options["criterion"]
            msg = f"--{name} needs --criterion p-value or larger-p-value; got {got}: drop it"
            raise click.UsageError(msg)
    return {
        "criterion": options["criterion"],
        "estimator": read_estimator(options),
        "regression": read_regression(options),
        # Left to the criterion where it is not given.
        "null": options["null"] and read_null(options),
        "n_resamples": options["resamples"],
        "kernel": parse(options["kernel"]),
        "max_rows": options["max_rows"],
        "time": options["time"],
        "threads": place.threads,
        "memory": place.memory,
    }
