"""``dhsic cause``: which variable is the cause of which."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from dhsic.causal import DAGScores, DAGSearch, score_dags, search_dag
from dhsic.causal import residual_independence_test as test_given
from dhsic.cli.cause_options import (
    CAUSE_RUN_OPTIONS,
    METHOD_OPTIONS,
    REGRESSION_OPTIONS,
    Seen,
    method_arguments,
    read_regression,
    seen,
)
from dhsic.cli.cause_pairs import direction_command, pairs
from dhsic.cli.kernels import KERNEL_OPTION, KERNEL_OPTIONS, read_kernels, single_kernels
from dhsic.cli.methods import NULL_OPTIONS, estimator_options, read_estimator, read_null
from dhsic.cli.missing import MISSING_OPTIONS
from dhsic.cli.options import (
    DATA_OPTIONS,
    LEVEL_OPTION,
    LEVEL_OPTIONS,
    ORDER_OPTIONS,
    PLOT_OPTION,
    groups_option,
    opened,
    read_rows,
    with_options,
)
from dhsic.cli.output import print_columns, print_result, print_summary
from dhsic.cli.pictures import write_picture
from dhsic.cli.resources import read_resources
from dhsic.io.whole import write_whole

_DAGS = """\b
Example
  dhsic cause dags weather.zarr --variable altitude --variable temperature \\
      --variable sunshine --plot dags.png
"""
_ORDER = """\b
Example
  dhsic cause order songs.zarr --variable a --variable b --variable c \\
      --variable d --variable e --variable f
"""
_RESIDUALS = """\b
Example
  dhsic cause residuals weather.zarr --variable temperature \\
      --variable sunshine --given altitude
"""

_OWN_ROWS = ("", "best", "accepted", "minimal")  # that a command says of its own level
_GIVEN = click.option(
    "--given",
    multiple=True,
    required=True,
    metavar="[NAME=]ARRAY",
    help="A variable that both are regressed on; the option may be repeated.",
)


@click.group()
def cause() -> None:
    """Infer causes from independent residuals.

    The regression of a variable on its causes leaves residuals that are independent of them; in the
    other direction residuals and variables usually depend on each other. The methods assume smooth
    functions, additive noise and no hidden common cause. P-values are approximate, because
    residuals are estimated.
    """


def _graph_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return with_options(
        command,
        DATA_OPTIONS,
        MISSING_OPTIONS,
        REGRESSION_OPTIONS,
        (KERNEL_OPTION,),
        METHOD_OPTIONS,
        (LEVEL_OPTION, PLOT_OPTION),
        CAUSE_RUN_OPTIONS,
    )


@cause.command(epilog=_DAGS, short_help="Score all graphs of 2 to 5 variables of DATA.")
@_graph_options
@click.option(
    "--top", type=click.IntRange(min=1), metavar="N", default=10, help="Number of graphs to print."
)
def dags(**options: Any) -> None:
    """Score every causal graph over 2 to 5 variables of DATA.

    A graph is scored by the p-value of the test that the residuals of all variables, each given
    its causes in the graph, are jointly independent. Prints the graphs with the largest p-values,
    the number of graphs not rejected at the level alpha, and the minimal ones among these.
    """
    scores: DAGScores = _run_and_write(score_dags, options)
    _print_scores(scores, options)


@cause.command(epilog=_ORDER, short_help="Search one graph of any number of variables.")
@_graph_options
def order(**options: Any) -> None:
    """Search one causal graph over any number of variables of DATA, by RESIT.

    RESIT first orders the variables: it repeatedly removes the one whose residuals depend least on
    the others. It then drops edges without which the residuals stay independent at the level alpha.
    Prints the graph and the order.
    """
    # The search decides by the level as it goes; scores of all graphs are judged afterwards.
    search: DAGSearch = _run_and_write(search_dag, {**options, "level": options["alpha"]})
    print_summary(search.summary())


def _run_and_write(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Run a function over the variables, and write what was asked for."""
    with seen(options, options["data"]) as run:
        # Before the data are opened: a wrong option is told at once, and starts nothing.
        place = read_resources(options)
        sources = opened(options, options["variables"])
        names = [source.name for source in sources]
        arguments = method_arguments(options, place)
        # Residuals are numbers, whatever the variable is.
        kernels = [kernel or "gaussian" for kernel in single_kernels(options["kernels"], names)]
        if "level" in options:
            arguments["alpha"] = options["level"]
        with run.run(place) as watched:
            result = function(*sources, kernels=kernels, **arguments, **watched)
        _write_found(result, options)
        _tell_graph(run, result)
        return result


