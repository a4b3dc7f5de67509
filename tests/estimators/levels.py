"""How many of some runs may reject where a level is kept; few runs are enough where it is clear."""

from itertools import islice
from typing import NamedTuple

import numpy as np
from scipy.stats import binom


class Check(NamedTuple):
    """How many of some runs may reject; few runs are enough where their number is clear."""

    first: int
    clear: range
    runs: int
    allowed: range

    @classmethod
    def of(cls, runs, level, error=0.0005, least=0.0):
        """All runs where the first third says too little; the rate is to be from `least` on."""
        first = max(runs // 3, 15)
        clear = range(int(binom.ppf(0.05, first, least)), int(binom.isf(0.1, first, level)) + 1)
        most = int(binom.isf(error, runs, level))
        return cls(first, clear, runs, range(int(binom.ppf(error, runs, least)), most + 1))

    def passes(self, rejected):
        count = sum(islice(rejected, self.first))
        if count in self.clear:
            return True
        return count + sum(islice(rejected, self.runs - self.first)) in self.allowed

    def failure(self, rate):
        """Probabilities of too few and of too many rejections at a rate."""
        counts = np.arange(self.first + 1)
        unclear = [count not in self.clear for count in counts]
        weights = binom.pmf(counts, self.first, rate) * unclear
        rest = self.runs - self.first
        few = weights @ binom.cdf(self.allowed.start - 1 - counts, rest, rate)
        many = weights @ binom.sf(self.allowed.stop - 1 - counts, rest, rate)
        return few, many
