"""Whatever form data come in, a column is of one kind, has one p-value, and rows keep their labels.

Three tables of guards and doors. In the first, 27 columns of different types go through 30 doors:
810 cells, of which 718 give the kernel and the p-value of a pandas Series, or its refusal, and 45
are refused in words where the Series is not; in the other 47 the type is lost before the door, as
that of categories in an array of NumPy or in text. In the second, 9 forms of rows in another order
meet each other, 81 cells, and 5 of them stand in three arguments beside 7 forms of data, 105 cells.
In the third, 17 functions take pandas, Dask, and both: 51 cells.
"""

import datetime
from decimal import Decimal
from functools import cache

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import dhsic
from dhsic import causal
from dhsic.errors import DataError
from dhsic.integrations import (
    DependenceSelector,
    PgmpyTest,
    PValue,
    dependence_score,
)
from dhsic.io.tabular import convert_table

N = 60
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 4, N)
Y = CODES % 2 + 0.7 * RNG.standard_normal(N)
X = RNG.standard_normal(N)
PLACES = np.array([700, 3, 52, 11])[CODES]  # codes of regions, whose distances mean nothing
TEXT = np.array(list("udac"), object)[CODES]
GAPS = np.arange(N) % 9 == 4
OPTIONS = {"rng": 0, "n_resamples": 49}
SEED = int(np.random.RandomState(0).randint(2**31))  # of a selector with random_state=0


def gapped(values, mark=None):
    values = np.array(values, object)
    values[GAPS] = mark
    return values


def arrow():
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def polars():
    return pytest.importorskip("polars", reason="polars is not installed")


DAYS = pd.to_timedelta(PLACES, "D")
COLUMNS = {
    "category of numbers": pd.Categorical(PLACES),
    "category of fractions": pd.Categorical(PLACES / 2),
    "category of booleans": pd.Categorical(CODES > 1),
    "category of text": pd.Categorical(TEXT),
    "category of numbers, gaps": pd.Categorical(pd.Series(PLACES).where(~GAPS)),
    "category of text, gaps": pd.Categorical(gapped(TEXT)),
    "text": pd.Series(TEXT, dtype=object),
    "text of pandas": pd.Series(TEXT, dtype="string"),
    "text, gaps": gapped(TEXT),
    "booleans": CODES > 1,
    "nullable booleans": pd.array(CODES > 1, "boolean"),
    "nullable booleans, gaps": pd.array(gapped(CODES > 1, pd.NA), "boolean"),
    "booleans as objects, gaps": gapped(CODES > 1),
    "integers": PLACES,
    "nullable integers": pd.array(PLACES, "Int64"),
    "nullable integers, gaps": pd.array(gapped(PLACES, pd.NA), "Int64"),
    "large integers, gaps": pd.array(gapped(PLACES + 2**53, pd.NA), "Int64"),
    "float32": PLACES.astype("float32"),
    "floats, gaps": np.where(GAPS, np.nan, PLACES),
    "Decimal": [Decimal(int(value)) for value in PLACES],
    "Decimal, gaps": gapped([Decimal(int(value)) for value in PLACES]),
    "text among numbers": [int(v) if i % 2 else str(v) for i, v in enumerate(PLACES)],
    "times": pd.Timestamp("2020-01-01") + DAYS,
    "durations": DAYS,
    "dates as objects": [datetime.date(2020, 1, 1) + datetime.timedelta(int(v)) for v in PLACES],
    "periods": pd.PeriodIndex.from_ordinals(PLACES, freq="M"),
    "labels that all differ": [f"r{i}" for i in range(N)],
}


def column(name):
    values = COLUMNS[name]
    objects = isinstance(values, list) or values.dtype.kind == "O"
    typed = isinstance(values, pd.api.extensions.ExtensionArray | pd.Index | pd.Series)
    return pd.Series(values, name="g", dtype=object if objects and not typed else None)


def table(s):
    return pd.DataFrame({"g": s, "y": Y, "z": np.arange(N) % 3})


def pair(x, y=Y, **options):
    found = dhsic.independence_test(x, y, **OPTIONS, **options)
    return found.variables[0].kernel, found.pvalue


def rank(x, y=Y, rng=0, **options):
    return dhsic.rank_features(x, y, rng=rng, n_resamples=49, **options).features[0].pvalue


