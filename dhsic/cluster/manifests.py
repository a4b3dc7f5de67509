"""Manifests for the Dask operator of Kubernetes, of the text in ``manifests.yaml``."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Any, Literal

import yaml

from dhsic.cluster.settings import job_limit, process_limit, worker_environment
from dhsic.cluster.spec import TLS, Adaptive, ClusterSpec, SchedulerAt, pod_amounts, refuse

_TLS_FOLDER = "/etc/dhsic/tls"


def cluster_manifests(name: str, spec: ClusterSpec) -> list[dict[str, Any]]:
    """Make a cluster that stays, with what guards and scales it.

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
    return _objects(name, spec, "stays")


def job_manifests(
    name: str, spec: ClusterSpec, script: str, *, workers: bool, tasks: int
) -> list[dict[str, Any]]:
    """Make a pod that runs a script, beside workers, or one for every task of a sweep.

    Parameters
    ----------
    name : str
        Name of all objects.
    spec : ClusterSpec
        Specification of the kind ``kubernetes``.
    script : str
        Shell of the pod, whose first argument is the file of the cluster.
    workers : bool
        Whether it has workers; without them it runs in one pod, and a sweep in one a task.
    tasks : int
        Tasks of a sweep.

    Returns
    -------
    list of dict
        One document an object.

    Raises
    ------
    InvalidArgumentError
        Traffic would be unencrypted, and that is not allowed.
    """
    words = ["sh", "-c", script, "sh"]
    if workers:
        words.append(yaml_text([_seen_from_inside(name, spec).to_dict()]))
    # `$$` is how Kubernetes writes a dollar sign, in whose place it puts $(NAME) otherwise.
    command = [word.replace("$", "$$") for word in words]
    return _objects(name, spec, "leads" if workers else "alone", tasks=tasks, command=command)


def yaml_text(documents: list[Any]) -> str:
    """Write documents as YAML that every reader takes for the same values."""
    return yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=10**6
    )


class _Dumper(yaml.SafeDumper):
    """Without anchors, and with text of several lines as a block, for those who read it."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


def _objects(
    name: str, spec: ClusterSpec, role: Literal["stays", "leads", "alone"], **chosen: Any
) -> list[dict[str, Any]]:
    section = spec.kubernetes
    assert section is not None
    tls, workers = _uses_tls(spec), role != "alone"
    adaptive = workers and isinstance(spec.workers, Adaptive)
    own, small = pod_amounts(1, job_limit(spec.memory)), pod_amounts(1, 2**30)
    # Without workers the threads are those of the pod itself.
    runner = own if workers else spec.pod_resources
    words = {"ca-file": "ca.crt", "cert": "tls.crt", "key": "tls.key"}
    values = {
        **dict.fromkeys(("stays", "leads", "alone", "tasks", "command")),
        **chosen,
        role: True,
        "clustered": workers,
        "name": name,
        "image": section.image,
        "namespace": section.namespace,
        "service_account": section.service_account,
        "operator_namespace": section.operator_namespace,
        "storage_ports": [{"protocol": "TCP", "port": port} for port in section.storage_ports],
        "secrets": [{"secretRef": {"name": secret}} for secret in section.secrets] or None,
        "tls": tls,
        "tls_secret": section.tls_secret,
        "tls_words": [f"--tls-{k}={_TLS_FOLDER}/{file}" for k, file in words.items() if tls],
        "protocol": "tls" if tls else "tcp",
        "address": _address(name, tls),
        "adaptive": adaptive,
        # The operator asks the scheduler for the number of workers where it adapts, from its pod.
        "host": "0.0.0.0" if adaptive else "127.0.0.1",
        "replicas": spec.bounds.minimum,
        "most": spec.bounds.maximum,
        "threads": spec.threads,
        "memory_limit": process_limit(spec.memory),
        "settings": [{"name": key, "value": text} for key, text in worker_environment().items()],
    }
    pods = {"scheduler": small, "worker": spec.pod_resources, "runner": runner}
    for pod, amounts in pods.items():
        values[f"{pod}_resources"] = amounts
        values[f"{pod}_memory"] = amounts["limits"]["memory"]
    text = Path(__file__).with_name("manifests.yaml").read_text("utf-8")
    filled: list[dict[str, Any]] = _filled(yaml.safe_load(text)["objects"], values)
    return filled


def _filled(part: Any, values: dict[str, Any]) -> Any:
    """A part of the text with values in the place of names; None where there is none."""
    if isinstance(part, str):
        name = part.removeprefix("$")
        return (
            values[name]
            if name != part and name in values
            else Template(part).safe_substitute(values)
        )
    if isinstance(part, list):
        items = [_filled(item, values) for item in part]
        # A list within a list stands for its items.
        lists = [item if isinstance(item, list) else [item] for item in items if item is not None]
        return [item for items in lists for item in items]
    if isinstance(part, dict):
        if not _filled(part.get("when", True), values):
            return None
        filled = {key: _filled(value, values) for key, value in part.items() if key != "when"}
        return {key: value for key, value in filled.items() if value is not None}
    return part


def _seen_from_inside(name: str, spec: ClusterSpec) -> ClusterSpec:
    """The cluster for a pod of it: a scheduler that is there soon."""
    tls = _uses_tls(spec)
    files = [f"{_TLS_FOLDER}/{file}" for file in ("ca.crt", "tls.crt", "tls.key")]
    return ClusterSpec(
        "scheduler",
        memory=spec.memory,
        tls=TLS(*files) if tls else None,
        insecure=spec.insecure,
        timeout=spec.patience,
        scheduler=SchedulerAt(_address(name, tls)),
    )


def _address(name: str, tls: bool) -> str:
    return f"{'tls' if tls else 'tcp'}://{name}-scheduler:8786"


def _uses_tls(spec: ClusterSpec) -> bool:
    assert spec.kubernetes is not None
    if spec.kubernetes.tls_secret is None and not spec.insecure:
        remedy = "make a secret of ca.crt, tls.crt and tls.key, or write 'insecure: true'"
        refuse("tls_secret", "given, since traffic must be encrypted", None, remedy)
    return spec.kubernetes.tls_secret is not None
