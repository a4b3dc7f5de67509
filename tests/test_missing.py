"""Missing values: one contract over all functions that take data, however a value is marked.

Rows that miss a value are refused in words; `missing="drop"` is the call on the complete rows;
`missing="pairwise"`, where a function has it, is right by its definition (`tests/test_gaps.py`),
and the other functions refuse it. Marks that stores keep are in `tests/io/test_marks.py`.
"""

import inspect
import json
from decimal import Decimal

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import dhsic
from dhsic import causal
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.integrations import DependenceSelector, PValue, dependence_score
from tests.places import CALLS, differs

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

# Few rows, of which conditional tests warn.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

N = 60
RNG = np.random.default_rng(0)
A, B, C = RNG.standard_normal((3, N))
B = B + np.abs(A)
GAPS = np.array([3, 10, 41])
GAPPED = A.copy()
GAPPED[GAPS] = np.nan
KEPT = np.delete(np.arange(N), GAPS)

# Every function with `missing=`, of three variables.
FUNCTIONS = {
    "independence_test": lambda a, b, c, **o: dhsic.independence_test(
        a, b, rng=0, n_resamples=49, **o
    ),
    "hsic": lambda a, b, c, **o: dhsic.hsic(a, b, rng=0, **o),
    "plan": lambda a, b, c, **o: dhsic.plan(a, b, **o),
    "interaction_test": lambda a, b, c, **o: dhsic.interaction_test(a, b, c, rng=0, **o),
    "plan_interaction": lambda a, b, c, **o: dhsic.plan_interaction(a, b, c, **o),
    "dependence_matrix": lambda a, b, c, **o: dhsic.dependence_matrix(a, b, c, rng=0, **o),
    "plan_matrix": lambda a, b, c, **o: dhsic.plan_matrix(a, b, c, **o),
    "lag_scan": lambda a, b, c, **o: dhsic.lag_scan(a, b, 2, rng=0, **o),
    "plan_lag_scan": lambda a, b, c, **o: dhsic.plan_lag_scan(a, b, 2, **o),
    "rank_features": lambda a, b, c, **o: dhsic.rank_features(b, a, rng=0, **o),
    "plan_ranking": lambda a, b, c, **o: dhsic.plan_ranking(a, b, **o),
    "select_features": lambda a, b, c, **o: dhsic.select_features(a, b, 1, rng=0, **o),
    "dependence_difference": lambda a, b, c, **o: dhsic.dependence_difference(a, b, c, rng=0, **o),
    "plan_difference": lambda a, b, c, **o: dhsic.plan_difference(a, b, c, **o),
    "sensitivity_map": lambda a, b, c, **o: dhsic.sensitivity_map(a, b, rng=0, **o),
    "witness_functions": lambda a, b, c, **o: dhsic.witness_functions(a, b, rng=0, **o),
    "two_sample_test": lambda a, b, c, **o: dhsic.two_sample_test(a, b, rng=0, **o),
    "plan_two_sample": lambda a, b, c, **o: dhsic.plan_two_sample(a, b, **o),
    "conditional_independence_test": lambda a, b, c, **o: dhsic.conditional_independence_test(
        a, b, given=c, rng=0, **o
    ),
    "plan_conditional": lambda a, b, c, **o: dhsic.plan_conditional(a, b, given=c, **o),
    "causal.direction": lambda a, b, c, **o: causal.direction(a, b, rng=0, **o),
    "causal.plan_direction": lambda a, b, c, **o: causal.plan_direction(a, b, **o),
    "causal.residual_independence_test": lambda a, b, c, **o: causal.residual_independence_test(
        a, b, given=c, rng=0, **o
    ),
    "causal.score_dags": lambda a, b, c, **o: causal.score_dags(a, b, rng=0, **o),
    "causal.search_dag": lambda a, b, c, **o: causal.search_dag(a, b, rng=0, **o),
}
PAIRWISE = {
    *("independence_test", "hsic", "plan", "dependence_matrix", "plan_matrix"),
    *("lag_scan", "plan_lag_scan", "rank_features", "plan_ranking", "select_features"),
}
RUNS = [name for name in FUNCTIONS if "plan" not in name]


