"""Many kernels at once in the tests from all pairs of rows."""

import itertools

import numpy as np
import pytest

from dhsic import UHSIC, VHSIC, DCor, Multiplier, Permutation
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.errors import MemoryBudgetError
from dhsic.estimators import gram_pairs, gram_products
from dhsic.estimators.gram_products import PermutedProducts
from dhsic.io.open import open_variables
from dhsic.kernels import Candidates, Distance, Gaussian, Grid
from dhsic.nulls import draw_permutations

# Few rows, of which the guard of approximate nulls warns.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

NULLS = [
    Permutation(6, within="all"),
    Permutation(6, within="blocks", block_rows=25),
    Multiplier(6),
]
FAMILIES = Candidates(("laplacian", "gaussian", "matern32"), factors=(0.5, 1, 2, 0.25))
LISTED = {
    2: [(11, 3), (0, 1), (4, 7), (0, 3), (7, 4), (5, 5)],
    3: [(11, 3, 5), (0, 1, 2), (0, 1, 4), (4, 7, 6), (0, 3, 2), (7, 1, 4)],
    4: [(7, 1, 4, 0), (7, 1, 4, 2), (0, 1, 2, 5)],
}
EVERY_NULL = pytest.mark.parametrize("null", NULLS, ids=["all", "blocks", "multiplier"])


@pytest.fixture
def small_tiles(monkeypatch):
    """Several tiles, strips and chunks, so that their borders are crossed."""
    monkeypatch.setattr(gram_pairs, "_TILE", 16)
    monkeypatch.setattr(gram_products, "_STRIP", 9 * 25)
    monkeypatch.setattr(gram_products, "_CHUNK", 7 * 36)


def session(data, precision="float64", threads=2, memory=2 * 2**30, client=None):
    runtime = Runtime.here(threads, memory) if client is None else Runtime.on(client, memory)
    return Session(open_variables(data, None), runtime, 3, precision)


def setting(n, m):
    rng = np.random.default_rng([n, m])
    data = [rng.standard_normal((n, d)) for d in (1, 3, 2, 1)[:m]]
    data[1][:, 0] += data[0][:, 0]
    return data


def listed(m):
    return Grid(FAMILIES, combine=LISTED[m]).combinations(m)


def check_against_single(estimator, data, combinations, null, precision, tolerance):
    found = estimator.test_grid(session(data, precision), combinations, null)
    assert found.statistics.shape == (len(combinations),)
    assert found.replicates.shape == (null.n_resamples, len(combinations))
    for c in range(len(combinations)):
        kernels = found.combinations.kernels_of(c)
        alone = estimator.test(session(data, precision), kernels, null)
        scale = np.abs(alone.distribution.values).max()
        expected = np.array([alone.statistic, *alone.distribution.values])
        got = np.array([found.statistics[c], *found.replicates[:, c]])
        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale)
        assert found.rounding[c] == pytest.approx(alone.rounding, rel=1e-5)
        if isinstance(null, Permutation):
            assert found.detail == alone.detail
        estimate = found.estimate(c)
        assert estimate.kernels == kernels
        assert estimate.value == pytest.approx(alone.estimate.value, rel=max(tolerance, 1e-9))
    assert len(set(found.statistics)) == len(combinations)


@EVERY_NULL
@pytest.mark.parametrize(
    ("estimator", "m"), [(VHSIC(), 2), (VHSIC(), 3), (VHSIC(), 4), (UHSIC(), 2)]
)
def test_grid__equals_the_tests_by_its_combinations(estimator, m, null, small_tiles):
    check_against_single(estimator, setting(70, m), listed(m), null, "float64", 1e-10)


@EVERY_NULL
@pytest.mark.parametrize(("estimator", "m"), [(VHSIC(), 2), (VHSIC(), 3), (UHSIC(), 2)])
def test_grid__equals_them_in_float32(estimator, m, null):
    check_against_single(estimator, setting(200, m), listed(m), null, "float32", 1e-4)


@pytest.mark.parametrize("null", [Permutation(6, within="blocks"), Multiplier(6)])
def test_grid__has_the_factor_of_every_combination(null):
    kernels = Candidates((Distance(0.5), Distance(1.5)))
    combinations = Grid(kernels).combinations(2)
    check_against_single(DCor(), setting(60, 2), combinations, null, "float64", 1e-10)


def test_grid__takes_the_length_times_its_factors():
    combinations = Grid(Candidates("gaussian", factors=(0.5, 2))).combinations(2)
    data = setting(60, 2)
    fitted = VHSIC().test_grid(session(data), combinations, Multiplier(2)).combinations
    narrow, wide = (fitted.kernels[k].gamma for k in (0, 1))
    assert narrow == pytest.approx(16 * wide)
    alone = VHSIC().test(session(data), [Gaussian(), Gaussian()], Multiplier(2)).estimate.kernels
    assert wide == pytest.approx(alone[0].gamma / 4)


