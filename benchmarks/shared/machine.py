"""The machine of the tables: processor, memory, system and versions, but no name and no path.

python -m benchmarks machine
"""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

LIBRARIES = ("dhsic", "numpy", "scipy", "dask", "distributed", "zarr", "numcodecs", "matplotlib")
PEERS = (
    *("causal-learn", "dcor", "hyppo", "numba"),
    *("pyHSICLasso", "scikit-learn", "statsmodels"),
)
_PROCESSOR = Path("/proc/cpuinfo")


def described() -> dict[str, Any]:
    """All that is written."""
    return {
        "processor": processor(),
        "architecture": platform.machine(),
        "cores": {
            "physical": psutil.cpu_count(logical=False),
            "logical": psutil.cpu_count(),
        },
        "memory GiB": round(psutil.virtual_memory().total / 2**30, 1),
        "system": system(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libraries": versions(LIBRARIES),
        "peers": versions(PEERS),
    }


def processor() -> str:
    """Its model, as far as the system says."""
    text = _PROCESSOR.read_text() if _PROCESSOR.exists() else ""
    found = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor()


def system() -> str:
    """Kernel and distribution."""
    try:
        distribution = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        distribution = ""
    number = re.match(r"[\d.]*", platform.release())  # what follows it may name the host
    return f"{platform.system()} {number[0] if number else ''} {distribution}".strip()


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Those that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
