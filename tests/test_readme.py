"""The README is true: its commands are those of the checks, its code runs."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dhsic.cli import main
from dhsic.engine.plan import SPREAD
from dhsic.estimators import TABLE

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RESULTS = ROOT / "benchmarks" / "results"
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
    assert "p-value       <= 0.0009997 (that of a stage is the smallest with" in rest


@pytest.mark.parametrize(
    "command",
    sorted(set(re.findall(r"(?<!from )dhsic ([a-z]+(?:-[a-z]+)*)", README)) - {"answers"}),
)
def test_readme__commands_exist(command):
    assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0


def test_readme__tables_have_a_command_and_a_file():
    for script, name in re.findall(r"`python (benchmarks/\w+\.py)` \| `(\w+\.csv)`", README):
        assert (ROOT / script).exists()
        assert (RESULTS / name).exists()


def table(name):
    with (RESULTS / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_readme__level_is_that_of_the_table():
    rows = table("level_default.csv")
    rates = [100 * float(row["5%"]) for row in rows]
    cells = {tuple(row[key] for key in ("function", "kind", "M", "n")) for row in rows}
    said = f"{min(rates):.1f} to {max(rates):.1f} % in {len(cells)} cells, nearly all at default"
    assert said in README
    assert {row["ok"] for row in rows} == {"True"}


def test_results__level_of_the_family_is_that_of_the_table():
    rates = [100 * float(row["5%"]) for row in table("level.csv")]
    said = f"reject {min(rates):.1f} to {max(rates):.1f} % of independent data sets of 200 to 2,000"
    assert said in (RESULTS / "README.md").read_text()


def test_readme__power_of_the_default_is_that_of_the_table():
    rows = [r for r in table("exact_power.csv") if r["n"] == "200" and r["method"] != "chain"]
    two = [r for r in rows if not re.search(r" of [34]$", r["data"])]
    powers = {(r["data"], r["method"]): 100 * float(r["power"]) for r in two}
    kinds = {kind for kind, _ in powers}
    most = max(abs(powers[kind, "default"] - powers[kind, "permutation"]) for kind in kinds)
    said = f"within {most:.0f} points of the power of 499 permutations on {len(kinds)} kinds"
    assert said in README


def test_readme__cost_of_the_default_beside_one_kernel_is_that_of_the_table():
    rows = table("default_cost.csv")
    few, many = (
        [float(row["over one kernel"]) for row in rows if (int(row["n"]) == 1000) == is_few]
        for is_few in (True, False)
    )
    (largest,) = (r for r in rows if (r["n"], r["columns"]) == ("1000000", "90+1"))
    assert f"{min(few):.1f} to {max(few):.1f} times the time of one kernel at 1,000 rows" in README
    assert f"{min(many):.1f} to {max(many):.1f} times from 10,000 to 1,000,000" in README
    assert f"{float(largest['seconds']):.0f} s of the processor for 1,000,000 x 90 + 1" in README


def test_readme__cost_of_the_default_is_that_of_the_table():
    seconds = {(r["case"], r["null"]): float(r["seconds"]) for r in table("exact_cost.csv")}

    def times(case, null):
        return seconds[case, null] / seconds[case, "default"]

    one, many = (1 / times(f"nystrom-m, {k}", "multiplier") for k in ("one kernel", "16 kernels"))
    assert f"{one:.1f} and {many:.1f} of the time of 250 random signs" in README
    permuted = times("v-hsic, 16 kernels", "permutation")
    assert f"250 permutations: {permuted:.0f} times as long" in README


def test_readme__seconds_of_plans_are_those_of_the_table():
    rows = table("plan_seconds.csv")
    times = [float(r["processor s"]) / float(r["planned processor s"]) for r in rows]
    for threads, words in (("1", "one thread"), ("2", "two")):
        own = [one for one, r in zip(times, rows, strict=True) if r["threads"] == threads]
        near = sum(0.75 <= 1 / one <= 1.25 for one in own)
        assert f"{near} of {len(own)} on {words}" in README
    low, high = np.quantile(times, [0.05, 0.95])
    assert f"nine of ten take {low:.2f} to {high:.2f} times as long" in README
    assert (round(low, 2), round(high, 2)) == SPREAD


def test_readme__bytes_of_plans_are_those_of_the_table():
    used = [float(r["peak MiB"]) / float(r["planned MiB"]) for r in table("plan_seconds.csv")]
    assert f"{min(used):.2f} to {max(used):.2f} of the bytes" in README
    assert max(used) <= 1.0


def test_readme__billions_of_rows_are_those_of_the_table():
    seconds = {
        (r["method"], r["workers"]): f"{float(r['elapsed s']):,.0f}"
        for r in table("extrapolated.csv")
        if r["n"] == "1000000000"
    }
    default, signs = (
        [seconds[method, workers] for workers in ("10", "100", "1000")]
        for method in ("the default", "2000 landmarks, 250 signs")
    )
    assert (
        f"the default: {default[0]} s on 10 workers, {default[1]} on 100, {default[2]} on" in README
    )
    assert f"250 signs: {signs[0]}, {signs[1]} and {signs[2]} s" in README


def test_readme__table_of_the_family_is_the_registry():
    rows = [
        f"{entry.cost} | {'2' if entry.most_variables else '2 or more'} | "
        + ", ".join(null.name for null in entry.nulls)
        for entry in TABLE
    ]
    found = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| (.*) \|$", README, re.MULTILINE)
    assert found == [(e.estimator.name, row) for e, row in zip(TABLE, rows, strict=True)]
