"""Landmarks: how they are drawn and pruned."""

from dhsic.landmarks.base import Landmarks, check_count, landmark_count, prune
from dhsic.landmarks.options import check_landmark_options, tolerance_for, warn_of_rounding
from dhsic.landmarks.uniform import Pairing, uniform_rows

__all__ = [
    "Landmarks",
    "Pairing",
    "check_count",
    "check_landmark_options",
    "landmark_count",
    "prune",
    "tolerance_for",
    "uniform_rows",
    "warn_of_rounding",
]
