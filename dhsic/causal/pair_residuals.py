"""Residuals of two variables, each given the other."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dhsic._drawing import BLUE, ORANGE, axes_of, shortened
from dhsic._random import RngLike, generator
from dhsic._validation import check_integer
from dhsic._version import __version__
from dhsic.causal.decisions import CausalDirection
from dhsic.causal.measure import Measure
from dhsic.causal.nodes import open_nodes
from dhsic.causal.regression import Regression, RegressionName, find_regression
from dhsic.errors import DataError
from dhsic.io.missing import Missing
from dhsic.results import Result, rows_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PairResiduals", "pair_residuals"]

Vector = NDArray[np.float64]


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
        one, two = self.names
        parts = {
            one: self.first,
            two: self.second,
            f"residual of {two}": self.of_second,
            f"residual of {one}": self.of_first,
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
        one, two = self.names
        return [
            ("residuals", f"{two} given {one}, and {one} given {two}"),
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
        one, two = (shortened(name, 24) for name in self.names)
        sides = (
            (one, two, self.first, self.of_second, BLUE),
            (two, one, self.second, self.of_first, ORANGE),
        )
        for cause, effect, values, left, color in sides:
            label = f"{effect} given {cause}"
            axes.scatter(values[:, 0], left[:, 0], s=8, alpha=0.5, color=color, label=label)
        axes.set(xlabel="the given variable, standardised", ylabel="residual")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="best", fontsize=9, frameon=False)
        return axes

    def decide(self, measure: Measure) -> CausalDirection:
        """Compare both directions.

        Parameters
        ----------
        measure : Measure
            Measure to compare.

        Returns
        -------
        CausalDirection
        """
        began = time.perf_counter()
        one, two = self.names
        measure, reason = measure.settled(self.first, self.second)
        forward = measure.side(self.first, self.of_second, (one, f"residuals of {two}"), self.seed)
        backward = measure.side(self.second, self.of_first, (two, f"residuals of {one}"), self.seed)
        return CausalDirection(
            names=self.names,
            score=measure.score(forward.side, backward.side),
            forward=forward.side,
            backward=backward.side,
            criterion=measure.criterion,
            estimator=forward.estimator,
            estimator_reason=reason,
            null=forward.null,
            regression=self.regression,
            n=len(self.first),
            seed=self.seed,
            seconds=time.perf_counter() - began,
            version=__version__,
            dropped=self.dropped,
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
        As for `direction`.

    Returns
    -------
    PairResiduals

    Raises
    ------
    InvalidArgumentError, DataError, MissingDependencyError
        As for `direction`.

    Examples
    --------
    >>> import numpy as np
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 200))
    >>> found = pair_residuals(x, np.tanh(x) + 0.2 * noise, rng=0)
    >>> found.decide(Measure(criterion="hsic", estimator="rff-hsic")).estimator
    'rff-hsic'
    """
    fitted = find_regression(regression)
    session = open_nodes((x, y), names, data, missing, rng)
    rows = np.arange(session.n)
    if max_rows is not None and check_integer("max_rows", max_rows, minimum=4) < session.n:
        draw = generator(session.seed, "selection")
        rows = np.sort(draw.choice(session.n, max_rows, replace=False))
    one, two = session.names
    first, second = (
        _standardised(name, values)
        for name, values in zip(session.names, session.take([rows, rows]), strict=True)
    )
    # The same draws for both, so that exchanged variables give the opposite answer.
    of_second, of_first = (
        fitted.residuals(target, [given], generator(session.seed, "regression"))
        for target, given in ((second, first), (first, second))
    )
    for left, target, given in ((of_second, two, one), (of_first, one, two)):
        _check_left(left, target, given)
    session.verify()
    return PairResiduals(
        (one, two), first, second, of_second, of_first, fitted.name, session.seed, session.dropped
    )


def _standardised(name: str, values: Vector) -> Vector:
    """Columns of mean 0 and variance 1."""
    centred = values - values.mean(axis=0)
    constant = np.flatnonzero((values == values[0]).all(axis=0))
    if len(constant):
        msg = f"variable {name!r} is constant in column {int(constant[0])}: leave the column out"
        raise DataError(msg)
    # By powers of two, which are exact, so that no square overflows or vanishes.
    _, exponents = np.frexp(np.abs(centred).max(axis=0))
    even = np.ldexp(centred, -exponents)
    scaled: Vector = even / np.sqrt(np.mean(even**2, axis=0))
    return scaled


def _check_left(residuals: Vector, target: str, given: str) -> None:
    """Refuse residuals that are rounding errors: of them nothing can be said."""
    if not np.sqrt(np.mean(residuals**2)) > math.sqrt(np.finfo(np.float64).eps):
        msg = (
            f"variable {target!r} must be a function of {given!r} with noise added, and the "
            "regression leaves none: such a pair tells no direction, leave it out"
        )
        raise DataError(msg)
