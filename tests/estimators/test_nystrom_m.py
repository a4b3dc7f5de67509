"""Nystrom M-HSIC against its definitions."""

import numpy as np
import pytest
from scipy import stats

import dhsic
from benchmarks.shared.cases import joint_triple
from dhsic._random import random_signs
from dhsic.kernels import Gaussian
from dhsic.landmarks import uniform_rows
from dhsic.nulls import ChiSquareMixture
from tests import oracles
from tests.estimators.levels import Check

# Few rows, of which the guard of approximate nulls warns.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
DIMS = {2: (2, 3), 3: (2, 3, 2), 4: (3, 2, 2, 2)}
GAMMA = 3.0


def setting(n, m, seed=0):
    """Data whose landmark Gram matrices are well conditioned, so that pinv has its digits."""
    rng = np.random.default_rng([n, m, seed])
    data = [rng.standard_normal((n, d)) for d in DIMS[m]]
    data[-1][:, 0] += data[0][:, 0]
    return data


def matrices(data, seed, p, pairing="independent", replace=False):
    rows = uniform_rows(seed, len(data[0]), p, len(data), pairing=pairing, replace=replace)
    points = [x[r] for x, r in zip(data, rows, strict=True)]
    grams = [oracles.gaussian_gram(z, z, GAMMA) for z in points]
    crosses = [oracles.gaussian_gram(z, x, GAMMA) for z, x in zip(points, data, strict=True)]
    return grams, crosses


def run(data, null, precision="float64", p=12, pairing="independent", seed=5, tolerance=0.0):
    return dhsic.independence_test(
        *data,
        kernels=Gaussian(gamma=GAMMA),
        estimator=dhsic.NystromMHSIC(n_landmarks=p, pairing=pairing, tolerance=tolerance),
        null=null,
        precision=precision,
        rng=seed,
    )


