"""Rank features by their dependence on a target, and select some of them."""

from dhsic.ranking.rank import plan_ranking, rank_features
from dhsic.ranking.result import FeatureRanking, RankedFeature
from dhsic.ranking.selection import FeatureSelection, select_features

__all__ = [
    "FeatureRanking",
    "FeatureSelection",
    "RankedFeature",
    "plan_ranking",
    "rank_features",
    "select_features",
]
