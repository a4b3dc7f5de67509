"""Theory of landmarks: effective dimensions, and bounds on errors."""

from dhsic.analysis.bounds import (
    EmbeddingBound,
    HSICBound,
    landmarks_for_exponential_decay,
    landmarks_for_polynomial_decay,
    least_landmarks,
    mean_embedding_bound,
    nystrom_m_bound,
)
from dhsic.analysis.spectrum import CovarianceSpectrum, covariance_spectrum

__all__ = [
    "CovarianceSpectrum",
    "EmbeddingBound",
    "HSICBound",
    "covariance_spectrum",
    "landmarks_for_exponential_decay",
    "landmarks_for_polynomial_decay",
    "least_landmarks",
    "mean_embedding_bound",
    "nystrom_m_bound",
]
