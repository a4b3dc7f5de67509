"""The guard of approximate nulls: its moments by definition, what it measures, what it says."""

import itertools
import math
import warnings

import numpy as np
import pytest

import dhsic
from dhsic.errors import InvalidArgumentError
from dhsic.kernels import Delta, Gaussian, Linear
from dhsic.nulls import (
    ApproximateNullWarning,
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


def by_definition(gram, pairs):
    """Moments of the centred kernel over pairs of rows."""
    n = len(gram)
    inside = np.zeros((n, n), bool)
    inside[tuple(np.transpose(pairs))] = True
    row = np.where(inside, gram, 0.0).sum(axis=1) / inside.sum(axis=1)
    mean = row.mean()
    centred = [gram[i, j] - row[i] - row[j] + mean for i, j in pairs]
    return [mean, np.mean(np.square(centred)), np.mean(np.power(centred, 3))]


@pytest.mark.parametrize("tied", [False, True])
def test_moments__are_those_of_pairs_of_rows(tied):
    """Of different rows; of all where most rows equal another one."""
    x = RNG.integers(3, size=(30, 1)).astype(float) if tied else RNG.standard_normal((30, 2))
    gram = Gaussian(gamma=0.7)(x)
    pairs = [(i, j) for i, j in itertools.product(range(30), repeat=2) if tied or i != j]
    found = kernel_moments(gram)
    np.testing.assert_allclose(found[:3], by_definition(gram, pairs), rtol=1e-10)
    assert found.norm == pytest.approx(1.0 - found.mean)
    assert found.alike


@pytest.mark.parametrize("p", [0.01, 0.1, 0.4])
def test_moments__of_a_dummy_are_those_of_its_share(p):
    """(E A^2)^(3/2) / E A^3 = p (1 - p) / (1 - 2 p)^2."""
    found = kernel_moments(Delta()(rare(p)))
    assert found.square**1.5 / found.cube == pytest.approx(p * (1 - p) / (1 - 2 * p) ** 2)


def test_moments__keep_a_value_that_one_sampled_row_has():
    """Without pairs of a row with itself the value would never meet itself."""
    found = kernel_moments(Delta()(rare(0.002)))
    assert found.square**1.5 / found.cube == pytest.approx(0.002, rel=0.01)


def test_moments__of_a_sample_without_variation_are_none():
    found = kernel_moments(Gaussian(gamma=1.0)(np.ones((20, 2))))
    assert found[1:3] == (0.0, 0.0)
    assert joint_spread([found, kernel_moments(Delta()(rare(0.3)))], 100).rows == 0.0


def test_moments__tell_extremes_from_rare_values():
    assert not kernel_moments(Linear()(RNG.standard_cauchy((50, 1)))).alike


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


def test_spread__of_means_that_are_0_is_that_of_all_variables_together():
    moments = [KernelMoments(0.0, 0.5, 0.3, 0.8)] * 3
    assert joint_spread(moments, 10).rows == pytest.approx(10 * 0.5**4.5 / 0.3**3)


def test_spread__has_no_more_directions_than_the_features():
    moments = [KernelMoments(0.0, 1e-6, 1e-9, 1.0)] * 2
    assert joint_spread(moments, 10).directions == pytest.approx(1e12)
    limited = joint_spread(moments, 10, directions=50.0)
    assert limited.directions == pytest.approx(50.0)
    assert limited.rows == pytest.approx(10 * 0.02**1.5 / 1e-18)


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


def test_spread_at_locations__of_kernels_that_do_not_vary_has_no_rows():
    tiles = [np.ones((5, 2)), RNG.random((5, 2))]
    assert spread_at_locations(tiles, 40).rows == 0.0


@pytest.mark.parametrize("size", [1e80, 1e160])
def test_spread__of_moments_that_overflow_is_left_to_the_test(size):
    """Which refuses them."""
    found = kernel_moments(Linear()(size**0.5 * RNG.standard_normal((20, 1))))
    assert joint_spread([found] * 3, 50) == JointSpread(math.inf, 0.0)
    assert spread_at_locations([size * RNG.standard_normal((9, 2))] * 3, 50).rows == math.inf


def test_guard__is_silent_where_rows_and_directions_are_enough():
    assert guard("gamma", [JointSpread(4.0, 9.0)] * 3, 100, Needs(4.0, directions=10.0)) == ""


def test_guard__says_what_was_measured_what_is_needed_and_what_to_do():
    needs = Needs(25.0, directions=1000.0)
    with pytest.warns(ApproximateNullWarning) as caught:
        note = guard("spectral", [JointSpread(0.42, 2e4)], 1000, needs)
    assert note == (
        "about 0.42 of 1,000 rows show how independent variables vary together, and it needs 25, "
        "so that p-values may be far too small; kernels vary in about 20,000 directions, more "
        "than 1,000, so that it rejects too rarely"
    )
    message = str(caught[0].message)
    assert message.startswith("null 'spectral' is an approximation: about 0.42 of 1,000 rows")
    assert message.endswith("null='permutation': both are exact")


def test_guard__counts_the_combinations_that_are_amiss():
    spreads = [JointSpread(30.0, 1.0), JointSpread(3.0, 1.0), JointSpread(0.001, 1.0)]
    with pytest.warns(ApproximateNullWarning, match="in 2 of 3 combinations about 0.001 of 500"):
        guard("multiplier", spreads, 500, Needs(25.0, 0.02))


def test_guard__refuses_what_no_row_can_show():
    few = [JointSpread(0.01, 1.0), JointSpread(0.001, 1.0)]
    with pytest.raises(InvalidArgumentError, match="none of 500 does: take null='auto'"):
        guard("multiplier", few, 500, Needs(25.0, 0.02))


@pytest.mark.parametrize(
    "spread", [JointSpread(0.0, 1.0), JointSpread(0.01, 1.0, certain=False)], ids=str
)
def test_guard__does_not_refuse_what_it_cannot_know(spread):
    """No variation in the sample may be a value that is rarer than it shows; extremes are few."""
    with pytest.warns(ApproximateNullWarning):
        guard("multiplier", [spread], 500, Needs(25.0, 0.02))


def test_warning__is_a_category_of_its_own():
    assert dhsic.ApproximateNullWarning is ApproximateNullWarning
    assert issubclass(ApproximateNullWarning, UserWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dhsic.ApproximateNullWarning)
        guard("gamma", [JointSpread(1.0, 1.0)], 100, Needs(4.0))
