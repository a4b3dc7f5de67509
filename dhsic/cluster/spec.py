"""Read the description of a cluster from a YAML file, and make what libraries are given of it.

Checks of values and sections come first, then `ClusterSpec`, then the environment of workers, the
arguments of dask-jobqueue and the manifests of Kubernetes. The checks find mistakes that would have
no effect or fail late: unknown keys, texts that would break a line of a job script, sections of
another kind. The library of the kind checks everything else.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from functools import partial
from pathlib import Path
from string import Template
from typing import Any, ClassVar, Literal, NoReturn, TypeVar, get_args

import yaml

from dhsic._files import check_regular
from dhsic._validation import (
    check_choice,
    check_flag,
    check_integer,
    check_number,
    nearest,
)
from dhsic.engine.units import parse_bytes
from dhsic.errors import InvalidArgumentError, needing
from dhsic.io.urls import redacted

ClusterKind = Literal["local", "scheduler", "slurm", "pbs", "lsf", "sge", "kubernetes", "gateway"]

JOB_QUEUES = ("slurm", "pbs", "lsf", "sge")
_KINDS: tuple[ClusterKind, ...] = get_args(ClusterKind)
_COMMON = ("kind", "workers", "threads", "memory", "timeout", "tls", "insecure")
# A key without an effect would seem to have one, and is refused.
_UNUSED: dict[str, tuple[str, ...]] = {
    "local": ("timeout", "tls", "insecure"),  # nobody is waited for, and nothing leaves
    "scheduler": ("workers", "threads"),  # it has workers of its own
    "kubernetes": ("tls",),  # pods have theirs from a secret
    "gateway": ("tls", "threads"),  # it hands out certificates; threads are among its options
}
_ANSWER_TIMEOUT, _SCHEDULER_TIMEOUT, _QUEUE_TIMEOUT = 10.0, 60.0, 600.0
_LARGEST_FILE, _SHOWN, _SHORTEST = 2**20, 300, 60
_LOGINS = ("basic", "kerberos", "jupyterhub")
_UNITS = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNITS |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
SectionType = TypeVar("SectionType")


def refuse(name: str, requirement: str, value: Any, remedy: str) -> NoReturn:
    """Raise the error of a value that cannot be used."""
    # A file of the wrong kind may stand in the place of a value.
    msg = f"{name} must be {requirement}, got {redacted(repr(value))[:_SHOWN]}: {remedy}"
    raise InvalidArgumentError(msg)


# --- checks of single values: each returns the clean one


def _text(
    name: str,
    value: Any,
    pattern: str = ".+",
    requirement: str = "text in one line, not empty",
    remedy: str = "leave out control characters, or the key",
) -> str:
    # YAML reads the name of a queue such as 2024 as a number.
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    text = str(value).strip() if plain else ""
    if not text.isprintable() or not re.fullmatch(pattern, text):
        refuse(name, requirement, value, remedy)
    return text


def _path(name: str, value: Any) -> str:
    """The whole path of a file or folder of this machine, whose variables are set here."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    return os.path.abspath(_expanded(_text(name, text)))


def _expanded(path: str) -> str:
    return os.path.expanduser(os.path.expandvars(path))


def plain_path(name: str, value: Any) -> str:
    """A whole path that enters the head of a job script."""
    pattern, remedy = r"[A-Za-z0-9_.,:@/+=%-]+", "use letters, digits and _.,:@/+=%-"
    return _text(name, _path(name, value), pattern, "a path of plain characters", remedy)


def _node_path(name: str, value: Any) -> str:
    """A path on nodes, whose variables are those of the node."""
    # Not made absolute: a relative path on a node is not one of this machine's.
    return os.path.expanduser(_text(name, value))


def _walltime(name: str, value: Any) -> str:
    pattern = r"(\d{1,3}-)?\d{1,4}:[0-5]\d:[0-5]\d"
    text = _text(name, value, pattern, "a time", "write HH:MM:SS or D-HH:MM:SS")
    # Workers leave before their job ends, and would at once.
    if _seconds(text) < _SHORTEST:
        refuse(name, f"at least {_SHORTEST} seconds", value, "write HH:MM:SS or D-HH:MM:SS")
    return text


def _seconds(walltime: str) -> int:
    days, _, clock = walltime.rpartition("-")
    hours, minutes, seconds = map(int, clock.split(":"))
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def _url(name: str, value: Any) -> str:
    remedy = "write https://HOST, and no name or password"
    return _text(name, value, r"https?://[^/@]+(/.*)?", "a URL", remedy)


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        refuse(name, "a mapping", value, "write NAME: VALUE")
    return {_text(name, key): part for key, part in value.items()}


