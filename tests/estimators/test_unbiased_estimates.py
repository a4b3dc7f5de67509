"""Estimates of tests that have the expectation of U-HSIC, whatever the statistic."""

import numpy as np
import pytest

import dhsic
from dhsic.engine.groups import Groups
from dhsic.engine.reduction import GroupBlock
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators.feature.basis import Side
from dhsic.estimators.feature.blocks import KeptBlocks, UnbiasedEstimates
from dhsic.features import KernelFeatures, LandmarksByColumn
from dhsic.kernels import Candidates, Columns, Gaussian, Grid, Laplacian, Linear
from dhsic.linalg import solve_lower
from tests import oracles

GRID = Grid(Candidates(("gaussian", "laplacian"), (0.5, 1.0)), combine="all")


def dependent(n, d=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    return x, x[:, :1] + rng.standard_normal((n, 1))


def u_hsic(data, kernels):
    """By the definition, which takes n^4 products, or the estimator that is tested against it."""
    if len(data[0]) <= 12:
        return oracles.u_hsic(*(one(x) for one, x in zip(kernels, data, strict=True)))
    return dhsic.hsic(*data, kernels=kernels, estimator="u-hsic").estimate


NULLS = ("shifts", dhsic.Permutation(99), dhsic.Multiplier(99), "gamma", "spectral")


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.parametrize("n", [12, 40, 300])
def test_v_hsic__tells_u_hsic_beside_the_same_p_value(n, null):
    data, kernels = dependent(n), (Laplacian(gamma=0.2), Gaussian(gamma=0.1))
    plain, unbiased = (
        dhsic.independence_test(
            *data, kernels=kernels, estimator=dhsic.VHSIC(option), null=null, rng=1
        )
        for option in (False, True)
    )
    assert unbiased.estimate == pytest.approx(u_hsic(data, kernels), rel=1e-9, abs=1e-12)
    assert unbiased.estimate < plain.estimate
    assert (unbiased.statistic, unbiased.pvalue) == (plain.statistic, plain.pvalue)


def reference(found):
    grid = found.grid
    return [dhsic.kernels.parse(spec) for spec in grid.combinations[grid.reference].kernels]


@pytest.mark.parametrize("n", [30, 300, 1500])
@pytest.mark.parametrize("second", [Gaussian(gamma=0.3), Linear()])
def test_v_hsic__tells_u_hsic_of_the_reference_of_a_grid(n, second):
    """By Gram matrices that are held for all cosets, and by tiles of pairs of groups."""
    data = dependent(n)
    grid = Grid([Candidates("gaussian", (0.5, 1.0)), Candidates(second)], combine="all")
    found = dhsic.independence_test(*data, kernels=grid, estimator=dhsic.VHSIC(True), rng=1)
    kernels = reference(found)
    assert found.estimate == pytest.approx(u_hsic(data, kernels), rel=1e-4)


@pytest.mark.parametrize(
    ("n", "estimator"), [(60, "auto"), (300, dhsic.NystromHSIC(12, unbiased_estimate=True))]
)
@pytest.mark.parametrize("columns", [1, 3])
def test_default__has_an_estimate_of_mean_0_where_nothing_depends(n, estimator, columns):
    """Over 50 data sets; by the kernels that lie farthest above 0 it would be 5 to 10 errors."""
    estimates = []
    for seed in range(50):
        rng = np.random.default_rng([seed, n, columns])
        data = rng.standard_normal((n, columns)), rng.standard_normal(n)
        options = {"estimator": estimator, "n_resamples": 99, "rng": seed, "threads": 1}
        estimates.append(dhsic.independence_test(*data, **options).estimate)
    assert abs(np.mean(estimates)) < 4.0 * np.std(estimates) / np.sqrt(50)


@pytest.mark.parametrize("estimator", ["v-hsic", "nystrom-m"])
def test_chain__tells_the_estimate_of_the_reference(estimator):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 200))
    data = x, np.cos(6.0 * x) + 0.1 * y, y
    found = dhsic.independence_test(*data, estimator=estimator, n_resamples=99, rng=1, threads=1)
    assert found.grid.reference != found.grid.strongest
    kernels = reference(found)
    assert [one.spec() for one in kernels] == [variable.kernel for variable in found.variables]
    own = dhsic.hsic(*data, kernels=kernels, estimator="v-hsic").estimate
    assert found.estimate == pytest.approx(own, rel=1e-6 if estimator == "v-hsic" else 0.2)


