"""A worker process of this machine, apart from `local` since distributed is slow to import."""

from __future__ import annotations

import copy
from typing import Any

import dask
from distributed import Nanny

from dhsic.cluster.settings import WORKER_SETTINGS

__all__ = ["Worker"]


class Worker(Nanny):  # type: ignore[misc]
    """A worker process with our settings, also where it is started while others work."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # The settings of the moment are copied: others may be set by the time that a worker
        # restarts.
        with dask.config.set(WORKER_SETTINGS):
            super().__init__(*arguments, config=copy.deepcopy(dask.config.config), **options)
