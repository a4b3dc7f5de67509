"""Rows of all samples as one: the codes of their samples, and which of them may change sample.

With these codes the dependence of value and sample is the discrepancy of samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dhsic.engine.blocks import Source
from dhsic.engine.reduction import Moves
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators import UHSIC, BlockHSIC, Estimator
from dhsic.io.variables import rows_of_samples
from dhsic.statistics.exchangeable import coded, moves_of, read_labels
from dhsic.statistics.sets import RowSets

Indices = NDArray[np.intp]
Vector = NDArray[np.float64]

_FEWEST_WAYS = 20  # with fewer a p-value cannot be below 5 %


def codes_for(estimator: str | Estimator, sizes: Sequence[int]) -> Vector:
    """Codes of the samples, as an estimator of independence needs them."""
    if estimator == BlockHSIC.name:
        estimator = BlockHSIC()
    if isinstance(estimator, BlockHSIC):
        # A block has its share of every sample, not in whole rows: sizes enter the weights alone.
        _, rows = estimator.blocks(sum(sizes))
        return sample_codes([n * (rows / sum(sizes)) for n in sizes], unbiased=True)
    unbiased = estimator == UHSIC.name or isinstance(estimator, UHSIC)
    return sample_codes(sizes, unbiased=unbiased)


def sample_codes(sizes: Sequence[float], *, unbiased: bool) -> Vector:
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
    >>> sample_codes([50, 50], unbiased=False).round(4)
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
    # |c - corner_0| = |c - corner_j| is linear in c once the squares of c cancel.
    edges = corners[1:] - corners[0]
    from_first = np.linalg.solve(2.0 * edges, (edges**2).sum(axis=1))
    moved: Vector = corners - (corners[0] + from_first)
    return moved


def _contrasts(weights: Vector) -> Vector:
    """V with V V' = diag(1 / w) - 1 1' / sum w, shape (K, K - 1): each against those before it."""
    before = np.cumsum(weights)[:-1]
    later, through = weights[1:], np.cumsum(weights)[1:]
    # Helmert's contrasts with weights: column k sets sample k + 1 against the mean of those before.
    across = np.sqrt(later / (before * through))
    contrasts = np.triu(np.broadcast_to(across, (len(weights), len(later))))
    np.fill_diagonal(contrasts[1:], -np.sqrt(before / (later * through)))
    return contrasts


def pooled_labels(labels: Sequence[Source]) -> Indices:
    """The label of every pooled row as a number from 0 on, shape (n,).

    Parameters
    ----------
    labels : sequence of source
        Those of the rows of every sample, by the name that messages say.

    Raises
    ------
    DataError
        A label is missing.
    """
    sizes = [source.shape[0] for source in labels]
    # Pooled rows alternate between samples, so that blocks of them hold some of each.
    samples, places = rows_of_samples(np.arange(sum(sizes)), sizes)
    stacked = np.concatenate([read_labels(source, source.name) for source in labels])
    return coded(stacked[np.cumsum([0, *sizes[:-1]])[samples] + places])


def moves_between(
    samples: Sequence[Source], labels: Mapping[str, Indices], seed: int
) -> Moves | None:
    """Which pooled rows may change places; None where all may.

    Parameters
    ----------
    samples : sequence of source
        The samples.
    labels : dict of str to ndarray of int, shape (n,)
        "strata" and "groups" of the pooled rows, where they are given.
    seed : int
        The seed of the test.

    Raises
    ------
    DataError
        Hardly any rows can change sample.
    InvalidArgumentError
        A group lies in several samples, or in several strata.
    """
    sizes = [source.shape[0] for source in samples]
    sample, places = rows_of_samples(np.arange(sum(sizes)), sizes)
    strata, groups = labels.get("strata"), labels.get("groups")
    if groups is not None:
        _check_within_samples(groups, sample, places, [source.name for source in samples])
    # In the pooled data moves are those of any test; only which of them change a sample differs.
    moves = moves_of(len(sample), strata, groups, None, seed)
    if isinstance(moves, RowSets):
        _check_ways(moves, sample)
    return moves


def _check_within_samples(
    groups: Indices, sample: Indices, places: Indices, names: Sequence[str]
) -> None:
    first = np.empty(groups.max() + 1, np.intp)
    # Backwards, since the last of equal indices is kept: the sample of the first row of a group.
    first[groups[::-1]] = sample[::-1]
    elsewhere = np.flatnonzero(sample != first[groups])
    if len(elsewhere):
        row = int(elsewhere[0])
        msg = (
            f"every group must lie within one sample: the group of row {int(places[row])} of "
            f"{names[sample[row]]!r} has rows of {names[first[groups[row]]]!r}, too. Where rows of "
            "a label are in several samples, as before and after, give the labels as strata; else "
            "label the groups of every sample differently"
        )
        raise InvalidArgumentError(msg)


def _check_ways(moves: RowSets, sample: Indices) -> None:
    """Refuse labels with which hardly any row gets another sample."""
    # In every stratum (sum_k c_k)! / prod_k c_k! ways, with c_k sets of rows of sample k.
    # Logarithms, since factorials leave the range of floats at 171.
    log_ways = 0.0
    for rows, sets in moves.parts:
        pairs = np.stack([sets, sample[rows[:, 0]]], axis=1)
        for labels, sign in ((sets, 1), (pairs, -1)):
            counts = np.unique(labels, axis=0, return_counts=True)[1]
            log_ways += sign * sum(math.lgamma(count + 1) for count in counts.tolist())
    if log_ways < math.log(_FEWEST_WAYS) - 1e-9:
        ways = round(math.exp(log_ways))
        msg = (
            f"with these labels, {moves.what} can be dealt to the samples in {ways} "
            f"way{'s' if ways > 1 else ''}, and a p-value of 5 % takes {_FEWEST_WAYS}: give strata "
            "that have rows of several samples, or more groups of equally many rows"
        )
        raise DataError(msg)
