"""Every form that data may have gives the test of the NumPy array that it stands for."""

import re
from decimal import Decimal
from fractions import Fraction

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xarray as xr
import zarr

import dhsic
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.io.open import open_data, open_variables

N = 60
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2))
Y = X[:, 0] ** 2 + 0.5 * RNG.standard_normal(N)
LABELS = np.array(["u", "v", "w"])[RNG.integers(0, 3, N)]
CODES = np.unique(LABELS, return_inverse=True)[1]
FLAGS = RNG.random(N) < 0.4


def pvalue(*variables, **options):
    found = dhsic.independence_test(*variables, rng=0, n_resamples=99, **options)
    return found.pvalue, found.statistic


def polars():
    return pytest.importorskip("polars", reason="polars is not installed")


def arrow():
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


class Shared:
    """An array of another library, which shares its memory by one protocol."""

    def __init__(self, array, protocol):
        self._array = array
        if protocol == "array":
            self.__class__ = type("ByArray", (Shared,), {"__array__": Shared._as_array})
        else:
            methods = {"__dlpack__": Shared._dlpack, "__dlpack_device__": Shared._device}
            self.__class__ = type("ByDLPack", (Shared,), methods)

    def _as_array(self, dtype=None, copy=None):
        return np.asarray(self._array, dtype)

    def _dlpack(self, **options):
        return self._array.__dlpack__(**options)

    def _device(self):
        return self._array.__dlpack_device__()


def stored(x):
    whole = {"write_empty_chunks": True}
    return zarr.create_array({}, data=x, chunks=(7, *x.shape[1:]), config=whole)


NUMBERS = {
    "list": lambda x: x.tolist(),
    "Fortran order": np.asfortranarray,
    "Decimal": lambda x: np.vectorize(Decimal, otypes=[object])(x),
    "objects": lambda x: x.astype(object),
    "__array__": lambda x: Shared(x, "array"),
    "DLPack": lambda x: Shared(x, "dlpack"),
    "memoryview": lambda x: memoryview(np.ascontiguousarray(x)),
    "Dask": lambda x: da.from_array(x, chunks=(20, *x.shape[1:])),
    "zarr": stored,
    "xarray": lambda x: xr.DataArray(x, dims=("row", "column")[: x.ndim]),
    "pandas": lambda x: pd.DataFrame(x) if x.ndim > 1 else pd.Series(x),
    "pandas objects": lambda x: (pd.DataFrame(x) if x.ndim > 1 else pd.Series(x)).astype(object),
    "nullable pandas": lambda x: (pd.DataFrame(x) if x.ndim > 1 else pd.Series(x)).astype(
        "Float64"
    ),
    "Dask frame": lambda x: dd.from_pandas(
        pd.DataFrame(x, columns=["a", "b"]) if x.ndim > 1 else pd.Series(x), npartitions=3
    ),
    "polars": lambda x: (
        polars().DataFrame({"a": x[:, 0], "b": x[:, 1]}) if x.ndim > 1 else polars().Series(x)
    ),
    "Arrow": lambda x: (
        arrow().table({"a": x[:, 0], "b": x[:, 1]}) if x.ndim > 1 else arrow().array(x)
    ),
    "Arrow chunks": lambda x: (
        arrow().RecordBatch.from_pydict({"a": x[:, 0], "b": x[:, 1]})
        if x.ndim > 1
        else arrow().chunked_array([x[:11], x[11:]])
    ),
    "torch": lambda x: torch().from_numpy(np.ascontiguousarray(x)),
    "dict": lambda x: {"a": x[:, 0], "b": x[:, 1]} if x.ndim > 1 else {"a": x},
    "Dataset": lambda x: xr.Dataset(
        {"a": ("row", x[:, 0]), "b": ("row", x[:, 1])} if x.ndim > 1 else {"a": ("row", x)}
    ),
    "sparse": lambda x: sp.csr_array(x if x.ndim > 1 else x[:, None]),
    "sparse matrix": lambda x: sp.coo_matrix(x if x.ndim > 1 else x[:, None]),
}


@pytest.mark.parametrize("estimator", ["v-hsic", "nystrom-m"])
@pytest.mark.parametrize("x", [X, X[:, 0]], ids=["matrix", "vector"])
@pytest.mark.parametrize("form", NUMBERS)
def test_numbers__give_the_test_of_their_array(form, x, estimator):
    expected = pvalue(x, Y, estimator=estimator)
    assert pvalue(NUMBERS[form](x), Y, estimator=estimator) == pytest.approx(expected)


