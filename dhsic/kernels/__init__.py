"""Kernels, one file a family."""

from dhsic.kernels.bandwidth import median_distance
from dhsic.kernels.base import Kernel
from dhsic.kernels.by_type import by_column, by_type
from dhsic.kernels.columns import Columns
from dhsic.kernels.combinations import Combinations
from dhsic.kernels.combined import Product, Sum
from dhsic.kernels.discrete import Delta
from dhsic.kernels.distance import Distance
from dhsic.kernels.dot import Linear, Polynomial
from dhsic.kernels.grid import Aggregate, Candidates, Combine, Grid
from dhsic.kernels.matern import Matern
from dhsic.kernels.on_columns import OnColumns
from dhsic.kernels.plain import kernel_of_plain, plain_kernel
from dhsic.kernels.radial import Gaussian, InverseMultiquadric, Laplacian
from dhsic.kernels.ranked import AndersonDarling, Ranked
from dhsic.kernels.rational import RationalQuadratic
from dhsic.kernels.registry import KernelName, parse

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
