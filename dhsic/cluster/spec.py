"""Description of a cluster: a value, read from a YAML file.

Types are the least of what is checked here, so that no schema of pydantic or msgspec would be
shorter: words that enter job scripts, sections that belong to a kind, texts that name the remedy.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NoReturn, TypeVar, get_args

import yaml

from dhsic._files import check_regular
from dhsic._validation import check_choice, check_integer, check_number, nearest
from dhsic.cluster.settings import default_workers, job_limit
from dhsic.engine.units import parse_bytes
from dhsic.errors import InvalidArgumentError

ClusterKind = Literal["local", "scheduler", "slurm", "pbs", "lsf", "sge", "kubernetes", "gateway"]

JOB_QUEUES = ("slurm", "pbs", "lsf", "sge")
_KINDS: tuple[ClusterKind, ...] = get_args(ClusterKind)
_COMMON = ("kind", "workers", "threads", "memory", "timeout", "tls", "insecure")
_ANSWER_TIMEOUT, _SCHEDULER_TIMEOUT, _QUEUE_TIMEOUT = 10.0, 60.0, 600.0
# A key without an effect would seem to have one, and is refused.
_UNUSED: dict[str, tuple[str, ...]] = {
    "local": ("timeout", "tls", "insecure"),  # nobody is waited for, and nothing leaves
    "scheduler": ("workers", "threads"),  # it has workers of its own
    "kubernetes": ("tls",),  # pods have theirs from a secret
    "gateway": ("tls", "threads"),  # it hands out certificates; threads are among its options
}
_LARGEST_FILE, _SHOWN, _SHORTEST = 2**20, 300, 60
_WALLTIME = r"(\d{1,3}-)?\d{1,4}:[0-5]\d:[0-5]\d"
_UNITS = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNITS |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_QUANTITY = re.compile(rf"\d+(\.\d+)?({'|'.join(_UNITS)})")
_Check = Callable[[str, Any], Any]
SectionType = TypeVar("SectionType")


def refuse(name: str, requirement: str, value: Any, remedy: str) -> NoReturn:
    """Raise the error of a value that cannot be used."""
    shown = repr(value)
    # A file of the wrong kind may stand in the place of a value.
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}..."
    msg = f"{name} must be {requirement}, got {shown}: {remedy}"
    raise InvalidArgumentError(msg)


# --- checks of single values: each returns the clean one


def _text(name: str, value: Any) -> str | None:
    """Text in one printable line, or None."""
    if value is None:
        return None
    # YAML reads the name of a queue such as 2024 as a number.
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        refuse(name, "text in one line", value, "leave control characters out")
    return str(value).strip()


def _matching(pattern: str, requirement: str, remedy: str) -> Callable[[str, Any], str | None]:
    """A check of text by a pattern."""

    def check(name: str, value: Any) -> str | None:
        given = _text(name, value)
        if given is not None and not re.fullmatch(pattern, given):
            refuse(name, requirement, value, remedy)
        return given

    return check


# A word that enters the head of a job script: neither a space nor a quote, which would end it.
_word = _matching(
    r"[A-Za-z0-9_][A-Za-z0-9_.,:@/+=%\[\]-]*",
    "one plain word",
    "use letters, digits and _.,:@/+=%[]-, and begin with a letter or digit",
)
_resource_name = _matching(
    r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?",
    "a Kubernetes name",
    "use lower case letters, digits, - and .",
)
_login = _matching(
    "basic|kerberos|jupyterhub", "a kind of login", "use basic, kerberos or jupyterhub"
)
_plain = _matching(
    r"[A-Za-z0-9_.,:@/+=%-]+", "a path of plain characters", "use letters, digits and _.,:@/+=%-"
)


def _path(name: str, value: Any) -> str | None:
    """The whole path of a file or folder of this machine, whose variables are set here."""
    given = _text(name, os.fspath(value) if isinstance(value, os.PathLike) else value)
    return None if given is None else os.path.abspath(_expanded(given))


def _expanded(path: str) -> str:
    return os.path.expanduser(os.path.expandvars(path))


def plain_path(name: str, value: Any) -> str | None:
    """A whole path that enters the head of a job script, or None."""
    return _plain(name, _path(name, value))


def _node_path(name: str, value: Any) -> str | None:
    """A path on nodes, whose variables are those of the node."""
    given = _text(name, value)
    # Not made absolute: a relative path on a node is not one of this machine's.
    return None if given is None else os.path.expanduser(given)


def _required(check: _Check) -> _Check:
    def checked(name: str, value: Any) -> Any:
        if (given := check(name, value)) is None:
            refuse(name, "given", value, "write it, or remove what is empty")
        return given

    return checked


def _several(check: _Check) -> _Check:
    """A check of all items of a list."""

    def checked(name: str, value: Any) -> tuple[Any, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            refuse(name, "a list", value, "write one item after a dash in each line")
        return tuple(_required(check)(name, item) for item in value)

    return checked


def _directive(name: str, value: Any) -> str | None:
    given = _text(name, value)
    # Anything else would be a command of the script, and belongs to the prologue.
    if given is not None and not given.startswith("-"):
        remedy = "write what follows #SBATCH, #PBS, #BSUB or #$, as --constraint=avx2"
        refuse(name, "options of the queue", given, remedy)
    return given


def _walltime(name: str, value: Any) -> str:
    remedy = "write HH:MM:SS or D-HH:MM:SS"
    given: str = _required(_matching(_WALLTIME, "a time", remedy))(name, value)
    if _seconds(given) < _SHORTEST:
        refuse(name, f"at least {_SHORTEST} seconds", value, remedy)
    return given


def _seconds(walltime: str) -> int:
    days, _, clock = walltime.rpartition("-")
    hours, minutes, seconds = map(int, clock.split(":"))
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        refuse(name, "a mapping", value, "write NAME: VALUE")
    return {str(_required(_word)(name, key)): part for key, part in value.items()}


def _resources(name: str, value: Any) -> dict[str, dict[str, str]]:
    given = _mapping(name, value)
    _check_keys(name, given, ("requests", "limits"))
    amounts = {kind: _mapping(f"{name}: {kind}", part) for kind, part in given.items()}
    for kind, part in amounts.items():
        for amount in part.values():
            if isinstance(amount, bool) or not _QUANTITY.fullmatch(str(amount)):
                refuse(f"{name}: {kind}", "amounts", amount, "write as 2, 500m or 4Gi")
    return {kind: {key: str(one) for key, one in part.items()} for kind, part in amounts.items()}


def _quantity(amount: str) -> float:
    """A number of Kubernetes, as 500m or 4Gi."""
    unit = amount.lstrip("0123456789.")
    return float(amount.removesuffix(unit)) * _UNITS[unit]


def _port(name: str, value: Any) -> int:
    return check_integer(name, value, minimum=1, maximum=65535)


def _gateway_address(name: str, value: Any) -> str:
    given = _text(name, value)
    # The description is written to the folder of a run, which must hold no password.
    if given is None or not re.match(r"https?://[^/@]+(/|$)", given):
        shown = str(value).rpartition("@")[2]  # never a password
        refuse(name, "a URL", shown, "write https://HOST, and no name or password")
    return given


def _count(name: str, value: Any) -> int:
    return check_integer(name, value, minimum=1)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        refuse(name, "true or false", value, "write one of them, without quotes")
    return value


# --- sections


def _checked(check: _Check, default: Any = None) -> Any:
    if default == {}:
        return field(default_factory=dict, metadata={"check": check})
    return field(default=default, metadata={"check": check})


class _Section:
    """Part of a description, whose fields bear their checks."""

    prefix: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):  # type: ignore[arg-type]
            value = one.metadata["check"](f"{self.prefix}{one.name}", getattr(self, one.name))
            object.__setattr__(self, one.name, value)


@dataclass(frozen=True)
class Adaptive(_Section):
    """Workers come and go with the work.

    Parameters
    ----------
    maximum : int
        The most workers.
    minimum : int, optional
        The fewest workers, of which there must be one for a run to begin.

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
    maximum: int = field(metadata={"check": _count})
    minimum: int = _checked(_count, 1)

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
    ca: str = field(metadata={"check": _required(_path)})
    cert: str = field(metadata={"check": _required(_path)})
    key: str = field(metadata={"check": _required(_path)})


