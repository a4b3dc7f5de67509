"""Conditional independence: against dense matrices, by level and power, with its warnings.

Two tests read the features that the regressions are of, since no result has them: what is fitted to
them decides the p-value, and is compared with naive regressions.
"""

import warnings
from functools import partial
from itertools import product

import numpy as np
import pytest

import dhsic
from dhsic import conditional
from dhsic._arguments import RunOptions
from dhsic.engine.passes import RowBlock
from dhsic.errors import ApproximateNullWarning, MemoryBudgetError, UnexplainedWarning
from dhsic.integrations import PValue
from dhsic.io.open import open_labelled_data
from dhsic.kernels import Gaussian
from dhsic.kernels.wrap import stretched
from dhsic.linalg import row_products
from dhsic.nulls import ChiSquareMixture
from dhsic.regression import MOST_FREEDOM, RIDGES, Folds
from tests import oracles

WIDTH, EXCESS, FOLDS = conditional._WIDTH, conditional._EXCESS, conditional.FOLDS
test_given = partial(dhsic.conditional_independence_test, rng=0)
test_given.__test__ = False


def spread(n, seed, effect=0.0, d=1):
    """Noise whose spread follows z; with an effect a part of it is shared."""
    e, f, h, *z = np.random.default_rng([seed, n]).standard_normal((3 + d, n))
    scale = np.abs(z[0])
    return z[0] + scale * (e + effect * h), z[0] + scale * (f + effect * h), np.array(z).T


# The statistic, its law and the estimate by definition


def residuals_of_kernels(x, y, z, seed):
    """The features, regressions and sums of a run."""
    sources, _, _ = open_labelled_data((x, y, z), None, None, "refuse", {})
    session = RunOptions(seed, "float64", threads=1).over(sources)
    return conditional.KernelResiduals((stretched(Gaussian(), WIDTH),) * 2).run(session)


def by_fold(seed, values, function):
    """Arrays of all rows, each found by its fold."""
    order, found = [], []
    for fold, some in Folds(FOLDS, seed).tiles(RowBlock(0, tuple(values))):
        order.append(some)
        found.append(function(fold, *(v[some] for v in values)))
    places = np.argsort(np.concatenate(order))
    return [np.concatenate(part)[places] for part in zip(*found, strict=True)]


def features_by_fold(design, seed, values):
    return by_fold(seed, values, lambda fold, *values: design.features(values, fold))


@pytest.mark.parametrize(("n", "d"), [(170, 1), (130, 3)])
def test_kernel__is_what_dense_matrices_say(n, d):
    x, y, z = spread(n, 0, 0.5, d)
    found = test_given(x, y, given=z, rng=3, threads=1)
    result = residuals_of_kernels(x, y, z, 3)
    every = features_by_fold(result.design, 3, [x[:, None], y[:, None], z])
    given, own_x, own_y, phi, psi, weights = every
    most = MOST_FREEDOM * n

    ways = result.design.left_out or [[]]
    assert len(ways) == (1 if d == 1 else 4)

    def fits(regressors, targets, excess=0.0):
        kept = [np.delete(regressors, one, axis=1) for one in ways]

        def by_ways(excess):
            return [
                oracles.ridge_in_dual(one @ one.T, targets, RIDGES, most, excess) for one in kept
            ]

        least = np.array([[score for _, score in one] for one in by_ways(0.0)])
        taken = by_ways(excess)
        return [(taken[k][t][0], taken[k][t][1]) for t, k in enumerate(least.argmin(axis=0))]

    given_x, given_y = (np.hstack([given, one]) for one in (own_x, own_y))
    x_fits, y_fits = fits(given_x, phi, EXCESS), fits(given_y, psi, EXCESS)
    mean, moments = oracles.residual_products(x_fits, y_fits, phi, psi, weights)
    np.testing.assert_allclose(found.statistic, n * mean @ mean, rtol=1e-7)
    law = ChiSquareMixture.of(np.maximum(np.linalg.eigvalsh(moments), 0.0))
    np.testing.assert_allclose(found.pvalue, law.sf(n * mean @ mean), rtol=1e-6)
    both = fits(np.hstack([given_y, row_products(phi, weights)]), psi)
    expected = oracles.partial_correlation(fits(given_y, psi), both)
    np.testing.assert_allclose(found.estimate, expected, rtol=1e-6)
    assert 0.0 < found.estimate < 1.0

    for values, side in zip((x, y), result.design.sides, strict=True):
        ((hat, _),) = fits(given, values[:, None])
        left = values - hat @ values + values.mean()
        centred = side.centre(values[:, None], given)[:, 0]
        np.testing.assert_allclose(centred, left, rtol=1e-6)
        # Of so few rows all are drawn, so that the kernel is of what is left of all of them.
        usual = Gaussian().fit(left[:, None]).gamma / WIDTH**2
        np.testing.assert_allclose(side.features.map.kernel.gamma, usual, rtol=1e-6)


