"""Specification of a cluster: a value, read from a file."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import yaml

from dhsic._files import check_regular
from dhsic._validation import check_choice, check_integer, check_number, nearest
from dhsic.cluster import checks
from dhsic.cluster.local import default_workers
from dhsic.cluster.sections import TLS, Adaptive, Gateway, JobQueue, Kubernetes, SchedulerAt
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
_LARGEST_FILE = 2**20


@dataclass(frozen=True)
class ClusterSpec:
    """Where tasks run, and on how many workers.

    A file of it is YAML: ``kind``, ``workers`` (a number, or ``minimum`` and ``maximum``),
    ``threads``, ``memory``, ``timeout``, ``tls``, ``insecure`` and one section named after the
    kind. Paths in it are relative to its folder.

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
        check_integer("threads", self.threads, minimum=1)
        self._check_timeout()
        checks.flag("insecure", self.insecure)
        if self.tls is not None and not isinstance(self.tls, TLS):
            checks.refuse("tls", "a TLS value", self.tls, "give TLS(ca, cert, key)")
        self._check_unused()
        self._check_workers()
        self._check_sections()

    def _check_timeout(self) -> None:
        if self.timeout is None:
            return
        requirement, remedy = "seconds greater than 0", "write a number such as 60"
        finite = check_number(
            "timeout", self.timeout, requirement, lambda s: 0 < s < math.inf, remedy
        )
        object.__setattr__(self, "timeout", finite)

    def _check_unused(self) -> None:
        """Refuse what a kind has no use for, rather than let it seem to matter."""
        default = {field.name: field.default for field in dataclasses.fields(self)}
        for name in _UNUSED.get(self.kind, ()):
            if getattr(self, name) != default[name]:
                requirement = f"left out for the kind {self.kind}"
                checks.refuse(name, requirement, getattr(self, name), "drop it")

    def _check_workers(self) -> None:
        if self.workers is None:
            if self.kind not in ("local", "scheduler"):
                remedy = "give a number, or minimum and maximum"
                checks.refuse("workers", f"given for the kind {self.kind}", None, remedy)
        elif not isinstance(self.workers, Adaptive):
            check_integer("workers", self.workers, minimum=1)

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
                checks.refuse(shown, f"given for the kind {self.kind}", value, remedy)
            if name != needed and value is not None:
                remedy = "drop it, or change the kind"
                checks.refuse(name, f"left out for the kind {self.kind}", value, remedy)

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
            checks.refuse("a cluster", "a mapping", description, remedy)
        if "kind" not in description:
            msg = f"a cluster must have a kind: add 'kind: ' and one of {', '.join(_KINDS)}"
            raise InvalidArgumentError(msg)
        kind = check_choice("kind", description["kind"], _KINDS)
        allowed = (*_COMMON, kind) if _section_of(kind) else _COMMON
        # An unknown key would be ignored in silence, a misspelt one among them.
        for key in description:
            if key not in allowed:
                msg = (
                    f"a cluster of the kind {kind} has no key {key!r}{nearest(str(key), allowed)}"
                    f"; there are: {', '.join(allowed)}"
                )
                raise InvalidArgumentError(msg)
        values = {key: value for key, value in description.items() if key != kind}
        if isinstance(values.get("workers"), Mapping):
            values["workers"] = checks.section(Adaptive, "workers", values["workers"])
        if values.get("tls") is not None:
            values["tls"] = checks.section(TLS, "tls", _placed(values["tls"], folder))
        if kind in description:
            name = _section_of(kind)
            # Paths in a file are those beside it, wherever the command runs.
            placed = _placed(description[kind], folder)
            values[name] = checks.section(_SECTIONS[name], kind, placed)
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
    def most_workers(self) -> int | None:
        """The most workers that it will have; None where a scheduler that runs already knows."""
        if self.kind == "scheduler":
            return None
        if isinstance(self.workers, Adaptive):
            return self.workers.maximum
        return self.workers or default_workers(self.threads)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, of which `from_dict` makes the same description; paths are whole."""
        plain: dict[str, Any] = _plain_of_spec(self)
        if (name := _section_of(self.kind)) == "jobs":
            plain[self.kind] = plain.pop(name)
        return plain


_SECTIONS: dict[str, type[Any]] = {
    "scheduler": SchedulerAt,
    "jobs": JobQueue,
    "kubernetes": Kubernetes,
    "gateway": Gateway,
}
_PATHS = ("ca", "cert", "key", "scheduler_file", "log_directory", "shared_directory")


def _section_of(kind: str) -> str:
    # Kinds of job queues share one section, which bears the name of the kind in the file.
    """The field that holds the section of a kind; empty where it has none."""
    return "jobs" if kind in JOB_QUEUES else kind if kind in _SECTIONS else ""


def _placed(value: Any, folder: str) -> Any:
    """A section whose relative paths are relative to a folder."""
    if not isinstance(value, Mapping):
        return value
    return {
        key: os.path.join(folder, os.path.expanduser(part))
        if key in _PATHS and isinstance(part, str) and part
        else part
        for key, part in value.items()
    }


def _plain_of_spec(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        named = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {name: _plain_of_spec(part) for name, part in named if part not in (None, (), {})}
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
