"""A study runs what it is asked for, as a user would, and says what came of it."""

import math

import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import Client
from matplotlib import pyplot as plt

import dhsic
from dhsic.bench import ScalingStudy, scaling_study
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.synthetic import synthetic

N = 600
X, Y = np.random.default_rng(0).standard_normal((2, N, 2))
Y = Y[:, 0]
TEST = {"kernels": "gaussian", "estimator": "nystrom-m", "n_resamples": 19}
QUICK = {**TEST, "progress": None, "repeats": 1}
HERE = {"workers": [1], "scheduler": ["threads"]}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def study_of(*data, vary, **options):
    return scaling_study(*(data or (X, Y)), vary={**HERE, **vary}, **QUICK | options)


# --- runs


def test_study__runs_every_combination_as_the_public_test():
    vary = {"rows": [200, 400], "landmarks": [10, 20], "precision": ["float64", "float32"]}
    study = study_of(vary=vary, rng=3, estimator="nystrom-m:pairing=joint")
    found = [(row["rows"], row["landmarks"], row["precision"]) for row in study.records()]
    assert found == [(n, k, p) for n in (200, 400) for k in (10, 20) for p in vary["precision"]]
    for row in study.records():
        alone = dhsic.independence_test(
            *(x[: row["rows"]] for x in (X, Y)),
            **{**TEST, "estimator": f"nystrom-m:n_landmarks={row['landmarks']},pairing=joint"},
            precision=row["precision"],
            rng=3,
            threads=1,
        )
        assert row["p_value"] == alone.pvalue
        assert row["bytes_read"] == sum(done.bytes_read for done in alone.passes)
    assert {*study.varied} == {*vary}


def test_study__tells_what_a_run_takes():
    (row,) = study_of(vary={}).records()
    assert 0.0 < row["pass_seconds"] < row["seconds"]
    assert min(row["processor_seconds"], row["task_seconds"]) > 0.0
    planned = dhsic.plan(X, Y, **TEST, threads=1)
    assert row["planned_bytes"] == pytest.approx(planned.peak_worker_bytes, rel=0.05)
    assert row["peak_bytes"] is None or row["peak_bytes"] > 2**20
    passes = [value for name, value in row.items() if name.startswith("seconds: ")]
    assert sum(passes) == pytest.approx(row["pass_seconds"])
    assert (row["precision"], row["landmarks"]) == ("float64", math.ceil(8 * math.sqrt(N)))


def test_study__of_stored_and_lazy_arrays_in_other_chunks_is_that_of_memory(tmp_path):
    stored = zarr.create_array(tmp_path / "y.zarr", data=Y, chunks=(100,))
    graph = da.from_array(X, chunks=(300, 2))
    vary = {"chunk_rows": [128], "rows": [500]}
    study = study_of(graph, stored, X, vary=vary, folder=tmp_path)
    memory = study_of(X, Y, X, vary={"rows": [500]})
    assert study.records()[0]["p_value"] == memory.records()[0]["p_value"]
    assert list(tmp_path.iterdir()) == [tmp_path / "y.zarr"], "copies are removed"


def test_study__weak_keeps_the_rows_of_a_worker():
    for data in ((X, Y), (synthetic,)):
        vary = {"workers": [1, 2], "scheduler": ["threads"]}
        vary |= {} if len(data) == 2 else {"rows": [300]}
        study = scaling_study(*data, vary=vary, weak=True, **QUICK)
        assert study.weak
        shown = [(r["workers"], r["rows"], r["rows_per_worker"]) for r in study.records()]
        assert shown == [(1, 300, 300), (2, 600, 300)]
        assert study.varied == ("workers", "rows")  # landmarks follow from the rows
        assert study.records()[1]["efficiency"] != 1.0


def test_study__takes_turns_and_resumes_from_its_file(tmp_path):
    path, lines = tmp_path / "study.csv", []

    def stop_after_two(line):
        lines.append(line)
        if len(lines) == 2:
            raise KeyboardInterrupt

    options = {"csv": path, "repeats": 2, "progress": stop_after_two}
    with pytest.raises(KeyboardInterrupt):
        study_of(vary={"rows": [200, 300]}, **options)
    assert [run["rows"] for run in ScalingStudy.from_csv(path).runs] == [200, 300]
    study = study_of(vary={"rows": [200, 300]}, **options)
    assert len(lines) == 4, "two runs were there"
    assert lines[0].startswith("run 1 of 4: ")
    assert "rows 200" in lines[0]
    turns = [(run["repeat"], run["rows"]) for run in study.runs]
    assert turns == [(0, 200), (0, 300), (1, 200), (1, 300)]
    study.to_csv(path)
    assert ScalingStudy.from_csv(path) == study
    for other in ({"rng": 1}, {"weak": True}, {"vary": {"rows": [200], "landmarks": [10]}}):
        with pytest.raises(InvalidArgumentError, match="csv must be a new file or one of the same"):
            study_of(**{"vary": {"rows": [200]}, "csv": path} | other)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="no CSV file of a scaling study, it lacks"):
        study_of(vary={"rows": [200]}, csv=path)


