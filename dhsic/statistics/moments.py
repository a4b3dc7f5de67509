"""Means and second moments of functions of rows, in one pass, and the limit laws they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.passes import Footprint, Pass, RowBlock
from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.linalg import row_products, spectrum
from dhsic.nulls import ChiSquareMixture, Distribution, GammaDistribution, Spectral
from dhsic.statistics.features import Features, Layout
from dhsic.statistics.gram_sums import permutation_moments
from dhsic.statistics.outer import whiten

Matrix = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]
Pairs = Sequence[tuple[int, ...]]
Numbered = Mapping[int, Features] | Sequence[Features]

BOTH: Pairs = ((0, 1), (0, 0), (1, 1))
"""Products of the features of two kernels, and of either with itself."""
_ROWS = 1024


class MomentSums(NamedTuple):
    """Sums over rows, times their weights."""

    sums: Vector
    """Of functions, shape (D,)."""
    products: Vector
    """Of products of two, shape (P,)."""


@dataclass(frozen=True)
class MomentsPass(Pass[MomentSums]):
    """Sums of functions of rows and of their products.

    The functions are those of a layout, or the products of (1, f) and (1, h) of features f and h of
    two kernels: their means are known only after the pass, and with the constant what is centred is
    a linear function of the products. Sums are float64, since whitening would turn what float32
    leaves of the least eigenvalues into negative ones.

    Parameters
    ----------
    layout : Layout or Terms
        The functions, and the crossings whose products are summed.
    n : int
        Rows of the data.
    squares : float, optional
        Mean square of the weights of the rows, which are the last variable and have the mean 1.
        Rows count alike where it is not given.
    products : bool, optional
        Whether the functions are the products of the two features of a single crossing, whose
        second moments are those of their limit law.
    name : str, optional
        Name of the pass in progress reports.
    """

    layout: Any
    n: int
    squares: float | None = None
    products: bool = False
    name: str = "feature moments"

    @property
    def shape(self) -> tuple[int, int]:
        """Features of either kernel, with the constant."""
        first, second = self.layout.crossings[0].shape
        return first + 1, second + 1

    @property
    def sizes(self) -> tuple[int, int]:
        """Functions, and products of two of them."""
        first, second = self.shape
        if self.products:
            return first * second, (first * second) ** 2
        return self.layout.n_features, int(self.layout.crossings[-1].at.stop)

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        (m, p), tile = self.sizes, min(rows, _ROWS)
        copies = self.layout.n_features * (1 + (self.squares is not None))
        largest = max(prod(crossing.shape) for crossing in self.layout.crossings)
        if self.products:  # in half of the precision, beside features with their constants twice
            copies, largest = m // 2 + 3 * (self.layout.n_features + 2), p
        scratch = self.layout.scratch(tile) + 8 * (largest + tile * copies)
        return Footprint(payload=self.layout.nbytes, scratch=scratch, state=8 * (m + p))

    def chunk(self, block: RowBlock) -> MomentSums:
        """Sums over one block."""
        sums = MomentSums(*map(np.zeros, self.sizes))
        add = self._add_products if self.products else self._add_features
        for start in range(0, block.rows, _ROWS):
            values = [x[start : start + _ROWS] for x in block.values]
            add(self.layout.features(values, np.float64), values[-1], sums)
        return sums

    def _add_features(self, features: Matrix, weights: Vector, sums: MomentSums) -> None:
        weighted = features if self.squares is None else features * weights
        sums.sums[:] += weighted.sum(axis=0)
        for crossing in self.layout.crossings:
            products = weighted[:, crossing.first].T @ features[:, crossing.second]
            crossing.of(sums.products)[:] += products

    def _add_products(self, features: Matrix, weights: Vector, sums: MomentSums) -> None:
        (crossing,) = self.layout.crossings
        first, second = (with_constant(features[:, at]) for at in (crossing.first, crossing.second))
        sums.sums[:] += (first.T @ (weights * second)).ravel()
        # Terms enter the law by their squares, each over the part of its variance that is left.
        first *= weights / np.sqrt(self.left(weights))
        # In single precision, at half of the cost: the law needs few digits, and tiles are added up
        # in double precision.
        rows = row_products(first.astype(np.float32), second.astype(np.float32))
        sums.products[:] += (rows.T @ rows).ravel()

    def of(self, sums: MomentSums) -> list[tuple[Vector, Vector]]:
        """Of every crossing sums of its first functions, and of its products."""
        each = self.layout.crossings
        return [(sums.sums[one.first], one.of(sums.products)) for one in each]

    def left(self, weights: Vector) -> Vector:
        """The variance that is left of an error of variance 1 about the weighted mean, as weights.

        With shares s = w / sum w it is v_i = 1 - 2 s_i + sum_j s_j^2. For independent errors of
        both variables, A = diag(w) - w w' / sum w makes the sum of products of what is left, whose
        variance is |A|^2 = sum_i w_i^2 v_i. The squares of the terms have the expectation
        sum_i w_i^2 v_i^2, and divided by v_i the same.
        """
        assert self.squares is not None
        return 1.0 - (2.0 * weights - self.squares) / self.n

    def centred(self, sums: MomentSums) -> tuple[Vector, Vector]:
        """C, shape (r, s), and the second moment of its terms, shape (r s, r s)."""
        means = sums.sums.reshape(self.shape) / sums.sums[0]
        # Centring is linear: the second moment of centred terms follows from that of the plain
        # ones.
        first, second = centring(means[1:, 0]), centring(means[0, 1:])
        both = np.kron(first, second)
        moment = sums.products.reshape(both.shape[1], -1) / self.n
        return first @ means @ second.T, both @ moment @ both.T


@dataclass(frozen=True)
class FeatureMoments:
    """Means of features about their provisional ones, and covariances with 1/n.

    Parameters
    ----------
    layout : Layout
        Where they are.
    means : ndarray, shape (D,)
        Of the features as they are summed.
    values : ndarray, shape (P,)
        Covariances of these.
    features : mapping of int to Features
        Those of the kernels, whose factors whiten them.
    """

    layout: Layout
    means: Vector
    values: Vector
    features: Mapping[int, Features]

    def mean(self, k: int) -> Vector:
        """Those of kernel k, shape (D_k,)."""
        return self.means[self.layout.places[k]]

    def plain(self, first: int, second: int) -> Vector:
        """The covariance of the features of two kernels as they are summed, shape (D_1, D_2)."""
        return self.layout.place((first, second)).of(self.values)

    def covariance(self, first: int, second: int) -> Matrix:
        """That of the whitened features."""
        factors = self.features[first].after, self.features[second].after
        covariance: Matrix = whiten(self.plain(first, second)[None], factors)[0]
        return covariance

    def spectrum(self, k: int) -> Vector:
        """Eigenvalues of the covariance of a kernel."""
        return spectrum(self.covariance(k, k))


def second_moments(
    session: Session,
    features: Numbered,
    pairs: Pairs = BOTH,
    *,
    norms: bool = False,
) -> FeatureMoments:
    """Means of the features of some kernels, and covariances of pairs of them, in one pass.

    Parameters
    ----------
    session : Session
        The run. Rows count by their weights, where they have any.
    features : sequence of Features, or mapping from int
        Those of the kernels.
    pairs : sequence of tuple of int, optional
        Numbers of kernels.
    norms : bool, optional
        Whether features are whitened row by row, and their squared norm stands beside them.

    Returns
    -------
    FeatureMoments
    """
    run, numbered, reduction = _reduction(session, features, pairs, norms=norms)
    sums, n = run.reduce(reduction), session.n
    means, values = sums.sums / n, sums.products / n
    for crossing in reduction.layout.crossings:
        # E f h' - E f E h', where both means are small, since features are about provisional ones.
        crossing.of(values)[:] -= np.outer(means[crossing.first], means[crossing.second])
    return FeatureMoments(reduction.layout, means, values, numbered)


def moments_steps(
    session: Session,
    features: Numbered,
    pairs: Pairs = BOTH,
    *,
    norms: bool = False,
    then: str = "solve",
) -> list[DriverStep | PassPlan]:
    """The pass of `second_moments` and the step after it."""
    run, _, reduction = _reduction(session, features, pairs, norms=norms)
    widest = max(f.n_summed for f in reduction.layout.kernels.values())
    return [
        run.plan(reduction),
        DriverStep(then, 4 * 8 * 3 * widest**2, 8 * sum(reduction.sizes)),
    ]


def _reduction(
    session: Session, features: Numbered, pairs: Pairs, *, norms: bool, products: bool = False
) -> tuple[Session, dict[int, Features], MomentsPass]:
    """The run over the variables and weights, features by numbers of kernels, and the pass."""
    made, layout = laid_out(features, pairs, norms=norms)
    if session.weights is None:
        return session, made, MomentsPass(layout, session.n)
    weighted = session.over((*session.sources, session.weights.source))
    name = "weighted products" if products else MomentsPass.name
    return weighted, made, MomentsPass(layout, session.n, session.weights.squares, products, name)


def laid_out(
    features: Numbered, pairs: Pairs, *, norms: bool
) -> tuple[dict[int, Features], Layout]:
    """The features by the numbers of their kernels, with norms beside them, and their layout."""
    made = dict(features.items() if isinstance(features, Mapping) else enumerate(features))
    if norms:
        made = {k: replace(f, matrix=f.by_row, normed=True) for k, f in made.items()}
    return made, Layout.of({k: f.carried(f.matrix) for k, f in made.items()}, pairs)


def with_constant(features: Matrix) -> Matrix:
    """(1, phi) of rows, from phi (b, r)."""
    return np.insert(features, 0, 1.0, axis=1)


def centring(means: Vector) -> Vector:
    """The matrix (r, 1 + r) that makes phi - mu of (1, phi)."""
    return np.insert(np.eye(len(means)), 0, -means, axis=1)


def weighted_products(
    session: Session, features: Sequence[Features]
) -> tuple[Vector, ChiSquareMixture]:
    """The weighted cross-covariance of two kernels, and the limit law of n times its squared norm.

    Rows are draws from a law Q, and their weights are proportional to dP/dQ, of the law P of the
    population. With weights of mean 1, and weighted means mu and nu, it is

    C = (1/n) sum_i w_i (phi_i - mu) (x) (psi_i - nu)

    Where the variables are independent under P, its errors in mu and nu enter as their product,
    which is of the order 1/n. So sqrt(n) C is in the limit normal, with the second moment under Q
    of the terms of the sum, and n |C|^2 a mixture of chi-squares whose weights are the eigenvalues
    of it.
    """
    run, _, reduction = _reduction(session, features, BOTH[:1], norms=False, products=True)
    sums = run.reduce(reduction)
    session.step("spectrum")
    cross, moment = reduction.centred(sums)
    return cross, ChiSquareMixture.of_covariance(moment)


def weighted_steps(session: Session, features: Sequence[Features]) -> list[DriverStep | PassPlan]:
    """The pass of `weighted_products` and the step after it."""
    run, _, reduction = _reduction(session, features, BOTH[:1], norms=False, products=True)
    _, products = reduction.sizes
    return [
        run.plan(reduction),
        DriverStep("spectrum", 5 * 8 * products, 8 * products),
    ]


def spectral_law(left: Vector, right: Vector, null: Spectral, seed: int) -> Distribution:
    """The limit of n |C|^2 under independence, by the spectra of the covariances of either side.

    Zhang et al. (2018), sections 4.1.2 and 4.2.2: products of the eigenvalues weigh chi-squares.
    """
    return null.distribution(ChiSquareMixture.of_products(left, right), seed)


def gamma_law(moments: FeatureMoments, n: int) -> GammaDistribution:
    """The gamma law with the mean and the variance of n |C|^2 over all permutations.

    The variance holds fourth moments, for which the moments are of features with their norms.
    """
    # The last row and column belong to the squared norm.
    covariances = [moments.plain(m, m)[:-1, :-1] for m in (0, 1)]
    mean, variance = permutation_moments(
        n,
        traces=np.array([np.trace(c) for c in covariances]),
        squares=np.array([np.vdot(c, c) for c in covariances]),
        fourths=np.array([_fourth_moment(moments, m) for m in (0, 1)]),
    )
    return GammaDistribution(mean, variance)


def _fourth_moment(moments: FeatureMoments, k: int) -> float:
    """Mean of |phi - mu|^4 from means and covariances of (phi, |phi|^2).

    |phi - mu|^2 is the inner product of (phi, |phi|^2) and (-2 mu, 1), plus |mu|^2.
    """
    *mean, square = moments.mean(k)
    form = np.append(-2.0 * np.array(mean), 1.0)
    # E q^2 = Var q + (E q)^2 with q = |phi - mu|^2 and E q = E |phi|^2 - |mu|^2.
    return float(form @ moments.plain(k, k) @ form + (square - np.dot(mean, mean)) ** 2)
