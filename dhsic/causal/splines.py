"""Additive regression on splines, from sums over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from dhsic._validation import check_choice, check_integer
from dhsic.causal.basis import EXTRAPOLATIONS, Extrapolation, SplineBasis
from dhsic.errors import DataError

__all__ = ["PILOT_ROWS", "AdditiveFit", "Penalty", "SplineDesign", "Splines", "additive_fit"]

Vector = NDArray[np.float64]

Penalty = Literal["curvature", "ridge"]

PILOT_ROWS = 10_000

_WEIGHTS = np.logspace(-9.0, 9.0, 73)
_RANK = 1e-11


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
        Of the polynomials between knots, 2 or more.
    penalty : {"curvature", "ridge"}, optional
        Of the integrals of squared second derivatives, which leaves what is linear as it is; or
        of the squared coefficients.
    extrapolation : {"linear", "constant"}, optional
        Of a function beyond these rows.
    n_folds : int, optional
        Where more than 1, the residual of a row is from a regression without its fold; row i is
        in fold i mod n_folds. 1 fits all rows at once.

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
        check_integer("n_knots", self.n_knots, minimum=2)
        check_integer("degree", self.degree, minimum=2)
        check_choice("penalty", self.penalty, get_args(Penalty))
        check_integer("n_folds", self.n_folds, minimum=1)
        check_choice("extrapolation", self.extrapolation, EXTRAPOLATIONS)

    def basis(self, sample: NDArray[Any], name: str) -> SplineBasis:
        """The B-splines of a variable, whose knots are quantiles of a sample.

        Raises
        ------
        DataError
            A column of the sample is constant.
        """
        (constant,) = np.nonzero((sample == sample[0]).all(axis=0))
        if len(constant):
            msg = (
                f"a regression on variable {name!r} needs columns that vary, got column "
                f"{constant[0]} constant over {len(sample)} rows: leave it out"
            )
            raise DataError(msg)
        return SplineBasis.fit(sample, self.n_knots, self.degree, self.extrapolation)

    def penalties(self, basis: SplineBasis) -> tuple[Vector, ...]:
        """What coefficients are penalised by, a matrix a column."""
        if self.penalty == "ridge":
            return tuple(map(np.eye, basis.counts))
        return basis.roughness()

    def residuals(
        self, target: Vector, given: Sequence[Vector], rng: np.random.Generator
    ) -> Vector:
        """What the regression leaves of a target.

        Parameters
        ----------
        target : ndarray, shape (n, d)
            What is regressed.
        given : sequence of ndarray, shapes (n, d_j)
            What it is regressed on; where there is nothing, the mean is taken.
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
        rows = np.arange(n) if n <= PILOT_ROWS else rng.choice(n, PILOT_ROWS, replace=False)
        values = (*given, target)
        regressors = range(len(given))
        design = SplineDesign.fit(
            self,
            [x[rows] for x in values],
            [f"given {j + 1}" for j in regressors] + ["target"],
            regressors,
            (len(given),),
        )
        sums = design.sums(0, values)
        fits = self.fits(design, sums, len(given), tuple(regressors))
        return design.residuals(fits, 0, values)

    def fits(
        self, design: SplineDesign, sums: Vector, target: int, given: Sequence[int]
    ) -> tuple[AdditiveFit, ...]:
        """One regression, or one a fold without it.

        Parameters
        ----------
        design : SplineDesign
            Of the variables.
        sums : ndarray, shape (n_folds, q, q)
            Of its products in every fold.
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
        parts = [total] if self.n_folds == 1 else [total - fold for fold in sums]
        return tuple(additive_fit(design, part, target, given) for part in parts)


@dataclass(frozen=True)
class SplineDesign:
    """Rows [B_1, ..., B_M, x_1, ..., x_M, 1] of regressors and targets, about provisional means.

    Parameters
    ----------
    bases : dict of int to SplineBasis
        Of the variables that others are regressed on, by number.
    targets : tuple of int
        Variables that are regressed.
    names : tuple of str
        Of all variables.
    dims : tuple of int
        Columns of the targets.
    centre : ndarray, shape (q - 1,)
        Provisional means, so that no digits cancel.
    penalties : dict of int to tuple of ndarray
        Of the coefficients of every column of the regressors.
    n_folds : int
        Rows i with equal i mod n_folds are summed by themselves.
    """

    bases: dict[int, SplineBasis]
    targets: tuple[int, ...]
    names: tuple[str, ...]
    dims: tuple[int, ...]
    centre: Vector
    penalties: dict[int, tuple[Vector, ...]]
    n_folds: int

    @classmethod
    def fit(
        cls,
        regression: Splines,
        samples: Sequence[NDArray[Any]],
        names: Sequence[str],
        regressors: Sequence[int],
        targets: Sequence[int],
    ) -> SplineDesign:
        """The design whose knots and means are those of samples, shapes (s, d_m)."""
        bases = {j: regression.basis(samples[j], names[j]) for j in regressors}
        dims = tuple(samples[t].shape[1] for t in targets)
        parts = [basis(samples[j]) for j, basis in bases.items()]
        parts += [samples[t].astype(np.float64) for t in targets]
        centre = np.concatenate([part.mean(axis=0) for part in parts])
        penalties = {j: regression.penalties(basis) for j, basis in bases.items()}
        return cls(bases, tuple(targets), tuple(names), dims, centre, penalties, regression.n_folds)

    @property
    def size(self) -> int:
        """Entries of a row, q."""
        return len(self.centre) + 1

    @property
    def nbytes(self) -> int:
        """Bytes of the knots and means."""
        return self.centre.nbytes + sum(basis.nbytes for basis in self.bases.values())

    def columns(self, target: int, given: Sequence[int]) -> tuple[NDArray[np.intp], ...]:
        """Columns of a target, and of the functions of what it is regressed on."""
        sizes = [basis.size for basis in self.bases.values()]
        starts = dict(zip(self.bases, np.cumsum([0, *sizes]), strict=False))
        first = sum(sizes) + sum(self.dims[: self.targets.index(target)])
        own = np.arange(first, first + self.dims[self.targets.index(target)])
        functions = [starts[j] + np.arange(self.bases[j].size) for j in given]
        return own, np.concatenate([np.empty(0, np.intp), *functions])

    def rows(self, values: Sequence[NDArray[Any]]) -> Vector:
        """Rows about the provisional means with a one at the end, shape (b, q)."""
        parts = [basis(values[j]) for j, basis in self.bases.items()]
        out = np.ones((len(values[0]), self.size))
        np.concatenate([*parts, *(values[t] for t in self.targets)], axis=1, out=out[:, :-1])
        out[:, :-1] -= self.centre
        return out

    def sums(self, start: int, values: Sequence[NDArray[Any]]) -> Vector:
        """Sums of products of the rows of every fold, shape (n_folds, q, q)."""
        rows = self.rows(values)
        folds = [rows[(f - start) % self.n_folds :: self.n_folds] for f in range(self.n_folds)]
        return np.stack([fold.T @ fold for fold in folds])

    def residuals(
        self, fits: Sequence[AdditiveFit], start: int, values: Sequence[NDArray[Any]]
    ) -> Vector:
        """What the regressions of a target, one a fold or one, leave of rows; shape (b, d)."""
        given = fits[0].given
        out = values[fits[0].target].astype(np.float64)
        functions = [self.bases[j](values[j]) for j in given]
        joined = np.concatenate(functions, axis=1) if given else np.empty((len(out), 0))
        for f, fit in enumerate(fits):
            fold = slice((f - start) % len(fits), None, len(fits))
            out[fold] -= fit.target_mean
            out[fold] -= (joined[fold] - fit.mean) @ fit.coefficients
        return out


class AdditiveFit(NamedTuple):
    """A regression of a target on splines."""

    target: int
    """Number of the variable."""
    given: tuple[int, ...]
    """Numbers of what it is regressed on."""
    target_mean: Vector
    """Shape (d,)."""
    mean: Vector
    """Of the functions, shape (p,)."""
    coefficients: Vector
    """Shape (p, d)."""
    weights: Vector
    """Of the penalty, for every column of the target, shape (d,)."""
    degrees: Vector
    """Effective degrees of freedom, with the mean, shape (d,)."""
    scores: Vector
    """Generalised cross-validation, shape (d,)."""


def additive_fit(
    design: SplineDesign, sums: Vector, target: int, given: Sequence[int]
) -> AdditiveFit:
    """Penalised regression from sums, with the weight of the least GCV for every column.

    With G = B'B of the centred functions, c = B'y and the penalty P, which has in every column
    the trace of G, the coefficients of weight w are (G + w P)^-1 c, the effective degrees of
    freedom 1 + tr G (G + w P)^-1, and GCV = n RSS / (n - degrees)^2, Craven and Wahba (1979).

    Parameters
    ----------
    design : SplineDesign
        What was summed.
    sums : ndarray, shape (q, q)
        Of the products of its rows.
    target, given : int, sequence of int
        Numbers of variables.

    Returns
    -------
    AdditiveFit

    Raises
    ------
    DataError
        There are not more rows than coefficients.
    """
    own, functions = design.columns(target, given)
    n, p = sums[-1, -1], len(functions)
    if n <= p + 1:
        msg = (
            f"a regression of {design.names[target]!r} on {len(given)} variables has {p + 1} "
            f"coefficients and needs more rows than that, got {int(n)}: give fewer n_knots, or "
            "fewer variables"
        )
        raise DataError(msg)
    step = sums[-1, :-1] / n
    means = design.centre + step
    at = np.concatenate([functions, own])
    moments = sums[np.ix_(at, at)] - n * np.outer(step[at], step[at])
    gram, cross, squares = moments[:p, :p], moments[:p, p:], np.diagonal(moments)[p:]
    vectors, penalised = _diagonalised(gram, _scaled(design, gram, given))
    # In these coordinates G + P is the identity and P diagonal.
    rotated = vectors.T @ cross
    shrunk = 1.0 + np.multiply.outer(_WEIGHTS - 1.0, penalised)
    free = 1.0 - penalised
    degrees = 1.0 + (free / shrunk).sum(axis=1)
    explained = (2.0 / shrunk - free / shrunk**2) @ rotated**2
    scores = n * np.maximum(squares - explained, 0.0) / (n - degrees[:, None]) ** 2
    best = np.argmin(scores, axis=0)
    return AdditiveFit(
        target,
        tuple(given),
        means[own],
        means[functions],
        vectors @ (rotated / shrunk[best].T),
        _WEIGHTS[best],
        degrees[best],
        scores[best, np.arange(len(own))],
    )


def _scaled(design: SplineDesign, gram: Vector, given: Sequence[int]) -> Vector:
    """The penalties of all columns, each in units of what it penalises."""
    blocks, start = [np.empty((0, 0))], 0
    for penalty in (one for j in given for one in design.penalties[j]):
        stop = start + len(penalty)
        blocks.append(penalty * (np.trace(gram[start:stop, start:stop]) / np.trace(penalty)))
        start = stop
    return np.asarray(block_diag(*blocks))


def _diagonalised(gram: Vector, penalty: Vector) -> tuple[Vector, Vector]:
    """V and m with V'(G + P)V = I and V'PV = diag(m), without directions that have neither."""
    total, directions = np.linalg.eigh(gram + penalty)
    kept = total > _RANK * total.max(initial=0.0)
    whitened = directions[:, kept] / np.sqrt(total[kept])
    penalised, rotation = np.linalg.eigh(whitened.T @ penalty @ whitened)
    return whitened @ rotation, np.clip(penalised, 0.0, 1.0)
