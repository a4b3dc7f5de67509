"""HSIC by joint random frequencies against its definitions."""

import tracemalloc

import numpy as np
import pytest

import dhsic
from benchmarks.shared.cases import joint_triple
from dhsic._random import generator, random_signs
from dhsic.engine.groups import Groups
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.estimators.feature.rff import RFFHSIC
from dhsic.estimators.landmark.joint_frequencies import JointFrequencies
from dhsic.estimators.landmark.orbits import MeansPass, TupleOrbitPass
from dhsic.estimators.landmark.terms import SignedPass, SpectrumPass
from dhsic.estimators.resample import Orbit
from dhsic.io.open import open_variables
from dhsic.kernels import Combinations, Delta, Gaussian, Laplacian, Linear
from dhsic.nulls import (
    Chain,
    ChiSquareMixture,
    Gamma,
    Multiplier,
    Permutation,
    Replicates,
    Shifts,
    Spectral,
    pvalue,
)
from dhsic.results import FeatureSummary
from tests import oracles
from tests.estimators.features import LARGE, session_on
from tests.estimators.levels import Check

GAMMA = 0.3
D = 8
DIMS = {2: (2, 3), 3: (2, 3, 1), 4: (3, 2, 1, 2)}
NULLS = [Permutation(99, within="all"), Multiplier(99), Gamma(), Spectral()]
VARIABLES = pytest.mark.parametrize("m", [2, 3, 4])


def setting(n, m, seed=0):
    rng = np.random.default_rng([n, m, seed])
    data = [rng.standard_normal((n, d)) for d in DIMS[m]]
    data[-1][:, 0] += data[0][:, 0]
    return data


def kernels(m, gamma=GAMMA):
    return (Gaussian(gamma=gamma),) * m


def outcome(data, null, precision="float64", **session):
    made = JointFrequencies(n_features=D, orthogonal=False)
    return made.test(session_on(data, precision=precision, **session), kernels(len(data)), null)


def waves(data, seed=5):
    """exp(i w_mj' x_mi), (n, D) for every variable."""
    found = []
    for m, x in enumerate(data):
        rng = generator(seed, "features", m)
        w = np.sqrt(2 * GAMMA) * rng.standard_normal((D, x.shape[1]))
        phases = [[sum(a * b for a, b in zip(row, v, strict=True)) for v in w] for row in x]
        found.append(np.exp(1j * np.array(phases)))
    return found


def estimate(phi):
    total = 0.0
    for j in range(D):
        joint = np.mean(np.prod([p[:, j] for p in phi], axis=0))
        total += abs(joint - np.prod([np.mean(p[:, j]) for p in phi])) ** 2
    return total / D


def centred_products(phi):
    """xi_ij, the linearised centred product, row by row and frequency by frequency."""
    n, m = len(phi[0]), len(phi)
    xi = np.zeros((n, D), complex)
    for j in range(D):
        means = [np.mean(p[:, j]) for p in phi]
        for i in range(n):
            xi[i, j] = np.prod([p[i, j] for p in phi]) + (m - 1) * np.prod(means)
            for k in range(m):
                xi[i, j] -= phi[k][i, j] * np.prod(np.delete(means, k))
    return xi


def weights(phi):
    """Eigenvalues of the covariance, divided by n - 2, of [Re xi_i, Im xi_i] / sqrt(D)."""
    n, xi = len(phi[0]), centred_products(phi)
    rows = np.hstack([xi.real, xi.imag]) / np.sqrt(D)
    return np.linalg.eigvalsh(np.cov(rows.T) * (n - 1) / (n - 2))


@pytest.mark.parametrize(("precision", "rel"), [("float64", 1e-10), ("float32", 1e-4)])
@VARIABLES
def test_statistic_and_estimate__equal_their_definition(m, precision, rel):
    data = setting(80, m)
    expected = estimate(waves(data))
    found = outcome(data, Multiplier(3), precision)
    assert found.statistic == pytest.approx(80 * expected, rel=rel)
    assert found.estimate.value == pytest.approx(expected, rel=rel)
    assert found.estimate.features == FeatureSummary("complex", (D,) * m, False)
    assert found.estimate.quantity == "squared HSIC"
    session = session_on(data, precision=precision)
    alone = JointFrequencies(D, orthogonal=False).estimate(session, kernels(m))
    assert alone.value == pytest.approx(expected, rel=rel)
    assert len(session.finished) == 1


