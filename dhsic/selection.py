"""Select the features with the largest joint dependence on a target."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import Precision, RunOptions
from dhsic._fields import run_fields
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike
from dhsic._rows import RowLabels
from dhsic._validation import check_choice, check_integer, check_number, named_arguments
from dhsic.engine.passes import Footprint, Pass, RowBlock
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError, needing
from dhsic.estimators import Estimator, EstimatorName
from dhsic.estimators.base import fit_combinations_on_sample, fitting_step, plan_of
from dhsic.estimators.choose import choose_estimator, plan_once, planned
from dhsic.io.variables import GapTreatment
from dhsic.kernels import Combinations, Kernel, KernelName
from dhsic.nulls import draw_permutations
from dhsic.ranking import (
    ColumnGroups,
    RankedColumns,
    open_columns,
    read_columns,
    target_kernel_of,
)
from dhsic.results import AS_ASKED, BarResult, RunFields

Vector = NDArray[np.float64]
SelectionMethod = Literal["forward", "backward", "lasso"]
SelectionCriterion = Literal["hsic", "cka"]
Subset = tuple[int, ...]
SubsetMeasure = Callable[[Sequence[Subset]], Vector]

_REMEDY = "take fewer features, threads, or groups of columns one after another"

# Rows change places within so many, and not in the whole data as in Climente-Gonzalez et al.: a
# task then needs no rows of another.
_GROUP_ROWS = 4096


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ColumnSelection(RunFields, BarResult):
    """Features that were selected for a target.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data
        Of the run, see `dhsic.results.RunFields`.
    missing : tuple of int
        Missing values of each feature, and then of the target, that ``missing="pairwise"`` kept;
        empty if there are none.
    names : tuple of str
        The selected features in the order of `method`: as they were added, or the strongest first.
    columns : tuple of tuple of int
        Numbers of their columns.
    scores : tuple of float
        Score of each feature: the dependence after it was added ("forward"), the dependence without
        it ("backward"), or its coefficient ("lasso"). Scores come from the rows that selected the
        features; on other rows they are smaller.
    method : str
        Method of the selection.
    criterion : str
        Measure of the dependence.
    target : str
        Name of the target.
    n_features : int
        Features to select from.
    estimator_reason : str
        For "forward" and "backward", why the estimator was chosen, and why it takes fewer landmarks
        than usual if the usual number does not fit.

    References
    ----------
    .. [1] L. Song, A. Smola, A. Gretton, J. Bedo, K. Borgwardt. Feature selection via dependence
       maximization. JMLR 13, 2012, for "forward" and "backward".
    .. [2] M. Yamada, W. Jitkrittum, L. Sigal, E. Xing, M. Sugiyama. High-dimensional feature
       selection by feature-wise kernelized lasso. Neural Computation 26, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.random.default_rng(0).standard_normal((100, 3))
    >>> found = dhsic.select_features(x, x[:, 2], 1, method="lasso", rng=0)
    >>> found.names, found.columns, len(found.passes)
    (('x[2]',), ((2,),), 1)
    """

    _tabular: ClassVar[bool] = True

    names: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]
    scores: tuple[float, ...]
    method: str
    criterion: str
    target: str
    n_features: int
    estimator_reason: str = AS_ASKED

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        pairs = zip(self.names, self.scores, strict=True)
        return [
            ("selected", ", ".join(f"{name} ({score:.4g})" for name, score in pairs)),
            ("of", f"{self.n_features:,} features for {self.target}, n = {self.n:,}"),
            ("method", f"{self.method} by {self.criterion}"),
            *([("estimator", reason)] if (reason := self.estimator_reason) != AS_ASKED else []),
            *self._tail(),
        ]

    def records(self) -> list[dict[str, Any]]:
        """Every selected feature, in the order of the method."""
        rows = zip(self.names, self.columns, self.scores, strict=True)
        return [
            {
                "rank": place,
                "term": name,
                "columns": ", ".join(map(str, columns)),
                "estimate": score,
                "method": f"{self.method}, {self.criterion}",
            }
            for place, (name, columns, score) in enumerate(rows, 1)
        ]

    def _bars(self) -> tuple[Sequence[str], Sequence[float], str]:
        return self.names, self.scores, f"score of {self.method} by {self.criterion}"


@named_arguments
@shows_progress
def select_features(
    features: Any,
    target: Any,
    k: int,
    *,
    method: SelectionMethod = "forward",
    criterion: SelectionCriterion = "cka",
    column_groups: ColumnGroups | None = None,
    feature_kernel: KernelName | str | Kernel | None = None,
    target_kernel: KernelName | str | Kernel | None = None,
    estimator: EstimatorName | Estimator = "nystrom-m",
    share: float = 0.1,
    block_rows: int = 20,
    n_permutations: int = 3,
    rng: RngLike = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: GapTreatment = "refuse",
    strata: Any = None,
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    time: float | str | None = None,
    progress: Progress = None,
) -> ColumnSelection:
    """Select k columns, or groups of columns, with the largest joint dependence on a target.

    A ranking compares single features with the target. The method "backward" finds features that
    matter only jointly, and "lasso" omits features that repeat others. Columns are divided by their
    standard deviations.

    Parameters
    ----------
    features : array-like, shape (n, d)
        As for `rank_features`.
    target : array-like, shape (n,) or (n, q)
        The other variable.
    k : int
        Features to select.
    method : {"forward", "backward", "lasso"}, optional
        "forward" adds the feature with which the joint kernel of the chosen features depends most
        on the target, one pass for each feature. It may add a copy of a chosen feature before a
        feature with a weak effect. "backward", BAHSIC [1], starts with all features and drops those
        whose loss reduces the dependence least; it finds interactions, and fails if there are so
        many features that their joint kernel describes only noise. "lasso", block HSIC Lasso [2],
        regresses the Gram matrix of the target on those of single features, in one pass.
    criterion : {"cka", "hsic"}, optional
        Measure that "forward" and "backward" maximise. HSIC, as in [1], depends on how the scale of
        the kernel changes with the set; CKA does not.
    column_groups : mapping of str to columns, or sequence of columns, optional
        As for `rank_features`.
    feature_kernel : str or Kernel, optional
        Kernel that is fitted to each set of columns. The default is Gaussian for numbers, times
        delta for categories and booleans.
    target_kernel : str or Kernel, optional
        Kernel of the target. The default is Gaussian for numbers and delta for categories.
    estimator : str or Estimator, optional
        For "forward" and "backward": as for `rank_features`.
    share : float, optional
        Share of the remaining features that "backward" drops at a time; 0 for one at a time.
    block_rows, n_permutations : int, optional
        For "lasso": rows of a block, and how often the rows are cut into blocks.
    rng, names, data, missing
        As for `rank_features`; "lasso" does not take ``missing="pairwise"``.
    strata : array-like or str, optional
        A label for every row, as for `rank_features`: numbers are standardised within their
        stratum, so that the selection is by dependence within strata. Categories and booleans are
        not changed. There are no `groups` and `order`: scores have no p-value, and do not depend on
        how rows may be permuted.
    precision, client, threads, memory
        As for `rank_features`.
    time : float or str, optional
        As for `rank_features`, for the landmarks of "forward" and "backward"; "lasso" has none.
    progress
        As for `rank_features`.

    Returns
    -------
    ColumnSelection

    Raises
    ------
    InvalidArgumentError
        An option cannot be used.
    DataError
        The data cannot be used: NaN, unequal lengths, a constant column.
    MemoryBudgetError
        The plan needs more memory than allowed.
    MissingDependencyError
        "lasso" without scikit-learn (extra "selection").

    References
    ----------
    .. [1] L. Song, A. Smola, A. Gretton, J. Bedo, K. Borgwardt. Feature selection via dependence
       maximization. JMLR 13, 2012.
    .. [2] H. Climente-Gonzalez, C. Azencott, S. Kaski, M. Yamada. Block HSIC Lasso: model-free
       biomarker detection for ultra-high dimensional data. Bioinformatics 35, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((500, 5))
    >>> x[:, 4] = x[:, 1] + 0.1 * rng.standard_normal(500)  # tells what column 1 tells
    >>> y = 2 * x[:, 1] + np.abs(x[:, 2]) + 0.5 * rng.standard_normal(500)
    >>> found = dhsic.select_features(x, y, 2, method="lasso", rng=0).names
    >>> len({"x[1]", "x[4]"} & set(found)), "x[2]" in found
    (1, True)
    """
    run = RunOptions(rng, precision, client, threads, memory, time, progress)
    check_choice("method", method, get_args(SelectionMethod))
    check_choice("criterion", criterion, get_args(SelectionCriterion))
    check_integer("block_rows", block_rows, minimum=2)
    check_integer("n_permutations", n_permutations, minimum=1)
    check_number("share", share, "from 0 to below 1", lambda s: 0.0 <= s < 1.0, "take 0.1")
    session = open_columns(run, features, target, data, missing, RowLabels(strata))
    chosen = read_columns(session, names, column_groups, feature_kernel)
    if session.gaps and method == "lasso":
        msg = (
            f"missing='pairwise' needs method 'forward' or 'backward', got {method!r}: take one of "
            "them, or missing='drop'"
        )
        raise InvalidArgumentError(msg)
    if check_integer("k", k, minimum=1) > len(chosen):
        msg = f"k must be at most the number of features, {len(chosen)}; got {k}"
        raise InvalidArgumentError(msg)
    of_target = target_kernel_of(session, target_kernel)
    reason = AS_ASKED
    if method == "lasso":
        weights = _lasso_scores(session, chosen, of_target, k, block_rows, n_permutations)
        # The path may end before k features have a weight.
        # Stable, so that the first of equal columns is chosen on every machine.
        order = np.argsort(-weights, kind="stable")[: min(k, int(np.count_nonzero(weights)))]
        selected, scores = order.tolist(), weights[order].tolist()
    else:
        # Forward sets have k columns at most; backward ones begin with all.
        columns = k if method == "forward" else len(chosen)
        measure, reason = _subset_measure(session, chosen, of_target, estimator, criterion, columns)
        selected, scores = (
            forward(measure, len(chosen), k)
            if method == "forward"
            else backward(measure, len(chosen), k, share)
        )
    return ColumnSelection(
        names=tuple(chosen.names[j] for j in selected),
        columns=tuple(chosen.columns[j] for j in selected),
        scores=tuple(scores),
        method=method,
        criterion="hsic lasso" if method == "lasso" else criterion,
        target=session.names[1],
        n_features=len(chosen),
        estimator_reason=reason,
        **{**run_fields(session), "missing": chosen.missing_of(session.gaps)},
    )


def _subset_measure(
    session: Session,
    features: RankedColumns,
    target: Kernel,
    estimator: str | Estimator,
    criterion: SelectionCriterion,
    columns: int,
) -> tuple[SubsetMeasure, str]:
    """The dependence of the target on sets of features, all sets in one pass where they fit.

    And why this estimator, which suits as many sets as there are features, of so many each.
    """
    # Chosen for the largest sets that are measured.
    largest = features.on(tuple(range(columns)))
    # A set of as many columns for every feature: no step takes more.
    most = Combinations.against([largest] * len(features), target)
    chosen, _, reason = choose_estimator(estimator, session, most, None, None)

    def measure(subsets: Sequence[Subset]) -> Vector:
        combinations = Combinations.against([features.on(subset) for subset in subsets], target)
        # Planned at every step, since sets grow: a refusal comes before the pass that would not
        # fit.
        session.begin(planned(partial(plan_once, null=None), chosen, session, combinations))
        found = chosen.test_grid(session, combinations, None)
        return found.cka() if criterion == "cka" else found.hsic

    return measure, reason


def _lasso_scores(
    session: Session,
    features: RankedColumns,
    target: Kernel,
    k: int,
    block_rows: int,
    n_permutations: int,
) -> Vector:
    """The coefficients of block HSIC Lasso."""
    # In units of their standard deviations: the lasso compares coefficients of kernels.
    kernels = [features.on((j,)) for j in range(len(features))]
    combinations = Combinations.against(kernels, target)
    fitted, _ = fit_combinations_on_sample(session, combinations)
    reduction = LassoPass(fitted, session.dims, block_rows, n_permutations, session.seed)
    session.begin(plan_of(session, [fitting_step(session), session.plan(reduction)], _REMEDY))
    return lasso_path(session.reduce(reduction), k)


# Greedy selection: a set of features grows or shrinks by its dependence on the target.


def forward(measure: SubsetMeasure, d: int, k: int) -> tuple[Subset, list[float]]:
    """Add the feature with which the dependence is largest, k times.

    Song et al. (2012), section 4.3, algorithm FOHSIC with one feature a step.

    Parameters
    ----------
    measure : callable
        The dependence of the target on every one of some sets of features.
    d, k : int
        Features, and how many to choose.

    Returns
    -------
    tuple of int
        The chosen, in the order in which they came.
    list of float
        The dependence with each.
    """
    chosen: Subset = ()
    values: list[float] = []
    while len(chosen) < k:
        rest = [j for j in range(d) if j not in chosen]
        # All candidates in one call: they share the kernels of the target, and a pass over the
        # data.
        dependences = measure([(*chosen, j) for j in rest])
        # The first of equal ones, so that the order of the columns decides ties and no draw does.
        best = int(dependences.argmax())
        chosen, values = (*chosen, rest[best]), [*values, float(dependences[best])]
    return chosen, values


def backward(measure: SubsetMeasure, d: int, k: int, share: float) -> tuple[Subset, list[float]]:
    """Drop the features without which the dependence is largest, until k are left.

    Song et al. (2012), section 4.2, algorithm BAHSIC.

    Parameters
    ----------
    measure : callable
        The dependence of the target on every one of some sets of features.
    d, k : int
        Features, and how many to choose.
    share : float
        Share of the remaining ones that a step drops; one at least.

    Returns
    -------
    tuple of int
        The chosen, the one that would be dropped last first.
    list of float
        The dependence without each of them.
    """
    left: Subset = tuple(range(d))
    while True:
        without = [tuple(i for i in left if i != j) for j in left]
        # There is no dependence of the target on an empty set to be measured.
        dependences = measure(without) if len(left) > 1 else np.zeros(1)
        # Dependence without a feature is largest where the feature tells least: the last goes
        # first.
        order = np.argsort(dependences, kind="stable")
        ranked = tuple(left[i] for i in order)
        if len(left) == k:
            return ranked, dependences[order].tolist()
        # One at least goes in a step, and never more than leaves k.
        drop = min(len(left) - k, max(1, math.floor(share * len(left))))
        left = tuple(sorted(ranked[: len(left) - drop]))


# Block HSIC Lasso: few features whose kernels together explain the target's.


@dataclass(frozen=True)
class LassoPass(Pass[Vector]):
    """The normal equations of HSIC Lasso, summed over blocks of few rows.

    The state is the inner products <K_a, K_b> of the centred Gram matrices of all blocks, each of
    norm 1, the target's last, shape (d + 1, d + 1).

    Rows are permuted within groups of up to 4,096, and cut into blocks in that order, several
    times.

    Parameters
    ----------
    combinations : Combinations
        Every feature with the target, fitted.
    dims : tuple of int
        Columns of all features and of the target.
    block_rows : int
        Rows of a block.
    n_permutations : int
        How often the rows are cut into blocks.
    seed : int
        Fixes the permutations.

    References
    ----------
    .. [1] H. Climente-Gonzalez, C. Azencott, S. Kaski, M. Yamada. Block HSIC Lasso: model-free
       biomarker detection for ultra-high dimensional data. Bioinformatics 35, 2019.
    """

    combinations: Combinations
    dims: tuple[int, ...]
    block_rows: int
    n_permutations: int
    seed: int
    name: str = "block Gram matrices"
    row_multiple: int = _GROUP_ROWS

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        kernels, b = len(self.combinations.kernels), self.block_rows
        group = min(rows, _GROUP_ROWS)
        pairs = zip(self.combinations.kernels, self.combinations.spread(self.dims), strict=True)
        width = sum(kernel.width(d) for kernel, d in pairs)
        # Fewer than 1.5 b rows stay one block, so that the widest has less than 2 b.
        scratch = 2 * 8 * group * width + 3 * 8 * (kernels + 4) * (2 * b) ** 2
        # The Gram matrix of the lasso has a product of every pair of kernels in a block.
        return Footprint(0, scratch, 2 * 8 * kernels**2)

    def chunk(self, block: RowBlock) -> Vector:
        """Sums over one block of the pass."""
        starts = range(0, block.rows, _GROUP_ROWS)
        each = (self._group(block, slice(k, min(k + _GROUP_ROWS, block.rows))) for k in starts)
        total: Vector = reduce(np.add, each)
        return total

    def _group(self, block: RowBlock, rows: slice) -> Vector:
        """Sums over the blocks of one group of rows."""
        c, count = self.combinations, rows.stop - rows.start
        values = [x[rows] for x in block.values]
        pairs = list(zip(c.kernels, c.spread(values), strict=True))
        prepared = [(kernel, kernel.rows(x), kernel.columns(x)) for kernel, x in pairs]
        products = np.zeros((len(pairs), len(pairs)))
        # The key is the first row of the group, so that the order does not depend on tasks.
        first, draws = block.start + rows.start, self.n_permutations
        for order in draw_permutations(self.seed, first, count, draws, 2)[:, 0]:
            # Blocks of nearly equal size, since a short last one would weigh as much as the others.
            for chosen in np.array_split(order, max(1, round(count / self.block_rows))):
                grams = np.empty((len(pairs), len(chosen), len(chosen)))
                for gram, (kernel, x, z) in zip(grams, prepared, strict=True):
                    work = np.empty((kernel.work_tiles, *gram.shape))
                    kernel.tile(x[chosen], z[chosen], gram, work)
                unit = _centred_units(grams)
                # Inner products of all pairs at once, normalised HSIC of the block: the Gram matrix
                # and the correlations of the lasso, whose design is never stored.
                products += unit @ unit.T
        return products


def _centred_units(grams: Vector) -> Vector:
    """Doubly centred Gram matrices of norm 1, or 0, as rows; shape (d + 1, b^2)."""
    rows = grams.mean(axis=2, keepdims=True)
    # H K H, of every kernel in the block.
    centred = grams - rows - rows.transpose(0, 2, 1) + grams.mean(axis=(1, 2), keepdims=True)
    flat = centred.reshape(len(grams), -1)
    norms = np.sqrt(np.einsum("ij,ij->i", flat, flat))[:, None]
    # The Gram matrix of a feature that is constant in the block is rounding error alone.
    floor = 1e-9 * np.abs(grams).max(axis=(1, 2))[:, None]
    units: Vector = np.divide(flat, norms, out=np.zeros_like(flat), where=norms > floor)
    return units


def lasso_path(products: Vector, k: int) -> Vector:
    """Coefficients at the first point of the path where k features have one above 0.

    The path of min |L - sum_a w_a K_a|^2 / 2 + lambda |w|_1 with w >= 0, by least angle
    regression on the normal equations.

    Parameters
    ----------
    products : ndarray, shape (d + 1, d + 1)
        Sums of all blocks, see `LassoPass`.
    k : int
        Features wanted.

    Returns
    -------
    ndarray, shape (d,)
        Scores, of fewer features where the path ends before.

    Raises
    ------
    MissingDependencyError
        scikit-learn is not installed.
    """
    with needing("scikit-learn", "selection", "Selection by HSIC Lasso"):
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import lars_path_gram
    # The mean over the blocks in which the target varies: the lasso of Climente-Gonzalez et al.
    # (2019), from its sums.
    gram = products / max(products[-1, -1], 1.0)
    steps, taken = k, k
    # Features leave the path as well as enter it, so that k of them may take more than k steps.
    while taken == steps:  # the path may go on
        # Twice as many steps until the path ends by itself, or has k features.
        steps *= 2
        # It warns where it drops a copy of a feature that is selected, as it should.
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            _, _, path, taken = lars_path_gram(
                *(gram[:-1, -1].copy(), gram[:-1, :-1].copy()),
                # It divides the penalties alone, of which none is used.
                n_samples=1,
                max_iter=steps,
                method="lasso",
                positive=True,
                # A path that took all steps it was allowed may have gone on.
                return_n_iter=True,
            )
        counts = np.count_nonzero(path > 0.0, axis=0)
        reached = np.flatnonzero(counts >= k)
        if len(reached):
            return np.asarray(path[:, reached[0]], np.float64)
    return np.asarray(path[:, counts.argmax()], np.float64)
