"""What the default takes: its power beside others, its cost beside one kernel, of any function."""

import inspect

import click
import numpy as np
import pytest

import dhsic
import dhsic.causal
from benchmarks.cost import default_cost, reach
from benchmarks.power import default_power, estimates, real_pairs
from dhsic.io.synthetic import synthetic
from tests.benchmarks.test_exact import run

TAKES_DATA = {
    *("residual_independence_test", "direction", "directions"),
    *("score_dags", "search_dag"),
}


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.csv"


def test_default_power__has_every_method_and_a_picture(out):
    asked = ["--data", "linear", "--n", 300, "--runs", 2]
    table = run(default_power, out, *asked)
    assert [row["method"] for row in table] == list(default_power.METHODS)
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert run(default_power, out, *asked) == table


def test_default_power__leaves_many_rows_out_of_all_pairs():
    some = default_power.study(("linear",), ("v-hsic", "features"))
    assert some.largest == {"v-hsic": default_power.LARGEST}


@pytest.mark.parametrize("kind", default_power.KINDS)
def test_default_power__draws_two_dependent_variables(kind):
    data = default_power.KINDS[kind](200, np.random.default_rng(0))
    assert [len(x) for x in data] == [200, 200]
    strong = dhsic.independence_test(
        *default_power.KINDS[kind](4000, np.random.default_rng(0)),
        rng=0,
        estimator=default_power.METHODS["features"],
        kernels=dhsic.Grid(),
        n_resamples=100,
    )
    assert strong.pvalue < 0.03


@pytest.mark.parametrize("columns", [1, 3])
def test_real_pairs__has_the_default_and_distance_covariance_as_they_are(columns):
    x, noise = np.random.default_rng(0).standard_normal((2, 60, columns))
    y = 0.3 * x[:, :1] + noise[:, :1]
    found = real_pairs.pvalues([x, y], 3)
    for name, kernels in (("default", None), ("distance covariance", "distance")):
        test = dhsic.independence_test(x, y, kernels=kernels, rng=3, threads=1)
        assert found[name] == test.pvalue
    assert len(found) == (7 if columns == 1 else 2)


def test_real_pairs__goes_on_where_it_stopped(out, monkeypatch):
    x = np.random.default_rng(0).standard_normal((20, 2))
    monkeypatch.setattr(real_pairs, "rows_of", lambda n, *_: [x[:n, :1], x[:n, 1:]])
    table = run(real_pairs, out, "--data", "plant: RH PE", "--runs", 2)
    assert {row["method"] for row in table} == {*real_pairs.LEADS, *real_pairs.ALONE}
    monkeypatch.setattr(real_pairs, "pvalues", None)  # nothing is measured twice
    assert run(real_pairs, out, "--data", "plant: RH PE", "--runs", 2) == table


def test_real_pairs__says_which_folder_it_needs(tmp_path, monkeypatch):
    monkeypatch.setattr(real_pairs, "FOLDER", tmp_path)
    with pytest.raises(click.ClickException, match="DHSIC_DATA"):
        real_pairs.DATA["cep: pair0099"](np.random.default_rng(0))


def test_default_cost__times_both_and_keeps_rows(out):
    first = run(default_cost, out, "--n", 300, "--columns", "2+1", "--repeats", 1)
    (row,) = first
    assert (row["estimator"], row["kernels"]) == ("v-hsic", "9")
    ratio = float(row["seconds"]) / float(row["one kernel, seconds"])
    assert float(row["over one kernel"]) == pytest.approx(ratio, rel=0.01)
    both = run(default_cost, out, "--n", 200, "--columns", "2+1", "--repeats", 1)
    assert both[0] == row
    assert [r["n"] for r in both] == ["300", "200"]


def test_estimates__are_beside_those_of_all_pairs(out):
    asked = ["--data", "1 of 20 columns", "--n", 2500, "--runs", 2]
    table = run(estimates, out, *asked)
    assert [row["method"] for row in table] == list(estimates.METHODS)
    found = {row["method"]: row for row in table}
    assert (float(found["u-hsic"]["ratio"]), float(found["u-hsic"]["noise"])) == (1.0, 0.0)
    for name in ("test", "hsic", "256 landmarks, unbiased"):
        assert float(found[name]["ratio"]) == pytest.approx(1.0, abs=0.15)
    assert float(found["v-hsic"]["ratio"]) > 1.2
    assert run(estimates, out, *asked) == table


@pytest.mark.parametrize("place", ["--stored", "--in-memory"])
def test_reach__measures_functions_in_processes_of_their_own(out, place):
    only = ("--only", "hsic", "--only", "mmd")
    hsic, mmd = run(reach, out, "--rows", 2500, place, *only)
    assert (hsic["function"], mmd["function"], hsic["n"]) == ("hsic", "mmd", "2500")
    assert hsic["chosen"].startswith("u-hsic; all pairs of rows")
    assert hsic["stored"] == str(place == "--stored")
    for row in (hsic, mmd):
        assert row["stopped"] == ""
        assert 50 < float(row["held MiB"]) <= float(row["peak MiB"]) < 1000


def test_reach__stops_what_takes_too_long(out):
    (row,) = run(reach, out, "--rows", 2500, "--only", "causal.search_dag", "--seconds", 1)
    assert (row["stopped"], row["chosen"]) == ("time", "")


def test_reach__has_every_public_function():
    functions = {name for name in dhsic.__all__ if inspect.isfunction(getattr(dhsic, name))}
    functions |= {f"causal.{name}" for name in dhsic.causal.__all__ if name in TAKES_DATA}
    others = {"load_embedding", "register", "stored_array", "unregister"}
    plans = {name for name in functions if name.startswith("plan")}
    assert functions - others - plans == {name.split(",")[0] for name in reach.CALLS}


@pytest.mark.parametrize("name", reach.CALLS)
def test_reach__calls_every_function(name):
    x, y = synthetic(300, features=6, seed=1)
    reach.CALLS[name](x, y, rng=0, threads=1)
