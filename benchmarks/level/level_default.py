"""Rejection rates of every testing function as it is called without options, on independent data.

Kinds of data are those of `benchmarks.shared.null_data`. M counts the variables; for a ranking all
but the last are features, column by column, for a test of samples it counts these, of together n
rows, the last the largest, and of causal functions the causes count too. A function may give more
p-values than one: of a ranking that of the first feature by itself and the smallest that is
adjusted by max-t, of a matrix that of the first and the last variable and the smallest that Holm
adjusts, of an interaction the largest of three and that of the factorisation that is true. Causal
functions regress on smooth functions that splines can follow; theirs are approximate p-values of
residuals, which show the errors of the fit where the noise is rare, discrete or without a variance,
so that they run when they are asked for by name, and belong in a table of their own.

A cell has 2,000 data sets where these take less than ten minutes of the processor, by its first
ones, and 300 elsewhere. `again` counts variables that came out constant and were drawn again,
`refused` data sets that the function would not test. A rate is flagged where it lies above the
upper limit that a test of exactly that level exceeds in 1 of 1,000 studies. Writes
benchmarks/results/level_default.csv, whose rows are kept; --summary reads them and writes
level_default_summary.csv beside, of which `chance` is the probability that a test which keeps its
level rejects as many data sets as in the cell where that is the least likely.

    python -m benchmarks run level_default
    python -m benchmarks run level_default --function rank_features --n 1000 --budget 3600
    python -m benchmarks run level_default --summary
    python -m benchmarks run level_default --function direction --out residuals.csv
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from scipy.stats import binom
from threadpoolctl import threadpool_limits

import dhsic
from benchmarks.level.level import rejection_rates
from benchmarks.shared.cases import Data
from benchmarks.shared.null_data import KINDS, Drawing
from benchmarks.shared.output import keys_of, parallel_map, read_csv, write_csv
from dhsic import causal
from dhsic.errors import DhsicError

LEVELS = (0.1, 0.05, 0.01, 0.001)
NUMBERS = (2, 3, 4, 5)
SIZES = (10, 50, 200, 1000, 5000, 20_000)
KEYS = ("function", "kind", "M", "n")
FIRST = 5
"""Data sets that tell how long a cell takes."""

Table = Sequence[Mapping[str, Any]]
Read = Callable[[Any], float]


@dataclass(frozen=True)
class Function:
    """A public function: what it is given, how it is called, and its p-values."""

    data: Callable[[Drawing, int, int], Data]
    """Independent data of n rows and M variables."""
    call: Callable[..., Any]
    """Takes the data and the options."""
    pvalues: Mapping[str, Read]
    """Each of the result."""
    numbers: Sequence[int] = NUMBERS
    """Of variables that it takes."""


def variables(drawing: Drawing, n: int, m: int) -> Data:
    return drawing.variables(n, m)


def samples(drawing: Drawing, n: int, m: int) -> Data:
    """Sizes grow as 1, 2, ..., M, but are two rows at least."""
    sizes = [max(2, n * k // sum(range(m + 1))) for k in range(1, m)]
    return drawing.samples([*sizes, n - sum(sizes)])


def interacting(drawing: Drawing, n: int, m: int) -> Data:
    return drawing.interacting(n)


def two_effects(drawing: Drawing, n: int, m: int) -> Data:
    return drawing.caused(n, m - 2, 2)


def one_cause(drawing: Drawing, n: int, m: int) -> Data:
    return drawing.caused(n, 1, m - 1)


def rank(*data: Any, **options: Any) -> Any:
    return dhsic.rank_features(np.hstack(data[:-1]), data[-1], **options)


def test_residuals(*data: Any, **options: Any) -> Any:
    *given, x, y = data
    return causal.residual_independence_test(x, y, given=given, **options)


def score_truth(*nodes: Any, **options: Any) -> Any:
    names = [f"x{j}" for j in range(len(nodes))]
    truth = causal.DAG(tuple(names), ((), *((0,) for _ in names[1:])))
    return causal.score_dags(*nodes, names=names, dags=[truth], **options)


def direction(x: Any, y: Any, *, precision: str, **options: Any) -> Any:
    return causal.direction(x, y, **options)


def whole(result: Any) -> float:
    return float(result.pvalue)


LANDMARKS = "independence_test, landmarks"
"""The default of many rows of three variables and more."""

FUNCTIONS: dict[str, Function] = {
    "independence_test": Function(variables, dhsic.independence_test, {"whole": whole}),
    LANDMARKS: Function(
        variables, partial(dhsic.independence_test, estimator="nystrom-m"), {"whole": whole}
    ),
    "two_sample_test": Function(samples, dhsic.two_sample_test, {"whole": whole}),
    "dependence_matrix": Function(
        variables,
        dhsic.dependence_matrix,
        {
            "one pair": lambda found: found.pvalues[0, -1],
            "Holm": lambda found: found.adjusted[np.triu_indices(len(found.names), 1)].min(),
        },
    ),
    "rank_features": Function(
        variables,
        rank,
        {
            "one feature": lambda found: found.features[0].pvalue,
            "max-t": lambda found: min(one.pvalue_max_t for one in found.features),
        },
    ),
    "interaction_test": Function(
        interacting,
        dhsic.interaction_test,
        {"whole": whole, "true factorisation": lambda found: found.factorisations[-1].pvalue},
        (3,),
    ),
    "residual_independence_test": Function(
        two_effects, test_residuals, {"residuals": whole}, (3, 4, 5)
    ),
    "score_dags": Function(one_cause, score_truth, {"true graph": lambda found: found.pvalues[0]}),
    "direction": Function(
        one_cause, direction, {"true direction": lambda found: found.forward.pvalue}, (2,)
    ),
}
RESIDUALS = ("residual_independence_test", "score_dags", "direction")
EXACT = tuple(name for name in FUNCTIONS if name not in RESIDUALS)
SKIPPED = {
    "select_features": "it has scores and no p-values",
    "sensitivity_map": "it has derivatives and no p-values",
    "search_dag": "it chooses the graph by the p-values that it gives",
    "directions": "it is direction of many pairs",
}


@dataclass(frozen=True)
class Cell:
    """A function, a kind of data, and how large these are."""

    function: str
    kind: str
    m: int
    n: int

    @property
    def keys(self) -> dict[str, Any]:
        """What tells it in the table."""
        return dict(zip(KEYS, (self.function, self.kind, self.m, self.n), strict=True))


class Tested(NamedTuple):
    """What a function said of one data set."""

    pvalues: tuple[float, ...]
    """None where it refused the data."""
    null: str
    seconds: float
    again: int


def one_data_set(cell: Cell, number: int) -> Tested:
    """Draw and test a data set, all by the seed that belongs to the cell and the number."""
    function = FUNCTIONS[cell.function]
    named = zlib.crc32(f"{cell.function.split(',')[0]}, {cell.kind}".encode())
    rng = np.random.default_rng([named, cell.m, cell.n, number])
    seed = int(rng.integers(2**31))
    drawing = Drawing(cell.kind, rng)
    data = function.data(drawing, cell.n, cell.m)
    options = {"rng": seed, "threads": 1, "precision": drawing.kind.precision}
    began = time.process_time()
    try:
        found = function.call(*data, **options)
    except DhsicError:
        return Tested((), "", time.process_time() - began, drawing.again)
    pvalues = tuple(float(read(found)) for read in function.pvalues.values())
    null = getattr(found, "null", "")
    return Tested(pvalues, null, time.process_time() - began, drawing.again)


@dataclass(frozen=True)
class Effort:
    """How many data sets a cell has, and how long all may take."""

    many: int = 2000
    few: int = 300
    cell_seconds: float = 600.0
    budget: float = float("inf")
    processes: int = 1

    def run(self, cell: Cell, left: float) -> tuple[list[Tested], float]:
        """Test all data sets of a cell, none where they would not fit what is left; the seconds."""
        first = [one_data_set(cell, number) for number in range(min(FIRST, self.many))]
        typical = float(np.median([one.seconds for one in first]))
        count = self.many if typical * self.many <= self.cell_seconds else min(self.few, self.many)
        if typical * count > left:
            return [], sum(one.seconds for one in first)
        if any(one.pvalues for one in first):
            others = range(len(first), count)
            first += parallel_map(partial(one_data_set, cell), others, self.processes)
        return first, sum(one.seconds for one in first)


def cell_rows(cell: Cell, tested: Sequence[Tested]) -> Iterator[dict[str, Any]]:
    """A row a p-value of the function."""
    answered = [one for one in tested if one.pvalues]
    for place, name in enumerate(FUNCTIONS[cell.function].pvalues):
        pvalues = np.array([one.pvalues[place] for one in answered])
        rates = rejection_rates(pvalues if answered else np.ones(1), LEVELS)
        above = rates.pop("above")
        yield {
            **cell.keys,
            "p-value": name,
            "null": " ".join(sorted({one.null for one in answered})),
            "data sets": len(answered),
            "refused": len(tested) - len(answered),
            "again": sum(one.again for one in tested),
            **(rates if answered else dict.fromkeys(rates, "")),
            "ok": not above,
            "seconds": float(np.mean([one.seconds for one in tested])),
            "version": dhsic.__version__,
        }


def rows(cells: Sequence[Cell], effort: Effort, done: Table) -> Iterator[Mapping[str, Any]]:
    """Those of all cells, small ones first, until the budget is spent."""
    yield from done
    known = {keys_of(row, KEYS) for row in done}
    left = effort.budget
    for cell in cells:
        if keys_of(cell.keys, KEYS) in known:
            continue
        tested, spent = effort.run(cell, left)
        left -= spent
        if tested:
            yield from cell_rows(cell, tested)
        if left <= 0.0:
            break


def cells_of(
    functions: Sequence[str], kinds: Sequence[str], numbers: Sequence[int], sizes: Sequence[int]
) -> list[Cell]:
    """All that are asked for and can be."""
    chosen = product(sizes, functions, numbers, kinds)
    return [Cell(f, kind, m, n) for n, f, m, kind in chosen if m in FUNCTIONS[f].numbers]


def summary(table: Table) -> Iterator[dict[str, Any]]:
    """A row a p-value of a function: all its cells together, and the worst."""
    groups = dict.fromkeys((row["function"], row["p-value"]) for row in table)
    for name, pvalue in groups:
        own = [row for row in table if (row["function"], row["p-value"]) == (name, pvalue)]
        told = [row for row in own if int(row["data sets"])]
        counts = np.array([int(row["data sets"]) for row in told])
        shown = [f"{100 * level:g}%" for level in LEVELS]
        rates = np.array([[float(row[key]) for key in shown] for row in told]).reshape(-1, 4)
        chances = binom.sf(np.round(rates * counts[:, None]) - 1, counts[:, None], LEVELS)
        limits = binom.ppf(0.999, counts[:, None], LEVELS)
        yield {
            "function": name,
            "p-value": pvalue,
            "cells": len(own),
            "data sets": int(counts.sum()),
            "refused": sum(int(row["refused"]) for row in own),
            **dict(zip(shown, _mean(rates, counts), strict=True)),
            "cells above": sum(row["ok"] == "False" for row in told),
            "above by chance": float(binom.sf(limits, counts[:, None], LEVELS).sum()),
            **_worst(told, shown, chances),
        }


def _mean(rates: Any, counts: Any) -> list[float]:
    return [float(x) for x in counts @ rates / max(1, counts.sum())]


def _worst(table: Table, shown: Sequence[str], chances: Any) -> dict[str, Any]:
    """The cell and the level whose rate is the least likely."""
    if not table:
        return {"worst cell": "", "chance": 1.0}
    place, level = np.unravel_index(chances.argmin(), chances.shape)
    row, key = table[int(place)], shown[int(level)]
    where = f"{row['kind']}; M = {row['M']}, n = {row['n']}: {row[key]} at {key}"
    return {"worst cell": where, "chance": float(chances.min())}


class Acceptance(NamedTuple):
    """A check that a level is kept: how many data sets may be rejected, and what it sees."""

    most: int
    power: float

    @classmethod
    def of(
        cls, data_sets: int, level: float = 0.05, truth: float = 0.1, error: float = 0.001
    ) -> Acceptance:
        """Of so many data sets.

        The check fails by chance with a probability of at most `error` where the level is kept,
        and with the probability `power` where the rate is `truth`.
        """
        most = int(binom.ppf(1.0 - error, data_sets, level))
        return cls(most, float(binom.sf(most, data_sets, truth)))


@click.command(help=__doc__)
@click.option(
    "--function", "functions", multiple=True, type=click.Choice(list(FUNCTIONS)), default=EXACT
)
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)), default=KINDS)
@click.option("--variables", "numbers", multiple=True, type=int, default=NUMBERS, help="M.")
@click.option("--n", "sizes", multiple=True, type=int, default=SIZES)
@click.option("--data-sets", "many", type=click.IntRange(1), default=Effort.many)
@click.option("--few", type=click.IntRange(1), default=Effort.few, help="Of cells that take long.")
@click.option("--cell-seconds", default=Effort.cell_seconds, help="Beyond which a cell takes long.")
@click.option("--budget", default=Effort.budget, help="Processor seconds of all cells.")
@click.option("--processes", default=Effort.processes)
@click.option("--summary", "summed", is_flag=True, help="Of what is there; runs nothing.")
@click.option("--out", default="benchmarks/results/level_default.csv")
def main(
    functions: tuple[str, ...],
    kinds: tuple[str, ...],
    numbers: tuple[int, ...],
    sizes: tuple[int, ...],
    summed: bool,
    out: str,
    **effort: Any,
) -> None:
    if summed:
        path = Path(out)
        write_csv(str(path.with_stem(f"{path.stem}_summary")), summary(read_csv(out)))
        return
    for name, reason in SKIPPED.items():
        click.echo(f"{name} is left out: {reason}", err=True)
    cells = cells_of(functions, kinds, numbers, sizes)
    with threadpool_limits(1, "blas"):
        write_csv(out, rows(cells, Effort(**effort), read_csv(out)))


if __name__ == "__main__":
    main()
