"""The Lancaster statistic and its replicates against their definitions."""

from types import SimpleNamespace

import numpy as np
import pytest

import dhsic
from dhsic._random import random_signs
from dhsic.engine.groups import Groups
from dhsic.estimators.resample import orbit_of
from dhsic.interaction.landmarks import FACTORISATIONS
from dhsic.kernels import Gaussian
from dhsic.landmarks import uniform_rows
from dhsic.nulls import Replicates, pvalue
from tests import oracles

GAMMA = 3.0
N, P, SEED = 24, 10, 5
TOLERANCE = {"float64": 1e-10, "float32": 1e-4}


@pytest.fixture(scope="module")
def data():
    """Variables that depend in pairs and in threes; landmark Gram matrices well conditioned."""
    rng = np.random.default_rng(1)
    x, y, z = (rng.standard_normal((N, d)) for d in (2, 3, 2))
    y[:, 0] += 0.5 * x[:, 0]
    z[:, 0] += x[:, 0] * y[:, 1]
    return [x, y, z]


def at_landmarks(data):
    rows = uniform_rows(SEED, N, P, 3, pairing="independent", replace=False)
    points = [x[r] for x, r in zip(data, rows, strict=True)]
    joint = np.prod([oracles.gaussian_gram(z, z, GAMMA) for z in points], axis=0)
    return joint, [oracles.gaussian_gram(z, x, GAMMA) for z, x in zip(points, data, strict=True)]


def run(data, null, estimator="v-lancaster", **options):
    if estimator != "v-lancaster":
        estimator = dhsic.NystromMHSIC(P, tolerance=0.0)
    given = {"kernels": Gaussian(gamma=GAMMA), "rng": SEED, **options}
    return dhsic.interaction_test(*data, null=null, estimator=estimator, **given)


def check_replicates(result, expected, statistic, rel=1e-10):
    """P-values of the three expected columns, and the replicates of the largest."""
    expected = np.array(expected)
    found = [one.pvalue for one in result.factorisations]
    assert found == [pvalue(statistic, Replicates(column)) for column in expected]
    assert len(set(found)) > 1
    largest = int(np.argmax(found))
    np.testing.assert_allclose(result.null_distribution, expected[largest], rtol=rel)


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("null", [dhsic.Multiplier(3), dhsic.Permutation(3)], ids=repr)
def test_statistic__is_that_of_the_signed_measure(data, null, precision):
    rel = TOLERANCE[precision]
    exact = run(data, null, precision=precision)
    grams = [oracles.gaussian_gram(x, x, GAMMA) for x in data]
    assert exact.estimate == pytest.approx(oracles.v_lancaster(grams), rel=rel)
    assert exact.statistic == pytest.approx(N * exact.estimate, rel=1e-12)
    near = run(data, null, "nystrom-lancaster", precision=precision)
    assert near.statistic == pytest.approx(oracles.nystrom_lancaster(*at_landmarks(data)), rel=rel)
    assert near.estimate == pytest.approx(near.statistic / N, rel=1e-12)


def test_all_values_as_landmarks__give_the_v_statistic():
    """The triples of two values each are eight, which landmarks drawn apart have all."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 2, (2, 90))
    z = np.where(rng.random(90) < 0.8, x ^ y, x)
    options = {"n_resamples": 3, "rng": 0, "kernels": "gaussian:1"}
    exact = dhsic.interaction_test(x, y, z, estimator="v-lancaster", **options)
    near = dhsic.interaction_test(x, y, z, estimator=dhsic.NystromMHSIC(90), **options)
    assert near.landmarks.kept == 8
    assert near.statistic == pytest.approx(exact.statistic, rel=1e-10)


@pytest.mark.parametrize("within", ["all", "groups"])
def test_permutations_at_landmarks__permute_the_separated_variable(data, within):
    null = dhsic.Permutation(60, within, group_rows=10)
    result = run(data, null, "nystrom-lancaster")
    orders = oracles.orders_of_permutations(N, null, SEED, range(3))
    joint, crosses = at_landmarks(data)
    expected = []
    for s in range(3):
        moved = [
            [c[:, order] if m == s else c for m, c in enumerate(crosses)] for order in orders[:, s]
        ]
        expected.append([oracles.nystrom_lancaster(joint, one) for one in moved])
    check_replicates(result, expected, oracles.nystrom_lancaster(joint, crosses))


def test_permutations_of_pairs__permute_the_separated_variable(data):
    result = run(data, dhsic.Permutation(60))
    grams = [oracles.gaussian_gram(x, x, GAMMA) for x in data]
    orbit = orbit_of(SimpleNamespace(n=N, seed=SEED, moves=None), dhsic.Permutation(60))
    orders = oracles.permutations_of_orbit(orbit)[:, 0]
    expected = []
    for s in range(3):
        moved = [
            [k[np.ix_(order, order)] if m == s else k for m, k in enumerate(grams)]
            for order in orders
        ]
        expected.append([N * oracles.v_lancaster(one) for one in moved])
    check_replicates(result, expected, N * oracles.v_lancaster(grams))


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
def test_signs_at_landmarks__equal_their_definition(data):
    result = run(data, dhsic.Multiplier(200), "nystrom-lancaster")
    signs = random_signs(SEED, 0, N, 200).astype(float)
    joint, crosses = at_landmarks(data)
    expected = [oracles.lancaster_signs(joint, crosses, s, signs) for s in range(3)]
    check_replicates(result, expected, oracles.nystrom_lancaster(joint, crosses))


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
def test_signs_of_pairs__equal_their_definition(data):
    result = run(data, dhsic.Multiplier(200))
    signs = np.empty((N, 200))
    signs[oracles.rows_of_groups(Groups(N, N, SEED))] = random_signs(SEED, 0, N, 200)
    signs -= signs.mean(axis=0)
    centring = np.eye(N) - 1.0 / N
    grams = [centring @ oracles.gaussian_gram(x, x, GAMMA) @ centring for x in data]
    expected = []
    for a, b, s in FACTORISATIONS:
        gram = centring @ (grams[a] * grams[b]) @ centring * grams[s]
        expected.append([w @ gram @ w / (N - 2) for w in signs.T])
    unsigned = oracles.v_lancaster([oracles.gaussian_gram(x, x, GAMMA) for x in data])
    check_replicates(result, expected, N * unsigned)
