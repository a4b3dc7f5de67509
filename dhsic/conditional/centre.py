"""Variables about their predictions by what is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import ValueKind
from dhsic.kernels import Kernel

Vector = NDArray[np.float64]

_MOST_COLUMNS = 64


def centred_columns(
    kernel: Kernel, kinds: Sequence[ValueKind], sample: Vector | None = None
) -> tuple[int, ...]:
    """The columns of a variable that its kernel sees about their predictions.

    They are numbers whose distances have a length in the kernel, and most of whose values differ:
    what is left of few values, as of a flag or a count, tells of the predictions more than of
    the values. None of more than 64, whose products with each other would fill the memory.

    Parameters
    ----------
    kernel : Kernel
        That of the variable.
    kinds : sequence of str
        Kinds of its columns.
    sample : ndarray, shape (s, d), optional
        Rows; without any, values count as different, which is the most that there can be.

    Returns
    -------
    tuple of int
    """
    measured = sorted(kernel.measured(len(kinds))) if kernel.has_length else []
    numbers = [j for j in measured if kinds[j] == "number"]
    if sample is not None:
        numbers = [j for j in numbers if 2 * len(np.unique(sample[:, j])) > len(sample)]
    return tuple(numbers) if len(numbers) <= _MOST_COLUMNS else ()


@dataclass(frozen=True)
class Centre:
    """The prediction of some columns of a variable by features of what is given.

    Parameters
    ----------
    at : tuple of int
        Numbers of the columns; the others stay as they are.
    columns : int
        All columns of the variable, d.
    mean : ndarray, shape (p,)
        Mean of the features.
    slopes : ndarray, shape (p, k)
        Coefficients, in units of the columns.
    """

    at: tuple[int, ...]
    columns: int
    mean: Vector
    slopes: Vector

    @classmethod
    def likely(cls, at: tuple[int, ...], columns: int, p: int) -> Self:
        """The prediction 0, which takes no memory."""
        return cls(at, columns, np.broadcast_to(0.0, (p,)), np.broadcast_to(0.0, (p, len(at))))

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return 8 * (self.mean.size + self.slopes.size)

    def scratch(self, rows: int) -> int:
        """Bytes needed for so many rows."""
        return 8 * rows * (len(self.mean) + self.columns + 2 * len(self.at))

    def __call__(self, x: NDArray[Any], given: Vector) -> NDArray[Any]:
        """Rows (b, d) less their predictions from features (b, p) of what is given."""
        if not self.at:
            return x
        centred = x.astype(np.float64)
        centred[:, self.at] -= (given - self.mean) @ self.slopes
        return centred
