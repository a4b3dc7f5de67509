"""`dhsic submit slurm` and what follows it, with programs in place of those of SLURM."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from dhsic.cli import run_status
from dhsic.cluster import ClusterSpec
from dhsic.results import IndependenceTestResult
from tests.cli.conftest import Invoke
from tests.cli.submissions import (
    IDENTITY,
    PAIR,
    SLURM,
    URL,
    detached,
    ended,
    runs_of,
    said,
    submit,
)
from tests.cli.submissions import here as here
from tests.cli.submissions import queues as queues
from tests.cli.submissions import result_text as result_text
from tests.cli.test_bad_usage import check_refusal
from tests.cluster.queues import Queues


def test_slurm__render_only_prints_what_sbatch_would_get(
    invoke: Invoke, data: str, here: Path, queues: Queues
) -> None:
    printed = submit(invoke, "slurm", "test", data, *PAIR, options=("--render-only",))
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert not runs_of(here)
    queues.answer("sbatch", out="17\n")
    run = detached(invoke, "slurm", "test", data, *PAIR)
    ((words, given),) = queues.calls("sbatch")
    assert words == ["--parsable"]
    assert IDENTITY.sub("ID", given) == IDENTITY.sub("ID", printed.stdout)
    folder = here / "state" / "dhsic" / "runs" / run
    assert (folder / "job.sh").read_text() == given
    assert {path.name for path in folder.iterdir()} == {
        "cluster.yaml",
        "job.sh",
        "run.json",
        "state.json",
    }
    assert folder.stat().st_mode & 0o777 == 0o700


def test_slurm__a_checkpoint_of_the_user_takes_the_place_of_ours(
    invoke: Invoke, data: str, here: Path
) -> None:
    ours, theirs = (
        submit(invoke, "slurm", "test", data, *PAIR, *more, options=("--render-only",)).stdout
        for more in ((), ("--checkpoint", "mine"))
    )
    assert re.search(r"--checkpoint \S+/checkpoint ", ours)
    assert theirs.count("--checkpoint") == 1
    assert "--checkpoint mine &\n" in theirs


def test_slurm__data_at_a_url_are_left_to_the_nodes(invoke: Invoke, here: Path) -> None:
    done = submit(invoke, "slurm", "test", URL, *PAIR, options=("--render-only",))
    assert done.exit_code == 0, done.stderr
    assert f" {URL} " in done.stdout


def test_slurm__words_after_a_second_end_of_options_stay_where_they_are(
    invoke: Invoke, data: str, here: Path
) -> None:
    done = submit(invoke, "slurm", "test", *PAIR, "--", data, options=("--render-only",))
    assert done.exit_code == 0, done.stderr
    assert f" --variable x --variable y -- {data} &\n" in done.stdout


def test_runs__is_the_folder_that_is_given(
    invoke: Invoke, data: str, here: Path, queues: Queues
) -> None:
    queues.answer("sbatch", out="17\n")
    where = ("--runs", str(here / "mine"))
    done = submit(invoke, "slurm", "test", data, *PAIR, options=("--detach", *where))
    assert done.exit_code == 0, done.stderr
    assert [path.name for path in (here / "mine").iterdir()] == [done.stdout.strip()]
    (shown,) = (x for x in invoke("runs", *where).stdout.splitlines() if done.stdout.strip() in x)
    assert shown.endswith(f"{shlex.join(['test', data, *PAIR])[:47]}...")
    queues.answer("squeue", out="PENDING\n")
    assert "waiting" in invoke("status", *where, done.stdout.strip()).stdout
    assert not runs_of(here)


def test_slurm__follows_until_the_result_is_there(
    invoke: Invoke, data: str, here: Path, queues: Queues, result_text: str
) -> None:
    queues.answer("sbatch", out="17;cluster\n")
    asked = []

    def tell(_: float) -> None:
        (run,) = runs_of(here)
        asked.append(run.name)
        if len(asked) == 1:
            queues.answer("squeue", out="RUNNING\n")
            (run / "journal.jsonl").write_text(ended("command-started"))
        elif len(asked) == 2:
            (run / "journal.jsonl").write_text(said("kernel sums", 400))
        elif len(asked) == 3:
            (run / "result.json").write_text(result_text)

    queues.answer("squeue", out="PENDING\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_status, "sleep", tell)
        done = submit(invoke, "slurm", "test", data, *PAIR, "--alpha", "0.9")
    assert done.exit_code == 0, done.stderr
    assert done.stderr == f"run {asked[0]}, slurm job 17;cluster\n"
    assert "rejected at level 0.9" in done.stdout
    assert len(asked) == 3


def test_slurm__an_interrupt_leaves_the_run_to_the_queue(
    invoke: Invoke, data: str, here: Path, queues: Queues
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    queues.answer("sbatch", out="17\n")
    queues.answer("squeue", out="PENDING\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_status, "sleep", interrupt)
        done = submit(invoke, "slurm", "test", data, *PAIR)
    (run,) = runs_of(here)
    assert (done.exit_code, done.stdout) == (130, "")
    assert f"the run goes on: see 'dhsic status {run.name}'" in done.stderr
    assert not queues.calls("scancel")


def test_slurm__a_queue_that_is_silent_for_a_while_is_asked_again(
    invoke: Invoke, data: str, here: Path, queues: Queues, result_text: str
) -> None:
    queues.answer("sbatch", out="17\n")
    queues.answer("squeue", code=1, err="Unable to contact slurm controller\n")
    tries = []

    def tell(_: float) -> None:
        tries.append(1)
        if len(tries) == 3:
            (run,) = runs_of(here)
            (run / "result.json").write_text(result_text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_status, "sleep", tell)
        assert submit(invoke, "slurm", "test", data, *PAIR).exit_code == 0
    tries[:] = [0] * 100
    done = submit(invoke, "slurm", "test", data, *PAIR)
    check_last(done, "Unable to contact slurm controller")


def check_last(done: Any, *words: str) -> None:
    """Refused, after the line that names the run."""
    assert (done.exit_code, done.stdout) == (2, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("dhsic: error: ")
    for word in words:
        assert word in last


@pytest.mark.parametrize(
    ("states", "standing"),
    [
        (("PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED"), "waiting"),
        (("RUNNING", "COMPLETING"), "running"),
        (("COMPLETED", "TIMEOUT", "NODE_FAIL", ""), "failed"),
    ],
)
def test_status__of_each_state_of_slurm(
    invoke: Invoke, data: str, here: Path, queues: Queues, states: tuple[str, ...], standing: str
) -> None:
    queues.answer("sbatch", out="17\n")
    run = detached(invoke, "slurm", "test", data, *PAIR)
    for state in states:
        queues.answer("squeue", out=f"{state}\n")
        done = invoke("status", run)
        assert done.stdout.startswith(f"state      {standing}\n")
    assert queues.calls("squeue")[0][0] == ["--noheader", "--format=%T", "--jobs=17"]


def test_status__a_job_that_slurm_has_forgotten_is_over(
    invoke: Invoke, data: str, here: Path, queues: Queues
) -> None:
    queues.answer("sbatch", out="17\n")
    run = detached(invoke, "slurm", "test", data, *PAIR)
    error = "slurm_load_jobs error: Invalid job id specified\n"
    queues.answer("squeue", code=1, err=error)
    assert "it left no message" in invoke("status", run).stdout
    (folder,) = runs_of(here)
    (folder / "job.log").write_text("first\n\nBus error\n\n")
    assert "reason     Bus error\n" in invoke("status", run).stdout
    (folder / "journal.jsonl").write_text(said("kernel sums", 3) + ended("interrupted"))
    assert "reason     it was interrupted\n" in invoke("status", run).stdout
    (folder / "journal.jsonl").write_text(ended("error", message="x has NaN in row 3"))
    assert "reason     x has NaN in row 3\n" in invoke("status", run).stdout
    check_refusal(invoke("result", run), f"run {run} failed: x has NaN in row 3 (its log is ")


def test_status__says_how_far_it_is(invoke: Invoke, data: str, here: Path, queues: Queues) -> None:
    queues.answer("sbatch", out="17\n")
    queues.answer("squeue", out="RUNNING\n")
    run = detached(invoke, "slurm", "test", data, *PAIR, "--kernel", "x=gaussian:0.5")
    assert "progress" not in invoke("status", run).stdout
    (folder,) = runs_of(here)
    (folder / "journal.jsonl").write_text(said("kernel sums", 400) + ended("command-started"))
    lines = invoke("status", run).stdout.splitlines()
    assert lines[:2] == ["state      running", "trouble    waiting for workers (0 of 2)"]
    assert "progress" not in "".join(lines), "that of an earlier turn"
    (folder / "journal.jsonl").write_text(said("kernel sums", 400) + said("replicates", 800))
    lines = invoke("status", run).stdout.splitlines()
    assert lines[1:3] == ["progress   replicates, 800 of 1,225 rows", "queue      slurm, job 17"]
    assert lines[4].endswith(" --kernel x=gaussian:0.5")
    assert lines[5] == f"folder     {folder}"


def test_slurm__a_job_of_another_cluster_is_asked_for_there(
    invoke: Invoke, data: str, here: Path, queues: Queues
) -> None:
    queues.answer("sbatch", out="17;east\n")
    run = detached(invoke, "slurm", "test", data, *PAIR)
    queues.answer("squeue", "--clusters=east", "--jobs=17", out="CLUSTER: east\nRUNNING\n")
    queues.answer("scancel", "--clusters=east", "17")
    status = invoke("status", run).stdout
    assert status.startswith("state      running\n")
    assert "queue      slurm, job 17;east\n" in status
    assert invoke("cancel", run).exit_code == 0
    queues.answer("squeue", "--clusters=east", "--jobs=17", out="CLUSTER: east\n")
    assert "state      cancelled" in invoke("status", run).stdout


@pytest.mark.parametrize(("given", "seconds"), [({}, 5400.0), ({"timeout": 30}, 30.0)])
def test_slurm__a_job_waits_for_workers_as_long_as_it_may_last(
    invoke: Invoke, data: str, here: Path, queues: Queues, given: dict[str, Any], seconds: float
) -> None:
    spec = {**SLURM, "slurm": {"walltime": "01:30:00"}, **given}
    (here / "slurm.yaml").write_text(yaml.safe_dump(spec))
    queues.answer("sbatch", out="17\n")
    detached(invoke, "slurm", "test", data, *PAIR)
    (folder,) = runs_of(here)
    assert ClusterSpec.read(folder / "cluster.yaml").patience == seconds


def test_cancel__ends_the_job_and_is_remembered(
    invoke: Invoke, data: str, here: Path, queues: Queues
) -> None:
    queues.answer("sbatch", out="17\n")
    queues.answer("squeue", out="RUNNING\n")
    run = detached(invoke, "slurm", "test", data, *PAIR)
    queues.answer("scancel", code=1, err="no permission\n")
    check_refusal(invoke("cancel", run), "scancel failed with exit code 1: no permission")
    queues.answer("squeue", out="")
    assert "state      failed" in invoke("status", run).stdout, "it was not cancelled"
    queues.answer("squeue", out="RUNNING\n")
    queues.answer("scancel")
    assert invoke("cancel", run).stdout == f"cancelled {run}\n"
    assert queues.calls("scancel")[-1][0] == ["17"]
    queues.answer("squeue", out="")
    assert "state      cancelled" in invoke("status", run).stdout
    check_refusal(invoke("cancel", run), "is cancelled: there is nothing to cancel")
    check_refusal(invoke("result", run), "it is cancelled")


def test_result__waits_where_asked(
    invoke: Invoke, data: str, here: Path, queues: Queues, result_text: str
) -> None:
    queues.answer("sbatch", out="17\n")
    queues.answer("squeue", out="RUNNING\n")
    run = detached(invoke, "slurm", "test", data, *PAIR)
    check_refusal(invoke("result", run), "has no result, it is running")
    (folder,) = runs_of(here)
    with pytest.MonkeyPatch.context() as patch:
        write = (folder / "result.json").write_text
        patch.setattr(run_status, "sleep", lambda _: write(result_text))
        done = invoke("result", run, "--wait", "--json")
    found = IndependenceTestResult.from_json(done.stdout)
    assert found.to_json() == IndependenceTestResult.from_json(result_text).to_json()


def test_result__does_not_wait_for_a_run_that_no_queue_has(
    invoke: Invoke, data: str, here: Path, queues: Queues
) -> None:
    queues.answer("sbatch", out="17\n")
    run = detached(invoke, "slurm", "test", data, *PAIR)
    (folder,) = runs_of(here)
    (folder / "state.json").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_status, "sleep", lambda _: pytest.fail("it waits"))
        check_refusal(invoke("result", run, "--wait"), "has no result, it is not submitted")


def test_runs__lists_the_latest_first(
    invoke: Invoke, data: str, here: Path, queues: Queues
) -> None:
    done = invoke("runs")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith("no runs yet")
    queues.answer("sbatch", out="17\n")
    names = [detached(invoke, "slurm", "test", data, *PAIR) for _ in range(2)]
    listed = [line.split()[0] for line in invoke("runs").stdout.splitlines()]
    assert listed == ["run", *sorted(names, reverse=True)]
