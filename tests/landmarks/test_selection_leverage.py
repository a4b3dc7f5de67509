"""Ridge leverage scores: exact where they can be, near where they are estimated."""

import numpy as np
import pytest

from dhsic.kernels import Delta, Gaussian, Linear
from dhsic.landmarks import Pool, leverage
from dhsic.landmarks.leverage import leverage_rows, ridge_scores, sample_size, tail_ridge


@pytest.fixture
def pool(rng):
    """A dense core and a wide rim, so that scores differ a hundredfold."""
    x = rng.standard_normal((900, 2)) * np.where(np.arange(900) < 60, 6.0, 0.5)[:, None]
    return Pool((Gaussian(gamma=0.3),), (rng.permutation(x),))


def exact_scores(pool, ridge):
    """The diagonal of K (K + lambda)^-1."""
    (kernel,), (x,) = pool.kernels, pool.points
    gram = kernel(x)
    return np.diag(gram @ np.linalg.inv(gram + ridge * np.eye(len(x))))


@pytest.mark.parametrize("ridge", [0.1, 3.0])
def test_ridge_scores__are_exact_from_all_rows(pool, ridge):
    every = np.arange(900)
    scores = ridge_scores(pool, every, every, np.ones(900), ridge)
    np.testing.assert_allclose(scores, exact_scores(pool, ridge), atol=1e-9)
    assert scores.max() > 20 * scores.min()


def test_ridge_scores__follow_their_definition_for_a_weighted_sample(pool, rng):
    rows, sample, weights = np.array([5, 880, 2]), np.array([9, 4, 700, 30]), rng.uniform(1, 9, 4)
    gram = pool.kernels[0](pool.points[0])
    s = np.zeros((900, 4))
    s[sample, np.arange(4)] = weights
    left = gram - gram @ s @ np.linalg.inv(s.T @ gram @ s + 2.0 * np.eye(4)) @ s.T @ gram
    scores = ridge_scores(pool, rows, sample, weights, 2.0)
    np.testing.assert_allclose(scores, np.diag(left)[rows] / 2.0, atol=1e-12)


def test_ridge_scores__are_at_most_one_and_too_large_from_fewer_rows(pool, rng):
    some = rng.choice(900, 80, replace=False)
    scores = ridge_scores(pool, np.arange(900), some, np.ones(80), 0.5)
    assert np.all(scores >= exact_scores(pool, 0.5) - 1e-9)
    assert scores.max() == 1.0


def test_tail_ridge__is_the_mean_tail_of_the_weighted_spectrum(pool, rng):
    sample, weights = rng.choice(900, 50, replace=False), rng.uniform(1, 3, 50)
    gram = pool.kernels[0](pool.points[0][sample])
    values = np.sort(np.linalg.eigvals(np.diag(weights) @ gram @ np.diag(weights)).real)
    expected = values[:-7].sum() / 7
    assert tail_ridge(pool, sample, weights, 7) == pytest.approx(expected)


def test_tail_ridge__stays_above_rounding(rng):
    pool = Pool((Linear(),), (rng.standard_normal((50, 2)),))
    weights = np.full(20, 10.0)
    assert tail_ridge(pool, np.arange(20), weights, 5) == pytest.approx(100 * pool.tolerance())


@pytest.fixture
def calls(monkeypatch):
    """The scores, samples and ridges of every level, lowest first."""
    recorded = []

    def record(pool, rows, sample, weights, ridge):
        scores = ridge_scores(pool, rows, sample, weights, ridge)
        recorded.append((scores, sample, ridge))
        return scores

    monkeypatch.setattr(leverage, "ridge_scores", record)
    return recorded


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("p", [20, 70, 150])
def test_leverage_rows__go_by_scores_near_the_exact_ones(pool, calls, p, seed):
    """At least 2/3 of the exact score of every row, and a sum of the same order."""
    drawn = leverage_rows(pool, p, np.random.default_rng(seed))
    scores, sample, ridge = calls[-1]
    exact = exact_scores(pool, ridge)
    assert len(calls) > 1
    assert len(set(drawn.tolist())) == p
    assert len(sample) <= sample_size(p) < 450
    assert np.all(scores >= exact / 1.5)
    assert exact.sum() < scores.sum() < 3.0 * exact.sum()


def test_leverage_rows__are_drawn_in_proportion_to_their_scores():
    """Ninety equal rows share one dimension; ten others have one each."""
    x = np.append(np.zeros(90), 10.0 * np.arange(1, 11))[:, None]
    pool = Pool((Gaussian(gamma=1.0),), (x,))
    draws = [leverage_rows(pool, 5, np.random.default_rng(seed)) for seed in range(200)]
    share = np.mean(np.concatenate(draws) >= 90)
    assert share > 0.6


@pytest.mark.parametrize("p", [1, 20, 200])
def test_leverage_rows__keep_their_samples_small_where_all_scores_are_large(monkeypatch, p):
    sizes = []

    def largest(pool, rows, sample, weights, ridge):
        sizes.append(len(sample))
        return np.ones(len(rows))

    monkeypatch.setattr(leverage, "ridge_scores", largest)
    pool = Pool((Delta(),), (np.arange(3000)[:, None],))
    leverage_rows(pool, p, np.random.default_rng(0))
    assert len(sizes) > 3
    assert max(sizes) <= sample_size(p)
    assert min(sizes[1:]) > max(p, 64) / 2
