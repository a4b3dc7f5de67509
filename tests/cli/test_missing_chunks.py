"""--allow-missing-chunks, of every command that reads zarr arrays."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.cli.conftest import Invoke

XY = ("--variable", "x", "--variable", "y")
XYZ = (*XY, "--variable", "z")
ONE = ("--kernel", "gaussian")
COMMANDS: dict[str, tuple[str, ...]] = {
    "test": (*XY, *ONE),
    "plan": XY,
    "sensitivity": XY,
    "rank": ("--features", "x", "--target", "y"),
    "two-sample": ("--sample", "x", "--sample", "y", *ONE),
    "interaction": (*XYZ, *ONE),
    "cause direction": XY,
    "cause dags": XY,
    "cause order": XY,
    "cause residuals": (*XY, "--given", "z", *ONE),
    "conditional": (*XY, "--given", "z"),
}


@pytest.fixture
def gapped(tmp_path: Path) -> str:
    """A group whose array x has lost its second chunk."""
    group = zarr.create_group(tmp_path / "data.zarr")
    for name, values in zip("xyz", np.random.default_rng(0).normal(3, 1, (3, 200, 1)), strict=True):
        group.create_array(name, data=values, chunks=(50, 1))
    os.remove(tmp_path / "data.zarr" / "x" / "c" / "1" / "0")
    return str(tmp_path / "data.zarr")


@pytest.mark.parametrize("command", COMMANDS)
def test_absent_chunks__are_read_where_that_is_allowed(
    invoke: Invoke, gapped: str, command: str
) -> None:
    asked = (*command.split(), gapped, *COMMANDS[command])
    refused = invoke(*asked)
    assert refused.exit_code == 2
    assert "lacks 1 stored chunk, of rows 50 to 99" in " ".join(refused.stderr.split())
    done = invoke(*asked, "--allow-missing-chunks")
    assert (done.exit_code, done.stderr) == (0, "")


def test_report__has_code_that_allows_the_same(invoke: Invoke, gapped: str, tmp_path: Path) -> None:
    pages: dict[str, Any] = {}
    zarr.open_array(f"{gapped}/x", mode="r+")[50:100] = 1.0
    for option in ("", "--allow-missing-chunks"):
        path = tmp_path / f"{len(pages)}.html"
        asked = ("test", gapped, *XY, *ONE, "--report", path)
        assert invoke(*asked, *filter(None, [option])).exit_code == 0
        pages[option] = path.read_text()
    assert "allow_missing_chunks=True" in pages["--allow-missing-chunks"]
    assert "allow_missing_chunks=True" not in pages[""]


def test_json__tells_the_absent_chunks(invoke: Invoke, gapped: str, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    done = invoke("test", gapped, *XY, *ONE, "--allow-missing-chunks", "--json", path)
    assert "1 chunk of x absent, read as the fill value" in " ".join(done.stdout.split())
    found = {one["name"]: one for one in json.loads(path.read_text())["data"]}
    assert (found["x"]["absent"], found["y"]["absent"], found["x"]["chunks"]) == (1, 0, 4)
