"""One test from several kernels: scores, ties, and the level for any grid."""

import numpy as np
import pytest
from scipy.stats import binom

from dhsic.errors import DataError
from dhsic.nulls import aggregate, pvalue

HOW = ("soft", "max", "min-p")


def no_rounding(statistics):
    return np.zeros(len(statistics))


def draws(rng, b, g):
    """Correlated columns of unlike laws and scales, b + 1 exchangeable rows."""
    shared = rng.standard_normal((b + 1, 1))
    z = 0.7 * shared + 0.7 * rng.standard_normal((b + 1, g))
    return np.where(np.arange(g) % 2, z**2, 1e3 + 5 * z)


def test_aggregate__takes_the_largest_distance_from_the_other_rows(rng):
    rows = draws(rng, 99, 5)
    found = aggregate(rows[0], rows[1:], "max", no_rounding(rows[0]))
    distances = [
        ((x - others.mean(axis=0)) / others.std(axis=0)).max()
        for r, x in enumerate(rows)
        for others in [np.delete(rows, r, axis=0)]
    ]
    np.testing.assert_allclose([found.statistic, *found.distribution.values], distances, rtol=1e-9)
    by_itself = (rows[0] - rows[1:].mean(axis=0)) / rows[1:].std(axis=0)
    np.testing.assert_allclose(found.standardised, by_itself, rtol=1e-9)
    assert found.strongest == by_itself.argmax()


@pytest.mark.parametrize(
    ("reference", "share", "weights"),
    [
        (2, 0.0, np.full(5, 0.2)),
        (2, 0.4, [0.15, 0.15, 0.4, 0.15, 0.15]),
        ([1, 2], 0.0, np.full(5, 0.2)),
        ([1, 2], 0.4, [0.2, 0.24, 0.16, 0.2, 0.2]),
        ([0, 1, 2, 3, 4], 0.4, np.full(5, 0.2)),
    ],
)
def test_aggregate__gathers_what_all_combinations_find(rng, reference, share, weights):
    rows = draws(rng, 99, 5)
    options = {"reference": reference, "share": share}
    found = aggregate(rows[0], rows[1:], "soft", no_rounding(rows[0]), **options)
    z = np.array(
        [
            (x - others.mean(axis=0)) / others.std(axis=0)
            for r, x in enumerate(rows)
            for others in [np.delete(rows, r, axis=0)]
        ]
    )
    expected = np.log(np.exp(2.0 * z) @ weights)
    np.testing.assert_allclose(
        [found.statistic, *found.distribution.values], expected, rtol=1e-9, atol=1e-9
    )
    assert found.strongest == (2.0 * z[0] + np.log(weights)).argmax()


def test_aggregate__of_overwhelming_evidence_is_finite(rng):
    rows = draws(rng, 99, 3)
    found = aggregate(rows[0] + 1e12, rows[1:], "soft", np.zeros(3), share=0.5)
    assert np.isfinite([found.statistic, *found.distribution.values]).all()
    assert found.distribution.sf(found.statistic) == 0.01


def test_aggregate__takes_the_smallest_pvalue_and_breaks_ties_by_distance(rng):
    rows = draws(rng, 39, 5)
    found = aggregate(rows[0], rows[1:], "min-p", no_rounding(rows[0]))
    largest = [found.statistic, *found.distribution.values]
    ranks = np.array([[(column >= x).mean() for x in column] for column in rows.T]).T
    distances = np.stack(
        [aggregate(r, np.delete(rows, k, 0), "max", r * 0).standardised for k, r in enumerate(rows)]
    )
    keys = [
        max(zip(-rank, distance, strict=True))
        for rank, distance in zip(ranks, distances, strict=True)
    ]
    order = sorted(range(len(rows)), key=keys.__getitem__)
    assert list(np.argsort(largest)) == order


@pytest.mark.parametrize("how", HOW)
def test_aggregate__of_one_combination_is_its_own_test(rng, how):
    rows = draws(rng, 199, 1)
    found = aggregate(rows[0], rows[1:], how, np.zeros(1))
    expected = (1 + np.count_nonzero(rows[1:, 0] >= rows[0, 0])) / 200
    assert found.distribution.sf(found.statistic) == expected
    assert found.pvalues == [expected]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("share", [0.0, 0.5, 2 / 3])
