"""The group writer: what it stores, and that it leaves nothing behind."""

import errno
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import zarr

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.written import WrittenGroup
from dhsic.io.zarr_output import GroupWriter, chunk_rows, new_group

COLUMNS = {"x": 3, "y": 1}


def block(rows, start=0):
    x = np.arange(start, start + rows, dtype=float)
    return {"x": np.stack([x, -x, x / 2], axis=1), "y": x[:, None]}


def write(path, rows=10, start=0, **options):
    with new_group(path, COLUMNS, **options) as writer:
        writer.append(block(rows, start))
    return writer.summary()


def write_and(path, action, rows=5, **options):
    with new_group(path, COLUMNS, **options) as writer:
        (writer.scratch / "bucket").write_text("scratch")
        writer.append(block(rows))
        action()


def raising(error):
    def action():
        raise error

    return action


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize(
    ("columns", "dtype", "rows"),
    [
        ({"x": 90, "y": 1}, "float64", 8192),
        ({"x": 90, "y": 1}, "float32", 16384),
        ({"x": 1, "y": 1}, "float64", 65536),
        ({"x": 5000}, "float64", 1024),
        ({"x": 2_000_000}, "float64", 1024),
        ({"x": 16}, "float64", 65536),
        ({"x": 17}, "float64", 32768),
    ],
)
def test_chunk_rows__fit_the_widest_array_in_8_mib(columns, dtype, rows):
    assert chunk_rows(columns, dtype) == rows


@pytest.mark.parametrize(
    "sizes", [[10], [1, 2, 3], [1024], [1023, 1, 1], [65_536], [40_000, 70_000, 1]]
)
def test_group_writer__stores_blocks_of_any_size_in_order(tmp_path, sizes):
    with new_group(tmp_path / "g.zarr", COLUMNS) as writer:
        for size in sizes:
            writer.append(block(size, writer.rows))
    group = zarr.open_group(tmp_path / "g.zarr", mode="r")
    expected = block(sum(sizes))
    np.testing.assert_array_equal(group["x"][:], expected["x"])
    np.testing.assert_array_equal(group["y"][:], expected["y"])


def test_group_writer__aligns_chunks_of_narrow_and_wide_arrays(tmp_path):
    with new_group(tmp_path / "g.zarr", {"x": 90, "y": 1}) as writer:
        writer.append({"x": np.zeros((9000, 90)), "y": np.zeros((9000, 1))})
    group = zarr.open_group(tmp_path / "g.zarr", mode="r")
    assert group["x"].chunks == (8192, 90)
    assert group["y"].chunks == (8192, 1)


def test_group_writer__gives_short_tables_short_chunks(tmp_path):
    write(tmp_path / "g.zarr", rows=1500)
    assert zarr.open_group(tmp_path / "g.zarr", mode="r")["x"].chunks == (2048, 3)


def test_group_writer__summarises_what_it_wrote(tmp_path):
    written = write(tmp_path / "g.zarr", rows=7)
    assert written == WrittenGroup(tmp_path / "g.zarr", 7, {"x": (7, 3), "y": (7, 1)})
    assert names(tmp_path) == ["g.zarr"]


def test_group_writer__writes_format_3_with_attributes(tmp_path):
    with new_group(tmp_path / "g.zarr", COLUMNS) as writer:
        writer.append(block(3))
        writer.describe("y", kind="categorical")
    group = zarr.open_group(tmp_path / "g.zarr", mode="r")
    assert group.metadata.zarr_format == 3
    assert dict(group["y"].attrs) == {"kind": "categorical"}
    assert dict(group["x"].attrs) == {}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_group_writer__stores_the_dtype(tmp_path, dtype):
    write(tmp_path / "g.zarr", dtype=dtype)
    assert zarr.open_group(tmp_path / "g.zarr", mode="r")["x"].dtype == dtype


def test_group_writer__compresses_unless_told_not_to(tmp_path):
    write(tmp_path / "small.zarr", rows=60_000)
    write(tmp_path / "large.zarr", rows=60_000, compress=False)
    small, large = (
        sum(f.stat().st_size for f in (tmp_path / name).rglob("c/**/*") if f.is_file())
        for name in ("small.zarr", "large.zarr")
    )
    assert large > 60_000 * 4 * 8 > small


@pytest.mark.parametrize("compress", [True, False])
def test_group_writer__makes_damage_visible(tmp_path, compress):
    write(tmp_path / "g.zarr", compress=compress)
    chunk = tmp_path / "g.zarr/x/c/0/0"
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    array = zarr.open_group(tmp_path / "g.zarr", mode="r")["x"]
    with pytest.raises((ValueError, RuntimeError), match=r"checksum|corrupt"):
        array[:]
    chunk.unlink()
    assert np.isnan(array[:]).all()


@pytest.mark.parametrize(
    "bad",
    [
        {"x": np.zeros((2, 3))},
        {"x": np.zeros((2, 3)), "y": np.zeros((3, 1))},
        {"x": np.zeros((2, 2)), "y": np.zeros((2, 1))},
        {"x": np.zeros((2, 3)), "y": np.zeros(2)},
        {},
    ],
)
def test_group_writer__refuses_blocks_that_do_not_fit(tmp_path, bad):
    with (
        pytest.raises(InvalidArgumentError, match="equally many rows"),
        new_group(tmp_path / "g.zarr", COLUMNS) as writer,
    ):
        writer.append(bad)
    assert names(tmp_path) == []


