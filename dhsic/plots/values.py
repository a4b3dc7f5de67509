"""Input of the pictures: some rows of data, and numbers with names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dhsic.errors import DataError, InvalidArgumentError

Vector = NDArray[np.float64]


def finite_vector(name: str, values: ArrayLike, length: int | None = None) -> Vector:
    """Finite numbers, shape (k,), as many as are expected.

    Raises
    ------
    InvalidArgumentError
        They are not.
    """
    vector = numbers_of(name, values)
    if vector.ndim != 1 or not len(vector) or length not in (None, len(vector)):
        wanted = "a number or more" if length is None else f"{length} numbers"
        msg = f"{name} must be {wanted} in one dimension, got shape {vector.shape}"
        raise InvalidArgumentError(msg)
    if not np.isfinite(vector).all():
        msg = f"{name} must be finite, got NaN or infinity: drop such entries"
        raise InvalidArgumentError(msg)
    return vector


def numbers_of(name: str, values: Any) -> Vector:
    """Real numbers of any shape.

    Raises
    ------
    InvalidArgumentError
        They are something else.
    """
    try:
        array = np.asarray(values)
        # `astype` would drop the imaginary part with a warning alone.
        if array.dtype.kind == "c":
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        msg = f"{name} must be real numbers, got {str(values)[:60]!r}: give an array of them"
        raise InvalidArgumentError(msg) from error


def check_pvalues(pvalues: Vector) -> Vector:
    """P-values from 0 to 1.

    Raises
    ------
    InvalidArgumentError
        Some are not.
    """
    if pvalues.min() < 0.0 or pvalues.max() > 1.0:
        ends = f"{pvalues.min():.3g} to {pvalues.max():.3g}"
        msg = f"pvalues must be from 0 to 1, got {ends}: give p-values, not statistics"
        raise InvalidArgumentError(msg)
    return pvalues


def names_or_numbered(names: Sequence[str] | None, count: int) -> list[str]:
    """As many names as there are things, x1, x2, ... where none are given.

    Raises
    ------
    InvalidArgumentError
        There are more or fewer, or it is one word.
    """
    if names is not None and (isinstance(names, str) or not isinstance(names, Iterable)):
        msg = f"names must be a sequence of {count} names, got {names!r}: give a list"
        raise InvalidArgumentError(msg)
    given = [f"x{number + 1}" for number in range(count)] if names is None else list(names)
    if len(given) != count:
        msg = f"names must be {count}, one for each value, got {len(given)}"
        raise InvalidArgumentError(msg)
    return [str(name) for name in given]


def spread_rows(name: str, data: Any, n: int | None = None, *, most: int) -> Vector:
    """Rows of data at equal distances, at most so many, as a finite (k, d) array in memory.

    Parameters
    ----------
    name : str
        Name of the data in errors.
    data : array-like, shape (n,) or (n, d)
        NumPy, Dask or what else has rows to slice.
    n : int, optional
        Rows that the data must have.
    most : int
        Rows at most.

    Returns
    -------
    ndarray, shape (k, d)

    Raises
    ------
    DataError
        They are of another shape, or not finite.
    InvalidArgumentError
        They are not real numbers.
    """
    array = data if hasattr(data, "shape") and hasattr(data, "__getitem__") else np.asarray(data)
    shape = tuple(array.shape)
    if len(shape) not in (1, 2) or not shape[0] or n not in (None, shape[0]):
        wanted = "n" if n is None else str(n)
        msg = f"{name} must be of shape ({wanted},) or ({wanted}, d), got {shape}"
        raise DataError(msg)
    # At equal distances and not the first ones, since rows may be sorted.
    step = -(-shape[0] // most)
    # Sliced before it becomes NumPy's: a stored array may not fit the memory.
    rows = numbers_of(name, array[::step]).reshape(-1, *(shape[1:] or (1,)))
    if not np.isfinite(rows).all():
        msg = f"{name} must be finite, got NaN or infinity: drop such rows"
        raise DataError(msg)
    return rows
