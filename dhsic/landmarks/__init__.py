"""Landmarks: how they are drawn, chosen and pruned."""

from dhsic.landmarks.base import Landmarks, check_count, landmark_count, prune, warn_of_zeros
from dhsic.landmarks.growth import FEWEST, Growth, grow
from dhsic.landmarks.options import check_landmark_options, tolerance_for, warn_of_rounding
from dhsic.landmarks.pool import Pool
from dhsic.landmarks.selection import Selection, select, select_bytes
from dhsic.landmarks.uniform import Pairing, uniform_rows

__all__ = [
    "FEWEST",
    "Growth",
    "Landmarks",
    "Pairing",
    "Pool",
    "Selection",
    "check_count",
    "check_landmark_options",
    "grow",
    "landmark_count",
    "prune",
    "select",
    "select_bytes",
    "tolerance_for",
    "uniform_rows",
    "warn_of_rounding",
    "warn_of_zeros",
]
