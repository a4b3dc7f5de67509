"""`dhsic submit` and what follows it, with programs in place of those of SLURM and kubectl."""

import json
import re

import pytest

from dhsic.cli import run_status
from dhsic.cluster.submit.manifests import RESULT
from tests.cli.queues import queues as queues

TEST = "test data.zarr --variable x --variable y"
URL = "test s3://bucket/songs.zarr --variable x --variable y"
SPECS = {
    "slurm": "kind: slurm\nworkers: 2\nmemory: 500MiB\n",
    "kubernetes": "kind: kubernetes\nworkers: 2\n"
    "kubernetes: {image: 'dhsic:1', tls_secret: tls, context: c, namespace: lab}\n",
}
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
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name, text in SPECS.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    queues.answer("sbatch", out="17\n")
    queues.answer("squeue", out="RUNNING\n")
    queues.answer("kubectl", "apply", out="created\n")
    return tmp_path


@pytest.fixture
def result_text(here, invoke):
    assert invoke(f"{TEST} --kernel gaussian --json result.json").exit_code == 0
    return (here / "result.json").read_text()


@pytest.fixture
def submit(here, invoke):
    def run(command=TEST, where="slurm", options=""):
        return invoke(f"submit {where} --spec {where}.yaml {options} -- {command}")

    return run


def folders(here):
    folder = here / "dhsic" / "runs"
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


@pytest.mark.parametrize(
    ("where", "command", "program", "words"),
    [
        ("slurm", TEST, "sbatch", ["--parsable"]),
        ("kubernetes", URL, "kubectl", ["--context=c", "--namespace=lab", "apply", "--filename=-"]),
    ],
)
def test_queue__gets_what_render_only_prints(
    where, command, program, words, submit, queues, invoke, here
):
    printed = submit(command, where, "--render-only")
    assert (printed.exit_code, printed.stderr, folders(here)) == (0, "", [])
    run = submit(command, where, "--detach").stdout.strip()
    assert [folder.name for folder in folders(here)] == [run]
    assert folders(here)[0].stat().st_mode & 0o777 == 0o700
    ((called, given),) = queues.calls(program)
    assert called == words
    assert IDENTITY.sub("ID", given) == IDENTITY.sub("ID", printed.stdout)
    queues.answer("kubectl", "get", out='{"items": []}')
    queues.answer("kubectl", "logs", out="")
    queues.answer("kubectl", "delete", out="deleted\n")
    queues.answer("scancel")
    assert invoke(f"cancel {run}").stdout == f"cancelled {run}\n"
    last = queues.calls("scancel" if where == "slurm" else "kubectl")[-1][0][-1]
    assert last == (
        "17" if where == "slurm" else f"--selector=app.kubernetes.io/instance=dhsic-{run}"
    )
    queues.answer("squeue", out="")
    queues.answer("kubectl", "get", "daskjob", out="")
    assert "state      cancelled" in invoke(f"status {run}").stdout
    if where == "slurm":
        refused(invoke(f"cancel {run}"), "is cancelled: there is nothing to cancel")


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
    done = submit(f"{TEST} --alpha 0.9")
    assert done.exit_code == 0, done.stderr
    assert done.stderr == f"run {asked[0]}, slurm job 17\n"
    assert "rejected at level 0.9" in done.stdout


def test_slurm__status_and_result_are_those_of_the_queue(
    submit, queues, invoke, here, result_text, monkeypatch
):
    run = submit(options="--detach").stdout.strip()
    (folder,) = folders(here)
    journal, result = folder / "journal.jsonl", folder / "result.json"
    for state, standing in {"PENDING": "waiting", "": "failed", "COMPLETING": "running"}.items():
        queues.answer("squeue", out=f"{state}\n")
        assert invoke(f"status {run}").stdout.startswith(f"state      {standing}\n")
    journal.write_text(block("kernel sums", 100) + block("replicates", 200))
    assert "progress   replicates, 200 of 300 rows\n" in invoke(f"status {run}").stdout
    refused(invoke(f"result {run}"), "has no result, it is running")
    monkeypatch.setattr(run_status, "sleep", lambda _: result.write_text(result_text))
    assert json.loads(invoke(f"result {run} --wait --json").stdout) == json.loads(result_text)
    result.write_text("{}")
    refused(invoke(f"result {run}"), "result.json must hold a result and does not")
    result.unlink()
    queues.answer("squeue", code=1, err="slurm_load_jobs error: Invalid job id specified\n")
    (folder / "job.log").write_text("first\n\nBus error\n\n")
    journal.write_text("")
    assert "reason     Bus error\n" in invoke(f"status {run}").stdout
    journal.write_text(line("error", message="x has NaN in row 3"))
    refused(invoke(f"result {run}"), f"run {run} failed: x has NaN in row 3 (its log is ")
    assert run in invoke("runs").stdout
    (folder / "run.json").write_text("no json")
    refused(invoke(f"status {run}"), f"run {run} cannot be read: remove {folder}")


def test_kubernetes__is_followed_by_its_pods(submit, queues, invoke, result_text):
    run = submit(URL, "kubernetes", "--detach").stdout.strip()
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


SLURM = SPECS["slurm"]
REFUSED = {
    ("", SLURM): "give a test to submit, as",
    ("'rm -rf /'", SLURM): "got 'rm -rf /'",
    (f"{URL} --estimator v-hsic:n_landmarks=9", SLURM): "got 'n_landmarks'",
    (URL.replace("//", "//me:secret@"), SLURM): "no password or signature",
    (f"{TEST} --json o.json", SLURM): "--json cannot be given to a test",
    (f"{TEST} --workers 2", SLURM): "--workers cannot be given to a test",
    (TEST, "kind: ["): "must be YAML",
    (TEST, SPECS["kubernetes"]): "needs a cluster of the kind slurm",
    (TEST, f"{SLURM}slurm: {{queue: $(id)}}"): "queue must be",
    (TEST, f'{SLURM}slurm: {{queue: "a\\n#SBATCH -x"}}'): "queue must be",
}


@pytest.mark.parametrize(("command", "spec"), REFUSED)
def test_what_cannot_run__is_not_submitted(command, spec, submit, queues, here):
    (here / "slurm.yaml").write_text(spec)
    refused(submit(command), REFUSED[command, spec])
    assert (queues.calls("sbatch"), folders(here)) == ([], [])


@pytest.mark.parametrize(
    ("where", "command", "answer", "words"),
    [
        ("slurm", TEST, {"code": 1, "err": "sbatch: error: a\n"}, "exit code 1: sbatch: error"),
        ("slurm", TEST, {"out": "job 17\n"}, "must answer with the number of a job"),
        ("kubernetes", TEST, {}, "DATA must be a URL"),
        ("kubernetes", f"{URL} --checkpoint here", {}, "--checkpoint must be a URL"),
        ("kubernetes", URL, {"code": 1, "err": 'no matches for kind "DaskJob" in'}, "operator"),
    ],
)
def test_queue__that_refuses_leaves_nothing(where, command, answer, words, submit, queues, here):
    queues.answer("sbatch" if where == "slurm" else "kubectl", **answer)
    queues.answer("kubectl", "delete")
    refused(submit(command, where), words)
    assert not folders(here)
