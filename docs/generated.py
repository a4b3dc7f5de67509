"""The parts of pages that come from the benchmarks' tables, the errors and the command line.

`write` writes them to a folder, from which the pages include them. `figures` returns single
figures, which pages show as `{{ name }}`, so that no figure is copied by hand. Tables name the
commits of their rows, and mark rows of earlier defaults with a †. The build of the site calls both.
To see the parts without a build, and to write the figures of the README:

    python -m docs.generated docs/_generated
    python -m docs.generated --write
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

import dhsic
from dhsic import errors
from dhsic.cli import main as command_line

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.__main__ import studies
from benchmarks.study import DEFAULTS, RESULTS, Row, commits, origin, read_table, stale

SHOWN_ROWS, SHOWN_COLUMNS = 12, 12


def write(folder: Path) -> None:
    """Write every part, and leave files that are the same as they are.

    Sphinx reads a page again where a file that it includes is newer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in PARTS.items():
        path, text = folder / f"{name}.md", part()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


@cache
def table(name: str) -> Sequence[Row]:
    """The rows of the table of a study, which many parts and figures are made of."""
    return read_table(RESULTS / f"{name}.csv")


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    lines = [head, ["---", *("--:" for _ in head[1:])], *rows]
    return "".join(f"| {' | '.join(str(cell).replace('|', '/') for cell in x)} |\n" for x in lines)


def pivot(
    rows: Iterable[Row], down: str, across: str, cell: Callable[[Row], str]
) -> tuple[list[str], dict[str, dict[str, str]]]:
    """The values of one column across, and the rows of a table by the values of another."""
    found: dict[str, dict[str, str]] = {}
    names: dict[str, None] = {}
    for row in rows:
        names[row[across]] = None
        found.setdefault(row[down], {})[row[across]] = cell(row)
    return list(names), found


def share(row: Row, key: str) -> str:
    """A share as a percentage, nothing where there is none."""
    return f"{100 * float(row[key]):.0f} %" if row[key] else ""


def seconds(value: str | float) -> str:
    return f"{float(value):.3g}"


def sourced(text: str, rows: Sequence[Row]) -> str:
    """A part with the commits of its rows, and a word where they are of earlier defaults."""
    return f"{text}\n{origin(rows)}\n"


def cells(name: str, **chosen: object) -> list[Row]:
    """Rows of a table whose columns have some values."""

    def fits(row: Row) -> bool:
        return all(row[key] == str(value) for key, value in chosen.items())

    return [row for row in table(name) if fits(row)]


def power() -> str:
    """Power of three ways to take the same test, and its time."""
    names = {"v-hsic": "`v-hsic`", "features": "`nystrom-hsic`", "tuples": "`nystrom-m`"}
    rows = [r for r in cells("power", n=4000) if r["method"] in names]
    _, found = pivot(rows, "data", "method", lambda row: share(row, "power"))
    whole = {data: own for data, own in found.items() if len(own) == len(names)}
    lines: list[list[object]] = [[data, *(own[m] for m in names)] for data, own in whole.items()]
    own = {m: [r for r in rows if r["method"] == m and r["data"] in whole] for m in names}
    means = [np.mean([float(r["power"]) for r in some]) for some in own.values()]
    times = [np.median([float(r["seconds"]) for r in some]) for some in own.values()]
    lines.append(["**mean**", *(f"**{100 * mean:.0f} %**" for mean in means)])
    lines.append(["**seconds**", *(f"**{seconds(time)}**" for time in times)])
    return sourced(markdown(["dependence", *names.values()], lines), rows)


def nulls_power() -> str:
    """Power of the exact nulls beside permutations."""
    rows = [r for r in cells("power", n=200) if r["method"] in ("tuples", "chain", "permutation")]
    _, found = pivot(rows, "data", "method", lambda row: share(row, "power"))
    lines = [
        [data, own.get("chain") or own["tuples"], own["permutation"]]
        for data, own in found.items()
        if len(own) > 1 and "permutation" in own
    ]
    head = ["dependence", "shifts, or a chain", "499 permutations"]
    return sourced(markdown(head, lines), rows)


