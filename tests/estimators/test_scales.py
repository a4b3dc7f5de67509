"""Units change no p-value: it is that of the plain scale, or the scale is refused in words."""

import numpy as np
import pytest

import dhsic
from dhsic.errors import DataError

# Powers of two, which round nothing: 1e-300 to 1e300, and the limits of both precisions.
POWERS = (-1000, -530, -270, -140, -70, -32, 0, 32, 64, 140, 270, 530, 1000)
WAYS = [
    *((name, kernel) for name in ("nystrom-m", "nystrom-hsic", "cka", "nocco", "coco", "v-hsic")
      for kernel in ("linear", "distance")),
    *((name, "linear") for name in ("u-hsic", "sub-hsic", "block-hsic", "nfsic")),
    *((name, None) for name in ("sub-corr", "dcor", "dcov")),
    *((name, "gaussian") for name in ("auto", "rff-hsic", "v-hsic")),
    ("v-hsic", "polynomial"), ("v-hsic", "laplacian"), ("nystrom-hsic", "columns(imq)"),
    ("auto", None), ("v-hsic", "ranks(distance)"), ("nystrom-m", "scores(linear)"),
]  # fmt: skip
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


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(("estimator", "kernel"), WAYS)
def test_scale__changes_no_pvalue(estimator, kernel, precision):
    found = {power: pvalue(estimator, kernel, power, precision=precision) for power in POWERS}
    assert found[0] is not None
    told = {power: p for power, p in found.items() if p is not None}
    assert told == dict.fromkeys(told, pytest.approx(found[0], rel=1e-6))
    # Values of counts and money are none of those that are refused.
    assert {-32, 0, 32} <= set(told) or precision == "float32"
    if {estimator, kernel} & RELATIVE:
        assert set(told) == set(POWERS)


@pytest.mark.parametrize("null", ["gamma", "spectral"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_scale__changes_no_law(null, precision):
    estimator = "v-hsic" if null == "gamma" else "nystrom-hsic"
    asked = {"precision": precision, "null": null}
    found = [pvalue(estimator, "linear", power, **asked) for power in POWERS]
    plain = pvalue(estimator, "linear", 0, **asked)
    assert [p for p in found if p is not None] == pytest.approx(
        [plain] * (len(found) - found.count(None)), rel=1e-4
    )


def test_scale__of_a_kernel_that_is_given_is_its_own():
    x = np.random.default_rng(0).standard_normal(40)
    kernels = "gaussian:1e-200"
    wide = dhsic.independence_test(1e100 * x, x, kernels=[kernels, "gaussian"], rng=0)
    plain = dhsic.independence_test(x, x, kernels=["gaussian:1.0", "gaussian"], rng=0)
    assert wide.statistic == pytest.approx(plain.statistic)
