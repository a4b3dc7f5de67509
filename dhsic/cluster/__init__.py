"""Where tasks run: processes of this machine, or a scheduler that runs already."""

from dhsic.cluster.local import PlannedWorkers, local_cluster, processors
from dhsic.cluster.remote import connect

__all__ = ["PlannedWorkers", "connect", "local_cluster", "processors"]