def _resources(name: str, value: Any) -> dict[str, dict[str, str]]:
    _check_keys(name, given := _mapping(name, value), ("requests", "limits"))
    amount = rf"\d+(\.\d+)?({'|'.join(_UNITS)})", "amounts", "write as 2, 500m or 4Gi"
    return {
        kind: {key: _text(name, one, *amount) for key, one in _mapping(name, part).items()}
        for kind, part in given.items()
    }


def _quantity(amount: str) -> float:
    """A number of Kubernetes, as 500m or 4Gi."""
    unit = amount.lstrip("0123456789.")
    return float(amount.removesuffix(unit)) * _UNITS[unit]


_count = partial(check_integer, minimum=1)


def _workers(name: str, value: Any) -> Any:
    return value if isinstance(value, Adaptive) else _count(name, value)


def _timeout(name: str, value: Any) -> float:
    requirement, remedy = "seconds greater than 0", "write a number such as 60"
    return check_number(name, value, requirement, lambda s: 0 < s < math.inf, remedy)


def _several(name: str, value: Any, check: Callable[[str, Any], Any] = _text) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        refuse(name, "a list", value, "write one item after a dash in each line")
    return tuple(check(name, item) for item in value)


# Checks by the types of fields, and of those that are more than their type says.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "int": _count,
    "int | Adaptive": _workers,
    "bool": check_flag,
    "str": _text,
    "tuple[str, ...]": _several,
    "tuple[int, ...]": partial(_several, check=partial(check_integer, minimum=1, maximum=65535)),
    "Mapping[str, Any]": _mapping,
}


def _checked(check: Callable[[str, Any], Any], default: Any = MISSING) -> Any:
    return field(default=default, metadata={"check": check})


# --- sections


class _Section:
    """Part of a description, whose fields are checked."""

    prefix: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):  # type: ignore[arg-type]
            usual = _CHECKS.get(str(one.type).removesuffix(" | None"), lambda _, value: value)
            check, value = one.metadata.get("check", usual), getattr(self, one.name)
            if value is not None or one.default is not None:
                object.__setattr__(self, one.name, check(f"{self.prefix}{one.name}", value))


@dataclass(frozen=True)
class Adaptive(_Section):
    """A number of workers that follows the amount of work.

    Parameters
    ----------
    maximum : int
        The most workers.
    minimum : int, optional
        The fewest workers; a run begins with at least one worker.

    Raises
    ------
    InvalidArgumentError
        A number of workers is not positive, or the maximum is less than the minimum.

    Examples
    --------
    >>> from dhsic.cluster import Adaptive
    >>> workers = Adaptive(minimum=2, maximum=20)
    >>> workers.maximum - workers.minimum
    18
    """

    prefix = "workers: "
    maximum: int
    minimum: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.minimum > self.maximum:
            requirement = f"at least the minimum of {self.minimum}"
            refuse("workers: maximum", requirement, self.maximum, "raise it")


@dataclass(frozen=True)
class TLS(_Section):
    """Files of certificates, in PEM.

    Parameters
    ----------
    ca : str
        The authority that signed the certificates of the scheduler and of the workers.
    cert : str
        Certificate of this machine.
    key : str
        Private key of that certificate.

    Examples
    --------
    >>> from dhsic.cluster import TLS
    >>> files = TLS("certificates/ca.pem", "certificates/own.pem", "certificates/own.key")
    >>> files.ca.endswith("/certificates/ca.pem")  # whole paths, for processes elsewhere
    True
    """

    prefix = "tls: "
    ca: str = _checked(_path)
    cert: str = _checked(_path)
    key: str = _checked(_path)


@dataclass(frozen=True)
class SchedulerAt(_Section):
    """The address of a running scheduler.

    Parameters
    ----------
    address : str, optional
        Such as ``tls://10.0.0.1:8786``.
    scheduler_file : str, optional
        File that ``dask scheduler --scheduler-file`` wrote. One of the two must be given.

    Raises
    ------
    InvalidArgumentError
        Neither the address nor the file is given, or both are.

    Examples
    --------
    >>> from dhsic.cluster import ClusterSpec, SchedulerAt
    >>> spec = ClusterSpec("scheduler", scheduler=SchedulerAt("tls://10.0.0.5:8786"))
    >>> spec.scheduler.address
    'tls://10.0.0.5:8786'
    """

    address: str | None = None
    scheduler_file: str | None = _checked(_path, None)

    def __post_init__(self) -> None:
        super().__post_init__()
        # With both, the file could name another scheduler.
        if (self.address is None) == (self.scheduler_file is None):
            got = "none" if self.address is None else "both of them"
            msg = f"a scheduler is found by its address or its scheduler_file, got {got}: give one"
            raise InvalidArgumentError(msg)


