"""A test of independence as a function, and as causal-learn and pgmpy take it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dhsic._random import RngLike, generator, resolve_seed
from dhsic._validation import check_integer
from dhsic.api import independence_test
from dhsic.conditional import conditional_independence_test
from dhsic.errors import DataError, InvalidArgumentError, require
from dhsic.estimators.registry import NULLS, Counted
from dhsic.io.frames import unknown_column
from dhsic.io.libraries import is_of
from dhsic.nulls import Shifts

_FEWEST_ROWS = 20
_MANY_TIMES = 5  # the rows of a first test, where it saves more than it costs
_FIRST_SHARE = 0.01
_SURE = 1e-6
_NAME = "dhsic"


@dataclass(frozen=True)
class PValue:
    """A test of independence, given variables or none, as a function that returns its p-value.

    DoWhy takes it as `independence_test` and as `conditional_independence_test`.

    Most tests of a search are of variables that depend on each other, which a share of the rows
    shows. So of many rows in memory some are tested first: where their p-value p_1 is at most 1e-6,
    the p-value is 100 p_1, and else p_2 / 0.99 with p_2 of all rows. By the union bound over both
    tests it is at most a with probability at most a, where p_1 and p_2 are [1]_. P-values of
    replicates are never as small: where nothing is given and ``marginal`` names no null with a law,
    as "gamma", or only categories are given, all rows are tested at once.

    Parameters
    ----------
    rng : int, SeedSequence, BitGenerator or None, optional
        Seed of every test, so that the same question has the same answer.
    client, threads, memory
        As for `dhsic.independence_test`.
    marginal : mapping of str to object, optional
        Other options of `dhsic.independence_test`, for tests where nothing is given, as
        ``{"null": "gamma"}``.
    conditional : mapping of str to object, optional
        Other options of `dhsic.conditional_independence_test`, where something is.
    first_rows : int or None, optional
        Rows of the first test, drawn at random, where there are at least 5 times as many in arrays
        of NumPy or tables of pandas; with None all rows are tested at once.

    Raises
    ------
    InvalidArgumentError
        Fewer than 20 first rows.

    References
    ----------
    .. [1] C. Genovese, K. Roeder, L. Wasserman. False discovery control with p-value weighting.
       Biometrika 93, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.integrations import PValue
    >>> z, a, b = np.random.default_rng(0).standard_normal((3, 400))
    >>> pvalue = PValue(conditional={"kernels": "gaussian"})
    >>> pvalue(z + a, z + b) < 0.01 < pvalue(z + a, z + b, z)
    True
    """

    rng: RngLike = 0
    client: Any = None
    threads: int | None = None
    memory: int | str = "2GiB"
    marginal: Mapping[str, Any] = field(default_factory=dict)
    conditional: Mapping[str, Any] = field(default_factory=dict)
    first_rows: int | None = 20_000

    def __post_init__(self) -> None:
        if self.first_rows is not None:
            check_integer("first_rows", self.first_rows, minimum=_FEWEST_ROWS)

    def __call__(self, x: Any, y: Any, z: Any = None) -> float:
        """The p-value that x and y are independent given z.

        Parameters
        ----------
        x, y : array-like, shapes (n,) or (n, d)
            As for `dhsic.independence_test`.
        z : array-like, shape (n,) or (n, d), optional
            The variables given; none where it is None or empty, or has no columns.

        Returns
        -------
        float
        """
        # causal-learn gives an array without columns where there is no condition.
        sizes = [size for size in getattr(z, "shape", ()) if isinstance(size, int)]  # not of Dask
        nothing = z is None or 0 in sizes or (isinstance(z, list | tuple) and not z)
        given = () if nothing else (z,)
        first = self._of_first(x, y, *given)
        if first <= _SURE:
            return first / _FIRST_SHARE
        whole = self.of_all(x, y, *given)
        # Nothing was spent on a first test that there was not.
        return whole if np.isnan(first) else min(1.0, whole / (1.0 - _FIRST_SHARE))

    def _of_first(self, *variables: Any) -> float:
        """The p-value of rows drawn at random, NaN where all are to be tested."""
        count = self.first_rows
        if count is None or not all(map(_in_memory, variables)) or not self._has_law(variables[2:]):
            return float("nan")
        n = len(variables[0])
        # Where rows are not as many in all, the whole test says so.
        if n < _MANY_TIMES * count or {len(variable) for variable in variables} != {n}:
            return float("nan")
        rng = generator(resolve_seed(self.rng), "first rows")
        rows = np.sort(rng.choice(n, count, replace=False))
        try:
            return self._of_few(*(_take(variable, rows) for variable in variables))
        except (DataError, InvalidArgumentError):
            # As a variable whose drawn rows are all the same, or more landmarks than drawn rows.
            return float("nan")

    def _has_law(self, given: Sequence[Any]) -> bool:
        """Whether p-values may be as small as a first test needs."""
        if given:  # of categories a test moves rows within strata
            return self.conditional.get("method") != "strata" and any(map(_holds_numbers, given))
        null = self.marginal.get("null", "auto")
        # "auto" is a null of replicates but for few estimators.
        kind = NULLS.get(null, Shifts) if isinstance(null, str) else type(null)
        if not issubclass(kind, Counted):
            return True
        count = self.marginal.get("n_resamples") or getattr(null, "n_resamples", 0)
        return isinstance(count, int) and count >= 1.0 / _SURE

    def _of_few(self, *variables: Any) -> float:
        """The p-value of some rows, whose test is no part of the checkpoint of the whole one."""
        options = self.marginal, self.conditional
        if not any("checkpoint" in one for one in options):
            return self.of_all(*variables)
        marginal, conditional = (
            {name: value for name, value in one.items() if name != "checkpoint"} for one in options
        )
        return replace(self, marginal=marginal, conditional=conditional).of_all(*variables)

    def of_all(self, x: Any, y: Any, *given: Any) -> float:
        """The p-value of all rows that are passed, by one test."""
        own = {name: getattr(self, name) for name in ("rng", "client", "threads", "memory")}
        options: dict[str, Any] = {**own, "progress": False}
        if not given:
            return independence_test(x, y, **options, **self.marginal).pvalue
        options["given"] = given[0]
        return conditional_independence_test(x, y, **options, **self.conditional).pvalue


def _in_memory(x: Any) -> bool:
    return isinstance(x, np.ndarray) or is_of(x, "pandas", "DataFrame", "Series")


def _holds_numbers(x: Any) -> bool:
    """Whether a column of an array, or of a table of pandas, is of numbers."""
    types = x.dtypes if hasattr(x, "columns") else [x.dtype]
    return any(one.kind in "iuf" for one in types)


def _take(x: Any, rows: Any) -> Any:
    return x[rows] if isinstance(x, np.ndarray) else x.iloc[rows]


def causal_learn_test(test: PValue | None = None) -> str:
    """Register a test with causal-learn, and return the name that its searches take.

    Parameters
    ----------
    test : PValue, optional
        The test; `PValue()` where not given. A later call with another test replaces it.

    Returns
    -------
    str
        The value of `indep_test` of ``pc`` and other searches, which compute every p-value once.

    Raises
    ------
    MissingDependencyError
        causal-learn is not installed.
    InvalidArgumentError
        Raised by a search whose ``cache_path`` holds p-values of another test.

    References
    ----------
    .. [1] Y. Zheng et al. Causal-learn: causal discovery in Python. JMLR 25(60), 2024.

    Examples
    --------
    ::

        from causallearn.search.ConstraintBased.PC import pc
        from dhsic.integrations import causal_learn_test
        graph = pc(data, 0.01, causal_learn_test())
    """
    try:
        from causallearn.utils.cit import CIT_Base, register_ci_test
    except ImportError as error:
        missing = require("causal-learn", "discovery", "causal_learn_test")
        raise missing from error
    pvalue = PValue() if test is None else test

    class Test(CIT_Base):  # type: ignore[misc]  # causal-learn has no types
        """A test by the numbers of columns."""

        def __init__(self, data: Any, **options: Any) -> None:
            super().__init__(data, **options)
            made_by = self.pvalue_cache.get("method_name"), self.pvalue_cache.get("parameters_hash")
            # causal-learn's own check lets any cache on the disk pass.
            if made_by != (None, None) and made_by != (_NAME, _options_of(pvalue)):
                msg = (
                    f"cache_path must be of a new cache, or of one of the same test, got one made "
                    f"by {made_by[0]!r} with {made_by[1]!r}: take another path"
                )
                raise InvalidArgumentError(msg)
            self.check_cache_method_consistent(_NAME, _options_of(pvalue))

        def __call__(self, X: Any, Y: Any, condition_set: Any = None) -> float:
            """The p-value, computed once."""
            x, y, given, key = self.get_formatted_XYZ_and_cachekey(X, Y, condition_set)
            if key not in self.pvalue_cache:
                values = (self.data[:, columns] for columns in (x, y, given))
                self.pvalue_cache[key] = pvalue(*values)
            kept: float = self.pvalue_cache[key]
            return kept

    register_ci_test(_NAME, Test)
    return _NAME


def _options_of(pvalue: PValue) -> str:
    """The options that p-values follow from."""
    return repr(replace(pvalue, client=None, threads=None))


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
