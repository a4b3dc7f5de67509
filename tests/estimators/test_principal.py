"""Tests on the principal features of kernels at landmarks."""

import math

import numpy as np
import pytest

import dhsic
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.feature.basis import Side
from dhsic.estimators.feature.landmarks import landmarks_by_column
from dhsic.estimators.feature.layout import KernelSide, Layout
from dhsic.estimators.feature.likely import unpruned
from dhsic.estimators.feature.nystrom_hsic import NystromHSIC
from dhsic.estimators.feature.principal import MOST_PRODUCTS, Directions, feature_counts
from dhsic.estimators.resample import Orbit
from dhsic.features import KernelFeatures
from dhsic.kernels import (
    Candidates,
    Columns,
    Combinations,
    Gaussian,
    Grid,
    Laplacian,
    Linear,
    Ranked,
)
from dhsic.nulls import Multiplier, Permutation, Shifts
from tests import oracles
from tests.estimators.features import (
    centred,
    dependent,
    frobenius,
    orders_of_permutations,
    permuted_statistics,
    session_on,
)
from tests.estimators.levels import Check
from tests.estimators.test_nystrom_hsic import KERNELS, features_of

N = 90
TOLERANCE = {"float64": 1e-9, "float32": 1e-3}


def outcome(n_features, null, precision="float64", n=N):
    estimator = NystromHSIC(12, tolerance=0.0, n_features=n_features)
    return estimator.test(session_on(dependent(n), precision=precision), KERNELS, null)


def principal(features, count):
    """On the eigenvectors of their covariance; all rows are in the sample of so few."""
    moved = centred(features)
    vectors = np.linalg.svd(moved, full_matrices=False)[2]
    return moved @ vectors[:count].T


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("null", [Shifts(30), Permutation(5)])
@pytest.mark.parametrize("count", [1, 3, 12])
def test_statistic__is_that_of_the_leading_directions(count, null, precision):
    found = outcome(count, null, precision)
    features = [principal(one, count) for one in features_of(dependent(N))]
    orbit = Orbit.of(N, 30, 5)
    orders = (
        oracles.orders_of_orbit(orbit)
        if isinstance(null, Shifts)
        else [np.arange(N), *orders_of_permutations(N, null)]
    )
    expected = permuted_statistics(*features, orders, frobenius)
    whole = np.concatenate([[found.statistic], found.distribution.values])
    np.testing.assert_allclose(whole, expected, rtol=TOLERANCE[precision])
    assert found.estimate.value == pytest.approx(expected[0] / N, rel=TOLERANCE[precision])


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
def test_statistic__of_all_directions_is_that_of_all_features():
    for null in (Shifts(30), Multiplier(5)):
        whole, every = outcome(None, null), outcome(12, null)
        assert every.statistic == pytest.approx(whole.statistic, rel=1e-9)
        np.testing.assert_allclose(every.distribution.values, whole.distribution.values, rtol=1e-9)


def test_means_over_columns__have_landmarks_by_column():
    data = x, y = dependent(N)
    kernels = Columns(Laplacian()).fit(x), Gaussian(gamma=3.0)
    session = session_on(data)
    found = NystromHSIC(N, tolerance=0.0, n_features=N).test(session, kernels, Shifts(30))
    held = []
    for part, one in zip(kernels[0].parts, x.T, strict=True):
        z = np.sort(one)[((np.arange(48) + 0.5) / 48 * N).astype(int), None]
        root = np.linalg.cholesky(part(z))
        held.append(np.linalg.solve(root, part(z, one[:, None])).T / np.sqrt(2))
    first = centred(np.hstack(held))
    expected = np.sum((first @ first.T) * kernels[1](y)) / N
    assert found.statistic == pytest.approx(expected, rel=1e-6)
    assert found.estimate.landmarks.kept == (96, N)


@pytest.mark.parametrize(
    ("p", "d", "each"), [(256, 1, 48), (256, 20, 25), (256, 90, 5), (64, 100, 2), (64, 200, 0)]
)
def test_landmarks_by_column__are_fewer_of_more_columns(p, d, each):
    mean, one = Combinations.single([Columns(Laplacian())]), Combinations.single([Laplacian()])
    assert landmarks_by_column(mean, (d,), p) == [each]
    assert landmarks_by_column(one, (d,), p) == [each if d == 1 else 0]


