"""The guard of approximate nulls: its moments by definition, what it measures, what it says."""

import itertools
import math
import warnings

import numpy as np
import pytest

import dhsic
from dhsic.errors import ApproximateNullWarning, InvalidArgumentError
from dhsic.kernels import Delta, Gaussian, Linear
from dhsic.nulls import (
    JointSpread,
    KernelMoments,
    Needs,
    guard,
    joint_spread,
    kernel_moments,
    spread_at_locations,
)

RNG = np.random.default_rng(5)


def rare(share, n=500):
    """Dummies with exactly this share of ones."""
    return (np.arange(n) < round(share * n)).astype(float)[:, None]


def by_definition(gram, tied):
    """Moments of the centred kernel over pairs of rows: of different ones, or of all where tied."""
    n = len(gram)
    inside = np.ones((n, n), bool) if tied else ~np.eye(n, dtype=bool)
    row = np.where(inside, gram, 0.0).sum(axis=1) / inside.sum(axis=1)
    centred = (gram - row[:, None] - row + row.mean())[inside]
    norm = np.diag(gram).mean() - row.mean()
    return [row.mean(), np.mean(centred**2), np.mean(centred**3), norm]


CIRCLE = np.column_stack([1.0 + np.cos(np.arange(1.0, 20.0)), np.sin(np.arange(1.0, 20.0))])


