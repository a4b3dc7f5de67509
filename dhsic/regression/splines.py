"""Additive regression on splines, from sums over rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_choice, check_integer, shown
from dhsic.engine.reduction import RowBlock
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.regression.ridge import Bound, DesignPass, Folds, Ridges, SumsByFold

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
Extrapolation = Literal["constant", "linear"]
Penalty = Literal["curvature", "ridge"]

PILOT_ROWS = 10_000
# Four weights for every factor of 10.
_WEIGHTS = np.logspace(-9.0, 9.0, 73)
# The integral of a squared second derivative goes with 1 / span^3.
_SPANS = (1e-70, 1e70)
_MOST_FOLDS = 1000


@dataclass(frozen=True)
class SplineBasis:
    """B-splines of every column of a variable, but for the last of each.

    Those of a column add up to 1, so that the last is what the others and a constant make.

    Parameters
    ----------
    knots : tuple of ndarray
        Knots of every column, increasing: those within its range, and as many on either side of it
        as the degree.
    degree : int
        Degree of the polynomials between knots.
    extrapolation : {"constant", "linear"}
        Continuation beyond the range: the value at its end, or the value and the slope.

    References
    ----------
    .. [1] P. Eilers, B. Marx. Flexible smoothing with B-splines and penalties. Statistical Science
       11, 1996.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0.0, 1.0, 101)[:, None]
    >>> basis = SplineBasis.fit(x, 3, 2, "constant")
    >>> basis(x).shape
    (101, 3)
    """

    knots: tuple[Vector, ...]
    degree: int
    extrapolation: Extrapolation

    @classmethod
    def fit(
        cls, sample: NDArray[Any], n_knots: int, degree: int, extrapolation: Extrapolation
    ) -> SplineBasis:
        """Knots at quantiles of a sample, fewer where values repeat.

        Parameters
        ----------
        sample : ndarray, shape (s, d)
            Rows, no column of them constant.
        n_knots : int
            From the smallest to the largest value of a column.
        degree : int
            Degree of the polynomials.
        extrapolation : {"constant", "linear"}
            Beyond the range of the sample.

        Returns
        -------
        SplineBasis
        """
        # The outermost knots are the least and the largest value of the sample.
        levels = np.linspace(0.0, 1.0, n_knots)
        quantiles = np.quantile(np.asarray(sample, np.float64), levels, axis=0)
        # Values that repeat would put knots on top of each other.
        inner = [np.unique(column) for column in quantiles.T]
        return cls(tuple(_widened(knots, degree) for knots in inner), degree, extrapolation)

    @property
    def counts(self) -> tuple[int, ...]:
        """Functions of every column."""
        # There are len(knots) - degree - 1 functions, and the last is left out.
        return tuple(len(knots) - self.degree - 2 for knots in self.knots)

    @property
    def size(self) -> int:
        """Functions of all columns."""
        return sum(self.counts)

    def __call__(self, x: NDArray[Any]) -> Vector:
        """The functions at rows, shape (b, size)."""
        out = np.empty((len(x), self.size))
        edges = np.cumsum((0, *self.counts))
        for column, knots, (start, stop) in zip(x.T, self.knots, pairwise(edges), strict=True):
            self._fill(out[:, start:stop], column.astype(np.float64), knots)
        return out

    def _fill(self, out: Vector, x: Vector, knots: Vector) -> None:
        from scipy.interpolate import BSpline  # slow to import

        low, high = knots[self.degree], knots[-self.degree - 1]
        # Knots come from a sample, so that other rows may lie beyond them.
        within = np.clip(x, low, high)
        out[:] = BSpline.design_matrix(within, knots, self.degree).toarray()[:, :-1]
        # Beyond the knots functions go on along their slopes, where a polynomial would run away.
        if self.extrapolation == "linear":
            for end, beyond in ((low, x < low), (high, x > high)):
                if beyond.any():
                    out[beyond] += np.outer(x[beyond] - end, self._functions(knots)(end, 1))

    def roughness(self) -> tuple[Vector, ...]:
        """Integrals of products of second derivatives within the range of every column."""
        return tuple(self._roughness(knots) for knots in self.knots)

    def _roughness(self, knots: Vector) -> Vector:
        """Between two knots a polynomial, of which Gauss and Legendre's rule has the integral."""
        curvature = self._functions(knots).derivative(2)
        # Products of second derivatives have degree 2 d - 4, and d points are exact up to 2 d - 1.
        places, weights = np.polynomial.legendre.leggauss(self.degree)
        total = np.zeros((len(knots) - self.degree - 2,) * 2)
        # The polynomials change at every knot, so that each span is a sum of its own.
        for low, high in pairwise(knots[self.degree : -self.degree]):
            values = curvature(low + (high - low) * (places + 1.0) / 2.0)
            total += (high - low) / 2.0 * (values.T * weights) @ values
        return total

    def _functions(self, knots: Vector) -> Any:
        """All functions of a column but the last, as one spline."""
        from scipy.interpolate import BSpline

        return BSpline(knots, np.eye(len(knots) - self.degree - 1)[:, :-1], self.degree)


