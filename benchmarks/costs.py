"""What a test by Nystrom M-HSIC with random signs takes: operations, times rates of a machine.

With p landmarks drawn and r kept, M variables of d_m columns, n rows in blocks of b and R signs, a
task of the first pass (`MeansPass`) computes b r entries of M Gram tiles, each a matrix product of
width d_m + 2 (of one column: a difference, a square and a sign) and an exponential, and sums them
over the rows. One of the second pass (`SignedPass`) computes the same tiles, centres them,
multiplies them and multiplies the product with the signs, 2 b r R operations. The results, M + 1 or
R + 1 columns of r numbers, go up a tree. The driver computes and factorises the p x p Gram matrix,
r of whose columns it keeps, solves R triangular systems for the norms, and factorises the Gram
matrices of the variables for the estimate. A matrix of one column has a rank far below r, and its
factorisation is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import block_bounds
from dhsic.engine.plan import FAN_IN
from dhsic.engine.take import count_tasks
from dhsic.estimators.base import BANDWIDTH_ROWS
from dhsic.estimators.landmark.orbits import MeansPass
from dhsic.estimators.landmark.terms import SignedPass
from dhsic.estimators.landmark.tiles import ROWS
from dhsic.estimators.landmark.tuples import Tuples
from dhsic.estimators.resample import TwoSided
from dhsic.kernels import Gaussian, Kernel

PassName = Literal["sums", "null"]
Counts = dict[str, float]
PASSES: tuple[PassName, ...] = ("sums", "null")


@dataclass(frozen=True)
class Job:
    """A test.

    Parameters
    ----------
    rows : int
        Rows, n.
    dims : tuple of int
        Columns of every variable, d_m.
    drawn, kept : int
        Landmarks before and after pruning, p and r.
    resamples : int
        Random signs a row, R.
    precision : str
        Of the tiles and of the data, "float32" or "float64".
    chunk_rows : int, optional
        Rows that are stored together, where the data are stored.
    """

    rows: int
    dims: tuple[int, ...]
    drawn: int
    kept: int
    resamples: int
    precision: str
    chunk_rows: int | None = None

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return sum(self.dims) * np.dtype(self.precision).itemsize

    def reductions(
        self, kernels: Sequence[Kernel], points: Sequence[NDArray[Any]]
    ) -> dict[PassName, Any]:
        """The passes of the package at landmarks (r, d_m)."""
        variables = tuple(range(len(kernels)))
        tuples = Tuples(
            tuple(kernels),
            variables,
            tuple(points),
            (TwoSided(variables[:-1], variables[-1]),),
            (np.arange(self.kept),),
            (np.broadcast_to(np.float64(0.5), self.kept),) * len(kernels),
            np.dtype(self.precision),
            "joint",
        )
        zeros = np.broadcast_to(np.float64(0.0), self.kept)
        return {
            "sums": MeansPass(tuples),
            "null": SignedPass(tuples, zeros, self.resamples, 0),
        }

    @cached_property
    def _planned(self) -> dict[PassName, Any]:
        points = [np.zeros((self.kept, d)) for d in self.dims]
        return self.reductions([Gaussian(gamma=1.0)] * len(self.dims), points)

    def blocks(self, name: PassName) -> list[int]:
        """Rows of every block of a pass, as the package cuts them."""
        operations = self._planned[name].footprint(self.rows).operations
        bounds = block_bounds(self.rows, self.row_bytes, self.chunk_rows, operations, 1)
        return [stop - start for start, stop in pairwise(bounds)]

    def state_bytes(self, name: PassName) -> int:
        """Bytes of a partial result."""
        return int(self._planned[name].footprint(1).state)

    def counts(self, name: PassName, rows: int) -> Counts:
        """What a task of so many rows does.

        Sums over rows go with the exponentials or the signs, in a fixed proportion.
        """
        entries, m = rows * self.kept, len(self.dims)
        wide = [d for d in self.dims if d > 1]
        tiles = math.ceil(rows / ROWS) * len(self._planned[name].tiles.strips)
        counts = {
            "task": 1.0,
            "tile": tiles,
            "prepared number": rows * sum(self.dims),
            "product entry": entries * len(wide),
            "product operation": 2.0 * entries * sum(d + 2 for d in wide),
            "exponential": m * entries,
            "in-place operation": 3.0 * (m - len(wide)) * entries,
        }
        if name == "sums":
            return counts
        centred = m + (1 if m == 2 else 5 + 7 * (m - 2))
        counts["in-place operation"] += centred * entries
        return {
            **counts,
            "sign": rows * self.resamples,
            "sign operation": 2.0 * entries * self.resamples,
        }

    @property
    def driver_counts(self) -> dict[str, Counts]:
        """What the driver does before, between and after the passes."""
        p, r = self.drawn, self.kept
        wide = [d for d in self.dims if d > 1]
        return {
            "prune": {
                **gram_counts(p, self.dims),
                "factor operation": (p**3 - (p - r) ** 3) / 3,
                "factor entry": p * p,
            },
            "solve": {
                "solve operation": r * r * (self.resamples + 1.0),
                "solved number": r * (self.resamples + 1.0),
            },
            "estimate": {
                **gram_counts(r, self.dims),
                "factor operation": len(wide) * r**3 / 3,
                "factor entry": len(self.dims) * r * r,
            },
        }

    @property
    def driver_bytes(self) -> int:
        """Bytes that the driver needs at its largest step, as the package plans them."""
        solve = 4 * 8 * self.kept * (self.resamples + 1) + 2 * 8 * self.kept**2
        return max(3 * 8 * self.drawn**2, solve)

    @property
    def fetched_rows(self) -> int:
        """Rows of every variable that are landmarks or tell the bandwidths."""
        return min(self.rows, self.drawn + BANDWIDTH_ROWS)

    def fetched_chunks(self) -> float:
        """Stored chunks of every variable in which these rows lie."""
        if self.chunk_rows is None:
            return 0.0
        chunks = math.ceil(self.rows / self.chunk_rows)
        log_missed = self.fetched_rows * math.log1p(-1 / chunks) if chunks > 1 else -math.inf
        return -chunks * math.expm1(log_missed)


def gram_counts(p: int, dims: tuple[int, ...]) -> Counts:
    """Of the Gram matrices of p landmarks, one a variable."""
    return {
        "gram entry": p * p * len(dims),
        "gram operation": 2.0 * p * p * sum(d + 2 for d in dims if d > 1),
    }


@dataclass(frozen=True)
class Machine:
    """Seconds of one of everything, by kind: a precision, "driver" or "cluster"."""

    rates: Mapping[str, Mapping[str, float]]

    def seconds(self, kind: str, counts: Mapping[str, float]) -> float:
        """Seconds of some operations."""
        rates = self.rates[kind]
        return sum(count * rates[term] for term, count in counts.items())

    @classmethod
    def of(cls, table: Iterable[Mapping[str, Any]]) -> Machine:
        """From rows as `table` gives them."""
        rates: dict[str, dict[str, float]] = {}
        for row in table:
            rates.setdefault(row["kind"], {})[row["term"]] = float(row["seconds"])
        return cls(rates)

    @property
    def table(self) -> list[dict[str, Any]]:
        """Rates as rows."""
        return [
            {"kind": kind, "term": term, "seconds": seconds}
            for kind, terms in self.rates.items()
            for term, seconds in terms.items()
        ]


@dataclass(frozen=True)
class Workers:
    """Where a test runs.

    Parameters
    ----------
    count : int
        Threads that work.
    processes : bool
        Whether they are processes of a cluster, one thread each.
    link_bytes, read_bytes : float, optional
        Bytes a second between workers, and from storage to each process, as a network allows.
    latency : float, optional
        Seconds of a message.
    crowded : bool, optional
        Whether they keep all processors of one machine busy, and share its caches and memory.
    """

    count: int
    processes: bool
    link_bytes: float = math.inf
    read_bytes: float = math.inf
    latency: float = 5e-4
    crowded: bool = False


@dataclass(frozen=True)
class Prediction:
    """Seconds of a test, part by part; the parts add up.

    `scheduling` is what the scheduler adds: the graph before a pass, and what it takes longer than
    the workers.
    """

    parts: Mapping[str, float]
    served: float = field(default=0.0)
    """Seconds of the scheduler, hidden or not."""

    @property
    def seconds(self) -> float:
        """All of it."""
        return sum(self.parts.values())

    @property
    def bottleneck(self) -> str:
        """The largest part."""
        return max(self.parts, key=self.parts.__getitem__)


@dataclass(frozen=True)
class PassCost:
    """A pass, as the formula and the simulation take it."""

    blocks: int
    tile_seconds: float
    """Of a whole block."""
    read_seconds: float
    last_share: float
    """Rows of the last block over those of a whole one."""
    combine_seconds: float
    """Of a task of the tree."""
    fetch_seconds: float
    """Of one partial result that is elsewhere."""


def chunk_seconds(job: Job, machine: Machine, workers: Workers) -> float:
    """Seconds to read a stored chunk of every variable."""
    if job.chunk_rows is None:
        return 0.0
    cluster, size = machine.rates["cluster"], min(job.chunk_rows, job.rows) * job.row_bytes
    rate = cluster["decoded byte"] + 1 / workers.read_bytes
    return len(job.dims) * cluster["read chunk"] + size * rate


def fetch_seconds(job: Job, machine: Machine, workers: Workers) -> float:
    """Seconds until the driver has the landmarks, read by it or in tasks of the workers."""
    chunks, cluster = job.fetched_chunks(), machine.rates["cluster"]
    served = sum(cluster[f"{what} task"] for what in ("built", "submitted", "finished"))
    by_driver = by_workers = sent = 0.0
    tasks = 0
    for variable in (replace(job, dims=(d,)) for d in job.dims):
        seconds = chunks * chunk_seconds(variable, machine, workers)
        sizes = (job.chunk_rows or 0, variable.row_bytes, job.fetched_rows)
        own = count_tasks(math.ceil(chunks), *sizes, workers.count) if workers.processes else 0
        if not own:
            by_driver += seconds
            continue
        by_workers, tasks = by_workers + seconds, tasks + own
        sent += job.fetched_rows * variable.row_bytes
    if tasks:
        by_workers *= math.ceil(tasks / workers.count) / tasks
    sending = sent * (cluster["sent byte"] + 1 / workers.link_bytes)
    return by_driver + by_workers + tasks * served + sending


def pass_cost(job: Job, machine: Machine, workers: Workers, name: PassName) -> PassCost:
    """Seconds of the tasks of a pass."""
    blocks, state = job.blocks(name), job.state_bytes(name)
    cluster = machine.rates["cluster"]
    slower = cluster[f"crowding of {name}"] if workers.crowded else 1.0
    # A block is whole chunks, or a part of one, which is read whole for every part.
    read = math.ceil(blocks[0] / (job.chunk_rows or job.rows)) * chunk_seconds(
        job, machine, workers
    )
    tiles = machine.seconds(job.precision, job.counts(name, blocks[0])) * slower
    adds, fetch, task = FAN_IN * state * cluster["added byte"], 0.0, cluster["thread task"]
    if workers.processes:
        fetch = state * (cluster["sent byte"] + 1 / workers.link_bytes) + workers.latency
        task = cluster["worker task"] + cluster["idle task"]
    share = blocks[-1] / blocks[0]
    return PassCost(len(blocks), tiles + task, read, share, adds + task, fetch)


def tree_tasks(blocks: int) -> tuple[int, int]:
    """Tasks that combine so many results, and the levels of their tree."""
    tasks, depth, level = 0, 0, blocks
    while level > 1:
        level, depth = -(-level // FAN_IN), depth + 1
        tasks += level
    return tasks, depth


def waves(blocks: int, last_share: float, workers: int) -> float:
    """Whole blocks that the busiest of some workers does."""
    full, rest = divmod(blocks - 1, workers)
    return full + (1.0 if rest else last_share)


def predict(job: Job, machine: Machine, workers: Workers) -> Prediction:
    """Seconds of a test by the formula."""
    driver = {name: machine.seconds("driver", counts) for name, counts in job.driver_counts.items()}
    cluster = machine.rates["cluster"]
    parts = {
        "start": cluster["start of processes" if workers.processes else "start of threads"],
        "fetch landmarks": fetch_seconds(job, machine, workers),
        "tiles": 0.0,
        "reading": 0.0,
        "combining": 0.0,
        "scheduling": 0.0,
        "driver solve": sum(driver.values()),
    }
    served = 0.0
    for name in PASSES:
        cost = pass_cost(job, machine, workers, name)
        combines, depth = tree_tasks(cost.blocks)
        rounds = waves(cost.blocks, cost.last_share, workers.count)
        tiles, reading = rounds * cost.tile_seconds, rounds * cost.read_seconds
        shared = combines / workers.count * cost.combine_seconds
        shared += cost.blocks / workers.count * cost.fetch_seconds
        path = depth * (cost.combine_seconds + FAN_IN * cost.fetch_seconds)
        parts["tiles"] += tiles
        parts["reading"] += reading
        parts["combining"] += shared + path if workers.processes else shared
        if workers.processes:
            tasks = cost.blocks + combines
            finish = tasks * cluster["finished task"]
            parts["scheduling"] += cluster["start of a pass"] + tasks * (
                cluster["built task"] + cluster["submitted task"]
            )
            parts["scheduling"] += max(0.0, finish - tiles - reading - shared)
            served += finish + tasks * cluster["submitted task"]
    return Prediction(parts, served)
