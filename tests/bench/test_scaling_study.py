"""A study runs what it is asked for, as a user would, and says what came of it."""

import math
import time
from functools import partial

import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster

import dhsic
from dhsic.bench import ScalingStudy, scaling_study
from dhsic.bench import study as module
from dhsic.bench.data import Data
from dhsic.bench.places import StudyWorkers, WorkerPool, _import_for_tasks
from dhsic.engine.runtime import Runtime
from dhsic.errors import ClusterError, DataError, InvalidArgumentError
from dhsic.io.sources import GraphSource, StoredSource
from dhsic.io.synthetic import synthetic

N = 600
HERE = {"workers": [1], "scheduler": ["threads"]}
QUICK = {
    "kernels": "gaussian",
    "estimator": "nystrom-m",
    "n_resamples": 19,
    "progress": None,
    "repeats": 1,
}


@pytest.fixture
def data(rng):
    return rng.standard_normal((N, 2)), rng.standard_normal(N)


@pytest.fixture
def calls(monkeypatch):
    """What the study passes to the public test."""
    seen = []

    def test(*variables, **options):
        seen.append((variables, options))
        return dhsic.independence_test(*variables, **options)

    monkeypatch.setattr(module, "independence_test", test)
    return seen


def test_study__runs_every_combination_as_the_public_test(data, calls):
    vary = {"rows": [200, 400], "landmarks": [10, 20], **HERE}
    study = scaling_study(*data, vary=vary, **QUICK)
    assert [(row["rows"], row["landmarks"]) for row in study.records()] == [
        *((200, 10), (200, 20), (400, 10), (400, 20))
    ]
    alone = dhsic.independence_test(
        *(x[:400] for x in data),
        **{k: QUICK[k] for k in ("kernels", "n_resamples")},
        estimator=dhsic.NystromMHSIC(n_landmarks=20),
        rng=0,
        threads=1,
    )
    assert study.records()[-1]["pvalue"] == alone.pvalue
    assert study.records()[-1]["bytes_read"] == sum(done.bytes_read for done in alone.passes)
    assert len(calls) == 4
    assert study.varied == ("rows", "landmarks")


def test_study__passes_options_and_what_varies(data, calls):
    vary = {"n_resamples": [9, 19], "precision": ["float32", "float64"], **HERE}
    options = {**QUICK, "rng": 3, "null": "permutation", "names": ["a", "b"]}
    options.pop("n_resamples")
    study = scaling_study(*data, vary=vary, **options)
    asked = [(o["n_resamples"], o["precision"], o["rng"], o["null"]) for _, o in calls]
    assert asked[0] == (9, "float32", 3, "permutation")
    assert {(n, p) for n, p, *_ in asked} == {(b, p) for b in (9, 19) for p in vary["precision"]}
    assert [source.name for source in calls[0][0]] == ["a", "b"]
    assert [row["n_resamples"] for row in study.records()] == [9, 9, 19, 19]


def test_study__tells_what_it_takes(data):
    (row,) = scaling_study(*data, vary=HERE, **QUICK).records()
    assert 0.0 < row["pass_seconds"] < row["seconds"]
    assert row["processor_seconds"] > 0.0
    assert row["task_seconds"] > 0.0
    options = {"kernels": "gaussian", "estimator": "nystrom-m", "n_resamples": 19}
    planned = dhsic.plan(*data, **options, threads=1)
    assert row["planned_bytes"] == pytest.approx(planned.peak_worker_bytes, rel=0.05)
    assert row["peak_bytes"] is None or row["peak_bytes"] > 2**20
    passes = [value for name, value in row.items() if name.startswith("seconds: ")]
    assert sum(passes) == pytest.approx(row["pass_seconds"])
    assert row["precision"] == "float64"
    assert row["landmarks"] == math.ceil(8 * math.sqrt(N))


