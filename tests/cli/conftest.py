import re
import signal
from collections.abc import Callable
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import zarr
from click.testing import CliRunner, Result

from dhsic.cli import main
from dhsic.io.synthetic import generate
from dhsic.results import IndependenceTestResult

ROWS = 1225

Invoke = Callable[..., Result]
TestJson = Callable[..., IndependenceTestResult]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A group with x and y dependent, z independent, labels, and arrays nobody can test."""
    rng = np.random.default_rng(7)
    x, z = rng.standard_normal((2, ROWS, 3))
    path = tmp_path_factory.mktemp("cli") / "data.zarr"
    group = zarr.create_group(path)
    for name, values in {
        "x": x,
        "y": np.sin(2 * x[:, :1]) + 0.5 * rng.standard_normal((ROWS, 1)),
        "z": z,
        "label": rng.integers(0, 4, (ROWS, 1)),
        "constant": np.ones((ROWS, 1)),
        "gap": np.where(np.arange(ROWS) == 700, np.nan, z[:, 0]),
        "short": x[:100],
        "cube": np.zeros((ROWS, 2, 2)),
    }.items():
        group.create_array(name, data=values, chunks=(400, *values.shape[1:]))
    group["label"].attrs["kind"] = "categorical"
    return str(path)


@pytest.fixture(scope="session")
def long_data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A group of several row blocks."""
    path = tmp_path_factory.mktemp("cli") / "long.zarr"
    generate(path, rows=20_000, features=3, dependence=0.5)
    return str(path)


@pytest.fixture(scope="session")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data that take some seconds to test, in many blocks, so that a test of them can be ended."""
    path = tmp_path_factory.mktemp("cli") / "big.zarr"
    generate(path, rows=1_000_000, features=4)
    return path


def heed_interrupts() -> None:
    """In a child before it runs: what a shell starts by `&` or `nohup` ignores SIGINT, and so do
    its children unless they are told otherwise.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def code_of_page(page: Path) -> str:
    """The code of a report that gives its result again."""
    (code,) = re.findall(r"<pre[^>]*>(import dhsic.*?)</pre>", page.read_text(), re.DOTALL)
    return unescape(re.sub(r"<[^>]+>", "", code))


@pytest.fixture
def invoke() -> Invoke:
    def run(*arguments: object) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    return run


@pytest.fixture
def run_test(invoke: Invoke, data: str, tmp_path: Path) -> TestJson:
    """Run `dhsic test` on x and y with more options, and read the JSON that it writes.

    One kernel is tried, unless a kernel or an estimator is among the options.
    """

    def run(*options: object, variables: tuple[str, ...] = ("x", "y")) -> IndependenceTestResult:
        path = tmp_path / "out.json"
        chosen = [part for name in variables for part in ("--variable", name)]
        quick = () if "--resamples" in options else ("--resamples", 50)
        one = () if {"--kernel", "--estimator"} & set(options) else ("--kernel", "gaussian")
        done = invoke("test", data, *chosen, *quick, *one, *options, "--json", path, "--overwrite")
        assert (done.exit_code, done.stderr) == (0, "")
        return IndependenceTestResult.from_json(path.read_text())

    return run
