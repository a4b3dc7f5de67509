"""CSV and Parquet to zarr by `dhsic convert table`: values, codes, gaps, lines of errors."""

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
from dhsic.errors import DataError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")

NA = float("nan")


def write(folder, content, name="t.csv"):
    """A table: text or bytes of CSV, or columns of Parquet."""
    if isinstance(content, dict):
        path = folder / "t.parquet"
        pq.write_table(pa.table(content), path, row_group_size=2)
        return path
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def convert(path, options="", columns="x"):
    """Values of the array that the command wrote, and its attributes; an error where it refuses."""
    out = path.with_name("out.zarr")
    words = ["convert", "table", str(path), str(out), "--variable", f"v={columns}"]
    done = CliRunner().invoke(main, [*words, *options.split("|")] if options else words)
    if done.exit_code == 2:
        assert "\n" not in done.stderr.strip() or "Usage" in done.stderr
        raise DataError(done.stderr)
    assert done.exit_code == 0, done.output
    array = zarr.open_array(out / "v", mode="r")
    return array[:].tolist(), array.attrs.asdict(), done.stdout


ONE_WORD = "x,g\n1,u\n2,v\nabc,u\n4.5,v\n"
GROUPED = 'x\n"1,200"\n"-12,300.5"\n900\n'
COMMAS = "x;y\n0,126;1\n12,5;2\n7;3\n"
GERMAN = "x;y\n1.234,5;1\n-12.000.500,25;2\n7;3\n"
PRINT = "x\n\u22121\u202f234.5\n2\u00a0000\n1 000\n"
GAPPED = "x,g\n1,u\n,v\n3,\n4,w\n"
SIZES = pa.DictionaryArray.from_arrays([2, 0, 2, 1], ["S", "M", "L"])
DROP = "--missing|drop"
GROUPS = "--numeric|x|--thousands|"

# Content, options, columns, and the rows that are written.
READ = [
    ("x,y\n1,2\n3,4\n", "", "y,x", [[2, 1], [4, 3]]),
    ({"x": [1, 2], "y": [0.5, -1.5]}, "", "y,x", [[0.5, 1], [-1.5, 2]]),
    ({"x": pa.array([7, 8, None, 7])}, f"--categorical|x|{DROP}", "x", [[0], [1], [0]]),
    ({"x": ["1.5", "2.5"]}, "--numeric|x", "x", [[1.5], [2.5]]),
    ({"x": ["1'000'000", "2"]}, "--numeric|x|--thousands|'", "x", [[1e6], [2]]),
    ({"x": ["0,5", "7"]}, "--numeric|x|--decimal|,", "x", [[0.5], [7]]),
    (GAPPED, DROP, "x", [[1], [3], [4]]),
    ("x\n1\n?\nN A\n3\n", f"{DROP}|--na-value|?|--na-value|N A", "x", [[1], [3]]),
    ({"x": [1.0, -999.0, NA, None, 4.0]}, f"{DROP}|--na-value|-999", "x", [[1], [4]]),
    ("x\n1\n +4.5 \nabc\n\nn.a.\n1e3\n", f"--numeric|x|{DROP}", "x", [[1], [4.5], [1000]]),
    (GROUPED, f"{GROUPS},", "x", [[1200], [-12300.5], [900]]),
    (COMMAS, "--delimiter|;|--decimal|,", "x,y", [[0.126, 1], [12.5, 2], [7, 3]]),
    (COMMAS, "--delimiter|;|--decimal|,|--numeric|x", "x", [[0.126], [12.5], [7]]),
    ('x,y\n"0,5",1\n7,2\n', "--decimal|,", "x", [[0.5], [7]]),
    (GERMAN, f"--delimiter|;|--decimal|,|{GROUPS}.", "x", [[1234.5], [-1.200050025e7], [7]]),
    (PRINT, f"{GROUPS} ", "x", [[-1234.5], [2000], [1000]]),
    ("x;y\n1,5;1\n-9,50;2\n", f"--delimiter|;|--decimal|,|{DROP}|--na-value|-9,5", "x", [[1.5]]),
    ('Altitude "Sun hours"\n205 1552\n46 1541\n', "--delimiter| ", "Sun hours", [[1552], [1541]]),
    (f"x,g\n7,1e300\n{2**53},2\n", "", "x,g", [[7, 1e300], [2**53, 2]]),
    ("x,y\n" + "1,2\n" * 300_000 + "2.5,3\n", DROP, "x", [[1]] * 300_000 + [[2.5]]),
    ('x,y\n1,"two\nlines"\n2,6" by 7"\n3,"say ""hi"""\n', "", "x", [[1], [2], [3]]),
    ('x,y\n1,"x\n2,y\n3,"\n', "--quotes|none", "x", [[1], [2], [3]]),
    ('x,y\n1,"x\n2,y\n3,"\n', "--quotes|line-breaks", "x", [[1]]),
    ("\ufeffx,y\r1,2\r3,4\r", "", "x", [[1], [3]]),
    ('größe,y\n1,"ü\nx"\n2,é\n'.encode("cp1252"), "--encoding|cp1252", "größe", [[1], [2]]),
    ('größe,y\n1,"ü\nx"\n2,é\n'.encode("utf-16"), "--encoding|utf-16", "größe", [[1], [2]]),
]