def test_group_writer__holds_two_chunks_whatever_the_length(tmp_path):
    rows = np.zeros((1000, 90))
    tracemalloc.start()
    with new_group(tmp_path / "g.zarr", {"x": 90}) as writer:
        for _ in range(100):
            writer.append({"x": rows})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 100 * rows.nbytes


def test_new_group__is_invisible_until_complete(tmp_path):
    with new_group(tmp_path / "g.zarr", COLUMNS) as writer:
        writer.append(block(5))
        assert [name[:8] for name in names(tmp_path)] == [".g.zarr."]
    assert names(tmp_path) == ["g.zarr"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_new_group__leaves_nothing_behind_on(tmp_path, error):
    with pytest.raises(error):
        write_and(tmp_path / "g.zarr", raising(error), rows=100_000)
    assert names(tmp_path) == []


def test_new_group__waits_for_the_chunk_being_written_before_cleaning_up(tmp_path, monkeypatch):
    store, started = GroupWriter._store, threading.Event()

    def slow(self, *args):
        started.set()
        time.sleep(0.2)
        store(self, *args)

    monkeypatch.setattr(GroupWriter, "_store", slow)

    def interrupt():
        started.wait()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and(tmp_path / "g.zarr", interrupt, rows=70_000)
    assert names(tmp_path) == []


def test_new_group__refuses_an_existing_destination(tmp_path):
    write(tmp_path / "g.zarr")
    with pytest.raises(InvalidArgumentError, match=r"already exists.*overwrite=True"):
        write(tmp_path / "g.zarr")
    assert names(tmp_path) == ["g.zarr"]


def test_new_group__refuses_a_destination_that_appeared_meanwhile(tmp_path):
    with pytest.raises(InvalidArgumentError, match="already exists"):
        write_and(tmp_path / "g.zarr", (tmp_path / "g.zarr").mkdir)
    assert names(tmp_path) == ["g.zarr"]


def test_new_group__overwrites_when_told(tmp_path):
    write(tmp_path / "g.zarr", rows=20)
    write(tmp_path / "g.zarr", rows=5, overwrite=True)
    assert zarr.open_group(tmp_path / "g.zarr", mode="r")["x"].shape == (5, 3)
    assert names(tmp_path) == ["g.zarr"]


def test_new_group__keeps_the_old_group_when_the_new_one_fails(tmp_path):
    write(tmp_path / "g.zarr", rows=20)
    with pytest.raises(KeyboardInterrupt):
        write_and(tmp_path / "g.zarr", raising(KeyboardInterrupt), overwrite=True)
    assert zarr.open_group(tmp_path / "g.zarr", mode="r")["x"].shape == (20, 3)
    assert names(tmp_path) == ["g.zarr"]


def test_new_group__puts_the_old_group_back_when_the_rename_fails(tmp_path, monkeypatch):
    write(tmp_path / "g.zarr", rows=20)
    rename = Path.rename

    def refuse(self, target):
        if self.name == "group":
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    for name in ("g.zarr", "new.zarr"):
        with pytest.raises(DataError, match=rf"cannot write .*{name}: Input/output error"):
            write(tmp_path / name, rows=5, overwrite=True)
    assert zarr.open_group(tmp_path / "g.zarr", mode="r")["x"].shape == (20, 3)
    assert names(tmp_path) == ["g.zarr"]


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_new_group__never_replaces_what_is_no_zarr_group(tmp_path, make):
    make(tmp_path / "photos")
    with pytest.raises(InvalidArgumentError, match="not a zarr group"):
        write(tmp_path / "photos", overwrite=True)
    assert names(tmp_path) == ["photos"]


def test_new_group__refuses_a_missing_folder(tmp_path):
    with pytest.raises(InvalidArgumentError, match="not a folder: create it first"):
        write(tmp_path / "absent/g.zarr")


def test_new_group__says_when_the_disk_is_full(tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("zarr.open_group", full)
    with pytest.raises(DataError, match=r"cannot write .*g\.zarr: No space left"):
        write(tmp_path / "g.zarr")
    assert names(tmp_path) == []


def test_new_group__refuses_to_write_no_rows(tmp_path):
    with pytest.raises(DataError, match="no rows"):
        write(tmp_path / "g.zarr", rows=0)
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["", "a/b", ".x", "__x", "zarr.json", "a=b", "x[0]"])
def test_new_group__refuses_names_that_cannot_be_stored_or_asked_for(tmp_path, name):
    with (
        pytest.raises(InvalidArgumentError, match="cannot name an array"),
        new_group(tmp_path / "g.zarr", {name: 1}),
    ):
        pass


@pytest.mark.parametrize(
    ("columns", "dtype", "message"),
    [
        ({}, "float64", "at least one array"),
        ({"x": 0}, "float64", "at least one column, got 0"),
        ({"x": 1}, "int64", "float32 or float64, not 'int64'"),
        ({"x": 1}, "number", "float32 or float64, not 'number'"),
    ],
)
def test_new_group__refuses_options_out_of_range(tmp_path, columns, dtype, message):
    with (
        pytest.raises(InvalidArgumentError, match=message),
        new_group(tmp_path / "g.zarr", columns, dtype=dtype),
    ):
        pass
    assert names(tmp_path) == []
