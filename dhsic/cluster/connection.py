"""Start a cluster, or connect to one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dhsic.cluster.local import local_cluster, memory_share
from dhsic.cluster.settings import processors
from dhsic.cluster.spec import TLS, ClusterSpec, SchedulerAt, refuse
from dhsic.engine.runtime import STALL_TIMEOUT


@contextmanager
def connect(
    where: int | str | os.PathLike[str] | ClusterSpec | None = None,
    *,
    memory: int | str | None = None,
    tls: TLS | None = None,
    insecure: bool = False,
    timeout: float | None = None,
) -> Iterator[Any]:
    """Start a cluster or connect to one; a started cluster ends with the block.

    Traffic that leaves this machine is encrypted, unless `insecure` allows otherwise. Traffic of
    workers on this machine is encrypted with a temporary key, so that other users of the machine
    can neither read the data nor run code. Dask serves dashboards as plain http even with TLS. So
    dashboards of job queues listen only on this machine, where all users can see names of tasks and
    logs; local clusters have no dashboard. A script that starts processes on this machine needs
    ``if __name__ == "__main__":``, see `local_cluster`.

    Parameters
    ----------
    where : int, str, path or ClusterSpec, optional
        A number of worker processes on this machine (default one for each processor); the address
        of a running scheduler, such as ``tls://10.0.0.1:8786``; a file ``*.json`` that
        ``dask scheduler --scheduler-file`` wrote; a file ``*.yaml`` that describes a cluster; or a
        `ClusterSpec`.
    memory : int or str, optional
        Bytes that the plan may use in one worker process on this machine: pass the same to the
        test. The default is an equal share of the memory of the machine.
    tls : TLS, optional
        Certificates for a running scheduler.
    insecure : bool, optional
        Allow a scheduler on the network without TLS, with a warning.
    timeout : float, optional
        Seconds to wait for an answer, for a first worker, and during a run without workers. The
        default for a running scheduler is 10 for the answer and 60 for workers.

    Yields
    ------
    distributed.Client
        For the `client` of `dhsic.independence_test`.

    Raises
    ------
    InvalidArgumentError
        The description is not valid, the scheduler does not answer, or no worker arrives in time.
    MissingDependencyError
        The cluster needs a library that is not installed.

    Examples
    --------
    One worker process on this machine; "cluster.yaml" in the place of the number would start the
    cluster that the file describes.

    >>> import numpy as np
    >>> import dhsic
    >>> from dhsic.cluster import connect
    >>> x = np.random.default_rng(0).standard_normal(1_000)
    >>> with connect(1, memory="1GiB") as client:
    ...     result = dhsic.independence_test(x, x**2, client=client, rng=0)
    >>> result.pvalue < 0.05
    True
    """
    import dask  # slow to import

    spec = _described(where, memory=memory, tls=tls, insecure=insecure, timeout=timeout)
    # A run without workers is given up after the same time for which the first one is waited for.
    patience = {} if spec.kind == "local" else {STALL_TIMEOUT: spec.patience}
    with dask.config.set(patience):
        if spec.kind == "local":
            with local_cluster(spec.workers, spec.memory, spec.threads) as client:
                yield client
            return
        from dhsic.cluster.clients import started  # slow to import

        with started(spec) as client:
            yield client


def _described(where: Any, **options: Any) -> ClusterSpec:
    """Describe what `connect` is asked for; nothing is started."""
    # Only what was given, so that defaults stay those of the description.
    given = {
        name: value for name, value in options.items() if value is not None and value is not False
    }
    if isinstance(where, (str, os.PathLike)):
        address = os.fspath(where)
        suffix = "" if "://" in address else os.path.splitext(address)[1].lower()
        if suffix not in (".yaml", ".yml"):
            _refuse_unused("for a scheduler", ("memory",), given)
            at = SchedulerAt(None, address) if suffix == ".json" else SchedulerAt(address)
            return ClusterSpec("scheduler", scheduler=at, **given)
        # The file says all of it: a second value would win in silence, or lose.
        _refuse_unused(f"beside {address}", tuple(given), given)
        return ClusterSpec.read(address)
    if where is None or isinstance(where, int):
        _refuse_unused("on this machine", ("tls", "insecure", "timeout"), given)
        # Without any choice the machine is used whole, each process with its share of the memory.
        count = processors() if where is None else where
        return ClusterSpec("local", count, **{"memory": memory_share(max(count, 1)), **given})
    if not isinstance(where, ClusterSpec):
        remedy = "give a number of workers, an address, a file or a ClusterSpec"
        refuse("where", "a place to run", where, remedy)
    _refuse_unused("beside a ClusterSpec", tuple(given), given)
    return where


def _refuse_unused(situation: str, unused: tuple[str, ...], given: dict[str, Any]) -> None:
    for name in unused:
        if name in given:
            refuse(name, f"left out {situation}", given[name], "drop it")
