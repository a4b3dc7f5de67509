"""Start or reach the cluster of each kind, encrypt its connections, and start worker processes.

A started cluster ends with its block; a scheduler that was already running continues. This module
imports distributed, which is slow to import, so `connection` imports this module only when needed.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import ipaddress
import logging
import multiprocessing
import os
import secrets
import shutil
import ssl
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dask
from distributed import Client, LocalCluster, Nanny, Security
from distributed.comm import connect
from distributed.comm.addressing import parse_address, parse_host_port
from distributed.comm.registry import get_backend
from distributed.core import Status
from distributed.deploy.spec import SpecCluster
from distributed.utils import silence_logging_cmgr

from dhsic._files import check_regular, parse_json
from dhsic.cluster.spec import (
    TLS,
    WORKER_SETTINGS,
    ClusterSpec,
    job_arguments,
    manifests,
    plain_path,
    queue_class,
    refuse,
)
from dhsic.errors import ClusterError, DhsicError, InsecureWarning, InvalidArgumentError, needing


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
    at = spec.scheduler
    assert at is not None
    address = str(at.address)
    # From the file again at every call: a scheduler that was restarted has another address.
    if at.scheduler_file is not None:
        try:
            check_regular(at.scheduler_file)
            address = str(parse_json(Path(at.scheduler_file).read_text("utf-8"))["address"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            reason = f"{error.strerror}; " if isinstance(error, OSError) else ""
            remedy = f"{reason}give what --scheduler-file wrote"
            refuse("scheduler_file", "a file of a running scheduler", at.scheduler_file, remedy)
    try:  # as Dask would, and before it waits for an answer
        protocol, place = parse_address(address)
        get_backend(protocol)
        host, _ = parse_host_port(place)
    except ValueError:
        requirement = "the address of a running Dask scheduler, as tcp://10.0.0.1:8786"
        refuse("scheduler", requirement, address, "write protocol, host and port")
    if protocol in ("tls", "wss"):
        if spec.tls is None:
            remedy = "give the files ca, cert and key"
            refuse("tls", f"given for {address}, which is encrypted", None, remedy)
    elif spec.tls is not None:
        remedy = f"write tls://{place}, or drop it"
        refuse("tls", f"left out for {address}, which is not encrypted", spec.tls.ca, remedy)
    # In one process, as in tests of users, nothing travels.
    elif protocol != "inproc" and not stays_here(host):
        allow_insecure(f"the way to the scheduler at {address}", spec.insecure)
    security = None if spec.tls is None else security_of(spec.tls)
    what, seconds = f"no connection to the scheduler at {address}", spec.answer_seconds
    with silence_logging_cmgr(logging.CRITICAL):  # the error says it once
        if reason := refusal(address, security, seconds):
            msg = f"{what}: {reason}"
            raise InvalidArgumentError(msg)
        with _failing_as(what):
            client = Client(address, timeout=seconds, security=security)
    with client:
        yield client, f"start some, as with 'dask worker {address}'"


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
    manifest = manifests(f"dhsic-{secrets.token_hex(4)}", adaptive)[0]
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

    # There are temporary certificates where the user gives none.
    security: Security | bool | None = True
    if spec.tls is not None:
        for name in ("ca", "cert", "key"):
            plain_path(f"tls: {name}", getattr(spec.tls, name))
        security = security_of(spec.tls)
    elif spec.insecure:
        allow_insecure(f"the way to workers of {spec.kind}", spec.insecure)
        security = None
    with ExitStack() as stack:
        arguments = job_arguments(spec, security)
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


# --- encryption between client, scheduler and workers


def security_of(tls: TLS) -> Security:
    """Security settings of Dask from certificates, whose files are checked first.

    Raises
    ------
    InvalidArgumentError
        A file that cannot be read, is not what it should be, or does not fit the others.
    """
    # Files are read here: Dask would fail in the first connection, with less to say.
    for name in ("ca", "cert", "key"):
        file = getattr(tls, name)
        try:
            check_regular(file)
            content = Path(file).read_bytes()
        except OSError as error:
            refuse(f"tls: {name}", "a file that can be read", file, str(error.strerror))
        if name == "key" and b"ENCRYPTED" in content:  # OpenSSL would ask on the terminal
            requirement = "a private key without a passphrase"
            refuse("tls: key", requirement, file, "remove it, as with 'openssl rsa'")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=tls.ca)
    except ssl.SSLError:
        refuse("tls: ca", "a PEM file of certificates", tls.ca, "give that of the authority")
    try:
        context.load_cert_chain(tls.cert, tls.key)
    except ssl.SSLError as error:
        requirement = "PEM files of a certificate and its own private key"
        reason = _reason(error)
        refuse("tls: cert and key", requirement, (tls.cert, tls.key), reason)
    return Security(
        # Without it Dask would speak to a peer that asks for plain TCP.
        require_encryption=True,
        tls_ca_file=tls.ca,
        **{
            f"tls_{role}_{name}": getattr(tls, name)
            for role in ("client", "scheduler", "worker")
            for name in ("cert", "key")
        },
    )


def allow_insecure(way: str, insecure: bool) -> None:
    """Refuse a way over a network without encryption, or say that it was allowed."""
    if not insecure:
        msg = (
            f"{way} leaves this machine and has no TLS: use tls:// and certificates, or allow it "
            "by insecure if everyone on the network may read the data and run code"
        )
        raise InvalidArgumentError(msg)
    msg = f"{way} is not encrypted: all on the network can read the data and run code"
    warnings.warn(msg, InsecureWarning, stacklevel=3)


def stays_here(host: str) -> bool:
    """Whether traffic to a host stays on this machine."""
    # Names are not looked up: the answer could be another when the connection is made.
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refusal(address: str, security: Security | None, timeout: float) -> str:
    """Say why a scheduler cannot be talked to; empty where it can.

    Dask waits for ever for the first word of what accepts a connection and is no scheduler, and
    what it raises where encryption fails names neither side.

    Parameters
    ----------
    address : str
        Address of the scheduler.
    security : Security or None
        Our certificates.
    timeout : float
        Seconds to wait for it, and for its first word.

    Returns
    -------
    str
        The reason, without a full stop.
    """
    arguments = {} if security is None else security.get_connection_args("client")

    async def greet() -> None:
        greeted = connect(address, timeout=timeout, **arguments)
        await (await asyncio.wait_for(greeted, timeout * 1.25)).close()

    try:
        with ThreadPoolExecutor(1) as pool:  # this thread may have an event loop that runs
            pool.submit(asyncio.run, greet()).result()
    except TimeoutError:
        return "what answers there is no Dask scheduler"
    except OSError as error:
        cause = error.__cause__
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is refused ({cause.verify_message}): is ca the right file?"
        if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
            return "it does not speak TLS"
        if isinstance(cause, ssl.SSLError):
            reason = _reason(cause)
            return f"it refuses our certificate ({reason}): is cert of its own authority?"
        if str(error).startswith("Timed out"):
            remedy = "start it, check the address, or allow a longer timeout"
            return f"nobody answered within {timeout:g} s: {remedy}"
        return "it ends the connection; if it speaks TLS: write tls:// and give certificates"
    return ""


def _reason(error: ssl.SSLError) -> str:
    """What OpenSSL says of an error, in plain words."""
    return str(error.reason or error).lower().replace("_", " ")


# --- worker processes of this machine


_UNGUARDED = 78  # an exit code that says so
_GUARD = (
    "a script that starts worker processes must do so below 'if __name__ == \"__main__\":', since "
    "each of them runs the script from its start: put that line before the part that starts them"
)
_STARTS = 3


def check_main() -> None:
    """Refuse to start processes in one that Python is still starting, as a part of a script.

    Raises
    ------
    ClusterError
        The script lacks a guard.
    """
    here = multiprocessing.current_process()
    if getattr(here, "_inheriting", False):
        # The process that started this one as a worker says it, once for all of them.
        if here.name.startswith("Dask Worker process"):
            os._exit(_UNGUARDED)
        raise ClusterError(_GUARD)


class Worker(Nanny):  # type: ignore[misc]
    """A worker process with our settings, which is started again where it ends.

    Parameters
    ----------
    *arguments, **options : object
        Those of the nanny.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # The settings of the moment are copied: others may be set by the time that a worker
        # restarts.
        with dask.config.set(WORKER_SETTINGS):
            super().__init__(*arguments, config=copy.deepcopy(dask.config.config), **options)
        self._exitcode = 0

    async def instantiate(self) -> Status:
        """Start the process; again where it is killed while the cluster starts."""
        for _ in range(_STARTS):
            status = await super().instantiate()
            if status == Status.running or self.status not in (Status.init, Status.starting):
                return status
            if self._exitcode >= 0:
                break
        if self._exitcode == _UNGUARDED:
            raise ClusterError(_GUARD)
        msg = (
            f"worker processes must start, and one ended as it did, with exit code {self._exitcode}"
            ": see whether this machine has memory for them, ask for fewer, or run on threads"
        )
        raise ClusterError(msg)

    def _on_worker_exit_sync(self, exitcode: int) -> None:
        self._exitcode = exitcode
        super()._on_worker_exit_sync(exitcode)


class WorkerProcesses(LocalCluster):  # type: ignore[misc]
    """Worker processes that come back however long that takes.

    Raises
    ------
    ClusterError
        They do not start.
    """

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(**options)
        except RuntimeError as error:
            # What Dask says around it are two pages of its own calls.
            raise (error.__cause__ or error).with_traceback(None) from None

    def _update_worker_status(self, op: str, msg: Any) -> None:
        # Of a worker that is not back in 15 s, which a busy machine may take to start one, a
        # cluster ends the nanny that is about to bring it back.
        super(SpecCluster, self)._update_worker_status(op, msg)
