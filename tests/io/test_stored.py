"""Stored data that are incomplete, damaged, or change under a run: refused, never read as values.

What is not stored must not become fill values, and what is broken is named by its rows.
"""

import json
import os
import shutil
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from numcodecs import Blosc
from zarr.codecs import BloscCodec, BytesCodec, ShardingCodec

import dhsic
from dhsic.cli import main
from dhsic.errors import DataError, DependentRowsWarning
from tests.test_missing import FUNCTIONS, RUNS

# Few rows, of which conditional tests warn.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

N = 200
X, Y, Z = np.random.default_rng(0).normal(3.0, 1.0, (3, N, 1))
QUICK = {"kernels": "gaussian", "rng": 0, "threads": 1}
TEST = ("--variable", "x", "--variable", "y", "--kernel", "gaussian")


def write(folder, **options):
    """Three independent variables in chunks of 50 rows, by their paths."""
    asked = {"chunks": (50, 1), **options}
    paths = [str(folder / f"{name}.zarr") for name in "xyz"]
    for path, values in zip(paths, (X, Y, Z), strict=True):
        zarr.create_array(path, data=values, **asked)
    return paths


@pytest.fixture
def paths(tmp_path):
    return write(tmp_path)


def lose(*paths, chunk="c/1/0"):
    for path in paths:
        os.remove(f"{path}/{chunk}")


def allowed(paths):
    return [dhsic.stored_array(path, allow_missing_chunks=True) for path in paths]


