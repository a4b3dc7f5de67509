"""Runs that a queue starts: rendered as text, submitted, followed, cancelled."""

from dhsic.cluster.submit.base import Phase, Place, Where
from dhsic.cluster.submit.kubernetes import KubernetesPlace
from dhsic.cluster.submit.runs import Run, State, find_run, list_runs, runs_folder
from dhsic.cluster.submit.slurm import SlurmPlace

__all__ = [
    "PLACES",
    "KubernetesPlace",
    "Phase",
    "Place",
    "Run",
    "SlurmPlace",
    "State",
    "Where",
    "find_run",
    "list_runs",
    "runs_folder",
]

PLACES: dict[str, Place] = {"slurm": SlurmPlace(), "kubernetes": KubernetesPlace()}
