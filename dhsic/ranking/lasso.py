"""Block HSIC Lasso: few features whose kernels together explain the target's."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.errors import require
from dhsic.kernels import Combinations
from dhsic.nulls import draw_permutations

Vector = NDArray[np.float64]

# Rows change places within so many, and not in the whole data as in Climente-Gonzalez et al.: a
# task then needs no rows of another.
_GROUP_ROWS = 4096


class LassoSums(NamedTuple):
    """Inner products of the centred Gram matrices of all blocks, each of norm 1."""

    products: Vector
    """<K_a, K_b>, the target's last, shape (d + 1, d + 1)."""
    blocks: float
    """How many blocks were summed."""


@dataclass(frozen=True)
class LassoPass(Pass[LassoSums]):
    """The normal equations of HSIC Lasso, summed over blocks of few rows.

    Rows are permuted within groups of up to 4,096, and cut into blocks in that order, several
    times.

    Parameters
    ----------
    combinations : Combinations
        Every feature with the target, fitted.
    dims : tuple of int
        Columns of all features and of the target.
    block_rows : int
        Rows of a block.
    n_permutations : int
        How often the rows are cut into blocks.
    seed : int
        Fixes the permutations.

    References
    ----------
    .. [1] H. Climente-Gonzalez, C. Azencott, S. Kaski, M. Yamada. Block HSIC Lasso: model-free
       biomarker detection for ultra-high dimensional data. Bioinformatics 35, 2019.
    """

    combinations: Combinations
    dims: tuple[int, ...]
    block_rows: int
    n_permutations: int
    seed: int
    name: str = "block Gram matrices"
    row_multiple: int = _GROUP_ROWS

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        kernels, b = len(self.combinations.kernels), self.block_rows
        group = min(rows, _GROUP_ROWS)
        pairs = zip(self.combinations.kernels, self.combinations.spread(self.dims), strict=True)
        width = sum(kernel.width(d) for kernel, d in pairs)
        # Fewer than 1.5 b rows stay one block, so that the widest has less than 2 b.
        scratch = 2 * 8 * group * width + 3 * 8 * (kernels + 4) * (2 * b) ** 2
        # The Gram matrix of the lasso has a product of every pair of kernels in a block.
        return Footprint(0, scratch, 2 * 8 * kernels**2)

    def chunk(self, block: RowBlock) -> LassoSums:
        """Sums over one block of the pass."""
        size = len(self.combinations.kernels)
        sums = LassoSums(np.zeros((size, size)), 0.0)
        for start in range(0, block.rows, _GROUP_ROWS):
            rows = slice(start, min(start + _GROUP_ROWS, block.rows))
            sums = self.combine(sums, self._group(block.start + start, block, rows))
        return sums

    def _group(self, first: int, block: RowBlock, rows: slice) -> LassoSums:
        """Sums over the blocks of one group of rows."""
        c, count = self.combinations, rows.stop - rows.start
        values = [x[rows] for x in block.values]
        pairs = list(zip(c.kernels, c.spread(values), strict=True))
        prepared = [(kernel, kernel.rows(x), kernel.columns(x)) for kernel, x in pairs]
        products = np.zeros((len(pairs), len(pairs)))
        blocks = 0
        # The key is the first row of the group, so that the order does not depend on tasks.
        orders = draw_permutations(self.seed, first, count, self.n_permutations, 2)[:, 0]
        for order in orders:
            # Blocks of nearly equal size, since a short last one would weigh as much as the others.
            for chosen in np.array_split(order, max(1, round(count / self.block_rows))):
                grams = np.empty((len(pairs), len(chosen), len(chosen)))
                for gram, (kernel, x, z) in zip(grams, prepared, strict=True):
                    work = np.empty((kernel.work_tiles, *gram.shape))
                    kernel.tile(x[chosen], z[chosen], gram, work)
                unit = _centred_units(grams)
                # Inner products of all pairs at once, normalised HSIC of the block: the Gram matrix
                # and the correlations of the lasso, whose design is never stored.
                products += unit @ unit.T
                blocks += 1
        return LassoSums(products, float(blocks))


def _centred_units(grams: Vector) -> Vector:
    """Doubly centred Gram matrices of norm 1, or 0, as rows; shape (d + 1, b^2)."""
    rows = grams.mean(axis=2, keepdims=True)
    # H K H, of every kernel in the block.
    centred = grams - rows - rows.transpose(0, 2, 1) + grams.mean(axis=(1, 2), keepdims=True)
    flat = centred.reshape(len(grams), -1)
    norms = np.sqrt(np.einsum("ij,ij->i", flat, flat))[:, None]
    # The Gram matrix of a feature that is constant in the block is rounding error alone.
    floor = 1e-9 * np.abs(grams).max(axis=(1, 2))[:, None]
    units: Vector = np.divide(flat, norms, out=np.zeros_like(flat), where=norms > floor)
    return units


def lasso_path(sums: LassoSums, k: int) -> Vector:
    """Coefficients at the first point of the path where k features have one above 0.

    The path of min |L - sum_a w_a K_a|^2 / 2 + lambda |w|_1 with w >= 0, by least angle
    regression on the normal equations.

    Parameters
    ----------
    sums : LassoSums
        Sums of all blocks.
    k : int
        Features wanted.

    Returns
    -------
    ndarray, shape (d,)
        Scores, of fewer features where the path ends before.

    Raises
    ------
    MissingDependencyError
        scikit-learn is not installed.
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import lars_path_gram
    except ImportError as error:
        missing = require("scikit-learn", "selection", "Selection by HSIC Lasso")
        raise missing from error
    # The mean over blocks: the lasso of Climente-Gonzalez et al. (2019), from its sums.
    gram = sums.products / sums.blocks
    steps, taken = k, k
    # Features leave the path as well as enter it, so that k of them may take more than k steps.
    while taken == steps:  # the path may go on
        # Twice as many steps until the path ends by itself, or has k features.
        steps *= 2
        # It warns where it drops a copy of a feature that is selected, as it should.
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            _, _, path, taken = lars_path_gram(
                *(gram[:-1, -1].copy(), gram[:-1, :-1].copy()),
                # It divides the penalties alone, of which none is used.
                n_samples=1,
                max_iter=steps,
                method="lasso",
                positive=True,
                # A path that took all steps it was allowed may have gone on.
                return_n_iter=True,
            )
        counts = np.count_nonzero(path > 0.0, axis=0)
        reached = np.flatnonzero(counts >= k)
        if len(reached):
            return np.asarray(path[:, reached[0]], np.float64)
    return np.asarray(path[:, counts.argmax()], np.float64)
