"""Missing values as stores mark them: every mark at every door, treated as NaN are."""

from functools import cache

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
PACKED = {"scale_factor": 0.25, "add_offset": 100.0}
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
    "packed fill": ("i2", -32768, {"_FillValue": -32768, **PACKED}),
    "packed range": ("i2", 101, {"valid_range": [0, 100], **PACKED}),
    "range of unpacked": ("i2", 101, {"valid_range": [100.0, 125.0], **PACKED}),
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
    for name, form, options in (("g2", 2, {}), ("g3", 3, {}), ("shards", 3, {"shards": (20,)})):
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


def of_xarray(*, chunks=None, loaded=False, decoded=False):
    def opened(folder, mark):
        data = xr.open_zarr(
            folder / "x",
            chunks=chunks,
            mask_and_scale=decoded,
            decode_times=False,
            consolidated=False,
            drop_variables=[other for other in MARKS if other != mark],
        )
        return ((mark, "y"), {"data": data.load()}) if loaded else ((data[mark], OTHER), {})

    return opened


# Arguments of a test, by the door through which the data come.
DOORS = {
    "names of a group, format 2": names_of("g2"),
    "names of a group, format 3": names_of("g3"),
    "names of a group of shards": names_of("shards"),
    "names of a group, fill values": names_of("f2"),
    "group": lambda f, m: ((m, "y"), {"data": zarr.open_group(f / "g3", mode="r")}),
    "arrays": lambda f, m: ((zarr.open_array(f / "f2" / m), zarr.open_array(f / "g2" / "y")), {}),
    "stored array": lambda f, m: ((dhsic.stored_array(f / "shards" / m), OTHER), {}),
    "names of a Dataset": of_xarray(loaded=True),
    "xarray, not read": of_xarray(),
    "xarray of Dask": of_xarray(chunks={"t": 20}),
    "xarray, decoded": of_xarray(chunks={"t": 20}, decoded=True),
}
# Which xarray itself does not find when it decodes.
LEFT_BY_XARRAY = {
    *("narrow fill", "several missing values", "text", "beside NaN", "least valid", "falling"),
    *("range of unpacked", "packed floats", "unsigned range", "unsigned fill"),
}
CELLS = [
    (mark, door, i + j)
    for i, mark in enumerate(MARKS)
    for j, door in enumerate(DOORS)
    if not (door.endswith("decoded") and mark in LEFT_BY_XARRAY)
]


@cache
def estimate_of(mark, treatment):
    values = meant(mark)
    if treatment == "drop":
        return dhsic.hsic(values[KEPT], OTHER[KEPT], **QUICK).estimate
    return dhsic.hsic(values, OTHER, missing="pairwise", **QUICK).estimate


@pytest.mark.parametrize(("mark", "door", "number"), CELLS)
def test_marks__are_missing_values_at_every_door(mark, door, number, folder):
    variables, options = DOORS[door](folder, mark)
    treatment = ("refuse", "drop", "pairwise")[number % 3]
    if treatment == "refuse":
        with pytest.raises(DataError, match=f"first in row {GAPS[0]}") as caught:
            dhsic.hsic(*variables, **options, **QUICK)
        marking = [key for key in MARKS[mark][2] if key[:5] in ("_Fill", "missi", "valid", "units")]
        assert door.endswith("decoded") or all(f"{key} " in str(caught.value) for key in marking)
        return
    found = dhsic.hsic(*variables, **options, missing=treatment, **QUICK)
    assert found.estimate == pytest.approx(estimate_of(mark, treatment), rel=1e-5)
    assert (found.n, found.dropped) == ((56, 4) if treatment == "drop" else (60, 0))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_fill_value__of_a_plain_array_is_no_mark(zarr_format):
    x = (VALUES > 50).astype(float)
    made = zarr.create_array({}, data=x, fill_value=0.0, zarr_format=zarr_format, chunks=(N,))
    assert dhsic.hsic(made, OTHER, **QUICK).estimate == dhsic.hsic(x, OTHER, **QUICK).estimate


def test_fill_value__that_marks_makes_gaps_of_absent_chunks(tmp_path):
    array = zarr.create_array(
        tmp_path / "x.zarr",
        shape=(N,),
        chunks=(10,),
        dtype="f8",
        fill_value=-9999.0,
        zarr_format=2,
        attributes={"_ARRAY_DIMENSIONS": ["t"]},
    )
    array[:30] = VALUES[:30]  # xarray leaves out chunks of gaps alone
    with pytest.raises(DataError, match="first in row 30"):
        dhsic.hsic(array, OTHER, **QUICK)
    assert dhsic.hsic(array, OTHER, missing="drop", **QUICK).dropped == 30


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("_FillValue", "none"),
        ("_FillValue", {"value": 1}),
        ("missing_value", []),
        ("missing_value", [1, None]),
        ("valid_range", [1, 2, 3]),
        ("valid_min", [0, 1]),
        ("valid_max", "much"),
        ("scale_factor", 0),
        ("scale_factor", [1.0, 2.0]),
        ("add_offset", float("nan")),
    ],
)
def test_attribute__that_says_nothing_of_numbers_is_refused(key, value, tmp_path):
    stored = zarr.create_array(tmp_path / "x.zarr", data=VALUES, attributes={key: value})
    for x in (stored, xr.DataArray(VALUES, dims="t", attrs={key: value})):
        with pytest.raises(DataError, match=f"attribute '{key}' of variable 'x.*' must hold"):
            dhsic.hsic(x, OTHER, **QUICK)


@pytest.mark.parametrize("fill", [-999, 300, 1e300, 0.5])
def test_fill_value__that_the_type_cannot_hold_marks_nothing(fill):
    array = zarr.create_array({}, data=VALUES.astype("u1"), attributes={"_FillValue": fill})
    assert dhsic.hsic(array, OTHER, **QUICK).estimate == dhsic.hsic(VALUES, OTHER, **QUICK).estimate


def test_whole_numbers__lose_no_digits_for_a_mark():
    array = zarr.create_array({}, data=2**53 + np.arange(N), attributes={"_FillValue": -1})
    with pytest.raises(DataError, match=r"integers beyond 2\*\*53"):
        dhsic.hsic(array, OTHER, **QUICK)


@pytest.mark.parametrize("door", ["xarray", "zarr"])
def test_flags__are_categories(door):
    flags = np.where(VALUES > 50, 4, 1).astype("i1")
    attributes = {"flag_values": [1, 4], "flag_meanings": "land sea"}
    if door == "xarray":
        x = xr.DataArray(flags, dims="t", attrs=attributes)
    else:
        x = zarr.create_array({}, data=flags, attributes=attributes)
    labels = np.where(flags == 4, "sea", "land")
    assert dhsic.hsic(x, OTHER, rng=0).estimate == dhsic.hsic(labels, OTHER, rng=0).estimate


def test_checkpoint__of_other_marks_is_refused(tmp_path):
    rows = np.arange(20_000.0)  # of which a checkpoint knows a few
    options = {"rng": 0, "checkpoint": str(tmp_path / "kept"), "kernels": "gaussian"}
    group = zarr.create_group(tmp_path / "g.zarr")
    for name in "xy":
        group.create_array(name, data=rows, chunks=(1000,), attributes={"_FillValue": 4321.0})
    options |= {"missing": "drop", "data": tmp_path / "g.zarr"}
    dhsic.hsic("x", "y", **options)
    for name in "xy":
        group[name].attrs["_FillValue"] = 4322.0
    with pytest.raises(dhsic.errors.DhsicError, match="marks"):
        dhsic.hsic("x", "y", **options)
