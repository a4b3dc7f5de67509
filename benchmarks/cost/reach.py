"""Seconds and memory of every public function at default arguments, of many rows.

Rows of 20 columns and a target in the shape of the Million Song data, in memory or stored as zarr.
Every call runs in a process of its own: `seconds` are by the clock, `processor_seconds` those of
all threads, `held MiB` what the process held before the call, rows in memory among it, and `peak
MiB` the most that it held in the call. `stopped` says why a call has no result: "time" where it
took more than `--seconds` of processor time, or the error. `chosen` is what the result tells of its
estimator or landmarks. `dhsic.causal` functions that score graphs take three columns, `search_dag`
all. Writes benchmarks/results/reach.csv.

    python -m benchmarks run reach
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import dask.array as da

import dhsic
from benchmarks.shared.limits import Call, Measured, measure
from benchmarks.shared.output import write_csv
from dhsic import causal
from dhsic.io.synthetic import generate, synthetic

COLUMNS = 20
MOST_BYTES = 4 * 2**30
Run = Callable[..., Any]


def _columns(x: Any) -> list[Any]:
    return [x[:, j] for j in range(x.shape[1])]


def _halves(x: Any) -> tuple[Any, Any]:
    return x[: len(x) // 2], x[len(x) // 2 :]


def _distance(x: Any, **options: Any) -> float:
    one, two = _halves(x)
    first = dhsic.mean_embedding(one, **options)
    return dhsic.mmd(first, first.like(two, threads=options["threads"]))


CALLS: dict[str, Run] = {
    "independence_test": lambda x, y, **o: dhsic.independence_test(x, y, **o),
    "independence_test, all columns": lambda x, y, **o: dhsic.independence_test(*_columns(x), **o),
    "hsic": lambda x, y, **o: dhsic.hsic(x, y, **o),
    "rank_features": lambda x, y, **o: dhsic.rank_features(x, y, **o),
    "select_features": lambda x, y, **o: dhsic.select_features(x, y, 5, **o),
    "select_features, backward": lambda x, y, **o: dhsic.select_features(
        x, y, 5, method="backward", **o
    ),
    "select_features, linear": lambda x, y, **o: dhsic.select_features(
        x, y, 5, method="linear", **o
    ),
    "select_features, lasso": lambda x, y, **o: dhsic.select_features(x, y, 5, method="lasso", **o),
    "dependence_matrix": lambda x, y, **o: dhsic.dependence_matrix(*_columns(x), y, **o),
    "two_sample_test": lambda x, y, **o: dhsic.two_sample_test(*_halves(x), **o),
    "mean_embedding": lambda x, y, **o: dhsic.mean_embedding(x, **o),
    "mmd": lambda x, y, **o: _distance(x, **o),
    "interaction_test": lambda x, y, **o: dhsic.interaction_test(x[:, ::2], x[:, 1::2], y, **o),
    "sensitivity_map": lambda x, y, **o: dhsic.sensitivity_map(x, y, **o),
    "witness_functions": lambda x, y, **o: dhsic.witness_functions(x, y, **o),
    "conditional_independence_test": lambda x, y, **o: dhsic.conditional_independence_test(
        x[:, 0], y, given=x[:, 1:], **o
    ),
    "causal.residual_independence_test": lambda x, y, **o: causal.residual_independence_test(
        x[:, 0], y, given=x[:, 1:], **o
    ),
    "causal.direction": lambda x, y, **o: causal.direction(x[:, 0], x[:, 1], **o),
    "causal.directions": lambda x, y, **o: causal.directions([(x[:, 0], x[:, 1])], **o),
    "causal.score_dags": lambda x, y, **o: causal.score_dags(*_columns(x)[:3], **o),
    "causal.search_dag": lambda x, y, **o: causal.search_dag(*_columns(x), **o),
}


def prepared(name: str, n: int, stored: str, options: dict[str, Any]) -> Call:
    """A call on rows that are there."""
    if stored:
        x, y = (da.from_zarr(stored, component=part) for part in ("features", "year"))
    else:
        x, y = synthetic(n, features=COLUMNS, seed=1)
    return lambda: _told(CALLS[name](x, y, **options))


def _told(result: Any) -> str:
    """What a result says of its estimator and landmarks."""
    parts = [result, getattr(result, "measured", None), getattr(result, "landmarks", None)]
    fields = "estimator", "estimator_reason", "null", "choice"
    told = (getattr(part, field, "") for part in parts for field in fields)
    return "; ".join(dict.fromkeys(str(one) for one in told if one))


def row(name: str, n: int, stored: str, threads: int, seconds: float) -> dict[str, Any]:
    options = {"rng": 0, "threads": threads}
    found: Measured = measure(partial(prepared, name, n, stored, options), seconds, MOST_BYTES)
    return {
        "function": name,
        "n": n,
        "columns": COLUMNS,
        "stored": bool(stored),
        "threads": threads,
        "seconds": found.seconds,
        "processor_seconds": found.processor_seconds,
        "held MiB": found.start_bytes / 2**20,
        "peak MiB": found.peak_bytes / 2**20,
        "stopped": found.stopped,
        "chosen": found.value or "",
    }


def rows(
    n: int, names: Sequence[str], *, stored: bool, threads: int, seconds: float
) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.zarr" if stored else None
        if path:
            generate(path, rows=n, features=COLUMNS, seed=1)
        for name in names:
            yield row(name, n, str(path or ""), threads, seconds)


@click.command(help=__doc__)
@click.option("--rows", "n", default=2_000_000)
@click.option("--only", "names", multiple=True, type=click.Choice(list(CALLS)), help="Functions.")
@click.option("--stored/--in-memory", default=False, help="Where the rows are.")
@click.option("--threads", default=2)
@click.option("--seconds", default=1800.0, help="Processor seconds that a call may take.")
@click.option("--out", default="benchmarks/results/reach.csv")
def main(
    n: int, names: tuple[str, ...], stored: bool, threads: int, seconds: float, out: str
) -> None:
    write_csv(out, rows(n, names or list(CALLS), stored=stored, threads=threads, seconds=seconds))


if __name__ == "__main__":
    main()
