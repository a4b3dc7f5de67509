"""CSV and Parquet to zarr: values, codes, missing values, errors, bounded memory."""

import os
import sys
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import zarr

from dhsic.errors import DataError, InvalidArgumentError, MissingDependencyError
from dhsic.io import shuffle as shuffle_module
from dhsic.io import table_source, tabular, zarr_output
from dhsic.io.tabular import convert_table

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pq = pytest.importorskip("pyarrow.parquet")
pa_csv = pytest.importorskip("pyarrow.csv")

DATA = Path(os.environ.get("DHSIC_DATA", Path(__file__).parents[3] / "shared/data"))
AIR = "o3,temp,wind,rain,city\n61,20.5,N,true,01\n58,,W,false,02\n40,12.0,N,true,01\n"


def real(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"needs {path} (set DHSIC_DATA)")
    return path


def csv(folder, text=AIR, name="air.csv"):
    path = folder / name
    path.write_text(text)
    return path


def parquet(folder, columns, **options):
    path = folder / "table.parquet"
    pq.write_table(pa.table(columns), path, **options)
    return path


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def convert(path, folder, variables, **options):
    written = convert_table(path, folder / "out.zarr", variables=variables, **options)
    return written, zarr.open_group(folder / "out.zarr", mode="r")


def test_convert_table__stacks_the_columns_of_a_variable(tmp_path):
    path = parquet(tmp_path, {"a": [1, 2], "b": [0.5, -1.5], "c": [7, 8]})
    written, group = convert(path, tmp_path, {"x": ["c", "a"], "y": ["b"]})
    assert group["x"][:].tolist() == [[7.0, 1.0], [8.0, 2.0]]
    assert group["y"][:].tolist() == [[0.5], [-1.5]]
    assert group["x"].dtype == np.float64
    assert group["x"].attrs["columns"] == ["c", "a"]
    assert "kind" not in group["x"].attrs
    assert (written.rows, written.dropped) == (2, 0)
    assert written.shapes == {"x": (2, 2), "y": (2, 1)}


@pytest.mark.parametrize("rows", [1, 1000])
def test_convert_table__codes_labels_by_first_appearance(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(tabular, "chunk_rows", lambda widths: rows)
    sizes = pa.DictionaryArray.from_arrays([2, 0, 2, 1], ["S", "M", "L"])
    columns = {"size": sizes, "town": ["b", "a", "b", "c"], "open": [True, True, False, True]}
    path = parquet(tmp_path, columns, row_group_size=2)
    _, group = convert(path, tmp_path, {"x": ["size", "town"], "y": ["open"]})
    assert group["x"][:].tolist() == [[0, 0], [1, 1], [0, 0], [2, 2]]
    assert group["y"][:].tolist() == [[0], [0], [1], [0]]
    assert group["x"].attrs["kind"] == "categorical"
    assert group["x"].attrs["categories"] == {"size": ["L", "S", "M"], "town": ["b", "a", "c"]}
    assert group["y"].attrs["categories"] == {"open": ["True", "False"]}


def test_convert_table__reads_csv(tmp_path):
    variables = {"ozone": ["o3"], "wind": ["wind"], "rain": ["rain"]}
    _, group = convert(csv(tmp_path), tmp_path, variables)
    assert group["ozone"][:].tolist() == [[61], [58], [40]]
    assert group["wind"].attrs["categories"] == {"wind": ["N", "W"]}
    assert group["rain"].attrs["categories"] == {"rain": ["true", "false"]}


def test_convert_table__reads_gzipped_csv(tmp_path):
    path = tmp_path / "air.csv.gz"
    pd.read_csv(csv(tmp_path)).to_csv(path, index=False)
    _, group = convert(path, tmp_path, {"ozone": ["o3"]})
    assert group["ozone"][:].tolist() == [[61], [58], [40]]


def test_convert_table__accepts_fractions_after_the_first_block(tmp_path):
    path = csv(tmp_path, "a\n" + "1\n" * 1_000_000 + "2.5\n")
    _, group = convert(path, tmp_path, {"x": ["a"]})
    assert group["x"][-1].tolist() == [2.5]


def test_convert_table__refuses_text_after_numbers(tmp_path):
    path = csv(tmp_path, "a\n" + "1\n" * 1_000_000 + "hm\n")
    with pytest.raises(
        DataError,
        match=r"'hm' in line 1,000,002: correct it, or tell .*--numeric a",
    ):
        convert(path, tmp_path, {"x": ["a"]})
    assert names(tmp_path) == ["air.csv"]


def test_convert_table__keeps_labels_that_look_like_numbers(tmp_path):
    lines = ["x", "01", "1", "true", "2011-01-01"]
    _, group = convert(csv(tmp_path, "a\n" + "\n".join(lines)), tmp_path, {"x": ["a"]})
    assert group["x"].attrs["categories"] == {"a": lines}


def test_convert_table__lets_variables_share_a_column(tmp_path):
    _, group = convert(csv(tmp_path), tmp_path, {"x": ["o3"], "y": ["o3"]})
    np.testing.assert_array_equal(group["x"][:], group["y"][:])


@pytest.mark.parametrize("gap", ["", "NA", "nan", "null"])
def test_convert_table__names_the_first_missing_value_of_csv(tmp_path, gap):
    path = csv(tmp_path, f"a,b\n1,2\n3,{gap}\n")
    message = r"column 'b' \(variable 'x'\) of .* is missing in row 1 .*missing='drop'"
    with pytest.raises(DataError, match=message):
        convert(path, tmp_path, {"y": ["a"], "x": ["a", "b"]})
    assert names(tmp_path) == ["air.csv"]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.0] * 5 + [None]),
        pa.array([1.0] * 5 + [float("nan")]),
        pa.array([1] * 5 + [None]),
        pa.array(["a"] * 5 + [None]),
        pa.array([True] * 5 + [None]),
        pa.array(["a"] * 5 + [None]).dictionary_encode(),
    ],
)
def test_convert_table__names_the_missing_row_across_batches(tmp_path, monkeypatch, values):
    monkeypatch.setattr(tabular, "chunk_rows", lambda widths: 2)
    with pytest.raises(DataError, match=r"column 'v' .* is missing in row 5"):
        convert(parquet(tmp_path, {"v": values}), tmp_path, {"x": ["v"]})


