"""Power of the default test on columns of real tables, beside distance covariance.

Rows are drawn at random from tables of the folder DHSIC_DATA: pairs of numbers, and several columns
and a number, which were drawn at random, too, and of which 320 rows are enough. There are as many
rows as let distance covariance or the default find about half of the data sets. All methods see
the same data sets and replicates: the default, its pairs of kernels with others in the lead, and
the trend kernel and distance covariance alone. The pairs that lead two numbers were chosen by other
rows of these tables, and by hyppo's shapes (`leaderboard`). Writes
benchmarks/results/real_pairs.csv, whose rows are kept, and prints means.

    python -m benchmarks run real_pairs
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import click
import numpy as np

import dhsic
from benchmarks.shared.cases import Data, Rng
from benchmarks.shared.output import parallel_map, read_csv, write_csv
from benchmarks.shared.public_scenarios import rows_of
from benchmarks.shared.songs import FOLDER
from dhsic._arguments import choose_method, open_session
from dhsic.estimators import GridEstimator, Resampling
from dhsic.kernels.usual import OF_MANY, OF_ONE, pairs_of
from dhsic.nulls import aggregate, pvalue

LEVEL = 0.05


@dataclass(frozen=True)
class Columns:
    """Random rows of columns of a table, of which the last is y."""

    table: str
    names: str
    rows: int

    def __call__(self, rng: Rng) -> Data:
        *x, y = self.names.split()
        if self.table != "cep":
            return rows_of(self.rows, rng, f"{TABLES[self.table]}.parquet", tuple(x), y)
        drawn = rng.choice(_pair(y), self.rows, replace=False)
        return [drawn[:, :1], drawn[:, 1:]]


@cache
def _pair(name: str) -> Any:
    path = FOLDER / "cep" / "pairs.npz"
    if not path.exists():
        msg = f"there are no pairs in {path}: name the folder of data in DHSIC_DATA"
        raise click.ClickException(msg)
    return np.load(path)[name]


TABLES = {
    "air": "beijing_air/beijing_air",
    "songs": "msd/msd_random7000",
    "flights": "hflights/hflights",
    "proteins": "casp/casp",
    "plant": "ccpp/ccpp",
}
NUMBERS = (
    *(Columns("air", "PM10 PRES", 220), Columns("air", "SO2 PRES", 70)),
    *(Columns("air", "CO DEWP", 70), Columns("air", "PM10 TEMP", 320)),
    *(Columns("air", "SO2 DEWP", 45), Columns("air", "month PM10", 150)),
    Columns("songs", "timbre_cov_4 timbre_cov_19", 45),
    Columns("songs", "timbre_avg_8 timbre_cov_61", 45),
    Columns("songs", "timbre_cov_47 timbre_cov_71", 320),
    Columns("songs", "timbre_avg_6 timbre_cov_28", 80),
    *(Columns("flights", "ArrDelay TaxiOut", 60), Columns("flights", "DepTime ArrDelay", 100)),
    *(Columns("flights", "Distance TaxiIn", 45), Columns("proteins", "RMSD F8", 220)),
    *(Columns("plant", "RH PE", 20), Columns("cep", "pair0099", 40)),
    *(Columns("cep", "pair0020", 30), Columns("cep", "pair0036", 30)),
    *(Columns("cep", "pair0031", 150), Columns("cep", "pair0022", 60)),
)
SEVERAL = (
    *(Columns("air", "PM10 O3 NO2 WSPM", 30), Columns("air", "month PRES CO NO2 PM10 WSPM", 30)),
    Columns("flights", "ArrDelay AirTime DayofMonth DepTime", 150),
    Columns("flights", "AirTime TaxiOut DepTime DayofMonth Month ArrDelay", 80),
    Columns("songs", "timbre_cov_35 timbre_cov_54 timbre_cov_24 year", 150),
    Columns("proteins", "F3 F2 F4 F8 F6 F1 F5 F9 RMSD", 60),
)
DATA: Mapping[str, Columns] = {f"{one.table}: {one.names}": one for one in (*NUMBERS, *SEVERAL)}
LEADS = {
    "default": ("trend", "distances"),
    "scores in the lead": ("scores",),
    "trend in the lead": ("trend",),
    "distances in the lead": ("distances",),
    "all three in the lead": ("scores", "trend", "distances"),
}
"""Pairs of kernels of two numbers that lead, by method; one of them alone has half the weight."""
ALONE = {"trend kernel": "trend", "distance covariance": "distances"}


def grid_of(numbers: bool) -> tuple[dhsic.Grid, dict[str, int]]:
    """The usual pairs of kernels, with distances, and places of those that may lead."""
    if numbers:
        pairs, kernels = pairs_of("one", "one"), (OF_ONE, OF_ONE)
        places = {"scores": 0, "trend": 1, "distances": 2}
    else:
        (names, factors), pairs = OF_MANY, pairs_of("many", "one")
        kernels = ((*names, "distance"), (*factors, (1.0,))), OF_ONE
        distances = tuple(len(dhsic.Candidates(*own).scaled) - 1 for own in kernels)
        at = [name for name, each in zip(*OF_ONE, strict=True) for _ in each].index("distance")
        pairs = [*pairs, (distances[0], at)]
        places = {"reference": 0, "distances": len(pairs) - 1}
    candidates = tuple(dhsic.Candidates(*own) for own in kernels)
    return dhsic.Grid(candidates, combine=pairs), places


def pvalues(data: Data, seed: int) -> dict[str, float]:
    """Of every method on one data set, from the same replicates."""
    numbers = data[0].shape[1] == 1
    grid, places = grid_of(numbers)
    session = open_session(data, None, seed, "float64", None, 1, "2GiB", None)
    method = choose_method(session, grid, "v-hsic", "shifts", None)
    estimator, null = method.estimator, method.null
    assert isinstance(estimator, GridEstimator)
    assert isinstance(null, Resampling)
    # Combinations that compare no rows are left out, and the others counted anew.
    marked = replace(method.combinations, leading=tuple(places.values()))
    found = estimator.test_grid(session, marked, null)
    at = dict(zip(places, found.combinations.leading, strict=True))

    def of(chosen: list[int], lead: Sequence[str]) -> float:
        whole = aggregate(
            found.statistics[chosen],
            found.replicates[:, chosen],
            "soft",
            found.rounding[chosen],
            reference=[chosen.index(at[name]) for name in lead],
            share=grid.reference_share,
        )
        return pvalue(whole.statistic, whole.distribution, np.float64, whole.rounding)

    usual = [c for c in range(len(found.combinations)) if numbers or c != at["distances"]]
    leads = LEADS if numbers else {"default": ("reference",)}
    return {
        **{name: of(usual, lead) for name, lead in leads.items()},
        **{name: of([at[one]], [one]) for name, one in ALONE.items() if one in at},
    }


def one_run(setting: tuple[str, int]) -> dict[str, float]:
    """P-values of all methods of a kind of data, by the number of the data set."""
    name, run = setting
    return pvalues(DATA[name](np.random.default_rng([DATA[name].rows, run])), run)


def rows(
    names: Sequence[str], runs: int, processes: int, done: Sequence[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """A row a kind of data and method; those in `done` stay as they are."""
    yield from done
    known = {(row["data"], int(row["runs"])) for row in done}
    for name in names:
        if (name, runs) in known:
            continue
        found = parallel_map(one_run, [(name, run) for run in range(runs)], processes)
        for method in found[0]:
            power = float(np.mean([one[method] <= LEVEL + 1e-9 for one in found]))
            error = math.sqrt(power * (1.0 - power) / runs)
            keys = {"data": name, "n": DATA[name].rows, "method": method, "runs": runs}
            yield {**keys, "power": power, "error": error}


@click.command(help=__doc__)
@click.option("--data", "names", multiple=True, type=click.Choice(list(DATA)), default=DATA)
@click.option("--runs", type=click.IntRange(1), default=100)
@click.option("--processes", default=1)
@click.option("--out", default="benchmarks/results/real_pairs.csv")
def main(names: tuple[str, ...], runs: int, processes: int, out: str) -> None:
    write_csv(out, rows(names, runs, processes, read_csv(out)))
    for kind, listed in (("two numbers", NUMBERS), ("columns and a number", SEVERAL)):
        for method in dict.fromkeys([*LEADS, *ALONE]):
            powers = [
                float(row["power"])
                for row in read_csv(out)
                if row["method"] == method and DATA[row["data"]] in listed
            ]
            if powers:
                click.echo(f"{kind}, {method}: mean {np.mean(powers):.3f} of {len(powers)}")


if __name__ == "__main__":
    main()