def test_unbiased_estimate__needs_two_variables_and_four_rows():
    x = np.arange(10.0)
    with pytest.raises(InvalidArgumentError, match="needs two variables, got 3"):
        dhsic.hsic(x, x**2, x**3, estimator=dhsic.VHSIC(True))
    with pytest.raises(DataError, match="at least 4 rows, got 3"):
        dhsic.hsic(x[:3], x[:3] ** 2, estimator=dhsic.VHSIC(True))


def kernel_sides(x, y):
    """A Gaussian and a mean over columns of x, and a Gaussian of y, with few landmarks."""
    mean, one, other = Columns(Laplacian()).fit(x), Gaussian().fit(x), Gaussian().fit(y)
    by_column, factor = LandmarksByColumn.of(mean, x, 3, 1e-8, float)
    whitening = np.linalg.cholesky(one(x[:20]))
    return {
        0: Side.of(KernelFeatures.at(x[:20], one, float), x, whitening),
        1: Side.of(by_column, x, factor),
        2: Side.of(KernelFeatures.at(y[:4], other, float), y, np.linalg.cholesky(other(y[:4]))),
    }


def whitened(side, x):
    return solve_lower(side.factor, side.map(x).T).T


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("first", [0, 1])
def test_estimate__is_that_of_features_and_of_blocks_for_what_they_leave_out(first, projected):
    """Written from U-HSIC by its definition; a block of 10 rows is less than all of them."""
    rng = np.random.default_rng(0)
    n, groups = 40, Groups.of(40, 10, 0)
    x, y = rng.standard_normal((n, 3)), rng.standard_normal((n, 1))
    sides = kernel_sides(x, y)
    if projected:
        axes = np.linalg.inv(sides[first].factor)[:4]
        sides[first] = sides[first]._replace(projection=axes)
    blocks = KeptBlocks(groups, (3, 1))
    kept = blocks.rows_of(GroupBlock(0, groups, (x, y)))
    assert kept.shape == (4, 10, 4)
    pair, features = (first, 2), [whitened(sides[k], v) for k, v in ((first, x), (2, y))]
    features[0] = features[0][:, : 4 if projected else None]
    about = [f - f.mean(axis=0) for f in features]
    size = float(np.square(about[0].T @ about[1] / n).sum())
    estimates = UnbiasedEstimates(blocks, sides, {0: 0, 1: 0, 2: 1})
    found = estimates.of(pair, kept, size)

    differences, products, firsts, seconds = [], [], [], []
    for at in np.arange(n).reshape(4, 10):
        own = [sides[first].map.kernel(x[at]), sides[2].map.kernel(y[at])]
        held = [f[at] for f in features]
        differences.append(oracles.u_hsic(*own) - oracles.u_hsic(*(f @ f.T for f in held)))
        k, q = (10 / 9 * np.square(f - f.mean(axis=0)).sum(axis=1) for f in held)
        products.append(np.mean(k * q))
        firsts.append(k.mean())
        seconds.append(q.mean())
    products, firsts, seconds = (np.mean(v) for v in (products, firsts, seconds))
    own = n**2 * size - (n - 1) ** 2 / n * products * (1 + 2 / (n - 2))
    own += (n - 1) * firsts * seconds / (n - 2)
    assert found == pytest.approx(own / (n * (n - 3)) + np.mean(differences), rel=1e-9)


