"""Texts of methods make the values that they spell."""

import numpy as np
import pytest

import dhsic
from dhsic import causal
from dhsic.errors import InvalidArgumentError

X, Y = np.random.default_rng(3).standard_normal((2, 200))
SAME = {
    ("estimator", "nystrom-m:n_landmarks=20,pairing=joint"): dhsic.NystromMHSIC(20, "joint"),
    ("estimator", "rff-hsic:31"): dhsic.RFFHSIC(31),
    ("null", "shifts:3_000"): dhsic.Shifts(3000),
    ("null", "permutation:50:within=all"): dhsic.Permutation(50, within="all"),
    ("order", "time:lag=9"): dhsic.TimeOrder(lag=9),
    ("kernels", "gaussian|rq:gamma=2"): dhsic.Grid(dhsic.Candidates(("gaussian", "rq:1:2"))),
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


def test_text__of_other_functions():
    found = dhsic.two_sample_test(X, Y, estimator="block-mmd:block_rows=20", rng=0)
    assert "blocks of 20 rows" in found.null_reason
    three = dhsic.interaction_test(X, Y, X * Y, estimator="nystrom-lancaster:30", rng=0)
    assert three.landmarks.drawn == 30
    scores = causal.score_dags(X, Y, regression="splines:n_knots=5", rng=0)
    assert str(scores.statistics) != str(causal.score_dags(X, Y, rng=0).statistics)


@pytest.mark.parametrize(
    ("argument", "text", "message"),
    [
        ("estimator", "nystrom:3", "did you mean 'nystrom-m'|did you mean 'nystrom-hsic'"),
        ("estimator", "nystrom-m:landmarks=3", "did you mean 'n_landmarks'"),
        ("null", "shifts:1,2", "at most n_resamples=1000; got '1,2'"),
        ("null", "shifts:n_resamples=9,n_resamples=8", "each field once"),
        ("null", "gamma:2", "at most no fields"),
        ("null", "shifts:", "without a value"),
        ("kernels", "grid:factors=wide", "factors of a grid must be numbers"),
        ("kernels", "grid:combine=all,combine=all", "each field once"),
        ("kernels", "gaussian|gausian", "did you mean 'gaussian'"),
    ],
)
def test_text__that_spells_nothing_is_refused(argument, text, message):
    with pytest.raises(InvalidArgumentError, match=message):
        dhsic.independence_test(X, Y, rng=0, **{argument: text})