@dataclass(frozen=True)
class JobQueue(_Section):
    """Options of a job queue, SLURM, PBS, LSF or SGE, which runs one job for each worker.

    Parameters
    ----------
    queue : str, optional
        Queue, or partition of SLURM. The default is that of the site.
    account : str, optional
        Account to charge; the project of LSF and SGE.
    name : str, optional
        Name of the jobs of workers. The default is ``dhsic-worker``, or the name of the run of
        `dhsic submit`.
    walltime : str, optional
        Longest time of a job, as ``HH:MM:SS`` or ``D-HH:MM:SS``. A worker leaves before its job
        ends, and a new job replaces it.
    interface : str, optional
        Network interface of scheduler and workers, such as ``ib0``.
    host : str, optional
        Host name or address at which workers find the scheduler, if the interface does not
        determine it.
    log_directory : str, optional
        Folder for the output of jobs, shared by all nodes.
    local_directory : str, optional
        Folder of a node for scratch files; variables such as ``$TMPDIR`` are those of the node.
    shared_directory : str, optional
        Folder shared by all nodes, for the temporary certificates of a cluster without `TLS`. The
        default is the home folder.
    prologue : tuple of str, optional
        Lines of shell before the worker starts, such as ``module load python``.
    directives : tuple of str, optional
        More options of the queue, such as ``--constraint=avx2``.
    python : str, optional
        Python of the nodes; environment variables are those of the node. The default is the Python
        of this process.
    leave_out : tuple of str, optional
        Options to leave out of the head of a script, such as ``--mem`` or ``--cpus-per-task``, if a
        site forbids them: lines with such an option are dropped.
    options : mapping, optional
        More arguments of the class of dask-jobqueue, such as ``resource_spec``.

    Examples
    --------
    >>> from dhsic.cluster import ClusterSpec, JobQueue
    >>> jobs = JobQueue(queue="long", walltime="1-02:00:00")
    >>> jobs.seconds
    93600
    >>> ClusterSpec("slurm", workers=8, jobs=jobs).most_workers
    8
    """

    queue: str | None = None
    account: str | None = None
    name: str | None = None
    walltime: str = _checked(_walltime, "01:00:00")
    interface: str | None = None
    host: str | None = None
    log_directory: str | None = _checked(plain_path, None)
    local_directory: str | None = _checked(_node_path, None)
    shared_directory: str | None = _checked(plain_path, None)
    prologue: tuple[str, ...] = ()
    directives: tuple[str, ...] = ()
    python: str | None = _checked(_node_path, None)
    leave_out: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> int:
        """Longest time of a job in seconds."""
        return _seconds(self.walltime)


@dataclass(frozen=True)
class Kubernetes(_Section):
    """Options of a cluster on Kubernetes, by the Dask operator.

    Parameters
    ----------
    image : str
        Image with this package, for scheduler and workers.
    namespace : str, optional
        Namespace of the cluster. The default is that of the context.
    service_account : str, optional
        Service account of the pods, for access to object storage.
    secrets : tuple of str, optional
        Names of secrets whose keys become environment variables of the pods. Credentials are
        written nowhere else.
    tls_secret : str, optional
        Name of the secret with ``ca.crt``, ``tls.crt`` and ``tls.key`` for scheduler and workers.
    resources : mapping, optional
        ``requests`` and ``limits`` of a worker, which override those that follow from threads and
        memory; limits of memory must not be below the memory of the worker.
    context : str, optional
        Context of the kubeconfig file. The default is the current one.
    operator_namespace : str, optional
        Namespace of the operator: its pods may ask the scheduler of an adaptive cluster how many
        workers it needs; no other pods of other namespaces can connect to the cluster.
    storage_ports : tuple of int, optional
        Ports at which pods may connect to object storage at any address. Pods can otherwise connect
        only to each other and to the DNS.

    Examples
    --------
    >>> from dhsic.cluster import Kubernetes
    >>> pods = Kubernetes("registry.example.org/dhsic:1.0", resources={"limits": {"cpu": 2}})
    >>> pods.resources
    {'limits': {'cpu': '2'}}
    """

    image: str
    namespace: str | None = None
    service_account: str | None = None
    secrets: tuple[str, ...] = ()
    tls_secret: str | None = None
    resources: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict, metadata={"check": _resources}
    )
    context: str | None = None
    operator_namespace: str = "dask-operator"
    storage_ports: tuple[int, ...] = (443,)


