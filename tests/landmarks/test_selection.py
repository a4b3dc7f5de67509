"""Landmarks chosen from a pool: by the definitions, and whatever the pool."""

import itertools
import tracemalloc
from typing import get_args

import numpy as np
import pytest
from scipy.stats import chisquare

from dhsic.errors import InvalidArgumentError
from dhsic.kernels import Delta, Distance, Gaussian, Laplacian, Linear, Polynomial
from dhsic.landmarks import Pool, Selection, select, select_bytes
from dhsic.landmarks.selection import in_turn

SELECTIONS = get_args(Selection)
INFORMED = [selection for selection in SELECTIONS if selection != "uniform"]
PIVOTED = ["rpcholesky", "kmeans++", "coherence", "determinant"]


def pool_of(*points, kernel=None):
    points = tuple(np.asarray(x, float) for x in points)
    return Pool(tuple(kernel or Gaussian(gamma=0.5) for _ in points), points)


def dense(pool):
    grams = [k(x) for k, x in zip(pool.kernels, pool.points, strict=True)]
    return np.prod(grams, axis=0)


def chosen(selection, pool, p, seed=0):
    rows = select(selection, pool, p, np.random.default_rng(seed))
    assert rows.shape == (p,)
    assert rows.dtype == np.intp
    assert len(set(rows.tolist())) == p
    assert rows.min() >= 0
    assert rows.max() < len(pool)
    return rows


def squared_distance_to_span(gram, taken):
    if not taken:
        return gram.diagonal()
    cross = gram[taken]
    return gram.diagonal() - np.sum(cross * (np.linalg.pinv(gram[np.ix_(taken, taken)]) @ cross), 0)


def squared_distance_to_nearest(gram, taken):
    if not taken:
        return np.ones(len(gram))
    diagonal = gram.diagonal()
    return np.min([diagonal + diagonal[z] - 2.0 * gram[z] for z in taken], axis=0)


def greedy_determinant(gram, p):
    """Every row is tried; the first is the lowest of those that tie."""
    taken = [int(np.argmax(gram.diagonal() > gram.diagonal().max() - 1e-9))]
    while len(taken) < p:
        rest = [i for i in range(len(gram)) if i not in taken]
        subsets = [[*taken, i] for i in rest]
        taken.append(rest[np.argmax([np.linalg.slogdet(gram[np.ix_(s, s)])[1] for s in subsets])])
    return taken


def farthest_first(gram, p):
    taken = [0]
    while len(taken) < p:
        taken.append(int(np.argmax(squared_distance_to_nearest(gram, taken))))
    return taken


def law_of_sets(gram, p, distance):
    """Probability of every set of p rows, each drawn in proportion to its distance."""
    law = {}
    for order in itertools.permutations(range(len(gram)), p):
        probability = 1.0
        for turn, row in enumerate(order):
            left = np.clip(distance(gram, list(order[:turn])), 0.0, None)
            left[list(order[:turn])] = 0.0
            probability *= left[row] / left.sum()
        law[frozenset(order)] = law.get(frozenset(order), 0.0) + probability
    return law


def trace_error(gram, taken):
    return squared_distance_to_span(gram, list(taken)).sum()


def clusters(rng, sizes=(400, 60, 8, 8, 4, 4), d=3, spread=0.3):
    centres = 4.0 * rng.standard_normal((len(sizes), d))
    noise = spread * rng.standard_normal((sum(sizes), d))
    return rng.permutation(np.repeat(centres, sizes, axis=0) + noise)


KERNELS = [Gaussian(gamma=0.5), Laplacian(), Distance(), Polynomial(degree=4)]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("p", [1, 2, 5, 14])
def test_select__determinant_is_the_greedy_maximum(rng, kernel, p):
    x = rng.standard_normal((300, 3))
    pool = pool_of(x, kernel=kernel.fit(x))
    assert set(chosen("determinant", pool, p)) == set(greedy_determinant(dense(pool), p))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("p", [1, 2, 5, 60, 200])
