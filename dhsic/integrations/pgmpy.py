"""Tests for pgmpy's constraint-based searches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dhsic.integrations.pvalue import PValue

__all__ = ["PgmpyTest"]


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

    def __call__(
        self,
        X: Hashable,
        Y: Hashable,
        Z: Sequence[Hashable] = (),
        significance_level: float = 0.05,
    ) -> bool:
        """Whether two columns are independent given others at a level.

        Parameters
        ----------
        X, Y : hashable
            Names of columns.
        Z : sequence of hashable, optional
            Names of those that are given.
        significance_level : float, optional
            The level.

        Returns
        -------
        bool
        """
        given = self.data[list(Z)] if len(Z) else None
        pvalue = self.test(self.data[[X]], self.data[[Y]], given)
        self.p_value_ = pvalue
        return pvalue >= significance_level
