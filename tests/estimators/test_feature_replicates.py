"""Replicates of cross-covariances of features against every permutation, one by one."""

import math
import tracemalloc
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
import zarr

import dhsic
from dhsic.engine.events import BlockFinished, PassStarted
from dhsic.engine.groups import Groups
from dhsic.engine.reduction import GroupBlock
from dhsic.errors import MemoryBudgetError
from dhsic.estimators.feature.basis import Side
from dhsic.estimators.feature.coco import COCO
from dhsic.estimators.feature.layout import KernelSide, Layout, Rectangle
from dhsic.estimators.feature.normalised import CKA, NOCCO
from dhsic.estimators.feature.nystrom_hsic import NystromHSIC
from dhsic.estimators.feature.orbits import OrbitPass
from dhsic.estimators.feature.pieces import fewest_parts, parted
from dhsic.estimators.feature.rff import RFFHSIC
from dhsic.estimators.feature.sub_corr import SubCorr
from dhsic.estimators.resample import Orbit
from dhsic.features import ColumnFeatures, KernelFeatures
from dhsic.kernels import Candidates, Combinations, Gaussian, Grid, Linear
from dhsic.nulls import Gamma, Multiplier, Permutation, Shifts, Spectral, pvalue
from tests import oracles
from tests.estimators import test_coco, test_normalised, test_nystrom_hsic, test_rff, test_sub_corr
from tests.estimators.features import (
    dependent,
    frobenius,
    orbit_of_permutations,
    permuted_statistics,
    session_on,
    steps_of,
)
from tests.estimators.levels import Check
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
SIZES = [
    *((n, Shifts(count)) for n, count in [(47, 10), (60, 60), (60, 130), (500, 100), (35, 60)]),
    *((47, Permutation(5, within, group_rows=8)) for within in ("all", "groups")),
]
TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
every_estimator = pytest.mark.parametrize("case", CASES)


def orbit_of(n, null):
    if isinstance(null, Shifts):
        return Orbit.of(n, null.n_resamples, SEED)
    return orbit_of_permutations(n, null, SEED)


def whole(outcome):
    return np.concatenate([[outcome.statistic], outcome.distribution.values])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("n", "null"), SIZES)
@pytest.mark.parametrize("precision", TOLERANCE)
@every_estimator
def test_replicates__are_the_statistics_of_all_permutations(case, precision, n, null):
    estimator, kernels, features, size = CASES[case]
    data = dependent(n)
    session = session_on(data, precision=precision)
    found = estimator.test(session, kernels, null)
    orbit = orbit_of(n, null)
    assert found.detail == orbit.detail
    expected = permuted_statistics(*features(data), oracles.orders_of_orbit(orbit), size)
    # What whitening leaves of float32 in NOCCO is not more.
    rtol = TOLERANCE[precision] * (100 if (case, precision) == ("nocco", "float32") else 1)
    np.testing.assert_allclose(whole(found), expected, rtol=rtol)
    assert found.estimate.value == pytest.approx(
        math.sqrt(expected[0] / n) if case == "coco" else expected[0] / n, rel=rtol
    )


