"""What is said of single estimators: identities, peers, options and refusals."""

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dhsic
from dhsic.errors import DataError, InvalidArgumentError, LandmarkWarning, PrecisionWarning
from tests import oracles
from tests.estimators.cases import SEED, centred, draw, frobenius, gaussian
from tests.estimators.orbit import landmark_rows, normal_waves

pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

DATA = Path(os.environ.get("DHSIC_DATA", Path(__file__).parents[3] / "shared/data"))
KERNEL = "gaussian:3"
LINEAR = ["linear", "linear"]


def estimate(data, estimator, kernels=KERNEL, rng=SEED, **options):
    return dhsic.hsic(*data, estimator=estimator, kernels=kernels, rng=rng, **options).estimate


def with_all(kind, n, **options):
    return kind(n_landmarks=n, tolerance=0.0, **options)


# With all rows as landmarks features say what Gram matrices say.


def coco(a, b):
    a, b = map(oracles.centred_gram, (a, b))
    return np.sqrt(np.max(np.linalg.eigvals(a @ b).real)) / len(a)


ALL_ROWS = {
    "nystrom-hsic": (dhsic.NystromHSIC, {}, lambda a, b: oracles.v_hsic([a, b])),
    "nystrom-hsic, unbiased": (
        dhsic.NystromHSIC,
        {"unbiased_estimate": True},
        lambda a, b: oracles.u_hsic(a, b),
    ),
    "nystrom-m": (dhsic.NystromMHSIC, {"pairing": "joint"}, lambda a, b: oracles.v_hsic([a, b])),
    "cka": (dhsic.CKA, {}, oracles.cka),
    "nocco": (dhsic.NOCCO, {"regularisation": 0.05}, lambda a, b: oracles.nocco(a, b, 0.05)),
    "coco": (dhsic.COCO, {}, coco),
}


@pytest.mark.parametrize("n", [4, 14])
@pytest.mark.parametrize("case", ALL_ROWS)
def test_all_rows_as_landmarks__give_what_gram_matrices_give(case, n):
    kind, options, oracle = ALL_ROWS[case]
    data = draw(n, 2)
    found = dhsic.hsic(*data, estimator=with_all(kind, n, **options), kernels=KERNEL, rng=SEED)
    assert found.estimate == pytest.approx(oracle(*(gaussian(x, x) for x in data)), rel=1e-6)


def test_u_hsic__is_the_mean_over_distinct_rows_and_unbiased():
    data = draw(14, 2)
    expected = oracles.u_hsic(*(gaussian(x, x) for x in data))
    assert estimate(data, "u-hsic") == pytest.approx(expected, rel=1e-10)
    values = {
        name: [
            estimate(np.random.default_rng(seed).standard_normal((2, 12)), name, "gaussian:0.5")
            for seed in range(200)
        ]
        for name in ("u-hsic", "v-hsic")
    }
    error = np.std(values["u-hsic"]) / np.sqrt(200)
    assert abs(np.mean(values["u-hsic"])) < 4 * error < 20 * error < np.mean(values["v-hsic"])


@pytest.mark.parametrize("second", ["gaussian:0.3", "linear"])
@pytest.mark.parametrize("n", [30, 1500])
def test_unbiased_estimate__is_that_of_the_reference_of_a_grid(n, second):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 2))
    data = x, x[:, :1] + rng.standard_normal((n, 1))
    candidates = [dhsic.Candidates("gaussian", (0.5, 1.0)), dhsic.Candidates(second, (1.0,))]
    grid = dhsic.Grid(candidates, combine="all")
    options = {"n_resamples": 99, "rng": 1}
    plain, found = (
        dhsic.independence_test(*data, kernels=grid, estimator=dhsic.VHSIC(asked), **options)
        for asked in (False, True)
    )
    assert (found.statistic, found.pvalue) == (plain.statistic, plain.pvalue)
    kernels = list(found.grid.combinations[found.grid.reference].kernels)
    expected = dhsic.hsic(*data, kernels=kernels, estimator="u-hsic").estimate
    assert found.estimate == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("n_features", ["auto", None, 5])
