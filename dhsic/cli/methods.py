"""The estimators and nulls that `test` and `plan` take, with their options."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar, get_args

import click
from click.shell_completion import CompletionItem

from dhsic._plugins import load_plugins
from dhsic.cli.output import aligned
from dhsic.estimators import Estimator, EstimatorName, Null, NullName
from dhsic.estimators.features import Form
from dhsic.estimators.nfsic import Placement
from dhsic.estimators.registry import ESTIMATORS, NULLS, nulls_of
from dhsic.landmarks import Pairing, Selection
from dhsic.nulls import MixtureMethod, Variance, Within

Command = TypeVar("Command", bound=Callable[..., Any])

_NULLS_WIDTH = 45  # beside the longest name, in a terminal of 80 columns


def read_number(
    context: click.Context, option: click.Parameter, value: str | None
) -> int | str | None:
    # A signed number is one too, so that the estimator refuses -5 as a number.
    """Numbers as such; what else is a count, the estimator knows."""
    del context, option
    return int(value) if value is not None and re.fullmatch(r"[+-]?\d+", value) else value


class Names(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.2 on
    """One of the names that are known when it is given: plugins and `dhsic.register` add to them.

    Parameters
    ----------
    known : mapping
        The names, besides "auto".
    """

    name = "name"

    def __init__(self, known: Mapping[str, Any]) -> None:
        self.known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name."""
        # Plugins are looked for where a name is unknown, so that others need not wait for them.
        if value not in self.known:
            load_plugins()
        return self._choice.convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names that begin so."""
        load_plugins()
        return self._choice.shell_complete(ctx, param, incomplete)

    @property
    def _choice(self) -> click.Choice[str]:
        return click.Choice(["auto", *self.known])


@dataclass(frozen=True)
class _Field:
    """A field of estimators or nulls that an option sets."""

    name: str
    text: str
    settings: Mapping[str, Any]


# Settings that options share: their types are checked by click, their sizes by the class.
_COUNT: Final = {"callback": read_number, "metavar": "COUNT"}
_ROWS: Final = {"type": int, "metavar": "N"}
_FLAG: Final = {"is_flag": True, "default": None}

# Each option is a field of classes: which of them take it, and its default, is read off them.
_ESTIMATOR_FIELDS: Final = {
    "landmarks": _Field(
        "n_landmarks", "Number of landmarks, or a multiple of sqrt(n) as 8sqrt.", _COUNT
    ),
    "pairing": _Field(
        "pairing",
        "Draw the landmarks of each variable independently, or jointly, as rows of the data.",
        {"type": click.Choice(get_args(Pairing))},
    ),
    "selection": _Field(
        "selection",
        "Method that selects the landmarks from a pool of rows.",
        {"type": click.Choice(get_args(Selection))},
    ),
    "pool": _Field(
        "pool",
        "Size of the pool, as a multiple of the number of landmarks.",
        {"type": int, "metavar": "TIMES"},
    ),
    "features": _Field(
        "n_features",
        "Number of random features (rff-hsic) or of principal features (nystrom-hsic) of "
        "each variable, or auto.",
        _COUNT,
    ),
    "locations": _Field("n_locations", "Number of test locations, or auto.", _COUNT),
    "placement": _Field(
        "placement",
        "Place the locations by optimisation on training rows, or at random.",
        {"type": click.Choice(get_args(Placement))},
    ),
    "training_rows": _Field(
        "training_rows", "Number of training rows, at most half of all.", _ROWS
    ),
    "regularisation": _Field(
        "regularisation",
        "Ridge, relative to the covariance; for nocco it shrinks with n.",
        {"type": float, "metavar": "R"},
    ),
    "form": _Field("form", "Form of the random features.", {"type": click.Choice(get_args(Form))}),
    "orthogonal": _Field("orthogonal", "Draw orthogonal frequencies.", _FLAG),
    "exponent": _Field(
        "exponent",
        "Distance exponent (dcov, dcor), or g for blocks of n^g rows (block-hsic).",
        {"type": float, "metavar": "Q"},
    ),
    "unbiased": _Field("unbiased", "Use the unbiased estimate, which may be negative.", _FLAG),
    "root": _Field("root", "Report the square root of the measure.", _FLAG),
    "block_rows": _Field("block_rows", "Number of rows in a block.", _ROWS),
}

_NULL_FIELDS: Final = {
    "within": _Field(
        "within",
        "Permute all rows, or permute within groups of rows.",
        {"type": click.Choice(get_args(Within))},
    ),
    "group_rows": _Field("group_rows", "Number of rows in a group that is permuted.", _ROWS),
    "variance": _Field(
        "variance",
        "Estimate the variance from moments within blocks, from permuted rows, or from the "
        "spread of the block values.",
        {"type": click.Choice(get_args(Variance))},
    ),
    "method": _Field(
        "method",
        "Compute the tail of the mixture by inversion, or simulate it.",
        {"type": click.Choice(get_args(MixtureMethod))},
    ),
}


@dataclass(frozen=True)
class ClassChoice:
    """Classes by name, and the options that are fields of some of them."""

    name: str
    classes: Mapping[str, Any]
    fields: Mapping[str, _Field]

    @classmethod
    def estimators(cls, classes: Mapping[str, Any], without: Collection[str] = ()) -> ClassChoice:
        """With the options of any of the classes, but for some."""
        return cls("estimator", classes, _fields_of(classes, _ESTIMATOR_FIELDS, without))

    @classmethod
    def nulls(cls, classes: Mapping[str, Any]) -> ClassChoice:
        """With the options of any of the classes."""
        return cls("null", classes, _fields_of(classes, _NULL_FIELDS))

    def options(self, **texts: str) -> tuple[Callable[[Command], Command], ...]:
        """Options that click adds to a command, with `texts` in the place of their own."""
        return tuple(
            click.option(
                f"--{option.replace('_', '-')}",
                **field.settings,
                help=self._help(option, texts.get(option, field.text)),
            )
            for option, field in self.fields.items()
        )

    def takers(self, option: str) -> dict[str, Any]:
        # By the fields of the class, so that a class that is new needs no change here.
        """The classes that have the field of an option, and its default there."""
        return {
            name: field.default
            for name, cls in self.classes.items()
            for field in fields(cls)
            if field.name == self.fields[option].name
        }

    def given(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Values of the fields that options were given for; a command may have some of them only.

        Raises
        ------
        click.UsageError
            The class asked for has no such field.
        """
        chosen = options[self.name]
        given = [option for option in self.fields if options.get(option) is not None]
        for option in given:
            # An option that the choice does not take would be ignored in silence.
            if chosen not in (takers := self.takers(option)):
                msg = (
                    f"--{option.replace('_', '-')} goes with --{self.name} {' or '.join(takers)}"
                    f"; got {chosen}: drop it or change the {self.name}"
                )
                raise click.UsageError(msg)
        return {self.fields[option].name: options[option] for option in given}

    def read(self, options: Mapping[str, Any], auto: str) -> Any:
        """The name, or where options of the class are given the value that they make.

        Where such an option is given, "auto" is the class named `auto`.
        """
        name = options[self.name]
        if name == "auto" and any(options.get(option) is not None for option in self.fields):
            name = auto
        given = self.given({**options, self.name: name})
        return self.classes[name](**given) if given else name

    def _help(self, option: str, text: str) -> str:
        """The help of an option, with the classes that take it and its default in each."""
        names: dict[Any, list[str]] = {}
        for name, default in self.takers(option).items():
            # A default of False or 0 says no more than that nothing is set.
            names.setdefault(default or None, []).append(name)
        takers = [
            f"[for {', '.join(listed)}{'' if default is None else f'; default: {default}'}]"
            for default, listed in names.items()
        ]
        return "  ".join([text, *takers])


