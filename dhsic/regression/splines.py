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
from dhsic.regression.ridge import Bound, Folds, Ridges, SecondMoments, SecondMomentsPass

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
    """B-splines of a column, but for the last.

    They add up to 1, so that the last is what the others and a constant make.

    Parameters
    ----------
    knots : ndarray
        Increasing: those within the range of the column, and as many on either side of it as the
        degree.
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
    >>> x = np.linspace(0.0, 1.0, 101)
    >>> basis = SplineBasis.fit(x, 3, 2, "constant")
    >>> basis(x).shape
    (101, 3)
    """

    knots: Vector
    degree: int
    extrapolation: Extrapolation

    @classmethod
    def fit(cls, sample: Vector, n_knots: int, degree: int, extrapolation: Extrapolation) -> Self:
        """Knots at quantiles of a column that is not constant, fewer where values repeat.

        The outermost are the least and the largest value of the sample.
        """
        # Values that repeat would put knots on top of each other.
        inner = np.unique(np.quantile(sample, np.linspace(0.0, 1.0, n_knots)))
        # Knots beyond the ends, so that the functions add up to 1 there, too, as far apart as the
        # outermost are.
        steps = np.arange(1, degree + 1)
        before = inner[0] - (inner[1] - inner[0]) * steps[::-1]
        after = inner[-1] + (inner[-1] - inner[-2]) * steps
        return cls(np.concatenate([before, inner, after]), degree, extrapolation)

    @property
    def size(self) -> int:
        """How many functions."""
        # There are len(knots) - degree - 1, and the last is left out.
        return len(self.knots) - self.degree - 2

    def __call__(self, x: Vector) -> Vector:
        """The functions at values (b,), shape (b, size)."""
        from scipy.interpolate import BSpline  # slow to import

        low, high = self.knots[self.degree], self.knots[-self.degree - 1]
        # Knots come from a sample, so that other rows may lie beyond them.
        within = np.clip(x, low, high)
        out: Vector = BSpline.design_matrix(within, self.knots, self.degree).toarray()[:, :-1]
        # Beyond the knots functions go on along their slopes, where a polynomial would run away.
        if self.extrapolation == "linear":
            for end, beyond in ((low, x < low), (high, x > high)):
                if beyond.any():
                    out[beyond] += np.outer(x[beyond] - end, self._splines(end, 1))
        return out

    def roughness(self) -> Vector:
        """Integrals of products of second derivatives within the range, shape (size, size)."""
        curvature = self._splines.derivative(2)
        # Products of second derivatives have degree 2 d - 4, and d points are exact up to 2 d - 1:
        # between two knots a polynomial, of which Gauss and Legendre's rule has the integral.
        places, weights = np.polynomial.legendre.leggauss(self.degree)
        total = np.zeros((self.size, self.size))
        # The polynomials change at every knot, so that each span is a sum of its own.
        for low, high in pairwise(self.knots[self.degree : -self.degree]):
            values = curvature(low + (high - low) * (places + 1.0) / 2.0)
            total += (high - low) / 2.0 * (values.T * weights) @ values
        return total

    @property
    def _splines(self) -> Any:
        """All functions but the last, as one spline."""
        from scipy.interpolate import BSpline

        return BSpline(self.knots, np.eye(self.size + 1)[:, :-1], self.degree)


Bases = dict[int, tuple[SplineBasis, ...]]
"""Those of every column of variables, by the number of the variable."""


def _functions(bases: Bases, values: Sequence[NDArray[Any]]) -> list[Vector]:
    """The functions at rows of the variables of the bases, in their order."""
    columns = zip(bases.values(), (np.asarray(x, np.float64) for x in values), strict=True)
    return [one(x) for own, rows in columns for one, x in zip(own, rows.T, strict=True)]


def _places(sizes: dict[int, int], some: Sequence[int]) -> Indices:
    """Places of some parts among parts of sizes, side by side."""
    starts = dict(zip(sizes, np.cumsum([0, *sizes.values()]), strict=False))
    every = [starts[j] + np.arange(sizes[j]) for j in some]
    return np.concatenate([np.empty(0, np.intp), *every])


def _sizes(bases: Bases) -> dict[int, int]:
    return {j: sum(one.size for one in own) for j, own in bases.items()}


@dataclass(frozen=True)
class SplineDesign:
    """Splines of regressors, one variable after another, then targets; about provisional means.

    Parameters
    ----------
    bases : tuple of int and tuple of SplineBasis
        Those of the regressors, with the number of the variable.
    penalties : tuple of tuple of ndarray
        Penalties of the coefficients of every column of each of these.
    targets : tuple of int and int
        Numbers and columns of the variables that are regressed.
    names : tuple of str
        Names of all variables.
    centre : ndarray, shape (q,)
        Means of a sample: sums about them are small, and keep their digits.
    """

    bases: tuple[tuple[int, tuple[SplineBasis, ...]], ...]
    penalties: tuple[tuple[Vector, ...], ...]
    targets: tuple[tuple[int, int], ...]
    names: tuple[str, ...]
    centre: Vector

    @property
    def size(self) -> int:
        """Entries of a row, q."""
        return len(self.centre)

    def functions(self, given: Sequence[int]) -> Indices:
        """Places of the functions of some regressors."""
        return _places(_sizes(dict(self.bases)), given)

    def columns(self, target: int) -> Indices:
        """Places of a target."""
        return sum(_sizes(dict(self.bases)).values()) + _places(dict(self.targets), [target])

    def joined(self, values: Sequence[NDArray[Any]], fold: int) -> Vector:
        """Rows about the provisional means, shape (b, q); alike in all folds."""
        del fold
        functions = _functions(dict(self.bases), [values[j] for j, _ in self.bases])
        out = np.concatenate([*functions, *(values[t] for t, _ in self.targets)], axis=1)
        centred: Vector = np.subtract(out, self.centre, dtype=np.float64)
        return centred