@pytest.mark.parametrize("n", [11, 300])
def test_unbiased_estimate__of_few_features_is_that_of_all_pairs(n, n_features, precision):
    """What the features leave out is in the estimate, where one block has all rows."""
    data, kernels = draw(n, 2), ["gaussian:1", "laplacian:1"]
    options = {"kernels": kernels, "precision": precision, "rng": 1}
    estimator = dhsic.NystromHSIC(8, n_features=n_features, unbiased_estimate=True)
    found = dhsic.independence_test(*data, estimator=estimator, n_resamples=300, **options)
    expected = dhsic.hsic(*data, kernels=kernels, estimator="u-hsic").estimate
    rel = 1e-8 if precision == "float64" else 1e-3
    assert found.estimate == pytest.approx(expected, rel=rel)
    alone = dhsic.hsic(*data, estimator=estimator, **options)
    assert alone.estimate == pytest.approx(expected, rel=rel)


@pytest.mark.parametrize("kernels", ["gaussian", "columns(laplacian)"])
def test_unbiased_estimate__of_blocks_has_the_mean_of_u_hsic(kernels):
    """Over 20 data sets of 20 columns, of which 16 landmarks hold a small part."""
    differences = []
    estimator = dhsic.NystromHSIC(16, unbiased_estimate=True)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((1200, 20))
        data, given = (x, x[:, 0] + rng.standard_normal(1200)), [kernels, "gaussian"]
        found = dhsic.hsic(*data, kernels=given, estimator=estimator, rng=seed)
        fitted = [variable.kernel for variable in found.variables]
        exact = dhsic.hsic(*data, kernels=fitted, estimator="u-hsic", rng=seed).estimate
        differences.append(found.estimate / exact - 1.0)
    error = np.std(differences) / np.sqrt(20)
    assert abs(np.mean(differences)) < 4.0 * error < 0.15


# Distances.


@pytest.mark.parametrize("dims", [(3, 2), (1, 1), (1, 4)])
@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("n", [4, 40])
def test_distances__are_those_of_the_definitions(n, exponent, dims):
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal((n, d)) for d in dims)
    y[:, 0] += 0.3 * x[:, 0] ** 2
    plain = oracles.distance_covariance(x, y, exponent)
    correlation = oracles.distance_correlation(x, y, exponent)
    unbiased = [oracles.u_distance_covariance(*pair, exponent) for pair in ((x, y), (x, x), (y, y))]
    expected = {
        dhsic.DCov(exponent): plain,
        dhsic.DCov(exponent, root=True): plain**0.5,
        dhsic.DCov(exponent, unbiased=True): unbiased[0],
        dhsic.DCor(exponent): correlation**2,
        dhsic.DCor(exponent, root=True): correlation,
        dhsic.DCor(exponent, unbiased=True): unbiased[0] / np.sqrt(unbiased[1] * unbiased[2]),
    }
    for estimator, value in expected.items():
        found = dhsic.hsic(x, y, estimator=estimator, rng=0)
        assert found.estimate == pytest.approx(value, rel=1e-9, abs=1e-13)
        assert ("squared" in found.quantity) is not getattr(estimator, "root", False)


@pytest.mark.parametrize("dims", [(3, 2), (1, 1)])
@pytest.mark.parametrize("exponent", [0.5, 1.0])
def test_distances__agree_with_dcor(exponent, dims):
    dcor = pytest.importorskip("dcor", reason="dcor is in the extra 'peers'")
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((300, d)) for d in dims)
    y[:, 0] += 0.3 * x[:, 0] ** 2
    for estimator, theirs in (
        (dhsic.DCov(exponent), dcor.distance_covariance_sqr),
        (dhsic.DCov(exponent, unbiased=True), dcor.u_distance_covariance_sqr),
        (dhsic.DCor(exponent), dcor.distance_correlation_sqr),
        (dhsic.DCor(exponent, unbiased=True), dcor.u_distance_correlation_sqr),
        (dhsic.DCor(exponent, root=True), dcor.distance_correlation),
    ):
        expected = float(theirs(x, y, exponent=exponent))
        assert estimate((x, y), estimator, None) == pytest.approx(expected, rel=1e-9, abs=1e-13)


