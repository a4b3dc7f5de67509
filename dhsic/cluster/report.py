"""Facts about a cluster: its workers, its dashboard, a report of how time was spent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path
from socket import gethostname
from typing import Any
from urllib.parse import urlsplit

from dhsic._files import written_whole
from dhsic._version import __version__
from dhsic.errors import InvalidArgumentError, needing


def worker_count(client: Any) -> int | None:
    """Worker processes as the client last heard of them, without asking; None where it did not.

    A client asks its scheduler every two seconds.
    """
    known = getattr(client, "_scheduler_identity", {})
    return known.get("n_workers", len(known["workers"]) if "workers" in known else None)


def dashboard_link(client: Any) -> str | None:
    """URL of the dashboard of a client's scheduler, None where it serves none that we reach."""
    with suppress(Exception):  # a run goes on without it
        machine, listening = client.run_on_scheduler(_dashboard_place)
        named, host = urlsplit(str(client.dashboard_link)), ip_address(listening)
        # Dask names the address of the scheduler, also where the dashboard listens on another. A
        # link that was configured, as of a proxy, does not name it.
        if host.is_unspecified or (named.hostname or "no host") not in client.scheduler.address:
            return named.geturl()
        if not host.is_loopback or machine == gethostname():
            return named._replace(netloc=f"{host}:{named.port}").geturl()
    return None


def _dashboard_place(dask_scheduler: Any) -> tuple[str, str] | None:
    """The machine, and the address on which it listens; None where there is none."""
    # A scheduler without one has an HTTP server all the same, for its health and its metrics.
    place = gethostname(), str(dask_scheduler.http_server.address)
    return place if dask_scheduler.http_application.applications else None


@contextmanager
def performance_report(client: Any, path: str | Path) -> Iterator[None]:
    """Write how a cluster spent its time while the block ran: tasks, profiles, memory, transfers.

    The file is one HTML page, with all that it needs to be read offline. It is written whole or
    not at all, and not where the block ends by an error. It names addresses of the scheduler and
    the workers, lines of code that ran and what the scheduler logged; no data.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster. Its scheduler needs bokeh: ``pip install 'dhsic[report]'``.
    path : str or Path
        The file; one that is there is replaced.

    Raises
    ------
    InvalidArgumentError
        There is no client.
    MissingDependencyError
        The scheduler lacks bokeh.
    DataError
        The file cannot be written.
    """
    if client is None:
        msg = "a performance report needs worker processes: start some, or give a client"
        raise InvalidArgumentError(msg)
    # The scheduler draws the report, and needs the library where it runs.
    with needing("bokeh", "report", "a performance report, which the scheduler makes,"):
        client.run_on_scheduler(version, "bokeh")
    import distributed  # slow to import

    with client.as_current():
        report = distributed.performance_report(mode="inline")
        # Entered by hand, since its end gets another name, and no source, below.
        client.sync(report.__aenter__)
        yield
        with written_whole(Path(path)) as partial:
            report.filename = str(partial)
            # Dask would show the caller's source, which may hold a password.
            client.sync(report.__aexit__, None, None, None, code=f"dhsic {__version__}")
