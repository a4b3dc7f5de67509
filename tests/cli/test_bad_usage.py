"""What cannot run is refused in a line or two on stderr, before anything runs."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.conftest import Invoke

PAIR = ("--variable", "x", "--variable", "y")


def check_refusal(done: Result, *words: str) -> None:
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("dhsic: error: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr


BAD_OPTIONS: dict[str, tuple[Any, ...]] = {
    "kernel of an unknown variable": (("--kernel", "yy=linear"), "got 'yy'", "did you mean 'y'?"),
    "unknown kernel": (("--kernel", "gausian"), "got 'gausian': did you mean 'gaussian'?"),
    "bad bandwidth": (("--kernel", "x=gaussian:-1"), "-1"),
    "kernel twice": (("--kernel", "x=linear", "--kernel", "x=delta"), "twice for variable 'x'"),
    "kernel for all twice": (("--kernel", "linear", "--kernel", "delta"), "twice for all"),
    "estimator": (("--estimator", "nystrom"), "'auto', 'nystrom-m', "),
    "no landmarks": (("--landmarks", "0"), "an integer >= 1", "got 0"),
    "time in words": (("--time", "soon"), "time must be a positive number of seconds"),
    "landmarks in words": (("--landmarks", "many"), "as '8sqrt', got 'many'"),
    "landmarks with two signs": (("--landmarks=+-3",), "got '+-3'"),
    "too many landmarks": (("--landmarks", "99999"), "1225"),
    "pairing": (("--pairing", "both"), "'independent', 'joint'"),
    "selection": (("--selection", "best"), "'uniform', 'rpcholesky'"),
    "selection without use": (
        ("--estimator", "rff-hsic", "--selection", "leverage"),
        "--selection goes with --estimator nystrom-m; got rff-hsic",
    ),
    "pool": (("--pool", "0"), "pool must be", "got 0"),
    "pool in words": (("--pool", "wide"), "'wide' is not a valid integer"),
    "pool without use": (("--estimator", "v-hsic", "--pool", "4"), "--pool goes with"),
    "factors in words": (("--factors", "wide"), "give numbers with commas"),
    "factors": (("--factors", "1,-1"), "factors of the bandwidth must be", "got (1.0, -1.0)"),
    "factors without use": (("--factors", "1,2", "--null", "gamma"), "several kernels for a"),
    "factors of an estimator that takes one kernel": (
        ("--factors", "1,2", "--estimator", "dcov"),
        "several kernels for a variable need",
    ),
    "combine": (("--combine", "some"), "'auto', 'all', 'matched'"),
    "combine without use": (
        ("--combine", "all", "--estimator", "dcov"),
        "several kernels for a variable need",
    ),
    "aggregate": (("--aggregate", "mean"), "'max', 'min-p'"),
    "combine one kernel": (
        ("--kernel", "gaussian", "--combine", "all"),
        "--combine needs several kernels of a variable: list them as --kernel",
    ),
    "reference share of one kernel": (
        ("--kernel", "gaussian", "--reference-share", "0.5"),
        "--reference-share needs several kernels",
    ),
    "reference share": (("--reference-share", "1"), "at least 0 and less than 1", "got 1.0"),
    "one of several kernels": (("--kernel", "gaussian|gausian"), "did you mean 'gaussian'"),
    "landmarks without use": (
        ("--estimator", "v-hsic", "--landmarks", "9"),
        "--landmarks goes with --estimator nystrom-m or ",
        "; got v-hsic: drop it or change the estimator",
    ),
    "pairing without use": (("--estimator", "v-hsic", "--pairing", "joint"), "--pairing goes with"),
    "features without use": (("--features", "9"), "--features goes with", "got nystrom-m"),
    "features": (("--estimator", "rff-hsic", "--features", "many"), "n_features", "got 'many'"),
    "form": (("--form", "sine"), "'cos-sin', 'complex'"),
    "form without use": (("--form", "complex"), "--form goes with"),
    "orthogonal without use": (("--orthogonal",), "--orthogonal goes with"),
    "exponent": (("--estimator", "dcov", "--exponent", "2"), "less than 2", "got 2.0"),
    "exponent in words": (("--exponent", "half"), "'half' is not a valid float"),
    "exponent without use": (
        ("--exponent", "0"),
        "--exponent goes with --estimator ",
        "dcov or dcor",
    ),
    "unbiased without use": (("--unbiased",), "--unbiased goes with --estimator ", "dcov or dcor"),
    "block rows": (("--estimator", "block-hsic", "--block-rows", "1"), "block_rows", "got 1"),
    "block rows without use": (("--block-rows", "9"), "--block-rows goes with"),
    "kernel without use": (("--estimator", "dcor", "--kernel", "y=linear"), "got 'linear'"),
    "null": (("--null", "chi"), "'auto', 'shifts', 'chain', 'permutation'"),
    "null that does not go": (
        ("--estimator", "u-hsic", "--null", "gamma"),
        "null 'gamma' is not available for u-hsic; choose auto, shifts",
    ),
    "null value that does not go": (
        ("--null", "normal", "--variance", "direct"),
        "null 'normal' is not available for nystrom-m",
    ),
    "group rows": (("--null", "permutation", "--group-rows", "1"), "group_rows must be", "got 1"),
    "group rows without use": (("--group-rows", "9"), "--group-rows goes with --null permutation"),
    "variance": (("--null", "normal", "--variance", "none"), "'direct', 'permutation'"),
    "variance without use": (
        ("--null", "gamma", "--variance", "direct"),
        "--null normal; got gamma",
    ),
    "method": (("--null", "spectral", "--method", "exact"), "'inversion', 'simulation'"),
    "method without use": (("--method", "simulation"), "--null spectral; got auto: drop it or"),
    "within": (("--within", "rows"), "'auto', 'all', 'groups'"),
    "within without use": (("--within", "all"), "--null permutation; got auto"),
    "resamples": (("--resamples", "0"), "x>=1"),
    "resamples of gamma": (("--null", "gamma", "--resamples", "9"), "null 'gamma'", "got 9"),
    "resamples of normal": (
        ("--estimator", "block-hsic", "--null", "normal", "--resamples", "9"),
        "null 'normal'",
        "got 9",
    ),
    "resamples of a formula": (
        ("--null", "spectral", "--method", "inversion", "--resamples", "9"),
        "--resamples goes with --method simulation",
    ),
    "alpha": (("--alpha", "1"), "less than 1", "got 1"),
    "alpha 0": (("--alpha", "0"), "greater than 0", "got 0"),
    "alpha nan": (("--alpha", "nan"), "got nan"),
    "alpha words": (("--alpha", "five"), "'five' is not a valid float"),
    "seed": (("--seed", "-1"), "x>=0"),
    "precision": (("--precision", "float16"), "'float64', 'float32'"),
    "threads": (("--threads", "0"), "x>=1"),
    "workers": (("--workers", "0"), "x>=1"),
    "threads and workers": (("--threads", "2", "--workers", "2"), "give one of them"),
    "workers and scheduler": (("--workers", "2", "--scheduler", "tcp://h:1"), "give one of them"),
    "scheduler": (("--scheduler", "nowhere"), "got 'nowhere': write protocol, host and port"),
    "memory": (("--memory", "lots"), "such as '2GiB'", "got 'lots'"),
    "too little memory": (("--memory", "1MiB"), "1.0 MiB are allowed"),
    "too little memory for workers": (("--memory", "1MiB", "--workers", "2"), "1.0 MiB"),
    "unknown option": (("--landmark", "9"), "Did you mean '--landmarks'?", "dhsic test --help"),
    "json in no folder": (("--json", "no/where.json"), "does not exist: create it first"),
    "json a folder": (("--json", "."), "give the name of a file"),
    "json a device": (("--json", "/dev/null"), "give the name of a file"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options(invoke: Invoke, data: str, case: str) -> None:
    options, *words = BAD_OPTIONS[case]
    check_refusal(invoke("test", data, *PAIR, *options), *words)


BAD_VARIABLES = {
    "one": (("x",), "two or more"),
    "unknown": (("x", "yy"), "did you mean 'y'?"),
    "twice": (("x", "x"), "different names"),
    "column beyond": (("x[:, 7]", "y"), "x[:, 7]"),
    "rows in place of columns": (("x[0:2]", "y"), "write [:, 0:2] if these are columns"),
    "columns in words": (("x[all]", "y"), "columns are written behind the rows, as [:, 0:10]"),
    "malformed": (("x=y=z", "y"), "got 'x=y=z'"),
    "missing values": (("x", "gap"), "'gap' has NaN or infinity, first in row 700"),
    "constant": (("x", "constant"), "'constant' is constant"),
    "lengths": (("x", "short"), "same rows"),
    "dimensions": (("x", "cube"), "shape"),
}


@pytest.mark.parametrize("case", BAD_VARIABLES)
def test_bad_variables(invoke: Invoke, data: str, case: str) -> None:
    names, word = BAD_VARIABLES[case]
    options = [part for name in names for part in ("--variable", name)]
    check_refusal(invoke("test", data, *options), word)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("test", "nowhere.zarr", *PAIR), ("nowhere.zarr", "check the path")),
        (("test",), ("Missing argument 'DATA'", "dhsic test --help")),
        (("test", "some.zarr"), ("Missing option '--variable'",)),
        (("tset",), ("No such command 'tset'. Did you mean 'test'?",)),
        (("--versoin",), ("No such option '--versoin'",)),
        (("plan", "nowhere.zarr", *PAIR), ("nowhere.zarr",)),
        (("generate", "out.zarr"), ("Missing option '--rows'",)),
        (("generate", "out.zarr", "--rows", "0"), ("x>=1",)),
        (("generate", "out.zarr", "--rows", "9", "--dependence", "2"), ("from 0 to 1",)),
        (("generate", "no/out.zarr", "--rows", "9"), ("create it first",)),
        (("convert", "million-song", "none.txt", "out.zarr"), ("none.txt is not a file",)),
        (("convert", "table", "a.csv", "out.zarr"), ("Missing option '--variable'",)),
        (("convert", "table", "a.csv", "out.zarr", "--variable", "x"), ("NAME=COL", "got 'x'")),
        (("convert", "table", "a.csv", "out.zarr", "--variable", "x=a,,b"), ("got 'x=a,,b'",)),
        (("convert", "table", "a.csv", "out.zarr", "--variable", "x=a"), ("a.csv is not a file",)),
        (("demo", "--rows", "3"), ("x>=4",)),
    ],
)
def test_bad_commands(
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    check_refusal(invoke(*arguments), *words)
    assert not list(tmp_path.iterdir())


def test_json_is_refused_before_the_run(
    invoke: Invoke, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dhsic.independence_test", lambda *_, **__: pytest.fail("it ran"))
    check_refusal(invoke("test", data, *PAIR, "--json", tmp_path / "no" / "out.json"))


def test_json_that_cannot_be_written_still_leaves_the_table(
    invoke: Invoke, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    done = invoke("test", data, *PAIR, "--resamples", 20, "--json", tmp_path / "out.json")
    assert done.exit_code == 2
    assert "independence rejected" in done.stdout
    assert done.stderr.endswith("out.json: No space left on device\n")
    assert not list(tmp_path.iterdir())