def test_select__coherence_is_farthest_first(rng, kernel, p):
    x = rng.standard_normal((300, 3))
    pool = pool_of(x, kernel=kernel.fit(x))
    assert set(chosen("coherence", pool, p)) == set(farthest_first(dense(pool), p))


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize(
    ("selection", "distance"),
    [("rpcholesky", squared_distance_to_span), ("kmeans++", squared_distance_to_nearest)],
)
def test_select__draws_in_proportion_to_squared_distances(selection, distance, p):
    points = [[1.0, 0.1], [1.1, 0.1], [0.2, 1.5], [0.9, 0.9], [2.0, 0.3]]
    pool = pool_of(points, kernel=Polynomial(degree=2, gamma=1.0, coef0=0.5))
    law = law_of_sets(dense(pool), p, distance)
    drawn = [frozenset(chosen(selection, pool, p, seed).tolist()) for seed in range(2000)]
    likely = [rows for rows, probability in law.items() if 2000 * probability > 5]
    observed = np.array([drawn.count(rows) for rows in likely])
    expected = 2000 * np.array([law[rows] for rows in likely])
    rest = np.array([2000 - observed.sum()]), np.array([2000 - expected.sum()])
    if rest[1] > 5:
        observed, expected = np.append(observed, rest[0]), np.append(expected, rest[1])
    assert len(observed) > 2
    assert chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-3


def test_select__uniform_is_any_set_of_rows(rng):
    pool = pool_of(rng.standard_normal((20, 1)))
    rows = np.concatenate([chosen("uniform", pool, 5, seed) for seed in range(800)])
    assert chisquare(np.bincount(rows, minlength=20)).pvalue > 1e-3


@pytest.mark.parametrize("selection", INFORMED)
def test_select__approximates_clusters_better_than_uniform_draws(selection):
    errors = {selection: [], "uniform": []}
    for seed in range(8):
        pool = pool_of(clusters(np.random.default_rng(seed)))
        gram = dense(pool)
        for name, values in errors.items():
            values.append(trace_error(gram, chosen(name, pool, 25, seed)))
    assert np.mean(errors[selection]) < 0.8 * np.mean(errors["uniform"])


@pytest.mark.parametrize("selection", INFORMED)
def test_select__finds_outliers(selection, rng):
    x = 0.1 * rng.standard_normal((600, 2))
    outliers = rng.choice(600, 4, replace=False)
    x[outliers] += np.array([[40.0, 0.0], [0.0, 40.0], [-40.0, 0.0], [0.0, -40.0]])
    found = [np.isin(outliers, chosen(selection, pool_of(x), 30, seed)) for seed in range(10)]
    assert np.mean(found) >= 0.9


@pytest.mark.parametrize("selection", INFORMED)
def test_select__sees_the_product_of_the_kernels(selection, rng):
    """Of 300 rows only six differ, in one variable or the other, and all six are taken."""
    x, y = np.zeros((300, 1)), np.zeros((300, 1))
    first, second = np.split(rng.choice(300, 6, replace=False), 2)
    x[first, 0], y[second, 0] = [10.0, 20.0, 30.0], [10.0, 20.0, 30.0]
    # leverage draws at random, but in proportions of 1 to 1/294
    rows = chosen(selection, pool_of(x, y), 7)
    assert np.isin([*first, *second], rows).sum() >= (5 if selection == "leverage" else 6)


@pytest.mark.parametrize("selection", INFORMED)
def test_select__depends_on_every_variable_of_a_pool(selection, rng):
    x, y = rng.standard_normal((2, 300, 2))
    both = chosen(selection, pool_of(x, y), 20)
    assert set(both) != set(chosen(selection, pool_of(x), 20))
    assert set(both) != set(chosen(selection, pool_of(y), 20))


