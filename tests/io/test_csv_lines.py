"""Rows of CSV files: none vanish in a field that a stray quote opens; text of other encodings."""

import csv
import gzip
import io

import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import dhsic
from dhsic.cli import main
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io import csv_lines
from dhsic.io.csv_lines import CsvLines, Dialect, count_csv
from dhsic.io.tabular import convert_table

pytest.importorskip("pyarrow")

NONE = r"--quotes none \(quotes='none'\)"
BREAKS = NONE + r", or that fields hold line breaks: --quotes line-breaks \(quotes='line-breaks'\)"


def file(folder, content, name="t.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def convert(path, columns=("a",), **options):
    target = path.with_name("out.zarr")
    convert_table(path, target, variables={"x": list(columns)}, **options)
    return zarr.open_group(target, mode="r")["x"][:, 0].tolist()


def numbers(rows, stray=None, text='"oops'):
    """A table of three columns, with a stray quote in the last of one row."""
    lines = [f"{j},{2 * j},w{j % 7}" for j in range(rows)]
    if stray is not None:
        lines[stray] = f"{stray},0,{text}"
    return ["a,b,c", *lines]


@pytest.mark.parametrize("quotes", ["checked", "line-breaks"])
def test_stray_quote__that_nothing_closes_is_refused(tmp_path, quotes):
    path = file(tmp_path, "\n".join(numbers(300_000, 299_990)))
    told = rf"line 299,992 of .*t\.csv opens a field with a quote that nothing closes: .*{NONE}"
    with pytest.raises(DataError, match=told):
        convert(path, quotes=quotes)
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.csv"]


def test_stray_quotes__that_enclose_rows_of_a_column_not_converted_are_refused(tmp_path):
    lines = numbers(300_000, 100_000)
    lines[104_900] = '104899,0,10"'
    path = file(tmp_path, "\n".join(lines))
    told = (
        "line 100,002 of .*t\\.csv opens a field by '\"oops' that closes in line 104,901, and each "
        f"of these lines would be a row of 3 fields .* one row of 4,900; .*{BREAKS}"
    )
    with pytest.raises(DataError, match=told):
        convert(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.csv"]
    assert convert(path, quotes="none") == list(range(300_000))
    assert len(convert(path, quotes="line-breaks", overwrite=True)) == 300_000 - 4899


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('a,b\n1,"x\n2,"y"\n', r"line 3 of .* a field, which opens in line 2, got '.*\"x.n2,\"y"),
        (
            'a,b\n1,"x"y\n',
            "line 2 of .* must have a delimiter behind the quote that closes a field,",
        ),
        ('a,b\n1,"x" y\n', "line 2 of .* must have a delimiter behind the quote"),
        ('a\n"x\ny"\n', "line 2 of .* a row of 1 fields by itself"),
        ('a,b\nx,"\n1,2\ny,"\n', "line 2 of .* closes in line 4, "),
        ('a,b,c\n1,"x,3\n4,",6\n', "line 2 of .* closes in line 3, "),
        ('a,b\n"u,v","x\n2,y"\n"w,""z",7\n', "line 2 of .* closes in line 3, "),
        ('a,"b,c\n1,2",3\n', "line 1 of .* closes in line 2, "),
    ],
)
@pytest.mark.parametrize("read", [3, 2**18])
def test_stray_quotes__are_refused_with_the_line(tmp_path, monkeypatch, text, told, read):
    monkeypatch.setattr(csv_lines, "_READ_BYTES", read)
    with pytest.raises(DataError, match=told):
        count_csv(file(tmp_path, text), Dialect())


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('a,b\n"two\nlines",1\n2,"with, comma"\n', 2),
        ('a,b\n1,"two\nlines"\n2,x\n', 2),
        ('a,b,c\n"x\ny","p\n\nq",3\n', 1),
        ('a,b\n1,pipe of 5"\n2,6" by 7"\n', 2),
        ('a,b\n1,"say ""hi"""\n2,""\n3,""""\n', 3),
        ('a,b\n1,"x" \n2,"y"\t\n', 2),
        ('"a","b"\r\n1,2\r\n\r\n3,4', 2),
        ("a,b\r1,2\r3,4\r", 2),
        ("\ufeffa,b\n1,é\n", 1),
        ("", 0),
        ("\n\n", 0),
    ],
)
@pytest.mark.parametrize("read", [1, 2**18])
def test_count_csv__counts_rows(tmp_path, monkeypatch, text, rows, read):
    monkeypatch.setattr(csv_lines, "_READ_BYTES", read)
    assert count_csv(file(tmp_path, text), Dialect()).rows == rows


def test_count_csv__tells_the_longest_row_and_line_breaks(tmp_path):
    path = file(tmp_path, 'a,b\n1,"two\nlines"\n')
    assert count_csv(path, Dialect()) == CsvLines(Dialect(), 1, 14, True)
    none = Dialect(quotes="none")
    assert count_csv(path, none) == CsvLines(none, 2, 7, False)