@pytest.mark.parametrize("fold", [0, FOLDS - 1])
def test_indices__of_a_row_are_by_the_other_folds(fold):
    n = 400
    x, y, z = (v[:, None] if v.ndim == 1 else v for v in spread(n, 0, d=2))
    design = residuals_of_kernels(x, y, z, 3).design
    own = np.concatenate(
        [some for k, some in Folds(FOLDS, 3).tiles(RowBlock(0, (x,))) if k == fold]
    )
    # The mean of all rows is taken off, so that it alone is of all of them.
    others = np.setdiff1d(np.arange(n), own)
    given = design.of_given(z)
    # The first features of x are principal directions of its kernel as it is.
    kernel = Gaussian().fit(x).widened(WIDTH)
    first = conditional.Projection.principal(kernel, x, conditional.MOST_DIRECTIONS, float)
    regressors, targets = (v[others] - v[others].mean(axis=0) for v in (given, first(x)))
    assert 0.5 < len(own) * FOLDS / n < 1.5
    side = design.sides[0]
    index = side.own
    found = (given - index.mean) @ index.slopes[fold]
    errors = []
    for penalty, way in product(RIDGES, design.left_out):
        some = np.delete(regressors, way, axis=1)
        gram = some.T @ some / len(others) + penalty * np.eye(some.shape[1])
        slopes = np.linalg.solve(gram, some.T @ targets[:, 0] / len(others))
        expected = np.delete(given - given.mean(axis=0), way, axis=1) @ slopes
        errors.append(np.abs(np.abs(found[:, 0]) - np.abs(expected)).max() / np.std(expected))
    assert min(errors) < 1e-3 < np.median(errors)
    # That of the column is by all rows, as the one that its features are about.
    assert np.array_equal(index.slopes[0, :, -1], index.slopes[-1, :, -1])
    about = x - side.centre(x, given)
    assert abs(np.corrcoef(about[:, 0], found[:, -1])[0, 1]) > 1.0 - 1e-9


def test_default__is_a_wide_kernel():
    def gammas(x, y, z, kernels=None):
        found = test_given(x, y, given=z, kernels=kernels)
        return [one.kernel.partition("gaussian:")[2] for one in found.variables]

    x, y, z = np.random.default_rng(0).standard_normal((3, 200))
    usual = np.array(gammas(x, y, z, "gaussian"), float)
    wide = np.array(gammas(x, y, z), float)
    np.testing.assert_allclose(wide / usual, (wide / usual)[0])
    assert (wide < 0.5 * usual).all()
    half = np.array(gammas(x, y, z, [None, "gaussian"]), float)
    np.testing.assert_allclose(half, [wide[0], usual[1]])
    category, number = gammas(np.where(x > 0.0, "a", "b"), y, z)
    assert category == ""
    np.testing.assert_allclose(float(number), wide[1])


# Level and power


def rejections(data, runs, n, **options):
    results = (data(n, seed, **options) for seed in range(runs))
    return np.mean([test_given(x, y, given=z).pvalue <= 0.05 for x, y, z in results])


def test_kernel__keeps_its_level_where_the_spread_follows_z():
    assert rejections(spread, 24, 300) <= 0.25  # 0.06 % of tests of level 5 % reject more
    assert rejections(spread, 8, 300, effect=1.0) >= 0.8


@pytest.mark.nightly
def test_kernel__keeps_its_level_in_many_data_sets():
    assert rejections(spread, 300, 300) <= 0.09  # 0.1 % of tests of level 5 % reject more


@pytest.mark.nightly
def test_kernel__of_more_rows_than_regressions_take_keeps_its_level_and_power():
    """Regressions are fitted to drawn rows of more than 200,000."""

    def bounded(n, seed, effect=0.0):
        e, f, h = np.random.default_rng(seed).standard_normal((3, n))
        z = np.linspace(-1.0, 1.0, n)
        return z + z**2 * (e + effect * h), z + z**2 * (f + effect * h), z

    assert rejections(bounded, 5, 250_000) <= 0.4  # 0.1 % of tests of level 5 % reject more
    assert rejections(bounded, 1, 250_000, effect=0.2) == 1.0


def turning(n, seed):
    """The dependence cancels over z."""
    z, e, f = np.random.default_rng(seed).standard_normal((3, n))
    return z + e, z + np.sign(z) * e + f, z


