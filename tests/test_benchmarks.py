"""Every benchmark runs small, and says what it should."""

import csv
import itertools

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import (
    convergence,
    family,
    grid_cost,
    grid_level,
    grid_power,
    level,
    peers,
    power,
    pruning,
    roofline,
    scaling,
    selection,
    tails,
)
from benchmarks.cases import SCENARIOS
from dhsic.estimators import TABLE
from dhsic.kernels import Candidates, Grid


def run(module, out, *options):
    arguments = [str(option) for option in options]
    done = CliRunner().invoke(module.main, [*arguments, "--out", str(out)], catch_exceptions=False)
    assert done.exit_code == 0
    with out.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture
def out(tmp_path):
    return tmp_path / "results" / "table.csv"


QUICK_LEVEL = ["--runs", 2, "--setting", 40, "gaussian", "--processes", 1]


def test_level__has_every_pair(out):
    table = run(level, out, *QUICK_LEVEL, "--variables", 2)
    pairs = {(row["estimator"], row["null"].split()[0]) for row in table}
    supported = {(e.estimator.name, null.name) for e in TABLE for null in e.nulls}
    assert supported <= pairs
    assert all(0 <= float(row["5%"]) <= float(row["10%"]) <= 1 for row in table)


def test_level__has_three_variables_where_they_are_supported(out):
    table = run(level, out, *QUICK_LEVEL, "--null", "gamma")
    three = {row["estimator"] for row in table if row["variables"] == "3"}
    assert three == {"nystrom-m", "rff-hsic", "v-hsic"}


def test_level__goes_on_where_it_stopped(out, monkeypatch):
    first = run(level, out, *QUICK_LEVEL, "--estimator", "dcov", "--null", "gamma")
    monkeypatch.setattr(level, "one_pvalue", lambda setting: 0.005)
    both = run(
        level, out, *QUICK_LEVEL, "--estimator", "dcov", "--null", "gamma", "--null", "normal"
    )
    assert both == first
    more = run(level, out, *QUICK_LEVEL, "--estimator", "dcor", "--null", "gamma")
    assert more[: len(first)] == first
    assert [row["above"] for row in more[len(first) :]] == ["1%"]


def test_power__has_a_row_a_test(out):
    table = run(power, out, "--runs", 2, "--size", 60, "--processes", 1)
    assert len(table) == len(power.TESTS) * len(power.ALTERNATIVES)


def test_pruning__keeps_less_with_a_wider_tolerance(out):
    options = ["--rows", 300, "--landmarks", 80, "--power-rows", 100, "--power-landmarks", 30]
    table = run(pruning, out, *options, "--runs", 2, "--processes", 1)
    kept = [int(row["kept"]) for row in table if row["dimensions"] == "1 1"]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > kept[-1]


def test_roofline__compares_the_same_work(out):
    options = ["--rows", 3000, "--features", 5, "--landmarks", 30, "--resamples", 10]
    table = run(roofline, out, *options, "--repeats", 1, "--workers", 0, "--threads", 1)
    assert [row["precision"] for row in table] == ["float32", "float64"]
    assert all(float(row["floor_s"]) > 0 and row["landmarks_kept"] == "30" for row in table)


def test_scaling__measures_memory_and_reads_the_prediction(out):
    (row,) = run(scaling, out, "--case", 2000, "60", "--features", 4, "--threads", 1)
    assert (row["n"], row["landmarks"]) == ("2000", "60")
    assert 50 < float(row["peak MiB"]) < 2000
    assert 50 < float(row["planned MiB"]) < 2000


def test_peers__run_on_the_same_data(out):
    pytest.importorskip("hyppo", reason="the extra `peers` is not installed")
    pytest.importorskip("dcor", reason="the extra `peers` is not installed")
    table = run(peers, out, "--size", 120, "--features", 3, "--resamples", 10)
    assert len(table) == len(peers.METHODS)


def test_family__times_every_kind(out):
    options = ["--linear", 2000, "--own", 2000, "--quadratic", 300, "--features", 2]
    table = run(family, out, *options, "--resamples", 3, "--repeats", 1)
    units = [row["unit"] for row in table]
    assert units.count("us a row") == len(family.LINEAR)
    assert units.count("times") == len(family.OWN_PERMUTATIONS)
    assert units.count("ns a pair") == len(family.QUADRATIC)


def test_convergence__finds_errors_that_fall(out):
    table = run(convergence, out, "--rows", 200, "--number", 10, "--number", 80, "--draws", 5)
    errors = [float(row["relative error"]) for row in table]
    assert len(errors) == 2 * 7
    assert all(many < few for few, many in zip(errors[::2], errors[1::2], strict=True))
    assert all(float(row["slope so far"]) < 0 for row in table[1::2])


