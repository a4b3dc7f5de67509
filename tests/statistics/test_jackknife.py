"""Intervals are those of blocks that are left out by hand, and hold the truth as often as they say.

Truths are of bivariate normal variables: HSIC and CKA by Gaussian kernels are integrals of normal
densities, and distance correlation is of Szekely, Rizzo and Bakirov (2007), theorem 7.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import dhsic
from dhsic.engine.passes import block_numbers
from dhsic.estimators.choose import ESTIMATORS
from dhsic.kernels import Distance, Gaussian
from dhsic.statistics.jackknife import Assessed
from dhsic.statistics.orbit import Groups
from tests.oracles import centred_gram, cka, u_centred
from tests.places import Heard

KERNELS = Gaussian(gamma=0.5), Gaussian(gamma=0.3)
DISTANCES = Distance(1.0), Distance(1.0)


def normal(rho, n, seed):
    x, noise = np.random.default_rng(seed).standard_normal((2, n))
    return x, rho * x + math.sqrt(1.0 - rho**2) * noise


def busing(whole, deleted, kept):
    """Busing et al. (1999): the measure less its bias, equation 3, and its variance, equation 4."""
    g, h = len(deleted), [1.0 / (1.0 - share) for share in kept]
    corrected = g * whole - sum(share * one for share, one in zip(kept, deleted, strict=True))
    pseudo = [a * whole - (a - 1.0) * one for a, one in zip(h, deleted, strict=True)]
    terms = [(p - corrected) ** 2 / (a - 1.0) for p, a in zip(pseudo, h, strict=True)]
    return corrected, sum(terms) / g


def halves(grams, unbiased):
    """Squared HSIC of both kernels, and of either with itself: inner products of centred ones."""
    n = len(grams[0])
    a, b = (u_centred(k) if unbiased else centred_gram(k) for k in grams)
    scale = n * (n - 3) if unbiased else n**2
    return [float((one * other).sum()) / scale for one, other in ((a, b), (a, a), (b, b))]


def by_hand(grams, seed, *, divided, unbiased, own=True, size=None):
    """Centre, error, excess and pairs, from Gram matrices without the rows of each block."""
    n = len(grams[0])
    numbers = block_numbers(seed, n, 50)
    if size is not None:  # of features every fiftieth row in the order of groups, then those left
        groups = Groups.of(n, size, seed)
        moved = groups.count * groups.size
        numbers[groups.members(0, groups.count)] = [*(np.arange(moved) % 50), *[49] * (n - moved)]
    rest = [np.flatnonzero(numbers != b) for b in range(50)]
    kept = [len(rows) / n for rows in rest]
    every = [np.arange(n), *rest]
    parts = np.array([halves([k[np.ix_(at, at)] for k in grams], unbiased) for at in every])
    excess = halves(grams, unbiased=False)[0] - halves(grams, unbiased=True)[0]
    if not unbiased:
        bias = parts[0] - busing(parts[0], parts[1:], kept)[0]
        parts -= bias / np.array([1.0, *kept])[:, None]
        excess = bias[0]
    roots = np.sqrt(parts[:, 1] * parts[:, 2])
    measures, pairs = parts[:, 0], 2.0 * roots[0] ** 2 / n**2
    if divided:
        measures, pairs, excess = measures / roots, pairs / roots[0] ** 2, excess / roots[0]
    _, variance = busing(measures[0], measures[1:], kept)
    if not own:  # of the sample, here all rows
        pairs = 2.0 * math.prod(halves(grams, unbiased=True)[1:]) / n**2
    error = math.sqrt(max(variance - pairs, variance / 2.0))
    return measures[0], error, max(excess, math.sqrt(pairs / 2.0)), pairs


def deviate(measure, centre, error, excess, pairs):
    """Jensen and Solomon (1972) for c times a noncentral chi-square variable."""
    signal, usual = max(centre, 0.0), min(pairs / excess, math.sqrt(pairs / 2.0))
    weight = 0.2 * (usual + max(measure - signal, 0.0))
    k = (max(error**2 - pairs, 0.0) / 4.0 + weight * usual) / (signal + weight)
    c = (pairs + 4.0 * k * measure) / (2.0 * excess + 4.0 * measure)
    a, b, d = (c**s * (excess / c + s * measure / c) for s in (1, 2, 3))
    h = 1.0 - 2.0 * a * d / (3.0 * b**2)
    mean, sd = 1.0 + b * h * (h - 1.0) / a**2, math.sqrt(2.0 * b) * h / a
    return ((max(centre + excess, 0.0) / a) ** h - mean) / sd


def ends(centre, error, excess, pairs, level):
    """Of the interval: measures that lie as many standard errors away from the centre."""
    t, most = stats.t.ppf(0.5 + level / 2.0, 49), max(centre, 0.0) + 20.0 * error
    found = []
    for side in (t, -t):
        low, high = 0.0, most
        for _ in range(100):
            middle = (low + high) / 2.0
            above = deviate(middle, centre, error, excess, pairs) > side
            low, high = (middle, high) if above else (low, middle)
        found.append(low)
    return found


def check(found, expected, factor=1.0, rel=1e-9):
    interval, (centre, error, excess, pairs) = found.interval, expected
    centre, error, excess, pairs = (
        factor * centre,
        factor * error,
        factor * excess,
        factor**2 * pairs,
    )
    assert (interval.centre, interval.error) == pytest.approx((centre, error), rel=rel)
    low, high = ends(centre, error, excess, pairs, interval.level)
    assert [interval.low, interval.high] == pytest.approx([low, high], rel=rel, abs=1e-15)


@pytest.mark.parametrize("rho", [0.0, 0.6])
@pytest.mark.parametrize(
    ("estimator", "kernels", "divided", "factor"),
    [
        ("v-hsic", KERNELS, False, 1.0),
        ("u-hsic", KERNELS, False, 1.0),
        ("u-cka", KERNELS, True, 1.0),
        ("dcov", DISTANCES, False, 4.0),
        ("dcor", DISTANCES, True, 1.0),
    ],
)
def test_interval__of_all_pairs_is_that_of_blocks_left_out_by_hand(
    estimator, kernels, divided, factor, rho
):
    x, y = normal(rho, 211, 1)
    options = {"kernels": kernels} if kernels is KERNELS else {}
    found = dhsic.hsic(x, y, estimator=estimator, confidence=0.9, rng=7, **options)
    grams = [k(v[:, None]) for k, v in zip(kernels, (x, y), strict=True)]
    check(found, by_hand(grams, found.seed, divided=divided, unbiased=True), factor)


@pytest.mark.parametrize("excess", [3.0, 30.0])
def test_law__at_independence_is_chi_square(excess):
    for value in stats.chi2.ppf([0.1, 0.5, 0.9, 0.99], excess) - excess:
        found = Assessed(value, 1.0, 10**6, excess, pairs=2.0 * excess).effect(1e-9, 0.95, "CKA")
        assert found.pvalue == pytest.approx(stats.chi2.sf(value + excess, excess), abs=0.01)
        assert found.pvalue + found.equivalence_pvalue == pytest.approx(1.0)


@pytest.mark.parametrize("size", [0.3, 1.0, 3.0, 30.0])
@pytest.mark.parametrize("direction", [0, 3])
def test_law__of_squared_norms_with_a_known_covariance_keeps_the_level(direction, size):
    # Variances of the products of features of two normal variables fall about so.
    powers = 0.5 ** np.arange(8)
    variances = np.sort(np.outer(powers, powers).ravel())[::-1]
    excess, pairs, sets = variances.sum(), 2.0 * (variances**2).sum(), 300
    rng = np.random.default_rng(direction)
    drawn = rng.standard_normal((sets, variances.size)) * np.sqrt(variances)
    drawn[:, direction] += math.sqrt(size)
    values, variance = (drawn**2).sum(axis=1) - excess, 4.0 * drawn**2 @ variances
    errors = np.sqrt(np.maximum(variance - pairs, variance / 2.0))
    each = zip(values.tolist(), errors.tolist(), strict=True)
    laws = [Assessed(*both, 10**6, excess, pairs).effect(size, 0.95, "CKA") for both in each]
    most = stats.binom.ppf(0.999, sets, 0.05)
    assert sum(law.pvalue <= 0.05 for law in laws) <= most
    assert sum(law.equivalence_pvalue <= 0.05 for law in laws) <= most


@pytest.mark.parametrize("estimator", ["cka", "nystrom-hsic"])
def test_interval__of_features_is_that_of_all_pairs_where_all_rows_are_landmarks(estimator):
    x, y = (np.random.default_rng(i).standard_normal((211, 3)) for i in (0, 1))
    y[:, 0] += x[:, 0]
    kernels = Gaussian(gamma=0.3), Gaussian(gamma=0.2)
    chosen = ESTIMATORS[estimator](n_landmarks=211)
    found = dhsic.hsic(x, y, kernels=kernels, estimator=chosen, confidence=0.95, rng=7)
    grams, divided = [k(v) for k, v in zip(kernels, (x, y), strict=True)], estimator == "cka"
    kind = {"divided": divided, "own": divided, "size": None if divided else 211}
    expected = by_hand(grams, found.seed, unbiased=False, **kind)
    check(found, expected, rel=1e-5)
    if divided:
        assert found.estimate == pytest.approx(cka(*grams), rel=1e-5)


def test_interval__of_a_test_leaves_out_every_fiftieth_row_of_the_groups_that_it_shifts():
    x, y = normal(0.6, 211, 1)
    chosen = dhsic.NystromHSIC(n_landmarks=211)
    options = {"kernels": KERNELS, "estimator": chosen, "n_resamples": 19, "confidence": 0.95}
    found = dhsic.independence_test(x, y, rng=7, **options)
    grams = [k(v[:, None]) for k, v in zip(KERNELS, (x, y), strict=True)]
    kind = {"divided": False, "own": False, "unbiased": False, "size": 19}
    check(found, by_hand(grams, found.seed, **kind), rel=1e-5)


@pytest.mark.parametrize("null", ["shifts", "permutation"])
@pytest.mark.parametrize("columns", [1, 3])
def test_confidence__takes_no_other_pass_and_changes_no_digit_of_a_test_by_features(columns, null):
    x = np.random.default_rng(0).standard_normal((1500, columns))
    y = 0.1 * x[:, 0] + np.random.default_rng(1).standard_normal(1500)
    heard, options = [Heard(), Heard()], {"estimator": "nystrom-hsic", "n_resamples": 99}
    found, alone = (
        dhsic.independence_test(x, y, null=null, rng=0, confidence=level, progress=one, **options)
        for level, one in zip((0.9, None), heard, strict=True)
    )
    assert found.interval.low <= found.interval.centre <= found.interval.high
    assert replace(found, interval=None, passes=(), seconds=0.0).to_json() == (
        replace(alone, passes=(), seconds=0.0).to_json()
    )
    names, others = ([one.name for one in each.of("PassStarted")] for each in heard)
    assert names == others


@pytest.mark.parametrize(
    "estimator", [name for name, cls in ESTIMATORS.items() if cls().has_intervals]
)
def test_interval__of_every_estimator_holds_its_centre(estimator):
    x, y = normal(0.5, 150, 2)
    estimator = ESTIMATORS[estimator]()
    without = dhsic.hsic(x, y, estimator=estimator, rng=0)
    found = dhsic.hsic(x, y, estimator=estimator, confidence=0.95, rng=0)
    interval = found.interval
    assert found.estimate == pytest.approx(without.estimate)
    assert np.isfinite([interval.low, interval.centre, interval.high, interval.error]).all()
    assert 0.0 <= interval.low <= max(interval.centre, 0.0) <= interval.high
    assert interval.error > 0.0
    wider = dhsic.hsic(x, y, estimator=estimator, confidence=0.99, rng=0).interval
    assert wider.low <= interval.low
    assert interval.high <= wider.high


def test_interval__of_three_variables_and_of_a_chain():
    x, y = normal(0.6, 200, 0)
    z = x * y
    for found in (
        dhsic.hsic(x, y, z, estimator="v-hsic", confidence=0.95, rng=0),
        dhsic.independence_test(x, y, z, confidence=0.95, rng=0),
    ):
        assert found.interval.low <= found.interval.centre <= found.interval.high


@pytest.mark.parametrize("estimator", ["auto", "v-hsic", "dcor", "cka", dhsic.CKA()])
def test_interval__of_constants_is_a_point_at_0(estimator):
    found = dhsic.hsic(np.ones(60), np.arange(60.0), estimator=estimator, confidence=0.9, rng=0)
    ends = found.interval.low, found.interval.high, found.interval.error
    assert ends == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)


@pytest.mark.parametrize("estimator", ["auto", "nystrom-hsic"])
def test_confidence__changes_neither_the_p_value_nor_the_estimate(estimator):
    x, y = normal(0.2, 150, 4)
    options = {"kernels": "gaussian", "estimator": estimator, "rng": 0}
    found, alone = (
        dhsic.independence_test(x, y, confidence=level, **options) for level in (0.9, None)
    )
    assert alone.interval is None
    assert (found.pvalue, found.statistic, found.estimate) == (
        alone.pvalue,
        alone.statistic,
        alone.estimate,
    )
    centre = dhsic.hsic(x, y, confidence=0.9, **options).interval.centre
    assert found.interval.centre == pytest.approx(centre)


def test_interval__takes_fewer_blocks_where_memory_is_short_and_the_plan_names_their_pass():
    x = np.random.default_rng(0).standard_normal((3000, 12))
    y = x[:, 0] + np.random.default_rng(1).standard_normal(3000)
    options = {"estimator": dhsic.CKA(n_landmarks=300), "confidence": 0.9, "threads": 1}
    wide = dhsic.plan(x, y, null="gamma", **options)
    assert any(step.name.endswith(" of blocks") for step in wide.steps)
    # The states of 50 blocks take 103 MiB; what the process holds besides changes a little.
    less = wide.peak_worker_bytes - 24 * 2**20
    assert dhsic.plan(x, y, null="gamma", memory=less, **options).fits
    assert dhsic.hsic(x, y, memory=less, rng=0, **options).interval.degrees == 24
    assert dhsic.hsic(x, y, rng=0, **options).interval.degrees == 49


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"groups": np.arange(80) // 4}, "got groups beside confidence"),
        ({"order": "time"}, "got order beside confidence"),
        ({"weights": np.ones(80)}, "got weights beside confidence"),
        ({"estimator": "block-hsic"}, "'block-hsic' has none"),
        ({"confidence": 1.5}, "confidence must be greater than 0 and less than 1"),
        ({"confidence": 95}, "confidence must be greater than 0 and less than 1"),
    ],
)
def test_confidence__refuses_what_has_no_interval(asked, words):
    x, y = normal(0.5, 80, 0)
    with pytest.raises(dhsic.errors.InvalidArgumentError, match=words):
        dhsic.independence_test(x, y, **{"confidence": 0.9, "rng": 0, **asked})


def test_confidence__refuses_few_rows():
    x, y = normal(0.5, 39, 0)
    with pytest.raises(dhsic.errors.DataError, match="at least 40 rows, got 39"):
        dhsic.hsic(x, y, confidence=0.9)
    assert dhsic.hsic(*normal(0.5, 40, 0), confidence=0.9, rng=0).interval.degrees == 9


def normal_hsic(rho, *gammas):
    """E k l + E k E l - 2 E_xy (E_x' k E_y' l) of Gaussian kernels, each a normal integral."""

    def integral(scales):
        scales = np.array(scales)
        return 1.0 / math.sqrt(np.linalg.det(np.eye(2) + scales[:, None] * [[1, rho], [rho, 1]]))

    a, b = gammas
    joint = integral([4.0 * a, 4.0 * b])
    apart = 1.0 / math.sqrt((1.0 + 4.0 * a) * (1.0 + 4.0 * b))
    given = [2.0 * g / (1.0 + 2.0 * g) for g in gammas]
    cross = integral(given) / math.sqrt((1.0 + 2.0 * a) * (1.0 + 2.0 * b))
    return joint + apart - 2.0 * cross


def truth(measure, rho):
    a, b = (one.gamma for one in KERNELS)
    if measure == "dcor":
        above = rho * (math.asin(rho) - math.asin(rho / 2.0)) + math.sqrt(1.0 - rho**2)
        return (above - math.sqrt(4.0 - rho**2) + 1.0) / (1.0 + math.pi / 3.0 - math.sqrt(3.0))
    divisor = math.sqrt(normal_hsic(1.0, a, a) * normal_hsic(1.0, b, b))
    return normal_hsic(rho, a, b) / (divisor if measure == "cka" else 1.0)


def held(estimator, rho, n, sets, level):
    """How many intervals hold the truth."""
    options = {} if estimator == "dcor" else {"kernels": KERNELS}
    expected, count = truth(estimator, rho), 0
    for seed in range(sets):
        found = dhsic.hsic(
            *normal(rho, n, seed), estimator=estimator, confidence=level, rng=seed, **options
        )
        count += found.interval.low <= expected <= found.interval.high
    return count


def between(count, sets, level):
    """Whether coverage is from two points below the level to three above it, but for chance."""
    low, high = level - 0.02, min(level + 0.03, 1.0)
    return stats.binom.ppf(0.001, sets, low) <= count <= stats.binom.ppf(0.999, sets, high)


@pytest.mark.parametrize("estimator", ["cka", "dcor", "u-hsic"])
def test_truth__is_what_many_rows_tell(estimator):
    options = {} if estimator == "dcor" else {"kernels": KERNELS}
    found = dhsic.hsic(*normal(0.6, 3000, 0), estimator=estimator, **options, rng=0).estimate
    assert found == pytest.approx(truth(estimator, 0.6), rel=0.15)


@pytest.mark.parametrize(("estimator", "rho"), [("u-hsic", 0.6), ("u-hsic", 0.15), ("dcor", 0.2)])
def test_coverage__of_few_data_sets(estimator, rho):
    assert between(held(estimator, rho, 120, 50, 0.9), 50, 0.9)


@pytest.mark.nightly
@pytest.mark.parametrize("level", [0.95, 0.9])
@pytest.mark.parametrize("rho", [0.05, 0.1, 0.15, 0.3, 0.6])
@pytest.mark.parametrize("estimator", ["u-hsic", "v-hsic", "cka", "dcor", "nystrom-hsic"])
def test_coverage__of_many_data_sets(estimator, rho, level):
    assert between(held(estimator, rho, 500, 400, level), 400, level)


def clusters(x, e, rng):
    return 1.5 * np.sign(x) + e


def quadratic(x, e, rng):
    return 0.5 * (x**2 - 1.0) + e


def sign_product(x, e, rng):
    kept = np.where(rng.random(e.shape) < 0.9, 1.0, -1.0)
    return kept * np.abs(e) * np.sign(x) * np.sign(np.roll(x, 1, axis=1))


def ten_columns(kind, n, rng):
    """Two variables of ten columns, which depend in pairs."""
    x, e = rng.standard_normal((2, n, 10))
    x = x + 1.5 * rng.choice([-1.0, 1.0], x.shape) if kind is clusters else x
    return x, kind(x, e, rng)


def missed(kind, n, sets, samples):
    """Mean of estimates of CKA in standard errors from the truth, and how many intervals hold it.

    The truth is a quotient of means of unbiased estimates of samples of 1,000 rows.
    """
    kernel, rng = Gaussian(gamma=0.05), np.random.default_rng(1)
    drawn = (ten_columns(kind, 1000, rng) for _ in range(samples))
    means = np.mean([halves([kernel(v) for v in data], unbiased=True) for data in drawn], axis=0)
    expected, estimates, count = means[0] / math.sqrt(means[1] * means[2]), [], 0
    for seed in range(sets):
        data = ten_columns(kind, n, np.random.default_rng([seed, n]))
        options = {"kernels": kernel, "estimator": "cka", "rng": seed, "threads": 1}
        found = dhsic.hsic(*data, confidence=0.95, **options)
        estimates.append(found.estimate)
        count += found.interval.low <= expected <= found.interval.high
    error = np.std(estimates) * math.sqrt(1.0 / sets + n / 1000 / samples)
    return (np.mean(estimates) - expected) / error, count


def test_cka__of_ten_columns_is_that_of_the_kernels():
    # By 28 landmarks it is 18 errors below, and one interval holds it.
    apart, count = missed(clusters, 200, 40, 10)
    assert abs(apart) < 5.0
    assert between(count, 40, 0.95)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [clusters, quadratic, sign_product])
def test_cka__of_ten_columns_is_that_of_the_kernels_in_many_data_sets(kind):
    apart, count = missed(kind, 500, 400, 200)
    assert abs(apart) < 5.0
    assert between(count, 400, 0.95)
