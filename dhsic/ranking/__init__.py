"""Rank features by their dependence on a target, and select some of them."""

from dhsic.ranking.rank import plan_ranking, rank_features
from dhsic.ranking.result import ColumnRanking, RankedColumn
from dhsic.ranking.selection import ColumnSelection, select_features

__all__ = [
    "ColumnRanking",
    "ColumnSelection",
    "RankedColumn",
    "plan_ranking",
    "rank_features",
    "select_features",
]