def said(result):
    """What a result tells, besides how it came about."""
    record = json.loads(json.dumps(result.to_dict(), default=lambda x: np.asarray(x).tolist()))

    def kept(value):
        if isinstance(value, list):
            return [kept(one) for one in value]
        if not isinstance(value, dict):
            return value
        beside = ("seconds", "times", "passes", "data", "dropped", "missing")
        return {key: kept(one) for key, one in value.items() if key not in beside}

    return kept(record)


def dropped_by(result):
    """Rows that a result says were left out."""
    return getattr(result, "measured", result).dropped


def in_objects(mark):
    values = A.astype(object)
    values[GAPS] = mark
    return values


# Ways in which values of A are marked as missing.
FORMS = {
    "NaN": lambda: GAPPED,
    "None": lambda: in_objects(None).tolist(),
    "masked": lambda: np.ma.array(A, mask=np.isnan(GAPPED)),
    "pandas NA": lambda: pd.Series(GAPPED).astype("Float64"),
    "Dask": lambda: da.from_array(GAPPED, chunks=20),
    "zarr": lambda: zarr.create_array({}, data=GAPPED, chunks=(20,)),
}


def test_functions__are_all_that_take_the_argument():
    public = {name: getattr(dhsic, name) for name in dhsic.__all__}
    public |= {f"causal.{name}": getattr(causal, name) for name in causal.__all__}
    found = {
        name
        for name, value in public.items()
        if inspect.isfunction(value) and "missing" in inspect.signature(value).parameters
    }
    assert found == FUNCTIONS.keys()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", RUNS)
def test_gaps__are_refused_with_their_row_and_a_remedy(name, form):
    take = "pairwise" if name == "lag_scan" else "drop"
    with pytest.raises(DataError, match=rf"variable '\w+' has .* in row 3: .*missing='{take}'"):
        FUNCTIONS[name](FORMS[form](), B, C)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_drop__is_the_call_on_complete_rows(name, form):
    run = FUNCTIONS[name]
    if "lag_scan" in name:  # rows behind a gap would have other lags
        with pytest.raises(InvalidArgumentError, match=r"3 rows left out: .*missing='pairwise'"):
            run(FORMS[form](), B, C, missing="drop")
        return
    found = run(FORMS[form](), B, C, missing="drop")
    rest = (B, C) if "two_sample" in name else (B[KEPT], C[KEPT])
    expected = run(A[KEPT], *rest)
    if isinstance(found, dhsic.WitnessFunctions):
        assert found.coco == expected.coco
        return
    if "plan" in name:
        assert found.n == expected.n
        assert [step.name for step in found.passes] == [step.name for step in expected.passes]
        return
    assert dropped_by(found) == len(GAPS)
    assert dropped_by(expected) == 0
    close = CALLS["direction"]  # of which rounding may differ
    assert differs(said(found), said(expected), close) is None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_pairwise__is_the_usual_call_where_nothing_is_missing_or_refused(name):
    run = FUNCTIONS[name]
    if name in PAIRWISE:
        assert said(run(A, B, C, missing="pairwise")) == said(run(A, B, C))
        return
    with pytest.raises(
        InvalidArgumentError, match=r"is for independence_test, .*take 'drop', or f"
    ):
        run(GAPPED, B, C, missing="pairwise")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_treatment__that_is_none_is_refused(name):
    with pytest.raises(InvalidArgumentError, match="missing must be one of 'refuse', 'drop'"):
        FUNCTIONS[name](A, B, C, missing="omit")


def test_gaps__of_other_functions_are_refused_or_dropped():
    with pytest.raises(DataError, match="'x' has NaN or infinity, first in row 3"):
        dhsic.mean_embedding(GAPPED, "gaussian:1.0", 10, rng=0)
    features = np.c_[GAPPED, C]
    with pytest.raises(DataError, match="in row 3"):
        dependence_score(features, B)
    scores = dependence_score(features, B, missing="drop")[0]
    assert scores == pytest.approx(dependence_score(features[KEPT], B[KEPT])[0])
    with pytest.raises(DataError, match="in row 3"):
        DependenceSelector(1).fit(np.ma.array(np.c_[A, C], mask=np.isnan(features)), B)
    with pytest.raises(DataError, match="in row 3"):
        PValue()(C, B, np.ma.array(A, mask=np.isnan(GAPPED)))
    with pytest.raises(DataError, match="pair 'pair1': variable 'x1' has NaN"):
        causal.directions([(GAPPED, B)], rng=0)
    found = causal.directions([(GAPPED, B)], missing="drop", rng=0).results[0]
    assert (found.n, found.dropped) == (len(KEPT), len(GAPS))


