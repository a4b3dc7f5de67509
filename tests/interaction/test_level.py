"""Rejection rates of the Lancaster test: the level where a factorisation holds, power elsewhere."""

from itertools import islice

import numpy as np
import pytest
from scipy.stats import binom

import dhsic
from benchmarks.shared.cases import joint_triple
from tests.estimators.levels import Check

FEW = dhsic.NystromMHSIC(12)
METHODS = {
    "permutation": {"null": dhsic.Permutation(19, "all"), "estimator": FEW},
    "groups": {"null": dhsic.Permutation(19, "groups", group_rows=20), "estimator": FEW},
    "multiplier": {"null": dhsic.Multiplier(39), "estimator": FEW},
    "selected": {
        "null": dhsic.Permutation(19, "all"),
        "estimator": dhsic.NystromMHSIC(12, selection="rpcholesky"),
    },
    "pairs, permutation": {"null": dhsic.Permutation(19), "estimator": "v-lancaster"},
    "pairs, multiplier": {"null": dhsic.Multiplier(39), "estimator": "v-lancaster"},
}
EXACT = ("permutation", "groups", "selected", "pairs, permutation")
SLOW = ("selected", "pairs, permutation")
LEVELS = [(method, s) for method in METHODS for s in ((1,) if method in SLOW else (0, 1, 2))]


def separated(s, n, rng):
    """Two variables that depend, and one independent of both, at place s."""
    x = rng.standard_normal(n)
    data = [x, x**2 + 0.3 * rng.standard_normal(n)]
    data.insert(s, rng.standard_normal(n))
    return data


def weak_causes(n, rng):
    """Each of two correlated causes says little of the third, and both say much."""
    x, y = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.3], [0.3, 1.0]], n).T
    return [x, y, x * y + 0.3 * x + 0.3 * rng.standard_normal(n)]


def results(draw, method):
    seed = 0
    while True:
        data = draw(np.random.default_rng([13, seed]))
        yield dhsic.interaction_test(*data, rng=seed, threads=1, **METHODS[method])
        seed += 1


@pytest.mark.parametrize(("method", "s"), LEVELS)
def test_level__of_a_factorisation_that_holds(method, s):
    """Permutations reject as often as the level says; signs, of so few rows, hardly more often."""

    def rejects(one):
        assert one.pvalue == max(f.pvalue for f in one.factorisations)
        return one.factorisations[s].pvalue <= 0.1 + 1e-9

    found = results(lambda rng: separated(s, 40, rng), method)
    level, least = (0.1, 0.1) if method in EXACT else (0.12, 0.0)
    assert Check.of(80, level, least=least).passes(map(rejects, found))


# Seed 1 of the triples is the one in a thousand whose neighbours are alike by chance.
@pytest.mark.filterwarnings("ignore::dhsic.errors.DependentRowsWarning")
@pytest.mark.parametrize("draw", [joint_triple, weak_causes])
@pytest.mark.parametrize("method", METHODS)
def test_power__is_far_above_the_level(method, draw):
    found = islice(results(lambda rng: draw(100, rng), method), 8)
    assert sum(one.pvalue <= 0.1 + 1e-9 for one in found) >= 6


def test_dependent_pair__is_no_interaction():
    """What the test of joint independence rejects in every run."""
    rejected = 0
    for seed in range(15):
        data = separated(2, 100, np.random.default_rng([17, seed]))
        options = {"kernels": "gaussian", "rng": seed, "n_resamples": 19}
        assert dhsic.independence_test(*data, **options).pvalue <= 0.05
        rejected += dhsic.interaction_test(*data, **options).pvalue <= 0.05
    assert rejected <= binom.ppf(0.9995, 15, 0.05)
