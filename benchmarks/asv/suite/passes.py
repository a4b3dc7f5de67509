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
from dhsic.estimators.gram.centring import Centring
from dhsic.estimators.gram.permutations import PermutedGramPass
from dhsic.estimators.gram.sides import GramSides
from dhsic.estimators.gram.signs import SignedGramPass
from dhsic.estimators.landmark.orbits import MeansPass, TupleOrbitPass
from dhsic.estimators.landmark.terms import SignedPass, SpectrumPass
from dhsic.estimators.landmark.tuples import Tuples
from dhsic.estimators.resample import Orbit, TwoSided
from dhsic.kernels import Combinations

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
        self.shifts = TupleOrbitPass(tuples, Orbit(self.groups.groups, 2), (0, 1))
        orders = Orbit(self.groups.groups, RESAMPLES, shifted=False)
        self.permutation = TupleOrbitPass(tuples, orders, tuple(range(RESAMPLES)))

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
    """V-HSIC: a pair of groups of rows."""

    param_names: ClassVar = ["precision", "columns"]
    params: ClassVar = [PRECISIONS, COLUMNS]
    rows = 1024

    def setup(self, precision: str, columns: int) -> None:
        n = 2 * self.rows
        values, groups = normal(n, columns, precision), Groups(n, self.rows, 0)
        halves = slice(0, self.rows), slice(self.rows, n)
        self.blocks = [
            GroupBlock(g, groups, tuple(x[at] for x in values)) for g, at in enumerate(halves)
        ]
        combinations = Combinations.single(gaussians(columns))
        self.sums, self.permutation = (
            PermutedGramPass(
                GramSides(
                    combinations,
                    (TwoSided((0,), 1),),
                    tuple(x[:32] for x in values),
                    Orbit(groups, cosets, shifted=False),
                    np.dtype(precision),
                    unbiased=False,
                    joint=False,
                )
            )
            for cosets in (1, 21)
        )
        centring = Centring(np.full((2, n), 0.5), unbiased=False)
        self.multiplier = SignedGramPass(self.sums.sides, centring, RESAMPLES, 0)

    def time_sums(self, precision: str, columns: int) -> None:
        self.sums.chunk(*self.blocks)

    def time_multiplier(self, precision: str, columns: int) -> None:
        self.multiplier.chunk(*self.blocks)

    def time_permutation(self, precision: str, columns: int) -> None:
        self.permutation.chunk(*self.blocks)


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
