"""RFF-HSIC of several kernels at once against tests of every combination by itself."""

import numpy as np
import pytest

from dhsic.engine.events import PassStarted
from dhsic.engine.session import Session
from dhsic.errors import MemoryBudgetError
from dhsic.estimators.base import GridEstimator
from dhsic.estimators.feature_basis import Measure, Side, squared_frobenius_norms
from dhsic.estimators.feature_replicates import Patch
from dhsic.estimators.feature_sums import FeaturePair
from dhsic.estimators.rff import RFFHSIC
from dhsic.features import ColumnFeatures, StackedFeatures
from dhsic.kernels import Candidates, Gaussian, Grid, Laplacian
from dhsic.nulls import Multiplier, Permutation
from tests.estimators.features import dependent, session_on

ALL = Grid(Candidates(factors=(0.5, 1, 2)), combine="all")
NULLS = {
    "signs": Multiplier(7),
    "all rows": Permutation(7, within="all"),
    "groups": Permutation(7, within="blocks", block_rows=25),
}
EVERY_NULL = pytest.mark.parametrize("name", NULLS)
LITTLE = 3 * 2**26


def grid_of(data, grid, null, estimator=None, **options):
    made = estimator or RFFHSIC(n_features=8)
    return made.test_grid(session_on(data, **options), grid.combinations(2), null)


def check_against_singles(data, grid, null, estimator, precision="float64"):
    tol = 1e-10 if precision == "float64" else 1e-4
    found = grid_of(data, grid, null, estimator, precision=precision)
    count = len(grid.combinations(2))
    assert found.statistics.shape == found.rounding.shape == (count,)
    assert found.replicates.shape == (null.n_resamples, count)
    for g in range(count):
        kernels = found.combinations.kernels_of(g)
        alone = estimator.test(session_on(data, precision=precision), kernels, null)
        assert found.statistics[g] == pytest.approx(alone.statistic, rel=tol)
        np.testing.assert_allclose(found.replicates[:, g], alone.distribution.values, rtol=tol)
        assert found.rounding[g] == pytest.approx(alone.rounding, rel=tol)
        estimate = found.estimate(g)
        assert estimate.value == pytest.approx(alone.estimate.value, rel=tol)
        assert (estimate.kernels, estimate.features) == (kernels, alone.estimate.features)
        assert found.detail == alone.detail
    return found


@EVERY_NULL
@pytest.mark.parametrize("form", ["cos-sin", "complex"])
@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_grid__equals_every_combination_by_itself(name, form, orthogonal, precision):
    estimator = RFFHSIC(n_features=8, form=form, orthogonal=orthogonal)
    check_against_singles(dependent(60), ALL, NULLS[name], estimator, precision)


@EVERY_NULL
@pytest.mark.parametrize(
    "combine",
    ["all", "matched", ((0, 3), (2, 0), (1, 1), (1, 3)), ((3, 2), (3, 1), (0, 1), (0, 2))],
)
def test_grid__of_mixed_families_and_any_combinations(name, combine):
    mixed = Candidates(("gaussian", Laplacian(gamma=0.4)), factors=(0.5, 2))
    grid = Grid(mixed, combine=combine)
    found = check_against_singles(dependent(60), grid, NULLS[name], RFFHSIC(n_features=5))
    assert len(np.unique(found.statistics)) == len(grid.combinations(2))


def test_grid__may_have_other_candidates_of_either_variable():
    grid = Grid((Candidates(factors=(1, 4)), Candidates("laplacian", factors=(0.5, 1, 3))))
    check_against_singles(dependent(60), grid, NULLS["signs"], RFFHSIC(n_features=5))


def test_candidates__are_widened_kernels_that_follow_the_units():
    x, y = dependent(60)
    grid = Grid(Candidates(factors=(1, 2)), combine="matched")
    plain = grid_of((x, y), grid, NULLS["signs"])
    moved = grid_of((1e3 * x + 5, 1e-3 * y), grid, NULLS["signs"])
    np.testing.assert_allclose(moved.statistics, plain.statistics, rtol=1e-8)
    one, two = (plain.combinations.kernels_of(g)[0].gamma for g in range(2))
    assert one == pytest.approx(4 * two)


