"""The rules of the house that no other tool checks: tiers, the hosted workflow, names."""

import ast
import re
import tomllib
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import dhsic
from tests.conftest import NOT_QUICK, TESTS, is_quick, pytest_ignore_collect

ROOT = TESTS.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
JOBS = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
TREES = {path: ast.parse(path.read_text()) for path in Path(dhsic.__file__).parent.rglob("*.py")}


def commands(job):
    return [step["run"] for step in JOBS[job]["steps"] if "run" in step]


def test_files_of_tiers__are_there():
    assert [path for path in NOT_QUICK if not path.exists()] == []


@pytest.mark.parametrize("path", [Path(__file__), next((TESTS / "cluster").glob("test_*.py"))])
def test_every_file__is_collected_by_one_tier_or_the_other(path):
    def ignored(expression):
        config = SimpleNamespace(option=SimpleNamespace(markexpr=expression))
        return bool(pytest_ignore_collect(path, config))

    assert ignored("quick") is not is_quick(path)
    assert ignored("not quick and not nightly") is is_quick(path)
    assert not ignored("nightly")


def test_ci__runs_every_tier_and_the_contracts_of_imports():
    run, night = ((ROOT / ".ci" / name).read_text() for name in ("run", "nightly"))
    said = (ROOT / "CONTRIBUTING.md").read_text()
    assert "-m quick\n" in run
    assert "-m 'not quick and not nightly'\n" in run
    assert "lint-imports" in run
    assert "-m nightly\n" in night
    assert "`python -m pytest -n 2 -m quick`" in said
    assert ".ci/nightly" in said


def test_lowest_versions__are_tested_by_files_that_exist():
    night = (ROOT / ".ci" / "nightly").read_text()
    named = re.findall(r"tests/\S+\.py", night)
    assert len(named) > 3
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_workflow__does_what_is_done_here():
    assert ".ci/run" in commands("run")
    assert ".ci/nightly" in commands("nightly")
    tested = JOBS["tests"]["strategy"]["matrix"]["python"]
    classifiers = "\n".join(PROJECT["project"]["classifiers"])
    assert set(re.findall(r"Python :: (3\.\d+)", classifiers)) <= set(tested)
    assert PROJECT["project"]["requires-python"] == f">={tested[0]}"


def test_map__has_every_folder_of_the_package_and_names_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = text.partition("| to change | read | tests |")[2].partition("## The site")[0]
    named = set(re.findall(r"`((?:dhsic|tests)/[\w/.]+)`", rows))
    folders = {f"dhsic/{path.parent.name}" for path in ROOT.glob("dhsic/*/__init__.py")}
    assert folders <= named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_names__of_classes_and_functions_are_of_one_module():
    modules = defaultdict(set)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                modules[node.name.lstrip("_")].add(path)
            elif isinstance(node, ast.FunctionDef) and node.name[0] != "_":
                modules[node.name].add(path)
    assert {name: places for name, places in modules.items() if len(places) > 1} == {}


def test_lists_of_names__stand_in_public_modules_alone():
    assigned = {
        path
        for path, tree in TREES.items()
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    }
    modules = {"analysis", "bench", "causal", "errors", "integrations", "plots", "__init__"}
    assert {path.stem for path in assigned} == modules
