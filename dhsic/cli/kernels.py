"""The kernels that a command is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import click

from dhsic._validation import nearest
from dhsic.kernels import Aggregate, Candidates, Combine, Grid, Kernel, parse


def _numbers_of_option(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[float, ...] | None:
    del context, option
    try:
        return None if value is None else tuple(float(number) for number in value.split(","))
    except ValueError as error:
        msg = f"give numbers with commas between them, as 0.5,1,2; got {value!r}"
        raise click.BadParameter(msg) from error


KERNEL_OPTIONS = (
    click.option(
        "--kernel",
        "kernels",
        multiple=True,
        metavar="[NAME=]SPEC",
        help="Kernel of one variable, as 'year=gaussian:0.5', or of all others, as 'laplacian' or "
        "'delta'; the median heuristic sets a bandwidth that is left out. 'ranks(gaussian)' and "
        "'scores(gaussian)' compare ranks and normal scores, whatever the units. "
        "'gaussian|laplacian' tries several.  [default: several kernels of values, ranks and "
        "normal scores, or one gaussian if the estimator or the null takes one kernel; delta for "
        "categories and booleans]",
    ),
    click.option(
        "--factors",
        callback=_numbers_of_option,
        metavar="LIST",
        help="Try every kernel (gaussian unless --kernel is given) at these multiples of its "
        "length scale, as 0.25,0.5,1,2.  [for nystrom-m, rff-hsic, v-hsic, u-hsic]",
    ),
    click.option(
        "--combine",
        type=click.Choice(get_args(Combine)),
        help="Combinations of kernels to try: auto takes those of the median heuristic and some "
        "others; all takes every combination; matched takes the first kernel of every variable, "
        "the second of every variable, and so on.  [default: auto]",
    ),
    click.option(
        "--aggregate",
        type=click.Choice(get_args(Aggregate)),
        help="Join several kernels into one test: soft takes the soft maximum of the standardised "
        "statistics, which gathers what several kernels find; max takes the largest of them; min-p "
        "takes the smallest p-value.  [default: soft]",
    ),
    click.option(
        "--reference-share",
        type=float,
        metavar="SHARE",
        help="Share of the weight for the kernels of the median heuristic; 0 weights all kernels "
        "equally.  [default: 1/2]",
    ),
)

KERNEL_OPTION = click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="[NAME=]SPEC",
    help="Kernel of one variable, as 'year=gaussian:0.5', or of all others, as 'laplacian'; "
    "the median heuristic sets a bandwidth that is left out.  [default: gaussian]",
)


def single_kernels(specs: Sequence[str], names: Sequence[str]) -> list[Kernel | None]:
    """One kernel a variable, or None where none was given.

    Raises
    ------
    click.UsageError, InvalidArgumentError
        A variable is given several, or a text that is no kernel.
    """
    listed = _listed_kernels(specs, names)
    if any(len(kernels) > 1 for kernels in listed):
        msg = "--kernel takes one kernel per variable in this command: drop the others"
        raise click.UsageError(msg)
    return [next(iter(kernels), None) for kernels in listed]


def read_kernels(options: dict[str, Any], names: Sequence[str]) -> Grid | list[Kernel | None]:
    """One kernel a variable or None; a grid where something was said of several."""
    listed = _listed_kernels(options["kernels"], names)
    factors = options["factors"]
    # Options that say how several kernels are joined, and nothing where there is one.
    how = ("combine", "aggregate", "reference_share")
    given = {name: options[name] for name in how if options[name] is not None}
    if factors is None and not given and all(len(kernels) <= 1 for kernels in listed):
        return [kernels[0] if kernels else None for kernels in listed]
    grid = Grid(tuple(_candidates_of_option(kernels, factors) for kernels in listed), **given)
    # Options that choose among kernels would do nothing where there is one.
    if given and len(grid.combinations(len(names))) == 1:
        option = next(iter(given)).replace("_", "-")
        msg = (
            f"--{option} needs several kernels of a variable: list them as --kernel "
            "'gaussian|laplacian', or give --factors"
        )
        raise click.UsageError(msg)
    return grid


def _candidates_of_option(
    kernels: tuple[Kernel, ...], factors: tuple[float, ...] | None
) -> Candidates:
    """A single kernel as it is, unless factors are given."""
    if len(kernels) == 1 and factors is None:
        return Candidates(kernels, (1.0,))
    return Candidates(kernels or None, factors)


def _listed_kernels(specs: Sequence[str], names: Sequence[str]) -> list[tuple[Kernel, ...]]:
    """Kernels of every variable, from ``SPEC`` for all and ``NAME=SPEC`` for one, or none."""
    chosen: dict[str, tuple[Kernel, ...]] = {}
    for text in specs:
        # From the right, since a name may hold an equals sign as well.
        name, _, spec = text.rpartition("=")
        name = name.strip()
        if name and name not in names:
            msg = (
                f"--kernel NAME=SPEC needs the name of a variable; got {name!r}"
                f"; there are: {', '.join(names)}{nearest(name, names)}"
            )
            raise click.UsageError(msg)
        if name in chosen:
            whose = f"variable {name!r}" if name else "all variables"
            msg = f"--kernel is given twice for {whose}: drop one"
            raise click.UsageError(msg)
        # A bar joins kernels in one text, since --kernel itself may stand once for every variable.
        chosen[name] = tuple(parse(part) for part in spec.split("|"))
    return [chosen.get(name) or chosen.get("", ()) for name in names]
