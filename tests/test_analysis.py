"""Spectra of covariance operators and bounds on errors, against closed forms and samples."""

import math

import numpy as np
import pytest

import dhsic
from benchmarks.papers.bounds import CASES, errors
from benchmarks.shared.embeddings import NormalPairs
from dhsic.analysis import (
    CovarianceSpectrum,
    covariance_spectrum,
    landmarks_for_exponential_decay,
    landmarks_for_polynomial_decay,
    least_landmarks,
    mean_embedding_bound,
    nystrom_m_bound,
)
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels import Delta, Gaussian, Linear

SPREAD = CovarianceSpectrum(np.array([0.02] * 40 + [0.2]), supremum=1.0)
STEEP = CovarianceSpectrum(np.array([2.0, 1.0, 0.5]), supremum=2.0)


def stated(p, delta, spectra):
    c = max([67.0, *(12 * one.supremum**2 / one.norm for one in spectra)])
    return p >= c * math.log(p / delta)


@pytest.mark.parametrize("delta", [0.5, 1e-6])
@pytest.mark.parametrize("spectra", [(SPREAD,), (STEEP, SPREAD)])
def test_least_landmarks__is_where_the_condition_starts_to_hold(spectra, delta):
    least = least_landmarks(delta, *spectra)
    assert not stated(least - 1, delta, spectra)
    assert all(stated(p, delta, spectra) for p in range(least, 3 * least, 7))


def embedding_bound(n, p, delta, eigenvalues, k):
    c1 = 2 * k * math.sqrt(2 * math.log(6 / delta))
    c2 = 4 * math.sqrt(3) * k * math.log(12 / delta)
    c3 = 12 * math.sqrt(3 * math.log(12 / delta)) * k
    ridge = 12 * k**2 * math.log(p / delta) / p
    dimension = sum(value / (value + ridge) for value in eigenvalues)
    return c1 / math.sqrt(n), c2 / p, c3 * math.sqrt(math.log(p / delta)) / p * dimension**0.5


def test_bounds__are_their_formulas():
    for spectrum in (SPREAD, STEEP):
        found = mean_embedding_bound(5000, 4000, 0.01, spectrum)
        terms = embedding_bound(5000, 4000, 0.01, spectrum.eigenvalues, spectrum.supremum)
        assert (found.rows, found.landmarks, found.dimension) == pytest.approx(terms, rel=1e-12)
        assert found.total == pytest.approx(sum(terms), rel=1e-12)
    joint, marginals = CovarianceSpectrum(np.array([3.0, 0.3]), 0.5), (STEEP, SPREAD, STEEP)
    suprema = [one.supremum for one in marginals]
    first = sum(embedding_bound(9000, 2000, 0.02, joint.eigenvalues, math.prod(suprema)))
    others = [
        one.supremum + sum(embedding_bound(9000, 2000, 0.02, one.eigenvalues, one.supremum))
        for one in marginals
    ]
    found = nystrom_m_bound(9000, 2000, 0.02, joint, marginals).total
    assert found == pytest.approx(first + math.prod(others) - math.prod(suprema), rel=1e-12)
    for gamma in (0.2, 1.0):
        expected = 5000 ** (1 / (2 - gamma)) * math.log(5000 / 0.05)
        assert landmarks_for_polynomial_decay(5000, 0.05, gamma) == math.ceil(expected)
    for scale, supremum, largest in [(1.0, 1.0, 20.0), (900.0, 0.5, 600.0)]:
        expected = math.ceil(5000**0.5 * math.log(5000**0.5 * largest))
        found = landmarks_for_exponential_decay(5000, 0.05, scale, supremum=supremum)
        assert found == expected
    assert landmarks_for_exponential_decay(100, 0.1, 1.0, supremum=1e-200) == 9216


