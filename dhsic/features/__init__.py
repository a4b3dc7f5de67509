"""Feature maps: vectors whose inner products approximate a kernel."""

from dhsic.features.base import FeatureMap
from dhsic.features.by_column import LandmarksByColumn, at_quantiles
from dhsic.features.columns import ColumnFeatures
from dhsic.features.fourier import FourierFeatures, orthogonal_normals
from dhsic.features.landmarks import KernelFeatures

__all__ = [
    "ColumnFeatures",
    "FeatureMap",
    "FourierFeatures",
    "KernelFeatures",
    "LandmarksByColumn",
    "at_quantiles",
    "orthogonal_normals",
]
