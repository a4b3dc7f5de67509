"""The simulation of a cluster keeps time, and plans tell what many workers would take."""

import csv
import math
from contextlib import contextmanager

import psutil
import pytest
from click.testing import CliRunner

from benchmarks.cluster import simulated_cluster
from benchmarks.cluster.simulated_cluster import (
    Costs,
    Pass,
    formula,
    most_workers,
    served,
    simulate,
    sleep,
    typical_costs,
)
from benchmarks.cost import extrapolated
from benchmarks.shared.many_workers import ManyWorkers, many_workers
from dhsic.engine.plan import PassPlan

FREE = Costs(0.0, 0.0, 0.0, latency=0.0)


def table(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def run(module, *options):
    done = CliRunner().invoke(module.main, list(map(str, options)), catch_exceptions=False)
    assert done.exit_code == 0


@pytest.mark.parametrize(("blocks", "workers"), [(1, 3), (16, 1), (64, 4), (100, 7)])
def test_simulate__takes_whole_rounds_where_nothing_else_costs(blocks, workers):
    found = simulate(Pass(blocks, 2.0), workers, FREE)
    rounds = math.ceil(blocks / workers)  # and one more where a worker holds two tasks at the end
    assert any(found.seconds == pytest.approx(2.0 * count) for count in (rounds, rounds + 1))
    assert formula(Pass(blocks, 2.0), workers, FREE) == pytest.approx(2.0 * rounds)


def test_simulate__waits_for_graph_scheduler_tree_and_link():
    work = Pass(64, 1.0)
    ahead = Costs(0.5, 0.25, 0.0, latency=0.0)
    assert simulate(work, 64, ahead).seconds == pytest.approx(1 + 0.75 * 85)
    slow = simulate(work, 64, Costs(0.0, 0.0, 2.0, latency=0.0))
    assert slow.seconds >= 2 * 85
    assert slow.scheduler_share > 0.9
    assert simulate(Pass(64, 1.0, combine_seconds=3.0), 64, FREE).seconds == pytest.approx(10)
    fetched = simulate(Pass(64, 1.0, fetch_seconds=1.0), 64, FREE).seconds
    assert fetched == pytest.approx(1 + 3 * 3)  # one of four is there already
    late = simulate(work, 64, Costs(0.0, 0.0, 0.0, latency=0.5)).seconds
    assert late == pytest.approx(1 + 4 * (0.5 + 0.5) + 0.5)


def test_simulate__has_the_tasks_of_a_plan():
    costs = Costs(0.0, 0.0, 1.0, latency=0.0)
    plan = PassPlan("sleep", tuple(range(38)), 0, 0, 0)
    assert simulate(Pass(37, 0.0), 5, costs).seconds == plan.tasks == sum(Pass(37, 0.0).levels)


def test_most_workers__keep_the_scheduler_busy_for_the_share():
    count = most_workers(2.0, 0.001, share=0.2)
    assert count / 2.0 * 0.001 * 4 / 3 == pytest.approx(0.2)


def test_many_workers__echo_without_work_or_sleep():
    with many_workers(3, 1, echo=True) as there:
        costs, client = served(300, there)  # processor time comes in steps of 10 ms
        assert sleep(4, 60.0, there.client) < 60
    assert 0 < costs.submit + costs.finish < 1
    assert 0 < costs.build <= client


def test_simulated_cluster__measures_keeps_and_checks(tmp_path, client, monkeypatch):
    @contextmanager
    def shared(count, processes, *, echo=False):
        asked.append((count, processes, echo))
        yield ManyWorkers(client, psutil.Process(), [0.0, 0.0])

    asked = []
    monkeypatch.setattr(simulated_cluster, "many_workers", shared)
    out, checked = tmp_path / "costs.csv", tmp_path / "checked.csv"
    out.write_text("workers,tasks asked,tasks\n7,7,7\n")
    options = ["--pass", 2, 8, 0.05, "--processes", 5, "--checked", checked, "--out", out]
    with pytest.raises(KeyError):  # a file of other columns
        run(simulated_cluster, "--size", 7, 7, *options)
    assert asked == []
    out.unlink()
    run(simulated_cluster, "--size", 3, 40, *options)
    assert asked == [(3, 1, True), (2, 5, False)]
    run(simulated_cluster, "--size", 3, 40, *options)
    assert asked[2:] == [(2, 5, False)]
    (row,) = table(out)
    assert int(row["tasks"]) == 30 + 8 + 2 + 1
    (row,) = table(checked)
    assert (row["workers"], row["blocks"], row["task seconds"]) == ("2", "8", "0.05")
    assert float(row["measured seconds"]) >= 0.2
    simulated = simulate(Pass(8, 0.05), 2, typical_costs(str(out))).seconds
    assert float(row["simulated seconds"]) == pytest.approx(simulated, rel=1e-3)


def test_extrapolated__more_workers_take_less_time_and_as_much_work(tmp_path):
    out = tmp_path / "far.csv"
    run(extrapolated, "--n", 10**6, "--n", 10**7, "--workers", 10, "--workers", 50, "--out", out)
    rows = table(out)
    assert len(rows) == 4 * len(extrapolated.METHODS)
    for few, many in zip(rows[::2], rows[1::2], strict=True):
        assert (few["workers"], many["workers"]) == ("10", "50")
        assert few["processor s"] == many["processor s"]
        assert float(many["elapsed s"]) < 0.8 * float(few["elapsed s"])
        assert float(many["longest s"]) <= float(many["elapsed s"])
    half = len(rows) // 2
    for small, large in zip(rows[:half], rows[half:], strict=True):
        assert float(large["processor s"]) > 5 * float(small["processor s"])
