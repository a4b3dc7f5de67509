"""Laws of a statistic under the null hypothesis, and p-values from them."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from dhsic import nulls
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.nulls import (
    ChiSquareMixture,
    GammaDistribution,
    Permutation,
    Replicates,
    Shifts,
    Spectral,
    StudentT,
    TimeOrder,
    adjust,
    combine_pvalues,
    draw_permutations,
    monte_carlo_error,
    pvalue,
    pvalues,
    step_down,
    upper_tails,
)

RNG = np.random.default_rng
ROUNDING = {"float64": 2.0**-26, "float32": math.sqrt(2.0**-23)}


@pytest.mark.parametrize(
    ("statistic", "values", "expected"),
    [
        (5.0, np.arange(9.0), 5 / 10),
        (8.5, np.arange(9.0), 1 / 10),
        (1e300, np.zeros(20), 1 / 21),
        (0.0, np.zeros(9), 1.0),
        (0.3, np.full(9, 0.3), 1.0),
        (0.0, np.array([1.0, 2.0, 0.0, 1e-300]), 1.0),
    ],
)
def test_pvalue__counts_the_data_and_ties_in_and_is_never_zero(statistic, values, expected):
    found = pvalue(np.float64(statistic), Replicates(values))
    assert found == expected
    assert type(found) is float


@pytest.mark.parametrize("statistic", [1e-12, 3.0, 1e12, -3.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_pvalue__counts_ties_up_to_rounding_and_no_further(dtype, statistic):
    for share, expected in ((0.99, 1.0), (1.01, 0.5)):
        replicate = statistic - share * ROUNDING[dtype] * abs(statistic)
        assert pvalue(statistic, Replicates(np.array([replicate])), dtype) == expected
        far = Replicates(np.array([statistic - share * 2.0 * abs(statistic)]))
        assert pvalue(statistic, far, dtype, rounding=2.0 * abs(statistic)) == expected


@pytest.mark.parametrize("law", [GammaDistribution(1.0, 2.0), StudentT(math.inf)])
def test_pvalue__of_a_fitted_law_is_its_tail_less_rounding_and_never_zero(law):
    assert pvalue(3.0, law, np.float32) == law.sf(3.0)
    assert pvalue(3.0, law, rounding=0.5) == law.sf(2.5)
    assert law.sf(1e6) == 0.0
    assert pvalue(1e6, law) == np.finfo(float).tiny


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(
    "make",
    [
        lambda x: Replicates(np.array([1.0, x])),
        lambda x: GammaDistribution(x, 1.0),
        lambda x: GammaDistribution(1.0, x),
        lambda x: ChiSquareMixture(np.array([1.0, x])),
        lambda x: ChiSquareMixture(np.ones(1), shift=x),
        lambda x: ChiSquareMixture.of(np.array([1.0, x])),
        lambda x: pvalue(x, Replicates(np.ones(3))),
    ],
)
def test_law__refuses_numbers_that_are_none(make, bad):
    with pytest.raises(DataError, match=r"must be finite.*overflow.*precision='float64'"):
        make(bad)


def test_monte_carlo_error__is_that_of_a_share():
    assert monte_carlo_error(0.2, 100) == pytest.approx(0.04)
    assert monte_carlo_error(1.0, 100) == 0.0
    assert monte_carlo_error(0.2, 400) == pytest.approx(0.02)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pvalues__are_those_of_each(dtype):
    replicates = RNG(0).integers(5, size=(99, 6)).astype(float)
    statistics, rounding = replicates[0] + 1e-9, np.array([0.0, 1e-9, 1.0, 9.0, 0.0, 2.0])
    statistics[4:] = -1.0, 50.0
    each = zip(statistics, replicates.T, rounding, strict=True)
    expected = [pvalue(t, Replicates(column), dtype, error) for t, column, error in each]
    np.testing.assert_array_equal(pvalues(statistics, replicates, dtype, rounding), expected)
    near = np.array([[1.0 - 0.99 * ROUNDING["float64"]], [1.0 - 1.01 * ROUNDING["float64"]]])
    assert pvalues(np.ones(1), near, np.float64, np.zeros(1)) == 2 / 3


def test_laws__draw_from_themselves():
    for law in (
        GammaDistribution(3.0, 5.0),
        StudentT(8.0),
        StudentT(math.inf),
        ChiSquareMixture(np.r_[5.0, np.ones(20)], shift=-2.0),
        combine_pvalues([0.5] * 3, "fisher")[1],
        combine_pvalues([0.5] * 3, "sidak")[1],
    ):
        drawn = law.draws(RNG(0), 20_000)
        assert drawn.shape == (20_000,)
        for q in (0.1, 0.5, 0.95):
            assert law.sf(np.quantile(drawn, 1 - q)) == pytest.approx(q, abs=0.015)
    unique, counts = np.unique(
        Replicates(np.array([1.0, 2, 4])).draws(RNG(0), 3000), return_counts=True
    )
    np.testing.assert_array_equal(unique, [1, 2, 4])
    assert counts.min() > 850


@pytest.mark.parametrize("x", [1e-6, 1.0, 3.0, 30.0, 1000.0])
def test_tails__are_those_of_scipy(x):
    expected = stats.gamma.sf(x, 9.0 / 5.0, scale=5.0 / 3.0)
    assert GammaDistribution(3.0, 5.0).sf(x) == pytest.approx(expected, rel=1e-12)
    for df in (1.0, 7.0, 250.0):
        assert StudentT(df).sf(x) == pytest.approx(stats.t.sf(x, df), rel=1e-9)
        assert StudentT(df).sf(-x) == pytest.approx(stats.t.sf(-x, df), rel=1e-9)
    assert StudentT(math.inf).sf(min(x, 30.0)) == pytest.approx(stats.norm.sf(min(x, 30.0)))


def test_gamma__is_at_least_zero_and_without_spread_no_evidence():
    assert GammaDistribution(3.0, 5.0).sf(0.0) == GammaDistribution(3.0, 5.0).sf(-1.0) == 1.0
    for mean, variance in [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (-1e-20, 1e-40)]:
        law = GammaDistribution(mean, variance)
        assert law.sf(5.0) == 1.0
        np.testing.assert_array_equal(law.draws(RNG(0), 2), [mean, mean])
    assert GammaDistribution(0.5, 0.5).sf(5.0) < 0.01


def test_combined_pvalues__are_those_of_fisher_and_of_sidak():
    p = [0.01, 0.5, 0.2]
    statistic, law = combine_pvalues(p, "fisher")
    assert statistic == pytest.approx(-2 * math.log(0.001))
    assert law.sf(statistic) == pytest.approx(stats.combine_pvalues(p, "fisher").pvalue)
    statistic, law = combine_pvalues(p, "sidak")
    assert statistic == pytest.approx(2.0)
    assert law.sf(statistic) == pytest.approx(1 - 0.99**3, rel=1e-12)
    for how in ("fisher", "sidak"):
        tiny = combine_pvalues([1e-200, 0.3, 0.9], how)
        assert 0.0 < tiny[1].sf(tiny[0]) < 1e-190
        assert law.sf(0.0) == law.sf(-0.0) == 1.0
        assert combine_pvalues([1.0] * 3, how)[1].sf(0.0) == 1.0
        assert combine_pvalues([1.0] * 3, how)[1].sf(-1e-9) == 1.0


def test_mixtures__in_one_call_are_those_by_themselves(rng):
    """Laws of few and of many weights, and statistics at both ends."""
    laws = [ChiSquareMixture(0.8 ** np.arange(k), shift) for k in (1, 40, 900) for shift in (0, -2)]
    laws += [ChiSquareMixture(np.ones(k)) for k in (3, 200)] + [ChiSquareMixture(np.zeros(1))]
    laws, statistics = 4 * laws, rng.exponential(9.0, 4 * len(laws)) ** rng.choice([1, 3])
    statistics[:3] = [-1.0, 0.0, 1e5]
    tails = upper_tails(laws, statistics)
    alone = [law.sf(t) for law, t in zip(laws, statistics, strict=True)]
    np.testing.assert_allclose(tails, alone, rtol=1e-9)
    equal = [c for c, law in enumerate(laws) if (law.weights == 1.0).all() and not law.shift]
    expected = stats.chi2.sf(statistics[equal], [len(laws[c].weights) for c in equal])
    np.testing.assert_allclose(tails[equal], expected, rtol=1e-8)


def test_adjust__is_that_of_scipy_or_by_hand(rng):
    p = rng.random(30)
    for control in ("bh", "by"):
        expected = stats.false_discovery_control(p, method=control)
        np.testing.assert_array_equal(adjust(p, control), expected)
    p = np.array([0.04, 0.01, 0.03, 0.005, 0.6])
    np.testing.assert_allclose(adjust(p, "bonferroni"), [0.2, 0.05, 0.15, 0.025, 1.0])
    np.testing.assert_allclose(adjust(p, "holm"), [0.09, 0.04, 0.09, 0.025, 0.6])
    assert adjust(np.array([0.9, 0.8]), "holm").max() == 1.0


def naive_step_down(rows, tie=0.0):
    z = np.array(
        [
            (x - others.mean(axis=0)) / others.std(axis=0)
            for r, x in enumerate(rows)
            for others in [np.delete(rows, r, axis=0)]
        ]
    )
    found, left, least = np.empty(rows.shape[1]), list(range(rows.shape[1])), 0.0
    while left:
        best = max(left, key=lambda c: z[0, c])
        share = np.mean(z[:, left].max(axis=1) >= z[0, best] - tie / rows[:, best].std())
        least = found[best] = max(least, share)
        left.remove(best)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_step_down__is_the_loop(seed):
    rng = RNG(seed)
    rows = rng.chisquare(2, (60, 7)) * rng.uniform(0.1, 10, 7)
    rows[0, :3] += 4 * rows.std(axis=0)[:3]
    for tie in (0.0, 0.5):
        expected = naive_step_down(rows, tie)
        np.testing.assert_allclose(step_down(rows[0], rows[1:], np.full(7, tie)), expected)
    near = np.repeat(rows[:, :1], 2, axis=1)
    near[0], near[1] = 100.0, 100.0 * (1 - 1e-5)  # a tie in float32 alone
    found = [step_down(near[0], near[1:], np.zeros(2), t) for t in (np.float64, np.float32)]
    np.testing.assert_allclose(found, [[1 / 60] * 2, [2 / 60] * 2])
    flat = step_down(np.array([9.0, 1.0]), np.ones((19, 2)), np.zeros(2))
    np.testing.assert_allclose(flat, [0.05, 1.0])


@pytest.mark.parametrize("rows", [1, 2, 37])
def test_draw_permutations__permutes_the_rows_by_seed_and_group(rows):
    orders = draw_permutations(0, 64, rows, 6, 4)
    assert orders.shape == (6, 3, rows)
    np.testing.assert_array_equal(np.sort(orders), np.broadcast_to(np.arange(rows), orders.shape))
    np.testing.assert_array_equal(draw_permutations(0, 64, rows, 2, 4), orders[:2])
    if rows > 2:
        assert len(np.unique(orders.reshape(18, rows), axis=0)) == 18
        keys = [(0, 64), (1, 64), (0, 65)]
        assert len({draw_permutations(*key, rows, 6, 4).tobytes() for key in keys}) == 3


NAMES = {
    "Shifts": "shifts",
    "Chain": "chain",
    "Permutation": "permutation",
    "Gamma": "gamma",
    "Spectral": "spectral",
    "Normal": "normal",
    "ChiSquare": "chi-square",
    "Martingale": "martingale",
}


@pytest.mark.parametrize("cls", NAMES)
def test_null__is_a_frozen_value_with_a_name(cls):
    null = getattr(nulls, cls)()
    assert null.name == NAMES[cls]
    assert (null, hash(null)) == (type(null)(), hash(type(null)()))
    with pytest.raises(AttributeError):
        null.name = "other"


@pytest.mark.parametrize(
    ("cls", "options", "match"),
    [
        ("Shifts", {"n_resamples": 1}, "n_resamples must be an integer >= 2, got 1"),
        ("Chain", {"n_resamples": 1}, "n_resamples must be an integer >= 2, got 1"),
        ("Chain", {"combined_by": "tippett"}, "combined_by must be one of 'fisher', 'sidak'"),
        ("Permutation", {"n_resamples": 0}, "n_resamples must be an integer >= 1, got 0"),
        ("Permutation", {"n_resamples": 2.0}, "n_resamples must be an integer >= 1, got 2.0"),
        ("Permutation", {"group_rows": 1}, "group_rows must be an integer >= 2, got 1"),
        ("Permutation", {"within": "rows"}, "within must be one of 'auto', 'all', 'groups', got"),
        ("Spectral", {"method": "davies"}, "method must be one of 'inversion', 'simulation'"),
        ("Spectral", {"n_resamples": 0}, "n_resamples must be an integer >= 1, got 0"),
        (
            "Normal",
            {"variance": "bootstrap"},
            "variance must be one of 'direct', 'permutation', 'e",
        ),
        ("TimeOrder", {"lag": 5, "period": 10}, "at least the period, got 5 and 10: leave the lag"),
        ("TimeOrder", {"lag": 0}, "lag must be an integer >= 1, got 0"),
        ("TimeOrder", {"period": 0}, "period must be an integer >= 1, got 0"),
    ],
)
def test_null__checks_its_options(cls, options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        getattr(nulls, cls)(**options)


def test_null__takes_the_least_of_each_number():
    assert Shifts(2).n_resamples == nulls.Chain(2).n_resamples == 2
    assert Permutation(1, group_rows=2).n_resamples == Spectral(n_resamples=1).n_resamples == 1
    assert (TimeOrder(1, 1).lag, TimeOrder(5, 5).lag) == (1, 5)


def test_null__that_is_made_of_replicates_permutes_and_needs_one():
    class Mine(nulls.FromReplicates):
        name = "mine"

        def distribution(self, values):
            return Replicates(values)

    assert Mine(7).replicates == Permutation(7)
    assert Mine(1).n_resamples == 1
    with pytest.raises(InvalidArgumentError, match="n_resamples must be an integer >= 1, got 0"):
        Mine(0)


def test_time_order__lags_a_quarter_of_the_root_or_the_period():
    assert [TimeOrder().least_lag(n) for n in (10_000, 4, 1600)] == [25, 1, 10]
    assert [TimeOrder(period=24).least_lag(n) for n in (100, 40_000)] == [24, 50]
    assert TimeOrder(lag=7).least_lag(10_000) == 7


SPECTRA = {
    "one": np.ones(1),
    "equal": np.full(40, 0.3),
    "geometric": 0.9 ** np.arange(300.0),
    "polynomial": np.arange(1.0, 1001.0) ** -1.5,
    "one large": np.r_[50.0, np.ones(500)],
}


@pytest.mark.parametrize("df", [1, 2, 10, 3000])
@pytest.mark.parametrize("log10", [-0.001, -0.3, -2, -12, -50, -290])
def test_mixture__of_equal_weights_is_that_of_chi_square(df, log10):
    x = stats.chi2.isf(10.0**log10, df)
    law = ChiSquareMixture(np.full(df, 0.7))
    assert law.sf(0.7 * x) == pytest.approx(stats.chi2.sf(x, df), rel=1e-8)


@pytest.mark.parametrize("means", [[6.0, 2.0], [10.0, 4.0, 2.0], [200.0, 2.0, 0.2], [2.0, 1.8]])
@pytest.mark.parametrize("factor", [0.5, 1.0, 5.0, 60.0, 230.0, 650.0])
def test_mixture__of_pairs_is_that_of_sums_of_exponentials(means, factor):
    """Two squared normals of one weight are an exponential."""
    law = ChiSquareMixture(np.repeat(means, 2) / 2)
    x = factor * max(means)
    expected = math.fsum(
        math.prod(a / (a - b) for b in means if b != a) * math.exp(-x / a) for a in means
    )
    assert law.sf(x) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("x", [30.0, 100.0, 160.0, 700.0, 1800.0])
@pytest.mark.parametrize("large", [3.0, 50.0])
def test_mixture__of_one_large_and_many_small_weights_is_their_convolution(large, x):
    many, end = stats.chi2(100), math.sqrt(x / large)
    scale = max(many.logsf(x), stats.norm.logsf(end))

    def density(z):
        return 2.0 * np.exp(stats.norm.logpdf(z) + many.logsf(x - large * z**2) - scale)

    parts = [(0.0, 0.9 * end), (0.9 * end, end), (end, end + 20.0)]
    total = sum(quad(density, *part, limit=500, epsrel=1e-11, epsabs=0.0)[0] for part in parts)
    law = ChiSquareMixture(np.r_[large, np.ones(100)])
    assert math.log(law.sf(x)) == pytest.approx(math.log(total) + scale, abs=1e-7)


@pytest.mark.parametrize("name", SPECTRA)
def test_mixture__decreases_from_one(name):
    law = ChiSquareMixture(SPECTRA[name])
    mean, sd = law.weights.sum(), math.sqrt(2 * (law.weights**2).sum())
    grid = np.r_[mean * np.array([1e-6, 1e-3, 0.1]), mean + sd * np.linspace(0.0, 60.0, 60)]
    tails = np.array([law.sf(x) for x in np.sort(grid)])
    assert (np.diff(tails) < 1e-15).all()
    assert (np.diff(tails[3:]) < 0).all()
    assert 0 < tails[-1] < 1e-10
    assert tails[0] <= 1.0


def test_mixture__does_not_depend_on_units_order_or_weights_of_zero():
    weights = SPECTRA["geometric"]
    expected = ChiSquareMixture(weights).sf(60.0)
    for unit in (1e-30, 1e30):
        law = ChiSquareMixture(np.r_[weights[::-1] * unit, np.zeros(50)])
        assert law.sf(60.0 * unit) == pytest.approx(expected, rel=1e-9)
    moved = ChiSquareMixture(weights, 5.0)
    assert moved.sf(65.0) == pytest.approx(expected, rel=1e-12)
    assert moved.sf(5.0) == moved.sf(-9.0) == 1.0


def test_mixture__without_weights_is_no_evidence_and_has_ends():
    for nothing in (np.zeros(3), np.zeros(0)):
        law = ChiSquareMixture(nothing, shift=1.0)
        assert law.sf(7.0) == 1.0
        np.testing.assert_array_equal(law.draws(RNG(0), 2), [1.0, 1.0])
    for weights in ([1.0], [1.0, 0.5], [2.0] * 60):
        values = [ChiSquareMixture(np.array(weights)).sf(x) for x in (1e-300, 1e-60, 1e-30)]
        np.testing.assert_allclose(values, 1.0, rtol=1e-14)
    assert ChiSquareMixture(np.ones(5)).sf(1e6) == 0.0


def test_mixture__draws_are_the_same_with_a_few_light_weights_more():
    weights = np.arange(3000.0, 0.0, -1.0)  # more than are drawn at once
    drawn = ChiSquareMixture(weights).draws(RNG(0), 800)
    np.testing.assert_allclose(drawn, weights @ RNG(0).standard_normal((3000, 800)) ** 2)
    more = ChiSquareMixture(np.array([1e-9, *weights, 2e-9])).draws(RNG(0), 800)
    np.testing.assert_allclose(more, drawn, rtol=1e-10)


def test_mixture__of_eigenvalues_clips_rounding_and_keeps_the_mean():
    law = ChiSquareMixture.of(np.array([-1e-9, 1.0, 2.0, 1e-13, 0.0]))
    np.testing.assert_array_equal(np.sort(law.weights), [1.0, 2.0])
    assert law.shift == pytest.approx(1e-13, abs=0.0)
    half = np.array([[2.0, 1.0], [1.0, 2.0]])
    np.testing.assert_allclose(np.sort(ChiSquareMixture.of_covariance(half).weights), [1.0, 3.0])
    singular = ChiSquareMixture.of_covariance(np.outer(*[np.arange(1.0, 4.0)] * 2))
    np.testing.assert_allclose(singular.weights.sum() + singular.shift, 14.0)
    ChiSquareMixture.of(np.array([1.0, 1.0, -1.9e-6]))
    for bad in ([1.0, -1e-3], [1.0, 1.0, -2.1e-6]):
        with pytest.raises(
            InvalidArgumentError, match="must be at least 0 but for rounding, got -"
        ):
            ChiSquareMixture.of(np.array(bad))
    with pytest.raises(InvalidArgumentError, match=r"weights must be at least 0, got -0\.5"):
        ChiSquareMixture(np.array([1.0, -0.5]))


@pytest.mark.parametrize(("rows", "columns"), [(1, 7), (60, 50)])
def test_mixture__of_few_products_has_all(rows, columns):
    left, right = RNG(0).exponential(size=rows), 0.9 ** np.arange(columns)
    law = ChiSquareMixture.of_products(left, right)
    np.testing.assert_allclose(np.sort(law.weights), np.sort(np.outer(left, right).ravel()))
    assert law.shift == pytest.approx(0.0, abs=1e-12 * law.weights.sum())
    assert ChiSquareMixture.of_products(left, np.zeros(3)).sf(1.0) == 1.0


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1e-4 * np.arange(1.0, 401.0) ** -0.6, np.arange(1.0, 301.0) ** -2.0),
        (1e4 * np.arange(1.0, 401.0) ** -1.5, np.arange(1.0, 301.0) ** -2.0),
        (np.ones(1), np.arange(1.0, 6001.0) ** -2.0),
        (np.arange(1.0, 6001.0) ** -2.0, np.ones(1)),
    ],
)
def test_mixture__of_many_products_has_the_largest_the_mean_and_the_variance(left, right):
    law = ChiSquareMixture.of_products(left, right)
    products = np.sort(np.outer(left, right).ravel())
    assert len(law.weights) in {5000 * 2**k for k in range(5)}
    assert len(law.weights) < len(products)
    np.testing.assert_allclose(np.sort(law.weights), products[-len(law.weights) :])
    assert law.weights.sum() + law.shift == pytest.approx(products.sum())
    assert (law.weights**2).sum() >= (1 - 1e-6) * (products**2).sum()


def test_mixture__with_moments_has_the_largest_weights_that_the_variance_allows():
    mixture = ChiSquareMixture(np.array([0.1, 2.0, 0.1, 1.0, 0.1]), shift=5.0)
    found = mixture.with_moments(mean=4.0, variance=10.01)
    np.testing.assert_array_equal(found.weights, [2.0, 1.0])
    assert found.shift == 1.0
    whole = mixture.with_moments(mean=4.0, variance=20.0)
    assert (len(whole.weights), whole.shift) == (5, pytest.approx(0.7))
    np.testing.assert_array_equal(mixture.with_moments(4.0, 10.0).weights, [2.0, 1.0])
    np.testing.assert_array_equal(mixture.with_moments(4.0, 0.0).weights, [2.0])
    assert ChiSquareMixture(np.array([0.1, 0.2])).with_moments(4.0, -1.0).shift == 3.8


def test_spectral__inverts_or_simulates():
    mixture = ChiSquareMixture(np.array([2.0, 1.0]))
    assert Spectral().distribution(mixture, 3) is mixture
    drawn, again, other = (
        Spectral("simulation", n_resamples=700).distribution(mixture, seed).values
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(drawn, again)
    assert not np.array_equal(drawn, other)
    assert mixture.sf(np.median(drawn)) == pytest.approx(0.5, abs=0.06)
