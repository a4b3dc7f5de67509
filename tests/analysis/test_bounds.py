"""The bounds against their formulas, and against errors."""

import math

import numpy as np
import pytest

from benchmarks.papers.bounds import CASES, errors
from dhsic.analysis import (
    CovarianceSpectrum,
    landmarks_for_exponential_decay,
    landmarks_for_polynomial_decay,
    least_landmarks,
    mean_embedding_bound,
    nystrom_m_bound,
)
from dhsic.errors import InvalidArgumentError

SPREAD = CovarianceSpectrum(np.array([0.02] * 40 + [0.2]), supremum=1.0)
STEEP = CovarianceSpectrum(np.array([2.0, 1.0, 0.5]), supremum=2.0)


def stated(p, delta, spectra):
    c = max([67.0, *(12 * one.supremum**2 / one.norm for one in spectra)])
    return p >= c * math.log(p / delta)


@pytest.mark.parametrize("delta", [0.5, 0.1, 1e-6])
@pytest.mark.parametrize("spectra", [(SPREAD,), (STEEP,), (STEEP, SPREAD)])
def test_least_landmarks__is_where_the_condition_starts_to_hold(spectra, delta):
    least = least_landmarks(delta, *spectra)
    assert not stated(least - 1, delta, spectra)
    assert all(stated(p, delta, spectra) for p in range(least, 3 * least, 7))


def test_least_landmarks__follow_the_norm_where_it_is_small():
    flat = CovarianceSpectrum(np.full(100, 0.01), supremum=1.0)
    assert least_landmarks(0.1, flat) > 10 * least_landmarks(0.1, SPREAD)


def embedding_bound(n, p, delta, eigenvalues, k):
    c1 = 2 * k * math.sqrt(2 * math.log(6 / delta))
    c2 = 4 * math.sqrt(3) * k * math.log(12 / delta)
    c3 = 12 * math.sqrt(3 * math.log(12 / delta)) * k
    ridge = 12 * k**2 * math.log(p / delta) / p
    dimension = sum(value / (value + ridge) for value in eigenvalues)
    return c1 / math.sqrt(n), c2 / p, c3 * math.sqrt(math.log(p / delta)) / p * dimension**0.5


@pytest.mark.parametrize("spectrum", [SPREAD, STEEP])
@pytest.mark.parametrize(("n", "p", "delta"), [(10_000, 1000, 0.1), (5000, 5000, 0.01)])
def test_mean_embedding_bound__is_its_formula(n, p, delta, spectrum):
    found = mean_embedding_bound(n, p, delta, spectrum)
    terms = embedding_bound(n, p, delta, spectrum.eigenvalues, spectrum.supremum)
    assert (found.rows, found.landmarks, found.dimension) == pytest.approx(terms, rel=1e-12)
    assert found.total == pytest.approx(sum(terms), rel=1e-12)


@pytest.mark.parametrize("marginals", [(STEEP, SPREAD), (STEEP, SPREAD, STEEP)])
def test_nystrom_m_bound__is_its_formula(marginals):
    joint = CovarianceSpectrum(np.array([3.0, 0.3]), supremum=0.5)
    suprema = [one.supremum for one in marginals]
    found = nystrom_m_bound(9000, 2000, 0.02, joint, marginals)
    first = sum(embedding_bound(9000, 2000, 0.02, joint.eigenvalues, math.prod(suprema)))
    others = [
        one.supremum + sum(embedding_bound(9000, 2000, 0.02, one.eigenvalues, one.supremum))
        for one in marginals
    ]
    expected = first + math.prod(others) - math.prod(suprema)
    assert found.total == pytest.approx(expected, rel=1e-12)


def test_polynomial_decay__is_its_formula():
    for gamma in (0.2, 1.0):
        expected = 5000 ** (1 / (2 - gamma)) * math.log(5000 / 0.05)
        assert landmarks_for_polynomial_decay(5000, 0.05, gamma) == math.ceil(expected)


@pytest.mark.parametrize(("scale", "supremum", "largest"), [(1.0, 1.0, 20.0), (900.0, 0.5, 600.0)])
def test_exponential_decay__is_its_formula(scale, supremum, largest):
    expected = math.ceil(5000**0.5 * math.log(5000**0.5 * largest))
    assert landmarks_for_exponential_decay(5000, 0.05, scale, supremum=supremum) == expected


def test_bounds__refuse_where_they_are_not_stated():
    least = least_landmarks(0.1, SPREAD)
    mean_embedding_bound(least, least, 0.1, SPREAD)
    with pytest.raises(InvalidArgumentError, match=f"stated for {least} landmarks or more"):
        mean_embedding_bound(10**6, least - 1, 0.1, SPREAD)
    with pytest.raises(InvalidArgumentError, match=f"got {least} landmarks and {least - 1} rows"):
        mean_embedding_bound(least - 1, least, 0.1, SPREAD)
    with pytest.raises(InvalidArgumentError, match="delta must be at least 1e-200 and less than 1"):
        least_landmarks(1.0, SPREAD)
    with pytest.raises(InvalidArgumentError, match="delta must be at least 1e-200"):
        least_landmarks(5e-324, SPREAD)
    assert least_landmarks(1e-200, SPREAD) > least_landmarks(1e-199, SPREAD)
    with pytest.raises(InvalidArgumentError, match=r"less than 0\.333"):
        nystrom_m_bound(10**6, 1000, 0.34, SPREAD, (SPREAD, SPREAD))
    with pytest.raises(InvalidArgumentError, match="got 1000 landmarks and 999 rows"):
        nystrom_m_bound(999, 1000, 0.1, SPREAD, (SPREAD, SPREAD))
    with pytest.raises(InvalidArgumentError, match=r"two variables or more, got \(<Covariance"):
        nystrom_m_bound(10**6, 1000, 0.1, SPREAD, (SPREAD,))
    with pytest.raises(InvalidArgumentError, match="gamma must be"):
        landmarks_for_polynomial_decay(100, 0.1, 1.1)
    with pytest.raises(InvalidArgumentError, match="scale must be"):
        landmarks_for_exponential_decay(100, 0.1, 0.0)
    with pytest.raises(InvalidArgumentError, match="supremum must be"):
        landmarks_for_exponential_decay(100, 0.1, 1.0, supremum=-1.0)


@pytest.mark.parametrize("case", CASES)
def test_bounds__hold_and_errors_are_of_the_order_of_the_rows(case):
    n, p = 1500, 700
    found = errors(case, n, p, range(20))
    assert max(found) < CASES[case].bound(n, p, 0.1)
    assert 0.1 / math.sqrt(n) < np.mean(found) < 2.0 / math.sqrt(n)
