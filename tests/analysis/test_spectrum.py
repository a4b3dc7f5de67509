"""Spectra of covariance operators, where they are known."""

import numpy as np
import pytest

from dhsic.analysis import CovarianceSpectrum, covariance_spectrum
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels import Delta, Gaussian, Linear
from tests.analysis.oracles import normal_eigenvalues


def test_spectrum__of_categories_is_their_shares():
    found = covariance_spectrum(np.repeat([0, 1, 2], [50, 30, 20]), kernels=Delta())
    np.testing.assert_allclose(found.eigenvalues[:3], [0.5, 0.3, 0.2])
    assert found.norm == pytest.approx(0.5)
    assert found.supremum == 1.0
    for ridge in (1e-3, 0.1, 2.0):
        expected = sum(share / (share + ridge) for share in (0.5, 0.3, 0.2))
        assert found.effective_dimension(ridge) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("gamma", [0.1, 0.5, 3.0])
def test_spectrum__of_a_normal_variable_is_that_of_its_mercer_series(gamma):
    x = 1.5 * np.random.default_rng(0).standard_normal(2000)
    found = covariance_spectrum(x, kernels=Gaussian(gamma=gamma))
    known = CovarianceSpectrum(normal_eigenvalues(gamma, 1.5), 1.0)
    assert known.eigenvalues.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found.eigenvalues[:6], known.eigenvalues[:6], atol=0.03)
    for ridge in (0.3, 0.01):
        expected = known.effective_dimension(ridge)
        assert found.effective_dimension(ridge) == pytest.approx(expected, rel=0.05)


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


def test_effective_dimension__by_a_pilot_is_too_small_in_expectation():
    known = CovarianceSpectrum(normal_eigenvalues(0.5, 1.0), 1.0)
    found = [
        covariance_spectrum(
            np.random.default_rng(seed).standard_normal(20), kernels=Gaussian(gamma=0.5)
        ).effective_dimension(0.01)
        for seed in range(40)
    ]
    assert np.mean(found) < known.effective_dimension(0.01) - 3 * np.std(found) / np.sqrt(40)


def test_supremum__is_that_of_the_rows():
    """Of linear kernels, whose origins are the medians 1 and 5."""
    assert covariance_spectrum([1.0, -3.0, 2.0], kernels=Linear()).supremum == 4.0
    assert covariance_spectrum([1.0, -3.0, 2.0], [0.0, 9.0, 5.0], kernels=Linear()).supremum == 16.0


def test_spectrum__takes_the_median_heuristic_of_the_pilot():
    x = np.random.default_rng(0).standard_normal((200, 3))
    found = covariance_spectrum(x).eigenvalues
    again = covariance_spectrum(7.0 * x).eigenvalues
    np.testing.assert_allclose(found, again, atol=1e-12)


@pytest.mark.parametrize(
    ("pilot", "kernels", "error", "match"),
    [
        ((), "gaussian", InvalidArgumentError, "got 0 variables"),
        (([1.0, 2.0],), ["gaussian"] * 2, InvalidArgumentError, "1 variables and 2 kernels"),
        (([1.0, 2.0], [1.0, 2.0, 3.0]), "linear", DataError, "got 2, 3 rows"),
        (([1.0],), "linear", DataError, "two or more; got 1 rows"),
        (([1.0, np.nan],), "linear", DataError, "finite numbers"),
        ((np.zeros((2, 2, 2)),), "linear", DataError, r"got shape \(2, 2, 2\)"),
    ],
)
def test_spectrum__refuses_what_is_no_pilot(pilot, kernels, error, match):
    with pytest.raises(error, match=match):
        covariance_spectrum(*pilot, kernels=kernels)


@pytest.mark.parametrize("values", [[], [0.0, 0.0], [1.0, -0.1], [[1.0]], [np.nan]])
def test_spectrum__refuses_what_are_no_eigenvalues(values):
    with pytest.raises(InvalidArgumentError, match="numbers >= 0, one of them above 0"):
        CovarianceSpectrum(np.array(values), 1.0)


def test_spectrum__refuses_suprema_and_ridges():
    with pytest.raises(InvalidArgumentError, match="supremum must be greater than 0"):
        CovarianceSpectrum(np.ones(1), 0.0)
    with pytest.raises(InvalidArgumentError, match="ridge must be greater than 0"):
        CovarianceSpectrum(np.ones(1), 1.0).effective_dimension(0.0)


def test_spectrum__sorts_its_eigenvalues():
    found = CovarianceSpectrum(np.array([0.1, 0.7]), 1.0)
    assert found.norm == 0.7
    assert found.records() == [{"number": 1, "eigenvalue": 0.7}, {"number": 2, "eigenvalue": 0.1}]
