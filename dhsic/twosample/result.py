"""The outcome of a test of samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dhsic._drawing import shortened
from dhsic.results import IndependenceTestResult, Parts, several_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SampleSummary", "TwoSampleTestResult"]

_TITLE_WIDTH = 48


@dataclass(frozen=True)
class SampleSummary:
    """One sample of a test.

    Parameters
    ----------
    name : str
        Its name.
    n : int
        Its rows.
    """

    name: str
    n: int


@dataclass(frozen=True, kw_only=True, eq=False)
class TwoSampleTestResult(IndependenceTestResult):
    """The outcome of a test of whether samples come from one distribution.

    It is that of a test of independence of the value of a row and the sample that it is from: all
    fields are as in `IndependenceTestResult`, with one variable, the values, and these.

    Parameters
    ----------
    estimate : float
        Squared MMD of two samples; of more, the mean over all pairs (a, b) weighted by n_a n_b.
    statistic : float
        The test statistic; of one kernel, rows of all samples times the estimate, or for
        "block-mmd" the estimate over its standard error.
    samples : tuple of SampleSummary
        The samples.
    """

    hypothesis: ClassVar[str] = "one distribution"

    _parts: ClassVar[Parts] = {
        **IndependenceTestResult._parts,
        "samples": several_of(SampleSummary),
    }

    samples: tuple[SampleSummary, ...] = ()

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        listed = ", ".join(f"{one.name} ({one.n:,})" for one in self.samples)
        return [("samples", listed), *super().summary()]

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05) -> Axes:
        """Histogram of the null distribution, as of `IndependenceTestResult`."""
        axes = super().plot(ax, alpha=alpha)
        names = ", ".join(one.name for one in self.samples)
        axes.set_title(f"one distribution of {shortened(names, _TITLE_WIDTH)}", fontsize=11)
        return axes