def refused(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 2, done.stderr
    return done.stderr


# Absent chunks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FUNCTIONS)
def test_absent_chunks__are_refused_by_every_function_unless_they_are_allowed(name, paths):
    lose(paths[0])
    told = r"lacks 1 stored chunk, of rows 50 to 99, which would be read as 0.*--allow-missing-ch"
    with pytest.raises(DataError, match=told):
        FUNCTIONS[name](*paths)
    FUNCTIONS[name](*allowed(paths))


def test_absent_chunks__are_allowed_by_an_option_of_the_command(tmp_path):
    for name, path in zip("xy", write(tmp_path)[:2], strict=True):
        shutil.move(path, tmp_path / "g.zarr" / name)
    zarr.create_group(tmp_path / "g.zarr", overwrite=False)
    lose(f"{tmp_path}/g.zarr/x")
    assert "rows 50 to 99" in refused("plan", tmp_path / "g.zarr", *TEST)
    words = ["plan", str(tmp_path / "g.zarr"), *TEST, "--allow-missing-chunks"]
    assert CliRunner().invoke(main, words).exit_code == 0


def test_absent_chunks__no_longer_make_evidence_without_a_word(tmp_path):
    x, y = np.random.default_rng(1).normal(3.0, 1.0, (2, 10_000, 1))
    paths = [str(tmp_path / name) for name in ("x", "y")]
    for path, values in zip(paths, (x, y), strict=True):
        zarr.create_array(path, data=values, chunks=(1000, 1))
    options = {"kernels": "gaussian", "estimator": "nystrom-hsic", "rng": 0}
    assert dhsic.independence_test(*paths, **options).pvalue > 0.01
    lose(*paths, chunk="c/3/0")
    with pytest.raises(DataError, match="rows 3000 to 3999"):
        dhsic.independence_test(*paths, **options)
    with pytest.warns(DependentRowsWarning):  # rows of the absent chunk are alike in both
        found = dhsic.independence_test(*allowed(paths), **options)
    assert found.pvalue < 0.01
    assert [one.absent for one in found.data] == [1, 1]
    assert "1 chunk of x absent, read as the fill value" in str(found)
    with pytest.raises(DataError, match="variable 'y' lacks"):  # allowed of the first alone
        dhsic.plan(allowed(paths)[0], paths[1])


ABSENT = {
    "ranges that touch": (["c/0/0", "c/1/0", "c/2/0"], {}, "3 stored chunks, of rows 0 to 149, wh"),
    "any columns": (["c/3/1"], {}, "rows 150 to 199"),
    "another fill value": (["c/1/0"], {"fill_value": -7.0}, "would be read as -7"),
    "format 2": (["1.0"], {"zarr_format": 2}, "1 stored chunk, of rows 50 to 99, which"),
    "shards": (["c/1/0"], {"shards": (100, 2)}, "of rows 100 to 199, which"),
}


@pytest.mark.parametrize("case", ABSENT)
def test_absent_chunks__are_told_as_they_lie(case, tmp_path):
    gone, options, told = ABSENT[case]
    path = str(tmp_path / "wide.zarr")
    zarr.create_array(path, data=np.hstack([X, Y]), **{"chunks": (50, 1), **options})
    for chunk in gone:
        lose(path, chunk=chunk)
    with pytest.raises(DataError, match=told):
        dhsic.plan(path, Y)


def test_absent_chunks__whose_fill_value_is_nan_are_missing_values(tmp_path):
    paths = write(tmp_path, fill_value=float("nan"))
    lose(paths[0])
    with pytest.raises(DataError, match="has NaN or infinity, first in row 50"):
        dhsic.independence_test(*paths[:2], **QUICK)
    found = dhsic.independence_test(*paths[:2], missing="drop", **QUICK)
    assert (found.n, found.dropped, found.data[0].absent) == (N - 50, 50, 1)


@pytest.mark.parametrize("location", ["start", "end"])
def test_shards__tell_chunks_that_are_absent_within(tmp_path, location):
    codec = ShardingCodec(chunk_shape=(10, 1), index_location=location)
    options = {"shape": (250, 1), "chunks": (100, 1), "dtype": "f8", "compressors": None}
    array = zarr.create_array(tmp_path / "x.zarr", serializer=codec, **options)
    for start, stop in [(0, 40), (60, 100), (200, 250)]:
        array[start:stop] = 1.0 + np.arange(start, stop)[:, None]
    y = np.random.default_rng(0).normal(size=250)
    with pytest.raises(DataError, match="of rows 40 to 59, rows 100 to 199, which"):
        dhsic.plan(array, y)
    dhsic.plan(dhsic.stored_array(array, allow_missing_chunks=True), y)
    array[:] = 1.0 + np.arange(250)[:, None]
    assert dhsic.hsic(array, y, rng=0).data[0].absent == 0


# Broken chunks -----------------------------------------------------------------------------------


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
CUTS = {"empty": lambda data: b"", "one byte": lambda data: data[:1]} | {
    f"without {cut}": lambda data, cut=cut: data[:-cut] for cut in (1, 8, 36, 100)
}


def written(place, layout, values=Y[:, 0]):
    options = {"chunks": (50,), "shape": (N,), "dtype": "f8", **LAYOUTS[layout]}
    array = zarr.create_array(place, config={"write_empty_chunks": True}, **options)
    array[:] = values
    return array


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cut_off_chunk__is_refused_with_its_rows(layout, cut, tmp_path):
    array = written(tmp_path / "y.zarr", layout)
    place = tmp_path / "y.zarr" / array.metadata.encode_chunk_key((2,))
    place.write_bytes(CUTS[cut](place.read_bytes()))
    allow = (list(CUTS).index(cut) + list(LAYOUTS).index(layout)) % 2 == 0
    y = dhsic.stored_array(tmp_path / "y.zarr", allow_missing_chunks=allow)
    with pytest.raises(DataError, match="rows 100 to 149"):
        dhsic.hsic(X, y, **QUICK)


def test_chunk__of_garbage_is_named_with_its_variable(paths):
    with open(f"{paths[0]}/c/2/0", "wb") as chunk:
        chunk.write(b"garbage")
    told = r"rows .* of variable 'x' cannot be read \(.*/x\.zarr/c/2/0.*\): is the data complete"
    with pytest.raises(DataError, match=told):
        dhsic.hsic(*paths, **QUICK)


@pytest.mark.parametrize("missing", ["drop", "pairwise"])
def test_empty_shard__that_would_be_read_as_nan_is_refused(missing, tmp_path):
    options = {"chunks": (10, 1), "shards": (50, 1), "fill_value": np.nan}
    zarr.create_array(tmp_path / "y.zarr", data=Y, **options)
    (tmp_path / "y.zarr" / "c" / "2" / "0").write_bytes(b"")
    with pytest.raises(DataError, match="rows 100 to 149"):
        dhsic.hsic(X, tmp_path / "y.zarr", missing=missing, **QUICK)


@pytest.mark.parametrize("layout", ["format 2", "format 3", "shards"])
def test_rows__that_metadata_promise_and_no_chunk_holds_are_refused(layout, tmp_path):
    written(tmp_path / "y.zarr", layout).resize((N + 100,))
    with pytest.raises(DataError, match="of rows 200 to 299, which would be read as 0"):
        dhsic.hsic(np.r_[X, X[:100]], tmp_path / "y.zarr", **QUICK)


@pytest.mark.parametrize("door", ["path", "group", "arrays"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_rows__written_after_the_metadata_were_consolidated_count(door, zarr_format, tmp_path):
    folder, columns = tmp_path / "g.zarr", {"x": X[:, 0], "y": Y[:, 0]}
    group = zarr.create_group(folder, zarr_format=zarr_format)
    for name, values in columns.items():
        group.create_array(name, data=values[:100], chunks=(50,))
    with pytest.warns(UserWarning, match="onsolidated") if zarr_format == 3 else nullcontext():
        zarr.consolidate_metadata(folder, zarr_format=zarr_format)
    opened = zarr.open_group(folder, mode="r")
    arrays = [opened[name] for name in "xy"]
    for name, values in columns.items():
        group[name].append(values[100:])
    group.create_array("z", data=X)
    variables, options = {
        "path": (("x", "y"), {"data": folder}),
        "group": (("x", "y"), {"data": opened}),
        "arrays": (arrays, {}),
    }[door]
    found = dhsic.hsic(*variables, **options, **QUICK)
    assert (found.n, found.estimate) == (N, pytest.approx(dhsic.hsic(X, Y, **QUICK).estimate))
    assert dhsic.plan(data=folder).variables[-1] == "z"


@pytest.mark.parametrize("allow", [False, True])
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_folder_or_pipe__in_the_place_of_a_chunk_is_refused(make, allow, paths):
    lose(paths[0])
    make(f"{paths[0]}/c/1/0")
    source = dhsic.stored_array(paths[0], allow_missing_chunks=allow)
    told = "chunk 1 along the rows of variable 'x' must be a file, not a folder or pipe"
    with pytest.raises(DataError, match=told):
        dhsic.plan(source, paths[1])


# Metadata ----------------------------------------------------------------------------------------


@pytest.fixture(params=[2, 3])
def metadata(request, tmp_path):
    """The metadata of x in a group of x and y."""
    group = zarr.create_group(tmp_path / "g.zarr", zarr_format=request.param)
    for name, values in (("x", X), ("y", Y)):
        group.create_array(name, data=values, chunks=(50, 1))
    return tmp_path / "g.zarr" / "x" / (".zarray" if request.param == 2 else "zarr.json")


@pytest.mark.parametrize("chunk", [0, -1, "a", None, 1.5, 10**30])
def test_metadata__with_impossible_chunks_are_refused(metadata, chunk):
    told = json.loads(metadata.read_text())
    if "chunks" in told:
        told["chunks"] = [chunk, 1]
    else:
        told["chunk_grid"]["configuration"]["chunk_shape"] = [chunk, 1]
    metadata.write_text(json.dumps(told))
    assert "metadata of " in refused("test", metadata.parents[1], *TEST)
    with pytest.raises(DataError):
        dhsic.hsic(str(metadata.parent), Y)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "{}", "", "null", None])
def test_metadata__that_are_none_are_refused(metadata, text):
    metadata.unlink()
    if text is None:
        os.mkfifo(metadata)
    else:
        metadata.write_text(text)
    refused("test", metadata.parents[1], *TEST)
    with pytest.raises(DataError, match=r"not a readable zarr array|pipe"):
        dhsic.hsic(str(metadata.parent), Y)


def test_store__of_zarr_by_another_library_is_listed(tmp_path):
    stores = pytest.importorskip("obstore.store", reason="obstore is not installed")
    place = zarr.storage.ObjectStore(stores.LocalStore(tmp_path), read_only=False)
    array = zarr.create_array(place, name="x", data=X, chunks=(50, 1))
    found = dhsic.hsic(array, Y, **QUICK)
    assert found.estimate == dhsic.hsic(X, Y, **QUICK).estimate
    assert (found.data[0].chunks, found.data[0].stored_bytes > 0) == (4, True)
    lose(tmp_path / "x")
    with pytest.raises(DataError, match="lacks 1 stored chunk, of rows 50 to 99"):
        dhsic.hsic(array, Y, **QUICK)


# Data that change under a run --------------------------------------------------------------------


class DataSet:
    """As of h5py: rows in a file that it names; something happens when they are read."""

    shape, ndim, dtype, chunks = (N, 1), 2, np.dtype("f8"), None

    def __init__(self, path, read=lambda: None):
        self.file, self.read = SimpleNamespace(filename=str(path)), read
        path.write_bytes(Z.tobytes())

    def __getitem__(self, rows):
        self.read()
        return np.fromfile(self.file.filename).reshape(self.shape)[rows]


def touch(path):
    """As a writer leaves a chunk of the same size."""
    told = os.stat(path)
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns + 10**9))