def _write_found(result: DAGScores | DAGSearch, options: dict[str, Any]) -> None:
    if options["json_path"] is not None:
        write_whole(options["json_path"], result.to_json(indent=2) + "\n")
    # Only scores of all graphs are judged by a level afterwards; a search has used its own.
    if isinstance(result, DAGScores):
        write_picture(options["plot_path"], partial(result.plot, alpha=options["alpha"]))
    else:
        write_picture(options["plot_path"], result.plot)


def _tell_graph(run: Seen, result: DAGScores | DAGSearch) -> None:
    best = result.best if isinstance(result, DAGScores) else result
    fields = {"graph": str(best.dag), "pvalue": best.pvalue, "estimator": result.estimator}
    run.journal.tell("result", **fields, seed=result.seed, seconds=round(result.seconds, 3))


def _print_scores(scores: DAGScores, options: dict[str, Any]) -> None:
    alpha, top = options["alpha"], options["top"]
    ranked = scores.ranked[:top]
    rows = [(f"{graph.pvalue:.4g}", f"{graph.statistic:.4g}", str(graph.dag)) for graph in ranked]
    print_columns(("p-value", "statistic", "graph"), rows)
    kept = len(scores.accepted(alpha))
    said = f"{kept:,} of {len(scores):,} graphs are not rejected at level {alpha:g}"
    minimal = [("minimal", str(graph.dag)) for graph in scores.minimal(alpha)[:top]]
    # The summary has its level of 5 %, and the command line perhaps another.
    others = [row for row in scores.summary() if row[0] not in _OWN_ROWS]
    print_summary([("accepted", said), *minimal, *others])


def _residual_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return with_options(
        command,
        DATA_OPTIONS,
        (_GIVEN, *MISSING_OPTIONS, groups_option("--groups"), *ORDER_OPTIONS),
        REGRESSION_OPTIONS,
        KERNEL_OPTIONS,
        estimator_options("nystrom-m"),
        NULL_OPTIONS,
        LEVEL_OPTIONS,
        (PLOT_OPTION,),
        CAUSE_RUN_OPTIONS,
    )


@cause.command(epilog=_RESIDUALS, short_help="Test residuals of two variables given others.")
@_residual_options
def residuals(given: tuple[str, ...], **options: Any) -> None:
    """Test whether the residuals of two variables of DATA, given others, are independent.

    This is conditional independence if both variables are smooth functions of the given ones plus
    noise. If the spread of the noise depends on the given ones, the two differ: 'dhsic conditional'
    tests the latter.
    """
    if len(options["variables"]) != 2:
        msg = f"two variables are needed: give --variable twice; got {len(options['variables'])}"
        raise click.UsageError(msg)
    with seen(options, options["data"]) as run:
        place = read_resources(options)
        sources = opened(options, [*options["variables"], *given])
        names = [source.name for source in sources]
        null = read_null(options)
        # The test takes no strata: a category is given as a variable instead.
        rows = read_rows({**options, "strata": None})
        with run.run(place) as watched:
            result = test_given(
                *sources[:2],
                given=sources[2:],
                names=names,
                regression=read_regression(options),
                kernels=read_kernels(options, names[:2]),
                estimator=read_estimator(options),
                null=null,
                # A null that has a number of resamples was given it by `read_null` already.
                n_resamples=None if hasattr(null, "n_resamples") else options["resamples"],
                missing=options["missing"],
                groups=rows["groups"],
                order=rows["order"],
                precision=options["precision"],
                threads=place.threads,
                memory=place.memory,
                time=options["time"],
                **watched,
            )
        if options["json_path"] is not None:
            write_whole(options["json_path"], result.to_json(indent=2) + "\n")
        write_picture(options["plot_path"], lambda: result.plot(alpha=options["alpha"]))
        run.journal.result(result)
    print_result(result, options["alpha"])


cause.add_command(direction_command)
cause.add_command(pairs)
