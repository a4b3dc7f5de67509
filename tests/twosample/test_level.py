"""Rejection rates of tests of samples: the level under the null, more under alternatives."""

from itertools import islice

import numpy as np
import pytest

import dhsic
from dhsic.estimators import TABLE
from dhsic.twosample import MMD_ESTIMATORS
from tests.estimators.levels import Check

NULLS = (
    dhsic.Permutation(19),
    dhsic.Permutation(19, within="groups", group_rows=30),
    dhsic.Multiplier(39),
    dhsic.Gamma(),
    dhsic.Spectral(),
    dhsic.Normal(),
)
SUPPORTED = {entry.estimator: entry.nulls for entry in TABLE}
PAIRS = [
    pytest.param(name, null, id=f"{name}-{null.name}{getattr(null, 'group_rows', '')}")
    for name, cls in MMD_ESTIMATORS.items()
    for null in NULLS
    if type(null) in SUPPORTED[cls]
]


def draw(sizes, rng, shift=0.0):
    """Normals; the last sample is shifted."""
    drawn = [rng.standard_normal((size, 1)) for size in sizes]
    drawn[-1] += shift
    return drawn


def rejections(sizes, shift=0.0, alpha=0.1, **options):
    seed = 0
    while True:
        data = draw(sizes, np.random.default_rng([11, seed]), shift)
        options = {"kernels": "gaussian", **options}
        yield dhsic.two_sample_test(*data, rng=seed, threads=1, **options).pvalue <= alpha + 1e-9
        seed += 1


def keeps(rejected, runs, alpha=0.1):
    """No more rejections than all but one in 2,000 tests of that level make."""
    return Check.of(runs, alpha).passes(rejected)


@pytest.mark.parametrize(("estimator", "null"), PAIRS)
def test_level__is_kept_for_unequal_samples(estimator, null):
    assert keeps(rejections((35, 20), estimator=estimator, null=null), 40)


@pytest.mark.parametrize(("estimator", "null"), PAIRS)
def test_power__is_far_above_the_level(estimator, null):
    rejected = rejections((70, 50), 1.0, estimator=estimator, null=null)
    assert sum(islice(rejected, 10)) >= 6


@pytest.mark.parametrize(
    "options",
    [
        {"estimator": dhsic.NystromMHSIC(8)},
        {"estimator": dhsic.NystromMHSIC(8, selection="rpcholesky")},
        {"kernels": None},
    ],
    ids=["few landmarks", "selected landmarks", "grid"],
)
def test_permutations__are_exact_with_pooled_landmarks(options):
    """Neither above nor below the level, with 5 rows in the smaller sample."""
    runs, options = 200, {"null": dhsic.Permutation(9, within="all"), **options}
    assert Check.of(runs, 0.1, least=0.1).passes(rejections((15, 5), **options))


def test_k_samples__keep_the_level_and_see_one_that_differs():
    options = {"null": dhsic.Permutation(19)}
    assert keeps(rejections((20, 15, 10, 12), **options), 100)
    assert sum(islice(rejections((50, 40, 30, 40), 1.2, **options), 10)) >= 8


def test_very_unequal_samples__have_power():
    rejected = rejections((2_000, 12), 2.0, null=dhsic.Permutation(19, within="all"))
    assert sum(islice(rejected, 5)) >= 4


def test_spread__is_seen_by_the_grid():
    found = 0
    for seed in range(6):
        x, y = np.random.default_rng([5, seed]).standard_normal((2, 300))
        found += dhsic.two_sample_test(x, 1.5 * y, rng=seed, n_resamples=99).pvalue <= 0.05
    assert found >= 5