def test_distances__agree_with_values_that_hyppo_and_r_stored():
    path = DATA / "reference" / "hyppo_same_stat.npz"
    if not path.exists():
        pytest.skip(f"needs {path} (set DHSIC_DATA)")
    stored = np.load(path)
    corrected = dhsic.DCor(unbiased=True)
    values = stored["xy"][:20], stored["dcorr_hyppo"], stored["dcorr_r_energy"]
    for xy, hyppo, energy in zip(*values, strict=False):
        assert estimate(xy.T, corrected, None) == pytest.approx(hyppo, abs=1e-12)
        without_first = estimate(xy[1:].T, corrected, None)  # R took it for a header
        assert without_first == pytest.approx(energy, rel=6e-3, abs=1e-6)


def test_distances__have_their_identities():
    x, y = draw(60, 2)
    hsic = estimate((x, y), "v-hsic", "distance")
    assert estimate((x, y), "dcov", None) == pytest.approx(4 * hsic, rel=1e-12)
    assert estimate((x, x), "dcor", None) == pytest.approx(1.0, rel=1e-12)
    turned = x, 3.0 - 2.0 * x
    assert estimate(turned, dhsic.DCor(unbiased=True), None) == pytest.approx(1.0, rel=1e-12)
    for scale in (1e-85, 1e79):
        column = scale * x[:, 0]
        assert estimate((column, column), "dcor", None) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("null", ["spectral", "permutation"])
def test_dcor__of_a_variable_without_unbiased_variance_is_no_evidence(null):
    rare, y = np.eye(1, 60, 7)[0], np.random.default_rng(0).standard_normal(60)
    for other in (rare, y):
        found = dhsic.independence_test(
            rare, other, estimator=dhsic.DCor(unbiased=True), null=null, rng=0
        )
        assert (found.estimate, found.pvalue) == (0.0, 1.0)


# Normalised features.


def test_cka__of_a_variable_with_itself_is_1():
    x = np.random.default_rng(0).standard_normal((100, 2))
    assert 1.0 - 1e-10 < estimate((x, x), with_all(dhsic.CKA, 100)) <= 1.0
    assert 0.98 < estimate((x, x), dhsic.CKA(), "gaussian") <= 1.0
    assert 1.0 - 1e-10 < estimate((x, x), "u-cka", "gaussian") <= 1.0
    turned = x @ np.array([[0.0, 5.0], [-5.0, 0.0]]) + 3.0
    for made in (dhsic.CKA(), "u-cka"):
        assert estimate((x, turned), made, LINEAR) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", [dhsic.CKA, dhsic.NOCCO])
def test_normalised__does_not_change_with_the_scale_of_a_kernel(kind):
    x, y = draw(100, 2)
    made = kind(n_landmarks=2, tolerance=0.0)
    plain, scaled = estimate((x, y), made, LINEAR), estimate((1e3 * x, 1e-2 * y), made, LINEAR)
    assert scaled == pytest.approx(plain, rel=1e-9)


def test_nocco__of_linear_kernels_sums_squared_canonical_correlations():
    x, y = draw(200, 2)
    made = dhsic.NOCCO(50, regularisation=1e-6)
    q_x, q_y = (np.linalg.qr(centred(one))[0] for one in (x, y))
    expected = np.sum(np.linalg.svd(q_x.T @ q_y, compute_uv=False) ** 2)
    assert estimate((x, y), made, LINEAR) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("n", [50, 400])
