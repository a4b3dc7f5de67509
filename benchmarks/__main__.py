"""Lists the benchmarks and runs one of them.

    python -m benchmarks list
    python -m benchmarks run level --runs 200
    python -m benchmarks run level --small

Tables and pictures go to benchmarks/results. `--small` takes a few seconds to a minute, writes to a
folder of its own, and shows that a benchmark works: its figures mean nothing.
"""

from __future__ import annotations

import ast
import importlib
import shlex
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import click

ROOT = Path(__file__).parent
FOLDERS = {
    "level": "rejections of independent data",
    "power": "rejections of dependent data, and errors of estimates",
    "cost": "time and memory, on one machine",
    "cluster": "processes, schedulers and their faults",
    "papers": "figures and bounds of the papers",
    "peers": "other packages on the same data",
    "data": "real data",
    "mutation": "how much the tests notice",
    "shared": "what the others import",
}
SMALL = {
    "associations": "--rows 60",
    "auto_landmarks": "--runs 2 --size 150 --data linear",
    "bounds": "--trials 3",
    "causal_scale": "--rows 3000 --landmarks 20 --threads 1",
    "cause_effect_pairs": "--regression splines --rows 40 --realisations 1 --pairs 9 "
    "--scores {folder}/scores.csv",
    "chaos": "--faults 1",
    "cluster_scaling": "--rows 4000 --features 2 --landmarks 10 --resamples 9 --turns 1 "
    "--chunk-rows 512 --study strong",
    "convergence": "--rows 200 --number 10 --number 80 --draws 5",
    "dag_search": "--runs 2 --rows 80",
    "default_cost": "--n 300 --columns 2+1 --repeats 1",
    "default_power": "--data linear --n 300 --runs 2",
    "conditional_level": "--rows 60 --columns 2 --runs 2 --processes 1",
    "dependent_air": "--draws 4 --windows 1 --stations 1",
    "dependent_rows": "--rows 400 --runs 1 --effect 0 --processes 1 --rows-of-time 400",
    "embedding_error": "--rows 300 --trials 2 --landmarks 2 --landmarks 128 --pool 200",
    "embedding_scale": "--rows 600000 --landmarks 40",
    "estimates": "--data linear --n 500 --runs 2",
    "exact_cost": "--case 'v-hsic, one kernel' --fewer 100 --repeats 1",
    "exact_power": "--data linear --n 30 --runs 2",
    "extrapolated": "--n 1000000 --workers 10",
    "family": "--linear 2000 --own 2000 --quadratic 300 --features 2 --resamples 3 --repeats 1",
    "feature_recovery": "--rows 300 --columns 20 --runs 1 --greedy-runs 1 --method linear",
    "graph": "--blocks 20 --workers 1",
    "grid_level": "--runs 2 --size 40 --variables 2 --processes 1",
    "grid_power": "--runs 2 --size 50 --processes 1 --data linear",
    "kalinke_szabo": "--figure 1 --runs 2 --size 30 --size 60",
    "leaderboard": "--data linear --method 'dhsic default' --runs 2 --seconds 0",
    "level": "--runs 2 --setting 40 gaussian --variables 2 --null gamma --processes 1",
    "level_default": "--n 40 --data-sets 2 --kind '5% dummies' --function independence_test "
    "--variables 2",
    "machine": "",
    "memory_peak": "--layout 'one chunk'",
    "mutants": "--count 1 --files dhsic/engine/units.py --tests tests/engine/test_units.py "
    "--work {folder}/work",
    "nfsic_power": "--runs 2 --size 120 --data 'sign, d = 2'",
    "pc_graph": "--rows 300 --library causal-learn --functions nonlinear --test dhsic "
    "--test fisherz",
    "peers": "level --data normals --size 60 --method 'dhsic default' --runs 2 --resamples 19",
    "perez_suay": "--figure 1 --rows 50 --draws 20 --number 1 --number 30",
    "plan_seconds": "--estimator v-hsic --n 3000",
    "power": "--runs 2 --size 60 --processes 1",
    "pruning": "--rows 300 --landmarks 80 --power-rows 100 --power-landmarks 30 --runs 2 "
    "--processes 1",
    "ranking_cost": "--rows 3000 --columns 4 --landmarks 40 --resamples 10 --singles 2",
    "ranking_errors": "--rows 80 --resamples 19 --landmarks 10 --processes 1 --mixed-runs 2 "
    "--null-runs 2",
    "reach": "--rows 2500 --only hsic",
    "real_pairs": "--data 'plant: RH PE' --runs 2",
    "roofline": "--rows 3000 --features 5 --landmarks 30 --own-landmarks 20 --resamples 10 "
    "--repeats 1 --workers 0",
    "scaling": "--case 2000 60 --features 4",
    "selection": "--runs 2 --rows 60 --landmarks 2sqrt --processes 1",
    "sensitivity_convergence": "--rows 200 --draws 2 --number 10 --number 40",
    "simulated_cluster": "--size 2 10 --pass 100 4 1.0 --processes 1 "
    "--checked {folder}/checked.csv",
    "small": "--n 30 --columns 1 --turns 1",
    "struck": "--faults 1",
    "storage": "--rows 3000 --features 4 --chunk 500 --count 1 --repeats 1",
    "tails": "--rows 60 --permutations 100 --runs 1 --processes 1 --data gaussian",
    "text_labels": "--runs 2 --size 60 --share 1.5 --processes 1",
    "two_sample": "--level-runs 4 --power-runs 2 --sizes 20 30 --data 'same law'",
    "wall": "--size 1000 --threads 1",
    "weather_dags": "",
    "worker_memory": "--rows 9000 --features 4 --landmarks 60 --workers 1",
    "zhang": "--figure 1 --runs 1 --size 60 --level-size 50",
}
"""Options of a small run of every benchmark; `{folder}` is where it writes."""


