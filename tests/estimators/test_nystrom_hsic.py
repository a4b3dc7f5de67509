"""Nystrom HSIC against its definitions."""

import itertools

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from dhsic._random import random_signs
from dhsic.errors import InvalidArgumentError, LandmarkWarning, PrecisionWarning
from dhsic.estimators.feature.nystrom_hsic import NystromHSIC
from dhsic.estimators.null_moments import permutation_moments
from dhsic.kernels import Combinations, Delta, Distance, Gaussian
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
    orbit_of_permutations,
    orders_of_permutations,
    permuted_statistics,
    session_on,
    signed_statistics,
    squared_norm,
)

# Few rows, of which the guard of approximate nulls warns.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

GAMMA = 3.0
KERNELS = (Gaussian(gamma=GAMMA), Gaussian(gamma=GAMMA))
TOLERANCE = {"float64": 1e-10, "float32": 1e-4}


def features_of(data, seed=5, p=12, replace=False):
    """Symmetric Nystrom features: any root of the inverse gives the same norms and spectra."""
    rows = uniform_rows(seed, len(data[0]), p, 2, pairing="independent", replace=replace)
    roots = []
    for x, r in zip(data, rows, strict=True):
        values, vectors = np.linalg.eigh(oracles.gaussian_gram(x[r], x[r], GAMMA))
        roots.append(np.exp(-GAMMA * cdist(x, x[r]) ** 2) @ (vectors / np.sqrt(values)))
    return roots


def estimator(p=12, tolerance=0.0, **options):
    return NystromHSIC(n_landmarks=p, tolerance=tolerance, **options)


def outcome(data, null, precision="float64", **options):
    return estimator(**options).test(session_on(data, precision=precision), KERNELS, null)


@pytest.mark.parametrize(
    "null", [Permutation(3), Permutation(3, within="groups", group_rows=30), Multiplier(3), Gamma()]
)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_statistic_and_estimate__equal_their_definition(precision, null):
    data = dependent(80)
    found = outcome(data, null, precision)
    expected = squared_norm(*features_of(data))
    assert found.estimate.value == pytest.approx(expected, rel=TOLERANCE[precision])
    assert found.statistic == pytest.approx(80 * expected, rel=TOLERANCE[precision])
    alone = estimator().estimate(session_on(data, precision=precision), KERNELS)
    assert alone.value == pytest.approx(expected, rel=TOLERANCE[precision])
    assert alone.quantity == "squared HSIC"


def test_estimate__is_v_hsic_with_all_rows_as_landmarks():
    data = dependent(60)
    found = estimator(p=60).estimate(session_on(data), KERNELS)
    grams = [oracles.gaussian_gram(x, x, GAMMA) for x in data]
    assert found.value == pytest.approx(oracles.v_hsic(grams), rel=1e-8)
    assert found.landmarks.kept == (60, 60)


@pytest.mark.parametrize("kernel", [Gaussian(gamma=GAMMA), Delta()])
@pytest.mark.parametrize("n", [4, 11])
def test_unbiased_estimate__is_u_hsic_with_all_rows_as_landmarks(n, kernel):
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, 2)) if kernel != Delta() else rng.integers(0, 3, (n, 1))
    data = x.astype(float), rng.standard_normal((n, 2)) + x[:, :1]
    kernels = kernel, Gaussian(gamma=GAMMA)
    found = estimator(p=n, unbiased_estimate=True).estimate(session_on(data), kernels)
    grams = [one(part) for one, part in zip(kernels, data, strict=True)]
    assert found.value == pytest.approx(oracles.u_hsic(*grams), rel=1e-9)


def test_unbiased_estimate__has_the_mean_of_u_hsic():
    """Of independent variables it is 0, where |C|^2 is a multiple of its standard error."""
    means = {}
    for unbiased in (True, False):
        values = []
        for seed in range(60):
            data = np.random.default_rng(seed).standard_normal((2, 60, 2))
            one = estimator(unbiased_estimate=unbiased).estimate(
                session_on(data, seed=seed), KERNELS
            )
            values.append(one.value)
        means[unbiased] = abs(np.mean(values)) / (np.std(values) / np.sqrt(60))
    assert means[True] < 4.0 < 20.0 < means[False]


def test_multiplier__equals_its_definition():
    data = dependent(60)
    found = outcome(data, Multiplier(7))
    signs = random_signs(5, 0, 60, 7).astype(float)
    expected = signed_statistics(*features_of(data), signs, frobenius)
    np.testing.assert_allclose(found.distribution.values, expected, rtol=1e-10)