def test_nocco__is_regularised_by_a_share_that_falls_with_the_rows(n):
    data = draw(n, 2)
    share = 0.3 * n**-0.25
    usual, same, other = (
        estimate(data, dhsic.NOCCO(**given))
        for given in ({}, {"regularisation": share}, {"regularisation": 2 * share})
    )
    assert usual == pytest.approx(same, rel=1e-12)
    assert other < 0.9 * usual


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "linear"])
def test_witness_functions__have_norm_one_and_coco_as_covariance(kernel):
    data, kernels = draw(300, 2), [kernel, "gaussian"]
    found = dhsic.witness_functions(
        *data, kernels=kernels, estimator=dhsic.COCO(n_landmarks=40), rng=SEED
    )
    coco_ = estimate(data, dhsic.COCO(n_landmarks=40), kernels)
    values = found.first(data[0]), found.second(data[1])
    assert np.cov(*values, bias=True)[0, 1] == pytest.approx(coco_, rel=1e-7)
    assert found.coco == pytest.approx(coco_, rel=1e-9)
    for function in (found.first, found.second):
        norm = function.weights @ function.kernel(function.points) @ function.weights
        assert norm == pytest.approx(1.0, rel=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(20):  # no others of norm one covary more
        others = []
        for function, x in zip((found.first, found.second), data, strict=True):
            w, k = rng.standard_normal(len(function.weights)), function.kernel
            others.append(k(x, function.points) @ w / np.sqrt(w @ k(function.points) @ w))
        assert abs(np.cov(*others, bias=True)[0, 1]) < found.coco


# Random waves, and features of peers.


@pytest.mark.parametrize("orthogonal", [True, False])
def test_waves__near_v_hsic_with_the_root_of_their_number(orthogonal):
    data = draw(100, 2)
    exact = oracles.v_hsic([gaussian(x, x, 0.3) for x in data])
    counts, errors = np.array([16, 128, 512]), []
    for count in counts:
        made = dhsic.RFFHSIC(int(count), orthogonal=orthogonal)
        found = np.array([estimate(data, made, "gaussian:0.3", seed) for seed in range(30)])
        errors.append(np.sqrt(np.mean((found - exact) ** 2)))
    assert -0.7 < np.polyfit(np.log(counts), np.log(errors), 1)[0] < -0.3


def test_features__agree_with_those_of_scikit_learn():
    approximation = pytest.importorskip("sklearn.kernel_approximation")
    data = draw(80, 2)
    rows, nystroem, fourier = landmark_rows(SEED, 80, 12, 2), [], []
    for m, (x, r) in enumerate(zip(data, rows, strict=True)):
        made = approximation.Nystroem(gamma=3.0, n_components=12, random_state=0).fit(x[r])
        nystroem.append(made.transform(x))
        sampler = approximation.RBFSampler(gamma=0.3, n_components=8).fit(x)
        waves = normal_waves(SEED, m, (8, x.shape[1]))
        sampler.random_weights_ = (np.sqrt(0.6) * waves).T
        parts = []
        for offset in (0.0, -np.pi / 2):
            sampler.random_offset_ = np.full(8, offset)
            parts.append(sampler.transform(x) / np.sqrt(2))
        fourier.append(np.hstack(parts))
    for features, estimator, kernels in (
        (nystroem, dhsic.NystromHSIC(12, tolerance=0.0), KERNEL),
        (fourier, dhsic.RFFHSIC(8), "gaussian:0.3"),
    ):
        first, second = map(centred, features)
        expected = frobenius(first.T @ second / 80)
        assert estimate(data, estimator, kernels) == pytest.approx(expected, rel=1e-8)


def test_rff_hsic__finds_what_no_single_column_shows():
    """Zhang et al. (2018), section 5.3, one draw."""
    path = DATA / "reference" / "kerpy_example.npz"
    if not path.exists():
        pytest.skip(f"needs {path} (set DHSIC_DATA)")
    stored = np.load(path)
    found = {
        name: dhsic.independence_test(
            stored["x"], stored["y"], estimator=name, null="spectral", rng=0
        ).pvalue
        for name in ("rff-hsic", "sub-corr")
    }
    assert found["rff-hsic"] < 0.01 < found["sub-corr"]


# Single columns.


def test_sub_hsic__is_the_mean_over_pairs_of_columns():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 3)) * [1.0, 10.0, 0.1], rng.standard_normal((60, 2))
    y[:, 1] += x[:, 0] ** 2
    parts = [estimate((a, b), "v-hsic", "gaussian") for a in x.T for b in y.T]
    assert estimate((x, y), "sub-hsic", None) == pytest.approx(np.mean(parts), rel=1e-9)


