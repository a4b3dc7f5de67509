"""Runs on a real SLURM: followed, left alone, failing, cancelled and gone on with."""

import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import psutil
import pytest
import zarr
from click.testing import CliRunner, Result

from dhsic.cli import main, run_status
from dhsic.io.synthetic import generate
from dhsic.results import IndependenceTestResult
from tests.cluster.slurm import Slurm, wait_until
from tests.deploy.play import DEPLOY, make_certificates, started

pytestmark = pytest.mark.slurm

PAIR = ("--variable", "features", "--variable", "year", "--kernel", "gaussian")
QUICK = (*PAIR, "--landmarks", "200", "--resamples", "20")
# All pairs of rows: a run goes on for long after its first progress is seen, on any machine.
ALL_PAIRS = (*PAIR, "--estimator", "v-hsic", "--null")
LONG = (*ALL_PAIRS, "gamma", "--precision", "float32")
LONGER = (*ALL_PAIRS, "multiplier", "--resamples", "1000")
SECONDS = 150.0

Local = Callable[[tuple[str, ...]], IndependenceTestResult]


@pytest.fixture(scope="module")
def songs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("songs") / "songs of '69.zarr"
    generate(path, rows=40_000, features=4)
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the description of a cluster, where commands are given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_status, "_SECONDS_BETWEEN", 0.3)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    text = "kind: slurm\nworkers: 2\nmemory: 500MiB\nslurm:\n  interface: lo\n  host: 127.0.0.1\n"
    (tmp_path / "cluster.yaml").write_text(text)
    return tmp_path


