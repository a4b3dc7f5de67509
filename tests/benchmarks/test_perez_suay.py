"""Figures 1 and 2 of Perez-Suay and Camps-Valls run small, and say what they should."""

import csv

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import gamma

import dhsic
from benchmarks.data import cause_effect_pairs
from benchmarks.papers import perez_suay
from benchmarks.shared.output import write_csv
from dhsic.nulls.distributions import GammaDistribution


def run(out, *options, figure):
    arguments = ["--figure", figure, *map(str, options), "--out", str(out)]
    done = CliRunner().invoke(perez_suay.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert (out / f"perez_suay_{figure}.png").read_bytes().startswith(b"\x89PNG")
    with (out / f"perez_suay_{figure}.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture
def out(tmp_path):
    return tmp_path / "results"


@pytest.fixture
def maps(tmp_path):
    path = tmp_path / "maps.csv"
    row = {"data": "uniform", "estimator": "rff-hsic complex", "n": 50}
    write_csv(str(path), [{**row, "number": d, "relative error": d**-0.5} for d in (10, 100)])
    return path


@pytest.mark.parametrize("number", [0, 20])
def test_gamma_test__is_the_test_of_the_package(number):
    data, kernels = perez_suay.uniform_pair(60, 3)
    statistic, threshold, p, mean, variance = perez_suay.gamma_test(60, number, 3)
    estimator = dhsic.RFFHSIC(number) if number else dhsic.VHSIC()
    found = dhsic.independence_test(
        *data, kernels=kernels, estimator=estimator, null="gamma", rng=3
    )
    assert (statistic, p) == pytest.approx((found.statistic, found.pvalue))
    assert found.null_distribution.mean() == pytest.approx(mean, rel=0.1)
    assert GammaDistribution(mean, variance).sf(threshold) == pytest.approx(0.05)


def test_average_distance_kernel__has_the_distance_of_uniform_variables():
    (x, _), (kernel, _) = perez_suay.uniform_pair(900, 0)
    assert kernel.gamma == pytest.approx(0.5 * 3.0**2, rel=0.1)
    assert 0.0 < x.min() < 0.01 < 0.99 < x.max() < 1.0


def test_law_of__has_the_moments():
    law = perez_suay.law_of(GammaDistribution(2.0, 3.0))
    assert law.stats() == pytest.approx((2.0, 3.0))
    assert law.cdf(1.0) == pytest.approx(gamma(4.0 / 3.0, scale=1.5).cdf(1.0))


def test_figure_1__comes_nearer_with_more_frequencies(out):
    options = ["--rows", 50, "--draws", 60, "--number", 1, "--number", 60]
    table = run(out, *options, figure="1")
    assert {(row["n"], row["draws"]) for row in table} == {("50", "60")}
    methods = ("HSIC", "RHSIC, D = 1", "RHSIC, D = 60")
    found = {(row["method"], row["quantity"]): row for row in table}
    assert set(found) == {(m, q) for m in methods for q in perez_suay.QUANTITIES}
    for quantity in ("statistic", "threshold"):
        exact, few, many = (float(found[method, quantity]["KS"]) for method in methods)
        assert exact == 0.0
        assert many < 0.5 * few
    assert float(found["HSIC", "p-value"]["mean"]) == pytest.approx(0.5, abs=0.15)


def test_figure_1__goes_on_where_it_stopped(out, monkeypatch):
    options = ["--rows", 20, "--draws", 5, "--number", 2]
    asked = []

    def recorded(n, number, seed, test=perez_suay.gamma_test):
        asked.append(number)
        return test(n, number, seed)

    monkeypatch.setattr(perez_suay, "gamma_test", recorded)
    table = run(out, *options, figure="1")
    assert asked == [0] * 5 + [2] * 5
    asked.clear()
    assert run(out, *options, figure="1") == table
    assert not asked
    more = run(out, *options, "--number", 3, figure="1")
    assert more[: len(table)] == table
    assert asked == [0] * 5 + [3] * 5


def test_figure_2__has_estimates_and_seconds_of_both(out, maps, monkeypatch):
    monkeypatch.setattr(perez_suay, "MOST_ROWS", {"HSIC": 80, "RHSIC": 160})
    options = ["--maps", maps, "--draws", 3, "--size", 40, "--size", 80, "--size", 160]
    table = run(out, *options, figure="2")
    cells = [(row["method"], row["n"]) for row in table]
    assert cells == [
        *(("HSIC", "40"), ("HSIC", "80")),
        *(("RHSIC", "40"), ("RHSIC", "80"), ("RHSIC", "160")),
    ]
    for row in table:
        low, mean, high = (float(row[key]) for key in ("smallest", "estimate", "largest"))
        assert 0.0 < low < mean < high < 0.02
        assert (float(row["seconds"]) > 0.0, row["draws"]) == (True, "3")
    monkeypatch.setattr(perez_suay, "timed_estimate", lambda *setting: pytest.fail("it ran"))
    assert run(out, *options, figure="2") == table


def test_figure_2__needs_the_table_of_maps(out, tmp_path):
    options = ["--maps", str(tmp_path / "none.csv"), "--out", str(out)]
    refused = CliRunner().invoke(perez_suay.main, options)
    assert refused.exit_code == 1
    assert not out.exists()
    assert "none.csv: python -m benchmarks run sensitivity_convergence writes it" in refused.output


def test_slope__is_that_of_the_largest_sizes():
    n = np.array([1.0, 10.0, 100.0, 200.0, 400.0])
    assert perez_suay.slope(n, np.where(n < 100.0, 9.0, n**1.5)) == pytest.approx(1.5)


def test_cause_effect_settings__are_those_with_all_pairs():
    data = [
        cause_effect_pairs.Pair(name, 1, "a", 1.0, True, np.zeros((1, 1)), np.zeros((1, 1)))
        for name in ("one", "two")
    ]
    row = {"regression": "splines", "realisation": "0"}
    table = [
        {**row, "n_max": "50", "pair": "one"},
        {**row, "n_max": "50", "pair": "two"},
        {**row, "n_max": "100", "pair": "one"},
        {**row, "n_max": "100", "realisation": "1", "pair": "two"},
    ]
    assert cause_effect_pairs.settings(data, table) == [("splines", "50")]
