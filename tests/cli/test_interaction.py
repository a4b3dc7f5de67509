"""Every option of `dhsic interaction` does something."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import dhsic
from dhsic.io.open import open_group
from tests.cli.conftest import Invoke, code_of_page

NAMES = ("x", "y", "z")
THREE = tuple(word for name in NAMES for word in ("--variable", name))


@pytest.fixture(scope="session")
def triple(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three variables that depend in threes, and hardly in pairs."""
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("three") / "triple.zarr"
    group = zarr.create_group(path)
    x, y = rng.standard_normal((2, 300, 2))
    z = np.sign(x * y) * np.abs(rng.standard_normal((300, 2)))
    for name, values in zip(NAMES, (x, y, z), strict=True):
        group.create_array(name, data=values, chunks=(100, 2))
    return str(path)


@pytest.fixture
def run(invoke: Invoke, triple: str, tmp_path: Path) -> Any:
    """Run the command with more options, and read the JSON that it writes."""

    def run_json(*options: object) -> dhsic.InteractionTestResult:
        path = tmp_path / "out.json"
        done = invoke("interaction", triple, *THREE, *options, "--json", path, "--overwrite")
        assert (done.exit_code, done.stderr) == (0, "")
        return dhsic.InteractionTestResult.from_json(path.read_text())

    return run_json


def test_is_the_test_of_the_package(run: Any, triple: str) -> None:
    found = run("--seed", 3)
    expected = dhsic.interaction_test(*open_group(triple, NAMES), rng=3)
    assert (found.statistic, found.pvalue) == (expected.statistic, expected.pvalue)
    assert found.factorisations == expected.factorisations
    assert [one.separated for one in found.factorisations] == list(NAMES)


def test_prints_three_pvalues_and_the_decision(invoke: Invoke, triple: str) -> None:
    done = invoke("interaction", triple, *THREE, "--alpha", 0.01)
    assert done.exit_code == 0
    assert all(f"{name} independent of" in done.stdout for name in NAMES)
    assert "factorisation rejected at level 0.01" in done.stdout


@pytest.mark.parametrize(("what", "words"), [("strata", "within strata"), ("groups", "whole gr")])
def test_rows_are_labelled(what: str, words: str, run: Any, triple: str, tmp_path: Path) -> None:
    label = zarr.open_group(triple, mode="a")
    label.create_array("label", data=np.arange(300) // 6, overwrite=True)
    page = tmp_path / "page.html"
    found = run("--landmarks", 30, f"--{what}", "label", "--report", page)
    assert words in found.null_reason
    code: dict[str, Any] = {}
    exec(code_of_page(page), code)
    assert code["result"].pvalue == found.pvalue
    assert found.statistic != run("--landmarks", 30).statistic or what == "groups"


@pytest.mark.parametrize(
    ("options", "reads", "value"),
    [
        (("--landmarks", 33), lambda r: r.landmarks.drawn, 33),
        (("--selection", "kmeans++"), lambda r: r.landmarks.selection, "kmeans++"),
        (("--selection", "kmeans++", "--pool", 2), lambda r: r.landmarks.pool, 278),
        (("--estimator", "v-lancaster"), lambda r: r.estimator, "v-lancaster"),
        (("--null", "multiplier", "--resamples", 41), lambda r: len(r.null_distribution), 41),
        (("--kernel", "y=laplacian:2"), lambda r: r.variables[1].kernel, "laplacian:2.0"),
        (("--seed", 9), lambda r: r.seed, 9),
        (("--precision", "float32"), lambda r: r.precision, "float32"),
    ],
)
def test_options(run: Any, options: tuple[object, ...], reads: Any, value: object) -> None:
    assert reads(run(*options)) == value


def test_within_and_group_rows(run: Any) -> None:
    found = run("--null", "permutation", "--within", "groups", "--group-rows", 50)
    assert "groups of 50 rows" in found.null_reason


def test_plan_runs_nothing(invoke: Invoke, triple: str) -> None:
    done = invoke("interaction", triple, *THREE, "--plan")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "300 rows of x, y, z" in done.stdout
    assert "p-value" not in done.stdout


def test_report__has_the_three_and_code_that_gives_them(
    invoke: Invoke, triple: str, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    done = invoke("interaction", triple, *THREE, "--landmarks", 20, "--report", page)
    assert (done.exit_code, done.stderr) == (0, "")
    text = page.read_text("utf-8")
    assert all(f"{name} independent of" in text for name in NAMES)
    assert "dhsic.interaction_test(" in text
    assert "NystromMHSIC(n_landmarks=20" in text
    assert "under factorisation" in text
    assert "Does the distribution of x, y and z factorise?" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (THREE[:4], "takes three variables, got 2"),
        ((*THREE, "--variable", "w=x[:, 0:1]"), "takes three variables, got 4"),
        ((*THREE, "--kernel", "gaussian|imq"), "one kernel for each variable"),
        ((*THREE, "--estimator", "v-lancaster", "--landmarks", "9"), "goes with --estimator"),
        ((*THREE, "--null", "multiplier", "--within", "all"), "goes with --null permutation"),
        ((*THREE, "--landmarks", "auto"), "take a number"),
    ],
)
def test_bad_usage__is_told(
    invoke: Invoke, triple: str, options: tuple[str, ...], message: str
) -> None:
    done = invoke("interaction", triple, *options)
    assert done.exit_code == 2
    assert message in done.stderr
