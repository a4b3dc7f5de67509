"""Landmarks: how they are drawn and pruned."""

from dhsic.landmarks.base import Landmarks, check_count, landmark_count, prune
from dhsic.landmarks.uniform import Pairing, uniform_rows

__all__ = ["Landmarks", "Pairing", "check_count", "landmark_count", "prune", "uniform_rows"]
