"""Missing values as stores and masks mark them: every mark, by every door, in every treatment."""

from functools import cache

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr

import dhsic
from dhsic.errors import DataError

N = 60
GAPS = np.array([7, 8, 31, 59])
RNG = np.random.default_rng(0)
VALUES = np.round(RNG.uniform(0, 100, N))  # whole, so that all types hold them
VALUES[[0, 1]] = 0.0, 100.0  # the limits themselves are there
OTHER = VALUES + RNG.normal(0, 20, N)
KEPT = np.delete(np.arange(N), GAPS)
QUICK = {"kernels": "gaussian", "rng": 0}

# Type of the stored values, what stands in the place of gaps, and attributes; where values are
# packed, they are 100 + value / 4.
MARKS = {
    "fill": ("f8", -9999.0, {"_FillValue": -9999.0}),
    "narrow fill": ("f4", np.float32(1e20), {"_FillValue": 1e20}),
    "whole fill": ("i2", -999, {"_FillValue": -999}),
    "unsigned fill": ("u1", 255, {"_FillValue": 255}),
    "missing value": ("f8", -1e34, {"missing_value": -1e34}),
    "several missing values": ("i4", -8, {"missing_value": [-9, -8]}),
    "text": ("f8", -9999.0, {"missing_value": "-9999"}),
    "beside NaN": ("f8", -99.0, {"_FillValue": np.nan, "missing_value": -99.0}),
    "valid range": ("f8", 101.0, {"valid_range": [0.0, 100.0]}),
    "whole valid range": ("i2", -1, {"valid_range": [0, 100]}),
    "least valid": ("f4", -0.5, {"valid_min": 0.0}),
    "most valid": ("i8", 101, {"valid_max": 100}),
    "packed fill": (
        "i2",
        -32768,
        {"_FillValue": -32768, "scale_factor": 0.25, "add_offset": 100.0},
    ),
    "packed range": ("i2", 101, {"valid_range": [0, 100], "scale_factor": 0.25, "add_offset": 100}),
    "range of unpacked": (
        "i2",
        101,
        {"valid_range": [100.0, 125.0], "scale_factor": 0.25, "add_offset": 100.0},
    ),
    "falling": ("i2", 101, {"valid_max": 100, "scale_factor": -0.25, "add_offset": [100.0]}),
    "packed floats": ("f4", -1.0, {"missing_value": -1.0, "scale_factor": 0.25}),
    "unsigned bytes": ("i1", -1, {"_Unsigned": "true", "_FillValue": -1}),
    "unsigned range": ("i1", -56, {"_Unsigned": "true", "valid_range": [0, -57]}),
    "times": ("i8", -(2**63), {"units": "days since 1970-01-01"}),
}


def stored_values(mark):
    dtype, gap, attributes = MARKS[mark]
    packed = VALUES.astype(dtype)
    packed[GAPS] = gap
    return packed, attributes


