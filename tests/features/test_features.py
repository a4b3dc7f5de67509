"""Feature maps against their definitions."""

import tracemalloc

import numpy as np
import pytest

from dhsic.errors import DataError
from dhsic.features import (
    ColumnFeatures,
    FourierFeatures,
    KernelFeatures,
    LandmarksByColumn,
    orthogonal_normals,
)
from dhsic.kernels import Columns, Delta, Gaussian, Laplacian, Linear, Matern
from dhsic.linalg import solve_lower

X = np.random.default_rng(0).normal(size=(40, 3)) + 2.0


def fourier(count=64, seed=0, dtype=np.float64, orthogonal=False, kernel=None, centre=None):
    return FourierFeatures.draw(
        kernel or Gaussian(gamma=0.2),
        np.median(X, axis=0) if centre is None else centre,
        count,
        np.random.default_rng(seed),
        dtype,
        orthogonal=orthogonal,
    )


def by_column(x=X, part=None, count=6, tolerance=1e-8, dtype=np.float64):
    kernel = Columns(part or Laplacian()).fit(x)
    return kernel, *LandmarksByColumn.of(kernel, x, count, tolerance, dtype)


MAPS = {
    "kernel": lambda dtype: KernelFeatures.at(X[:7], Matern(nu=2.5, length=2.0), dtype),
    "fourier": lambda dtype: fourier(9, dtype=dtype),
    "columns": lambda dtype: ColumnFeatures.of(X, dtype),
    "by column": lambda dtype: by_column(part=Matern(nu=2.5), dtype=dtype)[1],
}
EVERY_MAP = pytest.mark.parametrize("name", MAPS)


@EVERY_MAP
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_map__says_what_it_returns(name, dtype):
    features = MAPS[name](dtype)
    out = features(X)
    assert out.shape == (40, features.n_features)
    assert out.dtype == features.dtype == dtype
    assert out.flags.c_contiguous
    assert features.nbytes > 0
    assert features.work.seconds() > 0
    assert features.scratch(20) * 2 == features.scratch(40)
    np.testing.assert_allclose(out, MAPS[name](np.float64)(X), atol=1e-5)


@EVERY_MAP
def test_map__of_rows_is_rows_of_map_and_leaves_the_data(name):
    before = X.copy()
    features = MAPS[name](np.float64)
    np.testing.assert_allclose(features(X[5:9]), features(X)[5:9], rtol=1e-12)
    np.testing.assert_array_equal(X, before)


def test_kernel_features__are_the_gram_matrix():
    kernel = Matern(nu=2.5, length=2.0)
    np.testing.assert_allclose(MAPS["kernel"](np.float64)(X), kernel(X, X[:7]), rtol=1e-12)


def test_landmarks_by_column__are_nystrom_features_of_every_column():
    kernel, features, factor = by_column(count=6)
    held = solve_lower(factor, features(X).T)
    expected = np.zeros((40, 40))
    for part, x in zip(kernel.parts, X.T, strict=True):
        z = np.sort(x)[[3, 10, 16, 23, 30, 36], None]  # of 40 sorted values the 6 quantiles
        expected += part(x[:, None], z) @ np.linalg.solve(part(z), part(z, x[:, None])) / 3
    np.testing.assert_allclose(held.T @ held, expected, rtol=1e-8)


def test_landmarks_by_column__at_all_values_are_the_kernel():
    kernel, features, factor = by_column(count=40, tolerance=0.0)
    held = solve_lower(factor, features(X).T)
    np.testing.assert_allclose(held.T @ held, kernel(X), rtol=1e-8)


def test_landmarks_by_column__leave_out_equal_values_and_constant_columns():
    x = np.column_stack([X[:, 0], np.full(40, 2.0), np.arange(40) % 3, X[:, 1]])
    kernel, features, factor = by_column(x, count=6)
    assert [len(z) for z in features.landmarks] == [6, 3, 6]
    assert features.n_features == len(factor) == 15
    three = slice(6, 9)  # three values hold the kernel of a column that has no others
    own = solve_lower(factor[three, three], features(x)[:, three].T)
    np.testing.assert_allclose(own.T @ own, kernel.parts[2](x[:, [2]]) / 4, atol=1e-12)


def test_landmarks_by_column__drop_those_that_others_span():
    _, features, _ = by_column(part=Gaussian(gamma=1e-3), count=32, tolerance=1e-4)
    assert all(len(z) < 6 for z in features.landmarks)


def test_landmarks_by_column__take_any_kernel_of_a_column():
    x = (np.arange(40)[:, None] * [1, 7]) % 5
    kernel, features, factor = by_column(x, part=Delta(), count=20)
    held = solve_lower(factor, features(x).T)
    np.testing.assert_allclose(held.T @ held, kernel(x), atol=1e-12)