LEAST = least_landmarks(0.1, SPREAD)


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: mean_embedding_bound(10**6, LEAST - 1, 0.1, SPREAD), f"stated for {LEAST} land"),
        (lambda: mean_embedding_bound(LEAST - 1, LEAST, 0.1, SPREAD), f"and {LEAST - 1} rows"),
        (lambda: least_landmarks(1.0, SPREAD), "delta must be at least 1e-200 and less than 1"),
        (lambda: least_landmarks(5e-324, SPREAD), "delta must be at least 1e-200"),
        (lambda: nystrom_m_bound(10**6, 1000, 0.34, SPREAD, (SPREAD,) * 2), r"less than 0\.333"),
        (lambda: nystrom_m_bound(999, 1000, 0.1, SPREAD, (SPREAD,) * 2), "1000 landmarks and 999"),
        (
            lambda: nystrom_m_bound(10**6, 1000, 0.1, SPREAD, (SPREAD,)),
            "two variables or more, got",
        ),
        (lambda: landmarks_for_polynomial_decay(100, 0.1, 1.1), "gamma must be"),
        (lambda: landmarks_for_exponential_decay(100, 0.1, 0.0), "scale must be"),
        (
            lambda: CovarianceSpectrum(np.array([0.0, 0.0]), 1.0),
            "numbers >= 0, one of them above 0",
        ),
        (lambda: CovarianceSpectrum(np.array([1.0, -0.1]), 1.0), "numbers >= 0, one of them above"),
        (lambda: CovarianceSpectrum(np.ones(1), 0.0), "supremum must be greater than 0"),
        (lambda: SPREAD.effective_dimension(0.0), "ridge must be greater than 0"),
        (lambda: covariance_spectrum(kernels="gaussian"), "missing pilot"),
        (
            lambda: covariance_spectrum([1.0, 2.0], kernels=["gaussian"] * 2),
            "1 variables and 2 ker",
        ),
        (lambda: covariance_spectrum([1.0, 2.0], [1.0] * 3, kernels="linear"), "got 2, 3 rows"),
        (lambda: covariance_spectrum([1.0, np.nan], kernels="linear"), "finite numbers"),
    ],
)
def test_analysis__refuses(build, match):
    with pytest.raises((InvalidArgumentError, DataError), match=match):
        build()


def test_bounds__hold_and_errors_are_of_the_order_of_the_rows():
    for case in CASES:
        found = errors(case, 1000, 700, range(6))
        assert max(found) < CASES[case].bound(1000, 700, 0.1)
        assert 0.1 / math.sqrt(1000) < np.mean(found) < 2.0 / math.sqrt(1000)


def test_spectrum__of_categories_is_their_shares():
    found = covariance_spectrum(np.repeat([0, 1, 2], [50, 30, 20]), kernels=Delta())
    np.testing.assert_allclose(found.eigenvalues[:3], [0.5, 0.3, 0.2])
    assert (found.norm, found.supremum) == (pytest.approx(0.5), 1.0)
    for ridge in (1e-3, 0.1, 2.0):
        expected = sum(share / (share + ridge) for share in (0.5, 0.3, 0.2))
        assert found.effective_dimension(ridge) == pytest.approx(expected, rel=1e-10)
    assert covariance_spectrum([1.0, -3.0, 2.0], kernels=Linear()).supremum == 4.0
    assert covariance_spectrum([1.0, -3.0, 2.0], [0.0, 9.0, 5.0], kernels=Linear()).supremum == 16.0
    assert found.records()[0] == {"number": 1, "eigenvalue": pytest.approx(0.5)}


@pytest.mark.parametrize("gamma", [0.1, 3.0])
def test_spectrum__of_a_normal_variable_is_that_of_its_mercer_series(gamma):
    """Of exp(-gamma (x - y)^2) under N(0, s^2): a geometric series (Zhu et al. 1998)."""
    x, a = 1.5 * np.random.default_rng(0).standard_normal(1000), 0.25 / 1.5**2
    whole = a + gamma + np.sqrt(a**2 + 2.0 * a * gamma)
    known = np.sqrt(2.0 * a / whole) * (gamma / whole) ** np.arange(400)
    found = covariance_spectrum(x, kernels=Gaussian(gamma=gamma))
    np.testing.assert_allclose(found.eigenvalues[:6], known[:6], atol=0.04)
    expected = CovarianceSpectrum(known, 1.0).effective_dimension(0.3)
    assert found.effective_dimension(0.3) == pytest.approx(expected, rel=0.05)


def test_spectrum__of_independent_variables_is_the_product_of_theirs():
    x, y = np.meshgrid(np.random.default_rng(0).standard_normal(30), np.arange(4.0))
    kernels = [Gaussian(gamma=0.7), Gaussian(gamma=0.2)]
    both = covariance_spectrum(x.ravel(), y.ravel(), kernels=kernels)
    each = [
        covariance_spectrum(v, kernels=k).eigenvalues
        for v, k in zip((x[0], y[:, 0]), kernels, strict=True)
    ]
    expected = np.sort(np.kron(*each))[::-1]
    np.testing.assert_allclose(both.eigenvalues[:20], expected[:20], atol=1e-12)
    median = covariance_spectrum(x.ravel()).eigenvalues
    np.testing.assert_allclose(covariance_spectrum(7 * x.ravel()).eigenvalues, median, atol=1e-12)


@pytest.mark.parametrize("m", [2, 3])
def test_hsic__of_normal_variables_is_in_closed_form(m):
    law = NormalPairs(0.3 * np.eye(m) + 0.7, (0.5, 0.2, 0.9)[:m])
    kernels = [Gaussian(gamma=gamma) for gamma in law.gammas]
    data = law.draw(2000, np.random.default_rng(0))
    found = dhsic.hsic(*data, kernels=kernels, estimator="v-hsic", rng=0).estimate
    assert law.squared_hsic() == pytest.approx(found, rel=0.1)
    assert NormalPairs(np.eye(m), law.gammas).squared_hsic() == pytest.approx(0.0)
