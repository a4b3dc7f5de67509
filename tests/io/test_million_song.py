"""The Million Song text file: exact values, errors that name the line, bounded memory."""

import gzip
import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io import million_song, zarr_output
from dhsic.io.million_song import convert_million_song

DATA = Path(os.environ.get("DHSIC_DATA", Path(__file__).parents[3] / "shared/data"))


def song(year=2001, first=49.94357):
    return f"{year},{first}" + ",-0.12345" * 89


def text_file(folder, *lines):
    path = folder / "YearPredictionMSD.txt"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("latin-1"))
    return path


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def convert(path, **options):
    destination = path.with_name("songs.zarr")
    written = convert_million_song(path, destination, **options)
    group = zarr.open_group(destination, mode="r")
    return written, group["features"][:], group["year"][:]


def test_convert_million_song__keeps_year_and_features(tmp_path):
    path = text_file(tmp_path, song(2001, 1.5), song(1922, 65735.12345))
    written, features, year = convert(path)
    assert written.rows == 2
    assert written.shapes == {"features": (2, 90), "year": (2, 1)}
    assert year.tolist() == [[2001.0], [1922.0]]
    assert features[:, 0].tolist() == [1.5, 65735.12345]
    assert (features[:, 1:] == -0.12345).all()


def test_convert_million_song__reproduces_the_real_songs(tmp_path):
    source = DATA / "msd/msd_first1176.parquet"
    if not source.exists():
        pytest.skip(f"needs {source} (set DHSIC_DATA)")
    table = pytest.importorskip("pandas").read_parquet(source).to_numpy(float)
    lines = (f"{row[0]:.0f}," + ",".join(f"{v:.5f}" for v in row[1:]) for row in table)
    _, features, year = convert(text_file(tmp_path, *lines))
    np.testing.assert_array_equal(np.hstack([year, features]), table)


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\n\n \n"])
def test_convert_million_song__accepts_any_end_of_file(tmp_path, ending):
    path = tmp_path / "songs.txt"
    path.write_bytes(f"{song()}\r\n{song()}{ending}".encode())
    assert convert(path)[0].rows == 2


def test_convert_million_song__accepts_trailing_empty_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(million_song, "_BLOCK_BYTES", 1)
    assert convert(text_file(tmp_path, song(), song(), "", ""))[0].rows == 2


def test_convert_million_song__reads_zip(tmp_path):
    path = tmp_path / "any-name.bin"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("YearPredictionMSD.txt", song(1990) + "\n")
        archive.writestr("__MACOSX/._YearPredictionMSD.txt", "junk")
    assert convert(path)[2].tolist() == [[1990.0]]


def test_convert_million_song__reads_gzip(tmp_path):
    path = tmp_path / "songs.txt.gz"
    path.write_bytes(gzip.compress(f"{song(1990)}\n".encode()))
    assert convert(path)[2].tolist() == [[1990.0]]


@pytest.mark.parametrize("members", [[], ["a.txt", "b.txt"]])
def test_convert_million_song__refuses_a_zip_without_one_text(tmp_path, members):
    path = tmp_path / "songs.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.md", "")
        for member in members:
            archive.writestr(member, song())
    with pytest.raises(DataError, match=f"exactly one .txt file, got {len(members)}"):
        convert(path)
    assert names(tmp_path) == ["songs.zip"]


