"""The estimators and nulls that `test` and `plan` take, with their options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

import click

from dhsic.cli.output import aligned
from dhsic.estimators import Estimator, Null
from dhsic.estimators.nfsic import Placement
from dhsic.estimators.registry import ESTIMATORS, NULLS, TABLE
from dhsic.estimators.rff import Form
from dhsic.landmarks import Pairing, Selection
from dhsic.nulls import Method, Variance, Within

__all__ = [
    "ESTIMATOR_OPTIONS",
    "NULL_OPTIONS",
    "Kind",
    "pairs_table",
    "read_estimator",
    "read_null",
    "read_number",
]


@dataclass(frozen=True)
class Kind:
    """Classes by name, and the options that are fields of some of them."""

    name: str
    classes: Mapping[str, Any]
    options: Mapping[str, str]

    def takers(self, option: str) -> dict[str, Any]:
        """The classes that have the field of an option, and its default there."""
        return {
            name: field.default
            for name, cls in self.classes.items()
            for field in fields(cls)
            if field.name == self.options[option]
        }

    def given(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Values of the fields that options were given for; a command may have some of them only.

        Raises
        ------
        click.UsageError
            The class asked for has no such field.
        """
        chosen = options[self.name]
        given = [option for option in self.options if options.get(option) is not None]
        for option in given:
            if chosen not in (takers := self.takers(option)):
                msg = (
                    f"--{option.replace('_', '-')} goes with --{self.name} {' or '.join(takers)}"
                    f"; got {chosen}: drop it or change the {self.name}"
                )
                raise click.UsageError(msg)
        return {self.options[option]: options[option] for option in given}

    def help(self, option: str, text: str) -> str:
        """The help of an option, with the classes that take it and its default in each."""
        names: dict[Any, list[str]] = {}
        for name, default in self.takers(option).items():
            names.setdefault(default or None, []).append(name)
        takers = [
            f"[for {', '.join(listed)}{'' if default is None else f'; default: {default}'}]"
            for default, listed in names.items()
        ]
        return "  ".join([text, *takers])


_ESTIMATOR = Kind(
    "estimator",
    ESTIMATORS,
    {
        "landmarks": "n_landmarks",
        "pairing": "pairing",
        "selection": "selection",
        "pool": "pool",
        "features": "n_features",
        "locations": "n_locations",
        "placement": "placement",
        "training_rows": "training_rows",
        "regularisation": "regularisation",
        "form": "form",
        "orthogonal": "orthogonal",
        "exponent": "exponent",
        "unbiased": "unbiased",
        "block_rows": "block_rows",
    },
)
_NULL = Kind(
    "null",
    NULLS,
    {"within": "within", "group_rows": "block_rows", "variance": "variance", "method": "method"},
)


def read_estimator(options: Mapping[str, Any]) -> str | Estimator:
    """The name, or where options of the estimator are given the value that they make.

    Raises
    ------
    click.UsageError, InvalidArgumentError
        An option that the estimator does not have, or a value that it cannot use.
    """
    name: str = options["estimator"]
    given = _ESTIMATOR.given(options)
    return ESTIMATORS[name](**given) if given else name


def read_null(options: Mapping[str, Any]) -> str | Null:
    """The name, or where options of the null are given the value that they make.

    Raises
    ------
    click.UsageError, InvalidArgumentError
        An option that the null does not have, or a value that it cannot use.
    """
    name: str = options["null"]
    given = _NULL.given(options)
    if not given:
        return name
    if options["resamples"] is not None:
        if given.get("method") == "inversion":
            msg = "--resamples goes with --method simulation; got inversion: drop one of them"
            raise click.UsageError(msg)
        if any(field.name == "n_resamples" for field in fields(NULLS[name])):
            given["n_resamples"] = options["resamples"]
    return NULLS[name](**given)


def pairs_table() -> str:
    """A line an estimator: what it costs, what it takes, which nulls stand with it."""
    rows = [
        (
            entry.estimator.name,
            entry.cost,
            "2 or more" if entry.most_variables is None else str(entry.most_variables),
            ", ".join(null.name for null in entry.nulls),
        )
        for entry in TABLE
    ]
    return "\n".join(aligned([("estimator", "time", "variables", "nulls"), *rows]))