@dataclass(frozen=True)
class Gateway(_Section):
    """Options of a cluster from a Dask Gateway.

    Parameters
    ----------
    address : str
        Such as ``https://gateway.example.org``.
    auth : str, optional
        ``basic``, ``kerberos`` or ``jupyterhub``. The default is that of Dask's configuration,
        which also has the passwords; no file of this package contains them.
    image : str, optional
        Image, if the gateway offers an option of this name.
    options : mapping, optional
        More options that the gateway offers, by name.

    Examples
    --------
    >>> from dhsic.cluster import Adaptive, ClusterSpec, Gateway
    >>> gateway = Gateway("https://gateway.example.org", options={"worker_cores": 4})
    >>> spec = ClusterSpec("gateway", workers=Adaptive(maximum=20), gateway=gateway)
    >>> spec.most_workers
    20
    """

    prefix = "gateway: "
    address: str = _checked(_url)
    auth: str | None = None
    image: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        # The description is written to the folder of a run, which must hold no password.
        if ":" in str(self.auth) or redacted(text := str(self.options)) != text:
            msg = (
                "a gateway must be described without passwords, in auth or in URLs of its options: "
                "write auth: basic, kerberos or jupyterhub, and passwords in Dask's configuration"
            )
            raise InvalidArgumentError(msg)
        if self.auth is not None:
            check_choice(f"{self.prefix}auth", self.auth, _LOGINS)


_SECTIONS: dict[str, type[Any]] = {
    "scheduler": SchedulerAt,
    "jobs": JobQueue,
    "kubernetes": Kubernetes,
    "gateway": Gateway,
}
_PATHS = ("ca", "cert", "key", "scheduler_file", "log_directory", "shared_directory")


def _section_of(kind: str) -> str:
    """The field that holds the section of a kind; empty where it has none."""
    # Kinds of job queues share one section, which bears the name of the kind in the file.
    return "jobs" if kind in JOB_QUEUES else kind if kind in _SECTIONS else ""


# --- the whole


