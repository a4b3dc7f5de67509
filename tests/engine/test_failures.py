"""What a cluster does to a run is said in words, wherever the engine waits for it."""

import time
from dataclasses import dataclass
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from dhsic.engine.checkpoint import Checkpoint
from dhsic.engine.events import BlockFinished
from dhsic.engine.failures import explained_failures
from dhsic.engine.groups import Groups
from dhsic.engine.run import _rows_of
from dhsic.engine.session import Session
from dhsic.engine.supervision import StalledError
from dhsic.engine.take import take_rows
from dhsic.errors import DataError, DhsicError, MemoryBudgetError
from dhsic.io.folder import Folder
from dhsic.io.open import open_variables
from tests.cluster.slurm import wait_until
from tests.conftest import start_cluster
from tests.engine.toys import (
    Deadly,
    Gather,
    PairSums,
    cluster_of_threads,
    even_bounds,
    on,
    plan_of,
    run,
    threads,
)


def stalled():
    return StalledError("the cluster has had no workers for 60 s", "start some")


FAILURES = [
    (KilledWorker("task", None, 3), MemoryBudgetError, "4 workers died"),
    (FutureCancelledError("task", "scheduler-connection-lost"), DhsicError, "was lost"),
    (CommClosedError("in Client"), DhsicError, "was lost"),
    (
        stalled(),
        DhsicError,
        "has had no workers for 60 s",
    ),
]


@pytest.mark.parametrize(("failure", "error", "words"), FAILURES)
def test_failures_in_words__have_a_remedy(failure, error, words):
    with pytest.raises(error, match=words), explained_failures():
        raise failure


@pytest.mark.parametrize("failure", [failure for failure, *_ in FAILURES[1:]])
def test_failures_in_words__say_where_what_is_done_is_kept(failure, tmp_path):
    checkpoint = Checkpoint.open(Folder.at(str(tmp_path / "kept"), "it"), {})
    with (
        pytest.raises(DhsicError, match=rf"again, since what is done is kept in {tmp_path}/kept$"),
        explained_failures(checkpoint),
    ):
        raise failure


def test_failures_in_words__name_the_rows():
    rows = {"task": "rows 3 to 5"}
    with (
        pytest.raises(MemoryBudgetError, match=r"ran the same task \(rows 3 to 5\), most"),
        explained_failures(None, rows.get),
    ):
        raise FAILURES[0][0]


def test_failures_in_words__leave_others_as_they_are():
    failure = FutureCancelledError("task", None)
    with pytest.raises(FutureCancelledError), explained_failures():
        raise failure


class Doomed:
    """A client whose futures fail."""

    def __init__(self, client, failure):
        self.client, self.failure = client, failure

    def __getattr__(self, name):
        return getattr(self.client, name)

    def gather(self, futures, asynchronous):
        raise self.failure

    def compute(self, collections, **options):
        return [self for _ in collections]


@pytest.mark.parametrize(("failure", "error", "words"), FAILURES)
def test_take_rows__says_what_happened(client, failure, error, words):
    rows = [np.arange(3)] * 2
    lazy = open_variables([da.ones(9, chunks=3), np.ones(9)])
    with pytest.raises(error, match=words):
        take_rows(lazy, rows, on(Doomed(client, failure)))


WORKS = {
    "run": lambda session: session.run(Gather()),
    "run_pairs": lambda session: session.run_pairs(PairSums(groups=Groups(9, 1, 0))),
    "map": lambda session: session.map("null", len, 9),
    "take": lambda session: session.take([np.arange(3)] * 2),
}