def grow(path):
    told = os.stat(path)
    with open(path, "ab") as file:
        file.write(b"more")
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))


@pytest.mark.parametrize("name", RUNS)
def test_change__under_a_run_of_any_function_is_an_error(name, tmp_path, paths):
    """Another variable is read while a chunk of the first one is written."""
    other = DataSet(tmp_path / "d.h5", read=lambda: touch(f"{paths[0]}/c/2/0"))
    with pytest.raises(DataError, match=r"data of variable '[xy]' changed during the run"):
        FUNCTIONS[name](paths[0], other, Y)


@pytest.mark.parametrize("change", [grow, os.remove])
def test_change__of_any_kind_is_an_error(change, tmp_path, paths):
    chunk, done = f"{paths[0]}/c/2/0", []
    other = DataSet(tmp_path / "d.h5", read=lambda: done or done.append(change(chunk)))
    with pytest.raises(DataError, match=r"changed during the run|c/2/0"):
        dhsic.hsic(*allowed(paths[:1]), other, **QUICK)


def test_change__of_hdf5_is_an_error(tmp_path):
    path = tmp_path / "d.h5"
    found = dhsic.hsic(DataSet(path), Y, rng=0)
    assert [(one.chunks, one.stored_bytes) for one in found.data] == [(1, X.nbytes)]
    with pytest.raises(DataError, match="'x1' changed during the run"):
        dhsic.hsic(DataSet(path, read=lambda: touch(path)), Y, rng=0)


def test_result__tells_what_was_stored(paths):
    found = dhsic.hsic(*paths[:2], **QUICK)
    assert [(one.name, one.chunks, one.absent) for one in found.data] == [("x", 4, 0), ("y", 4, 0)]
    assert all(one.stored_bytes > 0 for one in found.data)
    zarr.open_array(paths[0], mode="r+")[7] = 1.0
    after = dhsic.hsic(*paths[:2], **QUICK)
    assert found.data[0].digest != after.data[0].digest
    assert found.data[1] == after.data[1]
    assert dhsic.DependenceEstimate.from_json(after.to_json()).data == after.data
