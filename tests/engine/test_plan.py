"""What a plan promises."""

import tracemalloc
from dataclasses import dataclass, replace

import numpy as np
import pytest
import zarr

import dhsic
from dhsic._work import NOTHING, REFERENCE, Rates, Work
from dhsic.engine import memory
from dhsic.engine.blocks import block_bounds
from dhsic.engine.memory import baseline_bytes
from dhsic.engine.passes import plan_pass
from dhsic.engine.plan import SPREAD, DriverStep, PassPlan, Plan
from dhsic.engine.reading import taken_bytes
from dhsic.engine.reduction import Footprint
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.engine.tree import most_waiting
from dhsic.engine.units import format_bytes, format_seconds
from dhsic.errors import MemoryBudgetError
from dhsic.estimators.landmark.orbits import MeansPass
from dhsic.estimators.landmark.terms import SignedPass
from dhsic.estimators.landmark.tuples import Tuples
from dhsic.estimators.resample import TwoSided
from dhsic.io.open import open_variables
from dhsic.kernels import Gaussian
from tests.engine.toys import Gather, Sums, threads

MIB = 2**20
STEPS = (
    DriverStep("fetch landmarks", 3 * MIB, 2 * MIB),
    DriverStep("prune landmarks", 20 * MIB, 8 * MIB),
    PassPlan("kernel sums", (0, 60, 120, 130), 1040, 64 * MIB, 4096),
    DriverStep("solve", 30 * MIB),
)


def plan(memory=2**31, client=None, steps=STEPS, baseline=100 * MIB):
    runtime = Runtime(4, memory, 2, client)
    return Plan(130, ("timbre", "year"), 800, runtime, steps, baseline, "take fewer threads")


def test_plan__peak_of_this_process_counts_what_is_held():
    assert plan().peak_driver_bytes == (100 + 2 + 8 + 64) * MIB
    assert plan().peak_worker_bytes == plan().peak_driver_bytes


def test_plan__peaks_on_a_client_are_apart():
    remote = plan(client=object())
    # The driver has the scheduler besides, with what it knows of each task.
    tasks = sum(one.tasks for one in remote.passes)
    assert remote.peak_driver_bytes == (100 + 2 + 8 + 30 + 48) * MIB + tasks * 16 * 2**10
    # A worker has distributed besides.
    assert remote.peak_worker_bytes == (100 + 32 + 64) * MIB


def test_plan__without_a_pass_needs_nothing_of_the_workers():
    assert plan(client=object(), steps=STEPS[:2]).peak_worker_bytes == (100 + 32) * MIB


class Uneven:
    """A client whose workers have one and seven threads."""

    status = "running"

    def nthreads(self):
        return {"tcp://a": 1, "tcp://b": 7}


def test_plan__is_for_the_worker_with_most_threads(tmp_path):
    class Scratch(Gather):
        def footprint(self, rows):
            return Footprint(payload=0, scratch=MIB, state=0, work=Work.of(calls=1.0))

    array = zarr.create_array(tmp_path / "x.zarr", data=np.ones((40_000, 1)), chunks=(4096, 1))
    sources = open_variables([array, array])
    uneven = Runtime.on(Uneven(), 2**31)
    assert (uneven.threads, uneven.workers) == (8, 2)
    seven, four = (Runtime(2 * most, 2**31, 2, object()) for most in (7, 4))
    needed = [plan_pass(Scratch(), sources, one).worker_bytes for one in (uneven, seven, four)]
    assert needed[0] == needed[1] >= needed[2] + 3 * MIB


def test_check__returns_a_plan_that_fits_exactly_and_refuses_the_next_byte():
    fits = plan(memory=174 * MIB)
    assert fits.check() is fits
    with pytest.raises(MemoryBudgetError) as caught:
        plan(memory=174 * MIB - 1).check()
    assert str(caught.value) == (
        "the plan needs 174.0 MiB in one process and 174.0 MiB are allowed; 100.0 MiB of it are "
        "the libraries, and the largest step is 'kernel sums' with 64.0 MiB: take fewer threads, "
        "or allow more memory"
    )


@pytest.mark.parametrize(
    ("worker_bytes", "name"), [(64 * MIB, "kernel sums' with 64.0"), (4 * MIB, "solve' with 30.0")]
)
def test_check__on_a_client_looks_at_workers_and_at_this_process(worker_bytes, name):
    steps = (*STEPS[:2], PassPlan("kernel sums", (0, 130), 0, worker_bytes, 4096), STEPS[3])
    with pytest.raises(MemoryBudgetError, match=f"the largest step is '{name} MiB"):
        plan(memory=120 * MIB, client=object(), steps=steps).check()


