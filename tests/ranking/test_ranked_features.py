"""Ranking by Nystrom features: their definition, targets that repeat, memory, many kernels."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

import dhsic
from dhsic._random import random_signs
from dhsic.engine.reduction import RowBlock
from dhsic.errors import MemoryBudgetError
from dhsic.estimators import NystromHSIC
from dhsic.estimators.feature.basis import Side
from dhsic.estimators.feature.layout import KernelSide, Layout
from dhsic.estimators.feature.moments import MomentsPass
from dhsic.estimators.feature.signs import SignedFeaturePass
from dhsic.estimators.resample import Orbit
from dhsic.features import KernelFeatures
from dhsic.kernels import Candidates, Combinations, Gaussian, Grid, Laplacian, OnColumns
from dhsic.landmarks import uniform_rows
from dhsic.ranking.rank import open_columns
from tests import oracles
from tests.estimators.features import (
    centred,
    cross_covariance,
    frobenius,
    orders_of_permutations,
    permuted_statistics,
    signed_statistics,
)

NULLS = [
    dhsic.Multiplier(15),
    dhsic.Permutation(15, "all"),
    dhsic.Permutation(15, "groups", 64),
    dhsic.Shifts(15),
]


def make(n=300, d=4, seed=0, values=None):
    """Columns, and a target of so many values, or one that hardly repeats itself."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    y = x[:, 0] ** 2 + 0.5 * rng.standard_normal(n)
    return x, y if values is None else np.floor(values * (np.argsort(np.argsort(y)) / n))


def against(d):
    return Combinations.against([OnColumns(Gaussian(), (j,)) for j in range(d)], Gaussian())


def opened(x, y, seed=3, precision="float64", memory="2GiB"):
    return open_columns(x, y, seed, precision, None, 2, memory)


def roots(x, landmarks, gamma):
    """Symmetric Nystrom features: any root of the inverse gives the same norms."""
    values, vectors = np.linalg.eigh(oracles.gaussian_gram(landmarks, landmarks, gamma))
    return oracles.gaussian_gram(landmarks, x, gamma).T @ (vectors / np.sqrt(values))


@pytest.mark.parametrize("values", [None, 4])
@pytest.mark.parametrize("resampling", ["multiplier", "permutation", "shifts"])
def test_rank__is_the_naive_definition(resampling, values):
    x, y = make(60, 3, values=values)
    y = y[:, None] + 1e-3 * np.arange(60)[:, None] if values is None else y[:, None]
    p, b, seed = 4, 12, 8
    null = {
        "multiplier": dhsic.Multiplier(b),
        "permutation": dhsic.Permutation(b, "all"),
        "shifts": dhsic.Shifts(b),
    }[resampling]
    kernels = [OnColumns(Gaussian(gamma=0.3 + c), (c,)) for c in range(3)]
    combinations = Combinations.against(kernels, Gaussian(gamma=0.2))
    found = NystromHSIC(p, tolerance=1e-14).test_features(opened(x, y, seed), combinations, null)
    rows = uniform_rows(seed, 60, p, 2, pairing="independent", replace=False)
    second = roots(y, np.unique(y[rows[1]], axis=0), 0.2)
    signs = random_signs(seed, 0, 60, b).astype(float)
    orders = {
        "shifts": oracles.orders_of_orbit(Orbit.of(60, b, seed))[1:],
        "permutation": orders_of_permutations(60, dhsic.Permutation(b, "all"), seed),
    }.get(resampling)
    for c in range(3):
        first = roots(x[:, [c]], x[rows[0]][:, [c]], 0.3 + c)
        cross = cross_covariance(first, second)
        assert found.statistics[c] == pytest.approx(60 * np.sum(cross**2), rel=1e-8)
        expected = (
            signed_statistics(first, second, signs, frobenius)
            if resampling == "multiplier"
            else permuted_statistics(first, second, orders, frobenius)
        )
        np.testing.assert_allclose(found.replicates[:, c], expected, rtol=1e-8)
        own, target = (np.sum((centred(f).T @ centred(f) / 60) ** 2) for f in (first, second))
        assert found.estimates.hsic[c] == pytest.approx(np.sum(cross**2), rel=1e-8)
        assert found.estimates.own[c] == pytest.approx(own, rel=1e-8)
        assert found.estimates.target[c] == pytest.approx(target, rel=1e-8)


@pytest.mark.parametrize("values", [2, 30])
@pytest.mark.parametrize("null", NULLS, ids=repr)
def test_rank__of_a_target_that_repeats_is_the_single_test(null, values):
    x, y = make(2500, 3, values=values)
    found = NystromHSIC(60).test_features(opened(x, y), against(3), null)
    for c in range(3):
        single = dhsic.independence_test(
            x[:, c], y, kernels="gaussian", null=null, estimator=NystromHSIC(60), rng=3
        )
        assert found.statistics[c] == pytest.approx(single.statistic, rel=1e-9)
        np.testing.assert_allclose(found.replicates[:, c], single.null_distribution, rtol=1e-9)


