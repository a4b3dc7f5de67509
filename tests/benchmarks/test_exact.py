"""The studies of the exact null run small, and say what they should."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import binom

from benchmarks.cost import exact_cost, plan_seconds, small
from benchmarks.power import exact_power
from dhsic.estimators.registry import NULLS


@pytest.fixture
def out(tmp_path):
    return tmp_path / "results" / "table.csv"


def run(module, out, *options):
    arguments = [*map(str, options), "--out", str(out)]
    done = CliRunner().invoke(module.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    with out.open() as file:
        return list(csv.DictReader(file))


QUICK = ["--runs", 2, "--n", 30]


def test_exact_power__has_every_method_and_a_picture(out, monkeypatch):
    monkeypatch.setattr(exact_power, "RESAMPLES", 19)
    few = ["--data", "linear", "--data", "late pair of 3"]
    table = run(exact_power, out, *QUICK, *few)
    several = [name for name in ("shifts", "chain") if name in NULLS]
    both = ["permutation", "default"]
    assert [row["method"] for row in table] == [*both, *both, *several]
    for row in table:
        assert 0.0 <= float(row["low"]) <= float(row["power"]) <= float(row["high"]) <= 1.0
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(exact_power.dhsic, "independence_test", None)
    assert run(exact_power, out, *QUICK, *few) == table


@pytest.mark.parametrize(("found", "runs"), [(0, 20), (7, 20), (300, 300)])
def test_exact_power__limits_hold_what_is_not_unlikely(found, runs):
    row = exact_power.with_limits({"power": round(found / runs, 4), "runs": str(runs)})
    assert found == 0 or binom.sf(found - 1, runs, row["low"]) == pytest.approx(0.025)
    assert found == runs or binom.cdf(found, runs, row["high"]) == pytest.approx(0.025)


@pytest.mark.parametrize("kind", exact_power.KINDS)
def test_exact_power__weakens_large_data_and_leaves_small_ones(kind):
    draw = exact_power.KINDS[kind]
    variables = 2 if kind not in exact_power.SEVERAL else int(kind[-1])
    for n, kept in ((200, 200), (800, 400)):
        whole = draw(n, np.random.default_rng(0))
        weak = exact_power.Weakened(draw)(n, np.random.default_rng(0))
        assert len(weak) == variables
        assert (weak[0] == whole[0]).all()
        for x, y in zip(whole[1:], weak[1:], strict=True):
            assert np.count_nonzero(x == y) >= kept
            assert sorted(x.ravel()) == sorted(y.ravel())
    last, before = whole[-1], weak[-1]
    assert np.count_nonzero(last != before) > 0


def test_exact_power__draws_no_constants():
    rng = np.random.default_rng(0)
    for kind in ("rare event", "two rare events"):
        assert all(0 < exact_power.KINDS[kind](20, rng)[0].sum() < 20 for _ in range(50))


@pytest.mark.parametrize("name", exact_cost.cases())
def test_exact_cost__times_every_null(out, name):
    table = run(exact_cost, out, "--case", name, "--fewer", 100, "--repeats", 1)
    assert [row["null"] for row in table] == list(exact_cost.cases()[name].nulls)
    assert all(float(row["seconds"]) > 0 for row in table)
    assert table[0]["over first"] == "1"


def test_exact_cost__keeps_rows_of_other_cases(out):
    quick = ["--fewer", 100, "--repeats", 1, "--case"]
    first = run(exact_cost, out, *quick, "v-hsic, one kernel")
    both = run(exact_cost, out, *quick, "v-hsic, 16 kernels")
    assert both[: len(first)] == first
    assert [row["kernels"] for row in both[len(first) :]] == ["16", "16"]
    again = run(exact_cost, out, *quick, "v-hsic, one kernel")
    assert [row["case"] for row in again] == 2 * ["v-hsic, 16 kernels"] + 3 * ["v-hsic, one kernel"]


def test_exact_cost__counts_processes_that_it_started(monkeypatch):
    used = {exact_cost.resource.RUSAGE_SELF: (1.0, 0.5)}
    used[exact_cost.resource.RUSAGE_CHILDREN] = (2.0, 0.25)

    class Usage:
        def __init__(self, who):
            self.ru_utime, self.ru_stime = used[who]

    monkeypatch.setattr(exact_cost.resource, "getrusage", Usage)
    assert exact_cost.processor_seconds() == 3.75


def test_plan_seconds__plans_and_measures_every_shape(out, monkeypatch):
    asked = [("v-hsic", "gamma", "one", "1x1", 80), ("nystrom-hsic", "auto", "default", "2x1", 60)]
    shapes = [plan_seconds.Shape(*one) for one in asked]
    shapes[1] = replace(shapes[1], threads=2)
    shapes.append(plan_seconds.Shape(*asked[0], precision="float32", place="zarr"))
    monkeypatch.setattr(plan_seconds, "shapes", lambda: shapes)
    table = run(plan_seconds, out)
    assert [row["place"] for row in table] == ["memory", "memory", "zarr"]
    assert [row["threads"] for row in table] == ["1", "2", "1"]
    for row in table:
        processed, elapsed = (float(row[f"planned {kind} s"]) for kind in ("processor", "elapsed"))
        assert 0 < elapsed <= processed
        assert min(float(row["processor s"]), float(row["elapsed s"])) > 0
        assert 0 < float(row["peak MiB"]) < float(row["planned MiB"]) < 500
    monkeypatch.setattr(plan_seconds, "alone", None)
    assert run(plan_seconds, out) == table
    assert run(plan_seconds, out, "--n", 60, "--estimator", "nfsic") == table


def test_plan_seconds__has_no_shape_that_the_work_was_fitted_to():
    shapes = list(plan_seconds.shapes())
    assert len(shapes) == len(set(shapes)) == 2 * 32
    assert {shape.n for shape in shapes} & {500, 2000, 6000, 20_000, 60_000} == set()
    assert {shape.columns for shape in shapes} == {"1x1", "20x1", "90x1", "50x50", "3x3x3"}
    assert {shape.place for shape in shapes} == {"memory", "zarr"}


def test_small__has_every_method_that_is_installed(out, monkeypatch):
    monkeypatch.setattr(small, "find_spec", lambda name: None)
    table = run(small, out, "--n", 30, "--columns", 1, "--columns", 2, "--turns", 1)
    ours = ["dhsic default", "dhsic one gaussian kernel"]
    assert [(row["columns"], row["method"]) for row in table] == [
        (d, name) for d in "12" for name in ours
    ]
    assert all(float(row["milliseconds"]) > 0.0 for row in table)
    assert {row["over quickest peer"] for row in table} == {""}


def test_small__compares_with_the_quickest_peer(out, monkeypatch):
    monkeypatch.setattr(small, "find_spec", lambda name: name)
    peers = {"slow": lambda *_: sum(range(10**5)), "quick": lambda *_: 0.0}
    monkeypatch.setattr(small, "PEERS", peers)
    table = run(small, out, "--n", 30, "--columns", 1, "--turns", 3)
    assert [row["method"] for row in table] == [*small.OURS, *peers]
    over = {row["method"]: float(row["over quickest peer"]) for row in table}
    assert over["quick"] == 1.0


def test_small__says_what_is_left_out(monkeypatch, capsys):
    monkeypatch.setattr(small, "find_spec", lambda name: None)
    assert list(small.methods()) == list(small.OURS)
    assert "hyppo is left out" in capsys.readouterr().err
