"""Every public function on a cluster answers as here, by the same passes, and goes on there."""

import numpy as np
import pytest
from distributed import Client, LocalCluster

import dhsic
from dhsic.engine.checkpoint import CheckpointWarning
from dhsic.errors import DataError, InvalidArgumentError
from tests.places import (
    CALLS,
    Heard,
    KilledError,
    answer,
    check_plan,
    differs,
    kill_at_each_pass,
    places_of,
)
from tests.processes import wait_until

pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

N = 40_000


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_call__gives_its_answer_on_a_cluster_by_the_steps_of_its_plan(call, client, tmp_path):
    data, heard = places_of("mixed", call.names, tmp_path), Heard()
    found = call(data, client=client, progress=heard)
    assert differs(answer(found), answer(call(threads=1)), call) is None
    if call.plan is not None:
        check_plan(call, data, heard, client=client)


@pytest.mark.parametrize("places", [("threads", "client"), ("client", "threads")])
@pytest.mark.parametrize("name", ["test of three", "nystrom-m, gamma", "v-hsic, permutation"])
def test_run__begun_in_one_place_goes_on_in_another(name, places, client, tmp_path):
    call, where = CALLS[name], {"threads": {"threads": 1}, "client": {"client": client}}
    first, second = ({**where[place], "checkpoint": str(tmp_path / "kept")} for place in places)
    with pytest.raises(KilledError):
        call(progress=Heard(kill_at_each_pass([])), **first)
    assert answer(call(**second)) == answer(call(threads=1))
    assert answer(call(progress=(again := Heard()), **first)) == answer(call(threads=1))
    # Rows that are read whole are no result, and are where they were.
    assert {one.name for one in again.of("BlockFinished")} <= {"read all rows"}


def run(data, estimator="nystrom-hsic", null="shifts", **options):
    few = {"nystrom-hsic": dhsic.NystromHSIC(20), "nystrom-m": dhsic.NystromMHSIC(20)}[estimator]
    return dhsic.independence_test(
        *data, estimator=few, null=null, kernels="gaussian", rng=0, **options
    )


@pytest.mark.parametrize(
    ("estimator", "null"), [("nystrom-m", "gamma"), ("nystrom-hsic", "shifts")]
)
def test_blocks__of_many_rows_give_the_same_bits_anywhere(estimator, null, client, long, tmp_path):
    here = run(long, estimator, null, threads=2)
    assert answer(run(long, estimator, null, threads=1)) == answer(here)
    assert answer(run(long, estimator, null, client=client)) == answer(here)
    stop = Heard(lambda heard, event: len(heard.of("BlockFinished")) == 1)
    with pytest.raises(KilledError):
        run(long, estimator, null, client=client, progress=stop, checkpoint=str(tmp_path / "kept"))
    again = run(long, estimator, null, client=client, checkpoint=str(tmp_path / "kept"))
    assert answer(again) == answer(here)


def test_parts__that_are_broken_are_found_by_workers_and_computed_again(client, long, tmp_path):
    kept = {"client": client, "checkpoint": str(tmp_path / "kept")}
    whole = run(long, "nystrom-m", "gamma", **kept)
    shards = sorted((tmp_path / "kept").glob("*/shard-0001"))
    for shard in shards:
        shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.warns(CheckpointWarning, match="cannot be used and is computed again") as caught:
        assert answer(run(long, "nystrom-m", "gamma", **kept)) == answer(whole)
    assert len(caught) == len(shards) == 2


def test_arrays__in_memory_and_lazy_travel_to_workers_in_blocks(client):
    da = pytest.importorskip("dask.array")
    x, y = np.random.default_rng(3).standard_normal((2, N, 2))
    here = answer(run([x, y], threads=2))
    assert answer(run([x, y], client=client)) == here
    assert answer(run([da.from_array(x, chunks=(7_000, 1)), y], client=client)) == here


def test_listener__that_raises_ends_a_run_and_leaves_nothing_on_the_cluster(client, long):
    def stop(event):
        if type(event).__name__ == "BlockFinished":
            raise KeyboardInterrupt

    def tasks(dask_scheduler):
        return set(dask_scheduler.tasks)

    before = client.run_on_scheduler(tasks)  # other tests may have left some
    with pytest.raises(KeyboardInterrupt):
        run(long, client=client, progress=stop)
    run(long, client=client)
    wait_until(lambda: client.run_on_scheduler(tasks) <= before, 60, "tasks are left")


def test_data__that_are_bad_are_named_by_row_and_variable_on_a_cluster(client, long):
    x, y = np.random.default_rng(0).standard_normal((2, N))
    y[33_333] = np.nan
    with pytest.raises(DataError, match=r"x2.*33,?333"):
        run([x, y], client=client)


def test_checkpoint__that_workers_do_not_see_is_refused(client):
    with pytest.raises(InvalidArgumentError, match="must be a folder that every worker sees"):
        CALLS["v-hsic, gamma"](client=client, checkpoint="memory://unseen/kept")


def test_client__of_another_kind_or_closed_is_refused():
    with pytest.raises(InvalidArgumentError, match="client must be a running"):
        CALLS["test"](client="tcp://here")
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
        with Client(cluster, set_as_default=False) as own:
            pass
        with pytest.raises(InvalidArgumentError, match="client must be a running"):
            CALLS["test"](client=own)
