"""Reductions, sources and listeners small enough to see through."""

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from zarr.storage import WrapperStore

from dhsic.engine.plan import PassPlan
from dhsic.engine.reduction import Footprint, add
from dhsic.engine.run import run_pass
from dhsic.engine.runtime import Runtime
from dhsic.io.sources import ArraySource

FOOTPRINT = Footprint(payload=0, scratch=0, state=0, operations=1.0)


@dataclass(frozen=True)
class Gather:
    """All blocks in order: says what was read, and is not commutative."""

    seconds: float = 0.0
    fails_at: int = -1
    ballast: Any = None
    name: str = "gather"
    row_multiple: int = 1

    def footprint(self, rows):
        return FOOTPRINT

    def chunk(self, block):
        time.sleep(self.seconds)
        if block.start == self.fails_at:
            msg = f"no luck at {block.start}"
            raise ZeroDivisionError(msg)
        return ((block.start, tuple(np.array(x, float) for x in block.values)),)

    def combine(self, left, right):
        return left + right


class Moments(NamedTuple):
    """Sums that depend on the order in which they are added."""

    first: Any
    second: Any


@dataclass(frozen=True)
class Sums:
    """Sums in floating point."""

    name: str = "sums"
    row_multiple: int = 1

    def footprint(self, rows):
        return FOOTPRINT

    def chunk(self, block):
        x = np.hstack([np.asarray(x, float) for x in block.values])
        return Moments(x.sum(axis=0), x.T @ x)

    def combine(self, left, right):
        return add(left, right)


@dataclass(frozen=True)
class SlowSource(ArraySource):
    """An array whose first rows come last."""

    def read(self, start, stop):
        time.sleep(0.3 if start == 0 else 0.0)
        return super().read(start, stop)


class CountingStore(WrapperStore):
    """A zarr store that counts how often each chunk is read."""

    def __init__(self, store):
        super().__init__(store)
        self.reads = Counter()

    async def get(self, key, *args, **options):
        if "/c/" in f"/{key}":
            self.reads[key] += 1
        return await super().get(key, *args, **options)


def even_bounds(n, blocks):
    return tuple(n * i // blocks for i in range(blocks + 1))


def plan_of(bounds, name="toy"):
    return PassPlan(name, tuple(bounds), 0, 0, 0)


def threads(count=2):
    return Runtime(count, 2**31)


def on(client):
    return Runtime(2, 2**31, 2, client)


def run(reduction, sources, bounds, runtime=None, listener=lambda event: None):
    return run_pass(reduction, sources, plan_of(bounds), runtime or threads(), listener)


def gathered(state):
    """Starts of the blocks, and the rows of every variable."""
    starts = [start for start, _ in state]
    return starts, [np.concatenate(x) for x in zip(*(values for _, values in state), strict=True)]


def bits(state):
    return [np.asarray(x).tobytes() for x in state]