def read_number(
    context: click.Context, option: click.Parameter, value: str | None
) -> int | str | None:
    """Numbers as such; what else is a count, the estimator knows."""
    del context, option
    return int(value) if value is not None and re.fullmatch(r"[+-]?\d+", value) else value


ESTIMATOR_OPTIONS = (
    click.option(
        "--estimator",
        type=click.Choice(["auto", *ESTIMATORS]),
        default="nystrom-m",
        metavar="NAME",
        help="One of the table below, or auto: v-hsic where that is quick and fits the memory, "
        "nystrom-m beyond.",
    ),
    click.option(
        "--landmarks",
        callback=read_number,
        metavar="COUNT",
        help=_ESTIMATOR.help(
            "landmarks",
            "A number, or a multiple of sqrt(n) as 8sqrt; auto (nystrom-m) for as many as a pilot "
            "finds enough.",
        ),
    ),
    click.option(
        "--pairing",
        type=click.Choice(get_args(Pairing)),
        help=_ESTIMATOR.help(
            "pairing",
            "Landmarks drawn for every variable by itself, unless joint is asked for: rows of the "
            "data.",
        ),
    ),
    click.option(
        "--selection",
        type=click.Choice(get_args(Selection)),
        help=_ESTIMATOR.help("selection", "How landmarks are chosen from a pool of rows."),
    ),
    click.option(
        "--pool",
        type=int,
        metavar="TIMES",
        help=_ESTIMATOR.help("pool", "Rows of the pool, a multiple of the landmarks."),
    ),
    click.option(
        "--features",
        callback=read_number,
        metavar="COUNT",
        help=_ESTIMATOR.help("features", "Random features of every variable."),
    ),
    click.option(
        "--locations",
        callback=read_number,
        metavar="COUNT",
        help=_ESTIMATOR.help("locations", "Test locations, or auto."),
    ),
    click.option(
        "--placement",
        type=click.Choice(get_args(Placement)),
        help=_ESTIMATOR.help("placement", "Of the locations: by training rows, or at random."),
    ),
    click.option(
        "--training-rows",
        type=int,
        metavar="N",
        help=_ESTIMATOR.help("training_rows", "Rows to train on, half of all at the most."),
    ),
    click.option(
        "--regularisation",
        type=float,
        metavar="R",
        help=_ESTIMATOR.help(
            "regularisation",
            "Ridge of the covariance, a share of its size; that of nocco falls with the rows.",
        ),
    ),
    click.option(
        "--form",
        type=click.Choice(get_args(Form)),
        help=_ESTIMATOR.help("form", "Of the random features."),
    ),
    click.option(
        "--orthogonal",
        is_flag=True,
        default=None,
        help=_ESTIMATOR.help("orthogonal", "Make the frequencies of the features orthogonal."),
    ),
    click.option(
        "--exponent",
        type=float,
        metavar="Q",
        help=_ESTIMATOR.help(
            "exponent", "Of the distances; or the g of blocks that have n^g rows."
        ),
    ),
    click.option(
        "--unbiased",
        is_flag=True,
        default=None,
        help=_ESTIMATOR.help("unbiased", "Take the unbiased estimate, negative at times."),
    ),
    click.option(
        "--block-rows",
        type=int,
        metavar="N",
        help=_ESTIMATOR.help("block_rows", "Rows of a block."),
    ),
)

NULL_OPTIONS = (
    click.option(
        "--null",
        type=click.Choice(["auto", *NULLS]),
        default="auto",
        metavar="NAME",
        help="How the null distribution is made: as the table below allows, or auto.",
    ),
    click.option(
        "--within",
        type=click.Choice(get_args(Within)),
        help=_NULL.help("within", "Permute among all rows, or within groups of them."),
    ),
    click.option(
        "--group-rows",
        type=int,
        metavar="N",
        help=_NULL.help("group_rows", "Rows of a group, where they are permuted in groups."),
    ),
    click.option(
        "--variance",
        type=click.Choice(get_args(Variance)),
        help=_NULL.help(
            "variance",
            "Take the variance from moments of every block, from permuted rows, or from the values "
            "of the blocks.",
        ),
    ),
    click.option(
        "--method",
        type=click.Choice(get_args(Method)),
        help=_NULL.help("method", "Compute the tail of the mixture, or count draws from it."),
    ),
)