@dataclass(frozen=True)
class ClusterSpec(_Section):
    """The description of a cluster: its kind, its workers and its options.

    The file is YAML: ``kind``, ``workers`` (a number, or ``minimum`` and ``maximum``), ``threads``,
    ``memory`` with its unit, ``timeout``, ``tls``, ``insecure`` and one section named after the
    kind. Paths in it are relative to its folder.

    Parameters
    ----------
    kind : str
        ``local``, ``scheduler``, ``slurm``, ``pbs``, ``lsf``, ``sge``, ``kubernetes`` or
        ``gateway``.
    workers : int or Adaptive, optional
        Worker processes. The default for ``local`` is one for each processor; a ``scheduler`` has
        its own workers; all other kinds need a number.
    threads : int, optional
        Threads of a worker process.
    memory : int or str, optional
        Bytes that the plan may use in one worker process, such as ``"4GiB"``.
    timeout : float, optional
        Seconds to wait for a scheduler to answer, for a first worker, and during a run without
        workers. The default for a running scheduler is 10 for the answer and 60 for workers; for
        workers in a queue it is 600.
    tls : TLS, optional
        Certificates. By default a job queue gets temporary ones.
    insecure : bool, optional
        Allow traffic without TLS off this machine: everyone on the network can then read the
        data and run code on the workers.
    scheduler : SchedulerAt, optional
        Section of the kind ``scheduler``.
    jobs : JobQueue, optional
        Section of the kinds ``slurm``, ``pbs``, ``lsf`` and ``sge``, under these names in a file.
    kubernetes : Kubernetes, optional
        Section of this kind.
    gateway : Gateway, optional
        Section of this kind.

    Raises
    ------
    InvalidArgumentError
        A kind, a number, a size or a section is not valid, or a section is of another kind.

    Examples
    --------
    >>> from dhsic.cluster import ClusterSpec
    >>> spec = ClusterSpec("local", 4, memory="2GiB")
    >>> spec.workers, spec.memory
    (4, 2147483648)
    """

    kind: ClusterKind
    workers: int | Adaptive | None = None
    threads: int = 1
    memory: int = _checked(lambda _, value: parse_bytes(value), 2**31)
    timeout: float | None = _checked(_timeout, None)
    tls: TLS | None = None
    insecure: bool = False
    scheduler: SchedulerAt | None = None
    jobs: JobQueue | None = None
    kubernetes: Kubernetes | None = None
    gateway: Gateway | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, _KINDS)
        super().__post_init__()
        needed = _section_of(self.kind)
        if needed == "jobs" and self.jobs is None:
            object.__setattr__(self, "jobs", JobQueue())
        unused = (*_UNUSED.get(self.kind, ()), *(name for name in _SECTIONS if name != needed))
        for one in dataclasses.fields(self):
            if one.name in unused and (value := getattr(self, one.name)) != one.default:
                requirement = f"left out for the kind {self.kind}"
                refuse(one.name, requirement, value, "drop it, or change the kind")
        for name, kind in {**_SECTIONS, "tls": TLS}.items():
            value = getattr(self, name)
            if not isinstance(value, kind) and (value is not None or name == needed):
                section = self.kind if name == needed else name
                remedy = f"give the section {section}, in Python {kind.__name__}(...)"
                refuse(name, f"given for the kind {self.kind}", value, remedy)
        if self.workers is None and self.kind not in ("local", "scheduler"):
            remedy = "give a number, or minimum and maximum"
            refuse("workers", f"given for the kind {self.kind}", None, remedy)
        if self.kubernetes is not None:
            requests, limits = self.pod_resources.values()
            own = pod_amounts(self.threads, job_limit(self.memory))["requests"]["memory"]
            for name, limit in limits.items():
                # The API refuses limits below requests; and a worker is told to use its memory.
                asked = [requests.get(name, "0"), own if name == "memory" else "0"]
                if _quantity(limit) < _quantity(least := max(asked, key=_quantity)):
                    requirement = f"at least the {least} that a worker asks for"
                    refuse(f"resources: limits: {name}", requirement, limit, "raise it")

    @property
    def pod_resources(self) -> dict[str, dict[str, str]]:
        """Requests and limits of a worker's pod."""
        assert self.kubernetes is not None
        own = pod_amounts(self.threads, job_limit(self.memory))
        return {kind: {**own[kind], **self.kubernetes.resources.get(kind, {})} for kind in own}

    @classmethod
    def from_dict(cls, description: Any, folder: str = ".") -> ClusterSpec:
        """Build a cluster's description from plain values.

        Parameters
        ----------
        description : mapping
            The content of a file.
        folder : str, optional
            Folder of relative paths.

        Returns
        -------
        ClusterSpec
            With every value checked.

        Raises
        ------
        InvalidArgumentError
            An unknown key or a value that cannot be used.
        """
        if not isinstance(description, Mapping):
            refuse(
                "a cluster", "a mapping", description, "begin with 'kind: local' or another kind"
            )
        kind = check_choice("kind", description.get("kind"), _KINDS)
        name = _section_of(kind)
        _check_keys(f"a cluster of the kind {kind}", description, (*_COMMON, *[kind] * bool(name)))
        # A number alone would be bytes, and is meant as GiB.
        if re.fullmatch(r"[\d.eE+ ]+", str(memory := description.get("memory"))):
            refuse("memory", "an amount with its unit", memory, "write as 4GiB")
        values = {name if key == kind else key: value for key, value in description.items()}
        # Workers may also be a number.
        workers = Adaptive if isinstance(values.get("workers"), Mapping) else None
        for key, section in (("workers", workers), ("tls", TLS), (name, _SECTIONS.get(name))):
            if section is not None and values.get(key) is not None:
                values[key] = _section(section, kind if key == name else key, values[key], folder)
        return cls(**values)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> ClusterSpec:
        """Read a cluster's description from a YAML file.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        ClusterSpec
            With every value checked.

        Raises
        ------
        InvalidArgumentError
            A file that cannot be read, or a description that cannot be used.
        """
        # Whole, so that the message names the file whichever folder is the current one.
        file = os.path.abspath(os.path.expanduser(os.fspath(path)))
        try:
            return cls.from_dict(_load_yaml(file), os.path.dirname(file))
        except InvalidArgumentError as error:
            msg = f"{file}: {error}"
            raise InvalidArgumentError(msg) from error

    @property
    def patience(self) -> float:
        """Seconds to wait: `timeout`, or what is usual for the kind."""
        usual = _SCHEDULER_TIMEOUT if self.kind in ("local", "scheduler") else _QUEUE_TIMEOUT
        return usual if self.timeout is None else self.timeout

    @property
    def answer_seconds(self) -> float:
        """Seconds in which a scheduler that runs already must answer: `timeout`, or 10."""
        return _ANSWER_TIMEOUT if self.timeout is None else self.timeout

    @property
    def bounds(self) -> Adaptive:
        """The fewest and the most workers."""
        if isinstance(self.workers, Adaptive):
            return self.workers
        # Rounded down: threads of two workers on one processor would slow each other.
        count = self.workers or max(1, processors() // self.threads)
        return Adaptive(count, count)

    @property
    def most_workers(self) -> int | None:
        """The most workers that it will have; None where a scheduler that runs already knows."""
        return None if self.kind == "scheduler" else self.bounds.maximum

    def to_dict(self) -> dict[str, Any]:
        """Plain values, of which `from_dict` makes the same description; paths are whole."""
        values = dataclasses.asdict(self, dict_factory=_plain)
        values["memory"] = f"{self.memory}B"
        if (name := _section_of(self.kind)) == "jobs":
            values[self.kind] = values.pop(name)
        return values


def _plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Values of YAML, which knows no tuples, without those that are not given."""
    given = ((name, value) for name, value in pairs if value not in (None, (), {}))
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given}


def pod_amounts(processors: int, memory: int) -> dict[str, dict[str, str]]:
    """Requests and limits of a pod, equal: pods of that class are evicted last."""
    amounts = {"cpu": str(processors), "memory": f"{math.ceil(memory / 2**20)}Mi"}
    return {"requests": dict(amounts), "limits": dict(amounts)}


def on_node(path: str) -> str:
    """A word of a shell script that is a path in which the node puts its variables."""
    special = re.compile(r'\$(?:\w+|\{\w+\})|[$`"\\]')
    escaped = special.sub(lambda found: found[0] if found[0][1:] else f"\\{found[0]}", path)
    return f'"{escaped}"' if "$" in path else shlex.quote(path)


def _check_keys(what: str, given: Mapping[Any, Any], known: Sequence[str]) -> None:
    """Refuse a key that would be ignored in silence; a misspelt one is the usual reason."""
    for key in given:
        if key not in known:
            near = nearest(str(key), known)
            msg = f"{what} has no key {key!r}{near}; there are: {', '.join(known)}"
            raise InvalidArgumentError(msg)


def _section(kind: type[SectionType], name: str, value: Any, folder: str) -> SectionType:
    """Build a section from a mapping, of which every key must be known."""
    if isinstance(value, kind):
        return value
    needed = {one.name: one for one in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if not isinstance(value, Mapping):
        refuse(name, "a mapping", value, f"give some of {', '.join(sorted(needed))}")
    _check_keys(name, value, sorted(needed))
    for key, one in needed.items():
        if one.default is one.default_factory is MISSING and key not in value:
            msg = f"{name} must have the key {key!r}, got {sorted(value)}: add it"
            raise InvalidArgumentError(msg)
    placed = dict(value)
    # Paths in a file are those beside it, wherever the command runs.
    for key in placed.keys() & {*_PATHS}:
        if isinstance(part := placed[key], str) and part:
            placed[key] = os.path.join(folder, _expanded(part))
    return kind(**placed)


class _Loader(yaml.SafeLoader):
    """YAML whose scalars are what they look like: 1:30:00 is a time and `no` is a word."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        # YAML allows a key twice, of which the last would win.
        keys = [key.value for key, _ in node.value]
        for number, key in enumerate(keys):
            if key in keys[:number]:
                mark, msg = node.value[number][0].start_mark, f"the key {key!r} is there twice"
                raise yaml.constructor.ConstructorError(None, None, msg, mark)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|", ["~", "n", ""]),
    ("bool", r"true|false", list("tf")),
    ("int", r"0|-?[1-9][0-9]*", list("-0123456789")),
    ("float", r"-?[0-9]+\.[0-9]+", list("-0123456789")),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first
    )


