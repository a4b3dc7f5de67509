"""Where tasks run: processes of this machine, a running scheduler, or a cluster."""

from dhsic.cluster.connection import connect
from dhsic.cluster.local import local_cluster
from dhsic.cluster.settings import processors
from dhsic.cluster.spec import (
    JOB_QUEUES,
    TLS,
    Adaptive,
    ClusterSpec,
    Gateway,
    JobQueue,
    Kubernetes,
    SchedulerAt,
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
