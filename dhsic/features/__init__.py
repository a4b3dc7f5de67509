"""Feature maps: vectors whose inner products approximate a kernel."""

from dhsic.features.base import FeatureMap
from dhsic.features.columns import ColumnFeatures
from dhsic.features.fourier import FourierFeatures, centred_rows, orthogonal_normals, write_phases
from dhsic.features.landmarks import KernelFeatures
from dhsic.features.stacked import StackedFeatures, side_by_side

__all__ = [
    "ColumnFeatures",
    "FeatureMap",
    "FourierFeatures",
    "KernelFeatures",
    "StackedFeatures",
    "centred_rows",
    "orthogonal_normals",
    "side_by_side",
    "write_phases",
]
