"""Block HSIC against loops, closed forms and its null hypothesis."""

import itertools
import math

import dask.array as da
import numpy as np
import pytest
import zarr
from scipy.stats import binom

from dhsic.engine.reduction import RowBlock
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.block import BlockHSIC, BlockPass
from dhsic.io.open import open_variables
from dhsic.kernels import Combinations, Delta, Distance, Gaussian, Linear
from dhsic.nulls import Normal, StudentT, draw_permutations, pvalue
from tests import oracles

GAMMA = 0.5
KERNELS = (Gaussian(gamma=GAMMA), Gaussian(gamma=GAMMA))
VARIANCES = ("permutation", "direct", "empirical")


def u_hsic_by_tuples(k, q):
    """The mean of its kernel over all 4-tuples of different rows (Gretton et al. 2008)."""
    terms = [
        k[i, j] * (q[i, j] + q[r, s] - 2.0 * q[i, r])
        for i, j, r, s in itertools.permutations(range(len(k)), 4)
    ]
    return float(np.mean(terms))


def u_hsic(k, q):
    """Zhang et al. (2018), equation 6."""
    n = len(k)
    k, q = k - np.diag(np.diag(k)), q - np.diag(np.diag(q))
    ones = np.ones(n)
    total = (ones @ k @ ones) * (ones @ q @ ones) / ((n - 1) * (n - 2))
    return float((np.trace(k @ q) + total - 2.0 / (n - 2) * (ones @ k @ q @ ones)) / (n * (n - 3)))


def grams(x, y):
    return oracles.gaussian_gram(x, x, GAMMA), oracles.gaussian_gram(y, y, GAMMA)


def session(*data, seed=3, precision="float64", threads=2):
    return Session(open_variables(data, None), Runtime.here(threads, 2**31), seed, precision)


def run(data, variance="permutation", estimator=None, kernels=KERNELS, **options):
    chosen = estimator or BlockHSIC()
    return chosen.test(session(*data, **options), kernels, Normal(variance))


def sums_of(x, y, b, seed=None):
    reduction = BlockPass(KERNELS, (x.shape[1], y.shape[1]), b, seed, np.dtype(np.float64))
    return reduction.chunk(RowBlock(0, (x, y)))


@pytest.fixture
def data(rng):
    x = rng.standard_normal((83, 2))
    return x, x[:, :1] + rng.standard_normal((83, 1))


def blocks_of(data, b):
    return [grams(*(x[i : i + b] for x in data)) for i in range(0, len(data[0]) - b + 1, b)]


def test_u_hsic__is_the_mean_over_4_tuples(rng):
    x, y = rng.standard_normal((2, 7, 1))
    k, q = grams(x, y)
    assert sums_of(x, y, 7).mean == pytest.approx(u_hsic_by_tuples(k, q), rel=1e-12)
    assert u_hsic(k, q) == pytest.approx(u_hsic_by_tuples(k, q), rel=1e-12)


@pytest.mark.parametrize("b", [4, 5, 20, 83])
def test_one_block__equals_the_closed_form(b, data):
    x, y = (values[:b] for values in data)
    k, q = grams(x, y)
    sums = sums_of(x, y, b)
    assert sums.mean == pytest.approx(u_hsic(k, q), rel=1e-11)
    np.testing.assert_allclose(sums.norms, [u_hsic(k, k), u_hsic(q, q)], rtol=1e-11)


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_statistic__equals_its_definition(variance, precision, data):
    outcome = run(data, variance, BlockHSIC(block_rows=9), precision=precision)
    blocks = blocks_of(data, 9)
    m, b = len(blocks), 9
    values = [u_hsic(k, q) for k, q in blocks]
    orders = [draw_permutations(3, i * b, b, 1, 2)[0, 0] for i in range(m)]
    permuted = [u_hsic(k, q[np.ix_(o, o)]) for (k, q), o in zip(blocks, orders, strict=True)]
    norms = [np.mean([u_hsic(pair[v], pair[v]) for pair in blocks]) for v in (0, 1)]
    expected, df = {
        "permutation": (np.mean(np.square(permuted)), m),
        "direct": (2.0 * norms[0] * norms[1] / (b * (b - 3)), math.inf),
        "empirical": (np.var(values, ddof=1), m - 1),
    }[variance]
    rel = 1e-10 if precision == "float64" else 1e-4
    assert outcome.estimate.value == pytest.approx(np.mean(values), rel=rel)
    assert outcome.statistic == pytest.approx(np.mean(values) / math.sqrt(expected / m), rel=rel)
    assert outcome.distribution == StudentT(df)
    assert outcome.detail == "9 blocks of 9 rows, 2 rows left out"


