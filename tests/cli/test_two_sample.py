"""Every option of `dhsic two-sample` does something."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import dhsic
from dhsic.io.open import open_group_samples
from tests.cli.conftest import Invoke, code_of_page

PAIR = ("--sample", "old", "--sample", "new")


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two samples that differ, of unequal sizes, and others that cannot be compared."""
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("two") / "samples.zarr"
    group = zarr.create_group(path)
    for name, values in {
        "old": rng.standard_normal((300, 3)),
        "new": rng.normal([0.6, 0.0, 0.0], size=(200, 3)),
        "wide": rng.standard_normal((200, 5)),
    }.items():
        group.create_array(name, data=values, chunks=(100, values.shape[1]))
    return str(path)


@pytest.fixture
def run(invoke: Invoke, samples: str, tmp_path: Path) -> Any:
    """Run the command with more options, and read the JSON that it writes."""

    def run_json(*options: object, pair: tuple[str, ...] = PAIR) -> dhsic.TwoSampleTestResult:
        path = tmp_path / "out.json"
        one = () if {"--kernel", "--factors"} & set(options) else ("--kernel", "gaussian")
        done = invoke("two-sample", samples, *pair, *one, *options, "--json", path, "--overwrite")
        assert (done.exit_code, done.stderr) == (0, "")
        return dhsic.TwoSampleTestResult.from_json(path.read_text())

    return run_json


def test_is_the_test_of_the_package(run: Any, samples: str) -> None:
    found = run("--seed", 3)
    opened = open_group_samples(samples, ["old", "new"])
    expected = dhsic.two_sample_test(*opened, kernels="gaussian", rng=3)
    assert (found.statistic, found.pvalue) == (expected.statistic, expected.pvalue)
    assert [(one.name, one.n) for one in found.samples] == [("old", 300), ("new", 200)]


def test_prints_the_decision(invoke: Invoke, samples: str) -> None:
    done = invoke("two-sample", samples, *PAIR, "--kernel", "gaussian", "--alpha", 0.01)
    assert done.exit_code == 0
    assert "one distribution rejected at level 0.01" in done.stdout
    assert "squared MMD" in done.stdout


def test_names_and_columns(run: Any) -> None:
    found = run(pair=("--sample", "a=old[:, 1:3]", "--sample", "b=new[:, 1:3]"))
    assert [one.name for one in found.samples] == ["a", "b"]
    assert found.variables[0].columns == 2
    assert found.pvalue > run().pvalue


@pytest.mark.parametrize(
    ("options", "reads", "value"),
    [
        (("--landmarks", 33), lambda r: r.landmarks.drawn, 33),
        (("--selection", "kmeans++"), lambda r: r.landmarks.selection, "kmeans++"),
        (("--selection", "kmeans++", "--pool", 2), lambda r: r.landmarks.pool, 358),
        (("--estimator", "rff-mmd", "--features", 31), lambda r: r.features.counts[0], 62),
        (("--estimator", "rff-mmd", "--orthogonal"), lambda r: r.features.orthogonal, True),
        (("--estimator", "u-mmd"), lambda r: r.estimator, "u-mmd"),
        (("--estimator", "auto"), lambda r: r.estimator, "v-mmd"),
        (("--null", "spectral"), lambda r: r.null, "spectral"),
        (("--null", "multiplier", "--resamples", 41), lambda r: len(r.null_distribution), 41),
        (("--kernel", "laplacian:2"), lambda r: r.variables[0].kernel, "laplacian:2.0"),
        (("--kernel", "gaussian|imq"), lambda r: len(r.grid.combinations), 8),
        (("--factors", "0.5,1,2"), lambda r: len(r.grid.combinations), 3),
        (("--factors", "0.5,1", "--aggregate", "min-p"), lambda r: r.grid.aggregate, "min-p"),
        (("--factors", "0.5,1", "--reference-share", 0.5), lambda r: r.grid.reference_share, 0.5),
        (("--factors", "0.5,1", "--combine", "all"), lambda r: len(r.grid.combinations), 2),
        (("--seed", 9), lambda r: r.seed, 9),
        (("--precision", "float32"), lambda r: r.precision, "float32"),
    ],
)
def test_options(run: Any, options: tuple[object, ...], reads: Any, value: object) -> None:
    assert reads(run(*options)) == value


def test_block_options(run: Any) -> None:
    rows = run("--estimator", "block-mmd", "--block-rows", 10)
    assert "50 blocks of 10 rows" in rows.null_reason
    exponent = run("--estimator", "block-mmd", "--exponent", 0.3)
    assert "blocks of 6 rows" in exponent.null_reason


