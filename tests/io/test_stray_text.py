"""Tables whose columns are not what they look like: stray text, labels, missing values."""

import gzip

import numpy as np
import pytest
import zarr

import dhsic
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io import table_variables
from dhsic.io.tabular import convert_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ONE_WORD = "x,g\n1,u\n2,v\nabc,u\n4.5,v\n"


def table(folder, text, name="t.csv"):
    path = folder / name
    path.write_text(text)
    return path


def stored(folder, values):
    path = folder / "t.parquet"
    pq.write_table(pa.table({"x": values}), path)
    return path


def convert(path, folder, columns=("x",), **options):
    target = folder / "out.zarr"
    written = convert_table(path, target, variables={"v": list(columns)}, **options)
    return written, zarr.open_group(target, mode="r")["v"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ONE_WORD, "'abc' in line 4"),
        ('x\n"1,200"\n"2,300"\n900\n', "'1,200' in line 2, '2,300' in line 3"),
        ("x\n$3\n4\n5\n", "'\\$3' in line 2"),
        ("x\n40%\n50%\n60%\n", "'40%' in line 2, '50%' in line 3, '60%' in line 4"),
        ('note,x\n"two\nlines",1\na,2\nb,?\n', "'\\?' in line 5"),
        ("x\n1\n\nz\n3\n", "'z' in line 4"),
    ],
)
def test_numbers_with_stray_text__are_refused_with_lines(tmp_path, text, told):
    with pytest.raises(DataError, match=told + r": correct it, or tell .*--numeric x .*--categor"):
        convert(table(tmp_path, text), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    "text", ["x\na\nb\n1\n", "x\nA1\nA2\n3\n4\n", "x\n01\n1\ntrue\n2011-01-01\n"]
)
def test_labels_some_of_which_are_numbers__stay_labels(tmp_path, text):
    written, array = convert(table(tmp_path, text), tmp_path)
    assert list(written.columns[0].categories) == text.split()[1:]
    assert array.attrs["kind"] == "categorical"


def test_stray_text__is_named_up_to_five_times_and_in_gzipped_files(tmp_path):
    path = tmp_path / "t.csv.gz"
    values = [*map(str, range(20)), *"abcdefg"]
    path.write_bytes(gzip.compress(("x\n" + "\n".join(values)).encode()))
    with pytest.raises(DataError, match=r"'a' in line 22.*'e' in line 26: correct"):
        convert(path, tmp_path)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (["1", "2", "abc"], "'abc' in row 2: correct it"),
        (["1.5", "2.5"], "holds numbers that are written as text: store them as numbers"),
    ],
)
def test_text_of_parquet__is_refused_alike(tmp_path, values, told):
    with pytest.raises(DataError, match=told):
        convert(stored(tmp_path, values), tmp_path)


def test_whole_numbers_as_text_of_parquet__are_labels(tmp_path):
    written, _ = convert(stored(tmp_path, ["01", "02", "01"]), tmp_path)
    assert written.columns[0].categories == ("01", "02")


def test_categorical__reads_labels_whatever_they_look_like(tmp_path):
    written, array = convert(table(tmp_path, ONE_WORD), tmp_path, categorical=["x"])
    assert array.attrs["categories"] == {"x": ["1", "2", "abc", "4.5"]}
    assert (written.columns[0].type, written.columns[0].kind) == ("string", "categorical")
    path = stored(tmp_path, pa.array([7, 8, None, 7]))
    _, array = convert(path, tmp_path, categorical=["x"], missing="drop", overwrite=True)
    assert array.attrs["categories"] == {"x": ["7", "8"]}
    assert array[:, 0].tolist() == [0, 1, 0]


@pytest.mark.parametrize("late", [False, True])
def test_numeric__drops_stray_text_and_counts_it(tmp_path, late):
    lines = ["1"] * 600_000 * late + ["1", "2", " +4.5 ", "abc", "", "n.a.", "1e3"]
    path = table(tmp_path, "x,g\n" + "".join(f"{value},u\n" for value in lines))
    written, array = convert(path, tmp_path, numeric=["x"], missing="drop")
    assert array[-4:, 0].tolist() == [1, 2, 4.5, 1000]
    column = written.columns[0]
    assert (column.missing, column.rejected, written.dropped) == (1, 2, 3)
    assert column.kind == "numeric"


