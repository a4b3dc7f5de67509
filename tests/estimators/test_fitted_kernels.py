"""Kernels are fitted to samples that vary wherever the data do, and units change no p-value."""

import numpy as np
import pytest

import dhsic
from dhsic.errors import DataError
from tests.estimators.orbit import bandwidth_rows

N, SEED = 5000, 5
Y = np.random.default_rng(0).standard_normal(N)


def rare(values, seed=0):
    """A variable that is 0 but in some of the rows that set no bandwidth of the first variable."""
    x = np.zeros((N, 1))
    others = np.setdiff1d(np.arange(N), bandwidth_rows(SEED, N))
    x[np.random.default_rng(seed).choice(others, len(values), replace=False), 0] = values
    return x


def fitted(x, kernel):
    made = dhsic.NystromHSIC(8)
    found = dhsic.hsic(x, Y, kernels=[kernel, "gaussian"], estimator=made, rng=SEED)
    return found.variables[0].kernel, [one.name for one in found.passes]


def gamma(x, kernel="gaussian"):
    return float(fitted(x, kernel)[0].split(":")[1].rstrip(")"))


def test_bandwidth__is_the_median_distance_of_a_sample():
    x = np.random.default_rng(1).standard_normal((N, 2))
    sample = x[bandwidth_rows(SEED, N)]
    squares = ((sample[:, None] - sample) ** 2).sum(axis=2)
    expected = 1.0 / np.median(squares[np.triu_indices(1000, 1)])
    assert gamma(x) == pytest.approx(expected, rel=1e-9)
    assert "scan" not in fitted(x, "gaussian")[1]


def test_bandwidth__of_rare_values_is_the_mean_distance_that_is_not_0():
    values = np.array([2.0, 3.0, 10.0])
    x = rare(values)
    expected = (997 * values.sum() + 1.0 + 7.0 + 8.0) / (997 * 3 + 3)
    assert gamma(x) == pytest.approx(expected**-2, rel=1e-9)
    assert gamma(x, "laplacian") == pytest.approx(1 / expected, rel=1e-9)
    assert fitted(x, "gaussian")[1][0] == "scan"
    for shift, scale in ((7.0, 1.0), (0.0, 1e9), (-3.0, 1e-9)):
        moved = gamma(scale * (x + shift))
        assert moved == pytest.approx((scale * expected) ** -2, rel=1e-6)


def test_bandwidth__of_flags_that_exclude_one_another_is_that_of_whole_rows():
    """They are never 1 together, and in most pairs of rows one has none."""
    one, other = rare([1.0, 1.0]), rare([1.0, 1.0], seed=1)
    assert not (one * other).any()
    assert 1.0 < gamma(np.hstack([one, other])) ** -0.5 < 1.01


def test_columns__keep_a_rare_one_and_drop_a_constant_one():
    x = np.hstack([rare([4.0]), Y[:, None], np.ones((N, 1)), rare([2.0, 2.0], seed=1)])
    found = dhsic.hsic(
        x, Y, kernels=["columns(gaussian)", "gaussian"], estimator=dhsic.NystromHSIC(8), rng=SEED
    )
    assert found.variables[0].kernel.count("gaussian:") == 3
    assert ",none," in found.variables[0].kernel
    assert np.isfinite(found.estimate)
    y = np.abs(x[:, 3]) + 0.1 * Y
    tested = dhsic.independence_test(x, y, kernels=["columns(laplacian)", "gaussian"], rng=SEED)
    assert tested.passes[0].name == "scan"


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("kernel", ["gaussian", "delta", "gaussian:1"])
def test_constant__is_refused_in_a_test_and_taken_in_an_estimate(width, kernel):
    x = np.full((N, width), 7.0)
    match = f"^variable 'x1' is constant: all {N} rows are the same, .*; leave it out$"
    with pytest.raises(DataError, match=match):
        dhsic.independence_test(x, Y, kernels=[kernel, "gaussian"], rng=0)
    for value in (7.0, 0.0, -3e8, 1e90, 1e-90):
        found = dhsic.hsic(
            np.full((50, width), value), Y[:50], kernels=[kernel, "gaussian"], estimator="v-hsic"
        )
        assert abs(found.estimate) < 1e-12


@pytest.mark.parametrize("estimator", ["v-hsic", "nystrom-hsic"])
def test_level__is_kept_where_samples_are_completed(estimator):
    """Two rows of 1,100 differ in either variable, of which samples hardly ever have both."""
    rejected = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        x, y = np.zeros((2, 1100))
        for z in (x, y):
            z[rng.choice(1100, 2, replace=False)] = rng.lognormal(size=2)
        options = {"kernels": "gaussian", "null": dhsic.Permutation(19), "threads": 1}
        found = dhsic.independence_test(x, y, estimator=estimator, rng=seed, **options)
        rejected += found.pvalue <= 0.05
    assert rejected <= 5  # by chance once in 1,000


# Powers of two, which round nothing: 1e-300 to 1e300, and the limits of both precisions.
POWERS = (-1000, -270, -70, -32, 0, 32, 70, 270, 1000)
WAYS = [
    *((name, "linear") for name in ("nystrom-m", "nystrom-hsic", "nocco", "coco", "v-hsic")),
    *((name, "linear") for name in ("u-hsic", "u-cka", "sub-hsic", "block-hsic", "nfsic")),
    *((name, "distance") for name in ("nystrom-m", "v-hsic")),
    *((name, None) for name in ("sub-corr", "dcor", "dcov", "auto")),
    *((name, "gaussian") for name in ("auto", "rff-hsic", "v-hsic")),
    *(("v-hsic", kernel) for kernel in ("polynomial", "laplacian", "ranks(distance)")),
    ("nystrom-m", "scores(linear)"),
    (dhsic.CKA(), "linear"),
]
RELATIVE = {"sub-corr", "ranks(distance)", "scores(linear)"}


def pvalue(estimator, kernel, power, **options):
    rng = np.random.default_rng(1)
    x, noise = rng.standard_normal((2, 40))
    given = {} if kernel is None else {"kernels": kernel}
    x, y = np.ldexp(x, power), np.ldexp(x + 2.5 * noise, power)
    try:
        return dhsic.independence_test(
            x, y, estimator=estimator, rng=0, threads=1, **given, **options
        ).pvalue
    except DataError as error:
        if not any(remedy in str(error) for remedy in ("rescale", "transform", "standardise")):
            raise
        return None


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize(
    "precision", ["float64", pytest.param("float32", marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize(("estimator", "kernel"), WAYS)
def test_scale__changes_no_p_value_or_is_refused_in_words(estimator, kernel, precision):
    found = {power: pvalue(estimator, kernel, power, precision=precision) for power in POWERS}
    assert found[0] is not None
    told = {power: p for power, p in found.items() if p is not None}
    assert told == dict.fromkeys(told, pytest.approx(found[0], rel=1e-6))
    # Values of counts and money are none of those that are refused.
    assert {-32, 0, 32} <= set(told) or precision == "float32"
    if {estimator, kernel} & RELATIVE:
        assert set(told) == set(POWERS)
