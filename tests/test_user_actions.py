"""What users pass, and the answers that they get; what is refused is in `test_refusals.py`."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import dhsic

ROWS = 60
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((2, ROWS))
MATRIX = RNG.standard_normal((ROWS, 3))
WORDS = RNG.choice(["u", "v"], ROWS)
TABLE = pd.DataFrame({"a": X, "b": Y, "g": WORDS})


def pvalue(*variables, **options):
    return dhsic.independence_test(*variables, rng=0, **options).pvalue


PVALUE = pvalue(X, Y)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", ">i4", "i8", "f2", "f4", ">f8"])
def test_numbers__have_one_pvalue_in_every_type_that_holds_them(dtype):
    """Their squares and sums need not fit the type."""
    whole = np.round(30.0 * np.abs(X))
    for form in (np.asarray, zarr.array, lambda x: da.from_array(x, chunks=20)):
        assert pvalue(form(whole.astype(dtype)), Y) == pvalue(whole, Y)


@pytest.mark.parametrize(
    ("variables", "options", "names"),
    [
        ((MATRIX,), {}, ["x1", "x2", "x3"]),
        ((TABLE,), {}, ["a", "b", "g"]),
        (({"a": X, "b": Y},), {}, ["a", "b"]),
        ((xr.Dataset({"a": ("r", X), "b": ("r", Y)}),), {}, ["a", "b"]),
        ((pd.Series(X, name="height"), pd.Series(Y, name="weight")), {}, ["height", "weight"]),
        ((X, Y), {"names": np.array(["a", "b"])}, ["a", "b"]),
        ((X, Y), {"names": TABLE.columns[:2]}, ["a", "b"]),
    ],
)
def test_variables__are_called_as_their_columns_are(variables, options, names):
    found = dhsic.independence_test(*variables, rng=0, **options)
    assert [one.name for one in found.variables] == names


@pytest.mark.parametrize(
    "rng",
    [
        *(3, np.int64(3), [3, 4], np.random.SeedSequence(3), np.random.PCG64(3)),
        np.random.default_rng(3),
    ],
    ids=lambda rng: type(rng).__name__,
)
def test_rng__is_what_numpy_takes(rng):
    made = {np.random.PCG64: np.random.PCG64, np.random.Generator: np.random.default_rng}
    again = made[type(rng)](3) if type(rng) in made else rng
    first, second = (
        dhsic.independence_test(X, Y, rng=one, null="permutation", n_resamples=20)
        for one in (rng, again)
    )
    assert (first.seed, first.pvalue) == (second.seed, second.pvalue)


def test_checkpoint__is_a_path_or_its_text(tmp_path):
    folder = tmp_path / "kept"
    assert pvalue(X, Y, checkpoint=folder) == pvalue(X, Y, checkpoint=str(folder)) == PVALUE
    assert any(folder.iterdir())


def test_labels_of_a_group__are_arrays_of_it_which_are_crossed(tmp_path):
    group = zarr.create_group(tmp_path / "data.zarr")
    for name, values in {"x": X, "y": Y, "a": np.arange(60) % 3}.items():
        group.create_array(name, data=values)
    options = {"data": tmp_path / "data.zarr", "rng": 0}
    found = dhsic.independence_test("x", "y", strata="a", **options)
    assert found.pvalue == pvalue(X, Y, strata=np.arange(60) % 3)
    again = dhsic.independence_test("x", "y", strata=["a", "a"], **options)
    assert again.pvalue == found.pvalue
