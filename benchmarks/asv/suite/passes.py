"""What one task does: partial results of a block of rows, or of a pair of blocks."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dhsic._random import random_signs
from dhsic.embedding.exact_sums import ExactSums
from dhsic.embedding.sums import EmbeddingPass
from dhsic.engine.groups import Groups
from dhsic.engine.reduction import GroupBlock, RowBlock
from dhsic.engine.tiles import Tiling
from dhsic.estimators.gram_centring import Centring
from dhsic.estimators.gram_pairs import (
    CentredGramPass,
    GramPass,
    GramTiling,
    PermutedGramPass,
)
from dhsic.estimators.resample import Orbit, TwoSided
from dhsic.estimators.tuple_orbits import MeansPass, OrbitPass
from dhsic.estimators.tuple_terms import SignedPass, SpectrumPass
from dhsic.estimators.tuples import Tuples
from dhsic.kernels import Combinations
from dhsic.nulls import Permutation

from .data import COLUMNS, LANDMARKS, PRECISIONS, RESAMPLES, ROWS, block, gaussians, normal


class LandmarkPasses:
    """Nystrom M-HSIC: the sums, and the replicates of every null."""

    param_names: ClassVar = ["precision", "columns"]
    params: ClassVar = [PRECISIONS, COLUMNS]

    def setup(self, precision: str, columns: int) -> None:
        self.block = block(ROWS, columns, precision)
        combinations, points = Combinations.single(gaussians(columns)), normal(LANDMARKS, columns)
        tuples = Tuples(
            combinations.kernels,
            combinations.variables,
            points,
            (TwoSided((0,), 1),),
            (np.arange(LANDMARKS),),
            (np.full(LANDMARKS, 0.5),) * 2,
            np.dtype(precision),
        )
        self.groups = GroupBlock(0, Groups(ROWS, 512, seed=0), self.block.values)
        zeros = np.zeros(LANDMARKS)
        self.sums = MeansPass(tuples)
        self.multiplier = SignedPass(tuples, zeros, RESAMPLES, 0)
        self.spectrum = SpectrumPass(tuples, zeros, "spectral null")
        self.shifts = OrbitPass(tuples, Orbit(self.groups.groups, 2), (0, 1))
        orders = Orbit(self.groups.groups, RESAMPLES, shifted=False)
        self.permutation = OrbitPass(tuples, orders, tuple(range(RESAMPLES)))

    def time_sums(self, precision: str, columns: int) -> None:
        self.sums.chunk(self.block)

    def time_shifts(self, precision: str, columns: int) -> None:
        self.shifts.chunk(self.groups)

    def time_multiplier(self, precision: str, columns: int) -> None:
        self.multiplier.chunk(self.block)

    def time_spectrum(self, precision: str, columns: int) -> None:
        self.spectrum.chunk(self.block)

    def time_permutation(self, precision: str, columns: int) -> None:
        self.permutation.chunk(self.groups)


class PairPasses:
    """V-HSIC: a pair of blocks of rows."""

    param_names: ClassVar = ["precision", "columns"]
    params: ClassVar = [PRECISIONS, COLUMNS]
    rows = 1024

    def setup(self, precision: str, columns: int) -> None:
        n = 2 * self.rows
        values = normal(n, columns, precision)
        self.left = RowBlock(0, tuple(x[: self.rows] for x in values))
        self.right = RowBlock(self.rows, tuple(x[self.rows :] for x in values))
        grams = GramTiling(
            Combinations.single(gaussians(columns)), (columns, 1), np.dtype(precision)
        )
        self.sums = GramPass(grams, n)
        centring = Centring(np.full((2, n), 0.5), unbiased=False)
        self.multiplier = CentredGramPass(grams, centring, RESAMPLES, 0)
        null = Permutation(20, within="blocks", block_rows=self.rows)
        self.permutation = PermutedGramPass(grams, centring, null, 0)

    def time_sums(self, precision: str, columns: int) -> None:
        self.sums.chunk(self.left, self.right)

    def time_multiplier(self, precision: str, columns: int) -> None:
        self.multiplier.chunk(self.left, self.right)

    def time_permutation(self, precision: str, columns: int) -> None:
        self.permutation.chunk(self.left, self.right)


class EmbeddingSums:
    """Mean embeddings, whose sums are kept without rounding."""

    param_names: ClassVar = ["precision", "columns"]
    params: ClassVar = [PRECISIONS, COLUMNS]

    def setup(self, precision: str, columns: int) -> None:
        one = Combinations.single(gaussians(columns)[:1])
        self.sums = EmbeddingPass(Tiling.prepare(one, normal(LANDMARKS, columns)[:1], precision))
        self.block = RowBlock(0, normal(ROWS, columns, precision)[:1])

    def time_sums(self, precision: str, columns: int) -> None:
        self.sums.chunk(self.block)


class ExactAddition:
    """Of integers in base 2^32."""

    def setup(self) -> None:
        self.one, self.other = map(ExactSums.of, np.random.default_rng(0).normal(size=(2, 4096)))

    def time_of(self) -> None:
        ExactSums.of(np.ones(4096))

    def time_add(self) -> None:
        self.one.add(self.other)

    def time_values(self) -> None:
        self.one.values()


class Draws:
    """What replicates are drawn from."""

    def time_random_signs(self) -> None:
        random_signs(0, 0, ROWS, RESAMPLES)
