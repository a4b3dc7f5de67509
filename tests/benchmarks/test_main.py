"""The benchmarks are found by name, and run small in a folder of their own."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import FOLDERS, SMALL, benchmarks, command, main, small_options

NAMES = list(benchmarks())
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def test_list__has_every_benchmark_with_its_title():
    listed = CliRunner().invoke(main, ["list"], catch_exceptions=False).output
    for name, (folder, title) in benchmarks().items():
        assert f"  {name:24} {title}\n" in listed
        assert f"{folder}: {FOLDERS[folder]}\n" in listed


def test_small__has_options_of_every_benchmark():
    assert sorted(NAMES) == sorted(SMALL)


@pytest.mark.parametrize("name", NAMES)
def test_small__options_are_those_that_the_benchmark_has(name):
    needs_data = name in ("weather_dags", "dependent_air")  # refuse folders that are not there
    asked = [*small_options(name, "here"), *["--data", "."] * needs_data, "--out", "here"]
    found = command(name)
    with found.make_context(name, asked) as context:
        if hasattr(found, "commands"):
            chosen, *rest = context._protected_args + context.args
            found.commands[chosen].make_context(chosen, rest).close()


def test_run__small_leaves_the_results_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix: str(tmp_path))
    before = {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()}
    done = CliRunner().invoke(main, ["run", "convergence", "--small", "--draws", "2"])
    assert done.exit_code == 0
    assert (tmp_path / "convergence.csv").read_text().startswith("estimator,")
    assert {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()} == before


def test_run__passes_options_and_help_on():
    said = CliRunner().invoke(main, ["run", "tails", "--help"], catch_exceptions=False).output
    assert said.startswith("Usage: python -m benchmarks run tails [OPTIONS]")
    wrong = CliRunner().invoke(main, ["run", "tails", "--colour", "red"])
    assert wrong.exit_code == 2
    assert "No such option" in wrong.output


def test_run__refuses_other_names():
    wrong = CliRunner().invoke(main, ["run", "tales"])
    assert wrong.exit_code == 2
    assert "python -m benchmarks list" in wrong.output
    assert "'tales'" in wrong.output


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_run__small_works(name):
    if name == "pc_graph":
        reason = "causal-learn, of the extra `discovery`, is not installed"
        pytest.importorskip("causallearn", reason=reason)
    done = CliRunner().invoke(main, ["run", name, "--small"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
