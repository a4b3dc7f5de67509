"""What `connect` asks others for, by stand-ins for them, and what it refuses before it does."""

import json
import os
import sys
from contextlib import nullcontext
from dataclasses import replace
from unittest.mock import MagicMock, call

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from dhsic.cluster import Adaptive, ClusterSpec, Gateway, JobQueue, Kubernetes, connect
from dhsic.errors import ClusterError, InsecureWarning, InvalidArgumentError
from tests.cluster.certificates import make_tls, private_pem
from tests.cluster.rendering import rendered

NOBODY = "tcp://127.0.0.1:9"


def refusal(where, error=InvalidArgumentError, **options):
    with pytest.raises(error) as caught, connect(where, **options):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- job queues

JOBS = ClusterSpec("slurm", 2, timeout=1.0, memory=10**9, jobs=JobQueue(interface="lo"))


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """Programs in place of those of SLURM, which take jobs and never start them."""
    for name, says in {"sbatch": "Submitted batch job 17", "scancel": ""}.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho {name} $* >> {tmp_path}/calls\necho {says}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    return lambda name: (tmp_path / "calls").read_text().count(name)


@pytest.mark.parametrize(("workers", "fewest"), [(3, 3), (Adaptive(7, 2), 2)])
def test_job_queue__gets_the_fewest_jobs_which_are_cancelled_in_the_end(workers, fewest, queue):
    said = refusal(replace(JOBS, workers=workers))
    assert "got none within 1 s: look for its jobs, named dhsic-worker, in the queue" in said
    assert queue("sbatch") == fewest
    assert queue("scancel") >= 1


def test_job_queue__needs_a_folder_for_certificates_and_its_command(queue, monkeypatch, tmp_path):
    for folder in ("/no/folder", "/proc"):
        spec = replace(JOBS, jobs=JobQueue(shared_directory=folder))
        assert "shared_directory must be a folder on all nodes" in refusal(spec)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = refusal(replace(spec, kind="lsf"), ClusterError)
    assert "submitted by 'bsub', which is not on this" in said


# --- Kubernetes and Dask Gateway, whose libraries are played by the cluster of the tests

COUNTS = [(2, None), (Adaptive(5, 2), {"minimum": 2, "maximum": 5})]
PODS = Kubernetes(image="dhsic:1", namespace="science")
KUBERNETES = ClusterSpec("kubernetes", 2, timeout=30.0, insecure=True, kubernetes=PODS)
AT = Gateway("https://gateway.example.org", auth="basic", image="i:1", options={"cores": 2})
GATEWAY = ClusterSpec("gateway", 2, timeout=30.0, gateway=AT)


def of_kubernetes(**changed):
    return replace(KUBERNETES, kubernetes=replace(PODS, **changed))


def at(address):
    return replace(GATEWAY, gateway=replace(AT, address=address))


@pytest.fixture
def kubernetes(monkeypatch, client):
    """The class of the library; what it makes is `adapt`ed in name only."""
    library = MagicMock()
    library.operator.KubeCluster.side_effect = lambda **_: nullcontext(client.cluster)
    library.operator.KubeCluster.adapt = MagicMock()
    monkeypatch.setattr(client.cluster, "adapt", library.operator.KubeCluster.adapt)
    monkeypatch.setitem(sys.modules, "dask_kubernetes", library)
    monkeypatch.setitem(sys.modules, "dask_kubernetes.operator", library.operator)
    return library.operator.KubeCluster


@pytest.mark.parametrize(("workers", "bounds"), COUNTS)
def test_kubernetes__is_asked_for_the_cluster_of_the_manifest(
    workers, bounds, kubernetes, tmp_path
):
    spec = replace(KUBERNETES, workers=workers)
    for _ in range(2):
        with pytest.warns(InsecureWarning, match="not encrypted"), connect(spec) as client:
            assert client.submit(sum, [1, 2]).result(timeout=30) == 3
    described = {**spec.to_dict(), "workers": bounds or {"minimum": 2, "maximum": 2}}
    described["kubernetes"]["context"] = "c"
    document, *_ = yaml.safe_load_all(rendered(described, tmp_path))
    expected, names = json.dumps(document["spec"]["cluster"]["spec"]), set()
    for _, arguments in kubernetes.call_args_list:
        manifest = arguments.pop("custom_cluster_spec")
        assert arguments == {"namespace": "science", "resource_timeout": 30, "quiet": True}
        names.add(manifest["metadata"]["name"])
        ours = expected.replace("dhsic-ID", manifest["metadata"]["name"])
        assert manifest["spec"] == json.loads(ours)
    assert len(names) == 2, "two runs of one user do not meet"
    assert kubernetes.adapt.call_args_list == ([call(**bounds)] * 2 if bounds else [])


@pytest.fixture
def gateway(monkeypatch, client):
    """The library, and the gateway and the cluster that it gives."""
    library = MagicMock()
    opened = library.Gateway.return_value.__enter__.return_value
    opened.cluster_options.return_value = {"cores": 1, "image": "default"}
    cluster = opened.new_cluster.return_value.__enter__.return_value
    cluster.get_client.return_value.__enter__.return_value = client
    monkeypatch.setitem(sys.modules, "dask_gateway", library)
    return library, opened, cluster