@pytest.mark.parametrize("null", NULLS.values(), ids=NULLS)
def test_threads_and_workers__give_the_same_bits(null, client):
    data = dependent(400)
    here = grid_of(data, ALL, null)
    there = grid_of(data, ALL, null, client=client)
    np.testing.assert_array_equal(there.statistics, here.statistics)
    np.testing.assert_array_equal(there.replicates, here.replicates)


def passes_of(data, grid, null, estimator, memory):
    started = []
    session = session_on(data, memory=memory)
    session = Session(session.sources, session.runtime, 5, listener=started.append)
    plan = estimator.plan_grid(session, grid.combinations(2), null)
    found = estimator.test_grid(session, grid.combinations(2), null)
    return plan, found, [e.name for e in started if isinstance(e, PassStarted)]


@pytest.mark.parametrize("null", [Multiplier(99), Permutation(99, within="blocks", block_rows=500)])
def test_little_memory__takes_more_passes_and_gives_the_same(null):
    data, estimator = dependent(1000), RFFHSIC(n_features=20)
    large, found, once = passes_of(data, ALL, null, estimator, 2**32)
    assert once == [null_pass.name for null_pass in large.passes]
    assert len(once) == 1
    small, same, often = passes_of(data, ALL, null, estimator, LITTLE)
    assert often == [null_pass.name for null_pass in small.passes]
    assert 1 < len(often) < 9
    assert small.peak_worker_bytes < large.peak_worker_bytes
    np.testing.assert_allclose(same.replicates, found.replicates, rtol=1e-10)
    np.testing.assert_allclose(same.statistics, found.statistics, rtol=1e-10)


def test_little_memory__holds_the_features_of_fewer_kernels():
    data, null, estimator = dependent(4000), NULLS["all rows"], RFFHSIC(n_features=40)
    large, found, once = passes_of(data, ALL, null, estimator, 2**32)
    small, same, often = passes_of(data, ALL, null, estimator, LITTLE)
    assert (len(once), len(large.steps)) == (1, 5)
    assert len(often) > 1
    assert len(small.steps) == 3 + 2 * len(often)
    assert small.peak_worker_bytes < large.peak_worker_bytes
    np.testing.assert_allclose(same.replicates, found.replicates, rtol=1e-10)


def test_matched_combinations__take_no_more_than_their_own_blocks():
    matched = Grid(ALL.candidates, combine="matched")
    session, null = session_on(dependent(1000), memory=2**33), Multiplier(99)
    plan = RFFHSIC().plan_grid(session, matched.combinations(2), null)
    single = RFFHSIC().plan(session, (Gaussian(),) * 2, null)
    assert [step.bytes_to_driver for step in plan.passes] == 3 * [
        step.bytes_to_driver for step in single.passes
    ]


@pytest.mark.parametrize("null", [Multiplier(99), Permutation(99, within="all")])
def test_plan__grows_with_the_grid(null):
    session = session_on(dependent(2000), memory=2**34)
    peaks = [
        RFFHSIC()
        .plan_grid(session, Grid(Candidates(factors=factors)).combinations(2), null)
        .peak_worker_bytes
        for factors in [(1,), (1, 2), (0.5, 1, 2)]
    ]
    assert peaks == sorted(set(peaks))
    if isinstance(null, Multiplier):
        assert peaks[2] - peaks[1] > 100 * 8 * 200**2 * (9 - 4)


def test_plan__that_does_not_fit_names_what_helps():
    session = session_on(dependent(1000), memory=700 * 2**20)
    combinations, null = ALL.combinations(2), Multiplier(500)
    with pytest.raises(MemoryBudgetError, match="take fewer features, fewer kernels"):
        RFFHSIC(n_features=200).plan_grid(session, combinations, null).check()
    RFFHSIC(n_features=50).plan_grid(session, combinations, null).check()
    RFFHSIC(n_features=200).plan_grid(session, combinations, Multiplier(30)).check()


