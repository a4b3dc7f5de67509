"""Values that a store or a mask marks as missing, and packed values unpacked.

Attributes are those of the conventions for climate and forecasts, sections 2.5.1 and 8.1 of
https://cfconventions.org, as netCDF, GDAL and xarray write them.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import shown
from dhsic.engine.passes import check_exact, is_exact
from dhsic.errors import DataError

_FILLS = "_FillValue", "missing_value"
_COUNTS = {"valid_range": 2, "valid_min": 1, "valid_max": 1, "scale_factor": 1, "add_offset": 1}
_NO_TIME = -(2**63)  # of times that are stored as whole numbers
_ROUNDED = 0.4  # steps of packed values, which were rounded to whole ones, as their limits were


class Marks(NamedTuple):
    """How the stored values of an array are to be read, as float64."""

    said: str
    """The attributes, and what they hold."""
    packed: str
    """Type of the stored values, which may be labelled as of the other sign."""
    fills: tuple[float, ...]
    """Stored values that are missing."""
    scale: float
    offset: float
    limits: tuple[float, float]
    """Unpacked values below and beyond are missing."""

    def decoded(self, block: NDArray[Any], name: str) -> NDArray[np.float64]:
        """Stored values of a variable as they are meant, NaN where one is missing.

        Raises
        ------
        DataError
            Integers would lose digits as floats.
        """
        values = unmasked(block)
        values = values.astype(self.packed, copy=False) if values.dtype.kind in "iu" else values
        with np.errstate(over="ignore"):  # of numbers beyond a narrow type of floats
            marked = [values == fill for fill in self.fills]
        decoded: NDArray[np.float64] = values * np.float64(self.scale)
        decoded += self.offset
        marked += [decoded < self.limits[0], decoded > self.limits[1]]
        gaps = np.logical_or.reduce(marked)
        if not is_exact(values):
            check_exact(f"variable {name!r}", values[~gaps])
        decoded[gaps] = np.nan
        return decoded


def marks_of(array: Any, name: str) -> Marks | None:
    """Read from the attributes of an array how its values are meant.

    Parameters
    ----------
    array : array-like
        With `dtype`, and `attrs` that are a mapping; what has none says nothing. Attributes by
        which values are unpacked already are its `encoding`, as of xarray.
    name : str
        Name of the variable.

    Returns
    -------
    Marks or None
        None where they say nothing: values are as stored, and NaN alone is missing.

    Raises
    ------
    DataError
        An attribute holds something else than the numbers that it should.
    """
    attributes = getattr(array, "attrs", None)
    if not isinstance(array.dtype, np.dtype):
        return None  # of pandas, which marks missing values by itself
    packed = array.dtype
    if not isinstance(attributes, Mapping) or packed.kind not in "iufb":
        return None
    applied = getattr(array, "encoding", {})
    found = _found(attributes, name)
    # In format 2 of zarr, xarray keeps the mark of missing values in the place of the fill value.
    format_2 = getattr(getattr(array, "metadata", None), "zarr_format", 3) == 2
    if format_2 and "_ARRAY_DIMENSIONS" in attributes and array.fill_value is not None:
        found.setdefault("_FillValue", [array.fill_value.item()])
    if packed == np.int64 and "units" in attributes:
        found["units"] = [_NO_TIME]
    fills = [v for key in (*_FILLS, "units") for v in found.get(key, ()) if v == v]
    low, high = found.get("valid_range", (-math.inf, math.inf))
    limits = [*found.get("valid_min", [low]), *found.get("valid_max", [high])]
    whole = np.dtype(applied.get("dtype", packed)).kind in "iu"
    if packed.kind == "i" and str(attributes.get("_Unsigned")).lower() == "true":
        packed, size = np.dtype(f"u{packed.itemsize}"), 2 ** (8 * packed.itemsize)
        fills, limits = ([v % size if abs(v) < size else v for v in x] for x in (fills, limits))
    scale, offset = _packing({**_found(applied, name), **found})
    # Limits that are floats beside packed integers are of what is unpacked, as in netCDF.
    if not (whole and any(isinstance(v, float) and math.isfinite(v) for v in limits)):
        limits = sorted(v * scale + offset for v in limits)
    margin = _ROUNDED * abs(scale) if whole else 0.0
    said = ", ".join(f"{key} {' and '.join(map(str, v))}" for key, v in found.items())
    ends = limits[0] - margin, limits[1] + margin
    marks = Marks(said, packed.str, tuple(fills), *_packing(found), ends)
    nothing = (np.dtype(array.dtype).str, (), 1, 0, (-math.inf, math.inf))
    return None if marks[1:] == nothing else marks


def unmasked(x: Any) -> NDArray[Any]:
    """An array without a mask: NaN in the place of masked numbers, None in that of others.

    One of sparse rows has its zeros.
    """
    if hasattr(x, "todense"):  # of SciPy, and of the library sparse
        x = np.asarray(x.todense())
    # Records, which are refused, have masks of several fields.
    if getattr(x.dtype, "names", None) or not np.ma.is_masked(x):
        return np.asarray(x)
    check_exact("masked data", x.compressed())
    numbers = x.dtype.kind in "biuf"
    dtype = x.dtype if x.dtype.kind == "f" else np.float64 if numbers else object
    values = np.ma.getdata(x).astype(dtype)
    values[np.ma.getmaskarray(x)] = np.nan if numbers else None
    return values


def _found(attributes: Mapping[str, Any], name: str) -> dict[str, list[float]]:
    """The numbers of the attributes that are there."""
    there = (key for key in (*_FILLS, *_COUNTS) if attributes.get(key) is not None)
    return {key: _numbers(key, attributes[key], name) for key in there}


def _numbers(key: str, value: Any, name: str) -> list[float]:
    try:
        numbers = list(map(_number, np.ravel(value).tolist()))
    except (TypeError, ValueError):
        numbers = []
    count = 0 if key == "scale_factor" and numbers == [0] else _COUNTS.get(key, len(numbers))
    if not numbers or len(numbers) != count or not (key in _FILLS or np.isfinite(numbers).all()):
        what = f"{_COUNTS.get(key, 'only')} finite number(s), a scale other than 0"
        where = f"attribute {key!r} of variable {name!r}"
        msg = f"{where} must hold {what}, got {shown(value)}: correct or remove it"
        raise DataError(msg)
    return numbers


def _number(value: Any) -> float:
    """A number, or its text; xarray writes those of floats in format 3 of zarr by their bytes."""
    if isinstance(value, int | float):
        return value
    try:
        return float(value)
    except ValueError:
        return float(np.frombuffer(base64.b64decode(value, validate=True), "<f8").item())


def _packing(found: Mapping[str, list[float]]) -> tuple[float, float]:
    return found.get("scale_factor", [1])[0], found.get("add_offset", [0])[0]
