"""NFSIC against its definitions."""

import itertools
from functools import reduce
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
import zarr
from scipy.stats import binom

import dhsic
from benchmarks.shared.cases import mixed_dimensions, sine
from dhsic._random import generator
from dhsic.engine.groups import Groups
from dhsic.engine.reduction import RowBlock
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators.landmark.moments import measured
from dhsic.estimators.landmark.tuples import Tuples
from dhsic.estimators.location import training as nfsic_training
from dhsic.estimators.location.nfsic import NFSIC
from dhsic.estimators.location.sums import LocationPass, independent_covariance, joint_terms
from dhsic.estimators.location.training import Training, criterion, place
from dhsic.estimators.resample import Orbit, TwoSided, chain_of
from dhsic.kernels import (
    Combinations,
    Delta,
    Gaussian,
    InverseMultiquadric,
    Laplacian,
    Linear,
    Matern,
    RationalQuadratic,
)
from dhsic.landmarks import uniform_rows
from dhsic.nulls import Chain, ChiSquare, Permutation, Sequential, Shifts, pvalue
from dhsic.results import FeatureSummary
from tests import oracles
from tests.estimators.features import session_on
from tests.estimators.test_level import LEVEL_OF_PAIRS, rejections

# Few rows, of which the guard of approximate nulls warns.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

GAMMA = 0.4
DIMS = {2: (2, 3), 3: (2, 3, 1), 4: (3, 2, 1, 2)}
TOLERANCE = {"float64": 1e-9, "float32": 1e-3}
VARIABLES = pytest.mark.parametrize("m", [2, 3, 4])


def setting(n, m, seed=0):
    rng = np.random.default_rng([n, m, seed])
    data = [rng.standard_normal((n, d)) for d in DIMS[m]]
    data[-1][:, 0] += data[0][:, 0]
    return data


def kernels(m):
    return (Gaussian(gamma=GAMMA),) * m


def random(j=5, r=1e-3):
    return NFSIC(n_locations=j, placement="random", regularisation=r)


def crosses_of(data, j=5, seed=5):
    n, m = len(data[0]), len(data)
    rows = uniform_rows(seed, n, j, m, pairing="independent", replace=False)
    return [oracles.gaussian_gram(x, x[at], GAMMA) for x, at in zip(data, rows, strict=True)]


def permuted(crosses, order):
    first, *others = crosses
    return [first, *(c[o] for c, o in zip(others, order, strict=True))]


@VARIABLES
@pytest.mark.parametrize("offset", [0.0, 0.7])
def test_joint_terms__are_products_less_their_linear_part(m, offset):
    crosses = crosses_of(setting(40, m))
    centres = [c.mean(axis=0) + offset for c in crosses]
    found = joint_terms([c - z for c, z in zip(crosses, centres, strict=True)], centres)
    expected = np.prod(crosses, axis=0) + (m - 1) * np.prod(centres, axis=0)
    for k in range(m):
        others = np.prod([centres[o] for o in range(m) if o != k], axis=0)
        expected = expected - crosses[k] * others
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


@VARIABLES
@pytest.mark.parametrize("null", [ChiSquare(), Permutation(3), Permutation(3, within="groups")])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_statistic__equals_its_definition(m, null, precision):
    data = setting(80, m)
    session = session_on(data, precision=precision)
    found = random().test(session, kernels(m), null)
    expected = oracles.nfsic_statistic(crosses_of(data), 1e-3)
    assert found.statistic == pytest.approx(expected, rel=TOLERANCE[precision])


def takes(monkeypatch, orbit):
    """The orbit of any null distribution."""
    monkeypatch.setattr("dhsic.estimators.landmark.statistics.orbit_of", lambda *_: orbit)


def moved(crosses, rows, number, n_shifts):
    """Shifts move the last variable alone, cosets all but the first."""
    coset = number - number % n_shifts
    first, *others, last = crosses
    between = [c[rows[k + 1][coset]] for k, c in enumerate(others)]
    return [first, *between, last[rows[len(crosses) - 1][number]]]


