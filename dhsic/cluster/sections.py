"""The parts of a cluster's description."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dhsic._validation import check_integer
from dhsic.cluster import checks
from dhsic.errors import InvalidArgumentError

_WALLTIME = re.compile(r"(?:(\d{1,3})-)?(\d{1,4}):([0-5]\d):([0-5]\d)")
_SHORTEST = 60
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")


@dataclass(frozen=True)
class Adaptive:
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

    maximum: int
    minimum: int = 1

    def __post_init__(self) -> None:
        check_integer("workers: minimum", self.minimum, minimum=1)
        check_integer("workers: maximum", self.maximum, minimum=1)
        if self.minimum > self.maximum:
            requirement = f"at least the minimum of {self.minimum}"
            checks.refuse("workers: maximum", requirement, self.maximum, "raise it")


@dataclass(frozen=True)
class TLS:
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

    ca: str
    cert: str
    key: str

    def __post_init__(self) -> None:
        for name in ("ca", "cert", "key"):
            value = checks.path(f"tls: {name}", getattr(self, name))
            if value is None:
                checks.refuse(f"tls: {name}", "a PEM file", value, "give ca, cert and key")
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class SchedulerAt:
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

    address: str | None = None
    scheduler_file: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", checks.text("address", self.address))
        file = checks.path("scheduler_file", self.scheduler_file)
        object.__setattr__(self, "scheduler_file", file)
        # Exactly one: with both, the file could name another scheduler.
        if (self.address is None) == (self.scheduler_file is None):
            msg = (
                "a scheduler is found by its address or by its scheduler_file, got "
                f"{'none' if self.address is None else 'both'} of them: give one"
            )
            raise InvalidArgumentError(msg)


@dataclass(frozen=True)
class JobQueue:
    """How SLURM, PBS, LSF or SGE is asked for one job a worker.

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
        Folder of a node for scratch files.
    shared_directory : str, optional
        Folder seen by all nodes, for the temporary certificates of a cluster without `TLS`; the
        home folder where not given.
    prologue : tuple of str, optional
        Lines of shell before the worker starts, such as ``module load python``.
    directives : tuple of str, optional
        More options of the queue, such as ``--constraint=avx2``.
    python : str, optional
        Python of the nodes; that of this process where not given.

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
    walltime: str = "01:00:00"
    interface: str | None = None
    host: str | None = None
    log_directory: str | None = None
    local_directory: str | None = None
    shared_directory: str | None = None
    prologue: tuple[str, ...] = ()
    directives: tuple[str, ...] = ()
    python: str | None = None

    def __post_init__(self) -> None:
        # Words that enter the head of a script, where no shell reads quotes.
        clean: dict[str, Any] = {
            name: checks.word(name, getattr(self, name))
            for name in ("queue", "account", "name", "interface", "host")
        }
        clean["walltime"] = _checked_walltime(self.walltime)
        clean["log_directory"] = checks.plain_path("log_directory", self.log_directory)
        clean["shared_directory"] = checks.path("shared_directory", self.shared_directory)
        clean["local_directory"] = checks.node_path("local_directory", self.local_directory)
        clean["python"] = checks.node_path("python", self.python)
        clean["prologue"] = checks.lines("prologue", self.prologue)
        clean["directives"] = checks.lines("directives", self.directives)
        for directive in clean["directives"]:
            # Anything else would be a command of the script, and belongs to the prologue.
            if not directive.startswith("-"):
                remedy = "write what follows #SBATCH, #PBS, #BSUB or #$, as --constraint=avx2"
                checks.refuse("directives", "options of the queue", directive, remedy)
        for name, value in clean.items():
            object.__setattr__(self, name, value)

    @property
    def seconds(self) -> int:
        """Longest time of a job in seconds."""
        return _seconds_of_walltime(self.walltime)


@dataclass(frozen=True)
class Kubernetes:
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
        ``requests`` and ``limits`` of a worker over those that follow from threads and memory.
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

    image: str
    namespace: str | None = None
    service_account: str | None = None
    secrets: tuple[str, ...] = ()
    tls_secret: str | None = None
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    context: str | None = None
    operator_namespace: str = "dask-operator"
    storage_ports: tuple[int, ...] = (443,)

    def __post_init__(self) -> None:
        clean: dict[str, Any] = {"image": checks.word("image", self.image)}
        if clean["image"] is None:
            checks.refuse("image", "the name of a container image", None, "as registry/dhsic:1.0")
        for name in ("namespace", "service_account", "tls_secret"):
            clean[name] = checks.resource_name(name, getattr(self, name))
        clean["secrets"] = checks.words("secrets", self.secrets)
        clean["resources"] = _resources(self.resources)
        clean["context"] = checks.text("context", self.context)
        clean["operator_namespace"] = checks.resource_name(
            "operator_namespace", checks.line("operator_namespace", self.operator_namespace)
        )
        clean["storage_ports"] = _port_numbers(self.storage_ports)
        for name, value in clean.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Gateway:
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

    address: str
    auth: str | None = None
    image: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        address = checks.text("gateway: address", self.address)
        # The description is written to the folder of a run, which must hold no password.
        if address is None or not re.match(r"https?://[^/@]+(/|$)", address):
            remedy = "write https://HOST, and no name or password"
            shown = str(self.address).rpartition("@")[2]  # never a password
            checks.refuse("gateway: address", "a URL", shown, remedy)
        auth = checks.word("gateway: auth", self.auth)
        if auth not in (None, "basic", "kerberos", "jupyterhub"):
            remedy = "use basic, kerberos or jupyterhub"
            checks.refuse("gateway: auth", "a kind of login", self.auth, remedy)
        if not isinstance(self.options, Mapping):
            checks.refuse("gateway: options", "a mapping", self.options, "write NAME: VALUE")
        object.__setattr__(self, "address", address)
        object.__setattr__(self, "image", checks.word("gateway: image", self.image))
        object.__setattr__(self, "options", dict(self.options))


def _checked_walltime(value: Any) -> str:
    walltime = checks.text("walltime", value)
    remedy = "write HH:MM:SS or D-HH:MM:SS"
    if walltime is None or not _WALLTIME.fullmatch(walltime):
        checks.refuse("walltime", "a time", value, remedy)
    if _seconds_of_walltime(walltime) < _SHORTEST:
        checks.refuse("walltime", f"at least {_SHORTEST} seconds", value, remedy)
    return walltime


def _seconds_of_walltime(walltime: str) -> int:
    match = _WALLTIME.fullmatch(walltime)
    assert match is not None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _resources(value: Any) -> dict[str, dict[str, str]]:
    if not isinstance(value, Mapping) or not set(value) <= {"requests", "limits"}:
        checks.refuse("resources", "a mapping of requests and limits", value, "use these two keys")
    return {kind: _quantities(f"resources: {kind}", amounts) for kind, amounts in value.items()}


def _port_numbers(value: Any) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)) or not all(map(_is_port, value)):
        checks.refuse("storage_ports", "a list of ports", value, "write as [443, 9000]")
    return tuple(value)


def _is_port(value: Any) -> bool:
    # In Python True is the integer 1.
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535


def _quantities(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        checks.refuse(name, "a mapping", value, "write cpu, memory or another resource: amount")
    for amount in value.values():
        if isinstance(amount, bool) or not _QUANTITY.fullmatch(str(amount)):
            checks.refuse(name, "amounts", amount, "write as 2, 500m or 4Gi")
    return {str(checks.word(name, key)): str(amount) for key, amount in value.items()}
