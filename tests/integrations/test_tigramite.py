"""PCMCI of tigramite with the tests of this package, where tigramite is installed."""

import importlib.util
import re

import numpy as np
import pytest

import dhsic
from dhsic import conditional_independence_test
from dhsic.errors import MissingDependencyError
from dhsic.integrations import PValue, TigramiteTest

WHY = "tigramite is not installed: it is of the extra 'discovery'"
QUICK = PValue(
    threads=1,
    marginal={"estimator": "cka", "order": dhsic.TimeOrder(lag=1)},
    conditional={"kernels": "gaussian"},
)
HERE = importlib.util.find_spec("tigramite") is not None
needs_tigramite = pytest.mark.skipif(not HERE, reason=WHY)


@pytest.mark.skipif(HERE, reason="tigramite is installed")
def test_tigramite__is_named_where_it_is_missing():
    with pytest.raises(MissingDependencyError, match=re.escape("dhsic[discovery]")):
        TigramiteTest()


@pytest.fixture(scope="module")
def data():
    """Five series: 0 moves 1 a row later, 1 the spread of 2, 2 moves 3, and 4 is by itself."""
    n, before = 300, 50
    noise = np.random.default_rng(0).standard_normal((n + before, 5))
    x = np.zeros((n + before, 5))
    for t in range(1, n + before):
        x[t] = 0.4 * x[t - 1] + noise[t]
        x[t, 1] += 1.5 * np.tanh(x[t - 1, 0])
        x[t, 2] += np.abs(x[t - 1, 1])
        x[t, 3] += 0.8 * x[t - 1, 2]
    return x[before:]


@needs_tigramite
def test_values__are_those_of_the_public_functions(data):
    x, y, z = data[1:, [1]], data[:-1, [0]], data[:-1, [1, 2]]
    test, options = TigramiteTest(QUICK), {"rng": 0, "threads": 1}
    alone = dhsic.independence_test(x, y, **options, **QUICK.marginal)
    assert test.run_test_raw(x, y) == (alone.estimate, alone.pvalue)
    given = conditional_independence_test(x, y, given=z, **options, **QUICK.conditional)
    assert test.run_test_raw(x, y, z) == (given.estimate, given.pvalue)
    # Of another array the p-value is not that of the last one.
    array, parts = np.vstack([x.T, y.T]), np.array([0, 1])
    assert test.get_shuffle_significance(array, parts, 0.0) == alone.pvalue
    assert TigramiteTest().test.marginal == QUICK.marginal


@needs_tigramite
def test_thresholds__are_of_the_value(data):
    test = TigramiteTest(QUICK, significance="fixed_thres")
    x, y = data[1:, [1]], data[:-1, [0]]
    value, pvalue, dependent = test.run_test_raw(x, y, alpha_or_thres=0.9)
    assert 0.0 < value < 0.9
    assert (pvalue, dependent) == (1.0, False)


@needs_tigramite
@pytest.mark.nightly
def test_pcmci__finds_the_links_of_five_series(data):
    from tigramite.data_processing import DataFrame
    from tigramite.pcmci import PCMCI

    search = PCMCI(DataFrame(data), TigramiteTest(QUICK))
    graph = search.run_pcmci(tau_max=1, pc_alpha=0.05, alpha_level=0.01)["graph"]
    found = {(i, j) for i in range(5) for j in range(5) if i != j and graph[i, j, 1] == "-->"}
    assert found == {(0, 1), (1, 2), (2, 3)}