@pytest.mark.parametrize(("content", "options", "columns", "rows"), READ, ids=range(len(READ)))
def test_numbers__are_read_as_they_are_written(content, options, columns, rows, tmp_path):
    values, attributes, _ = convert(write(tmp_path, content), options, columns)
    assert values == rows
    assert attributes["columns"] == columns.split(",")
    assert ("kind" in attributes) == ("categorical" in options)


@pytest.mark.parametrize(
    ("content", "options", "labels", "codes"),
    [
        ({"x": SIZES}, "", ["L", "S", "M"], [0, 1, 0, 2]),
        ({"x": [True, True, False]}, "", ["True", "False"], [0, 0, 1]),
        ("x\ntrue\nfalse\ntrue\n", "", ["true", "false"], [0, 1, 0]),
        ("x\nb\na\nb\n", "", ["b", "a"], [0, 1, 0]),
        ("x\n01\n1\ntrue\n2011-01-01\n", "", ["01", "1", "true", "2011-01-01"], [0, 1, 2, 3]),
        ("x\nA1\nA2\n3\n4\n", "", ["A1", "A2", "3", "4"], [0, 1, 2, 3]),
        ({"x": ["01", "02", "01"]}, "", ["01", "02"], [0, 1, 0]),
        (ONE_WORD, "--categorical|x", ["1", "2", "abc", "4.5"], [0, 1, 2, 3]),
        ({"x": ["u", None, "v", "none"]}, f"{DROP}|--na-value|none", ["u", "v"], [0, 1]),
    ],
)
def test_labels__have_codes_in_the_order_in_which_they_appear(
    content, options, labels, codes, tmp_path
):
    values, attributes, _ = convert(write(tmp_path, content), options)
    assert attributes["kind"] == "categorical"
    assert attributes["categories"] == {"x": labels}
    assert np.ravel(values).tolist() == codes


def numbers(rows, stray=None, text='"oops'):
    """A table of three columns, with a stray quote in the last of one row."""
    lines = [f"{j},{2 * j},w{j % 7}" for j in range(rows)]
    if stray is not None:
        lines[stray] = f"{stray},0,{text}"
    return ["x,y,z", *lines]


