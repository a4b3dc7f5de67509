"""How Dask is set up in worker processes that are started here."""

from __future__ import annotations

from typing import Any

# The plan may use 0.95 / 1.25 of the limit, which are 76 %.
_HEADROOM = 1.25
_SPILL = 0.85
_TERMINATE = 0.95
_NANNY = 256 * 2**20

HERE = "127.0.0.1:0"
"""Where dashboards listen: they are plain http, also beside TLS."""

# A plan counts all that a worker holds, arrays that are sent to it too, and may use 76 % of the
# limit of a process. Above that, where a plan was too low or others keep data on the cluster too,
# results spill to disk, by the memory of the process alone: Dask's own 70 % would spill what every
# task needs next. A paused worker never goes on by itself, which would be a hang. Dask's default
# MALLOC_TRIM_THRESHOLD_ is left out: it makes every large array fresh pages, with which tiles take
# up to 1.8 times as long. Dask's profiler looks every 10 ms, which costs 7 %; its clocks, which
# tick every 20 ms and look at the machine every 500 ms, are half of what an idle cluster costs.
WORKER_SETTINGS: dict[str, Any] = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": _SPILL,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": _TERMINATE,
    "distributed.worker.profile.interval": "100ms",
    "distributed.admin.tick.interval": "200ms",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.nanny.pre-spawn-environ": {
        "OMP_NUM_THREADS": 1,
        "MKL_NUM_THREADS": 1,
        "OPENBLAS_NUM_THREADS": 1,
        "MALLOC_TRIM_THRESHOLD_": None,
    },
}

# Any user of this machine may read what is plain http on loopback: numbers, and no pages on
# workers, tasks and logs.
LOCAL_SETTINGS: dict[str, Any] = {
    **WORKER_SETTINGS,
    "distributed.scheduler.http.routes": [
        "distributed.http.scheduler.prometheus",
        "distributed.http.health",
    ],
}


def worker_environment() -> dict[str, str]:
    """The settings of workers as variables that Dask reads where it starts."""
    return {
        f"DASK_{name.replace('.', '__').replace('-', '_').upper()}": str(value).replace("'", '"')
        for name, value in WORKER_SETTINGS.items()
    }


def job_limit(memory: int) -> int:
    """Bytes of a job or a pod around such a process, with the one that watches over it."""
    return process_limit(memory) + _NANNY


def process_limit(memory: int) -> int:
    """Bytes at which Dask counts the memory of a process, of which the plan may use some."""
    return int(memory * _HEADROOM / _TERMINATE)


def process_share(limit: int) -> int:
    """Bytes that the plan may use in a process of such a limit."""
    return int(limit * _TERMINATE / _HEADROOM)


def processors() -> int:
    """Count the processors that this process may use, by affinity and control group.

    Returns
    -------
    int

    Examples
    --------
    >>> from dhsic.cluster import processors
    >>> processors() >= 1
    True
    """
    from dask.system import CPU_COUNT  # slow to import

    return int(CPU_COUNT)


def default_workers(threads: int) -> int:
    """Worker processes that keep every processor busy."""
    # Rounded down: threads of two workers on one processor would slow each other.
    return max(1, processors() // threads)
