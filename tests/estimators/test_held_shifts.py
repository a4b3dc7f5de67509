"""Shifts of few rows, from Gram matrices that are held."""

import tracemalloc

import numpy as np
import pytest

import dhsic
from dhsic import UHSIC, VHSIC
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.estimators.base import fit_combinations_on_sample
from dhsic.estimators.gram import held_shifts, quadratic
from dhsic.estimators.gram import orbits as gram_orbits
from dhsic.estimators.gram import steps as gram_steps
from dhsic.estimators.gram.held_shifts import HeldShifts
from dhsic.estimators.gram.lines import HeldLines
from dhsic.estimators.gram.steps import orbit_steps, run_steps
from dhsic.estimators.resample import orbit_of
from dhsic.io.open import open_variables
from dhsic.kernels import Combinations, Gaussian, Grid, OnColumns
from dhsic.nulls import Shifts
from tests import oracles

DEFAULT = Grid().combinations(2)
NARROW = Grid(dhsic.Candidates("gaussian", (1.0, 0.02)), combine="all").combinations(2)


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """As few replicates as are asked for."""
    monkeypatch.setattr(gram_steps, "_FEWEST", 1)


@pytest.fixture
def small_parts(monkeypatch):
    """Several strips, parts of lines and batches of cosets, so that their borders are crossed."""
    monkeypatch.setattr(held_shifts, "_STRIP_ENTRIES", 7 * 30 * 6)
    monkeypatch.setattr(held_shifts, "_BATCH_BYTES", 8 * 5 * 30 * 7)
    monkeypatch.setattr(gram_orbits, "_BATCH", 17 * 30 * 2)


@pytest.fixture
def held(monkeypatch):
    """How often Gram matrices were held."""
    calls, sums_of = [], HeldShifts.sums_of

    def counted(self, block):
        calls.append(block.rows)
        return sums_of(self, block)

    monkeypatch.setattr(HeldShifts, "sums_of", counted)
    return calls


def setting(n, columns=(1, 3)):
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal((n, d)) for d in columns)
    y[:, 0] += x[:, 0]
    return x, y


def session(data, precision="float64"):
    return Session(open_variables(data, None), Runtime.here(1, 2**31), 3, precision)


def v_statistic(grams):
    return len(grams[0]) * oracles.v_hsic(grams)


def u_statistic(grams):
    first, second = map(oracles.u_centred, grams)
    return float(np.sum(first * second)) / (len(first) - 3)


# Few lines of every coset and many; lengths that are quick and a prime one, whose lines are padded.
@pytest.mark.parametrize("n", [8, 30, 61])
@pytest.mark.parametrize(
    ("estimator", "statistic"), [(VHSIC(), v_statistic), (UHSIC(), u_statistic)]
)
def test_grid__has_the_statistics_of_all_permutations(estimator, statistic, n, small_parts, held):
    data, null = setting(n), Shifts(150)
    here = session(data)
    found = estimator.test_grid(here, DEFAULT, null)
    assert held == [n]
    permutations = orbit_of(here, null)
    orders = oracles.orders_of_orbit(permutations)
    assert len(found.replicates) == len(orders) - 1 >= 149
    kernels = zip(found.combinations.kernels, found.combinations.variables, strict=True)
    grams = [kernel(data[m]) for kernel, m in kernels]
    values = np.vstack([found.statistics, found.replicates])
    for c, (j, k) in enumerate(found.combinations.chosen):
        expected = [statistic([grams[j], grams[k][np.ix_(order, order)]]) for order in orders]
        # Sums round relative to their terms, which are near 1 for wide kernels.
        error = max(1e-12 * max(expected), 1e-13 * grams[j].max() * grams[k].max())
        np.testing.assert_allclose(values[:, c], expected, rtol=0, atol=error)


def both_ways(monkeypatch, data, **options):
    """Results of Gram matrices that are held, and of tiles that pass by."""
    options = {"rng": 0, "threads": 1, **options}
    first = dhsic.independence_test(*data, **options)
    monkeypatch.setattr(held_shifts, "_HELD_BYTES", 0)
    return first, dhsic.independence_test(*data, **options)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("estimator", ["v-hsic", "u-hsic", "dcov"])
@pytest.mark.parametrize("n", [50, 97])
def test_tiles__give_the_same(n, estimator, precision, monkeypatch, held):
    options = {"estimator": estimator, "precision": precision}
    first, second = both_ways(monkeypatch, setting(n), **options)
    assert held == [n]
    assert first.pvalue == second.pvalue
    tolerance = 1e-10 if precision == "float64" else 1e-4
    assert first.statistic == pytest.approx(second.statistic, rel=tolerance)


@pytest.mark.parametrize("n", [12, 40])
def test_ties__are_those_of_tiles(n, monkeypatch, held):
    x, y = np.random.default_rng(0).integers(2, size=(2, n)).astype(float)
    first, second = both_ways(monkeypatch, (x, y), estimator="v-hsic")
    assert held == [n]
    assert first.pvalue == second.pvalue
    assert [one.pvalue for one in first.grid.combinations] == [
        one.pvalue for one in second.grid.combinations
    ]


