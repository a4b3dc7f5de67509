"""Whether data can show what approximate null distributions take for granted.

Their limits hold where many rows show how the variables vary together. Two dummies with 2 % ones
are both 1 in 0.4 of 1,000 rows: mostly in none, and then nothing in the sample tells how far their
covariance would reach under independence. The same happens to narrow kernels of several columns.
The marginals tell it beforehand.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.errors import ApproximateNullWarning, InvalidArgumentError

Vector = NDArray[np.float64]

# In units of the largest k(x, x): rows whose kernel values agree so closely are equal to it.
_SAME = 1e-12
# Norms k(x, x) of all rows whose spread is below this share are the same number.
_ALIKE = 1e-6
_UNSEEN = 1e-24  # of the squared kernel: less is rounding


class KernelMoments(NamedTuple):
    """Moments of the kernel k(x, x') of a variable between two of its rows.

    With A(x, x') = k(x, x') - E k(x, .) - E k(., x') + E k, the centred kernel.
    """

    mean: float
    """E k."""
    square: float
    """E A^2, 0 where the rows show no variation."""
    cube: float
    """E A^3."""
    norm: float
    """E k(x, x) - E k."""
    alike: bool = True
    """Whether k(x, x) is the same for all rows, as of radial kernels and of categories."""


class JointSpread(NamedTuple):
    """How much of their joint variation a sample of independent variables shows.

    With xi the centred product of the features of a row, for two variables that of both about
    their means, and h = <xi, xi'> of two rows.
    """

    rows: float
    """n (E h^2)^(3/2) / |E h^3|: about n p q for two dummies with few ones, of shares p and q."""
    directions: float
    """(E |xi|^2)^2 / E h^2: in how many the features vary, as if in all of them alike."""
    certain: bool = True
    """Whether few rows mean rare values or narrow kernels, and not extreme ones."""


@dataclass(frozen=True)
class Needs:
    """Condition of an approximate null distribution on the data.

    Parameters
    ----------
    rows : float
        Rows that show the joint variation.
    meaningless : float, optional
        Fewer rows than these leave it without any meaning.
    directions : float, optional
        The most in which features may vary.
    crowded : str, optional
        Consequence beyond the limit.
    remedy : str, optional
        Advice that ends the message.
    """

    rows: float
    meaningless: float = 0.0
    directions: float = math.inf
    crowded: str = "it rejects too rarely"
    remedy: str = "take null='auto' in tests of independence, or null='permutation': both are exact"


@np.errstate(all="ignore")
def kernel_moments(gram: NDArray[np.floating[Any]]) -> KernelMoments:
    """The moments of a kernel, from its Gram matrix (s, s) of rows of one variable.

    Pairs of a row with itself are left out. They stay where most rows equal another one: a row
    that equals none then has a value that is rare in the data, and meets it in them.
    """
    s = len(gram)
    centred = np.array(gram, np.float64)
    norms = centred.diagonal().copy()
    whole = _mostly_tied(centred, norms)
    # A row without itself meets s - 1 others.
    count = s if whole else s - 1
    np.fill_diagonal(centred, norms if whole else 0.0)
    means = centred.sum(axis=1) / count
    mean = float(means.mean())
    # A_ij = k_ij - mean_i - mean_j + mean, in place, since s^2 entries are many.
    centred -= means[:, None]
    centred -= means - mean
    if not whole:
        # Centring wrote on the diagonal, which takes no part.
        np.fill_diagonal(centred, 0.0)
    squares = centred**2
    square = float(squares.sum()) / (s * count)
    # sum A^3 = <A^2, A>, without a third array of this size.
    cube = float(np.vdot(squares, centred)) / (s * count)
    # Variation below the rounding of the squared kernel is none.
    if square <= _UNSEEN * _largest_norm(norms) ** 2:
        square = cube = 0.0
    alike = bool(np.ptp(norms) <= _ALIKE * _largest_norm(norms))
    return KernelMoments(mean, square, cube, float(norms.mean()) - mean, alike)


def _mostly_tied(gram: Vector, norms: Vector) -> bool:
    """Whether half of the rows or more equal another one."""
    # |phi(x) - phi(z)|^2 = k(x, x) + k(z, z) - 2 k(x, z) is 0 where all three agree.
    same = _SAME * _largest_norm(norms)
    equal = np.abs(gram - norms) <= same
    equal &= np.abs(gram - norms[:, None]) <= same
    return bool((equal.sum(axis=1) > 1).mean() >= 0.5)


def _largest_norm(norms: Vector) -> np.float64:
    return np.float64(np.abs(norms).max())


@np.errstate(all="ignore")
def joint_spread(moments: Sequence[KernelMoments], n: int) -> JointSpread:
    """Spread on n rows of independent variables, from the moments of the kernel of each.

    The limits that approximate nulls take for the law of a statistic know E h^2. Its third cumulant
    holds E h^3 / n besides, which is what they leave out, and which is large where h is, in few
    pairs of rows: for rare values and narrow kernels.

    Parameters
    ----------
    moments : sequence of KernelMoments
        One a variable, two or more. Means of 0 leave the term of all variables together.
    n : int
        Rows of the data.

    Returns
    -------
    JointSpread
        Without any rows where a kernel shows no variation; without limits where the moments
        overflow, as the statistic then does, which the test refuses.
    """
    means, squares, cubes, norms = np.transpose(
        [moments_of_kernel[:4] for moments_of_kernel in moments]
    )
    # xi centres the product of the features: sets of two variables and more are left.
    square, cube = _joint(squares, means**2), _joint(cubes, means**3)
    norm = _joint(norms, means)
    # Moments that overflow tell nothing here; the statistic itself is checked for it.
    if not np.isfinite([square**1.5, cube, norm**2]).all():
        return JointSpread(math.inf, 0.0)
    if square == 0.0:
        return JointSpread(0.0, 0.0)
    # E h^3 / n against (E h^2)^1.5: the part of the third cumulant that the limits leave out.
    rows = n * square**1.5 / abs(cube) if cube else math.inf
    return JointSpread(
        float(rows),
        float(norm**2 / square),
        all(moments_of_kernel.alike for moments_of_kernel in moments),
    )


def _joint(centred: Vector, means: Vector) -> np.float64:
    """prod_m (centred_m + mean_m) less what is constant or linear in the centred ones.

    The sum over the sets of two variables or more of the products of their centred moments and of
    the means of the others.
    """
    rest, linear, product = np.float64(0.0), np.float64(0.0), np.float64(1.0)
    for moment, mean in zip(centred, means, strict=True):
        # One more variable: its centred moment joins sets that have one already, and makes sets of
        # one out of the empty set.
        rest = rest * (moment + mean) + linear * moment
        linear, product = linear * mean + product * moment, product * mean
    return rest


@np.errstate(all="ignore")
def spread_at_locations(kernels: Sequence[NDArray[np.floating[Any]]], n: int) -> JointSpread:
    """Spread on n rows of statistics made of the centred products xi at a few locations.

    Parameters
    ----------
    kernels : sequence of ndarray, shapes (s, J)
        Kernels of rows of every variable, at its part of the locations.
    n : int
        Rows of the data.

    Returns
    -------
    JointSpread
        n over the mean of the squared skewness (E xi^3)^2 / (E xi^2)^3 at the locations.
    """
    means = np.array([tile.mean(axis=0, dtype=np.float64) for tile in kernels])
    centred = [tile - mean for tile, mean in zip(kernels, means, strict=True)]
    second = np.array([(tile**2).mean(axis=0) for tile in centred])
    third = np.array([(tile**3).mean(axis=0) for tile in centred])
    squares, cubes = _moments_of_products(means, second, third)
    if not np.isfinite([squares, cubes]).all():
        return JointSpread(math.inf, 0.0)
    # Where nothing varies at a location, no row shows anything there.
    if not (squares > 0.0).all():
        return JointSpread(0.0, 0.0)
    # The squared skewness, kappa_3^2 / kappa_2^3, as a mean over the locations.
    skewness = float(((cubes / squares) ** 2 / squares).mean())
    return JointSpread(n / skewness if skewness else math.inf, 0.0)


def _moments_of_products(means: Vector, second: Vector, third: Vector) -> tuple[Vector, Vector]:
    """E xi^2 and E xi^3 at J locations, from the moments (M, J) of every variable's kernel.

    In a product of copies of xi a variable is centred in none, in two or in all three: in one its
    mean is 0. Copies take part where two variables or more are centred in them.
    """
    pairs, triples = (np.zeros((3,) * copies + means.shape[1:]) for copies in (2, 3))
    # The empty product of no variable; indices count centred variables in each copy, 2 for more.
    pairs[0, 0] = triples[0, 0, 0] = 1.0
    for k, v, t in zip(means, second, third, strict=True):
        # Two copies hold a variable uncentred, k^2, or centred in both, with its variance v.
        pairs = k**2 * pairs + v * _raised(pairs, (0, 1))
        some = sum(_raised(triples, two) for two in ((0, 1), (0, 2), (1, 2)))
        # Three copies hold it uncentred, centred in two of them, or in all, with its third moment.
        triples = k**3 * triples + v * k * some + t * _raised(triples, (0, 1, 2))
    return pairs[2, 2], triples[2, 2, 2]


def _raised(sums: Vector, copies: tuple[int, ...]) -> Vector:
    """With one more centred variable in some copies, counted as 0, 1, and 2 or more."""
    for axis in copies:
        none, single, more = np.moveaxis(sums, axis, 0)
        sums = np.stack([np.zeros_like(none), none, single + more], axis=axis)
    return sums


def guard(null: str, spreads: Sequence[JointSpread], n: int, needs: Needs) -> str:
    """Warn where an approximate null distribution misleads, and say why.

    Parameters
    ----------
    null : str
        Its name.
    spreads : sequence of JointSpread
        Spreads of every combination of kernels that is tested; the worst decides.
    n : int
        Rows of the data.
    needs : Needs
        Needs of this null distribution.

    Returns
    -------
    str
        Warning for the result; empty where there is none.

    Raises
    ------
    InvalidArgumentError
        No combination leaves rows that would show joint variation.
    """
    if all(spread.certain and 0.0 < spread.rows < needs.meaningless for spread in spreads):
        msg = (
            f"null {null!r} needs rows that show how the variables vary together, and if they are "
            f"independent none of {n:,} does: {needs.remedy}"
        )
        raise InvalidArgumentError(msg)
    reasons = []
    few = [spread.rows for spread in spreads if spread.rows < needs.rows]
    if few:
        reasons.append(
            f"{_some(few, spreads)}about {_short(min(few))} of {n:,} rows show how independent "
            f"variables vary together, and it needs {_short(needs.rows)}, so that p-values may be "
            "far too small"
        )
    crowds = [spread.directions for spread in spreads if spread.directions > needs.directions]
    if crowds:
        reasons.append(
            f"{_some(crowds, spreads)}kernels vary in about {_short(max(crowds))} directions, more "
            f"than {_short(needs.directions)}, so that {needs.crowded}"
        )
    if reasons:
        msg = f"null {null!r} is an approximation: {'; and '.join(reasons)}; {needs.remedy}"
        warnings.warn(msg, ApproximateNullWarning, stacklevel=3)
    return "; ".join(reasons)


def _some(few: Sequence[float], spreads: Sequence[JointSpread]) -> str:
    return f"in {len(few):,} of {len(spreads):,} combinations " if len(spreads) > 1 else ""


def _short(value: float) -> str:
    """Two digits of it."""
    return f"{float(f'{value:.2g}'):,g}"
