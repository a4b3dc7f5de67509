"""By night: runs of the daemons of a real SLURM come back with the bits of a local run."""

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dhsic.cli import main
from dhsic.io.synthetic import generate
from dhsic.results import IndependenceTestResult
from tests.cluster.certificates import DEPLOY, make_certificates
from tests.cluster.quiet import same_bits
from tests.cluster.slurm import asked, running_slurm
from tests.processes import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.slurm]

OPTIONS = ("--variable", "features", "--variable", "year", "--kernel", "gaussian")
OPTIONS = (*OPTIONS, "--estimator", "nystrom-m:200", "--resamples", "20")


@pytest.fixture(scope="module", autouse=True)
def slurm():
    with running_slurm():
        yield


def dhsic(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.fixture
def songs(tmp_path, monkeypatch):
    """Data in a folder of the test, in which runs are kept, with a local result."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "songs of '69.zarr"
    generate(path, rows=40_000, features=4)
    dhsic("test", path, *OPTIONS, "--threads", 1, "--memory", "500MiB", "--json", "local.json")
    return path


def check_same(text):
    found, expected = map(IndependenceTestResult.from_json, (text, Path("local.json").read_text()))
    assert same_bits(found, expected)


def test_submit__waits_for_the_result_of_a_local_run(songs, tmp_path):
    text = "kind: slurm\nworkers: 2\nmemory: 500MiB\nslurm:\n  interface: lo\n  host: 127.0.0.1\n"
    (tmp_path / "cluster.yaml").write_text(text)
    said = dhsic("submit", "--cluster", "cluster.yaml", "--", "test", songs, *OPTIONS)
    assert "independence" in said
    (folder,) = (tmp_path / "state" / "dhsic" / "runs").iterdir()
    check_same((folder / "result.json").read_text())
    assert dhsic("status", folder.name).splitlines()[0].split()[-1] == "finished"
    check_same(dhsic("result", folder.name, "--json"))


def test_sweep__one_of_whose_tasks_is_killed_is_one_table(songs, tmp_path):
    (tmp_path / "cluster.yaml").write_text("kind: slurm\nworkers: 2\nmemory: 500MiB\n")
    words = ("--each", "seed=0,1,2,3", "--detach", "--", "test", songs, *OPTIONS)
    run = dhsic("submit", "--cluster", "cluster.yaml", *words).strip()
    folder = tmp_path / "state" / "dhsic" / "runs" / run
    wait_until((folder / "1" / "turns").exists, 60, "the second task does not start")
    asked("scancel", "--signal=KILL", "--full", f"{(folder / 'job').read_text().strip()}_1")
    wait_until(lambda: not asked("squeue", "-h"), 150, "the array goes on")
    found = json.loads(dhsic("result", run, "--json"))
    assert [one["state"] for one in found] == ["finished", "failed", "finished", "finished"]
    check_same(json.dumps(found[0]["result"]))
    assert "1     failed" in dhsic("result", run)


def test_one_allocation__runs(songs, tmp_path, monkeypatch):
    programs = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", programs)
    monkeypatch.setenv("DHSIC_CERTIFICATES", str(make_certificates(tmp_path / "my 'certificates")))
    monkeypatch.setenv("DHSIC_INTERFACE", "lo")
    script = DEPLOY / "slurm" / "one-allocation.sbatch"
    size = ("--ntasks=2", "--mem-per-cpu=770M")
    job = asked("sbatch", "--parsable", *size, str(script), str(songs), *OPTIONS)
    wait_until(lambda: not asked("squeue", "-h"), 150, "the job goes on")
    output = (tmp_path / f"slurm-{job}.out").read_text()
    assert "JobState=COMPLETED" in asked("scontrol", "show", "job", job), output
    check_same((tmp_path / f"dhsic-{job}" / "result.json").read_text())
