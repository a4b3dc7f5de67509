"""Passes over features: blocks, sources and centring change nothing."""

import tracemalloc
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
import zarr

from dhsic.engine.reduction import RowBlock
from dhsic.estimators.feature import moments as moments_module
from dhsic.estimators.feature import signs as signs_module
from dhsic.estimators.feature.basis import Side
from dhsic.estimators.feature.layout import KernelSide, Layout
from dhsic.estimators.feature.moments import MomentsPass, fourth_moment, moments_layout
from dhsic.estimators.feature.rff import RFFHSIC
from dhsic.estimators.feature.signs import SignedFeaturePass
from dhsic.features import ColumnFeatures
from dhsic.kernels import Gaussian
from dhsic.nulls import Multiplier, Permutation
from tests.estimators.features import centred, cross_covariance, dependent, session_on

DATA = dependent(120)
FACTORS = np.array([[2.0, 0.0], [1.0, 0.5]]), np.eye(3)


def sides(shift=0.0, dtype=np.float64, factors=(None, None)):
    return {
        m: Side(
            ColumnFeatures(np.zeros(d), np.ones(d), np.dtype(dtype)),
            (DATA[m].mean(axis=0) + shift).astype(dtype),
            factors[m],
        )
        for m, d in enumerate((2, 3))
    }


def blocks(bounds):
    return [RowBlock(a, tuple(x[a:b] for x in DATA)) for a, b in pairwise(bounds)]


def signed(some):
    kernels = {m: KernelSide.plain(m, side) for m, side in some.items()}
    return SignedFeaturePass(Layout.of(kernels, [(0, 1)]), 5, 3)


def normed(some):
    return MomentsPass(moments_layout(some, normed=True))


PASSES = {
    "moments": lambda **options: MomentsPass(moments_layout(sides(**options))),
    "norms": lambda **options: normed(sides(**options)),
    "whitened norms": lambda **options: normed(sides(factors=FACTORS, **options)),
    "signs": lambda **options: signed(sides(**options)),
}


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pass__of_blocks_combines_to_that_of_all_rows(name, dtype, monkeypatch):
    for module in (moments_module, signs_module):
        monkeypatch.setattr(module, "_ROWS", 50)  # of a tile
    reduction = PASSES[name](dtype=dtype)
    (whole,) = (reduction.chunk(block) for block in blocks([0, 120]))
    first, second, third = (reduction.chunk(block) for block in blocks([0, 30, 90, 120]))
    before = [np.copy(x) for x in first]
    combined = reduction.combine(reduction.combine(first, second), third)
    rtol = 1e-12 if dtype is np.float64 else 1e-4
    for a, b in zip(whole, combined, strict=True):
        assert a.dtype == np.float64
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * 120)
    for a, b in zip(first, before, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", PASSES)
def test_pass__has_the_state_that_it_states(name):
    reduction = PASSES[name]()
    state = reduction.chunk(blocks([0, 120])[0])
    assert reduction.footprint(120).state == sum(x.nbytes for x in state)


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pass__needs_no_more_memory_than_it_states(name, dtype):
    reduction = PASSES[name](dtype=dtype)
    rng = np.random.default_rng(0)
    block = RowBlock(0, (rng.standard_normal((200_000, 2)), rng.standard_normal((200_000, 3))))
    cost = reduction.footprint(200_000)
    most = 1.1 * (cost.scratch + cost.state) + 500_000
    assert any(traced_peak(reduction, block) < most for _ in range(3))


def traced_peak(reduction, block):
    tracemalloc.start()
    try:
        reduction.chunk(block)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def moments(reduction):
    return reduction.covariances(reduction.chunk(blocks([0, 120])[0]), 120)


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_covariances__do_not_depend_on_the_provisional_means(shift):
    found = moments(PASSES["moments"](shift=shift))
    for i, j in ((0, 1), (0, 0), (1, 1)):
        expected = cross_covariance(DATA[i], DATA[j])
        np.testing.assert_allclose(found.of(i, j), expected, rtol=1e-10)
    for m in (0, 1):
        np.testing.assert_allclose(found.mean(m), -shift, atol=1e-12)
    reduction = PASSES["signs"](shift=shift)
    cross = reduction.covariances(reduction.chunk(blocks([0, 120])[0]))
    np.testing.assert_allclose(cross[0].reshape(2, 3), cross_covariance(*DATA), rtol=1e-10)


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_fourth_moments__are_about_the_mean_and_whitened(shift):
    found = moments(PASSES["whitened norms"](shift=shift))
    whitened = np.linalg.solve(FACTORS[0], centred(DATA[0]).T).T
    fourths = np.mean(np.sum(whitened**2, axis=1) ** 2)
    assert fourth_moment(found, 0) == pytest.approx(fourths, rel=1e-12)
    np.testing.assert_allclose(found.of(0, 0)[:-1, :-1], whitened.T @ whitened / 120, rtol=1e-12)


@pytest.mark.parametrize("null", [Multiplier(5), Permutation(5, within="groups", group_rows=500)])
@pytest.mark.parametrize("kind", ["dask", "zarr"])
def test_sources__give_the_same_bits_of_draws(kind, null, tmp_path):
    data = dependent(10_000)
    if kind == "dask":
        other = [da.from_array(x, chunks=(3000, -1)) for x in data]
    else:
        other = [
            zarr.create_array(tmp_path / f"{m}.zarr", data=x, chunks=(3000, x.shape[1]))
            for m, x in enumerate(data)
        ]
    kernels = (Gaussian(gamma=0.3),) * 2
    here, there = (RFFHSIC(n_features=8).test(session_on(x), kernels, null) for x in (data, other))
    assert there.statistic == pytest.approx(here.statistic, rel=1e-12)
    np.testing.assert_allclose(there.distribution.values, here.distribution.values, rtol=1e-9)
