"""Power, level and processor time of independence tests on public scenarios, with other packages.

Scenarios, formulas and sources are those of `public_scenarios.py`, tests those of
`leaderboard_tests.py`; they need the group `peers`, and agginc, which is on no index and comes from
its repository antoninschrab/agginc. A test whose package cannot be imported is left out. All see
the same data sets, seeded by rows and number; numbers begin with `--first`, so that what was chosen
by some data sets can be measured on others, in a table of its own. The level is the share of the
same data sets, with y permuted, that are rejected. A test whose data sets would take longer than
`--seconds` has fewer, down to 10: `tests` counts them. Figures that others published, of tests too
slow to run here, come from published_power.csv with their source.

Writes benchmarks/results/leaderboard.csv, whose rows are kept, and a picture of it beside: mean
power by test, and a map of all scenarios. Prints means, and where a test is most behind the best.

    python -m benchmarks run leaderboard --group shapes
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.peers.leaderboard_tests import ENTRIES, Entry
from benchmarks.shared import curves
from benchmarks.shared.cases import Data, Rng
from benchmarks.shared.output import keys_of, read_csv, write_csv
from benchmarks.shared.public_scenarios import SCENARIOS, Scenario

KEYS = ("data", "n", "method", "runs", "first")
FEWEST_TESTS = 10
LEVELS = {"5%": 0.05, "1%": 0.01}
ENOUGH = 1e-9
PUBLISHED = Path(__file__).parent / "published_power.csv"
GROUPS = tuple(dict.fromkeys(scenario.group for scenario in SCENARIOS.values()))
NULL = "independent"
"""How the scenarios begin whose variables are independent."""
OWN = "dhsic default"


@dataclass(frozen=True)
class Columns:
    """The two variables of a scenario as matrices, y permuted for the level."""

    draw: curves.Draw
    permuted: bool = False

    def __call__(self, n: int, rng: Rng) -> Data:
        x, y = (v[:, None] if v.ndim == 1 else v for v in self.draw(n, rng))
        return [x, rng.permutation(y) if self.permuted else y]


def rows(
    scenarios: Sequence[str],
    methods: Sequence[str],
    runs: int,
    seconds: float,
    done: curves.Table,
    first: int = 0,
) -> Iterator[Mapping[str, Any]]:
    """A row a scenario and test; those in `done` stay as they are."""
    yield from done
    known = {keys_of(row, KEYS) for row in done}
    entries = _imported(methods)
    for name in scenarios:
        scenario = SCENARIOS[name]
        x, y = Columns(scenario.draw)(scenario.n, np.random.default_rng(0))
        for method, entry in entries.items():
            keys = dict(zip(KEYS, (name, scenario.n, method, runs, first), strict=True))
            if entry.takes(scenario.n, x, y) and keys_of(keys, KEYS) not in known:
                yield {
                    **keys,
                    **_measured(scenario, method, entry, range(first, first + runs), seconds),
                }
    for row in _published(scenarios):
        if keys_of(row, KEYS) not in known:
            yield row


def _imported(methods: Sequence[str]) -> dict[str, Entry]:
    """Tests whose packages are installed."""
    pair = [np.arange(30.0)[:, None] % 7.0, np.arange(30.0)[:, None] % 11.0]
    found = {}
    for method in methods:
        try:
            ENTRIES[method](pair, 0)
        except ImportError as error:
            click.echo(f"without {method}: {error}", err=True)
        else:
            found[method] = ENTRIES[method]
    return found


def _measured(
    scenario: Scenario, method: str, entry: Entry, runs: Sequence[int], seconds: float
) -> dict[str, Any]:
    """Power, level and processor time, of as many data sets as the seconds allow."""
    once = curves.one_test(_setting(scenario, method, entry, runs[0], permuted=False))
    affordable = int(0.5 * seconds / once[1]) if once[1] else len(runs)
    count = min(len(runs), max(FEWEST_TESTS, affordable))
    found = np.array(
        [
            [
                curves.one_test(_setting(scenario, method, entry, run, permuted=permuted))
                for run in runs[:count]
            ]
            for permuted in (False, True)
        ]
    )
    rejected = {
        f"{what} {name}": float(np.mean(pvalues <= level + ENOUGH))
        for name, level in LEVELS.items()
        for what, pvalues in zip(("power", "level"), found[..., 0], strict=True)
    }
    power = rejected["power 5%"]
    return {
        "group": scenario.group,
        "tests": count,
        **rejected,
        "error": math.sqrt(power * (1.0 - power) / count),
        "seconds": float(found[..., 1].mean()),
        "source": "measured",
    }


def _setting(
    scenario: Scenario, method: str, entry: Entry, run: int, *, permuted: bool
) -> curves.Setting:
    return curves.Setting(method, entry, Columns(scenario.draw, permuted), scenario.n, run)


def _published(scenarios: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    for row in read_csv(str(PUBLISHED)):
        if row["data"] in scenarios:
            scenario = SCENARIOS[row["data"]]
            blank = dict.fromkeys(("tests", "level 5%", "power 1%", "level 1%", "error", "seconds"))
            yield {
                **dict(zip(KEYS, (row["data"], scenario.n, row["method"], "", ""), strict=True)),
                "group": scenario.group,
                **blank,
                "power 5%": row["power"],
                "source": row["source"],
            }


def powers(table: curves.Table) -> dict[str, dict[str, float]]:
    """Power at 5 % by scenario and test; what was measured goes before what was published."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for row in sorted(table, key=lambda row: row["source"] == "measured"):
        found[row["data"]][row["method"]] = float(row["power 5%"])
    return found


