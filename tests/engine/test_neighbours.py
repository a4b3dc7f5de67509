"""Large partial results are added on the worker that made them, and few of them travel."""

from contextlib import suppress
from dataclasses import replace

import dask
import pytest

from dhsic.engine.compute import neighbours_together
from dhsic.engine.run import run_pass
from dhsic.io.open import open_variables
from tests.engine.kept import Kept, N, NoLuckError, X, Y, opened
from tests.engine.toys import Sums, bits, cluster_of_threads, even_bounds, on, plan_of, threads

LARGE = 2**21


class Cluster:
    """A client as far as it is asked for its workers."""

    def __init__(self, **threads):
        self.threads = threads

    def nthreads(self):
        return self.threads


def workers_of(leaves, runtime, state=LARGE):
    near, found = neighbours_together(leaves, state, runtime), []
    for leaf in range(leaves + 1):
        with near(leaf):
            found.append(dask.get_annotations())
    return [given.get("workers") for given in found], found


def test_neighbours__go_to_one_worker_in_the_order_of_the_rows():
    found, annotations = workers_of(6, on(Cluster(b=1, a=2)))
    # the last stands for what follows the last leaf
    assert found == [["a"], ["a"], ["a"], ["a"], ["b"], ["b"], ["b"]]
    assert all(given["allow_other_workers"] for given in annotations)


@pytest.mark.parametrize(
    ("runtime", "state"),
    [(threads(), LARGE), (on(Cluster()), LARGE), (on(Cluster(a=1, b=1)), 1000)],
    ids=["threads", "no worker yet", "small"],
)
def test_neighbours__go_anywhere(runtime, state):
    assert workers_of(6, runtime, state)[0] == [None] * 7


def test_neighbours__of_no_leaf_have_a_worker():
    assert workers_of(0, on(Cluster(a=1)))[0] == [["a"]]


@pytest.mark.parametrize("blocks", [1, 7, 150])
def test_run_pass__with_neighbours_together_gives_the_same_bits(blocks, client):
    plan = replace(plan_of(even_bounds(N, blocks)), bytes_to_driver=LARGE)
    sources = open_variables([X, Y])
    expected, _ = run_pass(Sums(), sources, plan, threads(), lambda event: None)
    found, _ = run_pass(Sums(), sources, plan, on(client), lambda event: None)
    assert bits(found) == bits(expected)


def test_run_pass__with_neighbours_together_goes_on_after_an_error(folder):
    plan = replace(plan_of(even_bounds(N, 150)), bytes_to_driver=LARGE)
    sources = open_variables([X, Y])
    expected, _ = run_pass(Kept(), sources, plan, threads(), lambda event: None)
    Kept.chunks.clear()
    Kept.failing.extend(range(100, 150))  # two threads may count one chunk
    with cluster_of_threads() as cluster, cluster.get_client() as client:

        def go():
            runtime, checkpoint = on(client), opened(folder)
            return run_pass(
                Kept(), sources, plan, runtime, lambda event: None, checkpoint=checkpoint
            )

        with suppress(NoLuckError):
            go()
        Kept.failing.clear()
        Kept.chunks.clear()
        found, _ = go()
    assert 0 < len(Kept.chunks) < 150
    assert bits(found) == bits(expected)
