"""The loss of workers changes no bit."""

import os
import signal

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client

import dhsic
from dhsic.engine.events import BlockFinished
from dhsic.engine.session import Session
from dhsic.io.open import open_variables
from tests.cluster.slurm import wait_until
from tests.conftest import start_cluster
from tests.engine.toys import (
    Gather,
    PairSums,
    SlowPairs,
    bits,
    cluster_of_threads,
    even_bounds,
    gathered,
    on,
    run,
    slow_squares,
    threads,
)

N = 400
DATA = np.random.default_rng(0).standard_normal((2, N, 2))


@pytest.fixture
def mortal():
    """Two workers of each test's own: whether a dead one is started anew is not for sure."""
    with start_cluster() as cluster, Client(cluster, set_as_default=False) as own:
        own.wait_for_workers(2, timeout=60)
        yield own


def process_ids(client):
    return list(client.run(os.getpid).values())


def test_run_pass__survives_the_death_of_all_workers(mortal):
    workers = process_ids(mortal)
    finished = []

    def kill_at_the_tenth(event):
        finished.append(event)
        if sum(isinstance(event, BlockFinished) for event in finished) == 10:
            while workers:
                os.kill(workers.pop(), signal.SIGKILL)
            mortal.cluster.scale(3)

    reduction, sources, bounds = Gather(0.05), open_variables(list(DATA)), even_bounds(N, 40)
    state, done = run(reduction, sources, bounds, on(mortal), kill_at_the_tenth)
    assert workers == []
    assert done.amount == N
    assert sum(isinstance(event, BlockFinished) for event in finished) == 40
    expected, _ = run(Gather(), sources, bounds, threads(1))
    assert gathered(state)[0] == gathered(expected)[0]
    for x, y in zip(gathered(state)[1], gathered(expected)[1], strict=True):
        assert x.tobytes() == y.tobytes()


class Killer:
    """A listener that kills a worker at the tenth event."""

    def __init__(self, victim):
        self.victim, self.events = victim, []

    def __call__(self, event):
        self.events.append(event)
        if len(self.events) == 10:
            os.kill(self.victim, signal.SIGKILL)


def test_run_pass__of_pairs_survives_the_death_of_a_worker(mortal):
    sources, bounds = (
        open_variables([DATA[0], da.from_array(DATA[1], chunks=90)]),
        even_bounds(N, 9),
    )
    kill = Killer(process_ids(mortal)[0])
    state, _ = run(SlowPairs(), sources, bounds, on(mortal), kill)
    amounts = [event.amount for event in kill.events if isinstance(event, BlockFinished)]
    assert (len(amounts), sum(amounts)) == (45, N * (N + 1) // 2)
    assert bits(state) == bits(run(PairSums(), sources, bounds, threads(1))[0])


def test_map__survives_the_death_of_a_worker(mortal):
    kill = Killer(process_ids(mortal)[0])
    squares = Session(open_variables(list(DATA)), on(mortal), 0, listener=kill).map(
        "squares", slow_squares, 64
    )
    assert [square for some in squares for square in some] == [b**2 for b in range(64)]
    assert sum(isinstance(event, BlockFinished) for event in kill.events) == 32


def test_run_pass__does_not_wait_for_ever_without_workers(monkeypatch):
    monkeypatch.setitem(dask.config.config, "dhsic", {"stall-timeout": 2})
    with cluster_of_threads() as cluster, Client(cluster, set_as_default=False) as own:
        sources, bounds = open_variables(list(DATA)), even_bounds(N, 40)

        def retire(event):
            if isinstance(event, BlockFinished) and own.nthreads():
                cluster.scale(0)
                wait_until(lambda: not own.nthreads(), 60, "there are workers")

        with pytest.raises(dhsic.errors.DhsicError, match="has had no workers for 2 s"):
            run(Gather(0.2), sources, bounds, on(own), retire)
