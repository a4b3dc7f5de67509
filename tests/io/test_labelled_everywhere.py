"""`data=` and `missing=` of tests of samples and of `dhsic.causal`."""

import json

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr

import dhsic
from dhsic import causal
from dhsic.errors import DataError, InvalidArgumentError

ROWS = 80
RNG = np.random.default_rng(0)
A, NOISE, OTHER = RNG.uniform(-1.0, 1.0, (3, ROWS))
B = A + A**3 + 0.3 * NOISE
TABLE = pd.DataFrame({"a": A, "b": B, "c": OTHER, "g": RNG.choice(["u", "v"], ROWS)})
GAPPED = TABLE.copy()
GAPPED.loc[[3, 10], "a"] = np.nan
GAPPED.loc[[10, 20, 21], "b"] = np.nan
WHOLE = GAPPED.dropna(subset=["a", "b"])


def forms(folder):
    """The same columns in every form of data."""
    group = zarr.open_group(folder / "t.zarr", mode="w")
    for name in "abc":
        group.create_array(name, data=TABLE[name].to_numpy()[:, None])
    TABLE.to_csv(folder / "t.csv", index=False)
    dictionary = {name: TABLE[name].to_numpy() for name in "abc"}
    return {
        "frame": TABLE,
        "dictionary": dictionary,
        "group": group,
        "path": str(folder / "t.zarr"),
        "file": folder / "t.csv",
    }


@pytest.mark.parametrize("form", ["frame", "dictionary", "group", "path", "file"])
def test_two_sample__takes_columns_of_data(tmp_path, form):
    data = forms(tmp_path)[form]
    found = dhsic.two_sample_test("a", "c", data=data, rng=0)
    assert [one.name for one in found.samples] == ["a", "c"]
    assert found.pvalue == dhsic.two_sample_test(A, OTHER, rng=0).pvalue
    assert dhsic.plan_two_sample("a", "c", data=data, threads=1).n == 2 * ROWS
    named = dhsic.two_sample_test("a", "c", data=data, names=["old", "new"], rng=0)
    assert [one.name for one in named.samples] == ["old", "new"]


@pytest.mark.parametrize("kind", ["memory", "graph", "storage"])
def test_two_sample__drops_rows_of_every_sample(kind):
    samples = [GAPPED[name].to_numpy() for name in ("a", "b")]
    if kind == "graph":
        samples = [da.from_array(one, chunks=17) for one in samples]
    if kind == "storage":
        samples = [zarr.array(one, chunks=(17,)) for one in samples]
    found = dhsic.two_sample_test(*samples, missing="drop", rng=0)
    left = [GAPPED[name].dropna().to_numpy() for name in ("a", "b")]
    expected = dhsic.two_sample_test(*left, rng=0)
    assert (found.pvalue, found.dropped) == (expected.pvalue, 5)
    assert [one.n for one in found.samples] == [ROWS - 2, ROWS - 3]
    with pytest.raises(DataError, match="missing='drop'"):
        dhsic.two_sample_test(*samples, rng=0)


@pytest.mark.parametrize(
    ("samples", "options", "told"),
    [
        (("a",), {"data": TABLE}, "at least two samples, got 1: name two columns"),
        ((), {"data": TABLE}, "at least two samples, got 0: name two columns"),
        (("a", "d"), {"data": TABLE}, "no column 'd'; there are: a, b, c, g"),
        ((A, B), {"data": TABLE}, "leave out data= to pass arrays"),
        ((A, B), {"missing": "omit"}, "missing must be one of 'refuse', 'drop'"),
    ],
)
def test_two_sample__refuses(samples, options, told):
    with pytest.raises(InvalidArgumentError, match=told):
        dhsic.two_sample_test(*samples, **options)


# Few rows, of which the conditional test warns.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

FUNCTIONS = {
    "direction": (causal.direction, {}),
    "dags": (causal.score_dags, {}),
    "search": (causal.search_dag, {}),
    "residuals": (causal.residual_independence_test, {"given": "c"}),
    "conditional": (dhsic.conditional_independence_test, {"given": "c"}),
}


def plain(found):
    """What a result says, besides how long it took."""
    said = json.loads(found.to_json())
    return {key: said[key] for key in said if key not in ("seconds", "passes", "data")}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("form", ["frame", "dictionary", "group", "path", "file"])
def test_causal__takes_columns_of_data(tmp_path, form, name):
    function, options = FUNCTIONS[name]
    found = function("a", "b", data=forms(tmp_path)[form], rng=0, **options)
    arrays = {"given": OTHER} if options else {}
    names = ["a", "b", "c"][: 2 + len(options)]
    assert plain(found) == plain(function(A, B, names=names, rng=0, **arrays))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_causal__drops_rows_and_counts_them(name):
    function, options = FUNCTIONS[name]
    found = function("a", "b", data=GAPPED, missing="drop", rng=0, **options)
    expected = function("a", "b", data=WHOLE, rng=0, **options)
    assert (found.n, found.dropped) == (ROWS - 4, 4)
    assert plain(found) == {**plain(expected), "dropped": 4}
    assert "4 with missing values left out" in str(found)
    with pytest.raises(DataError, match="missing='drop'"):
        function("a", "b", data=GAPPED, rng=0, **options)


def test_residuals__take_a_list_of_names():
    found = causal.residual_independence_test("a", "b", given=["c"], data=TABLE, rng=0)
    assert found.given == ("c",)


def test_directions__names_pairs_of_columns():
    found = causal.directions([("a", "b"), ("b", "a")], data=TABLE, criterion="hsic", rng=0)
    assert [one.names for one in found.results] == [("a", "b"), ("b", "a")]


def test_table__alone_is_its_columns():
    assert causal.score_dags(data=TABLE[["a", "b"]], rng=0).names == ("a", "b")
    assert causal.search_dag(TABLE[["a", "b", "c"]], rng=0).names == ("a", "b", "c")


def test_labels__have_no_residuals():
    with pytest.raises(DataError, match="'g' holds categories: give an indicator of each"):
        causal.score_dags("a", "g", data=TABLE)