def volatile(n, seed):
    """A spread that both share, about a mean that z says: none of 8 without predictions."""
    z, e, f, h = np.random.default_rng(seed).standard_normal((4, n))
    scale = np.exp(0.4 * h)
    return 2 * z + scale * e, 2 * z + scale * f, z


@pytest.mark.parametrize(("data", "n", "least"), [(turning, 500, 0.9), (volatile, 1000, 0.8)])
def test_kernel__sees_what_is_hidden(data, n, least):
    assert rejections(data, 8, n) >= least


@pytest.mark.parametrize("seed", [3, 4])
def test_indices__serve_a_single_given_column_too(seed):
    """Features of z alone missed its tails, in both variables: p-values of 5e-41 and 2e-19."""
    z, e, f = np.random.default_rng(seed).standard_normal((3, 5000))
    cubed = z**3 / 15**0.5
    assert test_given((cubed + e) ** 3, (cubed + f) ** 3, given=z, threads=1).pvalue > 0.05


# Half of the rows explain less, and yet the level holds.
@pytest.mark.filterwarnings("ignore::dhsic.errors.UnexplainedWarning")
def test_kernel__keeps_its_level_where_predictions_are_coarse():
    """Cubes of sums of cubes: 9 of 10 such data sets were rejected without these regressors."""

    def cubes(n, seed):
        rng = np.random.default_rng([seed, n])
        z, (e, f) = rng.standard_normal((n, 10)), rng.standard_normal((2, n))
        total = (z**3).sum(axis=1) / np.sqrt(10 * 15)
        return (total + e) ** 3, (total + f) ** 3, z

    assert rejections(cubes, 2, 4000) <= 0.5  # 0.25 % of tests of level 5 % reject more


def test_kernel__finds_no_dependence_in_irrelevant_columns():
    rng = np.random.default_rng(1)
    z, (e, f) = rng.standard_normal((400, 10)), rng.standard_normal((2, 400))
    x, y = np.tanh(z[:, 0] + e), (z[:, 0] + f) ** 3
    assert dhsic.independence_test(x, y, null="gamma", rng=0).pvalue < 0.001
    assert test_given(x, y, given=z).pvalue > 0.05


@pytest.mark.parametrize("unit", [1e3, 1e6])
def test_units__of_columns_change_nothing(unit):
    rng = np.random.default_rng(2)
    z, other, a, b, e, f = rng.standard_normal((6, 400))
    x, y = z * other + 0.5 * e, z * other + 0.5 * f
    plain = test_given(x, y, given=[z, other])
    large = test_given(x, y, given=[unit * z, other])
    assert large.pvalue == pytest.approx(plain.pvalue, abs=0.01)  # rounding picks landmarks
    assert plain.pvalue > 0.05
    wide = [test_given(np.c_[z + a, s * b], z + a + e, given=z) for s in (1.0, unit)]
    assert wide[0].pvalue < 1e-6
    assert wide[1].statistic == pytest.approx(wide[0].statistic, rel=1e-3)


# Strata and kinds of data


def categories(n, seed, effect=0.0):
    """Mean and spread follow a label."""
    rng = np.random.default_rng([seed, n])
    labels, (e, f) = rng.integers(4, size=n), rng.standard_normal((2, n))
    return labels + (1 + labels) * e, labels + f + effect * e, np.array(list("abcd"))[labels]


def test_strata__are_taken_of_categories():
    x, y, z = categories(150, 0, effect=1.0)
    found = test_given(x, y, given=z)
    assert found.method == "strata"
    assert found.pvalue <= 0.01
    expected = dhsic.independence_test(x, y, strata=z, rng=0)
    assert (found.statistic, found.pvalue) == (expected.statistic, expected.pvalue)
    assert test_given(x, y, given=z, method="kernel").method == "kernel"
    both = test_given(x, y, given=[z, z == "a"])  # which says nothing new
    assert both.pvalue == found.pvalue


def test_mixed__columns_can_be_given_and_tested():
    x, y, labels = categories(400, 0)
    z = np.random.default_rng(5).standard_normal(400)
    found = test_given(x + z, y + z, given=[labels, z])
    assert found.method == "kernel"
    assert found.pvalue > 0.01
    assert test_given(x, labels, given=z).pvalue < 0.01
    third = dhsic.conditional_independence_test(x, y, z, rng=0)
    assert third.pvalue == test_given(x, y, given=z).pvalue
    single = test_given(x, y, given=z, precision="float32")
    # Rounding may choose another ridge of the grid.
    np.testing.assert_allclose(single.statistic, third.statistic, rtol=2e-2)
    single = test_given(x + z, y + z, given=[labels, z], precision="float32")
    np.testing.assert_allclose(single.statistic, found.statistic, rtol=2e-2)


