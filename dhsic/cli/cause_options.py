"""The options that the commands of `dhsic cause` share, and how they are run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from dhsic.causal import CrossFitted, Regression, Splines
from dhsic.cli.journal import Journal, open_journal
from dhsic.cli.methods import read_estimator, read_null, read_number
from dhsic.cli.options import (
    CHECKPOINT_OPTION,
    JSON_OPTION,
    LOG_OPTION,
    OVERWRITE_OPTION,
    PERFORMANCE_OPTION,
    PRECISION_OPTION,
    SEED_OPTION,
)
from dhsic.cli.pages import Page
from dhsic.cli.pictures import check_picture
from dhsic.cli.resources import RESOURCE_OPTIONS, TIME_OPTION, RunResources
from dhsic.cli.run_display import check_targets, seen_run
from dhsic.estimators import NystromMHSIC
from dhsic.regression.residuals import REGRESSIONS

REGRESSION_OPTIONS = (
    click.option(
        "--regression",
        type=click.Choice(REGRESSIONS),
        default="splines",
        help="Regression that gives the residuals. All but splines need the extra 'causal' and "
        "hold all rows in memory.",
    ),
    click.option(
        "--knots",
        type=int,
        metavar="N",
        help=f"Number of knots of the splines of a column.  [default: {Splines.n_knots}]",
    ),
    click.option(
        "--folds",
        type=int,
        metavar="N",
        help="Number of folds; each residual comes from a fit without its row. 1 fits splines to "
        f"all rows.  [default: {Splines.n_folds} for splines, {CrossFitted.n_folds} for others]",
    ),
)

LANDMARKS_OPTION = click.option(
    "--landmarks",
    callback=read_number,
    metavar="COUNT",
    help="Number of landmarks of nystrom-m, or a multiple of sqrt(n) as 8sqrt.  [default: "
    f"{NystromMHSIC.n_landmarks}]",
)

METHOD_OPTIONS = (
    click.option(
        "--estimator",
        type=click.Choice(["auto", "v-hsic", "nystrom-m"]),
        default="auto",
        help="Estimator of the dependence; auto takes v-hsic up to 2,000 rows, or 10,000 for more "
        "than 100 graphs, and nystrom-m beyond.",
    ),
    LANDMARKS_OPTION,
    click.option(
        "--null",
        type=click.Choice(["auto", "gamma", "spectral", "permutation", "shifts"]),
        default="auto",
        help="Null distribution of the p-values; auto takes a fitted one (gamma, spectral), whose "
        "p-values can be of any size, if there is one.",
    ),
    click.option(
        "--resamples",
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of replicates of a null that draws some.  [default: 1000 shifts, 250 "
        "permutations]",
    ),
)

CAUSE_RUN_OPTIONS = (
    SEED_OPTION,
    PRECISION_OPTION,
    TIME_OPTION,
    *RESOURCE_OPTIONS,
    JSON_OPTION,
    CHECKPOINT_OPTION,
    LOG_OPTION,
    PERFORMANCE_OPTION,
    OVERWRITE_OPTION,
)


def read_regression(options: dict[str, Any]) -> Regression:
    """The regression that was asked for.

    Raises
    ------
    click.UsageError, InvalidArgumentError
        Options that it does not have, or values that it cannot use.
    """
    name, knots, folds = options["regression"], options["knots"], options["folds"]
    if name == Splines.name:
        given = {"n_knots": knots, "n_folds": folds}
        # None is not given on: the defaults stand in the class alone.
        return Splines(**{key: value for key, value in given.items() if value is not None})
    # An option that the choice does not take would be ignored in silence.
    if knots is not None:
        msg = f"--knots goes with --regression splines; got {name}: drop it"
        raise click.UsageError(msg)
    return CrossFitted(name) if folds is None else CrossFitted(name, n_folds=folds)


def method_arguments(options: dict[str, Any], place: RunResources) -> dict[str, Any]:
    """Options of regression, test and place, as the functions of `dhsic.causal` take them."""
    null = read_null(options)
    return {
        "regression": read_regression(options),
        "estimator": read_estimator(options),
        "null": null,
        # A value of a null has taken the number already, and refuses a second one.
        "n_resamples": None if hasattr(null, "n_resamples") else options["resamples"],
        "missing": options["missing"],
        "precision": options["precision"],
        "threads": place.threads,
        "memory": place.memory,
        "time": options["time"],
    }


class Seen:
    """A run of a command that is seen on the terminal and in the journal.

    Parameters
    ----------
    options : dict
        Those of the command.
    journal : Journal
        Is told of it.
    page : Page
        Absent, since there is no report.
    """

    def __init__(self, options: dict[str, Any], journal: Journal, page: Page) -> None:
        self.options, self.journal, self._page = options, journal, page

    @contextmanager
    def run(self, place: RunResources) -> Iterator[dict[str, Any]]:
        """Arguments of every function of `dhsic.causal`: seed, client, progress, checkpoint."""
        with seen_run(place.client, self.options, self.journal, self._page) as arguments:
            yield arguments


@contextmanager
def seen(options: dict[str, Any], data: str) -> Iterator[Seen]:
    """Refuse what could not be written, and open the journal."""
    # All that can be refused without data is, before a journal says that a command has begun.
    check_targets(options)
    check_picture(options.get("plot_path"))
    command: Sequence[str] = ("dhsic", *click.get_current_context().find_root().obj)
    with open_journal(options["log_path"], command, data) as journal:
        yield Seen(options, journal, Page(None, command))
