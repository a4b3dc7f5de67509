"""Which tests run a line, and whether they pass in a copy of the checkout."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage, CoverageData

__all__ = ["Covering", "Ran", "copied", "digest", "record", "run_tests"]

# What takes seconds to import is imported once, in the process that all others are forks of.
_IMPORTED_ONCE = [
    *("pytest", "hypothesis", "numpy", "scipy.stats", "scipy.optimize", "scipy.fft", "pandas"),
    *("dask.array", "distributed", "zarr", "matplotlib", "click.testing", "coverage"),
]
_LEFT_OUT = (".*", "__pycache__", "*.zarr", "dist", "build", "*.egg-info")
_OWN = ("dhsic", "tests", "benchmarks", "conftest")
_LONG_AGO = 10**9  # seconds since 1970
_EXAMPLES = 1.0  # seconds that those of a file may take
_FAR = 4.0  # a test of another package comes where one of the same that takes 4 times as long does


@dataclass(frozen=True)
class Ran:
    """The tests that passed, and the first that failed.

    Parameters
    ----------
    passed : dict of str to float
        Seconds of those that passed.
    failed : str or None
        The first that did not, or "import", "time limit" or "crash" where none can be told.
    """

    passed: dict[str, float]
    failed: str | None


def copied(root: Path, tree: Path) -> None:
    """Make a folder the copy of a checkout, without what is hidden, built or cached."""
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(root, tree, ignore=shutil.ignore_patterns(*_LEFT_OUT))


def digest(file: Path) -> str:
    """Of the bytes of a file."""
    return blake2b(file.read_bytes(), digest_size=8).hexdigest()


def written(file: Path, text: str, count: int) -> None:
    """Write a file with a time of its own, so that no compiled file of another text stands."""
    file.write_text(text, encoding="utf-8")
    os.utime(file, (_LONG_AGO + count,) * 2)


def run_tests(tree: Path, tests: Sequence[str], seconds: float, data: Path | None = None) -> Ran:
    """Run tests of a copy in their order, in a process of their own, until one fails.

    Parameters
    ----------
    tree : Path
        The copy.
    tests : sequence of str
        Identifiers of pytest, or files.
    seconds : float
        How long they may take.
    data : Path, optional
        Where the lines that each runs are written; then a failure is not the end.

    Returns
    -------
    Ran
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED_ONCE)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(str(tree), list(tests), data, sender))
    process.start()
    sender.close()
    try:
        with receiver:
            return Ran(*receiver.recv()) if receiver.poll(seconds) else Ran({}, "time limit")
    except EOFError:
        return Ran({}, "crash")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)  # with all that its tests started
        process.kill()
        process.join()


class _Observer:
    """What pytest tells of its tests; puts them in the order asked for."""

    def __init__(self, tests: Sequence[str], coverage: Coverage | None) -> None:
        self._order = {name: place for place, name in enumerate(tests)}
        self._coverage = coverage
        self._seconds: dict[str, float] = defaultdict(float)
        self._bad: dict[str, None] = {}
        self._passed: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        last = len(self._order)
        items.sort(key=lambda item: self._order.get(item.nodeid, last))

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._bad["import"] = None

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._coverage is not None:
            self._coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._seconds[report.nodeid] += report.duration
        if report.failed:
            self._bad[report.nodeid] = None
        elif report.when == "call" and report.passed:
            self._passed.add(report.nodeid)

    def ran(self) -> tuple[dict[str, float], str | None]:
        """The fields of Ran."""
        good = self._passed - self._bad.keys()
        passed = {name: seconds for name, seconds in self._seconds.items() if name in good}
        return passed, next(iter(self._bad), None)


def _run(tree: str, tests: list[str], data: Path | None, answer: Connection) -> None:
    """In the forked process."""
    os.setsid()
    os.chdir(tree)
    os.environ["PYTHONPATH"] = tree
    sys.path.insert(0, tree)
    for name in [name for name in sys.modules if name.split(".")[0] in _OWN]:
        del sys.modules[name]
    said = os.open(f"{tree}.out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    coverage = None
    if data is not None:
        coverage = Coverage(data_file=str(data), source=["dhsic"], config_file=False)
        coverage.set_option("run:relative_files", True)
        coverage.start()
    observer = _Observer(tests, coverage)
    ending = [] if data is not None else ["-x"]
    quiet = [
        "-q",
        "--assert=plain",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:cov",
        "-o",
        "addopts=",
    ]
    code = pytest.main([*quiet, "--doctest-modules", "-m", "not slow", *ending, *tests], [observer])
    if coverage is not None:
        coverage.stop()
        coverage.save()
    passed, failed = observer.ran()
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        failed = failed or "import"
    answer.send((passed, failed))


def record(tree: Path, file: str, kept: Path, seconds: float) -> Ran | None:
    """Run a file of tests with its lines noted, unless that was done.

    Parameters
    ----------
    tree : Path
        The copy of the checkout, unchanged.
    file : str
        Of tests, within it.
    kept : Path
        The folder of what is noted.
    seconds : float
        How long the file may take; nothing is known of its tests where it takes longer.
    """
    kept.mkdir(parents=True, exist_ok=True)
    notes, data = _notes(kept, file), _notes(kept, file).with_suffix(".lines")
    now = digest(tree / file)
    if notes.exists() and json.loads(notes.read_text())["digest"] == now:
        return None
    data.unlink(missing_ok=True)
    ran = run_tests(tree, [file], seconds, data.absolute())
    measured = CoverageData(str(data))
    measured.read()
    sources = {name: digest(tree / name) for name in measured.measured_files()}
    notes.write_text(json.dumps({"digest": now, "seconds": ran.passed, "sources": sources}))
    return ran


def _notes(kept: Path, file: str) -> Path:
    return kept / f"{file.replace('/', '.')}.json"


class Covering:
    """What was noted of all files of tests.

    Parameters
    ----------
    tree : Path
        The copy of the checkout.
    kept : Path
        The folder of what is noted.
    """

    def __init__(self, tree: Path, kept: Path) -> None:
        self._tree = tree
        self._notes: list[tuple[dict[str, Any], CoverageData]] = []
        for file in sorted(kept.glob("*.json")):
            data = CoverageData(str(file.with_suffix(".lines")))
            data.read()
            self._notes.append((json.loads(file.read_text()), data))

    def tests_of(self, file: str, lines: Iterable[int] | None) -> dict[str, float]:
        """Those that run one of these lines of a file, the first to be run first, with seconds.

        Without lines, and where the file changed since they were noted, all tests that run any
        line of it. Tests of the same folder come first, then those that take little; the examples
        of its docstrings are one test.
        """
        now = digest(self._tree / file)
        examples = ">>>" in (self._tree / file).read_text(encoding="utf-8")
        found = {file: _EXAMPLES} if examples else {}
        for notes, data in self._notes:
            by_line = data.contexts_by_lineno(file) if file in notes["sources"] else {}
            unknown = lines is None or notes["sources"].get(file) != now
            wanted = by_line if unknown else lines or ()
            running = {name for line in wanted for name in by_line.get(line, ())}
            seconds = notes["seconds"]
            found |= {name: seconds[name] for name in running if name in seconds}
        return dict(sorted(found.items(), key=lambda item: _place(file, *item)))


def _place(file: str, test: str, seconds: float) -> tuple[float, str]:
    package = file.split("/")[1]
    near = package in Path(test.split("::")[0]).parts or Path(package).stem in test.split("::")[0]
    return max(seconds, 0.01) * (1.0 if near else _FAR), test
