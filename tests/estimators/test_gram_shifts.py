"""Shifts of Gram matrices against every permutation of the orbit, one by one."""

import tracemalloc

import dask.array as da
import numpy as np
import pytest
import zarr

import dhsic
from dhsic import UHSIC, VHSIC, DCor, DCov, Multiplier, SubHSIC
from dhsic.engine import passes
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.errors import DataError, MemoryBudgetError
from dhsic.estimators import resample
from dhsic.estimators.base import fit_combinations_on_sample
from dhsic.estimators.gram import bunches as gram_bunches
from dhsic.estimators.gram import lines as gram_lines
from dhsic.estimators.gram import shifts as gram_shifts
from dhsic.estimators.gram import steps as gram_steps
from dhsic.estimators.gram.lines import Across, Diagonals
from dhsic.estimators.gram.shifts import ShiftedGramPass
from dhsic.estimators.gram.sides import GramSides
from dhsic.estimators.gram.steps import orbit_steps, run_steps
from dhsic.estimators.resample import TwoSided, chain_of, orbit_of
from dhsic.io.open import open_variables
from dhsic.kernels import Candidates, Combinations, Delta, Gaussian, Grid, OnColumns
from dhsic.nulls import Chain, Permutation, Shifts, pvalue
from tests import oracles
from tests.estimators.levels import Check

SEED = 3
FAMILIES = Candidates(("laplacian", "gaussian", "matern32"), factors=(0.5, 1, 2, 0.25))
LISTED = {
    2: [(11, 3), (0, 1), (4, 7), (0, 3), (7, 4), (5, 5)],
    3: [(11, 3, 5), (0, 1, 2), (0, 1, 4), (4, 7, 6)],
    4: [(7, 1, 4, 0), (7, 1, 4, 2), (0, 1, 2, 5)],
}
# Rows, replicates, the widest group: one group with cosets, of a quick length and of a prime one;
# groups with rows left over; and both.
SIZES = [(30, 75, 4096), (61, 100, 4096), (53, 20, 4096), (47, 24, 10)]
every_size = pytest.mark.parametrize(("n", "n_resamples", "widest"), SIZES)


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """As few replicates as are asked for."""
    monkeypatch.setattr(gram_steps, "_FEWEST", 1)


@pytest.fixture
def small_lines(monkeypatch):
    """Several blocks, strips, bands and parts of lines, so that their borders are crossed."""
    monkeypatch.setattr(passes, "PAIRS", passes.PAIRS._replace(fewest_rows=1))
    monkeypatch.setattr(gram_lines, "STRIP", 4)
    monkeypatch.setattr(gram_shifts, "_BAND_BYTES", 0)
    monkeypatch.setattr(gram_shifts, "_CACHE_BYTES", 0)
    monkeypatch.setattr(gram_shifts, "_FEWEST_LINES", 7)
    monkeypatch.setattr(gram_shifts, "_FEWEST_TRANSFORMS", 3)


def session(data, precision="float64", threads=2, memory=2 * 2**30, client=None):
    runtime = Runtime.here(threads, memory) if client is None else Runtime.on(client, memory)
    return Session(open_variables(data, None), runtime, SEED, precision)


def setting(n, m):
    rng = np.random.default_rng([n, m])
    data = [rng.standard_normal((n, d)) for d in (1, 3, 2, 1)[:m]]
    data[1][:, 0] += data[0][:, 0]
    return data


def listed(m):
    return Grid(FAMILIES, combine=LISTED[m]).combinations(m)


def permuted(matrix, order):
    return matrix[np.ix_(order, order)]


def grams_of(fitted, data):
    return [kernel(data[m]) for kernel, m in zip(fitted.kernels, fitted.variables, strict=True)]


def orbit(resampled):
    return np.vstack([resampled.statistics, resampled.replicates])


def v_statistic(grams):
    return len(grams[0]) * oracles.v_hsic(grams)


def u_statistic(grams):
    n = len(grams[0])
    first, second = (oracles.u_centred(gram) for gram in grams)
    return float(np.sum(first * second)) / (n - 3)