@pytest.mark.parametrize(("precision", "rel"), [("float64", 1e-10), ("float32", 1e-3)])
@VARIABLES
def test_multiplier__equals_its_definition(m, precision, rel):
    data = setting(60, m)
    xi, signs = centred_products(waves(data)), random_signs(5, 0, 60, 7).astype(float)
    expected = []
    for w in signs.T:
        u = sum((w[i] - w.mean()) * xi[i] for i in range(60)) / 60
        expected.append(60 / 58 * 60 * np.sum(np.abs(u) ** 2) / D)
    found = outcome(data, Multiplier(7), precision).distribution.values
    np.testing.assert_allclose(found, expected, rtol=rel)


@pytest.mark.parametrize(("precision", "rel"), [("float64", 1e-10), ("float32", 1e-3)])
@pytest.mark.parametrize("within", ["all", "groups"])
@VARIABLES
def test_permutation__equals_its_definition(m, within, precision, rel):
    data, null = setting(60, m), Permutation(6, within=within, group_rows=25)
    orders = oracles.orders_of_permutations(60, null, 5, range(1, m))
    first, *others = waves(data)
    expected = [
        60 * estimate([first, *(p[o] for p, o in zip(others, order, strict=True))])
        for order in orders
    ]
    found = outcome(data, null, precision)
    np.testing.assert_allclose(found.distribution.values, expected, rtol=rel)
    every = within == "all"
    assert found.detail == ("all rows shuffled" if every else "shuffled in groups of 30 rows")


@pytest.mark.parametrize(("precision", "rel"), [("float64", 1e-10), ("float32", 1e-3)])
@VARIABLES
def test_fitted_nulls__equal_their_definitions(m, precision, rel):
    data = setting(60, m)
    expected = weights(waves(data))
    spectral = outcome(data, Spectral(), precision)
    np.testing.assert_allclose(spectral.distribution.weights, expected, rtol=0, atol=rel)
    assert isinstance(spectral.distribution, ChiSquareMixture)
    gamma = outcome(data, Gamma(), precision)
    assert gamma.distribution.mean == pytest.approx(expected.sum(), rel=rel)
    assert gamma.distribution.variance == pytest.approx(2 * (expected**2).sum(), rel=rel)
    by_signs = outcome(data, Multiplier(3), precision).statistic
    assert gamma.statistic == spectral.statistic == pytest.approx(by_signs, rel=rel)
    simulated = outcome(data, Spectral("simulation", n_resamples=50), precision)
    assert isinstance(simulated.distribution, Replicates)


@pytest.mark.parametrize("m", [3, 4])
def test_fitted_nulls__agree_with_many_multipliers(m):
    data = list(np.random.default_rng(m).standard_normal((m, 500, 1)))
    by_signs = outcome(data, Multiplier(10_000)).distribution.values
    spectral, gamma = (outcome(data, null).distribution for null in (Spectral(), Gamma()))
    for level in (0.5, 0.1, 0.02):
        quantile = float(np.quantile(by_signs, 1 - level))
        assert spectral.sf(quantile) == pytest.approx(level, rel=0.1)
        assert gamma.sf(quantile) == pytest.approx(level, rel=0.2)


@pytest.mark.parametrize("orthogonal", [False, True])
def test_estimate__nears_v_hsic_with_the_root_of_the_features(orthogonal):
    data = setting(100, 3)
    exact = oracles.v_hsic([oracles.gaussian_gram(x, x, GAMMA) for x in data])
    counts, errors = np.array([16, 128, 1024]), []
    for count in counts:
        made = JointFrequencies(int(count), orthogonal)
        found = [made.estimate(session_on(data, seed), kernels(3)).value for seed in range(40)]
        bias = np.mean(found) - exact
        assert abs(bias) < 4 * np.std(found, ddof=1) / np.sqrt(40)
        errors.append(np.sqrt(np.mean((np.array(found) - exact) ** 2)))
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert -0.65 < slope < -0.35


def test_orthogonal__takes_orthogonal_frequencies():
    x = np.random.default_rng(0).standard_normal((50, D))
    data = [x, x[::-1], x[10:].repeat(2, axis=0)[:50]]
    values = {}
    for orthogonal in (False, True):
        found = JointFrequencies(D, orthogonal).estimate(session_on(data), kernels(3, 0.02))
        assert found.features.orthogonal is orthogonal
        values[orthogonal] = found.value
    assert values[True] != pytest.approx(values[False], rel=1e-3)


