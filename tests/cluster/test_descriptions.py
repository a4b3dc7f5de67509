"""The description of a cluster: what a file may hold, and what is refused in a line."""

import dataclasses

import pytest

from dhsic.cluster import TLS, Adaptive, ClusterSpec, JobQueue, SchedulerAt
from dhsic.errors import InvalidArgumentError

FULL = {
    "local": "{workers: 3, threads: 2, memory: 1GB",
    "scheduler": "{memory: 1GB, timeout: 7, tls: {ca: /t/ca, cert: /t/cert, key: /t/key},"
    " insecure: true, scheduler: {scheduler_file: /t/s.json}",
    "slurm": "{workers: {minimum: 2, maximum: 9}, threads: 4, memory: 4GiB, timeout: 1.5,"
    " tls: {ca: /t/ca, cert: /t/cert, key: /t/key}, insecure: true,"
    " slurm: {queue: no, account: 0123, name: n, walltime: 1:30:00, interface: ib0, host: login1,"
    " log_directory: /t/logs, local_directory: /scratch, shared_directory: /t/shared,"
    " prologue: [module load python, ulimit -c 0], directives: [--constraint=avx2],"
    " python: /opt/python}",
    "kubernetes": "{workers: 2, insecure: true, kubernetes: {image: registry/dhsic:1.0,"
    " namespace: science, service_account: reader, secrets: [s3], tls_secret: tls,"
    " resources: {limits: {cpu: '2'}, requests: {memory: 2Gi}}, context: production,"
    " operator_namespace: tools, storage_ports: [443, 9000]}",
    "gateway": "{workers: {maximum: 4}, insecure: true, gateway:"
    " {address: https://gateway.example.org, auth: basic, image: i, options: {cores: 2}}",
}


@pytest.fixture
def read(tmp_path):
    def spec(text):
        path = tmp_path / "cluster.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return ClusterSpec.read(path)

    return spec


@pytest.mark.parametrize("kind", FULL)
def test_spec__survives_plain_values_and_loses_nothing(kind, read):
    spec = read(f"{FULL[kind]}, kind: {kind}}}")
    plain = spec.to_dict()
    assert ClusterSpec.from_dict(plain) == spec
    for name in plain.get(kind, {}).keys() - {"image", "address"}:
        less = {**plain, kind: {k: v for k, v in plain[kind].items() if k != name}}
        if less[kind]:
            assert ClusterSpec.from_dict(less) != spec, name


def test_read__takes_words_as_they_look(read):
    spec = read(FULL["slurm"] + ", kind: slurm}")
    assert (spec.jobs.queue, spec.jobs.account, spec.jobs.seconds) == ("no", "0123", 5400)
    assert (spec.workers, spec.memory, spec.timeout) == (Adaptive(9, 2), 4 * 2**30, 1.5)
    assert spec.jobs.prologue == ("module load python", "ulimit -c 0")


def test_spec__takes_defaults():
    spec = ClusterSpec.from_dict({"kind": "pbs", "workers": 2})
    assert spec.jobs == JobQueue()
    assert (spec.threads, spec.memory, spec.patience, spec.insecure) == (1, 2**31, 600.0, False)
    found = ClusterSpec("scheduler", scheduler=SchedulerAt("tcp://127.0.0.1:1"))
    assert (found.answer_seconds, found.patience) == (10.0, 60.0)
    asked = dataclasses.replace(found, timeout=90)
    assert (asked.answer_seconds, asked.patience) == (90.0, 90.0)