def meant(mark):
    """The values that are meant, NaN where there is none."""
    _, _, attributes = MARKS[mark]
    offset = np.ravel(attributes.get("add_offset", 0.0))[0]
    values = VALUES * attributes.get("scale_factor", 1.0) + offset
    values[GAPS] = np.nan
    return values


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Groups with an array for every mark, and one that has no gaps."""
    made = tmp_path_factory.mktemp("marks")
    plain = {"y": xr.Variable("t", OTHER)}
    for name, form, options in (
        ("g2", 2, {}),
        ("g3", 3, {}),
        ("shards", 3, {"shards": (20,)}),
    ):
        group = zarr.create_group(made / name, zarr_format=form)
        group.create_array("y", data=OTHER, chunks=(10,))
        for mark in MARKS:
            packed, attributes = stored_values(mark)
            group.create_array(mark, data=packed, chunks=(10,), attributes=attributes, **options)
    # As xarray writes format 2: the mark is the fill value of the array.
    group = zarr.create_group(made / "f2", zarr_format=2)
    group.create_array("y", data=OTHER)
    for mark in MARKS:
        packed, attributes = stored_values(mark)
        others = {key: value for key, value in attributes.items() if key != "_FillValue"}
        array = group.create_array(
            mark,
            shape=(N,),
            chunks=(10,),
            dtype=packed.dtype,
            fill_value=attributes.get("_FillValue"),
            attributes=others | {"_ARRAY_DIMENSIONS": ["t"]},
        )
        array[:] = packed
        plain[mark] = xr.Variable("t", packed, attributes)
    chunks = {name: {"chunks": (10,)} for name in plain}
    xr.Dataset(plain).to_zarr(made / "x", zarr_format=3, consolidated=False, encoding=chunks)
    return made


def names_of(place):
    return lambda folder, mark: ((mark, "y"), {"data": str(folder / place)})


def of_xarray(*, loaded=False, chunks=None, decoded=False, named=False):
    def opened(folder, mark):
        data = xr.open_zarr(
            folder / "x",
            chunks=chunks,
            mask_and_scale=decoded,
            decode_times=False,
            consolidated=False,
            drop_variables=[other for other in MARKS if other != mark],
        )
        data = data.load() if loaded else data
        return ((mark, "y"), {"data": data}) if named else ((data[mark], OTHER), {})

    return opened


# Arguments of a test, by the door through which the data come.
DOORS = {
    "names of a group, format 2": names_of("g2"),
    "names of a group, format 3": names_of("g3"),
    "names of a group of shards": names_of("shards"),
    "names of a group, fill values": names_of("f2"),
    "group": lambda f, m: ((m, "y"), {"data": zarr.open_group(f / "g3", mode="r")}),
    "paths": lambda f, m: ((f / "g2" / m, f / "g2" / "y"), {}),
    "arrays": lambda f, m: ((zarr.open_array(f / "f2" / m), zarr.open_array(f / "g2" / "y")), {}),
    "stored array": lambda f, m: ((dhsic.stored_array(f / "shards" / m), OTHER), {}),
    "xarray": of_xarray(loaded=True),
    "xarray, names": of_xarray(loaded=True, named=True),
    "xarray, not read": of_xarray(),
    "xarray of Dask": of_xarray(chunks={"t": 20}),
    "xarray, decoded": of_xarray(loaded=True, decoded=True),
    "xarray of Dask, decoded": of_xarray(chunks={"t": 20}, decoded=True),
}
# xarray itself does not know the mark, and warns of another.
NOT_DECODED = ("narrow fill", "text", "several missing values", "unsigned range")


@cache
def estimates_of(mark):
    """Without the rows that have gaps, and pairwise."""
    values = meant(mark)
    return (
        dhsic.hsic(values[KEPT], OTHER[KEPT], **QUICK).estimate,
        dhsic.hsic(values, OTHER, missing="pairwise", **QUICK).estimate,
    )


def checked(variables, options, mark):
    """All three treatments; returns the message of the refusal."""
    said = f"first in row {GAPS[0]}"
    with pytest.raises(DataError, match=said) as caught:
        dhsic.hsic(*variables, **options, **QUICK)
    dropped = dhsic.hsic(*variables, **options, missing="drop", **QUICK)
    assert (dropped.n, dropped.dropped) == (len(KEPT), len(GAPS))
    expected = estimates_of(mark)
    assert dropped.estimate == pytest.approx(expected[0], rel=1e-5)
    pairwise = dhsic.hsic(*variables, **options, missing="pairwise", **QUICK)
    assert pairwise.estimate == pytest.approx(expected[1], rel=1e-5)
    return str(caught.value)


# 20 marks, 14 doors and 3 treatments, but 4 marks that xarray does not decode: 816 cells.
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("mark", MARKS)
def test_marks__are_missing_values_by_every_door(mark, door, folder):
    decoded = door.endswith("decoded")
    if decoded and mark in NOT_DECODED:
        return
    variables, options = DOORS[door](folder, mark)
    said = checked(variables, options, mark)
    marking = [key for key in MARKS[mark][2] if key[:5] in ("_Fill", "missi", "valid", "units")]
    assert decoded or all(f"{key} " in said for key in marking)
