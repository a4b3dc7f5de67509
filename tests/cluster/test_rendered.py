"""Descriptions of clusters rendered to text: scripts of jobs, manifests and their network policies.

The scripts are those that `dhsic submit slurm` and `connect` hand to a queue, the manifests those
of `dhsic submit kubernetes`. None of the queues is needed.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dhsic.cluster import ClusterSpec, connect
from dhsic.errors import ClusterError
from tests.cluster.certificates import make_tls
from tests.cluster.rendering import (
    HOSTILE,
    PAIR,
    URL,
    expanded,
    rendered,
    slurm_script,
    submitted,
)

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
WORDS = st.text(
    st.characters(exclude_characters="\0\x1b", exclude_categories=("Cs",)), max_size=40
).filter(lambda word: "://" not in word)


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


def check_executed(words, tmp):
    """A program in place of Python writes down how the script calls it."""
    recorder = tmp / "it's a $(python)"
    code = "import json, os, sys; print(json.dumps([os.getcwd(), sys.argv[1:]]))"
    recorder.write_text(f"#!{sys.executable} -I\n{code}\n")
    recorder.chmod(0o755)
    place = tmp / "a 'b' $(touch pwned)\nc"
    place.mkdir(exist_ok=True)
    options = [word for value in words for word in ("--variable", value)]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        script = slurm_script(tmp, *options, python=str(recorder))
    done = subprocess.run(
        ["bash", "-s"], input=script.encode(), capture_output=True, check=True, cwd=tmp, timeout=30
    )
    assert done.stderr == b""
    where, called = json.loads(done.stdout)
    assert where == str(place)
    assert called[:3] == ["-m", "dhsic", "test"]
    assert called[11:] == [URL, *PAIR, *options]
    assert not list(tmp.rglob("pwned"))


def test_slurm__script_carries_hostile_words_unchanged(tmp_path):
    check_executed(HOSTILE, tmp_path)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(words=st.lists(WORDS, max_size=5))
def test_slurm__script_carries_any_words_unchanged(words, tmp_path_factory):
    check_executed(words, tmp_path_factory.mktemp("any"))


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
HEADS = {
    "slurm": """\
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
""",
    "pbs": """\
#PBS -N dhsic-worker
#PBS -q main
#PBS -A science
#PBS -l select=1:ncpus=3:mem=1511MB
#PBS -l walltime=26:03:04
#PBS -o /dev/null
#PBS -e /dev/null
#PBS --constraint=avx2
""",
    "lsf": """\
#BSUB -J dhsic-worker
#BSUB -q main
#BSUB -P "science"
#BSUB -n 3
#BSUB -R "span[hosts=1]"
#BSUB -M 1584225
#BSUB -W 26:04
#BSUB -o /dev/null
#BSUB -e /dev/null
#BSUB --constraint=avx2
""",
    "sge": """\
#$ -N dhsic-worker
#$ -q main
#$ -P science
#$ -l h_rt=26:03:04
#$ -cwd
#$ -j y
#$ -o /dev/null
#$ --constraint=avx2
""",
}
BODY = """\
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


@pytest.mark.parametrize("kind", HEADS)
def test_connect__hands_a_script_to_the_queue(kind, job_script, tmp_path):
    tls = make_tls(tmp_path)
    script = job_script(kind, tls={"ca": tls.ca, "cert": tls.cert, "key": tls.key})
    assert script == f"#!/usr/bin/env bash\n\n{HEADS[kind]}{BODY}"


CHANGES = {
    "queue": (None, "-p main", ""),
    "account": (None, "-A science", ""),
    "name": ("mine", "-J dhsic-worker", "-J mine"),
    "walltime": ("00:10:00", "--lifetime 93184s", "--lifetime 510s"),
    "interface": (None, "--interface lo", ""),
    "log_directory": ("/tmp", "-o /dev/null", "-o /tmp/dhsic-worker-%J.out"),
    "local_directory": ("/s '$(id)'", "/scratch/my", shlex.quote("/s '$(id)'")),
    "prologue": (["echo hello"], "ulimit", "\necho hello\n"),
    "directives": ([], "--constraint=avx2", ""),
    "python": (None, "/opt/my", f"\n{shlex.quote(sys.executable)} -m "),
}


@pytest.mark.parametrize("name", CHANGES)
def test_connect__script_follows_the_description(name, job_script):
    value, before, after = CHANGES[name]
    changed = job_script("slurm", {name: value})
    assert before in HEADS["slurm"] + BODY
    assert before not in changed
    assert after in changed


def test_connect__makes_certificates_that_no_one_else_reads_and_deletes_them(
    job_script, tmp_path, monkeypatch
):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert "--tls-key TLS/home/.dhsic-" in job_script()
    assert (tmp_path / "modes").read_text() == "600\n600\n"
    assert list(home.iterdir()) == []
    shared = tmp_path / "shared"
    shared.mkdir()
    assert "--tls-key TLS/shared/.dhsic-" in job_script("slurm", {"shared_directory": str(shared)})
    assert list(shared.iterdir()) == []


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


