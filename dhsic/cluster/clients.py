"""Clients of clusters that others run: dask-jobqueue, dask-kubernetes, dask-gateway, a scheduler.

A started cluster ends with its block; a scheduler that was already running continues.
"""

from __future__ import annotations

import dataclasses
import logging
import secrets
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from distributed import Client, Security
from distributed.comm.addressing import parse_address, parse_host_port
from distributed.comm.registry import get_backend
from distributed.core import Status
from distributed.utils import silence_logging_cmgr

from dhsic._files import check_regular, parse_json
from dhsic.cluster.manifests import cluster_manifests
from dhsic.cluster.security import allow_insecure, check_address, refusal, security_of, stays_here
from dhsic.cluster.settings import HERE, job_limit, process_limit, worker_environment
from dhsic.cluster.spec import ClusterSpec, SchedulerAt, on_node, plain_path, refuse
from dhsic.errors import ClusterError, DhsicError, InvalidArgumentError, needing

_LONGEST_NOTICE = 600


@contextmanager
def started(spec: ClusterSpec) -> Iterator[Any]:
    """Start a cluster, or find one, and wait for a worker; yields its client."""
    ways = {"scheduler": _scheduler, "kubernetes": _kubernetes, "gateway": _gateway}
    with ways.get(spec.kind, _jobs)(spec) as (client, remedy):
        try:
            client.wait_for_workers(1, timeout=spec.patience)
        except TimeoutError:
            msg = (
                f"the scheduler must have workers, and that at {client.scheduler.address} got none "
                f"within {spec.patience:g} s: {remedy}"
            )
            raise InvalidArgumentError(msg) from None
        yield client


# --- a scheduler that runs already


@contextmanager
def _scheduler(spec: ClusterSpec) -> Iterator[tuple[Any, str]]:
    assert spec.scheduler is not None
    # From the file again at every call: a scheduler that was restarted has another address.
    address = _address(spec.scheduler)
    try:  # as Dask would, and before it waits for an answer
        scheme, place = parse_address(address)
        get_backend(scheme)
        parse_host_port(place)
    except ValueError:
        requirement = "the address of a running Dask scheduler, as tcp://10.0.0.1:8786"
        refuse("scheduler", requirement, address, "write protocol, host and port")
    check_address(address, spec.tls, spec.insecure)
    security = None if spec.tls is None else security_of(spec.tls)
    seconds = spec.answer_seconds
    with silence_logging_cmgr(logging.CRITICAL):  # the error says it once
        reason = refusal(address, security, seconds)
        try:
            client = None if reason else Client(address, timeout=seconds, security=security)
        except (OSError, ImportError, RuntimeError) as error:
            client, reason = None, _short(error)
    if client is None:
        msg = f"no connection to the scheduler at {address}: {reason}"
        raise InvalidArgumentError(msg)
    with client:
        yield client, f"start some, as with 'dask worker {address}'"