@pytest.mark.parametrize("address", [AT.address, "http://127.0.0.1:8000"])
@pytest.mark.parametrize(("workers", "bounds"), COUNTS)
def test_gateway__is_asked_for_a_cluster_that_is_stopped(workers, bounds, address, gateway):
    library, opened, cluster = gateway
    with connect(replace(at(address), workers=workers)) as client:
        assert client.submit(sum, [1, 2], pure=False).result(timeout=30) == 3
        opened.new_cluster.return_value.__exit__.assert_not_called()
    library.Gateway.assert_called_once_with(address=address, auth="basic")
    opened.new_cluster.assert_called_once_with({"cores": 2, "image": "i:1"}, shutdown_on_close=True)
    assert cluster.adapt.call_args_list == ([call(**bounds)] if bounds else [])
    assert cluster.scale.call_args_list == ([] if bounds else [call(2)])
    opened.new_cluster.return_value.__exit__.assert_called_once()
    library.Gateway.return_value.__exit__.assert_called_once()


def test_gateway__refuses_unknown_options_and_repeats_what_it_is_told(gateway):
    _, opened, _ = gateway

    class Options(dict):
        def __setitem__(self, name, value):  # as that of dask-gateway
            msg = f"No option {name!r} available"
            raise KeyError(msg)

    opened.cluster_options.return_value = Options()
    assert "starts no cluster: \"No option 'cores' available" in refusal(GATEWAY, ClusterError)
    opened.cluster_options.side_effect = OSError("401: Unauthorized")
    assert "starts no cluster: 401: Unauthorized" in refusal(GATEWAY, ClusterError)


# --- a scheduler that runs already, and certificates


@pytest.mark.parametrize(
    ("where", "options", "words"),
    [
        ("nowhere", {}, "write protocol, host and port"),
        ("tcp://127.0.0.1", {}, "write protocol, host and port"),
        (NOBODY, {"timeout": 0.2}, "at tcp://127.0.0.1:9: nobody answered within 0.2 s: start"),
        ("tcp://192.0.2.1:8786", {}, "leaves this machine and has no TLS"),
        ("tcp://0.0.0.0:9", {}, "has no TLS"),
        ("tcp://localhost.example.org:9", {}, "has no TLS"),
        ("tcp://127.3.2.1:9", {"timeout": 0.2}, "nobody answered"),
        ("tcp://[::1]:9", {"timeout": 0.2}, "nobody answered"),
        ("tls://127.0.0.1:9", {}, "tls must be given for tls://127.0.0.1:9"),
        (NOBODY, {"memory": 10**9}, "memory must be left out for a scheduler"),
        (1, {"timeout": 5}, "timeout must be left out"),
        (KUBERNETES, {"memory": "1GiB"}, "memory must be left out beside the description"),
        (NOBODY, {"insecure": "yes"}, "insecure must be True or False"),
        (0, {}, "must be an integer >= 1"),
        (1.5, {}, "where must be a place to run"),
        (1, {"memory": "none"}, "'none'"),
        (replace(KUBERNETES, insecure=False), {}, "leaves this machine and has no TLS"),
        (of_kubernetes(tls_secret="t"), {}, "speaks no TLS, got 't': run inside"),
        (of_kubernetes(context="c"), {}, "kubectl config use-context"),
        (at("http://gateway.example.org"), {}, "the way to the gateway at http://gateway"),
    ],
)
def test_connect__refuses(where, options, words):
    assert words in refusal(where, **options)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        *((text, "must be a file of a running") for text in ("", "[]", "{}")),
        ('{"address": "nowhere"}', "write protocol, host and port"),
        (json.dumps({"address": NOBODY}), "at tcp://127.0.0.1:9: nobody answered"),
        (None, "No such file or directory"),
    ],
)
def test_connect__refuses_a_scheduler_file(content, words, tmp_path):
    file = tmp_path / "scheduler.json"
    if content is not None:
        file.write_text(content)
    assert words in refusal(file, timeout=0.5)


OTHER = ec.generate_private_key(ec.SECP256R1())
BAD_FILES = [
    ("ca", None, "No such file or directory"),
    ("cert", "", "Is a directory"),
    ("ca", b"hello", "tls: ca must be a PEM file of certificates"),
    ("cert", b"hello", "a certificate and its own private key"),
    ("key", b"hello", "a certificate and its own private key"),
    ("key", private_pem(OTHER), "key values mismatch"),
    ("key", private_pem(OTHER, b"secret"), "without a passphrase"),
]


@pytest.mark.parametrize(("name", "content", "words"), BAD_FILES)
def test_tls__names_the_file_that_is_wrong(name, content, words, tmp_path):
    path = tmp_path if content == "" else tmp_path / "file.pem"
    if content:
        path.write_bytes(content)
    tls = replace(make_tls(tmp_path / "tls"), **{name: str(path)})
    said = refusal("tls://127.0.0.1:9", tls=tls)
    assert words in said
    assert str(path) in said
    assert "left out for tcp://127.0.0.1:9, which is not encrypted" in refusal(
        NOBODY, tls=make_tls(tmp_path / "tls")
    )