def test_direct_variance__is_that_over_all_permutations_of_a_block(rng):
    x, y = rng.standard_normal((2, 6, 1))
    k, q = grams(x, y)
    orders = [list(order) for order in itertools.permutations(range(6))]
    values = [u_hsic(k, q[np.ix_(order, order)]) for order in orders]
    variance, _ = sums_of(x, y, 6).null_variance(Normal("direct"), 6)
    assert np.mean(values) == pytest.approx(0.0, abs=1e-14)
    assert np.var(values) == pytest.approx(variance, rel=1e-10)


def test_variances__estimate_that_of_independent_blocks(rng):
    x, y = rng.standard_normal((2, 8 * 20_000, 1))
    sums = sums_of(x, y, 8, seed=0)
    found = {variance: sums.null_variance(Normal(variance), 8)[0] for variance in VARIANCES}
    assert found["direct"] == pytest.approx(found["empirical"], rel=0.05)
    assert found["permutation"] == pytest.approx(found["direct"], rel=0.05)


def test_estimate__is_unbiased(rng):
    x = rng.standard_normal((6 * 20_000, 1))
    y = 0.5 * x + rng.standard_normal(x.shape)
    sums = sums_of(x, y, 6)
    # With N(0, S) the pairs' differences are N(0, 2 S), and E exp(-g |d|^2) = |I + 2 g C|^(-1/2).
    s = np.array([[1.0, 0.5], [0.5, 1.25]])
    joint = np.linalg.det(np.eye(2) + 4.0 * GAMMA * s) ** -0.5
    marginal = np.prod(1.0 + 4.0 * GAMMA * np.diag(s)) ** -0.5
    third = np.array([[2.0, 0.5], [0.5, 2.5]])  # of (x - x', y - y''), which share the first row
    mixed = np.linalg.det(np.eye(2) + 2.0 * GAMMA * third) ** -0.5
    error = math.sqrt(sums.deviations) / sums.blocks
    assert abs(sums.mean - (joint + marginal - 2.0 * mixed)) < 4.0 * error
    assert 4.0 * error < 0.15 * sums.mean


@pytest.mark.parametrize(
    ("estimator", "n", "blocks", "rows"),
    [
        (BlockHSIC(), 400, 20, 20),
        (BlockHSIC(exponent=0.4), 400, 36, 11),
        (BlockHSIC(block_rows=50), 400, 8, 50),
        (BlockHSIC(block_rows=150), 400, 2, 200),
        (BlockHSIC(), 9, 2, 4),
    ],
)
def test_blocks__have_the_rows_asked_for_or_a_few_more(estimator, n, blocks, rows, rng):
    outcome = run(list(rng.standard_normal((2, n))), estimator=estimator)
    left = n - blocks * rows
    assert outcome.detail == f"{blocks} blocks of {rows} rows, {left} rows left out"


@pytest.mark.parametrize("threads", [1, 2])
def test_result__is_the_same_for_any_chunks_and_threads(threads, rng, tmp_path):
    x = rng.standard_normal((20_003, 3))
    y = x[:, 0] ** 2 + 3.0 * rng.standard_normal(20_003)
    expected = run((x, y), threads=2)
    for rows in (777, 5000):
        paths = []
        for name, values in (("x", x), ("y", y)):
            stored = zarr.create_array(
                tmp_path / f"{name}{rows}{threads}.zarr",
                data=values,
                chunks=(rows, *values.shape[1:]),
            )
            paths.append(stored)
        lazy = [da.from_array(values, chunks=(rows, *values.shape[1:])) for values in (x, y)]
        for other in (paths, lazy):
            outcome = run(other, threads=threads)
            assert outcome.statistic == pytest.approx(expected.statistic, rel=1e-11)
            assert outcome.distribution == expected.distribution


def test_seed__moves_the_permutations_alone(data):
    fixed = {v: run(data, v, seed=3).statistic == run(data, v, seed=4).statistic for v in VARIANCES}
    assert fixed == {"permutation": False, "direct": True, "empirical": True}


def test_kernels__are_fitted_to_their_own_variable(rng):
    x, y = rng.standard_normal((2, 500))
    outcome = run((100.0 * x, y), kernels=(Gaussian(), Gaussian()))
    first, second = (kernel.gamma for kernel in outcome.estimate.kernels)
    assert first == pytest.approx(1e-4 * second, rel=0.5)
    plain = run((x, y), kernels=(Gaussian(), Gaussian()))
    assert outcome.statistic == pytest.approx(plain.statistic, rel=1e-9)


def test_estimate__is_that_of_the_test(data):
    estimator = BlockHSIC(block_rows=9)
    assert estimator.estimate(session(*data), KERNELS).value == pytest.approx(
        run(data, estimator=estimator).estimate.value, rel=1e-14
    )


