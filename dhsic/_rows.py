"""Arguments about rows: labels of strata and groups, order and weights."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from dhsic._validation import check_level
from dhsic.errors import InvalidArgumentError
from dhsic.nulls import TimeOrder
from dhsic.statistics.orbit import check_order

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

    def check_confidence(self, confidence: float | None, minimum: float | None = None) -> None:
        """Refuse a level or a minimum that is none, or intervals of rows that depend or weigh.

        Raises
        ------
        InvalidArgumentError
            Says which.
        """
        levels = ("confidence", confidence, "as 0.95"), ("minimum", minimum, "as 0.04")
        asked = [what for what, value, _ in levels if value is not None]
        for what, value, usual in levels:
            if value is not None:
                check_level(value, what, usual)
        # Rows of a stratum are standardised together: with strata of two rows 63 % of intervals of
        # 95 % held the truth.
        each = {"order": self.order, **self.given}
        given = [what for what, value in each.items() if value is not None]
        if asked and given:
            msg = (
                f"intervals are for independent rows that count alike, got {' and '.join(given)} "
                f"beside {' and '.join(asked)}: leave either out"
            )
            raise InvalidArgumentError(msg)


ALL_ROWS = RowLabels()
