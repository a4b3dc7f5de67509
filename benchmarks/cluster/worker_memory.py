"""More data than memory: peak of every worker process against the plan's prediction.

Generated zarr in the Million Song shape runs through the command line on a few worker processes
that are allowed little memory. Peaks are the high-water marks of resident memory that the operating
system keeps of every process. Writes benchmarks/results/worker_memory.csv.

    python -m benchmarks run worker_memory
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import psutil
import zarr

from benchmarks.shared.output import write_csv
from dhsic.engine.memory import high_water_bytes
from dhsic.io.synthetic import generate

_UNITS = {"MiB": 1.0, "GiB": 1024.0}
_LOOK_SECONDS = 0.1


def planned_mib(plan: str, whom: str) -> float:
    """What the plan says of a worker or of the driver."""
    found = re.search(rf"{whom} ([\d.]+) (MiB|GiB)", plan)
    assert found is not None, plan
    return float(found[1]) * _UNITS[found[2]]


def peaks_mib(process: psutil.Popen) -> tuple[float, float]:
    """Largest high-water mark of the workers, and that of the process itself, until it ends."""
    peaks: dict[int, float] = {}
    while process.poll() is None:
        for one in [process, *process.children(recursive=True)]:
            if (peak := high_water_bytes(one.pid)) is not None:
                peaks[one.pid] = peak / 2**20
        time.sleep(_LOOK_SECONDS)
    driver = peaks.pop(process.pid)
    return max(peaks.values()), driver


def run_test(data: Path, options: list[str]) -> dict[str, Any]:
    """Time of one test in a fresh process, and its memory as planned and as it was."""
    group = zarr.open_group(data, mode="r")
    variables = ["--variable", "features", "--variable", "year"]
    command = [sys.executable, "-m", "dhsic"]
    asked = [str(data), *variables, *options]
    plan = subprocess.run(
        [*command, "plan", *asked], check=True, capture_output=True, text=True
    ).stdout
    out = data.with_suffix(".json")
    with psutil.Popen([*command, "test", *asked, "--json", out], stdout=subprocess.DEVNULL) as test:
        worker, driver = peaks_mib(test)
    if test.returncode:
        raise subprocess.CalledProcessError(test.returncode, command)
    result = json.loads(out.read_text())
    return {
        "GB": sum(array.nbytes for _, array in group.arrays()) / 1e9,
        "landmarks": result["landmarks"]["drawn"],
        "seconds": result["seconds"],
        "peak worker MiB": worker,
        "planned worker MiB": planned_mib(plan, "peak memory of a worker"),
        "peak driver MiB": driver,
        "planned driver MiB": planned_mib(plan, "of the driver"),
        "p-value": result["pvalue"],
    }


def rows(
    n: int, features: int, landmarks: str, workers: int, memory: str, folder: Path
) -> Iterator[dict[str, Any]]:
    data = folder / "songs.zarr"
    generate(str(data), rows=n, features=features, dependence=0.1, seed=0)
    options = ["--kernel", "gaussian", "--null", "multiplier", "--precision", "float32"]
    options += ["--landmarks", landmarks, "--workers", str(workers), "--memory", memory]
    yield {"n": n, "workers": workers, "memory": memory, **run_test(data, options)}


@click.command(help=__doc__)
@click.option("--rows", "n", default=14_000_000)
@click.option("--features", default=90)
@click.option("--landmarks", default="500")
@click.option("--workers", default=2)
@click.option("--memory", default="600MB")
@click.option("--out", default="benchmarks/results/worker_memory.csv")
def main(n: int, features: int, landmarks: str, workers: int, memory: str, out: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_csv(out, rows(n, features, landmarks, workers, memory, Path(folder)))


if __name__ == "__main__":
    main()
