"""Embeddings and HSIC in closed form, against samples and definitions."""

import numpy as np
import pytest

import dhsic
from benchmarks.shared.embeddings import Empirical, Mixture, NormalPairs, floor, nystrom_error
from dhsic.kernels import Gaussian

LAWS = {"normal": Mixture.normal(), "clouds": Mixture.clouds(3, 2)}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_mixture__has_the_embedding_of_its_rows(law):
    rng = np.random.default_rng(5)
    x, z = law.draw(20_000, rng), law.draw(4, rng)
    kernel = Gaussian(gamma=law.gamma)
    np.testing.assert_allclose(law.mean(z), kernel(z, x).mean(axis=1), atol=0.02)
    assert law.squared_norm == pytest.approx(float(law.mean(x).mean()), abs=0.01)


def test_mixture__takes_the_median_distance_as_the_scale():
    law = Mixture.clouds(8, 10)
    distances = np.linalg.norm(np.diff(law.draw(20_000, np.random.default_rng(0)), axis=0), axis=1)
    assert np.sqrt(0.5 / law.gamma) == pytest.approx(np.median(distances), rel=0.03)


def test_empirical__is_the_mixture_of_its_points():
    x = np.random.default_rng(0).standard_normal((300, 2))
    law, gram = Empirical(x, 0.3), Gaussian(gamma=0.3)(x)
    assert law.squared_norm == pytest.approx(float(gram.mean()), rel=1e-12)
    np.testing.assert_allclose(law.mean(x[:5]), gram[:5].mean(axis=1), rtol=1e-12)
    assert set(map(tuple, law.draw(50, np.random.default_rng(1)))) <= set(map(tuple, x))


@pytest.mark.parametrize("m", [2, 3])
def test_normal_pairs__have_the_hsic_of_their_rows(m):
    law = NormalPairs(0.3 * np.eye(m) + 0.7, (0.5, 0.2, 0.9)[:m])
    kernels = [Gaussian(gamma=gamma) for gamma in law.gammas]
    data = law.draw(3000, np.random.default_rng(0))
    np.testing.assert_allclose(np.cov(np.hstack(data).T), law.covariance, atol=0.08)
    found = dhsic.hsic(*data, kernels=kernels, estimator="v-hsic", rng=0).estimate
    assert law.squared_hsic() == pytest.approx(found, rel=0.1)


def test_normal_pairs__that_are_independent_have_none():
    assert NormalPairs(np.diag([1.0, 2.0]), (0.5, 0.1)).squared_hsic() == pytest.approx(0.0)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_nystrom_error__is_the_distance_of_the_embeddings(law):
    rng = np.random.default_rng(3)
    x = law.draw(60, rng)
    kernel, z = Gaussian(gamma=law.gamma), x[:6]
    weights = np.linalg.solve(kernel(z), kernel(z, x).mean(axis=1))
    squared = law.squared_norm - 2 * weights @ law.mean(z) + weights @ kernel(z) @ weights
    assert nystrom_error(law, x, z, 1e-12) == pytest.approx(np.sqrt(squared), rel=1e-8)


def test_floor__is_the_root_mean_squared_error_of_all_rows():
    law = LAWS["clouds"]
    draws = (law.draw(40, np.random.default_rng(seed)) for seed in range(300))
    squared = [nystrom_error(law, x, x, 0.0) ** 2 for x in draws]
    assert np.sqrt(np.mean(squared)) == pytest.approx(floor(law, 40), rel=0.05)
