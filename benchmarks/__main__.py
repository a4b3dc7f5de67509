"""Lists the studies and runs one of them.

    python -m benchmarks list
    python -m benchmarks run level --size 200 --runs 200
    python -m benchmarks run level --small

Tables and pictures go to benchmarks/results, a run goes on where it stopped. `--small` takes a few
seconds to a minute, writes to a folder of its own, and shows that a study works: its figures mean
nothing.
"""

from __future__ import annotations

import importlib
import json
import tempfile
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import click

from benchmarks.study import RESULTS, Study
from benchmarks.study import run as run_study

MODULES = (
    *("level.level", "level.dependent_air", "level.coverage", "power.power", "cost.cost"),
    *("cluster.cluster_scaling", "cluster.chaos", "cluster.struck"),
    *("papers.kalinke_szabo", "papers.dag_search", "papers.weather_dags", "papers.zhang"),
    *("papers.perez_suay", "papers.convergence", "papers.associations"),
    *("papers.cause_effect_pairs", "papers.embedding_error", "papers.bounds"),
    *("peers.leaderboard", "peers.peers", "peers.peer_limits", "peers.pc_graph"),
)
"""Modules of studies. Each has `STUDY`, or several `STUDIES`."""


@cache
def studies() -> Mapping[str, Study]:
    """All of them by their names."""
    found: dict[str, Study] = {}
    for name in MODULES:
        module = importlib.import_module(f"benchmarks.{name}")
        own: Iterable[Study] = getattr(module, "STUDIES", None) or (module.STUDY,)
        found |= {study.name: study for study in own}
    return found


def near(name: str, names: Iterable[str]) -> str:
    return "".join(f"; near it is {one!r}" for one in get_close_matches(name, list(names), 1))


def study_of(name: str) -> Study:
    """The study of a name."""
    if name not in studies():
        msg = (
            f"NAME must be one of `python -m benchmarks list`, got {name!r}{near(name, studies())}"
        )
        raise click.BadParameter(msg)
    return studies()[name]


def small(study: Study, **asked: Any) -> Study:
    """A study that takes seconds, but for what is asked for."""
    return study.of(**{"runs": 1, **study.small, **{k: v for k, v in asked.items() if v}})


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command("list")
def list_() -> None:
    """All studies."""
    for study in studies().values():
        click.echo(f"  {study.name:24} {study.title}")


@main.command()
def machine() -> None:
    """Write the machine of the tables to benchmarks/results/machine.json."""
    from benchmarks.shared.machine import described

    (RESULTS / "machine.json").write_text(json.dumps(described(), indent=2) + "\n")


@main.command()
@click.argument("name")
@click.option("--small", "is_small", is_flag=True, help="Run in seconds, into another folder.")
@click.option("--data", multiple=True, help="Kinds of data; all where none is named.")
@click.option("--method", "methods", multiple=True, help="Methods; all where none is named.")
@click.option("--size", "sizes", multiple=True, type=int, help="All where none is given.")
@click.option("--runs", type=click.IntRange(1), help="Of a cell.")
@click.option("--first", type=click.IntRange(0), default=0, help="Number of the first run.")
@click.option(
    "--seconds", type=click.FloatRange(0), default=float("inf"), help="Of 10 runs or more."
)
@click.option("--processes", type=click.IntRange(1), default=1, help="Side by side.")
@click.option("--again", is_flag=True, help="Measure cells that the table has, too.")
@click.option("--list", "listed", is_flag=True, help="Name data, methods and sizes, and run none.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the table.")
def run(
    name: str,
    is_small: bool,
    data: tuple[str, ...],
    methods: tuple[str, ...],
    sizes: tuple[int, ...],
    runs: int | None,
    first: int,
    seconds: float,
    processes: int,
    again: bool,
    listed: bool,
    out: Path | None,
) -> None:
    """One study; NAME is one of `python -m benchmarks list`."""
    study = study_of(name)
    for what, asked in (("data", data), ("methods", methods)):
        if unknown := [one for one in asked if one not in getattr(study, what)]:
            close = near(unknown[0], getattr(study, what))
            msg = f"{unknown[0]!r} is none of the {what} of {name}{close}: `--list` names them"
            raise click.BadParameter(msg)
    chosen: dict[str, Any] = {"data": data, "methods": methods, "sizes": sizes, "runs": runs}
    study = small(study, **chosen) if is_small else study.of(**chosen)
    if listed:
        for title, names in (("data", study.data), ("methods", study.methods)):
            click.echo(f"{title}: {'; '.join(names)}")
        click.echo(f"sizes: {', '.join(map(str, study.sizes))}; runs: {study.runs}")
        return
    if not study.cells():
        msg = f"{name} has no cell of such data, methods and sizes: `--list` names them"
        raise click.UsageError(msg)
    folder = out or (Path(tempfile.mkdtemp(prefix=f"{name}-")) if is_small else RESULTS)
    run_study(study, folder, processes=processes, first=first, seconds=seconds, again=again)
    click.echo(f"wrote {folder / f'{name}.csv'}")


if __name__ == "__main__":
    main()