def test_study__on_a_client_takes_its_workers(client):
    study = scaling_study(X, Y, vary={"rows": [300]}, client=client, **QUICK)
    (row,) = study.records()
    assert (row["workers"], row["scheduler"]) == (2, "processes")
    assert row["p_value"] == study_of(vary={"rows": [300]}).records()[0]["p_value"]
    with pytest.raises(InvalidArgumentError, match="must be 'processes' if a client is given"):
        scaling_study(X, Y, vary={"scheduler": ["threads"]}, client=client, **QUICK)
    with (
        Client(client.scheduler.address, set_as_default=False) as other,
        pytest.raises(InvalidArgumentError, match="cannot be scaled from here"),
    ):
        scaling_study(X, Y, vary={"workers": [1]}, client=other, **QUICK)


@pytest.mark.nightly
def test_study__on_processes_that_it_starts():
    (row,) = scaling_study(X, Y, vary={"workers": [1]}, **QUICK).records()
    assert row["scheduler"] == "processes"
    assert row["p_value"] == study_of(vary={}).records()[0]["p_value"]


# --- tables, slopes and pictures of runs whose times are given


@pytest.fixture(scope="module")
def made():
    """Make a study whose runs have these settings and measurements, one list each."""
    (run,) = study_of(vary={}).runs
    usual = {name: value for name, value in run.items() if not name.startswith("seconds: ")}
    usual |= {"rows": 100, "landmarks": None, "peak_bytes": 2**20}

    def make(**columns):
        runs = zip(*columns.values(), strict=True)
        return ScalingStudy(tuple(usual | dict(zip(columns, run, strict=True)) for run in runs))

    return make


def test_table__gains_are_medians_of_ratios_within_a_turn(made):
    turns = {"workers": [1, 2] * 3, "repeat": [0, 0, 1, 1, 2, 2]}
    one, two = made(**turns, seconds=[4.0, 2.0, 9.0, 5.0, 4.0, 4.0]).records()
    assert (one["speedup"], one["efficiency"], one["relative"]) == (1.0, 1.0, 1.0)
    assert (two["speedup"], two["efficiency"], two["seconds"]) == (1.8, 0.9, 4.0)
    assert two["relative"] == 5.0 / 9.0
    apart = made(workers=[1, 2], repeat=[0, 1], seconds=[2.0, 1.0]).records()[1]
    assert apart["speedup"] is apart["relative"] is None, "no turn has both"


def test_table__weak_gains_count_rows(made):
    rows = {"workers": [1, 2], "rows": [100, 200], "rows_per_worker": [100, 100]}
    study = made(**rows, landmarks=[80, 114], seconds=[4.0, 5.0])
    assert study.varied == ("workers", "rows"), "landmarks follow from the rows"
    assert study.records()[1]["speedup"] == pytest.approx(1.6)
    assert study.records()[1]["efficiency"] == pytest.approx(0.8)


def test_plot__has_the_quantity_against_the_setting(made):
    ax = made(workers=[1, 2, 4], seconds=[4.0, 2.0, 1.25]).plot()
    assert ax.get_ylabel() == "speed-up"
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [1.0, 2.0, 3.2])
    np.testing.assert_allclose(ax.lines[1].get_ydata(), [1.0, 2.0, 4.0])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ideal"]
    study = made(rows=[100, 1000], seconds=[1.0, 10.0], peak_bytes=[2**20, 2**21])
    time, memory = sorted(study.plot().figure.axes, key=lambda one: one.get_position().x0)
    assert [text.get_text() for text in time.get_legend().get_texts()] == ["slope 1"]
    assert time.get_ylabel() == "time (s)"
    assert memory.get_ylabel() == "peak memory of a process (MiB)"
    np.testing.assert_allclose(memory.lines[0].get_ydata(), [1.0, 2.0])
    words = made(precision=["float64", "float32"], seconds=[2.0, 1.0]).plot(quantity="seconds")
    assert [*words.lines[0].get_ydata()] == [2.0, 1.0]
    assert [tick.get_text() for tick in words.get_xticklabels()] == ["float64", "float32"]
    with pytest.raises(InvalidArgumentError, match="needs a setting that varies"):
        made(rows=[100]).plot()
    for options in ({"quantity": "hours"}, {"along": "workers"}):
        with pytest.raises(InvalidArgumentError, match="must be one of"):
            study.plot(**options)


# --- refusals: what is changed, and words of the remedy

ODD = [
    ({"vary": {"precision": "float32"}}, "must be a list of different values"),
    ({"kernel": "gaussian"}, "did you mean 'kernels'"),
    ({"vary": {"n_resamples": [9]}}, "n_resamples must be left out"),
    ({"weak": True, "vary": {"rows": [50]}}, "vary 'workers' too"),
    ({"rng": np.random.default_rng(0)}, "rng must be a seed in a study"),
    ({"csv": "nowhere/study.csv"}, "csv must be in an existing folder"),
    ({"vary": {"landmarks": [10], **HERE}, "estimator": "v-hsic"}, "landmarks need an estimator"),
]


@pytest.mark.parametrize(("changed", "words"), ODD)
def test_study__refuses(changed, words):
    with pytest.raises(InvalidArgumentError, match=words):
        scaling_study(X, Y, **{"vary": {"rows": [200], **HERE}, **QUICK, **changed})
