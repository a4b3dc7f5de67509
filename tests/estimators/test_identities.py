"""Kernels of a grid that are 0 between all rows are left out, by their own variable alone."""

import numpy as np
import pytest

import dhsic
from dhsic.estimators.base import fit_combinations_on_sample
from dhsic.estimators.identities import (
    compared,
    compared_in_samples,
    is_held,
    is_identity,
    nearness,
)
from dhsic.kernels import Combinations, Gaussian
from tests.estimators.features import session_on
from tests.estimators.levels import Check

OF_ONE = ["v-hsic", "u-hsic"]


def normals(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def test_compared__leaves_out_kernels_that_are_near_themselves_alone():
    kernels = tuple(Gaussian(gamma=g) for g in (1.0, 4.0, 16.0))
    combinations = Combinations.against(kernels, Gaussian(gamma=1.0))
    assert [is_identity(near, 100) for near in (0.5, 0.02, 0.019)] == [False, False, True]
    assert compared(combinations, {2}) == [0, 1]
    assert compared(combinations, {0, 1}) == [0, 2]  # the reference stays


@pytest.mark.parametrize(("gamma", "held"), [(0.02, True), (0.3, False), (20.0, False)])
def test_held__is_what_landmarks_span_of_a_kernel_at_most_rows(gamma, held):
    """Of 16 columns, where rows are at squared distances of 32: exp(-0.3 32) is next to nothing."""
    kernel = Gaussian(gamma=gamma)
    sample, landmarks = normals(400, 16), normals(60, 16, seed=1)
    sample[:80] = landmarks[:, None].repeat(2, axis=1).reshape(-1, 16)[:80]  # a fifth are landmarks
    factor = np.linalg.cholesky(kernel(landmarks))
    values = kernel(sample, landmarks)
    assert is_held(kernel, sample, values, factor) is held
    share = np.square(np.linalg.solve(factor, values.T)).sum(axis=0)
    assert (np.quantile(share, 0.75) >= 0.05) is np.bool_(held)


def test_nearness__counts_a_row_and_itself():
    x = 1e6 * np.arange(50.0)[:, None]
    assert nearness(Gaussian(gamma=1.0)(x)) == 1 / 50


@pytest.mark.parametrize("estimator", OF_ONE)
@pytest.mark.parametrize(("d", "tried", "left_out"), [(1, 15, 0), (20, 9, 1), (90, 9, 2)])
def test_narrow_kernels__of_many_columns_are_left_out_and_counted(estimator, d, tried, left_out):
    x, y = normals(300, d), normals(300, 1, seed=1)
    found = dhsic.independence_test(x, y, estimator=estimator, kernels=dhsic.Grid(), rng=0)
    assert len(found.grid.combinations) == tried - left_out
    told = f"combinations left out, with kernels that compare hardly any rows: {left_out}"
    assert (told in found.null_reason) == (left_out > 0)


def test_rows_of_either_variable__in_any_order_keep_the_same_kernels():
    """Else a null of permutations would not be exact."""
    x, y = normals(200, 20), normals(200, 8, seed=1)
    grid = dhsic.Grid()
    orders = [np.arange(200), np.random.default_rng(2).permutation(200)]
    kept = [dhsic.independence_test(x, y[order], kernels=grid, rng=0) for order in orders]
    names = [{one.kernels for one in found.grid.combinations} for found in kept]
    assert names[0] == names[1]
    assert 1 < len(names[0]) < 16


def test_little_memory__cuts_what_is_left_and_gives_the_same(no_libraries):
    x, y = normals(1000, 50), normals(1000, 50, seed=1)
    options = {"estimator": "v-hsic", "kernels": dhsic.Grid(), "rng": 0, "threads": 1}
    whole = dhsic.independence_test(x, y, **options)
    cut = dhsic.independence_test(x, y, **options, memory="40MiB")
    assert len(cut.passes) > len(whole.passes)
    np.testing.assert_allclose(cut.null_scores, whole.null_scores, rtol=1e-8)
    assert cut.pvalue == whole.pvalue
    assert cut.null_reason == whole.null_reason


def rejections(draw, alpha):
    seed = 0
    while True:
        x, y = draw(np.random.default_rng([5, seed]))
        found = dhsic.independence_test(x, y, rng=seed, threads=1, n_resamples=99)
        assert len(found.grid.combinations) < 14
        yield found.pvalue <= alpha
        seed += 1


LEVEL = Check(60, range(6), 200, range(22))


def test_level__is_kept():
    assert LEVEL.passes(
        rejections(lambda rng: (rng.standard_normal((60, 20)), rng.standard_normal(60)), 0.05)
    )


def test_power__is_not_spent_on_kernels_that_compare_nothing():
    """Of |x_1| among 20 columns: 0.3 of the data sets with all combinations."""

    def dependent(rng):
        x = rng.standard_normal((200, 20))
        return x, 1.2 * np.abs(x[:, 0]) + rng.standard_normal(200)

    runs = rejections(dependent, 0.05)
    assert sum(next(runs) for _ in range(40)) >= 20


def test_samples__tell_of_categories_and_distances_that_all_rows_are_compared():
    session = session_on((normals(100, 20), np.arange(100.0)[:, None]))
    gaussians = (Gaussian(gamma=gamma) for gamma in (0.05, 1e9))
    kernels = dhsic.kernels.Delta(), *gaussians
    combinations = Combinations.against(kernels, dhsic.kernels.Linear())
    fitted, samples = fit_combinations_on_sample(session, combinations)
    assert compared_in_samples(fitted, samples, 100) == [0, 1]
