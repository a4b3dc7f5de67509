"""Fixtures of checkpoints."""

import pytest

from dhsic.io.folder import Folder
from tests.engine.kept import Kept, Squares


@pytest.fixture(autouse=True)
def fresh():
    Kept.chunks.clear()
    Kept.failing.clear()


@pytest.fixture
def folder(tmp_path):
    return Folder.at(str(tmp_path / "kept"), "checkpoint")


@pytest.fixture
def squares():
    Squares.calls.clear()
    Squares.failing.clear()
    return Squares()
