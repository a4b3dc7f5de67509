"""Rank and select features by their dependence on a target, in one run.

The ranking comes first, then selections: greedy ones, and the lasso of blocks. All read the columns
and their kernels as `RankedColumns`, which comes last.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic import plots
from dhsic._arguments import (
    Order,
    RowLabels,
    RunArguments,
    RunOptions,
    UncheckedArguments,
    check_kernel,
    read_kernel,
    read_single_kernels,
    run_batch,
    run_fields,
    takes_run,
)
from dhsic._validation import (
    check_choice,
    check_integer,
    check_level,
    check_number,
    nearest,
    removed,
    shown,
)
from dhsic.engine.passes import (
    Footprint,
    Gaps,
    Pass,
    RowBlock,
    ValueKind,
    filled,
    kinds_of,
    labels_of,
)
from dhsic.engine.plan import Plan, plans
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError, UnknownArgumentError, needing
from dhsic.estimators import VHSIC, Estimator, EstimatorName, GridOutcome, Null, NullName
from dhsic.estimators.base import (
    bandwidth_rows,
    beyond,
    fit_combinations_on_sample,
    fitting_step,
    plan_of,
)
from dhsic.estimators.choose import (
    Intervals,
    choose_estimator,
    draws_replicates,
    find_null,
    keeping,
    plan_once,
    plan_with,
    planned,
)
from dhsic.io.open import checked_names, frame_and_keys, names_of, open_one, pick_variables
from dhsic.io.tables import (
    columns_by_variable,
    held_columns,
    is_table,
    names_of_columns,
    open_table,
    unknown_column,
)
from dhsic.io.variables import GapTreatment
from dhsic.kernels import Combinations, Gaussian, Kernel, KernelName, OnColumns, by_type
from dhsic.kernels.wrap import with_missing
from dhsic.nulls import (
    Control,
    Resampling,
    adjust,
    draw_permutations,
    pvalues,
    standardised,
    step_down,
)
from dhsic.report import Findings
from dhsic.results import (
    AS_ASKED,
    BarResult,
    LandmarkSummary,
    RunFields,
    floor_text,
    is_least,
    kernel_text,
)
from dhsic.sensitivity import column_sensitivities, map_passes

Vector = NDArray[np.float64]
By = Literal["pvalue", "cka", "hsic", "sensitivity"]
ColumnKernels = str | Kernel | Sequence[str | Kernel | None] | None
ColumnGroups = Mapping[str, Sequence[int | str]] | Sequence[Sequence[int | str]]


_CONTROLS: Mapping[Control, str] = {
    "bh": "false discovery rate (BH)",
    "by": "false discovery rate (BY)",
    "bonferroni": "any error (Bonferroni)",
    "holm": "any error (Holm)",
    "max-t": "any error (max-t)",
}

_MEANING = (
    "HSIC is 0 where a column and the target are independent; CKA is HSIC without the scales of "
    "both, at most 1, and 0 on average for independent ones. The p-value is of a column by itself; "
    "adjusted ones account for all columns. A column that is not selected may depend all the same."
)

_JOINT = (
    "The sensitivity is of the dependence of all columns together to those of a column: the mean "
    "square of its derivatives, which depends on the units of the columns. It is exploratory, and "
    "has no p-value of its own: colours are of every column by itself."
)

_QUANTITIES = {"cka": "CKA", "hsic": "HSIC", "sensitivity": "sensitivity, of all together"}

_INTERVALS = {
    "hsic": ("conf_low", "conf_high", "conf_centre"),
    "cka": ("cka_low", "cka_high", "cka_centre"),
}


@dataclass(frozen=True)
class RankedColumn:
    """One column against the target.

    Parameters
    ----------
    name : str
        Name of the column, or of the group of columns.
    columns : tuple of int
        Numbers of its columns.
    kernel : str
        Its kernel with the fitted bandwidth.
    statistic : float
        The test statistic.
    standardised : float
        Distance of the statistic from the mean of its replicates, in standard deviations of the
        replicates.
    hsic : float
        Squared HSIC with the target, on the scale of the kernels.
    cka : float
        HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)), corrected for its mean under independence: at most
        1, and 0 on average under independence, see `rank_features`.
    pvalue : float
        P-value of the column alone, without adjustment for the other columns.
    pvalue_bh, pvalue_by : float
        Adjusted p-values: rejections at a level have at most that share of false discoveries on
        average.
    pvalue_bonferroni, pvalue_holm, pvalue_max_t : float
        Adjusted p-values: rejections at a level contain a false discovery with at most that
        probability.
    sensitivity : float or None
        Sensitivity of the joint dependence of all columns to the values of this column, see
        `rank_features`; exploratory. None unless ``by="sensitivity"``.
    constant : bool
        Whether all rows are the same. A constant column is independent of everything, and is not
        tested.
    conf_low, conf_high : float or None
        Ends of the confidence interval of HSIC, where one was asked for and the column varies.
    cka_low, cka_high : float or None
        Those of CKA.
    conf_centre, cka_centre : float or None
        HSIC and CKA less their bias, which the intervals are about.
    """

    name: str
    columns: tuple[int, ...]
    kernel: str
    statistic: float = 0.0
    standardised: float = 0.0
    hsic: float = 0.0
    cka: float = 0.0
    pvalue: float = 1.0
    pvalue_bh: float = 1.0
    pvalue_by: float = 1.0
    pvalue_bonferroni: float = 1.0
    pvalue_holm: float = 1.0
    pvalue_max_t: float = 1.0
    sensitivity: float | None = None
    constant: bool = False
    conf_low: float | None = None
    conf_high: float | None = None
    cka_low: float | None = None
    cka_high: float | None = None
    conf_centre: float | None = None
    cka_centre: float | None = None

    def adjusted(self, control: Control) -> float:
        """The p-value adjusted in one way."""
        value: float = getattr(self, f"pvalue_{control.replace('-', '_')}")
        return value


_LEVEL = 0.05  # at which a summary tells whether there are replicates enough

# Columns of the frame; the adjusted p-values are by default those of Benjamini and Hochberg.
_NAMES = {"name": "term", "hsic": "estimate", "pvalue": "p_value", "pvalue_bh": "p_adjusted"}
_NAMES |= {f"pvalue_{name}": f"p_{name}" for name in ("by", "bonferroni", "holm", "max_t")}


# The first in a ranking has the smallest key.
_KEYS: Mapping[str, Callable[[RankedColumn], Any]] = {
    # P-values end at 1 / (b + 1); the standardised statistic goes on to tell strong ones apart.
    "pvalue": lambda f: (f.pvalue, -f.standardised),
    "cka": lambda f: -f.cka,
    "hsic": lambda f: -f.hsic,
    "sensitivity": lambda f: -(f.sensitivity or 0.0),
}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ColumnRanking(RunFields):
    """Columns ranked by their dependence on a target.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data
        Of the run, see `dhsic.results.RunFields`.
    missing : tuple of int
        Missing values of each feature, and then of the target, that ``missing="pairwise"`` kept;
        empty if there are none.
    features : tuple of RankedColumn
        The features in the order of the data.
    by : {"pvalue", "cka", "hsic", "sensitivity"}
        Criterion of the ranking; equal p-values are ranked by the standardised statistic.
    target : str
        Name of the target.
    target_kernel : str
        Kernel of the target with the fitted bandwidth.
    estimator : str
        Name of the estimator.
    estimator_reason : str
        Why this estimator was chosen.
    null : str
        The null distribution.
    null_reason : str
        Why this null was chosen.
    n_resamples : int
        Number of replicates, which the columns share.
    landmarks : LandmarkSummary or None
        The landmarks, if the estimator has any; `kept` has a number for each column that varies.
    left_out : mapping of str to str
        Columns of the data that could not be ranked, and why.
    confidence : float or None
        Level of the intervals, where they were asked for.

    References
    ----------
    .. [1] L. Song, A. Smola, A. Gretton, J. Bedo, K. Borgwardt. Feature selection via dependence
       maximization. JMLR 13, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x = np.random.default_rng(0).standard_normal((200, 3))
    >>> ranking = dhsic.rank_features(x, x[:, 2] ** 2, rng=0)
    >>> ranking.ranked("cka")[0].name, ranking.rejected(0.05, control="max-t")
    ('x[2]', ('x[2]',))
    """

    _shown: ClassVar[Sequence[str]] = (
        *("rank", "term", "sensitivity", "estimate", *_INTERVALS["hsic"]),
        *("cka", *_INTERVALS["cka"], "p_value", "p_adjusted", "p_holm", "p_max_t", "constant"),
    )

    features: tuple[RankedColumn, ...]
    by: str
    target: str
    target_kernel: str
    estimator: str
    estimator_reason: str
    null: str
    null_reason: str
    n_resamples: int
    landmarks: LandmarkSummary | None
    left_out: Mapping[str, str] = field(default_factory=dict)
    confidence: float | None = None

    def ranked(self, by: By | None = None) -> tuple[RankedColumn, ...]:
        """Return all columns, the strongest first and constant columns last.

        Parameters
        ----------
        by : {"pvalue", "cka", "hsic", "sensitivity"}, optional
            Criterion of the order; by default that of the ranking.

        Raises
        ------
        InvalidArgumentError
            An unknown criterion, or sensitivities of a ranking that has none.
        """
        key = _KEYS[check_choice("by", by or self.by, get_args(By))]
        if by == "sensitivity" and self.by != by:
            msg = (
                "only a ranking with by='sensitivity' has sensitivities, got one with "
                f"by={self.by!r}: rank the features with by='sensitivity'"
            )
            raise InvalidArgumentError(msg)
        # Constants come last, whatever the key.
        return tuple(sorted(self.features, key=lambda f: (f.constant, key(f))))

    def rejected(self, alpha: float = 0.05, control: Control = "bh") -> tuple[str, ...]:
        """Return the columns whose independence of the target is rejected, the strongest first.

        Parameters
        ----------
        alpha : float, optional
            The level: for "bh" and "by" of the expected share of false discoveries, for the other
            controls of the probability of any false discovery.
        control : {"bh", "by", "bonferroni", "holm", "max-t"}, optional
            Correction for the number of columns, see `dhsic.nulls.adjust`. "max-t" uses the joint
            replicates of all columns, so that dependence between columns costs no power; it needs
            about 1 / alpha replicates. Bonferroni and Holm need d / alpha for d columns.

        Raises
        ------
        InvalidArgumentError
            A level out of range, or an unknown control.
        """
        check_choice("control", control, get_args(Control))
        level = check_level(alpha)
        # In the order of the ranking, so that the names read as its top.
        return tuple(f.name for f in self.ranked() if f.adjusted(control) <= level)

    def plot(
        self,
        ax: plots.Axes | None = None,
        *,
        alpha: float = 0.05,
        control: Control = "bh",
        most: int = 40,
    ) -> plots.Axes:
        """Draw bars of the criterion of the columns, with rejected columns in colour.

        For a ranking by p-values draw bars of CKA. Lines on bars are confidence intervals, and bars
        with lines are corrected for bias as these are.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw in. The default is a new figure.
        alpha, control
            As for `rejected`.
        most : int, optional
            The largest number of bars.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidArgumentError
            A level out of range, or an unknown control.
        MissingDependencyError
            matplotlib is not installed.
        """
        check_choice("control", control, get_args(Control))
        # Many p-values are equal, the smallest that the replicates allow: bars of them would be
        # alike.
        size = "cka" if self.by == "pvalue" else self.by
        sizes, quantity = [getattr(f, size) for f in self.features], _QUANTITIES[size]
        intervals = None
        if self.confidence is not None and size in _INTERVALS:
            *ends, centre = _INTERVALS[size]
            intervals = [[getattr(f, end) for end in ends] for f in self.features]
            # A V-statistic may lie outside of its interval. A constant column has none.
            sizes = [getattr(f, centre) or 0.0 for f in self.features]
            quantity += ", corrected for bias"
        axes = plots.ranking(
            sizes,
            [f.name for f in self.features],
            pvalues=[f.adjusted(control) for f in self.features],
            alpha=alpha,
            control=control,
            quantity=quantity,
            intervals=intervals,
            most=most,
            ax=ax,
        )
        axes.set_ylabel(f"dependence on {plots.shortened(self.target, 40)}")
        return axes

    def records(self) -> list[dict[str, Any]]:
        """Every column, the strongest first."""
        rows = ({_NAMES.get(name, name): x for name, x in vars(f).items()} for f in self.ranked())
        method = f"{self.estimator}, {self.null}"
        return [{"rank": place, **row, "method": method} for place, row in enumerate(rows, 1)]

    def findings(self, alpha: float, control: str) -> Findings:
        by: Any = check_choice("control", control, get_args(Control))
        chosen = self.rejected(alpha, by)
        lead = (
            f"{len(chosen):,} of {len(self.features):,} features depend on {self.target} at level "
            f"{alpha:g} by {_CONTROLS[by]}"
        )
        said = f"Bars of the columns by their dependence on {self.target}, those selected in blue."
        pictures = {said: partial(self.plot, alpha=alpha, control=by)}
        names = *self._shown, "p_by", "p_bonferroni"
        rows = [
            {**{name: row[name] for name in names}, "selected": row["term"] in chosen}
            for row in self.records()
        ]
        title = f"Which columns does {self.target} depend on?"
        notes = [_MEANING, *([_JOINT] if self.by == "sensitivity" else [])]
        return Findings(title, lead, pictures, {"Features": rows}, notes)

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line above the table."""
        constant = sum(f.constant for f in self.features)
        still = f", {constant:,} of them constant" if constant else ""
        exploratory = ", exploratory" if self.by == "sensitivity" else ""
        return [
            ("features", f"{len(self.features):,}{still}, ranked by {self.by}{exploratory}"),
            *([("left out", "; ".join(self.left_out.values()))] if self.left_out else []),
            ("target", f"{self.target} ({kernel_text(self.target_kernel)})"),
            ("n", self._rows_told),
            *([("landmarks", f"of each column {some.told}")] if (some := self.landmarks) else []),
            ("estimator", self._chosen()),
            *self._limit(),
            *([("intervals", f"{100.0 * self.confidence:g} %")] if self.confidence else []),
            ("null", f"{self.null}, {self.n_resamples:,} replicates: {self.null_reason}"),
            *self._tail(),
        ]

    def _limit(self) -> list[tuple[str, str]]:
        """How many p-values would be smaller with more replicates, and whether bh finds any."""
        count = sum(is_least(f.pvalue, self.n_resamples) for f in self.features)
        if not count:
            return []
        has = "feature has" if count == 1 else "features have"
        text = f"{count:,} {has} {floor_text(self.n_resamples, reason=self.null_reason)}"
        # The k smallest are rejected if they are k alpha / d at most (Benjamini, Hochberg 1995).
        needed = math.ceil(len(self.features) / (count * _LEVEL)) - 1
        if needed > self.n_resamples:
            text += f"; bh needs {needed:,} to find so few at level {_LEVEL:g}, max-t no more"
        return [("p-values", text)]