@pytest.mark.parametrize("null", ["gamma", dhsic.Permutation(99)])
def test_sub_corr__counts_constant_columns_as_no_correlation(null):
    x, y = draw(100, 2)
    wide = np.hstack([x, np.full((100, 1), 0.1)])
    expected = np.mean([np.corrcoef(a, b)[0, 1] ** 2 for a in x.T for b in y.T]) * 2 / 3
    found = dhsic.independence_test(wide, y, estimator="sub-corr", null=null, rng=0)
    assert found.estimate == pytest.approx(expected, rel=1e-10)
    assert found.pvalue < 0.05


def test_sub_corr__keeps_the_scale_of_columns_that_are_constant_in_its_sample():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((5000, 2)), rng.standard_normal(5000)
    x[:, 1] = 0.0
    x[:2, 1] = 1e6
    expected = np.mean([np.corrcoef(a, y)[0, 1] ** 2 for a in x.T])
    assert estimate((1000 * x + 5000, y), "sub-corr", None) == pytest.approx(expected, rel=1e-8)


# Landmarks and principal features.


@pytest.mark.parametrize("kind", [dhsic.NystromHSIC, dhsic.CKA, dhsic.COCO])
def test_landmarks__are_drawn_pruned_and_replaced_as_asked(kind):
    def landmarks(**options):
        return dhsic.hsic(*draw(100, 2), estimator=kind(**options), rng=SEED).landmarks

    few = landmarks(n_landmarks=10)
    assert (few.drawn, few.kept) == (10, (10, 10))
    assert landmarks(n_landmarks="2sqrt").drawn == 20
    replaced = landmarks(n_landmarks=100, replace=True)
    assert replaced.replace
    assert max(replaced.kept) < 80
    pruned = landmarks(n_landmarks=100, tolerance=0.3)
    assert (pruned.tolerance, min(pruned.kept) < 80) == (0.3, True)
    for precision, tolerance in (("float64", 1e-8), ("float32", 1e-4)):
        found = dhsic.hsic(*draw(100, 2), estimator=kind(), rng=SEED, precision=precision)
        assert found.landmarks.tolerance == tolerance


def test_pruning__keeps_few_landmarks_and_the_same_test():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(3000)
    data, kept, results = (x, 0.1 * x + rng.standard_normal(3000)), [], []
    for tolerance in (1e-4, 1e-6, 1e-8):
        made = dhsic.NystromMHSIC(n_landmarks=1000, tolerance=tolerance)
        options = {"kernels": "gaussian", "null": "gamma", "rng": 3}
        results.append(dhsic.independence_test(*data, estimator=made, **options))
        kept.append(results[-1].landmarks.kept)
    assert 100 <= kept[0] < kept[1] < kept[2] <= 330
    for found in results:
        assert found.statistic == pytest.approx(results[-1].statistic, rel=0.3)
        assert found.pvalue == pytest.approx(results[-1].pvalue, abs=0.01)


def test_pruning__leaves_strips_without_a_landmark_of_a_kernel():
    x = np.random.default_rng(0).standard_normal(1000)
    estimator, y = dhsic.NystromMHSIC(n_landmarks=500), np.column_stack([x**2, x**2])
    for null, least in ((dhsic.Shifts(1000), 1 / 1000), (dhsic.Permutation(19), 1 / 20)):
        result = dhsic.independence_test(x, y, estimator=estimator, null=null, rng=0)
        assert result.pvalue == pytest.approx(least)


def test_landmarks__where_the_kernel_is_zero_show_nothing_and_warn():
    x = np.zeros((500, 1))
    x[0] = 1.0
    data, made = (x, np.arange(500.0)), dhsic.NystromHSIC(3, tolerance=0.0)
    match = "the kernel of variable 'x1' is 0 at every landmark, .*: take more landmarks, or"
    for null in (dhsic.Permutation(9), dhsic.Shifts(9), "gamma"):
        with pytest.warns(LandmarkWarning, match=match):
            found = dhsic.independence_test(
                *data, kernels=["distance", "gaussian"], estimator=made, null=null, rng=5
            )
        assert (found.statistic, found.pvalue) == (0.0, 1.0)


