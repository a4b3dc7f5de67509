"""Search one causal graph among any number of nodes, by residuals that are independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from dhsic import plots
from dhsic._arguments import Precision
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike
from dhsic._validation import check_number, named_arguments
from dhsic._version import __version__
from dhsic._work import LONG
from dhsic.causal.dags import DAG, Parents
from dhsic.causal.nodes import kernels_of_nodes, open_nodes
from dhsic.causal.regression import (
    Regression,
    RegressionName,
    described_regression,
    find_regression,
)
from dhsic.causal.residuals import FittedRegressions, fit_regressions, plan_regressions
from dhsic.causal.scoring import (
    DependenceMeasure,
    MeasureName,
    ResidualTest,
    Score,
    choose_residual_test,
)
from dhsic.engine.blocks import Source
from dhsic.engine.session import Session
from dhsic.estimators import Null, NullName
from dhsic.estimators.base import passes_of, plan_of
from dhsic.io.derived import joined_source
from dhsic.io.missing import Missing
from dhsic.kernels import Combinations, Kernel, KernelName, OnColumns
from dhsic.results import AS_ASKED, PassSummary, Result, StoredArraySummary, rows_text, time_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_REMEDY = "take fewer nodes, n_knots or threads, or regression='splines'"


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
        As for `score_dags`. Tests share the time equally, ten minutes of one thread for every node
        where not given.

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
    level = check_number(
        "alpha", alpha, "greater than 0 and less than 1", lambda x: 0.0 < x < 1.0, "as 0.05"
    )
    place = client, threads, memory, progress, checkpoint
    session = open_nodes(variables, names, data, missing, rng, precision, *place, time=time)
    everything = tuple(range(len(session.sources)))
    regressor = find_regression(regression)
    kernel_of = kernels_of_nodes(kernels, session)
    method = choose_residual_test(session, estimator, null, n_resamples, 1)
    # One design over all nodes has the sums of every regression that the search may ask for.
    wanted = {j: [tuple(k for k in everything if k != j)] for j in everything}
    steps = plan_regressions(session, regressor, wanted)
    session.begin(plan_of(session, steps, _REMEDY))
    session.resume(
        computes="causal graph search",
        alpha=level,
        kernels=kernel_of,
        **method.described,
        **described_regression(regressor),
    )
    fitted = fit_regressions(session, regressor, wanted)
    # p (p + 1) / 2 - 1 tests of the order, at most p (p - 1) / 2 of edges, and one of the graph.
    p, runtime = len(everything), session.runtime
    whole = runtime.seconds or LONG * p / runtime.threads
    session.runtime = replace(runtime, seconds=whole / p**2)
    search = _Search(session, fitted, method, kernel_of)
    order, ordering = search.order()
    parents, pruning = search.prune(order, level)
    joint, tested = search.joint(parents)
    return DAGSearch(
        names=session.names,
        parents=parents,
        order=tuple(session.names[j] for j in order),
        ordering=ordering,
        pruning=pruning,
        alpha=level,
        statistic=joint.statistic,
        pvalue=joint.pvalue,
        n=session.n,
        dropped=session.dropped,
        data=session.verify(),
        regression=regressor.name,
        estimator=tested.estimator.name,
        estimator_reason=tested.estimator_reason,
        null=tested.null.name,
        precision=session.dtype.name,
        seed=session.seed,
        passes=passes_of(session),
        seconds=perf_counter() - began,
        version=__version__,
    )


@dataclass(frozen=True)
class _Search:
    """The two phases of RESIT.

    Parameters
    ----------
    session : Session
        Over the nodes.
    fitted : FittedRegressions
        Among them.
    method : ResidualTest
        Method of the tests.
    kernels : tuple of Kernel
        Kernels of the residuals.
    """

    session: Session
    fitted: FittedRegressions
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
            self.method.estimator.kernel(None), tuple(range(joined.width)), scaled=True
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
