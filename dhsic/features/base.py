"""Protocol of feature maps."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating[Any]]


class FeatureMap(Protocol):
    """Rows of one variable become rows of D numbers, as a frozen value."""

    @property
    def n_features(self) -> int:
        """Numbers a row, D."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Their precision."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of the map itself."""
        ...

    def scratch(self, rows: int) -> int:
        """Bytes needed for so many rows besides the result."""
        ...

    def __call__(self, x: NDArray[Any]) -> Matrix:
        """Map rows (b, d) to features (b, D); a DataError where they leave its range."""
        ...
