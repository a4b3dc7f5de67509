"""Missing values that stay among the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.errors import DataError


class Gaps(NamedTuple):
    """The missing values of one variable."""

    rows: int
    """Rows that miss a value in any column."""
    values: tuple[int, ...]
    """Missing values of every column."""

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return self.rows > 0


def filled(rows: NDArray[Any]) -> NDArray[Any]:
    """Drawn rows of one variable, with values of others of them in place of missing ones.

    Column by column, the values of the last rows first: rows come in random order, and where some
    are landmarks the last are others, so that few landmarks are equal. Values are of the variable
    alone, so that landmarks made of them know nothing of the pairing.

    Parameters
    ----------
    rows : ndarray, shape (s, d)
        NaN where a value is missing. Returned as they are where none is.

    Raises
    ------
    DataError
        A column has no value in any of the rows.

    Examples
    --------
    >>> filled(np.array([[1.0], [np.nan], [3.0], [np.nan]])).ravel().tolist()
    [1.0, 3.0, 3.0, 1.0]
    """
    gaps = np.isnan(rows)
    if not gaps.any():
        return rows
    rows = rows.copy()
    for j in np.flatnonzero(gaps.any(axis=0)):
        missing = gaps[:, j]
        if missing.all():
            msg = (
                f"a variable needs values to draw from, and column {j} has none in {len(rows):,} "
                "drawn rows: leave out the column"
            )
            raise DataError(msg)
        rows[missing, j] = np.resize(rows[~missing, j][::-1], np.count_nonzero(missing))
    return rows
