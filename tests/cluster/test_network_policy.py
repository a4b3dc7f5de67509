"""Who reaches the pods of a cluster, and whom they reach, by the rules of Kubernetes."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml

from dhsic.cluster import ClusterSpec
from dhsic.cluster.submit.manifests import cluster_manifests, job_manifests

DEPLOYMENT = Path(__file__).parents[2] / "deploy" / "kubernetes" / "deployment.yaml"
OPERATOR = {"app.kubernetes.io/name": "dask-kubernetes-operator"}


@dataclass(frozen=True)
class Peer:
    """A pod, or an address outside of the cluster."""

    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    address: str = ""


def matches(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    assert selector.keys() <= {"matchLabels"}
    return selector.get("matchLabels", {}).items() <= labels.items()


def selected(selectors: dict[str, Any], peer: Peer, namespace: str) -> bool:
    """Whether one entry of `from` or `to` is about a peer."""
    if "ipBlock" in selectors:
        return bool(peer.address) and ip_address(peer.address) in ip_network(
            selectors["ipBlock"]["cidr"]
        )
    if not peer.namespace or not matches(selectors.get("podSelector", {}), peer.labels):
        return False
    if "namespaceSelector" not in selectors:
        return peer.namespace == namespace
    return matches(selectors["namespaceSelector"], {"kubernetes.io/metadata.name": peer.namespace})


@dataclass(frozen=True)
class Policy:
    """A policy that is about a pod of a cluster."""

    document: dict[str, Any]

    def allows(self, way: str, peer: Peer, port: int, protocol: str = "TCP") -> bool:
        body, namespace = self.document["spec"], self.document["metadata"].get("namespace", "lab")
        assert body["policyTypes"] == ["Ingress", "Egress"]
        wanted = {"protocol": protocol, "port": port}
        return any(
            ("ports" not in rule or wanted in rule["ports"])
            and (end not in rule or any(selected(entry, peer, namespace) for entry in rule[end]))
            for direction, end in (("ingress", "from"), ("egress", "to"))
            if direction == way
            for rule in body[direction]
        )


def policy(documents: list[dict[str, Any]]) -> Policy:
    (found,) = [one for one in documents if one["kind"] == "NetworkPolicy"]
    return Policy(found)


def rendered(workers: Any = 2, **section: Any) -> Policy:
    kubernetes = {"image": "dhsic:1", "tls_secret": "tls", "namespace": "lab", **section}
    description = {"kind": "kubernetes", "workers": workers, "kubernetes": kubernetes}
    return policy(cluster_manifests("songs", ClusterSpec.from_dict(description)))


ADAPTIVE = {"minimum": 1, "maximum": 4}
POLICIES = {
    "fixed": (rendered(), {"dask.org/cluster-name": "songs"}, "lab"),
    "adaptive": (rendered(ADAPTIVE), {"dask.org/cluster-name": "songs"}, "lab"),
    "without the operator": (
        policy(list(yaml.safe_load_all(DEPLOYMENT.read_text()))),
        {"app.kubernetes.io/name": "dhsic"},
        "dhsic",
    ),
}


@pytest.mark.parametrize("case", POLICIES)
def test_pods__are_reached_from_those_of_their_cluster_in_their_namespace_alone(case: str) -> None:
    policy, own, namespace = POLICIES[case]
    strangers = [
        Peer(namespace, {"dask.org/cluster-name": "other", "app.kubernetes.io/name": "other"}),
        Peer("elsewhere", own),
        Peer("elsewhere", {**own, **OPERATOR}),
        Peer(address="203.0.113.7"),
    ]
    for port in (8786, 8787, 40_000):
        assert policy.allows("ingress", Peer(namespace, own), port)
        for stranger in strangers:
            assert not policy.allows("ingress", stranger, port)


@pytest.mark.parametrize("case", POLICIES)
def test_pods__reach_their_cluster_names_and_storage_alone(case: str) -> None:
    policy, own, namespace = POLICIES[case]
    store = Peer(address="203.0.113.7")
    names = Peer("kube-system", {"k8s-app": "kube-dns"})
    assert policy.allows("egress", Peer(namespace, own), 40_000)
    assert policy.allows("egress", store, 443)
    for protocol in ("UDP", "TCP"):
        assert policy.allows("egress", names, 53, protocol)
        assert policy.allows("egress", Peer(address="169.254.20.10"), 53, protocol)
        assert not policy.allows("egress", store, 53, protocol)
        assert not policy.allows("egress", Peer("elsewhere", names.labels), 53, protocol)
    for port in (22, 80, 6443, 8786):
        assert not policy.allows("egress", store, port)
        assert not policy.allows("egress", Peer("elsewhere", own), port)
        assert not policy.allows("egress", Peer(address="169.254.169.254"), port)


def test_operator__asks_the_scheduler_of_an_adaptive_cluster_from_its_own_namespace() -> None:
    for workers, way in ((ADAPTIVE, True), (2, False)):
        found = rendered(workers)
        assert found.allows("ingress", Peer("dask-operator", OPERATOR), 8787) is way
        assert not found.allows("ingress", Peer("dask-operator", OPERATOR), 8786)
        assert not found.allows("ingress", Peer("dask-operator", {}), 8787)
    moved = rendered(ADAPTIVE, operator_namespace="tools")
    assert moved.allows("ingress", Peer("tools", OPERATOR), 8787)
    assert not moved.allows("ingress", Peer("dask-operator", OPERATOR), 8787)


def test_storage__is_reached_at_the_ports_that_are_given() -> None:
    found = rendered(storage_ports=[9000])
    store = Peer("minio", {"app": "minio"})
    assert found.allows("egress", store, 9000)
    assert not found.allows("egress", store, 443)


def test_metadata__of_the_cloud_are_for_pods_of_a_service_account() -> None:
    host = Peer(address="169.254.169.254")
    assert rendered(service_account="reader").allows("egress", host, 80)
    assert not rendered().allows("egress", host, 80)


def test_scratch__of_every_pod_is_as_large_as_its_memory_at_the_most() -> None:
    section = {
        "image": "dhsic:1",
        "tls_secret": "tls",
        "resources": {"limits": {"memory": "9Gi"}},
    }
    spec = ClusterSpec.from_dict({"kind": "kubernetes", "workers": 2, "kubernetes": section})
    job = job_manifests("songs", spec, ("test",))[0]["spec"]
    cluster = job["cluster"]["spec"]
    pods = [job["job"]["spec"], cluster["scheduler"]["spec"], cluster["worker"]["spec"]]
    for document in yaml.safe_load_all(DEPLOYMENT.read_text()):
        if document["kind"] in ("Deployment", "Job"):
            pods.append(document["spec"]["template"]["spec"])
    assert len(pods) == 6
    for pod in pods:
        (container,) = pod["containers"]
        (scratch,) = [one for one in pod["volumes"] if one["name"] == "scratch"]
        assert scratch["emptyDir"] == {"sizeLimit": container["resources"]["limits"]["memory"]}
