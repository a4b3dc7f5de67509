"""The conditional test on residuals of kernel features, in three passes over the data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic.conditional.design import ConditionalDesign
from dhsic.conditional.drawn import Drawn, given_kinds, predicted_columns
from dhsic.conditional.first import FirstDesign
from dhsic.conditional.indices import Index, IndexedDesign
from dhsic.conditional.partial import partial_correlation
from dhsic.conditional.products import ProductsPass, ProductSums
from dhsic.conditional.ridge import DesignPass, Ridges, rows_of_regression
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.errors import ApproximateNullWarning, UnexplainedWarning
from dhsic.estimators.base import BANDWIDTH_ROWS, plan_of
from dhsic.kernels import Kernel

Vector = NDArray[np.float64]

_REMEDY = "take fewer given columns or fewer threads"
_FIRST, _SECOND = "first regressions", "regressions"
_FEWEST_ROWS = 50
# With 10 to 25 the test is cautious: it rejected 2 of 233 true nulls of 100 and 200 rows at 5 %.
_DECIDING_ROWS = 10
_LEFT = 1e-3  # of the variance of the features
# The square root of n times the geometric mean of what x and y gain. Of 300 rows it was 3.2 to 7.1
# for sums of functions of 20 columns, of which half were rejected, and less than 2 for 113 of 114
# data sets that regressions follow (the study `level`, benchmarks/shared/conditional_data.py).
_MOST_GAIN = 2.0
_EXCESS = 0.1  # of the error of residuals, for predictions of less bias


class ResidualProducts(NamedTuple):
    """The sums that the passes found, with their design and kernels."""

    design: IndexedDesign
    """The features."""
    kernels: tuple[Kernel, ...]
    """Those of x and of y, as fitted."""
    sums: ProductSums
    """Sums of the products of residuals."""
    explained: tuple[float, float]
    """Shares of the variances of x and of y that predictions and regressions explain."""
    gained: tuple[float, float]
    """How much more of x and of y is explained by all rows than by half of them."""
    correlation: float
    """The kernel partial correlation coefficient."""


@dataclass(frozen=True)
class KernelResiduals:
    """The test that residuals of features of x and of y given z are uncorrelated, at any weight.

    With phi the features of x, psi those of y and w the weights, functions of z with the constant
    among them, x and y are independent given z if and only if for rich enough features

    E[(phi - E[phi | z]) (x) (psi - E[psi | z]) (x) w(z)] = 0

    Columns of numbers stand in phi and psi less their predictions by z, which leaves the hypothesis
    as it is and lets the kernels see the noise apart from the mean. The expectations given z are
    ridge regressions on features of z. The statistic is n times the squared norm of the mean of
    these products of residuals. In the limit it is a mixture of chi-squares with the eigenvalues of
    their second moments as weights ([2]), which takes noise whose spread follows z as it is.

    Parameters
    ----------
    widths : tuple of float
        Factors of the lengths of the fitted kernels, one for x and one for y.

    References
    ----------
    .. [1] R. Pogodin, A. Schrab, Y. Li, D. Sutherland, A. Gretton. Practical kernel tests of
       conditional independence. 2024.
    .. [2] E. Strobl, K. Zhang, S. Visweswaran. Approximate kernel-based conditional independence
       tests for fast non-parametric causal discovery. Journal of Causal Inference 7, 2019.
    """

    widths: tuple[float, float] = (1.0, 1.0)

    name: ClassVar[str] = "kernel-residuals"

    def plan(self, session: Session, kernels: Sequence[Kernel]) -> Plan:
        """The steps that would run, with features of the largest size."""
        # Sizes are those of the most landmarks; fewer are known only once rows have been drawn.
        kinds, dims, dtype = given_kinds(session), session.dims, session.dtype
        predicted = predicted_columns(session, kernels)
        base = ConditionalDesign.likely(kernels, dims, kinds, predicted, dtype)
        r_x, r_y, p, _ = base.sizes
        first = FirstDesign.likely(base)
        indices = (Index.likely(p, len(at), dtype) for at in predicted)
        design = IndexedDesign(base, *indices)
        places, of = design.places, (session.n, session.seed)
        fitted = rows_of_regression(session.n)
        second = ProductsPass(
            design,
            Ridges.likely(len(places.given_x), r_x, fitted, base.left_out),
            Ridges.likely(len(places.given_y), r_y, fitted, base.left_out),
            *of,
        )
        rows = 8 * min(session.n, BANDWIDTH_ROWS) * (3 * sum(dims) + p)
        fetch = 3 * rows + max(source.take_bytes for source in session.sources)
        steps: list[DriverStep | PassPlan] = [
            DriverStep("fetch landmarks", fetch, rows + design.nbytes),
            session.plan(DesignPass(first, *of, _FIRST, by_fold=True)),
            _solving("solve", first.size),
            session.plan(DesignPass(design, *of, _SECOND)),
            _solving("solve again", design.size),
            session.plan(second),
            DriverStep("spectrum", 3 * 8 * second.size**2, 0),
        ]
        return plan_of(session, steps, _REMEDY)

    def run(self, session: Session, kernels: Sequence[Kernel]) -> ResidualProducts:
        """All passes, over x, y and the given variables."""
        n = session.n
        # The first pass predicts columns of numbers, whose residuals stand in phi and psi of the
        # second.
        session.step("fetch landmarks")
        drawn = Drawn.of(session, kernels, self.widths)
        by_fold = session.reduce(DesignPass(drawn.first, n, session.seed, _FIRST, by_fold=True))
        session.step("solve")
        design, fitted, explained, gained = drawn.indexed(by_fold, kernels, self.widths)
        sums = session.reduce(DesignPass(design, n, session.seed, _SECOND)).whole()
        session.step("solve again")
        places, base = design.places, design.base
        x = Ridges.fit(sums, places.given_x, places.x, _EXCESS, base.left_out)
        y = Ridges.fit(sums, places.given_y, places.y, _EXCESS, base.left_out)
        of_x, of_y = (
            # Unexplained is what the first leaves, times what the second leaves of that.
            1.0 - (1.0 - share) * (1.0 - ridges.explained())
            for share, ridges in zip(explained, (x, y), strict=True)
        )
        correlation = partial_correlation(places, sums, y, base.left_out)
        # Products of residuals need the regressions, and so a pass of their own: E[phi | z] first.
        products = session.reduce(ProductsPass(design, x, y, n, session.seed))
        session.step("spectrum")
        return ResidualProducts(design, fitted, products, (of_x, of_y), gained, correlation)


def warn_of_limits(found: ResidualProducts, names: Sequence[str], n: int) -> str:
    """Warn where the limit law or the regressions may mislead, and say why.

    Parameters
    ----------
    found : ResidualProducts
        Those of the run.
    names : sequence of str
        Names of the variables.
    n : int
        Rows of the data.

    Returns
    -------
    str
        For the result; empty where nothing is amiss.
    """
    told = []
    if n < _FEWEST_ROWS:
        told.append(f"n = {n} is less than {_FEWEST_ROWS}, below which the limit may be far")
    elif found.sums.rows < _DECIDING_ROWS:
        told.append(
            f"about {found.sums.rows:.2g} of {n:,} rows decide, so that the limit may be far: take "
            "ranks, or leave out rare values"
        )
    for name, share in zip(names, found.explained, strict=False):
        if 1.0 - share < _LEFT:
            told.append(
                f"{name} is nearly a function of what is given, so that errors of the regression "
                "may pass for dependence"
            )
    text = "; ".join(told)
    if text:
        warnings.warn(f"conditional test: {text}", ApproximateNullWarning, stacklevel=6)
    gained_x, gained_y = found.gained
    if (n * gained_x * gained_y) ** 0.5 <= _MOST_GAIN:
        return text
    x, y = names[:2]
    unexplained = (
        f"the regressions do not find all that is said of {x} and {y} by what is given: all rows "
        f"explain {100 * gained_x:.2g} and {100 * gained_y:.2g} % more of them than half of the "
        "rows, and what both miss may pass for dependence, so that a small p-value tells little: "
        "take more rows or fewer given columns"
    )
    warnings.warn(f"conditional test: {unexplained}", UnexplainedWarning, stacklevel=6)
    return "; ".join(filter(None, (text, unexplained)))


def _solving(name: str, q: int) -> DriverStep:
    """Regressions from sums of q features."""
    return DriverStep(name, 12 * 8 * q * q, 8 * q * q)
