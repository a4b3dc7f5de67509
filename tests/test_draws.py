"""Draws, landmarks and solves behind statistics: keyed, uniform, and exact.

They are no public functions: every p-value rests on them, and an error in a draw shows in no single
result.
"""

import math

import numpy as np
import pytest
from scipy.linalg import solve_triangular
from scipy.stats import chisquare

import dhsic
from dhsic._random import (
    PURPOSES,
    generator,
    random_keys,
    random_orders,
    resolve_seed,
)
from dhsic.errors import InvalidArgumentError, LandmarkWarning
from dhsic.kernels import Columns, Delta, Gaussian, Laplacian
from dhsic.landmarks import Pool, landmark_count, prune, select, uniform_rows
from dhsic.linalg import pivoted_cholesky


@pytest.mark.parametrize(("start", "stop"), [(0, 40), (0, 1), (39, 40), (7, 23), (20, 20)])
@pytest.mark.parametrize("offset", [0, 10**12 + 3])
def test_keys__of_fewer_rows_are_a_sub_array(start, stop, offset):
    keys = random_keys(11, offset, offset + 40, "bandwidth", 1)
    part = random_keys(11, offset + start, offset + stop, "bandwidth", 1)
    np.testing.assert_array_equal(part, keys[start:stop])


def test_keys__are_uniform_and_differ_with_seed_purpose_and_index():
    keys = [(0, "bandwidth", 1), (1, "bandwidth", 1), (0, "features", 1), (0, "bandwidth", 2)]
    uniform = np.array([random_keys(seed, 0, 4096, *key) for seed, *key in keys]) / 2.0**64
    assert np.abs(uniform.mean(axis=1) - 0.5).max() < 5.0 / np.sqrt(12 * 4096)
    assert np.abs(np.corrcoef(uniform) - np.eye(len(keys))).max() < 5.0 / np.sqrt(4096)


def test_orders__depend_on_their_number_seed_purpose_and_index_alone():
    numbers = [0, 1, 7, 2**40, 2**64 - 1]
    orders = random_orders(5, numbers, 30, "shifts", 1)
    np.testing.assert_array_equal(np.sort(orders), [np.arange(30)] * 5)
    again = random_orders(5, reversed(numbers), 30, "shifts", 1)
    np.testing.assert_array_equal(again[::-1], orders)
    assert random_orders(5, [], 30, "shifts", 1).shape == (0, 30)
    keys = [(0, "shifts", 1), (1, "shifts", 1), (0, "groups", 1), (0, "shifts", 2)]
    drawn = [random_orders(seed, range(50), 30, *key) for seed, *key in keys]
    assert len({order.tobytes() for orders in drawn for order in orders}) == 200


def test_orders__are_uniform():
    """All 24 orders of 4 rows come alike often, and so do all pairs of those that follow."""
    orders = random_orders(0, range(24 * 400), 4, "shifts", 1)
    _, which = np.unique(orders, axis=0, return_inverse=True)
    counts = np.bincount(which.ravel())
    assert len(counts) == 24
    assert chisquare(counts).pvalue > 1e-4
    follows = np.bincount(which.ravel()[:-1] * 24 + which.ravel()[1:], minlength=24**2)
    assert chisquare(follows).pvalue > 1e-4


def test_generator__draws_differ_with_seed_purpose_and_index():
    keys = [(s, purpose, *i) for s in (0, 1) for purpose in PURPOSES for i in ((), (0,), (1,))]
    drawn = {key: generator(*key).integers(2**63) for key in keys}
    assert len(set(drawn.values())) == len(keys)
    assert drawn == {key: generator(*key).integers(2**63) for key in keys}


def test_resolve_seed__keeps_integers_draws_from_generators_and_refuses_the_rest():
    for seed in (0, 7, 2**70, np.int64(7), np.uint8(7)):
        assert (resolve_seed(seed), type(resolve_seed(seed))) == (int(seed), int)
    first, second = np.random.default_rng(3), np.random.default_rng(3)
    seeds = [resolve_seed(first), resolve_seed(first)]
    assert seeds == [resolve_seed(second), resolve_seed(second)]
    assert len({*seeds, *(resolve_seed(None) for _ in range(4))}) == 6
    for bad in (True, np.True_, -1, np.int64(-1), "a", 1.5, [-1]):
        with pytest.raises(InvalidArgumentError, match=r"rng must be an integer >= 0, None, a Gen"):
            resolve_seed(bad)