def _load_yaml(file: str) -> Any:
    try:
        check_regular(file)
        if os.path.getsize(file) > _LARGEST_FILE:
            msg = "it is larger than 1 MiB"
            raise ValueError(msg)
        with open(file, encoding="utf-8") as stream:
            return yaml.load(stream, Loader=_Loader)
    except (OSError, yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f" in line {mark.line + 1}"
        said = (getattr(error, name, None) for name in ("strerror", "problem", "reason"))
        reason = next(filter(None, said), error)
        msg = f"the file of a cluster must be YAML, and cannot be read{place}: {reason}"
        raise InvalidArgumentError(msg) from error


# --- how Dask is set up in worker processes that are started here


# The plan may use 0.95 / 1.25 of the limit, which are 76 %.
_HEADROOM = 1.25
_SPILL = 0.85
_TERMINATE = 0.95
_NANNY = 256 * 2**20

HERE = "127.0.0.1:0"
"""Where dashboards listen: they are plain http, also beside TLS."""

# A plan counts all that a worker holds, arrays that are sent to it too, and may use 76 % of the
# limit of a process. Above that, where a plan was too low or others keep data on the cluster too,
# results spill to disk, by the memory of the process alone: Dask's own 70 % would spill what every
# task needs next. A paused worker never goes on by itself, which would be a hang. Dask's default
# MALLOC_TRIM_THRESHOLD_ is left out: it makes every large array fresh pages, with which tiles take
# up to 1.8 times as long. Dask's profiler looks every 10 ms, which costs 7 %; its clocks, which
# tick every 20 ms and look at the machine every 500 ms, are half of what an idle cluster costs.
WORKER_SETTINGS: dict[str, Any] = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": _SPILL,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": _TERMINATE,
    "distributed.worker.profile.interval": "100ms",
    "distributed.admin.tick.interval": "200ms",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.nanny.pre-spawn-environ": {
        "OMP_NUM_THREADS": 1,
        "MKL_NUM_THREADS": 1,
        "OPENBLAS_NUM_THREADS": 1,
        "MALLOC_TRIM_THRESHOLD_": None,
    },
}