@pytest.mark.parametrize("within", ["all", "groups"])
@pytest.mark.parametrize("group_rows", [12, 25])
def test_permutation__equals_its_definition(within, group_rows):
    data, null = dependent(60), Permutation(6, within=within, group_rows=group_rows)
    found = outcome(data, null)
    orders = orders_of_permutations(60, null)
    expected = permuted_statistics(*features_of(data), orders, frobenius)
    np.testing.assert_allclose(found.distribution.values, expected, rtol=1e-10)
    assert found.detail == orbit_of_permutations(60, null).detail
    rows = {12: "groups of 12 rows", 25: "groups of 30 rows"}[group_rows]
    assert found.detail == ("all rows shuffled" if within == "all" else f"shuffled in {rows}")


def test_permutation__auto_takes_all_rows_where_they_fit_and_groups_beyond():
    null = Permutation(2, group_rows=100)
    data = dependent(2000)
    details = {
        memory: estimator().test(session_on(data, memory=memory), KERNELS, null).detail
        for memory in (2**31, 2**20)
    }
    assert details == {
        2**31: "all rows shuffled",
        2**20: "shuffled in groups of 100 rows",
    }


def moments_of(n, *features):
    moments = [x.T @ x / n for x in features]
    return permutation_moments(
        n,
        traces=np.array([np.trace(c) for c in moments]),
        squares=np.array([np.sum(c**2) for c in moments]),
        fourths=np.array([np.mean(np.sum(x**2, axis=1) ** 2) for x in features]),
    )


@pytest.mark.parametrize("n", [5, 6])
def test_permutation_moments__are_those_of_all_permutations(n):
    rng = np.random.default_rng(n)
    first, second = centred(rng.standard_normal((n, 2))), centred(rng.exponential(size=(n, 3)))
    orders = np.array(list(itertools.permutations(range(n))))
    values = permuted_statistics(first, second, orders, frobenius)
    mean, variance = moments_of(n, first, second)
    assert mean == pytest.approx(values.mean(), rel=1e-12)
    assert variance == pytest.approx(values.var(), rel=1e-12)


@pytest.mark.parametrize("n", [300, 3000])
def test_gamma__has_the_moments_of_all_permutations(n):
    data = dependent(n)
    law = outcome(data, Gamma()).distribution
    values = outcome(data, Permutation(3000, within="all")).distribution.values
    assert law.mean == pytest.approx(values.mean(), rel=0.01)
    assert law.variance == pytest.approx(values.var(), rel=0.1)
    features = [centred(x) for x in features_of(data)]
    mean, variance = moments_of(n, *features)
    assert law.mean == pytest.approx(mean, rel=1e-10)
    assert law.variance == pytest.approx(variance, rel=1e-10)


def test_spectral__has_the_products_of_the_eigenvalues_as_weights():
    data = dependent(200)
    law = outcome(data, Spectral()).distribution
    spectra = [np.linalg.eigvalsh(np.cov(x.T, bias=True)) for x in features_of(data)]
    expected = np.sort(np.outer(*spectra).ravel())
    weights = np.sort(law.weights)
    np.testing.assert_allclose(weights[-100:], expected[-100:], rtol=1e-9)
    assert weights.sum() + law.shift == pytest.approx(expected.sum(), rel=1e-10)


def test_spectral__simulates_where_asked():
    data = dependent(200)
    law = outcome(data, Spectral("simulation", n_resamples=77)).distribution
    assert law.values.shape == (77,)


def test_laws__read_the_data_once():
    for null in (Gamma(), Spectral(), Multiplier(5), Permutation(5, within="groups")):
        session = session_on(dependent(100))
        estimator().test(session, KERNELS, null)
        assert len(session.finished) == 1


@pytest.mark.parametrize("null", [Permutation(99), Multiplier(99), Shifts(99), Gamma(), Spectral()])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_test__finds_dependence_and_nothing_in_noise(null, precision):
    rng = np.random.default_rng(1)
    x, noise = rng.standard_normal((2, 500, 2))
    y = x**2 + 0.5 * noise
    default = NystromHSIC()
    for other, found in ((y, True), (noise, False)):
        session = session_on((x, other), precision=precision)
        result = default.test(session, (Gaussian(), Gaussian()), null)
        p = pvalue(result.statistic, result.distribution, precision, result.rounding)
        assert (p < 0.02) if found else (p > 0.05)


def test_kernels__may_be_any():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=(200, 1)).astype(float)
    x = labels + 0.3 * rng.standard_normal((200, 1))
    result = NystromHSIC().test(session_on((x, labels)), (Distance(), Delta()), Gamma())
    assert result.distribution.sf(result.statistic) < 1e-6
    assert result.estimate.landmarks.kept[1] == 3
    assert result.estimate.kernels[1] == Delta()


def test_kernel__is_gaussian_where_not_given():
    assert NystromHSIC().kernel(None) == Gaussian()
    assert NystromHSIC().kernel(Delta()) == Delta()


def test_replace__draws_rows_more_than_once():
    data = dependent(50)
    kept = {
        replace: estimator(p=50, tolerance=None, replace=replace)
        .estimate(session_on(data), KERNELS)
        .landmarks
        for replace in (False, True)
    }
    assert kept[False].kept == (50, 50)
    assert max(kept[True].kept) < 45
    assert kept[True].replace


