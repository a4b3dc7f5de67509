"""The README is true: its commands are those of the checks, its code runs."""

import csv
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dhsic.cli import main
from dhsic.estimators import TABLE

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)


def test_readme__set_up_commands_are_two():
    shell = [block.strip() for language, block in BLOCKS if language == "sh"]
    run, check = shell[:2]
    assert run.endswith("dhsic demo")
    assert check in (ROOT / ".ci" / "run").read_text()


def test_readme__code_runs(capsys):
    names = {}
    for code in [block for language, block in BLOCKS if language == "python"]:
        exec(compile(code, "README.md", "exec"), names)
    first, rest = capsys.readouterr().out.split("\n", 1)
    assert float(first) > 0.05
    assert "p-value       0.0009997" in rest


@pytest.mark.parametrize(
    "command",
    sorted(set(re.findall(r"(?<!from )dhsic ([a-z]+(?:-[a-z]+)*)", README)) - {"answers"}),
)
def test_readme__commands_exist(command):
    assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0


def test_readme__tables_have_a_command_and_a_file():
    for script, table in re.findall(r"`python (benchmarks/\w+\.py)` \| `(\w+\.csv)`", README):
        assert (ROOT / script).exists()
        assert (ROOT / "benchmarks" / "results" / table).exists()


def test_readme__level_is_that_of_the_table():
    with (ROOT / "benchmarks" / "results" / "level_default.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    rates = [100 * float(row["5%"]) for row in rows]
    cells = {tuple(row[key] for key in ("function", "kind", "M", "n")) for row in rows}
    said = f"{min(rates):.1f} to {max(rates):.1f} % in {len(cells)} cells at default arguments"
    assert said in README
    assert {row["ok"] for row in rows} == {"True"}


def test_readme__table_of_the_family_is_the_registry():
    rows = [
        f"{entry.cost} | {'2' if entry.most_variables else '2 or more'} | "
        + ", ".join(null.name for null in entry.nulls)
        for entry in TABLE
    ]
    found = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| (.*) \|$", README, re.MULTILINE)
    assert found == [(e.estimator.name, row) for e, row in zip(TABLE, rows, strict=True)]
