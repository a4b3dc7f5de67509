"""Groups that commands write: whole or not there, and what is in them."""

import errno
import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr
from click.testing import CliRunner

from dhsic.cli import main
from dhsic.errors import InvalidArgumentError
from dhsic.io.synthetic import generate, synthetic


def run(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


def refused(*words):
    code, out, said = run(*words)
    assert (code, out) == (2, ""), said
    return said


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def read(place):
    return {name: array[:] for name, array in zarr.open_group(place, mode="r").arrays()}


def song(year=2001, first=49.94357):
    return f"{year},{first}" + ",-0.12345" * 89


def text_file(folder, *lines):
    path = folder / "songs.txt"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("latin-1"))
    return path


# Commands that write a group of many rows, by the file that they read.
WRITERS = {
    "generate": lambda folder: ("generate", "OUT", "--rows", 9000, "--features", 3),
    "million-song": lambda folder: (
        "convert", "million-song", text_file(folder, *[song()] * 2000), "OUT",
    ),
    "table": lambda folder: (
        "convert", "table", text_file(folder, "x", *range(2000)).rename(folder / "t.csv"), "OUT",
        "--variable", "v=x", "--shuffle", "0",
    ),
}  # fmt: skip


@pytest.fixture(params=WRITERS)
def command(request, tmp_path):
    """A command, and the folder in which it writes."""
    words = WRITERS[request.param](tmp_path)
    out = tmp_path / "out" / "g.zarr"
    out.parent.mkdir()
    return [out if word == "OUT" else word for word in words], out


def test_group__is_replaced_only_when_that_is_told(command):
    words, out = command
    assert run(*words)[0] == 0
    before = read(out)
    assert "--overwrite" in refused(*words)
    assert run(*words, "--overwrite")[0] == 0
    for name, values in read(out).items():
        np.testing.assert_array_equal(values, before[name])
    assert names(out.parent) == ["g.zarr"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left")])
def test_group__that_is_not_complete_leaves_what_was_there(command, error, monkeypatch):
    words, out = command
    rename = Path.rename

    def stopped(self, target):
        if Path(target) == out and self.name == "group":
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", stopped)
    assert run(*words)[0] != 0
    assert names(out.parent) == []
    monkeypatch.undo()
    assert run(*words)[0] == 0
    monkeypatch.setattr(Path, "rename", stopped)
    code, _, said = run(*words, "--overwrite")
    assert code != 0
    assert error is KeyboardInterrupt or "No space left" in said
    assert names(out.parent) == ["g.zarr"]
    assert len(read(out)) > 0


def test_group__is_not_written_over_other_things(command):
    words, out = command
    out.mkdir()
    assert "not a zarr group" in refused(*words, "--overwrite")
    lost = [out.parent / "absent" / "g.zarr" if word == out else word for word in words]
    assert "not a folder: create it first" in refused(*lost)


def test_group__makes_damage_visible(command):
    words, out = command
    assert run(*words)[0] == 0
    name = sorted(read(out))[0]
    chunks = [one for one in (out / name / "c").rglob("*") if one.is_file()]
    content = bytearray(chunks[0].read_bytes())
    content[len(content) // 2] ^= 1
    chunks[0].write_bytes(content)
    test = ("test", out, "--variable", name, "--variable", f"b={name}", "--kernel", "gaussian")
    assert "cannot be read" in refused(*test)
    chunks[0].unlink()
    assert "lacks 1 stored chunk" in refused(*test) or "NaN" in refused(*test)


@pytest.mark.parametrize("name", ["a/b", ".x", "zarr.json", "x[0]", ""])
def test_names__that_cannot_be_stored_or_asked_for_are_refused(name, tmp_path):
    table = text_file(tmp_path, "x", 1, 2).rename(tmp_path / "t.csv")
    refused("convert", "table", table, tmp_path / "o.zarr", "--variable", f"{name}=x")
    assert names(tmp_path) == ["t.csv"]


def test_rows__that_would_fill_the_disk_are_refused(tmp_path):
    out = tmp_path / "o.zarr"
    assert "rows must fit the disk" in refused("generate", out, "--rows", "9" * 18)
    wide = refused("generate", out, "--rows", 1, "--features", 10**9)
    assert "columns must fit the memory" in wide
    assert names(tmp_path) == []


TEST = ("--variable", "x", "--variable", "y", "--kernel", "gaussian")


def test_json__that_is_there_stays_when_its_successor_is_not_complete(tmp_path, monkeypatch):
    table = text_file(tmp_path, "x,y", *(f"{j},{j * j % 7}" for j in range(20)))
    table.rename(tmp_path / "t.csv")
    out = tmp_path / "out.json"
    words = ("test", tmp_path / "t.csv", *TEST, "--json", out)
    assert run(*words)[0] == 0
    before = out.read_text()

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    assert run(*words)[0] != 0
    assert out.read_text() == before
    assert names(tmp_path) == ["out.json", "t.csv"]


# Million Song ------------------------------------------------------------------------------------


def convert(path, *options):
    out = path.with_name("o.zarr")
    code, _, said = run("convert", "million-song", path, out, *options)
    assert code == 0, said
    found = read(out)
    return found["year"][:, 0].tolist(), found["features"]


@pytest.mark.parametrize("form", ["text", "gzip", "zip"])
@pytest.mark.parametrize("ending", ["", "\r\n", "\n\n \n"])
def test_songs__are_read_to_the_last_digit(form, ending, tmp_path):
    content, path = (
        f"{song(2001, 1.5)}\r\n{song(1922, 65735.12345)}{ending}".encode(),
        tmp_path / "s",
    )
    if form == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("YearPredictionMSD.txt", content)
            archive.writestr("__MACOSX/._YearPredictionMSD.txt", "junk")
    else:
        path.write_bytes(gzip.compress(content) if form == "gzip" else content)
    years, features = convert(path)
    assert years == [2001, 1922]
    assert features[:, 0].tolist() == [1.5, 65735.12345]
    assert features.shape == (2, 90)
    assert (features[:, 1:] == -0.12345).all()


def damaged(folder, kind):
    path, lines = folder / "songs", "".join(song(1950 + i % 50, i) + "\n" for i in range(500))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in {"none": ["notes.md"], "two": ["a.txt", "b.txt"]}.get(kind, ["songs.txt"]):
            archive.writestr(name, lines)
    if kind == "gz":
        path.write_bytes(gzip.compress(lines.encode()))
    if kind in ("gz", "zip"):
        path.write_bytes(path.read_bytes()[:-200])
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((lambda f, k=k: damaged(f, k), "cannot read") for k in ("gz", "zip")),
        (lambda f: damaged(f, "none"), "exactly one .txt file, got 0"),
        (lambda f: damaged(f, "two"), "exactly one .txt file, got 2"),
        (lambda f: f / "absent.txt", "absent.txt is not a file"),
        (lambda f: text_file(f, ""), "is empty"),
        *(
            (lambda f, line=line: text_file(f, song(), song(), line, song()), f"line 3 of {told}")
            for line, told in [
                ("1,2,3", "has 3 fields ('1,2,3')"),
                (song() + ",1", "has 92 fields"),
                (song(first="nan"), "has 'nan' as field 2"),
                (song(year="inf"), "has 'inf' as field 1"),
                (song(first="1e999"), "has '1e999' as field 2"),
                (song(first="1_0"), "has '1_0' as field 2"),
                (song(first="4\xb2"), "has '4\xb2' as field 2"),
                ("  ", "is empty"),
            ]
        ),
    ],
)
def test_songs__that_are_none_are_refused_with_the_line(make, message, tmp_path):
    path = make(tmp_path)
    before = names(tmp_path)
    said = refused("convert", "million-song", path, tmp_path / "o.zarr")
    assert message.replace("line 3 of ", "") in said
    assert "line 3" in said or "line 3" not in message
    assert names(tmp_path) == before


