"""Power, level and processor time of independence tests on public scenarios, with other packages.

Scenarios, formulas and sources are those of `public_scenarios.py`, tests those of
`leaderboard_tests.py`; they need the group `peers`, and agginc, which is on no index and comes from
its repository antoninschrab/agginc. All see the same data sets, seeded by rows and number; with
`--first` they are others than those by which choices were made. The level is the share of the same
data sets, with y permuted, that are rejected. Figures that others published, of tests too slow to
run here, come from published_power.csv with their source, into the picture alone: mean power by
test, and a map of all scenarios.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.peers.leaderboard_tests import ENTRIES
from benchmarks.shared import curves
from benchmarks.shared.cases import Data, Rng
from benchmarks.shared.public_scenarios import SCENARIOS
from benchmarks.study import Cell, Row, Study, Table, read_table

LEVELS = {"5%": 0.05, "1%": 0.01}
ENOUGH = 1e-9
PUBLISHED = Path(__file__).parent / "published_power.csv"
GROUPS = tuple(dict.fromkeys(scenario.group for scenario in SCENARIOS.values()))
NULL = "independent"
"""How the scenarios begin whose variables are independent."""


@dataclass(frozen=True)
class Columns:
    """The two variables of a scenario as matrices, y permuted for the level."""

    draw: curves.Draw
    permuted: bool = False

    def __call__(self, n: int, rng: Rng) -> Data:
        x, y = (v[:, None] if v.ndim == 1 else v for v in self.draw(n, rng))
        return [x, rng.permutation(y) if self.permuted else y]


def takes(cell: Cell) -> bool:
    """Whether a test takes so many rows and columns."""
    if cell.n != cell.draw.n:
        return False
    x, y = Columns(cell.draw.draw)(cell.n, np.random.default_rng(0))
    return bool(cell.test.takes(cell.n, x, y))


def measure(cell: Cell, run: int) -> tuple[tuple[float, float], ...]:
    """P-values and seconds, of the data as they are and with y permuted."""
    return tuple(
        curves.measure(cell._replace(draw=Columns(cell.draw.draw, permuted)), run)
        for permuted in (False, True)
    )


def rows(cell: Cell, found: Sequence[tuple[tuple[float, float], ...]]) -> Iterator[Row]:
    """Power and level."""
    values = np.array(found)
    rejected = {
        f"{what} {name}": float(np.mean(values[:, place, 0] <= level + ENOUGH))
        for name, level in LEVELS.items()
        for place, what in enumerate(("power", "level"))
    }
    power = rejected["power 5%"]
    yield {
        "group": cell.draw.group,
        **rejected,
        "error": math.sqrt(power * (1.0 - power) / len(found)),
        "seconds": float(values[..., 1].mean()),
    }


def published(table: Table) -> list[Row]:
    """Rows of others about the scenarios of a table."""
    known = {row["data"] for row in table}
    return [
        {
            "data": row["data"],
            "method": row["method"],
            "group": SCENARIOS[row["data"]].group,
            "power 5%": row["power"],
            "level 5%": "",
            "source": row["source"],
        }
        for row in read_table(PUBLISHED)
        if row["data"] in known
    ]


def powers(table: Table) -> dict[str, dict[str, float]]:
    """Power at 5 % by scenario and test; what was measured goes before what was published."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for row in sorted(table, key=lambda row: row["source"] == "measured"):
        found[row["data"]][row["method"]] = float(row["power 5%"])
    return found


def means(table: Table, group: str) -> list[dict[str, Any]]:
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


def picture(table: Table, path: Path) -> None:
    """Mean power of groups by test, and a map of power, a row a scenario."""
    table = [*({**row, "source": "measured"} for row in table), *published(table)]
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


def _order(lines: Sequence[Mapping[str, Any]], table: Table) -> list[str]:
    """Tests by their mean power in the first group that has them, the best first."""
    listed = [line["method"] for line in lines]
    return list(dict.fromkeys([*listed, *(row["method"] for row in table)]))


def _published_only(table: Table) -> set[tuple[str, str]]:
    return {(row["data"], row["method"]) for row in table if row["source"] != "measured"} - {
        (row["data"], row["method"]) for row in table if row["source"] == "measured"
    }


def _cells(table: Table, groups: Sequence[str]) -> dict[str, dict[str, float]]:
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


STUDY = Study(
    name="leaderboard",
    title="How much power do tests have on public tables of scenarios, and in what time?",
    data=SCENARIOS,
    methods=ENTRIES,
    sizes=sorted({scenario.n for scenario in SCENARIOS.values()}),
    measure=measure,
    columns=("group", "power 5%", "level 5%", "power 1%", "level 1%", "error", "seconds"),
    runs=100,
    rows=rows,
    takes=takes,
    follows_defaults=lambda cell: cell.method == "dhsic default",
    small={"data": ["linear"], "methods": ["dhsic default"], "runs": 2},
    picture=picture,
    needs="the group peers",
)
