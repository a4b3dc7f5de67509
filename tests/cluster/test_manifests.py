"""Manifests of Kubernetes: the whole text, every option, and words that nothing must expand."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dhsic.cluster import ClusterSpec
from dhsic.cluster.settings import process_limit, worker_environment
from dhsic.cluster.submit.manifests import RESULT, cluster_manifests, job_manifests
from dhsic.cluster.submit.quoting import yaml_text
from dhsic.errors import InvalidArgumentError
from tests.cluster.test_render import HOSTILE, expanded

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
COMMAND = (
    "test",
    "s3://bucket/songs.zarr",
    "--variable",
    "features",
    "--variable",
    "year",
    "--checkpoint",
    "s3://bucket/checkpoints/songs",
)


def spec(section: dict[str, Any] | None = None, **options: Any) -> ClusterSpec:
    kubernetes = {"image": "dhsic:1", "tls_secret": "tls", **(section or {})}
    description = {"kind": "kubernetes", "workers": 2, "kubernetes": kubernetes}
    return ClusterSpec.from_dict({**description, **options})


def without_comments(path: Path) -> str:
    lines = path.read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#"))


def job(described: ClusterSpec, command: tuple[str, ...] = COMMAND) -> dict[str, Any]:
    return job_manifests("songs", described, command)[0]["spec"]  # type: ignore[no-any-return]


def containers(described: ClusterSpec) -> dict[str, dict[str, Any]]:
    """The scheduler's, the worker's and the test's, by name."""
    body = job(described)
    cluster = body["cluster"]["spec"]
    pods = [cluster["scheduler"]["spec"], cluster["worker"]["spec"], body["job"]["spec"]]
    return {container["name"]: container for pod in pods for container in pod["containers"]}


def test_job__is_the_file_of_the_examples() -> None:
    example = ClusterSpec.read(DEPLOY / "cluster.yaml")
    rendered = yaml_text(job_manifests("dhsic-songs", example, COMMAND))
    assert rendered == without_comments(DEPLOY / "daskjob.yaml")


def test_cluster__is_the_file_of_the_examples() -> None:
    example = ClusterSpec.read(DEPLOY / "cluster.yaml")
    rendered = yaml_text(cluster_manifests("dhsic", example))
    assert rendered == without_comments(DEPLOY / "daskcluster.yaml")


def test_fixed_cluster__keeps_its_dashboard_to_itself() -> None:
    documents = cluster_manifests("songs", spec(workers=3))
    assert [document["kind"] for document in documents] == ["DaskCluster", "NetworkPolicy"]
    body = documents[0]["spec"]
    assert body["worker"]["replicas"] == 3
    assert [port["name"] for port in body["scheduler"]["service"]["ports"]] == ["tcp-comm"]
    (scheduler,) = body["scheduler"]["spec"]["containers"]
    assert "--dashboard-address=127.0.0.1:8787" in scheduler["args"]
    assert "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES" not in str(scheduler["env"])
    (rule,) = documents[1]["spec"]["ingress"]
    assert rule == {"from": [{"podSelector": {"matchLabels": {"dask.org/cluster-name": "songs"}}}]}


def test_adaptive_cluster__starts_with_the_fewest_workers_and_is_scaled() -> None:
    adaptive = spec(workers={"minimum": 2, "maximum": 5})
    cluster, policy, scaler = cluster_manifests("songs", adaptive)
    assert cluster["spec"]["worker"]["replicas"] == 2
    assert scaler["spec"] == {"cluster": "songs", "minimum": 2, "maximum": 5}
    assert policy["spec"]["ingress"][1]["ports"] == [{"protocol": "TCP", "port": 8787}]


def test_workers__have_the_threads_and_the_memory_of_the_plan() -> None:
    found = containers(spec(threads=3, memory="4GiB"))
    worker = found["worker"]
    assert "--nthreads=3" in worker["args"]
    assert f"--memory-limit={process_limit(4 * 2**30)}" in worker["args"]
    limits = worker["resources"]["limits"]
    assert limits["cpu"] == "3"
    assert int(limits["memory"].removesuffix("Mi")) * 2**20 > process_limit(4 * 2**30)
    assert found["dhsic"]["resources"]["limits"] == {"cpu": "1", "memory": limits["memory"]}
    environment = {item["name"]: item["value"] for item in worker["env"]}
    assert worker_environment().items() <= environment.items()


@pytest.mark.parametrize(("given", "seconds"), [({}, 600), ({"timeout": 30}, 30)])
def test_test__waits_for_the_scheduler_of_the_pods(given: dict[str, Any], seconds: int) -> None:
    container = containers(spec(memory="4GiB", **given))["dhsic"]
    inside = ClusterSpec.from_dict(yaml.safe_load(container["args"][4]))
    assert (inside.kind, inside.memory, inside.timeout) == ("scheduler", 4 * 2**30, seconds)


