"""Descriptions of clusters rendered to text: scripts of jobs, and manifests.

The scripts are those that `dhsic submit slurm` and `connect` hand to a queue, the manifests those
of `dhsic submit kubernetes`. None of the queues is needed.
"""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import yaml

from dhsic.cluster import ClusterSpec, connect
from dhsic.errors import ClusterError, InsecureWarning
from tests.cluster.certificates import DEPLOY, make_tls
from tests.cluster.rendering import (
    HOSTILE,
    PAIR,
    URL,
    expanded,
    rendered,
    slurm_script,
    submitted,
)

# --- the script of `dhsic submit slurm`


def test_slurm__script_is_rendered_in_full(tmp_path, monkeypatch):
    place = tmp_path / "my songs"
    place.mkdir()
    monkeypatch.chdir(place)
    script = slurm_script(
        tmp_path,
        queue="long",
        account="lab",
        walltime="1-02:00:00",
        prologue=["module load python", "source env/bin/activate"],
        directives=["--constraint=avx2"],
        python="/opt/py thon/bin/python",
    )
    assert script.replace(str(place), "/home/me/my songs") == (
        "#!/bin/bash\n"
        "#SBATCH --job-name=dhsic-ID\n"
        "#SBATCH --output=/home/me/runs/ID/job.log\n"
        "#SBATCH --open-mode=append\n"
        "#SBATCH --ntasks=1\n"
        "#SBATCH --cpus-per-task=1\n"
        "#SBATCH --mem=4299M\n"
        "#SBATCH --time=1-02:00:00\n"
        "#SBATCH --partition=long\n"
        "#SBATCH --account=lab\n"
        "#SBATCH --signal=B:USR1@60\n"
        "#SBATCH --requeue\n"
        "#SBATCH --constraint=avx2\n"
        "\n"
        "export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1\n"
        "cd -- '/home/me/my songs' || exit 1\n"
        "module load python\n"
        "source env/bin/activate\n"
        "'/opt/py thon/bin/python' -m dhsic test"
        " --cluster /home/me/runs/ID/cluster.yaml"
        " --json /home/me/runs/ID/result.json"
        " --log-json /home/me/runs/ID/journal.jsonl"
        " --checkpoint /home/me/runs/ID/checkpoint"
        " 's3://bucket/songs of '\"'\"'69.zarr'"
        " --variable 'x=features[:, 0:12]' --variable year &\n"
        "test=$!\n"
        "again() {\n"
        '    kill -TERM "$test"\n'
        '    wait "$test"\n'
        "    code=$?\n"
        "    ((code == 130 && ${SLURM_RESTART_COUNT:-0} < 50)) &&\n"
        '        scontrol requeue "$SLURM_JOB_ID"\n'
        '    exit "$code"\n'
        "}\n"
        "trap again USR1\n"
        "trap : TERM\n"
        'wait "$test"\n'
        "code=$?\n"
        '((code == 143)) && { wait "$test"; code=$?; }\n'
        'exit "$code"\n'
    )


def test_slurm__script_leaves_out_what_was_not_asked_for(tmp_path):
    text = slurm_script(tmp_path, "--checkpoint", "mine", walltime="00:02:00")
    assert not re.search("--partition|--account|/checkpoint", text)
    assert text.count("--checkpoint mine") == 1
    assert f"\n{sys.executable} -m dhsic test " in text
    assert "--signal=B:USR1@30\n" in text, "a quarter of a short time"


def test_slurm__script_carries_hostile_words_unchanged(tmp_path, monkeypatch):
    """A program in place of Python writes down how the script calls it."""
    recorder, place = tmp_path / "it's a $(python)", tmp_path / "a 'b' $(touch pwned)\nc"
    code = "import json, os, sys; print(json.dumps([os.getcwd(), sys.argv[1:]]))"
    recorder.write_text(f"#!{sys.executable} -I\n{code}\n")
    recorder.chmod(0o755)
    place.mkdir()
    monkeypatch.chdir(place)
    options = [word for value in HOSTILE for word in ("--variable", value)]
    script = slurm_script(tmp_path, *options, python=str(recorder))
    done = subprocess.run(["bash", "-s"], input=script.encode(), capture_output=True, check=True)
    assert done.stderr == b""
    where, called = json.loads(done.stdout)
    assert where == str(place)
    assert called[:3] == ["-m", "dhsic", "test"]
    assert called[11:] == [URL, *PAIR, *options]
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("runs", ["/my runs", "/runs\n#SBATCH --uid=0", "/$(id)", "/%j", "/é"])
def test_slurm__a_folder_that_no_directive_can_name_is_refused(runs, tmp_path):
    done = submitted("slurm", {"kind": "slurm", "workers": 1}, tmp_path, runs=runs)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert " must be " in done.stderr


# --- the scripts of workers, that `connect` hands to each queue

