"""Every option of `dhsic test` does something."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from click.testing import Result

import dhsic
from dhsic.io.open import open_group
from dhsic.results import IndependenceTestResult
from tests.cli.conftest import ROWS, Invoke, TestJson, code_of_page

PAIR = ("--variable", "x", "--variable", "y")
FEW = ("--estimator", "nystrom-m", "--resamples", 50)
ONE = ("--kernel", "gaussian")


def table(done: Result) -> dict[str, str]:
    """What is printed, by label."""
    assert (done.exit_code, done.stderr) == (0, "")
    return dict(
        re.split(r"\s{2,}|(?<=squared HSIC) ", line, maxsplit=1)
        for line in done.stdout.splitlines()
    )


LEAST = "<= 0.01389 (the smallest with 71 replicates; take 719 or so to tell a smaller one)"


def test_prints_a_short_table(invoke: Invoke, data: str) -> None:
    lines = table(invoke("test", data, *PAIR, *FEW, *ONE))
    assert "kernels" not in lines
    assert lines["variables"].startswith("x (3 columns, gaussian:")
    assert lines["n"] == f"{ROWS:,}"
    assert lines["landmarks"].endswith("kept, independent pairing")
    assert float(lines["statistic"].split()[0]) > 1
    assert lines["p-value"] == LEAST
    assert lines["decision"] == "independence rejected at level 0.05"
    assert " s, 1 pass, float64" in lines["time"]
    assert not list(Path.cwd().glob("*.json"))


def test_tries_several_kernels_where_none_is_given(invoke: Invoke, data: str) -> None:
    lines = table(invoke("test", data, *PAIR, *FEW, "--landmarks", 40))
    assert lines["kernels"].startswith(
        "9 kernel combinations tried, judged by their soft maximum; p-value corrected"
    )
    assert lines["p-value"] == LEAST
    assert "independence rejected" in lines["decision"]


@pytest.mark.parametrize("kernels", [(), ONE])
def test_accepts_what_is_independent(invoke: Invoke, data: str, kernels: tuple[str, ...]) -> None:
    independent = ("--variable", "x", "--variable", "z", "--landmarks", 40)
    level = ("--alpha", 0.01)  # these rows have p = 0.02 by chance, whatever the estimator
    done = invoke("test", data, *independent, *level, *kernels)
    assert done.exit_code == 0
    assert "independence not rejected at level 0.01" in done.stdout


def test_takes_any_number_of_variables(run_test: TestJson) -> None:
    result = run_test(variables=("x", "y", "z"))
    assert [v.name for v in result.variables] == ["x", "y", "z"]


def test_variable_chooses_and_names_columns(run_test: TestJson) -> None:
    result = run_test(variables=("front=x[:, 0:2]", "z[:, 1]", "y"))
    named = [(v.name, v.columns) for v in result.variables]
    assert named == [("front", 2), ("z[:, 1]", 1), ("y", 1)]
    assert result.statistic != run_test(variables=("front=x[:, 1:3]", "z[:, 1]", "y")).statistic


def test_kernel_for_all_and_for_one(run_test: TestJson) -> None:
    result = run_test("--kernel", "laplacian", "--kernel", "y=gaussian:0.25")
    assert result.variables[0].kernel.startswith("laplacian:")
    assert result.variables[1].kernel == "gaussian:0.25"
    assert result.statistic != run_test().statistic


def test_kernel_of_a_variable_named_by_its_columns(run_test: TestJson) -> None:
    options = ("--kernel", "x[:, 0:2]=linear", *ONE)
    result = run_test(*options, variables=("x[:, 0:2]", "y"))
    assert [v.kernel.split(":")[0] for v in result.variables] == ["linear", "gaussian"]


def test_categories_take_the_delta_kernel(run_test: TestJson) -> None:
    result = run_test("--kernel", "label=delta", *ONE, variables=("x", "label"))
    assert result.variables[1].kernel == "delta"
    given = run_test("--kernel", "x=gaussian", variables=("x", "label"))
    assert given.variables == result.variables
    for factors in ((), ("--factors", "0.5,1")):
        tried = run_test(
            "--resamples", 30, *factors, "--estimator", "v-hsic", variables=("x", "label")
        )
        assert tried.grid is not None
        assert {one.kernels[1] for one in tried.grid.combinations} == {"delta"}


def test_landmarks(run_test: TestJson) -> None:
    drawn = [run_test("--landmarks", count).landmarks for count in ("64", "2sqrt", "8sqrt")]
    assert [z.drawn for z in drawn if z is not None] == [64, 70, 280]
    assert run_test("--estimator", "nystrom-m").landmarks == drawn[2]
    assert run_test().estimator == "v-hsic"


def test_pairing(run_test: TestJson) -> None:
    joint = run_test("--pairing", "joint")
    assert joint.landmarks is not None
    assert joint.landmarks.pairing == "joint"
    assert joint.statistic != run_test().statistic


def test_estimator(run_test: TestJson) -> None:
    result = run_test("--estimator", "v-hsic", *ONE, "--resamples", 20)
    assert (result.estimator, result.landmarks) == ("v-hsic", None)


def test_null(run_test: TestJson) -> None:
    results = {null: run_test("--null", null) for null in ("auto", "multiplier", "permutation")}
    assert [result.null for result in results.values()] == [
        "shifts",
        "multiplier",
        "permutation",
    ]
    assert results["auto"].null_reason.startswith("exact")
    assert results["permutation"].null_reason.startswith("as asked")


def test_resamples(run_test: TestJson) -> None:
    permuted = run_test("--null", "permutation", "--resamples", 33)
    assert len(permuted.null_distribution) == 33
    assert len(run_test("--resamples", 33).null_distribution) + 1 >= 33
    assert len(run_test("--resamples", 3000).null_distribution) + 1 >= 3000


def test_seed(run_test: TestJson) -> None:
    default, zero, one = run_test(), run_test("--seed", 0), run_test("--seed", 1)
    assert default.statistic == zero.statistic != one.statistic
    assert (zero.seed, one.seed) == (0, 1)


def test_precision(run_test: TestJson) -> None:
    single, double = run_test("--precision", "float32"), run_test()
    assert (single.precision, double.precision) == ("float32", "float64")
    assert single.statistic == pytest.approx(double.statistic, rel=0.05)
    assert single.statistic != double.statistic


@pytest.mark.parametrize(
    ("alpha", "verdict"),
    [
        ("0.5", "rejected at level 0.5"),
        ("0.001", "not rejected at level 0.001; 71 replicates never can, take 999 or more"),
    ],
)
def test_alpha(invoke: Invoke, data: str, alpha: str, verdict: str) -> None:
    done = invoke("test", data, *PAIR, *FEW, *ONE, "--alpha", alpha)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1].endswith(f" independence {verdict}")


def test_json_is_the_whole_result(invoke: Invoke, data: str, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "out.json"
    path.parent.mkdir()
    path.write_text("old")
    refused = invoke("test", data, *PAIR, *FEW, *ONE, "--json", path)
    assert refused.exit_code == 2
    assert "out.json exists: give another name, or --overwrite to replace it" in refused.stderr
    assert path.read_text() == "old"
    invoke("test", data, *PAIR, *FEW, *ONE, "--json", path, "--overwrite")
    text = path.read_text()
    assert text == IndependenceTestResult.from_json(text).to_json(indent=2) + "\n"
    assert [child.name for child in path.parent.iterdir()] == ["out.json"]


def test_a_warning_is_a_line(monkeypatch: pytest.MonkeyPatch, invoke: Invoke, data: str) -> None:
    real = dhsic.independence_test

    def warned(*arguments: Any, **options: Any) -> IndependenceTestResult:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("mind the gap", UserWarning, stacklevel=1)
        return real(*arguments, **options)

    monkeypatch.setattr(dhsic, "independence_test", warned)
    done = invoke("test", data, *PAIR, *FEW, *ONE)
    assert (done.exit_code, done.stderr) == (0, "dhsic: warning: mind the gap\n")


@pytest.mark.parametrize(
    "command",
    [
        ("test", "--variable", "x", "--variable", "gap", "--kernel", "gaussian"),
        ("rank", "--features", "x", "--target", "gap"),
        ("sensitivity", "--variable", "x", "--variable", "gap"),
        ("interaction", "--variable", "x", "--variable", "gap", "--variable", "z"),
    ],
    ids=lambda command: command[0],
)
def test_missing__is_refused_or_dropped_and_counted(
    data: str, invoke: Invoke, command: tuple[str, ...], tmp_path: Path
) -> None:
    name, *options = command
    refused = invoke(name, data, *options)
    assert refused.exit_code != 0
    assert "'gap' has NaN or infinity, first in row 700" in refused.stderr
    out = tmp_path / "out.json"
    done = invoke(name, data, *options, "--missing", "drop", "--json", out)
    assert done.exit_code == 0, done.stderr
    found = json.loads(out.read_text())
    held = found.get("measured", found)
    assert (held["dropped"], held["n"]) == (1, 1224)


@pytest.mark.parametrize(
    "command",
    [
        ("test", "--variable", "x", "--variable", "gap", "--kernel", "gaussian"),
        ("rank", "--features", "x", "--target", "gap"),
    ],
    ids=lambda command: command[0],
)
def test_missing__stays_where_pairs_are_compared(
    data: str, invoke: Invoke, command: tuple[str, ...], tmp_path: Path
) -> None:
    name, *options = command
    out = tmp_path / "out.json"
    done = invoke(name, data, *options, "--missing", "pairwise", "--json", out)
    assert done.exit_code == 0, done.stderr
    assert f"{ROWS:,}, pairwise, with up to 1 missing in a variable" in done.stdout
    found = json.loads(out.read_text())
    assert (found["dropped"], found["n"], found["missing"][-1]) == (0, ROWS, 1)


def test_missing__pairwise_has_no_place_in_other_commands(data: str, invoke: Invoke) -> None:
    for name in ("sensitivity", "interaction"):
        done = invoke(name, data, *PAIR, "--missing", "pairwise")
        assert done.exit_code != 0
        assert "'pairwise' is not one of 'refuse', 'drop'" in done.stderr


def test_strata__are_labels_of_the_data(run_test: TestJson) -> None:
    result = run_test("--strata", "label")
    assert result.null_reason.startswith("exact where rows are exchangeable within strata")
    assert result.statistic != run_test().statistic


def test_groups__are_labels_of_the_data(invoke: Invoke, data: str, run_test: TestJson) -> None:
    label = zarr.open_group(data, mode="a")
    label.create_array("group", data=np.arange(ROWS) // 5)
    result = run_test("--groups", "group")
    assert "whole groups of equally many rows" in result.null_reason
    done = invoke("test", data, *PAIR, "--groups", "label")
    assert done.exit_code == 2
    assert "whole groups change places with groups of equally many rows" in done.stderr


def test_weights__are_numbers_of_the_data(invoke: Invoke, data: str, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).uniform(0.5, 2.0, ROWS)
    zarr.open_group(data, mode="a").create_array("chance", data=weights)
    page, out = tmp_path / "page.html", tmp_path / "out.json"
    done = invoke("test", data, *PAIR, "--weights", "chance", "--report", page, "--json", out)
    assert done.exit_code == 0, done.stderr
    found = IndependenceTestResult.from_json(out.read_text())
    assert found.null_reason.startswith("asymptotic: the limit law for independent draws with")
    assert "weights = open_group_labels(" in code_of_page(page)
    variables = open_group(data, ["x", "y"])
    again = dhsic.independence_test(*variables, weights=weights, rng=0)
    assert found.pvalue == again.pvalue
    done = invoke("test", data, *PAIR, "--weights", "label")
    assert done.exit_code == 2
    assert "weights must be one column of numbers" in done.stderr
    planned = invoke("plan", data, *PAIR, "--weights", "chance")
    assert "weighted products" in planned.stdout


def test_order__is_of_time(run_test: TestJson) -> None:
    found = run_test("--order", "time").null_reason
    assert "shifts of the series by multiples of 9 rows" in found
    found = run_test("--order", "time", "--lag", "30").null_reason
    assert "by multiples of 35 rows" in found  # 30 or more, with which fewest rows stay
    found = run_test("--order", "time", "--period", "24", "--lag", "30").null_reason
    assert "by multiples of 48 rows" in found


@pytest.mark.parametrize("option", ["--lag", "--period"])
def test_lag__needs_an_order(invoke: Invoke, data: str, option: str) -> None:
    done = invoke("test", data, *PAIR, option, 5)
    assert done.exit_code == 2
    assert f"{option} is of series, got rows in no order: add --order time" in done.stderr


def test_report__has_the_labels_in_its_code(invoke: Invoke, data: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = invoke("test", data, *PAIR, *FEW, *ONE, "--strata", "label", "--report", page)
    assert done.exit_code == 0
    code = code_of_page(page)
    found: dict[str, Any] = {}
    exec(code, found)
    assert f"{found['result'].pvalue:.4g}" in done.stdout
    assert "strata=strata" in code
    assert "within strata" in found["result"].null_reason
