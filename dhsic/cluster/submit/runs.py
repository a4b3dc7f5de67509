"""Runs and their folders."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self, cast

from dhsic._files import parse_json
from dhsic._validation import nearest
from dhsic.cluster.spec import ClusterSpec
from dhsic.cluster.submit.quoting import yaml_text
from dhsic.errors import ClusterError, InvalidArgumentError
from dhsic.io.whole import write_whole

QueueName = Literal["slurm", "kubernetes"]

_FORMAT = 1
_IDENTITY = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")


@dataclass(frozen=True)
class RunState:
    """Outcome of a run, as far as its queue does not know it.

    Parameters
    ----------
    job : str
        The queue's name of the job.
    cancelled : bool
        Whether it was cancelled.
    """

    job: str
    cancelled: bool = False


@dataclass(frozen=True)
class SubmittedRun:
    """A test that a queue starts.

    Parameters
    ----------
    identity : str
        Name that the user gave it.
    queue : str
        The queue.
    command : tuple of str
        The words after ``dhsic``.
    directory : str
        Folder in which the command was given.
    created : str
        Time of that, in UTC.
    spec : ClusterSpec
        Where its tasks run.
    folder : Path
        Folder of its files.
    checkpoint : bool
        Whether it keeps a checkpoint in its folder.
    """

    identity: str
    queue: QueueName
    command: tuple[str, ...]
    directory: str
    created: str
    spec: ClusterSpec
    folder: Path
    checkpoint: bool

    @classmethod
    def new(
        cls,
        queue: QueueName,
        command: tuple[str, ...],
        spec: ClusterSpec,
        runs: Path,
        *,
        checkpoint: bool = False,
    ) -> Self:
        """A run with a name of its own, of which nothing is written yet."""
        now = datetime.now(UTC)
        # Names sort by time; random digits keep those of one second apart.
        identity = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        created = now.isoformat(timespec="seconds")
        folder = runs / identity
        return cls(identity, queue, command, os.getcwd(), created, spec, folder, checkpoint)

    @property
    def name(self) -> str:
        """Its name in the queue."""
        return f"dhsic-{self.identity}"

    @property
    def text(self) -> Path:
        """File of what the queue was given."""
        return self.folder / {"slurm": "job.sh", "kubernetes": "manifests.yaml"}[self.queue]

    @property
    def log(self) -> Path:
        """File of what the command printed."""
        return self.folder / "job.log"

    @property
    def journal(self) -> Path:
        """File of the events of the test."""
        return self.folder / "journal.jsonl"

    @property
    def result(self) -> Path:
        """File of the result."""
        return self.folder / "result.json"

    def has_result(self) -> bool:
        """Whether the result is there; a list is fresh where a shared disk remembers a miss."""
        return self.result.name in os.listdir(self.folder)

    def write(self, text: str) -> None:
        """Make the folder, as a whole or not at all.

        Raises
        ------
        ClusterError
            The disk refuses.
        """
        partial = self.folder.with_name(f".{self.identity}.partial")
        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # For the user alone: commands name data, and the description of a cluster names hosts.
            partial.mkdir(mode=0o700)
            (partial / "cluster.yaml").write_text(yaml_text([self.spec.to_dict()]), "utf-8")
            (partial / self.text.name).write_text(text, "utf-8")
            (partial / "run.json").write_text(json.dumps(self._facts(), indent=2) + "\n", "utf-8")
            # It gets its name when all is written: who lists runs sees no half of one.
            partial.rename(self.folder)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            msg = (
                f"--runs must be a folder that can be written to, got {self.folder.parent}: "
                f"{error.strerror or error}"
            )
            raise ClusterError(msg) from error

    def discard(self) -> None:
        """Remove the folder of a run that no queue took."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def state(self) -> RunState | None:
        """The state last told; None before a queue took the run."""
        try:
            return RunState(**parse_json((self.folder / "state.json").read_text("utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise _unreadable(self.identity, self.folder) from error

    def tell(self, state: RunState) -> None:
        """Keep what became of the run."""
        self.keep("state.json", json.dumps({"job": state.job, "cancelled": state.cancelled}))

    def keep(self, name: str, text: str) -> None:
        """Write a file of the folder that is there as a whole or not at all."""
        write_whole(self.folder / name, text)

    def _facts(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "identity": self.identity,
            "queue": self.queue,
            "command": list(self.command),
            "directory": self.directory,
            "created": self.created,
            "checkpoint": self.checkpoint,
        }


def runs_folder(chosen: Path | None) -> Path:
    """Folder of all runs: the one given, or that of the user's state."""
    if chosen is not None:
        return chosen.absolute()
    state = os.environ.get("XDG_STATE_HOME", "")
    # The specification of these folders says that relative ones are ignored.
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "dhsic" / "runs"


def find_run(runs: Path, identity: str) -> SubmittedRun:
    """Read a run.

    Raises
    ------
    InvalidArgumentError
        There is none of this name.
    ClusterError
        Its folder cannot be read.
    """
    # By the list of names, so that no text of the user becomes part of a path.
    known = _identities(runs)
    if identity not in known:
        there = "see 'dhsic runs'" if known else "there are none yet"
        msg = (
            f"RUN must be a run in {runs}, got {identity[:80]!r}{nearest(identity, known)}; {there}"
        )
        raise InvalidArgumentError(msg)
    folder = runs / identity
    try:
        facts = parse_json((folder / "run.json").read_text("utf-8"))
        return _read_run(folder, facts)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _unreadable(identity, folder) from error


def list_runs(runs: Path) -> list[SubmittedRun]:
    """All runs, the latest first."""
    return [find_run(runs, identity) for identity in sorted(_identities(runs), reverse=True)]


def _identities(runs: Path) -> list[str]:
    try:
        return [path.name for path in runs.iterdir() if _IDENTITY.fullmatch(path.name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        msg = f"--runs must be a folder that can be read, got {runs}: {error.strerror}"
        raise ClusterError(msg) from error


def _read_run(folder: Path, facts: Mapping[str, Any]) -> SubmittedRun:
    if facts["format"] != _FORMAT or facts["queue"] not in ("slurm", "kubernetes"):
        raise ValueError(facts["format"])
    return SubmittedRun(
        identity=folder.name,
        queue=cast(QueueName, facts["queue"]),
        command=tuple(map(str, facts["command"])),
        directory=str(facts["directory"]),
        created=str(facts["created"]),
        spec=ClusterSpec.read(folder / "cluster.yaml"),
        folder=folder,
        checkpoint=bool(facts["checkpoint"]),
    )


def _unreadable(identity: str, folder: Path) -> ClusterError:
    return ClusterError(f"run {identity} cannot be read: remove {folder} if it is not needed")
