"""Descriptions of clusters rendered to text: scripts of jobs, and manifests.

The scripts are those that `dhsic submit` and `connect` hand to a queue, the manifests those of
`dhsic submit`. None of the queues is needed.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dhsic import cluster
from dhsic.cluster import ClusterSpec, connect
from dhsic.errors import ClusterError, InsecureWarning
from tests.cluster.certificates import DEPLOY, make_tls
from tests.cluster.rendering import (
    HOSTILE,
    PAIR,
    URL,
    expanded,
    job_script,
    rendered,
    submitted,
)

# --- the script of `dhsic submit`

HEADS = {
    "slurm": [
        *("-J dhsic-ID", "-p long", "-A lab", "-n 1", "--cpus-per-task=1", "--mem=5G"),
        *("-t 26:00:00", "-o /home/me/runs/ID/job.log", "--open-mode=append", "--requeue"),
    ],
    "pbs": [
        *("-N dhsic-ID", "-q long", "-A lab", "-l select=1:ncpus=1:mem=4299MB"),
        *("-l walltime=26:00:00", "-o /home/me/runs/ID/job.log", "-j oe", "-r y"),
    ],
    "lsf": [
        *("-J dhsic-ID", "-q long", '-P "lab"', "-n 1", "-M 4506891", "-W 26:00"),
        *("-o /home/me/runs/ID/job.log", "-r", "-Q 99"),
    ],
    "sge": [
        *("-N dhsic-ID", "-q long", "-P lab", "-l h_rt=26:00:00", "-cwd", "-j y"),
        *("-o /home/me/runs/ID/job.log", "-S /bin/bash", "-r y"),
    ],
}
WORDS = {"slurm": "#SBATCH", "pbs": "#PBS", "lsf": "#BSUB", "sge": "#$"}
AGAIN = {
    "slurm": 'scontrol requeue "$SLURM_JOB_ID"',
    "pbs": 'qsub -v DHSIC_TASK="$task" /home/me/runs/ID/job.sh > "$folder/job"',
    "lsf": "exit 99",
    "sge": "exit 99",
}
TASKS = {
    "slurm": "$SLURM_ARRAY_TASK_ID",
    "pbs": "$PBS_ARRAY_INDEX",
    "lsf": "$((LSB_JOBINDEX - 1))",
    "sge": "$((SGE_TASK_ID - 1))",
}
PLAIN = {"queue": "long", "account": "lab", "walltime": "1-02:00:00"}


@pytest.mark.parametrize("kind", HEADS)
def test_queues__get_a_head_of_their_own_and_the_same_script(kind, tmp_path, monkeypatch):
    place = tmp_path / "my songs"
    place.mkdir()
    monkeypatch.chdir(place)
    script = job_script(
        tmp_path,
        kind=kind,
        **PLAIN,
        prologue=["module load python", "source env/bin/activate"],
        directives=["--constraint=avx2"],
        python="$HOME/py thon/bin/python",
    )
    head, _, body = script.replace(str(place), "/home/me/my songs").partition("\n\n")
    lines = [f"{WORDS[kind]} {option}" for option in [*HEADS[kind], "--constraint=avx2"]]
    assert head.splitlines() == ["#!/usr/bin/env bash", *lines]
    file = (Path(cluster.__file__).parent / "job.sh").read_text().splitlines()
    assert [line for line in body.splitlines() if line not in file] == [
        "cd -- '/home/me/my songs' || exit 1",
        "module load python",
        "source env/bin/activate",
        "task=${DHSIC_TASK:-}",
        "folder=/home/me/runs/ID",
        "set -- test --json /home/me/runs/ID/result.json"
        " --log-json /home/me/runs/ID/journal.jsonl"
        " --checkpoint /home/me/runs/ID/checkpoint"
        " --cluster /home/me/runs/ID/cluster.yaml"
        " 's3://bucket/songs of '\"'\"'69.zarr'"
        " --variable 'x=features[:, 0:12]' --variable year",
        '"$HOME/py thon/bin/python" -m dhsic "$@" > "$folder/output.txt" 2>> "$folder/error.log" &',
        "sleep 93540 &",
        "timer=$!",
        f'    {AGAIN[kind]} && exit "$code"',
    ]


@pytest.mark.parametrize("kind", HEADS)
def test_sweep__is_an_array_of_jobs_of_the_size_of_a_worker(kind, tmp_path):
    each = ("variable=a,b[:, 0:2]", "null=shifts;gamma")
    script = job_script(tmp_path, kind=kind, each=each)
    assert f"task=${{DHSIC_TASK:-{TASKS[kind]}}}\nfolder=/home/me/runs/ID/$task\n" in script
    tasks = [line for line in script.splitlines() if re.match(r"\d\) set -- ", line)]
    chosen = [shlex.split(line.removesuffix(";;"))[3:] for line in tasks]
    variables = [words[words.index("--variable") + 1] for words in chosen]
    assert variables == ["a", "a", "b[:, 0:2]", "b[:, 0:2]"]
    assert [words[words.index("--null") + 1] for words in chosen] == ["shifts", "gamma"] * 2
    for number, words in enumerate(chosen):
        assert words[words.index("--threads") + 1] == "1"
        assert words[words.index("--json") + 1] == f"/home/me/runs/ID/{number}/result.json"
        assert "--cluster" not in words


def test_slurm__script_leaves_out_what_was_not_asked_for(tmp_path):
    leave_out = ["--mem", "--cpus-per-task"]
    text = job_script(tmp_path, "--checkpoint", "mine", walltime="00:02:00", leave_out=leave_out)
    assert not re.search("-p |-A |/checkpoint|--mem|--cpus", text)
    assert text.count("--checkpoint mine") == 1
    assert f'\n{sys.executable} -m dhsic "$@"' in text
    assert "sleep 90 &" in text, "a quarter of a short time"
    options = {"options": {"job_mem": "7G"}, "directives": ["--mem-per-cpu=1G"]}
    assert "--mem=7G\n" in job_script(tmp_path, **options)
    assert "--mem-per-cpu=1G" in job_script(tmp_path, **options, leave_out=leave_out)


def test_slurm__script_carries_hostile_words_unchanged(tmp_path, monkeypatch):
    """A program in place of Python writes down how the script calls it."""
    recorder, place = tmp_path / "it's a python", tmp_path / "a 'b' $(touch pwned)\nc"
    called = tmp_path / "called"
    code = "import json, os, sys; json.dump([os.getcwd(), sys.argv[1:]], open({!r}, 'w'))"
    recorder.write_text(f"#!{sys.executable} -I\n{code.format(str(called))}\n")
    recorder.chmod(0o755)
    place.mkdir()
    monkeypatch.chdir(place)
    options = [word for value in HOSTILE for word in ("--variable", value)]
    runs = tmp_path / "runs"
    (runs / "ID").mkdir(parents=True)
    script = job_script(tmp_path, *options, python=str(recorder), runs=runs)
    done = subprocess.run(["bash", "-s"], input=script.encode(), capture_output=True, check=True)
    assert done.stderr == b""
    assert (runs / "ID" / "exit").read_text() == "0\n"
    where, words = json.loads(called.read_text())
    assert where == str(place)
    assert words[:3] == ["-m", "dhsic", "test"]
    assert words[11:] == [URL, *PAIR, *options]
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("runs", ["/my runs", "/runs\n#SBATCH --uid=0", "/$(id)", "/%j é"])
def test_slurm__a_folder_that_no_directive_can_name_is_refused(runs, tmp_path):
    done = submitted({"kind": "slurm", "workers": 1}, tmp_path, runs=runs)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert " must be " in done.stderr


# --- the scripts of workers, that `connect` hands to each queue

JOBS = {
    "queue": "main",
    "account": "science",
    "walltime": "1-02:03:04",
    "interface": "lo",
    "local_directory": "/scratch/my $TMPDIR",
    "prologue": ["module load python", "ulimit -c 0"],
    "directives": ["--constraint=avx2"],
    "python": "/opt/my python/bin/python",
}
SCRIPT = """\
#!/usr/bin/env bash

