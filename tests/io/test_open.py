"""Opening whatever holds rows."""

from datetime import date

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.open import open_data, open_group, open_variables, parse_variable
from dhsic.io.sources import ArraySource

N = 12
ONE = np.arange(N, dtype=float)
TWO = np.arange(4 * N, dtype=float).reshape(N, 4)


def values(source):
    """All rows of a source, by the way its place says."""
    if source.place == "graph":
        return np.concatenate([block.compute() for block in source.lazy([0, 5, N])])
    return np.concatenate([source.read(0, 5), source.read(5, N)])


@pytest.fixture
def group(tmp_path):
    path = str(tmp_path / "g.zarr")
    root = zarr.open_group(path, mode="w")
    root.create_array("timbre", data=TWO, chunks=(5, 3))
    names = {"columns": ["first", "second", "third", "last"]}
    root.create_array("named", data=TWO, chunks=(5, 4), attributes=names)
    root.create_array("year", data=ONE, chunks=(7,))
    root.create_array("short", data=ONE[:3])
    root.create_array("cube", data=np.zeros((N, 2, 2)))
    root.create_array("scalar", data=np.array(3.0))
    root.create_array("label", data=np.arange(N) % 3, attributes={"kind": "categorical"})
    root.create_array("wave", data=1j * ONE)
    return path


def made(kind, x, tmp_path):
    """The same rows as something else."""
    columns = None if x.ndim == 1 else [f"c{j}" for j in range(x.shape[1])]
    frame = pd.Series(x) if columns is None else pd.DataFrame(x, columns=columns)
    dims = ("row", "column")[: x.ndim]
    if kind == "memmap":
        mapped = np.memmap(tmp_path / "m.dat", x.dtype, "w+", shape=x.shape)
        mapped[:] = x
        return mapped
    if kind in ("zarr", "path", "bytes", "str"):
        path = tmp_path / "a.zarr"
        array = zarr.create_array(path, data=x, chunks=(5, 3)[: x.ndim])
        return {"zarr": array, "path": path, "bytes": str(path).encode(), "str": str(path)}[kind]
    if kind == "sharded":
        return zarr.create_array(
            tmp_path / "s.zarr", data=x, chunks=(2, 2)[: x.ndim], shards=(6, 4)[: x.ndim]
        )
    if kind == "stored xarray":
        xr.Dataset({"v": (dims, x)}).to_zarr(tmp_path / "x.zarr", zarr_format=2, consolidated=True)
        return xr.open_zarr(tmp_path / "x.zarr", chunks=None)["v"]
    return {
        "numpy": lambda: x,
        "fortran": lambda: np.asfortranarray(x),
        "unmasked": lambda: np.ma.masked_array(x),
        "list": lambda: x.tolist(),
        "tuple": lambda: tuple(map(tuple, x)) if x.ndim == 2 else tuple(x),
        "dask": lambda: da.from_array(x, chunks=(5, 3)[: x.ndim]),
        "xarray": lambda: xr.DataArray(x, dims=dims),
        "dask xarray": lambda: xr.DataArray(da.from_array(x, chunks=4), dims=dims),
        "pandas": lambda: frame,
        "indexed pandas": lambda: frame.set_axis(range(100, 100 + N)[::-1], axis=0),
        "dask dataframe": lambda: dd.from_pandas(frame, npartitions=3),
    }[kind]()


KINDS = {
    "numpy": "memory",
    "fortran": "memory",
    "unmasked": "memory",
    "list": "memory",
    "tuple": "memory",
    "memmap": "memory",
    "xarray": "memory",
    "pandas": "memory",
    "indexed pandas": "memory",
    "zarr": "storage",
    "path": "storage",
    "bytes": "storage",
    "str": "storage",
    "sharded": "storage",
    "stored xarray": "storage",
    "dask": "graph",
    "dask xarray": "graph",
    "dask dataframe": "graph",
}


