"""Scores of causal graphs: every one is a single test of residuals, wherever the rows are."""

import os
from math import factorial
from pathlib import Path

import dask.array as da
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import zarr
from scipy.stats import binom
from sklearn.linear_model import LinearRegression

import dhsic
from dhsic.causal import DAG, CrossFitted, DAGScores, Splines, score_dags
from dhsic.causal.dags import complete_dags, enumerate_dags
from dhsic.causal.scoring import _combinations, _sets_of
from dhsic.engine.events import PassStarted, RunStarted
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.estimators import NystromMHSIC
from dhsic.io.open import open_variables
from dhsic.kernels import Gaussian
from dhsic.nulls import Gamma, Multiplier, Permutation
from tests import oracles

DATA = Path(os.environ.get("DHSIC_DATA", Path(__file__).parents[3] / "shared/data"))
NAMES = ("a", "b", "c")
CHAIN = DAG.of(NAMES, [("a", "b"), ("b", "c")])
QUICK = Splines(n_knots=5)
LINES = CrossFitted(LinearRegression(), n_folds=2)


def chain(n=120, seed=0):
    """Rows in which a causes b, and b causes c."""
    a, b, c = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, n))
    b += 2.0 * a**2
    c += np.tanh(2.0 * b)
    return np.column_stack([a, b, c])


def score(data, **options):
    options = {"names": NAMES, "regression": QUICK, "rng": 0, "threads": 1} | options
    variables = data if isinstance(data, list) else [data]
    return score_dags(*variables, **options)


@pytest.mark.parametrize(("m", "count"), [(1, 1), (2, 3), (3, 25), (4, 543), (5, 29_281)])
def test_enumeration__has_every_graph_once(m, count):
    graphs = enumerate_dags(m)
    assert len(set(graphs)) == len(graphs) == count
    sizes = [sum(map(len, parents)) for parents in graphs]
    assert sizes == sorted(sizes)
    assert sizes[-1] == m * (m - 1) // 2
    if m <= 4:
        assert all(map(oracles.is_acyclic, graphs))


