"""Checkpoints from outside: what is in them."""

from __future__ import annotations

from typing import NamedTuple

from dhsic._files import parse_json
from dhsic._validation import check_integer
from dhsic.engine.checkpoint import PASS, SHARD, Manifest
from dhsic.engine.folder import AnyFolder
from dhsic.errors import DataError, DhsicError


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