@pytest.mark.parametrize("estimator", [dhsic.NystromHSIC(500), dhsic.NystromMHSIC(500)])
def test_float32__warns_where_tails_cost_the_kernel_its_digits(estimator):
    rng = np.random.default_rng(0)
    x, y = np.abs(rng.standard_cauchy((2000, 2))) ** 1.5, rng.standard_normal(2000)
    with pytest.warns(PrecisionWarning, match="'x1' has landmarks so many bandwidths"):
        dhsic.hsic(x, y, estimator=estimator, precision="float32", rng=0)
    dhsic.hsic(x, y, estimator=estimator, rng=0)


@pytest.mark.parametrize("null", [dhsic.Permutation(50), dhsic.Shifts(50)])
def test_float32__keeps_its_digits_for_wide_kernels(null):
    data = np.random.default_rng(0).standard_normal((3, 500, 2))
    options = {"kernels": "gaussian:0.01", "estimator": "nystrom-m", "null": null, "rng": 0}
    exact, single = (
        dhsic.independence_test(*data, precision=precision, **options)
        for precision in ("float64", "float32")
    )
    assert single.statistic == pytest.approx(exact.statistic, rel=0.02)
    assert single.pvalue == pytest.approx(exact.pvalue, abs=0.05)


def test_principal_features__hold_more_the_more_there_are():
    data, options = draw(90, 2), {"kernels": KERNEL, "rng": SEED, "null": dhsic.Shifts(30)}
    values = {
        count: dhsic.independence_test(
            *data, estimator=dhsic.NystromHSIC(12, tolerance=0.0, n_features=count), **options
        ).statistic
        for count in (1, 4, "auto", 12, None)
    }
    assert values[1] < values[4] < values["auto"] < values[12]
    assert values[12] == pytest.approx(values[None], rel=1e-9)


def test_principal_features__of_means_over_columns_have_landmarks_by_column():
    x, y = draw(90, 2)
    made = dhsic.NystromHSIC(90, tolerance=0.0, n_features=90)
    kernels = ["columns(laplacian)", "gaussian:3"]
    found = dhsic.independence_test(
        x, y, estimator=made, kernels=kernels, null=dhsic.Shifts(30), rng=SEED
    )
    exact = dhsic.hsic(x, y, estimator="v-hsic", kernels=kernels, rng=SEED)
    assert found.landmarks.kept == (96, 90)
    assert found.estimate == pytest.approx(exact.estimate, rel=0.05)
    many = np.random.default_rng(0).standard_normal((90, 300))
    rows = dhsic.hsic(many, y, estimator=made, kernels=kernels, rng=SEED)
    assert rows.landmarks.kept == (90, 90)  # of more than two columns a landmark


def test_power__of_principal_features_in_many_columns_is_that_of_all():
    """Where tuples of landmarks find less."""
    found = []
    for estimator in (dhsic.NystromHSIC(100, n_features="auto"), dhsic.NystromMHSIC(100)):
        count = 0
        for seed in range(12):
            rng = np.random.default_rng([7, seed])
            x = rng.standard_normal((200, 30))
            y = 0.25 * x + rng.standard_normal((200, 30))
            options = {"kernels": "gaussian", "n_resamples": 60, "rng": seed}
            count += dhsic.independence_test(x, y, estimator=estimator, **options).pvalue <= 0.05
        found.append(count)
    assert found[0] >= 9
    assert found[0] > found[1]


def test_pairing__is_independent_for_tests_and_joint_for_estimates():
    x, y = draw(400, 2)
    options = {"kernels": "gaussian", "estimator": "nystrom-m", "rng": 0}
    assert dhsic.independence_test(x, y, **options).landmarks.pairing == "independent"
    assert dhsic.hsic(x, y, **options).landmarks.pairing == "joint"
    known = dhsic.independence_test(
        x, y, kernels="gaussian", estimator=dhsic.NystromMHSIC(pairing="joint"), rng=0
    )
    assert known.null_reason.startswith("not exact with joint landmarks; ")


