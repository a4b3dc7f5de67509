"""Worker processes of this machine, apart from `local` since distributed is slow to import."""

from __future__ import annotations

import copy
import multiprocessing
import os
from typing import Any

import dask
from distributed import LocalCluster, Nanny
from distributed.core import Status
from distributed.deploy.spec import SpecCluster

from dhsic.cluster.settings import WORKER_SETTINGS
from dhsic.errors import ClusterError

_UNGUARDED = 78  # an exit code that says so
_GUARD = (
    "a script that starts worker processes must do so below 'if __name__ == \"__main__\":', since "
    "each of them runs the script from its start: put that line before the part that starts them"
)
_STARTS = 3


def check_main() -> None:
    """Refuse to start processes in one that Python is still starting, as a part of a script.

    Raises
    ------
    ClusterError
        The script lacks a guard.
    """
    here = multiprocessing.current_process()
    if getattr(here, "_inheriting", False):
        # The process that started this one as a worker says it, once for all of them.
        if here.name.startswith("Dask Worker process"):
            os._exit(_UNGUARDED)
        raise ClusterError(_GUARD)


class Worker(Nanny):  # type: ignore[misc]
    """A worker process with our settings, which is started again where it ends.

    Parameters
    ----------
    *arguments, **options : object
        Those of the nanny.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # The settings of the moment are copied: others may be set by the time that a worker
        # restarts.
        with dask.config.set(WORKER_SETTINGS):
            super().__init__(*arguments, config=copy.deepcopy(dask.config.config), **options)
        self._exitcode = 0

    async def instantiate(self) -> Status:
        """Start the process; again where it is killed while the cluster starts."""
        for _ in range(_STARTS):
            status = await super().instantiate()
            if status == Status.running or self.status not in (Status.init, Status.starting):
                return status
            if self._exitcode >= 0:
                break
        if self._exitcode == _UNGUARDED:
            raise ClusterError(_GUARD)
        msg = (
            f"worker processes must start, and one ended as it did, with exit code {self._exitcode}"
            ": see whether this machine has memory for them, ask for fewer, or run on threads"
        )
        raise ClusterError(msg)

    def _on_worker_exit_sync(self, exitcode: int) -> None:
        self._exitcode = exitcode
        super()._on_worker_exit_sync(exitcode)


class WorkerProcesses(LocalCluster):  # type: ignore[misc]
    """Worker processes that come back however long that takes.

    Raises
    ------
    ClusterError
        They do not start.
    """

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(**options)
        except RuntimeError as error:
            # What Dask says around it are two pages of its own calls.
            raise (error.__cause__ or error).with_traceback(None) from None

    def _update_worker_status(self, op: str, msg: Any) -> None:
        # Of a worker that is not back in 15 s, which a busy machine may take to start one, a
        # cluster ends the nanny that is about to bring it back.
        super(SpecCluster, self)._update_worker_status(op, msg)
