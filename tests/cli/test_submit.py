"""`dhsic submit` and what follows it, with programs in place of those of SLURM and kubectl."""

import json
import re

import pytest
import yaml

from dhsic.cli import run_status
from dhsic.cluster import ClusterSpec
from dhsic.cluster.submit import tools
from dhsic.cluster.submit.manifests import RESULT
from tests.cluster.queues import queues as queues

pytestmark = pytest.mark.nightly

PAIR = "--variable x --variable y"
URL = "s3://bucket/songs.zarr"
SLURM = {"kind": "slurm", "workers": 2, "memory": "500MiB"}
KUBERNETES = {
    "kind": "kubernetes",
    "workers": 2,
    "kubernetes": {"image": "dhsic:1", "tls_secret": "tls", "namespace": "lab", "context": "c"},
}
IDENTITY = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")


@pytest.fixture
def here(files, tmp_path, monkeypatch, queues):
    """A folder with descriptions of clusters, and a state folder for runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.zarr").symlink_to(files / "data.zarr")
    monkeypatch.setattr(run_status, "_SECONDS_BETWEEN", 0.01)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name, spec in {"slurm": SLURM, "kubernetes": KUBERNETES}.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(spec))
    return tmp_path


@pytest.fixture
def result_text(here, invoke):
    done = invoke(f"test data.zarr {PAIR} --kernel gaussian --resamples 20 --json result.json")
    assert done.exit_code == 0
    return (here / "result.json").read_text()


@pytest.fixture
def submit(here, invoke):
    def run(command=f"test data.zarr {PAIR}", where="slurm", options=""):
        return invoke(f"submit {where} --spec {where}.yaml {options} -- {command}")

    return run


@pytest.fixture
def run_of_slurm(submit, queues, here):
    """A run that is submitted, and its folder."""
    queues.answer("sbatch", out="17\n")
    queues.answer("squeue", out="RUNNING\n")
    done = submit(options="--detach")
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.strip(), folders(here)[0]


@pytest.fixture
def run_of_pods(submit, queues, here):
    queues.answer("kubectl", "apply", out="created\n")
    done = submit(f"test {URL} {PAIR}", "kubernetes", "--detach")
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.strip(), folders(here)[0]


def folders(here):
    folder = here / "state" / "dhsic" / "runs"
    return sorted(folder.iterdir()) if folder.exists() else []


def line(event, **fields):
    head = {"schema": 1, "time": "t", "run": "r", "event": event}
    return json.dumps({**head, **fields}) + "\n"


def block(name, done):
    progress = {"pass": 1, "passes": 2, "parts": 2, "parts_done": 1, "amount": 300, "done": done}
    progress |= {"resumed": 0, "unit": "rows", "bytes_done": 0, "per_second": 1.0}
    progress |= {"bytes_per_second": 0.0, "seconds_left": 1.0, "workers": None}
    return line("block-finished", name=name, progress=progress)


def refused(done, words):
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    last = done.stderr.splitlines()[-1]
    assert last.startswith("dhsic: error: ")
    assert "secret@" not in done.stderr
    assert words in last


def test_slurm__gets_what_render_only_prints(submit, queues, here):
    printed = submit(options="--render-only")
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert not folders(here)
    queues.answer("sbatch", out="17\n")
    run = submit(options="--detach").stdout.strip()
    ((words, given),) = queues.calls("sbatch")
    assert words == ["--parsable"]
    assert IDENTITY.sub("ID", given) == IDENTITY.sub("ID", printed.stdout)
    (folder,) = folders(here)
    assert (folder.name, (folder / "job.sh").read_text()) == (run, given)
    assert folder.stat().st_mode & 0o777 == 0o700
    theirs = submit(f"test {URL} {PAIR} --checkpoint mine", options="--render-only").stdout
    assert "--checkpoint mine &\n" in theirs
    assert theirs.count("--checkpoint") == 1
    assert re.search(r"--checkpoint \S+/checkpoint ", printed.stdout)


def test_slurm__follows_until_the_result_is_there(submit, queues, here, result_text, monkeypatch):
    queues.answer("sbatch", out="17;cluster\n")
    queues.answer("squeue", code=1, err="Unable to contact slurm controller\n")
    asked = []

    def tell(_):
        (run,) = folders(here)
        asked.append(run.name)
        if len(asked) == 2:
            queues.answer("squeue", out="RUNNING\n")
            (run / "journal.jsonl").write_text(line("command-started"))
        elif len(asked) == 3:
            (run / "journal.jsonl").write_text(block("kernel sums", 100))
        elif len(asked) == 4:
            (run / "result.json").write_text(result_text)

    monkeypatch.setattr(run_status, "sleep", tell)
    done = submit(f"test data.zarr {PAIR} --alpha 0.9")
    assert done.exit_code == 0, done.stderr
    assert done.stderr == f"run {asked[0]}, slurm job 17;cluster\n"
    assert "rejected at level 0.9" in done.stdout


def test_slurm__an_interrupt_leaves_the_run_to_the_queue(submit, queues, here, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    queues.answer("sbatch", out="17\n")
    queues.answer("squeue", out="PENDING\n")
    monkeypatch.setattr(run_status, "sleep", interrupt)
    done = submit()
    (run,) = folders(here)
    assert (done.exit_code, done.stdout) == (130, "")
    assert f"the run goes on: see 'dhsic status {run.name}'" in done.stderr
    assert not queues.calls("scancel")


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
    assert "progress" not in invoke(f"status {run}").stdout
    journal.write_text(block("kernel sums", 100) + block("replicates", 200))
    assert "progress   replicates, 200 of 300 rows\n" in invoke(f"status {run}").stdout
    refused(invoke(f"result {run}"), "has no result, it is running")
    queues.answer("squeue", code=1, err="slurm_load_jobs error: Invalid job id specified\n")
    (folder / "job.log").write_text("first\n\nBus error\n\n")
    journal.write_text("")
    assert "reason     Bus error\n" in invoke(f"status {run}").stdout
    journal.write_text(block("kernel sums", 3) + line("interrupted"))
    assert "reason     it was interrupted\n" in invoke(f"status {run}").stdout
    journal.write_text(line("error", message="x has NaN in row 3"))
    refused(invoke(f"result {run}"), f"run {run} failed: x has NaN in row 3 (its log is ")


def test_slurm__a_job_of_another_cluster_is_asked_for_there(submit, queues, invoke, here):
    queues.answer("sbatch", out="17;east\n")
    run = submit(options="--detach").stdout.strip()
    queues.answer("squeue", "--clusters=east", "--jobs=17", out="CLUSTER: east\nRUNNING\n")
    queues.answer("scancel", "--clusters=east", "17")
    assert invoke(f"status {run}").stdout.startswith("state      running\n")
    assert invoke(f"cancel {run}").exit_code == 0
    queues.answer("squeue", "--clusters=east", "--jobs=17", out="CLUSTER: east\n")
    assert "state      cancelled" in invoke(f"status {run}").stdout


@pytest.mark.parametrize(("given", "seconds"), [({}, 5400.0), ({"timeout": 30}, 30.0)])
def test_slurm__a_job_waits_for_workers_as_long_as_it_may_last(
    given, seconds, submit, queues, here
):
    spec = {**SLURM, "slurm": {"walltime": "01:30:00"}, **given}
    (here / "slurm.yaml").write_text(yaml.safe_dump(spec))
    queues.answer("sbatch", out="17\n")
    assert submit(options="--detach").exit_code == 0
    assert ClusterSpec.read(folders(here)[0] / "cluster.yaml").patience == seconds


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
    refused(invoke(f"result {run}"), "it is cancelled")


def test_result__waits_where_asked_and_where_a_queue_has_the_run(
    run_of_slurm, invoke, result_text, monkeypatch
):
    run, folder = run_of_slurm
    monkeypatch.setattr(
        run_status, "sleep", lambda _: (folder / "result.json").write_text(result_text)
    )
    done = invoke(f"result {run} --wait --json")
    assert json.loads(done.stdout) == json.loads(result_text)
    (folder / "result.json").write_text("{}")
    refused(invoke(f"result {run}"), "result.json must hold a result and does not")
    (folder / "result.json").unlink()
    (folder / "state.json").unlink()
    refused(invoke(f"result {run} --wait"), "has no result, it is not submitted")
    refused(invoke(f"cancel {run}"), "is not submitted: there is nothing to cancel")


def test_runs__lists_the_latest_first_of_the_folder_that_is_given(submit, queues, invoke, here):
    assert invoke("runs").stderr.startswith("no runs yet")
    queues.answer("sbatch", out="17\n")
    names = [submit(options="--detach --runs mine").stdout.strip() for _ in range(2)]
    listed = [text.split()[0] for text in invoke("runs --runs mine").stdout.splitlines()]
    assert listed == ["run", *sorted(names, reverse=True)]
    assert not folders(here)


BAD_COMMANDS = {
    "": "give a test to submit, got nothing",
    f"plan data.zarr {PAIR}": "got 'plan'",
    "'rm -rf /'": "got 'rm -rf /'",
    "test": "Missing argument 'DATA'",
    "test data.zarr --variable x": "two or more",
    f"test data.zarr {PAIR} --alpha 2": "less than 1",
    f"test {URL} {PAIR} --estimator v-hsic --landmarks 9": "--landmarks goes with",
    f"test nowhere.zarr {PAIR}": "check the path",
    f"test s3://me:secret@bucket/x.zarr {PAIR}": "no password or signature",
    **{
        f"test data.zarr {PAIR} {option}": f"{option.split()[0]} cannot be given to a test"
        for option in (
            *("--json o.json", "--log-json -", "--performance-report o", "--threads 2"),
            *("--workers 2", "--scheduler tcp://127.0.0.1:1", "--scheduler-file x", "--tls-ca c"),
            *("--insecure", "--cluster x.yaml", "--memory 1GiB"),
        )
    },
}
BAD_SPECS = {
    "kind: [": "must be YAML",
    "kind: pbs\nworkers: 2": "needs a cluster of the kind slurm",
    "kind: slurm\nworker: 2": "did you mean 'workers'?",
    "kind: slurm\nworkers: 2\nslurm: {queue: $(id)}": "queue must be",
    'kind: slurm\nworkers: 2\nslurm: {queue: "a\\n#SBATCH -x"}': "queue must be",
    "kind: slurm\nworkers: 2\nslurm: {queue: a%j}": "partition of a job must be of",
    "kind: slurm\nworkers: 2\nslurm: {walltime: soon}": "walltime must be",
}


@pytest.mark.parametrize("command", BAD_COMMANDS)
def test_command__that_cannot_run_is_not_submitted(command, submit, queues, here):
    queues.answer("sbatch", out="17\n")
    refused(submit(command), BAD_COMMANDS[command].split(",")[0])
    assert not queues.calls("sbatch")
    assert not folders(here)


@pytest.mark.parametrize("text", BAD_SPECS)
def test_spec__that_cannot_be_is_not_submitted(text, submit, queues, here):
    queues.answer("sbatch", out="17\n")
    (here / "slurm.yaml").write_text(text)
    refused(submit(), BAD_SPECS[text])
    assert not queues.calls("sbatch")
    assert not folders(here)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "sbatch is needed and cannot be started"),
        ({"code": 1, "err": "sbatch: error: a\n"}, "exit code 1: sbatch: error"),
        ({"out": "Submitted batch job 17\n"}, "must answer with the number of a job"),
    ],
)
def test_queue__that_refuses_leaves_nothing(answer, words, submit, queues, here, monkeypatch):
    if answer is not None:
        queues.answer("sbatch", **answer)
    refused(submit(), words)
    assert not folders(here)
    monkeypatch.setattr(tools, "_SECONDS", 0.2)
    queues.programs.joinpath("sbatch").write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    queues.programs.joinpath("sbatch").chmod(0o755)
    refused(submit(), "sbatch did not answer within 0.2 s: try again later")
    refused(submit(options="--runs 'my runs'"), "--runs must be a path of plain characters")
    assert not folders(here)


def test_job__whose_folder_is_lost_is_cancelled(submit, queues, here, monkeypatch):
    def refuse(path, target):
        raise OSError(28, "No space left on device")

    queues.answer("sbatch", out="17\n")
    queues.answer("scancel")
    monkeypatch.setattr("pathlib.Path.replace", refuse)
    refused(submit(), "state.json: No space left on device")
    assert queues.calls("scancel")[0][0] == ["17"]


@pytest.mark.parametrize("name", ["run.json", "cluster.yaml", "state.json"])
def test_run__that_cannot_be_read_is_told(name, run_of_slurm, invoke):
    run, folder = run_of_slurm
    (folder / name).write_text("kind: [")
    for command in ("status", "result", "cancel"):
        refused(invoke(f"{command} {run}"), f"run {run} cannot be read: remove {folder}")


def daskjob(status):
    return json.dumps({"kind": "DaskJob", "status": {"jobStatus": status}})


def pod(name, component, reason):
    status = {"containerStatuses": [{"state": {"waiting": {"reason": reason, "message": ""}}}]}
    labels = {"dask.org/component": component}
    return json.dumps({"items": [{"metadata": {"name": name, "labels": labels}, "status": status}]})


def test_kubernetes__applies_what_it_renders_where_the_file_says(run_of_pods, submit, queues):
    printed = submit(f"test {URL} {PAIR}", "kubernetes", "--render-only").stdout
    ((called, given),) = queues.calls("kubectl")
    assert called == ["--context=c", "--namespace=lab", "apply", "--filename=-"]
    assert IDENTITY.sub("ID", given) == IDENTITY.sub("ID", printed)
    job, _ = yaml.safe_load_all(given)
    assert (job["kind"], job["metadata"]["name"]) == ("DaskJob", f"dhsic-{run_of_pods[0]}")


def test_kubernetes__follows_the_log_of_the_pod(run_of_pods, queues, invoke, result_text):
    run, folder = run_of_pods
    queues.answer("kubectl", "get", "pods", out='{"items": []}')
    queues.answer("kubectl", "get", "daskjob", f"dhsic-{run}", out=daskjob("ClusterCreated"))
    assert "state      waiting\n" in invoke(f"status {run}").stdout
    queues.answer("kubectl", "get", "daskjob", out=daskjob("Running"))
    log = f"a warning\n{block('kernel sums', 100)}"
    queues.answer("kubectl", "logs", f"pod/dhsic-{run}-runner", "--container=dhsic", out=log)
    assert "progress   kernel sums, 100 of 300 rows\n" in invoke(f"status {run}").stdout
    queues.answer("kubectl", "logs", out=f"{log}table\n\n{RESULT}\n{result_text[:100]}")
    refused(invoke(f"result {run}"), "it is running")
    whole = f"{log}table\n\n{RESULT}\n{result_text}"
    queues.answer("kubectl", "logs", out=whole)
    queues.answer("kubectl", "get", "daskjob", out=daskjob("Successful"))
    assert json.loads(invoke(f"result {run} --json").stdout) == json.loads(result_text)
    assert (folder / "job.log").read_text() == whole


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("ErrImagePull", "name an image that the nodes can pull"),
        ("CrashLoopBackOff", "see 'kubectl logs --previous p'"),
    ],
)
def test_kubernetes__says_what_keeps_a_pod_from_running(reason, words, run_of_pods, queues, invoke):
    run, _ = run_of_pods
    queues.answer("kubectl", "get", "daskjob", out=daskjob("ClusterCreated"))
    queues.answer("kubectl", "logs", out="")
    queues.answer("kubectl", "get", "pods", out=pod("p", "worker", reason))
    shown = invoke(f"status {run}").stdout
    assert f"trouble    pod p: {reason}" in shown
    assert words in shown


def test_kubernetes__says_why_a_run_failed(run_of_pods, queues, invoke):
    run, _ = run_of_pods
    queues.answer("kubectl", "get", "pods", out='{"items": []}')
    queues.answer("kubectl", "get", "daskjob", out=daskjob("Failed"))
    gone = f'Error from server (NotFound): pods "dhsic-{run}-runner" not found\n'
    queues.answer("kubectl", "logs", code=1, err=gone)
    assert f"its pod dhsic-{run}-runner is gone" in invoke(f"status {run}").stdout
    queues.answer("kubectl", "logs", out=line("error", message="no such bucket"))
    refused(invoke(f"result {run}"), "failed: no such bucket")


def test_kubernetes__cancel_deletes_all_objects_of_the_run(run_of_pods, queues, invoke):
    run, _ = run_of_pods
    queues.answer("kubectl", "get", out="{}")
    queues.answer("kubectl", "delete", out="deleted\n")
    assert invoke(f"cancel {run}").exit_code == 0
    words = queues.calls("kubectl")[-1][0]
    assert words[2:4] == ["delete", "daskjob,daskautoscaler,networkpolicy"]
    assert words[-1] == f"--selector=app.kubernetes.io/instance=dhsic-{run}"


BAD_FOR_PODS = {
    (f"test songs.zarr {PAIR}", "{}"): "DATA must be a URL",
    (f"test {URL} {PAIR} --checkpoint here", "{}"): "--checkpoint must be a URL",
    (f"test {URL} {PAIR}", "{kubernetes: {image: 'dhsic:1'}}"): "must be encrypted",
    (f"test {URL} {PAIR}", "{kubernetes: {}}"): "must have the key 'image'",
    (f"test {URL} {PAIR}", "{}"): "no matches for kind",
}


@pytest.mark.parametrize(("command", "change"), BAD_FOR_PODS)
def test_kubernetes__leaves_nothing_of_what_is_refused(command, change, submit, queues, here):
    spec = {**KUBERNETES, **yaml.safe_load(change)}
    (here / "kubernetes.yaml").write_text(yaml.safe_dump(spec))
    queues.answer("kubectl", "apply", code=1, err='error: no matches for kind "DaskJob" in version')
    queues.answer("kubectl", "delete")
    words = BAD_FOR_PODS[command, change]
    refused(submit(command, "kubernetes"), "operator" if "no matches" in words else words)
    assert not folders(here)