@pytest.mark.parametrize(
    ("gram", "tied"),
    [
        (Gaussian(gamma=0.7)(RNG.standard_normal((30, 2))), False),
        (Gaussian(gamma=0.7)(RNG.integers(3, size=(30, 1))), True),
        (Gaussian(gamma=0.7)(np.repeat(RNG.standard_normal((10, 2)), 2, axis=0)), True),
        (Delta()(np.r_[np.repeat(np.arange(5), 2), np.arange(5, 15)][:, None]), True),
        (Delta()(np.r_[np.repeat(np.arange(5), 2), np.arange(5, 16)][:, None]), False),
        (1e8 * Delta()(np.arange(30)[:, None] % 3) + 1e-6 * RNG.random((30, 30)), True),
        # Of points on a circle through 0 the product with the opposite one is the squared norm.
        (Linear()(np.vstack([[2.0, 0.0], CIRCLE])), False),
    ],
)
def test_moments__are_those_of_pairs_of_rows(gram, tied):
    found = kernel_moments(gram)
    np.testing.assert_allclose(found[:4], by_definition(gram, tied), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("p", [0.002, 0.01, 0.1, 0.4])
def test_moments__of_a_dummy_are_those_of_its_share(p):
    """(E A^2)^(3/2) / E A^3 = p (1 - p) / (1 - 2 p)^2, also of a value that one row has."""
    found = kernel_moments(Delta()(rare(p)))
    assert found.square**1.5 / found.cube == pytest.approx(p * (1 - p) / (1 - 2 * p) ** 2)
    assert found.alike
    assert not kernel_moments(Linear()(RNG.standard_cauchy((50, 1)))).alike


def test_moments__of_a_sample_without_variation_are_none():
    found = kernel_moments(Gaussian(gamma=1.0)(np.ones((20, 2))))
    assert found[1:3] == (0.0, 0.0)
    assert joint_spread([found, kernel_moments(Delta()(rare(0.3)))], 100).rows == 0.0


@pytest.mark.parametrize(("p", "q", "n"), [(0.02, 0.02, 1000), (0.3, 0.1, 200), (0.1, 0.01, 4000)])
def test_spread__of_two_dummies_counts_rows_that_are_both(p, q, n):
    moments = [kernel_moments(Delta()(rare(share))) for share in (p, q)]
    found = joint_spread(moments, n)
    factor = (1 - p) * (1 - q) / ((1 - 2 * p) * (1 - 2 * q)) ** 2
    assert found.rows == pytest.approx(n * p * q * factor)
    assert found.directions == pytest.approx(1.0)
    assert found.certain


def test_spread__of_three_variables_is_that_of_all_sets_of_two_or_more():
    moments = [KernelMoments(*RNG.uniform(0.1, 1.0, 4)) for _ in range(3)]
    sums = []
    for power, own in [(2, "square"), (3, "cube"), (1, "norm")]:
        terms = [(getattr(one, own), one.mean**power) for one in moments]
        chosen = [s for s in itertools.product((0, 1), repeat=3) if s.count(0) >= 2]
        sums.append(sum(math.prod(t[k] for t, k in zip(terms, s, strict=True)) for s in chosen))
    square, cube, norm = sums
    found = joint_spread(moments, 70)
    assert found.rows == pytest.approx(70 * square**1.5 / cube)
    assert found.directions == pytest.approx(norm**2 / square)
    means_of_0 = [KernelMoments(0.0, 0.5, 0.3, 0.8)] * 3
    assert joint_spread(means_of_0, 10).rows == pytest.approx(10 * 0.5**4.5 / 0.3**3)


@pytest.mark.parametrize("m", [2, 3, 4])
def test_spread_at_locations__is_the_skewness_over_all_tuples_of_rows(m):
    """Rows of one variable with all rows of the others."""
    tiles = [RNG.exponential(size=(7, 2)) for _ in range(m)]
    means = [tile.mean(axis=0) for tile in tiles]
    xi = np.zeros((7,) * m + (2,))
    for rows in itertools.product(range(7), repeat=m):
        own = [tile[i] for tile, i in zip(tiles, rows, strict=True)]
        linear = sum(
            (own[v] - means[v]) * np.prod(means[:v] + means[v + 1 :], axis=0) for v in range(m)
        )
        xi[rows] = np.prod(own, axis=0) - np.prod(means, axis=0) - linear
    xi = xi.reshape(-1, 2)
    skewness = (xi**3).mean(axis=0) ** 2 / (xi**2).mean(axis=0) ** 3
    assert spread_at_locations(tiles, 40).rows == pytest.approx(40 / skewness.mean())
    assert spread_at_locations([np.ones((5, 2)), RNG.random((5, 2))], 40).rows == 0.0


@pytest.mark.parametrize("size", [1e80, 1e160])
def test_spread__of_moments_that_overflow_is_left_to_the_test(size):
    """Which refuses them."""
    found = kernel_moments(Linear()(size**0.5 * RNG.standard_normal((20, 1))))
    assert joint_spread([found] * 3, 50) == JointSpread(math.inf, 0.0)
    assert spread_at_locations([size * RNG.standard_normal((9, 2))] * 3, 50).rows == math.inf


def guarded(*spreads, rows=4.0, directions=10.0, meaningless=0.0):
    needs = Needs(rows, meaningless, directions)
    return guard("spectral", [JointSpread(*spread) for spread in spreads], 1000, needs)


def test_guard__says_what_was_measured_what_is_needed_and_what_to_do():
    assert guarded((4.0, 9.0), (4.0, 10.0), (4.0, 1.0)) == ""
    with pytest.warns(ApproximateNullWarning) as caught:
        note = guarded((0.42, 2e4), rows=25.0, directions=1000.0)
    assert note == (
        "about 0.42 of 1,000 rows show how independent variables vary together, and it needs 25, "
        "so that p-values may be far too small; kernels vary in about 20,000 directions, more "
        "than 1,000, so that it rejects too rarely"
    )
    message = str(caught[0].message)
    assert message.startswith("null 'spectral' is an approximation: about 0.42 of 1,000 rows")
    assert "small; and kernels vary" in message
    assert message.endswith("null='permutation': both are exact")


def test_guard__counts_the_combinations_that_are_amiss():
    with pytest.warns(ApproximateNullWarning, match="in 2 of 3 combinations about 0.001 of 1,000"):
        guarded((30.0, 1.0), (3.0, 1.0), (0.001, 1.0), rows=25.0, meaningless=0.02)
    with pytest.warns(ApproximateNullWarning, match="in 1 of 2 combinations kernels vary in about"):
        guarded((30.0, 1.0), (30.0, 99.0))


def test_guard__refuses_what_no_row_can_show_and_not_what_it_cannot_know():
    """No variation in the sample may be a value that is rarer than it shows; extremes are few."""
    with pytest.raises(InvalidArgumentError, match="none of 1,000 does: take null='auto'"):
        guarded((0.01, 1.0), (0.001, 1.0), meaningless=0.02)
    for spread in [(0.0, 1.0), (0.01, 1.0, False), (0.02, 1.0)]:
        with pytest.warns(ApproximateNullWarning):
            guarded(spread, meaningless=0.02)


def test_warning__is_a_category_of_its_own():
    assert issubclass(dhsic.ApproximateNullWarning, UserWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dhsic.ApproximateNullWarning)
        guarded((1.0, 1.0))
