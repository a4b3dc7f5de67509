"""Every public function, wherever its data lie: NumPy, zarr, Dask, and whatever the chunks.

`tests/engine/test_places_client.py` has the same on a cluster.
"""

import inspect
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from importlib import import_module

import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import dhsic
from dhsic import causal
from tests.places import (
    CALLS,
    DATA,
    KERNEL,
    Heard,
    KilledError,
    N,
    answer,
    check_plan,
    differs,
    kill_at_each_pass,
    places_of,
)

# Few rows, of which the guard of approximate nulls warns.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)

MODULES = [
    "dhsic",
    *(f"dhsic.{name}" for name in ("analysis", "bench", "causal", "cluster", "report")),
]
TAKE_NO_ROWS = {
    *("load_embedding", "mmd", "stored_array", "register", "unregister", "find_regression"),
    *("landmarks_for_exponential_decay", "landmarks_for_polynomial_decay", "least_landmarks"),
    *("covariance_spectrum", "dependence_law"),  # a sample in memory
    *("mean_embedding_bound", "nystrom_m_bound", "nystrom_mmd_bound"),
    *("rff_hsic_bound", "v_statistic_bound"),
    *("accuracy_curve",),  # scores in memory
    *("scaling_study", "directions"),  # call others of the table
    *("connect", "local_cluster", "processors", "write_report", "check_report"),
}


def test_table__has_every_public_function_that_takes_rows():
    public = {
        name: function
        for module in map(import_module, MODULES)
        for name in module.__all__
        if inspect.isfunction(function := getattr(module, name))
    }
    called = {call.function for call in CALLS.values()}
    planned = {call.plan for call in CALLS.values()}
    left_out = {name for name, one in public.items() if one not in called | planned}
    assert left_out == TAKE_NO_ROWS


@pytest.fixture(scope="module")
def here():
    """Answers for arrays in memory, each computed once."""
    found = {}

    def answer_of(call):
        if id(call) not in found:
            found[id(call)] = answer(call(threads=1))
        return found[id(call)]

    return answer_of


@pytest.mark.parametrize("place", ["numpy", "zarr", "dask", "mixed"])
@every_call
def test_call__gives_its_answer_in_every_place_by_the_passes_that_it_names(
    call, place, here, tmp_path
):
    data, heard = places_of(place, call.names, tmp_path), Heard()
    found = call(data, threads=2, progress=heard)
    assert differs(answer(found), here(call), call) is None
    passes = [one for one in heard.of("PassStarted") if one.unit.endswith("rows")]
    announced = [one for started in heard.of("RunStarted") for one in started.passes]
    # Which graphs a search tests after the first depends on the data.
    searches = call.function is causal.search_dag
    assert announced == (passes[: len(announced)] if searches else passes)
    amounts = [Counter(), Counter()]
    for done, kind in zip(amounts, ("BlockFinished", "PassFinished"), strict=True):
        for one in heard.of(kind):
            done[one.name] += one.amount
    assert amounts[0] == amounts[1]
    if call.plan is not None:
        check_plan(call, data, heard, threads=2)


@settings(
    max_examples=2,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=st.integers(3, N + 9), columns=st.integers(1, 3), place=st.sampled_from(["zarr", "dask"])
)
@every_call
def test_answer__is_the_same_for_any_chunks(call, rows, columns, place, here):
    data = places_of(place, call.names, rows=rows, columns=columns)
    assert differs(answer(call(data, threads=1)), here(call), call) is None


@pytest.mark.parametrize("rows", [1, 2, N])
def test_answer__is_the_same_for_chunks_of_a_row(rows, here):
    call = CALLS["test"]
    assert answer(call(places_of("zarr", call.names, rows=rows), threads=1)) == here(call)


@every_call
def test_driver__has_one_blas_thread_as_workers_have(call):
    def blas_threads():
        return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

    seen = []
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        call(progress=lambda event: seen.append(blas_threads()))
        assert blas_threads() == before
    assert seen
    assert set.union(*seen) == {1}


@every_call
def test_answer__is_the_same_for_any_order_in_memory(call, here):
    """Rows apart from each other, columns before rows, and rows backwards; none is written to."""
    for data in (
        {name: values.copy(order="F") for name, values in DATA.items()},
        {name: np.repeat(values, 2, axis=0)[::-2][::-1] for name, values in DATA.items()},
    ):
        for values in data.values():
            values.setflags(write=False)
        assert differs(answer(call(data, threads=1)), here(call), call) is None