def test_complete_graphs__are_those_of_most_edges():
    for m in (2, 3, 4):
        most = [g for g in enumerate_dags(m) if sum(map(len, g)) == m * (m - 1) // 2]
        assert sorted(complete_dags(m)) == sorted(most)
        assert len(most) == factorial(m)


def test_dag__is_a_graph_of_networkx():
    graph = CHAIN.to_networkx()
    assert nx.is_directed_acyclic_graph(graph)
    assert list(graph.nodes) == list(NAMES)
    assert sorted(graph.edges) == [("a", "b"), ("b", "c")]
    assert str(DAG(NAMES, ((), (), ()))) == "no edges"


@pytest.mark.parametrize(
    ("estimator", "null"),
    [
        ("v-hsic", "gamma"),
        ("v-hsic", "spectral"),
        ("v-hsic", Multiplier(40)),
        ("nystrom-m", "gamma"),
        ("nystrom-m", "spectral"),
        (NystromMHSIC(n_landmarks=30), Permutation(40)),
        (NystromMHSIC(n_landmarks=30), Multiplier(40)),
    ],
)
def test_score__is_a_single_test_of_residuals(estimator, null):
    data, rng = chain(), np.random.default_rng(0)
    graphs = [CHAIN, DAG.of(NAMES, [("c", "b"), ("a", "b")]), DAG(NAMES, ((), (), (0, 1)))]
    found = score(data, dags=graphs, estimator=estimator, null=null)
    for one in found:
        residuals = [
            QUICK.residuals(data[:, [j]], [data[:, [k]] for k in own], rng)
            for j, own in enumerate(one.dag.parents)
        ]
        alone = dhsic.independence_test(
            *residuals, kernels="gaussian", estimator=estimator, null=null, rng=0, threads=1
        )
        assert one.statistic == pytest.approx(alone.statistic, rel=1e-7)
        assert one.pvalue == pytest.approx(alone.pvalue, rel=1e-6)


def test_nodes__may_be_vectors():
    data, rng = chain(), np.random.default_rng(0)
    pair = data[:, 1:] @ np.array([[1.0, 0.5], [0.0, 1.0]])
    graphs = [DAG(("a", "d"), ((), (0,))), DAG(("a", "d"), ((1,), ()))]
    found = score([data[:, 0], pair], names=("a", "d"), dags=graphs, estimator="v-hsic")
    for one, given in zip(found, (data[:, :1], pair), strict=True):
        target = pair if given is not pair else data[:, :1]
        left = QUICK.residuals(target, [given], rng)
        mean = given - given.mean(axis=0)
        both = (mean, left) if given is not pair else (left, mean)
        alone = dhsic.independence_test(
            *both, kernels="gaussian", estimator="v-hsic", null="gamma", rng=0
        )
        assert one.pvalue == pytest.approx(alone.pvalue, rel=1e-6)


def test_best__is_the_truth_or_explains_it():
    found = score(chain(300))
    assert len(found) == 25
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
    assert len(found.accepted(0.99)) <= len(kept)


@pytest.mark.parametrize("kind", ["columns", "frame", "zarr", "dask", "dask columns"])
def test_rows_of_any_kind__give_the_same(kind, tmp_path):
    data = chain(300)
    options = {"dags": [CHAIN], "estimator": NystromMHSIC(n_landmarks=20)}
    expected = score(data, **options)
    given = data
    if kind == "columns":
        given = [data[:, 0], data[:, 1:2], data[:, 2]]
    elif kind == "frame":
        given, options["names"] = pd.DataFrame(data, columns=NAMES), None
    elif kind == "zarr":
        zarr.create_array(tmp_path / "x.zarr", data=data, chunks=(70, 2))
        given = str(tmp_path / "x.zarr")
    elif kind == "dask":
        given = da.from_array(data, chunks=(90, 2))
    else:
        given = [data[:, 0], da.from_array(data[:, 1], chunks=70), data[:, 2]]
    found = score(given, **options)
    assert found.names == NAMES
    assert found.pvalues == pytest.approx(expected.pvalues, rel=1e-7)


@pytest.mark.parametrize("kind", ["memory", "zarr", "dask"])
def test_client__gives_the_same(kind, client, tmp_path):
    data = given = chain(300)
    if kind == "zarr":
        zarr.create_array(tmp_path / "x.zarr", data=data, chunks=(70, 3))
        given = str(tmp_path / "x.zarr")
    elif kind == "dask":
        given = da.from_array(data, chunks=(90, 3))
    options = {"dags": [CHAIN], "regression": Splines(n_knots=5, n_folds=2)}
    expected = score(data, **options)
    found = score(given, client=client, threads=None, **options)
    assert found.pvalues == pytest.approx(expected.pvalues, rel=1e-7)


def test_pilot__fits_knots_to_few_of_many_rows(monkeypatch):
    data = chain(600)
    expected = score(data, dags=[CHAIN])
    for module in ("splines", "residuals"):
        monkeypatch.setattr(f"dhsic.causal.{module}.PILOT_ROWS", 200)
    found = score(data, dags=[CHAIN])
    assert found.pvalues != expected.pvalues
    assert found.pvalues == score(data, dags=[CHAIN]).pvalues
    assert found.pvalues != score(data, dags=[CHAIN], rng=1).pvalues


def test_options__make_a_difference():
    data = chain()
    usual = score(data, dags=[CHAIN])
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
    assert score(data, dags="complete").parents == complete_dags(3)


def test_auto__chooses_by_rows_and_graphs(monkeypatch):
    assert (score(chain()).estimator, score(chain()).null) == ("v-hsic", "gamma")
    few = score(chain(2001), dags=[CHAIN])
    assert (few.estimator, few.null) == ("nystrom-m", "gamma")
    assert few.estimator_reason == "more than 2,000 rows"
    monkeypatch.setattr("dhsic.causal.scoring._MANY_GRAPHS", 1)
    assert score(chain(2001), dags="complete").estimator_reason == "up to 10,000 rows"
    many = score(chain(), dags="complete", estimator=NystromMHSIC(10))
    assert many.null == "multiplier"
    assert score(chain(), dags=[CHAIN], n_resamples=9).null == "multiplier"


def test_dag__takes_iterators_and_refuses_names_that_repeat():
    assert DAG.of(iter("ab"), zip("a", "b", strict=True)).edges == (("a", "b"),)
    with pytest.raises(InvalidArgumentError, match="names of nodes must be different, got a, a"):
        DAG.of(("a", "a"), [])


def test_little_memory__takes_graphs_in_parts(monkeypatch):
    data = chain(300)
    options = {"dags": "complete", "estimator": NystromMHSIC(n_landmarks=20)}
    expected = score(data, **options)
    with monkeypatch.context() as patch:
        patch.setattr("dhsic.engine.runtime.baseline_bytes", lambda: 0)
        # The process holds much more, which a run that is alone in it would be told.
        patch.setattr("dhsic.engine.budget.TOLERANCE", 1000.0)
        found = score(data, memory="2560KiB", **options)
    assert len(found.passes) == len(expected.passes) + 1
    assert found.pvalues == pytest.approx(expected.pvalues, rel=1e-9)
    with pytest.raises(MemoryBudgetError, match="or regression='splines'"):
        score(data, memory="1MiB")


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
        (lambda _, left: left[:-1], r"got shape \(119, 1\)"),
        (lambda target, _: np.full(target.shape, np.nan), "got nan among them"),
        (lambda *_: None, r"got shape \(\)"),
        (lambda *_: "residuals", "got str"),
    ],
)
def test_regression__of_a_user_must_return_residuals(last, got):
    told = rf"'lines' must return finite residuals of the shape of its target, \(120, 1\), .*{got}"
    with pytest.raises(InvalidArgumentError, match=told):
        score(chain(), regression=Lines(last))


