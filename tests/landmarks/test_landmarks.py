"""Landmarks: how many, which rows, and what pruning keeps."""

import math

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from dhsic.errors import InvalidArgumentError, LandmarkWarning
from dhsic.kernels import Delta, Gaussian, Linear
from dhsic.landmarks import Landmarks, check_count, landmark_count, prune, uniform_rows


@pytest.mark.parametrize(
    ("count", "n", "expected"),
    [
        ("8sqrt", 515_345, 5743),
        ("8sqrt", 10_000, 800),
        ("8sqrt", 64, 64),
        ("8sqrt", 65, 64),
        ("8sqrt", 63, 63),
        ("sqrt", 100, 10),
        ("sqrt", 101, 10),
        ("0.5sqrt", 100, 5),
        ("0.5sqrt", 1, 1),
        (" 2 * sqrt(n) ", 100, 20),
        (3, 100, 3),
        (100, 100, 100),
        (np.int64(7), 100, 7),
    ],
)
@pytest.mark.parametrize("replace", [False, True])
def test_landmark_count__follows_the_root_of_n_and_is_capped(count, n, expected, replace):
    landmarks = landmark_count(count, n, replace=replace)
    assert landmarks == expected
    assert type(landmarks) is int


def test_landmark_count__exceeds_the_rows_with_replacement_only():
    assert landmark_count(101, 100, replace=True) == 101
    with pytest.raises(
        InvalidArgumentError, match="got 101 landmarks for 100 rows: take at most 100"
    ):
        landmark_count(101, 100, replace=False)
    for bad in (0, "sqrt of 8"):
        with pytest.raises(InvalidArgumentError, match="n_landmarks must be an integer >= 1"):
            landmark_count(bad, 100, replace=True)


@pytest.mark.parametrize(
    "count", [0, -3, True, 2.0, None, "0sqrt", "-1sqrt", "8", "8 sqrt n", "sqrtt", ""]
)
def test_check_count__refuses_the_rest(count):
    with pytest.raises(
        InvalidArgumentError, match=r"integer >= 1 or a multiple of sqrt.*'8sqrt'"
    ) as caught:
        check_count(count)
    assert str(caught.value).endswith(f"got {count!r}")


def draw(seed=0, n=200, p=50, m=3, pairing="independent", replace=False):
    return uniform_rows(seed, n, p, m, pairing=pairing, replace=replace)


@pytest.mark.parametrize("pairing", ["independent", "joint"])
def test_uniform_rows__are_rows_of_the_data_for_every_variable(pairing):
    drawn = draw(pairing=pairing)
    assert len(drawn) == 3
    for rows in drawn:
        assert rows.shape == (50,)
        assert rows.min() >= 0
        assert rows.max() < 200
        assert len(set(rows)) == 50


def test_uniform_rows__are_the_same_for_all_variables_where_joint():
    first, *others = draw(pairing="joint")
    for rows in others:
        np.testing.assert_array_equal(rows, first)


def test_uniform_rows__differ_by_variable_where_independent():
    drawn = draw()
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        same_place = np.mean(drawn[a] == drawn[b])
        in_both = len(np.intersect1d(drawn[a], drawn[b]))
        assert same_place < 0.1
        assert in_both < 30


@pytest.mark.parametrize("pairing", ["independent", "joint"])
def test_uniform_rows__repeat_with_replacement_only(pairing):
    assert all(len(set(rows)) == 200 for rows in draw(p=200, pairing=pairing))
    assert all(len(set(rows)) < 160 for rows in draw(p=200, pairing=pairing, replace=True))


@pytest.mark.parametrize("pairing", ["independent", "joint"])
def test_uniform_rows__are_keyed_by_the_seed(pairing):
    np.testing.assert_array_equal(draw(seed=4, pairing=pairing), draw(seed=4, pairing=pairing))
    assert not np.array_equal(draw(seed=4, pairing=pairing), draw(seed=5, pairing=pairing))


def test_uniform_rows__cover_the_data_evenly():
    counts = sum(
        np.bincount(draw(seed=seed, n=20, p=5, m=1)[0], minlength=20) for seed in range(800)
    )
    assert np.abs(counts - 200).max() < 5 * math.sqrt(200)


def landmarks_of(points):
    rows = tuple(100 + np.arange(len(z)) for z in points)
    return Landmarks(tuple(points), rows)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-8])
def test_prune__keeps_tuples_that_span_the_rest(tolerance):
    rng = np.random.default_rng(0)
    kernels = (Gaussian(gamma=0.5), Gaussian(gamma=0.3))
    landmarks = landmarks_of([rng.standard_normal((80, 1)), rng.standard_normal((80, 1))])
    kept, factor = prune(landmarks, kernels, tolerance)
    assert 1 < factor.rank == len(kept) < 80
    gram = np.prod([k(z) for k, z in zip(kernels, landmarks.points, strict=True)], axis=0)
    at = kept.indices[0] - 100
    features = solve_triangular(factor.factor, gram[at], lower=True)
    assert np.max(1.0 - (features**2).sum(axis=0)) < tolerance
    np.testing.assert_allclose(factor.factor @ factor.factor.T, gram[np.ix_(at, at)], atol=1e-12)
    for z, whole, rows in zip(kept.points, landmarks.points, kept.indices, strict=True):
        np.testing.assert_array_equal(z, whole[at])
        np.testing.assert_array_equal(rows, at + 100)


def test_prune__keeps_more_at_a_smaller_tolerance():
    rng = np.random.default_rng(0)
    landmarks = landmarks_of([rng.standard_normal((100, 1)), rng.standard_normal((100, 1))])
    ranks = [prune(landmarks, (Gaussian(gamma=0.5),) * 2, 10.0**-e)[1].rank for e in (2, 4, 8)]
    assert ranks == sorted(set(ranks))


def test_prune__warns_of_kernels_that_are_zero_at_every_landmark():
    x, y = np.array([[0.0], [0.0], [1.0]]), np.array([[2.0], [3.0], [0.0]])
    with pytest.warns(LandmarkWarning, match=r"is 0 at every landmark, .*: take more of them, or"):
        kept, factor = prune(landmarks_of([x, y]), (Linear(), Linear()), 1e-8)
    assert (len(kept), factor.rank) == (1, 1)
    assert factor.squared_norm(np.zeros(1)) == 0.0
    assert len(prune(landmarks_of([x + 1, y]), (Linear(), Linear()), 1e-8)[0]) == 1


def test_prune__drops_tuples_that_repeat_but_not_points_that_do():
    x = np.array([[0.0], [0.0], [1.0], [1.0], [0.0]])
    y = np.array([[0.0], [1.0], [0.0], [1.0], [1.0]])
    kept, _ = prune(landmarks_of([x, y]), (Delta(), Delta()), 1e-8)
    assert sorted(zip(kept.points[0][:, 0], kept.points[1][:, 0], strict=True)) == [
        (0.0, 0.0),
        (0.0, 1.0),
        (1.0, 0.0),
        (1.0, 1.0),
    ]