# Of all rows and of several groups, of one coset and of several, with rows left over and without.
ORBITS = pytest.mark.parametrize(
    ("n", "size", "cosets", "shifted"),
    [
        (47, 47, 1, True),
        (47, 47, 3, True),
        (47, 10, 1, True),
        (47, 10, 3, True),
        (40, 10, 2, True),
        (47, 47, 6, False),
        (47, 10, 6, False),
    ],
)


@VARIABLES
@ORBITS
def test_replicates__equal_their_definition(monkeypatch, m, n, size, cosets, shifted):
    data, orbit = setting(n, m), Orbit(Groups(n, size, seed=5), cosets, shifted)
    takes(monkeypatch, orbit)
    found = random().test(session_on(data), kernels(m), Shifts())
    rows = {k: oracles.orders_of_orbit(orbit, k) for k in range(1, m)}
    crosses = crosses_of(data)
    expected = [
        oracles.nfsic_statistic(moved(crosses, rows, number, orbit.n_shifts), 1e-3)
        for number in range(len(orbit))
    ]
    values = [found.statistic, *found.distribution.values]
    np.testing.assert_allclose(values, expected, rtol=1e-9)


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize(("size", "cosets"), [(47, 2), (10, 3)])
def test_stages__equal_their_definition(monkeypatch, m, size, cosets):
    """The kernel at locations of one variable, and products of those of earlier ones."""
    n, data = 47, setting(47, m)
    orbit = Orbit(Groups(n, size, seed=5), cosets)
    takes(monkeypatch, orbit)
    combinations = Combinations.single(kernels(m))
    found = random().test_chain(session_on(data), combinations, Chain())
    crosses = crosses_of(data)
    assert [list(stage.pairs) for stage in found.stages] == chain_of([tuple(range(m))])
    for stage in found.stages:
        values = np.vstack([stage.resampled.statistics, stage.resampled.replicates])
        for c, (left, right) in enumerate(stage.pairs):
            first = np.prod([crosses[k] for k in left], axis=0)
            expected = [
                oracles.nfsic_statistic([first, crosses[right][order]], 1e-3)
                for order in oracles.orders_of_orbit(orbit, right)
            ]
            np.testing.assert_allclose(values[:, c], expected, rtol=1e-8)


@pytest.mark.parametrize("within", ["all", "groups"])
def test_permutation__is_of_all_rows_or_of_groups(within):
    data, null = setting(60, 3), Permutation(6, within=within, group_rows=25)
    found = random().test(session_on(data), kernels(3), null)
    crosses, orders = crosses_of(data), oracles.orders_of_permutations(60, null, 5, (1, 2))
    expected = [oracles.nfsic_statistic(permuted(crosses, order), 1e-3) for order in orders]
    np.testing.assert_allclose(found.distribution.values, expected, rtol=1e-9)
    assert ("all rows" if within == "all" else "groups of 30 rows") in found.detail


@pytest.mark.parametrize("m", [2, 3])
def test_sequential__takes_the_first_permutations_of_all_rows(m):
    data = setting(60, m)
    whole, few = (
        NFSIC().test(session_on(data), kernels(m), null)
        for null in (Permutation(40, within="all"), Sequential(2, 40))
    )
    drawn = few.distribution.values
    np.testing.assert_allclose(drawn, whole.distribution.values[: len(drawn)], rtol=1e-9)
    assert few.statistic == pytest.approx(whole.statistic, rel=1e-9)
    assert few.rounding == pytest.approx(whole.rounding, rel=1e-6)


def test_estimate__is_the_statistic_of_one_row():
    data = setting(50, 2)
    expected = oracles.nfsic_statistic(crosses_of(data), 1e-3) / 50
    alone = random().estimate(session_on(data), kernels(2))
    assert alone.value == pytest.approx(expected, rel=1e-9)
    assert alone.quantity == "NFSIC / n"
    assert alone.features == FeatureSummary("random locations", (5,))
    for null in (Permutation(2), ChiSquare()):
        tested = random().test(session_on(data), kernels(2), null)
        assert tested.estimate.value == pytest.approx(expected, rel=1e-9)


