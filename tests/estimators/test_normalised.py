"""CKA and NOCCO against their definitions."""

import math

import numpy as np
import pytest
from scipy.stats import binom

import dhsic
from benchmarks.shared.cases import checkerboard
from dhsic._random import random_signs
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.base import rounding_unit
from dhsic.estimators.feature.normalised import CKA, NOCCO
from dhsic.estimators.feature.nystrom_hsic import NystromHSIC
from dhsic.kernels import Combinations, Delta, Gaussian, Linear, Polynomial
from dhsic.landmarks import uniform_rows
from dhsic.nulls import (
    Gamma,
    Multiplier,
    Permutation,
    Shifts,
    Spectral,
    pvalue,
)
from tests import oracles
from tests.estimators.features import (
    centred,
    dependent,
    frobenius,
    orders_of_permutations,
    session_on,
    signed_statistics,
)

# Few rows, of which the guard of approximate nulls warns.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

GAMMA = 3.0
SHARE = 0.05
KERNELS = (Gaussian(gamma=GAMMA), Gaussian(gamma=GAMMA))
NULLS = [
    Permutation(19, within="all"),
    Permutation(19, within="groups", group_rows=25),
    Multiplier(19),
    Shifts(19),
    Gamma(),
    Spectral(),
]
TOLERANCE = {"float64": 1e-9, "float32": 1e-3}
every_pair = pytest.mark.parametrize(
    ("estimator", "null"),
    [
        pytest.param(estimator, null, id=f"{estimator.name}-{null}")
        for estimator in (CKA, NOCCO)
        for null in NULLS
        if not (estimator is NOCCO and isinstance(null, Spectral))
    ],
)
both = pytest.mark.parametrize("estimator", [CKA, NOCCO])


def few(estimator, p=12, **options):
    """With few landmarks, none of which is dropped."""
    if estimator is NOCCO:
        options = {"regularisation": SHARE, **options}
    return estimator(n_landmarks=p, tolerance=0.0, **options)


def oracle(estimator):
    if estimator is CKA:
        return oracles.cka
    return lambda k_x, k_y: oracles.nocco(k_x, k_y, SHARE)


def features_of(data, p=12, seed=5):
    rows = uniform_rows(seed, len(data[0]), p, 2, pairing="independent", replace=False)
    features = []
    for x, r in zip(data, rows, strict=True):
        values, vectors = np.linalg.eigh(oracles.gaussian_gram(x[r], x[r], GAMMA))
        features.append(oracles.gaussian_gram(x, x[r], GAMMA) @ (vectors / np.sqrt(values)))
    return features


def normalised(estimator, features):
    """Each variable's features by their own covariance, through its symmetric root."""
    found = []
    for f in map(centred, features):
        values, vectors = np.linalg.eigh(f.T @ f / len(f))
        if estimator is CKA:
            found.append(f / np.sum(values**2) ** 0.25)
        else:
            found.append(f @ (vectors / np.sqrt(values + SHARE * values[-1])) @ vectors.T)
    return found


@both
def test_estimate__with_all_rows_is_that_of_the_gram_matrices(estimator):
    data = dependent(60)
    found = few(estimator, 60).estimate(session_on(data), KERNELS)
    grams = [oracles.gaussian_gram(x, x, GAMMA) for x in data]
    assert found.value == pytest.approx(oracle(estimator)(*grams), rel=1e-8)
    assert found.quantity == estimator.name.upper()
    assert found.landmarks.kept == (60, 60)


@pytest.mark.parametrize("precision", TOLERANCE)
@every_pair
def test_statistic_and_estimate__equal_their_definition(estimator, null, precision):
    data = dependent(80)
    expected = oracle(estimator)(*(f @ f.T for f in features_of(data)))
    found = few(estimator).test(session_on(data, precision=precision), KERNELS, null)
    assert found.estimate.value == pytest.approx(expected, rel=TOLERANCE[precision])
    assert found.statistic == pytest.approx(80 * expected, rel=TOLERANCE[precision])
    alone = few(estimator).estimate(session_on(data, precision=precision), KERNELS)
    assert alone.value == pytest.approx(expected, rel=TOLERANCE[precision])


