"""Rates of a machine: seconds of one of every kind of work, measured in about a second and kept.

Every kind has a probe, a routine that passes call, of a size that they give it. The rate of a
machine is that of the reference machine times how many times longer the probe takes. No choice
goes by it, see `dhsic._work`; and nothing that goes wrong here stops a plan.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.spatial.distance
from numpy.typing import NDArray
from platformdirs import user_cache_path
from threadpoolctl import threadpool_info, threadpool_limits

from dhsic._files import parse_json
from dhsic._version import __version__
from dhsic._work import REFERENCE, Rates
from dhsic.engine.runtime import Runtime
from dhsic.engine.supervision import aside, threads_of_workers
from dhsic.kernels import Gaussian
from dhsic.linalg import pivoted_cholesky, solve_lower

Array = NDArray[Any]
Probe = Callable[[], Any]

_SETTING = "DHSIC_RATES"
_PROBE_SECONDS = 0.03  # of the repeats of a probe
_FEWEST_REPEATS = 5
_PROBE_TIMEOUT_SECONDS = 60.0  # seconds that a busy cluster is waited for
_MODEL = re.compile(r"^model name\s*: (.+)$", re.MULTILINE)


def rates_of(runtime: Runtime, *, anew: bool = False) -> Rates:
    """The rates of this machine, or of the workers of a client, of which the first is measured.

    They are measured once, and kept in the user's cache folder. Where the environment has
    ``DHSIC_RATES=reference`` they are those of the reference machine, as they are where measuring
    fails.

    Parameters
    ----------
    runtime : Runtime
        Where tasks run. A client that stands for workers of this machine has no `submit`.
    anew : bool, optional
        Whether to measure although they are known.

    Returns
    -------
    Rates
    """
    if os.environ.get(_SETTING) == "reference":
        return REFERENCE
    call: Callable[[Callable[[], Any]], Any] = _here
    if hasattr(runtime.client, "submit"):
        call = partial(_on_a_worker, runtime.client)
    try:
        machine = call(machine_of)
        known = None if anew else _read_rates(machine)
        if known is None:
            known = call(measure)
            _write_rates(machine, known)
    except Exception:  # whatever befalls a worker: plans can do without
        return REFERENCE
    return Rates(machine["processor"], known)


def _here(function: Callable[[], Any]) -> Any:
    return function()


def _on_a_worker(client: Any, function: Callable[[], Any]) -> Any:
    """The value of a function on the first of the workers by name."""
    worker = min(threads_of_workers(client))
    future = client.submit(function, workers=[worker], allow_other_workers=False, pure=False)
    try:
        with aside():
            return future.result(timeout=_PROBE_TIMEOUT_SECONDS)
    finally:
        # A probe that no one waits for any more must not run later.
        future.cancel()


def machine_of() -> dict[str, Any]:
    """All that rates depend on: the processor, its threads and the libraries."""
    import scipy.linalg  # its BLAS is told of once it is loaded

    told = ("internal_api", "version", "architecture")
    blas = {" ".join(str(library.get(key)) for key in told) for library in threadpool_info()}
    return {
        "processor": _processor(),
        "threads": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas": sorted(blas),
        "dhsic": __version__,
    }


def _processor() -> str:
    """Its model, as far as the system says."""
    try:
        model = _MODEL.search(Path("/proc/cpuinfo").read_text())
    except OSError:
        model = None
    return model[1].strip() if model else platform.processor() or platform.machine()


def _place(machine: dict[str, Any]) -> Path:
    """The file of a machine, in the user's folder of what can be made again."""
    key = hashlib.sha256(json.dumps(machine, sort_keys=True).encode()).hexdigest()[:16]
    return user_cache_path("dhsic", appauthor=False) / f"rates-{key}.json"


def _read_rates(machine: dict[str, Any]) -> dict[str, float] | None:
    """Rates that were measured before; None where there are none, or none that can be read."""
    try:
        kept = parse_json(_place(machine).read_text("utf-8"))
        rates = {kind: float(kept["seconds"][kind]) for kind in REFERENCE.seconds}
    except (OSError, ValueError, TypeError, KeyError):
        return None
    # A file that was edited must not decide plans.
    good = kept["machine"] == machine and all(0.0 < rate < 1.0 for rate in rates.values())
    return rates if good else None


def _write_rates(machine: dict[str, Any], rates: dict[str, float]) -> None:
    """Keep rates, whole or not at all; where that is not possible, they are measured again."""
    path = _place(machine)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # It gets its name when it is whole, since others may write at the same time.
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, suffix=".part", delete=False
        ) as file:
            json.dump({"machine": machine, "seconds": rates}, file, indent=2)
        try:
            os.replace(file.name, path)
        finally:
            Path(file.name).unlink(missing_ok=True)
    except OSError:
        return


