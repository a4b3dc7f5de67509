"""The hosted workflow does what the package says it does."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
JOBS = WORKFLOW["jobs"]


def commands(job):
    return [step["run"] for step in JOBS[job]["steps"] if "run" in step]


def test_workflow__runs_what_is_run_here():
    assert ".ci/run" in commands("run")
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


def test_workflow__tests_every_version_of_python_that_is_declared():
    tested = JOBS["tests"]["strategy"]["matrix"]["python"]
    classifiers = "\n".join(PROJECT["project"]["classifiers"])
    assert set(re.findall(r"Python :: (3\.\d+)", classifiers)) <= set(tested)
    assert PROJECT["project"]["requires-python"] == f">={tested[0]}"


def test_workflow__enforces_the_coverage_that_is_declared():
    assert "python -m pytest -n auto --cov" in commands("coverage")
    assert PROJECT["tool"]["coverage"]["report"]["fail_under"] == 95


def test_workflow__builds_the_site_and_checks_links():
    said = (ROOT / "CONTRIBUTING.md").read_text()
    build, links = (line for line in commands("site") if "pip install" not in line)
    assert build == "python -m pytest -n 0 -m nightly tests/test_docs.py"
    assert links in said
    assert "python -m sphinx -W -b html docs docs/_build/html" in said


def test_workflow__runs_every_file_that_has_slow_tests():
    asked = " ".join(
        [*JOBS["nightly"]["strategy"]["matrix"]["tests"], "tests/test_docs.py"]
    ).split()
    marked = re.compile(r"mark\.(?:nightly|sampled)\b")
    slow = {
        path.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("test_*.py")
        if marked.search(path.read_text())
    }
    covered = [Path(name) for name in asked]
    assert all((ROOT / name).exists() for name in covered)
    left = {path for path in slow if not {path, *path.parents} & {*covered}}
    assert left == set()


def test_workflow__installs_the_package_alone():
    assert commands("bare") == ["python -m pip install --quiet .", "python tests/bare.py"]
    assert ".venv-bare/bin/python tests/bare.py" in (ROOT / ".ci" / "nightly").read_text()


def test_workflow__reads_only_and_ends():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    for job in JOBS.values():
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert "uses" not in step or re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])