@pytest.mark.parametrize("null", NULLS, ids=repr)
def test_level__is_kept(null):
    made = JointFrequencies(20, orthogonal=False)

    def rejects(seed):
        data = list(np.random.default_rng([3, seed]).standard_normal((3, 100, 1)))
        found = made.test(session_on(data, seed), (Gaussian(),) * 3, null)
        return pvalue(found.statistic, found.distribution) <= 0.1 + 1e-9

    assert Check.of(250, 0.1, least=0.05).passes(map(rejects, range(250)))


@pytest.mark.parametrize("null", NULLS, ids=repr)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_power__finds_three_variables_that_depend_jointly_but_not_in_pairs(null, precision):
    data = [x[:, None] for x in joint_triple(600, np.random.default_rng(2))]
    shuffled = [np.random.default_rng(m).permutation(x) for m, x in enumerate(data)]
    made = JointFrequencies(100, orthogonal=False)
    given = (Gaussian(), Laplacian(), Gaussian())
    for variables, found in ((data, True), (shuffled, False)):
        tested = made.test(session_on(variables, precision=precision), given, null)
        p = pvalue(tested.statistic, tested.distribution, precision, tested.rounding)
        assert p <= 0.01 if found else p > 0.05


def test_units__change_nothing():
    x, y, z = setting(300, 3)
    made, given = JointFrequencies(50, orthogonal=False), (Gaussian(),) * 3
    plain = made.estimate(session_on((x, y, z)), given)
    moved = made.estimate(session_on((1e6 * x - 3e7, 1e-4 * y + 2.0, z + 1e6)), given)
    assert moved.value == pytest.approx(plain.value, rel=1e-6)


@pytest.mark.parametrize(
    "null", [Permutation(9, within="groups", group_rows=500), Multiplier(9), Spectral()], ids=repr
)
def test_workers__give_the_same_bits_as_threads(client, null):
    data = setting(20_000, 3)
    here, there = (session_on(data, client=where) for where in (None, client))
    made = JointFrequencies(D, orthogonal=False)
    ours, theirs = (made.test(session, kernels(3), null) for session in (here, there))
    assert min(done.blocks for done in here.finished) > 1
    assert theirs.statistic == ours.statistic
    if isinstance(null, Spectral):
        np.testing.assert_array_equal(theirs.distribution.weights, ours.distribution.weights)
    else:
        np.testing.assert_array_equal(theirs.distribution.values, ours.distribution.values)


def test_auto_null__is_exact():
    made = JointFrequencies(50, orthogonal=False)
    assert made.choose_null(session_on(setting(200, 3)), 100)[0] == Chain(100)
    assert made.choose_null(session_on(setting(200, 2)), 100)[0] == Shifts(100)


@pytest.mark.parametrize("kernel", [Linear(), Delta()], ids=repr)
def test_kernel__must_have_a_spectral_law(kernel):
    made = JointFrequencies(D, orthogonal=False)
    with pytest.raises(InvalidArgumentError, match="a kernel with a spectral law"):
        made.estimate(session_on(setting(60, 3)), (Gaussian(), kernel, Gaussian()))


def test_phases__must_not_overflow():
    data = setting(60, 3)
    data[1][7, 0] = 1e38
    with pytest.raises(DataError, match=r"finite in float32; got rows as far as 1e\+38 from"):
        JointFrequencies(200, orthogonal=False).estimate(
            session_on(data, precision="float32"), kernels(3, 1e4)
        )


@pytest.mark.parametrize(
    "null", [None, *NULLS, Permutation(9, within="groups", group_rows=50)], ids=repr
)
def test_plan__names_the_passes_that_run(null):
    session, made = session_on(setting(300, 3)), JointFrequencies(D, orthogonal=False)
    plan = made.plan(session, Combinations.single(kernels(3)), null)
    if null is None:
        made.estimate(session, kernels(3))
    else:
        made.test(session, kernels(3), null)
    assert [step.name for step in plan.passes] == [done.name for done in session.finished]


