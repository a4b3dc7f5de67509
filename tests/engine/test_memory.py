"""Memory and reads of a run: no more than its plan says, and refused where that is too much."""

import copy
import gc
import subprocess
import sys
import tracemalloc
import weakref

import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec
from zarr.storage import LocalStore

import dhsic
from dhsic.engine.runtime import Budget
from dhsic.errors import MemoryBudgetError
from tests.engine.toys import CountingStore
from tests.places import CALLS, Heard

MIB = 2**20
WIDE = [(600, (3000, 1), "auto", 240), (6000, (200, 200), "shifts:20000", 370)]
FEW = {"estimator": dhsic.NystromMHSIC(20), "null": "gamma", "kernels": "gaussian"}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_call__that_needs_more_memory_than_is_allowed_is_refused_before_it_reads(call):
    with pytest.raises(MemoryBudgetError, match=r"memory") as caught:
        call(threads=1, memory="64KiB", progress=(heard := Heard()))
    assert "\n" not in str(caught.value)
    assert heard.of("PassStarted") == heard.of("RunStarted") == []
    if call.plan is not None:
        plan = call.planned(threads=1)
        assert plan.fits
        assert not call.planned(threads=1, memory="64KiB").fits
        assert plan.peak_bytes >= max(plan.peak_worker_bytes, plan.peak_driver_bytes) > 0


@pytest.mark.parametrize("estimator", ["v-hsic", "nystrom-hsic", "nystrom-m"])
def test_test__lets_go_of_its_data_when_it_ends(estimator):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((100, 1)), rng.standard_normal((100, 1))
    held = weakref.ref(x)
    gc.disable()  # without a search for objects that refer to each other
    try:
        dhsic.independence_test(x, y, estimator=estimator, rng=0)
        del x
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("memory", ["100MB", 10**8])
def test_test__is_refused_before_it_reads_with_what_would_fit(memory):
    class Unread:
        shape, dtype, ndim, chunks = (10**6, 2), np.dtype(float), 2, (1000, 2)

        def __getitem__(self, rows):
            raise AssertionError

    asked = {"kernels": "gaussian", "estimator": dhsic.NystromMHSIC(), "memory": memory}
    with pytest.raises(
        MemoryBudgetError,
        match=r"95.4 MiB are allowed; .* 'prune landmarks' with 1.4 GiB",
    ):
        dhsic.independence_test(Unread(), Unread(), **asked, rng=0)


AMOUNTS = {"1000": 1000, "3 b": 3, "2k": 2000, "2kB": 2000, "2KiB": 2048, "1.5 MiB": 3 * 2**19}
AMOUNTS |= {" 2gib ": 2**31, "2GB": 2 * 10**9, "1T": 10**12, "0.5TiB": 2**39, "1e9": 10**9}


def test_memory__is_read_in_decimal_and_binary_units():
    x, y = np.random.default_rng(0).standard_normal((2, 30))
    for text, amount in AMOUNTS.items():
        as_text, as_number = (dhsic.plan(x, y, memory=memory) for memory in (text, amount))
        allowed = [str(one).partition(", allowed ")[2][:9] for one in (as_text, as_number)]
        assert allowed[0] == allowed[1] != ""
        assert as_text.fits == as_number.fits == (amount > 2**28)


def test_plan__that_fits_is_run_with_what_it_needs():
    x, y = np.random.default_rng(0).standard_normal((2, 3_000, 2))
    needed = dhsic.plan(x, y, threads=1, **FEW).peak_bytes
    assert (
        0
        < dhsic.independence_test(x, y, rng=0, threads=1, memory=needed + 16 * MIB, **FEW).pvalue
        <= 1
    )


def test_plan__does_not_depend_on_threads_but_for_memory_and_time():
    x, y = np.random.default_rng(0).standard_normal((2, 40_000, 2))
    one, four = (dhsic.plan(x, y, threads=threads, **FEW) for threads in (1, 4))
    assert [step.name for step in one.steps] == [step.name for step in four.steps]
    assert [step.bounds for step in one.passes] == [step.bounds for step in four.passes]
    assert four.seconds < four.processor_seconds
    assert one.processor_seconds > 0.0
    text = str(four)
    for fact in ("40,000 of x1", "4 threads", "kernel sums", "peak memory"):
        assert fact in text