#SBATCH -J dhsic-worker
#SBATCH -p main
#SBATCH -A science
#SBATCH -n 1
#SBATCH --cpus-per-task=3
#SBATCH --mem=2G
#SBATCH -t 26:03:04
#SBATCH -o /dev/null
#SBATCH -e /dev/null
#SBATCH --constraint=avx2
export DASK_DISTRIBUTED__WORKER__MEMORY__TARGET=False
export DASK_DISTRIBUTED__WORKER__MEMORY__SPILL=0.85
export DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE=False
export DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE=0.95
export DASK_DISTRIBUTED__WORKER__PROFILE__INTERVAL=100ms
export DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL=200ms
export DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL=2s
export DASK_DISTRIBUTED__NANNY__PRE_SPAWN_ENVIRON='{"OMP_NUM_THREADS": 1, \
"MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1, "MALLOC_TRIM_THRESHOLD_": None}'
module load python
ulimit -c 0
'/opt/my python/bin/python' -m distributed.cli.dask_worker tls://127.0.0.1:PORT \
--name NAME --nthreads 3 --memory-limit 1.48GiB --nanny --death-timeout 60 \
--local-directory "/scratch/my $TMPDIR" --memory-limit 1315789473B \
--dashboard-address 127.0.0.1:0 --lifetime 93184s --lifetime-stagger 200s \
--interface lo --protocol tls:// \
--tls-ca-file TLS/ca.pem --tls-cert TLS/cert.pem --tls-key TLS/key.pem
"""
SUBMIT = {"slurm": "sbatch", "pbs": "qsub", "lsf": "bsub", "sge": "qsub"}
RECORDS = """#!/bin/sh
cat "${1:-/dev/stdin}" > DIRECTORY/script
stat -c '%a' "$HOME"/.dask-jobqueue.* > DIRECTORY/modes 2> /dev/null
echo 'error: invalid partition specified' >&2
exit 1
"""


@pytest.fixture
def worker_script(tmp_path, monkeypatch):
    """The script of a worker, by a program in place of the queue's, which refuses it."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")

    def script_of(kind="slurm", changed=(), **options):
        program = programs / SUBMIT[kind]
        program.write_text(RECORDS.replace("DIRECTORY", str(tmp_path)))
        program.chmod(0o755)
        section = {k: v for k, v in {**JOBS, **dict(changed)}.items() if v is not None}
        described = {"kind": kind, "workers": 2, "threads": 3, "memory": "1GB", kind: section}
        said = "" if kind == "lsf" else ": error: invalid partition specified"
        with (
            pytest.raises(ClusterError, match=f"{kind} refuses a job{said}"),
            connect(ClusterSpec.from_dict({**described, **options})),
        ):
            pass
        text = (tmp_path / "script").read_text().replace(str(tmp_path), "TLS")
        return re.sub(r"--name \S+", "--name NAME", re.sub(r"(//[\d.]+:)\d+", r"\1PORT", text))

    return script_of


