"""Samples that kernels are fitted to, which vary wherever the data do."""

import numpy as np
import pytest

import dhsic
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.estimators.base import bandwidth_rows, fit_combinations_on_sample
from dhsic.estimators.fitting_samples import FittingSamples
from dhsic.io.open import open_variables
from dhsic.kernels import Columns, Combinations, Delta, Gaussian, Laplacian, Linear, OnColumns

N = 5000
Y = np.random.default_rng(0).standard_normal(N)


def rare(values, seed=0):
    """A variable that is 0 but in some of the rows that set no bandwidth of variable 0."""
    x = np.zeros((N, 1))
    drawn = bandwidth_rows(session(x, Y))[0]
    rows = np.setdiff1d(np.arange(N), drawn)
    x[np.random.default_rng(seed).choice(rows, len(values), replace=False), 0] = values
    return x


def session(*data, **options):
    return Session(open_variables(data, None), Runtime.here(1, 2**31), 5, **options)


def fitted(x, kernel, **options):
    kernels = Combinations.single((kernel, Gaussian()))
    return fit_combinations_on_sample(session(x, Y, **options), kernels)[0].kernels[0]


def test_sample__that_varies_is_left_as_it_is():
    x = np.column_stack([np.zeros(N), Y])
    run = session(x, Y)
    drawn = run.take(bandwidth_rows(run))
    found = FittingSamples.of(run, [(Gaussian(), 0), (Gaussian(), 1)], drawn)
    assert found.of_kernel(Gaussian(), 0) is drawn[0]
    assert run.finished == []


@pytest.mark.parametrize("count", [1, 2, 4, 40])
def test_sample__has_rows_that_differ_by_their_share_and_five_at_least(count):
    x = rare(np.arange(1.0, count + 1.0))
    run = session(x, Y)
    found = FittingSamples.of(run, [(Gaussian(), 0)], run.take(bandwidth_rows(run)))
    sample = found.of_kernel(Gaussian(), 0)
    differing = sample[sample != 0]
    assert sample.shape == (1000, 1)
    assert len(set(differing)) == len(differing) == min(count, max(5, round(count / 5)))
    assert set(differing) <= set(x[x != 0])


def test_bandwidth__is_the_mean_distance_that_is_not_0():
    values = np.array([2.0, 3.0, 10.0])
    x = rare(values)
    apart = [1.0, 7.0, 8.0]
    expected = (997 * values.sum() + sum(apart)) / (997 * 3 + 3)
    assert fitted(x, Gaussian()).gamma == pytest.approx(expected**-2, rel=1e-12)
    assert fitted(x, Laplacian()).gamma == pytest.approx(1 / expected, rel=1e-12)
    for shift, scale in ((7.0, 1.0), (0.0, 1e9), (-3.0, 1e-9)):
        moved = fitted(scale * (x + shift), Gaussian())
        assert moved.gamma == pytest.approx((scale * expected) ** -2, rel=1e-6)


def test_bandwidth__of_columns_that_are_all_still_is_that_of_whole_rows():
    """Flags that exclude one another are never 1 together, and in most pairs one row has none."""
    one, other = rare([1.0, 1.0]), rare([1.0, 1.0], seed=1)
    assert not (one * other).any()
    x = np.hstack([one, other])
    length = fitted(x, Gaussian()).gamma ** -0.5
    assert 1.0 < length < 1.01  # not sqrt(2), as of the largest and the smallest of every column


def test_kernel__of_some_columns_is_fitted_to_these():
    x = np.hstack([Y[:, None], rare([4.0, 4.0])])
    assert fitted(x, OnColumns(Gaussian(), (1,))).kernel.gamma == 1 / 16
    assert fitted(x, OnColumns(Laplacian(), (1,)) + Linear()).parts[0].kernel.gamma == 1 / 4
    whole, both = fitted(x, Gaussian()), fitted(x, OnColumns(Gaussian(), (1, 0)))
    assert both.kernel.gamma == whole.gamma


