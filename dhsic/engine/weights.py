"""Weights of rows, which say how many rows of a population each stands for."""

from __future__ import annotations

from dataclasses import dataclass

from dhsic.engine.blocks import Source


@dataclass(frozen=True)
class RowWeights:
    """Positive weights of mean 1, a row each.

    Parameters
    ----------
    source : Source
        The weights, shape (n, 1).
    squares, cubes : float
        Their mean square and mean cube.
    """

    source: Source
    squares: float
    cubes: float

    @property
    def rows(self) -> float:
        """Rows of equal weight whose mean would vary as much: (sum w)^2 / sum w^2 (Kish 1965)."""
        # n^2 / sum w^2 for weights of mean 1, since then (sum w)^2 = n^2.
        return self.source.shape[0] / self.squares

    @property
    def deciding(self) -> float:
        """Rows of equal weight whose sum of squares would be as uneven: few where a few decide.

        The skewness of a mean of values with these weights is that of the mean of so many values
        with equal ones.
        """
        return self.source.shape[0] * self.squares**3 / self.cubes**2
