"""Sums of distances in O(n log n) against loops, matrices and another package."""

import numpy as np
import pytest

from dhsic.estimators.gram import fast_distance
from dhsic.estimators.gram.fast_distance import SortedColumns, distance_sums
from dhsic.estimators.gram.sums import GramSums, gram_hsic, marginal_hsic

COLUMNS = {
    "continuous": lambda rng, n: rng.standard_normal(n),
    "heavy tails": lambda rng, n: rng.standard_cauchy(n),
    "ties": lambda rng, n: rng.integers(4, size=n).astype(float),
    "binary": lambda rng, n: (rng.random(n) < 0.3).astype(float),
    "constant": lambda rng, n: np.full(n, 3.7),
    "far from zero": lambda rng, n: 1e6 + rng.standard_normal(n),
    "decreasing": lambda rng, n: -np.arange(n, dtype=float),
}


def distances(values):
    return np.abs(values[:, None] - values)


def double_loop(x, y, pairing):
    n = len(x)
    return sum(
        abs(x[i] - x[j]) * abs(y[pairing[i]] - y[pairing[j]]) for i in range(n) for j in range(n)
    )


def check(x, y):
    """Compare with matrices, in units of what a mean distance amounts to."""
    sums = distance_sums(x, y)
    expected = GramSums.of([distances(x), distances(y)])
    n, scale = len(x), np.array([distances(x).mean(), distances(y).mean()])
    np.testing.assert_allclose(sums.rows / n, expected.rows / n, rtol=0, atol=1e-12 * scale.max())
    np.testing.assert_allclose(sums.squares, expected.squares, rtol=1e-12, atol=1e-300)
    np.testing.assert_array_equal(sums.diagonal, 0.0)
    assert sums.joint / n**2 == pytest.approx(expected.joint / n**2, rel=1e-12, abs=1e-300)
    for unbiased in (False, True):
        assert gram_hsic(sums, unbiased=unbiased) == pytest.approx(
            gram_hsic(expected, unbiased=unbiased), rel=1e-9, abs=1e-12 * scale.prod()
        )
        np.testing.assert_allclose(
            marginal_hsic(sums, unbiased=unbiased),
            marginal_hsic(expected, unbiased=unbiased),
            rtol=1e-9,
            atol=1e-12 * scale.max() ** 2,
        )


@pytest.mark.parametrize("n", [4, 5, 7, 8, 9, 31, 32, 33, 100, 257])
def test_distance_sums__equal_those_of_matrices_for_any_number_of_rows(n, rng):
    x = rng.standard_normal(n)
    check(x, x**2 + rng.standard_normal(n))


@pytest.mark.parametrize("first", COLUMNS)
@pytest.mark.parametrize("second", COLUMNS)
def test_distance_sums__equal_those_of_matrices_for_any_columns(first, second, rng):
    check(COLUMNS[first](rng, 211), COLUMNS[second](rng, 211))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_joint__is_right_for_the_fewest_rows(n, rng):
    x, y = rng.standard_normal((2, n))
    pairing = np.arange(n)[::-1]
    value = SortedColumns.of(x, y).joint(pairing)
    assert value == pytest.approx(double_loop(x, y, pairing), abs=1e-14)


@pytest.mark.parametrize("second", ["continuous", "ties"])
def test_joint__equals_loops_over_permuted_pairs(second, rng):
    x, y = COLUMNS["ties"](rng, 25), COLUMNS[second](rng, 25)
    pairings = rng.permuted(np.tile(np.arange(25), (4, 1)), axis=1)
    columns = SortedColumns.of(x, y)
    values = np.array([columns.joint(pairing) for pairing in pairings])
    expected = [double_loop(x, y, pairing) for pairing in pairings]
    np.testing.assert_allclose(values, expected, rtol=1e-13)
    assert len(set(values.round(6))) >= 3


def test_joint__gives_the_distance_covariance_of_permuted_rows(rng):
    x, y = rng.standard_normal((2, 300))
    pairing = rng.permutation(300)
    sums = distance_sums(x, y)
    permuted = sums._replace(
        rows=np.stack([sums.rows[0], sums.rows[1][pairing]]),
        joint=SortedColumns.of(x, y).joint(pairing),
    )
    expected = gram_hsic(distance_sums(x, y[pairing]), unbiased=True)
    assert gram_hsic(permuted, unbiased=True) == pytest.approx(expected, rel=1e-10)


def test_joint__is_the_same_where_the_cache_is_small(monkeypatch, rng):
    x, y = rng.standard_normal((2, 1003)).round(2)
    joint = SortedColumns.of(x, y).joint(np.arange(1003))
    monkeypatch.setattr(fast_distance, "_IN_CACHE", 50)
    assert SortedColumns.of(x, y).joint(np.arange(1003)) == pytest.approx(joint, rel=1e-13)
    assert joint == pytest.approx(float(np.vdot(distances(x), distances(y))), rel=1e-12)


def test_joint__ignores_the_order_among_ties(rng):
    x, y = COLUMNS["ties"](rng, 60), COLUMNS["binary"](rng, 60)
    shuffle = rng.permutation(60)
    value = SortedColumns.of(x, y).joint(np.arange(60))
    shuffled = SortedColumns.of(x[shuffle], y[shuffle]).joint(np.arange(60))
    assert value == pytest.approx(shuffled, rel=1e-13)


@pytest.mark.parametrize("ties", [False, True])
def test_distance_sums__agree_with_dcor(ties, rng):
    dcor = pytest.importorskip("dcor", reason="a peer: in the group peers")
    x = rng.standard_normal(500)
    y = np.sin(2 * x) + rng.standard_normal(500)
    if ties:
        x, y = x.round(1), y.round()
    sums = distance_sums(x, y)
    biased, unbiased = (gram_hsic(sums, unbiased=flag) for flag in (False, True))
    assert biased == pytest.approx(dcor.distance_covariance_sqr(x, y), rel=1e-10)
    assert unbiased == pytest.approx(dcor.u_distance_covariance_sqr(x, y), rel=1e-10)
    variances = marginal_hsic(sums, unbiased=False)
    expected = [dcor.distance_covariance_sqr(v, v) for v in (x, y)]
    np.testing.assert_allclose(variances, expected, rtol=1e-10)
