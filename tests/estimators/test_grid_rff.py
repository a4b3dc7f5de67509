"""RFF-HSIC of several kernels at once against tests of every combination by itself."""

from dataclasses import replace

import numpy as np
import pytest

from dhsic.engine.session import Session
from dhsic.errors import MemoryBudgetError
from dhsic.estimators.base import GridEstimator
from dhsic.estimators.feature.rff import RFFHSIC
from dhsic.kernels import Candidates, Combinations, Gaussian, Grid, Laplacian
from dhsic.nulls import Multiplier, Permutation
from tests.estimators.features import dependent, session_on, steps_of

ALL = Grid(Candidates(factors=(0.5, 1, 2)), combine="all")
NULLS = {
    "signs": Multiplier(7),
    "all rows": Permutation(7, within="all"),
    "groups": Permutation(7, within="groups", group_rows=25),
}
EVERY_NULL = pytest.mark.parametrize("name", NULLS)


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
    """The plan, what is found, and the steps that run after the features are made."""
    started = []
    session = session_on(data, memory=memory)
    session = Session(session.sources, session.runtime, 5, listener=started.append)
    plan = estimator.plan(session, grid.combinations(2), null)
    found = estimator.test_grid(session, grid.combinations(2), null)
    return plan, found, steps_of(started)


@pytest.mark.parametrize("null", NULLS.values(), ids=NULLS)
def test_little_memory__takes_more_passes_and_gives_the_same(null, no_libraries):
    data, estimator, null = dependent(1000), RFFHSIC(n_features=20), replace(null, n_resamples=99)
    large, found, once = passes_of(data, ALL, null, estimator, 2**32)
    assert once == [step.name for step in large.steps]
    assert len(large.passes) == 1
    small, same, often = passes_of(data, ALL, null, estimator, 2**23)
    assert often == [step.name for step in small.steps]
    assert 1 < len(small.passes) < 30
    assert small.peak_worker_bytes < large.peak_worker_bytes
    np.testing.assert_allclose(same.replicates, found.replicates, rtol=1e-10)
    np.testing.assert_allclose(same.statistics, found.statistics, rtol=1e-10)


@pytest.mark.parametrize("null", [Multiplier(99), Permutation(99)])
def test_matched_combinations__take_no_more_than_their_own_blocks(null):
    matched = Grid(ALL.candidates, combine="matched")
    session = session_on(dependent(1000), memory=2**33)
    plan = RFFHSIC().plan(session, matched.combinations(2), null)
    single = RFFHSIC().plan(session, Combinations.single((Gaussian(),) * 2), null)
    (whole,), (one,) = plan.passes, single.passes
    assert one.bytes_to_driver > 100 * 8 * 200**2
    assert whole.bytes_to_driver < 3.01 * one.bytes_to_driver


@pytest.mark.parametrize("null", [Multiplier(99), Permutation(99, within="all")])
def test_plan__grows_with_the_grid(null):
    session = session_on(dependent(2000), memory=2**34)
    peaks = [
        RFFHSIC()
        .plan(session, Grid(Candidates(factors=factors)).combinations(2), null)
        .peak_worker_bytes
        for factors in [(1,), (1, 2), (0.5, 1, 2)]
    ]
    assert peaks == sorted(set(peaks))
    if isinstance(null, Multiplier):
        assert peaks[2] - peaks[1] > 100 * 8 * 200**2 * (9 - 4)


def test_plan__that_does_not_fit_names_what_helps():
    """Where the sizes of parts of the features do not add up to that of all."""
    session = session_on(dependent(1000), memory=700 * 2**20)
    combinations, null, form = ALL.combinations(2), Multiplier(500), "complex"
    with pytest.raises(MemoryBudgetError, match="take fewer features, fewer kernels"):
        RFFHSIC(n_features=200, form=form).plan(session, combinations, null).check()
    RFFHSIC(n_features=50, form=form).plan(session, combinations, null).check()
    RFFHSIC(n_features=200, form=form).plan(session, combinations, Multiplier(30)).check()
    RFFHSIC(n_features=200).plan(session, combinations, null).check()


def test_auto_permutation__takes_all_rows_for_a_grid_as_for_a_single_kernel():
    session, estimator = session_on(dependent(5000)), RFFHSIC(n_features=20)
    for combinations in (ALL.combinations(2), Grid(Candidates(factors=(1,))).combinations(2)):
        for count, groups in ((99, 1), (999_999, 2)):
            null = Permutation(count, group_rows=2500)
            (one, *_) = estimator.plan(session, combinations, null).passes
            assert one.groups.count == groups


def test_rff_hsic__tries_grids():
    assert isinstance(RFFHSIC(), GridEstimator)