UNITS = "".join(f"{j % 25}.5 kg\n" for j in range(90))
NAMES = "".join(f"the {j % 4000}th\n" for j in range(5000))
ENCLOSED = numbers(9_000, 1_000)
ENCLOSED[5_900] = '5899,0,10"'
REFUSED = [
    # Stray text, by line or row, with the remedy.
    (ONE_WORD, "", "'abc' in line 4: correct it, or tell .*--numeric x, .*--categorical x"),
    ("x\n$3\n4\n5\n", "", r"'\$3' in line 2"),
    ("x\n40%\n50%\n60%\n", "", "'40%' in line 2, '50%' in line 3, '60%' in line 4"),
    ('note,x\n"two\nlines",1\na,2\nb,?\n', "", r"'\?' in line 5"),
    ("x\n1\n\nz\n3\n", "", "'z' in line 4"),
    ("x\n" + "1\n" * 600_000 + "hm\n", "", "'hm' in line 600,002: correct it"),
    ({"x": ["1", "2", "abc"]}, "", "'abc' in row 2: correct it"),
    ({"x": ["1.5", "2.5"]}, "", "holds numbers that are written as text: store them as numbers"),
    (ONE_WORD, "--numeric|x", "must hold numbers, got 'abc' in line 4: .*--missing drop"),
    ("x\n" + "".join(f"u{j}\n" for j in range(20)), "", "another label in every row"),
    ("x\n" + UNITS, "", "text most of which holds num"),
    ("x\n" + NAMES, "", "in 3,000 of 5,000 rows, .*1000th"),
    # Thousands and decimals.
    (GROUPED, "", r"--numeric x --thousands ',', where"),
    (GROUPED, "--numeric|x", r"read them by --thousands ',', or leave"),
    (GROUPED + '"1,20"\n"12,3456"\n', f"{GROUPS},", "'1,20' in line 5, '12,3456' in line 6"),
    ("x\n1 200\n1 300\n", "", r"--thousands ' ', where"),
    (COMMAS, "--delimiter|;", r"--numeric x --decimal ',', where"),
    (
        COMMAS,
        "--delimiter|;|--numeric|x|--thousands|,",
        r"got '0,126' in line 2.*read them by --decimal ','",
    ),
    ("x;y\n1,234;1\n7;2\n", "--delimiter|;", "--thousands ',' or --numeric x --decimal ','"),
    (GERMAN, "--delimiter|;", r"--thousands '\.' --decimal ',', where"),
    ('x\n"9,007,199,254,740,993"\n', f"{GROUPS},", r"has integers beyond 2\*\*53"),
    (f"x,g\n7,1e300\n{2**53 + 1},3\n", "", r"beyond 2\*\*53, .* --categorical x"),
    (f"x,g\n7,1e300\n{-(2**60) - 1},3\n", "--numeric|x", r"beyond 2\*\*53, .* --categorical x"),
    ({"x": [2**53 + 1]}, "", r"column 'x' .* does not fit float64"),
    # Missing and infinite values.
    *(
        (f"x,b\n1,2\n{gap},3\n", "", r"column 'x' .* is missing in row 1 .*--missing drop")
        for gap in ("", "NA", "nan", "null")
    ),
    *(
        ({"x": pa.array([*value * 3, None])}, "", r"column 'x' .* is missing in row 3")
        for value in ([1.0], [1], ["a"], [True])
    ),
    ({"x": pa.array([1.0, NA])}, "", "is missing in row 1"),
    ({"x": pa.array([None, None], pa.float64())}, DROP, "all 2 rows miss a chosen column"),
    ({"x": [None, 1.0, -np.inf]}, DROP, r"column 'x' .* is infinite in row 2"),
    # Columns.
    (ONE_WORD.replace("x,", "xx,"), "", r"'x', which is not .*; there are: xx, g"),
    ("x,x\n1,2\n", "", "more than one column 'x'"),
    *(
        ({"x": values}, "", "neither numbers nor labels: ")
        for values in (
            np.array(["2011-01-01"], "M8[s]"),
            pa.array([[1.0]]),
            pa.array([b"x"]),
            pa.array([5], pa.duration("s")),
        )
    ),
    # Files.
    (b"", "", "cannot read .* as a table: Empty CSV"),
    ("x\n", "", "has no rows to convert: it has none"),
    ("x,b\n1,2\n1\n", "", "cannot read .* Expected 2 columns, got 1"),
    (b"x,b\n1,\xff\xfe\n", "", "line 2 of .* must be text in utf-8"),
    (b"x,b\r\n1,2\r\n3,\xe9\r\n", "", "line 3 of .*, as --encoding latin-1"),
    ("x,b\n1,2\n".encode("utf-16"), "", "line 1 begins as UTF-16 does.*--encoding utf-16"),
    ("x,b\n1,2\n", "--encoding|utf-16", "line 1 of .* must be text in utf-16: store"),
    ("x,b\n1,2\n", "--encoding|latin-9000", "encoding must name one of text, as"),
    ("x;y\n1;2\n", "", r"separated by ';'|--delimiter"),
    # Stray quotes.
    ("\n".join(numbers(9_000, 8_990)), "", "line 8,992 of .* that nothing closes: .*--quotes no"),
    ("\n".join(ENCLOSED), "", "line 1,002 of .* closes in line 5,901, .*--quotes line-breaks"),
    ('x,b\n1,"x\n2,"y"\n', "", "line 3 of .* a field, which opens in line 2, got"),
    ('x,b\n"1" ,2\n', "", "line 2 of .* must have a delimiter behind the quote that closes a"),
    ('x,b\n1,"x"y\n', "", "line 2 of .* must have a delimiter behind the quote that closes a"),
    ('x,b\nx,"\n1,2\ny,"\n', "", "line 2 of .* closes in line 4, "),
    ('x,b,c\n1,"x,3\n4,",6\n', "", "line 2 of .* closes in line 3, "),
    ('x,"b,c\n1,2",3\n', "", "line 1 of .* closes in line 2, "),
    # Options.
    (GROUPED, "--thousands|,", "in the columns of numeric, got none: name them"),
    (GROUPED, "--thousands|1|--numeric|x", "one character between digits"),
    (GROUPED, "--thousands|,|--decimal|,|--numeric|x", "must differ, got ',' for both"),
    ({"x": ["0,5"]}, "--decimal|,", "decimal is read in the columns of numeric"),
    (ONE_WORD, "--numeric|z", "needs column 'z', which is not in .*; there are: x, g"),
    (ONE_WORD, "--numeric|x|--categorical|x", "categorical or numeric, got both: choose"),
    (ONE_WORD, "--delimiter|ab", "delimiter must be one character"),
]