def cost() -> str:
    """Seconds of estimators by name."""
    rows = cells("cost", data="songs, 10 columns")
    sizes, found = pivot(rows, "method", "n", lambda row: seconds(row["seconds"]))
    ordered = sorted(sizes, key=int)
    lines = ([test, *(own.get(n, "") for n in ordered)] for test, own in found.items())
    head = ["estimator, null", *(f"{int(n):,} rows" for n in ordered)]
    return sourced(markdown(head, lines), rows)


def nulls_cost() -> str:
    """Seconds by null."""
    named = re.compile(r"v-hsic, .* (shifts|permutations)|nystrom-m, .* replicates")
    rows = [r for r in table("cost") if named.fullmatch(r["method"])]
    lines = (
        [r["method"], f"{int(r['n']):,} x ({r['data']})", seconds(r["processor"])] for r in rows
    )
    return sourced(markdown(["estimator, null", "rows", "processor seconds"], lines), rows)


def default_cost() -> str:
    """Seconds of the default beside one kernel."""
    names = ("independence_test", "one kernel")
    rows = [r for r in table("cost") if r["method"] in names and " columns" in r["data"][-8:]]
    found = {(r["data"], r["n"], r["method"]): r for r in rows}
    lines = []
    for (data, n, method), row in sorted(found.items(), key=lambda one: int(one[0][1])):
        one = found.get((data, n, "one kernel"))
        if method == "independence_test" and one is not None:
            whole, alone = float(row["processor"]), float(one["processor"])
            chosen = row["chosen"]
            where, times = f"{int(n):,} x ({data})", f"{whole / alone:.1f}"
            lines.append([where, chosen, seconds(whole), seconds(alone), times])
    head = ["rows x columns", "chosen", "processor seconds", "one kernel", "times"]
    return sourced(markdown(head, lines), rows)


def conditional_cost() -> str:
    """Seconds of conditional tests beside others."""
    rows = sorted(
        (r for r in table("cost") if r["data"].startswith("given ")),
        key=lambda r: (int(r["n"]), len(r["data"])),
    )
    shapes = [{**r, "shape": f"{int(r['n']):,}, {r['data']}"} for r in rows]
    tests, found = pivot(shapes, "shape", "method", lambda row: seconds(row["processor"]))
    lines = ([shape, *(own.get(one, "") for one in tests)] for shape, own in found.items())
    heads = [one.removesuffix(", given") for one in tests]
    return sourced(markdown(["rows", *heads], lines), rows)


def conditional_level() -> str:
    """Rejections where x and y hold the same function of z."""
    rows = [
        r
        for r in table("level")
        if r["data"].split(", given")[0] in HELD_TWICE and "given" in r["data"] and r["warned"]
    ]
    shapes = [{**r, "shape": f"{r['data']}, {int(r['n']):,} rows"} for r in rows]
    _, found = pivot(shapes, "shape", "method", lambda row: share(row, "5%"))
    own = {r["shape"]: r for r in shapes if r["method"] == CONDITIONAL}
    lines = (
        [
            shape,
            own[shape]["runs"],
            rates[CONDITIONAL],
            *(share(own[shape], key) for key in ("warned", "unwarned")),
            *(rates.get(one, "") for one in ("kci", "gcm")),
        ]
        for shape, rates in found.items()
        if shape in own
    )
    head = ["data, columns of z, rows", "data sets", "dhsic", "warned", "rejected unwarned"]
    return sourced(markdown([*head, "KCI", "GCM"], lines), rows)


