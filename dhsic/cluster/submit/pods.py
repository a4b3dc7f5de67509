"""Reasons why the pods of a run wait, in a line with the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_IMAGE = "name an image that the nodes can pull"
_SECRETS = "make the secrets that the file of the cluster names"
_REMEDIES = {
    "ErrImagePull": _IMAGE,
    "ImagePullBackOff": _IMAGE,
    "InvalidImageName": _IMAGE,
    "ErrImageNeverPull": _IMAGE,
    "CreateContainerConfigError": _SECRETS,
    "CreateContainerError": _SECRETS,
    "RunContainerError": "see 'kubectl describe pod {pod}'",
    "CrashLoopBackOff": "see 'kubectl logs --previous {pod}'",
    "Unschedulable": "ask for fewer workers, or for less memory or threads, or add nodes",
    "OOMKilled": "give the cluster more memory",
    "Evicted": "see 'kubectl describe pod {pod}'",
    "NodeLost": "wait for its node, or cancel the run and submit it again",
}
# The test waits for its pod, that one for the scheduler, and the scheduler for workers.
_ORDER = ("job-runner", "scheduler", "worker")
_SHOWN = 200
_GONE = (
    "its pod {pod} is gone, with its node or because somebody deleted it: remove the rest by "
    "'dhsic cancel {run}' and submit again; a test with --checkpoint goes on from there"
)


def gone(pod: str, run: str) -> str:
    """Remedy where the pod that leads a run is gone."""
    return _GONE.format(pod=pod, run=run)


def trouble_of_pods(pods: Sequence[Mapping[str, Any]]) -> str | None:
    """Why some pods do not run, the most important of them first.

    Parameters
    ----------
    pods : sequence of mapping
        As the API server describes them.

    Returns
    -------
    str or None
        The name of a pod, what is wrong and what to do; None where nothing is.
    """
    for pod in sorted(pods, key=_rank):
        # The first remedy is enough: others often follow from it.
        for reason, said in _reasons(pod):
            name = pod["metadata"]["name"]
            detail = f" ({' '.join(said.split())[:_SHOWN]})" if said else ""
            return f"pod {name}: {reason}{detail}: {_REMEDIES[reason].format(pod=name)}"
    return None


def _rank(pod: Mapping[str, Any]) -> int:
    component = pod["metadata"].get("labels", {}).get("dask.org/component")
    return _ORDER.index(component) if component in _ORDER else len(_ORDER)


def _reasons(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Reasons for which there is a remedy, each with what is said of it."""
    status = pod.get("status", {})
    for place in (status, *_unschedulable(status), *_states(status)):
        if place.get("reason") in _REMEDIES:
            yield place["reason"], place.get("message", "")


def _unschedulable(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    conditions = status.get("conditions", [])
    return [
        condition
        for condition in conditions
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    ]


def _states(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    states = [container.get("state", {}) for container in status.get("containerStatuses", [])]
    return [state[kind] for state in states for kind in ("waiting", "terminated") if kind in state]