@pytest.mark.parametrize("d", [3, 30])
def test_means_over_columns__cost_what_is_planned(d):
    """Of more than two columns a landmark, landmarks are rows."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((300, d)), rng.standard_normal((300, 1))
    combinations = Combinations.single((Columns(Laplacian()), Gaussian()))
    estimator = NystromHSIC(10, n_features="auto")
    session = session_on((x, y))
    drawn = estimator.draw(session, combinations)
    assert drawn.maps[0].n_features == (18 if d == 3 else 10)
    kept = [10, 10]
    guessed = combinations.guessed((d, 1))
    counts = estimator.by_column(guessed, (d, 1), 10)
    planned = unpruned(session, guessed, kept, counts)
    assert planned[0].n_features == drawn.maps[0].n_features
    assert planned[0].work == drawn.maps[0].work


def test_statistic__of_light_directions_too_is_larger():
    values = [outcome(count, Shifts(30)).statistic for count in (1, 4, 12)]
    assert values == sorted(values)
    assert values[1] < outcome("auto", Shifts(30)).statistic < values[2]


def test_estimate__takes_all_features():
    few = NystromHSIC(12, tolerance=0.0, n_features=1)
    every = NystromHSIC(12, tolerance=0.0)
    values = [one.estimate(session_on(dependent(N)), KERNELS).value for one in (few, every)]
    assert values[0] == values[1]


@pytest.mark.parametrize("count", [0, -1, 1.5, "many", True])
def test_n_features__is_checked(count):
    with pytest.raises(InvalidArgumentError, match=f"n_features must be .* got {count!r}"):
        NystromHSIC(n_features=count)


def flat(count):
    return Directions.guessed(count)


def falling(ratio, count=60):
    return Directions(ratio ** np.arange(count), np.eye(count))


def test_needed__grows_with_the_rows_and_with_what_may_be_missed():
    one = falling(0.5)
    assert one.needed(10, 0.0) == 1
    assert one.needed(1280, 0.0) == 8  # 2^-7 = 10 / 1,280
    assert one.needed(10**6, 0.0) == 17
    assert one.needed(10**6, 0.1) == 2  # the squares fall by 4: a sixteenth of them is beyond
    assert one.needed(10**6, 1.0) == 1
    assert flat(40).needed(10, 0.0) == 40
    assert flat(40).needed(1000, 0.25) == 30


def test_needed__is_all_where_the_sample_does_not_tell():
    assert Directions(np.zeros(3), np.eye(3)).needed(1000, 0.5) == 3


GRID = Combinations(
    (Gaussian(),) * 6, (0, 0, 0, 1, 1, 1), ((0, 3), (1, 4), (1, 5), (2, 4), (2, 5)), (1, 2, 4) * 2
)


@pytest.mark.parametrize("most", [100, 1000, 10**4])
def test_counts__keep_within_the_room_and_half_of_it_for_the_reference(most):
    directions = [flat(200), flat(150), falling(0.9), flat(120), falling(0.8), flat(90)]
    counts = feature_counts(GRID, directions, 10**6, most)
    assert sum(math.prod(counts[k] for k in pair) for pair in GRID.chosen) <= most
    assert most / 3 <= counts[0] * counts[3] <= most / 2
    assert counts[0] / 200 == pytest.approx(counts[3] / 120, abs=0.05)  # the same share of either
    assert counts[4] <= counts[2] <= counts[1]


def test_counts__are_all_that_weigh_of_the_reference_where_there_is_room():
    directions = [falling(0.5)] * 6
    own, weighty = (directions[0].needed(10**4, missed) for missed in (0.001, 0.01))
    counts = feature_counts(GRID, directions, 10**4, MOST_PRODUCTS)
    assert counts == [own, weighty, weighty] * 2
    assert (own, weighty) == (
        5,
        4,
    )  # the squares fall by 4: of 1 / 64 and 1 / 256 the latter is less


def test_axes__make_features_without_covariance_that_have_the_variances():
    rng = np.random.default_rng(0)
    sample = rng.standard_normal((400, 2))
    kernel = Gaussian(gamma=0.5)
    landmarks = rng.standard_normal((8, 2))
    factor = np.linalg.cholesky(kernel(landmarks))
    for dtype, error in ((np.float64, 1e-12), (np.float32, 1e-6)):
        side = Side.of(KernelFeatures.at(landmarks, kernel, dtype), sample, factor)
        found = Directions.of(side, side.values())
        whitened = np.linalg.solve(factor, (kernel(sample, landmarks) - side.centre).T)
        expected = np.linalg.eigvalsh(whitened @ whitened.T / 400)[::-1]
        np.testing.assert_allclose(found.variances, expected, atol=error)
        features = found.axes(3) @ (kernel(sample, landmarks) - side.centre).T
        np.testing.assert_allclose(features @ features.T / 400, np.diag(expected[:3]), atol=error)
        assert side.spread == pytest.approx(found.variances.sum(), rel=1e-5)


def test_counts__of_a_reference_that_shares_its_kernels_come_first():
    every = Grid(Candidates("gaussian", (0.5, 1)), combine="all").combinations(2)
    counts = feature_counts(every, [flat(100)] * 4, 1000, 400)
    (first, second), (other, another) = every.chosen[every.reference()], every.chosen[0]
    assert counts[first] == counts[second] == 14  # 196 of 200
    assert counts[other] == counts[another] == 6  # 204 = 36 + 2 * 14 * 6


def test_counts__of_the_others_are_twice_those_of_the_reference_or_48():
    directions = [falling(0.5), flat(200), falling(0.9), falling(0.97), flat(500), falling(0.9)]
    counts = feature_counts(GRID, directions, 10**6, 10**5)
    own = directions[3].needed(10**6, 0.001)
    assert counts[3] == own > 48
    assert counts[1] == 48
    assert counts[4] == 2 * own


def test_plan__holds_less_with_fewer_features():
    data = np.zeros((5000, 20)), np.zeros((5000, 20))
    bytes_of = {
        count: dhsic.plan(*data, estimator=NystromHSIC(128, n_features=count)).passes[0]
        for count in (None, "auto", 16)
    }
    assert bytes_of[16].bytes_to_driver < bytes_of["auto"].bytes_to_driver
    assert bytes_of["auto"].bytes_to_driver <= bytes_of[None].bytes_to_driver


def test_identity__is_left_out_and_said():
    data = dependent(400)
    narrow = Grid((Candidates("gaussian", (1.0, 0.001)), Candidates("gaussian", (1.0, 2.0))))
    options = {"estimator": NystromHSIC(40, n_features="auto"), "rng": 0, "n_resamples": 50}
    found = dhsic.independence_test(*data, kernels=narrow, **options)
    assert found.grid is None  # the reference alone is left
    assert (
        "combinations left out, with kernels that compare hardly any rows: 1" in found.null_reason
    )
    alone = dhsic.independence_test(*data, kernels="gaussian", **options)
    assert (found.statistic, found.pvalue) == (alone.statistic, alone.pvalue)
    every = Grid(narrow.candidates, combine="all")
    found = dhsic.independence_test(*data, kernels=every, **options)
    assert [c.kernels[0] for c in found.grid.combinations] == [found.variables[0].kernel] * 2
    assert "left out" not in dhsic.independence_test(*data, kernels=Grid(), **options).null_reason


def test_identity__is_no_kernel_that_compares():
    rows = np.random.default_rng(0).permutation(300)
    codes = rows % 20
    grid = Grid((Candidates("delta"), Candidates("gaussian", (0.5, 1.0))))
    options = {"estimator": NystromHSIC(40, n_features="auto"), "rng": 0, "n_resamples": 50}
    found = dhsic.independence_test(codes, codes + rows % 7, kernels=grid, **options)
    assert len(found.grid.combinations) == 2


def rare(rng, n):
    """Dummies with 3 % ones, the first of which at least one row has."""
    x, y = (rng.random((2, n)) < 0.03).astype(float)
    x[0], y[1] = 1.0, 1.0
    return rng.permutation(x), rng.permutation(y)


NULLS = {
    "columns": lambda rng, n: (rng.standard_normal((n, 20)), rng.standard_normal((n, 2))),
    "heavy tails": lambda rng, n: tuple(rng.standard_cauchy((2, n))),
    "rare": rare,
}


def pvalues(make, n, estimator):
    for seed in range(150):
        data = make(np.random.default_rng([7, seed]), n)
        yield dhsic.independence_test(
            *data, kernels=Grid(), estimator=estimator, n_resamples=60, rng=seed, threads=1
        ).pvalue


@pytest.mark.parametrize("kind", NULLS)
def test_level(kind):
    estimator = NystromHSIC(40, n_features="auto")
    rejected = (p <= 0.1 for p in pvalues(NULLS[kind], 120, estimator))
    assert Check.of(150, 0.1, error=1e-4).passes(rejected)


def test_power__in_many_columns_is_that_of_all_features():
    """Where tuples of landmarks find less."""

    def make(rng, n):
        x = rng.standard_normal((n, 30))
        return x, 0.25 * x + rng.standard_normal((n, 30))

    found = {}
    for name, estimator in (
        ("principal", NystromHSIC(100, n_features="auto")),
        ("tuples", dhsic.NystromMHSIC(100)),
    ):
        some = pvalues(make, 200, estimator)
        found[name] = np.mean([next(some) <= 0.05 for _ in range(20)])
    assert found["principal"] > 0.8
    assert found["principal"] > found["tuples"]


def test_features__of_ranks_order_a_variable_once(monkeypatch):
    orders, ordered = [], Ranked.ordered

    def counted(self, x):
        orders.append(x.shape)
        return ordered(self, x)

    monkeypatch.setattr(Ranked, "ordered", counted)
    x = np.random.default_rng(0).standard_normal((50, 2))
    kernels = [Ranked(Gaussian(), "scores"), Ranked(Gaussian(), "spread"), Ranked(Linear())]
    sides = {
        k: KernelSide.plain(0, Side.of(KernelFeatures.at(x[:5], one.fit(x), np.float64), x))
        for k, one in enumerate(kernels)
    }
    layout = Layout.of(sides | {3: sides[0]._replace(variable=1)}, [(0, 3), (1, 3), (2, 3)])
    orders.clear()
    found = {k: raw for k, _, raw in layout.raw([x, x[::-1]])}
    assert orders == [(50, 2)] * 2
    for k, one in enumerate(kernels):
        expected = one.fit(x)(x, x[:5]) - sides[k].centre
        np.testing.assert_allclose(found[k], expected, atol=1e-12)
