"""Random signs on the centred products of Gram matrices no one ever holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._random import random_signs
from dhsic.engine.reduction import Footprint, GroupBlock
from dhsic.engine.tiles import Matrix, column_sums
from dhsic.estimators.gram.centring import Centring, centred_pairs
from dhsic.estimators.gram.orbits import GramOrbit
from dhsic.estimators.gram.sides import CosetRows, GramPass
from dhsic.estimators.gram.sums import GramSums
from dhsic.estimators.resample import Resampled

Vector = NDArray[np.float64]


class SignedGramSums(NamedTuple):
    """Sums of H_ij = <xi_i, xi_j> of every combination, plain and with signs."""

    total: Vector
    """sum_ij H_ij, shape (G,)."""
    linear: Vector
    """sum_ij H_ij w_jb, shape (b, G)."""
    quadratic: Vector
    """sum_ij w_ib H_ij w_jb, shape (b, G)."""
    signs: Vector
    """sum_i w_ib, shape (b,)."""

    @classmethod
    def zeros(cls, combinations: int, replicates: int) -> SignedGramSums:
        """Nothing summed yet."""
        linear, quadratic = np.zeros((2, replicates, combinations))
        return cls(np.zeros(combinations), linear, quadratic, np.zeros(replicates))


@dataclass(frozen=True)
class SignedGramPass(GramPass):
    """The Gram matrices of the centred products, times random signs from both sides.

    All combinations have the same signs.

    Parameters
    ----------
    sides : GramSides
        The statistics, without shifts.
    centring : Centring
        From their sums.
    n_resamples : int
        Replicates.
    seed : int
        The seed of the test.
    """

    centring: Centring
    n_resamples: int
    seed: int
    name: str = "multiplier null"

    def footprint(self, rows: int) -> Footprint:
        """Cost of a pair of blocks of so many rows."""
        b, g, piece = self.n_resamples, len(self.sides.pairs), self.groups.size
        scratch = self.sides.plain_bytes(rows, piece)
        # The sums F of all variables but the last, as `centred_pairs` multiplies them, and signs.
        entries = (9 * len(self.sides.pilots) - 16) * piece**2 + 3 * b * piece
        return Footprint(
            payload=self.centring.nbytes,
            scratch=scratch + self.sides.dtype.itemsize * entries + 10 * b * piece,
            state=8 * (2 * b * g + b + g),
        )

    def chunk(self, left: GroupBlock, right: GroupBlock) -> SignedGramSums:
        """Sums over one pair of blocks and its transpose."""
        chosen = self.sides.combinations.chosen
        sums = SignedGramSums.zeros(len(chosen), self.n_resamples)
        for (first, _), (second, _) in self.sides.part_pairs(left, right):
            signs, other = self._signs(first), self._signs(second)
            if same := first is second:
                # Every piece meets itself once: there its own signs are added.
                sums.signs[:] += column_sums(signs)
            tiles = self.sides.grams(first, second)
            grams = [tiles[k,] for k in range(len(tiles))]
            places = first.places, second.places
            for c, h in enumerate(centred_pairs(grams, chosen, self.centring, *places)):
                weight, signed = 1.0 if same else 2.0, h @ other
                along = column_sums(signed)
                # The transpose of a tile of two pieces adds h' w with the signs of the first.
                sums.linear[:, c] += along if same else along + h.sum(axis=1) @ signs
                sums.quadratic[:, c] += weight * np.einsum("ib,ib->b", signs, signed)
                sums.total[c] += weight * float(h.sum(dtype=np.float64))
        return sums

    def _signs(self, rows: CosetRows) -> Matrix:
        """Those of some rows, which are numbered in the order of their groups."""
        first, last = int(rows.places.min()), int(rows.places.max())
        # Signs are drawn by the numbers of rows, so that tasks and their order do not change them.
        drawn = random_signs(self.seed, first, last + 1, self.n_resamples)
        return drawn[rows.places - first].astype(self.sides.dtype)


@dataclass(frozen=True)
class SignedGrams:
    """HSIC times n of G combinations, and of the centred products with random signs.

    Parameters
    ----------
    grams : GramOrbit
        The statistics.
    signed : SignedGramSums
        Sums over the centred products.
    unbiased : bool
        U-statistics, for two variables.
    """

    grams: GramOrbit
    signed: SignedGramSums
    unbiased: bool
    detail: ClassVar[str] = ""

    def sums_of(self, combination: tuple[int, ...]) -> GramSums:
        """Those of the Gram matrices of a combination."""
        return self.grams.sums_of(combination)

    def sums_of_kernels(self, kernels: Sequence[int]) -> GramSums:
        """Those of some kernels."""
        return self.grams.sums_of_kernels(kernels)

    def resampled(self) -> Resampled:
        """The statistics, and (w - mean w)' H (w - mean w) over the same divisor.

        With the factor n / (n - 2) the mean over signs is that over permutations, see
        `dhsic.estimators.landmark.nystrom_m`; the mean of the U-statistic is 0 already.
        """
        n, (total, linear, quadratic, signs) = self.grams.n, self.signed
        mean = signs[:, None] / n
        # H has no row means of 0, so signs are taken about their mean after the sums are known; one
        # pass would otherwise have to know the mean before it.
        forms = quadratic - 2.0 * mean * linear + mean**2 * total
        first, second = (n - 3, n - 3) if self.unbiased else (n, n - 2)
        return Resampled(total / first, forms / second, self.grams.rounding())
