"""What is known of all pairs of variables: frozen, and the same after a trip through JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dhsic import plots
from dhsic.nulls import adjust
from dhsic.results import (
    JsonValue,
    LandmarkSummary,
    Parts,
    PassSummary,
    Summarised,
    VariableSummary,
    one_of,
    rows_text,
    several_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DependenceMatrix"]

Vector = NDArray[np.float64]

_MATRICES = ("hsic", "cka", "pvalues")
_LEVEL = 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class DependenceMatrix(Summarised, JsonValue):
    """The dependence of all pairs of variables.

    Parameters
    ----------
    names : tuple of str
        Of the M variables.
    hsic : ndarray, shape (M, M)
        Squared HSIC of every pair; of a variable with itself on the diagonal.
    cka : ndarray, shape (M, M)
        HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)): 1 on the diagonal, 0 without dependence.
    pvalues : ndarray, shape (M, M)
        Of the independence of every pair, by itself; on the diagonal those that are as small as
        there can be.
    n : int
        Rows.
    variables : tuple of VariableSummary
        The variables with their kernels.
    landmarks : LandmarkSummary
        Of the features.
    precision : str
        Of the tiles.
    seed : int
        Fixes every draw.
    passes : tuple of PassSummary
        The passes over the data.
    seconds : float
        Wall time.
    version : str
        Of dhsic.
    null : str
        The null distribution.
    null_reason : str
        Why this one, and how it was made.
    dropped : int
        Rows that were left out because a value is missing.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 200))
    >>> found = dhsic.dependence_matrix(x, y, x + y, rng=0)
    >>> np.unravel_index(found.cka.argmin(), (3, 3))  # the pair that depends least
    (np.int64(0), np.int64(1))
    """

    _parts: ClassVar[Parts] = {
        "names": tuple,
        "variables": several_of(VariableSummary),
        "landmarks": one_of(LandmarkSummary),
        "passes": several_of(PassSummary),
    }

    names: tuple[str, ...]
    hsic: Vector
    cka: Vector
    pvalues: Vector
    n: int
    variables: tuple[VariableSummary, ...]
    landmarks: LandmarkSummary
    precision: str
    seed: int
    passes: tuple[PassSummary, ...]
    seconds: float
    version: str
    null: str = "spectral"
    null_reason: str = ""
    dropped: int = 0

    def __post_init__(self) -> None:
        for name in _MATRICES:
            matrix = np.array(getattr(self, name), dtype=np.float64)
            matrix.flags.writeable = False
            object.__setattr__(self, name, matrix)

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        m = len(self.names)
        above = np.triu_indices(m, 1)
        least = int(np.lexsort((-self.cka[above], self.pvalues[above]))[0])
        i, j = above[0][least], above[1][least]
        found = f"CKA {self.cka[i, j]:.4g}, p = {self.pvalues[i, j]:.4g} by itself"
        dependent = int((self.adjusted[above] <= _LEVEL).sum())
        return [
            ("variables", f"{m:,}, {_count(len(above[0]), 'pair')}"),
            ("n", rows_text(self.n, self.dropped)),
            ("strongest", f"{self.names[i]} and {self.names[j]}: {found}"),
            ("dependent", f"{_count(dependent, 'pair')} at level {_LEVEL:g}, by Holm"),
            ("null", f"{self.null}: {self.null_reason}" if self.null_reason else self.null),
            ("seed", str(self.seed)),
            ("time", f"{self.seconds:.2f} s, {_count(len(self.passes), 'pass')}, {self.precision}"),
        ]

    @property
    def adjusted(self) -> Vector:
        """P-values adjusted by Holm for all pairs of different variables, shape (M, M).

        At most alpha where independence is rejected with a probability of any error of at most
        alpha, whatever the dependence among the pairs. The diagonal is as in `pvalues`.
        """
        above = np.triu_indices(len(self.names), 1)
        adjusted = self.pvalues.copy()
        adjusted[above] = adjusted.T[above] = adjust(self.pvalues[above], "holm")
        return adjusted

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05) -> Axes:
        """Heat map of CKA, variables that depend side by side, see `dhsic.plots`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.
        alpha : float, optional
            The level above which a pair's adjusted p-value gives it a cross.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        MissingDependencyError
            matplotlib is not installed.
        """
        return plots.dependence_matrix(self, alpha=alpha, ax=ax)


def _count(number: int, noun: str) -> str:
    plural = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{plural}"
