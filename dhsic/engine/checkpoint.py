"""Write the finished parts of a run to a folder, the checkpoint, from which a later run resumes.

The root contains a manifest that identifies the run. Every pass has a folder, named by a token of
everything that determines the pass, with a file for each shard: the result of a subtree of the tree
that combines partial results. A shard has the same bits as its computation. A finished run removes
the shards, which may be larger than the data.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import io
import json
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple, TypeAlias, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from dhsic._files import parse_json
from dhsic._validation import check_integer
from dhsic._version import __version__
from dhsic.errors import DataError, DhsicError, InvalidArgumentError

Value = TypeVar("Value")

MANIFEST = "dhsic-checkpoint.json"
PASS = "pass.json"
SHARD = "shard-"
# Whether checkpoints stay when their run is done, in the configuration of Dask.
_KEEP = "dhsic.keep-checkpoints"
_FORMAT = 2
# Hidden names that no shard has, with a random part, so that two writers do not meet.
_PARTIAL = re.compile(r"\.[^/]*\.[0-9a-f]{8}\.partial")
_OURS = re.compile(rf"{re.escape(PASS)}|{SHARD}\d+|{_PARTIAL.pattern}")
_NUMBERS = "biufc"
# NumPy parses the header of an array as Python, whose depth CPython counts for all threads together
# (python/cpython 106905): of two at a time one may fail, and a good shard be taken for broken.
_PARSING = threading.Lock()
_IS = "is"
"""Key of the class of a value; no field is called so, since Python keeps the word."""
# Whose code their versions identify.
_LIBRARIES = {"dhsic", "numpy", *sys.stdlib_module_names} - {"__main__"}


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


class FolderEntry(NamedTuple):
    """A file of a folder, or a folder in it."""

    name: str
    is_folder: bool
    size: int
    modified: float | None
    """Seconds since 1970, where the store says so."""

    @property
    def is_partial(self) -> bool:
        """Whether it is what an interrupted write has left."""
        return _PARTIAL.fullmatch(self.name) is not None


AnyFolder: TypeAlias = Any
"""A folder on a disk or in a store, see `dhsic.io.urls`, which stands above the engine."""

# Folders of those that the public function at hand has opened.
_OPENED: ContextVar[dict[AnyFolder, None]] = ContextVar("opened")


def written_out(value: Any) -> Any:
    """Write a value out as JSON can hold it, so that two of them can be told apart by their fields.

    Parameters
    ----------
    value : object
        Numbers, text, arrays, and tuples, lists, mappings and dataclasses of them; classes and
        functions that have a name.

    Returns
    -------
    object
        Dicts, lists, numbers and text. Every field counts, and the code of classes of a user;
        arrays stand as their tokens.

    Raises
    ------
    TypeError
        Something else, as a lambda, whose name does not say what it does.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, type | FunctionType | BuiltinFunctionType):
        return _named(value)
    if isinstance(value, Mapping):
        # Keys of other types would become text in JSON, and different mappings the same.
        if not all(type(key) is str for key in value):
            msg = "a checkpoint can identify a mapping only if its keys are text"
            raise TypeError(msg)
        return {key: written_out(item) for key, item in value.items()}
    if type(value) in (tuple, list):
        return list(map(written_out, value))
    if (names := _field_names(type(value))) is not None:
        # Cached properties follow from the fields; any other attribute may change what it does.
        fields = {name: getattr(type(value), name, None) for name in getattr(value, "__dict__", ())}
        given = {name for name, kept in fields.items() if not isinstance(kept, cached_property)}
        if hidden := given - {*names}:
            msg = f"a {type(value).__name__} has attributes that are no fields: {', '.join(hidden)}"
            raise TypeError(msg)
        return _named(type(value)) | {name: written_out(getattr(value, name)) for name in names}
    if isinstance(value, np.generic | np.dtype | range | slice) or (
        type(value) is np.ndarray and not value.dtype.hasobject
    ):
        from dask.tokenize import tokenize  # slow to import

        if isinstance(value, np.ndarray):  # tokens are of the memory, whose order is no value
            value = np.asarray(value, order="C")
        return _named(type(value)) | {"token": tokenize(value, ensure_deterministic=True)}
    msg = f"a checkpoint cannot identify a {type(value).__name__}: make it a dataclass of values"
    raise TypeError(msg)


