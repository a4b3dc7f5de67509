"""Workers as pods of Kubernetes, by the operator of dask-kubernetes."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from distributed import Client

from dhsic.cluster.remote import first_worker
from dhsic.cluster.sections import Adaptive, Kubernetes
from dhsic.cluster.security import allow_insecure
from dhsic.cluster.spec import ClusterSpec
from dhsic.cluster.submit.manifests import cluster_manifests
from dhsic.errors import ClusterError, InvalidArgumentError, needing


@contextmanager
def kubernetes_client(spec: ClusterSpec) -> Iterator[Any]:
    """Create a cluster of the operator, which is deleted when the block ends."""
    section = spec.kubernetes
    assert section is not None
    _check_section(section)
    allow_insecure("the way to a cluster of the Kubernetes operator", spec.insecure)
    with needing("dask-kubernetes", "kubernetes", "a cluster of Kubernetes"):
        from dask_kubernetes.operator import KubeCluster
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(KubeCluster(**kube_arguments(spec)))
            if isinstance(spec.workers, Adaptive):
                cluster.adapt(minimum=spec.workers.minimum, maximum=spec.workers.maximum)
        # The operator answers in its own time, and fails in types of several libraries.
        except Exception as error:  # of any of the libraries below it
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            msg = f"Kubernetes does not start the cluster: {reason}"
            raise ClusterError(msg) from error
        client = stack.enter_context(Client(cluster))
        remedy = "look at its pods, as with 'kubectl get pods', or allow a longer timeout"
        first_worker(client, spec.patience, remedy)
        yield client


def kube_arguments(spec: ClusterSpec) -> dict[str, Any]:
    """Arguments of `KubeCluster`.

    It asks the scheduler's dashboard for more than a cluster of fixed size opens, so the
    manifest is that of an adaptive one.
    """
    assert spec.kubernetes is not None
    workers = spec.workers
    if not isinstance(workers, Adaptive):
        assert workers is not None
        workers = Adaptive(workers, workers)
    adaptive = dataclasses.replace(spec, workers=workers)
    # Random, so that two runs of one user do not meet.
    name = f"dhsic-{secrets.token_hex(4)}"
    return {
        "custom_cluster_spec": cluster_manifests(name, adaptive)[0],
        "namespace": spec.kubernetes.namespace,
        "resource_timeout": int(spec.patience),
        "quiet": True,
    }


def _check_section(section: Kubernetes) -> None:
    """Refuse what the library cannot do."""
    if section.tls_secret is not None:
        msg = (
            "the client of the Kubernetes operator speaks no TLS: run inside the cluster by "
            "'dhsic submit kubernetes', or drop tls_secret where insecure is allowed"
        )
        raise InvalidArgumentError(msg)
    if section.context is not None:
        msg = (
            f"the client of the Kubernetes operator takes the current context: select "
            f"{section.context!r} by 'kubectl config use-context', and drop context"
        )
        raise InvalidArgumentError(msg)
