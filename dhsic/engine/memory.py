"""How much memory processes use."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

LIBRARIES = 250 * 2**20
_REPLY_TIMEOUT_SECONDS = 10.0
_AT_WORK = 16 * 2**20  # what Dask, zarr and the allocator were measured to take once they work

# mallopt(3) of glibc, with the thresholds that it would come to by itself for large arrays.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_KEPT_BYTES = {_TRIM_THRESHOLD: 64 * 2**20, _MMAP_THRESHOLD: 32 * 2**20}
_TRIM_OF_NANNIES = "65536"


def peak_bytes() -> int | None:
    """Most resident memory that this process had since it began; None where no system tells."""
    # Bytes of this program alone, where the reading below counts its parent's too.
    if (known := high_water_bytes("self")) is not None:
        return known
    try:
        import resource
    except ImportError:
        return None
    # macOS counts bytes, Linux kibibytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def high_water_bytes(process: int | str) -> int | None:
    """Most resident memory of a process by number, or "self"; None where no system tells."""
    with suppress(OSError):
        line = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(), re.M)
        if line is not None:
            return int(line[1]) * 1024
    return None


def forget_peak() -> bool:
    """Let the high-water mark of this process begin anew; False where no system can."""
    try:
        # A 5 sets the mark back to what is resident now.
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def worker_peak_bytes(client: Any) -> int | None:
    """That of the worker process of a client that had most; None where one does not answer."""

    async def asked() -> Any:
        return await client.run(peak_bytes, on_error="ignore", asynchronous=True)

    told: dict[str, int | None] = {}
    with suppress(TimeoutError):  # a worker may be frozen
        told = client.sync(asked, callback_timeout=_REPLY_TIMEOUT_SECONDS)
    return max((peak for peak in told.values() if peak is not None), default=None)


def resident_bytes() -> tuple[int, int]:
    """Resident bytes of this process, and those of them that are pages of files, where known."""
    with suppress(OSError):
        with open("/proc/self/statm", "rb") as file:
            _, resident, of_files, *_ = map(int, file.read().split())
        page = os.sysconf("SC_PAGE_SIZE")
        return resident * page, of_files * page
    import psutil

    return int(psutil.Process().memory_info().rss), 0


def baseline_bytes() -> int:
    """Bytes of a process with its libraries, without what a user holds in it besides.

    Those that every run loads are loaded before it is asked, since they are slow to import and so
    are not there from the start.
    """
    import dask.delayed  # noqa: F401
    import scipy.spatial.distance  # noqa: F401

    return min(resident_bytes()[0], LIBRARIES) + _AT_WORK


@functools.cache
def reuse_freed_memory() -> None:
    """Let the allocator of this process use memory of freed arrays again, where Dask forbids it.

    Dask's nannies set MALLOC_TRIM_THRESHOLD_ for their workers, with which glibc maps fresh pages
    for every array of more than 128 KiB: tiles then take up to 1.8 times as long.
    """
    if os.environ.get("MALLOC_TRIM_THRESHOLD_") == _TRIM_OF_NANNIES:
        for option, kept in _KEPT_BYTES.items():
            ask_allocator("mallopt", option, kept)


def ask_allocator(function: str, *numbers: int) -> None:
    """Call a function of the allocator of the C library, on Linux where it has it."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            getattr(ctypes.CDLL(None), function)(*numbers)


# An arena of each thread keeps up to 64 MiB of freed memory, which malloc_trim(3) leaves there: a
# test of one stored chunk took 1.2 times its memory, and .97 times with one arena for all threads.
# It is set before data are opened, since that starts threads.
ask_allocator("mallopt", _ARENA_MAX, 1)
