"""Landmarks drawn uniformly from the rows."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator

Pairing = Literal["independent", "joint"]


def uniform_rows(
    seed: int, n: int, p: int, n_variables: int, *, pairing: Pairing, replace: bool
) -> list[NDArray[np.intp]]:
    """Rows of the landmarks of every variable.

    Parameters
    ----------
    seed : int
        The seed of the test.
    n, p : int
        Rows and landmarks.
    n_variables : int
        Variables, M.
    pairing : {"independent", "joint"}
        Draw the rows of every variable independently of the others', so that the landmarks know
        nothing of the pairing and a permutation test that keeps them is exact; or take the same
        rows for all, as Kalinke and Szabo (2023), equation 14.
    replace : bool
        Draw with replacement.

    Returns
    -------
    list of ndarray of int, shapes (p,)
    """
    draws = [
        # A stream for each variable: with one seed for two variables their landmarks are the same
        # rows, and 76 to 100 % of true nulls were rejected.
        generator(seed, "landmarks", m).choice(n, size=p, replace=replace)
        for m in range(n_variables if pairing == "independent" else 1)
    ]
    # Joint tuples are rows of the data (Kalinke and Szabo 2023, (14)).
    return draws if pairing == "independent" else draws * n_variables