def residuals_of_all(nodes, n, mib):
    """All graphs of so many nodes, for plans."""
    graphs = enumerate_dags(nodes)
    sets = {j: _sets_of(j, graphs) for j in range(nodes)}
    sources = open_variables([np.broadcast_to(0.0, (n, 2 ** (nodes - 1)))] * nodes)
    session = Session(sources, Runtime.here(2, mib * 2**20), 0)
    return session, _combinations(graphs, sets, (1,) * nodes, [Gaussian()] * nodes)


@pytest.mark.parametrize("mib", [600, 900, 1500])
def test_plan__of_many_graphs_leaves_the_driver_its_memory(mib):
    plan = NystromMHSIC().plan(*residuals_of_all(4, 3000, mib), Multiplier(250))
    assert plan.check() is plan


@pytest.mark.parametrize("mib", [1024, 2048, 3000])
def test_plan__of_fitted_nulls_leaves_the_factors_their_memory(mib):
    plan = NystromMHSIC().plan(*residuals_of_all(3, 20_000, mib), Gamma())
    assert plan.check() is plan


def test_progress__is_told_and_may_stop_it():
    events = []
    score(chain(), dags="complete", progress=events.append)
    started = [event.name for event in events if isinstance(event, PassStarted)]
    assert started == ["regressions", "Gram sums"]
    runs = [event for event in events if isinstance(event, RunStarted)]
    assert [one.name for run in runs for one in run.passes] == started

    def stop(event):
        if isinstance(event, PassStarted) and event.name == "Gram sums":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(chain(), dags="complete", progress=stop)
    found, again = (score(chain(), dags="complete", estimator="nystrom-m", rng=3) for _ in "ab")
    assert found.pvalues == again.pvalues
    assert found.pvalues != score(chain(), dags="complete", estimator="nystrom-m", rng=4).pvalues


