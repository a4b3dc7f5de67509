"""Landmarks: points of every variable at which mean embeddings are evaluated."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import shown
from dhsic.errors import InvalidArgumentError, LandmarkWarning
from dhsic.kernels import Kernel
from dhsic.linalg import PivotedCholesky, hadamard, pivoted_cholesky

# "8sqrt", "8*sqrt(n)" and "8 sqrt(n)" are the same number.
_SQRT = re.compile(r"(\d+(?:\.\d+)?)?\s*\*?\s*sqrt(?:\(n\))?")


@dataclass(frozen=True)
class Landmarks:
    """Landmark tuples z_j = (z_1j, ..., z_Mj).

    Parameters
    ----------
    points : tuple of ndarray, shapes (p, d_m)
        The landmarks of every variable.
    indices : tuple of ndarray of int, shapes (p,)
        The rows of the data that they are.
    """

    points: tuple[NDArray[np.float64], ...]
    indices: tuple[NDArray[np.intp], ...]

    def __len__(self) -> int:
        return len(self.points[0])

    def keep(self, kept: NDArray[np.intp]) -> Landmarks:
        """The chosen landmark tuples, in that order."""
        return Landmarks(
            tuple(z[kept] for z in self.points), tuple(rows[kept] for rows in self.indices)
        )


def check_count(count: int | str) -> None:
    """Raise unless the count is a positive integer or a multiple of sqrt(n)."""
    if isinstance(count, str) and (match := _SQRT.fullmatch(count.strip())):
        if match[1] is None or float(match[1]) > 0:
            return
    elif isinstance(count, (int, np.integer)) and not isinstance(count, bool) and count >= 1:
        return
    got = shown(count)
    msg = f"n_landmarks must be an integer >= 1 or a multiple of sqrt(n) as '8sqrt', got {got}"
    raise InvalidArgumentError(msg)


def landmark_count(count: int | str, n: int, *, replace: bool) -> int:
    """Number of landmarks for n rows.

    Parameters
    ----------
    count : int or str
        A number, or a multiple of sqrt(n) such as "8sqrt", which is at most n.
    n : int
        Rows of the data.
    replace : bool
        Whether landmarks are drawn with replacement.

    Returns
    -------
    int

    Raises
    ------
    InvalidArgumentError
        More landmarks than rows without replacement.

    Examples
    --------
    >>> landmark_count("8sqrt", 515_345, replace=False)
    5743
    """
    check_count(count)
    if isinstance(count, str):
        match = _SQRT.fullmatch(count.strip())
        assert match is not None
        # About sqrt(n) landmarks keep the rate n^(-1/2) where the spectrum of the kernel decays
        # exponentially (Chatalic et al. 2022, corollary 4.1; Kalinke and Szabo 2023, remark 2).
        return min(n, max(1, round(float(match[1] or 1) * math.sqrt(n))))
    if count > n and not replace:
        msg = (
            f"n_landmarks must be at most the number of rows, got {count} landmarks for {n} rows: "
            f"take at most {n}, or a multiple of sqrt(n) as '8sqrt'"
        )
        raise InvalidArgumentError(msg)
    return int(count)


def prune(
    landmarks: Landmarks, kernels: tuple[Kernel, ...], tolerance: float, *, leads: bool = True
) -> tuple[Landmarks, PivotedCholesky]:
    """Keep the landmark tuples that span the others in the RKHS of the product kernel.

    The landmarks alone decide on the dropped ones, before any pass over the data.

    Parameters
    ----------
    landmarks : Landmarks
        p tuples.
    kernels : tuple of Kernel
        One a variable.
    tolerance : float
        See `dhsic.linalg.pivoted_cholesky`.
    leads : bool, optional
        Whether to warn where they are 0 at every landmark: not of kernels beside a reference, which
        has more to compare.

    Returns
    -------
    Landmarks
        The r kept tuples.
    PivotedCholesky
        Factor of their Gram matrix K_J, the Hadamard product of the K_m.
    """
    grams = (kernel(z) for kernel, z in zip(kernels, landmarks.points, strict=True))
    # K_J, the Hadamard product of the K_m, is the Gram matrix of the tuples (Kalinke and Szabo
    # 2023, (17)).
    gram = hadamard(grams)
    if leads:
        warn_of_zeros(gram, "the product of the kernels")
    # Pruned before any pass: rows of the data are compared with the tuples that stay, and the
    # factor serves the solve as well.
    factor = pivoted_cholesky(gram, tolerance)
    return landmarks.keep(factor.kept), factor


def warn_of_zeros(gram: NDArray[np.float64], what: str) -> None:
    """Warn where the Gram matrix of all landmarks is 0.

    So is a linear kernel about the median of a rare flag, where no landmark has the flag.

    Parameters
    ----------
    gram : ndarray, shape (p, p)
        Gram matrix of the landmarks.
    what : str
        Name of the kernels, for the start of the sentence.
    """
    if gram.diagonal().max() <= 0.0:
        msg = (
            f"{what} is 0 at every landmark, so that the landmarks show no dependence: take more "
            "of them, or another kernel, as 'gaussian'"
        )
        warnings.warn(msg, LandmarkWarning, stacklevel=2)
