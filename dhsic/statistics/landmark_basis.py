"""Landmarks that combinations of kernels share, and the factors of their Gram matrices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.engine.session import Session
from dhsic.kernels import Combinations, Kernel
from dhsic.landmarks import (
    Landmarks,
    Pairing,
    Pool,
    Selection,
    prune,
    select,
    warn_of_rounding,
)
from dhsic.linalg import PivotedCholesky, hadamard, pivoted_cholesky, solve_lower

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class LandmarkBasis:
    """Landmarks that span those drawn in the RKHS of every combination of kernels.

    Parameters
    ----------
    combinations : Combinations
        As fitted.
    landmarks : Landmarks
        Those that any combination keeps.
    kept : tuple of ndarray of int
        Those that each combination keeps, ascending.
    tolerance : float
        See `dhsic.linalg.pivoted_cholesky`.
    held : tuple of PivotedCholesky or None
        The factor of every combination, where all of them fit; else they are computed again when
        they are needed.
    drawn : int
        Landmarks before pruning.
    samples : tuple of ndarray, shapes (s, d_m)
        Other rows of every variable.
    pairing : {"independent", "joint"}
        As they were drawn.
    """

    combinations: Combinations
    landmarks: Landmarks
    kept: tuple[Indices, ...]
    tolerance: float
    held: tuple[PivotedCholesky, ...] | None
    drawn: int
    samples: tuple[Vector, ...]
    pairing: Pairing

    @classmethod
    def of(
        cls,
        combinations: Combinations,
        drawn: Landmarks,
        tolerance: float,
        samples: Sequence[Vector],
        pairing: Pairing,
        *,
        hold: bool,
    ) -> LandmarkBasis:
        """Prune what is drawn, and hold on to the factors where asked."""
        each: list[Indices] = []
        held: list[PivotedCholesky] = []
        reference = combinations.reference()
        for c in range(len(combinations)):
            points = combinations.points_of(drawn.points, c)
            # K_J depends on the kernels of a combination, and so does which landmarks span the
            # others.
            kernels, leads = combinations.kernels_of(c), c == reference
            _, factor = prune(replace(drawn, points=points), kernels, tolerance, leads=leads)
            # Ascending, so that the landmarks of a strip are a slice.
            each.append(np.sort(factor.kept))
            if hold:
                # The factor counts landmarks among those that are kept.
                held.append(replace(factor, kept=np.searchsorted(each[-1], factor.kept)))
        # Combinations share the tiles of the landmarks that any of them keeps.
        union = np.unique(np.concatenate(each))
        places = tuple(np.searchsorted(union, kept_here) for kept_here in each)
        return cls(
            combinations,
            drawn.keep(union),
            places,
            factor.tolerance,
            tuple(held) if hold else None,
            len(drawn),
            tuple(samples),
            pairing,
        )

    def warn_of_rounding(self, session: Session) -> None:
        """Warn of kernels that lose digits in the tiles."""
        z, c = self.landmarks.points, self.combinations
        columns = [
            k.columns(z[m], session.dtype) for k, m in zip(c.kernels, c.variables, strict=True)
        ]
        warn_of_rounding(c.spread(session.names), c.kernels, columns, session.dtype)

    def points(self, c: int) -> tuple[Vector, ...]:
        """The landmarks (r, d_m) of a combination."""
        return self.combinations.points_of(self.landmarks.keep(self.kept[c]).points, c)

    def factor(self, c: int) -> PivotedCholesky:
        """Factor of K_J of a combination, on landmarks numbered among those that it keeps."""
        # Held where the memory allows it; else it is made again whenever it is asked for.
        if self.held is not None:
            return self.held[c]
        # K_J is the Hadamard product of the Gram matrices: Kalinke and Szabo (2023), (17).
        pairs = zip(self.combinations.kernels_of(c), self.points(c), strict=True)
        return pivoted_cholesky(hadamard(kernel(z) for kernel, z in pairs), self.tolerance)

    def whiten(self, c: int, values: Vector) -> Vector:
        """L^-1 of functions given by their values at the landmarks of a combination."""
        factor = self.factor(c)
        return solve_lower(factor.factor, values[factor.kept])

    def squared_hsic(self, c: int, kappa: Vector, u: Vector) -> float:
        """The estimate of a combination from u (r,) and from kappa (K, p) of all kernels.

        kappa are the means of the kernels at the landmarks: Kalinke and Szabo (2023), lemma 4.2.
        """
        means = kappa[list(self.combinations.chosen[c])][:, self.kept[c]]
        pairs = zip(self.combinations.kernels_of(c), self.points(c), strict=True)
        grams = (kernel(z) for kernel, z in pairs)
        return squared_hsic(grams, self.factor(c), means, u, self.tolerance)


def squared_hsic(
    grams: Iterable[Vector], joint: PivotedCholesky, means: Vector, u: Vector, tolerance: float
) -> float:
    """Kalinke and Szabo (2023), Lemma 4.2, as u' K_J^-1 u + |(I - P_J) (x)_m P_m mu_m|^2.

    In this form nothing cancels. P_J and P_m project on the span of the landmarks' features;
    P_m mu_m agrees with mu_m at the landmarks.

    Parameters
    ----------
    grams : iterable of ndarray, shapes (r, r)
        K_m at the landmarks. Overwritten, one after another.
    joint : PivotedCholesky
        Factor of their product K_J.
    means : ndarray, shape (M, r)
        kappa_m.
    u : ndarray, shape (r,)
        kappa_J - prod_m kappa_m.
    tolerance : float
        See `dhsic.linalg.pivoted_cholesky`.

    Returns
    -------
    float
    """

    def norm(gram: Vector, values: Vector) -> float:
        factor = pivoted_cholesky(gram, tolerance)
        return float(factor.squared_norm(values[factor.kept]))

    # |(x)_m P_m mu_m|^2 = prod_m alpha_m' K_m alpha_m, the second term of the lemma.
    marginal = math.prod(map(norm, grams, means))  # which holds no matrix while it makes the next
    # Less its part in the span of the joint landmarks: the constant that no permutation changes.
    outside = marginal - float(joint.squared_norm(means.prod(axis=0)[joint.kept]))
    # A squared norm is not negative; differences below 0 are the rounding of two equal norms.
    return float(joint.squared_norm(u[joint.kept])) + max(0.0, outside)


def own_hsic(kernel: Kernel, z: Vector, means: Vector, squares: Vector, tolerance: float) -> float:
    """Squared HSIC of a variable with itself, by the means of k and of k^2 at landmarks.

    The pair (x, x) has the landmark tuples (z_j, z_j), so that its product kernel is k^2 and its
    means are those of k^2.
    """
    gram = kernel(z)
    joint = pivoted_cholesky(gram**2, tolerance)
    both = np.array([means, means])
    # u = E k^2 - (E k)^2, that of the pair (x, x).
    return squared_hsic((gram.copy(), gram), joint, both, squares - means**2, tolerance)


def select_landmarks(
    selection: Selection,
    pool: Landmarks,
    kernels: tuple[Kernel, ...],
    p: int,
    pairing: Pairing,
    seed: int,
) -> Landmarks:
    """Choose p landmark tuples: of every variable by itself, or of the rows that they share.

    Parameters
    ----------
    selection : str
        As in `dhsic.landmarks.select`.
    pool : Landmarks
        Uniformly drawn.
    kernels : tuple of Kernel
        One fitted kernel a variable.
    p : int
        Landmarks to choose.
    pairing : {"independent", "joint"}
        As they were drawn.
    seed : int
        The seed of the test.

    Returns
    -------
    Landmarks
    """
    if pairing == "joint":
        whole = Pool(kernels, pool.points)
        return pool.keep(select(selection, whole, p, generator(seed, "selection", 0)))
    chosen = [
        # Every variable by itself: landmarks chosen together would know of the pairing.
        select(selection, Pool((kernel,), (points,)), p, generator(seed, "selection", m))
        for m, (kernel, points) in enumerate(zip(kernels, pool.points, strict=True))
    ]
    return Landmarks(
        tuple(points[numbers] for points, numbers in zip(pool.points, chosen, strict=True)),
        tuple(rows[numbers] for rows, numbers in zip(pool.indices, chosen, strict=True)),
    )
