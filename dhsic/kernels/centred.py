"""Rows about an origin, in units of a kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dhsic.errors import DataError, InvalidArgumentError

Matrix = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Centred:
    """Base of kernels that centre and scale rows, and refuse those that would overflow.

    Parameters
    ----------
    origin : tuple of float, optional
        Subtracted from every row first.
    """

    origin: tuple[float, ...] | None = field(default=None, kw_only=True)

    name: ClassVar[str]
    _scale_name: ClassVar[str] = ""
    """The parameter that is fitted to how far apart the rows of a sample are."""

    def __post_init__(self) -> None:
        if self.origin is None:
            return
        origin = tuple(float(coordinate) for coordinate in self.origin)
        if not all(map(math.isfinite, origin)):
            msg = f"{self.name}: origin must be finite; got {origin}: leave it out for the median"
            raise InvalidArgumentError(msg)
        object.__setattr__(self, "origin", origin)

    def scale_columns(self, d: int) -> tuple[tuple[int, ...], ...]:
        """Sets of columns, each of which should vary in the sample that a scale is fitted to.

        Parameters
        ----------
        d : int
            Columns of the variable.

        Returns
        -------
        tuple of tuple of int
            None where there is no scale to be fitted.
        """
        unset = self._scale_name and getattr(self, self._scale_name) is None
        return (tuple(range(d)),) if unset else ()

    @property
    def _scale(self) -> float:
        """Factor of the centred rows."""
        return 1.0

    def _scaled(self, x: NDArray[Any], dtype: DTypeLike) -> tuple[Matrix, NDArray[np.float64]]:
        """Centred rows in units of the kernel (b, d), C-contiguous, and their squared norms."""
        centred = self._centred(x)
        scaled = np.empty(centred.shape, dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            # Rows are centred in float64 and rounded once: in float32 the difference would lose the
            # digits that rows and origin share.
            np.multiply(centred, self._scale, out=scaled, casting="same_kind")
            # Norms add up in float64, since a distance is what is left of them.
            norms = np.einsum("ij,ij->i", scaled, scaled, dtype=np.float64)
        self._check_range(norms, dtype)
        return scaled, norms

    def _centred(self, x: NDArray[Any]) -> NDArray[np.float64]:
        x = np.asarray(x)
        self._check_shape(x)
        if self.origin is None:
            return x.astype(np.float64, copy=False)
        centred: NDArray[np.float64] = np.subtract(x, self.origin, dtype=np.float64)
        return centred

    def _check_shape(self, x: NDArray[Any]) -> None:
        expected = x.shape[1:] if self.origin is None else (len(self.origin),)
        if x.ndim != 2 or x.shape[1:] != expected:
            msg = (
                f"{self.name}: rows must have shape (n, {expected[0] if expected else 1}); got "
                f"{x.shape}: pass x[:, None] for one column, and fit a kernel for each variable"
            )
            raise InvalidArgumentError(msg)

    def _check_range(self, sizes: NDArray[np.float64], dtype: DTypeLike) -> None:
        """Refuse rows whose kernel values would overflow into inf and NaN."""
        # A squared distance is at most four such norms, and a factor of 2 is to spare.
        largest, limit = float(np.max(sizes, initial=0.0)), float(np.finfo(dtype).max) / 8
        # NaN is smaller than nothing, so that it is refused here as well.
        if not largest < limit:
            msg = (
                f"{self.name}: rows must be finite, and smaller than {limit:.0e} when centred, "
                f"scaled and squared in {np.dtype(dtype)}; got {largest:.3g}: "
                "drop missing values, use float64, or transform the variable (to ranks, say)"
            )
            raise DataError(msg)
