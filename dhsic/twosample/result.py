"""The outcome of a test of samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dhsic.results import IndependenceTestResult


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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TwoSampleTestResult(IndependenceTestResult):
    """The outcome of a test of whether samples come from one distribution.

    It is that of a test of independence of the value of a row and the sample that it is from: all
    fields are as in `IndependenceTestResult`, with one variable, the values, and these.

    Parameters
    ----------
    estimate : float
        Squared MMD of two samples; of more, the mean over all pairs (a, b) weighted by n_a n_b.
        Where several kernels were tried it is that of the reference.
    statistic : float
        The test statistic; of one kernel, rows of all samples times the estimate, or for
        "block-mmd" the estimate over its standard error.
    samples : tuple of SampleSummary
        The samples.

    References
    ----------
    .. [1] A. Gretton, K. Borgwardt, M. Rasch, B. Schoelkopf, A. Smola. A kernel two-sample test.
       JMLR 13, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> a, b = np.random.default_rng(0).standard_normal((2, 200))
    >>> result = dhsic.two_sample_test(a, b + 1.0, rng=0)
    >>> result.pvalue < 0.01, [sample.n for sample in result.samples]
    (True, [200, 200])
    """

    hypothesis: ClassVar[str] = "one distribution"
    question: ClassVar[str] = "Do {} have one distribution?"

    samples: tuple[SampleSummary, ...] = ()

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        listed = ", ".join(f"{sample.name} ({sample.n:,})" for sample in self.samples)
        return [("samples", listed), *super().summary()]

    @property
    def _asked(self) -> tuple[str, ...]:
        # The question is of samples, where `variables` has their values.
        return tuple(sample.name for sample in self.samples)

    def records(self) -> list[dict[str, Any]]:
        return [{"samples": ", ".join(self._asked), **super().records()[0]}]