N, D = 120_000, 8
OBJECTS = 1_000_000  # bytes of Python objects: tasks, keys, and what zarr keeps of them
LAYOUTS = {  # rows of chunks and shards, codec
    "one chunk": (N, None, ZstdCodec()),
    "large chunks": (N // 3, None, GzipCodec(level=1)),
    "small chunks": (6_000, None, None),
    "longer than the data": (N + N // 2, None, BloscCodec()),
    "one shard": (6_000, N, ZstdCodec()),
}


def stored(store, layout, dtype="f4", **path):
    chunk, shard, codec = LAYOUTS[layout]
    x = np.random.default_rng(0).standard_normal((N, D)).astype(dtype)
    return zarr.create_array(
        store, data=x, chunks=(chunk, D), shards=shard and (shard, D), compressors=codec, **path
    )


@pytest.mark.parametrize("null", ["gamma", "shifts"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_run__allocates_no_more_than_is_planned(layout, null, tmp_path):
    x, y = stored(tmp_path / "x.zarr", layout), np.arange(N) % 100.0
    asked = {**FEW, "null": null, "threads": 1}
    planned = dhsic.plan(x, y, **asked).peak_worker_bytes
    dhsic.independence_test(x[:100], y[:100], rng=0, **asked)  # imports
    tracemalloc.start()
    dhsic.independence_test(x, y, rng=0, **asked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 1.1 * planned + OBJECTS


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layout", ["large chunks", "one chunk"])
def test_run__decodes_every_chunk_once_a_pass_for_all_variables_of_an_array(
    layout, threads, tmp_path
):
    stored(LocalStore(tmp_path), layout, name="f")
    store = CountingStore(LocalStore(tmp_path, read_only=True))
    group = zarr.open_group(store, mode="r")
    names = ["a=f[:, 0:3]", "b=f[:, 5]"]
    found = dhsic.independence_test(*names, data=group, rng=0, threads=threads, **FEW)
    # Once for the sample, and once for each pass.
    assert set(store.reads.values()) == {1 + len(found.passes)}
    x = group["f"][:]
    apart = dhsic.independence_test(
        *(x[:, :3], x[:, 5]), names=("a", "b"), rng=0, threads=threads, **FEW
    )
    assert found.statistic == pytest.approx(apart.statistic, rel=1e-9)
    assert found.passes[0].bytes_read == x.nbytes


def test_run__of_a_process_that_grows_beyond_what_is_allowed_ends_in_words(monkeypatch):
    """Other runs of this process may use as much each."""
    monkeypatch.setattr("dhsic.engine.runtime._seen", {})
    x, y = np.random.default_rng(0).standard_normal((2, 40_000, 2))
    allowed, held = dhsic.plan(x, y, threads=1, **FEW).peak_bytes, []

    def grow(event):
        held.append(np.ones(allowed // 8))

    with pytest.raises(MemoryBudgetError, match=r"were planned, and uses"):
        dhsic.independence_test(x, y, rng=0, threads=1, memory=allowed, progress=grow, **FEW)
    assert len(held) > 1


def test_run__counts_as_long_as_a_budget_of_it_is_there(monkeypatch):
    """Of two runs of a process, one whose tasks look by copies takes less than it may."""
    monkeypatch.setattr("dhsic.engine.runtime._seen", {})
    monkeypatch.setattr("dhsic.engine.runtime.own_bytes", lambda: resident * MIB)
    resident, one, other = 100, Budget(600 * MIB), Budget(300 * MIB)
    for budget in (one, copy.copy(one), other):
        budget.look()
    del budget
    resident = 700
    copy.copy(one).look()
    other.look()
    del one
    with pytest.raises(MemoryBudgetError, match="and uses 700"):
        other.look()


@pytest.mark.parametrize(("n", "dims", "null", "memory"), WIDE)
def test_plan__of_wide_rows_under_several_shifts_fits(n, dims, null, memory):
    data = [np.random.default_rng(0).standard_normal((n, d)) for d in dims]
    asked = {"estimator": "v-hsic", "threads": 1, "null": null}
    libraries = dhsic.plan(*data, **asked).baseline_bytes
    assert dhsic.plan(*data, **asked, memory=libraries + memory * MIB).fits


def peak_of(code):
    """The peak of a process that runs some code, in MiB."""
    code = f"{code}\nprint(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout) / 2**10


def test_many_pairs__take_the_memory_of_a_batch():
    """190 pairs took 1.8 GiB when all had their replicates at once."""
    peak = peak_of(
        "import numpy as np, dhsic\n"
        "dhsic.dependence_matrix(*np.random.default_rng(0).standard_normal((20, 1000)), rng=0)"
    )
    assert peak <= 400


@pytest.mark.nightly
def test_many_features__take_the_memory_of_a_batch():
    """1,000 features of 10,000 rows took 1.9 GiB with the replicates of a quarter at once."""
    peak = peak_of(
        "import numpy as np, dhsic\n"
        "x = np.random.default_rng(0).standard_normal((10_000, 1000))\n"
        "dhsic.rank_features(x, x[:, 0] ** 2, rng=0)"
    )
    assert peak <= 600


@pytest.mark.nightly
def test_many_replicates__take_no_more_memory_than_is_allowed():
    peak = peak_of(
        "import numpy as np, dhsic\n"
        "x, y = np.random.default_rng(0).standard_normal((2, 100))\n"
        "dhsic.independence_test(x, y, n_resamples=400_000, memory='208MiB', rng=0, threads=1)"
    )
    assert peak <= 208


@pytest.mark.nightly
@pytest.mark.xfail(
    strict=False,
    reason="in some runs one more copy of the chunk is alive: peaks of 240 to 277 MiB",
)
def test_one_chunk__takes_no_more_memory_than_is_allowed(tmp_path):
    rng, n = np.random.default_rng(0), 400_000
    for name, d in (("x", 20), ("y", 1)):
        data = rng.standard_normal((n, d)).astype("f4")
        zarr.create_array(tmp_path / name, data=data, chunks=(n, d))
    peak = peak_of(
        "import dhsic\n"
        f"x, y = {str(tmp_path / 'x')!r}, {str(tmp_path / 'y')!r}\n"
        "dhsic.independence_test(x, y, precision='float32', memory='256MiB', rng=0, threads=1)"
    )
    assert peak <= 256
