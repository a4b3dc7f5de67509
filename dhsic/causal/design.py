"""Additive regressions on splines, all from one matrix of sums over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dhsic.causal.basis import SplineBasis
from dhsic.errors import DataError

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]

# Four weights for every factor of 10.
_WEIGHTS = np.logspace(-9.0, 9.0, 73)
_RANK = 1e-11


@dataclass(frozen=True)
class SplineDesign:
    """Rows [B_1, ..., B_M, x_1, ..., x_M, 1] of regressors and targets, about provisional means.

    Parameters
    ----------
    regressors : tuple of int
        Variables that others are regressed on.
    functions : tuple of SplineBasis
        Their bases.
    targets : tuple of int
        Variables that are regressed.
    names : tuple of str
        Names of all variables.
    dims : tuple of int
        Columns of the targets.
    centre : ndarray, shape (q - 1,)
        Provisional means, so that no digits cancel.
    penalties : tuple of tuple of ndarray
        Penalties of the coefficients of every column of the regressors.
    n_folds : int
        Rows i with equal i mod n_folds are summed by themselves.
    """

    regressors: tuple[int, ...]
    functions: tuple[SplineBasis, ...]
    targets: tuple[int, ...]
    names: tuple[str, ...]
    dims: tuple[int, ...]
    centre: Vector
    penalties: tuple[tuple[Vector, ...], ...]
    n_folds: int

    @classmethod
    def fit(
        cls,
        bases: dict[int, SplineBasis],
        penalties: dict[int, tuple[Vector, ...]],
        samples: Sequence[NDArray[Any]],
        names: Sequence[str],
        targets: Sequence[int],
        n_folds: int,
    ) -> SplineDesign:
        """The design whose provisional means are those of samples, shapes (s, d_m)."""
        dims = tuple(samples[t].shape[1] for t in targets)
        parts = [basis(samples[j]) for j, basis in bases.items()]
        parts += [samples[t].astype(np.float64) for t in targets]
        # Sums about the means of a sample are small, and keep their digits.
        centre = np.concatenate([part.mean(axis=0) for part in parts])
        regressors, functions = tuple(bases), tuple(bases.values())
        chosen = tuple(penalties[j] for j in regressors)
        return cls(
            regressors, functions, tuple(targets), tuple(names), dims, centre, chosen, n_folds
        )

    @property
    def bases(self) -> dict[int, SplineBasis]:
        """The bases by the number of the variable."""
        return dict(zip(self.regressors, self.functions, strict=True))

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
        of_target = np.arange(first, first + self.dims[self.targets.index(target)])
        functions = [starts[j] + np.arange(self.bases[j].size) for j in given]
        return of_target, np.concatenate([np.empty(0, np.intp), *functions])

    def rows(self, values: Sequence[NDArray[Any]]) -> Vector:
        """Rows about the provisional means with a one at the end, shape (b, q)."""
        parts = [basis(values[j]) for j, basis in self.bases.items()]
        # With a one at the end, sums of rows and their number are entries of the same product.
        out = np.ones((len(values[0]), self.size))
        np.concatenate([*parts, *(values[t] for t in self.targets)], axis=1, out=out[:, :-1])
        out[:, :-1] -= self.centre
        return out

    def sums(self, rows: Indices, values: Sequence[NDArray[Any]]) -> Vector:
        """Sums of products of rows by number, for every fold, shape (n_folds, q, q)."""
        # Folds go by the number of a row, so that they do not depend on blocks.
        designed, folds = self.rows(values), rows % self.n_folds
        if self.n_folds == 1:
            return (designed.T @ designed)[None]
        parts = [designed[folds == f] for f in range(self.n_folds)]
        return np.stack([part.T @ part for part in parts])


class AdditiveFit(NamedTuple):
    """A regression of a target on splines."""

    target: int
    """Number of the variable."""
    given: tuple[int, ...]
    """Numbers of what it is regressed on."""
    target_mean: Vector
    """Shape (d,)."""
    mean: Vector
    """Means of the functions, shape (p,)."""
    coefficients: Vector
    """Shape (p, d)."""
    weights: Vector
    """Weights of the penalty, for every column of the target, shape (d,)."""
    degrees: Vector
    """Effective degrees of freedom, with the mean, shape (d,)."""
    scores: Vector
    """Generalised cross-validation, shape (d,)."""
    left: Vector
    """Share of the variance that the residuals have, shape (d,)."""


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
        Design that was summed.
    sums : ndarray, shape (q, q)
        Sums of the products of its rows.
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
    target_columns, functions = design.columns(target, given)
    # The last column of the design is the constant 1, whose product with itself counts the rows.
    n, p = sums[-1, -1], len(functions)
    # GCV divides by n less the degrees of freedom, of which there may be p + 1.
    if n <= p + 1:
        msg = (
            f"a regression of {design.names[target]!r} on {len(given)} variables has {p + 1} "
            f"coefficients and needs more rows than that, got {int(n)}: give fewer n_knots, or "
            "fewer variables"
        )
        raise DataError(msg)
    # Means over all rows, from sums about the provisional ones.
    step = sums[-1, :-1] / n
    means = design.centre + step
    at = np.concatenate([functions, target_columns])
    # About pilot means first, and about the true means now: both steps keep the digits.
    moments = sums[np.ix_(at, at)] - n * np.outer(step[at], step[at])
    gram, cross, squares = moments[:p, :p], moments[:p, p:], np.diagonal(moments)[p:]
    vectors, penalised = _diagonalised(gram, _scaled_penalties(design, gram, given))
    # In these coordinates G + P is the identity and P diagonal.
    rotated = vectors.T @ cross
    # G + w P is 1 + (w - 1) m on the diagonal, with m those of P.
    shrunk = 1.0 + np.multiply.outer(_WEIGHTS - 1.0, penalised)
    # G is 1 - m on the diagonal.
    free = 1.0 - penalised
    # 1 + tr G (G + w P)^-1, of which 1 is the mean.
    degrees = 1.0 + (free / shrunk).sum(axis=1)
    # RSS = y'y - 2 c'beta + beta' G beta, in the coordinates in which G and P are diagonal.
    explained = (2.0 / shrunk - free / shrunk**2) @ rotated**2
    # Rounding may take it below zero where the fit is exact.
    residual = np.maximum(squares - explained, 0.0)
    # Craven and Wahba (1979), for a grid of weights at once: no weight needs another solve.
    scores = n * residual / (n - degrees[:, None]) ** 2
    # Every column of the target takes a weight of its own.
    best, own_column = np.argmin(scores, axis=0), np.arange(len(target_columns))
    left = residual[best, own_column]
    return AdditiveFit(
        target,
        tuple(given),
        means[target_columns],
        means[functions],
        # Back from the coordinates in which both are diagonal.
        vectors @ (rotated / shrunk[best].T),
        _WEIGHTS[best],
        degrees[best],
        scores[best, own_column],
        np.divide(left, squares, out=np.zeros(len(target_columns)), where=squares > 0.0),
    )


def _scaled_penalties(design: SplineDesign, gram: Vector, given: Sequence[int]) -> Vector:
    """The penalties of all columns, each in units of what it penalises."""
    blocks, start = [np.empty((0, 0))], 0
    penalties = dict(zip(design.regressors, design.penalties, strict=True))
    for penalty in (each for j in given for each in penalties[j]):
        stop = start + len(penalty)
        # Units of a column must not decide how smooth its function is.
        blocks.append(penalty * (np.trace(gram[start:stop, start:stop]) / np.trace(penalty)))
        start = stop
    return np.asarray(scipy.linalg.block_diag(*blocks))


def _diagonalised(gram: Vector, penalty: Vector) -> tuple[Vector, Vector]:
    """V and m with V'(G + P)V = I and V'PV = diag(m), without directions that have neither."""
    total, directions = np.linalg.eigh(gram + penalty)
    # Splines of a column add up to a constant, so that G + P is singular before anything is fitted.
    kept = total > _RANK * total.max(initial=0.0)
    # (G + P)^(-1/2) in the directions that are left.
    whitened = directions[:, kept] / np.sqrt(total[kept])
    penalised, rotation = np.linalg.eigh(whitened.T @ penalty @ whitened)
    # Rounding may leave them a little outside.
    return whitened @ rotation, np.clip(penalised, 0.0, 1.0)