@pytest.mark.parametrize("memory", ["100MB", 10**8])
def test_independence_test__refuses_before_it_reads(memory):
    class Unread:
        shape, dtype, ndim, chunks = (10**6, 2), np.dtype(float), 2, (1000, 2)

        def __getitem__(self, rows):
            raise AssertionError

    asked = {"kernels": "gaussian", "estimator": dhsic.NystromMHSIC(), "memory": memory}
    with pytest.raises(
        MemoryBudgetError,
        match=r"in one process and 95.4 MiB are allowed; .* 'prune landmarks' with 1.4 GiB",
    ):
        dhsic.independence_test(Unread(), Unread(), **asked, rng=0)


def test_str__has_the_numbers():
    text = str(plan())
    facts = [
        "130 rows of timbre, year",
        "800 landmarks before pruning",
        "4 threads of this process",
        "driver  prune landmarks: 20.0 MiB",
        "pass    kernel sums: 3 blocks of up to 60 rows, 4 tasks, reads 1.0 KiB, "
        "64.0 MiB a worker, 4.0 KiB to the driver",
        "peak memory of a worker 174.0 MiB, of the driver 174.0 MiB, allowed 2.0 GiB",
    ]
    assert [fact for fact in facts if fact not in text] == []
    assert "2 workers with 4 threads in all" in str(plan(client=object()))


def test_seconds__are_those_of_the_thread_that_has_most_tasks():
    nine = PassPlan("sums", tuple(range(10)), 0, 0, 0, work=Work.of(calls=9e6))
    driver = DriverStep("solve", 0, work=Work.of(calls=2e6))
    found = plan(steps=(nine, driver))
    besides = found.processor_seconds - 11.0
    assert 0.0 < besides < 0.1
    assert found.seconds == pytest.approx(3.0 + 2.0 + besides)  # of 4 threads one has 3 of 9 tasks
    assert "about 5 s of 4 threads" in str(found)


def test_seconds__of_a_parallel_step_are_shared_by_all_threads():
    alone = DriverStep("solve", 0, work=Work.of(calls=8e6))
    shared = replace(alone, parallel=True)
    one, four = plan(steps=(alone,)), plan(steps=(shared,))
    assert one.processor_seconds == four.processor_seconds
    assert one.seconds - four.seconds == pytest.approx(8.0 - 8.0 / 4)


def test_seconds__on_a_client_are_no_fewer_than_those_of_its_scheduler():
    quick = PassPlan("sums", tuple(range(10_001)), 0, 0, 0)
    here, there = plan(steps=(quick,)), plan(steps=(quick,), client=object())
    assert here.seconds == here.processor_seconds
    assert there.seconds == pytest.approx(here.seconds + 5e-4 * quick.tasks)


def test_seconds__are_told_at_the_rates_that_are_given():
    rates = Rates("a slow machine", {kind: 7.0 * s for kind, s in REFERENCE.seconds.items()})
    slow, usual = replace(plan(), rates=rates), plan()
    assert slow.processor_seconds == pytest.approx(7.0 * usual.processor_seconds)
    assert slow.work == usual.work
    assert "at the rates of a slow machine" in str(slow)


def test_str__tells_how_many_threads_take_ten_minutes():
    long = PassPlan("shifts", (0, 130), 0, 0, 0, work=Work.of(calls=9000e6))
    whole = plan(steps=(long,))
    text = str(whole)
    low, high = (format_seconds(whole.processor_seconds * times) for times in SPREAD)
    assert f"about 2.5 h of one thread, nine times of ten {low} to {high}, at the rates of" in text
    assert "16 threads would take ten minutes" in text  # a little is done besides
    assert "ten minutes" not in str(plan())
    rates = Rates("a binary machine", dict.fromkeys(REFERENCE.seconds, 2.0**-20))
    for seconds in (600, 601):
        besides = plan(steps=(replace(long, work=NOTHING),)).work["calls"]
        work = Work.of(calls=seconds * 2**20 - besides)
        told = str(
            replace(plan(steps=(replace(long, work=work),)), rates=rates, runtime=threads(1))
        )
        assert ("threads would take ten minutes" in told) == (seconds > 600)


