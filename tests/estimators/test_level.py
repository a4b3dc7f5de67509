"""Rejection rates: no more than the level on independent data, more on dependent data."""

from functools import cache
from itertools import chain, islice, product

import numpy as np
import pytest
from scipy.stats import binom

import dhsic
from benchmarks.shared.cases import ALTERNATIVES, NULL_CASES, linear, one_kernel
from dhsic.estimators import TABLE
from tests.estimators.levels import Check

# Of 19 and of 39 permutations, too, the levels 5 and 10 % are exact.
NULLS = {
    "multiplier": {"null": dhsic.Multiplier(99)},
    "permutation": {"null": dhsic.Permutation(39, within="all")},
    "permutation in groups": {"null": dhsic.Permutation(39, within="groups", group_rows=40)},
    "float32": {"null": dhsic.Multiplier(99), "precision": "float32"},
    "v-hsic": {"null": dhsic.Permutation(19), "estimator": "v-hsic"},
}


def rejections(draw, options, alpha):
    """Whether each run rejects, one run after the other."""
    seed = 0
    while True:
        data = draw(np.random.default_rng([7, seed]))
        result = dhsic.independence_test(*data, rng=seed, threads=1, **options)
        yield result.pvalue <= alpha + 1e-9
        seed += 1


LEVEL = Check(40, range(1, 8), 250, range(3, 42))
LONG_LEVEL = Check(80, range(3, 10), 250, range(3, 42))
TOGETHER = Check(0, range(0), 8 * LEVEL.first, range(5, 52))  # the first runs of all data of a null
LEVEL_OF_PAIRS = Check(25, range(4), 60, range(15))


def found(draw, options, alpha, runs):
    """Whether more runs reject than would by chance; no run more than that takes."""
    needed = int(binom.ppf(0.9999, runs, alpha)) + 1
    rejected = islice(rejections(draw, options, alpha), runs)
    return sum(islice(filter(None, rejected), needed)) == needed


def runs_of(null, case, m):
    options = {**NULLS[null], "kernels": "gaussian"}
    return rejections(lambda rng: NULL_CASES[case](100, m, rng), options, 0.1)


@cache
def begun(null, case, m):
    """The first runs, and those to come."""
    runs = runs_of(null, case, m)
    return tuple(islice(runs, LEVEL.first)), runs


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("case", NULL_CASES)
@pytest.mark.parametrize("null", NULLS)
def test_level__is_kept(null, case, m):
    assert LEVEL.passes(chain(*begun(null, case, m)))


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize("null", NULLS)
def test_level__is_kept_on_all_data_together(null):
    first = [begun(null, case, m)[0] for case, m in product(NULL_CASES, (2, 4))]
    assert sum(map(len, first)) == TOGETHER.runs
    assert TOGETHER.passes(chain(*first))


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("case", NULL_CASES)
@pytest.mark.parametrize("null", NULLS)
def test_level__is_kept_over_more_runs(null, case, m):
    assert LONG_LEVEL.passes(runs_of(null, case, m))


@pytest.mark.parametrize(
    ("check", "rates"), [(LONG_LEVEL, (0.15, 0.2)), (LEVEL_OF_PAIRS, (0.2, 0.3))]
)
def test_level_check__sees_as_much_as_all_runs_would(check, rates):
    n = check.runs
    for rate in rates:
        assert check.failure(rate)[1] > binom.sf(binom.ppf(0.9995, n, 0.1), n, rate)
    if check is LONG_LEVEL:
        too_few = binom.cdf(binom.ppf(0.0005, n, 0.05) - 1, n, 0.01)
        assert check.failure(0.01)[0] == pytest.approx(too_few, rel=1e-12)
        assert check.failure(0.2)[1] > 0.89
        assert check.failure(0.05)[0] < 0.0005
    assert check.failure(0.1)[1] < 0.001


@pytest.mark.parametrize(
    ("level", "runs"),
    [*((0.05, n) for n in (25, 60, 200)), *((0.1, n) for n in (40, 80, 100, 150, 200, 250))],
)
def test_level_check__of_a_third_of_the_runs_sees_most_of_what_all_would(level, runs):
    check = Check.of(runs, level, least=level)
    assert sum(check.failure(level)) < 0.001
    for rate in (0.2, 0.3, 0.45):
        whole = binom.sf(check.allowed.stop - 1, runs, rate)
        assert check.failure(rate)[1] > whole - 0.15
    assert check.failure(0.45)[1] > 0.93


@pytest.mark.parametrize(("check", "few", "many"), [(LEVEL, 0.005, 0.3), (TOGETHER, 0.01, 0.2)])
def test_level_check__sees_rates_that_are_off(check, few, many):
    assert check.failure(few)[0] > 0.7
    assert check.failure(many)[1] > 0.94
    assert check.failure(0.1)[1] < 0.001
    assert check.failure(0.05)[0] < 0.0005


def test_level_check__counts_all_runs_where_the_first_are_unclear():
    check = Check(4, range(1, 2), 10, range(1, 4))
    for runs, passes in [
        ("0100", True),
        ("0000100000", True),
        ("0000000000", False),
        ("0110010000", True),
        ("0110010001", False),
    ]:
        rejected = iter([run == "1" for run in runs])
        assert check.passes(rejected) is passes
        assert list(rejected) == []


@pytest.mark.parametrize("case", ALTERNATIVES)
@pytest.mark.parametrize("null", NULLS)
def test_power__is_far_above_the_level(null, case):
    options = {**NULLS[null], "kernels": "gaussian"}
    assert found(lambda rng: ALTERNATIVES[case](300, rng), options, 0.05, 30)


PAIRS = [
    pytest.param(entry.estimator(), null, id=f"{entry.estimator.name}-{null.name}")
    for entry in TABLE
    for null in (
        dhsic.Permutation(19),
        dhsic.Sequential(3, 19),
        dhsic.Multiplier(19),
        dhsic.Gamma(),
        dhsic.Spectral(),
        dhsic.Normal(),
        dhsic.ChiSquare(),
    )
    if type(null) in entry.nulls
]


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize(("estimator", "null"), PAIRS)
def test_level__is_kept_by_every_supported_pair(estimator, null):
    options = {"estimator": estimator, "null": null, "kernels": one_kernel(estimator)}
    rejected = rejections(lambda rng: NULL_CASES["ties"](60, 2, rng), options, 0.1)
    assert LEVEL_OF_PAIRS.passes(rejected)


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize(("estimator", "null"), PAIRS)
def test_power__is_there_in_every_supported_pair(estimator, null):
    options = {"estimator": estimator, "null": null, "kernels": one_kernel(estimator)}
    assert found(lambda rng: linear(200, rng, 0.6), options, 0.05, 12)