def test_landmarks_by_column__cost_what_is_told_before_they_are_drawn():
    kernel, features, _ = by_column(count=6)
    likely = LandmarksByColumn.likely(kernel, 3, 6, np.float64)
    for name in ("n_features", "width", "work", "dtype"):
        assert getattr(likely, name) == getattr(features, name)
    assert likely.scratch(10) == features.scratch(10)


def test_column_features__are_standardised():
    x = np.column_stack([X, np.full(40, 0.1)])
    out = ColumnFeatures.of(x, np.float64)(x)
    expected = (X - np.median(X, axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(out[:, :3], expected, rtol=1e-12)
    np.testing.assert_array_equal(out[:, 3], 0.0)


def test_fourier_features__are_cosines_and_sines():
    features = fourier(9)
    phases = (X - features.centre) @ features.frequencies.T
    expected = np.hstack([np.cos(phases), np.sin(phases)]) / 3
    np.testing.assert_allclose(features(X), expected, rtol=1e-12)


@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize(
    "kernel", [Gaussian(gamma=0.2), Laplacian(gamma=0.2), Matern(nu=1.5, length=3.0)]
)
def test_fourier_features__have_the_kernel_as_inner_product(kernel, orthogonal):
    out = fourier(20_000, orthogonal=orthogonal, kernel=kernel)(X)
    assert np.abs(out @ out.T - kernel(X)).max() < 5 / np.sqrt(20_000)


def test_fourier_features__turn_with_the_centre_and_keep_their_inner_products():
    near, far = fourier(9)(X), fourier(9, centre=np.zeros(3))(X)
    assert not np.allclose(near, far)
    np.testing.assert_allclose(near @ near.T, far @ far.T, atol=1e-12)


def test_fourier_features__keep_digits_of_rows_far_from_zero():
    far = X + 1e6
    centre = np.median(X, axis=0)
    near = fourier(9, dtype=np.float32)(X)
    moved = fourier(9, dtype=np.float32, centre=centre + 1e6)(far)
    np.testing.assert_allclose(moved, near, atol=1e-5)


def test_fourier_features__refuse_phases_beyond_their_range():
    x = X.copy()
    x[3, 1] = 1e300
    with pytest.raises(DataError, match=r"must be finite in float32.*precision='float64', or"):
        fourier(dtype=np.float32)(x)
    assert np.isfinite(fourier()(x)).all()


def test_orthogonal_features__approximate_the_kernel_better():
    kernel = Gaussian(gamma=0.05)
    x = np.random.default_rng(1).normal(size=(30, 16))
    errors = {}
    for orthogonal in (False, True):
        gram = np.zeros(40)
        for seed in range(40):
            out = fourier(16, seed, orthogonal=orthogonal, kernel=kernel, centre=np.zeros(16))(x)
            gram[seed] = np.mean((out @ out.T - kernel(x)) ** 2)
        errors[orthogonal] = gram.mean()
    assert errors[True] < 0.8 * errors[False]


@pytest.mark.parametrize(("count", "d"), [(12, 4), (10, 4), (3, 5), (6, 1)])
def test_orthogonal_normals__are_orthogonal_in_groups(count, d):
    rows = orthogonal_normals(np.random.default_rng(0), count, d)
    assert rows.shape == (count, d)
    for start in range(0, count, d):
        gram = rows[start : start + d] @ rows[start : start + d].T
        np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0.0, atol=1e-12)
    other = orthogonal_normals(np.random.default_rng(0), count, d)
    np.testing.assert_array_equal(rows, other)


def test_orthogonal_normals__take_the_memory_of_a_few_results():
    tracemalloc.start()
    try:
        rows = orthogonal_normals(np.random.default_rng(0), 1000, 20)
        assert tracemalloc.get_traced_memory()[1] < 10 * rows.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("d", [1, 2, 3])
def test_orthogonal_normals__are_standard_normal_each(d):
    rng = np.random.default_rng(0)
    rows = np.array([orthogonal_normals(rng, d, d)[-1] for _ in range(4000)])
    assert np.abs(rows.mean(axis=0)).max() < 5 / np.sqrt(4000)
    assert np.abs(np.cov(rows.T) - np.eye(d)).max() < 7 / np.sqrt(4000)
    assert np.mean(rows**4) == pytest.approx(3.0, abs=0.4)


def test_linear_kernel__features_are_projections():
    out = KernelFeatures.at(np.eye(3), Linear(), np.float64)(X)
    np.testing.assert_allclose(out, X, rtol=1e-12)