def test_connect__hands_a_script_to_the_queue(worker_script, tmp_path):
    tls = make_tls(tmp_path)
    files = {"ca": tls.ca, "cert": tls.cert, "key": tls.key}
    assert worker_script("slurm", tls=files) == SCRIPT


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("pbs", ["#PBS -A science", "#PBS -l walltime=26:03:04", "#PBS -e /dev/null"]),
        ("lsf", ['#BSUB -P "science"', "#BSUB -W 26:04", "#BSUB -e /dev/null"]),
        ("sge", ["#$ -P science", "#$ -l h_rt=26:03:04", "#$ -o /dev/null"]),
    ],
)
def test_connect__knows_other_queues(kind, lines, worker_script):
    script = worker_script(kind)
    assert {*lines} <= {*script.splitlines()}
    assert script.partition("--nthreads")[0].endswith("--name NAME ")


@pytest.mark.parametrize("kind", SUBMIT)
def test_connect__variables_in_paths_are_those_of_the_node(kind, worker_script, tmp_path):
    """Neither those of this machine nor taken literally, as folders of the name $TMPDIR."""
    python = tmp_path / "node" / "my env" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    python.chmod(0o755)
    places = {"python": "${HOME}/my env/python", "local_directory": "$TMPDIR/$USER/of dask"}
    script = worker_script(kind, {**places, "prologue": None})
    assert all(f'"{place}"' in script for place in places.values())
    node = {"HOME": str(tmp_path / "node"), "TMPDIR": "/scratch/job 7", "USER": "me"}
    command = ["bash", str(tmp_path / "script")]
    run = subprocess.run(command, env=node, capture_output=True, text=True, check=True)
    words = run.stdout.splitlines()
    assert words[:2] == ["-m", "distributed.cli.dask_worker"]
    assert words[words.index("--local-directory") + 1] == "/scratch/job 7/me/of dask"