def test_covariance__is_that_of_all_permutations():
    n, orders = 6, np.array(list(itertools.permutations(range(6))))
    first, second = crosses_of(setting(n, 2), j=3)
    values = [oracles.nfsic_mean([first, second[order]]) for order in orders]
    expected = np.mean([np.outer(u, u) for u in values], axis=0) * (n - 1)
    found = independent_covariance(
        [np.cov(c.T, bias=True) for c in (first, second)],
        [first.mean(axis=0), second.mean(axis=0)],
    )
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-16)


def test_statistic__of_indicators_is_pearson_s():
    rng = np.random.default_rng(0)
    x, y = rng.integers(2, size=(2, 200, 1)).astype(float)
    y = np.where(rng.random((200, 1)) < 0.2, x, y)
    made = NFSIC(n_locations=1, placement="random", regularisation=1e-12)
    found = made.test(session_on((x, y)), (Delta(), Delta()), ChiSquare())
    expected = 200 * np.corrcoef(x[:, 0], y[:, 0])[0, 1] ** 2
    assert found.statistic == pytest.approx(expected, rel=1e-9)


def test_chi_square__has_a_degree_of_freedom_for_every_location():
    data = setting(300, 2)
    for r in (1e-10, 0.1):
        law = random(r=r).test(session_on(data), kernels(2), ChiSquare()).distribution
        values = np.linalg.eigvalsh(oracles.nfsic_covariance(crosses_of(data)))
        expected = values / (values + r * values.mean())
        np.testing.assert_allclose(np.sort(law.weights), expected, rtol=1e-6)
    assert not np.allclose(law.weights, 1.0, rtol=0.01)


@VARIABLES
def test_chi_square__is_the_law_of_permutations(m):
    data = setting(400, m)
    session = session_on(data)
    law = random().test(session, kernels(m), ChiSquare()).distribution
    values = random().test(session, kernels(m), Permutation(400, within="all")).distribution.values
    for level in (0.5, 0.1):
        share = np.mean([law.sf(value) <= level for value in values])
        assert abs(share - level) < 4 * np.sqrt(level * (1 - level) / 400)


