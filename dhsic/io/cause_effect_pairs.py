"""Pairs of variables in the files of the Tuebingen cause-effect pairs."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.errors import DataError

_META = "pairmeta.txt"
_FILE = re.compile(r"pair(\d+)\.txt")
_Known = dict[int, tuple[list[int], float]]


class CauseEffectPair(NamedTuple):
    """Two variables, in the order of their file."""

    name: str
    """Name of the file, as "pair0001"."""
    x: NDArray[np.float64]
    """The variable whose columns come first, shape (n, d)."""
    y: NDArray[np.float64]
    """The other, shape (n, e)."""
    first_is_cause: bool | None
    """Whether x is the cause; None where nothing says so."""
    weight: float
    """Weight of the pair among those of its origin."""


def read_pairs(folder: str | Path) -> list[CauseEffectPair]:
    r"""Read pairs from a folder, in the format of the Tuebingen collection [1]_.

    Parameters
    ----------
    folder : str or Path
        With files ``pair0001.txt`` and so on, numbers in columns with white space between them, and
        ``pairmeta.txt``: a line a pair with its number, the first and the last column of the cause,
        those of the effect, counted from 1, and its weight. Without that file every pair has two
        columns, no known direction and weight 1. Other columns belong to neither variable.

    Returns
    -------
    list of CauseEffectPair
        By their numbers.

    Raises
    ------
    DataError
        There is no such file, or one cannot be read.

    References
    ----------
    .. [1] J. Mooij, J. Peters, D. Janzing, J. Zscheischler, B. Schoelkopf. Distinguishing cause
       from effect using observational data: methods and benchmarks. JMLR 17(32), 2016.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "pair0007.txt").write_text("1 10\n2 30\n3 20\n")
    ...     _ = (Path(folder) / "pairmeta.txt").write_text("0007 2 2 1 1 0.5\n")
    ...     (pair,) = read_pairs(folder)
    >>> pair.name, pair.first_is_cause, pair.weight
    ('pair0007', False, 0.5)
    """
    place = Path(folder)
    listed = place.glob("pair*.txt") if os.path.isdir(place) else ()
    # By number: as text pair10 comes before pair2.
    found = ((_FILE.fullmatch(path.name), path) for path in listed)
    files = sorted((int(match[1]), path) for match, path in found if match)
    if not files:
        msg = f"{str(place)!r} must be a folder with files pair0001.txt and so on, and has none"
        raise DataError(msg)
    for (first, one), (other, path) in pairwise(files):
        if first == other:
            msg = f"pairs must differ in their numbers, got {one.name} and {path.name}: rename one"
            raise DataError(msg)
    known = _meta(place / _META) if (place / _META).exists() else None
    return [_pair(path, number, known) for number, path in files]


def _meta(path: Path) -> _Known:
    """Columns of cause and effect, and the weight, by the number of the pair."""
    rows: _Known = {}
    for row in np.atleast_2d(_numbers_of_file(path)):
        # All numbers of the file are read as floats, columns among them.
        whole = np.isfinite(row).all() and (row[:5] == np.floor(row[:5])).all()
        if len(row) != 6 or not whole or (row[1:5] < 1).any() or row[5] < 0:
            what = "six numbers a line, columns counted from 1 and a weight of at least 0"
            msg = f"{path} must have {what}, got {row}: mend that line"
            raise DataError(msg)
        number, *columns = row[:5].astype(int).tolist()
        if number in rows:
            msg = f"{path} must have one line a pair, got two of pair {number}: leave one out"
            raise DataError(msg)
        rows[number] = columns, float(row[5])
    return rows


def _pair(path: Path, number: int, known: _Known | None) -> CauseEffectPair:
    data = _numbers_of_file(path)
    d = data.shape[1]
    if known is None:
        if d != 2:
            msg = f"{path} must have two columns where there is no {_META}, got {d}"
            raise DataError(msg)
        return CauseEffectPair(path.stem, data[:, :1], data[:, 1:], None, 1.0)
    (first, last, start, end), weight = known.get(number, ([0] * 4, 0.0))
    # A column of both would be regressed on itself.
    apart = 0 < first <= last < start <= end <= d or 0 < start <= end < first <= last <= d
    if not apart:
        what = f"a line for {path.name} with columns of the {d}, other columns for cause and effect"
        msg = f"{_META} must have {what}: mend it"
        raise DataError(msg)
    cause, effect = data[:, first - 1 : last], data[:, start - 1 : end]
    # x is the variable whose columns come first, so that the answer is not in the order.
    x, y = (cause, effect) if first < start else (effect, cause)
    return CauseEffectPair(path.stem, x, y, first < start, weight)


def _numbers_of_file(path: Path) -> NDArray[np.float64]:
    try:
        return np.loadtxt(path, dtype=np.float64, ndmin=2)
    except (OSError, ValueError) as error:
        msg = f"{path} must hold numbers in columns, and cannot be read ({error})"
        raise DataError(msg) from error