def measure() -> dict[str, float]:
    """Seconds of one of every kind of work on this machine, by one thread."""
    with threadpool_limits(1, "blas"):
        return {
            kind: REFERENCE.seconds[kind] * _typical(make()) / seconds
            for kind, (make, seconds) in _PROBES.items()
        }


def _typical(probe: Probe) -> float:
    """The lower quartile of the processor seconds of calls, of as many as fit a probe's time.

    Others that come and go make calls longer, and the clock of a virtual machine that moves may
    show none at all, or less: neither the mean nor the least is how long a call takes.
    """
    # The first call fills caches and pages, and is not counted.
    probe()
    taken: list[float] = []
    while len(taken) < _FEWEST_REPEATS or sum(taken) < _PROBE_SECONDS:
        # Processor time of this thread alone, since others may run beside it.
        began = time.thread_time()
        probe()
        taken.append(time.thread_time() - began)
    # A coarse clock may say 0, by which rates would be divided.
    return max(float(np.quantile(taken, 0.25)), sys.float_info.min)


def _normals(dtype: str, *shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def _products_probe(dtype: str) -> Probe:
    left, right = _normals(dtype, 512, 64), _normals(dtype, 512, 64)
    return partial(np.matmul, left, right.T, out=np.empty((512, 512), dtype))


def _exponentials(dtype: str) -> Probe:
    kernel, values = Gaussian(gamma=0.2), _normals(dtype, 512, 3)
    out, work = np.empty((512, 512), dtype), np.empty((kernel.work_tiles, 512, 512), dtype)
    rows, columns = kernel.rows(values, dtype), kernel.columns(values, dtype)
    return partial(kernel.tile, rows, columns, out, work)


def _cosines(dtype: str) -> Probe:
    values = _normals(dtype, 2**15)
    return partial(np.cos, values, out=np.empty_like(values))


def _entries(dtype: str) -> Probe:
    """Rates on arrays of a few MiB, as tiles are that no lower cache holds."""
    left, right = _normals(dtype, 1024, 256), _normals(dtype, 1024, 256)
    return partial(np.multiply, left, right, out=np.empty_like(left))


def _transforms(dtype: str) -> Probe:
    return partial(scipy.fft.rfft, _normals(dtype, 256, 256), axis=1)


def _differences_probe() -> Probe:
    values = _normals("float64", 256, 20)
    return partial(scipy.spatial.distance.cdist, values, values, "cityblock")


def _gathers() -> Probe:
    order = np.random.default_rng(0).permutation(1024)
    return partial(_normals("float64", 1024, 1024).__getitem__, np.ix_(order, order))


def _factors() -> Probe:
    values = _normals("float64", 512, 20)
    gram = Gaussian(gamma=0.05)(values)
    factor = pivoted_cholesky(gram.copy(), 0.0).factor
    return partial(solve_lower, factor, _normals("float64", len(factor), 512))


def _eigenvalues() -> Probe:
    gram = Gaussian(gamma=0.05)(_normals("float64", 256, 20))
    return partial(scipy.linalg.eigvalsh, gram, check_finite=False)


def _sorts() -> Probe:
    return partial(np.sort, _normals("float64", 20_000))


def _calls() -> Probe:
    small = np.ones(8)

    def call() -> None:
        for _ in range(2000):
            np.add(small, small).sum()

    return call


def _bytes_probe() -> Probe:
    values = _normals("float64", 2**19)

    def read() -> bool:
        return bool(np.isfinite(values.copy()).all())

    return read


def _decoded() -> Probe:
    """Rates of decoding a chunk of normal values, compressed as zarr does by default."""
    from numcodecs import Zstd  # slow to import

    return partial(Zstd().decode, Zstd().encode(_normals("float32", 2**18)))


def _rates_of_both(make: Callable[[str], Probe], double: float, single: float) -> dict[str, Any]:
    name = make.__name__.removeprefix("_").removesuffix("_probe")
    return {
        name: (partial(make, "float64"), double),
        f"{name} of float32": (partial(make, "float32"), single),
    }


_PROBES: dict[str, tuple[Callable[[], Probe], float]] = {
    **_rates_of_both(_products_probe, 7.5e-4, 4e-4),
    **_rates_of_both(_exponentials, 4.4e-4, 2.5e-4),
    **_rates_of_both(_cosines, 3.4e-4, 2.5e-5),
    **_rates_of_both(_entries, 7.4e-5, 3.8e-5),
    **_rates_of_both(_transforms, 1.36e-4, 9.2e-5),
    "differences": (_differences_probe, 4.8e-4),
    "gathers": (_gathers, 7.2e-3),
    "factors": (_factors, 6.8e-3),
    "eigenvalues": (_eigenvalues, 2.5e-3),
    "sorts": (_sorts, 6.8e-4),
    "calls": (_calls, 4.2e-3),
    "bytes": (_bytes_probe, 2.2e-4),
    "decoded": (_decoded, 8.4e-4),
}
"""The probe of every kind, and its seconds on the reference machine."""