def _widened(inner: Vector, degree: int) -> Vector:
    """Knots with others beside them, as far apart as the outermost are."""
    # Knots beyond the ends, so that the functions add up to 1 there, too.
    steps = np.arange(1, degree + 1)
    before = inner[0] - (inner[1] - inner[0]) * steps[::-1]
    after = inner[-1] + (inner[-1] - inner[-2]) * steps
    return np.concatenate([before, inner, after])


@dataclass(frozen=True)
class SplineDesign:
    """Splines of regressors, one variable after another, then targets; about provisional means.

    Parameters
    ----------
    bases : tuple of int and SplineBasis
        Those of the regressors, with the number of the variable.
    penalties : tuple of int and tuple of ndarray
        Penalties of the coefficients of every column of the regressors.
    targets : tuple of int and int
        Numbers and columns of the variables that are regressed.
    names : tuple of str
        Names of all variables.
    centre : ndarray, shape (q,)
        Means of a sample: sums about them are small, and keep their digits.
    """

    bases: tuple[tuple[int, SplineBasis], ...]
    penalties: tuple[tuple[int, tuple[Vector, ...]], ...]
    targets: tuple[tuple[int, int], ...]
    names: tuple[str, ...]
    centre: Vector

    @property
    def size(self) -> int:
        """Entries of a row, q."""
        return len(self.centre)

    def functions(self, given: Sequence[int]) -> Indices:
        """Places of the functions of some regressors."""
        return _places({j: basis.size for j, basis in self.bases}, given)

    def columns(self, target: int) -> Indices:
        """Places of a target."""
        functions = sum(basis.size for _, basis in self.bases)
        return functions + _places(dict(self.targets), [target])

    def joined(self, values: Sequence[NDArray[Any]], fold: int) -> Vector:
        """Rows about the provisional means, shape (b, q); alike in all folds."""
        del fold
        parts = [basis(values[j]) for j, basis in self.bases]
        out = np.concatenate([*parts, *(values[t] for t, _ in self.targets)], axis=1)
        centred: Vector = np.subtract(out, self.centre, dtype=np.float64)
        return centred


def _places(sizes: dict[int, int], some: Sequence[int]) -> Indices:
    """Places of some parts among parts of sizes, side by side."""
    starts = dict(zip(sizes, np.cumsum([0, *sizes.values()]), strict=False))
    every = [starts[j] + np.arange(sizes[j]) for j in some]
    return np.concatenate([np.empty(0, np.intp), *every])


