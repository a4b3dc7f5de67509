"""Distance covariance and correlation against their definitions and dcor."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import dhsic
from dhsic import DCor, DCov
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.resample import orbit_of
from dhsic.io.open import open_variables
from tests import oracles

DATA = Path(os.environ.get("DHSIC_DATA", Path(__file__).parents[3] / "shared/data"))


def setting(n, seed=0, dims=(3, 2)):
    rng = np.random.default_rng([n, seed])
    x, y = (rng.standard_normal((n, d)) for d in dims)
    y[:, 0] += 0.3 * x[:, 0] ** 2
    return x, y


def estimate(x, y, estimator):
    return dhsic.hsic(x, y, estimator=estimator, rng=0).estimate


@pytest.mark.parametrize("dims", [(3, 2), (1, 1), (1, 4)])
@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.7])
def test_dcov__equals_its_definition(exponent, dims):
    x, y = setting(40, dims=dims)
    assert estimate(x, y, DCov(exponent)) == pytest.approx(
        oracles.distance_covariance(x, y, exponent), rel=1e-10
    )
    assert estimate(x, y, DCov(exponent, unbiased=True)) == pytest.approx(
        oracles.u_distance_covariance(x, y, exponent), rel=1e-10, abs=1e-14
    )


@pytest.mark.parametrize("dims", [(3, 2), (1, 1)])
@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("unbiased", [False, True])
def test_dcor__is_covariance_over_the_root_of_variances(exponent, unbiased, dims):
    x, y = setting(40, dims=dims)
    covariance = oracles.u_distance_covariance if unbiased else oracles.distance_covariance
    expected = covariance(x, y, exponent) / np.sqrt(
        covariance(x, x, exponent) * covariance(y, y, exponent)
    )
    assert estimate(x, y, DCor(exponent, unbiased)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("n", [2, 3, 40])
@pytest.mark.parametrize("dims", [(3, 2), (1, 1)])
@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.7])
def test_root__is_distance_covariance_or_correlation_itself(exponent, dims, n):
    x, y = setting(n, dims=dims)
    squared = oracles.distance_covariance(x, y, exponent)
    correlation = oracles.distance_correlation(x, y, exponent)
    assert estimate(x, y, DCov(exponent, root=True)) == pytest.approx(squared**0.5, rel=1e-9)
    assert estimate(x, y, DCor(exponent, root=True)) == pytest.approx(correlation, rel=1e-9)
    assert estimate(x, y, DCov(exponent)) == pytest.approx(squared, rel=1e-9)
    assert estimate(x, y, DCor(exponent)) == pytest.approx(correlation**2, rel=1e-9)


@pytest.mark.parametrize("null", ["gamma", "spectral", dhsic.Permutation(19), dhsic.Multiplier(19)])
@pytest.mark.parametrize("dims", [(3, 2), (1, 1)])
@pytest.mark.parametrize("kind", [DCov, DCor])
def test_root__changes_the_estimate_alone(kind, dims, null):
    x, y = setting(60, dims=dims)
    squared, root = (
        dhsic.independence_test(x, y, estimator=kind(root=asked), null=null, rng=1)
        for asked in (False, True)
    )
    assert (root.statistic, root.pvalue) == (squared.statistic, squared.pvalue)
    np.testing.assert_array_equal(root.null_distribution, squared.null_distribution)
    assert root.statistic == pytest.approx(60 * squared.estimate, rel=1e-9)
    assert root.estimate == pytest.approx(squared.estimate**0.5, rel=1e-12)
    assert root.estimate > 1.2 * squared.estimate or kind is DCov
    assert squared.quantity == f"squared {root.quantity}"


def test_root__is_said_in_the_result():
    x, y = setting(20)
    quantities = {
        DCov(): "squared distance covariance",
        DCov(root=True): "distance covariance",
        DCov(unbiased=True): "squared distance covariance",
        DCor(): "squared distance correlation",
        DCor(root=True): "distance correlation",
    }
    for asked, quantity in quantities.items():
        found = dhsic.hsic(x, y, estimator=asked, rng=0)
        assert found.quantity == quantity
        assert quantity in str(found)
        assert ("squared" in str(found)) == ("squared" in quantity)


@pytest.mark.parametrize("seed", range(3))
def test_root__of_a_constant_is_zero(seed):
    y = np.random.default_rng(seed).standard_normal(50)
    for x in (np.full(50, 3.7), np.full(50, 0.1), np.full((50, 2), 1e9)):
        for pair in ((x, y), (y, x), (x, x)):
            assert estimate(*pair, DCor(root=True)) == estimate(*pair, DCov(root=True)) == 0.0


@pytest.mark.parametrize("kind", [DCov, DCor])
def test_root__of_an_unbiased_estimate_is_refused(kind):
    match = "root must be False where .* unbiased, .*; got True beside unbiased=True: drop one"
    with pytest.raises(InvalidArgumentError, match=match):
        kind(unbiased=True, root=True)


@pytest.mark.parametrize("dims", [(3, 2), (1, 1)])
@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.7])
def test_dcov_and_dcor__agree_with_dcor(exponent, dims):
    dcor = pytest.importorskip("dcor", reason="dcor is in the extra 'peers'")
    x, y = setting(300, dims=dims)
    for estimator, theirs in (
        (DCov(exponent), dcor.distance_covariance_sqr),
        (DCov(exponent, unbiased=True), dcor.u_distance_covariance_sqr),
        (DCor(exponent), dcor.distance_correlation_sqr),
        (DCor(exponent, unbiased=True), dcor.u_distance_correlation_sqr),
        (DCov(exponent, root=True), dcor.distance_covariance),
        (DCor(exponent, root=True), dcor.distance_correlation),
    ):
        expected = float(theirs(x, y, exponent=exponent))
        assert estimate(x, y, estimator) == pytest.approx(expected, rel=1e-10, abs=1e-13)


def test_dcor__agrees_with_values_that_hyppo_and_r_stored():
    path = DATA / "reference" / "hyppo_same_stat.npz"
    if not path.exists():
        pytest.skip(f"needs {path} (set DHSIC_DATA)")
    stored = np.load(path)
    corrected = DCor(unbiased=True)
    for xy, hyppo, energy in zip(
        stored["xy"][:20], stored["dcorr_hyppo"], stored["dcorr_r_energy"], strict=False
    ):
        assert estimate(xy[:, 0], xy[:, 1], corrected) == pytest.approx(hyppo, abs=1e-12)
        without_first = estimate(xy[1:, 0], xy[1:, 1], corrected)  # R took it for a header
        assert without_first == pytest.approx(energy, rel=6e-3, abs=1e-6)


def test_dcov__is_four_times_hsic_with_the_distance_kernel():
    x, y = setting(80)
    hsic = dhsic.hsic(x, y, kernels="distance", estimator="v-hsic", rng=0).estimate
    assert estimate(x, y, "dcov") == pytest.approx(4 * hsic, rel=1e-12)


def test_dcor__of_a_variable_with_itself_is_one():
    x, _ = setting(60)
    assert estimate(x, x, "dcor") == pytest.approx(1.0, rel=1e-12)
    assert estimate(x, 3.0 - 2.0 * x, DCor(unbiased=True)) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("dims", [(3, 2), (1, 1)])
@pytest.mark.parametrize("unbiased", [False, True])
def test_dcor__has_the_permutation_p_value_of_dcov(unbiased, dims):
    x, y = setting(60, dims=dims)
    tests = [
        dhsic.independence_test(x, y, estimator=e, null=dhsic.Permutation(99), rng=1)
        for e in (DCov(unbiased=unbiased), DCor(unbiased=unbiased))
    ]
    assert tests[0].pvalue == tests[1].pvalue
    ratio = tests[0].null_distribution / tests[1].null_distribution
    np.testing.assert_allclose(ratio, tests[0].statistic / tests[1].statistic, rtol=1e-8)
    assert tests[0].statistic == pytest.approx(60 * tests[0].estimate, rel=1e-9)


@pytest.mark.parametrize("estimator", ["dcov", "dcor"])
@pytest.mark.parametrize("dims", [(3, 2), (1, 1)])
def test_permutation__equals_its_definition(estimator, dims):
    x, y = setting(40, dims=dims)
    result = dhsic.independence_test(x, y, estimator=estimator, null=dhsic.Permutation(3), rng=1)
    scale = 1.0
    if estimator == "dcor":
        variances = [oracles.distance_covariance(z, z, 1.0) for z in (x, y)]
        scale = 1.0 / np.sqrt(np.prod(variances))
    orbit = orbit_of(SimpleNamespace(n=40, seed=1, moves=None), dhsic.Permutation(3))
    orders = oracles.permutations_of_orbit(orbit)
    for (order,), value in zip(orders, result.null_distribution, strict=True):
        expected = 40 * scale * oracles.distance_covariance(x, y[order], 1.0)
        assert value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("estimator", "null"),
    [
        (DCov(), "gamma"),
        (DCor(), "gamma"),
        (DCov(), dhsic.Permutation(400)),
        (DCor(unbiased=True), dhsic.Permutation(400)),
    ],
)
def test_one_column__does_not_depend_on_the_path(estimator, null):
    x, y = setting(300, dims=(1, 1))
    padded = [np.column_stack([z, np.zeros(300)]) for z in (x, y)]
    fast, slow = (
        dhsic.independence_test(*z, estimator=estimator, null=null, rng=1) for z in ((x, y), padded)
    )
    assert fast.statistic == pytest.approx(slow.statistic, rel=1e-9)
    assert fast.pvalue == pytest.approx(slow.pvalue, rel=1e-8)
    if null != "gamma":
        np.testing.assert_allclose(fast.null_distribution, slow.null_distribution, rtol=1e-8)


@pytest.mark.parametrize("dims", [(3, 2), (1, 1)])
def test_gamma__needs_the_biased_statistic(dims):
    x, y = setting(40, dims=dims)
    with pytest.raises(dhsic.errors.InvalidArgumentError, match="take unbiased=False"):
        dhsic.independence_test(x, y, estimator=DCov(unbiased=True), null="gamma")
    session = Session(open_variables((x, y), None), Runtime.here(1, 2**31), 0)
    made = DCov(unbiased=True)
    with pytest.raises(dhsic.errors.InvalidArgumentError, match="take unbiased=False"):
        made.test(session, [made.kernel(None)] * 2, dhsic.Gamma())


def test_one_column__takes_memory_linear_in_the_rows():
    data = np.zeros((2, 1_000_000))
    assert dhsic.plan(*data, estimator="dcov").peak_driver_bytes < 2**30
    with pytest.raises(dhsic.errors.MemoryBudgetError):
        dhsic.plan(*data, estimator=DCov(0.5), null=dhsic.Permutation(9, within="all")).check()


def test_one_column__plans_copies_for_permutations_alone():
    data = np.zeros((2, 1_000_000))
    gamma, permutation = (
        [
            dhsic.plan(*data, estimator="dcov", null=null, threads=threads).peak_driver_bytes
            for threads in (1, 8)
        ]
        for null in ("gamma", "permutation")
    )
    assert gamma[1] - gamma[0] < 2**20
    assert permutation[1] - permutation[0] > 7 * 64 * 1_000_000


def test_results__say_what_the_estimate_is():
    x, y = setting(40)
    assert dhsic.hsic(x, y, estimator="dcov", rng=0).quantity == "squared distance covariance"
    assert "squared distance correlation" in str(dhsic.hsic(x, y, estimator="dcor", rng=0))


@pytest.mark.parametrize("exponent", [0.0, 2.0, -1.0, float("nan"), True, "1", None, 1j])
@pytest.mark.parametrize("estimator", [DCov, DCor])
def test_exponent__is_between_0_and_2(estimator, exponent):
    with pytest.raises(dhsic.errors.InvalidArgumentError, match="exponent must be greater than 0"):
        estimator(exponent)


def test_kernels__are_left_out():
    x, y = setting(40)
    with pytest.raises(
        dhsic.errors.InvalidArgumentError, match="dcov has the kernel of its distances"
    ):
        dhsic.hsic(x, y, kernels="gaussian", estimator="dcov")


@pytest.mark.parametrize("scale", [1e-85, 1e79])
def test_dcor__does_not_depend_on_units_however_extreme(scale):
    x = np.random.default_rng(0).standard_normal(200)
    assert estimate(scale * x, scale * x, "dcor") == pytest.approx(1.0, rel=1e-9)


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize("null", ["spectral", "permutation"])
def test_dcor__of_a_variable_without_unbiased_variance_is_no_evidence(null):
    rare = np.eye(1, 60, 7)[0]
    for y in (rare, np.random.default_rng(0).standard_normal(60)):
        result = dhsic.independence_test(rare, y, estimator=DCor(unbiased=True), null=null, rng=0)
        assert (result.estimate, result.pvalue) == (0.0, 1.0)
