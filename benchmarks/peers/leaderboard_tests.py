"""Tests of the leaderboard: those of `peer_tests.py`, and others that are called here.

Those of one column a variable, or of one column of y, are not given more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.peer_tests import METHODS, Test, module, ours_fitted

Array = NDArray[np.float64]

RESAMPLES = 199
"""Of peers that draw any; dhsic has its own default."""


@dataclass(frozen=True)
class Entry:
    """A test of the leaderboard."""

    test: Test
    package: str
    rows: int = 20_000
    """The most that it is given, for its time or memory."""
    columns: tuple[float, float] = (np.inf, np.inf)
    """The most of x and y that it takes."""

    def takes(self, n: int, x: Array, y: Array) -> bool:
        """Whether it takes so many rows, and as many columns as the data have."""
        widths = (x.shape[1], y.shape[1])
        return n <= self.rows and all(
            d <= most for d, most in zip(widths, self.columns, strict=True)
        )

    def __call__(self, data: list[Array], seed: int) -> float:
        """The p-value of two variables, shapes (n, d_x) and (n, d_y)."""
        return float(self.test(*data, RESAMPLES, seed))


def chatterjee(x: Array, y: Array, resamples: int, seed: int) -> float:
    """Chatterjee's correlation by permutations, the more significant of x on y and y on x."""
    correlation = module("scipy.stats").chatterjeexi
    method = module("scipy.stats").PermutationMethod(n_resamples=resamples, rng=seed)
    sides = ((x, y), (y, x))
    found = [correlation(u[:, 0], v[:, 0], method=method).pvalue for u, v in sides]
    return float(min(1.0, 2.0 * min(found)))


def mutual_information(x: Array, y: Array, resamples: int, seed: int) -> float:
    """Permutations of y; the sum over the columns of x of its mutual information with y."""
    estimate = module("sklearn.feature_selection").mutual_info_regression
    rng = np.random.default_rng(seed)

    def total(target: Array) -> float:
        return float(estimate(x, target, random_state=seed).sum())

    observed = total(y[:, 0])
    replicates = [total(rng.permutation(y[:, 0])) for _ in range(resamples)]
    return (1 + sum(value >= observed for value in replicates)) / (1 + resamples)


def openturns_hsic(x: Array, y: Array, resamples: int, seed: int) -> float:
    """OpenTURNS' estimator by permutations; its kernels are as wide as the standard deviation."""
    turns = module("openturns")
    turns.RandomGenerator.SetSeed(seed)
    kernels = []
    for v in (x, y):
        kernel = turns.SquaredExponential(1)
        kernel.setScale([float(v.std())])
        kernels.append(kernel)
    found = turns.HSICEstimatorGlobalSensitivity(
        kernels, turns.Sample(x), turns.Sample(y), turns.HSICUStat()
    )
    found.setPermutationSize(resamples)
    return float(found.getPValuesPermutation()[0])


def hsic_agginc(x: Array, y: Array, _: int, seed: int) -> float:
    """Whether HSICAggInc with all superdiagonals rejects at 1 or 5 %, as an upper limit of p."""
    test = module("agginc.np").agginc
    for level in (0.01, 0.05):
        if test("hsic", x, y, R=len(x) - 1, alpha=level, seed=seed, batch_size=None):
            return level
    return 1.0


def _peer(name: str, rows: int) -> Entry:
    return Entry(METHODS[name].test, METHODS[name].package, rows)


def _dhsic(**options: Any) -> Entry:
    """As it is called without a number of resamples."""
    return Entry(partial(ours_fitted, **options), "dhsic")


ENTRIES: Mapping[str, Entry] = {
    "dhsic default": _dhsic(),
    "dhsic, median heuristic": _dhsic(kernels="gaussian"),
    "hyppo Hsic": _peer("hyppo Hsic, fast", 4000),
    "hyppo Dcorr": _peer("hyppo Dcorr, fast", 4000),
    "dcor dcov": _peer("dcor dcov", 2000),
    "causal-learn KCI": _peer("causal-learn KCI", 4000),
    "causal-learn RIT": _peer("causal-learn RIT", 20_000),
    "scikit-learn RBFSampler": _peer("scikit-learn RBFSampler 100", 20_000),
    "HSICAggInc": Entry(hsic_agginc, "agginc", 300),
    "OpenTURNS HSIC": Entry(openturns_hsic, "openturns", 300, (1, 1)),
    "scipy chatterjeexi": Entry(chatterjee, "scipy", 20_000, (1, 1)),
    "mutual information": Entry(mutual_information, "scikit-learn", 300, (np.inf, 1)),
}
"""In the order of the table.

Without options hyppo takes a chi-square null of more than 20 rows, and Hsic kernels whose width
does not follow the units.
"""
