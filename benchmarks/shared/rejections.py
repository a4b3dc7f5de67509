"""How often tests reject: what studies of the level and of the power share.

A run draws one data set with a generator of the kind of data, its size and the number of the run,
so that all methods see the same data sets, and tests it once. A test may give several p-values; it
has a row for each.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from benchmarks.shared.cases import Data, Rng
from benchmarks.study import Cell, Row, Study
from dhsic.errors import DependentRowsWarning, DhsicError, UnexplainedWarning

LEVELS = (0.1, 0.05, 0.01, 0.001)
WARNED = (DependentRowsWarning, UnexplainedWarning)
COLUMNS = ("p-value", "refused", *(f"{100 * level:g}%" for level in LEVELS), "limit 5%", "above")


class Drawn(NamedTuple):
    """A data set, with arguments that say what is known of it."""

    variables: Data
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Source:
    """A kind of data, which methods of the same group are given."""

    group: str
    draw: Callable[[int, Rng], Any]
    sizes: tuple[int, ...] = ()
    """Of which it is drawn; all of the study where there are none."""

    def drawn(self, n: int, rng: Rng) -> Drawn:
        """One data set."""
        found = self.draw(n, rng)
        return found if isinstance(found, Drawn) else Drawn(found, {})


def whole(result: Any) -> float:
    return float(result.pvalue)


@dataclass(frozen=True)
class Method:
    """A test that takes data of some groups."""

    groups: tuple[str, ...]
    call: Callable[..., Any]
    """Takes the variables, arguments of the data, and `rng`; returns what p-values are read of."""
    pvalues: Mapping[str, Callable[[Any], float]] = field(default_factory=lambda: {"": whole})
    most_rows: int | None = None
    most_variables: int | None = None
    default: bool = True
    """Whether it is called without its estimator, its kernels or its null."""


class Tested(NamedTuple):
    """What came of a run."""

    pvalues: tuple[float, ...]
    """None where the data were refused."""
    warned: bool
    seconds: float
    """Of the processor."""


def takes(cell: Cell) -> bool:
    """Whether the method is for such data."""
    source: Source = cell.draw
    method: Method = cell.test
    if source.group not in method.groups or (source.sizes and cell.n not in source.sizes):
        return False
    if method.most_rows is not None and cell.n > method.most_rows:
        return False
    if method.most_variables is None:
        return True
    drawn = source.drawn(20, np.random.default_rng(0))
    return len(drawn.variables) <= method.most_variables


def follows_defaults(cell: Cell) -> bool:
    return bool(cell.test.default)


def seeds(cell: Cell, run: int) -> Rng:
    """The generator of a run, the same for all methods and kinds of data."""
    return np.random.default_rng([cell.n, run])


_warm: set[str] = set()


def measure(cell: Cell, run: int) -> Tested:
    """Draw a data set and test it."""
    drawn = cell.draw.drawn(cell.n, seeds(cell, run))
    if cell.method not in _warm:  # what a first call loads is not its cost
        _warm.add(cell.method)
        _tested(cell, drawn, run)
    return _tested(cell, drawn, run)


def _tested(cell: Cell, drawn: Drawn, run: int) -> Tested:
    with threadpool_limits(1, "blas"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        for kind in WARNED:
            warnings.simplefilter("always", kind)
        began = time.process_time()
        try:
            found = cell.test.call(*drawn.variables, **drawn.arguments, rng=run)
            pvalues = tuple(float(read(found)) for read in cell.test.pvalues.values())
        except DhsicError:
            pvalues = ()
        seconds = time.process_time() - began
    return Tested(pvalues, bool(caught), seconds)


def rates(cell: Cell, found: Sequence[Tested]) -> Iterator[Row]:
    """A row a p-value: shares that are at most a level, and where they lie above its limit.

    The limit is what a test of exactly that level exceeds in 1 of 1,000 studies. `power` is the
    share at level 5 %, and `error` its standard error; `unwarned` is the share of data sets that
    are rejected at level 5 % without a warning.
    """
    answered = [one for one in found if one.pvalues]
    warned = np.array([one.warned for one in answered])
    count = len(answered)
    for place, name in enumerate(cell.test.pvalues):
        pvalues = np.array([one.pvalues[place] for one in answered])
        rejected = {level: pvalues <= level + 1e-9 for level in LEVELS}
        shares = {
            level: float(one.mean()) if count else math.nan for level, one in rejected.items()
        }
        limits = {level: float(binom.ppf(0.999, count, level)) / max(1, count) for level in LEVELS}
        power = shares[0.05]
        yield {
            "p-value": name,
            "refused": len(found) - count,
            **{f"{100 * level:g}%": share for level, share in shares.items()},
            "limit 5%": limits[0.05],
            "above": " ".join(f"{100 * x:g}%" for x in LEVELS if shares[x] > limits[x]),
            "power": power,
            "error": math.sqrt(power * (1.0 - power) / count) if count else math.nan,
            "warned": float(warned.mean()) if count else math.nan,
            "unwarned": float((rejected[0.05] & ~warned).mean()) if count else math.nan,
            "seconds": float(np.mean([one.seconds for one in found])),
        }


of_rejections = partial(
    Study, measure=measure, rows=rates, takes=takes, follows_defaults=follows_defaults
)
"""A study of how often tests reject."""
