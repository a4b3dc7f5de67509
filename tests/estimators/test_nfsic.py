"""NFSIC against its definitions."""

import itertools
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest

import dhsic
from benchmarks.cases import mixed_dimensions, sine
from dhsic._random import generator
from dhsic.engine.reduction import RowBlock
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators.location import training as nfsic_training
from dhsic.estimators.location.nfsic import NFSIC
from dhsic.estimators.location.sums import LocationPass, Locations, Terms, joint_terms
from dhsic.estimators.location.training import Training, criterion, place
from dhsic.features import KernelFeatures
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
from dhsic.nulls import ChiSquare, Permutation, draw_permutations, pvalue
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
@pytest.mark.parametrize("null", [ChiSquare(), Permutation(3), Permutation(3, within="blocks")])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_statistic__equals_its_definition(m, null, precision):
    data = setting(80, m)
    session = session_on(data, precision=precision)
    found = random().test(session, kernels(m), null)
    expected = oracles.nfsic_statistic(crosses_of(data), 1e-3)
    assert found.statistic == pytest.approx(expected, rel=TOLERANCE[precision])


@VARIABLES
@pytest.mark.parametrize("within", ["all", "blocks"])
def test_permutation__equals_its_definition(m, within):
    data = setting(60, m)
    null = Permutation(6, within=within, block_rows=25)
    found = random().test(session_on(data), kernels(m), null)
    groups = [(0, 60)] if within == "all" else [(0, 25), (25, 50), (50, 60)]
    orders = np.concatenate([a + draw_permutations(5, a, b - a, 6, m) for a, b in groups], axis=-1)
    crosses = crosses_of(data)
    expected = [oracles.nfsic_statistic(permuted(crosses, order), 1e-3) for order in orders]
    np.testing.assert_allclose(found.distribution.values, expected, rtol=1e-8)
    assert ("all rows" if within == "all" else "groups of 25 rows") in found.detail


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
    found = Terms.of(
        np.zeros((1, 3)),
        [np.cov(c.T, bias=True) for c in (first, second)],
        [first.mean(axis=0), second.mean(axis=0)],
    )
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-10, atol=1e-16)


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


@pytest.mark.parametrize("null", [None, Permutation(3, block_rows=300)])
@pytest.mark.parametrize("bounds", [(0, 300), (0, 100, 101, 300)])
def test_left_out_rows__count_as_if_they_were_not_there(null, bounds):
    data = setting(300, 3)
    left_out = np.sort(np.random.default_rng(0).choice(300, 120, replace=False))
    left_out = np.union1d(left_out, [0, 100, 299])
    maps = tuple(KernelFeatures.at(x[:4], Gaussian(gamma=GAMMA), np.float64) for x in data)
    locations = Locations(maps, (np.full(4, 0.2),) * 3)
    if null is not None:
        bounds = (0, 300)

    def total(values, starts, left):
        made = LocationPass(locations, null, 5, left)
        blocks = [RowBlock(a, tuple(x[a:b] for x in values)) for a, b in pairwise(starts)]
        return reduce(made.combine, map(made.chunk, blocks))

    kept = np.delete(np.arange(300), left_out)
    none = np.zeros(0, np.intp)
    expected = total([x[kept] for x in data], (0, len(kept)), none)
    found = total(data, bounds, left_out)
    assert found.rows == len(kept)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


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
        for null in (ChiSquare(), Permutation(19)):
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


def test_auto_null__permutes_few_rows_and_takes_the_limit_of_many():
    null, reason = NFSIC().choose_null(session_on(setting(300, 2)), 99)
    assert null == Permutation(99, within="all")
    assert reason.startswith("exact")
    many = session_on([np.broadcast_to(0.0, (10_000_000, 2))] * 2)
    null, reason = NFSIC().choose_null(many, 99)
    assert null == ChiSquare()
    assert "limit needs no replicates" in reason


@pytest.mark.parametrize("placement", ["optimised", "random"])
@pytest.mark.parametrize(
    "null", [None, ChiSquare(), Permutation(9, within="blocks"), Permutation(9, within="all")]
)
def test_plan__names_the_passes_that_run(null, placement):
    session = session_on(setting(500, 2))
    made = NFSIC(placement=placement)
    plan = made.plan(session, Combinations.single(kernels(2)), null)
    if null is None:
        made.estimate(session, kernels(2))
    else:
        made.test(session, kernels(2), null)
    assert [step.name for step in plan.passes] == [done.name for done in session.finished]


def test_plan__grows_with_locations_and_resamples():
    session = session_on(setting(5000, 2))
    peak = {
        (j, b): random(j)
        .plan(session, Combinations.single(kernels(2)), Permutation(b, within="blocks"))
        .peak_worker_bytes
        for j, b in [(5, 100), (10, 100), (10, 400)]
    }
    assert peak[5, 100] < peak[10, 100] < peak[10, 400]
    assert peak[10, 400] - peak[10, 100] > 300 * 8 * 10


def test_estimate__needs_two_rows_besides_those_to_train_on():
    x = np.array([1.0, 2.0])
    match = r"at least 2 rows besides those to train on, got 1: .* NFSIC\(placement='random'\)"
    with pytest.raises(DataError, match=match):
        dhsic.hsic(x, x, estimator="nfsic", rng=0)
    assert dhsic.hsic(x, x, estimator=NFSIC(placement="random"), rng=0).estimate > 0.1
