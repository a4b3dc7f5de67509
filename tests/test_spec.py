"""Texts of methods make the values that they spell."""

import numpy as np
import pytest

import dhsic
from dhsic.errors import InvalidArgumentError

X, Y = np.random.default_rng(3).standard_normal((2, 200))
SAME = {
    ("estimator", "nystrom-m:n_landmarks=20,pairing=joint"): dhsic.NystromMHSIC(20, "joint"),
    ("estimator", "rff-hsic:31"): dhsic.RFFHSIC(31),
    ("null", "shifts:3_000"): dhsic.Shifts(3000),
    ("null", "permutation:50:within=all"): dhsic.Permutation(50, within="all"),
    ("order", "time:lag=9"): dhsic.TimeOrder(lag=9),
    ("kernels", "gaussian|rq:gamma=2"): dhsic.Grid(dhsic.Candidates(("gaussian", "rq:1:2"))),
    ("kernels", "grid"): dhsic.Grid(),
    ("kernels", "grid:imq,factors=0.5|1,aggregate=max,combine=all"): dhsic.Grid(
        dhsic.Candidates("imq", (0.5, 1)), "all", "max"
    ),
}


@pytest.mark.parametrize(("argument", "text"), SAME)
def test_text__is_the_value_that_it_spells(argument, text):
    found = dhsic.independence_test(X, Y, rng=0, **{argument: text})
    again = dhsic.independence_test(X, Y, rng=0, **{argument: SAME[argument, text]})
    assert found.pvalue == again.pvalue
    assert (found.statistic, found.null_reason) == (again.statistic, again.null_reason)


@pytest.mark.parametrize(
    ("argument", "text", "message"),
    [
        ("null", "shifts:1,2", "fields of n_resamples=1000, each once and with a value; got '2'"),
        ("null", "shifts:n_resamples=9,n_resamples=8", "each once"),
        ("null", "shifts:", "with a value"),
        ("kernels", "grid:combine=all,combine=all", "each field once"),
    ],
)
def test_text__that_spells_nothing_is_refused(argument, text, message):
    with pytest.raises(InvalidArgumentError, match=message):
        dhsic.independence_test(X, Y, rng=0, **{argument: text})