def pods(documents):
    """Descriptions of the pods of the scheduler, of a worker and of the test, by name."""
    body = documents[0]["spec"]
    cluster = body["cluster"]["spec"]
    found = (cluster["scheduler"]["spec"], cluster["worker"]["spec"], body["job"]["spec"])
    return dict(zip(("scheduler", "worker", "dhsic"), found, strict=True))


def containers(documents):
    return {name: pod["containers"][0] for name, pod in pods(documents).items()}


def test_kubernetes__manifest_is_the_file_of_the_examples(manifests):
    text = "".join(
        line
        for line in (DEPLOY / "daskjob.yaml").read_text().splitlines(keepends=True)
        if not line.startswith("#")
    )
    described = yaml.safe_load((DEPLOY / "cluster.yaml").read_text())
    checkpoint = ("--checkpoint", "s3://bucket/checkpoints/songs")
    ours = yaml.safe_dump_all(manifests(described, *checkpoint))
    words = yaml.safe_dump_all(yaml.safe_load_all(text.replace("dhsic-songs", "dhsic-ID")))
    plain = ours.replace(yaml.safe_dump(URL).split("\n")[0], "s3://bucket/songs.zarr")
    plain = plain.replace("x=features[:, 0:12]", "features").replace("'features'", "features")
    assert plain == words


def test_kubernetes__fixed_and_adaptive_clusters(manifests):
    fixed, policy = manifests(description(workers=3))
    assert policy["kind"] == "NetworkPolicy"
    cluster = fixed["spec"]["cluster"]["spec"]
    assert cluster["worker"]["replicas"] == 3
    ports = [port["name"] for port in cluster["scheduler"]["service"]["ports"]]
    assert ports == ["tcp-comm"], "the dashboard is its own"
    scheduler = containers([fixed])["scheduler"]
    assert "--dashboard-address=127.0.0.1:8787" in scheduler["args"]
    adaptive, _, scaler = manifests(description(workers={"minimum": 2, "maximum": 5}))
    assert adaptive["spec"]["cluster"]["spec"]["worker"]["replicas"] == 2
    assert scaler["spec"] == {"cluster": "dhsic-ID", "minimum": 2, "maximum": 5}
    scheduler = containers([adaptive])["scheduler"]
    assert "--dashboard-address=0.0.0.0:8787" in scheduler["args"]
    assert "scheduler.api" in str(scheduler["env"])


def test_kubernetes__pods_have_what_the_description_says(manifests):
    section = {
        "resources": {"limits": {"memory": "9Gi", "example.com/gpu": "1"}},
        "secrets": ["storage"],
        "namespace": "lab",
        "service_account": "reader",
    }
    plain = manifests(description(threads=3, memory="4GiB"))
    worker = containers(plain)["worker"]
    limits = worker["resources"]["limits"]
    (limit,) = (int(x.split("=")[1]) for x in worker["args"] if x.startswith("--memory-limit="))
    assert "--nthreads=3" in worker["args"]
    assert limits["cpu"] == "3"
    assert 4 * 2**30 < limit < int(limits["memory"].removesuffix("Mi")) * 2**20
    assert containers(plain)["dhsic"]["resources"]["limits"] == {**limits, "cpu": "1"}
    assert "namespace" not in plain[0]["metadata"]
    full = manifests(description(section, workers={"maximum": 2}))
    assert {document["metadata"]["namespace"] for document in full} == {"lab"}
    assert {pod["serviceAccountName"] for pod in pods(full).values()} == {"reader"}
    found = containers(full)
    own = {"cpu": "1", "memory": "9Gi", "example.com/gpu": "1"}
    assert found["worker"]["resources"]["limits"] == own
    assert "9Gi" not in str(found["scheduler"])
    reference = [{"secretRef": {"name": "storage"}}]
    assert found["worker"]["envFrom"] == found["dhsic"]["envFrom"] == reference
    assert "envFrom" not in found["scheduler"]


