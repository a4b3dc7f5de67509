"""Tests and selections for other libraries.

`PValue` is a callable for DoWhy; `causal_learn_test` and `PgmpyTest` are for PC of causal-learn and
pgmpy, and `TigramiteTest` for PCMCI of tigramite; `DependenceSelector` and `dependence_score` are
for scikit-learn.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._random import RngLike, generator, resolve_seed
from dhsic._validation import check_choice, check_integer
from dhsic.api import independence_test
from dhsic.conditional import conditional_independence_test
from dhsic.errors import DataError, InvalidArgumentError, needing
from dhsic.estimators.choose import NULLS, Counted
from dhsic.io.tables import unknown_column
from dhsic.io.variables import is_of
from dhsic.nulls import Control, Shifts, TimeOrder
from dhsic.ranking import ColumnRanking, rank_features, select_features
from dhsic.results import IndependenceTestResult

__all__ = [
    "DependenceSelector",
    "PValue",
    "PgmpyTest",
    "TigramiteTest",
    "causal_learn_test",
    "dependence_score",
]

_MANY_TIMES = 5  # the rows of a first test, where it saves more than it costs
_FIRST_SHARE = 0.01
_SURE = 1e-6
_NAME = "dhsic"
_SHUFFLED = "shuffle_test"


@dataclass(frozen=True)
class PValue:
    """A test of independence or conditional independence, as a function that returns the p-value.

    DoWhy takes this function as `independence_test` and as `conditional_independence_test`.

    Most tests of a search are of dependent variables, for which a subset of the rows suffices. So
    with many rows in memory the function first tests a subset: if its p-value p_1 is at most 1e-6,
    the result is 100 p_1, otherwise p_2 / 0.99 with the p-value p_2 of all rows. By the union bound
    over both tests, the result is at most a with probability at most a, if this holds for p_1 and
    p_2 [1]_. P-values of replicates are never as small as 1e-6, so the function tests all rows at
    once if only categories are given, or if no variable is given and ``marginal`` names no null
    with a law, such as "gamma".

    Parameters
    ----------
    rng : int, SeedSequence, BitGenerator or None, optional
        Seed of every test, so that the same test has the same p-value.
    client, threads, memory
        As for `dhsic.independence_test`.
    marginal : mapping of str to object, optional
        Other options of `dhsic.independence_test`, for tests without given variables, such as
        ``{"null": "gamma"}``.
    conditional : mapping of str to object, optional
        Other options of `dhsic.conditional_independence_test`, for tests with given variables.
    first_rows : int or None, optional
        Rows of the first test, drawn at random, if arrays of NumPy or tables of pandas have at
        least 5 times as many; with None all rows are tested at once.

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
            check_integer("first_rows", self.first_rows, minimum=20)

    def __call__(self, x: Any, y: Any, z: Any = None) -> float:
        """Return the p-value of the hypothesis that x and y are independent given z.

        Parameters
        ----------
        x, y : array-like, shapes (n,) or (n, d)
            As for `dhsic.independence_test`.
        z : array-like, shape (n,) or (n, d), optional
            The given variables; none if z is None, empty or without columns.

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
        whole = self.of_all(x, y, *given).pvalue
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
            # Of some rows, whose test is no part of the checkpoint of the whole one.
            return self.of_all(*(_take(x, rows) for x in variables), checkpoint=False).pvalue
        except (DataError, InvalidArgumentError):
            # As a variable whose drawn rows are all the same, or more landmarks than drawn rows.
            return float("nan")

    def _has_law(self, given: Sequence[Any]) -> bool:
        """Whether p-values may be as small as a first test needs."""
        if given:  # of categories a test moves rows within strata
            types = (x.dtypes if hasattr(x, "columns") else [x.dtype] for x in given)
            numbers = any(one.kind in "iuf" for of_one in types for one in of_one)
            return self.conditional.get("method") != "strata" and numbers
        null = self.marginal.get("null", "auto")
        # "auto" is a null of replicates but for few estimators.
        kind = NULLS.get(null, Shifts) if isinstance(null, str) else type(null)
        if not issubclass(kind, Counted):
            return True
        count = self.marginal.get("n_resamples") or getattr(null, "n_resamples", 0)
        return isinstance(count, int) and count >= 1.0 / _SURE

    def of_all(
        self, x: Any, y: Any, *given: Any, checkpoint: bool = True
    ) -> IndependenceTestResult:
        """The result of one test of all rows that are passed, with or without its checkpoint."""
        own = {name: getattr(self, name) for name in ("rng", "client", "threads", "memory")}
        options: dict[str, Any] = {**own, "progress": False}
        options |= self.conditional if given else self.marginal
        if not checkpoint:
            options.pop("checkpoint", None)
        if not given:
            return independence_test(x, y, **options)
        return conditional_independence_test(x, y, given=given[0], **options)


def _in_memory(x: Any) -> bool:
    return isinstance(x, np.ndarray) or is_of(x, "pandas", "DataFrame", "Series")


def _take(x: Any, rows: Any) -> Any:
    return x[rows] if isinstance(x, np.ndarray) else x.iloc[rows]


def causal_learn_test(test: PValue | None = None) -> str:
    """Register a test with causal-learn, and return the name that its searches take.

    Parameters
    ----------
    test : PValue, optional
        The test. The default is `PValue()`. A later call with another test replaces it.

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
    with needing("causal-learn", "discovery", "causal_learn_test"):
        from causallearn.utils.cit import CIT_Base, register_ci_test
    pvalue = PValue() if test is None else test

    class Test(CIT_Base):  # type: ignore[misc]  # causal-learn has no types
        """A test by the numbers of columns."""

        def __init__(self, data: Any, **options: Any) -> None:
            super().__init__(data, **options)
            made_by = self.pvalue_cache.get("method_name"), self.pvalue_cache.get("parameters_hash")
            # causal-learn's own check lets any cache on the disk pass.
            if made_by != (None, None) and made_by != (_NAME, _options_of(pvalue)):
                msg = (
                    f"cache_path must name a new cache, or a cache of the same test, got one made "
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
        """Return whether independence of two columns given others is not rejected at a level.

        Parameters
        ----------
        X, Y : hashable
            Names of columns.
        Z : sequence of hashable, optional
            Names of the given columns; none if Z is None.
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


try:
    from tigramite.independence_tests.independence_tests_base import CondIndTest
except ImportError:
    CondIndTest = object


class TigramiteTest(CondIndTest):  # type: ignore[misc]  # tigramite has no types
    """A test of series given others, as `cond_ind_test` of tigramite's searches.

    The value of a link is the kernel partial correlation coefficient, or CKA where nothing is
    given: both are from 0 to 1. P-values where nothing is given are of shifts of the series, which
    keep their serial dependence, see `dhsic.TimeOrder`. Others assume rows that are independent
    given the others, as all tests of the search do: the parents of a series, which it conditions
    on, hold its own past. Discrete variables are compared as numbers.

    Parameters
    ----------
    test : PValue, optional
        The tests and their options, of all rows always. The default is CKA and all shifts of the
        series; give other tests without given variables ``marginal={"order": "time"}`` too.
    **options : object
        As for `tigramite.independence_tests.CondIndTest`, as ``mask_type`` and ``verbosity``.

    Attributes
    ----------
    test : PValue
        The tests.

    Raises
    ------
    MissingDependencyError
        tigramite is not installed.
    InvalidArgumentError
        Another ``significance`` than "shuffle_test".

    References
    ----------
    .. [1] J. Runge, P. Nowack, M. Kretschmer, S. Flaxman, D. Sejdinovic. Detecting and quantifying
       causal associations in large nonlinear time series datasets. Science Advances 5, 2019.

    Examples
    --------
    ::

        from dhsic.integrations import TigramiteTest
        from tigramite.data_processing import DataFrame
        from tigramite.pcmci import PCMCI
        found = PCMCI(DataFrame(data), TigramiteTest()).run_pcmci(tau_max=2, pc_alpha=0.05)
    """

    measure = "dhsic"
    two_sided = False

    def __init__(self, test: PValue | None = None, **options: Any) -> None:
        with needing("tigramite", "discovery", "TigramiteTest"):
            import tigramite  # noqa: F401
        # The word for p-values that a test makes of the data, and not of a value alone.
        check_choice("significance", options.get("significance", _SHUFFLED), (_SHUFFLED,))
        super().__init__(**{"significance": _SHUFFLED, **options})
        self.test = test or PValue(marginal={"estimator": "cka", "order": TimeOrder(lag=1)})
        self._tested: tuple[Any, float] = None, float("nan")

    def get_dependence_measure(self, array: Any, xyz: Any, data_type: Any = None) -> float:
        """The value of a link.

        Parameters
        ----------
        array : ndarray, shape (d, n)
            The series.
        xyz : ndarray, shape (d,)
            0, 1 and 2 for those of x, of y and the given ones.
        data_type : object, optional
            Not looked at.

        Returns
        -------
        float
        """
        x, y, given = (array[np.equal(xyz, part)].T for part in range(3))
        found = self.test.of_all(x, y, *([given] if given.size else []))
        self._tested = array, found.pvalue
        return found.estimate

    def get_shuffle_significance(
        self, array: Any, xyz: Any, value: float, data_type: Any = None
    ) -> float:
        """The p-value of the same test.

        Parameters
        ----------
        array, xyz, data_type
            As for `get_dependence_measure`.
        value : float
            The value, of which it is not made.

        Returns
        -------
        float
        """
        # One test has both, and tigramite asks for one after the other.
        if self._tested[0] is not array:
            self.get_dependence_measure(array, xyz)
        return self._tested[1]


try:
    from sklearn.base import BaseEstimator
    from sklearn.feature_selection import SelectorMixin
except ImportError:
    BaseEstimator = object

    class SelectorMixin:  # type: ignore[no-redef]
        """Stands where scikit-learn is not installed."""


SelectorMethod = Literal["pvalue", "cka", "hsic", "forward", "backward", "lasso"]
Matrix64 = NDArray[np.float64]


def dependence_score(X: Any, y: Any, *, rng: Any = 0, **options: Any) -> tuple[Matrix64, Matrix64]:
    """Score features by their dependence on a target, as `score_func` of scikit-learn's selectors.

    Parameters
    ----------
    X : array-like, shape (n, d)
        Features; selectors of scikit-learn pass arrays, in which categories of numbers are numbers.
    y : array-like, shape (n,) or (n, q)
        Target; classes may be text.
    rng : int, SeedSequence, BitGenerator, Generator or None, optional
        Seed of the landmarks and replicates.
    **options : object
        As for `dhsic.rank_features`.

    Returns
    -------
    scores : ndarray, shape (d,)
        Standardised statistics: distances from the mean of the replicates, in standard deviations.
        NaN for constant features, which scikit-learn ranks last.
    pvalues : ndarray, shape (d,)
        P-value of each single feature.

    Raises
    ------
    InvalidArgumentError, DataError, MemoryBudgetError
        As for `dhsic.rank_features`.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.integrations import dependence_score
    >>> x = np.random.default_rng(0).standard_normal((300, 3))
    >>> scores, pvalues = dependence_score(x, x[:, 1] ** 2)
    >>> int(scores.argmax()), bool(pvalues[1] <= 0.01)
    (1, True)
    """
    return _scores_and_pvalues(rank_features(X, y, rng=rng, progress=False, **options))


class DependenceSelector(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Select the features that depend most on a target, as a transformer of scikit-learn.

    Parameters
    ----------
    n_features_to_select : int, optional
        Number of features. The default without `alpha` is half of all features.
    method : str, optional
        "pvalue", "cka" or "hsic" ranks the features one by one, see `dhsic.rank_features`;
        "forward", "backward" or "lasso" selects a set, see `dhsic.select_features`.
    alpha : float, optional
        Level, in place of a number: keep the features whose independence of the target is rejected;
        for methods that rank.
    control : str, optional
        Correction for the number of features, see `ColumnRanking.rejected`.
    estimator : str or Estimator, optional
        Estimator of the dependence. The default is that of the function.
    random_state : int, RandomState or None, optional
        Seed of the landmarks and replicates.
    threads : int, optional
        Threads of this process.
    memory : int or str, optional
        Bytes that one process may use.

    Attributes
    ----------
    scores_ : ndarray, shape (d,)
        For methods that rank, the standardised statistics, NaN for constant features; for other
        methods the scores of selected features, NaN for other features.
    pvalues_ : ndarray, shape (d,)
        P-value of each single feature, for methods that rank.
    support_ : ndarray of bool, shape (d,)
        Whether each feature is selected.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (d,)
        Names of the features, if they have names.

    Raises
    ------
    InvalidArgumentError
        By `fit`: an option, or the number of columns to select, is not valid.

    References
    ----------
    .. [1] L. Song, A. Smola, A. Gretton, J. Bedo, K. Borgwardt. Feature selection via dependence
       maximization. JMLR 13, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.integrations import DependenceSelector
    >>> x = np.random.default_rng(0).standard_normal((300, 4))
    >>> selector = DependenceSelector(1, random_state=0).fit(x, x[:, 2] ** 2)
    >>> selector.get_feature_names_out()
    array(['x2'], dtype=object)
    """

    def __init__(
        self,
        n_features_to_select: int | None = None,
        *,
        method: Any = "pvalue",
        alpha: float | None = None,
        control: Control = "bh",
        estimator: Any = None,
        random_state: Any = None,
        threads: int | None = None,
        memory: int | str = "2GiB",
    ) -> None:
        with needing("scikit-learn", "selection", "DependenceSelector"):
            import sklearn  # noqa: F401
        # No checks here: scikit-learn clones by its parameters, and asks that they are stored as
        # given.
        self.n_features_to_select = n_features_to_select
        self.method = method
        self.alpha = alpha
        self.control = control
        self.estimator = estimator
        self.random_state = random_state
        self.threads = threads
        self.memory = memory

    def fit(self, X: Any, y: Any) -> DependenceSelector:
        """Select the features.

        Parameters
        ----------
        X : array-like, shape (n, d)
            Features, four rows or more.
        y : array-like, shape (n,) or (n, q)
            Target; classes may be text.

        Returns
        -------
        DependenceSelector
            Itself.

        Raises
        ------
        InvalidArgumentError, DataError, MemoryBudgetError
            As for `dhsic.rank_features` and `dhsic.select_features`.
        """
        from sklearn.utils import check_random_state
        from sklearn.utils.validation import validate_data

        method = check_choice("method", self.method, get_args(SelectorMethod))
        check_choice("control", self.control, get_args(Control))
        # Columns of tables may hold categories and text; what cannot be used is refused as it is.
        given = None if hasattr(X, "columns") else "numeric"
        checks = {"multi_output": True, "y_numeric": False, "ensure_min_samples": 4}
        validate_data(self, X, y, dtype=given, **checks)
        options: dict[str, Any] = {
            # A seed from its generator, so that one `random_state` governs a whole pipeline.
            "rng": int(check_random_state(self.random_state).randint(2**31)),
            "threads": self.threads,
            "memory": self.memory,
            "progress": False,
        }
        if self.estimator is not None:
            options["estimator"] = self.estimator
        d, ranks = self.n_features_in_, method in ("pvalue", "cka", "hsic")
        if self.alpha is not None and (self.n_features_to_select is not None or not ranks):
            msg = (
                "alpha needs a method that ranks, and no n_features_to_select, got "
                f"method={self.method!r}, n_features_to_select={self.n_features_to_select!r}: "
                "drop one of them"
            )
            raise InvalidArgumentError(msg)
        # Half of the features, as `RFE` of scikit-learn takes.
        usual = max(1, d // 2) if self.n_features_to_select is None else self.n_features_to_select
        count = check_integer("n_features_to_select", usual, minimum=1)
        if count > d:
            msg = f"n_features_to_select must be at most the {d} features, got {count}: take fewer"
            raise InvalidArgumentError(msg)
        # As they were given: arrays of scikit-learn have no categories, masks or labels of rows.
        if ranks:
            ranking = rank_features(X, y, by=self.method, **options)
            self.scores_, self.pvalues_ = _scores_and_pvalues(ranking)
            chosen = {column.name for column in ranking.ranked()[:count]}
            if self.alpha is not None:
                chosen = set(ranking.rejected(self.alpha, self.control))
            self.support_ = np.array([column.name in chosen for column in ranking.features])
        else:
            selection = select_features(X, y, count, method=self.method, **options)
            columns = [column for (column,) in selection.columns]
            # Features that were not chosen have no score: NaN, since 0 is one that features can
            # have.
            self.scores_ = np.full(d, np.nan)
            self.__dict__.pop("pvalues_", None)  # of a fit before, by another method
            self.scores_[columns] = selection.scores
            self.support_ = np.isin(np.arange(d), columns)
        return self

    def _get_support_mask(self) -> NDArray[np.bool_]:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


def _scores_and_pvalues(ranking: ColumnRanking) -> tuple[Matrix64, Matrix64]:
    # Constant features stand out from no replicates, and 0 would be above half of noise.
    scores = [np.nan if one.constant else one.standardised for one in ranking.features]
    return np.array(scores), np.array([one.pvalue for one in ranking.features])