def test_study__takes_turns_and_says_each(data):
    lines = []
    options = {**QUICK, "repeats": 2, "progress": lines.append}
    study = scaling_study(*data, vary={"rows": [200, 400], **HERE}, **options)
    assert [(run["repeat"], run["rows"]) for run in study.runs] == [
        *((0, 200), (0, 400), (1, 200), (1, 400))
    ]
    assert [len(row["all_seconds"]) for row in study.records()] == [2, 2]
    assert lines[0].startswith("run 1 of 4: ")
    assert "rows 200" in lines[0]


def test_study__chunks_are_what_is_asked_for(data, calls, tmp_path):
    x, y = data
    stored = zarr.create_array(tmp_path / "y.zarr", data=y, chunks=(100,))
    graph = da.from_array(x, chunks=(300, 2))
    vary = {"chunk_rows": [128], "rows": [500], **HERE}
    scaling_study(graph, stored, x, vary=vary, folder=tmp_path, **QUICK)
    (first, second, third), _ = calls[0]
    assert isinstance(first, GraphSource)
    assert [source.chunk_rows for source in (first, second, third)] == [128] * 3
    assert str(tmp_path) in str(second.array.store)
    assert [source.shape for source in (first, second, third)] == [(500, 2), (500, 1), (500, 2)]
    assert list(tmp_path.iterdir()) == [tmp_path / "y.zarr"]


def test_study__first_rows_of_an_array_in_storage_are_not_copied(data, calls, tmp_path):
    x, y = data
    path = tmp_path / "x.zarr"
    zarr.create_array(path, data=x, chunks=(100, 2))
    vary = {"rows": [250], **HERE}
    study = scaling_study(str(path), y, vary=vary, **QUICK)
    assert calls[0][0][0].array.shape == (N, 2)
    assert calls[0][0][0].shape == (250, 2)
    memory = scaling_study(x, y, vary=vary, **QUICK)
    assert study.records()[0]["pvalue"] == memory.records()[0]["pvalue"]


def test_study__weak_keeps_the_rows_of_a_worker(data):
    vary = {"workers": [1, 2], "scheduler": ["threads"]}
    study = scaling_study(*data, vary=vary, weak=True, **QUICK)
    assert study.weak
    assert [(r["workers"], r["rows"], r["rows_per_worker"]) for r in study.records()] == [
        *((1, 300, 300), (2, 600, 300))
    ]
    assert study.varied == ("workers", "rows")  # landmarks follow from the rows
    assert study.records()[1]["efficiency"] != 1.0


def test_study__of_a_function_stores_what_it_makes(calls):
    vary = {"rows": [200], "workers": [1, 2], "scheduler": ["threads"]}
    study = scaling_study(synthetic, vary=vary, weak=True, **QUICK)
    assert [row["rows"] for row in study.records()] == [200, 400]
    assert all(isinstance(source, StoredSource) for source in calls[1][0])
    np.testing.assert_array_equal(calls[0][0][0].name, "x1")


def test_study__resumes_from_its_file(data, calls, tmp_path):
    path = tmp_path / "study.csv"
    options = {**QUICK, "csv": path}
    first = scaling_study(*data, vary={"rows": [200], **HERE}, **options)
    both = scaling_study(*data, vary={"rows": [200, 300], **HERE}, **options)
    assert len(calls) == 2
    assert dict(both.runs[0]) == dict(first.runs[0])
    again = scaling_study(*data, vary={"rows": [300], **HERE}, **options)
    assert len(calls) == 2
    assert [row["rows"] for row in again.records()] == [300]
    assert len(ScalingStudy.from_csv(path).runs) == 2