def two_sided(grams, pair, variable, permutations, statistic=v_statistic):
    """Of the product of some kernels and one that is permuted, under every permutation."""
    left = np.prod([grams[k] for k in pair.left], axis=0)
    orders = oracles.orders_of_orbit(permutations, variable)
    return [statistic([left, permuted(grams[pair.right], order)]) for order in orders]


both_statistics = pytest.mark.parametrize(
    ("estimator", "statistic"), [(VHSIC(), v_statistic), (UHSIC(), u_statistic)]
)


def assert_of_all_permutations(found, data, permutations, statistic):
    """Of all combinations of two kernels, the data first."""
    grams = grams_of(found.combinations, data)
    for c, (j, k) in enumerate(found.combinations.chosen):
        expected = two_sided(grams, TwoSided((j,), k), 1, permutations, statistic)
        np.testing.assert_allclose(orbit(found)[:, c], expected, rtol=0, atol=1e-12 * max(expected))


@every_size
@both_statistics
def test_grid__has_the_statistics_of_all_permutations(
    estimator, statistic, n, n_resamples, widest, monkeypatch, small_lines
):
    monkeypatch.setattr(resample, "_WIDEST", widest)
    data, null, here = setting(n, 2), Shifts(n_resamples), session(setting(n, 2))
    found = estimator.test_grid(here, listed(2), null)
    permutations = orbit_of(here, null)
    assert here.finished[-1].blocks == permutations.groups.count
    assert len(found.replicates) == len(permutations) - 1 >= n_resamples - 1
    assert found.detail == permutations.detail
    assert_of_all_permutations(found, data, permutations, statistic)


@every_size
@pytest.mark.parametrize("m", [3, 4])
def test_chain__has_the_statistics_of_all_stages(
    m, n, n_resamples, widest, monkeypatch, small_lines
):
    monkeypatch.setattr(resample, "_WIDEST", widest)
    data, null, here = setting(n, m), Chain(n_resamples), session(setting(n, m))
    found = VHSIC().test_chain(here, listed(m), null)
    permutations = orbit_of(here, null)
    grams = grams_of(found.combinations, data)
    stages = chain_of(found.combinations.chosen)
    assert [list(stage.pairs) for stage in found.stages] == stages
    assert len(permutations) >= n_resamples * (m - 1)
    assert found.detail == permutations.detail
    for variable, stage in enumerate(found.stages, start=1):
        for c, pair in enumerate(stage.pairs):
            expected = two_sided(grams, pair, variable, permutations)
            got = orbit(stage.resampled)[:, c]
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12 * max(expected))


@every_size
@pytest.mark.parametrize("m", [3, 4])
def test_grid__of_several_variables_permutes_all_but_the_first(
    m, n, n_resamples, widest, monkeypatch, small_lines
):
    monkeypatch.setattr(resample, "_WIDEST", widest)
    data, null, here = setting(n, m), Shifts(n_resamples), session(setting(n, m))
    found = VHSIC().test_grid(here, listed(m), null)
    permutations = orbit_of(here, null)
    grams = grams_of(found.combinations, data)
    orders = [
        oracles.orders_of_orbit(permutations, variable, shifted=variable == m - 1)
        for variable in range(1, m)
    ]
    for c, (first, *others) in enumerate(found.combinations.chosen):
        expected = [
            v_statistic(
                [grams[first], *(permuted(grams[k], o) for k, o in zip(others, own, strict=True))]
            )
            for own in zip(*orders, strict=True)
        ]
        np.testing.assert_allclose(orbit(found)[:, c], expected, rtol=0, atol=1e-12 * max(expected))
        assert found.estimate(c).value == pytest.approx(expected[0] / n, rel=1e-12)


@pytest.mark.parametrize("m", [3, 4])
def test_chain__estimates_the_joint_dependence(m):
    data = setting(53, m)
    found = VHSIC().test_chain(session(data), listed(m), Chain(20))
    grams = grams_of(found.combinations, data)
    for c, one in enumerate(found.combinations.chosen):
        estimate = found.estimate(c)
        assert estimate.kernels == found.combinations.kernels_of(c)
        expected = oracles.v_hsic([grams[k] for k in one])
        assert estimate.value == pytest.approx(expected, rel=1e-11)


