"""Rank features by their dependence on a target, in one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._arguments import Precision, open_session
from dhsic._progress import Progress, shows_progress
from dhsic._random import RngLike
from dhsic._rows import ALL_ROWS, Order, RowLabels
from dhsic._validation import check_choice, named_arguments
from dhsic._version import __version__
from dhsic.engine.plan import Plan
from dhsic.engine.session import Session
from dhsic.estimators import (
    ColumnEstimator,
    ColumnOutcome,
    Estimator,
    EstimatorName,
    Null,
    NullName,
)
from dhsic.estimators.base import passes_of
from dhsic.io.missing import GapTreatment
from dhsic.io.open import names_of
from dhsic.kernels import Kernel, KernelName, OnColumns
from dhsic.nulls import Replicates, adjust, pvalue, standardised, step_down
from dhsic.ranking.constants import without_constants
from dhsic.ranking.joint import joint_reader
from dhsic.ranking.method import choose_ranking
from dhsic.ranking.ranked_columns import ColumnGroups, ColumnKernels, RankedColumns, read_columns
from dhsic.ranking.result import By, ColumnRanking, RankedColumn
from dhsic.statistics.neighbours import Neighbours

Vector = NDArray[np.float64]


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
        "auto" takes "v-hsic" where that is quick, beyond it "nystrom-hsic" for single columns and a
        target of one column with Gaussian kernels, else "nystrom-m". Or one of these by name, or a
        value of it with its options: "v-hsic", quadratic in n; "nystrom-hsic", linear in n, the
        quick one for single columns with smooth kernels, most of all where the target repeats as
        years and classes do; "nystrom-m", linear in n, with uniformly drawn landmarks.
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
    began = perf_counter()
    check_choice("by", by, get_args(By))
    place = client, threads, memory, progress, checkpoint
    rows = RowLabels(strata, row_groups, order, "row_groups")
    given = {"data": data, "missing": missing, "rows": rows}
    session = open_columns(features, target, rng, precision, *place, time=time, **given)
    chosen = read_columns(session.sources[0], names, groups, feature_kernels)
    chosen = chosen.with_missing(session.finite)
    read = joint_reader(by, feature_kernels, target_kernel)
    method = choose_ranking(session, chosen, target_kernel, estimator, null, n_resamples, read)
    # One map for the plan and the run.
    joint = read(session, method.estimator)
    # The plan is of all features: that some are constant is seen in rows, which nothing may read
    # before the memory is checked.
    session.begin(method.plan(session, read))
    tested = without_constants(session, chosen)
    # A constant would count as a test of many, and cost the others power.
    method = method.of(tested)
    session.resume(
        computes="column ranking",
        joint=joint,
        estimator=method.estimator,
        null=method.null,
        kernels=method.combinations.kernels,
    )
    assert isinstance(method.estimator, ColumnEstimator)
    neighbours = Neighbours(session, ("order", "row_groups", "strata"))
    outcome = method.estimator.test_features(session, method.combinations, method.null)
    neighbours.warn()
    estimates = outcome.estimates
    ranked = _with_constants(chosen, _ranked(tested, outcome, session.dtype))
    if joint is not None:
        # Of all columns, those that are constant too: the map is of them as one variable.
        sizes = joint.measure(session, chosen.columns).tolist()
        ranked = tuple(replace(f, sensitivity=s) for f, s in zip(ranked, sizes, strict=True))
    return ColumnRanking(
        features=ranked,
        by=by,
        target=session.names[1],
        target_kernel=estimates.combinations.kernels[-1].spec(),
        n=session.n,
        dropped=session.dropped,
        data=session.verify(),
        missing=chosen.missing_of(session.gaps),
        estimator=method.estimator.name,
        estimator_reason=method.estimator_reason,
        null=method.null.name,
        null_reason="; ".join(filter(None, (method.null_reason, outcome.detail))),
        n_resamples=len(outcome.replicates),
        landmarks=estimates.landmarks,
        precision=session.dtype.name,
        seed=session.seed,
        passes=passes_of(session),
        seconds=perf_counter() - began,
        version=__version__,
    )


@named_arguments
def plan_ranking(
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
) -> Plan:
    """Plan `rank_features`: its steps and their memory; runs nothing.

    Parameters
    ----------
    features, target : array-like, shapes (n, d) and (n,) or (n, d)
        As for `rank_features`.
    groups, by, feature_kernels, target_kernel, estimator, null, n_resamples
        As for `rank_features`.
    names, data, missing, strata, row_groups, order, precision, client, threads, memory, time
        As for `rank_features`.

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
    check_choice("by", by, get_args(By))
    place = client, threads, memory
    rows = RowLabels(strata, row_groups, order, "row_groups")
    given = {"data": data, "missing": missing, "rows": rows}
    session = open_columns(features, target, 0, precision, *place, time=time, **given)
    chosen = read_columns(session.sources[0], names, groups, feature_kernels)
    chosen = chosen.with_missing(session.finite)
    read = joint_reader(by, feature_kernels, target_kernel)
    method = choose_ranking(session, chosen, target_kernel, estimator, null, n_resamples, read)
    return method.plan(session, read)


def open_columns(
    features: Any,
    target: Any,
    rng: RngLike,
    precision: str,
    client: Any,
    threads: int | None,
    memory: int | str,
    progress: Any = None,
    checkpoint: str | None = None,
    *,
    time: float | str | None = None,
    data: Any = None,
    missing: GapTreatment = "refuse",
    rows: RowLabels = ALL_ROWS,
) -> Session:
    """Open features and target; they are x and y where they have no names."""
    given, usual = (features, target), ("x", "y")
    # Columns of data have names of their own; arrays are x and y.
    if data is None:
        names = names_of(given, usual)
    else:
        # One column has its name; a list of columns has none of its own.
        names = [x if isinstance(x, str) else y for x, y in zip(given, usual, strict=True)]
    place = client, threads, memory, progress, checkpoint
    told: dict[str, Any] = {"data": data, "missing": missing, "rows": rows, "pairwise": True}
    return open_session(given, names, rng, precision, *place, time=time, **told)


def _ranked(
    features: RankedColumns, outcome: ColumnOutcome, dtype: np.dtype[Any]
) -> tuple[RankedColumn, ...]:
    """Every feature with its p-values."""
    statistics, replicates, rounding = outcome.statistics, outcome.replicates, outcome.rounding
    columns = zip(statistics.tolist(), replicates.T, rounding.tolist(), strict=True)
    p = np.array([pvalue(t, Replicates(column), dtype, tie) for t, column, tie in columns])
    # The data stand among the replicates, so that a distance is made alike for all rows.
    distances = standardised(np.vstack([statistics, replicates]), rounding, dtype).distances
    fitted = outcome.estimates.combinations.kernels[:-1]
    kernels = [kernel.kernel for kernel in fitted if isinstance(kernel, OnColumns)]
    # The mean over replicates is what independence would leave, more for many categories.
    # Of landmarks the statistic is not HSIC times n, but nearly in proportion.
    units = np.divide(outcome.estimates.hsic, statistics, out=0.0 * p, where=statistics != 0.0)
    chance = units * replicates.mean(axis=0)
    numbers = [
        *(statistics, distances[0], outcome.estimates.hsic, outcome.estimates.cka(chance), p),
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
