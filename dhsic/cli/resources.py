"""The options that say where to run, and what they mean to the package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dhsic._validation import parse_seconds
from dhsic.cluster import TLS, ClusterSpec, SchedulerAt, connect
from dhsic.engine.units import parse_bytes

# As of `dhsic.independence_test`, and shown in the help.
MEMORY = "2GiB"
_CLUSTERS = ("threads", "workers", "scheduler", "scheduler_file", "cluster")
_FILES = {"tls_ca": "ca", "tls_cert": "cert", "tls_key": "key"}


@dataclass(frozen=True)
class RunResources:
    """Where a test runs.

    Parameters
    ----------
    memory : int
        Bytes that one process may use.
    threads : int or None
        Threads of this process, where it runs on them.
    cluster : ClusterSpec or None
        A cluster to run on instead.
    """

    memory: int
    threads: int | None
    cluster: ClusterSpec | None

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Where tasks run; None for threads of this process."""
        if self.cluster is None:
            yield None
        else:
            with connect(self.cluster) as client:
                yield client


def _bytes_of_option(
    context: click.Context, option: click.Parameter, value: str | None
) -> int | None:
    del context, option
    return None if value is None else parse_bytes(value)


def _seconds_of_option(
    context: click.Context, option: click.Parameter, value: str | None
) -> float | None:
    del context, option
    return None if value is None else parse_seconds(value)


def _file(name: str, what: str) -> Any:
    return click.option(
        f"--tls-{name}",
        type=click.Path(path_type=Path),
        envvar=f"DHSIC_TLS_{name.upper()}",
        show_envvar=True,
        metavar="FILE",
        help=f"{what}, in PEM, for a scheduler with TLS.",
    )


def memory_option(default: str) -> Any:
    """The option of the memory, with its default in words."""
    return click.option(
        "--memory",
        callback=_bytes_of_option,
        metavar="BYTES",
        help=f"Memory that one process may use.  [default: {default}]",
    )


THREADS_OPTION = click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of threads of this process.  [default: one per processor]",
)

TIME_OPTION = click.option(
    "--time",
    callback=_seconds_of_option,
    metavar="TIME",
    help="Time limit of the run, as 90s, 10min or 2h: an estimator, landmarks, features and "
    "kernels that are left open are chosen to fit, by timing blocks of the data.  [default: none]",
)

RESOURCE_OPTIONS = (
    THREADS_OPTION,
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Run on this many local worker processes.",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Run on the Dask cluster at this address: tls://HOST:PORT, or tcp://HOST:PORT on "
        "this machine.",
    ),
    click.option(
        "--scheduler-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Run on the Dask cluster whose scheduler wrote this file.",
    ),
    click.option(
        "--cluster",
        type=click.Path(path_type=Path),
        metavar="SPEC.yaml",
        help="Start the cluster that this file describes and run on it: this machine, SLURM, PBS, "
        "LSF, SGE, Kubernetes or Dask Gateway.",
    ),
    _file("ca", "Certificate of the authority"),
    _file("cert", "Own certificate"),
    _file("key", "Private key of the own certificate"),
    click.option(
        "--insecure",
        is_flag=True,
        help="Allow a network scheduler without TLS. Anyone on the network can then read the data "
        "and run code.",
    ),
    memory_option(f"{MEMORY}, or as SPEC.yaml says"),
)


def read_resources(options: dict[str, Any]) -> RunResources:
    """Translate the options, each of which is valid by itself; nothing is started.

    Raises
    ------
    click.UsageError, DhsicError
        Options that do not go together, or a description that cannot be used.
    """
    # Each of them alone says where to run; the last would win over the others in silence.
    given = [name for name in _CLUSTERS if options[name] is not None]
    if len(given) > 1:
        listed = ", ".join(_name_of_option(name) for name in _CLUSTERS[:-1])
        msg = f"{listed} and {_name_of_option(_CLUSTERS[-1])} say where to run: give one of them"
        raise click.UsageError(msg)
    _refuse_unused(options)
    memory = options["memory"] or parse_bytes(MEMORY)
    if options["cluster"] is not None:
        spec = ClusterSpec.read(options["cluster"])
        # Threads are in the file as well, so that none are given here.
        # The file has the memory of a worker, which its queue is asked for.
        return RunResources(spec.memory, None, spec)
    if options["workers"] is not None:
        return RunResources(memory, None, ClusterSpec("local", options["workers"], memory=memory))
    if options["scheduler"] is not None or options["scheduler_file"] is not None:
        at = SchedulerAt(options["scheduler"], options["scheduler_file"])
        tls, insecure = _tls(options), options["insecure"]
        spec = ClusterSpec("scheduler", memory=memory, scheduler=at, tls=tls, insecure=insecure)
        return RunResources(memory, None, spec)
    return RunResources(memory, options["threads"], None)


def _refuse_unused(options: dict[str, Any]) -> None:
    """Refuse on the command line what only a scheduler uses, or what the file says."""
    if options["cluster"] is not None and options["memory"] is not None:
        msg = "--memory cannot be combined with --cluster: write 'memory: 4GiB' in its file"
        raise click.UsageError(msg)
    if options["scheduler"] is not None or options["scheduler_file"] is not None:
        return
    for name in (*_FILES, "insecure"):
        # A flag is false by default too, so that its source is asked for.
        if _on_the_line(name):
            remedy = "write it in the file" if options["cluster"] is not None else "drop it"
            msg = f"{_name_of_option(name)} goes with --scheduler or --scheduler-file: {remedy}"
            raise click.UsageError(msg)


def _on_the_line(name: str) -> bool:
    context = click.get_current_context()
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _tls(options: dict[str, Any]) -> TLS | None:
    """All files of certificates or none."""
    # Two of three would fail in the handshake, with an error that names none of them.
    files = {part: options[name] for name, part in _FILES.items()}
    missing = [name for name in _FILES if options[name] is None]
    if len(missing) == len(_FILES):
        return None
    if missing:
        there = ", ".join(_name_of_option(name) for name in _FILES if name not in missing)
        msg = f"{there} needs {' and '.join(_name_of_option(name) for name in missing)}, too"
        raise click.UsageError(msg)
    return TLS(**files)


def _name_of_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