def rank_alone(s, **options):
    return rank(s, **options)


def rank_target(s, **options):
    return rank(Y, s, **options)


def score(x, y, **options):
    return dependence_score(x, y, n_resamples=49, **options)[1][0]


def selector(x, y, **options):
    assert not options, "a selector has no missing=, and refuses gaps"
    found = DependenceSelector(1, random_state=0).fit(x, y)
    return found.pvalues_[0]


def pgmpy(s, **options):
    tested = PgmpyTest(table(s), PValue(marginal={"n_resamples": 49, **options}))
    tested("g", "y")
    return tested.p_value_


def conditional(given, **options):
    return dhsic.conditional_independence_test(X, Y, given=given, rng=0, **options).pvalue


def in_arrow(s):
    return arrow().Array.from_pandas(s)


def arrow_table(s):
    return arrow().table({"g": in_arrow(s), "y": Y})


def written(s, path, how):
    frame = table(s)
    getattr(frame, how)(path, index=False)
    return path


def of_zarr(s, path):
    group = zarr.open_group(path, mode="w")
    for name, values in (("g", s.to_numpy()), ("y", Y)):
        group.create_array(name, data=values, config={"write_empty_chunks": True})
    return group


def by_name(data, **options):
    return pair("g", "y", data=data, **options)


def lazy(x):
    return dd.from_pandas(x, npartitions=3)


# Every door with the one that it is compared with, and what goes in.
DOORS = {
    "frame of one column": ("pair", lambda s, p, **o: pair(s.to_frame(), **o)),
    "name in a frame": ("pair", lambda s, p, **o: by_name(table(s), **o)),
    "array of pandas": ("pair", lambda s, p, **o: pair(s.array, **o)),
    "index of pandas": ("pair", lambda s, p, **o: pair(pd.Index(s), **o)),
    "dictionary": ("pair", lambda s, p, **o: pair({"g": s}, **o)),
    "name in a dictionary": ("pair", lambda s, p, **o: by_name({"g": s, "y": Y}, **o)),
    "NumPy": ("pair", lambda s, p, **o: pair(s.to_numpy(object), **o)),
    "list": ("pair", lambda s, p, **o: pair(s.tolist(), **o)),
    "xarray": ("pair", lambda s, p, **o: pair(s.to_frame().to_xarray()["g"], **o)),
    "name in a Dataset": ("pair", lambda s, p, **o: by_name(table(s).to_xarray(), **o)),
    "Arrow": ("pair", lambda s, p, **o: pair(in_arrow(s), **o)),
    "name in an Arrow table": ("pair", lambda s, p, **o: by_name(arrow_table(s), **o)),
    "Arrow of pandas": (
        "pair",
        lambda s, p, **o: by_name(arrow().Table.from_pandas(table(s)), **o),
    ),
    "polars": ("pair", lambda s, p, **o: pair(polars().from_arrow(in_arrow(s)), **o)),
    "name in a polars frame": (
        "pair",
        lambda s, p, **o: by_name(polars().from_arrow(arrow_table(s)), **o),
    ),
    "Parquet": ("pair", lambda s, p, **o: by_name(written(s, p / "t.parquet", "to_parquet"), **o)),
    "CSV": ("pair", lambda s, p, **o: by_name(written(s, p / "t.csv", "to_csv"), **o)),
    "zarr": ("pair", lambda s, p, **o: by_name(of_zarr(s, p / "t.zarr"), **o)),
    "Dask column": ("pair", lambda s, p, **o: pair(lazy(s), **o)),
    "Dask frame": ("pair", lambda s, p, **o: pair(lazy(s.to_frame()), **o)),
    "name in a Dask frame": ("pair", lambda s, p, **o: by_name(lazy(table(s)), **o)),
    "Dask array": ("pair", lambda s, p, **o: pair(da.from_array(s.to_numpy(), chunks=20), **o)),
    "PValue": (
        "p-value",
        lambda s, p, **o: PValue(marginal={"n_resamples": 49, **o})(s.to_frame(), Y),
    ),
    "PgmpyTest": ("p-value", lambda s, p, **o: pgmpy(s, **o)),
    "rank beside a column": ("rank", lambda s, p, **o: rank(table(s)[["g", "z"]], **o)),
    "score of features": ("rank", lambda s, p, **o: score(s.to_frame(), Y, **o)),
    "score of a target": ("rank target", lambda s, p, **o: score(Y[:, None], s, **o)),
    "selector of features": ("select", lambda s, p, **o: selector(s.to_frame(), Y, **o)),
    "selector of a target": ("select target", lambda s, p, **o: selector(Y[:, None], s, **o)),
    "given frame": ("given", lambda s, p, **o: conditional(s.to_frame(), **o)),
}


