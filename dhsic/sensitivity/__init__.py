"""Sensitivity maps: how measures of dependence change with every entry of the data."""

from dhsic.sensitivity.maps import sensitivity_map
from dhsic.sensitivity.result import SensitivityMap

__all__ = ["SensitivityMap", "sensitivity_map"]
