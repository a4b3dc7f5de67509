"""The outcome of a test of interaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dhsic._drawing import shortened
from dhsic.results import IndependenceTestResult, Parts, several_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Factorisation", "InteractionTestResult"]

_TITLE_WIDTH = 48


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
        Of this factorisation by itself.
    pvalue_error : float
        Its Monte Carlo standard error.
    """

    separated: str
    together: tuple[str, str]
    pvalue: float
    pvalue_error: float

    def __str__(self) -> str:
        first, second = self.together
        error = f" ± {self.pvalue_error:.2g}"
        return (
            f"p = {self.pvalue:.4g}{error} for {self.separated} independent of ({first}, {second})"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
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
    """

    hypothesis: ClassVar[str] = "factorisation"

    _parts: ClassVar[Parts] = {
        **IndependenceTestResult._parts,
        "factorisations": several_of(Factorisation),
    }

    factorisations: tuple[Factorisation, ...] = ()

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        lines = []
        for label, text in super().summary():
            if label == "p-value":
                lines += [("factorisation", str(one)) for one in self.factorisations]
                text += ", the largest of the three"
            lines.append((label, text))
        return lines

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05) -> Axes:
        """Histogram of the null distribution, as of `IndependenceTestResult`."""
        axes = super().plot(ax, alpha=alpha)
        names = ", ".join(one.separated for one in self.factorisations)
        axes.set_title(f"interaction of {shortened(names, _TITLE_WIDTH)}", fontsize=11)
        return axes