@both
def test_multiplier__equals_its_definition(estimator):
    data = dependent(60)
    signs = random_signs(5, 0, 60, 7).astype(float)
    expected = signed_statistics(*normalised(estimator, features_of(data)), signs, frobenius)
    found = few(estimator).test(session_on(data), KERNELS, Multiplier(7)).distribution.values
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("within", ["all", "groups"])
@both
def test_permutation__equals_its_definition(estimator, within):
    """The variables are permuted first and normalised then, which is the same."""
    x, y = dependent(60)
    null = Permutation(6, within=within, group_rows=25)
    orders = orders_of_permutations(60, null)
    first, second = features_of((x, y))
    expected = [
        60 * oracle(estimator)(first @ first.T, second[order] @ second[order].T) for order in orders
    ]
    found = few(estimator).test(session_on((x, y)), KERNELS, null).distribution.values
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def spectrum_of(estimator, data):
    spectra = [
        np.linalg.eigvalsh(np.cov(f.T, bias=True)) for f in normalised(estimator, features_of(data))
    ]
    return np.sort(np.outer(*spectra).ravel())


def test_spectral__has_the_products_of_the_eigenvalues_as_weights():
    data = dependent(300)
    law = few(CKA).test(session_on(data), KERNELS, Spectral()).distribution
    expected = spectrum_of(CKA, data)
    np.testing.assert_allclose(np.sort(law.weights)[-50:], expected[-50:], rtol=1e-8)
    assert law.weights.sum() + law.shift == pytest.approx(expected.sum(), rel=1e-9)


@both
def test_gamma__has_the_moments_of_all_permutations(estimator):
    data = dependent(300)
    law = few(estimator).test(session_on(data), KERNELS, Gamma()).distribution
    null = Permutation(2000, within="all")
    values = few(estimator).test(session_on(data), KERNELS, null).distribution.values
    assert law.mean == pytest.approx(spectrum_of(estimator, data).sum() * 300 / 299, rel=1e-9)
    assert law.mean == pytest.approx(values.mean(), rel=0.02)
    assert law.variance == pytest.approx(values.var(), rel=0.15)


@pytest.mark.parametrize("precision", TOLERANCE)
@both
def test_rounding__is_that_of_the_normalised_features(estimator, precision):
    data = dependent(80)
    found = few(estimator).test(session_on(data, precision=precision), KERNELS, Gamma())
    spreads = [np.mean(np.sum(f**2, axis=1)) for f in normalised(estimator, features_of(data))]
    expected = 80 * rounding_unit(precision) ** 2 * math.prod(spreads)
    assert found.rounding == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("null", NULLS, ids=str)
def test_cka__has_the_p_values_of_hsic_of_the_same_features(null):
    data = dependent(90, (1, 1), seed=3)
    hsic, cka = (one().test(session_on(data), KERNELS, null) for one in (NystromHSIC, CKA))
    pvalues = [pvalue(o.statistic, o.distribution, rounding=o.rounding) for o in (hsic, cka)]
    assert pvalues[0] == pytest.approx(pvalues[1], rel=1e-6)
    assert hsic.statistic < 0.5 * cka.statistic
    if isinstance(null, Permutation | Multiplier):
        np.testing.assert_allclose(
            cka.distribution.values / cka.statistic,
            hsic.distribution.values / hsic.statistic,
            rtol=1e-8,
        )


