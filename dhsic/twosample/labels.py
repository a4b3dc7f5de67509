"""Codes of samples with which the dependence of value and sample is the discrepancy of samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def codes(sizes: Sequence[float], *, unbiased: bool) -> Vector:
    """Code of every sample, so that HSIC of value and code is the mean of MMD^2 over the pairs.

    With the kernel l(a, b) = s [a = b] / n_a of samples a and b of n_a rows, N in all, and K the
    Gram matrix of all values, tr(K H L H) is s / N times the sum over pairs a < b of
    n_a n_b MMD^2(a, b). With (N - 1) / (N (n_a - 1)) in the place of 1 / n_a, the same sum of
    unbiased estimates comes of Gram matrices without their diagonals. Centring takes away what is
    the same for all samples, so that K codes of K - 1 columns do, and they may be moved: here to
    equal lengths, about the centre of their circumscribed sphere. A landmark then counts alike
    whatever sample it is of, however unequal they are.

    Parameters
    ----------
    sizes : sequence of float
        Rows n_a of every sample.
    unbiased : bool
        For estimators that leave out the diagonals.

    Returns
    -------
    ndarray, shape (K, K - 1)
        HSIC, as its estimator divides it, is then sum n_a n_b MMD^2(a, b) / sum n_a n_b: of two
        samples their MMD^2.

    Examples
    --------
    >>> codes([50, 50], unbiased=False).round(4)
    array([[ 2.],
           [-2.]])
    """
    n_a = np.asarray(sizes, np.float64)
    n = n_a.sum()
    # The number of pairs of rows of different samples, which weigh the mean of MMD^2 over pairs.
    pairs = (n**2 - (n_a**2).sum()) / 2.0
    # Estimates without diagonals divide by n_a (n_a - 1), which these weights make up for.
    weights = n * (n_a - 1.0) / (n - 1.0) if unbiased else n_a
    scale = n**2 * (n - 3.0) / pairs if unbiased else n**3 / pairs
    corners = np.sqrt(scale) * _contrasts(weights)
    # HSIC is centred, so codes may be moved; about this point all have the same length.
    moved: Vector = corners - _circumcentre(corners)
    return moved


def codes_of_blocks(sizes: Sequence[int], block_rows: int) -> Vector:
    """Codes for the mean of unbiased estimates of blocks, which have of every sample its share."""
    n_a = np.asarray(sizes, np.float64)
    # Sizes need not be whole here: they enter the weights alone.
    return codes(n_a * (block_rows / n_a.sum()), unbiased=True)


def _contrasts(weights: Vector) -> Vector:
    """V with V V' = diag(1 / w) - 1 1' / sum w, shape (K, K - 1): each against those before it."""
    before = np.cumsum(weights)[:-1]
    later, through = weights[1:], np.cumsum(weights)[1:]
    # Helmert's contrasts with weights: column k sets sample k + 1 against the mean of those before.
    contrasts = np.triu(
        np.broadcast_to(np.sqrt(later / (before * through)), (len(weights), len(later)))
    )
    np.fill_diagonal(contrasts[1:], -np.sqrt(before / (later * through)))
    return contrasts


def _circumcentre(corners: Vector) -> Vector:
    """The point as far from all corners of a simplex, shape (K - 1,)."""
    edges = corners[1:] - corners[0]
    # |c - corner_0| = |c - corner_j| is linear in c once the squares of c cancel.
    from_first = np.linalg.solve(2.0 * edges, (edges**2).sum(axis=1))
    centre: Vector = corners[0] + from_first
    return centre
