"""`dhsic demo`, on threads: what it adds is tested elsewhere."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zarr

from tests.cli.conftest import Invoke

SMALL = ("--rows", 1000, "--features", 4)


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counts: list[int] = []

    @contextmanager
    def on_threads(workers: int) -> Iterator[None]:
        counts.append(workers)
        yield None

    monkeypatch.setattr("dhsic.cli.demo.local_cluster", on_threads)
    return counts


def test_demo(
    invoke: Invoke, started: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = invoke("demo", "--rows", 5000, "--features", 10)
    assert (done.exit_code, done.stderr) == (0, "")
    lines = {line[:14].strip(): line[14:].strip() for line in done.stdout.splitlines()[1:]}
    assert lines[""].split("  ")[0] == "dependent data"
    dependent, independent = (part for part in lines["independence"].split("  ") if part)
    assert dependent.strip() == "rejected at level 0.05"
    assert independent.strip() == "not rejected at level 0.05"
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert started == [len(os.sched_getaffinity(0))]
    assert not list(tmp_path.iterdir())


def test_demo_follows_its_options(invoke: Invoke, tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    done = invoke("demo", *SMALL, "--keep", keep)
    other = invoke("demo", *SMALL, "--keep", keep, "--seed", 1, "--overwrite")
    assert done.stdout.startswith("1,000 rows, 4 features and a year")
    assert done.stdout.splitlines()[3] != other.stdout.splitlines()[3]
    for name in ("dependent", "independent"):
        assert zarr.open_group(keep / f"{name}.zarr", mode="r")["features"].shape == (1000, 4)
    assert f"dhsic test {keep / 'dependent.zarr'} --variable features" in done.stdout
    assert invoke("demo", *SMALL, "--keep", keep).exit_code == 2


def test_keep_needs_a_place(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("demo", *SMALL, "--keep", tmp_path / "no" / "where")
    assert done.exit_code == 2
    assert "--keep must be a folder" in done.stderr