@cache
def benchmarks() -> Mapping[str, tuple[str, str]]:
    """Folder and title of every benchmark by its name; none of them is imported."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob("*.py")):
            tree = ast.parse(path.read_text())
            if any(isinstance(one, ast.FunctionDef) and one.name == "main" for one in tree.body):
                found[path.stem] = folder, (ast.get_docstring(tree) or "").split("\n")[0]
    return found


def small_options(name: str, folder: str) -> list[str]:
    """Those of a small run that writes to a folder, but for `--out`."""
    return [word.format(folder=folder) for word in shlex.split(SMALL[name])]


def command(name: str) -> click.Command:
    """The command of a benchmark, which takes `--out`."""
    if name not in benchmarks():
        msg = f"NAME must be one of `python -m benchmarks list`, got {name!r}: look it up there"
        raise click.BadParameter(msg)
    folder, _ = benchmarks()[name]
    found: click.Command = importlib.import_module(f"benchmarks.{folder}.{name}").main
    return found


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command("list")
def list_() -> None:
    """All benchmarks by folder."""
    for folder, title in FOLDERS.items():
        click.echo(f"{folder}: {title}")
        for name, (place, question) in benchmarks().items():
            if place == folder:
                click.echo(f"  {name:24} {question}")


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("name")
@click.option("--small", is_flag=True, help="Run in seconds, into a folder of its own.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def run(name: str, small: bool, options: tuple[str, ...]) -> None:
    """One benchmark, with its own options; NAME --help lists them."""
    asked = list(options)
    if small:
        folder = tempfile.mkdtemp(prefix=f"{name}-")
        # Benchmarks of several tables take a folder; the others name their table.
        whole = name in ("kalinke_szabo", "perez_suay", "zhang")
        out = folder if whole else str(Path(folder) / f"{name}.csv")
        asked = [*small_options(name, folder), "--out", out, *asked]
        click.echo(f"writes to {folder}", err=True)
    command(name).main(asked, prog_name=f"python -m benchmarks run {name}")


if __name__ == "__main__":
    main()
