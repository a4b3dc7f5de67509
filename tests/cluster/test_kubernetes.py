"""What the operator of Kubernetes is asked for, up to the call of dask-kubernetes."""

from __future__ import annotations

import dataclasses
import sys
from types import ModuleType
from typing import Any

import pytest
from distributed import LocalCluster

from dhsic.cluster import Adaptive, ClusterSpec, Kubernetes, connect
from dhsic.cluster.submit.manifests import cluster_manifests
from dhsic.errors import (
    ClusterError,
    InsecureWarning,
    InvalidArgumentError,
    MissingDependencyError,
)

SECTION = Kubernetes(image="registry/dhsic:1.0", namespace="science")
SPEC = ClusterSpec("kubernetes", 2, timeout=30.0, insecure=True, kubernetes=SECTION)

pytestmark = pytest.mark.filterwarnings("ignore::dhsic.errors.InsecureWarning")


class KubeCluster(LocalCluster):  # type: ignore[misc]
    """Stands for the library: keeps its arguments, and has one worker on this machine."""

    made: list[dict[str, Any]]
    adapted: list[dict[str, Any]]

    def __init__(self, **arguments: Any) -> None:
        self.made.append(arguments)
        here = {"dashboard_address": "127.0.0.1:0"}
        super().__init__(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            host="127.0.0.1",
            protocol="tcp",
            dashboard_address=None,
            scheduler_kwargs=here,
        )

    def adapt(self, **bounds: int) -> None:
        self.adapted.append(bounds)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> type[KubeCluster]:
    module = ModuleType("dask_kubernetes.operator")
    module.KubeCluster = KubeCluster  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "dask_kubernetes", ModuleType("dask_kubernetes"))
    monkeypatch.setitem(sys.modules, "dask_kubernetes.operator", module)
    monkeypatch.setattr(KubeCluster, "made", [], raising=False)
    monkeypatch.setattr(KubeCluster, "adapted", [], raising=False)
    return KubeCluster


@pytest.mark.parametrize(
    ("workers", "adapted"), [(2, []), (Adaptive(5, 2), [{"minimum": 2, "maximum": 5}])]
)
def test_connect__asks_for_the_manifest_of_a_cluster(
    library: type[KubeCluster], workers: Any, adapted: list[dict[str, int]]
) -> None:
    spec = dataclasses.replace(SPEC, workers=workers)
    with connect(spec) as client:
        assert client.submit(sum, [1, 2]).result(timeout=30) == 3
    (arguments,) = library.made
    manifest = arguments.pop("custom_cluster_spec")
    assert arguments == {"namespace": "science", "resource_timeout": 30, "quiet": True}
    name = manifest["metadata"]["name"]
    assert name.startswith("dhsic-")
    bounds = workers if isinstance(workers, Adaptive) else Adaptive(workers, workers)
    expected = cluster_manifests(name, dataclasses.replace(spec, workers=bounds))
    assert manifest == expected[0]
    assert manifest["spec"]["worker"]["replicas"] == 2
    assert library.adapted == adapted


def test_connect__two_clusters_have_two_names(library: type[KubeCluster]) -> None:
    for _ in range(2):
        with connect(SPEC):
            pass
    names = {made["custom_cluster_spec"]["metadata"]["name"] for made in library.made}
    assert len(names) == 2


def test_connect__says_that_it_is_not_encrypted(library: type[KubeCluster]) -> None:
    with pytest.warns(InsecureWarning, match="Kubernetes operator is not encrypted"), connect(SPEC):
        pass


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"insecure": False}, "leaves this machine and has no TLS"),
        ({"kubernetes": dataclasses.replace(SECTION, tls_secret="t")}, "speaks no TLS: run inside"),
        ({"kubernetes": dataclasses.replace(SECTION, context="c")}, "kubectl config use-context"),
    ],
)
def test_connect__refuses_what_the_library_cannot(
    library: type[KubeCluster], change: dict[str, Any], words: str
) -> None:
    with (
        pytest.raises(InvalidArgumentError, match=words),
        connect(dataclasses.replace(SPEC, **change)),
    ):
        pass
    assert library.made == []


def test_connect__names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask_kubernetes.operator", None)
    with (
        pytest.raises(MissingDependencyError, match=r"pip install 'dhsic\[kubernetes\]'"),
        connect(SPEC),
    ):
        pass


def test_connect__repeats_what_the_library_says(
    library: type[KubeCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Any, **_: Any) -> None:
        msg = "no API server\n  at localhost"
        raise TimeoutError(msg)

    monkeypatch.setattr(library, "__init__", fail)
    with (
        pytest.raises(ClusterError, match="does not start the cluster: no API server at localhost"),
        connect(SPEC),
    ):
        pass
