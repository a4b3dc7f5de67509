"""Features by how much they depend on a target, as a report has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from dhsic._validation import check_choice
from dhsic.errors import InvalidArgumentError
from dhsic.nulls import Control
from dhsic.plots import ranking
from dhsic.plots.values import finite_vector, names_of
from dhsic.ranking import FeatureRanking
from dhsic.report.parts import Cell, Facts, Note, Picture, Section, Table, number
from dhsic.results import PassSummary

__all__ = ["Ranked", "ranked_sections"]

_MOST = 40
_CONTROLS: dict[Control, str] = {
    "bh": "false discovery rate (BH)",
    "by": "false discovery rate (BY)",
    "bonferroni": "any error (Bonferroni)",
    "holm": "any error (Holm)",
    "max-t": "any error (max-t)",
}
_WIDTH, _BAR, _MARGIN = 7.2, 0.21, 1.4  # inches


@dataclass(frozen=True)
class Ranked:
    """A ranking of k features, the first in rank first.

    Parameters
    ----------
    target : str
        What they were compared with.
    names : sequence of str
        Of the features.
    hsic, cka, pvalues : array-like, shapes (k,)
        Squared HSIC, its normalised form and the p-value of every feature by itself.
    adjusted : mapping from str to array-like, shapes (k,)
        P-values adjusted for all features, by the name of what they control.
    control : str
        The one of `adjusted` that selects.
    n : int
        Rows.
    seed : int
        Fixes every draw.
    seconds : float
        Wall time.
    version : str
        Of dhsic.
    passes : sequence of PassSummary, optional
        The passes over the data.
    facts : sequence of pair of str, optional
        Labels and texts of what else there is to tell, as kernels and landmarks.
    sensitivity : array-like, shape (k,), optional
        Of the dependence of all columns together to those of every feature.

    Raises
    ------
    InvalidArgumentError
        They are not of one length, or `control` is not among `adjusted`.
    """

    target: str
    names: Sequence[str]
    hsic: ArrayLike
    cka: ArrayLike
    pvalues: ArrayLike
    adjusted: Mapping[str, ArrayLike]
    control: str
    n: int
    seed: int
    seconds: float
    version: str
    passes: Sequence[PassSummary] = ()
    facts: Sequence[tuple[str, str]] = field(default=())
    sensitivity: ArrayLike | None = None

    @classmethod
    def of(cls, found: FeatureRanking, *, control: Control = "bh") -> Self:
        """What `dhsic.rank_features` found.

        Parameters
        ----------
        found : FeatureRanking
            The ranking.
        control : {"bh", "by", "bonferroni", "holm", "max-t"}, optional
            The adjusted p-value that selects.
        """
        check_choice("control", control, tuple(_CONTROLS))
        features = found.ranked()
        sizes = [f.sensitivity or 0.0 for f in features]
        return cls(
            target=found.target,
            names=[f"{f.name} (constant)" if f.constant else f.name for f in features],
            hsic=[f.hsic for f in features],
            cka=[f.cka for f in features],
            pvalues=[f.pvalue for f in features],
            adjusted={said: [f.adjusted(c) for f in features] for c, said in _CONTROLS.items()},
            control=_CONTROLS[control],
            n=found.n,
            seed=found.seed,
            seconds=found.seconds,
            version=found.version,
            passes=found.passes,
            facts=[row for row in found.summary() if row[0] not in ("target", "n")],
            sensitivity=sizes if found.by == "sensitivity" else None,
        )

    def __post_init__(self) -> None:
        k = len(self.names)
        names_of(self.names, k)
        named = {"hsic": self.hsic, "cka": self.cka, "pvalues": self.pvalues, **self.adjusted}
        if self.sensitivity is not None:
            named["sensitivity"] = self.sensitivity
        for name, values in named.items():
            finite_vector(name, values, k)
        if self.control not in self.adjusted:
            listed = ", ".join(map(repr, self.adjusted))
            msg = f"control must be one of {listed}, got {self.control!r}"
            raise InvalidArgumentError(msg)


def ranked_sections(ranked: Ranked, alpha: float) -> tuple[str, list[Section]]:
    """The finding in a sentence, and the sections of a ranking."""
    selecting = np.asarray(ranked.adjusted[ranked.control], dtype=np.float64)
    chosen, k = int((selecting <= alpha).sum()), len(ranked.names)
    lead = (
        f"{chosen:,} of {k:,} features depend on {ranked.target} at level {alpha:g} "
        f"by {ranked.control}"
    )
    columns = {"HSIC": ranked.hsic, "CKA": ranked.cka, "p-value": ranked.pvalues, **ranked.adjusted}
    joint = (
        []
        if ranked.sensitivity is None
        else [_sensitivity_bars(ranked, ranked.sensitivity, selecting, alpha)]
    )
    if ranked.sensitivity is not None:
        columns = {"sensitivity": ranked.sensitivity, **columns}
    vectors = [np.asarray(values, dtype=np.float64) for values in columns.values()]
    rows = [
        [
            number(f + 1, ",d"),
            Cell(str(name)),
            *(number(float(values[f])) for values in vectors),
            Cell("yes" if selecting[f] <= alpha else ""),
        ]
        for f, name in enumerate(ranked.names)
    ]
    header = ("rank", "feature", *columns, "selected")
    facts = [("target", ranked.target), ("n", f"{ranked.n:,}"), *ranked.facts]
    return lead, [
        Section(
            "Ranking", [*joint, _bars(ranked, selecting, alpha), Table("Features", header, rows)]
        ),
        Section.of("Method", [Facts(facts), Note(_MEANING), Note(_JOINT) if joint else None]),
    ]


_MEANING = (
    "HSIC is 0 where a feature and the target are independent; CKA is HSIC without the scales of "
    "both, from 0 to 1. The p-value is of a feature by itself; adjusted ones account for all "
    "features. A feature that is not selected may depend all the same."
)


_JOINT = (
    "The sensitivity is of the dependence of all columns together to those of a feature: the mean "
    "square of its derivatives, which depends on the units of the columns. It is exploratory, and "
    "has no p-value of its own: colours are of every feature by itself."
)


def _sensitivity_bars(
    ranked: Ranked, sensitivity: ArrayLike, selecting: ArrayLike, alpha: float
) -> Picture:
    return Picture.drawn(
        lambda ax: ranking(
            sensitivity,
            ranked.names,
            pvalues=selecting,
            alpha=alpha,
            control=ranked.control,
            quantity="sensitivity",
            most=_MOST,
            ax=ax,
        ),
        _size(ranked),
        f"Bars of the features by the sensitivity of their joint dependence with {ranked.target}.",
    )


def _size(ranked: Ranked) -> tuple[float, float]:
    return _WIDTH, _MARGIN + _BAR * max(5, min(_MOST, len(ranked.names)))


def _bars(ranked: Ranked, selecting: ArrayLike, alpha: float) -> Picture:
    return Picture.drawn(
        lambda ax: ranking(
            ranked.cka,
            ranked.names,
            pvalues=selecting,
            alpha=alpha,
            control=ranked.control,
            quantity="CKA",
            most=_MOST,
            ax=ax,
        ),
        _size(ranked),
        f"Bars of the features by CKA with {ranked.target}, those selected in blue.",
    )