@pytest.mark.parametrize("kind", ["zip", "gz"])
def test_convert_million_song__refuses_damaged_archives(tmp_path, kind):
    path = tmp_path / "songs"
    whole = tmp_path / "whole"
    lines = "".join(song(1950 + i % 50, i) + "\n" for i in range(500))
    if kind == "zip":
        with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("songs.txt", lines)
    else:
        whole.write_bytes(gzip.compress(lines.encode()))
    path.write_bytes(whole.read_bytes()[:-200])
    whole.unlink()
    with pytest.raises(DataError, match="cannot read"):
        convert(path)
    assert names(tmp_path) == ["songs"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,2,3", r"line 3 of .* has 3 fields \('1,2,3'\).*91 finite numbers"),
        (song() + ",1", "line 3 of .* has 92 fields"),
        (song(first="abc"), "line 3 of .* has 'abc' as field 2"),
        (song(first=""), "line 3 of .* has '' as field 2"),
        (song(first="nan"), "line 3 of .* has 'nan' as field 2"),
        (song(year="inf"), "line 3 of .* has 'inf' as field 1"),
        (song(first="1e999"), "line 3 of .* has '1e999' as field 2"),
        (song(first="1_0"), "line 3 of .* has '1_0' as field 2"),
        (song(first="4\xb2"), "line 3 of .* has '4\xb2' as field 2"),
        (song(first="# 1"), "line 3 of .* has '# 1' as field 2"),
        ("", "line 3 of .* is empty"),
        ("  ", "line 3 of .* is empty"),
    ],
)
@pytest.mark.parametrize("block_bytes", [1, 2**20])
def test_convert_million_song__names_the_malformed_line(
    tmp_path, monkeypatch, line, message, block_bytes
):
    monkeypatch.setattr(million_song, "_BLOCK_BYTES", block_bytes)
    path = text_file(tmp_path, song(), song(), line, song())
    with pytest.raises(DataError, match=message):
        convert(path)
    assert names(tmp_path) == ["YearPredictionMSD.txt"]


def test_convert_million_song__refuses_other_files(tmp_path):
    path = tmp_path / "songs.parquet"
    path.write_bytes(b"PAR1\x00\xff\xfe\n" + bytes(range(256)) * 10)
    with pytest.raises(DataError, match=r"line 1 of .* has 1 fields"):
        convert(path)


@pytest.mark.parametrize("lines", [[], ["", ""]])
def test_convert_million_song__refuses_an_empty_file(tmp_path, lines):
    with pytest.raises(DataError, match=r"YearPredictionMSD\.txt is empty"):
        convert(text_file(tmp_path, *lines))
    assert names(tmp_path) == ["YearPredictionMSD.txt"]


def test_convert_million_song__refuses_a_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"absent\.txt is not a file"):
        convert(tmp_path / "absent.txt")
    assert names(tmp_path) == []


def test_convert_million_song__shuffles_whole_rows(tmp_path):
    path = text_file(tmp_path, *(song(1000 + i, i) for i in range(300)))
    _, features, year = convert(path, shuffle=1)
    order = features[:, 0]
    assert sorted(order) == list(range(300))
    assert order.tolist() != sorted(order)
    np.testing.assert_array_equal(year[:, 0], 1000 + order)
    _, again, _ = convert(path, shuffle=2, overwrite=True)
    assert not np.array_equal(again[:, 0], order)


def test_convert_million_song__overwrites_when_told(tmp_path):
    convert(text_file(tmp_path, song()))
    path = text_file(tmp_path, song(), song())
    with pytest.raises(InvalidArgumentError, match="overwrite=True"):
        convert(path)
    assert convert(path, overwrite=True)[0].rows == 2


@pytest.mark.parametrize(
    ("shuffle", "expected"), [(None, [2, 4, 5]), (0, [2, 4, 5, 5])], ids=["ordered", "shuffled"]
)
def test_convert_million_song__reports_progress(tmp_path, monkeypatch, shuffle, expected):
    path = text_file(tmp_path, *[song()] * 5)
    monkeypatch.setattr(million_song, "_BLOCK_BYTES", len(song()) + 2)
    monkeypatch.setattr("dhsic.io.shuffle._bucket", lambda scratch, number: scratch / "one")
    seen = []
    convert(path, shuffle=shuffle, progress=seen.append)
    assert seen == expected


@pytest.mark.parametrize("shuffle", [None, 0])
@pytest.mark.parametrize("call", [1, 2])
def test_convert_million_song__leaves_nothing_behind_when_interrupted(tmp_path, shuffle, call):
    path = text_file(tmp_path, *[song()] * 10_000)
    calls = []

    def interrupt(rows):
        calls.append(rows)
        if len(calls) == call:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(path, shuffle=shuffle, progress=interrupt)
    assert names(tmp_path) == ["YearPredictionMSD.txt"]


def test_convert_million_song__does_not_hold_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(million_song, "_BLOCK_BYTES", 2**19)
    monkeypatch.setattr(zarr_output, "_CHUNK_BYTES", 2**20)
    path = text_file(tmp_path, *[song()] * 30_000)
    tracemalloc.start()
    convert_million_song(path, tmp_path / "songs.zarr")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.3 * 30_000 * 91 * 8
