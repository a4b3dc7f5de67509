"""Result for all pairs of variables: frozen, and the same after a trip through JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dhsic import plots
from dhsic.engine.units import format_count
from dhsic.nulls import adjust
from dhsic.results import (
    MOST_SHIFTS,
    Findings,
    LandmarkSummary,
    PassSummary,
    Result,
    Sketch,
    StoredArraySummary,
    VariableSummary,
    floor_text,
    is_least,
    rows_text,
    time_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Vector = NDArray[np.float64]

_LEVEL = 0.05
_RESAMPLES_OF_PAIR = 40  # which leave 0.025 for the smallest p-value by Holm


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DependenceMatrix(Result):
    """The dependence of all pairs of variables.

    Parameters
    ----------
    names : tuple of str
        Names of the M variables.
    hsic : ndarray, shape (M, M)
        Squared HSIC of every pair; of a variable with itself on the diagonal.
    cka : ndarray, shape (M, M)
        HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)), both terms less the mean of HSIC(x, y) over all
        permutations, or over the replicates with `strata`, `groups` or `order`: 1 on the diagonal,
        0 on average without dependence.
    pvalues : ndarray, shape (M, M)
        P-values of the independence of every pair, by itself; on the diagonal those that are as
        small as there can be.
    n : int
        Rows.
    variables : tuple of VariableSummary
        The variables with their kernels.
    landmarks : LandmarkSummary
        Landmarks of the features.
    precision : str
        Precision of the tiles.
    seed : int
        Fixes every draw.
    passes : tuple of PassSummary
        The passes over the data.
    seconds : float
        Wall time.
    version : str
        Version of dhsic.
    null : str
        The null distribution.
    null_reason : str
        Why this one, and how it was made.
    dropped : int
        Rows that were left out because a value is missing.
    data : tuple of StoredArraySummary
        The stored arrays, the same at the end of the run as at its start.
    missing : tuple of int
        Rows in which each variable misses a value and which stay, by ``missing="pairwise"``; empty
        where there are none.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 4.1.
    .. [2] C. Cortes, M. Mohri, A. Rostamizadeh. Algorithms for learning kernels based on centered
       alignment. JMLR 13, 2012, definition 4, for CKA.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 200))
    >>> found = dhsic.dependence_matrix(x, y, x + y, rng=0)
    >>> np.unravel_index(found.cka.argmin(), (3, 3))  # the pair that depends least
    (np.int64(0), np.int64(1))
    """

    _tabular: ClassVar[bool] = True

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
    data: tuple[StoredArraySummary, ...] = ()
    missing: tuple[int, ...] = ()

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        m = len(self.names)
        above = np.triu_indices(m, 1)
        # The last key of lexsort is the first that counts: equal p-values are told apart by CKA.
        least = int(np.lexsort((-self.cka[above], self.pvalues[above]))[0])
        i, j = above[0][least], above[1][least]
        # No replicate reaches the statistic of a variable with itself: 1 / (b + 1).
        count = round(1.0 / float(self.pvalues.diagonal().min())) - 1
        p = float(self.pvalues[i, j])
        # A law has no smallest p-value.
        limited = self.null == "shifts" and is_least(p, count)
        told = floor_text(count, reason=self.null_reason)
        compared = f"<= {p:.4g} ({told})" if limited else f"= {p:.4g} by itself"
        measured = f"CKA {self.cka[i, j]:.4g}, p {compared}"
        dependent = int((self.adjusted[above] <= _LEVEL).sum())
        attainable = self._attainable(_LEVEL)
        return [
            ("variables", f"{m:,}, {format_count(len(above[0]), 'pair')}"),
            ("n", rows_text(self.n, self.dropped, self.data, self.missing)),
            ("strongest", f"{self.names[i]} and {self.names[j]}: {measured}"),
            ("dependent", f"{format_count(dependent, 'pair')} at level {_LEVEL:g}, by Holm"),
            *([("p-values", attainable)] if attainable else []),
            ("null", f"{self.null}: {self.null_reason}" if self.null_reason else self.null),
            ("seed", str(self.seed)),
            ("time", time_text(self.seconds, len(self.passes), self.precision)),
        ]

    def records(self) -> list[dict[str, Any]]:
        """Every pair of different variables, the strongest first."""
        first, second = above = np.triu_indices(len(self.names), 1)
        # As in the summary: by p-value, and CKA where replicates end.
        order = np.lexsort((-self.cka[above], self.pvalues[above]))
        matrices = {
            "hsic": self.hsic,
            "cka": self.cka,
            "pvalue": self.pvalues,
            "pvalue_holm": self.adjusted,
        }
        columns = {
            "first": [self.names[i] for i in first[order]],
            "second": [self.names[j] for j in second[order]],
            **{name: matrix[above][order].tolist() for name, matrix in matrices.items()},
        }
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    @property
    # Without making the records, of which a large matrix has many.
    def _n_records(self) -> int:
        return len(self.names) * (len(self.names) - 1) // 2

    def findings(self, alpha: float, control: str) -> Findings:
        del control
        pairs = self.records()
        dependent = sum(pair["pvalue_holm"] <= alpha for pair in pairs)
        count = format_count(len(pairs), "pair")
        lead = f"{dependent:,} of {count} depend at level {alpha:g}, by Holm"
        size = min(3.0 + 0.3 * len(self.names), 12.0)
        sketch = Sketch(
            lambda ax: self.plot(ax, alpha=alpha),
            "Heat map of CKA of all pairs; pairs that are not significant have a cross.",
            (max(size, 5.0), max(0.85 * size, 4.2)),
        )
        title = f"Dependence of {format_count(len(self.names), 'variable')}, in pairs"
        notes = [f"P-values: {attainable}."] if (attainable := self._attainable(alpha)) else []
        return Findings(title, lead, [sketch], {"Pairs": pairs}, notes)

    @property
    def least_adjusted(self) -> float:
        """The smallest adjusted p-value that replicates can attain; 0 of a limit law.

        It is the number of pairs over that of replicates with the data among them, 1 at most: more
        of them, `n_resamples`, make it smaller.
        """
        if self.null != "shifts":
            return 0.0
        return min(1.0, self._n_records * float(self.pvalues.diagonal().min()))

    def _attainable(self, alpha: float) -> str:
        """The smallest adjusted p-value and what makes it smaller; empty for a limit law."""
        least = self.least_adjusted
        if not least:
            return ""
        count = round(1.0 / float(self.pvalues.diagonal().min()))
        text = f"{least:.3g} at least when adjusted, by {count - 1:,} replicates"
        if least > alpha:
            text += f", so that no pair can be rejected at level {alpha:g}"
        if MOST_SHIFTS in self.null_reason:
            return f"{text}; a longer series has more shifts, which give smaller ones"
        more = max(10 * count, _RESAMPLES_OF_PAIR * self._n_records)
        law = "or of freely exchangeable rows null='spectral'"
        return f"{text}; n_resamples={more:,} gives smaller ones, {law}"

    @property
    def adjusted(self) -> Vector:
        """P-values adjusted by Holm for all pairs of different variables, shape (M, M).

        At most alpha where independence is rejected with a probability of any error of at most
        alpha, whatever the dependence among the pairs. The diagonal is as in `pvalues`.
        """
        above = np.triu_indices(len(self.names), 1)
        adjusted = self.pvalues.copy()
        # The diagonal is no hypothesis, and must not count among the pairs.
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
        return plots.dependence_heatmap(self, alpha=alpha, ax=ax)