def test_kubernetes__every_pod_is_locked_down(manifests):
    for pod in pods(manifests(description())).values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert set(container["resources"]["limits"]) == {"cpu", "memory"}
        assert {"name": "OPENBLAS_NUM_THREADS", "value": "1"} in container["env"]
        (scratch,) = (one for one in pod["volumes"] if one["name"] == "scratch")
        memory = container["resources"]["limits"]["memory"]
        assert scratch["emptyDir"] == {"sizeLimit": memory}, "what spills fills no disk"
    assert pods(manifests(description()))["dhsic"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(("given", "seconds"), [({}, 600), ({"timeout": 30}, 30)])
def test_kubernetes__the_test_waits_for_the_scheduler_of_the_pods(given, seconds, manifests):
    container = containers(manifests(description(memory="4GiB", **given)))["dhsic"]
    inside = ClusterSpec.from_dict(yaml.safe_load(container["args"][4]))
    assert (inside.kind, inside.memory, inside.timeout) == ("scheduler", 4 * 2**30, seconds)


def test_kubernetes__encryption_is_left_out_only_where_that_is_allowed(manifests, tmp_path):
    refused = submitted("kubernetes", description({"tls_secret": None}), tmp_path)
    assert refused.exit_code == 2
    assert "must be encrypted" in refused.stderr
    body = manifests(description({"tls_secret": None}, insecure=True))
    assert "tls" not in str(body)
    assert "REQUIRE_ENCRYPTION" not in str(body)
    assert "tcp://dhsic-ID-scheduler:8786" in str(body)
    assert yaml.safe_load(containers(body)["dhsic"]["args"][4])["insecure"] is True


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


# --- who reaches the pods of a cluster, and whom they reach, by the rules of Kubernetes

OPERATOR = {"app.kubernetes.io/name": "dask-kubernetes-operator"}
OWN = {"dask.org/cluster-name": "dhsic-ID"}
LAB = {"namespace": "lab"}
ADAPTIVE = {"minimum": 1, "maximum": 4}


@dataclass(frozen=True)
class Peer:
    """A pod, or an address outside of the cluster."""

    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    address: str = ""


def is_selected(selectors, peer, namespace):
    """Whether one entry of `from` or `to` is about a peer."""
    if "ipBlock" in selectors:
        block = ip_network(selectors["ipBlock"]["cidr"])
        return bool(peer.address) and ip_address(peer.address) in block
    wanted = selectors.get("podSelector", {}).get("matchLabels", {})
    if not peer.namespace or not wanted.items() <= peer.labels.items():
        return False
    names = selectors.get("namespaceSelector", {}).get("matchLabels")
    return peer.namespace == (names or {"kubernetes.io/metadata.name": namespace}).get(
        "kubernetes.io/metadata.name"
    )


def is_allowed(documents, way, peer, port, protocol="TCP"):
    (policy,) = (one for one in documents if one["kind"] == "NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    namespace, end = policy["metadata"]["namespace"], {"ingress": "from", "egress": "to"}[way]
    wanted = {"protocol": protocol, "port": port}
    return any(
        ("ports" not in rule or wanted in rule["ports"])
        and (end not in rule or any(is_selected(one, peer, namespace) for one in rule[end]))
        for rule in policy["spec"][way]
    )


@pytest.fixture(params=["fixed", "adaptive", "without the operator"])
def policy(request, manifests):
    """Documents with a policy, labels of the pods, and their namespace."""
    if request.param == "without the operator":
        documents = yaml.safe_load_all((DEPLOY / "deployment.yaml").read_text())
        return list(documents), {"app.kubernetes.io/name": "dhsic"}, "dhsic"
    workers = 2 if request.param == "fixed" else ADAPTIVE
    return manifests(description(LAB, workers=workers)), OWN, "lab"


def test_policy__pods_are_reached_from_their_cluster_and_reach_names_and_storage(policy):
    documents, own, namespace = policy
    store = Peer(address="203.0.113.7")
    names = Peer("kube-system", {"k8s-app": "kube-dns"})
    strangers = [
        Peer(namespace, {"dask.org/cluster-name": "other", "app.kubernetes.io/name": "other"}),
        Peer("elsewhere", {**own, **OPERATOR}),
        store,
    ]
    for port in (8786, 8787, 40_000):
        assert is_allowed(documents, "ingress", Peer(namespace, own), port)
        assert not any(is_allowed(documents, "ingress", peer, port) for peer in strangers)
    assert is_allowed(documents, "egress", Peer(namespace, own), 40_000)
    assert is_allowed(documents, "egress", store, 443)
    for protocol in ("UDP", "TCP"):
        assert is_allowed(documents, "egress", names, 53, protocol)
        assert is_allowed(documents, "egress", Peer(address="169.254.20.10"), 53, protocol)
        assert not is_allowed(documents, "egress", store, 53, protocol)
        assert not is_allowed(documents, "egress", Peer("elsewhere", names.labels), 53, protocol)
    metadata = Peer(address="169.254.169.254")
    for port in (22, 80, 6443, 8786):
        for peer in (store, Peer("elsewhere", own), metadata):
            assert not is_allowed(documents, "egress", peer, port)


def test_policy__follows_the_description(manifests):
    operator, moved = Peer("dask-operator", OPERATOR), Peer("tools", OPERATOR)
    for workers, way in ((ADAPTIVE, True), (2, False)):
        documents = manifests(description(LAB, workers=workers))
        assert is_allowed(documents, "ingress", operator, 8787) is way
        assert not is_allowed(documents, "ingress", operator, 8786)
        assert not is_allowed(documents, "ingress", Peer("dask-operator"), 8787)
    section = {**LAB, "operator_namespace": "tools", "storage_ports": [9000]}
    documents = manifests(description(section, workers=ADAPTIVE))
    assert is_allowed(documents, "ingress", moved, 8787)
    assert not is_allowed(documents, "ingress", operator, 8787)
    store, metadata = Peer("minio", {"app": "minio"}), Peer(address="169.254.169.254")
    assert is_allowed(documents, "egress", store, 9000)
    assert not is_allowed(documents, "egress", store, 443)
    assert not is_allowed(documents, "egress", metadata, 80)
    reader = manifests(description({**LAB, "service_account": "reader"}))
    assert is_allowed(reader, "egress", metadata, 80)
