"""By night: runs on a real SLURM of one node, left alone, cancelled, failing and gone on with."""

import os
import sys
from functools import cache

import dask
import pytest
from click.testing import CliRunner

from dhsic import independence_test
from dhsic.cli import main
from dhsic.cluster import Adaptive, ClusterSpec, JobQueue, connect
from dhsic.engine.events import BlockFinished
from dhsic.io.synthetic import generate
from dhsic.results import IndependenceTestResult
from tests.cluster.quiet import OPTIONS, X, Y, quiet_result, same_bits
from tests.cluster.slurm import wait_until
from tests.deploy.play import DEPLOY, make_certificates

pytestmark = [pytest.mark.nightly, pytest.mark.slurm]

PAIR = ("--variable", "features", "--variable", "year", "--kernel", "gaussian")
QUICK = (*PAIR, "--landmarks", "200", "--resamples", "20")
# All pairs of rows: a run goes on for long after its first progress is seen, on any machine.
ALL_PAIRS = (*PAIR, "--estimator", "v-hsic", "--null")
LONG = (*ALL_PAIRS, "gamma", "--precision", "float32")
LONGER = (*ALL_PAIRS, "permutation", "--resamples", "1000")
SECONDS = 150.0


# --- connect


def spec_of(workers, *, timeout=120.0, **jobs):
    section = JobQueue(queue="main", walltime="00:10:00", interface="lo", **jobs)
    return ClusterSpec("slurm", workers, memory=500 * 10**6, timeout=timeout, jobs=section)


def test_connect__jobs_cancelled_in_a_run_change_no_bit(slurm):
    """Every job is cancelled once; adaptive scaling submits others."""
    done, cancelled = [], []

    def cancel_at_the_third(event):
        if isinstance(event, BlockFinished):
            done.append(event)
            if len(done) == 3:
                cancelled.extend(slurm.jobs("running"))
                slurm.cancel(*cancelled)

    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1s"}),
        connect(spec_of(Adaptive(3, 2))) as client,
    ):
        client.wait_for_workers(2, timeout=120)
        found = independence_test(X, Y, client=client, progress=cancel_at_the_third, **OPTIONS)
        wait_until(lambda: len(client.nthreads()) >= 2, 120, "no worker came back")
        assert not set(cancelled) & set(slurm.jobs("running"))
    assert len(cancelled) >= 2
    assert {slurm.state(job) for job in cancelled} == {"CANCELLED"}
    assert same_bits(found, quiet_result())


# --- dhsic submit slurm


@pytest.fixture(scope="module")
def songs(tmp_path_factory):
    path = tmp_path_factory.mktemp("songs") / "songs of '69.zarr"
    generate(path, rows=40_000, features=4)
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the description of a cluster, where commands are given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dhsic.cli.run_status._SECONDS_BETWEEN", 0.3)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    text = "kind: slurm\nworkers: 2\nmemory: 500MiB\nslurm:\n  interface: lo\n  host: 127.0.0.1\n"
    (tmp_path / "cluster.yaml").write_text(text)
    return tmp_path


def dhsic(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def submit(*words, detach=False):
    options = ["--detach"] if detach else []
    return dhsic("submit", "slurm", "--spec", "cluster.yaml", *options, "--", "test", *words)


def standing(run):
    done = dhsic("status", run)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.splitlines()[0].split()[-1]


def runs_of(here):
    return list((here / "state" / "dhsic" / "runs").iterdir())


@pytest.fixture(scope="module")
def local_result(songs, tmp_path_factory):
    """Results of this process, each found once."""

    @cache
    def found(options):
        path = tmp_path_factory.mktemp("local") / "local.json"
        where = ("--threads", 1, "--memory", "500MiB", "--json", path)
        done = dhsic("test", songs, *options, *where)
        assert done.exit_code == 0, done.stderr
        return IndependenceTestResult.from_json(path.read_text())

    return found


def check_same(text, expected):
    assert same_bits(IndependenceTestResult.from_json(text), expected)


def test_submit__waits_for_the_result_of_a_local_run(slurm, songs, here, local_result):
    done = submit(songs, *QUICK, "--alpha", "0.4")
    assert done.exit_code == 0, done.stderr
    assert "rejected at level 0.4" in done.stdout
    (folder,) = runs_of(here)
    check_same((folder / "result.json").read_text(), local_result(QUICK))
    assert standing(folder.name) == "finished"
    check_same(dhsic("result", folder.name, "--json").stdout, local_result(QUICK))
    assert "is finished: there is nothing to cancel" in dhsic("cancel", folder.name).stderr


def test_submit__cancelled_leaves_a_checkpoint_to_go_on_from(slurm, songs, here, local_result):
    detached = submit(songs, *LONG, detach=True)
    assert (detached.exit_code, detached.stderr) == (0, "")
    run = detached.stdout.strip()
    assert standing(run) in ("waiting", "running")
    assert "has no result, it is " in dhsic("result", run).stderr
    wait_until(lambda: "\nprogress " in dhsic("status", run).stdout, SECONDS, "no progress")
    checkpoint = here / "state" / "dhsic" / "runs" / run / "checkpoint"
    wait_until(lambda: list(checkpoint.rglob("*")), SECONDS, "no checkpoint")
    assert dhsic("cancel", run).stdout == f"cancelled {run}\n"
    wait_until(lambda: not slurm.jobs(), SECONDS, "jobs go on")
    assert standing(run) == "cancelled"
    again = submit(songs, *LONG, "--checkpoint", checkpoint)
    assert again.exit_code == 0, again.stderr
    (folder,) = (one for one in runs_of(here) if one.name != run)
    check_same((folder / "result.json").read_text(), local_result(LONG))


def test_submit__queues_itself_again_when_its_time_is_over(slurm, songs, here):
    run = submit(songs, *LONGER, detach=True).stdout.strip()
    wait_until(lambda: "\nprogress " in dhsic("status", run).stdout, SECONDS, "no progress")
    (job, *_) = sorted(slurm.jobs("running"), key=int)
    slurm.run("scancel", "--batch", "--signal=USR1", job)  # as it does before the end
    wait_until(lambda: slurm.jobs() == [job], SECONDS, "its workers go on")
    wait_until(lambda: slurm.state(job) == "PENDING", SECONDS, "not queued again")
    assert "Restarts=1" in slurm.run("scontrol", "show", "job", job)
    assert standing(run) == "waiting"
    journal = here / "state" / "dhsic" / "runs" / run / "journal.jsonl"
    assert '"event": "interrupted"' in journal.read_text().splitlines()[-1]


# --- a script of deploy/


def test_one_allocation__runs(slurm, songs, here, local_result, monkeypatch):
    programs = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", programs)
    monkeypatch.setenv("DHSIC_CERTIFICATES", str(make_certificates(here / "my 'certificates")))
    monkeypatch.setenv("DHSIC_INTERFACE", "lo")
    script = DEPLOY / "slurm" / "one-allocation.sbatch"
    size = ("--ntasks=2", "--mem-per-cpu=770M")
    job = slurm.run("sbatch", "--parsable", *size, str(script), str(songs), *QUICK).strip()
    wait_until(lambda: not slurm.jobs(), SECONDS, "the job goes on")
    output = (here / f"slurm-{job}.out").read_text()
    assert slurm.state(job) == "COMPLETED", output
    assert "independence" in output
    check_same((here / f"dhsic-{job}" / "result.json").read_text(), local_result(QUICK))
