"""A real scheduler with many workers that share a few processes.

Workers that sleep need no processor, and may be real. Where the scheduler alone is of interest they
are echoes, which say at once of every task that it is done: as the scheduler sees them they are
workers without heartbeats. Everything listens on 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing as mp
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

import dask
import numpy as np
import psutil
from distributed import Client, Scheduler, Status, Worker
from distributed.comm import CommClosedError, connect
from distributed.core import Server
from distributed.protocol import to_serialize
from numpy.typing import NDArray

from dhsic._work import Work
from dhsic.engine.reduction import Footprint, Partial, RowBlock

_TYPE = pickle.dumps(int)
_METRICS: dict[str, Any] = {
    "task_counts": {},
    "bandwidth": {"total": 1e8, "workers": {}, "types": {}},
    "digests_total_since_heartbeat": {},
    "managed_bytes": 0,
    "spilled_bytes": {"memory": 0, "disk": 0},
    "transfer": {"incoming_bytes": 0, "outgoing_bytes": 0},
    "event_loop_interval": 0.02,
    "cpu": 0.0,
    "memory": 0,
    "time": 0.0,
    "host_net_io": {"read_bps": 0.0, "write_bps": 0.0},
    "host_disk_io": {"read_bps": 0.0, "write_bps": 0.0},
    "num_fds": 0,
}
_HERE: dict[str, Any] = {
    "host": "127.0.0.1",
    "dashboard": False,
    "dashboard_address": "127.0.0.1:0",  # of its health, which it serves all the same
}
_QUIET: dict[str, Any] = {
    "distributed.scheduler.worker-ttl": None,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "60s",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
}


@dataclass(frozen=True)
class Nothing:
    """A variable that any task can read at no cost."""

    blocks: int
    name: str = "nothing"
    row_bytes: int = 8
    chunk_rows: int | None = None
    place: Literal["memory", "storage", "graph"] = "storage"
    take_bytes: int = 0
    categorical: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return self.blocks, 1

    def read(self, start: int, stop: int) -> NDArray[Any]:
        return np.zeros((stop - start, 1))

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        return np.zeros((len(rows), 1))

    def decode_bytes(self, rows: int) -> int:
        return 0

    def lazy(self, bounds: Sequence[int]) -> list[Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class Sleeps:
    """A pass whose blocks sleep, and count themselves."""

    seconds: float
    name: str = "sleep"
    row_multiple: int = 1

    def footprint(self, rows: int) -> Footprint:
        return Footprint(0, 0, 8 * rows, Work.of(entries=1.0))

    def chunk(self, block: RowBlock) -> int:
        time.sleep(self.seconds)
        return block.rows

    def combine(self, left: int, right: int) -> int:
        return left + right


def processor_seconds(process: psutil.Process) -> float:
    """What a process has used."""
    times = process.cpu_times()
    return float(times.user + times.system)


def _serve_scheduler(pipe: Any, folder: str) -> None:
    async def serve() -> None:
        async with Scheduler(**_HERE, port=0) as scheduler:
            pipe.send(scheduler.address)
            await scheduler.finished()

    _serve(serve, folder)


def _serve_workers(address: str, count: int, folder: str) -> None:
    async def serve() -> None:
        async with AsyncExitStack() as stack:
            made = [Worker(address, nthreads=1, memory_limit=0, **_HERE) for _ in range(count)]
            for worker in made:
                await stack.enter_async_context(worker)
            await asyncio.gather(*(worker.finished() for worker in made))

    _serve(serve, folder)


def _serve_echoes(address: str, count: int, folder: str, watched: list[int], first: Any) -> None:
    async def serve() -> None:
        processes = [psutil.Process(pid) for pid in watched]
        echoes = [_Echo(address, processes, first) for _ in range(count)]
        await asyncio.gather(*(echo.run() for echo in echoes))

    _serve(serve, folder)


class _Echo(Server):  # type: ignore[misc]
    """A worker for the scheduler alone: it says of every task that it is done, and does nothing."""

    def __init__(self, scheduler: str, watched: list[psutil.Process], first: Any) -> None:
        super().__init__({"get_data": self._data})
        self._scheduler, self._watched, self._first = scheduler, watched, first

    async def run(self) -> None:
        await self.listen("tcp://127.0.0.1:0")
        comm = await connect(self._scheduler)
        await comm.write(
            {
                "op": "register-worker",
                "reply": False,
                "address": self.address,
                "name": self.address,
                "server_id": self.id,
                "status": "running",
                "nthreads": 1,
                "memory_limit": 0,
                "now": time.time(),
                "resources": {},
                "local_directory": "",
                "services": {},
                "nanny": None,
                "versions": {},
                "metrics": _METRICS,
                "extra": {},
                "stimulus_id": "echo",
            }
        )
        await comm.read()
        with suppress(CommClosedError):
            while True:
                answers = [answer for one in await comm.read() for answer in self._answers(one)]
                if answers:
                    await comm.write(answers)

    def _answers(self, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
        same = {name: message.get(name) for name in ("key", "stimulus_id")}
        if message["op"] == "compute-task":
            if message["key"].startswith(Sleeps.name) and not any(self._first):
                self._first[:] = [processor_seconds(process) for process in self._watched]
            now = time.time()
            yield {
                **same,
                "op": "task-finished",
                "status": "OK",
                "run_id": message["run_id"],
                "nbytes": 28,
                "type": _TYPE,
                "typename": "int",
                "metadata": {},
                "thread": 0,
                "startstops": [{"action": "compute", "start": now, "stop": now}],
            }
        elif message["op"] == "steal-request":
            yield {**same, "op": "steal-response", "state": "executing"}

    async def _data(self, comm: Any, keys: list[str], **_: Any) -> Any:
        data = {key: to_serialize(Partial(0, 0.0)) for key in keys}
        await comm.write({"status": "OK", "data": data})
        await comm.read()
        return Status.dont_reply


def _serve(coroutine: Callable[[], Coroutine[Any, Any, None]], folder: str) -> None:
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with dask.config.set({**_QUIET, "temporary-directory": folder}):
        asyncio.run(coroutine())


@dataclass(frozen=True)
class ManyWorkers:
    """A client of a scheduler with many workers, and the process of the scheduler."""

    client: Any
    scheduler: psutil.Process
    first: Any
    """Processor seconds of client and scheduler when the first task came to a worker; of echoes."""


@contextmanager
def many_workers(count: int, processes: int, *, echo: bool = False) -> Iterator[ManyWorkers]:
    """Start them: real ones that share some processes, or in one process such as do no work."""
    spawn = mp.get_context("spawn")
    here, there = spawn.Pipe()
    first = spawn.Array("d", 2)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))

        def begin(target: Any, *arguments: Any) -> int:
            process = spawn.Process(target=target, args=arguments, daemon=True)
            process.start()
            stack.callback(process.join)
            stack.callback(process.kill)
            return int(process.pid or 0)

        pid = begin(_serve_scheduler, there, folder)
        address = here.recv()
        if echo:
            begin(_serve_echoes, address, count, folder, [os.getpid(), pid], first)
        else:
            for share in np.diff(np.linspace(0, count, processes + 1).astype(int)).tolist():
                begin(_serve_workers, address, share, folder)
        client = stack.enter_context(Client(address, set_as_default=False))
        client.wait_for_workers(count, timeout=600)
        yield ManyWorkers(client, psutil.Process(pid), first)
