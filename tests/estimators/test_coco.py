"""COCO and its witness functions against their definitions."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dhsic.errors import InvalidArgumentError
from dhsic.estimators.feature.coco import COCO
from dhsic.estimators.feature.nystrom_hsic import NystromHSIC
from dhsic.kernels import Combinations, Delta, Gaussian, Laplacian, Linear
from dhsic.landmarks import uniform_rows
from dhsic.nulls import Permutation, pvalue
from tests import oracles
from tests.estimators.features import (
    cross_covariance,
    dependent,
    orders_of_permutations,
    permuted_statistics,
    session_on,
)

GAMMA = 3.0
KERNELS = (Gaussian(gamma=GAMMA), Gaussian(gamma=GAMMA))


def largest(cross):
    return np.linalg.norm(cross, ord=2) ** 2


def features_of(data, seed=5, p=12):
    rows = uniform_rows(seed, len(data[0]), p, 2, pairing="independent", replace=False)
    features = []
    for x, r in zip(data, rows, strict=True):
        values, vectors = np.linalg.eigh(oracles.gaussian_gram(x[r], x[r], GAMMA))
        features.append(oracles.gaussian_gram(x, x[r], GAMMA) @ (vectors / np.sqrt(values)))
    return features


def test_estimate__with_all_rows_is_that_of_the_gram_matrices():
    data = dependent(60)
    found = COCO(n_landmarks=60, tolerance=0.0).estimate(session_on(data), KERNELS)
    h = np.eye(60) - 1 / 60
    first, second = (h @ oracles.gaussian_gram(x, x, GAMMA) @ h for x in data)
    expected = np.sqrt(np.max(np.linalg.eigvals(first @ second).real)) / 60
    assert found.value == pytest.approx(expected, rel=1e-8)
    assert found.quantity == "COCO"


@pytest.mark.parametrize("within", ["all", "groups"])
def test_permutation__equals_its_definition(within):
    data, null = dependent(60), Permutation(6, within=within, group_rows=25)
    found = COCO(n_landmarks=12, tolerance=0.0).test(session_on(data), KERNELS, null)
    features = features_of(data)
    orders = orders_of_permutations(60, null)
    expected = permuted_statistics(*features, orders, largest)
    np.testing.assert_allclose(found.distribution.values, expected, rtol=1e-9)
    size = largest(cross_covariance(*features))
    assert found.statistic == pytest.approx(60 * size, rel=1e-10)
    assert found.estimate.value == pytest.approx(np.sqrt(size), rel=1e-10)


def test_coco__is_at_most_the_root_of_hsic():
    session = session_on(dependent(200))
    options = {"n_landmarks": 40}
    hsic = NystromHSIC(**options).estimate(session, KERNELS).value
    assert 0.0 < COCO(**options).estimate(session, KERNELS).value < np.sqrt(hsic)


@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Linear()], ids=lambda k: k.spec())
def test_witness_functions__have_norm_one_and_coco_as_covariance(kernel):
    data = dependent(300)
    made = COCO(n_landmarks=40)
    found = made.witness_functions(session_on(data), (kernel, Gaussian()))
    coco, f, g = found.coco, found.first, found.second
    estimate = made.estimate(session_on(data), (kernel, Gaussian()))
    values = f(data[0]), g(data[1])
    assert values[0].shape == (300,)
    assert np.cov(*values, bias=True)[0, 1] == pytest.approx(coco, rel=1e-8)
    assert coco == pytest.approx(estimate.value, rel=1e-10)
    for function, fitted in zip((f, g), estimate.kernels, strict=True):
        assert function.kernel == fitted
        norm = function.weights @ fitted(function.points) @ function.weights
        assert norm == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("dims", [(1, 1), (2, 2)])
def test_witness_functions__are_drawn_over_the_columns_of_either_variable(dims):
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((60, d)) for d in dims]
    found = COCO(n_landmarks=20).witness_functions(session_on(data), KERNELS)
    for of in ("first", "second"):
        axes = found.plot(of=of)
        labels = axes.get_xlabel(), axes.get_ylabel()
        assert labels[0] == (f"{of} variable" if dims[0] == 1 else f"{of}[0]")
        assert labels[1] == f"{of}[1]" or dims[0] == 1
    plt.close("all")


def test_witness_functions__no_others_of_norm_one_covary_more():
    x, y = dependent(100)
    found = COCO(n_landmarks=30).witness_functions(session_on((x, y)), KERNELS)
    coco, f, g = found.coco, found.first, found.second
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, b = (rng.standard_normal(len(h.weights)) for h in (f, g))
        others = [
            h.kernel(values, h.points) @ w / np.sqrt(w @ h.kernel(h.points) @ w)
            for h, values, w in ((f, x, a), (g, y, b))
        ]
        assert abs(np.cov(*others, bias=True)[0, 1]) < coco


def test_options__change_the_landmarks():
    data = dependent(100)
    sizes = {
        p: len(COCO(n_landmarks=p).witness_functions(session_on(data), KERNELS).first.weights)
        for p in (10, 20)
    }
    assert sizes == {10: 10, 20: 20}
    replaced = COCO(n_landmarks=100, replace=True).estimate(session_on(data), KERNELS).landmarks
    assert replaced.replace
    assert max(replaced.kept) < 80
    pruned = COCO(n_landmarks=100, tolerance=0.3).estimate(session_on(data), KERNELS).landmarks
    assert min(pruned.kept) < 80
    with pytest.raises(InvalidArgumentError, match="n_landmarks must be an integer >= 1"):
        COCO(n_landmarks=0)


def test_test__finds_dependence_and_nothing_in_noise():
    rng = np.random.default_rng(1)
    x, noise = rng.standard_normal((2, 300, 1))
    for y, found in ((np.sin(3 * x) + 0.3 * noise, True), (noise, False)):
        session = session_on((x, y))
        result = COCO().test(session, (Gaussian(), Gaussian()), Permutation(99))
        p = pvalue(result.statistic, result.distribution)
        assert (p == 0.01) if found else (p > 0.05)


def test_kernel__is_gaussian_where_not_given():
    assert COCO().kernel(None) == Gaussian()
    assert COCO().kernel(Delta()) == Delta()


@pytest.mark.parametrize("null", [None, Permutation(9, within="groups"), Permutation(9)])
def test_plan__names_the_passes_that_run(null):
    session = session_on(dependent(300))
    plan = COCO().plan(session, Combinations.single(KERNELS), null)
    if null is None:
        COCO().estimate(session, KERNELS)
    else:
        COCO().test(session, KERNELS, null)
    assert [step.name for step in plan.passes] == [done.name for done in session.finished]
    assert plan.n_landmarks == 35
