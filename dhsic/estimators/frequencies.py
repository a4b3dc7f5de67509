"""Random frequencies from the spectral laws of fitted kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.engine.plan import DriverStep
from dhsic.engine.session import Session
from dhsic.estimators.base import fit_combinations_on_sample, fitting_step
from dhsic.features import FourierFeatures
from dhsic.kernels import Combinations

__all__ = ["draw_combined_frequencies", "frequency_steps"]


def frequency_steps(session: Session, n_frequencies: int, n_kernels: int = 1) -> list[DriverStep]:
    """What drawing the frequencies takes, with so many kernels of a variable."""
    draws = 3 * 8 * sum(session.dims) * (n_kernels * n_frequencies + max(session.dims))
    return [fitting_step(session), DriverStep("frequencies", draws)]


def draw_combined_frequencies(
    session: Session, combinations: Combinations, n_frequencies: int, *, orthogonal: bool
) -> tuple[Combinations, list[NDArray[np.float64]], tuple[FourierFeatures, ...]]:
    """Fit the kernels of all combinations and draw frequencies for every kernel.

    Those of a kernel are the same in any combination, and for any other kernels beside it: the
    kernels of a variable share its random numbers.

    Parameters
    ----------
    session : Session
        The run.
    combinations : Combinations
        Of K translation-invariant kernels.
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
    tuple of FourierFeatures
        K, with D frequencies each, about the medians of the samples.
    """
    fitted, samples = fit_combinations_on_sample(session, combinations)
    session.step("frequencies")
    centres = [np.median(sample, axis=0) for sample in samples]
    drawn = tuple(
        FourierFeatures.draw(
            kernel,
            centres[m],
            n_frequencies,
            generator(session.seed, "features", m),
            session.dtype,
            orthogonal=orthogonal,
        )
        for kernel, m in zip(fitted.kernels, fitted.variables, strict=True)
    )
    return fitted, samples, drawn
