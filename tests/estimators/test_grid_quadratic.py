"""Many kernels at once in the tests from all pairs of rows."""

import itertools
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dhsic import UHSIC, VHSIC, DCor, Multiplier, Permutation
from dhsic.engine.events import PassStarted, StepStarted
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.errors import MemoryBudgetError
from dhsic.estimators.gram import permutations as gram_permutations
from dhsic.estimators.gram import steps as gram_steps
from dhsic.estimators.gram.orders import RowOrders
from dhsic.estimators.gram.permutations import PermutedGrams, PermutedProducts
from dhsic.estimators.resample import orbit_of
from dhsic.io.open import open_variables
from dhsic.kernels import Candidates, Distance, Gaussian, Grid

# Few rows, of which the guard of approximate nulls warns.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

NULLS = [
    Permutation(6, within="all"),
    Permutation(6, within="groups", group_rows=25),
    Multiplier(6),
]
FAMILIES = Candidates(("laplacian", "gaussian", "matern32"), factors=(0.5, 1, 2, 0.25))
LISTED = {
    2: [(11, 3), (0, 1), (4, 7), (0, 3), (7, 4), (5, 5)],
    3: [(11, 3, 5), (0, 1, 2), (0, 1, 4), (4, 7, 6), (0, 3, 2), (7, 1, 4)],
    4: [(7, 1, 4, 0), (7, 1, 4, 2), (0, 1, 2, 5)],
}
EVERY_NULL = pytest.mark.parametrize("null", NULLS, ids=["all", "groups", "multiplier"])


@pytest.fixture
def small_tiles(monkeypatch):
    """Several tiles, strips and chunks, so that their borders are crossed."""
    monkeypatch.setattr(gram_steps, "_FEWEST", 16)
    monkeypatch.setattr(gram_permutations, "_STRIP", 9 * 25)
    monkeypatch.setattr(gram_permutations, "_CHUNK", 7 * 36)
    monkeypatch.setattr(gram_permutations, "BATCH", 3)


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


@pytest.mark.parametrize("null", [Permutation(6, within="groups"), Multiplier(6)])
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


@pytest.mark.parametrize(
    ("null", "passes"),
    [
        (NULLS[0], []),
        (NULLS[1], ["permutation null"]),
        (NULLS[2], ["Gram sums", "multiplier null"]),
    ],
)
def test_grid__reads_the_data_no_more_often_than_it_must(null, passes):
    here = session(setting(60, 2))
    VHSIC().test_grid(here, listed(2), null).estimate(1)
    assert [done.name for done in here.finished] == passes


@pytest.mark.parametrize("same", [False, True])
def test_grid__replicates_agree_with_the_definition(same, small_tiles):
    """Of the product of Gram matrices, all but the first with rows and columns permuted."""
    rng = np.random.default_rng(0)
    variables, chosen = (0, 0, 1, 1, 2, 3), ((1, 3, 4, 5), (0, 2, 4, 5), (1, 2, 4, 5))
    products = PermutedProducts(variables, chosen)
    session = SimpleNamespace(n=65, seed=3, moves=None)
    orbit = orbit_of(session, Permutation(5, within="groups", group_rows=30))
    rows, columns = (RowOrders(orbit, 4, group, 1, 0) for group in (0, 0 if same else 1))
    size = len(rows)
    grams = rng.standard_normal((6, size, size))
    grams = grams + grams.transpose(0, 2, 1) if same else grams
    first, second = (one.drawn(range(1, 6)) for one in (rows, columns))
    plain = grams.copy()
    found = PermutedGrams.of(products, list(plain), rows, None if same else columns)(range(5))
    means = rng.standard_normal((6, size))
    mixed = products.mixed_sums(means, first)
    for replicate, (c, one) in itertools.product(range(5), enumerate(chosen)):
        own, other = ([np.arange(size), *orders[replicate]] for orders in (first, second))
        moved = [grams[k][np.ix_(own[m], other[m])] for m, k in enumerate(one)]
        assert found[replicate, c] == pytest.approx(np.prod(moved, axis=0).sum(), rel=1e-10)
        values = [means[k][own[m]] for m, k in enumerate(one)]
        assert mixed[replicate, c] == pytest.approx(np.prod(values, axis=0).sum(), rel=1e-10)


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
        VHSIC().plan(here, Grid(Candidates("gaussian", factors=factors)).combinations(2), null)
        for factors in ((1, 2), (0.25, 0.5, 1, 2, 4))
    )
    needs = [plan.peak_driver_bytes - plan.baseline_bytes for plan in (small, large)]
    assert needs[1] > 1.5 * needs[0]


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("null", NULLS[:2], ids=["all", "groups"])
def test_plan__bounds_the_memory_of_permutations_and_not_by_far(null, m):
    null = replace(null, n_resamples=60, group_rows=200)
    here = session(setting(400, m), threads=1)
    VHSIC().test_grid(here, listed(m), null)
    plan = VHSIC().plan(here, listed(m), null)
    planned = plan.peak_driver_bytes - plan.baseline_bytes
    tracemalloc.start()
    VHSIC().test_grid(here, listed(m), null)
    measured = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert planned / 4 < measured < planned + 500_000


