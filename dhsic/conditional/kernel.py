"""The conditional test on residuals of kernel features, in three passes over the data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.conditional.features import ConditionalDesign, Sizes, centred_columns, levered
from dhsic.engine.blocks import ValueKind, kinds_of
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.session import Session
from dhsic.errors import ApproximateNullWarning, UnexplainedWarning
from dhsic.estimators.base import BANDWIDTH_ROWS, FittingSamples, plan_of
from dhsic.kernels import Columns, Gaussian, Kernel, by_column
from dhsic.linalg import row_products
from dhsic.nulls import ChiSquareMixture
from dhsic.regression.ridge import Folds, Ridges, SecondMoments, SecondMomentsPass

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]

FOLDS = 2  # five cost a half more time, and neither level nor power differed
_REMEDY = "take fewer given columns or fewer threads"
_SOLVING = "solve", "solve again", "spectrum"  # after each pass
_FEWEST_ROWS = 50
# With 10 to 25 the test is cautious: it rejected 2 of 233 true nulls of 100 and 200 rows at 5 %.
_DECIDING_ROWS = 10
_LEFT = 1e-3  # of the variance of the features
# The square root of n times the geometric mean of what x and y gain. Of 300 rows it was 3.2 to 7.1
# for sums of functions of 20 columns, of which half were rejected, and less than 2 for 113 of 114
# data sets that regressions follow (the study `level`, benchmarks/shared/conditional_data.py).
_MOST_GAIN = 2.0
_EXCESS = 0.1  # of the error of residuals, for predictions of less bias
_REGRESSION_ROWS = 200_000
_REGRESSION_ROOTS = 200


def rows_of_regression(n: int) -> int:
    """How many of n rows regressions are fitted to, about: all up to 200,000, then 200 sqrt(n).

    Errors of predictions of x and of y, fitted to m rows with df degrees of freedom, have products
    whose mean over n rows has the variance df / m^2, to 1 / n of the noise: 1.3 % where df is 500.
    Errors that more rows do not lessen, of functions that the features cannot follow, are the same.
    """
    return min(n, max(_REGRESSION_ROWS, _REGRESSION_ROOTS * isqrt(n)))


def given_kinds(session: Session) -> tuple[ValueKind, ...]:
    """Kinds of all given columns."""
    return tuple(kind for source in session.sources[2:] for kind in kinds_of(source))


def predicted_columns(
    session: Session, kernels: Sequence[Kernel], samples: Sequence[Vector | None] = (None, None)
) -> list[tuple[int, ...]]:
    """The columns of x and of y that are predicted by what is given, by samples where there are."""
    triples = zip(kernels, session.sources, samples, strict=False)
    return [centred_columns(kernel, kinds_of(source), one) for kernel, source, one in triples]


@dataclass(frozen=True)
class ResidualProducts:
    """Products of the residuals of x and of y, and of the weights, as a design of rows.

    With M the map from errors to residuals, of which 1 - h is the diagonal, a sum of products of
    residuals of independent errors of variance 1 has the variance |M|^2, which is the sum of 1 - h
    for a projection, and that of their squares has the expectation sum (1 - h)^2. So the squares
    are divided by 1 - h, of which x and y take a half each: where leverages count, the products
    stand here scaled for their law as well. Last come the squared norms of the products.

    Parameters
    ----------
    design : ConditionalDesign
        Features of rows.
    regressions : tuple of Ridges
        Those of the features of x and of y.
    n : int
        Rows of the data.
    """

    design: ConditionalDesign
    regressions: tuple[Ridges, Ridges]
    n: int

    @property
    def count(self) -> int:
        """Products, m."""
        return len(self.design.places.x) * len(self.design.places.y)

    @property
    def scaled(self) -> bool:
        """Whether they stand there scaled as well."""
        p = max(len(one.mean) for one in self.regressions)
        return levered(self.n, p) and self.regressions[0].rows == self.n

    @property
    def size(self) -> int:
        """Columns of a row."""
        return self.count * (1 + self.scaled) + 1

    def joined(self, values: Sequence[NDArray[Any]], fold: int) -> Vector:
        """Products of rows of a fold, shape (b, size)."""
        rows, (of_x, of_y) = self.design(values, fold), self.regressions
        given_x, given_y = (np.append(rows.given, one, axis=1) for one in rows[1:3])
        x, y = of_x.residuals(given_x, rows.x), of_y.residuals(given_y, rows.y)
        parts = [row_products(row_products(x, rows.weights), y)]
        norms = np.einsum("ij,ij->i", parts[0], parts[0])
        if self.scaled:
            # Of a product (1 - h)^(1/2) in all, and of its square 1 - h.
            x /= of_x.unlevered(given_x) ** 0.25
            y /= of_y.unlevered(given_y) ** 0.25
            parts.append(row_products(row_products(x, rows.weights), y))
        return np.concatenate([*parts, norms[:, None]], axis=1)


def partial_correlation(design: ConditionalDesign, sums: SecondMoments, alone: Ridges) -> float:
    """The share of the variance of y that is left by z and explained by x, between 0 and 1.

    With the feature phi of y, Huang et al. [1] define

    rho^2 = E |E[phi | x, z] - E[phi | z]|^2 / E |phi - E[phi | z]|^2

    which is 0 if and only if y is independent of x given z, and 1 if y is a function of x and z. It
    equals 1 - E |phi - E[phi | x, z]|^2 / E |phi - E[phi | z]|^2, of which either expectation is
    estimated by the generalised cross-validation of a ridge regression: on the features of z, and
    on these and products of features of x with weights.

    Parameters
    ----------
    design : ConditionalDesign
        That of the second pass.
    sums : SecondMoments
        Its sums.
    alone : Ridges
        Regressions of y on what is given.

    Returns
    -------
    float
        Estimates below 0 are 0.

    References
    ----------
    .. [1] Z. Huang, N. Deb, B. Sen. Kernel partial correlation coefficient, a measure of
       conditional dependence. JMLR 23, 2022.
    """
    at = design.places
    regressors = np.concatenate([at.given, at.own_y, at.x])
    both = Ridges.fit(sums, regressors, at.y, left_out=design.left_out).least.sum()
    least = alone.least.sum()
    # Where nothing is left of y, nothing more can be explained.
    if least <= 0.0:
        return 0.0
    # Both errors are estimates, so that their quotient may lie outside.
    return float(np.clip(1.0 - both / least, 0.0, 1.0))


class FoundResiduals(NamedTuple):
    """What the passes found, with their design and kernels."""

    design: ConditionalDesign
    """The features."""
    kernels: tuple[Kernel, ...]
    """Those of x and of y, as fitted."""
    statistic: float
    """N times the squared norm of the mean product of residuals."""
    law: ChiSquareMixture
    """Its limit, from the second moments of the products."""
    deciding: float
    """How many rows of equal norm would vary as much: few where a few rows decide."""
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
        sizes, passes = self._passes(session, kernels)
        rows = 8 * min(session.n, BANDWIDTH_ROWS) * (3 * sum(session.dims) + sizes.given)
        fetch = 3 * rows + max(source.take_bytes for source in session.sources)
        steps: list[DriverStep | PassPlan] = [
            DriverStep("fetch landmarks", fetch, rows + sizes.second.payload)
        ]
        for one, solving in zip(passes, _SOLVING, strict=True):
            square = 8 * one.bound.size**2
            steps += [session.plan(one), DriverStep(solving, 12 * square, square)]
        return plan_of(session, steps, _REMEDY)

    def _passes(
        self, session: Session, kernels: Sequence[Kernel]
    ) -> tuple[Sizes, list[SecondMomentsPass]]:
        """The passes with their sizes; a run adds the designs, for which rows have to be drawn."""
        n, kinds = session.n, given_kinds(session)
        sizes = Sizes.of(session.dims, kinds, predicted_columns(session, kernels), n)
        folds = Folds(FOLDS, session.seed, rows_of_regression(n) / n)
        first = SecondMomentsPass(sizes.first, folds, "first regressions", by_fold=True)
        every = Folds(FOLDS, session.seed)
        return sizes, [
            first,
            SecondMomentsPass(sizes.second, folds, "regressions"),
            SecondMomentsPass(sizes.third, every, "products of residuals"),
        ]

    def _fitted(self, kernels: Sequence[Kernel], samples: Sequence[Vector]) -> tuple[Kernel, ...]:
        """Kernels fitted to samples of x and of y."""
        triples = zip(kernels, samples, self.widths, strict=True)
        return tuple(one.fit(sample).widened(width) for one, sample, width in triples)

    def run(self, session: Session, kernels: Sequence[Kernel]) -> FoundResiduals:
        """All passes, over x, y and the given variables."""
        n, (_, (first, second, third)) = session.n, self._passes(session, kernels)
        # The first pass predicts columns of numbers, whose residuals stand in phi and psi of the
        # second.
        session.step("fetch landmarks")
        both, of_pairs, z = _draw(session, kernels)
        fitted, kinds = self._fitted(kernels, both), given_kinds(session)
        predicted = predicted_columns(session, fitted, both)
        design = ConditionalDesign.of(fitted, (*both, z), kinds, predicted, session.dtype)
        by_fold = session.reduce(replace(first, design=design))
        session.step("solve")
        fits = design.first_fits(by_fold)
        triples = zip(fits, both, of_pairs, strict=True)
        left = [fit.centre(sample, design.of_given(at)) for fit, sample, at in triples]
        fitted = self._fitted(kernels, left)
        design = design.about(fits, fitted, left, design.of_given(z))
        sums = session.reduce(replace(second, design=design)).whole()
        session.step("solve again")
        at, left_out = design.places, design.left_out
        # With the constant, which is the first weight, products are the features of x themselves.
        plain = at.x[:: 1 + design.weights.size]
        x = Ridges.fit(sums, np.append(at.given, at.own_x), plain, _EXCESS, left_out)
        y = Ridges.fit(sums, np.append(at.given, at.own_y), at.y, _EXCESS, left_out)
        of_x, of_y = (
            # Unexplained is what the first leaves, times what the second leaves of that.
            1.0 - (1.0 - one.explained) * (1.0 - ridges.explained())
            for one, ridges in zip(fits, (x, y), strict=True)
        )
        correlation = partial_correlation(design, sums, y)
        # Products of residuals need the regressions, and so a pass of their own: E[phi | z] first.
        residuals = ResidualProducts(design, (x, y), n)
        _, totals, products = session.reduce(replace(third, design=residuals)).whole()
        session.step("spectrum")
        m = residuals.count
        squares, fourths = totals[-1], products[-1, -1]
        return FoundResiduals(
            design,
            fitted,
            float(totals[:m] @ totals[:m]) / n,
            # Of the last m, which are scaled for their law where leverages count.
            ChiSquareMixture.of_covariance(products[-1 - m : -1, -1 - m : -1] / n),
            float(squares**2 / fourths) if fourths > 0.0 else 0.0,
            (of_x, of_y),
            (fits[0].gained, fits[1].gained),
            correlation,
        )


def _draw(session: Session, kernels: Sequence[Kernel]) -> tuple[list[Vector], list[Vector], Vector]:
    """Drawn rows of x and of y; all given columns at either; and these at rows drawn for them.

    One draw for all would let the features know of the pairing.
    """
    s = min(session.n, BANDWIDTH_ROWS)
    draws = [
        generator(session.seed, "landmarks", number).choice(session.n, size=s, replace=False)
        for number in range(3)
    ]
    given = range(2, len(session.sources))
    # The given variables share their rows, and are taken at those of x and of y as well.
    every_z = np.concatenate([draws[2], *draws[:2]])
    taken = session.take([*draws[:2], *(every_z for _ in given)])
    of_pairs = [np.concatenate([one[k : k + s] for one in taken[2:]], axis=1) for k in (s, 2 * s)]
    taken[2:] = [one[:s] for one in taken[2:]]
    columns = [by_column(kinds_of(session.sources[m]), Columns(Gaussian())) for m in given]
    every = (*kernels, *columns)
    samples = FittingSamples.of(session, zip(every, range(len(every)), strict=True), taken)
    x, y, *others = (samples.of_kernel(kernel, m) for m, kernel in enumerate(every))
    return [x, y], of_pairs, np.concatenate(others, axis=1)


def warn_of_limits(found: FoundResiduals, names: Sequence[str], n: int) -> str:
    """Warn where the limit law or the regressions may mislead, and say why.

    Parameters
    ----------
    found : FoundResiduals
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
    elif found.deciding < _DECIDING_ROWS:
        told.append(
            f"about {found.deciding:.2g} of {n:,} rows decide, so that the limit may be far: take "
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
