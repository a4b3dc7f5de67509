"""The Million Song shape from zarr on disk: time, and peak memory against the plan's prediction.

Every case runs the command line in a process of its own, as a user does, and reads the peak
resident memory that the operating system accounts to it. Writes benchmarks/results/scaling.csv.

    python -m benchmarks run scaling
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from benchmarks.shared.output import write_csv
from dhsic.io.synthetic import generate

CASES = [(515_345, "8sqrt"), (500_000, "500"), (4_000_000, "500")]
_UNITS = {"MiB": 2**20, "GiB": 2**30}


def run_test(data: Path, landmarks: str, memory: str, threads: int) -> dict[str, Any]:
    """Time, peak memory and prediction of one test in a fresh process."""
    options = [str(data), "--variable", "features", "--variable", "year"]
    options += ["--landmarks", landmarks, "--resamples", "250", "--null", "multiplier"]
    options += [
        "--kernel",
        "gaussian",
        "--precision",
        "float32",
        "--memory",
        memory,
        "--threads",
        str(threads),
    ]
    command = [sys.executable, "-m", "dhsic"]
    planned = subprocess.run(
        [*command, "plan", *options], check=True, capture_output=True, text=True
    ).stdout
    found = re.search(r"peak memory of a worker ([\d.]+) (MiB|GiB)", planned)
    assert found is not None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        process = subprocess.Popen(
            [*command, "test", *options, "--json", str(out)], stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        result = json.loads(out.read_text())
    return {
        "landmarks": result["landmarks"]["drawn"],
        "kept": result["landmarks"]["kept"],
        "seconds": result["seconds"],
        **{f"seconds {done['name']}": done["seconds"] for done in result["passes"]},
        "peak MiB": usage.ru_maxrss / 1024,
        "planned MiB": float(found[1]) * _UNITS[found[2]] / 2**20,
        "p-value": result["pvalue"],
    }


def rows(
    cases: list[tuple[int, str]], folder: Path, features: int, memory: str, threads: int
) -> Iterator[dict[str, Any]]:
    for n, landmarks in cases:
        data = folder / f"{n}.zarr"
        if not data.exists():
            generate(str(data), rows=n, features=features, dependence=0.1, seed=0)
        row = run_test(data, landmarks, memory, threads)
        yield {"n": n, "features": features, **row}


@click.command(help=__doc__)
@click.option("--case", "cases", multiple=True, type=(int, str), default=CASES)
@click.option("--features", default=90)
@click.option("--memory", default="2GB")
@click.option("--threads", default=2)
@click.option("--out", default="benchmarks/results/scaling.csv")
def main(cases: list[tuple[int, str]], features: int, memory: str, threads: int, out: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_csv(out, rows(list(cases), Path(folder), features, memory, threads))


if __name__ == "__main__":
    main()