REFERENCES = {
    "pair": pair,
    "p-value": lambda s, **o: pair(s, **o)[1],
    "rank": rank,
    "rank target": rank_target,
    "select": lambda s, **o: dhsic.rank_features(s, Y, rng=SEED, **o).features[0].pvalue,
    "select target": lambda s, **o: dhsic.rank_features(Y, s, rng=SEED, **o).features[0].pvalue,
    "given": conditional,
}

# Types that are lost before the door: codes of categories of numbers are numbers again, text has no
# types, and Arrow has no columns of several.
CODED = {"category of numbers", "category of fractions", "category of numbers, gaps"}
MIXED = {"text among numbers"}
NUMBERS = {
    *("category of booleans", "booleans", "nullable booleans", "integers", "nullable integers"),
    *("nullable integers, gaps", "float32", "floats, gaps", "times", "durations"),
}
LOST = {
    "NumPy": CODED,
    "list": CODED,
    "Arrow": MIXED,
    "name in an Arrow table": MIXED,
    "Arrow of pandas": MIXED,
    "polars": {*CODED, *MIXED, "periods"},
    "name in a polars frame": {*CODED, *MIXED, "periods"},
    "Parquet": MIXED,
    "CSV": {*CODED, *MIXED, "durations", "periods"},
    "zarr": COLUMNS.keys() - NUMBERS,
    "Dask array": {*CODED, "large integers, gaps"},
}
# Dask takes objects for text, and labels must be known before they are read.
OBJECTS = {
    *("text", "text of pandas", "text, gaps", "booleans as objects, gaps"),
    *("Decimal", "Decimal, gaps"),
}
WITH_GAPS = {name for name in COLUMNS if name.endswith("gaps")}
REFUSED = {
    "Dask column": OBJECTS,
    "Dask frame": OBJECTS,
    "name in a Dask frame": OBJECTS,
    "Dask array": {
        *OBJECTS,
        *("category of text", "category of text, gaps", "nullable booleans, gaps"),
    },
    # By scikit-learn itself, in its words.
    "selector of features": {"text", "text of pandas", *WITH_GAPS},
    "selector of a target": WITH_GAPS,
}
CELLS = [(door, name) for door in DOORS for name in COLUMNS if name not in LOST.get(door, ())]


@cache
def expected(reference, name):
    """The answer of a Series, None where it is refused."""
    options = {"missing": "drop"} if name in WITH_GAPS else {}
    try:
        return REFERENCES[reference](column(name), **options)
    except DataError:
        return None


def test_table__has_the_cells_that_are_said():
    refused = [
        (door, name)
        for door, name in CELLS
        if name in REFUSED.get(door, ()) and expected(DOORS[door][0], name) is not None
    ]
    cells = len(DOORS) * len(COLUMNS), len(CELLS) - len(refused), len(refused)
    assert cells == (810, 718, 45)


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize(("door", "name"), CELLS)
def test_column__is_of_one_kind_through_every_door(door, name, tmp_path):
    reference, enter = DOORS[door]
    found = expected(reference, name)
    options = {"missing": "drop"} if name in WITH_GAPS and "selector" not in door else {}
    if found is None or name in REFUSED.get(door, ()):
        # scikit-learn refuses some by errors of its own.
        errors = (ValueError, TypeError) if "selector" in door else DataError
        with pytest.raises(errors):
            enter(column(name), tmp_path, **options)
        return
    assert enter(column(name), tmp_path, **options) == found


@pytest.mark.parametrize("name", sorted(WITH_GAPS))
@pytest.mark.parametrize("door", ["name in a frame", "Arrow", "Dask column", "Parquet", "xarray"])
def test_gaps__are_refused_through_every_door(door, name, tmp_path):
    with pytest.raises(DataError, match=r"missing='drop'|lose digits|known categories"):
        DOORS[door][1](column(name), tmp_path)