def stacked(dtype, values, d=30, n=40_000):
    """Features of 30 columns and those of a target, with a block of rows."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((n, d)), rng.standard_normal((n, 1))
    y = y if values is None else np.floor(values * rng.random((n, 1)))
    columns = [OnColumns(Gaussian(), (j,)).fit(x[:100]) for j in range(d)]
    grid = np.linspace(y.min(), y.max(), 8)[:, None]
    target = KernelFeatures.at(grid, Gaussian().fit(y[:100]), dtype)
    sides = [Side.of(KernelFeatures.at(x[:9], k, dtype), x[:100]) for k in columns]
    kernels = {k: KernelSide.plain(0, side) for k, side in enumerate(sides)}
    kernels[d] = KernelSide.plain(1, Side.of(target, y[:100]))
    return kernels, [(k, d) for k in range(d)], RowBlock(7, (x, y))


@pytest.mark.parametrize("values", [None, 5, 60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pairs", [None, [(0, 2), (1, 3)]])
def test_signed_pass__is_a_sum_over_rows_whatever_the_target(dtype, values, pairs):
    """Also of several rectangles."""
    kernels, whole, block = stacked(dtype, values, d=2, n=3000)
    kernels[3] = kernels[2]
    layout = Layout.of(kernels, pairs or whole)
    found = SignedFeaturePass(layout, 40, 3).chunk(block)
    features = layout.features(block.values).astype(float)
    signs = np.hstack([np.ones((3000, 1)), random_signs(3, 7, 3007, 40)])
    rtol = 1e-11 if dtype is np.float64 else 1e-5
    close = partial(np.testing.assert_allclose, rtol=rtol, atol=3000 * rtol)
    for one in layout.crossings:
        first, second = features[:, one.first], features[:, one.second]
        close(one.of(found.cross), np.einsum("ib,ij,ik->bjk", signs, first, second, optimize=True))
    close(found.sums, signs.T @ features)
    close(found.signs, signs.sum(axis=0))
    assert found.cross.dtype == np.float64


@pytest.mark.parametrize("name", ["signs", "moments"])
@pytest.mark.parametrize("values", [None, 60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pass__needs_no_more_memory_than_it_states(dtype, values, name):
    kernels, pairs, block = stacked(dtype, values)
    layout = Layout.of(kernels, pairs)
    reduction = SignedFeaturePass(layout, 50, 3) if name == "signs" else MomentsPass(layout)
    cost = reduction.footprint(block.rows)
    tracemalloc.start()
    try:
        state = reduction.chunk(block)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert cost.state == sum(x.nbytes for x in state)
    assert peak < 1.05 * (cost.scratch + cost.state) + 500_000


def test_estimates__are_those_of_hsic():
    x, y = make()
    found = NystromHSIC(40).estimate_features(opened(x, y), against(4))
    singles = [dhsic.hsic(x[:, j], y, estimator=NystromHSIC(40), rng=3).estimate for j in range(4)]
    np.testing.assert_allclose(found.hsic, singles, rtol=1e-8)
    assert found.landmarks.kept == tuple(
        dhsic.hsic(x[:, j], y, estimator=NystromHSIC(40), rng=3).landmarks.kept[0] for j in range(4)
    )


def test_cka__of_a_copy_is_1_and_takes_no_notice_of_units():
    x, y = make(300, 2)
    x[:, 1] = 1000 * y
    ranking = dhsic.rank_features(x, y, estimator="nystrom-hsic", by="cka", rng=0, n_resamples=9)
    assert ranking.ranked()[0].name == "x[1]"
    assert ranking.features[1].cka == pytest.approx(1.0, abs=0.02)


def test_rank__float32_comes_near():
    x, y = make(500, values=12)
    options = {"rng": 0, "null": "multiplier", "estimator": "nystrom-hsic"}
    single = dhsic.rank_features(x, y, precision="float32", **options)
    double = dhsic.rank_features(x, y, **options)
    for a, b in zip(single.features, double.features, strict=True):
        assert a.hsic == pytest.approx(b.hsic, rel=0.02, abs=3e-5)
        assert a.cka == pytest.approx(b.cka, rel=0.02, abs=1e-3)


@pytest.mark.parametrize(
    "options",
    [{"n_landmarks": 30}, {"replace": True}, {"tolerance": 1e-3}],
    ids=lambda options: next(iter(options)),
)
def test_rank__heeds_every_option(options):
    x, y = make(values=12)
    plain, other = (
        dhsic.rank_features(x, y, estimator=NystromHSIC(**some), rng=0, n_resamples=9)
        for some in ({}, options)
    )
    assert [f.statistic for f in plain.features] != [f.statistic for f in other.features]


@pytest.mark.parametrize("null", NULLS, ids=repr)
def test_plan__is_what_runs(null):
    x, y = make(values=12)
    options = {"null": null, "estimator": "nystrom-hsic"}
    plan = dhsic.plan_ranking(x, y, **options)
    ranking = dhsic.rank_features(x, y, rng=0, **options)
    assert [done.name for done in ranking.passes] == [done.name for done in plan.passes]


@pytest.mark.parametrize("null", NULLS, ids=repr)
def test_rank__takes_features_in_parts_where_memory_is_short(null, no_libraries):
    x, y = make(3000, 24, values=12)
    estimator, memory = NystromHSIC(40), 24_000_000
    short, large = opened(x, y, memory=memory), opened(x, y)
    plan = estimator.plan(short, against(24), null)
    assert len(plan.check().steps) > len(estimator.plan(large, against(24), null).steps)
    parted = estimator.test_features(short, against(24), null)
    whole = estimator.test_features(large, against(24), null)
    np.testing.assert_allclose(parted.replicates, whole.replicates, rtol=1e-9)
    np.testing.assert_allclose(parted.estimates.cka(), whole.estimates.cka(), rtol=1e-9)


def test_rank__refuses_rough_kernels_that_need_more_memory_than_is_allowed(no_libraries):
    x, y = make(3000, 2)
    options = {"estimator": NystromHSIC(1500), "null": dhsic.Multiplier(9), "memory": 100_000_000}
    dhsic.rank_features(x, y, rng=0, **options)
    with pytest.raises(MemoryBudgetError, match="take fewer landmarks"):
        dhsic.rank_features(
            x, y, rng=0, feature_kernels=Laplacian(), target_kernel=Laplacian(), **options
        )


@pytest.mark.parametrize("values", [None, 3])
@pytest.mark.parametrize("null", ["multiplier", "permutation"])
def test_rank__keeps_the_family_wise_level(null, values):
    """12 dependent columns that y is independent of: 40 families at 10 %."""
    rng, false = np.random.default_rng(78), 0
    for seed in range(40):
        x = rng.standard_normal((80, 1)) + 0.7 * rng.standard_normal((80, 12))
        y = rng.standard_normal(80) if values is None else rng.integers(0, values, 80)
        ranking = dhsic.rank_features(
            x, y, null=null, n_resamples=39, rng=seed, estimator=NystromHSIC(12), threads=1
        )
        false += len(ranking.rejected(0.1, "max-t")) > 0
    assert false <= binom.ppf(0.999, 40, 0.1)


@pytest.mark.parametrize("values", [None, 6])
def test_rank__finds_the_relevant_and_keeps_the_rest(values):
    x, y = make(400, 20, values=values)
    ranking = dhsic.rank_features(x, y, estimator="nystrom-hsic", rng=0, n_resamples=399)
    assert ranking.rejected(0.05, "max-t") == ("x[0]",)


def test_rank__is_the_same_on_workers(client):
    x, y = make(9000, 2, values=20)
    options = {"rng": 0, "estimator": NystromHSIC(20), "n_resamples": 19}
    there, here = (dhsic.rank_features(x, y, client=c, **options) for c in (client, None))
    assert there.features == here.features


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "nystrom-hsic"),
        ({"feature_kernels": ["gaussian", "laplacian"]}, "nystrom-m"),
        ({"target_kernel": "laplacian"}, "nystrom-m"),
        ({"groups": [["x[0]", "x[1]"]]}, "nystrom-m"),
    ],
    ids=str,
)
def test_auto__takes_it_for_smooth_kernels_of_single_columns(options, name):
    x, y = make(12_000, 2, values=12)
    ranking = dhsic.rank_features(x, y, estimator="auto", rng=0, n_resamples=99, **options)
    assert ranking.estimator == name
    assert ("single columns keep few landmarks" in ranking.estimator_reason) == (not options)


def test_auto__does_not_take_it_for_a_target_of_two_columns():
    x, y = make(12_000, 2)
    found = dhsic.rank_features(
        x, np.column_stack([y, x[:, 0]]), estimator="auto", rng=0, n_resamples=99
    )
    assert found.estimator == "nystrom-m"


@pytest.mark.parametrize("null", NULLS, ids=repr)
def test_grid__equals_every_combination_by_itself(null):
    x, y = make(200, 2, values=12)
    grid = Grid(Candidates(("gaussian", "laplacian"), factors=(0.5, 2)), combine="all")
    estimator = NystromHSIC(10)
    found = estimator.test_grid(opened(x, y), grid.combinations(2), null)
    for g in range(len(found.combinations)):
        alone = estimator.test(opened(x, y), found.combinations.kernels_of(g), null)
        assert found.statistics[g] == pytest.approx(alone.statistic, rel=1e-9)
        np.testing.assert_allclose(found.replicates[:, g], alone.distribution.values, rtol=1e-9)
        estimate = found.estimate(g)
        assert estimate.value == pytest.approx(alone.estimate.value, rel=1e-9)
        assert (estimate.kernels, estimate.landmarks) == (
            alone.estimate.kernels,
            alone.estimate.landmarks,
        )