def test_auto_permutation__holds_all_rows_for_a_grid_as_for_a_single_kernel():
    session, null = session_on(dependent(5000)), Permutation(99)
    estimator = RFFHSIC(n_features=20)
    for combinations in (ALL.combinations(2), Grid(Candidates(factors=(1,))).combinations(2)):
        names = [step.name for step in estimator.plan_grid(session, combinations, null).steps]
        assert "features of all rows" in names


def test_rff_hsic__tries_grids():
    assert isinstance(RFFHSIC(), GridEstimator)


def sides(*dims):
    maps = [ColumnFeatures(np.zeros(d), np.ones(d), np.dtype(float)) for d in dims]
    return {k: Side(one, np.zeros(one.n_features)) for k, one in enumerate(maps)}


def test_patch__is_cut_until_it_fits():
    made = sides(2, 2, 2, 3, 3)
    whole = Patch({k: made[k] for k in (0, 1, 2)}, {k: made[k] for k in (3, 4)})
    assert [p.pairs for p in whole.cut(lambda _: True)] == [whole.pairs]
    parts = list(whole.cut(lambda features: sum(features.counts) <= 8))
    assert sorted(pair for part in parts for pair in part.pairs) == whole.pairs
    assert max(sum(part.features.counts) for part in parts) <= 8
    assert len(list(whole.cut(lambda _: False))) == 6


def test_patch__whitens_every_block_by_its_own_factors():
    rng = np.random.default_rng(0)
    factors = [np.linalg.cholesky(np.cov(rng.standard_normal((d, 50)))) for d in (2, 3, 2)]
    made = {
        k: side._replace(factor=factor)
        for (k, side), factor in zip(sides(2, 3, 2).items(), factors, strict=True)
    }
    patch = Patch({0: made[0], 1: made[1]}, {2: made[2]})
    measure = Measure("size", squared_frobenius_norms)
    first, second = rng.standard_normal((40, 5)), rng.standard_normal((40, 2))
    expected = [
        np.sum((np.linalg.inv(f) @ first[:, at].T @ second @ np.linalg.inv(factors[2]).T) ** 2)
        for f, at in zip(factors[:2], (slice(0, 2), slice(2, 5)), strict=True)
    ]
    cross = (first.T @ second)[None]
    np.testing.assert_allclose(patch.sizes(measure, cross)[0], expected, rtol=1e-12)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_permutation__leaves_out_directions_in_which_rows_do_not_differ(precision, monkeypatch):
    held, mapped = [], Session.map

    def listen(session, name, function, count):
        held.append(function)
        return mapped(session, name, function, count)

    monkeypatch.setattr(Session, "map", listen)
    x, y = dependent(500, (1, 8))
    grid_of((x, y), ALL, NULLS["all rows"], RFFHSIC(n_features=50), precision=precision)
    (features,) = held
    assert features.first.dtype == precision
    assert features.first.shape[1] < 100
    assert features.second.shape[1] == 300
    assert [span.directions.shape[0] for span in features.firsts] == [100] * 3


def test_stacked_features__are_those_of_the_parts_side_by_side():
    x = np.random.default_rng(0).standard_normal((7, 2))
    one = ColumnFeatures.of(x, np.float32)
    other = ColumnFeatures(one.centre + 1, one.scale, one.dtype)
    stacked = StackedFeatures.of([one, other])
    assert stacked.n_features == 4
    assert stacked(x).dtype == stacked.dtype == np.float32
    assert stacked(x).flags.c_contiguous
    np.testing.assert_array_equal(stacked(x), np.hstack([one(x), other(x)]))
    assert stacked.nbytes == 2 * one.nbytes
    assert stacked.operations == 2 * one.operations
    assert stacked.scratch(20) == one.scratch(20) + 20 * 2 * 4
    assert StackedFeatures.of([one]) is one
    pair = FeaturePair((stacked, one), (np.zeros(4, np.float32), np.zeros(2, np.float32)))
    assert pair.counts == (4, 2)