@pytest.mark.parametrize("work", WORKS)
def test_session__says_where_what_is_done_is_kept(client, monkeypatch, work, tmp_path):
    def fail(*_):
        raise stalled()  # a new one: kept, its traceback would keep what was sent

    lazy = open_variables([da.ones(9, chunks=3), np.ones(9)])
    session = Session(lazy, threads(), 0, folder=Folder.at(str(tmp_path / "kept"), "it"))
    session.resume()
    session.runtime = on(Doomed(client, stalled()) if work == "take" else client)
    monkeypatch.setattr("dhsic.engine.compute._on_client", fail)
    with pytest.raises(DhsicError, match=rf"what is done is kept in {tmp_path}/kept$"):
        WORKS[work](session)


@pytest.mark.parametrize("work", ["run", "run_pairs", "map"])
@pytest.mark.parametrize(("failure", "error", "words"), FAILURES)
def test_session__says_what_happened(client, monkeypatch, work, failure, error, words):
    def fail(job, *_):
        job.leaves.clear()
        job.wanted.clear()
        raise failure

    monkeypatch.setattr("dhsic.engine.compute._on_client", fail)
    session = Session(open_variables(np.ones((2, 9))), on(client), 0)
    with pytest.raises(error, match=words):
        WORKS[work](session)


@dataclass(frozen=True)
class Poisoned(Gather):
    """Writes down each try of its blocks, and has one that is broken."""

    log: str = ""
    rows: int = -1

    def chunk(self, block):
        with Path(self.log).open("a") as file:
            file.write(f"{block.start}\n")
        if block.start == self.rows:
            msg = f"rows from {block.start} are broken"
            raise DataError(msg)
        return super().chunk(block)


def test_run_pass__of_a_broken_block_is_an_error_at_once(client, tmp_path):
    reduction = Poisoned(log=str(tmp_path / "log"), rows=30)
    with pytest.raises(DataError, match="rows from 30 are broken"):
        run(reduction, open_variables(np.ones((2, 100))), even_bounds(100, 10), on(client))
    assert (tmp_path / "log").read_text().split().count("30") == 1
    assert len(client.nthreads()) == 2


def test_run_pass__that_kills_its_workers_names_the_rows():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        start_cluster() as cluster,
        Client(cluster, set_as_default=False) as own,
    ):
        own.wait_for_workers(2, timeout=60)
        # One block alone: Dask counts the death of a worker against all tasks that it has.
        sources, bounds = open_variables(np.ones((2, 100))), even_bounds(100, 1)
        with pytest.raises(MemoryBudgetError, match=r"2 workers died .* \(rows 0 to 99\)"):
            run(Deadly(rows=0), sources, bounds, on(own))


def test_rows_of__names_the_blocks_of_a_task():
    plan = plan_of((0, 10, 25, 40), name="Gram sums", pairs=True)
    assert _rows_of("Gram-sums-0f1d-0-25", plan) == "rows 0 to 9 and 25 to 39"
    assert _rows_of("Gram-sums-0f1d-10-10", plan) == "rows 10 to 24"
    assert _rows_of("_combine-0f1d-10-10", plan) == ""
    assert _rows_of("kernel-sums-0f1d-10", plan_of((0, 10, 25), name="kernel sums")) == (
        "rows 10 to 24"
    )


class SlowToCombine(Gather):
    def combine(self, left, right):
        time.sleep(1.0)
        return super().combine(left, right)


def test_run_pass__does_not_wait_for_ever_where_only_combining_is_left(monkeypatch):
    monkeypatch.setitem(dask.config.config, "dhsic", {"stall-timeout": 2})
    finished = []
    with cluster_of_threads() as cluster, Client(cluster, set_as_default=False) as own:
        own.wait_for_workers(2, timeout=60)

        def retire(event):
            finished.append(event)
            if sum(isinstance(one, BlockFinished) for one in finished) == 12:
                cluster.scale(0)
                wait_until(lambda: not own.nthreads(), 60, "there are workers")

        with pytest.raises(DhsicError, match="has had no workers for 2 s"):
            run(
                *(SlowToCombine(), open_variables(np.ones((2, 120))), even_bounds(120, 12)),
                *(on(own), retire),
            )
    assert sum(isinstance(one, BlockFinished) for one in finished) == 12