def test_study__keeps_what_it_has_when_it_is_interrupted(data, tmp_path, monkeypatch):
    path = tmp_path / "study.csv"
    vary = {"rows": [200, 300], **HERE}

    def stop(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scaling_study(*data, vary=vary, csv=path, **{**QUICK, "progress": stop})
    assert [run["rows"] for run in ScalingStudy.from_csv(path).runs] == [200]


def test_study__refuses_the_file_of_another(data, tmp_path):
    path = tmp_path / "study.csv"
    scaling_study(*data, vary={"rows": [200], **HERE}, csv=path, **QUICK)
    with pytest.raises(InvalidArgumentError, match="csv must be a new file or one of the same"):
        scaling_study(*data, vary={"rows": [200], **HERE}, csv=path, rng=1, **QUICK)
    with pytest.raises(InvalidArgumentError, match="csv must be a new file or one of the same"):
        scaling_study(data[0] + 1, data[1], vary={"rows": [200], **HERE}, csv=path, **QUICK)
    more = {"rows": [200], "landmarks": [10], **HERE}
    with pytest.raises(InvalidArgumentError, match="landmarks, rows, scheduler, workers vary"):
        scaling_study(*data, vary=more, csv=path, **QUICK)
    with pytest.raises(InvalidArgumentError, match="vary, weak"):
        scaling_study(*data, vary={"rows": [200], **HERE}, weak=True, csv=path, **QUICK)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="no CSV file of a scaling study, it lacks"):
        scaling_study(*data, vary={"rows": [200], **HERE}, csv=path, **QUICK)


def test_study__on_processes_that_it_starts(data, tmp_path):
    path = tmp_path / "x.zarr"
    zarr.create_array(path, data=data[0], chunks=(100, 2))
    study = scaling_study(str(path), data[1], vary={"workers": [1]}, **QUICK)
    (row,) = study.records()
    assert row["scheduler"] == "processes"
    options = {"kernels": "gaussian", "estimator": "nystrom-m", "n_resamples": 19}
    alone = dhsic.independence_test(*data, **options, rng=0, threads=1)
    assert row["pvalue"] == alone.pvalue


def test_study__on_a_client_takes_its_workers(data, client):
    study = scaling_study(*data, vary={"rows": [300]}, client=client, **QUICK)
    assert [(row["workers"], row["scheduler"]) for row in study.records()] == [(2, "processes")]


def test_study__scales_the_cluster_of_a_client_and_puts_it_back(data, client, monkeypatch):
    class Cluster:
        def __init__(self):
            self.asked = []

        def scale(self, workers):
            self.asked.append(workers)

    cluster, ran = Cluster(), []

    class Scaled:
        def __init__(self, inner):
            self.inner, self.cluster = inner, cluster

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def run(self, function):
            ran.append(function)

        def nthreads(self):
            count = (cluster.asked or [2])[-1]
            return {f"worker {number}": 1 for number in range(count)}

    with WorkerPool(Scaled(client), "1GiB") as places:
        place = places.at("processes", 3)
        assert place.client.cluster is cluster
        places.at("processes", 3)
    assert ran == [_import_for_tasks, _import_for_tasks]  # on workers that were there before, too
    assert cluster.asked == [3, 2]
    monkeypatch.setattr("dhsic.bench.places._WORKERS_TIMEOUT_SECONDS", 0.0)
    monkeypatch.setattr(Scaled, "nthreads", lambda self: {"worker": 1})
    with (
        pytest.raises(ClusterError, match="asked for 3 workers and has 1"),
        WorkerPool(Scaled(client), "1GiB") as places,
    ):
        places.at("processes", 3)


def test_study__a_cluster_that_adapts_keeps_its_size_during_a_run(data):
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            worker_dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        cluster.adapt(minimum=1, maximum=1, interval="20ms")
        vary = {"workers": [1, 2], "rows": [200]}
        study = scaling_study(*data, vary=vary, client=client, **QUICK)
        assert [row["workers"] for row in study.records()] == [1, 2]
        assert (cluster._adaptive.minimum, cluster._adaptive.maximum) == (1, 1)
        (row,) = scaling_study(*data, vary={"rows": [200]}, client=client, **QUICK).records()
        assert row["workers"] == len(client.nthreads()) == 1


def test_place__does_not_know_what_a_lost_worker_took():
    seconds = iter([{"a": 1.0, "b": 5.0}, {"a": 1.5, "c": 0.25}])

    class Losing:
        def run(self, function, on_error):
            return next(seconds) if function is time.process_time else {"a": True}

    with StudyWorkers(Losing(), None).measured() as usage:
        pass
    assert 0.75 <= usage.processor_seconds < 1.5