def test_columns__keep_a_rare_one_and_drop_a_constant_one():
    x = np.hstack([rare([4.0]), Y[:, None], np.ones((N, 1)), rare([2.0, 2.0], seed=1)])
    rare_one, common, constant, other = fitted(x, Columns(Gaussian())).parts
    assert (rare_one.gamma, constant, other.gamma) == (1 / 16, None, 1 / 4)
    assert common == fitted(x[:, [1]], Gaussian())
    assert fitted(x[:, [0, 1]], OnColumns(Columns(Gaussian()), (1, 0))).kernel.parts[1].gamma == (
        1 / 16
    )


def test_sets_of_columns__have_rows_of_their_own():
    """Flags that exclude one another do so in the sample too."""
    x = np.hstack([rare([1.0] * 3), rare([1.0] * 3, seed=1)])
    run, kernel = session(x, Y), OnColumns(Gaussian(), (0, 1), scaled=True)
    found = FittingSamples.of(run, [(kernel, 0)], run.take(bandwidth_rows(run)))
    sample = found.of_kernel(kernel, 0)
    assert sample.sum(axis=0).tolist() == [3.0, 3.0]
    assert not sample.prod(axis=1).any()


def test_scaled__takes_no_notice_of_the_units_of_a_rare_column():
    x = np.hstack([rare([1.0, 2.0]), Y[:, None]])
    kernel = OnColumns(Gaussian(), (0, 1), scaled=True)
    small, large = (fitted(x * [unit, 1.0], kernel) for unit in (1e-6, 1e6))
    np.testing.assert_allclose(np.divide(large.scales, small.scales), [1e12, 1.0], rtol=1e-9)
    assert large.kernel.gamma == pytest.approx(small.kernel.gamma, rel=1e-9)


@pytest.mark.parametrize("kernel", [Gaussian(gamma=2.0), Delta(), Linear()])
def test_kernel__without_a_scale_to_fit_takes_no_pass_of_its_own(kernel):
    x = np.hstack([rare([1.0]), Y[:, None]])
    run = session(x, Y)
    kernels = Combinations.single((OnColumns(kernel, (0,)), Gaussian()))
    fit_combinations_on_sample(run, kernels)
    assert run.finished == []


def test_columns__that_are_not_there_are_refused_in_words():
    x = np.hstack([rare([1.0]), np.zeros((N, 1))])
    with pytest.raises(dhsic.errors.InvalidArgumentError, match=r"with d > 2"):
        fitted(x, OnColumns(Gaussian(), (2,)))
    with pytest.raises(dhsic.errors.InvalidArgumentError, match=r"columns: rows must have shape"):
        fitted(x, Columns((Gaussian(), Gaussian(), Gaussian())))


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("kernel", [Gaussian(), Delta(), Gaussian(gamma=1.0)])
def test_constant__is_refused_in_a_test_and_taken_in_an_estimate(width, kernel):
    x = np.full((N, width), 7.0)
    match = f"^variable 'x1' is constant: all {N} rows are the same, .*; leave it out$"
    with pytest.raises(DataError, match=match):
        fitted(x, kernel)
    taken = fitted(x, kernel, takes_constants=True)
    np.testing.assert_array_equal(taken(x[:5]), np.ones((5, 5)))


@pytest.mark.parametrize("value", [0.0, 0.1, -3e8, 1e90, 1e-90])
def test_constant__of_any_size_has_a_scale(value):
    taken = fitted(np.full((N, 2), value), Gaussian(), takes_constants=True)
    assert taken.origin == (value, value)
    assert 0.0 < taken.gamma < np.inf


def test_permutations__stay_exact_where_samples_are_completed(monkeypatch):
    """Rare amounts in either variable: p-values at most their level, over many data sets."""
    monkeypatch.setattr("dhsic.estimators.base.BANDWIDTH_ROWS", 8)
    rng, pvalues, scans = np.random.default_rng(0), [], 0
    for seed in range(400):
        x, y = rng.lognormal(size=(2, 40)) * (rng.random((2, 40)) < 0.1)
        if x.any() and y.any():
            null = dhsic.Permutation(19)
            found = dhsic.independence_test(
                x, y, kernels="gaussian", estimator="v-hsic", null=null, rng=seed, threads=1
            )
            pvalues.append(found.pvalue)
            scans += any(done.name == "scan" for done in found.passes)
    assert scans > 200
    for level in (0.05, 0.1, 0.2):
        error = 3.0 * np.sqrt(level * (1.0 - level) / len(pvalues))
        assert np.mean(np.array(pvalues) <= level) < level + error
