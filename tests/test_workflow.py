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


def test_workflow__installs_the_package_alone():
    assert commands("bare") == ["python -m pip install --quiet .", "python tests/bare.py"]
    assert ".venv-bare/bin/python tests/bare.py" in (ROOT / ".ci" / "run").read_text()


def test_workflow__reads_only_and_ends():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    for job in JOBS.values():
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert "uses" not in step or re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])
