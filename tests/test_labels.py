"""Labels of rows and of categories: one contract over all functions that take data.

Rows are paired by position. Where both sides have labels that differ, a call is refused with the
calls that align them; equal labels, and data without labels, are taken. Categories are compared for
equality alone, so that neither their names nor their order changes a result.
"""

from functools import cache

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import dhsic
from dhsic.errors import DataError
from dhsic.integrations import PValue, dependence_score
from tests.test_missing import FUNCTIONS, RUNS, said

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

# Few rows, of which conditional tests warn.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

N = 60
RNG = np.random.default_rng(0)
X, Y, Z = RNG.standard_normal((3, N))
Y = Y + np.abs(X)
ROWS = pd.DataFrame(
    {"x": X, "y": Y, "z": Z, "s": np.arange(N) % 3, "w": 0.5 + RNG.random(N)},
    index=[f"r{i}" for i in range(N)],
)
ROWS["g"] = np.arange(N) // 5
OTHERS = ROWS.sample(frac=1, random_state=0)
OF_SAMPLES = {"two_sample_test", "plan_two_sample"}  # whose rows belong to nobody else's


def refused(how="in the same order"):
    """The error, with the calls that align rows."""
    told = rf"same index: .* their labels are not {how}\. Align them, as by .*reset_index"
    return pytest.raises(DataError, match=told)


def in_xarray(s, values=None):
    values = s.to_numpy() if values is None else values
    return xr.DataArray(values, dims="row", coords={"row": s.index.to_numpy()})


def in_dask(x, parts=3):
    return dd.from_pandas(x, npartitions=parts, sort=False)


FORMS = {
    "pandas": lambda s: s,
    "frame": lambda s: s.to_frame(),
    "xarray": in_xarray,
    "xarray of Dask": lambda s: in_xarray(s, da.from_array(s.to_numpy(), chunks=20)),
    "Dataset": lambda s: s.to_frame().to_xarray(),
    "Dask": in_dask,
    "Dask frame": lambda s: in_dask(s.to_frame(), 2),
    "dictionary": lambda s: {s.name: s},
    "Arrow": lambda s: pa.Table.from_pandas(s.to_frame()),
    "NumPy": lambda s: s.to_numpy(),
}


@pytest.mark.parametrize("form", ["pandas", "Dask"])
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in OF_SAMPLES])
def test_rows__of_every_function_are_compared_by_their_labels(name, form):
    run, enter = FUNCTIONS[name], FORMS[form]

    def one(rows, column):
        return enter(rows[column].rename(None))

    with refused():
        run(one(ROWS, "x"), one(OTHERS, "y"), one(ROWS, "z"))
    with refused("the same"):
        run(one(ROWS, "x"), one(ROWS.iloc[:-1], "y"), one(ROWS, "z"))
    if form == "pandas":
        found = run(*(one(ROWS, column) for column in "xyz"))
        if "plan" not in name:
            assert said(found) == said(run(X, Y, Z))


LISTS = {
    "given": lambda a, b: dhsic.conditional_independence_test(a["x"], a["y"], given=b["z"]),
    "third variable": lambda a, b: dhsic.hsic(a["x"], a["y"], b["z"]),
    "groups of a ranking": lambda a, b: dhsic.rank_features(a[["x", "z"]], a["y"], groups=b["g"]),
    "features": lambda a, b: dhsic.rank_features(a[["x", "z"]], b["y"]),
    "dictionary": lambda a, b: dhsic.dependence_matrix(data={"x": a["x"], "y": b["y"]}),
    "columns of one variable": lambda a, b: dhsic.hsic({"a": a["x"], "b": b["y"]}, Y),
    "strata of samples": lambda a, b: dhsic.two_sample_test(
        a["x"], a["y"], strata=[a["s"], b["s"]]
    ),
    "strata of named samples": lambda a, b: dhsic.two_sample_test(
        "x", "y", data=a, strata=[a["s"], b["s"]]
    ),
    "columns of a sample": lambda a, b: dhsic.two_sample_test(
        {"a": a["x"], "b": b["y"]}, {"a": a["x"], "b": a["y"]}
    ),
    "scores": lambda a, b: dependence_score(a[["x", "z"]], b["y"]),
    "PValue": lambda a, b: PValue(first_rows=20)(a["x"], a["y"], b[["z"]]),
}


