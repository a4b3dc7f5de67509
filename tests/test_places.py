"""Every public function, wherever its data lie: NumPy, zarr, Dask, and whatever the chunks.

`tests/engine/test_places_client.py` has the same on a cluster.
"""

import inspect
from importlib import import_module

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dhsic
from tests.places import (
    CALLS,
    DATA,
    KERNEL,
    Heard,
    KilledError,
    N,
    answer,
    kill_at_each_pass,
    places_of,
    steps_of,
)

# Few rows, of which the guard of approximate nulls warns.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)

MODULES = [
    "dhsic",
    *(f"dhsic.{name}" for name in ("analysis", "bench", "causal", "cluster", "report")),
]
TAKE_NO_ROWS = {
    "load_embedding": "a file",
    "mmd": "two embeddings",
    "register": "an estimator",
    "unregister": "an estimator",
    "stored_array": "says where rows lie",
    "covariance_spectrum": "a pilot sample in memory",
    "landmarks_for_exponential_decay": "numbers",
    "landmarks_for_polynomial_decay": "numbers",
    "least_landmarks": "spectra",
    "mean_embedding_bound": "spectra",
    "nystrom_m_bound": "spectra",
    "scaling_study": "times calls of independence_test",
    "accuracy_curve": "scores in memory",
    "precision_recall_curve": "scores in memory",
    "roc_curve": "scores in memory",
    "find_regression": "a name",
    "directions": "pairs; in the table",
    "connect": "starts processes",
    "local_cluster": "starts processes",
    "processors": "nothing",
    "write_report": "a result",
    "check_report": "nothing",
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
    assert left_out == TAKE_NO_ROWS.keys()


@pytest.fixture(scope="module")
def here():
    """Answers for arrays in memory, each computed once."""
    found = {}

    def answer_of(call):
        if id(call) not in found:
            found[id(call)] = answer(call(threads=1))
        return found[id(call)]

    return answer_of


@pytest.mark.parametrize("place", ["zarr", "dask", "mixed"])
@every_call
def test_answer__is_the_same_to_the_bit_in_every_place(call, place, here, tmp_path):
    assert answer(call(places_of(place, tmp_path), threads=2)) == here(call)


@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=st.integers(1, N + 9), columns=st.integers(1, 3), place=st.sampled_from(["zarr", "dask"])
)
@every_call
def test_answer__is_the_same_to_the_bit_for_any_chunks(
    call, rows, columns, place, here, tmp_path_factory
):
    data = places_of(place, tmp_path_factory.mktemp("chunks"), rows, columns)
    assert answer(call(data, threads=1)) == here(call)


@every_call
def test_answer__is_the_same_to_the_bit_for_any_order_in_memory(call, here):
    """Rows apart from each other, columns backwards, and first columns first."""
    strided = {name: np.repeat(values, 2, axis=0)[::2] for name, values in DATA.items()}
    by_columns = {name: np.asfortranarray(values) for name, values in DATA.items()}
    backwards = {name: values[::-1].copy()[::-1] for name, values in DATA.items()}
    for data in (strided, by_columns, backwards):
        assert answer(call(data, threads=1)) == here(call)


@pytest.mark.parametrize("estimator", ["v-hsic", "u-hsic", "sub-hsic", "dcov", "dcor", "rff-hsic"])
@settings(max_examples=5, deadline=None, derandomize=True, database=None)
@given(order=st.permutations(range(N)))
def test_estimate__does_not_depend_on_the_order_of_rows(estimator, order):
    kernels = {} if estimator in ("dcov", "dcor") else {"kernels": KERNEL}
    asked = {"estimator": estimator, "rng": 0, **kernels}
    x, y = DATA["x"], DATA["y"]
    first, other = dhsic.hsic(x, y, **asked), dhsic.hsic(x[order], y[order], **asked)
    assert other.estimate == pytest.approx(first.estimate, rel=1e-10)


@pytest.mark.parametrize("place", ["numpy", "zarr", "dask"])
@every_call
def test_run__takes_the_passes_that_it_says_first(call, place, tmp_path):
    """Functions that run others say so once for each."""
    heard = Heard()
    call(places_of(place, tmp_path), threads=2, progress=heard)
    passes = [one for one in heard.of("PassStarted") if one.unit != "resamples"]
    announced = [one for started in heard.of("RunStarted") for one in started.passes]
    assert passes == announced
    for kind, amount in (("PassStarted", "parts"), ("PassFinished", "blocks")):
        for one in heard.of(kind):
            assert getattr(one, amount) >= 1
    done = {}
    for one in heard.of("BlockFinished"):
        done[one.name] = done.get(one.name, 0) + one.amount
    taken = {}
    for one in heard.of("PassFinished"):
        taken[one.name] = taken.get(one.name, 0) + one.amount
    assert done == taken


@pytest.mark.parametrize("place", ["numpy", "zarr", "dask"])
@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if call.plan])
def test_run__takes_the_steps_of_its_plan(name, place, tmp_path):
    call, data, heard = CALLS[name], places_of(place, tmp_path), Heard()
    call(data, threads=2, progress=heard)
    plan = call.planned(data, threads=2)
    assert steps_of(heard.events) == [step.name for step in plan.steps]
    assert [one.bytes_read for one in heard.of("PassFinished") if one.unit != "resamples"] == [
        step.bytes_read for step in plan.passes
    ]


@pytest.mark.parametrize("place", ["numpy", "mixed"])
@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("selection",)])
def test_run__killed_at_each_of_its_passes_goes_on_to_the_same_bits(name, place, here, tmp_path):
    call, data = CALLS[name], places_of(place, tmp_path)
    kept, killed = {"checkpoint": str(tmp_path / "kept"), "threads": 1}, []
    while True:
        heard, before = Heard(kill_at_each_pass(killed)), len(killed)
        try:
            found = call(data, progress=heard, **kept)
        except KilledError:
            assert len(killed) == before + 1
        else:
            break
    assert answer(found) == here(call)
    assert answer(call(data, progress=(again := Heard()), **kept)) == here(call)
    assert again.of("BlockFinished") == []
    assert all(one.resumed == one.amount for one in again.of("PassStarted"))
    assert killed or again.of("PassStarted") == []
