"""Real rows that depend on each other: places in Germany, and hours of the air of Beijing.

Pairs of variables are tested as if rows were independent draws, and with arguments that say how
they belong together. Controls are pairs of different rows, which have in common what the argument
is for: temperature of a place and sunshine of another place of its band of altitude; or the hours
of a window of sixty days with the same window of another year. A test at level 5 % whose
assumptions hold rejects 5 % of the controls. Gaps of up to a day in the hours are filled linearly,
and windows with longer ones are left out. Independence is tested with one Gaussian kernel of each
variable. Needs `weather/data.csv` and `beijing_air/beijing_air.parquet` in the folder that
DHSIC_DATA names, and pyarrow.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import dhsic
from benchmarks.shared.songs import FOLDER
from benchmarks.study import Cell, Row, Study, Table, everything
from dhsic.errors import ApproximateNullWarning, DependentRowsWarning

Vector = NDArray[np.float64]
Asked = dict[str, Any]

LEVEL = 0.05
BANDS = 10  # of altitude
DAYS, YEAR = 60, 8760
FILLED = 24  # hours of a gap
NOTHING = "nothing: independent draws"
DRAWS, WINDOWS, STATIONS = 200, 6, 2
"""Controls of places, windows of a year, and stations that are tested by themselves."""


class Pair(NamedTuple):
    """Two variables to test, and arguments by their names."""

    x: Vector
    y: Vector
    ways: Mapping[str, Asked]


def places(path: Path, draws: int, seed: int) -> tuple[list[Pair], list[Pair]]:
    """Temperature and sunshine of places: as they are, and with those of others of a band."""
    altitude, temperature, sunshine = np.loadtxt(path, skiprows=1).T
    ranks = np.argsort(np.argsort(altitude, kind="stable"), kind="stable")
    band = ranks * BANDS // len(ranks)
    ways = {
        NOTHING: {},
        f"strata=, {BANDS} bands of altitude": {"strata": band},
        "given= altitude": {"given": altitude},
    }
    controls = []
    for draw in range(draws):
        moved, rng = sunshine.copy(), np.random.default_rng([seed, draw])
        for b in range(BANDS):
            moved[band == b] = rng.permutation(sunshine[band == b])
        controls.append(Pair(temperature, moved, ways))
    return [Pair(temperature, sunshine, ways)], controls


def ways_of_hours(n: int) -> dict[str, Asked]:
    """Arguments for the hours of one station."""
    hour, day = np.arange(n) % 24, np.arange(n) // 24
    return {
        NOTHING: {},
        "strata=, hours of the day": {"strata": hour},
        "groups=, days": {"groups": day},
        "groups=, five days": {"groups": day // 5},
        "order='time', lag and period of a day": {"order": dhsic.TimeOrder(24, 24)},
        "given= hour and day": {"given": [hour.astype(float), day.astype(float)]},
    }


def ways_of_stations(n: int, stations: int) -> dict[str, Asked]:
    """Arguments for the hours of several stations, one after another."""
    order = {"groups": np.arange(n * stations) // n, "order": dhsic.TimeOrder(24, 24)}
    return {
        f"all stations, {NOTHING}": {},
        "all stations, groups= stations with order='time'": order,
    }


def series_of(path: Path, columns: Sequence[str]) -> dict[str, Vector]:
    """Hours of every station, shape (stations, hours), whose short gaps are filled."""
    import pandas as pd

    table = pd.read_parquet(path, columns=["hour_index", "station", *columns])
    found = {}
    for column in columns:
        wide = table.pivot_table(
            index="hour_index", columns="station", values=column, observed=True
        ).reindex(range(1, 4 * YEAR + 1))
        gap = wide.isna()
        # The length of the gap that an hour lies in.
        runs = gap.apply(lambda one: one.groupby((~one).cumsum()).transform("sum"))
        filled = wide.interpolate(limit_area="inside").where(~gap | (runs <= FILLED))
        found[column] = filled.to_numpy().T
    return found


def hours(
    x: Vector, y: Vector, windows: int, stations: int
) -> tuple[dict[bool, list[Pair]], dict[bool, list[Pair]]]:
    """Windows of the same year and of two years, of some stations by themselves and of all."""
    length = 24 * DAYS
    single: dict[bool, list[Pair]] = {False: [], True: []}
    every: dict[bool, list[Pair]] = {False: [], True: []}
    years = [*((year, year) for year in range(4)), *permutations(range(4), 2)]
    for first, second in years:
        for window in range(windows):
            # A day after the start of the year, so that there are changes from the day before.
            starts = (YEAR * year + 24 + length * window for year in (first, second))
            a, b = (
                values[:, start : start + length]
                for values, start in zip((x, y), starts, strict=True)
            )
            whole = np.flatnonzero(np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1))
            if not len(whole):
                continue
            control = first != second
            some = whole[:: -(-len(whole) // stations)]
            single[control] += [Pair(a[s], b[s], ways_of_hours(length)) for s in some]
            joint = a[whole].ravel(), b[whole].ravel()
            every[control].append(Pair(*joint, ways_of_stations(length, len(whole))))
    return single, every


def pvalue(work: tuple[Vector, Vector, Asked, int]) -> float:
    x, y, asked, seed = work
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependentRowsWarning)
        warnings.simplefilter("ignore", ApproximateNullWarning)
        if "given" in asked:
            return dhsic.conditional_independence_test(x, y, **asked, rng=seed, threads=1).pvalue
        # One kernel, for time.
        found = dhsic.independence_test(x, y, kernels="gaussian", **asked, rng=seed, threads=1)
        return found.pvalue


@cache
def air() -> Mapping[str, Mapping[str, Vector]]:
    """Hours of the air, and their changes in 24 hours."""
    path = FOLDER / "beijing_air" / "beijing_air.parquet"
    held = series_of(path, ["PM2_5", "WSPM", "TEMP", "PRES"])
    changes = {name: np.full_like(values, np.nan) for name, values in held.items()}
    for name, values in held.items():
        changes[name][:, 24:] = values[:, 24:] - values[:, :-24]
    return {"hours": held, "changes in 24 hours": changes}


def of_places(windows: int) -> tuple[list[Pair], list[Pair]]:
    return places(FOLDER / "weather" / "data.csv", DRAWS * windows // WINDOWS, seed=0)


def of_air(kind: str, x: str, y: str) -> Callable[[int], tuple[list[Pair], list[Pair]]]:
    @cache
    def drawn(windows: int) -> tuple[list[Pair], list[Pair]]:
        single, every = hours(air()[kind][x], air()[kind][y], windows, STATIONS)
        return tuple([*single[what], *every[what]] for what in (False, True))  # type: ignore[return-value]

    return drawn


DATA: Mapping[str, Callable[[int], tuple[list[Pair], list[Pair]]]] = {
    "places: temperature, sunshine": of_places,
    "hours: PM2.5, wind speed": of_air("hours", "PM2_5", "WSPM"),
    "hours: temperature, pressure": of_air("hours", "TEMP", "PRES"),
    "changes in 24 hours: temperature, pressure": of_air("changes in 24 hours", "TEMP", "PRES"),
}
WAYS = {
    **dict.fromkeys([NOTHING, f"strata=, {BANDS} bands of altitude", "given= altitude"], "places"),
    **dict.fromkeys([*ways_of_hours(24), *ways_of_stations(24, 2)], "hours"),
}


def takes(cell: Cell) -> bool:
    """Whether the argument is for places, or for hours."""
    return cell.method == NOTHING or cell.data.startswith("places") == (cell.test == "places")


def measure(cell: Cell, run: int) -> tuple[list[float], list[float]]:
    """P-values of real pairs and of controls."""
    del run
    real, controls = (
        [
            pvalue((one.x, one.y, one.ways[cell.method], seed))
            for seed, one in enumerate(pair for pair in pairs if cell.method in pair.ways)
        ]
        for pairs in cell.draw(cell.n)
    )
    return real, controls


def rows(cell: Cell, found: Sequence[tuple[list[float], list[float]]]) -> Iterator[Row]:
    real, controls = map(np.array, found[0])
    yield {
        "tests": len(real),
        "median p": float(np.median(real)),
        "rejected": float(np.mean(real <= LEVEL)),
        "controls": len(controls),
        "controls rejected": float(np.mean(controls <= LEVEL)),
    }


def draw(table: Table, path: Path) -> None:
    """How often controls and real pairs are rejected, by data and argument."""
    names = list(dict.fromkeys(row["data"] for row in table))
    own = {name: [row for row in table if row["data"] == name][::-1] for name in names}
    figure = Figure(figsize=(9.0, 9.0), layout="constrained")
    panels = figure.subplots(
        len(names), 1, sharex=True, squeeze=False, height_ratios=[len(own[n]) for n in names]
    )[:, 0]
    for axes, name in zip(panels, names, strict=True):
        at = range(len(own[name]))
        axes.axvline(100 * LEVEL, color="0.6", linestyle="--", linewidth=1)
        real, controls = (
            [100 * float(row[key]) for row in own[name]]
            for key in ("rejected", "controls rejected")
        )
        axes.plot(real, at, "o", color="tab:blue", label="real pairs")
        axes.plot(controls, at, "D", color="tab:red", fillstyle="none", label="controls")
        axes.set_yticks(list(at), [row["method"] for row in own[name]])
        axes.set_ylim(-0.6, len(own[name]) - 0.4)
        axes.set_title(name, fontsize="medium", loc="left")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    panels[-1].set_xlabel("rejected at level 5 %, in %")
    figure.savefig(path, dpi=110)


STUDY = Study(
    name="dependent_air",
    title="How often are real series and places rejected, and controls of them?",
    data=DATA,
    methods=WAYS,
    sizes=(WINDOWS,),
    measure=measure,
    columns=("tests", "median p", "rejected", "controls", "controls rejected"),
    rows=rows,
    takes=takes,
    follows_defaults=everything,
    small={
        "data": ["places: temperature, sunshine"],
        "methods": [NOTHING, "given= altitude"],
        "sizes": [1],
    },
    picture=draw,
)