def test_convert_table__drops_incomplete_rows_when_told(tmp_path):
    path = parquet(
        tmp_path,
        {"a": [1.0, float("nan"), 3.0, 4.0], "b": ["u", "v", None, "w"], "c": [None] * 4},
    )
    written, group = convert(path, tmp_path, {"x": ["a"], "y": ["b"]}, missing="drop")
    assert group["x"][:].tolist() == [[1], [4]]
    assert group["y"][:].tolist() == [[0], [1]]
    assert group["y"].attrs["categories"] == {"b": ["u", "w"]}
    assert (written.rows, written.dropped) == (2, 2)


def test_convert_table__refuses_when_every_row_is_dropped(tmp_path):
    path = parquet(tmp_path, {"a": pa.array([None, None], pa.float64())})
    with pytest.raises(DataError, match="all 2 rows miss a chosen column"):
        convert(path, tmp_path, {"x": ["a"]}, missing="drop")
    assert names(tmp_path) == ["table.parquet"]


def test_convert_table__refuses_infinite_values(tmp_path):
    path = parquet(tmp_path, {"a": [None, 1.0, -np.inf]})
    with pytest.raises(DataError, match=r"column 'a' .* is infinite in row 2"):
        convert(path, tmp_path, {"x": ["a"]}, missing="drop")


def test_convert_table__refuses_integers_that_float64_would_change(tmp_path):
    path = parquet(tmp_path, {"a": [2**53 + 1]})
    with pytest.raises(DataError, match=r"column 'a' .* does not fit float64"):
        convert(path, tmp_path, {"x": ["a"]})


def test_convert_table__refuses_identifiers_as_categories(tmp_path, monkeypatch):
    monkeypatch.setattr(tabular, "_MAX_CATEGORIES", 2)
    path = parquet(tmp_path, {"a": ["p", "q", "p"], "b": ["p", "q", "r"]})
    convert(path, tmp_path, {"x": ["a"]})
    with pytest.raises(DataError, match=r"column 'b' .* more than 2 labels"):
        convert(path, tmp_path, {"x": ["b"]}, overwrite=True)


def test_convert_table__names_the_nearest_column(tmp_path):
    with pytest.raises(
        InvalidArgumentError,
        match=r"'wint', which is not .*; there are: o3, temp.*mean 'wind'\?",
    ):
        convert(csv(tmp_path), tmp_path, {"x": ["wint"]})
    assert names(tmp_path) == ["air.csv"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_convert_table__refuses_ambiguous_columns(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        path.write_text("a,a\n1,2\n")
    else:
        pq.write_table(pa.table([[1], [2]], names=["a", "a"]), path)
    with pytest.raises(DataError, match="more than one column 'a'"):
        convert(path, tmp_path, {"x": ["a"]})


def test_convert_table__refuses_variables_of_two_kinds(tmp_path):
    with pytest.raises(
        InvalidArgumentError, match=r"'x' mixes .*o3 \(numeric\), wind \(categorical\); split"
    ):
        convert(csv(tmp_path), tmp_path, {"x": ["o3", "wind"]})


@pytest.mark.parametrize(
    "values",
    [
        pd.to_datetime(["2011-01-01"]),
        pa.array([[1.0, 2.0]]),
        pa.array([{"x": 1}]),
        pa.array([b"x"]),
        pa.array([5], pa.duration("s")),
    ],
)
def test_convert_table__refuses_columns_that_are_neither(tmp_path, values):
    with pytest.raises(DataError, match=r"column 'a' .* neither numbers nor labels: convert it"):
        convert(parquet(tmp_path, {"a": values}), tmp_path, {"x": ["a"]})


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "at least one array"),
        ({"x": []}, "'x' needs a list of one or more columns"),
        ({"x": "o3"}, "'x' needs a list of one or more columns, got 'o3'"),
        ({"x": ["o3", "o3"]}, "'x' has columns more than once: o3"),
        ({"a/b": ["o3"]}, "'a/b' cannot name an array"),
    ],
)
def test_convert_table__refuses_bad_variables(tmp_path, variables, message):
    with pytest.raises(InvalidArgumentError, match=message):
        convert(csv(tmp_path), tmp_path, variables)
    assert names(tmp_path) == ["air.csv"]


