"""How far below the statistic a replicate still counts as a tie, read off many replicates."""

import math

import numpy as np
import pytest

import dhsic
from dhsic.kernels import Gaussian
from tests import oracles


@pytest.mark.parametrize("seed", range(3))
def test_tolerance__at_landmarks_is_that_of_the_rule(seed):
    """Roots of statistics within 2 delta of that of the data are ties.

    delta = 4 sqrt(n) |L^-1 N|_F (eps log2 b + 3e-7) / n with N_j = |f_j| |h_j| in float32, for
    replicates by shifts of b rows: here all rows are landmarks, and all of them one group. About
    pilot means functions are smaller than as they are, and the tolerance a fifth of that. Without
    it differences of sqrt(eps) count, a tenth.
    """
    n, gammas = 24, (0.7, 0.7)
    data = list(np.random.default_rng(seed).standard_normal((2, n, 1)))
    estimator = dhsic.NystromMHSIC(n, pairing="joint", tolerance=1e-12)
    kernels = [Gaussian(gamma=gamma) for gamma in gammas]
    options = {"kernels": kernels, "estimator": estimator, "null": dhsic.Shifts(20_000)}
    found = dhsic.independence_test(*data, precision="float32", rng=0, **options)
    grams = [oracles.gaussian_gram(x, x, gamma) for x, gamma in zip(data, gammas, strict=True)]
    whitening = np.linalg.inv(np.linalg.cholesky(np.prod(grams, axis=0)))
    norms = np.prod([np.linalg.norm(gram, axis=1) for gram in grams], axis=0)
    rounding = np.finfo(np.float32).eps * math.log2(n) + 3e-7
    delta = 4.0 * math.sqrt(n) * np.linalg.norm(whitening * norms) * rounding / n
    replicates = np.sort(found.null_distribution)[::-1]
    counted = round(found.pvalue * (len(replicates) + 1)) - 1
    tolerance = math.sqrt(found.statistic) - math.sqrt(replicates[counted - 1])
    assert found.landmarks.kept == n
    assert 1 / 16 < tolerance / (2.0 * delta) < 1.0
