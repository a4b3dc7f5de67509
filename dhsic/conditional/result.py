"""The outcome of a test of conditional independence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dhsic.results import IndependenceTestResult


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ConditionalIndependenceTestResult(IndependenceTestResult):
    """The outcome of a test that two variables are independent given others.

    All fields are as in `IndependenceTestResult`, with two variables and these.

    Parameters
    ----------
    estimate : float
        With method "kernel" the kernel partial correlation coefficient of x and y, less its
        prediction by the others, given the others: from 0 for conditional independence to 1 where
        y is a function of x and the others. With "strata" the squared HSIC of the variables within
        strata.
    given : tuple of str
        Names of the given variables.
    method : str
        "kernel" or "strata".
    method_reason : str
        Why this one.
    explained : tuple of float
        Shares of the variances of x and of y that the given variables explain: the prediction of
        their numbers, and of the rest the regression of their features. Empty with "strata".
    gained : tuple of float
        How much larger the shares are that all rows explain of x and of y than those that either
        half of the rows explains of the other; of numbers at most twice those of features, which
        far values do not rule. Where both are large, more rows would explain more
        (`dhsic.errors.UnexplainedWarning`). Empty with "strata".

    References
    ----------
    .. [1] Z. Huang, N. Deb, B. Sen. Kernel partial correlation coefficient: a measure of
       conditional dependence. JMLR 23, 2022.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> z, a, b = np.random.default_rng(0).standard_normal((3, 300))
    >>> result = dhsic.conditional_independence_test(z + a, z + b, given=z, rng=0)
    >>> result.pvalue > 0.05, result.n
    (True, 300)
    """

    hypothesis: ClassVar[str] = "conditional independence"
    question: ClassVar[str] = "Are {} conditionally independent?"

    given: tuple[str, ...] = ()
    method: str = ""
    method_reason: str = ""
    explained: tuple[float, ...] = ()
    gained: tuple[float, ...] = ()

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        names = (one.name for one in self.variables)
        shares = [
            f"{100 * share:.3g} % of the variance of {name}"
            for name, share in zip(names, self.explained, strict=False)
        ]
        told = f", which explain {' and '.join(shares)}" if shares else ""
        first, *others = super().summary()
        return [
            first,
            ("given", ", ".join(self.given) + told),
            ("method", f"{self.method}: {self.method_reason}"),
            *others,
        ]

    def records(self) -> list[dict[str, Any]]:
        told = {"given": ", ".join(self.given), "method": self.method}
        return [{**super().records()[0], **told}]