@pytest.mark.parametrize("pairing", ["independent", "joint"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("m", [2, 3, 4])
def test_statistic_and_estimate__equal_their_definitions(m, precision, pairing):
    data = setting(80, m)
    result = run(data, dhsic.Multiplier(5), precision, pairing=pairing)
    grams, crosses = matrices(data, 5, 12, pairing)
    rel = TOLERANCE[precision]
    assert result.statistic == pytest.approx(
        oracles.nystrom_statistic(np.prod(grams, axis=0), crosses), rel=rel
    )
    assert result.estimate == pytest.approx(oracles.nystrom_m_hsic(grams, crosses), rel=rel)


@pytest.mark.parametrize("m", [2, 3, 4])
def test_estimate__is_statistic_over_n_plus_a_term_of_the_marginals(m):
    data = setting(80, m)
    result = run(data, dhsic.Multiplier(5))
    remainder = oracles.marginal_remainder(*matrices(data, 5, 12))
    assert result.statistic / 80 + remainder == pytest.approx(result.estimate, rel=1e-10)
    data[0] = data[0][np.random.default_rng(1).permutation(80)]
    shuffled = matrices(data, 5, 12)
    assert oracles.marginal_remainder(*shuffled) == pytest.approx(
        oracles.nystrom_m_hsic(*shuffled)
        - oracles.nystrom_statistic(np.prod(shuffled[0], axis=0), shuffled[1]) / 80,
        rel=1e-8,
    )


@pytest.mark.parametrize("m", [2, 3, 4])
def test_multiplier__equals_its_definition(m):
    data = setting(60, m)
    result = run(data, dhsic.Multiplier(7))
    grams, crosses = matrices(data, 5, 12)
    signs = random_signs(5, 0, 60, 7).astype(float)
    expected = oracles.multiplier_replicates(np.prod(grams, axis=0), crosses, signs)
    np.testing.assert_allclose(result.null_distribution, expected, rtol=1e-10)


@pytest.mark.parametrize("within", ["all", "groups"])
@pytest.mark.parametrize("m", [2, 3])
def test_permutation__equals_its_definition(m, within):
    data = setting(60, m)
    null = dhsic.Permutation(6, within=within, group_rows=25)
    result = run(data, null)
    grams, crosses = matrices(data, 5, 12)
    orders = oracles.orders_of_permutations(60, null, 5, range(1, m))
    expected = oracles.permutation_replicates(np.prod(grams, axis=0), crosses, orders)
    np.testing.assert_allclose(result.null_distribution, expected, rtol=1e-10)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("m", [2, 3, 4])
def test_fitted_nulls__equal_their_definitions(m, precision):
    data = setting(60, m)
    grams, crosses = matrices(data, 5, 12)
    weights = oracles.nystrom_spectrum(np.prod(grams, axis=0), crosses)
    rel = 100 * TOLERANCE[precision]
    spectral = run(data, dhsic.Spectral(), precision)
    assert spectral.pvalue == pytest.approx(
        ChiSquareMixture(weights).sf(spectral.statistic), rel=rel
    )
    gamma = run(data, dhsic.Gamma(), precision)
    shape = weights.sum() ** 2 / (2 * (weights**2).sum())
    expected = stats.gamma.sf(gamma.statistic, shape, scale=weights.sum() / shape)
    assert gamma.pvalue == pytest.approx(expected, rel=rel)
    assert gamma.statistic == spectral.statistic
    by_signs = run(data, dhsic.Multiplier(5), precision).statistic
    assert spectral.statistic == pytest.approx(by_signs, rel=TOLERANCE[precision])


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize(
    "null", [dhsic.Spectral(), dhsic.Spectral("simulation"), dhsic.Gamma()], ids=repr
)
def test_fitted_nulls__agree_with_many_multipliers(null, m):
    rng = np.random.default_rng(m)
    data = list(rng.standard_normal((m, 800)))
    data[-1] = data[-1] + 0.06 * data[0]
    estimator = dhsic.NystromMHSIC(n_landmarks=60)
    options = {"kernels": "gaussian", "estimator": estimator, "rng": 0}
    by_signs = dhsic.independence_test(*data, null=dhsic.Multiplier(20_000), **options)
    fitted = dhsic.independence_test(*data, null=null, **options)
    assert 0.01 < by_signs.pvalue < 0.6
    assert fitted.pvalue == pytest.approx(by_signs.pvalue, rel=0.15, abs=0.015)


@pytest.mark.parametrize("null", ["spectral", "gamma"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_fitted_nulls__give_tiny_pvalues_for_strong_dependence(null, precision):
    x = np.random.default_rng(0).standard_normal(1000)
    options = {"null": null, "precision": precision, "rng": 0}
    assert 0.0 < dhsic.independence_test(x, x**2, **options).pvalue < 1e-15


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("null", [dhsic.Spectral(), dhsic.Gamma()], ids=repr)
def test_fitted_nulls__keep_the_level(null, m):
    def rejects(seed):
        data = np.random.default_rng([11, seed]).standard_normal((m, 100))
        return dhsic.independence_test(*data, null=null, rng=seed, threads=1).pvalue <= 0.1

    assert Check.of(250, 0.1, least=0.05).passes(map(rejects, range(250)))


def test_spectrum__survives_a_tolerance_at_rounding():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1000)
    y = x + rng.standard_normal(1000)
    estimator = dhsic.NystromMHSIC(tolerance=0.0)
    assert dhsic.independence_test(x, y, estimator=estimator, null="spectral", rng=0).pvalue < 1e-15


def test_fitted_nulls__plan_their_passes_and_steps():
    x = np.zeros((50_000, 2))
    options = {"kernels": "gaussian", "estimator": dhsic.NystromMHSIC(400), "threads": 1}
    plans = {
        null: dhsic.plan(x, x, null=null, **options) for null in ("multiplier", "gamma", "spectral")
    }
    assert [step.name for step in plans["gamma"].steps[2:]] == [
        "kernel sums",
        "gamma null",
        "whiten",
        "estimate",
    ]
    assert [step.name for step in plans["spectral"].steps[3:]] == [
        "spectral null",
        "whiten",
        "eigenvalues",
        "estimate",
    ]
    assert plans["spectral"].passes[1].bytes_to_driver == 8 * 400 * 401


@pytest.mark.parametrize("m", [2, 3])
def test_estimate__is_v_hsic_with_all_rows_as_joint_landmarks(m):
    data = setting(60, m)
    estimator = dhsic.NystromMHSIC(n_landmarks=60, pairing="joint", tolerance=0.0)
    estimate = dhsic.hsic(*data, kernels=Gaussian(gamma=0.3), estimator=estimator, rng=0).estimate
    grams = [oracles.gaussian_gram(x, x, 0.3) for x in data]
    assert estimate == pytest.approx(oracles.v_hsic(grams), rel=1e-8)


def test_pruning__keeps_few_landmarks_and_the_same_test():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(3000)
    y = 0.1 * x + rng.standard_normal(3000)
    kept, statistics = {}, {}
    for tolerance in (1e-4, 1e-6, 1e-8, 1e-10):
        estimator = dhsic.NystromMHSIC(n_landmarks=2000, tolerance=tolerance)
        options = {"kernels": "gaussian", "estimator": estimator, "null": "multiplier", "rng": 3}
        result = dhsic.independence_test(x, y, **options)
        kept[tolerance], statistics[tolerance] = result.landmarks.kept, result
    assert 120 <= kept[1e-4] < kept[1e-6] < kept[1e-8] <= 330
    reference = statistics[1e-10]
    for tolerance, result in statistics.items():
        assert result.statistic == pytest.approx(reference.statistic, rel=30 * tolerance**0.5)
        assert result.pvalue == pytest.approx(reference.pvalue, abs=0.01)


def test_replace__draws_rows_more_than_once():
    data = setting(50, 2)
    drawn = {}
    for replace in (False, True):
        estimator = dhsic.NystromMHSIC(n_landmarks=50, replace=replace, pairing="joint")
        options = {"kernels": "gaussian", "estimator": estimator, "n_resamples": 5, "rng": 0}
        result = dhsic.independence_test(*data, **options)
        drawn[replace] = result.landmarks
    assert drawn[False].kept == 50
    assert drawn[True].kept < 45


def test_auto_null__is_exact_with_independent_landmarks():
    rng = np.random.default_rng(0)
    options = {"kernels": "gaussian", "rng": 0}
    few = dhsic.independence_test(*rng.standard_normal((2, 300)), **options)
    many = dhsic.independence_test(*rng.standard_normal((2, 30_000)), **options)
    three = dhsic.independence_test(*rng.standard_normal((3, 300)), **options)
    joint = dhsic.NystromMHSIC(pairing="joint")
    known = dhsic.independence_test(*rng.standard_normal((2, 300)), estimator=joint, **options)
    assert (few.null, many.null, three.null) == ("shifts", "shifts", "chain")
    assert few.null_reason.startswith("exact for exchangeable rows; all 300 shifts of 4 random")
    assert "all 1,000 shifts within 30 groups of rows" in many.null_reason
    assert known.null_reason.startswith("not exact with joint landmarks; ")


@pytest.mark.parametrize("null", ["multiplier", "permutation"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_power__finds_three_variables_that_depend_jointly_but_not_in_pairs(null, precision):
    x, y, z = joint_triple(600, np.random.default_rng(2))
    options = {"kernels": "gaussian", "null": null, "precision": precision, "rng": 0}
    assert dhsic.independence_test(x, y, z, **options).pvalue < 0.01
    assert dhsic.independence_test(x, z, **options).pvalue > 0.05


@pytest.mark.parametrize("kernels", ["gaussian", None])
def test_units__change_nothing(kernels):
    x, y = setting(400, 2)
    plain, scaled = (
        dhsic.independence_test(*data, kernels=kernels, n_resamples=50, rng=0)
        for data in ((x, y), (1e6 * x - 3e7, 1e-4 * y + 2.0))
    )
    assert scaled.statistic == pytest.approx(plain.statistic, rel=1e-6)
    assert scaled.pvalue == plain.pvalue


@pytest.mark.parametrize("kernels", ["gaussian", None])
def test_ties__are_no_evidence_for_rare_binaries(kernels):
    x = np.zeros(200)
    x[:3] = 1.0
    y = np.zeros(200)
    y[100:103] = 1.0
    assert dhsic.independence_test(x, y, kernels=kernels, rng=0).pvalue > 0.5


@pytest.mark.parametrize(
    "spec",
    ["laplacian", "matern32", "imq", "linear", "polynomial:2", "distance", "gaussian+linear"],
)
def test_kernels__every_family_finds_a_shift_and_not_noise(spec):
    rng = np.random.default_rng(1)
    x, noise = rng.standard_normal((2, 500, 1))
    assert dhsic.independence_test(x, x + noise, kernels=spec, rng=0).pvalue < 0.01
    assert dhsic.independence_test(x, noise, kernels=spec, rng=0).pvalue > 0.05


def test_delta_kernel__tests_categories():
    rng = np.random.default_rng(1)
    x = rng.integers(4, size=500)
    y = np.where(rng.random(500) < 0.4, x, rng.integers(4, size=500))
    assert dhsic.independence_test(x, y, kernels="delta", rng=0).pvalue < 0.01
    assert dhsic.independence_test(x, rng.permutation(y), kernels="delta", rng=0).pvalue > 0.05


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_landmarks": 0}, "n_landmarks must be an integer >= 1 or a multiple of sqrt"),
        ({"n_landmarks": "8"}, "got '8'"),
        ({"pairing": "both"}, "pairing must be one of 'independent', 'joint', got 'both'"),
        ({"tolerance": 1.0}, "tolerance must be at least 0 and less than 1, got 1.0"),
        ({"tolerance": -1e-9}, "tolerance must be at least 0"),
        ({"tolerance": "small"}, "got 'small': leave it out for one that follows the precision"),
        ({"tolerance": True}, "tolerance must be at least 0"),
    ],
)
def test_options__are_checked(options, match):
    with pytest.raises(dhsic.errors.InvalidArgumentError, match=match):
        dhsic.NystromMHSIC(**options)


def test_float32__warns_where_tails_cost_the_kernel_its_digits():
    rng = np.random.default_rng(0)
    x = np.abs(rng.standard_cauchy((2000, 2))) ** 1.5
    y = rng.standard_normal(2000)
    options = {"kernels": "gaussian", "estimator": "nystrom-m", "rng": 0, "n_resamples": 5}
    with pytest.warns(dhsic.errors.PrecisionWarning, match="'x1' has landmarks so many bandwidths"):
        dhsic.independence_test(x, y, precision="float32", **options)
    dhsic.independence_test(x, y, **options)


@pytest.mark.parametrize("gamma", [1e-2, 1e-4])
@pytest.mark.parametrize("m", [2, 3])
def test_permutation__keeps_its_digits_for_wide_kernels(gamma, m):
    rng = np.random.default_rng(0)
    data = list(rng.standard_normal((m, 500, 2)))
    options = {"kernels": Gaussian(gamma=gamma), "estimator": "nystrom-m", "rng": 0}
    results = [
        dhsic.independence_test(*data, null=null, precision=precision, **options)
        for null in (dhsic.Permutation(50), dhsic.Multiplier(50))
        for precision in ("float64", "float32")
    ]
    exact, single, by_signs, _ = results
    assert exact.statistic == pytest.approx(by_signs.statistic, rel=1e-6)
    if gamma == 1e-2:
        assert single.statistic == pytest.approx(exact.statistic, rel=0.02)
        assert single.pvalue == pytest.approx(exact.pvalue, abs=0.05)


def test_permutation__finds_dependence_with_a_wide_kernel_in_float32():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 1))
    y = x + rng.standard_normal((2000, 1))
    for null in (dhsic.Permutation(99), dhsic.Multiplier(99)):
        options = {"kernels": Gaussian(gamma=1e-4), "precision": "float32", "null": null}
        options["estimator"] = "nystrom-m"
        assert dhsic.independence_test(x, y, rng=0, **options).pvalue == 0.01


def test_pairing__is_independent_for_tests_and_joint_for_estimates():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1000, 20))
    y = x + 0.5 * rng.standard_normal((1000, 20))
    options = {"estimator": "nystrom-m", "rng": 0}
    test = dhsic.independence_test(x, y, kernels="gaussian", n_resamples=5, **options)
    assert test.landmarks.pairing == "independent"
    estimate = dhsic.hsic(x, y, **options)
    exact = dhsic.hsic(x, y, estimator="v-hsic", rng=0)
    assert estimate.landmarks.pairing == "joint"
    assert estimate.estimate == pytest.approx(exact.estimate, rel=0.15)
