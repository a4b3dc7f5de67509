"""Values that other packages and the papers' authors compute of the same data.

`tests/reference/README.md` says by which scripts, and of what versions.
"""

import csv
from pathlib import Path

import numpy as np
import pytest

import dhsic
from dhsic.kernels import Delta, Distance, Gaussian
from tests import oracles

FOLDER = Path(__file__).parent / "reference"


def table(name):
    lines = (FOLDER / name).read_text().splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return {row["name"]: float(row["value"]) for row in rows}


def fractions(n, *numbers):
    """Fractions of multiples of roots, which are the same bits in R."""
    return np.outer(np.arange(1.0, n + 1), np.sqrt(numbers)) % 1.0


X = fractions(40, 2, 3, 5)
Y = fractions(40, 7, 11) + X[:, :2] / 2
Z = fractions(40, 13) + X[:, :1] ** 2
W = fractions(40, 17) - Y[:, 1:]
GAMMAS = (0.9, 0.6, 8.0, 5.0)
ROWS = np.array([3, 11, 17, 22, 30, 38])  # landmarks
LEVELS = np.floor(3 * fractions(40, 19, 23))
ALONE, FIRST, SECOND = X[:, 2:], LEVELS[:, :1], LEVELS[:, 1:]


def gaussian(bandwidth):
    return Gaussian(gamma=0.5 / bandwidth**2)


def v_hsic(kernels, *variables):
    return dhsic.hsic(*variables, kernels=kernels, estimator="v-hsic", rng=0).estimate


def estimate(estimator, *variables):
    return dhsic.hsic(*variables, estimator=estimator, rng=0).estimate


def by_gamma(kernels, *variables):
    options = {"kernels": kernels, "estimator": "v-hsic", "null": dhsic.Gamma(), "rng": 0}
    return dhsic.independence_test(*variables, **options)


R = table("peers.csv")
AUTHORS = table("authors.csv")


def check(name, found, rel=1e-9, values=R):
    assert found == pytest.approx(values[name], rel=rel)


def test_v_hsic__is_that_of_the_r_package_dhsic():
    first, second = (gaussian(R[f"bandwidth of the {one}"]) for one in ("first", "second"))
    check("dhsic of two", v_hsic(gaussian(0.5), X, Y))
    check("dhsic of three", v_hsic(gaussian(0.7), X, Y, Z))
    check("dhsic of four", v_hsic(gaussian(0.8), X, Y, Z, W))
    check("dhsic of two with medians", v_hsic([first, second], Z, W))
    check("dhsic of levels", v_hsic(Delta(), FIRST, SECOND))
    check("dhsic of levels and numbers", v_hsic([Delta(), first], FIRST, Z))


def test_gamma__is_near_that_of_the_r_package_dhsic():
    """The moments are estimated otherwise there; the statistic is the same."""
    check("gamma statistic of two", by_gamma(gaussian(0.5), X, Y).statistic)
    check("gamma p-value of two", by_gamma(gaussian(0.5), ALONE, W).pvalue, rel=0.03)
    check("gamma p-value of three", by_gamma(gaussian(0.7), ALONE, FIRST, W).pvalue, rel=0.25)


def test_distance_covariance__is_that_of_the_r_package_energy():
    check("dcov", estimate(dhsic.DCov(root=True), X, Y))
    check("dcov of exponent 1.5", estimate(dhsic.DCov(1.5, root=True), X, Y))
    check("dcor", estimate(dhsic.DCor(root=True), X, Y))
    check("dcov of columns", estimate(dhsic.DCov(root=True), Z, W))
    check("dcor of columns", estimate(dhsic.DCor(root=True), Z, W))
    check("dcor of levels", estimate(dhsic.DCor(root=True), FIRST, SECOND))
    check("bcdcor", estimate(dhsic.DCor(unbiased=True), X, Y))
    check("dcovU", estimate(dhsic.DCov(unbiased=True), X, Y))


def test_two_samples__are_as_far_apart_as_in_the_r_package_energy():
    options = {"kernels": Distance(), "estimator": "v-mmd", "rng": 0}
    found = dhsic.two_sample_test(X[:15, :2], Y[:25], **options).estimate
    check("energy of two samples", 2 * found * 15 * 25 / 40)


def test_hsic__is_that_of_kalinke_and_szabo():
    kernels = [Gaussian(gamma=gamma) for gamma in GAMMAS]
    check("HSIC of two", v_hsic(kernels[:2], X, Y), values=AUTHORS)
    check("HSIC of four", v_hsic(kernels, X, Y, Z, W), values=AUTHORS)


def test_oracles__at_landmarks_are_those_of_kalinke_and_szabo():
    """Estimates at drawn landmarks are compared with these oracles."""
    crosses = [
        oracles.gaussian_gram(x[ROWS], x, gamma)
        for x, gamma in zip((X, Y, Z, W), GAMMAS, strict=True)
    ]
    grams = [cross[:, ROWS] for cross in crosses]
    for m, words in ((2, "two"), (3, "three"), (4, "four")):
        found = oracles.nystrom_m_hsic(grams[:m], crosses[:m])
        check(f"HSICNy of {words}", found, 1e-6, AUTHORS)
    features = [
        np.linalg.solve(np.linalg.cholesky(gram), cross)
        for gram, cross in zip(grams, crosses, strict=True)
    ]
    covariance = np.cov(*features[:2], bias=True)[: len(ROWS), len(ROWS) :]
    check("LargeScaleHSICNy", np.sum(covariance**2), 1e-6, AUTHORS)


def test_hsic__is_that_of_zhang_et_al():
    kernels = [gaussian(0.8), gaussian(0.7)]
    unbiased = dhsic.hsic(X, Y, kernels=kernels, estimator="u-hsic", rng=0).estimate
    check("HSIC_V_statistic", v_hsic(kernels, X, Y), values=AUTHORS)
    check("HSIC_U_statistic", unbiased, values=AUTHORS)
    cka = dhsic.hsic(X, Y, kernels=kernels, estimator=dhsic.CKA(40), rng=0).estimate
    check("dCor_HSIC_statistic", cka, 1e-6, AUTHORS)
