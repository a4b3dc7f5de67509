"""Every benchmark runs small, and says what it should."""

import csv

import pytest
from click.testing import CliRunner

from benchmarks import level, peers, power, pruning, roofline, scaling


def run(module, out, *options):
    arguments = [str(option) for option in options]
    done = CliRunner().invoke(module.main, [*arguments, "--out", str(out)], catch_exceptions=False)
    assert done.exit_code == 0
    with out.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture
def out(tmp_path):
    return tmp_path / "results" / "table.csv"


def test_level__has_a_row_a_case(out):
    options = ["--runs", 3, "--size", 60, "--processes", 1, "--null", "multiplier"]
    table = run(level, out, *options)
    assert len(table) == 12
    assert {row["variables"] for row in table} == {"2", "3", "4"}


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
