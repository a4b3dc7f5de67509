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
    files = [path for path in listed if _FILE.fullmatch(path.name)]
    if not files:
        msg = f"{str(place)!r} must be a folder with files pair0001.txt and so on, and has none"
        raise DataError(msg)
    # By number: as text pair10 comes before pair2.
    files.sort(key=lambda path: (_number_of_pair(path), path.name))
    for first, other in pairwise(files):
        if _number_of_pair(first) == _number_of_pair(other):
            msg = (
                f"pairs must differ in their numbers, got {first.name} and {other.name}: rename one"
            )
            raise DataError(msg)
    known = _meta(place / _META)
    return [_pair(path, known) for path in files]


def _meta(path: Path) -> dict[int, tuple[int, int, int, int, float]] | None:
    """Columns of cause and effect, and the weight, by the number of the pair."""
    if not path.exists():
        return None
    rows = {}
    for row in np.atleast_2d(_numbers_of_file(path)):
        # All numbers of the file are read as floats, columns among them.
        whole = np.isfinite(row).all() and (row[:5] == np.floor(row[:5])).all()
        if len(row) != 6 or not whole or (row[1:5] < 1).any() or row[5] < 0:
            msg = (
                f"{path} must have six numbers a line, columns counted from 1 and a weight of at "
                f"least 0, got {row}: mend that line"
            )
            raise DataError(msg)
        number, *columns = map(int, row[:5])
        if number in rows:
            msg = f"{path} must have one line a pair, got two of pair {number}: leave one out"
            raise DataError(msg)
        rows[number] = (columns[0], columns[1], columns[2], columns[3], float(row[5]))
    return rows


def _pair(path: Path, known: dict[int, tuple[int, int, int, int, float]] | None) -> CauseEffectPair:
    data = _numbers_of_file(path)
    number = _number_of_pair(path)
    if known is None:
        if data.shape[1] != 2:
            msg = f"{path} must have two columns where there is no {_META}, got {data.shape[1]}"
            raise DataError(msg)
        return CauseEffectPair(path.stem, data[:, :1], data[:, 1:], None, 1.0)
    if number not in known:
        msg = f"{_META} must have a line for every pair, and has none for {path.name}: add it"
        raise DataError(msg)
    first, last, effect_first, effect_last, weight = known[number]
    if not data.shape[1] >= max(last, effect_last) or last < first or effect_last < effect_first:
        msg = f"{_META} must choose columns of the {data.shape[1]} of {path.name}: mend its line"
        raise DataError(msg)
    # A column of both would be regressed on itself.
    if first <= effect_last and effect_first <= last:
        msg = (
            f"{_META} must choose other columns for cause and effect of {path.name}: mend its line"
        )
        raise DataError(msg)
    cause, effect = data[:, first - 1 : last], data[:, effect_first - 1 : effect_last]
    # x is the variable whose columns come first, so that the answer is not in the order.
    forward = first < effect_first
    x, y = (cause, effect) if forward else (effect, cause)
    return CauseEffectPair(path.stem, x, y, forward, weight)


def _number_of_pair(path: Path) -> int:
    return int(path.stem.removeprefix("pair"))


def _numbers_of_file(path: Path) -> NDArray[np.float64]:
    try:
        return np.loadtxt(path, dtype=np.float64, ndmin=2)
    except (OSError, ValueError) as error:
        msg = f"{path} must hold numbers in columns, and cannot be read ({error})"
        raise DataError(msg) from error