@VARIABLES
@pytest.mark.parametrize("form", ["joint", "product"])
@pytest.mark.parametrize("bounds", [(0, 3000), (0, 100, 1101, 3000)])
@pytest.mark.parametrize("offset", [0.0, 0.2])
def test_moments__are_those_of_all_rows(m, form, bounds, offset):
    data, n, j = setting(3000, m), 3000, 4
    crosses = [oracles.gaussian_gram(x, x[:j], GAMMA) for x in data]
    tuples = Tuples(
        kernels(m),
        tuple(range(m)),
        tuple(x[:j] for x in data),
        (TwoSided(tuple(range(m - 1)), m - 1),),
        (np.arange(j),),
        tuple(c.mean(axis=0) + offset for c in crosses),
        np.dtype(np.float64),
        form,
    )
    made = LocationPass(tuples)
    blocks = [RowBlock(a, tuple(x[a:b] for x in data)) for a, b in pairwise(bounds)]
    sums = reduce(made.combine, map(made.chunk, blocks))
    moments = measured(tuples, sums.tuples, n)
    np.testing.assert_allclose(moments.u[0], oracles.nfsic_mean(crosses), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(moments.kappa, [c.mean(axis=0) for c in crosses], rtol=1e-12)
    for side, found in zip(tuples.sides, sums.covariances(n), strict=True):
        expected = np.cov(np.prod([crosses[k] for k in side], axis=0).T, bias=True)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


RADIAL = [Gaussian, InverseMultiquadric, Laplacian, lambda: Matern(2.5), RationalQuadratic]


@pytest.mark.parametrize("kernel", RADIAL)
@pytest.mark.parametrize("m", [2, 3])
def test_criterion__has_the_gradient_of_differences(kernel, m):
    data = setting(70, m)
    fitted = [kernel().fit(x) for x in data]
    points = [x[7 : 7 + 4] + 0.1 for x in data]
    value, gradients, lengths = criterion(fitted, points, data, 0.01)
    crosses = [k(x, z) for k, x, z in zip(fitted, data, points, strict=True)]
    assert value == pytest.approx(oracles.nfsic_statistic(crosses, 0.01) / 70, rel=1e-10)
    step = 1e-6
    for k in range(m):
        wide = [
            criterion(
                [f.widened(np.exp(h)) if o == k else f for o, f in enumerate(fitted)],
                *(points, data, 0.01),
            )[0]
            for h in (step, -step)
        ]
        assert lengths[k] == pytest.approx((wide[0] - wide[1]) / (2 * step), rel=1e-4, abs=1e-8)
        for at in np.ndindex(points[k].shape):
            moved = []
            for h in (step, -step):
                other = [z.copy() for z in points]
                other[k][at] += h
                moved.append(criterion(fitted, other, data, 0.01)[0])
            expected = (moved[0] - moved[1]) / (2 * step)
            assert gradients[k][at] == pytest.approx(expected, rel=1e-4, abs=1e-8)


def test_loss__has_the_gradient_of_differences():
    data = tuple(1e3 * x + 7.0 for x in setting(60, 2))
    training = Training(tuple(Gaussian().fit(x) for x in data), data, 1e-2)
    at = training.start(np.arange(3), 0.7)
    _, gradient = training.loss(at)
    for k in range(len(at)):
        step = 1e-6 * np.eye(len(at))[k]
        expected = (training.loss(at + step)[0] - training.loss(at - step)[0]) / 2e-6
        assert gradient[k] == pytest.approx(expected, rel=1e-4, abs=1e-8)


def test_place__climbs_and_stays_among_the_rows():
    data = tuple(x.reshape(-1, 1) for x in sine(300, np.random.default_rng(0), 1.0, 2))
    fitted = tuple(Gaussian().fit(x) for x in data)
    training = Training(fitted, data, 1e-3)
    placed = place(training, 4, np.random.default_rng(1))
    value, _, _ = criterion(placed.kernels, placed.points, data, 1e-3)
    started = [
        criterion(fitted, [x[at] for x in data], data, 1e-3)[0]
        for at in np.random.default_rng(2).choice(300, (20, 4))
    ]
    assert value > 1.2 * max(started)
    for x, z, kernel, before in zip(data, placed.points, placed.kernels, fitted, strict=True):
        assert x.min() <= z.min() <= z.max() <= x.max()
        assert 0.249 <= np.sqrt(before.gamma / kernel.gamma) <= 4.001


def test_place__is_large_on_other_rows_too(monkeypatch):
    def drawn(n, rng):
        x = rng.standard_normal((n, 20))
        return x, x[:, :2] @ [[0.6], [0.6]] + rng.standard_normal((n, 1))

    def on_other_rows(seed):
        rng = np.random.default_rng(seed)
        rows, others = drawn(150, rng), drawn(2000, rng)
        training = Training(tuple(Gaussian().fit(x) for x in rows), rows, 1e-3)
        return nfsic_training.value_of(*place(training, 5, rng), others, 1e-3)

    held = [on_other_rows(seed) for seed in range(5)]
    monkeypatch.setattr(nfsic_training, "_HELD_OUT", 10**9)
    assert np.mean(held) > 2.0 * np.mean([on_other_rows(seed) for seed in range(5)])


@pytest.mark.parametrize("count", [2, 3, 5])
def test_place__takes_as_few_rows_as_locations(count):
    data = tuple(np.random.default_rng(0).standard_normal((2, 5, 1)))
    training = Training(tuple(Gaussian().fit(x) for x in data), data, 1e-3)
    placed = place(training, count, np.random.default_rng(1))
    assert all(len(z) == count for z in placed.points)


def test_place__leaves_what_has_no_gradient():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=(400, 1)).astype(float)
    x = labels**2 + rng.standard_normal((400, 1))
    training = Training((Gaussian().fit(x), Delta().fit(labels)), (x, labels), 1e-3)
    placed = place(training, 3, rng)
    assert placed.kernels[1] == Delta().fit(labels)
    assert set(placed.points[1].ravel()) <= {0.0, 1.0, 2.0}
    linear = Training((Linear().fit(x), Delta().fit(labels)), (x, labels), 1e-3)
    assert place(linear, 3, rng).kernels[0] == linear.kernels[0]


