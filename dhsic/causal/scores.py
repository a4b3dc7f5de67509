"""The scores of causal graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from dhsic import plots
from dhsic._validation import check_number
from dhsic.causal.dags import DAG, Parents
from dhsic.results import PassSummary, Result, Sketch, StoredArraySummary, rows_text, time_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 5
_MOST = 30
_LEVEL = 0.05


class ScoredDAG(NamedTuple):
    """A graph and how independent the residuals are that it leaves.

    Parameters
    ----------
    dag : DAG
        The graph.
    statistic : float
        Statistic of the test that the residuals of all nodes are jointly independent.
    pvalue : float
        P-value of that test.

    References
    ----------
    .. [1] J. Peters, J. Mooij, D. Janzing, B. Schoelkopf. Causal discovery with continuous
       additive noise models. Journal of Machine Learning Research 15, 2014.

    Examples
    --------
    >>> from dhsic.causal import DAG, ScoredDAG
    >>> ScoredDAG(DAG(("a", "b"), ((), (0,))), 0.4, 0.3).dag.edges
    (('a', 'b'),)
    """

    dag: DAG
    statistic: float
    pvalue: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DAGScores(Result):
    """Causal graphs, scored by the joint independence of the residuals that each leaves.

    Parameters
    ----------
    names : tuple of str
        Names of the nodes.
    parents : tuple of Parents
        For every graph the numbers of the parents of every node.
    statistics : tuple of float
        Statistics of every graph.
    pvalues : tuple of float
        P-values of every graph; approximate, since residuals are estimated.
    n : int
        Rows.
    kernels : tuple of str
        Kernels of the residuals of every node, as asked for.
    regression : str
        How nodes were regressed on their parents.
    n_regressions : int
        How many regressions the graphs shared.
    estimator : str
        Estimator of the dependence.
    estimator_reason : str
        Why this one.
    null : str
        How its null distribution was made.
    null_reason : str
        Why this one.
    precision : str
        Precision of the tiles; sums are float64 always.
    seed : int
        Fixes every draw.
    passes : tuple of PassSummary
        The passes over the data.
    seconds : float
        Wall time.
    version : str
        Version of dhsic.
    dropped : int
        Rows that were left out since a value was missing.
    data : tuple of StoredArraySummary
        The stored arrays, the same at the end of the run as at its start.

    References
    ----------
    .. [1] J. Peters, J. Mooij, D. Janzing, B. Schoelkopf. Causal discovery with continuous
       additive noise models. Journal of Machine Learning Research 15, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.causal import DAGScores, score_dags
    >>> x, noise = np.random.default_rng(0).uniform(-1.0, 1.0, (2, 300))
    >>> scores = score_dags(x, x + x**3 + noise, names=("x", "y"), rng=0)
    >>> print(scores.best.dag)
    x -> y
    >>> [str(one.dag) for one in scores.accepted(0.05)]
    ['x -> y']
    >>> DAGScores.from_json(scores.to_json()) == scores
    True
    """

    _tabular: ClassVar[bool] = True
    _leading: ClassVar[int] = 1

    names: tuple[str, ...]
    parents: tuple[Parents, ...]
    statistics: tuple[float, ...]
    pvalues: tuple[float, ...]
    n: int
    kernels: tuple[str, ...]
    regression: str
    n_regressions: int
    estimator: str
    estimator_reason: str
    null: str
    null_reason: str
    precision: str
    seed: int
    passes: tuple[PassSummary, ...]
    seconds: float
    version: str
    dropped: int = 0
    data: tuple[StoredArraySummary, ...] = ()

    def __len__(self) -> int:
        return len(self.parents)

    def __getitem__(self, number: int) -> ScoredDAG:
        # Made when it is asked for: there may be 29,281 of them.
        dag = DAG(self.names, self.parents[number])
        return ScoredDAG(dag, self.statistics[number], self.pvalues[number])

    def __iter__(self) -> Iterator[ScoredDAG]:
        return (self[number] for number in range(len(self)))

    @property
    def ranked(self) -> tuple[ScoredDAG, ...]:
        """All graphs, the largest p-value first; of equal ones the smallest statistic."""
        return tuple(self[number] for number in self._order)

    @property
    def best(self) -> ScoredDAG:
        """The graph of the largest p-value."""
        return self[self._order[0]]

    def accepted(self, alpha: float = 0.05) -> tuple[ScoredDAG, ...]:
        """Graphs that are not rejected at a level, the largest p-value first.

        Parameters
        ----------
        alpha : float, optional
            The level of every single test.

        Returns
        -------
        tuple of ScoredDAG

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        """
        level = check_number(
            "alpha", alpha, "greater than 0 and less than 1", lambda x: 0.0 < x < 1.0, "as 0.05"
        )
        return tuple(self[number] for number in self._order if self.pvalues[number] > level)

    def minimal(self, alpha: float = 0.05) -> tuple[ScoredDAG, ...]:
        """Graphs not rejected at a level that contain no other such graph.

        More parents than a node has leave its residual independent as well, so that whatever
        contains the true graph is accepted with it.

        Parameters
        ----------
        alpha : float, optional
            The level of every single test.

        Returns
        -------
        tuple of ScoredDAG
            The largest p-value first.

        Raises
        ------
        InvalidArgumentError
            The level is not between 0 and 1.
        """
        accepted = self.accepted(alpha)
        least: list[set[tuple[str, str]]] = []
        # Small graphs first: a larger one that holds one of them is not minimal.
        for edges in sorted((set(graph.dag.edges) for graph in accepted), key=len):
            if not any(fewer <= edges for fewer in least):
                least.append(edges)
        return tuple(graph for graph in accepted if set(graph.dag.edges) in least)

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05, most: int = _MOST) -> Axes:
        """Bars of the p-values beside the best graph, see `dhsic.plots.dag_scores`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw the bars; a new figure, with the graph beside them, where not given.
        alpha : float, optional
            The level, drawn as a line.
        most : int, optional
            Bars to draw, of the largest p-values.

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
        ranked = self._order
        return plots.dag_scores(
            [self.pvalues[number] for number in ranked],
            [self.parents[number] for number in ranked],
            self.names,
            alpha=alpha,
            most=most,
            ax=ax,
        )

    def records(self) -> list[dict[str, Any]]:
        """Every graph, the largest p-value first."""
        return [
            {
                "rank": place,
                "graph": str(graph.dag),
                "edges": len(graph.dag.edges),
                "statistic": graph.statistic,
                "pvalue": graph.pvalue,
            }
            for place, graph in enumerate(self.ranked, 1)
        ]

    def _sketches(self) -> Sequence[Sketch]:
        words = "Bars of the p-values of the graphs, the largest first."
        return [Sketch.of_bars(self.plot, words, min(len(self), _MOST))]

    @property
    def _order(self) -> list[int]:
        # P-values of replicates tie at their smallest and at 1; statistics go on to tell them
        # apart.
        return sorted(range(len(self)), key=lambda c: (-self.pvalues[c], self.statistics[c]))

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        kept = sum(p > _LEVEL for p in self.pvalues)
        return [
            ("nodes", f"{', '.join(self.names)}; n = {rows_text(self.n, self.dropped, self.data)}"),
            ("best", _score_line(self.best)),
            ("accepted", f"{kept:,} of {len(self):,} graphs are not rejected at level 5 %"),
            *(("minimal", _score_line(graph)) for graph in self.minimal(_LEVEL)[:_SHOWN]),
            ("regression", f"{self.regression}, {self.n_regressions:,} in all"),
            ("statistic", f"{self.estimator}: {self.estimator_reason}"),
            ("null", f"{self.null}: {self.null_reason}"),
            ("caution", "p-values are approximate: the residuals are estimated"),
            ("seed", str(self.seed)),
            ("time", time_text(self.seconds, len(self.passes), self.precision)),
        ]


def _score_line(graph: ScoredDAG) -> str:
    return f"{graph.dag}  (p = {graph.pvalue:.4g})"
