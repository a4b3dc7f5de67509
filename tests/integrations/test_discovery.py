"""PC of causal-learn and of pgmpy, and DoWhy's checks of a graph, with the tests of this package.

They run where the real packages are installed, by the extra `discovery`.
"""

import numpy as np
import pytest

import dhsic
from dhsic import conditional_independence_test
from dhsic.integrations import PgmpyTest, PValue, causal_learn_test

N = 400
QUICK = PValue(threads=1, marginal={"kernels": "gaussian"}, conditional={"kernels": "gaussian"})
EDGES = {(0, 2), (1, 2), (2, 3)}


@pytest.fixture(scope="module")
def data():
    """A node with two causes, of one of which it is a square: no correlation; and an effect."""
    x = np.random.default_rng(0).standard_normal((N, 4))
    x[:, 2] = 1.5 * np.tanh(2.0 * x[:, 0]) + x[:, 1] ** 2 + 0.5 * x[:, 2]
    x[:, 3] += x[:, 2]
    return x


def test_pvalue__is_that_of_the_public_functions(data):
    x, y, z = data[:, 0], data[:, 2], data[:, [1, 3]]
    options = {"rng": 3, "threads": 1}
    test = PValue(**options, marginal={"null": "gamma"}, conditional={"kernels": "gaussian"})
    assert test(x, y) == dhsic.independence_test(x, y, null="gamma", **options).pvalue
    given = conditional_independence_test(x, y, given=z, kernels="gaussian", **options)
    assert test(x, y, z) == given.pvalue
    assert test(x, y, z[:, :0]) == test(x, y, None) == test(x, y)
    with pytest.raises(dhsic.errors.MemoryBudgetError):
        PValue(memory="1MiB")(x, y)
    with pytest.raises(dhsic.errors.InvalidArgumentError, match="threads must be left out"):
        PValue(threads=1, client=object())(x, y)


def test_causal_learn__finds_the_edges(data):
    pytest.importorskip("causallearn", reason="causal-learn is not installed: extra 'discovery'")
    from causallearn.search.ConstraintBased.PC import pc

    found = pc(data, 0.01, causal_learn_test(QUICK), show_progress=False).G.graph
    edges = {(a, b) for a in range(4) for b in range(a, 4) if found[a, b]}
    assert edges == EDGES
    # causal-learn writes 1 at the head of an arrow and -1 at its tail.
    assert all(found[b, a] == 1 and found[a, b] == -1 for a, b in EDGES)


def test_causal_learn__asks_once_and_by_the_test_that_was_given(data):
    cit = pytest.importorskip(
        "causallearn.utils.cit", reason="causal-learn is not installed: extra 'discovery'"
    )
    asked = []

    class Counted(PValue):
        def __call__(self, x, y, z=None):
            asked.append((x.shape, y.shape, z.shape))
            return 0.5

    test = cit.CIT(data, causal_learn_test(Counted()))
    assert test(0, 1, (2, 3)) == test(1, 0, (3, 2)) == 0.5
    assert asked == [((N, 1), (N, 1), (N, 2))]
    usual = cit.CIT(data, causal_learn_test(QUICK))
    assert usual(0, 2, ()) == QUICK(data[:, 0], data[:, 2])


def test_pgmpy__finds_the_edges(data):
    pytest.importorskip("pgmpy", reason="pgmpy is not installed: extra 'discovery'")
    import pandas as pd
    from pgmpy.causal_discovery import PC

    frame = pd.DataFrame(data, columns=list("abcd"))
    test = PgmpyTest(frame, QUICK)
    search = PC(ci_test=test, significance_level=0.01, n_jobs=1, show_progress=False)
    graph = search.fit(frame).causal_graph_
    assert set(graph.edges()) == {("a", "c"), ("b", "c"), ("c", "d")}


def test_pgmpy__test_has_a_level(data):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame(data, columns=list("abcd"))
    test = PgmpyTest(frame, QUICK)
    assert test("a", "b", [], significance_level=0.01)
    assert test.p_value_ == QUICK(data[:, 0], data[:, 1])
    assert not test("a", "b", [], significance_level=1.0)
    assert not test("a", "b", ["c"], significance_level=0.01)  # a common effect


def test_dowhy__tells_a_right_graph_from_a_wrong_one(data):
    gcm = pytest.importorskip("dowhy.gcm", reason="dowhy is not installed: extra 'discovery'")
    import networkx as nx
    import pandas as pd
    from dowhy.gcm.falsify import FalsifyConst, validate_lmc

    del gcm
    frame = pd.DataFrame(data, columns=list("abcd"))
    options = {"independence_test": QUICK, "conditional_independence_test": QUICK}
    violations = [
        validate_lmc(
            nx.DiGraph(edges), frame, include_unconditional=True, significance_level=0.01, **options
        )[FalsifyConst.N_VIOLATIONS]
        for edges in (
            [("a", "c"), ("b", "c"), ("c", "d")],
            [("c", "a"), ("c", "b"), ("c", "d")],
        )
    ]
    assert violations[0] == 0 < violations[1]
