"""The weighted sum of squared normals, against closed forms."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.nulls import ChiSquareMixture

SPECTRA = {
    "one": np.ones(1),
    "equal": np.full(40, 0.3),
    "geometric": 0.9 ** np.arange(300.0),
    "polynomial": np.arange(1.0, 2001.0) ** -1.5,
    "one large": np.r_[50.0, np.ones(500)],
}


def sum_of_exponentials(means, x):
    """sf of the sum of independent exponentials, each two squared normals of weight mean / 2."""
    return math.fsum(
        math.prod(a / (a - b) for b in means if b != a) * math.exp(-x / a) for a in means
    )


@pytest.mark.parametrize("df", [1, 2, 3, 10, 100, 3000])
@pytest.mark.parametrize("log10", [-0.001, -0.3, -0.7, -2, -5, -12, -20, -50, -100, -290])
def test_sf__of_equal_weights_is_that_of_chi_square(df, log10):
    x = stats.chi2.isf(10.0**log10, df)
    law = ChiSquareMixture(np.full(df, 0.7))
    assert law.sf(0.7 * x) == pytest.approx(stats.chi2.sf(x, df), rel=1e-8)


@pytest.mark.parametrize("means", [[6.0, 2.0], [10.0, 4.0, 2.0], [200.0, 2.0, 0.2], [2.0, 1.8]])
@pytest.mark.parametrize("factor", [0.5, 1.0, 5.0, 20.0, 60.0, 120.0, 230.0, 650.0])
def test_sf__of_pairs_is_that_of_sums_of_exponentials(means, factor):
    law = ChiSquareMixture(np.repeat(means, 2) / 2)
    x = factor * max(means)
    assert law.sf(x) == pytest.approx(sum_of_exponentials(means, x), rel=1e-8)


@pytest.mark.parametrize("x", [30.0, 100.0, 160.0, 250.0, 700.0, 1800.0])
@pytest.mark.parametrize("large", [3.0, 50.0])
def test_sf__of_one_large_and_many_small_weights_is_their_convolution(large, x):
    many, end = stats.chi2(100), math.sqrt(x / large)
    scale = max(many.logsf(x), stats.norm.logsf(end))

    def density(z):
        return 2.0 * np.exp(stats.norm.logpdf(z) + many.logsf(x - large * z**2) - scale)

    parts = [(0.0, 0.9 * end), (0.9 * end, end), (end, end + 20.0)]
    total = sum(quad(density, *part, limit=500, epsrel=1e-11, epsabs=0.0)[0] for part in parts)
    law = ChiSquareMixture(np.r_[large, np.ones(100)])
    assert math.log(law.sf(x)) == pytest.approx(math.log(total) + scale, abs=1e-7)


@pytest.mark.parametrize("name", SPECTRA)
def test_sf__decreases_from_one(name):
    law = ChiSquareMixture(SPECTRA[name])
    mean, sd = law.weights.sum(), math.sqrt(2 * (law.weights**2).sum())
    grid = np.r_[mean * np.array([1e-6, 1e-3, 0.1]), mean + sd * np.linspace(0.0, 60.0, 300)]
    tails = np.array([law.sf(x) for x in np.sort(grid)])
    assert (np.diff(tails) < 1e-15).all()
    assert (np.diff(tails[3:]) < 0).all()
    assert 0 < tails[-1] < 1e-10
    assert tails[0] <= 1.0


@pytest.mark.parametrize("name", SPECTRA)
def test_sf__is_the_share_of_draws(name):
    law = ChiSquareMixture(SPECTRA[name], shift=-2.0)
    drawn = law.draws(np.random.default_rng(1), 20_000)
    assert drawn.min() > -2.0
    for q in (0.05, 0.5, 0.9):
        assert law.sf(np.quantile(drawn, 1 - q)) == pytest.approx(q, abs=0.015)


def test_shift__moves_the_law():
    plain, moved = (ChiSquareMixture(SPECTRA["geometric"], shift) for shift in (0.0, 5.0))
    assert moved.sf(25.0) == plain.sf(20.0)
    assert moved.sf(5.0) == moved.sf(-9.0) == plain.sf(0.0) == 1.0


def test_sf__does_not_depend_on_units_or_order():
    weights = SPECTRA["geometric"]
    expected = ChiSquareMixture(weights).sf(60.0)
    for unit in (1e-30, 1e30):
        law = ChiSquareMixture(weights[::-1] * unit)
        assert law.sf(60.0 * unit) == pytest.approx(expected, rel=1e-9)


def test_zero_weights__change_nothing_and_alone_are_no_evidence():
    weights = SPECTRA["equal"]
    padded = ChiSquareMixture(np.r_[weights, np.zeros(50)])
    assert padded.sf(40.0) == pytest.approx(ChiSquareMixture(weights).sf(40.0), rel=1e-10)
    for nothing in (np.zeros(3), np.zeros(0)):
        law = ChiSquareMixture(nothing, shift=1.0)
        assert law.sf(7.0) == 1.0
        np.testing.assert_array_equal(law.draws(np.random.default_rng(0), 2), [1.0, 1.0])


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.5], [2.0] * 60])
def test_sf__of_tiny_statistics_is_one(weights):
    law = ChiSquareMixture(np.array(weights))
    values = [law.sf(x) for x in (1e-300, 1e-160, 1e-60, 1e-30)]
    np.testing.assert_allclose(values, 1.0, rtol=1e-14)


def test_sf__underflows_to_zero_without_a_warning():
    assert ChiSquareMixture(np.ones(5)).sf(1e6) == 0.0


def test_draws__are_the_same_whatever_their_number():
    law = ChiSquareMixture(np.ones(3000))
    many, few = (law.draws(np.random.default_rng(0), size) for size in (800, 30))
    np.testing.assert_allclose(many[:30], few, rtol=1e-12)


def test_weights__must_be_numbers_at_least_zero():
    with pytest.raises(InvalidArgumentError, match=r"weights must be at least 0, got -0\.5"):
        ChiSquareMixture(np.array([1.0, -0.5]))
    with pytest.raises(DataError, match="must be finite"):
        ChiSquareMixture(np.array([1.0, math.nan]))


def test_of__clips_rounding_and_keeps_the_mean():
    law = ChiSquareMixture.of(np.array([-1e-9, 1.0, 2.0, 1e-13, 0.0]))
    np.testing.assert_array_equal(np.sort(law.weights), [1.0, 2.0])
    assert law.shift == pytest.approx(1e-13)
    with pytest.raises(InvalidArgumentError, match="eigenvalues must be at least 0 but for round"):
        ChiSquareMixture.of(np.array([1.0, -1e-3]))
    with pytest.raises(DataError, match="must be finite"):
        ChiSquareMixture.of(np.array([1.0, math.inf]))


@pytest.mark.parametrize(("rows", "columns"), [(1, 7), (60, 50), (90, 40)])
def test_of_products__of_few_are_all(rows, columns):
    left, right = np.random.default_rng(0).exponential(size=rows), 0.9 ** np.arange(columns)
    law = ChiSquareMixture.of_products(left, right)
    np.testing.assert_allclose(np.sort(law.weights), np.sort(np.outer(left, right).ravel()))
    assert law.shift == pytest.approx(0.0, abs=1e-12 * law.weights.sum())


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (np.arange(1.0, 401.0) ** -0.6, np.arange(1.0, 301.0) ** -2.0),
        (np.arange(1.0, 401.0) ** -1.5, np.arange(1.0, 301.0) ** -2.0),
        (np.ones(1), np.arange(1.0, 6001.0) ** -2.0),
        (np.arange(1.0, 6001.0) ** -2.0, np.ones(1)),
    ],
)
def test_of_products__keeps_the_largest_the_mean_and_the_variance(left, right):
    law = ChiSquareMixture.of_products(left, right)
    products = np.sort(np.outer(left, right).ravel())
    assert 5000 <= len(law.weights) < len(products)
    np.testing.assert_allclose(np.sort(law.weights), products[-len(law.weights) :])
    assert law.weights.sum() + law.shift == pytest.approx(products.sum())
    assert (law.weights**2).sum() >= (1 - 1e-6) * (products**2).sum()


def test_of_products__keeps_more_where_the_spectra_are_flat():
    law = ChiSquareMixture.of_products(np.ones(100), np.ones(200))
    assert len(law.weights) == 20_000
    assert law.shift == 0.0


def test_with_moments__keeps_the_largest_weights_that_the_variance_allows():
    mixture = ChiSquareMixture(np.array([0.1, 2.0, 0.1, 1.0, 0.1]), shift=5.0)
    found = mixture.with_moments(mean=4.0, variance=10.01)
    np.testing.assert_array_equal(found.weights, [2.0, 1.0])
    assert found.shift == 1.0
    whole = mixture.with_moments(mean=4.0, variance=20.0)
    assert len(whole.weights) == 5
    assert whole.shift == pytest.approx(0.7)
    np.testing.assert_array_equal(mixture.with_moments(4.0, 0.0).weights, [2.0])
