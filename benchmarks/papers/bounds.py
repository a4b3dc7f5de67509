"""How often errors violate the bounds of theory, and how loose these are.

Theorem 4.1 of Chatalic et al. (2022) for a normal variable and for a mixture of 8 normal clouds in
10 dimensions, and their theorem 5.1 for the MMD of two normal variables; proposition 4.1 and lemma
4.4 of Kalinke and Szabo (2023) for Nystrom M-HSIC and for V-HSIC of normal variables; all with
Gaussian kernels, for which embeddings and HSIC are known in closed form. Landmarks are drawn with
replacement, as the theorems have it; the bounds hold with probability 1 - delta or more. Effective
dimensions are those of 2,000 rows; all have 700 landmarks. Equation 12 of Perez-Suay and
Camps-Valls (2018) bounds the mean error, here of the product of Gram matrices by 700 frequencies,
over n^2 and in the operator norm. `quantile` is that of the errors at 1 - delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

import dhsic
from benchmarks.shared.embeddings import Mixture, NormalPairs, nystrom_error
from benchmarks.study import Cell, Row, Study
from dhsic.analysis import (
    CovarianceSpectrum,
    covariance_spectrum,
    nystrom_m_bound,
    nystrom_mmd_bound,
    rff_hsic_bound,
    v_statistic_bound,
)
from dhsic.analysis import mean_embedding_bound as embedding_bound
from dhsic.estimators.pointwise import squared_hsic
from dhsic.features import FourierFeatures
from dhsic.kernels import Gaussian, Kernel
from dhsic.landmarks import prune
from dhsic.linalg import hadamard

LANDMARKS = 700
DELTA = 0.1
"""Probability of a violation."""
PILOT_ROWS = 2000
TOLERANCE = 1e-10

Rng = np.random.Generator


def spectrum(*pilot: NDArray[Any], gammas: Iterable[float]) -> CovarianceSpectrum:
    return covariance_spectrum(*pilot, kernels=[Gaussian(gamma=gamma) for gamma in gammas])


@dataclass(frozen=True)
class Case:
    bound: Callable[[int, int, float], float]
    """For n, p and the probability of a violation."""
    error: Callable[[int, int, Rng], float]
    """Of one draw of the data and of the landmarks."""


def embedding_case(law: Mixture) -> Case:
    pilot = law.draw(PILOT_ROWS, np.random.default_rng(1))
    known = spectrum(pilot, gammas=[law.gamma])

    def bound(n: int, p: int, delta: float) -> float:
        return embedding_bound(n, p, delta, known).total

    def error(n: int, p: int, rng: Rng) -> float:
        x = law.draw(n, rng)
        return nystrom_error(law, x, x[_drawn(n, p, rng)], TOLERANCE)

    return Case(bound, error)


def hsic_case(law: NormalPairs) -> Case:
    pilot = law.draw(PILOT_ROWS, np.random.default_rng(1))
    joint = spectrum(*pilot, gammas=law.gammas)
    marginals = [spectrum(x, gammas=[g]) for x, g in zip(pilot, law.gammas, strict=True)]
    kernels = tuple(Gaussian(gamma=gamma) for gamma in law.gammas)

    def bound(n: int, p: int, delta: float) -> float:
        return nystrom_m_bound(n, p, delta / (len(marginals) + 1), joint, marginals).total

    def error(n: int, p: int, rng: Rng) -> float:
        data = law.draw(n, rng)
        rows = _drawn(n, p, rng)
        factor = prune([x[rows] for x in data], kernels, TOLERANCE)
        z = [x[rows[factor.kept]] for x in data]
        tiles = [k(x, points) for k, x, points in zip(kernels, data, z, strict=True)]
        means = np.array([tile.mean(axis=0) for tile in tiles])
        u = hadamard(tiles).mean(axis=0) - means.prod(axis=0)
        grams = [k(points) for k, points in zip(kernels, z, strict=True)]
        own = replace(factor, kept=np.arange(factor.rank))  # z is in the order of the factor
        squared = squared_hsic(grams, own, means, u, TOLERANCE)
        return abs(math.sqrt(squared) - math.sqrt(law.squared_hsic()))

    return Case(bound, error)


def mmd_case(gap: float) -> Case:
    """Of N(0, 1) and N(gap, 1)."""
    laws = [Mixture(np.array([[centre]]), 0.5) for centre in (0.0, gap)]
    pooled = Mixture(np.array([[0.0], [gap]]), 0.5)
    # |mu_1 + mu_2|^2 is 4 times that of the pooled law.
    own = sum(law.squared_norm for law in laws)
    true = math.sqrt(2.0 * own - 4.0 * pooled.squared_norm)
    pilots = [law.draw(PILOT_ROWS, np.random.default_rng(1)) for law in laws]
    spectra = [spectrum(pilot, gammas=[0.5]) for pilot in pilots]

    def bound(n: int, p: int, delta: float) -> float:
        return nystrom_mmd_bound((n, n), (p, p), delta / 2.0, spectra).total

    def error(n: int, p: int, rng: Rng) -> float:
        kernel: Kernel = Gaussian(gamma=0.5)
        embedded = list[dhsic.MeanEmbedding]()
        for law in laws:
            x, count = law.draw(n, rng), len(_drawn(n, p, rng))
            embedded.append(dhsic.mean_embedding(x, kernel, count, rng=rng, tolerance=TOLERANCE))
            kernel = embedded[0].kernel
        return abs(dhsic.mmd(*embedded) - true)

    return Case(bound, error)


def v_statistic_case(law: NormalPairs) -> Case:
    kernels = [Gaussian(gamma=gamma) for gamma in law.gammas]
    true = math.sqrt(law.squared_hsic())

    def bound(n: int, p: int, delta: float) -> float:
        return v_statistic_bound(n, delta, true, n_variables=len(kernels)).total

    def error(n: int, p: int, rng: Rng) -> float:
        found = dhsic.hsic(*law.draw(n, rng), kernels=kernels, estimator="v-hsic", rng=0)
        return abs(math.sqrt(found.estimate) - true)

    return Case(bound, error)


def rff_case(law: NormalPairs) -> Case:
    def bound(n: int, p: int, delta: float) -> float:
        return rff_hsic_bound(n, p)

    def error(n: int, p: int, rng: Rng) -> float:
        exact, approximate = [], []
        for x, gamma in zip(law.draw(n, rng), law.gammas, strict=True):
            kernel = Gaussian(gamma=gamma)
            draw = FourierFeatures.draw(kernel, np.zeros(1), p, rng, np.float64, orthogonal=False)
            features = draw(x)
            exact.append(_centred(kernel(x)))
            approximate.append(_centred(features @ features.T))
        difference = approximate[0] @ approximate[1] - exact[0] @ exact[1]
        (largest,) = svds(difference, 1, v0=difference[0], return_singular_vectors=False)
        return float(largest) / n**2

    return Case(bound, error)


def _centred(gram: NDArray[Any]) -> NDArray[Any]:
    gram = gram - gram.mean(axis=0)
    centred: NDArray[Any] = gram - gram.mean(axis=1)[:, None]
    return centred


def _drawn(n: int, p: int, rng: Rng) -> NDArray[np.intp]:
    """Rows drawn with replacement, each once: more often they add nothing to the span."""
    return np.unique(rng.integers(n, size=p))


CASES: dict[str, Case] = {
    "embedding, normal": embedding_case(Mixture.normal()),
    "embedding, 8 clouds of 10": embedding_case(Mixture.clouds(8, 10)),
    "HSIC, independent": hsic_case(NormalPairs(np.eye(2), (0.5, 0.5))),
    "HSIC, correlated": hsic_case(NormalPairs(0.4 * np.eye(2) + 0.6, (0.5, 0.5))),
    "HSIC, 3 variables": hsic_case(NormalPairs(0.4 * np.eye(3) + 0.6, (0.5, 0.2, 0.5))),
    "MMD, means 0 and 0.5": mmd_case(0.5),
    "V-HSIC, correlated": v_statistic_case(NormalPairs(0.4 * np.eye(2) + 0.6, (0.5, 0.5))),
    "V-HSIC, 3 variables": v_statistic_case(NormalPairs(0.4 * np.eye(3) + 0.6, (0.5, 0.2, 0.5))),
    "RHSIC, correlated": rff_case(NormalPairs(0.4 * np.eye(2) + 0.6, (0.5, 0.5))),
}


def errors(case: str, n: int, p: int, seeds: Iterable[int]) -> list[float]:
    return [one_error((case, n, p), seed) for seed in seeds]


def one_error(setting: tuple[str, int, int], seed: int) -> float:
    case, n, p = setting
    return CASES[case].error(n, p, np.random.default_rng([list(CASES).index(case), n, p, seed]))


def measure(cell: Cell, run: int) -> float:
    return one_error((cell.data, cell.n, LANDMARKS), run)


def rows(cell: Cell, found: Sequence[float]) -> Iterator[Row]:
    bound = CASES[cell.data].bound(cell.n, LANDMARKS, DELTA)
    yield {
        "violated": sum(error > bound for error in found),
        "bound": bound,
        "quantile": float(np.quantile(found, 1.0 - DELTA)),
        "largest error": max(found),
        "mean error": float(np.mean(found)),
    }


STUDY = Study(
    name="bounds",
    title="Do the bounds of theory hold, and how loose are they?",
    data=CASES,
    methods={"700 landmarks": None},
    sizes=(1000,),
    measure=measure,
    columns=("violated", "bound", "quantile", "largest error", "mean error"),
    runs=10_000,
    rows=rows,
    small={"runs": 2},
)
