"""What the sums of a pass over shifted Gram matrices say: statistics, ties and estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from dhsic.engine.plan import DriverStep, PassPlan
from dhsic.engine.session import Session
from dhsic.estimators.base import BANDWIDTH_ROWS
from dhsic.estimators.gram_shifts import ShiftedGramPass, ShiftedGramSums
from dhsic.estimators.gram_sides import GramSides, Side
from dhsic.estimators.gram_sums import GramSums
from dhsic.estimators.resample import (
    Orbit,
    Resampled,
    TwoSided,
    chain_of,
    orbit_of,
    tile_error,
    transform_error,
)
from dhsic.kernels import Combinations
from dhsic.linalg import hadamard
from dhsic.nulls import Chain, Shifts

__all__ = ["GramOrbit", "pairs_of", "plan_orbit", "run_orbit"]

Vector = NDArray[np.float64]
Spectrum = NDArray[np.complexfloating[Any, Any]]

_SAFETY = 4.0
_FEWEST = 512  # rows of a group: tiles of fewer take longer for a row
_VECTORS = 8  # of all rows, for every statistic


def pairs_of(combinations: Combinations, null: Shifts | Chain) -> tuple[TwoSided, ...]:
    """The two-sided statistics of a test: of every combination, or of all stages of a chain."""
    if isinstance(null, Chain):
        return tuple(pair for stage in chain_of(combinations.chosen) for pair in stage)
    return tuple(TwoSided(one[:-1], one[-1]) for one in combinations.chosen)


def run_orbit(
    session: Session,
    combinations: Combinations,
    samples: Sequence[Vector],
    null: Shifts | Chain,
    *,
    unbiased: bool,
) -> GramOrbit:
    """Sum what the permutations of a null need, in one pass.

    Parameters
    ----------
    session : Session
        The run.
    combinations : Combinations
        Of fitted kernels.
    samples : sequence of ndarray, shapes (s, d_m)
        Rows of every variable in a random order, drawn independently of the others'.
    null : Shifts or Chain
        The permutations.
    unbiased : bool
        U-statistics, for two variables.

    Returns
    -------
    GramOrbit
    """
    shifted = _shifted(session, combinations, samples, null, unbiased=unbiased)
    sums = session.run_group_pairs(shifted)
    session.step("statistics")
    return GramOrbit(shifted, sums)


def plan_orbit(
    session: Session, combinations: Combinations, null: Shifts | Chain, *, unbiased: bool
) -> list[DriverStep | PassPlan]:
    """What `run_orbit` would run, and the statistics after it."""
    samples = [np.zeros((min(session.n, BANDWIDTH_ROWS), d)) for d in session.dims]
    shifted = _shifted(session, combinations, samples, null, unbiased=unbiased)
    plan = session.plan_group_pairs(shifted)
    pairs, orbit = len(shifted.sides.pairs), shifted.sides.orbit
    values = 8 * pairs * (3 * len(orbit) + _VECTORS * session.n)
    return [plan, DriverStep("statistics", plan.bytes_to_driver + values)]


def _shifted(
    session: Session,
    combinations: Combinations,
    samples: Sequence[Vector],
    null: Shifts | Chain,
    *,
    unbiased: bool,
) -> ShiftedGramPass:
    return ShiftedGramPass(
        GramSides.of(
            combinations,
            pairs_of(combinations, null),
            samples,
            _orbit(session, null),
            session.dtype,
            unbiased=unbiased,
            joint=isinstance(null, Shifts) and len(session.sources) > 2,
        )
    )


def _orbit(session: Session, null: Shifts | Chain) -> Orbit:
    """Of more permutations than were asked for, where fewer would take longer."""
    fewest = min(session.n, _FEWEST)
    return orbit_of(session, replace(null, n_resamples=max(null.n_resamples, fewest)))


@dataclass(frozen=True)
class GramOrbit:
    """HSIC times n of C statistics under all permutations of an orbit.

    Parameters
    ----------
    shifted : ShiftedGramPass
        What was summed.
    sums : ShiftedGramSums
        Over all rows.
    """

    shifted: ShiftedGramPass
    sums: ShiftedGramSums

    @property
    def sides(self) -> GramSides:
        """The statistics."""
        return self.shifted.sides

    @property
    def n(self) -> int:
        """Rows."""
        return self.sides.orbit.groups.n

    @property
    def orbit(self) -> Orbit:
        """The permutations."""
        return self.sides.orbit

    def resampled(self) -> Resampled:
        """The statistics of the data and of all other permutations, and what is a tie."""
        values = np.concatenate([self._of_coset(r) for r in range(self.orbit.cosets)], axis=1)
        return Resampled.of(values.T, self._rounding())

    def joint_hsic(self, one: tuple[int, ...]) -> float:
        """The V-statistic for the joint independence of the variables of a combination."""
        c = self.sides.pairs.index(TwoSided(one[:-1], one[-1]))
        return float(self._two_sided(0)[c, 0] + self._others(0)[c, 0]) / self.n

    def sums_of(self, one: tuple[int, ...]) -> GramSums:
        """Sums of the Gram matrices of a combination, as far as HSIC asks for them.

        Those are about the pilots, and of diagonals of zeros where these do not count: what they
        say of HSIC is the same. The product is that of both sides.
        """
        numbers = [self.sides.numbers[0, (k,)] for k in one]
        rows, squares = self.sums.rows[numbers], self.sums.squares[numbers]
        c = self.sides.pairs.index(TwoSided(one[:-1], one[-1]))
        return GramSums(rows, np.zeros_like(rows), squares, float(self._products(0)[c, 0]))

    def _of_coset(self, r: int) -> Vector:
        """All statistics under all shifts of a coset, shape (C, b)."""
        values = self._two_sided(r)
        return values + self._others(r) if self.sides.joint else values

    def _two_sided(self, r: int) -> Vector:
        """HSIC of both sides times n, shape (C, b).

        With alpha and beta the row sums of A and B it is, for a permutation s,

            sum_ij A_ij B_s(i)s(j) / n - 2 sum_i alpha_i beta_s(i) / n^2 + sum alpha sum beta / n^3;

        in the U-statistic n - 3 stands for the first n, and the others are n - 2 and (n - 1)(n - 2)
        (Song et al. 2012).
        """
        n, alpha, beta = self.n, self.sums.rows[self._lefts(r)], self.sums.rows[self._rights]
        first, second, third = (n - 3, n - 2, n - 1) if self.sides.unbiased else (n, n, n)
        mixed = 2.0 * self._meetings(r, alpha, beta) / second
        totals = alpha.sum(axis=1) * beta.sum(axis=1) / (second * third)
        values: Vector = (self._products(r) - mixed + totals[:, None]) / first
        return values

    def _others(self, r: int) -> Vector:
        """What joint independence asks for besides, times n, shape (C, b).

        Of a product J = prod_l K_l and L, with m their means and r their row means,
        E JL + prod_l m_l m_L - 2 E prod_l r_l r_L is HSIC(J, L) and
        (prod_l m_l - m_J) m_L - 2 E (prod_l r_l - r_J) r_L.
        """
        whole, last = self._row_means(self._lefts(r)), self._row_means(self._rights)
        rows = np.array([self._row_product(pair.left, r) for pair in self.sides.pairs])
        means = np.array([self._product_of_means(pair.left) for pair in self.sides.pairs])
        constants = self.n * (means - whole.mean(axis=1)) * last.mean(axis=1)
        values: Vector = constants[:, None] - 2.0 * self._meetings(r, rows - whole, last)
        return values

    def _products(self, r: int) -> Vector:
        """sum_ij A_ij B_s(i)s(j) under all shifts of a coset, shape (C, b)."""
        b, length = self.orbit.groups.size, self.shifted.length
        values: Vector = fft.irfft(np.conj(self.sums.spectra[r]), length, axis=1)
        if length > b:  # lines were padded: what was shifted beyond their end goes around
            values = values[:, :b] + values[:, length - b :]
        return values + self.sums.constants[:, None]

    def _meetings(self, r: int, left: Vector, right: Vector) -> Vector:
        """sum_i left_i right_s(i) of vectors (C, n) under all shifts of a coset, shape (C, b)."""
        b = self.orbit.groups.size
        grouped = self.orbit.groups.count * b
        both = zip(right, self.sides.pairs, strict=True)
        moved = np.array([self._moved(values, r, pair.right) for values, pair in both])
        first, second = (
            fft.rfft(values[:, :grouped].reshape(len(values), -1, b), axis=2)
            for values in (left, moved)
        )
        spectra = np.einsum("cgf,cgf->cf", np.conj(first), second)
        staying = np.einsum("ci,ci->c", left[:, grouped:], moved[:, grouped:])
        values: Vector = fft.irfft(spectra, b, axis=1) + staying[:, None]
        return values

    def _lefts(self, r: int) -> list[int]:
        """Numbers of the left sides in a coset, which permutes products alone if any."""
        numbers = self.sides.numbers
        return [numbers.get((r, left), numbers[0, left]) for left, _ in self.sides.pairs]

    @cached_property
    def _rights(self) -> list[int]:
        """Numbers of the right sides."""
        return [self.sides.numbers[0, (right,)] for _, right in self.sides.pairs]

    def _row_means(self, numbers: int | list[int]) -> Vector:
        """Row means of Gram matrices as they are, not about pilots."""
        offsets = self.sums.offsets[numbers]
        means: Vector = offsets + offsets.mean(axis=-1, keepdims=True)
        return means + self.sums.rows[numbers] / self.n

    def _row_product(self, side: Side, r: int = 0) -> Vector:
        """Product of the row means of the kernels of a side in the order of a coset, shape (n,)."""
        each = (self._row_means(self.sides.numbers[0, (k,)]) for k in side)
        moved = [self._moved(means, r, k) for means, k in zip(each, side, strict=True)]
        return hadamard([moved[0].copy(), *moved[1:]])

    def _product_of_means(self, side: Side) -> float:
        numbers = (self.sides.numbers[0, (k,)] for k in side)
        return math.prod(float(self._row_means(number).mean()) for number in numbers)

    def _moved(self, values: Vector, r: int, k: int) -> Vector:
        """Values of rows in the order that a coset gives to the variable of a kernel."""
        m = self.sides.combinations.variables[k]
        if r == 0 or m == 0:
            return values
        order = self._order(r, m)
        return np.concatenate([values[order], values[len(order) :]])

    def _order(self, r: int, m: int) -> NDArray[np.intp]:
        """Rows of all groups in the order that a coset gives to a variable."""
        if (r, m) not in self._orders:
            groups = self.orbit.groups
            orders = self.orbit.orders(r, 0, groups.count, m)
            starts = groups.size * np.arange(groups.count)
            self._orders[r, m] = (orders + starts[:, None]).ravel()
        return self._orders[r, m]

    @cached_property
    def _orders(self) -> dict[tuple[int, int], NDArray[np.intp]]:
        return {}

    def _rounding(self) -> Vector:
        """How far apart equal statistics may come out, shape (C,).

        Transforms and tiles leave relative errors in A and B, which matter to their inner product
        as much as their norms at most; so do those of kernels between equal rows, which are
        relative to the kernels themselves, but independent: they matter to sums over n^2 pairs as
        one in n of that.
        """
        n, tile = self.n, tile_error(self.sides.dtype)
        unit = transform_error(self.sides.dtype, self.orbit.groups.size) + tile
        at = [self._lefts(0), self._rights]
        (a, b), (k, h) = np.sqrt(self.sums.squares[at]), self._plain_norms[at]
        errors: Vector = unit * a * b + 2.0 * tile * (k * b + a * h) / n
        if self.sides.joint:
            rows = np.array([self._row_product(pair.left) for pair in self.sides.pairs])
            last = self._row_means(self._rights)
            norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(last, axis=1)
            errors = errors + 2.0 * n * unit * norms
        return _SAFETY * errors / n

    @cached_property
    def _plain_norms(self) -> Vector:
        """|A|_F as it is, from A_ij - a_i - a_j, its row sums and a; shape (Q,)."""
        rows, a = self.sums.rows, self.sums.offsets
        offsets = 2.0 * self.n * (a**2).sum(axis=1) + 2.0 * a.sum(axis=1) ** 2
        squares = self.sums.squares + 4.0 * np.einsum("qi,qi->q", rows, a) + offsets
        norms: Vector = np.sqrt(np.maximum(squares, 0.0))
        return norms
