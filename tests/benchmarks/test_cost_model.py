"""The cost model counts what the passes do, and the simulation keeps time."""

import csv
import math
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import psutil
import pytest
import zarr
from click.testing import CliRunner

import dhsic
from benchmarks import calibration, cost_extrapolated, cost_model, simulated_cluster
from benchmarks.calibration import SHAPES, fit, kernels_for, work_seconds
from benchmarks.costs import (
    PASSES,
    Job,
    Machine,
    Workers,
    chunk_seconds,
    pass_cost,
    predict,
    tree_tasks,
    waves,
)
from benchmarks.many_workers import ManyWorkers, many_workers
from benchmarks.simulated_cluster import (
    Costs,
    Pass,
    formula,
    most_workers,
    served,
    simulate,
    sleep,
    typical_costs,
)
from dhsic.engine.plan import PassPlan

FREE = Costs(0.0, 0.0, 0.0, latency=0.0)
TERMS = {
    "precision": [
        *("task", "tile", "prepared number", "product entry", "product operation"),
        *("exponential", "in-place operation", "sign", "sign operation"),
    ],
    "driver": [
        *("factor operation", "factor entry", "gram entry", "gram operation"),
        *("solve operation", "solved number"),
    ],
    "cluster": [
        *(f"crowding of {name}" for name in PASSES),
        *("added byte", "sent byte", "thread task", "worker task"),
        *("read chunk", "decoded byte", "idle task"),
        *("built task", "submitted task", "finished task"),
        *("start of a pass", "start of threads", "start of processes"),
    ],
}


def machine(**changed):
    """A machine whose operations all take a nanosecond."""
    kinds = {"float32": "precision", "float64": "precision", "driver": "driver"}
    rates = {kind: dict.fromkeys(TERMS[terms], 1e-9) for kind, terms in kinds.items()}
    crowding = {f"crowding of {name}": 1.0 for name in PASSES}
    rates["cluster"] = dict.fromkeys(TERMS["cluster"], 1e-9) | crowding | changed
    return Machine(rates)