@pytest.mark.parametrize("g", [2, 16])
def test_aggregate__is_exact_for_exchangeable_rows(how, g, share):
    runs, b = 1000, 39
    rng = np.random.default_rng(g)
    tables = (draws(rng, b, g) for _ in range(runs))
    found = [
        aggregate(rows[0], rows[1:], how, no_rounding(rows[0]), share=share) for rows in tables
    ]
    ps = np.array([pvalue(x.statistic, x.distribution, rounding=x.rounding) for x in found])
    for alpha in (0.05, 0.1, 0.5):
        low, high = binom.ppf([1e-5, 1 - 1e-5], runs, alpha)
        assert low <= (ps <= alpha).sum() <= high
    singles = np.array([x.pvalues.min() for x in found])
    assert (singles <= 0.05).sum() > binom.ppf(1 - 1e-5, runs, 0.05)


def cases(b, rng):
    """Rows of statistics of several laws: smooth, tied, opposed, and far above all others."""
    z = rng.standard_normal((b + 1, 1))
    far = 1e-9 * rng.standard_normal((b + 1, 3))
    far[rng.integers(b + 1, size=3), np.arange(3)] = 1.0
    tied = rng.integers(0, 3, (b + 1, 3)).astype(float)
    return draws(rng, b, 3), tied, np.hstack([z, -z, z**2]), far, np.repeat(z, 3, axis=1)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 2 / 3, 0.9])
def test_aggregate__is_exact_with_any_number_of_replicates(how, share):
    """Each row is the data once: no more than k of b + 1 p-values may be k / (b + 1) or less."""
    rng = np.random.default_rng(3)
    for b in (1, 2, 3, 4, 7, 11):
        for rows in cases(b, rng):
            for dtype in (np.float64, np.float32):
                found = [
                    aggregate(
                        row,
                        np.delete(rows, r, 0),
                        how,
                        np.zeros(3),
                        dtype,
                        reference=1,
                        share=share,
                    )
                    for r, row in enumerate(rows)
                ]
                p = [pvalue(x.statistic, x.distribution, dtype, x.rounding) for x in found]
                assert (np.sort(p) >= np.arange(1, b + 2) / (b + 1) - 1e-12).all()


@pytest.mark.parametrize("how", HOW)
def test_aggregate__does_not_change_with_the_scale_of_a_kernel(rng, how):
    rows = draws(rng, 99, 4)
    scaled = rows * [1.0, 1e-6, 7.0, 1e5] + [0.0, 0.0, -3.0, 2.0]
    found, again = (aggregate(x[0], x[1:], how, np.zeros(4)) for x in (rows, scaled))
    np.testing.assert_allclose(again.distribution.values, found.distribution.values, rtol=1e-6)
    assert again.strongest == found.strongest


@pytest.mark.parametrize("how", HOW)
def test_aggregate__says_nothing_where_rows_are_equal_but_for_rounding(rng, how):
    flat = 1.0 + 1e-12 * rng.standard_normal((100, 2))
    found = aggregate(flat[0], flat[1:], how, np.full(2, 1e-10))
    assert found.distribution.sf(found.statistic - found.rounding) == 1.0
    telling = np.hstack([flat, np.r_[50.0, rng.standard_normal(99)][:, None]])
    found = aggregate(telling[0], telling[1:], how, np.full(3, 1e-10))
    assert found.strongest == 2
    assert found.distribution.sf(found.statistic) == 0.01


def test_aggregate__counts_values_within_rounding_as_ties(rng):
    replicates = rng.standard_normal((99, 1)) * [1.0, 0.5]
    replicates[:30] = 9.0, 4.5
    for how in HOW:
        found = aggregate(np.array([9.0 + 1e-9, 4.5]), replicates, how, np.array([1e-8, 0.0]))
        assert found.distribution.sf(found.statistic - found.rounding) == pytest.approx(0.31)
        assert found.pvalues[0] == pytest.approx(0.31)


def test_share__weighs_the_rank_by_the_reference_against_that_by_the_others(rng):
    n, share, reference = 60, 0.4, 2
    decided = []
    for _ in range(20):
        rows = draws(rng, n - 1, 4)
        options = {"reference": reference, "share": share}
        found = aggregate(rows[0], rows[1:], "max", np.zeros(4), **options)
        p, q = (
            np.array([(scores >= score).sum() - 0.5 for score in scores]) / n
            for part in (rows[:, [reference]], np.delete(rows, reference, axis=1))
            for whole in [aggregate(part[0], part[1:], "max", np.zeros(part.shape[1]))]
            for scores in [np.r_[whole.statistic, whole.distribution.values]]
        )
        expected = -np.log10(np.minimum(p / share, q / (1 - share)))
        scores = [found.statistic, *found.distribution.values]
        np.testing.assert_allclose(scores, expected, rtol=1e-12)
        others = np.where(np.arange(4) == reference, -np.inf, found.standardised)
        decides = p[0] / share < q[0] / (1 - share)
        assert found.strongest == (reference if decides else others.argmax())
        decided.append(decides)
    assert {*decided} == {True, False}