@pytest.mark.parametrize("null", [ChiSquare(), Permutation(99)])
def test_optimised_locations__find_what_random_ones_do_not(null):
    p = {}
    for placement in ("optimised", "random"):
        data = sine(1200, np.random.default_rng(3), 1.0, 3)
        made = NFSIC(placement=placement)
        options = {"kernels": "gaussian", "estimator": made, "rng": 0}
        p[placement] = dhsic.independence_test(*data, null=null, **options).pvalue
    assert p["optimised"] <= 0.01
    assert p["random"] > 0.05


def test_optimised_locations__keep_the_level(monkeypatch):
    monkeypatch.setattr(nfsic_training, "_MOST_STEPS", 20)
    options = {"estimator": NFSIC(n_locations=2), "null": ChiSquare()}
    rejected = rejections(lambda rng: mixed_dimensions(100, 2, rng), options, 0.1)
    assert LEVEL_OF_PAIRS.passes(rejected)


def test_optimised_locations__leave_their_training_rows_out():
    data = setting(200, 2)
    made = NFSIC(n_locations=2, training_rows=60)
    rows = np.sort(generator(5, "selection").choice(200, 60, replace=False))
    session = session_on(data)
    found = made.test(session, kernels(2), ChiSquare())
    training = Training(found.estimate.kernels, tuple(x[rows] for x in data), 1e-3)
    whole = Training(
        tuple(k.fit(x) for k, x in zip(kernels(2), data, strict=True)), training.rows, 1e-3
    )
    placed = place(whole, 2, generator(5, "landmarks"))
    assert [k.gamma for k in placed.kernels] == pytest.approx(
        [k.gamma for k in found.estimate.kernels], rel=1e-6
    )
    kept = np.delete(np.arange(200), rows)
    crosses = [k(x[kept], z) for k, x, z in zip(placed.kernels, data, placed.points, strict=True)]
    assert found.statistic == pytest.approx(oracles.nfsic_statistic(crosses, 1e-3), rel=1e-4)
    assert len(session.finished) == 1


def test_training_rows__that_are_all_the_same_are_no_evidence():
    rare = np.zeros((200, 1))
    rare[[0, 1]] = 1.0
    y = np.random.default_rng(0).standard_normal((200, 1))
    made = NFSIC(n_locations=2, training_rows=3)
    for seed in range(4):
        found = made.test(session_on((rare, y), seed=seed), (Gaussian(), Gaussian()), ChiSquare())
        assert pvalue(found.statistic, found.distribution) > 0.01


def test_kernels__that_hardly_vary_are_no_evidence():
    x, y = np.random.default_rng(0).standard_normal((2, 300, 1))
    for gamma in (1e-12, 1e-15, 1e-17):
        for null in (ChiSquare(), Permutation(19), Shifts()):
            options = {"kernels": Gaussian(gamma=gamma), "estimator": "nfsic", "null": null}
            assert dhsic.independence_test(x, y, rng=0, **options).pvalue > 0.01


@pytest.mark.parametrize(
    ("option", "value"),
    [("n_locations", 3), ("placement", "random"), ("training_rows", 50), ("regularisation", 0.5)],
)
def test_options__change_the_statistic(option, value):
    data = setting(200, 2)
    usual, other = (
        NFSIC(**options).test(session_on(data), kernels(2), ChiSquare())
        for options in ({}, {option: value})
    )
    assert usual.statistic != pytest.approx(other.statistic, rel=1e-3)