def level() -> str:
    """The largest rate of every estimator with every null."""
    named = re.compile(r"(gaussian|heavy tails|ties|mixed dimensions), M = [23]")
    rows = [r for r in table("level") if named.fullmatch(r["data"]) and ", " in r["method"]]
    most: dict[str, Row] = {}
    for row in rows:
        test = re.sub(r" n_resamples=\d+| within=all", "", row["method"])
        if test not in most or float(row["5%"]) > float(most[test]["5%"]):
            most[test] = row
    lines = (
        [test, *(f"{100 * float(row[key]):.1f} %" for key in ("5%", "limit 5%"))]
        for test, row in most.items()
    )
    return sourced(markdown(["estimator, null", "largest rate", "limit"], lines), rows)


def latest(name: str) -> list[Row]:
    """Rows of a table with the data of the last one, where a study came to other data."""
    rows = table(name)
    return [row for row in rows if row["data"] == rows[-1]["data"]]


def scaling() -> str:
    """Strong and weak scaling."""
    rows = [r for r in latest("cluster_scaling") if r["method"] in ("strong", "weak")]
    lines = (
        [r["method"], r["workers"], f"{int(r['rows']):,}", seconds(r["seconds"]), r["speedup"]]
        for r in rows
    )
    head = ["study", "workers", "rows", "seconds", "rows a second, relative"]
    return sourced(markdown(head, lines), rows)


def machine() -> str:
    """The machine that `machine.json` describes."""
    told = json.loads((RESULTS / "machine.json").read_text())
    lines = [
        ["processor", told["processor"]],
        ["cores", f"{told['cores']['physical']} physical, {told['cores']['logical']} logical"],
        ["memory", f"{told['memory GiB']} GiB"],
        ["system", told["system"]],
        ["Python", told["python"]],
        ["libraries", ", ".join(f"{k} {v}" for k, v in told["libraries"].items())],
        ["packages beside", ", ".join(f"{k} {v}" for k, v in told["peers"].items())],
    ]
    return markdown(["", "machine"], lines).replace("--:", ":--")


def dependent_air() -> str:
    """Rejections of real pairs and of controls."""
    rows, lines = table("dependent_air"), []
    for name in dict.fromkeys(row["data"] for row in rows):
        lines.append([f"**{name}**", "", "", ""])
        for row in (row for row in rows if row["data"] == name):
            rates = (share(row, key) for key in ("rejected", "controls rejected"))
            lines.append([row["method"], seconds(row["median p"]), *rates])
    head = ["argument", "median p of real pairs", "rejected", "controls rejected"]
    return sourced(markdown(head, lines), rows)


def questions() -> str:
    """Every study with its command."""
    lines = (
        [study.title, f"`python -m benchmarks run {name}`", f"`{name}.csv`"]
        for name, study in studies().items()
    )
    return markdown(["question", "command", "table"], lines).replace("--:", ":--")


def tables() -> str:
    """All tables of the benchmarks, each with its command and its picture."""
    named = [name for name in studies() if (RESULTS / f"{name}.csv").exists()]
    return "\n".join(map(_shown, named))


def _shown(name: str) -> str:
    title, rows = studies()[name].title, table(name)
    head = [key for key in rows[0] if key not in ("date", "commit", "default")][:SHOWN_COLUMNS]
    parts = [f"## {name}\n", f"{title} `python -m benchmarks run {name}`\n", f"{origin(rows)}\n"]
    picture = RESULTS / ("time_against_n.png" if name == "peers_limits" else f"{name}.png")
    if picture.exists():
        place = f"../benchmarks/results/{picture.name}"
        parts.append(f"```{{image}} {place}\n:alt: {title}\n:width: 100%\n```\n")
    body = markdown(head, ([_short(row[key]) for key in head] for row in rows[:SHOWN_ROWS]))
    left = len(rows) - SHOWN_ROWS
    more = f"\n... and {left:,} more rows.\n" if left > 0 else ""
    parts.append(
        f":::{{dropdown}} {len(rows):,} rows, {len(rows[0])} columns\n"
        f"{{download}}`{name}.csv <../benchmarks/results/{name}.csv>`\n\n{body}{more}\n:::\n"
    )
    return "\n".join(parts)


