"""What a cluster does to a run is said in words, wherever the engine waits for it."""

import dask.array as da
import numpy as np
import pytest
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from dhsic.engine.failures import failures_in_words
from dhsic.engine.run import take_rows
from dhsic.engine.session import Session
from dhsic.errors import DhsicError, MemoryBudgetError
from dhsic.io.open import open_variables
from tests.engine.toys import Gather, PairGather, on

FAILURES = [
    (KilledWorker("task", None, 3), MemoryBudgetError, "4 workers died"),
    (FutureCancelledError("task", "scheduler-connection-lost"), DhsicError, "was lost"),
]


@pytest.mark.parametrize(("failure", "error", "words"), FAILURES)
def test_failures_in_words__have_a_remedy(failure, error, words):
    with pytest.raises(error, match=words), failures_in_words():
        raise failure


def test_failures_in_words__leave_others_as_they_are():
    failure = FutureCancelledError("task", None)
    with pytest.raises(FutureCancelledError), failures_in_words():
        raise failure


class Doomed:
    """A client whose futures fail."""

    def __init__(self, client, failure):
        self.client, self.failure = client, failure

    def __getattr__(self, name):
        return getattr(self.client, name)

    def gather(self, futures):
        raise self.failure

    def compute(self, collections):
        return [self for _ in collections]

    def nthreads(self):
        raise self.failure


@pytest.mark.parametrize(("failure", "error", "words"), FAILURES)
def test_take_rows__says_what_happened(client, failure, error, words):
    rows = [np.arange(3)] * 2
    lazy = open_variables([da.ones(9, chunks=3), np.ones(9)])
    with pytest.raises(error, match=words):
        take_rows(lazy, rows, on(Doomed(client, failure)))


@pytest.mark.parametrize(
    "work",
    [
        lambda session: session.run(Gather()),
        lambda session: session.run_pairs(PairGather()),
        lambda session: session.map("null", len, 9),
    ],
    ids=["run", "run_pairs", "map"],
)
@pytest.mark.parametrize(("failure", "error", "words"), FAILURES)
def test_session__says_what_happened(client, monkeypatch, work, failure, error, words):
    def fail(job, *_):
        job.leaves.clear()
        job.wanted.clear()
        raise failure

    monkeypatch.setattr("dhsic.engine.compute._on_client", fail)
    session = Session(open_variables(np.ones((2, 9))), on(client), 0)
    with pytest.raises(error, match=words):
        work(session)