def token_of(value: Any) -> str:
    """The token of a value, the same in any process; a TypeError as for `written_out`."""
    from dask.tokenize import tokenize

    token: str = tokenize(written_out(value), ensure_deterministic=True)
    return token


def _named(value: Any) -> dict[str, Any]:
    """A class or function by its name, with the file that holds its code where it is a user's."""
    name = {_IS: f"{value.__module__}.{value.__qualname__}"}
    found: Any = sys.modules.get(value.__module__ or "")
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not value:
        msg = f"the name of {name[_IS]} does not say what it does"
        raise TypeError(msg)
    if name[_IS].split(".")[0] not in _LIBRARIES:
        # The file is taken whole: it also holds what the class calls.
        try:
            name["class"] = hashlib.sha256(Path(inspect.getfile(value)).read_bytes()).hexdigest()
        except (OSError, TypeError) as error:
            msg = f"the source of {name[_IS]} cannot be read: put it in a file"
            raise TypeError(msg) from error
    return name


def _field_names(cls: Any) -> Sequence[str] | None:
    """Fields of a dataclass or named tuple; None of others."""
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    return cls._fields if issubclass(cls, tuple) and hasattr(cls, "_fields") else None


def difference(there: Any, here: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """Where two described values differ first: the path of the field, as ``kernels[0].gamma``."""
    if isinstance(there, dict) and isinstance(here, dict):
        if there.get(_IS) != here.get(_IS):
            was, now = (str(one.get(_IS)).rpartition(".")[2] for one in (there, here))
            return path, was, now
        # Fields of this run in their order, and then those that only the other has.
        names = dict.fromkeys([*here, *there])
        pairs = [(f"{path}.{name}".lstrip("."), there.get(name), here.get(name)) for name in names]
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        pairs = [(f"{path}[{i}]", *pair) for i, pair in enumerate(zip(there, here, strict=True))]
    else:
        # As JSON, in which 1 and 1.0 differ and NaN equals itself.
        same = json.dumps(there, sort_keys=True) == json.dumps(here, sort_keys=True)
        return None if same else (path, there, here)
    differences = (difference(old, new, name) for name, old, new in pairs)
    return next(filter(None, differences), None)


def pack(value: Any, file: Any) -> None:
    """Write a value to a binary file: its arrays as npz, with their places in a line of JSON.

    Nothing is pickled: the line names the classes of named tuples and dataclasses of this package.

    Raises
    ------
    TypeError
        It holds something else than such, numbers and text.
    """
    arrays: list[NDArray[Any]] = []
    structure = np.array(json.dumps(_written(value, arrays)))
    np.savez(file, structure, *arrays)


def unpack(data: bytes) -> Any:
    """The value that a file holds; a ValueError where it is torn, altered or another."""
    try:
        # The archive has a checksum of every array.
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays, _PARSING:
            return _restored(json.loads(str(arrays["arr_0"])), arrays)
    except MemoryError:
        raise
    except Exception as error:
        msg = f"it cannot be read: {error}"
        raise ValueError(msg) from error


def _written(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """The structure of a value; its arrays are put into the list in the order of their places."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    cls = type(value)
    if type(value) in (tuple, list):
        return {"in": cls.__name__, "of": [_written(item, arrays) for item in value]}
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in _NUMBERS:
        # In the order in which its axes lie in memory, which later rounding may depend on.
        order = sorted(range(value.ndim), key=lambda axis: -abs(np.asarray(value).strides[axis]))
        arrays.append(np.asarray(value).transpose(order))
        return {"in": cls.__name__, "order": order, "at": len(arrays)}
    name = f"{cls.__module__}:{cls.__qualname__}"
    if _class_of_state(name) is not cls:
        msg = f"a {name} cannot be kept: states are named tuples or dataclasses of dhsic"
        raise TypeError(msg)
    return {
        "in": name,
        "of": [_written(getattr(value, field), arrays) for field in _field_names(cls) or ()],
    }


def _restored(structure: Any, arrays: Any) -> Any:
    if not isinstance(structure, dict):
        return structure
    kind = structure["in"]
    if "at" in structure:
        array = arrays[f"arr_{structure['at']}"].transpose(np.argsort(structure["order"]))
        return array if kind == "ndarray" else array[()]
    values = [_restored(item, arrays) for item in structure["of"]]
    if kind in ("tuple", "list"):
        return tuple(values) if kind == "tuple" else values
    cls = _class_of_state(kind)
    return cls(**dict(zip(_field_names(cls) or (), values, strict=True)))


def _class_of_state(name: str) -> Any:
    """A named tuple or dataclass of this package, by its name: a file runs no other code."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    ours = isinstance(found, type) and found.__module__.split(".")[0] == "dhsic"
    return found if ours and _field_names(found) is not None else None


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Which run a checkpoint is of.

    Parameters
    ----------
    run : dict
        The fields that determine the run, as `written_out` writes them.
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
            f"the manifest of checkpoint {folder} must have format {_FORMAT}, got {version}: a run "
            "of another version of dhsic cannot resume; take another URL, or remove the folder if "
            "nobody needs it"
        )
        raise DataError(msg)


@dataclasses.dataclass(frozen=True)
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
        import dask  # slow to import

        # The versions are part of the run: sums of another NumPy may round otherwise, and tokens of
        # another Dask may differ.
        try:
            versions = {"dhsic": __version__, "numpy": np.__version__, "dask": dask.__version__}
            here = written_out({**versions, **run})
        except TypeError as error:
            msg = f"a checkpoint must know all that the result depends on: {error}"
            raise InvalidArgumentError(msg) from error
        if folder.is_file():
            msg = f"checkpoint must be a folder, got the file {folder}: take another name"
            raise InvalidArgumentError(msg)
        # Listed first: the manifest may be that of a run that starts at the same time.
        entries, manifest = folder.entries(), Manifest.read(folder)
        # Files of an interrupted write are no content: a run that was killed may have left them.
        if manifest is None and any(not entry.is_partial for entry in entries):
            msg = (
                f"checkpoint must be an empty folder or a checkpoint, and {folder} holds other "
                "files: take another URL"
            )
            raise InvalidArgumentError(msg)
        manifest = manifest or _start(folder, here)
        if (changed := difference(manifest.run, here)) is not None:
            field, was, now = changed
            msg = (
                f"checkpoint {folder} is of another run: {field} was {_value_text(was)} there and "
                f"is {_value_text(now)} now; take another URL, or remove it with "
                "'dhsic checkpoints clean'"
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
            All that determines their content besides the run; a TypeError as for `written_out`.
        """
        # All that decides the result is in the key: another run or version finds nothing here.
        key = token_of((self.manifest.run, self.part, name, count, determined_by))
        shards = Shards(self.folder, self.manifest.token, key, count)
        shards.folder.make()
        # It tells those who list checkpoints which pass this is.
        shards.folder.write_new(PASS, json.dumps({"name": name, "shards": count}).encode())
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
            All that determines it besides the run; without a token it is made anew.

        Returns
        -------
        object
            The value.
        """
        try:
            shards = self.shards(name, 1, determined_by)
        except TypeError:
            return make()
        if shards.present():
            try:
                kept: Value = shards.load(0)
            except MissingShardError as missing:
                shards.drop(missing)
            else:
                return kept
        return shards.write(0, make())


@dataclasses.dataclass(frozen=True)
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
        _refuse_other(self.root, self.token)

    def write(self, number: int, value: Value) -> Value:
        """Keep a shard, and return it."""
        try:
            self.folder.write(_name_of_key(number), partial(pack, (self.key, number, value)))
        except DataError:
            # A folder that this machine alone does not see has an error of its own.
            _refuse_other.__wrapped__(self.root, self.token)
            raise
        return value

    def load(self, number: int) -> Any:
        """The shard as it was written.

        Raises
        ------
        MissingShardError
            It is not there or not whole.
        """
        data = self.folder.read(_name_of_key(number))
        if data is None:
            raise MissingShardError(number, "it is gone")
        try:
            kept = unpack(data)
        except ValueError as error:
            raise MissingShardError(number, str(error)) from error
        # A file that was copied or renamed holds another shard.
        if type(kept) is not tuple or kept[:2] != (self.key, number):
            raise MissingShardError(number, "it is another one")
        return kept[2]

    def fault(self, number: int) -> MissingShardError | None:
        """The fault of a shard, or None where it is whole."""
        try:
            self.load(number)
        except MissingShardError as missing:
            return missing
        return None

    def drop(self, missing: MissingShardError) -> None:
        """Remove what is left of a shard that cannot be used, and warn."""
        self.folder.remove(_name_of_key(missing.number))
        msg = (
            f"a part of checkpoint {self.root} cannot be used and is computed again "
            f"({self.key}/{_name_of_key(missing.number)}: {missing.reason})"
        )
        warnings.warn(msg, CheckpointWarning, stacklevel=2)


@lru_cache(maxsize=64)  # once a process
def _refuse_other(root: Any, token: str) -> None:
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
    folder.make()
    # Of runs that start at the same time the first wins, and all read its manifest.
    ours = {"format": _FORMAT, "token": uuid4().hex, "run": run}
    folder.write_new(MANIFEST, json.dumps(ours, indent=1).encode())
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
    ours = [e for e in entries if known and not e.is_folder and _OURS.fullmatch(e.name)]
    # The file that tells what the folder is goes last, so that a removal that was cut off can go
    # on.
    for entry in sorted(ours, key=lambda file: file.name == PASS):
        folder.remove(entry.name)
    folder.remove_empty()
    return len(entries) - len(ours)


class KeptPass(NamedTuple):
    """A pass of a checkpoint, as it is listed."""

    name: str
    shards: int
    of: int
    size: int
    modified: float | None
    """Seconds since 1970 of the last shard, where the store says so."""


def find_checkpoints(root: AnyFolder) -> tuple[list[tuple[AnyFolder, Manifest]], list[DataError]]:
    """The checkpoint that a folder is, or those in it, and the faults of others.

    Raises
    ------
    DataError
        There is none, or that of the folder itself cannot be read.
    """
    if (manifest := Manifest.read(root)) is not None:
        # The folder is a checkpoint itself: folders in it are its passes.
        return [(root, manifest)], []
    found: list[tuple[AnyFolder, Manifest]] = []
    broken: list[DataError] = []
    for folder in (root.inner(entry.name) for entry in root.entries() if entry.is_folder):
        try:
            if (manifest := Manifest.read(folder)) is not None:
                found.append((folder, manifest))
        except DataError as error:
            # A folder that cannot be read hides no other.
            broken.append(error)
    if not found and not broken:
        msg = f"there must be a checkpoint, or a folder of some, at {root}, and there is none"
        raise DataError(msg)
    return found, broken


def kept_passes(folder: AnyFolder) -> list[KeptPass]:
    """The passes of a checkpoint, the oldest first."""
    passes = []
    for inner in (folder.inner(entry.name) for entry in folder.entries() if entry.is_folder):
        # A file that someone else wrote there is no pass, and no reason to end the listing.
        with suppress(ValueError, KeyError, TypeError, DhsicError):
            told = parse_json(inner.read(PASS) or b"")
            name, count = str(told["name"]), check_integer("shards", told["shards"], minimum=0)
            shards = [entry for entry in inner.entries() if entry.name.startswith(SHARD)]
            times = [entry.modified for entry in shards if entry.modified is not None]
            size = sum(entry.size for entry in shards)
            passes.append(KeptPass(name, len(shards), count, size, max(times, default=None)))
    return sorted(passes, key=lambda kept: kept.modified or 0.0)
