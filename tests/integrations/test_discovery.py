"""PC of causal-learn and of pgmpy, and DoWhy's checks of a graph, with the tests of this package.

They run where the real packages are installed, by the extra `discovery`.
"""

import numpy as np
import pytest

import dhsic
from dhsic import conditional_independence_test
from dhsic.errors import DataError, InvalidArgumentError
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
    assert test(x, y, []) == test(x, y, ()) == test(x, y)
    with pytest.raises(dhsic.errors.MemoryBudgetError):
        PValue(memory="1MiB")(x, y)
    with pytest.raises(dhsic.errors.InvalidArgumentError, match="threads must be left out"):
        PValue(threads=1, client=object())(x, y)


class Scripted(PValue):
    """Gives p-values of a list, as of a law, and remembers what was tested."""

    def __init__(self, **options):
        super().__init__(**{"marginal": {"null": "gamma"}, **options})

    def script(self, *pvalues):
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "coming", iter(pvalues))
        return self

    def of_all(self, *variables):
        self.asked.append(variables)
        found = next(self.coming)
        if found is None:
            msg = "variable 'x' is constant"
            raise dhsic.errors.DataError(msg)
        return found


def test_pvalue__of_a_first_test_is_enough_where_it_is_sure():
    x = np.arange(100.0)
    test = Scripted(first_rows=20).script(1e-6)
    assert test(x, 2 * x, np.stack([x, x], axis=1)) == pytest.approx(1e-4)
    ((some, doubled, given),) = test.asked
    assert len(np.unique(some)) == len(some) == 20
    np.testing.assert_array_equal(doubled, 2 * some)
    np.testing.assert_array_equal(given, np.stack([some, some], axis=1))
    again, other = Scripted(first_rows=20).script(0.0), Scripted(rng=1, first_rows=20).script(0.0)
    assert again(x, x) == other(x, x) == 0.0
    np.testing.assert_array_equal(again.asked[0][0], some)
    assert (other.asked[0][0] != some).any()


def test_pvalue__is_of_all_rows_and_pays_for_the_first_where_it_is_not_sure():
    x = np.arange(100.0)
    test = Scripted(first_rows=20).script(2e-6, 0.5, 2e-6, 0.999)
    assert test(x, x) == 0.5 / 0.99
    assert test(x, x) == 1.0
    assert [len(one) for one, _ in test.asked] == [20, 100, 20, 100]


@pytest.mark.parametrize("case", ["few", "none", "listed", "failed"])
def test_pvalue__is_as_it_is_without_a_first_test(case):
    x = np.arange(99.0 if case == "few" else 100.0)
    test = Scripted(first_rows=None if case == "none" else 20)
    test.script(*[None, 1e-7] if case == "failed" else [1e-7])
    assert test(list(x) if case == "listed" else x, x) == 1e-7
    assert len(test.asked[-1][1]) == len(x)


@pytest.mark.parametrize(
    ("options", "given", "tests"),
    [
        ({"marginal": {}}, None, 1),
        ({"marginal": {"null": "permutation"}}, None, 1),
        ({"marginal": {"null": dhsic.Shifts(2000)}}, None, 1),
        ({"marginal": {"n_resamples": 2000}}, None, 1),
        ({"marginal": {"n_resamples": 10**6}}, None, 2),
        ({"marginal": {"null": "spectral"}}, None, 2),
        ({"marginal": {}}, np.arange(100.0), 2),
        ({"conditional": {"method": "strata"}}, np.arange(100), 1),
        ({}, np.array(["u", "v"] * 50), 1),
    ],
)
def test_pvalue__of_replicates_needs_no_first_test(options, given, tests):
    x, test = np.arange(100.0), Scripted(first_rows=20, **options).script(0.001, 0.001)
    assert test(x, x, given) == pytest.approx(0.001 if tests == 1 else 0.001 / 0.99)
    assert len(test.asked) == tests


def test_pvalue__of_unequal_lengths_is_refused():
    x, y = np.random.default_rng(0).standard_normal((2, 300))
    for rows in (150, 300):
        with pytest.raises(DataError, match="rows"):
            PValue(first_rows=20)(x[:200], y[:rows])


def test_pvalue__of_options_for_all_rows_tests_all_rows(tmp_path):
    x, y = np.random.default_rng(0).standard_normal((2, 200))
    many = {"estimator": dhsic.NystromMHSIC(60), "null": "gamma"}
    kept = {"checkpoint": str(tmp_path / "kept"), "kernels": "gaussian", "null": "gamma"}
    for options in (many, kept):
        whole = PValue(first_rows=None, marginal=options)(x, y)
        assert PValue(first_rows=20, marginal=options)(x, y) == pytest.approx(whole, rel=0.02)


def test_pvalue__takes_first_rows_of_tables():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame({"a": np.arange(100.0), "b": ["u", "v"] * 50}, index=range(7, 107))
    test = Scripted(first_rows=20).script(0.0)
    assert test(frame[["a"]], frame["b"]) == 0.0
    ((first, second),) = test.asked
    assert list(first.index) == list(second.index)
    assert len(first) == 20


def test_pvalue__first_rows_are_counted():
    with pytest.raises(dhsic.errors.InvalidArgumentError, match="first_rows must be an integer"):
        PValue(first_rows=19)


def test_pvalue__of_few_rows_comes_from_the_public_function():
    x, e = np.random.default_rng(0).standard_normal((2, 300))
    few, many = (
        PValue(threads=1, marginal={"null": "gamma"}, first_rows=one) for one in (60, None)
    )
    assert few(x, e) == pytest.approx(many(x, e) / 0.99)
    assert many(x, x + e / 9) < few(x, x + e / 9) <= 1e-4


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


def test_causal_learn__refuses_a_cache_of_another_test(data, tmp_path):
    cit = pytest.importorskip(
        "causallearn.utils.cit", reason="causal-learn is not installed: extra 'discovery'"
    )
    path, gamma = str(tmp_path / "kept.json"), PValue(marginal={"null": "gamma"})

    def cached(test):
        made = cit.CIT(data, causal_learn_test(test), cache_path=path)
        made.SAVE_CACHE_CYCLE_SECONDS = -1
        return made

    first = cached(gamma)
    first(0, 1)
    first.save_to_local_cache()
    assert cached(PValue(marginal={"null": "gamma"}, threads=1))(0, 1) == first(0, 1)
    with pytest.raises(InvalidArgumentError, match="cache_path must be of a new cache"):
        cached(PValue())


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


def test_pgmpy__test_is_of_columns_of_a_table(data):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame(data, columns=["a", "b", "cd", "d"])
    test = PgmpyTest(frame, QUICK)
    assert test("a", "b", None) == test("a", "b", [])
    test("a", "b", "cd")
    pvalue = test.p_value_
    test("a", "b", ["cd"])
    assert test.p_value_ == pvalue
    with pytest.raises(InvalidArgumentError, match="no column 'z'; there are: a, b, cd, d"):
        test("a", "b", ["z"])
    with pytest.raises(InvalidArgumentError, match=r"data must be a pandas.DataFrame, .* ndarray"):
        PgmpyTest(data)


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
