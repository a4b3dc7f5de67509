"""What the default takes: its power beside others, and its cost beside one kernel."""

import numpy as np
import pytest

import dhsic
from benchmarks import default_cost, default_power, estimates
from tests.benchmarks.test_exact import run


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


def test_default_cost__times_both_and_keeps_rows(out):
    first = run(default_cost, out, "--n", 300, "--columns", "2+1", "--repeats", 1)
    (row,) = first
    assert (row["estimator"], row["kernels"]) == ("v-hsic", "17")
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
