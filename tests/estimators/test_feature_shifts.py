"""Shifts of cross-covariances of features against every permutation of the orbit, one by one."""

import math
import tracemalloc
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
import zarr
from scipy.stats import binom

import dhsic
from dhsic.engine.events import BlockFinished, PassStarted
from dhsic.engine.groups import Groups
from dhsic.engine.reduction import GroupBlock
from dhsic.errors import MemoryBudgetError
from dhsic.estimators.coco import COCO
from dhsic.estimators.feature_basis import Side
from dhsic.estimators.feature_spectra import KernelSide, Rectangle, SpectraPass
from dhsic.estimators.normalised import CKA, NOCCO
from dhsic.estimators.nystrom_hsic import NystromHSIC
from dhsic.estimators.resample import Orbit
from dhsic.estimators.rff import RFFHSIC
from dhsic.estimators.sub_corr import SubCorr
from dhsic.features import ColumnFeatures, KernelFeatures
from dhsic.kernels import Candidates, Gaussian, Grid, Linear
from dhsic.nulls import Shifts, pvalue
from tests import oracles
from tests.estimators import test_coco, test_normalised, test_nystrom_hsic, test_rff, test_sub_corr
from tests.estimators.features import dependent, frobenius, permuted_statistics, session_on
from tests.estimators.test_normalised import SHARE, normalised

SEED = 5
KERNELS = (Gaussian(gamma=3.0), Gaussian(gamma=3.0))
WIDE = (Gaussian(gamma=0.3), Gaussian(gamma=0.3))
PRECISE = {"n_landmarks": 12, "tolerance": 0.0}
CASES = {
    "nystrom-hsic": (
        NystromHSIC(**PRECISE),
        KERNELS,
        lambda data: test_nystrom_hsic.features_of(data),
        frobenius,
    ),
    "cka": (
        CKA(**PRECISE),
        KERNELS,
        lambda data: normalised(CKA, test_normalised.features_of(data)),
        frobenius,
    ),
    "nocco": (
        NOCCO(**PRECISE, regularisation=SHARE),
        KERNELS,
        lambda data: normalised(NOCCO, test_normalised.features_of(data)),
        frobenius,
    ),
    "coco": (COCO(**PRECISE), KERNELS, lambda data: test_coco.features_of(data), test_coco.largest),
    "rff-hsic": (RFFHSIC(8), WIDE, lambda data: test_rff.features_of(data), frobenius),
    "rff-hsic complex": (
        RFFHSIC(8, form="complex"),
        WIDE,
        lambda data: test_rff.features_of(data, "complex"),
        frobenius,
    ),
    "sub-corr": (SubCorr(), (Linear(), Linear()), test_sub_corr.standardised, frobenius),
}
# One group, with cosets; groups with rows left over, with cosets; an odd number of rows.
SIZES = [(47, 10), (60, 60), (60, 130), (500, 100), (35, 60)]
ORBITS = [Orbit(Groups(47, 15, SEED), 1), Orbit(Groups(47, 8, SEED), 3)]
TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
every_estimator = pytest.mark.parametrize("case", CASES)


def whole(outcome):
    return np.concatenate([[outcome.statistic], outcome.distribution.values])


@pytest.mark.parametrize(("n", "n_resamples"), SIZES)
@pytest.mark.parametrize("precision", TOLERANCE)
@every_estimator
def test_replicates__are_the_statistics_of_all_permutations(case, precision, n, n_resamples):
    estimator, kernels, features, size = CASES[case]
    data = dependent(n)
    session = session_on(data, precision=precision)
    found = estimator.test(session, kernels, Shifts(n_resamples))
    orbit = Orbit.of(n, n_resamples, SEED)
    assert found.detail == orbit.detail
    expected = permuted_statistics(*features(data), oracles.orders_of_orbit(orbit), size)
    # What whitening leaves of float32 in NOCCO is not more.
    rtol = TOLERANCE[precision] * (100 if (case, precision) == ("nocco", "float32") else 1)
    np.testing.assert_allclose(whole(found), expected, rtol=rtol)
    assert found.estimate.value == pytest.approx(
        math.sqrt(expected[0] / n) if case == "coco" else expected[0] / n, rel=rtol
    )


