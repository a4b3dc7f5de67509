"""Rank features by their dependence on a target, in one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import Precision, RunOptions
from dhsic._fields import run_fields
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike
from dhsic._removed import removed
from dhsic._rows import Order, RowLabels
from dhsic._validation import check_choice, named_arguments
from dhsic.engine.blocks import kinds_of
from dhsic.engine.plan import Plan
from dhsic.engine.planning import plans
from dhsic.engine.session import Session
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import (
    Estimator,
    EstimatorName,
    GridOutcome,
    Null,
    NullName,
    draws_replicates,
    find_null,
)
from dhsic.estimators.choose import run_null
from dhsic.estimators.reach import plan_once, planned
from dhsic.io.missing import GapTreatment
from dhsic.kernels import Combinations, Kernel, KernelName, OnColumns
from dhsic.nulls import Replicates, Resampling, adjust, pvalue, standardised, step_down
from dhsic.ranking.columns import (
    ColumnGroups,
    ColumnKernels,
    RankedColumns,
    column_estimator,
    kernel_for_columns,
    open_columns,
    read_columns,
    target_kernel_of,
    without_constants,
)
from dhsic.ranking.result import By, ColumnRanking, RankedColumn
from dhsic.sensitivity.maps import column_sensitivities, map_passes
from dhsic.statistics.neighbours import Neighbours

Vector = NDArray[np.float64]
Joint = tuple[Kernel, Kernel] | None
"""Kernels of all features as one variable and of the target, where there is a map of these."""


@named_arguments
@shows_progress
def rank_features(
    features: Any,
    target: Any,
    *,
    groups: ColumnGroups | None = None,
    by: By = "pvalue",
    feature_kernels: ColumnKernels = None,
    target_kernel: KernelName | str | Kernel | None = None,
    estimator: EstimatorName | Estimator = "auto",
    null: NullName | Null = "auto",
    n_resamples: int | None = None,
    rng: RngLike = None,
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: GapTreatment = "refuse",
    strata: Any = None,
    row_groups: Any = None,
    order: Order | None = None,
    precision: Precision = "float64",
    client: Any = None,
    threads: int | None = None,
    memory: int | str = "2GiB",
    time: float | str | None = None,
    progress: Progress = None,
    checkpoint: str | None = None,
) -> ColumnRanking:
    """Rank the columns of a variable by their dependence on a target.

    Every column, or group of columns, is tested against the target as by `independence_test` with
    one kernel each and the same seed: the same statistic, replicates and p-value. But all share the
    passes over the data, the landmark rows, the target's tiles and the replicates. So their joint
    distribution under the null hypothesis is known, and p-values adjusted for the number of
    features lose nothing to dependence between these.

    Parameters
    ----------
    features : array-like, shape (n, d)
        As a variable of `independence_test`; d may be thousands. A constant column has HSIC
        and CKA 0 and p-values 1, is marked, and does not count as a test of many.
    target : array-like, shape (n,) or (n, d)
        The other variable.
    groups : mapping of str to columns, or sequence of columns, optional
        Rank groups of columns, as ``{"timbre": range(12), "rest": range(12, 90)}``, by number or
        name; they may overlap. Rows that belong together are `row_groups`.
    by : {"pvalue", "cka", "hsic", "sensitivity"}, optional
        Criterion. P-values of few replicates tie; then the standardised statistic decides. CKA,
        (HSIC(x, y) - b) / (sqrt(HSIC(x, x) HSIC(y, y)) - b) with b the mean of HSIC(x, y) over the
        replicates, does not depend on the scale of the kernels, as HSIC does, and is 0 on average
        for independent columns, however many categories they have. "sensitivity" takes the columns
        together: the mean square of the derivatives in a column of the statistic of all columns as
        one variable, see `sensitivity_map`, summed over a group. It sees what columns tell only
        together, depends on their units, has no p-value of its own and is exploratory; p-values
        stay those of each feature by itself. It takes passes of its own and one differentiable
        kernel for all features.
    feature_kernels : str, Kernel or a sequence of them, optional
        One for all features, or one a feature; fitted to each by itself. Where not given, as those
        of `independence_test`: Gaussian for numbers, delta for categories and booleans.
    target_kernel : str or Kernel, optional
        Kernel of the target, likewise; "delta" for classes that are coded as numbers.
    estimator : str or Estimator, optional
        "auto" takes "v-hsic" where that is quick, and beyond it the principal features of
        "nystrom-hsic", see `NystromHSIC`, of 256 landmarks; or "nystrom-m" by "sensitivity". Or one
        of these by name, or a value of it with its options: "v-hsic", quadratic in n;
        "nystrom-hsic", linear in n, of all features of its landmarks; "nystrom-m", linear in n,
        with uniformly drawn landmarks.
    null : str, Shifts or Permutation, optional
        "auto" shifts the target within groups of rows, which is exact and nearly free.
    n_resamples : int, optional
        Replicates, at least 1,000 shifts where not given. The smallest p-value is one over their
        number: Bonferroni and Holm need as many times more replicates as there are features, "bh"
        as many as there are features for each that is found.
    rng : int, SeedSequence, BitGenerator, Generator or None, optional
        Seed. The same seed gives the same draws whatever the chunks, workers or retries.
    names : sequence of str, optional
        Names of the columns; where not given those that the data have, or "x[0]", "x[1]", ...
    data, missing
        As for `independence_test`: features are then a list of names, and the target is a name.
    strata, row_groups, order
        As `strata`, `groups` and `order` of `independence_test`, with the same assumptions, of the
        rows of all features and of the target alike: rows change places within their stratum alone,
        which ranks by the dependence given the stratum; whole groups of rows do; or the target is
        shifted in time against all features at once. `null_reason` of the result says which
        assumption it stands on. An order leaves few replicates, n / lag, and so no small adjusted
        p-values but those of "max-t", which need no more of them for many features.
    precision, client, threads, memory, time, progress, checkpoint
        As for `independence_test`. Where replicates of all features do not fit the memory, they
        are made for some after others, a pass each; `plan_ranking` says how many.

    Returns
    -------
    ColumnRanking
        With adjusted p-values of every feature, and `rejected`.

    Raises
    ------
    InvalidArgumentError
        An option cannot be used.
    DataError
        The data cannot be tested: NaN, unequal lengths, a constant target, no feature that varies.
    MemoryBudgetError
        The plan needs more memory than allowed.

    Notes
    -----
    HSIC of a variable with itself is the squared norm of E phi(x) phi(x)' - mu mu', and
    phi(x) phi(x)' is the feature of x under the kernel k^2. So with landmark tuples (z_j, z_j),
    Lemma 4.2 of [1] needs the mean of k(z_j, .)^2 beside that of k(z_j, .): with "nystrom-m" it is
    summed in the same pass over the same tile, and CKA takes no pass of its own. With
    "nystrom-hsic" it takes one, of covariances of features.

    The cost of "nystrom-hsic" grows with the product of the landmarks that a column and the target
    keep: 10 to 20 each for a Gaussian kernel of one column, all of them for a Laplacian one or many
    columns, where "nystrom-m" is the quick one.

    Family-wise error and false discoveries are controlled for features of which those that are
    independent of the target are so jointly; where they are only one by one, "holm" and "by" hold.

    References
    ----------
    .. [1] F. Kalinke, Z. Szabo. Nystrom M-Hilbert-Schmidt independence criterion. UAI 2023.
    .. [2] C. Cortes, M. Mohri, A. Rostamizadeh. Algorithms for learning kernels based on centered
       alignment. JMLR 13, 2012, for CKA.
    .. [3] P. Westfall, S. Young. Resampling-based multiple testing. Wiley 1993, for "max-t".

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((400, 6))
    >>> y = x[:, 1] + x[:, 4] ** 2 + 0.5 * rng.standard_normal(400)
    >>> ranking = dhsic.rank_features(x, y, rng=0)
    >>> sorted(ranking.rejected(0.05, control="max-t"))
    ['x[1]', 'x[4]']
    """
    run = RunOptions(rng, precision, client, threads, memory, time, progress, checkpoint)
    check_choice("by", by, get_args(By))
    rows = RowLabels(strata, row_groups, order, "row_groups")
    session = open_columns(run, features, target, data, missing, rows)
    chosen = read_columns(session.sources[0], names, groups, feature_kernels)
    chosen = chosen.with_missing(session.finite)
    joint = _joint_kernels(session, by, feature_kernels, target_kernel)
    method, plan = _choose(session, chosen, target_kernel, estimator, null, n_resamples, joint)
    # The plan is of all features: that some are constant is seen in rows, which nothing may read
    # before the memory is checked.
    session.begin(plan)
    tested = without_constants(session, chosen)
    # A constant would count as a test of many, and cost the others power.
    combinations = tested.against(method.combinations.kernels[-1])
    session.resume(
        computes="column ranking",
        joint=joint,
        estimator=method.estimator,
        null=method.null,
        kernels=combinations.kernels,
    )
    neighbours = Neighbours(session, ("order", "row_groups", "strata"))
    outcome = method.estimator.test_grid(session, combinations, method.null)
    neighbours.warn()
    estimates = outcome.columns
    assert estimates is not None
    ranked = _with_constants(chosen, _ranked(tested, outcome, session.dtype))
    if joint is not None:
        # Of all columns, those that are constant too: the map is of them as one variable. By the
        # statistic and not the estimate, as the p-values.
        _, sizes = column_sensitivities(session, method.estimator, "statistic", joint, (0,))
        ranked = tuple(replace(f, sensitivity=float(sizes[list(f.columns)].sum())) for f in ranked)
    return ColumnRanking(
        features=ranked,
        by=by,
        target=session.names[1],
        target_kernel=estimates.combinations.kernels[-1].spec(),
        estimator=method.estimator.name,
        estimator_reason=method.estimator_reason,
        null=method.null.name,
        null_reason="; ".join(filter(None, (method.null_reason, outcome.detail))),
        n_resamples=len(outcome.replicates),
        landmarks=estimates.landmarks,
        **{**run_fields(session), "missing": chosen.missing_of(session.gaps)},
    )


@plans(rank_features)
def plan_ranking() -> None:
    """Plan `rank_features`: its steps and their memory; runs nothing.

    Parameters
    ----------
    features, target : array-like, shapes (n, d) and (n,) or (n, d)
        As for `rank_features`.
    groups, by, feature_kernels, target_kernel, estimator, null, n_resamples, rng, names, data
        As for `rank_features`.
    missing, strata, row_groups, order, precision, client, threads, memory, time, progress
        As for `rank_features`.
    checkpoint
        Makes no difference, as do `rng` and `progress`.

    Returns
    -------
    Plan
        As if every feature kept all landmarks: pruning can only make it less. With "nystrom-hsic"
        as if those of one column kept 32, about twice what a smooth kernel does; where they keep
        more than fit the memory, `rank_features` says so before it reads the data.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> data = np.zeros((20_000, 500)), np.zeros(20_000)
    >>> plan = dhsic.plan_ranking(*data, estimator=dhsic.NystromMHSIC(200), threads=1)
    >>> {one.name for one in plan.passes}
    {'shifts'}
    """


class _RankingMethod(NamedTuple):
    """How features are ranked."""

    estimator: Estimator
    estimator_reason: str
    combinations: Combinations
    null: Resampling
    null_reason: str


def _choose(
    session: Session,
    features: RankedColumns,
    kernel: str | Kernel | None,
    estimator: str | Estimator,
    null: str | Null,
    n_resamples: int | None,
    joint: Joint,
) -> tuple[_RankingMethod, Plan]:
    """The options that were given, and defaults for the rest, with the plan of the run."""
    msg = (
        "a ranking needs replicates that features share: null must be 'auto', 'shifts' or "
        f"'permutation', or a value of these; got {null!r}{removed(str(null))}"
    )
    # Before anything is planned: limit laws of one column are not joint over columns.
    if not draws_replicates(null):
        raise InvalidArgumentError(msg)
    combinations = features.against(target_kernel_of(session, kernel))
    # An estimator fits if the whole run does, the map of sensitivities included.
    planner = partial(_plan, null=null, n_resamples=n_resamples, joint=joint)
    asked = session, combinations, null, n_resamples, planner
    chosen, reason = column_estimator(estimator, *asked, tuples=joint is not None)
    chosen_null, null_reason = find_null(null, chosen, session, n_resamples, combinations)
    if not isinstance(chosen_null, Resampling):  # a chain of tests
        raise InvalidArgumentError(msg)
    # A refusal names the largest numbers that fit.
    plan = planned(planner, chosen, session, combinations)

    def run(session: Session) -> object:
        return run_null(chosen, session, combinations, chosen_null)

    method = _RankingMethod(chosen, reason, combinations, chosen_null, null_reason)
    return method, replace(plan, pilot=partial(session.timed, run))


def _plan(
    estimator: Estimator,
    session: Session,
    combinations: Combinations,
    null: str | Null,
    n_resamples: int | None,
    joint: Joint,
) -> Plan:
    """The ranking, and the map where there is one."""
    chosen, _ = find_null(null, estimator, session, n_resamples, combinations)
    plan = plan_once(estimator, session, combinations, chosen)
    if joint is None:
        return plan
    steps = map_passes(session, estimator, "statistic", joint, (0,)).steps
    return replace(plan, steps=(*plan.steps, *steps))


def _joint_kernels(session: Session, by: By, feature_kernels: Any, target_kernel: Any) -> Joint:
    """Kernels of the map of all features as one variable, refused before the first pass."""
    if by != "sensitivity":
        return None
    # The map is of one kernel on all columns together, so that a list of kernels has no meaning
    # here.
    if not isinstance(feature_kernels, str | Kernel | None):
        msg = (
            "by='sensitivity' takes all columns as one variable, so feature_kernels must be "
            f"one kernel, got {feature_kernels!r}: give one, or rank by something else"
        )
        raise InvalidArgumentError(msg)
    if session.gaps:
        msg = (
            "by='sensitivity' needs rows without gaps, got missing='pairwise': take "
            "missing='drop', or rank by 'pvalue'"
        )
        raise InvalidArgumentError(msg)
    first, second = session.sources
    kernels = (
        kernel_for_columns(feature_kernels, kinds_of(first), f"variable {first.name!r}"),
        kernel_for_columns(target_kernel, kinds_of(second), f"target {second.name!r}"),
    )
    if not kernels[0].differentiable:
        msg = (
            "features ranked by 'sensitivity' must have a differentiable kernel to be varied, "
            f"got {kernels[0].spec()!r}: leave out those of labels, or rank by 'pvalue'"
        )
        raise InvalidArgumentError(msg)
    return kernels


def _ranked(
    features: RankedColumns, outcome: GridOutcome, dtype: np.dtype[Any]
) -> tuple[RankedColumn, ...]:
    """Every feature with its p-values."""
    statistics, replicates, rounding = outcome.statistics, outcome.replicates, outcome.rounding
    columns = zip(statistics.tolist(), replicates.T, rounding.tolist(), strict=True)
    p = np.array([pvalue(t, Replicates(column), dtype, tie) for t, column, tie in columns])
    # The data stand among the replicates, so that a distance is made alike for all rows.
    distances = standardised(np.vstack([statistics, replicates]), rounding, dtype).distances
    estimates, fitted = outcome.columns, outcome.combinations.kernels[:-1]
    assert estimates is not None
    kernels = [kernel.kernel for kernel in fitted if isinstance(kernel, OnColumns)]
    # The mean over replicates is what independence would leave, more for many categories.
    # Of landmarks the statistic is not HSIC times n, but nearly in proportion.
    units = np.divide(estimates.hsic, statistics, out=0.0 * p, where=statistics != 0.0)
    chance = units * replicates.mean(axis=0)
    numbers = [
        *(statistics, distances[0], estimates.hsic, estimates.cka(chance), p),
        *(adjust(p, "bh"), adjust(p, "by"), adjust(p, "bonferroni"), adjust(p, "holm")),
        # From the joint replicates, Westfall and Young (1993): dependent features cost nothing.
        step_down(statistics, replicates, rounding, dtype),
    ]
    described = zip(features.names, features.columns, kernels, strict=True)
    return tuple(
        RankedColumn(name, columns, kernel.spec(), *values)
        for (name, columns, kernel), values in zip(
            described, np.transpose(numbers).tolist(), strict=True
        )
    )


def _with_constants(
    features: RankedColumns, tested: Sequence[RankedColumn]
) -> tuple[RankedColumn, ...]:
    """All features, those that are constant between those that were tested."""
    # By name, in which all columns of a ranking differ.
    tested_by_name = {column.name: column for column in tested}
    described = zip(features.names, features.columns, features.kernels, strict=True)
    return tuple(
        tested_by_name[name]
        if name in tested_by_name
        else RankedColumn.still(name, columns, kernel.spec())
        for name, columns, kernel in described
    )
