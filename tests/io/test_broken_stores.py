"""Stores that lack a part of what their metadata promise, or are older than themselves."""

from contextlib import nullcontext

import numpy as np
import pytest
import zarr
from numcodecs import Blosc
from zarr.codecs import BloscCodec, BytesCodec, ShardingCodec
from zarr.storage import MemoryStore

import dhsic
from dhsic.errors import DataError

N = 200
X, Y = np.random.default_rng(0).normal(3.0, 1.0, (2, N))
QUICK = {"kernels": "gaussian", "rng": 0, "threads": 1}


def sharded(location, *, checked=True):
    """Shards whose index stands at an end, with a checksum or without."""
    index = {} if checked else {"index_codecs": [BytesCodec()]}
    codec = ShardingCodec(
        chunk_shape=(10,), codecs=[BytesCodec()], index_location=location, **index
    )
    return {"serializer": codec, "compressors": None}


LAYOUTS = {
    "format 2": {"zarr_format": 2},
    "format 2, blosc": {"zarr_format": 2, "compressors": Blosc()},
    "format 2, as it is": {"zarr_format": 2, "compressors": None},
    "format 3": {},
    "format 3, blosc": {"compressors": BloscCodec()},
    "format 3, as it is": {"compressors": None},
    "shards": {"chunks": (10,), "shards": (50,)},
    "shards of blosc": {"chunks": (10,), "shards": (50,), "compressors": BloscCodec()},
    "shards, index last": sharded("end"),
    "shards, index first": sharded("start"),
    "shards, index unchecked": sharded("end", checked=False),
    "shards, index first and unchecked": sharded("start", checked=False),
}


def write(place, layout, values=Y):
    options = {"chunks": (50,), "shape": (N,), "dtype": "f8", **LAYOUTS[layout]}
    array = zarr.create_array(place, config={"write_empty_chunks": True}, **options)
    array[:] = values
    return array


CUTS = {"empty": lambda data: b"", "one byte": lambda data: data[:1]} | {
    f"without {cut}": lambda data, cut=cut: data[:-cut] for cut in (1, 8, 36, 100)
}


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cut_off_chunk__is_refused_with_its_rows(layout, cut, allowed, tmp_path):
    array = write(tmp_path / "y.zarr", layout)
    place = tmp_path / "y.zarr" / array.metadata.encode_chunk_key((2,))
    place.write_bytes(CUTS[cut](place.read_bytes()))
    y = dhsic.stored_array(tmp_path / "y.zarr", allow_missing_chunks=allowed)
    with pytest.raises(DataError, match="rows 100 to 149"):
        dhsic.hsic(X, y, **QUICK)


@pytest.mark.parametrize("missing", ["drop", "pairwise"])
def test_empty_shard__that_would_be_read_as_nan_is_refused(missing, tmp_path):
    options = {"chunks": (10,), "shards": (50,), "fill_value": np.nan}
    zarr.create_array(tmp_path / "y.zarr", data=Y, **options)
    (tmp_path / "y.zarr" / "c" / "2").write_bytes(b"")
    with pytest.raises(DataError, match="rows 100 to 149"):
        dhsic.hsic(X, tmp_path / "y.zarr", missing=missing, **QUICK)


def test_empty_shard__in_memory_is_absent():
    store = MemoryStore()
    array = zarr.create_array(store, data=Y, chunks=(10,), shards=(50,))
    store._store_dict["c/2"] = type(store._store_dict["c/2"]).from_bytes(b"")
    with pytest.raises(DataError, match="lacks 5 stored chunks, of rows 100 to 149"):
        dhsic.hsic(X, array, **QUICK)


@pytest.mark.parametrize("layout", ["format 2", "format 3", "shards"])
def test_rows__that_metadata_promise_and_no_chunk_holds_are_refused(layout, tmp_path):
    array = write(tmp_path / "y.zarr", layout)
    array.resize((N + 100,))
    with pytest.raises(DataError, match="of rows 200 to 299, which would be read as 0"):
        dhsic.hsic(np.r_[X, X[:100]], tmp_path / "y.zarr", **QUICK)


def appended(folder, zarr_format):
    """A group whose consolidated metadata are of before half of the rows were written."""
    group = zarr.create_group(folder, zarr_format=zarr_format)
    for name, values in (("x", X), ("y", Y)):
        group.create_array(name, data=values[:100], chunks=(50,))
    with pytest.warns(UserWarning, match="onsolidated") if zarr_format == 3 else nullcontext():
        zarr.consolidate_metadata(folder, zarr_format=zarr_format)
    opened = zarr.open_group(folder, mode="r")
    arrays = [opened[name] for name in "xy"]
    for name, values in (("x", X), ("y", Y)):
        group[name].append(values[100:])
    group["x"].attrs["valid_max"] = 1e9
    group.create_array("z", data=X)
    return opened, arrays


@pytest.mark.parametrize("door", ["path", "group", "arrays"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_rows__written_after_the_metadata_were_consolidated_count(door, zarr_format, tmp_path):
    group, arrays = appended(tmp_path / "g.zarr", zarr_format)
    assert arrays[0].shape == (100,)
    variables, options = {
        "path": (("x", "y"), {"data": tmp_path / "g.zarr"}),
        "group": (("x", "y"), {"data": group}),
        "arrays": (arrays, {}),
    }[door]
    found = dhsic.hsic(*variables, **options, **QUICK)
    assert (found.n, found.estimate) == (N, pytest.approx(dhsic.hsic(X, Y, **QUICK).estimate))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_arrays__written_after_the_metadata_were_consolidated_count(zarr_format, tmp_path):
    appended(tmp_path / "g.zarr", zarr_format)
    assert dhsic.plan(data=tmp_path / "g.zarr").variables[-1] == "z"


def test_array__that_is_gone_since_it_was_opened_is_refused(tmp_path):
    array = write(tmp_path / "y.zarr", "format 3")
    (tmp_path / "y.zarr" / "zarr.json").unlink()
    with pytest.raises(DataError, match="not a readable zarr array"):
        dhsic.hsic(X, array, **QUICK)
