"""The mean squared correlation of columns against its definition."""

import numpy as np
import pytest

from dhsic._random import random_signs
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators.feature.sub_corr import SubCorr
from dhsic.kernels import Combinations, Gaussian, Linear
from dhsic.nulls import Gamma, Multiplier, Permutation, Spectral, pvalue
from dhsic.results import FeatureSummary
from tests.estimators.features import (
    dependent,
    frobenius,
    orders_of_permutations,
    permuted_statistics,
    session_on,
    signed_statistics,
)

KERNELS = (Linear(), Linear())


def definition(x, y):
    pairs = [(a, b) for a in x.T for b in y.T]
    return np.mean([np.corrcoef(a, b)[0, 1] ** 2 for a, b in pairs])


def standardised(data):
    return [(x - x.mean(axis=0)) / x.std(axis=0) / np.sqrt(x.shape[1]) for x in data]


@pytest.mark.parametrize(
    "null", [Gamma(), Spectral(), Multiplier(3), Permutation(3), Permutation(3, within="groups")]
)
@pytest.mark.parametrize(("precision", "rel"), [("float64", 1e-10), ("float32", 1e-4)])
def test_statistic_and_estimate__equal_their_definition(null, precision, rel):
    data = [1000 * x + 5000 for x in dependent(90)]
    found = SubCorr().test(session_on(data, precision=precision), KERNELS, null)
    assert found.estimate.value == pytest.approx(definition(*data), rel=rel)
    assert found.statistic == pytest.approx(90 * definition(*data), rel=rel)
    alone = SubCorr().estimate(session_on(data, precision=precision), KERNELS)
    assert alone.value == pytest.approx(definition(*data), rel=rel)
    assert alone.quantity == "mean squared correlation"
    assert alone.features == FeatureSummary("columns", (2, 3))


def test_multiplier__equals_its_definition():
    data = dependent(60)
    signs = random_signs(5, 0, 60, 7).astype(float)
    expected = signed_statistics(*standardised(data), signs, frobenius)
    found = SubCorr().test(session_on(data), KERNELS, Multiplier(7)).distribution.values
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("within", ["all", "groups"])
def test_permutation__equals_its_definition(within):
    data = dependent(60)
    null = Permutation(6, within=within, group_rows=25)
    orders = orders_of_permutations(60, null)
    expected = permuted_statistics(*standardised(data), orders, frobenius)
    found = SubCorr().test(session_on(data), KERNELS, null).distribution.values
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_laws__are_those_of_the_correlation_matrices():
    data = dependent(100, (3, 4))
    spectra = [np.linalg.eigvalsh(np.corrcoef(x.T)) / x.shape[1] for x in data]
    law = SubCorr().test(session_on(data), KERNELS, Spectral()).distribution
    expected = np.sort(np.outer(*spectra).ravel())
    np.testing.assert_allclose(np.sort(law.weights), expected, rtol=1e-10)
    law = SubCorr().test(session_on(data), KERNELS, Gamma()).distribution
    values = SubCorr().test(session_on(data), KERNELS, Permutation(4000)).distribution.values
    assert law.mean == pytest.approx(1 / 99 * 100, rel=1e-10)
    assert law.variance == pytest.approx(values.var(), rel=0.1)


@pytest.mark.parametrize("null", [Gamma(), Multiplier(99), Permutation(99)])
def test_constant_columns__count_as_no_correlation(null):
    x, y = dependent(100)
    constant = np.full((100, 1), 0.1)
    found = SubCorr().test(session_on((np.hstack([x, constant]), y)), KERNELS, null)
    assert found.estimate.value == pytest.approx(definition(x, y) * 2 / 3, rel=1e-10)
    assert pvalue(found.statistic, found.distribution) < 0.05


def test_constant_columns__of_the_sample_alone_keep_their_scale():
    x, y = dependent(5000, (2, 1))
    x[:, 1] = 0.0
    x[:2, 1] = 1e6
    found = SubCorr().estimate(session_on((x, y)), KERNELS).value
    assert found == pytest.approx(definition(x, y), rel=1e-8)


def test_constant_variables__are_refused():
    with pytest.raises(DataError, match="'x1' is constant"):
        SubCorr().estimate(session_on((np.ones((50, 2)), np.arange(50.0))), KERNELS)


def test_kernel__is_fixed():
    assert SubCorr().kernel(None) == Linear()
    with pytest.raises(
        InvalidArgumentError, match=r"got 'gaussian': leave it out, or take .*sub-h"
    ):
        SubCorr().kernel(Gaussian())


def test_test__finds_linear_dependence_alone():
    x, y = dependent(500, (3, 3))
    even = np.column_stack([x[:, :2] ** 2 - 1, y[:, 1]])
    results = [SubCorr().test(session_on((x, z)), KERNELS, Spectral()) for z in (y, even)]
    linear, square = [r.distribution.sf(r.statistic) for r in results]
    assert linear < 1e-10
    assert square > 0.01


@pytest.mark.parametrize(
    "null",
    [None, Gamma(), Multiplier(9), Permutation(9, within="groups"), Permutation(9, within="all")],
)
def test_plan__names_the_passes_that_run(null):
    session = session_on(dependent(500))
    plan = SubCorr().plan(session, Combinations.single(KERNELS), null)
    if null is None:
        SubCorr().estimate(session, KERNELS)
    else:
        SubCorr().test(session, KERNELS, null)
    assert [step.name for step in plan.passes] == [done.name for done in session.finished]


@pytest.mark.parametrize(("null", "passes"), [(Spectral(), 1), (Gamma(), 2), (Multiplier(3), 2)])
def test_spectral__needs_no_pass_but_that_of_the_moments(null, passes):
    session = session_on(dependent(90))
    SubCorr().test(session, KERNELS, null)
    assert len(session.finished) == passes
