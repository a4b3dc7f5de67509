"""Estimates of tests that have the expectation of U-HSIC, whatever the statistic."""

import numpy as np
import pytest

import dhsic
from dhsic.engine.groups import Groups
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators.feature.basis import Side
from dhsic.estimators.feature.blocks import BlockDifferences, Blocks, block_rows
from dhsic.estimators.feature.layout import KernelSide, Layout
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


def strongest(found):
    grid = found.grid
    return [dhsic.kernels.parse(spec) for spec in grid.combinations[grid.strongest].kernels]


@pytest.mark.parametrize("n", [30, 300, 1500])
@pytest.mark.parametrize("second", [Gaussian(gamma=0.3), Linear()])
def test_v_hsic__tells_u_hsic_of_the_strongest_of_a_grid(n, second):
    """By Gram matrices that are held for all cosets, and by tiles of pairs of groups."""
    data = dependent(n)
    grid = Grid([Candidates("gaussian", (0.5, 1.0)), Candidates(second)], combine="all")
    found = dhsic.independence_test(*data, kernels=grid, estimator=dhsic.VHSIC(True), rng=1)
    kernels = strongest(found)
    assert found.estimate == pytest.approx(u_hsic(data, kernels), rel=1e-4)


def test_unbiased_estimate__needs_two_variables_and_four_rows():
    x = np.arange(10.0)
    with pytest.raises(InvalidArgumentError, match="needs two variables, got 3"):
        dhsic.hsic(x, x**2, x**3, estimator=dhsic.VHSIC(True))
    with pytest.raises(DataError, match="at least 4 rows, got 3"):
        dhsic.hsic(x[:3], x[:3] ** 2, estimator=dhsic.VHSIC(True))


def test_blocks__are_u_hsic_of_kernels_less_that_of_features():
    rng = np.random.default_rng(0)
    data = rng.standard_normal((9, 2)), rng.standard_normal((9, 1))
    numbers, variables = (3, 5, 8), (0, 0, 1)
    values = [data[m] for m in variables]
    kernels = Gaussian(gamma=0.5), Laplacian(gamma=0.5), Gaussian(gamma=2.0)
    maps = tuple(
        KernelFeatures.at(x[:3], kernel, float) for x, kernel in zip(values, kernels, strict=True)
    )
    factor = np.linalg.cholesky(kernels[0](data[0][:3]))
    features = [one(x) for one, x in zip(maps, values, strict=True)]
    pairs = (3, 8), (5, 8)
    blocks = BlockDifferences(numbers, maps, (factor, None, None), variables, pairs, rows=9)
    found = blocks.of(data, dict(zip(numbers, features, strict=True)))
    features[0] = solve_lower(factor, features[0].T).T
    grams = [kernel(x) for kernel, x in zip(kernels, values, strict=True)]
    held = [f @ f.T for f in features]
    norms = [9 / 8 * ((f - f.mean(axis=0)) ** 2).sum(axis=1) for f in features]
    for g, (i, j) in enumerate([(0, 2), (1, 2)]):
        expected = oracles.u_hsic(grams[i], grams[j]) - oracles.u_hsic(held[i], held[j])
        assert found[g] == pytest.approx(expected, rel=1e-10)
        assert found[2 + g] == pytest.approx(np.mean(norms[i] * norms[j]), rel=1e-12)
    np.testing.assert_allclose(found[4:], np.mean(norms, axis=1), rtol=1e-12)
    assert len(found) == blocks.size


def test_blocks__are_smaller_for_means_over_many_columns():
    rng = np.random.default_rng(0)
    n, groups = 3000, Groups.of(3000, 1000, 0)
    x, y = rng.standard_normal((n, 30)), rng.standard_normal((n, 1))
    mean, one, other = Columns(Laplacian()).fit(x), Gaussian().fit(x), Gaussian().fit(y)
    by_column, factor = LandmarksByColumn.of(mean, x, 3, 1e-8, float)
    sides = {
        0: Side.of(KernelFeatures.at(x[:20], one, float), x),
        1: Side.of(by_column, x, factor),
        2: Side.of(KernelFeatures.at(y[:20], other, float), y),
    }
    pairs = (0, 2), (1, 2)
    layout = Layout.of({k: KernelSide.plain(int(k == 2), side) for k, side in sides.items()}, pairs)
    blocks = Blocks.of_layout(layout, sides, pairs, groups)
    quick, dear = blocks.parts
    assert (quick.pairs, dear.pairs, blocks.rows) == (pairs[:1], pairs[1:], quick.rows)
    assert dear.rows == int(quick.rows / np.sqrt(30 / 8))
    rows = x[: blocks.rows], y[: blocks.rows]
    features = {k: side.map(rows[k == 2]) - side.centre for k, side in sides.items()}
    found = blocks.of(rows, features)
    assert len(found) == blocks.size
    own = {k: features[k][: dear.rows] for k in (1, 2)}
    expected = dear.of([v[: dear.rows] for v in rows], own)
    np.testing.assert_array_equal(found[quick.size :], expected)
    estimates = blocks.estimates(found, 1, np.array([0.1, 0.2]), n)
    assert estimates[1] == dear.estimates(expected, 1, np.array([0.2]), n)[0]
    assert estimates[0] == quick.estimates(found[: quick.size], 1, np.array([0.1]), n)[0]


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
def test_block_rows__are_fewer_where_features_hold_kernels(n, spanned):
    rows = block_rows(Groups.of(n, 1000, 0), spanned=spanned)
    assert rows == {10: 10, 5000: 512 // (1 + spanned), 10**6: 256 // (1 + spanned)}[n]


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
        own = strongest(found) if found.grid else kernels
        exact = dhsic.hsic(*data, kernels=own, estimator="u-hsic", rng=seed).estimate
        differences.append(found.estimate / exact - 1.0)
    error = np.std(differences) / np.sqrt(40)
    assert abs(np.mean(differences)) < 4.0 * error < 0.1