# Warnings and refusals


def test_warnings__tell_where_the_law_may_be_far():
    z, e, f = np.random.default_rng(0).standard_normal((3, 400))
    with pytest.warns(ApproximateNullWarning, match="n = 40 is less than 50"):
        test_given(e[:40], f[:40], given=z[:40])
    with pytest.warns(ApproximateNullWarning, match="x is nearly a function of the given"):
        assert "function of the given" in test_given(z**2, f, given=z).null_reason
    rare = np.zeros(400)
    rare[:2] = 1.0
    with pytest.warns(ApproximateNullWarning, match="of 400 rows decide"):
        test_given(rare, f, given=z)


def same_function(f, seed, n=300, noise=0.5):
    """Independent given z: both are the same function of z with noise."""
    rng = np.random.default_rng([seed, n])
    columns, function = f
    z = rng.standard_normal((n, columns))
    x, y = function(z) + noise * rng.standard_normal((2, n))
    return x, y, z


PRODUCT = 10, lambda z: z[:, 0] * z[:, 1]
SUMS = 10, lambda z: 0.47 * (np.abs(z[:, :5]) + np.cos(3 * z[:, 5:])).sum(axis=1)
MANY_SUMS = 20, lambda z: 0.33 * (np.abs(z[:, :10]) + np.cos(3 * z[:, 10:])).sum(axis=1)
TRIPLE = 3, lambda z: z.prod(axis=1)
SMOOTH = 2, lambda z: z[:, 0] + np.sin(z[:, 1])


def told_of(f, runs, **options):
    """How many data sets are rejected, and how many are warned of."""
    rejected = warned = 0
    for seed in range(runs):
        x, y, z = same_function(f, seed, **options)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UnexplainedWarning)
            rejected += test_given(x, y, given=z, threads=1).pvalue <= 0.05
        warned += bool(caught)
    return rejected, warned


@pytest.mark.parametrize(
    ("f", "runs", "most"), [(PRODUCT, 5, 2), (SUMS, 10, 3)], ids=["product", "sums"]
)
def test_kernel__keeps_its_level_where_columns_interact_or_are_many(f, runs, most):
    """By kernels of all columns alone nearly all and 57 % of such data sets were rejected."""
    assert told_of(f, runs)[0] <= most  # 0.1 % of tests of level 5 % reject more


@pytest.mark.parametrize("f", [MANY_SUMS, TRIPLE], ids=["sums", "triple product"])
def test_unexplained__is_warned_of_where_regressions_miss_what_is_given(f):
    _, warned = told_of(f, 6)
    assert warned >= 5


def test_unexplained__is_rarely_warned_of_where_regressions_follow():
    assert told_of(SMOOTH, 10)[1] <= 1
    assert told_of(SMOOTH, 4, noise=3.0)[1] == 0


def test_unexplained__says_what_was_gained():
    x, y, z = same_function(TRIPLE, 0)
    with pytest.warns(UnexplainedWarning, match="all rows explain .* % more") as caught:
        found = test_given(x, y, given=z)
    assert caught[0].filename == __file__
    assert min(found.gained) > 0.1
    assert "all rows explain" in found.null_reason
    with pytest.warns(UnexplainedWarning):
        PValue()(x, y, z)
    # Far values of columns, which one half of the rows may hold, are no such gain.
    e, f = np.random.default_rng(3).standard_normal((2, 300))
    small = test_given((z[:, 0] + e) ** 5, (z[:, 0] + f) ** 5, given=z)
    assert np.prod(small.gained) * 300 < 4.0
    several = np.column_stack([x, f]), np.column_stack([e, y])
    with pytest.warns(UnexplainedWarning):
        assert len(test_given(*several, given=z).gained) == 2
    assert not test_given(np.sign(x), np.sign(y), given=np.sign(z) > 0.0).gained


def test_strata__that_cannot_be_held_are_refused():
    n, rng = 200_000, np.random.default_rng(0)
    labels = [rng.integers(0, 3, n).astype(np.int8) for _ in range(8)]
    with pytest.raises(MemoryBudgetError, match=r"held in memory .* Allow memory=19600000 or more"):
        dhsic.plan_conditional(
            *rng.standard_normal((2, n)), given=labels, method="strata", memory="16MiB"
        )


def test_draws__of_bandwidths_are_of_every_variable_by_itself():
    """One draw for both would let the kernels know which rows meet."""
    x, z = np.random.default_rng(0).standard_normal((2, 1500))
    first, second = (one.kernel for one in test_given(x, x, given=z).variables)
    assert first != second