def test_plan__counts_every_gram_matrix_that_is_held():
    here = session(np.zeros((2, 5000)), memory=2**40)
    combinations = Grid(Candidates("gaussian", factors=(0.5, 1, 2))).combinations(2)
    plan = VHSIC().plan(here, combinations, Permutation(9, within="all"))
    assert plan.peak_driver_bytes - plan.baseline_bytes == pytest.approx(8 * 5000**2 * 6, rel=0.05)


@EVERY_NULL
@pytest.mark.parametrize("memory", [2**30, 2**20])
@pytest.mark.parametrize("m", [2, 3])
def test_plan__is_that_of_what_runs(m, memory, null):
    """Step by step, where combinations fit in memory and where they are taken one by one."""
    names, passes = [], (PassStarted, StepStarted)
    here = session(setting(300, m), memory=memory)
    here.listener = lambda event: names.append(event) if isinstance(event, passes) else None
    plan = VHSIC().plan(here, listed(m), null)
    VHSIC().test_grid(here, listed(m), null)
    told = [name for name, _ in itertools.groupby(event.name for event in names)]
    assert told == [step.name for step in plan.steps]
    assert [step.blocks for step in plan.passes] == [done.blocks for done in here.finished]
    assert told.count(f"{null.name} null") == (1 if memory == 2**30 else len(listed(m)))


@EVERY_NULL
@pytest.mark.parametrize("m", [2, 3])
def test_grid__is_the_same_taken_at_once_or_in_parts(m, null):
    one, other = (
        VHSIC().test_grid(session(setting(70, m), memory=memory), listed(m), null)
        for memory in (2**30, 2**20)
    )
    np.testing.assert_allclose(other.statistics, one.statistics, rtol=1e-10)
    np.testing.assert_allclose(other.replicates, one.replicates, rtol=1e-9)
    np.testing.assert_allclose(other.rounding, one.rounding, rtol=1e-9)
    np.testing.assert_allclose(other.own, one.own, rtol=1e-10)
    assert other.combinations == one.combinations
    assert other.estimate(2).kernels == one.estimate(2).kernels
    assert other.estimate(2).value == pytest.approx(one.estimate(2).value, rel=1e-10)


def test_grid__permutes_in_groups_what_memory_cannot_hold():
    combinations = Grid().combinations(2)
    null = Permutation(3, group_rows=500)
    for memory, passes in ((60 * 2**20, {"permutation null"}), (2**30, set())):
        here = session(setting(1500, 2), memory=memory)
        plan = VHSIC().plan(here, combinations, null)
        assert {step.name for step in plan.passes} == passes
        found = VHSIC().test_grid(here, combinations, null)
        assert {done.name for done in here.finished} == passes
        shuffled = "shuffled in groups of 500 rows" if passes else "all rows shuffled"
        assert found.detail == shuffled


def test_grid__takes_no_more_combinations_at_a_time_than_memory_holds():
    here = session(np.zeros((2, 4000)), memory=1100 * 2**20)
    null = Permutation(9, within="all")
    plan = VHSIC().plan(here, Grid().combinations(2), null).check()
    parts = [step.name for step in plan.steps].count("permutation null")
    assert 1 < parts < len(Grid().combinations(2))


def test_grid__refuses_what_memory_cannot_hold():
    here = session(np.zeros((2, 4000)), memory=400 * 2**20)
    with pytest.raises(MemoryBudgetError, match="fewer kernels"):
        VHSIC().plan(here, Grid().combinations(2), Permutation(9, within="all")).check()
