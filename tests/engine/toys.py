"""Reductions, sources and listeners small enough to see through."""

import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import zarr
from distributed import LocalCluster
from zarr.storage import WrapperStore

from dhsic._work import REFERENCE, Work
from dhsic.engine.plan import PassPlan
from dhsic.engine.reduction import Footprint, add
from dhsic.engine.run import run_pass
from dhsic.engine.runtime import Runtime
from dhsic.io.sources import ArraySource

FOOTPRINT = Footprint(payload=0, scratch=0, state=0, work=Work.of(entries=1.0))


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


@dataclass(frozen=True)
class Deadly(Gather):
    """Kills the worker that takes one of its blocks."""

    rows: int = -1

    def chunk(self, block):
        if block.start == self.rows:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().chunk(block)


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
class Touch:
    """One number of every block, in no memory of its own; over groups where there are any."""

    groups: Any = None
    name: str = "touch"
    row_multiple: int = 1

    def footprint(self, rows):
        return Footprint(payload=0, scratch=0, state=8, work=Work.of(entries=10.0))

    def chunk(self, *blocks):
        return float(sum(x[0, 0] for block in blocks for x in block.values))

    def combine(self, left, right):
        return left + right


@dataclass(frozen=True)
class PairGather(Gather):
    """All pairs of blocks in order."""

    def chunk(self, left, right):
        return super().chunk(left) + super().chunk(right)


@dataclass(frozen=True)
class PairSums(Sums):
    """Sum of x_i x_j' over all rows i and j, and the number of pairs i <= j."""

    name: str = "pair sums"
    seconds: float = 5e-11
    groups: Any = None

    def footprint(self, rows):
        return replace(FOOTPRINT, work=Work.of(calls=self.seconds / REFERENCE.seconds["calls"]))

    def chunk(self, left, right):
        x, y = (np.hstack([np.asarray(v, float) for v in b.values]) for b in (left, right))
        crossed = np.outer(x.sum(axis=0), y.sum(axis=0))
        if left[0] < right[0]:  # of rows, or of groups of them
            return Moments(len(x) * len(y), crossed + crossed.T)
        return Moments(len(x) * (len(x) + 1) // 2, crossed)


class SlowPairs(PairSums):
    def chunk(self, left, right):
        time.sleep(0.02)
        return super().chunk(left, right)


def slow_squares(numbers):
    time.sleep(0.05)
    return [number**2 for number in numbers]


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


def plan_of(bounds, name="toy", pairs=False):
    return PassPlan(name, tuple(bounds), 0, 0, 0, pairs=pairs)


def threads(count=2):
    return Runtime(count, 2**31)


def on(client):
    return Runtime(2, 2**31, 2, client)


def run(reduction, sources, bounds, runtime=None, listener=lambda event: None):
    plan = plan_of(bounds, pairs=isinstance(reduction, (PairGather, PairSums)))
    return run_pass(reduction, sources, plan, runtime or threads(), listener)


def gathered(state):
    """Starts of the blocks, and the rows of every variable."""
    starts = [start for start, _ in state]
    return starts, [np.concatenate(x) for x in zip(*(values for _, values in state), strict=True)]


def bits(state):
    return [np.asarray(x).tobytes() for x in state]


def made(kind, x, tmp_path):
    # Workers import this file, and need none of these.
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd
    import xarray as xr

    dims = ("row", "column")[: x.ndim]
    if kind == "memmap":
        mapped = np.memmap(tmp_path / f"{x.ndim}.dat", x.dtype, "w+", shape=x.shape)
        mapped[:] = x
        return mapped
    if kind == "zarr":
        return zarr.create_array(tmp_path / f"{x.ndim}.zarr", data=x, chunks=(64, 2)[: x.ndim])
    if kind == "dask":
        return da.from_array(x, chunks=(71, 2)[: x.ndim])
    if kind == "xarray":
        return xr.DataArray(x, dims=dims)
    if kind == "dask xarray":
        return xr.DataArray(da.from_array(x, chunks=133), dims=dims)
    frame = pd.Series(x) if x.ndim == 1 else pd.DataFrame(x, columns=list("abc"))
    return {"numpy": x, "pandas": frame, "dask dataframe": dd.from_pandas(frame, npartitions=5)}[
        kind
    ]


KINDS = ["numpy", "memmap", "zarr", "dask", "xarray", "dask xarray", "pandas", "dask dataframe"]


def settled(client):
    """Tasks that the scheduler still has, once it has settled."""
    for _ in range(100):
        if not (count := client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))):
            break
        time.sleep(0.05)
    return count


def cluster_of_threads():
    """Two workers that are threads of this process, to be lost quickly."""
    return LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        dashboard_address="127.0.0.1:0",
    )


class Watch:
    """A client that weighs what is sent to the scheduler."""

    def __init__(self, client):
        self.client, self.graphs, self.pieces = client, [], []
        self.options = {}

    def __getattr__(self, name):
        return getattr(self.client, name)

    def compute(self, collections, **options):
        self.options = options
        graph = {}
        for collection in collections:
            graph.update(collection.__dask_graph__())
        self.graphs.append((len(graph), len(cloudpickle.dumps(graph))))
        return self.client.compute(collections, **options)

    def submit(self, function, *arguments, **options):
        self.pieces.append(len(cloudpickle.dumps(arguments)))
        return self.client.submit(function, *arguments, **options)
