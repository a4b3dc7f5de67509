"""Selections of features that stand in scikit-learn's pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_choice, check_integer
from dhsic.errors import DataError, InvalidArgumentError, require
from dhsic.io.libraries import is_sparse
from dhsic.nulls.aggregate import Control
from dhsic.ranking import rank_features, select_features

if TYPE_CHECKING:
    from dhsic.ranking import ColumnRanking

try:
    from sklearn.base import BaseEstimator
    from sklearn.feature_selection import SelectorMixin
except ImportError:

    class SelectorMixin:  # type: ignore[no-redef]
        """Stands where scikit-learn is not installed, and says so."""

        def __new__(cls, *arguments: Any, **options: Any) -> Any:
            """Refuse to make any.

            Raises
            ------
            MissingDependencyError
                Always.
            """
            missing = require("scikit-learn", "selection", cls.__name__)
            raise missing

    class BaseEstimator:  # type: ignore[no-redef]
        """Stands where scikit-learn is not installed."""


SelectorMethod = Literal["pvalue", "cka", "hsic", "forward", "backward", "lasso"]
Matrix64 = NDArray[np.float64]
_RANKS = ("pvalue", "cka", "hsic")


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
        Standardised statistics: how far each is from the mean of its replicates. NaN where a
        feature is constant, which scikit-learn ranks last.
    pvalues : ndarray, shape (d,)
        P-values of each feature by itself.

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
    ranking = rank_features(X, _dense(y), rng=rng, progress=False, **options)
    return _standardised_ranking(ranking), np.array(
        [feature.pvalue for feature in ranking.features]
    )


class DependenceSelector(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Select the features that tell most of a target, as a transformer of scikit-learn.

    Parameters
    ----------
    n_features_to_select : int, optional
        How many; half of all where neither it nor `alpha` is given.
    method : str, optional
        "pvalue", "cka" or "hsic" ranks the features one by one, see `dhsic.rank_features`;
        "forward", "backward" or "lasso" selects a set, see `dhsic.select_features`.
    alpha : float, optional
        Instead of a number: keep the features of which independence of the target is rejected at
        this level; for methods that rank.
    control : str, optional
        How `alpha` accounts for the number of features, see `ColumnRanking.rejected`.
    estimator : str or Estimator, optional
        Estimator of the dependence; that of the function where not given.
    random_state : int, RandomState or None, optional
        Seed of the landmarks and replicates.
    threads : int, optional
        Threads of this process.
    memory : int or str, optional
        Bytes that one process may use.

    Attributes
    ----------
    scores_ : ndarray, shape (d,)
        Standardised statistics of features that are ranked by p-value, CKA or HSIC, NaN of
        constant ones; of a selected set its scores, and NaN for the others.
    pvalues_ : ndarray, shape (d,)
        P-values of each feature by itself, where they are ranked.
    support_ : ndarray of bool, shape (d,)
        Whether each is selected.
    n_features_in_ : int
        Features that were seen.
    feature_names_in_ : ndarray of str, shape (d,)
        Their names, where they have some.

    Raises
    ------
    InvalidArgumentError
        When it is fitted: an option, or the number of columns to select, cannot be.

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
        """Find the features.

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
        validate_data(self, X, y, multi_output=True, y_numeric=False, ensure_min_samples=4)
        options: dict[str, Any] = {
            # A seed from its generator, so that one `random_state` governs a whole pipeline.
            "rng": int(check_random_state(self.random_state).randint(2**31)),
            "threads": self.threads,
            "memory": self.memory,
            "progress": False,
        }
        if self.estimator is not None:
            options["estimator"] = self.estimator
        count = self._count(self.n_features_in_, ranks=method in _RANKS)
        find = self._rank if method in _RANKS else self._select
        # As they were given: arrays of scikit-learn have no categories, masks or labels of rows.
        find(X, _dense(y), count, options)
        return self

    def _count(self, d: int, *, ranks: bool) -> int | None:
        """Features to select; None where a level says how many."""
        if self.alpha is not None:
            if self.n_features_to_select is None and ranks:
                return None
            msg = (
                "alpha goes with a method that ranks and without n_features_to_select, got "
                f"method={self.method!r}, n_features_to_select={self.n_features_to_select!r}: "
                "drop one of them"
            )
            raise InvalidArgumentError(msg)
        if self.n_features_to_select is None:
            # Half of the features, as `RFE` of scikit-learn takes.
            return max(1, d // 2)
        count = check_integer("n_features_to_select", self.n_features_to_select, minimum=1)
        if count > d:
            msg = f"n_features_to_select must be at most the {d} features, got {count}: take fewer"
            raise InvalidArgumentError(msg)
        return count

    def _rank(self, x: Any, y: Any, count: int | None, options: dict[str, Any]) -> None:
        ranking = rank_features(x, y, by=self.method, **options)
        self.scores_ = _standardised_ranking(ranking)
        self.pvalues_ = np.array([column.pvalue for column in ranking.features])
        if self.alpha is not None:
            chosen = set(ranking.rejected(self.alpha, self.control))
        else:
            chosen = {column.name for column in ranking.ranked()[:count]}
        self.support_ = np.array([column.name in chosen for column in ranking.features])

    def _select(self, x: Any, y: Any, count: int | None, options: dict[str, Any]) -> None:
        assert count is not None
        selection = select_features(x, y, count, method=self.method, **options)
        columns = [column for (column,) in selection.columns]
        # Features that were not chosen have no score: NaN, since 0 is one that features can have.
        self.scores_ = np.full(self.n_features_in_, np.nan)
        self.__dict__.pop("pvalues_", None)  # of a fit before, by another method
        self.scores_[columns] = selection.scores
        self.support_ = np.isin(np.arange(self.n_features_in_), columns)

    def _get_support_mask(self) -> NDArray[np.bool_]:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


def _standardised_ranking(ranking: ColumnRanking) -> Matrix64:
    # Constant features stand out from no replicates, and 0 would be above half of noise.
    features = ranking.features
    return np.array([np.nan if one.constant else one.standardised for one in features])


def _dense(y: Any) -> Any:
    if is_sparse(y):
        msg = "y must be dense, got a sparse matrix: call .toarray() on it"
        raise DataError(msg)
    return y