@pytest.mark.parametrize(("m", "null"), list(zip((2, 3, 2), NULLS, strict=True)))
def test_grid__is_the_same_anywhere(m, null, client):
    data = setting(300, m)
    one, *others = (
        VHSIC().test_grid(session(data, **where), listed(m), null)
        for where in ({"threads": 1}, {"threads": 3}, {"client": client})
    )
    for found in others:
        np.testing.assert_array_equal(found.statistics, one.statistics)
        np.testing.assert_array_equal(found.replicates, one.replicates)


@pytest.mark.parametrize("null", [Permutation(6, within="blocks"), Multiplier(6)])
def test_grid__takes_two_passes_with_its_estimates(null):
    here = session(setting(60, 2))
    VHSIC().test_grid(here, listed(2), null).estimate(1)
    assert [done.name for done in here.finished] == ["Gram sums", f"{null.name} null"]


def test_grid__replicates_agree_with_the_definition():
    """Of the product of Gram matrices, all but the first with rows and columns permuted."""
    rng = np.random.default_rng(0)
    variables, chosen = (0, 0, 1, 1, 2, 3), ((1, 3, 4, 5), (0, 2, 4, 5), (1, 2, 4, 5))
    grams = rng.standard_normal((6, 30, 30))
    orders = draw_permutations(0, 0, 30, 5, 4)
    products = PermutedProducts(variables, chosen)
    found = products.sums(list(grams[:2]), list(grams[2:]), orders, orders)
    means = rng.standard_normal((6, 30))
    mixed = products.mixed_sums(means, orders)
    for replicate, (c, one) in itertools.product(range(5), enumerate(chosen)):
        order = [np.arange(30), *orders[replicate]]
        moved = [grams[k][np.ix_(order[m], order[m])] for m, k in enumerate(one)]
        assert found[replicate, c] == pytest.approx(np.prod(moved, axis=0).sum(), rel=1e-10)
        rows = [means[k][order[m]] for m, k in enumerate(one)]
        assert mixed[replicate, c] == pytest.approx(np.prod(rows, axis=0).sum(), rel=1e-10)


def test_grid__gathers_no_matrix_that_is_the_power_of_another():
    combinations = listed(2).guessed((1, 3))
    products = PermutedProducts.of(combinations)
    kernels = [combinations.kernels[k].spec().split(":")[0] for k in products.gathered]
    assert kernels == ["laplacian", "gaussian", *["matern32"] * 4]
    assert {combinations.variables[k] for k in products.gathered} == {1}


@EVERY_NULL
def test_plan__grows_with_the_grid(null):
    here = session(np.zeros((2, 6000)), memory=2**40)
    small, large = (
        VHSIC().plan_grid(here, Grid(Candidates("gaussian", factors=factors)).combinations(2), null)
        for factors in ((1, 2), (0.25, 0.5, 1, 2, 4))
    )
    needs = [plan.peak_driver_bytes - plan.baseline_bytes for plan in (small, large)]
    assert needs[1] > 1.5 * needs[0]


def test_plan__counts_every_gram_matrix_that_is_held():
    here = session(np.zeros((2, 5000)), memory=2**40)
    combinations = Grid(Candidates("gaussian", factors=(0.5, 1, 2))).combinations(2)
    plan = VHSIC().plan_grid(here, combinations, Permutation(9, within="all"))
    assert plan.peak_driver_bytes - plan.baseline_bytes == pytest.approx(
        8 * 5000**2 * (6 + 1.5), rel=0.05
    )


def test_plan__is_that_of_what_runs():
    here = session(setting(1500, 2))
    plan = VHSIC().plan_grid(here, listed(2), Multiplier(50))
    VHSIC().test_grid(here, listed(2), Multiplier(50))
    assert [step.blocks for step in plan.passes] == [done.blocks for done in here.finished]


def test_grid__permutes_in_groups_what_memory_cannot_hold():
    combinations = Grid().combinations(2)
    names = {}
    for memory in (100 * 2**20, 2**30):
        here = session(setting(1500, 2), memory=memory)
        plan = VHSIC().plan_grid(here, combinations, Permutation(3, block_rows=500))
        names[memory] = [step.name for step in plan.steps]
        found = VHSIC().test_grid(here, combinations, Permutation(3, block_rows=500))
        groups = "groups of 500 rows" in found.detail
        assert groups == ("Gram sums" in names[memory])
    assert names[100 * 2**20] != names[2**30]
    alone = VHSIC().plan(session(setting(1500, 2), memory=100 * 2**20), [Gaussian()] * 2, None)
    assert "Gram sums" in [step.name for step in alone.steps]


def test_grid__refuses_what_memory_cannot_hold():
    here = session(np.zeros((2, 4000)), memory=900 * 2**20)
    null = Permutation(9, within="all")
    VHSIC().plan(here, [Gaussian()] * 2, null).check()
    with pytest.raises(MemoryBudgetError, match="fewer kernels"):
        VHSIC().plan_grid(here, Grid().combinations(2), null).check()