@pytest.mark.parametrize("x", [ONE, TWO], ids=["vector", "matrix"])
@pytest.mark.parametrize(("kind", "place"), KINDS.items())
def test_open_variables__reads_the_same_rows_of_every_kind(kind, place, x, tmp_path):
    first, second = open_variables([made(kind, x, tmp_path), ONE])
    expected = x[:, None] if x.ndim == 1 else x
    assert first.place == place
    assert first.shape == expected.shape
    assert not first.categorical
    np.testing.assert_array_equal(values(first), expected)
    np.testing.assert_array_equal(second.read(3, 6), ONE[3:6, None])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "float64"])
@pytest.mark.parametrize("kind", ["numpy", "zarr", "dask", "pandas"])
def test_open_variables__keeps_numbers_of_every_type(kind, dtype, tmp_path):
    x = (np.arange(N) % 2).astype(dtype)
    first, _ = open_variables([made(kind, x, tmp_path), ONE])
    np.testing.assert_array_equal(values(first).astype(float)[:, 0], np.arange(N) % 2)


def test_open_variables__chunk_rows_are_those_stored_together(tmp_path):
    kinds = {"numpy": None, "zarr": 5, "sharded": 6, "dask": 5, "stored xarray": None}
    for kind, rows in kinds.items():
        assert open_variables([made(kind, TWO, tmp_path), ONE])[0].chunk_rows == rows


def test_open_variables__names_them():
    assert [s.name for s in open_variables([ONE, ONE, ONE])] == ["x1", "x2", "x3"]
    assert [s.name for s in open_variables([ONE, ONE], ["a", "b"])] == ["a", "b"]


def test_open_variables__takes_sources_as_they_are():
    source = ArraySource("mine", ONE)
    assert [s.name for s in open_variables([source, ONE])] == ["mine", "x2"]
    assert [s.name for s in open_variables([source, ONE], ["a", "b"])] == ["a", "b"]
    assert open_variables([source, ONE])[0].array is ONE


@pytest.mark.parametrize(
    "names", [["a"], ["a", "b", "c"], ["a", "a"], [], [1, 2], ["a", None], [[], {}]]
)
def test_open_variables__needs_as_many_different_names(names):
    with pytest.raises(
        InvalidArgumentError, match="names must be 2 different words, one a variable"
    ) as caught:
        open_variables([ONE, ONE], names)
    assert str(caught.value).endswith(f"got {names!r}")


@pytest.mark.parametrize(
    "data", [[], [ONE], [TWO[:, :1]], [{"a": ONE}], [pd.DataFrame({"a": ONE})]]
)
def test_open_variables__needs_two(data):
    with pytest.raises(InvalidArgumentError, match=f"at least two variables, got {len(data)}"):
        open_variables(data)
    assert len(open_variables([ONE, ONE])) == 2


def test_open_variables__needs_equal_lengths():
    with pytest.raises(
        DataError, match="same rows, one observation each; got 'a' 12, 'b' 11, 'c' 12"
    ):
        open_variables([ONE, ONE[1:], TWO], ["a", "b", "c"])


