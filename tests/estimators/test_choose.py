"""The estimator, the number of landmarks and the kernels that are taken where none are named."""

import re

import numpy as np
import pytest

import dhsic
from dhsic.errors import MemoryBudgetError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((9000, 3))
Y = 0.1 * X[:, 0] ** 2 + RNG.standard_normal(9000)
QUICK = {"kernels": "gaussian", "rng": 0, "threads": 1}
MANY = "too many rows for all pairs of them"


def rows(n, d=1):
    """Rows that take no memory."""
    return np.broadcast_to(np.arange(d, dtype="float32"), (n, d))


@pytest.mark.parametrize(
    ("n", "options", "estimator", "reason"),
    [
        (300, {}, "v-hsic", "all pairs of rows: quick at this size"),
        (300, {"null": "gamma"}, "v-hsic", "all pairs of rows: quick at this size"),
        (3400, {}, "v-hsic", "all pairs of rows: quick at this size"),
        (1500, {"null": "permutation", "n_resamples": 50}, "v-hsic", "all pairs of rows: quick"),
        (9000, {}, "nystrom-hsic", MANY),
        (2500, {"null": "permutation", "n_resamples": 500}, "nystrom-hsic", MANY),
        (2500, {"null": dhsic.Permutation(500)}, "nystrom-hsic", MANY),
    ],
)
def test_auto__takes_all_pairs_of_few_rows_and_features_of_many(n, options, estimator, reason):
    found = dhsic.independence_test(X[:n], Y[:n], **QUICK, **options)
    assert found.estimator == estimator
    assert found.estimator_reason.startswith(reason)
    assert found.grid is None
    if estimator == "nystrom-hsic":
        assert found.landmarks.drawn == 256


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


@pytest.mark.parametrize(("seconds", "landmarks"), [(1e4, 256), (120, 128), (1, 64)])
def test_time__is_what_auto_fits(seconds, landmarks):
    data = rows(10**7, 20), rows(10**7)
    found = dhsic.plan(*data, time=seconds, threads=1)
    assert found.n_landmarks == landmarks
    without = [dhsic.plan(*data, threads=threads).n_landmarks for threads in (1, 4)]
    assert without == [256, 256]


def test_time__leaves_a_grid_that_was_asked_for():
    data = rows(10**7, 20), rows(10**7)
    few = dhsic.plan(*data, kernels=dhsic.Grid(), time="1s", threads=1)
    one = dhsic.plan(*data, time="1s", threads=1)
    assert few.n_landmarks == 64
    assert one.processor_seconds < few.processor_seconds


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
    assert found.estimator_reason.startswith(f"{drawn} landmarks, since {usual:,} landmarks would")
    with pytest.raises(MemoryBudgetError):
        dhsic.hsic(*data, estimator=kind(min(2 * drawn, usual)), **options)


@pytest.mark.usefixtures("no_libraries")
@pytest.mark.parametrize(
    ("estimator", "null", "noun"),
    [
        (dhsic.NystromMHSIC(6000), "multiplier", "landmarks"),
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


def test_three_variables__take_six_times_as_long_as_two_at_most():
    variables = np.random.default_rng(0).standard_normal((3, 10_000))
    two, three = (dhsic.plan(*variables[:m], threads=1).work.seconds() for m in (2, 3))
    assert three <= 6.0 * two