def test_connect__script_of_few_wishes(worker_script, tmp_path):
    wishes = dict.fromkeys(JOBS) | {"walltime": "00:10:00", "name": "mine", "log_directory": "/t"}
    with pytest.warns(InsecureWarning, match="workers of slurm is not encrypted"):
        script = worker_script("slurm", wishes, insecure=True)
    for absent in ("-p ", "-A ", "--local-directory", "--constraint", "module", "--tls", "/null"):
        assert absent not in script
    for present in ("-J mine\n", "-o /t/mine-%J.out", "--lifetime 510s", "tcp://"):
        assert present in script
    assert f"\n{shlex.quote(sys.executable)} -m distributed.cli.dask_worker " in script


def test_connect__makes_certificates_that_no_one_else_reads_and_deletes_them(
    worker_script, tmp_path, monkeypatch
):
    home, shared = tmp_path / "home", tmp_path / "shared"
    home.mkdir()
    shared.mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert "--tls-key TLS/home/.dask-jobqueue." in worker_script()
    assert (tmp_path / "modes").read_text() == "600\n600\n600\n"
    wishes = {"shared_directory": str(shared)}
    assert "--tls-key TLS/shared/.dask-jobqueue." in worker_script("slurm", wishes)
    assert [*home.iterdir(), *shared.iterdir()] == []


# --- manifests of Kubernetes


def description(section=None, **options):
    kubernetes = {"image": "dhsic:1", "tls_secret": "tls", "context": "c", **(section or {})}
    return {"kind": "kubernetes", "workers": 2, "kubernetes": kubernetes, **options}