def test_whole_numbers__of_a_range_are_those_of_an_array():
    assert pvalue(range(N), Y) == pvalue(np.arange(N), Y)
    fractions = [Fraction(i, 3) for i in range(N)]
    assert pvalue(fractions, Y) == pvalue(np.arange(N) / 3, Y)


LABELLED = {
    "NumPy": lambda x: x,
    "NumPy strings": lambda x: x.astype(np.dtypes.StringDType()),
    "bytes": lambda x: x.astype("S"),
    "objects": lambda x: x.astype(object),
    "list": lambda x: x.tolist(),
    "xarray": lambda x: xr.DataArray(x, dims="row"),
    "pandas": pd.Series,
    "pandas objects": lambda x: pd.Series(x, dtype=object),
    "categorical": pd.Categorical,
    "pandas categories": lambda x: pd.Series(x, dtype="category"),
    "ordered categories": lambda x: pd.Series(pd.Categorical(x, ordered=True)),
    "Dask categories": lambda x: dd.from_pandas(pd.Series(x, dtype="category"), npartitions=3),
    "polars": lambda x: polars().Series("p", x.tolist()),
    "polars categories": lambda x: polars().Series("p", x.tolist(), dtype=polars().Categorical),
    "polars enumeration": lambda x: polars().Series("p", x, dtype=polars().Enum(["w", "v", "u"])),
    "Arrow": lambda x: arrow().array(x.tolist()),
    "Arrow dictionary": lambda x: arrow().array(x.tolist()).dictionary_encode(),
}


@pytest.mark.parametrize("estimator", ["v-hsic", "nystrom-m"])
@pytest.mark.parametrize("form", LABELLED)
def test_labels__give_the_test_of_codes_with_the_delta_kernel(form, estimator):
    expected = pvalue(CODES, Y, kernels=["delta", None], estimator=estimator)
    found = dhsic.independence_test(
        LABELLED[form](LABELS), Y, rng=0, n_resamples=99, estimator=estimator
    )
    assert (found.pvalue, found.statistic) == pytest.approx(expected)
    assert found.variables[0].kernel == "delta"


BOOLEANS = {
    "NumPy": lambda x: x,
    "list": lambda x: x.tolist(),
    "pandas": pd.Series,
    "nullable pandas": lambda x: pd.Series(x, dtype="boolean"),
    "Dask frame": lambda x: dd.from_pandas(pd.Series(x), npartitions=2),
    "Dask": lambda x: da.from_array(x, chunks=20),
    "zarr": stored,
    "polars": lambda x: polars().Series(x),
    "Arrow": lambda x: arrow().array(x),
}


@pytest.mark.parametrize("form", BOOLEANS)
def test_booleans__take_the_delta_kernel(form):
    found = dhsic.independence_test(BOOLEANS[form](FLAGS), Y, rng=0, n_resamples=99)
    assert found.variables[0].kernel == "delta"
    assert (found.pvalue, found.statistic) == pytest.approx(
        pvalue(1 * FLAGS, Y, kernels=["delta", None])
    )


def test_booleans__of_several_columns_are_compared_column_by_column():
    flags = RNG.random((N, 8)) < 0.5
    found = dhsic.independence_test(flags, Y, rng=0, n_resamples=99)
    assert not found.variables[0].kernel.startswith("delta")
    assert (found.pvalue, found.statistic) == pvalue(1 * flags, Y)


def frame():
    return pd.DataFrame({"label": LABELS, "number": X[:, 0], "late": FLAGS, "other": X[:, 1]})


FRAMES = {
    "pandas": lambda: frame(),
    "polars": lambda: polars().DataFrame({k: v.tolist() for k, v in frame().items()}),
    "Arrow": lambda: arrow().table({k: v.tolist() for k, v in frame().items()}),
    "Dask": lambda: dd.from_pandas(frame().astype({"label": "category"}), npartitions=3),
    "dict": lambda: {k: v.to_numpy() for k, v in frame().items()},
    "Dataset": lambda: xr.Dataset({k: ("row", v.to_numpy()) for k, v in frame().items()}),
}