def _address(at: SchedulerAt) -> str:
    if at.scheduler_file is None:
        return str(at.address)
    try:
        check_regular(at.scheduler_file)
        return str(parse_json(Path(at.scheduler_file).read_text("utf-8"))["address"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        reason = f"{error.strerror}; " if isinstance(error, OSError) else ""
        remedy = f"{reason}give what --scheduler-file wrote"
        refuse("scheduler_file", "a file of a running scheduler", at.scheduler_file, remedy)


# --- workers as pods, by the operator of dask-kubernetes


@contextmanager
def _kubernetes(spec: ClusterSpec) -> Iterator[tuple[Any, str]]:
    section = spec.kubernetes
    assert section is not None
    if section.tls_secret is not None:
        requirement = "left out, since the client of the Kubernetes operator speaks no TLS"
        remedy = "run inside the cluster by 'dhsic submit', or drop it where insecure is allowed"
        refuse("tls_secret", requirement, section.tls_secret, remedy)
    if section.context is not None:
        requirement = "left out, since the client of the Kubernetes operator takes the current one"
        remedy = "select it by 'kubectl config use-context', and drop it"
        refuse("context", requirement, section.context, remedy)
    allow_insecure("the way to a cluster of the Kubernetes operator", spec.insecure)
    with needing("dask-kubernetes", "kubernetes", "a cluster of Kubernetes"):
        from dask_kubernetes.operator import KubeCluster
    # It asks the scheduler's dashboard for more than a cluster of fixed size opens, so the
    # manifest is that of an adaptive one. Its name is random: two runs of one user do not meet.
    adaptive = dataclasses.replace(spec, workers=spec.bounds)
    manifest = cluster_manifests(f"dhsic-{secrets.token_hex(4)}", adaptive)[0]
    with ExitStack() as stack:
        with _failing_as("Kubernetes does not start the cluster"):
            options = {"namespace": section.namespace, "resource_timeout": int(spec.patience)}
            made = KubeCluster(custom_cluster_spec=manifest, quiet=True, **options)
            cluster = stack.enter_context(made)
            if spec.workers == spec.bounds:
                cluster.adapt(minimum=spec.bounds.minimum, maximum=spec.bounds.maximum)
        remedy = "look at its pods, as with 'kubectl get pods', or allow a longer timeout"
        yield stack.enter_context(Client(cluster)), remedy


# --- workers of a Dask Gateway


@contextmanager
def _gateway(spec: ClusterSpec) -> Iterator[tuple[Any, str]]:
    """The way to the scheduler is always encrypted, by certificates that the gateway hands out."""
    section = spec.gateway
    assert section is not None
    url = urlsplit(section.address)
    # The gateway hands out certificates on this way: plain http is for this machine alone.
    if url.scheme == "http" and not stays_here(url.hostname or ""):
        allow_insecure(f"the way to the gateway at {section.address}", spec.insecure)
    with needing("dask-gateway", "gateway", "a cluster of Dask Gateway"):
        from dask_gateway import Gateway
    with ExitStack() as stack:
        with _failing_as(f"the gateway at {section.address} starts no cluster"):
            gateway = stack.enter_context(Gateway(address=section.address, auth=section.auth))
            options = gateway.cluster_options()
            image = {} if section.image is None else {"image": section.image}
            # It names an option that it does not offer.
            for name, value in {**section.options, **image}.items():
                options[name] = value
            # The gateway would keep the cluster for other sessions otherwise.
            cluster = stack.enter_context(gateway.new_cluster(options, shutdown_on_close=True))
            if spec.workers == spec.bounds:
                cluster.adapt(minimum=spec.bounds.minimum, maximum=spec.bounds.maximum)
            else:
                cluster.scale(spec.workers)
            client = stack.enter_context(cluster.get_client())
        yield client, "ask who runs the gateway, or allow a longer timeout"


# --- workers as jobs of SLURM, PBS, LSF or SGE, by dask-jobqueue


def queue_class(kind: str) -> Any:
    """The class of dask-jobqueue for a kind of queue."""
    with needing("dask-jobqueue", "cluster", f"a cluster of {kind}"):
        import dask_jobqueue
    return getattr(dask_jobqueue, f"{kind.upper()}Cluster")


def job_arguments(spec: ClusterSpec, security: Security | bool | None) -> dict[str, Any]:
    """Arguments of the cluster of dask-jobqueue.

    Everything that enters a job script is quoted or is plain by the checks of `JobQueue`.
    """
    jobs = spec.jobs
    assert jobs is not None
    # The notice is a share of short jobs, which a fixed one would use up.
    notice = min(jobs.seconds * 3 // 20, _LONGEST_NOTICE)
    quiet = ("-o /dev/null", "-e /dev/null") if jobs.log_directory is None else ()
    settings = worker_environment().items()
    return {
        "queue": jobs.queue,
        # The same thing is a project to LSF and SGE, and an account to SLURM and PBS.
        "project" if spec.kind in ("lsf", "sge") else "account": jobs.account,
        "interface": jobs.interface,
        "log_directory": jobs.log_directory,
        "local_directory": jobs.local_directory and on_node(jobs.local_directory),
        "cores": spec.threads,
        # One process a job: a queue counts, limits and kills jobs, and so each worker by itself.
        "processes": 1,
        "memory": f"{job_limit(spec.memory)}B",
        "job_name": jobs.name or "dhsic-worker",
        "python": on_node(jobs.python or sys.executable),
        "walltime": _walltime_text(jobs.seconds, spec.kind),
        "job_script_prologue": [
            *(f"export {variable}={shlex.quote(value)}" for variable, value in settings),
            *jobs.prologue,
        ],
        # Otherwise every job leaves a file in the folder where it was submitted.
        "job_extra_directives": [*quiet, *jobs.directives],
        "job_directives_skip": list(jobs.leave_out),
        # The last limit counts: the first is that of the job, in which the nanny lives too. Workers
        # leave before their jobs end, not all at once, and hand over what they hold.
        "worker_extra_args": [
            *("--memory-limit", f"{process_limit(spec.memory)}B"),
            *("--dashboard-address", HERE),
            *("--lifetime", f"{jobs.seconds - notice}s", "--lifetime-stagger", f"{notice // 3}s"),
        ],
        "scheduler_options": {
            "dashboard_address": HERE,
            **({} if jobs.host is None else {"host": jobs.host}),
        },
        "security": security,
        # Lost workers are expected, and told by errors and the progress.
        "silence_logs": logging.CRITICAL,
        **jobs.options,
    }


def _walltime_text(seconds: int, kind: str) -> str:
    """In hours and minutes, which all understand; LSF does not count seconds."""
    # Rounded up for LSF, so that no job is shorter than was asked for.
    whole = -(-seconds // 60) * 60 if kind == "lsf" else seconds
    text = f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
    return text[:-3] if kind == "lsf" else text


@contextmanager
def _jobs(spec: ClusterSpec) -> Iterator[tuple[Any, str]]:
    """The scheduler runs here; the jobs are cancelled when the block ends."""
    jobs, kind = spec.jobs, queue_class(spec.kind)
    assert jobs is not None
    program = kind.job_cls.submit_command
    if shutil.which(program) is None:
        msg = (
            f"jobs of {spec.kind} are submitted by {program!r}, which is not on this machine: run "
            "where jobs are submitted"
        )
        raise ClusterError(msg)

    class Job(kind.job_cls):  # type: ignore[misc, name-defined]
        """Says that it was refused: beside one that does not, a cluster never closes."""

        async def start(self) -> None:
            try:
                await super().start()
            except BaseException:
                self.status = Status.failed
                raise

    with ExitStack() as stack:
        arguments = job_arguments(spec, _encryption(spec))
        if arguments["security"] is True:
            # Temporary certificates go to files there, which workers read as they start.
            shared = plain_path("shared_directory", jobs.shared_directory or "~")
            try:
                tempfile.TemporaryFile(dir=shared).close()
            except OSError as error:
                requirement = "a folder on all nodes that can be written to"
                remedy = f"{error.strerror}; temporary certificates go there, or give tls"
                refuse("shared_directory", requirement, shared, remedy)
            arguments["shared_temp_directory"] = shared
        with _failing_as("the scheduler for the jobs does not start"):
            cluster = stack.enter_context(kind(job_cls=Job, **arguments))
        for name in ("ca_file", "cert", "key"):
            if (file := getattr(cluster, f"_job_{name}", None)) is not None:
                stack.callback(file.close)  # which removes it

        async def submitted() -> None:
            for _ in range(spec.bounds.minimum):
                cluster.worker_spec.update(cluster.new_worker_spec())
            await cluster

        # The first jobs are submitted here, where what the queue says against them is heard.
        with _failing_as(f"{spec.kind} refuses a job"):
            cluster.sync(submitted)
        # Adapting brings back workers whose job was cancelled or came to its end.
        cluster.adapt(minimum=spec.bounds.minimum, maximum=spec.bounds.maximum)
        client = stack.enter_context(Client(cluster))
        name = arguments["job_name"]
        yield client, f"look for its jobs, named {name}, in the queue, or allow a longer timeout"


def _encryption(spec: ClusterSpec) -> Security | bool | None:
    """Certificates of the user; whether there are temporary ones, where they are not given."""
    if spec.tls is not None:
        for name in ("ca", "cert", "key"):
            plain_path(f"tls: {name}", getattr(spec.tls, name))
        return security_of(spec.tls)
    if spec.insecure:
        allow_insecure(f"the way to workers of {spec.kind}", spec.insecure)
        return None
    return True


@contextmanager
def _failing_as(what: str) -> Iterator[None]:
    """Tell in a line what a library of a cluster fails with, in types of many libraries."""
    try:
        yield
    except DhsicError:
        raise
    except Exception as error:  # of any of the libraries below it
        msg = f"{what}: {_short(error)}"
        raise ClusterError(msg) from error


def _short(error: Exception) -> str:
    """Text of the command on stderr, where dask-jobqueue tells."""
    said = str(error).partition("stderr:\n")[2] or str(error)
    return " ".join(said.split())[:200] or type(error).__name__