JOBS = {
    "queue": "main",
    "account": "science",
    "walltime": "1-02:03:04",
    "interface": "lo",
    "local_directory": "/scratch/my $HOME",
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
--local-directory '/scratch/my $HOME' --memory-limit 1315789473B \
--dashboard-address 127.0.0.1:0 --lifetime 93184s --lifetime-stagger 200s \
--interface lo --protocol tls:// \
--tls-ca-file TLS/ca.pem --tls-cert TLS/cert.pem --tls-key TLS/key.pem
"""
SUBMIT = {"slurm": "sbatch", "pbs": "qsub", "lsf": "bsub", "sge": "qsub"}
RECORDS = """#!/bin/sh
cat "${1:-/dev/stdin}" > DIRECTORY/script
stat -c '%a' "$HOME"/.dhsic-*/* > DIRECTORY/modes 2> /dev/null
echo 'error: invalid partition specified' >&2
exit 1
"""


@pytest.fixture
def job_script(tmp_path, monkeypatch):
    """The script of a worker, by a program in place of the queue's, which refuses it."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")

    def script_of(kind="slurm", changed=(), **options):
        program = programs / SUBMIT[kind]
        program.write_text(RECORDS.replace("DIRECTORY", str(tmp_path)))
        program.chmod(0o755)
        section = {k: v for k, v in {**JOBS, **dict(changed)}.items() if v is not None}
        described = {"kind": kind, "workers": 2, "threads": 3, "memory": 10**9, kind: section}
        said = "" if kind == "lsf" else ": error: invalid partition specified"
        with (
            pytest.raises(ClusterError, match=f"{kind} refuses a job{said}"),
            connect(ClusterSpec.from_dict({**described, **options})),
        ):
            pass
        text = (tmp_path / "script").read_text().replace(str(tmp_path), "TLS")
        return re.sub(r"--name \S+", "--name NAME", re.sub(r"(//[\d.]+:)\d+", r"\1PORT", text))

    return script_of


def test_connect__hands_a_script_to_the_queue(job_script, tmp_path):
    tls = make_tls(tmp_path)
    files = {"ca": tls.ca, "cert": tls.cert, "key": tls.key}
    assert job_script("slurm", tls=files) == SCRIPT


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("pbs", ["#PBS -A science", "#PBS -l walltime=26:03:04", "#PBS -e /dev/null"]),
        ("lsf", ['#BSUB -P "science"', "#BSUB -W 26:04", "#BSUB -e /dev/null"]),
        ("sge", ["#$ -P science", "#$ -l h_rt=26:03:04", "#$ -o /dev/null"]),
    ],
)
def test_connect__knows_other_queues(kind, lines, job_script):
    script = job_script(kind)
    assert {*lines} <= {*script.splitlines()}
    assert script.partition("--nthreads")[0].endswith("--name NAME ")


def test_connect__script_of_few_wishes(job_script, tmp_path):
    wishes = dict.fromkeys(JOBS) | {"walltime": "00:10:00", "name": "mine", "log_directory": "/t"}
    with pytest.warns(InsecureWarning, match="workers of slurm is not encrypted"):
        script = job_script("slurm", wishes, insecure=True)
    for absent in ("-p ", "-A ", "--local-directory", "--constraint", "module", "--tls", "/null"):
        assert absent not in script
    for present in ("-J mine\n", "-o /t/mine-%J.out", "--lifetime 510s", "tcp://"):
        assert present in script
    assert f"\n{shlex.quote(sys.executable)} -m distributed.cli.dask_worker " in script


def test_connect__makes_certificates_that_no_one_else_reads_and_deletes_them(
    job_script, tmp_path, monkeypatch
):
    home, shared = tmp_path / "home", tmp_path / "shared"
    home.mkdir()
    shared.mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert "--tls-key TLS/home/.dhsic-" in job_script()
    assert (tmp_path / "modes").read_text() == "600\n600\n"
    assert "--tls-key TLS/shared/.dhsic-" in job_script("slurm", {"shared_directory": str(shared)})
    assert [*home.iterdir(), *shared.iterdir()] == []


# --- manifests of Kubernetes


def description(section=None, **options):
    kubernetes = {"image": "dhsic:1", "tls_secret": "tls", "context": "c", **(section or {})}
    return {"kind": "kubernetes", "workers": 2, "kubernetes": kubernetes, **options}


@pytest.fixture
def manifests(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", os.fspath(tmp_path))  # without kubectl, as inside a pod

    def documents(described, *words):
        text = rendered("kubernetes", described, tmp_path, *words)
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
    documents = str(manifests(described, "--checkpoint", "s3://bucket/checkpoints/songs"))
    variable = documents.replace("features[:, 0:12]", "features").replace("x=features", "features")
    plain = variable.replace(repr(URL), repr("s3://bucket/songs.zarr"))
    assert plain == str([*yaml.safe_load_all(example.replace("dhsic-songs", "dhsic-ID"))])


def test_kubernetes__fixed_cluster_opens_no_dashboard_and_encrypts_unless_that_is_allowed(
    manifests, tmp_path
):
    refused = submitted("kubernetes", description({"tls_secret": None}), tmp_path)
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
    code_of = "import json, sys; json.dump(sys.argv[1:], open('words.json', 'w')); sys.exit({})"
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
    assert done.stdout == ("" if code else "\n=== result ===\n{}")
    called = json.loads((tmp_path / "words.json").read_text())
    assert called[:3] == ["test", "--cluster", f"{tmp_path}/cluster.yaml"]
    assert called[7:] == [URL, *PAIR, *options]
    assert yaml.safe_load((tmp_path / "cluster.yaml").read_text())["kind"] == "scheduler"
    assert not list(tmp_path.rglob("pwned"))