def test_numeric__is_refused_with_lines_unless_rows_are_dropped(tmp_path):
    with pytest.raises(DataError, match=r"must hold numbers, got 'abc' in line 4: .*missing='drop"):
        convert(table(tmp_path, ONE_WORD), tmp_path, numeric=["x"])


def test_numeric__makes_numbers_of_text_in_parquet(tmp_path):
    _, array = convert(stored(tmp_path, ["1.5", "2.5"]), tmp_path, numeric=["x"])
    assert array[:, 0].tolist() == [1.5, 2.5]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_na_values__are_missing_in_numbers_and_labels(tmp_path, suffix):
    columns = {"x": [1.0, -999.0, 3.0, 4.0], "g": ["u", "v", "none", "u"]}
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        path.write_text("x,g\n1,u\n-999.0,v\n3,none\n4,u\n")
    else:
        pq.write_table(pa.table(columns), path)
    variables = {"x": ["x"], "g": ["g"]}
    written = convert_table(
        *(path, tmp_path / "out.zarr"),
        variables=variables,
        missing="drop",
        na_values=["-999", "none"],
    )
    assert [column.missing for column in written.columns] == [1, 1]
    assert (written.rows, written.columns[1].categories) == (2, ("u",))


def test_na_values__do_not_make_text_of_numbers(tmp_path):
    path = table(tmp_path, "x\n1\n?\n3\n")
    written, array = convert(path, tmp_path, na_values=["?"], missing="drop")
    assert (written.columns[0].kind, array[:, 0].tolist()) == ("numeric", [1, 3])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"numeric": ["z"]}, "needs column 'z', which is not in .*; there are: x, g"),
        ({"numeric": "x"}, "numeric must be a list of words, got 'x': put it in brackets"),
        ({"na_values": [-999]}, r"na_values must be a list of words, got \[-999\]"),
        ({"numeric": ["x"], "categorical": ["x"]}, "categorical or numeric, got both: choose"),
    ],
)
def test_options__are_checked(tmp_path, options, told):
    with pytest.raises(InvalidArgumentError, match=told):
        convert(table(tmp_path, ONE_WORD), tmp_path, **options)


def test_nested_columns__are_no_labels(tmp_path):
    with pytest.raises(DataError, match="neither numbers nor labels: make a column of each part"):
        convert(stored(tmp_path, pa.array([[1.0], [2.0]])), tmp_path, categorical=["x"])


def test_xarray__opens_what_is_written(tmp_path):
    xarray = pytest.importorskip("xarray")
    path = table(tmp_path, "a,b,g\n1,2,u\n3,4,v\n")
    convert_table(path, tmp_path / "o.zarr", variables={"ab": ["a", "b"], "g": ["g"]})
    with xarray.open_zarr(tmp_path / "o.zarr", consolidated=False) as opened:
        assert dict(opened.sizes) == {"row": 2, "ab_column": 2, "g_column": 1}
        assert opened["ab"].values.tolist() == [[1, 2], [3, 4]]


ROWS = 60


