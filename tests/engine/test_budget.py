"""The memory that a run takes beside what it was allowed."""

import gc
import time
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
import zarr
from distributed import Client

import dhsic
from dhsic.engine import budget, memory
from dhsic.engine.budget import TOLERANCE, Budget, own_bytes
from dhsic.engine.events import PassStarted
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.errors import MemoryBudgetError
from dhsic.io.open import open_variables
from tests.engine.toys import Sums, cluster_of_threads, even_bounds, run, slow_squares

MIB = 2**20
GIB = 2**30


@pytest.fixture
def resident(monkeypatch):
    """A process whose memory is set, and whose allocator has a gigabyte to give back or none."""

    class Process:
        bytes, spare = 100 * MIB, 0

        def give_back(self):
            self.bytes -= self.spare

    process = Process()
    monkeypatch.setattr(budget, "_seen", {})
    monkeypatch.setattr(budget, "own_bytes", lambda: process.bytes)
    monkeypatch.setattr(budget, "_trim", process.give_back)
    return process


def test_look__counts_what_is_taken_since_the_first(resident):
    watched = Budget(GIB)
    watched.look()
    resident.bytes += int(TOLERANCE * GIB) - 100 * MIB
    watched.look()
    resident.bytes += MIB
    with pytest.raises(MemoryBudgetError, match=r"may use 1\.0 GiB, and uses 1\.0 GiB: allow more"):
        watched.look()


def test_look__leaves_out_what_the_process_held_before(resident):
    resident.bytes = 100 * GIB
    watched = Budget(GIB)
    watched.look()
    watched.look(int(TOLERANCE * GIB) - 250 * MIB)
    with pytest.raises(MemoryBudgetError):
        watched.look(int(TOLERANCE * GIB) - 249 * MIB)


def test_look__tells_what_was_planned_and_what_is_next(resident):
    watched = Budget(GIB, planned=900 * MIB)
    with pytest.raises(MemoryBudgetError) as caught:
        watched.look(2 * GIB)
    assert str(caught.value) == (
        "a process may use 1.0 GiB, where 900.0 MiB were planned, and uses 100.0 MiB and is about "
        "to take 2.0 GiB: allow more memory, or take fewer threads, landmarks, features or "
        "resamples; data in large stored chunks need less memory once they are written in smaller "
        "ones"
    )


def test_look__asks_the_allocator_before_it_ends_a_run(resident):
    watched = Budget(GIB)
    watched.look()
    resident.bytes, resident.spare = 3 * GIB, 2 * GIB + 500 * MIB
    watched.look()
    assert resident.bytes == 3 * GIB - resident.spare


def test_make_room__asks_the_allocator_where_the_largest_step_would_not_fit(resident):
    watched = Budget(GIB, planned=900 * MIB)
    watched.look()
    resident.bytes, resident.spare = 500 * MIB, 300 * MIB
    runtime = Runtime(1, GIB, budget=watched)
    runtime.planned(500 * MIB, 100 * MIB).make_room()
    assert resident.bytes == 500 * MIB
    runtime.planned(900 * MIB, 100 * MIB).make_room()
    assert resident.bytes == 200 * MIB


def test_cycles__are_collected_before_a_run_ends_and_for_room_at_times_only(resident, monkeypatch):
    """A collection takes tenths of a second in a process of many objects."""
    collected = []
    monkeypatch.setattr(budget.gc, "collect", lambda: collected.append(len(collected)))
    watched = Budget(GIB, planned=900 * MIB)
    watched.make_room(900 * MIB)
    assert not collected
    for lately, expected in ((True, 0), (False, 1)):
        last = budget._Collection(seconds=10.0, ended=time.monotonic() - (1.0 if lately else 300.0))
        monkeypatch.setattr(budget, "_collected", last)
        watched.make_room(2 * GIB)
        assert len(collected) == expected
    with pytest.raises(MemoryBudgetError):
        watched.look(2 * GIB)
    assert len(collected) == 2


def test_passes__are_cut_as_planned_though_the_process_grows(no_libraries, monkeypatch):
    x, y = np.random.default_rng(0).standard_normal((2, 600, 3))
    options = {"threads": 1, "memory": "9MiB", "kernels": "gaussian"}
    options |= {"estimator": "nystrom-hsic", "n_resamples": 1200}
    planned = [step.name for step in dhsic.plan(x, y, **options).passes]
    begun = []

    def listener(event):
        # As soon as the run has begun the process takes all that it may.
        monkeypatch.setattr("dhsic.engine.runtime.baseline_bytes", lambda: 9 * MIB)
        if isinstance(event, PassStarted):
            begun.append(event.name)

    dhsic.independence_test(x, y, progress=listener, rng=0, **options)
    assert len(begun) == len(planned) > 1


def test_look__leaves_room_for_runs_at_the_same_time(resident, monkeypatch):
    first, second = Budget(GIB), Budget(2 * GIB)
    first.look()
    second.look()
    resident.bytes += int(2.5 * GIB)
    first.look()
    second.look()
    monkeypatch.setattr(budget, "_RECENT_SECONDS", 0.0)
    with pytest.raises(MemoryBudgetError):
        first.look()