@pytest.mark.parametrize("shifted", [True, False])
@pytest.mark.parametrize("cosets", [1, 3])
@pytest.mark.parametrize("size", [2, 7, 8, 47])
def test_pass__has_the_sums_of_all_permutations(size, cosets, shifted):
    """Also of rows left over, of several rectangles, and of a kernel on both sides."""
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((47, d)) for d in (2, 1, 3)]
    kernels = {
        m: KernelSide.plain(m, Side.of(ColumnFeatures.of(x, np.float64), x[:9]))
        for m, x in enumerate(data)
    }
    orbit = Orbit(Groups(47, size, SEED), cosets, shifted)
    layout = Layout.of(kernels, [(0, 1), (0, 2), (1, 2)])
    assert layout.rectangles == (Rectangle((0,), (1, 2)), Rectangle((1,), (2,)))
    reduction = OrbitPass(layout, orbit, range(cosets), tile_bytes=4000)
    parts = []
    bounds = [0, *sorted({orbit.groups.count // 2, orbit.groups.count} - {0})]
    for start, stop in pairwise(bounds):
        ranges, places = orbit.groups.arrange(start, stop)
        values = tuple(np.concatenate([x[a:b] for a, b in ranges])[places] for x in data)
        parts.append(reduction.chunk(GroupBlock(start, orbit.groups, values)))
    sums = parts[0] if len(parts) == 1 else reduction.combine(*parts)
    features = layout.features(data)
    np.testing.assert_allclose(sums.sums, features.sum(axis=0), atol=1e-10)
    cross = reduction.covariances(sums)
    orders, moved = oracles.orders_of_orbit(orbit), features - features.mean(axis=0)
    assert len(cross) == len(orders) == len(orbit)
    for one in layout.crossings:
        left, right = moved[:, one.first], moved[:, one.second]
        expected = np.array([left.T @ right[order] / 47 for order in orders])
        np.testing.assert_allclose(one.of(cross), expected, atol=1e-12)


def test_layout__has_every_pair_once_in_rectangles():
    side = Side(ColumnFeatures(np.zeros(2), np.ones(2), np.dtype(float)), np.zeros(2))
    pairs = [(3, 2), (3, 1), (0, 1), (0, 2), (4, 2), (1, 5), (4, 6)]
    layout = Layout.of({k: KernelSide.plain(0, side) for k in range(7)}, pairs)
    held = [(i, j) for one in layout.rectangles for i in one.firsts for j in one.seconds]
    assert sorted(held) == sorted(pairs)
    assert layout.n_products == 4 * len(pairs)
    products = np.arange(layout.n_products)
    blocks = [layout.place(pair).of(products) for pair in pairs]
    assert len({int(x) for block in blocks for x in block.ravel()}) == layout.n_products
    assert len(layout.rectangles) == 4


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


@pytest.mark.parametrize(
    "null",
    [
        *(None, Shifts(99), Permutation(9, within="all"), Permutation(9, "groups", 64)),
        *(Multiplier(9), Gamma(), Spectral()),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@every_estimator
def test_plan__has_the_steps_that_run(case, null):
    estimator, kernels, _, _ = CASES[case]
    if case in ("coco", "nocco", "rff-hsic complex") and isinstance(null, Gamma | Spectral):
        pytest.skip("does not stand with it")
    session, heard = session_on(dependent(300)), []
    session.listener = heard.append
    plan = estimator.plan(session, Combinations.single(kernels), null)
    if null is None:
        estimator.estimate(session, kernels)
    else:
        estimator.test(session, kernels, null)
    assert [step.name for step in plan.steps] == steps_of(heard)


def passes(session):
    return [done.name for done in session.finished].count("shifts")


LITTLE = {
    # Replicates of single precision take half as much.
    "nystrom-hsic": (NystromHSIC(60), KERNELS, (2, 3), {"float64": [16], "float32": [12]}),
    "cka": (CKA(60), KERNELS, (2, 3), {"float64": [16], "float32": [12]}),
    "rff-hsic": (RFFHSIC(24), WIDE, (2, 3), {"float64": [8, 12, 16], "float32": [8, 12]}),
    "sub-corr": (SubCorr(), (Linear(),) * 2, (40, 30), {"float64": [8, 16], "float32": [4, 8]}),
}


@pytest.mark.parametrize("case", LITTLE)
@pytest.mark.parametrize("precision", TOLERANCE)
def test_little_memory__cuts_cosets_and_features_and_gives_the_same(case, precision, no_libraries):
    estimator, kernels, dims, counts = LITTLE[case]
    data, null, memory = dependent(300, dims), Shifts(1200), 2**24
    large, small = (session_on(data, precision=precision, memory=m) for m in (2**31, memory))
    expected, found = (estimator.test(session, kernels, null) for session in (large, small))
    assert passes(large) == 1
    assert passes(small) in counts[precision]
    assert estimator.plan(small, Combinations.single(kernels), null).peak_worker_bytes <= memory
    rtol = 1e-9 if precision == "float64" else 2e-4
    np.testing.assert_allclose(whole(found), whole(expected), rtol=rtol)
    assert 0.0 < found.rounding < 2.0 * expected.rounding
    assert found.detail == expected.detail


@pytest.mark.parametrize(
    "null", [Shifts(600), Permutation(600), Permutation(600, "groups", 64), Multiplier(600)]
)
@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
def test_little_memory__cuts_a_grid_and_gives_the_same(null, no_libraries):
    combinations = Grid(Candidates(factors=(0.25, 0.5, 1, 2)), combine="all").combinations(2)
    data, estimator = dependent(600), NystromHSIC(20)
    large, small = (session_on(data, memory=m) for m in (2**31, 2**24))
    expected, found = (estimator.test_grid(s, combinations, null) for s in (large, small))
    assert len(large.finished) == 1 < len(small.finished)
    np.testing.assert_allclose(found.statistics, expected.statistics, rtol=1e-10)
    np.testing.assert_allclose(found.replicates, expected.replicates, rtol=1e-10)


@pytest.mark.parametrize("case", ["coco", "rff-hsic complex"])
def test_little_memory__takes_smaller_groups_where_sizes_do_not_add_up(case, no_libraries):
    estimator = {"coco": COCO(40, tolerance=0.0), "rff-hsic complex": RFFHSIC(30, form="complex")}
    data, null = dependent(1100), Shifts(1000)
    small = session_on(data, memory=3 * 2**22)
    found = estimator[case].test(small, WIDE, null)
    assert "all 1,100 shifts" not in found.detail
    assert passes(small) > 1
    count = 1 + len(found.distribution.values)
    assert count >= 1000
    p = pvalue(found.statistic, found.distribution, rounding=found.rounding)
    assert p == pytest.approx(1 / count)


def test_little_memory__is_refused_in_words(no_libraries):
    x, y = dependent(2000)
    with pytest.raises(MemoryBudgetError, match="take fewer landmarks, fewer resamples"):
        dhsic.independence_test(
            x, y, kernels="gaussian", estimator="nystrom-hsic", null=Shifts(), memory="6MiB",
            threads=4, rng=0,
        )  # fmt: skip


def stored(data, kind, folder, rows):
    if kind == "zarr":
        return [
            zarr.create_array(folder / str(m), data=x, chunks=(rows, 1)) for m, x in enumerate(data)
        ]
    return [da.from_array(x, chunks=(rows, 1)) for x in data] if kind == "dask" else data


STREAMED = [Shifts(200), Shifts(600), Permutation(20, "groups", 200)]
KINDS = ["numpy", "zarr", "dask"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("null", "where", "kind"),
    [
        *((null, "threads", kind) for null in STREAMED for kind in KINDS),
        *((null, "client", kind) for null, kind in zip(STREAMED, KINDS, strict=True)),
    ],
)
def test_streams__give_the_same_bits(kind, where, null, tmp_path, request, monkeypatch):
    """Whatever stores the rows and wherever tasks run; also with cosets."""
    monkeypatch.setattr("dhsic.estimators.resample._WIDEST", 200)
    data, kernels = dependent(60_000), (Gaussian(gamma=0.5), Gaussian(gamma=0.5))
    # More landmarks have sizes that are found where tasks run.
    estimator = NystromHSIC(45 if null == Shifts(600) else 12)
    alone = session_on(data)
    expected = estimator.test(alone, kernels, null)
    client = request.getfixturevalue("client") if where == "client" else None
    session = session_on(stored(data, kind, tmp_path, 1500), client=client)
    found = estimator.test(session, kernels, null)
    assert session.finished[0].blocks == alone.finished[0].blocks > 1
    np.testing.assert_array_equal(whole(found), whole(expected))
    assert found.rounding == expected.rounding
    if isinstance(null, Permutation):
        assert found.detail == "shuffled in groups of 200 rows"
        return
    assert len(found.distribution.values) >= null.n_resamples - 1
    assert ("orders" in found.detail) == (null.n_resamples > 200)


@pytest.mark.parametrize("at", [3, 20])
@pytest.mark.parametrize("unbiased", [False, True])
def test_checkpoint__goes_on_with_the_same_bits(at, unbiased, tmp_path):
    """Stopped in the pass, and while sizes are found."""
    x, y = dependent(70_000)
    estimator = NystromHSIC(50, unbiased_estimate=unbiased)
    options = {"kernels": "gaussian", "estimator": estimator, "null": Shifts(300), "rng": 0}
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
    assert found.estimate == expected.estimate
    resumed = [e.resumed_parts for e in heard if isinstance(e, PassStarted)]
    assert max(resumed) >= (2 if at == 3 else 10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("whitens", [False, True])
@pytest.mark.parametrize("cosets", [1, 3])
@pytest.mark.parametrize(
    ("size", "shifted"), [(200, True), (2000, True), (200, False), (20_000, False)]
)
def test_pass__needs_no_more_memory_than_it_states(dtype, whitens, cosets, size, shifted):
    """Two kernels of either variable at 30 landmarks."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((20_000, 4)), rng.standard_normal((20_000, 2))
    whitening = np.eye(30, dtype=dtype) if whitens else None
    kernels = {}
    for k in range(4):
        x, kernel = data[k // 2], Gaussian(gamma=0.2 + k % 2)
        side = Side.of(KernelFeatures.at(x[:30], kernel, dtype), x[:200])
        kernels[k] = KernelSide.plain(k // 2, side)._replace(whitening=whitening)
    orbit = Orbit(Groups(20_000, size, 0), cosets, shifted)
    layout = Layout.of(kernels, [(0, 2), (0, 3), (1, 2), (1, 3)])
    reduction = OrbitPass(layout, orbit, range(cosets), tile_bytes=2**23)
    cost = reduction.footprint(20_000)
    block = GroupBlock(0, orbit.groups, data)
    tracemalloc.start()
    try:
        state = reduction.chunk(block)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert cost.state == sum(x.nbytes for x in state)
    assert peak < 1.05 * (cost.scratch + cost.state) + 500_000


@pytest.mark.sampled(5)
@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize(("n", "share"), [(300, 0.02), (300, 0.3), (3000, 0.02), (3000, 0.3)])
@pytest.mark.parametrize("null", [Shifts(300), Permutation(99), Permutation(99, "groups", 64)])
@every_estimator
def test_ties__are_no_evidence(case, n, share, precision, null):
    """All statistics of two dummies grow with |n #(both are 1) - #(x is 1) #(y is 1)|."""
    estimator, kernels, _, _ = CASES[case]
    for seed in range(4 if n == 300 else 1):
        x, y = (np.random.default_rng([seed, n]).random((2, n, 1)) < share) * 1
        found = estimator.test(session_on((x, y), precision=precision), kernels, null)
        p = pvalue(found.statistic, found.distribution, precision, found.rounding)
        orders = oracles.orders_of_orbit(orbit_of(n, null))
        both = np.array([x[:, 0] @ y[order, 0] for order in orders])
        sizes = np.abs(n * both - x.sum() * y.sum())
        assert p == pytest.approx(np.mean(sizes >= sizes[0]), rel=1e-12)


def rejections(draw, runs, alpha, estimator="nystrom-hsic", **options):
    for seed in range(runs):
        x, y = draw(np.random.default_rng([3, seed]))
        result = dhsic.independence_test(
            x, y, estimator=estimator, kernels="gaussian", null=Shifts(40), rng=seed, threads=1,
            **options,
        )  # fmt: skip
        yield result.pvalue <= alpha


NULL_DATA = {
    "normals": lambda rng: rng.standard_normal((2, 120, 2)),
    "2 % dummies": lambda rng: (rng.random((2, 400, 1)) < 0.02) * 1.0,
    "Cauchy": lambda rng: rng.standard_cauchy((2, 100, 1)),
    "few rows": lambda rng: rng.standard_normal((2, 9, 1)),
}


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("case", NULL_DATA)
def test_level__is_kept(case, precision):
    check = Check.of(150, 0.1, error=1e-4, least=0.1 if case in ("normals", "Cauchy") else 0.0)
    assert check.passes(rejections(NULL_DATA[case], 150, 0.1, precision=precision))


@pytest.mark.parametrize("order", ["random", "by x", "by y"])
def test_power__does_not_depend_on_the_order_of_the_rows(order):
    def draw(rng):
        x = rng.uniform(-np.pi, np.pi, (2000, 1))
        y = 0.35 * np.sin(2 * x) + rng.standard_normal((2000, 1))
        rows = {"random": slice(None), "by x": np.argsort(x[:, 0]), "by y": np.argsort(y[:, 0])}
        return x[rows[order]], y[rows[order]]

    assert sum(rejections(draw, 20, 0.05)) >= 16


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 39])
def test_parts__are_the_fewest_that_fit(n):
    for most in range(n + 2):
        found = fewest_parts(range(n), lambda some, most=most: len(some) <= most)
        cut = [parted(range(n), count) for count in range(1, n + 1)]
        assert found == next((parts for parts in cut if len(parts[0]) <= most), cut[-1])


def test_parts__of_what_fits_are_asked_for_once():
    asked = []
    assert fewest_parts(range(1000), lambda some: asked.append(some) is None) == [range(1000)]
    assert asked == [range(1000)]
