"""The outcome of a test of interaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dhsic._text import printable
from dhsic.results import IndependenceTestResult, pvalue_text


@dataclass(frozen=True)
class Factorisation:
    """One way in which the distribution of three variables may factorise.

    Parameters
    ----------
    separated : str
        The variable that is independent of the two others.
    together : tuple of str
        The two others.
    pvalue : float
        P-value of this factorisation by itself.
    pvalue_error : float
        Its Monte Carlo standard error.
    """

    separated: str
    together: tuple[str, str]
    pvalue: float
    pvalue_error: float

    def __str__(self) -> str:
        return printable(f"{self.separated} independent of ({', '.join(self.together)})")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class InteractionTestResult(IndependenceTestResult):
    """The outcome of a test of whether the distribution of three variables factorises.

    All fields are as in `IndependenceTestResult`, but for these.

    Parameters
    ----------
    estimate : float
        Squared norm of the embedding of the Lancaster interaction; at landmarks of its projection
        on them.
    statistic : float
        Rows times the estimate.
    pvalue : float
        The largest of the three: of "some factorisation holds".
    null_distribution : ndarray, shape (b,)
        Under the factorisation that has the largest p-value.
    factorisations : tuple of Factorisation
        The three, in the order of the variables that they separate.

    References
    ----------
    .. [1] D. Sejdinovic, A. Gretton, W. Bergsma. A kernel test for three-variable interactions.
       NeurIPS 2013.

    Examples
    --------
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 300))
    >>> result = dhsic.interaction_test(x, y, np.sign(x * y), rng=0)
    >>> result.pvalue < 0.01, len(result.factorisations)
    (True, 3)
    """

    hypothesis: ClassVar[str] = "factorisation"
    question: ClassVar[str] = "Does the distribution of {} factorise?"

    factorisations: tuple[Factorisation, ...] = ()

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        lines, count = [], len(self.null_distribution)
        for label, text in super().summary():
            if label == "p-value":
                for factorisation in self.factorisations:
                    # A bound has its sign in the text.
                    p = pvalue_text(factorisation.pvalue, factorisation.pvalue_error, count)
                    lines.append(
                        ("factorisation", f"{factorisation}: p {'' if p[0] == '<' else '= '}{p}")
                    )
                # No interaction where any one factorisation holds: it is rejected if all three are
                # (intersection and union, Berger 1982).
                text += ", the largest of the three"
            lines.append((label, text))
        return lines

    def records(self) -> list[dict[str, Any]]:
        each = {
            f"pvalue_{factorisation.separated}": factorisation.pvalue
            for factorisation in self.factorisations
        }
        return [{**super().records()[0], **each}]
