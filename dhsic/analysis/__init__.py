"""Theory: effective dimensions, bounds on errors, and laws of estimates."""

from dhsic.analysis.bounds import (
    EmbeddingBound,
    HSICBound,
    MMDBound,
    VStatisticBound,
    landmarks_for_exponential_decay,
    landmarks_for_polynomial_decay,
    least_landmarks,
    mean_embedding_bound,
    nystrom_m_bound,
    nystrom_mmd_bound,
    rff_hsic_bound,
    v_statistic_bound,
)
from dhsic.analysis.law import DependenceLaw, dependence_law
from dhsic.analysis.spectrum import CovarianceSpectrum, covariance_spectrum

__all__ = [
    "CovarianceSpectrum",
    "DependenceLaw",
    "EmbeddingBound",
    "HSICBound",
    "MMDBound",
    "VStatisticBound",
    "covariance_spectrum",
    "dependence_law",
    "landmarks_for_exponential_decay",
    "landmarks_for_polynomial_decay",
    "least_landmarks",
    "mean_embedding_bound",
    "nystrom_m_bound",
    "nystrom_mmd_bound",
    "rff_hsic_bound",
    "v_statistic_bound",
]
