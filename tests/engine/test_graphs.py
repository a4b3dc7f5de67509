"""Graphs that no pass reads are computed where the user has the run take place."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, get_worker

import dhsic
from dhsic.errors import InvalidArgumentError
from tests.engine.toys import cluster_of_threads

N = 80
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((2, N))
GAPS = np.where(np.arange(N) == 3, np.nan, X)
LABELS = np.arange(N) // 20


PLACES = set()


@pytest.fixture(autouse=True)
def forget():
    PLACES.clear()


def told(block):
    try:
        PLACES.add(get_worker().scheduler.address)
    except ValueError:
        PLACES.add("here")
    return block


def graph(x):
    meta = np.empty((0,) * x.ndim, x.dtype)
    return da.from_array(x, chunks=20).map_blocks(told, dtype=x.dtype, meta=meta)


def frame():
    table = dd.from_pandas(pd.DataFrame({"a": X, "b": X**2}), npartitions=2)
    return table.map_partitions(told, meta=table._meta)


TESTS = {
    "drop": lambda place: dhsic.independence_test(graph(GAPS), Y, missing="drop", rng=0, **place),
    "pairwise": lambda place: dhsic.independence_test(
        graph(GAPS), Y, missing="pairwise", rng=0, **place
    ),
    "strata": lambda place: dhsic.independence_test(
        graph(X), Y, strata=graph(LABELS), rng=0, **place
    ),
    "weights": lambda place: dhsic.independence_test(
        X, Y, weights=graph(LABELS + 1.0), rng=0, **place
    ),
    "frame": lambda place: dhsic.hsic(frame(), Y, rng=0, **place),
    "samples": lambda place: dhsic.two_sample_test(
        graph(GAPS), Y, missing="drop", strata=[graph(LABELS), LABELS], rng=0, **place
    ),
    "conditional": lambda place: dhsic.conditional_independence_test(
        graph(GAPS), Y, given=graph(LABELS), method="strata", missing="drop", rng=0, **place
    ),
    "residuals": lambda place: dhsic.causal.residual_independence_test(
        graph(X), Y, given=X**2, groups=graph(np.arange(N) // 8), rng=0, **place
    ),
    "embedding": lambda place: dhsic.mean_embedding(frame()[["a"]], rng=0, **place),
}


@pytest.mark.parametrize("test", TESTS)
def test_graphs__are_computed_by_the_client_that_is_given(test):
    with cluster_of_threads() as cluster, Client(cluster, set_as_default=False) as own:
        TESTS[test]({"client": own})
        assert {own.scheduler.address} == PLACES


def test_graphs__are_computed_by_the_threads_that_are_given(client):
    # Dask would take the client that is at hand.
    TESTS["drop"]({"threads": 1})
    assert {"here"} == PLACES


@pytest.mark.parametrize(
    ("place", "message"),
    [({"client": {}}, "client must be a running"), ({"threads": 0}, "threads must be")],
)
def test_graphs__are_computed_nowhere_else(place, message):
    with pytest.raises(InvalidArgumentError, match=message):
        TESTS["drop"](place)