def test_plan__grows_with_features_and_refuses_what_does_not_fit():
    session, single = session_on(setting(5000, 3)), Combinations.single(kernels(3))
    small, large = (
        JointFrequencies(count, orthogonal=False).plan(session, single, Spectral())
        for count in (50, 100)
    )
    assert small.passes[1].bytes_to_driver == 8 * 100 * 101
    assert large.passes[1].bytes_to_driver == 8 * 200 * 201
    huge = JointFrequencies(20_000, orthogonal=False).plan(session, single, Spectral())
    with pytest.raises(MemoryBudgetError, match="take fewer features"):
        huge.check()


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("name", ["sums", "multiplier", "spectrum", "permutation"])
def test_plan__bounds_the_memory_of_passes_and_not_by_far(name, precision):
    n, data = 9000, setting(9000, 3)
    session = Session(open_variables(data), Runtime.here(1, LARGE), 0, precision)
    made = JointFrequencies(200, orthogonal=False)
    _, _, tuples = made._basis(session, Combinations.single(kernels(3)), None)
    orbit, means = Orbit(Groups(n, 3000, 0), 6, shifted=False), np.zeros(200, complex)
    reduction = {
        "sums": MeansPass(tuples),
        "multiplier": SignedPass(tuples, means, 100, 0),
        "spectrum": SpectrumPass(tuples, means, "spectrum"),
        "permutation": TupleOrbitPass(tuples, orbit, tuple(range(6))),
    }[name]
    moves = name == "permutation"
    run, plan = (session.run_groups, session.plan_groups) if moves else (session.run, session.plan)
    run(reduction)
    predicted = plan(reduction).worker_bytes - reduction.footprint(n).payload
    tracemalloc.start()
    run(reduction)
    measured = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert predicted / 4 < measured < predicted + 500_000


@pytest.mark.parametrize("form", ["cos-sin", "complex"])
@pytest.mark.parametrize("orthogonal", [False, True])
def test_rff__takes_joint_frequencies_for_three_variables(form, orthogonal):
    data, session = setting(100, 3), session_on(setting(100, 3))
    made, joint = RFFHSIC(D, form, orthogonal), JointFrequencies(D, orthogonal)
    for null in NULLS:
        found, expected = (one.test(session_on(data), kernels(3), null) for one in (made, joint))
        assert found.statistic == expected.statistic
        assert found.estimate == expected.estimate
    value = made.estimate(session, kernels(3))
    assert value == joint.estimate(session, kernels(3))
    assert made.choose_null(session, 9) == joint.choose_null(session, 9)
    single = Combinations.single(kernels(3))
    # Not the whole plans: the memory of this process may grow between them.
    steps = [one.plan(session, single, Spectral()).steps for one in (made, joint)]
    assert steps[0] == steps[1]


def shifted_orders(n, null, seed, m):
    """For every permutation the rows of every variable: cosets move all but the first."""
    orbit = Orbit.of(n, null.n_resamples, seed)
    last = oracles.orders_of_orbit(orbit, m - 1)
    others = [oracles.orders_of_orbit(orbit, j, shifted=False) for j in range(1, m - 1)]
    return [[np.arange(n), *(o[k] for o in others), last[k]] for k in range(len(orbit))]


@pytest.mark.parametrize(("precision", "rel"), [("float64", 1e-9), ("float32", 1e-3)])
@VARIABLES
def test_shifts__equal_their_definition(m, precision, rel):
    data, null = setting(30, m), Shifts(80)
    expected = [
        30 * estimate([p[o] for p, o in zip(waves(data), orders, strict=True)])
        for orders in shifted_orders(30, null, 5, m)
    ]
    found = outcome(data, null, precision)
    assert found.statistic == pytest.approx(expected[0], rel=rel)
    np.testing.assert_allclose(found.distribution.values, expected[1:], rtol=rel)


def test_chain__has_stages_of_two_sides_and_the_joint_estimate():
    data, made = setting(40, 3), JointFrequencies(D, orthogonal=False)
    found = made.test_chain(session_on(data), Combinations.single(kernels(3)), Chain(40))
    first, second, third = waves(data)
    pairs = [(first, second), (first * second, third), (first, third), (second, third)]
    expected = [40 * squared_norm_of_pairs(*pair) for pair in pairs]
    values = [float(t) for stage in found.stages for t in stage.resampled.statistics]
    np.testing.assert_allclose(values, expected, rtol=1e-9)
    assert found.estimate(0).value == pytest.approx(estimate([first, second, third]), rel=1e-9)


def squared_norm_of_pairs(left, right):
    """|E l r - E l E r|^2 / D."""
    return float(np.mean(np.abs((left * right).mean(0) - left.mean(0) * right.mean(0)) ** 2))


def test_default__is_a_chain_and_finds_where_the_dependence_enters():
    rng = np.random.default_rng(0)
    x, y, noise = rng.standard_normal((3, 300))
    found = dhsic.independence_test(x, y, y + noise, estimator="rff-hsic", rng=0)
    assert found.null == "chain"
    assert found.pvalue <= 0.01
    assert found.stages[0].pvalue > 0.05 > found.stages[1].pvalue
