"""Score causal graphs by the joint independence of the residuals that they leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Literal, NamedTuple

from dhsic._arguments import Precision
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike
from dhsic._validation import check_choice, named_arguments
from dhsic._version import __version__
from dhsic.causal.dags import DAG, Parents, complete_dags, enumerate_dags
from dhsic.causal.nodes import kernels_of_nodes, open_nodes
from dhsic.causal.scores import DAGScores
from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import VHSIC, Estimator, Null, NullName, NystromMHSIC, Resampling, find_null
from dhsic.estimators.base import passes_of, plan_of
from dhsic.estimators.choose import choose_among
from dhsic.estimators.reach import plan_once, planned
from dhsic.io.missing import Missing
from dhsic.kernels import Combinations, Kernel, KernelName, OnColumns
from dhsic.nulls import (
    Distribution,
    Gamma,
    Multiplier,
    Replicates,
    Spectral,
    pvalue,
)
from dhsic.regression.residuals import (
    Regression,
    RegressionName,
    described_regression,
    find_regression,
    fit_regressions,
    plan_regressions,
)
from dhsic.results import AS_ASKED

# There are 29,281 graphs of five nodes, and 3,781,503 of six.
MOST_NODES = 5

DependenceMeasure = VHSIC | NystromMHSIC
MeasureName = Literal["auto", "v-hsic", "nystrom-m"]
"""Estimators whose test takes two or more variables and several graphs at a time."""

_VHSIC_ROWS = 2000
_VHSIC_ROWS_OF_MANY = 10_000
_MANY_GRAPHS = 100
# As many as in the experiments of Kalinke and Szabo (2023), section 5.
_RESAMPLES = 250
_REMEDY = "take fewer graphs, n_knots, landmarks or threads, or regression='splines'"


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
    null : str, Gamma, Spectral, Multiplier or Permutation, optional
        "auto" takes "gamma", whose p-values have no smallest step, so that graphs can be compared;
        and random signs that graphs share for landmarks and more than 100 graphs.
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
    steps = plan_regressions(session, regressor, sets)
    session.begin(plan_of(session, steps, _REMEDY))
    session.resume(
        computes="causal graph scores",
        graphs=graphs,
        kernels=kernel_of,
        **method.described,
        **described_regression(regressor),
    )
    tested = session.over(fit_regressions(session, regressor, sets).variables(sets), "residuals")
    # Only now: which estimator fits depends on the kernels of residuals, a set of parents each.
    method = method.on(tested, combinations)
    tested.begin(method.plan(tested, combinations))
    scores = method.test(tested, combinations)
    return DAGScores(
        names=session.names,
        parents=graphs,
        statistics=tuple(score.statistic for score in scores),
        pvalues=tuple(score.pvalue for score in scores),
        n=session.n,
        dropped=session.dropped,
        data=session.verify(),
        kernels=tuple(kernel.spec() for kernel in kernel_of),
        regression=regressor.name,
        n_regressions=sum(map(len, sets.values())),
        estimator=method.estimator.name,
        estimator_reason=method.estimator_reason,
        null=method.null.name,
        null_reason=method.null_reason,
        precision=session.dtype.name,
        seed=session.seed,
        passes=passes_of(session),
        seconds=perf_counter() - began,
        version=__version__,
    )


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
        chosen, why = Multiplier(n_resamples), "tests share its replicates"
    elif isinstance(estimator, NystromMHSIC) and n_tests > _MANY_GRAPHS:
        chosen, why = Multiplier(_RESAMPLES), f"more than {_MANY_GRAPHS} tests share its replicates"
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