# Any user of this machine may read what is plain http on loopback: numbers, and no pages on
# workers, tasks and logs.
LOCAL_SETTINGS: dict[str, Any] = {
    **WORKER_SETTINGS,
    "distributed.scheduler.http.routes": [
        "distributed.http.scheduler.prometheus",
        "distributed.http.health",
    ],
}


def worker_environment() -> dict[str, str]:
    """The settings of workers as variables that Dask reads where it starts."""
    return {
        f"DASK_{name.replace('.', '__').replace('-', '_').upper()}": str(value).replace("'", '"')
        for name, value in WORKER_SETTINGS.items()
    }


def job_limit(memory: int) -> int:
    """Bytes of a job or a pod around such a process, with the one that watches over it."""
    return process_limit(memory) + _NANNY


def process_limit(memory: int) -> int:
    """Bytes at which Dask counts the memory of a process, of which the plan may use some."""
    return int(memory * _HEADROOM / _TERMINATE)


def memory_share(workers: int) -> int:
    """Bytes that the plan may use in one process where so many share this machine."""
    from distributed.system import MEMORY_LIMIT  # slow to import

    return int(MEMORY_LIMIT // workers * _TERMINATE / _HEADROOM)


def processors() -> int:
    """Count the processors that this process may use, by affinity and control group.

    Returns
    -------
    int

    Examples
    --------
    >>> from dhsic.cluster import processors
    >>> processors() >= 1
    True
    """
    from dask.system import CPU_COUNT  # slow to import

    return int(CPU_COUNT)


# --- arguments of dask-jobqueue


_LONGEST_NOTICE = 600


def queue_class(kind: str) -> Any:
    """The class of dask-jobqueue for a kind of queue."""
    with needing("dask-jobqueue", "cluster", f"a cluster of {kind}"):
        import dask_jobqueue
    return getattr(dask_jobqueue, f"{kind.upper()}Cluster")


def job_arguments(spec: ClusterSpec, security: Any) -> dict[str, Any]:
    """Arguments of the cluster of dask-jobqueue.

    Paths that enter a job script are quoted or plain; every other text has one line.
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


# --- manifests for the Dask operator of Kubernetes, of the text in manifests.yaml


_TLS_FOLDER = "/etc/dhsic/tls"


def manifests(
    name: str,
    spec: ClusterSpec,
    role: Literal["stays", "leads", "alone"] = "stays",
    script: str = "",
    tasks: int | None = None,
) -> list[dict[str, Any]]:
    """Make a cluster that stays, or a pod that runs a script.

    Parameters
    ----------
    name : str
        Name of all objects.
    spec : ClusterSpec
        Specification of the kind ``kubernetes``.
    role : str
        A cluster "stays", with what guards and scales it; a pod "leads" workers beside it, or runs
        "alone", one for every task of a sweep.
    script : str
        Shell of the pod, whose first argument is the file of the cluster that it leads.
    tasks : int, optional
        Tasks of a sweep.

    Returns
    -------
    list of dict
        One document an object.

    Raises
    ------
    InvalidArgumentError
        Traffic would be unencrypted, and that is not allowed.
    """
    section = spec.kubernetes
    assert section is not None
    tls, workers = section.tls_secret is not None, role != "alone"
    if not tls and not spec.insecure:
        remedy = "make a secret of ca.crt, tls.crt and tls.key, or write 'insecure: true'"
        refuse("tls_secret", "given, since traffic must be encrypted", None, remedy)
    protocol = "tls" if tls else "tcp"
    address = f"{protocol}://{name}-scheduler:8786"
    files = {
        word: f"{_TLS_FOLDER}/{file}"
        for word, file in (("ca-file", "ca.crt"), ("cert", "tls.crt"), ("key", "tls.key"))
        if tls
    }
    words = ["sh", "-c", script, "sh"]
    if role == "leads":
        # The cluster as a pod of it sees it: a scheduler that is there soon.
        seen = ClusterSpec(
            "scheduler",
            memory=spec.memory,
            tls=TLS(*files.values()) if tls else None,
            insecure=spec.insecure,
            timeout=spec.patience,
            scheduler=SchedulerAt(address),
        )
        words.append(yaml_text([seen.to_dict()]))
    adaptive = workers and isinstance(spec.workers, Adaptive)
    pods = {
        "scheduler": pod_amounts(1, 2**30),
        "worker": spec.pod_resources,
        # Without workers the threads are those of the pod itself.
        "runner": pod_amounts(1, job_limit(spec.memory)) if workers else spec.pod_resources,
    }
    values = {
        **{one: one == role or None for one in ("stays", "leads", "alone")},
        "tasks": tasks,
        # `$$` is how Kubernetes writes a dollar sign, in whose place it puts $(NAME) otherwise.
        "command": [word.replace("$", "$$") for word in words],
        "clustered": workers,
        "name": name,
        "image": section.image,
        "namespace": section.namespace,
        "service_account": section.service_account,
        "operator_namespace": section.operator_namespace,
        "storage_ports": [{"protocol": "TCP", "port": port} for port in section.storage_ports],
        "secrets": [{"secretRef": {"name": secret}} for secret in section.secrets] or None,
        "tls": tls,
        "tls_secret": section.tls_secret,
        "tls_words": [f"--tls-{word}={file}" for word, file in files.items()],
        "protocol": protocol,
        "address": address,
        "adaptive": adaptive,
        # The operator asks the scheduler for the number of workers where it adapts, from its pod.
        "host": "0.0.0.0" if adaptive else "127.0.0.1",
        "replicas": spec.bounds.minimum,
        "most": spec.bounds.maximum,
        "threads": spec.threads,
        "memory_limit": process_limit(spec.memory),
        "settings": [{"name": key, "value": text} for key, text in worker_environment().items()],
        **{f"{pod}_resources": amounts for pod, amounts in pods.items()},
        **{f"{pod}_memory": amounts["limits"]["memory"] for pod, amounts in pods.items()},
    }
    text = Path(__file__).with_name("manifests.yaml").read_text("utf-8")
    filled: list[dict[str, Any]] = _filled(yaml.safe_load(text)["objects"], values)
    return filled


def _filled(part: Any, values: dict[str, Any]) -> Any:
    """A part of the text with values in the place of names; None where there is none."""
    if isinstance(part, str):
        name = part.removeprefix("$")
        return (
            values[name]
            if name != part and name in values
            else Template(part).safe_substitute(values)
        )
    if isinstance(part, list):
        items = [_filled(item, values) for item in part]
        # A list within a list stands for its items.
        lists = [item if isinstance(item, list) else [item] for item in items if item is not None]
        return [item for items in lists for item in items]
    if isinstance(part, dict):
        if not _filled(part.get("when", True), values):
            return None
        filled = {key: _filled(value, values) for key, value in part.items() if key != "when"}
        return {key: value for key, value in filled.items() if value is not None}
    return part


def yaml_text(documents: list[Any]) -> str:
    """Write documents as YAML that every reader takes for the same values."""
    return yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=10**6
    )


class _Dumper(yaml.SafeDumper):
    """Without anchors, and with text of several lines as a block, for those who read it."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)
