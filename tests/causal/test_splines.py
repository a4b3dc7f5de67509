"""Additive regression on splines: by its definition, streamed, with every option."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import BSpline
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from dhsic.causal import CrossFitted, Splines, find_regression
from dhsic.causal.basis import SplineBasis
from dhsic.errors import DataError, InvalidArgumentError, MissingDependencyError
from tests import oracles


def sample(n=200, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((n, 2)), rng.uniform(-1.0, 1.0, (n, 1))
    y = np.sin(2 * x[:, :1]) + x[:, 1:] ** 2 + 3 * z + 0.3 * rng.standard_normal((n, 2))
    return x, z, y


def designed(regression, given):
    """Functions of all columns, and the penalties, as the definition has them."""
    bases = [regression.basis(x, "x") for x in given]
    functions = np.concatenate([b(x) for b, x in zip(bases, given, strict=True)], axis=1)
    functions -= functions.mean(axis=0)
    penalty, start = np.zeros((functions.shape[1],) * 2), 0
    for own in (one for basis in bases for one in regression.penalties(basis)):
        at = slice(start, start + len(own))
        scale = np.sum(functions[:, at] ** 2) / np.trace(own)
        penalty[at, at] = scale * own
        start = at.stop
    return functions, penalty


@pytest.mark.parametrize("penalty", ["curvature", "ridge"])
def test_fit__has_the_least_gcv_of_the_hat_matrix(penalty):
    x, z, y = sample()
    regression = Splines(n_knots=5, penalty=penalty)
    functions, matrix = designed(regression, [x, z])
    design = regression.design([x, z, y], ("x", "z", "y"), (0, 1), (2,))
    sums = design.sums(np.arange(len(x)), [x, z, y])
    (fit,) = regression.fits(design, sums, 2, (0, 1))
    found = regression.residuals(y, [x, z], np.random.default_rng(0))
    for column, weight in enumerate(fit.weights):
        left, hat, gcv = oracles.penalised_fit(functions, y[:, column], matrix, weight)
        assert found[:, column] == pytest.approx(left, abs=1e-8)
        assert fit.degrees[column] == pytest.approx(np.trace(hat), rel=1e-6)
        assert fit.scores[column] == pytest.approx(gcv, rel=1e-8)
        for other in (weight / 10**0.25, weight * 10**0.25):
            assert gcv <= oracles.penalised_fit(functions, y[:, column], matrix, other)[2]


def test_ridge__is_the_pipeline_of_scikit_learn():
    x, z, y = sample()
    given = np.concatenate([x, z], axis=1)
    regression = Splines(n_knots=6, penalty="ridge")
    basis = regression.basis(given, "x")
    transform = SplineTransformer(
        n_knots=6, degree=3, knots="quantile", include_bias=False, extrapolation="linear"
    ).fit(given)
    beyond = 1.5 * given
    assert basis(beyond) == pytest.approx(transform.transform(beyond), abs=1e-12)
    design = regression.design([x, y[:, :1]], ("x", "y"), (0,), (1,))
    sums = design.sums(np.arange(len(x)), [x, y[:, :1]])
    (fit,) = regression.fits(design, sums, 1, (0,))
    functions = basis(given)[:, : design.bases[0].size]
    counts = design.bases[0].counts
    spread = [np.sum((f - f.mean(0)) ** 2) for f in np.split(functions, counts[:1], axis=1)]
    alphas = [fit.weights[0] * s / c for s, c in zip(spread, counts, strict=True)]
    # One ridge penalty for all: columns are scaled so that theirs become it.
    scale = np.repeat(np.sqrt(np.divide(alphas, alphas[0])), counts)
    expected = Ridge(alpha=alphas[0]).fit(functions / scale, y[:, 0]).predict(functions / scale)
    found = regression.residuals(y[:, :1], [x], np.random.default_rng(0))
    assert y[:, 0] - found[:, 0] == pytest.approx(expected, abs=1e-8)


def test_one_column__is_ridge_of_a_pipeline():
    x, y = sample()[1:]
    regression = Splines(n_knots=6, penalty="ridge")
    design = regression.design([x, y[:, :1]], ("x", "y"), (0,), (1,))
    sums = design.sums(np.arange(len(x)), [x, y[:, :1]])
    (fit,) = regression.fits(design, sums, 1, (0,))
    functions = design.bases[0](x)
    alpha = fit.weights[0] * np.sum((functions - functions.mean(0)) ** 2) / functions.shape[1]
    splines = SplineTransformer(n_knots=6, knots="quantile", include_bias=False)
    expected = make_pipeline(splines, Ridge(alpha=alpha)).fit(x, y[:, 0]).predict(x)
    found = regression.residuals(y[:, :1], [x], np.random.default_rng(0))
    assert y[:, 0] - found[:, 0] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("degree", [2, 3])
def test_roughness__is_the_integral_of_second_derivatives(degree):
    x = np.random.default_rng(0).standard_normal((50, 1))
    basis = SplineBasis.fit(x, 4, degree, "constant")
    (found,), (knots,) = basis.roughness(), basis.knots
    functions = np.eye(basis.size + 1)
    second = [BSpline(knots, f, degree).derivative(2) for f in functions[:-1]]
    inner = knots[degree:-degree]
    for i, j in [(0, 0), (1, 2), (basis.size - 1, basis.size - 1)]:
        expected = sum(
            quad(lambda t, i=i, j=j: second[i](t) * second[j](t), a, b)[0]
            for a, b in itertools.pairwise(inner)
        )
        assert found[i, j] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_extrapolation__is_what_was_asked_for():
    x = np.linspace(0.0, 1.0, 50)[:, None]
    far = np.array([[2.0], [3.0], [4.0]])
    constant = SplineBasis.fit(x, 4, 3, "constant")(far)
    assert constant == pytest.approx(np.tile(constant[:1], (3, 1)))
    linear = SplineBasis.fit(x, 4, 3, "linear")(far)
    assert np.diff(linear, n=2, axis=0) == pytest.approx(0.0, abs=1e-9)
    assert not np.allclose(linear, linear[0])


def test_curvature__leaves_a_line_as_it_is():
    rng = np.random.default_rng(0)
    x = rng.standard_t(3, (300, 1))
    left = {
        penalty: np.abs(Splines(penalty=penalty).residuals(1e6 + 5 * x, [x], rng)).max()
        for penalty in ("curvature", "ridge")
    }
    assert left["curvature"] < 1e-6 < left["ridge"]


@pytest.mark.parametrize(
    ("option", "value"),
    [("n_knots", 4), ("degree", 2), ("penalty", "ridge"), ("n_folds", 3)],
)
def test_option__makes_a_difference(option, value):
    x, _, y = sample()
    rng = np.random.default_rng(0)
    usual = Splines().residuals(y, [x], rng)
    other = replace(Splines(), **{option: value}).residuals(y, [x], rng)
    assert not np.allclose(usual, other, atol=1e-4)


def test_units__make_no_difference():
    x, z, y = sample()
    rng = np.random.default_rng(0)
    usual = Splines().residuals(y, [x, z], rng)
    moved = Splines().residuals(1e3 * y - 1e6, [1e-3 * x + 1e3, 1e4 * z], rng)
    assert moved / 1e3 == pytest.approx(usual, abs=1e-5)


def test_folds__have_residuals_of_the_others():
    x, _, y = sample(120)
    regression = Splines(n_knots=4, n_folds=3)
    design = regression.design([x, y], ("x", "y"), (0,), (1,))
    sums = design.sums(np.arange(120), [x, y])
    assert sums.sum(axis=0) == pytest.approx(
        replace(design, n_folds=1).sums(np.arange(120), [x, y])[0]
    )
    fits = regression.fits(design, sums, 1, (0,))
    found = regression.residuals(y, [x], np.random.default_rng(0))
    functions = design.bases[0](x)
    for f, fit in enumerate(fits):
        rest = np.arange(120) % 3 != f
        assert fit.target_mean == pytest.approx(y[rest].mean(axis=0))
        fitted = fit.target_mean + (functions - fit.mean) @ fit.coefficients
        assert found[~rest] == pytest.approx((y - fitted)[~rest])


def test_nothing_given__leaves_the_target_about_its_mean():
    y = sample()[2]
    for regression in (Splines(), CrossFitted("random-forest")):
        assert regression.residuals(y, [], np.random.default_rng(0)) == pytest.approx(y - y.mean(0))


def test_copies__of_a_column_do_no_harm():
    x, _, y = sample()
    rng = np.random.default_rng(0)
    once, twice = Splines().residuals(y, [x], rng), Splines().residuals(y, [x, x], rng)
    assert np.abs(once - twice).max() < 0.1 * np.abs(once).max()


def test_few_values__have_fewer_knots():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (100, 1))
    y = 3.0 * x + rng.standard_normal((100, 1))
    left = Splines().residuals(y, [x], rng)
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


def test_bad_input__is_refused_in_words(monkeypatch):
    rng, x = np.random.default_rng(0), sample()[0]
    for options, message in [
        ({"n_knots": 1}, "n_knots must be an integer >= 2"),
        ({"degree": 1}, "degree must be an integer >= 2"),
        ({"penalty": "lasso"}, "penalty must be one of"),
        ({"extrapolation": "cubic"}, "extrapolation must be one of"),
        ({"n_folds": 0}, "n_folds must be an integer >= 1"),
        ({"n_folds": 1001}, "n_folds must be an integer >= 1 and at most 1,000"),
    ]:
        with pytest.raises(InvalidArgumentError, match=message):
            Splines(**options)
    with pytest.raises(DataError, match="needs columns that vary, got column 0 constant"):
        Splines().residuals(x, [np.ones((200, 1))], rng)
    with pytest.raises(DataError, match="needs more rows than that, got 20: give fewer n_knots"):
        Splines().residuals(x[:20], [x[:20]], rng)
    for wrong in ("spline", 3, Splines):
        with pytest.raises(InvalidArgumentError, match="regression must be one of 'splines'"):
            find_regression(wrong)
    with pytest.raises(InvalidArgumentError, match="did you mean 'splines'"):
        find_regression("spline")
    for wrong in ("forest", Ridge, 3):
        with pytest.raises(InvalidArgumentError, match="regressor must be one of"):
            CrossFitted(wrong)
    with pytest.raises(InvalidArgumentError, match="rows for 5 folds must be an integer >= 10"):
        CrossFitted("random-forest").residuals(x[:7], [x[:7]], rng)
    monkeypatch.setattr("dhsic.causal.regression.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"dhsic\[causal\]"):
        find_regression("random-forest")


@pytest.mark.parametrize("scale", [1e-160, 1e-80, 1e80, 1e160])
@pytest.mark.parametrize("which", [0, 1])
def test_spans_that_overflow__are_refused(scale, which):
    rng = np.random.default_rng(0)
    values = list(rng.standard_normal((2, 50, 1)))
    values[which] = scale * values[which]
    with pytest.raises(DataError, match=r"span 1e-70 to 1e\+70, got .*: rescale the variable"):
        Splines(n_knots=4).residuals(values[1], [values[0]], rng)