def means(table: curves.Table, group: str) -> list[dict[str, Any]]:
    """Of the tests that have all dependent scenarios of a group, the best first."""
    own = [row for row in table if row["group"] == group]
    by_scenario = {name: found for name, found in powers(own).items() if not name.startswith(NULL)}
    every = {method for found in by_scenario.values() for method in found}
    complete = [m for m in every if all(m in found for found in by_scenario.values())]
    levels: dict[str, list[float]] = defaultdict(list)
    for row in own:
        if row["level 5%"]:
            levels[row["method"]].append(float(row["level 5%"]))
    lines = [_line(group, method, by_scenario, levels[method]) for method in complete]
    return sorted(lines, key=lambda line: -float(line["mean power"]))


def _line(
    group: str, method: str, by_scenario: Mapping[str, dict[str, float]], levels: Sequence[float]
) -> dict[str, Any]:
    """Means of a test, and where it is the most behind the best."""
    behind = {name: max(found.values()) - found[method] for name, found in by_scenario.items()}
    worst = max(behind, key=lambda name: behind[name])
    return {
        "group": group,
        "method": method,
        "mean power": float(np.mean([found[method] for found in by_scenario.values()])),
        "mean level": float(np.mean(levels)) if levels else math.nan,
        "most behind": behind[worst],
        "where": worst,
    }


def picture(table: curves.Table, path: Path) -> None:
    """Mean power of groups by test, and a map of power, a row a scenario."""
    groups = [group for group in GROUPS if group in {row["group"] for row in table}]
    lines = [line for group in groups for line in means(table, group)]
    order = _order(lines, table)
    cells = _cells(table, groups)
    size = (5.0 + 0.62 * len(order), 3.2 + 0.2 * max(len(cells), len(order)))
    figure = Figure(figsize=size, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(4.0, 1.0 + 0.62 * len(order)))
    _dots(left, lines, groups, order)
    _map(right, cells, order, _published_only(table))
    figure.savefig(path, dpi=130)


def _order(lines: Sequence[Mapping[str, Any]], table: curves.Table) -> list[str]:
    """Tests by their mean power in the first group that has them, the best first."""
    listed = [line["method"] for line in lines]
    return list(dict.fromkeys([*listed, *(row["method"] for row in table)]))


