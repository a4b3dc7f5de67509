"""V-HSIC against its definition."""

import numpy as np
import pytest

import dhsic
from dhsic.kernels import Gaussian
from dhsic.nulls import draw_permutations
from tests import oracles


def run(data, null="permutation", **options):
    return dhsic.independence_test(
        *data, kernels=Gaussian(gamma=0.5), estimator="v-hsic", null=null, rng=3, **options
    )


@pytest.mark.parametrize("m", [2, 3, 4])
def test_v_hsic__equals_equation_5_as_paired_and_permuted(m):
    rng = np.random.default_rng(m)
    data = [rng.standard_normal((70, d)) for d in (1, 3, 2, 1)[:m]]
    result = run(data, dhsic.Permutation(4))
    grams = [oracles.gaussian_gram(x, x, 0.5) for x in data]
    assert result.estimate == pytest.approx(oracles.v_hsic(grams), rel=1e-10)
    assert result.statistic == pytest.approx(70 * result.estimate, rel=1e-14)
    for order, value in zip(
        draw_permutations(3, 0, 70, 4, m), result.null_distribution, strict=True
    ):
        moved = [k[np.ix_(o, o)] for k, o in zip(grams[1:], order, strict=True)]
        assert value == pytest.approx(70 * oracles.v_hsic([grams[0], *moved]), rel=1e-9)


def test_v_hsic__agrees_with_the_test_on_landmarks():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((800, 2))
    y = x[:, :1] ** 2 + rng.standard_normal((800, 1))
    exact = run([x, y])
    landmarks = dhsic.independence_test(x, y, kernels=Gaussian(gamma=0.5), rng=3)
    assert exact.pvalue < 0.01
    assert landmarks.pvalue < 0.01
    assert landmarks.statistic == pytest.approx(exact.statistic, rel=0.1)


def test_v_hsic__refuses_permutations_within_blocks():
    with pytest.raises(dhsic.errors.InvalidArgumentError, match="within='all'"):
        run(np.zeros((2, 10)) + np.arange(10), dhsic.Permutation(5, within="blocks"))


def test_v_hsic__refuses_what_memory_cannot_hold():
    x = np.arange(4000.0)
    with pytest.raises(dhsic.errors.MemoryBudgetError, match=r"Gram matrices.*nystrom-m"):
        run([x, x], memory="400MB")


def test_v_hsic__counts_ties_where_all_is_rounding():
    x = np.tile([1.0, -1.0], 50)
    y = np.repeat([1.0, -1.0], 50)
    options = {"kernels": "polynomial:2:0:1", "estimator": "v-hsic", "rng": 0}
    assert dhsic.independence_test(x, y, **options).pvalue == 1.0
