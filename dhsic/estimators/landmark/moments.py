"""Means and covariances at landmark tuples, from the sums of a pass."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic.engine.tiles import Tile
from dhsic.estimators.landmark.orbits import TupleSums
from dhsic.estimators.landmark.tuples import Tuples

Vector = NDArray[np.float64]


class Moments(NamedTuple):
    """Moments of the data as they are, at the landmarks."""

    kappa: Tile
    """Means of the kernels where statistics need them, shape (K, p)."""
    squares: Vector
    """Means of their squares."""
    u: list[Tile]
    """kappa_J - prod_m kappa_m of every statistic, shapes (q,); of products of centred kernels
    the covariance of both sides."""


def functions_of(
    part: Tuples, sums: TupleSums, kappa: Tile, c: int, r: int, b: int, n: int
) -> Tile:
    """U of a statistic under the b permutations of a coset, shape (q, b)."""
    covariances = _covariances(part, sums, c, r, b, n)
    # A joint test sees a dependence among the left variables, too.
    if part.form == "joint":
        covariances += joint_offset(part, sums, kappa, c, r, n)[:, None]
    return covariances


def joint_offset(part: Tuples, sums: TupleSums, kappa: Tile, c: int, r: int, n: int) -> Tile:
    """E prod_m k_m - prod_m kappa_m less the covariance of both sides, shape (q,).

    With L the product of the left side it is (E L - prod_{m in left} kappa_m) kappa_right.
    """
    (left, right), kept = part.pairs[c], part.kept[c]
    apart: Tile = kappa[list(left)][:, kept].prod(axis=0)
    offset: Tile = (_left_mean(part, sums, c, r, n) - apart) * kappa[right, kept]
    return offset


def _covariances(part: Tuples, sums: TupleSums, c: int, r: int, b: int, n: int) -> Tile:
    """Covariances of both sides under every permutation of a coset, shape (q, b).

    With f and h the sides about their pilots the covariance under a permutation s is
    (1/n) sum_i f_i h_s(i) less the product of the means of f and h, which no shift changes.
    """
    pair, at = part.pairs[c], slice(part.starts[c], part.starts[c + 1])
    cross = sums.cross[r, at]
    covariances: Tile = cross.copy()
    # Under all shifts it is a circular correlation, whose transform the pass has summed.
    if b > 1:
        covariances = scipy.fft.irfft(cross, b, axis=1)
    # Rows outside of the groups stay in their places under every permutation.
    covariances += sums.left_over[at, None]
    covariances /= n
    left, right = (mean_about_pilot(part, sums, c, s, r, n) for s in (pair.left, (pair.right,)))
    # Shifts move rows within a side: both means, and so their product, stay as they are.
    covariances -= (left * right)[:, None]
    return covariances


def mean_about_pilot(
    part: Tuples, sums: TupleSums, c: int, side: tuple[int, ...], r: int, n: int
) -> Tile:
    """The mean of a side less its pilot at the landmarks of a statistic, shape (q,)."""
    at = np.searchsorted(part.sides[side], part.kept[c])
    means: Tile = sums.sides[r, part.side_places[side]][at] / n
    return means


def _left_mean(part: Tuples, sums: TupleSums, c: int, r: int, n: int) -> Tile:
    """The mean of the left side, shape (q,)."""
    left = part.pairs[c].left
    pilot = math.prod(part.pilots[k][part.kept[c]] for k in left)
    mean: Tile = pilot + mean_about_pilot(part, sums, c, left, r, n)
    return mean


def no_moments(tuples: Tuples) -> Moments:
    """Zeros, to be written part after part."""
    shape = len(tuples.kernels), tuples.n_landmarks
    empty = np.empty(0)
    return Moments(np.zeros(shape), np.zeros(shape), [empty] * len(tuples.pairs))


def write_means(moments: Moments, part: Tuples, sums: TupleSums, n: int) -> None:
    """Write the means of single kernels and of their squares."""
    for side, at in part.sides.items():
        if len(side) == 1:
            (k,), place, pilot = side, part.side_places[side], part.pilots[side[0]][at]
            about = sums.sides[0, place] / n
            moments.kappa[k, at] = pilot + about
            # k^2 = (k - pilot)^2 + 2 pilot (k - pilot) + pilot^2.
            squares = sums.side_squares[place] / n + pilot * (pilot + 2.0 * about)
            moments.squares[k, at] = squares


def measured(tuples: Tuples, sums: TupleSums, n: int) -> Moments:
    """The moments of the data as they are."""
    moments = no_moments(tuples)
    write_means(moments, tuples, sums, n)
    for c in range(len(tuples.pairs)):
        functions = functions_of(tuples, sums, moments.kappa, c, 0, 1, n)
        moments.u[c] = functions[:, 0].copy()
    return moments
