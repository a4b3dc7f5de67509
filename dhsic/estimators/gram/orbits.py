"""Statistics under the permutations of an orbit, from sums of Gram matrices: ties and estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic.engine.groups import RowGroups
from dhsic.estimators.gram.orders import RowOrders
from dhsic.estimators.gram.permutations import PermutedGramPass, batches
from dhsic.estimators.gram.shifts import ShiftedGramPass
from dhsic.estimators.gram.sides import GramSides, Members, PairSums
from dhsic.estimators.gram.sums import GramSums, rounding
from dhsic.estimators.resample import Orbit, Resampled, TwoSided, tile_error, transform_error
from dhsic.linalg import hadamard
from dhsic.nulls import ChiSquareMixture

Vector = NDArray[np.float64]

# The bound on the error of a statistic is 4 eps log2(b) |A|_F |B|_F / n.
_SAFETY = 4.0
_BATCH = 2**16  # entries of vectors of all rows, for every statistic and some cosets


@dataclass(frozen=True)
class GramOrbit:
    """HSIC times n of C statistics under all permutations of an orbit.

    Parameters
    ----------
    reduction : ShiftedGramPass or PermutedGramPass
        The pass that summed.
    sums : PairSums
        Over all rows.
    limit : ChiSquareMixture, optional
        The limit of n V-HSIC under independence, where its eigenvalues were taken.
    """

    reduction: ShiftedGramPass | PermutedGramPass
    sums: PairSums
    limit: ChiSquareMixture | None = None

    @property
    def sides(self) -> GramSides:
        """The statistics."""
        return self.reduction.sides

    @property
    def n(self) -> int:
        """Rows."""
        return self.sides.orbit.groups.n

    @property
    def orbit(self) -> Orbit:
        """The permutations."""
        return self.sides.orbit

    @property
    def detail(self) -> str:
        """How the replicates are made, for a result."""
        return self.orbit.detail

    def resampled(self) -> Resampled:
        """The statistics of the data and of all other permutations, and what is a tie."""
        if isinstance(self.reduction, PermutedGramPass):
            every = batches(range(self.orbit.cosets))
            values = np.concatenate([self.permuted(batch) for batch in every])
        else:
            values = np.concatenate([self._of_cosets(some) for some in self._batches()])
        return Resampled.of(values, self.rounding())

    def permuted(self, cosets: range) -> Vector:
        """All statistics under the permutations of a batch of cosets without shifts, (r, C)."""
        assert isinstance(self.reduction, PermutedGramPass)
        products, rows = self.reduction.products, self.sums.rows / self.n
        orders = self._row_orders.drawn(cosets)
        totals = rows.mean(axis=1)[np.array(products.chosen)].prod(axis=1)
        joint = self.sums.products[cosets.start : cosets.stop, :, 0]
        return self._centred(joint, products.mixed_sums(rows, orders), totals)

    def sums_of(self, combination: tuple[int, ...]) -> GramSums:
        """Sums of the Gram matrices of a combination, as far as HSIC asks for them.

        Those are about the pilots, and of diagonals of zeros where these do not count: what they
        say of HSIC is the same. The product is that of both sides.
        """
        c = self.sides.statistics[TwoSided.of(combination)]
        return self.sums_of_kernels(combination)._replace(joint=float(self._observed[c]))

    def sums_of_kernels(self, kernels: Sequence[int]) -> GramSums:
        """The same of kernels that are in no combination."""
        at = [self.sides.numbers[0, (k,)] for k in kernels]
        diagonal = self.sums.diagonal[at]
        return GramSums(self.sums.rows[at], diagonal, self.sums.squares[at], math.nan)

    def row_means(self, kernels: Sequence[int]) -> Vector:
        """Row means of Gram matrices in the order of the rows, shape (len(kernels), n)."""
        means = np.empty((len(kernels), self.n))
        at = [self.sides.numbers[0, (k,)] for k in kernels]
        means[:, rows_in_order(self.orbit.groups)] = self._row_means(at)
        return means

    def _batches(self) -> list[range]:
        """Cosets that are taken at a time: many of few rows, to save calls."""
        step = max(1, _BATCH // (len(self.sides.pairs) * self.n))
        if any(coset for coset, _ in self.sides.numbers):  # left sides change with the coset
            step = 1
        cosets = self.orbit.cosets
        return [range(r, min(r + step, cosets)) for r in range(0, cosets, step)]

    def _of_cosets(self, cosets: range) -> Vector:
        """All statistics under all shifts of some cosets, shape (R b, C)."""
        values = self._two_sided(cosets)
        if self.sides.joint:
            values = values + np.array([self._others(r) for r in cosets])
        return values.swapaxes(1, 2).reshape(-1, len(self.sides.pairs))

    def _two_sided(self, cosets: range) -> Vector:
        """HSIC of both sides times n, shape (R, C, b)."""
        lefts = self._lefts(cosets.start)
        alpha, beta = (self.sums.rows[at] / self.n for at in (lefts, self._rights))
        totals = alpha.mean(axis=1) * beta.mean(axis=1)
        meetings = self._meetings(cosets, alpha, beta)
        return self._centred(self._products(cosets), meetings, totals[:, None])

    def _centred(self, products: Vector, meetings: Vector, totals: Vector) -> Vector:
        """HSIC times n from sums of products of matrices as they are, permuted by s.

        With alpha and beta the row means of A and B, and a and b their means, it is

            sum_ij A_ij B_s(i)s(j) / n - 2 sum_i alpha_i beta_s(i) + n a b

        (Kalinke and Szabo 2023, equation 5, which has the same terms for M > 2). For the
        U-statistic, of row sums and totals over 1 / n each, n - 3 stands for the first n, and the
        others are n - 2 and (n - 1)(n - 2) (Song et al. 2012).
        """
        n = self.n
        # Divisors of the U-statistic: Song et al. (2012); Zhang et al. (2018), (6).
        first, second, third = (n - 3, n - 2, n - 1) if self.sides.unbiased else (n, n, n)
        mixed = 2.0 * n**2 / second * meetings
        values: Vector = (products - mixed + n**4 / (second * third) * totals) / first
        return values

    def _others(self, r: int) -> Vector:
        """The rest that joint independence asks for, times n, shape (C, b).

        With J = prod_l K_l a product, m the means of it, of L and of K_l, and r their row means,
        E JL + prod_l m_l m_L - 2 E prod_l r_l r_L is HSIC(J, L) and
        (prod_l m_l - m_J) m_L - 2 E (prod_l r_l - r_J) r_L.
        """
        whole, last = self._row_means(self._lefts(r)), self._row_means(self._rights)
        rows = np.array([self._row_product(pair.left, r) for pair in self.sides.pairs])
        means = np.array([self._product_of_means(pair.left) for pair in self.sides.pairs])
        constants = self.n * (means - whole.mean(axis=1)) * last.mean(axis=1)
        (meetings,) = self._meetings(range(r, r + 1), rows - whole, last)
        values: Vector = constants[:, None] - 2.0 * meetings
        return values

    def _products(self, cosets: range) -> Vector:
        """sum_ij A_ij B_s(i)s(j) under all shifts of some cosets, shape (R, C, b)."""
        values: Vector = self.sums.products[cosets.start : cosets.stop]
        if isinstance(self.reduction, PermutedGramPass):
            return values
        b, length = self.orbit.groups.size, self.reduction.length
        # The sums hold A conj(B) a frequency; its conjugate is the transform of sum_i A_i B_(i +
        # k).
        values = scipy.fft.irfft(np.conj(values), length, axis=2)
        if length > b:  # lines were padded: what was shifted beyond their end goes around
            values = values[..., :b] + values[..., length - b :]
        return values + self.sums.constants[:, None]

    @cached_property
    def _observed(self) -> Vector:
        """sum_ij A_ij B_ij, shape (C,)."""
        return self._products(range(1))[0, :, 0].copy()

    def _meetings(self, cosets: range, left: Vector, right: Vector) -> Vector:
        """sum_i left_i right_s(i) of vectors (C, n) under all shifts of cosets, (R, C, b)."""
        b, count = self.orbit.groups.size, self.orbit.groups.count
        moved = self._moved_rights(right, cosets)
        first, second = (
            scipy.fft.rfft(values[..., : count * b].reshape(*values.shape[:-1], count, b), axis=-1)
            for values in (left, moved)
        )
        # Correlations are added over the groups before the one transform back.
        spectra = np.einsum("cgf,rcgf->rcf", np.conj(first), second)
        staying = np.einsum("ci,rci->rc", left[:, count * b :], moved[..., count * b :])
        values: Vector = scipy.fft.irfft(spectra, b, axis=2) + staying[..., None]
        return values

    def _moved_rights(self, right: Vector, cosets: range) -> Vector:
        """Vectors (C, n) of the right sides in the order of some cosets, shape (R, C, n)."""
        variables = np.array(self.sides.combinations.variables)[[k for _, k in self.sides.pairs]]
        moved = np.empty((len(cosets), *right.shape))
        for m in set(variables.tolist()):
            at = variables == m
            orders = np.array([self._order(r, m) for r in cosets])
            moved[:, at] = right[at][:, orders].swapaxes(0, 1)
        return moved

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
        # With A_ij = C_ij + a_i + a_j the mean over j is that of C, and a_i, and the mean of a.
        means: Vector = offsets + offsets.mean(axis=-1, keepdims=True)
        return means + self.sums.rows[numbers] / self.n

    def _row_product(self, side: Members, r: int = 0) -> Vector:
        """Product of the row means of the kernels of a side in the order of a coset, shape (n,)."""
        each = (self._row_means(self.sides.numbers[0, (k,)]) for k in side)
        moved = [self._moved(means, r, k) for means, k in zip(each, side, strict=True)]
        return hadamard([moved[0].copy(), *moved[1:]])

    def _product_of_means(self, side: Members) -> float:
        numbers = (self.sides.numbers[0, (k,)] for k in side)
        return math.prod(float(self._row_means(number).mean()) for number in numbers)

    def _moved(self, values: Vector, r: int, k: int) -> Vector:
        """Values of rows in the order that a coset gives to the variable of a kernel."""
        m = self.sides.combinations.variables[k]
        return values if r == 0 or m == 0 else values[self._order(r, m)]

    def _order(self, r: int, m: int) -> NDArray[np.intp]:
        """The order of the rows of a variable in a coset."""
        if m > 0 and len(self._row_orders) == self.orbit.groups.size:
            order: NDArray[np.intp] = self.orbit.whole_orders(m)[r]
            return order
        if (r, m) not in self._orders:
            self._orders[r, m] = self._row_orders.of_variable(r, m)
        return self._orders[r, m]

    @cached_property
    def _orders(self) -> dict[tuple[int, int], NDArray[np.intp]]:
        return {}

    @cached_property
    def _row_orders(self) -> RowOrders:
        """The permutations of all rows."""
        groups, m = self.orbit.groups, len(self.sides.pilots)
        return RowOrders(self.orbit, m, 0, groups.count, groups.n_left)

    def rounding(self) -> Vector:
        """How far apart equal statistics may come out, shape (C,).

        Transforms, or sums, and tiles leave relative errors in A and B, which matter to their inner
        product as much as their norms at most; so do those of kernels between equal rows, which are
        relative to the kernels themselves, but independent: they matter to sums over n^2 pairs as
        one in n of that.
        """
        if self.sides.joint and not self.orbit.shifted:
            each = [self.sums_of((*left, right)) for left, right in self.sides.pairs]
            return np.array([rounding(sums, self.sides.dtype) for sums in each])
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
        # sum_ij (C_ij + a_i + a_j)^2 = |C|^2 + 4 sum_i a_i sum_j C_ij + 2 n |a|^2 + 2 (sum a)^2.
        offsets = 2.0 * self.n * (a**2).sum(axis=1) + 2.0 * a.sum(axis=1) ** 2
        squares = self.sums.squares + 4.0 * np.einsum("qi,qi->q", rows, a) + offsets
        norms: Vector = np.sqrt(np.maximum(squares, 0.0))
        return norms


def rows_in_order(groups: RowGroups) -> NDArray[np.intp]:
    """The rows of group after group, and then those left over, shape (n,)."""
    arranged = groups.arrange(0, groups.count)
    return np.concatenate([np.arange(*span) for span in arranged.ranges])[arranged.places]