def _short(cell: str) -> str:
    return cell if len(cell) <= 48 else f"{cell[:45]}..."


# --- single figures


class Figure(NamedTuple):
    """A figure, the rows that it is computed of, and the study of these."""

    text: str
    rows: Sequence[Row]
    study: str

    def __str__(self) -> str:
        return f"{self.text} †" if stale(self.rows) else self.text


def _level_of_defaults() -> Figure:
    functions = ("independence_test", "two_sample_test", "dependence_matrix", "rank_features")
    rows = [r for r in table("level") if r["method"] in (*functions, "interaction_test")]
    rates = [100 * float(row["5%"]) for row in rows]
    count = len({(row["data"], row["method"], row["n"]) for row in rows})
    return Figure(f"{min(rates):.1f} to {max(rates):.1f} % in {count} cells", rows, "level")


def _most_rows() -> Figure:
    rows = cells("peers_limits", data="90 + 1 columns", method="dhsic default", stopped="")
    most = max(rows, key=lambda row: int(row["n"]))
    text = f"{int(most['n']):,}, in {float(most['peak']):,.0f} MiB"
    return Figure(text, [most], "peers_limits")


def _hundred_million() -> Figure:
    (row,) = cells("cost", data="songs, 1 column, stored", n=100_000_000)
    text = f"{float(row['processor']):.0f} s of the processor, {float(row['peak']):.0f} MiB"
    return Figure(text, [row], "cost")


def _two_workers() -> Figure:
    *_, row = cells("cluster_scaling", method="strong", workers=2)
    return Figure(f"{float(row['speedup']):.2f} times as fast", [row], "cluster_scaling")


def _faults() -> Figure:
    rows = latest("chaos")
    same, runs = (sum(int(row[key]) for row in rows) for key in ("same", "runs"))
    wrong = any(row["wrong"] for row in rows)
    others = "not all others" if wrong else "the others"
    return Figure(
        f"{same} of {runs} the same to the bit, {others} ended with an error", rows, "chaos"
    )


def _permutations() -> Figure:
    rows = [r for r in cells("power", n=200) if r["method"] in ("tuples", "permutation")]
    _, found = pivot(rows, "data", "method", lambda row: row["power"])
    apart = [
        abs(float(own["tuples"]) - float(own["permutation"]))
        for own in found.values()
        if len(own) == 2
    ]
    text = f"within {100 * max(apart):.0f} points of 499 permutations on {len(apart)} kinds"
    return Figure(text, rows, "power")


def _over_one_kernel() -> Figure:
    rows = [r for r in table("cost") if re.fullmatch(r"\d+ \+ \d+ columns", r["data"])]
    own = {(r["data"], r["n"], r["method"]): float(r["processor"]) for r in rows}
    times = [
        value / own[data, n, "one kernel"]
        for (data, n, method), value in own.items()
        if method == "independence_test" and (data, n, "one kernel") in own
    ]
    text = f"{min(times):.1f} to {max(times):.1f} times the time of one kernel"
    return Figure(text, [r for r in rows if r["method"] == "independence_test"], "cost")


def _sure(method: str) -> Figure:
    """The least processor time in which a method finds more than 99 % of dependences of songs."""
    rows = [
        r for r in cells("peers_power", data="songs", method=method) if float(r["power"]) > 0.99
    ]
    row = min(rows, key=lambda row: float(row["seconds"]))
    return Figure(f"{float(row['seconds']):.2f} s, of {row['n']} songs", [row], "peers_power")


def _planned_bytes() -> Figure:
    rows = [r for r in table("cost") if r["planned"] and r["peak"] and not r["stopped"]]
    used = [float(r["peak"]) / float(r["planned"]) for r in rows]
    text = f"{min(used):.2f} to {max(used):.2f} of the bytes in {len(rows)} runs"
    return Figure(text, rows, "cost")