def test_kernel__is_any_and_gaussian_by_default():
    assert BlockHSIC().kernel(None) == Gaussian()
    assert BlockHSIC().kernel(Distance()) == Distance()


def test_plan__has_one_pass_of_whole_blocks(rng):
    x, y = rng.standard_normal((2, 50_000))
    plan = BlockHSIC(block_rows=300).plan(
        session(x, y), Combinations.single((Gaussian(), Gaussian())), Normal()
    )
    (only,) = plan.passes
    assert only.name == "block HSIC"
    assert all(bound % 301 == 0 for bound in only.bounds[:-1])
    assert 3 * 301**2 * 8 < only.worker_bytes < 2**25
    assert BlockHSIC().choose_null(session(x, y), 250) == (
        Normal(),
        "the mean over 223 blocks of rows is nearly normal",
    )


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"block_rows": 3}, "block_rows must be an integer >= 4, got 3"),
        ({"block_rows": 2.5}, "block_rows must be an integer >= 4, got 2.5"),
        ({"exponent": 0.0}, "exponent must be greater than 0 and less than 1, got 0.0"),
        ({"exponent": 1.0}, "exponent must be greater than 0 and less than 1, got 1.0: take 0.5"),
        ({"exponent": "0.5"}, "exponent must be greater than 0 and less than 1, got '0.5'"),
        ({"exponent": True}, "exponent must be greater than 0 and less than 1, got True"),
    ],
)
def test_options__are_checked(options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        BlockHSIC(**options)


@pytest.mark.parametrize(
    ("n", "estimator", "rows"), [(99, BlockHSIC(block_rows=50), 50), (7, BlockHSIC(), 4)]
)
def test_blocks__must_be_two(n, estimator, rows, rng):
    match = f"needs 2 blocks of 4 rows or more, got {n} rows in blocks of {rows}: take"
    with pytest.raises(InvalidArgumentError, match=match):
        run(list(rng.standard_normal((2, n))), estimator=estimator)
    with pytest.raises(InvalidArgumentError, match=match):
        estimator.plan(session(*rng.standard_normal((2, n))), Combinations.single(KERNELS), None)


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize("variance", VARIANCES)
def test_blocks__that_do_not_vary_are_no_evidence(variance, rng):
    x, y = rng.standard_normal((2, 100))
    outcome = run((x, y), variance, kernels=(Delta(), KERNELS[1]))
    assert pvalue(outcome.statistic, outcome.distribution, rounding=outcome.rounding) == 1.0
    assert "none can show dependence: take larger block_rows" in outcome.detail


@pytest.mark.parametrize("variance", VARIANCES)
def test_rounding__is_no_evidence(variance, rng):
    x = 0.1 + np.repeat(rng.standard_normal(50), 8)
    y = rng.standard_normal(400)
    outcome = run((x, y), variance, BlockHSIC(block_rows=8), (Linear(), KERNELS[1]))
    assert pvalue(outcome.statistic, outcome.distribution, rounding=outcome.rounding) > 0.9
    x[:4] += 1.0
    outcome = run((x, y), variance, BlockHSIC(block_rows=8), (Linear(), KERNELS[1]))
    assert outcome.rounding < 1e-6


def test_float32__keeps_its_digits_for_wide_kernels(rng):
    x = rng.standard_normal((2000, 1))
    y = x + 2.0 * rng.standard_normal((2000, 1))
    wide = (Gaussian(gamma=1e-3), Gaussian(gamma=1e-3))
    for variance in VARIANCES:
        double, single = (
            run((x, y), variance, kernels=wide, precision=p).statistic
            for p in ("float64", "float32")
        )
        assert single == pytest.approx(double, rel=0.01)


def rejections(draw, variance, runs):
    pvalues = []
    for seed in range(runs):
        outcome = run(draw(np.random.default_rng([5, seed])), variance, seed=seed, threads=1)
        pvalues.append(pvalue(outcome.statistic, outcome.distribution, rounding=outcome.rounding))
    return int(np.sum(np.array(pvalues) <= 0.05))


@pytest.mark.parametrize("variance", VARIANCES)
def test_level__is_kept(variance):
    count = rejections(lambda rng: rng.standard_normal((2, 400)), variance, 300)
    least = 0.02 if variance == "empirical" else 0.05  # block values are skewed
    assert binom.ppf(0.005, 300, least) <= count <= binom.ppf(0.9995, 300, 0.055)


@pytest.mark.parametrize("variance", VARIANCES)
def test_power__is_far_above_the_level(variance):
    def draw(rng):
        x = rng.standard_normal(400)
        return x, x + rng.standard_normal(400)

    assert rejections(draw, variance, 30) > binom.ppf(0.9999, 30, 0.05)