@dataclass(frozen=True)
class SplineResiduals:
    """Residuals of several regressions of one target, side by side.

    Parameters
    ----------
    target : int
        Number of the variable that is regressed.
    bases : dict of int to SplineBasis
        Bases of its regressors, by number.
    mean : ndarray, shape (n_folds, r d)
        Mean of the target, in every fold for every regression.
    centre : ndarray, shape (n_folds, r d)
        Means of the fitted functions, which are taken off again.
    coefficients : ndarray, shape (n_folds, p, r d)
        Coefficients of all functions, zero where a regression is without.
    """

    target: int
    bases: dict[int, SplineBasis]
    mean: Vector
    centre: Vector
    coefficients: Vector

    @classmethod
    def of(
        cls,
        design: SplineDesign,
        target: int,
        sets: Sequence[Sequence[int]],
        regressions: Sequence[Sequence[Ridges]],
    ) -> Self:
        """Residuals of regressions on sets of variables, each one a fold or one for all rows."""
        # Functions that no regression takes are not computed.
        bases = {j: one for j, one in design.bases if any(j in own for own in sets)}
        sizes = {j: basis.size for j, basis in bases.items()}
        d, folds = dict(design.targets)[target], len(regressions[0])
        mean, centre = np.zeros((2, folds, d * len(sets)))
        coefficients = np.zeros((folds, sum(sizes.values()), d * len(sets)))
        for r, (given, fits) in enumerate(zip(sets, regressions, strict=True)):
            columns, rows = slice(d * r, d * (r + 1)), _places(sizes, given)
            means = design.centre[design.functions(given)]
            for f, fit in enumerate(fits):
                mean[f, columns] = design.centre[design.columns(target)] + fit.target_mean
                centre[f, columns] = (means + fit.mean) @ fit.slopes
                coefficients[f, rows, columns] = fit.slopes
        return cls(target, bases, mean, centre, coefficients)

    @property
    def variables(self) -> tuple[int, ...]:
        """Numbers of the variables whose rows it takes: the target, and what it is regressed on."""
        return (self.target, *self.bases)

    @property
    def width(self) -> int:
        """Columns of the residuals."""
        return int(self.mean.shape[1])

    def __call__(self, rows: Indices, values: Sequence[NDArray[Any]]) -> Vector:
        """The residuals (b, r d) of rows by number, given those of `variables`."""
        target, *given = values
        # A row is predicted by the fit of its fold, which has not seen it.
        folds = rows % len(self.mean)
        functions = [basis(x) for basis, x in zip(self.bases.values(), given, strict=True)]
        joined = np.concatenate([np.empty((len(rows), 0)), *functions], axis=1)
        out = np.tile(np.asarray(target, np.float64), (1, self.width // target.shape[1]))
        for f in range(len(self.mean)):
            fold = slice(None) if len(self.mean) == 1 else folds == f
            out[fold] -= self.mean[f]
            out[fold] -= joined[fold] @ self.coefficients[f] - self.centre[f]
        return out


@dataclass(frozen=True)
class Splines:
    """Additive regression on penalised B-splines, the penalty by generalised cross-validation.

    A target is regressed on the sum of a smooth function of every column of the given variables.
    All sums come from one pass over the rows, whatever the number of regressions.

    Parameters
    ----------
    n_knots : int, optional
        Knots of a column, at quantiles of up to 10,000 of its rows.
    degree : int, optional
        Degree of the polynomials between knots, 2 or more.
    penalty : {"curvature", "ridge"}, optional
        Weight of the integrals of squared second derivatives, which leaves what is linear as it is;
        or of the squared coefficients.
    extrapolation : {"linear", "constant"}, optional
        Extrapolation of a function beyond these rows.
    n_folds : int, optional
        Where more than 1, the residual of a row is from a regression without its fold; row i is
        in fold i mod n_folds. 1 fits all rows at once; at most 1,000.

    Raises
    ------
    InvalidArgumentError
        An option is out of its range.

    References
    ----------
    .. [1] P. Craven, G. Wahba. Smoothing noisy data with spline functions. Numerische Mathematik
       31, 1979.
    .. [2] P. Eilers, B. Marx. Flexible smoothing with B-splines and penalties. Statistical Science
       11, 1996.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.causal import Splines
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.standard_normal((2, 500, 1))
    >>> residuals = Splines().residuals(np.sin(2 * x) + 0.1 * noise, [x], rng)
    >>> bool(np.corrcoef(residuals.T, noise.T)[0, 1] > 0.95)
    True
    """

    name: ClassVar[str] = "splines"

    n_knots: int = 20
    degree: int = 3
    penalty: Penalty = "curvature"
    extrapolation: Extrapolation = "linear"
    n_folds: int = 1

    def __post_init__(self) -> None:
        for name, value, most in (("n_knots", self.n_knots, 10_000), ("degree", self.degree, 20)):
            # Bounds far from any sensible value: a slip is refused before it takes all memory.
            if check_integer(name, value, minimum=2) > most:
                msg = f"{name} must be at most {most:,}, got {shown(value)}: take fewer"
                raise InvalidArgumentError(msg)
        check_choice("penalty", self.penalty, get_args(Penalty))
        check_integer("n_folds", self.n_folds, minimum=1, maximum=_MOST_FOLDS)
        check_choice("extrapolation", self.extrapolation, get_args(Extrapolation))

    def regressing(
        self, dims: Sequence[int], regressors: Sequence[int], targets: Sequence[int]
    ) -> DesignPass:
        """The pass of regressions among variables of so many columns, by their numbers."""
        # Where values repeat there are fewer knots.
        functions = (self.n_knots + self.degree - 2) * sum(dims[j] for j in regressors)
        q = functions + sum(dims[j] for j in targets)
        bound = Bound(q, 8 * (q + functions + 3 * self.degree * sum(dims)), 3 * 8 * q)
        return DesignPass(bound, Folds(self.n_folds), "regressions", by_fold=True)

    def design(
        self,
        samples: Sequence[NDArray[Any]],
        names: Sequence[str],
        regressors: Sequence[int],
        targets: Sequence[int],
    ) -> SplineDesign:
        """The design whose sums regress targets on regressors, both numbers of variables.

        Parameters
        ----------
        samples : sequence of ndarray, shapes (s, d_m)
            Rows of every variable, for the knots, which are their quantiles.
        names : sequence of str
            Names of every variable.
        regressors, targets : sequence of int
            Numbers of variables.

        Raises
        ------
        DataError
            A regressor is constant, or the values of a column are too near or too far apart.
        """
        for j in sorted({*regressors, *targets}):
            _check_spans(samples[j], names[j])
        for j in regressors:
            check_varied(samples[j], names[j])
        knots = self.n_knots, self.degree, self.extrapolation
        bases = tuple((j, SplineBasis.fit(samples[j], *knots)) for j in regressors)
        # Coefficients shrink to 0, and not their differences (Eilers and Marx 1996) to those of a
        # line.
        ridge = self.penalty == "ridge"
        penalties = tuple(
            (j, tuple(map(np.eye, one.counts)) if ridge else one.roughness()) for j, one in bases
        )
        parts = [basis(samples[j]) for j, basis in bases]
        parts += [samples[t].astype(np.float64) for t in targets]
        centre = np.concatenate([part.mean(axis=0) for part in parts])
        columns = tuple((t, samples[t].shape[1]) for t in targets)
        return SplineDesign(bases, penalties, columns, tuple(names), centre)

    def residuals(
        self, target: Vector, given: Sequence[Vector], rng: np.random.Generator
    ) -> Vector:
        """Residuals of a target.

        Parameters
        ----------
        target : ndarray, shape (n, d)
            Variable that is regressed.
        given : sequence of ndarray, shapes (n, d_j)
            Regressors; where there are none, the mean is taken.
        rng : numpy.random.Generator
            Chooses the rows for the knots, where there are more than 10,000.

        Returns
        -------
        ndarray, shape (n, d)

        Raises
        ------
        DataError
            A column of the given is constant, or there are too few rows.
        """
        n = len(target)
        # Knots are quantiles, for which a sample of rows is as good as all.
        pilot = np.arange(n) if n <= PILOT_ROWS else rng.choice(n, PILOT_ROWS, replace=False)
        values, numbers, last = (*given, target), tuple(range(len(given))), len(given)
        names = [*(f"given {j + 1}" for j in numbers), "target"]
        design = self.design([x[pilot] for x in values], names, numbers, (last,))
        regressing = self.regressing([x.shape[1] for x in values], numbers, (last,))
        sums = replace(regressing, design=design).chunk(RowBlock(0, values))
        fits = self.fits(design, sums, last, numbers)
        function = SplineResiduals.of(design, last, [numbers], [fits])
        return function(np.arange(n), [values[j] for j in function.variables])

    def fits(
        self, design: SplineDesign, sums: SumsByFold, target: int, given: Sequence[int]
    ) -> list[Ridges]:
        """One regression, or one a fold without it, from sums of the design.

        Parameters
        ----------
        design : SplineDesign
            Design of the variables.
        sums : SumsByFold
            Its sums.
        target, given : int, sequence of int
            Numbers of variables.

        Raises
        ------
        DataError
            There are not more rows than coefficients.
        """
        functions, columns = design.functions(given), design.columns(target)
        penalties = [one for j in given for one in dict(design.penalties)[j]]
        p = len(functions)
        fits = []
        for part in [sums.whole()] if self.n_folds == 1 else [left for left, _ in sums.splits()]:
            # GCV divides by n less the degrees of freedom, of which there may be p + 1.
            if part.rows <= p + 1:
                msg = (
                    f"a regression of {design.names[target]!r} on {len(given)} variables has "
                    f"{p + 1} coefficients and needs more rows than that, got {part.rows}: give "
                    "fewer n_knots, or fewer variables"
                )
                raise DataError(msg)
            penalised: dict[str, Any] = {
                "penalties": penalties,
                "weights": _WEIGHTS,
                "most_freedom": math.inf,
            }
            fits.append(Ridges.fit(part, functions, columns, **penalised))
        return fits


def _check_spans(rows: NDArray[Any], name: str) -> None:
    """Refuse columns of which sums of squared second derivatives would overflow."""
    with np.errstate(over="ignore"):
        spans = np.ptp(rows.astype(np.float64), axis=0)
    # Constant columns are refused elsewhere, with words of their own.
    (outside,) = np.nonzero((spans > 0.0) & ((spans < _SPANS[0]) | (spans > _SPANS[1])))
    if len(outside):
        msg = (
            f"variable {name!r}: column {outside[0]}: splines need values that span "
            f"{_SPANS[0]:g} to {_SPANS[1]:g}, got {spans[outside[0]]:.3g}: rescale the variable"
        )
        raise DataError(msg)


def check_varied(rows: NDArray[Any], name: str) -> None:
    """Refuse a variable of which a column is constant.

    Raises
    ------
    DataError
        It names the column.
    """
    # Exactly equal values: a small spread is no fault, and is scaled away.
    (constant,) = np.nonzero((rows == rows[0]).all(axis=0))
    if len(constant):
        msg = (
            f"a regression on variable {name!r} needs columns that vary, got column "
            f"{constant[0]} constant over {len(rows)} rows: leave it out"
        )
        raise DataError(msg)