# Marks by kinds of values ------------------------------------------------------------------------

LABELS = np.array(["u", "v", "w"])[RNG.integers(0, 3, N)]
FLAGS = RNG.random(N) < 0.4
WHOLE = np.round(A * 10)
COLUMNS = {"numbers": A, "whole numbers": WHOLE, "labels": LABELS, "booleans": FLAGS}
NONE = {"None": None, "NaN": float("nan"), "NumPy's": np.nan, "float32": np.float32("nan")}
NONE |= {"Decimal": Decimal("nan"), "NA": pd.NA, "NaT": pd.NaT}


def marked(values, mark=None):
    column = np.array(values, object)
    column[GAPS] = mark
    return column


def masked(values):
    return np.ma.array(values, mask=np.isin(np.arange(N), GAPS))


def polars(values, **options):
    return pytest.importorskip("polars").Series(marked(values).tolist(), **options)


def lazy(series):
    return dd.from_pandas(series, npartitions=3)


CELLS = {
    **{
        f"{kind}, {name}": (kind, lambda v, mark=mark: marked(v, mark))
        for kind in ("numbers", "labels", "booleans")
        for name, mark in NONE.items()
    },
    "list of labels": ("labels", lambda v: marked(v).tolist()),
    "pandas integers": ("whole numbers", lambda v: pd.Series(marked(v)).astype("Int64")),
    "pandas booleans": ("booleans", lambda v: pd.array(marked(v, pd.NA), "boolean")),
    "pandas text": ("labels", lambda v: pd.Series(marked(v)).astype("string")),
    "pandas categories": ("labels", lambda v: pd.Categorical(marked(v))),
    "pandas frame": ("numbers", lambda v: pd.DataFrame({"a": marked(v), "b": v}).astype(float)),
    "polars": ("numbers", polars),
    "polars text": ("labels", polars),
    "polars categories": (
        "labels",
        lambda v: polars(v, dtype=pytest.importorskip("polars").Categorical),
    ),
    "Arrow": ("numbers", lambda v: pa.array(marked(v).tolist())),
    "Arrow booleans": ("booleans", lambda v: pa.array(marked(v).tolist())),
    "Arrow text": ("labels", lambda v: pa.array(marked(v).tolist())),
    "Arrow dictionary": ("labels", lambda v: pa.array(marked(v).tolist()).dictionary_encode()),
    "Arrow chunks": (
        "labels",
        lambda v: pa.chunked_array([marked(v)[:20].tolist(), [], marked(v)[20:].tolist()]),
    ),
    "Arrow codes without sign": (
        "labels",
        lambda v: pa.DictionaryArray.from_arrays(
            pa.array(pd.Categorical(marked(v)).codes, mask=masked(v).mask).cast("uint32"),
            pa.array(["u", "v", "w"]),
        ),
    ),
    "xarray": ("numbers", lambda v: xr.DataArray(np.where(masked(v).mask, np.nan, v), dims="row")),
    "Dask frame": ("numbers", lambda v: lazy(pd.Series(marked(v)).astype(float))),
    "Dask categories": ("labels", lambda v: lazy(pd.Series(marked(v), dtype="category"))),
    "mask": ("numbers", masked),
    "mask of float32": ("whole numbers", lambda v: masked(v.astype("f4"))),
    "mask of integers": ("whole numbers", lambda v: masked(v.astype("i2"))),
    "mask of labels": ("labels", masked),
    "mask of objects": ("labels", lambda v: masked(v.astype(object))),
    "mask of booleans": ("booleans", masked),
    "mask in a list": ("numbers", lambda v: list(masked(v)[:, None])),
    "mask in a dictionary": ("numbers", lambda v: {"a": masked(v)}),
    "mask of Dask": ("numbers", lambda v: da.from_array(masked(v), chunks=13)),
    "mask of Dask bytes": (
        "whole numbers",
        lambda v: da.from_array(masked(v.astype("i1")), chunks=9),
    ),
    "mask of Dask booleans": ("booleans", lambda v: da.from_array(masked(v), chunks=13)),
    "mask of some chunks": (
        "numbers",
        lambda v: da.concatenate(
            [da.from_array(x, chunks=-1) for x in (masked(v)[:20], v[20:30], masked(v)[30:])]
        ),
    ),
    "mask of xarray": ("numbers", lambda v: xr.DataArray(da.from_array(masked(v), chunks=9))),
}


