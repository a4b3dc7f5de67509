"""Workers as jobs of SLURM, PBS, LSF or SGE, by dask-jobqueue."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from distributed import Client, Security
from distributed.core import Status

from dhsic.cluster import checks
from dhsic.cluster.remote import first_worker
from dhsic.cluster.sections import TLS, Adaptive
from dhsic.cluster.security import allow_insecure, security_of, temporary_security
from dhsic.cluster.settings import HERE, job_limit, process_limit, worker_environment
from dhsic.cluster.spec import ClusterSpec
from dhsic.errors import ClusterError, needing

_CLASSES = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster"}
_SUBMIT = {"slurm": "sbatch", "pbs": "qsub", "lsf": "bsub", "sge": "qsub"}
_JOB_NAME = "dhsic-worker"
# Otherwise every job leaves a file in the folder where it was submitted.
_NO_LOGS = {
    "slurm": ["-o /dev/null", "-e /dev/null"],
    "pbs": ["-o /dev/null", "-e /dev/null"],
    "lsf": ["-o /dev/null", "-e /dev/null"],
    "sge": ["-o /dev/null"],
}
_LONGEST_NOTICE = 600


@contextmanager
def job_client(spec: ClusterSpec) -> Iterator[Any]:
    """Start a scheduler here and workers as jobs; the jobs are cancelled when the block ends."""
    kind = _cluster_class(spec.kind)
    if shutil.which(_SUBMIT[spec.kind]) is None:
        msg = (
            f"jobs of {spec.kind} are submitted by {_SUBMIT[spec.kind]!r}, which is not on this "
            "machine: run where jobs are submitted"
        )
        raise ClusterError(msg)
    fewest, most = _worker_limits(spec.workers)
    with ExitStack() as stack:
        # Certificates are there before the cluster and go after it: workers read them as they
        # start.
        arguments = job_arguments(spec, stack.enter_context(_encryption(spec)))
        cluster = stack.enter_context(_started_cluster(kind, arguments))
        _submit_jobs(cluster, fewest, spec)
        # Adapting brings back workers whose job was cancelled or came to its end.
        cluster.adapt(minimum=fewest, maximum=most)
        client = stack.enter_context(Client(cluster))
        name = arguments["job_name"]
        remedy = f"look for its jobs, named {name}, in the queue, or allow a longer timeout"
        first_worker(client, spec.patience, remedy)
        yield client


def job_arguments(spec: ClusterSpec, security: Security | None) -> dict[str, Any]:
    """Arguments of the cluster of dask-jobqueue.

    Everything that enters a job script is quoted or is plain by the checks of `JobQueue`.
    """
    jobs = spec.jobs
    assert jobs is not None
    # What the plan may use, with room for what Dask counts besides.
    limit = process_limit(spec.memory)
    scheduler: dict[str, Any] = {"dashboard_address": HERE}
    if jobs.host is not None:
        scheduler["host"] = jobs.host
    named = {
        "queue": jobs.queue,
        # The same thing is a project to LSF and SGE, and an account to SLURM and PBS.
        "project" if spec.kind in ("lsf", "sge") else "account": jobs.account,
        "interface": jobs.interface,
        "log_directory": jobs.log_directory,
        "local_directory": jobs.local_directory and shlex.quote(jobs.local_directory),
    }
    return {
        "cores": spec.threads,
        # One process a job: a queue counts, limits and kills jobs, and so each worker by itself.
        "processes": 1,
        "memory": f"{job_limit(spec.memory)}B",
        "job_name": jobs.name or _JOB_NAME,
        "python": shlex.quote(jobs.python or sys.executable),
        "walltime": _walltime_text(jobs.seconds, spec.kind),
        "job_script_prologue": [*_environment(), *jobs.prologue],
        "job_extra_directives": [
            *(_NO_LOGS[spec.kind] if jobs.log_directory is None else ()),
            *jobs.directives,
        ],
        # The last limit counts: the first is that of the job, in which the nanny lives too.
        "worker_extra_args": [
            *("--memory-limit", f"{limit}B"),
            *("--dashboard-address", HERE),
            *_lifetime(jobs.seconds),
        ],
        "scheduler_options": scheduler,
        "security": security,
        "protocol": "tcp://" if security is None else "tls://",
        # Lost workers are expected, and told by errors and the progress.
        "silence_logs": logging.CRITICAL,
        **{name: value for name, value in named.items() if value is not None},
    }


@contextmanager
def _encryption(spec: ClusterSpec) -> Iterator[Security | None]:
    """Certificates of the user, temporary ones that go with the cluster, or none."""
    assert spec.jobs is not None
    if spec.tls is not None:
        for name in ("ca", "cert", "key"):
            checks.plain_path(f"tls: {name}", getattr(spec.tls, name))
        yield security_of(spec.tls)
    elif spec.insecure:
        allow_insecure(f"the way to workers of {spec.kind}", spec.insecure)
        yield None
    else:
        shared = spec.jobs.shared_directory or os.path.expanduser("~")
        checks.plain_path("shared_directory", shared)
        # The folder is removed with the cluster, and the key in it.
        with _temporary_folder(shared) as folder:
            yield security_of(_temporary(folder))


def _temporary_folder(shared: str) -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix=".dhsic-", dir=shared)
    except OSError as error:
        requirement = "a folder on all nodes that can be written to"
        remedy = f"{error.strerror}; temporary certificates go there, or give tls"
        checks.refuse("shared_directory", requirement, shared, remedy)


def _temporary(folder: str) -> TLS:
    """Write a certificate that signs itself, which no one else can read."""
    made = temporary_security("give tls")
    # The certificate signs itself, so that it is the authority as well.
    contents = {"cert": made.tls_ca_file, "key": made.tls_scheduler_key}
    files = {name: os.path.join(folder, f"{name}.pem") for name in contents}
    for name, file in files.items():
        # The file has its mode from the start: nobody can open it between two calls.
        with open(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as opened:
            opened.write(contents[name])
    return TLS(files["cert"], files["cert"], files["key"])


def _environment() -> list[str]:
    """The settings of workers in words of a shell."""
    settings = worker_environment().items()
    return [f"export {variable}={shlex.quote(value)}" for variable, value in settings]


def _walltime_text(seconds: int, kind: str) -> str:
    """In hours and minutes, which all understand; LSF does not count seconds."""
    if kind == "lsf":
        # Rounded up, so that no job is shorter than was asked for.
        minutes = -(-seconds // 60)
        return f"{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _lifetime(walltime: int) -> list[str]:
    """Let workers leave before their jobs end, not all at once, and hand over what they hold."""
    # The notice is a share of short jobs, which a fixed one would use up.
    notice = min(walltime * 3 // 20, _LONGEST_NOTICE)
    return ["--lifetime", f"{walltime - notice}s", "--lifetime-stagger", f"{notice // 3}s"]


def _cluster_class(kind: str) -> Any:
    with needing("dask-jobqueue", "cluster", f"a cluster of {kind}"):
        import dask_jobqueue
    return getattr(dask_jobqueue, _CLASSES[kind])


def _started_cluster(kind: Any, arguments: dict[str, Any]) -> Any:
    try:
        return kind(job_cls=_closable(kind.job_cls), **arguments)
    except (OSError, RuntimeError, ValueError) as error:
        msg = f"the scheduler for the jobs does not start: {_first_line(error)}"
        raise ClusterError(msg) from error


def _closable(job: Any) -> Any:
    """A job that says that it was refused: beside one that does not, a cluster never closes."""

    class Job(job):  # type: ignore[misc]
        async def start(self) -> None:
            try:
                await super().start()
            except BaseException:
                self.status = Status.failed
                raise

    return Job


def _submit_jobs(cluster: Any, count: int, spec: ClusterSpec) -> None:
    """Submit the first jobs here, where what the queue says against them is heard."""

    async def submitted() -> None:
        for _ in range(count):
            cluster.worker_spec.update(cluster.new_worker_spec())
        await cluster

    try:
        cluster.sync(submitted)
    except (OSError, RuntimeError, ValueError) as error:
        msg = f"{spec.kind} refuses a job: {_first_line(error)}"
        raise ClusterError(msg) from error


def _first_line(error: Exception) -> str:
    """Text of the command on stderr, where dask-jobqueue tells."""
    text = str(error)
    said = text.partition("stderr:\n")[2].strip() or text.strip()
    return said.splitlines()[0] if said else type(error).__name__


def _worker_limits(workers: int | Adaptive | None) -> tuple[int, int]:
    if isinstance(workers, Adaptive):
        return workers.minimum, workers.maximum
    assert workers is not None
    return workers, workers
