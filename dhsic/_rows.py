"""Arguments about rows: labels of strata and groups, order and weights."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from dhsic.errors import InvalidArgumentError
from dhsic.nulls import TimeOrder
from dhsic.statistics.exchangeable import check_order

Order = Literal["time"] | TimeOrder


class RowLabels(NamedTuple):
    """Strata, groups, order and weights of the rows, see `dhsic.independence_test`."""

    strata: Any = None
    groups: Any = None
    order: Order | None = None
    weights: Any = None

    @property
    def given(self) -> dict[str, Any]:
        """Those that have one a row, by their arguments."""
        each = {"strata": self.strata, "groups": self.groups, "weights": self.weights}
        return {what: labels for what, labels in each.items() if labels is not None}

    def checked(self, missing: str) -> TimeOrder | None:
        """The order, where none of them excludes another, whatever the data are."""
        beside = [what for what in self.given if what != "weights"]
        beside += ["order"] if self.order is not None else []
        if self.weights is not None and beside:
            msg = (
                f"weights need independent draws, got {' and '.join(beside)} as well: leave "
                "out the weights, or the others"
            )
            raise InvalidArgumentError(msg)
        if self.weights is not None and missing == "pairwise":
            msg = "weights need complete rows, got missing='pairwise' as well: take missing='drop'"
            raise InvalidArgumentError(msg)
        return check_order(self.order, strata=self.strata is not None)


ALL_ROWS = RowLabels()
