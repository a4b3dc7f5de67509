"""What tests of replicates know of the inside: which rows meet, and which rows and waves are drawn.

This file alone, of the tests of this folder, imports what is not public.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from dhsic._arguments import RowLabels, RunOptions
from dhsic._random import generator
from dhsic.io.variables import rows_of_samples
from dhsic.landmarks import uniform_rows
from dhsic.nulls import Permutation
from dhsic.statistics.orbit import Groups, orbit_of

FEWEST = 512  # shifts that tests of all pairs of rows take at least, where there are so many rows


class Moves:
    """Every permutation that a null takes of n rows, by its number; number 0 is the identity."""

    def __init__(self, n, null, seed, variables=2, least=1, data=None, **asked):
        moves = None
        if asked:
            run = RunOptions(seed, "float64", threads=1)
            moves = run.open(data, None, None, "refuse", RowLabels(**asked)).moves
        if not isinstance(null, Permutation):
            null = replace(null, n_resamples=max(null.n_resamples, min(n, least)))
        session = SimpleNamespace(n=n, seed=seed, moves=moves, sources=range(variables))
        self.orbit = orbit_of(session, null)
        self.n, self.variables = n, variables

    def __len__(self):
        return len(self.orbit)

    def __iter__(self):
        return map(self.rows, range(len(self)))

    def order(self, number, variable=1, *, shifted=True):
        """Which row of a variable stands where row i was."""
        groups, (coset, shift) = self.orbit.groups, divmod(number, self.orbit.n_shifts)
        ranges, places = groups.arrange(0, groups.count)
        rows = np.concatenate([np.arange(a, b) for a, b in ranges])[places]
        own = rows[: groups.count * groups.size].reshape(groups.count, groups.size)
        whole = self.orbit.places(range(coset, coset + 1), variable)[0][: own.size]
        within = whole.reshape(own.shape) - groups.size * np.arange(groups.count)[:, None]
        order = np.arange(groups.n)
        order[own] = np.take_along_axis(own, np.roll(within, -shift * shifted, axis=1), axis=1)
        return order

    def rows(self, number):
        """Rows of all variables: the first stays, the last is shifted, all others are permuted."""
        last = self.variables - 1
        others = [self.order(number, v, shifted=v == last) for v in range(1, self.variables)]
        return [np.arange(self.n), *others]

    @property
    def shape(self):
        """Rows of a group, groups, rows that stay, and random orders."""
        groups = self.orbit.groups
        return groups.size, groups.count, groups.n_left, self.orbit.cosets


def left_over(n, size, seed):
    """Rows that are in no group of so many."""
    return Groups(n, size, seed).left


def landmark_rows(seed, n, count, variables, pairing="independent", *, replace=False):
    """Rows that are landmarks of every variable."""
    return uniform_rows(seed, n, count, variables, pairing=pairing, replace=replace)


def normal_waves(seed, variable, shape):
    """Standard normal numbers from which random frequencies of a variable are made."""
    return generator(seed, "features", variable).standard_normal(shape)


def bandwidth_rows(seed, n, variable=0):
    """The rows by which the kernel of a variable is fitted, of more than 1,000."""
    return generator(seed, "bandwidth", variable).choice(n, size=1000, replace=False)


def training_rows(seed, n, count):
    """Rows by which the locations of NFSIC are placed."""
    return generator(seed, "selection").choice(n, count, replace=False)


def pooled(samples):
    """Number of the sample of every row of a pool, and its place there."""
    sizes = [len(one) for one in samples]
    return rows_of_samples(np.arange(sum(sizes)), sizes)
