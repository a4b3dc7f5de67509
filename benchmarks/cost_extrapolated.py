"""How long a test would take on clusters that were not there, and what would hold it up.

The model of `benchmarks.costs` with the rates of `benchmarks/results/cost_model_rates.csv` and the
scheduler of `benchmarks/results/scheduler_cost.csv`, as its formula and as the simulation of
`benchmarks.simulated_cluster` have it. Workers have one thread, as fast as one here, and a link of
their own to each other and to a store that gives all of them what their links take. They read the
chunks in which the landmarks lie, too, and send these rows to the driver, which factorises and
solves on one thread. The data have the Million Song shape in float32, are stored in chunks
and not compressed, and all landmarks are kept. The scheduler takes as much of a task at every size
as with the most tasks that were measured. Nothing here was run: whether networks and stores keep
what their links promise, and workers have the memory, is not known. Writes
benchmarks/results/cost_model_extrapolated.csv, with the seconds of every part, and a picture
beside it, where a point is hollow if the driver would need more than 64 GiB.

    python benchmarks/cost_extrapolated.py
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import click
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.costs import PASSES, Job, Machine, Workers, pass_cost, predict, tree_tasks
from benchmarks.output import read_csv, write_csv
from benchmarks.simulated_cluster import Costs, Pass, simulate, typical_costs
from dhsic.landmarks import landmark_count

ROWS = (515_345, 10**7, 10**8, 10**9)
RULES = ("500", "2000", "sqrt", "8sqrt")
WORKERS = (10, 100, 1000)
GIGABITS = (1.0, 10.0)
DIMS = (90, 1)
RESAMPLES = 250
CHUNK_ROWS = 8192
COLOURS = {  # of Okabe and Ito
    "tiles": "#0072B2",
    "reading": "#56B4E9",
    "combining": "#CC79A7",
    "scheduling": "#D55E00",
    "driver solve": "#009E73",
    "fetch landmarks": "#E69F00",
    "start": "#000000",
}
MARKERS = "osd^"
MOST_GIB = 64


def job_of(n: int, rule: str) -> Job:
    """The test of so many rows."""
    p = landmark_count(int(rule) if rule.isdigit() else rule, n, replace=False)
    return Job(n, DIMS, p, p, RESAMPLES, "float32", CHUNK_ROWS)


def served_by(machine: Machine, costs: Costs) -> Machine:
    """The machine with a scheduler in a process of its own."""
    cluster = {
        **machine.rates["cluster"],
        "built task": costs.build,
        "submitted task": costs.submit,
        "finished task": costs.finish,
    }
    return replace(machine, rates={**machine.rates, "cluster": cluster})


def simulated_seconds(job: Job, machine: Machine, workers: Workers, costs: Costs) -> float:
    """The passes simulated, and the other parts as they are."""
    parts = predict(job, machine, workers).parts
    seconds = parts["start"] + parts["fetch landmarks"] + parts["driver solve"]
    for name in PASSES:
        cost = pass_cost(job, machine, workers, name)
        block = cost.tile_seconds + cost.read_seconds
        work = Pass(cost.blocks, block, cost.combine_seconds, cost.fetch_seconds)
        seconds += simulate(work, workers.count, costs).seconds
        seconds += machine.rates["cluster"]["start of a pass"]
    return seconds


def rows(
    machine: Machine,
    costs: Costs,
    sizes: Sequence[int],
    rules: Sequence[str],
    counts: Sequence[int],
) -> Iterator[dict[str, Any]]:
    for n, rule in product(sizes, rules):
        job = job_of(n, rule)
        for count, gigabits in product(counts, GIGABITS):
            link = gigabits * 1e9 / 8
            workers = Workers(count, True, link_bytes=link, read_bytes=link)
            found = predict(job, machine, workers)
            blocks = len(job.blocks("null"))
            yield {
                "n": n,
                "rule": rule,
                "landmarks": job.kept,
                "workers": count,
                "Gbit/s": gigabits,
                "blocks": blocks,
                "tasks": blocks + tree_tasks(blocks)[0],
                "seconds": found.seconds,
                "simulated seconds": simulated_seconds(job, machine, workers, costs),
                "bottleneck": found.bottleneck,
                **{f"{part} s": seconds for part, seconds in found.parts.items()},
                "scheduler s": found.served,
                "driver GiB": job.driver_bytes / 2**30,
            }


def draw(table: list[Mapping[str, Any]], path: Path) -> None:
    """Seconds against workers, a panel a rule and a network, coloured by what takes the most."""
    rules = list(dict.fromkeys(row["rule"] for row in table))
    figure = Figure(figsize=(2.6 * len(rules) + 1.9, 5.6), layout="constrained")
    panels = figure.subplots(len(GIGABITS), len(rules), sharex=True, sharey=True, squeeze=False)
    for line, gigabits in zip(panels, GIGABITS, strict=True):
        for axes, rule in zip(line, rules, strict=True):
            own = [r for r in table if r["rule"] == rule and float(r["Gbit/s"]) == gigabits]
            _panel(axes, own)
            name = rule if rule.isdigit() else rule.replace("sqrt", r"$\sqrt{n}$")
            axes.set_title(f"{name} landmarks, {gigabits:g} Gbit/s", fontsize=9)
    figure.supxlabel("workers of one thread")
    figure.supylabel("seconds of a test")
    figure.legend(handles=_handles(table), loc="outside right center", frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)


def _panel(axes: Axes, table: list[Mapping[str, Any]]) -> None:
    for marker, n in zip(MARKERS, sorted({int(row["n"]) for row in table}), strict=False):
        own = [row for row in table if int(row["n"]) == n]
        counts = [int(row["workers"]) for row in own]
        seconds = [float(row["seconds"]) for row in own]
        axes.plot(counts, seconds, color="0.75", linewidth=1, zorder=1)
        colours = [COLOURS[row["bottleneck"]] for row in own]
        faces = [
            "white" if float(row["driver GiB"]) > MOST_GIB else colour
            for row, colour in zip(own, colours, strict=True)
        ]
        axes.scatter(
            counts, seconds, facecolors=faces, edgecolors=colours, marker=marker, s=36, zorder=2
        )
    axes.set(xscale="log", yscale="log")
    axes.grid(color="0.9", linewidth=0.6)


def _handles(table: list[Mapping[str, Any]]) -> list[Line2D]:
    """Markers tell the rows, colours what takes the most."""
    sizes = sorted({int(row["n"]) for row in table})
    shapes = [
        Line2D([], [], color="0.5", marker=marker, linestyle="", label=f"{_power(n)} rows")
        for marker, n in zip(MARKERS, sizes, strict=False)
    ]
    found = {row["bottleneck"] for row in table}
    colours = [
        Line2D([], [], color=colour, marker="s", linestyle="", markersize=9, label=f"most: {part}")
        for part, colour in COLOURS.items()
        if part in found
    ]
    hollow = Line2D(
        [],
        [],
        color="0.5",
        marker="s",
        linestyle="",
        markerfacecolor="white",
        label=f"hollow: driver over {MOST_GIB} GiB",
    )
    large = any(float(row["driver GiB"]) > MOST_GIB for row in table)
    return [*shapes, *colours, *([hollow] if large else [])]


def _power(n: int) -> str:
    exponent = math.log10(n)
    return f"$10^{{{exponent:.0f}}}$" if exponent.is_integer() else f"{n:,}"


@click.command(help=__doc__)
@click.option("--rows", "sizes", type=int, multiple=True, default=ROWS)
@click.option("--landmarks", "rules", multiple=True, default=RULES)
@click.option("--workers", "counts", type=int, multiple=True, default=WORKERS)
@click.option("--rates", default="benchmarks/results/cost_model_rates.csv")
@click.option("--scheduler", default="benchmarks/results/scheduler_cost.csv")
@click.option("--out", default="benchmarks/results/cost_model_extrapolated.csv")
def main(
    sizes: tuple[int, ...],
    rules: tuple[str, ...],
    counts: tuple[int, ...],
    rates: str,
    scheduler: str,
    out: str,
) -> None:
    costs = typical_costs(scheduler)
    machine = served_by(Machine.of(read_csv(rates)), costs)
    write_csv(out, rows(machine, costs, sizes, rules, counts))
    draw(read_csv(out), Path(out).with_suffix(".png"))


if __name__ == "__main__":
    main()