def test_tails__compare_with_permutations(out):
    options = ["--rows", 60, "--permutations", 100, "--runs", 1, "--processes", 1]
    table = run(tails, out, *options, "--data", "gaussian")
    assert {row["null"] for row in table} == {"gamma", "spectral"}
    assert len({row["estimator"] for row in table}) == 9
    assert all(0.2 < float(row["at 0.05"]) < 5.0 for row in table)


QUICK_GRIDS = ["--runs", 4, "--size", 40, "--processes", 1]


def test_grid_level__has_every_grid_and_aggregate(out):
    table = run(grid_level, out, *QUICK_GRIDS)
    names = ("null", "variables", "kernels", "aggregate", "reference share")
    cells = {tuple(row[name] for name in names) for row in table}
    assert len(cells) == len(table) == 2 * 2 * 3 * 4
    for row in table:
        rates = [float(row[rate]) for rate in ("1%", "5%", "10%")]
        assert rates == sorted(rates)
        cases = [float(row[key]) for key in row if key.startswith("5% ")]
        assert np.mean(cases) == float(row["5%"])


@pytest.mark.parametrize("name", ["v-hsic", "rff-hsic"])
def test_grid_level__runs_other_estimators_of_two_variables(out, name):
    table = run(grid_level, out, *QUICK_GRIDS, "--estimator", name, "--null", "permutation")
    assert {(row["estimator"].split()[0], row["variables"]) for row in table} == {(name, "2")}


def test_grid_level__goes_on_where_it_stopped_and_flags(out, monkeypatch):
    options = [*QUICK_GRIDS, "--variables", 2, "--null", "multiplier"]
    first = run(grid_level, out, *options)
    monkeypatch.setattr(grid_level, "pvalues", lambda setting: np.full((3, 4), 0.005))
    assert run(grid_level, out, *options) == first
    more = run(grid_level, out, *options, "--size", 50)
    assert more[: len(first)] == first
    assert {row["above"] for row in more[len(first) :]} == {"1% 5% 10%"}


@pytest.mark.parametrize("m", [2, 3])
def test_grid_level__has_smaller_grids_around_the_reference(m):
    factors = Candidates(factors=grid_level.FACTORS[m])
    combinations = Grid(factors, combine="all").combinations(m)
    small, middle, whole = grid_level.grids(combinations, m)
    assert [len(set(small)), len(set(middle)), len(set(whole))] == [5, 16, 64]
    assert all(combinations.reference() in grid for grid in (small, middle, whole))
    for first, second in itertools.combinations(range(m), 2):
        chosen = [combinations.chosen[c] for c in middle]
        pairs = {(one[first], one[second]) for one in chosen}
        assert len(pairs) == 16


def test_grid_power__draws_every_scenario(out):
    options = ["--runs", 2, "--size", 50, "--processes", 1]
    few = ["--data", "linear", "--data", "joint triple"]
    table = run(grid_power, out, *options, *few)
    assert len(table) == 2 * len(grid_power.METHODS) - 1  # dcor takes no triples
    assert run(grid_power, out, *options, *few) == table
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_grid_power__leaves_quadratic_tests_out_and_takes_fewer_runs_of_large_data(
    out, monkeypatch
):
    monkeypatch.setattr(grid_power, "one_pvalue", lambda setting: 0.01)
    options = ["--runs", 3, "--large-runs", 2, "--data", "circle", "--processes", 1]
    table = run(grid_power, out, *options, "--size", 1000, "--size", 2000)
    runs = {(row["method"], row["n"]): row["runs"] for row in table}
    assert runs["v-hsic, grid", "1000"] == "3"
    assert runs["nystrom-m, grid", "2000"] == "2"
    assert ("v-hsic, grid", "2000") not in runs


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios__are_data_of_so_many_rows(name):
    data = SCENARIOS[name](30, np.random.default_rng(0))
    again = SCENARIOS[name](30, np.random.default_rng(0))
    assert all(len(x) == 30 and np.isfinite(x).all() for x in data)
    assert all((x == y).all() for x, y in zip(data, again, strict=True))


def test_grid_cost__says_where_the_time_goes(out):
    options = ["--rows", 3000, "--features", 3, "--landmarks", 40, "--resamples", 10]
    table = run(grid_cost, out, *options, "--repeats", 1, "--threads", 1)
    assert [row["kernels"] for row in table] == list(grid_cost.GRIDS)
    assert float(table[0]["over one"]) == 1.0
    for row in table:
        steps = [float(row[step]) for step in grid_cost.STEPS]
        assert min(steps) > 0
        assert sum(steps) <= float(row["seconds"]) * 1.01
        assert float(row["us tiles"]) > 0


def test_selection__has_every_selection(out):
    options = ["--runs", 2, "--rows", 60, "--landmarks", "2sqrt", "--processes", 1]
    table = run(selection, out, *options)
    assert len(table) == len(selection.CASES) * len(selection.SELECTIONS)
    assert {row["selection"] for row in table} == set(selection.SELECTIONS)
    assert run(selection, out, *options) == table
