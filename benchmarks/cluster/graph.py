"""What a pass of many blocks costs besides its work: the graph in bytes, and the scheduler's time.

The blocks do next to nothing, so what is left is building the graph, sending it, and the time that
client, scheduler and workers take to see it through. Every process runs on this machine. Writes
benchmarks/results/graph.csv.

    python -m benchmarks run graph
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil
import zarr
from distributed import Client
from distributed.utils import nbytes

from benchmarks.shared.dask_processes import cluster
from benchmarks.shared.output import write_csv
from dhsic.engine.checkpoint import Checkpoint
from dhsic.engine.events import Event
from dhsic.engine.plan import PassPlan
from dhsic.engine.run import run_pass
from dhsic.engine.runtime import Runtime
from dhsic.engine.scan import Scan
from dhsic.io.folder import Folder
from dhsic.io.forms import AnySource
from dhsic.io.open import open_variables

_ROWS = 4


class Scale:
    """A client that weighs the graphs that it sends."""

    def __init__(self, client: Any) -> None:
        self.graph_bytes, self.sent = 0, 0.0
        self._send = client._send_to_scheduler
        client._send_to_scheduler = self

    def __call__(self, message: dict[str, Any]) -> None:
        if message["op"] == "update-graph":
            graph = message["expr_ser"]
            self.graph_bytes += sum(map(nbytes, [graph.header, *graph.frames]))
            self.sent = time.perf_counter()
        self._send(message)


def processor_seconds(process: psutil.Process) -> float:
    """What a process has used."""
    times = process.cpu_times()
    return float(times.user + times.system)


def ignore(event: Event) -> None:
    del event


def one_pass(
    sources: list[AnySource],
    blocks: int,
    client: Any,
    scheduler: psutil.Process,
    folder: Folder | None,
) -> dict[str, Any]:
    bounds = tuple(_ROWS * i for i in range(blocks + 1))
    plan = PassPlan("scan", bounds, 0, 0, 0)
    runtime = Runtime(2, 2**31, 2, client)
    checkpoint = None if folder is None else Checkpoint.open(folder, {})
    scale, own = Scale(client), psutil.Process()
    before = processor_seconds(own), processor_seconds(scheduler)
    began = time.perf_counter()
    _, done = run_pass(Scan(), sources, plan, runtime, ignore, checkpoint=checkpoint)
    seconds = time.perf_counter() - began
    client._send_to_scheduler = scale._send
    used = processor_seconds(own) - before[0], processor_seconds(scheduler) - before[1]
    return {
        "blocks": blocks,
        "tasks": plan.tasks,
        "checkpoint": "no" if folder is None else "yes",
        "graph bytes": scale.graph_bytes,
        "bytes a task": scale.graph_bytes / plan.tasks,
        "seconds to send": scale.sent - began,
        "seconds": seconds,
        "worker seconds": done.worker_seconds,
        "client processor seconds": used[0],
        "scheduler processor seconds": used[1],
        "scheduler ms a task": 1000 * used[1] / plan.tasks,
    }


def rows(blocks: list[int], workers: int, scratch: Path) -> Iterator[dict[str, Any]]:
    with (
        cluster(scratch, workers) as running,
        Client(running.address, set_as_default=False) as client,
    ):
        scheduler = psutil.Process(running.scheduler.pid)
        for number in blocks:
            path = scratch / f"{number}.zarr"
            zarr.create_array(path, data=np.zeros((_ROWS * number, 1)))
            sources = open_variables([str(path), str(path)])
            for folder in (None, Folder.at(str(scratch / f"kept-{number}"), "checkpoint")):
                yield one_pass(sources, number, client, scheduler, folder)


@click.command(help=__doc__)
@click.option("--blocks", multiple=True, type=int, default=[100, 1000, 10_000])
@click.option("--workers", default=2)
@click.option("--out", default="benchmarks/results/graph.csv")
def main(blocks: list[int], workers: int, out: str) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        write_csv(out, rows(list(blocks), workers, Path(scratch)))


if __name__ == "__main__":
    main()