POOLS = {
    "distinct": pool_of(np.random.default_rng(0).standard_normal((150, 2))),
    "equal": pool_of(np.ones((150, 3))),
    "pairs": pool_of(np.repeat(np.random.default_rng(0).standard_normal((75, 4)), 2, axis=0)),
    "far pairs": pool_of(
        1e4 + np.repeat(np.random.default_rng(0).standard_normal((75, 4)), 2, axis=0)
    ),
    "rank 2": pool_of(np.random.default_rng(0).standard_normal((150, 2)), kernel=Linear()),
    "zero": pool_of(np.zeros((150, 2)), kernel=Linear()),
    "categories": pool_of(np.arange(150)[:, None] % 5, kernel=Delta()),
    "smooth": pool_of(np.random.default_rng(0).uniform(size=(150, 1))),
    "heavy tails": pool_of(
        np.random.default_rng(0).standard_cauchy((150, 2)) ** 3, kernel=Distance(origin=(0.0, 0.0))
    ),
    "joint": pool_of(np.arange(150)[:, None] % 3, np.arange(150)[:, None] % 4, kernel=Delta()),
}


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_select__gives_distinct_rows_of_any_pool(selection, pool):
    for p in (1, 2, 20, 149, 150):
        rows = chosen(selection, pool, p)
        np.testing.assert_array_equal(rows, chosen(selection, pool, p))


@pytest.mark.parametrize("name", ["equal", "far pairs", "rank 2", "heavy tails"])
@pytest.mark.parametrize("selection", PIVOTED)
def test_select__gives_distinct_rows_where_rounding_passes_for_distance(
    selection, name, monkeypatch
):
    monkeypatch.setattr(Pool, "tolerance", lambda pool: 1e-30)
    for seed in range(5):
        chosen(selection, POOLS[name], 140, seed)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_select__takes_the_only_row(selection):
    np.testing.assert_array_equal(chosen(selection, pool_of([[2.0]]), 1), [0])


@pytest.mark.parametrize("selection", PIVOTED)
@pytest.mark.parametrize("name", ["pairs", "categories", "joint", "rank 2"])
def test_select__takes_what_spans_the_pool_before_what_repeats_it(selection, name):
    pool = POOLS[name]
    kinds = len(np.unique(np.hstack(pool.points), axis=0))
    rank = 2 if name == "rank 2" and selection in {"rpcholesky", "determinant"} else kinds
    for seed in range(3):
        rows = chosen(selection, pool, rank, seed)
        if name == "rank 2":
            assert np.linalg.matrix_rank(dense(pool)[np.ix_(rows, rows)]) == 2
        else:
            assert len(np.unique(np.hstack([x[rows] for x in pool.points]), axis=0)) == kinds


@pytest.mark.parametrize("selection", INFORMED)
def test_select__fills_up_uniformly_where_nothing_is_left(selection):
    pool = POOLS["zero"]
    rows = np.concatenate([chosen(selection, pool, 15, seed) for seed in range(200)])
    assert chisquare(np.bincount(rows, minlength=150)).pvalue > 1e-3


@pytest.mark.parametrize("selection", SELECTIONS)
def test_select__shuffles_the_order_in_which_rows_were_taken(selection):
    x = np.append(np.random.default_rng(0).uniform(size=39), 50.0)[:, None]
    places = [np.flatnonzero(chosen(selection, pool_of(x), 8, seed) == 39) for seed in range(400)]
    places = np.concatenate(places)
    assert len(places) > 60
    assert chisquare(np.bincount(places, minlength=8)).pvalue > 1e-3


@pytest.mark.parametrize("selection", PIVOTED)
@pytest.mark.parametrize("p", [1, 40, 128, 200])
def test_in_turn__has_every_smaller_choice_first(selection, p, rng):
    pool = Pool((Gaussian(gamma=0.5),), (rng.standard_normal((400, 5)),))
    rows = in_turn(selection, pool, 300, np.random.default_rng(1))
    few = select(selection, pool, p, np.random.default_rng(1))
    assert set(rows[:p].tolist()) == set(few.tolist())
    assert len(set(rows.tolist())) == 300


