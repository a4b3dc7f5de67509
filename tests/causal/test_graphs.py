"""Graphs by independence of residuals: every score is a single test."""

import os
from math import factorial
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy.stats import binom
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import dhsic
from dhsic.causal import (
    DAG,
    CrossFitted,
    Splines,
    residual_independence_test,
    score_dags,
    search_dag,
)
from dhsic.errors import InvalidArgumentError
from dhsic.nulls import Permutation
from tests import oracles
from tests.dependent_rows import series

DATA = Path(os.environ.get("DHSIC_DATA", Path(__file__).parents[3] / "shared/data"))
NAMES = ("a", "b", "c")
CHAIN = DAG.of(NAMES, [("a", "b"), ("b", "c")])
QUICK = Splines(n_knots=5)
LINES = CrossFitted(LinearRegression(), n_folds=2)
LANDMARKS = dhsic.NystromMHSIC(n_landmarks=30)


def chain(n=120, seed=0):
    """Rows in which a causes b, and b causes c."""
    a, b, c = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, n))
    b += 2.0 * a**2
    c += np.tanh(2.0 * b)
    return np.column_stack([a, b, c])


def score(data, **options):
    options = {"names": NAMES, "regression": QUICK, "rng": 0, "threads": 1} | options
    return score_dags(*(data if isinstance(data, list) else [data]), **options)


def left_of(data, j, given):
    """Residuals of a column given others."""
    given = [data[:, [k]] for k in given]
    return QUICK.residuals(data[:, [j]], given, np.random.default_rng(0))


# Graphs


