"""Whatever form data come in, a column is of one kind and gives one result, or is refused in words.

Every kind of column goes through every door: it gives the kernel and the estimate of a pandas
Series, or its refusal, but where the type is lost before the door, as that of categories in text.
"""

import datetime
import json
import re
from decimal import Decimal
from functools import cache, partial

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xarray as xr
import zarr
from click.testing import CliRunner

import dhsic
from dhsic.cli import main
from dhsic.errors import DataError, InvalidArgumentError
from tests.test_missing import FUNCTIONS

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")

N = 60
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 4, N)
Y = CODES % 2 + 0.7 * RNG.standard_normal(N)
X = RNG.standard_normal((N, 2))
PLACES = np.array([700, 3, 52, 11])[CODES]  # codes of regions, whose distances mean nothing
TEXT = np.array(list("udac"), object)[CODES]
GAPS = np.arange(N) % 9 == 4
DAYS = pd.to_timedelta(PLACES, "D")
NAMES = [f"u{v}" for v in [*range(N - 1), 0]]  # one of which repeats


def gapped(values, mark=None):
    values = np.array(values, object)
    values[GAPS] = mark
    return values


def polars():
    return pytest.importorskip("polars", reason="polars is not installed")


COLUMNS = {
    "category of numbers": pd.Categorical(PLACES),
    "category of booleans": pd.Categorical(CODES > 1),
    "category of text": pd.Categorical(TEXT),
    "category of rare text": pd.Categorical(NAMES),
    "category of numbers, gaps": pd.Categorical(pd.Series(PLACES).where(~GAPS)),
    "category of text, gaps": pd.Categorical(gapped(TEXT)),
    "text": pd.Series(TEXT, dtype=object),
    "text of pandas": pd.Series(TEXT, dtype="string"),
    "text, gaps": gapped(TEXT),
    "booleans": CODES > 1,
    "nullable booleans, gaps": pd.array(gapped(CODES > 1, pd.NA), "boolean"),
    "booleans as objects, gaps": gapped(CODES > 1),
    "integers": PLACES,
    "nullable integers": pd.array(PLACES, "Int64"),
    "nullable integers, gaps": pd.array(gapped(PLACES, pd.NA), "Int64"),
    "float32": PLACES.astype("float32"),
    "floats, gaps": np.where(GAPS, np.nan, PLACES),
    "Decimal": [Decimal(int(value)) for value in PLACES],
    "Decimal, gaps": gapped([Decimal(int(value)) for value in PLACES]),
    # Those that are refused.
    "large integers, gaps": pd.array(gapped(PLACES + 2**53, pd.NA), "Int64"),
    "text among numbers": [int(v) if i % 2 else str(v) for i, v in enumerate(PLACES)],
    "numbers as text": pd.Series([f"{v / 10}" for v in PLACES], dtype=object),
    "quantities": pd.Series([f"{v / 10} kg" for v in range(N // 2)] * 2, dtype=object),
    "rare text": pd.Series(NAMES, dtype=object),
    "times": pd.Timestamp("2020-01-01") + DAYS,
    "durations": DAYS,
    "dates as objects": [datetime.date(2020, 1, 1) + datetime.timedelta(int(v)) for v in PLACES],
    "periods": pd.PeriodIndex.from_ordinals(PLACES, freq="M"),
}


def column(name):
    values = COLUMNS[name]
    objects = isinstance(values, list) or values.dtype.kind == "O"
    typed = isinstance(values, pd.api.extensions.ExtensionArray | pd.Index | pd.Series)
    return pd.Series(values, name="g", dtype=object if objects and not typed else None)


def table(s):
    return pd.DataFrame({"g": s, "y": Y, "z": np.arange(N) % 3})


def told(x, y=Y, **options):
    found = dhsic.hsic(x, y, estimator="v-hsic", rng=0, **options)
    return found.variables[0].kernel, pytest.approx(found.estimate, rel=1e-9)


def by_name(data, **options):
    return told("g", "y", data=data, **options)


def in_arrow(s):
    return pa.Array.from_pandas(s)


def arrow_table(s):
    return pa.table({"g": in_arrow(s), "y": Y})


def written(s, path, how):
    getattr(table(s), how)(path, index=False)
    return path


def of_zarr(s, path):
    group = zarr.open_group(path, mode="w")
    for name, values in (("g", s.to_numpy()), ("y", Y)):
        group.create_array(name, data=values, config={"write_empty_chunks": True})
    return group


def lazy(x):
    return dd.from_pandas(x, npartitions=3)


def by_command(path, missing="refuse"):
    """Of `dhsic test`, which refuses in words and ends with 2."""
    words = ["test", path, "--variable", "g", "--variable", "y", "--estimator", "v-hsic"]
    out = path.with_suffix(".json")
    words += ["--seed", 0, "--resamples", 19, "--missing", missing, "--json", out]
    done = CliRunner().invoke(main, list(map(str, words)))
    if done.exit_code == 2:
        raise DataError(done.stderr)
    assert done.exit_code == 0, done.stderr
    found = json.loads(out.read_text())
    return found["variables"][0]["kernel"], pytest.approx(found["estimate"])


DOORS = {
    "frame of one column": lambda s, p, **o: told(s.to_frame(), **o),
    "name in a frame": lambda s, p, **o: by_name(table(s), **o),
    "array of pandas": lambda s, p, **o: told(s.array, **o),
    "index of pandas": lambda s, p, **o: told(pd.Index(s), **o),
    "name in a dictionary": lambda s, p, **o: by_name({"g": s, "y": Y}, **o),
    "NumPy": lambda s, p, **o: told(s.to_numpy(object), **o),
    "list": lambda s, p, **o: told(s.tolist(), **o),
    "name in a Dataset": lambda s, p, **o: by_name(table(s).to_xarray(), **o),
    "Arrow": lambda s, p, **o: told(in_arrow(s), **o),
    "name in an Arrow table": lambda s, p, **o: by_name(arrow_table(s), **o),
    "Arrow of pandas": lambda s, p, **o: by_name(pa.Table.from_pandas(table(s)), **o),
    "polars": lambda s, p, **o: told(polars().from_arrow(in_arrow(s)), **o),
    "name in a polars frame": lambda s, p, **o: by_name(polars().from_arrow(arrow_table(s)), **o),
    "Parquet": lambda s, p, **o: by_name(written(s, p / "t.parquet", "to_parquet"), **o),
    "CSV": lambda s, p, **o: by_name(written(s, p / "t.csv", "to_csv"), **o),
    "command on CSV": lambda s, p, **o: by_command(written(s, p / "t.csv", "to_csv"), **o),
    "zarr": lambda s, p, **o: by_name(of_zarr(s, p / "t.zarr"), **o),
    "Dask column": lambda s, p, **o: told(lazy(s), **o),
    "name in a Dask frame": lambda s, p, **o: by_name(lazy(table(s)), **o),
    "Dask array": lambda s, p, **o: told(da.from_array(s.to_numpy(), chunks=20), **o),
}
# Types that are lost before the door: codes of categories of numbers are numbers again, text has no
# types, and Arrow has no columns of several.
CODED = {"category of numbers", "category of numbers, gaps"}
MIXED = {"text among numbers"}
RARE = {"category of rare text"}
NUMBERS = {
    *("category of booleans", "booleans", "integers", "nullable integers"),
    *("nullable integers, gaps", "float32", "floats, gaps", "times", "durations"),
}
OF_CSV = {*CODED, *MIXED, *RARE, "durations", "periods", "numbers as text"}
LOST = {
    "NumPy": CODED | RARE,
    "list": CODED | RARE,
    "Arrow": MIXED,
    "name in an Arrow table": MIXED,
    "Arrow of pandas": MIXED,
    "polars": {*CODED, *MIXED, "periods"},
    "name in a polars frame": {*CODED, *MIXED, "periods"},
    "Parquet": MIXED,
    "CSV": OF_CSV,
    "command on CSV": OF_CSV,
    "zarr": COLUMNS.keys() - NUMBERS,
    "Dask array": {*CODED, "large integers, gaps"},
}
# Dask takes objects for text, and labels must be known before they are read.
OBJECTS = {
    *("text", "text of pandas", "text, gaps", "booleans as objects, gaps"),
    *("Decimal", "Decimal, gaps"),
}
REFUSED = {
    "Dask column": OBJECTS,
    "name in a Dask frame": OBJECTS,
    "Dask array": OBJECTS
    | RARE
    | {"category of text", "category of text, gaps", "nullable booleans, gaps"},
}
CELLS = [(door, name) for door in DOORS for name in COLUMNS if name not in LOST.get(door, ())]
WITH_GAPS = {name for name in COLUMNS if name.endswith("gaps")}


@cache
def expected(name, run=told):
    """The answer of a Series, None where it is refused."""
    try:
        kernel, estimate = run(column(name), **({"missing": "drop"} if name in WITH_GAPS else {}))
    except DataError:
        return None
    return kernel.partition(":")[0], estimate


def by_test(x, **options):
    asked = {"estimator": "v-hsic", "rng": 0, "n_resamples": 19}
    found = dhsic.independence_test(x, Y, **asked, **options)
    return found.variables[0].kernel, pytest.approx(found.estimate)


@pytest.mark.parametrize(("door", "name"), CELLS)
def test_column__is_of_one_kind_through_every_door(door, name, tmp_path):
    enter, options = DOORS[door], {"missing": "drop"} if name in WITH_GAPS else {}
    reference = expected(name, by_test if door.startswith("command") else told)
    if reference is None or name in REFUSED.get(door, ()):
        with pytest.raises(DataError):
            enter(column(name), tmp_path, **options)
        return
    kernel, estimate = enter(column(name), tmp_path, **options)
    assert (kernel.partition(":")[0], estimate) == reference


def test_columns__that_are_refused_are_the_last_ones():
    assert [name for name in COLUMNS if expected(name) is None] == list(COLUMNS)[19:]


# Arrays ------------------------------------------------------------------------------------------


class Shared:
    """An array of another library, which shares its memory by DLPack."""

    def __dlpack__(self, **options):
        return X.__dlpack__(**options)

    def __dlpack_device__(self):
        return X.__dlpack_device__()


def mapped(x, folder):
    array = np.memmap(folder / "m.dat", x.dtype, "w+", shape=x.shape)
    array[:] = x
    return array


def stored(x, place, **options):
    chunks = {"chunks": (7, 1), **options}
    return zarr.create_array(place, data=x, **chunks)


def in_dask(form):
    """Blocks of rows in a sparse form, as AnnData has them."""
    return da.from_array(X, chunks=(20, 2)).map_blocks(form)


FRAME = pd.DataFrame(X, columns=["a", "b"])
MATRICES = {
    "list": lambda f: X.tolist(),
    "Fortran order": lambda f: np.asfortranarray(X),
    "mask of nothing": lambda f: np.ma.array(X),
    "memory map": lambda f: mapped(X, f),
    "memoryview": lambda f: memoryview(X),
    "DLPack": lambda f: Shared(),
    "xarray": lambda f: xr.DataArray(X, dims=("row", "column")),
    "Dask": lambda f: da.from_array(X, chunks=(20, 1)),
    "xarray of Dask": lambda f: xr.DataArray(da.from_array(X, chunks=20), dims=("row", "column")),
    "zarr": lambda f: stored(X, f / "a.zarr"),
    "format 2": lambda f: stored(X, f / "a.zarr", zarr_format=2),
    "shards": lambda f: stored(X, f / "a.zarr", chunks=(7, 1), shards=(21, 2)),
    "path": lambda f: str(stored(X, f / "a.zarr").store_path).removeprefix("file://"),
    "bytes": lambda f: str(stored(X, f / "a.zarr").store_path).removeprefix("file://").encode(),
    "stored array": lambda f: dhsic.stored_array(stored(X, f / "a.zarr")),
    "pandas": lambda f: FRAME.set_axis(range(100, 100 + N)[::-1]),
    "pandas objects": lambda f: FRAME.astype(object),
    "Dask frame": lambda f: dd.from_pandas(FRAME, npartitions=3),
    "polars": lambda f: polars().DataFrame({"a": X[:, 0], "b": X[:, 1]}),
    "Arrow": lambda f: pa.table({"a": X[:, 0], "b": X[:, 1]}),
    "dictionary": lambda f: {"a": X[:, 0], "b": X[:, 1]},
    "Dataset": lambda f: FRAME.to_xarray(),
    "sparse": lambda f: sp.csr_array(X),
    "sparse matrix": lambda f: sp.csr_matrix(X),
    "sparse dictionary": lambda f: sp.dok_array(X),
    "Dask of sparse": lambda f: in_dask(sp.csr_array),
    "Dask of sparse matrices": lambda f: in_dask(sp.csr_matrix),
    "torch": lambda f: pytest.importorskip("torch").from_numpy(X),
}


@pytest.mark.filterwarnings("ignore:Warning. 'nan' gradients:RuntimeWarning")
@pytest.mark.parametrize("estimator", ["v-hsic", "nystrom-m"])
@pytest.mark.parametrize("form", MATRICES)
def test_numbers__of_every_form_give_the_result_of_their_array(form, estimator, tmp_path):
    x = MATRICES[form](tmp_path)
    found, expected = (dhsic.hsic(one, Y, estimator=estimator, rng=0) for one in (x, X))
    assert found.estimate == pytest.approx(expected.estimate)
    assert found.variables[0].columns == 2


@pytest.mark.parametrize(
    ("x", "match"),
    [
        (da.zeros((2, 2, 2)), r"must have shape \(n,\) or \(n, d\), got \(2, 2, 2\)"),
        (np.array(1.0), r"must have shape \(n,\) or \(n, d\), got \(\)"),
        ([[1, 2], [3]], r"must have shape \(n,\) or \(n, d\), got rows of different lengths"),
        (np.zeros(0), "must have rows and columns, got 0 x 1"),
        (pd.DataFrame(index=range(2)), "must have rows and columns, got 2 x 0"),
        (pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"]), "must have different names .*: renam"),
        ({"a": 1}, "variable 'a' must be a NumPy, .* got int"),
        (
            {"a": [1, 2], "b": [1, 2, 3]},
            "columns of one variable must have the same rows, .*got 'a'",
        ),
        (pa.array([[1.0, 2.0], [3.0, 4.0]]), r"must have one number or label a row|values of type"),
    ],
)
def test_data__that_are_no_rows_of_numbers_are_refused(x, match):
    with pytest.raises(DataError, match=match):
        dhsic.hsic(x, np.zeros(2))


def test_arrays__that_numpy_cannot_read_are_refused_with_what_they_say():
    class OnDevice:
        def __array__(self, dtype=None, copy=None):
            msg = "cannot convert a tensor on a device"
            raise TypeError(msg)

    with pytest.raises(DataError, match=r"OnDevice that NumPy cannot read .*cannot convert a tens"):
        dhsic.hsic(OnDevice(), Y)


# Names and columns of data -----------------------------------------------------------------------


def frame():
    return pd.DataFrame({"label": TEXT, "number": X[:, 0], "late": CODES > 1, "other": X[:, 1]})


FRAMES = {
    "pandas": lambda f: frame(),
    "polars": lambda f: polars().DataFrame({k: v.tolist() for k, v in frame().items()}),
    "Arrow": lambda f: pa.table({k: v.tolist() for k, v in frame().items()}),
    "Dask": lambda f: dd.from_pandas(frame().astype({"label": "category"}), npartitions=3),
    "dictionary": lambda f: {k: v.to_numpy() for k, v in frame().items()},
    "Dataset": lambda f: xr.Dataset({k: ("row", v.to_numpy()) for k, v in frame().items()}),
    "CSV": lambda f: frame().to_csv(f / "t.csv", index=False) or f / "t.csv",
    "Parquet": lambda f: frame().to_parquet(f / "t.parquet") or str(f / "t.parquet"),
}


@pytest.mark.parametrize("form", FRAMES)
def test_columns__of_a_table_are_variables(form, tmp_path):
    data, whole = FRAMES[form](tmp_path), frame()
    found = dhsic.hsic("other", ["number", "late"], data=data, rng=0)
    assert [v.name for v in found.variables] == ["other", "number+late"]
    assert found.variables[1].column_names == ("number", "late")
    expected = dhsic.hsic(X[:, 1], whole[["number", "late"]], rng=0)
    assert found.estimate == pytest.approx(expected.estimate)
    alone = dhsic.hsic(data=data, rng=0)
    assert [v.name for v in alone.variables] == list(whole)
    columns = [whole[name].to_numpy() for name in whole]
    assert alone.estimate == pytest.approx(dhsic.hsic(*columns, rng=0).estimate)
    samples = dhsic.two_sample_test("number", "other", data=data, rng=0)
    assert [one.name for one in samples.samples] == ["number", "other"]
    assert samples.pvalue == dhsic.two_sample_test(X[:, 0], X[:, 1], rng=0).pvalue


def test_columns__of_partitions_and_of_any_name_are_variables(tmp_path):
    whole, multi = frame().sort_values("label", kind="stable"), pd.MultiIndex.from_tuples
    whole.to_parquet(tmp_path / "t", partition_cols=["label"])
    twofold = pd.DataFrame(X, columns=multi([("a", "b"), ("a", "c")]))
    for data, names, columns in (
        (tmp_path / "t", ("label", "number"), (whole["label"], whole["number"])),
        (pd.DataFrame(X), (0, "1"), X.T),
        (twofold, (("a", "b"), "('a', 'c')"), X.T),
    ):
        found, expected = dhsic.hsic(*names, data=data, rng=0), dhsic.hsic(*columns, rng=0)
        assert found.estimate == pytest.approx(expected.estimate)
    with pytest.raises(DataError, match=r"got Int128: make a column of each part, or numbers"):
        dhsic.hsic(polars().Series(PLACES, dtype=polars().Int128), Y)


def parts(folder, *tables):
    """A folder of Parquet files, in the order of their numbers."""
    for number, columns in enumerate(tables, 8):
        path = folder / f"part.{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), path)
    return str(folder)


def test_parquet_files__are_read_in_the_order_of_their_numbers(tmp_path):
    data = parts(tmp_path / "t", *({"x": X[k::4, 0], "y": Y[k::4]} for k in range(4)))
    order = np.concatenate([np.arange(len(X))[k::4] for k in range(4)])
    (tmp_path / "t" / "README.txt").write_text("four parts")
    (tmp_path / "t" / "_SUCCESS").touch()
    test = partial(dhsic.independence_test, strata=order % 3, rng=0)
    assert test("x", "y", data=data).pvalue == test(X[order, 0], Y[order]).pvalue


HALF = {"x": [0.5, 1.5, 2.5, 0.1], "y": [1.0, 2.0, 4.0, 3.0]}


@pytest.mark.parametrize(
    ("first", "told"),
    [
        ({"y": [True, False]}, r"'y' of type double in part.9.parquet, and of type bool"),
        (
            {"y": pa.array([1, 2], "float32")},
            r"'y' of type double in part.9.\w+, and of type float",
        ),
        ({}, r"'y' of type double in part.9.parquet, and of type none in those before"),
        ({"y": [1.0, 2.0], "z": [1, 2]}, r"'z' of type none in part.9.parquet, and of type int64"),
    ],
)
def test_parquet_files__of_other_columns_are_refused(first, told, tmp_path):
    data = parts(tmp_path / "t", {"x": [0.5, 1.5], **first}, HALF)
    with pytest.raises(DataError, match=f"same columns of the same types, got column {told}"):
        dhsic.hsic("x", "y", data=data, missing="drop", rng=0)


def test_parquet_files__without_a_value_or_with_partitions_have_the_type_of_others(tmp_path):
    data = parts(tmp_path / "t", {"x": [3.0], "y": pa.nulls(1)}, HALF)
    assert dhsic.hsic("x", "y", data=data, missing="drop", rng=0).n == 4
    for group in (1.5, 2.5):  # the second stores its column too
        whole = {**HALF, "h": [group * k for k in range(4)]}
        (tmp_path / "g").mkdir(exist_ok=True)
        parts(tmp_path / "g" / f"g={group}", whole)
        (tmp_path / "h").mkdir(exist_ok=True)
        parts(tmp_path / "h" / f"h={group}", whole)
    columns = np.tile(HALF["x"], 2), np.repeat([1.5, 2.5], 4)
    stored = np.outer([1.5, 2.5], range(4)).ravel()
    for name, column in (("g", columns[1]), ("h", stored)):
        found = dhsic.hsic("x", name, data=tmp_path / name, rng=0)
        assert found.estimate == pytest.approx(dhsic.hsic(columns[0], column, rng=0).estimate)
    for k in (1, 2):  # as Spark writes a key with a blank
        (tmp_path / "b").mkdir(exist_ok=True)
        parts(tmp_path / "b" / f"my%20k={k}", HALF)
    found = dhsic.hsic("x", "my%20k", data=tmp_path / "b", rng=0)
    assert found.estimate == pytest.approx(dhsic.hsic(columns[0], columns[1], rng=0).estimate)
    for k in (1, 2):  # whole numbers keep their digits
        (tmp_path / "w").mkdir(exist_ok=True)
        parts(tmp_path / "w" / f"when={2**53 + k}", HALF)
    with pytest.raises(DataError, match=r"'when' has integers beyond 2\*\*53|integers beyond 2"):
        dhsic.hsic("x", "when", data=tmp_path / "w", rng=0)
    strata = dhsic.independence_test("x", "y", data=tmp_path / "w", strata="when", rng=0)
    assert "strata" in strata.null_reason
    (tmp_path / "none.parquet").mkdir()
    with pytest.raises(DataError, match=r"must hold Parquet files, got none: give the folder"):
        dhsic.hsic("x", "y", data=tmp_path / "none.parquet")


def test_a_parquet_file__may_have_a_name_twice_beside_those_in_use(tmp_path):
    table = pa.Table.from_arrays([*map(pa.array, (X[:, 0], Y, Y, X[:, 1]))], [*"abbc"])
    pq.write_table(table, path := tmp_path / "t.parquet")
    found = dhsic.hsic("a", "c", data=path, rng=0)
    assert found.estimate == pytest.approx(dhsic.hsic(X[:, 0], X[:, 1], rng=0).estimate)
    with pytest.raises(DataError, match="more than one column 'b': rename them"):
        dhsic.hsic("a", "b", data=path)


def test_a_zarr_group__is_one_whatever_lies_in_it(tmp_path):
    group = zarr.open_group(tmp_path / "g", mode="w")
    for name, values in (("x", X), ("lr=0.1", Y)):
        group.create_array(name, data=values)
    (tmp_path / "g" / "source.parquet").touch()
    found = dhsic.hsic("x", "x[:, 1]", data=tmp_path / "g", rng=0)
    assert found.estimate == pytest.approx(dhsic.hsic(X, X[:, 1], rng=0).estimate)


def test_a_folder_of_folders_of_parquet__is_told_so_where_they_lie_near(tmp_path):
    (tmp_path / "t" / "a" / "b" / "c").mkdir(parents=True)
    parts(tmp_path / "t" / "a" / "b" / "c", HALF)
    with pytest.raises(DataError, match=r"is not a readable zarr group"):
        dhsic.hsic("x", "y", data=tmp_path / "t")
    parts(tmp_path / "t" / "a", HALF)
    with pytest.raises(DataError, match=r"a folder of Parquet files: end its name in \.parquet"):
        dhsic.hsic("x", "y", data=tmp_path / "t")


STRATA = np.arange(N) % 2
KEYED = {1: X[:, 0], "b": X[:, 1], 0.5: CODES, "y": Y, 7: STRATA}


def forms_of(columns):
    table = pd.DataFrame(columns)
    return columns, table, dd.from_pandas(table, npartitions=2)


@pytest.mark.parametrize("data", forms_of(KEYED))
def test_columns__are_found_by_their_keys_and_by_their_text(data):
    for name, key in ((1, 1), ("1", 1), ([0.5], 0.5), ([np.int64(1)], 1), (["b"], "b")):
        found = dhsic.hsic(name, "y", data=data, rng=0)
        assert found.estimate == pytest.approx(dhsic.hsic(KEYED[key], Y, rng=0).estimate)
    test = partial(dhsic.independence_test, rng=0)
    assert test(1, "y", data=data, strata=7).pvalue == test(X[:, 0], Y, strata=STRATA).pvalue
    together = dhsic.hsic(data, rng=0)
    assert [v.name for v in together.variables][:2] == ["1", "b"]


@pytest.mark.parametrize("data", forms_of({1: X[:, 0], "1": X[:, 1], "y": Y}))
def test_columns__that_are_alike_as_text_are_refused(data):
    for ask in (
        lambda: dhsic.hsic("1", "y", data=data),
        lambda: dhsic.hsic(data, Y),
        lambda: dhsic.rank_features(target="y", data=data),
    ):
        with pytest.raises(DataError, match=r"must have different names as text.*rename them"):
            ask()


# Flags of a text file are categories, which have no residuals.
_NUMBERS = [form for form in FRAMES if form not in ("CSV", "Parquet")]
FORM_OF = {
    name: (forms := _NUMBERS if name.startswith("causal.") else [*FRAMES])[place % len(forms)]
    for place, name in enumerate(FUNCTIONS)
}


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions__take_names_of_columns(name, tmp_path):
    run, data = FUNCTIONS[name], FRAMES[FORM_OF[name]](tmp_path)
    found = run("number", "other", "late", data=data)
    expected = run(X[:, 0], X[:, 1], CODES > 1)
    for what in ("pvalue", "pvalues", "estimate", "hsic", "coco", "n"):
        if hasattr(expected, what):
            np.testing.assert_allclose(getattr(found, what), getattr(expected, what))


@pytest.mark.parametrize("form", [form for form in FRAMES if form not in ("CSV", "Parquet")])
def test_a_table__of_labels_and_numbers_takes_the_product_of_kernels(form, tmp_path):
    found = dhsic.hsic(FRAMES[form](tmp_path), Y, estimator="v-hsic", rng=0)
    kernel = re.sub(r":[^)@,*]+", "", found.variables[0].kernel)  # without bandwidths
    assert kernel.endswith("@1,3*delta@0,2")
    codes = np.column_stack([CODES, X[:, 0], CODES > 1, X[:, 1]])
    asked = {"kernels": [kernel, None], "estimator": "v-hsic", "rng": 0}
    assert found.estimate == pytest.approx(dhsic.hsic(codes, Y, **asked).estimate)


def test_names__are_those_of_the_data():
    series, one = pd.Series(Y, name="AT"), xr.DataArray(X[:, 0], dims="row", name="PE")

    def names(*variables, **options):
        return [v.name for v in dhsic.hsic(*variables, rng=0, **options).variables]

    assert names(series, one, X) == ["AT", "PE", "x3"]
    assert names(series, series + 1, one) == ["x1", "x2", "PE"]
    assert names(pd.DataFrame({"q": Y}), series.rename("x2")) == ["q", "x2"]
    assert names(series, Y, names=["a", "b"]) == ["a", "b"]


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("group") / "g.zarr")
    root = zarr.open_group(path, mode="w")
    wide = np.random.default_rng(1).standard_normal((N, 4))
    root.create_array("timbre", data=wide, chunks=(25, 3))
    names = {"columns": ["first", "second", "third", "last"]}
    root.create_array("named", data=wide, chunks=(25, 4), attributes=names)
    root.create_array("year", data=Y, chunks=(7,))
    root.create_array("short", data=Y[:3])
    root.create_array("cube", data=np.ones((N, 2, 2)))
    root.create_array("label", data=CODES + 1, attributes={"kind": "categorical"})
    root.create_array("wave", data=1j * Y)
    return path, wide


@pytest.mark.parametrize(
    ("text", "name", "columns"),
    [
        ("timbre", "timbre", [0, 1, 2, 3]),
        ("t=timbre", "t", [0, 1, 2, 3]),
        ("timbre[:, 0:2]", "timbre[:, 0:2]", [0, 1]),
        ("low=timbre[:,0:2]", "low", [0, 1]),
        ("timbre[:, -1]", "timbre[:, -1]", [3]),
        ("timbre[:, 0, 2,3]", "timbre[:, 0, 2,3]", [0, 2, 3]),
        ("timbre[:, [2, 0]]", "timbre[:, [2, 0]]", [2, 0]),
        ("timbre[:, ::2]", "timbre[:, ::2]", [0, 2]),
        ("timbre[:]", "timbre[:]", [0, 1, 2, 3]),
        (" t = timbre [ : , 1: ] ", "t", [1, 2, 3]),
        ("named[:, second]", "named[:, second]", [1]),
        ("named[:, [last, 0]]", "named[:, [last, 0]]", [3, 0]),
    ],
)
def test_columns__of_a_group_are_chosen_as_numpy_does(group, text, name, columns):
    path, wide = group
    found = dhsic.hsic(text, "year", data=path, estimator="v-hsic", rng=0)
    assert found.variables[0].name == name
    assert found.estimate == told(wide[:, columns])[1]
    if text == "named[:, [last, 0]]":
        assert found.variables[0].column_names == ("last", "first")


def test_array__of_a_group_alone_stands_for_its_columns(group):
    path, wide = group
    found, expected = dhsic.hsic("named", data=path, rng=0), dhsic.hsic(wide, rng=0)
    assert [v.name for v in found.variables] == ["first", "second", "third", "last"]
    assert found.estimate == pytest.approx(expected.estimate)
    with pytest.raises(InvalidArgumentError, match="at least two variables, got 1"):
        dhsic.hsic("year", data=path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *(
            (f"timbre[:, {a}]", "columns of the 4 of the array, each once")
            for a in ("4", "0,0", "2:2")
        ),
        ("timbre[:, 2:99]", "columns of the 4 of the array"),
        ("year[:, 1]", "columns of the 1 of the array"),
        *(
            (f"timbre{a}", "columns are written behind the rows, as")
            for a in ("[0:2]", "[3]", "[a]")
        ),
        ("named[:, secnd]", "first, second, third, last; did you mean 'second'"),
        ("timbre[:, 1.5]", "no column '1.5'"),
        *((a, r"array, array\[:, columns\] or name=") for a in ("a=b=c", "timbre[:, 0", "=timbre")),
        ("timbr", "'timbr' needs an array 'timbr' in .*; did you mean 'timbre'"),
        ("year", "must be 2 different words, one a variable"),
        ("cube", r"'cube' must have shape \(n,\) or \(n, d\), got \(60, 2, 2\)"),
        ("wave", "'wave' must hold real numbers, got complex128: use its real"),
        ("short", "must have the same rows, one observation each; got 'short' 3, 'year' 60"),
    ],
)
def test_columns__that_a_group_does_not_have_are_refused(group, text, says):
    with pytest.raises((InvalidArgumentError, DataError), match=says):
        dhsic.hsic(text, "year", data=group[0])


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        (("label", "number=b,"), r"must be \[NAME=\]COL,COL,...; got 'number=b,'"),
        (("other", "other"), "'other' is given twice"),
        (("other", [1.0]), r"name of a column or a list of names, got \[1.0\]: leave out data="),
    ],
)
def test_columns__of_a_file_are_named(variables, told, tmp_path):
    with pytest.raises(InvalidArgumentError, match=told):
        dhsic.hsic(*variables, data=FRAMES["CSV"](tmp_path))
