"""Reductions that are kept in checkpoints, and runs of them that are interrupted."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dhsic.engine.checkpoint import Checkpoint
from dhsic.engine.replicates import run_map
from dhsic.engine.run import _leaves_of_shards, _spans, run_pass
from dhsic.io.open import open_variables
from tests.engine.toys import PairSums, Sums, plan_of, threads

N = 700
X = np.random.default_rng(0).standard_normal((N, 3))
Y = np.random.default_rng(1).standard_normal(N)


class NoLuckError(Exception):
    pass


@dataclass(frozen=True)
class Kept(Sums):
    """Sums as plain tuples; counts its chunks, and fails at one of them."""

    chunks: ClassVar[list[int]] = []
    failing: ClassVar[list[int]] = []

    def chunk(self, block):
        if len(Kept.chunks) in Kept.failing:
            raise NoLuckError
        Kept.chunks.append(block.start)
        return tuple(super().chunk(block))

    def combine(self, left, right):
        return tuple(map(np.add, left, right))


@dataclass(frozen=True)
class KeptPairs(PairSums):
    chunks: ClassVar[list[int]] = Kept.chunks

    def chunk(self, left, right):
        if len(Kept.chunks) in Kept.failing:
            raise NoLuckError
        Kept.chunks.append(left.start)
        return tuple(super().chunk(left, right))

    def combine(self, left, right):
        return tuple(map(np.add, left, right))


def opened(folder, **run):
    return Checkpoint.open(folder, {"seed": 0, **run})


def go(reduction, bounds, checkpoint=None, runtime=None, data=(X, Y), listener=lambda event: None):
    plan = plan_of(bounds, pairs=isinstance(reduction, PairSums))
    sources = open_variables(list(data))
    runtime = runtime or threads(1)
    return run_pass(reduction, sources, plan, runtime, listener, checkpoint=checkpoint)[0]


def groups(bounds, pairs=False):
    plan = plan_of(bounds, pairs=pairs)
    return _leaves_of_shards(_spans(plan), plan.fan_in)


def shard_files(folder):
    return sorted(path for path in Path(folder.url).glob("*/shard-*"))


@dataclass(frozen=True)
class Squares:
    scale: float = 1.0
    calls: ClassVar[list[range]] = []
    failing: ClassVar[list[int]] = []

    def __call__(self, numbers):
        if numbers.start in Squares.failing:
            raise NoLuckError
        Squares.calls.append(numbers)
        return self.scale * np.arange(numbers.start, numbers.stop) ** 2


def mapped(function, checkpoint, runtime=None, listener=lambda event: None, number=100):
    return run_map("squares", function, number, runtime or threads(1), listener, checkpoint)