def test_look__leaves_no_room_for_runs_that_have_ended(resident):
    first, second = Budget(GIB), Budget(2 * GIB)
    first.look()
    second.look()
    planned = replace(second, planned=GIB)
    planned.look()
    resident.bytes += int(2.5 * GIB)
    del second  # and the run goes on by its plan
    first.look()
    del planned
    with pytest.raises(MemoryBudgetError):
        first.look()


@pytest.mark.parametrize("place", ["threads", "client"])
def test_run__has_no_budget_when_it_has_ended(monkeypatch, place):
    monkeypatch.setattr(budget, "_seen", {})
    x, y = np.random.default_rng(0).standard_normal((2, 500))
    with ExitStack() as opened:
        options = {"threads": 2}
        if place == "client":
            cluster = opened.enter_context(cluster_of_threads())
            options = {"client": opened.enter_context(Client(cluster, set_as_default=False))}
        found = dhsic.independence_test(x, y, rng=0, **options)
        assert budget._seen
        until = time.monotonic() + 30  # workers forget when their scheduler has told them
        while (
            any(one.run in budget._seen for one in budget._held.values())
            and time.monotonic() < until
        ):
            time.sleep(0.05)
    assert not any(one.run in budget._seen for one in budget._held.values()), found


def test_look__knows_the_same_run_with_its_plan(resident):
    watched = Budget(GIB)
    watched.look()
    resident.bytes += GIB
    with pytest.raises(MemoryBudgetError, match=r"1\.0 MiB were planned"):
        replace(watched, planned=MIB).look(GIB)


def test_own_bytes__are_those_of_arrays_and_not_of_files(tmp_path):
    mapped = np.memmap(tmp_path / "x", "f8", "w+", shape=4 * MIB)
    mapped[:] = 1.0
    gc.collect()
    before = own_bytes()
    assert mapped.sum() == 4 * MIB
    assert own_bytes() - before < 16 * MIB
    held = np.ones(8 * MIB)
    assert own_bytes() - before == pytest.approx(held.nbytes, rel=0.3)


def test_own_bytes__are_known_without_proc(monkeypatch):
    known = own_bytes()

    def missing(*_):
        raise FileNotFoundError

    monkeypatch.setattr(memory, "open", missing, raising=False)
    assert 0.5 * known < own_bytes()


def test_test__ends_in_words_before_it_reads_a_chunk_that_the_plan_overlooked(
    tmp_path, resident, monkeypatch
):
    # The resident bytes stay what they are, so that the chunk to come is all that counts: what a
    # process of many tests takes by the way differs from run to run.
    n = 400_000
    x = np.random.default_rng(0).standard_normal((n, 20)).astype("f4")
    array = zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(n, 20))
    (found, _) = open_variables([array, np.zeros(n)])
    monkeypatch.setattr("dhsic.engine.passes.tasks_bytes", lambda *_: 0)
    allowed = dhsic.plan(array, array, threads=1).peak_bytes
    monkeypatch.setattr("dhsic.engine.budget.LIBRARIES", 0)
    monkeypatch.setattr("dhsic.engine.budget.TOLERANCE", found.decode_bytes(n) / 2 / allowed)
    with pytest.raises(MemoryBudgetError, match=r"were planned, and uses 0 B and is about to take"):
        dhsic.independence_test(array, array, threads=1, memory=allowed, rng=0)


def grown(monkeypatch, after):
    """A process that has taken twice as much as is allowed after some looks."""
    looks = iter(range(10**6))
    monkeypatch.setattr(budget, "_seen", {})
    monkeypatch.setattr(budget, "own_bytes", lambda: GIB + (next(looks) >= after) * 2 * GIB)


@pytest.mark.parametrize("after", [1, 3, 9])
def test_pass__looks_at_every_task(after, monkeypatch):
    grown(monkeypatch, after)
    sources = open_variables([np.ones((40_000, 1))] * 2)
    runtime = Runtime(1, 2**31, budget=Budget(GIB))  # none goes on after the error
    with pytest.raises(MemoryBudgetError, match=r"uses 2\.2 GiB"):
        run(Sums(), sources, even_bounds(40_000, 10), runtime)


def test_map_and_steps__look(monkeypatch):
    session = Session(
        open_variables([np.ones((40, 1))] * 2), Runtime(1, 2**31, budget=Budget(GIB)), seed=0
    )
    grown(monkeypatch, 1)
    session.step("solve")
    with pytest.raises(MemoryBudgetError):
        session.step("solve")
    grown(monkeypatch, 1)
    with pytest.raises(MemoryBudgetError):
        session.map("squares", slow_squares, 4)


def forget_other_runs():
    budget._seen.clear()


def test_worker__looks_for_itself(client):
    """Its error comes to the client, and its tasks are not tried again on other workers."""
    client.run(forget_other_runs)
    sources = open_variables([np.ones((4_000, 1))] * 2)
    runtime = Runtime(2, 2**31, 2, client, budget=Budget(1))
    with pytest.raises(MemoryBudgetError, match="a process may use 1 B, and uses"):
        run(Sums(), sources, even_bounds(4_000, 4), runtime)


def test_run__of_less_than_is_allowed_is_not_disturbed():
    held = np.ones(60 * MIB // 8)
    x, y = np.random.default_rng(0).standard_normal((2, 3_000, 2))
    plan = dhsic.plan(x, y, threads=2)
    found = dhsic.independence_test(x, y, rng=0, threads=2, memory=plan.peak_bytes)
    assert 0 < found.pvalue <= 1
    assert held.sum() == len(held)