@pytest.mark.parametrize(("m", "count"), [(2, 3), (3, 25)])
def test_graphs__are_all_there_once_and_acyclic(m, count):
    found = score_dags(chain(40)[:, :m], regression=Splines(n_knots=3), rng=0, threads=1)
    graphs = [one.dag.parents for one in found]
    assert len(set(graphs)) == len(graphs) == count
    sizes = [sum(map(len, parents)) for parents in graphs]
    assert sizes == sorted(sizes)
    assert all(map(oracles.is_acyclic, graphs))
    complete = score_dags(
        chain(40)[:, :m], dags="complete", regression=Splines(n_knots=3), rng=0, threads=1
    )
    most = {one for one in graphs if sum(map(len, one)) == m * (m - 1) // 2}
    assert {one.dag.parents for one in complete} == most
    assert len(complete) == factorial(m)


def test_dag__is_a_graph_of_networkx():
    graph = CHAIN.to_networkx()
    assert nx.is_directed_acyclic_graph(graph)
    assert list(graph.nodes) == list(NAMES)
    assert sorted(graph.edges) == [("a", "b"), ("b", "c")]
    assert str(DAG(NAMES, ((), (), ()))) == "no edges"
    assert DAG.of(iter("ab"), zip("a", "b", strict=True)).edges == (("a", "b"),)
    with pytest.raises(InvalidArgumentError, match="names of nodes must be different, got a, a"):
        DAG.of(("a", "a"), [])
    for parents in (((1,), (0,)), ((0,), ()), ((2,), ()), ((),)):
        with pytest.raises(InvalidArgumentError, match=r"without cycles|a name for every node"):
            DAG(("a", "b"), parents)


# Scores


@pytest.mark.parametrize(
    ("estimator", "null"),
    [
        ("v-hsic", "gamma"),
        ("v-hsic", Permutation(40)),
        ("nystrom-m", "spectral"),
        (LANDMARKS, Permutation(40)),
    ],
)
def test_score__is_a_single_test_of_residuals(estimator, null):
    data = chain()
    graphs = [CHAIN, DAG.of(NAMES, [("c", "b"), ("a", "b")]), DAG(NAMES, ((), (), (0, 1)))]
    found = score(data, dags=graphs, estimator=estimator, null=null)
    for one in found:
        residuals = [left_of(data, j, own) for j, own in enumerate(one.dag.parents)]
        alone = dhsic.independence_test(
            *residuals, kernels="gaussian", estimator=estimator, null=null, rng=0, threads=1
        )
        assert one.statistic == pytest.approx(alone.statistic, rel=1e-7)
        assert one.pvalue == pytest.approx(alone.pvalue, rel=1e-6)


def test_best__is_the_truth_or_explains_it():
    found = score(chain(300))
    assert set(CHAIN.edges) <= set(found.best.dag.edges)
    kept = {one.dag for one in found.accepted(0.05)}
    assert CHAIN in kept
    assert all({("b", "a"), ("c", "b")}.isdisjoint(dag.edges) for dag in kept)
    assert found.best.pvalue == max(found.pvalues)
    minimal = [set(one.dag.edges) for one in found.minimal()]
    assert found.minimal() == found.minimal(0.05) != found.minimal(0.99)
    assert set(CHAIN.edges) in minimal
    assert not any(one < other for one in minimal for other in minimal)
    assert all(any(one <= set(dag.edges) for one in minimal) for dag in kept)
    assert "minimal     a -> b, b -> c" in str(found)
    with pytest.raises(InvalidArgumentError, match="alpha must be greater than 0"):
        found.accepted(1.0)


def test_options__make_a_difference():
    data = chain()
    usual = score(data, dags=[CHAIN])
    assert (usual.estimator, usual.null) == ("v-hsic", "gamma")
    for options in (
        {"regression": Splines(n_knots=5, n_folds=3)},
        {"regression": LINES},
        {"kernels": "laplacian"},
        {"kernels": ["gaussian", "laplacian", "gaussian"]},
        {"estimator": "nystrom-m"},
        {"null": "spectral"},
        {"n_resamples": 19},
        {"precision": "float32"},
    ):
        other = score(data, dags=[CHAIN], **options)
        assert other.pvalues != usual.pvalues, options
    few = score(chain(2001), dags=[CHAIN])
    assert few.estimator == "nystrom-m"
    assert few.estimator_reason == "more than 2,000 rows"


class Lines:
    """A regression of a user, whose residuals go through a function."""

    name = "lines"

    def __init__(self, last):
        self.last = last

    def residuals(self, target, given, rng):
        rows = np.column_stack([np.ones(len(target)), *given])
        return self.last(target, target - rows @ np.linalg.lstsq(rows, target)[0])


def test_regression__of_a_user_writes_into_no_rows():
    x = chain()
    expected = score(x, regression=Lines(lambda _, left: left)).pvalues
    assert score(x, regression=Lines(lambda _, left: left.tolist())).pvalues == expected
    with pytest.raises(ValueError, match="read-only"):
        score(x, regression=Lines(lambda target, left: np.subtract(target, 1.0, out=target)))


@pytest.mark.parametrize(
    ("last", "got"),
    [
        (lambda _, left: left.ravel(), r"got shape \(120,\)"),
        (lambda target, _: np.full(target.shape, np.nan), "got nan among them: return target"),
        (lambda *_: None, r"got shape \(\)"),
        (lambda *_: "residuals", "got 'residuals'"),
    ],
)
def test_regression__of_a_user_must_return_residuals(last, got):
    told = rf"of regression 'lines' must be finite numbers of shape \(120, 1\), .*{got}"
    with pytest.raises(InvalidArgumentError, match=told):
        score(chain(), regression=Lines(last))


def test_level_and_power__of_residuals():
    """Splines that fit well leave the level of the gamma null near what it is."""
    runs, wrong = 60, DAG.of(NAMES, [("b", "a"), ("b", "c")])
    pvalues = np.array(
        [score(chain(100, seed), dags=[CHAIN, wrong], rng=seed).pvalues for seed in range(runs)]
    )
    true, false = (pvalues <= 0.05).sum(axis=0)
    assert true <= binom.isf(0.001, runs, 0.08)  # approximate: residuals are estimated
    assert false > 0.9 * runs


# The search


def longer(n=250, seed=0):
    a, b, c, d = np.random.default_rng(seed).uniform(-1.0, 1.0, (4, n))
    b += 2.0 * a**2
    c += np.tanh(2.0 * b)
    d += 0.5 * c**3
    return np.column_stack([d, b, a, c])


def search(data, **options):
    options = {"names": ("d", "b", "a", "c"), "regression": QUICK, "rng": 0, "threads": 1} | options
    return search_dag(data, **options)


def test_search__finds_a_chain_by_single_tests_of_residuals():
    data = longer()
    found = search(data)
    assert found.order == ("a", "b", "c", "d")
    assert set(found.dag.edges) == {("a", "b"), ("b", "c"), ("c", "d")}
    assert found.pvalue > 0.05
    assert (len(found.ordering), len(found.pruning)) == (4 + 3 + 2, 6)
    numbers = {name: j for j, name in enumerate(found.names)}
    for one in (found.ordering[1], found.ordering[-1], found.pruning[-1]):
        given = before = [numbers[name] for name in one.given]
        if one in found.pruning:
            before = sorted(numbers[name] for name in found.order if name != one.node)
        left = left_of(data, numbers[one.node], given)
        scaled = data[:, before] / data[:, before].std(axis=0)
        alone = dhsic.independence_test(
            left, scaled, kernels="gaussian", estimator="v-hsic", null="gamma", rng=0
        )
        assert one.pvalue == pytest.approx(alone.pvalue, rel=1e-6)
        assert one.statistic == pytest.approx(alone.statistic, rel=1e-6)


# Independence of residuals


def smooth(z):
    return np.sin(3 * z), np.cos(2 * z)


def rough(z):
    steps = np.sign(np.sin(40 * z))
    return steps, steps


def residuals(n, seed, functions=smooth, shared=0.0, **options):
    rng = np.random.default_rng(seed)
    z, (a, b) = rng.uniform(-1.0, 1.0, n), 0.5 * rng.standard_normal((2, n))
    f, g = functions(z)
    options = {"null": "gamma", "estimator": "v-hsic", "threads": 1, "rng": seed} | options
    return residual_independence_test(
        f + a, g + b + shared * a**2, given=z, kernels="gaussian", **options
    )


def test_residual_test__keeps_its_level_where_the_regression_fits():
    rejected = sum(residuals(100, seed).pvalue <= 0.05 for seed in range(60))
    assert rejected <= binom.isf(0.001, 60, 0.08)  # approximate: residuals are estimated
    assert sum(residuals(100, seed, shared=2.0).pvalue <= 0.05 for seed in range(10)) >= 9


def test_residual_test__rejects_what_a_rough_regression_leaves():
    """The caveat of its docstring: functions that splines cannot follow look like dependence."""
    assert all(residuals(200, seed, rough).pvalue <= 0.05 for seed in range(5))
    forest = CrossFitted(RandomForestRegressor(20, min_samples_leaf=5, random_state=0))
    assert residuals(400, 0, rough, regression=forest).pvalue > residuals(400, 0, rough).pvalue


def in_rows(rng, effect=0.0):
    (x, y, z, w) = rng.standard_normal((4, 150))
    return (x, y + x * z + effect * x, [z, w]), {}


def in_groups(rng, effect=0.0):
    groups = rng.permutation(np.repeat(np.arange(50), 8))
    a, b = rng.standard_normal((2, 50))[:, groups] + 0.5 * rng.standard_normal((2, 400))
    z = rng.uniform(-2.0, 2.0, 400)
    return (np.sin(z) + a, z**2 + b + effect * a, [z]), {"groups": groups}


def in_time(rng, effect=0.0):
    a, b = series(rng, 500, 0.8), series(rng, 500, 0.8)
    z = rng.uniform(-2.0, 2.0, 500)
    return (np.sin(z) + a, z**2 + b + effect * a, [z]), {"order": dhsic.TimeOrder(lag=10)}


FAST = {"estimator": dhsic.NystromHSIC(30), "kernels": "gaussian", "threads": 1}


@pytest.mark.parametrize("case", [in_rows, in_groups, in_time])
def test_residual_test__is_a_test_of_residuals(case):
    (x, y, given), asked = case(np.random.default_rng(0), 0.3)
    found = residual_independence_test(x, y, given=given, rng=3, **FAST, **asked)
    columns = [one[:, None] for one in given]
    rng = np.random.default_rng(0)
    left = [Splines().residuals(one[:, None], columns, rng) for one in (x, y)]
    alone = dhsic.independence_test(*left, rng=3, **FAST, **asked)
    assert found.statistic == pytest.approx(alone.statistic, rel=1e-7)
    assert found.pvalue == pytest.approx(alone.pvalue)
    assert found.null_reason == alone.null_reason
    assert found.given == (("z1", "z2") if len(given) > 1 else ("z",))


@pytest.mark.parametrize("case", [in_groups, in_time])
@pytest.mark.filterwarnings("ignore::dhsic.errors.DependentRowsWarning")
def test_residual_test__of_dependent_rows_keeps_its_level_by_the_argument_alone(case):
    def rejected(runs, effect=0.0, asked=True):
        for seed in range(runs):
            (x, y, z), rows = case(np.random.default_rng([seed, 6]), effect)
            rows = rows if asked else {}
            yield residual_independence_test(x, y, given=z, rng=seed, **FAST, **rows).pvalue <= 0.05

    assert sum(rejected(40)) <= binom.isf(0.001, 40, 0.06)
    assert sum(rejected(20, asked=False)) > 5
    assert sum(rejected(8, effect=1.0)) >= 7


# Data of the papers


@pytest.mark.parametrize("estimator", ["v-hsic", "nystrom-m"])
def test_weather__is_led_by_altitude(estimator):
    """Kalinke and Szabo (2023), section 5.2: both find the same graph, a fully connected one."""
    path = DATA / "weather/data.csv"
    if not path.exists():
        pytest.skip(f"needs {path} (set DHSIC_DATA)")
    rows = np.loadtxt(path, skiprows=1)
    names = ("altitude", "temperature", "sunshine")
    best = score_dags(rows, names=names, estimator=estimator, rng=0).best.dag
    edges = [names[:2], names[::2], names[1:]]
    assert set(best.edges) == set(edges)
