"""Kernels, one file a family."""

from dhsic.kernels.base import Kernel
from dhsic.kernels.radial import Gaussian

__all__ = ["Gaussian", "Kernel"]
