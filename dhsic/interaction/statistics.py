"""The Lancaster statistic, and its replicates where one of three variables is independent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.plan import DriverStep, Plan
from dhsic.engine.session import Session
from dhsic.engine.tiles import Matrix
from dhsic.estimators import Estimate, Estimator, GridOutcome, Null, NystromMHSIC, plan_of
from dhsic.estimators.base import Guess, Prepared, fit_combinations_on_sample, fitting_step
from dhsic.kernels import Combinations, Kernel
from dhsic.nulls import Permutation, Resampling
from dhsic.statistics.orbit import Orbit, Pair, orbit_of, tile_error, transform_error
from dhsic.statistics.pointwise import means_of
from dhsic.statistics.replicate import measure, replicate_steps

Vector = NDArray[np.float64]

FACTORISATIONS: Final = ((1, 2, 0), (0, 2, 1), (0, 1, 2))
"""The variables a and b that stay together, and the one s that is independent of both."""

QUANTITY = "squared interaction"
_PAIRS = tuple(Pair((a, b), s) for a, b, s in FACTORISATIONS)
_STRIP = 2**15  # entries of a Gram matrix that are gathered at a time
_SAFETY = 4.0


@dataclass(frozen=True)
class LandmarkLancaster(Estimator):
    """The squared norm of the embedding of the Lancaster interaction, projected on landmarks.

    T = n v' K_J^-1 v with v_j = <mu_L, k_J(z_j)> the mean of the centred products. Under
    (a, b) _||_ s, with d_m centred and c_ab the mean of d_a d_b, the means of d_a d_s and d_b d_s
    are O(n^-1/2), as are the errors of the centring, so that v is the mean of
    xi = (d_a d_b - c_ab) d_s but for O(1/n): the cross-covariance of d_a d_b and d_s. Permuting s,
    which leaves d_a d_b and every mean as they are, gives v of the permuted data exactly.

    Parameters
    ----------
    landmarks : NystromMHSIC
        Options of the landmarks.
    """

    landmarks: NystromMHSIC = NystromMHSIC()  # noqa: RUF009, a frozen value

    name: ClassVar[str] = "nystrom-lancaster"
    most_variables: ClassVar[int | None] = 3
    remedy: ClassVar[str] = "take fewer landmarks, resamples or threads"

    def guess(self, session: Session, combinations: Combinations, null: Null | None) -> Guess:
        """With the landmarks as drawn: how many pruning keeps is known only when they are."""
        p = self.landmarks.most_landmarks(session)
        statistic = self.landmarks.guessed(session, combinations, _PAIRS)
        statistic = replace(statistic, tuples=replace(statistic.tuples, form="centred"))
        means = replicate_steps(session, statistic, statistic.orbit(session, None))
        steps = [*self.landmarks.drawing_steps(session, combinations, 8 * p * p), *means]
        return Guess(steps, statistic, n_landmarks=p)

    def prepare(self, session: Session, combinations: Combinations, null: Null | None) -> Prepared:
        """Draw landmarks of every variable by itself, and find the means of kernels there."""
        basis = self.landmarks.draw(session, combinations, tests=True)
        # The three factorisations have one basis: their statistics are one norm of one vector.
        statistic = basis.statistic(_PAIRS, session.dtype)
        tuples = replace(statistic.tuples, form="centred")
        moments = measure(session, replace(statistic, tuples=tuples)).told
        # About the means, products of small numbers lose no digits of their covariance.
        statistic = replace(statistic, tuples=tuples.about(means_of(tuples, moments)))
        kernels = basis.combinations.kernels_of(0)
        summary = self.landmarks.summary(session, basis, basis.factor(0).rank)
        return Prepared(
            basis.combinations,
            statistic,
            lambda found, c: Estimate(
                float(found.statistics[c]) / session.n, kernels, summary, quantity=QUANTITY
            ),
        )


@dataclass(frozen=True)
class PairLancaster(Estimator):
    """T = n |mu_L|^2 = (1/n) sum_ij A_ij B_ij C_ij of centred Gram matrices, which are held.

    Under (a, b) _||_ s it is n HSIC of s and of a variable whose Gram matrix is the product of
    those of a and b, centred (Rubenstein et al. 2016): what permutes s is that of two variables.
    """

    name: ClassVar[str] = "v-lancaster"
    most_variables: ClassVar[int | None] = 3
    nulls: ClassVar[tuple[type[Any], ...]] = (Permutation,)
    remedy: ClassVar[str] = "take estimator='nystrom-lancaster', fewer rows, or fewer resamples"

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """Hold three Gram matrices, and permute one after another."""
        n, size, rows = session.n, session.dtype.itemsize, 8 * session.n * sum(session.dims)
        gram = size * n * n
        # Two working matrices, and what is gathered in every thread.
        working = 3 * gram + session.runtime.threads * (2 * size * max(_STRIP, 8 * n) + 16 * n)
        steps = [
            fitting_step(session),
            DriverStep("read all rows", 3 * rows, rows),
            DriverStep("Gram matrices", 2 * gram, 3 * gram),
            DriverStep("permutation null", working + 16 * n * getattr(null, "n_resamples", 0)),
        ]
        return plan_of(session, steps, self.remedy)

    def test_grid(
        self, session: Session, combinations: Combinations, null: Resampling
    ) -> GridOutcome:
        """The statistic beside the replicates of each factorisation."""
        assert isinstance(null, Permutation)
        fitted, _ = fit_combinations_on_sample(session, combinations)
        orbit, n = orbit_of(session, null), session.n
        session.step("read all rows")
        arranged = orbit.groups.arrange(0, orbit.groups.count)
        order = np.concatenate([np.arange(*span) for span in arranged.ranges])[arranged.places]
        values = session.take([order] * len(session.sources))
        session.step("Gram matrices")
        pairs = zip(fitted.kernels_of(0), values, strict=True)
        # Largest values of the kernels, and their matrices, centred.
        peaks, grams = zip(*(_centred(_gram(*pair, session.dtype)) for pair in pairs), strict=True)
        del values
        statistics, replicates, errors = [], [], []
        tile = tile_error(session.dtype)
        unit, norms = transform_error(session.dtype, 1) + tile, [np.linalg.norm(g) for g in grams]
        # One after another, so that two working matrices are held and not six.
        for a, b, s in FACTORISATIONS:
            # The product of two centred matrices is not centred itself; HSIC with s needs it to be.
            _, product = _centred(grams[a] * grams[b])
            norm = np.linalg.norm(product)
            # Errors of tiles are relative to the kernels themselves, but independent.
            apart = (peaks[a] * norms[b] + peaks[b] * norms[a]) * norms[s] + norm * n * peaks[s]
            errors.append(_SAFETY * (unit * norm * norms[s] + 2.0 * tile * apart / n) / n)
            permuted = _PermutedProduct(_upper(product), grams[s], orbit)
            del product
            statistics.append(permuted.of(np.arange(n)) / n)
            parts: list[Vector] = session.map("permutation null", permuted, null.n_resamples)
            replicates.append(np.concatenate(parts) / n)
        return GridOutcome(
            fitted,
            np.array(statistics),
            np.column_stack(replicates),
            lambda c: Estimate(statistics[c] / n, fitted.kernels_of(0), quantity=QUANTITY),
            orbit.detail,
            np.array(errors),
        )


@dataclass(frozen=True)
class _PermutedProduct:
    """Sums of a product of two Gram matrices, of which one is permuted.

    Both are symmetric and permuted alike, so that the upper half is enough, twice.
    """

    upper: Matrix
    right: Matrix
    orbit: Orbit

    def __call__(self, replicates: range) -> Vector:
        """Those under some permutations after the first, the identity."""
        groups, n = self.orbit.groups, len(self.right)
        first, sums = groups.size * np.arange(groups.count)[:, None], np.empty(len(replicates))
        order = np.arange(n)  # rows beyond the groups stay
        for place, number in enumerate(replicates):
            moved = self.orbit.orders(number + 1, 0, groups.count) + first
            order[: moved.size] = moved.ravel()
            sums[place] = self.of(order)
        return sums

    def of(self, order: NDArray[np.intp]) -> float:
        """That of one."""
        n, step, total = len(order), max(8, _STRIP // len(order)), 0.0
        for start in range(0, n, step):
            rows = self.right.take(order[start : start + step], axis=0, mode="clip")
            moved = rows.take(order[start:], axis=1, mode="clip")
            total += float(np.einsum("ij,ij", self.upper[start : start + step, start:], moved))
        return total


def _upper(gram: Matrix) -> Matrix:
    """The upper half of a symmetric matrix, twice, with its diagonal once."""
    upper = 2 * np.triu(gram)
    np.einsum("ii->i", upper)[:] /= 2
    return upper


def _gram(kernel: Kernel, x: Matrix, dtype: np.dtype[Any]) -> Matrix:
    """The Gram matrix of all rows, in strips whose scratch is small."""
    rows, columns = kernel.rows_and_columns(x, dtype)
    step = max(8, _STRIP // len(x))
    strips = (rows[start : start + step] for start in range(0, len(x), step))
    return np.concatenate([kernel.gram(strip, columns, dtype) for strip in strips])


def _centred(gram: Matrix) -> tuple[float, Matrix]:
    """The largest entry of a symmetric matrix, and the matrix, doubly centred in place."""
    peak, means = float(np.abs(gram).max()), gram.mean(axis=0, dtype=np.float64)
    gram -= means.astype(gram.dtype)[:, None]
    gram -= (means - means.mean()).astype(gram.dtype)
    return peak, gram
