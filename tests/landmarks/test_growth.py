"""Landmarks that grow until they miss little, against the definitions in explicit features."""

from functools import reduce

import numpy as np
import pytest

from dhsic.kernels import Delta, Gaussian, Linear
from dhsic.landmarks import FEWEST, grow
from dhsic.landmarks.growth import centred_gram, missed_spread


def tensor(vectors):
    return reduce(np.kron, vectors)


def centred_tensors(rows):
    """The products xi of the rows of linear kernels, as vectors."""
    means = [x.mean(axis=0) for x in rows]
    found = []
    for vectors in zip(*rows, strict=True):
        single = [
            tensor(
                [
                    v if m == k else mean
                    for k, (v, mean) in enumerate(zip(vectors, means, strict=True))
                ]
            )
            for m in range(len(rows))
        ]
        found.append(tensor(vectors) - sum(single) + (len(rows) - 1) * tensor(means))
    return np.array(found)


def linear_rows(n, m, seed=0):
    rng = np.random.default_rng([n, m, seed])
    return [rng.standard_normal((n, d)) + 0.3 for d in (3, 2, 2)[:m]]


@pytest.mark.parametrize("m", [2, 3])
def test_centred_gram__is_that_of_the_explicit_products(m):
    rows = linear_rows(25, m)
    xi = centred_tensors(rows)
    gram = centred_gram([Linear()] * m, rows)
    np.testing.assert_allclose(gram, xi @ xi.T, atol=1e-12)


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("p", [1, 3, 40])
def test_grow__misses_what_is_outside_the_span_of_the_landmarks(m, p):
    rows, z = linear_rows(25, m), linear_rows(p, m, seed=1)
    xi = centred_tensors(rows)
    features = np.array([tensor(vectors) for vectors in zip(*z, strict=True)]).T
    outside = xi - xi @ (features @ np.linalg.pinv(features))
    expected = np.linalg.norm(outside.T @ outside) / np.linalg.norm(xi.T @ xi)
    found = grow([Linear()] * m, z, rows, allowed=0.0, tolerance=1e-12, fewest=p)
    assert found.count == p
    assert found.missed == pytest.approx(expected, abs=1e-10)
    assert (found.missed < 1e-10) == (p == 40)


def gaussian_case(p=400, e=200):
    rng = np.random.default_rng(3)
    kernels = [Gaussian(gamma=0.5), Gaussian(gamma=0.2)]
    return kernels, *([rng.standard_normal((n, d)) for d in (1, 2)] for n in (p, e))


def test_grow__stops_at_the_first_size_that_is_enough():
    kernels, z, x = gaussian_case()
    sizes = [32, 45, 64, 91, 128, 181, 256, 362, 400]
    missed = [
        grow(kernels, [one[:size] for one in z], x, 0.0, 1e-8, fewest=size).missed for size in sizes
    ]
    assert missed == sorted(missed, reverse=True)
    for allowed in (0.3, 0.1, 0.03, 0.01):
        found = grow(kernels, z, x, allowed, 1e-8)
        first = next(i for i, share in enumerate(missed) if share <= allowed)
        assert (found.count, found.missed) == (sizes[first], missed[first])


def test_grow__takes_all_where_none_are_enough():
    kernels, z, x = gaussian_case()
    found = grow(kernels, z, x, allowed=0.0, tolerance=1e-8)
    assert found.count == 400
    assert 0.0 < found.missed < 0.01


def test_grow__starts_with_the_fewest_and_no_more_than_there_are():
    kernels, z, x = gaussian_case()
    assert grow(kernels, z, x, 1.0, 1e-8).count == FEWEST
    assert grow(kernels, z, x, 1.0, 1e-8, fewest=100).count == 100
    assert grow(kernels, [one[:7] for one in z], x, 1.0, 1e-8).count == 7


def test_grow__drops_landmarks_by_the_tolerance():
    kernels, z, x = gaussian_case()
    coarse = grow(kernels, z, x, 0.0, tolerance=0.1)
    assert coarse.missed > 2 * grow(kernels, z, x, 0.0, tolerance=1e-8).missed


def test_grow__cannot_tell_from_rows_that_are_alike():
    kernels, z, x = gaussian_case()
    x[0][:] = 1.0
    found = grow(kernels, z, x, 0.5, 1e-8)
    assert (found.count, found.missed) == (400, None)


def test_grow__goes_on_until_a_landmark_has_a_rare_value_of_the_pilot():
    rng = np.random.default_rng(0)
    z = [np.zeros((200, 1)), rng.standard_normal((200, 1))]
    x = [np.zeros((150, 1)), rng.standard_normal((150, 1))]
    x[0][:2] = 1.0
    assert grow([Delta(), Gaussian(gamma=0.5)], z, x, 0.4, 1e-8).missed > 0.45
    z[0][100:120] = 1.0
    found = grow([Delta(), Gaussian(gamma=0.5)], z, x, 0.4, 1e-8)
    assert found.count == 128
    assert found.missed < 0.01


def test_missed_spread__is_all_where_the_kernel_is_0_at_every_landmark():
    rows = linear_rows(10, 2)
    gram = centred_gram([Linear()] * 2, rows)
    assert missed_spread(gram, np.zeros((3, 3)), np.zeros((3, 10)), 1e-8) == 1.0