def test_cka__is_that_of_rankings_before_chance_is_taken_off():
    x, y = dependent(200, (3, 1))
    ranking = dhsic.rank_features(x, y, estimator=NystromHSIC(20), rng=3, n_resamples=99)
    chance = [
        (dhsic.hsic(column, y, estimator=CKA(20), rng=3).estimate - feature.cka) / (1 - feature.cka)
        for column, feature in zip(x.T, ranking.features, strict=True)
    ]
    # (c - b) / (1 - b) is what rankings tell of a cosine c, with b the mean over replicates.
    independent = np.random.default_rng(0).permuted(y, axis=0)
    expected = [
        dhsic.hsic(column, independent, estimator=CKA(20), rng=3).estimate for column in x.T
    ]
    assert chance == pytest.approx(expected, abs=0.02)
    assert min(chance) > 0.0


def test_cka__of_a_variable_with_itself_is_1():
    x = np.random.default_rng(0).standard_normal((100, 2))
    exact = few(CKA, 100).estimate(session_on((x, x)), KERNELS).value
    assert 1.0 - 1e-10 < exact <= 1.0
    default = CKA().estimate(session_on((x, x)), (Gaussian(), Gaussian())).value
    assert 0.98 < default <= 1.0
    turned = x @ np.array([[0.0, 5.0], [-5.0, 0.0]]) + 3.0
    assert CKA().estimate(session_on((x, turned)), (Linear(), Linear())).value == pytest.approx(1.0)


@both
def test_estimate__does_not_change_with_the_scale_of_a_kernel(estimator):
    x, y = dependent(100)
    linear = (Linear(), Linear())
    found = few(estimator, 2).estimate(session_on((x, y)), linear).value
    scaled = few(estimator, 2).estimate(session_on((1e3 * x, 1e-2 * y)), linear).value
    assert scaled == pytest.approx(found, rel=1e-9)


def canonical_correlations(x, y):
    q_x, q_y = (np.linalg.qr(centred(one))[0] for one in (x, y))
    return np.linalg.svd(q_x.T @ q_y, compute_uv=False)


def test_nocco__of_linear_kernels_sums_squared_canonical_correlations():
    x, y = dependent(200, (2, 3))
    made = NOCCO(50, regularisation=1e-6)
    linear = (Linear(), Linear())
    found = made.estimate(session_on((x, y)), linear)
    assert found.landmarks.kept == (2, 3)
    expected = np.sum(canonical_correlations(x, y) ** 2)
    assert found.value == pytest.approx(expected, rel=1e-4)
    itself = made.estimate(session_on((x, x @ [[1.0, 2.0], [0.0, 1.0]])), linear).value
    assert itself == pytest.approx(2.0, rel=1e-4)


def test_nocco__tends_to_hsic_where_the_regularisation_is_large():
    data, share = dependent(80), 1e8
    null = Permutation(19)
    hsic = few(NystromHSIC).test(session_on(data), KERNELS, null)
    found = few(NOCCO, regularisation=share).test(session_on(data), KERNELS, null)
    ridges = [share * np.linalg.norm(np.cov(f.T, bias=True), 2) for f in features_of(data)]
    scale = math.prod(ridges)
    assert found.estimate.value * scale == pytest.approx(hsic.estimate.value, rel=1e-6)
    np.testing.assert_allclose(
        found.distribution.values * scale, hsic.distribution.values, rtol=1e-6
    )


def test_nocco__is_regularised_by_a_share_that_falls_with_the_rows():
    for n in (50, 400):
        session = session_on(dependent(n))
        default = NOCCO().estimate(session, KERNELS).value
        same = NOCCO(regularisation=default_share(n)).estimate(session, KERNELS).value
        other = NOCCO(regularisation=2 * default_share(n)).estimate(session, KERNELS).value
        assert default == pytest.approx(same, rel=1e-12)
        assert other < 0.9 * default


def default_share(n):
    return 0.3 * n**-0.25


@pytest.mark.parametrize(
    ("precision", "coef0"), [("float64", 1.0), ("float64", 0.7), ("float32", 0.7)]
)
@every_pair
def test_features_that_do_not_differ__are_no_evidence(estimator, null, precision, coef0):
    rare = np.eye(1, 60, 7)[0]
    y = np.random.default_rng(0).standard_normal(60)
    session = session_on((rare, y), precision=precision)
    found = estimator(n_landmarks=12).test(session, (Polynomial(coef0=coef0), Gaussian()), null)
    assert found.estimate.value == pytest.approx(0.0, abs=1e-8)
    assert 0.0 <= found.statistic <= found.rounding
    assert pvalue(found.statistic, found.distribution, precision, found.rounding) == 1.0


