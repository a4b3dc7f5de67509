"""Where tasks run: processes of this machine, a running scheduler, or a cluster."""

from dhsic.cluster.connection import connect, local_cluster
from dhsic.cluster.spec import (
    JOB_QUEUES,
    TLS,
    Adaptive,
    ClusterSpec,
    Gateway,
    JobQueue,
    Kubernetes,
    SchedulerAt,
    processors,
)

__all__ = [
    "JOB_QUEUES",
    "TLS",
    "Adaptive",
    "ClusterSpec",
    "Gateway",
    "JobQueue",
    "Kubernetes",
    "SchedulerAt",
    "connect",
    "local_cluster",
    "processors",
]
