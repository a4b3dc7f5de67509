"""Kernels, one file a family."""

from dhsic.kernels.base import Kernel, Product, Sum, median_distance
from dhsic.kernels.dot import AndersonDarling, Delta, Linear, Polynomial
from dhsic.kernels.grid import (
    Aggregate,
    Candidates,
    Combinations,
    Combine,
    Grid,
    by_column,
    by_type,
)
from dhsic.kernels.radial import (
    Distance,
    Gaussian,
    InverseMultiquadric,
    Laplacian,
    Matern,
    Radial,
    RationalQuadratic,
)
from dhsic.kernels.text import KernelName, kernel_of_plain, parse, plain_kernel
from dhsic.kernels.wrap import Columns, OnColumns, Ranked

__all__ = [
    "Aggregate",
    "AndersonDarling",
    "Candidates",
    "Columns",
    "Combinations",
    "Combine",
    "Delta",
    "Distance",
    "Gaussian",
    "Grid",
    "InverseMultiquadric",
    "Kernel",
    "KernelName",
    "Laplacian",
    "Linear",
    "Matern",
    "OnColumns",
    "Polynomial",
    "Product",
    "Radial",
    "Ranked",
    "RationalQuadratic",
    "Sum",
    "by_column",
    "by_type",
    "kernel_of_plain",
    "median_distance",
    "parse",
    "plain_kernel",
]
