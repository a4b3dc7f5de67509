"""The estimator, the number of landmarks and the kernels that are taken where none are named."""

import re

import numpy as np
import pytest

import dhsic
from dhsic.errors import InvalidArgumentError, MemoryBudgetError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((9000, 3))
Y = 0.1 * X[:, 0] ** 2 + RNG.standard_normal(9000)
QUICK = {"kernels": "gaussian", "rng": 0, "threads": 1}


def rows(n, d=1):
    """Rows that take no memory."""
    return np.broadcast_to(np.arange(d, dtype="float32"), (n, d))


@pytest.mark.parametrize(
    ("n", "options", "estimator", "reason"),
    [
        (1500, {}, "v-hsic", "all pairs of rows: at most 1,500"),
        (1501, {}, "nystrom-hsic", "more than 1,500 rows"),
        (500, {"columns": 1}, "v-hsic", "all pairs of rows: at most 500"),
        (501, {"columns": 1}, "nystrom-hsic", "more than 500 rows"),
        (1000, {"columns": 1, "kernels": None}, "v-hsic", "all pairs of rows: at most 1,000"),
        (1001, {"columns": 1, "kernels": None}, "nystrom-hsic", "more than 1,000 rows"),
        (5000, {"null": "gamma"}, "v-hsic", "all pairs of rows: at most 5,000"),
        (300, {"null": "permutation", "n_resamples": 50}, "v-hsic", "all pairs of rows: at most"),
        (301, {"null": dhsic.Permutation(50)}, "nystrom-hsic", "more than 300 rows"),
    ],
)
def test_auto__takes_all_pairs_of_few_rows_and_features_of_many(n, options, estimator, reason):
    columns = options.get("columns", 3)
    options = {name: value for name, value in options.items() if name != "columns"}
    found = dhsic.independence_test(X[:n, :columns], Y[:n], **{**QUICK, **options})
    assert found.estimator == estimator
    assert found.estimator_reason.startswith(reason)
    assert (found.grid is None) == ("kernels" not in options)
    if estimator == "nystrom-hsic":
        assert found.landmarks.drawn == 256


@pytest.mark.parametrize(
    ("n", "null", "estimator", "reason"),
    [
        (3, None, "cka", "fewer than 4 rows"),
        (4, None, "u-cka", "all pairs of rows: at most 5,000"),
        (5000, None, "u-cka", "all pairs of rows: at most 5,000"),
        (5001, None, "cka", "more than 5,000 rows"),
        (1500, "shifts", "u-cka", "all pairs of rows: at most 1,500"),
        (1501, "shifts", "cka", "more than 1,500 rows"),
        (200, "gamma", "cka", "u-cka has no gamma null"),
    ],
)
def test_cka__takes_all_pairs_of_few_rows_and_landmarks_of_many(n, null, estimator, reason):
    if null:
        found = dhsic.independence_test(X[:n], Y[:n], estimator="cka", null=null, **QUICK)
    else:
        found = dhsic.hsic(X[:n], Y[:n], estimator="cka", **QUICK)
    assert (found.estimator, found.estimator_reason) == (estimator, reason)
    made = dhsic.CKA() if estimator == "cka" else estimator
    named = dhsic.hsic(X[:n], Y[:n], estimator=made, **QUICK)
    assert found.estimate == pytest.approx(named.estimate)


@pytest.mark.parametrize(
    "call",
    [
        lambda **asked: dhsic.independence_test(X[:99], Y[:99], kernels=dhsic.Grid(), **asked),
        lambda **asked: dhsic.sensitivity_map(X[:99], Y[:99], **asked),
        lambda **asked: dhsic.hsic(X[:99], Y[:99], X[:99], **asked),
    ],
)
def test_cka__is_refused_by_the_name_that_was_given(call):
    with pytest.raises(InvalidArgumentError, match="'cka'"):
        call(estimator="cka", rng=0)


@pytest.mark.usefixtures("no_libraries")
def test_cka__takes_landmarks_that_are_named_and_those_that_fit():
    named = dhsic.hsic(X[:200], Y[:200], estimator="cka:n_landmarks=20", **QUICK)
    assert (named.estimator, named.landmarks.drawn) == ("cka", 20)
    data = X[:3000], Y[:3000]
    blocks = {"confidence": 0.95, "estimator": "cka", **QUICK}
    few = dhsic.hsic(*data, memory="10MiB", **blocks)
    assert (few.estimator, dhsic.hsic(*data, **blocks).estimator) == ("cka", "u-cka")
    assert "all pairs of rows do not fit the memory" in few.estimator_reason