def test_in_turn__uniform_has_any_row_at_any_turn():
    pool = Pool((Gaussian(gamma=0.5),), (np.arange(5.0)[:, None],))
    draws = [in_turn("uniform", pool, 4, np.random.default_rng(seed)) for seed in range(1000)]
    for turn in range(4):
        counts = np.bincount([rows[turn] for rows in draws], minlength=5)
        assert chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("selection", ["uniform", "rpcholesky", "leverage", "kmeans++"])
def test_select__draws_other_rows_from_another_generator(selection, rng):
    pool = pool_of(rng.standard_normal((300, 2)))
    assert set(chosen(selection, pool, 20, 1)) != set(chosen(selection, pool, 20, 2))


def test_select__refuses_more_landmarks_than_rows(rng):
    with pytest.raises(InvalidArgumentError, match="got 10 rows for 11 landmarks: take a larger"):
        select("rpcholesky", pool_of(rng.standard_normal((10, 1))), 11, rng)


@pytest.mark.parametrize("p", [0, -1, 2.0])
def test_select__refuses_what_is_no_number_of_landmarks(p, rng):
    with pytest.raises(InvalidArgumentError, match="p must be an integer >= 1, got"):
        select("rpcholesky", pool_of(rng.standard_normal((10, 1))), p, rng)


def test_select__refuses_unknown_selections(rng):
    with pytest.raises(InvalidArgumentError, match="did you mean 'kmeans\\+\\+'"):
        select("kmeans", pool_of(rng.standard_normal((10, 1))), 2, rng)


@pytest.mark.parametrize("shape", [(1500, 400, 8), (1500, 10, 60), (400, 300, 2)])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_select_bytes__bounds_what_a_selection_holds(selection, shape):
    s, p, d = shape
    x = np.random.default_rng(0).standard_normal((s, d))
    kernels = (Gaussian(gamma=1.0 / d), Laplacian().fit(x))
    pool = Pool(kernels, (x, x))
    rng = np.random.default_rng(0)

    def peak():
        tracemalloc.start()
        try:
            select(selection, pool, p, rng)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    least = min(peak() for _ in range(2))  # threads that others have left allocate too
    assert least < select_bytes(selection, s, p, sum(kernel.width(d) for kernel in kernels))


@pytest.mark.parametrize("selection", SELECTIONS)
def test_select_bytes__is_linear_in_the_pool(selection):
    small, large = (select_bytes(selection, s, 1000, 12) for s in (50_000, 500_000))
    assert large <= 10 * small
    assert large < 8 * 500_000**2 / 100


def test_pool__is_the_product_of_the_grams_tile_by_tile(rng):
    x, y = rng.standard_normal((2100, 2)), rng.integers(0, 3, (2100, 1)).astype(float)
    pool = Pool((Gaussian(gamma=0.5), Delta()), (x, y))
    rows, columns = np.array([2099, 3, 2050]), np.array([7, 2099])
    apart = np.sum((x[:, None] - x[columns]) ** 2, axis=2)
    gram = np.exp(-0.5 * apart) * (y == y[columns].T)
    np.testing.assert_allclose(pool.columns(columns), gram, atol=1e-12)
    np.testing.assert_allclose(pool.gram(rows, columns), gram[rows], atol=1e-12)
    np.testing.assert_allclose(pool.diagonal(), 1.0, atol=1e-12)
    assert len(pool) == 2100


def test_pool__tells_apart_distances_and_rounding():
    near, far = (pool_of(at + np.zeros((5, 3))) for at in (0.0, 1e5))
    assert 0 < near.tolerance() < 1e-13
    assert 1e-6 < far.tolerance() < 1e-2
