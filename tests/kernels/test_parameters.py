"""Parameters, their defaults and the errors about them."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels import (
    Delta,
    Distance,
    Gaussian,
    InverseMultiquadric,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Product,
    RationalQuadratic,
    Sum,
)
from tests.kernels.cases import CASES, Case

X = np.random.default_rng(0).normal(size=(40, 3))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Gaussian(gamma=0.5), Gaussian(gamma=0.6)),
        (Laplacian(gamma=0.5), Laplacian(gamma=0.6)),
        (InverseMultiquadric(gamma=0.5), InverseMultiquadric(gamma=0.6)),
        (RationalQuadratic(gamma=0.5), RationalQuadratic(gamma=0.6)),
        (RationalQuadratic(alpha=0.5, gamma=0.5), RationalQuadratic(alpha=0.6, gamma=0.5)),
        (Matern(nu=0.5, length=1.0), Matern(nu=1.5, length=1.0)),
        (Matern(nu=1.5, length=1.0), Matern(nu=2.5, length=1.0)),
        (Matern(length=1.0), Matern(length=1.1)),
        (Polynomial(degree=2, gamma=1.0), Polynomial(degree=3, gamma=1.0)),
        (Polynomial(coef0=1.0, gamma=1.0), Polynomial(coef0=1.1, gamma=1.0)),
        (Polynomial(gamma=1.0), Polynomial(gamma=1.1)),
        (Distance(exponent=1.0), Distance(exponent=1.1)),
        (Linear(), Linear(origin=(1.0, 0.0, 0.0))),
        (Gaussian(gamma=1.0) + Delta(), Gaussian(gamma=1.0) + Linear()),
        (Gaussian(gamma=1.0) + Delta(), Gaussian(gamma=1.0) * Delta()),
    ],
)
def test_parameter__changes_the_gram_matrix(one, other):
    assert not np.allclose(one(X), other(X))


def test_gaussian__default_is_one_over_squared_median_distance():
    assert Gaussian().fit(X).gamma == pytest.approx(1 / np.median(pdist(X)) ** 2)


def test_imq__default_is_one_over_squared_median_distance():
    assert InverseMultiquadric().fit(X).gamma == pytest.approx(1 / np.median(pdist(X)) ** 2)


def test_rq__default_is_cauchy_and_one_over_squared_median_distance():
    assert RationalQuadratic() == RationalQuadratic(alpha=1.0)
    assert RationalQuadratic().fit(X).gamma == pytest.approx(1 / np.median(pdist(X)) ** 2)


def test_rq__lies_between_imq_and_gaussian():
    heavy, light = RationalQuadratic(alpha=0.5, gamma=0.4), RationalQuadratic(alpha=1e7, gamma=0.4)
    np.testing.assert_allclose(heavy(X), InverseMultiquadric(gamma=0.8)(X), rtol=1e-12)
    np.testing.assert_allclose(light(X), Gaussian(gamma=0.4)(X), rtol=1e-5)


def test_laplacian__default_is_one_over_median_cityblock_distance():
    assert Laplacian().fit(X).gamma == pytest.approx(1 / np.median(pdist(X, "cityblock")))


def test_matern__default_is_smooth_and_median_distance_long():
    assert Matern() == Matern(nu=1.5)
    assert Matern().fit(X).length == pytest.approx(np.median(pdist(X)))


def test_polynomial__default_is_cubic_and_one_over_median_squared_norm():
    norms = ((X - np.median(X, axis=0)) ** 2).sum(axis=1)
    fitted = Polynomial().fit(X)
    assert (fitted.degree, fitted.coef0) == (3, 1.0)
    assert fitted.gamma == pytest.approx(1 / np.median(norms))


def test_polynomial__default_survives_a_rare_binary_variable():
    x = np.zeros((100, 1))
    x[:3] = 4.0
    assert Polynomial().fit(x).gamma == pytest.approx(1 / 16)


def test_polynomial__refuses_a_constant_variable():
    with pytest.raises(DataError, match="typical difference is 0"):
        Polynomial().fit(np.ones((5, 1)))


def test_distance__default_is_that_of_distance_covariance():
    assert Distance().exponent == 1.0


def test_distance__centred_is_centred_distance():
    h = np.eye(len(X)) - 1 / len(X)
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.testing.assert_allclose(h @ Distance()(X) @ h, -h @ distances @ h / 2, atol=1e-7)


def test_delta__compares_whole_rows():
    x = np.array([[1, 2], [1, 3], [0, 2], [1, 2]])
    np.testing.assert_array_equal(Delta()(x)[0], [1, 0, 0, 1])


def test_delta__never_has_an_origin():
    assert Delta().fit(X) == Delta()
    assert Delta().origin is None


@pytest.mark.parametrize(
    ("categories", "dtype", "named"),
    [
        (np.array([[2**24], [2**24 + 1]]), np.float32, "16777217"),
        (np.array([[0.1], [0.2]]), np.float32, "0.1"),
        (np.array([[1e300], [2e300]]), np.float32, None),
        (np.array([[2**53], [2**53 + 1]]), np.float64, "9007199254740993"),
        (np.array([[2**63 - 1], [0]]), np.float64, None),
    ],
)
def test_delta__refuses_to_merge_categories(categories, dtype, named):
    with pytest.raises(ValueError, match=f"delta: categories must be .*{named or ''}.*: "):
        Delta().rows(categories, dtype)


@pytest.mark.parametrize(
    "categories", [np.array([[2**24 - 1], [-3]]), np.array([[0.5], [1e30]], np.float32)]
)
def test_delta__keeps_categories_that_fit(categories):
    rows = Delta().rows(categories, np.float32)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, categories)


@pytest.mark.parametrize("bad", [0, -1, np.nan, np.inf, "abc", 1j])
@pytest.mark.parametrize(
    ("kernel", "parameter"),
    [
        (Gaussian, "gamma"),
        (Laplacian, "gamma"),
        (InverseMultiquadric, "gamma"),
        (RationalQuadratic, "gamma"),
        (RationalQuadratic, "alpha"),
        (Polynomial, "gamma"),
        (Matern, "length"),
    ],
)
def test_scale__must_be_finite_and_positive(kernel, parameter, bad):
    with pytest.raises(
        InvalidArgumentError,
        match=f"{kernel.name}: {parameter} must be a finite number > 0; got .*: leave it out for",
    ):
        kernel(**{parameter: bad})


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Matern(nu=1.0), r"nu must be 0.5, 1.5 or 2.5; got 1.0: leave it out for 1.5"),
        (lambda: Matern(nu=None), r"nu must be 0.5, 1.5 or 2.5; got None"),
        (
            lambda: Polynomial(degree=0),
            r"degree must be an integer >= 1; got 0: leave it out for 3",
        ),
        (lambda: Polynomial(degree=2.5), r"degree must be an integer >= 1; got 2.5"),
        (lambda: Polynomial(degree=np.inf), r"degree must be an integer >= 1; got inf"),
        (lambda: Polynomial(coef0=-0.1), r"coef0 must be a finite number >= 0; got -0.1"),
        (lambda: Polynomial(coef0=np.inf), r"coef0 must be a finite number >= 0; got inf"),
        (lambda: Distance(exponent=0), r"exponent must be a number in \(0, 2\]; got 0"),
        (lambda: Distance(exponent=2.1), r"exponent must be a number in \(0, 2\]; got 2.1"),
        (lambda: Gaussian(origin=(np.nan,)), r"origin must be finite; got \(nan,\)"),
        (lambda: Sum((Linear(),)), r"a sum needs two kernels or more"),
        (lambda: Product((Linear(), 2)), r"a product needs two kernels or more"),
    ],
)
def test_parameter__refuses(build, match):
    with pytest.raises(InvalidArgumentError, match=match):
        build()


@pytest.mark.parametrize(
    "kernel", [Gaussian(), Laplacian(), InverseMultiquadric(), Matern(), Polynomial()]
)
def test_gram__refuses_a_kernel_that_is_not_fitted(kernel):
    with pytest.raises(
        InvalidArgumentError, match=r"must be set before use; .* call fit\(sample\)"
    ):
        kernel(X)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernel__is_a_frozen_value(case: Case):
    kernel = case.kernel.fit(X)
    with pytest.raises(dataclasses.FrozenInstanceError):
        kernel.origin = (0.0,)
    assert kernel == case.kernel.fit(X)
    assert hash(kernel) == hash(case.kernel.fit(X))


def test_parameter__becomes_a_python_number():
    kernel = Gaussian(gamma=np.float32(0.5), origin=np.array([1, 2]))
    assert kernel == Gaussian(gamma=0.5, origin=(1.0, 2.0))
    assert type(kernel.gamma) is float
    assert type(Polynomial(degree=np.int64(4)).degree) is int


def test_operators__flatten_and_leave_other_operands_alone():
    a, b, c = Gaussian(gamma=1.0), Linear(), Delta()
    assert (a + b) + c == a + (b + c) == Sum((a, b, c))
    assert (a * b) * c == a * (b * c) == Product((a, b, c))
    assert (a + b) * c == Product((Sum((a, b)), c))
    with pytest.raises(TypeError):
        a + 1
    with pytest.raises(TypeError):
        a * 2


def test_sum__fits_every_part_by_itself():
    fitted = (Gaussian() + Matern() * Delta()).fit(X)
    assert fitted.parts == (Gaussian().fit(X), Product((Matern().fit(X), Delta())))
    assert fitted.origin is None