@pytest.mark.parametrize(
    ("count", "n", "expected"),
    [
        *(("8sqrt", 515_345, 5743), ("8sqrt", 65, 64), ("8sqrt", 63, 63), ("sqrt", 101, 10)),
        *(("0.5sqrt", 100, 5), ("0.5sqrt", 1, 1), (" 2 * sqrt(n) ", 100, 20), (100, 100, 100)),
    ],
)
def test_landmark_count__follows_the_root_of_n_and_is_capped(count, n, expected):
    assert landmark_count(count, n, replace=False) == expected
    assert landmark_count(101, 100, replace=True) == 101
    with pytest.raises(InvalidArgumentError, match="got 101 landmarks for 100 rows: take at most"):
        landmark_count(101, 100, replace=False)


@pytest.mark.parametrize("bad", [0, -3, True, 2.0, "0sqrt", "-1sqrt", "8", "8 sqrt n", ""])
def test_estimator__refuses_what_is_no_number_of_landmarks(bad):
    with pytest.raises(InvalidArgumentError, match=r"integer >= 1 or a multiple of sqrt.*'8sqrt'"):
        dhsic.NystromMHSIC(bad)


def draw(seed=0, n=200, p=50, m=3, pairing="independent", replace=False):
    return uniform_rows(seed, n, p, m, pairing=pairing, replace=replace)


@pytest.mark.parametrize("pairing", ["independent", "joint"])
def test_uniform_rows__are_keyed_distinct_and_paired_as_asked(pairing):
    drawn, again, other = (draw(seed=seed, pairing=pairing) for seed in (4, 4, 5))
    np.testing.assert_array_equal(drawn, again)
    assert not np.array_equal(drawn, other)
    assert [len(set(rows)) for rows in drawn] == [50] * 3
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        same = np.mean(drawn[a] == drawn[b])
        assert same == 1.0 if pairing == "joint" else same < 0.1
        assert pairing == "joint" or len(np.intersect1d(drawn[a], drawn[b])) < 30
    assert all(len(set(rows)) == 200 for rows in draw(p=200, pairing=pairing))
    assert all(len(set(rows)) < 160 for rows in draw(p=200, pairing=pairing, replace=True))
    counts = sum(np.bincount(draw(s, 20, 5, 1)[0], minlength=20) for s in range(800))
    assert np.abs(counts - 200).max() < 5 * math.sqrt(200)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-8])
def test_prune__keeps_tuples_that_span_the_rest(tolerance):
    rng = np.random.default_rng(0)
    kernels = (Gaussian(gamma=0.5), Gaussian(gamma=0.3))
    points = rng.standard_normal((2, 80, 1))
    factor = prune(points, kernels, tolerance)
    at = factor.kept
    assert 1 < factor.rank == len(set(at)) < 80
    gram = np.prod([k(z) for k, z in zip(kernels, points, strict=True)], axis=0)
    features = solve_triangular(factor.factor, gram[at], lower=True)
    assert np.max(1.0 - (features**2).sum(axis=0)) < tolerance
    np.testing.assert_allclose(factor.factor @ factor.factor.T, gram[np.ix_(at, at)], atol=1e-12)


def test_prune__drops_tuples_that_repeat_and_warns_of_kernels_of_zero():
    x, y = np.array([[0.0], [0], [1], [1], [0]]), np.array([[0.0], [1], [0], [1], [1]])
    kept = prune((x, y), (Delta(), Delta()), 1e-8).kept
    pairs = sorted(zip(x[kept, 0], y[kept, 0], strict=True))
    assert pairs == [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]
    zero = np.array([[1e3], [2e3]])
    with pytest.warns(
        LandmarkWarning, match=r"is 0 at every landmark, .*: take more landmarks, or"
    ):
        factor = prune((0 * zero,), (dhsic.kernels.Linear(),), 1e-8)
    assert (factor.rank, factor.squared_norm(np.zeros(1))) == (1, 0.0)


