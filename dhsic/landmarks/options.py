"""Options of landmarks: how many, how far apart, and how exact."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic._validation import check_number
from dhsic.errors import PrecisionWarning
from dhsic.kernels import Kernel
from dhsic.landmarks.base import check_count

_WORST_ROUNDING = 0.02
# Pivots below the rounding of a tile are noise, and that of float32 is about 1e-4. Of 2,000 normal
# landmarks of two variables of one column 156 stay at 1e-4, and 271 at 1e-8.
_TOLERANCE = {"float32": 1e-4, "float64": 1e-8}


def check_landmark_options(n_landmarks: int | str, tolerance: float | None) -> None:
    """Refuse what are no numbers of landmarks and no tolerances."""
    check_count(n_landmarks)
    if tolerance is not None:
        check_number(
            "tolerance",
            tolerance,
            "at least 0 and less than 1",
            lambda share: 0.0 <= share < 1.0,
            "leave it out for one that follows the precision",
        )


def tolerance_for(asked: float | None, dtype: DTypeLike) -> float:
    """The given tolerance, or the one that follows the precision."""
    return _TOLERANCE[np.dtype(dtype).name] if asked is None else asked


def warn_of_rounding(
    names: Sequence[str],
    kernels: Sequence[Kernel],
    columns: Sequence[NDArray[Any]],
    dtype: DTypeLike,
) -> None:
    """Warn of variables whose kernel rounding may change at the landmarks.

    Parameters
    ----------
    names : sequence of str
        Names of the variables.
    kernels : sequence of Kernel
        As fitted.
    columns : sequence of ndarray
        The prepared landmarks of every variable.
    dtype : dtype
        Precision of the tiles.
    """
    for name, kernel, prepared in zip(names, kernels, columns, strict=True):
        rounding = kernel.rounding(prepared)
        if rounding > _WORST_ROUNDING:
            msg = (
                f"variable {name!r} has landmarks so many bandwidths from its median that "
                f"{np.dtype(dtype)} tiles of its kernel may be off by {rounding:.1g}: use "
                "precision='float64', a wider bandwidth, or transform its tails"
            )
            warnings.warn(msg, PrecisionWarning, stacklevel=2)
