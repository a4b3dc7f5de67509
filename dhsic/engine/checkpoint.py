"""Checkpoints: finished parts of a run in a folder, so that a later run does only the rest.

The root holds a manifest that says which run it is. Every pass has a folder named after a digest of
all that determines it, and in it a file for each shard: a subtree of the tree that combines the
partial results. Whoever reads a shard gets what the computation would give, bit by bit. A run that
is done removes them: they may be larger than the data.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np

from dhsic._files import parse_json
from dhsic._version import __version__
from dhsic.engine.digest import can_digest, difference, digest, plain
from dhsic.engine.folder import AnyFolder, FolderEntry
from dhsic.engine.reduction import Partial
from dhsic.engine.stored_state import BrokenStateError, pack, unpack
from dhsic.errors import DataError, DhsicError, InvalidArgumentError

Value = TypeVar("Value")

MANIFEST = "dhsic-checkpoint.json"
PASS = "pass.json"
SHARD = "shard-"
# Whether checkpoints stay when their run is done, in the configuration of Dask.
_KEEP = "dhsic.keep-checkpoints"
# Folders of those that the public function at hand has opened.
_OPENED: ContextVar[dict[AnyFolder, None]] = ContextVar("opened")
_FORMAT = 1


class CheckpointWarning(UserWarning):
    """A part of a checkpoint cannot be used and is computed again."""


class MissingShardError(DhsicError):
    """A shard is gone or broken and must be computed again.

    Parameters
    ----------
    number : int
        Number of the shard.
    reason : str
        Fault of the shard.
    """

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(number, reason)
        self.number, self.reason = number, reason


@dataclass(frozen=True)
class Manifest:
    """Which run a checkpoint is of.

    Parameters
    ----------
    run : dict
        The fields that determine the run, as plain values.
    token : str
        Tells this folder from one of the same name on another machine.
    """

    run: dict[str, Any]
    token: str

    @classmethod
    def read(cls, folder: AnyFolder) -> Manifest | None:
        """The manifest of a folder, or None where there is none.

        Raises
        ------
        DataError
            There is one that this version cannot read.
        """
        data = folder.read(MANIFEST)
        if data is None:
            return None
        try:
            written = parse_json(data)
            version, run, token = written["format"], written["run"], written["token"]
            if version == _FORMAT and isinstance(run, dict) and isinstance(token, str):
                return cls(run, token)
        except (ValueError, KeyError, TypeError):
            version = "none"
        msg = (
            f"the manifest of checkpoint {folder} must have format {_FORMAT}, got {version}: take "
            "another URL, or remove the folder if nobody needs it"
        )
        raise DataError(msg)

    def to_json(self) -> bytes:
        """As it is written."""
        return json.dumps(
            {"format": _FORMAT, "token": self.token, "run": self.run}, indent=1
        ).encode()


@dataclass(frozen=True)
class Checkpoint:
    """The checkpoint of a run.

    Parameters
    ----------
    folder : AnyFolder
        Where it is.
    manifest : Manifest
        Which run it is of.
    part : object, optional
        The variables of the run that its passes are of, where some are made on the way.
    """

    folder: AnyFolder
    manifest: Manifest
    part: Any = None

    @classmethod
    def open(cls, folder: AnyFolder, run: Mapping[str, Any]) -> Checkpoint:
        """Open the checkpoint of a run, or start it.

        Parameters
        ----------
        folder : AnyFolder
            Empty, missing, or a checkpoint of the same run.
        run : mapping
            The fields that determine the run.

        Returns
        -------
        Checkpoint

        Raises
        ------
        InvalidArgumentError
            It is the checkpoint of another run, or a folder of something else.
        DataError
            The folder cannot be read or written.
        """
        # The versions are part of the run: sums of another NumPy may round otherwise.
        try:
            here = plain({"dhsic": __version__, "numpy": np.__version__, **run})
        except TypeError as error:
            msg = f"a checkpoint must know all that the result depends on: {error}"
            raise InvalidArgumentError(msg) from error
        if folder.is_file():
            msg = f"checkpoint must be a folder, got the file {folder}: take another name"
            raise InvalidArgumentError(msg)
        manifest = Manifest.read(folder)
        if manifest is None:
            manifest = _start(folder, here)
        changed = difference(manifest.run, here)
        if changed is not None:
            msg = (
                f"checkpoint {folder} is of another run: {changed.field} was "
                f"{_value_text(changed.there)} there and is {_value_text(changed.here)} now; "
                "take another URL, or remove it with 'dhsic checkpoints clean'"
            )
            raise InvalidArgumentError(msg)
        _OPENED.get({})[folder] = None
        return cls(folder, manifest)

    def shards(self, name: str, count: int, determined_by: Any) -> Shards:
        """The shards of a pass.

        Parameters
        ----------
        name : str
            Name of its result.
        count : int
            Shards in all.
        determined_by : object
            All that determines their content besides the run.

        Raises
        ------
        TypeError
            A value cannot be digested.
        """
        run = json.dumps(self.manifest.run, sort_keys=True)
        part = () if self.part is None else (self.part,)
        # All that decides the result is in the key: another run or version finds nothing here.
        key = digest((run, name, count, determined_by, *part))[:32]
        shards = Shards(self.folder, self.manifest.token, key, count)
        shards.folder.make()
        # It tells those who list checkpoints which pass this is.
        described = json.dumps({"name": name, "shards": count}).encode()
        shards.folder.write_new(PASS, described)
        return shards

    def keep(self, name: str, make: Callable[[], Value], determined_by: Any) -> Value:
        """Read a value that the driver makes, or make it and keep it.

        Parameters
        ----------
        name : str
            Name of the value.
        make : callable
            Makes it, of what `pack` takes.
        determined_by : object
            All that determines it besides the run; what cannot be digested is made anew.

        Returns
        -------
        object
            The value.
        """
        # What cannot be digested might be taken for another value, so that it is made anew.
        if not can_digest(determined_by):
            return make()
        shards = self.shards(name, 1, determined_by)
        if shards.present():
            try:
                kept: Value = shards.load(0).state
            except MissingShardError as missing:
                shards.drop(missing)
            else:
                return kept
        value = make()
        shards.write(0, Partial(value, 0.0))
        return value


@dataclass(frozen=True)
class Shards:
    """The shards of one pass, as the driver and the workers see them.

    Parameters
    ----------
    root : AnyFolder
        The checkpoint.
    token : str
        Token of its manifest.
    key : str
        Name of the folder of the pass.
    count : int
        Shards in all.
    """

    root: AnyFolder
    token: str
    key: str
    count: int

    @property
    def folder(self) -> AnyFolder:
        """The folder of the pass."""
        return self.root.inner(self.key)

    # A listing alone: a shard that cannot be read is found when it is, by `MissingShardError`.
    def present(self) -> frozenset[int]:
        """Numbers of the shards that are there, by their names; none is read."""
        names = {entry.name for entry in self.folder.entries()}
        return frozenset(number for number in range(self.count) if _name_of_key(number) in names)

    def check(self) -> None:
        """Refuse to work where the folder is not the one that the driver sees.

        Raises
        ------
        InvalidArgumentError
            It is not there, or is another of the same name.
        """
        _check_token(self.root, self.token)

    def write(self, number: int, partial: Partial[Any]) -> None:
        """Keep a shard."""
        parts = pack((self.key, number, partial))
        try:
            self.folder.write(_name_of_key(number), parts)
        except DataError:
            # A folder that this machine alone does not see has an error of its own.
            _refuse_other(self.root, self.token)
            raise

    def load(self, number: int) -> Partial[Any]:
        """The shard as it was written.

        Raises
        ------
        MissingShardError
            It is not there or not whole.
        """
        try:
            with self.folder.open(_name_of_key(number)) as file:
                if file is None:
                    raise MissingShardError(number, "it is gone")
                # A file that is no manifest at all has the format "none" in the message.
                kept = unpack(file)
        except BrokenStateError as error:
            raise MissingShardError(number, str(error)) from error
        # A file that was copied or renamed holds another shard.
        if type(kept) is not tuple or kept[:2] != (self.key, number):
            raise MissingShardError(number, "it is another one")
        partial: Partial[Any] = kept[2]
        return partial

    def drop(self, missing: MissingShardError) -> None:
        """Remove what is left of a shard that cannot be used, and warn."""
        self.folder.remove(_name_of_key(missing.number))
        msg = (
            f"a part of checkpoint {self.root} cannot be used and is computed again "
            f"({self.key}/{_name_of_key(missing.number)}: {missing.reason})"
        )
        warnings.warn(msg, CheckpointWarning, stacklevel=2)


@lru_cache(maxsize=64)  # once a process
def _check_token(root: Any, token: str) -> None:
    _refuse_other(root, token)


def _refuse_other(root: AnyFolder, token: str) -> None:
    manifest = Manifest.read(root)
    if manifest is None or manifest.token != token:
        msg = (
            f"checkpoint {root} must be a folder that every worker sees, and one does not see it: "
            "take a folder that all machines share, or the URL of an object store; if it was "
            "removed during the run, start again"
        )
        raise InvalidArgumentError(msg)


def _name_of_key(number: int) -> str:
    return f"{SHARD}{number:04d}"


def _start(folder: AnyFolder, run: dict[str, Any]) -> Manifest:
    """Write the manifest; of several runs that start at a time, all get the same."""
    # Files of an interrupted write are no content: a run that was killed may have left them.
    if any(not entry.is_partial for entry in folder.entries()):
        manifest = Manifest.read(folder)
        if manifest is not None:  # of a run that started at the same time
            return manifest
        msg = (
            f"checkpoint must be an empty folder or a checkpoint, and {folder} holds other files: "
            "take another URL"
        )
        raise InvalidArgumentError(msg)
    folder.make()
    ours = Manifest(run, uuid4().hex)
    # Of runs that start at the same time the first wins, and all read its manifest.
    folder.write_new(MANIFEST, ours.to_json())
    manifest = Manifest.read(folder)
    if manifest is None:
        msg = f"checkpoint {folder} was removed while the run began: start again"
        raise DataError(msg)
    return manifest


def _value_text(value: Any) -> str:
    text = json.dumps(value) if value is not None else "missing"
    return text if len(text) <= 80 else f"{text[:77]}..."


@contextmanager
def removed_at_end() -> Iterator[None]:
    """Remove the checkpoints of a block that ends well, unless they are to be kept.

    A block within another has them removed by that one, which may be cut short and go on from them.
    """
    if _OPENED.get(None) is not None:
        yield
        return
    token = _OPENED.set(opened := dict[AnyFolder, None]())
    try:
        yield
    finally:
        _OPENED.reset(token)
    if not opened:
        return
    import dask  # slow to import

    for folder in () if dask.config.get(_KEEP, False) else opened:
        try:
            remove_checkpoint(folder)
        except DataError as error:
            msg = f"the run is done, and its checkpoint stays: {error}"
            warnings.warn(msg, CheckpointWarning, stacklevel=4)


def remove_checkpoint(folder: AnyFolder) -> int:
    """Remove a checkpoint, the manifest last, and nothing that is not of it.

    Parameters
    ----------
    folder : AnyFolder
        With a manifest.

    Returns
    -------
    int
        How many other files were left where they are.
    """
    left = 0
    for entry in folder.entries():
        if entry.is_folder:
            left += _remove_pass(folder.inner(entry.name))
        elif entry.is_partial:
            folder.remove(entry.name)
        elif entry.name != MANIFEST:
            left += 1
    # The manifest goes last: until then the folder is known for what it is, and can be cleaned
    # again.
    folder.remove(MANIFEST)
    folder.remove_empty()
    return left


def _remove_pass(folder: AnyFolder) -> int:
    entries = folder.entries()
    # A run that was killed may leave no more than the folder.
    known = any(entry.name == PASS for entry in entries) or all(e.is_partial for e in entries)
    ours = [entry for entry in entries if known and _is_ours(entry)]
    # The file that tells what the folder is goes last, so that a removal that was cut off can go
    # on.
    for entry in sorted(ours, key=lambda file: file.name == PASS):
        folder.remove(entry.name)
    folder.remove_empty()
    return len(entries) - len(ours)


def _is_ours(entry: FolderEntry) -> bool:
    is_shard = entry.name.startswith(SHARD) and entry.name.removeprefix(SHARD).isdigit()
    return not entry.is_folder and (entry.name == PASS or is_shard or entry.is_partial)
