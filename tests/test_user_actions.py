"""What users do, and what they get: the right answer, or an error whose text names the remedy."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import xarray as xr
import zarr
from click.testing import CliRunner

import dhsic
from dhsic import causal
from dhsic.cli import main
from dhsic.errors import DhsicError

ROWS = 60
RNG = np.random.default_rng(0)
X, Y, Z = RNG.standard_normal((3, ROWS))
MATRIX = RNG.standard_normal((ROWS, 3))
WORDS = RNG.choice(["u", "v"], ROWS)
GAPPED = np.where(np.arange(ROWS) == 3, np.nan, X)
TABLE = pd.DataFrame({"a": X, "b": Y, "g": WORDS})
DAYS = pd.date_range("2020", periods=ROWS)
HERE = {"r": np.arange(ROWS)}
THERE = {"r": np.arange(ROWS)[::-1]}
PVALUE = dhsic.independence_test(X, Y, rng=0).pvalue


class Gets(NamedTuple):
    """An answer."""

    value: Any


class Told(NamedTuple):
    """An error of dhsic, by a pattern of its text."""

    remedy: str


def test(*variables: Any, **options: Any) -> dhsic.IndependenceTestResult:
    return dhsic.independence_test(*variables, rng=0, **options)


test.__test__ = False


def pvalue(*variables: Any, **options: Any) -> float:
    return test(*variables, **options).pvalue


def kernels(*variables: Any, **options: Any) -> list[str]:
    """Those of labels, and whether others are of numbers or of both."""
    found = [one.kernel for one in test(*variables, **options).variables]
    kinds = {one: "both" if "*delta@" in one else "numbers" for one in found}
    return [one if one == "delta" else kinds[one] for one in found]


def names(*variables: Any, **options: Any) -> list[str]:
    return [one.name for one in test(*variables, **options).variables]


def torch_pvalue() -> float:
    torch = pytest.importorskip("torch")
    return pvalue(torch.from_numpy(X), torch.from_numpy(Y))


def aligned() -> float:
    x, y = xr.DataArray(X, HERE, ["r"]), xr.DataArray(Y[::-1], THERE, ["r"])
    return pvalue(*xr.align(x, y.sortby("r")))


ACTIONS: dict[str, tuple[Callable[[], Any], Gets | Told]] = {
    # What the values are
    "a pandas Categorical": (
        lambda: kernels(X, pd.Categorical(WORDS)),
        Gets(["numbers", "delta"]),
    ),
    "intervals of pandas.cut": (
        lambda: kernels(Y, pd.cut(X, 4)),
        Gets(["numbers", "delta"]),
    ),
    "a categorical Series": (
        lambda: kernels(X, pd.Series(WORDS).astype("category")),
        Gets(["numbers", "delta"]),
    ),
    "a list of strings": (lambda: kernels(X, WORDS.tolist()), Gets(["numbers", "delta"])),
    "an array of strings": (lambda: kernels(X, WORDS), Gets(["numbers", "delta"])),
    "booleans": (lambda: kernels(X, Y > 0), Gets(["numbers", "delta"])),
    "objects that are booleans": (
        lambda: kernels(X, (Y > 0).astype(object)),
        Gets(["numbers", "delta"]),
    ),
    "numbers and labels in one frame": (
        lambda: kernels(Y, TABLE[["a", "g"]]),
        Gets(["numbers", "both"]),
    ),
    "text beside numbers": (
        lambda: test(X, [1, "a"] * 30),
        Told("text beside numbers.*to_numeric"),
    ),
    "prices": (
        lambda: test(X, ["1,200", "1,300"] * 30),
        Told("as '1,200': make numbers of them.*str.replace"),
    ),
    "prices in dollars": (
        lambda: test(X, ["$3", "$4"] * 30),
        Told("as '\\$3': make numbers.*str.replace"),
    ),
    "percents": (lambda: test(X, ["3%", "4%"] * 30), Told("'3%'.*or a categorical column if")),
    "numbers as text with a stray word": (
        lambda: test(X, [*map(str, range(ROWS - 1)), "abc"]),
        Told("beside 'abc': make numbers of them"),
    ),
    "text that is one whole number or another": (
        lambda: kernels(X, ["1", "2"] * 30),
        Gets(["numbers", "delta"]),
    ),
    "names of rows": (
        lambda: test(X, [f"id{row}" for row in range(ROWS)]),
        Told("another label in every row.*leave it out"),
    ),
    "dates": (lambda: test(DAYS, Y), Told("turn times into numbers, as days since the first")),
    "dates of the standard library": (
        lambda: test([datetime.date(2020, 1, 1)] * ROWS, Y),
        Told("got date: turn times into numbers"),
    ),
    "durations": (lambda: test(DAYS - DAYS[0], Y), Told("turn durations into numbers")),
    "complex numbers": (lambda: test(X + 1j, Y), Told("use its real and imaginary parts")),
    "decimals": (lambda: pvalue([Decimal(one) for one in X], Y), Gets(PVALUE)),
    "objects that are numbers": (lambda: pvalue(X.astype(object), Y), Gets(PVALUE)),
    "a record array": (
        lambda: test(np.zeros(ROWS, [("a", "f8")]), Y),
        Told("choose one of its fields"),
    ),
    # What holds them
    "lists": (lambda: pvalue(X.tolist(), Y.tolist()), Gets(PVALUE)),
    "a range": (lambda: pvalue(range(ROWS), Y), Gets(pvalue(np.arange(ROWS), Y))),
    "a generator": (lambda: test((one for one in X), Y), Told("call list\\(\\) on it")),
    "polars": (lambda: pvalue(pl.Series("a", X), pl.Series("b", Y)), Gets(PVALUE)),
    "a lazy frame of polars": (
        lambda: test("a", "b", data=pl.DataFrame({"a": X, "b": Y}).lazy()),
        Told("call .collect\\(\\) on it first"),
    ),
    "pyarrow": (lambda: pvalue(pa.array(X), pa.chunked_array([Y])), Gets(PVALUE)),
    "torch": (torch_pvalue, Gets(PVALUE)),
    "a sparse matrix": (
        lambda: pvalue(sp.csr_matrix(MATRIX), Y),
        Gets(pvalue(MATRIX, Y)),
    ),
    "a sparse array of coordinates": (
        lambda: pvalue(sp.coo_array(MATRIX), Y),
        Gets(pvalue(MATRIX, Y)),
    ),
    "Dask": (lambda: pvalue(da.from_array(X, chunks=20), Y), Gets(PVALUE)),
    "Dask of unknown chunks": (
        lambda: test(da.from_array(X)[da.from_array(X) > -9.0], Y),
        Told("call .compute_chunk_sizes\\(\\)"),
    ),
    "a zarr array": (lambda: pvalue(zarr.array(X), zarr.array(Y)), Gets(PVALUE)),
    "a memory view": (lambda: pvalue(memoryview(X), Y), Gets(PVALUE)),
    "a matrix alone": (lambda: names(MATRIX), Gets(["x1", "x2", "x3"])),
    "a data frame alone": (lambda: names(TABLE), Gets(["a", "b", "g"])),
    "a Dataset alone": (
        lambda: names(xr.Dataset({"a": ("r", X), "b": ("r", Y)})),
        Gets(["a", "b"]),
    ),
    "a dictionary alone": (lambda: names({"a": X, "b": Y}), Gets(["a", "b"])),
    "a list of two arrays": (lambda: test([X, Y]), Told("pass variables one by one")),
    "rows in place of columns": (lambda: test(X[None, :], Y[None, :]), Told("or transpose them")),
    "one vector": (lambda: test(X), Told("at least two variables, got 1: give another")),
    "nothing": (lambda: test(None, Y), Told("got NoneType")),
    "vectors of other lengths": (lambda: test(X[1:], Y), Told("same rows.*'x1' 59, 'x2' 60")),
    "three dimensions": (
        lambda: test(np.zeros((ROWS, 2, 2)), Y),
        Told("shape \\(n,\\) or \\(n, d\\)"),
    ),
    "a constant": (lambda: test(np.ones(ROWS), Y), Told("is constant.*leave it out")),
    "a path that is not there": (lambda: test("no.zarr", Y), Told("check the path")),
    # What they are called
    "names of Series": (
        lambda: names(pd.Series(X, name="height"), pd.Series(Y, name="weight")),
        Gets(["height", "weight"]),
    ),
    "names in an array": (lambda: names(X, Y, names=np.array(["a", "b"])), Gets(["a", "b"])),
    "names in an Index": (lambda: names(X, Y, names=TABLE.columns[:2]), Gets(["a", "b"])),
    "names in one word": (lambda: test(X, Y, names="ab"), Told("sequence of words.*give a list")),
    "columns by name": (lambda: pvalue("a", "b", data=TABLE), Gets(PVALUE)),
    "columns by name without the table": (lambda: test("a", "b"), Told("as data=table")),
    "a column that is not there": (lambda: test("a", "bb", data=TABLE), Told("did you mean 'b'")),
    "an array for data": (lambda: test("a", "b", data=MATRIX), Told("leave it out to pass arrays")),
    "rows with other labels": (
        lambda: test(xr.DataArray(X, HERE, ["r"]), xr.DataArray(Y, THERE, ["r"])),
        Told("not in the same order. Align them.*xarray.align"),
    ),
    "rows that were aligned": (aligned, Gets(PVALUE)),
    "pandas with other indices": (
        lambda: test(TABLE["a"], TABLE["b"].iloc[::-1]),
        Told("pandas.concat.*reset_index"),
    ),
    # What is missing
    "a missing value": (lambda: test(GAPPED, Y), Told("first in row 3.*missing='drop'")),
    "a missing value to be dropped": (lambda: test(GAPPED, Y, missing="drop").dropped, Gets(1)),
    "None in a list": (lambda: test([None, *X[1:]], Y), Told("first in row 0.*missing='drop'")),
    "a missing label": (
        lambda: test([None, *WORDS[1:]], Y),
        Told("missing values in 1 rows.*drop"),
    ),
    "masked values": (lambda: test(np.ma.masked_array(X, X > 1), Y), Told("fill them with NaN")),
    "another word for it": (lambda: test(X, Y, missing="omit"), Told("'refuse', 'drop'")),
    # What the arguments are called elsewhere
    **{
        f"{name}=": (
            lambda name=name: dhsic.independence_test(X, Y, **{name: 1}),
            Told(f"did you mean '{meant}'"),
        )
        for name, meant in {
            "seed": "rng",
            "random_state": "rng",
            "kernel": "kernels",
            "n_perm": "n_resamples",
            "n_jobs": "threads",
            "verbose": "progress",
        }.items()
    },
    "x= and y=": (lambda: dhsic.independence_test(x=X, y=Y), Told("given by position")),
    "an argument that is needed": (
        lambda: causal.residual_independence_test(X, Y),
        Told("missing a required argument: 'given'"),
    ),
    # What they are
    "n_resamples as text": (
        lambda: test(X, Y, n_resamples="10"),
        Told("an integer >= 1, got '10'"),
    ),
    "n_resamples of a value": (lambda: dhsic.Permutation("10"), Told("an integer >= 1, got '10'")),
    "precision as an array": (
        lambda: test(X, Y, precision=X),
        Told("'float64', 'float32', got an nd"),
    ),
    "missing as an array": (
        lambda: test(X, Y, missing=X),
        Told("'refuse', 'drop', 'pairwise', got an ndarray"),
    ),
    "by as an array": (
        lambda: dhsic.rank_features(MATRIX, Y, by=X),
        Told("'pvalue'.*got an ndarray"),
    ),
    "of as an array": (
        lambda: dhsic.sensitivity_map(X, Y, of=X),
        Told("'statistic'.*got an ndarray"),
    ),
    "method as an array": (
        lambda: dhsic.select_features(MATRIX, Y, 1, method=X),
        Told("'forward'.*got an ndarray of shape \\(60,\\)"),
    ),
    "landmarks as an array": (
        lambda: dhsic.NystromMHSIC(n_landmarks=X),
        Told("'8sqrt', got an nd"),
    ),
    "null as an array": (lambda: test(X, Y, null=X), Told("null must be a name.*got an ndarray")),
    "estimator as a class": (lambda: test(X, Y, estimator=dhsic.VHSIC), Told("write VHSIC\\(\\)")),
    "null as a class": (
        lambda: test(X, Y, null=dhsic.Permutation),
        Told("write Permutation\\(\\)"),
    ),
    "kernel as a class": (
        lambda: test(X, Y, kernels=dhsic.kernels.Gaussian),
        Told("write Gaussian\\(\\)"),
    ),
    "a name of a null that is nearly right": (
        lambda: test(X, Y, null="perm", estimator="nystrom-m"),
        Told("'perm' is not available for nystrom-m; choose auto, shifts, permutation"),
    ),
    "a name of a kernel from elsewhere": (
        lambda: test(X, Y, kernels="rbf"),
        Told("write 'gaussian', for instance"),
    ),
    "a kernel of ranks misspelt": (
        lambda: test(X, Y, kernels="rank(gaussian)"),
        Told("did you mean 'ranks\\(gaussian\\)'"),
    ),
    "a kernel for numbers within 0 and 1": (
        lambda: test(X, Y, kernels="anderson-darling"),
        Told("within 0 and 1; got -[0-9.]+ to [0-9.]+: take 'ranks\\(anderson-darling\\)'"),
    ),
    "the same for such numbers": (
        lambda: pvalue(X, np.arctan(Y) / 9 + 0.5, kernels=["gaussian", "anderson-darling"]) < 1,
        Gets(True),
    ),
    "an estimator misspelt": (
        lambda: test(X, Y, estimator="nystrom_m"),
        Told("did you mean 'nystrom-m'"),
    ),
    "memory in words": (lambda: test(X, Y, memory="lots"), Told("such as '2GiB'")),
    "a SeedSequence": (
        lambda: dhsic.independence_test(X, Y, rng=np.random.SeedSequence(1)).n,
        Gets(ROWS),
    ),
    "a seed of a float": (lambda: dhsic.independence_test(X, Y, rng=1.0), Told("an integer >= 0")),
    "embeddings of arrays": (
        lambda: dhsic.mmd(X, Y),
        Told("by mean_embedding, or .*two_sample_test"),
    ),
    # Files and stores
    "a file that is no table": (
        lambda: dhsic.independence_test("a", "b", data=__file__),
        Told("name is not that of a table: give a CSV.*or read it in Python"),
    ),
    "a report in a folder": (lambda: test(X, Y).report("."), Told("cannot write .*Is a directory")),
    "arrays that are not read yet as one variable": (
        lambda: test("a", ["a", "b"], data=xr.Dataset({"a": ("r", X), "b": ("r", Y)}).chunk()),
        Told("read them first, as by .load\\(\\) of xarray, pass each"),
    ),
    "several arrays of a zarr group as one variable": (
        lambda: dhsic.independence_test("a", ["a", "b"], data=zarr.create_group({})),
        Told("store several arrays as one, \\(n, d\\), or.*pass a dictionary of arrays"),
    ),
    "an address for a client": (lambda: test(X, Y, client="tcp://a:1"), Told("distributed.Client")),
}


def test_actions__are_eighty_or_more():
    assert len(ACTIONS) >= 80


@pytest.mark.parametrize("name", ACTIONS)
def test_action__gets_its_answer_or_its_remedy(name):
    action, expected = ACTIONS[name]
    if isinstance(expected, Gets):
        assert action() == expected.value
        return
    with pytest.raises(DhsicError, match=f"(?s){expected.remedy}") as caught:
        action()
    assert len(str(caught.value)) < 500


def test_checkpoint__is_a_path_too(tmp_path):
    folder = tmp_path / "kept"
    assert pvalue(X, Y, checkpoint=folder) == pvalue(X, Y, checkpoint=folder) == PVALUE
    assert any(folder.iterdir())


@pytest.mark.parametrize("option", ["--json", "--report"])
def test_file__that_is_there_stays(tmp_path, option):
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    kept = tmp_path / "kept"
    kept.write_text("mine")
    words = [
        "test",
        str(tmp_path / "t.csv"),
        "--variable",
        "a",
        "--variable",
        "b",
        option,
        str(kept),
    ]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "exists: give another name, or --overwrite to replace it" in done.stderr
    assert kept.read_text() == "mine"
    assert CliRunner().invoke(main, [*words, "--overwrite"]).exit_code == 0
    assert kept.read_text() != "mine"
