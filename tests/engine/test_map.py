"""Replicates in parallel: the same ranges anywhere, in order."""

import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from dhsic._random import generator
from dhsic.engine import replicates
from dhsic.engine.events import BlockFinished, PassFinished, PassStarted
from dhsic.engine.session import Session
from dhsic.io.open import open_variables
from tests.engine.toys import Watch, on, settled, threads


@pytest.fixture(params=["threads", "client"])
def runtime(request):
    return threads(3) if request.param == "threads" else on(request.getfixturevalue("client"))


def session(runtime, listener=None):
    return Session(open_variables(np.ones((2, 9))), runtime, 0, listener=listener)


def draws(numbers):
    return np.array([generator(0, "permutation", b).random() for b in numbers])


def late(numbers):
    time.sleep(0.02 * (numbers.start < 5))
    return numbers


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 250, 1000])
def test_map__covers_all_replicates_in_order(runtime, count):
    ranges = session(runtime).map("null", late, count)
    assert [number for numbers in ranges for number in numbers] == list(range(count))
    assert len(ranges) == min(count, 32)
    sizes = {len(numbers) for numbers in ranges}
    assert max(sizes) - min(sizes) <= 1


def test_map__gives_the_same_anywhere(client):
    results = [
        np.concatenate(session(where).map("null", draws, 100))
        for where in (threads(1), threads(3), on(client))
    ]
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
    np.testing.assert_array_equal(results[0], draws(range(100)))


def test_map__tells_of_resamples_and_is_no_pass_over_the_data(runtime):
    events = []
    mapped = session(runtime, events.append)
    mapped.map("null", len, 100)
    first, *blocks, last = events
    assert first == PassStarted("null", 32, 100, "resamples")
    assert {(type(event), event.name, event.unit) for event in blocks} == {
        (BlockFinished, "null", "resamples")
    }
    assert sorted(event.amount for event in blocks) == [3] * 28 + [4] * 4
    assert last == PassFinished("null", 32, 100, 0, last.seconds, last.worker_seconds, "resamples")
    assert mapped.finished == []


def ran_on(count, waits):
    """The thread that each range ran on, and whether all that is told comes from this one."""
    threads_of, told_by = [], set()

    def told(numbers):
        threads_of.append(threading.get_ident())
        time.sleep(waits)
        return numbers

    def listen(event):
        told_by.add(threading.get_ident())

    ranges = session(threads(count), listen).map("null", told, 100)
    assert [number for numbers in ranges for number in numbers] == list(range(100))
    assert told_by == {threading.get_ident()}
    return threads_of


@pytest.mark.parametrize(("count", "alone"), [(3, threading.TIMEOUT_MAX), (1, 0.0)])
def test_map__of_what_is_quick_or_has_one_thread_stays_in_this(count, alone, monkeypatch):
    monkeypatch.setattr(replicates, "_ALONE", alone)
    assert ran_on(count, 0.001) == [threading.get_ident()] * 32


def test_map__is_shared_by_all_threads_where_it_takes_long(monkeypatch):
    monkeypatch.setattr(replicates, "_ALONE", 0.0)
    assert len(set(ran_on(3, 0.05))) == 3


@pytest.mark.parametrize("here", [True, False])
def test_map__begins_no_range_after_an_error_on_any_thread(here, monkeypatch):
    monkeypatch.setattr(replicates, "_ALONE", 0.0)
    own, begun, raised = threading.get_ident(), [], threading.Event()

    def told(numbers):
        begun.append(numbers)
        if (threading.get_ident() == own) is here:
            raised.set()
            raise ZeroDivisionError
        raised.wait()
        time.sleep(0.2)

    with pytest.raises(ZeroDivisionError):
        session(threads(2)).map("null", told, 100)
    assert len(begun) <= 2


def fail(numbers):
    if 50 in numbers:
        msg = f"no luck at {numbers}"
        raise ZeroDivisionError(msg)
    return numbers


def test_map__raises_the_error_of_a_range(runtime):
    with pytest.raises(ZeroDivisionError, match=r"^no luck at range\(50, 53\)$"):
        session(runtime).map("null", fail, 100)
    if runtime.client is not None:
        assert settled(runtime.client) == 0


def slow(numbers):
    time.sleep(0.05)
    return numbers


@pytest.mark.parametrize("error", [KeyError("mine"), KeyboardInterrupt("mine")])
def test_map__stops_at_an_interrupt(runtime, error):
    finished = []

    def stop(event):
        if isinstance(event, BlockFinished):
            finished.append(event)
            raise error

    with pytest.raises(type(error), match="mine"):
        session(runtime, stop).map("null", slow, 100)
    assert len(finished) == 1
    if runtime.client is not None:
        assert settled(runtime.client) == 0


class Heavy:
    """A function that carries much."""

    def __init__(self, megabytes):
        self.ballast = np.random.default_rng(0).standard_normal(megabytes * 10**6 // 8)

    def __call__(self, numbers):
        return float(self.ballast[numbers.start])


def test_map__sends_the_function_once(client):
    watched, heavy = Watch(client), Heavy(13)
    values = session(on(watched)).map("null", heavy, 64)
    assert values == heavy.ballast[:64:2].tolist()
    assert heavy.ballast.nbytes < sum(watched.pieces) < heavy.ballast.nbytes + 20_000
    ((tasks, size),) = watched.graphs
    assert tasks == 32
    assert size / tasks < 4000


def test_map__takes_functions_of_functions(runtime):
    offset = 7
    assert session(runtime).map("null", lambda numbers: numbers[0] + offset, 2) == [7, 8]


def test_map__runs_with_one_blas_thread_each():
    limits = session(threads(2)).map("null", blas_threads, 2)
    assert {limit for found in limits for limit in found} == {1}


def blas_threads(numbers):
    return [library["num_threads"] for library in threadpool_info()]


def test_map__of_nothing_is_nothing():
    assert session(threads(2)).map("null", len, 0) == []