def _slopes(named: str) -> Figure:
    rows = [r for r in table("convergence") if r["method"].startswith(named)]
    slopes = []
    for key in dict.fromkeys((r["data"], r["method"]) for r in rows):
        own = [r for r in rows if (r["data"], r["method"]) == key]
        logs = np.log([[float(r[name]) for r in own] for name in ("n", "relative error")])
        slopes.append(float(np.polyfit(logs[0], logs[1], 1)[0]))
    return Figure(f"{max(slopes):.1f} to {min(slopes):.1f}", rows, "convergence")


def _conditional(n: int) -> Figure:
    """Rejections of true nulls that are no categories and not hard to regress."""
    rows = [
        r
        for r in cells("level", method=CONDITIONAL, n=n)
        if r["data"].split(", given")[0] not in (*HELD_TWICE, "categories")
        and int(r["runs"]) >= 300
    ]
    rates = [100 * float(r["5%"]) for r in rows]
    return Figure(f"{min(rates):.0f} to {max(rates):.0f} %", rows, "level")


def _found_given(case: str, method: str) -> Figure:
    rows = [
        r
        for r in cells("power", method=method, n=1000)
        if r["data"].startswith(f"{case}, given 1,")
    ]
    best = max(rows, key=lambda row: int(row["runs"]))
    return Figure(share(best, "power"), [best], "power")


def _nfsic_of_three() -> Figure:
    rows = [
        r
        for r in cells("level", method="nfsic, chi-square", n=200)
        if r["data"].endswith("M = 3") and r["1%"]
    ]
    worst = max(rows, key=lambda row: float(row["1%"]))
    return Figure(f"{100 * float(worst['1%']):.1f} %", [worst], "level")


def _air(data: str, way: str, key: str = "controls rejected") -> Figure:
    (row,) = cells("dependent_air", data=data, method=way)
    return Figure(share(row, key), [row], "dependent_air")


def _search(what: str) -> Figure:
    own, other = (
        cells("pc_graph", data="nonlinear", method=f"causal-learn, {test}", n=1_000_000)[0]
        for test in ("dhsic", "fisherz")
    )
    texts = {
        "minutes": f"{float(own['seconds']) / 60:.0f} minutes",
        "memory": f"{float(own['peak MiB']):.0f} MiB",
        "tests": own["tests"],
        "whole": own["of all rows"],
        "missed": other["missing"],
        "extra": other["extra"],
    }
    return Figure(texts[what], [other if what in ("missed", "extra") else own], "pc_graph")


PLACES, WIND, PRESSURE, CHANGES = (
    "places: temperature, sunshine",
    "hours: PM2.5, wind speed",
    "hours: temperature, pressure",
    "changes in 24 hours: temperature, pressure",
)
NOTHING, ORDER = "nothing: independent draws", "order='time', lag and period of a day"
JOINT = "all stations, groups= stations with order='time'"
CONDITIONAL = "conditional_independence_test"