def test_categories__of_numbers_stay_some_when_a_table_is_converted(tmp_path):
    arrow()
    path = written(column("category of numbers"), tmp_path / "t.parquet", "to_parquet")
    done = convert_table(path, tmp_path / "t.zarr", variables={"g": ["g"], "y": ["y"]})
    assert [one.kind for one in done.columns] == ["categorical", "numeric"]
    assert by_name(str(tmp_path / "t.zarr")) == expected("pair", "category of numbers")


MASKED = np.ma.array(PLACES.astype(float), mask=GAPS)
MASKS = {
    "variable": lambda: pair(MASKED),
    "dictionary": lambda: pair({"g": MASKED}),
    "name in a dictionary": lambda: by_name({"g": MASKED, "y": Y}),
    "given": lambda: conditional(MASKED),
    "strata": lambda: pair(X, strata=MASKED),
    "weights": lambda: dhsic.independence_test(X, Y, weights=MASKED),
    "PValue": lambda: PValue()(X, Y, MASKED),
    "features": lambda: score(MASKED[:, None], Y),
    "target": lambda: score(X[:, None], MASKED),
    "selector of features": lambda: selector(MASKED[:, None], Y),
    "selector of a target": lambda: selector(X[:, None], MASKED),
}


@pytest.mark.parametrize("door", MASKS)
def test_masks__of_numpy_are_refused_through_every_door(door):
    with pytest.raises(DataError, match="in row 4"):
        MASKS[door]()


NESTED = {
    "structures": lambda: polars().Series([{"a": i % 5, "b": 2.0} for i in range(N)]),
    "arrays": lambda: polars().Series(
        np.stack([X, Y], 1).tolist(), dtype=polars().Array(polars().Float64, 2)
    ),
    "lists": lambda: polars().Series(np.stack([X, Y], 1).tolist()),
    "lists of Arrow": lambda: arrow().array(np.stack([X, Y], 1).tolist()),
    "periods of Arrow": lambda: in_arrow(column("periods")),
}


@pytest.mark.parametrize("name", NESTED)
def test_values__of_several_parts_are_refused(name):
    values = NESTED[name]()
    with pytest.raises(DataError, match=r"must have one number or label a row|values of type"):
        pair(values)


# Labels of rows ---------------------------------------------------------------------------------

ROWS = pd.DataFrame(
    {"x": X, "y": Y, "z": RNG.standard_normal(N), "s": np.arange(N) % 3, "w": 0.5 + RNG.random(N)},
    index=[f"r{i}" for i in range(N)],
)
ROWS["g"] = np.arange(N) // 5
OTHERS = ROWS.sample(frac=1, random_state=0)


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
    "NumPy": lambda s: s.to_numpy(),
}


def paired(x, y, **options):
    options = {**OPTIONS, "kernels": "gaussian", **options}
    return dhsic.independence_test(x, y, **options).pvalue


def refused():
    return pytest.raises(DataError, match=r"the same index: .* not in the same order")


@pytest.mark.parametrize("second", FORMS)
@pytest.mark.parametrize("first", FORMS)
def test_rows__of_two_variables_are_compared_by_their_labels(first, second):
    x = FORMS[first](ROWS["x"])
    assert paired(x, FORMS[second](ROWS["y"])) == paired(X, Y)
    y = FORMS[second](OTHERS["y"])
    if "NumPy" in (first, second):  # an array has no labels, and goes by position
        assert paired(x, y) == paired(X, OTHERS["y"].to_numpy())
        return
    with refused():
        paired(x, y)


DATA = {
    "none": lambda folder: None,
    "pandas": lambda folder: ROWS,
    "Dask": lambda folder: in_dask(ROWS),
    "dictionary": lambda folder: {name: ROWS[name] for name in ROWS},
    "Dataset": lambda folder: ROWS.to_xarray(),
    "Arrow": lambda folder: arrow().Table.from_pandas(ROWS),
    "Parquet": lambda folder: written_with_labels(folder),
}
# Columns for each argument, and options that go with it.
ARGUMENTS = {"strata": ("s", OPTIONS), "groups": ("g", OPTIONS), "weights": ("w", {"rng": 0})}


