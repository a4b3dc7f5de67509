"""Time and memory of ranking all columns at once, beside testing them one by one.

Float32 arrays in the shape of the Million Song data, in memory, multiplier null. The target is a
year, which repeats, or continuous. Separate tests are default ones, Nystrom M-HSIC of one column,
timed on a few of the columns, before and after the run of all: `separate_s` is their median times
the columns. Processor seconds are given too, since other work on the machine slows threads down.
Memory is that of a process of its own. Writes benchmarks/results/ranking_cost.csv.

    python -m benchmarks run ranking_cost
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

import dhsic
from benchmarks.shared.output import write_csv
from dhsic.io.synthetic import synthetic

Array = NDArray[Any]

_MEASURE = """
from benchmarks.cost.ranking_cost import data, options_of
from dhsic.engine.memory import peak_bytes
import dhsic
x, y = data({n}, {d}, {target!r})
dhsic.rank_features(x, y, rng=0, **options_of({estimator!r}, {landmarks}, {resamples}, {threads}))
print(peak_bytes() / 2**20)
"""


ESTIMATORS: dict[str, Callable[..., Any]] = {
    "nystrom-m": dhsic.NystromMHSIC,
    "nystrom-hsic": dhsic.NystromHSIC,
}
CASES = [("nystrom-hsic", "year"), ("nystrom-hsic", "continuous"), ("nystrom-m", "year")]


def data(n: int, d: int, target: str) -> tuple[Array, Array]:
    x, year = synthetic(n, features=d, dependence=0.3, seed=1)
    if target == "year":
        return x, year
    return x, year + np.random.default_rng(0).random(year.shape, dtype=np.float32)


def options_of(estimator: str, landmarks: int, resamples: int, threads: int) -> dict[str, Any]:
    return {
        "estimator": ESTIMATORS[estimator](n_landmarks=landmarks),
        "null": dhsic.Multiplier(resamples),
        "precision": "float32",
        "threads": threads,
        "memory": "4GiB",
    }


def timed(function: Callable[[], Any]) -> tuple[float, float]:
    """Wall and processor seconds."""
    wall, work = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - work


def peak_mebibytes(**options: Any) -> float:
    code = _MEASURE.format(**options)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def row(
    n: int,
    d: int,
    landmarks: int,
    resamples: int,
    threads: int,
    singles: int,
    estimator: str,
    target: str,
) -> dict[str, Any]:
    x, y = data(n, d, target)
    one = options_of("nystrom-m", landmarks, resamples, threads)
    options = options_of(estimator, landmarks, resamples, threads)

    def single(j: int) -> tuple[float, float]:
        return timed(lambda: dhsic.independence_test(x[:, j], y, kernels="gaussian", rng=0, **one))

    columns = np.linspace(0, d - 1, singles).astype(int).tolist()
    before = [single(j) for j in columns[: singles // 2]]
    shared = timed(lambda: dhsic.rank_features(x, y, rng=0, **options))
    separate = np.median([*before, *(single(j) for j in columns[singles // 2 :])], axis=0) * d
    planned = dhsic.plan_ranking(x, y, **options).peak_driver_bytes / 2**20
    return {
        "n": n,
        "columns": d,
        "estimator": estimator,
        "target": target,
        "landmarks": landmarks,
        "resamples": resamples,
        "threads": threads,
        "shared_s": shared[0],
        "separate_s": float(separate[0]),
        "times faster": float(separate[0]) / shared[0],
        "shared processor_s": shared[1],
        "separate processor_s": float(separate[1]),
        "times less work": float(separate[1]) / shared[1],
        "peak MiB": peak_mebibytes(
            n=n,
            d=d,
            landmarks=landmarks,
            resamples=resamples,
            threads=threads,
            estimator=estimator,
            target=target,
        ),
        "planned MiB": planned,
    }


@click.command(help=__doc__)
@click.option("--rows", "n", default=515_345)
@click.option("--columns", "d", default=90)
@click.option("--landmarks", default=1000)
@click.option("--resamples", default=250)
@click.option("--threads", default=2)
@click.option("--singles", default=5)
@click.option("--out", default="benchmarks/results/ranking_cost.csv")
def main(
    n: int, d: int, landmarks: int, resamples: int, threads: int, singles: int, out: str
) -> None:
    sizes = (n, d, landmarks, resamples, threads, singles)
    write_csv(out, (row(*sizes, *case) for case in CASES))


if __name__ == "__main__":
    main()