@pytest.fixture
def manifests(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", os.fspath(tmp_path))  # without kubectl, as inside a pod

    def documents(described, *words, **options):
        text = rendered(described, tmp_path, *words, **options)
        return list(yaml.safe_load_all(text))

    return documents


def containers(documents):
    """Those of the scheduler, of a worker and of the test, by name."""
    body = documents[0]["spec"]
    cluster = body["cluster"]["spec"]
    pods = (cluster["scheduler"]["spec"], cluster["worker"]["spec"], body["job"]["spec"])
    return {container["name"]: container for pod in pods for container in pod["containers"]}


def test_kubernetes__manifest_is_the_file_of_the_examples(manifests):
    example = (DEPLOY / "kubernetes" / "daskjob.yaml").read_text()
    described = yaml.safe_load((DEPLOY / "kubernetes" / "cluster.yaml").read_text())
    documents = manifests(described, "--checkpoint", "s3://bucket/checkpoints/songs")
    (script,) = (one for one in containers(documents)["dhsic"]["args"] if "set -- " in one)
    plain = script.replace(shlex.quote(URL), "s3://bucket/songs.zarr")
    plain = plain.replace(shlex.quote(PAIR[1]), "features")
    containers(documents)["dhsic"]["args"][2] = plain
    assert documents == [*yaml.safe_load_all(example.replace("dhsic-songs", "dhsic-ID"))]


def test_kubernetes__sweep_is_an_indexed_job_without_an_operator(manifests):
    each = ("variable=a,b,c",)
    job, policy = manifests(description(workers={"minimum": 1, "maximum": 2}, threads=3), each=each)
    assert (job["apiVersion"], job["kind"], policy["kind"]) == ("batch/v1", "Job", "NetworkPolicy")
    body = job["spec"]
    assert (body["completionMode"], body["completions"], body["parallelism"]) == ("Indexed", 3, 2)
    assert body["template"]["metadata"]["labels"]["dask.org/cluster-name"] == "dhsic-ID"
    (container,) = body["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["cpu"] == "3"
    script = container["args"][2]
    for number, variable in enumerate("abc"):
        start = rf"^{number}\) set -- test .*--threads 3 --memory 2147483648B"
        assert re.search(f"{start} --variable {variable} .*;;$", script, re.MULTILINE)
    assert "case $$JOB_COMPLETION_INDEX in" in script
    assert "DASK_SCHEDULER_ADDRESS" not in str(container["env"])


def test_kubernetes__fixed_cluster_opens_no_dashboard_and_encrypts_unless_that_is_allowed(
    manifests, tmp_path
):
    refused = submitted(description({"tls_secret": None}), tmp_path)
    assert refused.exit_code == 2
    assert "must be encrypted" in refused.stderr
    job, policy = manifests(description({"tls_secret": None}, insecure=True, workers=3))
    assert not re.search("tls|REQUIRE_ENCRYPTION", str([job, policy]))
    assert "tcp://dhsic-ID-scheduler:8786" in str(job)
    assert yaml.safe_load(containers([job])["dhsic"]["args"][4])["insecure"] is True
    cluster = job["spec"]["cluster"]["spec"]
    assert cluster["worker"]["replicas"] == 3
    assert [port["name"] for port in cluster["scheduler"]["service"]["ports"]] == ["tcp-comm"]
    assert "--dashboard-address=127.0.0.1:8787" in containers([job])["scheduler"]["args"]
    members = {"podSelector": {"matchLabels": {"dask.org/cluster-name": "dhsic-ID"}}}
    assert policy["spec"]["ingress"] == [{"from": [members]}]
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    first, names, storage = policy["spec"]["egress"]
    assert first == {"to": [members]}
    assert {port["port"] for port in names["ports"]} == {53}
    assert storage == {"ports": [{"protocol": "TCP", "port": 443}]}


def test_kubernetes__pods_and_policy_follow_the_description(manifests):
    section = {
        "resources": {"limits": {"memory": "9Gi", "example.com/gpu": "1"}},
        "secrets": ["storage"],
        "namespace": "lab",
        "service_account": "reader",
        "operator_namespace": "tools",
        "storage_ports": [9000],
    }
    workers = {"minimum": 2, "maximum": 5}
    documents = manifests(description(section, workers=workers, threads=3, timeout=30))
    job, policy, scaler = documents
    assert {document["metadata"]["namespace"] for document in documents} == {"lab"}
    assert scaler["spec"] == {"cluster": "dhsic-ID", "minimum": 2, "maximum": 5}
    body = job["spec"]
    pods = [*(body["cluster"]["spec"][x]["spec"] for x in ("scheduler", "worker"))]
    assert {pod["serviceAccountName"] for pod in [*pods, body["job"]["spec"]]} == {"reader"}
    found = containers(documents)
    assert "--nthreads=3" in found["worker"]["args"]
    own = {"cpu": "3", "memory": "9Gi", "example.com/gpu": "1"}
    assert found["worker"]["resources"]["limits"] == own
    assert "9Gi" not in str([found["scheduler"], found["dhsic"]])
    reference = [{"secretRef": {"name": "storage"}}]
    assert found["worker"]["envFrom"] == found["dhsic"]["envFrom"] == reference
    assert "envFrom" not in found["scheduler"]
    assert ClusterSpec.from_dict(yaml.safe_load(found["dhsic"]["args"][4])).timeout == 30
    (operator,) = policy["spec"]["ingress"][1]["from"]
    assert operator["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "tools"}
    assert policy["spec"]["ingress"][1]["ports"] == [{"protocol": "TCP", "port": 8787}]
    _, _, storage, metadata = policy["spec"]["egress"]
    assert storage == {"ports": [{"protocol": "TCP", "port": 9000}]}
    assert {"ipBlock": {"cidr": "169.254.169.254/32"}} in metadata["to"]


@pytest.mark.parametrize("code", [0, 7])
def test_kubernetes__pod_carries_hostile_words_and_prints_the_result(code, manifests, tmp_path):
    options = [word for value in HOSTILE for word in ("--variable", value)]
    container = containers(manifests(description(), *options))["dhsic"]
    environment = {item["name"]: item["value"] for item in container["env"]}
    environment["HOME"] = "/wrong"
    words = [expanded(word, environment) for word in container["args"]]
    words = [word.replace("/tmp/", f"{tmp_path}/") for word in words]
    program = tmp_path / "dhsic"
    code_of = (
        "import json, sys; json.dump(sys.argv[1:], open('words.json', 'w')); print('printed'); "
        "sys.exit({})"
    )
    program.write_text(f"#!{sys.executable} -I\n{code_of.format(code)}\n")
    program.chmod(0o755)
    (tmp_path / "result.json").write_text("{}")
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env={**os.environ, **environment, "PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == code
    assert done.stdout == (
        f"\n=== output ===\nprinted\n\n=== result ===\n{{}}\n=== exit {code} ===\n"
    )
    called = json.loads((tmp_path / "words.json").read_text())
    assert called[0] == "test"
    assert called[called.index("--cluster") + 1] == f"{tmp_path}/cluster.yaml"
    assert called[7:] == [URL, *PAIR, *options]
    assert yaml.safe_load((tmp_path / "cluster.yaml").read_text())["kind"] == "scheduler"
    assert not list(tmp_path.rglob("pwned"))