FIELDS = st.text(st.sampled_from('ab1,"\n é'), max_size=5)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.lists(FIELDS, min_size=2, max_size=2), min_size=1, max_size=6), st.data())
def test_count_csv__agrees_with_the_writer(tmp_path_factory, rows, data):
    """And a quote put anywhere is refused, by it or for the fields of a row, or hides no row."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([["c0", "c1"], *rows])
    path = tmp_path_factory.getbasetemp() / "written.csv"
    path.write_text(text.getvalue())
    assert count_csv(path, Dialect(quotes="line-breaks")).rows == len(rows)
    flat = [[field.replace("\n", " ") for field in row] for row in rows]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([["c0", "c1"], *flat])
    written = text.getvalue()
    at = data.draw(st.integers(6, len(written) - 1))
    path.write_text(written[:at] + '"' + written[at:])
    try:
        counted = count_csv(path, Dialect()).rows
    except DataError:
        return
    fields = {len(row) for row in csv.reader(io.StringIO(path.read_text()))}
    assert counted == len(rows) or fields != {2}


def test_fields_of_several_lines__may_lie_where_the_parser_cuts(tmp_path):
    lines = "".join(f'{j},"{"text " * 10}\nmore"\n' for j in range(40_000))
    assert convert(file(tmp_path, "a,b\n" + lines)) == list(range(40_000))


def test_long_rows__are_read_up_to_a_bound(tmp_path, monkeypatch):
    path = file(tmp_path, "a,b\n1,2\n3," + 3_000_000 * "x" + "\n")
    assert convert(path) == [1, 3]
    with pytest.raises(DataError, match=r"'hm' in line 4"):
        convert(file(tmp_path, path.read_bytes() + b"hm,5\n"), overwrite=True)
    monkeypatch.setattr(csv_lines, "ROW_BYTES", 1000)
    with pytest.raises(DataError, match=r"line 3 of .* begins a row that is longer than 16 MiB: "):
        convert(path)
    path = file(tmp_path, 'a,b\n1,2\n3,"' + 3_000_000 * "x\n" + '"\n')
    with pytest.raises(DataError, match="longer than 16 MiB, in the field whose quote opens in li"):
        convert(path)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("Müll,b\n1,2\n".encode("latin-1"), "line 1 of .* in utf-8, and has the byte 0xfc in 'M"),
        (b"a,b\n" + 200_000 * b"1,2\n" + b"3,\xe9\n", "line 200,002 of .*the byte 0xe9 in "),
        (b"a,b\r\n1,2\r\n3,\xe9\r\n", "line 3 of .*, as --encoding latin-1 .encoding='latin-1'."),
        ("a,b\n1,2\n".encode("utf-16"), r"line 1 begins as UTF-16 does.*--encoding utf-16"),
    ],
)
def test_other_encodings__are_refused_with_the_line(tmp_path, name, content, told):
    path = file(tmp_path, gzip.compress(content) if name.endswith("gz") else content, name)
    with pytest.raises(DataError, match=told):
        convert(path, columns=["b"])
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig"])
def test_encoding__is_that_of_the_text(tmp_path, encoding):
    text = 'größe,art\n1,"ü\nx"\n2,é\n'
    path = file(tmp_path, text.encode(encoding))
    variables = {"g": ["größe"], "k": ["art"]}
    written = convert_table(path, tmp_path / "o.zarr", variables=variables, encoding=encoding)
    assert (written.rows, written.columns[1].categories) == (2, ("ü\nx", "é"))
    with pytest.raises(DataError, match=r"'hm' in line 5"):
        convert(file(tmp_path, (text + "hm,é\n").encode(encoding)), ["größe"], encoding=encoding)


def test_encoding__that_does_not_fit_is_refused(tmp_path):
    path = file(tmp_path, "a,b\n1,2\n")
    with pytest.raises(DataError, match=r"line 1 of .* must be text in utf-16: store"):
        convert(path, encoding="utf-16")
    for encoding in ("latin-9000", "hex", "", None, 8, np.arange(3)):
        with pytest.raises(InvalidArgumentError, match="encoding must name one of text, as"):
            convert(path, encoding=encoding)
    with pytest.raises(InvalidArgumentError, match="quotes must be one of 'checked', 'line-br"):
        convert(path, quotes="some")


def test_table_as_data__is_refused_alike(tmp_path):
    path = file(tmp_path, "\n".join(numbers(100, 50)))
    with pytest.raises(DataError, match=r"line 52 of .* opens a field with a quote that nothing"):
        dhsic.independence_test("a", "b", data=path)


def test_command__ends_in_words_and_leaves_nothing(tmp_path):
    path, out = file(tmp_path, "\n".join(numbers(100, 50))), tmp_path / "out.zarr"
    command = ["convert", "table", str(path), str(out), "--variable", "x=a"]
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 2
    assert "line 52 of" in refused.stderr
    assert not out.exists()
    assert CliRunner().invoke(main, [*command, "--quotes", "none"]).exit_code == 0
    assert zarr.open_group(out, mode="r")["x"].shape == (100, 1)
    latin = file(tmp_path, "a,é\n1,2\n".encode("latin-1"))
    command = ["convert", "table", str(latin), str(out), "--variable", "x=a", "--overwrite"]
    assert CliRunner().invoke(main, command).exit_code == 2
    assert CliRunner().invoke(main, [*command, "--encoding", "latin-1"]).exit_code == 0
    assert zarr.open_group(out, mode="r")["x"].shape == (1, 1)


def test_rows_that_the_parser_does_not_give__are_an_error(tmp_path, monkeypatch):
    path = file(tmp_path, "\n".join(numbers(100)))
    counted = CsvLines(Dialect(), 101, 10, False)
    monkeypatch.setattr("dhsic.io.table_source.count_csv", lambda *_: counted)
    with pytest.raises(DataError, match="has 101 rows, and 100 could be read: convert it while no"):
        convert(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.csv"]
