"""Residuals of regressions on splines, from the rows of the variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhsic.causal.basis import SplineBasis
from dhsic.causal.design import AdditiveFit, SplineDesign

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]


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
        Centre of the fitted functions.
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
        cls, design: SplineDesign, regressions: Sequence[Sequence[AdditiveFit]]
    ) -> SplineResiduals:
        """Residuals of regressions of one target, each one a fold or one for all rows."""
        target = regressions[0][0].target
        used = {j for fits in regressions for j in fits[0].given}
        # Functions that no regression takes are not computed.
        bases = {j: basis for j, basis in design.bases.items() if j in used}
        starts = dict(zip(bases, np.cumsum([0, *(b.size for b in bases.values())]), strict=False))
        p = sum(basis.size for basis in bases.values())
        d = len(regressions[0][0].target_mean)
        folds = len(regressions[0])
        mean, centre = np.zeros((2, folds, d * len(regressions)))
        coefficients = np.zeros((folds, p, d * len(regressions)))
        for r, fits in enumerate(regressions):
            columns = slice(d * r, d * (r + 1))
            at = [starts[j] + np.arange(bases[j].size) for j in fits[0].given]
            rows = np.concatenate([np.empty(0, np.intp), *at])
            for f, fit in enumerate(fits):
                mean[f, columns] = fit.target_mean
                # The mean of the function over the rows of the fit, which is taken off again.
                centre[f, columns] = fit.mean @ fit.coefficients
                coefficients[f, rows, columns] = fit.coefficients
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
        pairs = zip(self.bases.values(), given, strict=True)
        functions = [basis(x) for basis, x in pairs]
        joined = np.concatenate([np.empty((len(rows), 0)), *functions], axis=1)
        regressions = self.width // target.shape[1]
        out = np.tile(np.asarray(target, np.float64), (1, regressions))
        for f in range(len(self.mean)):
            fold = slice(None) if len(self.mean) == 1 else folds == f
            out[fold] -= self.mean[f]
            out[fold] -= joined[fold] @ self.coefficients[f] - self.centre[f]
        return out
