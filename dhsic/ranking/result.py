"""Result of a ranking: frozen, typed, and the same after a trip through JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast, get_args

from dhsic import plots
from dhsic._validation import check_choice, check_level
from dhsic.errors import InvalidArgumentError
from dhsic.nulls import Control
from dhsic.results import (
    AS_ASKED,
    Findings,
    LandmarkSummary,
    RunFields,
    Sketch,
    floor_text,
    is_least,
    kernel_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

By = Literal["pvalue", "cka", "hsic", "sensitivity"]

_MOST = 40
_TARGET = 40
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


@dataclass(frozen=True)
class RankedColumn:
    """One column against the target.

    Parameters
    ----------
    name : str
        Name of the column, or of the group of columns.
    columns : tuple of int
        Its columns.
    kernel : str
        Its kernel with the bandwidth used.
    statistic : float
        The test statistic.
    standardised : float
        Its distance from the mean of its replicates, in their standard deviations.
    hsic : float
        Squared HSIC with the target, in units that the kernels set.
    cka : float
        HSIC(x, y) / sqrt(HSIC(x, x) HSIC(y, y)) less what independence leaves, at most 1 and 0 on
        average under independence, see `rank_features`.
    pvalue : float
        P-value of the column by itself, which takes no notice of the others.
    pvalue_bh, pvalue_by : float
        Adjusted so that rejections at a level have at most that share of false discoveries on
        average.
    pvalue_bonferroni, pvalue_holm, pvalue_max_t : float
        Adjusted so that rejections at a level have any false discovery with at most that
        probability.
    sensitivity : float or None
        Sensitivity of the dependence of all columns together to those of the column, see
        `rank_features`; exploratory. None where it was not asked for.
    constant : bool
        All its rows are the same. Then nothing depends on it, and it was not tested.
    """

    name: str
    columns: tuple[int, ...]
    kernel: str
    statistic: float
    standardised: float
    hsic: float
    cka: float
    pvalue: float
    pvalue_bh: float
    pvalue_by: float
    pvalue_bonferroni: float
    pvalue_holm: float
    pvalue_max_t: float
    sensitivity: float | None = None
    constant: bool = False

    @classmethod
    def still(cls, name: str, columns: tuple[int, ...], kernel: str) -> Self:
        """A column that is constant: no dependence, p-values 1."""
        # p-values of 1 in every correction: a constant counts among the features, and is never
        # found.
        return cls(name, columns, kernel, 0.0, 0.0, 0.0, 0.0, *(1.0,) * 6, None, True)

    def adjusted(self, control: Control) -> float:
        """The p-value adjusted in one way."""
        value: float = getattr(self, f"pvalue_{control.replace('-', '_')}")
        return value


_LEVEL = 0.05  # at which a summary tells whether there are replicates enough

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
        Missing values of each feature, and rows in which the target misses one, which stay by
        ``missing="pairwise"``; empty where there are none.
    features : tuple of RankedColumn
        In the order of the data.
    by : {"pvalue", "cka", "hsic", "sensitivity"}
        Criterion of the ranking; equal p-values are ranked by the standardised statistic.
    target : str
        Its name.
    target_kernel : str
        Its kernel with the bandwidth used.
    estimator : str
        Its name.
    estimator_reason : str
        Why this one.
    null : str
        How the null distribution was made.
    null_reason : str
        Why this one.
    n_resamples : int
        Replicates, which the columns share.
    landmarks : LandmarkSummary or None
        Where the estimator has any; one number kept a column that varies.

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

    _tabular: ClassVar[bool] = True

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

    def ranked(self, by: By | None = None) -> tuple[RankedColumn, ...]:
        """All columns, the strongest first and those that are constant last.

        Parameters
        ----------
        by : {"pvalue", "cka", "hsic", "sensitivity"}, optional
            Criterion that decides; that of the ranking where not given.

        Raises
        ------
        InvalidArgumentError
            Another word, or sensitivities where the ranking has none.
        """
        key = _KEYS[check_choice("by", by or self.by, get_args(By))]
        if by == "sensitivity" and self.by != by:
            msg = (
                "a ranking has sensitivities where they were asked for, and this one is by "
                f"{self.by!r}: rank the features with by='sensitivity'"
            )
            raise InvalidArgumentError(msg)
        # Constants come last, whatever the key.
        return tuple(sorted(self.features, key=lambda f: (f.constant, key(f))))

    def rejected(self, alpha: float = 0.05, control: Control = "bh") -> tuple[str, ...]:
        """Names of the columns whose independence of the target is rejected, strongest first.

        Parameters
        ----------
        alpha : float, optional
            The level: of the expected share of false discoveries for "bh" and "by", of the
            probability of any for the others.
        control : {"bh", "by", "bonferroni", "holm", "max-t"}, optional
            How the number of columns is accounted for, see `dhsic.nulls.adjust`. "max-t" uses
            the replicates that columns share, so that their dependence costs nothing; it needs
            about 1 / alpha replicates, Bonferroni and Holm as many times more as there are
            columns.

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
        ax: Axes | None = None,
        *,
        alpha: float = 0.05,
        control: Control = "bh",
        most: int = 40,
    ) -> Axes:
        """Bars of the columns by what ranks them, those that are found in colour.

        A ranking by p-values has bars of CKA.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure where not given.
        alpha, control
            As for `rejected`.
        most : int, optional
            Bars at most, of the largest values.

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
        axes = plots.ranking(
            [getattr(f, size) for f in self.features],
            [f.name for f in self.features],
            pvalues=[f.adjusted(control) for f in self.features],
            alpha=alpha,
            control=control,
            quantity=_QUANTITIES[size],
            most=most,
            ax=ax,
        )
        axes.set_ylabel(f"dependence on {plots.shortened(self.target, _TARGET)}")
        return axes

    def records(self) -> list[dict[str, Any]]:
        """Every column, the strongest first."""
        return [{"rank": place, **vars(f)} for place, f in enumerate(self.ranked(), 1)]

    def findings(self, alpha: float, control: str) -> Findings:
        check_choice("control", control, get_args(Control))
        by = cast(Control, control)
        chosen = self.rejected(alpha, by)
        lead = (
            f"{len(chosen):,} of {len(self.features):,} features depend on {self.target} at level "
            f"{alpha:g} by {_CONTROLS[by]}"
        )
        said = f"Bars of the columns by their dependence on {self.target}, those selected in blue."
        sketch = Sketch.of_bars(
            lambda ax: self.plot(ax, alpha=alpha, control=by, most=_MOST),
            said,
            min(_MOST, len(self.features)),
        )
        joint = self.by == "sensitivity"
        rows = [_reported(place, f, by, alpha, joint) for place, f in enumerate(self.ranked(), 1)]
        title = f"Which columns does {self.target} depend on?"
        notes = [_MEANING, *([_JOINT] if joint else [])]
        return Findings(title, lead, [sketch], {"Features": rows}, notes)

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line above the table."""
        reason = self.estimator_reason
        chosen = self.estimator if reason == AS_ASKED else f"{self.estimator}: {reason}"
        constant = sum(f.constant for f in self.features)
        still = f", {constant:,} of them constant" if constant else ""
        exploratory = ", exploratory" if self.by == "sensitivity" else ""
        rows = [
            ("features", f"{len(self.features):,}{still}, ranked by {self.by}{exploratory}"),
            ("target", f"{self.target} ({kernel_text(self.target_kernel)})"),
            ("n", self._rows_told),
        ]
        if self.landmarks is not None:
            kept = self.landmarks.kept
            few, many = (min(kept), max(kept)) if isinstance(kept, tuple) else (kept, kept)
            rows.append(
                (
                    "landmarks",
                    f"{few:,} to {many:,} of {self.landmarks.drawn:,} kept a column, "
                    f"{self.landmarks.pairing} pairing",
                )
            )
        return [
            *rows,
            ("estimator", chosen),
            *self._limit(),
            ("null", f"{self.null}, {self.n_resamples:,} replicates: {self.null_reason}"),
            *self._tail(),
        ]

    def _limit(self) -> list[tuple[str, str]]:
        """How many p-values would be smaller with more replicates, and whether bh finds any."""
        count = sum(is_least(f.pvalue, self.n_resamples) for f in self.features)
        if not count:
            return []
        least = floor_text(self.n_resamples, reason=self.null_reason)
        text = f"{count:,} feature{' has' if count == 1 else 's have'} {least}"
        # The k smallest are rejected if they are k alpha / d at most (Benjamini, Hochberg 1995).
        needed = math.ceil(len(self.features) / (count * _LEVEL)) - 1
        if needed > self.n_resamples:
            text += f"; bh needs {needed:,} to find so few at level {_LEVEL:g}, max-t no more"
        return [("p-values", text)]

    def table(self, most: int | None = None) -> tuple[list[str], list[list[str]]]:
        """Header and rows of short texts, the strongest column first.

        Parameters
        ----------
        most : int, optional
            Rows at most; all where not given.
        """
        joint = ["sensitivity"] if self.by == "sensitivity" else []
        header = ["", "feature", *joint, "hsic", "cka", "p-value", "bh", "holm", "max-t"]
        rows = [
            [
                str(place),
                f"{f.name} (constant)" if f.constant else f.name,
                *([f"{f.sensitivity:.4g}"] if joint else []),
                f"{f.hsic:.4g}",
                f"{f.cka:.4f}",
                *(f"{p:.4g}" for p in (f.pvalue, f.pvalue_bh, f.pvalue_holm, f.pvalue_max_t)),
            ]
            for place, f in enumerate(self.ranked()[:most], 1)
        ]
        return header, rows


def _reported(
    place: int, f: RankedColumn, control: Control, alpha: float, joint: bool
) -> dict[str, Any]:
    return {
        "rank": place,
        "feature": f"{f.name} (constant)" if f.constant else f.name,
        **({"sensitivity": f.sensitivity} if joint else {}),
        "HSIC": f.hsic,
        "CKA": f.cka,
        "p-value": f.pvalue,
        **{said: f.adjusted(name) for name, said in _CONTROLS.items()},
        "selected": bool(f.adjusted(control) <= alpha),
    }