@pytest.mark.parametrize("selection", ["uniform", "rpcholesky", "leverage"])
def test_select__draws_distinct_rows_and_sees_every_kernel(selection, rng):
    """Of 300 rows six differ, in one variable or the other; informed selections take them."""
    x, y = np.zeros((300, 1)), np.zeros((300, 1))
    first, second = np.split(rng.choice(300, 6, replace=False), 2)
    x[first, 0], y[second, 0] = [10.0, 20.0, 30.0], [10.0, 20.0, 30.0]
    pool = Pool((Gaussian(gamma=0.5),) * 2, (x, y))
    found = [select(selection, pool, 7, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(found[0], found[1])
    assert set(found[0]) != set(found[2])
    assert len(set(found[0])) == 7
    if selection != "uniform":
        assert np.isin([*first, *second], found[0]).sum() >= 5
    with pytest.raises(InvalidArgumentError, match="got 300 rows for 301 landmarks: take a larger"):
        select(selection, pool, 301, rng)


def test_select__rpcholesky_draws_in_proportion_to_squared_distances():
    points = np.array([[1.0, 0.1], [1.1, 0.1], [0.2, 1.5], [0.9, 0.9], [2.0, 0.3]])
    kernel = dhsic.kernels.Polynomial(degree=2, gamma=1.0, coef0=0.5)
    gram = kernel(points)
    law = np.zeros((5, 5))
    for i in range(5):
        left = np.clip(np.diag(gram) - gram[i] ** 2 / gram[i, i], 0.0, None)
        law[i] = np.diag(gram)[i] / np.trace(gram) * left / left.sum()
    pool = Pool((kernel,), (points,))
    pairs = [select("rpcholesky", pool, 2, np.random.default_rng(seed)) for seed in range(600)]
    counts = np.zeros((5, 5))
    np.add.at(counts, tuple(np.sort(pairs, axis=1).T), 1)
    above = np.triu_indices(5, 1)
    expected = 600 * (law + law.T)[above]
    likely = expected > 5
    found, expected = counts[above][likely], expected[likely]
    assert chisquare(found, expected * found.sum() / expected.sum()).pvalue > 1e-3


@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize(
    "kernel", [Gaussian(gamma=0.6), Laplacian(gamma=0.5), Columns(Laplacian())]
)
def test_random_features__have_the_hsic_of_the_kernel(kernel, orthogonal):
    x, noise = np.random.default_rng(1).standard_normal((2, 300, 2)) + 50.0
    options = {"kernels": kernel, "rng": 0}
    exact = dhsic.hsic(x, x + noise, estimator="v-hsic", **options).estimate
    for precision in ("float64", "float32"):
        estimator = dhsic.RFFHSIC(400, orthogonal=orthogonal)
        found = dhsic.hsic(x, x + noise, estimator=estimator, precision=precision, **options)
        assert found.estimate == pytest.approx(exact, rel=0.25)


def gram(p, rank, seed=0):
    half = np.random.default_rng([p, rank, seed]).standard_normal((p, rank))
    return half @ half.T


@pytest.mark.parametrize(("p", "rank"), [(1, 1), (2, 2), (30, 30), (20, 1), (20, 4), (20, 19)])
def test_pivoted_cholesky__finds_the_rank_and_reconstructs(p, rank):
    matrix = gram(p, rank)
    result = pivoted_cholesky(matrix.copy(), 1e-10)
    assert result.rank == rank == len(set(result.kept))
    own = matrix[np.ix_(result.kept, result.kept)]
    np.testing.assert_allclose(result.factor @ result.factor.T, own, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(result.factor, np.tril(result.factor))
    features = solve_triangular(result.factor, matrix[result.kept], lower=True)
    assert np.abs(np.diag(matrix) - (features**2).sum(axis=0)).max() < 1e-9 * matrix.max()
    values = matrix @ np.random.default_rng(2).standard_normal((p, 3))
    expected = np.einsum("ij,ik,kj->j", values, np.linalg.pinv(matrix, 1e-10), values)
    np.testing.assert_allclose(result.squared_norm(values[result.kept]), expected, rtol=1e-7)


@pytest.mark.parametrize(("tolerance", "kept"), [(0.9e-3, [0, 1, 2]), (1.1e-3, [0, 1]), (0.3, [0])])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_pivoted_cholesky__drops_below_a_share_of_the_largest_entry(tolerance, kept, scale):
    result = pivoted_cholesky(scale * np.diag([1.0, 0.25, 1e-3]), tolerance)
    assert (result.kept.tolist(), result.tolerance) == (kept, tolerance)
    eps = np.finfo(float).eps
    assert pivoted_cholesky(np.eye(10), 0.0).tolerance == 10 * eps
    assert pivoted_cholesky(np.eye(10), 11 * eps).tolerance == 11 * eps
    zero = pivoted_cholesky(np.zeros((3, 3)), 1e-8)
    assert (zero.rank, zero.kept.tolist(), zero.factor.tolist()) == (1, [0], [[1.0]])
    np.testing.assert_array_equal(zero.squared_norm(np.zeros((1, 2))), [0.0, 0.0])
