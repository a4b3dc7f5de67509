"""Clusters, folders and words for tests of `dhsic submit`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dhsic.cli import main, run_status
from dhsic.engine.events import BlockFinished, PassStarted
from dhsic.engine.telemetry import Position
from tests.cli.conftest import Invoke
from tests.cluster.queues import Queues
from tests.cluster.queues import queues as queues

PAIR = ("--variable", "x", "--variable", "y")
URL = "s3://bucket/songs.zarr"
SLURM = {"kind": "slurm", "workers": 2, "memory": "500MiB"}
KUBERNETES = {
    "kind": "kubernetes",
    "workers": 2,
    "kubernetes": {"image": "dhsic:1", "tls_secret": "tls", "namespace": "lab", "context": "c"},
}
IDENTITY = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queues: Queues) -> Path:
    """A folder with descriptions of clusters, and a state folder for runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_status, "_SECONDS_BETWEEN", 0.01)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name, spec in {"slurm": SLURM, "kubernetes": KUBERNETES}.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(spec))
    return tmp_path


@pytest.fixture(scope="module")
def result_text(data: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("result") / "result.json"
    words = ["test", data, *PAIR, "--kernel", "gaussian", "--resamples", "20", "--json", str(path)]
    assert CliRunner().invoke(main, words).exit_code == 0
    return path.read_text()


def runs_of(here: Path) -> list[Path]:
    folder = here / "state" / "dhsic" / "runs"
    return sorted(folder.iterdir()) if folder.exists() else []


def submit(invoke: Invoke, where: str, *words: object, options: tuple[str, ...] = ()) -> Any:
    return invoke("submit", where, "--spec", f"{where}.yaml", *options, "--", *words)


def detached(invoke: Invoke, where: str, *words: object) -> str:
    done = submit(invoke, where, *words, options=("--detach",))
    assert (done.exit_code, done.stderr) == (0, "")
    return str(done.stdout.strip())


def said(name: str, done: int) -> str:
    """A line of a journal."""
    began = Position().after(PassStarted(name, 2, 1225), 0.0)
    progress = began.after(BlockFinished(name, done), 1.0).as_json()
    line = {"schema": 1, "time": "t", "run": "r", "event": "block-finished", "name": name}
    return json.dumps({**line, "progress": progress}) + "\n"


def ended(event: str, **fields: Any) -> str:
    return json.dumps({"schema": 1, "time": "t", "run": "r", "event": event, **fields}) + "\n"
