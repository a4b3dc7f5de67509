"""Manifests for the Dask operator of Kubernetes, as plain values.

The commands of scheduler and workers are written out, since defaults of the operator name programs
that `distributed` no longer has. The dashboard binds to the loopback of its pod, where
``kubectl port-forward`` finds it; an adaptive cluster opens it to the operator, which asks it how
many workers are wanted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dhsic.cluster.sections import TLS, Adaptive, Kubernetes, SchedulerAt
from dhsic.cluster.settings import job_limit, process_limit, worker_environment
from dhsic.cluster.spec import ClusterSpec
from dhsic.cluster.submit.quoting import container_words, yaml_text
from dhsic.errors import InvalidArgumentError

RESULT = "=== result ==="

_API = "kubernetes.dask.org/v1"
_PORT, _DASHBOARD = 8786, 8787
_OPERATOR = "dask-kubernetes-operator"
_USER = 10001
_TLS_FOLDER = "/etc/dhsic/tls"
_SPEC_FILE, _RESULT_FILE = "/tmp/cluster.yaml", "/tmp/result.json"
# Where the nodes of clouds hand out the credentials of a service account, and answer for names.
_METADATA = ("169.254.169.254/32", "169.254.169.252/32", "169.254.170.23/32")
_NODE_DNS = "169.254.20.10/32"
_MIB = 2**20
_WAIT_SECONDS = 600
# Answers of distributed.http.scheduler.api to the operator, besides those it has by default.
_ROUTES = (
    "['distributed.http.scheduler.prometheus','distributed.http.scheduler.info',"
    "'distributed.http.scheduler.json','distributed.http.health','distributed.http.proxy',"
    "'distributed.http.statics','distributed.http.scheduler.api']"
)
_HEALTH = (
    "import urllib.request; "
    f"urllib.request.urlopen('http://127.0.0.1:{_DASHBOARD}/health', timeout=3)"
)
# The result goes to the log of the pod, which can be read after the pod has ended.
_SCRIPT = f"""\
printf %s "$1" > {_SPEC_FILE}
shift
dhsic "$@" || exit
printf '\\n%s\\n' '{RESULT}'
cat {_RESULT_FILE}
"""


def cluster_manifests(name: str, spec: ClusterSpec) -> list[dict[str, Any]]:
    """A cluster that stays, with what guards and scales it.

    Parameters
    ----------
    name : str
        Name of all objects.
    spec : ClusterSpec
        Specification of the kind ``kubernetes``.

    Returns
    -------
    list of dict
        One document an object.

    Raises
    ------
    InvalidArgumentError
        Traffic would be unencrypted, and that is not allowed.
    """
    cluster = _object(_API, "DaskCluster", name, spec, _cluster_manifest(name, spec))
    return [cluster, *_surroundings(name, spec)]


def job_manifests(name: str, spec: ClusterSpec, words: Sequence[str]) -> list[dict[str, Any]]:
    """A cluster, and a pod that runs one test on it and prints the result.

    Parameters
    ----------
    name : str
        Name of all objects.
    spec : ClusterSpec
        Specification of the kind ``kubernetes``.
    words : sequence of str
        The command after ``dhsic``.

    Returns
    -------
    list of dict
        One document an object.

    Raises
    ------
    InvalidArgumentError
        Traffic would be unencrypted, and that is not allowed.
    """
    job = {
        "job": {"spec": _runner_manifest(name, spec, words)},
        "cluster": {"spec": _cluster_manifest(name, spec)},
    }
    return [_object(_API, "DaskJob", name, spec, job), *_surroundings(name, spec)]


def _object(api: str, kind: str, name: str, spec: ClusterSpec, body: Any) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "dhsic", "app.kubernetes.io/instance": name}
    metadata: dict[str, Any] = {"name": name, "labels": labels}
    if (namespace := _section_of_spec(spec).namespace) is not None:
        metadata["namespace"] = namespace
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": body}


def _surroundings(name: str, spec: ClusterSpec) -> list[dict[str, Any]]:
    objects = [_network_policy(name, spec)]
    if isinstance(spec.workers, Adaptive):
        bounds = {"minimum": spec.workers.minimum, "maximum": spec.workers.maximum}
        objects.append(_object(_API, "DaskAutoscaler", name, spec, {"cluster": name, **bounds}))
    return objects


def _network_policy(name: str, spec: ClusterSpec) -> dict[str, Any]:
    """Pods of the cluster are reached by each other, and reach each other, names and storage.

    A selector of pods that names no namespace is about that of the policy alone.
    """
    section = _section_of_spec(spec)
    selector = {"matchLabels": {"dask.org/cluster-name": name}}
    members = [{"podSelector": selector}]
    ingress: list[dict[str, Any]] = [{"from": members}]
    if isinstance(spec.workers, Adaptive):
        operator = _pods_of(section.operator_namespace, "app.kubernetes.io/name", _OPERATOR)
        ingress.append({"from": [operator], "ports": _ports("TCP", _DASHBOARD)})
    names = [_pods_of("kube-system", "k8s-app", "kube-dns"), {"ipBlock": {"cidr": _NODE_DNS}}]
    egress: list[dict[str, Any]] = [
        {"to": members},
        {"to": names, "ports": [*_ports("UDP", 53), *_ports("TCP", 53)]},
        {"ports": _ports("TCP", *section.storage_ports)},  # to any address: stores have many
    ]
    if section.service_account is not None:
        metadata = [{"ipBlock": {"cidr": address}} for address in _METADATA]
        egress.append({"to": metadata, "ports": _ports("TCP", 80, 988)})
    body = {
        "podSelector": selector,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": ingress,
        "egress": egress,
    }
    return _object("networking.k8s.io/v1", "NetworkPolicy", name, spec, body)


def _pods_of(namespace: str, label: str, value: str) -> dict[str, Any]:
    """Pods of one namespace, which nobody can claim: its name is a label set by Kubernetes."""
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchLabels": {label: value}},
    }


def _ports(protocol: str, *numbers: int) -> list[dict[str, Any]]:
    return [{"protocol": protocol, "port": number} for number in numbers]


def _cluster_manifest(name: str, spec: ClusterSpec) -> dict[str, Any]:
    return {"scheduler": _scheduler(name, spec), "worker": _workers(name, spec)}


def _scheduler(name: str, spec: ClusterSpec) -> dict[str, Any]:
    adaptive = isinstance(spec.workers, Adaptive)
    # The operator asks the scheduler for the number of workers where it adapts, from its own pod.
    host = "0.0.0.0" if adaptive else "127.0.0.1"
    protocol = "tls" if _uses_tls(spec) else "tcp"
    words = ["dask", "scheduler", f"--protocol={protocol}", f"--port={_PORT}"]
    words += [f"--dashboard-address={host}:{_DASHBOARD}", *_tls_words(spec)]
    health = {"exec": {"command": ["python", "-c", _HEALTH]}, "timeoutSeconds": 5}
    names = {"tcp-comm": _PORT, **({"http-dashboard": _DASHBOARD} if adaptive else {})}
    container = _container("scheduler", spec, words, _amounts(1, 2**30)) | {
        "ports": [
            {"name": port, "containerPort": number, "protocol": "TCP"}
            for port, number in names.items()
        ],
        "readinessProbe": health | {"periodSeconds": 5},
        "livenessProbe": health | {"initialDelaySeconds": 15, "periodSeconds": 20},
    }
    if adaptive:
        routes = {"name": "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES", "value": _ROUTES}
        container["env"] = [*container["env"], routes]
    ports = [
        {"name": port, "protocol": "TCP", "port": number, "targetPort": port}
        for port, number in names.items()
    ]
    selector = {"dask.org/cluster-name": name, "dask.org/component": "scheduler"}
    service = {"type": "ClusterIP", "selector": selector, "ports": ports}
    return {"spec": _pod(spec, container), "service": service}


def _workers(name: str, spec: ClusterSpec) -> dict[str, Any]:
    limit = process_limit(spec.memory)
    # Kubernetes puts the value in the place of $(NAME).
    words = ["dask", "worker", "--name=$(DASK_WORKER_NAME)", f"--nthreads={spec.threads}"]
    words += [f"--memory-limit={limit}", "--no-dashboard", "--local-directory=/tmp"]
    # A worker whose scheduler never comes ends, and its pod with it.
    words += [f"--death-timeout={_WAIT_SECONDS}", *_tls_words(spec)]
    resources = _amounts(spec.threads, job_limit(spec.memory))
    for kind, amounts in _section_of_spec(spec).resources.items():
        resources[kind] = {**resources[kind], **amounts}
    container = _reads_data(_container("worker", spec, words, resources), name, spec)
    settings = [{"name": key, "value": value} for key, value in worker_environment().items()]
    container["env"] = [*container["env"], *settings]
    return {"replicas": _first_workers(spec), "spec": _pod(spec, container)}


def _runner_manifest(name: str, spec: ClusterSpec, words: Sequence[str]) -> dict[str, Any]:
    cluster = yaml_text([_seen_from_inside(name, spec).to_dict()])
    ours = ["--cluster", _SPEC_FILE, "--json", _RESULT_FILE, "--log-json", "-"]
    # Before the words of the user, in which a `--` ends the options.
    shell = ["sh", "-c", _SCRIPT, "sh", cluster, words[0], *ours, *words[1:]]
    resources = _amounts(1, job_limit(spec.memory))
    container = _reads_data(
        _container("dhsic", spec, container_words(shell), resources), name, spec
    )
    # The operator's own default would start a test that failed again and again.
    return _pod(spec, container) | {"restartPolicy": "Never"}


def _seen_from_inside(name: str, spec: ClusterSpec) -> ClusterSpec:
    """The cluster for a pod of it: a scheduler that is there soon."""
    files = [f"{_TLS_FOLDER}/{file}" for file in ("ca.crt", "tls.crt", "tls.key")]
    return ClusterSpec(
        "scheduler",
        memory=spec.memory,
        tls=TLS(*files) if _uses_tls(spec) else None,
        insecure=spec.insecure,
        timeout=spec.patience,
        scheduler=SchedulerAt(_scheduler_address(name, spec)["value"]),
    )


def _container(
    name: str, spec: ClusterSpec, words: Sequence[str], resources: dict[str, Any]
) -> dict[str, Any]:
    section = _section_of_spec(spec)
    once = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    environment = [{"name": variable, "value": "1"} for variable in once]
    if _uses_tls(spec):
        encrypted = {"name": "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION", "value": "true"}
        environment.append(encrypted)
    container: dict[str, Any] = {
        "name": name,
        "image": section.image,
        "imagePullPolicy": "IfNotPresent",
        "args": list(words),
        "env": environment,
        "resources": resources,
        # As the restricted profile of Kubernetes' pod security standards asks for.
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
    }
    if _uses_tls(spec):
        mount = {"name": "tls", "mountPath": _TLS_FOLDER, "readOnly": True}
        container["volumeMounts"].append(mount)
    return container


def _reads_data(container: dict[str, Any], name: str, spec: ClusterSpec) -> dict[str, Any]:
    """Add credentials and an address, which workers and tests need and the scheduler does not."""
    container["env"] = [*container["env"], _scheduler_address(name, spec)]
    if secrets := _section_of_spec(spec).secrets:
        container["envFrom"] = [{"secretRef": {"name": secret}} for secret in secrets]
    return container


def _pod(spec: ClusterSpec, container: dict[str, Any]) -> dict[str, Any]:
    section = _section_of_spec(spec)
    # As large as the memory: what spills must not fill the disk of a node.
    room = {"sizeLimit": container["resources"]["limits"]["memory"]}
    volumes: list[dict[str, Any]] = [{"name": "scratch", "emptyDir": room}]
    if _uses_tls(spec):
        secret = {"secretName": section.tls_secret, "defaultMode": 0o440}
        volumes.append({"name": "tls", "secret": secret})
    # dhsic asks the API of Kubernetes for nothing, so that pods need no token.
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    }
    if section.service_account is not None:
        pod["serviceAccountName"] = section.service_account
    return pod


def _amounts(processors: int, memory: int) -> dict[str, dict[str, str]]:
    # Requests equal limits: pods of that class are evicted last.
    amounts = {"cpu": str(processors), "memory": f"{math.ceil(memory / _MIB)}Mi"}
    return {"requests": dict(amounts), "limits": dict(amounts)}


def _scheduler_address(name: str, spec: ClusterSpec) -> dict[str, str]:
    """Address of the scheduler, in place of the one without TLS that the operator sets."""
    protocol = "tls" if _uses_tls(spec) else "tcp"
    return {"name": "DASK_SCHEDULER_ADDRESS", "value": f"{protocol}://{name}-scheduler:{_PORT}"}


def _tls_words(spec: ClusterSpec) -> list[str]:
    if not _uses_tls(spec):
        return []
    files = {"ca-file": "ca.crt", "cert": "tls.crt", "key": "tls.key"}
    return [f"--tls-{option}={_TLS_FOLDER}/{file}" for option, file in files.items()]


def _uses_tls(spec: ClusterSpec) -> bool:
    if _section_of_spec(spec).tls_secret is not None:
        return True
    if not spec.insecure:
        msg = (
            "traffic between pods must be encrypted: make a secret of ca.crt, tls.crt and tls.key "
            "and name it in tls_secret, or write 'insecure: true'"
        )
        raise InvalidArgumentError(msg)
    return False


def _first_workers(spec: ClusterSpec) -> int:
    if isinstance(spec.workers, Adaptive):
        return spec.workers.minimum
    assert spec.workers is not None
    return spec.workers


def _section_of_spec(spec: ClusterSpec) -> Kubernetes:
    assert spec.kubernetes is not None
    return spec.kubernetes
