"""Where a command runs: its options, and what they mean to the package."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from dhsic.cluster import TLS, ClusterSpec, SchedulerAt, connect

_CLUSTERS: Final = ("threads", "workers", "scheduler", "scheduler_file", "cluster")
_TLS: Final = {"tls_ca": "ca", "tls_cert": "cert", "tls_key": "key"}
_FILE: Final = click.Path(path_type=Path)


def client_at(cluster: ClusterSpec | None) -> AbstractContextManager[Any]:
    """Where tasks run; None for threads of this process."""
    return nullcontext() if cluster is None else connect(cluster)


def resource_options() -> Sequence[click.Parameter]:
    """The options of clusters, in place of the client of a function."""
    said = "Run on a Dask cluster, as tls://HOST:PORT, with --tls-ca, --tls-cert, --tls-key."
    places = (
        ("--workers", click.IntRange(min=1), "N", "Run on N local processes."),
        ("--scheduler", click.STRING, "ADDRESS", said),
        ("--scheduler-file", _FILE, "FILE", "Run on the cluster of this file."),
        ("--cluster", _FILE, "SPEC.yaml", "Start the cluster of this file."),
    )
    return (
        *(
            click.Option([flag], type=of, metavar=shown, help=text)
            for flag, of, shown, text in places
        ),
        *(
            click.Option([_option(name)], type=_FILE, envvar=f"DHSIC_{name.upper()}", hidden=True)
            for name in _TLS
        ),
        click.Option(["--insecure"], is_flag=True, help="Allow a network scheduler without TLS."),
    )


def read_resources(options: dict[str, Any]) -> ClusterSpec | None:
    """Describe the cluster of a command, None for threads of this process; nothing is started.

    Where the file of a cluster says the memory of a worker, `options` gets it.

    Raises
    ------
    click.UsageError, DhsicError
        Options that do not go together, or a description that cannot be used.
    """
    # Each of them alone says where to run; the last would win over the others in silence.
    given = [name for name in _CLUSTERS if options[name] is not None]
    if len(given) > 1:
        listed = ", ".join(_option(name) for name in _CLUSTERS[:-1])
        msg = f"{listed} and {_option(_CLUSTERS[-1])} say where to run: give one of them"
        raise click.UsageError(msg)
    at_scheduler = not {"scheduler", "scheduler_file"}.isdisjoint(given)
    for name in () if at_scheduler else (*_TLS, "insecure"):
        if _on_the_line(name):
            remedy = "write it in the file" if "cluster" in given else "drop it"
            msg = f"{_option(name)} needs --scheduler or --scheduler-file: {remedy}"
            raise click.UsageError(msg)
    memory = options["memory"]
    if "cluster" in given:
        # The file has the threads and the memory of a worker, which its queue is asked for.
        if _on_the_line("memory"):
            msg = "--memory cannot be combined with --cluster: write 'memory: 4GiB' in its file"
            raise click.UsageError(msg)
        described = ClusterSpec.read(options["cluster"])
        options["memory"] = described.memory
        return described
    if "workers" in given:
        return ClusterSpec("local", options["workers"], memory=memory)
    if not at_scheduler:
        return None
    at = SchedulerAt(options["scheduler"], options["scheduler_file"])
    files = {part: options[name] for name, part in _TLS.items()}
    missing = [_option(name) for name in _TLS if options[name] is None]
    # Two of three would fail in the handshake, with an error that names none of them.
    if 0 < len(missing) < len(_TLS):
        there = ", ".join(_option(name) for name in _TLS if options[name] is not None)
        msg = f"{there} needs {' and '.join(missing)}, too"
        raise click.UsageError(msg)
    tls, insecure = None if missing else TLS(**files), options["insecure"]
    return ClusterSpec("scheduler", memory=memory, scheduler=at, tls=tls, insecure=insecure)


def _on_the_line(name: str) -> bool:
    context = click.get_current_context()
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
