"""Tests without options keep their level on everyday data.

Cells are where limit laws were wrong. Together they are enough to see a level of
10 % in place of 5 %, and each to see one of 30 %, or of 50 % where there are fewer than 20 data
sets, with a probability of 0.9; a check fails by chance with one of 0.001 at most.
"""

import zlib
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

import dhsic
from benchmarks.shared.null_data import KINDS, Drawing, varies

CHANCE, SEEN = 0.001, 0.9


def whole(drawing, n, m, **options):
    return dhsic.independence_test(*drawing.variables(n, m), **options).pvalue


def ranking(drawing, n, m, **options):
    *columns, y = drawing.variables(n, m)
    found = dhsic.rank_features(np.hstack(columns), y, **options)
    return min(one.pvalue_max_t for one in found.features)


def matrix(drawing, n, m, **options):
    found = dhsic.dependence_matrix(*drawing.variables(n, m), **options)
    return found.adjusted[np.triu_indices(m, 1)].min()


def samples(drawing, n, m, **options):
    return dhsic.two_sample_test(*drawing.samples([n // 3, n - n // 3]), **options).pvalue


# The function, the kind of data, variables, rows, and data sets.
GUARDED = [
    (whole, "normal, 3 columns", 3, 200, 15),
    (whole, "2% dummies", 2, 400, 75),
    (whole, "zero-inflated", 2, 500, 40),
    (whole, "normal, 1 columns", 2, 200, 37),
    (matrix, "2% dummies", 4, 200, 120),
]
LONG = [
    (whole, "2% dummies", 2, 1000, 37),
    (whole, "Poisson(0.03)", 2, 500, 78),
    (whole, "0.5% dummy, continuous", 2, 1000, 37),
    (ranking, "2% dummies", 9, 5000, 37),
    (samples, "0.5% dummies", 2, 1000, 90),
    (whole, "normal, 3 columns", 3, 1000, 40),
]


def one_pvalue(function, kind, m, n, number):
    rng = np.random.default_rng([zlib.crc32(kind.encode()), m, n, number])
    return function(Drawing(kind, rng), n, m, rng=number, threads=1)


@cache
def pvalues(function, kind, m, n, count):
    return np.array([one_pvalue(function, kind, m, n, number) for number in range(count)])


def most(count, level=0.05):
    """Rejections that a test of this level exceeds in 1 of 1,000 studies."""
    return int(binom.ppf(1.0 - CHANCE, count, level))


@pytest.mark.parametrize(
    "cell",
    [*GUARDED, *(pytest.param(cell, marks=pytest.mark.nightly) for cell in LONG)],
    ids=lambda cell: f"{cell[0].__name__}, {cell[1]}, {cell[3]}",
)
def test_default__keeps_its_level_on(cell):
    count = cell[-1]
    assert binom.sf(most(count), count, 0.5 if count < 20 else 0.3) >= SEEN
    assert np.count_nonzero(pvalues(*cell) <= 0.05 + 1e-9) <= most(count)


@pytest.mark.nightly
@pytest.mark.parametrize("level", [0.1, 0.05, 0.01, 0.001])
def test_default__keeps_its_level_on_all_together(level):
    found = np.concatenate([pvalues(*cell) for cell in GUARDED + LONG])
    assert binom.sf(most(len(found)), len(found), 0.1) >= SEEN
    assert np.count_nonzero(found <= level + 1e-9) <= most(len(found), level)


@pytest.mark.parametrize("kind", KINDS)
def test_null_data__varies_and_is_as_large_as_asked(kind):
    drawing = Drawing(kind, np.random.default_rng(0))
    data = [*drawing.variables(30, 3), *drawing.interacting(30), *drawing.caused(30, 2, 2)]
    assert all(len(x) == 30 and np.isfinite(x).all() and varies([x]) for x in data)
    assert [len(sample) for sample in drawing.samples([4, 9])] == [4, 9]
