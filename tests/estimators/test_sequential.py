"""Permutations that stop as soon as the p-value is clear."""

import numpy as np
import pytest
from scipy.stats import binom

import dhsic
from dhsic.engine.events import BlockFinished
from dhsic.errors import InvalidArgumentError, MemoryBudgetError
from dhsic.nulls import Sequential, SequentialReplicates, pvalue
from dhsic.results import decision
from tests.estimators.levels import Check

ESTIMATORS = ["v-hsic", "u-hsic", "sub-hsic", "nfsic"]


def pair(seed, n=60, signal=0.0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    return x, signal * x**2 + rng.standard_normal(n)


def drawn_and_found(*data, null, **options):
    """How many permutations were computed, and the result."""
    amounts = []

    def listen(event):
        if isinstance(event, BlockFinished) and event.unit == "resamples":
            amounts.append(event.amount)

    found = dhsic.independence_test(*data, null=null, progress=listen, threads=1, **options)
    return sum(amounts), found


def p_by_definition(statistic, values, n_exceed, n_resamples):
    """Besag and Clifford, one draw after the other."""
    count = 0
    for number, value in enumerate(values[:n_resamples], start=1):
        count += value >= statistic
        if count == n_exceed:
            return n_exceed / number
    return (1 + count) / (n_resamples + 1)


@pytest.mark.parametrize(("n_exceed", "n_resamples"), [(1, 1), (1, 9), (3, 20), (20, 20), (7, 999)])
def test_batches__add_up_and_grow(n_exceed, n_resamples):
    batches = Sequential(n_exceed, n_resamples).batches
    assert sum(batches) == n_resamples
    assert batches[0] == min(2 * n_exceed, n_resamples)
    drawn = np.cumsum(batches)
    pairs = zip(batches[1:], drawn[:-1], strict=True)
    assert all(size <= max(2 * n_exceed, before // 2) for size, before in pairs)


@pytest.mark.parametrize("n_exceed", [1, 4, 30])
def test_replicates__have_the_pvalue_of_the_definition(n_exceed, rng):
    values = rng.integers(0, 9, 50).astype(float)
    for statistic in range(10):
        found = SequentialReplicates(values, n_exceed)
        expected = p_by_definition(statistic, values, n_exceed, 50)
        assert found.sf(statistic) == expected
        used = values[: found.drawn(statistic)]
        assert SequentialReplicates(used, n_exceed).sf(statistic) == expected
        assert found.decides(statistic) == (np.sum(values >= statistic) >= n_exceed)


@pytest.mark.parametrize(("n_exceed", "n_resamples"), [(1, 19), (5, 39), (20, 99)])
@pytest.mark.parametrize("ties", [False, True])
def test_pvalue__is_valid_at_every_level(n_exceed, n_resamples, ties):
    """Of exchangeable draws: at most the level, and without ties hardly less where it can be."""
    runs, rng = 20_000, np.random.default_rng(1)
    values = rng.standard_normal((runs, n_resamples + 1))
    values = np.round(values) if ties else values
    p = np.array([SequentialReplicates(one[1:], n_exceed).sf(one[0]) for one in values])
    for level in (0.01, 0.05, 0.1, 0.25, 0.5):
        assert np.sum(p <= level) <= binom.isf(1e-6, runs, level)
    attained = 2 / (n_resamples + 1)
    if not ties and n_exceed > 1:
        assert np.sum(p <= attained + 1e-12) >= binom.ppf(1e-6, runs, attained)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("signal", [0.0, 1.0])
def test_test__is_that_of_as_many_permutations(estimator, signal):
    data = pair(3, signal=signal)
    null = Sequential(4, 60)
    found = dhsic.independence_test(*data, estimator=estimator, null=null, rng=2)
    whole = dhsic.independence_test(
        *data,
        estimator=estimator,
        null=dhsic.Permutation(60, within="all"),
        kernels=None if estimator in ("sub-hsic", "nfsic") else "gaussian",
        rng=2,
    )
    values = whole.null_distribution
    used = len(found.null_distribution)
    assert found.statistic == pytest.approx(whole.statistic, rel=1e-12)
    np.testing.assert_allclose(found.null_distribution, values[:used], rtol=1e-9, atol=1e-12)
    assert found.pvalue == p_by_definition(whole.statistic, values, 4, 60)
    assert found.null == "sequential"
    assert found.null_reason.endswith(f"{used} of at most 60 permutations of all rows")
    assert (used == 60) == (signal > 0)


def test_test__of_three_variables_and_of_workers_is_the_same(client):
    x, y = pair(4)
    z = np.sign(x * y) * np.abs(np.random.default_rng(9).standard_normal(60))
    here, there = (
        dhsic.independence_test(
            *(x, y, z), estimator="v-hsic", null=Sequential(5, 99), rng=0, client=where
        )
        for where in (None, client)
    )
    assert here.pvalue == there.pvalue == 0.01
    np.testing.assert_array_equal(here.null_distribution, there.null_distribution)


@pytest.mark.parametrize("estimator", [*ESTIMATORS[:3], dhsic.NFSIC(placement="random")])
def test_level__holds(estimator):
    runs, level = 150, 0.1
    rejected = (
        dhsic.independence_test(
            *pair(seed, 24), estimator=estimator, null=Sequential(4, 39), rng=seed, threads=1
        ).pvalue
        <= level
        for seed in range(runs)
    )
    assert Check.of(runs, level, error=1e-4, least=level).passes(rejected)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_power__is_that_of_permutations(estimator):
    signal = 3.0 if estimator == "nfsic" else 1.0
    found = [
        dhsic.independence_test(
            *pair(seed, 100, signal),
            estimator=estimator,
            null=Sequential(5, 99),
            rng=seed,
            threads=1,
        ).pvalue
        for seed in range(10)
    ]
    assert np.sum(np.array(found) <= 0.05) >= 8


@pytest.mark.parametrize("estimator", ["v-hsic", "nfsic"])
def test_draws__are_few_where_nothing_is_to_be_found(estimator):
    """About n_exceed (1 + log(n_resamples / n_exceed)) = 50 of 999 on average, and batches."""
    null = Sequential(10, 999)
    counts = [
        drawn_and_found(*pair(seed, 30), null=null, estimator=estimator, rng=seed)[0]
        for seed in range(20)
    ]
    assert min(counts) == 20
    assert np.mean(counts) < 250
    most, found = drawn_and_found(*pair(0, 80, 5.0), null=null, estimator=estimator, rng=0)
    assert most == 999
    assert found.pvalue == 0.001


def test_constant_statistic__takes_one_batch():
    """All permutations of two values against two are ties, or as good as that."""
    x = np.repeat([0.0, 1.0], 10)
    count, found = drawn_and_found(
        x, np.tile([0.0, 1.0], 10), null=Sequential(5, 999), estimator="v-hsic", rng=0
    )
    assert (count, found.pvalue) == (10, 1.0)


def test_pvalue__counts_ties_as_the_stopping_does():
    law = SequentialReplicates(np.array([1.0 - 1e-12, 0.0, 1.0]), 2)
    assert pvalue(1.0, law) == 2 / 3


def test_name__takes_the_number_of_resamples():
    data = pair(0, signal=5.0)
    found = dhsic.independence_test(
        *data, estimator="v-hsic", null="sequential", n_resamples=49, rng=0
    )
    assert found.pvalue == 1 / 50
    assert found.grid is None


def test_decision__does_not_ask_for_more_resamples():
    data, options = pair(0), {"estimator": "v-hsic", "rng": 4}
    one, three = (
        dhsic.independence_test(*data, null=Sequential(count), **options) for count in (1, 3)
    )
    assert decision(one, 0.001) == "not rejected at level 0.001"
    level = 0.8 * three.pvalue
    close = f"not rejected at level {level:g}; a close call, take a larger n_exceed"
    assert decision(three, level) == close


def test_auto__takes_an_estimator_that_stands_with_it():
    found = dhsic.independence_test(*pair(0), estimator="auto", null="sequential", rng=0)
    assert found.estimator == "v-hsic"


def test_plan__is_for_the_largest_batch_and_all_rows():
    few, many = (
        dhsic.plan(*(np.zeros((300, 1)),) * 2, estimator="v-hsic", null=Sequential(20, b))
        for b in (999, 9999)
    )
    few, many = (one.steps[-1] for one in (few, many))
    assert few.name == many.name == "statistics"
    assert 0 < few.working_bytes < many.working_bytes
    with pytest.raises(MemoryBudgetError, match="nystrom-m"):
        dhsic.plan(
            *(np.zeros((30_000, 1)),) * 2, estimator="v-hsic", null=Sequential(), memory="1GiB"
        ).check()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_exceed": 0}, "n_exceed must be an integer >= 1, got 0"),
        ({"n_resamples": 0}, "n_resamples must be an integer >= 1, got 0"),
        (
            {"n_exceed": 9, "n_resamples": 8},
            "n_exceed must be at most n_resamples, got 9 and 8",
        ),
    ],
)
def test_options__are_checked(options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        Sequential(**options)


@pytest.mark.parametrize("estimator", ["nystrom-m", "rff-hsic", "dcov", "cka", "block-hsic"])
@pytest.mark.parametrize("null", ["sequential", Sequential()])
def test_others__refuse_it_and_name_those_that_have_it(estimator, null):
    with pytest.raises(InvalidArgumentError, match=r"; it is for nfsic, v-hsic"):
        dhsic.independence_test(*pair(0), estimator=estimator, null=null, rng=0)


def test_grid__is_refused():
    with pytest.raises(InvalidArgumentError, match="several kernels for a variable need"):
        dhsic.independence_test(
            *pair(0), estimator="v-hsic", null="sequential", kernels=dhsic.Grid.auto(), rng=0
        )
    with pytest.raises(InvalidArgumentError, match="replicates that features share"):
        dhsic.rank_features(pair(0)[0][:, None], pair(0)[1], null="sequential", rng=0)
