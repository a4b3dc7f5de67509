"""Studies of how a test scales: ``from dhsic import bench``."""

from dhsic.bench.result import ScalingStudy
from dhsic.bench.study import scaling_study

__all__ = ["ScalingStudy", "scaling_study"]
