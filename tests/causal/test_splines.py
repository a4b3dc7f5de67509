"""Additive regression on splines: by its definition, with every option."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.preprocessing import SplineTransformer

from dhsic.causal import CrossFitted, Splines
from tests import oracles


def sample(n=200, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((n, 2)), rng.uniform(-1.0, 1.0, (n, 1))
    y = np.sin(2 * x[:, :1]) + x[:, 1:] ** 2 + 3 * z + 0.3 * rng.standard_normal((n, 2))
    return x, z, y


def roughness(spline, count):
    """Integrals of products of the second derivatives of B-splines between their inner knots."""
    degree, second = spline.k, spline.derivative(2)
    knots = spline.t[degree:-degree]
    # Three points integrate what is quadratic between knots to the bit.
    nodes, weights = np.polynomial.legendre.leggauss(3)
    total = np.zeros((count, count))
    for low, high in itertools.pairwise(knots):
        values = second((low + high) / 2 + (high - low) / 2 * nodes)[:, :count]
        total += (high - low) / 2 * values.T @ (weights[:, None] * values)
    return total


def designed(given, n_knots, degree, penalty):
    """Functions of all columns by scikit-learn, and the penalty of each in units of its spread."""
    functions, penalties = [], []
    for column in given.T:
        splines = SplineTransformer(n_knots, degree, knots="quantile", include_bias=False)
        values = splines.fit_transform(column[:, None])
        values -= values.mean(axis=0)
        count = values.shape[1]
        own = np.eye(count)
        if penalty == "curvature":
            own = roughness(splines.bsplines_[0], count)
        functions.append(values)
        penalties.append(own * np.sum(values**2) / np.trace(own))
    size = sum(len(one) for one in penalties)
    whole, start = np.zeros((size, size)), 0
    for own in penalties:
        whole[start : start + len(own), start : start + len(own)] = own
        start += len(own)
    return np.concatenate(functions, axis=1), whole


@pytest.mark.parametrize(
    ("n_knots", "degree", "penalty"), [(5, 3, "curvature"), (4, 2, "curvature"), (6, 3, "ridge")]
)
def test_fit__is_that_of_scikit_learn_s_splines_with_the_least_gcv(n_knots, degree, penalty):
    x, z, y = sample()
    functions, matrix = designed(np.hstack([x, z]), n_knots, degree, penalty)
    regression = Splines(n_knots=n_knots, degree=degree, penalty=penalty)
    found = regression.residuals(y, [x, z], np.random.default_rng(0))
    for target, residuals in zip(y.T, found.T, strict=True):

        def fit(log_weight, target=target):
            return oracles.penalised_fit(functions, target, matrix, 10.0**log_weight)

        def apart(log_weight, residuals=residuals, fit=fit):
            return np.abs(fit(log_weight)[0] - residuals).max()

        coarse = min(np.arange(-8.0, 4.0, 0.25), key=apart)
        nearest = minimize_scalar(apart, bounds=(coarse - 0.25, coarse + 0.25), method="bounded")
        assert apart(nearest.x) < 1e-4
        gcv = fit(nearest.x)[2]
        assert gcv <= min(fit(nearest.x - 0.25)[2], fit(nearest.x + 0.25)[2])


def test_curvature__leaves_a_line_as_it_is():
    rng = np.random.default_rng(0)
    x = rng.standard_t(3, (300, 1))
    left = {
        penalty: np.abs(Splines(penalty=penalty).residuals(1e6 + 5 * x, [x], rng)).max()
        for penalty in ("curvature", "ridge")
    }
    assert left["curvature"] < 1e-6 < left["ridge"]


@pytest.mark.parametrize("extrapolation", ["linear", "constant"])
def test_folds__have_residuals_of_the_others_rows(extrapolation):
    """A change of the target in one row reaches all rows but the others of its fold."""
    x, _, y = sample(120)
    regression = Splines(n_knots=4, n_folds=3, extrapolation=extrapolation)
    rng = np.random.default_rng(0)
    usual = regression.residuals(y, [x], rng)
    y[6] += 1.0
    change = np.abs(regression.residuals(y, [x], rng) - usual).max(axis=1)
    assert change[6] == pytest.approx(1.0)
    same = np.delete(np.arange(0, 120, 3), 2)
    assert change[same].max() < 1e-12
    assert change[np.arange(120) % 3 > 0].min() > 0.0


def test_nothing_given__leaves_the_target_about_its_mean():
    y = sample()[2]
    for regression in (Splines(), CrossFitted("random-forest")):
        assert regression.residuals(y, [], np.random.default_rng(0)) == pytest.approx(y - y.mean(0))


def test_copies_and_few_values__do_no_harm():
    x, _, y = sample()
    rng = np.random.default_rng(0)
    once, twice = Splines().residuals(y, [x], rng), Splines().residuals(y, [x, x], rng)
    assert np.abs(once - twice).max() < 0.1 * np.abs(once).max()
    x = rng.integers(0, 2, (100, 1))
    left = Splines().residuals(3.0 * x + rng.standard_normal((100, 1)), [x], rng)
    for value in (0, 1):
        assert abs(left[x == value].mean()) < 0.05


@pytest.mark.parametrize("name", ["random-forest", "gaussian-process"])
def test_regressors__are_cross_fitted_and_seeded(name):
    rng = np.random.default_rng(0)
    x, noise = rng.uniform(-2.0, 2.0, (120, 1)), 0.2 * rng.standard_normal((120, 1))
    y = np.sin(2 * x) + noise
    regression = CrossFitted(name, n_folds=2)
    found, again = (regression.residuals(y, [x], np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(found, again)
    assert np.std(found) < 0.7 * np.std(y)
    assert regression.name == f"{name}, 2 folds"


def test_cross_fitted__takes_what_others_have_seen():
    class Remembered:
        """Predicts the number of rows it was fitted to."""

        def __init__(self, random_state=None):
            self.random_state = random_state

        def get_params(self, deep=True):
            return {"random_state": self.random_state}

        def set_params(self, **params):
            self.random_state = params["random_state"]
            return self

        def fit(self, x, y):
            assert self.random_state is not None
            self.seen = set(x[:, 0])
            return self

        def predict(self, x):
            assert not self.seen & set(x[:, 0])
            return np.full(len(x), float(len(self.seen)))

    x = np.arange(30.0)[:, None]
    left = CrossFitted(Remembered(), n_folds=3).residuals(0 * x, [x], np.random.default_rng(0))
    assert set(left.ravel()) == {-20.0}
