"""Checkpoints from outside: what is in them, and their removal."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from dhsic._files import parse_json
from dhsic._validation import check_integer
from dhsic.engine.checkpoint import MANIFEST, OPENED, PASS, SHARD, CheckpointWarning, Manifest
from dhsic.engine.folder import AnyFolder, FolderEntry
from dhsic.errors import DataError, DhsicError

__all__ = [
    "FoundCheckpoints",
    "KeptPass",
    "find_checkpoints",
    "kept_passes",
    "remove_checkpoint",
    "removed_at_end",
]

# Whether checkpoints stay when their run is done, in the configuration of Dask.
_KEEP = "dhsic.keep-checkpoints"


@contextmanager
def removed_at_end() -> Iterator[None]:
    """Remove the checkpoints of a block that ends well, unless they are to be kept.

    A block within another has them removed by that one, which may be cut short and go on from them.
    """
    if OPENED.get() is not None:
        yield
        return
    token = OPENED.set(opened := {})
    try:
        yield
    finally:
        OPENED.reset(token)
    if not opened:
        return
    import dask  # slow to import

    for folder in () if dask.config.get(_KEEP, False) else opened:
        try:
            remove_checkpoint(folder)
        except DataError as error:
            msg = f"the run is done, and its checkpoint stays: {error}"
            warnings.warn(msg, CheckpointWarning, stacklevel=4)


class KeptPass(NamedTuple):
    """A pass of a checkpoint, as it is listed."""

    name: str
    shards: int
    of: int
    size: int
    modified: float | None
    """Seconds since 1970 of the last shard, where the store says so."""


class FoundCheckpoints(NamedTuple):
    """The checkpoints of a folder."""

    checkpoints: list[tuple[AnyFolder, Manifest]]
    """Those that this version can read."""
    broken: list[DataError]
    """The fault of each of the others."""

    def refuse_broken(self) -> None:
        """Raise where there are others, once the rest is done.

        Raises
        ------
        DataError
            Names all of them.
        """
        if self.broken:
            raise DataError("; ".join(map(str, self.broken)))


def find_checkpoints(root: AnyFolder) -> FoundCheckpoints:
    """The checkpoint that a folder is, or those in it.

    Raises
    ------
    DataError
        There is none, or that of the folder itself cannot be read.
    """
    manifest = Manifest.read(root)
    if manifest is not None:
        # The folder is a checkpoint itself: folders in it are its passes.
        return FoundCheckpoints([(root, manifest)], [])
    listed = FoundCheckpoints([], [])
    for folder in (root.inner(entry.name) for entry in root.entries() if entry.is_folder):
        try:
            manifest = Manifest.read(folder)
        except DataError as error:
            # A folder that cannot be read hides no other.
            listed.broken.append(error)
        else:
            if manifest is not None:
                listed.checkpoints.append((folder, manifest))
    if not listed.checkpoints and not listed.broken:
        msg = f"there must be a checkpoint, or a folder of some, at {root}, and there is none"
        raise DataError(msg)
    return listed


def kept_passes(folder: AnyFolder) -> list[KeptPass]:
    """The passes of a checkpoint, the oldest first."""
    passes = [_kept_pass(folder.inner(e.name)) for e in folder.entries() if e.is_folder]
    return sorted(
        (kept for kept in passes if kept is not None), key=lambda kept: kept.modified or 0.0
    )


def _kept_pass(folder: AnyFolder) -> KeptPass | None:
    data = folder.read(PASS)
    if data is None:
        return None
    try:
        described = parse_json(data)
        # A file that someone else wrote there is no pass, and no reason to end the listing.
        name, count = (
            str(described["name"]),
            check_integer("shards", described["shards"], minimum=0),
        )
    except (ValueError, KeyError, TypeError, DhsicError):
        return None
    shards = [entry for entry in folder.entries() if entry.name.startswith(SHARD)]
    times = [entry.modified for entry in shards if entry.modified is not None]
    size = sum(entry.size for entry in shards)
    return KeptPass(name, len(shards), count, size, max(times, default=None))


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