def test_auto__of_three_variables_is_a_chain_of_tests_of_two():
    three = [X[:, j] for j in range(3)]
    found = dhsic.independence_test(*three, **QUICK)
    assert (found.estimator, found.null) == ("nystrom-hsic", "chain")
    alone = dhsic.hsic(*three, kernels="gaussian", rng=0)
    assert found.estimate == alone.estimate
    many = dhsic.plan(rows(10**7), rows(10**7), rows(10**7), kernels="gaussian", threads=1)
    assert many.n_landmarks == 256


def test_auto__tries_a_grid_beyond_all_pairs():
    x = np.random.default_rng(0).standard_normal((6000, 2))
    y = x[:, 0] ** 2 + np.random.default_rng(1).standard_normal(6000)
    found = dhsic.independence_test(x, y, rng=0)
    assert (found.estimator, found.landmarks.drawn) == ("nystrom-hsic", 256)
    assert len(found.grid.combinations) == 9
    assert found.pvalue < 0.01


@pytest.mark.parametrize(("n", "d"), [(600, 20), (4000, 60)])
def test_auto__finds_dependence_that_is_not_smooth_on_one_of_many_columns(n, d):
    """By the spreads of columns; all pairs of rows and features of them."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d))
    y = 2.0 * np.abs(x[:, 0]) + rng.standard_normal(n)
    found = dhsic.independence_test(x, y, rng=0)
    assert found.pvalue < 0.01
    assert found.estimator == ("v-hsic" if n == 600 else "nystrom-hsic")
    assert found.grid.combinations[found.grid.strongest].kernels[0] == "spread(linear)"


@pytest.mark.parametrize(
    ("n", "estimator", "columns"),
    [(60, "auto", 1), (300, dhsic.NystromHSIC(12, unbiased_estimate=True), 3)],
)
def test_auto__has_an_estimate_of_mean_0_where_nothing_depends(n, estimator, columns):
    """Over 40 data sets; by the kernels that lie farthest above 0 it would be 5 to 10 errors."""
    estimates = []
    for seed in range(40):
        rng = np.random.default_rng([seed, n, columns])
        data = rng.standard_normal((n, columns)), rng.standard_normal(n)
        options = {"estimator": estimator, "n_resamples": 99, "rng": seed, "threads": 1}
        estimates.append(dhsic.independence_test(*data, **options).estimate)
    assert abs(np.mean(estimates)) < 4.0 * np.std(estimates) / np.sqrt(40)


def test_estimates__are_unbiased():
    few = dhsic.hsic(X[:300], Y[:300], rng=0)
    exact = dhsic.hsic(X[:300], Y[:300], estimator="u-hsic", rng=0)
    assert few.estimate == exact.estimate
    assert dhsic.hsic(X[:3], Y[:3], rng=0).estimator == "v-hsic"
    many, exact = (dhsic.hsic(X, Y, estimator=name, rng=0) for name in ("auto", "u-hsic"))
    assert many.estimate == pytest.approx(exact.estimate, rel=0.05)


@pytest.mark.usefixtures("no_libraries")
def test_memory__is_what_auto_fits():
    found = dhsic.independence_test(X[:300], Y[:300], **QUICK, memory="9MiB", null="permutation")
    assert found.estimator in ("v-hsic", "nystrom-hsic")
    data = rows(10**6, 20), rows(10**6)
    small, large = (dhsic.plan(*data, memory=m, threads=1) for m in ("32MiB", "2GiB"))
    assert small.n_landmarks < large.n_landmarks == 256
    assert small.fits


def test_time__is_what_auto_fits_by_timing_a_block():
    rng = np.random.default_rng(0)
    data = rng.standard_normal((2, 200_000))
    options = {"rng": 0, "threads": 1}
    few = dhsic.independence_test(*data, time=1e-6, **options)
    assert few.landmarks.drawn == 64
    assert few.grid is None
    assert "would take more than" in few.estimator_reason
    whole = dhsic.independence_test(*data, time="1h", **options)
    assert whole.landmarks.drawn == 256
    assert whole.pvalue == dhsic.independence_test(*data, **options).pvalue


def test_time__leaves_a_grid_that_was_asked_for():
    data = np.random.default_rng(0).standard_normal((2, 20_000))
    found = dhsic.independence_test(*data, kernels=dhsic.Grid(), time=1e-6, rng=0, threads=1)
    assert found.landmarks.drawn == 64
    assert len(found.grid.combinations) > 1


def test_time__has_a_choice_that_a_checkpoint_keeps(tmp_path):
    data = np.random.default_rng(0).standard_normal((2, 20_000))
    options = {"rng": 0, "threads": 1, "checkpoint": str(tmp_path / "kept")}
    first, again = (dhsic.independence_test(*data, time=t, **options) for t in (1e-6, "1h"))
    assert first.landmarks.drawn == again.landmarks.drawn == 64
    assert first.pvalue == again.pvalue


def test_seconds__of_a_plan_are_those_of_a_block():
    data = np.random.default_rng(0).standard_normal((2, 100_000))
    few, many = (dhsic.plan(*data[:, :n], threads=1) for n in (2000, 100_000))
    assert 0.0 < few.seconds < many.seconds
    assert few.processor_seconds > 0.0
    assert "from timing 2,000 rows of 'shifts'" in str(few)
    constant = dhsic.plan(rows(10**7), rows(10**7), threads=1)
    assert constant.seconds is None
    assert "no block of these data was timed" in str(constant)


@pytest.mark.parametrize("n", [10**6, 10**9])
@pytest.mark.parametrize("dims", [(1, 1), (20, 1), (90, 1), (50, 50), (20, 3, 1)])
def test_auto__fits_any_data(n, dims):
    assert dhsic.plan(*(rows(n, d) for d in dims), threads=2).fits


# Names take as many landmarks as fit, and a refusal tells how many would.


@pytest.mark.usefixtures("no_libraries")
@pytest.mark.parametrize(
    ("kind", "usual"),
    [(dhsic.NystromMHSIC, 1131), (dhsic.NystromHSIC, 283), (dhsic.COCO, 283), (dhsic.CKA, 283)],
)
def test_name__takes_as_many_landmarks_as_fit(kind, usual):
    data = np.random.default_rng(0).standard_normal((2, 20_000))
    options = {"memory": "12MiB", "rng": 0, "threads": 1, "kernels": "gaussian"}
    with pytest.raises(MemoryBudgetError):
        dhsic.hsic(*data, estimator=kind(usual), **options)
    found = dhsic.hsic(*data, estimator=kind.name, **options)
    drawn = found.landmarks.drawn
    assert 64 <= drawn < usual
    assert f"{drawn} landmarks, since {usual:,} landmarks would" in found.estimator_reason
    with pytest.raises(MemoryBudgetError):
        dhsic.hsic(*data, estimator=kind(min(2 * drawn, usual)), **options)


@pytest.mark.usefixtures("no_libraries")
@pytest.mark.parametrize(
    ("estimator", "null", "noun"),
    [
        (dhsic.NystromMHSIC(6000), "gamma", "landmarks"),
        (dhsic.NystromHSIC(6000), "gamma", "landmarks"),
        (dhsic.RFFHSIC(6000), "gamma", "features"),
        (dhsic.VHSIC(), "spectral", "rows"),
    ],
)
def test_value__is_taken_as_it_is_and_refused_with_what_would_fit(estimator, null, noun):
    data = np.random.default_rng(0).standard_normal((2, 20_000))
    options = {"kernels": "gaussian", "memory": "64MiB", "threads": 1, "null": null}
    with pytest.raises(MemoryBudgetError) as refused:
        dhsic.plan(*data, estimator=estimator, **options).check()
    most = int(re.search(rf"at most ([\d,]+) {noun}", str(refused.value))[1].replace(",", ""))

    def fits(count):
        if noun == "rows":
            return dhsic.plan(*data[:, :count], estimator=estimator, **options).fits
        return dhsic.plan(*data, estimator=type(estimator)(count), **options).fits

    assert fits(most)
    assert not fits(most + max(1, most // 10))