def kind_and_estimate(x, y, **options):
    found = dhsic.hsic(x, y, estimator="v-hsic", rng=0, **options)
    return found.variables[0].kernel.partition(":")[0], found.estimate, found.dropped


@pytest.mark.parametrize("name", CELLS)
def test_mark__of_every_kind_of_values_is_a_gap(name):
    kind, mark = CELLS[name]
    x, whole = mark(COLUMNS[kind]), COLUMNS[kind]
    if name == "pandas frame":
        whole = np.c_[whole, whole]
    with pytest.raises(DataError, match=r"first in row 3"):
        dhsic.hsic(x, B)
    kernel, estimate, dropped = kind_and_estimate(x, B, missing="drop")
    expected = kind_and_estimate(whole[KEPT], B[KEPT])
    assert (kernel, dropped) == (expected[0], len(GAPS))
    assert estimate == pytest.approx(expected[1], rel=1e-5)


@pytest.mark.parametrize("as_dask", [False, True])
def test_mask__of_a_matrix_is_of_its_columns(as_dask):
    mask = masked(A).mask
    x = np.ma.array(np.c_[A, C], mask=np.c_[mask, np.roll(mask, 1)])
    x = da.from_array(x, chunks=(13, 1)) if as_dask else x
    found = dhsic.hsic(x, B, missing="drop", rng=0)
    assert found.dropped == len({*GAPS, *(GAPS + 1)})


BESIDE = {
    "strata": np.arange(N) % 2,
    "groups": np.arange(N) // 2,
    "weights": np.arange(N) + 40.0,
    "given": C,
}


@pytest.mark.parametrize(
    "form", [masked, marked, lambda v: da.from_array(masked(v * 1.0), chunks=13)]
)
@pytest.mark.parametrize("name", BESIDE)
def test_gaps__of_what_stands_beside_the_variables_are_treated_alike(name, form):
    function = dhsic.conditional_independence_test if name == "given" else dhsic.independence_test
    values = BESIDE[name]
    with pytest.raises(DataError, match="in row 3"):
        function(A, B, rng=0, **{name: form(values)})
    found = function(A, B, rng=0, missing="drop", **{name: form(values)})
    kept = {name: values[KEPT].astype(float) if name == "given" else values[KEPT]}
    expected = function(A[KEPT], B[KEPT], rng=0, **kept)
    assert (found.dropped, found.n) == (3, N - 3)
    assert found.pvalue == pytest.approx(expected.pvalue, rel=1e-6)


def test_rows__of_which_too_few_are_left_are_told():
    with pytest.raises(DataError, match=r"all 60 rows miss a value \('x1' 0, 'x2' 60\)"):
        dhsic.hsic(B, np.full(N, np.nan), missing="drop")
    few = np.where(np.arange(N) < 3, B, np.nan)
    with pytest.raises(DataError, match="at least 4 rows, got 3, and 57 that miss a value were"):
        dhsic.independence_test(B, few, missing="drop")
    with pytest.raises(DataError, match="all 60 rows miss"):
        dhsic.hsic(pa.array([None] * N, "string"), B, missing="drop")


@pytest.mark.parametrize("missing", ["refuse", "drop", "pairwise"])
def test_infinity__is_no_gap(missing):
    with pytest.raises(DataError, match="infinity, first in row 7"):
        dhsic.hsic(np.where(np.arange(N) == 7, np.inf, A), B, missing=missing)


def test_labels__that_are_missing_are_refused_as_numbers_are():
    labels = np.array(["a", "b"], object)[np.arange(N) % 2]
    labels[GAPS] = None
    for run, told in (
        (lambda: dhsic.hsic(labels, B), "'x1' has missing values, first in row 3: drop"),
        (lambda: dhsic.lag_scan(labels, B, 2), "first in row 3: .*'pairwise' keeps their pla"),
        (lambda: dhsic.independence_test(A, B, strata=labels), "strata has no label in row 3"),
    ):
        with pytest.raises(DataError, match=told):
            run()