@dataclass(frozen=True)
class SchedulerAt(_Section):
    """Where a scheduler runs already.

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

    address: str | None = _checked(_text)
    scheduler_file: str | None = _checked(_path)

    def __post_init__(self) -> None:
        super().__post_init__()
        # Exactly one: with both, the file could name another scheduler.
        if (self.address is None) == (self.scheduler_file is None):
            msg = (
                "a scheduler is found by its address or by its scheduler_file, got "
                f"{'none' if self.address is None else 'both'} of them: give one"
            )
            raise InvalidArgumentError(msg)


@dataclass(frozen=True)
class JobQueue(_Section):
    """How SLURM, PBS, LSF or SGE is asked for one job a worker, by dask-jobqueue.

    Parameters
    ----------
    queue : str, optional
        Queue, or partition in the words of SLURM; that of the site where not given.
    account : str, optional
        Account to be charged; the project of LSF and SGE.
    name : str, optional
        Name of the jobs of workers; ``dhsic-worker``, or after the run that `dhsic submit`
        makes, where not given.
    walltime : str, optional
        Longest time of a job, as ``HH:MM:SS`` or ``D-HH:MM:SS``. A worker leaves before its job
        ends, and its place is taken by a new one.
    interface : str, optional
        Network interface of scheduler and workers, such as ``ib0``.
    host : str, optional
        Host name or address at which workers find the scheduler, where the interface does not
        say it.
    log_directory : str, optional
        Folder for what jobs write, seen by all nodes.
    local_directory : str, optional
        Folder of a node for scratch files; variables such as ``$TMPDIR`` are those of the node.
    shared_directory : str, optional
        Folder seen by all nodes, for the temporary certificates of a cluster without `TLS`; the
        home folder where not given.
    prologue : tuple of str, optional
        Lines of shell before the worker starts, such as ``module load python``.
    directives : tuple of str, optional
        More options of the queue, such as ``--constraint=avx2``.
    python : str, optional
        Python of the nodes, whose variables are those of the node; that of this process where
        not given.
    leave_out : tuple of str, optional
        Options that the head of a script must not have, such as ``--mem`` or
        ``--cpus-per-task``, where a site forbids them: lines that hold one are left out.
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

    queue: str | None = _checked(_word)
    account: str | None = _checked(_word)
    name: str | None = _checked(_word)
    walltime: str = _checked(_walltime, "01:00:00")
    interface: str | None = _checked(_word)
    host: str | None = _checked(_word)
    log_directory: str | None = _checked(plain_path)
    local_directory: str | None = _checked(_node_path)
    shared_directory: str | None = _checked(plain_path)
    prologue: tuple[str, ...] = _checked(_several(_text), ())
    directives: tuple[str, ...] = _checked(_several(_directive), ())
    python: str | None = _checked(_node_path)
    leave_out: tuple[str, ...] = _checked(_several(_directive), ())
    options: Mapping[str, Any] = _checked(_mapping, {})

    @property
    def seconds(self) -> int:
        """Longest time of a job in seconds."""
        return _seconds(self.walltime)


