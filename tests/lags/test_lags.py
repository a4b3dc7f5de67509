"""Scans of lags: their definition, their level and power, their options and what they refuse."""

from itertools import islice

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import binom

import dhsic
from dhsic import api as module
from dhsic.kernels import parse
from tests.estimators.levels import Check


def series(rng, n, memory=0.6):
    """Two independent autoregressive series."""
    x = np.zeros((n + 50, 2))
    for t, noise in enumerate(rng.standard_normal((n + 49, 2)), 1):
        x[t] = memory * x[t - 1] + noise
    return x[50:].T


@pytest.fixture(scope="module")
def data():
    x, y = series(np.random.default_rng(0), 123)
    y[3:] += x[:-3] ** 2
    return x, y


def centred(kernel, x):
    gram = parse(kernel)(x.reshape(len(x), -1))
    gram -= gram.mean(axis=0)
    return gram - gram.mean(axis=1)[:, None]


def by_definition(scan, x, y, around, period=1, pieces=1, ties=1e-9):
    """All that a scan says, by rolling one series row by row.

    Pieces of as many rows each are rolled alike by themselves, and rows beyond them stay. Numbers
    that differ by less than a share of the statistic are ties.
    """
    n, lags, step = len(x), np.array(scan.lags), scan.step
    left, right = (centred(one.kernel, z) for one, z in zip(scan.variables, (x, y), strict=True))
    every = np.empty(around)
    for shift in range(around):
        rows = np.arange(n)
        for piece in range(pieces):
            start = piece * (n // pieces)
            rows[start : start + around] = start + np.roll(np.arange(around), -shift)
        every[shift] = (left * right[np.ix_(rows, rows)]).sum() / n
    shifts = np.arange(0, around, step)
    values = every[(shifts[:, None] + lags) % around]
    alone = np.array([[every[shift::period] for shift in lags % period]])[0]
    mean, spread = alone.mean(axis=1), alone.std(axis=1)
    largest = ((values - mean) / spread).max(axis=1)
    own = np.sqrt((left**2).sum() * (right**2).sum()) / n
    return {
        "statistics": values[0],
        "hsic": values[0] / n,
        "cka": (values[0] - mean) / (own - mean),
        "spread": spread / (own - mean),
        "pvalues": (values >= values[0] * (1.0 - ties)).mean(axis=0),
        "adjusted": (largest[:, None] >= (values[0] * (1.0 - ties) - mean) / spread).mean(axis=0),
        "null_distribution": largest[1:],
    }


def check(scan, expected, rtol=1e-7):
    for name, values in expected.items():
        np.testing.assert_allclose(getattr(scan, name), values, rtol, err_msg=name)


QUICK = {"rng": 0, "threads": 1}


@pytest.mark.parametrize(
    ("order", "step", "around", "period"),
    [
        ("time", 1, 123, 1),
        (dhsic.TimeOrder(lag=3), 3, 123, 1),
        (dhsic.TimeOrder(lag=5), 5, 120, 1),
        (dhsic.TimeOrder(period=4), 4, 120, 4),
    ],
)
def test_scan__is_that_of_rolled_series(data, order, step, around, period):
    scan = dhsic.lag_scan(*data, [-4, 0, 3, 9], order=order, **QUICK)
    assert (scan.step, scan.estimator) == (step, "v-hsic")
    check(scan, by_definition(scan, *data, around, period))
    assert scan.lags[int(scan.cka.argmax())] == 3


def test_pieces__of_a_long_series_are_each_shifted_around(data, monkeypatch):
    monkeypatch.setattr(module, "_PIECE", 30)
    monkeypatch.setattr(module, "_TIMES", 10)
    scan = dhsic.lag_scan(*data, range(5), order=dhsic.TimeOrder(lag=2), **QUICK)
    assert "3 series at once" in scan.null_reason
    check(scan, by_definition(scan, *data, 40, pieces=3))
    for lags, lag, told in ((range(8), 2, "the series by"), (range(5), 5, "2 series at once")):
        longer = dhsic.lag_scan(*data, lags, order=dhsic.TimeOrder(lag=lag), **QUICK)
        assert told in longer.null_reason


def test_features__of_all_rows_are_the_kernel(data):
    x, y = np.stack([data[0], data[1][::-1]], axis=1), data[1]
    options = {**QUICK, "kernels": ["gaussian:0.2", "imq:0.5"]}
    exact = dhsic.lag_scan(x, y, 4, **options)
    check(exact, by_definition(exact, x, y, 123))
    near = dhsic.lag_scan(x, y, 4, estimator=dhsic.NystromHSIC(123), **options)
    assert near.estimator == "nystrom-hsic"
    names = "statistics", "hsic", "cka", "spread", "pvalues", "adjusted"
    check(near, {name: getattr(exact, name) for name in names}, 1e-5)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("estimator", ["v-hsic", "nystrom-hsic"])
def test_ties__are_no_evidence(data, estimator, precision):
    """Of series of few values many shifts have one statistic, but for rounding."""
    flags = [np.round(one > np.median(one)) for one in data]
    scan = dhsic.lag_scan(
        *flags, 6, estimator=estimator, precision=precision, kernels="gaussian:1", **QUICK
    )
    expected = by_definition(scan, *flags, 123)
    check(scan, {name: expected[name] for name in ("pvalues", "adjusted")})
    strict = by_definition(scan, *flags, 123, ties=-1e-9)
    assert (strict["pvalues"] + 1 / 123 < scan.pvalues - 1e-9).any()


def test_one_lag__is_the_test_of_the_series(data):
    options = {**QUICK, "kernels": "gaussian", "estimator": "v-hsic"}
    for lag in (1, 3):
        order = dhsic.TimeOrder(lag=lag)
        test = dhsic.independence_test(*data, order=order, **options)
        scan = dhsic.lag_scan(*data, [0], order=order, estimator="v-hsic", **QUICK)
        assert scan.pvalues == scan.adjusted == [test.pvalue]
        assert scan.statistics == pytest.approx(test.statistic)


def test_direction__is_that_of_time(data):
    forth, back = (dhsic.lag_scan(*both, 5, **QUICK) for both in (data, data[::-1]))
    np.testing.assert_allclose(forth.hsic, back.hsic[::-1])
    assert forth.dependent(0.1) == tuple(-lag for lag in back.dependent(0.1)[::-1])
    assert 3 in forth.dependent(0.1)
    order = dhsic.lag_scan(*data, [3, -1, 0], **QUICK)
    assert order.lags == (-1, 0, 3)


# Level and power.


def adjusted(seeds, effect=0.0, lags=range(4), n=120):
    for seed in seeds:
        x, y = series(np.random.default_rng([1, seed]), n)
        y[3:] += effect * x[:-3] ** 2
        yield dhsic.lag_scan(x, y, lags, rng=seed, threads=1)


def test_level__of_any_lag_holds_for_series_with_a_memory():
    check = Check.of(45, 0.1)
    assert check.passes(one.adjusted.min() <= 0.1 for one in adjusted(range(45)))


@pytest.mark.nightly
@pytest.mark.parametrize("lags", [range(4), range(-6, 7, 3), [0, 25], 5])
def test_level__is_attained_over_more_data_sets(lags):
    check = Check.of(400, 0.1, least=0.03)
    runs = adjusted(range(100, 500), lags=lags)
    assert check.passes(one.adjusted.min() <= 0.1 + 1e-9 for one in runs)


def test_level__of_series_with_a_common_cycle_holds_by_its_period():
    cycle, rejected = 4.0 * (np.arange(480) % 12 < 2), {1: 0, 12: 0}
    for seed in range(15):
        x, y = series(np.random.default_rng([2, seed]), 480) + cycle
        for period in rejected:
            order = dhsic.TimeOrder(lag=period, period=period)
            scan = dhsic.lag_scan(x, y, [0], order=order, rng=seed, threads=1)
            rejected[period] += scan.adjusted.min() <= 0.1
    assert rejected[12] <= binom.ppf(0.999, 15, 0.1) < rejected[1]


def test_power__finds_the_lag():
    found = list(islice(adjusted(range(8), effect=0.6, n=200), 8))
    assert sum(3 in one.dependent() for one in found) >= 7
    assert sum(one.lags[int(one.cka.argmax())] == 3 for one in found) >= 7


# What a result says.


def test_least_adjusted__is_attained_and_no_less(data):
    x = data[0]
    for lags, order in ((2, "time"), ([0, 5, 10], dhsic.TimeOrder(lag=5)), (range(9), "time")):
        scan = dhsic.lag_scan(x, x, lags, order=order, **QUICK)
        assert scan.adjusted.min() >= scan.least_adjusted - 1e-12
    scan = dhsic.lag_scan(x, x, [0, 1], **QUICK)
    assert scan.adjusted[0] == scan.least_adjusted == 2 / 123
    apart = dhsic.lag_scan(x, x, [0, 1], order=dhsic.TimeOrder(lag=3), **QUICK)
    assert apart.adjusted[0] == apart.least_adjusted == 1 / 41
    few = dhsic.lag_scan(x, x, 20, **QUICK)
    assert few.least_adjusted > 0.05
    assert "take fewer lags or more rows" in dict(few.summary())["p-values"]
    assert "take fewer lags" not in dict(few.summary(alpha=few.least_adjusted))["p-values"]
    assert few.dependent() == ()


def test_critical_value__is_exceeded_where_lags_are_found(data):
    scan = dhsic.lag_scan(*data, 5, **QUICK)
    for alpha in (0.05, 0.2, 0.5):
        found = scan.cka > scan.critical_values(alpha)
        assert scan.dependent(alpha) == tuple(np.array(scan.lags)[found].tolist())
    assert np.isnan(scan.critical_values(0.005)).all()


def test_result__has_a_row_a_lag_and_a_picture(data):
    scan = dhsic.lag_scan(*data, 5, names=["wind", "waves"], **QUICK)
    frame = scan.to_frame()
    assert list(frame["lag"]) == list(scan.lags) == list(range(-5, 6))
    names = "statistic", "estimate", "cka", "p_value", "p_adjusted", "n", "method"
    assert set(names) <= set(frame)
    assert set(frame["x"]) == {"wind"}
    assert set(frame["y"]) == {"waves"}
    axes = scan.plot(alpha=0.2)
    assert axes.get_xlabel() == "rows by which waves is behind wind"
    drawn = axes.get_lines()[-1].get_ydata()
    np.testing.assert_array_equal(drawn, scan.critical_values(0.2))
    plt.close("all")
    found = scan.findings(0.2, "bh")
    assert found.title == "At which lags does waves depend on wind?"
    assert f"{len(scan.dependent(0.2))} of 11 lags at level 0.2" in found.lead


# Options.


def test_options__are_those_asked_for(data):
    plain = dhsic.lag_scan(*data, 3, **QUICK)
    assert len(plain.null_distribution) == 122
    few = dhsic.lag_scan(*data, 3, n_resamples=30, **QUICK)
    assert len(few.null_distribution) < 31
    kernel = dhsic.lag_scan(*data, 3, kernels=["laplacian", "gaussian"], **QUICK)
    assert kernel.variables[0].kernel.startswith("laplacian")
    single = dhsic.lag_scan(*data, 3, precision="float32", **QUICK)
    np.testing.assert_allclose(single.hsic, plain.hsic, 1e-3)
    assert (single.hsic != plain.hsic).any()
    named = dhsic.lag_scan("a", "b", 3, data={"a": data[0], "b": data[1]}, **QUICK)
    assert named.names == ("a", "b")
    np.testing.assert_array_equal(named.hsic, plain.hsic)
    largest = dhsic.lag_scan(*data, np.arange(-3, 4), **QUICK)
    np.testing.assert_array_equal(largest.adjusted, plain.adjusted)


def test_gaps__stay_in_their_places(data):
    x = data[0].copy()
    x[[10, 40]] = np.nan
    scan = dhsic.lag_scan(x, data[1], 4, missing="pairwise", **QUICK)
    assert scan.missing == (2, 0)
    assert scan.n == len(x)
    assert scan.lags[int(scan.cka.argmax())] == 3


def test_plan__has_the_steps_and_the_replicates_of_all_lags(data):
    few, many = (dhsic.plan_lag_scan(*data, lags) for lags in (1, 30))
    assert many.closing_bytes > few.closing_bytes
    assert [one.name for one in few.passes] == ["read all rows"]


def test_shifts_of_a_series__are_as_many_as_are_asked_for():
    """No cosets make up for fewer, as they do where rows are exchangeable."""
    x = np.random.default_rng(0).standard_normal((2, 6000))
    options = {"estimator": dhsic.NystromHSIC(10), "kernels": "gaussian", "n_resamples": 6000}
    found = dhsic.independence_test(*x, order=dhsic.TimeOrder(lag=1), **options, **QUICK)
    assert len(found.null_distribution) == 5999


@pytest.mark.parametrize("n", [1100, 1500, 2399])
def test_hsic__is_that_of_the_rows_so_far_apart_whatever_their_number(n):
    x, y = np.random.default_rng(0).standard_normal((2, n))
    y[5:] += x[:-5]
    found = dhsic.lag_scan(x, y, 6, kernels="gaussian:1", rng=0)
    direct = dhsic.hsic(x[:-5], y[5:], kernels="gaussian:1", estimator="v-hsic").estimate
    assert found.hsic[found.lags.index(5)] == pytest.approx(direct, rel=0.05)
    again = dhsic.lag_scan(x, y, np.int64(6), kernels="gaussian:1", rng=0)
    assert again.lags == found.lags
