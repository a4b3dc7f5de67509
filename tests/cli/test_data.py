"""`dhsic generate` and `dhsic convert`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.cli.conftest import Invoke

TABLE = "a,b,c,label\n" + "".join(f"{i},{i / 2},{-i},{'uv'[i % 2]}\n" for i in range(50))


def read(path: Path, name: str) -> Any:
    return zarr.open_group(path, mode="r")[name][:]


def test_generate(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "out.zarr"
    done = invoke("generate", path, "--rows", 300, "--features", 4)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"wrote {path}: features 300 x 4, year 300 x 1\n"
    assert read(path, "features").shape == (300, 4)
    assert read(path, "features").dtype == np.float32


@pytest.mark.parametrize(
    ("options", "array"),
    [
        (("--seed", 1), "features"),
        (("--dependence", 0.9), "year"),
        (("--dtype", "float64"), "features"),
        (("--features", 5), "features"),
    ],
)
def test_generate_follows_its_options(
    invoke: Invoke, tmp_path: Path, options: tuple[object, ...], array: str
) -> None:
    arrays = []
    for name, more in (("a.zarr", ()), ("b.zarr", options)):
        invoke("generate", tmp_path / name, "--rows", 300, "--features", 4, *more)
        arrays.append(read(tmp_path / name, array))
    assert arrays[0].dtype != arrays[1].dtype or not np.array_equal(*arrays)


def test_nothing_is_replaced_unless_asked(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "out.zarr"
    for rows, more, code in ((30, (), 0), (40, (), 2), (50, ("--overwrite",), 0)):
        done = invoke("generate", path, "--rows", rows, *more)
        assert done.exit_code == code
        assert len(read(path, "year")) == (rows if code == 0 else 30)


def test_convert_million_song(invoke: Invoke, tmp_path: Path) -> None:
    source, path = tmp_path / "songs.txt", tmp_path / "out.zarr"
    rows = np.column_stack([np.arange(2000, 2040), np.ones((40, 90))]).astype(int)
    source.write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
    done = invoke("convert", "million-song", source, path)
    assert done.stdout == f"wrote {path}: features 40 x 90, year 40 x 1\n"
    assert read(path, "year")[:, 0].tolist() == list(range(2000, 2040))
    invoke("convert", "million-song", source, path, "--overwrite", "--shuffle", 1)
    shuffled = read(path, "year")[:, 0].tolist()
    assert sorted(shuffled) == list(range(2000, 2040)) != shuffled


def test_convert_table(invoke: Invoke, tmp_path: Path) -> None:
    source, path = tmp_path / "in.csv", tmp_path / "out.zarr"
    source.write_text(TABLE)
    variables = ("--variable", "left=a, b", "--variable", "label=label")
    done = invoke("convert", "table", source, path, *variables)
    assert (done.exit_code, done.stderr) == (0, "")
    assert read(path, "left")[3].tolist() == [3.0, 1.5]
    assert zarr.open_group(path, mode="r")["label"].attrs["kind"] == "categorical"
    invoke("convert", "table", source, path, *variables, "--overwrite", "--shuffle", 1)
    assert read(path, "left")[3].tolist() != [3.0, 1.5]


def test_convert_table_with_gaps(invoke: Invoke, tmp_path: Path) -> None:
    source, path = tmp_path / "in.csv", tmp_path / "out.zarr"
    source.write_text(TABLE + ",1,2,u\n")
    done = invoke("convert", "table", source, path, "--variable", "a=a")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "missing in row 50" in done.stderr
    done = invoke("convert", "table", source, path, "--variable", "a=a", "--missing", "drop")
    assert done.stdout.startswith(f"wrote {path}: a 50 x 1; 1 rows left out\n")


def test_columns_with_commas_are_quoted(invoke: Invoke, tmp_path: Path) -> None:
    source, path = tmp_path / "in.csv", tmp_path / "out.zarr"
    source.write_text('"a, mean",b\n1,2\n3,4\n')
    done = invoke("convert", "table", source, path, "--variable", 'x="a, mean",b')
    assert done.exit_code == 0, done.stderr
    assert read(path, "x").tolist() == [[1, 2], [3, 4]]


def test_a_variable_twice(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("convert", "table", "in.csv", tmp_path / "o.zarr", *("--variable", "x=a") * 2)
    assert done.exit_code == 2
    assert "'x' is given twice" in done.stderr


def test_convert_table_splits_at_the_delimiter(invoke: Invoke, tmp_path: Path) -> None:
    source, path = tmp_path / "table.csv", tmp_path / "out.zarr"
    source.write_text(TABLE.replace(",", ";"))
    done = invoke("convert", "table", source, path, "--variable", "x=a,b", "--delimiter", ";")
    assert (done.exit_code, done.stderr) == (0, "")
    assert read(path, "x").shape == (50, 2)


def test_convert_table_says_what_became_of_every_column(invoke: Invoke, tmp_path: Path) -> None:
    source, path = tmp_path / "in.csv", tmp_path / "out.zarr"
    source.write_text("a,price,wind,code\n1,2,N,7\nhm,3,?,8\n4,,S,7\n5,6,N,9\n")
    variables = ("--variable", "x=a,price", "--variable", "y=wind,code")
    done = invoke("convert", "table", source, path, *variables)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "'hm' in line 3" in done.stderr
    more = ("--numeric", "a", "--categorical", "code", "--na-value", "?", "--missing", "drop")
    done = invoke("convert", "table", source, path, *variables, *more)
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert lines[0][-3:] == ["rows", "left", "out"]
    assert lines[1] == [
        "column",
        "array",
        "type",
        "read",
        "as",
        "missing",
        "rejected",
        "categories",
    ]
    assert lines[3:] == [
        ["a", "x", "string", "numbers", "0", "1"],
        ["price", "x", "int64", "numbers", "1", "0"],
        ["wind", "y", "string", "labels", "1", "0", "1:", "N"],
        ["code", "y", "int64", "labels", "0", "0", "2:", "7,", "9"],
    ]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (("test", "--variable", "a", "--variable", "b,label"), "b,label (2 columns, "),
        (("plan", "--variable", "a", "--variable", "b"), "50 rows of a, b"),
        (("rank", "--features", "f=a,c,label", "--target", "b"), "features   3"),
        (("two-sample", "--sample", "a", "--sample", "c"), "samples      a (50), c (50)"),
        (("interaction", *("--variable", "a", "--variable", "b", "--variable", "c")), "variables "),
    ],
)
def test_tables_are_data_of_commands(
    invoke: Invoke, tmp_path: Path, command: tuple[str, ...], shown: str
) -> None:
    source = tmp_path / "in.csv"
    source.write_text(TABLE)
    done = invoke(command[0], source, *command[1:])
    assert (done.exit_code, done.stderr) == (0, "")
    assert shown in done.stdout


def test_convert_reads_decimal_commas(invoke: Invoke, tmp_path: Path) -> None:
    source, path = tmp_path / "t.csv", tmp_path / "out.zarr"
    source.write_text("x;y\n0,126;1.234,5\n12,5;7\n")
    arguments = ("convert", "table", source, path, "--variable", "x=x", "--delimiter", ";")
    done = invoke(*arguments)
    assert (done.exit_code, "--numeric x --decimal , (" in done.stderr) == (2, True)
    assert invoke(*arguments, "--decimal", ",").exit_code == 0
    assert read(path, "x")[:, 0].tolist() == [0.126, 12.5]
    more = ("--variable", "y=y", "--decimal", ",", "--thousands", ".", "--numeric", "y")
    assert invoke(*arguments, *more, "--overwrite").exit_code == 0
    assert read(path, "y")[:, 0].tolist() == [1234.5, 7]
