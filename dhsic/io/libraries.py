"""Objects of libraries that need not be installed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def is_of(x: Any, module: str, *classes: str) -> bool:
    """Whether x is of a class of a library that need not be installed."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(x, tuple(getattr(loaded, cls, ()) for cls in classes))


def is_zarr(x: Any) -> bool:
    """Whether x is an array of zarr, which is slow to import."""
    return is_of(x, "zarr", "Array")


def is_sparse(x: Any) -> bool:
    """Whether x is a sparse matrix of SciPy."""
    return is_of(x, "scipy.sparse", "sparray", "spmatrix")


def holds_columns(x: Any) -> bool:
    """Whether x has columns by their names; a sparse matrix of SciPy may be a dictionary too."""
    named = isinstance(x, Mapping) and not is_sparse(x)
    return named or is_of(x, "xarray", "Dataset")