def test_kept_blocks__are_the_first_rows_of_groups_that_lie_evenly():
    groups = Groups(3_000_000, 1000, 0)
    blocks = KeptBlocks(groups, (30, 2))
    assert (blocks.rows, blocks.count) == (256, 2**21 // (256 * 32))
    numbers, rows = [], []
    for first in range(0, 3000, 100):
        values = np.arange(1000.0 * first, 1000.0 * (first + 100))
        kept = blocks.rows_of(
            GroupBlock(first, groups, (np.tile(values[:, None], 30), np.tile(-values[:, None], 2)))
        )
        numbers += (kept[:, 0, 0] // 1000).tolist()
        rows += kept[:, :, 0].ravel().tolist()
        np.testing.assert_array_equal(blocks.variable(kept, 1), -kept[:, :, :2])
    assert len(numbers) == blocks.count
    assert set(np.diff(numbers)) == {11.0, 12.0}
    assert rows == [1000 * k + i for k in numbers for i in range(256)]
    assert blocks.nbytes(groups.n) == 8 * 32 * len(rows)
    assert blocks.nbytes(1000) == 8 * 32 * 256


def test_kept_blocks__have_fewer_rows_of_very_many_columns():
    few = KeptBlocks(Groups(10**6, 1000, 0), (20_000, 1))
    assert (few.rows, few.count) == (32, 4)
    assert KeptBlocks(Groups(10**6, 1000, 0), (4_000, 1)).rows == 2**21 // (4 * 4001)


def test_blocks__are_smaller_for_means_over_many_columns():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((100, 30)), rng.standard_normal((100, 1))
    sides, blocks = kernel_sides(x, y), KeptBlocks(Groups.of(10**5, 1000, 0), (30, 1))
    assert blocks.rows_for([sides[0], sides[2]]) == blocks.rows == 256
    assert blocks.rows_for([sides[1], sides[2]]) == int(256 / np.sqrt(30 / 8))


@pytest.mark.parametrize("d", [12, 60])
def test_features__tell_u_hsic_of_means_over_columns(d):
    rng = np.random.default_rng(d)
    x = rng.standard_normal((20_000, d))
    y = np.abs(x[:, :3]).sum(axis=1) + rng.standard_normal(20_000)
    estimator = dhsic.NystromHSIC(256, n_features="auto", unbiased_estimate=True)
    kernels = "columns(laplacian)", "gaussian"
    found = dhsic.independence_test(x, y, kernels=kernels, estimator=estimator, rng=0)
    fitted = [one.kernel for one in found.variables]
    parts = [
        dhsic.hsic(x[at : at + 1000], y[at : at + 1000], kernels=fitted, estimator="u-hsic")
        for at in range(0, 20_000, 1000)
    ]
    assert found.estimate == pytest.approx(np.mean([part.estimate for part in parts]), rel=0.05)


@pytest.mark.parametrize("spanned", [True, False])
@pytest.mark.parametrize("n", [10, 5000, 10**6])
def test_blocks__have_fewer_rows_where_features_hold_kernels(n, spanned):
    x = np.arange(10.0)[:, None]
    side = Side.of(KernelFeatures.at(x, Gaussian(gamma=1.0), float), x)._replace(spanned=spanned)
    blocks = KeptBlocks(Groups.of(n, 1000, 0), (1, 1))
    expected = {10: 10, 5000: 512 // (1 + spanned), 10**6: 256 // (1 + spanned)}[n]
    assert blocks.rows_for([side, side]) == expected


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("n_features", ["auto", None, 5])
@pytest.mark.parametrize("n", [10, 300])
def test_features__tell_u_hsic_where_a_block_is_all_rows(n, n_features, precision):
    """With few landmarks: what the features leave out is in the estimate."""
    data = dependent(n)
    kernels = Gaussian(gamma=1.0), Laplacian(gamma=1.0)
    estimator = dhsic.NystromHSIC(8, n_features=n_features, unbiased_estimate=True)
    options = {"kernels": kernels, "precision": precision, "rng": 1}
    found = dhsic.independence_test(*data, estimator=estimator, n_resamples=300, **options)
    rel = 1e-9 if precision == "float64" else 1e-3
    assert found.estimate == pytest.approx(u_hsic(data, kernels), rel=rel)
    alone = dhsic.hsic(*data, estimator=estimator, **options)
    assert alone.estimate == pytest.approx(u_hsic(data, kernels), rel=rel)
    plain = dhsic.independence_test(
        *data, estimator=dhsic.NystromHSIC(8, n_features=n_features), n_resamples=300, **options
    )
    assert (found.statistic, found.pvalue) == (plain.statistic, plain.pvalue)


@pytest.mark.parametrize("kernels", [Gaussian(), GRID])
def test_features__have_the_mean_of_u_hsic(kernels):
    """Over 40 data sets of 20 columns, of which 16 landmarks hold a small part."""
    differences = []
    for seed in range(40):
        data = dependent(1200, 20, seed)
        estimator = dhsic.NystromHSIC(16, unbiased_estimate=True)
        found = dhsic.independence_test(
            *data, kernels=kernels, estimator=estimator, n_resamples=99, rng=seed
        )
        own = reference(found) if found.grid else kernels
        exact = dhsic.hsic(*data, kernels=own, estimator="u-hsic", rng=seed).estimate
        differences.append(found.estimate / exact - 1.0)
    error = np.std(differences) / np.sqrt(40)
    assert abs(np.mean(differences)) < 4.0 * error < 0.1