def test_read__paths_are_relative_to_its_folder(read, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    spec = read(
        "{kind: slurm, workers: 1, tls: {ca: ca.pem, cert: ../cert.pem, key: ~/key.pem},"
        " slurm: {log_directory: logs, shared_directory: /shared}}"
    )
    cert = str(tmp_path.parent / "cert.pem")
    assert spec.tls == TLS(str(tmp_path / "ca.pem"), cert, "/home/someone/key.pem")
    assert spec.jobs.log_directory == str(tmp_path / "logs")
    assert spec.jobs.shared_directory == "/shared"
    places = "shared_directory: $HOME/x, local_directory: $TMPDIR, python: '${HOME}/bin/python'"
    jobs = read(f"{{kind: slurm, workers: 1, slurm: {{{places}}}}}").jobs
    assert jobs.shared_directory == "/home/someone/x", "which this machine must find too"
    assert (jobs.local_directory, jobs.python) == ("$TMPDIR", "${HOME}/bin/python")


SLURM = {"kind": "slurm", "workers": 1}
CERTIFICATES = {"ca": "a", "cert": "b", "key": "c"}


def slurm(**section):
    return {**SLURM, "slurm": section}


def kubernetes(**section):
    return {"kind": "kubernetes", "workers": 1, "kubernetes": {"image": "i", **section}}


def gateway(address="https://h", **more):
    return {"kind": "gateway", "workers": 1, "gateway": {"address": address, **more}}


def scheduler(*, workers=None, **section):
    described = {"kind": "scheduler", "scheduler": section}
    return described if workers is None else {**described, "workers": workers}


BAD = [
    (None, "a cluster must be a mapping, got None: begin with 'kind: local'"),
    ({"workers": 1}, "kind must be one of 'local', 'scheduler'"),
    ({**SLURM, "wokers": 1}, "has no key 'wokers'; did you mean 'workers'"),
    ({**SLURM, "tls": {"ca": "x"}}, "tls must have the key 'cert'"),
    ({**SLURM, "tls": {**CERTIFICATES, "ca": ""}}, "tls: ca"),
    ({"kind": "local", "tls": CERTIFICATES}, "tls must be left out for the kind local"),
    ({"kind": "slurm"}, "workers must be given for the kind slurm"),
    (scheduler(workers=2, address="tcp://h:1"), "workers must be left out for the kind scheduler"),
    ({**SLURM, "workers": {"minimum": 3, "maximum": 2}}, "at least the"),
    ({**SLURM, "memory": 4}, "memory must be an amount with its unit, got 4: write as 4GiB"),
    ({**SLURM, "memory": "4.5"}, "memory must be an amount with its unit"),
    ({**SLURM, "memory": "lots"}, "such as '2GiB' or 2000000000, got 'lots'"),
    ({**SLURM, "timeout": float("inf")}, "got inf"),
    ({**SLURM, "insecure": "yes"}, "insecure must be True or False"),
    ({"kind": "scheduler"}, "give the section scheduler"),
    (scheduler(address="tcp://h:1", scheduler_file="f"), "got both of them: give one"),
    (slurm(queue="q\n#SBATCH -o x"), "queue must be text in one line"),
    (slurm(walltime="90"), "write HH:MM:SS or D-HH:MM:SS"),
    (slurm(walltime="00:00:00"), "at least 60 seconds"),
    (
        {"kind": "gateway", "workers": 1, "gateway": {"address": "https://h", "auth": "none"}},
        "gateway: auth must be one of 'basic', 'kerberos', 'jupyterhub', got 'none'",
    ),
    (slurm(log_directory="/my logs"), "plain characters"),
    (slurm(prologue=["a\nb"]), "text in one line"),
    ({**kubernetes(), "kubernetes": {}}, "kubernetes must have the key 'image'"),
    ({"kind": "kubernetes", "workers": 1}, "give the section kubernetes"),
    (kubernetes(secrets=[{"KEY": "x"}]), "secrets must be text"),
    (kubernetes(resources={"limits": {"cpu": "two"}}), "write as 2, 500m or 4Gi"),
    (kubernetes(resources={"limits": {"memory": "2Gi"}}), "at least the 2951Mi that a worker asks"),
    (kubernetes(resources={"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}), "2951Mi"),
    (kubernetes(resources={"limits": {"cpu": "500m"}}), "at least the 1 that a worker asks for"),
    (slurm(log_directory="$UNSET/x"), "plain characters"),
    (
        kubernetes(storage_ports=[443, 65536]),
        "must be an integer >= 1 and at most 65,535",
    ),
    (gateway("https://me:pw@h"), "no name or password"),
    (gateway(auth="me:pw"), "without passwords, in auth"),
    (gateway(options={"proxy": "http://me:pw@h"}), "without passwords, in auth or in URLs"),
]


@pytest.mark.parametrize(("description", "words"), BAD)
def test_from_dict__refuses_in_a_line_without_passwords(description, words):
    with pytest.raises(InvalidArgumentError) as caught:
        ClusterSpec.from_dict(description)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "pw" not in str(caught.value)


BAD_FILES = [
    (b"", "must be a mapping, got None"),
    (b"kind: [slurm", "must be YAML, and cannot be read in line"),
    (b"kind: local\nworkers: 2\nworkers: 3", "the key 'workers' is there twice"),
    (b"kind: !!python/object/apply:os.system ['true']", "must be YAML"),
    (b"\xff\xfe\x00", "cannot be read: invalid start byte"),
    (b"#" * (2**20 + 1), "larger than 1 MiB"),
    (b"[" * 500, "must be YAML"),
]


@pytest.mark.parametrize(("content", "words"), BAD_FILES)
def test_read__refuses_in_a_line_and_names_the_file(content, words, read, tmp_path):
    with pytest.raises(InvalidArgumentError) as caught:
        read(content)
    assert str(caught.value).startswith(f"{tmp_path / 'cluster.yaml'}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
