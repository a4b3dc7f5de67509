"""The studies of a cluster run small, on threads, and say what they should."""

import csv

import pytest
from click.testing import CliRunner

from benchmarks.cluster import cluster_scaling
from dhsic.bench import scaling_study

SMALL = ["--rows", "400", "--features", "2", "--landmarks", "10", "--resamples", "9"]
SMALL += ["--turns", "1", "--chunk-rows", "64", "--chunk-rows", "128"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the script, on threads where it would start processes."""
    asked = []

    def on_threads(*data, vary, **options):
        asked.append((vary, options))
        return scaling_study(*data, vary={**vary, "scheduler": ["threads"]}, **options)

    monkeypatch.setattr(cluster_scaling, "scaling_study", on_threads)
    out = tmp_path / "results" / "table.csv"

    def run(*options):
        done = CliRunner().invoke(
            cluster_scaling.main, [*SMALL, *options, "--out", str(out)], catch_exceptions=False
        )
        assert done.exit_code == 0
        with out.open() as file:
            return list(csv.DictReader(file)), asked

    return run


def test_cluster_scaling__makes_every_study_and_goes_on(run, tmp_path):
    first, asked = run("--study", "strong")
    assert [(row["study"], row["workers"], row["rows"]) for row in first] == [
        *(("strong", "1", "400"), ("strong", "2", "400"))
    ]
    table, asked = run()
    assert table[:2] == first
    assert len(asked) == 5
    assert {vary.get("precision") is None for vary, _ in asked} == {True, False}
    assert [options["weak"] for _, options in asked] == [False, True, False, False, False]
    weak = [row for row in table if row["study"] == "weak"]
    assert [row["rows"] for row in weak] == ["200", "400"]
    assert [row["chunk_rows"] for row in table if row["study"] == "chunk rows"] == ["64", "128"]
    assert all(float(row["seconds"]) > float(row["outside"]) > 0 for row in table)
    assert (tmp_path / "results" / "table.png").stat().st_size > 10_000


def test_cluster_scaling__refuses_a_table_of_other_options(run, tmp_path):
    run("--study", "strong")
    out = str(tmp_path / "results" / "table.csv")
    for other in (["--landmarks", "12"], ["--turns", "2"], ["--workers", "1", "--workers", "3"]):
        done = CliRunner().invoke(cluster_scaling.main, [*SMALL, *other, "--out", out])
        assert done.exit_code == 2
        assert "of other options" in done.output


def test_cluster_scaling__takes_its_options(run, tmp_path):
    options = ["--study", "strong", "--workers", "1", "--workers", "3", "--folder", str(tmp_path)]
    (row, _), asked = run(*options)
    vary, options = asked[0]
    assert vary == {"workers": [1, 3]}
    assert options["n_resamples"] == 9
    assert options["estimator"].n_landmarks == 10
    assert options["precision"] == row["precision"] == "float32"
    assert options["repeats"] == int(row["turns"]) == 1
    assert options["folder"].startswith(str(tmp_path))