@pytest.mark.parametrize(
    ("n", "options", "count"),
    [
        (2000, {}, 10),
        (300, {}, 3),
        (40, {}, 1),
        (300, {"n_locations": 12}, 12),
        (300, {"placement": "random"}, 10),
        (8, {"n_locations": 12}, 4),
        (8, {"n_locations": 12, "placement": "random"}, 8),
    ],
)
def test_n_locations__follows_the_rows_to_train_on(n, options, count):
    session = session_on(setting(n, 2))
    found = NFSIC(**options).estimate(session, kernels(2)).features
    assert found.counts == (count,)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_locations": 0}, "n_locations must be an integer >= 1, got 0"),
        ({"n_locations": "many"}, "n_locations must be an integer >= 1, got 'many'"),
        ({"placement": "grid"}, "placement must be one of 'optimised', 'random', got 'grid'"),
        ({"training_rows": 1}, "training_rows must be an integer >= 2, got 1"),
        ({"regularisation": 0.0}, "regularisation must be greater than 0 and less than 1, got 0"),
        ({"regularisation": 1.0}, "less than 1, got 1.0: leave it out for 1e-3"),
    ],
)
def test_options__are_checked(options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        NFSIC(**options)


@pytest.mark.parametrize("n", [40, 300, 10_000_000])
def test_auto_null__is_exact_for_few_rows_and_for_many(n):
    for m, expected in ((2, Shifts(1000)), (3, Chain(1000))):
        session = session_on([np.broadcast_to(0.0, (n, 2))] * m)
        null, reason = NFSIC().choose_null(session, 1000)
        assert null == expected
        assert reason.startswith("exact")


@pytest.mark.parametrize("n", [40, 2500])
@pytest.mark.parametrize("m", [2, 3])
def test_auto_null__has_a_thousand_replicates(n, m):
    data = [x[:, 0] for x in setting(n, m)]
    found = dhsic.independence_test(*data, estimator=random(2), rng=0)
    assert found.null == ("shifts" if m == 2 else "chain")
    assert 1000 * (m - 1) <= len(found.null_distribution) + 1 <= 1500 * (m - 1)


def test_plan__grows_with_locations_and_resamples():
    session = session_on(setting(5000, 2))
    peak = {
        (j, b): random(j)
        .plan(session, Combinations.single(kernels(2)), Permutation(b, within="groups"))
        .peak_worker_bytes
        for j, b in [(5, 100), (10, 100), (10, 400)]
    }
    assert peak[5, 100] < peak[10, 100] < peak[10, 400]
    assert peak[10, 400] - peak[10, 100] > 300 * 8 * 10


def stored(data, tmp_path):
    return [
        zarr.create_array(tmp_path / f"{k}.zarr", data=x, chunks=(700, x.shape[1]))
        for k, x in enumerate(data)
    ]


@pytest.mark.sampled(2)
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("m", "null"),
    [
        (2, "shifts"),
        (3, "shifts"),
        (3, "chain"),
        (2, Permutation(30, within="groups", group_rows=500)),
        (2, "chi-square"),
    ],
)
def test_streamed__is_the_same_as_in_memory(tmp_path, client, m, null):
    """With rows to train on left out of the test, wherever the data are."""
    data = setting(9_000, m)
    options = {"null": null, "estimator": NFSIC(n_locations=3, training_rows=1_000), "rng": 1}
    arrays = stored(data, tmp_path)
    here, *others = (
        dhsic.independence_test(*where, **options, **how)
        for where, how in [
            (arrays, {"threads": 1}),
            (arrays, {"threads": 3}),
            (arrays, {"client": client}),
            ([da.from_array(x, chunks=(700, x.shape[1])) for x in data], {"threads": 2}),
        ]
    )
    memory = dhsic.independence_test(*data, **options)
    for other in others:
        assert (here.statistic, here.pvalue) == (other.statistic, other.pvalue)
        if here.null_distribution is not None:
            assert here.null_distribution.tobytes() == other.null_distribution.tobytes()
    assert memory.pvalue == pytest.approx(here.pvalue, rel=1e-6)
    assert here.n == 9_000
    assert {one.name for one in here.passes} <= {"test locations", "shifts", "permutation null"}


@pytest.mark.parametrize("null", ["shifts", Sequential(5, 99)])
def test_checkpoint__is_resumed(tmp_path, null):
    options = {"estimator": NFSIC(n_locations=3), "null": null, "rng": 1}
    data, folder = setting(3_000, 2), str(tmp_path / "kept")
    first = dhsic.independence_test(*data, **options, checkpoint=folder)
    heard = []
    again = dhsic.independence_test(*data, **options, checkpoint=folder, progress=heard.append)
    assert again.null_distribution.tobytes() == first.null_distribution.tobytes()
    assert sum(getattr(event, "resumed", 0) == 1_500 for event in heard) >= 1
    assert not any(type(event).__name__ == "BlockFinished" and event.amount for event in heard)


