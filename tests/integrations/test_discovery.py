"""PC of causal-learn and of pgmpy, and DoWhy's checks of a graph, with the tests of this package.

They run where the real packages are installed, by the extra `discovery`.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dhsic
from dhsic import conditional_independence_test
from dhsic.errors import InvalidArgumentError
from dhsic.integrations import PgmpyTest, PValue, causal_learn_test

N = 400
QUICK = PValue(threads=1, marginal={"kernels": "gaussian"}, conditional={"kernels": "gaussian"})
RIGHT = [("a", "c"), ("b", "c"), ("c", "d")]
WHY = "extra 'discovery'"


@pytest.fixture(scope="module")
def data():
    """A node with two causes, of one of which it is a square: no correlation; and an effect."""
    x = np.random.default_rng(0).standard_normal((N, 4))
    x[:, 2] = 1.5 * np.tanh(2.0 * x[:, 0]) + x[:, 1] ** 2 + 0.5 * x[:, 2]
    x[:, 3] += x[:, 2]
    return x


@pytest.fixture(scope="module")
def frame(data):
    return pd.DataFrame(data, columns=list("abcd"))


def test_pvalue__is_that_of_the_public_functions(data):
    x, y, z = data[:, 0], data[:, 2], data[:, [1, 3]]
    options = {"rng": 3, "threads": 1}
    test = PValue(**options, marginal={"null": "gamma"}, conditional={"kernels": "gaussian"})
    assert test(x, y) == dhsic.independence_test(x, y, null="gamma", **options).pvalue
    given = conditional_independence_test(x, y, given=z, kernels="gaussian", **options)
    assert test(x, y, z) == given.pvalue
    assert test(x, y, z[:, :0]) == test(x, y, None) == test(x, y, []) == test(x, y)
    for call, words in (
        (lambda: PValue(threads=1, client=object())(x, y), "threads must be left out"),
        (lambda: PValue(first_rows=19), "first_rows must be an integer"),
        (lambda: PValue(first_rows=20)(x, y[:50]), "rows"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


class Scripted(PValue):
    """Gives p-values of a list, and remembers what was tested: no data show exactly how a p-value
    of some rows and one of all become one.
    """

    def script(self, *pvalues):
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "coming", iter(pvalues))
        return self

    def of_all(self, *variables, checkpoint=True):
        del checkpoint
        self.asked.append(variables)
        return SimpleNamespace(pvalue=next(self.coming))


def scripted(*pvalues, **options):
    return Scripted(first_rows=20, **{"marginal": {"null": "gamma"}, **options}).script(*pvalues)


def test_pvalue__of_a_first_test_is_enough_where_it_is_sure():
    x = np.arange(100.0)
    test = scripted(1e-6)
    assert test(x, 2 * x, np.stack([x, x], axis=1)) == pytest.approx(1e-4)
    ((some, doubled, given),) = test.asked
    assert len(np.unique(some)) == len(some) == 20
    np.testing.assert_array_equal(doubled, 2 * some)
    np.testing.assert_array_equal(given, np.stack([some, some], axis=1))
    other = scripted(0.0, rng=1)
    assert other(x, x) == 0.0
    assert (other.asked[0][0] != some).any()


def test_pvalue__is_of_all_rows_and_pays_for_the_first_where_it_is_not_sure():
    x = np.arange(100.0)
    test = scripted(2e-6, 0.5, 2e-6, 0.999)
    assert (test(x, x), test(x, x)) == (0.5 / 0.99, 1.0)
    assert [len(one) for one, _ in test.asked] == [20, 100, 20, 100]
    assert scripted(1e-7)(x[:99], x[:99]) == 1e-7  # so few rows have no first test


@pytest.mark.parametrize(
    ("options", "given", "tests"),
    [
        ({"marginal": {}}, None, 1),
        ({"marginal": {"null": dhsic.Shifts(2000)}}, None, 1),
        ({"marginal": {"n_resamples": 10**6}}, None, 2),
        ({"marginal": {"null": "spectral"}}, None, 2),
        ({"marginal": {}}, np.arange(100.0), 2),
        ({"conditional": {"method": "strata"}}, np.arange(100), 1),
    ],
)
def test_pvalue__of_replicates_needs_no_first_test(options, given, tests):
    x, test = np.arange(100.0), scripted(0.001, 0.001, **options)
    assert test(x, x, given) == pytest.approx(0.001 if tests == 1 else 0.001 / 0.99)
    assert len(test.asked) == tests


def test_causal_learn__finds_the_edges_and_refuses_the_cache_of_another(data, tmp_path):
    cit = pytest.importorskip("causallearn.utils.cit", reason=WHY)
    from causallearn.search.ConstraintBased.PC import pc

    found = pc(data, 0.01, causal_learn_test(QUICK), show_progress=False).G.graph
    edges = {(a, b) for a in range(4) for b in range(a, 4) if found[a, b]}
    assert edges == {(0, 2), (1, 2), (2, 3)}
    # causal-learn writes 1 at the head of an arrow and -1 at its tail.
    assert all(found[b, a] == 1 and found[a, b] == -1 for a, b in edges)
    path = str(tmp_path / "kept.json")
    first = cit.CIT(data, causal_learn_test(QUICK), cache_path=path)
    first.SAVE_CACHE_CYCLE_SECONDS = -1
    assert first(0, 2, ()) == QUICK(data[:, 0], data[:, 2])
    first.save_to_local_cache()
    with pytest.raises(InvalidArgumentError, match="cache_path must name a new cache"):
        cit.CIT(data, causal_learn_test(PValue()), cache_path=path)


def test_pgmpy__finds_the_edges(frame):
    pytest.importorskip("pgmpy", reason=WHY)
    from pgmpy.causal_discovery import PC

    test = PgmpyTest(frame, QUICK)
    search = PC(ci_test=test, significance_level=0.01, n_jobs=1, show_progress=False)
    assert set(search.fit(frame).causal_graph_.edges()) == set(RIGHT)


def test_pgmpy__test_is_of_columns_of_a_table_at_a_level(data, frame):
    test = PgmpyTest(frame, QUICK)
    assert test("a", "b", [], significance_level=0.01)
    assert test.p_value_ == QUICK(data[:, 0], data[:, 1])
    assert not test("a", "b", None, significance_level=1.0)
    assert not test("a", "b", "c", significance_level=0.01)  # a common effect
    with pytest.raises(InvalidArgumentError, match="no column 'z'; there are: a, b, c, d"):
        test("a", "b", ["z"])
    with pytest.raises(InvalidArgumentError, match=r"data must be a pandas.DataFrame, .* ndarray"):
        PgmpyTest(data)


def test_dowhy__tells_a_right_graph_from_a_wrong_one(frame):
    pytest.importorskip("dowhy.gcm", reason=WHY)
    import networkx as nx
    from dowhy.gcm.falsify import FalsifyConst, validate_lmc

    options = {"independence_test": QUICK, "conditional_independence_test": QUICK}
    options |= {"include_unconditional": True, "significance_level": 0.01}
    right, wrong = (
        validate_lmc(nx.DiGraph(edges), frame, **options)[FalsifyConst.N_VIOLATIONS]
        for edges in (RIGHT, [("c", "a"), ("c", "b"), ("c", "d")])
    )
    assert right == 0 < wrong