@pytest.fixture(params=["csv", "parquet"])
def observed(request, tmp_path):
    """A table of a, b that depends on it, and labels."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal(ROWS)
    columns = {"a": a, "b": a**2, "a, mean": -a, "g": rng.choice(["u", "v"], ROWS)}
    path = tmp_path / f"t.{request.param}"
    if request.param == "csv":
        pytest.importorskip("pandas").DataFrame(columns).to_csv(path, index=False)
    else:
        pq.write_table(pa.table(columns), path)
    return path, columns


def test_table__is_data_of_a_test(observed):
    path, columns = observed
    expected = dhsic.independence_test(columns["a"], columns["b"], names=["a", "b"], rng=0)
    for data in (path, str(path)):
        assert dhsic.independence_test("a", "b", data=data, rng=0).pvalue == expected.pvalue
    found = dhsic.independence_test(["a", "b"], "g", "a, mean", data=path, rng=0)
    assert [one.name for one in found.variables] == ["a+b", "g", "a, mean"]
    assert found.variables[1].kernel == "delta"
    assert len(dhsic.independence_test(data=path, rng=0).variables) == 4


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        (("a", "h"), "needs column 'h', which is not in"),
        (("a", "x=b,"), "must be \\[NAME=\\]COL,COL,...; got 'x=b,'"),
        (("a", "a"), "'a' is given twice"),
        (("a", [1.0]), "name of a column or a list of names, got list: leave out data="),
    ],
)
def test_columns_of_a_table__are_named(observed, variables, told):
    with pytest.raises(InvalidArgumentError, match=told):
        dhsic.independence_test(*variables, data=observed[0])


def test_table__that_does_not_fit_is_to_be_converted(observed, monkeypatch):
    monkeypatch.setattr(table_variables, "_SHARE", 0.0)
    with pytest.raises(DataError, match=r"does not fit the memory .*: convert it by 'dhs"):
        dhsic.independence_test("a", "b", data=observed[0])


def test_table__with_stray_text_or_without_rows_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"'abc' in line 4.*--numeric x"):
        dhsic.independence_test("x", "g", data=table(tmp_path, ONE_WORD))
    with pytest.raises(DataError, match=r"empty\.csv has no rows"):
        dhsic.independence_test("x", "g", data=table(tmp_path, "x,g\n", "empty.csv"))
    path = table(tmp_path, "when,x\n2020-01-01,1\n2020-01-02,2\n", "dates.csv")
    with pytest.raises(DataError, match=r"column 'when' .* a time for example to seconds"):
        dhsic.independence_test("when", "x", data=path)


GROUPED = 'x\n"1,200"\n"-12,300.5"\n900\n'


def test_thousands__are_read_in_columns_of_numbers(tmp_path):
    _, array = convert(table(tmp_path, GROUPED), tmp_path, numeric=["x"], thousands=",")
    assert array[:, 0].tolist() == [1200, -12300.5, 900]
    path = stored(tmp_path, ["1'000'000", "2"])
    options = {"numeric": ["x"], "thousands": "'", "overwrite": True}
    assert convert(path, tmp_path, **options)[1][:, 0].tolist() == [1e6, 2]


def test_thousands__that_do_not_have_three_digits_are_no_numbers(tmp_path):
    text = GROUPED + '"1,20"\n"12,3456"\n",100"\n'
    with pytest.raises(
        DataError, match="got '1,20' in line 5, '12,3456' in line 6, ',100' in line"
    ):
        convert(table(tmp_path, text), tmp_path, numeric=["x"], thousands=",")
    options = {"numeric": ["x"], "thousands": ",", "missing": "drop"}
    written, _ = convert(table(tmp_path, text), tmp_path, **options)
    assert (written.rows, written.columns[0].rejected) == (3, 3)


def test_thousands__are_the_remedy_of_grouped_numbers(tmp_path):
    path = table(tmp_path, GROUPED)
    with pytest.raises(DataError, match=r"--numeric x --thousands , \(numeric=\['x'\], thousands="):
        convert(path, tmp_path)
    with pytest.raises(DataError, match=r"read them by --thousands , \(thousands=','\), or leave"):
        convert(path, tmp_path, numeric=["x"])
    with pytest.raises(DataError, match=r"--thousands ' ' \(numeric"):
        convert(table(tmp_path, "x\n1 200\n1 300\n"), tmp_path)


COMMAS = "x;y\n0,126;1\n12,5;2\n7;3\n"
GERMAN = "x;y\n1.234,5;1\n-12.000.500,25;2\n7;3\n"


def test_decimal__is_the_sign_of_all_numbers_of_csv(tmp_path):
    path = table(tmp_path, COMMAS)
    with pytest.raises(
        DataError, match=r"--numeric x --decimal , \(numeric=\['x'\], decimal=','\)"
    ):
        convert(path, tmp_path, delimiter=";")
    for numeric in ((), ("x",)):
        options = {"numeric": numeric, "overwrite": True, "delimiter": ";", "decimal": ","}
        written, array = convert(path, tmp_path, ("x", "y"), **options)
        np.testing.assert_array_equal(array[:], [[0.126, 1], [12.5, 2], [7, 3]])
        assert written.columns[0].kind == "numeric"
    # As pandas writes them: quoted, where the delimiter is a comma too.
    _, array = convert(
        table(tmp_path, 'x,y\n"0,5",1\n7,2\n'), tmp_path, decimal=",", overwrite=True
    )
    assert array[:, 0].tolist() == [0.5, 7]


def test_decimal__is_read_in_text_of_parquet(tmp_path):
    _, array = convert(stored(tmp_path, ["0,5", "7"]), tmp_path, numeric=["x"], decimal=",")
    assert array[:, 0].tolist() == [0.5, 7]


def test_decimal__goes_with_thousands(tmp_path):
    path = table(tmp_path, GERMAN)
    told = r"--thousands \. --decimal , \(numeric=\['x'\], thousands='\.', decimal=','\)"
    for options in ({}, {"decimal": ","}):
        with pytest.raises(DataError, match=told):
            convert(path, tmp_path, delimiter=";", **options)
    options = {"numeric": ["x"], "thousands": ".", "decimal": ",", "delimiter": ";"}
    _, array = convert(path, tmp_path, **options)
    assert array[:, 0].tolist() == [1234.5, -12000500.25, 7]
    with pytest.raises(DataError, match=r"got '1\.5' in line 4: correct them"):
        convert(table(tmp_path, GERMAN.replace("7;", "1.5;")), tmp_path, **options, overwrite=True)


def test_decimal__is_the_same_in_all_blocks_of_a_file(tmp_path):
    numbers = np.arange(200_000) / 8
    lines = [f"{number}".replace(".", ",") + ";u\n" for number in numbers]
    path = table(tmp_path, "x;g\n" + "".join(lines))
    assert path.stat().st_size > 2**20
    for numeric in ((), ("x",)):
        options = {"numeric": numeric, "overwrite": True, "delimiter": ";", "decimal": ","}
        np.testing.assert_array_equal(convert(path, tmp_path, **options)[1][:, 0], numbers)


def test_thousands__never_begin_with_0(tmp_path):
    options = {"numeric": ["x"], "thousands": ",", "delimiter": ";"}
    told = r"got '0,126' in line 2, '12,5' in line 3: read them by --decimal , \(decimal=','\), or"
    with pytest.raises(DataError, match=told):
        convert(table(tmp_path, COMMAS), tmp_path, **options)
    both = r"--numeric x --thousands , \(.*\) or --numeric x --decimal , \(numeric=\['x'\], dec"
    with pytest.raises(DataError, match=both):
        convert(table(tmp_path, "x;y\n1,234;1\n7;2\n"), tmp_path, delimiter=";")


def test_signs_of_print__are_read_as_those_of_the_keyboard(tmp_path):
    path = table(tmp_path, "x\n\u22121\u202f234.5\n2\u00a0000\n1 000\n")
    _, array = convert(path, tmp_path, numeric=["x"], thousands=" ")
    assert array[:, 0].tolist() == [-1234.5, 2000, 1000]
    path = table(tmp_path, "x\n1\u2019234\n")
    _, array = convert(path, tmp_path, numeric=["x"], thousands="'", overwrite=True)
    assert array[:, 0].tolist() == [1234]


def test_thousands__do_not_hide_digits_that_are_lost(tmp_path):
    path = table(tmp_path, 'x\n"9,007,199,254,740,993"\n')
    with pytest.raises(DataError, match=r"column 'x' of .* has integers beyond 2\*\*53"):
        convert(path, tmp_path, numeric=["x"], thousands=",")


def test_na_values__are_written_as_the_numbers_are(tmp_path):
    path = table(tmp_path, "x\n1,5\n-999,50\n")
    options = {"decimal": ",", "delimiter": ";", "missing": "drop", "na_values": ["-999,5"]}
    assert convert(path, tmp_path, **options)[1][:, 0].tolist() == [1.5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thousands": ","}, r"in the columns of numeric, got none: name them"),
        ({"thousands": "ab", "numeric": ["x"]}, "one character between digits such as ','"),
        ({"thousands": "1", "numeric": ["x"]}, "one character between digits"),
        ({"thousands": 1, "numeric": ["x"]}, "one character between digits"),
        ({"thousands": ".", "numeric": ["x"]}, r"must differ, got '\.' for both: give both signs"),
        ({"thousands": ",", "decimal": ",", "numeric": ["x"]}, "must differ, got ',' for both"),
        ({"decimal": ";"}, r"decimal must be one of '\.', ',', got ';'"),
        ({"decimal": None}, r"decimal must be one of '\.', ',', got None"),
    ],
)
def test_signs__that_cannot_be_are_refused(tmp_path, options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        convert(table(tmp_path, GROUPED), tmp_path, **options)


def test_decimal__of_parquet_needs_columns(tmp_path):
    with pytest.raises(InvalidArgumentError, match="decimal is read in the columns of numeric"):
        convert(stored(tmp_path, ["0,5", "7"]), tmp_path, decimal=",")


def test_tabs__separate_the_fields_of_tsv(tmp_path):
    path = table(tmp_path, "x\tg\n1,5\tu\n2\tv\n", "t.tsv")
    (found,) = table_variables.open_table_variables(path, ["g"])
    assert found.categories == (("u", "v"),)
    _, array = convert(path, tmp_path, ("g",))
    assert array[:, 0].tolist() == [0, 1]


@pytest.mark.parametrize("text", ["x;y\n1;2\n3;4\n", "x;y\n1;2,5\n3;4,5\n", "x,y\n1;2\n"])
def test_fields__that_are_separated_by_another_character_are_told(tmp_path, text):
    with pytest.raises((DataError, InvalidArgumentError), match=r"separated by ';': convert it by"):
        table_variables.open_table_variables(table(tmp_path, text), ["x", "y"])


def test_fields__that_spaces_separate_are_told_where_a_column_is_not_found(tmp_path):
    path = table(tmp_path, 'x y "sun hours"\n1 2 3\n3 4 5\n')
    with pytest.raises(InvalidArgumentError, match=r"separated by ' ': convert it by"):
        table_variables.open_table_variables(path, ["x", "y"])
    one = table(tmp_path, "sun hours\n1\n2\n", "one.csv")
    assert table_variables.open_table_variables(one, ["sun hours"])[0].shape == (2, 1)


@pytest.mark.parametrize("number", [2**53 + 1, -(2**60) - 1, 12345678901234567890])
@pytest.mark.parametrize("numeric", [(), ("x",)])
def test_integers__that_lose_digits_are_refused(tmp_path, number, numeric):
    path = table(tmp_path, f"x,g\n7,1e300\n,2\n{number},3\n")
    told = r"column 'x' of .* has integers beyond 2\*\*53, .* --categorical x \(categorical=\['x'\]"
    with pytest.raises(DataError, match=told):
        convert(path, tmp_path, ("x", "g"), missing="drop", numeric=numeric)
    if not numeric:
        with pytest.raises(DataError, match=told):
            table_variables.open_table_variables(path, ["x", "g"])
    convert(path, tmp_path, ("x",), missing="drop", categorical=("x",))


def test_integers__that_keep_their_digits_and_large_floats_are_taken(tmp_path):
    path = table(tmp_path, f"x,g\n7,1e300\n{2**53},2\n")
    _, array = convert(path, tmp_path, ("x", "g"))
    np.testing.assert_array_equal(array[:], [[7, 1e300], [2**53, 2]])