@pytest.mark.parametrize("how", ["max", "min-p"])
def test_share__of_several_is_that_of_the_strongest_of_them(rng, how):
    rows = draws(rng, 59, 4)
    found = aggregate(rows[0], rows[1:], how, np.zeros(4), reference=[1, 3], share=0.4)
    parts = [
        aggregate(part[0], part[1:], how, np.zeros(2))
        for part in (rows[:, [1, 3]], rows[:, [0, 2]])
    ]
    p, q = (
        np.array([(scores >= score).sum() - 0.5 for score in scores]) / 60
        for part in parts
        for scores in [np.r_[part.statistic, part.distribution.values]]
    )
    scores = [found.statistic, *found.distribution.values]
    np.testing.assert_allclose(scores, -np.log10(np.minimum(p / 0.4, q / 0.6)), rtol=1e-12)


def test_share__grows_the_weight_of_the_reference(rng):
    rows = draws(rng, 99, 16)
    rows[0, 3] = np.quantile(rows[1:, 3], 0.98)
    options = {"how": "max", "rounding": np.zeros(16), "reference": 3}
    found = [aggregate(rows[0], rows[1:], share=s, **options) for s in (0.01, 0.5, 0.99)]
    ps = [x.distribution.sf(x.statistic - x.rounding) for x in found]
    assert ps[0] > ps[1] > ps[2]
    assert found[2].strongest == 3
    assert ps[2] == pytest.approx(found[2].pvalues[3], abs=0.01)


def test_aggregate__of_huge_statistics_is_finite():
    found = aggregate(np.array([1e12]), np.arange(99.0)[:, None], "max", np.zeros(1))
    assert found.statistic > 1e6
    assert found.distribution.sf(found.statistic) == 0.01


def test_aggregate__refuses_what_overflowed():
    with pytest.raises(DataError, match="must be finite"):
        aggregate(np.array([1.0]), np.array([[np.inf]]), "max", np.zeros(1))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("share", [0.2, 2 / 3])
def test_aggregate__with_a_constant_column_is_exact(how, share):
    runs, b = 2000, 39
    rng = np.random.default_rng(1)
    rejected = 0
    for _ in range(runs):
        rows = np.column_stack([rng.chisquare(2, (b + 1, 2)), 1 + 1e-9 * rng.random(b + 1)])
        found = aggregate(rows[0], rows[1:], how, np.zeros(3), share=share)
        p = pvalue(found.statistic, found.distribution, rounding=found.rounding)
        rejected += p <= 0.05
    low, high = binom.ppf([1e-5, 1 - 1e-5], runs, 0.05)
    assert low <= rejected <= high


@pytest.mark.parametrize("share", [0.0, 2 / 3])
@pytest.mark.parametrize("how", HOW)
def test_aggregate__finds_what_is_far_above_replicates_that_hardly_differ(how, share, rng):
    rows = 1.0 + 1e-3 * rng.random((100, 3))
    rows[0] = 1e7
    found = aggregate(rows[0], rows[1:], how, np.zeros(3), np.float32, share=share)
    assert pvalue(found.statistic, found.distribution, np.float32, found.rounding) == 0.01


def test_strongest__is_the_farthest_where_all_lie_above_their_replicates(rng):
    rows = rng.standard_normal((100, 3))
    rows[0] = 10.0, 9.0, 50.0
    assert aggregate(rows[0], rows[1:], "max", np.zeros(3), share=2 / 3).strongest == 2
    rows[0] = 10.0, 9.0, 0.0
    assert aggregate(rows[0], rows[1:], "max", np.zeros(3), share=2 / 3).strongest == 0


@pytest.mark.parametrize("how", HOW)
def test_aggregate__takes_a_statistic_of_zeros_for_no_evidence(rng, how):
    rows = draws(rng, 99, 2)
    silent = np.column_stack([np.zeros(len(rows)), rows])
    found = aggregate(silent[0], silent[1:], how, no_rounding(silent[0]))
    assert found.standardised[0] == 0.0
    assert found.strongest != 0
    assert np.isfinite(found.distribution.values).all()
