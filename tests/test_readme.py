"""The README is true: its commands are those of the checks, its code prints what it says."""

import csv
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import SMALL
from dhsic.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RESULTS = ROOT / "benchmarks" / "results"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)


def test_readme__is_short():
    assert len(README.encode()) <= 5_000


def test_readme__set_up_commands_are_two():
    shell = [block.strip() for language, block in BLOCKS if language == "sh"]
    run, check = shell[:2]
    assert run.endswith("dhsic demo")
    assert check in (ROOT / ".ci" / "run").read_text()


def test_readme__code_prints_what_it_says():
    (code,) = [block for language, block in BLOCKS if language == "python"]
    (said,) = [block for language, block in BLOCKS if language == "text"]
    with redirect_stdout(StringIO()) as printed:
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == said


@pytest.mark.parametrize(
    "command",
    sorted(set(re.findall(r"(?<!from )\bdhsic ([a-z]+(?:-[a-z]+)*)", README)) - {"tests"}),
)
def test_readme__commands_exist(command):
    assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0


def test_readme__files_exist():
    for place in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / place).exists(), place


def test_readme__commands_of_figures_exist():
    named = re.findall(r"`python -m benchmarks run (\w+)[^`]*` \|", README)
    assert len(named) == 5
    assert set(named) <= set(SMALL)


def table(name):
    with (RESULTS / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_readme__level_is_that_of_the_table():
    rows = table("level_default.csv")
    rates = [100 * float(row["5%"]) for row in rows]
    cells = {tuple(row[key] for key in ("function", "kind", "M", "n")) for row in rows}
    assert f"| {min(rates):.1f} to {max(rates):.1f} % in {len(cells)} cells" in README


def test_readme__most_rows_are_those_of_the_table():
    rows = [
        row
        for row in table("peers_limits.csv")
        if (row["method"], row["features"]) == ("dhsic nystrom-m, 500 landmarks", "90")
        and not row["stopped"]
    ]
    most = max(rows, key=lambda row: int(row["n"]))
    assert (most["limit seconds"], most["limit MiB"]) == ("60", "4096")
    assert f"| {int(most['n']):,}, in {float(most['peak MiB']):.0f} MiB |" in README


def test_readme__hundred_million_rows_are_those_of_the_table():
    (row,) = [
        row
        for row in table("wall.csv")
        if (row["method"], row["n"]) == ("nystrom-m, 100 landmarks, multiplier", "100000000")
    ]
    seconds, mebibytes = float(row["processor seconds"]), float(row["peak MiB"])
    assert f"| {seconds:.0f} s of the processor, {mebibytes:.0f} MiB |" in README


def test_readme__speed_of_two_workers_is_that_of_the_table():
    (row,) = [
        row
        for row in table("cluster_scaling.csv")
        if (row["study"], row["workers"]) == ("strong", "2")
    ]
    assert f"{int(row['rows']):,} rows | {float(row['speedup']):.2f} times as fast |" in README


def test_readme__runs_that_lost_processes_are_those_of_the_table():
    same = ["identical" in (row["outcome"], row["resumed"]) for row in table("chaos.csv")]
    assert f"| {sum(same)} of {len(same)} the same to the bit, the others an error |" in README
