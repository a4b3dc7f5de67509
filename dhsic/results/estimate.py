"""An estimate of dependence: frozen, typed, and the same after a trip through JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dhsic._drawing import shortened
from dhsic.results.contract import Findings, Records, RunFields
from dhsic.results.summaries import FeatureSummary, LandmarkSummary, VariableSummary
from dhsic.results.texts import kernel_text

AS_ASKED = "as asked"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DependenceEstimate(RunFields):
    """An estimate of dependence.

    Parameters
    ----------
    n, precision, seed, passes, seconds, version, dropped, data, missing
        Of the run, see `dhsic.results.RunFields`.
    estimate : float
        The measure of dependence.
    quantity : str
        Quantity that is estimated, as "squared HSIC".
    estimator : str
        Its name.
    estimator_reason : str
        Why this one.
    variables : tuple of VariableSummary
        The variables with their kernels.
    landmarks : LandmarkSummary or None
        Where the estimator has any.
    features : FeatureSummary or None
        Where the estimator has any.

    References
    ----------
    .. [1] A. Gretton, O. Bousquet, A. Smola, B. Schoelkopf. Measuring statistical dependence with
       Hilbert-Schmidt norms. ALT 2005.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 200))
    >>> dependent, independent = dhsic.hsic(x, x**2, rng=0), dhsic.hsic(x, y, rng=0)
    >>> dependent.quantity, dependent.estimate > 10 * independent.estimate
    ('squared HSIC', True)
    """

    _label_width: ClassVar[int] = 12
    _columns: ClassVar[tuple[str, ...]] = (
        *("n", "dropped", "quantity", "estimate", "estimator", "precision", "seed", "seconds"),
        "version",
    )

    estimate: float
    quantity: str
    estimator: str
    estimator_reason: str
    variables: tuple[VariableSummary, ...]
    landmarks: LandmarkSummary | None
    features: FeatureSummary | None

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            ("variables", ", ".join(variable.told for variable in self.variables)),
            ("n", self._rows_told),
        ]
        if self.landmarks is not None:
            z = self.landmarks
            chosen = "" if z.pool is None else f", {z.selection} of {z.pool:,} rows"
            why = f"; {z.choice}" if z.choice else ""
            kept = f"{_counts(z.kept)} of {z.drawn:,} kept, {z.pairing} pairing{chosen}{why}"
            rows.append(("landmarks", kept))
        if self.features is not None:
            f = self.features
            orthogonal = ", orthogonal" if f.orthogonal else ""
            rows.append(("features", f"{_counts(f.counts)} {f.kind}{orthogonal}"))
        return rows

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        estimate = (self.quantity, f"{self.estimate:.6g} ({self._chosen()})")
        return [*self._rows(), estimate, *self._tail()]

    def records(self) -> list[dict[str, Any]]:
        names = ", ".join(v.name for v in self.variables)
        kernels = " x ".join(v.kernel for v in self.variables)
        return [{"variables": names, "kernels": kernels, **super().records()[0]}]

    def findings(self, alpha: float, control: str) -> Findings:
        del alpha, control
        lead = f"The {self.quantity} is {self.estimate:.6g}"
        return Findings(self._subject, lead, tables=self._tables())

    @property
    def _subject(self) -> str:
        return f"Dependence of {', '.join(v.name for v in self.variables)}"

    def _tables(self) -> dict[str, Records]:
        variables = [
            {"variable": v.name, "columns": v.columns, "kernel": kernel_text(v.kernel)}
            for v in self.variables
        ]
        tables: dict[str, Records] = {"Variables": variables}
        for name, summary in (("Landmarks", self.landmarks), ("Features", self.features)):
            if summary is not None:
                tables[name] = [vars(summary)]
        return tables

    def _brief(self) -> list[str]:
        names = ", ".join(shortened(v.name, 24) for v in self.variables[:4])
        more = ", ..." if len(self.variables) > 4 else ""
        estimate = f"{self.quantity} = {self.estimate:.4g}"
        return [estimate, self.estimator, f"n = {self.n:,}", names + more]

    def _chosen(self) -> str:
        reason = self.estimator_reason
        return self.estimator if reason == AS_ASKED else f"{self.estimator}: {reason}"


def _counts(numbers: int | tuple[int, ...]) -> str:
    """One number, or one a variable."""
    return " and ".join(f"{n:,}" for n in ((numbers,) if isinstance(numbers, int) else numbers))