@dataclass(frozen=True)
class SplineResiduals:
    """Residuals of several regressions of one target, side by side, as a `RowFunction`.

    Parameters
    ----------
    target : int
        Number of the variable that is regressed.
    bases : dict of int to tuple of SplineBasis
        Bases of its regressors.
    mean : ndarray, shape (n_folds, r d)
        Mean of the target, in every fold for every regression.
    centre : ndarray, shape (n_folds, r d)
        Means of the fitted functions, which are taken off again.
    coefficients : ndarray, shape (n_folds, p, r d)
        Coefficients of all functions, zero where a regression is without.
    left : tuple of float
        The least share of a variance that the residuals of every regression have.
    """

    target: int
    bases: Bases
    mean: Vector
    centre: Vector
    coefficients: Vector
    left: tuple[float, ...]

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
        functions = _functions(self.bases, given)
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

    def moments(
        self, dims: Sequence[int], regressors: Sequence[int], targets: Sequence[int]
    ) -> SecondMomentsPass:
        """The pass of regressions among variables of so many columns, by their numbers."""
        # Where values repeat there are fewer knots.
        functions = (self.n_knots + self.degree - 2) * sum(dims[j] for j in regressors)
        q = functions + sum(dims[j] for j in targets)
        bound = Bound(q, 8 * (q + functions + 3 * self.degree * sum(dims)), 3 * 8 * q)
        return SecondMomentsPass(bound, Folds(self.n_folds), "regressions", by_fold=True)

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
        options = self.n_knots, self.degree, self.extrapolation
        bases = {
            j: tuple(SplineBasis.fit(column, *options) for column in samples[j].T)
            for j in regressors
        }
        # Coefficients shrink to 0, and not their differences (Eilers and Marx 1996) to those of a
        # line.
        ridge = self.penalty == "ridge"
        penalties = tuple(
            tuple(np.eye(one.size) if ridge else one.roughness() for one in own)
            for own in bases.values()
        )
        parts = _functions(bases, [samples[j] for j in bases])
        parts += [samples[t].astype(np.float64) for t in targets]
        centre = np.concatenate([part.mean(axis=0) for part in parts])
        columns = tuple((t, samples[t].shape[1]) for t in targets)
        return SplineDesign(tuple(bases.items()), penalties, columns, tuple(names), centre)

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
        moments = self.moments([x.shape[1] for x in values], numbers, (last,))
        sums = replace(moments, design=design).chunk(RowBlock(0, values))
        function = self.regressed(design, sums, last, [numbers])
        return function(np.arange(n), [values[j] for j in function.variables])

    def regressed(
        self, design: SplineDesign, sums: SecondMoments, target: int, sets: Sequence[Sequence[int]]
    ) -> SplineResiduals:
        """Residuals of a target by regressions on sets of variables, from sums of the design.

        Raises
        ------
        DataError
            There are not more rows than coefficients.
        """
        # Functions that no regression takes are not computed.
        bases = {j: own for j, own in design.bases if any(j in given for given in sets)}
        of_columns = {j: own for (j, _), own in zip(design.bases, design.penalties, strict=True)}
        # One regression of all rows, or one a fold without it.
        parts = [sums.whole()] if self.n_folds == 1 else [others for others, _ in sums.splits()]
        targets, sizes = design.columns(target), _sizes(bases)
        width = len(targets) * len(sets)
        mean, centre = np.zeros((2, len(parts), width))
        coefficients, left = np.zeros((len(parts), sum(sizes.values()), width)), []
        for r, given in enumerate(sets):
            columns = slice(len(targets) * r, len(targets) * (r + 1))
            functions, rows = design.functions(given), _places(sizes, given)
            penalties, least = [one for j in given for one in of_columns[j]], []
            for f, part in enumerate(parts):
                # GCV divides by n less the degrees of freedom, of which there may be p + 1.
                if part.rows <= len(functions) + 1:
                    msg = (
                        f"a regression of {design.names[target]!r} on {len(given)} variables has "
                        f"{len(functions) + 1} coefficients and needs more rows than that, got "
                        f"{part.rows:.0f}: give fewer n_knots, or fewer variables"
                    )
                    raise DataError(msg)
                fit = Ridges.fit(
                    part,
                    functions,
                    targets,
                    penalties=penalties,
                    weights=_WEIGHTS,
                    most_freedom=math.inf,
                )
                mean[f, columns] = design.centre[targets] + fit.target_mean
                centre[f, columns] = (design.centre[functions] + fit.mean) @ fit.slopes
                coefficients[f, rows, columns] = fit.slopes
                least.append(fit.left.min())
            left.append(float(np.min(least)))  # NaN where any is
        return SplineResiduals(target, bases, mean, centre, coefficients, tuple(left))


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