def test_resources__of_the_user_come_over_ours() -> None:
    given = {"resources": {"limits": {"memory": "9Gi", "example.com/gpu": "1"}}}
    found = containers(spec(given))
    limits = found["worker"]["resources"]["limits"]
    assert limits == {"cpu": "1", "memory": "9Gi", "example.com/gpu": "1"}
    assert "9Gi" not in str(found["scheduler"])


def test_secrets__reach_who_reads_data_only() -> None:
    found = containers(spec({"secrets": ["storage"]}))
    reference = [{"secretRef": {"name": "storage"}}]
    assert found["worker"]["envFrom"] == found["dhsic"]["envFrom"] == reference
    assert "envFrom" not in found["scheduler"]


def test_namespace_and_account__are_those_of_the_section() -> None:
    described = spec({"namespace": "lab", "service_account": "reader"}, workers={"maximum": 2})
    documents = job_manifests("songs", described, COMMAND)
    assert {document["metadata"]["namespace"] for document in documents} == {"lab"}
    assert str(documents[0]).count("'serviceAccountName': 'reader'") == 3
    assert "namespace" not in cluster_manifests("songs", spec())[0]["metadata"]


def test_every_pod__is_locked_down() -> None:
    body = job(spec())
    cluster = body["cluster"]["spec"]
    for pod in (cluster["scheduler"]["spec"], cluster["worker"]["spec"], body["job"]["spec"]):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert set(container["resources"]["limits"]) == {"cpu", "memory"}
        assert {"name": "OPENBLAS_NUM_THREADS", "value": "1"} in container["env"]


def test_a_test_that_fails__is_not_started_again() -> None:
    assert job(spec())["job"]["spec"]["restartPolicy"] == "Never"


def test_encryption__is_left_out_only_where_that_is_allowed() -> None:
    with pytest.raises(InvalidArgumentError, match="must be encrypted"):
        job(spec({"tls_secret": None}))
    body = str(job(spec({"tls_secret": None}, insecure=True)))
    assert "tls" not in body
    assert "REQUIRE_ENCRYPTION" not in body
    assert "tcp://songs-scheduler:8786" in body
    inside = containers(spec({"tls_secret": None}, insecure=True))["dhsic"]["args"][4]
    assert yaml.safe_load(inside)["insecure"] is True


@pytest.fixture(scope="session")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `dhsic` that writes down its words."""
    folder = tmp_path_factory.mktemp("bin")
    path = folder / "dhsic"
    code = "import json, sys; json.dump(sys.argv[1:], open('words.json', 'w'))"
    path.write_text(f"#!{sys.executable} -I\n{code}\n")
    path.chmod(0o755)
    return folder


def test_job__carries_hostile_words_unchanged(recorder: Path, tmp_path: Path) -> None:
    hostile = [*HOSTILE, "$(DASK_SCHEDULER_ADDRESS)", "$$(HOME)", "$(", "a$"]
    text = yaml_text(job_manifests("songs", spec(), ("test", *hostile)))
    body = next(yaml.safe_load_all(text))["spec"]
    (container,) = body["job"]["spec"]["containers"]
    environment = {item["name"]: item["value"] for item in container["env"]}
    words = [expanded(word, environment) for word in container["args"]]
    words = [word.replace("/tmp/", f"{tmp_path}/") for word in words]
    (tmp_path / "result.json").write_text("{}")
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env={**os.environ, **environment, "PATH": f"{recorder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == f"\n{RESULT}\n{{}}"
    called = json.loads((tmp_path / "words.json").read_text())
    assert called[0] == "test"
    assert called[7:] == hostile
    assert called[1:3] == ["--cluster", f"{tmp_path}/cluster.yaml"]
    assert yaml.safe_load((tmp_path / "cluster.yaml").read_text())["kind"] == "scheduler"
    assert not (tmp_path / "pwned").exists()


def test_job__that_fails_prints_no_result(tmp_path: Path) -> None:
    (container,) = job(spec())["job"]["spec"]["containers"]
    words = [expanded(word, {}).replace("/tmp/", f"{tmp_path}/") for word in container["args"]]
    (tmp_path / "dhsic").write_text("#!/bin/sh\nexit 7\n")
    (tmp_path / "dhsic").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(words, env=environment, capture_output=True, check=False, timeout=30)
    assert (done.returncode, done.stdout) == (7, b"")


@given(text=st.text() | st.text(st.sampled_from("a \n\t:#'\"|>&*!%@-?{}[]\r\x85\u2028\ufeff")))
def test_yaml__reads_back_as_what_was_written(text: str) -> None:
    written = yaml_text([{"args": [text], text or "key": 1}])
    assert yaml.safe_load(written) == {"args": [text], text or "key": 1}