@dataclass(frozen=True)
class Kubernetes(_Section):
    """How the Dask operator of Kubernetes is asked for a cluster.

    Parameters
    ----------
    image : str
        Image with this package, for scheduler and workers.
    namespace : str, optional
        Where the cluster lives; that of the context where not given.
    service_account : str, optional
        Service account of the pods, for access to object storage.
    secrets : tuple of str, optional
        Names of secrets whose keys become environment variables of the pods: credentials are
        written nowhere else.
    tls_secret : str, optional
        Name of the secret with ``ca.crt``, ``tls.crt`` and ``tls.key`` for scheduler and workers.
    resources : mapping, optional
        ``requests`` and ``limits`` of a worker over those that follow from threads and memory;
        limits of memory must hold the worker.
    context : str, optional
        Context of the kubeconfig file; the current one where not given.
    operator_namespace : str, optional
        Where the operator lives: its pods there may ask the scheduler of an adaptive cluster how
        many workers it wants, and no other pods of other namespaces reach the cluster.
    storage_ports : tuple of int, optional
        Ports at which pods may reach object storage, anywhere; they reach nothing else but each
        other and the names of hosts.

    Examples
    --------
    >>> from dhsic.cluster import Kubernetes
    >>> pods = Kubernetes("registry.example.org/dhsic:1.0", resources={"limits": {"cpu": 2}})
    >>> pods.resources
    {'limits': {'cpu': '2'}}
    """

    image: str = field(metadata={"check": _required(_word)})
    namespace: str | None = _checked(_resource_name)
    service_account: str | None = _checked(_resource_name)
    secrets: tuple[str, ...] = _checked(_several(_resource_name), ())
    tls_secret: str | None = _checked(_resource_name)
    resources: Mapping[str, Mapping[str, str]] = _checked(_resources, {})
    context: str | None = _checked(_text)
    operator_namespace: str = _checked(_required(_resource_name), "dask-operator")
    storage_ports: tuple[int, ...] = _checked(_several(_port), (443,))


