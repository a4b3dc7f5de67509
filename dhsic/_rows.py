"""Arguments of the rows: labels and weights of them, their order, and the variables of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import Source
from dhsic.engine.gaps import Gaps
from dhsic.engine.units import parse_bytes
from dhsic.engine.weights import RowWeights
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io.held import held_sources
from dhsic.io.missing import GapTreatment, count_gaps
from dhsic.io.open import open_labelled_data
from dhsic.io.weights import read_weights
from dhsic.nulls import TimeOrder
from dhsic.statistics.exchangeable import check_codes, check_order, codes_of

Order = Literal["time"] | TimeOrder


class RowLabels(NamedTuple):
    """Strata, groups, order and weights of the rows, see `dhsic.independence_test`."""

    strata: Any = None
    groups: Any = None
    order: Order | None = None
    groups_argument: str = "groups"
    """The argument that the groups came by."""
    weights: Any = None

    @property
    def labels(self) -> tuple[tuple[str, Any], ...]:
        """Those that have one a row."""
        labels = ("strata", self.strata), (self.groups_argument, self.groups)
        return *labels, ("weights", self.weights)


ALL_ROWS = RowLabels()


class OpenedRows(NamedTuple):
    """Variables with what is said of their rows."""

    sources: list[Source]
    dropped: int
    """Rows that were left out."""
    strata: NDArray[np.intp] | None
    groups: NDArray[np.intp] | None
    order: TimeOrder | None
    weights: RowWeights | None
    gaps: tuple[Gaps, ...]
    """Missing values of every variable, where rows that miss one stay."""


def open_rows(
    variables: Sequence[Any],
    names: Sequence[str] | None,
    data: Any,
    missing: GapTreatment,
    rows: RowLabels,
    memory: int | str,
    *,
    pairwise: bool = False,
) -> OpenedRows:
    """Open variables with what their rows have; those of labelled rows are held in memory."""
    # Before anything is opened: order and strata exclude each other whatever the data are.
    series = check_order(rows.order, strata=rows.strata is not None)
    given = {what: x for what, x in rows.labels if x is not None}
    if rows.weights is not None:
        _check_alone(rows, given, missing)
    allowed = parse_bytes(memory)
    sources, labels, dropped = open_labelled_data(
        variables, names, data, missing, given, pairwise=pairwise
    )
    _check_period(series, dropped)
    gaps = count_gaps(sources) if missing == "pairwise" else ()
    # Without gaps the variables are read, and their kernels computed, as with "refuse".
    gaps = gaps if any(of_variable.any for of_variable in gaps) else ()
    # Weights are numbers; the other labels are names, which become codes.
    weights = None
    if "weights" in labels:
        if len(sources) != 2:
            msg = f"weights are for two variables, got {len(sources)}: test two at a time"
            raise InvalidArgumentError(msg)
        weights = read_weights(labels.pop("weights"), allowed)
    if labels:
        check_codes(list(labels.values()), allowed)
    codes = {what: codes_of(source, what) for what, source in labels.items()}
    strata, groups = codes.get("strata"), codes.get(rows.groups_argument)
    if labels:
        # Moves go between any rows, so that chunks could not be read in order.
        sources = held_sources(sources, allowed, strata)
    return OpenedRows(sources, dropped, strata, groups, series, weights, gaps)


def _check_alone(rows: RowLabels, given: dict[str, Any], missing: str) -> None:
    """Refuse weights beside anything that moves rows, or rows with gaps."""
    beside = [what for what in given if what != "weights"]
    beside += ["order"] if rows.order is not None else []
    if beside:
        msg = (
            f"weights go with independent draws alone, got {' and '.join(beside)} as well: leave "
            "either out"
        )
        raise InvalidArgumentError(msg)
    if missing == "pairwise":
        msg = "weights go with complete rows, got missing='pairwise' as well: take missing='drop'"
        raise InvalidArgumentError(msg)


def _check_period(series: TimeOrder | None, dropped: int) -> None:
    """Refuse a period of rows of which some were left out, which moves those behind them."""
    if dropped and series is not None and series.period > 1:
        msg = (
            f"a period of {series.period} rows needs all rows, and {dropped:,} that miss a value "
            "would be left out: take missing='pairwise', or fill the gaps"
        )
        raise DataError(msg)