def test_nan__is_found_in_the_row_of_the_data():
    x, y = np.random.default_rng(0).standard_normal((2, 400))
    trained = generator(0, "selection").choice(400, 200, replace=False)
    row = int(np.setdiff1d(np.arange(300, 400), trained)[0])
    y[row] = np.nan
    with pytest.raises(DataError, match=f"variable 'x2' has NaN or infinity, first in row {row}"):
        dhsic.independence_test(x, y, estimator="nfsic", rng=0)


LEVEL_CASES = {
    "dummies": lambda r: [(r.random(300) < 0.03) * 1.0 for _ in range(2)],
    "Poisson": lambda r: [r.poisson(0.05, 200) for _ in range(2)],
    "zero-inflated": lambda r: [np.where(r.random(200) < 0.95, 0, r.random(200)) for _ in range(2)],
    "three of two normals": lambda r: [r.standard_normal((100, 2)) for _ in range(3)],
    "few rows": lambda r: list(r.standard_normal((2, 12))),
}


@pytest.mark.parametrize("case", LEVEL_CASES)
def test_default__keeps_the_level(case, monkeypatch):
    """On rare values and ties, where the limit rejects far too often."""
    monkeypatch.setattr(nfsic_training, "_MOST_STEPS", 5)
    runs, options = 60, {"estimator": NFSIC(n_locations=2)}
    rejected = itertools.islice(rejections(LEVEL_CASES[case], options, 0.1), runs)
    assert sum(rejected) <= binom.ppf(0.999, runs, 0.1)


@pytest.mark.parametrize("null", ["auto", Permutation(199, within="groups", group_rows=600)])
@pytest.mark.parametrize("order", ["shuffled", "sorted"])
def test_power__does_not_depend_on_the_order_of_storage(order, null):
    """Groups of consecutive rows would hide what sorted rows differ in."""
    x, noise = np.random.default_rng(0).standard_normal((2, 6_000))
    y = 0.3 * x + noise
    if order == "sorted":
        at = np.argsort(y)
        x, y = x[at], y[at]
    options = {"estimator": NFSIC(n_locations=3, training_rows=600), "null": null}
    assert dhsic.independence_test(x, y, rng=0, **options).pvalue <= 0.01


def test_power__of_three_variables_whichever_depend():
    x, y, z = np.random.default_rng(2).standard_normal((3, 1_000))
    for data in ((x, x + y, z), (x, y, y + z), (x, y, np.sign(x * y) * np.abs(z))):
        assert dhsic.independence_test(*data, estimator="nfsic", rng=0).pvalue <= 0.01


def test_ties__count_whatever_rounding_does():
    """Products of few codes tie often: p-values are those of whole numbers."""
    for seed in range(12):
        x, y = (np.random.default_rng(seed).random((2, 60)) < 0.15).astype(float)
        options = {"kernels": "delta", "estimator": random(1), "rng": seed, "null": Shifts(60)}
        found = dhsic.independence_test(x, y, **options)
        orders = oracles.orders_of_orbit(Orbit.of(60, 60, seed))
        squares = [(60 * int(x @ y[o]) - int(x.sum()) * int(y.sum())) ** 2 for o in orders]
        assert found.pvalue == pytest.approx(np.mean(np.array(squares) >= squares[0]), abs=1e-12)


def test_estimate__needs_two_rows_besides_those_to_train_on():
    x = np.array([1.0, 2.0])
    match = r"at least 2 rows besides those to train on, got 1: .* NFSIC\(placement='random'\)"
    with pytest.raises(DataError, match=match):
        dhsic.hsic(x, x, estimator="nfsic", rng=0)
    assert dhsic.hsic(x, x, estimator=NFSIC(placement="random"), rng=0).estimate > 0.1
