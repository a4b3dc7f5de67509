"""Worker processes of this machine, apart from `local` since distributed is slow to import."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import dask
import psutil
from distributed import LocalCluster, Nanny
from distributed.core import Status
from distributed.deploy.spec import SpecCluster
from tornado.ioloop import PeriodicCallback

from dhsic.cluster.settings import WORKER_SETTINGS

__all__ = ["Worker", "WorkerProcesses"]

_STARTS = 3
# A frozen process is told by its processor time. Heartbeats would be false alarms: LAPACK of SciPy
# holds the lock of the interpreter, and so the event loop, for all of an `eigh`, minutes of a large
# one, here and in the worker. An idle worker has heartbeats, which take 0.06 s of a processor in ten
# seconds, and with 15 processes for each processor every look of two seconds saw some of it. Looks
# are counted, and no seconds: this process may have been stopped itself.
_LOOK_SECONDS, _LOOKS = 2.0, 5


class Worker(Nanny):  # type: ignore[misc]
    """A worker process with our settings, which is started again where it ends or freezes.

    Parameters
    ----------
    *arguments : object
        Those of the nanny.
    ended : list of int
        Takes the exit codes of processes.
    **options : object
        Those of the nanny.
    """

    def __init__(self, *arguments: Any, ended: list[int], **options: Any) -> None:
        # The settings of the moment are copied: others may be set by the time that a worker
        # restarts.
        with dask.config.set(WORKER_SETTINGS):
            super().__init__(*arguments, config=copy.deepcopy(dask.config.config), **options)
        self._ended, self._exitcode, self._seen, self._still = ended, 0, (0, 0.0), 0
        look = PeriodicCallback(self._end_frozen, _LOOK_SECONDS * 1000)
        self.periodic_callbacks["frozen"] = look
        look.start()  # a process may freeze while it starts

    async def instantiate(self) -> Status:
        """Start the process; again where it is killed while the cluster starts."""
        for _ in range(_STARTS):
            status = await super().instantiate()
            began = self.status not in (Status.init, Status.starting)
            if began or status == Status.running or self._exitcode >= 0:
                break
        return status

    def _on_worker_exit_sync(self, exitcode: int) -> None:
        self._exitcode = exitcode
        self._ended.append(exitcode)
        super()._on_worker_exit_sync(exitcode)

    def _end_frozen(self) -> None:
        """Kill a process that has used no processor for some time."""
        with suppress(psutil.NoSuchProcess):
            if self.pid is not None:
                process = psutil.Process(self.pid)
                used = self.pid, sum(process.cpu_times()[:2])
                self._still = self._still + 1 if used == self._seen else 0
                self._seen = used
                if self._still >= _LOOKS:
                    process.kill()


class WorkerProcesses(LocalCluster):  # type: ignore[misc]
    """Worker processes that come back however long that takes."""

    def _update_worker_status(self, op: str, msg: Any) -> None:
        # Of a worker that is not back in 15 s, which a busy machine may take to start one, a
        # cluster ends the nanny that is about to bring it back.
        super(SpecCluster, self)._update_worker_status(op, msg)
