"""Spectra, bounds on errors and laws of estimates, against closed forms and samples."""

import itertools
import math
from functools import cache

import numpy as np
import pytest

import dhsic
from benchmarks.papers.bounds import CASES, errors
from benchmarks.shared.embeddings import NormalPairs
from dhsic.analysis import (
    CovarianceSpectrum,
    DependenceLaw,
    covariance_spectrum,
    dependence_law,
    landmarks_for_exponential_decay,
    landmarks_for_polynomial_decay,
    least_landmarks,
    mean_embedding_bound,
    nystrom_m_bound,
    nystrom_mmd_bound,
    rff_hsic_bound,
    v_statistic_bound,
)
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels import Delta, Gaussian, Linear
from tests.oracles import u_centred

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


def test_bound_of_mmd__is_the_sum_of_those_of_the_samples():
    found = nystrom_mmd_bound((5000, 9000), (4000, 2000), 0.01, (STEEP, SPREAD))
    sizes = [(5000, 4000, STEEP), (9000, 2000, SPREAD)]
    terms = [embedding_bound(n, p, 0.01, one.eigenvalues, one.supremum) for n, p, one in sizes]
    assert found.total == pytest.approx(sum(map(sum, terms)), rel=1e-12)
    assert found.second.rows == pytest.approx(terms[1][0], rel=1e-12)
    assert [row["embedding"] for row in found.records()] == ["first sample", "second sample"]


