"""Random frequencies from the spectral laws of fitted kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dhsic._random import generator
from dhsic.engine.plan import DriverStep
from dhsic.engine.session import Session
from dhsic.estimators.base import fit_on_sample, fitting_step
from dhsic.features import FourierFeatures
from dhsic.kernels import Kernel

__all__ = ["draw_frequencies", "frequency_steps"]


def frequency_steps(session: Session, n_frequencies: int) -> list[DriverStep]:
    """What `draw_frequencies` takes."""
    draws = 3 * 8 * sum(session.dims) * (n_frequencies + max(session.dims))
    return [fitting_step(session), DriverStep("frequencies", draws)]


def draw_frequencies(
    session: Session, kernels: Sequence[Kernel], n_frequencies: int, *, orthogonal: bool
) -> tuple[tuple[Kernel, ...], list[NDArray[np.float64]], tuple[FourierFeatures, ...]]:
    """Fit the kernels and draw frequencies for every variable.

    Parameters
    ----------
    session : Session
        The run.
    kernels : sequence of Kernel
        One a variable, translation-invariant.
    n_frequencies : int
        D.
    orthogonal : bool
        See `FourierFeatures.draw`.

    Returns
    -------
    tuple of Kernel
        As fitted.
    list of ndarray, shapes (s, d_m)
        The samples that they were fitted to.
    tuple of FourierFeatures
        With D frequencies each, about the medians of the samples.
    """
    fitted, samples = fit_on_sample(session, kernels)
    session.step("frequencies")
    drawn = tuple(
        FourierFeatures.draw(
            kernel,
            np.median(sample, axis=0),
            n_frequencies,
            generator(session.seed, "features", m),
            session.dtype,
            orthogonal=orthogonal,
        )
        for m, (kernel, sample) in enumerate(zip(fitted, samples, strict=True))
    )
    return fitted, samples, drawn
