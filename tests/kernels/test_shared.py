"""Tiles that several kernels share."""

import pickle

import numpy as np
import pytest

from dhsic._work import Work
from dhsic.estimators.landmark.joint_frequencies import Waves
from dhsic.kernels import Gaussian, Laplacian, Matern, OnColumns
from dhsic.kernels.shared import Power, SharedTiles


def gaussians(*gammas):
    return tuple(Gaussian(gamma=gamma) for gamma in gammas)


def filled(shared, values, columns=None, dtype=np.float64, entries=None):
    columns = values if columns is None else columns
    shape = (len(values[0]), len(columns[0]))
    outs = np.full((len(shared.kernels), *shape), np.nan, entries or dtype)
    work = np.full((shared.work_tiles, *shape), np.nan, entries or dtype)
    prepared = columns if entries else shared.columns(columns, dtype)
    shared.tiles(shared.rows(values, dtype), prepared, outs, work)
    return outs


def test_shared_tiles__follow_from_the_widest_of_their_variable():
    kernels = (*gaussians(4.0, 1.0, 16.0, 3.0), *gaussians(4.0, 1.0))
    shared = SharedTiles(kernels, (0, 0, 0, 0, 1, 1))
    assert shared.roots == (1, 3, 5)
    assert set(shared.powers) == {Power(0, 1, 2), Power(2, 0, 2), Power(4, 5, 2)}
    assert shared.powers.index(Power(0, 1, 2)) < shared.powers.index(Power(2, 0, 2))


@pytest.mark.parametrize(
    "others",
    [
        (Gaussian(gamma=4.0, origin=(1.0,)),),
        (Laplacian(gamma=4.0),),
        (Matern(length=0.25),),
        gaussians(1.0),
        gaussians(0.9),
    ],
)
def test_shared_tiles__are_computed_where_no_squares_lead_to_them(others):
    shared = SharedTiles((*gaussians(1.0), *others), (0, 0))
    assert shared.roots == (0, 1)
    assert shared.powers == ()


def test_shared_tiles__of_kernels_of_other_variables_are_computed():
    assert SharedTiles(gaussians(1.0, 4.0), (0, 1)).roots == (0, 1)


def test_shared_tiles__are_squared_six_times_at_most():
    shared = SharedTiles(gaussians(1.0, 64.0, 128.0, 512.0), (0,) * 4)
    assert shared.roots == (0, 2)
    assert set(shared.powers) == {Power(1, 0, 6), Power(3, 2, 2)}


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 2e-14), (np.float32, 2e-5)])
def test_shared_tiles__are_those_of_the_kernels(d, dtype, tolerance):
    rng = np.random.default_rng(d)
    values = [rng.standard_normal((40, d)), rng.standard_normal((40, 2))]
    columns = [x[:30] for x in values]
    kernels = (
        *gaussians(0.4, 6.4, 25.6, 1.6),
        Laplacian(gamma=0.5),
        Laplacian(gamma=1.0),
        Matern(nu=2.5, length=1.0),
    )
    shared = SharedTiles(kernels, (0, 0, 0, 0, 1, 1, 1))
    assert len(shared.powers) == 4
    outs = filled(shared, values, columns, dtype)
    assert outs.dtype == dtype
    for kernel, m, out in zip(kernels, shared.variables, outs, strict=True):
        np.testing.assert_allclose(out, kernel(values[m], columns[m]), rtol=0, atol=tolerance)


def test_shared_tiles__may_be_of_slices():
    values = [np.random.default_rng(0).standard_normal((40, 2))]
    shared = SharedTiles(gaussians(4.0, 1.0), (0, 0))
    rows, columns = shared.rows(values, np.float64), shared.columns(values, np.float64)
    outs = np.empty((2, 5, 7))
    shared.tiles([x[10:15] for x in rows], [z[20:27] for z in columns], outs, np.empty((0, 5, 7)))
    np.testing.assert_allclose(outs, filled(shared, values)[:, 10:15, 20:27], rtol=1e-12)


def test_shared_tiles__may_be_complex():
    rng = np.random.default_rng(0)
    x, frequencies = rng.standard_normal((20, 2)), rng.standard_normal((2, 6, 2))
    shared = SharedTiles((Waves(np.zeros(2)), Waves(np.ones(2))), (0, 0))
    outs = filled(shared, [x], list(frequencies), entries=np.complex128)
    assert shared.roots == (0, 1)
    np.testing.assert_allclose(outs[0], np.exp(1j * x @ frequencies[0].T), rtol=1e-12)
    np.testing.assert_allclose(outs[1], np.exp(1j * (x - 1) @ frequencies[1].T), rtol=1e-12)


def test_shared_tiles__prepare_and_cost_what_is_computed():
    kernels = (*gaussians(1.0, 4.0), Matern(nu=2.5, length=1.0), *gaussians(1.0))
    shared = SharedTiles(kernels, (0, 0, 0, 1))
    values = [np.ones((5, 3)), np.ones((5, 1))]
    for prepared in (shared.rows(values, np.float32), shared.columns(values, np.float32)):
        assert [array.shape for array in prepared] == [(5, 5), (5, 5), (5, 1)]
        assert {array.dtype for array in prepared} == {np.dtype(np.float32)}
    assert shared.width((3, 1)) == 11
    assert shared.work_tiles == 1
    widths = {0: 5, 2: 5, 3: 1}
    work = Work.of(np.float32, products=2 * 11, exponentials=3, entries=2)
    assert dict(shared.work(np.float32, widths).counts) == dict(work.counts)
    assert shared.work(np.float32, widths, parts=2)["cosines of float32"] == 6


def test_shared_tiles__travel():
    shared = SharedTiles(gaussians(4.0, 1.0), (0, 0))
    assert pickle.loads(pickle.dumps(shared)).powers == shared.powers


def test_columns__are_compared_with_kernels_of_their_own_alone(monkeypatch):
    compared = []

    def squarings(narrow, wide):
        compared.append((narrow.at, wide.at))
        return narrow.kernel.squarings(wide.kernel)

    monkeypatch.setattr(OnColumns, "squarings", squarings)
    kernels = [OnColumns(one, (j,)) for j in range(50) for one in gaussians(4.0, 1.0)]
    shared = SharedTiles(tuple(kernels), (0,) * len(kernels))
    assert shared.roots == tuple(range(1, 100, 2))
    assert len(compared) == 100
    assert all(one == other for one, other in compared)