@pytest.mark.parametrize(("content", "options", "told"), REFUSED, ids=range(len(REFUSED)))
def test_table__that_is_not_clear_is_refused_with_its_place(content, options, told, tmp_path):
    with pytest.raises(DataError, match=told):
        convert(write(tmp_path, content), options)
    assert len(list(tmp_path.iterdir())) == 1


def test_variables__may_share_columns_but_not_mix_kinds(tmp_path):
    path, out = write(tmp_path, ONE_WORD.replace("abc", "3")), tmp_path / "two.zarr"
    words = ["convert", "table", str(path), str(out), "--variable", "a=x", "--variable"]
    assert CliRunner().invoke(main, [*words, "b=x"]).exit_code == 0
    group = zarr.open_group(out, mode="r")
    np.testing.assert_array_equal(group["a"][:], group["b"][:])
    again = CliRunner().invoke(main, [*words, "b=x"])
    assert (again.exit_code, "--overwrite" in again.stderr) == (2, True)
    mixed = CliRunner().invoke(main, [*words, "b=x,g", "--overwrite"])
    assert "mixes" in mixed.stderr
    assert CliRunner().invoke(main, [*words, "b=g", "--overwrite"]).exit_code == 0
    assert zarr.open_group(out, mode="r")["b"][:, 0].tolist() == [0, 1, 0, 1]
    import xarray

    with xarray.open_zarr(out, consolidated=False) as opened:
        assert opened["a"].values.ravel().tolist() == [1, 2, 3, 4.5]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_shuffle__keeps_rows_whole_and_follows_its_seed(suffix, tmp_path):
    columns = {"x": np.arange(500.0), "y": -np.arange(500.0)}
    text = "x,y\n" + "".join(f"{j},{-j}\n" for j in range(500))
    path = write(tmp_path, columns if suffix == "parquet" else text)
    orders = [
        np.array(convert(path, f"--overwrite{more}", "x,y")[0])
        for more in ("", "|--shuffle|0", "|--shuffle|1", "|--shuffle|1")
    ]
    assert orders[0][:, 0].tolist() == columns["x"].tolist()
    for order in orders[1:]:
        assert sorted(order[:, 0]) == columns["x"].tolist()
        np.testing.assert_array_equal(order[:, 1], -order[:, 0])
        assert abs(np.corrcoef(order[:, 0], columns["x"])[0, 1]) < 0.2
    np.testing.assert_array_equal(orders[2], orders[3])
    assert not np.array_equal(orders[1], orders[2])


