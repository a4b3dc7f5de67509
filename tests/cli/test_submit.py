"""`dhsic submit` and what follows it, with programs in place of those of SLURM and kubectl."""

import json
import re

import pytest

from dhsic.cli import run_status
from dhsic.cluster.submit.manifests import RESULT
from tests.cluster.queues import queues as queues

pytestmark = pytest.mark.nightly

PAIR = "--variable x --variable y"
URL = "s3://bucket/songs.zarr"
SLURM = "kind: slurm\nworkers: 2\nmemory: 500MiB\n"
PODS = "kind: kubernetes\nworkers: 2\nkubernetes: {image: 'dhsic:1', tls_secret: tls, context: c, "
PODS += "namespace: lab}\n"
IDENTITY = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")
PROGRESS = {"pass": 1, "passes": 2, "parts": 2, "parts_done": 1, "amount": 300, "resumed": 0}
PROGRESS |= {"unit": "rows", "bytes_done": 0, "per_second": 1.0, "bytes_per_second": 0.0}
PROGRESS |= {"seconds_left": 1.0, "workers": None}


@pytest.fixture
def here(files, tmp_path, monkeypatch, queues):
    """A folder with descriptions of clusters, and a state folder for runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.zarr").symlink_to(files / "data.zarr")
    monkeypatch.setattr(run_status, "_SECONDS_BETWEEN", 0.01)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "slurm.yaml").write_text(SLURM)
    (tmp_path / "kubernetes.yaml").write_text(PODS)
    queues.answer("sbatch", out="17\n")
    queues.answer("squeue", out="RUNNING\n")
    queues.answer("kubectl", "apply", out="created\n")
    return tmp_path


@pytest.fixture
def result_text(here, invoke):
    line = f"test data.zarr {PAIR} --kernel gaussian --resamples 20 --json result.json"
    assert invoke(line).exit_code == 0
    return (here / "result.json").read_text()


@pytest.fixture
def submit(here, invoke):
    def run(command=f"test data.zarr {PAIR}", where="slurm", options=""):
        return invoke(f"submit {where} --spec {where}.yaml {options} -- {command}")

    return run


@pytest.fixture
def run_of_slurm(submit, here):
    """The name of a run that is submitted, and its folder."""
    return submit(options="--detach").stdout.strip(), *folders(here)


@pytest.fixture
def run_of_pods(submit, here):
    done = submit(f"test {URL} {PAIR}", "kubernetes", "--detach")
    return done.stdout.strip(), *folders(here)


def folders(here):
    folder = here / "state" / "dhsic" / "runs"
    return sorted(folder.iterdir()) if folder.exists() else []


def line(event, **fields):
    return json.dumps({"schema": 1, "time": "t", "run": "r", "event": event, **fields}) + "\n"


def block(name, done):
    return line("block-finished", name=name, progress={**PROGRESS, "done": done})


def refused(done, words):
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert done.stderr.splitlines()[-1].startswith("dhsic: error: ")
    assert words in done.stderr
    assert "secret" not in done.stderr


def test_slurm__gets_what_render_only_prints(submit, queues, here):
    printed = submit(options="--render-only")
    assert (printed.exit_code, printed.stderr, folders(here)) == (0, "", [])
    run = submit(options="--detach").stdout.strip()
    ((words, given),) = queues.calls("sbatch")
    assert words == ["--parsable"]
    assert IDENTITY.sub("ID", given) == IDENTITY.sub("ID", printed.stdout)
    (folder,) = folders(here)
    assert (folder.name, (folder / "job.sh").read_text()) == (run, given)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_slurm__is_followed_until_the_result_is_there(
    submit, queues, here, result_text, monkeypatch
):
    asked = []

    def tell(_):
        (run,) = folders(here)
        asked.append(run.name)
        if len(asked) == 2:
            queues.answer("squeue", out="RUNNING\n")
            (run / "journal.jsonl").write_text(block("kernel sums", 100))
        elif len(asked) == 3:
            (run / "result.json").write_text(result_text)

    queues.answer("squeue", code=1, err="Unable to contact slurm controller\n")
    monkeypatch.setattr(run_status, "sleep", tell)
    done = submit(f"test data.zarr {PAIR} --alpha 0.9")
    assert done.exit_code == 0, done.stderr
    assert done.stderr == f"run {asked[0]}, slurm job 17\n"
    assert "rejected at level 0.9" in done.stdout


@pytest.mark.parametrize(
    ("state", "standing"),
    [("PENDING", "waiting"), ("REQUEUED", "waiting"), ("COMPLETING", "running"), ("", "failed")],
)
def test_status__is_that_of_the_queue(state, standing, run_of_slurm, queues, invoke):
    queues.answer("squeue", out=f"{state}\n")
    assert invoke(f"status {run_of_slurm[0]}").stdout.startswith(f"state      {standing}\n")
    assert queues.calls("squeue")[0][0] == ["--noheader", "--format=%T", "--jobs=17"]


def test_status__says_how_far_it_is_and_why_it_ended(run_of_slurm, queues, invoke):
    run, folder = run_of_slurm
    journal = folder / "journal.jsonl"
    journal.write_text(block("kernel sums", 100) + block("replicates", 200))
    assert "progress   replicates, 200 of 300 rows\n" in invoke(f"status {run}").stdout
    refused(invoke(f"result {run}"), "has no result, it is running")
    queues.answer("squeue", code=1, err="slurm_load_jobs error: Invalid job id specified\n")
    (folder / "job.log").write_text("first\n\nBus error\n\n")
    journal.write_text("")
    assert "reason     Bus error\n" in invoke(f"status {run}").stdout
    journal.write_text(line("error", message="x has NaN in row 3"))
    refused(invoke(f"result {run}"), f"run {run} failed: x has NaN in row 3 (its log is ")
    (folder / "run.json").write_text("no json")
    refused(invoke(f"status {run}"), f"run {run} cannot be read: remove {folder}")


def test_cancel__ends_the_job_and_is_remembered(run_of_slurm, queues, invoke):
    run, _ = run_of_slurm
    queues.answer("scancel", code=1, err="no permission\n")
    refused(invoke(f"cancel {run}"), "scancel failed with exit code 1: no permission")
    queues.answer("scancel")
    assert invoke(f"cancel {run}").stdout == f"cancelled {run}\n"
    assert queues.calls("scancel")[-1][0] == ["17"]
    queues.answer("squeue", out="")
    assert "state      cancelled" in invoke(f"status {run}").stdout
    refused(invoke(f"cancel {run}"), "is cancelled: there is nothing to cancel")


def test_result__waits_where_asked(run_of_slurm, invoke, result_text, monkeypatch):
    run, folder = run_of_slurm
    write = (folder / "result.json").write_text
    monkeypatch.setattr(run_status, "sleep", lambda _: write(result_text))
    assert json.loads(invoke(f"result {run} --wait --json").stdout) == json.loads(result_text)
    write("{}")
    refused(invoke(f"result {run}"), "result.json must hold a result and does not")


def test_runs__lists_the_latest_first_of_the_folder_that_is_given(submit, invoke, here):
    assert invoke("runs").stderr.startswith("no runs yet")
    names = [submit(options="--detach --runs mine").stdout.strip() for _ in range(2)]
    listed = [text.split()[0] for text in invoke("runs --runs mine").stdout.splitlines()]
    assert listed == ["run", *sorted(names, reverse=True)]
    assert not folders(here)


REFUSED = {
    ("", SLURM): "give a test to submit, as",
    ("'rm -rf /'", SLURM): "got 'rm -rf /'",
    (f"test {URL} {PAIR} --estimator v-hsic --landmarks 9", SLURM): "--landmarks goes with",
    (f"test s3://me:secret@bucket/x {PAIR}", SLURM): "no password or signature",
    (f"test data.zarr {PAIR} --json o.json", SLURM): "--json cannot be given to a test",
    (f"test data.zarr {PAIR} --workers 2", SLURM): "--workers cannot be given to a test",
    (f"test data.zarr {PAIR}", "kind: ["): "must be YAML",
    (f"test data.zarr {PAIR}", PODS): "needs a cluster of the kind slurm",
    (f"test data.zarr {PAIR}", f"{SLURM}slurm: {{queue: $(id)}}"): "queue must be",
    (f"test data.zarr {PAIR}", f'{SLURM}slurm: {{queue: "a\\n#SBATCH -x"}}'): "queue must be",
}


@pytest.mark.parametrize(("command", "spec"), REFUSED)
def test_what_cannot_run__is_not_submitted(command, spec, submit, queues, here):
    (here / "slurm.yaml").write_text(spec)
    refused(submit(command), REFUSED[command, spec])
    assert (queues.calls("sbatch"), folders(here)) == ([], [])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"code": 1, "err": "sbatch: error: a\n"}, "exit code 1: sbatch: error"),
        ({"out": "Submitted batch job 17\n"}, "must answer with the number of a job"),
    ],
)
def test_queue__that_refuses_leaves_nothing(answer, words, submit, queues, here):
    queues.answer("sbatch", **answer)
    refused(submit(), words)
    assert not folders(here)


def test_kubernetes__applies_what_it_renders_and_deletes_it(run_of_pods, submit, queues, invoke):
    printed = submit(f"test {URL} {PAIR}", "kubernetes", "--render-only").stdout
    ((called, given),) = queues.calls("kubectl")
    assert called == ["--context=c", "--namespace=lab", "apply", "--filename=-"]
    assert IDENTITY.sub("ID", given) == IDENTITY.sub("ID", printed)
    queues.answer("kubectl", "get", out="{}")
    queues.answer("kubectl", "delete", out="deleted\n")
    assert invoke(f"cancel {run_of_pods[0]}").exit_code == 0
    words = queues.calls("kubectl")[-1][0]
    assert words[2:4] == ["delete", "daskjob,daskautoscaler,networkpolicy"]
    assert words[-1] == f"--selector=app.kubernetes.io/instance=dhsic-{run_of_pods[0]}"


def test_kubernetes__is_followed_by_its_pods(run_of_pods, queues, invoke, result_text):
    run, _ = run_of_pods
    waiting = {"state": {"waiting": {"reason": "ErrImagePull", "message": ""}}}
    pod = {"metadata": {"name": "p", "labels": {"dask.org/component": "worker"}}}
    pods = json.dumps({"items": [{**pod, "status": {"containerStatuses": [waiting]}}]})

    def answer(status, log):
        job = json.dumps({"kind": "DaskJob", "status": {"jobStatus": status}})
        queues.answer("kubectl", "get", "daskjob", f"dhsic-{run}", out=job)
        queues.answer("kubectl", "logs", out=log)
        return invoke(f"status {run}").stdout

    queues.answer("kubectl", "get", "pods", out=pods)
    shown = answer("ClusterCreated", "")
    assert shown.startswith("state      waiting\n")
    assert "trouble    pod p: ErrImagePull: name an image that the nodes can pull" in shown
    queues.answer("kubectl", "get", "pods", out='{"items": []}')
    assert "kernel sums, 100 of 300 rows\n" in answer("Running", block("kernel sums", 100))
    assert "state      failed" in answer("Failed", line("error", message="no such bucket"))
    refused(invoke(f"result {run}"), "failed: no such bucket")
    answer("Successful", f"table\n\n{RESULT}\n{result_text}")
    assert json.loads(invoke(f"result {run} --json").stdout) == json.loads(result_text)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f"test songs.zarr {PAIR}", "DATA must be a URL"),
        (f"test {URL} {PAIR} --checkpoint here", "--checkpoint must be a URL"),
        (f"test {URL} {PAIR}", "operator"),
    ],
)
def test_kubernetes__leaves_nothing_of_what_is_refused(command, words, submit, queues, here):
    queues.answer("kubectl", "apply", code=1, err='error: no matches for kind "DaskJob" in version')
    queues.answer("kubectl", "delete")
    refused(submit(command, "kubernetes"), words)
    assert not folders(here)