FIGURES: dict[str, Callable[[], Figure]] = {
    "level_of_defaults": _level_of_defaults,
    "most_rows": _most_rows,
    "hundred_million": _hundred_million,
    "two_workers": _two_workers,
    "faults": _faults,
    "permutations": _permutations,
    "over_one_kernel": _over_one_kernel,
    "sure_default": lambda: _sure("dhsic default"),
    "sure_hyppo": lambda: _sure("hyppo Hsic, fast"),
    "planned_bytes": _planned_bytes,
    "slope_landmarks": lambda: _slopes("nystrom"),
    "slope_features": lambda: _slopes("rff"),
    **{f"conditional_{n}": partial(_conditional, n) for n in (200, 1000, 10_000)},
    "nfsic_three": _nfsic_of_three,
    "volatile_dhsic": lambda: _found_given("volatile", CONDITIONAL),
    "volatile_gcm": lambda: _found_given("volatile", "gcm"),
    "volatile_rcit": lambda: _found_given("volatile", "rcit"),
    **{
        f"search_{what}": partial(_search, what)
        for what in ("minutes", "memory", "tests", "whole", "missed", "extra")
    },
    "places_nothing": lambda: _air(PLACES, NOTHING),
    "places_strata": lambda: _air(PLACES, "strata=, 10 bands of altitude"),
    "places_given": lambda: _air(PLACES, "given= altitude"),
    "wind_nothing": lambda: _air(WIND, NOTHING),
    "wind_strata": lambda: _air(WIND, "strata=, hours of the day"),
    "wind_given": lambda: _air(WIND, "given= hour and day"),
    "wind_days": lambda: _air(WIND, "groups=, days"),
    "wind_five": lambda: _air(WIND, "groups=, five days"),
    "wind_order": lambda: _air(WIND, ORDER),
    "wind_found": lambda: _air(WIND, ORDER, "rejected"),
    "wind_joint": lambda: _air(WIND, JOINT),
    "pressure_order": lambda: _air(PRESSURE, ORDER),
    "pressure_joint": lambda: _air(PRESSURE, JOINT),
    "pressure_five": lambda: _air(PRESSURE, "groups=, five days"),
    "changes_order": lambda: _air(CHANGES, ORDER),
    "changes_joint": lambda: _air(CHANGES, JOINT),
    "changes_found": lambda: _air(CHANGES, ORDER, "rejected"),
    "changes_joint_found": lambda: _air(CHANGES, JOINT, "rejected"),
    "defaults": lambda: Figure(str(DEFAULTS), [], ""),
}
"""Figures in the text of pages, by the names that pages have."""


def figures() -> dict[str, str]:
    """All of them as they are shown."""
    return {name: str(figure()) for name, figure in FIGURES.items()}


SHORT = {
    "independent data rejected at level 5 %, by default": "level_of_defaults",
    "most rows of 90 + 1 columns in 60 s and 4 GiB, by default": "most_rows",
    "100 million stored rows of 1 + 1 columns, 100 landmarks": "hundred_million",
    "speed of two worker processes over one, 4,000,000 rows, random signs": "two_workers",
    "runs of random signs that lost some or all workers, the client or the scheduler": "faults",
}
"""What the README shows."""
MORE = {
    **SHORT,
    "power of shifts compared with permutations, two variables of 200 rows": "permutations",
    "time of the default, several kernels with 1,000 shifts": "over_one_kernel",
    "shortest test of songs with power above 99 % at level 1 %, by default": "sure_default",
    "the same of hyppo, with its chi-square approximation": "sure_hyppo",
    "measured memory of runs, as a share of the planned memory": "planned_bytes",
}
"""What the page on evidence shows."""


def short(listed: Mapping[str, str] = MORE) -> str:
    """Figures with their commands and commits."""
    found = {what: FIGURES[name]() for what, name in listed.items()}
    lines = (
        [what, figure, f"`python -m benchmarks run {figure.study}`", _commits(figure.rows)]
        for what, figure in found.items()
    )
    text = markdown(["", "measured", "command", "commit"], lines).replace("--:", "---")
    if any(stale(figure.rows) for figure in found.values()):
        text += f"\n† Of earlier defaults than today's (version {DEFAULTS}).\n"
    return text


def _commits(rows: Sequence[Row]) -> str:
    found = commits(rows)
    return f"{', '.join(found[-2:])}{' and others' * (len(found) > 2)}"


