"""Where tasks run: processes of this machine, a scheduler that runs already, or a cluster."""

from dhsic.cluster.connection import connect
from dhsic.cluster.local import local_cluster, processors
from dhsic.cluster.sections import TLS, Adaptive, Gateway, JobQueue, Kubernetes, SchedulerAt
from dhsic.cluster.spec import JOB_QUEUES, ClusterSpec

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