def test_data__of_a_function_is_known_by_name_and_options(tmp_path):
    def described(function):
        return Data((function,), None, str(tmp_path)).described(Runtime.here(1, 1))

    assert described(synthetic) == "rows of synthetic"
    assert described(partial(synthetic, features=3)) == "rows of synthetic(features=3)"


def test_study__says_that_a_scheduler_cannot_be_scaled(data, client):
    with (
        Client(client.scheduler.address, set_as_default=False) as other,
        pytest.raises(InvalidArgumentError, match="cannot be scaled from here"),
    ):
        scaling_study(*data, vary={"workers": [1]}, client=other, **QUICK)


ODD = {
    "nothing": ({"vary": {}}, "vary must name what varies"),
    "no mapping": ({"vary": 3}, "vary must name what varies"),
    "unknown": ({"vary": {"worker": [1]}}, "did you mean 'workers'"),
    "a word": ({"vary": {"precision": "float32"}}, "must be a list of different values"),
    "twice the same": ({"vary": {"rows": [100, 100]}}, "must be a list of different values"),
    "no precision": ({"vary": {"precision": ["float16"]}}, "must be one of 'float64'"),
    "no workers": ({"vary": {"workers": [0]}}, "must be an integer >= 1"),
    "too many rows": ({"vary": {"rows": [N + 1]}}, "rows must be at most the 600"),
    "weak without workers": ({"weak": True, "vary": {"rows": [50]}}, "vary 'workers' too"),
    "no repeats": ({"repeats": 0}, "repeats must be an integer >= 1"),
    "threads": ({"threads": 2}, "threads must be left out of a study"),
    "a checkpoint": ({"checkpoint": "x"}, "checkpoint must be left out of a study"),
    "no option": ({"kernel": "gaussian"}, "did you mean 'kernels'"),
    "given twice": ({"vary": {"n_resamples": [9]}}, "n_resamples must be given once"),
    "a generator": ({"rng": np.random.default_rng(0)}, "rng must be a seed in a study"),
    "silence": ({"progress": False}, "progress must be callable"),
    "no list of numbers": ({"vary": {"rows": [[200]]}}, "must be an integer >= 1"),
    "no folder": ({"folder": "nowhere"}, "folder must be a folder that is there"),
    "no place for runs": ({"csv": "nowhere/study.csv"}, "csv must be in a folder that is there"),
    "no landmarks": (
        {"vary": {"landmarks": [10], **HERE}, "estimator": "v-hsic"},
        "landmarks are varied of an estimator that has some",
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_study__refuses_odd_options(data, case):
    changed, message = ODD[case]
    with pytest.raises(InvalidArgumentError, match=message):
        scaling_study(*data, **{"vary": {"rows": [200], **HERE}, **QUICK, **changed})


def test_study__threads_are_not_those_of_a_client(data, client):
    with pytest.raises(InvalidArgumentError, match="must be 'processes' where a client is given"):
        scaling_study(*data, vary={"scheduler": ["threads"]}, client=client, **QUICK)


@pytest.mark.parametrize(
    ("function", "vary", "message"),
    [
        (synthetic, HERE, "needs vary with 'rows'"),
        (np.zeros, {"rows": [50], **HERE}, "must return a tuple of variables"),
        (lambda n: synthetic(2 * n), {"rows": [50], **HERE}, "must make the 50 rows"),
    ],
)
def test_study__says_what_a_function_must_return(function, vary, message):
    with pytest.raises(InvalidArgumentError, match=message):
        scaling_study(function, vary=vary, **QUICK)


def test_csv__gives_the_study_again(data, tmp_path):
    study = scaling_study(*data, vary=HERE, **QUICK)
    study.to_csv(tmp_path / "study.csv")
    assert ScalingStudy.from_csv(tmp_path / "study.csv") == study
    header, row, *_ = (tmp_path / "study.csv").read_text().splitlines()
    (tmp_path / "one.csv").write_text(f"{header}\n{row}\n")
    assert ScalingStudy.from_csv(tmp_path / "one.csv").runs == study.runs[:1]
    with pytest.raises(DataError, match="cannot be read as the CSV file"):
        ScalingStudy.from_csv(tmp_path / "none.csv")