@pytest.mark.parametrize("form", FRAMES)
def test_columns__of_labels_and_numbers_take_the_product(form):
    table = FRAMES[form]()
    found = dhsic.independence_test(table, Y, rng=0, estimator="v-hsic", n_resamples=99)
    kernel = re.sub(r":[^)@,*]+", "", found.variables[0].kernel)  # without bandwidths
    assert kernel in {
        f"{one}@1,3*delta@0,2"
        for one in ("scores(gaussian)", "gaussian", "columns(laplacian)", "spread(linear)")
    }
    assert found.variables[0].column_names == ("label", "number", "late", "other")
    codes = np.column_stack([CODES, X[:, 0], FLAGS, X[:, 1]])
    asked = [kernel, "gaussian"]
    one = pvalue(codes, Y, kernels=asked, estimator="v-hsic")
    again = pvalue(table, Y, kernels=asked, estimator="v-hsic")
    assert again == pytest.approx(one)


@pytest.mark.parametrize("form", [*FRAMES, "matrix", "xarray"])
def test_a_table_alone__stands_for_its_columns(form):
    if form in ("matrix", "xarray"):
        names = ["x1", "x2", "x3"] if form == "matrix" else ["a", "b", "c"]
        columns = [X[:, 0], X[:, 1], Y]
        table = np.column_stack(columns)
        if form == "xarray":
            table = xr.DataArray(table, dims=("row", "column"), coords={"column": names})
    else:
        table, names = FRAMES[form](), list(frame())
        columns = [LABELS, X[:, 0], FLAGS, X[:, 1]]
    found = dhsic.independence_test(table, rng=0, n_resamples=99)
    assert [v.name for v in found.variables] == names
    assert (found.pvalue, found.statistic) == pytest.approx(pvalue(*columns))
    matrix = dhsic.dependence_matrix(table, rng=0)
    assert matrix.names == tuple(names)


@pytest.mark.parametrize("form", FRAMES)
def test_data__has_the_variables_that_are_named(form):
    table = FRAMES[form]()
    found = dhsic.independence_test("other", ["number", "late"], data=table, rng=0, n_resamples=99)
    assert [v.name for v in found.variables] == ["other", "number+late"]
    assert found.variables[1].column_names == ("number", "late")
    expected = pvalue(X[:, 1], frame()[["number", "late"]])
    assert (found.pvalue, found.statistic) == pytest.approx(expected)
    with pytest.raises(InvalidArgumentError, match=r"no column 'numbr'; .*did you mean 'number'"):
        dhsic.independence_test("other", "numbr", data=table)
    assert [s.name for s in open_data((), None, table, "refuse")[0]] == list(frame())


def test_data__may_be_a_zarr_group(tmp_path):
    group = zarr.create_group(tmp_path / "g.zarr")
    group.create_array("x", data=X, attributes={"columns": ["front", "back"]})
    group.create_array("y", data=Y)
    expected = pvalue(X[:, 1], Y)
    for data in (tmp_path / "g.zarr", str(tmp_path / "g.zarr"), group):
        with pytest.raises(InvalidArgumentError, match="there are: x, y; did you mean 'x'"):
            dhsic.independence_test("x1", "y", data=data)
        alone = dhsic.independence_test(data=data, rng=0, n_resamples=99)
        assert [v.name for v in alone.variables] == ["x", "y"]
        assert (alone.pvalue, alone.statistic) == pvalue(X, Y)
        found = dhsic.independence_test("x[:, back]", "y", data=data, rng=0, n_resamples=99)
        assert (found.pvalue, found.statistic) == expected
    assert dhsic.independence_test(group, rng=0, n_resamples=99).pvalue == alone.pvalue
    by_key = dhsic.independence_test(group["x"], group["y"], rng=0)
    assert [(v.name, v.column_names) for v in by_key.variables] == [
        ("x", ("front", "back")),
        ("y", None),
    ]


MISSING = {
    "pandas": lambda x: pd.Series(x),
    "None": lambda x: [None if np.isnan(v) else float(v) for v in x],
    "pandas NA": lambda x: pd.Series(x).astype("Float64"),
    "polars": lambda x: polars().Series([None if np.isnan(v) else float(v) for v in x]),
    "Arrow": lambda x: arrow().array([None if np.isnan(v) else float(v) for v in x]),
    "Dask": lambda x: da.from_array(x, chunks=20),
    "zarr": stored,
    "NumPy": lambda x: x,
}


