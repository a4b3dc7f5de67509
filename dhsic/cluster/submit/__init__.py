"""Runs that a queue starts: rendered as text, submitted, followed, cancelled."""

from dhsic.cluster.submit.base import Phase, RunQueue, Where
from dhsic.cluster.submit.kubernetes import KubernetesPlace
from dhsic.cluster.submit.runs import RunState, SubmittedRun, find_run, list_runs, runs_folder
from dhsic.cluster.submit.slurm import SlurmPlace

__all__ = [
    "PLACES",
    "KubernetesPlace",
    "Phase",
    "RunQueue",
    "RunState",
    "SlurmPlace",
    "SubmittedRun",
    "Where",
    "find_run",
    "list_runs",
    "runs_folder",
]

PLACES: dict[str, RunQueue] = {"slurm": SlurmPlace(), "kubernetes": KubernetesPlace()}
