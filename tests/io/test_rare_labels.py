"""Text is compared for equality: what hardly repeats, or holds numbers, is no category."""

import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner

import dhsic
from dhsic.cli import main
from dhsic.errors import DataError
from dhsic.io.tabular import convert_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N = 60
VALUES = np.random.default_rng(0).choice(np.arange(1000, 10_000), N, replace=False)
VALUES[-1] = VALUES[0]  # one label repeats
Y = VALUES + 300 * np.random.default_rng(1).standard_normal(N)
FORMS = {
    "English": lambda v: f"{v:,}",
    "German": lambda v: f"{v + 0.5:,.2f}".translate(str.maketrans(",.", ".,")),
    "decimal comma": lambda v: f"{v / 1000:.3f}".replace(".", ","),
    "space that does not break": lambda v: f"{v:,}".replace(",", "\u00a0"),
    "thin space": lambda v: f"{v:,}".replace(",", "\u202f"),
    "apostrophe of print": lambda v: f"{v:,}".replace(",", "\u2019"),
    "accounting": lambda v: f"({v:,})",
    "unit": lambda v: f"{v / 10} kg",
    "unit of whole numbers": lambda v: f"{v} kg",
    "currency": lambda v: f"USD {v:.2f}",
    "below": lambda v: f"<{v / 10:.2f}",
    "minus of print": lambda v: f"\u2212{v / 10}",
    "date": lambda v: str(pd.Timestamp(2000, 1, 1) + pd.Timedelta(days=int(v)))[:10],
    "German date": lambda v: f"{pd.Timestamp(2000, 1, 1) + pd.Timedelta(days=int(v)):%d.%m.%Y}",
    "identifier": lambda v: f"u{v}",
    "word": lambda v: "".join("abcdefghij"[int(digit)] for digit in str(v)),
}
IDS = [f"u{v}" for v in VALUES]


def csv(folder, columns):
    path = folder / "t.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def parquet(folder, columns):
    path = folder / "t.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def polars(values, **options):
    return pytest.importorskip("polars").Series("x", values, **options)


def dask_frame(x):
    frame = pytest.importorskip("dask.dataframe")
    return frame.from_pandas(pd.DataFrame({"x": x, "y": Y}), npartitions=3)


def by_name(data):
    return dhsic.independence_test("x", "y", data=data, rng=0, n_resamples=99)


def as_variable(x):
    return dhsic.independence_test(x, Y, rng=0, n_resamples=99)


@pytest.mark.parametrize("form", FORMS)
def test_text__that_hardly_repeats_is_refused_however_it_is_written(form):
    texts = [FORMS[form](v) for v in VALUES]
    with pytest.raises(DataError, match=r"59 of 60|58 of 60|numbers that are written as text"):
        as_variable(texts)


TEXT = {
    "list": lambda folder, x: as_variable(x),
    "array of text": lambda folder, x: as_variable(np.array(x)),
    "array of objects": lambda folder, x: as_variable(np.array(x, object)),
    "column of an array": lambda folder, x: as_variable(np.array([x, x], object).T),
    "pandas": lambda folder, x: as_variable(pd.Series(x)),
    "pandas string": lambda folder, x: as_variable(pd.Series(x, dtype="string")),
    "pandas frame of one column": lambda folder, x: as_variable(pd.DataFrame({"x": x})),
    "pandas by name": lambda folder, x: by_name(pd.DataFrame({"x": x, "y": Y})),
    "polars": lambda folder, x: as_variable(polars(x)),
    "Arrow": lambda folder, x: as_variable(pa.array(x)),
    "Arrow by name": lambda folder, x: by_name(pa.table({"x": x, "y": Y})),
    "dict of columns": lambda folder, x: by_name({"x": x, "y": Y}),
    "dict as a variable": lambda folder, x: as_variable({"x": x, "y": Y}),
    "xarray": lambda folder, x: as_variable(pytest.importorskip("xarray").DataArray(x)),
    "CSV": lambda folder, x: by_name(csv(folder, {"x": x, "y": Y})),
    "Parquet": lambda folder, x: by_name(parquet(folder, {"x": x, "y": Y})),
    "hsic": lambda folder, x: dhsic.hsic(x, Y),
    "rank_features": lambda folder, x: dhsic.rank_features(np.c_[Y, -Y], x, rng=0),
    "dependence_matrix": lambda folder, x: dhsic.dependence_matrix(x, Y, rng=0),
    "conditional": lambda folder, x: dhsic.conditional_independence_test(x, Y, Y**2, rng=0),
    "given": lambda folder, x: dhsic.conditional_independence_test(Y, Y**2, pd.Series(x)),
    "two samples": lambda folder, x: dhsic.two_sample_test(x, [f"{v}" for v in x], rng=0),
    "conversion": lambda folder, x: convert_table(
        csv(folder, {"x": x}), folder / "x.zarr", variables={"x": ["x"]}
    ),
    "conversion of Parquet": lambda folder, x: convert_table(
        parquet(folder, {"x": x}), folder / "x.zarr", variables={"x": ["x"]}
    ),
}


