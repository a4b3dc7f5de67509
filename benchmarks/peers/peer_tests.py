"""Tests of other packages, called as their users call them, and ours beside them.

Every test is a function of x, y, the number of resamples and a seed that gives a p-value; one whose
null is fitted takes no notice of the resamples. Each has its package's own kernels and bandwidths,
on the columns as they are; those of causal-learn but hsic_test_gamma standardise the columns. The
width that KCI takes by itself shrinks with the columns: of 90 its Gram matrix is the identity, so
that it is called with the median width too.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

import dhsic

Array = NDArray[Any]
Test = Callable[..., float]
"""Of x, y, the number of resamples and a seed."""

MEDIAN_ROWS = 1000
RESAMPLES = 250
"""Of tests that draw any."""


@dataclass(frozen=True)
class Method:
    """A test, the package it is of, and where its p-value comes from."""

    test: Test
    package: str
    null: str


def module(name: str) -> Any:
    """A module of another package, or an error that names the group which installs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        msg = f"{name} is needed and cannot be imported ({error}): install the group peers"
        raise ImportError(msg) from error


def ours(x: Any, y: Any, resamples: int, seed: int, **options: Any) -> float:
    """The p-value of a null that has replicates, or of the default."""
    return _pvalue(x, y, seed, n_resamples=resamples, **options)


def ours_fitted(x: Any, y: Any, _: int, seed: int, **options: Any) -> float:
    """The p-value of a null that has none, or has as many as without a number."""
    return _pvalue(x, y, seed, **options)


def _pvalue(x: Any, y: Any, seed: int, **options: Any) -> float:
    return dhsic.independence_test(x, y, rng=seed, **options).pvalue


def hyppo_permutation(x: Array, y: Array, resamples: int, seed: int, *, kind: str) -> float:
    np.random.seed(seed)  # noqa: NPY002 (Hsic draws from there, whatever random_state it gets)
    with warnings.catch_warnings(action="ignore"):  # it warns of fewer than 1,000 resamples
        test = getattr(module("hyppo.independence"), kind)().test
        return float(test(x, y, reps=resamples, auto=False)[1])


def hyppo_chi_square(x: Array, y: Array, _resamples: int, _seed: int, *, kind: str) -> float:
    return float(getattr(module("hyppo.independence"), kind)().test(x, y, auto=True)[1])


def dcor_dcov(x: Array, y: Array, resamples: int, seed: int) -> float:
    test = module("dcor").independence.distance_covariance_test
    return float(test(x, y, num_resamples=resamples, random_state=seed).pvalue)


def statsmodels_dcov(x: Array, y: Array, resamples: int, seed: int) -> float:
    test = module("statsmodels.stats.dist_dependence_measures").distance_covariance_test
    with warnings.catch_warnings(
        action="ignore"
    ):  # where no replicate is as large it takes a bound
        return float(test(x, y, B=resamples, method="emp", rng=seed)[1])


def causal_learn_kci(x: Array, y: Array, _: int, seed: int, *, width: str) -> float:
    np.random.seed(seed)  # noqa: NPY002 (the rows of the median are drawn from there)
    return float(
        module("causallearn.utils.KCI.KCI").KCI_UInd(est_width=width).compute_pvalue(x, y)[0]
    )


def causal_learn_rit(x: Array, y: Array, _: int, seed: int) -> float:
    np.random.seed(seed)  # noqa: NPY002 (the frequencies are drawn from there)
    return float(module("causallearn.utils.RCIT.RCIT").RIT().compute_pvalue(x, y)[0])


def causal_learn_hsic(x: Array, y: Array, _resamples: int, _seed: int) -> float:
    return float(module("causallearn.search.FCMBased.lingam.hsic").hsic_test_gamma(x, y)[1])


def scikit_learn(
    x: Array, y: Array, resamples: int, seed: int, *, sampler: str, components: int
) -> float:
    """Permutations of the squared norm of the cross-covariance of features."""
    features = getattr(module("sklearn.kernel_approximation"), sampler)
    f, g = (
        features(gamma=_median_gamma(v), n_components=components, random_state=seed).fit_transform(
            v
        )
        for v in (x, y)
    )
    f -= f.mean(axis=0)
    rng = np.random.default_rng(seed)
    observed = np.sum((f.T @ g) ** 2)
    replicates = [np.sum((f.T @ rng.permutation(g)) ** 2) for _ in range(resamples)]
    return float(1 + np.sum(replicates >= observed)) / (1 + resamples)


def _median_gamma(v: Array) -> float:
    return float(1.0 / np.median(pdist(v[:MEDIAN_ROWS], "sqeuclidean")))


def _dhsic(null: str, **options: Any) -> Method:
    test = ours if null in ("auto", "permutation") else ours_fitted
    return Method(partial(test, null=null, **options), "dhsic", null)


def _sklearn(sampler: str, components: int) -> Method:
    test = partial(scikit_learn, sampler=sampler, components=components)
    return Method(test, "scikit-learn", "permutation")


METHODS: Mapping[str, Method] = {
    "dhsic default": _dhsic("auto"),
    "dhsic nystrom-m, permutation": _dhsic(
        "permutation", kernels="gaussian", estimator="nystrom-m"
    ),
    "dhsic nystrom-m, spectral": _dhsic("spectral", kernels="gaussian", estimator="nystrom-m"),
    "dhsic v-hsic, permutation": _dhsic(
        "permutation", kernels="gaussian", estimator="v-hsic", memory="8GiB"
    ),
    "dhsic v-hsic, gamma": _dhsic("gamma", kernels="gaussian", estimator="v-hsic"),
    "dhsic dcov, permutation": _dhsic("permutation", estimator="dcov", memory="8GiB"),
    "hyppo Hsic": Method(partial(hyppo_permutation, kind="Hsic"), "hyppo", "permutation"),
    "hyppo Hsic, fast": Method(partial(hyppo_chi_square, kind="Hsic"), "hyppo", "chi-square"),
    "hyppo Dcorr": Method(partial(hyppo_permutation, kind="Dcorr"), "hyppo", "permutation"),
    "hyppo Dcorr, fast": Method(partial(hyppo_chi_square, kind="Dcorr"), "hyppo", "chi-square"),
    "dcor dcov": Method(dcor_dcov, "dcor", "permutation"),
    "statsmodels dcov": Method(statsmodels_dcov, "statsmodels", "permutation or bound"),
    "causal-learn KCI": Method(
        partial(causal_learn_kci, width="empirical"), "causal-learn", "gamma"
    ),
    "causal-learn KCI, median": Method(
        partial(causal_learn_kci, width="median"), "causal-learn", "gamma"
    ),
    "causal-learn hsic_test_gamma": Method(causal_learn_hsic, "causal-learn", "gamma"),
    "causal-learn RIT": Method(causal_learn_rit, "causal-learn", "mixture of chi-squares"),
    "scikit-learn Nystroem 50": _sklearn("Nystroem", 50),
    "scikit-learn Nystroem 100": _sklearn("Nystroem", 100),
    "scikit-learn RBFSampler 50": _sklearn("RBFSampler", 50),
    "scikit-learn RBFSampler 100": _sklearn("RBFSampler", 100),
}