@pytest.mark.parametrize("form", ["pandas", "Dask", "both"])
@pytest.mark.parametrize("name", LISTS)
def test_rows__of_every_argument_are_compared_by_their_labels(name, form):
    first = ROWS if form == "pandas" else in_dask(ROWS)
    second = in_dask(OTHERS) if form == "Dask" else OTHERS
    with refused():
        LISTS[name](first, second)


def estimate(x, y, **options):
    return dhsic.hsic(x, y, estimator="v-hsic", rng=0, **options).estimate


# Every form meets four others, on either side.
PAIRS = [
    (first, list(FORMS)[(i + step) % len(FORMS)])
    for i, first in enumerate(FORMS)
    for step in (0, 1, 4, 6)
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_rows__of_every_form_are_compared_by_their_labels(first, second):
    x = FORMS[first](ROWS["x"])
    assert estimate(x, FORMS[second](ROWS["y"])) == pytest.approx(estimate(X, Y))
    y = FORMS[second](OTHERS["y"])
    if "NumPy" in (first, second):  # an array has no labels, and goes by position
        assert estimate(x, y) == pytest.approx(estimate(X, OTHERS["y"].to_numpy()))
        return
    with refused():
        estimate(x, y)


def written(folder):
    ROWS.to_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


DATA = {
    "none": lambda folder: None,
    "pandas": lambda folder: ROWS,
    "Dask": lambda folder: in_dask(ROWS),
    "dictionary": lambda folder: {name: ROWS[name] for name in ROWS},
    "Dataset": lambda folder: ROWS.to_xarray(),
    "Arrow": lambda folder: pa.Table.from_pandas(ROWS),
    "Parquet": written,
}
# Columns for each argument, and options that go with it.
ARGUMENTS = {
    "strata": ("s", {"rng": 0, "n_resamples": 49}),
    "groups": ("g", {"rng": 0, "n_resamples": 49}),
    "weights": ("w", {"rng": 0}),
}
TOLD = ["pandas", "xarray", "Dask", "dictionary", "NumPy"]


@cache
def argument_alone(argument):
    column, options = ARGUMENTS[argument]
    told = {argument: ROWS[column].to_numpy(), "kernels": "gaussian", **options}
    return dhsic.independence_test(X, Y, **told).pvalue


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_rows__of_an_argument_are_compared_with_those_of_data(argument, data, tmp_path):
    column, options = ARGUMENTS[argument]
    options = {**options, "data": DATA[data](tmp_path), "kernels": "gaussian"}
    variables = ("x", "y") if options["data"] is not None else (ROWS["x"], ROWS["y"])
    form = TOLD[(list(DATA).index(data) + 2 * list(ARGUMENTS).index(argument)) % len(TOLD)]

    def run(rows):
        told = FORMS[form](rows[column])
        return dhsic.independence_test(*variables, **{argument: told}, **options).pvalue

    assert run(ROWS) == pytest.approx(argument_alone(argument))
    if form != "NumPy":
        with refused():
            run(OTHERS)


@pytest.mark.parametrize(
    "index",
    [
        np.arange(N)[::-1],
        np.repeat(np.arange(N // 2), 2),
        pd.date_range("2020-01-01", periods=N, unit="ns"),
        pd.date_range("2020-01-01", periods=N, tz="Asia/Tokyo"),
        pd.Index(np.arange(N) / 7),
        pd.Index([f"r{j}" for j in range(N)]),
        pd.timedelta_range("1h", periods=N, freq="min"),
    ],
    ids=["numbers", "repeated", "times", "zone", "fractions", "texts", "durations"],
)
def test_labels__of_every_type_are_compared_with_those_of_dask(index):
    rows = ROWS.set_axis(pd.Index(index))
    x, y = in_dask(rows["x"], 4), rows["y"]
    assert estimate(x, y) == pytest.approx(estimate(X, Y))
    if isinstance(rows.index, pd.DatetimeIndex | pd.TimedeltaIndex):
        same = y.set_axis(rows.index.as_unit("s"))
        assert estimate(x, same) == pytest.approx(estimate(X, Y))
    swapped = np.r_[N - 1, 1 : N - 1, 0]  # the first and the last row, of different partitions
    with refused():
        estimate(x, y.iloc[swapped])
    with refused("the same"):
        estimate(x, y.iloc[:-1])


def test_dimensions__of_xarray_that_are_turned_are_refused():
    x = xr.DataArray(X, dims="row")
    turned = xr.DataArray(np.c_[X, Y].T, dims=("column", "row"))
    with pytest.raises(DataError, match=r"call \.transpose\('row', \.\.\.\) on the second"):
        estimate(x, turned)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, to Dask
def test_dask__parquet_of_which_columns_are_chosen_has_its_rows(tmp_path):
    for j in range(4):  # small ones, of which Dask joins some
        ROWS[j * 15 : j * 15 + 15].to_parquet(tmp_path / f"part.{j}.parquet", index=False)
    data = dd.read_parquet(tmp_path)
    expected = pytest.approx(estimate(X, Y))
    assert estimate("x", "y", data=data) == expected
    assert estimate(data["x"], data["y"]) == expected
    ranked = dhsic.rank_features(["x", "z"], "y", data=data, rng=0)
    same = dhsic.rank_features(["x", "z"], "y", data=ROWS, rng=0)
    assert [one.pvalue for one in ranked.features] == [one.pvalue for one in same.features]


# Categories ---------------------------------------------------------------------------------------

LABELS = np.array(["u", "v", "w"])[RNG.integers(0, 3, N)]
CODES = np.unique(LABELS, return_inverse=True)[1]


def enumeration():
    polars = pytest.importorskip("polars")
    return polars.Series(values=LABELS.tolist(), dtype=polars.Enum(["w", "v", "u"]))


# The same categories by other names, in another order, and of other types.
SAME = {
    "categories": lambda: pd.Categorical(LABELS),
    "another order": lambda: pd.Categorical(LABELS, categories=list("wvu")),
    "ordered": lambda: pd.Categorical(LABELS, categories=list("vwu"), ordered=True),
    "other names": lambda: np.array(["z", "a", "k"])[CODES],
    "numbers": lambda: pd.Categorical(np.array([700, 3, 52])[CODES]),
    "dates": lambda: pd.Categorical(pd.to_datetime(["2020", "2018", "2019"])[CODES]),
    "enumeration": enumeration,
    "dictionary": lambda: pa.DictionaryArray.from_arrays(2 - CODES, ["w", "v", "u"]),
    "rows from the last": lambda: xr.DataArray(LABELS[::-1], dims="row")[::-1],
}
# A regression needs numbers, and what a plan and the witness tell is of the codes.
NO_LABELS = [name for name in FUNCTIONS if name.startswith("causal")]
OTHERS_LABELS = {*NO_LABELS, *OF_SAMPLES, "witness_functions"}
OF_CATEGORIES = [name for name in RUNS if name not in OTHERS_LABELS]


@pytest.mark.parametrize("name", OF_CATEGORIES)
def test_categories__are_the_same_by_any_names_in_any_order(name):
    run = FUNCTIONS[name]
    expected = said(run(LABELS, Y, Z))
    for how, values in SAME.items():
        assert said(run(values(), Y, Z)) == expected, how


@pytest.mark.parametrize("order", ["categories", "another order", "ordered", "dictionary"])
def test_categories__of_samples_may_have_another_order(order):
    other = pd.Categorical(LABELS[::-1], categories=["v", "w", "u", "never"])
    found = dhsic.two_sample_test(SAME[order](), other[:40], rng=0)
    expected = dhsic.two_sample_test(LABELS, LABELS[::-1][:40], rng=0)
    assert (found.pvalue, found.statistic) == (expected.pvalue, expected.statistic)


@pytest.mark.parametrize("name", NO_LABELS)
def test_categories__have_no_residuals(name):
    with pytest.raises(DataError, match=r"'x1?' holds categories: give an indicator of each"):
        FUNCTIONS[name](LABELS, Y, Z)


def test_booleans__are_categories_alone_and_numbers_in_rows():
    flags = RNG.random((N, 8)) < 0.5
    one, many = (dhsic.hsic(x, Y, rng=0) for x in (flags[:, 0], flags))
    assert one.variables[0].kernel == "delta"
    assert not many.variables[0].kernel.startswith("delta")
    assert many.estimate == dhsic.hsic(1 * flags, Y, rng=0).estimate