@pytest.mark.parametrize("door", TEXT)
def test_text__that_hardly_repeats_is_refused_at_every_door(tmp_path, door):
    with pytest.raises(
        DataError, match=r"own in 58 of 60 rows, .* as 'u\d+', .*--numeric .*\.astype\('category'\)"
    ):
        TEXT[door](tmp_path, IDS)
    assert not (tmp_path / "x.zarr").exists()


def test_text__that_never_repeats_is_no_category_either():
    labels = [f"u{i}" for i in range(N)]
    with pytest.raises(DataError, match="another label in every row") as text:
        as_variable(labels)
    with pytest.raises(DataError, match="another label in every row"):
        as_variable(pd.Series(labels, dtype="category"))
    assert "astype" not in str(text.value)


CATEGORIES = {
    "pandas": lambda folder, x: as_variable(pd.Series(x, dtype="category")),
    "pandas by name": lambda folder, x: by_name(
        pd.DataFrame({"x": pd.Series(x, dtype="category"), "y": Y})
    ),
    "polars": lambda folder, x: as_variable(
        polars(x, dtype=pytest.importorskip("polars").Categorical)
    ),
    "polars enumeration": lambda folder, x: as_variable(
        polars(x, dtype=pytest.importorskip("polars").Enum(sorted(set(x))))
    ),
    "Arrow": lambda folder, x: as_variable(pa.array(x).dictionary_encode()),
    "Parquet": lambda folder, x: by_name(
        parquet(folder, {"x": pa.array(x).dictionary_encode(), "y": Y})
    ),
    "Dask": lambda folder, x: by_name(dask_frame(pd.Series(x, dtype="category"))),
}


@pytest.mark.parametrize("door", CATEGORIES)
@pytest.mark.parametrize("form", ["identifier", "German", "unit"])
def test_categories__that_are_called_so_are_taken(tmp_path, door, form):
    texts = [FORMS[form](v) for v in VALUES]
    assert "delta" in CATEGORIES[door](tmp_path, texts).variables[0].kernel


def test_conversion__takes_what_is_called_labels(tmp_path):
    source, target = csv(tmp_path, {"x": IDS}), tmp_path / "x.zarr"
    written = convert_table(source, target, variables={"x": ["x"]}, categorical=["x"])
    assert len(written.columns[0].categories) == N - 1


