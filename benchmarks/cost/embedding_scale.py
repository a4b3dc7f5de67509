"""Mean embeddings of up to 100 million rows that are never held: time and memory.

The rows are normal, of five columns, a Dask array whose blocks are generated as they are read: once
for the landmarks and the rows of the bandwidth, once for the sums. Every size runs in a process of
its own. `generated` are the seconds that Dask takes to generate the array and to add it up, once;
`peak MiB` is the high-water mark of resident memory that the operating system keeps, `planned MiB`
what the plan says at the start. `error` is that against the known embedding of the normal law, and
`empirical` the root mean squared error of the mean of n rows. Writes
benchmarks/results/embedding_scale.csv.

    python -m benchmarks run embedding_scale
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, get_args

import click
import dask.array as da
import numpy as np

import dhsic
from benchmarks.shared.embeddings import Mixture, floor
from benchmarks.shared.output import write_csv
from dhsic._arguments import Precision
from dhsic.engine.events import Event, RunStarted
from dhsic.engine.memory import peak_bytes
from dhsic.kernels import Gaussian

COLUMNS = 5
CHUNK_ROWS = 500_000
LAW = Mixture(np.zeros((1, COLUMNS)), 1.0 / (2.0 * COLUMNS))

_ALONE = """
import json
from benchmarks.cost.embedding_scale import embedded
print(json.dumps(embedded({n}, {landmarks}, {precision!r}, {threads})))
"""


def generated(n: int) -> Any:
    """Normal rows (n, 5) that no one holds."""
    rng = da.random.default_rng(0)
    return rng.standard_normal((n, COLUMNS), chunks=(min(n, CHUNK_ROWS), COLUMNS))


def embedded(n: int, landmarks: int, precision: Precision, threads: int) -> dict[str, Any]:
    """One embedding, in this process, and what it took."""
    plans: list[RunStarted] = []

    def listen(event: Event) -> None:
        if isinstance(event, RunStarted):
            plans.append(event)

    began = time.perf_counter()
    found = dhsic.mean_embedding(
        generated(n),
        Gaussian(gamma=LAW.gamma),
        landmarks,
        rng=0,
        precision=precision,
        threads=threads,
        progress=listen,
    )
    seconds, peak = time.perf_counter() - began, peak_bytes()
    assert peak is not None
    began = time.perf_counter()
    generated(n).sum().compute(num_workers=threads)
    return {
        "kept": len(found.landmarks),
        "seconds": seconds,
        **{f"seconds {done.name}": done.seconds for done in found.passes},
        "generated": time.perf_counter() - began,
        "peak MiB": peak / 2**20,
        "planned MiB": plans[0].worker_bytes / 2**20,
        "error": error(found),
        "empirical": floor(LAW, n),
    }


def error(found: dhsic.MeanEmbedding) -> float:
    """|found - mu|, the norm of the difference to the embedding of the law."""
    z, weights = found.landmarks, found.weights
    own = float(weights @ found.kernel(z) @ weights)
    return math.sqrt(max(0.0, own - 2.0 * float(weights @ LAW.mean(z)) + LAW.squared_norm))


def rows(
    sizes: tuple[int, ...], landmarks: int, precision: Precision, threads: int
) -> Iterator[dict[str, Any]]:
    for n in sizes:
        code = _ALONE.format(n=n, landmarks=landmarks, precision=precision, threads=threads)
        alone = [sys.executable, "-c", code]
        done = subprocess.run(alone, stdout=subprocess.PIPE, text=True, check=True)
        keys = {"n": n, "columns": COLUMNS, "landmarks": landmarks}
        yield {**keys, "precision": precision, "threads": threads, **json.loads(done.stdout)}


@click.command(help=__doc__)
@click.option("--rows", "sizes", multiple=True, type=int, default=(10**6, 10**7, 10**8))
@click.option("--landmarks", default=300)
@click.option("--precision", type=click.Choice(get_args(Precision)), default="float32")
@click.option("--threads", default=2)
@click.option("--out", default="benchmarks/results/embedding_scale.csv")
def main(
    sizes: tuple[int, ...], landmarks: int, precision: Precision, threads: int, out: str
) -> None:
    write_csv(out, rows(sizes, landmarks, precision, threads))


if __name__ == "__main__":
    main()