@both
def test_options__change_the_landmarks(estimator):
    data = dependent(100)
    for p in (10, 20):
        found = estimator(n_landmarks=p).estimate(session_on(data), KERNELS).landmarks
        assert (found.drawn, found.kept) == (p, (p, p))
    replaced = estimator(n_landmarks=100, replace=True).estimate(session_on(data), KERNELS)
    assert replaced.landmarks.replace
    assert max(replaced.landmarks.kept) < 80
    pruned = estimator(n_landmarks=100, tolerance=0.3).estimate(session_on(data), KERNELS)
    assert pruned.landmarks.tolerance == 0.3
    assert min(pruned.landmarks.kept) < 80


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_landmarks": 0}, "n_landmarks must be an integer >= 1 or a multiple of sqrt"),
        ({"tolerance": 1.0}, "tolerance must be at least 0 and less than 1, got 1.0"),
    ],
)
@both
def test_options__are_checked(estimator, options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        estimator(**options)


@pytest.mark.parametrize("share", [0.0, 1e-7, -1.0, math.inf, math.nan, "small", True])
def test_regularisation__is_checked(share):
    match = "regularisation must be a finite number of at least 1e-06, got .*: leave it out"
    with pytest.raises(InvalidArgumentError, match=match):
        NOCCO(regularisation=share)


@both
def test_kernel__is_gaussian_where_not_given(estimator):
    assert estimator().kernel(None) == Gaussian()
    assert estimator().kernel(Delta()) == Delta()


@every_pair
def test_plan__names_the_passes_that_run(estimator, null):
    session = session_on(dependent(300))
    plan = estimator().plan(session, Combinations.single(KERNELS), null)
    estimator().test(session, KERNELS, null)
    assert [step.name for step in plan.passes] == [done.name for done in session.finished]
    extra = not isinstance(null, Spectral)
    assert (
        len(NystromHSIC().plan(session, Combinations.single(KERNELS), null).passes)
        == len(plan.passes) - extra
    )
    assert plan.n_landmarks == 35


@both
def test_plan__of_an_estimate_is_one_pass(estimator):
    session = session_on(dependent(300))
    plan = estimator().plan(session, Combinations.single(KERNELS), None)
    estimator().estimate(session, KERNELS)
    assert [step.name for step in plan.passes] == [done.name for done in session.finished]
    assert len(plan.passes) == 1


def rejections(estimator, null, draw, runs, alpha):
    count = 0
    for seed in range(runs):
        data = draw(np.random.default_rng([3, seed]))
        session = session_on([np.reshape(x, (-1, 1)) for x in data], seed)
        found = estimator.test(session, (Gaussian(), Gaussian()), null)
        p = pvalue(found.statistic, found.distribution, rounding=found.rounding)
        count += p <= alpha + 1e-9
    return count


@pytest.mark.parametrize("null", [Permutation(19), Multiplier(39), Gamma()], ids=str)
def test_level__of_nocco_is_kept(null):
    """That of CKA is that of `NystromHSIC`."""
    runs, alpha = 150, 0.1
    made = NOCCO(n_landmarks=15)
    rejected = rejections(made, null, lambda rng: rng.standard_normal((2, 100)), runs, alpha)
    low, high = binom.ppf([0.001, 0.999], runs, alpha)
    assert low <= rejected <= high


def test_nocco__finds_fast_functions_with_fewer_rows_than_hsic():
    def draw(rng):
        return checkerboard(300, rng, 0.4)

    by_nocco, by_hsic = (rejections(one(), Gamma(), draw, 20, 0.05) for one in (NOCCO, NystromHSIC))
    assert by_hsic <= 6
    assert by_nocco >= 14
