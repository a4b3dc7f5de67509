"""Runs that a queue starts: rendered as text, submitted, followed, cancelled."""

from dhsic.cluster.submit.base import Phase, RunQueue
from dhsic.cluster.submit.kubernetes import KubernetesQueue
from dhsic.cluster.submit.runs import (
    QueueName,
    RunState,
    SubmittedRun,
    find_run,
    list_runs,
    runs_folder,
)
from dhsic.cluster.submit.slurm import SlurmQueue

__all__ = [
    "QUEUES",
    "KubernetesQueue",
    "Phase",
    "QueueName",
    "RunQueue",
    "RunState",
    "SlurmQueue",
    "SubmittedRun",
    "find_run",
    "list_runs",
    "runs_folder",
]

QUEUES: dict[str, RunQueue] = {"slurm": SlurmQueue(), "kubernetes": KubernetesQueue()}