def table(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def run(module, *options):
    done = CliRunner().invoke(module.main, list(map(str, options)), catch_exceptions=False)
    assert done.exit_code == 0


@pytest.mark.parametrize(("chunk_rows", "precision"), [(None, "float64"), (700, "float32")])
def test_job__has_the_blocks_and_bytes_of_the_package(tmp_path, chunk_rows, precision):
    job = Job(20_000, (12, 1), 40, 40, 30, precision, chunk_rows)
    data = [np.random.default_rng(0).standard_normal((job.rows, d)) for d in job.dims]
    data = [values.astype(precision) for values in data]
    if chunk_rows is not None:
        for number, values in enumerate(data):
            path = str(tmp_path / f"{number}.zarr")
            zarr.create_array(path, data=values, chunks=(chunk_rows, values.shape[1]))
            data[number] = path
    planned = dhsic.plan(
        *data,
        kernels=kernels_for(job.dims),
        estimator=dhsic.NystromMHSIC(n_landmarks=40),
        null=dhsic.Multiplier(30),
        precision=precision,
        threads=1,
    )
    for name, plan in zip(("sums", "null"), planned.passes, strict=True):
        assert job.blocks(name) == np.diff(plan.bounds).tolist()
        assert job.state_bytes(name) == plan.bytes_to_driver
        assert len(job.blocks(name)) + tree_tasks(plan.blocks)[0] == plan.tasks


def test_counts__grow_with_what_they_count():
    job = Job(10_000, (12, 1, 1), 300, 200, 50, "float64")
    counts = job.counts("null", 5000)
    assert counts["exponential"] == 3 * 5000 * 200
    assert counts["product entry"] == 5000 * 200
    assert counts["product operation"] == 2 * 14 * 5000 * 200
    assert counts["sign operation"] == 2 * 50 * 5000 * 200
    # two variables of one column, three means, and the product of three: 5 and 7 operations
    assert counts["in-place operation"] == (2 * 3 + 3 + 12) * 5000 * 200
    assert "sign" not in job.counts("sums", 5000)
    assert job.driver_counts["prune"]["factor operation"] == (300**3 - 100**3) / 3
    assert job.driver_counts["solve"]["solve operation"] == 200**2 * 51


def test_fetched_chunks__are_those_that_are_touched():
    job = Job(100_000, (3, 1), 500, 500, 10, "float32", 1000)
    rng = np.random.default_rng(0)
    touched = np.mean(
        [len(np.unique(rng.choice(100_000, 1500, replace=False) // 1000)) for _ in range(50)]
    )
    assert job.fetched_chunks() == pytest.approx(touched, rel=0.01)


def test_reading__is_of_whole_chunks():
    parts = Job(150_000, (45, 1), 450, 450, 250, "float32", 16_384)
    whole = Job(400_000, (8, 1), 300, 300, 150, "float32", 2048)
    assert parts.blocks("null")[0] < 16_384
    for job, chunks in ((parts, 1), (whole, whole.blocks("null")[0] // 2048)):
        one = chunk_seconds(job, machine(), Workers(1, True, read_bytes=1e6))
        size = job.chunk_rows * job.row_bytes
        assert one == pytest.approx(2e-9 + size * (1e-9 + 1e-6))
        cost = pass_cost(job, machine(), Workers(1, True, read_bytes=1e6), "null")
        assert cost.read_seconds == pytest.approx(chunks * one)
    assert chunk_seconds(replace(whole, chunk_rows=None), machine(), Workers(1, False)) == 0.0


def test_extrapolation__tells_what_no_driver_holds():
    def labels(gib):
        row = {"n": "1000", "bottleneck": "tiles", "driver GiB": gib}
        return [handle.get_label() for handle in cost_extrapolated._handles([row])]

    assert labels("65")[-1] == "hollow: driver over 64 GiB"
    assert labels("63")[-1] == "most: tiles"


def test_fit__finds_rates_and_none_below_zero(rng):
    counts = [{"a": x, "b": y, "c": 1.0} for x, y in rng.uniform(1, 100, (30, 2))]
    rates = {"a": 2e-9, "b": 3e-6, "c": 0.0}
    seconds = [sum(one[term] * rates[term] for term in rates) for one in counts]
    assert fit(counts, seconds) == pytest.approx(rates, abs=1e-10)
    falling = [one["a"] * 2e-9 + 1e-7 - one["b"] * 1e-10 for one in counts]
    assert min(fit(counts, falling).values()) >= 0


def test_predict__adds_up_and_names_the_largest_part():
    job = Job(10**6, (90, 1), 500, 500, 250, "float32", 8192)
    found = predict(job, machine(), Workers(10, True))
    assert found.seconds == pytest.approx(sum(found.parts.values()))
    assert found.bottleneck == "tiles"
    alone = predict(job, machine(), Workers(1, True))
    assert alone.parts["tiles"] == pytest.approx(10 * found.parts["tiles"], rel=0.2)
    slow = predict(job, machine(), Workers(1, True, read_bytes=1e5))
    assert slow.bottleneck == "reading"
    assert predict(job, machine(), Workers(10, True, link_bytes=1e3)).bottleneck == "combining"
    served = predict(job, machine(**{"finished task": 10.0}), Workers(10, True))
    assert served.bottleneck == "scheduling"
    many = Job(10**6, (90, 1), 20_000, 20_000, 250, "float32", 8192)
    assert predict(many, machine(), Workers(1000, True)).bottleneck == "driver solve"
    doubled = {f"crowding of {name}": 2.0 for name in PASSES}
    crowded = predict(job, machine(**doubled), Workers(10, True, crowded=True))
    assert crowded.parts["tiles"] > 1.9 * found.parts["tiles"]
    for crowding in ({"crowding of sums": 3.0}, {"crowding of null": 2.0}):
        crowded = predict(job, machine(**crowding), Workers(10, True, crowded=True))
        assert crowded.parts["tiles"] > 1.3 * found.parts["tiles"]


def test_idle_tasks__are_wall_time_and_no_work():
    job, workers = Job(10**5, (9, 1), 50, 50, 25, "float32", 8192), Workers(1, True)
    idle = machine(**{"idle task": 1.0})
    tasks = sum(len(job.blocks(n)) + tree_tasks(len(job.blocks(n)))[0] for n in ("sums", "null"))
    assert predict(job, idle, workers).seconds > 0.9 * tasks
    assert work_seconds(job, idle, workers) == work_seconds(job, machine(), workers) < 1.0


def test_machine__comes_back_from_its_table():
    assert Machine.of(machine().table) == machine()


def test_waves__are_the_rounds_of_the_busiest():
    assert waves(10, 0.5, 5) == 2
    assert waves(11, 0.5, 5) == 2.5
    assert waves(1, 0.25, 8) == 0.25


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


def test_cost_model__fits_checks_and_extrapolates(tmp_path, client, monkeypatch):
    @contextmanager
    def shared(workers, memory, **_):
        yield client

    for module in (calibration, cost_model):
        monkeypatch.setattr(module, "local_cluster", shared)
    rates, out = tmp_path / "rates.csv", tmp_path / "model.csv"
    small = ["--case", 9000, 3, 30, 20, 3000, "--workers", 1, "--shapes", 1, "--repeats", 1]
    small += ["--empty-blocks", 8, "--rates", rates, "--out", out]
    run(cost_model, *small)
    assert [row["runtime"] for row in table(out)] == 2 * ["1 threads"] + 2 * ["1 processes"]
    assert {row["precision"] for row in table(out)} == {"float32", "float64"}
    assert {row["chunk rows"] for row in table(out)} == {"", "3000"}
    assert {row["kind"] for row in table(rates)} == {"float32", "float64", "driver", "cluster"}
    assert len(SHAPES) > 1

    scheduler = tmp_path / "scheduler.csv"
    names = ["tasks", *(f"{part} ms a task" for part in ("build", "submit", "finish"))]
    scheduler.write_text(",".join(names) + "\n10,1,1,1\n100,0.5,0.5,2\n")
    far = tmp_path / "far.csv"
    options = ["--rows", 10**6, "--landmarks", "sqrt", "--workers", 10, "--workers", 50]
    run(cost_extrapolated, *options, "--rates", rates, "--scheduler", scheduler, "--out", far)
    rows = table(far)
    assert [(row["workers"], row["Gbit/s"]) for row in rows] == [
        *(("10", "1"), ("10", "10"), ("50", "1"), ("50", "10"))
    ]
    assert {row["landmarks"] for row in rows} == {"1000"}
    for row in rows:
        assert float(row["simulated seconds"]) == pytest.approx(float(row["seconds"]), rel=0.3)
    assert far.with_suffix(".png").exists()
