"""Commands that run in this process, on small files."""

import json
import shlex

import pytest
from click.testing import CliRunner

from dhsic.cli import main
from tests.cli.store import write_files


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    write_files(folder)
    return folder


@pytest.fixture
def files(written, monkeypatch):
    """The folder of the files, in which a test runs."""
    monkeypatch.chdir(written)
    return written


@pytest.fixture
def invoke():
    """Run a line of the command; what it writes and its exit code."""

    def run(line, **keywords):
        return CliRunner().invoke(main, shlex.split(line), **keywords)

    return run


@pytest.fixture
def found(invoke, tmp_path):
    """Run a line that must succeed without a word on stderr, and read the JSON that it writes."""

    def run(line):
        path = tmp_path / "found.json"
        done = invoke(f"{line} --json {path} --overwrite")
        assert (done.exit_code, done.stderr) == (0, ""), (line, done.output)
        return json.loads(path.read_text())

    return run
