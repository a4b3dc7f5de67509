"""One test from several kernels, against loops: scores, ties, exactness, and the door to it."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp

import dhsic
from dhsic.errors import DataError
from dhsic.kernels import Gaussian, Laplacian
from dhsic.nulls import Strength, aggregate, pvalue, standardised

HOW = ("soft", "max", "min-p")
WEIGHTS_OF_FIVE = {
    (None, 0.0): [0.2] * 5,
    ((2,), 0.4): [0.15, 0.15, 0.4, 0.15, 0.15],
    ((1, 2), 0.4): [0.2, 0.24, 0.16, 0.2, 0.2],
    ((0, 1, 2, 3, 4), 0.4): [0.2] * 5,
}


def draws(rng, b, g):
    """Correlated columns of unlike laws and scales, b + 1 exchangeable rows."""
    shared = rng.standard_normal((b + 1, 1))
    z = 0.7 * shared + 0.7 * rng.standard_normal((b + 1, g))
    return np.where(np.arange(g) % 2, z**2, 1e3 + 5 * z)


class Naive:
    """Scores of all rows by loops, and which combination gave that of the data."""

    def __init__(
        self, rows, how, rounding, *, reference=(), share=0.0, dtype=np.float64, weights=None
    ):
        self.rows, self.how, count = rows, how, rows.shape[1]
        largest = np.abs(rows).max(axis=0)
        self.ties = np.maximum(rounding, math.sqrt(np.finfo(dtype).eps) * largest)
        self.told = rows.std(axis=0) > self.ties
        self.z = np.array([self.distances(r) for r in range(len(rows))])
        alone, others = list(reference), [c for c in range(count) if c not in reference]
        if how == "soft" or share == 0.0 or not others:
            given = weights or WEIGHTS_OF_FIVE.get((tuple(reference) or None, share))
            given = given if how == "soft" and given else [1.0 / count] * count
            self.scores, self.rounding, self.strongest = self.of(range(count), given)
        else:
            self.scores, self.rounding, self.strongest = self.weighed(alone, others, share)

    def distances(self, r):
        others = np.delete(self.rows, r, axis=0)
        spread = np.where(self.told, others.std(axis=0), 1.0)
        return np.where(self.told, (self.rows[r] - others.mean(axis=0)) / spread, 0.0)

    def of(self, columns, weights=None):
        columns = list(columns)
        errors = [self.ties[c] / self.rows[:, c].std() if self.told[c] else 0.0 for c in columns]
        if self.how == "soft":
            terms = 2.0 * self.z + np.log(weights)
            return np.log(np.exp(terms).sum(axis=1)), 2.0 * max(errors), terms[0].argmax()
        values, rounding = self.z[:, columns], max(errors)
        if self.how == "min-p":
            below = [
                [np.sum(x < y - tie) for y in x]
                for x, tie in zip(self.rows.T, self.ties, strict=True)
            ]
            values = np.array(below).T[:, columns] + 0.5 + np.arctan(values) / math.pi
            rounding /= math.pi
        return values.max(axis=1), rounding, columns[values[0].argmax()]

    def weighed(self, alone, others, share):
        parts = [self.of(alone), self.of(others)]
        evidence = []
        for (scores, rounding, _), own in zip(parts, (share, 1.0 - share), strict=True):
            ranks = [np.sum(scores >= score - rounding) - 0.5 for score in scores]
            evidence.append(-np.log10(np.array(ranks) / len(self.rows) / own))
        first = all(scores[0] - rounding > scores[1:].max() for scores, rounding, _ in parts)
        ours, theirs = (parts[0][0][0], parts[1][0][0]) if first else (e[0] for e in evidence)
        return np.maximum(*evidence), 1e-9, parts[0 if ours >= theirs else 1][2]


def compare(rows, how, rounding=None, **options):
    rounding = np.zeros(rows.shape[1]) if rounding is None else rounding
    naive = Naive(rows, how, rounding, **options)
    if "reference" in options:
        options["reference"] = list(options["reference"])
    found = aggregate(rows[0], rows[1:], how, rounding, **options)
    scores = np.r_[found.statistic, found.distribution.values]
    np.testing.assert_allclose(scores, naive.scores, rtol=1e-8, atol=1e-8)
    assert found.rounding == pytest.approx(naive.rounding, rel=1e-10)
    assert found.strongest == naive.strongest
    np.testing.assert_allclose(found.standardised, naive.z[0], rtol=1e-8)
    np.testing.assert_allclose(found.strength.replicates, naive.z[1:].max(axis=1), rtol=1e-7)
    assert found.strength.statistic == pytest.approx(naive.z[0].max())
    digits = math.sqrt(np.finfo(options.get("dtype", float)).eps)
    least = rows[0] - np.maximum(rounding, digits * np.abs(rows[0]))
    np.testing.assert_allclose(found.pvalues, (rows >= least).mean(axis=0), rtol=1e-12)
    return found


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("reference", "share"), [((), 0.0), *list(WEIGHTS_OF_FIVE)[1:]])
def test_aggregate__is_that_of_loops(rng, how, reference, share):
    options = {"reference": reference, "share": share} if reference else {}
    strongest = set()
    for k in range(6):
        rows = draws(rng, 59, 5)
        rows[0, k % 5] += [0.0, 20.0][k % 2]
        strongest.add(compare(rows, how, **options).strongest)
        rounding = np.array([0.5, 0.0, 2.0, 0.05, 1e-4])  # many rows lie within it
        strongest.add(compare(rows, how, rounding, **options).strongest)
        tied = rng.integers(0, 3, (60, 5)).astype(float)
        compare(tied, how, np.full(5, 1e-9), **options)
        flat = rows.copy()
        flat[:, reference or 1] = 7.0
        strongest.add(compare(flat, how, **options).strongest)
        whole = np.round(rng.normal(9.0, 3.0, (60, 5)))  # many differ by just the rounding
        compare(whole, how, np.ones(5), **options)
        compare(rows, how, dtype=np.float32, **options)
    assert len(strongest) > 2


@pytest.mark.parametrize("how", ["max", "min-p"])
def test_share__counts_rows_within_rounding_of_the_score_as_above_it(how, rng):
    """Of the data, which lie above all others by less than the rounding, the rank is not the first.

    Then the weighed ranks, and not the scores themselves, tell which combination decided.
    """
    rows = rng.standard_normal((40, 3))
    rows[0], rows[1] = (90.0, 3.0, 4.0), (89.9, 0.0, 0.0)
    found = compare(rows, how, np.array([0.5, 0.0, 0.0]), reference=(0,), share=0.1)
    assert found.strongest == 2
    assert compare(rows, how, reference=(0,), share=0.1).strongest == 0


@pytest.mark.parametrize("how", HOW)
def test_aggregate__of_one_combination_is_its_own_test(rng, how):
    rows = draws(rng, 199, 1)
    found = aggregate(rows[0], rows[1:], how, np.zeros(1))
    expected = (1 + np.count_nonzero(rows[1:, 0] >= rows[0, 0])) / 200
    assert found.distribution.sf(found.statistic) == expected
    assert found.pvalues == [expected]


def test_aggregate__of_many_columns_takes_some_at_a_time(rng):
    rows, rounding = draws(rng, 59, 30_000), np.zeros(30_000)
    rows[0, [6_000, 28_000]] += 100.0
    rounding[7] = 0.1
    for how in ("max", "soft", "max"):
        rows[0, 28_000] += 20.0
        z, errors, *_ = standardised(rows, rounding)
        expected = z.max(axis=1) if how == "max" else logsumexp(2 * z, 1, 1 / 30_000)
        found = aggregate(rows[0], rows[1:], how, rounding)
        scores = [found.statistic, *found.distribution.values]
        np.testing.assert_allclose(scores, expected, rtol=1e-10)
        assert found.strongest == z[0].argmax()
        assert found.rounding == errors[7] * (2.0 if how == "soft" else 1.0)
        assert found.standardised[28_000] == pytest.approx(z[0, 28_000])
        np.testing.assert_allclose(found.strength.replicates, z[1:].max(axis=1))


def test_aggregate__of_replicates_without_spread_is_finite():
    """The deviation is floored by the root of the rounding of that of all rows."""
    found = aggregate(np.array([5.0, 2.0]), np.ones((99, 2)), "max", np.zeros(2))
    spread = np.array([4.0, 1.0]) * math.sqrt(99) / 100
    expected = [4.0, 1.0] / (math.sqrt(np.finfo(float).eps) * spread)
    np.testing.assert_allclose(found.standardised, expected, rtol=1e-10)
    assert 1e6 < found.statistic < math.inf
    assert found.distribution.sf(found.statistic) == 0.01


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("share", [0.0, 2 / 3])
def test_aggregate__finds_what_is_far_above_replicates_that_hardly_differ(how, share, rng):
    rows = 1.0 + 1e-3 * rng.random((100, 3))
    rows[0] = 1e7, 1e12, 1e7
    found = aggregate(rows[0], rows[1:], how, np.zeros(3), np.float32, share=share)
    assert np.isfinite([found.statistic, *found.distribution.values]).all()
    assert pvalue(found.statistic, found.distribution, np.float32, found.rounding) == 0.01


@pytest.mark.parametrize("how", HOW)
def test_aggregate__says_nothing_where_rows_are_equal_but_for_rounding(rng, how):
    flat = np.hstack([1.0 + 1e-12 * rng.standard_normal((100, 2)), np.zeros((100, 1))])
    found = aggregate(flat[0], flat[1:], how, np.full(3, 1e-10))
    assert found.distribution.sf(found.statistic - found.rounding) == 1.0
    assert found.rounding == 0.0
    telling = np.hstack([flat, np.r_[50.0, rng.standard_normal(99)][:, None]])
    found = aggregate(telling[0], telling[1:], how, np.full(4, 1e-10))
    assert found.strongest == 3
    assert found.distribution.sf(found.statistic) == 0.01


def test_aggregate__counts_values_within_rounding_as_ties(rng):
    replicates = rng.standard_normal((99, 1)) * [1.0, 0.5]
    replicates[:30] = 9.0, 4.5
    for how in HOW:
        found = aggregate(np.array([9.0 + 1e-9, 4.5]), replicates, how, np.array([1e-8, 0.0]))
        assert found.distribution.sf(found.statistic - found.rounding) == pytest.approx(0.31)
        assert found.pvalues[0] == pytest.approx(0.31)


def cases(b, rng):
    """Rows of several laws: smooth, tied, opposed, far above all others, equal, and constant."""
    z = rng.standard_normal((b + 1, 1))
    far = 1e-9 * rng.standard_normal((b + 1, 3))
    far[rng.integers(b + 1, size=3), np.arange(3)] = 1.0
    tied = rng.integers(0, 3, (b + 1, 3)).astype(float)
    flat = np.hstack([1.0 + 1e-9 * z, z, z**2])
    return draws(rng, b, 3), tied, np.hstack([z, -z, z**2]), far, np.repeat(z, 3, axis=1), flat


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("share", [0.0, 0.3, 2 / 3])
def test_aggregate__is_exact_with_any_number_of_replicates(how, share):
    """Each row is the data once: no more than k of b + 1 p-values may be k / (b + 1) or less."""
    rng = np.random.default_rng(3)
    options = {"reference": 1, "share": share}
    for b, dtype in [(1, np.float64), (2, np.float32), (4, np.float64), (9, np.float32)]:
        for rows in cases(b, rng):
            p = []
            for r, row in enumerate(rows):
                others = np.delete(rows, r, 0)
                found = aggregate(row, others, how, np.zeros(3), dtype, **options)
                p.append(pvalue(found.statistic, found.distribution, dtype, found.rounding))
            assert (np.sort(p) >= np.arange(1, b + 2) / (b + 1) - 1e-12).all()


def test_share__grows_the_weight_of_the_reference(rng):
    rows = draws(rng, 99, 16)
    rows[0, 3] = np.quantile(rows[1:, 3], 0.98)
    options = {"how": "max", "rounding": np.zeros(16), "reference": 3}
    found = [aggregate(rows[0], rows[1:], share=s, **options) for s in (0.01, 0.5, 0.99)]
    ps = [x.distribution.sf(x.statistic - x.rounding) for x in found]
    assert ps[0] > ps[1] > ps[2]
    assert ps[2] == pytest.approx(found[2].pvalues[3], abs=0.01)


def test_share__is_of_the_first_combination_where_none_is_named(rng):
    rows = draws(rng, 39, 3)
    found = [
        aggregate(rows[0], rows[1:], "max", np.zeros(3), share=0.9, **named)
        for named in ({}, {"reference": 0}, {"reference": 1})
    ]
    np.testing.assert_array_equal(found[0].distribution.values, found[1].distribution.values)
    assert not np.array_equal(found[0].distribution.values, found[2].distribution.values)


def test_strength__of_several_tests_is_the_largest():
    several = [Strength(1.0, np.array([2.0, 5.0])), Strength(3.0, np.array([4.0, 0.0]))]
    found = Strength.largest(several)
    assert (found.statistic, found.replicates.tolist()) == (3.0, [4.0, 5.0])


def test_aggregate__refuses_what_overflowed():
    with pytest.raises(DataError, match="must be finite"):
        aggregate(np.array([1.0]), np.array([[np.inf]]), "max", np.zeros(1))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("share", [0.0, 0.4])
@pytest.mark.parametrize("discrete", [False, True])
def test_grid__has_the_score_of_the_statistics_of_its_combinations(how, share, discrete):
    """The replicates of each combination are those of its own test at the same seed."""
    x, y = np.random.default_rng(4).random((2, 90))
    y += 0.3 * x
    if discrete:
        x, y = np.floor(3.0 * x), np.floor(3.0 * y)
    kernels = Gaussian(gamma=1.0), Gaussian(gamma=4.0), Laplacian(gamma=2.0)
    grid = dhsic.Grid(
        dhsic.Candidates(kernels, (1.0,)), "matched", aggregate=how, reference_share=share
    )
    options = {"estimator": "v-hsic", "null": dhsic.Shifts(300), "rng": 3}
    found = dhsic.independence_test(x, y, kernels=grid, **options)
    alone = [dhsic.independence_test(x, y, kernels=kernel, **options) for kernel in kernels]
    rows = np.array([[one.statistic, *one.null_distribution] for one in alone]).T
    weights = [0.4, 0.3, 0.3] if share else [1 / 3] * 3
    naive = Naive(rows, how, np.zeros(3), reference=(0,), share=share, weights=weights)
    np.testing.assert_allclose(
        [found.score, *found.null_scores], naive.scores, rtol=1e-8, atol=1e-8
    )
    least = naive.scores[0] - naive.rounding - 1e-9
    assert found.pvalue == pytest.approx((naive.scores >= least).mean())
