"""Level and power beside the tests of other packages. Needs the group `peers`.

`peers_level`: the share of independent data sets that are rejected, with 99 resamples.
`peers_power`: on real rows of the Million Song table (90 columns of timbre and the year) in the
folder DHSIC_DATA, at level 1 % with 250 resamples as figure 4 of Kalinke and Szabo (UAI 2023) has
it, power and processor time of a test. Slow methods have fewer rows. The most rows within a time
and a memory are those of `peers_limits`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.stats import binom

from benchmarks.peers.peer_tests import METHODS, RESAMPLES, Test
from benchmarks.shared import curves
from benchmarks.shared.cases import Data, Rng
from benchmarks.shared.songs import songs
from benchmarks.study import Cell, Row, Study
from dhsic.io.synthetic import synthetic

ALPHAS = (0.01, 0.05, 0.10)
LEVEL = 0.01
FEW_RESAMPLES = 99
SLOW = ("dcor dcov", "statsmodels dcov", "hyppo Dcorr", "hyppo Hsic")
"""Half a second and more of 500 rows: they have at most SLOW_ROWS."""
SLOW_ROWS = 1000
SIZES = (250, 500, 750, 1000, 1500, 2000, 4000)


@dataclass(frozen=True)
class Resampled:
    """A test with so many resamples, as the frame of power studies calls it."""

    test: Test
    resamples: int

    def __call__(self, data: Data, seed: int) -> float:
        return self.test(*data, self.resamples, seed)


def songs_standardised(n: int, rng: Rng) -> Data:
    """Of mean 0 and variance 1 in every column, as some packages make them by themselves."""
    return [(v - v.mean(axis=0)) / v.std(axis=0) for v in songs(n, rng)]


def songs_permuted(n: int, rng: Rng) -> Data:
    x, year = songs(n, rng)
    return [x, rng.permutation(year)]


def normals(n: int, rng: Rng) -> Data:
    return [rng.standard_normal((n, 1)), rng.standard_normal((n, 1))]


def generated(n: int, rng: Rng) -> Data:
    seed = int(rng.integers(2**31))
    return list(synthetic(n, features=5, dependence=0.9, seed=seed, dtype=np.float64))


INDEPENDENT: dict[str, curves.Draw] = {"songs, years permuted": songs_permuted, "normals": normals}
DEPENDENT: dict[str, curves.Draw] = {
    "songs": songs,
    "songs, standardised": songs_standardised,
    "generated": generated,
}


def rates(cell: Cell, found: Sequence[tuple[float, float]]) -> Iterator[Row]:
    """Shares of p-values at most alpha, and the limit that a test of that level keeps to."""
    pvalues, seconds = np.array(found).T
    limits = {a: float(binom.ppf(0.999, len(found), a)) / len(found) for a in ALPHAS}
    shares = {a: float(np.mean(pvalues <= a + 1e-9)) for a in ALPHAS}
    yield {
        "null": METHODS[cell.method].null,
        **{f"{100 * a:g}%": share for a, share in shares.items()},
        **{f"limit {100 * a:g}%": limit for a, limit in limits.items()},
        "above": " ".join(f"{100 * a:g}%" for a in ALPHAS if shares[a] > limits[a]),
        "seconds": float(seconds.mean()),
    }


def takes(cell: Cell) -> bool:
    return cell.method not in SLOW or cell.n <= SLOW_ROWS


STUDIES = (
    Study(
        name="peers_level",
        title="Do tests of other packages keep their level on the same data?",
        data=INDEPENDENT,
        methods={name: Resampled(one.test, FEW_RESAMPLES) for name, one in METHODS.items()},
        sizes=(200, 500),
        measure=curves.measure,
        columns=(
            "null",
            *(f"{100 * a:g}%" for a in ALPHAS),
            *(f"limit {100 * a:g}%" for a in ALPHAS),
            *("above", "seconds"),
        ),
        runs=300,
        rows=rates,
        follows_defaults=lambda cell: cell.method == "dhsic default",
        small={"data": ["normals"], "methods": ["dhsic default"], "sizes": [60], "runs": 2},
    ),
    curves.study(
        "peers_power",
        "How much power do they have, and in how much time?",
        DEPENDENT,
        {name: Resampled(one.test, RESAMPLES) for name, one in METHODS.items()},
        SIZES,
        LEVEL,
        runs=50,
        takes=takes,
        picture=partial(curves.picture, rows_scale="log", level=LEVEL),
        small={"data": ["generated"], "methods": ["dhsic default"], "sizes": [60], "runs": 2},
    ),
)
