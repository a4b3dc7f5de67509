"""The argument of the rows: labels of them, their order, and the variables that have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import Source
from dhsic.engine.exchangeable import check_order, codes_of, moves_of
from dhsic.engine.sets import Moves
from dhsic.engine.units import parse_bytes
from dhsic.io.held import held_sources
from dhsic.io.missing import Missing
from dhsic.io.open import open_labelled_data
from dhsic.nulls import TimeOrder

__all__ = ["ALL_ROWS", "OpenedRows", "Order", "RowLabels", "open_rows"]

Order = Literal["time"] | TimeOrder


class RowLabels(NamedTuple):
    """Strata, groups and order of the rows, see `dhsic.independence_test`."""

    strata: Any = None
    groups: Any = None
    order: Order | None = None
    groups_argument: str = "groups"
    """The argument that the groups came by."""

    @property
    def labels(self) -> tuple[tuple[str, Any], ...]:
        """Those that have one a row."""
        return ("strata", self.strata), (self.groups_argument, self.groups)


ALL_ROWS = RowLabels()


class OpenedRows(NamedTuple):
    """Variables with what is said of their rows."""

    sources: list[Source]
    dropped: int
    """Rows that were left out."""
    strata: NDArray[np.intp] | None
    groups: NDArray[np.intp] | None
    order: TimeOrder | None

    def moves(self, seed: int) -> Moves | None:
        """Which rows may change places, see `moves_of`."""
        labels = self.strata, self.groups
        return moves_of(self.sources[0].shape[0], *labels, self.order, seed)


def open_rows(
    variables: Sequence[Any],
    names: Sequence[str] | None,
    data: Any,
    missing: Missing,
    rows: RowLabels,
    memory: int | str,
) -> OpenedRows:
    """Open variables with the labels of their rows, which are then held in memory."""
    series = check_order(rows.order, strata=rows.strata is not None)
    given = {what: x for what, x in rows.labels if x is not None}
    sources, labels, dropped = open_labelled_data(variables, names, data, missing, given)
    codes = {what: codes_of(source, what) for what, source in labels.items()}
    strata, groups = codes.get("strata"), codes.get(rows.groups_argument)
    if labels:
        sources = held_sources(sources, parse_bytes(memory), strata)
    return OpenedRows(sources, dropped, strata, groups, series)
