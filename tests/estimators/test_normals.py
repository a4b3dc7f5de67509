"""What plans suppose of features, beside what tests find of normal variables."""

import math

import numpy as np
import pytest

from dhsic.estimators.feature.likely import likely_tried
from dhsic.estimators.feature.normals import features_of_normals
from dhsic.estimators.feature.nystrom_hsic import NystromHSIC
from dhsic.kernels import (
    Columns,
    Combinations,
    Delta,
    Distance,
    Gaussian,
    Grid,
    Laplacian,
    Linear,
    OnColumns,
)
from tests.estimators.features import session_on

P, N = 128, 3000
ESTIMATOR = NystromHSIC(P, n_features="auto")


def of_default(dims):
    """The kernels of a default test, and what its plan supposes of them."""
    combinations = Grid.auto().by_type([("number",) * d for d in dims]).combinations(2)
    by_column = ESTIMATOR.by_column(combinations, dims, P)
    return combinations, features_of_normals(combinations, dims, P, by_column, 1e-8)


def of_one(kernel, d, factor=1.0, p=P, quantiles=0):
    one = Combinations((kernel,), (0,), ((0,),), (factor,))
    (found,) = features_of_normals(one, (d,), p, [quantiles], 1e-8)
    return found


@pytest.fixture(scope="module", params=[(1, 1), (3, 3), (20, 1), (90, 1)], ids=str)
def run(request):
    """What is supposed of a default test, and what it finds."""
    dims = request.param
    data = [np.random.default_rng(m).standard_normal((N, d)) for m, d in enumerate(dims)]
    combinations, normals = of_default(dims)
    session = session_on(data)
    drawn = ESTIMATOR._principal(session, ESTIMATOR.draw(session, combinations))
    return combinations, normals, session, drawn


def test_default_test__tries_what_its_plan_supposes(run):
    combinations, normals, _, drawn = run
    tried = likely_tried(combinations, normals, N)
    part = combinations.part(tried)
    assert part.chosen == drawn.combinations.chosen
    assert part.factors == drawn.combinations.factors


def test_default_test__takes_the_directions_that_its_plan_supposes(run):
    combinations, normals, session, drawn = run
    tried = likely_tried(combinations, normals, N)
    directions = [some.directions for some in combinations.used(normals, tried)]
    supposed = ESTIMATOR.counts(session, combinations.part(tried), directions)
    found = [side.n_summed for side in drawn.sides]
    assert sum(supposed) == pytest.approx(sum(found), rel=0.2)
    some, others = (
        sum(math.prod(counts[k] for k in pair) for pair in drawn.combinations.chosen)
        for counts in (supposed, found)
    )
    assert some == pytest.approx(others, rel=0.3)


def test_landmarks__are_kept_and_span_kernels_as_in_a_test(run):
    combinations, normals, _, drawn = run
    tried = likely_tried(combinations, normals, N)
    for likely, side in zip(combinations.used(normals, tried), drawn.sides, strict=True):
        assert likely.spanned == side.spanned
        count = len(likely.directions.variances)
        assert count == pytest.approx(side.n_features, rel=0.1, abs=3)


@pytest.mark.parametrize(
    ("kernel", "d", "p"),
    [
        (Gaussian(gamma=2.0), 3, P),
        (Columns(Gaussian(gamma=2.0)), 3, P),
        (Delta(), 3, P),
        (OnColumns(Gaussian(), (0, 2)), 3, P),
        (Gaussian(), 300, P),
        (Gaussian(), 3, 600),
    ],
    ids=["bandwidth", "bandwidths", "categories", "some columns", "columns", "landmarks"],
)
def test_features__are_left_open_of_what_is_not_known_or_takes_long(kernel, d, p):
    assert of_one(kernel, d, p=p, quantiles=8 * isinstance(kernel, Columns)) is None


def test_kernels_of_any_unit__have_features_of_normals():
    for kernel in (Gaussian(), Laplacian(), Distance(), Linear()):
        assert of_one(kernel, 3) is not None


def test_narrow_kernels_of_many_columns__compare_no_rows():
    wide, narrow = (of_one(Gaussian(), 20, factor) for factor in (1.0, 0.125))
    assert wide.compares(10**6)
    assert not narrow.held
    assert not narrow.compares(10**6)
    # Few rows have no neighbours, many have some.
    few = narrow._replace(held=True, near=1e-3)
    assert few.compares(10_000)
    assert not few.compares(1000)


def test_mean_over_columns__has_the_directions_of_every_column():
    one, mean = of_one(Laplacian(), 1, quantiles=8), of_one(Columns(Laplacian()), 5, quantiles=8)
    expected = np.repeat(one.directions.variances, 5) / 5
    np.testing.assert_allclose(mean.directions.variances, expected)
    assert mean.compares(10)
