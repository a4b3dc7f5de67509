"""The table of peaks beside plans, and a small row of it."""

from pathlib import Path

import pytest

from benchmarks.cost.memory_peak import Case, alone
from benchmarks.shared.output import read_csv

TABLE = read_csv(str(Path(__file__).parents[2] / "benchmarks/results/memory_peak.csv"))


def test_table__has_no_peak_above_a_tenth_more_than_planned():
    assert len(TABLE) == 12
    assert max(float(row["peak / planned"]) for row in TABLE) <= 1.1
    assert {row["reads"] for row in TABLE} == {"2"}  # for the sample, and for the pass


@pytest.mark.nightly
def test_row__is_within_a_tenth():
    row = alone(Case("rows", "8 chunks", "zstd", n=200_000))
    assert row["peak / planned"] <= 1.1
    assert row["reads"] == 2
