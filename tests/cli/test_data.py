"""`dhsic generate`, `dhsic convert` and `dhsic demo`."""

import re
from contextlib import contextmanager

import numpy as np
import pytest
import zarr

TABLE = "a,b,c,label\n" + "".join(f"{i},{i / 2},{-i},{'uv'[i % 2]}\n" for i in range(50))


def read(path, name):
    return zarr.open_group(path, mode="r")[name][:]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text(TABLE)
    return tmp_path


@pytest.mark.parametrize(
    ("more", "array"),
    [("--seed 1", "features"), ("--dependence 0.9", "year"), ("--dtype float64", "features")],
)
def test_generate__follows_its_options(more, array, here, invoke):
    done = invoke("generate a.zarr --rows 300 --features 4")
    assert done.stdout.endswith("/a.zarr: features 300 x 4, year 300 x 1\n")
    assert invoke(f"generate b.zarr --rows 300 --features 4 {more}").exit_code == 0
    first, second = read("a.zarr", array), read("b.zarr", array)
    assert first.dtype == np.float32
    assert first.dtype != second.dtype or not np.array_equal(first, second)


def test_generate__replaces_nothing_unless_asked(here, invoke):
    for rows, more, code in ((30, "", 0), (40, "", 2), (50, "--overwrite", 0)):
        assert invoke(f"generate out.zarr --rows {rows} {more}").exit_code == code
        assert len(read("out.zarr", "year")) == (rows if code == 0 else 30)


def test_million_song__has_features_and_years(here, invoke):
    rows = np.column_stack([np.arange(2000, 2040), np.ones((40, 90))]).astype(int)
    np.savetxt("songs.txt", rows, fmt="%d", delimiter=",")
    done = invoke("convert million-song songs.txt out.zarr")
    assert done.stdout.endswith("/out.zarr: features 40 x 90, year 40 x 1\n")
    assert read("out.zarr", "year")[:, 0].tolist() == list(range(2000, 2040))
    assert invoke("convert million-song songs.txt out.zarr --overwrite --shuffle 1").exit_code == 0
    shuffled = read("out.zarr", "year")[:, 0].tolist()
    assert sorted(shuffled) == list(range(2000, 2040)) != shuffled


CONVERTED = {
    "plain": (TABLE, "--variable 'x=a, b'", [[0, 0], [1, 0.5]]),
    "delimiter": (TABLE.replace(",", ";"), "--variable x=a,b --delimiter ';'", [[0, 0], [1, 0.5]]),
    "quoted names": ('"a, mean",b\n1,2\n3,4\n', """--variable 'x="a, mean",b'""", [[1, 2], [3, 4]]),
    "missing": ("a,b\n,1\n1,2\n3,4\n", "--variable x=a --missing drop", [[1], [3]]),
    "na value": ("a\n1\n?\n3\n", "--variable x=a --na-value ? --missing drop", [[1], [3]]),
    "decimal": ("a\n0,5\n12,5\n", "--variable x=a --delimiter ';' --decimal ,", [[0.5], [12.5]]),
    "thousands": ('a\n"1,234"\n7\n', "--variable x=a --thousands , --numeric a", [[1234], [7]]),
    "categorical": ("a\n7\n9\n7\n", "--variable x=a --categorical a", [[0], [1], [0]]),
    "encoding": ("é,b\n1,2\n3,4\n", "--variable x=é --encoding latin-1", [[1], [3]]),
    "quotes": ('a,b\n1,"x\n2,y\n', "--variable x=a --quotes none", [[1], [2]]),
}


@pytest.mark.parametrize("case", CONVERTED)
def test_table__is_read_as_its_options_say(case, here, invoke):
    text, options, rows = CONVERTED[case]
    (here / "in.csv").write_text(text, encoding="latin-1" if case == "encoding" else "utf-8")
    done = invoke(f"convert table in.csv out.zarr {options}")
    assert (done.exit_code, done.stderr) == (0, "")
    assert read("out.zarr", "x")[:2].tolist() == rows[:2]
    if case not in ("plain", "quoted names"):
        without = re.sub(r" --(?!variable|missing)\S+ \S+", "", options).replace(
            " --missing drop", ""
        )
        again = invoke(f"convert table in.csv again.zarr {without}")
        assert again.exit_code == 2 or not np.array_equal(read("again.zarr", "x")[:2], rows[:2])


def test_table__tells_of_every_column_and_is_shuffled(here, invoke):
    (here / "in.csv").write_text("a,price,wind,code\n1,2,N,7\nhm,3,?,8\n4,,S,7\n5,6,N,9\n")
    line = "convert table in.csv out.zarr --variable x=a,price --variable y=wind,code"
    done = invoke(line)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "'hm' in line 3" in done.stderr
    done = invoke(f"{line} --numeric a --categorical code --na-value ? --missing drop")
    told = [text.split() for text in done.stdout.splitlines()[-4:]]
    assert told == [
        ["a", "x", "string", "numbers", "0", "1"],
        ["price", "x", "int64", "numbers", "1", "0"],
        ["wind", "y", "string", "labels", "1", "0", "1:", "N"],
        ["code", "y", "int64", "labels", "0", "0", "2:", "7,", "9"],
    ]
    (here / "in.csv").write_text(TABLE)
    line = "convert table in.csv s.zarr --variable x=a --variable label=label"
    assert invoke(f"{line} --shuffle 1").exit_code == 0
    shuffled = read("s.zarr", "x")[:, 0].tolist()
    assert sorted(shuffled) == list(range(50)) != shuffled
    group = zarr.open_group("s.zarr", mode="r")
    assert group["label"].attrs["kind"] == "categorical"
    np.testing.assert_array_equal(group["label"][:, 0], np.array(shuffled) % 2)


def test_demo__tells_dependent_from_independent_data(here, invoke, monkeypatch):
    """On threads: local workers are started by other tests."""

    @contextmanager
    def on_threads(workers):
        yield None

    monkeypatch.setattr("dhsic.cli.app.local_cluster", on_threads)
    monkeypatch.setattr("tempfile.tempdir", str(here))
    before = sorted(here.iterdir())
    done = invoke("demo --rows 5000 --features 10")
    assert (done.exit_code, done.stderr) == (0, "")
    rows = [re.split(r"\s{2,}", line) for line in done.stdout.splitlines()[2:]]
    assert [(row[0], row[-1]) for row in rows] == [
        ("dependent", "rejected at level 0.05"),
        ("independent", "not rejected at level 0.05"),
    ]
    assert sorted(here.iterdir()) == before
    small = "demo --rows 1000 --features 4 --keep kept"
    kept, other = invoke(small), invoke(f"{small} --seed 1 --overwrite")
    assert kept.stdout.splitlines()[3] != other.stdout.splitlines()[3]
    assert read("kept/independent.zarr", "features").shape == (1000, 4)
    assert "dhsic test kept/dependent.zarr --variable features" in kept.stdout
    assert invoke(small).exit_code == 2
