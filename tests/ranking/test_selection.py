"""Selection: what is found, by the definitions, with every option."""

import numpy as np
import pytest

import dhsic
from dhsic.kernels import parse
from tests import oracles
from tests.oracles import v_hsic

METHODS = ["forward", "backward", "lasso"]


def interacting(n=300, seed=0):
    """Column 1 matters, 5 is nearly a copy of it, 2 and 3 matter together."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 6))
    x[:, 5] = x[:, 1] + 0.1 * rng.standard_normal(n)
    return x, x[:, 1] + 2 * x[:, 2] * x[:, 3] + 0.3 * rng.standard_normal(n)


def additive(n=400, d=8, seed=0):
    """Columns 1, 4 and 6 matter; of fewer columns the first d of 1, 4, 6 and 0."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, max(d, 7)))
    y = x[:, 1] + np.abs(x[:, 4]) + np.sin(2 * x[:, 6]) + 0.2 * rng.standard_normal(n)
    return (x if d >= 7 else x[:, [1, 4, 6, 0][:d]]), y


def gram(values, kernel="gaussian"):
    """Of the median heuristic, in units of standard deviations."""
    values = np.reshape(values, (len(values), -1))
    return parse(kernel).fit(values)(values)


def measured(x, y, criterion):
    """The dependence of the target on a set of columns, from all pairs of rows."""
    scaled, target = x / x.std(axis=0), gram(y)

    def measure(columns):
        own = gram(scaled[:, sorted(columns)])
        return oracles.cka(own, target) if criterion == "cka" else v_hsic([own, target])

    return measure


@pytest.mark.parametrize("criterion", ["cka", "hsic"])
def test_forward__adds_the_column_that_makes_the_measure_largest(criterion):
    x, y = additive(100, 4)
    measure, chosen, scores = measured(x, y, criterion), [], []
    for _ in range(4):
        left = [j for j in range(4) if j not in chosen]
        chosen.append(max(left, key=lambda j: measure([*chosen, j])))
        scores.append(measure(chosen))
    found = dhsic.select_features(x, y, 4, criterion=criterion, estimator="v-hsic", rng=0)
    assert found.columns == tuple((j,) for j in chosen)
    np.testing.assert_allclose(found.scores, scores, rtol=1e-8)
    assert (found.method, found.criterion, found.n, found.n_features) == (
        *("forward", criterion, 100, 4),
    )


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_backward__drops_those_that_are_missed_least(share):
    """One at a time, or half of those that are left, but never more than it may."""
    x, y = interacting(100)
    measure, left = measured(x, y, "cka"), list(range(6))
    while len(left) > 2:
        missed = {j: measure([k for k in left if k != j]) for j in left}
        count = min(max(1, int(share * len(left))), len(left) - 2)
        dropped = sorted(left, key=lambda j: -missed[j])[:count]
        left = [j for j in left if j not in dropped]
    found = dhsic.select_features(
        x, y, 2, method="backward", share=share, estimator="v-hsic", rng=0
    )
    assert {j for (j,) in found.columns} == set(left)


def test_lasso__has_the_conditions_of_optimality():
    """Of one block of all rows, in any order: those of min |L - sum w_j K_j|^2 / 2 + l |w|."""
    x, y = additive(150)
    found = dhsic.select_features(x, y, 3, method="lasso", block_rows=150, rng=0)
    units = []
    for values in (*(x / x.std(axis=0)).T, y):
        h = np.eye(150) - 1.0 / 150
        centred = h @ gram(values) @ h
        units.append(centred.ravel() / np.linalg.norm(centred))
    *units, target = units
    weights = np.zeros(8)
    weights[[j for (j,) in found.columns]] = found.scores
    correlation = np.array(units) @ (target - np.transpose(units) @ weights)
    penalty = correlation[weights > 0].mean()
    np.testing.assert_allclose(correlation[weights > 0], penalty, rtol=1e-8)
    assert (correlation[weights == 0] <= penalty * (1 + 1e-8)).all()
    assert np.count_nonzero(weights) == 3
    assert set(found.names) == {"x[1]", "x[4]", "x[6]"}
    assert list(found.scores) == sorted(found.scores, reverse=True)


def test_lasso__of_blocks_is_near_that_of_all_rows_and_has_every_option():
    x, y = additive(400)
    whole = dhsic.select_features(x, y, 3, method="lasso", block_rows=400, rng=0)
    base = {"method": "lasso", "rng": 0, "block_rows": 100}
    blocks = dhsic.select_features(x, y, 3, **base)
    assert blocks.names == whole.names
    np.testing.assert_allclose(blocks.scores, whole.scores, rtol=0.5)
    for changed in ({"block_rows": 50}, {"n_permutations": 1}, {"rng": 1}):
        assert dhsic.select_features(x, y, 3, **base | changed).scores != blocks.scores


def test_lasso__leaves_out_copies_and_selects_fewer_where_no_more_help():
    x, y = additive()
    x[:, 7] = x[:, 1]
    found = dhsic.select_features(x, y, 3, method="lasso", rng=0)
    assert len({"x[1]", "x[7]"} & set(found.names)) == 1
    same = dhsic.select_features(np.repeat(x[:, [1]], 3, axis=1), y, 3, method="lasso", rng=0)
    assert len(same.names) < 3


@pytest.mark.parametrize("method", METHODS)
def test_units__change_nothing_and_what_matters_is_found(method):
    x, y = additive()
    scaled = x * 10.0 ** np.arange(-4, 4) + 3.0
    found = [dhsic.select_features(one, y, 3, method=method, rng=0) for one in (x, scaled)]
    assert found[0].names == found[1].names
    assert set(found[0].names) == {"x[1]", "x[4]", "x[6]"}
    assert found[0].columns == tuple((int(name[2]),) for name in found[0].names)


@pytest.mark.parametrize("method", METHODS)
def test_groups__are_selected_whole(method):
    x, y = additive(200)
    groups = {"first": [0, 1], "second": [2, 3], "third": [4, 5, 6]}
    found = dhsic.select_features(x, y, 2, method=method, column_groups=groups, rng=0)
    assert "second" not in found.names
    assert set(found.columns) <= {(0, 1), (2, 3), (4, 5, 6)}


def confounded(rng, n=400):
    """Column 0 tells of the target within strata, column 1 of the stratum alone."""
    strata = rng.integers(4, size=n)
    x = rng.standard_normal((n, 4))
    y = 8.0 * strata + x[:, 0] + 0.5 * rng.standard_normal(n)
    x[:, 1] += 8.0 * strata
    return x, y, strata


@pytest.mark.parametrize("method", METHODS)
def test_strata__are_selected_within(method):
    x, y, strata = confounded(np.random.default_rng(0))
    options = {"method": method, "rng": 0}
    found = dhsic.select_features(x, y, 1, strata=strata, **options)
    assert found.names == ("x[0]",)
    assert dhsic.select_features(x, y, 1, **options).names == ("x[1]",)
    inside = [np.empty_like(one) for one in (x, y)]
    for values, own in zip((x, y), inside, strict=True):
        for s in range(4):
            rows = strata == s
            own[rows] = (values[rows] - values[rows].mean(0)) / values[rows].std(0)
    expected = dhsic.select_features(*inside, 1, **options)
    assert expected.columns == found.columns
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)
