"""Power, level and processor time of independence tests on public scenarios, with other packages.

Scenarios, formulas and sources are those of `public_scenarios.py`, tests those of
`leaderboard_tests.py`; they need the group `peers`, and agginc, which is on no index and comes from
its repository antoninschrab/agginc. All see the same data sets, seeded by rows and number; with
`--first` they are others than those by which choices were made. The level is the share of the same
data sets, with y permuted, that are rejected. The picture has the mean power by test.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.peers.leaderboard_tests import ENTRIES
from benchmarks.shared import curves
from benchmarks.shared.cases import Data, Rng
from benchmarks.shared.public_scenarios import SCENARIOS
from benchmarks.study import Cell, Row, Study, Table

LEVELS = {"5%": 0.05, "1%": 0.01}
ENOUGH = 1e-9
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


def means(table: Table, group: str) -> dict[str, float]:
    """Mean power of the tests that have all dependent scenarios of a group."""
    own = [r for r in table if r["group"] == group and not r["data"].startswith(NULL)]
    scenarios = {row["data"] for row in own}
    found: dict[str, list[float]] = defaultdict(list)
    for row in own:
        found[row["method"]].append(float(row["power 5%"]))
    return {
        method: float(np.mean(powers))
        for method, powers in found.items()
        if len(powers) == len(scenarios)
    }


def picture(table: Table, path: Path) -> None:
    """Mean power of groups by test, the best in the first group first."""
    found = {group: means(table, group) for group in GROUPS}
    best = sorted(next(iter(found.values())).items(), key=lambda one: -one[1])
    order = list(dict.fromkeys([*(name for name, _ in best), *(row["method"] for row in table)]))
    figure = Figure(figsize=(7.0, 3.2 + 0.3 * len(order)), layout="constrained")
    axes = figure.subplots()
    for number, (group, own) in enumerate(found.items()):
        style = {**curves.style(number), "linestyle": "none"}
        axes.plot(list(own.values()), [order.index(name) for name in own], label=group, **style)
    axes.set_yticks(range(len(order)), order)
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.set(xlim=(-0.03, 1.03), xlabel="mean power at level 5 %")
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.savefig(path, dpi=130)


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
    follows_defaults=lambda cell: cell.method.startswith("dhsic"),
    small={"data": ["linear"], "methods": ["dhsic default"], "runs": 2},
    picture=picture,
)