def test_convert_table__refuses_unknown_ways_with_missing_values(tmp_path):
    with pytest.raises(InvalidArgumentError, match="missing must be one of 'refuse', 'drop'"):
        convert(csv(tmp_path), tmp_path, {"x": ["o3"]}, missing="fill")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.parquet", b"", "cannot read .* as a table"),
        ("t.parquet", b"a,b\n1,2\n" * 10, "cannot read .* as a table"),
        ("t.csv", b"", "cannot read .* as a table: Empty CSV"),
        ("t.csv", b"o3\n", "has no rows to convert: it has none"),
        ("t.csv", b"o3,b\n1,2\n1\n", "cannot read .* Expected 2 columns, got 1"),
        ("t.csv", b"o3,b\n1,\xff\xfe\n", "line 2 of .* must be text in utf-8"),
        ("t.csv.gz", b"o3\n1\n", "cannot read .* as a table"),
        ("t.xlsx", b"", r"must end in one of \.csv, \.csv\.gz, \.tsv, \.tsv\.gz, \.parquet, \.pq"),
    ],
)
def test_convert_table__refuses_bad_files_in_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        convert(path, tmp_path, {"x": ["o3"]})
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == [name]


def test_convert_table__refuses_a_damaged_parquet_file(tmp_path):
    path = parquet(tmp_path, {"o3": np.random.default_rng(0).random(50_000)}, compression="zstd")
    content = bytearray(path.read_bytes())
    content[1000:200_000] = b"\0" * 199_000
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot read .* as a table"):
        convert(path, tmp_path, {"x": ["o3"]})
    assert names(tmp_path) == ["table.parquet"]


def test_convert_table__refuses_a_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"absent\.csv is not a file"):
        convert(tmp_path / "absent.csv", tmp_path, {"x": ["a"]})


def test_convert_table__names_the_extra_it_needs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingDependencyError, match=r"needs pyarrow.*dhsic\[tables\]"):
        convert(csv(tmp_path), tmp_path, {"x": ["o3"]})