@takes_run
def rank_features(
    features: Any = None,
    target: Any = None,
    *,
    exclude: str | Sequence[str] = (),
    column_groups: ColumnGroups | None = None,
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
    groups: Any = None,
    order: Order | None = None,
    confidence: float | None = None,
    **options: Unpack[RunArguments],
) -> ColumnRanking:
    """Rank the columns of a variable by their dependence on a target.

    Each column, or group of columns, has the statistic, replicates and p-value of
    `independence_test` with one kernel for each variable and the same seed. All columns share the
    passes over the data, the landmark rows, the tiles of the target and the replicates. So the
    joint distribution of their statistics under the null hypothesis is known, and "max-t" adjusts
    p-values for the dependence between columns.

    Parameters
    ----------
    features : array-like, shape (n, d)
        As a variable of `independence_test`; d may be thousands. A constant column has HSIC and CKA
        0 and p-values 1, is marked, and does not count in corrections for many tests. The default
        is all other columns of `data` that hold numbers or labels; the result lists the columns
        that were left out, such as dates, names of rows and row numbers, with the reasons. Dask
        data frames are not read for this purpose: exclude row numbers yourself.
    target : array-like, shape (n,) or (n, d)
        The other variable.
    exclude : str or sequence of str, optional
        Columns of `data` to leave out if `features` is not given.
    column_groups : mapping of str to columns, or sequence of columns, optional
        Rank groups of columns, as ``{"timbre": range(12), "rest": range(12, 90)}``, by number or
        name; groups may overlap. For rows that belong together use `groups`.
    by : {"pvalue", "cka", "hsic", "sensitivity"}, optional
        Criterion. Equal p-values are ordered by the standardised statistic. CKA, (HSIC(x, y) - b) /
        (sqrt(HSIC(x, x) HSIC(y, y)) - b) with b the mean of HSIC(x, y) over the replicates, does
        not depend on the scale of the kernels, in contrast to HSIC, and is 0 on average for
        independent columns with any number of categories. "sensitivity" takes all columns as one
        variable: the mean square of the derivatives of the statistic with respect to a column, see
        `sensitivity_map`, summed over a group. This criterion detects joint dependence on several
        columns, depends on their units, and is exploratory, without a p-value; the p-values are
        those of each feature alone. It needs further passes and one differentiable kernel for all
        features.
    feature_kernels : str, Kernel or a sequence of them, optional
        One kernel for all features, or one for each feature, fitted to each feature separately. The
        default is Gaussian for numbers and delta for categories and booleans.
    target_kernel : str or Kernel, optional
        Kernel of the target, with the same default; "delta" for classes that are coded as numbers.
    estimator : str or Estimator, optional
        "auto" takes "v-hsic" for few rows and features, and "nystrom-hsic" with principal features
        of 256 landmarks beyond, see `NystromHSIC`; with `by="sensitivity"` it takes "nystrom-m".
        Otherwise a name, or a value with options: "v-hsic", quadratic in n; "nystrom-hsic", linear
        in n, with all features of its landmarks; "nystrom-m", linear in n, with uniformly drawn
        landmarks.
    null : str, Shifts or Permutation, optional
        "auto" shifts the target within groups of rows, which is exact and costs little time.
    n_resamples : int, optional
        Replicates, at least 1,000 shifts by default. The smallest p-value is one over the number of
        replicates: for d features Bonferroni and Holm need d times as many replicates, and "bh"
        needs d / k times as many to find k features.
    names : sequence of str, optional
        Names of the columns. The default is the names in the data, or "x[0]", "x[1]", ...
    data, missing
        As for `independence_test`: with `data`, features are a list of names, and the target is a
        name.
    strata, groups, order
        As for `independence_test`, with the same assumptions about the rows of the features and of
        the target. With strata the ranking is by dependence given the stratum. With an order the
        target is shifted in time against all features at once. `null_reason` of the result states
        the assumption. An order leaves few replicates, n / lag, so that adjusted p-values are not
        small, except those of "max-t", which needs no more replicates for many features.
    confidence : float, optional
        As for `independence_test`: the level of an interval of HSIC and of one of CKA, of every
        column that varies and of each by itself, so that one in 20 intervals of 95 % misses. All
        come from blocks of rows that are left out of the sums: of the pass of the replicates, but
        for "nystrom-m" and all pairs of rows, which take one more, or several where the sums of all
        blocks and columns do not fit the memory.
    rng, precision, client, threads, memory, time, progress, checkpoint
        As for `independence_test`. If the replicates of all features do not fit the memory, the
        ranking takes several passes with a part of the features each; `plan_ranking` predicts their
        number.

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
    HSIC of a variable with itself is the squared norm of E phi(x) phi(x)' - mu mu', and phi(x)
    phi(x)' is the feature of x under the kernel k^2. So with landmark tuples (z_j, z_j), Lemma 4.2
    of [1] needs the mean of k(z_j, .)^2 beside that of k(z_j, .): "nystrom-m" sums both in the same
    pass over the same tile, so that CKA needs no further pass. "nystrom-hsic" needs one further
    pass, over covariances of features.

    The cost of "nystrom-hsic" grows with the product of the landmarks that a column and the target
    keep: 10 to 20 each for a Gaussian kernel of one column, and all landmarks for a Laplacian
    kernel or many columns, for which "nystrom-m" is faster.

    All corrections are valid if the features that are independent of the target are jointly
    independent of it; if each is independent of the target but they are not jointly so, only
    "bonferroni", "holm" and "by" are valid.

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
    run = RunOptions(**options)
    check_choice("by", by, get_args(By))
    # Labels are as many a row, of four rows or more.
    lists = isinstance(groups, list) and all(isinstance(x, list | tuple | range) for x in groups)
    if isinstance(groups, Mapping) or (
        lists and (len(groups) < 4 or len(set(map(len, groups))) > 1)
    ):
        msg = "groups must be labels of rows, got lists of columns: pass these as column_groups"
        raise InvalidArgumentError(msg)
    rows = RowLabels(strata, groups, order)
    rows.check_confidence(confidence)
    left_out: Mapping[str, str] = {}
    # An array of no dimension is iterable by its type, and one name.
    alone = isinstance(exclude, str) or getattr(exclude, "ndim", 1) == 0
    several = isinstance(exclude, Iterable) and not alone
    excluded = [] if exclude is None else list(map(str, exclude if several else [exclude]))
    if features is None:
        # Labels that are given themselves are no columns.
        texts = (one if isinstance(one, list | tuple) else [one] for one in (strata, groups))
        labels = (one for one in texts if all(isinstance(name, str) for name in one))
        features, left_out = usable_columns(data, [target, *labels, *excluded])
    elif excluded:
        msg = "exclude needs all columns of data, and features names some: leave one of them out"
        raise InvalidArgumentError(msg)
    session = open_columns(run, features, target, data, missing, rows)
    chosen = read_columns(session, names, column_groups, feature_kernels)
    joint = _joint_kernels(session, by, feature_kernels, target_kernel)
    every = chosen.against(target_kernel_of(session, target_kernel))
    law: Any = null
    if draws_replicates(null):
        # Replicates are the same whichever estimator is chosen.
        law, _ = find_null(null, VHSIC(), session, n_resamples, every)
    if not isinstance(law, Resampling):
        # Limit laws of one column are not joint over columns, and a chain is of stages.
        msg = (
            "a ranking needs replicates that features share: null must be 'auto', 'shifts' or "
            f"'permutation', or a value of these; got {shown(null)}{removed(str(null))}"
        )
        raise InvalidArgumentError(msg)

    def sure(
        one: Estimator, some: Session, combinations: Combinations, level: float | None
    ) -> list[Intervals]:
        test = partial(plan_once, one, combinations=combinations, null=law)
        return [] if level is None else [Intervals.of(some, one, combinations, level, test=test)]

    def planner(
        one: Estimator, some: Session, combinations: Combinations, level: float | None = None
    ) -> Plan:
        test = partial(plan_once, one, combinations=combinations, null=law)
        plan = plan_with(test, some, sure(one, some, combinations, level))
        if joint is None:
            return plan
        mapped = map_passes(some, one, "statistic", joint, (0,))
        return replace(plan, steps=(*plan.steps, *mapped.steps))

    def runner(
        one: Estimator, some: Session, combinations: Combinations, level: float | None = None
    ) -> tuple[GridOutcome, tuple[RankedColumn, ...]]:
        kept = varying(some, chosen)
        # A constant would count as a test of many, and cost the others power.
        differing, asked = combinations.part(kept), sure(one, some, combinations, level)
        part = keeping(some, asked)
        outcome = one.test_grid(part, differing, law)
        found = _found(outcome, some.dtype)
        for of_all in asked:
            intervals = replace(of_all, combinations=differing).of_features(part, outcome)
            for row, both in zip(found, intervals, strict=True):
                for names, x in zip(_INTERVALS.values(), both, strict=True):
                    row |= zip(names, (x.low, x.high, x.centre), strict=True)
        of_kept = dict(zip(kept, found, strict=True))
        features = zip(chosen.names, chosen.columns, chosen.kernels, strict=True)
        columns = tuple(
            RankedColumn(name, at, **of_kept.get(k, {"kernel": kernel.spec(), "constant": True}))
            for k, (name, at, kernel) in enumerate(features)
        )
        if joint is not None:
            # Of all columns, those that are constant too: the map is of them as one variable. By
            # the statistic and not the estimate, as the p-values.
            _, sizes = column_sensitivities(some, one, "statistic", joint, (0,))
            columns = tuple(
                replace(f, sensitivity=float(sizes[list(f.columns)].sum())) for f in columns
            )
        return outcome, columns

    # An estimator fits if the whole run does, the map of sensitivities included.
    fit: Any = {"planner": planner, "runner": runner, "tuples": joint is not None}
    method, _, reason = choose_estimator(estimator, session, every, law, None, **fit)
    _, null_reason = find_null(null, method, session, n_resamples, every)
    # The plan is of all features: that some are constant is seen in rows, which nothing may read
    # before the memory is checked.
    kernels = (*chosen.kernels, every.kernels[-1])
    of: Any = {"computes": "column ranking", "joint": joint, "confidence": confidence}
    both = partial(planner, level=confidence), partial(runner, level=confidence)
    outcome, ranked = run_batch(session, *both, method, every, law, kernels, **of)
    return ColumnRanking(
        features=ranked,
        by=by,
        target=session.names[1],
        target_kernel=outcome.combinations.kernels[-1].spec(),
        estimator=method.name,
        estimator_reason=reason,
        null=law.name,
        null_reason="; ".join(filter(None, (null_reason, outcome.detail))),
        n_resamples=len(outcome.replicates),
        landmarks=outcome.landmarks,
        left_out=left_out,
        confidence=confidence,
        **{**run_fields(session), "missing": chosen.missing_of(session.gaps)},
    )


@plans(rank_features)
def plan_ranking() -> None:
    """Plan `rank_features`: its steps and their memory; runs nothing.

    Parameters
    ----------
    features, target : array-like, shapes (n, d) and (n,) or (n, d)
        As for `rank_features`.
    exclude, column_groups, by, feature_kernels, target_kernel, estimator, null, n_resamples
        As for `rank_features`.
    names, data, missing, strata, groups, order, confidence
        As for `rank_features`.
    precision, client, threads, memory, time
        As for `rank_features`.

    Returns
    -------
    Plan
        An upper bound that assumes that each feature keeps all landmarks; pruning keeps fewer. For
        "nystrom-hsic" it assumes 32 features for a single column, about twice the number of a
        smooth kernel; if a column keeps more than fit the memory, `rank_features` raises an error
        before it reads the data.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> data = np.zeros((20_000, 500)), np.zeros(20_000)
    >>> plan = dhsic.plan_ranking(*data, estimator=dhsic.NystromMHSIC(200), threads=1)
    >>> {one.name for one in plan.passes}
    {'shifts'}
    """


def _joint_kernels(
    session: Session, by: By, feature_kernels: Any, target_kernel: Any
) -> tuple[Kernel, Kernel] | None:
    """Kernels of all features as one variable and of the target, where there is a map of these.

    They are refused before the first pass.
    """
    if by != "sensitivity":
        return None
    # The map is of one kernel on all columns together, so that a list of kernels has no meaning
    # here.
    if not isinstance(feature_kernels, str | Kernel | None):
        msg = (
            "by='sensitivity' takes all columns as one variable, so feature_kernels must be "
            f"one kernel, got {shown(feature_kernels)}: give one, or rank by something else"
        )
        raise InvalidArgumentError(msg)
    first, _ = session.sources
    joined = kernel_for_columns(feature_kernels, kinds_of(first), f"variable {first.name!r}")
    if session.gaps or not joined.differentiable:
        msg = (
            "by='sensitivity' needs rows without gaps, and features must have a differentiable "
            f"kernel, got {joined.spec()!r}: take missing='drop', leave out features of labels, or "
            "rank by 'pvalue'"
        )
        raise InvalidArgumentError(msg)
    return joined, target_kernel_of(session, target_kernel)


def varying(session: Session, features: RankedColumns) -> list[int]:
    """Numbers of the features that are not constant.

    Only where some do not vary among the rows that set bandwidths, all rows are looked at. Those
    that vary in other rows, such as rare flags, are kept.

    Raises
    ------
    DataError
        All are constant, or a value is NaN or infinite.
    """
    sample = filled(session.take(bandwidth_rows(session))[0])
    same = (sample == sample[0]).all(axis=0)
    # Only those that do not vary in the sample are looked for in all rows.
    still = sorted({(0, at) for at in features.columns if same[list(at)].all()})
    differing = beyond(session, [sample], still) if still else {}
    each = enumerate(features.columns)
    kept = [k for k, at in each if (0, at) not in differing or differing[0, at].total]
    if not kept:
        msg = (
            f"a ranking needs a feature that varies, and all {len(features)} of "
            f"{session.names[0]!r} are constant: they are independent of everything"
        )
        raise DataError(msg)
    return kept


def _found(outcome: GridOutcome, dtype: np.dtype[Any]) -> list[dict[str, Any]]:
    """Fields of `RankedColumn` of every feature that varies."""
    statistics, replicates, rounding = outcome.statistics, outcome.replicates, outcome.rounding
    p, hsic = pvalues(statistics, replicates, dtype, rounding), outcome.hsic
    # The data stand among the replicates, so that a distance is made alike for all rows.
    distances, *_ = standardised(np.vstack([statistics, replicates]), rounding, dtype)
    # The mean over replicates is what independence would leave, more for many categories.
    # Of landmarks the statistic is not HSIC times n, but nearly in proportion.
    units = np.divide(hsic, statistics, out=0.0 * p, where=statistics != 0.0)
    controls: Any = "bh", "by", "bonferroni", "holm"
    found = {
        "statistic": statistics,
        "standardised": distances[0],
        "hsic": hsic,
        "cka": outcome.cka(units * replicates.mean(axis=0)),
        "pvalue": p,
        **{f"pvalue_{control}": adjust(p, control) for control in controls},
        # From the joint replicates, Westfall and Young (1993): dependent features cost nothing.
        "pvalue_max_t": step_down(statistics, replicates, rounding, dtype),
    }
    fitted = outcome.combinations.kernels[:-1]
    specs = [kernel.kernel.spec() for kernel in fitted if isinstance(kernel, OnColumns)]
    columns = {"kernel": specs, **{name: values.tolist() for name, values in found.items()}}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


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


@partial(takes_run, taken=UncheckedArguments)
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
    names: Sequence[str] | None = None,
    data: Any = None,
    missing: GapTreatment = "refuse",
    strata: Any = None,
    **options: Unpack[UncheckedArguments],
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
    names, data, missing
        As for `rank_features`; "lasso" does not take ``missing="pairwise"``.
    strata : array-like or str, optional
        A label for every row, as for `rank_features`: numbers are standardised within their
        stratum, so that the selection is by dependence within strata. Categories and booleans are
        not changed. There are no `groups` and `order`: scores have no p-value, and do not depend on
        how rows may be permuted.
    rng, precision, client, threads, memory
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
    run = RunOptions(**options)
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
    of_target, reason = target_kernel_of(session, target_kernel), AS_ASKED

    def against(subsets: Sequence[Subset]) -> Combinations:
        """Sets of features with the target."""
        return Combinations.against([chosen.on(subset) for subset in subsets], of_target)

    if method == "lasso":
        # In units of their standard deviations: the lasso compares coefficients of kernels.
        alone = against([(j,) for j in range(len(chosen))])
        fitted, _ = fit_combinations_on_sample(session, alone)
        reduction = LassoPass(fitted, session.dims, block_rows, n_permutations, session.seed)
        session.begin(plan_of(session, [fitting_step(session), session.plan(reduction)], _REMEDY))
        weights = lasso_path(session.reduce(reduction), k)
        # The path may end before k features have a weight.
        # Stable, so that the first of equal columns is chosen on every machine.
        order = np.argsort(-weights, kind="stable")[: min(k, int(np.count_nonzero(weights)))]
        selected, scores = order.tolist(), weights[order].tolist()
    else:
        # Forward sets have k columns at most; backward ones begin with all. A set of as many for
        # every feature: no step takes more.
        largest = tuple(range(k if method == "forward" else len(chosen)))
        most = against([largest] * len(chosen))
        measuring, _, reason = choose_estimator(estimator, session, most, None, None)

        def measure(subsets: Sequence[Subset]) -> Vector:
            """The dependence of the target on sets, all in one pass where they fit."""
            combinations = against(subsets)
            # Planned at every step, since sets grow: a refusal comes before the pass that would not
            # fit.
            session.begin(planned(partial(plan_once, null=None), measuring, session, combinations))
            found = measuring.test_grid(session, combinations, None)
            return found.cka() if criterion == "cka" else found.hsic

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


# --- greedy selection: a set of features grows or shrinks by its dependence on the target


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


# --- block HSIC lasso: few features whose kernels together explain the target's


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


# --- columns of features and target, and their kernels


@dataclass(frozen=True)
class RankedColumns:
    """Columns of the first variable, or groups of them.

    Parameters
    ----------
    names : tuple of str
        One a feature.
    columns : tuple of tuple of int
        The columns of each.
    kernels : tuple of Kernel
        To fit to each.
    kinds : tuple of {"number", "boolean", "category"} or None
        Kinds of the columns of the variable, where they decide on kernels.
    missing : bool, optional
        Whether rows may miss values.
    """

    names: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]
    kernels: tuple[Kernel, ...]
    kinds: tuple[ValueKind, ...] | None = None
    missing: bool = False

    def missing_of(self, gaps: Sequence[Gaps]) -> tuple[int, ...]:
        """Missing values of every feature and rows of the target, if any are missing."""
        if not gaps:
            return ()
        features, target = gaps
        each = (sum(features.values[j] for j in columns) for columns in self.columns)
        return (*each, target.rows)

    def on(self, subset: Sequence[int]) -> Kernel:
        """The kernel on all columns of some features, in units of their standard deviation."""
        # A column of several features counts once.
        columns = tuple(dict.fromkeys(j for feature in subset for j in self.columns[feature]))
        kernel = self.kernels[subset[0]]
        # A set may hold numbers and categories: no kernel of one feature suits all of its columns.
        if self.kinds is not None:
            kernel = by_type([self.kinds[j] for j in columns], Gaussian())
        scaled = OnColumns(kernel, columns, scaled=True)
        return with_missing(scaled) if self.missing else scaled

    def __len__(self) -> int:
        return len(self.names)

    def against(self, target: Kernel) -> Combinations:
        """Every feature with the target."""
        # Kernels on columns of the one variable, so that all are fitted and read together.
        pairs = zip(self.kernels, self.columns, strict=True)
        combinations = Combinations.against([OnColumns(kernel, at) for kernel, at in pairs], target)
        return combinations.with_missing([self.missing, False])


def open_columns(
    run: RunOptions, features: Any, target: Any, data: Any, missing: GapTreatment, rows: RowLabels
) -> Session:
    """Open features and target; they are x and y where they have no names."""
    if target is None:
        msg = "target must name the variable to compare features with, got none: as target='year'"
        raise UnknownArgumentError(msg)
    given, usual = (features, target), ("x", "y")
    # Columns of data have names of their own; arrays are x and y.
    if data is None:
        names = names_of(given, usual)
    else:
        # One column has its name; a list of columns has none of its own.
        pairs = zip(given, usual, strict=True)
        names = [str(x) if isinstance(x, str | int) else y for x, y in pairs]
    session = run.open(given, names, data, missing, rows, pairwise=True)
    several, one = session.sources
    (name, *others), columns = labels_of(one) or ("",), labels_of(several) or ()
    if not others and name in columns:
        # Columns of two tables may have one name.
        first = 0, min(session.n, 1000)
        alike = data is not None or (
            {several.place, one.place} == {"memory"}
            and np.array_equal(several.read(*first)[:, columns.index(name)], one.read(*first)[:, 0])
        )
        if alike:
            msg = f"target {name!r} is among the features and would rank first: leave it out"
            raise InvalidArgumentError(msg)
    return session


def read_columns(
    session: Session,
    names: Sequence[str] | None,
    groups: ColumnGroups | None,
    kernels: ColumnKernels,
) -> RankedColumns:
    """The features that were asked for.

    Parameters
    ----------
    session : Session
        The run, whose first variable has the columns.
    names : sequence of str or None
        Names of the columns. The default is the names in the data.
    groups : mapping, sequence or None
        Columns of every group, by number or name.
    kernels : str, Kernel or a sequence of them, or None
        One for all features, or one for each. The default follows the values.

    Raises
    ------
    InvalidArgumentError
        Names, groups or kernels that do not fit.
    """
    source = session.sources[0]
    kinds, d = kinds_of(source), source.shape[1]
    labels = labels_of(source) if names is None else names
    if labels is None:
        # Some columns of an array keep the numbers that they have in it.
        numbers = getattr(source, "columns", None) or range(d)
        labels = [f"{source.name.split('[')[0]}[{j}]" for j in numbers]
    columns = checked_names(range(d), labels, "column")
    chosen: dict[str, tuple[int, ...]] = {name: (j,) for j, name in enumerate(columns)}
    if groups is not None:
        # From 1 on, as a person counts.
        numbered = {f"group {number}": at for number, at in enumerate(_listed(groups), 1)}
        named: Mapping[str, Any] = groups if isinstance(groups, Mapping) else numbered
        if not named or not all(isinstance(name, str) for name in named):
            msg = (
                "column_groups must be columns by the name of their group, or a list of lists of "
                f"columns; got {shown(groups)}: as {{'timbre': [0, 1, 2], 'rest': [3, 4]}}"
            )
            raise InvalidArgumentError(msg)
        chosen = {name: _columns_of(name, at, columns) for name, at in named.items()}
    words = "a ranking", "feature_kernels", "features"
    asked = read_single_kernels(kernels, len(chosen), *words)
    read = tuple(
        kernel_for_columns(kernel, [kinds[j] for j in at], f"feature {name!r}")
        for kernel, (name, at) in zip(asked, chosen.items(), strict=True)
    )
    # Kernels that were given are those of sets of features too: their kinds decide nothing then.
    decide = None if kernels else kinds
    missing = not session.finite[0]
    return RankedColumns(tuple(chosen), tuple(chosen.values()), read, decide, missing)


def kernel_for_columns(kernel: Any, kinds: Sequence[ValueKind], what: str) -> Kernel:
    """A kernel that the values of columns allow: from its name, as it is, or by what they hold."""
    read = read_kernel(kernel)
    if read is None:
        return by_type(kinds, Gaussian())
    check_kernel(read, kinds, what)
    return read


def target_kernel_of(session: Session, kernel: str | Kernel | None) -> Kernel:
    """The kernel of the target: as given, or by what it holds; of rows that may be missing."""
    target = session.sources[1]
    read = kernel_for_columns(kernel, kinds_of(target), f"target {target.name!r}")
    return read if session.finite[1] else with_missing(read)


def _columns_of(group: str, listed: Any, names: list[str]) -> tuple[int, ...]:
    """Columns by number or name."""
    # An unknown name stays a text, which the check below refuses.
    at = [names.index(x) if isinstance(x, str) and x in names else x for x in _listed(listed)]
    known = [
        # True is 1 to Python; as a column it is a mask by mistake.
        isinstance(x, int | np.integer) and not isinstance(x, bool) and 0 <= x < len(names)
        for x in at
    ]
    if not at or not all(known) or len(set(at)) < len(at):
        unknown = [x for x, there in zip(at, known, strict=True) if not there]
        # All are known where one is there twice.
        hint = nearest(str(unknown[0]), names) if unknown else ""
        msg = (
            f"group {group!r} must list different columns, one or more, by numbers from 0 to "
            f"{len(names) - 1} or by name; got {shown(listed)}{hint}"
        )
        raise InvalidArgumentError(msg)
    return tuple(map(int, at))


def _listed(given: Any) -> list[Any]:
    """Several values; none of a word, which is a sequence too."""
    several = isinstance(given, Sequence) or np.ndim(given) == 1
    return list(given) if several and not isinstance(given, str | bytes) else []


def usable_columns(data: Any, others: Sequence[Any] = ()) -> tuple[list[str], dict[str, str]]:
    """All columns of a table but those that have another task, as far as they can be variables.

    Parameters
    ----------
    data : object
        A data frame, Dataset, dict of columns, or path of a CSV or Parquet file.
    others : sequence, optional
        Columns with another task: a name, which need not be text, or a list of them each.

    Returns
    -------
    usable, left_out : list of str, dict of str to str
        Columns of numbers or labels, and why others are neither, as dates, names and prices.

    Raises
    ------
    InvalidArgumentError
        There are none, or the table lacks a column with another task.
    DataError
        The file cannot be read.
    """
    left_out: dict[str, str] = {}

    def passing(columns: Iterable[str], check: Callable[[str], object]) -> list[str]:
        for column in columns:
            try:
                check(column)
            except DataError as error:
                # Without the values that show it and the remedy, which stand behind.
                reason = re.split(r": |, (?=so |')", str(error), maxsplit=1)[0]
                reason = reason.replace(f" of {data}", "") if isinstance(data, str) else reason
                left_out[column] = re.sub("^(column|variable) ", "", reason)
        return [column for column in columns if column not in left_out]

    def open_column(name: str) -> None:
        ((column,), _) = pick_variables([name], held)
        values = open_one(column, name)
        # Numbers of rows, as an index becomes a column of a file.
        if values.place == "memory" and values.shape == (n := values.shape[0], 1) and n > 1:
            counted = values.read(0, n)[:, 0] - np.arange(n)
            if counted[0] in (0, 1) and (counted == counted[0]).all():
                msg = f"{name!r} counts the rows"
                raise DataError(msg)

    held, table = data, open_table(Path(data)) if is_table(data) else None
    names = _names_of_columns(data) if table is None else table.columns
    # A name of pandas may be a number, or a tuple, as a list of names may be.
    some = ([x] if isinstance(x, str | int) or str(x) in names else x for x in others)
    listed = chain.from_iterable(one for one in some if isinstance(one, list | tuple))
    taken = set(map(str, listed))
    if table is not None:
        named = columns_by_variable(sorted(taken), names)
        taken = {column for columns in named.values() for column in columns}
    for name in taken.difference(names):
        if table is not None:
            table.check_column(name)
        raise unknown_column(name, names)
    for name in names:
        if name not in taken and (not name.strip() or re.fullmatch(r"Unnamed: \d+", name)):
            left_out[name] = f"{name!r} has no name"
    usable = [name for name in names if name not in taken and name not in left_out]
    if table is not None:
        usable = passing(passing(usable, table.check_column), lambda name: table.check_text([name]))
        held = held_columns(table, usable) if usable else data
    usable = passing(usable, open_column)
    if not usable:
        besides = f" besides {', '.join(sorted(taken))}" if taken else ""
        msg = (
            f"{'data' if table is None else data} must have columns of numbers or labels{besides}, "
            f"got no others: {'; '.join(left_out.values()) or 'add some'}"
        )
        raise InvalidArgumentError(msg)
    return usable, left_out


def _names_of_columns(data: Any) -> Sequence[str]:
    """The columns of a table in memory, or of Dask, in their order."""
    if data is None:
        msg = "rank_features: missing a required argument: 'features', or data= to rank its columns"
        raise UnknownArgumentError(msg)
    _, keys = frame_and_keys(data)
    if keys is None:
        msg = "features must name arrays of the group, got none: name them"
        raise InvalidArgumentError(msg)
    return names_of_columns(keys)