@pytest.mark.parametrize("cosets", [1, 3])
@pytest.mark.parametrize("size", [2, 7, 8, 47])
def test_pass__has_the_sums_of_all_permutations(size, cosets):
    """Also of rows left over, of several rectangles, and of a kernel on both sides."""
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((47, d)) for d in (2, 1, 3)]
    maps = [ColumnFeatures.of(x, np.float64) for x in data]
    kernels = tuple(
        (m, KernelSide(m, one, rng.standard_normal(one.n_features), slice(0, one.n_features), None))
        for m, one in enumerate(maps)
    )
    orbit = Orbit(Groups(47, size, SEED), cosets)
    rectangles = (Rectangle((0,), (1, 2)), Rectangle((1,), (2,)))
    reduction = SpectraPass(kernels, rectangles, orbit, range(cosets), tile_bytes=4000)
    parts = []
    bounds = [0, *sorted({orbit.groups.count // 2, orbit.groups.count} - {0})]
    for start, stop in pairwise(bounds):
        ranges, places = orbit.groups.arrange(start, stop)
        values = tuple(np.concatenate([x[a:b] for a, b in ranges])[places] for x in data)
        parts.append(reduction.chunk(GroupBlock(start, orbit.groups, values)))
    sums = parts[0] if len(parts) == 1 else reduction.combine(*parts)
    features = [side.raw(x) for (_, side), x in zip(kernels, data, strict=True)]
    orders = oracles.orders_of_orbit(orbit)
    for crossing, (first, second) in zip(reduction.crossings, rectangles, strict=True):
        found = np.fft.irfft(crossing.of(sums.cross), size, axis=1)
        left, right = (np.hstack([features[k] for k in some]) for some in (first, second))
        expected = np.array([left.T @ right[order] for order in orders])
        np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=1e-10)
    np.testing.assert_allclose(sums.sums, np.hstack(features).sum(axis=0), atol=1e-10)


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("estimator", [NystromHSIC(**PRECISE), RFFHSIC(8)], ids=lambda e: e.name)
@pytest.mark.parametrize(
    "combine", ["all", "matched", ((0, 3), (2, 0), (1, 1), (1, 3), (2, 1), (2, 3))]
)
def test_grid__equals_every_combination_by_itself(estimator, combine, precision):
    mixed = Candidates(("gaussian", dhsic.kernels.Laplacian(gamma=0.4)), factors=(0.5, 2))
    combinations = Grid(mixed, combine=combine).combinations(2)
    null, data = Shifts(25), dependent(60)
    found = estimator.test_grid(session_on(data, precision=precision), combinations, null)
    for g in range(len(combinations)):
        kernels = found.combinations.kernels_of(g)
        alone = estimator.test(session_on(data, precision=precision), kernels, null)
        rtol = TOLERANCE[precision]
        np.testing.assert_allclose(
            [found.statistics[g], *found.replicates[:, g]], whole(alone), rtol=rtol
        )
        assert found.estimate(g).value == pytest.approx(alone.estimate.value, rel=rtol)
        assert found.rounding[g] == pytest.approx(alone.rounding, rel=1e-3)
        assert found.detail == alone.detail


@pytest.mark.parametrize("memory", [2**31, 2**18])
@every_estimator
def test_auto_null__is_exact(case, memory):
    session = session_on(dependent(300), memory=memory)
    assert CASES[case][0].choose_null(session, 99) == (Shifts(99), "exact for exchangeable rows")


@every_estimator
def test_plan__names_the_passes_that_run(case):
    estimator, kernels, _, _ = CASES[case]
    session = session_on(dependent(300))
    plan = estimator.plan(session, kernels, Shifts(99))
    estimator.test(session, kernels, Shifts(99))
    assert [step.name for step in plan.passes] == [done.name for done in session.finished]


def little(monkeypatch):
    """Sessions whose memory is all for the data and what is made of them."""
    for name in ("engine.plan", "estimators.base", "estimators.feature_shifts"):
        monkeypatch.setattr(f"dhsic.{name}.baseline_bytes", lambda: 0)


def passes(session):
    return [done.name for done in session.finished].count("shifts")


LITTLE = {
    "nystrom-hsic": (NystromHSIC(60), KERNELS, (2, 3), 2**24, range(16, 17)),
    "cka": (CKA(60), KERNELS, (2, 3), 2**24, range(16, 17)),
    "rff-hsic": (RFFHSIC(24), WIDE, (2, 3), 2**24, range(8, 17)),
    "sub-corr": (SubCorr(), (Linear(), Linear()), (40, 30), 2**24, range(8, 17)),
}


@pytest.mark.parametrize("case", LITTLE)
@pytest.mark.parametrize("precision", TOLERANCE)
def test_little_memory__cuts_cosets_and_features_and_gives_the_same(case, precision, monkeypatch):
    little(monkeypatch)
    estimator, kernels, dims, memory, counts = LITTLE[case]
    data, null = dependent(300, dims), Shifts(1200)
    large, small = (session_on(data, precision=precision, memory=m) for m in (2**31, memory))
    expected, found = (estimator.test(session, kernels, null) for session in (large, small))
    assert passes(large) == 1
    assert passes(small) in counts
    assert estimator.plan(small, kernels, null).peak_worker_bytes <= memory
    rtol = 1e-9 if precision == "float64" else 2e-4
    np.testing.assert_allclose(whole(found), whole(expected), rtol=rtol)
    assert 0.0 < found.rounding < 2.0 * expected.rounding
    assert found.detail == expected.detail


def test_little_memory__cuts_a_grid_and_gives_the_same(monkeypatch):
    little(monkeypatch)
    combinations = Grid(Candidates(factors=(0.25, 0.5, 1, 2)), combine="all").combinations(2)
    data, null, estimator = dependent(600), Shifts(600), NystromHSIC(20)
    large, small = (session_on(data, memory=m) for m in (2**31, 2**24))
    expected, found = (estimator.test_grid(s, combinations, null) for s in (large, small))
    assert passes(large) == 1 < passes(small)
    np.testing.assert_allclose(found.statistics, expected.statistics, rtol=1e-10)
    np.testing.assert_allclose(found.replicates, expected.replicates, rtol=1e-10)


@pytest.mark.parametrize("case", ["coco", "rff-hsic complex"])
def test_little_memory__takes_smaller_groups_where_sizes_do_not_add_up(case, monkeypatch):
    little(monkeypatch)
    estimator = {"coco": COCO(40, tolerance=0.0), "rff-hsic complex": RFFHSIC(30, form="complex")}
    data, null = dependent(1100), Shifts(1000)
    small = session_on(data, memory=3 * 2**22)
    found = estimator[case].test(small, WIDE, null)
    assert "all 1,100 shifts" not in found.detail
    assert passes(small) > 1
    count = 1 + len(found.distribution.values)
    assert count >= 1000
    assert f"{count:,} replicates" in found.detail
    p = pvalue(found.statistic, found.distribution, rounding=found.rounding)
    assert p == pytest.approx(1 / count)


def test_little_memory__is_refused_in_words():
    x, y = dependent(2000)
    with pytest.raises(MemoryBudgetError, match="take fewer landmarks, fewer resamples"):
        dhsic.independence_test(
            x, y, kernels="gaussian", estimator="nystrom-hsic", null=Shifts(), memory="320MiB",
            threads=4, rng=0,
        )  # fmt: skip


def stored(data, kind, folder, rows):
    if kind == "zarr":
        return [
            zarr.create_array(folder / str(m), data=x, chunks=(rows, 1)) for m, x in enumerate(data)
        ]
    return [da.from_array(x, chunks=(rows, 1)) for x in data] if kind == "dask" else data


@pytest.mark.parametrize("kind", ["numpy", "zarr", "dask"])
@pytest.mark.parametrize("where", ["threads", "client"])
@pytest.mark.parametrize("n_resamples", [200, 600])
def test_streams__give_the_same_bits(kind, where, n_resamples, tmp_path, request, monkeypatch):
    """Whatever stores the rows and wherever tasks run; also with cosets."""
    monkeypatch.setattr("dhsic.estimators.resample._WIDEST", 200)
    data, kernels = dependent(70_000), (Gaussian(gamma=0.5), Gaussian(gamma=0.5))
    # More landmarks have sizes that are found where tasks run.
    estimator, null = NystromHSIC(12 if n_resamples == 200 else 45), Shifts(n_resamples)
    alone = session_on(data)
    expected = estimator.test(alone, kernels, null)
    client = request.getfixturevalue("client") if where == "client" else None
    session = session_on(stored(data, kind, tmp_path, 1500), client=client)
    found = estimator.test(session, kernels, null)
    assert session.finished[0].blocks == alone.finished[0].blocks > 1
    np.testing.assert_array_equal(whole(found), whole(expected))
    assert found.rounding == expected.rounding
    assert len(found.distribution.values) >= n_resamples - 1
    assert ("orders" in found.detail) == (n_resamples > 200)


@pytest.mark.parametrize("at", [3, 20])
def test_checkpoint__goes_on_with_the_same_bits(at, tmp_path):
    """Stopped in the pass, and while sizes are found."""
    x, y = dependent(70_000)
    options = {"kernels": "gaussian", "estimator": NystromHSIC(50), "null": Shifts(300), "rng": 0}
    expected = dhsic.independence_test(x, y, **options)

    class Stop:
        blocks = 0

        def __call__(self, event):
            self.blocks += isinstance(event, BlockFinished)
            if self.blocks == at:
                raise KeyboardInterrupt

    folder = str(tmp_path / "kept")
    with pytest.raises(KeyboardInterrupt):
        dhsic.independence_test(x, y, **options, threads=1, checkpoint=folder, progress=Stop())
    heard = []
    found = dhsic.independence_test(x, y, **options, checkpoint=folder, progress=heard.append)
    np.testing.assert_array_equal(found.null_distribution, expected.null_distribution)
    resumed = [e.resumed_parts for e in heard if isinstance(e, PassStarted)]
    assert max(resumed) >= (2 if at == 3 else 10)


def stacked(dtype, n=20_000):
    """Two kernels of either variable at 30 landmarks, and a block of rows."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((n, 4)), rng.standard_normal((n, 2))
    sides = [
        Side.of(KernelFeatures.at(x[:30], Gaussian(gamma=0.2 + k), dtype), x[:200])[0]
        for x in data
        for k in range(2)
    ]
    return data, sides


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("whitens", [False, True])
@pytest.mark.parametrize("cosets", [1, 3])
@pytest.mark.parametrize("size", [200, 2000])
def test_pass__needs_no_more_memory_than_it_states(dtype, whitens, cosets, size):
    data, sides = stacked(dtype)
    kernels = tuple(
        (
            k,
            KernelSide(
                k // 2, side.map, side.centre, slice(0, 30),
                np.eye(30, dtype=dtype) if whitens else None,
            ),
        )
        for k, side in enumerate(sides)
    )  # fmt: skip
    orbit = Orbit(Groups(len(data[0]), size, 0), cosets)
    rectangle = Rectangle((0, 1), (2, 3))
    reduction = SpectraPass(kernels, (rectangle,), orbit, range(cosets), tile_bytes=2**23)
    cost = reduction.footprint(len(data[0]))
    block = GroupBlock(0, orbit.groups, data)
    tracemalloc.start()
    try:
        state = reduction.chunk(block)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert cost.state == sum(x.nbytes for x in state)
    assert peak < 1.05 * (cost.scratch + cost.state) + 500_000


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize(("n", "share"), [(300, 0.02), (300, 0.3), (3000, 0.02), (3000, 0.3)])
@every_estimator
def test_ties__are_no_evidence(case, n, share, precision):
    """All statistics of two dummies grow with |n #(both are 1) - #(x is 1) #(y is 1)|."""
    estimator, kernels, _, _ = CASES[case]
    for seed in range(4):
        x, y = (np.random.default_rng([seed, n]).random((2, n, 1)) < share) * 1
        found = estimator.test(session_on((x, y), precision=precision), kernels, Shifts(300))
        p = pvalue(found.statistic, found.distribution, precision, found.rounding)
        orders = oracles.orders_of_orbit(Orbit.of(n, 300, SEED))
        both = np.array([x[:, 0] @ y[order, 0] for order in orders])
        sizes = np.abs(n * both - x.sum() * y.sum())
        assert p == pytest.approx(np.mean(sizes >= sizes[0]), rel=1e-12)


def rejections(draw, runs, alpha, estimator="nystrom-hsic", **options):
    count = 0
    for seed in range(runs):
        x, y = draw(np.random.default_rng([3, seed]))
        result = dhsic.independence_test(
            x, y, estimator=estimator, kernels="gaussian", null=Shifts(40), rng=seed, threads=1,
            **options,
        )  # fmt: skip
        count += result.pvalue <= alpha
    return count


NULL_DATA = {
    "normals": lambda rng: rng.standard_normal((2, 120, 2)),
    "2 % dummies": lambda rng: (rng.random((2, 400, 1)) < 0.02) * 1.0,
    "Cauchy": lambda rng: rng.standard_cauchy((2, 100, 1)),
    "few rows": lambda rng: rng.standard_normal((2, 9, 1)),
}


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("case", NULL_DATA)
def test_level__is_kept(case, precision):
    count = rejections(NULL_DATA[case], 150, 0.1, precision=precision)
    assert count <= binom.ppf(0.9999, 150, 0.1)
    if case in ("normals", "Cauchy"):
        assert count >= binom.ppf(0.0001, 150, 0.1)


@pytest.mark.parametrize("order", ["random", "by x", "by y"])
def test_power__does_not_depend_on_the_order_of_the_rows(order):
    def draw(rng):
        x = rng.uniform(-np.pi, np.pi, (2000, 1))
        y = 0.35 * np.sin(2 * x) + rng.standard_normal((2000, 1))
        rows = {"random": slice(None), "by x": np.argsort(x[:, 0]), "by y": np.argsort(y[:, 0])}
        return x[rows[order]], y[rows[order]]

    assert rejections(draw, 20, 0.05) >= 16
