"""Every option of `dhsic sensitivity` does something."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from click.testing import Result

import dhsic
from dhsic.io.open import open_group
from tests.cli.conftest import ROWS, Invoke

PAIR = ("--variable", "x", "--variable", "y")


def table(done: Result) -> dict[str, str]:
    """What is printed, by label."""
    assert (done.exit_code, done.stderr) == (0, "")
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in done.stdout.splitlines())


@pytest.fixture
def run(invoke: Invoke, data: str, tmp_path: Path) -> Any:
    """Run the command on x and y with more options, and read the JSON that it writes."""

    def run_json(*options: object, variables: tuple[str, ...] = PAIR) -> dict[str, Any]:
        path = tmp_path / "out.json"
        done = invoke("sensitivity", data, *variables, *options, "--json", path, "--overwrite")
        assert (done.exit_code, done.stderr) == (0, "")
        read: dict[str, Any] = json.loads(path.read_text())
        return read

    return run_json


def test_prints_the_measure_and_the_columns_that_matter(invoke: Invoke, data: str) -> None:
    lines = table(invoke("sensitivity", data, *PAIR))
    assert lines["n"] == f"{ROWS:,}"
    assert float(lines["statistic"]) > 1
    assert re.fullmatch(r"0 \(\d\d\.\d%\), \d \(.*%\), \d \(.*%\)", lines["columns of x"])
    assert lines["columns of y"] == "y (100.0%)"
    assert not list(Path.cwd().glob("*.zarr"))


def test_top(invoke: Invoke, data: str) -> None:
    lines = table(invoke("sensitivity", data, *PAIR, "--top", 1))
    assert re.fullmatch(r"0 \(.*%\), 2 more", lines["columns of x"])


def test_out_is_the_map_of_the_package(invoke: Invoke, data: str, tmp_path: Path) -> None:
    out = tmp_path / "map.zarr"
    table(invoke("sensitivity", data, *PAIR, "--seed", 3, "--out", out))
    expected = dhsic.sensitivity_map(*open_group(data, ["x", "y"]), rng=3)
    group = zarr.open_group(out, mode="r")
    for name in ("x", "y"):
        np.testing.assert_allclose(group[name][:], expected.maps[name], rtol=1e-9, atol=1e-13)


def test_overwrite(invoke: Invoke, data: str, tmp_path: Path) -> None:
    arguments = ("sensitivity", data, *PAIR, "--out", tmp_path / "map.zarr")
    table(invoke(*arguments))
    again = invoke(*arguments, "--log-json", "-")
    assert again.exit_code == 2
    assert "already exists" in again.stderr
    assert "pass-started" not in again.stderr, "refused before the run"
    table(invoke(*arguments, "--overwrite"))


def test_of(run: Any) -> None:
    statistic, estimate = run(), run("--of", "estimate")
    assert (statistic["of"], estimate["of"]) == ("statistic", "estimate")
    assert statistic["value"] > 10 * estimate["value"]


def test_wrt(run: Any) -> None:
    assert set(run()["features"]) == {"x", "y"}
    assert set(run("--wrt", "x")["features"]) == {"x"}
    labels = ("--variable", "x", "--variable", "label", "--kernel", "label=delta")
    assert set(run("--wrt", "x", variables=labels)["features"]) == {"x"}


def test_kernel(run: Any) -> None:
    kernels = [v["kernel"] for v in run("--kernel", "y=gaussian:0.25")["measured"]["variables"]]
    assert kernels[0].startswith("gaussian:")
    assert kernels[1] == "gaussian:0.25"


def test_estimator_and_its_options(run: Any) -> None:
    assert run("--estimator", "rff-hsic", "--features", 31)["measured"]["features"]["counts"] == [
        62,
        62,
    ]
    assert run("--landmarks", 33)["measured"]["landmarks"]["drawn"] == 33


def test_seed_and_precision(run: Any) -> None:
    assert run("--seed", 1)["value"] != run()["value"]
    assert run("--precision", "float32")["measured"]["precision"] == "float32"


def test_checkpoint_and_log(run: Any, tmp_path: Path) -> None:
    options = ("--checkpoint", tmp_path / "kept", "--log-json", tmp_path / "log.jsonl")
    assert run(*options)["value"] == run(*options)["value"]
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    resumed = [line["resumed"] for line in lines if line["event"] == "pass-started"]
    assert resumed == [0, 0, ROWS, ROWS]
    results = [line for line in lines if line["event"] == "result"]
    assert [line["of"] for line in results] == ["statistic"] * 2


def test_workers(run: Any, tmp_path: Path) -> None:
    options = ("--estimator", "rff-hsic")
    there = run(*options, "--workers", 1, "--out", tmp_path / "map.zarr")
    assert there["value"] == pytest.approx(run(*options)["value"], rel=1e-9)
    assert (tmp_path / "map.zarr").is_dir()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--wrt", "z"), "wrt must name variables, got 'z'; there are 'x', 'y'"),
        (("--estimator", "dcov"), "needs estimator 'nystrom-m', 'v-hsic' or 'rff-hsic'"),
        (
            ("--kernel", "gaussian|laplacian"),
            "--kernel takes one kernel per variable in this command",
        ),
        (("--kernel", "delta"), "'x' must have a differentiable kernel"),
        (("--out", "no/such/folder/map.zarr"), "is not a folder: create it first"),
        (("--variable", "z[:, 0:2]", "--out", "map.zarr"), "cannot name an array"),
        (("--top", 0), "0 is not in the range x>=1"),
        (("--of", "both"), "'both' is not one of 'statistic', 'estimate'"),
        (("--null", "gamma"), "No such option"),
    ],
)
def test_bad_usage_is_a_line(
    options: tuple[str, ...], message: str, invoke: Invoke, data: str
) -> None:
    done = invoke("sensitivity", data, *PAIR, *options)
    assert done.exit_code == 2
    assert done.stderr.startswith("dhsic: error: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