def test_features__share_the_replicates(held):
    data = setting(53, (4, 1))
    features = [OnColumns(Gaussian(), (j,)) for j in range(4)]
    combinations = Combinations.against(features, Gaussian())
    whole = VHSIC().test_features(session(data), combinations, Shifts(120))
    assert held == [53]
    assert whole.statistics.argmax() == 0
    assert whole.replicates.shape == (158, 4)


def test_many_kernels__that_do_not_all_meet_pass_by(held):
    kernels = [Gaussian(gamma=2.0**-k) for k in range(12)]
    grid = Grid(dhsic.Candidates(kernels, (1.0,)), combine="matched")
    VHSIC().test_grid(session(setting(30)), grid.combinations(2), Shifts(90))
    assert held == []  # 144 pairs of kernels for 12


def test_result__depends_on_neither_threads_nor_batches(monkeypatch):
    data = setting(60)
    options = {"estimator": "v-hsic", "rng": 0}
    first = dhsic.independence_test(*data, threads=1, **options)
    second = dhsic.independence_test(*data, threads=4, **options)
    np.testing.assert_array_equal(first.null_distribution, second.null_distribution)
    monkeypatch.setattr(held_shifts, "_BATCH_BYTES", 1)
    monkeypatch.setattr(gram_orbits, "_BATCH", 1)
    third = dhsic.independence_test(*data, threads=1, **options)
    np.testing.assert_allclose(first.null_distribution, third.null_distribution, rtol=1e-10)
    assert first.pvalue == second.pvalue == third.pvalue


@pytest.mark.parametrize("n", [50, 200, 400])
@pytest.mark.parametrize("combinations", [DEFAULT, Combinations.single([Gaussian()] * 2)])
def test_plan__bounds_the_memory_of_the_pass_and_not_by_far(n, combinations, held):
    here, null = session(setting(n)), Shifts()
    fitted, samples = fit_combinations_on_sample(here, combinations)
    steps = orbit_steps(here, fitted, samples, null, unbiased=False)
    run_steps(here, steps)
    (planned,) = VHSIC().plan(here, combinations, null).passes
    tracemalloc.start()
    run_steps(here, steps)
    measured = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held == [n, n]
    assert planned.worker_bytes / 4 < measured < planned.worker_bytes + 500_000


def test_orders__are_drawn_once_and_those_of_groups():
    orbit = orbit_of(session(setting(20)), Shifts(100))
    whole = orbit.whole_orders(1)
    assert whole is orbit.whole_orders(1)
    np.testing.assert_array_equal(whole, [orbit.orders(r, 0, 1)[0] for r in range(5)])


def test_default__is_planned_once(monkeypatch):
    calls, plan_steps = [], quadratic.plan_steps

    def counted(session, parts, **options):
        calls.append(session.n)
        return plan_steps(session, parts, **options)

    monkeypatch.setattr(quadratic, "plan_steps", counted)
    monkeypatch.setattr(dhsic.NystromHSIC, "plan", None)  # quick as it is, features are not asked
    dhsic.independence_test(*setting(40), rng=0)
    assert calls == [40]


@pytest.mark.parametrize(("size", "count", "n_left"), [(9, 1, 0), (8, 1, 0), (5, 3, 2), (7, 1, 3)])
def test_lines__hold_every_pair_of_which_a_row_moves_as_often_as_it_is_weighted(
    size, count, n_left
):
    n = size * count + n_left
    lines = HeldLines.of(size, count, n_left)
    orders = np.array([np.arange(n), np.random.default_rng(0).permutation(n)]).T
    some = range(HeldLines.count_of(size, count, n_left))
    seen = np.zeros((2, n, n))
    for at in (some[:2], some[2:]):
        for r, places in enumerate(lines.places(orders, at).transpose(2, 0, 1)):
            weights = np.broadcast_to(lines.weights[at.start : at.stop], places.shape)
            np.add.at(seen[r].reshape(-1), places.ravel(), weights.ravel())
    moved = np.arange(n) < size * count
    expected = (moved[:, None] | moved).astype(float)
    for r, order in enumerate(orders.T):
        placed = seen[r][np.ix_(order, order)]
        np.testing.assert_array_equal((placed + placed.T) / 2, expected)


def test_run__of_one_block_takes_the_pass_that_was_planned(monkeypatch):
    """Kernels that are left out do not change it."""
    x, y = setting(60, (20, 20))
    here, planned = session((x, y)), []
    plan_pairs = Session.plan_pairs

    def counted(self, reduction):
        planned.append(reduction.name)
        return plan_pairs(self, reduction)

    monkeypatch.setattr(Session, "plan_pairs", counted)
    found = VHSIC().test_grid(here, NARROW, Shifts(150))
    assert len(found.combinations) < len(NARROW)
    assert planned == ["shifts"]