@pytest.mark.parametrize(
    "labels",
    [
        [f"u{i // 2}" for i in range(N)],  # as many labels as half of the rows
        [f"u{i // 2}" for i in range(N // 2)] + [f"v{i}" for i in range(N // 2)],
        ["a", "a", "a", "b", "b", "c", "c", "d", "d", "e", "e", *"fghijklmn"],
        [f"u{i % 19}.{i % 7} kg" for i in range(19)] * 3,  # few
        [f"model {chr(65 + i % 26)}{chr(65 + i // 26)} 2.{i % 3}" for i in range(30)] * 2,
        list("abcdefghij"),  # few rows
    ],
    ids=["pairs", "half of the rows", "names", "quantities", "models", "rows"],
)
def test_labels__that_repeat_are_categories(labels):
    y = np.random.default_rng(0).standard_normal(len(labels))
    found = dhsic.independence_test(labels, y, rng=0, n_resamples=99)
    assert "delta" in found.variables[0].kernel


@pytest.mark.parametrize("unit", ["{} kg", "USD {}", "<{}", "{} %\u2009Vol"])
def test_numbers_beside_other_text__are_refused_though_they_repeat(tmp_path, unit):
    texts = [unit.format(value / 10) for value in range(25)] * 40
    with pytest.raises(DataError, match=r"written as text, as '.*: make numbers of them"):
        dhsic.independence_test(texts, np.arange(1000.0), rng=0)
    with pytest.raises(DataError, match=r"text most of which holds numbers, '.*' in line 2"):
        convert_table(csv(tmp_path, {"x": texts}), tmp_path / "o.zarr", variables={"x": ["x"]})


@pytest.mark.parametrize(
    ("texts", "advice"),
    [
        (["0,126", "1,127", "7"], r"with --decimal , \(decimal=','\), or pandas"),
        (["1,234", "2,500"], r"--thousands , \(thousands=','\) or --decimal , \(decimal=','\), or"),
        (["1,234", "2.5"], r"with --thousands , \(thousands=','\), or pandas"),
        (["1.234,5", "7"], r"with --thousands \. --decimal , \(thousands='\.', decimal=','\), or"),
        (
            ["1.5", "x", "2"],
            r"as by pandas\.to_numeric after \.str\.replace \(a decimal comma by a",
        ),
    ],
)
def test_decimal_commas__are_never_left_out_by_advice(texts, advice):
    with pytest.raises(DataError, match=advice):
        dhsic.independence_test(texts * 10, np.arange(10.0 * len(texts)), rng=0)


def test_groups__of_one_row_have_labels_of_their_own(tmp_path):
    people = [f"person {i // 2}" for i in range(20)] + [f"single {i}" for i in range(40)]
    codes = np.unique(people, return_inverse=True)[1]
    expected = dhsic.independence_test(VALUES, Y, groups=codes, rng=0, n_resamples=99)
    table = {"x": VALUES, "y": Y, "person": people}
    for data in (pd.DataFrame(table), csv(tmp_path, table)):
        found = dhsic.independence_test(
            *("x", "y"), data=data, groups="person", rng=0, n_resamples=99
        )
        assert found.pvalue == expected.pvalue
    found = dhsic.independence_test(VALUES, Y, groups=people, rng=0, n_resamples=99)
    assert found.pvalue == expected.pvalue
    options = ("--variable", "x", "--variable", "y", "--groups", "person", "--seed", "0")
    done = CliRunner().invoke(main, ["test", str(tmp_path / "t.csv"), *options])
    assert done.exit_code == 0, done.stderr
    halves = [slice(0, 30), slice(30, 60)]
    samples = [Y[half] for half in halves]
    dhsic.two_sample_test(*samples, groups=[people[half] for half in halves], rng=0)


def test_small_samples__have_labels_that_repeat_in_others():
    large = [f"product {i % 40}" for i in range(200)]
    small = [f"product {i}" for i in range(12)]
    dhsic.two_sample_test(large, small, rng=0)
    with pytest.raises(DataError, match="another label in every row"):
        dhsic.two_sample_test(small, small[::-1], rng=0)


def test_conversion__counts_labels_over_all_blocks(tmp_path):
    path, n = tmp_path / "t.csv", 40_000
    rows = [f"the {i % n}th name\n" for i in range(2 * n)]
    path.write_text("x\n" + "".join(rows))
    assert path.stat().st_size > 2**20  # of one block
    written = convert_table(path, tmp_path / "o.zarr", variables={"x": ["x"]})
    assert len(written.columns[0].categories) == n
    path.write_text("x\n" + "".join(rows[: n + n // 3]))
    with pytest.raises(DataError, match=r"own in 26,667 of 53,333 rows, .* as 'the 13333th name'"):
        convert_table(path, tmp_path / "o.zarr", variables={"x": ["x"]}, overwrite=True)
    assert zarr.open_group(tmp_path / "o.zarr")["x"].shape == (2 * n, 1)