def test_scores__come_back_and_read_well():
    found = score(chain(), dags="complete")
    assert DAGScores.from_json(found.to_json()) == found
    text = str(found)
    assert str(found.best.dag) in text
    assert "of 6 graphs are not rejected" in text
    assert "p-values are approximate" in text
    assert found._repr_html_().startswith("<div class='dhsic-result'>")
    assert "-&gt;" in found._repr_html_()
    with pytest.raises(InvalidArgumentError, match="text must be the JSON of a DAGScores"):
        DAGScores.from_json("{}")
    with pytest.raises(InvalidArgumentError, match="alpha must be greater than 0"):
        found.accepted(1.0)


def test_level_and_power__of_residuals():
    """Splines that fit well leave the level of the gamma null near what it is."""
    runs, wrong = 150, DAG.of(NAMES, [("b", "a"), ("b", "c")])
    pvalues = np.array(
        [score(chain(100, seed), dags=[CHAIN, wrong], rng=seed).pvalues for seed in range(runs)]
    )
    true, false = (pvalues <= 0.05).sum(axis=0)
    assert binom.cdf(true, runs, 0.05) > 1e-4
    assert binom.sf(true - 1, runs, 0.08) > 1e-4  # approximate: residuals are estimated
    assert false > 0.9 * runs


@pytest.mark.parametrize(
    ("given", "options", "error", "message"),
    [
        ([chain()] * 2, {}, InvalidArgumentError, "names must be 2 different words"),
        ([chain()[:, :1]], {"names": None}, InvalidArgumentError, "at least two variables"),
        ([np.zeros((9, 6))], {"names": None}, InvalidArgumentError, "2 to 5 nodes, got 6"),
        ([chain()], {"names": ("a", "a", "b")}, InvalidArgumentError, "3 different words"),
        ([chain() * [1, 0, 1]], {}, DataError, "variable 'b' needs columns that vary"),
        ([chain() * [1, 0, 1]], {"regression": LINES}, DataError, "variable 'b' needs columns"),
        ([chain()[:3]], {}, DataError, "at least 4 rows, got 3"),
        ([chain()[:, [0, 1, 1]]], {}, DataError, "'b' is a function of 'c' up to rounding"),
        ([chain()[:, [0, 1, 1]]], {"regression": LINES}, DataError, "'b' is a function of 'c'"),
        ([chain()[:13]], {}, DataError, "needs more rows than that, got 13"),
        ([chain()], {"dags": "some"}, InvalidArgumentError, "dags must be one of"),
        ([chain()], {"dags": []}, InvalidArgumentError, "dags must be 'all', 'complete' or DAG"),
        ([chain()], {"kernels": ["gaussian"]}, InvalidArgumentError, "one for each of 3 nodes"),
        ([chain()], {"kernels": [1, 2, 3]}, InvalidArgumentError, "names or Kernel values"),
        ([chain()], {"estimator": "u-hsic"}, InvalidArgumentError, "estimator must be one of"),
        ([chain()], {"estimator": 3}, InvalidArgumentError, "a VHSIC or NystromMHSIC value"),
        ([chain()], {"null": "normal"}, InvalidArgumentError, "null 'normal' is not available"),
        ([chain()], {"null": "gamma", "n_resamples": 9}, InvalidArgumentError, "left out"),
        ([chain()], {"regression": "lines"}, InvalidArgumentError, "regression must be one of"),
    ],
)
def test_bad_input__is_refused_in_words(given, options, error, message):
    with pytest.raises(error, match=message):
        score(given, **options)


def test_bad_graphs__are_refused_in_words():
    for parents in (((1,), (0,)), ((0,), ()), ((2,), ()), ((),)):
        with pytest.raises(InvalidArgumentError, match="without a cycle"):
            DAG(("a", "b"), parents)
    with pytest.raises(InvalidArgumentError, match="edges must join the nodes a, b; got c"):
        DAG.of(("a", "b"), [("a", "c")])
    frame = pd.DataFrame({"a": pd.Categorical(["x", "y"] * 10)})
    with pytest.raises(DataError, match="holds categories"):
        score_dags(frame, np.arange(20.0))
    bad = chain()
    bad[7, 1] = np.nan
    with pytest.raises(DataError, match="NaN or infinity, first in row 7"):
        score(bad)


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