@pytest.mark.parametrize("selection", ["rpcholesky", "leverage"])
def test_landmarks__that_are_selected_make_the_same_test(selection):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(400)
    y = x**2 + rng.standard_normal(400)
    made = dhsic.NystromMHSIC(60, selection=selection)
    found = dhsic.independence_test(x, y, kernels="gaussian", estimator=made, rng=0)
    exact = dhsic.independence_test(x, y, kernels="gaussian", estimator="v-hsic", rng=0)
    assert found.pvalue <= 0.002
    assert found.statistic == pytest.approx(exact.statistic, rel=0.2)
    assert found.landmarks.drawn == 60


# Kernels that compare hardly any rows are left out of a grid.


@pytest.mark.parametrize("estimator", ["v-hsic", "u-hsic"])
@pytest.mark.parametrize(("d", "tried", "left_out"), [(1, 15, 0), (20, 9, 1), (90, 9, 2)])
def test_narrow_kernels__of_many_columns_are_left_out_and_counted(estimator, d, tried, left_out):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((300, d)), rng.standard_normal((300, 1))
    found = dhsic.independence_test(x, y, estimator=estimator, kernels=dhsic.Grid(), rng=0)
    assert len(found.grid.combinations) == tried - left_out
    told = f"combinations left out, with kernels that compare hardly any rows: {left_out}"
    assert (told in found.null_reason) == (left_out > 0)


