"""Score causal graphs, or search one, by the independence of the residuals that they leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from dhsic import plots
from dhsic._arguments import Precision
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike
from dhsic._validation import check_choice, check_number, named_arguments
from dhsic._version import __version__
from dhsic.causal.dags import DAG, Parents, complete_dags, enumerate_dags
from dhsic.causal.nodes import open_nodes
from dhsic.engine.blocks import Source
from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import VHSIC, Estimator, Null, NullName, NystromMHSIC, find_null
from dhsic.estimators.base import passes_of, plan_of
from dhsic.estimators.choose import choose_among
from dhsic.estimators.reach import plan_once, planned
from dhsic.io.missing import Missing
from dhsic.io.variables import joined_source
from dhsic.kernels import Combinations, Kernel, KernelName, OnColumns, parse
from dhsic.nulls import Distribution, Gamma, Permutation, Replicates, Resampling, Spectral, pvalue
from dhsic.regression.residuals import (
    HeldRegressions,
    Regression,
    RegressionName,
    Regressions,
    StreamedRegressions,
    described_regression,
    find_regression,
    fit_regressions,
    plan_regressions,
)
from dhsic.results import (
    AS_ASKED,
    PassSummary,
    Result,
    Sketch,
    StoredArraySummary,
    rows_text,
    time_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 5
_MOST = 30
_LEVEL = 0.05
# There are 29,281 graphs of five nodes, and 3,781,503 of six.
MOST_NODES = 5

DependenceMeasure = VHSIC | NystromMHSIC
MeasureName = Literal["auto", "v-hsic", "nystrom-m"]
"""Estimators whose test takes two or more variables and several graphs at a time."""

_VHSIC_ROWS = 2000
_VHSIC_ROWS_OF_MANY = 10_000
_MANY_GRAPHS = 100
_REMEDY = "take fewer nodes or graphs, n_knots, landmarks or threads, or regression='splines'"
_LEVELS = "greater than 0 and less than 1", lambda x: 0.0 < x < 1.0, "as 0.05"


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
        level = check_number("alpha", alpha, *_LEVELS)
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


class SearchTest(NamedTuple):
    """A test of the search."""

    node: str
    """Whose residual was tested."""
    given: tuple[str, ...]
    """Names of its regressors."""
    statistic: float
    """Statistic of the dependence of the residual and the nodes before, or beside, this one."""
    pvalue: float
    """P-value of the test that they are independent."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DAGSearch(Result):
    """A causal graph that was searched, and the tests on the way.

    Parameters
    ----------
    names : tuple of str
        Names of the nodes.
    parents : Parents
        Numbers of the parents of every node in the graph that was found.
    order : tuple of str
        The nodes, causes before effects.
    ordering : tuple of SearchTest
        One for every node at every step of the first phase: the node of the largest p-value of a
        step comes last among those that are left.
    pruning : tuple of SearchTest
        One for every edge of the second phase, which was dropped where the p-value is above alpha.
    alpha : float
        The level of the second phase.
    statistic, pvalue : float
        Statistic and p-value of the test that the residuals of the graph are jointly independent;
        approximate, since they are estimated, and the graph was chosen by them.
    n : int
        Rows.
    regression : str
        How nodes were regressed.
    estimator : str
        Estimator of the test of all residuals.
    null : str
        How its null distribution was made.
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
    estimator_reason : str
        Why this one in the test of all residuals, with fewer landmarks than usual where the usual
        ones do not fit; the tests on the way choose in the same manner.

    References
    ----------
    .. [1] J. Peters, J. Mooij, D. Janzing, B. Schoelkopf. Causal discovery with continuous
       additive noise models. Journal of Machine Learning Research 15, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.causal import search_dag
    >>> x, noise = np.random.default_rng(0).uniform(-1.0, 1.0, (2, 200))
    >>> found = search_dag(x, noise + x**2, names=("x", "y"), rng=0)
    >>> found.order, len(found.ordering), len(found.pruning)
    (('x', 'y'), 2, 1)
    """

    _tabular: ClassVar[bool] = True

    names: tuple[str, ...]
    parents: Parents
    order: tuple[str, ...]
    ordering: tuple[SearchTest, ...]
    pruning: tuple[SearchTest, ...]
    alpha: float
    statistic: float
    pvalue: float
    n: int
    regression: str
    estimator: str
    null: str
    precision: str
    seed: int
    passes: tuple[PassSummary, ...]
    seconds: float
    version: str
    dropped: int = 0
    data: tuple[StoredArraySummary, ...] = ()
    estimator_reason: str = AS_ASKED

    @property
    def dag(self) -> DAG:
        """The graph that was found."""
        return DAG(self.names, self.parents)

    def records(self) -> list[dict[str, Any]]:
        """Every test on the way, first those of the order and then those of the edges."""
        phases = (("order", self.ordering), ("edges", self.pruning))
        return [
            {"phase": phase, **test._asdict(), "given": ", ".join(test.given)}
            for phase, tests in phases
            for test in tests
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the graph, see `dhsic.plots.causal_graph`.

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
        return plots.causal_graph(self.parents, self.names, ax=ax)

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        count = len(self.ordering) + len(self.pruning)
        n = rows_text(self.n, self.dropped, self.data)
        return [
            ("graph", str(self.dag)),
            ("order", ", ".join(self.order)),
            ("residuals", f"p = {self.pvalue:.4g} of their joint independence, approximate"),
            ("tests", f"{count:,}, edges dropped at level {self.alpha:g}; n = {n}"),
            ("regression", self.regression),
            ("statistic", f"{self.estimator}: {self.estimator_reason}"),
            ("null", self.null),
            ("seed", str(self.seed)),
            ("time", time_text(self.seconds, len(self.passes), self.precision)),
        ]


@named_arguments
@shows_progress
def score_dags(
    *variables: Any,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    dags: str | Sequence[DAG] = "all",
    regression: RegressionName | Regression = "splines",
    kernels: KernelName | str | Kernel | Sequence[KernelName | str | Kernel] = "gaussian",
    estimator: MeasureName | DependenceMeasure = "auto",
    null: NullName | Null = "auto",
    n_resamples: int | None = None,
    rng: RngLike = None,
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    time: float | str | None = None,
    progress: Progress = None,
    checkpoint: str | None = None,
) -> DAGScores:
    """Score every causal graph over up to five nodes [1]_ [2]_.

    Where every node is a smooth function of its parents plus noise, and the noise of all nodes is
    jointly independent, the residuals of every node given its parents in the graph are jointly
    independent. A graph is scored by the p-value of the test that they are. The graph of the
    largest p-value is the best; those that are not rejected explain the data as well at a level.

    Regressions are shared, one for each node and set of parents, and so are the kernels of their
    residuals. With splines one pass over the rows fits all regressions, and residuals are computed
    when they are read: data may be larger than memory.

    P-values are approximate. Residuals are estimated from the rows that are tested, so that the
    test does not keep its level exactly: an error of the regression that is not small beside
    n^-1/2 makes residuals dependent, and true graphs are then rejected; fitting many coefficients
    to few rows does the opposite. `Splines(n_folds=5)` and `CrossFitted` take each residual from a
    fit that has not seen its row. Compare p-values of graphs rather than trust each.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        The nodes, two to five, as for `dhsic.independence_test`; or one of two columns or more,
        each of which is a node.
    names : sequence of str, optional
        Names of the nodes.
    data, missing
        As for `dhsic.independence_test`.
    dags : "all", "complete" or sequence of DAG, optional
        Graphs to score: all (3, 25, 543, 29,281 for 2, 3, 4, 5 nodes), the fully connected ones,
        or these.
    regression : str or Regression, optional
        "splines", "random-forest", "gaussian-process", or a value such as `Splines(n_folds=5)`.
        Those but splines take all rows into the memory of this process.
    kernels : str, Kernel or a sequence of them, optional
        Kernels of residuals: one for all nodes, or one a node.
    estimator : {"auto", "v-hsic", "nystrom-m"}, VHSIC or NystromMHSIC, optional
        "auto" takes all pairs of rows for up to 2,000 rows, 10,000 where more than 100 graphs
        share them, and landmarks beyond.
    null : str, Gamma, Spectral, Shifts or Permutation, optional
        "auto" takes "gamma", whose p-values have no smallest step, so that graphs can be compared;
        and permutations that graphs share where `n_resamples` is given.
    n_resamples : int, optional
        Replicates, where the null has any.
    rng, precision, client, threads, memory, time, progress, checkpoint
        As for `dhsic.independence_test`.

    Returns
    -------
    DAGScores

    Raises
    ------
    InvalidArgumentError
        More than five nodes, or an option that cannot be used.
    DataError
        The data cannot be used: NaN, unequal lengths, a constant column, too few rows.
    MemoryBudgetError
        The plan needs more memory than allowed.

    References
    ----------
    .. [1] N. Pfister, P. Buehlmann, B. Schoelkopf, J. Peters. Kernel-based tests for joint
       independence. JRSS B 80, 2018, section 5.
    .. [2] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023,
       section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.causal import score_dags
    >>> rng = np.random.default_rng(0)
    >>> a, b, c = rng.uniform(-1.0, 1.0, (3, 300))
    >>> b += 2.0 * a**2
    >>> c += np.tanh(2.0 * b)
    >>> scores = score_dags(a, b, c, names=("a", "b", "c"), rng=0)
    >>> len(scores), "a -> b, b -> c" in [str(one.dag) for one in scores.accepted()]
    (25, True)
    """
    began = perf_counter()
    place = client, threads, memory, progress, checkpoint
    # More nodes are refused before anything is read: their graphs outgrow any memory.
    session = open_nodes(
        variables, names, data, missing, rng, precision, *place, time=time, most=MOST_NODES
    )
    graphs = _read_dags(dags, session.names)
    regressor = find_regression(regression)
    # A regression is one of a node on a set of parents, and serves all graphs that have both.
    sets = {j: _sets_of(j, graphs) for j in range(len(session.sources))}
    kernel_of = kernels_of_nodes(kernels, session)
    combinations = _combinations(graphs, sets, session.dims, kernel_of)
    method = choose_residual_test(session, estimator, null, n_resamples, len(graphs))
    told = {"computes": "causal graph scores", "graphs": graphs, "kernels": kernel_of}
    fitted = _begin(session, regressor, sets, method, **told)
    tested = session.over(fitted.variables(sets), "residuals")
    # Only now: which estimator fits depends on the kernels of residuals, a set of parents each.
    method = method.on(tested, combinations)
    tested.begin(method.plan(tested, combinations))
    scores = method.test(tested, combinations)
    return DAGScores(
        **_run_fields(session, regressor, began),
        parents=graphs,
        statistics=tuple(score.statistic for score in scores),
        pvalues=tuple(score.pvalue for score in scores),
        kernels=tuple(kernel.spec() for kernel in kernel_of),
        n_regressions=sum(map(len, sets.values())),
        estimator=method.estimator.name,
        estimator_reason=method.estimator_reason,
        null=method.null.name,
        null_reason=method.null_reason,
    )


@named_arguments
@shows_progress
def search_dag(
    *variables: Any,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: Missing = "refuse",
    alpha: float = 0.05,
    regression: RegressionName | Regression = "splines",
    kernels: KernelName | str | Kernel | Sequence[KernelName | str | Kernel] = "gaussian",
    estimator: MeasureName | DependenceMeasure = "auto",
    null: NullName | Null = "auto",
    n_resamples: int | None = None,
    rng: RngLike = None,
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    time: float | str | None = None,
    progress: Progress = None,
    checkpoint: str | None = None,
) -> DAGSearch:
    """Search a causal graph by regression with subsequent independence test, RESIT [1]_.

    First an order: of the nodes that are left, the one whose residual given all others depends on
    these the least has no effect among them; it is taken away, and so on. Then the edges: a parent
    of a node is dropped where the residual of the node without it is still independent of all
    nodes before. For p nodes that is p (p + 1) / 2 - 1 tests and up to p (p - 1) / 2 more. With
    splines all regressions come from one pass over the rows.

    P-values are approximate, as in `score_dags`; the order needs no level, the edges do. Where
    the residuals of the graph that is found are dependent, its assumptions do not hold.

    Parameters
    ----------
    *variables : array-like, shapes (n,) or (n, d_m)
        The nodes, two or more, as for `dhsic.independence_test`; or one of two columns or more,
        each of which is a node.
    names : sequence of str, optional
        Names of the nodes.
    data, missing
        As for `dhsic.independence_test`.
    alpha : float, optional
        An edge is dropped where the p-value without it is larger.
    regression : str or Regression, optional
        As for `score_dags`.
    kernels : str, Kernel or a sequence of them, optional
        Kernels of residuals: one for all nodes, or one a node. The nodes that a residual is tested
        against have a Gaussian kernel of all, in units of their standard deviations.
    estimator, null, n_resamples, rng, precision
        As for `score_dags`.
    client, threads, memory, time, progress, checkpoint
        As for `score_dags`. Tests share the time equally.

    Returns
    -------
    DAGSearch

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `score_dags`.

    References
    ----------
    .. [1] J. Peters, J. Mooij, D. Janzing, B. Schoelkopf. Causal discovery with continuous
       additive noise models. JMLR 15, 2014, algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.causal import search_dag
    >>> a, b, c = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 300))
    >>> b += 2.0 * a**2
    >>> c += np.tanh(2.0 * b)
    >>> print(search_dag(a, b, c, names=("a", "b", "c"), rng=0).dag)
    a -> b, b -> c
    """
    began = perf_counter()
    level = check_number("alpha", alpha, *_LEVELS)
    place = client, threads, memory, progress, checkpoint
    session = open_nodes(variables, names, data, missing, rng, precision, *place, time=time)
    everything = tuple(range(len(session.sources)))
    regressor = find_regression(regression)
    kernel_of = kernels_of_nodes(kernels, session)
    method = choose_residual_test(session, estimator, null, n_resamples, 1)
    # One design over all nodes has the sums of every regression that the search may ask for.
    wanted = {j: [tuple(k for k in everything if k != j)] for j in everything}
    told = {"computes": "causal graph search", "alpha": level, "kernels": kernel_of}
    fitted = _begin(session, regressor, wanted, method, **told)
    # p (p + 1) / 2 - 1 tests of the order, at most p (p - 1) / 2 of edges, and one of the graph.
    p, runtime = len(everything), session.runtime
    if runtime.seconds is not None:
        session.runtime = replace(runtime, seconds=runtime.seconds / p**2)
    search = _Search(session, fitted, method, kernel_of)
    order, ordering = search.order()
    parents, pruning = search.prune(order, level)
    joint, tested = search.joint(parents)
    return DAGSearch(
        **_run_fields(session, regressor, began),
        parents=parents,
        order=tuple(session.names[j] for j in order),
        ordering=ordering,
        pruning=pruning,
        alpha=level,
        statistic=joint.statistic,
        pvalue=joint.pvalue,
        estimator=tested.estimator.name,
        estimator_reason=tested.estimator_reason,
        null=tested.null.name,
    )


def _run_fields(session: Session, regression: Regression, began: float) -> dict[str, Any]:
    """What either result says of its run."""
    return {
        "names": session.names,
        "n": session.n,
        "dropped": session.dropped,
        "data": session.verify(),
        "regression": regression.name,
        "precision": session.dtype.name,
        "seed": session.seed,
        "passes": passes_of(session),
        "seconds": perf_counter() - began,
        "version": __version__,
    }


def _begin(
    session: Session,
    regression: Regression,
    sets: Regressions,
    method: ResidualTest,
    **described: Any,
) -> StreamedRegressions | HeldRegressions:
    """Plan and fit the regressions, whose residuals are tested by a plan of their own."""
    session.begin(plan_of(session, plan_regressions(session, regression, sets), _REMEDY))
    session.resume(**described, **method.described, **described_regression(regression))
    return fit_regressions(session, regression, sets)


@dataclass(frozen=True)
class _Search:
    """The two phases of RESIT.

    Parameters
    ----------
    session : Session
        Over the nodes.
    fitted : StreamedRegressions or HeldRegressions
        Among them.
    method : ResidualTest
        Method of the tests.
    kernels : tuple of Kernel
        Kernels of the residuals.
    """

    session: Session
    fitted: StreamedRegressions | HeldRegressions
    method: ResidualTest
    kernels: tuple[Kernel, ...]

    def order(self) -> tuple[list[int], tuple[SearchTest, ...]]:
        """Phase 1: the nodes, causes before effects, and the tests."""
        left, order = list(range(len(self.session.sources))), list[int]()
        tests: list[SearchTest] = []
        while len(left) > 1:
            tested = [self._test(j, rest := _nodes_without(left, j), rest) for j in left]
            tests += tested
            # Phase 1 of RESIT: the node with the least dependent residual has no effect among those
            # left.
            last = min(zip(left, tested, strict=True), key=lambda x: (-x[1].pvalue, x[1].statistic))
            # What is taken away comes before all that was taken away earlier.
            order.insert(0, last[0])
            left.remove(last[0])
        return left + order, tuple(tests)

    def prune(self, order: Sequence[int], alpha: float) -> tuple[Parents, tuple[SearchTest, ...]]:
        """Phase 2: the parents of every node, and the tests."""
        parents: dict[int, tuple[int, ...]] = {}
        tests: list[SearchTest] = []
        for place, node in enumerate(order):
            # Only nodes that come before it can be its parents.
            before = tuple(sorted(order[:place]))
            # With all of them it is the complete graph of the order, from which edges are taken
            # away.
            parents_left = before
            for candidate in before:
                tested = self._test(node, _nodes_without(parents_left, candidate), before)
                tests.append(tested)
                # Phase 2: the residual is independent without this one, which is no parent then.
                if tested.pvalue > alpha:
                    parents_left = _nodes_without(parents_left, candidate)
            parents[node] = parents_left
        return tuple(parents[node] for node in sorted(parents)), tuple(tests)

    def joint(self, parents: Parents) -> tuple[Score, ResidualTest]:
        """The test that the residuals of a graph are jointly independent, and its method."""
        residuals = self.fitted.variables({j: [given] for j, given in enumerate(parents)})
        return self._tested(residuals, self.kernels, ("residuals", parents))

    def _test(self, node: int, given: tuple[int, ...], against: tuple[int, ...]) -> SearchTest:
        # Independence of the nodes together, which is more than that of each.
        names = self.session.names
        (residual,) = self.fitted.variables({node: [given]})
        joined = joined_source([self.session.sources[j] for j in against])
        # Nodes have units of their own.
        beside = OnColumns(
            self.method.estimator.kernel(None), tuple(range(joined.shape[1])), scaled=True
        )
        part = "test", node, given, against
        score, _ = self._tested([residual, joined], (self.kernels[node], beside), part)
        return SearchTest(names[node], tuple(names[j] for j in given), *score)

    def _tested(
        self, variables: Sequence[Source], kernels: Sequence[Kernel], part: Any
    ) -> tuple[Score, ResidualTest]:
        tested = self.session.over(variables, part)
        combinations = Combinations.single(kernels)
        method = self.method.on(tested, combinations)
        tested.expect(method.plan(tested, combinations))
        (score,) = method.test(tested, combinations)
        return score, method


def _nodes_without(nodes: Sequence[int], node: int) -> tuple[int, ...]:
    return tuple(j for j in nodes if j != node)


class Score(NamedTuple):
    """Result of a test of one combination."""

    statistic: float
    """Its statistic."""
    pvalue: float
    """Its p-value."""


@dataclass(frozen=True)
class ResidualTest:
    """How residuals are tested.

    Parameters
    ----------
    estimator : VHSIC or NystromMHSIC
        The statistic.
    estimator_reason : str
        Why this one.
    null : Null
        The null distribution.
    null_reason : str
        Why this one.
    names : tuple of str
        Names of the estimators to choose from, the better first, where a value was not given.
    """

    estimator: DependenceMeasure
    estimator_reason: str
    null: Gamma | Spectral | Resampling
    null_reason: str
    names: tuple[str, ...]

    @property
    def described(self) -> dict[str, Any]:
        """As it was asked for, for a checkpoint; passes know what it became."""
        return {"estimator": self.estimator, "null": self.null}

    def on(self, session: Session, combinations: Combinations) -> ResidualTest:
        """With an estimator that fits the memory and the time, where that is left open."""
        # An estimator that was given is kept, and refused where it does not fit.
        if not self.names:
            return self
        chosen, _, told = choose_among(self.names, session, combinations, self._plan, self._run)
        assert isinstance(chosen, DependenceMeasure)
        reasons = [reason for reason in (self.estimator_reason, told) if reason != AS_ASKED]
        return replace(self, estimator=chosen, estimator_reason="; ".join(reasons) or AS_ASKED)

    def plan(self, session: Session, combinations: Combinations) -> Plan:
        """The plan of the run; a refusal names the largest numbers that fit."""
        return planned(self._plan, self.estimator, session, combinations)

    def _plan(self, estimator: Estimator, session: Session, combinations: Combinations) -> Plan:
        return plan_once(estimator, session, combinations, self.null)

    def _run(self, estimator: Any, session: Session, combinations: Combinations) -> object:
        return replace(self, estimator=estimator).test(session, combinations)

    def test(self, session: Session, combinations: Combinations) -> list[Score]:
        """Statistic and p-value of every combination by itself."""
        if isinstance(self.null, Resampling):
            # All graphs share the tiles of the kernels, and the replicates.
            grid = self.estimator.test_grid(session, combinations, self.null)
            laws: list[Distribution] = [Replicates(values) for values in grid.replicates.T]
            statistics, roundings = grid.statistics.tolist(), grid.rounding.tolist()
        else:
            outcomes = self.estimator.test_each(session, combinations, self.null)
            laws = [outcome.distribution for outcome in outcomes]
            statistics = [float(outcome.statistic) for outcome in outcomes]
            roundings = [outcome.rounding for outcome in outcomes]
        return [
            Score(statistic, pvalue(statistic, law, session.dtype, rounding))
            for statistic, law, rounding in zip(statistics, laws, roundings, strict=True)
        ]


def choose_residual_test(
    session: Session,
    estimator: Any,
    null: str | Null,
    n_resamples: int | None,
    n_tests: int,
) -> ResidualTest:
    """The estimator and null distribution that were asked for, or what suits so many tests.

    Parameters
    ----------
    session : Session
        Over the variables.
    estimator : str, VHSIC or NystromMHSIC
        As given.
    null : str or Null
        As given.
    n_resamples : int or None
        As given.
    n_tests : int
        Combinations that one call tests.

    Returns
    -------
    ResidualTest

    Raises
    ------
    InvalidArgumentError
        Options exclude each other, or there is none of that name.
    """
    reason, names = AS_ASKED, tuple[str, ...]()
    # By name both may be tried; a value is taken as it is.
    if isinstance(estimator, str):
        name = check_choice("estimator", estimator, ("auto", VHSIC.name, NystromMHSIC.name))
        names = (name,)
        if name == "auto":
            # Many tests of all pairs of rows share more: kernels of residuals, and no replicates.
            most = _VHSIC_ROWS if n_tests <= _MANY_GRAPHS else _VHSIC_ROWS_OF_MANY
            quick = session.n <= most
            reason = f"{'up to' if quick else 'more than'} {most:,} rows"
            names = (VHSIC.name, NystromMHSIC.name)[not quick :]
            name = names[0]
        estimator = VHSIC() if name == VHSIC.name else NystromMHSIC()
    if not isinstance(estimator, DependenceMeasure):
        msg = (
            "estimator must be 'auto', 'v-hsic', 'nystrom-m', or a VHSIC or NystromMHSIC value, "
            f"got {estimator!r}"
        )
        raise InvalidArgumentError(msg)
    if not (isinstance(null, str) and null == "auto"):
        # One combination at a time: a grid would be one test of all of them.
        combination = Combinations.single([estimator.kernel(None)] * len(session.sources))
        chosen, why = find_null(null, estimator, session, n_resamples, combination)
    elif n_resamples is not None:
        chosen, why = Permutation(n_resamples), "tests share its replicates"
    else:
        # Graphs are compared by p-values that may all be far below 1 / (b + 1).
        chosen, why = Gamma(), "p-values without a smallest step"
    if not isinstance(chosen, Gamma | Spectral | Resampling):
        msg = (
            f"graphs share replicates or need none, so null must not be {chosen.name!r}, which "
            "draws its own, or tests one variable after another: take 'permutation', or 'shifts' "
            "for two nodes, for exact p-values"
        )
        raise InvalidArgumentError(msg)
    return ResidualTest(estimator, reason, chosen, why, names)


def _read_dags(dags: Any, names: tuple[str, ...]) -> tuple[Parents, ...]:
    """The graphs that were asked for, by the parents of every node."""
    if isinstance(dags, str):
        which = check_choice("dags", dags, ("all", "complete"))
        return (enumerate_dags if which == "all" else complete_dags)(len(names))
    graphs = tuple(dags) if isinstance(dags, Sequence) else ()
    if not graphs or not all(isinstance(dag, DAG) and dag.names == names for dag in graphs):
        msg = (
            f"dags must be 'all', 'complete' or DAG values of the nodes {', '.join(names)} in this "
            f"order, got {dags!r}: make them by DAG.of(names, edges)"
        )
        raise InvalidArgumentError(msg)
    return tuple(dag.parents for dag in graphs)


def _sets_of(node: int, graphs: Sequence[Parents]) -> tuple[tuple[int, ...], ...]:
    """The different sets of parents of a node, the smaller first."""
    return tuple(
        sorted({parents[node] for parents in graphs}, key=lambda chosen: (len(chosen), chosen))
    )


def _combinations(
    graphs: Sequence[Parents],
    sets: dict[int, tuple[tuple[int, ...], ...]],
    dims: Sequence[int],
    kernels: Sequence[Kernel],
) -> Combinations:
    """A kernel for every node and set of parents, and for every graph one a node."""
    every: list[Kernel] = []
    variables: list[int] = []
    # Numbers of kernels by node and parents: graphs are combinations of them.
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}
    for node, parent_sets in sets.items():
        d = dims[node]
        for r, given in enumerate(parent_sets):
            numbers[node, given] = len(every)
            # The residuals of a node given every set of parents stand side by side; this kernel
            # sees one set.
            every.append(OnColumns(kernels[node], tuple(range(d * r, d * (r + 1)))))
            variables.append(node)
    chosen = tuple(
        tuple(numbers[node, given] for node, given in enumerate(parents)) for parents in graphs
    )
    return Combinations(tuple(every), tuple(variables), chosen, (1.0,) * len(every))


def kernels_of_nodes(kernels: Any, session: Session) -> tuple[Kernel, ...]:
    """The kernel of every node.

    Raises
    ------
    InvalidArgumentError
        There are other than one, or one a node; or a value that is no kernel.
    """
    m = len(session.sources)
    listed = [kernels] * m if isinstance(kernels, str | Kernel) else kernels
    if not isinstance(listed, Sequence) or len(listed) != m:
        msg = f"kernels must be one, or one for each of {m} nodes, got {kernels!r}"
        raise InvalidArgumentError(msg)
    read = tuple(parse(kernel) if isinstance(kernel, str) else kernel for kernel in listed)
    if not all(isinstance(kernel, Kernel) for kernel in read):
        msg = f"kernels must be names or Kernel values, got {kernels!r}"
        raise InvalidArgumentError(msg)
    return read
