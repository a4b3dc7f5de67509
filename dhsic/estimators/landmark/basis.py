"""Landmarks of Nystrom M-HSIC: drawn, or selected from what is drawn, and pruned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.engine.gaps import filled
from dhsic.engine.plan import DriverStep
from dhsic.engine.session import Session
from dhsic.estimators.base import BANDWIDTH_ROWS, bandwidth_rows, fit_combinations
from dhsic.estimators.outcomes import Estimate
from dhsic.kernels import Combinations, Kernel
from dhsic.landmarks import (
    Landmarks,
    Pairing,
    Pool,
    Selection,
    landmark_count,
    prune,
    select,
    select_bytes,
    tolerance_for,
    uniform_rows,
    warn_of_rounding,
)
from dhsic.linalg import PivotedCholesky, hadamard, pivoted_cholesky, solve_lower
from dhsic.results import LandmarkSummary

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
    """

    combinations: Combinations
    landmarks: Landmarks
    kept: tuple[Indices, ...]
    tolerance: float
    held: tuple[PivotedCholesky, ...] | None
    drawn: int
    samples: tuple[Vector, ...] = ()

    @classmethod
    def of(
        cls,
        combinations: Combinations,
        drawn: Landmarks,
        tolerance: float,
        *,
        hold: bool,
        samples: Sequence[Vector] = (),
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
        factors = tuple(held) if hold else None
        kept, kept_samples = drawn.keep(union), tuple(samples)
        return cls(combinations, kept, places, factor.tolerance, factors, len(drawn), kept_samples)

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

    def means(self, c: int, kappa: Vector) -> Vector:
        """kappa_m of a combination at its landmarks (M, r), of those of all kernels (K, p)."""
        means: Vector = kappa[list(self.combinations.chosen[c])][:, self.kept[c]]
        return means

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

    def squared_hsic(self, c: int, means: Vector, u: Vector) -> float:
        """The estimate of a combination from kappa (M, r) and u (r,) at its landmarks."""
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


@dataclass(frozen=True)
class LandmarkDraw:
    """Options of `NystromMHSIC`, which describes them."""

    n_landmarks: int | str
    replace: bool
    tolerance: float | None
    selection: Selection
    pool: int

    def most(self, session: Session) -> int:
        """Landmarks before pruning, at most."""
        return landmark_count(self.n_landmarks, session.n, replace=self.replace)

    def steps(self, session: Session, guessed: Combinations, held: int) -> list[DriverStep]:
        """Steps before the passes; `held` are the bytes of the factors that stay."""
        s, p = self._drawn(session), self.most(session)
        rows = 8 * sum(session.dims) * (s + BANDWIDTH_ROWS)
        fetch = 3 * rows + max(source.take_bytes for source in session.sources)
        steps = [DriverStep("fetch landmarks", fetch, rows)]
        if self.selection != "uniform":
            pairs = zip(guessed.typical(), session.dims, strict=True)
            width = sum(guessed.kernels[k].width(d) for k, d in pairs)
            steps.append(DriverStep("select landmarks", select_bytes(self.selection, s, p, width)))
        gram = 8 * p * p
        prune = DriverStep("prune landmarks", 3 * gram + max(0, held - gram), held)
        return [*steps, prune]

    def basis(
        self,
        session: Session,
        combinations: Combinations,
        pairing: Pairing,
        *,
        hold: bool,
        chosen: Sequence[tuple[int, ...]] | None = None,
    ) -> LandmarkBasis:
        """Draw, fetch and prune the landmarks; fit the kernels on rows fetched with them.

        Landmarks are pruned for every combination, or for other ones of the same kernels, `chosen`.
        """
        s = self._drawn(session)
        session.step("fetch landmarks")
        drawn = uniform_rows(
            session.seed,
            session.n,
            s,
            len(session.sources),
            pairing=pairing,
            replace=self.replace,
        )
        sampled = bandwidth_rows(session)
        # One fetch for the landmarks and the bandwidths.
        rows = session.take([np.append(z, x) for z, x in zip(drawn, sampled, strict=True)])
        fitted = fit_combinations(session, combinations, [x[s:] for x in rows])
        # No landmark is missing: one that was is made of values of others.
        rows = list(map(filled, rows))
        landmarks = Landmarks(tuple(x[:s] for x in rows), tuple(drawn))
        tolerance = tolerance_for(self.tolerance, session.dtype)
        if self.selection != "uniform":
            session.step("select landmarks")
            # Landmarks are shared, so that the kernels nearest to the median heuristic choose them
            # for all.
            kernels = tuple(fitted.kernels[k] for k in combinations.typical())
            landmarks = select_landmarks(
                self.selection, landmarks, kernels, self.most(session), pairing, session.seed
            )
        session.step("prune landmarks")
        pruned = fitted if chosen is None else replace(fitted, chosen=tuple(chosen))
        others = [x[s:] for x in rows]
        return LandmarkBasis.of(pruned, landmarks, tolerance, hold=hold, samples=others)

    def holds(self, session: Session, count: int) -> bool:
        """Whether the factors of so many Gram matrices are held."""
        # An eighth of the memory, which passes leave free for them.
        return count == 1 or 8 * self.most(session) ** 2 * count <= session.runtime.memory // 8

    def held_bytes(self, session: Session, count: int) -> int:
        """Bytes of the factors that are held."""
        return 8 * self.most(session) ** 2 * count * self.holds(session, count)

    def estimate(
        self,
        session: Session,
        basis: LandmarkBasis,
        c: int,
        means: NDArray[np.float64],
        u: NDArray[np.float64],
        pairing: Pairing,
    ) -> Estimate:
        """Kalinke and Szabo (2023), Lemma 4.2, from kappa (M, r) and u (r,) at the landmarks."""
        session.step("estimate")
        return Estimate(
            basis.squared_hsic(c, means, u),
            basis.combinations.kernels_of(c),
            self.summary(session, basis, basis.factor(c).rank, pairing),
        )

    def summary(
        self, session: Session, basis: LandmarkBasis, kept: int | tuple[int, ...], pairing: Pairing
    ) -> LandmarkSummary:
        """Their summary in a result."""
        return LandmarkSummary(
            drawn=basis.drawn,
            kept=kept,
            pairing=pairing,
            replace=self.replace,
            tolerance=basis.tolerance,
            selection=self.selection,
            pool=None if self.selection == "uniform" else self._drawn(session),
        )

    def _drawn(self, session: Session) -> int:
        """Rows from which the landmarks are taken."""
        p = self.most(session)
        return p if self.selection == "uniform" else min(session.n, self.pool * p)
