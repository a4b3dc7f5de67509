"""The conditional test on residuals of kernel features, in three passes over the data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.conditional.features import ConditionalDesign, Sizes, centred_columns
from dhsic.engine.blocks import ValueKind, kinds_of
from dhsic.engine.plan import DriverStep, PassPlan, Plan
from dhsic.engine.reduction import Footprint, Pass, RowBlock
from dhsic.engine.session import Session
from dhsic.errors import ApproximateNullWarning, UnexplainedWarning
from dhsic.estimators.base import BANDWIDTH_ROWS, plan_of
from dhsic.estimators.fitting_samples import FittingSamples
from dhsic.kernels import Columns, Gaussian, Kernel, by_column
from dhsic.linalg import row_products
from dhsic.nulls import ChiSquareMixture
from dhsic.regression.ridge import TILE_ROWS, Folds, Ridges, SecondMoments, SecondMomentsPass

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]

FOLDS = 2  # five cost a half more time, and neither level nor power differed
_REMEDY = "take fewer given columns or fewer threads"
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
_LEVERED_ROWS = 50  # for each regressor


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


class Drawn(NamedTuple):
    """Drawn rows, x, y and what is given each by themselves, and features that suit them.

    One draw for all would let the features know of the pairing.
    """

    samples: tuple[Vector, Vector]
    """Rows of x and rows of y."""
    given: Sequence[Vector]
    """All given columns at the rows of x and at those of y."""
    z: Vector
    """All given columns at rows drawn for them."""
    kernels: tuple[Kernel, ...]
    """Those of x and of y, fitted to their rows."""
    design: ConditionalDesign
    """Features of x and y as they are, with the columns that are predicted."""

    @classmethod
    def of(cls, session: Session, kernels: Sequence[Kernel], widths: Sequence[float]) -> Self:
        """From one look at the data."""
        s = min(session.n, BANDWIDTH_ROWS)
        draws = [
            generator(session.seed, "landmarks", number).choice(session.n, size=s, replace=False)
            for number in range(3)
        ]
        given = range(2, len(session.sources))
        # The given variables share their rows, and are taken at those of x and of y as well.
        every_z = np.concatenate([draws[2], *draws[:2]])
        taken = session.take([*draws[:2], *(every_z for _ in given)])
        at_pairs = [
            np.concatenate([one[k : k + s] for one in taken[2:]], axis=1) for k in (s, 2 * s)
        ]
        taken[2:] = [one[:s] for one in taken[2:]]
        columns = [by_column(kinds_of(session.sources[m]), Columns(Gaussian())) for m in given]
        every = (*kernels, *columns)
        samples = FittingSamples.of(session, zip(every, range(len(every)), strict=True), taken)
        x, y, *others = (samples.of_kernel(kernel, m) for m, kernel in enumerate(every))
        z = np.concatenate(others, axis=1)
        fitted = tuple(
            kernel.fit(sample).widened(width)
            for kernel, sample, width in zip(kernels, (x, y), widths, strict=True)
        )
        predicted = predicted_columns(session, fitted, (x, y))
        kinds = given_kinds(session)
        design = ConditionalDesign.of(fitted, (x, y, z), kinds, predicted, session.dtype)
        return cls((x, y), at_pairs, z, fitted, design)


class ProductSums(NamedTuple):
    """Sums over rows of products of residuals."""

    totals: Vector
    """Shape (m,)."""
    products: Vector
    """Sums of products of two of them, scaled for their law, shape (m, m)."""
    squares: float
    """Sum of the squared norms of the rows."""
    fourths: float
    """Sum of the squares of these."""

    def statistic(self, n: int) -> float:
        """N times the squared norm of the mean."""
        return float(self.totals @ self.totals) / n

    def law(self, n: int) -> ChiSquareMixture:
        """The limit of the statistic, from the second moments of the products."""
        return ChiSquareMixture.of_covariance(self.products / n)

    @property
    def rows(self) -> float:
        """How many rows of equal norm would vary as much: few where a few rows decide."""
        return self.squares**2 / self.fourths if self.fourths > 0.0 else 0.0


@dataclass(frozen=True)
class ProductsPass(Pass[ProductSums]):
    """Products of the residuals of x and of y, and of the weights.

    Parameters
    ----------
    sizes : Sizes
        The most that it takes.
    n : int
        Rows of the data.
    seed : int
        Fixes the folds.
    design : ConditionalDesign, optional
        Features of rows, which a run has.
    regressions : tuple of Ridges, optional
        Those of the features of x and of y.
    name : str, optional
        Name of the pass in progress reports.
    """

    sizes: Sizes
    n: int
    seed: int
    design: ConditionalDesign | None = None
    regressions: tuple[Ridges, ...] = ()
    name: str = "products of residuals"

    def footprint(self, rows: int) -> Footprint:
        """Cost of a block of so many rows."""
        of, tile = self.sizes, min(rows, TILE_ROWS)
        m, p = of.products, of.regressors
        state = 8 * (m * (m + 1) + 2)
        # Keys of all rows, twice, and their numbers.
        row = of.second.row + 8 * (3 * m + (2 + of.ways) * p)
        return Footprint(
            of.second.payload + of.regressed_bytes, tile * row + 24 * rows + state, state
        )

    def chunk(self, block: RowBlock) -> ProductSums:
        """Sums over one block."""
        assert self.design is not None
        m = len(self.design.places.x) * len(self.design.places.y)
        totals, products, squares, fourths = np.zeros(m), np.zeros((m, m)), 0.0, 0.0
        for fold, tile in Folds(FOLDS, self.seed).tiles(block):
            some, scaled = self._products(self.design, fold, [x[tile] for x in block.values])
            norms = np.einsum("ij,ij->i", some, some)
            totals += some.sum(axis=0)
            products += scaled.T @ scaled
            squares += float(norms.sum())
            fourths += float(norms @ norms)
        return ProductSums(totals, products, squares, fourths)

    def _products(
        self, design: ConditionalDesign, fold: int, values: Sequence[NDArray[Any]]
    ) -> tuple[Vector, Vector]:
        """Products by row of a fold, shape (b, m), and scaled for their law.

        With M the map from errors to residuals, of which 1 - h is the diagonal, a sum of products
        of residuals of independent errors of variance 1 has the variance |M|^2, which is the sum of
        1 - h for a projection, and that of their squares has the expectation sum (1 - h)^2. So the
        squares are divided by 1 - h, of which x and y take a half each.
        """
        rows, (of_x, of_y) = design(values, fold), self.regressions
        given_x, given_y = (np.append(rows.given, one, axis=1) for one in rows[1:3])
        x, y = of_x.residuals(given_x, rows.x), of_y.residuals(given_y, rows.y)
        plain = row_products(row_products(x, rows.weights), y)
        # Beyond 50 rows a regressor leverages have a mean of at most 1/50, and do not count.
        p = max(len(of_x.mean), len(of_y.mean))
        if self.n > _LEVERED_ROWS * p or of_x.rows != self.n:
            return plain, plain
        # Of a product (1 - h)^(1/2) in all, and of its square 1 - h.
        x /= of_x.unlevered(given_x) ** 0.25
        y /= of_y.unlevered(given_y) ** 0.25
        return plain, row_products(row_products(x, rows.weights), y)


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


class ResidualProducts(NamedTuple):
    """The sums that the passes found, with their design and kernels."""

    design: ConditionalDesign
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
        sizes, first, second, products = self._passes(session, kernels)
        rows = 8 * min(session.n, BANDWIDTH_ROWS) * (3 * sum(session.dims) + sizes.given)
        fetch = 3 * rows + max(source.take_bytes for source in session.sources)

        def solving(name: str, q: int) -> DriverStep:
            return DriverStep(name, 12 * 8 * q * q, 8 * q * q)

        steps: list[DriverStep | PassPlan] = [
            DriverStep("fetch landmarks", fetch, rows + sizes.second.payload),
            session.plan(first),
            solving("solve", sizes.first.size),
            session.plan(second),
            solving("solve again", sizes.second.size),
            session.plan(products),
            DriverStep("spectrum", 3 * 8 * sizes.products**2, 0),
        ]
        return plan_of(session, steps, _REMEDY)

    def _passes(
        self, session: Session, kernels: Sequence[Kernel]
    ) -> tuple[Sizes, SecondMomentsPass, SecondMomentsPass, ProductsPass]:
        """The passes with their sizes; a run adds the designs, for which rows have to be drawn."""
        n, kinds = session.n, given_kinds(session)
        sizes = Sizes.of(session.dims, kinds, predicted_columns(session, kernels))
        folds = Folds(FOLDS, session.seed, rows_of_regression(n) / n)
        return (
            sizes,
            SecondMomentsPass(sizes.first, folds, "first regressions", by_fold=True),
            SecondMomentsPass(sizes.second, folds, "regressions"),
            ProductsPass(sizes, n, session.seed),
        )

    def run(self, session: Session, kernels: Sequence[Kernel]) -> ResidualProducts:
        """All passes, over x, y and the given variables."""
        _, first, second, last = self._passes(session, kernels)
        # The first pass predicts columns of numbers, whose residuals stand in phi and psi of the
        # second.
        session.step("fetch landmarks")
        drawn = Drawn.of(session, kernels, self.widths)
        design, samples, fitted = drawn.design, list(drawn.samples), list(drawn.kernels)
        by_fold = session.reduce(replace(first, design=design))
        session.step("solve")
        fits = design.first_fits(by_fold)
        for m, one in enumerate(fits):
            if one.centre.at:
                samples[m] = one.centre(samples[m], design.of_given(drawn.given[m]))
                fitted[m] = kernels[m].fit(samples[m]).widened(self.widths[m])
        design = design.about(fits, fitted, samples, design.of_given(drawn.z))
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
        products = session.reduce(replace(last, design=design, regressions=(x, y)))
        session.step("spectrum")
        gained = fits[0].gained, fits[1].gained
        return ResidualProducts(design, tuple(fitted), products, (of_x, of_y), gained, correlation)


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
