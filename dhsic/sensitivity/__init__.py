"""Sensitivity maps: how measures of dependence change with every entry of the data."""

from dhsic.sensitivity.maps import SensitivityMap, sensitivity_map

__all__ = ["SensitivityMap", "sensitivity_map"]