# Synthetic songs ---------------------------------------------------------------------------------


def test_synthetic__begins_with_the_shorter_data_and_keeps_features():
    whole = synthetic(9000, seed=3, features=4)
    for rows in (1, 4095, 4096, 4097):
        for part, all_rows in zip(synthetic(rows, seed=3, features=4), whole, strict=True):
            np.testing.assert_array_equal(part, all_rows[:rows])
    assert not np.array_equal(whole[0][:4096], whole[0][4096:8192])
    other = synthetic(9000, seed=3, features=4, dependence=1, dtype="float64")
    np.testing.assert_array_equal(whole[0], other[0])
    assert not np.array_equal(whole[1], other[1])


def test_generate__writes_the_rows_of_synthetic(tmp_path):
    options = {"rows": 9000, "features": 7, "dependence": 0.8, "seed": 5, "dtype": "float64"}
    generate(tmp_path / "s.zarr", **options)
    group = zarr.open_group(tmp_path / "s.zarr", mode="r")
    for name, values in zip(("features", "year"), synthetic(**options), strict=True):
        np.testing.assert_array_equal(group[name][:], values)
        assert group[name].dtype == np.float64
    assert group["year"].attrs["synthetic"] == {"dependence": 0.8, "seed": 5}
    for wrong in ({"rows": 0}, {"seed": -1}, {"dependence": 1.5}, {"dtype": "int8"}):
        with pytest.raises(InvalidArgumentError, match=f"{next(iter(wrong))} must be"):
            generate(tmp_path / "n.zarr", **{"rows": 10, **wrong})
    assert names(tmp_path) == ["s.zarr"]


# Cause-effect pairs ------------------------------------------------------------------------------

PAIR = "".join(f"{j} {j * j % 31}\n" for j in range(60))


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ("1 1 2 1 2 1", "other columns for cause and effect"),
        ("1 1 1 1 2 1", "other columns for cause and effect"),
        ("1 1 1 nan 2 1", "six numbers"),
        ("1 1.7 1.2 2 2 1", "six numbers"),
        ("1 1 1 2 2", "six numbers"),
        ("1 1 1 2 2 -1", "weight of at least 0"),
        ("1 1 1 2 2 1\n1 2 2 1 1 1", "two of pair 1"),
    ],
)
def test_pairs__that_cannot_be_meant_are_refused(meta, said, tmp_path):
    (tmp_path / "pair1.txt").write_text(PAIR)
    (tmp_path / "pairmeta.txt").write_text(meta + "\n")
    assert said in refused("cause", "pairs", tmp_path)