def test_tolerance__prunes_either_variable_by_itself():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2000, 1)), rng.standard_normal((2000, 10))
    kept = {}
    for tolerance in (1e-2, 1e-8):
        made = NystromHSIC(n_landmarks=200, tolerance=tolerance)
        kept[tolerance] = made.estimate(session_on((x, y)), (Gaussian(), Gaussian())).landmarks.kept
    assert kept[1e-2][0] < kept[1e-8][0] < 60
    assert kept[1e-2][1] <= kept[1e-8][1] == 200


def test_tolerance__follows_the_precision():
    data = dependent(300)
    found = {
        precision: NystromHSIC().estimate(session_on(data, precision=precision), KERNELS).landmarks
        for precision in ("float64", "float32")
    }
    assert found["float64"].tolerance == 1e-8
    assert found["float32"].tolerance == 1e-4


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_landmarks": 0}, "n_landmarks must be an integer >= 1 or a multiple of sqrt"),
        ({"tolerance": 1.0}, "tolerance must be at least 0 and less than 1, got 1.0: leave it out"),
        ({"tolerance": "small"}, "tolerance must be at least 0"),
    ],
)
def test_options__are_checked(options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        NystromHSIC(**options)


def test_float32__warns_where_tails_cost_the_kernel_its_digits():
    rng = np.random.default_rng(0)
    x = np.abs(rng.standard_cauchy((2000, 2))) ** 1.5
    session = session_on((x, rng.standard_normal(2000)), precision="float32")
    with pytest.warns(PrecisionWarning, match="'x1' has landmarks so many bandwidths"):
        NystromHSIC(n_landmarks=500).estimate(session, (Gaussian(), Gaussian()))


@pytest.mark.parametrize(
    "null",
    [
        *(None, Gamma(), Multiplier(9), Shifts(9)),
        *(Permutation(9, within="groups"), Permutation(9, within="all")),
    ],
)
def test_plan__names_the_passes_that_run(null):
    session = session_on(dependent(500))
    plan = NystromHSIC().plan(session, Combinations.single((Gaussian(), Gaussian())), null)
    if null is None:
        NystromHSIC().estimate(session, (Gaussian(), Gaussian()))
    else:
        NystromHSIC().test(session, (Gaussian(), Gaussian()), null)
    assert [step.name for step in plan.passes] == [done.name for done in session.finished]
    assert plan.n_landmarks == 45


def test_plan__grows_with_landmarks_and_resamples():
    session = session_on(dependent(5000))
    peak = {
        (p, b): NystromHSIC(n_landmarks=p)
        .plan(session, Combinations.single(KERNELS), Multiplier(b))
        .peak_worker_bytes
        for p, b in [(50, 100), (100, 100), (100, 400)]
    }
    assert peak[50, 100] < peak[100, 100] < peak[100, 400]
    assert peak[100, 400] - peak[100, 100] > 300 * 100 * 100 * 8


@pytest.mark.parametrize("null", [Permutation(9, within="all"), Multiplier(9), Spectral()])
def test_workers__give_the_same_as_threads(client, null):
    data = dependent(3000)
    here = outcome(data, null)
    there = estimator().test(session_on(data, client=client), KERNELS, null)
    assert there.statistic == pytest.approx(here.statistic, rel=1e-12)
    if not isinstance(null, Spectral):
        np.testing.assert_allclose(there.distribution.values, here.distribution.values, rtol=1e-9)


def test_features__agree_with_those_of_scikit_learn():
    approximation = pytest.importorskip("sklearn.kernel_approximation")
    data = dependent(80)
    rows = uniform_rows(5, 80, 12, 2, pairing="independent", replace=False)
    features = []
    for x, r in zip(data, rows, strict=True):
        made = approximation.Nystroem(gamma=GAMMA, n_components=12, random_state=0).fit(x[r])
        features.append(made.transform(x))
    expected = squared_norm(*features)
    assert estimator().estimate(session_on(data), KERNELS).value == pytest.approx(
        expected, rel=1e-9
    )


def test_landmarks__where_the_kernel_is_zero_show_nothing_and_warn():
    x = np.zeros((500, 1))
    x[0] = 1.0
    data, kernels = (x, np.arange(500.0)), (Distance(), Gaussian())
    match = "the kernel of variable 'x1' is 0 at every landmark, .*: take more of them, or"
    with pytest.warns(LandmarkWarning, match=match):
        assert estimator(p=3).estimate(session_on(data), kernels).value == 0.0
    for null in (Permutation(9), Multiplier(9), Gamma(), Spectral()):
        with pytest.warns(LandmarkWarning, match=match):
            found = estimator(p=3).test(session_on(data), kernels, null)
        assert found.statistic == 0.0
        assert pvalue(found.statistic, found.distribution, rounding=found.rounding) == 1.0
