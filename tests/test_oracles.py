"""Statistics and estimates of several variables against their definitions.

Landmarks and permutations are drawn inside: of few rows all that could be drawn are tried.
"""

import itertools
import math

import numpy as np
import pytest

import dhsic
from dhsic.kernels import Gaussian
from tests import oracles

GAMMAS = (3.0, 5.0, 4.0, 6.0)
KERNELS = [Gaussian(gamma=gamma) for gamma in GAMMAS]
EVERY_M = pytest.mark.parametrize("m", [2, 3, 4])


def rows_and_grams(n, m):
    data = [np.random.default_rng([n, m, k]).random((n, 1)) * 2.0 for k in range(m)]
    return data, [oracles.gaussian_gram(x, x, g) for x, g in zip(data, GAMMAS, strict=False)]


def joint(data, estimator, n_resamples=9, seed=0):
    options = {"estimator": estimator, "null": dhsic.Permutation(n_resamples), "rng": seed}
    return dhsic.independence_test(*data, kernels=KERNELS[: len(data)], **options)


def estimated(data, estimator, seed=0):
    options = {"estimator": estimator, "kernels": KERNELS[: len(data)], "rng": seed}
    return dhsic.hsic(*data, **options).estimate


def is_one_of(found, values):
    return bool(np.isclose(found, values, rtol=1e-7, atol=0.0).any())


@EVERY_M
def test_joint_statistic__is_the_mean_of_products_less_the_product_of_means(m):
    data, grams = rows_and_grams(20, m)
    expected = 20 * oracles.v_hsic(grams)
    assert joint(data, "v-hsic").statistic == pytest.approx(expected, rel=1e-10)
    at_all_rows = oracles.nystrom_statistic(np.prod(grams, axis=0), grams)
    found = joint(data, dhsic.NystromMHSIC(20, pairing="joint", tolerance=1e-12)).statistic
    assert found == pytest.approx(at_all_rows, rel=1e-6)


@pytest.mark.parametrize(
    ("estimator", "m"), [*(("v-hsic", m) for m in (2, 3, 4)), ("nystrom-m", 2), ("nystrom-m", 3)]
)
def test_joint_replicates__permute_all_variables_but_the_first(m, estimator):
    """Replicates are drawn from all (4!)^(M - 1) permutations of four rows, each alike often."""
    data, grams = rows_and_grams(4, m)
    orders = [list(order) for order in itertools.permutations(range(4))]
    gram_joint, values = np.prod(grams, axis=0), []
    for chosen in itertools.product(orders, repeat=m - 1):
        moved = [grams[0], *(k[np.ix_(o, o)] for k, o in zip(grams[1:], chosen, strict=True))]
        if estimator == "nystrom-m":  # landmarks stay where rows move
            crosses = [grams[0], *(k[:, o] for k, o in zip(grams[1:], chosen, strict=True))]
            values.append(oracles.nystrom_statistic(gram_joint, crosses))
        else:
            values.append(4 * oracles.v_hsic(moved))
    if estimator == "nystrom-m":
        estimator = dhsic.NystromMHSIC(4, pairing="joint", tolerance=1e-12)
    found = joint(data, estimator, 4000)
    replicates, values = found.null_distribution, np.array(values)
    assert all(is_one_of(one, values) for one in np.unique(np.round(replicates, 12)))
    share = np.mean(values >= found.statistic - 1e-9)
    error = math.sqrt(share * (1 - share) / 4000)
    assert found.pvalue == pytest.approx(share, abs=4 * error + 1e-3)
    for q in (0.1, 0.5, 0.9):
        below = np.mean(replicates <= np.quantile(values, q) + 1e-9)
        assert below == pytest.approx(np.mean(values <= np.quantile(values, q) + 1e-9), abs=0.035)


@EVERY_M
def test_lemma_4_2__is_the_estimate_at_some_landmarks(m):
    data, grams = rows_and_grams(8, m)
    values = []
    for rows in itertools.combinations(range(8), 4):
        at = list(rows)
        own, crosses = [k[np.ix_(at, at)] for k in grams], [k[at] for k in grams]
        values.append(
            (
                oracles.nystrom_m_hsic(own, crosses),
                oracles.nystrom_statistic(np.prod(own, axis=0), crosses),
            )
        )
    estimates, statistics = np.transpose(values)
    estimator = dhsic.NystromMHSIC(4, pairing="joint", tolerance=1e-12)
    found = [estimated(data, estimator, seed) for seed in range(3)]
    assert all(is_one_of(one, estimates) for one in found)
    assert len(set(found)) > 1
    assert is_one_of(joint(data, estimator).statistic, statistics)
    whole = estimated(data, dhsic.NystromMHSIC(8, pairing="joint", tolerance=1e-12))
    assert whole == pytest.approx(oracles.v_hsic(grams), rel=1e-6)


def test_nystrom_m__draws_landmarks_of_each_variable_by_itself():
    data, grams = rows_and_grams(5, 2)
    values = []
    for first in itertools.combinations(range(5), 3):
        for second in itertools.permutations(range(5), 3):
            at = [list(first), list(second)]
            own = [k[np.ix_(rows, rows)] for k, rows in zip(grams, at, strict=True)]
            crosses = [k[rows] for k, rows in zip(grams, at, strict=True)]
            values.append(oracles.nystrom_statistic(np.prod(own, axis=0), crosses))
    estimator = dhsic.NystromMHSIC(3, pairing="independent", tolerance=1e-12)
    found = [joint(data, estimator, 1, seed).statistic for seed in range(4)]
    assert all(is_one_of(one, values) for one in found)
    assert len(set(found)) > 2


@pytest.mark.parametrize("m", [3, 4])
def test_lancaster__embeds_to_the_product_of_centred_features(m):
    """E (x)_m (phi_m - mu_m), whose squared norm is the mean product of centred Gram matrices."""
    _, grams = rows_and_grams(6, m)
    expected = np.prod([oracles.centred_gram(k) for k in grams], axis=0).mean()
    assert oracles.v_lancaster(grams) == pytest.approx(expected, rel=1e-10)
    assert oracles.lancaster_weights(6, m).sum() == pytest.approx(0.0, abs=1e-12)
    at_all_rows = oracles.nystrom_lancaster(np.prod(grams, axis=0), grams)
    assert at_all_rows <= 6 * expected * (1 + 1e-9)


def test_interaction__is_the_lancaster_measure_of_three_variables():
    data, grams = rows_and_grams(7, 3)
    options = {"kernels": KERNELS[:3], "null": dhsic.Permutation(9), "rng": 0}
    exact = dhsic.interaction_test(*data, estimator="v-lancaster", **options)
    assert exact.estimate == pytest.approx(oracles.v_lancaster(grams), rel=1e-9)
    assert exact.statistic == pytest.approx(7 * exact.estimate)
    data, grams = rows_and_grams(4, 3)
    values = []
    pairs = list(itertools.permutations(range(4), 2))
    for at in itertools.product(itertools.combinations(range(4), 2), pairs, pairs):
        at = [list(rows) for rows in at]
        own = [k[np.ix_(rows, rows)] for k, rows in zip(grams, at, strict=True)]
        crosses = [k[rows] for k, rows in zip(grams, at, strict=True)]
        values.append(oracles.nystrom_lancaster(np.prod(own, axis=0), crosses))
    found = dhsic.interaction_test(*data, estimator=dhsic.NystromMHSIC(2), **options)
    assert is_one_of(found.statistic, values)