@pytest.mark.parametrize("form", MISSING)
def test_missing__rows_are_refused_or_dropped_and_counted(form):
    gaps = np.isin(np.arange(N), [3, 17, 41])
    x = MISSING[form](np.where(gaps, np.nan, X[:, 0]))
    with pytest.raises(DataError, match=r"first in row 3: .*missing='drop'"):
        dhsic.independence_test(x, Y, rng=0)
    found = dhsic.independence_test(x, Y, rng=0, missing="drop", n_resamples=99)
    assert (found.n, found.dropped) == (N - 3, 3)
    expected = pvalue(X[~gaps, 0], Y[~gaps])
    assert (found.pvalue, found.statistic) == pytest.approx(expected)
    assert "57, and 3 with missing values left out" in str(found)
    assert type(found).from_json(found.to_json()).dropped == 3


def test_dask__integers_that_lose_digits_are_refused():
    large = pd.DataFrame({"a": pd.Series(2**60 + np.arange(N), dtype="Int64"), "b": Y})
    for table in (large, large[["a"]]):
        with pytest.raises(DataError, match=r"integers beyond 2\*\*53"):
            dhsic.independence_test(dd.from_pandas(table, npartitions=3), Y, rng=0)


TEXT = "str" if pd.__version__ >= "3" else "string"  # of pandas 2 writes missing ones out


@pytest.mark.parametrize("form", [TEXT, "category", "object"])
def test_missing__labels_are_dropped_with_their_rows(form):
    labels = pd.Series(np.where(np.arange(N) == 5, None, LABELS)).astype(form)
    y = np.where(np.arange(N) == 7, np.nan, Y)
    with pytest.raises(DataError, match="missing values in 1 rows, first in row 5: drop them by"):
        dhsic.independence_test(labels, Y, rng=0)
    found = dhsic.independence_test(labels, y, rng=0, missing="drop", n_resamples=99)
    kept = ~np.isin(np.arange(N), [5, 7])
    assert found.dropped == 2
    assert (found.pvalue, found.statistic) == pvalue(LABELS[kept], Y[kept])


def test_missing__is_counted_by_every_result():
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": np.where(np.arange(N) < 4, np.nan, Y)})
    options = {"rng": 0, "missing": "drop"}
    results = [
        dhsic.hsic(table, **options),
        dhsic.interaction_test(table, **options),
        dhsic.dependence_matrix(table, **options),
        dhsic.rank_features(table[["a", "b"]], table["y"], **options),
        dhsic.rank_features(["a", "b"], "y", data=table, **options),
        dhsic.select_features(["a", "b"], "y", 1, data=table, **options),
        dhsic.sensitivity_map(table, **options).measured,
    ]
    assert [found.dropped for found in results] == [4] * 7
    assert {found.n for found in results} == {N - 4}
    assert dhsic.plan(table, missing="drop").steps
    assert dhsic.plan_interaction(table, missing="drop").steps
    assert dhsic.plan_ranking(["a", "b"], "y", data=table, missing="drop").steps


def test_missing__everywhere_is_said():
    with pytest.raises(DataError, match=r"all 60 rows miss a value \('x1' 0, 'x2' 60\)"):
        dhsic.independence_test(Y, np.full(N, np.nan), missing="drop")
    few = np.where(np.arange(N) < 3, Y, np.nan)
    with pytest.raises(DataError, match="at least 4 rows, got 3, and 57 that miss a value were"):
        dhsic.independence_test(Y, few, missing="drop")


def test_rows__of_xarray_are_refused_in_another_order():
    x = xr.DataArray(Y, dims="row", coords={"row": np.arange(N)}, name="x")
    assert pvalue(x, x.copy()) == pvalue(Y, Y)
    with pytest.raises(DataError, match=r"labels are not in the same order\. .*xarray\.align"):
        dhsic.independence_test(x, x[::-1])
    with pytest.raises(DataError, match="labels are not the same"):
        dhsic.independence_test(x, x.assign_coords(row=np.arange(N) + 1))
    with pytest.raises(DataError, match="not in the same order"):
        dhsic.independence_test(x, pd.Series(Y)[::-1])
    turned = xr.DataArray(X.T, dims=("column", "row"))
    with pytest.raises(DataError, match=r"call \.transpose\('row', \.\.\.\) on the second"):
        dhsic.independence_test(x.drop_vars("row"), turned)
    with pytest.raises(DataError, match="not in the same order"):
        dhsic.independence_test({"a": x, "b": x[::-1]})


