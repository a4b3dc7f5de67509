"""`dhsic submit` and what follows it, with programs in place of those of queues and kubectl."""

import json
import re

import pytest

from dhsic.cli import submit as module
from tests.cli.queues import queues as queues
from tests.processes import wait_until

XY = "--variable x --variable y"
TEST = f"test data.zarr {XY}"
URL = "test s3://bucket/songs.zarr --variable x --variable y"
KUBERNETES = "{image: 'dhsic:1', tls_secret: tls, context: c, namespace: lab}"
SPECS = {
    **{
        kind: f"kind: {kind}\nworkers: 2\nmemory: 500MiB\n"
        for kind in ("slurm", "pbs", "lsf", "sge", "local")
    },
    "kubernetes": f"kind: kubernetes\nworkers: 2\nkubernetes: {KUBERNETES}\n",
}
# What programs of a queue answer to a job, and to a question for it that waits, runs, or is over.
ANSWERS = {
    "slurm": ("sbatch", "17\n", "squeue", ["PENDING\n", "COMPLETING\n", "\n"], "scancel"),
    "pbs": ("qsub", "17.host\n", "qstat", [f"x\n  job_state = {s}\n" for s in "QRF"], "qdel"),
    "lsf": ("bsub", "Job <17> is submitted\n", "bjobs", ["PEND\n", "RUN\n", "EXIT\n"], "bkill"),
    "sge": (
        *("qsub", "17\n", "qstat"),
        [f"ID prior name\n---\n 17 0.5 dhsic me {state} 11/27\n" for state in ("qw", "r")] + [""],
        "qdel",
    ),
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
    monkeypatch.setattr(module, "_SECONDS_BETWEEN", 0.01)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name, text in SPECS.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    queues.answer("sbatch", out="17\n")
    queues.answer("squeue", out="RUNNING\n")
    queues.answer("kubectl", "apply", out="daskjob.kubernetes.dask.org/dhsic-1 created\n")
    return tmp_path


@pytest.fixture
def submit(here, invoke):
    def run(command=TEST, where="slurm", options=""):
        return invoke(f"submit --cluster {where}.yaml {options} -- {command}")

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


def ends(folder, code=0, output="a table\n", result="{}"):
    """Leave what a job that ended leaves."""
    for name, text in {"output.txt": output, "result.json": result, "exit": f"{code}\n"}.items():
        (folder / name).write_text(text)


@pytest.mark.parametrize("where", [*ANSWERS, "kubernetes"])
def test_queue__gets_what_render_only_prints(where, submit, queues, invoke, here):
    pods = ("kubectl", "", "", [], "kubectl")
    program, said, ask, states, end = ANSWERS.get(where, pods)
    command = URL if where == "kubernetes" else TEST
    printed = submit(command, where, "--render-only")
    assert (printed.exit_code, printed.stderr, folders(here)) == (0, "", [])
    if where != "kubernetes":
        queues.answer(program, out=said)
    run = submit(command, where, "--detach").stdout.strip()
    assert [folder.name for folder in folders(here)] == [run]
    assert folders(here)[0].stat().st_mode & 0o777 == 0o700
    ((called, given),) = queues.calls(program)
    if where == "kubernetes":
        assert called == ["--context=c", "--namespace=lab", "apply", "--filename=-"]
    assert IDENTITY.sub("ID", given) == IDENTITY.sub("ID", printed.stdout)
    queues.answer("kubectl", "get", "daskjob", out="state=ClusterCreated")
    queues.answer("kubectl", "get", "pods", out='{"items": []}')
    queues.answer("kubectl", "delete", out="deleted\n")
    if where != "kubernetes":
        queues.answer(end)
    for state, standing in zip(states, ("waiting", "running"), strict=False):
        queues.answer(ask, out=state)
        assert invoke(f"status {run}").stdout.startswith(f"state      {standing}\n")
    assert invoke(f"cancel {run}").stdout == f"cancelled {run}\n"
    last = queues.calls(end)[-1][0][-1]
    selector = f"--selector=app.kubernetes.io/instance=dhsic-{run}"
    assert last == (selector if where == "kubernetes" else "17.host" if where == "pbs" else "17")
    if where == "kubernetes":
        queues.answer("kubectl", "get", "daskjob", code=1, err='"x" (NotFound)')
        queues.answer("kubectl", "logs", code=1, err='"x" (NotFound)')
    else:
        queues.answer(ask, out=states[-1])
    assert "state      cancelled" in invoke(f"status {run}").stdout
    if where != "kubernetes":
        refused(invoke(f"cancel {run}"), "is cancelled: there is nothing to cancel")


@pytest.mark.parametrize(
    "command",
    [
        *(
            "rank data.zarr --feature x --target y",
            "conditional data.zarr --variable x --variable y",
        ),
        *("two-sample data.zarr --variable x --variable x", "convert table a.csv b.zarr"),
    ],
)
def test_any_command__is_submitted_with_the_options_that_it_has(command, submit):
    done = submit(command, options="--render-only")
    if done.exit_code:  # its own parser knows better what it needs
        assert "Missing option" in done.stderr or "No such option" in done.stderr
        return
    (words,) = (one for one in done.stdout.splitlines() if one.startswith("set -- "))
    assert words.startswith(f"set -- {command.split()[0]}")
    assert ("--cluster" in words) is ("--json" in words) is not command.startswith("convert")


def test_run__is_followed_until_the_result_is_there(submit, queues, here, monkeypatch):
    asked = []

    def tell(_):
        (run,) = folders(here)
        asked.append(run.name)
        if len(asked) == 2:
            queues.answer("squeue", out="RUNNING\n")
            (run / "journal.jsonl").write_text(block("kernel sums", 100))
        elif len(asked) == 3:
            ends(run)

    queues.answer("squeue", code=1, err="Unable to contact slurm controller\n")
    monkeypatch.setattr(module, "sleep", tell)
    done = submit(f"{TEST} --alpha 0.9")
    assert done.exit_code == 0, done.stderr
    assert done.stderr == f"run {asked[0]}, slurm job 17\n"
    assert done.stdout == "a table\n"


def test_status_and_result__are_those_of_the_queue(submit, queues, invoke, here, monkeypatch):
    run = submit(options="--detach").stdout.strip()
    (folder,) = folders(here)
    journal = folder / "journal.jsonl"
    journal.write_text(block("kernel sums", 100) + block("replicates", 200))
    assert "progress   replicates, 200 of 300 rows\n" in invoke(f"status {run}").stdout
    refused(invoke(f"result {run}"), "has no result, it is running")
    monkeypatch.setattr(module, "sleep", lambda _: ends(folder, result='{"n": 3}'))
    assert json.loads(invoke(f"result {run} --wait --json").stdout) == {"n": 3}
    assert invoke(f"result {run}").stdout == "a table\n"
    (folder / "output.txt").unlink()
    refused(invoke(f"result {run}"), "output.txt must hold a result and cannot be read")
    (folder / "exit").unlink()
    queues.answer("squeue", code=1, err="slurm_load_jobs error: Invalid job id specified\n")
    (folder / "job.log").write_text("first\n\nBus error\n\n")
    journal.write_text("")
    assert "reason     Bus error\n" in invoke(f"status {run}").stdout
    journal.write_text(line("error", message="x has NaN in row 3"))
    refused(invoke(f"result {run}"), f"run {run} failed: x has NaN in row 3 (its log is ")
    assert run in invoke("runs").stdout
    later = submit(options="--detach").stdout.strip()
    for text in ("no json", '"a word"'):
        (folder / "run.json").write_text(text)
        refused(invoke(f"status {run}"), f"run {run} cannot be read: remove {folder}")
    assert later in (listed := invoke("runs").stdout)
    assert run not in listed


def test_job__is_asked_for_where_its_cluster_is(submit, queues, invoke):
    queues.answer("sbatch", out="17;east\n")
    run = submit(options="--detach").stdout.strip()
    invoke(f"status {run}")
    assert queues.calls("squeue")[-1][0] == [
        *("--clusters=east", "--noheader", "--format=%T", "--jobs=17")
    ]


# --- sweeps

SWEEP = "--each variable=x,z --each null=shifts,permutation"
ONE = "test data.zarr --variable y"


@pytest.mark.parametrize(
    ("where", "option"),
    [
        ("slurm", ["--parsable", "--array=0-3%2"]),
        ("pbs", ["-J", "0-3%2"]),
        ("lsf", ["-J", "dhsic-ID[1-4]%2"]),
        ("sge", ["-terse", "-t", "1-4", "-tc", "2"]),
    ],
)
def test_sweep__is_one_array_and_one_table(where, option, submit, queues, here, invoke):
    program, said, ask, states, _ = ANSWERS[where]
    queues.answer(program, out=said)
    run = submit(ONE, where, f"{SWEEP} --detach").stdout.strip()
    ((called, _),) = queues.calls(program)
    assert [IDENTITY.sub("ID", word) for word in called] == option
    (folder,) = folders(here)
    queues.answer(ask, out=states[1])
    shown = invoke(f"status {run}").stdout
    assert "tasks      4 waiting\n" in shown
    assert (
        f"command    dhsic submit --each=variable=x,z --each=null=shifts,permutation -- {ONE}\n"
        in shown
    )
    refused(invoke(f"result {run}"), "has no result, it is waiting")
    ends(folder / "0", result='{"pvalue": 0.25, "statistic": 2}')
    ends(folder / "1", code=2)
    (folder / "2" / "turns").write_text("\n")  # and then it was killed
    shown = invoke(f"status {run}").stdout
    assert "state      running\ntasks      1 finished, 1 failed, 1 running, 1 waiting\n" in shown
    queues.answer(ask, out=states[2])
    assert "tasks      1 finished, 3 failed\n" in invoke(f"status {run}").stdout
    table = [line.split() for line in invoke(f"result {run}").stdout.splitlines()]
    assert table[0] == ["variable", "null", "state", "statistic", "p_value"]
    assert table[1] == ["x", "shifts", "finished", "2", "0.25"]
    assert table[2:] == [
        *(["x", "permutation", "failed"], ["z", "shifts", "failed"], ["z", "permutation", "failed"])
    ]
    found = json.loads(invoke(f"result {run} --json").stdout)
    assert found[0]["result"] == {"pvalue": 0.25, "statistic": 2}


def test_sweep__values_stand_where_the_command_says(submit, invoke):
    done = submit("test {file} --variable x --variable y", options="--each file=a.csv,b.csv")
    assert "a.csv" in done.stderr, "which is judged as the command would"
    for where, words in {"slurm": "lost.zarr", "kubernetes": "DATA must be a URL"}.items():
        done = submit(f"test {{data}} {XY}", where, "--each data=lost.zarr,s3://b/b.zarr")
        refused(done, words)
    names = "--each 'variable=x[:, 0];y' --detach"
    run = submit("test s3://b/c.zarr --variable y", options=names).stdout.strip()
    line = "dhsic submit '--each=variable=x[:, 0];y' -- test s3://b/c.zarr --variable y\n"
    assert line in invoke(f"status {run}").stdout
    text = submit(
        "test s3://b/{file} --variable x --variable y",
        options="--render-only --each 'file=a[1, 2].zarr,b.zarr'",
    ).stdout
    assert "'s3://b/a[1, 2].zarr' --variable x" in text
    assert "s3://b/b.zarr --variable x" in text
    assert "--file" not in text


def test_local__sweep_runs_here(submit, invoke, here, queues, monkeypatch):
    monkeypatch.setenv("PATH", f"{queues.programs}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "me@home"))
    done = submit(f"{ONE} --kernel gaussian", "local", "--each variable=x,z --detach")
    assert done.exit_code == 0, done.stderr
    run, (folder,) = done.stdout.strip(), folders(here / "me@home")
    wait_until(lambda: all((folder / k / "exit").exists() for k in "01"), 200, "they do not end")
    found = json.loads(invoke(f"result {run} --json").stdout)
    assert {one["state"] for one in found} == {"finished"}, (folder / "0/error.log").read_text()
    assert found[0]["result"]["pvalue"] <= 1


def test_sweep__of_pbs_has_jobs_that_submitted_themselves(submit, queues, here, invoke):
    queues.answer("qsub", out="17[].host\n")
    run = submit(ONE, "pbs", "--each variable=x,z --detach").stdout.strip()
    (folder,) = folders(here)
    for task, text in (("0", "18.host\n"), ("1", "")):
        (folder / task / ("job" if text else "turns")).write_text(text)
    queues.answer("qstat", "17[].host", code=153, err="qstat: Unknown Job Id 17[].host\n")
    queues.answer("qstat", "18.host", out="job_state = R\n")
    queues.answer("qdel")
    assert "tasks      1 running, 1 failed\n" in invoke(f"status {run}").stdout
    assert invoke(f"cancel {run}").exit_code == 0
    assert [words for words, _ in queues.calls("qdel")] == [["17[].host"], ["18.host"]]


# --- Kubernetes


def test_kubernetes__is_followed_by_its_pods(submit, queues, invoke):
    run = submit(URL, "kubernetes", "--detach").stdout.strip()
    waiting = {"state": {"waiting": {"reason": "ErrImagePull", "message": ""}}}
    pod = {"metadata": {"name": "p", "labels": {"dask.org/component": "worker"}}}
    pods = json.dumps({"items": [{**pod, "status": {"containerStatuses": [waiting]}}]})

    def answer(status, log):
        queues.answer("kubectl", "get", "daskjob", f"dhsic-{run}", out=f"state={status}")
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
    ended = "\n=== output ===\ntable\n\n=== result ===\n{}\n\n=== exit 0 ===\n"
    answer("Successful", f"{block('kernel sums', 100)}words\n{ended}")
    assert invoke(f"result {run}").stdout == "table\n"
    assert json.loads(invoke(f"result {run} --json").stdout) == {}


def test_kubernetes__sweep_is_collected_from_its_pods(submit, queues, invoke):
    command = "test s3://bucket/songs.zarr --variable y"
    run = submit(command, "kubernetes", "--each variable=x,z --detach").stdout.strip()
    index = "batch.kubernetes.io/job-completion-index"
    names = [{"metadata": {"name": f"p{k}", "annotations": {index: str(k)}}} for k in (0, 1)]
    names[0]["status"] = {"phase": "Succeeded"}
    queues.answer("kubectl", "get", "job", f"dhsic-{run}", out="state=1")
    queues.answer("kubectl", "get", "pods", out=json.dumps({"items": names}))
    queues.answer("kubectl", "logs", "--tail=50", out=line("command-started"))
    ended = "\n=== output ===\nt\n\n=== result ===\n{{}}\n\n=== exit {} ===\n"
    queues.answer("kubectl", "logs", "pod/p0", "--tail=-1", out=ended.format(0))
    assert "tasks      1 finished, 1 running\n" in invoke(f"status {run}").stdout
    queues.answer("kubectl", "get", "job", f"dhsic-{run}", out="state=Complete")
    queues.answer("kubectl", "logs", "pod/p1", out=ended.format(1))
    table = [line.split() for line in invoke(f"result {run}").stdout.splitlines()]
    assert table == [["variable", "state"], ["x", "finished"], ["z", "failed"]]


# --- what is refused

SLURM = SPECS["slurm"]
REFUSED = {
    ("", SLURM): "give a command to submit, as",
    ("'rm -rf /'", SLURM): "got 'rm -rf /'",
    ("status x", SLURM): "got 'status'",
    (f"{URL} --estimator v-hsc", SLURM): "'v-hsic'",
    (f"{URL} --estimator v-hsic:n_landmarks=9", SLURM): "got 'n_landmarks=9'",
    (URL.replace("//", "//me:secret@"), SLURM): "no password or signature",
    (f"{TEST} --json o.json", SLURM): "--json cannot be given to a command",
    (f"{TEST} --workers 2", SLURM): "--workers cannot be given to a command",
    (URL.replace("test", "plan"), SLURM): "plan here, with --threads",
    (f"{URL} --plan", SLURM): "plan here, with --threads",
    (f"{URL} --plot out.txt", SLURM): "--plot needs a name that ends in a format",
    (f"{URL} --plot slurm.yaml", SLURM): "slurm.yaml exists: give another name, or --overwrite",
    (TEST, "kind: ["): "must be YAML",
    (TEST, f"{SLURM}slurm: {{options: {{color: red}}}}"): "arguments of dask-jobqueue for slurm",
    (TEST, f'{SLURM}slurm: {{queue: "a\\n#SBATCH -x"}}'): "queue must be",
}


@pytest.mark.parametrize(("command", "spec"), REFUSED)
def test_what_cannot_run__is_not_submitted(command, spec, submit, queues, here):
    (here / "slurm.yaml").write_text(spec)
    refused(submit(command), REFUSED[command, spec])
    assert (queues.calls("sbatch"), folders(here)) == ([], [])


def test_option__that_is_given_twice_is_refused(submit, here):
    refused(submit(options="--cluster sge.yaml"), "--cluster is given twice: give it once")
    assert folders(here) == []


@pytest.mark.parametrize("before", [0, 250, 280, 290])
def test_password__in_a_long_word_is_not_printed(before, submit, here):
    said = submit(f"test {'n' * before}=s3://user:secret@bucket/x.zarr").stderr
    assert ("no password or signature" in said, "secret" in said) == (True, False)
    assert folders(here) == []


@pytest.mark.parametrize("each", ["x", "x=1", "--each", "variable=", "a=1,2 --each a=3,4"])
def test_each__needs_a_name_and_several_values(each, submit, here):
    refused(submit(options=f"--each {each}"), "--each")
    assert folders(here) == []


@pytest.mark.parametrize(
    ("where", "command", "answer", "words"),
    [
        ("slurm", TEST, {"code": 1, "err": "sbatch: error: a\n"}, "exit code 1: sbatch: error"),
        ("slurm", TEST, {"out": "job\n"}, "must answer with the number of a job"),
        ("kubernetes", TEST, {}, "DATA must be a URL"),
        ("kubernetes", f"{URL} --checkpoint here", {}, "--checkpoint must be a URL"),
        ("kubernetes", f"{URL} --report r.html", {}, "drop it; the file of --cluster says"),
        ("kubernetes", URL, {"code": 1, "err": 'no matches for kind "DaskJob" in'}, "operator"),
    ],
)
def test_queue__that_refuses_leaves_nothing(where, command, answer, words, submit, queues, here):
    queues.answer("sbatch" if where == "slurm" else "kubectl", **answer)
    queues.answer("kubectl", "delete")
    refused(submit(command, where), words)
    assert not folders(here)


def test_queue__that_refuses_leaves_nothing_after_ctrl_c(submit, queues, here, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    queues.answer("kubectl", code=1, err="error: a\n")
    monkeypatch.setattr("dhsic.cluster.submit.end_job", interrupted)
    assert submit(URL, "kubernetes").exit_code == 130
    assert not folders(here)