REFUSED = [
    (np.array([1, "a"], object), "holds text beside numbers, first 'a' in row 1: make all of them"),
    (np.array([1, b"a"], object), "holds text beside numbers"),
    (np.array([None, 1j], object), "got complex: use its real and imaginary parts"),
    (np.array([[1], {}], object), "must hold numbers or labels, got values of type dict, list"),
    (np.array([date(2020, 1, 1), None]), "must hold real numbers, got date: turn times into numb"),
    (
        np.array(["1.5", "abc"]),
        "'x1' holds numbers that are written as text, as '1.5', beside 'abc",
    ),
    (
        np.array(["1,200", "950"]),
        "numbers that are written as text, as '1,200': make numbers of them",
    ),
    (np.array([1j, 2]), "must hold real numbers, got complex128: use its real and imaginary parts"),
    (np.array([1, 2], "M8[s]"), r"got datetime64\[s\]: turn times into numbers"),
    (np.array([1, 2], "m8[s]"), r"got timedelta64\[s\]: turn durations into numbers"),
    (np.zeros(2, [("a", float)]), "choose one of its fields"),
    (np.ma.masked_all(2, [("a", float)]), "choose one of its fields"),
    (pd.Series(pd.to_datetime(["2020", "2021"])), "turn times into numbers"),
    (
        pd.DataFrame({"a": [1, 2], "b": pd.to_datetime(["2020", "2021"])}),
        r"column 'b' of variable 'x1' must hold real numbers, got datetime64\[s\]: turn times",
    ),
    (pd.Series(pd.to_timedelta([1, 2], "s")), "turn durations into numbers, as seconds"),
    (pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"]), "must have different names .*: rename"),
    (
        dd.from_pandas(pd.Series(["a", "b"]), npartitions=1),
        r"\.astype\('category'\)\.cat\.as_known",
    ),
    (da.from_array(np.array([1j, 2])), "use its real and imaginary parts"),
    ([1, "a"], "holds text beside numbers, first 'a' in row 1"),
    (iter([1, 2]), r"got list_iterator: call list\(\) on it"),
    ([[1, 2], [3]], r"must have shape \(n,\) or \(n, d\), got rows of different lengths"),
    (np.zeros((2, 2, 2)), r"'x1' must have shape \(n,\) or \(n, d\), got \(2, 2, 2\)"),
    (da.zeros((2, 2, 2)), r"must have shape \(n,\) or \(n, d\), got \(2, 2, 2\)"),
    (np.array(1.0), r"must have shape \(n,\) or \(n, d\), got \(\)"),
    (np.zeros(0), "must have rows and columns, got 0 x 1"),
    (np.zeros((2, 0)), "must have rows and columns, got 2 x 0"),
    (pd.DataFrame(index=range(2)), "must have rows and columns, got 2 x 0"),
    (pd.Series([], dtype="category"), "must have rows and columns, got 0 x 1"),
    (None, "'x1' must be a NumPy, Dask, .* or the path of a zarr array, got NoneType"),
    (3.0, "got float"),
    ({"a": 1}, "variable 'a' must be a NumPy, .* got int"),
    ({"a": [1, 2], "b": [1, 2, 3]}, "columns of one variable must have the same rows; got 'a' 2"),
]


@pytest.mark.parametrize(("x", "match"), REFUSED)
def test_open_variables__refuses_what_is_no_rows_of_numbers(x, match):
    with pytest.raises(DataError, match=match):
        open_variables([x, np.zeros(2)])


def test_open_variables__refuses_unknown_chunks():
    unknown = da.from_array(ONE, chunks=4)
    with pytest.raises(DataError, match=r"unknown chunk sizes: call \.compute_chunk_sizes"):
        open_variables([unknown[unknown > 3], ONE])


@pytest.mark.parametrize("path", ["nowhere", "empty", "group"])
def test_open_variables__refuses_a_path_that_is_no_zarr_array(path, tmp_path):
    (tmp_path / "empty").mkdir()
    zarr.open_group(tmp_path / "group", mode="w")
    with pytest.raises(DataError, match=f"{path}' is not a readable zarr array .*: check the path"):
        open_variables([str(tmp_path / path), ONE])


@pytest.mark.parametrize("frame", [False, True])
def test_pandas__missing_values_of_nullable_integers_become_nan(frame):
    series = pd.Series([1, None, 3], dtype="Int64")
    x = pd.DataFrame({"a": series, "b": [True, False, True]}) if frame else series
    read = open_variables([x, np.zeros(3)])[0].read(0, 3)
    assert read.dtype == np.float64
    np.testing.assert_array_equal(read[:, 0], [1.0, np.nan, 3.0])
    if frame:
        np.testing.assert_array_equal(read[:, 1], [1.0, 0.0, 1.0])


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "Float32"])
def test_pandas__nullable_numbers_are_numbers(dtype):
    read = open_variables([pd.Series([1, 0, 1], dtype=dtype), np.zeros(3)])[0].read(0, 3)
    np.testing.assert_array_equal(read, [[1], [0], [1]])


def test_pandas__categories_become_codes():
    x = pd.Series(list("bab"), dtype="category")
    one, two = open_variables(
        [x, pd.DataFrame({"a": x, "b": x.iloc[::-1].to_numpy()}).astype("category")]
    )
    assert one.categorical
    assert two.categorical
    np.testing.assert_array_equal(one.read(0, 3), [[1], [0], [1]])
    assert two.shape == (3, 2)


def test_pandas__missing_categories_are_refused():
    x = pd.Series(["a", None, "b"], dtype="category")
    with pytest.raises(
        DataError, match=r"'x1' has missing values in 1 rows, first in row 1: .* missing='drop'"
    ):
        open_data([x, np.zeros(3)], None, None, "refuse")