ESTIMATORS = [
    VHSIC(),
    UHSIC(),
    SubHSIC(),
    DCov(),
    DCov(exponent=0.5, unbiased=True),
    DCor(),
    DCor(unbiased=True),
    DCor(root=True),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_test__says_what_other_nulls_say_of_the_data(estimator):
    kernels = [estimator.kernel(None)] * 2
    combinations = Combinations.single(kernels)
    one, other = (
        estimator.test_grid(session(setting(53, 2)), combinations, null)
        for null in (Shifts(20), Multiplier(2))
    )
    assert one.statistics == pytest.approx(other.statistics, rel=1e-11)
    assert one.estimate(0).value == pytest.approx(other.estimate(0).value, rel=1e-11)
    assert one.estimate(0).quantity == other.estimate(0).quantity
    np.testing.assert_allclose(one.own, other.own, rtol=1e-11)


@pytest.mark.parametrize("estimator", [DCov(), DCor(unbiased=True)], ids=repr)
def test_replicates__have_the_factor_of_the_estimator(estimator):
    here = session(setting(53, 2))
    null = Shifts(20)
    found = estimator.test_grid(here, Combinations.single([estimator.kernel(None)] * 2), null)
    plain = (UHSIC() if estimator.unbiased else VHSIC()).test_grid(here, found.combinations, null)
    factor = found.statistics / plain.statistics
    np.testing.assert_allclose(found.replicates, factor * plain.replicates, rtol=1e-9)
    np.testing.assert_allclose(found.rounding, factor * plain.rounding, rtol=1e-9)


@pytest.mark.parametrize(("m", "null"), [(2, Shifts(64)), (3, Shifts(64)), (3, Chain(32))])
def test_precision__changes_little(m, null):
    found = []
    for precision in ("float64", "float32"):
        here = session(setting(600, m), precision)
        if isinstance(null, Chain):
            outcome = VHSIC().test_chain(here, listed(m), null)
            found.append(np.hstack([orbit(stage.resampled) for stage in outcome.stages]))
        else:
            found.append(orbit(VHSIC().test_grid(here, listed(m), null)))
    double, single = found
    assert 0 < np.abs(single / double - 1).max() < 1e-3


@pytest.mark.parametrize(("m", "null"), [(2, Shifts(250)), (3, Chain(150))])
def test_test__is_the_same_anywhere(m, null, client, tmp_path):
    data = setting(1500, m)
    stored = [
        zarr.create_array(tmp_path / f"{i}", data=x, chunks=(700, *x.shape[1:]))
        for i, x in enumerate(data)
    ]
    lazy = [da.from_array(x, chunks=(600, -1)) for x in data]

    def run(variables, **where):
        here = session(variables, **where)
        if isinstance(null, Chain):
            stages = VHSIC().test_chain(here, listed(m), null).stages
            values = np.hstack([orbit(stage.resampled) for stage in stages])
        else:
            values = orbit(VHSIC().test_grid(here, listed(m), null))
        assert here.finished[-1].blocks > 2
        return values

    one = run(data, threads=1)
    for variables, where in [
        (data, {"threads": 3}),
        (data, {"client": client}),
        (stored, {"threads": 2}),
        (stored, {"client": client}),
        (lazy, {"client": client}),
    ]:
        np.testing.assert_array_equal(run(variables, **where), one)


def test_blocks__agree_with_the_definition(monkeypatch):
    """Several blocks of several groups, with rows left over."""
    monkeypatch.setattr(resample, "_WIDEST", 64)
    data, here, null = setting(1501, 2), session(setting(1501, 2)), Shifts(128)
    found = VHSIC().test_grid(here, Combinations.single([Gaussian(gamma=0.5)] * 2), null)
    permutations = orbit_of(here, null)
    assert permutations.groups.n_left > 0
    assert here.finished[-1].blocks > 2
    first, second = grams_of(found.combinations, data)
    h = np.eye(1501) - 1 / 1501
    centred = h @ first @ h
    orders = oracles.orders_of_orbit(permutations)
    for number in (0, 1, 40, 64, 100, 127):
        expected = np.vdot(centred, permuted(second, orders[number])) / 1501
        assert orbit(found)[number, 0] == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("m", [2, 3])
def test_run__takes_one_pass(m):
    here = session(setting(60, m))
    if m == 2:
        VHSIC().test_grid(here, listed(m), Shifts(30)).estimate(1)
    else:
        VHSIC().test_chain(here, listed(m), Chain(30)).estimate(1)
    assert [done.name for done in here.finished] == ["shifts"]


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize(("n", "n_resamples"), [(8, 8), (12, 24), (40, 40), (45, 20), (200, 100)])
def test_ties__count_exactly_those_that_there_are(n, n_resamples, unbiased, precision):
    """Distances of integers have integer sums, which Python compares exactly."""
    for seed in range(4):
        rng = np.random.default_rng([n, seed])
        x, y = rng.integers(0, 3, (2, n))
        x[:2] = y[:2] = 0, 1
        here = session([x, y], precision)
        null, estimator = Shifts(n_resamples), DCov(unbiased=unbiased)
        found = estimator.test(here, [estimator.kernel(None)] * 2, null)
        a, b = (np.abs(z[:, None] - z) for z in (x, y))
        exact = []
        for order in oracles.orders_of_orbit(orbit_of(here, null)):
            # The matrices have a diagonal of zeros, and permutations leave their totals.
            moved = permuted(b, order)
            joint, mixed = int((a * moved).sum()), int(a.sum(axis=1) @ moved.sum(axis=1))
            exact.append((n - 2 if unbiased else n) * joint - 2 * mixed)
        values = np.array([found.statistic, *found.distribution.values])
        expected = np.array(exact) >= exact[0]
        np.testing.assert_array_equal(values >= found.statistic - found.rounding, expected)
        p = pvalue(found.statistic, found.distribution, here.dtype, found.rounding)
        assert p == pytest.approx(expected.mean())


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("factor", [0.25, 1.0, 8.0])
def test_ties__of_equal_rows_of_many_columns_are_counted(precision, factor):
    """Tiles may give equal rows unequal kernels; three kinds of rows have a small exact one."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        kinds = rng.standard_normal((3, 90)) + 3.0
        x, y = rng.integers(0, 3, 60), rng.integers(0, 2, 60)
        here = session([kinds[x], y], precision)
        kernels = [Gaussian(gamma=1 / 180 / factor**2), Delta()]
        null = Shifts(120)
        found = VHSIC().test(here, kernels, null)
        small = kernels[0](kinds)
        first, second = small[np.ix_(x, x)], (y[:, None] == y).astype(float)
        exact = two_sided([first, second], TwoSided((0,), 1), 1, orbit_of(here, null))
        tables = [
            np.bincount(3 * y[order] + x, minlength=6)
            for order in oracles.orders_of_orbit(orbit_of(here, null))
        ]
        same = [np.array_equal(table, tables[0]) for table in tables]
        values = np.array([found.statistic, *found.distribution.values])
        counted = values >= found.statistic - found.rounding
        assert counted[same].all()
        assert counted[np.array(exact) > exact[0]].all()
        assert not counted[np.array(exact) < 0.99 * exact[0]].any()


def test_ties__are_all_where_nothing_varies():
    """A kernel so wide that rows are equal to it, and flags that are constant within groups."""
    x, y = np.random.default_rng(0).standard_normal((2, 60))
    found = VHSIC().test(session([x, y]), [Gaussian(gamma=1e-40)] * 2, Shifts(60))
    assert pvalue(found.statistic, found.distribution, rounding=found.rounding) == 1.0


def rare(rng, n):
    x, y = (rng.random((2, n)) < 0.02).astype(float)
    x[0] = y[1] = 1.0
    return rng.permutation(x), rng.permutation(y)


def normals(rng, n):
    return rng.standard_normal((n, 3)), rng.standard_cauchy(n)


@pytest.mark.parametrize("draw", [rare, normals])
@pytest.mark.parametrize(("n", "n_resamples"), [(40, 100), (230, 100)])
def test_level__is_kept(draw, n, n_resamples):
    rng = np.random.default_rng(0)

    def rejects(seed):
        here = session(draw(rng, n), threads=1)
        here.seed = seed
        found = VHSIC().test(here, [Gaussian()] * 2, Shifts(n_resamples))
        return pvalue(found.statistic, found.distribution, here.dtype, found.rounding) <= 0.1

    check = Check(60, range(9), 200, range(35))
    assert check.failure(0.1)[1] < 0.001
    assert check.failure(0.25)[1] > 0.97
    assert check.passes(map(rejects, range(200)))


@pytest.mark.parametrize("stored", ["as drawn", "sorted"])
@pytest.mark.parametrize("estimator", [VHSIC(), UHSIC(), DCov()], ids=repr)
def test_power__is_there_however_the_data_are_stored(estimator, stored):
    rng = np.random.default_rng(0)
    y = rng.standard_normal(1600)
    x = 0.3 * y**2 + rng.standard_normal(1600)
    if stored == "sorted":
        x, y = x[np.argsort(y)], np.sort(y)
    found = estimator.test(session([x, y]), [estimator.kernel(None)] * 2, Shifts(200))
    p = pvalue(found.statistic, found.distribution, np.float64, found.rounding)
    assert p <= 2 / 200


def test_chain__finds_where_dependence_enters():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 400))
    z = np.sign(x * y) * np.abs(rng.standard_normal(400))
    found = VHSIC().test_chain(
        session([x, y, z]), Combinations.single([Gaussian()] * 3), Chain(200)
    )
    first, second = (
        [np.mean(values >= values[0]) for values in orbit(stage.resampled).T]
        for stage in found.stages
    )
    assert first[0] > 0.05
    assert second[0] <= 1 / 400  # of both before it
    assert min(second[1:]) > 0.01  # of either by itself


def test_ranking__gives_every_feature_its_own_test():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((53, 4))
    y = x[:, 0] + rng.standard_normal(53)
    features = [OnColumns(Gaussian(), (j,)) for j in range(4)]
    null = Shifts(20)
    whole = VHSIC().test_features(session([x, y]), Combinations.against(features, Gaussian()), null)
    for j in range(4):
        alone = VHSIC().test(session([x[:, j], y]), [Gaussian()] * 2, null)
        assert whole.statistics[j] == pytest.approx(alone.statistic, rel=0.2)  # of other samples
        assert whole.replicates.shape == (len(alone.distribution.values), 4)
    assert whole.statistics.argmax() == 0


@every_size
@both_statistics
def test_bunches__have_the_statistics_of_all_permutations(
    estimator, statistic, n, n_resamples, widest, monkeypatch, small_lines
):
    monkeypatch.setattr(resample, "_WIDEST", widest)
    monkeypatch.setattr(gram_shifts, "_FEWEST_TOGETHER", 2)
    monkeypatch.setattr(gram_shifts, "_HELD_OF_BUNCHES", 0)
    monkeypatch.setattr(gram_bunches, "_COMPUTED", 2.0)
    data = setting(n, 2)[::-1]
    # A kernel that is a power of another's may be in another bunch.
    lengths = [(0, 1.0), (1, 0.3), (2, 2.0), (0, 4.0), (1, 1.0)]
    features = [OnColumns(Gaussian(gamma), (j,)) for j, gamma in lengths]
    null, here = Shifts(n_resamples), session(data)
    combinations = Combinations.against(features, Gaussian())
    found = estimator.test_grid(here, combinations, null)
    permutations = orbit_of(here, null)
    sides = GramSides.of(here, found.combinations, data, permutations)
    assert len(gram_bunches.cut_into_bunches(sides, 2)) == 3
    assert_of_all_permutations(found, data, permutations, statistic)


def test_bunches__sum_every_matrix_once():
    features = [OnColumns(Gaussian(1.0), (j,)) for j in range(40)]
    here = session([np.zeros((20, 40)), np.zeros(20)])
    combinations = Combinations.against(features, Gaussian(1.0))
    samples = [np.zeros((8, 40)), np.zeros((8, 1))]
    sides = GramSides.of(here, combinations, samples, orbit_of(here, Shifts(50)))
    bunches = gram_bunches.cut_into_bunches(sides, 16)
    assert [len(bunch.statistics) for bunch in bunches] == [16, 16, 8]
    assert [bunch.n_roots for bunch in bunches] == [19, 19, 11]  # with the target in three orders
    assert sorted(c for bunch in bunches for c in bunch.statistics) == list(range(40))
    numbers = [number for bunch in bunches for number in bunch.numbers.values()]
    assert sorted(numbers) == list(range(41))
    # Pairs of all columns would compute every kernel again and again.
    (whole,) = gram_bunches.cut_into_bunches(sides, 4)
    assert len(whole.statistics) == 40


def test_checkpoint__goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(resample, "_WIDEST", 64)
    data = setting(1500, 2)
    chunk, calls = ShiftedGramPass.chunk, []

    def failing(self, left, right):
        calls.append((left.first, right.first))
        if len(calls) == 8:
            raise ZeroDivisionError
        return chunk(self, left, right)

    def run(**options):
        return dhsic.independence_test(
            *data,
            kernels="gaussian",
            estimator="v-hsic",
            null=Shifts(64),
            rng=SEED,
            threads=1,
            **options,
        )

    whole = run()
    folder = str(tmp_path / "kept")
    monkeypatch.setattr(ShiftedGramPass, "chunk", failing)
    with pytest.raises(ZeroDivisionError):
        run(checkpoint=folder)
    again = run(checkpoint=folder)
    done = len(set(calls))
    assert done == len(calls) - 1  # the one that failed, and no other, ran twice
    np.testing.assert_array_equal(again.null_distribution, whole.null_distribution)
    assert again.statistic == whole.statistic


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("kind", ["numpy", "zarr"])
@pytest.mark.parametrize(("n", "n_resamples"), [(300, 1000), (2003, 500)])
def test_plan__bounds_the_memory_of_the_pass_and_not_by_far(m, kind, n, n_resamples, tmp_path):
    data = setting(n, m)
    if kind == "zarr":
        data = [
            zarr.create_array(tmp_path / f"{j}.zarr", data=x, chunks=(500, *x.shape[1:]))
            for j, x in enumerate(data)
        ]
    null = Shifts(n_resamples) if m == 2 else Chain(n_resamples)
    planned, measured = planned_and_measured(session(data, threads=1), listed(m), null)
    assert planned / 4 < measured < planned + 500_000


def planned_and_measured(here, combinations, null):
    """Bytes of a worker in the pass of a test."""
    fitted, samples = fit_combinations_on_sample(here, combinations)
    steps = orbit_steps(here, fitted, samples, null, unbiased=False)
    run_steps(here, steps)
    (planned,) = VHSIC().plan(here, combinations, null).passes
    tracemalloc.start()
    run_steps(here, steps)
    measured = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return planned.worker_bytes, measured


def test_plan__bounds_the_memory_of_many_columns():
    x, y = np.random.default_rng(0).standard_normal((300, 200)), np.arange(300.0)
    features = [OnColumns(Gaussian(), (j,)) for j in range(200)]
    combinations = Combinations.against(features, Gaussian())
    planned, measured = planned_and_measured(session([x, y], threads=1), combinations, Shifts(1000))
    assert planned / 4 < measured < planned + 500_000


def test_plan__is_that_of_what_runs():
    here = session(setting(1500, 2))
    passes = VHSIC().plan(here, listed(2), Shifts(50)).passes
    VHSIC().test_grid(here, listed(2), Shifts(50))
    assert [step.blocks for step in passes] == [done.blocks for done in here.finished]
    assert [step.name for step in passes] == [done.name for done in here.finished]


def test_plan__refuses_what_memory_cannot_hold():
    here = session(np.zeros((2, 400_000)), memory=350 * 2**20)
    with pytest.raises(MemoryBudgetError, match="nystrom-m"):
        VHSIC().plan(here, listed(2), Shifts()).check()


def test_plan__fits_the_default_memory_where_many_rows_are_tested():
    here = session(np.zeros((2, 50_000)), threads=4)
    found = VHSIC().plan(here, Grid().combinations(2), Shifts(4000)).check()
    assert found.peak_driver_bytes - found.baseline_bytes < 2**29


def test_u_hsic__needs_four_rows():
    with pytest.raises(DataError, match="4 rows"):
        UHSIC().plan(session(np.eye(3)[:2]), Combinations.single([Gaussian()] * 2), Shifts())


@pytest.mark.parametrize("estimator", ["v-hsic", "u-hsic", "sub-hsic", "dcov", "dcor"])
def test_auto__takes_shifts_of_two_variables(estimator):
    data = setting(60, 2)
    result = dhsic.independence_test(*data, estimator=estimator, rng=0)
    assert result.null == "shifts"
    assert "exact" in result.null_reason
    assert len(result.null_distribution) >= 999


@pytest.mark.parametrize(
    ("n", "n_resamples", "count"), [(60, 20, 60), (60, 90, 120), (3000, 20, 512)]
)
def test_replicates__are_more_where_fewer_would_take_longer(n, n_resamples, count, monkeypatch):
    monkeypatch.setattr(gram_steps, "_FEWEST", 512)
    here = session(setting(n, 2))
    found = VHSIC().test(here, [Gaussian()] * 2, Shifts(n_resamples))
    assert count <= len(found.distribution.values) + 1 <= 1.5 * count


def test_auto__takes_a_chain_of_three_variables():
    here = session(setting(60, 3))
    assert VHSIC().choose_null(here, 500)[0] == Chain(500)


def test_auto__sorts_single_columns_where_there_are_many_rows():
    few, many = (session(np.zeros((2, n))) for n in (1000, 60_000))
    assert DCov().choose_null(few, 999)[0] == Shifts(999)
    assert DCov().choose_null(many, 999)[0] == Permutation(999, within="all")
    assert DCov(exponent=0.5).choose_null(many, 999)[0] == Shifts(999)


@pytest.mark.parametrize("b", [1, 2, 7, 8])
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("step", [1, 3, 8])
def test_diagonals__hold_every_pair_of_rows(b, same, step):
    rng = np.random.default_rng(b)
    first = rng.standard_normal((b, 2))
    second = first if same else rng.standard_normal((b, 2))
    kernel = Gaussian(gamma=0.3)
    tile = kernel(first, second)
    whole = Diagonals.of_tile(b, same=same)
    rows, columns = kernel.rows(first), kernel.columns(second)
    total, sums = 0.0, np.zeros((2, b))
    seconds = sums[0] if same else sums[1]
    above, across = whole.of_rows(np.arange(b), np.arange(b))
    for at, lines in whole.cut(step):
        padded = np.full((len(lines), step + b), np.nan)
        out = np.empty((len(lines), b))
        work = np.empty((1 + kernel.work_tiles, lines.strip_entries(len(lines))))
        lines.write(kernel, rows, columns, out, work)
        np.testing.assert_allclose(out, tile[above[at], across[at]], rtol=1e-14)
        assert (above[at] == across[at])[lines.main].all()
        total += lines.weights @ out.sum(axis=1)
        padded[:, step:] = out
        lines.add_sums(padded, sums[0], seconds)
    assert total == pytest.approx(tile.sum() * (1 if same else 2))
    np.testing.assert_allclose(sums[0], tile.sum(axis=1))
    if not same:
        np.testing.assert_allclose(sums[1], tile.sum(axis=0))


@pytest.mark.parametrize("step", [1, 2, 5])
def test_across__holds_every_pair_of_rows(step):
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((5, 2)), rng.standard_normal((7, 2))
    kernel = Gaussian(gamma=0.3)
    tile = kernel(first, second)
    whole = Across(7, 0, 5)
    sums = np.zeros(5), np.zeros(7)
    above, across = whole.of_rows(np.arange(5), np.arange(7))
    for at, lines in whole.cut(step):
        padded = np.empty((len(lines), 3 + 7))
        out = np.empty((len(lines), 7))
        work = np.empty((1 + kernel.work_tiles, 2 * 7))
        lines.write(kernel, kernel.rows(first), kernel.columns(second), out, work)
        np.testing.assert_allclose(out, tile[above[at], across[at]], rtol=1e-14)
        padded[:, 3:] = out
        lines.add_sums(padded, *sums)
    np.testing.assert_allclose(sums[0], tile.sum(axis=1))
    np.testing.assert_allclose(sums[1], tile.sum(axis=0))
