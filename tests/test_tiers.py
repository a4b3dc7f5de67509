"""Tests stand in the tiers that CONTRIBUTING.md names."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import (
    LONG_FILES,
    NOT_QUICK,
    TESTS,
    is_quick,
    leave_most_cases_to_the_night,
    pytest_ignore_collect,
)

REST = "not quick and not nightly"


def test_files__that_are_named_are_there():
    assert all(path.exists() for path in NOT_QUICK)
    assert all((TESTS / name).exists() for name in LONG_FILES)


def test_commands__are_those_that_leave_files_out():
    run = (TESTS.parent / ".ci" / "run").read_text()
    assert "-m quick\n" in run
    assert f"-m '{REST}'\n" in run
    assert "`python -m pytest -n 2 -m quick`" in (TESTS.parent / "CONTRIBUTING.md").read_text()


@pytest.mark.parametrize("path", [Path(__file__), TESTS / "engine" / "test_plan.py"])
def test_every_file__is_collected_by_one_tier_or_the_other(path):
    def ignored(expression):
        config = SimpleNamespace(option=SimpleNamespace(markexpr=expression))
        return bool(pytest_ignore_collect(path, config))

    assert ignored("quick") is not is_quick(path)
    assert ignored(REST) is is_quick(path)
    assert not ignored("not nightly")
    assert not ignored("nightly")


def test_map__has_every_folder_of_the_package_and_names_files_that_exist():
    text = (TESTS.parent / "CONTRIBUTING.md").read_text()
    rows = text.partition("| to change | read | tests |")[2].partition("## The site")[0]
    named = set(re.findall(r"`((?:dhsic|tests)/[\w/.]+)`", rows))
    folders = {f"dhsic/{path.parent.name}" for path in TESTS.parent.glob("dhsic/*/__init__.py")}
    assert folders <= named
    assert all((TESTS.parent / name).exists() for name in named)
    without = {name for name in folders if not (TESTS / name.removeprefix("dhsic/")).is_dir()}
    assert without == {"dhsic/results"}  # the map has its files


def test_sampled__cases_are_every_third():
    class Item:
        nodeid = "test_a.py::test[1]"

        def __init__(self, mark):
            self.mark, self.marks = mark, []

        def get_closest_marker(self, name):
            return self.mark

        def add_marker(self, name):
            self.marks.append(name)

    items = [Item(SimpleNamespace(args=(3,))) for _ in range(7)]
    leave_most_cases_to_the_night([*items, other := Item(None)])
    assert [one.marks for one in items] == [
        [],
        ["nightly"],
        ["nightly"],
        [],
        ["nightly"],
        ["nightly"],
        [],
    ]
    assert other.marks == []
