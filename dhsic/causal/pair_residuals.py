"""Residuals of two variables, each given the other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import session_over
from dhsic._drawing import BLUE, ORANGE, axes_of, shortened
from dhsic._random import RngLike
from dhsic._version import __version__
from dhsic.causal.decisions import CausalDirection
from dhsic.causal.directed import Directed
from dhsic.causal.measure import MeasuredSide, ResidualMeasure
from dhsic.causal.nodes import open_nodes
from dhsic.engine.blocks import read_whole
from dhsic.io.missing import Missing
from dhsic.io.sources import ArraySource
from dhsic.regression.residuals import Regression, RegressionName, find_regression
from dhsic.results import Result, rows_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector = NDArray[np.float64]

# The rows are held and few, so that the comparison runs here.
_HERE: dict[str, Any] = {
    "precision": "float64",
    "client": None,
    "threads": None,
    "memory": "2GiB",
    "progress": None,
}


@dataclass(frozen=True, eq=False, repr=False)
class PairResiduals(Result):
    """Two standardised variables, and what the regression of each on the other leaves.

    Parameters
    ----------
    names : tuple of str
        Names of the variables.
    first, second : ndarray, shapes (n, d_1) and (n, d_2)
        The variables, each column of mean 0 and variance 1.
    of_second : ndarray, shape (n, d_2)
        Residuals of the second given the first: the direction forward.
    of_first : ndarray, shape (n, d_1)
        Residuals of the first given the second: the direction backward.
    regression : str
        Its name.
    seed : int
        Fixes every draw.
    dropped : int, optional
        Rows that were left out since a value was missing.
    """

    _tabular: ClassVar[bool] = True

    names: tuple[str, str]
    first: Vector
    second: Vector
    of_second: Vector
    of_first: Vector
    regression: str
    seed: int
    dropped: int = 0

    def records(self) -> list[dict[str, Any]]:
        """Every row: both variables, and the residuals of each."""
        first, second = self.names
        parts = {
            first: self.first,
            second: self.second,
            f"residual of {second}": self.of_second,
            f"residual of {first}": self.of_first,
        }
        columns = {
            name if values.shape[1] == 1 else f"{name}[{j}]": column.tolist()
            for name, values in parts.items()
            for j, column in enumerate(values.T)
        }
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        first, second = self.names
        return [
            ("residuals", f"{second} given {first}, and {first} given {second}"),
            ("regression", self.regression),
            ("n", rows_text(len(self.first), self.dropped)),
            ("seed", str(self.seed)),
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Residuals of either first column against that of the other variable.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        MissingDependencyError
            matplotlib is not installed.
        """
        axes = axes_of(ax, (6.0, 4.2))
        first, second = (shortened(name, 24) for name in self.names)
        sides = (
            (first, second, self.first, self.of_second, BLUE),
            (second, first, self.second, self.of_first, ORANGE),
        )
        for cause, effect, values, left, color in sides:
            label = f"{effect} given {cause}"
            axes.scatter(values[:, 0], left[:, 0], s=8, alpha=0.5, color=color, label=label)
        axes.set(xlabel="the given variable, standardised", ylabel="residual")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="best", fontsize=9, frameon=False)
        return axes

    def decide(self, measure: ResidualMeasure) -> CausalDirection:
        """Compare both directions.

        Parameters
        ----------
        measure : ResidualMeasure
            Measure to compare.

        Returns
        -------
        CausalDirection
        """
        began = time.perf_counter()
        first, second = self.names
        sides = (
            (first, self.first, f"residuals of {second}", self.of_second),
            (second, self.second, f"residuals of {first}", self.of_first),
        )
        # Two sessions over variables in memory: each measures residuals of one direction.
        forward, backward = (
            session_over([ArraySource(cause, x), ArraySource(effect, left)], self.seed, **_HERE)
            for cause, x, effect, left in sides
        )
        settled, reason = measure.settled(forward)
        return decided(
            settled.side(forward),
            settled.side(backward),
            settled,
            names=self.names,
            estimator_reason=reason,
            regression=self.regression,
            n=len(self.first),
            seed=self.seed,
            seconds=time.perf_counter() - began,
            dropped=self.dropped,
        )


def decided(
    forward: MeasuredSide, backward: MeasuredSide, measure: ResidualMeasure, **fields: Any
) -> CausalDirection:
    """The result that compares both sides, with other fields of it."""
    # Positive where the first variable is the cause.
    return CausalDirection(
        score=measure.score(forward.side, backward.side),
        forward=forward.side,
        backward=backward.side,
        criterion=measure.criterion,
        estimator=forward.estimator,
        null=forward.null,
        version=__version__,
        **fields,
    )


def pair_residuals(
    x: Any,
    y: Any,
    *,
    regression: RegressionName | Regression = "splines",
    max_rows: int | None = None,
    rng: RngLike = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
) -> PairResiduals:
    """Residuals of either variable given the other, for `PairResiduals.decide` by several measures.

    Parameters
    ----------
    x, y, regression, max_rows, rng, names, data, missing
        As for `direction`; all rows where `max_rows` is not given.

    Returns
    -------
    PairResiduals
        Held in memory.

    Raises
    ------
    InvalidArgumentError, DataError, MissingDependencyError
        As for `direction`.

    Examples
    --------
    >>> import numpy as np
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 200))
    >>> found = pair_residuals(x, np.tanh(x) + 0.2 * noise, rng=0)
    >>> found.decide(ResidualMeasure(criterion="hsic", estimator="rff-hsic")).estimator
    'rff-hsic'
    """
    fitted = find_regression(regression)
    session = open_nodes((x, y), names, data, missing, rng)
    run = Directed(session, fitted, ResidualMeasure())
    # Nothing is measured yet that would have to fit the memory, so that all rows are taken.
    rows = run.rows(session.n if max_rows is None else max_rows).number
    variables, residuals = run.residuals(rows)
    # Held, since several measures read them, and a regression is the slow part.
    first, second, of_second, of_first = map(read_whole, (*variables, *residuals))
    session.verify()
    x_name, y_name = session.names
    return PairResiduals(
        (x_name, y_name),
        first,
        second,
        of_second,
        of_first,
        fitted.name,
        session.seed,
        session.dropped,
    )