README = re.compile(r"(<!-- figures: .*? -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def readme(text: str) -> str:
    """The README with its table of figures."""
    return README.sub(lambda found: f"{found[1]}{short(SHORT)}{found[2]}", text)


HELD_TWICE = ("product", "sums", "radius", "heavy tails", "ties")
"""Data with the same function of z in x and y."""

CALLS = {
    "InvalidArgumentError": "dhsic.independence_test(x, y, estimator='nystrom')",
    "UnknownArgumentError": "dhsic.independence_test(x, y, kernel='gaussian')",
    "DataError": "dhsic.independence_test(x, np.where(x > 2, np.nan, x))",
    "MemoryBudgetError": "dhsic.independence_test(x, y, estimator=many, memory='128MiB')",
    "DependentRowsWarning": "dhsic.independence_test(*repeated, rng=0)",
    "PrecisionWarning": "dhsic.hsic(tails, y, estimator=many, precision='float32', rng=0)",
    "LandmarkWarning": "dhsic.hsic(one, y, estimator=few, kernels='distance', rng=0)",
    "ApproximateNullWarning": "dhsic.independence_test(rare, rare[::-1], null='gamma', rng=0)",
    "UnexplainedWarning": "dhsic.conditional_independence_test(p + e, p + f, given=z, rng=0)",
}
"""A call for each error that one shows."""


def _values() -> dict[str, object]:
    """The names in the calls."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 1000))
    return {
        "dhsic": dhsic,
        "np": np,
        "x": x,
        "y": y,
        "many": dhsic.NystromHSIC(n_landmarks=1000),
        "few": dhsic.NystromHSIC(n_landmarks=3),
        "rare": 1.0 * (rng.random(1000) < 0.02),
        "repeated": np.repeat(rng.standard_normal((2, 100)), 10, axis=1),
        "one": 1.0 * (np.arange(1000) == 0),
        "tails": np.abs(rng.standard_cauchy((1000, 2))) ** 1.5,
        "z": (z := rng.standard_normal((300, 3))),
        "p": 2.0 * z.prod(axis=1),
        **dict(zip("ef", rng.standard_normal((2, 300)), strict=True)),
    }


def message_of(name: str) -> str:
    """The message that the call of an error or a warning gets."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            eval(CALLS[name], _values())
        except errors.DhsicError as error:
            if type(error).__name__ == name:
                return str(error)
            raise
    told = [str(one.message) for one in caught if one.category.__name__ == name]
    return told[0]


def errors_page() -> str:
    """Every error and warning of `dhsic.errors`, with a call that meets it."""
    classes = [getattr(errors, name) for name in errors.__all__]
    kinds = [one for one in classes if inspect.isclass(one) and one is not errors.DhsicError]
    return "\n".join(map(_error, kinds))


def _error(kind: type[BaseException]) -> str:
    first = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0]
    others = [one for one in kind.__mro__[1:] if one not in (object, BaseException, Exception)]
    also = ", ".join(f"`{one.__name__}`" for one in others if one.__module__ == "builtins")
    parts = [f"## {kind.__name__}\n", f"{first} It is also: {also}.\n"]
    if kind.__name__ in CALLS:
        message = message_of(kind.__name__)
        parts.append(f"```python\n{CALLS[kind.__name__]}\n```\n")
        parts.append(f"```text\n{kind.__name__}: {message}\n```\n")
    return "\n".join(parts)


def commands() -> str:
    """The help of every command."""
    return "\n".join(_helps(command_line, "dhsic", None))


def _helps(command: click.Command, name: str, parent: click.Context | None) -> Iterable[str]:
    context = click.Context(command, info_name=name.split()[-1], parent=parent, terminal_width=96)
    yield f"## {name}\n\n```text\n{command.get_help(context).strip()}\n```\n"
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None:
                yield from _helps(found, f"{name} {child}", context)


PARTS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "conditional-cost": conditional_cost,
    "conditional-level": conditional_level,
    "cost": cost,
    "default-cost": default_cost,
    "dependent-air": dependent_air,
    "errors": errors_page,
    "level": level,
    "machine": machine,
    "nulls-cost": nulls_cost,
    "nulls-power": nulls_power,
    "power": power,
    "questions": questions,
    "scaling": scaling,
    "short": short,
    "tables": tables,
}

if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        page = ROOT / "README.md"
        page.write_text(readme(page.read_text()))
    elif len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m docs.generated FOLDER | --write")
    else:
        write(Path(sys.argv[1]))
