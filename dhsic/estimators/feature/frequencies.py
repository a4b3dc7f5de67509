"""Random frequencies from the spectral laws of fitted kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.engine.plan import DriverStep
from dhsic.engine.session import Session
from dhsic.estimators.base import fit_combinations_on_sample, fitting_step
from dhsic.features import ColumnFeatures, FeatureMap, FourierFeatures
from dhsic.kernels import Combinations, Kernel
from dhsic.kernels.dot import Codes


def frequency_steps(session: Session, n_frequencies: int, n_kernels: int = 1) -> list[DriverStep]:
    """Steps that draw the frequencies, with so many kernels of a variable."""
    draws = 3 * 8 * sum(session.dims) * (n_kernels * n_frequencies + max(session.dims))
    return [fitting_step(session), DriverStep("frequencies", draws)]


def draw_features(
    session: Session, combinations: Combinations, n_frequencies: int, *, orthogonal: bool
) -> tuple[Combinations, list[NDArray[np.float64]], tuple[FeatureMap, ...]]:
    """Fit the kernels of all combinations and draw frequencies for every kernel.

    Those of a kernel are the same in any combination, and for any other kernels beside it: the
    kernels of a variable share its random numbers.

    Parameters
    ----------
    session : Session
        The run.
    combinations : Combinations
        Combinations of K translation-invariant kernels, or of codes.
    n_frequencies : int
        D.
    orthogonal : bool
        See `FourierFeatures.draw`.

    Returns
    -------
    Combinations
        As fitted.
    list of ndarray, shapes (s, d_m)
        The samples that they were fitted to, one a variable.
    tuple of FeatureMap
        K, with D frequencies each, about the medians of the samples; codes are features as they
        are.
    """
    fitted, samples = fit_combinations_on_sample(session, combinations)
    draw = _Drawing(session, samples, n_frequencies, orthogonal)
    pairs = zip(fitted.kernels, fitted.variables, strict=True)
    maps = tuple(
        code_features(session, m) if isinstance(kernel, Codes) else draw(kernel, m)
        for kernel, m in pairs
    )
    return fitted, samples, maps


def code_features(session: Session, m: int) -> ColumnFeatures:
    """The columns of variable m as they are."""
    d = session.dims[m]
    return ColumnFeatures(np.zeros(d), np.ones(d), session.dtype)


class _Drawing:
    """Draws the frequencies of kernels of a session."""

    def __init__(
        self,
        session: Session,
        samples: Sequence[NDArray[np.float64]],
        n_frequencies: int,
        orthogonal: bool,
    ) -> None:
        session.step("frequencies")
        self.session, self.n_frequencies, self.orthogonal = session, n_frequencies, orthogonal
        # About the median phases are small, and cosines keep the digits of near rows.
        self.centres = [np.median(sample, axis=0) for sample in samples]

    def __call__(self, kernel: Kernel, m: int) -> FourierFeatures:
        """Those of a kernel of variable m."""
        # A stream for each variable: frequencies of both have to be independent (Zhang et al. 2018,
        # section 4.2.2).
        rng = generator(self.session.seed, "features", m)
        return FourierFeatures.draw(
            kernel,
            self.centres[m],
            self.n_frequencies,
            rng,
            self.session.dtype,
            orthogonal=self.orthogonal,
        )