def test_within_and_group_rows(run: Any) -> None:
    found = run("--null", "permutation", "--within", "groups", "--group-rows", 50)
    assert "groups of 50 rows" in found.null_reason


def test_plan_runs_nothing(invoke: Invoke, samples: str) -> None:
    done = invoke("two-sample", samples, *PAIR, "--plan")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "500 rows of values, sample" in done.stdout
    assert "p-value" not in done.stdout


def test_workers_checkpoint_and_log(run: Any, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    options = ("--estimator", "nystrom-mmd", "--checkpoint", tmp_path / "kept", "--log-json", log)
    there = run(*options, "--workers", 1)
    assert there.pvalue == run(*options).pvalue
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["pvalue"] for line in lines if line["event"] == "result"] == [there.pvalue] * 2
    assert any(line.get("resumed") == 500 for line in lines)


def test_report(run: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found = run("--report", page, "--landmarks", 40)
    text = page.read_text()
    assert "One distribution rejected" in text
    assert "two_sample_test" in text
    code = text.replace("&#39;", "'").replace("&#x27;", "'").replace("&quot;", '"')
    start = code.index("import dhsic")
    names: dict[str, Any] = {}
    exec(code[start : code.index("print(result)", start)], names)
    assert names["result"].pvalue == found.pvalue


@pytest.fixture(scope="session")
def visits(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Visits of patients of two clinics, with labels of either."""
    rng = np.random.default_rng(4)
    path = tmp_path_factory.mktemp("two") / "visits.zarr"
    group = zarr.create_group(path)
    for k, name in enumerate(("old", "new")):
        patient = np.repeat(np.arange(30), 5) + 30 * k
        group.create_array(name, data=rng.standard_normal(60)[patient], chunks=(40,))
        group.create_array(f"{name}_patient", data=patient, chunks=(40,))
        group.create_array(f"{name}_site", data=patient % 3, chunks=(40,))
    return str(path)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("groups",), "exact where whole groups of equally many rows are exchangeable"),
        (("strata",), "exact where rows are exchangeable within strata"),
        (("strata", "groups"), "whole groups of equally many rows within strata"),
    ],
)
def test_labels_of_every_sample(
    asked: tuple[str, ...], words: str, invoke: Invoke, visits: str, tmp_path: Path
) -> None:
    arrays = {"groups": "patient", "strata": "site"}
    labels = {what: [f"old_{arrays[what]}", f"new_{arrays[what]}"] for what in asked}
    options = [part for what in asked for name in labels[what] for part in (f"--{what}", name)]
    out, page = tmp_path / "out.json", tmp_path / "page.html"
    few = ("--kernel", "gaussian", "--resamples", 50, "--json", out, "--report", page)
    done = invoke("two-sample", visits, *PAIR, *few, *options)
    assert (done.exit_code, done.stderr) == (0, "")
    found = dhsic.TwoSampleTestResult.from_json(out.read_text())
    assert words in found.null_reason
    call = {"data": visits, "kernels": "gaussian", "n_resamples": 50, "rng": 0}
    expected = dhsic.two_sample_test("old", "new", **call, **labels)
    assert (found.pvalue, found.statistic) == (expected.pvalue, expected.statistic)
    code: dict[str, Any] = {}
    exec(code_of_page(page), code)
    assert code["result"].pvalue == found.pvalue
    done = invoke("two-sample", visits, *PAIR, *few[:2], *options[:2])
    assert done.exit_code == 2
    assert "labels of each of the 2 samples" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sample", "wide"), "samples must have the same columns"),
        (("--sample", "old"), "different words, one a sample"),
        (("--sample", "none"), "needs an array 'none'"),
        (("--block-rows", 10), "--block-rows goes with --estimator block-mmd"),
        (("--estimator", "block-mmd", "--null", "gamma"), "is not available for block"),
        (("--estimator", "v-hsic"), "'v-hsic' is not one of 'auto', 'nystrom-mmd'"),
        (("--kernel", "x=gaussian"), "there are: values"),
        (("--landmarks", 501), "n_landmarks must be at most the number of rows"),
    ],
)
def test_bad_usage_is_a_line(
    options: tuple[object, ...], message: str, invoke: Invoke, samples: str
) -> None:
    done = invoke("two-sample", samples, *PAIR, *options)
    assert done.exit_code == 2
    assert done.stderr.startswith("dhsic: error: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_one_sample_is_refused(invoke: Invoke, samples: str) -> None:
    done = invoke("two-sample", samples, "--sample", "old")
    assert done.exit_code == 2
    assert "at least two samples, got 1" in done.stderr