@dataclass(frozen=True)
class Gateway(_Section):
    """How a Dask Gateway is asked for a cluster.

    Parameters
    ----------
    address : str
        Such as ``https://gateway.example.org``.
    auth : str, optional
        ``basic``, ``kerberos`` or ``jupyterhub``; what the configuration of Dask says where not
        given. Passwords are taken from there too and stand in no file of this package.
    image : str, optional
        Where the gateway offers an option of this name.
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
    address: str = field(metadata={"check": _gateway_address})
    auth: str | None = _checked(_login)
    image: str | None = _checked(_word)
    options: Mapping[str, Any] = _checked(_mapping, {})


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
class ClusterSpec:
    """Where tasks run, and on how many workers.

    A file of it is YAML: ``kind``, ``workers`` (a number, or ``minimum`` and ``maximum``),
    ``threads``, ``memory`` with its unit, ``timeout``, ``tls``, ``insecure`` and one section named
    after the kind. Paths in it are relative to its folder.

    Parameters
    ----------
    kind : str
        ``local``, ``scheduler``, ``slurm``, ``pbs``, ``lsf``, ``sge``, ``kubernetes`` or
        ``gateway``.
    workers : int or Adaptive, optional
        Worker processes. For ``local`` one a processor where not given; a ``scheduler`` has its
        own; all others need it.
    threads : int, optional
        Threads of a worker process.
    memory : int or str, optional
        Bytes that the plan may use in one worker process, such as ``"4GiB"``.
    timeout : float, optional
        Seconds to wait for a scheduler to answer, for a first worker, and during a run where all
        workers are gone. Where not given, a scheduler that runs already has 10 to answer and 60 to
        have workers; workers that are waited for in a queue have 600.
    tls : TLS, optional
        Certificates. A job queue makes temporary ones where not given.
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
        A kind, a number, a size or a section cannot be, or a section is of another kind.

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
    memory: int = 2 * 2**30
    timeout: float | None = None
    tls: TLS | None = None
    insecure: bool = False
    scheduler: SchedulerAt | None = None
    jobs: JobQueue | None = None
    kubernetes: Kubernetes | None = None
    gateway: Gateway | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, _KINDS)
        # A frozen value holds bytes, whichever way they were written.
        object.__setattr__(self, "memory", parse_bytes(self.memory))
        _count("threads", self.threads)
        _flag("insecure", self.insecure)
        if self.timeout is not None:
            requirement, remedy = "seconds greater than 0", "write a number such as 60"
            finite = check_number(
                "timeout", self.timeout, requirement, lambda s: 0 < s < math.inf, remedy
            )
            object.__setattr__(self, "timeout", finite)
        if self.tls is not None and not isinstance(self.tls, TLS):
            refuse("tls", "a TLS value", self.tls, "give TLS(ca, cert, key)")
        default = {field.name: field.default for field in dataclasses.fields(self)}
        for name in _UNUSED.get(self.kind, ()):
            if getattr(self, name) != default[name]:
                requirement = f"left out for the kind {self.kind}"
                refuse(name, requirement, getattr(self, name), "drop it")
        if self.workers is None and self.kind not in ("local", "scheduler"):
            remedy = "give a number, or minimum and maximum"
            refuse("workers", f"given for the kind {self.kind}", None, remedy)
        if self.workers is not None and not isinstance(self.workers, Adaptive):
            _count("workers", self.workers)
        self._check_sections()

    def _check_sections(self) -> None:
        if self.kind in JOB_QUEUES and self.jobs is None:
            object.__setattr__(self, "jobs", JobQueue())
        # Of all sections the kind has one, and the others must be absent.
        needed = _section_of(self.kind)
        for name, kind in _SECTIONS.items():
            value = getattr(self, name)
            if name == needed and not isinstance(value, kind):
                shown = self.kind if name == "jobs" else name
                remedy = f"give the section {shown}"
                refuse(shown, f"given for the kind {self.kind}", value, remedy)
            if name != needed and value is not None:
                remedy = "drop it, or change the kind"
                refuse(name, f"left out for the kind {self.kind}", value, remedy)
        if self.kubernetes is not None:
            # The API refuses pods whose limits are below their requests.
            resources = self.pod_resources
            needs = {**resources["requests"], "memory": _mebibytes(job_limit(self.memory))}
            for name, limit in resources["limits"].items():
                least = max(
                    needs.get(name, "0"), resources["requests"].get(name, "0"), key=_quantity
                )
                if _quantity(limit) < _quantity(least):
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
            As a file holds it.
        folder : str, optional
            Folder that relative paths start from.

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
            remedy = "begin with 'kind: local' or another kind"
            refuse("a cluster", "a mapping", description, remedy)
        if "kind" not in description:
            msg = f"a cluster must have a kind: add 'kind: ' and one of {', '.join(_KINDS)}"
            raise InvalidArgumentError(msg)
        kind = check_choice("kind", description["kind"], _KINDS)
        name = _section_of(kind)
        allowed = (*_COMMON, kind) if name else _COMMON
        _check_keys(f"a cluster of the kind {kind}", description, allowed)
        values = {key: value for key, value in description.items() if key != kind}
        memory = values.get("memory")
        # A number alone would be bytes, and is meant as GiB.
        if memory is not None and re.fullmatch(r"[\d.eE+ ]+", str(memory)):
            refuse("memory", "an amount with its unit", memory, "write as 4GiB")
        if isinstance(values.get("workers"), Mapping):
            values["workers"] = _section(Adaptive, "workers", values["workers"])
        if values.get("tls") is not None:
            values["tls"] = _section(TLS, "tls", _placed(values["tls"], folder))
        if kind in description:
            # Paths in a file are those beside it, wherever the command runs.
            values[name] = _section(_SECTIONS[name], kind, _placed(description[kind], folder))
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
        count = self.workers or default_workers(self.threads)
        return Adaptive(count, count)

    @property
    def most_workers(self) -> int | None:
        """The most workers that it will have; None where a scheduler that runs already knows."""
        return None if self.kind == "scheduler" else self.bounds.maximum

    def to_dict(self) -> dict[str, Any]:
        """Plain values, of which `from_dict` makes the same description; paths are whole."""
        plain: dict[str, Any] = _plain_values(self)
        plain["memory"] = f"{self.memory}B"
        if (name := _section_of(self.kind)) == "jobs":
            plain[self.kind] = plain.pop(name)
        return plain


