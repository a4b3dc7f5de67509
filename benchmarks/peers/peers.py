"""Level, power and reach beside the tests of other packages. Needs the group `peers`.

`level`: the share of independent data sets that are rejected. `power`: on real rows of the Million
Song table (90 columns of timbre and the year) in the folder DHSIC_DATA, at level 1 % with 250
resamples as figure 4 of Kalinke and Szabo (UAI 2023) has it, power and processor time of a test;
then the least time in which a method is sure, which is to find 99 of 100 dependences. One that
found them all is given no more rows. Slow methods have fewer runs, by which it is easier to seem
sure, and fewer rows: `power at least` is what the runs show with 95 % confidence, and `most rows`
what a method was given. `limits`: the most rows within a processor time and a resident memory, by
doubling and one step between, every test in a fresh process with the threads its package takes;
ours read zarr from the disk. Each writes benchmarks/results/peers_<study>.csv, whose rows are kept;
`power` also peers_power.png and peers_time.csv, of the rows with its numbers of runs.

    python -m benchmarks run peers level
    python -m benchmarks run peers power
    python -m benchmarks run peers limits
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import beta

from benchmarks.level.level import rejection_rates
from benchmarks.peers.peer_limits import FIRST_SIZES, MIB, STORED, limit_rows, warmed
from benchmarks.peers.peer_tests import METHODS, Test
from benchmarks.shared import curves
from benchmarks.shared.cases import Data, Rng
from benchmarks.shared.limits import measure
from benchmarks.shared.output import keys_of, read_csv, write_csv
from benchmarks.shared.songs import songs
from dhsic.io.synthetic import synthetic

Table = Sequence[Mapping[str, Any]]

LEVEL_KEYS = ("data", "n", "method", "resamples", "runs")
TIMES = (
    *("n", "runs", "power", "power at least"),
    *("seconds", "over default", "over our quickest", "MiB"),
)
LEVEL = 0.01
RESAMPLES = 250
FEWEST_RUNS = 50
SLOW = ("dcor dcov", "statsmodels dcov", "hyppo Dcorr", "hyppo Hsic")
"""Half a second and more of 500 rows: they have fewer runs, and at most SLOW_ROWS."""
SLOW_ROWS = 1000
ENOUGH = 0.99
SIZES = (250, 500, 750, 1000, 1500, 2000, 4000)
COLOURS = {
    "dhsic": "#D55E00",
    "hyppo": "#0072B2",
    "dcor": "#009E73",
    "statsmodels": "#000000",
    "causal-learn": "#CC79A7",
    "scikit-learn": "#56B4E9",
}
SIZED = [name for name in METHODS if name != STORED]
"""Methods of few rows: all but that of 500 landmarks."""


@dataclass(frozen=True)
class Resampled:
    """A test with so many resamples, as the frame of power studies calls it."""

    test: Test
    resamples: int

    def __call__(self, data: Data, seed: int) -> float:
        return self.test(*data, self.resamples, seed)


def songs_standardised(n: int, rng: Rng) -> Data:
    """Of mean 0 and variance 1 in every column, as some packages make them by themselves."""
    return [(v - v.mean(axis=0)) / v.std(axis=0) for v in songs(n, rng)]


def songs_permuted(n: int, rng: Rng) -> Data:
    x, year = songs(n, rng)
    return [x, rng.permutation(year)]


def normals(n: int, rng: Rng) -> Data:
    return [rng.standard_normal((n, 1)), rng.standard_normal((n, 1))]


def generated(n: int, rng: Rng) -> Data:
    seed = int(rng.integers(2**31))
    return list(synthetic(n, features=5, dependence=0.9, seed=seed, dtype=np.float64))


INDEPENDENT: dict[str, curves.Draw] = {"songs, years permuted": songs_permuted, "normals": normals}
DEPENDENT: dict[str, curves.Draw] = {
    "songs": songs,
    "songs, standardised": songs_standardised,
    "generated": generated,
}


def level_rows(
    kinds: Sequence[str],
    sizes: Sequence[int],
    methods: Sequence[str],
    resamples: int,
    runs: int,
    seconds: float,
    done: Table,
) -> Iterator[Mapping[str, Any]]:
    """Shares that are rejected.

    Methods whose runs would take longer than so many seconds have fewer, but not under 50.
    """
    yield from done
    known = {keys_of(row, LEVEL_KEYS) for row in done}
    for kind, n, name in product(kinds, sizes, methods):
        keys = dict(zip(LEVEL_KEYS, (kind, n, name, resamples, runs), strict=True))
        if keys_of(keys, LEVEL_KEYS) in known:
            continue
        test = Resampled(METHODS[name].test, resamples)
        settings = [curves.Setting(name, test, INDEPENDENT[kind], n, run) for run in range(runs)]
        first = curves.one_test(settings[0])
        affordable = max(FEWEST_RUNS, int(seconds / first[1]) if first[1] else runs)
        found = [first, *map(curves.one_test, settings[1:affordable])]
        pvalues, spent = np.array(found).T
        yield {
            **keys,
            "null": METHODS[name].null,
            "tests": len(pvalues),
            **rejection_rates(pvalues),
            "seconds": float(spent.mean()),
        }


def power_tables(
    kinds: Sequence[str],
    sizes: Sequence[int],
    methods: Sequence[str],
    runs: int,
    slow_runs: int,
    out: str,
) -> None:
    """Sizes one by one, so that a method that found every dependence is given no more rows."""
    quick = [name for name in methods if name not in SLOW]
    slow = [name for name in SLOW if name in methods]
    for chosen, count in ((quick, runs), (slow, slow_runs)):
        for n, kind in product(sizes, kinds):
            table = read_csv(out)
            study = curves.Study(
                {kind: DEPENDENT[kind]},
                {name: Resampled(METHODS[name].test, RESAMPLES) for name in chosen},
                LEVEL,
                dict.fromkeys(SLOW, SLOW_ROWS),
            )
            fewer = [row for row in study.own(table, count) if _rows_of(row) < n]
            sure = {row["method"] for row in fewer if float(row["power"]) == 1.0}
            left = {name: test for name, test in study.methods.items() if name not in sure}
            unsure = replace(study, methods=left)
            write_csv(out, curves.rows(unsure, [n], count, done=table))


def of_runs(table: Table, runs: int, slow_runs: int) -> Table:
    """Without the rows that a study of other numbers of runs left in the table."""
    return [
        row for row in table if int(row["runs"]) == (slow_runs if row["method"] in SLOW else runs)
    ]


def time_rows(table: Table, done: Table) -> Iterator[dict[str, Any]]:
    """The least time in which a method is sure, beside our default and our quickest method.

    The memory of tests in `done` is not measured again.
    """
    known = {(row["data"], row["method"], row["n"]): row["MiB"] for row in done}
    for kind in dict.fromkeys(row["data"] for row in table):
        shown = [row for row in table if row["data"] == kind]
        least = _least(shown)
        ours = [_seconds(row) for name, row in least.items() if METHODS[name].package == "dhsic"]
        default = least.get("dhsic default")
        for name in dict.fromkeys(row["method"] for row in shown):
            most = max(_rows_of(row) for row in shown if row["method"] == name)
            found: dict[str, Any] = dict.fromkeys(TIMES, "")
            if name in least:
                row = least[name]
                seconds = _seconds(row)
                found = {
                    "n": row["n"],
                    "runs": row["runs"],
                    "power": row["power"],
                    "power at least": _at_least(row),
                    "seconds": seconds,
                    "over default": seconds / _seconds(default) if default else "",
                    "over our quickest": seconds / min(ours) if ours else "",
                    "MiB": known.get((kind, name, row["n"])) or _grown(kind, name, _rows_of(row)),
                }
            null = METHODS[name].null
            yield {"data": kind, "method": name, "null": null, "most rows": most, **found}


def _least(table: Table) -> dict[str, Mapping[str, Any]]:
    sure = [row for row in table if float(row["power"]) >= ENOUGH]
    return {row["method"]: row for row in sorted(sure, key=_seconds, reverse=True)}


def _seconds(row: Mapping[str, Any]) -> float:
    return float(row["seconds"])


def _at_least(row: Mapping[str, Any]) -> float:
    """Lower limit of the power, exceeded by the true one in 95 % of studies."""
    runs = int(row["runs"])
    found = round(runs * float(row["power"]))
    return float(beta.ppf(0.05, found, runs - found + 1))


def _grown(kind: str, name: str, n: int) -> float:
    """By how many MiB a test grows its process, at most."""
    found = measure(partial(_of_kind, kind, name, n), 3600.0, 2**40)
    if found.stopped:
        msg = f"the memory of {name} cannot be measured: {found.stopped}"
        raise click.ClickException(msg)
    return (found.peak_bytes - found.start_bytes) / MIB


def _of_kind(kind: str, name: str, n: int) -> Callable[[], float]:
    data = DEPENDENT[kind](n, np.random.default_rng([n, 0]))
    return warmed(METHODS[name].test, data, RESAMPLES)


def draw(table: Table, path: Path) -> None:
    """Power against rows and against processor time; a colour a package."""
    kinds = list(dict.fromkeys(row["data"] for row in table))
    figure = Figure(figsize=(10.0, 1.6 + 3.4 * len(kinds)), layout="constrained")
    panels = figure.subplots(len(kinds), 2, sharex="col", sharey=True, squeeze=False)
    sizes = sorted({_rows_of(row) for row in table})
    for (left, right), kind in zip(panels, kinds, strict=True):
        for axes, along in ((left, "n"), (right, "seconds")):
            _curves(axes, [row for row in table if row["data"] == kind], along)
        left.set(ylabel="power at level 1 %", title=kind, xscale="log")
        left.set_xticks(sizes, [f"{n:,}" for n in sizes], minor=False)
        left.minorticks_off()
        right.set(title=kind, xscale="log")
        right.xaxis.set_major_formatter("{x:g}")
    panels[-1, 0].set_xlabel("rows")
    panels[-1, 1].set_xlabel("processor seconds of a test")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)


def _curves(axes: Axes, table: Table, along: str) -> None:
    numbers = dict.fromkeys(COLOURS, 0)
    for name, method in METHODS.items():
        chosen = sorted((row for row in table if row["method"] == name), key=_rows_of)
        if not chosen:
            continue
        number = numbers[method.package]
        numbers[method.package] += 1
        axes.plot(
            [float(row[along]) for row in chosen],
            [float(row["power"]) for row in chosen],
            color=COLOURS[method.package],
            marker=curves.MARKERS[number],
            linestyle=curves.LINES[number % len(curves.LINES)],
            markersize=4,
            linewidth=1.2,
            label=name,
        )
    axes.set(ylim=(-0.03, 1.03))


def _rows_of(row: Mapping[str, Any]) -> int:
    return int(row["n"])


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command()
@click.option(
    "--data", "kinds", multiple=True, type=click.Choice(list(INDEPENDENT)), default=INDEPENDENT
)
@click.option("--size", "sizes", multiple=True, type=int, default=(200, 500))
@click.option("--method", "methods", multiple=True, type=click.Choice(SIZED), default=SIZED)
@click.option("--resamples", default=99)
@click.option("--runs", type=click.IntRange(1), default=300)
@click.option("--seconds", default=10.0, help="Of a row: it has 50 runs or more in that time.")
@click.option("--out", default="benchmarks/results/peers_level.csv")
def level(out: str, **options: Any) -> None:
    """Shares of independent data sets that are rejected."""
    write_csv(out, level_rows(done=read_csv(out), **options))


@main.command()
@click.option(
    "--data",
    "kinds",
    multiple=True,
    type=click.Choice(list(DEPENDENT)),
    default=("songs", "songs, standardised"),
)
@click.option("--size", "sizes", multiple=True, type=int, default=SIZES)
@click.option("--method", "methods", multiple=True, type=click.Choice(SIZED), default=SIZED)
@click.option("--runs", type=click.IntRange(1), default=50)
@click.option(
    "--slow-runs",
    type=click.IntRange(1),
    default=20,
    help="Of methods that take half a second of 500 rows.",
)
@click.option("--out", default="benchmarks/results/peers_power.csv")
def power(out: str, runs: int, slow_runs: int, **options: Any) -> None:
    """Power, the time of a test, and the least time in which a method is sure."""
    power_tables(out=out, runs=runs, slow_runs=slow_runs, **options)
    table = of_runs(read_csv(out), runs, slow_runs)
    times = str(Path(out).with_name("peers_time.csv"))
    write_csv(times, time_rows(table, read_csv(times)))
    draw(table, Path(out).with_suffix(".png"))


@main.command()
@click.option("--method", "methods", multiple=True, type=click.Choice(list(METHODS)))
@click.option("--features", multiple=True, type=click.Choice(["90", "1"]), default=("90", "1"))
@click.option("--start", type=int, help="The first size, where not that of the method.")
@click.option("--most", default=4_000_000, help="Rows that are tried.")
@click.option("--resamples", default=250)
@click.option("--seconds", default=60.0, help="Of the processor that a test may take.")
@click.option("--memory", default=4096, help="MiB that its process may hold.")
@click.option("--out", default="benchmarks/results/peers_limits.csv")
def limits(
    methods: tuple[str, ...], features: tuple[str, ...], start: int | None, out: str, **options: Any
) -> None:
    """The most rows within a time and a memory."""
    settings = [
        (name, int(columns), start or first)
        for columns in features
        for name, first in FIRST_SIZES[columns].items()
        if name in (methods or METHODS)
    ]
    write_csv(out, limit_rows(settings, done=read_csv(out), **options))


if __name__ == "__main__":
    main()
