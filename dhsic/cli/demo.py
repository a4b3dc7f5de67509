"""``dhsic demo``: data with and without dependence, tested."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from click import IntRange

import dhsic
from dhsic._progress import Bar, progress_bar
from dhsic.cli.output import print_columns
from dhsic.cluster import local_cluster, processors
from dhsic.errors import InvalidArgumentError
from dhsic.io.open import open_group
from dhsic.io.synthetic import generate
from dhsic.results import IndependenceTestResult, decision, pvalue_text

_ALPHA = 0.05
_CASES = {"dependent": 0.3, "independent": 0.0}


@click.command(short_help="Generate data with and without dependence, and test both.")
@click.option("--rows", type=IntRange(4), metavar="N", default=100_000, help="Number of rows.")
@click.option("--features", type=IntRange(1), metavar="D", default=90, help="Number of features.")
@click.option("--seed", type=IntRange(0), metavar="K", default=0, help="Seed of data and tests.")
@click.option("--keep", type=Path, metavar="DIR", help="Keep the data in this folder.")
@click.option("--overwrite", is_flag=True, help="Overwrite data that exist in this folder.")
def demo(rows: int, features: int, seed: int, keep: Path | None, overwrite: bool) -> None:
    """Generate two data sets and test them on worker processes of this machine.

    In one the year depends on the features, in the other it does not; all else is the same.
    """
    workers = processors()
    with ExitStack() as stack:
        # A temporary folder goes also where a test fails or is interrupted.
        folder = keep or Path(stack.enter_context(TemporaryDirectory(prefix="dhsic-demo-")))
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            msg = f"--keep must be a folder or a new one in an existing one, got {keep}: {error}"
            raise InvalidArgumentError(msg) from error
        # Said once the folder is there: what is refused prints nothing but why.
        click.echo(f"{rows:,} rows, {features:,} features and a year; worker processes: {workers}")
        bar = stack.enter_context(progress_bar())
        # Both sets have one seed, so that they differ in the dependence alone.
        groups = {name: folder / f"{name}.zarr" for name in _CASES}
        for name, path in groups.items():
            bar.begin(f"generating {name} data", rows)
            generate(
                path,
                rows=rows,
                features=features,
                dependence=_CASES[name],
                seed=seed,
                overwrite=overwrite,
                progress=bar.at,
            )
        # Processes take seconds to import what they run, in which nothing else is heard.
        bar.begin("starting workers")
        with local_cluster(workers) as client:
            results = {n: _demo_test(p, client, seed, bar, f"{n}: ") for n, p in groups.items()}
    print_columns(["", *(f"{name} data" for name in results)], _comparison(results))
    if keep is not None:
        click.echo(
            f"\nTry: dhsic test {keep / 'dependent.zarr'} --variable features --variable year"
        )


def _demo_test(path: Path, client: Any, seed: int, bar: Bar, what: str) -> IndependenceTestResult:
    names = ["features", "year"]
    return dhsic.independence_test(
        *open_group(str(path), names),
        names=names,
        rng=seed,
        # The data are float32 as well.
        precision="float32",
        client=client,
        progress=bar.listen(what),
    )


def _comparison(results: dict[str, IndependenceTestResult]) -> list[list[str]]:
    rows: dict[str, Callable[[IndependenceTestResult], str]] = {
        "estimator": lambda r: r.estimator,
        "statistic": lambda r: f"{r.statistic:.4g}",
        "under the null": lambda r: f"{r.null_distribution.mean():.4g}, {r.null} mean",
        "p-value": lambda r: pvalue_text(r.pvalue, r.pvalue_error, len(r.null_distribution)),
        "independence": lambda r: decision(r, _ALPHA),
        "time": lambda r: f"{r.seconds:.1f} s",
    }
    # Of a p-value the number alone, without its error.
    return [
        [label, *(text(r).partition(" (")[0] for r in results.values())]
        for label, text in rows.items()
    ]
