"""Tests for pgmpy's constraint-based searches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dhsic.errors import InvalidArgumentError
from dhsic.integrations.pvalue import PValue
from dhsic.io.frames import unknown_column
from dhsic.io.libraries import is_of


@dataclass
class PgmpyTest:
    """A test of the columns of a data frame, as `ci_test` of pgmpy's searches.

    Parameters
    ----------
    data : pandas.DataFrame
        The data that the search is over.
    test : PValue, optional
        The test.

    Attributes
    ----------
    p_value_ : float
        P-value of the last test.

    Raises
    ------
    InvalidArgumentError
        The data are no data frame.

    References
    ----------
    .. [1] A. Ankan, J. Textor. pgmpy: a Python toolkit for Bayesian networks. JMLR 25(265), 2024.

    Examples
    --------
    A search calls it with names of columns, ``PC(ci_test=PgmpyTest(frame)).fit(frame)``:

    >>> import numpy as np
    >>> import pandas as pd
    >>> from dhsic.integrations import PgmpyTest
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"x": rng.standard_normal(200), "z": rng.standard_normal(200)})
    >>> frame["y"] = frame["x"] ** 2
    >>> test = PgmpyTest(frame)
    >>> test("x", "y"), test("x", "z")
    (False, True)
    """

    data: Any
    test: PValue = field(default_factory=PValue)
    p_value_: float = field(default=float("nan"), init=False)

    def __post_init__(self) -> None:
        if not is_of(self.data, "pandas", "DataFrame"):
            got = type(self.data).__name__
            msg = f"data must be a pandas.DataFrame, whose columns are tested, got {got}: make one"
            raise InvalidArgumentError(msg)

    def __call__(
        self,
        X: Hashable,
        Y: Hashable,
        Z: Sequence[Hashable] | None = (),
        significance_level: float = 0.05,
    ) -> bool:
        """Whether two columns are independent given others at a level.

        Parameters
        ----------
        X, Y : hashable
            Names of columns.
        Z : sequence of hashable, optional
            Names of those that are given; none where it is None.
        significance_level : float, optional
            The level.

        Returns
        -------
        bool

        Raises
        ------
        InvalidArgumentError
            There is no such column.
        """
        listed = [Z] if isinstance(Z, str) else list(Z or ())
        for column in (X, Y, *listed):
            if column not in self.data.columns:
                raise unknown_column(column, list(map(str, self.data.columns)))
        given = self.data[listed] if listed else None
        pvalue = self.test(self.data[[X]], self.data[[Y]], given)
        self.p_value_ = pvalue
        return pvalue >= significance_level
