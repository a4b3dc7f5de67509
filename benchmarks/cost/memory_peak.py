"""Peak memory of tests over stored data beside what the plan says, and how often chunks are read.

Every test runs in a process of its own, on threads or on two worker processes, over zarr arrays of
normal numbers in chunks and shards of several sizes, codecs and types. `peak MiB` is the resident
memory of the process at its largest, or of the largest worker; `planned MiB` what `dhsic.plan` says
of it, and `peak / planned` their ratio. `reads` says how often the chunk that is read most often is
read, of workers by all of them; it is 2 where a chunk is read once for the sample of landmarks and
once for the pass. Writes benchmarks/results/memory_peak.csv.

    python -m benchmarks run memory_peak
    python -m benchmarks run memory_peak --layout "one chunk"
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec
from zarr.storage import LocalStore

import dhsic
from benchmarks.shared.output import write_csv
from dhsic.engine.memory import forget_peak, peak_bytes, worker_peak_bytes

COLUMNS = 20
CODECS = {
    "none": None,
    "zstd": ZstdCodec(),
    "blosc": BloscCodec(),
    "gzip": GzipCodec(level=1),
}
TESTS: dict[str, dict[str, Any]] = {
    "rows": {"estimator": dhsic.RFFHSIC(n_features=32), "null": "gamma"},
    "groups": {"estimator": dhsic.NystromHSIC(n_landmarks=32), "null": "shifts"},
}
LAYOUTS = {"one chunk": (1, False), "8 chunks": (8, False), "64 chunks": (64, False)}
LAYOUTS["one shard"] = 64, True
_ALONE = """
import json
from benchmarks.cost.memory_peak import Case, measured
if __name__ == "__main__":
    print(json.dumps(measured(Case(**json.loads({case!r})), {folder!r})))
"""


@dataclass(frozen=True)
class Case:
    """A test over stored data."""

    test: str
    layout: str
    codec: str
    dtype: str = "float32"
    threads: int = 1
    workers: int = 0
    n: int = 1_000_000

    def store(self, folder: str) -> None:
        """Write the two variables."""
        pieces, sharded = LAYOUTS[self.layout]
        rng = np.random.default_rng(0)
        for name, columns in (("x", COLUMNS), ("y", 1)):
            rows = -(-self.n // pieces)
            array = zarr.create_array(
                f"{folder}/{name}.zarr",
                shape=(self.n, columns),
                dtype=self.dtype,
                chunks=(rows, columns),
                shards=(rows * pieces, columns) if sharded else None,
                compressors=CODECS[self.codec],
            )
            values = rng.standard_normal((self.n, columns), dtype=np.float32)
            array[:] = (100 * values).astype(self.dtype)


_CASES = (
    Case("rows", "one chunk", "zstd"),
    Case("groups", "one chunk", "zstd", threads=2),
    Case("rows", "one chunk", "zstd", workers=2),
    Case("rows", "one chunk", "gzip"),
    Case("groups", "8 chunks", "zstd", threads=2),
    Case("rows", "one chunk", "blosc", "float64", 2),
    Case("rows", "64 chunks", "zstd", threads=2),
    Case("groups", "one shard", "zstd", threads=2),
    Case("rows", "one chunk", "none", threads=2),
    Case("groups", "8 chunks", "zstd", workers=2),
    Case("rows", "8 chunks", "gzip", "int16", 2),
    Case("groups", "64 chunks", "blosc", threads=2),
)


def measured(case: Case, folder: str) -> dict[str, Any]:
    """The row of a test, of the process that runs it on data that are there."""
    places = [f"{folder}/{name}.zarr" for name in ("x", "y")]
    options = {"kernels": "gaussian", "precision": "float32", "memory": "16GiB"}
    run = _on_workers if case.workers else _on_threads
    planned, peak, reads = run(case, places, options | TESTS[case.test])
    return {
        **asdict(case),
        "planned MiB": planned / 2**20,
        "peak MiB": peak / 2**20,
        "peak / planned": peak / planned,
        "reads": reads,
    }


def _on_threads(case: Case, places: list[str], options: dict[str, Any]) -> tuple[int, int, int]:
    planned = dhsic.plan(*places, threads=case.threads, **options).peak_bytes
    seen = _counting()
    forget_peak()
    dhsic.independence_test(*places, threads=case.threads, rng=0, **options)
    return planned, peak_bytes() or 0, max(seen.values())


def _on_workers(case: Case, places: list[str], options: dict[str, Any]) -> tuple[int, int, int]:
    from distributed import LocalCluster

    with (
        LocalCluster(case.workers, threads_per_worker=1, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        planned = dhsic.plan(*places, client=client, **options).peak_worker_bytes
        here = _counting()
        client.run(_counting)
        dhsic.independence_test(*places, client=client, rng=0, **options)
        seen = sum(client.run(_counted).values(), here)
        return planned, worker_peak_bytes(client) or 0, max(seen.values())


_SEEN: list[Counter[str]] = [Counter()]


def _counting() -> Counter[str]:
    """Reads of every chunk by this process, from now on."""
    _SEEN[0] = Counter()
    get = LocalStore.get

    async def counted(store: LocalStore, key: str, *args: Any, **options: Any) -> Any:
        if "c/" in key and not options.get("byte_range") and not args[1:]:
            _SEEN[0][f"{store.root}/{key}"] += 1
        return await get(store, key, *args, **options)

    LocalStore.get = counted
    return _SEEN[0]


def _counted() -> Counter[str]:
    """Those of this process; a function of the module, since others travel with a copy of it."""
    return _SEEN[0]


def _root() -> Path:
    return Path(dhsic.__file__).parents[1]


def alone(case: Case) -> dict[str, Any]:
    """The row of a test, from a process that does nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        case.store(folder)
        script = Path(folder) / "alone.py"
        script.write_text(_ALONE.format(case=json.dumps(asdict(case)), folder=folder))
        done = subprocess.run(
            [sys.executable, script], cwd=_root(), capture_output=True, text=True, check=True
        )
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def rows(layouts: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """All, or those of some layouts."""
    yield from (alone(case) for case in _CASES if not layouts or case.layout in layouts)


@click.command(help=__doc__)
@click.option("--layout", "layouts", multiple=True, type=click.Choice(sorted(LAYOUTS)))
@click.option("--out", default="benchmarks/results/memory_peak.csv")
def main(layouts: tuple[str, ...], out: str) -> None:
    """Measure what is asked for."""
    write_csv(out, rows(layouts))


if __name__ == "__main__":
    main()