def written_with_labels(folder):
    arrow()
    ROWS.to_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("form", ["pandas", "xarray", "Dask", "dictionary", "NumPy"])
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_rows__of_an_argument_are_compared_by_their_labels(argument, form, data, tmp_path):
    column_of, options = ARGUMENTS[argument]
    options = {**options, "data": DATA[data](tmp_path), "kernels": "gaussian"}
    variables = ("x", "y") if options["data"] is not None else (ROWS["x"], ROWS["y"])

    def run(rows):
        told = FORMS[form](rows[column_of])
        return dhsic.independence_test(*variables, **{argument: told}, **options).pvalue

    assert run(ROWS) == argument_alone(argument)
    if form == "NumPy":
        return
    with refused():
        run(OTHERS)


@cache
def argument_alone(argument):
    column_of, options = ARGUMENTS[argument]
    told = {argument: ROWS[column_of].to_numpy(), "kernels": "gaussian", **options}
    return dhsic.independence_test(X, Y, **told).pvalue


FUNCTIONS = {
    "hsic": lambda a, b: dhsic.hsic(a["x"], b["y"]),
    "plan": lambda a, b: dhsic.plan(a["x"], b["y"]),
    "rank_features": lambda a, b: dhsic.rank_features(a[["x", "z"]], b["y"]),
    "row_groups": lambda a, b: dhsic.rank_features(a[["x", "z"]], a["y"], row_groups=b["g"]),
    "select_features": lambda a, b: dhsic.select_features(a[["x", "z"]], b["y"], 1),
    "dependence_matrix": lambda a, b: dhsic.dependence_matrix(data={"x": a["x"], "y": b["y"]}),
    "interaction_test": lambda a, b: dhsic.interaction_test(a["x"], a["y"], b["z"]),
    "witness_functions": lambda a, b: dhsic.witness_functions(a["x"], b["y"]),
    "given": lambda a, b: dhsic.conditional_independence_test(a["x"], a["y"], given=b["z"]),
    "two samples": lambda a, b: dhsic.two_sample_test(a["x"], a["y"], strata=[a["s"], b["s"]]),
    "names of two samples": lambda a, b: dhsic.two_sample_test(
        "x", "y", data=a, strata=[a["s"], b["s"]]
    ),
    "direction": lambda a, b: causal.direction(a["x"], b["y"]),
    "score_dags": lambda a, b: causal.score_dags(a["x"], b["y"]),
    "residuals": lambda a, b: causal.residual_independence_test(a["x"], a["y"], given=b["z"]),
    "scores": lambda a, b: dependence_score(a[["x", "z"]], b["y"]),
    "PValue": lambda a, b: PValue(first_rows=20)(a["x"], a["y"], b[["z"]]),
    "sample of a dictionary": lambda a, b: dhsic.two_sample_test(
        {"a": a["x"], "b": b["y"]}, {"a": a["x"], "b": a["y"]}
    ),
}
LABELLED = {
    "pandas": (ROWS, OTHERS),
    "Dask": (in_dask(ROWS), in_dask(OTHERS)),
    "both": (in_dask(ROWS), OTHERS),
}


@pytest.mark.parametrize("form", LABELLED)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows__of_every_function_are_compared_by_their_labels(name, form):
    with refused():
        FUNCTIONS[name](*LABELLED[form])


@pytest.mark.parametrize("form", ["Arrow", "Parquet"])
def test_rows__of_samples_of_a_table_are_compared_by_their_labels(form, tmp_path):
    data = DATA[form](tmp_path)
    strata = [ROWS["s"], ROWS["s"]]
    found = dhsic.two_sample_test("x", "y", data=data, strata=strata, **OPTIONS)
    assert found.pvalue == dhsic.two_sample_test(X, Y, strata=strata, **OPTIONS).pvalue
    with refused():
        dhsic.two_sample_test("x", "y", data=data, strata=[ROWS["s"], OTHERS["s"]])


def test_rows__of_a_selector_are_compared_by_their_labels():
    with refused():
        selector(ROWS[["x"]], OTHERS["y"])


