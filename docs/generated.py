"""The parts of pages that come from the benchmarks' tables, the errors and the command line.

`write` puts them into a folder, from which the pages include them, so that no figure is copied by
hand. The build does so; to look at them without it:

    python docs/generated.py docs/_generated
"""

from __future__ import annotations

import csv
import inspect
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import click
import numpy as np

import dhsic
from dhsic import errors
from dhsic.cli import main as command_line

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SHOWN_ROWS = 12

Row = Mapping[str, str]


def write(folder: Path) -> None:
    """Write every part, and leave files that are the same as they are.

    Sphinx reads a page again where a file that it includes is newer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in PARTS.items():
        path, text = folder / f"{name}.md", part()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def table(name: str) -> list[Row]:
    """The rows of a table of the benchmarks."""
    with (RESULTS / name).open(newline="") as file:
        return list(csv.DictReader(file))


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


def percent(row: Row) -> str:
    return f"{100 * float(row['power']):.0f} %"


def seconds(value: str | float) -> str:
    return f"{float(value):.3g}"


def power() -> str:
    """Power of three ways to take the same test, and its time, from `default_power.csv`."""
    names = {"v-hsic": "`v-hsic`", "features": "`nystrom-hsic`", "tuples": "`nystrom-m`"}
    rows = [r for r in table("default_power.csv") if r["n"] == "4000" and r["method"] in names]
    _, found = pivot(rows, "data", "method", percent)
    lines: list[list[object]] = [[data, *(own[m] for m in names)] for data, own in found.items()]
    means = [np.mean([float(r["power"]) for r in rows if r["method"] == m]) for m in names]
    times = [np.median([float(r["seconds"]) for r in rows if r["method"] == m]) for m in names]
    lines.append(["**mean**", *(f"**{100 * mean:.0f} %**" for mean in means)])
    lines.append(["**seconds**", *(f"**{seconds(time)}**" for time in times)])
    return markdown(["dependence", *names.values()], lines)


def nulls_power() -> str:
    """Power of the exact nulls beside permutations, from `exact_power.csv`."""
    rows = [r for r in table("exact_power.csv") if r["n"] == "200"]
    _, found = pivot(rows, "data", "method", percent)
    names = ("default", "permutation")
    head = ["dependence", "the default (shifts, or a chain)", "499 permutations"]
    return markdown(head, ([data, *(own[n] for n in names)] for data, own in found.items()))


def cost() -> str:
    """Seconds of the family, from `family.csv`."""
    rows = [r for r in table("family.csv") if r["unit"] in ("us a row", "ns a pair")]
    linear = [r for r in rows if r["unit"] == "us a row"]
    quadratic = [r for r in rows if r["unit"] == "ns a pair"]
    return "\n".join(map(_by_rows, (linear, quadratic)))


def _by_rows(rows: list[Row]) -> str:
    sizes, found = pivot(rows, "test", "n", lambda row: seconds(row["seconds"]))
    lines = ([test, *(own.get(n, "") for n in sizes)] for test, own in found.items())
    return markdown(["estimator, null", *(f"{int(n):,} rows" for n in sizes)], lines)


def nulls_cost() -> str:
    """Seconds by null, from `exact_cost.csv`."""
    rows = [r for r in table("exact_cost.csv") if not r["case"].startswith("replicates")]
    lines = (
        [r["case"], f"{int(r['n']):,} x {r['columns']}", r["null"], seconds(r["seconds"])]
        for r in rows
    )
    return markdown(["estimator", "rows x columns", "null", "seconds"], lines)


def default_cost() -> str:
    """Seconds of the default beside one kernel, from `default_cost.csv`."""
    rows = sorted(table("default_cost.csv"), key=lambda r: (int(r["n"]), r["columns"]))
    lines = (
        [
            f"{int(r['n']):,} x ({r['columns']})",
            r["estimator"],
            r["kernels"],
            seconds(r["seconds"]),
            seconds(r["one kernel, seconds"]),
            f"{float(r['over one kernel']):.1f}",
        ]
        for r in rows
    )
    head = ["rows x columns", "estimator", "kernels", "seconds", "one kernel, seconds", "times"]
    return markdown(head, lines)


def conditional_cost() -> str:
    """Seconds of conditional tests beside others, from `conditional_level_seconds.csv`."""
    rows = sorted(
        table("conditional_level_seconds.csv"), key=lambda r: (int(r["n"]), int(r["columns of z"]))
    )
    shapes = [{**r, "shape": f"{int(r['n']):,} x {r['columns of z']}"} for r in rows]
    tests, found = pivot(shapes, "shape", "test", lambda row: seconds(row["processor seconds"]))
    lines = ([shape, *(own.get(one, "") for one in tests)] for shape, own in found.items())
    return markdown(["rows x columns of z", *tests], lines)


def conditional_level() -> str:
    """Rejections where x and y hold the same function of z, from `conditional_level.csv`."""
    rows = [r for r in table("conditional_level.csv") if r["warned"] and r["data"] in HELD_TWICE]
    shapes = [{**r, "shape": f"{r['data']}, {int(r['n']):,} x {r['columns of z']}"} for r in rows]
    _, found = pivot(shapes, "shape", "test", lambda row: f"{100 * float(row['rejected']):.0f} %")
    own = {row["shape"]: row for row in shapes if row["test"] == "dhsic"}
    lines = (
        [
            shape,
            own[shape]["runs"],
            rates["dhsic"],
            *(f"{100 * float(own[shape][key]):.0f} %" for key in ("warned", "rejected unwarned")),
            *(rates.get(one, "") for one in ("kci", "gcm")),
        ]
        for shape, rates in found.items()
        if shape in own
    )
    head = ["data, rows x columns of z", "data sets", "dhsic", "warned", "rejected unwarned"]
    return markdown([*head, "KCI", "GCM"], lines)


def level() -> str:
    """The largest rate of every estimator with every null, from `level.csv`."""
    most: dict[tuple[str, str], Row] = {}
    for row in table("level.csv"):
        pair = row["estimator"], re.sub(r" n_resamples=\d+| within=all", "", row["null"])
        if pair not in most or float(row["5%"]) > float(most[pair]["5%"]):
            most[pair] = row
    lines = (
        [estimator, null, *(f"{100 * float(row[key]):.1f} %" for key in ("5%", "limit 5%"))]
        for (estimator, null), row in most.items()
    )
    return markdown(["estimator", "null", "largest rate", "limit"], lines)


def scaling() -> str:
    """Strong and weak scaling, from `cluster_scaling.csv`."""
    rows = [r for r in table("cluster_scaling.csv") if r["study"] in ("strong", "weak")]
    lines = (
        [r["study"], r["workers"], f"{int(r['rows']):,}", seconds(r["seconds"]), r["speedup"]]
        for r in rows
    )
    return markdown(["study", "workers", "rows", "seconds", "rows a second, relative"], lines)


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


def commands_of_tables() -> dict[str, tuple[str, str]]:
    """Of every table in the list of the page on evidence its question and its command."""
    page = (ROOT / "docs" / "evidence.md").read_text()
    listed = re.findall(r"^\| (.+?) \| (`python .+?) \| (`\w+\.csv`.*) \|$", page, re.MULTILINE)
    found = {}
    for question, command, files in listed:
        first, *more = re.findall(r"`(\w+)(?:\.csv)?`", files)
        stem = re.sub(r"_\d$", "", first)
        names = [first, *(f"{stem}{one}" if one.startswith("_") else one for one in more)]
        found |= {f"{name}.csv": (question, command) for name in names}
    return found


def dependent_air() -> str:
    """Rejections of real pairs and of controls, from `dependent_air.csv`."""
    rows, lines = table("dependent_air.csv"), []
    for name in dict.fromkeys(row["data"] for row in rows):
        lines.append([f"**{name}**", "", "", ""])
        for row in (row for row in rows if row["data"] == name):
            rates = (f"{100 * float(row[k]):.0f} %" for k in ("rejected", "controls rejected"))
            lines.append([row["argument"], seconds(row["median p"]), *rates])
    return markdown(["argument", "median p of real pairs", "rejected", "controls rejected"], lines)


def tables() -> str:
    """All tables of the benchmarks, each with its command and its picture."""
    known = commands_of_tables()
    return "\n".join(_shown(path, *known.get(path.name, ("", ""))) for path in _all_tables())


def _all_tables() -> list[Path]:
    return sorted(RESULTS.glob("*.csv"))


def _shown(path: Path, question: str, command: str) -> str:
    rows = table(path.name)
    head = list(rows[0])[:12]
    parts = [f"## {path.stem}\n", f"{question} {command}".strip() + "\n"]
    picture = path.with_suffix(".png")
    if picture.exists():
        place = f"../benchmarks/results/{picture.name}"
        parts.append(f"```{{image}} {place}\n:alt: {question or path.stem}\n:width: 100%\n```\n")
    body = markdown(head, ([_short(row[key]) for key in head] for row in rows[:SHOWN_ROWS]))
    left = len(rows) - SHOWN_ROWS
    more = f"\n... and {left:,} more rows.\n" if left > 0 else ""
    parts.append(
        f":::{{dropdown}} {len(rows):,} rows, {len(rows[0])} columns\n"
        f"{{download}}`{path.name} <../benchmarks/results/{path.name}>`\n\n{body}{more}\n:::\n"
    )
    return "\n".join(parts)


def _short(cell: str) -> str:
    return cell if len(cell) <= 48 else f"{cell[:45]}..."


HELD_TWICE = ("product", "sums", "radius", "heavy tails", "ties")
"""Data of `conditional_level` with the same function of z in x and y."""

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
    "scaling": scaling,
    "tables": tables,
}

if __name__ == "__main__":
    write(Path(sys.argv[1]))