def test_names__are_those_of_the_data():
    series = pd.Series(Y, name="AT")
    one = xr.DataArray(X[:, 0], dims="row", name="PE")
    assert [s.name for s in open_variables([series, one, X])] == ["AT", "PE", "x3"]
    assert [s.name for s in open_variables([series, series])] == ["x1", "x2"]
    assert [s.name for s in open_variables([series, series + 1, one])] == ["x1", "x2", "PE"]
    assert [s.name for s in open_variables([series.rename("x2"), Y])] == ["x1", "x2"]
    assert [s.name for s in open_variables([pd.DataFrame({"q": Y}), Y])] == ["q", "x2"]
    assert [s.name for s in open_variables([series, Y], ["a", "b"])] == ["a", "b"]
    found = dhsic.rank_features(frame()[["number", "other"]], series, rng=0, n_resamples=19)
    assert (found.target, found.features[1].name) == ("AT", "other")


def test_sparse__is_made_dense_by_blocks(monkeypatch):
    tall = sp.csr_array(np.where(RNG.random((20_000, 40)) < 0.02, 1.0, 0.0))
    seen = []
    dense = sp.csr_array.toarray
    monkeypatch.setattr(
        sp.csr_array, "toarray", lambda self: seen.append(self.shape[0]) or dense(self)
    )
    y = RNG.standard_normal(20_000)
    options = {"estimator": dhsic.NystromMHSIC(32), "threads": 1}
    found = pvalue(tall, y, **options)
    assert max(seen) < 20_000
    monkeypatch.undo()
    assert found == pvalue(tall.toarray(), y, **options)


def test_sparse__that_is_too_large_when_dense_is_refused_with_its_size():
    wide = sp.csr_array((1000, 100_000))
    with pytest.raises(MemoryBudgetError, match=r"GiB"):
        dhsic.independence_test(wide, RNG.standard_normal(1000), rng=0, memory="1GiB", threads=1)


def test_arrays__of_other_memory_are_refused_in_words():
    class OnDevice:
        def __array__(self, dtype=None, copy=None):
            msg = "cannot convert a tensor on a device"
            raise TypeError(msg)

    with pytest.raises(
        DataError, match=r"OnDevice that NumPy cannot read .*cannot convert a tensor"
    ):
        open_variables([OnDevice(), Y])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda x: x.requires_grad_(), "requires grad"),
        (lambda x: x.bfloat16(), "BFloat16"),
        (lambda x: x.to_sparse(), "to_dense"),
    ],
)
def test_tensors__that_numpy_cannot_read_are_refused_with_what_they_say(change, told):
    with pytest.raises(DataError, match=f"a Tensor that NumPy cannot read .*{told}.*copy it"):
        open_variables([change(torch().from_numpy(X.copy())), Y])


def test_tensors__of_booleans_are_labels_and_of_numbers_keep_their_precision():
    tensor = torch().from_numpy
    flags, numbers = open_variables([tensor(FLAGS), tensor(X.astype(np.float32))])
    assert flags.kinds == ("boolean",)
    assert numbers.read(0, N).dtype == np.float32


def test_lazy_frames__are_refused():
    lazy = polars().DataFrame({"a": Y}).lazy()
    with pytest.raises(DataError, match=r"LazyFrame is not computed yet: call \.collect\(\)"):
        open_variables([lazy, Y])


def test_witness_functions__take_names_and_leave_out_rows():
    table = pd.DataFrame({"a": X[:, 0], "y": np.where(np.arange(N) == 3, np.nan, Y)})
    found = dhsic.witness_functions("a", "y", data=table, missing="drop", rng=0)
    kept = np.arange(N) != 3
    assert found.coco == dhsic.witness_functions(X[kept, 0], Y[kept], rng=0).coco


def test_labels__that_name_rows_are_refused():
    with pytest.raises(DataError, match="another label in every row, so it names rows"):
        open_variables([[f"flight {i}" for i in range(N)], Y])