def test_narrow_kernels__are_the_same_whatever_the_pairing():
    """Else a null of permutations would not be exact."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((200, 20)), rng.standard_normal((200, 8))
    kept = [
        {one.kernels for one in dhsic.independence_test(x, y[rows], rng=0).grid.combinations}
        for rows in (np.arange(200), rng.permutation(200))
    ]
    assert kept[0] == kept[1]
    assert 1 < len(kept[0]) < 16


def test_narrow_kernels__are_left_out_of_features_too():
    data = draw(400, 2)
    narrow = dhsic.Candidates("gaussian", (1.0, 0.001)), dhsic.Candidates("gaussian", (1.0, 2.0))
    options = {
        "estimator": dhsic.NystromHSIC(40, n_features="auto"), "rng": 0, "n_resamples": 50,
    }  # fmt: skip
    found = dhsic.independence_test(*data, kernels=dhsic.Grid(narrow), **options)
    assert found.grid is None  # the reference alone is left
    assert "compare hardly any rows: 1" in found.null_reason
    alone = dhsic.independence_test(*data, kernels="gaussian", **options)
    assert (found.statistic, found.pvalue) == (alone.statistic, alone.pvalue)


# Options.

CHANGES = [
    (dhsic.NystromMHSIC(20), {"n_landmarks": 25}),
    (dhsic.NystromMHSIC(20), {"pairing": "joint"}),
    (dhsic.NystromMHSIC(20), {"replace": True}),
    (dhsic.NystromMHSIC(20), {"tolerance": 0.5}),
    (dhsic.NystromMHSIC(20), {"selection": "rpcholesky"}),
    (dhsic.NystromMHSIC(20, selection="rpcholesky"), {"pool": 9}),
    (dhsic.NystromHSIC(20), {"n_landmarks": 25}),
    (dhsic.NystromHSIC(20), {"n_features": 3}),
    (dhsic.NOCCO(20), {"regularisation": 0.5}),
    (dhsic.COCO(20), {"n_landmarks": 25}),
    (dhsic.RFFHSIC(20), {"n_features": 25}),
    (dhsic.RFFHSIC(20), {"orthogonal": True}),
    (dhsic.NFSIC(3, placement="random"), {"n_locations": 4}),
    (dhsic.NFSIC(3, placement="random"), {"placement": "optimised"}),
    (dhsic.NFSIC(3), {"training_rows": 40}),
    (dhsic.NFSIC(3), {"regularisation": 0.5}),
    (dhsic.BlockHSIC(), {"block_rows": 9}),
    (dhsic.BlockHSIC(), {"exponent": 0.4}),
    (dhsic.DCov(), {"exponent": 0.5}),
    (dhsic.DCov(), {"unbiased": True}),
    (dhsic.DCor(), {"exponent": 0.5}),
]


@pytest.mark.parametrize(("estimator", "option"), CHANGES, ids=str)
def test_option__changes_the_statistic(estimator, option):
    data, statistics = draw(200, 2), []
    for made in (estimator, replace(estimator, **option)):
        kernels = None if isinstance(estimator, dhsic.DCov | dhsic.DCor) else "gaussian"
        null = "normal" if isinstance(estimator, dhsic.BlockHSIC) else "permutation"
        count = {} if null == "normal" else {"n_resamples": 3}
        found = dhsic.independence_test(
            *data, kernels=kernels, estimator=made, null=null, rng=1, **count
        )
        statistics.append(found.statistic)
    assert statistics[0] != pytest.approx(statistics[1], rel=1e-3)


SIZES = "n_landmarks must be an integer >= 1 or a multiple of sqrt"
BELOW_1 = "tolerance must be at least 0 and less than 1, got"
EXPONENT = "exponent must be greater than 0"
REFUSED = [
    *((kind, {"n_landmarks": 0}, SIZES) for kind in (dhsic.NystromMHSIC, dhsic.COCO, dhsic.CKA)),
    *((dhsic.NystromHSIC, {"tolerance": value}, "tolerance must") for value in (1.0, -1e-9, "s")),
    *((dhsic.NystromMHSIC, {"tolerance": value}, BELOW_1) for value in (1.0, True)),
    (dhsic.NystromMHSIC, {"pairing": "both"}, "pairing must be one of"),
    (dhsic.NystromMHSIC, {"selection": "best"}, "selection must be"),
    (dhsic.NystromMHSIC, {"pool": 0}, "pool must be"),
    (dhsic.NystromMHSIC, {"selection": "leverage", "replace": True}, "replace must be False"),
    (dhsic.NystromMHSIC, {"n_landmarks": "auto"}, SIZES),
    (dhsic.NystromMHSIC, {"selection": "coherence"}, "'uniform', 'rpcholesky', 'leverage', got"),
    *((dhsic.NystromHSIC, {"n_features": n}, "n_features must be") for n in (0, 1.5, "many")),
    (dhsic.COCO, {"n_landmarks": "auto"}, "got 'auto'"),
    *(
        (dhsic.NOCCO, {"regularisation": share}, "regularisation must be a finite number")
        for share in (0.0, 1e-7, math.inf, math.nan, True)
    ),
    (dhsic.RFFHSIC, {"n_features": 0}, "n_features must be an integer >= 1"),
    (dhsic.RFFHSIC, {"form": "cosine"}, "form must be one of 'cos-sin', 'complex'"),
    (dhsic.NFSIC, {"n_locations": 0}, "n_locations must be an integer >= 1"),
    (dhsic.NFSIC, {"placement": "grid"}, "placement must be one of 'optimised', 'random'"),
    (dhsic.NFSIC, {"training_rows": 1}, "training_rows must be an integer >= 2"),
    (dhsic.NFSIC, {"regularisation": 1.0}, "regularisation must be greater than 0"),
    (dhsic.BlockHSIC, {"block_rows": 3}, "block_rows must be an integer >= 4"),
    (dhsic.BlockHSIC, {"exponent": 1.0}, "exponent must be greater than 0 and less than 1"),
    *((dhsic.DCov, {"exponent": value}, EXPONENT) for value in (0.0, 2.0, math.nan, True, "1")),
    (dhsic.DCor, {"unbiased": True, "root": True}, "root must be False"),
    (dhsic.Shifts, {"n_resamples": 1}, "n_resamples must be an integer >= 2"),
    (dhsic.Chain, {"n_resamples": 2.5}, "n_resamples must be an integer >= 2"),
]


@pytest.mark.parametrize(("kind", "options", "match"), REFUSED, ids=str)
def test_option__is_refused_in_words(kind, options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        kind(**options)


def test_waves__that_overflow_are_refused():
    data = draw(60, 2)
    data[1][7, 0] = 1e38
    options = {"kernels": "gaussian:1e4", "precision": "float32", "rng": 5}
    with pytest.raises(DataError, match=r"finite in float32; got rows as far as 1e\+38 from"):
        dhsic.hsic(*data, estimator=dhsic.RFFHSIC(200), **options)
