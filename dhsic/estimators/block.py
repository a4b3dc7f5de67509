"""Block HSIC: the mean of U-statistics of blocks of rows, which is normal under independence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_integer, check_number
from dhsic.engine.plan import Plan
from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.approximate import guard_blocks
from dhsic.estimators.base import (
    Estimate,
    Estimator,
    Null,
    Outcome,
    fit_on_sample,
    fitting_step,
    plan_of,
)
from dhsic.kernels import Combinations, Kernel
from dhsic.linalg import rounding_unit
from dhsic.nulls import (
    GammaDistribution,
    Normal,
    StudentT,
    check_no_overflow,
    draw_permutations,
)
from dhsic.statistics.gram_sums import centre
from dhsic.statistics.tiles import Matrix, column_sums

Vector = NDArray[np.float64]

FEWEST_BLOCK_ROWS = 4  # of the unbiased estimate


@final
@dataclass(frozen=True)
class BlockHSIC(Estimator):
    """Mean of the unbiased HSIC of blocks of consecutive rows, for two variables.

    The cost is that of n times the rows of a block, in one pass. The test statistic is the
    estimate over its standard error under the null hypothesis, where the mean of many independent
    blocks is normal. Fewer rows a block bring it closer to the normal and cost power.

    With permuted pairs, the standard error is that of the same means over a random permutation
    within every block, whose expectation is 0; the direct one is the root of
    2 A_x A_y / (m b (b - 3)) for m blocks of b rows, where A is the mean over blocks of the
    unbiased HSIC of a variable with itself. With A of the block this is the variance over all
    permutations of the block, for every b.

    Parameters
    ----------
    block_rows : int, optional
        Rows of a block, 4 or more. Blocks take some more where rows would be left over.
    exponent : float, optional
        g of n^g rows a block, in (0, 1), where `block_rows` is not given.

    Raises
    ------
    InvalidArgumentError
        `block_rows` is less than 4, or `exponent` is not between 0 and 1.

    References
    ----------
    .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
       independence testing. Statistics and Computing 28, 2018, section 3.
    .. [2] L. Song, A. Smola, A. Gretton, J. Bedo, K. Borgwardt. Feature selection via dependence
       maximization. JMLR 13, 2012.
    .. [3] W. Zaremba, A. Gretton, M. Blaschko. B-test: a non-parametric, low variance kernel
       two-sample test. NIPS 2013.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, noise = np.random.default_rng(0).standard_normal((2, 5000))
    >>> result = dhsic.independence_test(x, x**2 + noise, estimator=BlockHSIC(block_rows=50), rng=0)
    >>> result.pvalue < 0.01
    True
    """

    block_rows: int | None = None
    exponent: float = 0.5

    name: ClassVar[str] = "block-hsic"
    nulls: ClassVar[tuple[type[Any], ...]] = (Normal,)
    cost: ClassVar[str] = "n b"

    def __post_init__(self) -> None:
        if self.block_rows is not None:
            check_integer("block_rows", self.block_rows, minimum=FEWEST_BLOCK_ROWS)
        check_number(
            "exponent",
            self.exponent,
            "greater than 0 and less than 1",
            lambda g: 0.0 < g < 1.0,
            "take 0.5 for as many blocks as rows of a block",
        )

    def choose_null(self, session: Session, n_resamples: int) -> tuple[Null, str]:
        """The normal distribution: there is no other."""
        blocks, _ = self.blocks(session.n)
        return Normal(), f"the mean over {blocks:,} blocks of rows is nearly normal"

    def plan(self, session: Session, combinations: Combinations, null: Null | None) -> Plan:
        """The plan."""
        planned = session.plan(self._pass(session, combinations.kernels, null))
        return plan_of(
            session, [fitting_step(session), planned], "take smaller block_rows or fewer threads"
        )

    def estimate(self, session: Session, kernels: Sequence[Kernel]) -> Estimate:
        """The mean over blocks, in one pass."""
        self.blocks(session.n)  # refuses few rows before any are read
        fitted, _ = fit_on_sample(session, kernels)
        return Estimate(session.reduce(self._pass(session, fitted, None)).mean, fitted)

    def test(self, session: Session, kernels: Sequence[Kernel], null: Null) -> Outcome:
        """The estimate over its standard error, in one pass."""
        assert isinstance(null, Normal)
        count, _ = self.blocks(session.n)
        fitted, samples = fit_on_sample(session, kernels)
        note = guard_blocks(session, Combinations.single(fitted), samples, count)
        reduction = self._pass(session, fitted, null)
        sums, b = session.reduce(reduction), reduction.block_rows
        variance, df = sums.null_variance(null, b)
        check_no_overflow(sums.mean, variance)
        left_out = session.n - sums.blocks * b
        detail = f"{sums.blocks:,} blocks of {b:,} rows, {left_out:,} rows left out"
        estimate = Estimate(sums.mean, fitted)
        if not variance > 0.0:  # a variable is constant but for one row in every block
            silent = f"{detail}, of which none can show dependence: take larger block_rows"
            return Outcome(0.0, GammaDistribution(0.0, 0.0), estimate, silent)
        detail = "; ".join(filter(None, (detail, note)))
        # The standard error of a mean over independent blocks: Zhang et al. (2018), (16).
        error = math.sqrt(variance / sums.blocks)
        # The statistic is the mean over its error, and so is its rounding.
        rounding = sums.rounding(b, session.dtype) / error
        return Outcome(sums.mean / error, StudentT(df), estimate, detail, rounding)

    def _pass(self, session: Session, kernels: Sequence[Kernel], null: Null | None) -> BlockPass:
        _, b = self.blocks(session.n)
        permuted = isinstance(null, Normal) and null.variance == "permutation"
        seed = session.seed if permuted else None
        return BlockPass(tuple(kernels), session.dims, b, seed, session.dtype)

    def blocks(self, n: int) -> tuple[int, int]:
        """Number of blocks of n rows and rows of each, as even as they can be."""
        # n^g rows with 0 < g < 1: blocks grow, and so does their number (Zhang et al. 2018, section
        # 3.3).
        rows = self.block_rows or max(FEWEST_BLOCK_ROWS, round(n**self.exponent))
        blocks = n // rows
        # One block has no variance over blocks.
        if blocks < 2:
            msg = (
                f"{self.name} needs 2 blocks of {FEWEST_BLOCK_ROWS} rows or more, got {n} rows in "
                f"blocks of {rows}: take smaller block_rows, more rows, or estimator='u-hsic'"
            )
            raise InvalidArgumentError(msg)
        # Rows that are left over are shared among the blocks.
        return blocks, n // blocks


class BlockSums(NamedTuple):
    """The unbiased HSIC of blocks, merged without cancellation."""

    blocks: int
    """Number of blocks."""
    mean: float
    """Mean of their HSIC."""
    deviations: float
    """Sum of the squared deviations from it."""
    permuted: float
    """Sum of the squares of their HSIC with permuted pairs."""
    norms: Vector
    """Sums of the HSIC of either variable with itself, shape (2,)."""
    sizes: float
    """Sum of the product of the sizes of either kernel, to tell what is rounding."""

    def merge(self, other: BlockSums) -> BlockSums:
        """Sums of the blocks of both."""
        blocks = self.blocks + other.blocks
        if blocks == 0:
            return self
        # Chan, Golub and LeVeque (1983): deviations are merged without a sum of squares, which
        # cancels.
        step = other.mean - self.mean
        return BlockSums(
            blocks,
            self.mean + step * other.blocks / blocks,
            self.deviations + other.deviations + step * step * self.blocks * other.blocks / blocks,
            self.permuted + other.permuted,
            self.norms + other.norms,
            self.sizes + other.sizes,
        )

    def null_variance(self, null: Normal, block_rows: int) -> tuple[float, float]:
        """Variance of a block's HSIC under the null hypothesis, and its degrees of freedom.

        Parameters
        ----------
        null : Normal
            Where it comes from.
        block_rows : int
            Rows of a block, b.

        Returns
        -------
        variance, df : float
            "direct" is [1]_ (17)-(21) with the factor 2 / (b (b - 3)), the variance over all
            permutations of a block; "permutation" has the degrees of freedom of all blocks, since
            the mean over permutations is 0.

        References
        ----------
        .. [1] Q. Zhang, S. Filippi, A. Gretton, D. Sejdinovic. Large-scale kernel methods for
           independence testing. Statistics and Computing 28, 2018, section 3.
        """
        if null.variance == "direct":
            # Zhang et al. (2018), section 3: the norms of either U-centred Gram matrix,
            # each averaged over all blocks, which have one law.
            first, second = (self.norms / self.blocks).tolist()
            return 2.0 * first * second / (block_rows * (block_rows - 3)), math.inf
        if null.variance == "permutation":
            # Under the null hypothesis the mean is known to be 0, so that none is taken off.
            return self.permuted / self.blocks, self.blocks
        # This variance grows with HSIC, which costs power (Zhang et al. 2018, section 3.3).
        return self.deviations / (self.blocks - 1), self.blocks - 1

    def rounding(self, block_rows: int, dtype: np.dtype[Any]) -> float:
        """Rounding error of the mean, from independent errors of every entry."""
        size = self.sizes / self.blocks
        return rounding_unit(dtype) * size / (block_rows * math.sqrt(self.blocks))


@dataclass(frozen=True)
class BlockPass(Pass[BlockSums]):
    """The unbiased HSIC of blocks of consecutive rows (Zhang et al. 2018, equation 14).

    Parameters
    ----------
    kernels : tuple of Kernel
        Two fitted kernels.
    dims : tuple of int
        Columns of both variables.
    block_rows : int
        Rows of a block, b; a last block of fewer is left out.
    seed : int or None
        The seed of the test, to permute the pairs within every block too.
    dtype : dtype
        Precision of the Gram matrices.
    """

    kernels: tuple[Kernel, ...]
    dims: tuple[int, ...]
    block_rows: int
    seed: int | None
    dtype: np.dtype[Any]
    name: str = "block HSIC"

    @property
    def row_multiple(self) -> int:
        """Blocks of rows are blocks of the statistic, or several."""
        return self.block_rows

    def footprint(self, rows: int) -> Footprint:
        """Gram matrices of both variables, what one is computed with, and prepared rows."""
        widths = sum(k.width(d) for k, d in zip(self.kernels, self.dims, strict=True))
        grams = 3 + max(kernel.work_tiles for kernel in self.kernels)
        scratch = grams * self.block_rows**2 * self.dtype.itemsize + 4 * 8 * rows * widths
        return Footprint(0, scratch, 128)

    def chunk(self, block: RowBlock) -> BlockSums:
        """Sums over the whole blocks among the rows."""
        b = self.block_rows
        pairs = list(zip(self.kernels, block.values, strict=True))
        rows = [kernel.rows(x, self.dtype) for kernel, x in pairs]
        columns = [kernel.columns(x, self.dtype) for kernel, x in pairs]
        buffers = np.empty(
            (2 + max(kernel.work_tiles for kernel in self.kernels), b, b), self.dtype
        )
        sums = BlockSums(0, 0.0, 0.0, 0.0, np.zeros(2), 0.0)
        # A task holds whole blocks of the statistic, which begin at multiples of b in the data.
        for start in range(0, block.rows - b + 1, b):
            at = slice(start, start + b)
            for kernel, x, y, out in zip(self.kernels, rows, columns, buffers[:2], strict=True):
                kernel.tile(x[at], y[at], out, buffers[2:])
            sums = sums.merge(self._block(block.start + start, *buffers[:2]))
        return sums

    def combine(self, left: BlockSums, right: BlockSums) -> BlockSums:
        """Merge."""
        return left.merge(right)

    def _block(self, start: int, first: Matrix, second: Matrix) -> BlockSums:
        """Sums of one block, from its Gram matrices, which are overwritten."""
        b = self.block_rows
        # For U-centred matrices: Zhang et al. (2018), (6) and (14), in the form of Song et al.
        # (2012).
        scale = 1.0 / (b * (b - 3))
        sizes = _u_centre(first) * _u_centre(second)
        norms = np.array([np.vdot(gram, gram) for gram in (first, second)], np.float64)
        value = scale * float(np.vdot(first, second))
        permuted = 0.0
        if self.seed is not None:
            # The key is the first row of the block, so that the order does not depend on tasks.
            order = draw_permutations(self.seed, start, b, 1, 2)[0, 0]
            permuted = scale * float(np.vdot(first, second[np.ix_(order, order)]))
        return BlockSums(1, value, 0.0, permuted * permuted, scale * norms, sizes)


def _u_centre(gram: Matrix) -> float:
    """U-centre a Gram matrix in place: rows without the diagonal sum to 0; return its size before.

    The mean product of two such matrices, over b (b - 3), is the unbiased HSIC of Song et al.
    (2012). Nothing large cancels in it, so that float32 keeps its digits.
    """
    np.fill_diagonal(gram, 0.0)
    # U-centring divides a row sum by b - 2, and the total by (b - 1) (b - 2).
    means = column_sums(gram).astype(np.float64) / (len(gram) - 2)
    centre(gram, means, unbiased=True)
    return float(np.abs(means).mean())