def test_pandas__columns_may_be_categories_and_numbers():
    x = pd.DataFrame({"a": pd.Series(["u", "v"], dtype="category"), "b": [1.5, 2.5]})
    source, _ = open_variables([x, np.zeros(2)])
    assert source.kinds == ("category", "number")
    assert source.labels == ("a", "b")
    np.testing.assert_array_equal(source.read(0, 2), [[0, 1.5], [1, 2.5]])


def test_zarr__kind_attribute_marks_categories(group):
    root = zarr.open_group(group, mode="r")
    assert [s.categorical for s in open_variables([root["label"], root["year"]])] == [True, False]
    assert open_variables([f"{group}/label", ONE])[0].categorical
    assert [s.categorical for s in open_group(group, ["label", "year"])] == [True, False]


@pytest.mark.parametrize(
    ("text", "name", "columns"),
    [
        ("timbre", "timbre", [0, 1, 2, 3]),
        ("t=timbre", "t", [0, 1, 2, 3]),
        ("timbre[:, 0:2]", "timbre[:, 0:2]", [0, 1]),
        ("low=timbre[:,0:2]", "low", [0, 1]),
        ("timbre[:, 3]", "timbre[:, 3]", [3]),
        ("timbre[:, -1]", "timbre[:, -1]", [3]),
        ("timbre[:, 0, 2,3]", "timbre[:, 0, 2,3]", [0, 2, 3]),
        ("timbre[:, [2, 0]]", "timbre[:, [2, 0]]", [2, 0]),
        ("timbre[:, ::2]", "timbre[:, ::2]", [0, 2]),
        ("timbre[:, :]", "timbre[:, :]", [0, 1, 2, 3]),
        ("timbre[:]", "timbre[:]", [0, 1, 2, 3]),
        (" t = timbre [ : , 1: ] ", "t", [1, 2, 3]),
        ("named[:, second]", "named[:, second]", [1]),
        ("named[:, [last, 0]]", "named[:, [last, 0]]", [3, 0]),
    ],
)
def test_open_group__chooses_columns_as_numpy_does(group, text, name, columns):
    first, second = open_group(group, [text, "year"])
    assert first.name == name
    assert first.shape == (N, len(columns))
    np.testing.assert_array_equal(values(first), TWO[:, columns])
    np.testing.assert_array_equal(first.take(np.array([1, 11])), TWO[[1, 11]][:, columns])
    np.testing.assert_array_equal(values(second), ONE[:, None])


@pytest.mark.parametrize("text", ["year[:, 0]", "year[:]", "year[:, -1]"])
def test_open_group__a_vector_has_one_column(group, text):
    np.testing.assert_array_equal(values(open_group(group, [text, "timbre"])[0]), ONE[:, None])


@pytest.mark.parametrize(
    "text",
    [
        "timbre[:, 4]",
        "timbre[:, -5]",
        "timbre[:, 0,4]",
        "timbre[:, 4:]",
        "timbre[:, 2:99]",
        "timbre[:,0,0]",
        "timbre[:, 2:2]",
        "timbre[:, 0:4:0]",
        "year[:, 1]",
    ],
)
def test_open_group__refuses_columns_that_are_not_there(group, text):
    d = 1 if text.startswith("year") else 4
    with pytest.raises(
        InvalidArgumentError, match=f"must choose columns of the {d} of the array, each once; got"
    ) as caught:
        open_group(group, [text, "label"])
    assert f"variable {text!r}" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["timbre[a]", "timbre[]", "timbre[0:2,3]", "timbre[0:2]", "timbre[3]", "timbre[:,]"],
)
def test_open_group__refuses_what_numpy_takes_for_rows(group, text):
    with pytest.raises(InvalidArgumentError, match="columns are written behind the rows, as"):
        open_group(group, [text, "year"])