@pytest.mark.parametrize(("m", "spread"), [(2, 1.0), (3, 0.5)])
def test_bound_of_v_statistic__is_that_of_its_three_u_statistics(m, spread):
    n, delta, hsic, off = 31, 0.2, 0.3, {}
    for order in {2, 2 * m, m + 1}:
        sampling = math.sqrt(math.log(2 / (delta / 3)) / (2 * (n // order)))
        distinct = math.perm(n, order) / n**order
        off[order] = spread * (sampling + 1 - distinct)
    squared = off[2] + off[2 * m] + 2 * off[m + 1]
    found = v_statistic_bound(n, delta, hsic, n_variables=m, spread=spread)
    assert found.squared == pytest.approx(squared, rel=1e-12)
    assert found.total == pytest.approx(squared / hsic, rel=1e-12)
    assert (found.joint, found.product) == pytest.approx((off[2], off[2 * m]), rel=1e-12)


def test_bound_of_random_features__is_twice_its_equation():
    for n, d in [(4, 1), (1000, 50)]:
        equation = math.sqrt(3 * n**4 * math.log(n) / d) + 2 * n**2 * math.log(n) / d
        assert rff_hsic_bound(n, d) == pytest.approx(2 * equation / n**2, rel=1e-12)


SHARES = np.array([[0.25, 0.1, 0.05], [0.05, 0.2, 0.1], [0.1, 0.05, 0.1]])


@cache
def law_by_definition():
    """HSIC and both variances of equation 13 of Zhang et al., over all quadruples of 9 points."""
    points = list(itertools.product(range(3), repeat=2))
    core = np.zeros((9,) * 4)
    for quadruple in itertools.combinations_with_replacement(range(9), 4):
        value = 0.0
        for t, u, v, w in itertools.permutations([points[one] for one in quadruple]):
            k_tu, l_tu = t[0] == u[0], t[1] == u[1]
            value += k_tu * (l_tu + (v[1] == w[1]) - 2 * (t[1] == v[1])) / 24
        for order in itertools.permutations(quadruple):
            core[order] = value
    shares = SHARES.ravel()
    of_two = core @ shares @ shares
    of_one = of_two @ shares
    hsic = of_one @ shares
    rest = of_two - of_one[:, None] - of_one + hsic
    # Serfling (1980), 5.2.1: 4^2 / n of one row and 6^2 / (n (n - 1) / 2) of pairs.
    return hsic, 16 * (of_one**2 @ shares - hsic**2), 72 * shares @ rest**2 @ shares


def test_law__has_the_variances_of_its_definition():
    expected = law_by_definition()
    laws = []
    for count in (400, 800):
        rows = np.repeat(np.arange(9), np.rint(count * SHARES.ravel()).astype(int))
        laws.append(dependence_law(rows // 3, rows % 3, kernels=Delta()))
    first, second = (np.array(list(vars(law).values())) for law in laws)
    np.testing.assert_allclose(second, expected, rtol=0.05)
    # What is of order 1 / s cancels; the rest is of its square.
    np.testing.assert_allclose(2.0 * second - first, expected, rtol=1e-3)


CORRELATED = NormalPairs(0.4 * np.eye(2) + 0.6, (0.5, 0.5))
INDEPENDENT = NormalPairs(np.eye(2), (0.5, 0.5))


def unbiased(law, n, rng, b):
    """The U-statistic of n rows, and its mean over blocks of b."""
    data = law.draw(n, rng)
    grams = [Gaussian(gamma=g)(x) for g, x in zip(law.gammas, data, strict=True)]
    found = []
    for size in (n, b):
        blocks = [slice(start, start + size) for start in range(0, n, size)]
        pairs = [[u_centred(gram[rows, rows]) for gram in grams] for rows in blocks]
        found.append(np.mean([(k * q).sum() / (size * (size - 3)) for k, q in pairs]))
    return found


def simulated(law, n, b, runs, pilots):
    rng = np.random.default_rng(n)
    estimates = np.array([unbiased(law, n, rng, b) for _ in range(runs)]).T
    kernels = [Gaussian(gamma=g) for g in law.gammas]
    found = [dependence_law(*law.draw(1000, rng), kernels=kernels) for _ in range(pilots)]
    mean = {name: np.mean([one.records()[0][name] for one in found]) for name in vars(found[0])}
    return estimates, DependenceLaw(**mean)


def check_moments(law, n, b, runs, pilots):
    """Means and variances within 4 standard errors, and 3 % of standard errors for terms n^-3."""
    estimates, found = simulated(law, n, b, runs, pilots)
    true = law.squared_hsic()
    spread = np.sqrt(found.variance / (1000 * pilots))
    assert found.squared_hsic == pytest.approx(true, abs=4 * spread + 1e-4)
    for values, rows in zip(estimates, (None, b), strict=True):
        error = found.standard_error(n, rows)
        assert values.mean() == pytest.approx(true, abs=4 * error / math.sqrt(runs))
        fourth = np.mean((values - values.mean()) ** 4) / values.var() ** 2
        relative = math.sqrt((fourth - 1) / runs)  # of the variance
        # Half of it of the root; pilots add their own.
        allowed = 2 * relative + 0.03 + 0.6 / math.sqrt(10 * pilots)
        assert values.std() == pytest.approx(error, rel=allowed)
    return estimates, found


def test_law__has_mean_and_variance_of_simulated_estimates():
    check_moments(CORRELATED, 100, 20, runs=400, pilots=2)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("law", "n", "runs"),
    [(CORRELATED, 100, 4000), (CORRELATED, 1000, 800), (INDEPENDENT, 100, 4000)],
    ids=["100 correlated", "1000 correlated", "100 independent"],
)
def test_law__has_mean_variance_and_quantiles_of_simulated_estimates(law, n, runs):
    estimates, found = check_moments(law, n, 20, runs, pilots=20)
    means = dict(zip((None, 20), estimates, strict=True))
    if n < 1000:
        del means[None]  # skewed, as variables depend little or not at all
    for b, values in means.items():
        for level in (0.05, 0.5, 0.95):
            below = np.mean(values <= found.quantile(level, n, b))
            skewness = 0.02 if n == 1000 else 0.05
            slack = 4 * math.sqrt(level * (1 - level) / runs) + skewness
            assert below == pytest.approx(level, abs=slack)


def test_law__vanishes_at_independence():
    found = simulated(INDEPENDENT, 20, 4, 1, pilots=1)[1]
    assert found.variance < 0.002 * found.degenerate_variance
    assert found.standard_error(1000) > found.standard_error(10_000)
    assert found.standard_error(1000, 20) > found.standard_error(1000)
    assert found.quantile(0.5, 1000) == found.squared_hsic


LEAST = least_landmarks(0.1, SPREAD)
ANY = DependenceLaw(0.1, 0.1, 0.1)


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
            "1 variables and kernels",
        ),
        (lambda: covariance_spectrum([1.0, 2.0], [1.0] * 3, kernels="linear"), "got 2, 3 rows"),
        (lambda: covariance_spectrum([1.0, np.nan], kernels="linear"), "finite numbers"),
        (lambda: nystrom_mmd_bound(999, (9, 9), 0.1, (SPREAD,) * 2), "n must be a pair, one of ea"),
        (lambda: nystrom_mmd_bound((999,) * 2, (9,), 0.1, (SPREAD,) * 2), "p must be a pair"),
        (lambda: nystrom_mmd_bound((999,) * 2, (9, 9), 0.1, SPREAD), "spectra must be a pair"),
        (lambda: nystrom_mmd_bound((999,) * 2, (9, 9), 0.5, (SPREAD,) * 2), r"less than 0\.5"),
        (
            lambda: nystrom_mmd_bound((10**6, LEAST - 1), (LEAST,) * 2, 0.1, (SPREAD,) * 2),
            f"and {LEAST - 1} rows",
        ),
        (lambda: v_statistic_bound(5, 0.1, 0.2, n_variables=3), "n must be an integer >= 6"),
        (lambda: v_statistic_bound(5, 0.1, 0.2, n_variables=1), "n_variables must be an integer"),
        (lambda: v_statistic_bound(99, 0.1, 0.0), "hsic must be from 1e-99 to"),
        (lambda: v_statistic_bound(99, 0.1, 0.2, spread=-1.0), "spread must be from 1e-99 to"),
        (lambda: v_statistic_bound(99, 1.0, 0.2), "delta must be"),
        (lambda: rff_hsic_bound(3, 10), "n must be an integer >= 4"),
        (lambda: rff_hsic_bound(99, 0), "n_features must be an integer >= 1"),
        (lambda: dependence_law([1.0, 2.0, 4.0], [2.0, 1.0, 4.0]), "needs 4 rows .*, got 3 rows"),
        (lambda: dependence_law([1.0] * 9, [2.0] * 8), "got 9, 8 rows"),
        (lambda: dependence_law(1e99 * np.arange(9), [2.0] * 9, kernels="linear"), "or rescale"),
        (lambda: dependence_law([1.0] * 9, [2.0] * 9, kernels=["linear"]), "2 variables and ker"),
        (lambda: ANY.standard_error(3), "n must be an integer >= 4"),
        (lambda: ANY.standard_error(30, 31), "block_rows must be an integer >= 4"),
        (lambda: ANY.quantile(1.0, 30), "level must be between 0 and 1"),
    ],
)
def test_analysis__refuses(build, match):
    with pytest.raises((InvalidArgumentError, DataError), match=match):
        build()


@pytest.mark.parametrize("case", CASES)
def test_bounds__hold_and_errors_are_of_the_order_of_the_rows(case):
    found = errors(case, 1000, 700, range(2 if case[:5] == "RHSIC" else 6))
    assert max(found) < CASES[case].bound(1000, 700, 0.1)
    least = 0.01 if case[:5] == "RHSIC" else 0.1  # an operator norm, by 700 frequencies
    assert least / math.sqrt(1000) < np.mean(found) < 2.0 / math.sqrt(1000)


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