def test_labels__of_columns_of_one_dask_frame_are_not_read(monkeypatch):
    monkeypatch.setattr("dhsic.io.row_labels.compute_graphs", lambda *lazy: pytest.fail("read"))
    frame = in_dask(ROWS)
    assert paired(frame["x"], frame[["y"]]) == paired(X, Y)
    assert paired("x", "y", data=frame, strata=frame["s"]) == paired(
        "x", "y", data=ROWS, strata="s"
    )
    with pytest.raises(pytest.fail.Exception, match="read"):
        paired(frame["x"], in_dask(OTHERS)["y"])


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
    assert paired(x, y) == paired(X, Y)
    if isinstance(rows.index, pd.DatetimeIndex | pd.TimedeltaIndex):
        assert paired(x, y.set_axis(rows.index.as_unit("s"))) == paired(X, Y)
    swapped = np.r_[N - 1, 1 : N - 1, 0]  # the first and the last row, of different partitions
    with refused():
        paired(x, y.iloc[swapped])
    with pytest.raises(DataError, match="their labels are not the same"):
        paired(x, y.iloc[:-1])


def test_labels__that_are_equal_are_so_in_any_type():
    nullable = ROWS["y"].set_axis(pd.Index(np.arange(N), dtype="Int64"))
    assert paired(ROWS["x"].set_axis(range(N)), nullable) == paired(X, Y)
    with refused():
        paired(ROWS["x"].set_axis(range(N)), nullable.iloc[::-1])


@pytest.mark.parametrize("as_batch", [False, True])
def test_levels__of_an_index_in_arrow_are_variables(as_batch):
    index = pd.MultiIndex.from_product([range(N // 5), range(5)], names=["a", "b"])
    rows = ROWS[["x", "w"]].set_axis(index)
    data = arrow().Table.from_pandas(rows)
    data = data.to_batches()[0] if as_batch else data
    found = dhsic.independence_test("x", "a", data=data, strata="b", **OPTIONS)
    levels = rows.reset_index()
    assert (
        found.pvalue == dhsic.independence_test("x", "a", data=levels, strata="b", **OPTIONS).pvalue
    )
    with refused():
        dhsic.independence_test("x", "a", data=data, weights=rows["w"].iloc[::-1], **OPTIONS)


def test_labels__of_rows_in_a_batch_of_arrow_are_compared():
    (batch,) = arrow().Table.from_pandas(ROWS[["x"]]).to_batches()
    assert paired(batch, ROWS["y"]) == paired(X, Y)
    with refused():
        paired(batch, OTHERS["y"])
    with refused():
        dhsic.independence_test("x", "x", data=batch, strata=OTHERS["y"] > 0, **OPTIONS)


def test_labels__of_rows_in_one_variable_are_compared():
    with refused():
        paired({"a": ROWS["x"], "b": OTHERS["y"]}, Y)


@pytest.mark.filterwarnings("ignore::dhsic.errors.DependentRowsWarning")  # some columns are cyclic
def test_index__that_a_table_of_pandas_leaves_behind_is_no_column(tmp_path):
    data = [arrow().Table.from_pandas(ROWS.iloc[::-1]), written_with_labels(tmp_path)]
    for one in data:
        found = dhsic.dependence_matrix(data=one, rng=0)
        assert found.names == tuple(ROWS.columns)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, to Dask
def test_dask__parquet_of_which_columns_are_chosen_gives_the_test_of_pandas(tmp_path):
    arrow()
    for j in range(4):  # small ones, of which Dask joins some
        ROWS[j * 15 : j * 15 + 15].to_parquet(tmp_path / f"part.{j}.parquet", index=False)
    data = dd.read_parquet(tmp_path)
    assert paired("x", "y", data=data) == paired(X, Y)
    assert paired(data["x"], data["y"]) == paired(X, Y)
    assert paired(data[["x", "z"]], data["y"]) == paired(ROWS[["x", "z"]], ROWS["y"])
    assert rank(["x", "z"], "y", data=data) == rank(["x", "z"], "y", data=ROWS)


def test_pvalue__takes_columns_of_dask():
    data, test = in_dask(ROWS), PValue(first_rows=20, conditional={"method": "kernel"})
    assert test(data["x"], data[["y"]], data["z"]) == test(X, Y, ROWS["z"].to_numpy())
