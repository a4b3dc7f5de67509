"""Additive regression on splines, from sums over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dhsic._validation import check_choice, check_integer, shown
from dhsic.causal.basis import EXTRAPOLATIONS, Extrapolation, SplineBasis
from dhsic.causal.design import AdditiveFit, SplineDesign, additive_fit
from dhsic.causal.rows import SplineResiduals
from dhsic.errors import DataError, InvalidArgumentError

Vector = NDArray[np.float64]
Penalty = Literal["curvature", "ridge"]

PILOT_ROWS = 10_000
# The integral of a squared second derivative goes with 1 / span^3.
_SPANS = (1e-70, 1e70)
_MOST_FOLDS = 1000


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
        check_choice("extrapolation", self.extrapolation, EXTRAPOLATIONS)

    def basis(self, sample: NDArray[Any], name: str) -> SplineBasis:
        """The B-splines of a variable, whose knots are quantiles of a sample.

        Raises
        ------
        DataError
            A column of the sample is constant.
        """
        check_varied(sample, name)
        return SplineBasis.fit(sample, self.n_knots, self.degree, self.extrapolation)

    def penalties(self, basis: SplineBasis) -> tuple[Vector, ...]:
        """Penalties of the coefficients, a matrix a column."""
        # Coefficients shrink to 0, and not their differences (Eilers and Marx 1996) to those of a
        # line.
        if self.penalty == "ridge":
            return tuple(map(np.eye, basis.counts))
        return basis.roughness()

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
            Rows of every variable, for the knots.
        names : sequence of str
            Names of every variable.
        regressors, targets : sequence of int
            Numbers of variables.

        Returns
        -------
        SplineDesign

        Raises
        ------
        DataError
            A regressor is constant, or the values of a column are too near or too far apart.
        """
        for j in sorted({*regressors, *targets}):
            _check_spans(samples[j], names[j])
        bases = {j: self.basis(samples[j], names[j]) for j in regressors}
        penalties = {j: self.penalties(basis) for j, basis in bases.items()}
        return SplineDesign.fit(bases, penalties, samples, names, targets, self.n_folds)

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
        values, given_numbers = (*given, target), tuple(range(len(given)))
        names = [f"given {j + 1}" for j in given_numbers] + ["target"]
        samples = [x[pilot] for x in values]
        design = self.design(samples, names, given_numbers, (len(given),))
        rows = np.arange(n)
        fits = self.fits(design, design.sums(rows, values), len(given), given_numbers)
        function = SplineResiduals.of(design, [fits])
        return function(rows, [values[j] for j in function.variables])

    def fits(
        self, design: SplineDesign, sums: Vector, target: int, given: Sequence[int]
    ) -> tuple[AdditiveFit, ...]:
        """One regression, or one a fold without it.

        Parameters
        ----------
        design : SplineDesign
            Design of the variables.
        sums : ndarray, shape (n_folds, q, q)
            Sums of its products in every fold.
        target, given : int, sequence of int
            Numbers of variables.

        Returns
        -------
        tuple of AdditiveFit

        Raises
        ------
        DataError
            There are not more rows than coefficients.
        """
        total = sums.sum(axis=0)
        # Sums are additive: those without a fold need no other pass over the data.
        parts = [total] if self.n_folds == 1 else [total - fold for fold in sums]
        return tuple(additive_fit(design, part, target, given) for part in parts)


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