def _fields_of(
    classes: Mapping[str, Any], known: Mapping[str, _Field], without: Collection[str] = ()
) -> dict[str, _Field]:
    """Those of the known options that any of the classes has."""
    names = {field.name for cls in classes.values() for field in fields(cls)}
    return {
        option: field
        for option, field in known.items()
        if field.name in names and option not in without
    }


_WITH_LANDMARKS: Final = "nystrom-m"  # takes any number of variables
_ESTIMATOR = ClassChoice.estimators(ESTIMATORS)
_NULL = ClassChoice.nulls(NULLS)


def read_estimator(options: Mapping[str, Any]) -> EstimatorName | Estimator:
    """The name, or where options of the estimator are given the value that they make.

    Raises
    ------
    click.UsageError, InvalidArgumentError
        An option that the estimator does not have, or a value that it cannot use.
    """
    read: EstimatorName | Estimator = _ESTIMATOR.read(options, _WITH_LANDMARKS)
    return read


def read_null(options: Mapping[str, Any]) -> NullName | Null:
    """The name, or where options of the null are given the value that they make.

    Raises
    ------
    click.UsageError, InvalidArgumentError
        An option that the null does not have, or a value that it cannot use.
    """
    name: NullName = options["null"]
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
    """For every estimator what it costs, what it takes, and which nulls stand with it."""
    load_plugins()
    # Estimators of installed plugins too, which are loaded here for the sake of the table.
    rows = []
    for name, cls in ESTIMATORS.items():
        most = "2+" if cls.most_variables is None else str(cls.most_variables)
        nulls = " ".join(null.name for null in nulls_of(cls))
        first, *others = textwrap.wrap(nulls, _NULLS_WIDTH, break_on_hyphens=False) or [""]
        rows.append((name, cls.cost, most, first))
        rows += [("", "", "", more) for more in others]
    return "\n".join(aligned([("estimator", "time", "variables", "nulls"), *rows]))


def estimator_options(default: str) -> tuple[Callable[[Command], Command], ...]:
    """The option of the estimator, of which this is the default, and those of its fields."""
    return (
        click.option(
            "--estimator",
            type=Names(ESTIMATORS),
            default=default,
            show_default=True,
            metavar="NAME",
            help="Estimator, from the table below. auto takes v-hsic for few rows; for many rows "
            "nystrom-hsic with two variables and nystrom-m with more, or nystrom-m if an "
            "estimator option is given.",
        ),
        *_ESTIMATOR.options(
            landmarks="Number of landmarks, or a multiple of sqrt(n) as 8sqrt; with nystrom-m also "
            "auto, which lets a pilot run decide."
        ),
    )


NULL_OPTIONS = (
    click.option(
        "--null",
        type=Names(NULLS),
        default="auto",
        metavar="NAME",
        help="Null distribution, from the table below, or auto.",
    ),
    *_NULL.options(),
)