def test_convert_table__reads_only_the_columns_in_use(tmp_path, monkeypatch):
    asked = []
    iter_batches = pq.ParquetFile.iter_batches

    def spy(self, *args, columns, **options):
        asked.append(columns)
        return iter_batches(self, *args, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    path = parquet(tmp_path, {"a": [1], "b": [[1, 2]], "PM2.5": [3]})
    _, group = convert(path, tmp_path, {"x": ["PM2.5", "a"], "y": ["a"]})
    assert asked == [["PM2.5", "a"]]
    assert group["x"][:].tolist() == [[3, 1]]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_convert_table__shuffles_rows_whole_and_by_seed(tmp_path, suffix):
    frame = pd.DataFrame({"a": np.arange(500), "b": -np.arange(500), "c": ["u", "v"] * 250})
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    variables = {"x": ["a", "b"], "y": ["c"]}
    _, group = convert(path, tmp_path, variables, shuffle=0)
    order = group["x"][:, 0]
    assert sorted(order) == list(range(500))
    assert order.tolist() != sorted(order)
    np.testing.assert_array_equal(group["x"][:, 1], -order)
    np.testing.assert_array_equal(group["y"][:, 0], order % 2)
    _, other = convert(path, tmp_path, variables, shuffle=1, overwrite=True)
    assert not np.array_equal(other["x"][:, 0], order)


def test_convert_table__keeps_the_order_unless_told(tmp_path):
    path = parquet(tmp_path, {"a": np.arange(5000)})
    _, group = convert(path, tmp_path, {"x": ["a"]})
    assert group["x"][:, 0].tolist() == list(range(5000))


def test_convert_table__overwrites_when_told(tmp_path):
    path = csv(tmp_path)
    convert(path, tmp_path, {"x": ["o3"]})
    with pytest.raises(InvalidArgumentError, match="overwrite=True"):
        convert(path, tmp_path, {"y": ["o3"]})
    _, group = convert(path, tmp_path, {"y": ["o3"]}, overwrite=True)
    assert list(group.array_keys()) == ["y"]
    assert names(tmp_path) == ["air.csv", "out.zarr"]


def test_convert_table__reports_progress(tmp_path, monkeypatch):
    monkeypatch.setattr(tabular, "chunk_rows", lambda widths: 2)
    seen = []
    path = parquet(tmp_path, {"a": [1, 2, 3]})
    convert(path, tmp_path, {"x": ["a"]}, progress=seen.append)
    assert seen == [2, 3]


@pytest.mark.parametrize("shuffle", [None, 0])
@pytest.mark.parametrize("call", [1, 2])
def test_convert_table__leaves_nothing_behind_when_interrupted(
    tmp_path, monkeypatch, shuffle, call
):
    monkeypatch.setattr(tabular, "chunk_rows", lambda widths: 50_000)
    path = parquet(tmp_path, {"a": np.arange(100_000)})
    calls = []

    def interrupt(rows):
        calls.append(rows)
        if len(calls) == call:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(path, tmp_path, {"x": ["a"]}, shuffle=shuffle, progress=interrupt)
    assert names(tmp_path) == ["table.parquet"]


@pytest.fixture(scope="module")
def alone():
    """A process in which what else runs here is not counted."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        yield process


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("shuffle", [None, 0])
def test_convert_table__does_not_hold_the_table(alone, tmp_path, suffix, shuffle):
    values = np.random.default_rng(0).random(1_600_000)
    table = pa.table({"a": values})
    path = tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, path, row_group_size=len(values))
    else:
        pa_csv.write_csv(table, path)
    peaks = alone.submit(peaks_of_conversion, path, tmp_path, shuffle).result()
    assert max(peaks) < 0.6 * values.nbytes
    assert peaks[1] > 0


def peaks_of_conversion(path, folder, shuffle):
    """Most bytes of Python and of Arrow in a conversion by small pieces."""
    zarr_output._CHUNK_BYTES = 2**20
    shuffle_module._BUCKET_BYTES = 2**20
    table_source._CSV_BLOCK_BYTES = 2**17
    arrow = []
    before = pa.total_allocated_bytes()

    def progress(rows):
        arrow.append(pa.total_allocated_bytes() - before)

    tracemalloc.start()
    convert(path, folder, {"x": ["a"]}, shuffle=shuffle, progress=progress)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, max(arrow)


def test_convert_table__reads_flights(tmp_path):
    path = real("hflights/hflights.parquet")
    frame = pd.read_parquet(path)
    delays = ["ArrDelay", "DepDelay"]
    variables = {"delay": delays, "carrier": ["UniqueCarrier"]}
    written, group = convert(path, tmp_path, variables, missing="drop")
    kept = frame.dropna(subset=[*delays, "UniqueCarrier"])
    assert written.rows + written.dropped == len(frame) == 227_496
    np.testing.assert_array_equal(group["delay"][:], kept[delays].to_numpy(float))
    labels = np.array(group["carrier"].attrs["categories"]["UniqueCarrier"])
    assert (labels[group["carrier"][:, 0].astype(int)] == kept["UniqueCarrier"]).all()


def test_convert_table__reads_air_quality(tmp_path):
    path = real("beijing_air/beijing_air.parquet")
    frame = pd.read_parquet(path)
    gas = ["SO2", "NO2"]
    with pytest.raises(DataError, match=r"column 'SO2' .* is missing in row"):
        convert(path, tmp_path, {"gas": gas})
    written, group = convert(path, tmp_path, {"gas": gas, "wd": ["wd"]}, missing="drop", shuffle=0)
    kept = frame.dropna(subset=[*gas, "wd"])
    assert written.rows == len(kept)
    for j, column in enumerate(gas):
        np.testing.assert_array_equal(np.sort(group["gas"][:, j]), np.sort(kept[column]))


def test_convert_table__splits_fields_at_the_delimiter(tmp_path):
    table = tmp_path / "weather.csv"
    table.write_text('Altitude "Sunshine hours"\n205 1552\n46 1541\n')
    options = {"delimiter": " ", "variables": {"sun": ["Sunshine hours"]}}
    convert_table(table, tmp_path / "out.zarr", **options)
    assert zarr.open_array(tmp_path / "out.zarr" / "sun")[:].tolist() == [[1552.0], [1541.0]]
    for delimiter in ("", "ab", 1, "é"):
        with pytest.raises(InvalidArgumentError, match="delimiter must be one character"):
            convert_table(table, tmp_path / "no.zarr", **{**options, "delimiter": delimiter})