@pytest.mark.parametrize(
    ("blocks", "tasks"),
    [(1, 1), (2, 3), (4, 5), (5, 5 + 2 + 1), (16, 16 + 4 + 1), (17, 17 + 5 + 2 + 1)],
)
def test_pass_plan__counts_tasks(blocks, tasks):
    assert PassPlan("p", tuple(range(blocks + 1)), 0, 0, 0).tasks == tasks


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1.5 * 2**20, "1.5 MiB"),
        (2**30, "1.0 GiB"),
        (2**50, "1024.0 TiB"),
    ],
)
def test_format_bytes__is_for_people(amount, text):
    assert format_bytes(amount) == text


def test_plan_pass__takes_the_largest_chunk_and_all_bytes(tmp_path):
    x = zarr.create_array(tmp_path / "x.zarr", data=np.zeros((30_000, 3)), chunks=(5000, 1))
    y = zarr.create_array(tmp_path / "y.zarr", data=np.zeros(30_000, "f4"), chunks=(700,))
    passed = plan_pass(Gather(), open_variables([x, y]), threads())
    assert passed.bounds == tuple(block_bounds(30_000, 28, 5000, 1.0, 1))
    edges = range(0, 30_000, 5000)
    decoded = [min(-(-(a + 5000) // 700) * 700, 30_000) - a // 700 * 700 for a in edges]
    assert passed.bytes_read == 24 * 30_000 + 4 * sum(decoded)
    assert passed.rows_per_block == 5000


@dataclass(frozen=True)
class Costly(Sums):
    payload: int = 0
    scratch: int = 0
    state: int = 0
    seconds: float = 5e-11

    def footprint(self, rows):
        return Footprint(self.payload, self.scratch, self.state, Work.of(calls=self.seconds / 1e-6))


@pytest.mark.parametrize("cost", ["payload", "scratch", "state"])
def test_plan_pass__counts_every_cost(cost):
    sources = open_variables([np.zeros(20_000), np.zeros(20_000)])
    costs = MIB, 2 * MIB
    cheap, costly = (plan_pass(Costly(**{cost: c}), sources, threads(2)) for c in costs)
    more = costly.worker_bytes - cheap.worker_bytes
    # A thread has a partial result and makes two on the way to the sum of four.
    states = 2 * (1 + 2) + most_waiting(costly.leaves, costly.fan_in)
    assert more == {"payload": 1, "scratch": 2, "state": states}[cost] * MIB
    assert costly.bytes_to_driver == (2 * MIB if cost == "state" else 0)


def test_plan_pass__counts_arrays_that_a_client_must_send(tmp_path):
    x = zarr.create_array(tmp_path / "x.zarr", data=np.zeros((30_000, 3)), chunks=(5000, 3))
    sources = open_variables([x, np.zeros((30_000, 2))])
    here = plan_pass(Gather(), sources, threads(2))
    there = plan_pass(Gather(), sources, Runtime(2, 2**31, 1, client=object()))
    assert there.worker_bytes - here.worker_bytes == 30_000 * 2 * 8
    for planned in (here, there):
        assert (planned.work["decoded"], planned.work["bytes"]) == (30_000 * 3 * 8, 30_000 * 2 * 8)


def test_plan_pass__has_the_same_blocks_for_any_number_of_threads():
    sources = open_variables([np.zeros(200_000), np.zeros(200_000)])
    plans = [plan_pass(Costly(scratch=MIB), sources, threads(count)) for count in (1, 2, 16)]
    assert len({passed.bounds for passed in plans}) == 1
    assert [passed.worker_bytes for passed in plans] == [MIB, 2 * MIB, 16 * MIB]


def test_plan_pass__makes_blocks_of_a_second_of_work():
    sources = open_variables([np.zeros(10**6), np.zeros(10**6)])
    assert plan_pass(Costly(seconds=5e-4), sources, threads()).rows_per_block == 5000


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["numpy", "zarr"])
@pytest.mark.parametrize("name", ["sums", "multiplier"])
@pytest.mark.parametrize(
    ("m", "d", "p", "b"), [(2, 1, 300, 100), (3, 4, 100, 50), (2, 40, 500, 20)]
)
def test_plan_pass__bounds_the_memory_of_a_pass_and_not_by_far(
    m, d, p, b, name, kind, precision, tmp_path
):
    rng = np.random.default_rng(0)
    n = 9000
    data = [rng.standard_normal((n, d)) for _ in range(m)]
    kernels = (Gaussian(gamma=0.5 / d, origin=(0.0,) * d),) * m
    landmarks, pilots = tuple(x[:p] for x in data), (np.full(p, 0.5),) * m
    pair, precise = TwoSided(tuple(range(m - 1)), m - 1), np.dtype(precision)
    tuples = Tuples(
        kernels, tuple(range(m)), landmarks, (pair,), (np.arange(p),), pilots, precise, "joint"
    )
    reduction = MeansPass(tuples)
    if name == "multiplier":
        reduction = SignedPass(tuples, np.zeros(p), b, 0)
    if kind == "zarr":
        data = [
            zarr.create_array(tmp_path / f"{j}.zarr", data=x, chunks=(4500, d))
            for j, x in enumerate(data)
        ]
    sources = open_variables(data)
    session = Session(sources, threads(1), 0, precision)
    session.run(reduction)
    predicted = session.plan(reduction).worker_bytes - reduction.footprint(n).payload
    # Threads of zarr let go of a chunk that they handed over only when they run again.
    lingering = sum(source.decode_bytes(source.chunk_rows or 0) for source in sources)
    tracemalloc.start()
    session.run(reduction)
    measured = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert predicted / 4 < measured < predicted + lingering + 500_000


def test_baseline__leaves_out_what_the_user_holds(monkeypatch):
    monkeypatch.setattr(memory, "resident_bytes", lambda: (10 * 2**30, 0))
    assert baseline_bytes() == (250 + 16) * MIB
    monkeypatch.setattr(memory, "resident_bytes", lambda: (7, 0))
    assert baseline_bytes() == 7 + 16 * MIB


def test_plan_pass__counts_whole_chunks_that_are_larger_than_a_block(tmp_path):
    x = zarr.create_array(
        tmp_path / "x.zarr", shape=(2_000_000, 16), chunks=(2_000_000, 16), dtype="f8"
    )
    passed = plan_pass(Gather(), open_variables([x, np.zeros(2_000_000)]), threads(2))
    chunk = 8 * 16 * 2_000_000
    assert passed.blocks == 8
    assert passed.split == (0,)  # which reads it once
    assert passed.bytes_read == chunk + 8 * 2_000_000
    assert (
        3 * chunk < passed.worker_bytes < 3.01 * chunk
    )  # as stored, decoded and as the rows that were read


def test_plan_pass__counts_whole_chunks_of_which_workers_take_a_few_rows(tmp_path):
    x = zarr.create_array(
        tmp_path / "x.zarr", shape=(2_000_000, 16), chunks=(1_000_000, 16), dtype="f8"
    )
    sources = open_variables([x, np.zeros(2_000_000)])
    decoding = 2 * 8 * 16 * 1_000_000  # as stored, of unknown size, and decoded
    assert taken_bytes(sources[0]) == decoding
    assert taken_bytes(sources[1]) == 0
    there = plan_pass(Gather(), sources, Runtime(3, 2**31, 1, client=object()))
    assert there.worker_bytes >= 3 * decoding


def test_plan__counts_copies_of_arrays_that_are_sent():
    sources = open_variables([np.zeros((20_000, 3)), np.zeros(20_000)])
    here = plan_pass(Gather(), sources, threads(2))
    there = plan_pass(Gather(), sources, Runtime(2, 2**31, 2, object()))
    assert (here.sent_bytes, there.sent_bytes) == (0, 8 * 4 * 20_000)
    sent = plan(client=object(), steps=(there,)).peak_driver_bytes - 100 * MIB
    assert sent >= 4 * there.sent_bytes


def test_independence_test__says_what_to_do_for_its_estimator():
    with pytest.raises(MemoryBudgetError, match="take estimator='nystrom-m', fewer rows"):
        dhsic.independence_test(
            *np.zeros((2, 30_000)),
            kernels="gaussian",
            estimator="v-hsic",
            null=dhsic.Permutation(within="all"),
        )


@pytest.mark.parametrize(
    ("state", "fan_in", "tasks"), [(2**24 - 1, 4, 14 + 4 + 1), (2**24, 2, 14 + 7 + 4 + 2 + 1)]
)
def test_plan__combines_two_large_states_at_a_time(state, fan_in, tasks):
    plan = PassPlan("sums", tuple(range(15)), 0, 0, state)
    assert (plan.fan_in, plan.tasks) == (fan_in, tasks)
