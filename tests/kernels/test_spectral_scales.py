"""Frequencies from spectral laws against the kernels that they stand for."""

import numpy as np
import pytest

from dhsic.errors import InvalidArgumentError
from dhsic.kernels import (
    Columns,
    Delta,
    Distance,
    Gaussian,
    InverseMultiquadric,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
)

COUNT = 40_000
WITH_LAW = [
    Gaussian(gamma=0.4),
    Laplacian(gamma=0.3),
    Matern(nu=0.5, length=2.0),
    Matern(nu=1.5, length=2.0),
    Matern(nu=2.5, length=2.0),
    InverseMultiquadric(gamma=0.4),
    RationalQuadratic(gamma=0.4),
    RationalQuadratic(alpha=2.5, gamma=0.4),
    Laplacian(gamma=0.3) * Matern(nu=2.5, length=2.0),
    Gaussian(gamma=0.2) * Gaussian(gamma=0.4) * InverseMultiquadric(gamma=0.5),
    Columns(Laplacian(gamma=0.4)),
]
WITHOUT_LAW = [
    Linear(),
    Polynomial(),
    Distance(),
    Delta(),
    Gaussian() + Gaussian(),
    Gaussian(gamma=1.0) * Delta(),
    Columns(Delta()),
]


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("kernel", WITH_LAW, ids=lambda kernel: kernel.spec())
def test_spectral_scales__give_frequencies_whose_cosines_average_to_the_kernel(kernel, d):
    rng = np.random.default_rng(d)
    scales = kernel.spectral_scales(rng, COUNT, d)
    assert scales.shape == (COUNT, d)
    assert (scales.max(axis=1) > 0).all()
    assert (scales >= 0).all()
    frequencies = scales * rng.standard_normal((COUNT, d))
    x = rng.normal(size=(20, d)) * np.geomspace(0.1, 3.0, 20)[:, None]
    found = np.cos(x @ frequencies.T).mean(axis=1)
    expected = kernel(x, np.zeros((1, d)))[:, 0]
    assert np.abs(found - expected).max() < 5 / np.sqrt(COUNT)


def test_spectral_scales__are_drawn_from_the_generator():
    for kernel in WITH_LAW[1:]:
        draws = [kernel.spectral_scales(np.random.default_rng(s), 5, 2) for s in (0, 0, 1)]
        np.testing.assert_array_equal(draws[0], draws[1])
        assert not np.array_equal(draws[0], draws[2])


@pytest.mark.parametrize("kernel", WITHOUT_LAW, ids=lambda kernel: kernel.spec())
def test_spectral_scales__say_which_kernels_have_a_law_and_what_to_take(kernel):
    with pytest.raises(InvalidArgumentError, match=r"gaussian, laplacian.*take estimator='nystr"):
        kernel.spectral_scales(np.random.default_rng(0), 3, 2)