def _published_only(table: curves.Table) -> set[tuple[str, str]]:
    return {(row["data"], row["method"]) for row in table if row["source"] != "measured"} - {
        (row["data"], row["method"]) for row in table if row["source"] == "measured"
    }


def _cells(table: curves.Table, groups: Sequence[str]) -> dict[str, dict[str, float]]:
    """Power by scenario and test; of shapes of several columns the mean."""
    found = powers(table)
    cells = {}
    for group in groups:
        names = [name for name in SCENARIOS if SCENARIOS[name].group == group and name in found]
        if "d = " in group:
            cells[f"mean of {group}"] = {
                line["method"]: line["mean power"] for line in means(table, group)
            }
        else:
            cells.update({name: found[name] for name in names})
    return cells


def _dots(
    axes: Axes, lines: Sequence[Mapping[str, Any]], groups: Sequence[str], order: Sequence[str]
) -> None:
    for number, group in enumerate(groups):
        own = [line for line in lines if line["group"] == group]
        style = {**curves.style(number), "linestyle": "none"}
        places = [order.index(line["method"]) for line in own]
        axes.plot([line["mean power"] for line in own], places, label=group, **style)
    axes.set_yticks(range(len(order)), order)
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.set(xlim=(-0.03, 1.03), xlabel="mean power at level 5 %")
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.06), fontsize=8, frameon=False)


def _map(
    axes: Axes,
    cells: Mapping[str, Mapping[str, float]],
    order: Sequence[str],
    published: set[tuple[str, str]],
) -> None:
    """Power in colours and per cent; the best of a row is bold, what was published in brackets."""
    values = np.array([[found.get(method, np.nan) for method in order] for found in cells.values()])
    axes.imshow(
        np.ma.masked_invalid(values), cmap=colormaps["viridis"], vmin=0, vmax=1, aspect="auto"
    )
    for i, name in enumerate(cells):
        for j, method in enumerate(order):
            power = values[i, j]
            if np.isnan(power):
                continue
            text = f"({100 * power:.0f})" if (name, method) in published else f"{100 * power:.0f}"
            best = power == np.nanmax(values[i]) and not name.startswith(NULL)
            axes.text(
                j,
                i,
                text,
                ha="center",
                va="center",
                fontsize=8,
                color="white" if power < 0.6 else "black",
                fontweight="bold" if best else "normal",
            )
    axes.set_xticks(range(len(order)), order, rotation=40, ha="left", fontsize=8)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(cells)), list(cells), fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


@click.command(help=__doc__)
@click.option("--group", "groups", multiple=True, type=click.Choice(GROUPS), default=GROUPS)
@click.option("--data", "names", multiple=True, type=click.Choice(list(SCENARIOS)))
@click.option(
    "--method", "methods", multiple=True, type=click.Choice(list(ENTRIES)), default=list(ENTRIES)
)
@click.option("--runs", type=click.IntRange(1), default=100, help="Data sets of a scenario.")
@click.option("--first", type=click.IntRange(0), default=0, help="Number of the first of them.")
@click.option("--seconds", default=60.0, help="Of a test and scenario; it has 10 runs at least.")
@click.option("--out", default="benchmarks/results/leaderboard.csv")
def main(
    groups: tuple[str, ...],
    names: tuple[str, ...],
    methods: tuple[str, ...],
    runs: int,
    first: int,
    seconds: float,
    out: str,
) -> None:
    chosen = names or [name for name in SCENARIOS if SCENARIOS[name].group in groups]
    write_csv(out, rows(chosen, methods, runs, seconds, read_csv(out), first))
    table = read_csv(out)
    picture(table, Path(out).with_suffix(".png"))
    for group in GROUPS:
        for line in means(table, group):
            click.echo(
                "{group}: {method} {mean power:.3f}, level {mean level:.3f}, "
                "at most {most behind:.2f} behind ({where})".format(**line)
            )


if __name__ == "__main__":
    main()