@pytest.mark.parametrize("name", ["t.csv.gz", "t.tsv", "t.tsv.gz", "t.xlsx", "t.parquet", "absent"])
def test_files__are_known_by_their_names(name, tmp_path):
    content = b"x\ty\n1,5\t2\n2,5\t3\n" if ".tsv" in name else b"x,y\n1,2\n3,4\n"
    path = write(tmp_path, gzip.compress(content) if name.endswith("gz") else content, name)
    if "sv" in name:
        assert convert(path, columns="y")[0] == ([[2], [3]] if ".tsv" in name else [[2], [4]])
        return
    with pytest.raises(
        DataError, match=r"must end in one of \.csv, \.csv\.gz|cannot read .* as a t"
    ):
        convert(path)


FIELDS = st.text(st.sampled_from('ab1,"\n é'), max_size=5)


@settings(max_examples=60)
@given(st.lists(st.lists(FIELDS, min_size=1, max_size=1), min_size=1, max_size=6), st.data())
def test_quotes__hide_no_rows(tmp_path_factory, rows, data):
    """All rows that were written are read; with one more quote they are, or all are refused."""
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    text = io.StringIO()
    table = [["x", "y"], *([j, *row] for j, row in enumerate(rows))]
    csv.writer(text, lineterminator="\n").writerows(table)
    path.write_text(text.getvalue())
    assert len(convert(path, "--quotes|line-breaks")[0]) == len(rows)
    flat = [[str(field).replace("\n", " ") for field in row] for row in table]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(flat)
    written = text.getvalue()
    at = data.draw(st.integers(4, len(written) - 1))
    path.write_text(written[:at] + '"' + written[at:])
    try:
        read = len(convert(path, "--overwrite|--categorical|x")[0])
    except DataError:
        return
    assert read == len(rows)


def test_table__as_data_of_a_test_is_refused_alike(tmp_path):
    path = write(tmp_path, "\n".join(numbers(100, 50)))
    with pytest.raises(DataError, match=r"line 52 of .* opens a field with a quote that nothing"):
        dhsic.hsic("x", "y", data=path)
    for text, told in (
        (ONE_WORD, r"'abc' in line 4.*--numeric x"),
        ("x,g\n", "has no rows"),
        ("x;g\n1;2,5\n", r"separated by ';': convert it by"),
        ("g,x\n2020-01-01,1\n2020-01-02,2\n", r"column 'g' .* a time for example to seconds"),
    ):
        with pytest.raises((DataError, dhsic.errors.InvalidArgumentError), match=told):
            dhsic.hsic("x", "g", data=write(tmp_path, text))


def test_row__of_more_than_16_mib_is_refused_with_its_line(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(f"x,a,b\n1,{'u' * 2**23},{'v' * 2**23}\n")
    with pytest.raises(DataError, match=r"line 2 of .* longer than 16 MiB"):
        convert(path)