def dhsic(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def submit(*words: object, detach: bool = False) -> Result:
    options = ["--detach"] if detach else []
    return dhsic("submit", "slurm", "--spec", "cluster.yaml", *options, "--", "test", *words)


def standing(run: str) -> str:
    done = dhsic("status", run)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.splitlines()[0].split()[-1]


@pytest.fixture(scope="module")
def local_result(songs: Path, tmp_path_factory: pytest.TempPathFactory) -> Local:
    """Results of this process, each found once."""

    @cache
    def found(options: tuple[str, ...]) -> IndependenceTestResult:
        path = tmp_path_factory.mktemp("local") / "local.json"
        where = ("--threads", 1, "--memory", "500MiB", "--json", path)
        done = dhsic("test", songs, *options, *where)
        assert done.exit_code == 0, done.stderr
        return IndependenceTestResult.from_json(path.read_text())

    return found


def check_same(found: IndependenceTestResult, expected: IndependenceTestResult) -> None:
    assert found.statistic == expected.statistic
    assert found.pvalue == expected.pvalue
    assert found.null_distribution.tolist() == expected.null_distribution.tolist()


def test_submit__waits_for_the_result_of_a_local_run(
    slurm: Slurm, songs: Path, here: Path, local_result: Local
) -> None:
    done = submit(songs, *QUICK, "--alpha", "0.4")
    assert done.exit_code == 0, done.stderr
    assert "rejected at level 0.4" in done.stdout
    (folder,) = (here / "state" / "dhsic" / "runs").iterdir()
    found = IndependenceTestResult.from_json((folder / "result.json").read_text())
    check_same(found, local_result(QUICK))
    assert standing(folder.name) == "finished"
    printed = dhsic("result", folder.name, "--json").stdout
    check_same(IndependenceTestResult.from_json(printed), found)
    assert dhsic("result", folder.name).stdout == done.stdout
    assert folder.name in dhsic("runs").stdout
    assert os.listdir(here / "state" / "dhsic" / "runs") == [folder.name]
    refused = dhsic("cancel", folder.name)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "is finished: there is nothing to cancel" in refused.stderr


def test_submit__detached_and_cancelled_leaves_a_checkpoint_to_go_on_from(
    slurm: Slurm, songs: Path, here: Path, local_result: Local
) -> None:
    detached = submit(songs, *LONG, detach=True)
    assert (detached.exit_code, detached.stderr) == (0, "")
    run = detached.stdout.strip()
    assert standing(run) in ("waiting", "running")
    early = dhsic("result", run)
    assert (early.exit_code, early.stdout) == (2, "")
    assert "has no result, it is " in early.stderr
    wait_until(lambda: "\nprogress " in dhsic("status", run).stdout, SECONDS, "no progress")
    checkpoint = here / "state" / "dhsic" / "runs" / run / "checkpoint"
    wait_until(lambda: list(checkpoint.rglob("*")), SECONDS, "no checkpoint")
    assert dhsic("cancel", run).stdout == f"cancelled {run}\n"
    wait_until(lambda: not slurm.jobs(), SECONDS, "jobs go on")
    assert standing(run) == "cancelled"
    late = dhsic("result", run)
    assert late.exit_code == 2
    assert f"it is cancelled: see 'dhsic status {run}'" in late.stderr
    again = submit(songs, *LONG, "--checkpoint", checkpoint)
    assert again.exit_code == 0, again.stderr
    (folder,) = [f for f in checkpoint.parents[1].iterdir() if f.name != run]
    found = IndependenceTestResult.from_json((folder / "result.json").read_text())
    check_same(found, local_result(LONG))


def test_submit__queues_itself_again_when_its_time_is_over(
    slurm: Slurm, songs: Path, here: Path
) -> None:
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


def test_submit__says_why_a_run_failed(slurm: Slurm, here: Path) -> None:
    group = zarr.create_group(here / "data.zarr")
    x = np.random.default_rng(0).standard_normal((500, 1))
    group.create_array("x", data=x)
    x[77] = np.nan
    group.create_array("y", data=x)
    done = submit("data.zarr", "--variable", "x", "--variable", "y", "--resamples", "20")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "failed: " in done.stderr
    assert "row 77" in done.stderr
    (folder,) = (here / "state" / "dhsic" / "runs").iterdir()
    status = dhsic("status", folder.name).stdout
    assert status.startswith("state      failed\nreason ")
    assert "row 77" in status


def test_submit__leaves_nothing_of_a_run_that_the_queue_refuses(
    slurm: Slurm, songs: Path, here: Path
) -> None:
    with (here / "cluster.yaml").open("a") as file:
        file.write("  queue: nowhere\n")
    done = submit(songs, *QUICK)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "sbatch failed" in done.stderr
    assert "invalid partition" in done.stderr
    assert not list((here / "state" / "dhsic" / "runs").iterdir())


@pytest.fixture
def certificates(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make_certificates(here / "my 'certificates")
    monkeypatch.setenv("DHSIC_CERTIFICATES", str(folder))
    monkeypatch.setenv("DHSIC_INTERFACE", "lo")
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    return folder


@pytest.mark.usefixtures("certificates")
def test_one_allocation__runs(slurm: Slurm, songs: Path, here: Path, local_result: Local) -> None:
    script = DEPLOY / "slurm" / "one-allocation.sbatch"
    size = ("--ntasks=2", "--mem-per-cpu=770M")
    job = slurm.run("sbatch", "--parsable", *size, str(script), str(songs), *QUICK).strip()
    wait_until(lambda: not slurm.jobs(), SECONDS, "the job goes on")
    output = (here / f"slurm-{job}.out").read_text()
    assert slurm.state(job) == "COMPLETED", output
    assert "independence" in output
    text = (here / f"dhsic-{job}" / "result.json").read_text()
    check_same(IndependenceTestResult.from_json(text), local_result(QUICK))


def lifetimes() -> list[int]:
    """Seconds after which workers leave, of all that run here."""
    lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [
        int(words[words.index("--lifetime") + 1].removesuffix("s"))
        for words in lines
        if "scheduler.json" in words and "--lifetime" in words
    ]


def test_workers__join_a_scheduler(
    slurm: Slurm, songs: Path, here: Path, certificates: Path, local_result: Local
) -> None:
    files = {"ca-file": "ca.crt", "cert": "tls.crt", "key": "tls.key"}
    tls = [f"--tls-{name}={certificates / file}" for name, file in files.items()]
    words = ["dask", "scheduler", "--protocol=tls", "--port=0", "--scheduler-file=scheduler.json"]
    with started([([*words, "--dashboard-address=127.0.0.1:0", *tls], {})], {"\0": ""}, here):
        wait_until((here / "scheduler.json").exists, SECONDS, "no scheduler")
        script = str(DEPLOY / "slurm" / "workers.sbatch")
        options = ("--array=1-2", "--mem-per-cpu=770M", "--time=00:20:00")
        slurm.run("sbatch", *options, script, "scheduler.json")
        wait_until(lambda: len(slurm.jobs("running")) == 2, SECONDS, "no workers")
        wait_until(lambda: len(lifetimes()) == 2, SECONDS, "no workers")
        assert [seconds for seconds in lifetimes() if not 800 < seconds <= 1020] == []
        ours = [
            f"--tls-{n}={certificates / f}"
            for n, f in zip(("ca", "cert", "key"), files.values(), strict=True)
        ]
        where = (
            "--scheduler-file",
            "scheduler.json",
            *ours,
            "--json",
            "out.json",
            "--memory",
            "500MiB",
        )
        wait_until(
            lambda: dhsic("test", songs, *QUICK, *where).exit_code == 0, SECONDS, "no result"
        )
    text = (here / "out.json").read_text()
    check_same(IndependenceTestResult.from_json(text), local_result(QUICK))