def test_open_group__says_how_columns_are_written(group):
    with pytest.raises(InvalidArgumentError, match=r"write \[:, 0:12\] if these are columns"):
        open_group(group, ["timbre[0:12]", "year"])
    with pytest.raises(InvalidArgumentError, match=r"as \[:, 0:10\] or \[:, 0:10:2\]"):
        open_group(group, ["timbre[:, 0:1:1:1]", "year"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("named[:, secnd]", "first, second, third, last; did you mean 'second'"),
        ("timbre[:, a]", "there are: none"),
        ("timbre[:, 1.5]", "no column '1.5'"),
        ("timbre[:, 0:2,3]", "no column '0:2'"),
    ],
)
def test_open_group__names_the_columns_there_are(group, text, says):
    with pytest.raises(InvalidArgumentError, match=says):
        open_group(group, [text, "year"])


def test_open_group__knows_the_names_of_columns(group):
    named, other = open_group(group, ["named[:, 1:3]", "timbre"])
    assert (named.labels, other.labels) == (("second", "third"), None)


@pytest.mark.parametrize(
    "text", ["", "a=b=c", "timbre[:, 0", "timbre]0[", "[:, 0]", "=timbre", "timbre[:, 0]x"]
)
def test_parse_variable__refuses_what_is_no_variable(text):
    with pytest.raises(
        InvalidArgumentError, match=r"array, array\[:, columns\] or name=array\[:, columns\], got"
    ):
        parse_variable(text)


def test_open_group__suggests_the_nearest_array(group):
    with pytest.raises(InvalidArgumentError) as caught:
        open_group(group, ["timbr[:, 0]", "year"])
    assert str(caught.value) == (
        f"variable 'timbr[:, 0]' needs an array 'timbr' in {group!r}; there are: cube, label, "
        "named, scalar, short, timbre, wave, year; did you mean 'timbre'?"
    )


def test_open_group__says_of_an_empty_group_that_there_are_none(tmp_path):
    zarr.open_group(tmp_path / "g", mode="w")
    with pytest.raises(InvalidArgumentError, match="there are: none"):
        open_group(str(tmp_path / "g"), ["x", "y"])


@pytest.mark.parametrize("variables", [["year"], [], ["year", "year"], ["a=year", "a=timbre"]])
def test_open_group__needs_two_different_names(group, variables):
    with pytest.raises(
        InvalidArgumentError, match="needs two or more variables of different names, got"
    ):
        open_group(group, variables)
    assert len(open_group(group, ["year", "again=year"])) == 2


@pytest.mark.parametrize(
    ("variables", "match"),
    [
        (["cube", "year"], r"'cube' must have shape \(n,\) or \(n, d\), got \(12, 2, 2\)"),
        (["scalar", "year"], r"'scalar' must have shape \(n,\) or \(n, d\), got \(\)"),
        (["scalar[:, 0]", "year"], r"must have shape \(n,\) or \(n, d\), got \(\)"),
        (["wave", "year"], "'wave' must hold real numbers, got complex128: use its real"),
        (
            ["short", "year"],
            "must have the same rows, one observation each; got 'short' 3, 'year' 12",
        ),
    ],
)
def test_open_group__checks_the_arrays(group, variables, match):
    with pytest.raises(DataError, match=match):
        open_group(group, variables)


@pytest.mark.parametrize("path", ["nowhere", "empty", "g.zarr/year"])
def test_open_group__refuses_a_path_that_is_no_zarr_group(group, tmp_path, path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"is not a readable zarr group .*: check the path"):
        open_group(str(tmp_path / path), ["timbre", "year"])


def test_open_variables__refuses_pandas_rows_in_another_order():
    first = pd.Series(ONE)
    with pytest.raises(
        DataError, match=r"the same index: .* not in the same order\. .*reset_index"
    ):
        open_variables([first, first[::-1], TWO])
    assert len(open_variables([first, first.copy(), TWO])) == 3


def test_open_variables__zarr_in_memory_is_held_here(tmp_path):
    here = zarr.create_array({}, data=ONE, chunks=(10,))
    there = zarr.create_array(tmp_path / "x.zarr", data=ONE, chunks=(10,))
    assert [s.place for s in open_variables([here, there])] == ["memory", "storage"]


def test_open_variables__names_are_a_sequence():
    for names in (5, "ab"):
        with pytest.raises(InvalidArgumentError, match="names must be a sequence of words"):
            open_variables([ONE, ONE], names)