def pod_amounts(processors: int, memory: int) -> dict[str, dict[str, str]]:
    """Requests and limits of a pod, equal: pods of that class are evicted last."""
    amounts = {"cpu": str(processors), "memory": _mebibytes(memory)}
    return {"requests": dict(amounts), "limits": dict(amounts)}


def _mebibytes(amount: int) -> str:
    return f"{math.ceil(amount / 2**20)}Mi"


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


def _section(kind: type[SectionType], name: str, value: Any) -> SectionType:
    """Build a section from a mapping, of which every key must be known."""
    known = {one.name: one for one in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        refuse(name, "a mapping", value, f"give some of {', '.join(sorted(known))}")
    _check_keys(name, value, sorted(known))
    for key, one in known.items():
        needed = one.default is one.default_factory is dataclasses.MISSING
        if needed and key not in value:
            msg = f"{name} must have the key {key!r}, got {sorted(value)}: add it"
            raise InvalidArgumentError(msg)
    return kind(**value)


def _placed(value: Any, folder: str) -> Any:
    """A section whose relative paths are relative to a folder."""
    if not isinstance(value, Mapping):
        return value
    return {
        key: os.path.join(folder, _expanded(part))
        if key in _PATHS and isinstance(part, str) and part
        else part
        for key, part in value.items()
    }


def _plain_values(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        named = ((one.name, getattr(value, one.name)) for one in dataclasses.fields(value))
        return {name: _plain_values(part) for name, part in named if part not in (None, (), {})}
    # Plain values are those of YAML, which knows no tuples.
    return list(value) if isinstance(value, tuple) else value


class _Loader(yaml.SafeLoader):
    """YAML whose scalars are what they look like: 1:30:00 is a time and `no` is a word."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        # YAML allows a key twice, of which the last would win.
        seen: list[Any] = []
        for key, _ in node.value:
            if key.value in seen:
                msg = f"the key {key.value!r} is there twice"
                raise yaml.constructor.ConstructorError(None, None, msg, key.start_mark)
            seen.append(key.value)
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
        with open(file, encoding="utf-8") as stream:
            # One more than is allowed tells whether the file is longer.
            content = stream.read(_LARGEST_FILE + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        msg = f"the file of a cluster cannot be read ({reason}): give a YAML file"
        raise InvalidArgumentError(msg) from error
    if len(content) > _LARGEST_FILE:
        msg = "the file of a cluster is of some lines, this one is larger than 1 MiB: is it YAML?"
        raise InvalidArgumentError(msg)
    try:
        return yaml.load(content, Loader=_Loader)
    except Exception as error:  # a tag, as in '!!int x', raises what its type does
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f" in line {mark.line + 1}"
        reason = getattr(error, "problem", None) or type(error).__name__
        msg = f"the file of a cluster must be YAML, and is not{place}: {reason}"
        raise InvalidArgumentError(msg) from error
