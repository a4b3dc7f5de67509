"""Passes over the centred terms of statistics at landmark tuples: with signs, and their moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._random import random_signs
from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.engine.tiles import Matrix, Tile, column_sums
from dhsic.estimators.landmark.tiles import LANDMARK_TILE_ROWS, TupleTiles
from dhsic.estimators.landmark.tuples import Tuples

Vector = NDArray[np.float64]


class SignedTupleSums(NamedTuple):
    """Sums over rows of the centred terms xi, plain and with signs."""

    plain: Tile
    """sum_i xi_ij, shape (Q,)."""
    signed: Tile
    """sum_i w_ib xi_ij, shape (Q, b)."""
    signs: Vector
    """sum_i w_ib, shape (b,)."""


@dataclass(frozen=True)
class SignedPass(Pass[SignedTupleSums]):
    """Centred terms times random signs W: all replicates by one product of matrices.

    Parameters
    ----------
    tuples : Tuples
        The statistics, whose pilots are the means of the kernels.
    left_means : ndarray, shape (Q,)
        See `TupleTiles.terms`.
    n_resamples : int
        Replicates.
    seed : int
        The seed of the test.
    """

    tuples: Tuples
    left_means: Tile
    n_resamples: int
    seed: int
    name: str = "multiplier null"

    @cached_property
    def tiles(self) -> TupleTiles:
        """Tiles of some rows."""
        return TupleTiles(self.tuples, LANDMARK_TILE_ROWS * self.tuples.parts)

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        t, b, tile = self.tuples, self.n_resamples, min(rows, LANDMARK_TILE_ROWS)
        q = t.starts[-1]
        signs = tile * b * (t.dtype.itemsize + 2)
        terms = self.tiles.most_terms * t.entries.itemsize * (2 * tile + b)
        return Footprint(
            payload=t.nbytes + self.left_means.nbytes,
            scratch=self.tiles.scratch_bytes(tile) + signs + terms,
            state=t.sums.itemsize * q * (b + 1) + 8 * b,
        )

    def chunk(self, block: RowBlock) -> SignedTupleSums:
        """Sums over one block."""
        t, q, b = self.tuples, self.tuples.starts[-1], self.n_resamples
        sums = SignedTupleSums(np.zeros(q, t.sums), np.zeros((q, b), t.sums), np.zeros(b))
        for start in range(0, block.rows, LANDMARK_TILE_ROWS):
            values = [x[start : start + LANDMARK_TILE_ROWS] for x in block.values]
            first = block.start + start
            # Signs go by the numbers of rows, so that blocks do not change them.
            signs = random_signs(self.seed, first, first + len(values[0]), b).astype(t.dtype)
            sums.signs[:] += column_sums(signs)
            for strip, tiles in self.tiles.of(values):
                for _, at, xi in self.tiles.terms(strip, tiles, self.left_means):
                    sums.plain[at] += xi.sum(axis=1)
                    # U_b = (1/n) sum_i (w_ib - mean w_b) xi_i: the means of the signs are taken off
                    # in the end.
                    sums.signed[at] += _times_signs(xi, signs)
        return sums


def _times_signs(xi: Tile, signs: Matrix) -> Tile:
    """Xi W, where signs need not become complex."""
    # Signs are real: two real products take half the time of a complex one.
    product: Tile = xi.real @ signs
    return product + 1j * (xi.imag @ signs) if np.iscomplexobj(xi) else product


class SpectrumSums(NamedTuple):
    """Sums over rows of the centred terms xi, as real numbers, and of xi xi'."""

    plain: Vector
    """sum_i xi_ij, shape (P,), real parts before imaginary ones."""
    squares: Vector
    """sum_i xi_ij xi_ik of every statistic, one after another, shape (sum_c P_c^2,)."""


@dataclass(frozen=True)
class SpectrumPass(Pass[SpectrumSums]):
    """The second moments of the centred terms.

    Parameters
    ----------
    tuples : Tuples
        The statistics, whose pilots are the means of the kernels.
    left_means : ndarray, shape (Q,)
        See `TupleTiles.terms`.
    name : str
        The null that they are for.
    """

    tuples: Tuples
    left_means: Tile
    name: str = "second moments"

    @cached_property
    def tiles(self) -> TupleTiles:
        """Tiles of some rows."""
        return TupleTiles(self.tuples, LANDMARK_TILE_ROWS * self.tuples.parts)

    @property
    def sizes(self) -> list[int]:
        """Real numbers of every statistic."""
        return [self.tuples.parts * len(kept) for kept in self.tuples.kept]

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        t, tile = self.tuples, min(rows, LANDMARK_TILE_ROWS)
        squares, values = sum(q * q for q in self.sizes), sum(self.sizes)
        terms = 2 * self.tiles.most_terms * t.entries.itemsize * tile
        return Footprint(
            payload=t.nbytes + self.left_means.nbytes,
            scratch=self.tiles.scratch_bytes(tile)
            + terms
            + 8 * (values * tile + max(self.sizes) ** 2),
            state=8 * (squares + values),
        )

    def chunk(self, block: RowBlock) -> SpectrumSums:
        """Sums over one block."""
        sums = SpectrumSums(np.zeros(sum(self.sizes)), np.zeros(sum(q * q for q in self.sizes)))
        for start in range(0, block.rows, LANDMARK_TILE_ROWS):
            self._add_tile([x[start : start + LANDMARK_TILE_ROWS] for x in block.values], sums)
        return sums

    def _add_tile(self, values: Sequence[NDArray[Any]], sums: SpectrumSums) -> None:
        t = self.tuples
        # Products of float32 would leave the covariance indefinite once it is whitened.
        rows = [np.empty((t.parts, q // t.parts, len(values[0]))) for q in self.sizes]
        for strip, tiles in self.tiles.of(values):
            for number, at, xi in self.tiles.terms(strip, tiles, self.left_means):
                begin = t.starts[number]
                rows_of_statistic = rows[number][:, at.start - begin : at.stop - begin]
                rows_of_statistic[0] = xi.real
                rows_of_statistic[1:] = xi.imag
        for (plain, squares), terms in zip(self.of(sums), rows, strict=True):
            # Real and imaginary parts are rows of one covariance.
            flat = terms.reshape(len(plain), -1)
            plain += flat.sum(axis=1)
            squares += flat @ flat.T

    def of(self, sums: SpectrumSums) -> list[tuple[Vector, Vector]]:
        """Those of every statistic, shapes (P_c,) and (P_c, P_c); views."""
        plain = np.split(sums.plain, np.cumsum(self.sizes)[:-1])
        squares = np.split(sums.squares, np.cumsum([q * q for q in self.sizes])[:-1])
        shaped = (square.reshape(q, q) for square, q in zip(squares, self.sizes, strict=True))
        return list(zip(plain, shaped, strict=True))