@pytest.mark.parametrize("estimator", ["v-hsic", "u-hsic", "u-cka", "sub-hsic", "dcov", "rff-hsic"])
@settings(max_examples=5)
@given(order=st.permutations(range(N)))
def test_estimate__does_not_depend_on_the_order_of_rows(estimator, order):
    kernels = {} if estimator in ("dcov", "dcor") else {"kernels": KERNEL}
    asked = {"estimator": estimator, "rng": 0, **kernels}
    x, y = DATA["x"], DATA["y"]
    first, other = dhsic.hsic(x, y, **asked), dhsic.hsic(x[order], y[order], **asked)
    assert other.estimate == pytest.approx(first.estimate, rel=1e-10)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "selection"])
def test_run__killed_at_each_of_its_passes_goes_on_to_the_same_bits(name, here, tmp_path):
    call = CALLS[name]
    data = places_of("mixed", call.names, tmp_path)
    kept, killed, before = {"checkpoint": str(tmp_path / "kept"), "threads": 1}, [], -1
    whole = answer(call(data, threads=1))
    while len(killed) > before:
        before = len(killed)
        with suppress(KilledError):
            found = call(data, progress=Heard(kill_at_each_pass(killed)), **kept)
    assert answer(found) == whole
    # Rows that are read whole are no result, and are where they were.
    again, rows = Heard(), "read all rows"
    assert answer(call(data, progress=again, **kept)) == whole
    assert {one.name for one in again.of("BlockFinished")} <= {rows}
    started = [one for one in again.of("PassStarted") if one.name != rows]
    assert all(one.resumed == one.amount for one in started)
    assert killed or again.of("PassStarted") == []


def many(n):
    x, y = np.random.default_rng(1).standard_normal((2, n, 2))
    return {"x": x, "y": x[:, :1] ** 2 + y[:, :1]}


def stored_in_memory(values, rows):
    """Chunks that hold nothing but zeros are written as well."""
    return zarr.create_array(
        zarr.storage.MemoryStore(),
        data=values,
        chunks=(rows, 1)[: values.ndim],
        config={"write_empty_chunks": True},
    )


OF_BLOCKS = [
    *(("v-hsic, gamma", 2_000), ("v-hsic, permutation", 400), ("u-hsic, shifts", 2_000)),
    *(("dcov, shifts", 2_000), ("block-hsic, normal", 5_000), ("nystrom-m, gamma", 5_000)),
    *(("nystrom-m, shifts", 5_000), ("nystrom-hsic, shifts", 5_000), ("cka, shifts", 5_000)),
    *(("rff-hsic, spectral", 5_000), ("ranking", 20_000), ("nystrom-hsic, martingale", 5_000)),
]


@pytest.mark.parametrize(("name", "n"), OF_BLOCKS)
def test_test__of_many_blocks_is_that_of_one(name, n):
    """Blocks follow the chunks of stored rows, whose sums differ in their order alone."""
    call, data = CALLS[name], many(n)
    stored = {key: stored_in_memory(values, 3 * n // 10) for key, values in data.items()}
    found, one = call(stored, threads=2, progress=(heard := Heard())), call(data, threads=2)
    assert max(event.parts for event in heard.of("PassStarted")) > 1
    assert differs(answer(found), answer(one), replace(call, bits=False)) is None
    assert answer(call(stored, threads=1)) == answer(found)
    plan = check_plan(call, stored, heard, threads=2)
    done = [one for one in heard.of("PassFinished") if one.unit.endswith("rows")]
    assert [(one.name, one.blocks, one.amount) for one in done] == [
        (step.name, step.blocks, step.amount) for step in plan.passes
    ]


@pytest.mark.parametrize("place", ["zarr", "dask"])
def test_rare_values__are_found_in_every_place(place):
    """Of a variable that is 0 but in a few rows, a sample need not have any."""
    x, y = many(5_000).values()
    rare = np.where(np.arange(5_000) % 1_601 == 7, y[:, 0], 0.0)
    lies = stored_in_memory(rare, 300) if place == "zarr" else da.from_array(rare, chunks=700)
    asked = {"rng": 0, "threads": 1, "kernels": "gaussian", "estimator": dhsic.NystromHSIC(20)}
    here, there = (dhsic.independence_test(one, x, **asked) for one in (rare, lies))
    assert there.variables == here.variables
    assert there.statistic == pytest.approx(here.statistic, rel=1e-10)
    assert there.pvalue == here.pvalue
